//! The commands of Vulkan: each one makes references of its pointers and objects of its handles, and hands them to a function of `entry`.

mod clock;
mod command;
mod debug;
mod declaration;
mod descriptor;
mod device;
mod drawing;
mod global;
mod image;
mod memory;
mod pipeline;
mod proc_addr;
mod queue;
mod sync;

pub(crate) use declaration::Address;
pub(crate) use proc_addr::{Class, find, get_instance_proc_addr};
