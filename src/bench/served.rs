//! The machine of another process: rows that are measured there make this process a program of it.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::error::BenchError;
use testbed::setup::{DRIVER_VARIABLE, DriverChoice};

/// Longest time until a machine that was started has its socket.
const START: Duration = Duration::from_secs(20);

/// The machine of another process: one that a user named, or else one that is started when a row first asks for it.
pub(super) struct Served {
    named: Option<PathBuf>,
    /// Set once this process is a program of it: the machine that was started for that, unless one was named.
    connected: OnceCell<Option<Machine>>,
}

/// A machine that was started for the rows.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

impl Served {
    pub(super) fn new(named: Option<PathBuf>) -> Self {
        Self { named, connected: OnceCell::new() }
    }

    /// Makes this process a program of the machine. Once is enough.
    pub(super) fn connect(&self) -> Result<(), BenchError> {
        if self.connected.get().is_some() {
            return Ok(());
        }
        let machine = match &self.named {
            None => Some(Self::start()?),
            Some(named) => {
                let connected = remote::client::connect(named, "campanile bench");
                connected.map_err(|error| BenchError::NoMachine(error.to_string()))?;
                None
            }
        };
        let _ = self.connected.set(machine);
        Ok(())
    }

    fn start() -> Result<Machine, BenchError> {
        let socket = std::env::temp_dir().join(format!("campanile-bench-{}.sock", std::process::id()));
        let program = std::env::current_exe().map_err(BenchError::Host)?;
        let mut command = Command::new(program);
        command.args(["machine", "--quiet", "--socket"]).arg(&socket).stdin(Stdio::null());
        command.env(DRIVER_VARIABLE, DriverChoice::selected().to_string());
        let machine = Machine(command.spawn().map_err(BenchError::Host)?);
        await_socket(&socket)?;
        remote::client::connect(&socket, "campanile bench").map_err(|error| BenchError::Machine(error.to_string()))?;
        Ok(machine)
    }
}

fn await_socket(socket: &Path) -> Result<(), BenchError> {
    let began = Instant::now();
    while !socket.exists() {
        if began.elapsed() > START {
            let text = "the machine that was started for the comparison has no socket";
            return Err(BenchError::Host(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
