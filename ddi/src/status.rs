//! `NTSTATUS` and the codes of this interface.

use core::fmt;

/// Result of a kernel call; severity in the top two bits (0 success, 1 information, 2 warning, 3 error). [ntdef: NTSTATUS]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct NTSTATUS(pub i32);

impl NTSTATUS {
    /// `NT_SUCCESS`: success and informational codes, `STATUS_PENDING` among them.
    pub const fn is_success(self) -> bool {
        self.0 >= 0
    }

    /// `Ok` for success codes, the status itself as an error otherwise.
    pub const fn ok(self) -> Result<(), NTSTATUS> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }

    /// The name in `ntstatus.h`, if this crate knows the code.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(status, _)| *status == self).map(|(_, name)| *name)
    }
}

impl From<Result<(), NTSTATUS>> for NTSTATUS {
    fn from(result: Result<(), NTSTATUS>) -> Self {
        match result {
            Ok(()) => STATUS_SUCCESS,
            Err(status) => status,
        }
    }
}

impl fmt::Debug for NTSTATUS {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "NTSTATUS(0x{:08x})", self.0 as u32),
        }
    }
}

impl fmt::Display for NTSTATUS {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} (0x{:08x})", self.0 as u32),
            None => write!(f, "0x{:08x}", self.0 as u32),
        }
    }
}

impl core::error::Error for NTSTATUS {}

macro_rules! codes {
    ($($name:ident = $value:literal;)*) => {
        $(
            #[doc = concat!("[ntstatus: ", stringify!($name), "]")]
            pub const $name: NTSTATUS = NTSTATUS($value as u32 as i32);
        )*
        /// Every code of this module with its name.
        pub const NAMES: &[(NTSTATUS, &str)] = &[$(($name, stringify!($name))),*];
    };
}

codes! {
    STATUS_SUCCESS = 0x0000_0000;
    STATUS_ABANDONED = 0x0000_0080;
    STATUS_TIMEOUT = 0x0000_0102;
    STATUS_PENDING = 0x0000_0103;
    STATUS_BUFFER_OVERFLOW = 0x8000_0005;
    STATUS_NO_MORE_ENTRIES = 0x8000_001A;
    STATUS_UNSUCCESSFUL = 0xC000_0001;
    STATUS_INFO_LENGTH_MISMATCH = 0xC000_0004;
    STATUS_ACCESS_VIOLATION = 0xC000_0005;
    STATUS_INVALID_HANDLE = 0xC000_0008;
    STATUS_INVALID_CID = 0xC000_000B;
    STATUS_INVALID_PARAMETER = 0xC000_000D;
    STATUS_NO_SUCH_DEVICE = 0xC000_000E;
    STATUS_NO_MEMORY = 0xC000_0017;
    STATUS_ACCESS_DENIED = 0xC000_0022;
    STATUS_BUFFER_TOO_SMALL = 0xC000_0023;
    STATUS_OBJECT_TYPE_MISMATCH = 0xC000_0024;
    STATUS_INVALID_PARAMETER_MIX = 0xC000_0030;
    STATUS_OBJECT_NAME_INVALID = 0xC000_0033;
    STATUS_OBJECT_NAME_NOT_FOUND = 0xC000_0034;
    STATUS_OBJECT_NAME_COLLISION = 0xC000_0035;
    STATUS_OBJECT_PATH_NOT_FOUND = 0xC000_003A;
    STATUS_OBJECT_PATH_SYNTAX_BAD = 0xC000_003B;
    STATUS_REVISION_MISMATCH = 0xC000_0059;
    STATUS_PRIVILEGE_NOT_HELD = 0xC000_0061;
    STATUS_PROCEDURE_NOT_FOUND = 0xC000_007A;
    STATUS_INVALID_IMAGE_FORMAT = 0xC000_007B;
    STATUS_INSUFFICIENT_RESOURCES = 0xC000_009A;
    STATUS_DEVICE_NOT_READY = 0xC000_00A3;
    STATUS_NOT_SUPPORTED = 0xC000_00BB;
    STATUS_DEVICE_DOES_NOT_EXIST = 0xC000_00C0;
    STATUS_INTERNAL_ERROR = 0xC000_00E5;
    STATUS_INVALID_DEVICE_STATE = 0xC000_0184;
    STATUS_PROCESS_IS_TERMINATING = 0xC000_010A;
    STATUS_IMAGE_ALREADY_LOADED = 0xC000_010E;
    STATUS_CANCELLED = 0xC000_0120;
    STATUS_CANNOT_DELETE = 0xC000_0121;
    STATUS_KEY_DELETED = 0xC000_017C;
    STATUS_DRIVER_INTERNAL_ERROR = 0xC000_0183;
    STATUS_INVALID_DEVICE_REQUEST = 0xC000_0010;
    STATUS_DEVICE_REMOVED = 0xC000_02B6;
    STATUS_NOT_FOUND = 0xC000_0225;
    STATUS_FAILED_DRIVER_ENTRY = 0xC000_0365;
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER = 0xC01E_0001;
    STATUS_GRAPHICS_DRIVER_MISMATCH = 0xC01E_0009;
    STATUS_GRAPHICS_NO_VIDEO_MEMORY = 0xC01E_0100;
    STATUS_GRAPHICS_CANT_LOCK_MEMORY = 0xC01E_0101;
    STATUS_GRAPHICS_ALLOCATION_BUSY = 0xC01E_0102;
    STATUS_GRAPHICS_ALLOCATION_INVALID = 0xC01E_0106;
    STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE = 0xC01E_0110;
    STATUS_GRAPHICS_ALLOCATION_CLOSED = 0xC01E_0112;
    STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE = 0xC01E_0200;
}
