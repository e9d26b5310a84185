//! An adapter: one started function or several that are linked, their driver, and everything the system keeps about it.
//!
//! Layers: `start` carries out AddDevice and StartDevice and puts an [`Adapter`] together, which `object` declares; `device_power`, `idle` and `surprise` change
//! its state from then on. They use `query`, which asks the driver, and `link`, `rules`, `versions` and `mcdm`, which check what it answers and change nothing.
//!
//! Rules: nothing here knows the machine or a process. Devices and their objects use the [`crate::vidsch::RenderAdapter`] alone, which is a part of an adapter and stands
//! below. The locks of a transition between D0 and D3 are held over it, in the order of [`rank`](crate::rank).

mod answer;
mod asleep;
mod device_power;
mod idle;
mod idle_since;
mod link;
mod mcdm;
mod object;
mod power;
mod query;
mod registry;
mod reserved;
mod reserved_bits;
mod rules;
mod segments;
mod start;
mod surprise;
mod versions;

pub(crate) use device_power::{NotAsleep, PowerAction};
pub(crate) use link::check_chain;
pub(crate) use object::Adapter;
pub(crate) use registry::{adapter_of, adapters_beside, adapters_of};
pub(crate) use start::{DeviceSettings, DeviceStack, add, start};
