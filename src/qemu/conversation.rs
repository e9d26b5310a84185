//! A running guest as the host controls it: orders to it, events from it, QEMU's monitor, and the state of its GPUs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::monitor::Monitor;
use super::process::{self, Running};
use super::protocol::{Event, Order, Step};
use campanile_conformance::report::CaseLine;
use testbed::device::{GpuHeld, Witness};

/// Messages that the thread in charge of a guest receives.
#[derive(Debug)]
pub(super) enum Heard {
    /// A line that it told.
    Line(String),
    /// QEMU has closed the line.
    End,
    /// The server of a GPU cannot go on; says why.
    Server(String),
    /// This process is asked to end.
    Signal(i32),
}

/// The reason why a conversation ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Something is wrong; says what.
    Bad(String),
    /// This process is asked to end by this signal.
    Signal(i32),
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Bad(reason)
    }
}

/// The reason why a fault was not got over.
pub(super) enum Trouble {
    /// An expectation of the case does not hold.
    Failed(String),
    /// The guest cannot go on.
    Over(Stop),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Over(stop)
    }
}

/// A step of the run, as an observer of the conversation gets it.
pub(super) enum Seen<'a> {
    /// The guest told it.
    Event(&'a Event),
    /// The host found it out.
    Outcome(CaseLine),
}

/// A guest that runs.
pub(super) struct Guest<'a> {
    pub(super) qemu: Running,
    pub(super) orders: ChildStdin,
    pub(super) heard: Receiver<Heard>,
    /// Socket of QEMU's monitor.
    pub(super) monitor: PathBuf,
    pub(super) connected: Option<Monitor>,
    /// Socket of each GPU's server.
    pub(super) sockets: Vec<PathBuf>,
    /// The GPUs, as far as their servers have made them.
    pub(super) witness: &'a dyn Fn(usize) -> Option<Witness>,
    pub(super) observe: &'a mut dyn FnMut(Seen<'_>),
    pub(super) time_limit: Duration,
    pub(super) until: Instant,
    /// The guest's last step, for the report of a timeout.
    pub(super) last: String,
}

impl Guest<'_> {
    /// The next event, which is passed on.
    fn next(&mut self) -> Result<Event, Stop> {
        loop {
            let line = match self.heard.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
                Ok(Heard::Line(line)) if line.is_empty() => continue,
                Ok(Heard::Line(line)) => line,
                Ok(Heard::Signal(signal)) => return Err(Stop::Signal(signal)),
                Ok(Heard::Server(reason)) => return Err(format!("{reason}, {}", self.last).into()),
                Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => {
                    let status = self.qemu.child().wait().map(|status| status.to_string()).unwrap_or_default();
                    return Err(format!("the guest ended {} (QEMU: {status})", self.last).into());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = self.time_limit.as_secs();
                    return Err(format!("the guest was stopped after {seconds} s, {}", self.last).into());
                }
            };
            let event: Event = serde_json::from_str(&line)
                .map_err(|_| format!("the guest sent a line that is no event of this program: {line}"))?;
            (self.observe)(Seen::Event(&event));
            match &event {
                Event::Trouble { text } => return Err(format!("the guest cannot go on: {text}").into()),
                Event::Line { step, text, .. } => self.last = format!("in {step}, after the line `{text}`"),
                Event::Started { step } => self.last = format!("at the beginning of {step}"),
                Event::Ended { step, .. } => self.last = format!("after {step}"),
                Event::Up { .. } => self.last = "before it found a GPU".to_owned(),
                Event::Function(_) => self.last = "after it found a GPU".to_owned(),
                Event::Wrote { file, .. } => self.last = format!("after it wrote `{file}`"),
                Event::Slot { gpu } => self.last = format!("after what happened to the slot of GPU {gpu}"),
                Event::Ready | Event::Done => {}
            }
            return Ok(event);
        }
    }

    /// Events until one of them is what is waited for. A guest that starts anew meanwhile has come to grief.
    fn until<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> Result<T, Stop> {
        loop {
            let last = self.last.clone();
            let event = self.next()?;
            if let Some(found) = wanted(&event) {
                return Ok(found);
            }
            if matches!(event, Event::Up { .. } | Event::Done) {
                return Err(format!("the guest started anew or ended, {last}").into());
            }
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), Stop> {
        let mut line = serde_json::to_string(order).map_err(|error| error.to_string())?;
        line.push('\n');
        let sent = self.orders.write_all(line.as_bytes()).and_then(|()| self.orders.flush());
        // A QEMU that has ended says more by its end than by this.
        if sent.is_err() {
            self.until(|_| None::<()>)?;
        }
        Ok(())
    }

    /// Waits until the guest takes orders, after it was started.
    pub(super) fn boot(&mut self) -> Result<(), Stop> {
        self.until(|event| matches!(event, Event::Up { .. }).then_some(()))?;
        self.until(|event| matches!(event, Event::Ready).then_some(()))
    }

    /// Has a step carried out to its end.
    pub(super) fn run(&mut self, step: &Step) -> Result<(), Stop> {
        self.order(&Order::Run { step: step.clone() })?;
        self.ended(&step.name)
    }

    fn ended(&mut self, name: &str) -> Result<(), Stop> {
        self.until(|event| matches!(event, Event::Ended { step, .. } if step == name).then_some(()))
    }

    /// Begins a step, and waits until it says something.
    pub(super) fn start(&mut self, step: &Step, says: &str) -> Result<(), Stop> {
        self.order(&Order::Start { step: step.clone() })?;
        self.says(step, says)
    }

    /// Waits until a step that was begun says something.
    pub(super) fn says(&mut self, step: &Step, says: &str) -> Result<(), Stop> {
        let said = self.until(|event| match event {
            Event::Line { step: name, text, error: false } if *name == step.name && text == says => Some(Ok(())),
            Event::Ended { step: name, .. } if *name == step.name => Some(Err(format!("{name} ended too early"))),
            _ => None,
        });
        Ok(said??)
    }

    /// Kills a step that was begun, and waits until it is gone.
    pub(super) fn kill(&mut self, step: &Step) -> Result<(), Stop> {
        self.order(&Order::Kill { name: step.name.clone() })?;
        self.ended(&step.name)
    }

    /// Writes to a file that the guest's kernel has for its first GPU.
    pub(super) fn write(&mut self, file: &str, text: &str) -> Result<(), Stop> {
        self.order(&Order::Write { gpu: 0, file: file.to_owned(), text: text.to_owned() })?;
        let wrote = self.until(|event| match event {
            Event::Wrote { error, .. } => Some(error.clone()),
            _ => None,
        });
        match wrote? {
            None => Ok(()),
            Some(error) => Err(format!("the guest cannot write `{text}` to `{file}`: {error}").into()),
        }
    }

    /// Waits until a step that was begun ends by itself, and says whether it said this and ended with success.
    pub(super) fn ends_well(&mut self, step: &Step, says: &str) -> Result<Result<(), String>, Stop> {
        let said = std::cell::RefCell::new(String::new());
        let ended = self.until(|event| match event {
            Event::Line { step: name, text, .. } if *name == step.name => {
                said.replace(text.clone());
                None
            }
            Event::Ended { step: name, code, signal } if *name == step.name => Some((*code, *signal)),
            _ => None,
        });
        let (ended, said) = (ended?, said.into_inner());
        let how = || format!("{} ended with {ended:?} (exit code, signal), after the line `{said}`", step.name);
        Ok(if ended == (Some(0), None) && said == says { Ok(()) } else { Err(how()) })
    }

    /// Has the guest do something with the slot of a GPU, or wait for something there, and waits until that is done.
    pub(super) fn slot(&mut self, order: &Order) -> Result<(), Stop> {
        self.order(order)?;
        self.until(|event| matches!(event, Event::Slot { .. }).then_some(()))
    }

    /// True if the server of a GPU has one, which it has as long as QEMU has it plugged in.
    pub(super) fn is_plugged_in(&self, gpu: usize) -> bool {
        self.held(gpu).is_ok()
    }

    /// Has QEMU start the machine anew when it is reset, and end otherwise.
    pub(super) fn may_restart(&mut self, may: bool) -> Result<(), Stop> {
        self.monitor("set-action", json!({ "reboot": if may { "reset" } else { "shutdown" } })).map(drop)
    }

    /// Has the guest restart the machine, whatever runs on it.
    pub(super) fn restart(&mut self) -> Result<(), Stop> {
        self.order(&Order::Restart)
    }

    /// Has the guest power off.
    pub(super) fn power_off(&mut self) -> Result<(), Stop> {
        self.order(&Order::PowerOff)?;
        self.until(|event| matches!(event, Event::Done).then_some(()))
    }

    /// Has QEMU carry out a command.
    pub(super) fn monitor(&mut self, command: &str, arguments: Value) -> Result<Value, Stop> {
        let failed = |error: std::io::Error| Stop::Bad(format!("QEMU's monitor: {error}"));
        if self.connected.is_none() {
            self.connected = Some(Monitor::connect(&self.monitor).map_err(failed)?);
        }
        match &mut self.connected {
            Some(monitor) => monitor.execute(command, arguments).map_err(failed),
            None => Err("QEMU has no monitor".to_owned().into()),
        }
    }

    /// Resources that a served GPU still holds of its client.
    pub(super) fn held(&self, gpu: usize) -> Result<GpuHeld, Stop> {
        let held = (self.witness)(gpu).and_then(|witness| witness.held());
        held.ok_or_else(|| "the server has no GPU".to_owned().into())
    }

    /// Pulls a GPU out of its slot, of which neither QEMU nor the guest is told.
    pub(super) fn pull_out(&self, gpu: usize) -> Result<(), Stop> {
        (self.witness)(gpu).map(|witness| witness.pull_out()).ok_or_else(|| "the server has no GPU".to_owned().into())
    }

    /// Passes on what the host found out.
    pub(super) fn outcome(&mut self, outcome: CaseLine) {
        (self.observe)(Seen::Outcome(outcome));
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bad(reason) => f.write_str(reason),
            Self::Signal(signal) => write!(f, "stopped by {}", process::name(*signal)),
        }
    }
}
