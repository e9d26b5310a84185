//! The targets. Each says what must hold whatever the input is.

mod package;
mod program;

pub(crate) use package::{inf, pe};
pub(crate) use program::{assembly, packets, programs, spirv};
