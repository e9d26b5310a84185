//! The Windows images, read back from their files: `cargo xtask pe` builds them into `target/pe`.
//!
//! What a Windows loader, a verifier and a debugger look at is held here: machine, subsystem, characteristics, sections,
//! imports, exports, relocations, checksum, the PDB that belongs to the image, how deep the driver's stack frames are and
//! which instructions it uses. Each reading has a negative control: the same image with a few bytes changed must fail.

mod code;
mod unwind;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use code::{Function, Target};
use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, Import, PeFile64};
use object::{Object, ObjectSection};

/// An image, and what it may import and export.
struct Image {
    file: &'static str,
    pdb: &'static str,
    subsystem: u16,
    imports: &'static [(&'static str, &'static [&'static str])],
    exports: &'static [&'static str],
}

/// The driver: everything it imports comes from the kernel.
const DRIVER: Image = Image {
    file: "campanile_kmd.sys",
    pdb: "campanile_kmd.pdb",
    subsystem: pe::IMAGE_SUBSYSTEM_NATIVE.0,
    imports: &[(
        "ntoskrnl.exe",
        &[
            "DbgPrintEx",
            "ExAcquirePushLockExclusiveEx",
            "ExAllocatePool2",
            "ExFreePoolWithTag",
            "ExReleasePushLockExclusiveEx",
            "IoBuildDeviceIoControlRequest",
            "IoGetDeviceObjectPointer",
            "IofCallDriver",
            "KeAcquireSpinLockRaiseToDpc",
            "KeBugCheckEx",
            "KeEnterCriticalRegion",
            "KeGetCurrentIrql",
            "KeInitializeEvent",
            "KeLeaveCriticalRegion",
            "KeQueryPerformanceCounter",
            "KeReleaseSpinLock",
            "KeWaitForSingleObject",
            "MmGetPhysicalAddress",
            "ObfDereferenceObject",
            "RtlInitUnicodeString",
            "ZwLoadDriver",
            "memcmp",
            "memcpy",
            "memmove",
            "memset",
        ],
    )],
    // The linker keeps the marker of floating point visible; it is data.
    exports: &["DriverEntry", "_fltused"],
};

/// The user-mode driver. Its thunks and its functions are those that its C header names, see [`header_names`].
const DLL: Image = Image {
    file: "campanile_umd.dll",
    pdb: "campanile_umd.pdb",
    subsystem: pe::IMAGE_SUBSYSTEM_WINDOWS_GUI.0,
    imports: &[
        (
            "kernel32.dll",
            &[
                "CloseHandle",
                "CreateEventW",
                "GetProcessHeap",
                "HeapAlloc",
                "HeapFree",
                "RaiseFailFastException",
                "WaitForSingleObject",
            ],
        ),
        ("ntdll.dll", &["memcmp", "memcpy", "memmove", "memset", "strlen"]),
    ],
    exports: &[],
};

const IMAGES: [&Image; 2] = [&DRIVER, &DLL];

/// Largest stack frame of the driver in bytes, exclusive: the kernel stack is 24 KiB and the graphics kernel's own frames lie above.
const FRAME_LIMIT: u32 = 4096;

/// Kernel functions that the compiler calls for plain memory; they may be called at any level.
const MEMORY_FUNCTIONS: [&str; 4] = ["memcmp", "memcpy", "memmove", "memset"];

/// Bytes of an image or its PDB. The build puts them there; their absence is a failure, not a reason to pass.
fn built(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target").join("pe").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", path.display()))
}

fn parse(bytes: &[u8]) -> PeFile64<'_> {
    PeFile64::parse(bytes).expect("a PE image")
}

/// Imports by module: name and address of the slot that the loader fills.
fn imports(file: &PeFile64<'_>) -> BTreeMap<String, BTreeMap<String, u32>> {
    let mut found: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
    let Some(table) = file.import_table().unwrap() else { return found };
    let mut descriptors = table.descriptors().unwrap();
    while let Some(descriptor) = descriptors.next().unwrap() {
        let module = String::from_utf8_lossy(table.name(descriptor.name.get(LE)).unwrap()).into_owned();
        let mut thunks = table.thunks(descriptor.original_first_thunk.get(LE)).unwrap();
        let mut slot = descriptor.first_thunk.get(LE);
        while let Some(thunk) = thunks.next::<pe::ImageNtHeaders64>().unwrap() {
            let name = match table.import::<pe::ImageNtHeaders64>(thunk).unwrap() {
                Import::Name(_, name) => String::from_utf8_lossy(name).into_owned(),
                Import::Ordinal(ordinal) => format!("#{ordinal}"),
            };
            found.entry(module.clone()).or_default().insert(name, slot);
            slot += 8;
        }
    }
    found
}

/// Names in the C header of the DLL that start with `prefix` and are followed by `end`.
fn header_names(prefix: &str, end: char) -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("umd/include/campanile.h");
    let header = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let words = header.match_indices(prefix).map(|(at, _)| {
        let rest = &header[at..];
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.split_at(len)
    });
    words.filter(|(_, rest)| rest.starts_with(end)).map(|(word, _)| word.to_owned()).collect()
}

/// Imports that are not on the image's list, as `module!name`.
fn unlisted_imports(image: &Image, file: &PeFile64<'_>) -> Vec<String> {
    let thunks = if image.file == DLL.file { header_names("D3DKMT", '\n') } else { BTreeSet::new() };
    let listed = |module: &str, name: &str| {
        let by_image = image.imports.iter().any(|(known, names)| *known == module && names.contains(&name));
        by_image || (module == "gdi32.dll" && thunks.contains(name))
    };
    let all = imports(file);
    let names = all.iter().flat_map(|(module, names)| names.keys().map(move |name| (module, name)));
    names.filter(|(module, name)| !listed(module, name)).map(|(module, name)| format!("{module}!{name}")).collect()
}

fn exports(file: &PeFile64<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for export in file.exports().unwrap() {
        names.insert(match export.unwrap().name() {
            object::read::NameOrOrdinal::Name(name) => String::from_utf8_lossy(name).into_owned(),
            object::read::NameOrOrdinal::Ordinal(ordinal) => format!("#{ordinal}"),
        });
    }
    names
}

/// What a loader would refuse or the verifier dislike in the headers, in words.
fn header_faults(image: &Image, bytes: &[u8]) -> Vec<&'static str> {
    let file = parse(bytes);
    let header = file.nt_headers().file_header();
    let optional = file.nt_headers().optional_header();
    let wanted = pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE.0
        | pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT.0
        | pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA.0;
    let directory = |index| file.data_directories().get(index).is_some_and(|found| found.size.get(LE) != 0);
    let absent = |index| file.data_directories().get(index).is_none();
    let native = image.subsystem == pe::IMAGE_SUBSYSTEM_NATIVE.0;
    let rules = [
        (header.machine.get(LE) == pe::IMAGE_FILE_MACHINE_AMD64, "machine"),
        (header.characteristics.get(LE).0 & pe::IMAGE_FILE_EXECUTABLE_IMAGE.0 != 0, "not linked"),
        (header.characteristics.get(LE).0 & pe::IMAGE_FILE_RELOCS_STRIPPED.0 == 0, "relocations stripped"),
        (optional.subsystem().0 == image.subsystem, "subsystem"),
        ((optional.major_subsystem_version(), optional.minor_subsystem_version()) == (10, 0), "subsystem version"),
        (optional.dll_characteristics().0 & wanted == wanted, "placement or execution protection"),
        (optional.section_alignment() == 4096, "section alignment"),
        (optional.check_sum() == checksum(bytes, &file), "checksum"),
        ((optional.address_of_entry_point() != 0) == native, "entry point"),
        (directory(pe::IMAGE_DIRECTORY_ENTRY_BASERELOC), "no relocations"),
        (directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION), "no unwind information"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_TLS), "thread-local storage"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT), "delay-loaded imports"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR), "managed code"),
    ];
    rules.iter().filter(|(held, _)| !held).map(|(_, rule)| *rule).collect()
}

/// Characteristics of the sections by name.
fn sections(file: &PeFile64<'_>) -> BTreeMap<String, u32> {
    let characteristics = |section: &object::read::pe::PeSection64<'_, '_>| match section.flags() {
        object::SectionFlags::Coff { characteristics, .. } => characteristics.0,
        _ => panic!("not COFF"),
    };
    file.sections().map(|section| (section.name().unwrap().to_owned(), characteristics(&section))).collect()
}

const READ: u32 = pe::IMAGE_SCN_MEM_READ.0;
const WRITE: u32 = pe::IMAGE_SCN_MEM_WRITE.0;
const EXECUTE: u32 = pe::IMAGE_SCN_MEM_EXECUTE.0;
const DISCARD: u32 = pe::IMAGE_SCN_MEM_DISCARDABLE.0;

/// Sections whose rights are not the ones known for their name.
fn section_faults(file: &PeFile64<'_>) -> Vec<String> {
    let rights = |name: &str| match name {
        ".text" | "PAGE" => Some(READ | EXECUTE),
        "INIT" => Some(READ | EXECUTE | DISCARD),
        ".rdata" | ".pdata" => Some(READ),
        ".data" => Some(READ | WRITE),
        ".reloc" => Some(READ | DISCARD),
        _ => None,
    };
    let all = READ | WRITE | EXECUTE | DISCARD;
    let found = sections(file);
    let wrong = found.iter().filter(|(name, flags)| rights(name) != Some(**flags & all));
    wrong.map(|(name, flags)| format!("{name}: 0x{flags:08x}")).collect()
}

/// Functions of the driver with unwind information, decoded.
fn functions<'f>(file: &'f PeFile64<'_>) -> impl Iterator<Item = (unwind::Frame, Function)> + 'f {
    unwind::frames(file).into_iter().map(|frame| {
        let bytes = &unwind::at(file, frame.rva)[..(frame.end - frame.rva) as usize];
        let function = Function::new(bytes, frame.rva);
        (frame, function)
    })
}

/// First and last-but-one RVA of a section.
fn range_of(file: &PeFile64<'_>, name: &str) -> std::ops::Range<u32> {
    let section = file.section_by_name(name).unwrap_or_else(|| panic!("no section {name}"));
    let start = (section.address() - file.relative_address_base()) as u32;
    start..start + section.size() as u32
}

#[test]
fn headers_are_what_a_loader_wants() {
    for image in IMAGES {
        assert_eq!(header_faults(image, &built(image.file)), Vec::<&str>::new(), "{}", image.file);
    }
}

#[test]
fn only_listed_functions_are_imported() {
    for image in IMAGES {
        let bytes = built(image.file);
        assert_eq!(unlisted_imports(image, &parse(&bytes)), Vec::<String>::new(), "{}", image.file);
    }
    let bytes = built(DRIVER.file);
    assert_eq!(imports(&parse(&bytes)).keys().collect::<Vec<_>>(), ["ntoskrnl.exe"]);
}

#[test]
fn only_listed_names_are_exported() {
    for image in IMAGES {
        let bytes = built(image.file);
        let mut wanted: BTreeSet<String> = image.exports.iter().map(|name| (*name).to_owned()).collect();
        if image.file == DLL.file {
            wanted.extend(header_names("campanile_", '('));
        }
        assert_eq!(exports(&parse(&bytes)), wanted, "{}", image.file);
    }
}

#[test]
fn every_section_is_known_and_has_its_rights_and_no_more() {
    for image in IMAGES {
        let bytes = built(image.file);
        assert_eq!(section_faults(&parse(&bytes)), Vec::<String>::new(), "{}", image.file);
    }
    let bytes = built(DRIVER.file);
    let found = sections(&parse(&bytes));
    for wanted in [".text", "PAGE", "INIT", ".rdata", ".pdata", ".reloc"] {
        assert!(found.contains_key(wanted), "the driver has no {wanted}: {:?}", found.keys());
    }
}

#[test]
fn the_entry_point_goes_away_after_initialisation_and_nothing_else_calls_into_there() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let init = range_of(&file, "INIT");
    assert!(init.contains(&file.nt_headers().optional_header().address_of_entry_point()));
    for (frame, function) in functions(&file).filter(|(frame, _)| !init.contains(&frame.rva)) {
        let into = |target: &Target| matches!(target, Target::Code(rva) if init.contains(rva));
        let calls = function.calls(frame.rva, frame.end);
        assert!(!calls.iter().any(into), "the function at RVA 0x{:x} calls into INIT", frame.rva);
    }
}

#[test]
fn pageable_code_cannot_raise_the_level_it_runs_at() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let page = range_of(&file, "PAGE");
    let imported = imports(&file);
    let memory: Vec<u32> =
        MEMORY_FUNCTIONS.iter().filter_map(|name| imported["ntoskrnl.exe"].get(*name)).copied().collect();
    let mut seen = 0;
    for (frame, function) in functions(&file).filter(|(frame, _)| page.contains(&frame.rva)) {
        seen += 1;
        for target in function.calls(frame.rva, frame.end) {
            let harmless = match target {
                // Other code of the driver comes back at the level it was called at.
                Target::Code(_) => true,
                Target::Slot(slot) => memory.contains(&slot),
                // How the driver calls the kernel: through a table.
                Target::Unknown => false,
            };
            assert!(harmless, "the function at RVA 0x{:x} calls {target:x?}", frame.rva);
        }
    }
    assert!(seen >= 3, "{seen} functions in PAGE");
}

#[test]
fn each_image_names_the_pdb_beside_it_by_guid_and_age() {
    for image in IMAGES {
        let bytes = built(image.file);
        let file = parse(&bytes);
        let info = file.pdb_info().unwrap().unwrap_or_else(|| panic!("{} has no CodeView record", image.file));
        assert_eq!(info.path(), image.pdb.as_bytes(), "a path would only fit the machine that built it");
        assert_eq!((info.guid(), info.age()), identity_of_pdb(&built(image.pdb)));
    }
}

fn identity_of_pdb(bytes: &[u8]) -> ([u8; 16], u32) {
    let mut symbols = pdb2::PDB::open(std::io::Cursor::new(bytes)).unwrap();
    let information = symbols.pdb_information().unwrap();
    // The image's debug record has the age of the symbols' debug stream.
    let age = symbols.debug_information().unwrap().age().unwrap_or(information.age);
    (information.guid.to_bytes_le(), age)
}

#[test]
fn no_function_of_the_driver_has_a_frame_of_a_page_or_more() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let frames = unwind::frames(&file);
    assert!(frames.len() > 100, "only {} functions have unwind information", frames.len());
    let largest = frames.iter().max_by_key(|frame| frame.bytes).unwrap();
    println!("{}: {} bytes, {} functions", DRIVER.file, bytes.len(), frames.len());
    println!("largest frame: {} bytes, function at RVA 0x{:x}", largest.bytes, largest.rva);
    let deep: Vec<_> = frames.iter().filter(|frame| frame.bytes >= FRAME_LIMIT).collect();
    assert!(deep.is_empty(), "frames of {FRAME_LIMIT} bytes or more: {deep:x?}");
}

#[test]
fn unwind_information_and_code_agree_on_every_frame() {
    let bytes = built(DRIVER.file);
    for (frame, function) in functions(&parse(&bytes)) {
        let stack = function.stack();
        assert!(!stack.dynamic, "the function at RVA 0x{:x} takes stack by an amount of its own", frame.rva);
        let agrees = stack.bytes == frame.bytes || (frame.chained && stack.bytes <= frame.bytes);
        assert!(
            agrees,
            "the function at RVA 0x{:x} moves the stack by {}, its unwind information says {}",
            frame.rva, stack.bytes, frame.bytes
        );
    }
}

#[test]
fn code_without_unwind_information_takes_no_stack() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let frames = unwind::frames(&file);
    for (name, _) in sections(&file).into_iter().filter(|(_, flags)| flags & EXECUTE != 0) {
        let range = range_of(&file, &name);
        let mut from = range.start;
        let inside = frames.iter().filter(|frame| range.contains(&frame.rva));
        let ends = inside.map(|frame| (frame.rva, frame.end)).chain([(range.end, range.end)]);
        for (rva, end) in ends {
            let gap = if rva > from { &unwind::at(&file, from)[..(rva - from) as usize] } else { &[] };
            let stack = Function::new(gap, from).stack();
            assert!(stack.bytes == 0 && !stack.dynamic, "{name}: code at RVA 0x{from:x}..0x{rva:x}: {stack:?}");
            from = end;
        }
    }
}

#[test]
fn the_driver_uses_no_floating_point_and_no_trap_in_its_path() {
    let bytes = built(DRIVER.file);
    let surprises: Vec<String> = functions(&parse(&bytes)).flat_map(|(_, function)| function.surprises()).collect();
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

/// The PE checksum: 16-bit ones' complement sum of the file without the checksum field, plus the length. [pe: CheckSum]
fn checksum(bytes: &[u8], file: &PeFile64<'_>) -> u32 {
    let field = file.dos_header().nt_headers_offset() as usize + 4 + 20 + 64;
    let mut sum = 0_u64;
    for (index, word) in bytes.chunks(2).enumerate() {
        if (field..field + 4).contains(&(index * 2)) {
            continue;
        }
        sum += u64::from(u16::from_le_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum as u32 & 0xffff) + bytes.len() as u32
}

/// The driver with bytes changed by `change`, which gets the offset of the PE header.
fn altered(change: impl FnOnce(&mut [u8], usize)) -> Vec<u8> {
    let mut bytes = built(DRIVER.file);
    let header = parse(&bytes).dos_header().nt_headers_offset() as usize;
    change(&mut bytes, header);
    bytes
}

/// Offset in the file of the first occurrence of `text`.
fn find(bytes: &[u8], text: &[u8]) -> usize {
    bytes.windows(text.len()).position(|window| window == text).expect("the text is in the file")
}

#[test]
fn a_changed_header_is_noticed() {
    let faults = |offset: usize, value: u16| {
        let bytes = altered(|bytes, header| bytes[header + offset..][..2].copy_from_slice(&value.to_le_bytes()));
        header_faults(&DRIVER, &bytes)
    };
    let optional = 4 + 20;
    assert_eq!(faults(4, 0xaa64), ["machine", "checksum"]);
    assert_eq!(faults(optional + 68, 3), ["subsystem", "checksum"]);
    assert_eq!(faults(optional + 48, 6), ["subsystem version", "checksum"]);
    assert_eq!(faults(optional + 70, 0), ["placement or execution protection", "checksum"]);
    assert_eq!(faults(optional + 64, 0), ["checksum"]);
    // The directories are pairs of address and size: 3 unwind information, 5 relocations, 9 thread-local storage.
    assert_eq!(faults(optional + 112 + 5 * 8 + 4, 0), ["checksum", "no relocations"]);
    assert_eq!(faults(optional + 112 + 3 * 8 + 4, 0), ["checksum", "no unwind information"]);
    assert_eq!(faults(optional + 112 + 9 * 8, 0x1000), ["checksum", "thread-local storage"]);
}

#[test]
fn a_single_changed_byte_of_code_breaks_the_checksum() {
    let bytes = altered(|bytes, _| bytes[0x1234] ^= 1);
    assert_eq!(header_faults(&DRIVER, &bytes), ["checksum"]);
}

#[test]
fn an_import_or_module_that_is_not_listed_is_named() {
    let bytes = altered(|bytes, _| {
        let name = find(bytes, b"KeGetCurrentIrql\0");
        bytes[name..][..16].copy_from_slice(b"ZzGetCurrentIrql");
    });
    assert_eq!(unlisted_imports(&DRIVER, &parse(&bytes)), ["ntoskrnl.exe!ZzGetCurrentIrql"]);
    let bytes = altered(|bytes, _| {
        let name = find(bytes, b"ntoskrnl.exe\0");
        bytes[name..][..12].copy_from_slice(b"win32kxx.sys");
    });
    assert_eq!(unlisted_imports(&DRIVER, &parse(&bytes)).len(), imports(&parse(&bytes))["win32kxx.sys"].len());
}

#[test]
fn another_export_is_noticed() {
    let bytes = altered(|bytes, _| {
        let name = find(bytes, b"_fltused\0");
        bytes[name..][..8].copy_from_slice(b"Surprise");
    });
    assert!(exports(&parse(&bytes)).contains("Surprise"));
}

#[test]
fn a_section_with_more_rights_or_an_unknown_name_is_noticed() {
    let table = |header: usize| header + 4 + 20 + 240;
    let bytes = altered(|bytes, header| bytes[table(header) + 39] |= (WRITE >> 24) as u8);
    assert_eq!(section_faults(&parse(&bytes)).len(), 1);
    let bytes = altered(|bytes, header| bytes[table(header)..][..5].copy_from_slice(b".evil"));
    assert_eq!(section_faults(&parse(&bytes)).len(), 1);
}

#[test]
fn another_pdb_is_noticed() {
    let bytes = altered(|bytes, _| {
        let record = find(bytes, b"RSDS");
        bytes[record + 4] ^= 1;
    });
    let file = parse(&bytes);
    let info = file.pdb_info().unwrap().unwrap();
    assert_ne!((info.guid(), info.age()), identity_of_pdb(&built(DRIVER.pdb)));
}

#[test]
fn a_frame_that_its_unwind_information_hides_is_noticed() {
    let original = built(DRIVER.file);
    let file = parse(&original);
    // A function that begins with `sub rsp, imm8` takes 8 bytes more after the change.
    let begins = |frame: &unwind::Frame| unwind::at(&file, frame.rva).starts_with(&[0x48, 0x83, 0xec]);
    let frame = unwind::frames(&file).into_iter().find(begins).expect("a function that begins so");
    let section = file.sections().find(|section| {
        let start = (section.address() - file.relative_address_base()) as u32;
        (start..start + section.size() as u32).contains(&frame.rva)
    });
    let section = section.expect("functions are in sections");
    let start = (section.address() - file.relative_address_base()) as u32;
    let at = section.file_range().unwrap().0 as usize + (frame.rva - start) as usize;
    let bytes = altered(|bytes, _| bytes[at + 3] += 8);
    let (frame, function) = functions(&parse(&bytes)).find(|(found, _)| found.rva == frame.rva).unwrap();
    assert_eq!(function.stack().bytes, frame.bytes + 8);
}
