//! `campanile machine`: boots a machine and serves it to programs of other processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use dxgkrnl::Machine;
use dxgkrnl::verifier::Bugcheck;
use rustix::process::{Resource, Rlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use testbed::exit::{EXIT_INPUT, EXIT_MACHINE, EXIT_OK};
use testbed::lines;
use testbed::programs::{BoundPath, Event, MachineServer, Observer, PrivateListener, Stop, TooFewDescriptors};
use testbed::sandbox::{self, Role};
use testbed::setup::{BusChoice, MachineOptions, System};

use crate::control::{self, Desk};

/// The time that a machine may take to let its programs go.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Options of `campanile machine`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Socket to listen on.
    pub socket: PathBuf,
    /// Programs that are served at a time, at most.
    pub programs: usize,
    /// Say nothing but what goes wrong.
    pub quiet: bool,
    /// Length of the trace that is kept all the time; `None`: it is recorded when somebody asks for it.
    pub record: Option<Duration>,
    /// Give up what a machine does not need.
    pub sandbox: bool,
    /// The machine.
    pub machine: MachineOptions,
}

/// Gives up what a machine does not need, before there is one: each of its threads inherits it.
fn give_up(options: &Options) {
    let bus = match &options.machine.bus {
        Some(bus) => Ok(bus),
        None => BusChoice::selected(),
    };
    let state = sandbox::enter(&Role::Machine { starts_gpus: matches!(bus, Ok(BusChoice::Process(_))) });
    // One that is whole is told by `campanile ctl look`.
    if !state.is_whole() {
        testbed::complain!("campanile machine: {state}");
    }
}

/// True if whoever has started this process has it ignore a signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 != 0)
}

/// Lets the machine have as many descriptors as the host allows: those of its programs' events and objects are its own too.
fn take_descriptors() {
    let allowed = rustix::process::getrlimit(Resource::Nofile);
    // A host that refuses leaves what there is.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed });
}

/// Serves until a signal ends it or a bug check stops the machine, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let code = run(options);
    lines::finish();
    code
}

fn run(options: &Options) -> u8 {
    take_descriptors();
    if let Some(few) = TooFewDescriptors::check(options.programs) {
        testbed::complain!("campanile machine: {few}");
    }
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
    let prepared = Stop::new().and_then(|stop| Ok((stop, Signals::new(ending)?)));
    let (stop, signals) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            testbed::complain!("campanile machine: signals cannot be waited for: {error}");
            return EXIT_MACHINE;
        }
    };
    if let Some(why) = too_long(&options.socket) {
        testbed::complain!("campanile machine: {why}");
        return EXIT_INPUT;
    }
    // Before the machine is booted: a path at which nothing can be served is found at once.
    let bound = MachineServer::bind(&options.socket, options.programs, stop.clone())
        .and_then(|server| Ok((server, control::listen(&options.socket)?)));
    let (server, controls) = match bound {
        Ok(bound) => bound,
        Err(error) => {
            testbed::complain!(
                "campanile machine: {error}; name another path with --socket, in a folder that you may write"
            );
            return EXIT_INPUT;
        }
    };
    if options.sandbox {
        give_up(options);
    }
    if let Err(error) = lines::write_by_thread() {
        testbed::complain!("campanile machine: the host gives it no threads: {error}");
        return EXIT_MACHINE;
    }
    let system = match System::boot(&options.machine.system()) {
        Ok(system) => system,
        Err(error) => {
            testbed::complain!("campanile machine: {error}");
            return error.exit_code();
        }
    };
    let machine = system.machine().clone();
    let desk = match Desk::new(system, options.machine.clone(), server.pids(), options.record, stop.clone()) {
        Ok(desk) => desk,
        Err(error) => {
            testbed::complain!("campanile machine: {error}");
            return EXIT_MACHINE;
        }
    };
    if !options.quiet {
        let path = options.socket.display();
        testbed::complain!("campanile machine: serving at {path}; programs find it by CAMPANILE_MACHINE={path}");
    }
    serve(&Serving { server, controls, desk, machine, stop }, signals, options.quiet)
}

/// Why nothing can be served at a path, if it has too many bytes.
fn too_long(socket: &Path) -> Option<String> {
    let (bytes, most) = (socket.as_os_str().len(), control::MACHINE_PATH_MAX);
    let why = "`.control` stands behind it in the other one; name a shorter path with --socket";
    (bytes > most)
        .then(|| format!("the path of its socket has {bytes} bytes, and {most} bytes are the most, for {why}"))
}

/// A machine, and where it serves.
struct Serving {
    server: MachineServer,
    controls: PrivateListener,
    desk: Desk,
    machine: Machine,
    stop: Stop,
}

fn serve(serving: &Serving, signals: Signals, quiet: bool) -> u8 {
    let Serving { server, controls, desk, machine, stop } = serving;
    let handle = signals.handle();
    let (ended, end) = mpsc::channel();
    let paths = [server.path().clone(), controls.path().clone()];
    let stops = match start_stopping(signals, stop.clone(), quiet)
        .and_then(|stops| Ok((stops, start_watching(machine, stop, end, paths.clone())?)))
    {
        Ok((stops, _)) => stops,
        Err(error) => {
            testbed::complain!("campanile machine: the host gives it no threads: {error}");
            return EXIT_MACHINE;
        }
    };
    let observer: Observer = Arc::new(move |event: &Event| {
        if matches!(event, Event::Left { .. } | Event::Ended { .. }) {
            give_memory_back();
        }
        if !quiet || matches!(event, Event::Ended { .. } | Event::GivenUp { .. } | Event::Refused { .. }) {
            testbed::complain!("campanile machine: {event}");
        }
    });
    let served = std::thread::scope(|scope| {
        let controlled = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn_scoped(scope, || control::serve(desk, controls, stop))?;
        let served = server.serve(machine, &observer);
        // A panic is a defect, which is told where it happens and here.
        let panicked = |_| Err(io::Error::other("a thread that answers questions has panicked"));
        served.and_then(|left| controlled.join().unwrap_or_else(panicked).map(|()| left))
    });
    handle.close();
    // It cannot panic.
    let _ = stops.join();
    let left = match served {
        Ok(left) => left,
        Err(error) => {
            testbed::complain!("campanile machine: it cannot go on: {error}");
            // Calls that do not end may be in the driver, which is not taken down under them.
            exit(&paths, EXIT_MACHINE);
        }
    };
    let stopped = machine.bugcheck();
    if let Some(bugcheck) = &stopped {
        tell_bugcheck(bugcheck);
    }
    // A client that watches has nothing to wait for any more.
    let _ = ended.send(());
    let code = if stopped.is_some() { EXIT_MACHINE } else { EXIT_OK };
    if left > 0 {
        testbed::complain!("campanile machine: {left} threads of calls do not end; it ends without that");
        // They may be in the driver, which is not taken down under them.
        exit(&paths, code);
    }
    code
}

/// Ends the process as it is. Nothing is dropped, so the sockets are removed here.
fn exit(paths: &[BoundPath], code: u8) -> ! {
    paths.iter().for_each(BoundPath::remove);
    lines::finish();
    std::process::exit(code.into());
}

fn tell_bugcheck(bugcheck: &Bugcheck) {
    testbed::complain!("campanile machine: the machine stopped with a bug check: {bugcheck}");
}

/// Starts the thread that stops serving when a signal comes.
fn start_stopping(mut signals: Signals, stop: Stop, quiet: bool) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() && !quiet {
            testbed::complain!("campanile machine: stopping");
        }
        stop.stop();
    })
}

/// Starts the thread that ends the process if serving has to end and does not: a thread that stopped a machine with a bug check may hold anything, and the memory of a program that a
/// call reads may be of a file that never answers.
fn start_watching(
    machine: &Machine,
    stop: &Stop,
    end: Receiver<()>,
    paths: [BoundPath; 2],
) -> io::Result<JoinHandle<()>> {
    let (machine, stop) = (machine.clone(), stop.clone());
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        if stop.wait().is_err() || end.recv_timeout(END_LIMIT) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(bugcheck) = machine.bugcheck() else {
            testbed::complain!("campanile machine: a call or a question does not end in time; it ends without that");
            exit(&paths, EXIT_OK);
        };
        tell_bugcheck(&bugcheck);
        exit(&paths, EXIT_MACHINE);
    })
}

/// Gives the host what the allocator keeps of memory that is free: gigabytes, if a program that has ended had as many objects as it may have.
#[cfg(target_env = "gnu")]
fn give_memory_back() {
    // SAFETY: takes no pointers, and memory in use stays where it is.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators than that of the GNU C library decide for themselves.
#[cfg(not(target_env = "gnu"))]
fn give_memory_back() {}
