//! The control connection to a GPU in another process, for requests that no bus carries: counters and state that cases look at, injected faults,
//! single steps.
//!
//! Between processes each is a line of JSON over a socket, and so is its answer.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use campanile_device::{Activity, FaultId, FaultRule, Gpu, Often, Variant};
use campanile_vfio_user::{Event, Function, Stopper, serve};
use serde::{Deserialize, Serialize};

use super::GpuFunction;
use crate::exit::{EXIT_INPUT, EXIT_MACHINE, EXIT_OK};
use crate::sandbox::{self, Role};

/// Longest time that an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Requests to a GPU in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    Step,
    Steps,
    IsResting,
    Activity,
    SignalsEver,
    EndsUnread,
    MissedAccesses,
    RegisterRead { offset: u64, size: u8 },
    ConfigRead { offset: u16, size: u8 },
    BarPage { bar: u8, page: u64 },
    PullOut,
    PowerCycle,
    Reset,
    LetGo { node: u32 },
    Inject { rule: FaultRule, often: Often },
    Fired(FaultId),
    TotalFired,
    Remove(FaultId),
    Release(FaultId),
}

/// Answers to [`Question`]s.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    Number(u64),
    Activity(Activity),
    Fault(FaultId),
}

/// Asks a GPU of this process.
pub(crate) fn answer(gpu: &Gpu, question: &Question) -> Answer {
    match *question {
        Question::Step => return Answer::Number(gpu.step().into()),
        Question::Steps => return Answer::Number(gpu.steps()),
        Question::IsResting => return Answer::Number(gpu.sleeps_until_register_access().into()),
        Question::Activity => return Answer::Activity(gpu.activity()),
        Question::SignalsEver => return Answer::Number(gpu.signals_ever()),
        Question::EndsUnread => return Answer::Number(gpu.ends_unread()),
        Question::MissedAccesses => return Answer::Number(gpu.missed_accesses()),
        Question::RegisterRead { offset, size } => return Answer::Number(gpu.register_read(offset, size)),
        Question::ConfigRead { offset, size } => return Answer::Number(gpu.config_read(offset, size).into()),
        Question::BarPage { bar, page } => return Answer::Number(gpu.bar_page(bar, page).unwrap_or(u64::MAX)),
        Question::Inject { rule, often } => return Answer::Fault(gpu.faults().inject_often(rule, often)),
        Question::Fired(fault) => return Answer::Number(gpu.faults().fired(fault)),
        Question::TotalFired => return Answer::Number(gpu.faults().total_fired()),
        Question::Remove(fault) => return Answer::Number(gpu.faults().remove(fault)),
        Question::PullOut => gpu.pull_out(),
        Question::PowerCycle => gpu.power_cycle(),
        Question::Reset => gpu.reset(),
        Question::LetGo { node } => gpu.let_go(node),
        Question::Release(fault) => gpu.faults().release(fault),
    }
    Answer::Done
}

/// The asking end of a control connection.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    lines: Mutex<BufReader<UnixStream>>,
}

impl Control {
    /// Asks at this end of a stream.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let lines = Mutex::new(BufReader::new(stream.try_clone()?));
        Ok(Self { stream, lines })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The other process is gone, does not answer, or answers something else than asked for.
    pub(crate) fn ask(&self, question: &Question) -> io::Result<Answer> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        say(&self.stream, question)?;
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(io::Error::from)
    }

    /// Says that nothing more will be asked, upon which the other process ends.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn say(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Answers until the asking end is closed.
fn answer_all(stream: &UnixStream, gpu: &OnceLock<Arc<Gpu>>) -> io::Result<()> {
    for line in BufReader::new(stream.try_clone()?).lines() {
        let question: Question = serde_json::from_str(&line?)?;
        // The process that asks has been given the function before.
        let gpu = gpu.get().ok_or(io::ErrorKind::NotConnected)?;
        say(stream, &answer(gpu, &question))?;
    }
    Ok(())
}

/// A GPU in a process of its own, for the process that started this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOptions {
    /// The GPU.
    pub variant: Variant,
    /// True if the GPU executes only when a step is requested.
    pub stepped: bool,
}

/// Serves one client whose connection is standard input, while questions come over standard output. Returns the exit code.
pub fn child_command(options: &ChildOptions) -> u8 {
    let sockets = (|| {
        let connection = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let control = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
        connection.peer_addr()?;
        control.peer_addr()?;
        Ok((connection, control, Stopper::new()?))
    })();
    let (connection, control, stop) = match sockets {
        Ok(sockets) => sockets,
        Err(error) => {
            let error: io::Error = error;
            crate::complain!(
                "campanile: `device-child` is started by `--bus vfio-user-process`, which gives it two sockets, and is no command for users: {error}"
            );
            return EXIT_INPUT;
        }
    };
    // A defect in any thread of the GPU ends the process, which its user notices.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
    let given_up = sandbox::enter(&Role::Gpu { folders: Vec::new() });
    if !given_up.is_whole() {
        crate::complain!("campanile: a GPU's process: {given_up}");
    }
    let gpu = OnceLock::new();
    let mut trouble = None;
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let outcome = answer_all(&control, &gpu);
            stop.stop();
            outcome
        });
        let mut make = || {
            let function = GpuFunction::new(&options.variant, !options.stepped)?;
            let _ = gpu.set(Arc::clone(function.gpu()));
            Ok(Box::new(function) as Box<dyn Function>)
        };
        serve(connection, &stop, &mut make, &|event| {
            if let Event::NoFunction(error) = event {
                crate::complain!("campanile: no GPU could be made: {error}");
            }
        });
        // A GPU that is given up can still be asked what it saw, until nobody asks any more.
        trouble = asked.join().unwrap_or(Ok(())).err();
    });
    match trouble {
        None => EXIT_OK,
        Some(error) => {
            crate::complain!("campanile: the control connection of the GPU failed: {error}");
            EXIT_MACHINE
        }
    }
}
