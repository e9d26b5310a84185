//! Power components by the rules: what a driver may declare, and what it earns for breaking the order of a transition.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::minimal::bus::{MONITORED, REPORT};
use crate::minimal::{Adapter, Bench, Mutant, SOUND};
use dxgkrnl::bus::Bus;
use dxgkrnl::{Clock, MachineConfig, PowerSettings, Rescue, StartError};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

const NAME: &str = "component";

/// One engine with F0 and F1; the DDI is over when it returns.
pub(super) fn engine() -> DXGK_POWER_RUNTIME_COMPONENT {
    let mut info: DXGK_POWER_RUNTIME_COMPONENT = Zeroed::zeroed();
    info.StateCount = 2;
    info.States[1].TransitionLatency = 10;
    for state in &mut info.States[..2] {
        state.NominalPower = DXGK_FSTATE_UNKNOWN_POWER;
    }
    info.ComponentGuid.Data1 = 1;
    info.ComponentName[..NAME.len()].copy_from_slice(NAME.as_bytes());
    info
}

/// A component whose state F1 allows the device to leave D0.
fn d3_transition() -> DXGK_POWER_RUNTIME_COMPONENT {
    let mut info = engine();
    info.ComponentMapping.ComponentType = DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_D3_TRANSITION;
    info.ComponentGuid.Data1 = 2;
    info
}

pub(super) fn completing() -> DXGK_POWER_RUNTIME_COMPONENT {
    DXGK_POWER_RUNTIME_COMPONENT {
        Flags: DXGK_POWER_COMPONENT_FLAGS::new().with_DriverCompletesFStateTransition(true),
        ..engine()
    }
}

unsafe extern "win64" fn returns(_: *mut c_void, _: u32, _: u32) -> NTSTATUS {
    STATUS_SUCCESS
}

pub(super) fn interface(context: *mut c_void) -> (HANDLE, DXGKRNL_INTERFACE) {
    let adapter: &Adapter = crate::minimal::driver::adapter(context);
    (adapter.handle, adapter.interface)
}

unsafe extern "win64" fn completes(context: *mut c_void, component: u32, _: u32) -> NTSTATUS {
    let (handle, interface) = interface(context);
    // SAFETY: the handle is good.
    unsafe { interface.DxgkCbCompleteFStateTransition.unwrap()(handle, component) };
    STATUS_SUCCESS
}

unsafe extern "win64" fn completes_twice(context: *mut c_void, component: u32, state: u32) -> NTSTATUS {
    // SAFETY: as for one.
    let _ = unsafe { completes(context, component, state) };
    // SAFETY: as for one.
    unsafe { completes(context, component, state) }
}

unsafe extern "win64" fn refuses(_: *mut c_void, _: u32, _: u32) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

unsafe extern "win64" fn becomes_active(context: *mut c_void, component: u32, _: u32) -> NTSTATUS {
    let (handle, interface) = interface(context);
    // SAFETY: the handle is good.
    unsafe { interface.DxgkCbSetPowerComponentActive.unwrap()(handle, component) }
}

pub(super) fn managed(components: fn() -> Vec<DXGK_POWER_RUNTIME_COMPONENT>) -> Mutant {
    Mutant {
        caps: |caps| caps.SupportRuntimePowerManagement = 1,
        table: |table| table.DxgkDdiSetPowerComponentFState = Some(returns),
        components,
        ..SOUND
    }
}

/// A routine of DxgkCbSynchronizeExecution that says that the engine is idle.
unsafe extern "win64" fn report_idle(context: *mut c_void) -> BOOLEAN {
    let (handle, interface) = interface(context);
    let mut data: DXGKARGCB_NOTIFY_INTERRUPT_DATA = Zeroed::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE;
    data.u.EngineStateChange.NewState = DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_TRANSITION_TO_F1;
    // SAFETY: handle and data are good.
    unsafe { interface.DxgkCbNotifyInterrupt.unwrap()(handle, &raw const data) };
    1
}

/// In a DPC: the engine is idle, as far as the driver knows.
pub(super) fn idle(adapter: &mut Adapter) {
    let mut result = 0;
    let context = std::ptr::from_mut(adapter).cast();
    // SAFETY: handle, routine and place are good.
    let status = unsafe {
        adapter.interface.DxgkCbSynchronizeExecution.unwrap()(
            adapter.handle,
            Some(report_idle),
            context,
            0,
            &raw mut result,
        )
    };
    assert_eq!(status, STATUS_SUCCESS);
}

/// Raises an interrupt, after which the driver's DPC runs.
pub(super) fn interrupt(bench: &Bench) {
    bench.bus.register_write(0, REPORT, 4, u64::from(MONITORED));
}

pub(super) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "{what} never happened");
        std::thread::yield_now();
    }
}

fn refused(components: fn() -> Vec<DXGK_POWER_RUNTIME_COMPONENT>) -> String {
    match Bench::new(managed(components)).unwrap().start() {
        Err(StartError::PowerComponent { rule, .. }) => rule,
        other => panic!("{other:?}"),
    }
}

/// What stops the machine of a driver whose engine goes idle, with this F-state DDI.
fn stopped_by(
    component: fn() -> Vec<DXGK_POWER_RUNTIME_COMPONENT>,
    table: fn(&mut DRIVER_INITIALIZATION_DATA),
) -> String {
    let bench = Bench::new(Mutant { table, in_dpc: idle, ..managed(component) }).unwrap();
    bench.start().unwrap();
    interrupt(&bench);
    eventually("the bugcheck", || bench.machine.bugcheck().is_some());
    let bugcheck = bench.machine.bugcheck().unwrap();
    assert_eq!(bugcheck.code, 0x113);
    bugcheck.reason
}

#[test]
fn an_adapter_without_runtime_power_management_declares_nothing() {
    let bench = Bench::new(Mutant { components: || vec![engine()], ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    assert!(bench.machine.power_components(luid).is_empty());
    bench.machine.remove(luid).unwrap();
}

#[test]
fn an_idle_engine_enters_f1_whoever_completes_the_transition() {
    for (component, table) in [
        (
            (|| vec![engine()]) as fn() -> _,
            (|table| table.DxgkDdiSetPowerComponentFState = Some(returns)) as fn(&mut DRIVER_INITIALIZATION_DATA),
        ),
        (|| vec![completing()], |table| table.DxgkDdiSetPowerComponentFState = Some(completes)),
    ] {
        let bench = Bench::new(Mutant { table, in_dpc: idle, ..managed(component) }).unwrap();
        let luid = bench.start().unwrap();
        interrupt(&bench);
        eventually("F1", || bench.machine.power_components(luid)[0].fstate == 1);
        let state = bench.machine.power_components(luid)[0];
        assert_eq!((state.node, state.left_f0), (Some(0), state.wakes + 1));
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

#[test]
fn an_engine_that_is_said_to_be_idle_in_f1_is_named_and_stays_there() {
    let bench = Bench::new(Mutant { in_dpc: idle, ..managed(|| vec![engine()]) }).unwrap();
    let luid = bench.start().unwrap();
    interrupt(&bench);
    eventually("F1", || bench.machine.power_components(luid)[0].fstate == 1);
    let before = bench.machine.power_components(luid)[0];
    eventually("the name", || {
        interrupt(&bench);
        // The driver's interrupt routine goes on until nothing is left: it gets the time to come to that.
        std::thread::sleep(Duration::from_millis(1));
        bench.machine.debug_log().iter().any(|line| line.contains("engine 0 to be in transition to F1, where it is"))
    });
    assert_eq!(bench.machine.power_components(luid)[0], before);
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

/// A component for a memory segment. [d3dkmddi: DXGK_POWER_COMPONENT_MAPPING]
fn memory(segment: u32) -> DXGK_POWER_RUNTIME_COMPONENT {
    let mut info = engine();
    info.ComponentMapping.ComponentType = DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_MEMORY;
    info.ComponentMapping.u.MemoryDesc.SegmentID = segment;
    info.ComponentGuid.Data2 = 7;
    info
}

#[test]
fn components_of_memory_are_there_for_each_segment_beside_those_of_engines() {
    let bench = Bench::new(managed(|| vec![engine(), memory(2)])).unwrap();
    let luid = bench.start().unwrap();
    assert_eq!(bench.machine.power_components(luid).len(), 2);
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn a_component_that_breaks_a_rule_is_refused_by_name() {
    for (components, part) in [
        ((|| vec![DXGK_POWER_RUNTIME_COMPONENT { StateCount: 0, ..engine() }]) as fn() -> _, "0 F-states"),
        (|| vec![DXGK_POWER_RUNTIME_COMPONENT { StateCount: 9, ..engine() }], "9 F-states"),
        (
            || {
                let mut info = engine();
                info.ComponentMapping.ComponentType.0 = 8;
                vec![info]
            },
            "type 8",
        ),
        (
            || {
                let mut info = engine();
                info.ComponentMapping.u.EngineDesc.NodeIndex = 1;
                vec![info]
            },
            "NodeIndex 1 does not exist: there are 1 nodes",
        ),
        (
            || vec![DXGK_POWER_RUNTIME_COMPONENT { ProviderCount: 1, ..engine() }],
            "Providers has 0, which is not another",
        ),
        (
            || vec![DXGK_POWER_RUNTIME_COMPONENT { ProviderCount: u32::MAX, ..engine() }],
            "ProviderCount is 4294967295, and Providers has 16",
        ),
        (|| vec![DXGK_POWER_RUNTIME_COMPONENT { ComponentName: [b'x'; 40], ..engine() }], "no zero ends the 40 bytes"),
        (
            || vec![DXGK_POWER_RUNTIME_COMPONENT { Flags: DXGK_POWER_COMPONENT_FLAGS::from_bits(0x100), ..engine() }],
            "Flags has the reserved bits 0x100",
        ),
        (|| vec![engine(), engine()], "has the same engine or memory segment"),
        (|| vec![memory(0)], "MemoryDesc.SegmentID 0 does not exist: there are the segments 1 to 2"),
        (|| vec![memory(3)], "MemoryDesc.SegmentID 3 does not exist: there are the segments 1 to 2"),
        (
            || vec![memory(2), DXGK_POWER_RUNTIME_COMPONENT { ComponentGuid: engine().ComponentGuid, ..memory(2) }],
            "has the same engine or memory segment",
        ),
        (|| vec![engine(); 257], "257 components"),
        (|| vec![DXGK_POWER_RUNTIME_COMPONENT { StateCount: 1, ..d3_transition() }], "1 F-states of a D3 transition"),
        (
            || {
                vec![
                    d3_transition(),
                    DXGK_POWER_RUNTIME_COMPONENT { ComponentGuid: engine().ComponentGuid, ..d3_transition() },
                ]
            },
            "a D3 transition as well",
        ),
    ] {
        let rule = refused(components);
        assert!(rule.contains(part), "{part}: {rule}");
    }
}

/// An engine with three F-states, each of which is (TransitionLatency, ResidencyRequirement, NominalPower).
fn with_states(states: [(u64, u64, u32); 3]) -> DXGK_POWER_RUNTIME_COMPONENT {
    let mut info = DXGK_POWER_RUNTIME_COMPONENT { StateCount: 3, ..engine() };
    for (place, (latency, residency, power)) in info.States.iter_mut().zip(states) {
        *place = DXGK_POWER_RUNTIME_STATE {
            TransitionLatency: latency,
            ResidencyRequirement: residency,
            NominalPower: power,
        };
    }
    info
}

const UNKNOWN: u32 = DXGK_FSTATE_UNKNOWN_POWER;

#[test]
fn a_deeper_f_state_takes_longer_to_leave_and_uses_less_power() {
    for (components, rule) in [
        (
            (|| vec![with_states([(1, 0, 9), (10, 0, 5), (20, 0, 1)])]) as fn() -> _,
            "F0 has 1 as TransitionLatency, which must be 0",
        ),
        (
            || vec![with_states([(0, 1, 9), (10, 0, 5), (20, 0, 1)])],
            "F0 has 1 as ResidencyRequirement, which must be 0",
        ),
        (|| vec![with_states([(0, 0, 0), (10, 0, UNKNOWN), (20, 0, UNKNOWN)])], "F0 has 0 as NominalPower"),
        (|| vec![with_states([(0, 0, 9), (0, 0, 5), (20, 0, 1)])], "TransitionLatency of F1 is not larger"),
        (|| vec![with_states([(0, 0, 9), (10, 0, 5), (10, 0, 1)])], "TransitionLatency of F2 is not larger"),
        (|| vec![with_states([(0, 0, 9), (10, 0, 9), (20, 0, 1)])], "NominalPower of F1 is not smaller"),
        (|| vec![with_states([(0, 0, 9), (10, 0, UNKNOWN), (20, 0, 9)])], "NominalPower of F2 is not smaller"),
    ] {
        let broken = refused(components);
        assert!(broken.contains(rule), "{rule}: {broken}");
    }
    for sound in [
        (|| vec![with_states([(0, 0, 9), (10, 30, 5), (20, 30, 0)])]) as fn() -> _,
        || vec![with_states([(0, 0, UNKNOWN), (10, 0, 5), (20, 0, 1)])],
        || vec![with_states([(0, 0, 9), (10, 0, UNKNOWN), (20, 0, 8)])],
        // Elements behind the last state are no states.
        || vec![DXGK_POWER_RUNTIME_COMPONENT { StateCount: 1, ..with_states([(0, 0, 1), (0, 0, 2), (0, 0, 3)]) }],
    ] {
        let bench = Bench::new(managed(sound)).unwrap();
        let luid = bench.start().unwrap();
        bench.machine.remove(luid).unwrap();
    }
}

#[test]
fn a_missing_f_state_ddi_is_refused() {
    let mutant = Mutant { table: |_| (), ..managed(|| vec![engine()]) };
    match Bench::new(mutant).unwrap().start() {
        Err(StartError::MissingDdi { slot, .. }) => assert_eq!(slot, "DxgkDdiSetPowerComponentFState"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn completing_twice_stops_the_machine() {
    let reason =
        stopped_by(|| vec![completing()], |table| table.DxgkDdiSetPowerComponentFState = Some(completes_twice));
    assert!(reason.contains("completed already"), "{reason}");
}

#[test]
fn completing_what_is_over_when_the_ddi_returns_stops_the_machine() {
    let reason = stopped_by(|| vec![engine()], |table| table.DxgkDdiSetPowerComponentFState = Some(completes));
    assert!(reason.contains("without DriverCompletesFStateTransition"), "{reason}");
}

#[test]
fn a_transition_that_is_never_completed_stops_the_machine() {
    let reason = stopped_by(|| vec![completing()], |table| table.DxgkDdiSetPowerComponentFState = Some(returns));
    assert!(reason.contains("was not completed"), "{reason}");
}

#[test]
fn a_refused_transition_stops_the_machine() {
    let reason = stopped_by(|| vec![engine()], |table| table.DxgkDdiSetPowerComponentFState = Some(refuses));
    assert!(reason.contains("may not fail"), "{reason}");
}

#[test]
fn becoming_active_inside_a_transition_stops_the_machine_where_windows_would_wait_for_ever() {
    let reason = stopped_by(|| vec![engine()], |table| table.DxgkDdiSetPowerComponentFState = Some(becomes_active));
    assert!(reason.contains("inside DxgkDdiSetPowerComponentFState of component 0"), "{reason}");
}

/// In a DPC: calls one of the callbacks for components.
macro_rules! callback {
    ($name:ident($component:literal)) => {
        |adapter: &mut Adapter| {
            let Some(callback) = adapter.interface.$name else { unreachable!() };
            // SAFETY: the handle is good.
            let _ = unsafe { callback(adapter.handle, $component) };
        }
    };
}

#[test]
fn callbacks_without_cause_stop_the_machine() {
    for (in_dpc, part) in [
        (callback!(DxgkCbCompleteFStateTransition(0)) as fn(&mut Adapter), "no transition"),
        (callback!(DxgkCbCompleteFStateTransition(7)), "no such component"),
        (callback!(DxgkCbSetPowerComponentIdle(0)), "without DxgkCbSetPowerComponentActive"),
    ] {
        let bench = Bench::new(Mutant { in_dpc, ..managed(|| vec![completing()]) }).unwrap();
        bench.start().unwrap();
        interrupt(&bench);
        eventually("the bugcheck", || bench.machine.bugcheck().is_some());
        let reason = bench.machine.bugcheck().unwrap().reason;
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn an_active_component_does_not_rest_until_the_driver_lets_go() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    fn in_dpc(adapter: &mut Adapter) {
        let call = CALLS.fetch_add(1, Ordering::SeqCst);
        if call == 0 {
            callback!(DxgkCbSetPowerComponentActive(0))(adapter);
        }
        idle(adapter);
    }
    let bench = Bench::new(Mutant { in_dpc, ..managed(|| vec![engine()]) }).unwrap();
    let luid = bench.start().unwrap();
    for call in 1..=10 {
        interrupt(&bench);
        eventually("the DPC", || CALLS.load(Ordering::SeqCst) >= call);
    }
    let state = bench.machine.power_components(luid)[0];
    assert_eq!((state.fstate, state.left_f0), (0, 0));
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

/// "IRQL: PASSIVE_LEVEL" [d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE]
#[test]
fn becoming_active_above_passive_level_is_a_finding_and_the_component_is_active_all_the_same() {
    let in_dpc: fn(&mut Adapter) = |adapter| {
        callback!(DxgkCbSetPowerComponentActive(0))(adapter);
        callback!(DxgkCbSetPowerComponentIdle(0))(adapter);
    };
    let bench = Bench::new(Mutant { in_dpc, ..managed(|| vec![engine()]) }).unwrap();
    let luid = bench.start().unwrap();
    bench.machine.take_rescues();
    interrupt(&bench);
    let told = || bench.machine.debug_log().iter().map(ToString::to_string).find(|line| line.contains("at IRQL 2"));
    eventually("the finding", || told().is_some());
    let line = told().unwrap();
    for part in ["DxgkCbSetPowerComponentActive(0)", "PASSIVE_LEVEL", "[d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE]"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.take_rescues(), [(Rescue::MisusedCallback, 1)]);
    assert_eq!(bench.machine.bugcheck(), None, "Idle, which the page allows there, has an Active before it");
}

unsafe extern "win64" fn refuses_power(_: *mut c_void, _: u32, _: DEVICE_POWER_STATE, _: i32) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// What the driver was asked for: the F-state of a component, or the device's power state behind `DEVICE`.
static ASKED: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());
const DEVICE: u32 = u32::MAX;

unsafe extern "win64" fn notes_fstate(_: *mut c_void, component: u32, fstate: u32) -> NTSTATUS {
    ASKED.lock().unwrap().push((component, fstate));
    STATUS_SUCCESS
}

unsafe extern "win64" fn notes_device(_: *mut c_void, _: u32, state: DEVICE_POWER_STATE, _: i32) -> NTSTATUS {
    ASKED.lock().unwrap().push((DEVICE, state.0 as u32));
    STATUS_SUCCESS
}

#[test]
fn a_device_leaves_d0_at_run_time_only_by_its_d3_transition() {
    const IDLE: Duration = Duration::from_secs(10);
    const D0: (u32, u32) = (DEVICE, DEVICE_POWER_STATE::PowerDeviceD0.0 as u32);
    const D3: (u32, u32) = (DEVICE, DEVICE_POWER_STATE::PowerDeviceD3.0 as u32);
    let asked = |components| {
        ASKED.lock().unwrap().clear();
        let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| {
            table.DxgkDdiSetPowerComponentFState = Some(notes_fstate);
            table.DxgkDdiSetPowerState = Some(notes_device);
        };
        let power = PowerSettings { device_idle_time: Some(IDLE), ..PowerSettings::default() };
        let config = MachineConfig { ram: 64 << 20, clock: Clock::manual(), power, ..MachineConfig::default() };
        let bench = Bench::with_config(Mutant { table, ..managed(components) }, config).unwrap();
        let luid = bench.start().unwrap();
        for _ in 0..4 {
            bench.machine.advance(IDLE);
        }
        let slept = bench.machine.is_powered_down(luid);
        bench.machine.power_up(luid).unwrap();
        bench.machine.remove(luid).unwrap();
        (slept, ASKED.lock().unwrap().clone())
    };
    assert_eq!(asked(|| vec![engine()]), (false, vec![]));
    assert_eq!(asked(|| vec![engine(), d3_transition()]), (true, vec![(1, 1), D3, D0, (1, 0)]));
}

#[test]
fn a_refused_device_power_state_stops_the_machine() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiSetPowerState = Some(refuses_power);
    let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    assert!(matches!(bench.machine.power_down(luid), Err(dxgkrnl::PnpError::Stopped(_))));
    let bugcheck = bench.machine.bugcheck().unwrap();
    assert_eq!(bugcheck.code, 0x113);
    assert!(bugcheck.reason.contains("DxgkDdiSetPowerState") && bugcheck.reason.contains("may not fail"));
}

/// Calls of DxgkDdiSetPowerState: state and action.
static TOLD: Mutex<Vec<(i32, i32)>> = Mutex::new(Vec::new());

unsafe extern "win64" fn notes_power(_: *mut c_void, device: u32, state: DEVICE_POWER_STATE, action: i32) -> NTSTATUS {
    assert_eq!(device, DISPLAY_ADAPTER_HW_ID);
    TOLD.lock().unwrap().push((state.0, action));
    STATUS_SUCCESS
}

#[test]
fn the_driver_is_told_why_the_device_leaves_d0() {
    use dxgkrnl::SystemSleep;
    const D0: i32 = DEVICE_POWER_STATE::PowerDeviceD0.0;
    const D3: i32 = DEVICE_POWER_STATE::PowerDeviceD3.0;
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiSetPowerState = Some(notes_power);
    let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    bench.machine.power_down(luid).unwrap();
    bench.machine.power_down(luid).unwrap();
    bench.machine.power_up(luid).unwrap();
    bench.machine.power_up(luid).unwrap();
    bench.machine.sleep(SystemSleep::Standby).unwrap();
    assert!(bench.machine.is_powered_down(luid));
    // From one sleep of the machine into another: the device is in D0 in between, since they keep different things.
    bench.machine.sleep(SystemSleep::Hibernate).unwrap();
    bench.machine.remove(luid).unwrap();
    let told = TOLD.lock().unwrap().clone();
    assert_eq!(told, [(D3, 0), (D0, 0), (D3, 2), (D0, 0), (D3, 3), (D0, 0)]);
    assert_eq!(bench.machine.bugcheck(), None);
}
