//! How the machine reaches a PCI function: configuration space, BARs, interrupt messages, DMA.
//!
//! A [`Bus`] is implemented by an adaptor for each way in: a device in the same process, a vfio-user server, a function
//! behind Linux' vfio. Nothing here knows what device it is.

mod emulate;
pub(crate) mod inline;
mod operands;
pub(crate) mod pending;
pub(crate) mod removable;
mod string;
pub mod trap;
mod vector;

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::ram::Ram;

/// Kind of the CPU's access to a BAR.
pub enum Bar {
    /// Each access is a call; the machine maps no memory, traps the driver's loads and stores and forwards them.
    Trapped {
        /// Bytes.
        size: u64,
    },
    /// Plain shared memory.
    Mapped {
        /// The file with the BAR's memory.
        file: Arc<File>,
        /// Byte offset of the BAR in the file.
        offset: u64,
        /// Bytes.
        size: u64,
        /// The BAR is prefetchable.
        prefetchable: bool,
    },
}

impl Bar {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Trapped { size } | Self::Mapped { size, .. } => *size,
        }
    }
}

/// Receives interrupt messages of a function, on threads of the device or the bus. Calls nothing of the bus.
pub trait InterruptSink: Send + Sync {
    /// Message `vector` arrived. Messages of one vector may be merged.
    fn message(&self, vector: u16);
}

/// One PCI function.
pub trait Bus: Send + Sync {
    /// What to call the function in messages, for example a slot or a socket path.
    fn name(&self) -> String;

    /// True once it is known that the function will never answer any more. Nothing is asked of it, so that this waits for nothing.
    fn is_gone(&self) -> bool {
        false
    }

    /// What the function's server did against its protocol, for which it is asked nothing any more.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Reads `size` (1, 2 or 4) bytes of configuration space at `offset`; all ones beyond its end or without a device.
    fn config_read(&self, offset: u16, size: u8) -> u32;

    /// Writes `size` (1, 2 or 4) bytes of configuration space at `offset`.
    fn config_write(&self, offset: u16, size: u8, value: u32);

    /// BAR `index` (0 to 5), `None` if not implemented or the upper half of another.
    fn bar(&self, index: u8) -> Option<Bar>;

    /// Page of the file behind a mapped BAR that page `page` of the BAR shows at the moment, counted from the BAR's start in the file;
    /// `None` for a page that shows nothing. A function with a remapped window changes the answer when its driver asks; a caller that maps
    /// the page into a process asks again then.
    fn shown_page(&self, bar: u8, page: u64) -> Option<u64> {
        let _ = bar;
        Some(page)
    }

    /// Has `count` pages of the file behind a mapped BAR, from page `first` of the BAR on, lie in another file, at the offset that they have in the BAR, in one
    /// step for the function. What they held stays in the file before.
    ///
    /// # Errors
    /// Unsupported where the pages have one file for good, or are for all processes; the host refuses.
    fn show_bar_pages(&self, bar: u8, first: u64, count: u64, file: &Arc<File>) -> io::Result<()> {
        let _ = (bar, first, count, file);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads `size` (1, 2, 4 or 8) bytes of a trapped BAR.
    fn register_read(&self, bar: u8, offset: u64, size: u8) -> u64;

    /// Writes `size` (1, 2, 4 or 8) bytes of a trapped BAR; complete when the call returns, or at the latest before a read that comes
    /// later is answered.
    fn register_write(&self, bar: u8, offset: u64, size: u8, value: u64);

    /// Enables the first `vectors` message interrupts and sends them to `sink` until [`Bus::disconnect_interrupts`].
    ///
    /// # Errors
    /// The function has fewer vectors, or the adaptor cannot set them up.
    fn connect_interrupts(&self, vectors: u16, sink: Arc<dyn InterruptSink>) -> io::Result<()>;

    /// Message interrupts of the function that the adaptor can connect, of MSI-X or of MSI; `None` if it has as many as configuration space offers.
    fn messages(&self, msix: bool) -> Option<u32> {
        let _ = msix;
        None
    }

    /// True if the adaptor has a line for the interrupt pin of the function.
    fn has_line(&self) -> bool {
        false
    }

    /// Sends the line-based interrupt of the function to `sink`, as message 0, until [`Bus::disconnect_interrupts`]. It is level-triggered, and masked by what is sent
    /// until [`Bus::unmask_line`].
    ///
    /// # Errors
    /// Unsupported where the adaptor has no lines; it cannot set one up.
    fn connect_line(&self, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        let _ = sink;
        Err(io::Error::new(io::ErrorKind::Unsupported, "this bus has no line-based interrupts"))
    }

    /// The interrupt routine has run for the line: one that the function asserts still is sent again.
    fn unmask_line(&self) {}

    /// Disables interrupts; when the call returns, none is under way.
    fn disconnect_interrupts(&self);

    /// Returns when every message that the function sent before has reached the sink. On PCI Express the answer to a read pushes the messages
    /// before it to their end; a bus on which they come another way than accesses makes up for that here.
    fn settle_messages(&self) {}

    /// Takes the power of a function that is in D3hot away and gives it back, as happens while the machine hibernates: the function is
    /// as after power-on. A bus that cannot do that leaves it in D3hot.
    fn cut_power(&self) {}

    /// Lets the function reach the machine's memory, at bus addresses that are its physical addresses.
    ///
    /// # Errors
    /// The function reaches memory already; the adaptor cannot map it, such as one whose device is given a file once, where owners of memory have a file each.
    fn map_memory(&self, memory: &Arc<Ram>) -> io::Result<()>;

    /// Takes the memory of [`Bus::map_memory`] away; when the call returns, no access to it is under way.
    fn unmap_memory(&self, memory: &Ram);
}
