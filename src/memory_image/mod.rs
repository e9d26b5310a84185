//! A memory image of the kernel-mode driver: what a debugger could read of it at one time, with its symbols and types.
//!
//! `debug/linux.js` runs the commands of the WinDbg script `debug/campanile.js` on such a file. The file is JSON:
//!
//! - `version`: [`VERSION`].
//! - `module`: `name`, `base` and `size` of the driver's image, `pdb` as symbol servers name it.
//! - `ranges`: `address`, `size` and `bytes` in hexadecimal, from which zeros at the end are left out.
//! - `symbols`: statics by name, each with `address` and `type`.
//! - `types`: by name, see [`types::Type`].
//!
//! Addresses are hexadecimal text, as they do not fit into a number of JavaScript.

mod types;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use dxgkrnl::{DriverMemory, Image, MemoryRange};
use serde::Serialize;

use testbed::setup::DriverChoice;
pub use types::{BadTypes, Field, Symbol, Type};

/// Of the file's layout.
pub const VERSION: u32 = 1;

/// Contents of a memory image's file.
#[derive(Debug, Serialize)]
pub struct MemoryImage {
    version: u32,
    module: Module,
    ranges: Vec<Range>,
    symbols: BTreeMap<String, Symbol>,
    types: BTreeMap<String, Type>,
}

#[derive(Debug, Serialize)]
struct Module {
    name: String,
    base: String,
    size: u64,
    pdb: String,
}

#[derive(Debug, Serialize)]
struct Range {
    address: String,
    size: u64,
    bytes: String,
}

impl From<&MemoryRange> for Range {
    fn from(range: &MemoryRange) -> Self {
        let used = range.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut bytes = String::with_capacity(2 * used);
        for byte in range.bytes.iter().take(used) {
            // Writing to a string cannot fail.
            let _ = write!(bytes, "{byte:02x}");
        }
        Self { address: format!("{:#x}", range.address), size: range.bytes.len() as u64, bytes }
    }
}

impl MemoryImage {
    /// The memory that was read of the selected driver, with what its PDB says.
    ///
    /// # Errors
    /// The driver is linked, whose types no PDB has; its PDB is missing, is of another build, or cannot be read.
    pub fn new(memory: &DriverMemory) -> Result<Self, String> {
        let DriverChoice::Image(path) = DriverChoice::selected() else {
            return Err("the driver is linked into this program; take its image with `--driver pe`".to_owned());
        };
        Self::with_pdb(memory, path)
    }

    fn with_pdb(memory: &DriverMemory, driver: &Path) -> Result<Self, String> {
        let path = driver.with_extension("pdb");
        let refuse = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let (base, size) = memory.image.ok_or("the driver has no image")?;
        let image = std::fs::read(driver).map_err(|error| format!("{}: {error}", driver.display()))?;
        let identity = Image::pdb_of(&image).ok_or_else(|| format!("{}: the image names no PDB", driver.display()))?;
        let pdb = std::fs::read(&path).map_err(|error| refuse(&error))?;
        let (symbols, types) = types::read(&pdb, &identity, base).map_err(|error| refuse(&error))?;
        Ok(Self {
            version: VERSION,
            module: Module { name: memory.name.clone(), base: format!("{base:#x}"), size, pdb: identity.to_string() },
            ranges: memory.ranges.iter().map(Range::from).collect(),
            symbols,
            types,
        })
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let file = io::BufWriter::new(std::fs::File::create(path)?);
        serde_json::to_writer(file, self).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_of_a_range_are_left_out() {
        let range = |bytes: &[u8]| Range::from(&MemoryRange { address: 0xfff0_0000_0000, bytes: bytes.to_vec() });
        let some = range(&[0, 1, 0xab, 0, 0]);
        assert_eq!((some.address.as_str(), some.size, some.bytes.as_str()), ("0xfff000000000", 5, "0001ab"));
        assert_eq!((range(&[0; 3]).size, range(&[0; 3]).bytes.as_str()), (3, ""));
    }
}
