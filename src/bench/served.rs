//! The machine of another process: rows that are measured there make this process a program of it.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use campanile_conformance::simulated::describe;
use serde_json::Value;

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

/// The differences of a property of two machines, by the names of its members.
fn differences(what: &str, there: Option<&Value>, here: Option<&Value>) -> Vec<String> {
    match (there, here) {
        (there, here) if there == here => Vec::new(),
        (Some(Value::Object(there)), Some(Value::Object(here))) => {
            let names: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
            let of = |name: &String| differences(&format!("{what} {name}"), there.get(name), here.get(name));
            names.into_iter().flat_map(of).collect()
        }
        (there, here) => {
            let text = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), ToString::to_string);
            vec![format!("its {what} is {}, and here it is {}", text(there), text(here))]
        }
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
        let unlike: Vec<String> =
            ["driver", "special_pool", "variant", "bus", "scheduling", "without", "fence_storage", "record"]
                .iter()
                .flat_map(|what| differences(what, there.get(*what), here.get(*what)))
                .collect();
        if !unlike.is_empty() {
            let advice = match there.get("record") {
                None => "give `bench` the options of that `campanile machine`",
                Some(_) => "measure a machine without `--record`, and give `bench` the other options of it",
            };
            return Err(BenchError::NoMachine(format!(
                "the machine at {} is measured beside one in this process, which has to be like it: {}; {advice}",
                named.display(),
                unlike.join("; ")
            )));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_told() {
        let (there, here) = (json!({ "doorbells": 1, "vram": 8 }), json!({ "doorbells": 1024, "vram": 8 }));
        let told = differences("variant", Some(&there), Some(&here));
        assert_eq!(told, ["its variant doorbells is 1, and here it is 1024"]);
        assert_eq!(differences("record", Some(&json!(5)), None), ["its record is 5, and here it is not set"]);
        assert!(differences("variant", Some(&here), Some(&here)).is_empty());
    }
}
