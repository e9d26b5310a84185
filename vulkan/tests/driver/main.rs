//! The driver as a program sees it: through its commands alone, with shaders from source.

// Every command is an unsafe function in ash. A block here is a scenario, of which one sentence says why its commands are valid.
#![allow(clippy::multiple_unsafe_ops_per_block)]

mod answers;
mod compute;
mod creation;
mod debug;
mod diagnosis;
mod exchange;
mod extensions;
mod external;
mod images;
mod inline;
mod interface;
mod kit;
mod loss;
mod order;
mod picture;
mod programs;
mod queries;
mod shaders;
mod strangers;
mod transfer;
