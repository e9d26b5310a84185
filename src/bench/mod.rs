//! Measurements, each beside what it is to be compared with.
//!
//! A row names what is measured, its peers (the first is the one the ratio refers to) and its aim. All of a row's measurements
//! alternate in rounds of one run, so that whatever else the machine does falls on all of them alike; ratios are taken
//! within a round. A new row is a file with a [`Row`] in it and an entry in [`ROWS`].

mod c1_matmul;
mod c2_kernels;
mod c5_compile;
mod command;
mod compare;
mod compute;
mod error;
mod figures;
mod kernel;
mod log_cost;
mod options;
mod p1_submit;
mod p2_fence;
mod p3_engines;
mod p4_interrupts;
mod p5_memory;
mod p6_idle_queues;
mod power;
mod report;
mod row;
mod row_report;
mod rows;
mod served;
mod served_rows;
mod stopwatch;
mod vulkan;
mod vulkan_client;
mod vulkan_kernel;
mod vulkan_rows;
mod worker;

pub use command::{command, measure};
pub use compare::{Change, Comparison, Earlier, Verdict};
pub use error::BenchError;
pub use figures::{Figures, Ratio, Round};
pub use options::Options;
pub use report::Report;
pub use row::{Effort, Measurement, PeerAim, Place, Prepare, Row};
pub use row_report::{AimReport, PeerReport, RowReport};
pub use rows::ROWS;
pub use vulkan_client::serve as vulkan_client;
