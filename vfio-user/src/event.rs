//! Events of a server, which it passes to an [`Observer`].

use std::io;

/// Something that whoever runs a server may want to tell.
#[derive(Debug)]
pub enum Event {
    /// A client has introduced itself.
    Connected,
    /// The client has left or was left, and why if it was not its wish.
    Left(Option<io::Error>),
    /// Another client connected while one was served, and was refused.
    Refused,
    /// No function could be made for a client.
    NoFunction(io::Error),
    /// A request of the client was refused.
    Note(String),
    /// No further notes of this client are told.
    NotesEnd,
}

/// Receiver of [`Event`]s.
pub type Observer<'a> = &'a (dyn Fn(&Event) + Sync);
