//! Which driver the machines of this process load.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use dxgkrnl::DriverImage;

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

static CHOICE: OnceLock<DriverChoice> = OnceLock::new();

impl std::str::FromStr for DriverChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "linked" => Self::Linked,
            "pe" => Self::Image(shipped("campanile_kmd.sys")),
            path => Self::Image(path.into()),
        })
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("pe").join(file)
}

impl DriverChoice {
    /// Makes this the driver of every machine that this process boots; the first choice counts.
    pub fn select(self) {
        let _ = CHOICE.set(self);
    }

    /// The selected driver, else what the environment names, else the linked one.
    pub fn selected() -> &'static Self {
        CHOICE.get_or_init(|| match std::env::var(DRIVER_VARIABLE).as_deref().map(str::parse) {
            Ok(Ok(choice)) => choice,
            _ => Self::Linked,
        })
    }

    /// Reads the driver for the machine to load. Symbols are the PDB beside the image, if there is one.
    ///
    /// # Errors
    /// The file cannot be read; the message names it and says what to do.
    pub(super) fn image(&self) -> Result<DriverImage, String> {
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
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().map_or_else(|| "driver".into(), |stem| stem.to_string_lossy().into_owned());
        Ok(DriverImage::Pe { name, bytes, symbols: std::fs::read(path.with_extension("pdb")).ok() })
    }
}
