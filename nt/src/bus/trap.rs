// UNSAFETY: the code of an interrupted thread, and reserved address space.
//! Trapped BARs: pages that fault, and the loads and stores that are carried out instead.
//!
//! All trapped ranges lie in one reservation of address space without access rights. The signal handler (`fault::signal`) asks here for an
//! address there, decodes the instruction, performs the access through the [`Bus`], puts a loaded value into the thread's
//! registers and continues behind the instruction. Drivers therefore use plain volatile loads and stores.
//!
//! Memory that is mapped as it is needs no trap, but a host that maps a real function answers accesses to one that sleeps with SIGBUS, which
//! `FunctionMapping` turns into what a bus without a device answers.
//!
//! Understood are `mov` in all its plain forms, `movzx`, `movsx`, `movsxd`, `movnti`, the arithmetic that compilers fold a
//! volatile load or store into (`cmp`, `test`, `and`, `or`, `xor`, `add`, `adc`, `sub`, `sbb`, `inc`, `dec`, `neg`, `not`), `xchg`, `xadd` and `cmpxchg`, with a lock
//! prefix or without, which is no atomic operation of the device; `movs`, `stos` and `lods`, which are accesses of one element after the other; and moves
//! of vector registers of 16 and 32 bytes or the first 4 or 8 of them, which are accesses of 8 bytes at most, in order of their addresses.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock, RwLock};

use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction};

use super::Bus;
use super::emulate::{Outcome, begins_at, emulate};
use super::operands::{Memory, Registers};
use super::pending::{self, Access};
use super::vector::Vectors;
use crate::fault::guarded;
use crate::fault::signal::{self, Claim, Site};
use crate::lock::{Mutex, lock};
use crate::page::PAGE_SIZE;
use crate::range::RangeAllocator;

/// Address space for all trapped ranges of the process.
const ARENA_SIZE: usize = 1 << 36;
/// Distance between ranges, so that running over the end of one never reaches another.
const GUARD: u64 = 1 << 16;
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

    /// Accesses end here; the addresses stay reserved as long as this object.
    pub fn end(&self) {
        let Some(arena) = ARENA.get() else { return };
        arena.targets.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&self.base);
    }
}

impl Drop for TrapRange {
    fn drop(&mut self) {
        self.end();
        let Some(arena) = ARENA.get() else { return };
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
        signal::claim(Claim::TrappedBar, serve);
        signal::install()?;
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

/// True if an address is reserved for device memory.
pub(crate) fn is_reserved(address: usize) -> bool {
    ARENA.get().is_some_and(|arena| arena.contains(address))
}

/// Carries an access to device memory out; false if it is none, or not understood.
fn serve(site: &Site, gregs: &mut signal::Registers) -> bool {
    let address = site.address;
    // A service that follows a driver's pointer reaches memory only, and no registers.
    if site.signal != libc::SIGSEGV || guarded::is_access(site.instruction) {
        return false;
    }
    let Some(arena) = ARENA.get().filter(|arena| arena.contains(address)) else { return false };
    let mut registers = Registers(gregs);
    let Some(instruction) = decode(registers.rip()) else { return false };
    if !begins_at(&instruction, &registers, address as u64) {
        return false;
    }
    let size = instruction.memory_size().size() as u64;
    let Some((target, _)) = arena.target(address, size) else { return false };
    // SAFETY: the site is that of the handler which this is called by.
    let vectors = unsafe { Vectors::new(site.vectors) };
    let outcome = emulate(&instruction, &mut registers, vectors, &mut Trapped { arena, instruction: site.instruction });
    if outcome == Outcome::Unsupported {
        let _ = writeln!(
            io::stderr(),
            "access to trapped BAR {} of {} by an instruction that is not emulated",
            target.bar,
            target.bus.name()
        );
    }
    outcome == Outcome::Done
}

/// Registers of devices, and the memory that a string instruction moves to or from there.
struct Trapped<'a> {
    arena: &'a Arena,
    /// The address of the instruction.
    instruction: usize,
}

impl Trapped<'_> {
    /// The access to the register at an address as others are told of it, and the function.
    fn access(&self, address: u64, size: u8, writes: bool) -> Option<(Target, Access)> {
        let (target, offset) = self.arena.target(address as usize, size.into())?;
        let (bar, offset) = (target.bar, target.offset + offset);
        Some((target, Access { number: 0, bar, offset, size, writes, instruction: self.instruction }))
    }
}

impl Memory for Trapped<'_> {
    fn read(&mut self, address: u64, size: u8) -> Option<u64> {
        if !self.arena.contains(address as usize) {
            return read_memory(address, size);
        }
        let (target, access) = self.access(address, size, false)?;
        let read = pending::during(access, || target.bus.register_read(access.bar, access.offset, size));
        Some(read & u64::MAX >> (64 - 8 * u32::from(size)))
    }

    fn write(&mut self, address: u64, size: u8, value: u64) -> Option<()> {
        if !self.arena.contains(address as usize) {
            return write_memory(address, size, value);
        }
        let (target, access) = self.access(address, size, true)?;
        pending::during(access, || target.bus.register_write(access.bar, access.offset, size, value));
        Some(())
    }
}

/// Memory of functions that do not answer, and the memory that a string instruction moves to or from there.
struct Unanswered;

impl Memory for Unanswered {
    fn read(&mut self, address: u64, size: u8) -> Option<u64> {
        if is_of_function(address as usize) { Some(u64::MAX) } else { read_memory(address, size) }
    }

    fn write(&mut self, address: u64, size: u8, value: u64) -> Option<()> {
        if is_of_function(address as usize) { Some(()) } else { write_memory(address, size, value) }
    }
}

/// What the instruction of a driver reads in memory; a fault there is none of the handler that carries it out.
fn read_memory(address: u64, size: u8) -> Option<u64> {
    let mut bytes = [0; 8];
    let place = std::ptr::with_exposed_provenance::<u8>(address as usize);
    guarded::read_bytes(place, bytes.get_mut(..usize::from(size))?).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// As [`read_memory`].
fn write_memory(address: u64, size: u8, value: u64) -> Option<()> {
    let place = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: the driver's instruction writes there.
    unsafe { guarded::write_bytes(place, value.to_le_bytes().get(..usize::from(size))?) }.ok()
}

/// True if an address is one of a [`FunctionMapping`].
fn is_of_function(address: usize) -> bool {
    let windows = MAPPINGS.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    windows.range(..=address).next_back().is_some_and(|(base, len)| ((address - base) as u64) < *len)
}

/// Memory of a function that is mapped as it is. An access there that the function does not answer, because it sleeps or is gone, ends as
/// such accesses do on a machine without traps: a load is all ones, a store is dropped.
pub struct FunctionMapping(usize);

/// Length by first address.
static MAPPINGS: RwLock<BTreeMap<usize, u64>> = RwLock::new(BTreeMap::new());

impl FunctionMapping {
    /// Looks after a mapping of `len` bytes, which stays as long as this does.
    ///
    /// # Errors
    /// The signal handler cannot be set up.
    pub fn new(base: usize, len: u64) -> io::Result<Self> {
        answer_for(base, len as usize).map(|()| Self(base))
    }
}

impl Drop for FunctionMapping {
    fn drop(&mut self) {
        answer_no_more(self.0);
    }
}

/// Looks after a mapping until [`answer_no_more`].
///
/// # Errors
/// As [`FunctionMapping::new`].
pub(crate) fn answer_for(base: usize, len: usize) -> io::Result<()> {
    signal::claim(Claim::UnansweredBar, unanswered);
    signal::install()?;
    MAPPINGS.write().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(base, len as u64);
    Ok(())
}

/// The mapping that begins at `base`, if it was looked after, is so no more.
pub(crate) fn answer_no_more(base: usize) {
    MAPPINGS.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&base);
}

/// Carries out an access to a [`FunctionMapping`] that the host answered with a bus error; false if it is none, or not understood.
fn unanswered(site: &Site, gregs: &mut signal::Registers) -> bool {
    let address = site.address;
    if site.signal != libc::SIGBUS {
        return false;
    }
    let inside = is_of_function(address);
    let mut registers = Registers(gregs);
    let instruction = if inside { decode(registers.rip()) } else { None };
    // SAFETY: the site is that of the handler which this is called by.
    let vectors = unsafe { Vectors::new(site.vectors) };
    instruction.is_some_and(|instruction| {
        begins_at(&instruction, &registers, address as u64)
            && emulate(&instruction, &mut registers, vectors, &mut Unanswered) == Outcome::Done
    })
}

/// Decodes the instruction at `rip`, reading no byte of a page that it does not lie in.
pub(super) fn decode(rip: u64) -> Option<Instruction> {
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

#[cfg(test)]
mod instructions_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{Bar, InterruptSink};
    use crate::ram::Ram;
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    /// Registers that remember the size of the last access: one 64-bit register every 8 bytes.
    #[derive(Default)]
    pub(super) struct Device {
        pub(super) registers: Mutex<BTreeMap<u64, u64>>,
        pub(super) accesses: Mutex<Vec<(char, u64, u8, u64)>>,
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
        fn map_memory(&self, _: &Arc<Ram>) -> io::Result<()> {
            Ok(())
        }
        fn unmap_memory(&self, _: &Ram) {}
    }

    pub(super) fn device() -> (Arc<Device>, TrapRange) {
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

    /// Runs one test of this module in a process of its own, which finds `mark` in its environment.
    fn alone(test: &str, mark: &str) -> ExitStatus {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("bus::trap::tests::{test}"), "--nocapture"])
            .env(mark, "1")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
    }

    /// Two pages of a file that is as long as it is told to be: what lies beyond its end answers with SIGBUS.
    fn mapped_file() -> (File, *mut c_void) {
        crate::kernel_stack::ensure_signal_stack();
        // SAFETY: the name is a terminated string.
        let fd = unsafe { libc::memfd_create(c"window".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: the descriptor is new, and not owned elsewhere.
        let file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        file.set_len(0x2000).unwrap();
        let base = crate::ram::map_shared(&file, 0, 0x2000, true).unwrap();
        (file, base.as_ptr().cast())
    }

    #[test]
    fn memory_that_does_not_answer_reads_as_ones_and_takes_stores_until_it_answers_again() {
        let (file, base) = mapped_file();
        let _window = FunctionMapping::new(base.addr(), 0x2000).unwrap();
        let register = base.cast::<u32>().wrapping_byte_add(0x1008);
        // SAFETY: the mapping is two pages long.
        unsafe { register.write_volatile(5) };
        file.set_len(0x1000).unwrap();
        // SAFETY: as above; the page beyond the end of the file is looked after.
        unsafe { register.write_volatile(6) };
        // SAFETY: as above.
        let narrow = unsafe { register.read_volatile() };
        // SAFETY: as above.
        let wide = unsafe { register.cast::<u64>().read_volatile() };
        // SAFETY: as above.
        let byte = unsafe { register.cast::<u8>().read_volatile() };
        assert_eq!((narrow, wide, byte), (u32::MAX, u64::MAX, u8::MAX));
        file.set_len(0x2000).unwrap();
        // SAFETY: as above.
        unsafe { register.write_volatile(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { register.read_volatile() }, 7);
    }

    #[test]
    fn a_bus_error_elsewhere_still_ends_the_process() {
        const MARK: &str = "DXGKRNL_TEST_FOREIGN_BUS_ERROR";
        if std::env::var_os(MARK).is_some() {
            let (file, base) = mapped_file();
            drop(FunctionMapping::new(base.addr(), 0x2000).unwrap());
            file.set_len(0).unwrap();
            // SAFETY: none; the fault is what the test is about.
            unsafe { base.cast::<u32>().write_volatile(1) };
            return;
        }
        let status = alone("a_bus_error_elsewhere_still_ends_the_process", MARK);
        assert_eq!(status.signal(), Some(libc::SIGBUS));
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
        let status = alone("a_fault_elsewhere_still_ends_the_process", MARK);
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
    }
}
