//! What a program has on the GPU, and the steps of its work: each ends with everything done, and with contents that are known.

use std::iter::Sum;
use std::ops::{Add, Mul, Sub};
use std::time::Duration;

use campanile_hw::private::Placement;
use dxgkrnl::Holdings;
use testbed::user::{
    Adapter, Buffer, Device, Error, Fence, Node, OfferPriority, Queue, QueueOptions, Reclaimed, Result,
};

/// Objects of an adapter, as far as their number follows from what programs have created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) contexts: usize,
    pub(super) queues: usize,
    pub(super) doorbells: usize,
    pub(super) fences: usize,
    pub(super) allocations: usize,
    pub(super) mappings: usize,
}

impl From<Holdings> for Held {
    fn from(holdings: Holdings) -> Self {
        let Holdings { contexts, queues, doorbells, fences, allocations, mappings, .. } = holdings;
        Self { contexts, queues, doorbells, fences, allocations, mappings }
    }
}

impl Held {
    fn each(self, other: Self, of: impl Fn(usize, usize) -> usize) -> Self {
        Self {
            contexts: of(self.contexts, other.contexts),
            queues: of(self.queues, other.queues),
            doorbells: of(self.doorbells, other.doorbells),
            fences: of(self.fences, other.fences),
            allocations: of(self.allocations, other.allocations),
            mappings: of(self.mappings, other.mappings),
        }
    }
}

impl Add for Held {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.each(other, usize::wrapping_add)
    }
}

impl Sub for Held {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.each(other, usize::wrapping_sub)
    }
}

impl Mul<usize> for Held {
    type Output = Self;
    fn mul(self, times: usize) -> Self {
        self.each(self, |field, _| field.wrapping_mul(times))
    }
}

impl Sum for Held {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// What one object of each kind takes, measured before anything else runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Units {
    device: Held,
    queue: [Held; 2],
    fence: Held,
    buffer: Held,
}

const NODES: [Node; 2] = [Node::Compute, Node::Copy];
const PLACEMENTS: [Placement; 4] =
    [Placement::System, Placement::VramVisible, Placement::Vram, Placement::VramLockable];

impl Units {
    /// Measures with one of each, and two fences, by what `held` says.
    pub(super) fn measure(adapter: &Adapter, held: impl Fn() -> Held) -> Result<Self> {
        let mut last = held();
        let mut step = || {
            let now = held();
            let more = now - last;
            last = now;
            more
        };
        let device = Device::new(adapter)?;
        let mut units = Self { device: step(), ..Self::default() };
        let first = Fence::new(&device, 0)?;
        let with_pages = step();
        let fence = Fence::new(&device, 0)?;
        units.fence = step();
        // The first fence that engines reach brings the pages for values, which all of a program's have in common.
        units.device = units.device + with_pages - units.fence;
        let mut queues = Vec::new();
        for (node, unit) in NODES.into_iter().zip(&mut units.queue) {
            queues.push(Queue::new(&device, node, QueueOptions::default())?);
            *unit = step();
        }
        let buffer = device.create_buffer(4096, Placement::System)?;
        units.buffer = step();
        drop((queues, first, fence, buffer));
        Ok(units)
    }
}

/// A buffer with what is known of it.
struct Memory {
    buffer: Buffer,
    placement: Placement,
    /// The pattern that its first bytes are filled with, and their number; `None`: nothing is known.
    known: Option<(u32, u64)>,
}

/// Outcome of a step.
pub(super) enum Step {
    /// Done as it should be.
    Done,
    /// Bytes are not what they should be.
    Wrong(String),
}

/// Everything that a program has.
pub(super) struct Live {
    device: Device,
    queues: Vec<(usize, Queue)>,
    fences: Vec<(Fence, u64)>,
    memories: Vec<Memory>,
}

/// Most objects of a kind that a program has.
const MOST: usize = 6;
/// Sizes of buffers, most of them small; 16 programs have more of the large ones than VRAM holds.
const SIZES: [u64; 6] = [4096, 4096, 64 << 10, 1 << 20, 1 << 20, 16 << 20];

impl Live {
    pub(super) fn new(adapter: &Adapter, rng: &mut fastrand::Rng) -> Result<Self> {
        let device = Device::new(adapter)?;
        let mut live = Self { device, queues: Vec::new(), fences: Vec::new(), memories: Vec::new() };
        for _ in 0..2 {
            live.add_queue(rng)?;
            live.add_fence()?;
            live.add_memory(rng)?;
        }
        Ok(live)
    }

    /// Objects that the machine must hold for this program.
    pub(super) fn held(&self, units: &Units) -> Held {
        let queues: Held = self.queues.iter().map(|(node, _)| units.queue[*node]).sum();
        units.device + queues + units.fence * self.fences.len() + units.buffer * self.memories.len()
    }

    fn add_queue(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let node = rng.usize(..NODES.len());
        self.queues.push((node, Queue::new(&self.device, NODES[node], QueueOptions::default())?));
        Ok(())
    }

    fn add_fence(&mut self) -> Result<()> {
        self.fences.push((Fence::new(&self.device, 0)?, 0));
        Ok(())
    }

    fn add_memory(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let placement = PLACEMENTS[rng.usize(..PLACEMENTS.len())];
        let buffer = self.device.create_buffer(SIZES[rng.usize(..SIZES.len())], placement)?;
        self.memories.push(Memory { buffer, placement, known: None });
        Ok(())
    }

    /// One step, chosen at random.
    pub(super) fn step(&mut self, rng: &mut fastrand::Rng) -> Result<Step> {
        match rng.u32(..100) {
            0..25 => self.fill(rng)?,
            25..45 => self.copy(rng)?,
            45..60 => self.chain(rng)?,
            60..70 => self.behind_the_processor(rng)?,
            70..85 => return self.verify(rng),
            85..88 => self.offer(rng)?,
            88..90 => self.queue(rng).resize(128 << rng.u32(..4))?,
            _ => self.replace_something(rng)?,
        }
        Ok(Step::Done)
    }

    fn queue(&mut self, rng: &mut fastrand::Rng) -> &mut Queue {
        let place = rng.usize(..self.queues.len());
        &mut self.queues[place].1
    }

    /// Fills a buffer with a pattern.
    fn fill(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let (place, pattern) = (rng.usize(..self.memories.len()), rng.u32(..));
        let (address, size) = (self.memories[place].buffer.gpu_address(), self.memories[place].buffer.size());
        self.memories[place].known = None;
        let queue = self.queue(rng);
        let value = queue.submit(|commands| commands.fill(address, size, pattern))?;
        queue.wait_progress(value)?;
        self.memories[place].known = Some((pattern, size));
        Ok(())
    }

    /// Two different buffers, and the bytes that both have.
    fn pair(&self, rng: &mut fastrand::Rng) -> (usize, usize, u64) {
        let from = rng.usize(..self.memories.len());
        let to = (from + rng.usize(1..self.memories.len())) % self.memories.len();
        (from, to, self.memories[from].buffer.size().min(self.memories[to].buffer.size()))
    }

    /// Copies one buffer to another.
    fn copy(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let (from, to, size) = self.pair(rng);
        let (source, target) = (self.memories[from].buffer.gpu_address(), self.memories[to].buffer.gpu_address());
        self.memories[to].known = None;
        let queue = self.queue(rng);
        let value = queue.submit(|commands| commands.copy(target, source, size))?;
        queue.wait_progress(value)?;
        self.memories[to].known = self.memories[from].known.map(|(pattern, bytes)| (pattern, bytes.min(size)));
        Ok(())
    }

    /// One queue fills and signals, another one waits on the GPU and copies.
    fn chain(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let (from, to, size) = self.pair(rng);
        let (first, pattern) = (rng.usize(..self.queues.len()), rng.u32(..));
        let second = (first + rng.usize(1..self.queues.len())) % self.queues.len();
        let (source, target) = (self.memories[from].buffer.gpu_address(), self.memories[to].buffer.gpu_address());
        (self.memories[from].known, self.memories[to].known) = (None, None);
        let place = rng.usize(..self.fences.len());
        let (fence, value) = &mut self.fences[place];
        *value += 1;
        // The waiting one first: its engine has to be released by the other.
        let done = self.queues[second].1.submit(|commands| {
            commands.wait(fence, *value)?;
            commands.copy(target, source, size)
        })?;
        let filled = self.queues[first].1.submit(|commands| {
            commands.fill(source, size, pattern)?;
            commands.signal(fence, *value)
        })?;
        self.queues[second].1.wait_progress(done)?;
        self.queues[first].1.wait_progress(filled)?;
        (self.memories[from].known, self.memories[to].known) = (Some((pattern, size)), Some((pattern, size)));
        Ok(())
    }

    /// Work that waits on the GPU for a value that the processor signals; then the processor waits for one that the GPU signals.
    fn behind_the_processor(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let place = rng.usize(..self.queues.len());
        let at = rng.usize(..self.fences.len());
        let (fence, value) = &mut self.fences[at];
        *value += 2;
        let (queue, signalled) = (&mut self.queues[place].1, *value);
        queue.submit(|commands| {
            commands.wait(fence, signalled - 1)?;
            commands.signal(fence, signalled)
        })?;
        fence.signal(signalled - 1)?;
        fence.wait(signalled, None)
    }

    /// Reads a buffer of which something is known.
    fn verify(&mut self, rng: &mut fastrand::Rng) -> Result<Step> {
        let memory = &self.memories[rng.usize(..self.memories.len())];
        let Some((pattern, bytes)) = memory.known.filter(|_| memory.placement != Placement::Vram) else {
            return Ok(Step::Done);
        };
        let mapping = memory.buffer.map()?;
        let mut words = vec![0u8; 4096.min(bytes as usize)];
        let offset = rng.u64(..=bytes - words.len() as u64) & !3;
        mapping.read(offset as usize, &mut words)?;
        let expected = pattern.to_le_bytes();
        Ok(match words.chunks_exact(4).position(|word| word != expected) {
            None => Step::Done,
            Some(place) => Step::Wrong(format!(
                "byte {} of a buffer of {} bytes in {:?}: found {:02x?}, filled with {pattern:#010x}",
                offset + 4 * place as u64,
                memory.buffer.size(),
                memory.placement,
                &words[4 * place..4 * place + 4],
            )),
        })
    }

    /// Offers a buffer and takes it back.
    fn offer(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let place = rng.usize(..self.memories.len());
        let memory = &mut self.memories[place];
        memory.buffer.offer(OfferPriority::Low)?;
        std::thread::sleep(Duration::from_micros(rng.u64(..2000)));
        if memory.buffer.reclaim()? != Reclaimed::Kept {
            memory.known = None;
        }
        Ok(())
    }

    /// Destroys an object, or creates one.
    fn replace_something(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let counts = [self.queues.len(), self.fences.len(), self.memories.len()];
        let kind = rng.usize(..counts.len());
        // Steps take two queues and two buffers.
        let fewer = counts[kind] > 2 && (counts[kind] == MOST || rng.bool());
        let place = rng.usize(..counts[kind]);
        match (kind, fewer) {
            (0, true) => drop(self.queues.swap_remove(place)),
            (0, false) => self.add_queue(rng)?,
            (1, true) => drop(self.fences.swap_remove(place)),
            (1, false) => self.add_fence()?,
            (_, true) => drop(self.memories.swap_remove(place)),
            (_, false) => self.add_memory(rng)?,
        }
        Ok(())
    }

    /// Leaves work behind that is not waited for.
    pub(super) fn leave_work(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        for _ in 0..rng.u32(1..20) {
            let place = rng.usize(..self.memories.len());
            let (address, size) = (self.memories[place].buffer.gpu_address(), self.memories[place].buffer.size());
            match self.queue(rng).try_submit(|commands| commands.fill(address, size, 0)) {
                Ok(_) | Err(Error::RingFull | Error::CommandMemoryFull) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
