// UNSAFETY: the end of the process.
//! The watchdog of driver calls: a call that does not return stops the machine with a bug check that names it. See `calls.rs`.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::bugcheck::Bugcheck;
use crate::calls::{Allotment, LOOK, Next, RETRY};
use crate::say;
use crate::verifier::Verifier;

pub use crate::fault::signal::INTERRUPT;

/// Exit code of a process that ends because a call into a driver does not.
pub const EXIT_STUCK: u8 = 3;

/// Longest time that [`before_the_process_ends`] leaves.
const LAST_WORDS_TIME: Duration = Duration::from_secs(10);

/// Watches the calls of a machine as long as its verifier is in use.
///
/// # Errors
/// The host has no thread left.
pub fn start(verifier: &Arc<Verifier>, limit: Duration) -> io::Result<()> {
    let allotment = Allotment::new(limit);
    let verifier = Arc::downgrade(verifier);
    let watch = move || {
        let mut pause = LOOK;
        loop {
            std::thread::sleep(pause);
            let Some(verifier) = verifier.upgrade() else { return };
            pause = match verifier.calls().look(allotment) {
                Next::Look => LOOK,
                Next::Retry => RETRY,
                Next::Stop(bugcheck) => {
                    stop(&verifier, &bugcheck);
                    say::say(&format!("*** STOP {bugcheck}"));
                    RETRY
                }
                Next::End(bugcheck) => end(&bugcheck.reason),
            };
        }
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch).map(drop)
}

/// Stops the machine on a thread of its own, because bug check callbacks of drivers are called, which may not return.
fn stop(verifier: &Arc<Verifier>, bugcheck: &Bugcheck) {
    let (raising, raised) = (Arc::clone(verifier), bugcheck.clone());
    let thread = std::thread::Builder::new().name("bug check".to_owned()).spawn(move || raising.raise(raised));
    if thread.is_err() {
        verifier.raise(bugcheck.clone());
    }
}

/// Called before the process ends because of a driver, with the reason.
static LAST_WORDS: OnceLock<fn(&str)> = OnceLock::new();

/// Registers `words`, which is called with the reason, on a thread of its own, before the process ends because a call into a driver does
/// not return. It has ten seconds, since it may wait for locks that the driver has. Only the first function is registered, for all machines
/// of the process.
pub fn before_the_process_ends(words: fn(&str)) {
    let _ = LAST_WORDS.set(words);
}

/// Ends the process; nothing that waits for the driver can keep it from that.
pub fn end(reason: &str) -> ! {
    say::say(&format!("*** The process ends, because a call into a driver cannot be ended: {reason}"));
    if let Some(words) = LAST_WORDS.get() {
        let (said, heard) = std::sync::mpsc::channel();
        let reason = reason.to_owned();
        let speaker = std::thread::Builder::new().spawn(move || {
            words(&reason);
            let _ = said.send(());
        });
        if speaker.is_ok() {
            let _ = heard.recv_timeout(LAST_WORDS_TIME);
        }
    }
    say::finish();
    // SAFETY: no requirements; nothing of the process runs after it.
    unsafe { libc::_exit(EXIT_STUCK.into()) }
}
