//! The targets. Each says what must hold whatever the input is.

mod package;
mod program;
mod rings;

pub(crate) use package::{inf, pe};
pub(crate) use program::{assembly, packets, programs, spirv};
pub(crate) use rings::rings;
