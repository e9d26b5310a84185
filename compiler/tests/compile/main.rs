//! Modules are compiled to programs that compute what the same computation in Rust gives.

mod bench;
mod ciphers;
mod contraction;
mod dots;
mod kernels;
mod language;
mod limits;
mod mutations;
mod parts;
mod random;
mod registers;
mod sampling;
