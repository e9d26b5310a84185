//! The bus `vfio-user`: the GPU is in another thread or process, and is reached by messages and shared memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use campanile_hw::pci::BAR_REGISTERS;
use campanile_hw::registers;
use campanile_vfio_user::message::{irq, region};
use campanile_vfio_user::{Client, check_memory};
use dxgkrnl::Ram;
use dxgkrnl::bus::{Bar, Bus, InterruptSink};

use super::gpu_handle::{BarMemory, GpuHandle};
use super::listener::{Listener, new_eventfd};
use super::memory_file::file_of;
use super::msix::{self, config};

/// [`Bus`] of a function behind a vfio-user server.
///
/// BAR0 is trapped and each access is a message; doorbells and VRAM are the server's files. When the server is gone, reads are all ones and writes
/// are dropped, as with a card that was pulled out.
pub struct VfioUserBus {
    client: Client,
    name: String,
    bars: [Option<ServedBar>; 6],
    /// The server says which page of VRAM a page of BAR4 shows.
    looks_up_pages: bool,
    interrupts: Mutex<Option<Connected>>,
    /// The GPU whose power the slot switches, if that can be asked: the protocol has no message for it.
    powered: Option<GpuHandle>,
}

/// Interrupts that are handed on.
struct Connected {
    listener: Listener,
    /// They are a line, and no messages.
    line: bool,
}

/// A command and its arguments: the driver reads afterwards what became of it, and that waits for all of them. They are not waited for one by one,
/// which is most of what a command costs.
const COMMAND_REGISTERS: [u64; 6] = [
    registers::CMP_ARG0,
    registers::CMP_ARG1,
    registers::CMP_ARG2,
    registers::CMP_ARG3,
    registers::CMP_ARG4,
    registers::CMP_COMMAND,
];

/// A BAR as the server described it.
enum ServedBar {
    Trapped { size: u64 },
    Mapped { file: Arc<File>, offset: u64, size: u64 },
}

impl VfioUserBus {
    /// The function of the server at a path.
    ///
    /// # Errors
    /// Nobody listens there, the server refuses the connection, or what it says of its function makes no sense.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::new(Client::connect(path)?, format!("vfio-user={}", path.display()))
    }

    /// The function of the server at the other end of a stream.
    ///
    /// # Errors
    /// As [`VfioUserBus::connect`].
    pub fn from_stream(stream: UnixStream) -> io::Result<Self> {
        Self::new(Client::new(stream)?, "vfio-user".to_owned())
    }

    fn new(client: Client, name: String) -> io::Result<Self> {
        let regions = client.regions()?;
        if regions < region::PRIVATE {
            return Err(io::Error::other("the server has no PCI function"));
        }
        let mut bars = [const { None }; 6];
        for (index, slot) in (0..).zip(&mut bars) {
            *slot = served_bar(&client, index)?;
        }
        let looks_up_pages = regions > region::PRIVATE;
        Ok(Self { client, name, bars, looks_up_pages, interrupts: Mutex::default(), powered: None })
    }

    /// Lets the slot switch the power of the GPU behind the server.
    pub(super) fn set_power_switch(&mut self, gpu: GpuHandle) {
        self.powered = Some(gpu);
    }

    /// What the BARs are, whoever they are shown to.
    pub(super) fn memories(&self) -> [Option<BarMemory>; 6] {
        self.bars.each_ref().map(|bar| {
            Some(match bar.as_ref()? {
                ServedBar::Trapped { size } => BarMemory { size: *size, file: None },
                ServedBar::Mapped { file, offset, size } => {
                    BarMemory { size: *size, file: (*offset == 0).then(|| Arc::clone(file)) }
                }
            })
        })
    }

    /// A descriptor of the socket, to see its end.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        self.client.socket().try_clone_to_owned()
    }

    fn read(&self, region: u32, offset: u64, size: u8) -> u64 {
        let mut bytes = [0; 8];
        let size = usize::from(size.min(8));
        let read = bytes.get_mut(..size).is_some_and(|bytes| self.client.read(region, offset, bytes).is_ok());
        if read { u64::from_le_bytes(bytes) } else { u64::MAX }
    }

    fn write(&self, region: u32, offset: u64, size: u8, value: u64) {
        // A server that is gone takes no writes, and neither does a card that is gone.
        let bytes = value.to_le_bytes();
        let _ = self.client.write(region, offset, bytes.get(..usize::from(size)).unwrap_or(&bytes));
    }
}

fn served_bar(client: &Client, index: u32) -> io::Result<Option<ServedBar>> {
    let info = client.region(index)?;
    if info.size == 0 {
        return Ok(None);
    }
    let Some((file, offset)) = info.file else { return Ok(Some(ServedBar::Trapped { size: info.size })) };
    let bad = |why: &str| io::Error::other(format!("the server's BAR{index} cannot be mapped: {why}"));
    check_memory(file.as_fd()).map_err(|error| bad(&error.to_string()))?;
    if offset.checked_add(info.size).is_none_or(|end| file.metadata().map_or(true, |file| file.len() < end)) {
        return Err(bad("its file is shorter"));
    }
    Ok(Some(ServedBar::Mapped { file: Arc::new(file), offset, size: info.size }))
}

impl Bus for VfioUserBus {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// The connection to the server has ended.
    fn is_gone(&self) -> bool {
        self.client.is_gone()
    }

    fn fault(&self) -> Option<String> {
        self.client.invalid_answer().map(str::to_owned)
    }

    fn config_read(&self, offset: u16, size: u8) -> u32 {
        self.read(region::CONFIG, offset.into(), size.min(4)) as u32
    }

    fn config_write(&self, offset: u16, size: u8, value: u32) {
        self.write(region::CONFIG, offset.into(), size.min(4), value.into());
    }

    fn bar(&self, index: u8) -> Option<Bar> {
        Some(match self.bars.get(usize::from(index))?.as_ref()? {
            ServedBar::Trapped { size } => Bar::Trapped { size: *size },
            ServedBar::Mapped { file, offset, size } => {
                let word = self.config_read(config::BAR0 + 4 * u16::from(index), 4);
                let prefetchable = word & config::BAR_PREFETCHABLE != 0;
                Bar::Mapped { file: Arc::clone(file), offset: *offset, size: *size, prefetchable }
            }
        })
    }

    fn shown_page(&self, bar: u8, page: u64) -> Option<u64> {
        if bar != campanile_hw::pci::BAR_VRAM || !self.looks_up_pages {
            return Some(page);
        }
        // The file behind the BAR has the last word on which pages there are.
        let Some(Some(ServedBar::Mapped { file, offset, .. })) = self.bars.get(usize::from(bar)) else { return None };
        let shown = self.read(region::PRIVATE, page.checked_mul(8)?, 8);
        let end = shown.checked_add(1)?.checked_mul(registers::VRAM_PAGE_SIZE)?.checked_add(*offset)?;
        file.metadata().is_ok_and(|file| end <= file.len()).then_some(shown)
    }

    fn register_read(&self, bar: u8, offset: u64, size: u8) -> u64 {
        self.read(bar.into(), offset, size)
    }

    fn register_write(&self, bar: u8, offset: u64, size: u8, value: u64) {
        if bar == BAR_REGISTERS && COMMAND_REGISTERS.contains(&offset) {
            let bytes = value.to_le_bytes();
            let _ = self.client.post(bar.into(), offset, bytes.get(..usize::from(size)).unwrap_or(&bytes));
            return;
        }
        self.write(bar.into(), offset, size, value);
    }

    /// Does what a monitor does for its guest: an eventfd for each vector, then messages enabled; the table is the monitor's own business.
    fn connect_interrupts(&self, vectors: u16, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        msix::switch_messages(self, vectors, false)?;
        let eventfds = (0..vectors).map(|_| new_eventfd()).collect::<io::Result<Vec<_>>>()?;
        let borrowed: Vec<_> = eventfds.iter().map(|fd| fd.as_fd()).collect();
        self.client.set_triggers(0, &borrowed)?;
        let listener = Listener::start(eventfds, sink)?;
        *self.interrupts.lock().unwrap_or_else(PoisonError::into_inner) = Some(Connected { listener, line: false });
        msix::switch_messages(self, vectors, true)
    }

    fn messages(&self, msix: bool) -> Option<u32> {
        self.client.vectors(if msix { irq::MSIX } else { irq::MSI }).ok()
    }

    fn has_line(&self) -> bool {
        self.client.has_line()
    }

    fn connect_line(&self, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        let eventfd = new_eventfd()?;
        self.client.set_line_trigger(Some(eventfd.as_fd()))?;
        let listener = Listener::start(vec![eventfd], sink)?;
        *self.interrupts.lock().unwrap_or_else(PoisonError::into_inner) = Some(Connected { listener, line: true });
        // One that was asserted before is sent now.
        self.client.unmask_line()
    }

    fn unmask_line(&self) {
        // A server that is gone asserts nothing.
        let _ = self.client.unmask_line();
    }

    fn disconnect_interrupts(&self) {
        let connected = self.interrupts.lock().unwrap_or_else(PoisonError::into_inner).take();
        if connected.as_ref().is_some_and(|connected| connected.line) {
            let _ = self.client.set_line_trigger(None);
        } else {
            let _ = msix::switch_messages(self, 0, false);
            let _ = self.client.clear_triggers();
        }
        // Waits for a message under way.
        drop(connected);
    }

    fn cut_power(&self) {
        if let Some(gpu) = &self.powered {
            gpu.power_cycle();
        }
    }

    fn settle_messages(&self) {
        if let Some(connected) = &*self.interrupts.lock().unwrap_or_else(PoisonError::into_inner) {
            connected.listener.settle();
        }
    }

    fn map_memory(&self, memory: &Arc<Ram>) -> io::Result<()> {
        self.client.map(0, Some(file_of(memory)?), 0, memory.size(), true)
    }

    fn unmap_memory(&self, memory: &Ram) {
        // A server that is gone has no memory any more.
        let _ = self.client.unmap(0, memory.size());
    }
}
