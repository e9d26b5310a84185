//! A driver that writes past the end of what a DDI gave it to write: the machine stops with 0x113, which names the DDI and the field, and no memory of the host
//! is touched. [d3dkmddi: DXGKDDI_QUERYADAPTERINFO, DXGKDDI_GETNODEMETADATA, DXGK_ALLOCATIONINFO]

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
#[allow(dead_code)]
mod packet_engine;

use std::ffi::c_void;

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{Process, thunks};
use minimal::{Bench, Mutant, SOUND, answers, driver};
use packet_engine::call;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, LUID, NTSTATUS};

/// Writes `count` bytes behind the end of a buffer.
fn overrun(buffer: *mut c_void, size: usize, count: usize) {
    // SAFETY: none, which is the point: the system must not be harmed.
    unsafe { buffer.cast::<u8>().wrapping_add(size).write_bytes(0x5a, count) };
}

/// Answers a question, and writes that much behind it.
unsafe fn answer_too_much(
    kind: DXGK_QUERYADAPTERINFOTYPE,
    count: usize,
    context: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    let status = unsafe { answers::query_adapter_info(context, args) };
    // SAFETY: the system passes the structure.
    let args = unsafe { args.read() };
    if args.Type == kind {
        overrun(args.pOutputData, args.OutputDataSize as usize, count);
        return STATUS_SUCCESS;
    }
    status
}

macro_rules! too_much {
    ($name:ident, $kind:ident, $count:literal) => {
        unsafe extern "win64" fn $name(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
            // SAFETY: the arguments are the system's.
            unsafe { answer_too_much(DXGK_QUERYADAPTERINFOTYPE::$kind, $count, context, args) }
        }
    };
}

too_much!(caps_and_a_byte, DXGKQAITYPE_DRIVERCAPS, 1);
too_much!(caps_and_a_kilobyte, DXGKQAITYPE_DRIVERCAPS, 1024);
too_much!(segment_answer_and_a_byte, DXGKQAITYPE_QUERYSEGMENT4, 1);
too_much!(private_and_a_byte, DXGKQAITYPE_UMDRIVERPRIVATE, 1);
too_much!(private_and_64_bytes, DXGKQAITYPE_UMDRIVERPRIVATE, 64);

unsafe extern "win64" fn a_descriptor_too_many(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    let status = unsafe { answers::query_adapter_info(context, args) };
    // SAFETY: the system passes the structure.
    let args = unsafe { args.read() };
    if args.Type == DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_QUERYSEGMENT4 {
        // SAFETY: the output is this structure.
        let out = unsafe { args.pOutputData.cast::<DXGK_QUERYSEGMENTOUT4>().read() };
        if !out.pSegmentDescriptor.is_null() {
            overrun(out.pSegmentDescriptor.cast(), out.NbSegment as usize * out.SegmentDescriptorStride, 80);
        }
    }
    status
}

unsafe extern "win64" fn metadata_and_a_byte(context: HANDLE, node: u32, metadata: *mut DXGK_NODEMETADATA) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    let status = unsafe { answers::get_node_metadata(context, node, metadata) };
    overrun(metadata.cast(), size_of::<DXGK_NODEMETADATA>(), 1);
    status
}

unsafe extern "win64" fn process_and_a_byte(context: HANDLE, args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS {
    overrun(args.cast(), size_of::<DXGKARG_CREATEPROCESS>(), 1);
    // SAFETY: the arguments are the system's.
    unsafe { driver::create_process(context, args) }
}

/// The adapter, opened by the process of this thread.
fn open(luid: LUID) -> D3DKMT_HANDLE {
    let mut open = D3DKMT_OPENADAPTERFROMLUID::zeroed();
    open.AdapterLuid = luid;
    call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter
}

/// Asserts that the machine has stopped as it should, and that the process goes on: it boots another.
fn check(bench: &Bench, parts: &[&str]) {
    let bugcheck: Bugcheck = bench.machine.bugcheck().expect("the machine stops");
    assert_eq!(bugcheck.code, 0x113, "{bugcheck}");
    for part in parts {
        assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
    }
    let next = Bench::new(SOUND).unwrap();
    let luid = next.start().unwrap();
    next.machine.remove(luid).unwrap();
    assert_eq!(next.machine.bugcheck(), None);
}

#[test]
fn what_is_written_past_an_answer_at_start_is_found_and_named() {
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Change, [&str; 2]); 6] = [
        (
            |table| table.DxgkDdiQueryAdapterInfo = Some(caps_and_a_byte),
            ["QueryAdapterInfo(DRIVERCAPS)", "pOutputData"],
        ),
        (
            |table| table.DxgkDdiQueryAdapterInfo = Some(caps_and_a_kilobyte),
            ["DxgkDdiQueryAdapterInfo(DRIVERCAPS)", "pOutputData"],
        ),
        (
            |table| table.DxgkDdiQueryAdapterInfo = Some(segment_answer_and_a_byte),
            ["DxgkDdiQueryAdapterInfo(QUERYSEGMENT4)", "pOutputData"],
        ),
        (
            |table| table.DxgkDdiQueryAdapterInfo = Some(a_descriptor_too_many),
            ["DxgkDdiQueryAdapterInfo(QUERYSEGMENT4)", "pSegmentDescriptor"],
        ),
        (|table| table.DxgkDdiGetNodeMetadata = Some(metadata_and_a_byte), ["DxgkDdiGetNodeMetadata", "metadata"]),
        (|table| table.DxgkDdiCreateProcess = Some(process_and_a_byte), ["DxgkDdiCreateProcess", "args"]),
    ];
    for (table, parts) in rows {
        let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
        bench.start().expect_err("the machine has stopped");
        check(&bench, &parts);
    }
}

#[test]
fn what_is_written_past_private_data_of_a_program_is_found_and_named() {
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [Change; 2] = [
        |table| table.DxgkDdiQueryAdapterInfo = Some(private_and_a_byte),
        |table| table.DxgkDdiQueryAdapterInfo = Some(private_and_64_bytes),
    ];
    for table in rows {
        let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let mut private = [7_u8; 13];
        let mut query = D3DKMT_QUERYADAPTERINFO::zeroed();
        query.hAdapter = open(luid);
        query.Type = KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE;
        (query.pPrivateDriverData, query.PrivateDriverDataSize) = (private.as_mut_ptr().cast(), 13);
        // SAFETY: the structure and its buffer live across the call.
        let status = unsafe { (thunks().D3DKMTQueryAdapterInfo)(&raw mut query) };
        assert_eq!((status, private), (STATUS_DEVICE_REMOVED, [7; 13]));
        check(&bench, &["DxgkDdiQueryAdapterInfo(UMDRIVERPRIVATE)", "the 13 bytes of pOutputData"]);
        drop(attached);
        process.exit();
    }
}

#[test]
fn what_is_written_past_private_data_of_an_allocation_is_found_and_named() {
    let changes: [fn(&mut DXGK_ALLOCATIONINFO); 3] = [
        |info| overrun(info.pPrivateDriverData, info.PrivateDriverDataSize as usize, 1),
        |info| overrun(info.pPrivateDriverData, info.PrivateDriverDataSize as usize, 64),
        |info| overrun((&raw mut *info).cast(), size_of::<DXGK_ALLOCATIONINFO>(), 1),
    ];
    for (allocation, field) in changes.into_iter().zip(["pPrivateDriverData", "pPrivateDriverData", "pAllocationInfo"])
    {
        let bench = Bench::new(Mutant { allocation, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let mut device = D3DKMT_CREATEDEVICE::zeroed();
        device.u.hAdapter = open(luid);
        let device = call(thunks().D3DKMTCreateDevice, device).unwrap().hDevice;
        let mut private = [7_u8; 5];
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        (info.pPrivateDriverData, info.PrivateDriverDataSize) = (private.as_mut_ptr().cast(), 5);
        let mut create = D3DKMT_CREATEALLOCATION::zeroed();
        create.hDevice = device;
        create.NumAllocations = 1;
        create.u1.pAllocationInfo2 = &raw mut info;
        assert!(call(thunks().D3DKMTCreateAllocation2, create).is_err());
        check(&bench, &["DxgkDdiCreateAllocation", field]);
        drop(attached);
        process.exit();
    }
}

/// Writes a byte behind the one entry of a repetition.
unsafe extern "win64" fn entry_and_a_byte(context: HANDLE, args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let asked = unsafe { &*args };
    if asked.Operation == DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_UPDATE_PAGE_TABLE {
        // SAFETY: the operation says which arm is valid.
        let update = unsafe { asked.u.UpdatePageTable };
        if update.Flags.Repeat() {
            overrun(update.pPageTableEntries.cast(), size_of::<DXGK_PTE>(), 1);
        }
    }
    // SAFETY: the arguments are the system's.
    unsafe { driver::build_paging_buffer(context, args) }
}

#[test]
fn what_is_written_past_the_one_entry_of_a_repetition_is_found_and_named() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiBuildPagingBuffer = Some(entry_and_a_byte);
    let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
    assert!(bench.start().is_err());
    let call = "DxgkDdiBuildPagingBuffer for DXGK_OPERATION_UPDATE_PAGE_TABLE on the paging node of engine 0";
    check(&bench, &[call, "wrote past the 16 bytes of pPageTableEntries", "the byte 0 behind its end"]);
}
