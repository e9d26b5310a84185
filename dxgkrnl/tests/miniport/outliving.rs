//! What one process makes and another one has is charged to the one that has it: a process that starts others for a short time, and keeps what they made, has no more than its share.

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use crate::minimal::memory::{ask, call};
use crate::minimal::{Bench, SOUND};
use dxgkrnl::{DESCRIPTORS_LEFT, Process, Share, further_thunks, thunks};
use nt::user_space::ThisProcess;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS};

/// Descriptors that each process of these tests may have the system hold.
const SHARE: usize = 12;

/// Names of processes that have ended which a machine keeps.
const NAMES_LEFT: usize = 1024;

fn process_with(bench: &Bench, name: &str, descriptors: usize) -> Arc<Process> {
    let share = Share { descriptors, ..Share::default() };
    Process::elsewhere(&bench.machine, name, 7, Arc::new(ThisProcess), 0, share)
}

/// Calls something of a process by its threads.
fn by<T>(process: &Arc<Process>, act: impl FnOnce() -> T) -> T {
    let _attached = process.attach();
    act()
}

fn device(luid: LUID) -> D3DKMT_HANDLE {
    let adapter =
        call(thunks().D3DKMTOpenAdapterFromLuid, D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 });
    let mut create = D3DKMT_CREATEDEVICE::zeroed();
    create.u.hAdapter = adapter.hAdapter;
    call(thunks().D3DKMTCreateDevice, create).hDevice
}

/// A fence that may be shared.
fn fence(device: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut create = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: device, ..Zeroed::zeroed() };
    create.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    create.Info.Flags = create.Info.Flags.with_Shared(true).with_NtSecuritySharing(true);
    let (status, create) = ask(thunks().D3DKMTCreateSynchronizationObject2, create);
    status.ok().map(|()| create.hSyncObject)
}

fn destroy_fence(fence: D3DKMT_HANDLE) {
    call(thunks().D3DKMTDestroySynchronizationObject, D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: fence });
}

/// A resource of one allocation that may be shared.
fn resource(device: D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
    let mut create = D3DKMT_CREATEALLOCATION { hDevice: device, NumAllocations: 1, ..Zeroed::zeroed() };
    create.u1.pAllocationInfo2 = &raw mut info;
    create.Flags = create.Flags.with_CreateResource(true).with_CreateShared(true).with_NtSecuritySharing(true);
    let (status, create) = ask(thunks().D3DKMTCreateAllocation2, create);
    status.ok().map(|()| create.hResource)
}

fn mutex() -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let (status, args) = ask(further_thunks().D3DKMTCreateKeyedMutex, D3DKMT_CREATEKEYEDMUTEX::zeroed());
    status.ok().map(|()| args.hSharedHandle)
}

/// The attributes of an object with a name.
struct Named {
    _name: Vec<u16>,
    _text: Box<[u64; 2]>,
    attributes: [u64; 6],
}

impl Named {
    fn new(name: &str) -> Self {
        let units: Vec<u16> = name.encode_utf16().collect();
        let bytes = units.len() as u64 * 2;
        let text = Box::new([bytes | bytes << 16, units.as_ptr().expose_provenance() as u64]);
        let attributes = [48, 0, text.as_ptr().expose_provenance() as u64, 0, 0, 0];
        Self { _name: units, _text: text, attributes }
    }
}

/// A kernel handle of an object, with these attributes.
fn share_with(object: D3DKMT_HANDLE, attributes: *const c_void) -> Result<HANDLE, NTSTATUS> {
    let mut handle = ptr::null_mut();
    // SAFETY: the pointers are of things that live across the call.
    let status =
        unsafe { (thunks().D3DKMTShareObjects)(1, &raw const object, attributes, 0x1000_0000, &raw mut handle) };
    status.ok().map(|()| handle)
}

fn share(object: D3DKMT_HANDLE) -> HANDLE {
    share_with(object, ptr::null()).expect("a kernel handle")
}

fn close(handle: HANDLE) {
    // SAFETY: takes no pointers.
    unsafe { (thunks().NtClose)(handle) }.ok().expect("an open handle");
}

/// A descriptor of what a kernel handle stands for.
fn export(handle: HANDLE) -> Result<OwnedFd, NTSTATUS> {
    let mut number = 0;
    // SAFETY: the place for the number lives across the call.
    unsafe { (further_thunks().CampanileExportNtHandle)(handle, &raw mut number) }.ok()?;
    // SAFETY: the descriptor is new and not known elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

fn import(descriptor: &OwnedFd) -> Result<HANDLE, NTSTATUS> {
    use std::os::fd::AsRawFd;
    let mut handle = ptr::null_mut();
    // SAFETY: the place for the handle lives across the call.
    let status = unsafe { (further_thunks().CampanileImportNtHandle)(descriptor.as_raw_fd() as u32, &raw mut handle) };
    status.ok().map(|()| handle)
}

fn end(bench: Bench, luid: LUID) {
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

/// Has one process after the other make such objects, gives `keeper` kernel handles of them, and ends them. The answer is how many the keeper got.
fn keep(
    bench: &Bench,
    luid: LUID,
    keeper: &Arc<Process>,
    make: fn(D3DKMT_HANDLE) -> Result<D3DKMT_HANDLE, NTSTATUS>,
) -> Vec<HANDLE> {
    let mut kept = Vec::new();
    for _ in 0..2 * SHARE {
        let child = process_with(bench, "child", SHARE);
        let given = by(&child, || {
            let handle = share(make(device(luid)).expect("its own share is free"));
            let again = child.duplicate_handle(handle, keeper);
            let twice = again.and_then(|_| child.duplicate_handle(handle, keeper));
            assert_eq!(again.is_ok(), twice.is_ok(), "one object is charged once");
            again
        });
        match given {
            Ok(handle) => kept.push(handle),
            Err(status) => assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES),
        }
    }
    kept
}

#[test]
fn fences_of_processes_that_have_ended_are_charged_to_the_one_that_keeps_them() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let keeper = process_with(&bench, "keeper", SHARE);
    let kept = keep(&bench, luid, &keeper, fence);
    assert_eq!(kept.len(), SHARE, "as many as its share of descriptors");
    by(&keeper, || assert_eq!(fence(device(luid)).err(), Some(STATUS_INSUFFICIENT_RESOURCES), "none for its own"));
    let other = process_with(&bench, "other", SHARE);
    by(&other, || assert!(fence(device(luid)).is_ok(), "another process has its own"));
    drop((keeper, other));
    end(bench, luid);
}

/// Its memory may be in the file of the shared allocation and, once it has been evicted, in another one.
#[test]
fn allocations_of_processes_that_have_ended_are_charged_to_the_one_that_keeps_them_with_two_descriptors_each() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let keeper = process_with(&bench, "keeper", SHARE);
    assert_eq!(keep(&bench, luid, &keeper, resource).len(), SHARE / 2);
    let maker = process_with(&bench, "maker", SHARE);
    by(&maker, || {
        let device = device(luid);
        assert!((0..SHARE / 2).all(|_| resource(device).is_ok()));
        assert_eq!(resource(device).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    });
    drop((keeper, maker));
    end(bench, luid);
}

#[test]
fn whoever_closes_the_last_handle_of_an_object_is_charged_for_it_no_more() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let [maker, keeper] = ["maker", "keeper"].map(|name| process_with(&bench, name, 1));
    let (made, mine) = by(&maker, || {
        let device = device(luid);
        let made = fence(device).unwrap();
        assert_eq!(fence(device).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
        (made, share(made))
    });
    let theirs = maker.duplicate_handle(mine, &keeper).unwrap();
    by(&maker, || {
        close(mine);
        destroy_fence(made);
        assert!(fence(device(luid)).is_ok(), "it has none any more");
    });
    by(&keeper, || {
        let mut open =
            D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 { hNtHandle: theirs, hDevice: device(luid), ..Zeroed::zeroed() };
        open = call(dxgkrnl::D3DKMTOpenSyncObjectFromNtHandle2, open);
        close(theirs);
        assert_eq!(fence(open.hDevice).err(), Some(STATUS_INSUFFICIENT_RESOURCES), "it has it open");
        destroy_fence(open.hSyncObject);
        assert!(fence(open.hDevice).is_ok());
    });
    drop((maker, keeper));
    end(bench, luid);
}

/// The numbers of these handles are of all processes.
#[test]
fn keyed_mutexes_of_processes_that_have_ended_are_charged_to_the_one_that_keeps_them() {
    const MOST: usize = 1024;
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let keeper = process_with(&bench, "keeper", SHARE);
    let open = |shared| {
        let mut args = D3DKMT_OPENKEYEDMUTEX::zeroed();
        args.hSharedHandle = shared;
        by(&keeper, || ask(further_thunks().D3DKMTOpenKeyedMutex, args).0.ok())
    };
    let mut kept = 0;
    for _ in 0..2 {
        let child = process_with(&bench, "child", SHARE);
        let made: Vec<_> = by(&child, || (0..MOST).map(|_| mutex().unwrap()).collect());
        kept += made.into_iter().filter(|shared| open(*shared).is_ok()).count();
    }
    assert_eq!(kept, MOST);
    drop(keeper);
    end(bench, luid);
}

/// Nobody has what only descriptors are of, so the machine has a share of its own for them.
#[test]
fn of_what_a_process_leaves_in_descriptors_the_machine_keeps_so_much_and_gives_up_the_rest() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let mut left = Vec::new();
    for _ in 0..DESCRIPTORS_LEFT {
        let child = process_with(&bench, "child", 2);
        left.push(by(&child, || {
            export(share(fence(device(luid)).unwrap())).expect("a descriptor, and that of the fence")
        }));
    }
    let importer = process_with(&bench, "importer", usize::MAX);
    let kept: Vec<_> = by(&importer, || left.iter().map(|descriptor| import(descriptor).err()).collect());
    let (first, rest) = kept.split_at(DESCRIPTORS_LEFT / 2);
    assert!(first.iter().all(Option::is_none), "a fence and its descriptor take two");
    assert!(rest.iter().all(|failed| *failed == Some(STATUS_INVALID_HANDLE)));
    drop(left);
    let child = process_with(&bench, "child", 2);
    let later = by(&child, || export(share(fence(device(luid)).unwrap())).unwrap());
    drop(child);
    by(&importer, || assert!(import(&later).is_ok(), "those that are closed are kept no more"));
    drop(importer);
    end(bench, luid);
}

#[test]
fn of_the_names_that_processes_leave_the_machine_keeps_so_many_and_what_had_the_others_goes_on_without() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let keeper = process_with(&bench, "keeper", usize::MAX);
    let names: Vec<_> = (0..NAMES_LEFT + 4).map(|number| Named::new(&format!("name {number}"))).collect();
    let find = |name: &Named| {
        let mut args = D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME::zeroed();
        args.pObjAttrib = name.attributes.as_ptr().cast_mut().cast();
        args.dwDesiredAccess = 0x1000_0000;
        by(&keeper, || ask(further_thunks().D3DKMTOpenSyncObjectNtHandleFromName, args).0.ok())
    };
    let mut kept = Vec::new();
    for names in names.chunks(256) {
        let child = process_with(&bench, "child", SHARE);
        by(&child, || {
            let fence = fence(device(luid)).unwrap();
            for name in names {
                let mine = share_with(fence, name.attributes.as_ptr().cast()).unwrap();
                kept.push(child.duplicate_handle(mine, &keeper).unwrap());
            }
        });
    }
    let found: Vec<_> = names.iter().map(|name| find(name).err()).collect();
    assert_eq!(found.iter().filter(|failed| failed.is_none()).count(), NAMES_LEFT);
    assert!(found.iter().flatten().all(|failed| *failed == STATUS_OBJECT_NAME_NOT_FOUND));
    by(&keeper, || kept.into_iter().for_each(close));
    drop(keeper);
    end(bench, luid);
}
