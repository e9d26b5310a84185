//! The device: a fence register, VRAM, one message interrupt.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dxgkrnl::Ram;
use dxgkrnl::bus::{Bar, Bus, InterruptSink};

/// Write: completes the packet with this fence. Read: next report, 0 when there is none.
pub(crate) const REPORT: u64 = 0x00;
/// Read: takes a while, and is never 0.
pub(crate) const SLOW: u64 = 0x04;
/// Report for "some monitored fence has a new value"; packets have smaller numbers.
pub(crate) const MONITORED: u32 = u32::MAX;
pub(crate) const REGISTERS_SIZE: u64 = 0x1000;
pub(crate) const VRAM_SIZE: u64 = 8 << 20;

pub(crate) struct FakeBus {
    config: Mutex<[u32; 64]>,
    pub(crate) vram: Arc<File>,
    reports: Mutex<VecDeque<u32>>,
    sink: Mutex<Option<Arc<dyn InterruptSink>>>,
    /// The function was pulled out of its slot, which nobody has told yet.
    pub(crate) gone: AtomicBool,
}

impl FakeBus {
    pub(crate) fn new(class: u32) -> Arc<Self> {
        let mut config = [0; 64];
        config[0] = 0x5678_1234;
        config[1] = 0x0010_0000;
        config[2] = class << 8;
        config[4] = 0b0100;
        config[6] = 0b1100;
        config[13] = 0x40;
        config[16] = 0x11;
        // SAFETY: the name is a valid C string.
        let vram = unsafe { libc::memfd_create(c"minimal-vram".as_ptr(), 0) };
        assert!(vram >= 0);
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let vram = unsafe { File::from_raw_fd(vram) };
        vram.set_len(VRAM_SIZE).unwrap();
        Arc::new(Self {
            config: Mutex::new(config),
            vram: Arc::new(vram),
            reports: Mutex::default(),
            sink: Mutex::default(),
            gone: AtomicBool::new(false),
        })
    }

    fn writable(word: usize) -> u32 {
        match word {
            1 => 0xffff,
            4 => !(REGISTERS_SIZE as u32 - 1),
            6 => !(VRAM_SIZE as u32 - 1),
            5 | 7 => u32::MAX,
            _ => 0,
        }
    }
}

impl Bus for FakeBus {
    fn name(&self) -> String {
        "minimal".into()
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn config_read(&self, offset: u16, size: u8) -> u32 {
        if self.is_gone() {
            return u32::MAX;
        }
        let config = self.config.lock().unwrap();
        let Some(word) = config.get(usize::from(offset / 4)) else { return u32::MAX };
        let value = word >> (8 * (offset % 4));
        if size == 4 { value } else { value & ((1 << (8 * size)) - 1) }
    }

    fn config_write(&self, offset: u16, _size: u8, value: u32) {
        let index = usize::from(offset / 4);
        if let Some(word) = self.config.lock().unwrap().get_mut(index) {
            *word = *word & !Self::writable(index) | value & Self::writable(index);
        }
    }

    fn bar(&self, index: u8) -> Option<Bar> {
        match index {
            0 => Some(Bar::Trapped { size: REGISTERS_SIZE }),
            2 => Some(Bar::Mapped { file: Arc::clone(&self.vram), offset: 0, size: VRAM_SIZE, prefetchable: true }),
            _ => None,
        }
    }

    fn register_read(&self, _bar: u8, offset: u64, _size: u8) -> u64 {
        match offset {
            REPORT => self.reports.lock().unwrap().pop_front().map_or(0, u64::from),
            SLOW => {
                std::thread::sleep(Duration::from_millis(20));
                u64::MAX
            }
            _ => u64::MAX,
        }
    }

    fn register_write(&self, _bar: u8, offset: u64, _size: u8, value: u64) {
        if offset == REPORT {
            self.reports.lock().unwrap().push_back(value as u32);
            let sink = self.sink.lock().unwrap().clone();
            if let Some(sink) = sink {
                sink.message(0);
            }
        }
    }

    fn connect_interrupts(&self, vectors: u16, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        assert_eq!(vectors, 1);
        *self.sink.lock().unwrap() = Some(sink);
        Ok(())
    }

    fn disconnect_interrupts(&self) {
        *self.sink.lock().unwrap() = None;
    }

    fn map_memory(&self, _memory: &Arc<Ram>) -> io::Result<()> {
        Ok(())
    }

    fn unmap_memory(&self, _memory: &Ram) {}
}
