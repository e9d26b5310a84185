//! GPU packets: the contents of a command buffer.
//!
//! A packet starts with a [`Header`] word and is a multiple of 16 bytes long. It is decoded and checked whole before it has any
//! effect; a packet that breaks a rule faults its queue and has had none.

use crate::isa::{CODE_MAX, FUNCTIONS_MAX, GRID_MAX, INSTRUCTION_SIZE, LINES_MAX, LineEntry, ProgramHeader};
use crate::log::{LogHeader, LogOperation};

word! {
    /// First 8 bytes of every packet.
    pub struct Header: u64 {
        /// An `Opcode` number.
        8 opcode: u8,
        /// Length of the whole packet in units of 16 bytes.
        8 length: u8,
        /// Reserved, zero.
        16 must_be_zero: u16,
        /// Handle that user mode knows the fence by, for the log (SIGNAL, WAIT, PROGRESS and LOG), or the fields of WRITE and DISPATCH; zero elsewhere.
        32 fence_handle: u32,
    }
}

macro_rules! packets {
    ($(
        $(#[doc = $doc:literal])*
        $variant:ident = $opcode:literal, $units:literal {
            $( $(#[doc = $fdoc:literal])* $offset:literal $field:ident: $ty:ident, )*
        }
    )*) => {
        /// A decoded packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Packet {
            $( $(#[doc = $doc])* $variant($variant), )*
        }

        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $variant { $( $(#[doc = $fdoc])* pub $field: $ty, )* }

            impl $variant {
                /// Opcode number.
                pub const OPCODE: u8 = $opcode;
                /// Length in bytes.
                pub const SIZE: usize = $units * 16;
                /// The fields after the header.
                const FIELDS: &'static [crate::Field] = &[ $( crate::Field {
                    name: stringify!($field),
                    offset: $offset,
                    size: core::mem::size_of::<$ty>(),
                    doc: concat!($($fdoc),*),
                }, )* ];

                /// The packet as 64-bit words whose memory image is the packet, for writers that store whole words.
                #[inline]
                pub fn to_words(&self) -> [u64; $units * 2] {
                    const HEADER: [u8; 8] =
                        Header::new().with_opcode($opcode).with_length($units).into_bits().to_le_bytes();
                    let mut bytes = [0u8; $units * 16];
                    bytes[0..8].copy_from_slice(&HEADER);
                    $( bytes[$offset..$offset + core::mem::size_of::<$ty>()].copy_from_slice(&self.$field.to_le_bytes()); )*
                    let mut words = [0u64; $units * 2];
                    for (word, raw) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                        *word = u64::from_ne_bytes(*raw);
                    }
                    words
                }
            }
        )*

        /// Name, opcode, length, meaning and fields of every packet, for the manual.
        pub const PACKETS: &[PacketFormat] = &[
            $( PacketFormat {
                name: stringify!($variant),
                opcode: $opcode,
                size: $units * 16,
                doc: concat!($($doc, "\n"),*),
                fields: $variant::FIELDS,
            }, )*
        ];

        impl Packet {
            /// Length in bytes.
            pub const fn size(&self) -> usize {
                match self { $( Self::$variant(_) => $variant::SIZE, )* }
            }

            /// The packet's bytes; only the first [`Packet::size`] of them count.
            pub fn encode(&self) -> [u8; MAX_SIZE] {
                let mut bytes = [0u8; MAX_SIZE];
                match self {
                    $( Self::$variant(packet) => {
                        let header = Header::new().with_opcode($opcode).with_length($units);
                        bytes[0..8].copy_from_slice(&header.into_bits().to_le_bytes());
                        $( bytes[$offset..$offset + core::mem::size_of::<$ty>()]
                            .copy_from_slice(&packet.$field.to_le_bytes()); )*
                        let _ = packet;
                    } )*
                }
                bytes
            }

            /// Decodes the packet at the start of `bytes`.
            ///
            /// # Errors
            /// A [`BadPacket`] that says which rule is broken; nothing else was looked at.
            #[inline]
            pub fn decode(bytes: &[u8]) -> Result<Self, BadPacket> {
                let Some(head) = bytes.first_chunk::<8>() else { return Err(BadPacket::Truncated) };
                let header = Header::from_bits(u64::from_le_bytes(*head));
                let packet = match header.opcode() {
                    $( $opcode => {
                        if header.length() != $units {
                            return Err(BadPacket::Length);
                        }
                        let Some(body) = bytes.first_chunk::<{ $units * 16 }>() else {
                            return Err(BadPacket::Truncated);
                        };
                        const UNNAMED: [u64; $units * 2] = crate::table::unnamed_words($variant::FIELDS);
                        let words = body.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
                        if words.zip(UNNAMED).any(|(word, unnamed)| word & unnamed != 0) {
                            return Err(BadPacket::Reserved);
                        }
                        Self::$variant($variant {
                            $( $field: {
                                let mut raw = [0u8; core::mem::size_of::<$ty>()];
                                raw.copy_from_slice(&body[$offset..$offset + core::mem::size_of::<$ty>()]);
                                <$ty>::from_le_bytes(raw)
                            }, )*
                        })
                    } )*
                    _ => return Err(BadPacket::Opcode),
                };
                packet.check(header)?;
                Ok(packet)
            }
        }
    };
}

/// Form of one packet, for the manual.
#[derive(Clone, Copy, Debug)]
pub struct PacketFormat {
    /// Name.
    pub name: &'static str,
    /// Opcode number.
    pub opcode: u8,
    /// Length in bytes.
    pub size: usize,
    /// Meaning.
    pub doc: &'static str,
    /// Fields after the header.
    pub fields: &'static [crate::Field],
}

packets! {
    /// Does nothing.
    Nop = 0x01, 1 {}
    /// Copies `rows` runs of `row_bytes` bytes; run `i` goes from `source + i * source_pitch` to
    /// `destination + i * destination_pitch`. Runs are copied in order; within a run, overlap is undefined. At most 256 MiB in all.
    Copy = 0x02, 3 {
        /// Source address.
        0x08 source: u64,
        /// Destination address.
        0x10 destination: u64,
        /// Bytes of one run.
        0x18 row_bytes: u32,
        /// Runs, at least 1.
        0x1c rows: u32,
        /// Distance of source runs.
        0x20 source_pitch: u32,
        /// Distance of destination runs.
        0x24 destination_pitch: u32,
    }
    /// Fills memory with a 32-bit pattern. At most 4 GiB.
    Fill = 0x03, 2 {
        /// Destination address, 4-aligned.
        0x08 destination: u64,
        /// Bytes, a multiple of 4.
        0x10 size: u64,
        /// Pattern.
        0x18 pattern: u32,
    }
    /// Sets a fence's current value after every earlier effect of the queue, releases the queues that wait for it, and sends a
    /// FenceSignaled event if the value is greater than the monitored value. The value may be smaller than the one before. With
    /// neither handle nor monitored value it writes a word that need be no fence.
    Signal = 0x04, 2 {
        /// Handle of the fence in user mode, for the log; 0 for none.
        0x04 handle: u32,
        /// Address of the current value, 8-aligned.
        0x08 current: u64,
        /// Address of the monitored value, 8-aligned; 0 for a fence that the CPU never waits for.
        0x10 monitored: u64,
        /// New value.
        0x18 value: u64,
    }
    /// Has the queue wait until the fence's current value is at least `value`.
    Wait = 0x05, 2 {
        /// Handle of the fence in user mode, for the log.
        0x04 handle: u32,
        /// Address of the current value, 8-aligned.
        0x08 current: u64,
        /// Value waited for.
        0x10 value: u64,
    }
    /// Writes the queue's progress fence, as SIGNAL does with the addresses of the descriptor.
    Progress = 0x06, 1 {
        /// Handle of the progress fence in user mode, for the log.
        0x04 handle: u32,
        /// New value.
        0x08 value: u64,
    }
    /// Writes the GPU clock, in ticks of CLOCK_HZ.
    Timestamp = 0x07, 1 {
        /// Destination address, 8-aligned.
        0x08 destination: u64,
    }
    /// Writes 64-bit words that the packet holds, `repeat` times behind each other. Each word is one store, as page tables that are in
    /// use need it. At most 512 words in all. No queue that waits for a fence there is released.
    Write = 0x08, 4 {
        /// Words that the packet holds, 1 to 6.
        0x04 count: u16,
        /// Number of times that the values are written one behind the other, at least 1.
        0x06 repeat: u16,
        /// Destination address, 8-aligned.
        0x08 destination: u64,
        /// First word.
        0x10 word0: u64,
        /// Second word; like those after it zero if COUNT does not reach it.
        0x18 word1: u64,
        /// Third word.
        0x20 word2: u64,
        /// Fourth word.
        0x28 word3: u64,
        /// Fifth word.
        0x30 word4: u64,
        /// Sixth word.
        0x38 word5: u64,
    }
    /// As WRITE, at a location of VRAM or system memory instead of an address. Privileged.
    WritePhysical = 0x09, 4 {
        /// Words that the packet holds, 1 to 6.
        0x04 count: u16,
        /// Number of times that the values are written one behind the other, at least 1.
        0x06 repeat: u16,
        /// Destination, a location, 8-aligned.
        0x08 destination: u64,
        /// First word.
        0x10 word0: u64,
        /// Second word; like those after it zero if COUNT does not reach it.
        0x18 word1: u64,
        /// Third word.
        0x20 word2: u64,
        /// Fourth word.
        0x28 word3: u64,
        /// Fifth word.
        0x30 word4: u64,
        /// Sixth word.
        0x38 word5: u64,
    }
    /// Does on every node what the command InvalidateTlb does: invalidates the translations of the address space with this root from `start` to
    /// `end` (exclusive), all of them if both are 0. Later packets of the queue use none of them. Privileged.
    InvalidateTlb = 0x0a, 2 {
        /// Page-table root of the address space, a location and a multiple of 4096.
        0x08 root: u64,
        /// First address.
        0x10 start: u64,
        /// End of the addresses.
        0x18 end: u64,
    }
    /// Says what the SIGNAL, WAIT or PROGRESS directly before it in the buffer leaves in the queue's log, and in which entry; the two are
    /// done as one. Anywhere else, and with an operation that is not the one of the packet before, it breaks rule Opcode.
    Log = 0x0b, 2 {
        /// Handle of the fence in user mode.
        0x04 handle: u32,
        /// GPU virtual address of the log in the process, 8-aligned.
        0x08 log: u64,
        /// Value signalled or waited for.
        0x10 value: u64,
        /// Number of the entry.
        0x18 entry: u32,
        /// A `LogOperation` number.
        0x1c operation: u32,
    }
    /// Runs a program in a grid of workgroups, after every earlier effect of the queue; the next packet begins when all workgroups have ended. The program is fetched, copied
    /// and checked whole before its first instruction runs, and not looked at again until the queue has left the node in the DISPATCH and comes back: then it is fetched once more, and one
    /// that is another program faults the queue (SaveArea). Stores release no queue that waits for a fence there. Compute node only.
    Dispatch = 0x0c, 4 {
        /// Bytes of the program.
        0x04 program_size: u32,
        /// Address of the program, 16-aligned. Its pages may not forbid execution.
        0x08 program: u64,
        /// Address that ARGUMENTS gives to the program. It is not looked at.
        0x10 arguments: u64,
        /// Address of the numbers of workgroups in three dimensions, u32 each, 4-aligned, read when the dispatch begins; 0 if the packet has them.
        0x18 indirect: u64,
        /// Workgroups in the first dimension, at most 65535; with INDIRECT zero, as the next two. Nothing runs if one is zero.
        0x20 grid_x: u32,
        /// Workgroups in the second dimension.
        0x24 grid_y: u32,
        /// Workgroups in the third dimension.
        0x28 grid_z: u32,
        /// Address of a `DispatchReport`, 8-aligned, that is written when the dispatch ends or faults; 0 for none.
        0x30 report: u64,
    }
}

record! {
    /// Result of a dispatch.
    pub struct DispatchReport[96] {
        /// 1 if all workgroups have ended, 2 if the program faulted.
        0x00 state: u32,
        /// A `FaultKind` number if it faulted; instruction, lane and workgroup then say where, and are zero otherwise. It is `Reset` if its engine was reset while the dispatch ran: the
        /// lane is the first one that was to run next.
        0x04 fault: u16,
        /// 1 if the access that faulted was a write, otherwise 0.
        0x06 write: u16,
        /// The instruction.
        0x08 instruction: u32,
        /// Line of the source that the program names for it, 0 for none.
        0x0c line: u32,
        /// The lane, by its number in the workgroup.
        0x10 lane: u32,
        /// Place of the workgroup in the grid, first dimension.
        0x14 workgroup_x: u32,
        /// Second dimension.
        0x18 workgroup_y: u32,
        /// Third dimension.
        0x1c workgroup_z: u32,
        /// Address of the fault, as the event has it.
        0x20 address: u64,
        /// Instructions of subgroups.
        0x28 instructions: u64,
        /// Lanes that were started.
        0x30 lanes: u64,
        /// Loads of lanes from memory by address.
        0x38 loads: u64,
        /// Stores of lanes to memory by address.
        0x40 stores: u64,
        /// Atomic operations of lanes.
        0x48 atomics: u64,
        /// GPU clock when the dispatch began.
        0x50 begun: u64,
        /// GPU clock when it ended.
        0x58 ended: u64,
    }
}

/// `state` of a dispatch that has ended.
pub const DISPATCH_DONE: u32 = 1;
/// `state` of a dispatch that faulted.
pub const DISPATCH_FAULTED: u32 = 2;
/// Most bytes of a program: header, functions, code and lines.
pub const PROGRAM_SIZE_MAX: u32 = ProgramHeader::SIZE as u32
    + FUNCTIONS_MAX * 4
    + CODE_MAX * INSTRUCTION_SIZE as u32
    + LINES_MAX * LineEntry::SIZE as u32;

/// Longest packet in bytes.
pub const MAX_SIZE: usize = 64;
/// Most bytes one COPY moves.
pub const COPY_MAX: u64 = 256 << 20;
/// Most bytes one FILL writes.
pub const FILL_MAX: u64 = 4 << 30;
/// The most words of one WRITE or WRITEPHYSICAL.
pub const WRITE_WORDS: usize = 6;
/// Most words that one WRITE or WRITEPHYSICAL writes: those of a page table.
pub const WRITE_MAX: u32 = 512;

numbers! {
    /// The rule that a packet breaks.
    pub enum BadPacket: u8 {
        /// The buffer ends inside the packet.
        Truncated = 1,
        /// No such opcode.
        Opcode = 2,
        /// The length does not fit the opcode.
        Length = 3,
        /// A reserved bit is set, or a byte that the packet's table does not name.
        Reserved = 4,
        /// An address or size is not aligned.
        Alignment = 5,
        /// A size is zero, too large, or the range leaves the address space.
        Range = 6,
        /// The packet is privileged and the command buffer is not, or it is one of the paging node and this is another.
        Privilege = 7,
    }
}

macro_rules! writes {
    ($($name:ident)*) => { $(
        impl $name {
            /// A packet that writes `words`, [`WRITE_WORDS`] of them at most, `repeat` times from `destination` on.
            pub fn of(destination: u64, words: &[u64], repeat: u16) -> Self {
                let word = |index: usize| words.get(index).copied().unwrap_or(0);
                Self {
                    count: words.len().min(WRITE_WORDS) as u16,
                    repeat,
                    destination,
                    word0: word(0),
                    word1: word(1),
                    word2: word(2),
                    word3: word(3),
                    word4: word(4),
                    word5: word(5),
                }
            }

            /// The words of the packet, and how many of them count.
            pub fn words(&self) -> ([u64; WRITE_WORDS], usize) {
                let words = [self.word0, self.word1, self.word2, self.word3, self.word4, self.word5];
                (words, usize::from(self.count).min(WRITE_WORDS))
            }

            /// Bytes that it writes.
            pub fn bytes(&self) -> u64 {
                u64::from(self.count) * u64::from(self.repeat) * 8
            }

            #[inline]
            fn check_words(&self) -> Result<(), BadPacket> {
                let (words, count) = self.words();
                if words.iter().skip(count).any(|word| *word != 0) {
                    return Err(BadPacket::Reserved);
                }
                aligned(self.destination, 8)?;
                let legal = (1..=WRITE_WORDS).contains(&usize::from(self.count))
                    && (8..=u64::from(WRITE_MAX) * 8).contains(&self.bytes());
                if legal { Ok(()) } else { Err(BadPacket::Range) }
            }
        }
    )* };
}

writes! { Write WritePhysical }

impl Packet {
    /// True for a packet that only command buffers of the memory manager may have.
    #[inline]
    pub const fn is_privileged(&self) -> bool {
        matches!(self, Self::WritePhysical(_) | Self::InvalidateTlb(_))
    }

    /// Checks the fields as [`Packet::decode`] would, before the packet is written.
    ///
    /// # Errors
    /// The [`BadPacket`] rule that would fault the queue.
    #[inline]
    pub fn validate(&self) -> Result<(), BadPacket> {
        self.check(Header::new())
    }

    #[inline]
    fn check(&self, header: Header) -> Result<(), BadPacket> {
        if header.must_be_zero() != 0 {
            return Err(BadPacket::Reserved);
        }
        let says_more = matches!(
            self,
            Self::Signal(_)
                | Self::Wait(_)
                | Self::Progress(_)
                | Self::Write(_)
                | Self::WritePhysical(_)
                | Self::Log(_)
                | Self::Dispatch(_)
        );
        if header.fence_handle() != 0 && !says_more {
            return Err(BadPacket::Reserved);
        }
        match self {
            Self::Nop(_) | Self::Progress(_) => Ok(()),
            Self::Copy(copy) => {
                let total = u64::from(copy.row_bytes) * u64::from(copy.rows);
                if total == 0 || total > COPY_MAX {
                    return Err(BadPacket::Range);
                }
                let last = u64::from(copy.rows - 1);
                let reach = |pitch: u32| last * u64::from(pitch) + u64::from(copy.row_bytes);
                in_space(copy.source, reach(copy.source_pitch))?;
                in_space(copy.destination, reach(copy.destination_pitch))
            }
            Self::Fill(fill) => {
                aligned(fill.destination | fill.size, 4)?;
                if fill.size == 0 || fill.size > FILL_MAX {
                    return Err(BadPacket::Range);
                }
                in_space(fill.destination, fill.size)
            }
            Self::Signal(signal) => {
                aligned(signal.current | signal.monitored, 8)?;
                in_space(signal.current, 8)?;
                in_space(signal.monitored, 8)
            }
            Self::Wait(wait) => {
                aligned(wait.current, 8)?;
                in_space(wait.current, 8)
            }
            Self::Log(log) => {
                aligned(log.log, 8)?;
                in_space(log.log, LogHeader::SIZE as u64)?;
                LogOperation::from_number(log.operation).map(drop).ok_or(BadPacket::Range)
            }
            Self::Timestamp(timestamp) => {
                aligned(timestamp.destination, 8)?;
                in_space(timestamp.destination, 8)
            }
            Self::Write(write) => {
                write.check_words()?;
                in_space(write.destination, write.bytes())
            }
            Self::WritePhysical(write) => {
                write.check_words()?;
                location(write.destination, write.bytes())
            }
            Self::InvalidateTlb(invalidate) => {
                location(invalidate.root, 4096)?;
                aligned(invalidate.root, 4096)?;
                if invalidate.start > invalidate.end {
                    return Err(BadPacket::Range);
                }
                in_space(invalidate.end, 0)
            }
            Self::Dispatch(dispatch) => dispatch.check_fields(),
        }
    }
}

impl Dispatch {
    /// The numbers of workgroups that the packet has.
    pub const fn grid(&self) -> [u32; 3] {
        [self.grid_x, self.grid_y, self.grid_z]
    }

    fn check_fields(&self) -> Result<(), BadPacket> {
        aligned(self.program, 16)?;
        aligned(self.indirect, 4)?;
        aligned(self.report, 8)?;
        if self.indirect != 0 && self.grid() != [0; 3] {
            return Err(BadPacket::Reserved);
        }
        let size = (ProgramHeader::SIZE as u32..=PROGRAM_SIZE_MAX).contains(&self.program_size);
        if !size || self.grid().iter().any(|groups| *groups > GRID_MAX) {
            return Err(BadPacket::Range);
        }
        in_space(self.program, u64::from(self.program_size))?;
        in_space(self.indirect, 12)?;
        in_space(self.report, DispatchReport::SIZE as u64)
    }
}

#[inline]
fn aligned(value: u64, to: u64) -> Result<(), BadPacket> {
    if value.is_multiple_of(to) { Ok(()) } else { Err(BadPacket::Alignment) }
}

/// A word that names a location with so many bytes behind it.
#[inline]
fn location(bits: u64, size: u64) -> Result<(), BadPacket> {
    if bits >> 53 != 0 {
        return Err(BadPacket::Reserved);
    }
    let end = crate::queue::Location::from_bits(bits).address() + size;
    if end <= 1 << 52 { Ok(()) } else { Err(BadPacket::Range) }
}

#[inline]
fn in_space(start: u64, size: u64) -> Result<(), BadPacket> {
    match start.checked_add(size) {
        Some(end) if end <= 1 << crate::page_table::VA_BITS => Ok(()),
        _ => Err(BadPacket::Range),
    }
}
