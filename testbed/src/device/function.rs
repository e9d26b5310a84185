//! The GPU as the function of a vfio-user server.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use campanile_device::{Gpu, Held, Interrupts, Runner, Variant};
use campanile_hw::pci::{BAR_DOORBELLS, BAR_VRAM, MSIX_VECTORS};
use campanile_hw::registers::VRAM_PAGE_SIZE;
use campanile_vfio_user::message::{irq, region};
use campanile_vfio_user::{Function, MappedRegion, Region, Trigger};

use super::Messages;
use super::msi::Msi;

/// Bytes of configuration space.
const CONFIG_SIZE: u64 = 4096;

/// A GPU made for one client. With the last of it go its memory, its queues and its thread, and what the client gave: memory and triggers.
pub struct GpuFunction {
    gpu: Arc<Gpu>,
    triggers: Arc<Triggers>,
    /// Bytes of BAR4 that always show the same memory.
    linear: u64,
    /// Doorbells are not mapped.
    trapped_doorbells: bool,
    /// Stands in configuration space where the GPU has MSI-X.
    msi: Option<Msi>,
    runner: Option<Runner>,
}

/// The client's eventfds by vector; the lock is held for reading while one is signalled.
#[derive(Debug, Default)]
struct Triggers(RwLock<[Option<Arc<Trigger>>; MSIX_VECTORS as usize]>);

impl Interrupts for Triggers {
    fn message(&self, vector: u16) {
        let triggers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(trigger)) = triggers.get(usize::from(vector)) {
            trigger.signal();
        }
    }
}

/// Reads the state of a [`GpuFunction`] that its client has set up, for tests; a weak reference.
#[derive(Clone, Debug)]
pub struct Witness {
    gpu: Weak<Gpu>,
    triggers: Weak<Triggers>,
}

/// The state of a served function that its client has set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuHeld {
    /// Resources of the GPU itself.
    pub gpu: Held,
    /// Eventfds that messages are sent to.
    pub triggers: usize,
}

impl fmt::Display for GpuHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} triggers", self.gpu, self.triggers)
    }
}

impl Witness {
    /// What the function holds; `None` when it is gone.
    pub fn held(&self) -> Option<GpuHeld> {
        let (gpu, triggers) = (self.gpu.upgrade()?.held(), self.triggers.upgrade()?);
        let triggers = triggers.0.read().unwrap_or_else(PoisonError::into_inner).iter().flatten().count();
        Some(GpuHeld { gpu, triggers })
    }

    /// Pulls the function out of its slot, if it is still there.
    pub fn pull_out(&self) {
        if let Some(gpu) = self.gpu.upgrade() {
            gpu.pull_out();
        }
    }
}

impl GpuFunction {
    /// A GPU of this variant as after power-on, run by a thread of its own if `threads`.
    ///
    /// # Errors
    /// The variant is impossible, or the system has no memory for it.
    pub fn new(variant: &Variant, threads: bool) -> io::Result<Self> {
        let gpu = Gpu::new(variant)?;
        let triggers = Arc::new(Triggers::default());
        gpu.set_interrupts(Some(Arc::clone(&triggers) as Arc<dyn Interrupts>));
        let runner = threads.then(|| Runner::start(Arc::clone(&gpu)));
        let linear = variant.vram_window - variant.host_aperture;
        Ok(Self { gpu, triggers, linear, trapped_doorbells: false, msi: None, runner })
    }

    /// The same GPU with trapped doorbells: each store to one is a message. For measurements of what mapped doorbells save.
    #[must_use]
    pub fn with_trapped_doorbells(mut self) -> Self {
        self.trapped_doorbells = true;
        self
    }

    /// The same GPU, which sends messages in this way.
    #[must_use]
    pub fn with_messages(mut self, messages: Messages) -> Self {
        self.msi = (messages == Messages::Msi).then(|| Msi::in_place_of_msix(&self.gpu)).flatten();
        self
    }

    /// A look at what this GPU holds, for as long as it is there.
    pub fn witness(&self) -> Witness {
        Witness { gpu: Arc::downgrade(&self.gpu), triggers: Arc::downgrade(&self.triggers) }
    }

    /// The GPU.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Masks the vectors without an eventfd and unmasks the others: a client with eventfds emulates the MSI-X table itself.
    fn mask_vectors(&self) {
        let open = self.triggers.0.read().unwrap_or_else(PoisonError::into_inner).each_ref().map(Option::is_some);
        for (vector, open) in (0..).zip(open) {
            self.gpu.mask_vector(vector, !open);
        }
    }

    fn has_aperture(&self) -> bool {
        self.gpu.bar_size(BAR_VRAM).is_some_and(|size| size > self.linear)
    }

    /// Pieces of a range of a BAR with where they are in its file.
    fn pieces(&self, bar: u8, offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, Option<u64>)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let inside = at % VRAM_PAGE_SIZE;
            let count = (len - done).min((VRAM_PAGE_SIZE - inside) as usize);
            let start = done;
            done += count;
            let place = self.gpu.bar_page(bar, at / VRAM_PAGE_SIZE).map(|page| page * VRAM_PAGE_SIZE + inside);
            (count > 0).then_some((start, count, place))
        })
    }

    fn read_memory(&self, bar: u8, file: &File, offset: u64, bytes: &mut [u8]) -> bool {
        self.pieces(bar, offset, bytes.len()).all(|(start, count, place)| {
            let Some(part) = bytes.get_mut(start..start + count) else { return false };
            match place {
                Some(place) => file.read_exact_at(part, place).is_ok(),
                None => {
                    part.fill(0xff);
                    true
                }
            }
        })
    }

    fn write_memory(&self, bar: u8, file: &File, offset: u64, bytes: &[u8]) -> bool {
        self.pieces(bar, offset, bytes.len()).all(|(start, count, place)| {
            let Some(part) = bytes.get(start..start + count) else { return false };
            place.is_none_or(|place| file.write_all_at(part, place).is_ok())
        })
    }

    fn read_config(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let Ok(offset) = u16::try_from(offset) else { return false };
        for (at, byte) in (offset..).zip(bytes) {
            let instead = self.msi.as_ref().and_then(|msi| msi.read(&self.gpu, at));
            *byte = instead.unwrap_or_else(|| self.gpu.config_read(at, 1) as u8);
        }
        true
    }

    /// Writes configuration space in whole words, so that each register is written once.
    fn write_config(&self, offset: u64, bytes: &[u8]) -> bool {
        let Ok(mut at) = u16::try_from(offset) else { return false };
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = [4_u8, 2, 1]
                .into_iter()
                .find(|size| at.is_multiple_of(u16::from(*size)) && rest.len() >= usize::from(*size));
            let size = size.unwrap_or(1);
            let (word, behind) = rest.split_at(usize::from(size));
            let value = word.iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            if !self.msi.as_ref().is_some_and(|msi| msi.write(&self.gpu, at, word)) {
                self.gpu.config_write(at, size, value);
            }
            (at, rest) = (at + u16::from(size), behind);
        }
        self.follow_reset();
        true
    }

    /// Brings the interrupts that the client sees up to date after a reset of any kind.
    fn follow_reset(&self) {
        if let Some(msi) = &self.msi {
            msi.follow_reset(&self.gpu);
        }
        self.mask_vectors();
    }
}

/// The width of a register access, if that is one.
fn width(len: usize) -> Option<u8> {
    match len {
        1 | 2 | 4 | 8 => u8::try_from(len).ok(),
        _ => None,
    }
}

impl Function for GpuFunction {
    fn regions(&self) -> Vec<Region> {
        let mut regions = vec![Region::default(); region::PRIVATE as usize];
        for (bar, slot) in (0..6).zip(&mut regions) {
            let Some(size) = self.gpu.bar_size(bar) else { continue };
            let shared = self.gpu.bar_file(bar).filter(|_| !(self.trapped_doorbells && bar == BAR_DOORBELLS));
            let mapped = shared.map(|file| {
                let len = if bar == BAR_VRAM { self.linear } else { size };
                MappedRegion { file, areas: vec![(0, len)] }
            });
            *slot = Region { size, writable: true, mapped };
        }
        if let Some(config) = regions.get_mut(region::CONFIG as usize) {
            *config = Region { size: CONFIG_SIZE, writable: true, mapped: None };
        }
        if self.has_aperture() {
            // Which page of VRAM each page of BAR4 shows, a word each.
            let pages = self.gpu.bar_size(BAR_VRAM).unwrap_or(0) / VRAM_PAGE_SIZE;
            regions.push(Region { size: 8 * pages, writable: false, mapped: None });
        }
        regions
    }

    fn vectors(&self) -> u16 {
        MSIX_VECTORS
    }

    fn messages(&self) -> u32 {
        if self.msi.is_some() { irq::MSI } else { irq::MSIX }
    }

    fn read(&self, region: u32, offset: u64, bytes: &mut [u8]) -> bool {
        match region {
            region::CONFIG => self.read_config(offset, bytes),
            region::PRIVATE if bytes.len() == 8 && offset.is_multiple_of(8) => {
                bytes.copy_from_slice(&self.gpu.bar_page(BAR_VRAM, offset / 8).unwrap_or(u64::MAX).to_le_bytes());
                true
            }
            _ => {
                let Some(bar) = region::bar(region) else { return false };
                if let Some(file) = self.gpu.bar_file(bar) {
                    return self.read_memory(bar, &file, offset, bytes);
                }
                let Some(size) = width(bytes.len()) else { return false };
                let value = self.gpu.register_read(offset, size).to_le_bytes();
                value.get(..bytes.len()).map(|value| bytes.copy_from_slice(value)).is_some()
            }
        }
    }

    fn write(&self, region: u32, offset: u64, bytes: &[u8]) -> bool {
        match region {
            region::CONFIG => self.write_config(offset, bytes),
            _ => {
                let Some(bar) = region::bar(region) else { return false };
                if let Some(file) = self.gpu.bar_file(bar) {
                    return self.write_memory(bar, &file, offset, bytes);
                }
                let Some(size) = width(bytes.len()) else { return false };
                let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
                self.gpu.register_write(offset, size, value);
                true
            }
        }
    }

    fn map(&self, address: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        self.gpu.map_dma(address, file, offset, len, writable)
    }

    fn unmap(&self, address: u64, len: u64) {
        self.gpu.unmap_dma(address, len);
    }

    fn set_trigger(&self, vector: u16, trigger: Option<Arc<Trigger>>) {
        // Masked first and opened last, so that a message that comes meanwhile is kept for the new trigger.
        self.gpu.mask_vector(vector, true);
        let open = trigger.is_some();
        // Taking the lock for writing waits for a message under way.
        if let Some(slot) = self.triggers.0.write().unwrap_or_else(PoisonError::into_inner).get_mut(usize::from(vector))
        {
            *slot = trigger;
        }
        self.gpu.mask_vector(vector, !open);
    }

    fn reset(&self) {
        self.gpu.reset();
        self.follow_reset();
    }
}

impl Drop for GpuFunction {
    fn drop(&mut self) {
        self.gpu.set_interrupts(None);
        self.runner = None;
    }
}
