//! The direct way in: the GPU in the same process, reached by calls and shared memory.

use std::fs::File;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use campanile_device::{Gpu, Interrupts};
use dxgkrnl::bus::{Bar, Bus, InterruptSink};

/// [`Bus`] of a GPU in the same process.
///
/// BAR0 is trapped, so that register accesses reach the GPU as calls; doorbells and VRAM are the GPU's own memory files.
pub struct DirectBus {
    gpu: Arc<Gpu>,
    messages: Arc<Messages>,
}

/// Where the GPU's messages go; the lock is held for reading while one is under way.
#[derive(Default)]
struct Messages(RwLock<Option<Arc<dyn InterruptSink>>>);

impl Messages {
    fn set(&self, sink: Option<Arc<dyn InterruptSink>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = sink;
    }
}

impl Interrupts for Messages {
    fn message(&self, vector: u16) {
        if let Some(sink) = &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            sink.message(vector);
        }
    }
}

/// Registers of configuration space that every PCI function has.
mod config {
    pub(super) const COMMAND: u16 = 0x04;
    pub(super) const COMMAND_MEMORY: u32 = 1 << 1;
    pub(super) const STATUS: u16 = 0x06;
    pub(super) const STATUS_CAPABILITIES: u32 = 1 << 4;
    pub(super) const BAR0: u16 = 0x10;
    pub(super) const BAR_PREFETCHABLE: u32 = 1 << 3;
    pub(super) const CAPABILITIES: u16 = 0x34;
    pub(super) const CAPABILITY_MSIX: u32 = 0x11;
    /// Capabilities that a list can hold in the 192 bytes behind the header; a longer list is a loop.
    pub(super) const CAPABILITIES_MAX: usize = 48;
}

/// MSI-X: control word, table location, table entries. [PCIe base specification, MSI-X capability structure]
mod msix {
    pub(super) const CONTROL: u16 = 2;
    pub(super) const CONTROL_ENABLE: u32 = 1 << 15;
    pub(super) const CONTROL_MASK_ALL: u32 = 1 << 14;
    pub(super) const CONTROL_SIZE: u32 = 0x7ff;
    pub(super) const TABLE: u16 = 4;
    pub(super) const TABLE_BAR: u32 = 7;
    pub(super) const ENTRY_SIZE: u64 = 16;
    pub(super) const ENTRY_ADDRESS_LOW: u64 = 0;
    pub(super) const ENTRY_ADDRESS_HIGH: u64 = 4;
    pub(super) const ENTRY_DATA: u64 = 8;
    pub(super) const ENTRY_CONTROL: u64 = 12;
    pub(super) const ENTRY_MASKED: u64 = 1;
    /// Message address of the first processor's interrupt controller.
    pub(super) const MESSAGE_ADDRESS: u64 = 0xfee0_0000;
    /// First vector that a system hands out to devices.
    pub(super) const MESSAGE_DATA: u64 = 0x20;
}

/// Where the MSI-X structures of the function are.
struct Msix {
    capability: u16,
    vectors: u32,
    table: u64,
}

impl DirectBus {
    /// A bus with this GPU on it.
    pub fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, messages: Arc::default() }
    }

    fn msix(&self) -> io::Result<Msix> {
        let capability = self.capability(config::CAPABILITY_MSIX)?;
        let control = self.gpu.config_read(capability + msix::CONTROL, 2);
        let table = self.gpu.config_read(capability + msix::TABLE, 4);
        if table & msix::TABLE_BAR != 0 {
            return Err(io::Error::other("the MSI-X table is not in BAR0"));
        }
        Ok(Msix { capability, vectors: (control & msix::CONTROL_SIZE) + 1, table: u64::from(table & !msix::TABLE_BAR) })
    }

    fn capability(&self, id: u32) -> io::Result<u16> {
        if self.gpu.config_read(config::STATUS, 2) & config::STATUS_CAPABILITIES != 0 {
            let mut at = self.gpu.config_read(config::CAPABILITIES, 1) as u16 & 0xfc;
            for _ in 0..config::CAPABILITIES_MAX {
                if at == 0 {
                    break;
                }
                if self.gpu.config_read(at, 1) == id {
                    return Ok(at);
                }
                at = self.gpu.config_read(at + 1, 1) as u16 & 0xfc;
            }
        }
        Err(io::Error::other("the function has no MSI-X capability"))
    }

    fn set_control(&self, msix: &Msix, set: u32, clear: u32) {
        let control = self.gpu.config_read(msix.capability + msix::CONTROL, 2);
        self.gpu.config_write(msix.capability + msix::CONTROL, 2, (control & !clear) | set);
    }
}

impl Bus for DirectBus {
    fn name(&self) -> String {
        "direct".to_owned()
    }

    fn config_read(&self, offset: u16, size: u8) -> u32 {
        self.gpu.config_read(offset, size)
    }

    fn config_write(&self, offset: u16, size: u8, value: u32) {
        self.gpu.config_write(offset, size, value);
    }

    fn bar(&self, index: u8) -> Option<Bar> {
        let size = self.gpu.bar_size(index)?;
        let Some(file) = self.gpu.bar_file(index) else { return Some(Bar::Trapped { size }) };
        let word = self.gpu.config_read(config::BAR0 + 4 * u16::from(index), 4);
        Some(Bar::Mapped { file, offset: 0, size, prefetchable: word & config::BAR_PREFETCHABLE != 0 })
    }

    fn shown_page(&self, bar: u8, page: u64) -> Option<u64> {
        self.gpu.bar_page(bar, page)
    }

    fn register_read(&self, bar: u8, offset: u64, size: u8) -> u64 {
        match bar {
            0 => self.gpu.register_read(offset, size),
            _ => u64::MAX,
        }
    }

    fn register_write(&self, bar: u8, offset: u64, size: u8, value: u64) {
        if bar == 0 {
            self.gpu.register_write(offset, size, value);
        }
    }

    /// Does what an operating system does: memory decoding on, table entries filled and unmasked, MSI-X enabled.
    fn connect_interrupts(&self, vectors: u16, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        let msix = self.msix()?;
        if u32::from(vectors) > msix.vectors {
            return Err(io::Error::other(format!("{vectors} vectors asked for, the function has {}", msix.vectors)));
        }
        let command = self.gpu.config_read(config::COMMAND, 2);
        self.gpu.config_write(config::COMMAND, 2, command | config::COMMAND_MEMORY);
        self.set_control(&msix, msix::CONTROL_ENABLE | msix::CONTROL_MASK_ALL, 0);
        for vector in 0..u64::from(vectors) {
            let entry = msix.table + vector * msix::ENTRY_SIZE;
            self.gpu.register_write(entry + msix::ENTRY_ADDRESS_LOW, 4, msix::MESSAGE_ADDRESS);
            self.gpu.register_write(entry + msix::ENTRY_ADDRESS_HIGH, 4, 0);
            self.gpu.register_write(entry + msix::ENTRY_DATA, 4, msix::MESSAGE_DATA + vector);
            self.gpu.register_write(entry + msix::ENTRY_CONTROL, 4, 0);
        }
        self.messages.set(Some(sink));
        self.gpu.set_interrupts(Some(Arc::clone(&self.messages) as Arc<dyn Interrupts>));
        self.set_control(&msix, 0, msix::CONTROL_MASK_ALL);
        Ok(())
    }

    fn disconnect_interrupts(&self) {
        if let Ok(msix) = self.msix() {
            for vector in 0..u64::from(msix.vectors) {
                let entry = msix.table + vector * msix::ENTRY_SIZE;
                self.gpu.register_write(entry + msix::ENTRY_CONTROL, 4, msix::ENTRY_MASKED);
            }
            self.set_control(&msix, 0, msix::CONTROL_ENABLE);
        }
        self.gpu.set_interrupts(None);
        // Taking the lock for writing waits for a message under way.
        self.messages.set(None);
    }

    fn cut_power(&self) {
        self.gpu.power_cycle();
    }

    fn map_memory(&self, address: u64, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.gpu.map_dma(address, file, offset, len, true)
    }

    fn unmap_memory(&self, address: u64, len: u64) {
        self.gpu.unmap_dma(address, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_device::Variant;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl InterruptSink for Counting {
        fn message(&self, _: u16) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn bus() -> DirectBus {
        DirectBus::new(Gpu::new(&Variant::default()).unwrap())
    }

    #[test]
    fn registers_are_trapped_and_the_other_bars_are_memory() {
        let bus = bus();
        assert!(matches!(bus.bar(0), Some(Bar::Trapped { .. })));
        assert!(matches!(bus.bar(2), Some(Bar::Mapped { prefetchable: false, .. })));
        assert!(matches!(bus.bar(4), Some(Bar::Mapped { prefetchable: true, .. })));
        assert!(bus.bar(1).is_none());
        assert!(bus.bar(6).is_none());
    }

    #[test]
    fn connecting_enables_msix_and_disconnecting_disables_it() {
        let bus = bus();
        bus.connect_interrupts(1, Arc::new(Counting::default())).unwrap();
        let msix = bus.msix().unwrap();
        let control = bus.config_read(msix.capability + msix::CONTROL, 2);
        assert_ne!(control & msix::CONTROL_ENABLE, 0);
        assert_eq!(control & msix::CONTROL_MASK_ALL, 0);
        assert_eq!(bus.register_read(0, msix.table + msix::ENTRY_CONTROL, 4) & msix::ENTRY_MASKED, 0);
        bus.disconnect_interrupts();
        let control = bus.config_read(msix.capability + msix::CONTROL, 2);
        assert_eq!(control & msix::CONTROL_ENABLE, 0);
    }

    #[test]
    fn more_vectors_than_the_function_has_are_refused() {
        let error = bus().connect_interrupts(64, Arc::new(Counting::default())).unwrap_err();
        assert!(error.to_string().contains("64 vectors"), "{error}");
    }

    #[test]
    fn no_message_arrives_after_disconnecting() {
        let messages = Messages::default();
        let sink = Arc::new(Counting::default());
        messages.set(Some(Arc::clone(&sink) as Arc<dyn InterruptSink>));
        messages.message(0);
        messages.set(None);
        messages.message(0);
        assert_eq!(sink.0.load(Ordering::SeqCst), 1);
    }
}
