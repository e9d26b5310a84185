//! A Windows before 24H2, which lacks the thunks of doorbells and native fences: the images are loaded all the same, what needs none of these thunks works, and what
//! needs one says which.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use campanile_conformance::report::Status;
use campanile_conformance::{Case, provide, registry};
use campanile_hlk::Skipped;
use dxgkrnl::Process;
use testbed::setup::{Feature, MachineOptions, System};
use testbed::user::{
    Adapter, Device, Error, Fence, Library, Node, Placement, Queue, QueueOptions, SubmissionModel, on_older_windows,
};
use wddm_ddi::kmt::{FurtherThunks, Thunks};

use crate::image::{DLL, built};

/// Thunks that the kit of Windows 11 24H2 declares and the one before does not.
const NEW: [&str; 7] = [
    "D3DKMTConnectDoorbell",
    "D3DKMTCreateDoorbell",
    "D3DKMTCreateNativeFence",
    "D3DKMTDestroyDoorbell",
    "D3DKMTGetNativeFenceLogDetail",
    "D3DKMTNotifyWorkSubmission",
    "D3DKMTOpenNativeFenceFromNtHandle",
];

/// A machine without some features.
fn machine(without: &[Feature]) -> System {
    let options = MachineOptions { without: without.to_vec(), ..MachineOptions::default() };
    System::boot(&options.system()).expect("the machine boots")
}

/// A device of the machine by the DLL, which first asks for its thunks on the older Windows.
fn device(system: &System, lacking: &[&'static str]) -> Device {
    let library = Library::load(Path::new(DLL.file), &built(DLL.file)).expect("no import is missing");
    let library: &'static Library = Box::leak(Box::new(library));
    let adapter = on_older_windows(lacking, || Adapter::open_luid_by(library, system.luid()));
    Device::new(&adapter.expect("the adapter opens")).expect("a device")
}

#[test]
fn the_dll_works_without_the_thunks_of_features_that_are_not_there() {
    for without in [vec![Feature::NativeFence], vec![Feature::HardwareScheduling, Feature::NativeFence]] {
        let system = machine(&without);
        let process = Process::new(system.machine(), "older");
        let _attached = process.attach();
        let device = device(&system, &NEW);
        let buffer = device.create_buffer(4096, Placement::System).expect("a buffer");
        let fence = Fence::new(&device, 0).expect("a monitored fence");
        let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).expect("a queue");
        assert_ne!(queue.model().expect("a model"), SubmissionModel::User, "{without:?}");
        queue.submit(|commands| commands.fill(buffer.gpu_address(), 4096, 0x0102_0304)).expect("submitted");
        queue.enqueue_signal(&fence, 7).expect("a signal of the system");
        fence.wait(7, None).expect("signalled");
        let mut bytes = [0; 4096];
        buffer.map().expect("mapped").read(0, &mut bytes).expect("read");
        assert!(bytes.chunks(4).all(|word| word == [4, 3, 2, 1]), "{without:?}");
    }
}

#[test]
fn the_dll_names_the_thunk_that_a_call_needs() {
    let system = machine(&[]);
    let process = Process::new(system.machine(), "older");
    let _attached = process.attach();
    let refused = |error: Error, name: &str| {
        assert!(matches!(error, Error::Dll { status: 256.., .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("this Windows does not export {name};")), "{error}");
    };
    let without = device(&system, &NEW);
    refused(Fence::new(&without, 0).err().expect("native fences are granted"), "D3DKMTCreateNativeFence");
    let options = QueueOptions { model: Some(SubmissionModel::User), ..QueueOptions::default() };
    let without = device(&system, &["D3DKMTCreateDoorbell"]);
    refused(Queue::new(&without, Node::Copy, options).err().expect("a doorbell is needed"), "D3DKMTCreateDoorbell");
}

/// The thunks of the operating-system side, as `hlk.exe` takes those of an older Windows.
fn older_thunks() {
    let address = |names: &[&str], words: &[usize], name: &str| {
        let place = names.iter().position(|known| *known == name).filter(|_| !NEW.contains(&name));
        place.map_or(std::ptr::null_mut(), |place| std::ptr::with_exposed_provenance_mut(words[place]))
    };
    // SAFETY: a table is as many function pointers as it has names.
    let words = unsafe { &*std::ptr::from_ref(dxgkrnl::thunks()).cast::<[usize; Thunks::NAMES.len()]>() };
    let find = |_: &_, name: &std::ffi::CStr| address(Thunks::NAMES, words, name.to_str().unwrap());
    // SAFETY: each function is found by its name in the table of which it is.
    let thunks = unsafe { Thunks::look_up::<Skipped>(find) };
    // SAFETY: as above.
    let words =
        unsafe { &*std::ptr::from_ref(dxgkrnl::further_thunks()).cast::<[usize; FurtherThunks::NAMES.len()]>() };
    let find = |_: &_, name: &std::ffi::CStr| address(FurtherThunks::NAMES, words, name.to_str().unwrap());
    // SAFETY: as above.
    let further = unsafe { FurtherThunks::look_up::<Skipped>(find) };
    provide(Box::leak(Box::new(thunks)), Box::leak(Box::new(further)));
}

/// Cases of these areas run as `hlk.exe` runs them, each in a process of its own: on the older Windows none fails, and one is skipped for a thunk if and only if it calls it.
#[test]
fn a_case_that_calls_a_missing_thunk_is_skipped_with_its_name_and_the_others_run() {
    older_thunks();
    let system = machine(&[]);
    let mut told = [0, 0];
    for area in ["Doorbell", "AdapterInformation", "NativeFence"] {
        for case in registry::cases().filter(|case| case.area == area) {
            let Some(of) = case.over_thunks_alone() else { continue };
            let process = Process::new(system.machine(), "older");
            let entered = Arc::clone(&process);
            let taken = Case::new(system.luid(), Arc::new(move || Box::new(entered.attach())));
            let report = campanile_hlk::run(case, of, taken, Duration::from_secs(60));
            process.exit();
            let reason = report.reason.unwrap_or_default();
            match report.status {
                Status::Failed => panic!("{}: {reason}", case.name),
                Status::Passed => told[0] += 1,
                Status::Skipped => {
                    let missing = NEW.iter().any(|name| reason.contains(&format!("does not export {name}")));
                    told[1] += usize::from(missing);
                }
            }
        }
    }
    assert!(told.iter().all(|count| *count > 5), "passed, skipped for a thunk: {told:?}");
}
