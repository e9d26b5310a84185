//! Exceptions of a driver image: what its handlers make of them, and what stops the machine.
//!
//! The image is `tests/images/handlers`, in C, which clang and lld build.

use std::path::Path;
use std::process::Command;

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{DriverImage, LoadError, Machine, MachineConfig};
use wddm_ddi::status::NTSTATUS;

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask test` installs it"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The image, compiled with this optimisation, for a test.
fn built(test: &str, optimisation: &str) -> Vec<u8> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/images/handlers");
    let folder = std::env::temp_dir().join(format!("campanile-handlers-{}-{test}{optimisation}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source = |name: &str| sources.join(name).display().to_string();
    let (code, library) = (source("handlers.c"), source("kernel.def"));
    let flags = [
        "--target=x86_64-pc-windows-msvc",
        "-std=gnu11",
        "-fms-extensions",
        "-ffreestanding",
        "-fno-builtin",
        "-mno-red-zone",
        "-mno-stack-arg-probe",
        "-fasynchronous-unwind-tables",
    ];
    run(
        "clang",
        &[&flags[..], &[optimisation, "-Wall", "-Werror", "-c", &code, "-o", "handlers.obj"]].concat(),
        &folder,
    );
    run("llvm-dlltool", &["-m", "i386:x86-64", "-d", &library, "-l", "kernel.lib"], &folder);
    let link = ["/nologo", "/driver", "/subsystem:native", "/nodefaultlib", "/entry:DriverEntry", "/out:handlers.sys"];
    run("lld-link", &[&link[..], &["handlers.obj", "kernel.lib"]].concat(), &folder);
    let image = std::fs::read(folder.join("handlers.sys")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    image
}

/// What DriverEntry answers that does what `name` says, or what stops the machine.
fn answer(image: &[u8], name: &str) -> Result<u32, Bugcheck> {
    let machine = Machine::new(MachineConfig { ram: 64 << 20, ..MachineConfig::default() }).unwrap();
    let image = DriverImage::Pe { name: name.into(), bytes: image.to_vec(), symbols: None };
    let error = machine.load_driver(image).map(drop).expect_err("the image never registers");
    match (error, machine.bugcheck()) {
        (_, Some(bugcheck)) => Err(bugcheck),
        (LoadError::Entry(NTSTATUS(status)), None) => Ok(status as u32),
        (other, None) => panic!("{name}: {other}"),
    }
}

const ACCESS_VIOLATION: u32 = 0xc000_0005;

/// What each function of the image answers, but for the highest bit, which makes a failure of it.
const ANSWERS: &[(&str, u32)] = &[
    // The access was a write, and the address is told.
    ("told", 1 << 24 | 0x12_3450),
    // Both filters, innermost first; then the termination handler of the frame below; then the handler.
    ("order", 0x1234),
    // Termination handlers of 41 frames.
    ("deep", 41),
    // Registers of a caller that the frames below have saved and changed.
    ("preserved", 14_543_211),
    ("stepped_over", 5),
    ("probed_nothing", 1),
    ("again", 1000),
    // An exception in a handler is one of what is around it.
    ("in_handler", 0x12302),
    // One in a filter that handles it is over when the filter answers.
    ("in_filter", 0x1204),
    // The filter of the first, raising the second; the same filter, asked about the second as a nested one; a filter above; the termination handler of the first; the handler.
    ("nested", 0x123_4507),
    // The filter; the termination handler, raising the second; both filters, asked about it; the termination handler around the first; the handler.
    ("collided", 0x1234_5608),
    // Termination handlers of 13 frames, each once, and what the one of the eighth calls.
    ("collided_deep", (8 << 4) + 5),
    ("in_termination", 0x12_3405),
    ("nested_again", 200),
    ("read_it", ACCESS_VIOLATION),
    ("raised", 0xe000_1234),
    ("divided", 0xc000_0094),
    ("probed_misaligned", 0x8000_0002),
    ("probed_kernel", ACCESS_VIOLATION),
    ("probed_for_write", ACCESS_VIOLATION + 7),
    ("copied", ACCESS_VIOLATION + 3),
    ("locked", ACCESS_VIOLATION),
];

/// What stops the machine that no handler takes, or that is no exception: code of the bug check and its first parameter.
const STOPS: &[(&str, u32, u64)] = &[
    ("nobody", 0x50, 0x12_3450),
    ("nobody_raised", 0x1e, 0xe000_5678),
    ("nobody_nested", 0x1e, 0xe000_0007),
    // A filter that faults whenever it is asked, until the stack is used up.
    ("without_end", 0x50, 0x12_3450),
    ("of_kernel", 0x50, 0xffff_8000_0000_1000),
    ("at_dispatch", 0xd1, 0x12_3450),
    ("not_continuable", 0x1e, 0xe000_0003),
];

#[test]
fn what_nobody_handles_stops_the_machine_and_so_does_what_is_no_exception() {
    let image = built("stops", "-O2");
    for (name, code, first) in STOPS {
        let bugcheck = answer(&image, name).expect_err(name);
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (*code, *first), "{name}: {bugcheck}");
        assert!(bugcheck.place.is_some(), "{name}: the place of {bugcheck}");
    }
}

#[test]
fn a_driver_object_has_the_fields_of_windows_and_keeps_what_the_driver_stores() {
    let image = built("objects", "-O2");
    assert_eq!(answer(&image, "driver_fields"), Ok(7 | 1 << 31));
}

#[test]
fn handlers_take_exceptions_of_the_processor_and_of_services() {
    for optimisation in ["-O0", "-O2"] {
        let image = built("handlers", optimisation);
        for (name, expected) in ANSWERS {
            assert_eq!(answer(&image, name), Ok(*expected | 1 << 31), "{name} with {optimisation}");
        }
    }
}
