//! The targets. Each says what must hold whatever the input is.

#[cfg(feature = "machine")]
mod debug_data;
#[cfg(feature = "machine")]
mod executors;
#[cfg(feature = "machine")]
mod machine;
mod machine_messages;
mod package;
#[cfg(feature = "machine")]
mod private;
mod program;
#[cfg(feature = "machine")]
mod rings;
#[cfg(feature = "machine")]
mod thunks;
#[cfg(feature = "machine")]
mod trace;
#[cfg(feature = "machine")]
mod vfio_user;
#[cfg(feature = "machine")]
mod walks;

#[cfg(feature = "machine")]
pub(crate) use debug_data::debug_data;
#[cfg(feature = "machine")]
pub(crate) use executors::executors;
pub(crate) use machine_messages::machine_messages;
pub(crate) use package::{inf, pe};
#[cfg(feature = "machine")]
pub(crate) use private::private;
pub(crate) use program::{assembly, packets, programs, spirv};
#[cfg(feature = "machine")]
pub(crate) use rings::rings;
#[cfg(feature = "machine")]
pub(crate) use thunks::thunks;
#[cfg(feature = "machine")]
pub(crate) use trace::trace;
#[cfg(feature = "machine")]
pub(crate) use vfio_user::vfio_user;
#[cfg(feature = "machine")]
pub(crate) use walks::walks;

/// Inputs that begin with the word FAIL do not hold, so that it can be seen whether an engine finds an input and what it reports then.
pub(crate) fn planted(data: &[u8]) {
    // Letter by letter, so that an engine that is told of branches sees that it comes nearer.
    let equal = |(byte, letter): &(&u8, &u8)| std::hint::black_box(*byte) == *letter;
    assert!(data.iter().zip(b"FAIL").take_while(equal).count() < 4, "the input begins with FAIL");
}
