//! The first process of the guest: prepares the machine, does what the host orders, and tells what comes of it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use campanile_hw::pci;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};
use rustix::system::{RebootCommand, finit_module, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use super::protocol::{Event, Found, JOB, Job, LINE, Order, PROGRAM, Step, placeholder};
use super::slot::{self, DEVICES, Slot};
use testbed::exit::EXIT_MACHINE;

/// finit_module unpacks the module. [linux/module.h: MODULE_INIT_COMPRESSED_FILE]
const COMPRESSED: i32 = 4;

/// Runs as the first process. Elsewhere it refuses, because it would power the machine off.
pub fn command() -> u8 {
    if std::process::id() != 1 {
        testbed::complain!(
            "campanile: `guest` is what `campanile qemu` starts as the first process of its guest, and nothing else"
        );
        return EXIT_MACHINE;
    }
    match mounts().and_then(|()| line()) {
        Ok((teller, orders)) => {
            let last = match work(&teller, orders) {
                Ok(()) => Event::Done,
                Err(error) => Event::Trouble { text: error.to_string() },
            };
            teller.tell(&last);
            teller.drain();
        }
        Err(error) => testbed::complain!("campanile guest: {error}"),
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
            testbed::complain!("campanile guest: {path}: {error}");
        }
    }
    Ok(())
}

/// Tells events, whole ones, from any thread.
#[derive(Clone)]
struct Teller(Arc<Mutex<File>>);

impl Teller {
    /// A line of the event. Who cannot be told cannot be told that either.
    fn tell(&self, event: &Event) {
        if let Ok(mut line) = serde_json::to_string(event) {
            line.push('\n');
            let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        }
    }

    /// Returns when everything has left the machine.
    fn drain(&self) {
        let _ = tcdrain(&*self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Both directions of the line to the host, on which bytes are no more than that: nothing comes back that the host sends.
fn line() -> io::Result<(Teller, BufReader<File>)> {
    let line = OpenOptions::new().read(true).write(true).open(LINE)?;
    let mut settings = tcgetattr(&line)?;
    settings.make_raw();
    tcsetattr(&line, OptionalActions::Now, &settings)?;
    let orders = BufReader::new(line.try_clone()?);
    Ok((Teller(Arc::new(Mutex::new(line))), orders))
}

fn work(teller: &Teller, mut orders: BufReader<File>) -> io::Result<()> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    teller.tell(&Event::Up { kernel: kernel.trim().to_owned() });
    let job: Job = serde_json::from_slice(&fs::read(JOB)?)?;
    for module in &job.modules {
        load(module).map_err(|error| io::Error::other(format!("{module}: {error}")))?;
    }
    let mut names = Vec::new();
    for name in functions()? {
        // As the firmware and Linux have left it; vfio-pci puts it to sleep, now or a little later.
        let found = found(&name).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
        teller.tell(&Event::Function(found));
        bind(&name).map_err(|error| io::Error::other(format!("{name} cannot be bound to vfio-pci: {error}")))?;
        names.push(name);
    }
    if names.is_empty() {
        return Err(io::Error::other("there is no GPU among the PCI functions of this machine"));
    }
    teller.tell(&Event::Ready);
    let mut begun: Vec<Begun> = Vec::new();
    // Of GPUs that were plugged in meanwhile.
    let mut slots: BTreeMap<usize, Slot> = BTreeMap::new();
    let no_slot = || io::Error::other("that GPU was not plugged in while the guest ran");
    let mut text = String::new();
    loop {
        text.clear();
        if orders.read_line(&mut text)? == 0 {
            return Err(io::Error::other("nobody gives orders any more"));
        }
        match serde_json::from_str(&text)? {
            Order::Run { step } => {
                if let Some(begun) = start(teller, &step, &names) {
                    begun.finish();
                }
            }
            Order::Start { step } => begun.extend(start(teller, &step, &names)),
            Order::Kill { name } => {
                let Some(at) = begun.iter().position(|begun| begun.name == name) else {
                    return Err(io::Error::other(format!("{name} was not begun")));
                };
                let killed = begun.swap_remove(at);
                let _ = kill_process(killed.process, Signal::KILL);
                killed.finish();
            }
            Order::Write { gpu, file, text } => {
                let name = names.get(gpu).map(String::as_str).unwrap_or_default();
                let written = fs::write(Path::new(DEVICES).join(name).join(&file), text);
                teller.tell(&Event::Wrote { file, error: written.err().map(|error| error.to_string()) });
            }
            Order::SlotOff { gpu } => {
                slots.get(&gpu).ok_or_else(no_slot)?.pull_out()?;
                teller.tell(&Event::Slot { gpu });
            }
            Order::Unplugged { gpu } => {
                let name = names.get(gpu).map(String::as_str).unwrap_or_default();
                let slot = slots.remove(&gpu).ok_or_else(no_slot)?;
                let gone = || Ok((!Path::new(DEVICES).join(name).exists() && slot.is_off()?).then_some(()));
                slot::wait_for("gone", gone)?;
                teller.tell(&Event::Slot { gpu });
            }
            Order::Plugged { gpu } => {
                let known = names.get(..gpu).unwrap_or_default().to_vec();
                let new = || Ok(functions()?.into_iter().find(|name| !known.contains(name)));
                let name = slot::wait_for("plugged in", new)?;
                bind(&name)
                    .map_err(|error| io::Error::other(format!("{name} cannot be bound to vfio-pci: {error}")))?;
                slots.insert(gpu, Slot::of(&name)?);
                names.truncate(gpu);
                names.push(name);
                teller.tell(&Event::Slot { gpu });
            }
            Order::Restart => {
                reboot(RebootCommand::Restart)?;
            }
            Order::PowerOff => return Ok(()),
        }
    }
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

/// A step that was begun, and the thread that tells of it to its end.
struct Begun {
    name: String,
    process: Pid,
    teller: JoinHandle<()>,
}

impl Begun {
    fn finish(self) {
        let _ = self.teller.join();
    }
}

/// Begins a step and tells every line that it prints, as it comes, and its end.
fn start(teller: &Teller, step: &Step, names: &[String]) -> Option<Begun> {
    teller.tell(&Event::Started { step: step.name.clone() });
    let filled = step.arguments.iter().map(|argument| {
        let fill = |text: String, (index, name): (usize, &String)| text.replace(&placeholder(index), name);
        names.iter().enumerate().fold(argument.clone(), fill)
    });
    let mut command = Command::new(PROGRAM);
    command.args(filled).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            teller.tell(&Event::Trouble { text: format!("{}: {error}", step.name) });
            return None;
        }
    };
    let process = Pid::from_child(&child);
    let (name, teller) = (step.name.clone(), teller.clone());
    let teller = thread::spawn(move || follow(child, &name, &teller));
    Some(Begun { name: step.name.clone(), process, teller })
}

fn follow(mut child: Child, name: &str, teller: &Teller) {
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
        teller.tell(&Event::Line { step: name.to_owned(), error, text });
    }
    for reader in readers {
        let _ = reader.join();
    }
    let status = child.wait().unwrap_or_default();
    teller.tell(&Event::Ended { step: name.to_owned(), code: status.code(), signal: status.signal() });
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
