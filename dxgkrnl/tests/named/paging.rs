//! A driver that calls a paging operation done and has not done it is named with the operation, where that can be seen.
//! [d3dkmddi: DXGKDDI_BUILDPAGINGBUFFER, DXGK_UPDATEPAGETABLEFLAGS, DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL]

use dxgkrnl::{Process, Rescue, StartError, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use super::Given;
use super::minimal::queue::call;
use super::minimal::{Bench, Mutant, SOUND, driver};

type Build = unsafe extern "win64" fn(HANDLE, *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS;

/// The stop of the machine during the start of a driver with this function.
fn stopped_by(table: fn(&mut DRIVER_INITIALIZATION_DATA)) -> String {
    let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
    match bench.start() {
        Err(StartError::Stopped(Some(bugcheck))) => bugcheck.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Takes the one entry of a repetition for the one that is to be written.
unsafe extern "win64" fn repeats_once(context: HANDLE, args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let mut changed = unsafe { args.read() };
    if changed.Operation == DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: the operation says which arm is valid.
        let mut update = unsafe { changed.u.UpdatePageTable };
        if update.Flags.Repeat() {
            update.NumPageTableEntries = 1;
        }
        changed.u.UpdatePageTable = update;
        // SAFETY: the arguments are as the system made them, with less to do.
        return unsafe { driver::build_paging_buffer(context, &raw mut changed) };
    }
    // SAFETY: the arguments are the system's.
    unsafe { driver::build_paging_buffer(context, args) }
}

#[test]
fn a_repetition_that_writes_one_entry_is_named_with_operation_flag_and_page() {
    let told = stopped_by(|table| table.DxgkDdiBuildPagingBuffer = Some(repeats_once as Build));
    for part in [
        "0x113",
        "DxgkDdiBuildPagingBuffer for DXGK_OPERATION_UPDATE_PAGE_TABLE on the paging node of engine 0 answered STATUS_SUCCESS",
        "with Flags.Repeat and NumPageTableEntries 512, and wrote 8 bytes of the table",
        "[d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]",
    ] {
        assert!(told.contains(part), "{part:?}: {told}");
    }
}

/// Leaves out entries that are valid.
unsafe extern "win64" fn invalidates_only(context: HANDLE, args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let asked = unsafe { &*args };
    if asked.Operation == DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: the operation says which arm is valid.
        let update = unsafe { asked.u.UpdatePageTable };
        // SAFETY: there is one entry at least.
        if unsafe { (*update.pPageTableEntries).Bits }.Valid() {
            return STATUS_SUCCESS;
        }
    }
    // SAFETY: the arguments are the system's.
    unsafe { driver::build_paging_buffer(context, args) }
}

#[test]
fn an_entry_that_is_valid_and_was_not_written_is_named_with_operation_and_page() {
    let told = stopped_by(|table| table.DxgkDdiBuildPagingBuffer = Some(invalidates_only as Build));
    for part in [
        "DxgkDdiBuildPagingBuffer for DXGK_OPERATION_UPDATE_PAGE_TABLE on the paging node of engine 0 answered STATUS_SUCCESS",
        "the table is as it was when every entry was invalid",
        "[d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]",
    ] {
        assert!(told.contains(part), "{part:?}: {told}");
    }
}

/// Fills nothing.
unsafe extern "win64" fn fills_nothing(context: HANDLE, args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    if unsafe { (*args).Operation } == DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_VIRTUAL_FILL {
        return STATUS_SUCCESS;
    }
    // SAFETY: the arguments are the system's.
    unsafe { driver::build_paging_buffer(context, args) }
}

#[test]
fn a_fill_for_which_no_command_was_built_is_a_finding_that_names_the_operation() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiBuildPagingBuffer = Some(fills_nothing);
    let local = |info: &mut DXGK_ALLOCATIONINFO| {
        info.SupportedWriteSegmentSet = 2;
        info.PreferredSegment.set_SegmentId0(2);
    };
    let local = Mutant { allocation: local, ..SOUND };
    for (mutant, found) in [(local, vec![]), (Mutant { table, ..local }, vec![(Rescue::UnbuiltOperation, 1)])] {
        let bench = Bench::new(mutant).unwrap();
        let luid = bench.start().unwrap();
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let given = Given::new(luid);
        let mut allocation = given.allocation;
        let mut args = D3DDDI_MAKERESIDENT { hPagingQueue: given.paging_queue, NumAllocations: 1, ..Zeroed::zeroed() };
        args.AllocationList = &raw mut allocation;
        call(thunks().D3DKMTMakeResident, args).unwrap();
        let log = bench.machine.debug_log();
        let told = "DxgkDdiBuildPagingBuffer for DXGK_OPERATION_VIRTUAL_FILL on the paging node of engine 0 answered STATUS_SUCCESS (0x00000000) and left pDmaBuffer as it was";
        let lines = log.iter().filter(|line| line.contains(told)).count();
        let rescues = bench.machine.take_rescues();
        assert_eq!((rescues, lines), (found.clone(), found.len()), "{log:#?}");
        drop(attached);
        process.exit();
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}
