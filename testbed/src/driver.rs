//! Which driver the machines of this process load.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::digest::Sha256;
use crate::image_file;
use dxgkrnl::{DriverImage, Image};

/// A driver to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// The driver linked into this program.
    Linked,
    /// A driver image.
    Image(PathBuf),
}

/// Environment variable that names the driver when the command line does not: `linked`, `pe` or a path.
pub const DRIVER_VARIABLE: &str = "CAMPANILE_DRIVER";

/// Largest PDB that is read beside an image, in bytes.
const PDB_MAX: usize = 256 << 20;

static CHOICE: OnceLock<DriverChoice> = OnceLock::new();

/// Any path is a choice; whether a driver is there is seen when it is loaded.
impl From<OsString> for DriverChoice {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some("linked") => Self::Linked,
            Some("pe") => Self::Image(shipped("campanile_kmd.sys")),
            _ => Self::Image(text.into()),
        }
    }
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linked => f.write_str("linked"),
            Self::Image(path) => path.display().fmt(f),
        }
    }
}

/// Where `cargo xtask pe` puts a file: `target/pe` of the repository that this program was built in.
pub fn shipped(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join("pe").join(file)
}

impl DriverChoice {
    /// Makes this the driver of every machine that this process boots; the first choice counts.
    pub fn select(self) {
        let _ = CHOICE.set(self);
    }

    /// The selected driver, else what the environment names, else the linked one.
    pub fn selected() -> &'static Self {
        CHOICE.get_or_init(|| match std::env::var_os(DRIVER_VARIABLE) {
            Some(text) if !text.is_empty() => text.into(),
            _ => Self::Linked,
        })
    }

    /// True for an image that is not the one of this repository.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Image(_)) && !self.is_shipped()
    }

    /// True for the image that `cargo xtask pe` builds from this repository.
    pub(crate) fn is_shipped(&self) -> bool {
        matches!(self, Self::Image(path) if *path == shipped("campanile_kmd.sys"))
    }

    /// Reads the driver for the machine to load. Symbols are the PDB beside the image, if there is one.
    ///
    /// # Errors
    /// The file cannot be read; the message names it and says what to do.
    pub(crate) fn image(&self) -> Result<DriverImage, String> {
        let path = match self {
            Self::Linked => {
                return Ok(DriverImage::Linked {
                    name: "campanile_kmd".into(),
                    bind: campanile_kmd::bind_imports,
                    entry: campanile_kmd::DriverEntry,
                });
            }
            Self::Image(path) => path,
        };
        let bytes = image_file::read(path, Image::FILE_MAX).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().map_or_else(|| "driver".into(), |stem| stem.to_string_lossy().into_owned());
        // A driver without symbols works as well; only what it does wrong has no name.
        let symbols = image_file::read(&path.with_extension("pdb"), PDB_MAX).ok();
        Ok(DriverImage::Pe { name, bytes, symbols })
    }

    /// SHA-256 of the image, in hexadecimal digits.
    pub(crate) fn sha256(&self) -> Option<String> {
        let Self::Image(path) = self else { return None };
        let bytes = image_file::read(path, Image::FILE_MAX).ok()?;
        let mut digest = Sha256::default();
        digest.update(&bytes);
        Some(digest.hex())
    }

    /// What was selected, and which build of it: for an image its path and the identity of its PDB, as symbol servers have it.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::Linked => self.to_string(),
            Self::Image(path) => {
                let bytes = image_file::read(path, Image::FILE_MAX).unwrap_or_default();
                with_pdb(path, Image::pdb_of(&bytes).as_ref())
            }
        }
    }
}

/// A path with the identity of the PDB that belongs to the file.
pub(crate) fn with_pdb(path: &Path, pdb: Option<&dxgkrnl::PdbIdentity>) -> String {
    match pdb {
        Some(pdb) => format!("{} (PDB {pdb})", path.display()),
        None => format!("{} (without PDB)", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_word_or_any_path() {
        let choice = |text: &str| DriverChoice::from(OsString::from(text));
        assert_eq!(choice("linked"), DriverChoice::Linked);
        assert_eq!(choice("pe"), DriverChoice::Image(shipped("campanile_kmd.sys")));
        assert_eq!(choice("./pe"), DriverChoice::Image("./pe".into()));
        assert_eq!(choice("a b/other.sys"), DriverChoice::Image("a b/other.sys".into()));
    }

    #[test]
    fn an_image_is_known_by_its_path_and_its_pdb() {
        assert_eq!(DriverChoice::Linked.identity(), "linked");
        let missing = DriverChoice::Image("nowhere/other.sys".into());
        assert_eq!(missing.identity(), "nowhere/other.sys (without PDB)");
        let mut guid = [0; 16];
        guid[..8].copy_from_slice(&[0x78, 0x56, 0x34, 0x12, 0xcd, 0xab, 0x01, 0xef]);
        guid[15] = 0xff;
        let pdb = dxgkrnl::PdbIdentity { file: "other.pdb".into(), guid, age: 0x1a };
        assert_eq!(with_pdb(Path::new("other.sys"), Some(&pdb)), "other.sys (PDB 12345678ABCDEF0100000000000000FF1A)");
    }
}
