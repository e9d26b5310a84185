//! Kernel side: what `dxgkrnl` calls in the driver (`DxgkDdi*`) and what the driver calls back (`DxgkCb*`).

mod caps;
mod constants;
mod doorbell;
mod feature;
mod fence;
mod interface;
mod interrupt;
mod memory;
mod paging;
mod pnp;
mod queue;
mod reset;
mod table;

pub use caps::*;
pub use constants::*;
pub use doorbell::*;
pub use feature::*;
pub use fence::*;
pub use interface::*;
pub use interrupt::*;
pub use memory::*;
pub use paging::*;
pub use pnp::*;
pub use queue::*;
pub use reset::*;
pub use table::*;
