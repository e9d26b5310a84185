//! Names for addresses in an image, from its PDB.

use std::io::Cursor;

/// Symbols of one image.
pub(crate) struct Symbols {
    pdb: Vec<u8>,
}

impl Symbols {
    /// The symbols in `pdb`, if they belong to the image whose debug directory names `wanted` (path, GUID, age).
    pub(crate) fn new(pdb: Vec<u8>, wanted: Option<(&str, [u8; 16], u32)>) -> Option<Self> {
        let (_, guid, age) = wanted?;
        let symbols = Self { pdb };
        let belongs = {
            let mut pdb = symbols.open()?;
            let header = pdb.pdb_information().ok()?;
            header.guid.to_bytes_le() == guid && header.age == age
        };
        belongs.then_some(symbols)
    }

    fn open(&self) -> Option<pdb2::PDB<'_, Cursor<&Vec<u8>>>> {
        pdb2::PDB::open(Cursor::new(&self.pdb)).ok()
    }

    /// Function, file and line of an offset in the image. Reads the PDB anew: it is asked once, when a driver has faulted.
    pub(crate) fn describe(&self, rva: u32) -> Option<String> {
        let data = pdb_addr2line::ContextPdbData::try_from_pdb(self.open()?).ok()?;
        let context = data.make_context().ok()?;
        let frames = context.find_frames(rva).ok()??;
        let frame = frames.frames.first()?;
        let function = frame.function.as_deref().unwrap_or("?");
        match (frame.file.as_deref(), frame.line) {
            (Some(file), Some(line)) => Some(format!("{function} ({file}:{line})")),
            _ => Some(function.to_owned()),
        }
    }
}
