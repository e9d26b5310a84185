//! Queue numbers: places in the queue descriptor table.

use core::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::registers::NODES;

use crate::handle::Handle;
use crate::pool::{OutOfMemory, PoolVec, Tag};

/// Numbers not in use, reused as late as possible, so that a late event of an old queue is not taken for one of a new queue.
/// The first numbers belong to the packet queues of the nodes and are never given out.
pub(crate) struct FreeNumbers {
    /// A ring of the free numbers: `count` of them from `first`.
    ring: PoolVec<u32>,
    first: usize,
    count: usize,
}

impl FreeNumbers {
    /// All numbers of a table of `queues` descriptors.
    pub(crate) fn new(queues: u32) -> Result<Self, OutOfMemory> {
        let count = queues.saturating_sub(NODES) as usize;
        let ring = PoolVec::filled(count, Tag::QUEUE, |index| NODES + index as u32)?;
        Ok(Self { ring, first: 0, count })
    }

    /// Takes a number; `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        let number = self.ring.get(self.first).copied()?;
        self.first = (self.first + 1) % self.ring.len();
        Some(number)
    }

    /// Gives back a number of [`FreeNumbers::take`].
    pub(crate) fn put(&mut self, number: u32) {
        let len = self.ring.len();
        if self.count < len
            && let Some(place) = self.ring.get_mut((self.first + self.count) % len)
        {
            *place = number;
            self.count += 1;
        }
    }
}

/// Which hardware queue has which number; read at device level without waiting.
pub(crate) struct QueueMap {
    /// Handle bits of the HwQueue, 0 for none.
    handles: PoolVec<AtomicU64>,
}

impl QueueMap {
    pub(crate) fn new(queues: u32) -> Result<Self, OutOfMemory> {
        Ok(Self { handles: PoolVec::filled(queues as usize, Tag::QUEUE, |_| AtomicU64::new(0))? })
    }

    pub(crate) fn set(&self, number: u32, queue: Option<Handle>) {
        if let Some(place) = self.handles.get(number as usize) {
            place.store(queue.map_or(0, Handle::into_bits), Ordering::Release);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<Handle> {
        let bits = self.handles.get(number as usize)?.load(Ordering::Acquire);
        (bits != 0).then(|| Handle::from_bits(bits))
    }

    /// Every queue registered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Handle> {
        self.handles.iter().map(|place| place.load(Ordering::Acquire)).filter(|bits| *bits != 0).map(Handle::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn numbers_start_after_the_nodes_and_come_back_last() {
        testing::bind();
        let mut free = FreeNumbers::new(NODES + 3).unwrap();
        let first = free.take().unwrap();
        assert_eq!(first, NODES);
        free.put(first);
        assert_eq!([free.take(), free.take(), free.take()], [Some(NODES + 1), Some(NODES + 2), Some(NODES)]);
        assert_eq!(free.take(), None);
        free.put(NODES + 1);
        assert_eq!((free.take(), free.take()), (Some(NODES + 1), None));
    }
}
