//! What the images import and look up, against two lists that others keep of what Windows exports: the link metadata of Microsoft's windows-sys, and the import
//! libraries of MinGW-w64, which are made of its `.def` files; Debian's package has the libraries alone. A name that a list has elsewhere or not at all stands here with the reason; one that no longer differs must go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ddi_layout::windows_sys;
use object::read::archive::ArchiveFile;
use wddm_ddi::kmt::{FurtherThunks, Thunks};

use crate::image::{built, imports, parse};

/// The images whose imports are compared.
const FILES: [&str; 3] = ["campanile_kmd.sys", "campanile_umd.dll", "hlk.exe"];

/// Modules of a function, by its name.
type Exports = BTreeMap<String, BTreeSet<String>>;

/// What the three images import, as `module!name`.
fn imported() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for file in FILES {
        let bytes = built(file);
        for (module, names) in imports(&parse(&bytes)) {
            all.extend(names.keys().map(|name| format!("{}!{name}", module.to_lowercase())));
        }
    }
    assert!(all.len() > 100, "{}", all.len());
    all
}

/// The thunks that `campanile_umd.dll` and `hlk.exe` look up when they run, as `module!name`.
fn looked_up() -> BTreeSet<String> {
    let tables = [(Thunks::MODULES, Thunks::NAMES), (FurtherThunks::MODULES, FurtherThunks::NAMES)];
    let names = tables.iter().flat_map(|(modules, names)| modules.iter().zip(*names));
    // Those of this project are on no Windows.
    let names = names.filter(|(module, _)| **module != "campanile_kmt.dll");
    names.map(|(module, name)| format!("{module}!{name}")).collect()
}

/// Compares functions that the images need with a list; `reasons` has the names that the list lacks or has in another module, each followed by the reason.
fn compare(needed: &BTreeSet<String>, list: &str, exports: &Exports, reasons: &[(&str, &[&str])]) {
    let has = |import: &String| {
        let (module, name) = import.split_once('!').expect("module and name");
        exports.get(name).is_some_and(|modules| modules.contains(module))
    };
    let differing: BTreeSet<String> = needed.iter().filter(|import| !has(import)).cloned().collect();
    let known: BTreeSet<String> =
        reasons.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect();
    let elsewhere = |import: &String| {
        let name = import.rsplit('!').next().unwrap_or_default();
        let modules: Vec<&String> = exports.get(name).into_iter().flatten().collect();
        format!("{import}, which {list} has in {modules:?}")
    };
    let new: Vec<String> = differing.difference(&known).map(elsewhere).collect();
    assert!(new.is_empty(), "a loader may refuse these: {new:#?}");
    let gone: Vec<&String> = known.difference(&differing).collect();
    assert!(gone.is_empty(), "{list} agrees with these, or no image imports them: {gone:#?}");
}

#[test]
fn every_import_is_where_windows_sys_links_it_or_the_reason_is_known() {
    let mut exports = Exports::new();
    let sources = windows_sys::folder(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a dependency of these tests");
    for function in windows_sys::linked(&sources).expect("sources that can be read") {
        exports.entry(function.name).or_default().insert(function.module);
    }
    assert!(exports.len() > 10_000, "{} functions", exports.len());
    compare(&imported(), "windows-sys", &exports, NOT_IN_WINDOWS_SYS);
}

/// The names that the import library of MinGW-w64 gives to a module.
fn library(module: &str, exports: &mut Exports) {
    // An API set has the import library that its page names, Synchronization.lib.
    let stem = match module {
        "api-ms-win-core-synch-l1-2-0.dll" => "synchronization",
        module => module.trim_end_matches(".dll").trim_end_matches(".exe"),
    };
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/headers/mingw-w64-x86-64-dev/usr/x86_64-w64-mingw32/lib");
    let path = folder.join(format!("lib{stem}.a"));
    let bytes =
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask test` unpacks it", path.display()));
    let archive = ArchiveFile::parse(&*bytes).expect("an archive");
    for symbol in archive.symbols().expect("symbols").expect("a table of symbols") {
        let name = String::from_utf8_lossy(symbol.expect("a symbol").name()).into_owned();
        if let Some(name) = name.strip_prefix("__imp_") {
            exports.entry(name.to_owned()).or_default().insert(module.to_owned());
        }
    }
}

#[test]
fn every_import_is_in_the_import_library_of_its_module_or_the_reason_is_known() {
    let mut exports = Exports::new();
    let modules: BTreeSet<String> =
        imported().iter().filter_map(|import| import.split_once('!')).map(|(module, _)| module.to_owned()).collect();
    for module in &modules {
        library(module, &mut exports);
    }
    assert!(exports.len() > 2000, "{} functions", exports.len());
    compare(&imported(), "MinGW-w64", &exports, NOT_IN_MINGW);
}

/// With windows-sys these are compared where they are declared, in `ddi/tests/windows_sys.rs`.
#[test]
fn every_thunk_that_is_looked_up_is_in_the_import_library_of_its_module_or_the_reason_is_known() {
    let mut exports = Exports::new();
    for module in ["gdi32.dll", "ntdll.dll"] {
        library(module, &mut exports);
    }
    assert!(exports.len() > 3000, "{} functions", exports.len());
    compare(&looked_up(), "MinGW-w64", &exports, THUNKS_NOT_IN_MINGW);
}

/// Thunks that MinGW-w64 10 lacks, by reason.
const THUNKS_NOT_IN_MINGW: &[(&str, &[&str])] = &[
    (
        "newer than its libraries: their only source is d3dkmthk.h of kit 10.0.26100, of Windows 11 24H2",
        &[
            "gdi32.dll!D3DKMTConnectDoorbell",
            "gdi32.dll!D3DKMTCreateDoorbell",
            "gdi32.dll!D3DKMTCreateNativeFence",
            "gdi32.dll!D3DKMTCreateSyncFile",
            "gdi32.dll!D3DKMTDestroyDoorbell",
            "gdi32.dll!D3DKMTGetNativeFenceLogDetail",
            "gdi32.dll!D3DKMTIsFeatureEnabled",
            "gdi32.dll!D3DKMTNotifyWorkSubmission",
            "gdi32.dll!D3DKMTOpenNativeFenceFromNtHandle",
            "gdi32.dll!D3DKMTOpenSyncObjectFromSyncFile",
            "gdi32.dll!D3DKMTWaitSyncFile",
        ],
    ),
    (
        "in no list of exports that was looked at; Microsoft's pages describe them, and d3dkmthk.h declares them",
        &["gdi32.dll!D3DKMTRegisterBudgetChangeNotification", "gdi32.dll!D3DKMTUnregisterBudgetChangeNotification"],
    ),
];

/// Functions for which windows-sys names another DLL or none, by reason.
const NOT_IN_WINDOWS_SYS: &[(&str, &[&str])] = &[
    (
        "mathematics of C, with which hlk.exe compares what the GPU computes; no part of that interface either",
        &[
            "ucrtbase.dll!acos",
            "ucrtbase.dll!acosf",
            "ucrtbase.dll!asin",
            "ucrtbase.dll!asinf",
            "ucrtbase.dll!atan",
            "ucrtbase.dll!atan2",
            "ucrtbase.dll!atan2f",
            "ucrtbase.dll!atanf",
            "ucrtbase.dll!ceil",
            "ucrtbase.dll!ceilf",
            "ucrtbase.dll!cos",
            "ucrtbase.dll!cosf",
            "ucrtbase.dll!cosh",
            "ucrtbase.dll!coshf",
            "ucrtbase.dll!exp",
            "ucrtbase.dll!exp2",
            "ucrtbase.dll!exp2f",
            "ucrtbase.dll!expf",
            "ucrtbase.dll!floor",
            "ucrtbase.dll!floorf",
            "ucrtbase.dll!fmod",
            "ucrtbase.dll!fmodf",
            "ucrtbase.dll!log",
            "ucrtbase.dll!log1p",
            "ucrtbase.dll!log2",
            "ucrtbase.dll!log2f",
            "ucrtbase.dll!logf",
            "ucrtbase.dll!pow",
            "ucrtbase.dll!powf",
            "ucrtbase.dll!rint",
            "ucrtbase.dll!rintf",
            "ucrtbase.dll!sin",
            "ucrtbase.dll!sinf",
            "ucrtbase.dll!sinh",
            "ucrtbase.dll!sinhf",
            "ucrtbase.dll!tan",
            "ucrtbase.dll!tanf",
            "ucrtbase.dll!tanh",
            "ucrtbase.dll!tanhf",
            "ucrtbase.dll!trunc",
            "ucrtbase.dll!truncf",
        ],
    ),
    (
        "memory functions and exceptions of C, which are no part of the Windows interface that it describes",
        &[
            "ntdll.dll!memcmp",
            "ntdll.dll!memcpy",
            "ntdll.dll!memmove",
            "ntdll.dll!memset",
            "ntoskrnl.exe!memcpy",
            "ntoskrnl.exe!memmove",
            "ntoskrnl.exe!memset",
            "ucrtbase.dll!_CxxThrowException",
            "ucrtbase.dll!__CxxFrameHandler3",
            "ucrtbase.dll!memcmp",
            "ucrtbase.dll!memcpy",
            "ucrtbase.dll!memmove",
            "ucrtbase.dll!memset",
        ],
    ),
    (
        "both modes have these, and it names the one of user mode; the import library of ntoskrnl.exe has them",
        &[
            "ntoskrnl.exe!DbgPrintEx",
            "ntoskrnl.exe!RtlInitUnicodeString",
            "ntoskrnl.exe!ZwClose",
            "ntoskrnl.exe!ZwLoadDriver",
            "ntoskrnl.exe!ZwQueryValueKey",
        ],
    ),
    (
        "not described for x64 in its metadata; the import library of ntoskrnl.exe has them",
        &["ntoskrnl.exe!KeAcquireSpinLockRaiseToDpc", "ntoskrnl.exe!KeReleaseSpinLock"],
    ),
    (
        "the hardware abstraction layer is part of ntoskrnl.exe since Windows 10 2004, and hal.dll forwards to it",
        &["ntoskrnl.exe!KeQueryPerformanceCounter"],
    ),
    (
        "Rust's standard library makes the pipe of a child process with it; the import library of ntdll.dll has it",
        &["ntdll.dll!NtCreateNamedPipeFile"],
    ),
];

/// Functions for which MinGW-w64 10 names another DLL or none, by reason.
const NOT_IN_MINGW: &[(&str, &[&str])] = &[
    (
        "newer than its libraries, which are of Windows 8; windows-sys has them",
        &[
            "ntoskrnl.exe!EtwSetInformation",
            "ntoskrnl.exe!ExAcquirePushLockExclusiveEx",
            "ntoskrnl.exe!ExAllocatePool2",
            "ntoskrnl.exe!ExReleasePushLockExclusiveEx",
        ],
    ),
    (
        "the hardware abstraction layer is part of ntoskrnl.exe since Windows 10 2004, and hal.dll forwards to it",
        &["ntoskrnl.exe!KeQueryPerformanceCounter"],
    ),
    (
        "it leaves the memory functions of C to its own runtime; ntdll.dll has exported them since Windows NT",
        &["ntdll.dll!memcmp", "ntdll.dll!memcpy", "ntdll.dll!memmove", "ntdll.dll!memset"],
    ),
];
