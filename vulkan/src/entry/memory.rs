//! Commands of memory and buffers.

use core::ffi::{c_int, c_void};

use ash::vk;

use super::debug::buffer_bound;
use super::declaration::commands;
use crate::app::App;
use crate::device::Device;
use crate::failure::Answer;
use crate::handle::Object;
use crate::memory::{Buffer, DeviceMemory, requirements};

commands! { app;
    vkAllocateMemory: PFN_vkAllocateMemory(device: vk::Device, info: *const vk::MemoryAllocateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::DeviceMemory) -> vk::Result
        = allocate(app, device, info, out);
    vkFreeMemory: PFN_vkFreeMemory(
        device: vk::Device, memory: vk::DeviceMemory, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(DeviceMemory::release(memory));
    vkGetMemoryFdKHR: PFN_vkGetMemoryFdKHR(
        device: vk::Device, info: *const vk::MemoryGetFdInfoKHR<'_>, out: *mut c_int) -> vk::Result
        = app.need(info).and_then(|info| match info.handle_type {
            vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD => DeviceMemory::needed(info.memory)?.export(),
            _ => Err(vk::Result::ERROR_UNKNOWN),
        }).map(|fd| app.put(out, fd));
    // Only descriptors of other types than opaque ones have properties, and there are none.
    vkGetMemoryFdPropertiesKHR: PFN_vkGetMemoryFdPropertiesKHR(device: vk::Device,
        kind: vk::ExternalMemoryHandleTypeFlags, fd: c_int, out: *mut vk::MemoryFdPropertiesKHR<'_>) -> vk::Result
        = Answer::<()>::Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
    vkMapMemory: PFN_vkMapMemory(device: vk::Device, memory: vk::DeviceMemory, offset: vk::DeviceSize,
        size: vk::DeviceSize, flags: vk::MemoryMapFlags, out: *mut *mut c_void) -> vk::Result
        = DeviceMemory::needed(memory).and_then(|memory| memory.map(offset)).map(|at| app.put(out, at.cast()));
    vkUnmapMemory: PFN_vkUnmapMemory(device: vk::Device, memory: vk::DeviceMemory)
        = if let Some(memory) = DeviceMemory::of(memory) { memory.unmap() };
    vkFlushMappedMemoryRanges: PFN_vkFlushMappedMemoryRanges(
        device: vk::Device, count: u32, ranges: *const vk::MappedMemoryRange<'_>) -> vk::Result
        = synchronize(app.slice(ranges, count));
    vkInvalidateMappedMemoryRanges: PFN_vkInvalidateMappedMemoryRanges(
        device: vk::Device, count: u32, ranges: *const vk::MappedMemoryRange<'_>) -> vk::Result
        = synchronize(app.slice(ranges, count));
    vkGetDeviceMemoryCommitment: PFN_vkGetDeviceMemoryCommitment(
        device: vk::Device, memory: vk::DeviceMemory, bytes: *mut vk::DeviceSize)
        = app.put(bytes, DeviceMemory::of(memory).map_or(0, |memory| memory.size()));
    vkGetDeviceMemoryOpaqueCaptureAddress: PFN_vkGetDeviceMemoryOpaqueCaptureAddress(
        device: vk::Device, info: *const vk::DeviceMemoryOpaqueCaptureAddressInfo<'_>) -> u64
        = 0u64;
    vkCreateBuffer: PFN_vkCreateBuffer(device: vk::Device, info: *const vk::BufferCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Buffer) -> vk::Result
        = app.need(info).map(|info| app.put(out, Buffer::new(info.size).register()));
    vkDestroyBuffer: PFN_vkDestroyBuffer(
        device: vk::Device, buffer: vk::Buffer, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Buffer::release(buffer));
    vkBindBufferMemory: PFN_vkBindBufferMemory(
        device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: vk::DeviceSize) -> vk::Result
        = bind(buffer, memory, offset);
    vkBindBufferMemory2: PFN_vkBindBufferMemory2(
        device: vk::Device, count: u32, infos: *const vk::BindBufferMemoryInfo<'_>) -> vk::Result
        = app.slice(infos, count).iter().try_for_each(|info| bind(info.buffer, info.memory, info.memory_offset));
    vkGetBufferMemoryRequirements: PFN_vkGetBufferMemoryRequirements(
        device: vk::Device, buffer: vk::Buffer, out: *mut vk::MemoryRequirements)
        = if let (Ok(device), Some(buffer)) = (app.object::<Device>(device), Buffer::of(buffer)) {
            app.put(out, buffer.requirements(device));
        };
    vkGetBufferMemoryRequirements2: PFN_vkGetBufferMemoryRequirements2(device: vk::Device,
        info: *const vk::BufferMemoryRequirementsInfo2<'_>, out: *mut vk::MemoryRequirements2<'_>)
        = if let (Ok(device), Some(info)) = (app.object::<Device>(device), app.get(info))
            && let Some(buffer) = Buffer::of(info.buffer)
        {
            put_requirements(app, out, buffer.requirements(device));
        };
    vkGetDeviceBufferMemoryRequirements: PFN_vkGetDeviceBufferMemoryRequirements(device: vk::Device,
        info: *const vk::DeviceBufferMemoryRequirements<'_>, out: *mut vk::MemoryRequirements2<'_>)
        = if let (Ok(device), Some(info)) = (app.object::<Device>(device), app.get(info))
            && let Some(buffer) = app.get(info.p_create_info)
        {
            put_requirements(app, out, requirements(device, buffer.size));
        };
    vkGetBufferDeviceAddress: PFN_vkGetBufferDeviceAddress(
        device: vk::Device, info: *const vk::BufferDeviceAddressInfo<'_>) -> vk::DeviceAddress
        = app.get(info).and_then(|info| Buffer::of(info.buffer)).map_or(0, |buffer| buffer.address());
    vkGetBufferOpaqueCaptureAddress: PFN_vkGetBufferOpaqueCaptureAddress(
        device: vk::Device, info: *const vk::BufferDeviceAddressInfo<'_>) -> u64
        = 0u64;
}

fn allocate(
    app: App<'_>,
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    out: *mut vk::DeviceMemory,
) -> Answer<()> {
    let (device, info) = (app.object::<Device>(device)?, app.need(info)?);
    let (kind, size) = (info.memory_type_index, info.allocation_size);
    let import = app.find::<vk::ImportMemoryFdInfoKHR<'_>>(info.p_next).filter(|import| !import.handle_type.is_empty());
    let export = app.find::<vk::ExportMemoryAllocateInfo<'_>>(info.p_next);
    let memory = match import {
        Some(import) if import.handle_type == vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD => {
            DeviceMemory::import(device, kind, size, import.fd)?
        }
        Some(_) => return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE),
        None => DeviceMemory::new(
            device,
            kind,
            size,
            export.is_some_and(|export| export.handle_types.contains(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD)),
        )?,
    };
    app.put(out, memory.register());
    Ok(())
}

fn bind(buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64) -> Answer<()> {
    Buffer::needed(buffer)?.bind(DeviceMemory::needed(memory)?, offset)?;
    buffer_bound(buffer)
}

fn synchronize(ranges: &[vk::MappedMemoryRange<'_>]) -> Answer<()> {
    ranges.iter().try_for_each(|range| DeviceMemory::needed(range.memory)?.synchronize(range.offset, range.size))
}

pub(super) fn put_requirements(
    app: App<'_>,
    out: *mut vk::MemoryRequirements2<'_>,
    requirements: vk::MemoryRequirements,
) {
    app.change(out, |out| {
        out.memory_requirements = requirements;
        app.extend::<vk::MemoryDedicatedRequirements<'_>>(out.p_next, |dedicated| {
            dedicated.prefers_dedicated_allocation = vk::FALSE;
            dedicated.requires_dedicated_allocation = vk::FALSE;
        });
    });
}
