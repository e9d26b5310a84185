//! The emulated function as its programming manual describes it, seen from the bus.

mod compute;
mod config;
mod doorbells;
mod events;
mod faults;
mod fence_log;
mod fences;
mod held;
use campanile_device::testing as host;
mod hostile;
mod packets;
mod page_table_updates;
mod paging;
mod posted;
mod power;
mod priority;
mod queues;
mod registers;
mod removal;
mod resets;
mod roots;
mod scale;
mod scheduling_log;
mod sleep;
mod statuses;
mod system_fences;
mod threads;
