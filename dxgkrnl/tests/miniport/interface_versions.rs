//! A driver of each version of the interface, from WDDM 2.0 to 3.2, gets the tables, questions and features of that version, and no others.
//! [dispmprt: DRIVER_INITIALIZATION_DATA; d3dkmddi: DXGK_QUERYADAPTERINFOTYPE]

use crate::minimal::{Adapter, Bench, Mutant, SOUND, table};
use dxgkrnl::StartError;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::DXGK_FEATURE_SUPPORT_STABLE;
use wddm_ddi::types::NTSTATUS;

/// A driver of this version. Before WDDM 2.6 no adapter is compute-only.
fn of(version: &'static InterfaceVersion) -> Mutant {
    let render_only = version.version < DXGKDDI_INTERFACE_VERSION_WDDM2_6;
    Mutant { version, table: if render_only { table::fill_for_displays } else { |_| () }, in_start, ..SOUND }
}

fn bench(mutant: Mutant) -> Bench {
    let bench = Bench::new(mutant).unwrap_or_else(|error| panic!("{}: {error}", mutant.version.name));
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    bench
}

/// Looks at the callbacks, and offers hardware scheduling as its version can.
fn in_start(adapter: &mut Adapter) {
    let (interface, version) = (&adapter.interface, adapter.mutant.version);
    assert_eq!(
        (interface.Size as usize, interface.Version),
        (version.callback_table, DXGKDDI_INTERFACE_VERSION_WDDM3_2)
    );
    let has = |since| version.version >= since;
    let slots = std::mem::offset_of!(DXGKRNL_INTERFACE, DxgkCbEvalAcpiMethod)..version.callback_table;
    for slot in slots.step_by(size_of::<usize>()) {
        // SAFETY: the offset is that of a pointer in the table.
        let function = unsafe { (&raw const *interface).wrapping_byte_add(slot).cast::<usize>().read() };
        assert_ne!(function, 0, "{}: the slot of DXGKRNL_INTERFACE at {slot} is NULL", version.name);
    }
    assert!(interface.DxgkCbNotifyInterrupt.is_some() && interface.DxgkCbAcquireHandleData.is_some());
    assert_eq!(interface.DxgkCbInvalidateHwContext.is_some(), has(DXGKDDI_INTERFACE_VERSION_WDDM2_2));
    assert_eq!(interface.DxgkCbAllocateContiguousMemory.is_some(), has(DXGKDDI_INTERFACE_VERSION_WDDM2_4));
    assert_eq!(interface.DxgkCbIsFeatureEnabled.is_some(), has(DXGKDDI_INTERFACE_VERSION_WDDM2_6));
    assert_eq!(interface.DxgkCbQueryFeatureSupport.is_some(), has(DXGKDDI_INTERFACE_VERSION_WDDM2_9));
    assert_eq!(interface.DxgkCbDisconnectDoorbell.is_some(), has(DXGKDDI_INTERFACE_VERSION_WDDM3_1));
    let scheduling = DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH;
    if let Some(offer) = interface.DxgkCbQueryFeatureSupport {
        let mut args = DXGKARGCB_QUERYFEATURESUPPORT::zeroed();
        (args.DeviceHandle, args.FeatureId, args.DriverSupportState) =
            (adapter.handle, scheduling, DXGK_FEATURE_SUPPORT_STABLE);
        // SAFETY: the argument lives across the call.
        assert!(unsafe { offer(&raw mut args) }.is_success());
        assert_eq!(args.Enabled, 1, "{}", version.name);
    }
    if let Some(ask) = interface.DxgkCbIsFeatureEnabled {
        let mut args = DXGKARGCB_ISFEATUREENABLED::zeroed();
        (args.DeviceHandle, args.FeatureId) = (adapter.handle, scheduling);
        // SAFETY: as above.
        assert!(unsafe { ask(&raw mut args) }.is_success());
        assert_eq!(args.Enabled == 1, has(DXGKDDI_INTERFACE_VERSION_WDDM2_7), "{}", version.name);
    }
}

#[test]
fn a_driver_of_every_version_is_asked_what_its_version_knows_and_starts() {
    /// Questions that every driver is asked that knows them, and their versions.
    const QUESTIONS: [(&str, u32); 7] = [
        ("DRIVERCAPS", DXGKDDI_INTERFACE_VERSION_WDDM2_0),
        ("PHYSICALADAPTERCAPS", DXGKDDI_INTERFACE_VERSION_WDDM2_0),
        ("GPUVERSION", DXGKDDI_INTERFACE_VERSION_WDDM2_4),
        ("WDDMDEVICECAPS", DXGKDDI_INTERFACE_VERSION_WDDM2_6),
        ("PHYSICAL_MEMORY_CAPS", DXGKDDI_INTERFACE_VERSION_WDDM2_9),
        ("IOMMU_CAPS", DXGKDDI_INTERFACE_VERSION_WDDM2_9),
        ("DIRTYBITTRACKINGCAPS", DXGKDDI_INTERFACE_VERSION_WDDM3_2),
    ];
    for version in &INTERFACE_VERSIONS {
        let bench = bench(of(version));
        let luid = bench.start().unwrap_or_else(|error| panic!("{}: {error}", version.name));
        let log = bench.machine.start_log(luid);
        for (question, since) in QUESTIONS {
            let asked = log.contains(&format!("DxgkDdiQueryAdapterInfo({question})"));
            assert_eq!(asked, version.version >= since, "{}: {question}", version.name);
        }
        let interfaces = log.contains(&"DxgkDdiQueryInterface".to_owned());
        assert_eq!(interfaces, version.version >= DXGKDDI_INTERFACE_VERSION_WDDM3_2, "{}", version.name);
        bench.machine.stop(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None, "{}", version.name);
    }
}

#[test]
fn hardware_scheduling_is_asked_for_from_wddm_2_7_on() {
    fn incomplete(table: &mut DRIVER_INITIALIZATION_DATA) {
        table::fill_for_displays(table);
        table.DxgkDdiSuspendContext = None;
    }
    fn complete_but_one(table: &mut DRIVER_INITIALIZATION_DATA) {
        table.DxgkDdiSuspendContext = None;
    }
    for version in &INTERFACE_VERSIONS {
        let render_only = version.version < DXGKDDI_INTERFACE_VERSION_WDDM2_6;
        let outcome =
            bench(Mutant { table: if render_only { incomplete } else { complete_but_one }, ..of(version) }).start();
        let missing = StartError::MissingDdi { slot: "DxgkDdiSuspendContext", rule: "hardware scheduling" };
        match outcome {
            Ok(_) => assert!(version.version < DXGKDDI_INTERFACE_VERSION_WDDM2_7, "{}", version.name),
            Err(error) => {
                assert!(
                    version.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_7 && error == missing,
                    "{}: {error}",
                    version.name
                );
            }
        }
    }
}

#[test]
fn a_driver_of_wddm_2_7_without_hardware_queues_has_packets_scheduled() {
    fn no_queues(table: &mut DRIVER_INITIALIZATION_DATA) {
        table.DxgkDdiCreateHwQueue = None;
    }
    fn no_contexts(node: &mut DXGK_NODEMETADATA) {
        node.Flags = { node.Flags }.with_ContextSchedulingSupported(false);
    }
    let version = INTERFACE_VERSIONS.iter().find(|version| version.version == DXGKDDI_INTERFACE_VERSION_WDDM2_7);
    let bench = bench(Mutant { table: no_queues, node: no_contexts, in_start: |_| (), ..of(version.unwrap()) });
    let luid = bench.start().unwrap();
    bench.machine.stop(luid).unwrap();
}

#[test]
fn an_older_driver_may_leave_the_question_about_its_model_open() {
    let refuses = Some(DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_WDDMDEVICECAPS);
    for version in &INTERFACE_VERSIONS {
        let outcome = bench(Mutant { refuses, ..of(version) }).start();
        assert_eq!(
            outcome.is_ok(),
            version.version < DXGKDDI_INTERFACE_VERSION_WDDM3_2,
            "{}: {outcome:?}",
            version.name
        );
    }
}

#[test]
fn a_capability_of_a_later_version_is_named_with_both_versions() {
    type Set = fn(&mut DXGK_DRIVERCAPS);
    let cases: [(u32, Set, &str, &str); 5] = [
        (
            DXGKDDI_INTERFACE_VERSION_WDDM2_5,
            |caps| caps.MiscCaps.set_ComputeOnly(true),
            "MiscCaps.ComputeOnly",
            "WDDM 2.6",
        ),
        (
            DXGKDDI_INTERFACE_VERSION_WDDM2_1,
            |caps| caps.MemoryManagementCaps.Bits.set_ParavirtualizationSupported(true),
            "MemoryManagementCaps.ParavirtualizationSupported",
            "WDDM 2.2",
        ),
        (
            DXGKDDI_INTERFACE_VERSION_WDDM2_3,
            |caps| caps.MemoryManagementCaps.Bits.set_IoMmuSecureModeSupported(true),
            "MemoryManagementCaps.IoMmuSecureModeSupported",
            "WDDM 2.4",
        ),
        (
            DXGKDDI_INTERFACE_VERSION_WDDM2_8,
            |caps| caps.MemoryManagementCaps.Bits.set_MapAperture2Supported(true),
            "MemoryManagementCaps.MapAperture2Supported",
            "WDDM 2.9",
        ),
        (
            DXGKDDI_INTERFACE_VERSION_WDDM3_0,
            |caps| caps.SchedulingCaps.set_NativeGpuFence(true),
            "SchedulingCaps.NativeGpuFence",
            "WDDM 3.1",
        ),
    ];
    for (number, caps, member, since) in cases {
        let version = INTERFACE_VERSIONS.iter().find(|version| version.version == number).unwrap();
        let error = bench(Mutant { caps, ..of(version) }).start().unwrap_err();
        assert_eq!(error, StartError::CapOfLaterVersion { member, since, driver: version.name });
        let told = error.to_string();
        assert!(
            told.contains(member) && told.contains(since) && told.contains("[d3dkmddi: DXGK_DRIVERCAPS]"),
            "{told}"
        );
    }
}

#[test]
fn capabilities_name_the_driver_model_of_the_table() {
    let newer: fn(&mut DXGK_DRIVERCAPS) = |caps| caps.WDDMVersion = DXGK_WDDMVERSION::DXGKDDI_WDDMv2_7;
    let version = INTERFACE_VERSIONS.iter().find(|version| version.version == DXGKDDI_INTERFACE_VERSION_WDDM2_6);
    let error = bench(Mutant { caps: newer, ..of(version.unwrap()) }).start().unwrap_err();
    let site = "DRIVERCAPS.WDDMVersion";
    assert_eq!(error, StartError::VersionMismatch { site, found: 0x2700, expected: 0x2600 });
}

#[test]
fn native_fences_and_user_mode_submission_are_features_of_wddm_3_2() {
    let version = INTERFACE_VERSIONS.iter().find(|version| version.version == DXGKDDI_INTERFACE_VERSION_WDDM3_1);
    let caps: fn(&mut DXGK_DRIVERCAPS) = |caps| caps.SchedulingCaps.set_NativeGpuFence(true);
    let error = bench(Mutant { caps, ..of(version.unwrap()) }).start().unwrap_err();
    assert_eq!(error, StartError::NativeFenceNotEnabled);
    let status: NTSTATUS = error.status();
    assert!(!status.is_success());
}
