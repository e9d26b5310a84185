//! Emulates what functions that the WDK's headers inline read directly, which a driver in user mode cannot: the IRQL in CR8, the current thread at
//! gs:[188h], and the page KUSER_SHARED_DATA.
//!
//! Each of them is a fault here. One that is not understood stays a fault of the driver, and so does every write to the shared page.

use std::sync::OnceLock;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

use super::emulate::{Outcome, emulate_at};
use super::operands::{Memory, Registers};
use super::trap::decode;
use crate::fault::signal::{self, Claim, Site};
use crate::fault::{Access, Cause, guarded};
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

/// Processors of the host. Counted in advance: that is nothing for a signal handler.
static PROCESSORS: OnceLock<u32> = OnceLock::new();

/// Has such instructions of drivers carried out from now on.
pub(crate) fn serve_with(kernel: Kernel) {
    KERNEL.get_or_init(|| kernel);
    PROCESSORS.get_or_init(processors);
    // Makes the decoder's tables, for which the stack of a signal handler is too small.
    let _ = Decoder::new(64, &[0x90], DecoderOptions::NONE).decode();
    signal::claim(Claim::Inline, serve);
}

/// Carries out an instruction that reads or writes what this module is about; false if it is none.
fn serve(site: &Site, gregs: &mut signal::Registers) -> bool {
    if site.signal != libc::SIGSEGV || guarded::is_access(site.instruction) || !was_fetched(site) {
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
        return only_reads(&instruction)
            && done(emulate_at(&instruction, &mut registers, address, &mut Data(|_| thread as u64)));
    }
    // By the operand: of an address in the upper half not every host tells which it was.
    let offset = registers.effective_address(&instruction).and_then(|address| address.checked_sub(SHARED));
    let Some(offset) = offset.filter(|offset| *offset < SHARED_BYTES as u64) else { return false };
    only_reads(&instruction)
        && done(emulate_at(&instruction, &mut registers, offset, &mut Data(|size| field(offset as usize, size))))
}

/// Data of the kernel that instructions read and do not write.
struct Data<F>(F);

impl<F: Fn(u8) -> u64> Memory for Data<F> {
    fn read(&mut self, _: u64, size: u8) -> Option<u64> {
        Some((self.0)(size))
    }

    fn write(&mut self, _: u64, _: u8, _: u64) -> Option<()> {
        None
    }
}

/// True if the processor had the instruction, whose bytes can be read then; false for a jump to where nothing is.
fn was_fetched(site: &Site) -> bool {
    let canonical = (site.instruction as i64) << 16 >> 16 == site.instruction as i64;
    canonical && !matches!(site.cause(), Cause::Memory { access: Access::Execute, .. })
}

fn done(outcome: Outcome) -> bool {
    outcome == Outcome::Done
}

/// True if the memory operand is a source, or compared.
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

/// `size` bytes of the shared page as it is now. Everything but these fields is 0. [ntddk: KUSER_SHARED_DATA]
fn field(offset: usize, size: u8) -> u64 {
    let Some(kernel) = KERNEL.get() else { return 0 };
    let (interrupt, system) = ((kernel.interrupt_time)(), (kernel.system_time)().cast_unsigned());
    // High2Time stands behind a time, with which a reader of two halves finds out whether they belong together.
    let time = |time: u64| u128::from(time) | u128::from(time >> 32) << 64;
    let fields: [(usize, u128); 8] = [
        (0x004, u128::from((TICK << 24) / 10_000) & 0xffff_ffff),
        (0x008, time(interrupt)),
        (0x014, time(system)),
        (0x260, 26_100),
        (0x26c, 10),
        (0x320, time(interrupt / TICK)),
        (0x3c0, PROCESSORS.get().copied().unwrap_or(1).into()),
        // ActiveGroupCount.
        (0x3c4, 1),
    ];
    let byte = |at: usize| {
        let (start, value) = fields.iter().rfind(|(start, _)| *start <= at).copied().unwrap_or((at, 0));
        u32::try_from(8 * (at - start)).ok().and_then(|shift| value.checked_shr(shift)).unwrap_or(0) as u8
    };
    (offset..offset + usize::from(size)).rev().fold(0, |word, at| word << 8 | u64::from(byte(at)))
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
