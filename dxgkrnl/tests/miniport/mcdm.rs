//! The guidelines for drivers of compute-only adapters, rule by rule: a driver that breaks one is refused, and the error says which.
//! [mcdm-implementation-guidelines]

use std::cell::Cell;

use crate::minimal::{Bench, Mutant, ReservedMemory, SOUND, table};
use dxgkrnl::{LoadError, StartError};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS};
use wddm_ddi::types::HANDLE;

fn refused(mutant: Mutant) -> StartError {
    Bench::new(mutant).expect("the table is sound").start().expect_err("a rule is broken")
}

/// Breaks one rule about a member of DRIVERCAPS.
type Broken = (&'static str, fn(&mut DXGK_DRIVERCAPS));

macro_rules! nonzero {
    ($($member:ident),* $(,)?) => { [$((stringify!($member), |caps| caps.$member = 1)),*] };
}

macro_rules! bit {
    ($name:literal, $word:expr, $value:literal: $($bit:ident => $set:ident),* $(,)?) => {
        [$((concat!($name, ".", stringify!($bit)), |caps| $word(caps).$set($value))),*]
    };
}

fn misc(caps: &mut DXGK_DRIVERCAPS) -> &mut DXGK_DRIVERCAPS_MiscCaps {
    &mut caps.MiscCaps
}

fn scheduling(caps: &mut DXGK_DRIVERCAPS) -> &mut DXGK_VIDSCHCAPS {
    &mut caps.SchedulingCaps
}

fn memory(caps: &mut DXGK_DRIVERCAPS) -> &mut DXGK_VIDMMCAPS_Bits {
    &mut caps.MemoryManagementCaps.Bits
}

/// Members that must be zero or FALSE.
const ZERO: [Broken; 18] = nonzero! {
    MaxAllocationListSlotId, ApertureSegmentCommitLimit, MaxPointerWidth, MaxPointerHeight, NumberOfSwizzlingRanges, MaxOverlays,
    MaxQueuedFlipOnVSync, SupportNonVGA, SupportSmoothRotation, SupportDirectFlip, SupportMultiPlaneOverlay, MaxOverlayPlanes,
    SupportMultiPlaneOverlayImmediateFlip, CursorScaledWithMultiPlaneOverlayPlane0, HybridAcpiChainingRequired,
    MaxQueuedMultiPlaneOverlayFlipVSync, HybridDiscrete, HybridIntegrated,
};
/// Members that are made of bits, of which none may be set.
const WORDS: [Broken; 4] = [
    ("PointerCaps", |caps| caps.PointerCaps.set_Color(true)),
    ("PresentationCaps", |caps| caps.PresentationCaps.set_SupportAllBltRops(true)),
    ("FlipCaps", |caps| caps.FlipCaps.set_FlipOnVSyncMmIo(true)),
    ("GammaRampCaps and ColorTransformCaps", |caps| {
        caps.u.GammaRampCaps = DXGK_GAMMARAMPCAPS::new().with_Gamma_Rgb256x3x16(true);
    }),
];
const MISC: [Broken; 2] = bit! { "MiscCaps", misc, true: SupportContextlessPresent => set_SupportContextlessPresent, Detachable => set_Detachable };
const SCHEDULING: [Broken; 2] = bit! { "SchedulingCaps", scheduling, true: VSyncPowerSaveAware => set_VSyncPowerSaveAware, NoDmaPatching => set_NoDmaPatching };
const SCHEDULING_NEEDED: [Broken; 2] = bit! { "SchedulingCaps", scheduling, false:
    PreemptionAware => set_PreemptionAware, LowIrqlPreemptCommand => set_LowIrqlPreemptCommand,
};
const MEMORY: [Broken; 6] = bit! { "MemoryManagementCaps", memory, true:
    OutOfOrderLock => set_OutOfOrderLock, DedicatedPagingEngine => set_DedicatedPagingEngine,
    PagingEngineCanSwizzle => set_PagingEngineCanSwizzle, SectionBackedPrimary => set_SectionBackedPrimary,
    ReplicateGdiContent => set_ReplicateGdiContent, NonCpuVisiblePrimary => set_NonCpuVisiblePrimary,
};
const MEMORY_NEEDED: [Broken; 2] = bit! { "MemoryManagementCaps", memory, false:
    VirtualAddressingSupported => set_VirtualAddressingSupported,
    ParavirtualizationSupported => set_ParavirtualizationSupported,
};
const OTHERS: [Broken; 4] = [
    ("SchedulingCaps.MultiEngineAware", |caps| {
        // Alone: with others that need it, the error names those.
        caps.SchedulingCaps = DXGK_VIDSCHCAPS::new().with_LowIrqlPreemptCommand(true);
    }),
    ("SchedulingCaps.HwQueuePacketCap", |caps| caps.SchedulingCaps.set_HwQueuePacketCap(1)),
    ("PreemptionCaps.ComputePreemptionGranularity", |caps| caps.PreemptionCaps = Zeroed::zeroed()),
    ("MemoryManagementCaps.GpuMmuSupported or IoMmuSupported", |caps| memory(caps).set_GpuMmuSupported(false)),
];

#[test]
fn each_member_of_the_capabilities_is_what_the_guidelines_say() {
    let broken = ZERO.iter().chain(&WORDS).chain(&MISC).chain(&SCHEDULING).chain(&SCHEDULING_NEEDED);
    for (member, caps) in broken.chain(&MEMORY).chain(&MEMORY_NEEDED).chain(&OTHERS) {
        let error = refused(Mutant { caps: *caps, ..SOUND });
        assert!(matches!(error, StartError::McdmCaps { member: named, .. } if named == *member), "{member}: {error}");
        assert!(error.to_string().contains(member), "{error}");
    }
}

#[test]
fn the_rules_are_those_of_compute_only_adapters() {
    let render = Mutant {
        caps: |caps| {
            caps.MiscCaps.set_ComputeOnly(false);
            caps.FlipCaps.set_FlipOnVSyncMmIo(true);
            caps.ApertureSegmentCommitLimit = 1 << 20;
        },
        table: table::fill_for_displays,
        ..SOUND
    };
    let bench = Bench::new(render).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    assert!(bench.start().is_ok());
    let refused_render = |caps| {
        let bench = Bench::new(Mutant { caps, ..render }).unwrap();
        bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
        bench.start().expect_err("a rule is broken")
    };
    let error = refused_render(|caps| {
        caps.MiscCaps.set_ComputeOnly(false);
        memory(caps).set_VirtualAddressingSupported(false);
    });
    assert_eq!(error, StartError::GpuMmuWithoutVirtualAddressing);
    let error = refused_render(|caps| {
        caps.MiscCaps.set_ComputeOnly(false);
        memory(caps).set_GpuMmuSupported(false);
    });
    assert_eq!(error, StartError::NoGpuMmu);
    let incomplete = Mutant { caps: |caps| caps.MiscCaps.set_ComputeOnly(false), ..SOUND };
    let bench = Bench::new(incomplete).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    let error = bench.start().expect_err("it has no DxgkDdiNotifyAcpiEvent");
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiNotifyAcpiEvent", .. }), "{error}");
}

thread_local! {
    /// The slot that [`flip`] changes.
    static SLOT: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "win64" fn filled() {}

/// Fills the slot if it is NULL, and makes it NULL otherwise.
fn flip(table: &mut DRIVER_INITIALIZATION_DATA) {
    let slots = std::ptr::from_mut(table).cast::<usize>();
    // SAFETY: behind the version (8 bytes with padding) the table is an array of pointer slots, of which this is one.
    let slot = unsafe { &mut *slots.wrapping_add(1 + SLOT.get()) };
    *slot = if *slot == 0 { filled as *const () as usize } else { 0 };
}

/// The answer to loading or starting a driver whose table differs in one slot from that of the correct driver.
fn with_flipped(name: &str) -> Result<StartError, LoadError> {
    SLOT.set(SLOT_NAMES.iter().position(|slot| *slot == name).expect("it is a slot"));
    let bench = Bench::new(Mutant { table: flip, ..SOUND })?;
    Ok(bench.start().expect_err("a rule is broken"))
}

/// "Minimum required support", without DxgkDdiQueryConnectionChange, which the page prohibits as well.
const REQUIRED: &str = "AddDevice BuildPagingBuffer CalibrateGpuClock CloseAllocation CollectDbgInfo CreateAllocation CreateContext CreateDevice \
    DescribeAllocation DestroyAllocation DestroyContext DestroyDevice DpcRoutine FormatHistoryBuffer GetNodeMetadata \
    GetStandardAllocationDriverData InterruptRoutine OpenAllocation PreemptCommand QueryAdapterInfo QueryDependentEngineGroup \
    QueryDeviceDescriptor QueryEngineStatus RemoveDevice ResetDevice ResetEngine ResetFromTimeout RestartFromTimeout SetPowerState \
    SetStablePowerState SetVirtualMachineData StartDevice StopDevice Unload QueryChildStatus QueryChildRelations";
/// What GPU virtual addresses and hardware scheduling, which the sound driver has, need besides.
const REQUIRED_HERE: &str = "CreateProcess DestroyProcess GetRootPageTableSize SetRootPageTable SubmitCommandVirtual CreateHwContext CreateHwQueue \
    DestroyHwContext DestroyHwQueue PresentToHwQueue ResetHwEngine ResumeContext ResumeHwEngine SetContextSchedulingProperties \
    SetSchedulingLogBuffer SetupPriorityBands SignalMonitoredFence SubmitCommandToHwQueue SuspendContext SwitchToHwContextList \
    UpdateHwContextState";
/// Optional ones that the sound driver has.
const OPTIONAL_HERE: &str = "QueryInterface ControlEtwLogging DispatchIoRequest PowerRuntimeControlRequest";
/// "Prohibited functions" and "WDDM 1.x functions", without DxgkDdiQueryConnectionChange.
const PROHIBITED: &str = "AcquireSwizzlingRange CheckMultiPlaneOverlaySupport CheckMultiPlaneOverlaySupport2 CheckMultiPlaneOverlaySupport3 \
    CommitVidPn ControlDiagnosticReporting ControlInterrupt ControlInterrupt2 ControlModeBehavior CreateOverlay \
    CreatePeriodicFrameNotification CreateProtectedSession DestroyOverlay DestroyPeriodicFrameNotification DestroyProtectedSession \
    DisplayDetectControl EnumVidPnCofuncModality ExchangePreStartInfo FlipOverlay GetMultiPlaneOverlayCaps GetPostCompositionCaps \
    GetScanLine IsSupportedVidPn NotifyAcpiEvent NotifyFocusPresent PostMultiPlaneOverlayPresent Present QueryCurrentFence \
    QueryDiagnosticTypesSupport QueryVidPnHWCapability RecommendFunctionalVidPn RecommendMonitorModes RecommendVidPnTopology \
    ReleaseSwizzlingRange RenderGdi RenderKm SetDisplayPrivateDriverFormat SetPalette SetPointerPosition SetPointerShape SetPowerPState \
    SetTargetAdjustedColorimetry SetTargetAdjustedColorimetry2 SetTargetAnalogCopyProtection SetTargetContentType SetTargetGamma \
    SetTimingsFromVidPn SetVideoProtectedRegion SetVidPnSourceAddress SetVidPnSourceAddressWithMultiPlaneOverlay \
    SetVidPnSourceAddressWithMultiPlaneOverlay2 SetVidPnSourceAddressWithMultiPlaneOverlay3 SetVidPnSourceVisibility StopCapture \
    StopDeviceAndReleasePostDisplayOwnership SubmitRender SystemDisplayEnable SystemDisplayWrite UpdateActiveVidPnPresentPath \
    UpdateMonitorLinkInfo UpdateOverlay";

fn ddis(list: &str) -> impl Iterator<Item = String> {
    list.split_whitespace().map(|name| format!("DxgkDdi{name}"))
}

#[test]
fn each_ddi_that_must_be_there_is_named_when_it_is_null() {
    let table = table::table();
    let is_filled = |name: &&str| {
        let index = SLOT_NAMES.iter().position(|slot| slot == name).expect("it is a slot");
        // SAFETY: as for `flip`.
        unsafe { *std::ptr::from_ref(&table).cast::<usize>().wrapping_add(1 + index) != 0 }
    };
    let mut expected: Vec<String> = ddis(REQUIRED).chain(ddis(REQUIRED_HERE)).collect();
    assert_eq!((ddis(REQUIRED).count(), expected.len()), (36, 57));
    for name in &expected {
        match with_flipped(name) {
            // Those of plug and play are looked at by DxgkInitialize.
            Err(LoadError::MissingSlot(slot)) => assert_eq!(slot, name),
            Ok(StartError::MissingDdi { slot, .. } | StartError::PerEngineTdrWithoutDdi(slot)) => {
                assert_eq!(slot, name)
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    expected.extend(ddis(OPTIONAL_HERE));
    expected.sort();
    let mut has: Vec<&str> = SLOT_NAMES.iter().filter(|name| is_filled(name)).copied().collect();
    has.sort_unstable();
    assert_eq!(has, expected, "the sound driver has a DDI that no list has, or lacks one");
}

#[test]
fn each_ddi_that_must_not_be_there_is_named_when_it_is_filled() {
    assert_eq!(ddis(PROHIBITED).count(), 61);
    for name in ddis(PROHIBITED) {
        match with_flipped(&name) {
            // Slots that belong to no driver at all are looked at by DxgkInitialize.
            Err(LoadError::ForbiddenSlot { slot, .. }) => {
                assert!(
                    ["DxgkDdiSubmitRender", "DxgkDdiSetPowerPState"].contains(&slot) && slot == name,
                    "{name}: {slot}"
                );
            }
            Ok(StartError::ForbiddenDdi(slot)) => assert_eq!(slot, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn power_management_and_iommu_isolation_need_their_ddis() {
    let managed: fn(&mut DXGK_DRIVERCAPS) = |caps| caps.SupportRuntimePowerManagement = 1;
    let without: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| {
        table::fill_fstates(table);
        table.DxgkDdiPowerRuntimeControlRequest = None;
    };
    let error = refused(Mutant { caps: managed, table: without, ..SOUND });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiPowerRuntimeControlRequest", .. }), "{error}");
    let sound = Mutant { caps: managed, table: table::fill_fstates, ..SOUND };
    assert!(Bench::new(sound).unwrap().start().is_ok());
    let isolated = ReservedMemory { save_size: Some(0), ranges: Some(&[]), ..SOUND.reserved };
    let isolated = Mutant { caps: isolation, reserved: isolated, ..SOUND };
    let error = refused(isolated);
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiBeginExclusiveAccess", .. }), "{error}");
    let error = refused(Mutant { table: |table| table.DxgkDdiBeginExclusiveAccess = Some(filled), ..isolated });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiEndExclusiveAccess", .. }), "{error}");
    assert!(Bench::new(Mutant { table: fill_exclusive, ..isolated }).unwrap().start().is_ok());
}

fn isolation(caps: &mut DXGK_DRIVERCAPS) {
    memory(caps).set_IoMmuSecureModeSupported(true);
}

fn fill_exclusive(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiBeginExclusiveAccess = Some(filled);
    table.DxgkDdiEndExclusiveAccess = Some(filled);
}

/// The error is that the driver does not answer this question.
fn assert_unsupported(error: &StartError, name: &str) {
    let is_of_it = matches!(error, StartError::Query { query, status: STATUS_NOT_SUPPORTED, .. } if *query == name);
    assert!(is_of_it, "{name}: {error}");
}

#[test]
fn iommu_isolation_needs_its_queries_and_whole_pages_outside_of_memory() {
    let reserved = |save_size, ranges| {
        let reserved = ReservedMemory { save_size, ranges, ..SOUND.reserved };
        Bench::new(Mutant { caps: isolation, table: fill_exclusive, reserved, ..SOUND }).unwrap().start()
    };
    assert_unsupported(&reserved(None, Some(&[])).unwrap_err(), "FRAMEBUFFERSAVESIZE");
    assert_unsupported(&reserved(Some(0x2000), None).unwrap_err(), "HARDWARERESERVEDRANGES");
    let refused = |save_size, ranges| match reserved(Some(save_size), Some(ranges)) {
        Err(StartError::IoMmuIsolation(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(refused(0x2001, &[]).contains("not whole pages"));
    assert!(refused(0, &[(1 << 40, 4096), (4096, 4096)]).contains("memory of the system"));
    assert!(reserved(Some(0x2000), Some(&[(1 << 40, 4096)])).is_ok());
}

#[test]
fn invalid_ranges_of_a_segment_are_asked_for_and_lie_in_it() {
    let one: fn(&mut [DXGK_SEGMENTDESCRIPTOR4; 2]) = |segments| segments[1].NumInvalidMemoryRanges = 1;
    let invalid = |invalid| Mutant { segments: one, reserved: ReservedMemory { invalid, ..SOUND.reserved }, ..SOUND };
    let sound = invalid(&[(0x3000, 0x1000)]);
    assert!(Bench::new(sound).unwrap().start().is_ok());
    let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_SEGMENTMEMORYSTATE;
    let error = refused(Mutant { refuses: Some(kind), ..sound });
    assert_unsupported(&error, "SEGMENTMEMORYSTATE");
    let rule = |mutant| match refused(mutant) {
        StartError::Segment { id, reason } => (id, reason),
        other => panic!("{other}"),
    };
    for ranges in [&[(0, 0)], &[(crate::minimal::bus::VRAM_SIZE, 1)], &[(u64::MAX, 1)]] {
        assert_eq!(rule(invalid(ranges)), (2, "an invalid range is empty or not inside it".to_owned()));
    }
    assert_eq!(rule(invalid(&[])), (2, "SEGMENTMEMORYSTATE has 0 invalid ranges, its descriptor 1".to_owned()));
    let (id, reason) = rule(Mutant { segments: |segments| segments[0].NumInvalidMemoryRanges = 1, ..SOUND });
    assert!(id == 1 && reason.contains("memory segments only"), "{reason}");
    let (_, reason) = rule(Mutant { segments: |segments| segments[1].NumInvalidMemoryRanges = u32::MAX, ..SOUND });
    assert!(reason.contains("4096 are allowed"), "{reason}");
}

#[test]
fn the_number_of_power_components_is_answered_and_each_of_them_described() {
    let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_NUMPOWERCOMPONENTS;
    let refusing = Mutant { refuses: Some(kind), ..SOUND };
    assert_unsupported(&refused(refusing), "NUMPOWERCOMPONENTS");
    let render = |caps: &mut DXGK_DRIVERCAPS| caps.MiscCaps.set_ComputeOnly(false);
    let bench = Bench::new(Mutant { caps: render, table: table::fill_for_displays, ..refusing }).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    assert!(bench.start().is_ok(), "the rule is one of compute-only adapters");
    let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_POWERCOMPONENTINFO;
    let error = refused(Mutant { components: || vec![Zeroed::zeroed()], refuses: Some(kind), ..SOUND });
    assert_unsupported(&error, "POWERCOMPONENTINFO");
}

#[test]
fn a_query_that_must_be_refused_may_not_be_answered() {
    let queries = [
        (2, "QUERYSEGMENT"),
        (4, "QUERYSEGMENT2"),
        (5, "QUERYSEGMENT3"),
        (8, "PREFERREDGPUNODE"),
        (9, "POWERCOMPONENTPSTATEINFO"),
        (16, "DISPLAY_DRIVERCAPS_EXTENSION"),
        (17, "INTEGRATED_DISPLAY_DESCRIPTOR"),
        (18, "UEFIFRAMEBUFFERRANGES"),
        (19, "QUERYCOLORIMETRYOVERRIDES"),
        (20, "DISPLAYID_DESCRIPTOR"),
        (23, "INTEGRATED_DISPLAY_DESCRIPTOR2"),
        (28, "DEVICE_TYPE_CAPS"),
    ];
    for (kind, name) in queries {
        let error = refused(Mutant { answers: Some(DXGK_QUERYADAPTERINFOTYPE(kind)), ..SOUND });
        assert_eq!(error, StartError::McdmQuery(name), "query {kind}");
    }
}

thread_local! {
    /// The query that [`answer_exactly`] answers, and the sizes of question and answer that it insists on.
    static INSISTS: Cell<(i32, u32, u32)> = const { Cell::new((0, 0, 0)) };
}

/// A driver that answers one query more than it should, if both sizes are those of the structures. It reads what the answer holds.
unsafe extern "win64" fn answer_exactly(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let query = unsafe { &*args };
    let (kind, input, output) = INSISTS.get();
    if query.Type.0 != kind {
        // SAFETY: the arguments are those of the system.
        return unsafe { crate::minimal::answers::query_adapter_info(context, args) };
    }
    if (query.InputDataSize, query.OutputDataSize) != (input, output) || query.pInputData.is_null() != (input == 0) {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: the answer has so many bytes.
    let answer = unsafe { std::slice::from_raw_parts(query.pOutputData.cast::<u8>(), output as usize) };
    assert!(answer.iter().all(|byte| *byte == 0), "a pointer to descriptors that are not there");
    STATUS_SUCCESS
}

#[test]
fn a_query_that_must_be_refused_is_found_with_a_driver_that_insists_on_sizes() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| table.DxgkDdiQueryAdapterInfo = Some(answer_exactly);
    let query = |kind, input, output| {
        INSISTS.set((kind, input, output));
        Bench::new(Mutant { table, ..SOUND }).unwrap().start()
    };
    for (kind, input, output, name) in [
        (2, 24, 32, "QUERYSEGMENT"),
        (4, 0, 16, "QUERYSEGMENT2"),
        (5, 0, 32, "QUERYSEGMENT3"),
        (9, 4, 136, "POWERCOMPONENTPSTATEINFO"),
        (16, 0, 4, "DISPLAY_DRIVERCAPS_EXTENSION"),
        (17, 4, 264, "INTEGRATED_DISPLAY_DESCRIPTOR"),
        (18, 0, 16, "UEFIFRAMEBUFFERRANGES"),
        (19, 4, 52, "QUERYCOLORIMETRYOVERRIDES"),
        (20, 4, 264, "DISPLAYID_DESCRIPTOR"),
        (23, 4, 144, "INTEGRATED_DISPLAY_DESCRIPTOR2"),
        (28, 0, 4, "DEVICE_TYPE_CAPS"),
    ] {
        match query(kind, input, output) {
            Err(error) => assert_eq!(error, StartError::McdmQuery(name), "query {kind}"),
            Ok(_) => panic!("{name} was not found"),
        }
        assert!(query(kind, input, output + 4).is_ok(), "{name} in a larger buffer is refused");
    }
}
