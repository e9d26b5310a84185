//! A driver image that makes a mistake: what the bugcheck says, and that the process goes on.
//!
//! The image is `tests/images/faulty`, which `cargo xtask pe` builds. The line of each mistake there ends with its name as a mark.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dxgkrnl::verifier::{Bugcheck, CodeLocation, SpecialPool};
use dxgkrnl::{DriverImage, ImageError, LoadError, Machine, MachineConfig};
use object::{Object, ObjectSection};
use wddm_ddi::status::{STATUS_OBJECT_NAME_NOT_FOUND, STATUS_UNSUCCESSFUL};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a member of the workspace").to_owned()
}

/// The image or its PDB. Its absence is a failure, not a reason to pass.
fn built(extension: &str) -> Vec<u8> {
    let path = repository().join("target/pe/test/faulty").with_extension(extension);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", path.display()))
}

/// Number of the line of the image's sources that ends with this mark.
fn line_of(mark: &str) -> u32 {
    let end = format!("// {mark}");
    let path = repository().join("tests/images/faulty/src/mistakes.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let lines: Vec<u32> =
        (1..).zip(source.lines()).filter(|(_, line)| line.ends_with(&end)).map(|(number, _)| number).collect();
    assert_eq!(lines.len(), 1, "lines with the mark {mark}");
    lines[0]
}

fn machine(special_pool: SpecialPool) -> Machine {
    Machine::new(MachineConfig { ram: 64 << 20, special_pool, ..MachineConfig::default() }).unwrap()
}

fn load(machine: &Machine, name: &str, bytes: Vec<u8>) -> Result<(), LoadError> {
    let image = DriverImage::Pe { name: name.into(), bytes, symbols: Some(built("pdb")) };
    machine.load_driver(image).map(drop)
}

/// Lets the driver make a mistake on a new machine; then the process still boots another.
fn stop(name: &str, special_pool: SpecialPool) -> Bugcheck {
    let stopped = machine(special_pool);
    let error = load(&stopped, name, built("sys")).expect_err("the image never registers");
    let bugcheck = stopped.bugcheck().unwrap_or_else(|| panic!("{name}: the machine goes on: {error}"));
    // What is only found when the driver is gone is not DriverEntry's result.
    let results = [LoadError::Stopped(Some(bugcheck.clone())), LoadError::Entry(STATUS_UNSUCCESSFUL)];
    assert!(results.contains(&error), "{name}: {error}");
    assert!(load(&stopped, "print", built("sys")).is_err(), "{name}: a stopped machine loads nothing");
    let next = machine(special_pool);
    assert_eq!(load(&next, "print", built("sys")), Err(LoadError::Entry(STATUS_UNSUCCESSFUL)), "{name}");
    assert_eq!(next.bugcheck(), None, "{name}");
    bugcheck
}

/// Expected value of a bug check's parameter.
#[derive(Clone, Copy, Debug)]
enum Parameter {
    Is(u64),
    /// Address of the instruction that is the place.
    Code,
    /// Some address in memory of the driver, at this offset in its page if one is given.
    Memory,
}

use Parameter::{Code, Is, Memory};

const ACCESS_VIOLATION: Parameter = Is(0xc000_0005);
const NONE: Parameter = Is(0);
const READ: Parameter = Is(0);
const WRITE: Parameter = Is(1);
const EXECUTE: Parameter = Is(8);
const WILD: Parameter = Is(0x7fff_ffff_f123);
const TAG: u64 = u32::from_le_bytes(*b"Flty") as u64;

struct Case {
    name: &'static str,
    code: u32,
    parameters: [Parameter; 4],
    /// Mark of the line, if it is not the name.
    mark: Option<&'static str>,
}

const fn case(name: &'static str, code: u32, parameters: [Parameter; 4]) -> Case {
    Case { name, code, parameters, mark: None }
}

const fn late(name: &'static str, mark: &'static str, code: u32, parameters: [Parameter; 4]) -> Case {
    Case { name, code, parameters, mark: Some(mark) }
}

/// Mistakes whose place is the marked line, on ordinary pool.
const CASES: &[Case] = &[
    case("read-null", 0x1e, [ACCESS_VIOLATION, Code, READ, Is(8)]),
    case("write-null", 0x1e, [ACCESS_VIOLATION, Code, WRITE, NONE]),
    case("call-null", 0x1e, [ACCESS_VIOLATION, NONE, EXECUTE, NONE]),
    case("null-at-dispatch", 0xd1, [NONE, Is(2), WRITE, Code]),
    case("wild-pointer", 0x50, [WILD, WRITE, Code, NONE]),
    case("kernel-address", 0x50, [Is(0xffff_8000_0000_1000), READ, Code, NONE]),
    case("non-canonical", 0x1e, [ACCESS_VIOLATION, Code, NONE, Is(u64::MAX)]),
    case("misaligned", 0x1e, [ACCESS_VIOLATION, Code, NONE, Is(u64::MAX)]),
    case("null-in-service", 0x1e, [ACCESS_VIOLATION, Memory, WRITE, NONE]),
    case("write-code", 0xbe, [Memory, NONE, NONE, NONE]),
    case("write-constant", 0xbe, [Memory, NONE, NONE, NONE]),
    case("run-data", 0xfc, [Memory, NONE, NONE, NONE]),
    case("divide", 0x1e, [Is(0xc000_0094), Code, NONE, NONE]),
    case("breakpoint", 0x1e, [Is(0x8000_0003), Code, NONE, NONE]),
    case("undefined", 0x1e, [Is(0xc000_001d), Code, NONE, NONE]),
    case("privileged", 0x1e, [Is(0xc000_0096), Code, NONE, NONE]),
    case("bugcheck", 0xdead_beef, [Is(1), Is(2), Is(3), Is(4)]),
    case("lock-twice", 0xf, [Memory, NONE, NONE, NONE]),
    case("free-twice", 0xc4, [Is(0x13), NONE, Memory, NONE]),
    case("wrong-tag", 0xc2, [Is(0xa), Memory, Is(TAG), Is(TAG + 1)]),
    case("overrun", 0x19, [Is(0x21), Memory, Is(100), Is(1)]),
    late("overrun-page", "overrun-page, found late", 0x19, [Is(0x21), Memory, Is(112), Is(1)]),
    late("underrun", "underrun, found late", 0x19, [Is(0x20), Memory, Memory, NONE]),
];

/// Mistakes with pool that special pool finds, with one end of a block or the other at a page that cannot be accessed.
const VERIFY_END: &[Case] = &[
    case("overrun-page", 0xd6, [Memory, WRITE, Code, NONE]),
    // 12 bytes behind the block are left of its page.
    case("overrun", 0xc1, [Memory, Memory, NONE, Is(0x24)]),
    late("underrun", "underrun, found late", 0xc1, [Memory, Memory, NONE, Is(0x23)]),
    case("use-freed", 0xd5, [Memory, WRITE, Code, NONE]),
    case("read-freed", 0xd5, [Memory, READ, Code, NONE]),
    case("free-twice", 0xc4, [Is(0x13), NONE, Memory, NONE]),
    case("wrong-tag", 0xc2, [Is(0xa), Memory, Is(TAG), Is(TAG + 1)]),
];
const VERIFY_START: &[Case] = &[
    case("underrun", 0xd6, [Memory, WRITE, Code, NONE]),
    case("overrun", 0xc1, [Memory, Memory, NONE, Is(0x24)]),
    late("overrun-page", "overrun-page, found late", 0xc1, [Memory, Memory, NONE, Is(0x24)]),
    case("use-freed", 0xd5, [Memory, WRITE, Code, NONE]),
];

/// The place of a bugcheck: in this module, in code.
fn place<'a>(name: &str, bugcheck: &'a Bugcheck) -> &'a CodeLocation {
    let place = bugcheck.place.as_deref().unwrap_or_else(|| panic!("{name}: no place: {bugcheck}"));
    assert_eq!(place.module, name);
    let image = built("sys");
    let file = object::read::pe::PeFile64::parse(&*image).unwrap();
    let text = file.section_by_name(".text").expect("code");
    let start = text.address() - file.relative_address_base();
    assert!((start..start + text.size()).contains(&u64::from(place.rva)), "{name}: {bugcheck}");
    place
}

fn check(case: &Case, special_pool: SpecialPool) {
    let name = case.name;
    let bugcheck = stop(name, special_pool);
    assert_eq!(bugcheck.code, case.code, "{name}: {bugcheck}");
    let place = place(name, &bugcheck);
    for (index, (found, wanted)) in bugcheck.parameters.into_iter().zip(case.parameters).enumerate() {
        let fits = match wanted {
            Is(value) => found == value,
            // Images begin at a page.
            Code => found & 0xfff == u64::from(place.rva) & 0xfff,
            Memory => (0x1_0000..0x7fff_ffff_f000).contains(&found),
        };
        assert!(fits, "{name}: parameter {} is {wanted:?}: {bugcheck}", index + 1);
    }
    let function = place.function.as_deref().unwrap_or("?");
    assert!(function.ends_with(&format!("::{}()", name.replace('-', "_"))), "{name}: {bugcheck}");
    assert!(place.file.as_deref().is_some_and(|file| file.ends_with("mistakes.rs")), "{name}: {bugcheck}");
    assert_eq!(place.line, Some(line_of(case.mark.unwrap_or(name))), "{name}: {bugcheck}");
}

#[test]
fn each_mistake_is_a_bugcheck_at_its_line() {
    for case in CASES {
        check(case, SpecialPool::Off);
    }
}

#[test]
fn special_pool_finds_overruns_and_uses_of_freed_blocks_at_the_instruction() {
    for case in VERIFY_END {
        check(case, SpecialPool::VerifyEnd);
    }
}

#[test]
fn special_pool_at_the_start_finds_underruns_at_the_instruction() {
    for case in VERIFY_START {
        check(case, SpecialPool::VerifyStart);
    }
}

#[test]
fn a_stack_that_is_used_up_is_a_double_fault_in_the_function_that_did_it() {
    let bugcheck = stop("stack", SpecialPool::Off);
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x7f, 8), "{bugcheck}");
    let place = place("stack", &bugcheck);
    assert!(place.function.as_deref().is_some_and(|function| function.contains("::dig(")), "{bugcheck}");
    let end = line_of("dig");
    assert!(place.line.is_some_and(|line| (end - 4..=end).contains(&line)), "{bugcheck}");
}

#[test]
fn ordinary_pool_finds_a_write_to_a_freed_block_when_the_driver_is_gone() {
    let bugcheck = stop("use-freed", SpecialPool::Off);
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x19, 0xf), "{bugcheck}");
    assert!(bugcheck.reason.contains("8 bytes into a block with tag 'Flty'"), "{bugcheck}");
}

#[test]
fn pool_that_is_left_is_told_by_tag() {
    for mode in [SpecialPool::Off, SpecialPool::VerifyEnd] {
        let bugcheck = stop("leak", mode);
        assert_eq!((bugcheck.code, bugcheck.parameters), (0xc4, [0x62, bugcheck.parameters[1], 0, 2]), "{bugcheck}");
        assert!(bugcheck.reason.contains("'Flty' 1024 bytes in 2 blocks"), "{bugcheck}");
    }
}

#[test]
fn what_is_left_raised_or_held_at_return_is_told() {
    let bugcheck = stop("raise-irql", SpecialPool::Off);
    assert_eq!((bugcheck.code, bugcheck.parameters), (0xc8, [0x2_0000, 0, 0, 0]), "{bugcheck}");
    assert!(bugcheck.reason.contains("DriverEntry"), "{bugcheck}");
    let bugcheck = stop("push-lock-held", SpecialPool::Off);
    assert_eq!(bugcheck.code, 0x113, "{bugcheck}");
    assert!(bugcheck.reason.starts_with("DriverEntry returned with push lock"), "{bugcheck}");
}

#[test]
fn a_fault_in_a_service_names_the_service() {
    let bugcheck = stop("null-in-service", SpecialPool::Off);
    assert!(bugcheck.reason.contains("memset with a bad pointer of driver null-in-service"), "{bugcheck}");
}

/// Services that take pointers, and what the reason names them as.
const POINTERS: &[&str] = &[
    "memcpy",
    "memcpy-from",
    "memmove",
    "memset",
    "memcmp",
    "KeAcquireSpinLockRaiseToDpc",
    "KeReleaseSpinLock",
    "ExAcquirePushLockExclusiveEx",
    "DbgPrintEx",
    "DbgPrintEx-text",
    "KeQueryPerformanceCounter",
    "RtlInitUnicodeString",
    "RtlInitUnicodeString-text",
    "ZwLoadDriver",
    "ZwLoadDriver-text",
    "IoGetDeviceObjectPointer",
    "IoGetDeviceObjectPointer-file",
    "KeInitializeEvent",
    "KeWaitForSingleObject",
    "IofCallDriver-output",
    "IofCallDriver-status",
    "DxgkInitialize",
    "DxgkInitialize-path",
];

/// Services that know what they gave out and follow no pointer.
const TOKENS: &[(&str, u32)] = &[
    ("ExFreePoolWithTag", 0xc4),
    ("ExReleasePushLockExclusiveEx", 0x113),
    ("MmGetPhysicalAddress", 0x113),
    ("ObfDereferenceObject", 0x113),
    ("IofCallDriver", 0x113),
];

#[test]
fn a_bad_pointer_passed_to_a_service_is_a_bugcheck_at_the_call() {
    for service in POINTERS {
        for kind in ["wild", "kernel"] {
            let name = format!("{kind}-{service}");
            let bugcheck = stop(&name, SpecialPool::Off);
            let level = if *service == "KeReleaseSpinLock" { 0xa } else { 0x50 };
            assert_eq!(bugcheck.code, level, "{name}: {bugcheck}");
            let exported = service.split('-').next().unwrap();
            let told = format!("{exported} with a bad pointer of driver {name}");
            assert!(bugcheck.reason.starts_with(&told), "{name}: {bugcheck}");
            place(&name, &bugcheck);
        }
    }
    for (service, code) in TOKENS {
        for kind in ["null", "wild", "kernel"] {
            let name = format!("{kind}-{service}");
            let bugcheck = stop(&name, SpecialPool::Off);
            assert_eq!(bugcheck.code, *code, "{name}: {bugcheck}");
            place(&name, &bugcheck);
        }
    }
}

#[test]
fn null_passed_to_a_service_is_refused_or_a_bugcheck() {
    for service in POINTERS {
        let machine = machine(SpecialPool::Off);
        let error = load(&machine, &format!("null-{service}"), built("sys")).expect_err("never registers");
        match machine.bugcheck() {
            Some(bugcheck) => assert!([0x1e, 0x113, 0xd1, 0xa].contains(&bugcheck.code), "{service}: {bugcheck}"),
            None if *service == "DxgkInitialize" => {
                assert_eq!(error, LoadError::NullArgument("DriverInitializationData"));
            }
            None if *service == "DxgkInitialize-path" => assert_eq!(error, LoadError::NullArgument("RegistryPath")),
            None => assert_eq!(error, LoadError::Entry(STATUS_UNSUCCESSFUL), "{service}"),
        }
    }
}

#[test]
fn a_bugcheck_reads_as_one_line_with_its_place() {
    let bugcheck = stop("read-null", SpecialPool::Off);
    let line = line_of("read-null");
    let text = bugcheck.to_string();
    assert!(text.starts_with("KMODE_EXCEPTION_NOT_HANDLED 0x1E (0xC0000005, 0x"), "{text}");
    assert!(text.contains(" in read-null+0x") && text.ends_with(&format!("mistakes.rs:{line})")), "{text}");
}

/// Loads a driver that loops in its DriverEntry; then the process still boots another.
fn loops(name: &str) -> Bugcheck {
    let config = MachineConfig { ram: 64 << 20, driver_limit: Duration::from_secs(2), ..MachineConfig::default() };
    let stopped = Machine::new(config).unwrap();
    let error = load(&stopped, name, built("sys")).expect_err("the image never registers");
    let LoadError::Stopped(Some(bugcheck)) = error else { panic!("{name}: {error}") };
    let next = machine(SpecialPool::Off);
    assert_eq!(load(&next, "print", built("sys")), Err(LoadError::Entry(STATUS_UNSUCCESSFUL)), "{name}");
    let told = format!("DriverEntry of driver {name} has not returned ");
    assert!(bugcheck.reason.starts_with(&told), "{bugcheck}");
    let function = place(name, &bugcheck).function.as_deref().unwrap_or("?");
    assert!(function.ends_with(&format!("::{}()", name.replace('-', "_"))), "{bugcheck}");
    bugcheck
}

#[test]
fn a_driver_entry_that_loops_is_interrupted_at_its_line() {
    let bugcheck = loops("loop-in-entry");
    assert_eq!((bugcheck.code, &bugcheck.parameters[1..]), (0xea, &[0, 0, 1][..]), "{bugcheck}");
    assert_eq!(place("loop-in-entry", &bugcheck).line, Some(line_of("loop-in-entry")), "{bugcheck}");
    let bugcheck = loops("loop-at-dispatch");
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x133, [1, 10, 0, 0]), "{bugcheck}");
    assert_eq!(place("loop-at-dispatch", &bugcheck).line, Some(line_of("loop-at-dispatch")), "{bugcheck}");
    assert!(bugcheck.reason.ends_with("at IRQL 2"), "{bugcheck}");
}

#[test]
fn a_driver_that_is_in_the_kernel_nearly_all_the_time_is_ended_between_two_services() {
    let bugcheck = loops("loop-in-service");
    assert_eq!(bugcheck.code, 0xea, "{bugcheck}");
}

#[test]
fn without_symbols_the_module_and_offset_remain() {
    let machine = machine(SpecialPool::Off);
    let image = DriverImage::Pe { name: "read-null".into(), bytes: built("sys"), symbols: None };
    assert!(machine.load_driver(image).is_err());
    let bugcheck = machine.bugcheck().unwrap();
    let place = place("read-null", &bugcheck);
    assert_eq!((&place.function, &place.file, place.line), (&None, &None, None));
}

#[test]
fn what_the_driver_prints_is_in_the_log() {
    let machine = machine(SpecialPool::Off);
    assert_eq!(load(&machine, "print", built("sys")), Err(LoadError::Entry(STATUS_UNSUCCESSFUL)));
    assert!(machine.debug_log().contains(&"print: the driver says this".to_owned()), "{:?}", machine.debug_log());
    assert_eq!(load(&machine, "nobody", built("sys")), Err(LoadError::Entry(STATUS_OBJECT_NAME_NOT_FOUND)));
}

#[test]
fn imports_that_nobody_provides_are_all_named_at_load() {
    let mut bytes = built("sys");
    for (name, changed) in [("\0KeBugCheckEx\0", "\0KeBugCheckXx\0"), ("\0ExAllocatePo", "\0ZzAllocatePo")] {
        let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).expect("the import's name");
        bytes[at..at + name.len()].copy_from_slice(changed.as_bytes());
    }
    let machine = machine(SpecialPool::Off);
    let error = load(&machine, "print", bytes);
    let Err(LoadError::Image(ImageError::UnresolvedImports { mut first, all })) = error else {
        panic!("{error:?}");
    };
    first.sort();
    assert_eq!((first, all), (vec!["ntoskrnl.exe!KeBugCheckXx".into(), "ntoskrnl.exe!ZzAllocatePool2".into()], 2));
    assert_eq!(machine.bugcheck(), None, "no code of it ran");
}
