//! The driver's side of memory management: BuildPagingBuffer, and nothing else.

use std::sync::{Arc, OnceLock};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::DdiArray;
use crate::kmd_handle::KmdHandle;
use crate::miniport::Miniport;
use crate::rescue::{Rescue, Rescues};
use crate::table_shape::{MEDIUM, PageSize, Shape};
use crate::trace::{TraceKind, operation_name};
use crate::vidmm::cpu_cache::{MemoryType, SharedPages};
use crate::vidmm::scheduler::Scheduler;
use crate::vidmm::segment::Segments;
use crate::vidmm::table::Table;
use crate::vidmm::table_memory::{Entries, Phase, Subject, TableMemory, Update};
use crate::vidmm::table_operation::{Flush, TableWork, UpdateArguments};
use crate::vidmm::written_tables::{Behind, Watched};
use nt::bugcheck::Bugcheck;
use nt::page::PAGE_SIZE;
use nt::ram::Pages;
use nt::verifier::Verifier;

/// The driver as the memory manager calls it, and what it said about its page tables.
pub(crate) struct Driver {
    pub(crate) miniport: Arc<Miniport>,
    /// hAdapter of DDIs.
    pub(crate) context: KmdHandle,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) mmu: DXGK_GPUMMUCAPS,
    /// Leaf first.
    pub(crate) levels: Vec<DXGK_PAGE_TABLE_LEVEL_DESC>,
    pub(crate) shape: Shape,
    /// Linked physical adapters, each with page tables, segments and a paging node of its own.
    pub(crate) engines: u32,
    /// Segments of each.
    pub(crate) segments_of_engine: u32,
    /// The driver's handles of the contexts that paging work runs in, by engine, once there are some.
    pub(crate) paging_contexts: OnceLock<Vec<KmdHandle>>,
    /// The scheduler, whose lock keeps BuildPagingBuffer apart from submissions.
    pub(crate) scheduler: OnceLock<Arc<dyn Scheduler>>,
    /// MapAperture2Supported of DRIVERCAPS.
    pub(crate) map_aperture2: bool,
    pub(crate) rescues: Arc<Rescues>,
}

/// Paging operations by name. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_OPERATION]
pub(crate) type Operation = DXGK_BUILDPAGINGBUFFER_OPERATION;

/// DxgkDdiBuildPagingBuffer of an operation on an engine, in words.
pub(crate) fn building(engine: u32, operation: Operation) -> String {
    let name = operation_name(operation.0).unwrap_or("?");
    format!("DxgkDdiBuildPagingBuffer for DXGK_OPERATION_{name} on the paging node of engine {engine}")
}

/// Bytes that an operation moves or fills.
pub(super) fn bytes_of(operation: Operation, u: &DXGKARG_BUILDPAGINGBUFFER_Union) -> u64 {
    match operation {
        // SAFETY: the operation selects this arm.
        Operation::DXGK_OPERATION_VIRTUAL_TRANSFER => unsafe { u.TransferVirtual.TransferSizeInBytes },
        // SAFETY: as above.
        Operation::DXGK_OPERATION_VIRTUAL_FILL => unsafe { u.FillVirtual.FillSizeInBytes },
        _ => 0,
    }
}

impl Driver {
    /// True if the engines snoop the caches of the processor.
    pub(crate) fn snoops(&self) -> bool {
        self.mmu.Bits.CacheCoherentMemorySupported()
    }

    /// System memory in which the kernel and the engines see each other's stores at once. `pages` is what was found for it, if there was any.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY
    pub(crate) fn shared_words(&self, pages: Option<Pages>) -> Result<SharedPages, NTSTATUS> {
        SharedPages::new(pages.ok_or(STATUS_NO_MEMORY)?, MemoryType::of_words(self.snoops()), self.snoops())
    }

    /// True if the driver's version of the interface has an operation that writes a monitored fence.
    /// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_OPERATION, DXGK_OPERATION_SIGNAL_MONITORED_FENCE]
    pub(crate) fn signals_fences(&self) -> bool {
        self.miniport.version().version >= DXGKDDI_INTERFACE_VERSION_WDDM2_2
    }

    /// Notes what happens, for whoever traces.
    pub(crate) fn note(&self, kind: impl FnOnce() -> TraceKind) {
        self.miniport.events().note(self.context, kind);
    }

    /// Identifier among the segments of its engine, and the engine, of a segment among all; segment 0 is system memory.
    pub(crate) fn segment_of(&self, segment: u32) -> (u32, u32) {
        let count = self.segments_of_engine.max(1);
        segment.checked_sub(1).map_or((0, 0), |place| (place % count + 1, place / count))
    }

    /// True if leaf tables of 64-KiB pages can be used. Where one entry names a table of each size, that of 64-KiB pages stays away.
    pub(crate) fn has_medium_pages(&self) -> bool {
        let size = u64::from(self.mmu.LeafPageTableSizeFor64KPagesInBytes);
        let whole = size != 0 && size.is_multiple_of(PAGE_SIZE);
        whole && !self.mmu.Bits.DualPteSupported() && self.shape.large().is_multiple_of(MEDIUM)
    }

    /// Bytes of a large page, if there are some.
    pub(crate) fn large_page(&self) -> Option<u64> {
        let bytes = self.shape.large() * PAGE_SIZE;
        self.mmu.Bits.LargePageSupported().then_some(bytes)
    }

    /// Identifier among all of a segment of an engine.
    pub(crate) fn segment_in(&self, engine: u32, segment: u32) -> u32 {
        if segment == 0 { 0 } else { engine * self.segments_of_engine + segment }
    }

    /// One BuildPagingBuffer call for an engine; the result is one of the three legal ones, or the machine has stopped.
    /// [d3dkmddi: DXGKDDI_BUILDPAGINGBUFFER]
    pub(crate) fn build(&self, engine: u32, args: &mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
        let context = self.paging_contexts.get().and_then(|contexts| contexts.get(engine as usize));
        args.hSystemContext = context.map_or(std::ptr::null_mut(), |context| context.raw());
        let operation = args.Operation;
        let status = {
            let _class = self.scheduler.get().map(|scheduler| scheduler.scheduler_class("DxgkDdiBuildPagingBuffer"));
            let kind = TraceKind::PagingOperation { operation: operation.0, bytes: bytes_of(operation, &args.u) };
            let build = || self.miniport.build_paging_buffer(self.context.raw(), args).status();
            self.miniport.events().during(self.context, build, |_| kind)
        };
        let legal = [STATUS_SUCCESS, STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER];
        if legal.contains(&status) || self.verifier.is_stopped() {
            return status;
        }
        let reason = format!(
            "{} answered {status}, and expected is STATUS_SUCCESS, STATUS_GRAPHICS_ALLOCATION_BUSY or STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER",
            building(engine, operation)
        );
        let parameters = (operation.0 as u32 as u64, u64::from(status.0 as u32));
        self.verifier.raise(Bugcheck::memory(0xb, parameters.0, parameters.1, 0, reason));
        STATUS_DEVICE_REMOVED
    }

    /// Stops the machine for a wrong answer about an operation of an engine. [debugger: 0x10e]
    pub(crate) fn stop_of_operation(
        &self,
        (engine, operation): (u32, Operation),
        subcode: u64,
        parameter: u64,
        found: &str,
    ) {
        let reason = format!("{} {found}", building(engine, operation));
        self.verifier.raise(Bugcheck::memory(subcode, operation.0 as u32 as u64, parameter, 0, reason));
    }

    /// The driver has put no command into the buffer for an operation: a finding where only a GPU can carry it out, because it is about its virtual addresses.
    pub(crate) fn note_unbuilt(&self, engine: u32, operation: Operation) {
        if matches!(operation, Operation::DXGK_OPERATION_VIRTUAL_FILL | Operation::DXGK_OPERATION_VIRTUAL_TRANSFER) {
            self.rescues.add(Rescue::UnbuiltOperation, 1);
            self.verifier.log(format!(
                "{} answered {STATUS_SUCCESS} and left pDmaBuffer as it was, and expected is a command for the GPU [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER]",
                building(engine, operation)
            ));
        }
    }

    /// An operation that the driver carries out with the CPU before it returns. [d3dkmddi: DXGKARG_BUILDPAGINGBUFFER::pDmaBuffer]
    pub(crate) fn at_once(
        &self,
        engine: u32,
        operation: Operation,
        u: DXGKARG_BUILDPAGINGBUFFER_Union,
    ) -> Result<(), NTSTATUS> {
        let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        args.Operation = operation;
        args.u = u;
        let status = self.build(engine, &mut args);
        if status == STATUS_SUCCESS {
            return Ok(());
        }
        if !self.verifier.is_stopped() {
            // Nothing was under way that the driver could be waiting for, so a second try would end the same.
            let reason = format!(
                "{} answered {status}, and expected is STATUS_SUCCESS, for it takes no buffer",
                building(engine, operation)
            );
            let parameters = (operation.0 as u32 as u64, u64::from(status.0 as u32));
            self.verifier.raise(Bugcheck::memory(0x30, parameters.0, parameters.1, 0, reason));
        }
        Err(STATUS_DEVICE_REMOVED)
    }

    /// After DXGK_OPERATION_UPDATE_PAGE_TABLE of an engine with these entries.
    pub(crate) fn check_entries(&self, engine: u32, entries: &DdiArray<DXGK_PTE>) {
        if !entries.is_intact() {
            let call = building(engine, Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE);
            entries.check(&self.verifier, &call, "pPageTableEntries");
        }
    }

    /// True if the GPU writes the page tables of a process.
    pub(crate) fn tables_by_gpu(&self, paging_process: bool) -> bool {
        !paging_process && self.mmu.PageTableUpdateMode != DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL
    }

    /// Makes an engine forget translations of a process: at once, or where the GPU writes its tables behind what it is to write before.
    pub(crate) fn flush(&self, segments: &mut Segments, paging_process: bool, flush: Flush) -> Result<(), NTSTATUS> {
        match &mut segments.table_work {
            Some(work) if !paging_process => {
                work.push(TableWork::Flush(flush));
                Ok(())
            }
            _ => self.flush_at_once(&flush),
        }
    }

    /// As [`Driver::flush`], before the call returns.
    pub(crate) fn flush_at_once(&self, flush: &Flush) -> Result<(), NTSTATUS> {
        self.at_once(flush.engine, Operation::DXGK_OPERATION_FLUSH_TLB, self.flush_arguments(flush))
    }

    /// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_FLUSHTLB]
    pub(crate) fn flush_arguments(&self, flush: &Flush) -> DXGKARG_BUILDPAGINGBUFFER_Union {
        let mut args = DXGK_BUILDPAGINGBUFFER_FLUSHTLB::zeroed();
        let (segment, _) = self.segment_of(flush.root.0);
        args.RootPageTableAddress =
            D3DGPU_PHYSICAL_ADDRESS { SegmentId: segment, Padding: 0, SegmentOffset: flush.root.1 };
        args.hProcess = flush.process.raw();
        args.StartVirtualAddress = flush.start;
        args.EndVirtualAddress = flush.end;
        DXGKARG_BUILDPAGINGBUFFER_Union { FlushTlb: args }
    }
}

/// Page tables of one process on one engine, written by the driver.
pub(crate) struct TableWriter<'a> {
    pub(crate) engine: u32,
    pub(crate) driver: &'a Driver,
    pub(crate) segments: &'a mut Segments,
    /// The driver's handle of the process.
    pub(crate) process: KmdHandle,
    /// The paging process has its own segments for tables.
    pub(crate) paging_process: bool,
    pub(crate) subject: Subject,
}

impl TableMemory for TableWriter<'_> {
    type Table = Table;

    fn create(&mut self, level: u32, pages: PageSize) -> Result<Table, NTSTATUS> {
        let desc = self.driver.levels.get(level as usize).ok_or(STATUS_INVALID_PARAMETER)?;
        let segment = if self.paging_process { desc.PagingProcessPageTableSegmentId } else { desc.PageTableSegmentId };
        let align = u64::from(desc.PageTableAlignmentInBytes.max(1));
        let segment = self.driver.segment_in(self.engine, segment);
        let size = match pages {
            PageSize::Medium => self.driver.mmu.LeafPageTableSizeFor64KPagesInBytes,
            PageSize::Small | PageSize::Large => desc.PageTableSizeInBytes,
        };
        self.segments.allocate_table(segment, u64::from(size), align)
    }

    fn destroy(&mut self, table: Table) {
        self.segments.release_table(table);
    }

    fn link(&self, table: &Table, pages: PageSize) -> DXGK_PTE {
        let (address, mut entry) = (table.address(), DXGK_PTE::zeroed());
        let (segment, engine) = self.driver.segment_of(address.0);
        entry.Bits.set_Valid(true);
        entry.Bits.set_Segment(segment as u8);
        entry.Bits.set_PhysicalAdapterIndex(engine as u8);
        // [d3dukmdt: DXGK_PTE_PAGE_SIZE]
        entry.Bits.set_PageTablePageSize(u8::from(pages == PageSize::Medium));
        entry.u1 = DXGK_PTE_Union1 { PageTableAddress: address.1 / PAGE_SIZE };
        entry
    }

    fn subject(&self) -> Subject {
        self.subject
    }

    fn update(&mut self, update: Update<'_, Table>) -> Result<(), NTSTATUS> {
        let (same, count);
        let entries = match update.entries {
            Entries::Each(entries) => {
                count = entries.len() as u32;
                entries
            }
            Entries::Same(entry, times) => {
                (same, count) = ([entry], times);
                &same[..]
            }
        };
        let flags = DXGK_UPDATEPAGETABLEFLAGS::new()
            .with_Repeat(matches!(update.entries, Entries::Same(..)))
            .with_InitialUpdate(update.phase == Phase::Initial)
            .with_NotifyEviction(update.phase == Phase::Eviction)
            .with_Use64KBPages(update.pages == Some(PageSize::Medium));
        let shows = update.pages.is_some() && update.phase == Phase::InUse;
        let subject = if shows { update.subject.unwrap_or(self.subject).at(update.first_page) } else { Subject::NONE };
        let arguments = UpdateArguments {
            engine: self.engine,
            process: self.process,
            level: update.level,
            start: update.start,
            count,
            flags,
            first_page: update.first_page,
            allocation: subject.allocation,
            allocation_offset: subject.offset,
            driver_protection: subject.driver_protection,
        };
        if let Some(work) = self.segments.table_work.as_mut().filter(|_| !self.paging_process) {
            let (table, len) = (update.table.address(), update.table.len());
            work.push(TableWork::Update { update: arguments, table, len, entries: entries.to_vec() });
            return Ok(());
        }
        let address = update.table.kernel_address().ok_or(STATUS_INVALID_PARAMETER)?;
        // A driver that keeps entries elsewhere has itself told of each; it need not write them here. [d3dkmddi: DXGK_GPUMMUCAPS, ExplicitPageTableInvalidation]
        let writes_here = !self.driver.mmu.Bits.ExplicitPageTableInvalidation();
        let watched = writes_here.then(|| Watched::new(update.table, update.phase, &update.entries));
        // Where a GPU writes tables too, what lies behind one may change by that.
        let is_alone = !self.driver.tables_by_gpu(false);
        let behind = self.segments.behind_table(update.table).filter(|_| is_alone).map(Behind::new);
        let address = DXGK_PAGETABLEUPDATEADDRESS { CpuVirtual: address.as_ptr().cast() };
        let mut lent = DdiArray::new(entries.to_vec());
        let u = arguments.with(&mut lent, DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL, address);
        self.driver.at_once(self.engine, Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE, u)?;
        self.driver.check_entries(self.engine, &lent);
        let overrun = behind.and_then(|behind| behind.overrun(update.table.len()));
        match overrun.or_else(|| watched.and_then(|watched| watched.left_out(update.phase, entries))) {
            Some(rule) if !self.driver.verifier.is_stopped() => {
                let call = building(self.engine, Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE);
                let reason = format!("{call} answered {STATUS_SUCCESS} {rule}");
                self.driver.verifier.raise(Bugcheck::fatal(reason));
                Err(STATUS_DEVICE_REMOVED)
            }
            _ => Ok(()),
        }
    }
}
