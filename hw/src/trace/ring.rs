//! A ring of entries of one size that any number of writers fill at any level without waiting, and that can be read while they do, or
//! from a dump. A writer takes the next number, claims the entry of that number, writes it, and says so.

use core::sync::atomic::{AtomicU64, Ordering};

use super::Component;
pub use super::entry::{ARGUMENTS, Moment, Read, TraceEntry};

/// First bytes of a ring.
pub const MAGIC: [u8; 8] = *b"CPTRACE1";

/// Version of the layout of header and entries, and of the table of events.
pub const VERSION: u16 = 1;

/// What a ring says of itself. 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct TraceHeader {
    /// [`MAGIC`]
    pub magic: [u8; 8],
    /// [`VERSION`]
    pub version: u16,
    /// Bytes of this header; the entries follow it.
    pub header_size: u16,
    /// Bytes of an entry.
    pub entry_size: u16,
    /// Number of a [`Component`].
    pub component: u8,
    reserved: u8,
    /// Number of entries.
    pub capacity: u32,
    reserved2: u32,
    /// Ticks a second of the entries' times.
    pub frequency: AtomicU64,
    /// The driver's handle of the adapter, 0 in the ring of the driver.
    pub adapter: AtomicU64,
    /// Events that were ever to be written: the number of the next one.
    pub written: AtomicU64,
    /// Events of those that were dropped because another writer was writing the same entry.
    pub dropped: AtomicU64,
    reserved3: u64,
}

impl TraceEntry {
    /// An entry that was never written.
    const fn empty() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            time: AtomicU64::new(0),
            about: AtomicU64::new(0),
            arguments: [const { AtomicU64::new(0) }; ARGUMENTS],
        }
    }
}

/// A ring of `N` entries.
#[derive(Debug)]
#[repr(C)]
pub struct TraceRing<const N: usize> {
    /// Magic, version and sizes, by which a debugger finds the ring and reads it.
    pub header: TraceHeader,
    /// Event `n` is in entry `n % N`.
    pub entries: [TraceEntry; N],
}

impl<const N: usize> TraceRing<N> {
    /// Says what the ring is. Everything else of a ring may be zero.
    pub fn describe(&mut self, component: Component, frequency: u64, adapter: u64) {
        let header = &mut self.header;
        header.magic = MAGIC;
        header.version = VERSION;
        header.header_size = size_of::<TraceHeader>() as u16;
        header.entry_size = size_of::<TraceEntry>() as u16;
        header.component = component as u8;
        header.capacity = N as u32;
        header.frequency = AtomicU64::new(frequency);
        header.adapter = AtomicU64::new(adapter);
    }

    /// Writes an event. Callable at any level; waits for no other thread. Returns the event's number.
    pub fn record(&self, moment: Moment, event: u16, arguments: [u64; ARGUMENTS]) -> u64 {
        let number = self.header.written.fetch_add(1, Ordering::Relaxed);
        let written =
            self.entries.get(place(number, N)).is_some_and(|entry| entry.write(number, moment, event, arguments));
        if !written {
            self.header.dropped.fetch_add(1, Ordering::Relaxed);
        }
        number
    }

    /// Events that were ever to be written.
    pub fn written(&self) -> u64 {
        self.header.written.load(Ordering::Acquire)
    }

    /// Those of the last `count` events that are complete, oldest first.
    pub fn last(&self, count: usize) -> impl Iterator<Item = Read> {
        let end = self.written();
        let start = end.saturating_sub(count.min(N) as u64);
        (start..end).filter_map(|number| {
            let read = self.entries.get(place(number, N))?.read()?;
            (read.number == number).then_some(read)
        })
    }
}

impl<const N: usize> TraceRing<N> {
    /// An empty ring for a static.
    pub const fn new(component: Component) -> Self {
        let header = TraceHeader {
            magic: MAGIC,
            version: VERSION,
            header_size: size_of::<TraceHeader>() as u16,
            entry_size: size_of::<TraceEntry>() as u16,
            component: component as u8,
            reserved: 0,
            capacity: N as u32,
            reserved2: 0,
            frequency: AtomicU64::new(0),
            adapter: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            reserved3: 0,
        };
        Self { header, entries: [const { TraceEntry::empty() }; N] }
    }
}

/// Place of event `number` among `capacity` entries.
fn place(number: u64, capacity: usize) -> usize {
    (number % (capacity as u64).max(1)) as usize
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    const EMPTY: Moment = Moment { time: 0, irql: 0, processor: 0 };

    fn numbers<const N: usize>(ring: &TraceRing<N>, count: usize) -> Vec<u64> {
        ring.last(count).map(|read| read.number).collect()
    }

    #[test]
    fn layouts_are_what_a_debugger_expects() {
        assert_eq!((size_of::<TraceHeader>(), size_of::<TraceEntry>()), (64, TraceEntry::SIZE));
        assert_eq!(core::mem::offset_of!(TraceRing<4>, entries), 64);
        assert_eq!(core::mem::offset_of!(TraceHeader, written), 40);
    }

    #[test]
    fn a_ring_says_what_it_is() {
        let mut ring = TraceRing::<4>::new(Component::Queue);
        ring.header.magic = [0; 8];
        ring.describe(Component::Fence, 10_000_000, 0x1234);
        let header = &ring.header;
        assert_eq!((&header.magic, header.version), (b"CPTRACE1", 1));
        assert_eq!((header.header_size, header.entry_size, header.capacity), (64, 48, 4));
        assert_eq!(header.component, Component::Fence as u8);
        let words = [&header.frequency, &header.adapter].map(|word| word.load(Ordering::Relaxed));
        assert_eq!(words, [10_000_000, 0x1234]);
    }

    #[test]
    fn the_last_round_is_kept_and_read_in_order() {
        let ring = TraceRing::<4>::new(Component::Queue);
        assert_eq!(numbers(&ring, 9), []);
        for number in 0..6 {
            let moment = Moment { time: 100 + number, irql: 2, processor: 7 };
            assert_eq!(ring.record(moment, 33, [number, u64::MAX, 5]), number);
        }
        assert_eq!((numbers(&ring, 9), numbers(&ring, 2)), (std::vec![2, 3, 4, 5], std::vec![4, 5]));
        let last = ring.last(1).next().unwrap();
        let moment = Moment { time: 105, irql: 2, processor: 7 };
        assert_eq!(last, Read { number: 5, moment, event: 33, arguments: [5, u64::MAX, 5] });
        assert_eq!(super::super::entry::from_words(&super::super::entry::to_words(&last)), Some(last));
    }

    #[test]
    fn an_entry_in_another_writers_hands_is_given_up_counted_and_not_read() {
        let ring = TraceRing::<2>::new(Component::Queue);
        ring.record(EMPTY, 1, [0; 3]);
        // A writer that stopped half-way.
        ring.entries[0].sequence.store(1, Ordering::Relaxed);
        ring.record(EMPTY, 2, [0; 3]);
        ring.record(EMPTY, 3, [0; 3]);
        assert_eq!((ring.header.dropped.load(Ordering::Relaxed), numbers(&ring, 2)), (1, std::vec![1]));
        assert_eq!(ring.entries[0].read(), None);
        // An event is written once.
        assert!(!ring.entries[1].write(1, EMPTY, 7, [0; 3]));
        assert_eq!(ring.entries[1].read().map(|read| read.event), Some(2));
        // One that is a round behind does not overwrite what is newer.
        let late = TraceRing::<2>::new(Component::Queue);
        late.record(EMPTY, 1, [0; 3]);
        late.record(EMPTY, 1, [0; 3]);
        late.record(EMPTY, 9, [0; 3]);
        assert!(!late.entries[0].write(0, EMPTY, 7, [0; 3]));
        assert_eq!(late.entries[0].read().map(|read| read.event), Some(9));
    }

    #[test]
    fn many_writers_and_a_reader_never_see_a_mixture() {
        const WRITERS: u64 = 6;
        const EACH: u64 = 4000;
        let ring = TraceRing::<8>::new(Component::Interrupt);
        let running = AtomicU64::new(WRITERS);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (ring, running) = (&ring, &running);
                scope.spawn(move || {
                    for step in 0..EACH {
                        let value = writer << 32 | step;
                        let moment = Moment { time: value, irql: writer as u8, processor: step as u32 };
                        ring.record(moment, writer as u16, [value, !value, value ^ 0x5555]);
                    }
                    running.fetch_sub(1, Ordering::Release);
                });
            }
            while running.load(Ordering::Acquire) != 0 {
                for read in ring.entries.iter().filter_map(TraceEntry::read).chain(ring.last(8)) {
                    let value = read.moment.time;
                    assert_eq!(read.arguments, [value, !value, value ^ 0x5555]);
                    assert_eq!((u64::from(read.event), u64::from(read.moment.irql)), (value >> 32, value >> 32));
                    assert_eq!(read.moment.processor, value as u32);
                }
            }
        });
        let dropped = ring.header.dropped.load(Ordering::Relaxed);
        assert_eq!(ring.written(), WRITERS * EACH);
        assert!(dropped < WRITERS * EACH / 2, "{dropped} of {} dropped", WRITERS * EACH);
        assert!(ring.entries.iter().all(|entry| entry.read().is_some()), "nobody is left half-way");
    }
}
