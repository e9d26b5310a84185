//! Private driver data: records that the user-mode driver and the kernel-mode driver exchange through thunks and DDIs.
//!
//! The kernel-mode driver treats every byte of it as hostile.

/// First word of every record.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CPDD");

record! {
    /// Answer to a UMDRIVERPRIVATE query (KMTQAITYPE_UMDRIVERPRIVATE).
    pub struct AdapterData[64] {
        /// [`MAGIC`].
        0x00 magic: u32,
        /// `INTERFACE_VERSION` of the hardware.
        0x04 version: u32,
        /// `Caps` word of the hardware.
        0x08 caps: u32,
        /// Number of doorbells.
        0x0c doorbells: u32,
        /// Frequency of the GPU clock in hertz.
        0x10 clock_hz: u64,
        /// Size of VRAM in bytes that allocations can use.
        0x18 vram: u64,
        /// Bit 0 native fences, bit 1 user-mode submission: features the operating system enabled for this adapter.
        0x20 features: u32,
    }
}

/// Memory of an allocation, and the CPU's access to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Placement {
    /// System memory, cached for the CPU.
    System = 0,
    /// VRAM that the CPU can map.
    VramVisible = 1,
    /// VRAM that the CPU never maps.
    Vram = 2,
    /// VRAM that the CPU maps at times: through the window, the host aperture, or from system memory.
    VramLockable = 3,
    /// System memory that the CPU does not cache, so that it and the GPU see each other's stores whether or not DMA snoops.
    SystemUncached = 4,
}

impl Placement {
    /// The placement with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::System),
            1 => Some(Self::VramVisible),
            2 => Some(Self::Vram),
            3 => Some(Self::VramLockable),
            4 => Some(Self::SystemUncached),
            _ => None,
        }
    }
}

record! {
    /// Private data of one allocation in D3DKMTCreateAllocation2.
    pub struct AllocationData[32] {
        /// [`MAGIC`].
        0x00 magic: u32,
        /// A `Placement` number.
        0x04 placement: u32,
        /// Size in bytes, above 0; rounded up to pages.
        0x08 size: u64,
        /// Number of the linked GPU in whose VRAM the allocation is placed, 0 on a GPU that is not linked.
        0x10 adapter: u32,
        /// Reserved, zero.
        0x14 reserved: u32,
    }
}

record! {
    /// Private data of D3DKMTCreateHwQueue for a queue that is to run programs. Without it the queue has no save area.
    pub struct HwQueueData[16] {
        /// [`MAGIC`].
        0x00 magic: u32,
        /// Bytes of the save area, which the kernel-mode driver allocates: at least what the header of each program of the queue asks for, at most `SAVE_SIZE`. Ignored where the compute node is left in no DISPATCH, and on other nodes.
        0x04 save_size: u32,
    }
}

record! {
    /// Private data of D3DKMTCreateNativeFence, and of D3DKMTOpenNativeFenceFromNtHandle: what user mode takes the values of the fence for. The kernel-mode
    /// driver keeps the number of the creation, and answers it to an opening whose data have the magic; data without it stay as they were.
    pub struct FenceData[64] {
        /// [`MAGIC`].
        0x00 magic: u32,
        /// A number of the creator's choice; 0 for a fence that was created without it.
        0x04 purpose: u32,
    }
}

record! {
    /// Private data of D3DKMTCreateDoorbell: where the ring lies in the process.
    pub struct DoorbellData[16] {
        /// GPU virtual address of the ring buffer allocation.
        0x00 ring: u64,
        /// GPU virtual address of the ring-control allocation.
        0x08 control: u64,
    }
}

record! {
    /// What the kernel-mode driver leaves in the private data of D3DKMTCreateDoorbell on a variant with one global doorbell, where
    /// the value rung must name the queue. Other variants leave the data as it was.
    pub struct DoorbellAnswer[16] {
        /// Queue number, for `DoorbellValue`.
        0x00 queue: u32,
    }
}
