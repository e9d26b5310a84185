//! Keyed mutexes.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LARGE_INTEGER};

use super::keyed_mutex_calls::{
    AT_ONCE, acquire, create, data_of, destroy, for_kernel_handles, open, pointer, release,
};
use super::shared_objects;
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, Kmt, WRONG_KIND};
use crate::rig::{Rig, shared_flags};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "KeyedMutex";
    "KeyedMutex.KeyOpensItOnce" on Boot::Shared, "d3dkmtacquirekeyedmutex":
        "A keyed mutex is taken with its initial value, by one opening at a time, and next with the key that it was released with; the fence value comes along."
        => key;
    "KeyedMutex.WaitIsWokenByTheRelease" on Boot::Shared, "d3dkmt_acquirekeyedmutex":
        "An acquisition without a time waits until somebody releases the mutex with its key; one with an interval ends with STATUS_TIMEOUT."
        => waits;
    "KeyedMutex.DataOfTheRuntimeGoAlong" on Boot::Shared, "d3dkmt_acquirekeyedmutex2":
        "Data of the runtime that were given at creation and at a release reach the next owner of the mutex; a place that is too small is refused and takes nothing."
        => data;
    "KeyedMutex.OpeningGivesInitialData" on Boot::Shared, "d3dkmt_openkeyedmutex2":
        "Data of the runtime at an opening become those of a mutex that has none, and of no other; nothing is written where they lie, and a refused opening leaves none."
        => initial_data;
    "KeyedMutex.OwnerThatGoesAbandonsIt" on Boot::Shared, "d3dkmtdestroykeyedmutex":
        "When the owner closes a mutex without releasing it, others are told that it is abandoned, and nobody owns it. The status is this system's rule, after IDXGIKeyedMutex."
        => abandoned;
    "KeyedMutex.BadHandlesAreRefused" on Boot::Shared, "d3dkmtopenkeyedmutex":
        "Handles of nothing and of other objects are refused by every thunk, and a release by a handle that does not own it."
        => refusals;
    "KeyedMutex.KernelHandlesOpenIt" on Boot::Shared, "d3dkmtopenkeyedmutexfromnthandle":
        "A mutex that was created for kernel handles has no other, and is opened by the one of the resource and the fence that it is shared with; data of the runtime are given as at any opening."
        => kernel_handles;
}

fn opened(kmt: Kmt, shared: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, Failure> {
    open(kmt, shared).map_err(|status| Failure::new(format!("D3DKMTOpenKeyedMutex: {status}")))
}

fn key(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let made = create(kmt, 40)?;
    let (one, other) = (made.hKeyedMutex, opened(kmt, made.hSharedHandle)?);
    ensure_eq!(acquire(kmt, one, 41, Some(AT_ONCE)).0, STATUS_TIMEOUT, "another key");
    ensure_eq!(acquire(kmt, one, 40, Some(AT_ONCE)), (STATUS_SUCCESS, 0), "the initial value");
    ensure_eq!(acquire(kmt, other, 40, Some(AT_ONCE)).0, STATUS_TIMEOUT, "a mutex that somebody owns");
    granted(release(kmt, one, 7, 123), "the release")?;
    ensure_eq!(acquire(kmt, other, 40, Some(AT_ONCE)).0, STATUS_TIMEOUT, "the key of before");
    ensure_eq!(acquire(kmt, other, 7, Some(AT_ONCE)), (STATUS_SUCCESS, 123), "the key of the release");
    granted(release(kmt, other, 7, 124), "the second release")?;
    granted(destroy(kmt, one), "the first destruction")?;
    granted(destroy(kmt, other), "the second destruction")?;
    match open(kmt, made.hSharedHandle) {
        Ok(_) => Err(Failure::new("a mutex that everybody has closed was opened")),
        Err(status) => refused(status, BAD_HANDLE, "opening what is gone"),
    }
}

fn waits(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let made = create(kmt, 1)?;
    let (one, other) = (made.hKeyedMutex, opened(kmt, made.hSharedHandle)?);
    ensure_eq!(acquire(kmt, one, 1, None).0, STATUS_SUCCESS, "the first acquisition");
    let soon = LARGE_INTEGER { QuadPart: -10_000 };
    ensure_eq!(acquire(kmt, other, 2, Some(soon)).0, STATUS_TIMEOUT, "an interval");
    let past = LARGE_INTEGER { QuadPart: 1 };
    ensure_eq!(acquire(kmt, other, 2, Some(past)).0, STATUS_TIMEOUT, "a time that is over");
    let taken = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _entered = case.enter();
            acquire(kmt, other, 2, None)
        });
        granted(release(kmt, one, 2, 9), "the release")?;
        waiting.join().map_err(|_| Failure::new("the thread that waits ended"))
    })?;
    ensure_eq!(taken, (STATUS_SUCCESS, 9), "what the thread that waited got");
    granted(destroy(kmt, one), "destroying one")?;
    granted(destroy(kmt, other), "destroying the other")
}

fn data(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let mut created = *b"created";
    let mut make = D3DKMT_CREATEKEYEDMUTEX2::zeroed();
    (make.pPrivateRuntimeData, make.PrivateRuntimeDataSize) = pointer(&mut created);
    granted(kmt.call(kmt.further().D3DKMTCreateKeyedMutex2, &mut make), "D3DKMTCreateKeyedMutex2")?;
    let mut seen = [0; 7];
    let mut open = D3DKMT_OPENKEYEDMUTEX2::zeroed();
    open.hSharedHandle = make.hSharedHandle;
    granted(kmt.call(kmt.further().D3DKMTOpenKeyedMutex2, &mut open), "D3DKMTOpenKeyedMutex2")?;
    let mut short = [0; 3];
    let mut take = D3DKMT_ACQUIREKEYEDMUTEX2::zeroed();
    let mut now = AT_ONCE;
    (take.hKeyedMutex, take.pTimeout) = (open.hKeyedMutex, &raw mut now);
    (take.pPrivateRuntimeData, take.PrivateRuntimeDataSize) = pointer(&mut short);
    let thunk = kmt.further().D3DKMTAcquireKeyedMutex2;
    refused(
        kmt.call(thunk, &mut take),
        &[STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER],
        "a place that is too small",
    )?;
    (take.pPrivateRuntimeData, take.PrivateRuntimeDataSize) = pointer(&mut seen);
    granted(kmt.call(thunk, &mut take), "D3DKMTAcquireKeyedMutex2, which nobody owned after the refusal")?;
    ensure_eq!(seen, created, "data of the creation");
    let mut given = *b"given";
    let mut back = D3DKMT_RELEASEKEYEDMUTEX2::zeroed();
    back.hKeyedMutex = open.hKeyedMutex;
    (back.pPrivateRuntimeData, back.PrivateRuntimeDataSize) = pointer(&mut given);
    granted(kmt.call(kmt.further().D3DKMTReleaseKeyedMutex2, &mut back), "D3DKMTReleaseKeyedMutex2")?;
    (take.hKeyedMutex, take.pPrivateRuntimeData) = (make.hKeyedMutex, seen.as_mut_ptr().cast());
    granted(kmt.call(thunk, &mut take), "the next acquisition")?;
    ensure_eq!(&seen[..5], b"given", "data of the release");
    granted(destroy(kmt, make.hKeyedMutex), "destroying one")?;
    granted(destroy(kmt, open.hKeyedMutex), "destroying the other")
}

/// Opens a mutex with data for one that has none.
fn open_with(kmt: Kmt, shared: D3DKMT_HANDLE, data: &[u8]) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut open = D3DKMT_OPENKEYEDMUTEX2::zeroed();
    open.hSharedHandle = shared;
    (open.pPrivateRuntimeData, open.PrivateRuntimeDataSize) = (data.as_ptr().cast_mut().cast(), data.len() as u32);
    kmt.call(kmt.further().D3DKMTOpenKeyedMutex2, &mut open).ok()?;
    Ok(open.hKeyedMutex)
}

fn initial_data(case: &Case) -> Result<(), Failure> {
    // Memory that cannot be written.
    static GIVEN: [u8; 4] = *b"1st.";
    static LATER: [u8; 4] = *b"2nd.";
    let kmt = case.kmt();
    let made = create(kmt, 8)?;
    let text = |what: &'static str| move |status| Failure::new(format!("{what}: {status}"));
    match open_with(kmt, made.hSharedHandle + 64, &GIVEN) {
        Ok(_) => return Err(Failure::new("the handle of nothing was opened")),
        Err(status) => refused(status, BAD_HANDLE, "the handle of nothing")?,
    }
    ensure_eq!(data_of(kmt, made.hKeyedMutex, 8)?, [0; 8], "data of a mutex that was given none");
    let first = open_with(kmt, made.hSharedHandle, &GIVEN).map_err(text("an opening with data"))?;
    ensure_eq!(&data_of(kmt, first, 8)?, b"1st.\0\0\0\0", "data of the first opening");
    let second = open_with(kmt, made.hSharedHandle, &LATER).map_err(text("a second opening with data"))?;
    ensure_eq!(&data_of(kmt, second, 8)?, b"1st.\0\0\0\0", "data after a second opening");
    for mutex in [made.hKeyedMutex, first, second] {
        granted(destroy(kmt, mutex), "the destruction")?;
    }
    Ok(())
}

fn abandoned(case: &Case) -> Result<(), Failure> {
    let kmt = case.kmt();
    let made = create(kmt, 0)?;
    let (one, other) = (made.hKeyedMutex, opened(kmt, made.hSharedHandle)?);
    ensure_eq!(acquire(kmt, one, 0, Some(AT_ONCE)).0, STATUS_SUCCESS, "the acquisition");
    granted(destroy(kmt, one), "closing it as the owner")?;
    ensure_eq!(acquire(kmt, other, 0, None).0, STATUS_ABANDONED, "a wait for what is abandoned");
    refused(release(kmt, other, 0, 0), BAD_ARGUMENT, "a release by a handle that was told so")?;
    granted(destroy(kmt, other), "closing the other")
}

fn refusals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let kmt = rig.kmt;
    for handle in [0, 0xdead_beef, rig.device, rig.adapter] {
        refused(acquire(kmt, handle, 0, Some(AT_ONCE)).0, WRONG_KIND, "D3DKMTAcquireKeyedMutex")?;
        refused(release(kmt, handle, 0, 0), WRONG_KIND, "D3DKMTReleaseKeyedMutex")?;
        refused(destroy(kmt, handle), WRONG_KIND, "D3DKMTDestroyKeyedMutex")?;
        match open(kmt, handle) {
            Ok(_) => return Err(Failure::new("D3DKMTOpenKeyedMutex opened something else")),
            Err(status) => refused(status, WRONG_KIND, "D3DKMTOpenKeyedMutex")?,
        }
    }
    let made = create(kmt, 0)?;
    refused(release(kmt, made.hKeyedMutex, 0, 0), BAD_ARGUMENT, "a release by a handle that does not own it")?;
    granted(destroy(kmt, made.hKeyedMutex), "the destruction")?;
    refused(destroy(kmt, made.hKeyedMutex), BAD_HANDLE, "a second destruction")
}

fn kernel_handles(case: &Case) -> Result<(), Failure> {
    let rig: Rig = case.rig()?;
    let kmt = rig.kmt;
    let make = for_kernel_handles(kmt, 3)?;
    ensure_eq!(make.hSharedHandle, 0, "a handle that every process knows");
    let (resource, fence) = (shared_objects::create(&rig)?, rig.monitored_fence(0, shared_flags())?);
    let handle = rig.share(&[resource.resource, make.hKeyedMutex, fence.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let mut open = D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE::zeroed();
    open.hNtHandle = handle.raw();
    let given = b"nt";
    (open.pPrivateRuntimeData, open.PrivateRuntimeDataSize) = (given.as_ptr().cast_mut().cast(), 2);
    let thunk = kmt.further().D3DKMTOpenKeyedMutexFromNtHandle;
    granted(kmt.call(thunk, &mut open), "D3DKMTOpenKeyedMutexFromNtHandle")?;
    ensure_eq!(&data_of(kmt, make.hKeyedMutex, 3)?[..3], b"nt\0", "data of the opening");
    ensure_eq!(acquire(kmt, open.hKeyedMutex, 3, Some(AT_ONCE)).0, STATUS_SUCCESS, "the acquisition");
    ensure_eq!(acquire(kmt, make.hKeyedMutex, 3, Some(AT_ONCE)).0, STATUS_TIMEOUT, "it is the same mutex");
    let alone = rig.share(&[resource.resource]);
    let alone = alone.map_err(|status| Failure::new(format!("D3DKMTShareObjects of the resource: {status}")))?;
    open.hNtHandle = alone.raw();
    refused(kmt.call(thunk, &mut open), WRONG_KIND, "the handle of a resource alone")?;
    granted(alone.close(), "closing it")?;
    granted(handle.close(), "closing the kernel handle")?;
    open.hNtHandle = handle.raw();
    refused(kmt.call(thunk, &mut open), BAD_HANDLE, "opening by a closed handle")?;
    let private = create(kmt, 0)?;
    match rig.share(&[resource.resource, private.hKeyedMutex, fence.handle]) {
        Ok(_) => Err(Failure::new("a mutex that was not created for that has a kernel handle")),
        Err(status) => refused(status, BAD_ARGUMENT, "sharing it"),
    }
}
