//! Start, stop and removal, what the driver claims, and handles that are none.

use std::ptr::null_mut;

use campanile_hw::private::{AdapterData, MAGIC};
use campanile_hw::registers::{self, Caps};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::{Rig, completed, handle};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.EveryFeatureSubsetStarts" on Boot::Shared, "querying-wddm-feature-support-and-enablement":
        "With every subset of hardware scheduling, native fences and user-mode submission the driver starts, claims what is enabled and nothing else, and gives back all memory and mappings when it is removed."
        => every_subset_of_features_starts_and_gives_everything_back;
    "Miniport.OtherDevicesAreRefused" on Boot::Shared, "start_device":
        "DxgkDdiStartDevice fails on a device that is another one, is gone, or whose memory does not fit its window, and leaves no memory and no mapping behind."
        => a_device_that_is_another_one_or_does_not_run_is_refused_without_leaks;
    "Miniport.StartsAgainAfterAStop" on Boot::Shared, "stop_device":
        "An adapter that was stopped can be started again and works; while it is stopped its functions refuse, and another stop changes nothing."
        => an_adapter_starts_again_after_a_stop;
    "Miniport.UserModeDriverIsToldWhatIsClaimed" on Boot::Shared, "queryadapterinfotype":
        "The data for the user-mode driver names the features that are enabled and the doorbells that there are, zeroed to the size that was asked for and not written behind it; a buffer that is too short is refused."
        => the_user_mode_driver_is_told_what_is_claimed;
    "Miniport.SegmentsSayWhatIsKept" on Boot::Shared, "user-mode-work-submission":
        "Segments of local memory are reported as preserved during standby where the memory keeps its contents in D3 and only there, and the aperture segment never."
        holds [UserModeSubmission 53]
        => segments_say_whether_they_keep_their_contents;
    "Miniport.WrongHandlesAreRefused" on Boot::Shared, "dxgkddi_suspendcontext":
        "A function that is given NULL, a handle of another kind, one of an object that was destroyed or a number that is no handle refuses it."
        => handles_of_other_kinds_and_of_nothing_are_refused;
}

fn driver_caps(system: &System) -> DXGK_DRIVERCAPS {
    let mut caps = DXGK_DRIVERCAPS::zeroed();
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DRIVERCAPS;
    args.pOutputData = (&raw mut caps).cast();
    args.OutputDataSize = size_of::<DXGK_DRIVERCAPS>() as u32;
    assert_eq!(ddi!(system, DxgkDdiQueryAdapterInfo, system.adapter, &raw const args), STATUS_SUCCESS);
    caps
}

fn every_subset_of_features_starts_and_gives_everything_back(case: &mut Case<'_>) -> Result<(), Failure> {
    for bits in 0..8 {
        let before = allocations(case);
        let (scheduling, native_fence, user_mode) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let features = Features { scheduling, native_fence, user_mode, ..ALL };
        let mut rig = Rig::new(case, features, 4);
        ensure_eq!(driver_caps(&rig.system).SchedulingCaps.NativeGpuFence(), features.native_fence);
        let mut metadata = DXGK_NODEMETADATA::zeroed();
        ensure_eq!(ddi!(rig.system, DxgkDdiGetNodeMetadata, rig.system.adapter, 0, &raw mut metadata), STATUS_SUCCESS);
        let flags = metadata.Flags;
        ensure_eq!(flags.UserModeSubmission(), bits == 7);
        ensure_eq!(
            ddi!(rig.system, DxgkDdiGetNodeMetadata, rig.system.adapter, 3, &raw mut metadata),
            STATUS_INVALID_PARAMETER
        );
        rig.system.remove();
        ensure_eq!(allocations(case), before, "{features:?}");
    }
    Ok(())
}

fn a_device_that_is_another_one_or_does_not_run_is_refused_without_leaks(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = allocations(case);
    for (register, value) in [(registers::ID, 0), (registers::ID, u64::MAX), (registers::VRAM_WINDOW_SIZE, 4096)] {
        let mut system = System::added(case, ALL, 4);
        system.set(register, value);
        ensure!(!system.start().is_success());
        system.remove_stopped();
        ensure_eq!(allocations(case), before);
    }
    Ok(())
}

fn an_adapter_starts_again_after_a_stop(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = allocations(case);
    let mut rig = Rig::new(case, ALL, 4);
    ensure_eq!(ddi!(rig.system, DxgkDdiStopDevice, rig.system.adapter), STATUS_SUCCESS);
    ensure_eq!(rig.submit(handle(1), 1, 16), STATUS_INVALID_PARAMETER);
    ensure_eq!(ddi!(rig.system, DxgkDdiStopDevice, rig.system.adapter), STATUS_SUCCESS);
    ensure_eq!(rig.system.start(), STATUS_SUCCESS);
    let context = rig.context(2);
    ensure_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    rig.system.retire(2, 1, 1);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(2, 1)]);
    rig.system.remove();
    ensure_eq!(allocations(case), before);
    Ok(())
}

fn the_user_mode_driver_is_told_what_is_claimed(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, Features { user_mode: false, ..ALL }, 4);
    let mut bytes = [0xffu8; 80];
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_UMDRIVERPRIVATE;
    args.pOutputData = bytes.as_mut_ptr().cast();
    for (size, status) in [(0, STATUS_INVALID_PARAMETER), (63, STATUS_INVALID_PARAMETER), (72, STATUS_SUCCESS)] {
        args.OutputDataSize = size;
        ensure_eq!(ddi!(rig.system, DxgkDdiQueryAdapterInfo, rig.system.adapter, &raw const args), status);
    }
    let data = AdapterData::from_bytes(bytes.first_chunk().expect("long enough"));
    ensure_eq!((data.magic, data.features, data.doorbells), (MAGIC, 0b01, 4));
    ensure!(bytes[64..72].iter().all(|byte| *byte == 0) && bytes[72..].iter().all(|byte| *byte == 0xff));
    Ok(())
}

fn handles_of_other_kinds_and_of_nothing_are_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    for wrong in [null_mut(), rig.system.adapter, rig.process, rig.device, handle(0xdead_beef)] {
        ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwContext, wrong), STATUS_INVALID_HANDLE);
        ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, wrong), STATUS_INVALID_HANDLE);
        ensure_eq!(rig.connect(wrong).0, STATUS_INVALID_HANDLE);
        ensure_eq!(rig.suspend(wrong, 1), STATUS_INVALID_HANDLE);
    }
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwContext, context), STATUS_SUCCESS);
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwContext, context), STATUS_INVALID_HANDLE);
    rig.system.remove();
    ensure_eq!(ddi!(rig.system, DxgkDdiStopDevice, rig.system.adapter), STATUS_INVALID_HANDLE);
    Ok(())
}

fn segments_say_whether_they_keep_their_contents(case: &mut Case<'_>) -> Result<(), Failure> {
    for kept in [false, true] {
        let mut system = System::added(case, ALL, 1);
        let (word, size) = (system.get(registers::CAPS), system.get(registers::VRAM_SIZE));
        let caps = Caps::from_bits(word as u32).with_vram_kept_in_d3(kept);
        system.set(registers::CAPS, word >> 32 << 32 | u64::from(caps.into_bits()));
        system.set(registers::VRAM_WINDOW_SIZE, size / 2);
        ensure_eq!(system.start(), STATUS_SUCCESS);
        let mut segments = [DXGK_SEGMENTDESCRIPTOR4::zeroed(); 3];
        let mut out = DXGK_QUERYSEGMENTOUT4::zeroed();
        (out.NbSegment, out.SegmentDescriptorStride) = (3, size_of::<DXGK_SEGMENTDESCRIPTOR4>());
        out.pSegmentDescriptor = segments.as_mut_ptr().cast();
        let mut input = DXGK_QUERYSEGMENTIN4::zeroed();
        let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
        args.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_QUERYSEGMENT4;
        (args.pInputData, args.InputDataSize) = ((&raw mut input).cast(), size_of_val(&input) as u32);
        (args.pOutputData, args.OutputDataSize) = ((&raw mut out).cast(), size_of_val(&out) as u32);
        ensure_eq!(ddi!(system, DxgkDdiQueryAdapterInfo, system.adapter, &raw const args), STATUS_SUCCESS);
        let said = segments.map(|segment| segment.Flags.PreservedDuringStandby());
        ensure_eq!(said, [false, kept, kept], "aperture, memory that the processor sees, memory that it does not");
        system.remove();
    }
    Ok(())
}
