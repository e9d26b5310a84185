// UNSAFETY: a SIGSEGV handler, the interrupted thread's registers, and reserved address space.
//! Trapped BARs: pages that fault, and the loads and stores that are carried out instead.
//!
//! All trapped ranges lie in one reservation of address space without access rights. The fault handler recognises an address
//! there, decodes the instruction, performs the access through the [`Bus`], puts a loaded value into the thread's
//! registers and continues behind the instruction. Drivers therefore use plain volatile loads and stores.
//!
//! The handler runs on the signal stack that every thread gets when it enters a driver; a register write may run a long way into a
//! device there. It may take locks and allocate: the interrupted instruction is a driver's access to device memory, never code that holds
//! an allocator or a lock of this process' libraries. A fault of a driver image's own code ends its call, see [`driver_call`].
//! Faults elsewhere go to the handler that was installed before.
//!
//! Understood are `mov` in all its plain forms, `movzx`, `movsx`, `movsxd`, `movnti`, and the arithmetic that compilers fold a
//! volatile load or store into: `cmp`, `test`, `and`, `or`, `xor`, `add`, `sub` without a lock prefix.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction};

use super::Bus;
use super::emulate::{Outcome, Registers, emulate};
use crate::driver_call;
use crate::machine::lock;
use crate::range::RangeAllocator;
use crate::verifier::{Bugcheck, Verifier};

/// Address space for all trapped ranges of the process.
const ARENA_SIZE: usize = 1 << 36;
/// Distance between ranges, so that running over the end of one never reaches another.
const GUARD: u64 = 1 << 16;
const PAGE_SIZE: u64 = 4096;
/// Longest x86 instruction.
const LONGEST: usize = 15;

/// A trapped range of addresses; the accesses end when this is dropped.
pub struct TrapRange {
    base: usize,
    reserved: u64,
}

#[derive(Clone)]
struct Target {
    bus: Arc<dyn Bus>,
    bar: u8,
    offset: u64,
    len: u64,
}

struct Arena {
    base: usize,
    free: Mutex<RangeAllocator>,
    targets: RwLock<BTreeMap<usize, Target>>,
}

static ARENA: OnceLock<Arena> = OnceLock::new();
/// Signals that a fault arrives as, and the handlers that were there before.
static PREVIOUS: [(c_int, OnceLock<libc::sigaction>); 5] = [
    (libc::SIGSEGV, OnceLock::new()),
    (libc::SIGBUS, OnceLock::new()),
    (libc::SIGILL, OnceLock::new()),
    (libc::SIGFPE, OnceLock::new()),
    (libc::SIGTRAP, OnceLock::new()),
];
static SETUP: Mutex<()> = Mutex::new(());

impl TrapRange {
    /// Traps accesses to `len` bytes that stand for BAR `bar` from `offset`.
    ///
    /// # Errors
    /// The address space or the signal handler cannot be set up, or all of it is in use.
    pub fn new(bus: Arc<dyn Bus>, bar: u8, offset: u64, len: u64) -> io::Result<Self> {
        let arena = Arena::get()?;
        let reserved = len
            .max(1)
            .checked_next_multiple_of(PAGE_SIZE)
            .and_then(|len| len.checked_add(GUARD))
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let at = lock(&arena.free)
            .allocate(reserved, GUARD)
            .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "no address space left for trapped ranges"))?;
        let base = arena.base + at as usize;
        let target = Target { bus, bar, offset, len };
        arena.targets.write().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(base, target);
        Ok(Self { base, reserved })
    }

    /// First address.
    pub fn address(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.base)
    }
}

impl Drop for TrapRange {
    fn drop(&mut self) {
        let Some(arena) = ARENA.get() else { return };
        arena.targets.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&self.base);
        lock(&arena.free).release((self.base - arena.base) as u64, self.reserved);
    }
}

impl Arena {
    fn get() -> io::Result<&'static Self> {
        let _setup = lock(&SETUP);
        if let Some(arena) = ARENA.get() {
            return Ok(arena);
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ARENA_SIZE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let arena = Self {
            base: base.expose_provenance(),
            free: Mutex::new(RangeAllocator::new(0, ARENA_SIZE as u64)),
            targets: RwLock::new(BTreeMap::new()),
        };
        install()?;
        Ok(ARENA.get_or_init(|| arena))
    }

    fn contains(&self, address: usize) -> bool {
        address.checked_sub(self.base).is_some_and(|offset| offset < ARENA_SIZE)
    }

    /// The target at an address and the offset inside it, if `size` bytes from there belong to it.
    fn target(&self, address: usize, size: u64) -> Option<(Target, u64)> {
        let targets = self.targets.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (base, target) = targets.range(..=address).next_back()?;
        let offset = (address - base) as u64;
        (offset.checked_add(size)? <= target.len).then(|| (target.clone(), offset))
    }
}

/// Installs the handlers, for images that may fault before any range is trapped.
///
/// # Errors
/// As [`TrapRange::new`].
pub(crate) fn prepare() -> io::Result<()> {
    Arena::get().map(drop)
}

fn install() -> io::Result<()> {
    PREVIOUS.iter().try_for_each(|(signal, previous)| install_one(*signal, previous))
}

/// Installs the handler in front of the one that is there.
fn install_one(signal: c_int, place: &OnceLock<libc::sigaction>) -> io::Result<()> {
    // SAFETY: all zero is a valid initial value of the C structure.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the present action only.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let _ = place.set(previous);
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and stays valid.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: no requirement; the C library gives every thread its error number.
    let errno_place = unsafe { libc::__errno_location() };
    // SAFETY: the place belongs to this thread.
    let errno = unsafe { errno_place.read() };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let info_of_fault = unsafe { info.read() };
    // SAFETY: SIGSEGV fills in the address.
    let address = unsafe { info_of_fault.si_addr() }.addr();
    // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's context, ours until return.
    let gregs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let trapped = signal == libc::SIGSEGV
        && ARENA.get().is_some_and(|arena| arena.contains(address) && serve(arena, address, gregs));
    let ours = trapped || image_fault(signal, address, gregs);
    // SAFETY: as above.
    unsafe { errno_place.write(errno) };
    if !ours {
        chain(signal, info, context);
    }
}

/// Carries the access out; false if this fault is not understood.
fn serve(arena: &Arena, address: usize, gregs: &mut [i64; 23]) -> bool {
    let mut registers = Registers(gregs);
    let Some(instruction) = decode(registers.rip()) else { return false };
    if registers.effective_address(&instruction) != Some(address as u64) {
        return false;
    }
    let size = instruction.memory_size().size() as u64;
    let Some((target, offset)) = arena.target(address, size) else {
        return stray(address, &mut registers);
    };
    let offset = target.offset + offset;
    let outcome = emulate(
        &instruction,
        &mut registers,
        |size| target.bus.register_read(target.bar, offset, size),
        |size, value| target.bus.register_write(target.bar, offset, size, value),
    );
    if outcome == Outcome::Unsupported {
        eprintln!(
            "access to trapped BAR {} of {} by an instruction that is not emulated",
            target.bar,
            target.bus.name()
        );
    }
    outcome == Outcome::Done
}

/// Ends the call of a driver image whose own instruction faulted; false if it was other code.
fn image_fault(signal: c_int, address: usize, gregs: &mut [i64; 23]) -> bool {
    const STATUS_ILLEGAL_INSTRUCTION: u64 = 0xc000_001d;
    const STATUS_INTEGER_DIVIDE_BY_ZERO: u64 = 0xc000_0094;
    const STATUS_BREAKPOINT: u64 = 0x8000_0003;
    const DOUBLE_FAULT: u64 = 8;
    let [instruction, stack_pointer] = [libc::REG_RIP, libc::REG_RSP]
        .map(|register| gregs.get(register as usize).copied().unwrap_or(0).cast_unsigned() as usize);
    let exception = Bugcheck::KMODE_EXCEPTION_NOT_HANDLED;
    let (code, parameters, what) = match signal {
        libc::SIGILL => (exception, [STATUS_ILLEGAL_INSTRUCTION, instruction as u64], "illegal instruction"),
        libc::SIGFPE => (exception, [STATUS_INTEGER_DIVIDE_BY_ZERO, instruction as u64], "division by zero"),
        libc::SIGTRAP => (exception, [STATUS_BREAKPOINT, instruction.wrapping_sub(1) as u64], "breakpoint"),
        _ if driver_call::is_stack_guard(address, stack_pointer) => {
            (Bugcheck::UNEXPECTED_KERNEL_MODE_TRAP, [DOUBLE_FAULT, address as u64], "kernel stack overflow")
        }
        _ => (Bugcheck::PAGE_FAULT_IN_NONPAGED_AREA, [address as u64, 0], "access to invalid memory"),
    };
    // A breakpoint is reported behind its instruction.
    let instruction = if signal == libc::SIGTRAP { instruction.wrapping_sub(1) } else { instruction };
    let Some((resume, argument)) = driver_call::landing(driver_call::Fault { code, parameters, instruction, what })
    else {
        return false;
    };
    for (register, value) in [(libc::REG_RIP, resume), (libc::REG_RDI, argument)] {
        if let Some(place) = gregs.get_mut(register as usize) {
            *place = value as i64;
        }
    }
    true
}

/// An access to reserved addresses that no mapping covers: fatal for the driver that made it, and its call does not go on.
fn stray(address: usize, registers: &mut Registers<'_>) -> bool {
    let Some(verifier) = Verifier::current() else { return false };
    let place = registers.rip();
    verifier.raise(Bugcheck::new(
        Bugcheck::PAGE_FAULT_IN_NONPAGED_AREA,
        [address as u64, 0, place, 0],
        format!("device memory at {address:#x} accessed outside any mapping of DxgkCbMapMemory"),
    ));
    registers.continue_at(abandon as *const () as u64);
    true
}

extern "C" fn abandon() -> ! {
    driver_call::abandon("access to unmapped device memory")
}

/// Decodes the instruction at `rip`, reading no byte of a page that it does not lie in.
fn decode(rip: u64) -> Option<Instruction> {
    let to_page_end = (PAGE_SIZE - rip % PAGE_SIZE) as usize;
    decode_bytes(rip, to_page_end.min(LONGEST)).or_else(|| decode_bytes(rip, LONGEST))
}

fn decode_bytes(rip: u64, len: usize) -> Option<Instruction> {
    let code = std::ptr::with_exposed_provenance::<u8>(rip as usize);
    // SAFETY: the processor just fetched the instruction here; `len` covers no page that it does not reach.
    let bytes = unsafe { std::slice::from_raw_parts(code, len) };
    let mut decoder = Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (decoder.last_error() == DecoderError::None).then_some(instruction)
}

/// Passes a fault on to whoever handled SIGSEGV before.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.iter().find(|(known, _)| *known == signal).and_then(|(_, place)| place.get()) else {
        return;
    };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction faults again, now with the default action.
            // SAFETY: restores an action that was in force before.
            unsafe { libc::sigaction(signal, std::ptr::from_ref(previous), std::ptr::null_mut()) };
            // SAFETY: sets a default action.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Action = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: with SA_SIGINFO the stored number is a function of this type.
            let handler = unsafe { std::mem::transmute::<usize, Action>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO the stored number is a function of this type.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{Bar, InterruptSink};
    use crate::loader::Driver;
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;

    /// Registers that remember the size of the last access: one 64-bit register every 8 bytes.
    #[derive(Default)]
    struct Device {
        registers: Mutex<BTreeMap<u64, u64>>,
        accesses: Mutex<Vec<(char, u64, u8, u64)>>,
    }

    impl Bus for Device {
        fn name(&self) -> String {
            "test".into()
        }
        fn config_read(&self, _: u16, _: u8) -> u32 {
            !0
        }
        fn config_write(&self, _: u16, _: u8, _: u32) {}
        fn bar(&self, _: u8) -> Option<Bar> {
            Some(Bar::Trapped { size: 0x2000 })
        }
        fn register_read(&self, _: u8, offset: u64, size: u8) -> u64 {
            let value = lock(&self.registers).get(&offset).copied().unwrap_or(0xfedc_ba98_7654_3210);
            lock(&self.accesses).push(('r', offset, size, 0));
            value
        }
        fn register_write(&self, _: u8, offset: u64, size: u8, value: u64) {
            lock(&self.registers).insert(offset, value);
            lock(&self.accesses).push(('w', offset, size, value));
        }
        fn connect_interrupts(&self, _: u16, _: Arc<dyn InterruptSink>) -> io::Result<()> {
            Ok(())
        }
        fn disconnect_interrupts(&self) {}
        fn map_memory(&self, _: u64, _: &File, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn unmap_memory(&self, _: u64, _: u64) {}
    }

    fn device() -> (Arc<Device>, TrapRange) {
        crate::kernel_stack::ensure_signal_stack();
        let device = Arc::new(Device::default());
        let range = TrapRange::new(device.clone(), 0, 0, 0x2000).unwrap();
        (device, range)
    }

    #[test]
    fn loads_of_every_size_see_the_registers() {
        let (device, range) = device();
        let base = range.address();
        // SAFETY: the range stands for 0x2000 bytes of registers.
        let a = unsafe { base.cast::<u8>().read_volatile() };
        // SAFETY: as above.
        let b = unsafe { base.cast::<u16>().wrapping_byte_add(8).read_volatile() };
        // SAFETY: as above.
        let c = unsafe { base.cast::<u32>().wrapping_byte_add(16).read_volatile() };
        // SAFETY: as above.
        let d = unsafe { base.cast::<u64>().wrapping_byte_add(0x1ff8).read_volatile() };
        assert_eq!((a, b, c, d), (0x10, 0x3210, 0x7654_3210, 0xfedc_ba98_7654_3210));
        let accesses = lock(&device.accesses).clone();
        assert_eq!(accesses, [('r', 0, 1, 0), ('r', 8, 2, 0), ('r', 16, 4, 0), ('r', 0x1ff8, 8, 0)]);
    }

    #[test]
    fn stores_of_every_size_and_immediates_reach_the_registers() {
        let (device, range) = device();
        let base = range.address();
        let value = std::hint::black_box(0x1122_3344_5566_7788_u64);
        // SAFETY: the range stands for 0x2000 bytes of registers.
        unsafe { base.cast::<u8>().write_volatile(value as u8) };
        // SAFETY: as above.
        unsafe { base.cast::<u16>().wrapping_byte_add(8).write_volatile(value as u16) };
        // SAFETY: as above.
        unsafe { base.cast::<u32>().wrapping_byte_add(16).write_volatile(value as u32) };
        // SAFETY: as above.
        unsafe { base.cast::<u64>().wrapping_byte_add(24).write_volatile(value) };
        // SAFETY: as above.
        unsafe { base.cast::<u32>().wrapping_byte_add(32).write_volatile(7) };
        // SAFETY: as above.
        unsafe { base.cast::<u64>().wrapping_byte_add(40).write_volatile(u64::MAX) };
        let expected = [
            ('w', 0, 1, 0x88),
            ('w', 8, 2, 0x7788),
            ('w', 16, 4, 0x5566_7788),
            ('w', 24, 8, value),
            ('w', 32, 4, 7),
            ('w', 40, 8, u64::MAX),
        ];
        assert_eq!(*lock(&device.accesses), expected);
    }

    #[test]
    fn threads_access_their_devices_at_the_same_time() {
        let (device, range) = device();
        let base = range.address().addr();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    let register = std::ptr::with_exposed_provenance_mut::<u64>(base + thread as usize * 8);
                    for round in 0..200_u64 {
                        // SAFETY: the range stands for 0x2000 bytes of registers.
                        unsafe { register.write_volatile(round << 8 | thread) };
                        // SAFETY: as above.
                        assert_eq!(unsafe { register.read_volatile() }, round << 8 | thread);
                    }
                });
            }
        });
        assert_eq!(lock(&device.accesses).len(), 4 * 200 * 2);
    }

    #[test]
    fn an_access_after_the_mapping_ended_stops_the_machine_and_not_the_process() {
        let (_device, range) = device();
        let address = range.address();
        drop(range);
        let driver = Driver::for_tests("stray");
        // SAFETY: the fault that this causes is what the test is about.
        let (result, _) = driver_call::run(&driver, || unsafe { address.cast::<u32>().read_volatile() });
        assert_eq!(result, None);
        assert_eq!(driver.verifier().bugcheck().unwrap().code, 0x50);
    }

    #[test]
    fn a_fault_elsewhere_still_ends_the_process() {
        const MARK: &str = "DXGKRNL_TEST_FOREIGN_FAULT";
        let (_device, range) = device();
        if std::env::var_os(MARK).is_some() {
            // SAFETY: as in the other tests.
            let _ = unsafe { range.address().cast::<u32>().read_volatile() };
            // SAFETY: none; the fault is what the test is about.
            unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) };
            return;
        }
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bus::trap::tests::a_fault_elsewhere_still_ends_the_process", "--nocapture"])
            .env(MARK, "1")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
    }
}
