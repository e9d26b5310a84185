//! The library as C sees it: its headers, and programs that use it.

mod compiler;
mod ends;
mod foreign;
mod gpu;
mod header;
mod isolation;
mod keeps;
mod kernel;
mod kit;
mod leader;
mod namespaces;
mod programs;
mod refuses;
mod removed;
mod served;
mod stopped;
mod stops;
mod stuck;
mod thunks;
mod toy;
