//! A miniport that this crate knows nothing about starts, takes a queue and stops; each rule of start has a mutant that breaks it;
//! each broken contract is a bugcheck with its documented code.

use std::ffi::c_void;

use crate::minimal::driver::{TAG, allocate, imports};
use crate::minimal::{Bench, Mutant, SOUND, table};
use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{DriverImage, FeaturePolicy, LoadError, Machine, MachineConfig, PnpError, ProblemCode, StartError};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::POOL_FLAG_NON_PAGED;
use wddm_ddi::status::*;
use wddm_ddi::types::{LARGE_INTEGER, NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};

/// Starts a mutant that must be refused, and checks that nothing of it is left.
fn refused(mutant: Mutant) -> StartError {
    let bench = Bench::new(mutant).unwrap();
    let error = bench.start().expect_err("the mutant must be refused");
    let text = error.to_string();
    assert!(text.ends_with(']') && text.contains(" ["), "the page of the rule is not named: {text}");
    assert_eq!(bench.machine.bugcheck(), None);
    assert_eq!(bench.machine.unload(bench.driver), Ok(()), "a refused driver gives everything back");
    error
}

/// Starts a driver that breaks a contract, and answers the stop.
fn stops(mutant: Mutant) -> Bugcheck {
    let bench = Bench::new(mutant).unwrap();
    match bench.start() {
        Err(StartError::Stopped(bugcheck)) => bugcheck.expect("a reason"),
        other => panic!("the machine must stop: {other:?}"),
    }
}

fn load_error(mutant: Mutant) -> LoadError {
    Bench::new(mutant).err().expect("the table must be refused")
}

#[test]
fn the_driver_starts_and_stops_and_starts_again_and_leaves_nothing_behind() {
    let bench = Bench::new(SOUND).unwrap();
    let first = bench.start().unwrap();
    assert_eq!(bench.start(), Err(StartError::AlreadyStarted));
    assert_eq!(bench.machine.unload(bench.driver), Err(PnpError::InUse));
    bench.machine.stop(first).unwrap();
    assert_eq!(bench.machine.stop(first), Err(PnpError::NoSuchAdapter));
    let second = bench.start().unwrap();
    assert!(!bench.machine.start_log(second).contains(&"DxgkDdiAddDevice".to_owned()), "it was never removed");
    bench.machine.remove(second).unwrap();
    bench.machine.unload(bench.driver).unwrap();
    assert_eq!(bench.machine.unload(bench.driver), Err(PnpError::NoSuchDriver));
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn start_asks_in_the_order_of_windows() {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let log = bench.machine.start_log(luid);
    let expected = [
        "DxgkDdiAddDevice",
        "DxgkDdiQueryAdapterInfo(PHYSICAL_MEMORY_CAPS)",
        "DxgkDdiQueryAdapterInfo(IOMMU_CAPS)",
        "DxgkDdiStartDevice",
        "DxgkDdiQueryAdapterInfo(DRIVERCAPS)",
        "DxgkDdiQueryInterface",
        "DxgkDdiQueryAdapterInfo(WDDMDEVICECAPS)",
        "DxgkDdiQueryAdapterInfo(GPUMMUCAPS)",
        "DxgkDdiQueryAdapterInfo(PAGETABLELEVELDESC)",
        "DxgkDdiQueryAdapterInfo(PAGETABLELEVELDESC)",
        "DxgkDdiQueryAdapterInfo(PAGETABLELEVELDESC)",
        "DxgkDdiGetNodeMetadata",
        "DxgkDdiQueryAdapterInfo(QUERYSEGMENT4)",
        "DxgkDdiQueryAdapterInfo(QUERYSEGMENT4)",
        "DxgkDdiQueryAdapterInfo(HISTORYBUFFERPRECISION)",
        "DxgkDdiCreateProcess",
        "DxgkDdiCreateDevice",
        "DxgkDdiCreateDevice",
    ];
    let mut rest = log.iter();
    for step in expected {
        assert!(rest.any(|logged| logged == step), "{step} is missing or out of order in {log:#?}");
    }
}

#[test]
fn a_table_of_another_version_or_with_a_hole_in_the_base_block_is_not_registered() {
    let error = load_error(Mutant { table: |table| table.Version = 0x10003, ..SOUND });
    assert_eq!((error.clone(), error.status()), (LoadError::Version(0x10003), STATUS_REVISION_MISMATCH));
    let error = load_error(Mutant { table: |table| table.DxgkDdiUnload = None, ..SOUND });
    assert_eq!(error, LoadError::MissingSlot("DxgkDdiUnload"));
    let error = load_error(Mutant { table: |table| table.Reserved4 = Some(filled), ..SOUND });
    assert!(matches!(error, LoadError::ForbiddenSlot { slot: "Reserved4", .. }), "{error}");
}

unsafe extern "win64" fn filled() {}

#[test]
fn a_driver_entry_that_fails_or_registers_nothing_is_told_apart() {
    unsafe extern "win64" fn fails(_: PDRIVER_OBJECT, _: *mut UNICODE_STRING) -> NTSTATUS {
        STATUS_INSUFFICIENT_RESOURCES
    }
    unsafe extern "win64" fn forgets(_: PDRIVER_OBJECT, _: *mut UNICODE_STRING) -> NTSTATUS {
        STATUS_SUCCESS
    }
    unsafe extern "win64" fn leaks(_: PDRIVER_OBJECT, _: *mut UNICODE_STRING) -> NTSTATUS {
        allocate(32);
        STATUS_INSUFFICIENT_RESOURCES
    }
    let machine = Machine::new(MachineConfig { ram: 16 << 20, ..MachineConfig::default() }).unwrap();
    let load = |entry| {
        machine.load_driver(DriverImage::Linked { name: "odd".into(), bind: crate::minimal::driver::bind, entry })
    };
    assert_eq!(load(fails), Err(LoadError::Entry(STATUS_INSUFFICIENT_RESOURCES)));
    assert_eq!(load(forgets), Err(LoadError::NotRegistered));
    assert_eq!(machine.bugcheck(), None);
    assert_eq!(load(leaks), Err(LoadError::Entry(STATUS_INSUFFICIENT_RESOURCES)));
    assert_eq!(machine.bugcheck().map(|bugcheck| (bugcheck.code, bugcheck.parameters[0])), Some((0xc4, 0x62)));
    assert!(matches!(load(fails), Err(LoadError::Stopped(Some(_)))));
}

#[test]
fn a_device_that_the_driver_refuses_is_not_started() {
    unsafe extern "win64" fn refuses(_: *mut c_void, _: *mut *mut c_void) -> NTSTATUS {
        STATUS_NO_SUCH_DEVICE
    }
    unsafe extern "win64" fn ignores(_: *mut c_void, context: *mut *mut c_void) -> NTSTATUS {
        // SAFETY: the system passes a place for the context.
        unsafe { context.write(std::ptr::null_mut()) };
        STATUS_SUCCESS
    }
    unsafe extern "win64" fn does_not_start(
        _: *mut c_void,
        _: *mut DXGK_START_INFO,
        _: *mut DXGKRNL_INTERFACE,
        _: *mut u32,
        _: *mut u32,
    ) -> NTSTATUS {
        STATUS_UNSUCCESSFUL
    }
    let error = refused(Mutant { table: |table| table.DxgkDdiAddDevice = Some(refuses), ..SOUND });
    assert_eq!(
        (error.clone(), error.problem()),
        (StartError::AddDevice(STATUS_NO_SUCH_DEVICE), ProblemCode::FailedAdd)
    );
    let error = refused(Mutant { table: |table| table.DxgkDdiAddDevice = Some(ignores), ..SOUND });
    assert_eq!(error, StartError::NotSupportedByDriver);
    let error = refused(Mutant { table: |table| table.DxgkDdiStartDevice = Some(does_not_start), ..SOUND });
    assert_eq!(error, StartError::StartDevice(STATUS_UNSUCCESSFUL));
    assert_eq!(error.problem(), ProblemCode::FailedStart);
}

#[test]
fn native_fences_need_the_feature_and_64_bit_atomics_and_their_caps() {
    let native = |caps: &mut DXGK_DRIVERCAPS| caps.SchedulingCaps.set_NativeGpuFence(true);
    let error = refused(Mutant { caps: native, ..SOUND });
    assert_eq!((error.clone(), error.status()), (StartError::NativeFenceNotEnabled, STATUS_INVALID_PARAMETER));
    assert_eq!(error.problem(), ProblemCode::FailedPostStart);
    const FEATURES: &[DXGK_FEATURE_ID] =
        &[DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH, DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE];
    let error = refused(Mutant {
        caps: |caps| caps.SchedulingCaps = caps.SchedulingCaps.with_NativeGpuFence(true).with_No64BitAtomics(true),
        features: FEATURES,
        ..SOUND
    });
    assert_eq!(error, StartError::NativeFenceWithout64BitAtomics);
    let error = refused(Mutant {
        caps: |caps| caps.SchedulingCaps.set_OptimizedNativeFenceSignaledInterrupt(true),
        features: FEATURES,
        ..SOUND
    });
    assert_eq!(error, StartError::OptimizedInterruptWithoutNativeFence);
    let error = refused(Mutant { caps: native, features: FEATURES, ..SOUND });
    assert!(matches!(error, StartError::NativeFenceCaps(_)));
    let error = refused(Mutant {
        caps: native,
        features: FEATURES,
        native_fence_caps: Some(DXGK_NATIVE_FENCE_CAPS { MaximumAddress: 1 << 39, ..Zeroed::zeroed() }),
        ..SOUND
    });
    let missing = StartError::MissingDdi { slot: "DxgkDdiCreateNativeFence", rule: "NativeGpuFence" };
    assert_eq!(error, missing);
    for stride in [1, 4, 12, 4104, 8192, u32::MAX] {
        let caps = DXGK_NATIVE_FENCE_CAPS { MonitoredValueStride: stride, MaximumAddress: 1 << 39, ..Zeroed::zeroed() };
        let error = refused(Mutant { caps: native, features: FEATURES, native_fence_caps: Some(caps), ..SOUND });
        assert!(error.to_string().contains("a multiple of 8 up to 4096"), "{stride}: {error}");
    }
}

#[test]
fn test_command_buffers_need_the_feature() {
    let builds = |node: &mut DXGK_NODEMETADATA| node.Flags = { node.Flags }.with_SupportBuildTestCommandBuffer(true);
    assert_eq!(refused(Mutant { node: builds, ..SOUND }), StartError::KernelModeTestingNotEnabled(0));
}

#[test]
fn user_mode_submission_needs_the_feature_its_caps_and_its_ddis() {
    let error = refused(Mutant { node: |node| node.Flags = { node.Flags }.with_UserModeSubmission(true), ..SOUND });
    assert_eq!(error, StartError::UserModeSubmissionNotEnabled(0));
    const ALL: &[DXGK_FEATURE_ID] = &[
        DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH,
        DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE,
        DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION,
    ];
    let error = refused(Mutant { features: ALL, ..SOUND });
    assert!(matches!(error, StartError::UserModeSubmissionCaps(_)));
    let mut caps = DXGK_USERMODESUBMISSION_CAPS::zeroed();
    caps.DoorbellSizeInBytes = 4096;
    let error = refused(Mutant { features: ALL, submission_caps: Some(caps), ..SOUND });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiCreateDoorbell", .. }));
    caps.DoorbellSizeInBytes = 0;
    let error = refused(Mutant { features: ALL, submission_caps: Some(caps), ..SOUND });
    assert!(matches!(error, StartError::UserModeSubmissionCaps(_)));
}

#[test]
fn scheduling_caps_need_multi_engine_awareness() {
    let error = refused(Mutant { caps: |caps| caps.SchedulingCaps.set_MultiEngineAware(false), ..SOUND });
    assert_eq!(error, StartError::SchedulingCapWithoutMultiEngine("PreemptionAware"));
    let error = refused(Mutant {
        caps: |caps| caps.SchedulingCaps = DXGK_VIDSCHCAPS::new().with_CancelCommandAware(true),
        ..SOUND
    });
    assert_eq!(error, StartError::SchedulingCapWithoutMultiEngine("CancelCommandAware"));
}

#[test]
fn engine_resets_are_mandatory_and_need_their_ddis() {
    let error = refused(Mutant { caps: |caps| caps.SupportPerEngineTDR = 0, ..SOUND });
    assert_eq!(error, StartError::PerEngineTdrRequired);
    let error = refused(Mutant { table: |table| table.DxgkDdiResetEngine = None, ..SOUND });
    assert_eq!(error, StartError::PerEngineTdrWithoutDdi("DxgkDdiResetEngine"));
    let error = refused(Mutant { table: |table| table.DxgkDdiCollectDbgInfo = None, ..SOUND });
    assert_eq!(error, StartError::PerEngineTdrWithoutDdi("DxgkDdiCollectDbgInfo"));
}

#[test]
fn missing_and_forbidden_ddis_are_named() {
    let error = refused(Mutant { table: |table| table.DxgkDdiCalibrateGpuClock = None, ..SOUND });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiCalibrateGpuClock", .. }));
    let error = refused(Mutant { table: |table| table.DxgkDdiGetNodeMetadata = None, ..SOUND });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiGetNodeMetadata", .. }), "{error}");
    let error = refused(Mutant { table: |table| table.DxgkDdiSuspendContext = None, ..SOUND });
    let missing = StartError::MissingDdi { slot: "DxgkDdiSuspendContext", rule: "hardware scheduling" };
    assert_eq!(error, missing);
    let error = refused(Mutant { table: |table| table.DxgkDdiCommitVidPn = Some(filled), ..SOUND });
    assert_eq!(error, StartError::ForbiddenDdi("DxgkDdiCommitVidPn"));
}

/// A node whose metadata says that it takes hardware contexts has the functions for them. [d3dkmdt: DXGK_NODEMETADATA_FLAGS]
#[test]
fn a_node_with_hardware_contexts_needs_their_ddis() {
    let node = |node: &mut DXGK_NODEMETADATA| node.Flags = { node.Flags }.with_ContextSchedulingSupported(true);
    const RULE: &str = "ContextSchedulingSupported of a node";
    for version in INTERFACE_VERSIONS.iter().filter(|version| version.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_7) {
        let error = refused(Mutant {
            version,
            node,
            features: &[],
            table: |table| table.DxgkDdiSubmitCommandToHwQueue = None,
            ..SOUND
        });
        assert_eq!(error, StartError::MissingDdi { slot: "DxgkDdiSubmitCommandToHwQueue", rule: RULE });
        assert!(error.to_string().contains(RULE), "{error}");
        let error = refused(Mutant {
            version,
            node,
            features: &[],
            table: |table| {
                table.DxgkDdiCreateHwContext = None;
                table.DxgkDdiCreateHwQueue = None;
                table.DxgkDdiSubmitCommandToHwQueue = None;
            },
            ..SOUND
        });
        assert_eq!(error, StartError::MissingDdi { slot: "DxgkDdiCreateHwContext", rule: RULE }, "{}", version.name);
    }
}

#[test]
fn dma_buffers_lie_in_aperture_segments_only() {
    let error = refused(Mutant { segment_out: |out| out.PagingBufferSegmentId = 2, ..SOUND });
    assert_eq!(error, StartError::PagingBufferSegment(2));
    let error = refused(Mutant { dma_buffer_segment_set: 0b10, ..SOUND });
    assert_eq!(error, StartError::DmaBufferSegmentSet { node: 0, set: 0b10 });
}

#[test]
fn a_cpu_host_aperture_segment_is_last_and_not_cpu_visible() {
    let error = refused(Mutant { segments: |[_, vram]| vram.Flags.set_SupportsCpuHostAperture(true), ..SOUND });
    assert_eq!(error, StartError::CpuHostApertureCpuVisible(2));
    let error = refused(Mutant {
        segments: |segments| {
            segments.swap(0, 1);
            segments[0].Flags = DXGK_SEGMENTFLAGS::new().with_SupportsCpuHostAperture(true);
        },
        ..SOUND
    });
    assert_eq!(error, StartError::CpuHostApertureNotLast(1));
}

#[test]
fn segments_that_contradict_themselves_are_refused() {
    let reason = |segments: fn(&mut [DXGK_SEGMENTDESCRIPTOR4; 2])| match refused(Mutant { segments, ..SOUND }) {
        StartError::Segment { id, reason } => (id, reason),
        other => panic!("{other}"),
    };
    assert_eq!(reason(|[_, vram]| vram.Flags.set_Agp(true)).0, 2);
    assert_eq!(reason(|[_, vram]| vram.Flags.set_CacheCoherent(true)).0, 2);
    assert_eq!(reason(|[_, vram]| vram.Flags.set_PreservedDuringHibernate(true)).0, 2);
    assert_eq!(reason(|[_, vram]| vram.Size = 100).0, 2);
    assert_eq!(reason(|[_, vram]| vram.BaseAddress.QuadPart = 1).0, 2);
    assert_eq!(reason(|[_, vram]| vram.CommitLimit = usize::MAX).0, 2);
    assert_eq!(reason(|[_, vram]| vram.u.CpuTranslatedAddress.QuadPart = 4096).0, 2);
    assert_eq!(reason(|[_, vram]| vram.Flags = DXGK_SEGMENTFLAGS::new().with_Aperture(true)).0, 2);
    assert_eq!(refused(Mutant { segment_out: |out| out.NbSegment = 0, ..SOUND }), StartError::SegmentCount(0));
}

#[test]
fn history_buffer_precision_is_32_to_64_bits() {
    for bits in [0, 31, 65] {
        let error = refused(Mutant { precision: bits, ..SOUND });
        assert_eq!(error, StartError::HistoryBufferPrecision { node: 0, bits });
        assert_eq!(error.status().0 as u32, 0xc000_0182);
    }
}

#[test]
fn a_node_has_a_known_type_and_a_name_with_an_end() {
    for (mutant, told) in [
        (
            Mutant { node: |node| node.EngineType.0 = 10, ..SOUND },
            "answered EngineType 10, which is none of DXGK_ENGINE_TYPE: 0 to 9",
        ),
        (Mutant { node: |node| node.EngineType.0 = -1, ..SOUND }, "answered EngineType -1"),
        (
            Mutant { node: |node| node.FriendlyName = [0x20; 32], ..SOUND },
            "none of its 32 characters is the zero at its end",
        ),
        (
            Mutant { node: |node| (node.EngineType.0, node.FriendlyName) = (0, [0; 32]), ..SOUND },
            "it is empty, and EngineType is DXGK_ENGINE_TYPE_OTHER",
        ),
    ] {
        let error = refused(mutant).to_string();
        assert!(error.starts_with("DxgkDdiGetNodeMetadata of node 0 answered ") && error.contains(told), "{error}");
        assert!(error.ends_with("[d3dkmdt: DXGK_NODEMETADATA]"), "{error}");
    }
}

#[test]
fn adapter_nodes_and_version_sites_agree() {
    let error = refused(Mutant { node: |node| node.GpuMmuSupported = 0, ..SOUND });
    assert_eq!(error, StartError::NodeGpuMmu(0));
    let error = refused(Mutant { node: |node| node.IoMmuSupported = 1, ..SOUND });
    assert_eq!(error, StartError::NodeIoMmu(0));
    let error = refused(Mutant { caps: |caps| caps.WDDMVersion = DXGK_WDDMVERSION::DXGKDDI_WDDMv3_1, ..SOUND });
    let mismatch = |site| StartError::VersionMismatch { site, found: 0x3100, expected: 0x3200 };
    assert_eq!(error, mismatch("DRIVERCAPS.WDDMVersion"));
    let error = refused(Mutant { device_caps: |caps| caps.WDDMVersion = DXGK_WDDMVERSION::DXGKDDI_WDDMv3_1, ..SOUND });
    assert_eq!(error, mismatch("WDDMDEVICECAPS.WDDMVersion"));
    let error = refused(Mutant { caps: |caps| caps.MemoryManagementCaps.PagingNode = 1, ..SOUND });
    assert_eq!(error, StartError::PagingNode(1));
    let none = |caps: &mut DXGK_DRIVERCAPS| caps.GpuEngineTopology.NbAsymetricProcessingNodes = 0;
    assert_eq!(refused(Mutant { caps: none, ..SOUND }), StartError::NodeCount(0));
}

#[test]
fn the_adapter_reaches_all_memory_without_an_iommu() {
    let error = refused(Mutant {
        caps: |caps| caps.HighestAcceptableAddress = LARGE_INTEGER { QuadPart: (32 << 20) - 1 },
        ..SOUND
    });
    assert_eq!(error, StartError::HighestAcceptableAddress { found: (32 << 20) - 1, needed: (64 << 20) - 1 });
    let error =
        refused(Mutant { caps: |caps| caps.MemoryManagementCaps.Bits.set_IoMmuSecureModeRequired(true), ..SOUND });
    assert_eq!(error, StartError::IoMmuSecureModeRequired);
}

#[test]
fn an_adapter_without_displays_is_not_the_boot_display() {
    let error = refused(Mutant { class: 0x03_0000, ..SOUND });
    assert_eq!(error, StartError::RenderOnlyOnPostDevice);
    assert_eq!(error.status().0 as u32, 0xc01e_0004);
}

#[test]
fn only_compute_only_adapters_may_lack_a_user_mode_driver() {
    let render = Mutant { caps: |caps| caps.MiscCaps.set_ComputeOnly(false), table: table::fill_for_displays, ..SOUND };
    let error = refused(render);
    assert_eq!((error.clone(), error.status()), (StartError::NoUserModeDriver, STATUS_OBJECT_NAME_NOT_FOUND));
    let bench = Bench::new(render).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    assert!(bench.start().is_ok());
}

#[test]
fn page_tables_add_up() {
    let reason = |mutant: Mutant| matches!(refused(mutant), StartError::PageTables(_));
    assert!(reason(Mutant { mmu: |caps| caps.PageTableLevelCount = 7, ..SOUND }));
    assert!(reason(Mutant { mmu: |caps| caps.VirtualAddressBitCount = 40, ..SOUND }));
    assert!(reason(Mutant { level: |level| level.PageTableSizeInBytes = 100, ..SOUND }));
    assert!(reason(Mutant { level: |level| level.PageTableSegmentId = 3, ..SOUND }));
    let big = |level: &mut DXGK_PAGE_TABLE_LEVEL_DESC| {
        (level.PageTableSegmentId, level.PageTableSizeInBytes) = (0, 8192);
    };
    assert!(reason(Mutant { level: big, ..SOUND }));
    // A fourth way to write them.
    assert!(reason(Mutant { mmu: |caps| caps.PageTableUpdateMode = DXGK_PAGETABLEUPDATEMODE(3), ..SOUND }));
    assert!(reason(Mutant { mmu: |caps| caps.PageTableUpdateMode = DXGK_PAGETABLEUPDATEMODE(-1), ..SOUND }));
}

#[test]
fn a_driver_whose_page_tables_want_idle_address_spaces_is_refused_by_name() {
    let mutant = Mutant { mmu: |caps| caps.Bits.set_PageTableUpdateRequireAddressSpaceIdle(true), ..SOUND };
    let text = refused(mutant).to_string();
    assert!(
        text.contains("PageTableUpdateRequireAddressSpaceIdle") && text.ends_with("[d3dkmddi: DXGK_GPUMMUCAPS]"),
        "{text}"
    );
}

#[test]
fn a_feature_is_enabled_only_with_everything_it_builds_on() {
    const SUBMISSION_ONLY: &[DXGK_FEATURE_ID] =
        &[DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH, DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION];
    let mutant = Mutant { features: SUBMISSION_ONLY, in_start: ask_features, ..SOUND };
    let bench = Bench::new(mutant).unwrap();
    bench.start().expect("without native fences there is no user-mode submission to describe");
    let features = FeaturePolicy { hardware_scheduling: false, ..FeaturePolicy::default() };
    let config = MachineConfig { ram: 64 << 20, features, ..MachineConfig::default() };
    let node = |node: &mut DXGK_NODEMETADATA| node.Flags = { node.Flags }.with_ContextSchedulingSupported(false);
    let bench =
        Bench::with_config(Mutant { table: |table| table.DxgkDdiCreateHwContext = None, node, ..SOUND }, config);
    bench.unwrap().start().expect("without hardware scheduling its DDIs are not needed");
}

/// (enabled, by driver, on this configuration) of a feature.
fn ask(adapter: &crate::minimal::Adapter, id: DXGK_FEATURE_ID) -> Result<(bool, bool, bool), NTSTATUS> {
    let mut args = DXGKARGCB_ISFEATUREENABLED2::zeroed();
    args.FeatureId = id;
    // SAFETY: handle and place are good.
    unsafe { adapter.features.IsFeatureEnabled.unwrap()(adapter.handle, &raw mut args) }.ok()?;
    let bits = args.Result.Bits;
    Ok((bits.Enabled(), bits.SupportedByDriver(), bits.SupportedOnCurrentConfig()))
}

fn ask_features(adapter: &mut crate::minimal::Adapter) {
    assert_eq!(ask(adapter, DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH), Ok((true, true, true)));
    assert_eq!(ask(adapter, DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE), Ok((false, false, false)));
    assert_eq!(ask(adapter, DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION), Ok((false, true, true)));
    assert_eq!(ask(adapter, DXGK_FEATURE_ID::DXGK_FEATURE_HWFLIPQUEUE), Ok((false, false, false)));
    assert_eq!(ask(adapter, DXGK_FEATURE_ID(0x0fff_ffff)), Err(STATUS_INVALID_PARAMETER));
    let mut legacy = DXGKARGCB_ISFEATUREENABLED { DeviceHandle: adapter.handle, ..Zeroed::zeroed() };
    // SAFETY: handle and place are good.
    let status = unsafe { adapter.interface.DxgkCbIsFeatureEnabled.unwrap()(&raw mut legacy) };
    assert_eq!((status, legacy.Enabled), (STATUS_SUCCESS, 1));
}

#[test]
fn pool_that_is_left_at_unload_is_named_by_tag() {
    let bench = Bench::new(Mutant { in_start: |adapter| adapter.forgotten = allocate(100), ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    bench.machine.remove(luid).unwrap();
    let Err(PnpError::Stopped(bugcheck)) = bench.machine.unload(bench.driver) else { panic!("a leak must be noticed") };
    assert_eq!((bugcheck.code, bugcheck.parameters[0], bugcheck.parameters[3]), (0xc4, 0x62, 1));
    assert!(bugcheck.reason.contains("'mini' 100 bytes in 1 blocks"), "{}", bugcheck.reason);
}

#[test]
fn an_irql_that_is_left_raised_stops_the_machine() {
    let bugcheck = stops(Mutant {
        in_start: |adapter| {
            adapter.forgotten = allocate(8);
            // SAFETY: the block is a lock word that nobody else uses.
            unsafe { (imports().KeAcquireSpinLockRaiseToDpc)(adapter.forgotten.cast()) };
        },
        ..SOUND
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc8, 2 << 16));
    assert!(bugcheck.reason.contains("DxgkDdiStartDevice"), "{}", bugcheck.reason);
}

#[test]
fn a_callback_at_the_wrong_irql_stops_the_machine_and_does_not_return() {
    let bugcheck = stops(Mutant {
        in_start: |adapter| {
            let data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
            // SAFETY: handle and data are good.
            unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
            unreachable!("the callback must not return");
        },
        ..SOUND
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[1]), (0xd1, 0));
    assert!(bugcheck.reason.contains("DxgkCbNotifyInterrupt"), "{}", bugcheck.reason);
}

#[test]
fn a_foreign_device_handle_stops_the_machine() {
    let bugcheck = stops(Mutant {
        in_start: |adapter| {
            // SAFETY: the handle is only compared.
            unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle.wrapping_byte_add(0x10_0000)) };
        },
        ..SOUND
    });
    assert_eq!(bugcheck.code, 0x113);
    assert!(bugcheck.reason.contains("DxgkCbQueueDpc"), "{}", bugcheck.reason);
}

#[test]
fn a_driver_that_calls_bugcheck_stops_its_machine_and_no_other() {
    let other = Bench::new(SOUND).unwrap();
    let luid = other.start().unwrap();
    let bugcheck = stops(Mutant {
        // SAFETY: no pointers among the arguments.
        in_start: |_| unsafe { (imports().KeBugCheckEx)(0xcafe, 1, 2, 3, 4) },
        ..SOUND
    });
    assert_eq!((bugcheck.code, bugcheck.parameters), (0xcafe, [1, 2, 3, 4]));
    assert_eq!(other.machine.bugcheck(), None);
    other.machine.remove(luid).unwrap();
}

#[test]
fn contiguous_memory_that_is_left_at_stop_is_fatal() {
    let bench = Bench::new(Mutant { in_start: take_contiguous_memory, ..SOUND }).unwrap();
    let luid = bench.start().unwrap();
    let Err(PnpError::Stopped(bugcheck)) = bench.machine.stop(luid) else { panic!("a leak must be noticed") };
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x1e4, 6));
}

fn take_contiguous_memory(adapter: &mut crate::minimal::Adapter) {
    let mut args = DXGKARGCB_ALLOCATECONTIGUOUSMEMORY::zeroed();
    args.NumberOfBytes = 10_000;
    args.HighestAcceptableAddress = LARGE_INTEGER { QuadPart: -1 };
    // SAFETY: handle and place are good.
    let status = unsafe { adapter.interface.DxgkCbAllocateContiguousMemory.unwrap()(adapter.handle, &raw mut args) };
    assert_eq!(status, STATUS_SUCCESS);
    // SAFETY: the memory has 10000 bytes.
    unsafe { args.pMemory.cast::<u8>().wrapping_add(9_999).write_volatile(1) };
    // SAFETY: the memory was just allocated.
    let physical = unsafe { (imports().MmGetPhysicalAddress)(args.pMemory) };
    assert!((4096..64 << 20).contains(&physical.QuadPart));
}

#[test]
fn pool_with_a_wrong_tag_and_freed_twice_is_a_stop() {
    let bugcheck = stops(Mutant {
        in_start: |_| {
            let block = allocate(8);
            // SAFETY: the block came from `allocate`.
            unsafe { (imports().ExFreePoolWithTag)(block, TAG ^ 1) };
        },
        ..SOUND
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc2, 0xa));
    let bugcheck = stops(Mutant {
        in_start: |_| {
            // SAFETY: a plain request, which is wrong.
            unsafe { (imports().ExAllocatePool2)(POOL_FLAG_NON_PAGED, 0, TAG) };
        },
        ..SOUND
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc4, 0x0));
}

#[test]
fn synchronized_execution_is_refused_before_the_interrupt_is_connected() {
    unsafe extern "win64" fn routine(_: *mut c_void) -> u8 {
        1
    }
    let bench = Bench::new(Mutant {
        in_start: |adapter| {
            let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
            let mut result = 0;
            // SAFETY: all arguments are good.
            let status =
                unsafe { synchronize(adapter.handle, Some(routine), std::ptr::null_mut(), 0, &raw mut result) };
            assert_eq!((status, result), (STATUS_UNSUCCESSFUL, 0));
        },
        in_stop: |adapter| {
            let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
            let mut result = 0;
            // SAFETY: all arguments are good.
            let status =
                unsafe { synchronize(adapter.handle, Some(routine), std::ptr::null_mut(), 0, &raw mut result) };
            assert_eq!((status, result), (STATUS_SUCCESS, 1));
        },
        ..SOUND
    });
    let bench = bench.unwrap();
    let luid = bench.start().unwrap();
    bench.machine.stop(luid).unwrap();
}
