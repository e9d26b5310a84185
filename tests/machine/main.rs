//! `campanile machine`: programs that it serves, and people who look on.

mod control;
mod hostile;
mod jobs;
mod recovery;
mod served;
