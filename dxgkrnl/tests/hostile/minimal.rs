//! The smallest image that has everything the loader reads: three sections, an import, an export, a relocation, a PDB record.

/// Offsets in the file.
pub(crate) mod at {
    pub(crate) const PE: usize = 0x80;
    pub(crate) const MACHINE: usize = PE + 4;
    pub(crate) const SECTIONS: usize = PE + 4 + 2;
    pub(crate) const CHARACTERISTICS: usize = PE + 4 + 18;
    pub(crate) const MAGIC: usize = PE + 24;
    pub(crate) const ENTRY: usize = MAGIC + 16;
    pub(crate) const SECTION_ALIGNMENT: usize = MAGIC + 32;
    pub(crate) const IMAGE_SIZE: usize = MAGIC + 56;
    pub(crate) const HEADERS_SIZE: usize = MAGIC + 60;
    pub(crate) const SUBSYSTEM: usize = MAGIC + 68;
    /// First of the directories, 8 bytes each.
    pub(crate) const DIRECTORIES: usize = MAGIC + 112;
    /// First of the section headers, 40 bytes each.
    pub(crate) const TABLE: usize = DIRECTORIES + 16 * 8;
    pub(crate) const TEXT: usize = 0x200;
    pub(crate) const RDATA: usize = 0x400;
    pub(crate) const RELOC: usize = 0x600;
    /// Import table: names, slots, the hint with the name, the module's name.
    pub(crate) const LOOKUP: usize = RDATA + 0x40;
    pub(crate) const SLOT: usize = RDATA + 0x50;
    pub(crate) const NAME: usize = RDATA + 0x60;
    pub(crate) const MODULE: usize = RDATA + 0x80;
    /// Export table: directory, addresses, names, ordinals.
    pub(crate) const EXPORTS: usize = RDATA + 0xa0;
    pub(crate) const EXPORT_ADDRESSES: usize = RDATA + 0xc8;
    pub(crate) const EXPORT_NAMES: usize = RDATA + 0xcc;
    pub(crate) const EXPORT_ORDINALS: usize = RDATA + 0xd0;
    pub(crate) const EXPORT_NAME: usize = RDATA + 0xd4;
    /// The word that is relocated.
    pub(crate) const POINTER: usize = RDATA + 0xe0;
    pub(crate) const DEBUG: usize = RDATA + 0x100;
    pub(crate) const RSDS: usize = RDATA + 0x120;
}

/// Address of a place in the image, by its offset in the file.
pub(crate) fn rva(offset: usize) -> u32 {
    (match offset {
        at::RELOC.. => offset - at::RELOC + 0x3000,
        at::RDATA.. => offset - at::RDATA + 0x2000,
        at::TEXT.. => offset - at::TEXT + 0x1000,
        _ => offset,
    }) as u32
}

/// An image that is being made.
#[derive(Clone)]
pub(crate) struct Minimal(pub(crate) Vec<u8>);

/// Address at which the image would like to be.
const PREFERRED: u64 = 0x1_4000_0000;
pub(crate) const NATIVE: u16 = 1;
pub(crate) const WINDOWS: u16 = 2;
const READ: u32 = 0x4000_0000;
pub(crate) const WRITE: u32 = 0x8000_0000;
const EXECUTE: u32 = 0x2000_0000;

impl Minimal {
    /// A driver.
    pub(crate) fn new() -> Self {
        let mut it = Self(vec![0; 0x800]);
        it.headers();
        for (index, (name, offset, rights)) in [
            (b".text\0\0\0", at::TEXT, READ | EXECUTE),
            (b".rdata\0\0", at::RDATA, READ),
            (b".reloc\0\0", at::RELOC, READ),
        ]
        .into_iter()
        .enumerate()
        {
            let header = at::TABLE + index * 40;
            it.bytes(header, name);
            for (field, value) in [(8, 0x200), (12, rva(offset)), (16, 0x200), (20, offset as u32), (36, rights)] {
                it.u32(header + field, value);
            }
        }
        // xor eax, eax; ret
        it.bytes(at::TEXT, &[0x31, 0xc0, 0xc3]);
        it.tables();
        it
    }

    /// The same as a DLL.
    pub(crate) fn dll() -> Self {
        let mut it = Self::new();
        it.u16(at::SUBSYSTEM, WINDOWS);
        it
    }

    fn headers(&mut self) {
        self.bytes(0, b"MZ");
        self.u32(0x3c, at::PE as u32);
        self.bytes(at::PE, b"PE\0\0");
        self.u16(at::MACHINE, 0x8664);
        self.u16(at::SECTIONS, 3);
        self.u16(at::MACHINE + 16, 240);
        // Linked, large addresses, DLL.
        self.u16(at::CHARACTERISTICS, 0x2022);
        self.u16(at::MAGIC, 0x20b);
        self.u32(at::ENTRY, rva(at::TEXT));
        self.bytes(at::MAGIC + 24, &PREFERRED.to_le_bytes());
        self.u32(at::SECTION_ALIGNMENT, 0x1000);
        self.u32(at::MAGIC + 36, 0x200);
        self.u32(at::IMAGE_SIZE, 0x4000);
        self.u32(at::HEADERS_SIZE, 0x200);
        self.u16(at::SUBSYSTEM, NATIVE);
        self.u32(at::MAGIC + 108, 16);
        self.directory(0, at::EXPORTS, 0x40);
        self.directory(1, at::RDATA, 40);
        self.directory(5, at::RELOC, 12);
        self.directory(6, at::DEBUG, 28);
    }

    fn tables(&mut self) {
        for (field, offset) in [(0, at::LOOKUP), (12, at::MODULE), (16, at::SLOT)] {
            self.u32(at::RDATA + field, rva(offset));
        }
        self.u32(at::LOOKUP, rva(at::NAME));
        self.u32(at::SLOT, rva(at::NAME));
        self.bytes(at::NAME + 2, b"function\0");
        self.bytes(at::MODULE, b"module.sys\0");
        for (field, value) in [
            (20, 1),
            (24, 1),
            (28, rva(at::EXPORT_ADDRESSES)),
            (32, rva(at::EXPORT_NAMES)),
            (36, rva(at::EXPORT_ORDINALS)),
        ] {
            self.u32(at::EXPORTS + field, value);
        }
        self.u32(at::EXPORT_ADDRESSES, rva(at::TEXT));
        self.u32(at::EXPORT_NAMES, rva(at::EXPORT_NAME));
        self.bytes(at::EXPORT_NAME, b"exported\0");
        self.bytes(at::POINTER, &(PREFERRED + u64::from(rva(at::TEXT))).to_le_bytes());
        // A CodeView record.
        for (field, value) in [(12, 2), (16, 36), (20, rva(at::RSDS)), (24, at::RSDS as u32)] {
            self.u32(at::DEBUG + field, value);
        }
        self.bytes(at::RSDS, b"RSDS");
        self.bytes(at::RSDS + 4, &[0x11; 16]);
        self.u32(at::RSDS + 20, 1);
        self.bytes(at::RSDS + 24, b"minimal.pdb\0");
        self.u32(at::RELOC, 0x2000);
        self.u32(at::RELOC + 4, 12);
        self.u16(at::RELOC + 8, 0xa000 | (at::POINTER - at::RDATA) as u16);
    }

    pub(crate) fn bytes(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn u16(&mut self, offset: usize, value: u16) {
        self.bytes(offset, &value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, offset: usize, value: u32) {
        self.bytes(offset, &value.to_le_bytes());
    }

    /// Points directory `index` to `size` bytes at `offset`.
    pub(crate) fn directory(&mut self, index: usize, offset: usize, size: u32) {
        self.u32(at::DIRECTORIES + index * 8, rva(offset));
        self.u32(at::DIRECTORIES + index * 8 + 4, size);
    }

    /// Makes `.rdata` so many bytes larger, by moving what lies behind it, and returns where they are.
    pub(crate) fn grow(&mut self, bytes: usize) -> usize {
        assert_eq!(bytes % 0x1000, 0);
        self.0.splice(at::RELOC..at::RELOC, std::iter::repeat_n(0, bytes));
        let (rdata, reloc) = (at::TABLE + 40, at::TABLE + 80);
        self.u32(rdata + 8, 0x200 + bytes as u32);
        self.u32(rdata + 16, 0x200 + bytes as u32);
        self.u32(reloc + 12, 0x3000 + bytes as u32);
        self.u32(reloc + 20, (at::RELOC + bytes) as u32);
        self.u32(at::IMAGE_SIZE, 0x4000 + bytes as u32);
        self.u32(at::DIRECTORIES + 5 * 8, 0x3000 + bytes as u32);
        at::RELOC
    }
}
