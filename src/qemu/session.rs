//! A guest from start to end: the servers of its GPUs, QEMU, and the conversation with it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use campanile_device::{Gpu, Variant};
use campanile_vfio_user::{Event as ServerEvent, Function, Server, Stopper};

use super::conversation::{Guest, Heard, Seen, Stop};
use super::function::Expected;
use super::image::{self, Luggage};
use super::machine::{self, Chosen, CommandLine, Files, Machine};
use super::process::{Asked, Running};
use super::protocol::Job;
use super::tools::Kernel;
use testbed::device::{GpuFunction, Messages, Witness};

/// Memory of a guest: its first file system, what a machine on the bus `vfio` has, and as much again.
const MEMORY_MIB: u64 = 1024;
/// Names in the folder of a run.
const ARCHIVE: &str = "initramfs";
const MONITOR: &str = "monitor";
const CONSOLE: &str = "console";
const ERRORS: &str = "qemu";
/// Last lines of a log that are told when a guest ends badly.
const LAST_LINES: usize = 12;

/// Programs and devices of a guest.
pub(super) struct Setting {
    pub(super) qemu: PathBuf,
    pub(super) kernel: Kernel,
    pub(super) accelerator: Chosen,
    /// The GPUs.
    pub(super) gpus: Vec<Served>,
    /// One that is plugged in while the guest runs, in a slot of its own.
    pub(super) spare: Option<Served>,
    /// Longest time for the whole run of the guest.
    pub(super) time_limit: Duration,
}

/// A GPU of a guest.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) variant: Variant,
    /// True if the virtual-machine monitor traps stores to doorbells instead of mapping their pages into the guest.
    pub(super) trapped_doorbells: bool,
    /// Kind of interrupt messages: MSI-X or MSI.
    pub(super) messages: Messages,
}

impl Served {
    /// A GPU as it is.
    pub(super) fn new(variant: &Variant) -> Self {
        Self { variant: variant.clone(), trapped_doorbells: false, messages: Messages::MsiX }
    }
}

impl Setting {
    /// Every GPU that is served, in the order of its slot.
    fn served(&self) -> Vec<Served> {
        self.gpus.iter().chain(&self.spare).cloned().collect()
    }
}

/// Outcome of a guest's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did everything.
    Done,
    /// It did not; says why.
    Badly(String),
    /// This process was asked to end by this signal.
    Stopped(i32),
}

/// A folder for sockets and logs, removed with what is in it unless it is to be kept.
pub(super) struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// A folder of this process.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(super) fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("campanile-qemu-{}", std::process::id()));
        let made = fs::create_dir_all(&path);
        made.map_err(|error| format!("no folder for the guest's files: {}: {error}", path.display()))?;
        Ok(Self { path, keep: false })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The servers of a guest's GPUs.
pub(super) struct Servers {
    /// Socket of each server, by GPU.
    pub(super) sockets: Vec<PathBuf>,
    /// The GPU that each has made last.
    made: Vec<Mutex<Option<Witness>>>,
    log: Mutex<Vec<String>>,
}

impl Servers {
    fn note(&self, text: String) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn witness(&self, gpu: usize) -> Option<Witness> {
        self.made.get(gpu)?.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves GPU number `place`, keeps what is worth telling, and says when it cannot go on.
    fn serve(&self, server: &Server, place: usize, gpu: &Served, news: &Sender<Heard>) {
        let mut make = || {
            let function = GpuFunction::new(&gpu.variant, true)?.with_messages(gpu.messages);
            let function = if gpu.trapped_doorbells { function.with_trapped_doorbells() } else { function };
            if let Some(made) = self.made.get(place) {
                *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(function.witness());
            }
            Ok(Box::new(function) as Box<dyn Function>)
        };
        let trouble = |text: String| {
            self.note(text.clone());
            let _ = news.send(Heard::Server(text));
        };
        let observe = |event: &ServerEvent| match event {
            ServerEvent::Left(Some(error)) => trouble(format!("QEMU was dropped by the server of its GPU: {error}")),
            ServerEvent::NoFunction(error) => trouble(format!("no GPU could be made: {error}")),
            ServerEvent::Note(text) => self.note(text.clone()),
            _ => {}
        };
        if let Err(error) = server.run(&mut make, &observe) {
            trouble(format!("the GPU cannot be served any more: {error}"));
        }
    }
}

/// Says that a server has panicked.
struct TellsOfPanic<'a>(&'a Sender<Heard>);

impl Drop for TellsOfPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Heard::Server("the server of the GPU has panicked".to_owned()));
        }
    }
}

/// Stops servers when it is dropped, also by a panic; otherwise their threads would be waited for in vain.
struct StopOnDrop(Stopper);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Serves GPUs at sockets in a folder while `work` runs.
///
/// # Errors
/// A socket cannot be listened at.
pub(super) fn with_gpus<T>(
    gpus: &[Served],
    folder: &Folder,
    news: &Sender<Heard>,
    work: impl FnOnce(&Servers) -> T,
) -> Result<T, String> {
    let sockets = sockets(gpus.len(), &folder.path);
    let stop = StopOnDrop(Stopper::new().map_err(|error| error.to_string())?);
    let bound = sockets.iter().map(|socket| Server::bind(socket, stop.0.clone()).map_err(|error| error.to_string()));
    let bound = bound.collect::<Result<Vec<_>, _>>()?;
    let made = sockets.iter().map(|_| Mutex::default()).collect();
    let servers = Servers { sockets, made, log: Mutex::default() };
    Ok(thread::scope(|scope| {
        let stop = stop;
        for (place, (server, gpu)) in bound.iter().zip(gpus).enumerate() {
            let (servers, news) = (&servers, news.clone());
            scope.spawn(move || {
                // Otherwise QEMU would wait for an answer, a minute, and whoever waits for the guest longer.
                let _guard = TellsOfPanic(&news);
                servers.serve(server, place, gpu, &news);
            });
        }
        let outcome = work(&servers);
        drop(stop);
        outcome
    }))
}

/// Called while a guest runs: gives it orders, and checks the results.
pub(super) type Scenario<'a> = &'a mut dyn FnMut(&mut Guest<'_>) -> Result<(), Stop>;

/// Runs a guest until the scenario is over. What is seen of it is passed to `observe` as it comes.
///
/// QEMU does not outlive the thread that calls this.
///
/// # Errors
/// The guest could not be started; says what to do.
pub(super) fn run(
    setting: &Setting,
    luggage: &Luggage,
    observe: &mut dyn FnMut(Seen<'_>),
    scenario: Scenario<'_>,
) -> Result<Ended, String> {
    let mut folder = Folder::new()?;
    let (news, heard) = channel();
    let asked = Asked::tell(news.clone(), Heard::Signal);
    let _asked = asked.map_err(|error| format!("signals cannot be waited for: {error}"))?;
    let archive = folder.path.join(ARCHIVE);
    let contents = image::build(&setting.kernel, Job::default(), luggage)?;
    fs::write(&archive, contents).map_err(|error| format!("{}: {error}", archive.display()))?;
    let ended = with_gpus(&setting.served(), &folder, &news, |servers| {
        let (qemu, orders) = start(setting, &folder.path, news.clone())?;
        let mut guest = Guest {
            qemu,
            orders,
            heard,
            monitor: folder.path.join(MONITOR),
            connected: None,
            witness: &|gpu| servers.witness(gpu),
            sockets: servers.sockets.clone(),
            observe,
            time_limit: setting.time_limit,
            until: Instant::now() + setting.time_limit,
            last: "before it told anything".to_owned(),
        };
        let outcome = guest.boot().and_then(|()| scenario(&mut guest)).and_then(|()| guest.power_off());
        Ok(match outcome {
            Ok(()) => Ended::Done,
            Err(Stop::Signal(signal)) => Ended::Stopped(signal),
            Err(Stop::Bad(reason)) => Ended::Badly(explained(&reason, &folder.path, &servers.log)),
        })
    });
    if matches!(ended, Ok(Ok(Ended::Badly(_)))) {
        let _ = fs::remove_file(&archive);
        folder.keep = true;
    }
    ended?
}

fn sockets(count: usize, folder: &Path) -> Vec<PathBuf> {
    (0..count).map(|gpu| folder.join(format!("gpu{gpu}"))).collect()
}

/// The command line of QEMU for files in a folder.
pub(super) fn line(setting: &Setting, folder: &Path) -> CommandLine {
    let sockets = sockets(setting.gpus.len(), folder);
    let machine = Machine {
        accelerator: setting.accelerator.accelerator,
        memory_mib: MEMORY_MIB,
        processors: 1,
        windows: false,
        sockets: &sockets,
        empty_slot: setting.spare.as_ref().map(|gpu| gpu.variant.vram_window),
    };
    let [archive, console, monitor] = [ARCHIVE, CONSOLE, MONITOR].map(|name| folder.join(name));
    machine::linux(
        &machine,
        &Files { kernel: &setting.kernel.image, archive: &archive, console: &console, monitor: &monitor },
    )
}

fn start(setting: &Setting, folder: &Path, news: Sender<Heard>) -> Result<(Running, ChildStdin), String> {
    let line = line(setting, folder);
    let errors = folder.join(ERRORS);
    let errors = fs::File::create(&errors).map_err(|error| format!("{}: {error}", errors.display()))?;
    let mut command = Command::new(&setting.qemu);
    command.args(&line.0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    converse(&mut command, news).map_err(|error| format!("{} does not start: {error}", setting.qemu.display()))
}

/// Starts a program and hears every line that it prints.
fn converse(command: &mut Command, news: Sender<Heard>) -> io::Result<(Running, ChildStdin)> {
    let mut program = Running::start(command)?;
    let child = program.child();
    let (Some(output), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    thread::spawn(move || hear(output, &news));
    Ok((program, input))
}

fn hear(output: impl Read, news: &Sender<Heard>) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while matches!(output.read_until(b'\n', &mut bytes), Ok(1..)) {
        if news.send(Heard::Line(String::from_utf8_lossy(&bytes).trim().to_owned())).is_err() {
            return;
        }
        bytes.clear();
    }
    let _ = news.send(Heard::End);
}

/// A reason with the last lines of everybody's log.
fn explained(reason: &str, folder: &Path, servers: &Mutex<Vec<String>>) -> String {
    let mut text = reason.to_owned();
    let mut add = |who: &str, lines: Vec<String>| {
        let first = lines.len().saturating_sub(LAST_LINES);
        for line in lines.iter().skip(first).filter(|line| !line.trim().is_empty()) {
            text.push_str(&format!("\n  {who}: {}", line.trim_end()));
        }
    };
    let read = |name: &str| {
        let bytes = fs::read(folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    add("console", read(CONSOLE));
    add("QEMU", read(ERRORS));
    add("device", servers.lock().unwrap_or_else(PoisonError::into_inner).clone());
    text.push_str(&format!("\n  the logs are kept in {}", folder.display()));
    text
}

/// The functions that guests should find for the GPUs of a setting.
///
/// # Errors
/// The host has no memory for one.
pub(super) fn expected(setting: &Setting) -> Result<Vec<Expected>, String> {
    let gpus = setting.gpus.iter().map(|gpu| Gpu::new(&gpu.variant).map(|gpu| Expected::of(&gpu)));
    gpus.collect::<io::Result<_>>().map_err(|error| format!("the GPU could not be built: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::protocol::{Event, Step};

    /// What comes of a guest that is a script, and what was seen of it.
    fn talk(
        script: &str,
        time_limit: Duration,
        scenario: &mut dyn FnMut(&mut Guest<'_>) -> Result<(), Stop>,
    ) -> (Result<(), Stop>, Vec<Event>) {
        let (news, heard) = channel();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stdin(Stdio::piped());
        let (qemu, orders) = converse(&mut command, news).unwrap();
        let mut seen = Vec::new();
        let mut observe = |what: Seen<'_>| {
            if let Seen::Event(event) = what {
                seen.push(event.clone());
            }
        };
        let mut guest = Guest {
            qemu,
            orders,
            heard,
            monitor: "/nonexistent".into(),
            connected: None,
            witness: &|_| None,
            sockets: Vec::new(),
            observe: &mut observe,
            time_limit,
            until: Instant::now() + time_limit,
            last: "before it told anything".to_owned(),
        };
        let outcome = guest.boot().and_then(|()| scenario(&mut guest));
        drop(guest);
        (outcome, seen)
    }

    const LONG: Duration = Duration::from_secs(60);
    /// A guest that has started.
    const UP: &str = r#"echo '{"event":"up","kernel":"6"}'; echo; echo '{"event":"ready"}'; "#;

    fn reason(script: &str, scenario: &mut dyn FnMut(&mut Guest<'_>) -> Result<(), Stop>) -> String {
        match talk(script, LONG, scenario).0 {
            Err(Stop::Bad(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn step() -> Step {
        Step { name: "job".to_owned(), arguments: Vec::new() }
    }

    #[test]
    fn a_guest_does_what_it_is_ordered_to() {
        let script = format!(
            "{UP} read order; echo '{{\"event\":\"started\",\"step\":\"job\"}}'; echo '{{\"event\":\"ended\",\"step\":\"job\",\"code\":0}}'; \
             read order; test \"$order\" = '{{\"order\":\"poweroff\"}}' && echo '{{\"event\":\"done\"}}'; exec sleep 1000"
        );
        let (outcome, seen) = talk(&script, LONG, &mut |guest| {
            guest.run(&step())?;
            guest.power_off()
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(seen.first(), Some(&Event::Up { kernel: "6".to_owned() }));
        assert_eq!(seen.last(), Some(&Event::Done));
    }

    #[test]
    fn a_guest_that_dies_says_how_far_it_came() {
        let text = reason("exit 3", &mut |_| Ok(()));
        assert!(text.contains("before it told anything") && text.contains('3'), "{text}");
        let started = format!(r#"{UP} echo '{{"event":"started","step":"main job"}}'"#);
        assert!(reason(&started, &mut |guest| guest.run(&step())).contains("at the beginning of main job"));
    }

    #[test]
    fn a_guest_that_starts_anew_unasked_has_come_to_grief() {
        let again = format!("{UP} read order; {UP} exec sleep 1000");
        let text = reason(&again, &mut |guest| guest.run(&step()));
        assert!(text.contains("started anew"), "{text}");
    }

    #[test]
    fn a_step_that_ends_before_it_says_what_is_waited_for_is_an_error() {
        let script = format!(r#"{UP} read order; echo '{{"event":"ended","step":"job","code":1}}'; exec sleep 1000"#);
        assert_eq!(reason(&script, &mut |guest| guest.start(&step(), "under load")), "job ended too early");
    }

    #[test]
    fn trouble_and_nonsense_end_it() {
        let trouble = r#"echo '{"event":"trouble","text":"no GPU"}'; exec sleep 1000"#;
        assert_eq!(reason(trouble, &mut |_| Ok(())), "the guest cannot go on: no GPU");
        assert_eq!(
            reason("echo BUG; exec sleep 1000", &mut |_| Ok(())),
            "the guest sent a line that is no event of this program: BUG"
        );
        let refused =
            format!(r#"{UP} read order; echo '{{"event":"wrote","file":"reset","error":"busy"}}'; exec sleep 1000"#);
        let text = reason(&refused, &mut |guest| guest.write("reset", "1"));
        assert_eq!(text, "the guest cannot write `1` to `reset`: busy");
    }

    #[test]
    fn a_guest_that_hangs_is_stopped() {
        let (outcome, _) = talk("exec sleep 1000", Duration::from_millis(100), &mut |_| Ok(()));
        assert!(matches!(outcome, Err(Stop::Bad(reason)) if reason.contains("stopped after 0 s")));
    }
}
