//! D-states: what the driver does with a device that is not in D0, and what it remembers.

use campanile_hw::registers::{self, Caps, Control, REGISTERS};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::status::*;

use crate::rig::Rig;
use crate::system::{ALL, System, allocations, ddi, level, log};

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

#[test]
fn outside_d0_no_register_is_written_and_what_needs_the_device_is_refused_by_name() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x9000, 0);
    rig.root(context);
    let (queue, doorbell) = rig.user_queue(context, 1);
    assert_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    assert_eq!(rig.suspend(context, 1), STATUS_PENDING);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD3);
    assert_eq!(rig.system.get(registers::CONTROL) as u32, 0);
    let (before, held) = (registers(&rig), allocations());
    assert_eq!(rig.connect(doorbell).0, STATUS_DEVICE_REMOVED);
    assert!(rig.suspend(context, 2).is_success());
    let resume = DXGKARG_RESUMECONTEXT { hContext: context };
    assert_eq!(ddi!(rig.system, DxgkDdiResumeContext, rig.system.adapter, &raw const resume), STATUS_SUCCESS);
    let fstate = level(DISPATCH_LEVEL, || ddi!(rig.system, DxgkDdiSetPowerComponentFState, rig.system.adapter, 1, 1));
    assert_eq!(fstate, STATUS_SUCCESS, "the node is told in D0");
    let notify = DXGKARG_NOTIFYWORKSUBMISSION { hHwQueue: queue, ..DXGKARG_NOTIFYWORKSUBMISSION::zeroed() };
    let _ = ddi!(rig.system, DxgkDdiNotifyWorkSubmission, &raw const notify);
    let (first, second) = (clock(&rig), clock(&rig));
    assert!(first.GpuClockCounter <= second.GpuClockCounter && first.CpuClockCounter <= second.CpuClockCounter);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD3);
    assert_eq!(registers(&rig), before, "a register was written outside D0");
    assert_eq!(allocations(), held);
    power(&rig, DEVICE_POWER_STATE::PowerDeviceD0);
    assert!(Control::from_bits(rig.system.get(registers::CONTROL) as u32).run());
    assert!(rig.system.get(registers::CLOCK_SET) >= second.GpuClockCounter, "the clock goes on");
    assert_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
}

#[test]
fn what_the_hardware_shares_with_the_driver_is_uncached_where_it_does_not_snoop() {
    use DXGK_MEMORY_CACHING_TYPE as Caching;
    for (snoops, caching) in
        [(true, Caching::DXGK_MEMORY_CACHING_TYPE_CACHED), (false, Caching::DXGK_MEMORY_CACHING_TYPE_NON_CACHED)]
    {
        let mut system = System::added(ALL, 1);
        let caps = Caps::from_bits(system.get(registers::CAPS) as u32).with_non_coherent(!snoops);
        let rest = system.get(registers::CAPS) >> 32;
        system.set(registers::CAPS, u64::from(caps.into_bits()) | rest << 32);
        log(|log| log.caching.clear());
        assert_eq!(system.start(), STATUS_SUCCESS);
        let asked = log(|log| log.caching.clone());
        assert!(!asked.is_empty() && asked.iter().all(|asked| *asked == caching), "snoops: {snoops}, {asked:?}");
    }
}

#[test]
fn the_way_to_d3_and_back_holds_no_more_memory_than_before_and_may_be_told_twice() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x9000, 0);
    rig.root(context);
    let (_, doorbell) = rig.user_queue(context, 1);
    assert_eq!(rig.suspend(context, 1), STATUS_PENDING);
    let before = allocations();
    for state in [
        DEVICE_POWER_STATE::PowerDeviceD3,
        DEVICE_POWER_STATE::PowerDeviceD3,
        DEVICE_POWER_STATE::PowerDeviceD0,
        DEVICE_POWER_STATE::PowerDeviceD0,
    ] {
        power(&rig, state);
        assert_eq!(allocations(), before, "{state:?}");
    }
    assert_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
}
