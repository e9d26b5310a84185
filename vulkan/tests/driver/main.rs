//! The driver as a program sees it: through its commands alone, with shaders from source.

mod compute;
mod interface;
mod kit;
mod loss;
mod order;
mod programs;
mod transfer;
