//! Negative controls: each image with one thing wrong, and its checksum right again, must be found wrong in that point alone.

use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};
use object::{Object, ObjectSection};

use crate::image::{DLL, DRIVER, EXECUTE, IMAGES, Image, WRITE, built, checksum, faults, parse};

/// Offsets behind the PE signature.
const MACHINE: usize = 4;
const CHARACTERISTICS: usize = MACHINE + 18;
const OPTIONAL: usize = MACHINE + 20;
const SECTION_ALIGNMENT: usize = OPTIONAL + 32;
const SUBSYSTEM_VERSION: usize = OPTIONAL + 48;
const CHECKSUM: usize = OPTIONAL + 64;
const SUBSYSTEM: usize = OPTIONAL + 68;
const PLACEMENT: usize = OPTIONAL + 70;
const DIRECTORIES: usize = OPTIONAL + 112;
const SECTIONS: usize = DIRECTORIES + 16 * 8;

/// An image that is changed, with the offset of its PE header.
struct Altered {
    bytes: Vec<u8>,
    header: usize,
}

impl Altered {
    fn of(image: &Image) -> Self {
        let bytes = built(image.file);
        let header = parse(&bytes).dos_header().nt_headers_offset() as usize;
        Self { bytes, header }
    }

    fn u16(&mut self, field: usize, value: u16) {
        let at = self.header + field;
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// Offset of the first occurrence of `text` in the file.
    fn find(&self, text: &[u8]) -> usize {
        self.bytes.windows(text.len()).position(|window| window == text).expect("the text is in the file")
    }

    fn replace(&mut self, text: &[u8], by: &[u8]) {
        let at = self.find(text);
        self.bytes[at..at + by.len()].copy_from_slice(by);
    }

    /// The header of a section.
    fn section(&self, name: &[u8]) -> usize {
        let table = self.header + SECTIONS;
        let mut headers = (0..16).map(|index| table + index * 40);
        headers.find(|at| self.bytes[*at..].starts_with(name)).expect("the section is there")
    }

    /// Writes the checksum that fits, as the linker does.
    fn seal(&mut self) {
        let sum = checksum(&self.bytes, &parse(&self.bytes));
        let at = self.header + CHECKSUM;
        self.bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// What is found wrong with an image after a change, its checksum being right.
fn found(image: &Image, change: impl FnOnce(&mut Altered)) -> Vec<String> {
    let mut altered = Altered::of(image);
    change(&mut altered);
    altered.seal();
    faults(image, &altered.bytes, &built(image.pdb))
}

#[test]
fn an_image_that_was_only_sealed_again_is_as_good_as_before() {
    for image in IMAGES {
        assert_eq!(found(image, |_| {}), Vec::<String>::new(), "{}", image.file);
    }
}

#[test]
fn a_changed_header_is_noticed_in_each_image() {
    for image in IMAGES {
        let other = if image.subsystem == DRIVER.subsystem { DLL.subsystem } else { DRIVER.subsystem };
        for (field, value, expected) in [
            (MACHINE, 0xaa64, "machine"),
            (CHARACTERISTICS, 0x2023, "relocations stripped"),
            (CHARACTERISTICS, 0x2020, "characteristics"),
            (CHARACTERISTICS, 0x0022, "characteristics"),
            (SECTION_ALIGNMENT, 0x2000, "section alignment"),
            (SUBSYSTEM_VERSION, 6, "subsystem version"),
            (SUBSYSTEM, other, "subsystem"),
            // Fixed address; data that may be executed; 32-bit addresses; a control flow guard without its tables.
            (PLACEMENT, 0x0120, "placement or execution protection"),
            (PLACEMENT, 0x0060, "placement or execution protection"),
            (PLACEMENT, 0x0140, "placement or execution protection"),
            (PLACEMENT, 0x4160, "placement or execution protection"),
            // The directories are pairs of address and size.
            (DIRECTORIES + 3 * 8 + 4, 0, "no unwind information"),
            (DIRECTORIES + 9 * 8, 0x1000, "thread-local storage"),
            (DIRECTORIES + 10 * 8, 0x1000, "load configuration"),
            (DIRECTORIES + 13 * 8, 0x1000, "delay-loaded imports"),
            (DIRECTORIES + 14 * 8, 0x1000, "managed code"),
        ] {
            let faults = found(image, |altered| altered.u16(field, value));
            assert_eq!(faults, [expected], "{}: 0x{value:x} at {field}", image.file);
        }
    }
    let without = found(&DRIVER, |altered| {
        altered.u16(OPTIONAL + 16, 0);
        altered.u16(OPTIONAL + 18, 0);
    });
    assert_eq!(without, ["entry point"]);
    assert_eq!(found(&DLL, |altered| altered.u16(OPTIONAL + 16, 0x1000)), ["entry point"]);
}

#[test]
fn a_single_changed_byte_of_code_breaks_the_checksum() {
    for image in IMAGES {
        let mut altered = Altered::of(image);
        altered.bytes[0x1234] ^= 1;
        assert_eq!(faults(image, &altered.bytes, &built(image.pdb)), ["checksum"], "{}", image.file);
    }
}

#[test]
fn an_import_that_is_not_listed_is_named_and_so_is_the_one_that_is_missing() {
    let faults = found(&DRIVER, |altered| altered.replace(b"KeGetCurrentIrql\0", b"ZzGetCurrentIrql"));
    assert_eq!(
        faults,
        ["import ntoskrnl.exe!ZzGetCurrentIrql is not listed", "import ntoskrnl.exe!KeGetCurrentIrql is missing"]
    );
    let faults = found(&DLL, |altered| altered.replace(b"GetProcAddress\0", b"GetProcAddresz"));
    assert_eq!(
        faults,
        ["import kernel32.dll!GetProcAddresz is not listed", "import kernel32.dll!GetProcAddress is missing"]
    );
}

#[test]
fn another_module_is_noticed_with_all_its_imports() {
    for (image, module, by) in [(&DRIVER, "ntoskrnl.exe", "win32kxx.sys"), (&DLL, "kernel32.dll", "ucrtbase.dll")] {
        let count = crate::image::imports(&parse(&built(image.file)))[module].len();
        let faults = found(image, |altered| altered.replace(format!("{module}\0").as_bytes(), by.as_bytes()));
        let more = faults.iter().filter(|fault| fault.starts_with(&format!("import {by}!"))).count();
        let less = faults.iter().filter(|fault| fault.starts_with(&format!("import {module}!"))).count();
        assert_eq!((more, more + less), (count, faults.len()), "{faults:?}");
        assert!(less > 3, "{faults:?}");
    }
}

#[test]
fn another_export_is_noticed_and_so_is_the_one_that_is_missing() {
    let faults = found(&DRIVER, |altered| altered.replace(b"_fltused\0", b"Surprise"));
    assert_eq!(
        faults,
        ["export Surprise is not listed", "export _fltused is missing", "export Surprise is no function of the image"]
    );
    let faults = found(&DLL, |altered| altered.replace(b"campanile_submit\0", b"campanile_zubmit"));
    assert_eq!(faults, ["export campanile_zubmit is not listed", "export campanile_submit is missing"]);
}

#[test]
fn an_export_that_is_data_or_comes_from_elsewhere_is_noticed() {
    let file = built(DLL.file);
    let parsed = parse(&file);
    let table = parsed.export_table().unwrap().unwrap();
    let directory = parsed.data_directories().get(object::pe::IMAGE_DIRECTORY_ENTRY_EXPORT).unwrap();
    let addresses = table.directory().address_of_functions.get(object::LittleEndian);
    let data = parsed.section_by_name(".rdata").unwrap().address() - parsed.relative_address_base();
    // An address inside the export directory means that another module has the function.
    for rva in [data as u32, directory.virtual_address.get(object::LittleEndian) + 40] {
        let at = offset_of(&parsed, addresses);
        let faults = found(&DLL, |altered| {
            altered.bytes[at..at + 4].copy_from_slice(&rva.to_le_bytes());
            // The name of the module, if it is to be one.
            if rva as u64 != data {
                let text = offset_of(&parsed, rva);
                altered.bytes[text..text + 4].copy_from_slice(b"a.b\0");
            }
        });
        assert!(faults.iter().any(|fault| fault.ends_with("is no function of the image")), "{faults:?}");
    }
}

/// Offset in the file of an address in the image.
fn offset_of(file: &PeFile64<'_>, rva: u32) -> usize {
    file.section_table().pe_file_range_at(rva).expect("in a section").0 as usize
}

#[test]
fn a_section_with_more_rights_or_an_unknown_name_is_noticed() {
    for image in IMAGES {
        for (name, rights) in [(&b".text"[..], WRITE), (b".data", EXECUTE), (b".rdata", WRITE), (b".pdata", EXECUTE)] {
            let faults = found(image, |altered| {
                let at = altered.section(name);
                altered.bytes[at + 39] |= (rights >> 24) as u8;
            });
            let expected = format!("section {} has the rights", String::from_utf8_lossy(name));
            // Exports are expected in code: some faults may follow from the first.
            assert!(faults.first().is_some_and(|fault| fault.starts_with(&expected)), "{}: {faults:?}", image.file);
        }
        let faults = found(image, |altered| {
            let at = altered.section(b".text");
            altered.bytes[at..at + 5].copy_from_slice(b".evil");
        });
        assert_eq!(faults[..2], ["section .evil is not listed", "section .text is missing"], "{}", image.file);
    }
    let faults = found(&DRIVER, |altered| {
        // INIT that stays after initialisation.
        let at = altered.section(b"INIT");
        altered.bytes[at + 39] &= !0x02;
    });
    assert_eq!(faults, ["section INIT has the rights 0x60000020"]);
}

#[test]
fn relocations_of_another_type_or_in_discarded_sections_are_noticed() {
    for image in IMAGES {
        let file = built(image.file);
        let parsed = parse(&file);
        let reloc = parsed.section_by_name(".reloc").unwrap().file_range().unwrap().0 as usize;
        let faults = found(image, |altered| altered.bytes[reloc + 9] = altered.bytes[reloc + 9] & 0x0f | 0x30);
        assert_eq!(faults.len(), 1, "{}: {faults:?}", image.file);
        assert!(faults[0].starts_with("relocation of type 3 at RVA 0x"), "{}: {faults:?}", image.file);
        let outside = parsed.nt_headers().optional_header().size_of_image();
        let faults = found(image, |altered| altered.bytes[reloc..reloc + 4].copy_from_slice(&outside.to_le_bytes()));
        assert!(
            !faults.is_empty() && faults.iter().all(|fault| fault.starts_with("relocation of type 10")),
            "{faults:?}"
        );
        let none = found(image, |altered| altered.u16(DIRECTORIES + 5 * 8 + 4, 0));
        assert_eq!(none, ["no relocations", "not a single relocation"], "{}", image.file);
    }
}

#[test]
fn another_pdb_is_noticed_by_name_guid_and_age() {
    for image in IMAGES {
        for (byte, expected) in
            [(4, "GUID of the PDB"), (19, "GUID of the PDB"), (20, "GUID of the PDB"), (24, "name of the PDB")]
        {
            let faults = found(image, |altered| {
                let record = altered.find(b"RSDS");
                altered.bytes[record + byte] ^= 1;
            });
            assert_eq!(faults, [expected], "{}", image.file);
        }
    }
    let swapped = faults(&DLL, &built(DLL.file), &built(DRIVER.pdb));
    assert_eq!(swapped, ["GUID of the PDB"]);
}
