//! Identity and address ranges of the PCI function.

/// Vendor identifier. Not assigned by the PCI-SIG: a placeholder until a vendor builds the GPU.
pub const VENDOR_ID: u16 = 0xca3e;
/// Device identifier.
pub const DEVICE_ID: u16 = 0x0032;
/// Subsystem vendor identifier.
pub const SUBSYSTEM_VENDOR_ID: u16 = VENDOR_ID;
/// Subsystem identifier.
pub const SUBSYSTEM_ID: u16 = 0x0001;
/// Subsystem identifier of a board with two GPUs that may be linked: functions 0 and 1 of one device, each of them whole.
pub const SUBSYSTEM_ID_LINKED: u16 = 0x0002;
/// Functions of such a board.
pub const LINKED_FUNCTIONS: u32 = 2;
/// Revision of the function.
pub const REVISION_ID: u8 = 1;
/// Class code: processing accelerator, no programming interface.
pub const CLASS_CODE: u32 = 0x12_00_00;

/// BAR of the registers (64-bit, not prefetchable); the MSI-X table and pending bits are in it too.
pub const BAR_REGISTERS: u8 = 0;
/// BAR of the doorbell pages (64-bit, not prefetchable).
pub const BAR_DOORBELLS: u8 = 2;
/// BAR of the VRAM window (64-bit, prefetchable).
pub const BAR_VRAM: u8 = 4;

/// Size of the register BAR.
pub const REGISTERS_SIZE: u64 = 0x1_0000;
/// Offset of the MSI-X table in the register BAR.
pub const MSIX_TABLE_OFFSET: u64 = 0x8000;
/// Offset of the MSI-X pending bits in the register BAR.
pub const MSIX_PBA_OFFSET: u64 = 0x9000;
/// MSI-X vectors of the function. Vector 0 carries every event.
pub const MSIX_VECTORS: u16 = 1;
/// Vector that announces new records in the event ring.
pub const VECTOR_EVENTS: u16 = 0;
