// UNSAFETY: code that runs between fork and exec.
//! QEMU as a process that does not outlive this one, and signals that end this one.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// The time that a process that was asked to end may take before it is killed.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The interval at which a process is looked at that nobody tells of.
const LOOK: Duration = Duration::from_millis(100);

/// A process that is killed when this is dropped, and by the system when the thread that started it is gone, however that came to pass.
pub(super) struct Running(Child);

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let parent = getpid();
        let bind = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // A process that was orphaned before that has another parent by now, and would never hear of it.
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(io::ErrorKind::BrokenPipe.into()),
            }
        };
        // SAFETY: the closure makes system calls only, allocates nothing and takes no lock.
        unsafe { command.pre_exec(bind) };
        command.spawn().map(Self)
    }

    /// The process.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Asks it to end, and waits until it has; it is killed if that takes too long.
    pub(super) fn ask_to_end(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
    }

    /// Waits for its end, or for news; those are an error.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub(super) fn wait_or<T>(&mut self, news: &Receiver<T>) -> io::Result<Result<ExitStatus, T>> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Ok(status));
            }
            match news.recv_timeout(LOOK) {
                Ok(news) => return Ok(Err(news)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Signals that ask this process to end; they are told instead until this is dropped.
pub(super) struct Asked(Handle);

impl Asked {
    /// Tells of them from now on.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub(super) fn tell<T: Send + 'static>(to: Sender<T>, news: fn(i32) -> T) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        thread::spawn(move || {
            for signal in signals.forever() {
                if to.send(news(signal)).is_err() {
                    break;
                }
            }
        });
        Ok(Self(handle))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The name of a signal of [`Asked`].
pub(super) fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}

/// The exit code of a program that was ended by a signal, as shells have it.
pub(super) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;
    use std::sync::mpsc::channel;

    fn is_there(pid: Pid) -> bool {
        test_kill_process(pid).is_ok()
    }

    #[test]
    fn a_process_does_not_outlive_who_holds_it_nor_the_thread_that_started_it() {
        let held = Running::start(Command::new("sleep").arg("1000")).unwrap();
        let pid = Pid::from_child(&held.0);
        assert!(is_there(pid));
        drop(held);
        assert!(!is_there(pid));
        let left = thread::spawn(|| Running::start(Command::new("sleep").arg("1000")).unwrap());
        let mut left = left.join().unwrap();
        // The thread is gone, and with it the process.
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&left.0.wait().unwrap()), Some(9));
    }

    #[test]
    fn who_is_asked_may_say_last_words_and_news_come_before_the_end() {
        let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
        let mut command = Command::new("sh");
        let mut asked = Running::start(command.args(["-c", script]).stdout(std::process::Stdio::piped())).unwrap();
        let mut output = io::BufReader::new(asked.0.stdout.take().unwrap());
        io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
        let (sender, news) = channel();
        sender.send(7).unwrap();
        assert_eq!(asked.wait_or(&news).unwrap(), Err(7));
        asked.ask_to_end();
        drop(sender);
        assert_eq!(asked.wait_or::<i32>(&news).unwrap().map(|status| status.code()), Ok(Some(5)));
    }
}
