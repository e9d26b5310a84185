//! What the images import, against two lists that others keep of what Windows exports: the link metadata of Microsoft's windows-sys, and the import
//! libraries of MinGW-w64. A name that a list has elsewhere or not at all stands here with the reason; one that no longer differs must go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::archive::ArchiveFile;

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

/// Compares the imports with a list; `reasons` has the names that the list lacks or has in another module, each followed by the reason.
fn compare(list: &str, exports: &Exports, reasons: &[(&str, &[&str])]) {
    let has = |import: &String| {
        let (module, name) = import.split_once('!').expect("module and name");
        exports.get(name).is_some_and(|modules| modules.contains(module))
    };
    let differing: BTreeSet<String> = imported().into_iter().filter(|import| !has(import)).collect();
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

/// The sources of the windows-sys that the lock file names, among what cargo has fetched.
fn windows_sys() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo describes the packages");
    let packages = metadata["packages"].as_array().expect("packages");
    let is = |package: &&serde_json::Value| {
        package["name"] == "windows-sys"
            && package["version"].as_str().is_some_and(|version| version.starts_with("0.61."))
    };
    let package = packages.iter().find(is).expect("windows-sys is a dependency of these tests");
    Path::new(package["manifest_path"].as_str().expect("a manifest")).with_file_name("src")
}

/// Adds the functions that the files below a folder link, which say `link!("MODULE" "ABI" fn NAME(`.
fn linked(folder: &Path, exports: &mut Exports) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            linked(&path, exports);
            continue;
        }
        let text = fs::read_to_string(&path).expect("source text");
        for rest in text.split("link!(\"").skip(1) {
            let Some((module, rest)) = rest.split_once('"') else { continue };
            let Some((_, rest)) = rest.split_once(" fn ") else { continue };
            let Some((name, _)) = rest.split_once('(') else { continue };
            exports.entry(name.to_owned()).or_default().insert(module.to_lowercase());
        }
    }
}

#[test]
fn every_import_is_where_windows_sys_links_it_or_the_reason_is_known() {
    let mut exports = Exports::new();
    linked(&windows_sys(), &mut exports);
    assert!(exports.len() > 10_000, "{} functions", exports.len());
    compare("windows-sys", &exports, NOT_IN_WINDOWS_SYS);
}

/// The names that an import library of MinGW-w64 gives to a module.
fn library(folder: &Path, file: &str, module: &str, exports: &mut Exports) {
    let path = folder.join(file);
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
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/headers/mingw-w64-x86-64-dev/usr/x86_64-w64-mingw32/lib");
    let mut exports = Exports::new();
    let modules: BTreeSet<String> =
        imported().iter().filter_map(|import| import.split_once('!')).map(|(module, _)| module.to_owned()).collect();
    for module in &modules {
        // An API set has the import library that its page names, Synchronization.lib.
        let stem = match module.as_str() {
            "api-ms-win-core-synch-l1-2-0.dll" => "synchronization",
            module => module.trim_end_matches(".dll").trim_end_matches(".exe"),
        };
        library(&folder, &format!("lib{stem}.a"), module, &mut exports);
    }
    assert!(exports.len() > 3000, "{} functions", exports.len());
    compare("MinGW-w64", &exports, NOT_IN_MINGW);
}

/// Thunks of Windows 11 24H2, whose metadata and import libraries came later than both lists. Their only source is d3dkmthk.h of kit 10.0.26100.
const NEW_THUNKS: &[&str] = &[
    "gdi32.dll!D3DKMTConnectDoorbell",
    "gdi32.dll!D3DKMTCreateDoorbell",
    "gdi32.dll!D3DKMTCreateNativeFence",
    "gdi32.dll!D3DKMTDestroyDoorbell",
    "gdi32.dll!D3DKMTGetNativeFenceLogDetail",
    "gdi32.dll!D3DKMTNotifyWorkSubmission",
    "gdi32.dll!D3DKMTOpenNativeFenceFromNtHandle",
];

/// Functions for which windows-sys names another DLL or none, by reason.
const NOT_IN_WINDOWS_SYS: &[(&str, &[&str])] = &[
    ("newer than its metadata", NEW_THUNKS),
    (
        "it names the API set; Microsoft's page names Gdi32.dll, since Windows 10 2004, and published lists of the exports of gdi32.dll have it",
        &["gdi32.dll!D3DKMTEnumAdapters3"],
    ),
    (
        "memory functions and exceptions of C, which are no part of the Windows interface that it describes",
        &[
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
];

/// Functions for which MinGW-w64 10 names another DLL or none, by reason.
const NOT_IN_MINGW: &[(&str, &[&str])] = &[
    ("newer than its libraries", NEW_THUNKS),
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
        &["ntdll.dll!memcpy", "ntdll.dll!memmove", "ntdll.dll!memset"],
    ),
];
