//! The GPU over vfio-user: what a monitor finds, and what it cannot break.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use campanile_device::{Gpu, Variant};
use campanile_hw::{pci, registers};
use campanile_vfio_user::message::{command, irq, region, region_flag};
use campanile_vfio_user::{Client, Function, Stopper, serve};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use testbed::device::{GpuFunction, Messages};
use testbed::setup::{BusChoice, Program, System, SystemOptions};

const COMMAND: u64 = 4;
const MSIX_CONTROL: u64 = 0x4a;
const POWER_CONTROL: u64 = 0x44;
const DEVICE_CONTROL: u64 = 0x68;

fn memory(size: u64) -> File {
    let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(size).unwrap();
    file
}

fn small() -> Variant {
    Variant { vram_size: 16 << 20, vram_window: 16 << 20, ..Variant::default() }
}

/// A client of a GPU in this process.
struct Served {
    client: Client,
    gpu: Arc<Gpu>,
    thread: JoinHandle<()>,
}

fn served(variant: &Variant) -> Served {
    served_with(variant, Messages::MsiX)
}

fn served_with(variant: &Variant, messages: Messages) -> Served {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let made = Arc::new(Mutex::new(None));
    let (slot, variant) = (made.clone(), variant.clone());
    let thread = std::thread::spawn(move || {
        let mut make = || {
            let function = GpuFunction::new(&variant, true)?.with_messages(messages);
            *slot.lock().unwrap() = Some(function.gpu().clone());
            Ok(Box::new(function) as Box<dyn Function>)
        };
        serve(theirs, &Stopper::new().unwrap(), &mut make, &|_| {});
    });
    let client = Client::new(ours).unwrap();
    let gpu = made.lock().unwrap().take().unwrap();
    Served { client, gpu, thread }
}

impl Served {
    fn config(&self, offset: u64, size: usize) -> u32 {
        let mut bytes = [0; 4];
        self.client.read(region::CONFIG, offset, &mut bytes[..size]).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn set_config(&self, offset: u64, value: u16) {
        self.client.write(region::CONFIG, offset, &value.to_le_bytes()).unwrap();
    }

    fn register(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        let size = registers::REGISTERS.iter().find(|register| register.offset == offset).unwrap().width;
        self.client.read(0, offset, &mut bytes[..usize::from(size)]).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn set_register(&self, offset: u64, value: u64) {
        let size = registers::REGISTERS.iter().find(|register| register.offset == offset).unwrap().width;
        self.client.write(0, offset, &value.to_le_bytes()[..usize::from(size)]).unwrap();
    }

    /// Ends the client; the GPU must go with it.
    fn end(self) {
        drop(self.client);
        self.thread.join().expect("the server does not panic");
        assert_eq!(Arc::strong_count(&self.gpu), 1, "nobody but the test holds the GPU any more");
    }
}

/// True if an eventfd has counted within `seconds`, and takes the count.
fn counted(fd: &OwnedFd, seconds: i64) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
        && rustix::io::read(fd, &mut [0; 8]) == Ok(8)
}

#[test]
fn a_monitor_finds_the_function_of_the_manual() {
    let served = served(&small());
    let mut whole = [0; 4096];
    served.client.read(region::CONFIG, 0, &mut whole).unwrap();
    assert_eq!(whole[..4], [0x3e, 0xca, 0x32, 0x00]);
    assert_eq!(served.config(0x08, 4) >> 8, pci::CLASS_CODE);
    assert_eq!(served.client.vectors(irq::MSIX).unwrap(), u32::from(pci::MSIX_VECTORS));
    let sizes: Vec<u64> = (0..9).map(|index| served.client.region(index).unwrap().size).collect();
    assert_eq!(sizes, [pci::REGISTERS_SIZE, 0, 64 * 4096, 0, 16 << 20, 0, 0, 4096, 0]);
    assert!(served.client.region(0).unwrap().file.is_none(), "registers have effects");
    for (bar, pattern) in [(2, 0x11_u8), (4, 0x44)] {
        let info = served.client.region(bar).unwrap();
        assert_eq!(info.areas, [(0, info.size)]);
        let (file, offset) = info.file.unwrap();
        file.write_all_at(&[pattern; 16], offset + 4096 - 8).unwrap();
        let mut seen = [0; 16];
        served.client.read(bar, 4096 - 8, &mut seen).unwrap();
        assert_eq!(seen, [pattern; 16], "messages and mapping show the same memory");
        served.client.write(bar, 4096 - 8, &[0; 16]).unwrap();
        file.read_exact_at(&mut seen, offset + 4096 - 8).unwrap();
        assert_eq!(seen, [0; 16]);
    }
    assert_eq!(served.register(registers::ID), u64::from(u32::MAX), "memory is not decoded yet");
    served.set_config(COMMAND, 6);
    assert_eq!(served.register(registers::ID), u64::from(registers::ID_VALUE));
    assert_eq!(served.register(registers::VRAM_SIZE), 16 << 20);
    let mut odd = [0; 3];
    assert!(served.client.read(0, 0, &mut odd).is_err());
    served.end();
}

/// Sets the scheduler up so that an impossible watchdog event makes it send a message.
fn start(served: &Served) -> File {
    let ram = memory(1 << 20);
    served.client.map(0, Some(&ram), 0, 0x8_0000, true).unwrap();
    served.client.map(0x10_0000, Some(&ram), 0x8_0000, 0x8_0000, true).unwrap();
    restart(served);
    ram
}

/// As [`start`], with the memory that it has.
fn restart(served: &Served) {
    served.set_config(COMMAND, 6);
    for (register, value) in [
        (registers::QUEUE_TABLE_BASE, 0),
        (registers::QUEUE_TABLE_COUNT, 16),
        (registers::EVENT_RING_BASE, 0x10_0000),
        (registers::EVENT_RING_ENTRIES, 16),
        (registers::CONTROL, 1),
    ] {
        served.set_register(register, value);
    }
    assert_eq!(served.register(registers::CONTROL), 1, "the scheduler runs");
}

#[test]
fn messages_go_to_eventfds_and_memory_in_pieces_is_written() {
    let served = served(&small());
    let ram = start(&served);
    let trigger = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    served.set_config(MSIX_CONTROL, 1 << 15);
    served.client.set_triggers(0, &[trigger.as_fd()]).unwrap();
    served.gpu.declare_hung(0);
    assert!(counted(&trigger, 60));
    let mut event = [0; 8];
    ram.read_exact_at(&mut event, 0x8_0000 + 64).unwrap();
    let mut first = [0; 64];
    ram.read_exact_at(&mut first, 0x8_0000).unwrap();
    assert!(first.iter().chain(&event).any(|byte| *byte != 0), "the event is in the second piece");
    // What comes while no eventfd is there is kept for the next one.
    served.client.clear_triggers().unwrap();
    served.gpu.declare_hung(1);
    assert!(!counted(&trigger, 0));
    let next = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    served.client.set_triggers(0, &[next.as_fd()]).unwrap();
    assert!(counted(&next, 60) && !counted(&trigger, 0));
    served.end();
}

#[test]
fn a_function_with_msi_sends_the_same_message_and_forgets_it_with_every_reset() {
    // Identifier and link, control, address, data: where MSI-X is otherwise.
    const MSI: u64 = MSIX_CONTROL - 2;
    let served = served_with(&small(), Messages::Msi);
    assert_eq!(served.config(MSI, 1), 5);
    assert_eq!((served.client.vectors(irq::MSI).unwrap(), served.client.vectors(irq::MSIX).unwrap()), (1, 0));
    let _ram = start(&served);
    for reset in [true, false] {
        let trigger = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        served.client.set_triggers(0, &[trigger.as_fd()]).unwrap();
        served.gpu.declare_hung(0);
        assert!(!counted(&trigger, 0), "MSI is off");
        served.set_config(MSI + 4, 0xfee0);
        served.set_config(MSI + 2, 1);
        served.gpu.declare_hung(1);
        assert!(counted(&trigger, 60));
        match reset {
            true => served.client.reset().unwrap(),
            false => served.set_config(DEVICE_CONTROL, 1 << 15),
        }
        assert_eq!((served.config(MSI + 2, 2), served.config(MSI + 4, 2)), (0x80, 0), "as after power-on");
        restart(&served);
    }
    served.end();
}

#[test]
fn a_range_that_ends_with_the_addresses_can_be_taken_away() {
    let served = served(&small());
    let ram = memory(1 << 20);
    served.client.map(0x1000, Some(&ram), 0, 0x1000, true).unwrap();
    served.client.unmap(1 << 63, 1 << 63).unwrap();
    assert!(served.client.unmap(1 << 63, (1 << 63) + 0x1000).is_err(), "it ends beyond them");
    served.client.unmap(0x1000, 0x1000).unwrap();
    served.end();
}

#[test]
fn memory_that_is_taken_away_is_an_abort_in_the_device() {
    let served = served(&small());
    let ram = start(&served);
    served.client.unmap(0x10_0000, 0x8_0000).unwrap();
    ram.write_all_at(&[0; 0x1000], 0x8_0000).unwrap();
    served.gpu.declare_hung(0);
    let mut first = [0; 0x1000];
    ram.read_exact_at(&mut first, 0x8_0000).unwrap();
    assert!(first.iter().all(|byte| *byte == 0), "nothing is written to what was taken away");
    assert_eq!(served.register(registers::ID), u64::from(registers::ID_VALUE), "and the function goes on");
    // A range without memory is known and cannot be reached.
    served.client.map(0x10_0000, None, 0, 0x8_0000, true).unwrap();
    served.gpu.declare_hung(1);
    assert_eq!(served.register(registers::ID), u64::from(registers::ID_VALUE));
    served.end();
}

#[test]
fn every_reset_leaves_memory_and_eventfds_and_nothing_else() {
    type Reset = fn(&Served);
    let kinds: [(&str, Reset); 3] = [
        ("message", |served| served.client.reset().unwrap()),
        ("function level", |served| served.set_config(DEVICE_CONTROL, 1 << 15)),
        ("D3hot", |served| {
            served.set_config(POWER_CONTROL, 3);
            assert_eq!(served.register(registers::ID), u64::from(u32::MAX), "nothing answers in D3hot");
            served.set_config(POWER_CONTROL, 0);
        }),
    ];
    for (name, reset) in kinds {
        let served = served(&small());
        let _ram = start(&served);
        let trigger = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        served.set_config(MSIX_CONTROL, 1 << 15);
        served.client.set_triggers(0, &[trigger.as_fd()]).unwrap();
        reset(&served);
        assert_eq!(served.config(COMMAND, 2), 0, "{name}");
        assert_eq!(served.config(MSIX_CONTROL, 2) >> 15, 0, "{name}");
        served.gpu.declare_hung(0);
        assert!(!counted(&trigger, 0), "{name}");
        served.set_config(COMMAND, 6);
        for register in [registers::CONTROL, registers::QUEUE_TABLE_COUNT, registers::EVENT_RING_BASE] {
            assert_eq!(served.register(register), 0, "{name}");
        }
        // The eventfd was not taken away, so it need not be given again.
        for (register, value) in [
            (registers::QUEUE_TABLE_COUNT, 16),
            (registers::EVENT_RING_BASE, 0x10_0000),
            (registers::EVENT_RING_ENTRIES, 16),
            (registers::CONTROL, 1),
        ] {
            served.set_register(register, value);
        }
        served.set_config(MSIX_CONTROL, 1 << 15);
        served.gpu.declare_hung(0);
        assert!(counted(&trigger, 60), "{name}");
        served.end();
    }
}

#[test]
fn pages_of_the_host_aperture_go_by_messages_and_can_be_looked_up() {
    let variant = Variant { host_aperture: 1 << 20, ..small() };
    let served = served(&variant);
    served.set_config(COMMAND, 6);
    let linear = 15 << 20;
    let info = served.client.region(4).unwrap();
    assert_eq!((info.size, info.areas), (16 << 20, vec![(0, linear)]));
    let shown = |page: u64| {
        let mut word = [0; 8];
        served.client.read(region::PRIVATE, 8 * page, &mut word).unwrap();
        u64::from_le_bytes(word)
    };
    let first = linear / 4096;
    assert_eq!((shown(3), shown(first)), (3, u64::MAX));
    let mut bytes = [0; 8];
    served.client.read(4, linear, &mut bytes).unwrap();
    assert_eq!(bytes, [0xff; 8], "a page that shows nothing");
    served.set_register(registers::HOST_APERTURE_INDEX, 0);
    served.client.write(0, registers::HOST_APERTURE_TARGET, &7_u32.to_le_bytes()).unwrap();
    assert_eq!(shown(first), 7);
    served.client.write(4, linear + 8, b"aperture").unwrap();
    served.client.read(4, 7 * 4096 + 8, &mut bytes).unwrap();
    assert_eq!(&bytes, b"aperture");
    assert!(served.client.write(region::PRIVATE, 0, &[0; 8]).is_err());
    served.end();
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn word(&mut self) -> u64 {
        match self.roll(6) {
            0 => self.roll(32),
            1 => self.roll(512) << 12,
            2 => u64::MAX - self.roll(16),
            3 => 1 << self.roll(64),
            4 => 0x10_0000 + (self.roll(256) << 12),
            _ => self.roll(1 << 31) << 32 | self.roll(1 << 31),
        }
    }
}

/// One request of a monitor that has lost its mind. Whether it is refused does not matter.
fn request(served: &Served, dice: &mut Dice, ram: &File) {
    let client = &served.client;
    let value = dice.word().to_le_bytes();
    let size = [1, 2, 4, 8][dice.roll(4) as usize];
    let _ = match dice.roll(12) {
        0 => client.write(region::CONFIG, dice.roll(0x100), &value[..size]),
        1 => client.write(
            region::CONFIG,
            [COMMAND, MSIX_CONTROL, POWER_CONTROL, DEVICE_CONTROL][dice.roll(4) as usize],
            &value[..2],
        ),
        2 => client.write(region::CONFIG, COMMAND, &[6, 0]),
        3 | 4 => client.write(0, dice.roll(0x140) & !3, &value[..size.max(4)]),
        5 => client.write(0, registers::CONTROL, &[dice.roll(4) as u8, 0, 0, 0]),
        6 => client.write(0, registers::CMP_COMMAND, &[dice.roll(22) as u8, 0, 0, 0]),
        7 => client.write(2, dice.roll(64) * 4096, &value),
        8 => client.write(4, dice.roll(0x1_0000) & !7, &value),
        9 => {
            client.map(dice.roll(64) << 14, Some(ram), dice.roll(64) << 12, (1 + dice.roll(8)) << 12, dice.roll(4) > 0)
        }
        10 => client.unmap(dice.roll(64) << 14, dice.roll(64) << 12),
        _ => {
            let fd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            client.set_triggers(dice.roll(9) as u32, &[fd.as_fd()])
        }
    };
}

#[test]
fn no_monitor_breaks_the_function_or_the_next_one() {
    for seed in 0..24 {
        let served = served(&small());
        let mut dice = Dice(seed);
        let ram = memory(256 << 10);
        let noise: Vec<u8> = (0..256 << 10).map(|_| dice.roll(256) as u8).collect();
        ram.write_all_at(&noise, 0).unwrap();
        if seed % 2 == 0 {
            let _ram = start(&served);
        }
        for _ in 0..250 {
            request(&served, &mut dice, &ram);
        }
        served.client.reset().unwrap();
        served.set_config(COMMAND, 6);
        assert_eq!(served.register(registers::ID), u64::from(registers::ID_VALUE), "seed {seed}");
        served.end();
    }
}

/// `campanile device`, killed when dropped.
struct Device {
    child: Child,
    log: BufReader<ChildStderr>,
}

fn socket(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

impl Device {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_campanile"))
            .arg("device")
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, log }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.log.read_line(&mut line).expect("a line");
        line
    }

    fn interrupt(&mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("a signal");
        self.child.wait().expect("an end").code()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_says_what_happens_and_ends_in_order() {
    let (first, second) = (socket("first"), socket("second"));
    let paths = [&first, &second].map(|path| path.to_str().unwrap());
    let mut device = Device::start(&["--socket", paths[0], "--socket", paths[1], "--device-variant", "vram=16M"]);
    let mut lines = [device.line(), device.line()];
    lines.sort();
    assert!(lines[0].contains("sandbox: no new privileges") && lines[0].contains("refused by Landlock"), "{lines:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", device.child.id())).unwrap();
    assert!(status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"), "{status}");
    assert!(lines[0].contains(paths[0]) && lines[0].contains("listening; VRAM 16 MiB"), "{lines:?}");
    assert!(lines[1].contains(paths[1]), "{lines:?}");
    let client = Client::connect(&first).unwrap();
    assert!(device.line().contains("a client has connected"));
    assert!(Client::connect(&first).is_err());
    assert!(device.line().contains("a second client was refused"));
    let other = Client::connect(&second).unwrap();
    assert!(device.line().contains(paths[1]));
    client.write(4, 0, b"left behind").unwrap();
    drop(client);
    assert!(device.line().contains("the client has left"));
    let client = Client::connect(&first).unwrap();
    let mut bytes = [1; 11];
    client.read(4, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 11], "the next client finds nothing of the one before");
    assert_eq!(device.interrupt(), Some(0));
    assert!(client.regions().is_err() && other.regions().is_err());
    assert!(!first.exists() && !second.exists());
}

#[test]
fn what_cannot_be_served_is_said_and_nothing_is_left() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_campanile")).arg("device").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["--socket", "/nowhere/at/all"]);
    assert!(code == Some(2) && text.contains("/nowhere/at/all: No such file"), "{text}");
    let file = socket("file");
    std::fs::write(&file, "mine").unwrap();
    let free = socket("free");
    let (code, text) = run(&["--socket", free.to_str().unwrap(), "--socket", file.to_str().unwrap()]);
    assert!(code == Some(2) && text.contains("is no socket"), "{text}");
    assert!(!free.exists());
    std::fs::remove_file(&file).unwrap();
    let (code, text) = run(&["--socket", free.to_str().unwrap(), "--device-variant", "vram=2048G"]);
    assert!(code == Some(3) && text.contains("vram_size") && !free.exists(), "{text}");
    assert_eq!(run(&[]).0, Some(2));
}

#[test]
fn files_go_through_a_gpu_of_another_process() {
    let socket = socket("run");
    let path = socket.to_str().unwrap();
    let mut device = Device::start(&["--socket", path, "--device-variant", "vram=64M"]);
    assert!(device.line().contains("listening"));
    let bus = format!("vfio-user={path}");
    let run = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_campanile")).args(arguments).output().unwrap();
    for _ in 0..2 {
        let output = run(&["run", "--bus", &bus, "Cargo.lock"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("every byte verified"), "{text}{:?}", output.stderr);
        assert!(device.line().contains("connected") && device.line().contains("left"));
    }
    let output = run(&["run", "--bus", &bus, "--fault", "hang", "Cargo.lock"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("No faults on this bus"), "{:?}: {text}", output.status);
    assert_eq!(device.interrupt(), Some(0));
    let output = run(&["run", "--bus", &bus, "Cargo.lock"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(path) && text.contains("campanile device --socket"), "{text}");
    let output = run(&["run", "--bus", "pci"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("known are"));
}

/// Sends a message and returns the body of its reply.
fn ask_raw(stream: &mut UnixStream, command: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend_from_slice(&7_u16.to_le_bytes());
    message.extend_from_slice(&command.to_le_bytes());
    message.extend_from_slice(&(16 + body.len() as u32).to_le_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    stream.write_all(&message).unwrap();
    let mut header = [0; 16];
    stream.read_exact(&mut header).unwrap();
    let size = u32::from_le_bytes(header[4..8].try_into().unwrap());
    let mut reply = vec![0; size as usize - header.len()];
    stream.read_exact(&mut reply).unwrap();
    reply
}

/// QEMU asks for 32 bytes first, and gives a device up that says there is more but not where.
#[test]
fn a_short_answer_about_a_region_says_where_the_rest_would_be() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        let mut make = || Ok(Box::new(GpuFunction::new(&small(), true)?) as Box<dyn Function>);
        serve(theirs, &Stopper::new().unwrap(), &mut make, &|_| {});
    });
    ask_raw(&mut ours, command::VERSION, b"\0\0\0\0{}\0");
    let question = |capacity: u32| [capacity, 0, 2, 0, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
    let field = |reply: &[u8], at: usize| u32::from_le_bytes(reply[at..at + 4].try_into().unwrap());
    let short = ask_raw(&mut ours, command::DEVICE_GET_REGION_INFO, &question(32));
    let (needed, caps) = (field(&short, 0), field(&short, 4) & region_flag::CAPS);
    assert_eq!((short.len(), needed, field(&short, 12)), (32, 64, 32));
    assert_ne!(caps, 0);
    let whole = ask_raw(&mut ours, command::DEVICE_GET_REGION_INFO, &question(needed));
    assert_eq!((whole.len(), field(&whole, 12)), (64, 32));
    assert_eq!(whole[..32], short[..]);
    drop(ours);
    thread.join().unwrap();
}

/// A GPU of a process that is started for it can be given faults, and is reaped with its machine.
#[test]
fn a_gpu_of_its_own_process_takes_faults_and_ends_with_its_machine() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_campanile")).args(arguments).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    let (code, text) = run(&["run", "--bus", "vfio-user-process", "--no-progress", "--fault", "hang", "Cargo.lock"]);
    assert!(text.contains("faults asked for: hang; applied 1 times"), "{code:?}: {text}");
    let (code, text) = run(&["run", "--bus", "vfio-user-process=/nowhere/campanile", "Cargo.lock"]);
    assert!(code == Some(2) && text.contains("/nowhere/campanile: No such file"), "{code:?}: {text}");
    // A program that is something else says nothing on the connection.
    let (code, text) = run(&["run", "--bus", "vfio-user-process=/bin/true", "Cargo.lock"]);
    assert!(code == Some(2) && text.contains("could not be reached"), "{code:?}: {text}");
    let (code, text) = run(&["device-child", "{}"]);
    assert!(code == Some(2) && text.contains("vfio-user-process"), "{code:?}: {text}");
}

#[test]
fn a_gpu_whose_process_is_killed_is_a_card_that_was_pulled_out() {
    let bus = BusChoice::Process(Program::at(env!("CARGO_BIN_EXE_campanile")));
    let mut system = System::boot(&SystemOptions { bus: Some(bus), ..SystemOptions::default() }).unwrap();
    let ours = format!(" {} ", std::process::id());
    let is_its_process = |id: &i32| {
        let file = |name: &str| std::fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default();
        // Its parent comes second behind the name. [proc_pid_stat(5)]
        let parent = file("stat")
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.get(2..).is_some_and(|rest| rest.starts_with(&ours)));
        parent && file("cmdline").contains("device-child")
    };
    let all =
        Path::new("/proc").read_dir().unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let ids: Vec<i32> = all.filter(is_its_process).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let id = rustix::process::Pid::from_raw(ids[0]).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    // The slot notices, and another GPU in its place is another process.
    while system.bus().config_read(0, 4) != u32::MAX {
        std::thread::yield_now();
    }
    system.notice_removal(0).unwrap();
    system.start().unwrap();
    assert_eq!(system.gpu().missed_accesses(), 0);
    system.shutdown().unwrap();
}
