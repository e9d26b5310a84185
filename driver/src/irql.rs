//! Interrupt request levels as values: a function takes the token of the level it may run at.
//!
//! A token stands for "this thread is at most at this level", and belongs to the call it was made for. A lower level may be used
//! where a higher maximum is allowed, which is what [`UpToDispatch`] says. Device level is a different promise: a [`Device`] token
//! means that the thread runs in the interrupt routine or in a routine of `DxgkCbSynchronizeExecution`.

use core::marker::PhantomData;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL};
use wddm_ddi::types::KIRQL;

use crate::nt;

/// Tokens may not travel to another thread.
type ThreadBound = PhantomData<*mut ()>;

/// Below DISPATCH_LEVEL: may wait, may call memory callbacks.
pub(crate) struct Passive(ThreadBound);

/// At most DISPATCH_LEVEL: may take spin locks.
pub(crate) struct Dispatch(ThreadBound);

/// Device interrupt level of this adapter.
pub(crate) struct Device(ThreadBound);

/// Levels from which DISPATCH_LEVEL can be reached by raising.
pub(crate) trait UpToDispatch {}

impl UpToDispatch for Passive {}
impl UpToDispatch for Dispatch {}

/// Debug builds stop at a token that claims a lower level than the processor's; release builds trust the entry point.
fn check(highest: KIRQL) {
    if cfg!(debug_assertions)
        && let Some(current) = nt::current_irql()
        && current > highest
        && let Some(imports) = nt::imports()
    {
        const IRQL_NOT_LESS_OR_EQUAL: u32 = 0xa;
        // SAFETY: ends the machine; nothing follows.
        unsafe { (imports.KeBugCheckEx)(IRQL_NOT_LESS_OR_EQUAL, 0, current.into(), 0, highest.into()) };
    }
}

impl Passive {
    /// # Safety
    /// The caller runs below DISPATCH_LEVEL and the token does not outlive that.
    pub(crate) unsafe fn assume() -> Self {
        check(APC_LEVEL);
        Self(PhantomData)
    }
}

impl Dispatch {
    /// # Safety
    /// The caller runs at DISPATCH_LEVEL or below and the token does not outlive that.
    pub(crate) unsafe fn assume() -> Self {
        check(DISPATCH_LEVEL);
        Self(PhantomData)
    }
}

impl Device {
    /// # Safety
    /// The caller runs in the interrupt routine or in a routine of `DxgkCbSynchronizeExecution`, and the token does not outlive that.
    pub(crate) unsafe fn assume() -> Self {
        Self(PhantomData)
    }
}
