//! Names for addresses in an image, from its PDB.

use std::io::Cursor;

use super::PdbIdentity;

/// Symbols of one image.
pub struct Symbols {
    pdb: Vec<u8>,
}

impl Symbols {
    /// The symbols in `pdb`, if they belong to the image that wants `wanted`.
    pub fn new(pdb: Vec<u8>, wanted: Option<&PdbIdentity>) -> Option<Self> {
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

    /// Function, file and line number of an offset in the image. Where functions of Rust's own library were compiled into one of the
    /// driver's, it is the driver's that counts. Reads the PDB anew: it is asked once, when a driver has faulted.
    pub fn describe(&self, rva: u32) -> Option<Source> {
        self.describe_inlined(rva).into_iter().next()
    }

    /// The same, and behind it the functions that it was compiled into, up to the one that has a frame.
    pub fn describe_inlined(&self, rva: u32) -> Vec<Source> {
        let frames = || {
            let data = pdb_addr2line::ContextPdbData::try_from_pdb(self.open()?).ok()?;
            let context = data.make_context().ok()?;
            let is_library = |file: &str| {
                let file = file.replace('\\', "/");
                ["core", "alloc", "compiler-builtins"].iter().any(|part| file.contains(&format!("library/{part}/")))
            };
            let frames = context.find_frames(rva).ok()??.frames;
            let own = frames.iter().position(|frame| frame.file.as_deref().is_some_and(|file| !is_library(file)));
            let sources = frames.iter().skip(own.unwrap_or(0)).map(|frame| {
                let (function, file) = (frame.function.as_deref(), frame.file.as_deref());
                Source { function: function.map(str::to_owned), file: file.map(str::to_owned), line: frame.line }
            });
            Some(sources.collect())
        };
        frames().unwrap_or_default()
    }
}

/// A place in the source.
#[derive(Default)]
pub struct Source {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}
