//! Thunks of keyed mutexes. They know no adapter: they are objects of the processor, and the value of the fence is what the owners tell each other.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LARGE_INTEGER, NTSTATUS};

use super::call::{enter, enter_read_only};
use super::{allocation_handles, user};
use crate::keyed_mutex::{Kept, KeyedMutex};
use crate::machine::KernelObject;
use crate::process::{Object, Process};
use crate::refusal::{Failure, refused};

/// Most data of the runtime, in bytes.
const DATA_MAX: u32 = 1 << 16;
/// Seconds from 1601 to 1970.
const EPOCHS: u64 = 11_644_473_600;

/// Data of the runtime, which are kept with the mutex.
pub(super) fn read_data(at: *mut c_void, size: u32) -> Result<Vec<u8>, Failure> {
    if size > DATA_MAX {
        let why = format!("PrivateRuntimeDataSize is {size:#x} bytes, and at most {DATA_MAX:#x} are kept");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    user::read_array(at.cast_const().cast(), size)
}

/// Data go to a place that is large enough for them, or to none.
fn write_data(data: &[u8], at: *mut c_void, size: u32) -> Result<(), Failure> {
    if size == 0 {
        return Ok(());
    }
    if data.len() > size as usize {
        let why = format!("PrivateRuntimeDataSize is {size:#x} bytes, and {:#x} are needed", data.len());
        return Err(refused(STATUS_BUFFER_TOO_SMALL, why));
    }
    user::write_array(at.cast(), data)
}

/// When a time of the system, or an interval, in units of 100 ns, is over; `None` for never. [d3dkmthk: D3DKMT_ACQUIREKEYEDMUTEX::pTimeout]
fn deadline(timeout: *mut LARGE_INTEGER) -> Result<Option<Instant>, Failure> {
    if timeout.is_null() {
        return Ok(None);
    }
    let ticks = user::read(timeout.cast_const())?.QuadPart;
    let of_ticks = |ticks: u64| {
        Duration::from_nanos(1) * 100 * u32::try_from(ticks % 10_000_000).unwrap_or(0)
            + Duration::from_secs(ticks / 10_000_000)
    };
    let left = if ticks <= 0 {
        of_ticks(ticks.unsigned_abs())
    } else {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        of_ticks(ticks.unsigned_abs()).saturating_sub(now + Duration::from_secs(EPOCHS))
    };
    // A time that the clock does not reach is never.
    Ok(Instant::now().checked_add(left))
}

pub(super) fn insert(process: &Process, mutex: &Arc<KeyedMutex>) -> Result<D3DKMT_HANDLE, Failure> {
    process.insert(Object::KeyedMutex(mutex.open(&process.quotas().shared)?))
}

/// As [`insert`], with data for a mutex that has none.
fn insert_with(process: &Process, mutex: &Arc<KeyedMutex>, data: Vec<u8>) -> Result<D3DKMT_HANDLE, Failure> {
    let handle = insert(process, mutex)?;
    mutex.begin_with(data);
    Ok(handle)
}

/// Creates a keyed mutex that nobody owns; its first key is the initial value. [d3dkmthk: D3DKMTCreateKeyedMutex]
pub(super) unsafe extern "win64" fn create_keyed_mutex(args: *mut D3DKMT_CREATEKEYEDMUTEX) -> NTSTATUS {
    enter("D3DKMTCreateKeyedMutex", args, |process, args| {
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let mutex = machine.new_keyed_mutex(args.InitialValue, Vec::new(), false)?;
        args.hKeyedMutex = insert(process, &mutex)?;
        args.hSharedHandle = mutex.shared();
        Ok(STATUS_SUCCESS)
    })
}

/// As [`create_keyed_mutex`], with data of the runtime; one for kernel handles has no handle that every process knows.
/// [d3dkmthk: D3DKMTCreateKeyedMutex2]
pub(super) unsafe extern "win64" fn create_keyed_mutex2(args: *mut D3DKMT_CREATEKEYEDMUTEX2) -> NTSTATUS {
    enter("D3DKMTCreateKeyedMutex2", args, |process, args| {
        if args.Flags.with_NtSecuritySharing(false).into_bits() != 0 {
            return Err(refused(STATUS_INVALID_PARAMETER, "Flags has more than NtSecuritySharing"));
        }
        let data = read_data(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize)?;
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let mutex = machine.new_keyed_mutex(args.InitialValue, data, args.Flags.NtSecuritySharing())?;
        args.hKeyedMutex = insert(process, &mutex)?;
        args.hSharedHandle = mutex.shared();
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTOpenKeyedMutex]
pub(super) unsafe extern "win64" fn open_keyed_mutex(args: *mut D3DKMT_OPENKEYEDMUTEX) -> NTSTATUS {
    enter("D3DKMTOpenKeyedMutex", args, |process, args| {
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        args.hKeyedMutex = insert(process, &machine.keyed_mutex(args.hSharedHandle)?)?;
        Ok(STATUS_SUCCESS)
    })
}

/// As [`open_keyed_mutex`], with data of the runtime for a mutex that has none. [d3dkmthk: D3DKMTOpenKeyedMutex2]
pub(super) unsafe extern "win64" fn open_keyed_mutex2(args: *mut D3DKMT_OPENKEYEDMUTEX2) -> NTSTATUS {
    enter("D3DKMTOpenKeyedMutex2", args, |process, args| {
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let mutex = machine.keyed_mutex(args.hSharedHandle)?;
        let data = read_data(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize)?;
        args.hKeyedMutex = insert_with(process, &mutex, data)?;
        Ok(STATUS_SUCCESS)
    })
}

fn of_no_mutex() -> Failure {
    refused(STATUS_OBJECT_TYPE_MISMATCH, "hNtHandle is of no resource that was shared with a keyed mutex")
}

/// As [`open_keyed_mutex2`], by the kernel handle of a resource that the mutex was shared with: alone it has none. Errors: STATUS_OBJECT_TYPE_MISMATCH for
/// the handle of something else, and of a resource without a mutex; STATUS_ACCESS_DENIED for one that may not be read.
/// [d3dkmthk: D3DKMTOpenKeyedMutexFromNtHandle]
pub(super) unsafe extern "win64" fn open_keyed_mutex_from_nt_handle(
    args: *mut D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE,
) -> NTSTATUS {
    enter("D3DKMTOpenKeyedMutexFromNtHandle", args, |process, args| {
        let KernelObject::SharedResource(shared, access) = process.get_kernel(args.hNtHandle)? else {
            return Err(of_no_mutex());
        };
        let together = shared.together.as_ref().ok_or_else(of_no_mutex)?;
        allocation_handles::may_write(access)?;
        let data = read_data(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize)?;
        args.hKeyedMutex = insert_with(process, &together.mutex, data)?;
        Ok(STATUS_SUCCESS)
    })
}

fn acquire(
    process: &Process,
    mutex: D3DKMT_HANDLE,
    key: u64,
    timeout: *mut LARGE_INTEGER,
) -> Result<(NTSTATUS, Kept), Failure> {
    let deadline = deadline(timeout)?;
    let gives_up = || match process.has_exited() {
        true => Some(STATUS_ACCESS_DENIED),
        false => process.machine().verifier().is_stopped().then_some(STATUS_DEVICE_REMOVED),
    };
    process.get_keyed_mutex(mutex)?.acquire(key, deadline, gives_up)
}

/// Waits until the mutex was released with the key, and owns it then. STATUS_TIMEOUT when the time is over first, at once for a time of 0;
/// STATUS_ABANDONED when an owner has gone without releasing it: then nobody owns it any more. [d3dkmthk: D3DKMTAcquireKeyedMutex]
pub(super) unsafe extern "win64" fn acquire_keyed_mutex(args: *mut D3DKMT_ACQUIREKEYEDMUTEX) -> NTSTATUS {
    enter("D3DKMTAcquireKeyedMutex", args, |process, args| {
        let (status, kept) = acquire(process, args.hKeyedMutex, args.Key, args.pTimeout)?;
        if status == STATUS_SUCCESS {
            args.FenceValue = kept.fence;
        }
        Ok(status)
    })
}

/// As [`acquire_keyed_mutex`]; data that do not fit at their place are STATUS_BUFFER_TOO_SMALL, and the mutex is released again.
/// [d3dkmthk: D3DKMTAcquireKeyedMutex2]
pub(super) unsafe extern "win64" fn acquire_keyed_mutex2(args: *mut D3DKMT_ACQUIREKEYEDMUTEX2) -> NTSTATUS {
    enter("D3DKMTAcquireKeyedMutex2", args, |process, args| {
        let (status, kept) = acquire(process, args.hKeyedMutex, args.Key, args.pTimeout)?;
        if status != STATUS_SUCCESS {
            return Ok(status);
        }
        let (at, size) = (args.pPrivateRuntimeData, args.PrivateRuntimeDataSize);
        if let Err(status) = write_data(&kept.data, at, size) {
            process.get_keyed_mutex(args.hKeyedMutex)?.release(args.Key, kept.fence, None)?;
            return Err(status);
        }
        args.FenceValue = kept.fence;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTReleaseKeyedMutex]
pub(super) unsafe extern "win64" fn release_keyed_mutex(args: *mut D3DKMT_RELEASEKEYEDMUTEX) -> NTSTATUS {
    enter_read_only("D3DKMTReleaseKeyedMutex", args, |process, args| {
        process.get_keyed_mutex(args.hKeyedMutex)?.release(args.Key, args.FenceValue, None)?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTReleaseKeyedMutex2]
pub(super) unsafe extern "win64" fn release_keyed_mutex2(args: *mut D3DKMT_RELEASEKEYEDMUTEX2) -> NTSTATUS {
    enter_read_only("D3DKMTReleaseKeyedMutex2", args, |process, args| {
        let data = read_data(args.pPrivateRuntimeData, args.PrivateRuntimeDataSize)?;
        let data = (args.PrivateRuntimeDataSize != 0).then_some(data);
        process.get_keyed_mutex(args.hKeyedMutex)?.release(args.Key, args.FenceValue, data)?;
        Ok(STATUS_SUCCESS)
    })
}

/// [d3dkmthk: D3DKMTDestroyKeyedMutex]
pub(super) unsafe extern "win64" fn destroy_keyed_mutex(args: *mut D3DKMT_DESTROYKEYEDMUTEX) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyKeyedMutex", args, |process, args| {
        process.take_if(args.hKeyedMutex, |object| matches!(object, Object::KeyedMutex(_)))?.destroy();
        Ok(STATUS_SUCCESS)
    })
}
