//! Timestamps. A query is a word that the GPU writes its clock to, and a word that says that it has.

use std::thread;
use std::time::Duration;

use ash::vk;
use campanile_umd::{Buffer, Mapping, Placement, Program};

use crate::device::Device;
use crate::failure::{Answer, result};
use crate::handle::objects;

objects! { QueryPool => vk::QueryPool }

/// Bytes of a query: its value, then 1 once that is there.
pub(crate) const QUERY: u64 = 16;
/// Offset of the word that says that the value is there.
pub(crate) const AVAILABILITY: u64 = 8;

/// Interval at which a wait for a result looks at it: no fence says that a timestamp was written.
const POLL: Duration = Duration::from_micros(50);

/// Lanes of a workgroup of the program that copies results.
pub(crate) const COPIES: u32 = 64;

/// Queries of timestamps.
pub(crate) struct QueryPool {
    /// Copies their results on the GPU.
    pub(crate) copy: Program,
    mapping: Mapping,
    count: u32,
}

/// What is written of a query, `offset` bytes from where its result begins.
pub(crate) struct QueryResult {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Width of results, and whether their availability is written behind them.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) flags: vk::QueryResultFlags,
}

impl Form {
    fn is_wide(self) -> bool {
        self.flags.contains(vk::QueryResultFlags::TYPE_64)
    }

    /// The flags, which the program that copies results knows by the same numbers.
    pub(crate) fn bits(self) -> u32 {
        self.flags.as_raw()
    }

    /// Bytes of a result.
    pub(crate) fn size(self) -> u64 {
        self.width() as u64 * if self.with_availability() { 2 } else { 1 }
    }

    /// Bytes of a word.
    fn width(self) -> usize {
        if self.is_wide() { 8 } else { 4 }
    }

    fn with_availability(self) -> bool {
        self.flags.contains(vk::QueryResultFlags::WITH_AVAILABILITY)
    }

    /// A word as the application wants it.
    fn bytes(self, value: u64, to: &mut Vec<u8>) {
        if self.is_wide() {
            to.extend(value.to_le_bytes());
        } else {
            to.extend((value as u32).to_le_bytes());
        }
    }
}

impl QueryPool {
    /// `count` queries.
    ///
    /// # Errors
    /// VK_ERROR_OUT_OF_DEVICE_MEMORY for more queries than there is memory for; the error of the operating system, as [`result`](crate::failure::result)
    /// translates it.
    pub(crate) fn new(device: &Device, count: u32) -> Answer<Self> {
        let copy = device.copies()?;
        let bytes = u64::from(count.max(1)) * QUERY;
        if bytes > device.kind(0)?.limit {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let memory: Buffer = device.umd().create_buffer(bytes, Placement::SystemUncached).map_err(result)?;
        Ok(Self { copy, mapping: memory.map().map_err(result)?, count })
    }

    /// GPU virtual address of a query, and how many there are from it on, `count` at most.
    pub(crate) fn at(&self, first: u32, count: u32) -> (u64, u32) {
        let first = first.min(self.count);
        (self.mapping.buffer().gpu_address() + u64::from(first) * QUERY, count.min(self.count - first))
    }

    /// Resets queries from the processor.
    pub(crate) fn reset(&self, first: u32, count: u32) {
        let (_, count) = self.at(first, count);
        for query in first..first + count {
            // The device is lost where this fails, which the next command with a result says.
            let _ = self.mapping.write(query as usize * QUERY as usize, &[0; QUERY as usize]);
        }
    }

    /// A query: its value if it is there.
    fn read(&self, query: u32) -> Answer<Option<u64>> {
        let mut words = [0u8; QUERY as usize];
        self.mapping.read(query as usize * QUERY as usize, &mut words).map_err(result)?;
        let word =
            |at: usize| words.iter().skip(at).take(8).rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        Ok((word(AVAILABILITY as usize) != 0).then(|| word(0)))
    }

    /// Each of `count` results from `first` on, and whether all of them are there. A result that is not there has no bytes but those of its availability.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn results(&self, first: u32, count: u32, form: Form) -> Answer<(Vec<QueryResult>, bool)> {
        let (_, count) = self.at(first, count);
        let (mut all, mut complete) = (Vec::new(), true);
        for query in first..first + count {
            let mut value = self.read(query)?;
            while value.is_none() && form.flags.contains(vk::QueryResultFlags::WAIT) {
                self.mapping.buffer().device().check().map_err(result)?;
                thread::sleep(POLL);
                value = self.read(query)?;
            }
            complete &= value.is_some();
            let mut bytes = Vec::new();
            if let Some(value) = value {
                form.bytes(value, &mut bytes);
            }
            // A value that is not there is not written, and its availability behind its place.
            let offset = if value.is_some() || !form.with_availability() { 0 } else { form.width() };
            if form.with_availability() {
                form.bytes(u64::from(value.is_some()), &mut bytes);
            }
            all.push(QueryResult { offset, bytes });
        }
        Ok((all, complete))
    }
}
