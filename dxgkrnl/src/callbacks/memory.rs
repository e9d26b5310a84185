// UNSAFETY: raw arguments of callbacks.
//! Handle data and contiguous memory.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nt::lock::lock;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::call::{Level, answer, argument, invalid, named_adapter, on_driver, on_link, refused, wrong_place};
use crate::adapter::{Adapter, adapters_of};
use nt::bugcheck::Bugcheck;
use nt::driver::Driver;
use nt::page::PAGE_SIZE;

/// Release handles are numbers that no address has.
static NEXT_RELEASE: AtomicUsize = AtomicUsize::new(0xd4a0_0000_0000_0010);

/// The driver's data behind a kernel handle, and the adapter it belongs to.
fn find(driver: &Arc<Driver>, data: &DXGKARGCB_GETHANDLEDATA) -> Option<(Arc<Adapter>, *mut c_void)> {
    adapters_of(driver).into_iter().find_map(|adapter| {
        let found = adapter.memory_manager()?.handle_data(data);
        (!found.is_null()).then_some((adapter, found))
    })
}

pub(super) unsafe extern "win64" fn get_handle_data(data: *const DXGKARGCB_GETHANDLEDATA) -> *mut c_void {
    const NAME: &str = "DxgkCbGetHandleData";
    on_driver(NAME, Level::UpToApc, |driver| {
        // SAFETY: numbers, handles and addresses, which any bytes are.
        let data = unsafe { argument(NAME, data) }?;
        Ok(find(driver, &data).map_or(std::ptr::null_mut(), |(_, found)| found))
    })
}

pub(super) unsafe extern "win64" fn get_handle_parent(allocation: D3DKMT_HANDLE) -> D3DKMT_HANDLE {
    on_driver("DxgkCbGetHandleParent", Level::UpToApc, |driver| {
        let parent = |adapter: Arc<Adapter>| adapter.memory_manager()?.handle_parent(allocation);
        Ok(adapters_of(driver).into_iter().find_map(parent).unwrap_or(0))
    })
}

pub(super) unsafe extern "win64" fn enum_handle_children(data: *const DXGKARGCB_ENUMHANDLECHILDREN) -> D3DKMT_HANDLE {
    const NAME: &str = "DxgkCbEnumHandleChildren";
    on_driver(NAME, Level::UpToApc, |driver| {
        // SAFETY: numbers and handles, which any bytes are.
        let data = unsafe { argument(NAME, data) }?;
        let child = |adapter: Arc<Adapter>| adapter.memory_manager()?.handle_child(data.hObject, data.Index);
        Ok(adapters_of(driver).into_iter().find_map(child).unwrap_or(0))
    })
}

pub(super) unsafe extern "win64" fn acquire_handle_data(
    data: *const DXGKARGCB_GETHANDLEDATA,
    release: *mut HANDLE,
) -> *mut c_void {
    const NAME: &str = "DxgkCbAcquireHandleData";
    on_driver(NAME, Level::UpToApc, |driver| {
        // SAFETY: numbers, handles and addresses, which any bytes are.
        let data = unsafe { argument(NAME, data) }?;
        let Some((adapter, found)) = find(driver, &data) else { return Ok(std::ptr::null_mut()) };
        let token = NEXT_RELEASE.fetch_add(0x10, Ordering::Relaxed);
        // SAFETY: the driver passes NULL or a place for the handle.
        if !unsafe { answer(NAME, release, core::ptr::without_provenance_mut(token)) }? {
            return Err(Bugcheck::fatal(format!("{NAME} without a place for the release handle")));
        }
        lock(&adapter.acquired).insert(token);
        Ok(found)
    })
}

pub(super) unsafe extern "win64" fn release_handle_data(data: DXGKARGCB_RELEASEHANDLEDATA) {
    const NAME: &str = "DxgkCbReleaseHandleData";
    on_driver(NAME, Level::UpToApc, |driver| {
        let token = data.ReleaseHandle.addr();
        if adapters_of(driver).iter().any(|adapter| lock(&adapter.acquired).remove(&token)) {
            Ok(())
        } else {
            Err(Bugcheck::fatal(format!("{NAME} with handle {token:#x}, which was not acquired")))
        }
    });
}

/// The reason why no contiguous memory has a size and a boundary, in words. The page says that a boundary must be 0 or a power of two, so that another one is a
/// mistake of the driver's; a block that is empty, or has to cross its boundary, it does not mention. [d3dkmddi: DXGKARGCB_ALLOCATECONTIGUOUSMEMORY]
fn wrong_block(adapter: &Adapter, name: &str, size: u64, boundary: u64) -> Option<NTSTATUS> {
    const PAGE: &str = "[d3dkmddi: DXGKARGCB_ALLOCATECONTIGUOUSMEMORY]";
    if boundary != 0 && !boundary.is_power_of_two() {
        let why = format!("BoundaryAddressMultiple is {boundary:#x}, and expected is 0 or a power of two {PAGE}");
        return Some(invalid(name, adapter, why));
    }
    let why = match (size, boundary) {
        (0, _) => format!("NumberOfBytes is 0 {PAGE}"),
        (_, 1..) if boundary < size => {
            format!("a block of {size:#x} bytes crosses each multiple of BoundaryAddressMultiple, {boundary:#x} {PAGE}")
        }
        _ => return None,
    };
    Some(refused(name, adapter, STATUS_INVALID_PARAMETER, why))
}

/// Contiguous memory that a device reaches. The contents are undefined.
pub(super) unsafe extern "win64" fn allocate_contiguous_memory(
    handle: HANDLE,
    args: *mut DXGKARGCB_ALLOCATECONTIGUOUSMEMORY,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbAllocateContiguousMemory";
    on_link(NAME, Level::UpToApc, handle, |adapter, _, link| {
        if let Some(why) = wrong_place("pAllocateContiguousMemory", args) {
            return Ok(invalid(NAME, adapter, format!("{why} [d3dkmddi: DXGKCB_ALLOCATECONTIGUOUSMEMORY]")));
        }
        // SAFETY: numbers, handles and addresses, which any bytes are.
        let mut asked = unsafe { argument(NAME, args) }?;
        let size = asked.NumberOfBytes as u64;
        let boundary = asked.BoundaryAddressMultiple.QuadPart as u64;
        if let Some(status) = wrong_block(adapter, NAME, size, boundary) {
            return Ok(status);
        }
        if adapter.miniport.driver().pool().fails_now() {
            return Ok(STATUS_NO_MEMORY);
        }
        // Aligned to its size rounded up, a block crosses no boundary that it fits in.
        let align = if boundary == 0 { Some(PAGE_SIZE) } else { size.checked_next_power_of_two() };
        let Some(pages) = align.and_then(|align| adapter.machine.ram().allocate(size, align.max(PAGE_SIZE))) else {
            return Ok(STATUS_NO_MEMORY);
        };
        let lowest = asked.LowestAcceptableAddress.QuadPart as u64;
        let highest = asked.HighestAcceptableAddress.QuadPart as u64;
        if pages.address() < lowest || pages.address() + pages.len() - 1 > highest {
            return Ok(STATUS_NO_MEMORY);
        }
        asked.pMemory = pages.kernel_address().as_ptr().cast();
        asked.hMemoryHandle = core::ptr::without_provenance_mut(link.resources.keep(pages));
        // SAFETY: the structure was read from there.
        unsafe { answer(NAME, args, asked) }?;
        Ok(STATUS_SUCCESS)
    })
}

pub(super) unsafe extern "win64" fn free_contiguous_memory(
    handle: HANDLE,
    args: *const DXGKARGCB_FREECONTIGUOUSMEMORY,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbFreeContiguousMemory";
    on_driver(NAME, Level::UpToApc, |driver| {
        // SAFETY: numbers, handles and addresses, which any bytes are.
        let memory = unsafe { argument(NAME, args) }?.hMemoryHandle.addr();
        let adapter = named_adapter(NAME, driver, handle)?;
        if adapter.link_of(handle).is_some_and(|(_, link)| link.resources.release(memory)) {
            return Ok(STATUS_SUCCESS);
        }
        Err(Bugcheck::new(
            Bugcheck::VIDEO_DXGKRNL_SYSMM_FATAL_ERROR,
            [1, memory as u64, 0, 0],
            format!("{NAME} with handle {memory:#x}, which is not memory of this adapter"),
        ))
    })
}
