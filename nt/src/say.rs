//! Lines for people at standard error: what drivers print, and why a machine has stopped.
//!
//! A process that serves others has somebody write them for whom nobody waits: whoever is to read them may not.

use std::io::{self, Write};
use std::sync::OnceLock;

/// Who writes lines, and waits within bounds until they are written.
struct Speaker {
    say: fn(&str),
    finish: fn(),
}

static SPEAKER: OnceLock<Speaker> = OnceLock::new();

/// Has `say` write lines from now on, each without its end, and `finish` wait for them before this process ends because of a driver. The first pair stays.
pub fn say_by(say: fn(&str), finish: fn()) {
    let _ = SPEAKER.set(Speaker { say, finish });
}

/// Says a line.
pub(crate) fn say(line: &str) {
    match SPEAKER.get() {
        Some(speaker) => (speaker.say)(line),
        // There is no other place to report that this fails.
        None => drop(writeln!(io::stderr(), "{line}")),
    }
}

/// Before the process ends: waits for what was said, as far as `finish` of [`say_by`] does.
pub(crate) fn finish() {
    if let Some(speaker) = SPEAKER.get() {
        (speaker.finish)();
    }
}
