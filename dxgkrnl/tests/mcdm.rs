//! The guidelines for drivers of compute-only adapters, rule by rule: a driver that breaks one is refused, and the error says which.
//! [mcdm-implementation-guidelines]

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;

use dxgkrnl::StartError;
use minimal::{Bench, Mutant, SOUND, table};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;

fn refused(mutant: Mutant) -> StartError {
    Bench::new(mutant).expect("the table is sound").start().expect_err("a rule is broken")
}

unsafe extern "win64" fn filled() {}

/// Fills a slot.
type Fill = fn(&mut DRIVER_INITIALIZATION_DATA);

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
const MEMORY_NEEDED: [Broken; 1] = bit! { "MemoryManagementCaps", memory, false:
    ParavirtualizationSupported => set_ParavirtualizationSupported,
};
const OTHERS: [Broken; 3] = [
    ("SchedulingCaps.MultiEngineAware", |caps| {
        // Alone: with others that need it, the error names those.
        caps.SchedulingCaps = DXGK_VIDSCHCAPS::new().with_LowIrqlPreemptCommand(true);
    }),
    ("SchedulingCaps.HwQueuePacketCap", |caps| caps.SchedulingCaps.set_HwQueuePacketCap(1)),
    ("PreemptionCaps.ComputePreemptionGranularity", |caps| caps.PreemptionCaps = Zeroed::zeroed()),
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
    let incomplete = Mutant { caps: |caps| caps.MiscCaps.set_ComputeOnly(false), ..SOUND };
    let bench = Bench::new(incomplete).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    let error = bench.start().expect_err("it has no DxgkDdiNotifyAcpiEvent");
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiNotifyAcpiEvent", .. }), "{error}");
}

#[test]
fn ddis_that_must_be_there_and_that_must_not_are_named() {
    let error = refused(Mutant { table: |table| table.DxgkDdiSetVirtualMachineData = None, ..SOUND });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiSetVirtualMachineData", .. }), "{error}");
    let error = refused(Mutant { table: |table| table.DxgkDdiPresentToHwQueue = None, ..SOUND });
    assert!(matches!(error, StartError::MissingDdi { slot: "DxgkDdiPresentToHwQueue", .. }), "{error}");
    let prohibited: [(&str, Fill); 4] = [
        ("DxgkDdiSetPointerShape", |table| table.DxgkDdiSetPointerShape = Some(filled)),
        ("DxgkDdiRenderKm", |table| table.DxgkDdiRenderKm = Some(filled)),
        ("DxgkDdiCreateProtectedSession", |table| table.DxgkDdiCreateProtectedSession = Some(filled)),
        ("DxgkDdiExchangePreStartInfo", |table| table.DxgkDdiExchangePreStartInfo = Some(filled)),
    ];
    for (slot, table) in prohibited {
        let error = refused(Mutant { table, ..SOUND });
        assert_eq!(error, StartError::ForbiddenDdi(slot));
    }
}

#[test]
fn a_query_that_must_be_refused_may_not_be_answered() {
    for kind in [2, 4, 5, 8, 9, 16, 17, 18, 19, 20, 23, 28] {
        let error = refused(Mutant { answers: Some(DXGK_QUERYADAPTERINFOTYPE(kind)), ..SOUND });
        assert!(matches!(error, StartError::McdmQuery(_)), "{kind}: {error}");
    }
}
