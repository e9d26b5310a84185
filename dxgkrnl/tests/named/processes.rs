//! Requests about processes, names, and descriptors of the host.

use std::os::fd::AsRawFd;
use std::ptr;

use dxgkrnl::{further_thunks, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::minimal::queue::call;
use super::{Given, Refused};

/// Opens the process with this number.
fn open(process: usize, access: u32) -> Result<HANDLE, NTSTATUS> {
    // Length, RootDirectory, ObjectName, Attributes, and two pointers about security.
    let attributes = [48_u64, 0, 0, 0, 0, 0];
    let client = CLIENT_ID { UniqueProcess: ptr::without_provenance_mut(process), UniqueThread: ptr::null_mut() };
    let mut handle = ptr::null_mut();
    let thunk = further_thunks().NtOpenProcess;
    // SAFETY: the pointers are of things that live across the call.
    unsafe { thunk(&raw mut handle, access, attributes.as_ptr().cast(), &raw const client) }.ok().map(|()| handle)
}

/// Asks for the priority class of a process.
fn class_of(process: HANDLE) -> Option<NTSTATUS> {
    let mut class = D3DKMT_SCHEDULINGPRIORITYCLASS(0);
    // SAFETY: the class lives across the call.
    unsafe { (further_thunks().D3DKMTGetProcessSchedulingPriorityClass)(process, &raw mut class) }.ok().err()
}

/// A kernel handle of a fence.
fn shared_fence(given: Given) -> HANDLE {
    let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: given.device, ..Zeroed::zeroed() };
    args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    args.Info.Flags = args.Info.Flags.with_Shared(true).with_NtSecuritySharing(true);
    let fence = call(thunks().D3DKMTCreateSynchronizationObject2, args).unwrap().hSyncObject;
    let mut handle = ptr::null_mut();
    // No security descriptor and no name.
    let attributes = [48_u64, 0, 0, 0, 0, 0];
    let attributes = attributes.as_ptr().cast();
    // SAFETY: the pointers are of things that live across the call.
    unsafe { (thunks().D3DKMTShareObjects)(1, &raw const fence, attributes, 0x1f_0003, &raw mut handle) }.ok().unwrap();
    handle
}

pub(super) const OF_PROCESSES: [Refused; 5] = [
    (
        |_| {
            let mut handle = ptr::null_mut();
            // SAFETY: the place for the handle lives across the call.
            unsafe { (further_thunks().NtOpenProcess)(&raw mut handle, 0, ptr::null(), ptr::null()) }.ok().err()
        },
        STATUS_INVALID_PARAMETER_MIX,
        &["NtOpenProcess fails with STATUS_INVALID_PARAMETER_MIX", "ClientId is NULL"],
    ),
    (
        |_| open(4, 0x0020_0000).err(),
        STATUS_INVALID_PARAMETER,
        &["NtOpenProcess fails with", "DesiredAccess is 0x200000", "PROCESS_ALL_ACCESS"],
    ),
    (
        |_| open(0x7777_7777, 0).err(),
        STATUS_INVALID_CID,
        &["NtOpenProcess fails with", "UniqueProcess is 0x77777777, which no process of the machine has"],
    ),
    (
        |_| class_of(ptr::without_provenance_mut(0x444)),
        STATUS_INVALID_HANDLE,
        &["D3DKMTGetProcessSchedulingPriorityClass fails with", "0x444 is no kernel handle of the process"],
    ),
    (
        |given| class_of(shared_fence(given)),
        STATUS_OBJECT_TYPE_MISMATCH,
        &["D3DKMTGetProcessSchedulingPriorityClass fails with", "is the kernel handle of something that is no process"],
    ),
];

/// Names an object.
fn name(object: u32, text: &[u8]) -> Option<NTSTATUS> {
    let thunk = further_thunks().CampanileSetDebugName;
    // SAFETY: the text lives across the call.
    unsafe { thunk(object, 0, text.as_ptr().cast(), text.len() as u32) }.ok().err()
}

pub(super) const OF_NAMES: [Refused; 3] = [
    (
        |given| name(given.fence, &[b'a'; 129]),
        STATUS_OBJECT_NAME_INVALID,
        &["CampanileSetDebugName fails with", "length is 129, and expected is at most 128"],
    ),
    (
        |given| name(given.fence, &[0xff]),
        STATUS_INVALID_PARAMETER,
        &["CampanileSetDebugName fails with", "name is no UTF-8"],
    ),
    (
        |given| name(given.device, b"a"),
        STATUS_INVALID_HANDLE,
        &["CampanileSetDebugName fails with", "is the handle of no hardware queue, fence or allocation"],
    ),
];

/// Gives the process a kernel handle of what a descriptor is of.
fn import(number: u32) -> Option<NTSTATUS> {
    let mut handle = ptr::null_mut();
    // SAFETY: the place for the handle lives across the call.
    unsafe { (further_thunks().CampanileImportNtHandle)(number, &raw mut handle) }.ok().err()
}

fn export(handle: HANDLE) -> Result<u32, NTSTATUS> {
    let mut number = 0;
    // SAFETY: the place for the number lives across the call.
    unsafe { (further_thunks().CampanileExportNtHandle)(handle, &raw mut number) }.ok().map(|()| number)
}

pub(super) const OF_DESCRIPTORS: [Refused; 3] = [
    (
        |_| export(ptr::without_provenance_mut(0x444)).err(),
        STATUS_INVALID_HANDLE,
        &["CampanileExportNtHandle fails with STATUS_INVALID_HANDLE", "0x444 is no kernel handle of the process"],
    ),
    (
        |_| import(0x7fff_0000),
        STATUS_INVALID_HANDLE,
        &["CampanileImportNtHandle fails with", "2147418112 is no open descriptor of the process"],
    ),
    (
        |_| {
            let file = std::fs::File::open("/dev/null").unwrap();
            import(file.as_raw_fd() as u32)
        },
        STATUS_OBJECT_TYPE_MISMATCH,
        &["CampanileImportNtHandle fails with", "is a descriptor of something that this machine has not given"],
    ),
];

pub(super) const OF_SYNC_FILES: [Refused; 4] = [
    (
        |given| {
            let args =
                D3DKMT_CREATESYNCFILE { hDevice: given.device, hMonitoredFence: given.fence, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTCreateSyncFile, args).err()
        },
        STATUS_ACCESS_DENIED,
        &["D3DKMTCreateSyncFile fails with STATUS_ACCESS_DENIED", "hMonitoredFence was created with NoWait"],
    ),
    (
        |given| {
            let args = D3DKMT_CREATEPAGINGQUEUE { hDevice: given.device, ..Zeroed::zeroed() };
            let fence = call(thunks().D3DKMTCreatePagingQueue, args).ok()?.hSyncObject;
            let args = D3DKMT_CREATESYNCFILE { hDevice: given.device, hMonitoredFence: fence, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTCreateSyncFile, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTCreateSyncFile fails with", "hMonitoredFence is a native fence or the progress fence of a queue"],
    ),
    (
        |given| {
            let args = D3DKMT_WAITSYNCFILE { hContext: given.context, Reserved: 1, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTWaitSyncFile, args).err()
        },
        STATUS_INVALID_PARAMETER,
        &["D3DKMTWaitSyncFile fails with", "Reserved is 0x1, and expected is 0"],
    ),
    (
        |given| {
            let file = export(shared_fence(given)).ok()?.into();
            let args = D3DKMT_OPENSYNCOBJECTFROMSYNCFILE { hSyncFile: file, hDevice: given.device, ..Zeroed::zeroed() };
            call(further_thunks().D3DKMTOpenSyncObjectFromSyncFile, args).err()
        },
        STATUS_OBJECT_TYPE_MISMATCH,
        &[
            "D3DKMTOpenSyncObjectFromSyncFile fails with",
            "hSyncFile is a descriptor of a kernel handle, and expected is a sync file",
        ],
    ),
];
