//! Messages: headers, command numbers, flags, and reading and writing of their fields.

/// Bytes of a header.
pub const HEADER_SIZE: usize = 16;
/// Most bytes of a region that one message moves.
pub const MAX_TRANSFER: usize = 1 << 20;
/// Most bytes of a message: the largest transfer and the fields before it.
pub const MAX_MESSAGE: usize = HEADER_SIZE + 64 + MAX_TRANSFER;
/// Most descriptors with one message.
pub const MAX_FDS: usize = 16;
/// Most ranges of memory that a client may have mapped.
pub const MAX_MAPS: usize = 65_535;

/// Command numbers.
pub mod command {
    #![allow(missing_docs)]
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_GET_INFO: u16 = 4;
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    pub const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub const DEVICE_SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DEVICE_RESET: u16 = 13;
}

/// Bits of the header's flags.
pub mod header_flag {
    /// Mask of the type; 0 is a command.
    pub const TYPE: u32 = 0xf;
    /// The message is a reply.
    pub const REPLY: u32 = 1;
    /// The sender of a command wants no reply.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The command failed; the error field says why.
    pub const ERROR: u32 = 1 << 5;
}

/// Bits of DMA_MAP and DMA_UNMAP.
pub mod dma {
    /// The function may read.
    pub const READ: u32 = 1;
    /// The function may write.
    pub const WRITE: u32 = 2;
    /// DMA_UNMAP: all ranges at once.
    pub const ALL: u32 = 2;
    /// DMA_UNMAP: with the bitmap of dirty pages, which nobody here keeps.
    pub const DIRTY_BITMAP: u32 = 1;
}

/// Bits of DEVICE_GET_INFO.
pub mod device_flag {
    /// DEVICE_RESET works.
    pub const RESET: u32 = 1;
    /// The function is a PCI function.
    pub const PCI: u32 = 2;
}

/// Bits and structures of DEVICE_GET_REGION_INFO.
pub mod region_flag {
    #![allow(missing_docs)]
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const MMAP: u32 = 4;
    pub const CAPS: u32 = 8;
    /// Bytes of the answer without capabilities.
    pub const SIZE: u32 = 32;
    /// Capability: areas that can be mapped.
    pub const CAP_SPARSE_MMAP: u16 = 1;
}

/// Bits of DEVICE_GET_IRQ_INFO and DEVICE_SET_IRQS.
pub mod irq_flag {
    #![allow(missing_docs)]
    pub const EVENTFD: u32 = 1;
    pub const NORESIZE: u32 = 8;
    pub const DATA_NONE: u32 = 1;
    pub const DATA_BOOL: u32 = 2;
    pub const DATA_EVENTFD: u32 = 4;
    pub const DATA: u32 = 7;
    pub const MASK: u32 = 8;
    pub const UNMASK: u32 = 16;
    pub const TRIGGER: u32 = 32;
    pub const ACTION: u32 = 0x38;
}

/// Numbers of a PCI function's regions. Regions from [`region::PRIVATE`] on mean what the function says.
pub mod region {
    /// The BAR that a region is; regions 0 to 5 are.
    pub fn bar(region: u32) -> Option<u8> {
        u8::try_from(region).ok().filter(|bar| *bar < 6)
    }

    /// Configuration space.
    pub const CONFIG: u32 = 7;
    /// First region behind those of every PCI function.
    pub const PRIVATE: u32 = 9;
}

/// Numbers of a PCI function's interrupts.
pub mod irq {
    /// INTx, a line.
    pub const INTX: u32 = 0;
    /// MSI.
    pub const MSI: u32 = 1;
    /// MSI-X.
    pub const MSIX: u32 = 2;
    /// Error reports; taken and never sent.
    pub const ERROR: u32 = 3;
    /// Requests to give the function back; taken and never sent.
    pub const REQUEST: u32 = 4;
    /// Number of interrupt types of a PCI function.
    pub const COUNT: u32 = 5;
}

/// A header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of the message, which a reply repeats.
    pub id: u16,
    /// Command number.
    pub command: u16,
    /// Bytes of the message with its header.
    pub size: u32,
    /// See [`header_flag`].
    pub flags: u32,
    /// Error number of the host, in a reply with [`header_flag::ERROR`].
    pub error: u32,
}

impl Header {
    /// The header in these bytes.
    pub fn parse(bytes: [u8; HEADER_SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            id: u16::from_le_bytes([a, b]),
            command: u16::from_le_bytes([c, d]),
            size: u32::from_le_bytes([e, f, g, h]),
            flags: u32::from_le_bytes([i, j, k, l]),
            error: u32::from_le_bytes([m, n, o, p]),
        }
    }

    /// The bytes of the header before `body`, whose length it takes, and then the body.
    pub fn before(mut self, body: &[u8]) -> Vec<u8> {
        self.size = u32::try_from(HEADER_SIZE + body.len()).unwrap_or(u32::MAX);
        let mut fields = Writer::with_capacity(HEADER_SIZE + body.len());
        fields.u16(self.id).u16(self.command).u32(self.size).u32(self.flags).u32(self.error).bytes(body);
        fields.done()
    }

    /// True if the message is a command.
    pub fn is_command(&self) -> bool {
        self.flags & header_flag::TYPE == 0
    }

    /// True if the message is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags & header_flag::TYPE == header_flag::REPLY
    }
}

/// Takes fields off the front of a message; `None` when it is too short.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next 16 bits.
    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// Puts fields one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// A writer with space for `bytes` bytes, which grows beyond them.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Appends 16 bits.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends 32 bits.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends 64 bits.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The body that was written, which leaves the writer empty.
    pub fn done(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}
