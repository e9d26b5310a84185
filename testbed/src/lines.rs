//! Lines for standard error.
//!
//! Whoever is to read them may not: a write waits then, for as long as it takes. A process that serves others has its lines written by a thread of their own,
//! which takes them from a queue that has an end.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Lines that wait to be written, at most.
const LINES_MAX: usize = 1024;
/// The time for which the end of a process waits until lines are written.
const END_LIMIT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// Lines that found no place, and those after them until that is told.
    lost: u64,
    /// One is being written.
    writes: bool,
}

/// Lines that a thread writes.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Has a thread write what this process says from now on, so that nobody waits for those who read it.
///
/// # Errors
/// The host has no thread for it.
pub fn write_by_thread() -> io::Result<()> {
    let queue = Queue::start(|line| {
        let mut left = line;
        // Without the lock of the standard library, which others may need who have to say why the process ends.
        while !left.is_empty() {
            match rustix::io::write(io::stderr().as_fd(), left) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    })?;
    // A process begins once.
    let _ = QUEUE.set(queue);
    nt::say::say_by(|line| say(format_args!("{line}")), finish);
    Ok(())
}

/// Says a line, as [`crate::complain`] does.
pub fn say(text: fmt::Arguments<'_>) {
    let line = format!("{text}\n");
    match QUEUE.get() {
        Some(queue) => queue.add(line),
        // There is no other place to report that this fails.
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

/// Before the process ends: waits until all lines are written, and not long.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.wait_until_written(END_LIMIT);
    }
}

impl Queue {
    fn start(mut write: impl FnMut(&[u8]) + Send + 'static) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self::default());
        let of_thread = Arc::clone(&queue);
        let run = move || {
            loop {
                write(of_thread.take().as_bytes());
                of_thread.lock().writes = false;
                of_thread.changed.notify_all();
            }
        };
        std::thread::Builder::new().name("lines".to_owned()).spawn(run)?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: String) {
        let mut state = self.lock();
        // Those that are lost are told of where they would stand.
        if state.lost > 0 || state.lines.len() >= LINES_MAX {
            state.lost += 1;
        } else {
            state.lines.push_back(line);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The next line, once there is one.
    fn take(&self) -> String {
        let mut state = self.lock();
        loop {
            let next = state.lines.pop_front().or_else(|| match std::mem::take(&mut state.lost) {
                0 => None,
                lost => Some(format!("{lost} lines are lost here: nobody read this in time\n")),
            });
            if let Some(next) = next {
                state.writes = true;
                return next;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_until_written(&self, limit: Duration) {
        let waits = |state: &mut State| state.writes || !state.lines.is_empty() || state.lost > 0;
        drop(self.changed.wait_timeout_while(self.lock(), limit, waits));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn whoever_says_a_line_waits_for_nobody_and_lines_that_are_lost_are_counted() {
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (written, lines) = mpsc::channel();
        let queue = Queue::start(move |line| {
            let _ = begun.send(());
            let _ = goes_on.recv();
            let _ = written.send(String::from_utf8_lossy(line).into_owned());
        });
        let queue = queue.unwrap();
        queue.add("first\n".to_owned());
        begins.recv().unwrap();
        for number in 0..LINES_MAX + 7 {
            queue.add(format!("{number}\n"));
        }
        queue.wait_until_written(Duration::ZERO);
        drop(go_on);
        queue.wait_until_written(LONG);
        queue.add("last\n".to_owned());
        queue.wait_until_written(LONG);
        let lines: Vec<String> = lines.try_iter().collect();
        assert_eq!(lines.len(), LINES_MAX + 3);
        assert_eq!(lines[..2], ["first\n", "0\n"]);
        assert_eq!(lines[LINES_MAX..], ["1023\n", "7 lines are lost here: nobody read this in time\n", "last\n"]);
    }
}
