//! Paging work: the buffers of the paging process, what is in them, and what becomes free behind it.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use nt::bugcheck::Bugcheck;
use nt::page::PAGE_SIZE;
use nt::range::RangeAllocator;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::DdiBuffer;
use crate::vidmm::cpu_cache::SharedPages;
use crate::vidmm::driver::building;
use crate::vidmm::ids::SpaceId;
use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::table::Table;

/// Bytes behind a paging buffer that must stay untouched.
const GUARD: [u8; 64] = [0xc5; 64];

/// A packet of a paging node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagingFence {
    /// The engine whose node runs it.
    pub(crate) engine: u32,
    /// Id of the paging fence of the submission.
    pub(crate) fence: u32,
}

/// The nodes that run paging buffers, one of each engine.
pub(crate) trait PagingNode: Send + Sync {
    /// Runs `size` bytes at `address` of the paging process on an engine; the answer is the fence of the packet there.
    fn submit(&self, engine: u32, address: u64, size: u32, private: &mut [u8]) -> Result<u32, NTSTATUS>;
    /// True if a packet is complete.
    fn is_complete(&self, packet: PagingFence) -> bool;
    /// Waits for a packet.
    fn wait(&self, packet: PagingFence) -> Result<(), NTSTATUS>;
    /// Spends a moment while the kernel waits for queues of user mode.
    fn pause(&self) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A difference of addresses, in words.
fn signed(bytes: usize) -> String {
    match bytes.cast_signed() {
        before @ ..0 => format!("{:#x} bytes before", before.unsigned_abs()),
        behind => format!("{behind:#x} bytes behind"),
    }
}

pub(super) struct Buffer {
    pub(super) pages: SharedPages,
    pub(super) address: u64,
    pub(super) private: DdiBuffer,
}

pub(super) struct Batch {
    /// The engine that is to run it.
    pub(super) engine: u32,
    pub(super) buffer: Buffer,
    pub(super) used: u32,
    pub(super) private_used: u32,
    pub(super) windows: Vec<(u64, u64)>,
    /// Page tables that some of its windows show.
    pub(super) tables: Vec<((u32, u64), u64)>,
    pub(super) release: Vec<Release>,
}

pub(super) struct Pending {
    pub(super) fence: PagingFence,
    pub(super) batch: Batch,
}

pub(super) enum Release {
    Local { segment: u32, offset: u64, len: u64 },
    System(#[allow(dead_code, reason = "held until it is dropped")] SystemMemory),
    Table(Table),
}

/// Paging state of an adapter.
pub(crate) struct Paging {
    pub(super) node: Option<Arc<dyn PagingNode>>,
    /// The paging process, whose addresses are the same on every engine.
    pub(super) space: Option<SpaceId>,
    pub(super) windows: RangeAllocator,
    pub(super) free: Vec<Buffer>,
    /// The buffer whose commands no engine runs, for what the driver is told while the GPU may not be touched.
    pub(super) never_run: Option<Buffer>,
    pub(super) open: Option<Batch>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) buffer_size: u32,
    pub(super) private_size: u32,
    /// Packets submitted so far, and the last one.
    pub(super) submitted: u64,
    pub(super) last: Option<PagingFence>,
}

impl Paging {
    /// Nothing set up. Sizes are what the driver asked for; at least a page is given.
    pub(crate) fn new(buffer_size: u32, private_size: u32) -> Self {
        let buffer_size = buffer_size.clamp(PAGE_SIZE as u32, 16 << 20).next_multiple_of(PAGE_SIZE as u32);
        Self {
            node: None,
            space: None,
            windows: RangeAllocator::new(0, 0),
            free: Vec::new(),
            never_run: None,
            open: None,
            pending: VecDeque::new(),
            buffer_size,
            private_size: private_size.min(1 << 20),
            submitted: 0,
            last: None,
        }
    }

    /// The node, once there is one.
    pub(crate) fn node(&self) -> Option<&Arc<dyn PagingNode>> {
        self.node.as_ref()
    }

    /// Bytes of a segment that are free once packets are complete.
    pub(crate) fn leaving(&self, segment: u32) -> u64 {
        let batches = self.pending.iter().map(|pending| &pending.batch).chain(&self.open);
        let releases = batches.flat_map(|batch| &batch.release);
        releases.fold(0, |sum, release| match release {
            Release::Local { segment: other, len, .. } if *other == segment => sum + len,
            Release::Table(table) if table.address().0 == segment => sum + table.len(),
            _ => sum,
        })
    }

    /// Packets submitted so far.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// True if something was built that is not submitted yet.
    pub(crate) fn has_open_work(&self) -> bool {
        self.open.as_ref().is_some_and(|batch| batch.used > 0)
    }

    /// The last packet that was submitted.
    pub(crate) fn last(&self) -> Option<PagingFence> {
        self.last
    }
}

impl Buffer {
    fn guard(&self, len: u64) -> NonNull<[u8; 64]> {
        // SAFETY: the buffer has a page more than the `len` bytes that the driver may use.
        unsafe { self.pages.seen().kernel_address().add(len as usize) }.cast()
    }

    pub(super) fn set_guard(&self, len: u64) {
        // SAFETY: the guard lies in pages that belong to this object, and a byte array has no alignment.
        unsafe { self.guard(len).write(GUARD) };
    }

    /// How far behind the `len` bytes that the driver may use the first byte lies that was written, if any was.
    fn written_beyond(&self, len: u64) -> Option<usize> {
        // SAFETY: as for set_guard.
        let guard = unsafe { self.guard(len).read() };
        guard.iter().zip(GUARD).position(|(now, before)| *now != before)
    }
}

impl Batch {
    /// Nothing in a buffer of an engine.
    pub(super) fn new(engine: u32, buffer: Buffer) -> Self {
        Self { engine, buffer, used: 0, private_used: 0, windows: Vec::new(), tables: Vec::new(), release: Vec::new() }
    }

    pub(super) fn arguments(&mut self, size: u32) -> DXGKARG_BUILDPAGINGBUFFER {
        let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        args.pDmaBuffer = self.buffer.pages.seen().kernel_address().as_ptr().wrapping_add(self.used as usize).cast();
        args.DmaSize = size - self.used;
        args.pDmaBufferPrivateData = self.buffer.private.address().wrapping_byte_add(self.private_used as usize);
        args.DmaBufferPrivateDataSize = self.buffer.private.len() as u32 - self.private_used;
        args.DmaBufferGpuVirtualAddress = self.buffer.address;
        args.DmaBufferWriteOffset = self.used;
        args
    }

    /// Takes over how far the driver came. [debugger: 0x10e, subcodes 0x12 and 0x13]
    pub(super) fn take_back(
        &mut self,
        engine: u32,
        args: &DXGKARG_BUILDPAGINGBUFFER,
        size: u32,
    ) -> Result<bool, Bugcheck> {
        let start = self.buffer.pages.seen().kernel_address().as_ptr().addr();
        let used = args.pDmaBuffer.addr().wrapping_sub(start);
        let call = || building(engine, args.Operation);
        let moved = (used < self.used as usize || used > size as usize)
            .then(|| format!("it moved pDmaBuffer to {} the start of the buffer", signed(used)));
        let written = self.buffer.written_beyond(u64::from(size));
        let written = written.map(|at| format!("it changed the byte {at:#x} behind the end of the buffer"));
        if let Some(what) = moved.or(written) {
            let reason =
                format!("{} wrote beyond the {:#x} bytes left in the buffer: {what}", call(), size - self.used);
            return Err(Bugcheck::memory(0x12, used as u64, u64::from(size), 0, reason));
        }
        let private = args.pDmaBufferPrivateData.addr().wrapping_sub(self.buffer.private.address().addr());
        let intact = self.buffer.private.is_intact();
        if private < self.private_used as usize || private > self.buffer.private.len() || !intact {
            let most = self.buffer.private.len();
            let reason = format!(
                "{} wrote beyond the {most:#x} bytes of private data of the buffer: pDmaBufferPrivateData is {} its start",
                call(),
                signed(private)
            );
            return Err(Bugcheck::memory(0x13, private as u64, self.buffer.private.len() as u64, 0, reason));
        }
        let advanced = used > self.used as usize;
        self.used = used as u32;
        self.private_used = private as u32;
        Ok(advanced)
    }
}
