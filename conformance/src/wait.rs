//! Waiting for what must happen.

use std::time::{Duration, Instant};

use crate::Failure;

/// How long something that must happen may take, on a machine busy with other things.
const LIMIT: Duration = Duration::from_secs(20);

/// Waits until `done`; says `what` never happened otherwise.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), Failure> {
    let started = Instant::now();
    let mut looks = Looks::default();
    while !done() {
        if started.elapsed() > LIMIT {
            return Err(Failure::new(format!("{what} did not happen within {} s", LIMIT.as_secs())));
        }
        looks.pause();
    }
    Ok(())
}

/// Pauses between two looks at what another thread is about to do: short ones at first, then such that leave the processor to that thread.
#[derive(Default)]
pub(crate) struct Looks(u32);

impl Looks {
    /// Looks after which the pauses are longer.
    const SHORT: u32 = 20;
    /// A long pause.
    const PAUSE: Duration = Duration::from_micros(50);

    pub(crate) fn pause(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= Self::SHORT {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Self::PAUSE);
        }
    }
}
