//! GPU page tables: four levels of 512 entries over 48-bit addresses.
//!
//! Level 3 is the root, level 0 has the leaves. A table is one 4-KiB page. A leaf may lie at level 0 (4 KiB or, when the directory entry
//! above says so, 64 KiB) or be a large page at any level above, as long as what the entry covers: 2 MiB at level 1, 1 GiB at level 2, 512
//! GiB at level 3. A 64-KiB leaf table has 32 entries.

/// Bits of a GPU virtual address.
pub const VA_BITS: u32 = 48;
/// Levels of the page table.
pub const LEVELS: u32 = 4;
/// Level of the root.
pub const ROOT_LEVEL: u32 = LEVELS - 1;
/// Index bits of each level.
pub const INDEX_BITS: u32 = 9;
/// Entries of a table.
pub const ENTRIES: u64 = 1 << INDEX_BITS;
/// Bytes of a table.
pub const TABLE_SIZE: u64 = ENTRIES * 8;
/// Entries of a leaf table of 64-KiB pages.
pub const ENTRIES_64K: u64 = 32;
/// Small page.
pub const PAGE_4K: u64 = 4 << 10;
/// Medium page.
pub const PAGE_64K: u64 = 64 << 10;
/// Large page at level 1.
pub const PAGE_2M: u64 = 2 << 20;

word! {
    /// Page-table entry. [`directory_bits`] and [`leaf_bits`] say which bits mean something where; all others are zero.
    pub struct Pte: u64 {
        /// The entry is in use. Clear: any access faults.
        1 valid: bool,
        /// Reads return zero and writes are dropped, or fault if READ_ONLY is set too; FRAME is ignored.
        1 zero: bool,
        /// Accesses snoop CPU caches.
        1 coherent: bool,
        /// Writes fault.
        1 read_only: bool,
        /// Programs are not fetched from here.
        1 no_execute: bool,
        /// The target lies in system memory; clear for VRAM.
        1 system: bool,
        /// Large page: a leaf of all that the entry covers. Not at level 0.
        1 large: bool,
        /// The table below is a leaf table of 64-KiB pages. Level 1 only.
        1 leaf_64k: bool,
        4 ignored: u8,
        /// Bits 51:12 of the target's address. A leaf must be aligned to its size.
        40 frame: u64,
        reserved 12 as u16,
    }
}

impl Pte {
    /// Address of the table or page that the entry names, in VRAM or system memory.
    pub const fn address(self) -> u64 {
        self.frame() << 12
    }

    /// This entry with another address; bits below the page size are lost.
    #[must_use]
    pub const fn with_address(self, address: u64) -> Self {
        self.with_frame((address >> 12) & ((1 << 40) - 1))
    }
}

/// Bits that an entry of `level` may have set if it is a directory entry: one that names another table. Level 0 has none.
pub const fn directory_bits(level: u32) -> u64 {
    const PLAIN: Pte = Pte::new().with_valid(true).with_system(true).with_ignored(0xf).with_frame((1 << 40) - 1);
    match level {
        0 => 0,
        1 => PLAIN.with_leaf_64k(true).into_bits(),
        _ => PLAIN.into_bits(),
    }
}

/// Bits that an entry of `level` may have set if it is a leaf: one that names a page.
pub const fn leaf_bits(level: u32) -> u64 {
    const LARGE: Pte = Pte::from_bits(directory_bits(ROOT_LEVEL))
        .with_zero(true)
        .with_coherent(true)
        .with_read_only(true)
        .with_no_execute(true)
        .with_large(true);
    if level == 0 { LARGE.with_large(false).into_bits() } else { LARGE.into_bits() }
}

/// Index of the entry for `va` in a table of `level`.
pub const fn index(va: u64, level: u32) -> u64 {
    (va >> (12 + INDEX_BITS * level)) & (ENTRIES - 1)
}

/// Index of the entry for `va` in a leaf table of 64-KiB pages.
pub const fn index_64k(va: u64) -> u64 {
    (va >> 16) & (ENTRIES_64K - 1)
}

/// Bytes that one entry of a table of `level` covers.
pub const fn coverage(level: u32) -> u64 {
    PAGE_4K << (INDEX_BITS * level)
}
