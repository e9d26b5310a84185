//! Buffers that the CPU rewrites while the GPU is at work on them.

pub use campanile_umd::MapMode;

use super::{Device, DeviceInner, Fence, FenceInner, Placement, Result, STRANGER, dll};

either! {
    #[doc = "A buffer with contents that can be renamed. Clones share it. Any number of threads may map it."]
    #[derive(Clone)]
    DynamicBuffer, DynamicBufferInner
}

either! {
    #[doc = "Contents of a [`DynamicBuffer`] as the CPU sees them, until dropped. They are not renamed meanwhile."]
    DynamicMapping, DynamicMappingInner
}

impl Device {
    /// Creates a dynamic buffer with at most so many contents.
    ///
    /// # Errors
    /// As [`campanile_umd::Device::create_dynamic_buffer`].
    pub fn create_dynamic_buffer(&self, size: u64, placement: Placement, most: u32) -> Result<DynamicBuffer> {
        Ok(DynamicBuffer(match &self.0 {
            DeviceInner::Linked(device) => {
                DynamicBufferInner::Linked(device.create_dynamic_buffer(size, placement, most as usize)?)
            }
            DeviceInner::Dll(device) => DynamicBufferInner::Dll(device.create_dynamic_buffer(size, placement, most)?),
        }))
    }
}

impl DynamicBuffer {
    /// Maps contents.
    ///
    /// # Errors
    /// As [`campanile_umd::DynamicBuffer::map`].
    pub fn map(&self, mode: MapMode, wait: bool) -> Result<DynamicMapping> {
        Ok(DynamicMapping(match &self.0 {
            DynamicBufferInner::Linked(buffer) => DynamicMappingInner::Linked(buffer.map(mode, wait)?),
            DynamicBufferInner::Dll(buffer) => DynamicMappingInner::Dll(buffer.map(mode, wait)?),
        }))
    }
}

impl DynamicMapping {
    /// First GPU virtual address of these contents.
    pub fn gpu_address(&self) -> u64 {
        on!(&self.0, DynamicMappingInner, mapping => mapping.gpu_address(), mapping.gpu_address())
    }

    /// Copies `bytes` to the beginning of the contents.
    ///
    /// # Errors
    /// They do not fit; nothing is copied.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        on!(&self.0, DynamicMappingInner, mapping => Ok(mapping.bytes().write(0, bytes)?), mapping.write(bytes))
    }

    /// Says that queued work uses these contents until `fence` reaches `value`.
    ///
    /// # Errors
    /// The DLL refused.
    pub fn use_until(&self, fence: &Fence, value: u64) -> Result<()> {
        match (&self.0, &fence.0) {
            (DynamicMappingInner::Linked(mapping), FenceInner::Linked(fence)) => {
                mapping.use_until(fence, value);
                Ok(())
            }
            (DynamicMappingInner::Dll(mapping), FenceInner::Dll(fence)) => mapping.use_until(fence, value),
            _ => Err(STRANGER),
        }
    }
}
