//! The thunks of keyed mutexes, as cases call them.

use std::ffi::c_void;

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LARGE_INTEGER};

use crate::kmt::Kmt;
use crate::{Failure, granted};

/// Timeout of a call that does not wait.
pub(super) const AT_ONCE: LARGE_INTEGER = LARGE_INTEGER { QuadPart: 0 };

pub(super) fn create(kmt: Kmt, initial: u64) -> Result<D3DKMT_CREATEKEYEDMUTEX, Failure> {
    let mut arguments = D3DKMT_CREATEKEYEDMUTEX::zeroed();
    arguments.InitialValue = initial;
    granted(kmt.call(kmt.further().D3DKMTCreateKeyedMutex, &mut arguments), "D3DKMTCreateKeyedMutex")?;
    Ok(arguments)
}

pub(super) fn open(kmt: Kmt, shared: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut arguments = D3DKMT_OPENKEYEDMUTEX { hSharedHandle: shared, hKeyedMutex: 0 };
    kmt.call(kmt.further().D3DKMTOpenKeyedMutex, &mut arguments).ok()?;
    Ok(arguments.hKeyedMutex)
}

pub(super) fn acquire(kmt: Kmt, mutex: D3DKMT_HANDLE, key: u64, mut timeout: Option<LARGE_INTEGER>) -> (NTSTATUS, u64) {
    let mut arguments = D3DKMT_ACQUIREKEYEDMUTEX::zeroed();
    (arguments.hKeyedMutex, arguments.Key) = (mutex, key);
    arguments.pTimeout = timeout.as_mut().map_or(std::ptr::null_mut(), |timeout| &raw mut *timeout);
    let status = kmt.call(kmt.further().D3DKMTAcquireKeyedMutex, &mut arguments);
    (status, arguments.FenceValue)
}

pub(super) fn release(kmt: Kmt, mutex: D3DKMT_HANDLE, key: u64, fence: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_RELEASEKEYEDMUTEX { hKeyedMutex: mutex, Key: key, FenceValue: fence };
    kmt.call(kmt.further().D3DKMTReleaseKeyedMutex, &mut arguments)
}

pub(super) fn destroy(kmt: Kmt, mutex: D3DKMT_HANDLE) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROYKEYEDMUTEX { hKeyedMutex: mutex };
    kmt.call(kmt.further().D3DKMTDestroyKeyedMutex, &mut arguments)
}

pub(super) fn pointer(data: &mut [u8]) -> (*mut c_void, u32) {
    (data.as_mut_ptr().cast(), data.len() as u32)
}

/// The data that the next owner of a mutex finds; it is released with the same key.
pub(super) fn data_of(kmt: Kmt, mutex: D3DKMT_HANDLE, key: u64) -> Result<[u8; 8], Failure> {
    let (mut seen, mut now) = ([0; 8], AT_ONCE);
    let mut take = D3DKMT_ACQUIREKEYEDMUTEX2::zeroed();
    (take.hKeyedMutex, take.Key, take.pTimeout) = (mutex, key, &raw mut now);
    (take.pPrivateRuntimeData, take.PrivateRuntimeDataSize) = pointer(&mut seen);
    granted(kmt.call(kmt.further().D3DKMTAcquireKeyedMutex2, &mut take), "D3DKMTAcquireKeyedMutex2")?;
    granted(release(kmt, mutex, key, 0), "releasing it")?;
    Ok(seen)
}

/// A mutex that has no handle that every process knows.
pub(super) fn for_kernel_handles(kmt: Kmt, key: u64) -> Result<D3DKMT_CREATEKEYEDMUTEX2, Failure> {
    let mut make = D3DKMT_CREATEKEYEDMUTEX2::zeroed();
    make.InitialValue = key;
    make.Flags.set_NtSecuritySharing(true);
    granted(kmt.call(kmt.further().D3DKMTCreateKeyedMutex2, &mut make), "D3DKMTCreateKeyedMutex2")?;
    Ok(make)
}
