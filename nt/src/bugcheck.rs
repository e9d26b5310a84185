//! Bugchecks as values.

use std::fmt;

/// A stop of the simulated machine: documented code and parameters, and the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bugcheck {
    /// Bugcheck code, for example 0x119.
    pub code: u32,
    /// The four parameters as documented for the code.
    pub parameters: [u64; 4],
    /// Mistake of the driver, with the rule that it broke.
    pub reason: String,
    /// Where in its image it did so, if the driver is an image and the place is known. Boxed, because it is rare.
    pub place: Option<Box<CodeLocation>>,
}

/// A place in a driver image. Function, file and line come from its PDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLocation {
    /// Name of the module.
    pub module: String,
    /// Offset in the loaded image.
    pub rva: u32,
    /// Function, with its path.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line number in that file.
    pub line: Option<u32>,
    /// Where its function was called from, innermost first, as far as that is known.
    pub callers: Vec<Self>,
}

impl CodeLocation {
    fn source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.file, self.line) {
            (Some(function), Some(file), Some(line)) => write!(f, "{function} ({file}:{line})"),
            (Some(function), ..) => f.write_str(function),
            _ => f.write_str("(no symbols)"),
        }
    }
}

impl fmt::Display for CodeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+0x{:x} ", self.module, self.rva)?;
        self.source(f)?;
        self.callers.iter().try_for_each(|caller| {
            f.write_str(", from ")?;
            match caller.function {
                Some(_) => caller.source(f),
                None => write!(f, "{}+0x{:x}", caller.module, caller.rva),
            }
        })
    }
}

/// The documented codes that are raised here, each with its name.
macro_rules! codes {
    ($($(#[$about:meta])* $name:ident = $code:literal;)*) => {
        impl Bugcheck {
            $($(#[$about])* pub const $name: u32 = $code;)*

            /// Name of its code; `None` for one that a driver made up.
            pub fn name(&self) -> Option<&'static str> {
                match self.code {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// VIDEO_SCHEDULER_INTERNAL_ERROR. [debugger: 0x119]
    VIDEO_SCHEDULER_INTERNAL_ERROR = 0x119;
    /// VIDEO_MEMORY_MANAGEMENT_INTERNAL. [debugger: 0x10e]
    VIDEO_MEMORY_MANAGEMENT_INTERNAL = 0x10e;
    /// VIDEO_TDR_FAILURE. [debugger: 0x116]
    VIDEO_TDR_FAILURE = 0x116;
    /// VIDEO_DXGKRNL_FATAL_ERROR: no documented parameters; the reason says all. [debugger: 0x113]
    VIDEO_DXGKRNL_FATAL_ERROR = 0x113;
    /// DRIVER_IRQL_NOT_LESS_OR_EQUAL. [debugger: 0xd1]
    DRIVER_IRQL_NOT_LESS_OR_EQUAL = 0xd1;
    /// DRIVER_VERIFIER_DETECTED_VIOLATION; parameter 1 is the violation. [debugger: 0xc4]
    DRIVER_VERIFIER_DETECTED_VIOLATION = 0xc4;
    /// KMODE_EXCEPTION_NOT_HANDLED: exception code, address and the two parameters of the exception. [debugger: 0x1e]
    KMODE_EXCEPTION_NOT_HANDLED = 0x1e;
    /// KERNEL_SECURITY_CHECK_FAILURE: the code of the fast fail; trap frame and exception record are told as 0. [debugger: 0x139]
    KERNEL_SECURITY_CHECK_FAILURE = 0x139;
    /// UNEXPECTED_KERNEL_MODE_TRAP: parameter 1 is the trap, 8 a double fault, as a stack overflow is. [debugger: 0x7f]
    UNEXPECTED_KERNEL_MODE_TRAP = 0x7f;
    /// BAD_POOL_CALLER; parameter 1 is the violation. [debugger: 0xc2]
    BAD_POOL_CALLER = 0xc2;

    /// APC_INDEX_MISMATCH: parameter 3 is how often kernel APCs were enabled more than disabled, in 16 bits with a sign. [debugger: 0x1]
    APC_INDEX_MISMATCH = 0x1;
    /// IRQL_NOT_LESS_OR_EQUAL: address, IRQL, access, place. [debugger: 0xa]
    IRQL_NOT_LESS_OR_EQUAL = 0xa;
    /// MAXIMUM_WAIT_OBJECTS_EXCEEDED. [debugger: 0xc]
    MAXIMUM_WAIT_OBJECTS_EXCEEDED = 0xc;
    /// REFERENCE_BY_POINTER: type of the object, told as 0, and the object; the other two are reserved. [debugger: 0x18]
    REFERENCE_BY_POINTER = 0x18;
    /// SPIN_LOCK_ALREADY_OWNED. [debugger: 0xf]
    SPIN_LOCK_ALREADY_OWNED = 0xf;
    /// SPIN_LOCK_NOT_OWNED. [debugger: 0x10]
    SPIN_LOCK_NOT_OWNED = 0x10;
    /// TARGET_MDL_TOO_SMALL: no parameters. [debugger: 0x49]
    TARGET_MDL_TOO_SMALL = 0x49;
    /// PAGE_FAULT_IN_NONPAGED_AREA: address, access, place. [debugger: 0x50]
    PAGE_FAULT_IN_NONPAGED_AREA = 0x50;
    /// INVALID_KERNEL_HANDLE: the handle, and 1 for one that is not open. [debugger: 0x93]
    INVALID_KERNEL_HANDLE = 0x93;
    /// SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION; parameter 4 is the kind. [debugger: 0xc1]
    SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION = 0xc1;
    /// IRQL_UNEXPECTED_VALUE; parameter 1 has the current and the expected level. [debugger: 0xc8]
    IRQL_UNEXPECTED_VALUE = 0xc8;
    /// PAGE_FAULT_IN_FREED_SPECIAL_POOL: address, access, place; by the kernel. [debugger: 0xcc]
    PAGE_FAULT_IN_FREED_SPECIAL_POOL = 0xcc;
    /// PAGE_FAULT_BEYOND_END_OF_ALLOCATION: address, access, place; by the kernel. [debugger: 0xcd]
    PAGE_FAULT_BEYOND_END_OF_ALLOCATION = 0xcd;
    /// DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL: address, access, place. [debugger: 0xd5]
    DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL = 0xd5;
    /// DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION: address, access, place. [debugger: 0xd6]
    DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION = 0xd6;
    /// ATTEMPTED_WRITE_TO_READONLY_MEMORY: address; the page table entry is told as 0. [debugger: 0xbe]
    ATTEMPTED_WRITE_TO_READONLY_MEMORY = 0xbe;
    /// ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY: address; the page table entry is told as 0. [debugger: 0xfc]
    ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY = 0xfc;
    /// THREAD_STUCK_IN_DEVICE_DRIVER: the host's number of the thread; the next two are told as 0, the last as 1. [debugger: 0xea]
    THREAD_STUCK_IN_DEVICE_DRIVER = 0xea;
    /// DPC_WATCHDOG_VIOLATION; parameter 1 is the violation. [debugger: 0x133]
    DPC_WATCHDOG_VIOLATION = 0x133;
    /// RESOURCE_NOT_OWNED: the resource, the thread. [debugger: 0xe3]
    RESOURCE_NOT_OWNED = 0xe3;
    /// SYSTEM_PTE_MISUSE; parameter 1 is the violation. [debugger: 0xda]
    SYSTEM_PTE_MISUSE = 0xda;
    /// PROCESS_HAS_LOCKED_PAGES; parameter 1 is 0, then the process and how many pages. [debugger: 0x76]
    PROCESS_HAS_LOCKED_PAGES = 0x76;
    /// BAD_POOL_HEADER; parameter 1 is what is broken. [debugger: 0x19]
    BAD_POOL_HEADER = 0x19;
    /// VIDEO_DXGKRNL_SYSMM_FATAL_ERROR; parameter 1 is the kind. [debugger: 0x1e4]
    VIDEO_DXGKRNL_SYSMM_FATAL_ERROR = 0x1e4;

    /// WORKER_INVALID; parameter 1 is the violation, parameter 2 the address of the item. [debugger: 0xe4]
    WORKER_INVALID = 0xe4;
    /// TIMER_OR_DPC_INVALID; parameter 1 is 0 for a timer and 1 for a DPC, parameter 2 its address. [debugger: 0xc7]
    TIMER_OR_DPC_INVALID = 0xc7;
    /// DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS: memory, 0 for a read, and the instruction that would use it. [debugger: 0xce]
    DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS = 0xce;
}

impl Bugcheck {
    /// A bugcheck with all four parameters.
    pub fn new(code: u32, parameters: [u64; 4], reason: impl Into<String>) -> Self {
        Self { code, parameters, reason: reason.into(), place: None }
    }

    /// The same, at this place of a driver image.
    #[must_use]
    pub fn at(mut self, place: Option<CodeLocation>) -> Self {
        self.place = place.map(Box::new);
        self
    }

    /// VIDEO_SCHEDULER_INTERNAL_ERROR with its subcode as parameter 1.
    pub fn scheduler(subcode: u64, p2: u64, p3: u64, p4: u64, reason: impl Into<String>) -> Self {
        Self::new(Self::VIDEO_SCHEDULER_INTERNAL_ERROR, [subcode, p2, p3, p4], reason)
    }

    /// VIDEO_DXGKRNL_FATAL_ERROR: a broken rule that has no documented code of its own.
    pub fn fatal(reason: impl Into<String>) -> Self {
        Self::new(Self::VIDEO_DXGKRNL_FATAL_ERROR, [0; 4], reason)
    }

    /// As [`Bugcheck::fatal`], of an object that was misused: its address.
    pub fn fatal_of(object: usize, reason: impl Into<String>) -> Self {
        Self::new(Self::VIDEO_DXGKRNL_FATAL_ERROR, [object as u64, 0, 0, 0], reason)
    }

    /// VIDEO_MEMORY_MANAGEMENT_INTERNAL with its subcode as parameter 1.
    pub fn memory(subcode: u64, p2: u64, p3: u64, p4: u64, reason: impl Into<String>) -> Self {
        Self::new(Self::VIDEO_MEMORY_MANAGEMENT_INTERNAL, [subcode, p2, p3, p4], reason)
    }
}

impl fmt::Display for Bugcheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.parameters;
        self.name().map_or(Ok(()), |name| write!(f, "{name} "))?;
        write!(f, "0x{:X} (0x{a:X}, 0x{b:X}, 0x{c:X}, 0x{d:X}): {}", self.code, self.reason)?;
        match &self.place {
            Some(place) => write!(f, " in {place}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Bugcheck {}
