//! Waiting for what must happen.

use std::time::{Duration, Instant};

use crate::Failure;

/// How long something that must happen may take, on a machine busy with other things.
const LIMIT: Duration = Duration::from_secs(20);

/// Waits until `done`; says `what` never happened otherwise.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    let started = Instant::now();
    while !done() {
        if started.elapsed() > LIMIT {
            return Err(Failure::new(format!("{what} did not happen within {} s", LIMIT.as_secs())));
        }
        std::thread::yield_now();
    }
    Ok(())
}
