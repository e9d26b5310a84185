//! A machine on a GPU whose server lies about it: it boots or says why not, and neither it nor this process ends of it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use campanile_device::Variant;
use campanile_vfio_user::message::region;
use campanile_vfio_user::{Function, MappedRegion, Region, Server, Stopper, Trigger};
use testbed::device::GpuFunction;
use testbed::setup::{BusChoice, System, SystemOptions};

/// Longer than anything here takes on a busy machine: a process that does not answer is given up after a minute, and nobody here is silent.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A property of the function that differs from the description it gives of itself.
#[derive(Clone, Debug)]
enum Lie {
    /// A region has another size, though its file stays.
    Size(usize, u64),
    /// A region has no memory: every access is a message.
    NoMemory(usize),
    /// Registers are memory.
    RegistersInMemory,
    /// The memory of a region is shorter than the region.
    Short(usize),
    /// The memory of a region can be made shorter at any time.
    Shrinks(usize),
    /// Bytes of configuration space read as something else.
    Config(u64, Vec<u8>),
    /// Reads of configuration space or registers bring numbers drawn from a seed, one in so many.
    Noise { region: u32, seed: u64, one_in: u64 },
    /// Pages of VRAM that there are not.
    Pages(u64),
    /// Less than eight regions are told of.
    FewRegions,
    /// So many vectors.
    Vectors(u16),
    /// Reads and writes of this region are refused.
    Refuses(u32),
}

struct Liar {
    gpu: GpuFunction,
    lie: Lie,
    random: std::sync::Mutex<fastrand::Rng>,
}

fn memory(size: u64) -> Arc<File> {
    let name = rustix::fs::memfd_create("liar", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    let file = File::from(name);
    file.set_len(size).unwrap();
    Arc::new(file)
}

impl Function for Liar {
    fn regions(&self) -> Vec<Region> {
        let mut regions = self.gpu.regions();
        match &self.lie {
            Lie::Size(index, size) => regions[*index].size = *size,
            Lie::NoMemory(index) => regions[*index].mapped = None,
            Lie::RegistersInMemory => {
                let size = regions[0].size;
                regions[0].mapped = Some(MappedRegion { file: memory(size), areas: vec![(0, size)] });
            }
            Lie::Short(index) => {
                let size = regions[*index].size;
                regions[*index].mapped = Some(MappedRegion { file: memory(size - 4096), areas: vec![(0, size)] });
            }
            Lie::Shrinks(index) => {
                let size = regions[*index].size;
                let file = tempfile();
                file.set_len(size).unwrap();
                regions[*index].mapped = Some(MappedRegion { file: Arc::new(file), areas: vec![(0, size)] });
            }
            Lie::FewRegions => regions.truncate(3),
            _ => {}
        }
        regions
    }

    fn vectors(&self) -> u16 {
        if let Lie::Vectors(count) = self.lie { count } else { self.gpu.vectors() }
    }

    fn read(&self, index: u32, offset: u64, bytes: &mut [u8]) -> bool {
        match &self.lie {
            Lie::Refuses(refused) if *refused == index => return false,
            Lie::Pages(page) if index == region::PRIVATE => {
                bytes.copy_from_slice(&page.to_le_bytes()[..bytes.len()]);
                return true;
            }
            _ => {}
        }
        let done = self.gpu.read(index, offset, bytes);
        match &self.lie {
            Lie::Config(start, lied) if index == region::CONFIG => {
                for (at, byte) in (offset..).zip(bytes) {
                    let place = at.checked_sub(*start).and_then(|place| lied.get(place as usize));
                    *byte = place.copied().unwrap_or(*byte);
                }
            }
            Lie::Noise { region, one_in, .. } if *region == index => {
                let mut random = self.random.lock().unwrap();
                if random.u64(..one_in) == 0 {
                    random.fill(bytes);
                }
            }
            _ => {}
        }
        done
    }

    fn write(&self, index: u32, offset: u64, bytes: &[u8]) -> bool {
        !matches!(self.lie, Lie::Refuses(refused) if refused == index) && self.gpu.write(index, offset, bytes)
    }

    fn map(&self, address: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        self.gpu.map(address, file, offset, len, writable)
    }

    fn unmap(&self, address: u64, len: u64) {
        self.gpu.unmap(address, len);
    }

    fn set_trigger(&self, vector: u16, trigger: Option<Arc<Trigger>>) {
        self.gpu.set_trigger(vector, trigger);
    }

    fn reset(&self) {
        self.gpu.reset();
    }
}

/// A file of a disk, which nobody can seal.
fn tempfile() -> File {
    let path = path("file");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn path(name: &str) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("liar-{name}-{}-{number}", std::process::id()))
}

/// Boots a machine on a GPU with a lie and takes it down; what it said, if anything.
fn boot(lie: &Lie) -> Result<(), String> {
    let socket = path("socket");
    let stop = Stopper::new().unwrap();
    let server = Server::bind(&socket, stop.clone()).unwrap();
    let seed = if let Lie::Noise { seed, .. } = lie { *seed } else { 0 };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let variant =
                Variant { vram_size: 64 << 20, vram_window: 64 << 20, host_aperture: 1 << 20, ..Variant::default() };
            let mut make = || {
                let (gpu, random) = (GpuFunction::new(&variant, true)?, fastrand::Rng::with_seed(seed).into());
                Ok(Box::new(Liar { gpu, lie: lie.clone(), random }) as Box<dyn Function>)
            };
            server.run(&mut make, &|_| {}).unwrap();
        });
        let (sender, receiver) = channel();
        let bus = Some(BusChoice::Sockets(vec![socket.clone()]));
        let thread = scope.spawn(move || {
            let booted = System::boot(&SystemOptions { bus, ..SystemOptions::default() });
            let _ = sender.send(booted.and_then(System::shutdown).map_err(|error| error.to_string()));
        });
        let outcome = receiver.recv_timeout(TIMEOUT);
        stop.stop();
        assert!(outcome.is_ok() || thread.is_finished(), "{lie:?}: the machine hangs");
        thread.join().unwrap_or_else(|_| panic!("{lie:?}: the machine panicked"));
        outcome
    });
    outcome.unwrap()
}

#[test]
fn lies_about_regions_are_named_and_no_memory_is_mapped_that_may_vanish() {
    for (lie, part) in [
        (Lie::Short(2), "its file is shorter"),
        (Lie::Short(4), "its file is shorter"),
        (Lie::Shrinks(2), "can make it shorter"),
        (Lie::Size(4, 1 << 40), "its file is shorter"),
        (Lie::Size(2, u64::MAX), "cannot be mapped"),
        (Lie::FewRegions, "no PCI function"),
    ] {
        let error = boot(&lie).expect_err(&format!("{lie:?}"));
        assert!(error.contains(part), "{lie:?}: {error}");
    }
}

#[test]
fn sizes_that_no_bar_has_are_refused() {
    for lie in [
        Lie::Size(0, 0),
        Lie::Size(0, 1),
        Lie::Size(0, 0x1001),
        Lie::Size(0, u64::MAX),
        Lie::Size(0, 1 << 63),
        Lie::Size(0, 1 << 46),
        Lie::Size(1, 0x1000),
        Lie::Size(2, 0),
        Lie::Size(2, 0x1800),
        Lie::Size(2, 1),
        Lie::Size(4, 4096),
        Lie::Size(5, u64::MAX),
        Lie::NoMemory(2),
        Lie::NoMemory(4),
        Lie::RegistersInMemory,
        Lie::Pages(u64::MAX),
        Lie::Pages(1 << 40),
        Lie::Vectors(0),
        Lie::Vectors(1),
        Lie::Refuses(0),
        Lie::Refuses(region::CONFIG),
        Lie::Refuses(region::PRIVATE),
    ] {
        // Some of these are a GPU of another kind, on which a machine may well run.
        let _ = boot(&lie);
    }
}

#[test]
fn configuration_space_may_say_anything() {
    let word = |at: u64, value: u32| Lie::Config(at, value.to_le_bytes().to_vec());
    for lie in [
        Lie::Config(0, vec![0xff; 64]),
        Lie::Config(0, vec![0; 256]),
        Lie::Config(0, vec![0xff; 4096]),
        // A list of capabilities that is a ring, leads into the header, or to its end.
        Lie::Config(0x34, vec![0x40]),
        Lie::Config(0x34, vec![0xfc]),
        Lie::Config(0x34, vec![0x04]),
        Lie::Config(0x40, [0x01, 0x40].repeat(96)),
        Lie::Config(0x40, [0x11, 0x40].repeat(96)),
        Lie::Config(0xfc, vec![0x11, 0xfc, 0xff, 0xff]),
        word(0x10, 0),
        word(0x10, u32::MAX),
        word(0x18, 0xffff_fff1),
        word(0x20, 0x0000_0001),
        word(0x0c, 0x00ff_0000),
    ] {
        let _ = boot(&lie);
    }
}

#[test]
fn registers_may_say_anything() {
    for seed in 0..24 {
        for region in [0, region::CONFIG] {
            let _ = boot(&Lie::Noise { region, seed, one_in: [1, 3, 20, 200][seed as usize % 4] });
        }
    }
}
