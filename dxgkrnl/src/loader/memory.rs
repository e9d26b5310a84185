//! The memory of a driver, as a debugger that is attached to the machine would read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Driver;

/// Bytes at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes, each as it was at some time while they were read.
    pub bytes: Vec<u8>,
}

/// Image and pool of a driver at one time. What goes on meanwhile may be half in it, as in a live debugging session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverMemory {
    /// Name of the driver's service.
    pub name: String,
    /// Address and size of its image; `None` for a linked driver, whose image is the whole process.
    pub image: Option<(u64, u64)>,
    /// The image and every block of pool, by address.
    pub ranges: Vec<MemoryRange>,
}

impl Driver {
    /// # Errors
    /// The process' own memory cannot be opened.
    pub(crate) fn memory(&self) -> io::Result<DriverMemory> {
        // Read by the kernel, which answers for memory that is freed meanwhile instead of faulting.
        let memory = File::open("/proc/self/mem")?;
        let image = self.image().map(|loaded| (loaded.image.base() as u64, loaded.image.size() as u64));
        let pool = self.pool().blocks().into_iter().map(|(address, size)| (address as u64, size as u64));
        let read = |(address, size): (u64, u64)| {
            let mut bytes = vec![0; usize::try_from(size).ok()?];
            memory.read_exact_at(&mut bytes, address).ok()?;
            Some(MemoryRange { address, bytes })
        };
        let mut ranges: Vec<MemoryRange> = image.into_iter().chain(pool).filter_map(read).collect();
        ranges.sort_by_key(|range| range.address);
        Ok(DriverMemory { name: self.name().to_owned(), image, ranges })
    }
}
