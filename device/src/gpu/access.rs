//! Accesses to BAR0: the registers, and the table and the pending bits of MSI-X.

use std::sync::atomic::Ordering;

use campanile_hw::isa::SAVE_SIZE_MAX;
use campanile_hw::pci;
use campanile_hw::registers::{self as reg, Command, CommandStatus, Control, NODES};

use super::Gpu;
use crate::clock;
use crate::lock::lock;
use crate::msix::MsiX;
use crate::registers::{RegisterFile, Selection};

impl Gpu {
    /// Reads 4 or 8 bytes of BAR0, naturally aligned; anything else, and everything while memory decoding is off, reads as
    /// all ones.
    pub fn register_read(&self, offset: u64, size: u8) -> u64 {
        let ones = if size == 4 { u64::from(u32::MAX) } else { u64::MAX };
        let legal = matches!(size, 4 | 8) && offset.is_multiple_of(u64::from(size.max(1)));
        if !legal || !self.visible.load(Ordering::Acquire) {
            self.note_missed();
            return ones;
        }
        if let Some(inner) = within(offset, size, pci::MSIX_TABLE_OFFSET, MsiX::table_size()) {
            let msix = lock(&self.msix);
            let high = if size == 8 { u64::from(msix.table_word(inner + 4)) << 32 } else { 0 };
            return u64::from(msix.table_word(inner)) | high;
        }
        if let Some(inner) = within(offset, size, pci::MSIX_PBA_OFFSET, MsiX::pending_size()) {
            let bits = lock(&self.msix).pending_bits(inner & !7) >> (inner % 8 * 8);
            return bits & ones;
        }
        if self.variant.posted_writes
            && let Some(answer) = self.push_by_read(offset)
        {
            return answer;
        }
        match Selection::decode(offset, size) {
            Some(selection) => selection.extract(self.register_value(selection.register.offset)),
            None => ones,
        }
    }

    fn register_value(&self, offset: u64) -> u64 {
        if let Some(lie) = self.cmp.faults().register(offset) {
            return lie;
        }
        let variant = &self.variant;
        match offset {
            reg::ID => u64::from(reg::ID_VALUE),
            reg::VERSION => u64::from(reg::INTERFACE_VERSION),
            reg::CAPS => u64::from(variant.caps().into_bits()),
            reg::NODE_COUNT => u64::from(NODES),
            reg::VRAM_SIZE => variant.vram_size,
            reg::VRAM_WINDOW_SIZE => variant.linear_window(),
            reg::HOST_APERTURE_PAGES => self.host_aperture.pages(),
            reg::DOORBELL_COUNT => u64::from(variant.doorbell_count()),
            reg::QUEUE_LIMIT => u64::from(variant.queue_limit),
            reg::FENCE_LIMIT => u64::from(variant.fence_limit().unwrap_or(0)),
            reg::FENCE_STRIDE => u64::from(variant.fence_stride),
            reg::SAVE_SIZE if variant.preemption.leaves_dispatches() => u64::from(SAVE_SIZE_MAX),
            reg::SAVE_SIZE => 0,
            reg::CLOCK_HZ => clock::HZ,
            reg::TIMESTAMP => self.cmp.now(),
            reg::CONTROL => u64::from(Control::new().with_run(self.cmp.running()).into_bits()),
            reg::IDLE_TICKS => variant.idle_ticks,
            reg::NODE_BUSY => u64::from(self.cmp.busy()),
            reg::NODE_ASLEEP => u64::from(self.cmp.asleep()),
            reg::CMP_STATUS => u64::from(lock(&self.registers).status),
            reg::CMP_RESULT => lock(&self.registers).result,
            reg::COUNT_DOORBELLS => self.cmp.count_doorbells(),
            reg::COUNT_WAITS => self.cmp.count(|tallies| &tallies.waits),
            reg::COUNT_SIGNALS => self.cmp.count(|tallies| &tallies.signals),
            reg::COUNT_INTERRUPTS => self.messages.load(Ordering::Relaxed),
            reg::COUNT_RETIRED => self.cmp.count(|tallies| &tallies.retired),
            reg::COUNT_PREEMPTIONS => self.cmp.count(|tallies| &tallies.preemptions),
            reg::PROGRESS_COMPUTE => self.cmp.progress(0),
            reg::PROGRESS_COPY => self.cmp.progress(1),
            reg::PROGRESS_PAGING => self.cmp.progress(2),
            _ => lock(&self.registers).stored(offset).map_or(0, |value| *value),
        }
    }

    /// Writes 4 or 8 bytes of BAR0, naturally aligned; anything else, and everything while memory decoding is off, has no effect.
    /// What it causes is done when it returns, unless the function posts writes.
    pub fn register_write(&self, offset: u64, size: u8, value: u64) {
        let legal = matches!(size, 4 | 8) && offset.is_multiple_of(u64::from(size.max(1)));
        if !legal || !self.visible.load(Ordering::Acquire) {
            self.note_missed();
            return;
        }
        if let Some(inner) = within(offset, size, pci::MSIX_TABLE_OFFSET, MsiX::table_size()) {
            let mut msix = lock(&self.msix);
            msix.set_table_word(inner, value as u32);
            if size == 8 {
                msix.set_table_word(inner + 4, (value >> 32) as u32);
            }
        } else if self.variant.posted_writes {
            self.post(offset, size, value);
        } else {
            self.hold_reset(offset, value);
            self.write_now(offset, size, value);
        }
        self.deliver();
        self.nudge();
    }

    /// Delays the thread that resets a node, if a fault rule says so.
    pub(crate) fn hold_reset(&self, offset: u64, value: u64) {
        if offset == reg::CMP_COMMAND && value as u32 == Command::ResetNode as u32 && self.cmp.faults().any() {
            let [node, ..] = lock(&self.registers).arguments;
            self.cmp.faults().hold_reset(node as u32);
        }
    }

    /// Carries out a write of a register.
    pub(crate) fn write_now(&self, offset: u64, size: u8, value: u64) {
        if let Some(selection) = Selection::decode(offset, size).filter(|selection| selection.writable()) {
            self.write_selected(selection, value);
        }
    }

    fn write_selected(&self, selection: Selection, value: u64) {
        let mut registers = lock(&self.registers);
        match selection.register.offset {
            reg::CONTROL => self.control(&mut registers, Control::from_bits(value as u32)),
            reg::CMP_COMMAND => {
                let result = self.cmp.command(&self.memory, value as u32, registers.arguments);
                (registers.status, registers.result) = match result {
                    Ok(result) => (CommandStatus::Done as u32, result),
                    Err(status) => (status as u32, 0),
                };
            }
            reg::CLOCK_SET => self.cmp.set_clock(selection.replace(self.cmp.now(), value)),
            reg::HOST_APERTURE_TARGET => {
                self.host_aperture.show(registers.aperture_index, value as u32);
                registers.aperture_index = u64::from((registers.aperture_index as u32).wrapping_add(1));
            }
            offset => {
                if let Some(stored) = registers.stored(offset) {
                    *stored = selection.replace(*stored, value);
                }
                if offset == reg::PAGING_ROOT {
                    self.cmp.set_paging_root(registers.paging_root);
                }
            }
        }
    }

    fn control(&self, registers: &mut RegisterFile, control: Control) {
        if control.reset() {
            self.reset_registers(registers);
            if self.cmp.faults().reset_loses_memory() {
                self.lose_vram();
            }
        } else if !control.run() {
            self.cmp.stop();
        } else if !self.cmp.running() {
            self.cmp.start(
                &self.memory,
                registers.queue_table_base,
                registers.queue_table_count as u32,
                registers.event_ring_base,
                registers.event_ring_entries as u32,
            );
        }
    }
}

/// Offset inside an area of BAR0, if the access lies in it entirely.
fn within(offset: u64, size: u8, start: u64, len: u64) -> Option<u64> {
    let inner = offset.checked_sub(start)?;
    (inner + u64::from(size) <= len).then_some(inner)
}
