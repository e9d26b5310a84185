//! The driver package for Windows, made and checked without Windows: the INF by the rules that Windows 11 puts on an isolated driver package, the
//! version resource of both images, the catalog, the signatures.
//!
//! What this crate holds to be right has been accepted by tools on Linux. Nobody has installed the package on Windows yet.

pub mod catalog;
pub mod image;
pub mod inf;
pub mod lint;
pub mod package;
pub mod resource;
mod sign;
pub mod stamp;
