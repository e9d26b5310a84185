//! `campanile machine`: programs that it serves, and people who look on.

mod control;
mod hostile;
mod jobs;
mod limits;
mod looking;
mod recovery;
mod served;
mod submission;
