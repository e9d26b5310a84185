//! The server against clients good and bad.

mod fuzz;
mod peer;
mod session;
