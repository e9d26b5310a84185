//! Maps of buffers that the GPU is using, on the whole stack: discard, no-overwrite, plain, waiting and not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use campanile_umd::{
    Adapter, CONTENTS_MAX, Device, DynamicBuffer, Error, Fence, FenceKind, FenceOptions, MapMode, Node, Placement,
    Queue, QueueOptions, SubmissionModel,
};
use dxgkrnl::Process;
use testbed::setup::{System, SystemOptions};

const SIZE: usize = 4096;

/// A process on a machine of its own.
struct World {
    system: System,
    process: Arc<Process>,
}

impl World {
    fn new() -> Self {
        Self::with(&SystemOptions::default())
    }

    fn with(options: &SystemOptions) -> Self {
        let system = System::boot(options).unwrap();
        let process = Process::new(system.machine(), "dynamic");
        Self { system, process }
    }

    /// True if the system knows of a thread that waits for a fence, within a time that is long enough.
    fn sees_a_waiter(&self) -> bool {
        let limit = Instant::now() + Duration::from_secs(20);
        let waits = || self.system.machine().inspect(self.system.luid()).unwrap().to_string().contains("1 waiters");
        std::iter::from_fn(|| (Instant::now() < limit).then(&waits)).any(|waits| waits)
    }

    /// Runs `work` with a device of the process, and takes the machine down.
    fn run(self, work: impl FnOnce(&Self, &Device)) {
        {
            let _attached = self.process.attach();
            let adapter = Adapter::open_luid(dxgkrnl::thunks(), self.system.luid()).unwrap();
            work(&self, &Device::new(&adapter).unwrap());
        }
        self.process.exit();
        self.system.shutdown().unwrap();
    }
}

/// A queue whose work waits until `gate` is opened.
struct Gated {
    queue: Queue,
    gate: Fence,
    done: Fence,
    submitted: u64,
}

impl Gated {
    fn new(device: &Device) -> Self {
        Self::with(device, None, FenceOptions::default())
    }

    fn with(device: &Device, model: Option<SubmissionModel>, fences: FenceOptions) -> Self {
        Self {
            queue: Queue::new(device, Node::Copy, QueueOptions { model, ..QueueOptions::default() }).unwrap(),
            gate: Fence::with_options(device, fences).unwrap(),
            done: Fence::with_options(device, fences).unwrap(),
            submitted: 0,
        }
    }

    /// Queues a copy that runs once the gate is at the number of the submission, which is returned.
    fn copy(&mut self, to: u64, from: u64) -> u64 {
        self.submitted += 1;
        let number = self.submitted;
        self.queue
            .submit(|commands| {
                commands.wait(&self.gate, number)?;
                commands.copy(to, from, SIZE as u64)?;
                commands.signal(&self.done, number)
            })
            .unwrap();
        number
    }
}

fn first_byte(mapping: &campanile_umd::Mapping) -> u8 {
    let mut byte = [0];
    mapping.read(0, &mut byte).unwrap();
    byte[0]
}

fn dynamic(device: &Device, most: usize) -> DynamicBuffer {
    device.create_dynamic_buffer(SIZE as u64, Placement::System, most).unwrap()
}

#[test]
fn a_map_that_must_not_wait_answers_was_still_drawing_while_queued_work_uses_the_buffer() {
    World::new().run(|_, device| {
        let (buffer, mut gated) = (dynamic(device, 1), Gated::new(device));
        let target = device.create_buffer(SIZE as u64, Placement::System).unwrap().map().unwrap();
        let mapping = buffer.map(MapMode::Plain, false).unwrap();
        mapping.bytes().write(0, &[1; SIZE]).unwrap();
        let number = gated.copy(target.buffer().gpu_address(), mapping.gpu_address());
        mapping.use_until(&gated.done, number);
        drop(mapping);
        assert_eq!(buffer.map(MapMode::Plain, false).err(), Some(Error::WasStillDrawing));
        assert_eq!(
            buffer.map(MapMode::Discard, false).err(),
            Some(Error::WasStillDrawing),
            "the pool has one contents"
        );
        assert!(buffer.map(MapMode::NoOverwrite, false).is_ok());
        gated.gate.signal(number).unwrap();
        let mapping = buffer.map(MapMode::Plain, true).unwrap();
        assert_eq!(first_byte(&target), 1, "the wait ended before the work that uses the buffer");
        mapping.bytes().write(0, &[2; SIZE]).unwrap();
    });
}

#[test]
fn a_discard_renames_and_leaves_queued_work_the_old_contents() {
    World::new().run(|_, device| {
        let (buffer, mut gated) = (dynamic(device, 4), Gated::new(device));
        let target = device.create_buffer(4 * SIZE as u64, Placement::System).unwrap().map().unwrap();
        let mut addresses = Vec::new();
        for round in 0..4u8 {
            let mapping = buffer.map(MapMode::Discard, false).unwrap();
            mapping.bytes().write(0, &[round + 1; SIZE]).unwrap();
            let to = target.buffer().gpu_address() + u64::from(round) * SIZE as u64;
            let number = gated.copy(to, mapping.gpu_address());
            mapping.use_until(&gated.done, number);
            addresses.push(mapping.gpu_address());
        }
        assert_eq!(buffer.contents(), 4);
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 4, "each discard gave contents that no work used");
        assert_eq!(buffer.map(MapMode::Discard, false).err(), Some(Error::WasStillDrawing), "the pool is bounded");
        gated.gate.signal(1).unwrap();
        buffer.map(MapMode::Discard, true).unwrap();
        assert_eq!(gated.done.value(), 1, "the contents used for longest come free first");
        gated.gate.signal(4).unwrap();
        gated.done.wait(4, None).unwrap();
        for round in 0..4 {
            let mut bytes = vec![0; SIZE];
            target.read(round * SIZE, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| usize::from(*byte) == round + 1), "copy {round} saw another's contents");
        }
    });
}

#[test]
fn idle_contents_are_not_renamed_and_no_overwrite_keeps_the_bytes() {
    World::new().run(|_, device| {
        let buffer = dynamic(device, 8);
        let address = buffer.map(MapMode::Discard, false).unwrap().gpu_address();
        for _ in 0..10 {
            assert_eq!(buffer.map(MapMode::Discard, false).unwrap().gpu_address(), address);
        }
        assert_eq!(buffer.contents(), 1);
        buffer.map(MapMode::Plain, true).unwrap().bytes().write(9, b"kept").unwrap();
        let mut bytes = [0; 4];
        buffer.map(MapMode::NoOverwrite, false).unwrap().bytes().read(9, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
    });
}

#[test]
fn a_plain_map_waits_for_every_fence_that_was_named() {
    World::new().run(|_, device| {
        let buffer = dynamic(device, 1);
        let fences: Vec<Fence> = (0..3).map(|_| Fence::new(device, 0).unwrap()).collect();
        let mapping = buffer.map(MapMode::Plain, true).unwrap();
        for fence in &fences {
            mapping.use_until(fence, 5);
            mapping.use_until(fence, 3);
        }
        drop(mapping);
        for fence in &fences {
            fence.signal(4).unwrap();
            assert_eq!(buffer.map(MapMode::Plain, false).err(), Some(Error::WasStillDrawing), "4 of 5");
            fence.signal(5).unwrap();
        }
        assert!(buffer.map(MapMode::Plain, false).is_ok());
    });
}

#[test]
fn a_plain_map_that_waits_does_so_in_the_system_and_never_polls() {
    World::new().run(|world, device| {
        let buffer = dynamic(device, 1);
        let fence = Fence::new(device, 0).unwrap();
        buffer.map(MapMode::Plain, true).unwrap().use_until(&fence, 1);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _attached = world.process.attach();
                buffer.map(MapMode::Plain, true).map(|_| ())
            });
            // A thread that polls is never known to the system as a waiter.
            let seen = world.sees_a_waiter();
            fence.signal(1).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(()));
            assert!(seen, "the map was no wait of the system");
        });
    });
}

#[test]
fn contents_that_are_mapped_are_never_renamed() {
    World::new().run(|_, device| {
        let buffer = dynamic(device, 2);
        let first = buffer.map(MapMode::Discard, true).unwrap();
        let second = buffer.map(MapMode::Discard, true).unwrap();
        assert_ne!(first.gpu_address(), second.gpu_address());
        assert_eq!(buffer.map(MapMode::Discard, true).err(), Some(Error::AllMapped));
        drop(first);
        assert!(buffer.map(MapMode::Discard, true).is_ok());
    });
}

#[test]
fn a_discard_waits_for_the_oldest_contents_that_nobody_has_mapped() {
    World::new().run(|world, device| {
        let buffer = dynamic(device, 3);
        let fences: Vec<Fence> = (0..3).map(|_| Fence::new(device, 0).unwrap()).collect();
        let mut mappings: Vec<_> = fences
            .iter()
            .map(|fence| {
                let mapping = buffer.map(MapMode::Discard, false).unwrap();
                mapping.use_until(fence, 1);
                mapping
            })
            .collect();
        let [first, second] = [0, 1].map(|place: usize| mappings[place].gpu_address());
        // The first ones stay mapped, so that the wait is for the second ones and not for the last.
        mappings.truncate(1);
        assert_eq!(discard_waits_for(world, &buffer, &fences, 1), second);
        // They are idle and the present ones: to discard them again changes nothing about which one is next.
        mappings.clear();
        let present = buffer.map(MapMode::Discard, false).unwrap();
        assert_eq!(present.gpu_address(), second);
        present.use_until(&fences[1], 2);
        drop(present);
        assert_eq!(discard_waits_for(world, &buffer, &fences, 0), first);
        fences[2].signal(1).unwrap();
        fences[1].signal(2).unwrap();
    });
}

/// Discards, which has to wait until fence `place` is signalled and for no other; the address of what was mapped.
fn discard_waits_for(world: &World, buffer: &DynamicBuffer, fences: &[Fence], place: usize) -> u64 {
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let _attached = world.process.attach();
            buffer.map(MapMode::Discard, true).map(|mapping| mapping.gpu_address())
        });
        let seen = world.sees_a_waiter();
        fences[place].signal(1).unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        while !waiter.is_finished() && Instant::now() < limit {
            std::thread::yield_now();
        }
        let in_time = waiter.is_finished();
        if !in_time {
            fences.iter().for_each(|fence| fence.signal(9).unwrap());
        }
        let address = waiter.join().unwrap().unwrap();
        assert!(seen && in_time, "the map waited for other contents");
        address
    })
}

#[test]
fn impossible_pools_are_refused() {
    World::new().run(|_, device| {
        for most in [0, CONTENTS_MAX + 1, usize::MAX] {
            let refused = device.create_dynamic_buffer(4096, Placement::System, most).err();
            assert!(matches!(refused, Some(Error::BadArgument(_))), "{most}");
        }
        let hidden = device.create_dynamic_buffer(4096, Placement::Vram, 2).err();
        assert_eq!(hidden, Some(Error::NotMappable));
        assert!(device.create_dynamic_buffer(0, Placement::System, 2).is_err());
    });
}

#[test]
fn many_threads_discard_and_every_copy_sees_what_its_thread_wrote() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 60;
    World::new().run(|world, device| {
        // Space for all threads at once, and not much more: they meet.
        let buffer = dynamic(device, THREADS as usize + 2);
        let bad = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (buffer, bad, process) = (&buffer, &bad, &world.process);
                scope.spawn(move || {
                    let _attached = process.attach();
                    let mut queue = Queue::new(device, Node::Copy, QueueOptions::default()).unwrap();
                    let done = Fence::new(device, 0).unwrap();
                    let target = device.create_buffer(SIZE as u64, Placement::System).unwrap().map().unwrap();
                    for round in 1..=ROUNDS {
                        let byte = (thread * 40 + round) as u8;
                        let mapping = buffer.map(MapMode::Discard, true).unwrap();
                        mapping.use_until(&done, round);
                        mapping.bytes().write(0, &[byte; SIZE]).unwrap();
                        let (to, from) = (target.buffer().gpu_address(), mapping.gpu_address());
                        queue
                            .submit(|commands| {
                                commands.copy(to, from, SIZE as u64)?;
                                commands.signal(&done, round)
                            })
                            .unwrap();
                        drop(mapping);
                        done.wait(round, Some(Duration::from_secs(60))).unwrap();
                        let mut bytes = vec![0; SIZE];
                        target.read(0, &mut bytes).unwrap();
                        bad.fetch_add(bytes.iter().filter(|seen| **seen != byte).count() as u64, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(bad.load(Ordering::Relaxed), 0, "bytes that another thread wrote");
        assert!(buffer.contents() <= THREADS as usize + 2);
    });
}

/// Renames the buffer while a chain of copies waits, and finds every copy's own bytes behind it.
fn move_on(device: &Device, model: SubmissionModel, kind: FenceKind) {
    const COPIES: usize = 12;
    let mut gated = Gated::with(device, Some(model), FenceOptions { kind: Some(kind), ..FenceOptions::default() });
    assert_eq!((gated.done.kind(), gated.queue.model()), (kind, model));
    let buffer = dynamic(device, 3);
    let target = device.create_buffer((COPIES * SIZE) as u64, Placement::System).unwrap().map().unwrap();
    for copy in 0..COPIES {
        if copy >= 3 {
            assert_eq!(buffer.map(MapMode::Discard, false).err(), Some(Error::WasStillDrawing), "copy {copy}");
            gated.gate.signal(copy as u64 - 2).unwrap();
        }
        let mapping = buffer.map(MapMode::Discard, true).unwrap();
        mapping.bytes().write(0, &[copy as u8 + 1; SIZE]).unwrap();
        mapping.use_until(&gated.done, copy as u64 + 1);
        gated.copy(target.buffer().gpu_address() + (copy * SIZE) as u64, mapping.gpu_address());
    }
    gated.gate.signal(COPIES as u64).unwrap();
    assert_eq!(first_byte(buffer.map(MapMode::Plain, true).unwrap().bytes()), COPIES as u8);
    let mut bytes = vec![0; COPIES * SIZE];
    target.read(0, &mut bytes).unwrap();
    for (copy, chunk) in bytes.chunks_exact(SIZE).enumerate() {
        assert!(chunk.iter().all(|byte| *byte == copy as u8 + 1), "{model:?}: the contents of copy {copy}");
    }
}

#[test]
fn buffers_move_on_by_monitored_fences() {
    World::new().run(|_, device| {
        for model in [SubmissionModel::Kernel, SubmissionModel::Packet] {
            move_on(device, model, FenceKind::Monitored);
        }
    });
}

#[test]
fn buffers_move_on_by_the_fences_of_a_gpu_without_64_bit_atomics() {
    let mut options = SystemOptions::default();
    options.variant.atomics64 = false;
    World::with(&options).run(|_, device| {
        for model in [SubmissionModel::Kernel, SubmissionModel::Packet] {
            move_on(device, model, FenceKind::Monitored);
        }
    });
}
