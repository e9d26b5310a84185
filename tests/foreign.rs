//! The program with somebody else's driver and function, as their maker uses it: `campanile hlk` and `campanile run` with the driver in C of `examples/miniport-c`,
//! as it is and with one function broken.

#[path = "foreign/answers.rs"]
mod answers;
#[path = "foreign/device_memory.rs"]
mod device_memory;
#[path = "foreign/hangs.rs"]
mod hangs;
#[path = "foreign/interrupts.rs"]
mod interrupts;
#[path = "foreign/mistakes.rs"]
mod mistakes;
#[path = "foreign/paging.rs"]
mod paging;
#[path = "foreign/power.rs"]
mod power;
#[path = "foreign/queues.rs"]
mod queues;
#[path = "foreign/resets.rs"]
mod resets;
#[path = "../kmt/tests/c/toy.rs"]
mod toy;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, thread};

use answers::{BROKEN_ANSWERS, CAPS, ENTRY, MEMORY, OBJECTS};
use device_memory::MEMORY_MISTAKES;
use interrupts::{LATE, UNUSABLE, WITH_LINE, WITH_MESSAGES, WITHOUT_INTERRUPT};
use mistakes::{BROKEN, BROKEN_TABLES, Broken, REFUSED, STOPPING, TABLES_IN_LOCAL_MEMORY};
use paging::BROKEN_PAGING;
use power::{BROKEN_POWER, WITH_COMPONENT};
use queues::{BROKEN_QUEUES, WITH_QUEUES};
use resets::{BROKEN_RESETS, STOPS_ANYWHERE};
use serde_json::Value;
use toy::{Function, build};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Says that something was not proved. Where everything must be, that is a failure.
fn absent(told: &str) {
    assert!(env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"), "{told}");
    eprintln!("{told}");
}

/// The driver, built from sources of its own, with its function.
struct Toy {
    folder: PathBuf,
    driver: PathBuf,
    function: Function,
}

/// Does `work` for each of `drivers`, ten at a time: most of it is waiting for a timeout of the contract. For every eighth only where
/// CAMPANILE_QUICK is set, as `cargo xtask test --quick` does and says.
fn some_at_a_time<Driver: Sync>(drivers: &[Driver], work: impl Fn(&Driver) + Sync) {
    let step = if env::var_os("CAMPANILE_QUICK").is_some() { 8 } else { 1 };
    let chosen: Vec<&Driver> = drivers.iter().step_by(step).collect();
    thread::scope(|scope| {
        for some in chosen.chunks(chosen.len().div_ceil(10)) {
            scope.spawn(|| some.iter().for_each(|driver| work(driver)));
        }
    });
}

impl Drop for Toy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Toy {
    /// The driver with `old` replaced by `new` in its source; `None` without the compiler.
    fn new(name: &str, old: &str, new: &str) -> Option<Self> {
        Self::of_version("WDDM3_2", name, old, new)
    }

    /// The driver with each of these replaced in its source.
    fn with_changes(name: &str, changes: &[(&str, &str)]) -> Option<Self> {
        Self::of_version_with_changes("WDDM3_2", name, changes)
    }

    /// The driver of a version of the interface with `old` replaced by `new`.
    fn of_version(version: &str, name: &str, old: &str, new: &str) -> Option<Self> {
        let changes: &[(&str, &str)] = if old.is_empty() { &[] } else { &[(old, new)] };
        Self::of_version_with_changes(version, name, changes)
    }

    fn of_version_with_changes(version: &str, name: &str, changes: &[(&str, &str)]) -> Option<Self> {
        let folder = env::temp_dir().join(format!("campanile-foreign-{}-{name}", std::process::id()));
        let example = folder.join("examples/miniport-c");
        fs::create_dir_all(&example).expect("a folder");
        for entry in fs::read_dir(root().join("examples/miniport-c")).expect("the example") {
            let from = entry.expect("a file").path();
            fs::copy(&from, example.join(from.file_name().expect("a name"))).expect("a copy");
        }
        // The script takes the headers from beside the example.
        fs::create_dir_all(folder.join("kmt")).expect("a folder");
        std::os::unix::fs::symlink(root().join("kmt/include"), folder.join("kmt/include")).expect("a link");
        let paths = ["toy.c", "toy_queues.c", "toy_function.py"].map(|file| example.join(file));
        let mut sources = paths.each_ref().map(|path| fs::read_to_string(path).expect("the source"));
        for (old, new) in changes {
            let places: usize = sources.iter().map(|source| source.matches(old).count()).sum();
            assert_eq!(places, 1, "{name}: {old:?} does not stand once in the driver and its function");
            sources = sources.map(|source| source.replace(old, new));
        }
        for (path, source) in paths.iter().zip(sources) {
            fs::write(path, source).expect("the source with a mistake");
        }
        let made = build(&example, &folder, "clang", version)
            .and_then(|driver| Ok((driver, Function::start(&example, &folder)?)));
        match made {
            Ok((driver, function)) => Some(Self { folder, driver, function }),
            Err(told) => {
                absent(&told);
                let _ = fs::remove_dir_all(&folder);
                None
            }
        }
    }

    fn command(&self, verb: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
        command.arg(verb).arg("--driver").arg(&self.driver).arg("--bus").arg(self.function.bus());
        command.args(["--user-mode-driver-name", "toy_umd.dll"]);
        command.args(arguments).output().expect("the command starts")
    }

    /// The report of the cases with this part of a name.
    fn cases(&self, filter: &str) -> Value {
        self.cases_within(filter, TIMEOUT)
    }

    /// The same, of cases that have so many seconds each.
    fn cases_within(&self, filter: &str, timeout: &str) -> Value {
        let described = self.folder.join("examples/miniport-c/toy.cases");
        let described = described.to_str().expect("a path of letters");
        let output =
            self.command("hlk", &["--json", "--filter", filter, "--private-data", described, "--timeout", timeout]);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Holds that nothing failed, and that nothing was skipped but what needs hardware scheduling or power components.
fn passes_but_for_hardware_queues(report: &Value, version: &str) {
    assert_eq!(report["failed"], 0, "{version}: {report}");
    assert!(report["passed"].as_u64() >= Some(25), "{version}: {report}");
    for case in report["cases"].as_array().expect("cases") {
        let reason = case["reason"].as_str().unwrap_or("hardware scheduling");
        let is_known = reason.contains("hardware scheduling") || reason.contains("power component");
        assert!(is_known, "{version}: {case}");
    }
}

#[test]
fn the_driver_in_c_with_hardware_queues_and_a_power_component_passes_every_case_for_any_driver_and_none_is_skipped() {
    let changes = [&[WITH_QUEUES][..], &WITH_COMPONENT].concat();
    let Some(toy) = Toy::of_version_with_changes(queues::VERSION, "queues", &changes) else { return };
    let report = toy.cases("AnyDriver.");
    assert_eq!((&report["failed"], &report["skipped"]), (&0.into(), &0.into()), "{report}");
    let cases = report["cases"].as_array().expect("cases");
    let of_queues = cases.iter().filter(|case| case.to_string().contains("DxgkDdiSubmitCommandToHwQueue")).count();
    assert!(report["passed"] == report["total"] && of_queues >= 11, "{of_queues}: {report}");
}

#[test]
fn the_driver_in_c_passes_every_case_for_any_driver_and_the_others_are_skipped_with_a_reason() {
    let Some(toy) = Toy::new("good", "", "") else { return };
    let report = toy.cases("AnyDriver.");
    passes_but_for_hardware_queues(&report, "WDDM3_2");
    let machine = &report["cases"][0]["machine"];
    assert!(
        machine["bus"].is_string() && machine["variant"].is_null(),
        "nothing is told of a function that others serve: {machine}"
    );
    let run = toy.command("run", &[]);
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("is started:"), "what was asked for is done: {told}");
    assert!(told.contains("node 0: other \"toy\", hardware contexts: no"), "{told}");
    let streamed = toy.command("run", &["README.md"]);
    assert_eq!(streamed.status.code(), Some(2), "files are nothing for its packets");
    let adapter = toy.cases("WDDM32.Adapter.");
    let few = adapter["passed"].as_u64() < Some(6);
    assert!(!few && adapter["failed"] == 0, "cases of thunks without packets are for every driver: {adapter}");
    let others = toy.cases("NativeFence.");
    assert_eq!((&others["failed"], &others["passed"]), (&0.into(), &0.into()), "{others}");
    let cases = others["cases"].as_array().expect("cases");
    assert!(!cases.is_empty() && cases.iter().all(|case| case["reason"].is_string()), "{others}");
}

/// Work that lets itself be preempted is no timeout, so that its commands may go on for ever. [timeout-detection-and-recovery]
#[test]
fn a_gpu_that_stops_commands_anywhere_passes_and_the_cases_of_commands_that_hang_are_skipped_with_its_granularity() {
    let Some(toy) = Toy::with_changes("stops-anywhere", STOPS_ANYWHERE) else { return };
    let report = toy.cases("AnyDriver.");
    assert_eq!(report["failed"], 0, "{report}");
    let cases = report["cases"].as_array().expect("cases");
    let finer = cases.iter().filter(|case| {
        case["reason"].as_str().is_some_and(|reason| reason.contains("ComputePreemptionGranularity is 500"))
    });
    let names: Vec<_> = finer.filter_map(|case| case["name"].as_str()?.rsplit('.').next()).collect();
    assert_eq!(names, ["HangCostsItsDevice", "ForcedTimeoutOfAnEngineEndsWhatHangs"], "{report}");
}

#[test]
fn a_copy_of_the_example_elsewhere_is_built_with_the_headers_of_this_repository() {
    let folder = env::temp_dir().join(format!("campanile-foreign-{}-copy", std::process::id()));
    let copy = folder.join("mine");
    fs::create_dir_all(&copy).expect("a folder");
    for entry in fs::read_dir(root().join("examples/miniport-c")).expect("the example") {
        let from = entry.expect("a file").path();
        fs::copy(&from, copy.join(from.file_name().expect("a name"))).expect("a copy");
    }
    let build = |headers: Option<&Path>| {
        let mut command = Command::new("sh");
        command.arg(copy.join("build.sh")).arg(folder.join("T")).env_remove("CAMPANILE_INCLUDE");
        headers.into_iter().for_each(|headers| _ = command.env("CAMPANILE_INCLUDE", headers));
        let output = command.output().expect("a shell");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, told) = build(None);
    assert!(code == Some(2) && told.contains("set CAMPANILE_INCLUDE to the path of kmt/include"), "{told}");
    if Command::new("clang").arg("--version").output().is_err() {
        return absent("no clang: the driver in C was not built");
    }
    let (code, told) = build(Some(&root().join("kmt/include")));
    assert!(code == Some(0) && folder.join("T/toy.sys").exists(), "{told}");
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_function_that_nobody_serves_is_told_once_before_the_cases() {
    let Some(toy) = Toy::new("unserved", "", "") else { return };
    let socket = toy.folder.join("nobody.sock");
    for arguments in [&["hlk", "--filter", "AnyDriver."][..], &["run"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
        command.args(arguments).arg("--driver").arg(&toy.driver);
        let output = command.arg("--bus").arg(format!("vfio-user={}", socket.display())).output().expect("it starts");
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(&format!("could not be reached: {}", socket.display())), "{told}");
        assert!(told.contains("Start the server of the driver's function") && told.contains("porting.md"), "{told}");
        assert!(told.lines().count() == 1 && !told.contains("AnyDriver"), "{told}");
    }
}

#[test]
fn each_of_several_sockets_is_an_adapter_of_the_driver() {
    let Some(toy) = Toy::new("two-functions", "", "") else { return };
    let beside = toy.folder.join("beside");
    fs::create_dir_all(&beside).expect("a folder");
    let other = Function::start(&toy.folder.join("examples/miniport-c"), &beside).expect("python3 was there before");
    let bus = format!("{},{}", toy.function.bus(), other.bus().trim_start_matches("vfio-user="));
    let described = toy.folder.join("examples/miniport-c/toy.cases");
    let told = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
        command.args(arguments).arg("--driver").arg(&toy.driver).arg("--bus").arg(&bus);
        if arguments[0] == "hlk" {
            command.arg("--private-data").arg(&described);
        }
        let output = command.args(["--user-mode-driver-name", "toy_umd.dll"]).output().expect("the command starts");
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{told}");
        told
    };
    let run = told(&["run", "--log"]);
    assert_eq!((run.matches("plugged in vfio-user=").count(), run.matches("toy: started").count()), (2, 2), "{run}");
    let cases = told(&["hlk", "--filter", "AnyDriver.Adapter"]);
    assert!(cases.contains(" 0 failed"), "{cases}");
}

/// What is looked at before the cases is what the first of them works with: a server may have one client and end.
#[test]
fn a_function_that_is_served_to_one_client_is_enough_for_one_case() {
    let Some(toy) = Toy::new("one-client", "", "") else { return };
    let once = toy.folder.join("examples/once");
    fs::create_dir_all(&once).expect("a folder");
    for name in ["toy.h", "toy_function.py"] {
        let text = fs::read_to_string(toy.folder.join("examples/miniport-c").join(name)).expect("a file");
        let text = text.replace(
            "    while True:\n        connection, _ = listener",
            "    for _ in range(1):\n        connection, _ = listener",
        );
        fs::write(once.join(name), text).expect("a file");
    }
    let script = fs::read_to_string(once.join("toy_function.py")).expect("the script");
    assert!(script.contains("for _ in range(1):"), "it serves once");
    let function = Function::start(&once, &once).expect("python3 was there before");
    let described = toy.folder.join("examples/miniport-c/toy.cases");
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.arg("hlk").arg("--driver").arg(&toy.driver).arg("--bus").arg(function.bus());
    command.args(["--filter", "AnyDriver.AdapterTellsWhatItIs", "--private-data"]).arg(described);
    let output = command.args(["--user-mode-driver-name", "toy_umd.dll"]).output().expect("the command starts");
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && told.contains("1 passed, 0 failed"), "{told}");
}

#[test]
fn a_driver_reads_the_fields_of_its_device_object_and_stores_into_its_driver_object() {
    let old = "    UNREFERENCED_PARAMETER(PhysicalDeviceObject);\n";
    // Type, Size, Flags, StackSize; type and name of the bus driver. [wdm: DEVICE_OBJECT, DRIVER_OBJECT]
    let new = "    UCHAR *device = (UCHAR *)PhysicalDeviceObject, *bus = *(UCHAR **)(device + 8);\n    \
        DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, \"device %x %x %x %d, bus %x %wZ\\n\", *(USHORT *)device, *(USHORT *)(device + 2), \
        *(ULONG *)(device + 0x30), *(CHAR *)(device + 0x4c), *(USHORT *)bus, (UNICODE_STRING *)(bus + 0x38));\n";
    let Some(toy) = Toy::new("fields", old, new) else { return };
    let output = toy.command("run", &["--log"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("device 3 150 1000 1, bus 4 \\Driver\\pci"), "{told}");
}

#[test]
fn a_driver_image_that_stores_driver_unload_is_unloaded_by_it_and_reaches_its_ddi_from_there() {
    let old = "    return DxgkInitialize(DriverObject, RegistryPath, &data);\n}\n";
    let new = "    NTSTATUS status = DxgkInitialize(DriverObject, RegistryPath, &data);\n    \
        port_unload = *(UNLOAD **)((UCHAR *)DriverObject + 0x68);\n    \
        *(UNLOAD **)((UCHAR *)DriverObject + 0x68) = own_unload;\n    return status;\n}\n";
    let entry = "DRIVER_INITIALIZE DriverEntry;\n";
    let routine = "typedef VOID UNLOAD(PDRIVER_OBJECT);\nstatic UNLOAD *port_unload;\n\
        static VOID own_unload(PDRIVER_OBJECT object)\n{\n    DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, \"own routine\\n\");\n    port_unload(object);\n}\n";
    let ddi = "static VOID unload(VOID)\n{\n";
    let says = format!("{ddi}    DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, \"its entry point\\n\");\n");
    let Some(toy) = Toy::with_changes("unload", &[(old, new), (entry, &format!("{routine}{entry}")), (ddi, &says)])
    else {
        return;
    };
    let output = toy.command("run", &["--log"]);
    let told = String::from_utf8_lossy(&output.stderr);
    let own = told.find("own routine").unwrap_or_else(|| panic!("DriverUnload was not called: {told}"));
    assert!(told[own..].contains("its entry point"), "{told}");
}

#[test]
fn a_driver_is_installed_by_the_inf_file_beside_it_or_else_by_its_own_name() {
    let Some(toy) = Toy::new("keys", "", "") else { return };
    let name = || {
        let output = toy.command("run", &[]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let told = name();
    assert!(
        told.contains("description: toy.sys, a driver without INF file") && !told.contains("Campanile GPU"),
        "{told}"
    );
    let inf = "[Version]\nProvider = \"Toy makers\"\nDriverVer = 01/01/2026, 1.2.3.4\n[Manufacturer]\nToys = Devices\n\
        [Devices]\n\"A toy of a GPU\" = Install, PCI\\VEN_1234&DEV_CAFE\n[Install]\nAddReg = Keys\n\
        [Keys]\nHKR,, HardwareInformation.AdapterString,, \"A toy of a GPU\"\n[Service]\nServiceBinary = %13%\\toy.sys\n";
    fs::write(toy.driver.with_extension("inf"), inf).expect("an INF file");
    let told = name();
    assert!(told.contains("description: A toy of a GPU") && told.contains("version of the driver: 1.2.3.4"), "{told}");
}

/// Versions of the interface as build.sh takes them. The driver of the newest one is run by the test above.
const OLDER: [&str; 12] = [
    "WDDM2_0", "WDDM2_1", "WDDM2_2", "WDDM2_3", "WDDM2_4", "WDDM2_5", "WDDM2_6", "WDDM2_7", "WDDM2_8", "WDDM2_9",
    "WDDM3_0", "WDDM3_1",
];

#[test]
fn the_driver_in_c_of_every_older_version_passes_the_cases_for_any_driver() {
    some_at_a_time(&OLDER, |version| {
        let Some(toy) = Toy::of_version(version, version, "", "") else { return };
        let model = format!("driver model: WDDM {}", version.trim_start_matches("WDDM").replace('_', "."));
        let output = toy.command("run", &[]);
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(told.contains(&model), "{version}: {told}");
        passes_but_for_hardware_queues(&toy.cases("AnyDriver."), version);
        let adapter = toy.cases("WDDM32.Adapter.");
        assert!(adapter["failed"] == 0 && adapter["passed"].as_u64() >= Some(6), "{version}: {adapter}");
    });
}

#[test]
fn a_driver_that_is_not_compute_only_does_not_start_without_the_name_of_its_user_mode_driver() {
    let Some(toy) = Toy::of_version("WDDM2_5", "unnamed", "", "") else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.arg("run").arg("--driver").arg(&toy.driver).arg("--bus").arg(toy.function.bus());
    let output = command.env_remove("CAMPANILE_USER_MODE_DRIVER_NAME").output().expect("the command starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("UserModeDriverName"), "{told}");
}

#[test]
fn what_a_driver_leaves_behind_or_uses_too_early_has_the_documented_bug_check_and_its_place() {
    const STOP: &str = "static NTSTATUS stop_device(PVOID context)\n{\n";
    some_at_a_time(&[STOPPING, MEMORY_MISTAKES].concat(), |(name, before, code, told)| {
        let new = format!("{before}{STOP}    {code}\n");
        let Some(toy) = Toy::new(name, STOP, &new) else { return };
        let run = toy.command("run", &["--driver-limit", "2"]);
        let text = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(3), "{name}: {text}");
        for part in *told {
            assert!(text.contains(part), "{name}: {part:?} is not in {text}");
        }
    });
}

/// Seconds that a case has which the driver makes fail: several timeouts of the contract, and far more, for a machine that has much else to do.
const TIMEOUT: &str = "180";

/// Holds that the case fails which finds a broken function, and that its report says what it must.
fn is_named(toy: &Toy, broken: &Broken, timeout: &str) {
    let report = toy.cases_within(broken.case, timeout);
    assert_eq!((&report["failed"], &report["passed"]), (&1.into(), &0.into()), "{}: {report}", broken.name);
    let case = report["cases"][0].to_string();
    for part in broken.told {
        assert!(case.contains(part), "{}: {part:?} is not in {case}", broken.name);
    }
    // What is found on a machine that has stopped is not the reason.
    let reason = report["cases"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.find("the machine stopped: ").unwrap_or(0) == 0, "{}: {reason}", broken.name);
}

#[test]
fn a_broken_function_is_named_with_what_was_expected_and_seen() {
    some_at_a_time(&[BROKEN, BROKEN_ANSWERS, BROKEN_PAGING, BROKEN_RESETS].concat(), |broken| {
        let Some(toy) = Toy::new(broken.name, broken.old, broken.new) else { return };
        is_named(&toy, broken, TIMEOUT);
    });
}

#[test]
fn a_broken_function_of_page_tables_in_local_memory_is_named_with_its_rule() {
    some_at_a_time(BROKEN_TABLES, |broken| {
        let changes = [TABLES_IN_LOCAL_MEMORY, (broken.old, broken.new)];
        let Some(toy) = Toy::with_changes(broken.name, &changes) else { return };
        is_named(&toy, broken, TIMEOUT);
    });
}

#[test]
fn a_broken_function_of_hardware_queues_is_named_with_its_rule() {
    some_at_a_time(BROKEN_QUEUES, |broken| {
        let changes = [WITH_QUEUES, (broken.old, broken.new)];
        let Some(toy) = Toy::of_version_with_changes(queues::VERSION, broken.name, &changes) else { return };
        is_named(&toy, broken, TIMEOUT);
    });
}

#[test]
fn a_broken_function_of_power_components_is_named_with_its_rule() {
    some_at_a_time(BROKEN_POWER, |broken| {
        let changes = [&WITH_COMPONENT[..], &[(broken.old, broken.new)]].concat();
        let Some(toy) = Toy::with_changes(broken.name, &changes) else { return };
        is_named(&toy, broken, TIMEOUT);
    });
}

/// Exit code and standard error of `campanile run` with this driver and function.
fn told_by_run(name: &str, changes: &[(&str, &str)]) -> Option<(Option<i32>, String)> {
    let toy = Toy::with_changes(name, changes)?;
    let output = toy.command("run", &["--log", "--driver-limit", "20"]);
    Some((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn a_function_without_message_interrupts_has_a_line_and_its_driver_works_by_it() {
    let Some((code, told)) = told_by_run("with-messages", WITH_MESSAGES) else { return };
    assert!(told.contains("1 message interrupts") && told.contains("interrupt resource: flags 2, share 1,"), "{told}");
    assert_eq!(code, Some(0), "{told}");
    let Some((code, told)) = told_by_run("with-line", WITH_LINE) else { return };
    assert!(told.contains("no message interrupts, line-based interrupt INTA#"), "{told}");
    assert!(told.contains("interrupt resource: flags 0, share 3,"), "{told}");
    assert_eq!(code, Some(0), "{told}");
    let Some(toy) = Toy::with_changes("line-cases", WITH_LINE) else { return };
    passes_but_for_hardware_queues(&toy.cases("AnyDriver."), "a line");
}

/// The function asserts its line until the reports have been read, which the DPC routine does here.
#[test]
fn a_line_that_the_interrupt_routine_leaves_asserted_keeps_no_dpc_routine_from_running() {
    let Some(toy) = Toy::with_changes("line-late", &[WITH_LINE, &LATE].concat()) else { return };
    let report = toy.cases("AnyDriver.CommandsRunInTheirOrder");
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &0.into()), "{report}");
}

#[test]
fn a_function_without_any_interrupt_is_told_when_it_is_plugged_in_and_its_driver_gets_no_interrupt_resource() {
    let Some((code, told)) = told_by_run("without-interrupt", WITHOUT_INTERRUPT) else { return };
    let plugged = "neither message interrupts nor an interrupt pin with a line of the bus: no interrupt resource, and DxgkDdiInterruptRoutine is never called";
    assert!(told.contains(plugged) && !told.contains("interrupt resource: flags"), "{told}");
    assert_eq!(code, Some(0), "it starts and stops: {told}");
}

/// A server that ends the connection has pulled its function out, which is no success although the driver was started.
#[test]
fn a_server_that_ends_before_its_driver_has_stopped_is_no_success_of_run() {
    let old = "    def register_write(self, offset, value):\n";
    let new = format!(
        "{old}        self.resets = getattr(self, \"resets\", 0) + (offset == TOY_RESET)\n        if self.resets > 1:\n            os._exit(9)\n"
    );
    let Some((code, told)) = told_by_run("server-ends", &[(old, &new)]) else { return };
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("the function vfio-user=") && told.contains(" is gone: what serves it"), "{told}");
}

/// Nothing masks messages, so that the log is all that tells of them.
#[test]
fn messages_that_nobody_claims_are_told_when_there_are_a_thousand_in_succession() {
    let old = "    def register_write(self, offset, value):\n";
    let new = format!(
        "    def storm(self):\n        while self.trigger is not None:\n            os.write(self.trigger, struct.pack(\"<Q\", 1))\n            \
         __import__(\"time\").sleep(0.0005)\n\n{old}        if offset == TOY_RESET and self.trigger is not None:\n            \
         __import__(\"threading\").Thread(target=self.storm, daemon=True).start()\n"
    );
    let stop = "static NTSTATUS stop_device(PVOID context)\n{\n";
    let late = format!(
        "{stop}    LARGE_INTEGER time = {{ .QuadPart = -30000000 }};\n    KeDelayExecutionThread(KernelMode, FALSE, &time);\n"
    );
    let Some((code, told)) = told_by_run("storm", &[(old, &new), (stop, &late)]) else { return };
    assert!(told.contains("answered FALSE for message 0 of function 0 1000 times in succession"), "{code:?}: {told}");
}

#[test]
fn a_driver_that_does_not_stop_in_order_is_no_success_of_run() {
    const STOP: &str = "    return adapter->interface.DxgkCbUnmapMemory(adapter->handle, (PVOID)adapter->registers);";
    const BEGINS: &str =
        "    write_register(adapter, TOY_RESET, 1);\n    adapter->interface.DxgkCbSynchronizeExecution";
    const MAPS: &str = "    (void)MmMapIoSpace(adapter->memory, 4096, MmNonCached);\n    write_register(adapter, TOY_RESET, 1);\n    adapter->interface.DxgkCbSynchronizeExecution";
    const LEAK: &str = "    (void)allocate(64);\n    write_register(adapter, TOY_RESET, 1);\n    adapter->interface.DxgkCbSynchronizeExecution";
    for (name, old, new, told) in [
        (
            "run-mapping-left",
            STOP,
            "    return STATUS_SUCCESS;",
            &["1 mappings of DxgkCbMapMemory", "was made in toy"][..],
        ),
        (
            "run-io-space-left",
            BEGINS,
            MAPS,
            &["1 mappings of MmMapIoSpace behind", "of 0x1000 bytes at 0x", "was made in toy"],
        ),
        ("run-stop-fails", STOP, "    return STATUS_UNSUCCESSFUL;", &["DxgkDdiStopDevice answered"]),
        ("run-pool-left", BEGINS, LEAK, &["0xC4 (0x62"]),
    ] {
        let Some(toy) = Toy::new(name, old, new) else { return };
        let run = toy.command("run", &[]);
        let text = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code().is_some_and(|code| code != 0), "{name}: {text}");
        assert!(!text.contains("is started:"), "{name}: {text}");
        told.iter().for_each(|part| assert!(text.contains(part), "{name}: {part:?} is not in {text}"));
    }
}

/// The place of a block is not that of a function which asks for all of them alone.
#[test]
fn pool_that_is_left_or_written_beside_has_the_callers_of_the_function_that_asked_for_it() {
    const ALLOCATE: &str =
        "static VOID *allocate(SIZE_T size)\n{\n    return ExAllocatePool2(POOL_FLAG_NON_PAGED, size, TAG);\n}\n";
    const NESTED: &str = "static __attribute__((noinline)) VOID *get(SIZE_T size)\n{\n    VOID *volatile block = ALLOCATE;\n    return block;\n}\n\n\
        static __attribute__((noinline)) VOID *allocate(SIZE_T size)\n{\n    VOID *volatile block = get(size);\n    return block;\n}\n";
    const BEGINS: &str =
        "    write_register(adapter, TOY_RESET, 1);\n    adapter->interface.DxgkCbSynchronizeExecution";
    let left = format!("    (void)allocate(64);\n{BEGINS}");
    let overrun =
        format!("    UCHAR *block = allocate(64);\n    block[64] = 1;\n    ExFreePoolWithTag(block, TAG);\n{BEGINS}");
    let newest = NESTED.replace("ALLOCATE", "ExAllocatePool2(POOL_FLAG_NON_PAGED, size, TAG)");
    let older = NESTED.replace("ALLOCATE", "ExAllocatePoolWithTag(NonPagedPoolNx, size, TAG)");
    for (name, allocate, new) in
        [("nested-left", &newest, &left), ("nested-older", &older, &left), ("nested-overrun", &newest, &overrun)]
    {
        let Some(toy) = Toy::with_changes(name, &[(ALLOCATE, allocate), (BEGINS, new)]) else { return };
        let run = toy.command("run", &[]);
        let text = String::from_utf8_lossy(&run.stderr);
        let asked = text.split_once("asked for in toy").map_or("", |(_, asked)| asked);
        let places = [" get(", ", from allocate(", ", from stop_device("];
        let found = places.iter().try_fold(asked, |rest, place| rest.split_once(place).map(|(_, rest)| rest));
        assert!(found.is_some(), "{name}: {text}");
    }
}

#[test]
fn a_driver_that_does_not_start_is_told_why_with_the_page() {
    // A driver that does not register is no driver: the input is wrong, and not the machine.
    let entry = ENTRY.iter().map(|refused| (2, *refused));
    let start = [REFUSED, UNUSABLE, CAPS, MEMORY, OBJECTS].concat().into_iter().map(|refused| (3, refused));
    let all: Vec<_> = entry.chain(start).collect();
    some_at_a_time(&all, |(code, (name, old, new, told))| {
        let Some(toy) = Toy::new(name, old, new) else { return };
        // Answers that are left out in part are told apart from zeros with special pool.
        let output = toy.command("run", &["--driver-limit", "2", "--special-pool"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{name}: {text}");
        for part in *told {
            assert!(text.contains(part), "{name}: {part:?} is not in {text}");
        }
    });
}
