//! `campanile machine`: programs that it serves, and people who look on.

mod control;
mod hostile;
mod jobs;
mod limits;
mod looking;
mod lost_gpu;
mod recovery;
mod screen;
mod served;
mod submission;
