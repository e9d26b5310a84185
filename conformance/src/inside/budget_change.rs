//! Notifications that a budget of video memory has changed.

use std::sync::Mutex;

use crate::cases::budget::{LOCAL, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::budget::{SIZE, create, make_resident, query, reserve, small_vram};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, Kmt, WRONG_KIND};
use crate::rig::{Rig, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};

cases! { inside "Residency";
    "VideoMemory.ChangedBudgetIsTold" on Boot::With(small_vram), "d3dkmtregisterbudgetchangenotification":
        "A process is told its new budget when another makes memory resident, reserves some, gives it back or ends, with the context of the registration; what it does itself tells it nothing."
        => told;
    "VideoMemory.BudgetRegistrationsEnd" on Boot::With(small_vram), "d3dkmtunregisterbudgetchangenotification":
        "A function is not called any more once it was unregistered, or its device or process is gone; it may unregister itself."
        => registrations_end;
    "VideoMemory.BadBudgetRegistrationsAreRefused" on Boot::Shared, "d3dkmtregisterbudgetchangenotification":
        "Registrations without a function or for no device, and ends of what is no such registration, are refused."
        => bad_registrations;
}

const NONE: D3DDDI_MAKERESIDENT_FLAGS = D3DDDI_MAKERESIDENT_FLAGS::new();

/// Notifications that a registration received.
#[derive(Default)]
struct Listener {
    budgets: Mutex<Vec<u64>>,
    /// Of the registration that the function ends itself, and what came of that.
    own: Mutex<Option<usize>>,
    ended: Mutex<Option<NTSTATUS>>,
}

/// Notes what the [`Listener`] that is its context is told.
unsafe extern "win64" fn note(notification: *mut D3DKMT_BUDGETCHANGENOTIFICATION) {
    // SAFETY: the memory manager passes a structure that lives during the call.
    let notification = unsafe { notification.read() };
    // SAFETY: the case that registered the listener keeps it until the registration has ended.
    let listener = unsafe { &*notification.Context.cast::<Listener>() };
    let own = lock(&listener.own).take();
    if let Some(own) = own {
        *lock(&listener.ended) = Some(unregister(own));
    }
    lock(&listener.budgets).push(notification.Budget);
}

/// Another function.
unsafe extern "win64" fn do_nothing(_: *mut D3DKMT_BUDGETCHANGENOTIFICATION) {
    std::hint::black_box(());
}

fn registration(rig: &Rig, listener: &Listener) -> D3DKMT_REGISTERBUDGETCHANGENOTIFICATION {
    let mut arguments = D3DKMT_REGISTERBUDGETCHANGENOTIFICATION::zeroed();
    arguments.hDevice = rig.device;
    arguments.Callback = Some(note);
    arguments.Context = std::ptr::from_ref(listener).cast_mut().cast();
    arguments
}

fn call_register(rig: &Rig, arguments: &mut D3DKMT_REGISTERBUDGETCHANGENOTIFICATION) -> NTSTATUS {
    rig.kmt.call(rig.kmt.further().D3DKMTRegisterBudgetChangeNotification, arguments)
}

fn register(rig: &Rig, listener: &Listener) -> Result<usize, Failure> {
    let mut arguments = registration(rig, listener);
    granted(call_register(rig, &mut arguments), "registering")?;
    Ok(arguments.Handle.addr())
}

fn unregister(handle: usize) -> NTSTATUS {
    let kmt = Kmt::new();
    let mut arguments = D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION { Handle: std::ptr::without_provenance_mut(handle) };
    kmt.call(kmt.further().D3DKMTUnregisterBudgetChangeNotification, &mut arguments)
}

impl Listener {
    fn wait_told(&self, budget: u64) -> Result<(), Failure> {
        wait_until("the notification", || lock(&self.budgets).last() == Some(&budget))
    }
}

fn told(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (one, two) = (Listener::default(), Listener::default());
    let handles = [register(&rig, &one)?, register(&rig, &two)?];
    ensure!(handles[0] != handles[1], "two registrations have one handle");
    let alone = query(&rig, LOCAL)?.Budget;
    granted(make_resident(&rig, &create(&rig, 2)?, NONE)?.0, "D3DKMTMakeResident")?;
    granted(reserve(&rig, LOCAL, SIZE), "reserving")?;
    let process = dxgkrnl::Process::new(case.system.machine(), "other");
    let luid = case.system.luid();
    let (other, list) = on_thread(&process, || {
        let other = Rig::open(luid)?;
        let list = create(&other, 4)?;
        granted(make_resident(&other, &list, NONE)?.0, "D3DKMTMakeResident")?;
        Ok((other, list))
    })?;
    let beside = query(&rig, LOCAL)?.Budget;
    ensure!(beside + 4 * SIZE <= alone, "the budget is {beside} of {alone} beside a process with {}", 4 * SIZE);
    for listener in [&one, &two] {
        listener.wait_told(beside)?;
        ensure!(lock(&listener.budgets).iter().all(|budget| *budget < alone), "told of what it did itself");
    }
    on_thread(&process, || granted(other.destroy_allocation(list[0]), "destroying one"))?;
    let less = query(&rig, LOCAL)?.Budget;
    ensure_eq!(less, beside + SIZE, "budget when the other has given something back");
    one.wait_told(less)?;
    on_thread(&process, || granted(reserve(&other, LOCAL, SIZE), "reserving"))?;
    // What the other keeps resident counts already, so that only its share has changed.
    ensure_eq!(query(&rig, LOCAL)?.Budget, less, "budget beside a reservation within the usage");
    process.exit();
    one.wait_told(alone)?;
    two.wait_told(alone)?;
    ensure_eq!(query(&rig, LOCAL)?.Budget, alone, "budget when the other is gone");
    handles.into_iter().try_for_each(|handle| granted(unregister(handle), "unregistering"))
}

fn registrations_end(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, doomed) = (case.rig()?, case.rig()?);
    let listeners: [Listener; 4] = Default::default();
    let [ends, own, of_device, stays] = &listeners;
    let rigs = [&rig, &rig, &doomed, &rig];
    let handles = rigs.iter().zip(&listeners).map(|(rig, listener)| register(rig, listener));
    let handles = handles.collect::<Result<Vec<usize>, Failure>>()?;
    *lock(&own.own) = Some(handles[1]);
    granted(unregister(handles[0]), "unregistering")?;
    granted(doomed.destroy(), "destroying a device that has a registration")?;
    let alone = query(&rig, LOCAL)?.Budget;
    for round in 0..2 {
        case.in_other_process(|system| {
            let theirs = Rig::open(system.luid())?;
            refused(unregister(handles[3]), BAD_ARGUMENT, "another process ending it")?;
            // Left to the exit of the process; the function is none of the listeners'.
            let mut arguments = registration(&theirs, ends);
            arguments.Callback = Some(do_nothing);
            granted(call_register(&theirs, &mut arguments), "registering")?;
            granted(make_resident(&theirs, &create(&theirs, 3)?, NONE)?.0, "D3DKMTMakeResident")?;
            wait_until("the notification", || lock(&stays.budgets).last().is_some_and(|budget| *budget < alone))?;
            if round == 0 {
                wait_until("the one that ends itself", || lock(&own.ended).is_some())?;
            }
            Ok(())
        })?;
        stays.wait_told(alone)?;
    }
    let told = [ends, own, of_device].map(|listener| lock(&listener.budgets).len());
    ensure_eq!(told, [0, 1, 0], "notifications of registrations that ended, ended themselves, and lost their device");
    ensure_eq!(*lock(&own.ended), Some(STATUS_SUCCESS), "ending a registration from within");
    for handle in &handles[..3] {
        refused(unregister(*handle), BAD_ARGUMENT, "ending it again")?;
    }
    granted(unregister(handles[3]), "unregistering")
}

fn bad_registrations(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let listener = Listener::default();
    let good = registration(&rig, &listener);
    for (what, mut arguments, allowed) in [
        ("no function", D3DKMT_REGISTERBUDGETCHANGENOTIFICATION { Callback: None, ..good }, BAD_ARGUMENT),
        ("no device", D3DKMT_REGISTERBUDGETCHANGENOTIFICATION { hDevice: 0, ..good }, BAD_HANDLE),
        ("a paging queue", D3DKMT_REGISTERBUDGETCHANGENOTIFICATION { hDevice: rig.paging_queue, ..good }, WRONG_KIND),
    ] {
        refused(call_register(&rig, &mut arguments), allowed, what)?;
        ensure!(arguments.Handle.is_null(), "{what} has a handle");
    }
    let handle = register(&rig, &listener)?;
    for (what, handle) in
        [("no registration", 0), ("a device", rig.device as usize), ("a handle that is none", usize::MAX)]
    {
        refused(unregister(handle), BAD_ARGUMENT, what)?;
    }
    let further = rig.kmt.further();
    for status in [
        rig.kmt.call_null(further.D3DKMTRegisterBudgetChangeNotification),
        rig.kmt.call_null(further.D3DKMTUnregisterBudgetChangeNotification),
    ] {
        ensure!(!status.is_success(), "arguments at address 0");
    }
    granted(unregister(handle), "unregistering")
}
