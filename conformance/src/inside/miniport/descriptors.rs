//! What the hardware is told of a queue: its descriptor, its logs, and that it is gone.

use campanile_hw::event::EventKind;
use campanile_hw::isa::SAVE_SIZE_MAX;
use campanile_hw::log::{LogKind, LogTarget};
use campanile_hw::private::{HwQueueData, MAGIC};
use campanile_hw::queue::{Location, QueueFlags, QueueRank};
use campanile_hw::registers::{self, Caps, Command};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, Ring, VA, handle, process};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.DescriptorSaysWhatTheQueueIs" on Boot::Shared, "dxgkarg_createhwqueue":
        "The hardware is given a queue with the root page table, priority, quantum and grace periods of its context, its progress fence, its ring and the logs that it was given before; nothing is told of it while it has no ring. The number of the process is that of its own queues alone."
        => the_hardware_is_told_everything_of_a_queue_when_it_gets_it;
    "Miniport.SaveAreaHoldsWhatWasAskedFor" on Boot::Shared, "dxgkarg_createhwqueue":
        "A queue of the compute node gets a save area of whole pages for as many bytes as its private data ask for, and no more than the hardware takes; other nodes, and hardware that saves nothing, get none. Private data that are something else are refused, and a queue that is destroyed gives all memory back."
        => a_save_area_is_as_large_as_asked_for_and_goes_with_its_queue;
    "Miniport.ProgressFencesThatAreNoneAreRefused" on Boot::Shared, "dxgkarg_createhwqueue":
        "A queue whose progress fence has no address, or one that is not aligned, is refused for either kind of fence."
        => queues_without_a_progress_fence_are_refused;
    "Miniport.LogsReachTheHardware" on Boot::Shared, "dxgkddi_setnativefencelogbuffer":
        "A log of a queue that the hardware has is told to it, one of a queue of the kernel is refused; DxgkDdiUpdateNativeFenceLogs has those logs completed where the hardware delays them, and tells nothing where it does not."
        => logs_are_told_to_the_hardware_and_completed_where_it_delays_them;
    "Miniport.DestroyedQueueIsGone" on Boot::Shared, "dxgkarg_createhwqueue":
        "The hardware is told that a queue is destroyed; its handle names nothing then, and its context is suspended when the other queues have stopped."
        => a_queue_that_is_destroyed_is_taken_from_hardware_and_context;
}

/// The number of the first queue behind those of the nodes.
const QUEUE: u32 = 3;

/// The last command since the last look, with its first three arguments.
fn told(rig: &mut Rig) -> Option<(Command, [u64; 3])> {
    let command = Command::from_number(rig.system.get(registers::CMP_COMMAND) as u32);
    rig.system.set(registers::CMP_COMMAND, 0);
    Some((command?, [registers::CMP_ARG0, registers::CMP_ARG1, registers::CMP_ARG2].map(|at| rig.system.get(at))))
}

fn set_log(rig: &Rig, queue: HANDLE, kind: LogKind, entries: u32, address: u64) -> NTSTATUS {
    let mut memory = DXGK_NATIVE_FENCE_LOG_BUFFER::zeroed();
    memory.Header.Type = DXGK_NATIVE_FENCE_LOG_TYPE(kind as i32);
    let mut args = DXGKARG_SETNATIVEFENCELOGBUFFER::zeroed();
    (args.hHwQueue, args.NumberOfEntries, args.LogBufferGpuVa) = (queue, entries, address);
    args.LogBufferCpuVa = &raw mut memory;
    level(2, || ddi!(rig.system, DxgkDdiSetNativeFenceLogBuffer, &raw const args))
}

fn the_hardware_is_told_everything_of_a_queue_when_it_gets_it(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let (_, other) = process(&rig.system, 0x9001);
    let mut processes = vec![];
    for (number, device) in [(1, rig.device), (2, other)] {
        let hardware = QUEUE + number as u32 - 1;
        let context = rig.hw_context_of(device, 0x4000 + number, 0);
        rig.root_at(context, 0, 0x7000 * number as u64);
        let progress = VA + 0x10_0000 * number as u64;
        let global = rig.create(0x5000 + number);
        rig.open(device, global, progress);
        let (status, queue) = rig.hw_queue(context, 0x6000 + number, progress, true);
        ensure_eq!(status, STATUS_SUCCESS);
        told(&mut rig);
        let mut args = DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES::zeroed();
        (args.hContext, args.priorityBand, args.inProcessPriority) = (context, DXGK_SCHEDULING_PRIORITY_BAND(2), 3);
        (args.quantum, args.gracePeriodSamePriority, args.gracePeriodLowerPriority) = (200_000, 100_000, 50_000);
        let status = ddi!(rig.system, DxgkDdiSetContextSchedulingProperties, rig.system.adapter, &raw const args);
        ensure_eq!(status, STATUS_SUCCESS);
        for (kind, entries, address) in [(LogKind::Waits, 84, 0xa000), (LogKind::Signals, 85, 0xb000)] {
            ensure_eq!(set_log(&rig, queue, kind, entries, address), STATUS_SUCCESS);
        }
        ensure_eq!(told(&mut rig), None, "commands about a queue without a ring");
        let ring = Ring::of(&rig, queue, number);
        ensure_eq!(rig.doorbell(&ring).0, STATUS_SUCCESS);
        ensure_eq!(
            told(&mut rig).map(|(command, [number, ..])| (command, number)),
            Some((Command::MapQueue, hardware.into()))
        );
        let found = rig.descriptor(hardware);
        let root = Location::new().with_address(0x7000 * number as u64).with_system(true).into_bits();
        ensure_eq!((found.root, found.node), (root, 0), "root and node");
        ensure_eq!((found.ring, found.control, found.ring_entries), (ring.ring, ring.control, 256), "the ring");
        ensure_eq!((found.progress_current, found.progress_monitored), (progress, progress + 0x1000), "progress fence");
        let flags = QueueFlags::from_bits(found.flags);
        ensure!(flags.native_progress() && !flags.suspended(), "{flags:?}");
        let rank = QueueRank::new().with_band(2).with_in_process(3).into_bits();
        ensure_eq!((found.rank, found.quantum), (rank, 200), "priority");
        ensure_eq!((found.grace_same, found.grace_lower), (100, 50), "grace periods");
        ensure_eq!((found.wait_log, found.wait_log_entries), (0xa000, 84), "log of waits");
        ensure_eq!((found.signal_log, found.signal_log_entries), (0xb000, 85), "log of signals");
        ensure_eq!((found.context, found.save_area, found.save_size), (context.addr() as u64, 0, 0));
        processes.push(found.process);
    }
    ensure!(processes[0] != processes[1] && !processes.contains(&0), "numbers of the processes: {processes:?}");
    Ok(())
}

/// A queue of the kernel with private data of so many bytes: the answer, and the queue.
fn queue_with(rig: &Rig, context: HANDLE, size: u32, data: Option<HwQueueData>) -> (NTSTATUS, HANDLE) {
    let mut bytes = data.map(|data| data.to_bytes());
    let mut args = DXGKARG_CREATEHWQUEUE::zeroed();
    args.hHwQueue = handle(0x6000);
    args.HwQueueProgressFenceGPUVirtualAddress = 0x8000;
    args.PrivateDriverDataSize = size;
    args.pPrivateDriverData = bytes.as_mut().map_or(std::ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast());
    let status = ddi!(rig.system, DxgkDdiCreateHwQueue, context, &raw mut args);
    (status, args.hHwQueue)
}

fn a_save_area_is_as_large_as_asked_for_and_goes_with_its_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    const BYTES: u32 = HwQueueData::SIZE as u32;
    let data = |magic, save_size| Some(HwQueueData { magic, save_size });
    for hardware in [10_000, 0] {
        let mut system = System::added(case, ALL, 4);
        system.set(registers::SAVE_SIZE, hardware);
        ensure_eq!(system.start(), STATUS_SUCCESS);
        let rig = Rig::on(system);
        let contexts = [0, 1].map(|node| rig.hw_context(0x4000 + node as usize, node));
        for (node, size, data, expected) in [
            (0, 0, None, Ok(0)),
            (0, BYTES, data(MAGIC, 0), Ok(0)),
            (0, BYTES, data(MAGIC, 1), Ok(4096)),
            (0, BYTES, data(MAGIC, 4097), Ok(8192)),
            (0, BYTES, data(MAGIC, SAVE_SIZE_MAX), Ok(12288)),
            (1, BYTES, data(MAGIC, 4097), Ok(0)),
            (0, BYTES, data(MAGIC, SAVE_SIZE_MAX + 1), Err(STATUS_INVALID_PARAMETER)),
            (0, BYTES, data(MAGIC, u32::MAX), Err(STATUS_INVALID_PARAMETER)),
            (0, BYTES, data(!MAGIC, 4097), Err(STATUS_INVALID_PARAMETER)),
            (0, BYTES - 1, data(MAGIC, 4097), Err(STATUS_INVALID_PARAMETER)),
            (0, BYTES, None, Err(STATUS_INVALID_PARAMETER)),
        ] {
            let before = allocations(case);
            let (status, queue) = queue_with(&rig, contexts[node], size, data);
            let of = format!("{size} bytes of {data:?} for node {node}, of {hardware} that the hardware takes");
            ensure_eq!(status, expected.err().unwrap_or(STATUS_SUCCESS), "{of}");
            if let Ok(bytes) = expected {
                // The last command has mapped it.
                let found = rig.descriptor(rig.system.get(registers::CMP_ARG0) as u32);
                let bytes = if hardware == 0 { 0 } else { bytes };
                ensure_eq!((found.save_size, found.save_area != 0), (bytes, bytes != 0), "{of}");
                ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, queue), STATUS_SUCCESS);
            }
            ensure!(allocations(case) <= before + 1, "memory is left of {of}");
        }
        let before = allocations(case);
        let (_, queue) = queue_with(&rig, contexts[0], BYTES, data(MAGIC, 4097));
        ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, queue), STATUS_SUCCESS);
        ensure_eq!(allocations(case), before, "a queue that came and went");
    }
    Ok(())
}

fn queues_without_a_progress_fence_are_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    for (current, status) in
        [(0, STATUS_INVALID_PARAMETER), (0x8004, STATUS_INVALID_PARAMETER), (0x8000, STATUS_SUCCESS)]
    {
        for native in [false, true] {
            if native && status == STATUS_SUCCESS {
                rig.fence(0xf1, current);
            }
            let mut args = DXGKARG_CREATEHWQUEUE::zeroed();
            (args.hHwQueue, args.HwQueueProgressFenceGPUVirtualAddress) = (handle(0x6000), current);
            args.Flags.set_NativeProgressFence(native);
            let answer = ddi!(rig.system, DxgkDdiCreateHwQueue, context, &raw mut args);
            ensure_eq!(answer, status, "a progress fence at {current:#x}, a native one: {native}");
        }
    }
    Ok(())
}

fn logs_are_told_to_the_hardware_and_completed_where_it_delays_them(case: &mut Case<'_>) -> Result<(), Failure> {
    for delays in [true, false] {
        let mut system = System::added(case, ALL, 4);
        let word = system.get(registers::CAPS);
        let caps = Caps::from_bits(word as u32).with_log_flush(delays);
        system.set(registers::CAPS, word >> 32 << 32 | u64::from(caps.into_bits()));
        ensure_eq!(system.start(), STATUS_SUCCESS);
        let mut rig = Rig::on(system);
        let context = rig.hw_context(0x4000, 0);
        let (mut queue, _) = rig.user_queue(context, 1);
        for (kind, address) in [(LogKind::Waits, 0xa000), (LogKind::Signals, 0xb000)] {
            told(&mut rig);
            ensure_eq!(set_log(&rig, queue, kind, 84, address), STATUS_SUCCESS);
            let target = LogTarget::new().with_queue(QUEUE).with_kind(kind as u8).into_bits();
            ensure_eq!(told(&mut rig), Some((Command::SetFenceLog, [target, address, 84])));
        }
        let mut args = DXGKARG_UPDATENATIVEFENCELOGS::zeroed();
        (args.NumberOfQueues, args.hHWQueue) = (1, &raw mut queue);
        ensure_eq!(level(2, || ddi!(rig.system, DxgkDdiUpdateNativeFenceLogs, &raw const args)), STATUS_SUCCESS);
        let flush = told(&mut rig).map(|(command, [number, ..])| (command, number));
        ensure_eq!(
            flush,
            delays.then_some((Command::FlushFenceLogs, QUEUE.into())),
            "the hardware delays logs: {delays}"
        );
        let (_, kernel) = queue_with(&rig, context, 0, None);
        told(&mut rig);
        ensure_eq!(set_log(&rig, kernel, LogKind::Waits, 84, 0xa000), STATUS_INVALID_PARAMETER, "the kernel's queue");
        ensure_eq!(told(&mut rig), None, "commands about the log of the kernel's queue");
    }
    Ok(())
}

fn a_queue_that_is_destroyed_is_taken_from_hardware_and_context(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let queues: Vec<HANDLE> = (0..3).map(|_| queue_with(&rig, context, 0, None).1).collect();
    told(&mut rig);
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, queues[0]), STATUS_SUCCESS);
    ensure_eq!(
        told(&mut rig).map(|(command, [number, ..])| (command, number)),
        Some((Command::UnmapQueue, QUEUE.into()))
    );
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, queues[0]), STATUS_INVALID_HANDLE);
    ensure_eq!(told(&mut rig), None, "commands about a queue that is gone");
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    for (other, expected) in [(1, vec![]), (2, vec![Report::Suspended { context: 0x4000, fence: 11 }])] {
        rig.system.event(EventKind::Suspended, 0, QUEUE + other, [1, 0]);
        rig.system.interrupt();
        ensure_eq!(reports(), expected, "after queue {other} has stopped");
    }
    Ok(())
}
