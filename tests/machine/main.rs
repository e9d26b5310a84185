//! `campanile machine`: programs that it serves, and people who look on.

mod control;
mod jobs;
mod recovery;
mod served;
