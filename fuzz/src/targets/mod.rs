//! The targets. Each says what must hold whatever the input is.

mod debug_data;
mod executors;
mod machine;
mod machine_messages;
mod package;
mod private;
mod program;
mod rings;
mod thunks;
mod vfio_user;
mod walks;

pub(crate) use debug_data::debug_data;
pub(crate) use executors::executors;
pub(crate) use machine_messages::machine_messages;
pub(crate) use package::{inf, pe};
pub(crate) use private::private;
pub(crate) use program::{assembly, packets, programs, spirv};
pub(crate) use rings::rings;
pub(crate) use thunks::thunks;
pub(crate) use vfio_user::vfio_user;
pub(crate) use walks::walks;

/// Inputs that begin with the word FAIL do not hold, so that it can be seen whether an engine finds an input and what it reports then.
pub(crate) fn planted(data: &[u8]) {
    // Letter by letter, so that an engine that is told of branches sees that it comes nearer.
    let equal = |(byte, letter): &(&u8, &u8)| std::hint::black_box(*byte) == *letter;
    assert!(data.iter().zip(b"FAIL").take_while(equal).count() < 4, "the input begins with FAIL");
}
