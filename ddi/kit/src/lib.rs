//! Holds the declarations of `wddm-ddi` against the headers of a Windows Driver Kit.
//!
//! `wddm-ddi` is written by hand and compared with a table of facts wherever its tests run. This crate closes the circle on a
//! machine that has the kit: bindgen reads `dispmprt.h`, `d3dkmddi.h` and `d3dkmthk.h` (`Headers`, feature `bindgen`), the
//! text it writes is parsed ([`Bindings`]), and every structure, union, word, bit field, enumeration, constant and slot that
//! `wddm-ddi` declares is compared with it ([`compare`]). The build scripts of the driver and of the user-mode driver stop at
//! the first difference.
//!
//! Kits are known by the interface version that their headers declare. Where the headers of a later kit are known to differ,
//! the facts are data of this crate ([`kits`]): such a kit is not a failure, but sets the configuration option that it
//! has there ([`Kit::cfg`]), for code that cares. The driver keeps the layouts and the interface version of `wddm-ddi` on
//! every kit, so a binary does not depend on the kit that compiled it.

mod bindings;
mod compare;
mod declared;
mod header;
mod kits;
mod layout;
mod report;
#[cfg(feature = "bindgen")]
mod run;
#[cfg(feature = "bindgen")]
mod script;

pub use bindings::Bindings;
pub use compare::compare;
pub use declared::{BaseRecord, Declared};
pub use header::{INCLUDES, guids, probes};
pub use kits::{Kit, kits};
pub use report::{Agreement, Aspect, Counts, Difference, Disagreement, Failure, Theirs};
#[cfg(feature = "bindgen")]
pub use run::{Error, Headers, Read, require_libclang};
#[cfg(feature = "bindgen")]
pub use script::script;
