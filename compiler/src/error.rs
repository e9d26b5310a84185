//! Reasons for which a SPIR-V module is refused.

use core::fmt;

use rspirv::spirv;

use crate::grammar::class;

/// The reason for which a SPIR-V module is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The words are not a valid module; the sentence says what is wrong with them.
    Malformed(String),
    /// The module is valid, as far as it was read, but uses what the compiler or the GPU does not have: instruction and capability.
    Unsupported(String),
    /// The program would exceed a limit of the GPU or of the compiler; the sentence names it.
    Limit(String),
    /// There is no compute entry point of the name that was asked for.
    EntryPoint(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "malformed module: {what}"),
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
            Self::Limit(what) => write!(f, "too much for a program: {what}"),
            Self::EntryPoint(name) => write!(f, "the module has no compute entry point \"{name}\""),
        }
    }
}

impl std::error::Error for Error {}

/// Result of a step of the compiler.
pub(crate) type Result<T> = core::result::Result<T, Error>;

pub(crate) fn malformed(what: impl Into<String>) -> Error {
    Error::Malformed(what.into())
}

pub(crate) fn limit(what: impl Into<String>) -> Error {
    Error::Limit(what.into())
}

/// The refusal of an instruction: its name, and the capability that declares it where the grammar names one.
pub(crate) fn unsupported(op: spirv::Op) -> Error {
    let Some(class) = class(op as u32) else {
        return Error::Unsupported(format!("Op{op:?}"));
    };
    match class.capabilities.first() {
        Some(capability) => Error::Unsupported(format!("Op{op:?} (capability {capability:?})")),
        None => Error::Unsupported(format!("Op{op:?}")),
    }
}

/// The refusal of a form of an instruction that is supported in others.
pub(crate) fn unsupported_form(op: spirv::Op, form: impl fmt::Display) -> Error {
    Error::Unsupported(format!("Op{op:?} {form}"))
}
