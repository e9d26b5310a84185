//! Handles of other processes: what they are opened by, and what they are asked for.

use std::sync::Arc;

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use dxgkrnl::Process;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::{D3DKMT_QUERYSTATISTICS_TYPE as Type, D3DKMT_SCHEDULINGPRIORITYCLASS as Class, *};
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID};

use crate::cases::budget::LOCAL;
use crate::cases::offer::{LOW, offer_with};
use crate::kmt::Kmt;
use crate::rig::{KernelHandle, Rig, fill, shared_flags, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};

cases! { inside "Process", behind "it is several processes at a time";
    "Process.StatisticsOfAnotherAreWhatItTellsOfItself" on Boot::Fresh, "d3dkmt_querystatistics":
        "Of another process, named by a handle, every figure is what it tells of itself: memory by segment and group, packets, times and commands by node; none is of the one that asks."
        => statistics;
    "Process.BudgetOfAnotherIsAskedForAndReserved" on Boot::Fresh, "d3dkmt_changevideomemoryreservation":
        "Usage, reservation, offers and class of another process are asked for by its handle, and its reservation and class are changed by one."
        => memory_and_class;
    "Process.HandlesGrantWhatTheyWereOpenedWith" needs NativeFence on Boot::Fresh, "ntopenprocess":
        "A handle without the right for a question or a change is denied it, and nothing changes; handles of other objects, and what is no handle, are refused."
        => rights;
    "Process.OpeningIsByTheNumberOfAProcess" on Boot::Fresh, "ntopenprocess":
        "A number that no process has, a name, no number, and rights that processes do not have are refused by the documented status, and there is no handle then."
        => opening;
    "Process.HandleOfAnEndedProcessStaysItsOwn" on Boot::Fresh, "ntopenprocess":
        "The handle of a process that has ended answers STATUS_PROCESS_IS_TERMINATING, is closed like another, and opens nothing that comes later; the number is free."
        => ended;
    "Process.ExitEndsWaitsThatStay" on Boot::Fresh, "d3dddi_synchronizationobject_flags":
        "A process that ends does so although a thread of it waits for a shared fence that others have open, which it has closed with UnwaitCpuWaitersOnlyOnDestroy; until then it waits."
        => exit_ends_waits;
}

const CURRENT: HANDLE = std::ptr::without_provenance_mut(usize::MAX);

/// An OBJECT_ATTRIBUTES with nothing but its length.
const UNNAMED: [u64; 6] = [48, 0, 0, 0, 0, 0];

/// Bytes that the other process keeps resident.
const SIZE: u64 = 2 << 20;

/// Opens a process by its number, with attributes of these words.
fn open_with(rig: &Rig, number: u64, access: u32, attributes: &[u64; 6]) -> Result<HANDLE, NTSTATUS> {
    let unique = std::ptr::without_provenance_mut(number as usize);
    let client = CLIENT_ID { UniqueProcess: unique, UniqueThread: std::ptr::null_mut() };
    let mut handle = std::ptr::null_mut();
    let open = rig.kmt.further().NtOpenProcess;
    // SAFETY: the thunk checks its pointers.
    unsafe { open(&raw mut handle, access, attributes.as_ptr().cast(), &raw const client) }.ok()?;
    Ok(handle)
}

fn open(rig: &Rig, process: &Process, access: u32) -> Result<HANDLE, Failure> {
    open_with(rig, process.number(), access, &UNNAMED).map_err(|status| Failure::new(format!("opening: {status}")))
}

fn close(rig: &Rig, handle: HANDLE) -> NTSTATUS {
    // SAFETY: takes any handle.
    unsafe { (rig.kmt.table().NtClose)(handle) }
}

/// Asks about a process; the answer, or what the thunk returned.
fn ask(
    (rig, luid): (&Rig, LUID),
    process: HANDLE,
    kind: Type,
    change: impl FnOnce(&mut D3DKMT_QUERYSTATISTICS_Union),
) -> Result<D3DKMT_QUERYSTATISTICS_RESULT, NTSTATUS> {
    let mut arguments = D3DKMT_QUERYSTATISTICS::zeroed();
    (arguments.Type, arguments.AdapterLuid, arguments.hProcess) = (kind, luid, process);
    change(&mut arguments.u);
    rig.kmt.call(rig.kmt.further().D3DKMTQueryStatistics, &mut arguments).ok()?;
    Ok(arguments.QueryResult)
}

/// A segment as the newer form of a question names it: by the physical adapter that it is of.
fn segment_of(place: (&Rig, LUID), id: u32) -> Result<D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2, NTSTATUS> {
    let first = D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 { PhysicalAdapterIndex: 0 };
    let told = ask(place, CURRENT, Type::D3DKMT_QUERYSTATISTICS_ADAPTER2, |u| u.QueryAdapter2 = first)?;
    // SAFETY: every arm of the union is plain numbers.
    let each = unsafe { told.AdapterInformation.NbSegments }.max(1);
    Ok(D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 {
        PhysicalAdapterIndex: (id / each) as u16,
        SegmentId: (id % each) as u16,
    })
}

/// The same of a node.
fn node_of(place: (&Rig, LUID), id: u32) -> Result<D3DKMT_QUERYSTATISTICS_QUERY_NODE2, NTSTATUS> {
    let first = D3DKMT_QUERYSTATISTICS_QUERY_NODE { NodeId: id };
    let told = ask(place, CURRENT, Type::D3DKMT_QUERYSTATISTICS_NODE, |u| u.QueryNode = first)?;
    // SAFETY: every arm of the union is plain numbers.
    let data = unsafe { told.NodeInformation.NodePerfData };
    Ok(D3DKMT_QUERYSTATISTICS_QUERY_NODE2 {
        PhysicalAdapterIndex: data.PhysicalAdapterIndex as u16,
        NodeOrdinal: data.NodeOrdinal as u16,
    })
}

/// Everything that is told of a process, by segment, group and node, in the older and the newer form of each question.
fn figures(place: (&Rig, LUID), process: HANDLE) -> Result<Vec<(String, Vec<u64>)>, NTSTATUS> {
    let mut told = Vec::new();
    let whole = ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER, |_| ())?;
    // SAFETY: every arm of the union is plain numbers.
    let counts = unsafe { whole.ProcessAdapterInformation };
    told.push(("adapter".to_owned(), vec![counts.NbSegments.into(), counts.NodeCount.into()]));
    let all = ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS, |_| ())?;
    // SAFETY: as above.
    told.push(("process".to_owned(), vec![unsafe { all.ProcessInformation.NodeCount }.into()]));
    for id in 0..counts.NbSegments {
        let second = segment_of(place, id)?;
        let first = D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT { SegmentId: id };
        for result in [
            ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, |u| u.QuerySegment = first)?,
            ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2, |u| u.QuerySegment2 = second)?,
        ] {
            // SAFETY: as above.
            let segment = unsafe { result.ProcessSegmentInformation };
            let [resident, ..] = segment.VideoMemory.AllocsResidentInP;
            let count = u64::from(segment.VideoMemory.AllocsCommitted);
            told.push((format!("segment {id}"), vec![segment.BytesCommitted, count, resident.Bytes]));
        }
    }
    for group in 0..2u16 {
        let second =
            D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 { PhysicalAdapterIndex: 0, SegmentGroup: group };
        let first = D3DKMT_MEMORY_SEGMENT_GROUP(group.into());
        for result in [
            ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, |u| {
                u.QueryProcessSegmentGroup = first;
            })?,
            ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2, |u| {
                u.QueryProcessSegmentGroup2 = second;
            })?,
        ] {
            // SAFETY: as above.
            let told_of = unsafe { result.ProcessSegmentGroupInformation };
            told.push((format!("group {group}"), vec![told_of.Usage, told_of.Requested]));
        }
    }
    for id in 0..counts.NodeCount {
        let second = node_of(place, id)?;
        let first = D3DKMT_QUERYSTATISTICS_QUERY_NODE { NodeId: id };
        for result in [
            ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE, |u| u.QueryNode = first)?,
            ask(place, process, Type::D3DKMT_QUERYSTATISTICS_PROCESS_NODE2, |u| u.QueryNode2 = second)?,
        ] {
            // SAFETY: as above.
            let node = unsafe { result.ProcessNodeInformation };
            let mut words = vec![node.RunningTime.QuadPart as u64, node.ContextSwitch.into()];
            let buffers = node.PacketStatistics.DmaPacket.iter();
            words.extend(buffers.flat_map(|kind| [kind.PacketSubmited, kind.PacketCompleted]).map(u64::from));
            let commands = node.PacketStatistics.QueuePacket.iter();
            words.extend(commands.flat_map(|kind| [kind.PacketSubmited, kind.PacketCompleted]).map(u64::from));
            told.push((format!("node {id}"), words));
        }
    }
    Ok(told)
}

fn asked(place: (&Rig, LUID), process: HANDLE) -> Result<Vec<(String, Vec<u64>)>, Failure> {
    figures(place, process).map_err(|status| Failure::new(format!("D3DKMTQueryStatistics: {status}")))
}

/// The process of the case, and another one beside it that has worked and holds memory.
struct Both<'a> {
    luid: LUID,
    rig: &'a Rig,
    own: &'a Process,
    other: &'a Arc<Process>,
    theirs: &'a Rig,
}

/// Has another process work and hold memory, and then `look` from the case's process, until which it stays.
fn beside<T: Send>(case: &Case<'_>, look: impl FnOnce(&Both<'_>) -> Result<T, Failure> + Send) -> Result<T, Failure> {
    let other = Process::new(case.system.machine(), "beside");
    let (luid, own) = (case.system.luid(), Arc::clone(&case.process));
    let rig = case.rig()?;
    let outcome = on_thread(&other, || {
        let theirs = Rig::open(luid)?;
        let memory = theirs.memory(SIZE, Placement::Vram)?;
        let mut queue = theirs.packet_queue(NODE_COPY)?;
        for round in 1..=3 {
            theirs.packet_execute(&mut queue, &[fill(memory.address, SIZE, round)])?;
        }
        // The engine ends what it is at after the fence that was waited for.
        let mut last = Vec::new();
        wait_until("the figures to stand still", || {
            figures((&theirs, luid), CURRENT).is_ok_and(|now| std::mem::replace(&mut last, now.clone()) == now)
        })?;
        on_thread(&own, || look(&Both { luid, rig: &rig, own: &own, other: &other, theirs: &theirs }))
    });
    other.exit();
    outcome
}

fn statistics(case: &mut Case<'_>) -> Result<(), Failure> {
    beside(case, |both| {
        let told = on_thread(both.other, || asked((both.theirs, both.luid), CURRENT))?;
        ensure!(told.iter().any(|(_, words)| words.get(2).is_some_and(|bytes| *bytes >= SIZE)), "memory: {told:?}");
        let handle = open(both.rig, both.other, PROCESS_QUERY_LIMITED_INFORMATION)?;
        ensure_eq!(asked((both.rig, both.luid), handle)?, told, "figures of the other process");
        let own = asked((both.rig, both.luid), CURRENT)?;
        ensure!(own != told, "figures of the other process are those of the one that asks");
        let itself = open(both.rig, both.own, PROCESS_QUERY_INFORMATION)?;
        ensure_eq!(asked((both.rig, both.luid), itself)?, own, "figures of the one that asks, by a handle");
        granted(close(both.rig, handle), "closing the handle")
    })
}

/// Usage and reservation of a process in local memory.
fn local(rig: &Rig, process: HANDLE) -> Result<(u64, u64), NTSTATUS> {
    let mut info = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
    (info.hProcess, info.hAdapter, info.MemorySegmentGroup) = (process, rig.adapter, LOCAL);
    rig.kmt.call(rig.kmt.table().D3DKMTQueryVideoMemoryInfo, &mut info).ok()?;
    Ok((info.CurrentUsage, info.CurrentReservation))
}

fn reserve_for(rig: &Rig, process: HANDLE, bytes: u64) -> NTSTATUS {
    let mut change = D3DKMT_CHANGEVIDEOMEMORYRESERVATION::zeroed();
    (change.hProcess, change.hAdapter, change.MemorySegmentGroup) = (process, rig.adapter, LOCAL);
    change.Reservation = bytes;
    rig.kmt.call(rig.kmt.table().D3DKMTChangeVideoMemoryReservation, &mut change)
}

fn offered(rig: &Rig, process: HANDLE) -> Result<u64, NTSTATUS> {
    let mut info = D3DKMT_QUERYPROCESSOFFERINFO::zeroed();
    (info.cbSize, info.hProcess) = (size_of_val(&info) as u32, process);
    rig.kmt.call(rig.kmt.further().D3DKMTQueryProcessOfferInfo, &mut info).ok()?;
    Ok(info.DecommittableBytes)
}

fn trim(rig: &Rig, process: HANDLE) -> Result<u64, NTSTATUS> {
    let mut trim = D3DKMT_TRIMPROCESSCOMMITMENT::zeroed();
    (trim.cbSize, trim.hProcess) = (size_of_val(&trim) as u32, process);
    rig.kmt.call(rig.kmt.further().D3DKMTTrimProcessCommitment, &mut trim).ok()?;
    Ok(trim.NumBytesDecommitted)
}

fn set_class(rig: &Rig, process: HANDLE, class: Class) -> NTSTATUS {
    // SAFETY: takes any arguments.
    unsafe { (rig.kmt.further().D3DKMTSetProcessSchedulingPriorityClass)(process, class) }
}

fn class(rig: &Rig, process: HANDLE) -> Result<Class, NTSTATUS> {
    let mut class = Class(-1);
    // SAFETY: as above.
    unsafe { (rig.kmt.further().D3DKMTGetProcessSchedulingPriorityClass)(process, &raw mut class) }.ok()?;
    Ok(class)
}

fn removal_support(rig: &Rig, luid: LUID, process: HANDLE) -> Result<u8, NTSTATUS> {
    let mut asked = D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT::zeroed();
    (asked.hProcess, asked.AdapterLuid) = (process, luid);
    rig.kmt.call(rig.kmt.further().D3DKMTGetProcessDeviceRemovalSupport, &mut asked).ok()?;
    Ok(asked.Support)
}

fn memory_and_class(case: &mut Case<'_>) -> Result<(), Failure> {
    const RESERVED: u64 = 1 << 20;
    beside(case, |both| {
        let Both { rig, other, theirs, .. } = both;
        let of_other = || on_thread(other, || Ok((local(theirs, CURRENT), class(theirs, CURRENT))));
        let handle = open(rig, other, PROCESS_QUERY_INFORMATION | PROCESS_SET_INFORMATION | PROCESS_SET_QUOTA)?;
        let (before, _) = of_other()?;
        ensure_eq!(local(rig, handle), before, "usage and reservation of the other process");
        granted(reserve_for(rig, handle, RESERVED), "a reservation for the other process")?;
        ensure_eq!(of_other()?.0, before.map(|(usage, _)| (usage, RESERVED)), "what the other process has then");
        ensure_eq!(local(rig, CURRENT).map(|(_, reserved)| reserved), Ok(0), "what the one that asks has reserved");
        granted(set_class(rig, handle, Class::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), "a class for the other process")?;
        ensure_eq!(class(rig, handle), Ok(Class::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), "its class by the handle");
        ensure_eq!(of_other()?.1, Ok(Class::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), "its class as it tells it");
        ensure_eq!(class(rig, CURRENT), Ok(Class::D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL), "that of the one that asks");
        let high = set_class(rig, handle, Class::D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH);
        refused(high, &[STATUS_PRIVILEGE_NOT_HELD], "a class above normal without the right")?;
        ensure_eq!(removal_support(rig, both.luid, handle), Ok(1), "whether it outlives a removal");
        // Memory that it has offered is given back for it.
        on_thread(other, || {
            let spare = theirs.memory(SIZE, Placement::System)?;
            let flags = D3DKMT_OFFER_FLAGS::new().with_OfferImmediately(true).with_AllowDecommit(true);
            granted(offer_with(theirs, &[spare.handle], LOW, flags), "an offer for decommitment")
        })?;
        ensure_eq!((offered(rig, handle), offered(rig, CURRENT)), (Ok(SIZE), Ok(0)), "bytes that each has offered");
        ensure_eq!(trim(rig, handle), Ok(SIZE), "bytes that the other process gave back");
        ensure_eq!(offered(rig, handle), Ok(0), "bytes that it has offered afterwards");
        Ok(())
    })
}

fn rights(case: &mut Case<'_>) -> Result<(), Failure> {
    beside(case, |both| {
        let Both { rig, luid, .. } = *both;
        let denied = STATUS_ACCESS_DENIED;
        let weak = open(rig, both.other, PROCESS_QUERY_LIMITED_INFORMATION)?;
        ensure_eq!(local(rig, weak), Err(denied), "a budget without PROCESS_QUERY_INFORMATION");
        ensure_eq!(offered(rig, weak), Err(denied), "offers without PROCESS_QUERY_INFORMATION");
        ensure_eq!(class(rig, weak), Err(denied), "a class without PROCESS_QUERY_INFORMATION");
        let asks = open(rig, both.other, PROCESS_QUERY_INFORMATION)?;
        refused(reserve_for(rig, asks, SIZE), &[denied], "a reservation without PROCESS_SET_INFORMATION")?;
        let idle = Class::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE;
        refused(set_class(rig, asks, idle), &[denied], "a class without PROCESS_SET_INFORMATION")?;
        ensure_eq!(trim(rig, asks), Err(denied), "a trim without PROCESS_SET_QUOTA");
        ensure_eq!(class(rig, asks), Ok(Class::D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL), "the class that was refused");
        ensure_eq!(local(rig, asks).map(|(_, reserved)| reserved), Ok(0), "the reservation that was refused");
        let changes = open(rig, both.other, PROCESS_SET_INFORMATION)?;
        ensure_eq!(figures((rig, luid), changes), Err(denied), "figures without a right to ask");
        // Handles of other objects, and numbers that are no handle, are refused.
        let fence =
            rig.create_flagged(0, shared_flags()).map_err(|status| Failure::new(format!("a fence: {status}")))?;
        let shared = rig.share(&[fence.hSyncObject]).map_err(|status| Failure::new(format!("sharing it: {status}")))?;
        let mismatch = STATUS_OBJECT_TYPE_MISMATCH;
        ensure_eq!(figures((rig, luid), shared.raw()), Err(mismatch), "figures by the handle of a fence");
        ensure_eq!(class(rig, shared.raw()), Err(mismatch), "a class by the handle of a fence");
        let nobody = std::ptr::without_provenance_mut(0x7ff0);
        ensure_eq!(figures((rig, luid), nobody), Err(STATUS_INVALID_HANDLE), "figures by no handle");
        ensure_eq!(class(rig, nobody), Err(STATUS_INVALID_HANDLE), "a class by no handle");
        // Handles are those of one process.
        let asks = asks.addr();
        let known = on_thread(both.other, || Ok(class(both.theirs, std::ptr::without_provenance_mut(asks))))?;
        ensure_eq!(known, Err(STATUS_INVALID_HANDLE), "the handle in the process that it stands for");
        Ok(())
    })
}

fn opening(case: &mut Case<'_>) -> Result<(), Failure> {
    beside(case, |both| {
        let (rig, number) = (both.rig, both.other.number());
        let count = both.own.kernel_handle_count();
        let right = PROCESS_QUERY_INFORMATION;
        let opened = |number, access, attributes: &[u64; 6]| open_with(rig, number, access, attributes);
        for free in [0, 1, number + 2, u64::MAX] {
            ensure_eq!(opened(free, right, &UNNAMED), Err(STATUS_INVALID_CID), "process {free}");
        }
        let text = [2u64 | 2 << 16, 0];
        let named = [48, 0, text.as_ptr().expose_provenance() as u64, 0, 0, 0];
        ensure_eq!(opened(number, right, &named), Err(STATUS_INVALID_PARAMETER_MIX), "a name");
        let long = [56, 0, 0, 0, 0, 0];
        ensure_eq!(opened(number, right, &long), Err(STATUS_INVALID_PARAMETER), "attributes of another length");
        ensure_eq!(opened(number, 1 << 21, &UNNAMED), Err(STATUS_INVALID_PARAMETER), "a right of no process");
        let mut handle = std::ptr::null_mut();
        let open = rig.kmt.further().NtOpenProcess;
        let unnamed = UNNAMED.as_ptr().cast();
        // SAFETY: the thunk checks its pointers.
        let nobody = unsafe { open(&raw mut handle, right, unnamed, std::ptr::null()) };
        refused(nobody, &[STATUS_INVALID_PARAMETER_MIX], "no number")?;
        let number = std::ptr::without_provenance_mut(number as usize);
        let thread = CLIENT_ID { UniqueProcess: number, UniqueThread: std::ptr::without_provenance_mut(4) };
        // SAFETY: as above.
        let of_thread = unsafe { open(&raw mut handle, right, unnamed, &raw const thread) };
        refused(of_thread, &[STATUS_INVALID_CID], "the number of a thread")?;
        ensure!(handle.is_null(), "a handle of what was refused");
        ensure_eq!(both.own.kernel_handle_count(), count, "kernel handles");
        Ok(())
    })
}

fn ended(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (handle, number) = beside(case, |both| {
        let handle = open(both.rig, both.other, PROCESS_QUERY_INFORMATION | PROCESS_SET_INFORMATION)?;
        Ok((handle.addr(), both.other.number()))
    })?;
    let handle = std::ptr::without_provenance_mut(handle);
    let later = Process::new(case.system.machine(), "later");
    let gone = STATUS_PROCESS_IS_TERMINATING;
    ensure_eq!(figures((&rig, case.system.luid()), handle), Err(gone), "figures of a process that has ended");
    ensure_eq!(local(&rig, handle), Err(gone), "its budget");
    refused(set_class(&rig, handle, Class::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE), &[gone], "a class for it")?;
    ensure_eq!(open_with(&rig, number, 0, &UNNAMED), Err(STATUS_INVALID_CID), "opening it again");
    granted(close(&rig, handle), "closing the handle")?;
    refused(close(&rig, handle), &[STATUS_INVALID_HANDLE], "closing it again")?;
    let own = open(&rig, &later, PROCESS_QUERY_INFORMATION)?;
    ensure_eq!(class(&rig, own), Ok(Class::D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL), "the class of one that came later");
    later.exit();
    Ok(())
}

fn exit_ends_waits(case: &mut Case<'_>) -> Result<(), Failure> {
    let luid = case.system.luid();
    let rig = case.rig()?;
    let failed = |status: NTSTATUS| Failure::new(format!("a shared fence: {status}"));
    let fence = rig.monitored_fence(0, shared_flags().with_UnwaitCpuWaitersOnlyOnDestroy(true))?;
    let shared = rig.share(&[fence.handle]).map_err(failed)?;
    let other = Process::new(case.system.machine(), "waits");
    let handle = case.process.duplicate_handle(shared.raw(), &other).map_err(failed)?.addr();
    let machine = case.system.machine().clone();
    let waits = || machine.overview(luid).map_or(0, |told| told.waited_fences.iter().map(|fence| fence.waits).sum());
    let status = std::thread::scope(|scope| {
        let waiting = on_thread(&other, || {
            let theirs = Rig::open(luid)?;
            let opened = theirs.try_open_monitored(KernelHandle(handle)).map_err(failed)?;
            let (waiter, device) = (Arc::clone(&other), theirs.device);
            let thread = scope.spawn(move || {
                let _attached = waiter.attach();
                wait_for_one(device, opened.handle)
            });
            wait_until("the wait", || waits() == 1)?;
            granted(theirs.destroy_fence(opened.handle), "closing what it waits through")?;
            Ok(thread)
        })?;
        ensure!(waits() == 1 && !waiting.is_finished(), "a waiter through what was closed was released");
        other.exit();
        waiting.join().map_err(|_| Failure::new("the thread that waits panicked"))
    })?;
    refused(status, &[STATUS_CANCELLED], "the wait of a process that has ended")?;
    ensure_eq!(waits(), 0, "waits of the process that has ended");
    granted(rig.signal(&[fence.handle], &[1]), "a signal by the process that still has the fence open")
}

/// Waits until a fence is 1.
fn wait_for_one(device: D3DKMT_HANDLE, mut fence: D3DKMT_HANDLE) -> NTSTATUS {
    let mut value = 1;
    let mut wait = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
    (wait.hDevice, wait.ObjectCount) = (device, 1);
    (wait.ObjectHandleArray, wait.FenceValueArray) = (&raw mut fence, &raw mut value);
    let kmt = Kmt::new();
    kmt.call(kmt.table().D3DKMTWaitForSynchronizationObjectFromCpu, &mut wait)
}
