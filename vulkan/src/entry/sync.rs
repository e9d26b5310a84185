//! Commands of semaphores, fences, events, queries and private data.

use core::ffi::{c_int, c_void};

use ash::vk;

use super::declaration::commands;
use crate::app::App;
use crate::device::Device;
use crate::failure::Answer;
use crate::handle::Object;
use crate::names;
use crate::private_data;
use crate::query::{Form, QueryPool};
use crate::sync::{Event, Fence, Point, Semaphore, wait};

commands! { app;
    vkCreateSemaphore: PFN_vkCreateSemaphore(device: vk::Device, info: *const vk::SemaphoreCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Semaphore) -> vk::Result
        = create_semaphore(app, device, info, out);
    vkDestroySemaphore: PFN_vkDestroySemaphore(
        device: vk::Device, semaphore: vk::Semaphore, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Semaphore::release(semaphore));
    vkGetSemaphoreCounterValue: PFN_vkGetSemaphoreCounterValue(
        device: vk::Device, semaphore: vk::Semaphore, value: *mut u64) -> vk::Result
        = Semaphore::needed(semaphore).and_then(|semaphore| semaphore.value()).map(|now| app.put(value, now));
    vkSignalSemaphore: PFN_vkSignalSemaphore(device: vk::Device, info: *const vk::SemaphoreSignalInfo<'_>) -> vk::Result
        = app.need(info).and_then(|info| Semaphore::needed(info.semaphore)?.signal_now(info.value));
    vkWaitSemaphores: PFN_vkWaitSemaphores(
        device: vk::Device, info: *const vk::SemaphoreWaitInfo<'_>, timeout: u64) -> vk::Result
        = app.need(info).and_then(|info| wait_semaphores(app, info, timeout));
    vkCreateFence: PFN_vkCreateFence(device: vk::Device, info: *const vk::FenceCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Fence) -> vk::Result
        = create_fence(app, device, info, out);
    vkDestroyFence: PFN_vkDestroyFence(
        device: vk::Device, fence: vk::Fence, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Fence::release(fence));
    vkResetFences: PFN_vkResetFences(device: vk::Device, count: u32, fences: *const vk::Fence) -> vk::Result
        = app.slice(fences, count).iter().try_for_each(|fence| Fence::needed(*fence)?.reset());
    vkGetFenceStatus: PFN_vkGetFenceStatus(device: vk::Device, fence: vk::Fence) -> vk::Result
        = Fence::needed(fence).and_then(|fence| {
            Ok(if fence.is_signalled()? { vk::Result::SUCCESS } else { vk::Result::NOT_READY })
        });
    vkWaitForFences: PFN_vkWaitForFences(
        device: vk::Device, count: u32, fences: *const vk::Fence, all: vk::Bool32, timeout: u64) -> vk::Result
        = wait_fences(app.slice(fences, count), all != vk::FALSE, timeout);
    vkGetSemaphoreFdKHR: PFN_vkGetSemaphoreFdKHR(
        device: vk::Device, info: *const vk::SemaphoreGetFdInfoKHR<'_>, out: *mut c_int) -> vk::Result
        = app.need(info).and_then(|info| match info.handle_type {
            vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD => Semaphore::needed(info.semaphore)?.export(),
            _ => Err(vk::Result::ERROR_UNKNOWN),
        }).map(|fd| app.put(out, fd));
    vkImportSemaphoreFdKHR: PFN_vkImportSemaphoreFdKHR(
        device: vk::Device, info: *const vk::ImportSemaphoreFdInfoKHR<'_>) -> vk::Result
        = app.need(info).and_then(|info| import_semaphore(app, device, info));
    vkGetFenceFdKHR: PFN_vkGetFenceFdKHR(
        device: vk::Device, info: *const vk::FenceGetFdInfoKHR<'_>, out: *mut c_int) -> vk::Result
        = app.need(info).and_then(|info| match info.handle_type {
            vk::ExternalFenceHandleTypeFlags::OPAQUE_FD => Fence::needed(info.fence)?.export(),
            _ => Err(vk::Result::ERROR_UNKNOWN),
        }).map(|fd| app.put(out, fd));
    vkImportFenceFdKHR: PFN_vkImportFenceFdKHR(
        device: vk::Device, info: *const vk::ImportFenceFdInfoKHR<'_>) -> vk::Result
        = app.need(info).and_then(|info| import_fence(app, device, info));
    vkCreateEvent: PFN_vkCreateEvent(device: vk::Device, info: *const vk::EventCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::Event) -> vk::Result
        = app.object::<Device>(device).and_then(Event::new).map(|event| app.put(out, event.register()));
    vkDestroyEvent: PFN_vkDestroyEvent(
        device: vk::Device, event: vk::Event, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(Event::release(event));
    vkGetEventStatus: PFN_vkGetEventStatus(device: vk::Device, event: vk::Event) -> vk::Result
        = Event::needed(event).and_then(|event| {
            Ok(if event.is_set()? { vk::Result::EVENT_SET } else { vk::Result::EVENT_RESET })
        });
    vkSetEvent: PFN_vkSetEvent(device: vk::Device, event: vk::Event) -> vk::Result
        = Event::needed(event).and_then(|event| event.set(true));
    vkResetEvent: PFN_vkResetEvent(device: vk::Device, event: vk::Event) -> vk::Result
        = Event::needed(event).and_then(|event| event.set(false));
    vkCreateQueryPool: PFN_vkCreateQueryPool(device: vk::Device, info: *const vk::QueryPoolCreateInfo<'_>,
        allocator: *const vk::AllocationCallbacks<'_>, out: *mut vk::QueryPool) -> vk::Result
        = create_query_pool(app, device, info, out);
    vkDestroyQueryPool: PFN_vkDestroyQueryPool(
        device: vk::Device, pool: vk::QueryPool, allocator: *const vk::AllocationCallbacks<'_>)
        = drop(QueryPool::release(pool));
    vkResetQueryPool: PFN_vkResetQueryPool(device: vk::Device, pool: vk::QueryPool, first: u32, count: u32)
        = if let Some(pool) = QueryPool::of(pool) { pool.reset(first, count) };
    vkGetQueryPoolResults: PFN_vkGetQueryPoolResults(device: vk::Device, pool: vk::QueryPool, first: u32, count: u32,
        size: usize, data: *mut c_void, stride: vk::DeviceSize, flags: vk::QueryResultFlags) -> vk::Result
        = QueryPool::needed(pool).and_then(|pool| {
            let (results, complete) = pool.results(first, count, Form { flags })?;
            for (index, result) in results.iter().enumerate() {
                let at = index.saturating_mul(stride as usize).saturating_add(result.offset);
                let capacity = size.saturating_sub(at);
                app.put_bytes(data, at, result.bytes.get(..capacity).unwrap_or(&result.bytes));
            }
            Ok(if complete { vk::Result::SUCCESS } else { vk::Result::NOT_READY })
        });
    vkCreatePrivateDataSlot: PFN_vkCreatePrivateDataSlot(device: vk::Device,
        info: *const vk::PrivateDataSlotCreateInfo<'_>, allocator: *const vk::AllocationCallbacks<'_>,
        out: *mut vk::PrivateDataSlot) -> vk::Result
        = { app.put(out, vk::Handle::from_raw(private_data::create())); Ok(()) };
    vkDestroyPrivateDataSlot: PFN_vkDestroyPrivateDataSlot(
        device: vk::Device, slot: vk::PrivateDataSlot, allocator: *const vk::AllocationCallbacks<'_>)
        = private_data::destroy(vk::Handle::as_raw(slot));
    vkSetPrivateData: PFN_vkSetPrivateData(device: vk::Device, kind: vk::ObjectType, object: u64,
        slot: vk::PrivateDataSlot, data: u64) -> vk::Result
        = match private_data::set(vk::Handle::as_raw(slot), (kind, object), data) {
            true => Ok(()),
            false => Err(vk::Result::ERROR_UNKNOWN),
        };
    vkGetPrivateData: PFN_vkGetPrivateData(device: vk::Device, kind: vk::ObjectType, object: u64,
        slot: vk::PrivateDataSlot, data: *mut u64)
        = app.put(data, private_data::get(vk::Handle::as_raw(slot), (kind, object)));
}

fn create_semaphore(
    app: App<'_>,
    device: vk::Device,
    info: *const vk::SemaphoreCreateInfo<'_>,
    out: *mut vk::Semaphore,
) -> Answer<()> {
    let (device, info) = (app.object::<Device>(device)?, app.need(info)?);
    let kind = app.find::<vk::SemaphoreTypeCreateInfo<'_>>(info.p_next);
    let timeline = kind.filter(|kind| kind.semaphore_type == vk::SemaphoreType::TIMELINE);
    let export = app.find::<vk::ExportSemaphoreCreateInfo<'_>>(info.p_next);
    let opaque = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;
    let exportable = export.is_some_and(|export| export.handle_types.contains(opaque));
    let semaphore = Semaphore::new(device, timeline.map(|kind| kind.initial_value), exportable)?;
    app.put(out, semaphore.register());
    Ok(())
}

fn import_semaphore(app: App<'_>, device: vk::Device, info: &vk::ImportSemaphoreFdInfoKHR<'_>) -> Answer<()> {
    if info.handle_type != vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD {
        return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
    }
    let is_temporary = info.flags.contains(vk::SemaphoreImportFlags::TEMPORARY);
    let semaphore = Semaphore::needed(info.semaphore)?;
    semaphore.import(app.object(device)?, info.fd, is_temporary)?;
    names::imported((vk::ObjectType::SEMAPHORE, vk::Handle::as_raw(info.semaphore)), semaphore.native_handle());
    Ok(())
}

fn import_fence(app: App<'_>, device: vk::Device, info: &vk::ImportFenceFdInfoKHR<'_>) -> Answer<()> {
    if info.handle_type != vk::ExternalFenceHandleTypeFlags::OPAQUE_FD {
        return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
    }
    let is_temporary = info.flags.contains(vk::FenceImportFlags::TEMPORARY);
    let fence = Fence::needed(info.fence)?;
    fence.import(app.object(device)?, info.fd, is_temporary)?;
    names::imported((vk::ObjectType::FENCE, vk::Handle::as_raw(info.fence)), fence.native_handle());
    Ok(())
}

fn wait_semaphores(app: App<'_>, info: &vk::SemaphoreWaitInfo<'_>, timeout: u64) -> Answer<vk::Result> {
    let semaphores = app.slice(info.p_semaphores, info.semaphore_count).iter();
    let values = app.slice(info.p_values, info.semaphore_count);
    let points = semaphores.zip(values).map(|(semaphore, value)| Ok(Semaphore::needed(*semaphore)?.point(*value)));
    let any = info.flags.contains(vk::SemaphoreWaitFlags::ANY);
    wait(&points.collect::<Answer<Vec<Point>>>()?, !any, timeout)
}

fn create_fence(
    app: App<'_>,
    device: vk::Device,
    info: *const vk::FenceCreateInfo<'_>,
    out: *mut vk::Fence,
) -> Answer<()> {
    let (device, info) = (app.object::<Device>(device)?, app.need(info)?);
    let export = app.find::<vk::ExportFenceCreateInfo<'_>>(info.p_next);
    let opaque = vk::ExternalFenceHandleTypeFlags::OPAQUE_FD;
    let exportable = export.is_some_and(|export| export.handle_types.contains(opaque));
    let fence = Fence::new(device, info.flags.contains(vk::FenceCreateFlags::SIGNALED), exportable)?;
    app.put(out, fence.register());
    Ok(())
}

fn wait_fences(fences: &[vk::Fence], all: bool, timeout: u64) -> Answer<vk::Result> {
    let points = fences.iter().map(|fence| Ok(Fence::needed(*fence)?.point()));
    wait(&points.collect::<Answer<Vec<Point>>>()?, all, timeout)
}

fn create_query_pool(
    app: App<'_>,
    device: vk::Device,
    info: *const vk::QueryPoolCreateInfo<'_>,
    out: *mut vk::QueryPool,
) -> Answer<()> {
    let (device, info) = (app.object::<Device>(device)?, app.need(info)?);
    // Queries of other types need features that there are not.
    if info.query_type != vk::QueryType::TIMESTAMP {
        return Err(vk::Result::ERROR_UNKNOWN);
    }
    app.put(out, QueryPool::new(device, info.query_count)?.register());
    Ok(())
}
