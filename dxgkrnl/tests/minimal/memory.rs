//! What tests of memory have in common: calls of thunks, and a driver that puts allocations into VRAM.

use wddm_ddi::km::*;
use wddm_ddi::types::NTSTATUS;

use super::{Mutant, SOUND};

/// The driver puts allocations into VRAM where the CPU sees them.
pub(crate) const LOCAL: Mutant = Mutant {
    allocation: |info| {
        info.SupportedWriteSegmentSet = 0b10;
        info.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(2);
        info.u3.FlagsWddm2 = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new().with_CpuVisible(true);
    },
    ..SOUND
};

/// Calls a thunk: its status and arguments.
pub(crate) fn ask<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, mut args: A) -> (NTSTATUS, A) {
    // SAFETY: the structure lives across the call; the thunk checks the pointers in it.
    let status = unsafe { thunk(&raw mut args) };
    (status, args)
}

/// Calls a thunk that should succeed or be pending.
#[track_caller]
pub(crate) fn call<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, args: A) -> A {
    let (status, args) = ask(thunk, args);
    assert!(status.is_success(), "{status}");
    args
}
