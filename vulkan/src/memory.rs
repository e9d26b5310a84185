//! Device memory and buffers. Memory is an allocation that is resident and has GPU virtual addresses; a buffer is a range of them.

use core::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ash::vk;
use campanile_umd::{Buffer as Allocation, Mapping};

use crate::device::Device;
use crate::external;
use crate::failure::{Answer, result};
use crate::handle::objects;
use crate::physical::ALIGNMENT;

objects! {
    DeviceMemory => vk::DeviceMemory,
    Buffer => vk::Buffer,
}

/// An allocation.
pub(crate) struct DeviceMemory {
    mapping: Mutex<Option<Mapping>>,
    allocation: Allocation,
}

impl DeviceMemory {
    /// Allocates memory of a type, which can be exported or not.
    ///
    /// # Errors
    /// VK_ERROR_OUT_OF_DEVICE_MEMORY and what else the operating system refuses.
    pub(crate) fn new(device: &Device, kind: u32, size: u64, exportable: bool) -> Answer<Self> {
        let kind = device.kind(kind)?;
        if size > kind.limit {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let device = device.umd();
        let allocation = if exportable {
            device.create_shared_buffer(size, kind.placement)
        } else {
            device.create_buffer(size, kind.placement)
        };
        Ok(Self { mapping: Mutex::new(None), allocation: allocation.map_err(result)? })
    }

    /// Opens memory of another device by a descriptor, which is the driver's from then on.
    ///
    /// # Errors
    /// VK_ERROR_INVALID_EXTERNAL_HANDLE for a descriptor of anything else, and for memory of another type or size; as [`external::import`].
    pub(crate) fn import(device: &Device, kind: u32, size: u64, descriptor: c_int) -> Answer<Self> {
        let kind = device.kind(kind)?;
        external::import(device.umd(), descriptor, |handle| {
            let allocation = device.umd().open_buffer(handle.raw()).map_err(external::refused)?;
            if (allocation.size(), allocation.placement()) != (size, kind.placement) {
                return Err(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE);
            }
            Ok(Self { mapping: Mutex::new(None), allocation })
        })
    }

    /// A descriptor of the memory.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for memory that was allocated without VkExportMemoryAllocateInfo; as [`external::export`].
    pub(crate) fn export(&self) -> Answer<c_int> {
        external::export(&self.allocation.share().map_err(result)?)
    }

    /// Handle of the allocation in the operating system.
    pub(crate) fn native_handle(&self) -> u32 {
        self.allocation.handle()
    }

    /// Bytes asked for.
    pub(crate) fn size(&self) -> u64 {
        self.allocation.size()
    }

    /// GPU virtual address of a range.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for one that does not lie inside.
    pub(crate) fn place(&self, offset: u64, size: u64) -> Answer<u64> {
        if offset.checked_add(size).is_none_or(|end| end > self.allocation.size()) {
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        Ok(self.allocation.gpu_address() + offset)
    }

    /// Maps the whole allocation; returns the address of the byte at `offset`.
    ///
    /// # Errors
    /// VK_ERROR_MEMORY_MAP_FAILED for memory that the processor does not see, and for an offset behind its end.
    pub(crate) fn map(&self, offset: u64) -> Answer<*mut u8> {
        if offset >= self.allocation.size() {
            return Err(vk::Result::ERROR_MEMORY_MAP_FAILED);
        }
        let mut mapping = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = match mapping.as_ref() {
            Some(mapped) => mapped,
            None => mapping.insert(self.allocation.map().map_err(result)?),
        };
        Ok(mapped.as_ptr().wrapping_add(offset as usize))
    }

    /// Ends the mapping.
    pub(crate) fn unmap(&self) {
        drop(self.mapping.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Makes stores of processor and GPU to a range visible to each other.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn synchronize(&self, offset: u64, size: u64) -> Answer<()> {
        let mapping = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mapped) = mapping.as_ref() else { return Err(vk::Result::ERROR_UNKNOWN) };
        // The range may end with the atom behind the last byte.
        let left = self.allocation.size().saturating_sub(offset);
        mapped.synchronize(offset as usize, size.min(left) as usize).map_err(result)
    }
}

/// A buffer.
pub(crate) struct Buffer {
    size: u64,
    bound: OnceLock<Bound>,
}

/// The memory of a buffer.
struct Bound {
    address: u64,
    /// Stays as long as the buffer.
    memory: Arc<DeviceMemory>,
}

/// A range of GPU virtual addresses; as the descriptor of an image and a sampler, the addresses of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl Buffer {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, bound: OnceLock::new() }
    }

    /// Gives the buffer its memory.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN if it has memory, or does not fit there.
    pub(crate) fn bind(&self, memory: Arc<DeviceMemory>, offset: u64) -> Answer<()> {
        let address = memory.place(offset, self.size)?;
        self.bound.set(Bound { address, memory }).map_err(|_| vk::Result::ERROR_UNKNOWN)
    }

    /// GPU virtual address of the first byte; 0 before it has memory.
    pub(crate) fn address(&self) -> u64 {
        self.bound.get().map_or(0, |bound| bound.address)
    }

    /// The memory that it has.
    pub(crate) fn memory(&self) -> Option<&DeviceMemory> {
        self.bound.get().map(|bound| &*bound.memory)
    }

    /// The bytes from `offset` on: `size` of them, or all with VK_WHOLE_SIZE. A range that the buffer does not have is cut off.
    pub(crate) fn range(&self, offset: u64, size: u64) -> Range {
        let offset = offset.min(self.size);
        match self.address() {
            0 => Range::default(),
            address => Range { address: address + offset, size: size.min(self.size - offset) },
        }
    }
}

/// Size, alignment and memory types for a buffer of `size` bytes.
pub(crate) fn requirements(device: &Device, size: u64) -> vk::MemoryRequirements {
    vk::MemoryRequirements {
        // No memory can contain a buffer of a size that cannot be aligned.
        size: size.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX),
        alignment: ALIGNMENT,
        memory_type_bits: device.kind_bits(),
    }
}

impl Buffer {
    /// Size, alignment and memory types for the buffer.
    pub(crate) fn requirements(&self, device: &Device) -> vk::MemoryRequirements {
        requirements(device, self.size)
    }
}
