//! Whatever a process asks of its GPU addresses and its residency, in whatever order: what the GPU finds there is what a model says.
//!
//! The driver and the device are the real ones. After every step the GPU reads each page that must be there; at the end it touches pages
//! that must not be, which faults by name. A failure names the shortest list of steps; proptest repeats it at the next run from its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use campanile_device::PageTableUpdates;
use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use dxgkrnl::Process;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use self::update::Change;
use super::fault::wait_for_error;
use crate::kmt::BAD_ARGUMENT;
use crate::rig::{Memory, RawFence, RawQueue, Rig, View, fill};
use crate::simulated::on_thread;
use crate::{Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

#[path = "address_model_update.rs"]
mod update;

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
const UNIT: u64 = 64 << 10;
/// Most allocations of a sequence.
const ALLOCATIONS: usize = 6;
/// Most lists of steps that are executed to reach the number of successful ones that the case asks for.
const MOST_ROUNDS: usize = 12;
/// Packets of one submission.
const BATCH: usize = 8;

/// One request. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Create {
        pages: u64,
        placement: Placement,
    },
    MakeResident(usize),
    Evict(usize),
    Offer(usize),
    Reclaim(usize),
    Destroy(usize),
    Reserve {
        units: u64,
        zero: bool,
    },
    ReserveBadly(u64),
    /// A new range, or part of one.
    Map {
        region: Option<(usize, u64)>,
        allocation: usize,
        first: u64,
        pages: u64,
        write: bool,
    },
    Cover {
        region: usize,
        page: u64,
        pages: u64,
        zero: bool,
    },
    /// Several changes of a range at once, with the work of a queue.
    Update(usize, Vec<Change>),
    Free(usize),
    FreeBadly {
        region: usize,
        offset: u64,
        len: u64,
    },
    /// Others need all memory for a moment.
    Squeeze,
    /// Another process takes all memory that it gets, page tables of this one included, and gives it back.
    Oust,
    Write(usize),
}

/// Numbers of pages, now and then one that nothing has.
fn length() -> impl Strategy<Value = u64> {
    let hostile = prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX / PAGE), Just(1 << 51), Just(1 << 40), 33..300u64];
    prop_oneof![9 => 1..12u64, 1 => hostile]
}

fn step() -> impl Strategy<Value = Step> {
    let placement = prop_oneof![
        Just(Placement::System),
        Just(Placement::Vram),
        Just(Placement::Vram),
        Just(Placement::VramVisible)
    ];
    let bad = prop_oneof![Just(0), Just(PAGE), Just(UNIT + PAGE), Just(1 << 52), Just(u64::MAX), Just(!(UNIT - 1))];
    let which = 0..16usize;
    prop_oneof![
        3 => (1..12u64, placement).prop_map(|(pages, placement)| Step::Create { pages, placement }),
        4 => which.clone().prop_map(Step::MakeResident),
        3 => which.clone().prop_map(Step::Evict),
        1 => which.clone().prop_map(Step::Offer),
        1 => which.clone().prop_map(Step::Reclaim),
        1 => which.clone().prop_map(Step::Destroy),
        2 => (1..3u64, any::<bool>()).prop_map(|(units, zero)| Step::Reserve { units, zero }),
        1 => bad.prop_map(Step::ReserveBadly),
        6 => (prop::option::of((which.clone(), 0..40u64)), which.clone(), length(), length(), any::<bool>()).prop_map(
            |(region, allocation, first, pages, write)| Step::Map { region, allocation, first: first.wrapping_sub(1), pages, write }
        ),
        2 => (which.clone(), 0..40u64, length(), any::<bool>())
            .prop_map(|(region, page, pages, zero)| Step::Cover { region, page, pages, zero }),
        6 => (which.clone(), prop::collection::vec(update::change(), 1..6))
            .prop_map(|(region, changes)| Step::Update(region, changes)),
        1 => which.clone().prop_map(Step::Free),
        1 => (which.clone(), prop_oneof![Just(0), Just(PAGE), Just(UNIT)], length())
            .prop_map(|(region, offset, len)| Step::FreeBadly { region, offset, len: len.wrapping_mul(PAGE) }),
        2 => Just(Step::Squeeze),
        3 => Just(Step::Oust),
        3 => which.prop_map(Step::Write),
    ]
}

/// What a page must show: its address, what it shows, and the word there, if it is known.
type Expected = (u64, Shown, Option<u64>);

/// Expected contents of a page of GPU virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Zero,
    Page { allocation: D3DKMT_HANDLE, page: usize, write: bool },
}

/// An allocation as the model has it.
#[derive(Debug)]
struct Model {
    /// First word of each page, where it is known.
    words: Vec<Option<u64>>,
    listed: u32,
    offered: bool,
}

/// Another process, with allocations that all of VRAM cannot contain.
struct Other {
    process: Arc<Process>,
    rig: Rig,
    fillers: Vec<D3DKMT_HANDLE>,
}

impl Other {
    fn new(system: &System) -> Result<Self, Failure> {
        let process = Process::new(system.machine(), "other");
        let made = on_thread(&process, || {
            let rig = Rig::open(system.luid())?;
            let filler = |number: u64| {
                let size = [1 << 20, 64 << 10, PAGE][number as usize / 16];
                rig.create(size, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}")))
            };
            let fillers = (0..48).map(filler).collect::<Result<_, _>>()?;
            Ok((rig, fillers))
        });
        made.map(|(rig, fillers)| Self { process, rig, fillers })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.process.exit();
    }
}

/// The process, and the model of what it has.
struct World<'s> {
    system: &'s System,
    rig: Rig,
    queue: RawQueue,
    seen: Memory,
    view: View,
    allocations: BTreeMap<D3DKMT_HANDLE, Model>,
    regions: BTreeMap<u64, Vec<Shown>>,
    /// Those of them that were reserved as zero.
    zeros: BTreeSet<u64>,
    /// Fence that updates wait for and signal.
    fence: RawFence,
    /// Ranges that were given back.
    gone: Vec<u64>,
    fillers: Vec<D3DKMT_HANDLE>,
    other: Other,
    /// Devices for accesses that fault; made first, so that nothing of theirs lies in a range that was given back.
    guilty: Vec<(Rig, RawQueue)>,
    written: u32,
    /// Updates that were legal.
    updated: &'s AtomicU64,
}

/// Makes resident what fits, and lets go of it.
fn fill_memory(rig: &Rig, fillers: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
    let mut there = Vec::new();
    for filler in fillers {
        let mut list = *filler;
        let mut request = D3DDDI_MAKERESIDENT::zeroed();
        (request.hPagingQueue, request.NumAllocations, request.AllocationList) = (rig.paging_queue, 1, &mut list);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
        if status != STATUS_NO_MEMORY {
            rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
            there.push(list);
        }
    }
    there.into_iter().try_for_each(|filler| granted(rig.evict(filler), "D3DKMTEvict"))
}

fn pick<T: Copy>(mut all: impl ExactSizeIterator<Item = T>, number: usize) -> Option<T> {
    let len = all.len();
    (len > 0).then(|| all.nth(number % len)).flatten()
}

impl<'s> World<'s> {
    fn new(system: &'s System, updated: &'s AtomicU64) -> Result<Self, Failure> {
        let rig = Rig::open(system.luid())?;
        let queue = rig.queue(NODE_COPY)?;
        let seen = rig.memory(UNIT, Placement::SystemUncached)?;
        let view = rig.view(seen)?;
        let filler =
            |_| rig.create(1 << 20, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}")));
        let fillers = (0..8).map(filler).collect::<Result<_, _>>()?;
        let guilty = |_| {
            let guilty = Rig::on_adapter(rig.kmt, rig.adapter)?;
            let queue = guilty.queue(NODE_COPY)?;
            Ok((guilty, queue))
        };
        let guilty = (0..3).map(guilty).collect::<Result<_, Failure>>()?;
        let (other, fence, zeros) = (Other::new(system)?, rig.fence(0)?, BTreeSet::new());
        let (allocations, regions, gone) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Self {
            system,
            rig,
            queue,
            seen,
            view,
            allocations,
            regions,
            zeros,
            fence,
            gone,
            fillers,
            other,
            guilty,
            written: 0,
            updated,
        })
    }

    fn allocation(&self, number: usize) -> Option<D3DKMT_HANDLE> {
        pick(self.allocations.keys().copied(), number)
    }

    fn region(&self, number: usize) -> Option<u64> {
        pick(self.regions.keys().copied(), number)
    }

    /// The range that a page behind the start of one lies in, and which of its pages it is: beyond the end may be the next range.
    fn place(&self, base: u64, page: u64) -> (u64, u64) {
        let address = base + page * PAGE;
        let range = self.regions.range(..=address).next_back().map_or(base, |(start, _)| *start);
        (range, (address - range) / PAGE)
    }

    fn take(&mut self, step: &Step) -> Result<(), Failure> {
        match *step {
            Step::Create { pages, placement } if self.allocations.len() < ALLOCATIONS => {
                let created = self.rig.create(pages * PAGE, placement);
                let handle = created.map_err(|status| Failure::new(format!("create: {status}")))?;
                let words = vec![Some(0); pages as usize];
                self.allocations.insert(handle, Model { words, listed: 0, offered: false });
                Ok(())
            }
            Step::Create { .. } => Ok(()),
            Step::MakeResident(number) => self.allocation(number).map_or(Ok(()), |handle| self.make_resident(handle)),
            Step::Evict(number) => self.allocation(number).map_or(Ok(()), |handle| self.evict(handle)),
            Step::Offer(number) => self.allocation(number).map_or(Ok(()), |handle| self.offer(handle)),
            Step::Reclaim(number) => self.allocation(number).map_or(Ok(()), |handle| self.reclaim(handle)),
            Step::Destroy(number) => self.allocation(number).map_or(Ok(()), |handle| self.destroy(handle)),
            Step::Reserve { units, zero } => self.reserve(units, zero),
            Step::ReserveBadly(len) => refused(
                self.reserve_raw(len, false).0,
                &[STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY],
                "a bad reservation",
            ),
            Step::Map { region, allocation, first, pages, write } => {
                let Some(handle) = self.allocation(allocation) else { return Ok(()) };
                let at = region.and_then(|(number, page)| Some(self.place(self.region(number)?, page)));
                self.map(handle, at, (first, pages), write)
            }
            Step::Cover { region, page, pages, zero } => self.region(region).map_or(Ok(()), |base| {
                let (base, page) = self.place(base, page);
                self.cover(base, page, pages, zero)
            }),
            Step::Update(number, ref changes) => {
                self.region_to_update(number).map_or(Ok(()), |base| self.update(base, changes))
            }
            Step::Free(number) => self.region(number).map_or(Ok(()), |base| {
                let len = self.regions.remove(&base).map_or(0, |shown| shown.len() as u64 * PAGE);
                self.gone.push(base);
                granted(self.rig.free(base, len), "freeing a whole range")
            }),
            Step::FreeBadly { region, offset, len } => self.region(region).map_or(Ok(()), |base| {
                let whole = self.regions.get(&base).map_or(0, |shown| shown.len() as u64 * PAGE);
                if (offset, len) == (0, whole) || self.regions.contains_key(&(base + offset)) && offset != 0 {
                    return Ok(());
                }
                refused(self.rig.free(base.wrapping_add(offset), len), BAD_ARGUMENT, "freeing part of a range, or more")
            }),
            Step::Squeeze => self.squeeze(),
            Step::Oust => self.oust(),
            Step::Write(number) => self.region(number).map_or(Ok(()), |base| self.write(base)),
        }
    }

    fn make_resident(&mut self, handle: D3DKMT_HANDLE) -> Result<(), Failure> {
        let mut list = handle;
        let mut request = D3DDDI_MAKERESIDENT::zeroed();
        (request.hPagingQueue, request.NumAllocations, request.AllocationList) = (self.rig.paging_queue, 1, &mut list);
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTMakeResident, &mut request);
        let Some(model) = self.allocations.get_mut(&handle) else { return Ok(()) };
        if model.offered {
            return refused(status, BAD_ARGUMENT, "making resident what is offered");
        }
        if status == STATUS_NO_MEMORY && model.listed == 0 {
            return Ok(());
        }
        model.listed += 1;
        self.rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")
    }

    fn evict(&mut self, handle: D3DKMT_HANDLE) -> Result<(), Failure> {
        let status = self.rig.evict(handle);
        match self.allocations.get_mut(&handle) {
            Some(model) if model.listed > 0 => {
                model.listed -= 1;
                granted(status, "D3DKMTEvict")
            }
            _ => refused(status, BAD_ARGUMENT, "evicting what is not on the list"),
        }
    }

    fn offer(&mut self, handle: D3DKMT_HANDLE) -> Result<(), Failure> {
        let mut list = handle;
        let mut offer = D3DKMT_OFFERALLOCATIONS::zeroed();
        (offer.hDevice, offer.HandleList, offer.NumAllocations) = (self.rig.device, &mut list, 1);
        offer.Priority = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_LOW;
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTOfferAllocations, &mut offer);
        match self.allocations.get_mut(&handle) {
            Some(model) if !model.offered => {
                model.offered = true;
                granted(status, "D3DKMTOfferAllocations")
            }
            _ => refused(status, BAD_ARGUMENT, "offering what is offered"),
        }
    }

    fn reclaim(&mut self, handle: D3DKMT_HANDLE) -> Result<(), Failure> {
        let (mut list, mut result) = (handle, -1);
        let mut reclaim = D3DKMT_RECLAIMALLOCATIONS2::zeroed();
        (reclaim.hPagingQueue, reclaim.HandleList, reclaim.NumAllocations) = (self.rig.paging_queue, &mut list, 1);
        reclaim.u = D3DKMT_RECLAIMALLOCATIONS2_Union { pDiscarded: &mut result };
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTReclaimAllocations2, &mut reclaim);
        let Some(model) = self.allocations.get_mut(&handle) else { return Ok(()) };
        if !model.offered {
            return refused(status, BAD_ARGUMENT, "reclaiming what is not offered");
        }
        if status == STATUS_NO_MEMORY {
            return Ok(());
        }
        model.offered = false;
        if result == D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_DISCARDED.0 {
            model.words.fill(None);
        }
        self.rig.settle(status, reclaim.PagingFenceValue, "D3DKMTReclaimAllocations2")
    }

    fn destroy(&mut self, handle: D3DKMT_HANDLE) -> Result<(), Failure> {
        self.allocations.remove(&handle);
        for shown in self.regions.values_mut().flatten() {
            if matches!(shown, Shown::Page { allocation, .. } if *allocation == handle) {
                *shown = Shown::Nothing;
            }
        }
        // Without the flag its pages may be there for a while after the call. [d3dukmdt: D3DDDICB_DESTROYALLOCATION2FLAGS]
        let synchronous = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_SynchronousDestroy(true);
        granted(self.rig.destroy_allocation_with(handle, synchronous), "destroying an allocation")?;
        // Ranges that were only made for a mapping went with it, and are somebody else's from now on.
        let empty = |shown: &Vec<Shown>| shown.iter().all(|page| *page == Shown::Nothing);
        let (mut kept, empty): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.regions).into_iter().partition(|(_, shown)| !empty(shown));
        for (base, shown) in empty {
            match self.rig.free(base, shown.len() as u64 * PAGE) {
                STATUS_SUCCESS | STATUS_INVALID_PARAMETER => self.gone.push(base),
                status => granted(status, "freeing an empty range")?,
            }
        }
        std::mem::swap(&mut self.regions, &mut kept);
        Ok(())
    }

    fn reserve_raw(&self, len: u64, zero: bool) -> (NTSTATUS, u64) {
        use D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE as Kind;
        let mut reserve = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
        reserve.u = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union { hAdapter: self.rig.adapter };
        let kind = match zero {
            true => Kind::D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO,
            false => Kind::D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS,
        };
        reserve.u1 = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union1 { ReservationType: kind };
        reserve.Size = len;
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTReserveGpuVirtualAddress, &mut reserve);
        (status, reserve.VirtualAddress)
    }

    /// Notes a new range, which must be nobody's.
    fn add_region(&mut self, base: u64, shown: Vec<Shown>) -> Result<(), Failure> {
        let end = base + shown.len() as u64 * PAGE;
        let before = self.regions.range(..end).next_back().map(|(base, shown)| base + shown.len() as u64 * PAGE);
        ensure!(
            base.is_multiple_of(UNIT) && before.is_none_or(|before| before <= base),
            "a new range at {base:#x} is in use"
        );
        self.gone.retain(|gone| !(base..end).contains(gone));
        self.zeros.remove(&base);
        self.regions.insert(base, shown);
        Ok(())
    }

    /// What was asked for at an address beyond a range is a range of its own, if it can be one.
    fn add_next(&mut self, base: u64, page: u64, shown: Vec<Shown>) -> Result<(), Failure> {
        let inside = self.regions.get(&base).is_some_and(|shown| page < shown.len() as u64);
        ensure!(!inside, "a range that begins in another one was granted");
        self.add_region(base + page * PAGE, shown)
    }

    fn reserve(&mut self, units: u64, zero: bool) -> Result<(), Failure> {
        let (status, base) = self.reserve_raw(units * UNIT, zero);
        match status {
            STATUS_NO_MEMORY if zero => Ok(()),
            status => {
                granted(status, "D3DKMTReserveGpuVirtualAddress")?;
                let shown = if zero { Shown::Zero } else { Shown::Nothing };
                self.add_region(base, vec![shown; (units * UNIT / PAGE) as usize])?;
                if zero {
                    self.zeros.insert(base);
                }
                Ok(())
            }
        }
    }

    /// The pages of a range, if it has so many there.
    fn part(&mut self, base: u64, page: u64, pages: u64) -> Option<&mut [Shown]> {
        let shown = self.regions.get_mut(&base)?;
        let (page, pages) = (usize::try_from(page).ok()?, usize::try_from(pages).ok()?);
        shown.get_mut(page..page.checked_add(pages)?).filter(|part| !part.is_empty())
    }

    fn map(
        &mut self,
        handle: D3DKMT_HANDLE,
        at: Option<(u64, u64)>,
        (first, pages): (u64, u64),
        write: bool,
    ) -> Result<(), Failure> {
        let size = self.allocations.get(&handle).map_or(0, |model| model.words.len() as u64);
        let inside = pages > 0 && first.checked_add(pages).is_some_and(|end| end <= size);
        let new: Vec<Shown> = match inside {
            true => (first..first + pages)
                .map(|page| Shown::Page { allocation: handle, page: page as usize, write })
                .collect(),
            false => Vec::new(),
        };
        let fits = inside && at.is_none_or(|(base, page)| self.part(base, page, pages).is_some());
        let mut request = self.rig.map_request(handle, 0);
        (request.SizeInPages, request.OffsetInPages) = (pages, first);
        request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Write(write);
        request.BaseAddress = at.map_or(0, |(base, page)| base + page * PAGE);
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        if let Some((base, page)) = at.filter(|_| inside && !fits)
            && status.is_success()
        {
            let written = self.rig.settle(status, request.PagingFenceValue, "a mapping beyond a range");
            return written.and_then(|()| self.add_next(base, page, new));
        }
        if !fits {
            return refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY], "a mapping that fits nowhere");
        }
        if status == STATUS_NO_MEMORY {
            // No page tables: nothing is there then.
            if let Some(part) = at.and_then(|(base, page)| self.part(base, page, pages)) {
                part.fill(Shown::Nothing);
            }
            return Ok(());
        }
        self.rig.settle(status, request.PagingFenceValue, "D3DKMTMapGpuVirtualAddress")?;
        match at {
            None => self.add_region(request.VirtualAddress, new),
            Some((base, page)) => {
                ensure_eq!(request.VirtualAddress, base + page * PAGE, "address of a mapping in a range");
                if let Some(part) = self.part(base, page, pages) {
                    part.copy_from_slice(&new);
                }
                Ok(())
            }
        }
    }

    /// Has part of a range show zeros or nothing.
    fn cover(&mut self, base: u64, page: u64, pages: u64, zero: bool) -> Result<(), Failure> {
        let mut request = self.rig.map_request(0, 0);
        (request.SizeInPages, request.BaseAddress) = (pages, base + page * PAGE);
        request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Zero(zero).with_NoAccess(!zero);
        let status = self.rig.kmt.call(self.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request);
        if status.is_success() {
            self.rig.settle(status, request.PagingFenceValue, "covering part of a range")?;
        }
        let shown = if zero { Shown::Zero } else { Shown::Nothing };
        if status.is_success() && self.part(base, page, pages).is_none() {
            let Ok(count @ 1..1000) = usize::try_from(pages) else {
                return granted(self.rig.free(base + page * PAGE, pages.wrapping_mul(PAGE)), "freeing a large range");
            };
            return self.add_next(base, page, vec![shown; count]);
        }
        match self.part(base, page, pages) {
            None => refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY], "covering more than a range"),
            Some(part) if status == STATUS_NO_MEMORY && zero => {
                part.fill(Shown::Nothing);
                Ok(())
            }
            Some(part) => {
                part.fill(shown);
                granted(status, "covering part of a range")
            }
        }
    }

    fn squeeze(&self) -> Result<(), Failure> {
        fill_memory(&self.rig, &self.fillers)
    }

    fn oust(&self) -> Result<(), Failure> {
        on_thread(&self.other.process, || fill_memory(&self.other.rig, &self.other.fillers))
    }

    /// Whether the GPU may use what a page shows, and the word it finds if that is known.
    fn expected(&self, shown: Shown) -> Option<Option<u64>> {
        match shown {
            Shown::Nothing => None,
            Shown::Zero => Some(Some(0)),
            Shown::Page { allocation, page, .. } => {
                let model = self.allocations.get(&allocation).filter(|model| model.listed > 0 && !model.offered)?;
                model.words.get(page).copied()
            }
        }
    }

    /// The GPU writes a word of its own to every page of a range that it may write.
    fn write(&mut self, base: u64) -> Result<(), Failure> {
        let shown = self.regions.get(&base).cloned().unwrap_or_default();
        let mut packets = Vec::new();
        for (index, shown) in (0..).zip(shown) {
            let Shown::Page { allocation, page, write: true } = shown else { continue };
            if self.expected(shown).is_none() {
                continue;
            }
            self.written += 1;
            packets.push(fill(base + index * PAGE, 8, self.written));
            let word = u64::from(self.written) << 32 | u64::from(self.written);
            if let Some(model) = self.allocations.get_mut(&allocation) {
                model.words[page] = Some(word);
            }
        }
        packets.chunks(BATCH).try_for_each(|packets| self.rig.execute(&mut self.queue, packets))
    }

    /// The GPU reads every page that must be there.
    fn check(&mut self) -> Result<(), Failure> {
        let mut wanted = Vec::new();
        for (base, shown) in &self.regions {
            for (index, shown) in (0..).zip(shown) {
                if let Some(word) = self.expected(*shown) {
                    wanted.push((base + index * PAGE, *shown, word));
                }
            }
        }
        for some in wanted.chunks((UNIT / 8) as usize) {
            self.view.fill(0xee);
            let read = |(slot, (address, _, _)): (u64, &(u64, Shown, Option<u64>))| {
                Packet::Copy(packet::Copy {
                    source: *address,
                    destination: self.seen.address + slot * 8,
                    row_bytes: 8,
                    rows: 1,
                    source_pitch: 0,
                    destination_pitch: 0,
                })
            };
            let packets: Vec<Packet> = (0..).zip(some).map(read).collect();
            for packets in packets.chunks(BATCH) {
                self.rig.execute(&mut self.queue, packets)?;
            }
            let wrong = |(slot, (_, _, word)): &(u64, &Expected)| {
                word.is_some_and(|word| self.view.read(slot * 8, 8) != word.to_le_bytes())
            };
            let wrong: Vec<_> = (0..).zip(some).filter(wrong).map(|(slot, page)| (slot, *page)).collect();
            if !wrong.is_empty() {
                return Err(self.explain(&wrong));
            }
        }
        Ok(())
    }

    /// What was wrong, and what the GPU finds when it looks at the whole of the first such page again.
    fn explain(&mut self, wrong: &[(u64, Expected)]) -> Failure {
        let line = |(slot, (address, shown, word)): &(u64, Expected)| {
            let found = self.view.read(slot * 8, 8);
            format!("{address:#x}, which shows {shown:?}, holds {found:x?} instead of {word:x?}")
        };
        let lines: Vec<String> = wrong.iter().map(line).collect();
        self.view.fill(0xdd);
        let first = wrong.first().map_or(0, |(_, (address, ..))| *address);
        let again = self.rig.execute(&mut self.queue, &[crate::rig::copy(first, self.seen.address, PAGE as u32)]);
        let page = self.view.read(0, PAGE);
        let differs = page.chunks(8).filter(|word| *word != &page[..8]).count();
        let state = self.system.machine().inspect(self.system.luid()).map(|tree| tree.to_string()).unwrap_or_default();
        Failure::new(format!("{lines:#?}; again ({again:?}): {:x?}, {differs} words differ\n{state}", &page[..8]))
    }

    /// An access of a device of its own that must fault there.
    fn faults(&mut self, address: u64, write: bool, what: &str) -> Result<(), Failure> {
        let (guilty, mut queue) = self.guilty.pop().ok_or_else(|| Failure::new("no device is left to fault"))?;
        let packet = if write { fill(address, 8, 0xdead) } else { crate::rig::copy(self.seen.address, address, 8) };
        let value = guilty.submit_doomed(&mut queue, &[packet])?;
        let lost = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
        let state = wait_for_error(guilty.kmt, guilty.device).map_err(|failure| {
            let progress = queue.progress.load();
            let state =
                self.system.machine().inspect(self.system.luid()).map(|tree| tree.to_string()).unwrap_or_default();
            let text = format!("access to {address:#x}, {what}: progress {progress} of {value}; {failure:?}\n{state}");
            Failure::new(text)
        })?;
        ensure_eq!(state, lost, "an access to {address:#x}, {what}");
        let at = guilty.kmt.page_fault_state(guilty.device)?.FaultedVirtualAddress;
        ensure_eq!(at & !(PAGE - 1), address, "where it faulted");
        granted(guilty.destroy(), "destroying a device that faulted")
    }

    /// What must not be there is not: the first page of each kind.
    fn check_absent(&mut self) -> Result<(), Failure> {
        let pages =
            self.regions.iter().flat_map(|(base, shown)| (0..).map(move |index| base + index * PAGE).zip(shown));
        let pages: Vec<(u64, Shown)> = pages.map(|(address, shown)| (address, *shown)).collect();
        let read_only = |shown| matches!(shown, Shown::Page { write: false, .. }) && self.expected(shown).is_some();
        let nothing = pages.iter().find(|(_, shown)| *shown == Shown::Nothing).map(|(address, _)| *address);
        let read_only = pages.iter().find(|(_, shown)| read_only(*shown)).map(|(address, _)| *address);
        let gone = self.gone.last().copied();
        nothing.map_or(Ok(()), |address| self.faults(address, false, "where nothing is mapped"))?;
        read_only.map_or(Ok(()), |address| self.faults(address, true, "which is for reading"))?;
        gone.map_or(Ok(()), |address| self.faults(address, false, "which was given back"))
    }

    fn run(mut self, steps: &[Step]) -> Result<(), Failure> {
        self.reserve(1, true)?;
        for (number, step) in steps.iter().enumerate() {
            let taken = self.take(step).and_then(|()| self.check());
            taken.map_err(|failure| Failure::new(format!("step {number}, {step:?}: {failure:?}")))?;
        }
        self.check_absent()?;
        self.check()?;
        match self.system.machine().bugcheck() {
            Some(bugcheck) => Err(Failure::new(format!("the machine stopped: {bugcheck}"))),
            None => Ok(()),
        }
    }
}

/// Takes lists of steps until enough of them had updates that are legal and page tables that move; of few lists none may. Other properties have
/// `share` times as many cases, which are short.
fn finds_what_was_put_there(updates: PageTableUpdates, share: u32) {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (8 << 20, 8 << 20);
    options.variant.queue_limit = 256;
    options.variant.page_table_updates = updates;
    let system = System::boot(&options).expect("the system boots");
    let updated = AtomicU64::new(0);
    let seen_enough = || {
        let counts = system.machine().residency(system.luid()).expect("the adapter is there");
        updated.load(Ordering::Relaxed) > 4 && counts.tables_evicted > 0 && counts.tables_restored > 0
    };
    for _ in 0..MOST_ROUNDS {
        let mut config = ProptestConfig { max_shrink_iters: 200, failure_persistence: None, ..Default::default() };
        config.cases = config.cases.div_ceil(share);
        let run = TestRunner::new(config).run(&prop::collection::vec(step(), 1..50), |steps| {
            let process = Process::new(system.machine(), "model");
            let outcome = on_thread(&process, || World::new(&system, &updated)?.run(&steps));
            process.exit();
            outcome.map_err(|failure| TestCaseError::fail(format!("{failure:?}")))
        });
        run.unwrap();
        if seen_enough() {
            break;
        }
    }
    assert!(seen_enough(), "{updated:?} legal updates, {:?}", system.machine().residency(system.luid()));
    assert_eq!(system.machine().take_rescues(), [], "signals that woke nobody");
    system.shutdown().expect("nothing is left behind");
}

#[test]
fn the_gpu_finds_at_every_address_what_the_requests_so_far_put_there() {
    finds_what_was_put_there(PageTableUpdates::Cpu, 8);
}

#[test]
fn the_gpu_finds_it_where_it_writes_page_tables_by_address() {
    finds_what_was_put_there(PageTableUpdates::GpuVirtual, 16);
}

#[test]
fn the_gpu_finds_it_where_it_writes_page_tables_by_their_place() {
    finds_what_was_put_there(PageTableUpdates::GpuPhysical, 16);
}
