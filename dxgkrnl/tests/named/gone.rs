//! A thunk that is called after the machine or the adapter has stopped says so, and why: no function of the driver was called, so that none is to blame.
//! [ntstatus: STATUS_DEVICE_REMOVED; dispmprt: DXGKDDI_STOP_DEVICE, DXGKDDI_NOTIFY_SURPRISE_REMOVAL]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dxgkrnl::{Process, TdrSettings, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS};

use super::minimal::queue::call;
use super::minimal::{Bench, Mutant, SOUND};
use super::packet_engine::app::App;
use super::packet_engine::{MACHINES, Machine, completed};

/// A process with a device, and lines that were logged so far.
struct Program {
    bench: Bench,
    luid: LUID,
    process: Arc<Process>,
    device: D3DKMT_HANDLE,
    seen: usize,
}

impl Program {
    fn new(mutant: Mutant) -> Self {
        let bench = Bench::new(mutant).unwrap();
        let luid = bench.start().unwrap();
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter;
        let device = call(thunks().D3DKMTCreateDevice, args).unwrap().hDevice;
        drop(attached);
        let seen = bench.machine.debug_log().len();
        Self { bench, luid, process, device, seen }
    }

    /// Makes an allocation, and tells how that ended.
    fn allocates(&self) -> NTSTATUS {
        let attached = self.process.attach();
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        let mut create = D3DKMT_CREATEALLOCATION { hDevice: self.device, NumAllocations: 1, ..Zeroed::zeroed() };
        create.u1.pAllocationInfo2 = &raw mut info;
        let made = call(thunks().D3DKMTCreateAllocation2, create);
        drop(attached);
        made.err().unwrap_or(STATUS_SUCCESS)
    }

    /// Lines of the log since the last question that tell of a thunk.
    fn told(&mut self) -> Vec<String> {
        let log = self.bench.machine.debug_log().split_off(self.seen);
        self.seen += log.len();
        log.into_iter().filter(|line| line.starts_with("D3DKMT")).collect()
    }
}

unsafe extern "win64" fn allocation_later(_: HANDLE, _: *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS {
    STATUS_PENDING
}

#[test]
fn a_thunk_of_a_machine_that_has_stopped_names_the_stop_and_no_function_of_the_driver() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiCreateAllocation = Some(allocation_later);
    let mut program = Program::new(Mutant { table, ..SOUND });
    assert_eq!(program.allocates(), STATUS_DEVICE_REMOVED);
    let stop = program.bench.machine.bugcheck().expect("the machine stops");
    let told = format!("D3DKMTCreateAllocation2 fails with {STATUS_DEVICE_REMOVED}: the machine has stopped: {stop}");
    assert_eq!(program.told(), [told], "the thunk during which it stopped");
    assert_eq!(program.allocates(), STATUS_DEVICE_REMOVED);
    assert_eq!(program.told(), [""; 0], "a process is told each reason once");
    let other = Process::new(&program.bench.machine, "other");
    let attached = other.attach();
    let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: program.luid, hAdapter: 0 };
    assert_eq!(call(thunks().D3DKMTOpenAdapterFromLuid, open).err(), Some(STATUS_DEVICE_REMOVED));
    let told = format!("D3DKMTOpenAdapterFromLuid fails with {STATUS_DEVICE_REMOVED}: the machine has stopped: {stop}");
    assert_eq!(program.told(), [told], "a thunk afterwards");
    drop(attached);
    other.exit();
    program.process.exit();
}

#[test]
fn a_thunk_of_an_adapter_that_was_stopped_says_that_it_was_stopped() {
    let mut program = Program::new(SOUND);
    program.bench.machine.remove(program.luid).unwrap();
    assert_eq!(program.allocates(), STATUS_DEVICE_REMOVED);
    let told = program.told();
    let [line] = told.as_slice() else { panic!("{told:?}") };
    for part in [
        format!("D3DKMTCreateAllocation2 fails with {STATUS_DEVICE_REMOVED}: "),
        format!("the adapter with LUID {:08x}:{:08x}", program.luid.HighPart, program.luid.LowPart),
        "was stopped by plug and play".to_owned(),
    ] {
        assert!(line.contains(&part), "{part:?}: {line}");
    }
    assert!(!line.contains("Ddi"), "{line}");
    program.process.exit();
    assert_eq!(program.bench.machine.bugcheck(), None);
}

unsafe extern "win64" fn takes_note(_: *mut c_void, _: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS {
    STATUS_SUCCESS
}

#[test]
fn a_thunk_of_an_adapter_that_was_pulled_out_says_that_it_was_pulled_out() {
    let mut program = Program::new(Mutant {
        caps: |caps| caps.SupportSurpriseRemoval = 1,
        table: |table| table.DxgkDdiNotifySurpriseRemoval = Some(takes_note),
        ..SOUND
    });
    program.bench.machine.surprise_remove(program.luid).unwrap();
    assert_eq!(program.allocates(), STATUS_DEVICE_REMOVED);
    let told = program.told();
    let [line] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        line.contains("D3DKMTCreateAllocation2 fails with") && line.contains("a function of it was pulled out"),
        "{line}"
    );
    assert!(!line.contains("Ddi"), "{line}");
    program.process.exit();
    assert_eq!(program.bench.machine.bugcheck(), None);
}

/// All ones, as a driver reads of what is not there.
const ONES: u32 = u32::MAX;

/// A machine with a packet under way whose function is pulled out, which nobody has noticed.
fn pulled_out_at_work(number: usize) -> (Machine, App) {
    let machine = Machine::start(&MACHINES[number]);
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    machine.engine.rendered(1);
    machine.bench.bus.gone.store(true, Ordering::Release);
    (machine, app)
}

/// The device of the program is lost as on an adapter that is gone, the machine goes on, and the log has the true story.
fn ends_as_a_removal(machine: &Machine, app: &App) {
    while app.state() != D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED {
        assert_eq!(machine.bench.machine.bugcheck(), None);
        machine.bench.machine.advance(TdrSettings::default().delay);
    }
    let refused = app.try_context(|_| ()).err();
    assert_eq!((refused, machine.bench.machine.bugcheck()), (Some(STATUS_DEVICE_REMOVED), None));
    let log = machine.bench.machine.debug_log();
    let told = |part: &str| assert!(log.iter().any(|line| line.contains(part)), "{part:?}: {log:#?}");
    told("the adapter does not answer any more, as after its function was pulled out");
    told("a function of it was pulled out [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]");
    app.process.exit();
}

#[test]
fn a_report_that_a_driver_makes_of_all_ones_is_no_broken_rule_but_the_removal() {
    let (machine, app) = pulled_out_at_work(2);
    machine.engine.report(completed(0, ONES));
    ends_as_a_removal(&machine, &app);
}

#[test]
fn a_reset_that_a_driver_makes_of_all_ones_is_no_broken_rule_but_the_removal() {
    let (machine, app) = pulled_out_at_work(3);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, ONES)]);
    ends_as_a_removal(&machine, &app);
    assert_eq!(machine.engine.reset_nodes(), [0_u32; 0], "no engine of a function that is gone is reset");
}

#[test]
fn a_stop_after_a_function_has_gone_says_first_that_it_has_gone() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiCreateAllocation = Some(allocation_later);
    let program = Program::new(Mutant { table, ..SOUND });
    program.bench.bus.gone.store(true, Ordering::Release);
    assert_eq!(program.allocates(), STATUS_DEVICE_REMOVED);
    let stop = program.bench.machine.bugcheck().expect("the machine stops");
    let (first, then) = (
        "minimal does not answer any more, as after its function was pulled out",
        "; after that DxgkDdiCreateAllocation answered",
    );
    assert!(stop.reason.starts_with(first) && stop.reason.contains(then), "{stop}");
    program.process.exit();
}
