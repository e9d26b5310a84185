//! Programs of other processes on a machine of this one.
//!
//! Each program that connects to the socket is a process of the machine: its handles, address spaces and budgets are its own, and end with it. What it
//! sends is not trusted: a message that is none ends it, calls under way are bounded, and the machine waits for it no longer than [`ANSWER_LIMIT`].
//! [`remote`] has the messages.
//!
//! Layers, each of which uses only those after it: the socket ([`MachineServer`]) with those who have connected (`arrivals`) and the places of those who are
//! served (`seats`), one program (`program`) with its share of the machine (`shares`), its memory and addresses (`user_space`, `asked`, `copies`, `address_space`, `threads`), the threads that make its calls and copies (`workers`), and the events, times and numbers
//! that all of them know (`event`, `limits`, `pids`, `stop`).

mod address_space;
mod arrivals;
mod asked;
mod copies;
mod event;
mod limits;
mod listener;
mod machine_server;
mod pids;
mod program;
mod refusal;
mod seats;
mod shares;
mod stop;
mod threads;
mod user_space;
mod workers;

pub use event::{End, Event, Fault, Observer};
pub use limits::ANSWER_LIMIT;
pub use listener::{BindError, BoundPath, PrivateListener};
pub use machine_server::{MachineServer, PROGRAMS};
pub use pids::Pids;
pub use shares::TooFewDescriptors;
pub use stop::Stop;
