//! The server against clients good and bad, and the client against servers that are.

mod fuzz;
mod hostile;
mod peer;
mod session;
