//! D-states: what the driver does with a device that is not in D0, and what it remembers.

use std::ptr::null_mut;

use campanile_hw::queue::QueueFlags;
use campanile_hw::registers::{self, Caps, Command, Control, REGISTERS};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::status::*;

use super::rig::{Rig, completed};
use super::system::{ALL, System, allocations, ddi, level, log, reports};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.ComponentTransitionsAreCompleted" on Boot::Shared, "user-mode-work-submission":
        "DxgkDdiSetPowerComponentFState programs the engine of the component and completes each transition; the component of the D3 transition programs none, and a component or state that was not declared is refused and not completed."
        holds [UserModeSubmission 45]
        => f_states_of_declared_components_are_programmed_and_completed;
    "Miniport.PowerControlRequestsAreKnownOrNotSupported" on Boot::Shared, "dxgkddi_setpowerstate":
        "DxgkDdiPowerRuntimeControlRequest answers the notices of power management that there are, with no bytes, and refuses every other."
        => power_control_requests_are_known_or_not_supported;
    "Miniport.D3StopsTheScheduler" on Boot::Shared, "dxgkddi_setpowerstate":
        "In D3 the scheduler of the GPU does not run, after what it did before was reported; in D0 it runs, its events begin anew and work completes."
        => low_power_states_stop_the_scheduler_and_d0_starts_the_event_ring_over;
    "Miniport.NoRegisterIsWrittenOutsideD0" on Boot::Shared, "dxgkddi_setpowerstate":
        "Outside D0 no register of the device is written, and a function that needs the device refuses."
        => outside_d0_no_register_is_written_and_what_needs_the_device_is_refused_by_name;
    "Miniport.SharedMemoryIsUncachedWithoutSnooping" on Boot::Shared, "allocation-usage-tracking":
        "Contiguous memory that device and driver share is cached where the device snoops the caches of the processor, and uncached where it does not."
        holds [AllocationUsage 28]
        => what_the_hardware_shares_with_the_driver_is_uncached_where_it_does_not_snoop;
    "Miniport.D3AndBackKeepsNoMemory" on Boot::Shared, "dxgkddi_setpowerstate":
        "A device that went to D3 and came back, and was told each state twice, holds as much memory as before."
        => the_way_to_d3_and_back_holds_no_more_memory_than_before_and_may_be_told_twice;
    "Miniport.ResumedContextGetsItsQueuesBackAfterD3" on Boot::Shared, "dxgkddi_setpowerstate":
        "A queue that D3 took from the hardware is not given back before its context is resumed, and then it is, at the place where it was, and runs."
        => a_queue_is_given_back_to_the_hardware_when_its_context_is_resumed;
}

fn power(rig: &Rig, state: DEVICE_POWER_STATE) {
    let status = ddi!(rig.system, DxgkDdiSetPowerState, rig.system.adapter, DISPLAY_ADAPTER_HW_ID, state, 0);
    assert_eq!(status, STATUS_SUCCESS, "this DDI may not fail");
}

fn registers(rig: &Rig) -> Vec<u64> {
    REGISTERS.iter().map(|register| rig.system.get(register.offset & !7)).collect()
}

fn clock(rig: &Rig) -> DXGK_GPUCLOCKDATA {
    let mut data = DXGK_GPUCLOCKDATA::zeroed();
    let status =
        level(DISPATCH_LEVEL, || ddi!(rig.system, DxgkDdiCalibrateGpuClock, rig.system.adapter, 0, 0, &raw mut data));
    assert_eq!(status, STATUS_SUCCESS);
    data
}

fn outside_d0_no_register_is_written_and_what_needs_the_device_is_refused_by_name(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x9000, 0);
    rig.root(context);
    let (queue, doorbell) = rig.user_queue(context, 1);
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    ensure_eq!(rig.suspend(context, 1), STATUS_PENDING);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD3);
    ensure_eq!(rig.system.get(registers::CONTROL) as u32, 0);
    let (before, held) = (registers(&rig), allocations(case));
    ensure_eq!(rig.connect(doorbell).0, STATUS_DEVICE_REMOVED);
    ensure!(rig.suspend(context, 2).is_success());
    let resume = DXGKARG_RESUMECONTEXT { hContext: context };
    ensure_eq!(ddi!(rig.system, DxgkDdiResumeContext, rig.system.adapter, &raw const resume), STATUS_SUCCESS);
    let fstate = level(DISPATCH_LEVEL, || ddi!(rig.system, DxgkDdiSetPowerComponentFState, rig.system.adapter, 1, 1));
    ensure_eq!(fstate, STATUS_SUCCESS, "the node is told in D0");
    let notify = DXGKARG_NOTIFYWORKSUBMISSION { hHwQueue: queue, ..DXGKARG_NOTIFYWORKSUBMISSION::zeroed() };
    let _ = ddi!(rig.system, DxgkDdiNotifyWorkSubmission, &raw const notify);
    let (first, second) = (clock(&rig), clock(&rig));
    ensure!(first.GpuClockCounter <= second.GpuClockCounter && first.CpuClockCounter <= second.CpuClockCounter);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD3);
    ensure_eq!(registers(&rig), before, "a register was written outside D0");
    ensure_eq!(allocations(case), held);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD0);
    ensure!(Control::from_bits(rig.system.get(registers::CONTROL) as u32).run());
    ensure!(rig.system.get(registers::CLOCK_SET) >= second.GpuClockCounter, "the clock goes on");
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    Ok(())
}

fn what_the_hardware_shares_with_the_driver_is_uncached_where_it_does_not_snoop(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    use DXGK_MEMORY_CACHING_TYPE as Caching;
    for (snoops, caching) in
        [(true, Caching::DXGK_MEMORY_CACHING_TYPE_CACHED), (false, Caching::DXGK_MEMORY_CACHING_TYPE_NON_CACHED)]
    {
        let mut system = System::added(case, ALL, 1);
        let caps = Caps::from_bits(system.get(registers::CAPS) as u32).with_non_coherent(!snoops);
        let rest = system.get(registers::CAPS) >> 32;
        system.set(registers::CAPS, u64::from(caps.into_bits()) | rest << 32);
        log(|log| log.caching.clear());
        ensure_eq!(system.start(), STATUS_SUCCESS);
        let asked = log(|log| log.caching.clone());
        ensure!(!asked.is_empty() && asked.iter().all(|asked| *asked == caching), "snoops: {snoops}, {asked:?}");
    }
    Ok(())
}

fn the_way_to_d3_and_back_holds_no_more_memory_than_before_and_may_be_told_twice(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x9000, 0);
    rig.root(context);
    let (_, doorbell) = rig.user_queue(context, 1);
    ensure_eq!(rig.suspend(context, 1), STATUS_PENDING);
    let before = allocations(case);
    for state in [
        DEVICE_POWER_STATE::PowerDeviceD3,
        DEVICE_POWER_STATE::PowerDeviceD3,
        DEVICE_POWER_STATE::PowerDeviceD0,
        DEVICE_POWER_STATE::PowerDeviceD0,
    ] {
        power(&rig, state);
        ensure_eq!(allocations(case), before, "{state:?}");
    }
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    Ok(())
}

fn f_states_of_declared_components_are_programmed_and_completed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let fstate = |component, state| {
        level(DISPATCH_LEVEL, || ddi!(rig.system, DxgkDdiSetPowerComponentFState, rig.system.adapter, component, state))
    };
    for (component, state) in [(2, 1), (2, 0), (0, 1)] {
        ensure_eq!(fstate(component, state), STATUS_SUCCESS);
        ensure_eq!(rig.system.get(registers::CMP_COMMAND) as u32, Command::SetNodePower as u32);
        let arguments = [rig.system.get(registers::CMP_ARG0), rig.system.get(registers::CMP_ARG1)];
        ensure_eq!(arguments, [u64::from(component), u64::from(state)]);
    }
    ensure_eq!(log(|log| std::mem::take(&mut log.completed_components)), [2, 2, 0]);
    // The transition to D3, of which the hardware is not told.
    let before = rig.system.get(registers::CMP_ARG1);
    for state in [1, 0] {
        ensure_eq!(fstate(3, state), STATUS_SUCCESS);
        ensure_eq!(rig.system.get(registers::CMP_ARG1), before);
    }
    ensure_eq!(log(|log| std::mem::take(&mut log.completed_components)), [3, 3]);
    for (component, state) in [(4, 1), (3, 2), (u32::MAX, 0), (0, 2)] {
        ensure_eq!(fstate(component, state), STATUS_INVALID_PARAMETER);
    }
    ensure!(log(|log| log.completed_components.is_empty()), "what was not begun is not completed");
    Ok(())
}

fn power_control_requests_are_known_or_not_supported(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    for (code, status) in [
        (GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START, STATUS_SUCCESS),
        (GUID_DXGKDDI_POWER_MANAGEMENT_STARTED, STATUS_SUCCESS),
        (GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED, STATUS_SUCCESS),
        (GUID_WDDM_INTERFACE_FEATURE, STATUS_NOT_SUPPORTED),
    ] {
        let (none, mut returned) = (null_mut(), 7usize);
        let (adapter, returned_at) = (rig.system.adapter, &raw mut returned);
        let answer = ddi!(
            rig.system,
            DxgkDdiPowerRuntimeControlRequest,
            adapter,
            &raw const code,
            none,
            0,
            none,
            0,
            returned_at,
        );
        ensure_eq!((answer, returned), (status, 0));
    }
    Ok(())
}

fn low_power_states_stop_the_scheduler_and_d0_starts_the_event_ring_over(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    let power = |state| ddi!(rig.system, DxgkDdiSetPowerState, rig.system.adapter, DISPLAY_ADAPTER_HW_ID, state, 0);
    ensure_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    rig.system.retire(0, 1, 1);
    ensure_eq!(power(DEVICE_POWER_STATE::PowerDeviceD3), STATUS_SUCCESS);
    ensure_eq!(rig.system.get(registers::CONTROL) as u32, 0);
    ensure_eq!(reports(), [completed(0, 1)], "what happened before is told");
    ensure_eq!(rig.system.ring_pointers(), [1, 1]);
    ensure_eq!(power(DEVICE_POWER_STATE::PowerDeviceD0), STATUS_SUCCESS);
    ensure_eq!(rig.system.ring_pointers(), [0, 0], "the device counts from zero when RUN is set");
    ensure!(Control::from_bits(rig.system.get(registers::CONTROL) as u32).run());
    ensure_eq!(rig.submit(context, 2, 16), STATUS_SUCCESS);
    rig.system.retire(0, 2, 1);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(0, 2)]);
    Ok(())
}

fn a_queue_is_given_back_to_the_hardware_when_its_context_is_resumed(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    rig.user_queue(context, 1);
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD3);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD0);
    let named = |rig: &Rig| [registers::CMP_COMMAND, registers::CMP_ARG0].map(|at| rig.system.get(at));
    rig.system.set(registers::CMP_ARG0, 77);
    ensure!(named(&rig) != [Command::MapQueue as u64, 3], "the queue was mapped before its context was resumed");
    let resume = DXGKARG_RESUMECONTEXT { hContext: context };
    ensure_eq!(ddi!(rig.system, DxgkDdiResumeContext, rig.system.adapter, &raw const resume), STATUS_SUCCESS);
    ensure_eq!(named(&rig), [Command::ResumeQueue as u64, 3], "the last command: queue");
    ensure!(QueueFlags::from_bits(rig.descriptor(3).flags).suspended(), "it was mapped at its first entry");
    Ok(())
}
