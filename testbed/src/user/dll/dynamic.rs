//! Dynamic buffers through the C API.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use campanile_umd::c_api::{ContentsHandle, DynamicHandle};
use campanile_umd::{MapMode, Placement};

use super::{Device, Error, Fence, Library, Result, failed};

owner!(OwnedDynamic, DynamicHandle, campanile_dynamic_destroy);
owner!(OwnedContents, ContentsHandle, campanile_contents_unmap);

#[derive(Clone)]
pub(in super::super) struct DynamicBuffer {
    owned: Arc<OwnedDynamic>,
    size: u64,
}

pub(in super::super) struct DynamicMapping {
    owned: OwnedContents,
    start: *mut u8,
    size: u64,
    gpu_address: u64,
}

impl Device {
    pub(in super::super) fn create_dynamic_buffer(
        &self,
        size: u64,
        placement: Placement,
        most: u32,
    ) -> Result<DynamicBuffer> {
        let library = self.0.library;
        let mut handle = DynamicHandle { id: 0 };
        call!(library, campanile_dynamic_create(self.0.handle, size, placement as i32, most, &raw mut handle))?;
        Ok(DynamicBuffer { owned: Arc::new(OwnedDynamic { library, handle }), size })
    }
}

impl DynamicBuffer {
    pub(in super::super) fn map(&self, mode: MapMode, wait: bool) -> Result<DynamicMapping> {
        let OwnedDynamic { library, handle } = *self.owned;
        let mode = match mode {
            MapMode::Plain => 0,
            MapMode::NoOverwrite => 1,
            MapMode::Discard => 2,
        };
        let (mut contents, mut gpu_address) = (ContentsHandle { id: 0 }, 0);
        let mut start = null_mut::<c_void>();
        call!(
            library,
            campanile_dynamic_map(handle, mode, wait.into(), &raw mut contents, &raw mut start, &raw mut gpu_address)
        )?;
        let owned = OwnedContents { library, handle: contents };
        Ok(DynamicMapping { owned, start: start.cast(), size: self.size, gpu_address })
    }
}

impl DynamicMapping {
    pub(in super::super) fn gpu_address(&self) -> u64 {
        self.gpu_address
    }

    pub(in super::super) fn write(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 > self.size {
            return Err(Error::BadArgument("the range lies outside the buffer"));
        }
        // SAFETY: the contents have this many bytes, stay mapped as long as this exists, and no reference to them exists.
        unsafe { self.start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let OwnedContents { library, handle } = self.owned;
        call!(library, campanile_contents_synchronize(handle, 0, bytes.len() as u64))
    }

    pub(in super::super) fn use_until(&self, fence: &Fence, value: u64) -> Result<()> {
        let OwnedContents { library, handle } = self.owned;
        call!(library, campanile_contents_use_until(handle, fence.0.owned.handle, value))
    }
}
