//! What code built with the WDK reads of processor and kernel without a call, carried out for a driver that runs in user mode: the level in CR8, the calling
//! thread at gs:[188h], and the page of times that every process shares with the kernel.
//!
//! Each of them is a fault here. One that is not understood stays a fault of the driver, and so does every write to the shared page.

use std::sync::OnceLock;

use iced_x86::{Instruction, Mnemonic, Register};

use super::emulate::{Outcome, Registers, emulate};
use super::trap::decode;
use crate::fault::guarded;
use crate::fault::signal::{self, Claim, Site};
use crate::irql;

/// KUSER_SHARED_DATA as the kernel maps it. [ntddk: KI_USER_SHARED_DATA]
const SHARED: u64 = 0xffff_f780_0000_0000;
/// Bytes of it that are known.
const SHARED_BYTES: usize = 0x720;
/// KPCR.Prcb.CurrentThread, which KeGetCurrentThread reads. [wdm: KeGetCurrentThread]
const CURRENT_THREAD: u64 = 0x188;
/// Units of 100 ns between two clock interrupts: 15.625 ms.
const TICK: u64 = 156_250;

/// What the services know, each as the function of the kernel has it that the instruction stands for.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// The calling thread as drivers know it.
    pub(crate) current_thread: fn() -> usize,
    /// Interrupt time in units of 100 ns.
    pub(crate) interrupt_time: fn() -> u64,
    /// System time in units of 100 ns since 1601.
    pub(crate) system_time: fn() -> i64,
}

static KERNEL: OnceLock<Kernel> = OnceLock::new();

/// Has such instructions of drivers carried out from now on.
pub(crate) fn serve_with(kernel: Kernel) {
    KERNEL.get_or_init(|| kernel);
    signal::claim(Claim::Inline, serve);
}

/// Carries out an instruction that reads or writes what this module is about; false if it is none.
fn serve(site: &Site, gregs: &mut signal::Registers) -> bool {
    if site.signal != libc::SIGSEGV || guarded::is_access(site.instruction) {
        return false;
    }
    let mut registers = Registers(gregs);
    let Some(instruction) = decode(registers.rip()) else { return false };
    if is_level(&instruction) {
        return level(&instruction, &mut registers);
    }
    let address = site.address as u64;
    if instruction.memory_segment() == Register::GS && address == CURRENT_THREAD {
        let thread = KERNEL.get().map_or(0, |kernel| (kernel.current_thread)());
        return only_reads(&instruction) && done(emulate(&instruction, &mut registers, |_| thread as u64, |_, _| ()));
    }
    let Some(offset) = address.checked_sub(SHARED).filter(|offset| *offset < SHARED_BYTES as u64) else { return false };
    only_reads(&instruction)
        && registers.effective_address(&instruction) == Some(address)
        && done(emulate(&instruction, &mut registers, |size| field(offset as usize, size), |_, _| ()))
}

fn done(outcome: Outcome) -> bool {
    outcome == Outcome::Done
}

/// Whether the memory operand is a source, or compared.
fn only_reads(instruction: &Instruction) -> bool {
    instruction.op0_kind() != iced_x86::OpKind::Memory
        || matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test)
}

fn is_level(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && (instruction.op0_register() == Register::CR8 || instruction.op1_register() == Register::CR8)
}

/// KeGetCurrentIrql reads CR8, KeRaiseIrql and KeLowerIrql write it. [wdm: KeGetCurrentIrql]
fn level(instruction: &Instruction, registers: &mut Registers<'_>) -> bool {
    if instruction.op1_register() == Register::CR8 {
        if registers.set(instruction.op0_register(), irql::current().into()).is_none() {
            return false;
        }
    } else {
        let Some(level) = registers.get(instruction.op1_register()) else { return false };
        // The upper bits are reserved; setting one of them is a fault.
        let Some(level) = u8::try_from(level).ok().filter(|level| *level <= irql::HIGH_LEVEL) else { return false };
        irql::set(level);
    }
    registers.set_word(libc::REG_RIP, instruction.next_ip());
    true
}

/// `size` bytes of the shared page as it is now.
fn field(offset: usize, size: u8) -> u64 {
    let page = page();
    let mut bytes = [0; 8];
    for (byte, place) in bytes.iter_mut().take(size.into()).zip(offset..) {
        *byte = page.get(place).copied().unwrap_or(0);
    }
    u64::from_le_bytes(bytes)
}

/// The page. Everything but these fields is 0. [ntddk: KUSER_SHARED_DATA]
fn page() -> [u8; SHARED_BYTES] {
    let mut page = [0; SHARED_BYTES];
    let Some(kernel) = KERNEL.get() else { return page };
    let mut put = |offset: usize, bytes: &[u8]| {
        if let Some(place) = page.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    let system = (kernel.system_time)().cast_unsigned();
    let interrupt = (kernel.interrupt_time)();
    let ticks = interrupt / TICK;
    put(0x004, &(((TICK << 24) / 10_000) as u32).to_le_bytes());
    for (offset, time) in [(0x008, interrupt), (0x014, system), (0x320, ticks)] {
        put(offset, &time.to_le_bytes());
        // High2Time, with which a reader of two halves finds out whether they belong together.
        put(offset + 8, &((time >> 32) as u32).to_le_bytes());
    }
    for (offset, number) in [(0x260, 26_100_u32), (0x26c, 10), (0x270, 0), (0x3c0, processors())] {
        put(offset, &number.to_le_bytes());
    }
    page
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::asm;

    fn served() {
        serve_with(Kernel {
            current_thread: || 0x1234_5678,
            interrupt_time: || 7 * TICK + (3 << 32),
            system_time: || 5 << 32 | 9,
        });
        signal::install().expect("handlers");
    }

    #[test]
    fn cr8_is_the_level_of_the_thread() {
        served();
        let before: u64;
        let raised: u64;
        // SAFETY: the fault handler carries the instructions out; a level is only a number of this thread.
        unsafe {
            asm!("mov {0}, cr8", "mov {1:e}, 2", "mov cr8, {1}", "mov {1}, cr8", out(reg) before, out(reg) raised)
        };
        assert_eq!((before, raised, irql::current()), (0, 2, 2));
        irql::set(0);
    }

    #[test]
    fn the_calling_thread_is_at_gs_188() {
        served();
        let thread: u64;
        // SAFETY: nothing is mapped there, and the fault handler answers.
        unsafe { asm!("mov {}, gs:[0x188]", out(reg) thread) };
        assert_eq!(thread, 0x1234_5678);
    }

    fn shared(offset: u64) -> u64 {
        let word: u64;
        // SAFETY: nothing is mapped there, and the fault handler answers.
        unsafe { asm!("mov {}, [{}]", out(reg) word, in(reg) SHARED + offset) };
        word
    }

    #[test]
    fn the_shared_page_has_the_times_and_the_version() {
        served();
        let interrupt = 7 * TICK + (3 << 32);
        assert_eq!((shared(0x8), shared(0x10) as u32), (interrupt, 3), "InterruptTime");
        assert_eq!((shared(0x14), shared(0x1c) as u32), (5 << 32 | 9, 5), "SystemTime");
        assert_eq!(shared(0x320), interrupt / TICK, "TickCountQuad");
        assert_eq!((shared(0x26c) as u32, shared(0x260) as u32), (10, 26_100), "version and build");
        assert_eq!(shared(0x4) as u32, 0x0fa0_0000, "15.625 ms, as a fraction of 24 bits");
    }
}
