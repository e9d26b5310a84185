//! A machine in another process: the messages between a program and the machine, and the program's end of them.
//!
//! The machine's process has adapters, drivers and the operating-system side; a program has nothing but its own memory. Each thunk is one message
//! with the thunk's number and its arguments, and one message back with the status. Structures that arguments point at are read and written by the
//! machine where they are, as a kernel does ([`UserSpace`](nt::user_space::UserSpace)). What a thunk maps for the program (allocations, fence values,
//! doorbells) the program's end maps when the machine asks for it, with a descriptor of the memory. So a submission is a store to memory that both
//! have, and takes no message.
//!
//! Layers, each of which uses only those after it: the thunks as functions that send a message ([`sending`]), the program's end of the connection
//! ([`client`]), the thunks by number ([`thunks`]), what both ends must have declared alike (`declared`), and the socket that carries messages
//! ([`channel`]), messages as words ([`wire`]).

pub mod channel;
pub mod client;
mod declared;
pub mod sending;
pub mod thunks;
pub mod wire;
