//! Names for addresses in an image, from its PDB.

use std::io::Cursor;

use super::PdbIdentity;

/// Symbols of one image.
pub(crate) struct Symbols {
    pdb: Vec<u8>,
}

impl Symbols {
    /// The symbols in `pdb`, if they belong to the image that wants `wanted`.
    pub(crate) fn new(pdb: Vec<u8>, wanted: Option<&PdbIdentity>) -> Option<Self> {
        let wanted = wanted?;
        let symbols = Self { pdb };
        let belongs = {
            let mut pdb = symbols.open()?;
            let header = pdb.pdb_information().ok()?;
            header.guid.to_bytes_le() == wanted.guid && header.age == wanted.age
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
