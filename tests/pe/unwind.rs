//! Stack frames from the x64 unwind information in `.pdata` and `.xdata`.

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::PeFile64;

/// One function, or one part of a function that has an entry of its own, and its fixed frame.
#[derive(Debug)]
pub(crate) struct Frame {
    /// First byte.
    pub(crate) rva: u32,
    /// One past the last byte.
    pub(crate) end: u32,
    /// Saved registers and locals, in bytes.
    pub(crate) bytes: u32,
    /// The entry continues that of another part, so that its own code does not hold the whole prologue.
    pub(crate) chained: bool,
}

/// Bytes of the image from `rva` to the end of its section.
pub(crate) fn at<'data>(file: &PeFile64<'data>, rva: u32) -> &'data [u8] {
    file.section_table().pe_data_at(file.data(), rva).unwrap_or_else(|| panic!("RVA 0x{rva:x} is in no section"))
}

/// Every function that has unwind information, in the order of the table, which is by address.
pub(crate) fn frames(file: &PeFile64<'_>) -> Vec<Frame> {
    let directory = file.data_directories().get(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION).expect("no .pdata");
    let table = &at(file, directory.virtual_address.get(LE))[..directory.size.get(LE) as usize];
    table
        .chunks_exact(12)
        .map(|entry| {
            let word = |index: usize| u32::from_le_bytes(entry[index * 4..index * 4 + 4].try_into().unwrap());
            let mut info = Info::read(at(file, word(2)));
            let (mut bytes, chained) = (info.bytes, info.chained_to.is_some());
            while let Some(next) = info.chained_to {
                info = Info::read(at(file, next));
                bytes += info.bytes;
            }
            Frame { rva: word(0), end: word(1), bytes, chained }
        })
        .collect()
}

/// What an `UNWIND_INFO` says. [pe: UNWIND_INFO]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// Bytes that the described prologue takes.
    pub(crate) bytes: u32,
    /// RVA of the `UNWIND_INFO` that this one continues.
    pub(crate) chained_to: Option<u32>,
}

impl Info {
    /// Reads the structure at the start of `info`.
    pub(crate) fn read(info: &[u8]) -> Self {
        const CHAINED: u8 = 4;
        assert_eq!(info[0] & 7, 1, "version of UNWIND_INFO");
        let (flags, count) = (info[0] >> 3, usize::from(info[2]));
        let codes: Vec<u16> =
            info[4..4 + count * 2].chunks_exact(2).map(|code| u16::from_le_bytes([code[0], code[1]])).collect();
        let mut bytes = 0_u32;
        let mut index = 0;
        while index < codes.len() {
            let (operation, detail) = ((codes[index] >> 8) & 0xf, u32::from(codes[index] >> 12));
            let (size, slots) = match (operation, detail) {
                // UWOP_PUSH_NONVOL
                (0, _) => (8, 1),
                // UWOP_ALLOC_LARGE, in units of 8 bytes or in bytes
                (1, 0) => (u32::from(codes[index + 1]) * 8, 2),
                (1, _) => (u32::from(codes[index + 1]) | u32::from(codes[index + 2]) << 16, 3),
                // UWOP_ALLOC_SMALL
                (2, _) => (detail * 8 + 8, 1),
                // UWOP_SET_FPREG
                (3, _) => (0, 1),
                // UWOP_SAVE_NONVOL, UWOP_SAVE_XMM128, and their far forms
                (4 | 8, _) => (0, 2),
                (5 | 9, _) => (0, 3),
                other => panic!("unknown unwind operation {other:?}"),
            };
            bytes += size;
            index += slots;
        }
        let chained_to = (flags & CHAINED != 0).then(|| {
            let entry = 4 + count.next_multiple_of(2) * 2;
            u32::from_le_bytes(info[entry + 8..entry + 12].try_into().unwrap())
        });
        Self { bytes, chained_to }
    }
}

#[test]
fn every_way_to_take_stack_is_counted() {
    // push rbp; push rsi; sub rsp, 0x20; movaps [rsp+..], xmm6
    let codes = [0x68, 0x08, 0x02, 0x00, 0x04, 0x32, 0x02, 0x60, 0x01, 0x50];
    let mut info = vec![1, 8, 5, 0];
    info.extend(codes);
    assert_eq!(Info::read(&info), Info { bytes: 0x20 + 16, chained_to: None });
    // sub rsp, 0x1000 in units of 8; sub rsp, 0x12340 in bytes
    assert_eq!(Info::read(&[1, 7, 2, 0, 7, 0x01, 0x00, 0x02]).bytes, 0x1000);
    assert_eq!(Info::read(&[1, 7, 3, 0, 7, 0x11, 0x40, 0x23, 0x01, 0x00]).bytes, 0x12340);
}

#[test]
fn an_entry_that_continues_another_names_it() {
    let mut info = vec![4 << 3 | 1, 0, 1, 0, 0x01, 0x30, 0, 0];
    info.extend([0x1000_u32, 0x1010, 0x2000].map(u32::to_le_bytes).concat());
    assert_eq!(Info::read(&info), Info { bytes: 8, chained_to: Some(0x2000) });
}
