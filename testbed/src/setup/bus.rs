//! Which bus the GPUs of this process's machines are on.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use campanile_device::{Gpu, Runner, Variant};
use campanile_vfio_user::{Function, Stopper, serve};
use dxgkrnl::bus::Bus;

use super::direct_bus::DirectBus;
use super::gpu_handle::GpuHandle;
use super::process::{BUS_VARIABLE, BadEnd, Process, Program};
use super::vfio_bus::{VfioBus, full_name};
use super::vfio_user_bus::VfioUserBus;
use super::watch::Sign;
use crate::device::GpuFunction;

/// Connection between machines and their GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BusChoice {
    /// In the same process, by calls.
    #[default]
    Direct,
    /// Over vfio-user, served by this process.
    Served,
    /// Over vfio-user, each GPU served by a process that is started for it.
    Process(Program),
    /// Over vfio-user, served by others; a socket for each GPU of a machine.
    Sockets(Vec<PathBuf>),
    /// PCI functions of this machine, through Linux' vfio; one for each GPU.
    Functions(Vec<String>),
}

/// Values of `--bus`, for error messages.
const KNOWN: &str =
    "`direct`, `vfio-user`, `vfio-user-process`, `vfio-user=SOCKET[,SOCKET…]` and `vfio=FUNCTION[,FUNCTION…]`";

static CHOICE: OnceLock<BusChoice> = OnceLock::new();

impl FromStr for BusChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "direct" => Ok(Self::Direct),
            None if text == "vfio-user" => Ok(Self::Served),
            None if text == "vfio-user-process" => Program::current().map(Self::Process),
            Some(("vfio-user-process", program)) if !program.is_empty() => Ok(Self::Process(Program::at(program))),
            Some(("vfio-user", sockets)) if sockets.split(',').all(|socket| !socket.is_empty()) => {
                Ok(Self::Sockets(sockets.split(',').map(PathBuf::from).collect()))
            }
            Some(("vfio", functions)) => {
                let named = functions.split(',').map(|name| full_name(name).ok_or(name));
                let named: Result<Vec<_>, _> = named.collect();
                let bad =
                    |name| format!("`{name}` names no PCI function; name one like 0000:01:00.0; known are {KNOWN}");
                named.map(Self::Functions).map_err(bad)
            }
            _ => Err(format!("`{text}` names no bus; known are {KNOWN}")),
        }
    }
}

impl fmt::Display for BusChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Served => f.write_str("vfio-user"),
            Self::Process(program) => write!(f, "vfio-user-process={}", program.path().display()),
            Self::Sockets(sockets) => {
                let sockets: Vec<_> = sockets.iter().map(|socket| socket.display().to_string()).collect();
                write!(f, "vfio-user={}", sockets.join(","))
            }
            Self::Functions(functions) => write!(f, "vfio={}", functions.join(",")),
        }
    }
}

impl BusChoice {
    /// Makes this the bus of every machine that does not say otherwise; the first choice counts.
    pub fn select(self) {
        let _ = CHOICE.set(self);
    }

    /// The selected bus, else what the environment names, else the direct one.
    ///
    /// # Errors
    /// The environment names something that is no bus.
    pub fn selected() -> Result<&'static Self, String> {
        if let Some(choice) = CHOICE.get() {
            return Ok(choice);
        }
        let choice = match std::env::var(BUS_VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map_err(|error| format!("{BUS_VARIABLE}: {error}"))?,
            _ => Self::Direct,
        };
        Ok(CHOICE.get_or_init(|| choice))
    }

    /// True if the GPU belongs to another process or to the host, which serves one machine at a time.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Sockets(_) | Self::Functions(_))
    }

    /// Number of functions that are named one by one, each of which a machine gets; 0 for a bus that has as many as are asked for.
    pub(super) fn named(&self) -> usize {
        match self {
            Self::Sockets(sockets) => sockets.len(),
            Self::Functions(functions) => functions.len(),
            Self::Direct | Self::Served | Self::Process(_) => 0,
        }
    }

    /// True if an access to a register is a message to a server and back, which takes about a thousand times as long as a load.
    pub fn is_by_messages(&self) -> bool {
        matches!(self, Self::Served | Self::Process(_) | Self::Sockets(_))
    }

    /// True if the GPU reaches memory as this process has it mapped. Another one is given a file of all memory, once.
    pub(super) fn maps_here(&self) -> bool {
        matches!(self, Self::Direct)
    }

    /// Bytes of memory of a machine on this bus; `None` for the usual size. For vfio it is less: Linux pins every page that a function may reach,
    /// so the memory cannot be sparse.
    pub(super) fn memory(&self) -> Option<u64> {
        matches!(self, Self::Functions(_)).then_some(128 << 20)
    }
}

/// A GPU as a machine is given it.
pub(super) struct Attached {
    pub(super) bus: Arc<dyn Bus>,
    /// The GPU, if it is in this process or in one that was started for it.
    pub(super) gpu: Option<GpuHandle>,
    pub(super) keeper: Keeper,
    /// The descriptor by which the removal of the GPU is noticed; `None` if nobody else can remove it.
    sign: Option<Sign>,
}

/// Owner of the thread that steps a GPU, as long as the GPU lives.
pub(super) enum Keeper {
    /// Nobody here.
    Nobody,
    Runner {
        _runner: Runner,
    },
    /// A thread that serves it, and steps it.
    Server {
        _server: Server,
    },
    /// A process that serves it, and steps it.
    Process(Process),
}

impl Keeper {
    /// Ends the thread or process that steps the GPU.
    ///
    /// # Errors
    /// A process of a GPU did not end in order.
    pub(super) fn end(self) -> Result<(), BadEnd> {
        match self {
            Self::Process(process) => process.end(),
            Self::Nobody | Self::Runner { .. } | Self::Server { .. } => Ok(()),
        }
    }
}

/// A thread that serves the GPU of one machine.
pub(super) struct Server {
    stop: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Attached {
    /// Makes or reaches GPU number `place` of a machine.
    ///
    /// # Errors
    /// The variant is impossible, the host has no memory for it, or its server is not there.
    pub(super) fn new(choice: &BusChoice, place: usize, variant: &Variant, threads: bool) -> io::Result<Self> {
        match choice {
            BusChoice::Direct => {
                let gpu = Gpu::new(variant)?;
                let keeper = match threads {
                    true => Keeper::Runner { _runner: Runner::start(Arc::clone(&gpu)) },
                    false => Keeper::Nobody,
                };
                let bus = Arc::new(DirectBus::new(Arc::clone(&gpu)));
                Ok(Self { bus, gpu: Some(gpu.into()), keeper, sign: None })
            }
            BusChoice::Served => serve_here(variant, threads),
            BusChoice::Process(program) => serve_there(program, variant, threads),
            BusChoice::Sockets(sockets) => {
                let socket = sockets.get(place).ok_or_else(|| {
                    io::Error::other(format!(
                        "the machine has more GPUs than the {} sockets of `{choice}`",
                        sockets.len()
                    ))
                })?;
                let reached = VfioUserBus::connect(socket);
                let bus =
                    reached.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", socket.display())))?;
                let sign = Some(Sign::HangUp(bus.socket()?));
                Ok(Self { bus: Arc::new(bus), gpu: None, keeper: Keeper::Nobody, sign })
            }
            BusChoice::Functions(functions) => {
                let count = functions.len();
                let few =
                    || io::Error::other(format!("the machine has more GPUs than the {count} functions of `{choice}`"));
                let function = functions.get(place).ok_or_else(few)?;
                let opened = VfioBus::open(function);
                let bus = opened.map_err(|error| io::Error::new(error.kind(), format!("{function}: {error}")))?;
                let sign = Some(Sign::Request(bus.request()?));
                Ok(Self { bus: Arc::new(bus), gpu: None, keeper: Keeper::Nobody, sign })
            }
        }
    }

    /// The descriptor by which the removal of the GPU is noticed; `None` if nobody else can remove it.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn sign(&self) -> io::Result<Option<Sign>> {
        self.sign.as_ref().map(Sign::try_clone).transpose()
    }
}

fn serve_here(variant: &Variant, threads: bool) -> io::Result<Attached> {
    let (ours, theirs) = UnixStream::pair()?;
    let (stop, made) = (Stopper::new()?, Arc::new(Mutex::new(None)));
    let (stopped, slot, variant) = (stop.clone(), Arc::clone(&made), variant.clone());
    let run = move || {
        let mut make = || {
            let function = GpuFunction::new(&variant, threads)?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(function.gpu()));
            Ok(Box::new(function) as Box<dyn Function>)
        };
        serve(theirs, &stopped, &mut make, &|_| {});
    };
    let thread = std::thread::Builder::new().name("vfio-user server".to_owned()).spawn(run)?;
    let keeper = Keeper::Server { _server: Server { stop, thread: Some(thread) } };
    let mut bus = VfioUserBus::from_stream(ours)?;
    let gpu = made.lock().unwrap_or_else(PoisonError::into_inner).take().map(GpuHandle::from);
    if let Some(gpu) = &gpu {
        bus.set_power_switch(gpu.clone());
    }
    let sign = Some(Sign::HangUp(bus.socket()?));
    Ok(Attached { bus: Arc::new(bus), gpu, keeper, sign })
}

fn serve_there(program: &Program, variant: &Variant, threads: bool) -> io::Result<Attached> {
    let (process, stream) = Process::start(program, variant, threads)?;
    let mut bus = VfioUserBus::from_stream(stream)?;
    let sign = Some(Sign::HangUp(bus.socket()?));
    let gpu = GpuHandle::there(Arc::clone(process.control()), bus.memories());
    bus.set_power_switch(gpu.clone());
    Ok(Attached { bus: Arc::new(bus), gpu: Some(gpu), keeper: Keeper::Process(process), sign })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buses_are_named_as_they_are_shown() {
        for text in [
            "direct",
            "vfio-user",
            "vfio-user-process=/a/campanile",
            "vfio-user=/tmp/a",
            "vfio-user=/tmp/a,/tmp/b",
            "vfio=0000:01:00.0",
        ] {
            assert_eq!(text.parse::<BusChoice>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "pci",
            "vfio-user=",
            "vfio-user-process=",
            "vfio-user=a,,b",
            "direct=1",
            "vfio",
            "vfio=1",
            "vfio=01:00.0,",
        ] {
            let error = text.parse::<BusChoice>().unwrap_err();
            assert!(error.contains("known are"), "{text}: {error}");
        }
        let error = "vfio-user-process".parse::<BusChoice>().unwrap_err();
        assert!(error.contains("PROGRAM"), "a program that is not campanile does not start itself: {error}");
        assert_eq!("vfio=01:00.0".parse::<BusChoice>().unwrap().to_string(), "vfio=0000:01:00.0");
    }
}
