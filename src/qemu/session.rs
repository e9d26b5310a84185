//! A guest from start to end: the servers of its GPUs, QEMU, and the events that it tells.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use campanile_device::{Gpu, Variant};
use campanile_vfio_user::{Event as ServerEvent, Function, Server, Stopper};

use super::function::Expected;
use super::image::{self, Luggage};
use super::machine::{self, Accelerator, Line, Machine};
use super::protocol::{Event, Job};
use super::tools::Kernel;
use crate::device::GpuFunction;

/// Memory of a guest: its first file system, what a machine on the bus `vfio` has, and as much again.
const MEMORY_MIB: u64 = 1024;
/// The guest's first file system, in the folder of a run.
const ARCHIVE: &str = "initramfs";
/// Last lines of a log that are told when a guest ends badly.
const LAST_LINES: usize = 12;

/// What a guest runs on.
pub(super) struct Setting {
    pub(super) qemu: PathBuf,
    pub(super) kernel: Kernel,
    pub(super) accelerator: Accelerator,
    /// The GPUs.
    pub(super) gpus: Vec<Served>,
    /// How long it may take.
    pub(super) patience: Duration,
}

/// A GPU of a guest.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) variant: Variant,
    /// Its doorbells are not mapped into the guest.
    pub(super) trapped_doorbells: bool,
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did all steps of its job.
    Done,
    /// It did not; says why.
    Badly(String),
}

/// Serves GPUs while `work` runs, which is given the folder of their sockets.
pub(super) fn with_gpus<T>(gpus: &[Served], work: impl FnOnce(&[PathBuf]) -> T) -> Result<T, String> {
    let folder = Folder::new().map_err(|error| format!("no folder for the guest's files: {error}"))?;
    let sockets: Vec<PathBuf> = (0..gpus.len()).map(|gpu| folder.path.join(format!("gpu{gpu}"))).collect();
    let stop = Stopper::new().map_err(|error| error.to_string())?;
    let servers = sockets.iter().map(|socket| Server::bind(socket, stop.clone()).map_err(|error| error.to_string()));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let log = Mutex::new(Vec::new());
    let outcome = thread::scope(|scope| {
        for (server, gpu) in servers.iter().zip(gpus) {
            let log = &log;
            scope.spawn(move || serve(server, gpu, log));
        }
        let outcome = work(&sockets);
        stop.stop();
        outcome
    });
    for line in log.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        eprintln!("campanile: {line}");
    }
    Ok(outcome)
}

/// A folder for sockets and logs, removed with what is in it unless it is to be kept.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("campanile-qemu-{}", std::process::id()));
        fs::create_dir_all(&path)?;
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

/// QEMU, ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a guest to its end. Every event is passed to `observe` as it comes.
///
/// # Errors
/// The guest could not be started; says what to do.
pub(super) fn run(
    setting: &Setting,
    job: Job,
    luggage: &Luggage,
    observe: &mut dyn FnMut(&Event),
) -> Result<Ended, String> {
    let mut folder = Folder::new().map_err(|error| format!("no folder for the guest's files: {error}"))?;
    let archive = folder.path.join(ARCHIVE);
    let contents = image::build(&setting.kernel, job, luggage)?;
    fs::write(&archive, contents).map_err(|error| format!("{}: {error}", archive.display()))?;
    let sockets = sockets(setting, &folder.path);
    let stop = Stopper::new().map_err(|error| error.to_string())?;
    let mut servers = Vec::new();
    for socket in &sockets {
        servers.push(Server::bind(socket, stop.clone()).map_err(|error| error.to_string())?);
    }
    let log = Mutex::new(Vec::new());
    let ended = thread::scope(|scope| {
        for (server, gpu) in servers.iter().zip(&setting.gpus) {
            let log = &log;
            scope.spawn(move || serve(server, gpu, log));
        }
        let ended = start(setting, &folder.path).map(|(qemu, lines)| {
            let ended = follow(qemu, &lines, setting.patience, observe);
            ended.unwrap_or_else(|reason| Ended::Badly(explained(&reason, &folder.path, &log)))
        });
        stop.stop();
        ended
    });
    if matches!(ended, Ok(Ended::Badly(_))) {
        let _ = fs::remove_file(&archive);
        folder.keep = true;
    }
    ended
}

/// Serves GPUs of a variant, and keeps what is worth telling.
fn serve(server: &Server, gpu: &Served, log: &Mutex<Vec<String>>) {
    let mut make = || {
        let function = GpuFunction::new(&gpu.variant, true)?;
        let function = if gpu.trapped_doorbells { function.with_trapped_doorbells() } else { function };
        Ok(Box::new(function) as Box<dyn Function>)
    };
    let note = |text: String| log.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    let observe = |event: &ServerEvent| match event {
        ServerEvent::Left(Some(error)) => note(format!("QEMU was dropped: {error}")),
        ServerEvent::NoFunction(error) => note(format!("no GPU could be made: {error}")),
        ServerEvent::Note(text) => note(text.clone()),
        _ => {}
    };
    if let Err(error) = server.run(&mut make, &observe) {
        note(format!("the GPU cannot be served any more: {error}"));
    }
}

fn sockets(setting: &Setting, folder: &Path) -> Vec<PathBuf> {
    (0..setting.gpus.len()).map(|gpu| folder.join(format!("gpu{gpu}"))).collect()
}

/// The command line of QEMU for files in a folder.
pub(super) fn line(setting: &Setting, folder: &Path) -> Line {
    let sockets = sockets(setting, folder);
    let machine = Machine {
        accelerator: setting.accelerator,
        memory_mib: MEMORY_MIB,
        processors: 1,
        windows: false,
        sockets: &sockets,
    };
    machine::linux(&machine, &setting.kernel.image, &folder.join(ARCHIVE), &folder.join("console"))
}

fn start(setting: &Setting, folder: &Path) -> Result<(Running, Receiver<String>), String> {
    let line = line(setting, folder);
    let errors = fs::File::create(folder.join("qemu")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut qemu = Command::new(&setting.qemu)
        .args(&line.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("{} does not start: {error}", setting.qemu.display()))?;
    let output = qemu.stdout.take();
    let (sender, lines) = channel();
    thread::spawn(move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while matches!(output.read_until(b'\n', &mut bytes), Ok(1..)) {
            if sender.send(String::from_utf8_lossy(&bytes).trim().to_owned()).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    Ok((Running(qemu), lines))
}

/// Passes events on until the guest is done.
///
/// # Errors
/// It ended without being done, or did not end; says which.
fn follow(
    mut qemu: Running,
    lines: &Receiver<String>,
    patience: Duration,
    observe: &mut dyn FnMut(&Event),
) -> Result<Ended, String> {
    let until = Instant::now() + patience;
    let mut last = "before it told anything".to_owned();
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line.is_empty() => {}
            Ok(line) => {
                let event: Event =
                    serde_json::from_str(&line).map_err(|_| format!("the guest told nonsense: {line}"))?;
                observe(&event);
                match event {
                    Event::Done => return Ok(Ended::Done),
                    Event::Trouble { text } => return Err(format!("the guest cannot go on: {text}")),
                    Event::Line { step, text, .. } => last = format!("in {step}, after the line `{text}`"),
                    Event::Started { step } => last = format!("at the beginning of {step}"),
                    Event::Ended { step, .. } => last = format!("after {step}"),
                    Event::Up { .. } => last = "before it found a GPU".to_owned(),
                    Event::Function(_) => last = "after it found a GPU".to_owned(),
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = qemu.0.wait().map(|status| status.to_string()).unwrap_or_default();
                return Err(format!("the guest ended {last} (QEMU: {status})"));
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("the guest was stopped after {} s, {last}", patience.as_secs()));
            }
        }
    }
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
    add("console", read("console"));
    add("QEMU", read("qemu"));
    add("device", servers.lock().unwrap_or_else(PoisonError::into_inner).clone());
    text.push_str(&format!("\n  the logs are kept in {}", folder.display()));
    text
}

/// What guests are to find of the GPUs of a setting.
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

    fn follow_shell(script: &str, patience: Duration) -> (Result<Ended, String>, Vec<Event>) {
        let mut child =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut seen = Vec::new();
        let ended = follow(Running(child), &lines, patience, &mut |event| seen.push(event.clone()));
        (ended, seen)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_guest_that_is_done_has_told_everything() {
        let script = r#"echo '{"event":"up","kernel":"6"}'; echo; echo '{"event":"done"}'; exec sleep 1000"#;
        let (ended, seen) = follow_shell(script, LONG);
        assert_eq!(ended, Ok(Ended::Done));
        assert_eq!(seen, [Event::Up { kernel: "6".to_owned() }, Event::Done]);
    }

    #[test]
    fn a_guest_that_dies_says_how_far_it_came() {
        let (ended, _) = follow_shell("exit 3", LONG);
        let reason = ended.unwrap_err();
        assert!(reason.contains("before it told anything") && reason.contains('3'), "{reason}");
        let (ended, _) = follow_shell(r#"echo '{"event":"started","step":"main job"}'"#, LONG);
        assert!(ended.unwrap_err().contains("at the beginning of main job"));
    }

    #[test]
    fn trouble_and_nonsense_end_it() {
        let (ended, _) = follow_shell(r#"echo '{"event":"trouble","text":"no GPU"}'; exec sleep 1000"#, LONG);
        assert_eq!(ended, Err("the guest cannot go on: no GPU".to_owned()));
        let (ended, _) = follow_shell("echo BUG; exec sleep 1000", LONG);
        assert_eq!(ended, Err("the guest told nonsense: BUG".to_owned()));
    }

    #[test]
    fn a_guest_that_hangs_is_stopped() {
        let (ended, _) = follow_shell("exec sleep 1000", Duration::from_millis(100));
        assert!(ended.unwrap_err().contains("stopped after 0 s"));
    }
}
