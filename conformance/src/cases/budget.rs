//! Budgets of video memory, requests that are pending or find no memory, and trim notifications.

use std::sync::{Mutex, PoisonError};

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID};

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{Rig, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Residency";
    "VideoMemory.BadQuestionsAreRefused" on Boot::Shared, "d3dkmtqueryvideomemoryinfo":
        "Questions and reservations for unknown groups, adapters, physical adapters and processes are refused by name."
        => bad_questions;
    "Residency.BadTrimRegistrationsAreRefused" on Boot::Shared, "d3dkmtregistertrimnotification":
        "Registrations without a function, for another adapter or for no device, and ends of what is not registered so, are refused."
        => bad_registrations;
}

pub const LOCAL: D3DKMT_MEMORY_SEGMENT_GROUP = D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL;

pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes an allocation off the list; how much is to be trimmed still.
pub fn evict(rig: &Rig, allocation: D3DKMT_HANDLE) -> Result<u64, Failure> {
    let mut handle = allocation;
    let mut arguments = D3DKMT_EVICT::zeroed();
    (arguments.hDevice, arguments.NumAllocations, arguments.AllocationList) = (rig.device, 1, &mut handle);
    granted(rig.kmt.call(rig.kmt.table().D3DKMTEvict, &mut arguments), "D3DKMTEvict")?;
    Ok(arguments.NumBytesToTrim)
}

fn bad_questions(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let nobody: HANDLE = std::ptr::without_provenance_mut(0x1234);
    let group = D3DKMT_MEMORY_SEGMENT_GROUP;
    for (what, process, adapter, group, physical, allowed) in [
        ("group 2", std::ptr::null_mut(), rig.adapter, group(2), 0, BAD_ARGUMENT),
        ("group -1", std::ptr::null_mut(), rig.adapter, group(-1), 0, BAD_ARGUMENT),
        ("a physical adapter that is not there", std::ptr::null_mut(), rig.adapter, LOCAL, 64, BAD_ARGUMENT),
        ("no adapter", std::ptr::null_mut(), 0, LOCAL, 0, BAD_HANDLE),
        ("a device", std::ptr::null_mut(), rig.device, LOCAL, 0, WRONG_KIND),
        ("a process that is not there", nobody, rig.adapter, LOCAL, 0, BAD_HANDLE),
    ] {
        let mut info = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
        (info.hProcess, info.hAdapter, info.MemorySegmentGroup) = (process, adapter, group);
        info.PhysicalAdapterIndex = physical;
        refused(rig.kmt.call(rig.kmt.table().D3DKMTQueryVideoMemoryInfo, &mut info), allowed, what)?;
        ensure_eq!((info.Budget, info.CurrentUsage), (0, 0), "an answer in a question that was refused");
        let mut change = D3DKMT_CHANGEVIDEOMEMORYRESERVATION::zeroed();
        (change.hProcess, change.hAdapter, change.MemorySegmentGroup) = (process, adapter, group);
        change.PhysicalAdapterIndex = physical;
        refused(rig.kmt.call(rig.kmt.table().D3DKMTChangeVideoMemoryReservation, &mut change), allowed, what)?;
    }
    let table = rig.kmt.table();
    ensure!(!rig.kmt.call_null(table.D3DKMTQueryVideoMemoryInfo).is_success(), "a question at address 0");
    ensure!(!rig.kmt.call_null(table.D3DKMTChangeVideoMemoryReservation).is_success(), "a reservation at address 0");
    Ok(())
}

/// The handle of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub usize);

pub fn registration(rig: &Rig, luid: LUID) -> D3DKMT_REGISTERTRIMNOTIFICATION {
    let mut arguments = D3DKMT_REGISTERTRIMNOTIFICATION::zeroed();
    (arguments.AdapterLuid, arguments.hDevice) = (luid, rig.device);
    arguments.Callback = Some(trim);
    arguments
}

pub fn unregister(rig: &Rig, handle: Handle, callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK) -> NTSTATUS {
    let handle = std::ptr::without_provenance_mut(handle.0);
    let mut arguments = D3DKMT_UNREGISTERTRIMNOTIFICATION { Handle: handle, Callback: callback };
    rig.kmt.call(rig.kmt.table().D3DKMTUnregisterTrimNotification, &mut arguments)
}

/// Evicts what it is asked to, of the [`Trimmer`] that is its context.
///
/// # Safety
/// The context is a [`Trimmer`] that lives as long as its registration.
pub unsafe extern "win64" fn trim(notification: *mut D3DKMT_TRIMNOTIFICATION) {
    // SAFETY: the memory manager passes a structure that lives during the call.
    let notification = unsafe { notification.read() };
    // SAFETY: the case that registered the trimmer keeps it until the registration has ended.
    let trimmer = unsafe { &*notification.Context.cast::<Trimmer<'_>>() };
    if let Err(failure) = trimmer.act(notification.NumBytesToTrim) {
        lock(&trimmer.failures).push(failure);
    }
    lock(&trimmer.told).push((notification.Flags, notification.NumBytesToTrim));
}

/// Another function.
///
/// # Safety
/// None is needed.
pub unsafe extern "win64" fn do_nothing(_: *mut D3DKMT_TRIMNOTIFICATION) {
    std::hint::black_box(());
}

/// What a registration was told, and what its function does about it.
pub struct Trimmer<'r> {
    pub rig: &'r Rig,
    /// Resident allocations that may go.
    pub list: Mutex<Vec<D3DKMT_HANDLE>>,
    pub told: Mutex<Vec<(D3DDDI_TRIMRESIDENCYSET_FLAGS, u64)>>,
    pub failures: Mutex<Vec<Failure>>,
    /// Of the registration that the function ends itself.
    pub own: Mutex<Option<Handle>>,
}

impl<'r> Trimmer<'r> {
    pub fn new(rig: &'r Rig, list: Vec<D3DKMT_HANDLE>) -> Self {
        let (told, failures) = (Mutex::default(), Mutex::default());
        Self { rig, list: Mutex::new(list), told, failures, own: Mutex::default() }
    }

    /// Registers [`trim`] with this as its context; the handle.
    pub fn register(&self, luid: LUID) -> Result<Handle, Failure> {
        let mut arguments = registration(self.rig, luid);
        arguments.Context = std::ptr::from_ref(self).cast_mut().cast();
        let table = self.rig.kmt.table();
        granted(self.rig.kmt.call(table.D3DKMTRegisterTrimNotification, &mut arguments), "registering")?;
        Ok(Handle(arguments.Handle.addr()))
    }

    pub fn wait_told(&self, count: usize) -> Result<Vec<(D3DDDI_TRIMRESIDENCYSET_FLAGS, u64)>, Failure> {
        wait_until("the notification", || lock(&self.told).len() >= count)?;
        Ok(lock(&self.told).clone())
    }

    pub fn act(&self, bytes: u64) -> Result<(), Failure> {
        let mut left = bytes;
        while left > 0 {
            let Some(handle) = lock(&self.list).pop() else { break };
            left = evict(self.rig, handle)?;
        }
        let own = lock(&self.own).take();
        own.map_or(Ok(()), |own| granted(unregister(self.rig, own, Some(trim)), "ending it from within"))
    }
}

fn bad_registrations(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let luid = case.luid();
    let table = rig.kmt.table();
    let elsewhere = LUID { LowPart: luid.LowPart.wrapping_add(77), ..luid };
    let good = registration(&rig, luid);
    for (what, mut arguments, allowed) in [
        ("no function", D3DKMT_REGISTERTRIMNOTIFICATION { Callback: None, ..good }, BAD_ARGUMENT),
        ("another adapter", D3DKMT_REGISTERTRIMNOTIFICATION { AdapterLuid: elsewhere, ..good }, BAD_ARGUMENT),
        ("no device", D3DKMT_REGISTERTRIMNOTIFICATION { hDevice: 0, ..good }, BAD_HANDLE),
        ("a paging queue", D3DKMT_REGISTERTRIMNOTIFICATION { hDevice: rig.paging_queue, ..good }, WRONG_KIND),
    ] {
        refused(rig.kmt.call(table.D3DKMTRegisterTrimNotification, &mut arguments), allowed, what)?;
        ensure!(arguments.Handle.is_null(), "{what} has a handle");
    }
    let trimmer = Trimmer::new(&rig, Vec::new());
    let handle = trimmer.register(luid)?;
    for (what, handle, callback) in [
        ("another function", handle, Some(do_nothing as unsafe extern "win64" fn(_))),
        ("no function", handle, None),
        ("no registration", Handle(0), Some(trim as unsafe extern "win64" fn(_))),
        ("a device", Handle(rig.device as usize), Some(trim as unsafe extern "win64" fn(_))),
        ("a handle that is none", Handle(usize::MAX), Some(trim as unsafe extern "win64" fn(_))),
    ] {
        refused(unregister(&rig, handle, callback), BAD_ARGUMENT, what)?;
    }
    ensure!(!rig.kmt.call_null(table.D3DKMTRegisterTrimNotification).is_success(), "a registration at address 0");
    ensure!(!rig.kmt.call_null(table.D3DKMTUnregisterTrimNotification).is_success(), "an end at address 0");
    granted(unregister(&rig, handle, Some(trim)), "unregistering")
}
