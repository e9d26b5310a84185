//! Payloads that go to and fro between two devices, many times: memory, semaphores and fences are exported, imported, used by the GPU and destroyed in random
//! order, by several pairs of devices at once, in one process and in several.
//!
//! `CAMPANILE_VULKAN_ROUNDS` and `CAMPANILE_VULKAN_SEED` have it go on for longer, and elsewhere.

use std::os::fd::IntoRawFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;

use ash::vk;
use fastrand::Rng;
use testbed::programs::{MachineServer, Observer, Stop};
use testbed::setup::{MachineOptions, System};

use crate::external::{SIZE, Side};
use crate::kit::LOADER_VARIABLE;

/// Rounds of each pair of devices.
const ROUNDS: u32 = 60;
/// Pairs of devices of a process, and processes.
const PAIRS: u64 = 2;
/// Environment variable that has [`payloads_go_to_and_fro_between_programs`] be one of the programs, with this seed.
const PROGRAM: &str = "CAMPANILE_VULKAN_TEST_EXCHANGE";

/// A number that the environment may set.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Two devices that exchange payloads.
struct Pair {
    sides: [Side; 2],
    draw: Rng,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self { sides: [Side::new(), Side::new()], draw: Rng::with_seed(seed) }
    }

    /// One side and the other, in either order.
    fn drawn(&mut self) -> (&Side, &Side, &mut Rng) {
        let Self { sides: [first, second], draw } = self;
        if draw.bool() { (first, second, draw) } else { (second, first, draw) }
    }

    fn round(&mut self) {
        match self.draw.u8(0..17) {
            0..4 => self.memory(),
            4..8 => self.timeline(),
            8..12 => self.binary(),
            12..16 => self.fence(),
            _ => self.survivor(),
        }
    }

    /// A device ends, and another one goes on with what it has imported from it.
    fn survivor(&mut self) {
        let place = self.draw.usize(0..2);
        let (kind, word) = (self.draw.u32(0..4), self.draw.u32(..));
        let (ours, theirs) = (&self.sides[place], &self.sides[1 - place]);
        let (memory, exported) = (ours.exportable(kind), ours.semaphore(Some(1)));
        let same = theirs.import(ours.export(memory).expect("a descriptor"), kind, SIZE).expect("imported");
        let imported = theirs.new_semaphore(Some(0));
        let descriptor = ours.export_semaphore(exported).expect("a descriptor");
        theirs.import_semaphore(descriptor, imported, false).expect("imported");
        // What waits on the other device goes on although the one that signals ends right behind the signal.
        theirs.submit(0, Some((imported, 2)), None, Some((imported, 3)), vk::Fence::null());
        ours.fill(memory, word);
        ours.submit(1, None, None, Some((exported, 2)), vk::Fence::null());
        ours.free(memory);
        self.sides[place] = Side::new();
        let theirs = &self.sides[1 - place];
        theirs.wait(imported, 3);
        assert_eq!(theirs.ends(same), [word; 2]);
        theirs.settle();
        // SAFETY: a semaphore of this device, and every batch that refers to it is complete.
        unsafe { theirs.bench.device.destroy_semaphore(imported, None) };
        theirs.free(same);
    }

    fn memory(&mut self) {
        let (ours, theirs, draw) = self.drawn();
        let (kind, word) = (draw.u32(0..4), draw.u32(..));
        let exported = ours.exportable(kind);
        let descriptor = ours.export(exported).expect("a descriptor");
        ours.fill(exported, word);
        let early = draw.bool();
        if early {
            ours.free(exported);
        }
        let imported = theirs.import(descriptor, kind, SIZE).expect("imported");
        assert_eq!(theirs.ends(imported), [word; 2]);
        theirs.fill(imported, !word);
        if early {
            theirs.free(imported);
            return;
        }
        assert_eq!(ours.ends(exported), [!word; 2]);
        let order = [(ours, exported), (theirs, imported)];
        let first = draw.usize(0..2);
        for (side, memory) in [order[first], order[1 - first]] {
            side.free(memory);
        }
    }

    fn timeline(&mut self) {
        let (ours, theirs, draw) = self.drawn();
        let start = draw.u64(0..1 << 40);
        let (exported, imported) = (ours.new_semaphore(Some(start)), theirs.new_semaphore(Some(0)));
        let descriptor = ours.export_semaphore(exported).expect("a descriptor");
        theirs.import_semaphore(descriptor, imported, false).expect("imported");
        let (family, null) = (draw.u32(0..2), vk::Fence::null());
        for value in (start + 1..).step_by(2).take(draw.usize(1..6)) {
            theirs.submit(family, Some((imported, value)), None, Some((imported, value + 1)), null);
            ours.submit(1 - family, None, None, Some((exported, value)), null);
            ours.wait(exported, value + 1);
        }
        // What signals it last is done when its value is there.
        destroy([(ours, exported), (theirs, imported)], draw);
    }

    fn binary(&mut self) {
        let (ours, theirs, draw) = self.drawn();
        let (exported, imported) = (ours.new_semaphore(None), theirs.new_semaphore(None));
        let null = vk::Fence::null();
        let temporary = draw.bool();
        for _ in 0..draw.usize(1..4) {
            let descriptor = ours.export_semaphore(exported).expect("a descriptor");
            theirs.import_semaphore(descriptor, imported, temporary).expect("imported");
            for _ in 0..if temporary { 1 } else { draw.usize(1..8) } {
                if draw.bool() {
                    ours.submit(draw.u32(0..2), None, None, Some((exported, 0)), null);
                    theirs.submit(draw.u32(0..2), Some((imported, 0)), None, None, null);
                } else {
                    theirs.submit(draw.u32(0..2), None, None, Some((imported, 0)), null);
                    ours.submit(draw.u32(0..2), Some((exported, 0)), None, None, null);
                    theirs.idle();
                    ours.idle();
                    if temporary {
                        // The next wait ends the import; nothing has waited on this side.
                        ours.submit(0, None, None, Some((exported, 0)), null);
                        theirs.submit(0, Some((imported, 0)), None, None, null);
                    }
                }
                theirs.idle();
                ours.idle();
            }
        }
        destroy([(ours, exported), (theirs, imported)], draw);
    }

    fn fence(&mut self) {
        let (ours, theirs, draw) = self.drawn();
        let (exported, imported) = (ours.fence(false), theirs.fence(draw.bool()));
        let temporary = draw.bool();
        for _ in 0..draw.usize(1..4) {
            theirs.import_fence_raw(ours.export_fence(exported).into_raw_fd(), imported, temporary).expect("imported");
            let (signals, fence) = if draw.bool() { (ours, exported) } else { (theirs, imported) };
            signals.submit(draw.u32(0..2), None, None, None, fence);
            for (side, fence) in [(ours, exported), (theirs, imported)] {
                // SAFETY: a fence of this device.
                unsafe { side.bench.device.wait_for_fences(&[fence], true, u64::MAX) }.expect("signalled");
            }
            theirs.reset(imported);
            ours.reset(exported);
        }
        // SAFETY: fences of their devices, which nothing uses.
        unsafe {
            ours.bench.device.destroy_fence(exported, None);
            theirs.bench.device.destroy_fence(imported, None);
        }
    }
}

/// Destroys two semaphores in either order.
fn destroy(mut semaphores: [(&Side, vk::Semaphore); 2], draw: &mut Rng) {
    draw.shuffle(&mut semaphores);
    semaphores.iter().for_each(|(side, _)| side.settle());
    for (side, semaphore) in semaphores {
        // SAFETY: a semaphore of this device, and every batch that refers to it is complete.
        unsafe { side.bench.device.destroy_semaphore(semaphore, None) };
    }
}

impl Side {
    fn idle(&self) {
        // SAFETY: the device exists.
        unsafe { self.bench.device.device_wait_idle() }.expect("idle");
    }

    /// Under a layer, has it see that every batch is complete: of a payload that two devices share it learns that from neither device's values. The driver is to
    /// know it by itself.
    fn settle(&self) {
        if std::env::var_os(LOADER_VARIABLE).is_some() {
            self.idle();
        }
    }
}

/// Pairs of devices of this process, which all work at once.
fn exchange(seed: u64) {
    let rounds = number("CAMPANILE_VULKAN_ROUNDS", ROUNDS.into());
    thread::scope(|scope| {
        for pair in 0..PAIRS {
            scope.spawn(move || {
                let mut pair = Pair::new(seed << 8 | pair);
                for _ in 0..rounds {
                    pair.round();
                }
            });
        }
    });
}

/// "reference transference": all that have a payload see one, and it lives while one has it. [Vulkan: External Handle Types Transference]
#[test]
fn payloads_go_to_and_fro_between_devices() {
    exchange(number("CAMPANILE_VULKAN_SEED", 1));
}

#[test]
fn payloads_go_to_and_fro_between_the_devices_of_several_programs() {
    if std::env::var_os(PROGRAM).is_some() {
        exchange(number(PROGRAM, 1));
        return;
    }
    let socket = std::env::temp_dir().join(format!("campanile-exchange-test-{}", std::process::id()));
    let stop = Stop::new().expect("a descriptor");
    let server = MachineServer::bind(&socket, 8, stop.clone()).expect("served");
    let system = System::boot(&MachineOptions::default().in_use().system()).expect("a machine");
    let observer: Observer = Arc::new(|_| ());
    let seed = number("CAMPANILE_VULKAN_SEED", 1);
    thread::scope(|scope| {
        scope.spawn(|| server.serve(system.machine(), &observer).expect("served"));
        let programs: Vec<Child> = (0..PAIRS)
            .map(|program| {
                let mut command = Command::new(std::env::current_exe().expect("a path"));
                command.args(["payloads_go_to_and_fro_between_the_devices_of_several_programs", "--nocapture"]);
                command.env(PROGRAM, (seed << 4 | program).to_string()).env("CAMPANILE_MACHINE", &socket);
                command.spawn().expect("it starts")
            })
            .collect();
        let ends: Vec<_> = programs.into_iter().map(|mut program| program.wait().expect("an end")).collect();
        stop.stop();
        assert!(ends.iter().all(|end| end.success()), "{ends:?}");
    });
}
