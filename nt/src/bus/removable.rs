//! A slot: a function that can be pulled out, whatever bus it is on. One that is gone reads as all ones, takes no writes and sends no messages; what the host has set up for it is still
//! taken down.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Bar, Bus, InterruptSink};
use crate::ram::Ram;

/// A function in a slot.
pub(crate) struct Removable {
    bus: Arc<dyn Bus>,
    gone: Arc<AtomicBool>,
}

/// Passes messages on until the function is gone.
struct Messages {
    sink: Arc<dyn InterruptSink>,
    gone: Arc<AtomicBool>,
}

impl InterruptSink for Messages {
    fn message(&self, vector: u16) {
        if !self.gone.load(Ordering::Acquire) {
            self.sink.message(vector);
        }
    }
}

impl Removable {
    /// The function on a bus.
    pub(crate) fn new(bus: Arc<dyn Bus>) -> Arc<Self> {
        Arc::new(Self { bus, gone: Arc::default() })
    }

    /// From now on nothing reaches the function, and nothing comes from it.
    pub(crate) fn pull_out(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// The function, unless it is gone.
    fn there(&self) -> Option<&dyn Bus> {
        (!self.gone.load(Ordering::Acquire)).then_some(&*self.bus)
    }
}

impl Bus for Removable {
    fn name(&self) -> String {
        self.bus.name()
    }

    fn is_gone(&self) -> bool {
        self.there().is_none_or(Bus::is_gone)
    }

    fn fault(&self) -> Option<String> {
        self.bus.fault()
    }

    fn config_read(&self, offset: u16, size: u8) -> u32 {
        self.there().map_or(u32::MAX, |bus| bus.config_read(offset, size))
    }

    fn config_write(&self, offset: u16, size: u8, value: u32) {
        self.there().into_iter().for_each(|bus| bus.config_write(offset, size, value));
    }

    fn bar(&self, index: u8) -> Option<Bar> {
        self.bus.bar(index)
    }

    fn shown_page(&self, bar: u8, page: u64) -> Option<u64> {
        self.bus.shown_page(bar, page)
    }

    fn register_read(&self, bar: u8, offset: u64, size: u8) -> u64 {
        self.there().map_or(u64::MAX, |bus| bus.register_read(bar, offset, size))
    }

    fn register_write(&self, bar: u8, offset: u64, size: u8, value: u64) {
        self.there().into_iter().for_each(|bus| bus.register_write(bar, offset, size, value));
    }

    fn connect_interrupts(&self, vectors: u16, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        self.bus.connect_interrupts(vectors, Arc::new(Messages { sink, gone: Arc::clone(&self.gone) }))
    }

    fn messages(&self, msix: bool) -> Option<u32> {
        self.there()?.messages(msix)
    }

    fn has_line(&self) -> bool {
        self.there().is_some_and(|bus| bus.has_line())
    }

    fn connect_line(&self, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        self.bus.connect_line(Arc::new(Messages { sink, gone: Arc::clone(&self.gone) }))
    }

    fn unmask_line(&self) {
        self.there().into_iter().for_each(|bus| bus.unmask_line());
    }

    fn disconnect_interrupts(&self) {
        self.bus.disconnect_interrupts();
    }

    fn settle_messages(&self) {
        self.there().into_iter().for_each(|bus| bus.settle_messages());
    }

    fn cut_power(&self) {
        self.there().into_iter().for_each(|bus| bus.cut_power());
    }

    fn show_bar_pages(&self, bar: u8, first: u64, count: u64, file: &Arc<File>) -> io::Result<()> {
        self.bus.show_bar_pages(bar, first, count, file)
    }

    fn map_memory(&self, memory: &Arc<Ram>) -> io::Result<()> {
        self.bus.map_memory(memory)
    }

    fn unmap_memory(&self, memory: &Ram) {
        self.bus.unmap_memory(memory);
    }
}
