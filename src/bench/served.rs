//! The machine of another process: rows that are measured there make this process a program of it.

use std::cell::OnceCell;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use campanile_conformance::simulated::describe;

use super::error::BenchError;
use super::options::Options;
use crate::control;

/// Longest time until a machine that was started has its socket.
const START: Duration = Duration::from_secs(20);

/// The machine of another process: one that a user named, or else one that is started when a row first asks for it.
pub(super) struct Served<'o> {
    options: &'o Options,
    /// Set once this process is a program of it: the machine that was started for that, unless one was named.
    connected: OnceCell<Option<Machine>>,
}

/// A machine that was started for the rows.
struct Machine(Child);

impl Machine {
    fn await_socket(&mut self, socket: &Path) -> Result<(), BenchError> {
        let began = Instant::now();
        while !socket.exists() {
            // The reason of its end is printed already, by itself.
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(BenchError::Machine(format!(
                    "the machine that was started for the comparison ended: {status}"
                )));
            }
            if began.elapsed() > START {
                let text = "the machine that was started for the comparison has no socket";
                return Err(BenchError::Host(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

impl<'o> Served<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        Self { options, connected: OnceCell::new() }
    }

    /// Makes this process a program of the machine. Once is enough.
    pub(super) fn connect(&self) -> Result<(), BenchError> {
        if self.connected.get().is_some() {
            return Ok(());
        }
        let machine = match &self.options.machine_at {
            None => Some(self.start()?),
            Some(named) => {
                self.check_likeness(named)?;
                let connected = remote::client::connect(named, "campanile bench");
                connected.map_err(|error| BenchError::NoMachine(error.to_string()))?;
                None
            }
        };
        let _ = self.connected.set(machine);
        Ok(())
    }

    /// Checks that the machine at a socket is as the one in this process, beside which it is measured.
    fn check_likeness(&self, named: &Path) -> Result<(), BenchError> {
        let there = control::description(named).map_err(BenchError::NoMachine)?.machine;
        let here = describe(&self.options.machine.system(), &self.options.machine);
        for what in ["driver", "special_pool", "variant", "bus", "scheduling", "without", "fence_storage"] {
            let (there, here) = (there.get(what), here.get(what));
            if there != here {
                let text = |value: Option<&serde_json::Value>| {
                    value.map_or_else(|| "not told".to_owned(), ToString::to_string)
                };
                return Err(BenchError::NoMachine(format!(
                    "the machine at {} is measured beside one in this process, which has to be like it: its {what} is {}, and here it is {}; give `bench` the options of that `campanile machine`",
                    named.display(),
                    text(there),
                    text(here)
                )));
            }
        }
        Ok(())
    }

    /// Starts a machine with the options of this one.
    fn start(&self) -> Result<Machine, BenchError> {
        let socket = std::env::temp_dir().join(format!("campanile-bench-{}.sock", std::process::id()));
        let program = std::env::current_exe().map_err(BenchError::Host)?;
        let mut command = Command::new(program);
        command.args(["machine", "--quiet", "--socket"]).arg(&socket).args(&self.options.machine_words);
        let mut machine = Machine(command.stdin(Stdio::null()).spawn().map_err(BenchError::Host)?);
        machine.await_socket(&socket)?;
        remote::client::connect(&socket, "campanile bench").map_err(|error| BenchError::Machine(error.to_string()))?;
        Ok(machine)
    }
}
