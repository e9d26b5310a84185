//! Bugchecks as values.

use std::fmt;

/// A stop of the simulated machine: documented code and parameters, and the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bugcheck {
    /// Bugcheck code, for example 0x119.
    pub code: u32,
    /// The four parameters as documented for the code.
    pub parameters: [u64; 4],
    /// What the driver did, naming the rule.
    pub reason: String,
}

impl Bugcheck {
    /// VIDEO_SCHEDULER_INTERNAL_ERROR. [debugger: 0x119]
    pub const VIDEO_SCHEDULER_INTERNAL_ERROR: u32 = 0x119;
    /// VIDEO_MEMORY_MANAGEMENT_INTERNAL. [debugger: 0x10e]
    pub const VIDEO_MEMORY_MANAGEMENT_INTERNAL: u32 = 0x10e;
    /// VIDEO_TDR_FAILURE. [debugger: 0x116]
    pub const VIDEO_TDR_FAILURE: u32 = 0x116;
    /// VIDEO_DXGKRNL_FATAL_ERROR: no documented parameters; the reason says all. [debugger: 0x113]
    pub const VIDEO_DXGKRNL_FATAL_ERROR: u32 = 0x113;
    /// DRIVER_IRQL_NOT_LESS_OR_EQUAL. [debugger: 0xd1]
    pub const DRIVER_IRQL_NOT_LESS_OR_EQUAL: u32 = 0xd1;
    /// DRIVER_VERIFIER_DETECTED_VIOLATION; parameter 1 is the violation. [debugger: 0xc4]
    pub const DRIVER_VERIFIER_DETECTED_VIOLATION: u32 = 0xc4;
    /// BAD_POOL_CALLER; parameter 1 is the violation. [debugger: 0xc2]
    pub const BAD_POOL_CALLER: u32 = 0xc2;

    /// A bugcheck with all four parameters.
    pub fn new(code: u32, parameters: [u64; 4], reason: impl Into<String>) -> Self {
        Self { code, parameters, reason: reason.into() }
    }

    /// VIDEO_SCHEDULER_INTERNAL_ERROR with its subcode as parameter 1.
    pub fn scheduler(subcode: u64, p2: u64, p3: u64, p4: u64, reason: impl Into<String>) -> Self {
        Self::new(Self::VIDEO_SCHEDULER_INTERNAL_ERROR, [subcode, p2, p3, p4], reason)
    }

    /// VIDEO_MEMORY_MANAGEMENT_INTERNAL with its subcode as parameter 1.
    pub fn memory(subcode: u64, p2: u64, p3: u64, p4: u64, reason: impl Into<String>) -> Self {
        Self::new(Self::VIDEO_MEMORY_MANAGEMENT_INTERNAL, [subcode, p2, p3, p4], reason)
    }
}

impl fmt::Display for Bugcheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.parameters;
        write!(f, "0x{:X} (0x{a:X}, 0x{b:X}, 0x{c:X}, 0x{d:X}): {}", self.code, self.reason)
    }
}

impl std::error::Error for Bugcheck {}
