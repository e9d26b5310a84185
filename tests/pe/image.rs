//! What is required of an image, and in which points a file does not meet it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ExportTarget, ImageNtHeaders, ImageOptionalHeader, Import, PeFile64};
use object::{Object, ObjectSection};

/// An image, and what it imports and exports: all of that but for [`MEMORY_FUNCTIONS`], and nothing else.
pub(crate) struct Image {
    pub(crate) file: &'static str,
    pub(crate) pdb: &'static str,
    pub(crate) subsystem: u16,
    pub(crate) sections: &'static [&'static str],
    imports: &'static [(&'static str, &'static [&'static str])],
    exports: &'static [&'static str],
    /// The C header whose functions are exported besides.
    header: Option<&'static str>,
}

/// Functions that the compiler calls for plain memory and text, wherever it sees fit: an image may do without some of them. They
/// may be called at any level.
pub(crate) const MEMORY_FUNCTIONS: [&str; 5] = ["memcmp", "memcpy", "memmove", "memset", "strlen"];

/// Exports that are data.
const DATA_EXPORTS: [&str; 2] = ["CAMPANILE_DEBUG_ROOT", "_fltused"];

/// The driver: everything it imports comes from the kernel.
pub(crate) const DRIVER: Image = Image {
    file: "campanile_kmd.sys",
    pdb: "campanile_kmd.pdb",
    subsystem: pe::IMAGE_SUBSYSTEM_NATIVE.0,
    sections: &[".text", ".rdata", ".data", ".pdata", "INIT", "PAGE", ".rsrc", ".reloc"],
    imports: &[(
        "ntoskrnl.exe",
        &[
            "DbgPrintEx",
            "EtwRegister",
            "EtwSetInformation",
            "EtwUnregister",
            "EtwWriteTransfer",
            "ExAcquirePushLockExclusiveEx",
            "ExAllocatePool2",
            "ExFreePoolWithTag",
            "ExReleasePushLockExclusiveEx",
            "IoBuildDeviceIoControlRequest",
            "IoGetDeviceObjectPointer",
            "IoGetDeviceProperty",
            "IoOpenDeviceRegistryKey",
            "IofCallDriver",
            "KeAcquireSpinLockRaiseToDpc",
            "KeBugCheckEx",
            "KeEnterCriticalRegion",
            "KeGetCurrentIrql",
            "KeGetCurrentProcessorNumberEx",
            "KeInitializeEvent",
            "KeLeaveCriticalRegion",
            "KeQueryPerformanceCounter",
            "KeReleaseSpinLock",
            "KeWaitForSingleObject",
            "MmGetPhysicalAddress",
            "ObfDereferenceObject",
            "RtlInitUnicodeString",
            "ZwClose",
            "ZwLoadDriver",
            "ZwQueryValueKey",
            "memcmp",
            "memcpy",
            "memmove",
            "memset",
        ],
    )],
    // The root of what a debugger finds, which is there without symbols too; the linker keeps the marker of floating point visible.
    exports: &["CAMPANILE_DEBUG_ROOT", "DriverEntry", "_fltused"],
    header: None,
};

/// The user-mode driver. Its functions are those that its C header names. It imports no thunk: a loader refuses a DLL for a single import that its Windows lacks,
/// so it looks them up when it runs.
pub(crate) const DLL: Image = Image {
    file: "campanile_umd.dll",
    pdb: "campanile_umd.pdb",
    subsystem: pe::IMAGE_SUBSYSTEM_WINDOWS_GUI.0,
    sections: &[".text", ".rdata", ".data", ".pdata", ".rsrc", ".reloc"],
    imports: &[
        (
            "kernel32.dll",
            &[
                "CloseHandle",
                "CreateEventW",
                "GetProcAddress",
                "GetProcessHeap",
                "HeapAlloc",
                "HeapFree",
                "LoadLibraryExA",
                "RaiseFailFastException",
                "WaitForSingleObject",
            ],
        ),
        ("ntdll.dll", &["memcmp", "memcpy", "memmove", "memset", "strlen"]),
    ],
    exports: &[],
    header: Some("umd/include/campanile.h"),
};

pub(crate) const IMAGES: [&Image; 2] = [&DRIVER, &DLL];

/// Bytes of an image or its PDB. The build puts them there; their absence is a failure, not a reason to pass.
pub(crate) fn built(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target").join("pe").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", path.display()))
}

pub(crate) fn parse(bytes: &[u8]) -> PeFile64<'_> {
    PeFile64::parse(bytes).expect("a PE image")
}

/// Imports by module: name and address of the slot that the loader fills.
pub(crate) fn imports(file: &PeFile64<'_>) -> BTreeMap<String, BTreeMap<String, u32>> {
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

/// Names in a C header that start with `prefix` and are followed by `end`.
pub(crate) fn header_names(header: &str, prefix: &str, end: char) -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(header);
    let header = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let words = header.match_indices(prefix).map(|(at, _)| {
        let rest = &header[at..];
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.split_at(len)
    });
    words.filter(|(_, rest)| rest.starts_with(end)).map(|(word, _)| word.to_owned()).collect()
}

/// The names that one side has and the other has not, in words.
fn differences(what: &str, found: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Vec<String> {
    let more = found.difference(wanted).map(|name| format!("{what} {name} is not listed"));
    let less = wanted.difference(found).map(|name| format!("{what} {name} is missing"));
    more.chain(less).collect()
}

fn import_faults(image: &Image, file: &PeFile64<'_>) -> Vec<String> {
    let wanted = image.imports.iter();
    let wanted = wanted.flat_map(|(module, names)| names.iter().map(move |name| format!("{module}!{name}"))).collect();
    let found = imports(file);
    let found = found.iter().flat_map(|(module, names)| names.keys().map(move |name| format!("{module}!{name}")));
    let mut faults = differences("import", &found.collect(), &wanted);
    let may_be_missing =
        |fault: &String| MEMORY_FUNCTIONS.iter().any(|name| fault.ends_with(&format!("!{name} is missing")));
    faults.retain(|fault| !may_be_missing(fault));
    faults
}

/// Exported names and where they lie.
fn exports<'data>(file: &PeFile64<'data>) -> BTreeMap<String, ExportTarget<'data>> {
    let table = file.export_table().unwrap();
    let all = table.map(|table| table.exports().unwrap()).unwrap_or_default();
    let name = |export: &object::read::pe::Export<'_>| match export.name {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => format!("#{}", export.ordinal.0),
    };
    all.iter().map(|export| (name(export), export.target)).collect()
}

fn export_faults(image: &Image, file: &PeFile64<'_>) -> Vec<String> {
    let mut wanted: BTreeSet<String> = image.exports.iter().map(|name| (*name).to_owned()).collect();
    if let Some(header) = image.header {
        wanted.extend(header_names(header, "campanile_", '('));
    }
    let found = exports(file);
    let mut faults = differences("export", &found.keys().cloned().collect(), &wanted);
    let code = |rva: u32| {
        let section = file.section_table().section_containing(rva);
        section.is_some_and(|section| section.characteristics.get(LE).0 & EXECUTE != 0)
    };
    let elsewhere = |(name, target): &(&String, &ExportTarget<'_>)| match target {
        ExportTarget::Address(rva) => code(*rva) == DATA_EXPORTS.contains(&name.as_str()),
        _ => true,
    };
    faults.extend(found.iter().filter(elsewhere).map(|(name, _)| format!("export {name} is no function of the image")));
    faults
}

/// Bits of DllCharacteristics: placed anywhere in 64 bits, data is not executed. There is no control flow guard: its tables are
/// made by a C runtime, which no image has.
const PLACEMENT: u16 = pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE.0
    | pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT.0
    | pe::IMAGE_DLLCHARACTERISTICS_HIGH_ENTROPY_VA.0;

/// Linked, addresses above 2 GiB, a DLL: the compiler knows no other kind of image, and drivers are loaded as it.
const CHARACTERISTICS: u16 =
    pe::IMAGE_FILE_EXECUTABLE_IMAGE.0 | pe::IMAGE_FILE_LARGE_ADDRESS_AWARE.0 | pe::IMAGE_FILE_DLL.0;

/// Faults of the headers for which a loader refuses the image or Driver Verifier complains.
fn header_faults(image: &Image, bytes: &[u8], file: &PeFile64<'_>) -> Vec<String> {
    let header = file.nt_headers().file_header();
    let optional = file.nt_headers().optional_header();
    let directory = |index| file.data_directories().get(index).is_some_and(|found| found.size.get(LE) != 0);
    let absent = |index| file.data_directories().get(index).is_none();
    let native = image.subsystem == pe::IMAGE_SUBSYSTEM_NATIVE.0;
    let characteristics = header.characteristics.get(LE).0;
    let version = (optional.major_subsystem_version(), optional.minor_subsystem_version());
    let rules = [
        (header.machine.get(LE) == pe::IMAGE_FILE_MACHINE_AMD64, "machine"),
        (characteristics & pe::IMAGE_FILE_RELOCS_STRIPPED.0 == 0, "relocations stripped"),
        (characteristics & !pe::IMAGE_FILE_RELOCS_STRIPPED.0 == CHARACTERISTICS, "characteristics"),
        (optional.subsystem().0 == image.subsystem, "subsystem"),
        (version == (10, 0), "subsystem version"),
        (optional.dll_characteristics().0 == PLACEMENT, "placement or execution protection"),
        (optional.section_alignment() == 4096, "section alignment"),
        (optional.check_sum() == checksum(bytes, file), "checksum"),
        ((optional.address_of_entry_point() != 0) == native, "entry point"),
        (directory(pe::IMAGE_DIRECTORY_ENTRY_BASERELOC), "no relocations"),
        (directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION), "no unwind information"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_TLS), "thread-local storage"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT), "delay-loaded imports"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR), "managed code"),
        (absent(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG), "load configuration"),
    ];
    rules.iter().filter(|(held, _)| !held).map(|(_, rule)| (*rule).to_owned()).collect()
}

/// Characteristics of the sections by name.
pub(crate) fn sections(file: &PeFile64<'_>) -> BTreeMap<String, u32> {
    let characteristics = |section: &object::read::pe::PeSection64<'_, '_>| match section.flags() {
        object::SectionFlags::Coff { characteristics, .. } => characteristics.0,
        _ => panic!("not COFF"),
    };
    file.sections().map(|section| (section.name().unwrap().to_owned(), characteristics(&section))).collect()
}

const READ: u32 = pe::IMAGE_SCN_MEM_READ.0;
pub(crate) const WRITE: u32 = pe::IMAGE_SCN_MEM_WRITE.0;
pub(crate) const EXECUTE: u32 = pe::IMAGE_SCN_MEM_EXECUTE.0;
const DISCARD: u32 = pe::IMAGE_SCN_MEM_DISCARDABLE.0;

/// Sections that are unknown or missing, and those whose rights are not the ones known for their name.
fn section_faults(image: &Image, file: &PeFile64<'_>) -> Vec<String> {
    let rights = |name: &str| match name {
        ".text" | "PAGE" => READ | EXECUTE,
        "INIT" => READ | EXECUTE | DISCARD,
        ".data" => READ | WRITE,
        ".reloc" => READ | DISCARD,
        _ => READ,
    };
    let found = sections(file);
    let wanted = image.sections.iter().map(|name| (*name).to_owned()).collect();
    let mut faults = differences("section", &found.keys().cloned().collect(), &wanted);
    let wrong = found.iter().filter(|(name, flags)| rights(name) != **flags & (READ | WRITE | EXECUTE | DISCARD));
    faults.extend(wrong.map(|(name, flags)| format!("section {name} has the rights 0x{flags:08x}")));
    faults
}

/// Relocations that a loader does not know, or that lie outside the sections that stay.
fn relocation_faults(file: &PeFile64<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(mut blocks) = file.data_directories().relocation_blocks(file.data(), &file.section_table()).unwrap()
    else {
        return faults;
    };
    let mut count = 0;
    while let Some(block) = blocks.next().unwrap() {
        for relocation in block {
            let rva = relocation.virtual_address;
            let section = file.section_table().section_containing(rva);
            let stays = section.is_some_and(|section| section.characteristics.get(LE).0 & DISCARD == 0);
            count += 1;
            if relocation.typ != pe::IMAGE_REL_BASED_DIR64 || !stays {
                faults.push(format!("relocation of type {} at RVA 0x{rva:x}", relocation.typ.0));
            }
        }
    }
    if count == 0 {
        faults.push("not a single relocation".to_owned());
    }
    faults
}

/// True if the image names `pdb` as its own, without a path, which would only fit the machine that built it.
fn pdb_faults(image: &Image, file: &PeFile64<'_>, pdb: &[u8]) -> Vec<String> {
    let Some(info) = file.pdb_info().unwrap() else { return vec!["no PDB".to_owned()] };
    let mut symbols = pdb2::PDB::open(std::io::Cursor::new(pdb)).unwrap();
    let information = symbols.pdb_information().unwrap();
    // The image's debug record has the age of the symbols' debug stream.
    let age = symbols.debug_information().unwrap().age().unwrap_or(information.age);
    let rules = [
        (info.path() == image.pdb.as_bytes(), "name of the PDB"),
        ((info.guid(), info.age()) == (information.guid.to_bytes_le(), age), "GUID of the PDB"),
    ];
    rules.iter().filter(|(held, _)| !held).map(|(_, rule)| (*rule).to_owned()).collect()
}

/// Every point in which `bytes`, with `pdb` beside it, is not what `image` is to be.
pub(crate) fn faults(image: &Image, bytes: &[u8], pdb: &[u8]) -> Vec<String> {
    let file = parse(bytes);
    [
        header_faults(image, bytes, &file),
        section_faults(image, &file),
        import_faults(image, &file),
        export_faults(image, &file),
        relocation_faults(&file),
        pdb_faults(image, &file, pdb),
    ]
    .concat()
}

/// The PE checksum: 16-bit ones' complement sum of the file without the checksum field, plus the length. [pe: CheckSum]
pub(crate) fn checksum(bytes: &[u8], file: &PeFile64<'_>) -> u32 {
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
