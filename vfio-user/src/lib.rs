//! Both ends of the vfio-user protocol: a PCI function served over a Unix socket.
//!
//! A [`Server`] waits for clients at a path and serves one at a time a [`Function`] that is made for it, and dropped with everything the client gave
//! when it leaves. A [`Client`] is the other end: the virtual machine monitor's.
//!
//! Nothing the peer sends is trusted. The server answers what it cannot do with an error number and ends a connection that is out of step;
//! sizes, counts and descriptors are bounded before anything is stored, and memory is taken only if its owner cannot make it
//! shorter. The client takes an answer only if it belongs to its question, and a server that goes leaves every access an error.
//!
//! Layers, each of which uses only those after it: the server at its path (`server`), one client of it (`session`) and the other end (`client`),
//! waiting, sending and receiving (`wait`, `channel`, `hello`, `trigger`), and messages and events.
//!
//! Both ends are for 64-bit little-endian hosts. [vfio-user protocol, version 0.1]

#![deny(unsafe_code)]

#[allow(unsafe_code)] // the one module that calls the kernel itself
mod announce;
mod channel;
mod client;
mod event;
mod hello;
pub mod message;
mod server;
mod session;
mod trigger;
mod wait;

pub use client::{Client, RegionInfo};
pub use event::{Event, Observer};
pub use server::{BindError, Server, serve};
pub use session::{Function, MappedRegion, MemoryError, Region, check_memory};
pub use trigger::Trigger;
pub use wait::Stopper;
