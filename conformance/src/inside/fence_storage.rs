//! Where fence values lie, who reaches them there, and fences between engines.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use campanile_hw::packet::{self, Packet};
use campanile_hw::pci::BAR_VRAM;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use super::fence_interrupts::interrupts;
use super::queue::kernel_submit;
use crate::rig::{KernelHandle, RawQueue, Rig, copy, fill, shared_flags, user_mode_flags, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "FenceStorage", needs HardwareScheduling, behind "it looks where values of fences lie, behind their addresses";
    "FenceStorage.ValuesLieInSystemMemoryUnlessTheSystemSaysMore" needs NativeFence on Boot::With(SystemOptions::default), "native-gpu-fence-objects":
        "Without the system's capability for optimised fences, both values of a fence of the default type lie in system memory."
        holds [NativeFence 21]
        => in_system_memory;
    "FenceStorage.OptimizedMonitoredValueLiesInLocalMemory" needs UserModeSubmission on Boot::With(optimized), "native-gpu-fence-objects":
        "With the system's capability for optimised fences, monitored values lie in the segment that the driver named for them, \
         and current values stay in system memory."
        holds [NativeFence 21]
        => optimized_monitored_value;
    "FenceStorage.IntraGpuFenceNeedsTheSystemsCapability" needs NativeFence on Boot::With(optimized), "dxgkargcb_feature_nativefence_caps_1":
        "Without the system's capability for fences between engines their creation is not supported."
        holds [NativeFence 21]
        => intra_needs_capability;
    "FenceStorage.IntraGpuFenceWithoutOptimizedFences" needs UserModeSubmission on Boot::With(intra_only), "dxgkargcb_feature_nativefence_caps_1":
        "The two capabilities do not depend on each other: with only the one for fences between engines, fences of the default type \
         stay in system memory."
        holds [NativeFence 21]
        => intra_without_optimized;
    "FenceStorage.IntraGpuValuesLieInLocalMemory" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "Both values of a fence between engines lie in the segment that the driver named for them."
        holds [NativeFence 21]
        => intra_values;
    "FenceStorage.IntraGpuFenceSynchronizesEngines" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "Two engines alternate a thousand times by a fence in local memory, which the GPU has initialised, without one interrupt."
        holds [NativeFence 21]
        => intra_synchronizes;
    "FenceStorage.IntraGpuFenceRefusesCpuWait" needs UserModeSubmission on Boot::With(local), "d3dddi_nativefence_type":
        "A CPU cannot wait for a fence between engines, nor for others in the same call."
        holds [NativeFence 21]
        => intra_refuses_wait;
    "FenceStorage.IntraGpuFenceRefusesCpuSignal" needs UserModeSubmission on Boot::With(local), "d3dddi_nativefence_type":
        "A CPU cannot signal a fence between engines, and a call that names one signals none of the others."
        holds [NativeFence 21]
        => intra_refuses_signal;
    "FenceStorage.IntraGpuFenceHasNoCpuAddress" needs NativeFence on Boot::With(local), "d3dddi_nativefence_type":
        "User mode gets no CPU address of a fence between engines."
        holds [NativeFence 21]
        => intra_has_no_address;
    "FenceStorage.IntraGpuFenceIsForOneAdapter" on Boot::With(local), "native-gpu-fence-objects":
        "A fence for several adapters must be of the default type; the creation of any other fails."
        holds [NativeFence 21]
        => intra_is_for_one_adapter;
    "FenceStorage.IntraGpuFenceBetweenProcesses" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "A fence between engines that may be shared lies in system memory; engines of two processes synchronise by it, and neither \
         process has a CPU address."
        holds [NativeFence 21]
        => intra_between_processes;
    "FenceStorage.IntraGpuFenceGoesWithItsDevice" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "Destroying a fence between engines, or its device while a queue waits for it, ends in peace."
        holds [NativeFence 21]
        => intra_goes;
    "FenceStorage.LocalMonitoredValueIsReadOnlyForTheGpu" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "In local memory too the GPU reads a monitored value and cannot write it: the queue that tries faults, and others run on."
        holds [NativeFence 14, NativeFence 21]
        => local_monitored_is_read_only;
    "FenceStorage.AddressesOfOneProcessMeanNothingInAnother" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "A queue that signals at an address of another process' fence faults, whatever the storage, and the fence keeps its value."
        holds [NativeFence 21]
        => foreign_addresses;
    "FenceStorage.WorksWithAWindowSmallerThanVram" needs UserModeSubmission on Boot::With(small_window), "d3dkmdt_fencestoragesurfacedata":
        "Where the CPU sees only part of VRAM, fence values in local memory lie in that part."
        holds [NativeFence 21]
        => small_window_is_enough;
    "FenceStorage.LocalValuesOutlastEvictions" needs UserModeSubmission on Boot::With(small_vram), "native-gpu-fence-objects":
        "While allocations of a process that works are evicted from VRAM and brought back, its fence values stay where they are, and no signal is lost."
        holds [NativeFence 21]
        => outlast_evictions;
    "FenceStorage.FullLocalMemoryIsRefusedByName" needs UserModeSubmission on Boot::With(small_vram), "d3dkmdt_fencestoragesurfacedata":
        "Where no local memory is left, an optimised fence falls back to system memory, and a fence between engines is refused \
         without harm."
        holds [NativeFence 21]
        => full_local_memory;
    "FenceStorage.TenThousandFencesComeAndGo" needs UserModeSubmission on Boot::With(local), "native-gpu-fence-objects":
        "Ten thousand fences of both types live side by side, work, and leave nothing behind."
        holds [NativeFence 21]
        => ten_thousand;
    "FenceStorage.NativeAndMonitoredProgressOnOneContext" needs UserModeSubmission on Boot::With(local), "dxgkarg_createhwqueue":
        "Queues with a native and with a monitored progress fence run side by side on one context, and the CPU waits for both."
        holds [NativeFence 21, NativeFence 44]
        => both_kinds_of_progress;
    "FenceStorage.NativeProgressInSystemMemory" needs UserModeSubmission on Boot::Fresh, "dxgkarg_createhwqueue":
        "The same, with every value in system memory."
        holds [NativeFence 21]
        => both_kinds_of_progress;
    "FenceStorage.UserModeQueueNeedsNativeProgress" needs UserModeSubmission on Boot::With(local), "dxgkarg_createhwqueue":
        "A queue for user-mode submission without a native progress fence is an invalid parameter."
        holds [NativeFence 21]
        => user_mode_needs_native;
    "FenceStorage.NativeProgressNeedsTheFeature" on Boot::With(without_fences), "dxgkarg_createhwqueue":
        "Without native fences a queue with a native progress fence is not supported, one with a monitored progress fence works."
        holds [NativeFence 21]
        => native_progress_needs_feature;
}

fn with(optimized: bool, intra_gpu: bool) -> SystemOptions {
    let mut options = SystemOptions::default();
    options.features.optimized_default_fences = optimized;
    options.features.intra_gpu_fences = intra_gpu;
    options
}

fn optimized() -> SystemOptions {
    with(true, false)
}

fn intra_only() -> SystemOptions {
    with(false, true)
}

pub(super) fn local() -> SystemOptions {
    with(true, true)
}

fn small_window() -> SystemOptions {
    let mut options = local();
    options.variant.vram_size = 64 << 20;
    options.variant.vram_window = 16 << 20;
    options
}

const SMALL: u64 = 32 << 20;

fn small_vram() -> SystemOptions {
    let mut options = local();
    options.variant.vram_size = SMALL;
    options.variant.vram_window = SMALL;
    options
}

fn without_fences() -> SystemOptions {
    let mut options = local();
    options.features.native_fence = false;
    options
}

/// A fence between engines.
#[derive(Clone, Copy)]
pub(super) struct Intra {
    handle: D3DKMT_HANDLE,
    current: u64,
    monitored: u64,
}

impl Intra {
    fn of(handle: D3DKMT_HANDLE, mapping: &D3DDDI_NATIVEFENCEMAPPING) -> Result<Self, Failure> {
        ensure!(
            mapping.CurrentValueCpuVa.is_null(),
            "user mode has {:?} for its current value",
            mapping.CurrentValueCpuVa
        );
        Ok(Self { handle, current: mapping.CurrentValueGpuVa, monitored: mapping.MonitoredValueGpuVa })
    }

    pub(super) fn signal(&self, value: u64) -> Packet {
        Packet::Signal(packet::Signal { handle: self.handle, current: self.current, monitored: self.monitored, value })
    }

    pub(super) fn wait(&self, value: u64) -> Packet {
        Packet::Wait(packet::Wait { handle: self.handle, current: self.current, value })
    }
}

fn create_intra(rig: &Rig, flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
    let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
    arguments.hDevice = rig.device;
    arguments.Info.EngineAffinity = 1;
    arguments.Info.Flags = flags;
    arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU;
    rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut arguments).ok()?;
    Ok(arguments)
}

/// A fence between engines that the GPU of `queue` has set to `initial`, as the user-mode driver must.
pub(super) fn intra(rig: &Rig, queue: &mut RawQueue, initial: u64) -> Result<Intra, Failure> {
    let made = create_intra(rig, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
        .map_err(|status| Failure::new(format!("a fence between engines: {status}")))?;
    let fence = Intra::of(made.hSyncObject, &made.Info.NativeFenceMapping)?;
    rig.execute(queue, &[fence.signal(initial)])?;
    Ok(fence)
}

/// Offsets in VRAM of the words with this value. Holes of the file behind VRAM are not looked at.
pub(super) fn places_in_vram(system: &System, wanted: u64) -> Result<Vec<u64>, Failure> {
    let file = system.gpu().bar_file(BAR_VRAM).ok_or_else(|| Failure::new("VRAM is no memory"))?;
    let seek = |from: i64, whence| {
        // SAFETY: the descriptor belongs to the file, whose position nobody uses.
        let at = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
        (at >= 0).then_some(at)
    };
    let (mut places, mut from) = (Vec::new(), 0);
    while let Some(start) = seek(from, libc::SEEK_DATA) {
        let end = seek(start, libc::SEEK_HOLE).unwrap_or(start);
        if end <= start {
            break;
        }
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start as u64)?;
        let words = bytes.chunks_exact(8).map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        places.extend((start as u64..).step_by(8).zip(words).filter(|(_, word)| *word == wanted).map(|(at, _)| at));
        from = end;
    }
    Ok(places)
}

/// A value that nothing else in memory has.
fn unlike(number: u64) -> u64 {
    0x6b1d_5eed_0000_0000 + number
}

fn in_system_memory(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(unlike(1))?;
    granted(rig.wait_with_event(&[fence.handle], &[unlike(8)], false, Some(event()?)), "a wait")?;
    ensure_eq!(places_in_vram(case.system, unlike(1))?.len(), 0, "current values in VRAM");
    ensure_eq!(places_in_vram(case.system, unlike(7))?.len(), 0, "monitored values in VRAM");
    Ok(())
}

/// A new event; the case leaves it open.
fn event() -> Result<i32, Failure> {
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(fd) }
}

fn is_set(event: i32) -> bool {
    let mut count = 0u64;
    // SAFETY: there is space for the eight bytes that are read.
    unsafe { libc::read(event, (&raw mut count).cast(), 8) == 8 }
}

/// Signals by the GPU wake a waiter by a monitored value in VRAM, and interrupt nobody else. Where that value lies.
fn wakes_from_local_memory(case: &Case<'_>, rig: &Rig, queue: &mut RawQueue) -> Result<u64, Failure> {
    let fence = rig.fence(unlike(1))?;
    let before = interrupts(case);
    rig.execute(queue, &[fence.signal(unlike(2)), fence.signal(unlike(3))])?;
    ensure_eq!(interrupts(case), before, "interrupts that signals raised while nobody waited");
    ensure_eq!(places_in_vram(case.system, unlike(3))?.len(), 0, "current values in VRAM");
    let woken = event()?;
    granted(rig.wait_with_event(&[fence.handle], &[unlike(8)], false, Some(woken)), "a wait")?;
    let places = places_in_vram(case.system, unlike(7))?;
    ensure_eq!(places.len(), 1, "monitored values in VRAM while one is waited for");
    rig.execute(queue, &[fence.signal(unlike(7))])?;
    ensure!(!is_set(woken), "a smaller value woke the waiter");
    ensure_eq!(interrupts(case), before, "interrupts that a smaller value raised");
    rig.execute(queue, &[fence.signal(unlike(8))])?;
    wait_until("the wake-up", || is_set(woken))?;
    ensure!(interrupts(case) > before, "no interrupt woke the waiter");
    Ok(places.first().copied().unwrap_or(0))
}

fn optimized_monitored_value(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    wakes_from_local_memory(case, &rig, &mut queue)?;
    let fence = rig.fence(5)?;
    granted(rig.signal(&[fence.handle], &[9]), "a signal of the CPU")?;
    granted(rig.wait(&[fence.handle], &[9], false), "a wait of the CPU")?;
    rig.execute(&mut queue, &[fence.wait(9)])
}

fn no_intra(rig: &Rig, flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, status: NTSTATUS) -> Result<(), Failure> {
    match create_intra(rig, flags) {
        Ok(_) => Err(Failure::new("a fence between engines was created")),
        Err(found) => refused(found, &[status], "a fence between engines"),
    }
}

fn intra_needs_capability(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for flags in [D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new(), shared_flags()] {
        no_intra(&rig, flags, STATUS_NOT_SUPPORTED)?;
    }
    rig.fence(1).map(drop)
}

fn intra_without_optimized(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    intra(&rig, &mut queue, unlike(40))?;
    ensure_eq!(places_in_vram(case.system, unlike(40))?.len(), 1, "values of the fence between engines in VRAM");
    let fence = rig.fence(0)?;
    granted(rig.wait_with_event(&[fence.handle], &[unlike(8)], false, Some(event()?)), "a wait")?;
    ensure_eq!(places_in_vram(case.system, unlike(7))?.len(), 0, "monitored values of default fences in VRAM");
    Ok(())
}

fn intra_values(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fences = (0..5).map(|_| intra(&rig, &mut queue, unlike(50))).collect::<Result<Vec<_>, _>>()?;
    ensure_eq!(places_in_vram(case.system, unlike(50))?.len(), 5, "current values in VRAM");
    // Whoever reads the monitored values by the GPU finds that nobody waits.
    let target = rig.memory(4096, Placement::System)?;
    let view = rig.view(target)?;
    for fence in &fences {
        view.fill(0);
        rig.execute(&mut queue, &[copy(target.address, fence.monitored, 8)])?;
        ensure_eq!(view.read(0, 8), vec![0xff; 8], "monitored value of a fence that no CPU waits for");
    }
    rig.execute(&mut queue, &[fences[2].signal(unlike(51))])?;
    ensure_eq!(places_in_vram(case.system, unlike(50))?.len(), 4, "current values in VRAM that were not signalled");
    Ok(())
}

fn intra_synchronizes(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 1000;
    let rig = case.rig()?;
    let (mut compute, mut copies) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = intra(&rig, &mut compute, 0)?;
    let before = interrupts(case);
    let (mut ends, batch) = ([0; 2], 4);
    for turn in (0..TURNS).step_by(batch) {
        let mut packets = [Vec::new(), Vec::new()];
        for turn in turn..turn + batch as u64 {
            packets[0].extend([fence.wait(2 * turn), fence.signal(2 * turn + 1)]);
            packets[1].extend([fence.wait(2 * turn + 1), fence.signal(2 * turn + 2)]);
        }
        ends = [rig.submit(&mut compute, &packets[0])?, rig.submit(&mut copies, &packets[1])?];
    }
    wait_until("the last turn", || compute.progress.load() >= ends[0] && copies.progress.load() >= ends[1])?;
    ensure_eq!(interrupts(case), before, "interrupts");
    Ok(())
}

fn intra_refuses_wait(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (fence, plain) = (intra(&rig, &mut queue, 5)?, rig.fence(5)?);
    for any in [false, true] {
        let invalid = [STATUS_INVALID_PARAMETER];
        refused(rig.wait(&[fence.handle], &[1], any), &invalid, "a wait for a value that is reached")?;
        refused(rig.wait(&[plain.handle, fence.handle], &[1, 1], any), &invalid, "a wait with another fence")?;
        let event = Some(event()?);
        refused(rig.wait_with_event(&[fence.handle], &[9], any, event), &invalid, "a wait with an event")?;
        refused(rig.wait_with_event(&[plain.handle, fence.handle], &[9, 9], any, event), &invalid, "the same of two")?;
    }
    rig.execute(&mut queue, &[fence.wait(5), fence.signal(6)])
}

fn intra_refuses_signal(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (fence, plain) = (intra(&rig, &mut queue, unlike(5))?, rig.fence(5)?);
    refused(rig.signal(&[fence.handle], &[unlike(9)]), &[STATUS_INVALID_PARAMETER], "a signal of the CPU")?;
    let both = rig.signal(&[plain.handle, fence.handle], &[9, unlike(9)]);
    refused(both, &[STATUS_INVALID_PARAMETER], "a signal of two fences")?;
    ensure_eq!(plain.value.load(), 5, "value of the other fence in the same call");
    ensure_eq!(places_in_vram(case.system, unlike(5))?.len(), 1, "values as the GPU left them");
    Ok(())
}

fn intra_has_no_address(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for flags in [D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new(), shared_flags()] {
        let made = create_intra(&rig, flags).map_err(|status| Failure::new(format!("creation: {status}")))?;
        let fence = Intra::of(made.hSyncObject, &made.Info.NativeFenceMapping)?;
        ensure!(
            fence.current != 0 && fence.current % 8 == 0,
            "the GPU's address of the current value is {:#x}",
            fence.current
        );
        ensure!(
            fence.monitored != 0 && fence.monitored != fence.current,
            "the other address is {:#x}",
            fence.monitored
        );
    }
    Ok(())
}

fn intra_is_for_one_adapter(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for flags in [D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new(), shared_flags()] {
        no_intra(&rig, flags.with_CrossAdapter(true), STATUS_INVALID_PARAMETER)?;
    }
    Ok(())
}

fn intra_between_processes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let made = create_intra(&rig, shared_flags()).map_err(|status| Failure::new(format!("creation: {status}")))?;
    let fence = Intra::of(made.hSyncObject, &made.Info.NativeFenceMapping)?;
    rig.execute(&mut queue, &[fence.signal(unlike(0))])?;
    ensure_eq!(places_in_vram(case.system, unlike(0))?.len(), 0, "values of a shared fence in VRAM");
    let handle = rig.share(&[made.hSyncObject]).map_err(|status| Failure::new(format!("sharing: {status}")))?;
    let process = dxgkrnl::Process::new(case.system.machine(), "other");
    let theirs = case.process.duplicate_handle(handle.raw(), &process).map(|handle| KernelHandle(handle.addr()));
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    // The other side runs ahead: its queue waits for what this process signals afterwards.
    let luid = case.system.luid();
    let (rung, woken) = std::sync::mpsc::channel();
    let outcome = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            on_thread(&process, || {
                let second = Rig::open(luid)?;
                let opened = second.try_open(theirs).map_err(|status| Failure::new(format!("opening: {status}")))?;
                let fence = Intra::of(opened.hSyncObject, &opened.NativeFenceMapping)?;
                let mut copies = second.queue(NODE_COPY)?;
                let held = second.submit(&mut copies, &[fence.wait(unlike(1)), fence.signal(unlike(2))])?;
                let invalid = [STATUS_INVALID_PARAMETER];
                refused(second.wait(&[fence.handle], &[unlike(0)], false), &invalid, "a wait of the CPU")?;
                let _ = rung.send(());
                wait_until("the queue of the other process", || copies.progress.load() >= held)
            })
        });
        // Ends too when the other side gave up.
        let _ = woken.recv_timeout(std::time::Duration::from_secs(20));
        let here = rig.execute(&mut queue, &[fence.signal(unlike(1)), fence.wait(unlike(2))]);
        let there = other.join().unwrap_or_else(|_| Err(Failure::new("the other thread panicked")));
        there.and(here)
    });
    process.exit();
    outcome?;
    granted(handle.close(), "closing the kernel handle")
}

fn intra_goes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let gone = intra(&rig, &mut queue, 1)?;
    granted(rig.destroy_fence(gone.handle), "destroying the fence")?;
    let status = rig.destroy_fence(gone.handle);
    refused(status, &[STATUS_INVALID_HANDLE], "destroying it twice")?;
    let held = intra(&rig, &mut queue, 1)?;
    rig.submit(&mut queue, &[held.wait(2)])?;
    granted(rig.destroy(), "destroying the device")?;
    let witness = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let mut working = witness.queue(NODE_COMPUTE)?;
    let fence = intra(&witness, &mut working, 3)?;
    witness.execute(&mut working, &[fence.wait(3)])
}

fn is_lost(rig: &Rig) -> bool {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active)
}

fn local_monitored_is_read_only(case: &mut Case<'_>) -> Result<(), Failure> {
    let witness = case.rig()?;
    let mut working = witness.queue(NODE_COPY)?;
    for between_engines in [false, true] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        let monitored = match between_engines {
            true => intra(&rig, &mut queue, 0)?.monitored,
            false => rig.fence(0)?.monitored,
        };
        for forged in [
            Packet::Signal(packet::Signal { handle: 0, current: monitored, monitored: 0, value: 0 }),
            fill(monitored, 8, 0),
            Packet::Timestamp(packet::Timestamp { destination: monitored }),
        ] {
            let culprit = case.rig()?;
            let mut queue = culprit.queue(NODE_COMPUTE)?;
            let done = queue.written();
            culprit.submit_doomed(&mut queue, &[forged])?;
            wait_until("the fault", || is_lost(&culprit))?;
            queue.stands_at(done, "the write to a monitored value")?;
            ensure!(!is_lost(&rig) && !is_lost(&witness), "another device is lost too");
        }
        let target = witness.memory(4096, Placement::System)?;
        let view = witness.view(target)?;
        witness.execute(&mut working, &[copy(target.address, monitored, 8)])?;
        ensure_eq!(view.read(0, 8), vec![0xff; 8], "monitored value after the attempts");
    }
    Ok(())
}

fn foreign_addresses(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    // Enough pages that the last ones lie where a process with few fences has none.
    for _ in 0..100 {
        rig.shared_fence(0)?;
    }
    let plain = rig.shared_fence(unlike(1))?;
    let mut engines = intra(&rig, &mut queue, unlike(2))?;
    for _ in 0..64 {
        engines = intra(&rig, &mut queue, unlike(2))?;
    }
    for (current, monitored) in [(plain.current, plain.monitored), (engines.current, engines.monitored)] {
        case.in_other_process(|system| {
            for packet in [
                Packet::Signal(packet::Signal { handle: 0, current, monitored, value: 0 }),
                Packet::Signal(packet::Signal { handle: 0, current, monitored: 0, value: 0 }),
                Packet::Wait(packet::Wait { handle: 0, current, value: 0 }),
            ] {
                let other = Rig::open(system.luid())?;
                let mut queue = other.queue(NODE_COPY)?;
                other.submit_doomed(&mut queue, &[packet])?;
                wait_until("the fault", || is_lost(&other))?;
                queue.stands_at(0, "a packet with an address of another process")?;
            }
            Ok(())
        })?;
    }
    ensure_eq!(plain.value.load(), unlike(1), "value of the fence in system memory");
    ensure_eq!(places_in_vram(case.system, unlike(2))?.len(), 65, "values of fences in local memory");
    rig.execute(&mut queue, &[plain.wait(unlike(1)), engines.wait(unlike(2))])
}

fn small_window_is_enough(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let mut places = vec![wakes_from_local_memory(case, &rig, &mut queue)?];
    intra(&rig, &mut queue, unlike(60))?;
    let found = places_in_vram(case.system, unlike(60))?;
    ensure_eq!(found.len(), 1, "values of the fence between engines in VRAM");
    places.extend(found);
    let window = small_window().variant.vram_window;
    ensure!(
        places.iter().all(|place| *place < window),
        "values at {places:x?}, beyond the window of {window:#x} bytes"
    );
    Ok(())
}

fn outlast_evictions(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 4 << 20;
    let rig = case.rig()?;
    let (mut compute, mut copies) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let (engines, watched) = (intra(&rig, &mut compute, unlike(0))?, rig.fence(0)?);
    let place = places_in_vram(case.system, unlike(0))?;
    let mut allocations = Vec::new();
    for round in 0..3 * SMALL / SIZE {
        let woken = event()?;
        let value = 2 * round;
        granted(rig.wait_with_event(&[watched.handle], &[value + 1], false, Some(woken)), "a wait")?;
        let held = rig.submit(&mut copies, &[engines.wait(unlike(value + 1)), engines.signal(unlike(value + 2))])?;
        let memory = rig.memory(SIZE, Placement::VramVisible)?;
        rig.execute(&mut compute, &[fill(memory.address, SIZE, round as u32), engines.signal(unlike(value + 1))])?;
        rig.execute(&mut compute, &[engines.wait(unlike(value + 2)), watched.signal(value + 1)])?;
        wait_until("the wake-up", || is_set(woken))?;
        wait_until("the other engine", || copies.progress.load() >= held)?;
        granted(rig.evict(memory.handle), "evict")?;
        allocations.push(memory);
    }
    let last = unlike(6 * SMALL / SIZE);
    ensure_eq!(places_in_vram(case.system, last)?, place, "place of the current value");
    let seen = rig.memory(4096, Placement::System)?;
    let view = rig.view(seen)?;
    for (round, memory) in (0u32..).zip(&allocations) {
        rig.make_resident(memory.handle)?;
        rig.execute(&mut compute, &[copy(seen.address, memory.address + SIZE - 4096, 4096)])?;
        ensure!(view.read(0, 4096).chunks(4).all(|word| word == round.to_le_bytes()), "contents of allocation {round}");
        granted(rig.evict(memory.handle), "evict")?;
    }
    Ok(())
}

fn full_local_memory(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let before = intra(&rig, &mut queue, 1)?;
    // Fills VRAM with what stays resident, down to the last page that a request of this size finds.
    let mut resident = Vec::new();
    for size in [4 << 20, 1 << 20, 1 << 16, 4096_u64] {
        while let Ok(handle) = rig.create(size, Placement::VramVisible) {
            let mut request = D3DDDI_MAKERESIDENT::zeroed();
            let mut list = [handle];
            request.hPagingQueue = rig.paging_queue;
            request.NumAllocations = 1;
            request.AllocationList = list.as_mut_ptr();
            let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
            if !status.is_success() {
                granted(rig.destroy_allocation(handle), "destroying what did not fit")?;
                break;
            }
            rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
            resident.push(handle);
        }
    }
    // The page of the first one has space for as many as the stride leaves.
    let full = (0..100).find_map(|_| create_intra(&rig, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new()).err());
    ensure_eq!(full, Some(STATUS_NO_MEMORY), "outcome when VRAM is full of resident allocations");
    // The page of the queue's progress fence has space for as many as the stride leaves, too.
    let plains = (0..100).map(|_| rig.fence(unlike(1))).collect::<Result<Vec<_>, _>>()?;
    let plain = plains[99];
    granted(rig.wait_with_event(&[plain.handle], &[unlike(8)], false, Some(event()?)), "a wait")?;
    ensure_eq!(places_in_vram(case.system, unlike(7))?.len(), 0, "monitored values in VRAM that is full");
    rig.execute(&mut queue, &[before.wait(1), plain.signal(unlike(8))])?;
    for handle in resident.drain(..) {
        granted(rig.destroy_allocation(handle), "destroying an allocation")?;
    }
    intra(&rig, &mut queue, 2).map(drop)
}

fn ten_thousand(case: &mut Case<'_>) -> Result<(), Failure> {
    const COUNT: usize = 10_000;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..2 {
        let mut handles = Vec::with_capacity(COUNT);
        let mut places = Vec::with_capacity(COUNT);
        for number in 0..COUNT {
            if number % 10 == 0 {
                let made = create_intra(&rig, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new());
                let made = made.map_err(|status| Failure::new(format!("fence {number}: {status}")))?;
                let fence = Intra::of(made.hSyncObject, &made.Info.NativeFenceMapping)?;
                handles.push(fence.handle);
                places.push((fence.current, fence.monitored));
                if number % 1000 == 0 {
                    rig.execute(&mut queue, &[fence.signal(unlike(70)), fence.wait(unlike(70))])?;
                }
            } else {
                let fence = rig.fence(number as u64)?;
                handles.push(fence.handle);
                places.push((fence.current, fence.monitored));
                ensure_eq!(fence.value.load(), number as u64, "value of a new fence");
                if number % 1001 == 0 {
                    granted(rig.signal(&[fence.handle], &[number as u64 + 1]), "a signal of the CPU")?;
                    rig.execute(&mut queue, &[fence.wait(number as u64 + 1)])?;
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        ensure_eq!(places.len(), COUNT, "fences with places of their own");
        for handle in handles {
            granted(rig.destroy_fence(handle), "destroying a fence")?;
        }
    }
    Ok(())
}

/// A queue for kernel-mode submission and where its commands lie.
struct KernelQueue {
    created: D3DKMT_CREATEHWQUEUE,
    commands: crate::rig::Memory,
    view: crate::rig::View,
}

impl KernelQueue {
    fn new(rig: &Rig, context: D3DKMT_HANDLE, native: bool) -> Result<Self, Failure> {
        let flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_NativeProgressFence(native);
        let created =
            rig.hw_queue(context, flags).map_err(|status| Failure::new(format!("a queue with {flags:?}: {status}")))?;
        let commands = rig.memory(4096, Placement::System)?;
        Ok(Self { created, commands, view: rig.view(commands)? })
    }

    fn submit(&self, rig: &Rig, packets: &[Packet], value: u64) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for packet in packets.iter().chain([&Packet::Progress(packet::Progress { handle: 0, value })]) {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        self.view.write(0, &bytes);
        let status = kernel_submit(rig, self.created.hHwQueue, self.commands.address, bytes.len() as u32, value);
        granted(status, "D3DKMTSubmitCommandToHwQueue")
    }

    fn wait(&self, rig: &Rig, value: u64) -> Result<(), Failure> {
        granted(rig.wait(&[self.created.hHwQueueProgressFence], &[value], false), "the wait for progress")
    }
}

pub(super) fn both_kinds_of_progress(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    let (native, monitored) = (KernelQueue::new(&rig, context, true)?, KernelQueue::new(&rig, context, false)?);
    let user = rig.hw_queue(context, user_mode_flags());
    user.map_err(|status| Failure::new(format!("a user-mode queue beside them: {status}")))?;
    let fence = rig.fence(0)?;
    for value in 1..=50 {
        native.submit(&rig, &[fence.wait(2 * value - 2), fence.signal(2 * value - 1)], value)?;
        monitored.submit(&rig, &[fence.wait(2 * value - 1), fence.signal(2 * value)], value)?;
        monitored.wait(&rig, value)?;
        native.wait(&rig, value)?;
        ensure_eq!(fence.value.load(), 2 * value, "value after both queues");
    }
    // Nobody waits: the native one is silent, the monitored one tells every time.
    let before = interrupts(case);
    native.submit(&rig, &[], 51)?;
    let word = crate::kmt::Word::new(native.created.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?;
    wait_until("progress", || word.load() >= 51)?;
    ensure_eq!(interrupts(case), before, "interrupts of native progress that nobody waits for");
    monitored.submit(&rig, &[], 51)?;
    wait_until("the interrupt of monitored progress", || interrupts(case) > before)?;
    monitored.wait(&rig, 51)
}

fn user_mode_needs_native(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    match rig.hw_queue(context, user_mode_flags().with_NativeProgressFence(false)) {
        Ok(_) => Err(Failure::new("a user-mode queue with a monitored progress fence was created")),
        Err(status) => refused(status, &[STATUS_INVALID_PARAMETER], "a monitored progress fence"),
    }
}

fn native_progress_needs_feature(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    match rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new().with_NativeProgressFence(true)) {
        Ok(_) => return Err(Failure::new("a native progress fence exists although native fences are off")),
        Err(status) => refused(status, &[STATUS_NOT_SUPPORTED], "a native progress fence")?,
    }
    let queue = KernelQueue::new(&rig, context, false)?;
    queue.submit(&rig, &[], 1)?;
    queue.wait(&rig, 1)
}
