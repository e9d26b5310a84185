//! Native fences and their logs.

pub(crate) mod log;
pub(crate) mod native;
pub(crate) mod object;
pub(crate) mod system;
