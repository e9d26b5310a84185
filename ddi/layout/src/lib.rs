//! Holds the declarations of `wddm-ddi` against a table of layout facts.
//!
//! Three texts meet here: the crate's sources ([`source`]), a table of sizes, offsets, bit ranges and values established
//! elsewhere ([`facts`]), and what the compiler made of the sources (constants in a generated file, see [`generate`]).
//! [`check`] compares the last two; the first guarantees that nothing is left out of the comparison. [`windows_sys`] brings what another source makes of the
//! same types; [`arguments`] and [`declared`] write further files from the sources: the members of what thunks are handed, and what two ends of a wire must have alike.

pub mod arguments;
pub mod check;
pub mod declared;
pub mod facts;
pub mod generate;
pub mod header;
mod measure;
pub mod source;
pub mod windows_sys;

pub use check::{BitRange, Counts, Difference, Enumeration, Field, Measured, Record};
pub use facts::{Exceptions, Facts};
pub use source::Source;
