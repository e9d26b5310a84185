//! Dynamic buffers.

use core::ffi::c_void;

use super::{DeviceHandle, FenceHandle, Out, Status, finish, handles, size};
use crate::{
    Device, Fence, Placement,
    c_api::handles::Object,
    dynamic::{DynamicBuffer, DynamicMapping, MapMode},
};

/// Promise of the application about the accesses to a mapping.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicMode {
    /// To read or change the present contents, once no queued work uses them.
    Plain = 0,
    /// To write at once what no queued work uses; all other bytes stay as they are.
    NoOverwrite = 1,
    /// To write everything anew; another contents of the pool if queued work uses the present ones.
    Discard = 2,
}

/// A buffer that the CPU rewrites while the GPU is at work on it. Any number of threads may map it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DynamicHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// Contents of a dynamic buffer that are mapped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ContentsHandle {
    /// The handle; 0 is none.
    pub id: u64,
}

/// Creates a dynamic buffer of `size` bytes with 1 to 64 `contents`, of which the first is made now; `placement` is a
/// campanile_placement, not CAMPANILE_PLACEMENT_VRAM.
///
/// # Safety
/// `dynamic` is writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_dynamic_create(
    device: DeviceHandle,
    size: u64,
    placement: i32,
    contents: u32,
    dynamic: *mut DynamicHandle,
) -> i32 {
    finish((|| {
        let out = Out::new(dynamic)?;
        let placement = u32::try_from(placement).ok().and_then(Placement::from_number).ok_or(Status::BadArgument)?;
        let most = usize::try_from(contents).map_err(|_| Status::BadArgument)?;
        let created =
            handles::with(device.id, |device: &Device| Ok(device.create_dynamic_buffer(size, placement, most)?))?;
        let id = handles::insert(Object::Dynamic(created))?;
        // SAFETY: as the caller promises.
        unsafe { out.set(DynamicHandle { id }) };
        Ok(())
    })())
}

/// Destroys a dynamic buffer. Contents that are mapped stay until they are unmapped; work that uses any must be done.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_dynamic_destroy(dynamic: DynamicHandle) -> i32 {
    finish(handles::remove::<DynamicBuffer>(dynamic.id))
}

/// Maps a dynamic buffer; `mode` is a campanile_dynamic_mode. With `wait` 0 the answer comes at once:
/// CAMPANILE_STATUS_WAS_STILL_DRAWING if queued work is in the way. The contents stay mapped, and are not renamed, until
/// campanile_contents_unmap.
///
/// # Safety
/// `contents`, `address` and `gpu_address` are writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn campanile_dynamic_map(
    dynamic: DynamicHandle,
    mode: i32,
    wait: i32,
    contents: *mut ContentsHandle,
    address: *mut *mut c_void,
    gpu_address: *mut u64,
) -> i32 {
    finish((|| {
        let (contents, address, gpu_address) = (Out::new(contents)?, Out::new(address)?, Out::new(gpu_address)?);
        let mode = match mode {
            0 => MapMode::Plain,
            1 => MapMode::NoOverwrite,
            2 => MapMode::Discard,
            _ => return Err(Status::BadArgument.into()),
        };
        // A clone, so that other calls can use the handle while this one waits.
        let dynamic = handles::with(dynamic.id, |dynamic: &DynamicBuffer| Ok(dynamic.clone()))?;
        let mapping = dynamic.map(mode, wait != 0)?;
        let (start, gpu) = (mapping.bytes().as_ptr(), mapping.gpu_address());
        let id = handles::insert(Object::Contents(mapping))?;
        // SAFETY: as the caller promises.
        unsafe { contents.set(ContentsHandle { id }) };
        // SAFETY: as the caller promises.
        unsafe { address.set(start.cast()) };
        // SAFETY: as the caller promises.
        unsafe { gpu_address.set(gpu) };
        Ok(())
    })())
}

/// Says that queued work uses mapped contents until `fence` reaches `value`. To be said before they are unmapped.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_contents_use_until(contents: ContentsHandle, fence: FenceHandle, value: u64) -> i32 {
    finish((|| {
        let fence = handles::with(fence.id, |fence: &Fence| Ok(fence.clone()))?;
        handles::with(contents.id, |contents: &DynamicMapping| {
            contents.use_until(&fence, value);
            Ok(())
        })
    })())
}

/// As campanile_buffer_synchronize, for mapped contents.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_contents_synchronize(contents: ContentsHandle, offset: u64, length: u64) -> i32 {
    finish(handles::with(contents.id, |contents: &DynamicMapping| {
        Ok(contents.bytes().synchronize(size(offset)?, size(length)?)?)
    }))
}

/// Ends a map of contents; the address is not to be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_contents_unmap(contents: ContentsHandle) -> i32 {
    finish(handles::remove::<DynamicMapping>(contents.id))
}
