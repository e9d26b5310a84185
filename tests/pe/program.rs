//! `hlk.exe`: what it is made of, what it needs of Windows, and which cases it has.

use std::collections::BTreeSet;

use campanile_hlk::INSIDE;
use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader};
use object::{Object, ObjectSection};

use crate::image::{built, imports, parse};

pub(crate) const FILE: &str = "hlk.exe";

/// DLLs that every Windows has, of which the program may need something.
const SYSTEM: [&str; 4] = ["api-ms-win-core-synch-l1-2-0.dll", "kernel32.dll", "ntdll.dll", "ucrtbase.dll"];

#[test]
fn it_is_a_console_program_with_every_protection_and_a_version() {
    let bytes = built(FILE);
    let file = parse(&bytes);
    let header = file.nt_headers();
    assert_eq!(header.file_header().machine.get(LE), pe::IMAGE_FILE_MACHINE_AMD64);
    assert_eq!(header.file_header().characteristics.get(LE).0 & pe::IMAGE_FILE_DLL.0, 0);
    let optional = header.optional_header();
    assert_eq!(optional.subsystem(), pe::IMAGE_SUBSYSTEM_WINDOWS_CUI);
    let wanted = pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE.0
        | pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA.0
        | pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT.0;
    assert_eq!(optional.dll_characteristics().0 & wanted, wanted);
    let sections: BTreeSet<&str> = file.sections().filter_map(|section| section.name().ok()).collect();
    assert!(sections.contains(".rsrc") && sections.contains(".reloc") && sections.contains(".tls"), "{sections:?}");
    assert!(file.pdb_info().unwrap().is_some_and(|pdb| pdb.path() == b"hlk.pdb"));
}

#[test]
fn it_needs_nothing_that_a_windows_may_lack() {
    let bytes = built(FILE);
    let imports = imports(&parse(&bytes));
    let strangers: Vec<&String> = imports.keys().filter(|module| !SYSTEM.contains(&module.as_str())).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    // The thunks are looked up when it runs, so that it starts, and says what is missing, where there are none.
    assert!(imports.values().flat_map(|names| names.keys()).all(|name| !name.starts_with("D3DKMT")));
}

#[test]
fn every_case_runs_on_windows_or_is_listed_as_one_that_cannot() {
    let all: BTreeSet<&str> = campanile_conformance::registry::cases().map(|case| case.name).collect();
    let over_thunks = campanile_conformance::registry::cases().filter(|case| case.over_thunks_alone().is_some());
    let thunks = over_thunks.map(|case| case.name);
    let listed: BTreeSet<&str> = thunks.chain(INSIDE.iter().map(|case| case.name)).collect();
    assert_eq!(listed, all);
}
