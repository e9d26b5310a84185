//! Commands of command pools and command buffers.

use core::ffi::c_void;

use ash::vk;

use super::declaration::commands;
use super::descriptor;
use crate::app::App;
use crate::command::{CommandBuffer, CommandPool, Recorded, Recording};
use crate::descriptor::DescriptorSet;
use crate::device::Device;
use crate::failure::Answer;
use crate::handle::Object;
use crate::layout::PipelineLayout;
use crate::memory::{Buffer, Range};
use crate::pipeline::Pipeline;
use crate::query::{Form, QueryPool};
use crate::sync::Event;
use crate::template::Template;

commands! { app;
    vkCreateCommandPool: PFN_vkCreateCommandPool(device: vk::Device, info: *const vk::CommandPoolCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::CommandPool) -> vk::Result
        = app.object::<Device>(device).map(|device| app.put(out, CommandPool::new(device).register()));
    vkDestroyCommandPool: PFN_vkDestroyCommandPool(
        device: vk::Device, pool: vk::CommandPool, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(CommandPool::release(pool));
    vkResetCommandPool: PFN_vkResetCommandPool(
        device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags) -> vk::Result
        = CommandPool::needed(pool)
            .map(|pool| pool.reset(app, flags.contains(vk::CommandPoolResetFlags::RELEASE_RESOURCES)));
    vkTrimCommandPool: PFN_vkTrimCommandPool(device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolTrimFlags)
        = if let Some(pool) = CommandPool::of(pool) { pool.trim() };
    vkAllocateCommandBuffers: PFN_vkAllocateCommandBuffers(device: vk::Device,
        info: *const vk::CommandBufferAllocateInfo<'_>, out: *mut vk::CommandBuffer) -> vk::Result
        = allocate(app, info, out);
    vkFreeCommandBuffers: PFN_vkFreeCommandBuffers(
        device: vk::Device, pool: vk::CommandPool, count: u32, buffers: *const vk::CommandBuffer)
        = if let Some(pool) = CommandPool::of(pool) { pool.free(app, app.slice(buffers, count)) };
    vkBeginCommandBuffer: PFN_vkBeginCommandBuffer(
        buffer: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'_>) -> vk::Result
        = app.object::<CommandBuffer>(buffer).map(|buffer| buffer.recording().reset(false));
    vkEndCommandBuffer: PFN_vkEndCommandBuffer(buffer: vk::CommandBuffer) -> vk::Result
        = app.object::<CommandBuffer>(buffer).and_then(|buffer| buffer.recording().end());
    vkResetCommandBuffer: PFN_vkResetCommandBuffer(
        buffer: vk::CommandBuffer, flags: vk::CommandBufferResetFlags) -> vk::Result
        = app.object::<CommandBuffer>(buffer).map(|buffer| {
            buffer.recording().reset(flags.contains(vk::CommandBufferResetFlags::RELEASE_RESOURCES));
        });
    vkCmdBindPipeline: PFN_vkCmdBindPipeline(
        buffer: vk::CommandBuffer, point: vk::PipelineBindPoint, pipeline: vk::Pipeline)
        = record(app, buffer, |to| { to.bind_pipeline(Pipeline::needed(pipeline)?); Ok(()) });
    vkCmdBindDescriptorSets: PFN_vkCmdBindDescriptorSets(buffer: vk::CommandBuffer, point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout, first: u32, count: u32, sets: *const vk::DescriptorSet, offset_count: u32,
        offsets: *const u32)
        = record(app, buffer, |to| bind_sets(to, first, app.slice(sets, count), app.slice(offsets, offset_count)));
    vkCmdPushConstants: PFN_vkCmdPushConstants(buffer: vk::CommandBuffer, layout: vk::PipelineLayout,
        stages: vk::ShaderStageFlags, offset: u32, size: u32, values: *const c_void)
        = record(app, buffer, |to| { to.push_constants(offset, app.bytes(values, size as usize)); Ok(()) });
    vkCmdPushDescriptorSetKHR: PFN_vkCmdPushDescriptorSetKHR(buffer: vk::CommandBuffer, point: vk::PipelineBindPoint,
        layout: vk::PipelineLayout, set: u32, count: u32, writes: *const vk::WriteDescriptorSet<'_>)
        = record(app, buffer, |to| push_set(app, to, layout, set, app.slice(writes, count)));
    vkCmdPushDescriptorSetWithTemplateKHR: PFN_vkCmdPushDescriptorSetWithTemplateKHR(buffer: vk::CommandBuffer,
        template: vk::DescriptorUpdateTemplate, layout: vk::PipelineLayout, set: u32, data: *const c_void)
        = record(app, buffer, |to| push_template(app, to, Template::needed(template)?.as_ref(), layout, data));
    vkCmdDispatch: PFN_vkCmdDispatch(buffer: vk::CommandBuffer, x: u32, y: u32, z: u32)
        = record(app, buffer, |to| to.dispatch([0; 3], [x, y, z]));
    vkCmdDispatchBase: PFN_vkCmdDispatchBase(
        buffer: vk::CommandBuffer, base_x: u32, base_y: u32, base_z: u32, x: u32, y: u32, z: u32)
        = record(app, buffer, |to| to.dispatch([base_x, base_y, base_z], [x, y, z]));
    vkCmdDispatchIndirect: PFN_vkCmdDispatchIndirect(
        buffer: vk::CommandBuffer, groups: vk::Buffer, offset: vk::DeviceSize)
        = record(app, buffer, |to| to.dispatch_indirect(Buffer::needed(groups)?.as_ref(), offset));
    vkCmdCopyBuffer: PFN_vkCmdCopyBuffer(buffer: vk::CommandBuffer, from: vk::Buffer, to: vk::Buffer, count: u32,
        regions: *const vk::BufferCopy)
        = record(app, buffer, |recording| {
            let regions = app.slice(regions, count).iter();
            copy(recording, from, to, regions.map(|region| (region.src_offset, region.dst_offset, region.size)))
        });
    vkCmdCopyBuffer2: PFN_vkCmdCopyBuffer2(buffer: vk::CommandBuffer, info: *const vk::CopyBufferInfo2<'_>)
        = record(app, buffer, |recording| {
            let info = app.need(info)?;
            let regions = app.slice(info.p_regions, info.region_count).iter();
            let regions = regions.map(|region| (region.src_offset, region.dst_offset, region.size));
            copy(recording, info.src_buffer, info.dst_buffer, regions)
        });
    vkCmdFillBuffer: PFN_vkCmdFillBuffer(
        buffer: vk::CommandBuffer, to: vk::Buffer, offset: vk::DeviceSize, size: vk::DeviceSize, pattern: u32)
        = record(app, buffer, |recording| {
            recording.fill(Buffer::needed(to)?.range(offset, size), pattern);
            Ok(())
        });
    vkCmdUpdateBuffer: PFN_vkCmdUpdateBuffer(buffer: vk::CommandBuffer, to: vk::Buffer, offset: vk::DeviceSize,
        size: vk::DeviceSize, data: *const c_void)
        = record(app, buffer, |recording| {
            recording.update(Buffer::needed(to)?.range(offset, size), app.bytes(data, size as usize))
        });
    vkCmdPipelineBarrier: PFN_vkCmdPipelineBarrier(buffer: vk::CommandBuffer, from: vk::PipelineStageFlags,
        to: vk::PipelineStageFlags, flags: vk::DependencyFlags, memory_count: u32,
        memory: *const vk::MemoryBarrier<'_>, buffer_count: u32, buffers: *const vk::BufferMemoryBarrier<'_>,
        image_count: u32, images: *const vk::ImageMemoryBarrier<'_>)
        = ();
    vkCmdPipelineBarrier2: PFN_vkCmdPipelineBarrier2(
        buffer: vk::CommandBuffer, dependency: *const vk::DependencyInfo<'_>)
        = ();
    vkCmdSetEvent: PFN_vkCmdSetEvent(buffer: vk::CommandBuffer, event: vk::Event, stages: vk::PipelineStageFlags)
        = record(app, buffer, |to| signal(to, event, true));
    vkCmdSetEvent2: PFN_vkCmdSetEvent2(
        buffer: vk::CommandBuffer, event: vk::Event, dependency: *const vk::DependencyInfo<'_>)
        = record(app, buffer, |to| signal(to, event, true));
    vkCmdResetEvent: PFN_vkCmdResetEvent(buffer: vk::CommandBuffer, event: vk::Event, stages: vk::PipelineStageFlags)
        = record(app, buffer, |to| signal(to, event, false));
    vkCmdResetEvent2: PFN_vkCmdResetEvent2(
        buffer: vk::CommandBuffer, event: vk::Event, stages: vk::PipelineStageFlags2)
        = record(app, buffer, |to| signal(to, event, false));
    vkCmdWaitEvents: PFN_vkCmdWaitEvents(buffer: vk::CommandBuffer, count: u32, events: *const vk::Event,
        from: vk::PipelineStageFlags, to: vk::PipelineStageFlags, memory_count: u32,
        memory: *const vk::MemoryBarrier<'_>, buffer_count: u32, buffers: *const vk::BufferMemoryBarrier<'_>,
        image_count: u32, images: *const vk::ImageMemoryBarrier<'_>)
        = record(app, buffer, |to| wait(to, app.slice(events, count)));
    vkCmdWaitEvents2: PFN_vkCmdWaitEvents2(buffer: vk::CommandBuffer, count: u32, events: *const vk::Event,
        dependencies: *const vk::DependencyInfo<'_>)
        = record(app, buffer, |to| wait(to, app.slice(events, count)));
    vkCmdResetQueryPool: PFN_vkCmdResetQueryPool(buffer: vk::CommandBuffer, pool: vk::QueryPool, first: u32, count: u32)
        = record(app, buffer, |to| { to.reset_queries(QueryPool::needed(pool)?.as_ref(), first, count); Ok(()) });
    vkCmdWriteTimestamp: PFN_vkCmdWriteTimestamp(
        buffer: vk::CommandBuffer, stage: vk::PipelineStageFlags, pool: vk::QueryPool, query: u32)
        = record(app, buffer, |to| { to.timestamp(QueryPool::needed(pool)?.as_ref(), query); Ok(()) });
    vkCmdWriteTimestamp2: PFN_vkCmdWriteTimestamp2(
        buffer: vk::CommandBuffer, stage: vk::PipelineStageFlags2, pool: vk::QueryPool, query: u32)
        = record(app, buffer, |to| { to.timestamp(QueryPool::needed(pool)?.as_ref(), query); Ok(()) });
    vkCmdCopyQueryPoolResults: PFN_vkCmdCopyQueryPoolResults(buffer: vk::CommandBuffer, pool: vk::QueryPool,
        first: u32, count: u32, to: vk::Buffer, offset: vk::DeviceSize, stride: vk::DeviceSize,
        flags: vk::QueryResultFlags)
        = record(app, buffer, |recording| {
            let (pool, to) = (QueryPool::needed(pool)?, Buffer::needed(to)?.range(offset, vk::WHOLE_SIZE));
            recording.copy_queries(&pool, (first, count), to, stride, Form { flags })
        });
    vkCmdSetDeviceMask: PFN_vkCmdSetDeviceMask(buffer: vk::CommandBuffer, mask: u32)
        = ();
    vkCmdExecuteCommands: PFN_vkCmdExecuteCommands(
        buffer: vk::CommandBuffer, count: u32, buffers: *const vk::CommandBuffer)
        = record(app, buffer, |to| execute(app, to, app.slice(buffers, count)));
}

/// Records a command; an error is what vkEndCommandBuffer returns.
#[inline(always)]
pub(super) fn record(app: App<'_>, buffer: vk::CommandBuffer, command: impl FnOnce(&mut Recording) -> Recorded) {
    if let Ok(buffer) = app.object::<CommandBuffer>(buffer) {
        let mut recording = buffer.recording();
        let outcome = command(&mut recording);
        recording.note(outcome);
    }
}

fn allocate(app: App<'_>, info: *const vk::CommandBufferAllocateInfo<'_>, out: *mut vk::CommandBuffer) -> Answer<()> {
    let info = app.need(info)?;
    let buffers = CommandPool::needed(info.command_pool)?.allocate(info.command_buffer_count);
    for (index, buffer) in buffers.into_iter().enumerate() {
        app.put_at(out, index, buffer);
    }
    Ok(())
}

fn bind_sets(to: &mut Recording, first: u32, sets: &[vk::DescriptorSet], offsets: &[u32]) -> Recorded {
    let sets = sets.iter().map(|set| DescriptorSet::needed(*set)).collect::<Answer<Vec<_>>>()?;
    to.bind_sets(first, &sets, offsets);
    Ok(())
}

fn push_set(
    app: App<'_>,
    to: &mut Recording,
    layout: vk::PipelineLayout,
    set: u32,
    writes: &[vk::WriteDescriptorSet<'_>],
) -> Recorded {
    let layout = PipelineLayout::needed(layout)?;
    let of_set = layout.set(set).ok_or(vk::Result::ERROR_UNKNOWN)?;
    let writes: Vec<_> = writes.iter().filter_map(|write| descriptor::pushed(app, of_set, write)).collect();
    to.push_set(set, of_set, &writes);
    Ok(())
}

fn push_template(
    app: App<'_>,
    to: &mut Recording,
    template: &Template,
    layout: vk::PipelineLayout,
    data: *const c_void,
) -> Recorded {
    let layout = template.layout.clone().map_or_else(|| PipelineLayout::needed(layout), Ok)?;
    let set = layout.set(template.set).ok_or(vk::Result::ERROR_UNKNOWN)?;
    to.push_set(template.set, set, &template.writes(app, data, |binding| !set.names_all_of(binding)));
    Ok(())
}

fn copy(
    recording: &mut Recording,
    from: vk::Buffer,
    to: vk::Buffer,
    regions: impl Iterator<Item = (u64, u64, u64)>,
) -> Recorded {
    let (from, to) = (Buffer::needed(from)?, Buffer::needed(to)?);
    for (source, destination, size) in regions {
        let (source, destination): (Range, Range) = (from.range(source, size), to.range(destination, size));
        recording.copy(source, destination);
    }
    Ok(())
}

fn signal(to: &mut Recording, event: vk::Event, set: bool) -> Recorded {
    to.signal(Event::needed(event)?.point(set));
    Ok(())
}

fn wait(to: &mut Recording, events: &[vk::Event]) -> Recorded {
    for event in events {
        to.wait(Event::needed(*event)?.point(true));
    }
    Ok(())
}

/// Runs secondary command buffers.
fn execute(app: App<'_>, to: &mut Recording, buffers: &[vk::CommandBuffer]) -> Recorded {
    for buffer in buffers {
        to.append(&app.object::<CommandBuffer>(*buffer)?.recording());
    }
    Ok(())
}
