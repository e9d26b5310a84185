//! The rights that one opening of a fence gives.

use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS;
use wddm_ddi::status::*;

use crate::access_mask::{GenericMapping, STANDARD_RIGHTS_READ};
use crate::refusal::Failure;

/// Rights of an opening. One that may not signal has the current value read-only on the GPU too; one that may not wait can still read it,
/// which is all that a wait on the GPU does, so that this right is one of the thunks. [d3dukmdt:
/// D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, NoSignal, NoWait and NoGPUAccess]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) signal: bool,
    pub(crate) wait: bool,
    /// The GPU has an address of the value.
    pub(crate) gpu: bool,
}

/// [d3dukmdt: D3DDDI_SYNC_OBJECT_WAIT, D3DDDI_SYNC_OBJECT_SIGNAL]
const WAIT: u32 = 0x1;
const SIGNAL: u32 = 0x2;
/// The pages do not say what generic rights of fences stand for; this is this system's rule.
const MAPPING: GenericMapping = GenericMapping {
    read: STANDARD_RIGHTS_READ | WAIT,
    write: STANDARD_RIGHTS_READ | SIGNAL,
    execute: STANDARD_RIGHTS_READ,
    all: STANDARD_RIGHTS_READ | WAIT | SIGNAL,
};

impl Rights {
    /// Every right.
    pub(crate) const ALL: Self = Self { signal: true, wait: true, gpu: true };

    /// The rights that the flags of a creation or an opening leave.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER when they leave none.
    pub(crate) fn of_flags(flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> Result<Self, Failure> {
        match (flags.NoSignal(), flags.NoWait()) {
            (true, true) => Err(STATUS_INVALID_PARAMETER.into()),
            (no_signal, no_wait) => Ok(Self { signal: !no_signal, wait: !no_wait, gpu: !flags.NoGPUAccess() }),
        }
    }

    /// The rights that a kernel handle of a fence grants. [winnt: ACCESS_MASK; d3dkmthk: D3DKMTShareObjects]
    ///
    /// # Errors
    /// STATUS_ACCESS_DENIED when the fence may not even be read.
    pub(crate) fn of_access(granted: u32) -> Result<Self, Failure> {
        let granted = MAPPING.map(granted);
        if granted & STANDARD_RIGHTS_READ == 0 {
            return Err(STATUS_ACCESS_DENIED.into());
        }
        Ok(Self { signal: granted & SIGNAL != 0, wait: granted & WAIT != 0, ..Self::ALL })
    }

    /// Intersection of two sets of rights.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { signal: self.signal && other.signal, wait: self.wait && other.wait, gpu: self.gpu && other.gpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_masks_grant_what_their_bits_say_and_reading_is_the_least() {
        let rights = |signal, wait| Ok(Rights { signal, wait, ..Rights::ALL });
        for (mask, expected) in [
            (0x1000_0000, rights(true, true)),
            (0x001f_0003, rights(true, true)),
            (0x0002_0001, rights(false, true)),
            (0x0002_0002, rights(true, false)),
            (0x0002_0000, rights(false, false)),
            (0x8000_0000, rights(false, true)),
            (0x4000_0000, rights(true, false)),
            (0x2000_0000, rights(false, false)),
            (0x0200_0000, rights(true, true)),
            (0x3, Err(STATUS_ACCESS_DENIED.into())),
            (0, Err(STATUS_ACCESS_DENIED.into())),
        ] {
            assert_eq!(Rights::of_access(mask), expected, "{mask:#x}");
        }
    }

    #[test]
    fn flags_take_one_right_and_never_both() {
        let flags = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new();
        assert_eq!(Rights::of_flags(flags), Ok(Rights::ALL));
        let no_signal = Rights::of_flags(flags.with_NoSignal(true)).unwrap();
        assert_eq!(no_signal.and(Rights::ALL), Rights { signal: false, ..Rights::ALL });
        let no_gpu = Rights::of_flags(flags.with_NoGPUAccess(true)).unwrap();
        assert_eq!(Rights::ALL.and(no_gpu), Rights { gpu: false, ..Rights::ALL });
        assert_eq!(Rights::of_flags(flags.with_NoSignal(true).with_NoWait(true)), Err(STATUS_INVALID_PARAMETER.into()));
    }
}
