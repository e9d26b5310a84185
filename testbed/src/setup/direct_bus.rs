//! The bus `direct`: the GPU is in the same process, and is reached by calls and shared memory.

use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};

use campanile_device::{Gpu, Interrupts, LentMemory};
use dxgkrnl::Ram;
use dxgkrnl::bus::{Bar, Bus, InterruptSink};

use super::msix::{self, Msix, config};

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

impl DirectBus {
    /// A bus with this GPU on it.
    pub fn new(gpu: Arc<Gpu>) -> Self {
        Self { gpu, messages: Arc::default() }
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

    fn show_bar_pages(&self, bar: u8, first: u64, count: u64, file: &Arc<File>) -> io::Result<()> {
        self.gpu.show_bar_pages(bar, first, count, file)
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
        let msix = Msix::with_vectors(self, vectors)?;
        let command = self.gpu.config_read(config::COMMAND, 2);
        self.gpu.config_write(config::COMMAND, 2, command | config::COMMAND_MEMORY);
        msix.set_control(self, msix::CONTROL_ENABLE | msix::CONTROL_MASK_ALL, 0);
        for vector in 0..u64::from(vectors) {
            let entry = msix.table + vector * msix::ENTRY_SIZE;
            self.gpu.register_write(entry + msix::ENTRY_ADDRESS_LOW, 4, msix::MESSAGE_ADDRESS);
            self.gpu.register_write(entry + msix::ENTRY_ADDRESS_HIGH, 4, 0);
            self.gpu.register_write(entry + msix::ENTRY_DATA, 4, msix::MESSAGE_DATA + vector);
            self.gpu.register_write(entry + msix::ENTRY_CONTROL, 4, 0);
        }
        self.messages.set(Some(sink));
        self.gpu.set_interrupts(Some(Arc::clone(&self.messages) as Arc<dyn Interrupts>));
        msix.set_control(self, 0, msix::CONTROL_MASK_ALL);
        Ok(())
    }

    fn disconnect_interrupts(&self) {
        if let Ok(msix) = Msix::find(self) {
            for vector in 0..u64::from(msix.vectors) {
                let entry = msix.table + vector * msix::ENTRY_SIZE;
                self.gpu.register_write(entry + msix::ENTRY_CONTROL, 4, msix::ENTRY_MASKED);
            }
            msix.set_control(self, 0, msix::CONTROL_ENABLE);
        }
        self.gpu.set_interrupts(None);
        // Taking the lock for writing waits for a message under way.
        self.messages.set(None);
    }

    fn cut_power(&self) {
        self.gpu.power_cycle();
    }

    fn map_memory(&self, memory: &Arc<Ram>) -> io::Result<()> {
        self.gpu.map_lent(0, Arc::new(Lent(Arc::clone(memory))))
    }

    fn unmap_memory(&self, memory: &Ram) {
        self.gpu.unmap_dma(0, memory.size());
    }
}

/// The machine's memory as its kernel has it mapped. So the GPU sees at each address what the kernel sees there, whoever has the memory.
struct Lent(Arc<Ram>);

impl fmt::Debug for Lent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Lent").field("size", &self.0.size()).finish_non_exhaustive()
    }
}

// SAFETY: the kernel's mapping shows all memory, readable and writable, as long as the object lives, and bytes that the device sees are never referred to.
unsafe impl LentMemory for Lent {
    fn base(&self) -> NonNull<u8> {
        self.0.kernel_address(0, 0).expect("memory begins at 0")
    }

    fn len(&self) -> usize {
        self.0.size() as usize
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
        let msix = Msix::find(&bus).unwrap();
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
