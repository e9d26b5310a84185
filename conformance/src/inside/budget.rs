//! Budgets of video memory, requests that are pending or find no memory, and trim notifications.

use crate::cases::budget::{Handle, LOCAL, Trimmer, do_nothing, evict, lock, registration, trim, unregister};
use campanile_hw::private::Placement;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID};

use crate::kmt::BAD_ARGUMENT;
use crate::rig::Rig;
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "Residency", behind "it is several processes at a time, or chooses how much memory there is";
    "VideoMemory.UsageIsWhatIsResident" on Boot::With(small_vram), "d3dkmtqueryvideomemoryinfo":
        "What a process keeps resident is its usage in the group of the segment where it is, once however often it was asked for; what is evicted, offered or destroyed is not."
        => usage;
    "VideoMemory.BudgetIsWhatOthersLeave" on Boot::With(small_vram), "process-residency-budgets":
        "Without pressure the budget of a process is what the others have not made resident, and never less than its share."
        => budget;
    "VideoMemory.ReservationsAreBounded" on Boot::With(small_vram), "d3dkmtqueryvideomemoryinfo":
        "A process reserves no more than is available, others find that much less, and it ends with the process."
        => reservations;
    "Residency.RequestIsPendingUntilItsFenceValue" on Boot::With(stepped), "d3dkmtmakeresident":
        "A request whose memory is on its way answers STATUS_PENDING and a value of the paging fence that is not reached yet; so does another one meanwhile, and one behind it answers STATUS_SUCCESS and 0."
        => pending;
    "Residency.ShortageSaysHowMuchToTrim" on Boot::With(small_vram), "process-residency-budgets":
        "A request that finds no memory says by how many bytes the process would be over its budget, counts each allocation once, and makes nothing resident."
        => shortage;
    "Residency.MustSucceedLosesTheDevice" on Boot::With(small_vram), "d3dkmtmakeresident":
        "MustSucceed is refused without CantTrimFurther; a request with both that cannot be satisfied puts its device in error for want of memory, and no other."
        => must_succeed;
    "Residency.ProcessOverItsBudgetIsAskedToTrim" on Boot::With(small_vram), "d3dkmtregistertrimnotification":
        "When a process finds no memory within its share, the one above its share is told by how much, evicts that much from within the notification, and the request of the other succeeds."
        => trim_to_budget;
    "Residency.EvictSaysWhatIsLeftToTrim" on Boot::With(small_vram), "process-residency-budgets":
        "Evict answers how much the process is over its budget still, down to 0 when it has given back enough or nobody is in need."
        => evict_counts_down;
    "Residency.PeriodicTrim" on Boot::With(small_vram), "d3dkmtregistertrimnotification":
        "Every period is told to every registration with its own context and nothing else in it; after the device slept a new period begins instead."
        => periodic;
    "Residency.TrimRegistrationsEnd" on Boot::Fresh, "d3dkmtunregistertrimnotification":
        "A function is not called any more once it was unregistered, or its device or process is gone; it may unregister itself."
        => registrations_end;
}

/// Of which applications get 28 times [`SIZE`]; tables have the rest.
const VRAM: u64 = 16 << 20;

pub(super) const SIZE: u64 = 512 << 10;

const NON_LOCAL: D3DKMT_MEMORY_SEGMENT_GROUP = D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL;

pub(super) fn small_vram() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (VRAM, VRAM);
    options.variant.queue_limit = 256;
    options
}

fn stepped() -> SystemOptions {
    SystemOptions { threads: false, ..SystemOptions::default() }
}

pub(super) fn query(rig: &Rig, group: D3DKMT_MEMORY_SEGMENT_GROUP) -> Result<D3DKMT_QUERYVIDEOMEMORYINFO, Failure> {
    let mut info = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
    (info.hAdapter, info.MemorySegmentGroup) = (rig.adapter, group);
    granted(rig.kmt.call(rig.kmt.table().D3DKMTQueryVideoMemoryInfo, &mut info), "D3DKMTQueryVideoMemoryInfo")?;
    Ok(info)
}

fn used(rig: &Rig) -> Result<(u64, u64), Failure> {
    Ok((query(rig, LOCAL)?.CurrentUsage, query(rig, NON_LOCAL)?.CurrentUsage))
}

pub(super) fn reserve(rig: &Rig, group: D3DKMT_MEMORY_SEGMENT_GROUP, bytes: u64) -> NTSTATUS {
    let mut change = D3DKMT_CHANGEVIDEOMEMORYRESERVATION::zeroed();
    (change.hAdapter, change.MemorySegmentGroup, change.Reservation) = (rig.adapter, group, bytes);
    rig.kmt.call(rig.kmt.table().D3DKMTChangeVideoMemoryReservation, &mut change)
}

pub(super) fn create(rig: &Rig, count: u64) -> Result<Vec<D3DKMT_HANDLE>, Failure> {
    let one = |_| rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("an allocation: {status}")));
    (0..count).map(one).collect()
}

/// Makes a list resident, and waits if that is pending; the arguments as they came back.
pub(super) fn make_resident(
    rig: &Rig,
    list: &[D3DKMT_HANDLE],
    flags: D3DDDI_MAKERESIDENT_FLAGS,
) -> Result<(NTSTATUS, D3DDDI_MAKERESIDENT), Failure> {
    let mut list = list.to_vec();
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations) = (rig.paging_queue, list.len() as u32);
    (request.AllocationList, request.Flags) = (list.as_mut_ptr(), flags);
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    if status.is_success() {
        rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
    }
    Ok((status, request))
}

fn usage(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let before = used(&rig)?;
    let list = create(&rig, 3)?;
    ensure_eq!(used(&rig)?, before, "usage with allocations that are not resident");
    let none = D3DDDI_MAKERESIDENT_FLAGS::new();
    for _ in 0..2 {
        granted(make_resident(&rig, &list, none)?.0, "D3DKMTMakeResident")?;
    }
    let system = rig.create(SIZE, Placement::System).map_err(|status| Failure::new(format!("create: {status}")))?;
    granted(make_resident(&rig, &[system], none)?.0, "D3DKMTMakeResident")?;
    ensure_eq!(used(&rig)?, (before.0 + 3 * SIZE, before.1 + SIZE), "usage of three in VRAM and one in the machine's");
    evict(&rig, list[0])?;
    ensure_eq!(used(&rig)?.0, before.0 + 3 * SIZE, "usage behind the first of two evictions");
    evict(&rig, list[0])?;
    ensure_eq!(used(&rig)?.0, before.0 + 2 * SIZE, "usage behind the second");
    let mut offer = D3DKMT_OFFERALLOCATIONS::zeroed();
    let mut offered = list[1];
    (offer.hDevice, offer.HandleList, offer.NumAllocations) = (rig.device, &mut offered, 1);
    offer.Priority = D3DKMT_OFFER_PRIORITY::D3DKMT_OFFER_PRIORITY_NORMAL;
    granted(rig.kmt.call(rig.kmt.table().D3DKMTOfferAllocations, &mut offer), "D3DKMTOfferAllocations")?;
    ensure_eq!(used(&rig)?.0, before.0 + SIZE, "usage without what is offered");
    granted(rig.destroy_allocation(list[2]), "destroying one")?;
    ensure_eq!(used(&rig)?, (before.0, before.1 + SIZE), "usage without what was destroyed");
    Ok(())
}

fn budget(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let alone = query(&rig, LOCAL)?.Budget;
    ensure!(alone > VRAM / 2 && alone <= VRAM, "the budget of a process alone is {alone} bytes");
    let none = D3DDDI_MAKERESIDENT_FLAGS::new();
    let list = create(&rig, 2)?;
    granted(make_resident(&rig, &list, none)?.0, "D3DKMTMakeResident")?;
    ensure_eq!(query(&rig, LOCAL)?.Budget, alone, "the budget of the only one");
    let many = alone / SIZE - 4;
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        // Page tables of the process are nobody's budget.
        let budget = query(&other, LOCAL)?.Budget;
        ensure!(
            budget <= alone - 2 * SIZE && budget > alone - 3 * SIZE,
            "{budget} bytes beside {} of {alone}",
            2 * SIZE
        );
        granted(make_resident(&other, &create(&other, many)?, none)?.0, "D3DKMTMakeResident")?;
        ensure_eq!(query(&other, LOCAL)?.Budget, budget, "budget of a process that uses much");
        ensure_eq!(query(&other, NON_LOCAL)?.CurrentUsage, 0, "usage of the other group");
        Ok(())
    })?;
    let after = query(&rig, LOCAL)?;
    ensure_eq!((after.Budget, after.CurrentUsage), (alone, 2 * SIZE), "budget and usage when the other is gone");
    Ok(())
}

fn reservations(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for group in [LOCAL, NON_LOCAL] {
        let before = query(&rig, group)?;
        let available = before.AvailableForReservation;
        ensure!(before.CurrentReservation == 0 && available > 0 && available <= before.Budget, "at first {available}");
        refused(reserve(&rig, group, available + 1), BAD_ARGUMENT, "reserving more than is available")?;
        refused(reserve(&rig, group, u64::MAX), BAD_ARGUMENT, "reserving everything")?;
        ensure_eq!(query(&rig, group)?.CurrentReservation, 0, "reservation behind a refusal");
        granted(reserve(&rig, group, available / 2), "reserving half")?;
        let info = query(&rig, group)?;
        let found = (info.CurrentReservation, info.AvailableForReservation);
        ensure_eq!(found, (available / 2, available), "own reservation, and what it may be");
        let left = case.in_other_process(|system| {
            let other = Rig::open(system.luid())?;
            let left = query(&other, group)?.AvailableForReservation;
            granted(reserve(&other, group, left), "reserving the rest")?;
            Ok(left)
        })?;
        ensure!(
            left <= available - available / 2 && left + SIZE > available - available / 2,
            "{left} of {available} left"
        );
        ensure_eq!(query(&rig, group)?.AvailableForReservation, available, "what is available when the other is gone");
        granted(reserve(&rig, group, 0), "giving it back")?;
        ensure_eq!(query(&rig, group)?.CurrentReservation, 0, "reservation that was given back");
    }
    Ok(())
}

fn pending(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut handle = rig.create(SIZE, Placement::Vram).map_err(|status| Failure::new(format!("create: {status}")))?;
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations, request.AllocationList) = (rig.paging_queue, 1, &mut handle);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
        ensure_eq!(status, STATUS_PENDING, "a request whose memory is filled by a GPU that stands still");
        ensure!(rig.paged() < request.PagingFenceValue, "the paging fence is at {} at once", request.PagingFenceValue);
        answers.push(request.PagingFenceValue);
    }
    ensure!(answers[0] < answers[1], "both requests have value {}", answers[0]);
    for value in answers {
        rig.settle(STATUS_PENDING, value, "D3DKMTMakeResident")?;
    }
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    ensure_eq!((status, request.PagingFenceValue), (STATUS_SUCCESS, 0), "a request for what is resident");
    ensure_eq!((request.NumAllocations, request.NumBytesToTrim), (1, 0), "what it says otherwise");
    Ok(())
}

fn shortage(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let none = D3DDDI_MAKERESIDENT_FLAGS::new();
    let there = create(&rig, 4)?;
    granted(make_resident(&rig, &there, none)?.0, "D3DKMTMakeResident")?;
    let before = query(&rig, LOCAL)?;
    let mut list = create(&rig, 32)?;
    // Named twice, and what is resident already: neither needs memory.
    list.extend([list[0], there[0]]);
    for _ in 0..2 {
        let (status, answer) = make_resident(&rig, &list, none)?;
        refused(status, &[STATUS_NO_MEMORY], "a request that does not fit")?;
        let over = 36 * SIZE - before.Budget;
        ensure_eq!((answer.NumBytesToTrim, answer.NumAllocations), (over, 0), "what is to be trimmed, what was done");
        let after = query(&rig, LOCAL)?;
        ensure_eq!((after.CurrentUsage, after.Budget), (before.CurrentUsage, before.Budget), "usage and budget");
    }
    there.iter().try_for_each(|handle| evict(&rig, *handle).map(drop))?;
    refused(rig.evict(there[0]), BAD_ARGUMENT, "evicting what the request that was refused named too")?;
    list.truncate((before.Budget / SIZE) as usize - 1);
    granted(make_resident(&rig, &list, none)?.0, "a request of what fits")
}

fn must_succeed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let flags = D3DDDI_MAKERESIDENT_FLAGS::new();
    let list = create(&rig, 33)?;
    for bits in (1..32).map(|bit| 1 << bit) {
        let (status, _) = make_resident(&rig, &list[..1], D3DDDI_MAKERESIDENT_FLAGS::from_bits(bits))?;
        refused(status, BAD_ARGUMENT, &format!("flags {bits:#x}"))?;
    }
    refused(make_resident(&rig, &list, flags.with_CantTrimFurther(true))?.0, &[STATUS_NO_MEMORY], "CantTrimFurther")?;
    let working = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, working, "state of a device that does not insist");
    let must = flags.with_CantTrimFurther(true).with_MustSucceed(true);
    granted(make_resident(&rig, &list[..2], must)?.0, "MustSucceed of what fits")?;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, working, "state of a device that got what it must have");
    refused(make_resident(&rig, &list, must)?.0, &[STATUS_NO_MEMORY], "MustSucceed of what does not fit")?;
    let lost = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, lost, "state of a device that cannot go on");
    ensure_eq!(other.kmt.execution_state(other.device)?, working, "state of another device of the process");
    granted(rig.destroy(), "destroying the lost device")?;
    granted(make_resident(&other, &create(&other, 2)?, must)?.0, "MustSucceed of the other device")
}

const PERIODIC: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_PeriodicTrim(true);

const RESTART: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_RestartPeriodicTrim(true);

const TO_BUDGET: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_TrimToBudget(true);

fn trim_to_budget(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let list = create(&rig, 24)?;
    granted(make_resident(&rig, &list, D3DDDI_MAKERESIDENT_FLAGS::new())?.0, "D3DKMTMakeResident")?;
    let trimmer = Trimmer::new(&rig, list);
    // Another device of the process is told too; it has nothing to give.
    let plain = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let idle = Trimmer::new(&plain, Vec::new());
    let handles = [trimmer.register(case.system.luid())?, idle.register(case.system.luid())?];
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let cannot_trim = D3DDDI_MAKERESIDENT_FLAGS::new().with_CantTrimFurther(true);
        granted(make_resident(&other, &create(&other, 10)?, cannot_trim)?.0, "a request within the share")?;
        ensure_eq!(used(&other)?.0, 10 * SIZE, "usage of the other");
        Ok(())
    })?;
    for trimmer in [&trimmer, &idle] {
        let told = trimmer.wait_told(1)?;
        let asked = |(flags, bytes): &(_, u64)| *flags == TO_BUDGET && *bytes > 4 * SIZE && *bytes <= 8 * SIZE;
        ensure!(told.len() == 1 && told.iter().all(asked), "what was told: {told:?}");
    }
    if let Some(failure) = lock(&trimmer.failures).pop() {
        return Err(failure);
    }
    let kept = lock(&trimmer.list).len() as u64;
    ensure!((15..=19).contains(&kept), "{kept} of 24 were kept where 28 fit and 10 were wanted");
    ensure_eq!(used(&rig)?.0, kept * SIZE, "usage of the process that trimmed");
    granted(unregister(&rig, handles[0], Some(trim)), "unregistering")?;
    granted(unregister(&plain, handles[1], Some(trim)), "unregistering")
}

fn evict_counts_down(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let list = create(&rig, 24)?;
    granted(make_resident(&rig, &list, D3DDDI_MAKERESIDENT_FLAGS::new())?.0, "D3DKMTMakeResident")?;
    ensure_eq!(evict(&rig, list[0])?, 0, "what is to be trimmed while nobody is in need");
    let process = dxgkrnl::Process::new(case.system.machine(), "in need");
    let luid = case.system.luid();
    let need = || -> Result<(Rig, Vec<D3DKMT_HANDLE>), Failure> {
        let other = Rig::open(luid)?;
        let wanted = create(&other, 12)?;
        let (status, answer) = make_resident(&other, &wanted, D3DDDI_MAKERESIDENT_FLAGS::new())?;
        refused(status, &[STATUS_NO_MEMORY], "a request while another process has the memory")?;
        ensure!(answer.NumBytesToTrim > 0, "the request is to be made again as it was");
        Ok((other, wanted))
    };
    let (other, wanted) = on_thread(&process, need)?;
    let mut left = u64::MAX;
    for handle in &list[1..] {
        let now = evict(&rig, *handle)?;
        ensure!(now == 0 || now + SIZE <= left, "{now} bytes are left to trim, {left} before one more was evicted");
        left = now;
        if left == 0 {
            break;
        }
    }
    ensure_eq!(left, 0, "what is left to trim");
    let kept = used(&rig)?.0;
    ensure!(kept >= 14 * SIZE, "only {kept} bytes were kept");
    on_thread(&process, || {
        granted(make_resident(&other, &wanted, D3DDDI_MAKERESIDENT_FLAGS::new())?.0, "the request, made again")
    })?;
    process.exit();
    Ok(())
}

fn periodic(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (one, two) = (Trimmer::new(&rig, create(&rig, 1)?), Trimmer::new(&rig, Vec::new()));
    let luid = case.system.luid();
    let handles = [one.register(luid)?, two.register(luid)?];
    ensure!(handles[0] != handles[1], "two registrations have one handle");
    let machine = case.system.machine();
    let nobody = LUID { LowPart: luid.LowPart.wrapping_add(77), ..luid };
    ensure!(machine.trim_periodically(luid) && !machine.trim_periodically(nobody), "whose period ends");
    for trimmer in [&one, &two] {
        ensure_eq!(trimmer.wait_told(1)?, [(PERIODIC, 0)], "the first period");
    }
    machine.power_down(luid).map_err(|error| Failure::new(format!("the device was not powered down: {error}")))?;
    machine.power_up(luid).map_err(|error| Failure::new(format!("the device was not powered up: {error}")))?;
    for (count, flags) in [(2, RESTART), (3, PERIODIC)] {
        ensure!(machine.trim_periodically(luid), "no adapter");
        for trimmer in [&one, &two] {
            ensure_eq!(trimmer.wait_told(count)?.last().copied(), Some((flags, 0)), "period {count}");
        }
    }
    ensure_eq!(lock(&one.list).len(), 1, "allocations that may go behind notifications that asked for none");
    handles.into_iter().try_for_each(|handle| granted(unregister(&rig, handle, Some(trim)), "unregistering"))
}

fn registrations_end(case: &mut Case<'_>) -> Result<(), Failure> {
    let luid = case.system.luid();
    let (rig, doomed) = (case.rig()?, case.rig()?);
    let trimmers = [&rig, &rig, &doomed, &rig].map(|rig| Trimmer::new(rig, Vec::new()));
    let [ends, own, of_device, stays] = &trimmers;
    let handles = trimmers.iter().map(|trimmer| trimmer.register(luid)).collect::<Result<Vec<Handle>, Failure>>()?;
    *lock(&own.own) = Some(handles[1]);
    granted(unregister(&rig, handles[0], Some(trim)), "unregistering")?;
    granted(doomed.destroy(), "destroying a device that has a registration")?;
    case.in_other_process(|system| {
        let theirs = Rig::open(system.luid())?;
        refused(unregister(&theirs, handles[3], Some(trim)), BAD_ARGUMENT, "another process ending it")?;
        // Left to the exit of the process; the function is none of the trimmers'.
        let mut arguments = registration(&theirs, system.luid());
        arguments.Callback = Some(do_nothing);
        granted(theirs.kmt.call(theirs.kmt.table().D3DKMTRegisterTrimNotification, &mut arguments), "registering")
    })?;
    for count in 1..=3 {
        ensure!(case.system.machine().trim_periodically(luid), "no adapter");
        stays.wait_told(count)?;
        own.wait_told(1)?;
    }
    let told = [ends, own, of_device, stays].map(|trimmer| lock(&trimmer.told).len());
    ensure_eq!(
        told,
        [0, 1, 0, 3],
        "notifications of registrations that ended, ended themselves, lost their device, and stay"
    );
    let failed = lock(&own.failures).pop();
    failed.map_or(Ok(()), Err)?;
    for handle in &handles[..3] {
        refused(unregister(&rig, *handle, Some(trim)), BAD_ARGUMENT, "ending it again")?;
    }
    granted(unregister(&rig, handles[3], Some(trim)), "unregistering")
}
