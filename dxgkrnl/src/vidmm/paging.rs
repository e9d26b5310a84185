//! Paging work: buffers that the driver fills and the paging node runs.
//!
//! Operations are packed into a buffer until it is full or the request is complete. What an operation needs (windows of the
//! paging process onto memory, memory that is being left) is held until the packet is complete and given back then.

use std::sync::Arc;

use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::DdiBuffer;
use crate::vidmm::driver::{Operation, bytes_of};
use crate::vidmm::ids::{AllocationId, SpaceId};
use crate::vidmm::location::Location;
use crate::vidmm::memory::Memory;
use crate::vidmm::page_size::Shown;
use crate::vidmm::paging_work::{Batch, Buffer, PagingFence, PagingNode, Pending, Release};
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::table::Table;
use crate::vidmm::va_space::{Access, Mapping, Source};
use nt::page::PAGE_SIZE;
use nt::range::RangeAllocator;

/// Addresses of the paging process through which memory is moved; their page tables always exist.
const WINDOWS_LEN: u64 = 32 << 20;

/// Buffers that are made at start; taking one later must not need memory, because memory may be what is short.
const BUFFERS: usize = 4;

impl Memory {
    /// The node; paging is possible from now on.
    pub(crate) fn set_paging_node(&mut self, node: Arc<dyn PagingNode>) {
        self.paging.node = Some(node);
    }

    /// True if paging work on an allocation may still be under way.
    pub(crate) fn is_busy(&self, id: AllocationId) -> bool {
        let fence = self.allocations.get(&id).and_then(|state| state.busy);
        let node = self.paging.node.as_ref();
        fence.is_some_and(|fence| node.is_some_and(|node| !node.is_complete(fence)))
    }

    fn node(&self) -> Result<Arc<dyn PagingNode>, NTSTATUS> {
        self.paging.node.clone().ok_or(STATUS_DEVICE_NOT_READY)
    }

    pub(super) fn paging_space(&self, engine: u32) -> Result<SpaceId, NTSTATUS> {
        self.paging.space.map(|space| space.of_engine(engine)).ok_or(STATUS_DEVICE_NOT_READY)
    }

    /// The engine that works on a place: the one whose memory it is.
    pub(super) fn engine_of(&self, place: &Location) -> u32 {
        match place {
            Location::Local { segment, .. } => self.driver.segment_of(*segment).1,
            Location::Uncommitted | Location::System(_) => 0,
        }
    }

    /// Makes the buffers and the page tables of the windows.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn prepare_paging(&mut self, space: SpaceId) -> Result<(), NTSTATUS> {
        let windows = self.reserve_everywhere(space, 0, (0, 0), WINDOWS_LEN, false)?;
        for engine in 0..self.driver.engines {
            self.pin(space.of_engine(engine), windows, WINDOWS_LEN)?;
        }
        self.paging.space = Some(space);
        self.paging.windows = RangeAllocator::new(windows, windows + WINDOWS_LEN);
        for _ in 0..BUFFERS {
            let buffer = self.new_buffer(space)?;
            self.paging.free.push(buffer);
        }
        self.paging.never_run = Some(self.new_buffer(space)?);
        Ok(())
    }

    fn new_buffer(&mut self, space: SpaceId) -> Result<Buffer, NTSTATUS> {
        let len = u64::from(self.paging.buffer_size);
        // One more page, so that a driver that writes on is noticed and harms nobody.
        let pages = self.driver.shared_words(self.segments.ram.allocate(len + PAGE_SIZE, PAGE_SIZE))?;
        let address = self.reserve_everywhere(space, 0, (0, 0), len, false)?;
        let source = Source::Frames { segment: 0, frame: pages.memory().address() / PAGE_SIZE };
        let mapping = Mapping { pages: len / PAGE_SIZE, source, access: Access::WRITE };
        let (mut engines, request) = (0..self.driver.engines, &mut MemoryRequest::waiting());
        if let Err(status) = engines.try_for_each(|engine| self.map(space.of_engine(engine), address, mapping, request))
        {
            self.free_everywhere(space, address, len)?;
            return Err(status);
        }
        let private = DdiBuffer::zeroed(self.paging.private_size as usize);
        let buffer = Buffer { pages, address, private };
        buffer.set_guard(len);
        Ok(buffer)
    }

    fn open_batch(&mut self, engine: u32) -> Result<&mut Batch, NTSTATUS> {
        if self.paging.open.as_ref().is_some_and(|batch| batch.engine != engine) {
            self.submit()?;
        }
        if self.paging.open.is_none() {
            self.retire()?;
            let buffer = loop {
                if let Some(buffer) = self.paging.free.pop() {
                    break buffer;
                }
                if !self.wait_oldest()? {
                    return Err(STATUS_DEVICE_NOT_READY);
                }
            };
            self.paging.open = Some(Batch::new(engine, buffer));
        }
        self.paging.open.as_mut().ok_or(STATUS_INTERNAL_ERROR)
    }

    /// Adds an operation to the open buffer of an engine, submitting it and going on in the next whenever it is full.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_ALLOCATION_BUSY if the driver insists, STATUS_DEVICE_REMOVED when the machine has stopped.
    pub(crate) fn emit(
        &mut self,
        engine: u32,
        operation: Operation,
        u: DXGKARG_BUILDPAGINGBUFFER_Union,
    ) -> Result<(), NTSTATUS> {
        let (mut multipass, mut passes, most) = (0, 0, most_passes(operation, &u));
        let (mut was_busy, mut built) = (false, false);
        loop {
            let driver = Arc::clone(&self.driver);
            let size = self.paging.buffer_size;
            let batch = self.open_batch(engine)?;
            let fresh = batch.used == 0;
            let mut args = batch.arguments(size);
            args.Operation = operation;
            args.MultipassOffset = multipass;
            args.u = u;
            let status = driver.build(engine, &mut args);
            let advanced = match batch.take_back(engine, &args, size) {
                Ok(advanced) => advanced,
                Err(bugcheck) => {
                    driver.verifier.raise(bugcheck);
                    return Err(STATUS_DEVICE_REMOVED);
                }
            };
            built |= advanced;
            match status {
                STATUS_SUCCESS => {
                    if !built {
                        driver.note_unbuilt(engine, operation);
                    }
                    return Ok(());
                }
                STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER => {
                    passes += 1;
                    let stuck = fresh && !advanced && args.MultipassOffset == multipass;
                    if let Some(found) = never_done(stuck, (passes, most), size) {
                        driver.stop_of_operation((engine, operation), 0xb, u64::from(size), &found);
                        return Err(STATUS_DEVICE_REMOVED);
                    }
                    multipass = args.MultipassOffset;
                    self.go_on_in_next_buffer(engine)?;
                }
                STATUS_GRAPHICS_ALLOCATION_BUSY if !was_busy => {
                    was_busy = true;
                    self.go_on_in_next_buffer(engine)?;
                    while self.wait_oldest()? {}
                }
                // Nothing is under way that it could be busy with.
                STATUS_GRAPHICS_ALLOCATION_BUSY if leaves(operation, &u) => {
                    let found = format!(
                        "answered {status} for an allocation that is to leave its segment, with nothing under way"
                    );
                    driver.stop_of_operation((engine, operation), 0x9, u64::from(status.0 as u32), &found);
                    return Err(STATUS_DEVICE_REMOVED);
                }
                status => return Err(status),
            }
        }
    }

    /// Submits the open buffer in the middle of an operation, the rest of which looks through the same windows.
    fn go_on_in_next_buffer(&mut self, engine: u32) -> Result<(), NTSTATUS> {
        let windows = self.paging.open.as_mut().map(|batch| std::mem::take(&mut batch.windows)).unwrap_or_default();
        self.submit()?;
        self.open_batch(engine)?.windows.extend(windows);
        Ok(())
    }

    /// Submits the open buffer.
    ///
    /// # Errors
    /// What the node says; STATUS_DEVICE_REMOVED when the machine has stopped.
    pub(crate) fn submit(&mut self) -> Result<(), NTSTATUS> {
        let Some(mut batch) = self.paging.open.take() else { return Ok(()) };
        if batch.used == 0 {
            // The driver had nothing for the GPU to do; what is under way may still need what this packet would have held.
            if let Some(last) = self.paging.pending.back_mut() {
                if last.batch.engine == batch.engine {
                    last.batch.windows.append(&mut batch.windows);
                }
                last.batch.release.append(&mut batch.release);
            }
            return self.finish(batch);
        }
        let private = batch.buffer.private.bytes_mut().get_mut(..batch.private_used as usize).unwrap_or_default();
        let fence = match self.node()?.submit(batch.engine, batch.buffer.address, batch.used, private) {
            Ok(fence) => PagingFence { engine: batch.engine, fence },
            // Nothing runs it; what it holds is given back, so that the next buffer finds it.
            Err(status) => return self.finish(batch).and(Err(status)),
        };
        self.paging.submitted += 1;
        self.paging.last = Some(fence);
        self.paging.pending.push_back(Pending { fence, batch });
        Ok(())
    }

    /// Submits the open buffer; the answer is the last packet if any was submitted since `before` (of [`Paging::submitted`]).
    pub(crate) fn submit_since(&mut self, before: u64) -> Result<Option<PagingFence>, NTSTATUS> {
        self.submit()?;
        Ok(if self.paging.submitted > before { self.paging.last } else { None })
    }

    fn finish(&mut self, batch: Batch) -> Result<(), NTSTATUS> {
        if let Ok(space) = self.paging_space(batch.engine) {
            for (at, len) in &batch.windows {
                self.hide(space, *at, len / PAGE_SIZE)?;
                self.paging.windows.release(*at, *len);
            }
        }
        self.release_all(batch.release);
        self.paging.free.push(batch.buffer);
        Ok(())
    }

    fn release_all(&mut self, releases: Vec<Release>) {
        for release in releases {
            match release {
                Release::Local { segment, offset, len } => self.segments.release(segment, offset, len),
                Release::System(memory) => drop(memory),
                Release::Table(table) => self.segments.release_table_now(table),
            }
        }
    }

    /// Gives back what complete packets held. True if there was any.
    pub(crate) fn retire(&mut self) -> Result<bool, NTSTATUS> {
        let mut any = false;
        while let Some(oldest) = self.paging.pending.front() {
            if !self.node()?.is_complete(oldest.fence) {
                break;
            }
            if let Some(done) = self.paging.pending.pop_front() {
                self.finish(done.batch)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Waits for the oldest packet and gives back what it held. False if none is under way.
    pub(crate) fn wait_oldest(&mut self) -> Result<bool, NTSTATUS> {
        let Some(fence) = self.paging.pending.front().map(|oldest| oldest.fence) else { return Ok(false) };
        self.node()?.wait(fence)?;
        self.retire()?;
        // The node said that it is complete; whatever is_complete makes of it, nothing waits for it twice.
        if self.paging.pending.front().is_some_and(|oldest| oldest.fence == fence)
            && let Some(done) = self.paging.pending.pop_front()
        {
            self.finish(done.batch)?;
        }
        Ok(true)
    }

    /// Waits until a packet and all before it are complete.
    pub(crate) fn wait_for(&mut self, fence: PagingFence) -> Result<(), NTSTATUS> {
        while self.paging.pending.iter().any(|pending| pending.fence == fence) {
            self.wait_oldest()?;
        }
        Ok(())
    }

    /// Forgets all paging work: the node runs no more.
    pub(crate) fn abandon_paging(&mut self) {
        self.paging.node = None;
        let pending = std::mem::take(&mut self.paging.pending);
        let batches = pending.into_iter().map(|pending| pending.batch).chain(self.paging.open.take());
        for batch in batches {
            self.release_all(batch.release);
        }
        self.paging.free.clear();
        self.paging.never_run = None;
    }

    /// Gives the memory of a place back after the paging work that was submitted or opened so far.
    pub(crate) fn release_place(&mut self, place: Location, size: u64) {
        let release = match place {
            Location::Uncommitted => return,
            Location::System(memory) => Release::System(memory),
            Location::Local { segment, offset } => Release::Local { segment, offset, len: size },
        };
        self.release_behind(release);
    }

    /// Gives a page table's memory back after the paging work that was submitted or opened so far.
    pub(super) fn release_table_behind(&mut self, table: Table) {
        self.release_behind(Release::Table(table));
    }

    fn release_behind(&mut self, release: Release) {
        let last =
            self.paging.open.as_mut().or_else(|| self.paging.pending.back_mut().map(|pending| &mut pending.batch));
        match last {
            Some(batch) => batch.release.push(release),
            None => self.release_all(vec![release]),
        }
    }

    /// Address in the paging process at which the open buffer of an engine finds a page table.
    ///
    /// # Errors
    /// No window, though nothing is under way.
    pub(super) fn window_onto_table(&mut self, engine: u32, table: (u32, u64), len: u64) -> Result<u64, NTSTATUS> {
        let known = |batch: &&Batch| batch.engine == engine;
        let tables = self.paging.open.as_ref().filter(known).map_or(&[][..], |batch| &batch.tables);
        if let Some((_, window)) = tables.iter().find(|(known, _)| *known == table) {
            return Ok(*window);
        }
        let [window] = self.take_windows(engine, len, PAGE_SIZE)?;
        let space = self.paging_space(engine)?;
        let shown = Shown::Frames { segment: table.0, first: table.1 / PAGE_SIZE };
        self.show_frames(space, window, len / PAGE_SIZE, &shown)?;
        self.open_batch(engine)?.tables.push((table, window));
        Ok(window)
    }

    /// Takes `N` windows of `len` bytes until the open packet is complete. Whatever is submitted to free windows is submitted before
    /// any of them is in use.
    pub(super) fn take_windows<const N: usize>(
        &mut self,
        engine: u32,
        len: u64,
        align: u64,
    ) -> Result<[u64; N], NTSTATUS> {
        loop {
            let mut taken = [0; N];
            let mut missing = false;
            for window in &mut taken {
                match self.paging.windows.allocate(len, align) {
                    Some(at) => *window = at,
                    None => missing = true,
                }
            }
            if !missing {
                let windows = taken.map(|at| (at, len));
                match self.open_batch(engine) {
                    Ok(batch) => batch.windows.extend(windows),
                    Err(status) => {
                        self.give_back_windows(windows);
                        return Err(status);
                    }
                }
                return Ok(taken);
            }
            self.give_back_windows(taken.map(|at| (at, len)));
            self.submit()?;
            if !self.wait_oldest()? {
                return Err(STATUS_NO_MEMORY);
            }
        }
    }

    fn give_back_windows(&mut self, windows: impl IntoIterator<Item = (u64, u64)>) {
        for (at, len) in windows {
            if at != 0 {
                self.paging.windows.release(at, len);
            }
        }
    }

    /// Has an engine write a monitored fence once everything before that it works on is done. `address` is in the paging process.
    pub(crate) fn signal_fence(&mut self, engine: u32, address: u64, value: u64) -> Result<(), NTSTATUS> {
        let signal =
            DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE { MonitoredFenceGpuVa: address, MonitoredFenceValue: value };
        let u = DXGKARG_BUILDPAGINGBUFFER_Union { SignalMonitoredFence: signal };
        self.emit(engine, Operation::DXGK_OPERATION_SIGNAL_MONITORED_FENCE, u)
    }
}

/// Buffers that an operation may fill before it is complete: one for each page of memory that it moves or entry that it writes, and some. No page says how many; a driver that
/// asks for more asks for ever.
fn most_passes(operation: Operation, u: &DXGKARG_BUILDPAGINGBUFFER_Union) -> u64 {
    const SOME: u64 = 1024;
    let units = match operation {
        // SAFETY: the operation selects this arm.
        Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE => u64::from(unsafe { u.UpdatePageTable }.NumPageTableEntries),
        Operation::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => {
            // SAFETY: as above.
            u64::from(unsafe { u.CopyPageTableEntries }.NumRanges).saturating_mul(SOME)
        }
        _ => bytes_of(operation, u) / PAGE_SIZE,
    };
    units.saturating_add(SOME)
}

/// Why an operation for which the driver wants another buffer will never be complete, in words. `stuck`: it has put nothing into an empty one.
fn never_done(stuck: bool, (passes, most): (u64, u64), size: u32) -> Option<String> {
    let answered = format!("answered {STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER}");
    if stuck {
        return Some(format!("{answered} for an empty buffer of {size:#x} bytes and made no progress"));
    }
    (passes > most).then(|| {
        format!(
            "{answered} for {passes} buffers of {size:#x} bytes in succession, and expected is STATUS_SUCCESS after at most {most}: the operation never ends \
             [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER, MultipassOffset]"
        )
    })
}

/// True if an operation takes an allocation out of its segment. [debugger: 0x10e, subcode 0x9]
fn leaves(operation: Operation, u: &DXGKARG_BUILDPAGINGBUFFER_Union) -> bool {
    let outwards = DXGK_MEMORY_TRANSFER_DIRECTION::DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM;
    operation == Operation::DXGK_OPERATION_VIRTUAL_TRANSFER && {
        // SAFETY: the operation selects this arm.
        let transfer = unsafe { u.TransferVirtual };
        transfer.TransferDirection == outwards
    }
}
