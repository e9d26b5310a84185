//! Turns a fault of a driver into a bug check: an exception in its image, or in a service that dereferences its pointer.

use iced_x86::{Decoder, DecoderOptions};
use wddm_ddi::nt::{DISPATCH_LEVEL, EXCEPTION_RECORD};
use wddm_ddi::types::KIRQL;

use crate::bugcheck::Bugcheck;
use crate::bus::trap;
use crate::driver::{Driver, IoMapping};
use crate::fault::{Access, Cause, Fault, guarded};
use crate::lent::{self, Stray};
use crate::pool::Owned;

/// The code whose instruction raised an exception.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    /// The driver's own.
    Driver,
    /// One of the kernel, in this service.
    Service(&'a str),
}

/// Below this address nothing is ever mapped, so that NULL with an offset faults. [learn: null-pointer assignment partition]
const NULL_PARTITION: usize = 0x1_0000;
const STATUS_ACCESS_VIOLATION: u64 = 0xc000_0005;
const STATUS_ILLEGAL_INSTRUCTION: u64 = 0xc000_001d;
const STATUS_INTEGER_DIVIDE_BY_ZERO: u64 = 0xc000_0094;
const STATUS_PRIVILEGED_INSTRUCTION: u64 = 0xc000_0096;
const STATUS_BREAKPOINT: u64 = 0x8000_0003;
/// Trap number of a double fault, which is what a stack overflow ends in.
const DOUBLE_FAULT: u64 = 8;

fn name_of(access: Access) -> &'static str {
    match access {
        Access::Read => "read of",
        Access::Write => "write to",
        Access::Execute => "jump to",
    }
}

/// What parameter 1 of the bug check says of the corruption, for the codes that code of a driver commonly has. [debugger: 0x139]
fn corruption(code: u32) -> &'static str {
    match code {
        0 | 2 => "a buffer on the stack is overrun (/GS)",
        1 => "a table of virtual functions is not that of the object (VTGuard)",
        3 => "a LIST_ENTRY is corrupt, as by removing an entry twice",
        5 => "a function that takes it as fatal got an invalid parameter",
        6 => "the security cookie of the image was not initialized (/GS)",
        7 => "the code asks for the end",
        8 => "an index is outside its array",
        10 => "an indirect call leads to no function (control flow guard)",
        _ => "see the table of parameter 1 on the page of bug check 0x139",
    }
}

/// The last address of user mode. [wdm: MmUserProbeAddress]
pub(crate) const HIGHEST_USER_ADDRESS: usize = 0x7fff_fffe_ffff;

/// An exception with its arguments, which handlers may continue from.
pub(crate) fn record_of(code: u32, address: usize, arguments: &[usize]) -> EXCEPTION_RECORD {
    let mut record = EXCEPTION_RECORD {
        ExceptionCode: code,
        ExceptionFlags: 0,
        ExceptionRecord: std::ptr::null_mut(),
        ExceptionAddress: std::ptr::without_provenance_mut(address),
        NumberParameters: 0,
        ExceptionInformation: [0; 15],
    };
    for (place, argument) in record.ExceptionInformation.iter_mut().zip(arguments) {
        *place = *argument;
        record.NumberParameters += 1;
    }
    record
}

/// The exception that a fault is, if a driver's handlers are asked about it. Those that are not: accesses of memory of the kernel, at a raised level, and
/// jumps to where no code is. [learn: handling exceptions; debugger: 0x50, 0xa]
pub(crate) fn record(fault: &Fault, driver: &Driver, level: KIRQL) -> Option<EXCEPTION_RECORD> {
    let exception = |status: u64, arguments: &[usize]| Some(record_of(status as u32, fault.instruction, arguments));
    match fault.cause {
        Cause::Memory { address, access, mapped } => {
            let of_user = address <= HIGHEST_USER_ADDRESS && !trap::is_reserved(address);
            let known = mapped
                || access == Access::Execute
                || driver.pool().fault_at(address).is_some()
                || driver.contiguous().fault_at(address).is_some()
                || driver.mapping_near(address).is_some();
            let arguments = [access.parameter() as usize, address];
            (of_user && !known && level < DISPATCH_LEVEL).then(|| exception(STATUS_ACCESS_VIOLATION, &arguments))?
        }
        // A fast fail asks no handler. [wdm: RtlFailFast]
        Cause::Stack { .. } | Cause::FastFail { .. } => None,
        Cause::Divide => exception(STATUS_INTEGER_DIVIDE_BY_ZERO, &[]),
        Cause::Illegal => exception(STATUS_ILLEGAL_INSTRUCTION, &[]),
        Cause::Breakpoint => exception(STATUS_BREAKPOINT, &[0]),
        Cause::General if is_privileged(fault.instruction) => exception(STATUS_PRIVILEGED_INSTRUCTION, &[]),
        Cause::General => exception(STATUS_ACCESS_VIOLATION, &[0, usize::MAX]),
    }
}

/// The bug check that a fault stands for, of `driver` at `level`.
pub(crate) fn bugcheck(fault: Fault, by: By<'_>, driver: &Driver, level: KIRQL) -> Bugcheck {
    let at = fault.instruction as u64;
    let exception = |status: u64, first: u64, second: u64, what: &str| {
        Bugcheck::new(Bugcheck::KMODE_EXCEPTION_NOT_HANDLED, [status, at, first, second], what)
    };
    let mut bugcheck = match fault.cause {
        Cause::Memory { address, access, mapped } => {
            return memory(Touch { address, access, mapped, instruction: fault.instruction }, by, driver, level);
        }
        Cause::Stack { address } => Bugcheck::new(
            Bugcheck::UNEXPECTED_KERNEL_MODE_TRAP,
            [DOUBLE_FAULT, address as u64, at, 0],
            "kernel stack overflow",
        ),
        Cause::Divide => exception(STATUS_INTEGER_DIVIDE_BY_ZERO, 0, 0, "division by zero"),
        Cause::Illegal => exception(STATUS_ILLEGAL_INSTRUCTION, 0, 0, "illegal instruction"),
        Cause::Breakpoint => exception(STATUS_BREAKPOINT, 0, 0, "breakpoint"),
        Cause::FastFail { code } => {
            let reason = format!("fast fail with code {code} (INT 29h): {}", corruption(code));
            Bugcheck::new(Bugcheck::KERNEL_SECURITY_CHECK_FAILURE, [code.into(), 0, 0, 0], reason)
        }
        Cause::General if is_privileged(fault.instruction) => {
            exception(STATUS_PRIVILEGED_INSTRUCTION, 0, 0, "privileged instruction")
        }
        // The processor tells no address.
        Cause::General => exception(
            STATUS_ACCESS_VIOLATION,
            0,
            u64::MAX,
            "access to an address that cannot exist, or to misaligned memory",
        ),
    };
    by.name(&mut bugcheck, driver);
    with_damage(bugcheck, driver)
}

/// Adds to a bug check that the driver has written beside a block of its pool, by which it may have come to fault.
fn with_damage(mut bugcheck: Bugcheck, driver: &Driver) -> Bugcheck {
    if let Some(damage) = driver.damage_of_pool() {
        bugcheck.reason = format!("{}; its pool is damaged: {damage}", bugcheck.reason);
    }
    bugcheck
}

fn memory(touch: Touch, by: By<'_>, driver: &Driver, level: KIRQL) -> Bugcheck {
    let at = touch.instruction as u64;
    let (address, access) = (touch.address as u64, touch.access.parameter());
    let what = format!("{} {address:#x}", name_of(touch.access));
    let raised = level >= DISPATCH_LEVEL;
    let of_driver = matches!(by, By::Driver);
    let (code, parameters, reason) = if let Some(owned) = driver.pool().fault_at(touch.address) {
        let code = match (owned, of_driver) {
            (Owned::Freed { .. }, true) => Bugcheck::DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL,
            (Owned::Freed { .. }, false) => Bugcheck::PAGE_FAULT_IN_FREED_SPECIAL_POOL,
            (Owned::Outside { .. }, true) => Bugcheck::DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION,
            (Owned::Outside { .. }, false) => Bugcheck::PAGE_FAULT_BEYOND_END_OF_ALLOCATION,
        };
        (code, [address, access, at, 0], format!("{what}, {owned}"))
    } else if let Some(stray) = lent::stray(touch.address) {
        let code = match (stray, of_driver) {
            (Stray::Behind { .. }, true) => Bugcheck::DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION,
            (Stray::Behind { .. }, false) => Bugcheck::PAGE_FAULT_BEYOND_END_OF_ALLOCATION,
            (Stray::Ended { .. }, true) => Bugcheck::DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL,
            (Stray::Ended { .. }, false) => Bugcheck::PAGE_FAULT_IN_FREED_SPECIAL_POOL,
        };
        (code, [address, access, at, 0], format!("{what}, {stray}"))
    } else if touch.access == Access::Execute && touch.mapped {
        let code = Bugcheck::ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY;
        (code, [address, 0, 0, 0], format!("{what}, which is not executable"))
    } else if touch.access == Access::Write && touch.mapped {
        let code = Bugcheck::ATTEMPTED_WRITE_TO_READONLY_MEMORY;
        (code, [address, 0, 0, 0], format!("{what}, which may only be read"))
    } else if raised && of_driver {
        let code = Bugcheck::DRIVER_IRQL_NOT_LESS_OR_EQUAL;
        (code, [address, level.into(), access, at], format!("{what}, {}, at IRQL {level}", touch.kind(driver)))
    } else if raised {
        let code = Bugcheck::IRQL_NOT_LESS_OR_EQUAL;
        (code, [address, level.into(), access, at], format!("{what}, {}, at IRQL {level}", touch.kind(driver)))
    } else if touch.address < NULL_PARTITION {
        let code = Bugcheck::KMODE_EXCEPTION_NOT_HANDLED;
        (code, [STATUS_ACCESS_VIOLATION, at, access, address], format!("{what}, a NULL pointer"))
    } else {
        let reason = format!("{what}, {}", touch.kind(driver));
        (Bugcheck::PAGE_FAULT_IN_NONPAGED_AREA, [address, access, at, 0], reason)
    };
    let mut bugcheck = Bugcheck::new(code, parameters, reason);
    by.name(&mut bugcheck, driver);
    with_damage(bugcheck, driver)
}

#[derive(Clone, Copy)]
struct Touch {
    address: usize,
    access: Access,
    mapped: bool,
    instruction: usize,
}

impl Touch {
    /// What is at the address, or was there, in words.
    fn kind(&self, driver: &Driver) -> String {
        let place = |what: &str, from: usize| {
            driver.place(from).map_or_else(String::new, |place| format!(", which was {what} in {place}"))
        };
        if let Some(near) = driver.contiguous().fault_at(self.address) {
            let what = if near.by.is_none() { "freed" } else { "asked for" };
            return format!("{near}{}", place(what, near.from));
        }
        if let Some(IoMapping { start, len, physical, ended, by }) = driver.mapping_near(self.address) {
            let place = driver.place(by.from).map_or_else(String::new, |place| format!(" in {place}"));
            let (service, done) = (by.service, if ended { "unmapped" } else { "mapped" });
            let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
            let beside = match self.address {
                at if at < start => format!("{} bytes before", start - at),
                at if at >= end => format!("{} bytes behind", at - end),
                _ => "in".to_owned(),
            };
            return format!(
                "{beside} {len:#x} bytes of device memory at {start:#x}, of physical address {physical:#x}, which {service} has {done}{place}"
            );
        }
        if trap::is_reserved(self.address) {
            let told =
                "device memory outside any mapping of DxgkCbMapMemory, or with an instruction not carried out there";
            return told.to_owned();
        }
        "invalid memory".to_owned()
    }
}

impl By<'_> {
    /// Adds the driver or service whose instruction it was to the reason.
    fn name(self, bugcheck: &mut Bugcheck, driver: &Driver) {
        bugcheck.reason = match self {
            Self::Driver => format!("{} by driver {}", bugcheck.reason, driver.name()),
            Self::Service(service) => {
                format!("{service} with a bad pointer of driver {}: {}", driver.name(), bugcheck.reason)
            }
        };
    }
}

/// True if the instruction at an address is one that user mode may not execute. All code of this process, drivers included, runs in user
/// mode.
fn is_privileged(instruction: usize) -> bool {
    const LONGEST: usize = 15;
    let code = std::ptr::with_exposed_provenance::<u8>(instruction);
    let mut bytes = [0; LONGEST];
    let to_page_end = 4096 - instruction % 4096;
    // What lies behind the page may not be there, and is not needed if the instruction ends before.
    let here = bytes.get_mut(..to_page_end.min(LONGEST)).is_some_and(|bytes| guarded::read_bytes(code, bytes).is_ok());
    if !here {
        return false;
    }
    let _ = guarded::read_bytes(code, &mut bytes);
    Decoder::with_ip(64, &bytes, instruction as u64, DecoderOptions::NONE).decode().is_privileged()
}
