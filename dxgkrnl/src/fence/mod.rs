//! Values of fences, below the scheduler: what waits for which, what MonitoredValue must be, what a fence log says, and who may do what with a
//! fence. Nothing here knows an adapter or a driver, so that the models of `models/` check the same files under every schedule.

mod event;
mod log_reader;
mod monitored_waits;
mod packet_fence;
mod rights;
mod signal;
mod wait;

pub(crate) use event::Event;
pub use log_reader::{FenceLog, FenceLogEntry, FenceOperation};
pub(crate) use log_reader::{Reader, Source};
pub(crate) use monitored_waits::{MonitoredWaits, Values};
pub(crate) use packet_fence::{InvalidFence, PacketFences, is_after};
pub(crate) use rights::Rights;
pub(crate) use wait::{UNMONITORED, Wait};
