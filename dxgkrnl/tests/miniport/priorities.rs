//! What a driver is told of priorities, and what becomes of a change that it refuses.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::minimal::{Bench, Mutant, SOUND};
use dxgkrnl::{
    D3DKMTGetProcessSchedulingPriorityClass, D3DKMTSetContextInProcessSchedulingPriority,
    D3DKMTSetContextSchedulingPriority, D3DKMTSetProcessSchedulingPriorityClass, thunks,
};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

/// What the driver was told: a context, its band, level and priority within the process.
type Told = (usize, i32, i32, i32);

struct Script {
    told: Vec<Told>,
    bands: u32,
    /// The one after so many is refused.
    refuses_after: Option<usize>,
}

static SCRIPT: Mutex<Script> = Mutex::new(Script { told: Vec::new(), bands: 0, refuses_after: None });
/// One machine at a time, since they share the script.
static TURN: Mutex<()> = Mutex::new(());

fn script() -> MutexGuard<'static, Script> {
    SCRIPT.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "win64" fn set_properties(
    _adapter: HANDLE,
    args: *const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { args.read() };
    let mut script = script();
    if let Some(left) = &mut script.refuses_after {
        if *left == 0 {
            script.refuses_after = None;
            return STATUS_NO_MEMORY;
        }
        *left -= 1;
    }
    let told = (args.hContext.addr(), args.priorityBand.0, args.realtimeBandPriorityLevel, args.inProcessPriority);
    script.told.push(told);
    STATUS_SUCCESS
}

unsafe extern "win64" fn setup_bands(_adapter: HANDLE, _args: *const DXGKARG_SETUPPRIORITYBANDS) -> NTSTATUS {
    script().bands += 1;
    STATUS_SUCCESS
}

fn table(table: &mut DRIVER_INITIALIZATION_DATA) {
    (SOUND.table)(table);
    table.DxgkDdiSetContextSchedulingProperties = Some(set_properties);
    table.DxgkDdiSetupPriorityBands = Some(setup_bands);
}

/// Calls a thunk and answers its arguments.
fn call<A>(thunk: unsafe extern "win64" fn(*mut A) -> NTSTATUS, mut args: A) -> Result<A, NTSTATUS> {
    // SAFETY: the structure lives across the call and its pointers are NULL or good.
    unsafe { thunk(&raw mut args) }.ok().map(|()| args)
}

fn context(device: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let args = D3DKMT_CREATEHWCONTEXT { hDevice: device, EngineAffinity: 1, ..Zeroed::zeroed() };
    call(thunks().D3DKMTCreateHwContext, args).map(|args| args.hHwContext)
}

fn set(context: D3DKMT_HANDLE, priority: i32) -> Result<(), NTSTATUS> {
    let args = D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: priority };
    call(D3DKMTSetContextSchedulingPriority, args).map(drop)
}

fn set_in_process(context: D3DKMT_HANDLE, priority: i32) -> Result<(), NTSTATUS> {
    let args = D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext: context, Priority: priority };
    call(D3DKMTSetContextInProcessSchedulingPriority, args).map(drop)
}

fn current() -> HANDLE {
    std::ptr::without_provenance_mut(usize::MAX)
}

fn set_class(class: i32) -> NTSTATUS {
    // SAFETY: takes any arguments.
    unsafe { D3DKMTSetProcessSchedulingPriorityClass(current(), D3DKMT_SCHEDULINGPRIORITYCLASS(class)) }
}

fn class() -> i32 {
    let mut class = D3DKMT_SCHEDULINGPRIORITYCLASS(-1);
    // SAFETY: takes any arguments.
    let status = unsafe { D3DKMTGetProcessSchedulingPriorityClass(current(), &raw mut class) };
    assert_eq!(status, STATUS_SUCCESS);
    class.0
}

/// Runs `test` in a process with a device, on a machine whose driver is told into the script.
fn with_device(test: impl FnOnce(D3DKMT_HANDLE)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    *script() = Script { told: Vec::new(), bands: 0, refuses_after: None };
    let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    let process = dxgkrnl::Process::new(&bench.machine, "test");
    process.grant_increase_priority();
    let attached = process.attach();
    let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
    let adapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter;
    let mut args = D3DKMT_CREATEDEVICE::zeroed();
    args.u.hAdapter = adapter;
    test(call(thunks().D3DKMTCreateDevice, args).unwrap().hDevice);
    drop(attached);
    process.exit();
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
}

/// Number of calls of DxgkDdiSetupPriorityBands.
fn bands() -> u32 {
    script().bands
}

/// Band, level and priority within the process that each context was told last, in the order of their first time.
fn last_told() -> Vec<(i32, i32, i32)> {
    let script = script();
    let mut contexts: Vec<usize> = Vec::new();
    for (context, ..) in &script.told {
        if !contexts.contains(context) {
            contexts.push(*context);
        }
    }
    let last = |context: &usize| script.told.iter().rfind(|told| told.0 == *context).copied();
    contexts.iter().filter_map(last).map(|(_, band, level, in_process)| (band, level, in_process)).collect()
}

#[test]
fn a_driver_hears_of_bands_once_and_of_each_context_before_its_first_queue() {
    with_device(|device| {
        let first = context(device).unwrap();
        assert_eq!((bands(), last_told()), (1, vec![(1, 0, 0)]));
        set(first, 31).unwrap();
        set_in_process(first, -7).unwrap();
        assert_eq!(set_class(0), STATUS_SUCCESS);
        let second = context(device).unwrap();
        assert_eq!((bands(), last_told()), (1, vec![(3, 31, -7), (0, 0, 0)]));
        set(second, 7).unwrap();
        assert_eq!(last_told()[1], (0, 0, 0), "of a class below everything");
        assert_eq!(set_class(5), STATUS_SUCCESS);
        assert_eq!(last_told(), [(3, 31, -7), (3, 7, 0)]);
    });
}

#[test]
fn a_priority_that_the_driver_refuses_is_not_kept() {
    with_device(|device| {
        let context = context(device).unwrap();
        set(context, 3).unwrap();
        script().refuses_after = Some(0);
        assert_eq!(set(context, -3), Err(STATUS_NO_MEMORY));
        set_in_process(context, 2).unwrap();
        assert_eq!(last_told(), [(2, 0, 2)]);
    });
}

#[test]
fn a_class_that_the_driver_refuses_is_taken_back_and_every_context_is_told() {
    with_device(|device| {
        let contexts: Vec<_> = (0..3).map(|_| context(device).unwrap()).collect();
        set(contexts[1], 2).unwrap();
        let before = last_told();
        for refused in 0..3 {
            script().refuses_after = Some(refused);
            assert_eq!(set_class(0), STATUS_NO_MEMORY);
            assert_eq!((class(), last_told()), (2, before.clone()), "the one after {refused} was refused");
        }
        assert_eq!(set_class(0), STATUS_SUCCESS);
        assert_eq!((class(), last_told()), (0, vec![(0, 0, 0); 3]));
    });
}

#[test]
fn a_context_that_the_driver_refuses_properties_is_not_created() {
    with_device(|device| {
        script().refuses_after = Some(0);
        assert_eq!(context(device), Err(STATUS_NO_MEMORY));
        context(device).unwrap();
    });
}
