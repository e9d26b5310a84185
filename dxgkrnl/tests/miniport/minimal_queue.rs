//! Work through the thunks on a miniport that this crate knows nothing about, and what the verifier says about its interrupts.

use std::ffi::c_void;
use std::sync::Arc;

use crate::minimal::queue::{Queue, call, open};
use crate::minimal::{Bench, Mutant, SOUND};
use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{MachineConfig, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

#[test]
fn a_queue_runs_work_and_everything_is_given_back() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    for value in 1..=10 {
        queue.submit(value).unwrap();
    }
    queue.wait(10).unwrap();
    assert_eq!(queue.submit(10), Err(STATUS_INVALID_PARAMETER), "values only grow");
    // The device is done before its reports arrive, so the wait may have ended without them.
    let monitored = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED.0 as usize;
    let mut counters = bench.machine.counters(luid).unwrap();
    while counters.notifications[monitored] < 10 {
        std::thread::yield_now();
        counters = bench.machine.counters(luid).unwrap();
    }
    assert_eq!(counters.notifications[monitored], 10);
    assert!(counters.interrupts <= 10 + counters.unclaimed_interrupts, "messages may be merged, never multiplied");
    queue.close().unwrap();
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn stop_ends_the_work_of_processes_that_are_still_open() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    queue.submit(1).unwrap();
    bench.machine.remove(luid).unwrap();
    assert!(queue.submit(2).is_err());
    bench.machine.unload(bench.driver).unwrap();
    assert_eq!(bench.machine.bugcheck(), None, "the driver's objects were all destroyed");
    assert_eq!(open(&bench, luid).err(), Some(STATUS_INVALID_PARAMETER));
}

#[test]
fn a_machine_that_is_dropped_lets_go_of_its_devices() {
    let bench = Bench::new(SOUND).unwrap();
    let bus = Arc::downgrade(&bench.bus);
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    queue.submit(1).unwrap();
    drop(bench);
    drop(queue);
    assert_eq!(bus.strong_count(), 0);
}

#[test]
fn a_machine_without_interrupt_threads_delivers_when_told() {
    let config = MachineConfig { ram: 64 << 20, interrupt_thread: false, ..MachineConfig::default() };
    let bench = Bench::with_config(SOUND, config).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    let before = bench.machine.counters(luid).unwrap();
    queue.submit(1).unwrap();
    assert_eq!(bench.machine.counters(luid).unwrap(), before, "nothing happens by itself");
    assert!(bench.machine.deliver_interrupts());
    assert!(!bench.machine.deliver_interrupts());
    let after = bench.machine.counters(luid).unwrap();
    assert_eq!((after.interrupts, after.dpcs), (before.interrupts + 1, before.dpcs + 1));
    queue.wait(1).unwrap();
    queue.close().unwrap();
    bench.machine.remove(luid).unwrap();
}

/// Makes one allocation on the queue's device and destroys it again.
fn allocate(queue: &Queue) -> Result<(), NTSTATUS> {
    let _attached = queue.process.attach();
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    let mut args = D3DKMT_CREATEALLOCATION { hDevice: queue.device, NumAllocations: 1, ..Zeroed::zeroed() };
    args.u1.pAllocationInfo2 = &raw mut info;
    call(thunks().D3DKMTCreateAllocation2, args)?;
    let args = D3DKMT_DESTROYALLOCATION2 {
        hDevice: queue.device,
        phAllocationList: &raw mut info.hAllocation,
        AllocationCount: 1,
        ..Zeroed::zeroed()
    };
    call(thunks().D3DKMTDestroyAllocation2, args).map(|_| ())
}

#[test]
fn an_allocation_mapped_through_the_aperture_needs_the_second_way_of_mapping() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    allocate(&queue).unwrap();
    queue.close().unwrap();
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
    let allocation = |info: &mut DXGK_ALLOCATIONINFO| {
        info.u3.FlagsWddm2 = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new().with_MapApertureCpuVisible(true);
    };
    let bench = Bench::new(Mutant { allocation, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    assert_eq!(allocate(&queue), Err(STATUS_INVALID_PARAMETER));
    assert!(bench.machine.debug_log().iter().any(|line| line.contains("MapApertureCpuVisible")));
    queue.close().unwrap();
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
}

/// Submits to a driver that breaks a contract in its DPC, and answers the stop.
fn stops_in_dpc(in_dpc: fn(&mut crate::minimal::Adapter)) -> Bugcheck {
    let config = MachineConfig { ram: 64 << 20, interrupt_thread: false, ..MachineConfig::default() };
    let bench = Bench::with_config(Mutant { in_dpc, ..SOUND }, config).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    queue.submit(1).unwrap();
    bench.machine.deliver_interrupts();
    let bugcheck = bench.machine.bugcheck().expect("the machine must stop");
    assert_eq!(queue.submit(2), Err(STATUS_DEVICE_REMOVED), "nothing goes on after a stop");
    bugcheck
}

#[test]
fn contiguous_memory_cannot_be_had_in_a_dpc() {
    let bugcheck = stops_in_dpc(|adapter| {
        let mut args = DXGKARGCB_ALLOCATECONTIGUOUSMEMORY::zeroed();
        args.NumberOfBytes = 4096;
        // SAFETY: handle and place are good.
        let _ = unsafe { adapter.interface.DxgkCbAllocateContiguousMemory.unwrap()(adapter.handle, &raw mut args) };
        unreachable!("the callback must not return");
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[1]), (0xd1, 2));
}

#[test]
fn interrupts_cannot_be_reported_in_a_dpc() {
    let bugcheck = stops_in_dpc(|adapter| {
        let data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        // SAFETY: handle and data are good.
        unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
    });
    assert_eq!(bugcheck.code, 0xd1);
    assert!(bugcheck.reason.contains("DxgkCbNotifyInterrupt"), "{}", bugcheck.reason);
}

#[test]
fn a_packet_that_was_never_submitted_cannot_complete() {
    unsafe extern "win64" fn report(context: *mut c_void) -> u8 {
        let adapter = crate::minimal::driver::adapter(context);
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED;
        data.u.DmaCompleted.SubmissionFenceId = 0x7000_0000;
        // SAFETY: handle and data are good.
        unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
        1
    }
    let bugcheck = stops_in_dpc(|adapter| {
        let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
        let context = std::ptr::from_mut(adapter).cast();
        let mut result = 0;
        // SAFETY: all arguments are good.
        let _ = unsafe { synchronize(adapter.handle, Some(report), context, 0, &raw mut result) };
        unreachable!("neither callback may return");
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x119, 1));
}
