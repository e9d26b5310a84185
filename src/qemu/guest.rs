//! The first process of the guest: prepares the machine, does the job, tells what comes of it, and powers off.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use campanile_hw::pci;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

use super::protocol::{EVENTS, Event, Found, JOB, Job, PROGRAM, Step, placeholder};
use crate::cli::EXIT_MACHINE;

/// finit_module unpacks the module. [linux/module.h: MODULE_INIT_COMPRESSED_FILE]
const COMPRESSED: i32 = 4;
const DEVICES: &str = "/sys/bus/pci/devices";

/// Runs as the first process. Elsewhere it refuses, because it would power the machine off.
pub fn command() -> u8 {
    if std::process::id() != 1 {
        eprintln!(
            "campanile: `guest` is what `campanile qemu` starts as the first process of its guest, and nothing else"
        );
        return EXIT_MACHINE;
    }
    let outcome = mounts().and_then(|()| events());
    match outcome {
        Ok(mut events) => {
            let last = match work(&mut events) {
                Ok(()) => Event::Done,
                Err(error) => Event::Trouble { text: error.to_string() },
            };
            tell(&mut events, &last);
            let _ = rustix::termios::tcdrain(&events);
        }
        Err(error) => eprintln!("campanile guest: {error}"),
    }
    let _ = reboot(RebootCommand::PowerOff);
    EXIT_MACHINE
}

fn mounts() -> io::Result<()> {
    for (kind, place) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/tmp")] {
        let mounted = mount(kind, place, kind, MountFlags::empty(), None::<&CStr>);
        mounted.map_err(|error| io::Error::other(format!("{kind} cannot be mounted at {place}: {error}")))?;
    }
    // Memory for DMA in huge pages, each of which is one entry of the IOMMU's tables and one message to the server.
    for file in ["enabled", "shmem_enabled"] {
        let path = format!("/sys/kernel/mm/transparent_hugepage/{file}");
        if let Err(error) = fs::write(&path, "always") {
            eprintln!("campanile guest: {path}: {error}");
        }
    }
    Ok(())
}

fn events() -> io::Result<File> {
    OpenOptions::new().write(true).open(EVENTS)
}

/// A line of the event. Who cannot be told cannot be told that either.
fn tell(events: &mut File, event: &Event) {
    if let Ok(mut line) = serde_json::to_string(event) {
        line.push('\n');
        let _ = events.write_all(line.as_bytes());
    }
}

fn work(events: &mut File) -> io::Result<()> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    tell(events, &Event::Up { kernel: kernel.trim().to_owned() });
    let job: Job = serde_json::from_slice(&fs::read(JOB)?)?;
    for module in &job.modules {
        load(module).map_err(|error| io::Error::other(format!("{module}: {error}")))?;
    }
    let mut names = Vec::new();
    for name in functions()? {
        bind(&name).map_err(|error| io::Error::other(format!("{name} cannot be bound to vfio-pci: {error}")))?;
        let found = found(&name).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
        tell(events, &Event::Function(found));
        names.push(name);
    }
    if names.is_empty() {
        return Err(io::Error::other("there is no GPU among the PCI functions of this machine"));
    }
    for step in &job.steps {
        run(events, step, &names);
    }
    Ok(())
}

fn load(path: &str) -> io::Result<()> {
    let flags = if path.ends_with(".ko") { 0 } else { COMPRESSED };
    match finit_module(File::open(path)?, c"", flags) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The GPUs by the order of their names, which is that of their slots.
fn functions() -> io::Result<Vec<String>> {
    let is_ours = |path: &Path| {
        let number = |file: &str| {
            let text = fs::read_to_string(path.join(file)).ok()?;
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        number("vendor") == Some(pci::VENDOR_ID) && number("device") == Some(pci::DEVICE_ID)
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(DEVICES)? {
        let entry = entry?;
        if is_ours(&entry.path()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn bind(name: &str) -> io::Result<()> {
    let device = Path::new(DEVICES).join(name);
    fs::write(device.join("driver_override"), "vfio-pci")?;
    fs::write("/sys/bus/pci/drivers_probe", name)?;
    match device.join("driver").read_link() {
        Ok(driver) if driver.ends_with("vfio-pci") => Ok(()),
        Ok(driver) => Err(io::Error::other(format!("its driver is {}", driver.display()))),
        Err(error) => Err(error),
    }
}

fn found(name: &str) -> io::Result<Found> {
    let device = Path::new(DEVICES).join(name);
    let mut config = Vec::new();
    File::open(device.join("config"))?.read_to_end(&mut config)?;
    let resource = fs::read_to_string(device.join("resource"))?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let range = |line: &str| {
        let mut words = line.split_whitespace().filter_map(number);
        Some((words.next()?, words.next()?, words.next()?))
    };
    let members = fs::read_dir(device.join("iommu_group/devices"))?.flatten();
    let mut group: Vec<String> = members.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    group.sort();
    Ok(Found {
        name: name.to_owned(),
        config: config.iter().map(|byte| format!("{byte:02x}")).collect(),
        resources: resource.lines().filter_map(range).collect(),
        group,
    })
}

/// Runs a step and tells every line that it prints, as it comes.
fn run(events: &mut File, step: &Step, names: &[String]) {
    tell(events, &Event::Started { step: step.name.clone() });
    let filled = step.arguments.iter().map(|argument| {
        let fill = |text: String, (index, name): (usize, &String)| text.replace(&placeholder(index), name);
        names.iter().enumerate().fold(argument.clone(), fill)
    });
    let mut command = Command::new(PROGRAM);
    command.args(filled).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return tell(events, &Event::Trouble { text: format!("{}: {error}", step.name) }),
    };
    let (sender, lines) = channel();
    let mut readers = Vec::new();
    if let Some(output) = child.stdout.take() {
        let sender = sender.clone();
        readers.push(thread::spawn(move || forward(output, false, &sender)));
    }
    if let Some(output) = child.stderr.take() {
        let sender = sender.clone();
        readers.push(thread::spawn(move || forward(output, true, &sender)));
    }
    drop(sender);
    for (error, text) in lines {
        tell(events, &Event::Line { step: step.name.clone(), error, text });
    }
    for reader in readers {
        let _ = reader.join();
    }
    let status = child.wait().unwrap_or_default();
    tell(events, &Event::Ended { step: step.name.clone(), code: status.code(), signal: status.signal() });
}

fn forward(output: impl Read, error: bool, lines: &Sender<(bool, String)>) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while matches!(output.read_until(b'\n', &mut bytes), Ok(1..)) {
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if lines.send((error, text)).is_err() {
            break;
        }
        bytes.clear();
    }
}
