//! Entry points: each decodes its arguments, names the level it runs at, calls one function and answers a status its DDI may give.

// Every function here is called by the operating system under the prototype of its slot in `DRIVER_INITIALIZATION_DATA`, at the
// level documented for it, with handles of this driver and pointers that are NULL or valid for the length of the call. That is
// the contract behind each `unsafe` block; it is not repeated as a section on every function.

mod answer;
mod call;
pub(crate) mod caps;
pub(crate) mod doorbell;
pub(crate) mod feature;
pub(crate) mod fence;
pub(crate) mod memory;
pub(crate) mod pnp;
pub(crate) mod power;
pub(crate) mod queue;
pub(crate) mod reset;
pub(crate) mod testing;
