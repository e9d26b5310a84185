//! What a driver leaves out or answers wrongly is named: the DDI, what was expected and what was seen.
//! [d3dkmddi: DXGKDDI_QUERYADAPTERINFO, DXGK_ALLOCATIONINFO; debugger: 0x116]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dxgkrnl::verifier::SpecialPool;
use dxgkrnl::{MachineConfig, OutputSize, Process, StartError, TdrSettings, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, LUID, NTSTATUS};

use super::Given;
use super::minimal::queue::call;
use super::minimal::{Bench, Mutant, SOUND, answers, driver};
use super::packet_engine::app::App;
use super::packet_engine::{MACHINES, Machine};

/// The reason for which a driver does not start.
fn refused(mutant: Mutant) -> StartError {
    refused_by(mutant, SpecialPool::Off)
}

/// The same, with this placement of its pool.
fn refused_by(mutant: Mutant, special_pool: SpecialPool) -> StartError {
    let config = MachineConfig { ram: 64 << 20, special_pool, ..MachineConfig::default() };
    let bench = Bench::with_config(mutant, config).unwrap();
    let error = bench.start().expect_err("the mutant must be refused");
    assert_eq!(bench.machine.bugcheck(), None);
    error
}

/// The size of an answer to a driver of the newest version.
fn newest(size: usize) -> OutputSize {
    OutputSize { offered: size, version: "WDDM 3.2", newest: size }
}

/// Answers everything by halves.
unsafe extern "win64" fn half_an_answer(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let mut args = unsafe { args.read() };
    if args.Type == DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_QUERYSEGMENT4 {
        // SAFETY: the arguments are the system's.
        return unsafe { answers::query_adapter_info(context, &raw const args) };
    }
    let mut whole = vec![0_u8; args.OutputDataSize as usize];
    let wanted = std::mem::replace(&mut args.pOutputData, whole.as_mut_ptr().cast());
    // SAFETY: as above, with a place of the same size.
    let status = unsafe { answers::query_adapter_info(context, &raw const args) };
    let half = whole.len() / 2;
    // SAFETY: the system's place has twice as many bytes.
    unsafe { wanted.cast::<u8>().copy_from(whole.as_ptr(), half) };
    status
}

#[test]
fn an_answer_that_was_not_written_to_its_end_is_named_and_nothing_is_made_of_what_lay_there() {
    let halves = Mutant { table: |table| table.DxgkDdiQueryAdapterInfo = Some(half_an_answer), ..SOUND };
    let size = size_of::<DXGK_DRIVERCAPS>();
    let refused = |mutant| refused_by(mutant, SpecialPool::VerifyEnd);
    assert_eq!(
        refused(halves),
        StartError::ShortAnswer {
            query: "DRIVERCAPS",
            written: size / 2,
            output: newest(size),
            member: Some("DXGK_DRIVERCAPS.WDDMVersion")
        }
    );
    use DXGK_QUERYADAPTERINFOTYPE as Kind;
    let (mmu, physical) = (size_of::<DXGK_GPUMMUCAPS>(), size_of::<DXGK_PHYSICALADAPTERCAPS>());
    for (kind, query, size, member) in [
        (Kind::DXGKQAITYPE_DRIVERCAPS, "DRIVERCAPS", size, Some("DXGK_DRIVERCAPS.HighestAcceptableAddress")),
        (Kind::DXGKQAITYPE_WDDMDEVICECAPS, "WDDMDEVICECAPS", 4, Some("DXGK_WDDMDEVICECAPS.WDDMVersion")),
        (Kind::DXGKQAITYPE_GPUMMUCAPS, "GPUMMUCAPS", mmu, Some("DXGK_GPUMMUCAPS.ReadOnlyMemorySupported")),
        (Kind::DXGKQAITYPE_HISTORYBUFFERPRECISION, "HISTORYBUFFERPRECISION", 4, None),
        (Kind::DXGKQAITYPE_NUMPOWERCOMPONENTS, "NUMPOWERCOMPONENTS", 4, None),
        (
            Kind::DXGKQAITYPE_PHYSICALADAPTERCAPS,
            "PHYSICALADAPTERCAPS",
            physical,
            Some("DXGK_PHYSICALADAPTERCAPS.NumExecutionNodes"),
        ),
    ] {
        let error = refused(Mutant { answers: Some(kind), ..SOUND });
        assert_eq!(error, StartError::ShortAnswer { query, written: 0, output: newest(size), member });
        assert!(
            error.to_string().contains(&format!("DxgkDdiQueryAdapterInfo({query}) succeeded, but wrote only 0 of"))
        );
    }
}

/// Answers everything, but of DRIVERCAPS only the bytes that `says` picks by their place and value, and leaves all others as they lie there.
///
/// # Safety
/// The arguments are the system's.
pub(crate) unsafe fn answer_some_caps(
    context: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
    says: impl Fn(usize, u8) -> bool,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let mut args = unsafe { args.read() };
    if args.Type != DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DRIVERCAPS {
        // SAFETY: the arguments are the system's.
        return unsafe { answers::query_adapter_info(context, &raw const args) };
    }
    let mut whole = vec![0_u8; args.OutputDataSize as usize];
    let wanted = std::mem::replace(&mut args.pOutputData, whole.as_mut_ptr().cast());
    // SAFETY: as above, with a place of the same size.
    let status = unsafe { answers::query_adapter_info(context, &raw const args) };
    for (place, byte) in whole.iter().enumerate().filter(|(place, byte)| says(*place, **byte)) {
        // SAFETY: the system's place has as many bytes.
        unsafe { wanted.cast::<u8>().wrapping_add(place).write(*byte) };
    }
    status
}

/// Sets what it has to say in DXGK_DRIVERCAPS and leaves all else as it lies there, as Microsoft's samples do; it left nothing out elsewhere.
unsafe extern "win64" fn only_what_is_set(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    unsafe { answer_some_caps(context, args, |_, byte| byte != 0) }
}

#[test]
fn what_a_driver_leaves_as_it_lies_in_its_caps_is_zero_and_with_special_pool_it_is_named() {
    let mutant = Mutant { table: |table| table.DxgkDdiQueryAdapterInfo = Some(only_what_is_set), ..SOUND };
    let bench = Bench::new(mutant).unwrap();
    let luid = bench.start().expect("the bits that it did not set are clear");
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
    let error = refused_by(mutant, SpecialPool::VerifyEnd);
    let size = size_of::<DXGK_DRIVERCAPS>();
    assert!(
        matches!(error, StartError::ShortAnswer { query: "DRIVERCAPS", output, .. } if output == newest(size)),
        "{error}"
    );
    // Half of the caps is not what they have to be: the first member that is missing is named.
    let halves = Mutant { table: |table| table.DxgkDdiQueryAdapterInfo = Some(half_an_answer), ..SOUND };
    let error = refused(halves).to_string();
    assert!(error.contains("DRIVERCAPS") || error.contains("WDDMVersion") || error.contains("Caps"), "{error}");
}

/// A process that makes a device and, if that succeeds, an allocation on it.
fn makes(bench: &Bench, luid: LUID) -> (Arc<Process>, NTSTATUS) {
    let process = Process::new(&bench.machine, "user");
    let attached = process.attach();
    let open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
    let mut args = D3DKMT_CREATEDEVICE::zeroed();
    args.u.hAdapter = call(thunks().D3DKMTOpenAdapterFromLuid, open).unwrap().hAdapter;
    let made = call(thunks().D3DKMTCreateDevice, args).and_then(|device| {
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        let mut create = D3DKMT_CREATEALLOCATION { hDevice: device.hDevice, NumAllocations: 1, ..Zeroed::zeroed() };
        create.u1.pAllocationInfo2 = &raw mut info;
        call(thunks().D3DKMTCreateAllocation2, create)
    });
    drop(attached);
    (process, made.err().unwrap_or(STATUS_SUCCESS))
}

/// What became of [`makes`], and the lines that the system logged meanwhile.
fn creates(mutant: Mutant) -> (NTSTATUS, Vec<String>) {
    let bench = Bench::new(mutant).unwrap();
    let luid = bench.start().unwrap();
    let before = bench.machine.debug_log().len();
    let (process, status) = makes(&bench, luid);
    process.exit();
    let log = bench.machine.debug_log().split_off(before);
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
    (status, log)
}

#[test]
fn a_thunk_that_fails_because_of_the_driver_names_ddi_member_and_rule_in_the_log() {
    assert_eq!(creates(SOUND), (STATUS_SUCCESS, vec![]));
    let wrong_set = |info: &mut DXGK_ALLOCATIONINFO| info.SupportedWriteSegmentSet = 0x20;
    let (status, log) = creates(Mutant { allocation: wrong_set, ..SOUND });
    assert_eq!(status, STATUS_INVALID_PARAMETER);
    let [line] = log.as_slice() else { panic!("{log:?}") };
    for part in [
        "DxgkDdiCreateAllocation broke a rule in pAllocationInfo[0]: SupportedWriteSegmentSet is empty or names a segment that does not exist",
        "SupportedWriteSegmentSet 0x20",
        "the segments that exist are 0x3",
        "[d3dkmddi: DXGK_ALLOCATIONINFO]",
    ] {
        assert!(line.contains(part), "{part:?}: {line}");
    }
    // The system's own devices are there already when the process makes one.
    unsafe extern "win64" fn only_the_system(context: HANDLE, args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS {
        // SAFETY: the system passes the structure.
        let wanted = unsafe { args.read() };
        // SAFETY: both arms of the union are the same 32 bits.
        if !unsafe { wanted.u.Flags }.SystemDevice() {
            return STATUS_INSUFFICIENT_RESOURCES;
        }
        // SAFETY: the arguments are the system's.
        unsafe { driver::create_device(context, args) }
    }
    let (status, log) = creates(Mutant { table: |table| table.DxgkDdiCreateDevice = Some(only_the_system), ..SOUND });
    assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES);
    let told = format!("D3DKMTCreateDevice fails with {status}: DxgkDdiCreateDevice answered {status}");
    assert_eq!(log, [told]);
}

unsafe extern "win64" fn no_process(_context: HANDLE, _args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS {
    STATUS_NO_MEMORY
}

unsafe extern "win64" fn no_device(_context: HANDLE, _args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS {
    STATUS_INSUFFICIENT_RESOURCES
}

unsafe extern "win64" fn no_context(_device: HANDLE, _args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

#[test]
fn an_object_of_the_system_that_the_driver_refuses_at_start_is_named_with_status_and_page() {
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Change, &'static str, NTSTATUS, &str); 3] = [
        (
            |table| table.DxgkDdiCreateProcess = Some(no_process),
            "DxgkDdiCreateProcess",
            STATUS_NO_MEMORY,
            "[d3dkmddi: DXGKDDI_CREATEPROCESS]",
        ),
        (
            |table| table.DxgkDdiCreateDevice = Some(no_device),
            "DxgkDdiCreateDevice",
            STATUS_INSUFFICIENT_RESOURCES,
            "[d3dkmddi: DXGKDDI_CREATEDEVICE]",
        ),
        (
            |table| table.DxgkDdiCreateContext = Some(no_context),
            "DxgkDdiCreateContext",
            STATUS_UNSUCCESSFUL,
            "[d3dkmddi: DXGKDDI_CREATECONTEXT]",
        ),
    ];
    for (table, ddi, status, page) in rows {
        let error = refused(Mutant { table, ..SOUND });
        assert_eq!(error, StartError::Refused { ddi, status });
        let text = error.to_string();
        assert!(text.contains(&format!("{ddi} answered {status}")) && text.ends_with(page), "{text}");
    }
}

#[test]
fn a_packet_that_never_completes_after_any_number_of_resets_is_0x116_with_what_was_expected() {
    let machine = Machine::start(&MACHINES[0]);
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let last_completed = machine.engine.rendered(1)[0].fence - 1;
    let limit = TdrSettings::default().limit_count as usize;
    machine.engine.answer_resets(&vec![(STATUS_SUCCESS, last_completed); limit + 1]);
    for round in 1..=limit + 1 {
        assert_eq!(machine.bench.machine.bugcheck(), None, "{round}");
        let packet = machine.engine.rendered(round)[round - 1];
        while machine.engine.reset_nodes().len() < round {
            machine.bench.machine.advance(TdrSettings::default().delay);
        }
        assert_eq!(packet.again, round > 1);
    }
    let bugcheck = machine.bugcheck();
    let hung = machine.engine.everything()[limit].fence;
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_TIMEOUT.0 as u32)), "{bugcheck}");
    for part in [
        format!("packet {hung:#x} of node 0 never completes"),
        format!("DxgkDdiResetEngine has answered STATUS_SUCCESS {} times", limit + 1),
        format!(
            "DXGK_INTERRUPT_DMA_COMPLETED with {hung:#x}, and the last one that was reported is {last_completed:#x}"
        ),
    ] {
        assert!(bugcheck.reason.contains(&part), "{part:?}: {bugcheck}");
    }
    app.process.exit();
}

/// "The bitmask that describes all dependent nodes that will be affected by a reset operation." [d3dkmddi: DXGKARG_QUERYDEPENDENTENGINEGROUP]
#[test]
fn a_node_that_does_not_exist_in_the_mask_of_dependent_nodes_is_0x119_with_mask_and_nodes() {
    let machine = Machine::start(&MACHINES[1]);
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let packet = machine.engine.rendered(1)[0];
    machine.engine.answer_dependents(0b1001);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packet.fence)]);
    while machine.bench.machine.bugcheck().is_none() && machine.engine.reset_nodes().is_empty() {
        machine.bench.machine.advance(TdrSettings::default().delay);
    }
    let bugcheck = machine.bugcheck();
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x119, [8, 0b1001, 0, 0]), "{bugcheck}");
    for part in [
        "DxgkDdiQueryDependentEngineGroup answered DependentNodeOrdinalMask 0x9 for node 0",
        "the bits 0x8 of it are of no node, for physical adapter 0 has 1 of them",
        "[d3dkmddi: DXGKARG_QUERYDEPENDENTENGINEGROUP]",
    ] {
        assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
    }
    app.process.exit();
}

/// What is made later cannot be said later: no page of these functions has STATUS_PENDING among its answers, and nothing tells when they would be done.
#[test]
fn a_function_that_may_not_answer_status_pending_and_does_stops_the_machine_by_name() {
    unsafe extern "win64" fn device_later(context: HANDLE, args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS {
        // SAFETY: the system passes the structure.
        let wanted = unsafe { args.read() };
        // SAFETY: both arms of the union are the same 32 bits.
        let system = unsafe { wanted.u.Flags }.SystemDevice();
        // SAFETY: the arguments are the system's.
        let status = unsafe { driver::create_device(context, args) };
        if system { status } else { STATUS_PENDING }
    }
    unsafe extern "win64" fn allocation_later(_: HANDLE, _: *mut DXGKARG_CREATEALLOCATION) -> NTSTATUS {
        STATUS_PENDING
    }
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Change, &str); 2] = [
        (|table| table.DxgkDdiCreateDevice = Some(device_later), "DxgkDdiCreateDevice"),
        (|table| table.DxgkDdiCreateAllocation = Some(allocation_later), "DxgkDdiCreateAllocation"),
    ];
    for (table, ddi) in rows {
        let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let (process, status) = makes(&bench, luid);
        assert_eq!(status, STATUS_DEVICE_REMOVED);
        process.exit();
        let bugcheck = bench.machine.bugcheck().expect("the machine stops");
        assert_eq!(bugcheck.code, 0x113, "{bugcheck}");
        let told = format!("{ddi} answered {STATUS_PENDING}, and expected was STATUS_SUCCESS or an error");
        assert!(
            bugcheck.reason.contains(&told) && bugcheck.reason.contains("only DxgkDdiSuspendContext"),
            "{bugcheck}"
        );
    }
}

/// Leaf tables of 9 bits, and a root page table for the other 11 of an address of 32 bits.
const TWO_LEVELS: fn(&mut DXGK_GPUMMUCAPS) = |caps| (caps.PageTableLevelCount, caps.VirtualAddressBitCount) = (2, 32);

/// The size that the root page table begins with is that of a leaf.
const ROOT_BEGINS_SMALL: fn(&mut DXGK_PAGE_TABLE_LEVEL_DESC) = |level| level.PageTableIndexBitCount = 9;

/// Answers to DxgkDdiGetRootPageTableSize: by entries asked for, entries and bytes.
unsafe extern "win64" fn whole_root(_: HANDLE, args: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize {
    // SAFETY: the system passes the structure.
    let asked = unsafe { args.read() };
    // The page of the driver has this many entries of 8 bytes.
    let given = asked.NumberOfPte.next_multiple_of(512);
    // SAFETY: as above.
    unsafe { args.write(DXGKARG_GETROOTPAGETABLESIZE { NumberOfPte: given, ..asked }) };
    given as usize * 8
}

unsafe extern "win64" fn root_of_half_pages(_: HANDLE, _: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize {
    0x4800
}

unsafe extern "win64" fn root_of_fewer_entries(_: HANDLE, args: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize {
    // SAFETY: the system passes the structure.
    unsafe { (*args).NumberOfPte = 512 };
    0x1000
}

unsafe extern "win64" fn root_of_nothing(_: HANDLE, _: *mut DXGKARG_GETROOTPAGETABLESIZE) -> usize {
    0
}

static ENTRIES_OF_ROOT: AtomicU32 = AtomicU32::new(0);

unsafe extern "win64" fn set_root_page_table(_: HANDLE, args: *const DXGKARG_SETROOTPAGETABLE) {
    // SAFETY: the system passes the structure.
    ENTRIES_OF_ROOT.store(unsafe { args.read() }.NumEntries, Ordering::Relaxed);
}

/// "DxgkDdiGetRootPageTableSize is called only when DXGK_GPUMMUCAPS::PageTableLevelCount is two", with "page table entries which are required to be in the root
/// page table"; "the size must be a multiple of the page size of the GPU memory segment". [d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE, DXGKARG_GETROOTPAGETABLESIZE]
#[test]
fn a_root_page_table_of_two_levels_has_the_size_that_the_driver_tells_and_a_wrong_one_is_named() {
    let sound = Mutant { mmu: TWO_LEVELS, level: ROOT_BEGINS_SMALL, ..SOUND };
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| {
        table.DxgkDdiGetRootPageTableSize = Some(whole_root);
        table.DxgkDdiSetRootPageTable = Some(set_root_page_table);
    };
    let bench = Bench::new(Mutant { table, ..sound }).unwrap();
    let luid = bench.start().expect("the root page table is as large as the address space asks for");
    let (process, status) = makes(&bench, luid);
    assert_eq!((status, ENTRIES_OF_ROOT.load(Ordering::Relaxed)), (STATUS_SUCCESS, 1 << 11));
    process.exit();
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Change, u32, usize); 3] = [
        (|table| table.DxgkDdiGetRootPageTableSize = Some(root_of_half_pages), 1 << 11, 0x4800),
        (|table| table.DxgkDdiGetRootPageTableSize = Some(root_of_fewer_entries), 512, 0x1000),
        (|table| table.DxgkDdiGetRootPageTableSize = Some(root_of_nothing), 1 << 11, 0),
    ];
    for (table, given, size) in rows {
        let error = refused(Mutant { table, ..sound });
        assert_eq!(error, StartError::RootPageTableSize { wanted: 1 << 11, given, size, page: 0x1000 });
        let text = error.to_string();
        assert!(text.starts_with("DxgkDdiGetRootPageTableSize was asked for NumberOfPte 2048"), "{text}");
        assert!(text.ends_with("[d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE]"), "{text}");
    }
}

/// [d3dkmddi: DXGK_CONTEXTINFO]
#[test]
fn what_a_driver_says_of_a_context_is_named_where_it_breaks_a_rule() {
    unsafe extern "win64" fn to_be_patched(device: HANDLE, args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS {
        // SAFETY: the arguments are the system's.
        let status = unsafe { driver::create_context(device, args) };
        // SAFETY: as above.
        unsafe { (*args).ContextInfo.Caps = Zeroed::zeroed() };
        status
    }
    let error = refused(Mutant { table: |table| table.DxgkDdiCreateContext = Some(to_be_patched), ..SOUND });
    let text = error.to_string();
    for part in
        ["DxgkDdiCreateContext on node 0", "ContextInfo.Caps.NoPatchingRequired 0", "[d3dkmddi: DXGK_CONTEXTINFO]"]
    {
        assert!(text.contains(part), "{part:?}: {text}");
    }
}

/// [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]
#[test]
fn what_a_driver_says_of_a_standard_allocation_is_named_where_it_cannot_be_or_is_an_error() {
    unsafe extern "win64" fn huge(_: HANDLE, args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> NTSTATUS {
        // SAFETY: the system passes the structure.
        unsafe { (*args).AllocationPrivateDriverDataSize = 1 << 20 };
        STATUS_SUCCESS
    }
    unsafe extern "win64" fn none(_: HANDLE, _: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> NTSTATUS {
        STATUS_NO_MEMORY
    }
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Change, NTSTATUS, &str); 2] = [
        (
            |table| table.DxgkDdiGetStandardAllocationDriverData = Some(huge),
            STATUS_NOT_SUPPORTED,
            "DxgkDdiGetStandardAllocationDriverData answered AllocationPrivateDriverDataSize 0x100000",
        ),
        (
            |table| table.DxgkDdiGetStandardAllocationDriverData = Some(none),
            STATUS_NO_MEMORY,
            "DxgkDdiGetStandardAllocationDriverData answered STATUS_NO_MEMORY",
        ),
    ];
    for (table, status, told) in rows {
        let bench = Bench::new(Mutant { table, ..SOUND }).unwrap();
        let luid = bench.start().unwrap();
        let process = Process::new(&bench.machine, "user");
        let attached = process.attach();
        let given = Given::new(luid);
        assert_eq!(super::memory::create(given, |_| ()), Some(status));
        let log = bench.machine.debug_log();
        let line = log.last().unwrap();
        assert!(line.starts_with("D3DKMTCreateAllocation2 fails with") && line.contains(told), "{line}");
        drop(attached);
        process.exit();
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
    }
}
