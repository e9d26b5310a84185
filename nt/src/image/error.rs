//! The reason why an image is refused.

use std::fmt;

/// Which kind of image is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// A kernel driver: native subsystem.
    Driver,
    /// A user-mode DLL: Windows subsystem, DLL characteristic.
    Dll,
}

/// The reason why an image was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The file is larger than [`Image::FILE_MAX`](super::Image::FILE_MAX); its size in bytes.
    TooLarge(usize),
    /// The file is not a PE image, or ends inside a structure.
    NotAnImage(String),
    /// The image is for a 32-bit processor.
    Not64Bit,
    /// The image is for another processor; the PE machine number.
    WrongMachine(u16),
    /// The subsystem or the characteristics do not fit the kind asked for.
    WrongKind { wanted: ImageKind, subsystem: u16 },
    /// A header value is out of range.
    BadHeader(&'static str),
    /// A section lies outside the file or the image, overlaps another, or is writable and executable at once.
    BadSection { name: String, problem: &'static str },
    /// A relocation is of an unknown type or outside the image.
    BadRelocation { rva: u32 },
    /// Imports that nothing here provides: the first of them as `module!name`, and how many there are in all.
    UnresolvedImports { first: Vec<String>, all: usize },
    /// An import by ordinal; only names are resolved.
    ImportByOrdinal { module: String, ordinal: u16 },
    /// The image wants thread-local storage or a delay-loaded import, which nothing provides.
    Unsupported(&'static str),
    /// No memory for the image.
    OutOfMemory,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(bytes) => {
                write!(f, "{bytes} bytes, more than the {} MiB that an image may have", super::Image::FILE_MAX >> 20)
            }
            Self::NotAnImage(why) => write!(f, "not a PE image: {why}"),
            Self::Not64Bit => f.write_str("a 32-bit image; only x86-64 images can be loaded"),
            Self::WrongMachine(machine) => write!(f, "for another processor (PE machine 0x{machine:04x}, need 0x8664)"),
            Self::WrongKind { wanted: ImageKind::Driver, subsystem } => {
                write!(f, "not a driver: subsystem {subsystem}, need 1 (native)")
            }
            Self::WrongKind { wanted: ImageKind::Dll, subsystem } => write!(f, "not a DLL (subsystem {subsystem})"),
            Self::BadHeader(what) => write!(f, "bad header: {what}"),
            // Names are the file's own and may have any characters; they are to be read on a terminal.
            Self::BadSection { name, problem } => write!(f, "section {}: {problem}", name.escape_debug()),
            Self::BadRelocation { rva } => write!(f, "bad relocation at RVA 0x{rva:x}"),
            Self::UnresolvedImports { first, all } => {
                let named = first.join(", ");
                write!(f, "unresolved imports: {}", named.escape_debug())?;
                match all.saturating_sub(first.len()) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::ImportByOrdinal { module, ordinal } => {
                write!(f, "import by ordinal: {}#{ordinal}", module.escape_debug())
            }
            Self::Unsupported(what) => write!(f, "the image needs {what}, which is not provided"),
            Self::OutOfMemory => f.write_str("out of memory for the image"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<object::read::Error> for ImageError {
    fn from(error: object::read::Error) -> Self {
        Self::NotAnImage(error.to_string())
    }
}
