//! Windows' programs on another implementation of Windows, where the machine has one: Wine.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// One at a time: the first makes the folder in which Wine keeps its Windows.
static WINE: Mutex<()> = Mutex::new(());

/// Exit code and output of a program under Wine.
struct Ended {
    code: Option<i32>,
    output: String,
    errors: String,
}

/// Runs a program of `target/pe` under Wine; `None` where there is no Wine, which in CI is a failure.
fn wine(program: &str, arguments: &[&str]) -> Option<Ended> {
    let _one = WINE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wine");
    fs::create_dir_all(&folder).unwrap();
    // Files and not pipes: Wine's own processes stay for some seconds and keep open what they got.
    let (output, errors) = (folder.join("output"), folder.join("errors"));
    let image = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/pe").join(program);
    assert!(image.is_file(), "{}: run `cargo xtask pe` first", image.display());
    let status = Command::new("wine")
        .arg(image)
        .args(arguments)
        .env("WINEPREFIX", folder.join("prefix"))
        // No questions about .NET and HTML, and nothing of Wine's own among the errors.
        .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
        .env("WINEDEBUG", "-all")
        .stdout(File::create(&output).unwrap())
        .stderr(File::create(&errors).unwrap())
        .status();
    let Ok(status) = status else {
        eprintln!(
            "NOT CHECKED: there is no Wine here, so {program} was not started; install it, `apt-get install wine64`"
        );
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"), "CI needs Wine");
        return None;
    };
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).replace('\r', "");
    Some(Ended { code: status.code(), output: read(output), errors: read(errors) })
}

#[test]
fn the_program_lists_the_cases_that_are_here() {
    let Some(listed) = wine(crate::program::FILE, &["--list"]) else { return };
    assert_eq!(listed.code, Some(0), "{}", listed.errors);
    let names = listed.output.lines().filter_map(|line| line.strip_prefix("  Device.")?.split(' ').next());
    let names: BTreeSet<String> = names.map(|name| format!("Device.{name}")).collect();
    assert_eq!(names, campanile_conformance::registry::cases().map(|case| case.name.to_owned()).collect());
    let json = wine(crate::program::FILE, &["--list", "--json", "--filter", "lock2"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json.output).unwrap();
    let expected = campanile_conformance::registry::cases().filter(|case| case.matches("lock2")).count();
    assert_eq!((json.as_array().unwrap().len(), expected > 3), (expected, true));
}

#[test]
fn the_program_says_that_there_is_no_adapter_and_what_a_wrong_command_line_is() {
    let Some(alone) = wine(crate::program::FILE, &[]) else { return };
    assert_eq!((alone.code, &*alone.output), (Some(4), ""), "{}", alone.errors);
    for part in ["no adapter", "D3DKMTEnumAdapters3", "PCI\\VEN_CA3E&DEV_0032", "docs/windows.md"] {
        assert!(alone.errors.contains(part), "{part} is missing: {}", alone.errors);
    }
    let described = wine(crate::program::FILE, &["--adapter"]).unwrap();
    assert_eq!((described.code, described.output.is_empty()), (Some(4), true), "{}", described.errors);
    for (arguments, code) in [
        (&["--adapter", "--list"][..], 2),
        (&["--why", "--adapter"], 2),
        (&["--why"], 4),
        (&["--filter", "no such case"], 2),
        (&["--repeat", "0"], 2),
        (&["--version"], 0),
    ] {
        assert_eq!(wine(crate::program::FILE, arguments).unwrap().code, Some(code), "{arguments:?}");
    }
}

/// [Vulkan-Loader: LoaderDriverInterface]: a driver agrees on the interface's version, and an instance without a device of its own lists none.
#[test]
fn the_vulkan_driver_answers_the_loader_and_finds_no_device() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pe/campanile_vulkan.dll");
    assert!(library.is_file(), "{}: run `cargo xtask pe` first", library.display());
    let path = format!("Z:{}", library.display()).replace('/', "\\");
    let Some(asked) = wine("test/icd.exe", &[&path]) else { return };
    let version = "interface 7\nVulkan 1.3.281\nphysical devices 0\n";
    assert_eq!((asked.code, &*asked.output), (Some(0), version), "{}", asked.errors);
    let none = wine("test/icd.exe", &["Z:\\no such.dll"]).unwrap();
    assert_eq!((none.code, none.output.starts_with("LoadLibrary: ")), (Some(1), true), "{}", none.output);
    let other = wine("test/icd.exe", &["kernel32.dll"]).unwrap();
    assert!(other.output.contains("vk_icdNegotiateLoaderICDInterfaceVersion\" is not exported"), "{}", other.output);
}

/// The INF with what is filled in for a package.
fn inf() -> String {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("inf/campanile.inx")).unwrap();
    let line = |line: &str| {
        if line.starts_with("DriverVer") {
            "DriverVer = 11/22/2026,32.0.1.0".to_owned()
        } else {
            line.replace("$ARCH$", "amd64")
        }
    };
    source.lines().map(|text| line(text) + "\r\n").collect()
}

/// What the system's reader says about a text; `None` without Wine.
fn opened(text: &str) -> Option<Ended> {
    static TEXT: Mutex<()> = Mutex::new(());
    let _one = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("second-opinion.inf");
    fs::write(&path, text).unwrap();
    wine("test/openinf.exe", &[&format!("Z:{}", path.display()).replace('/', "\\")])
}

#[test]
fn the_inf_opens_by_the_system_s_own_reader_and_what_is_none_does_not() {
    let good = inf();
    let Some(ended) = opened(&good) else { return };
    assert_eq!((ended.code, &*ended.output), (Some(0), ""), "{}", ended.errors);
    let line = 1 + good.lines().position(|line| line == "[Manufacturer]").unwrap();
    let torn = opened(&good.replace("[Manufacturer]", "[Manufacturer")).unwrap();
    assert_eq!((torn.code, torn.output.trim()), (Some(1), &*format!("error 0xe0000001 in line {line}")));
    let unsigned: String =
        good.lines().filter(|line| !line.starts_with("Signature")).map(|line| format!("{line}\r\n")).collect();
    let unsigned = opened(&unsigned).unwrap();
    assert_eq!((unsigned.code, unsigned.output.contains("error 0xe0000100")), (Some(1), true), "{}", unsigned.output);
}
