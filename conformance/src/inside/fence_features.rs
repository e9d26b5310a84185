//! Every subset of features that the operating system can enable.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::FeaturePolicy;
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::rig::{Rig, user_mode_flags};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "FenceFeatures", behind "it chooses what hardware and system enable";
    "FenceFeatures.StartsWithNothing" on Boot::With(subset::<0>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<0>;
    "FenceFeatures.StartsWithHardwareScheduling" on Boot::With(subset::<1>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<1>;
    "FenceFeatures.StartsWithNativeFence" on Boot::With(subset::<2>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<2>;
    "FenceFeatures.StartsWithHardwareSchedulingAndNativeFence" on Boot::With(subset::<3>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<3>;
    "FenceFeatures.StartsWithUserModeSubmission" on Boot::With(subset::<4>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<4>;
    "FenceFeatures.StartsWithHardwareSchedulingAndUserModeSubmission" on Boot::With(subset::<5>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<5>;
    "FenceFeatures.StartsWithNativeFenceAndUserModeSubmission" on Boot::With(subset::<6>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<6>;
    "FenceFeatures.StartsWithHardwareSchedulingAndNativeFenceAndUserModeSubmission" needs UserModeSubmission on Boot::With(subset::<7>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<7>;
    "FenceFeatures.StartsWithKernelModeTesting" on Boot::With(subset::<8>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<8>;
    "FenceFeatures.StartsWithHardwareSchedulingAndKernelModeTesting" on Boot::With(subset::<9>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<9>;
    "FenceFeatures.StartsWithNativeFenceAndKernelModeTesting" on Boot::With(subset::<10>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<10>;
    "FenceFeatures.StartsWithHardwareSchedulingAndNativeFenceAndKernelModeTesting" on Boot::With(subset::<11>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<11>;
    "FenceFeatures.StartsWithUserModeSubmissionAndKernelModeTesting" on Boot::With(subset::<12>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<12>;
    "FenceFeatures.StartsWithHardwareSchedulingAndUserModeSubmissionAndKernelModeTesting" on Boot::With(subset::<13>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<13>;
    "FenceFeatures.StartsWithNativeFenceAndUserModeSubmissionAndKernelModeTesting" on Boot::With(subset::<14>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<14>;
    "FenceFeatures.StartsWithHardwareSchedulingAndNativeFenceAndUserModeSubmissionAndKernelModeTesting" needs UserModeSubmission on Boot::With(subset::<15>), "querying-wddm-feature-support-and-enablement":
        "With exactly these features enabled the adapter starts, tells user mode so, and does what they allow and nothing more."
        holds [NativeFence 29]
        => works_at_its_level::<15>;
}

/// The subset with number `N`: a bit each, in the order of [`FeaturePolicy`].
const fn policy<const N: u8>() -> FeaturePolicy {
    FeaturePolicy {
        hardware_scheduling: N & 1 != 0,
        native_fence: N & 2 != 0,
        user_mode_submission: N & 4 != 0,
        kernel_mode_testing: N & 8 != 0,
        optimized_default_fences: false,
        intra_gpu_fences: false,
    }
}

fn subset<const N: u8>() -> SystemOptions {
    SystemOptions { features: policy::<N>(), ..SystemOptions::default() }
}

fn works_at_its_level<const N: u8>(case: &mut Case<'_>) -> Result<(), Failure> {
    let enabled = policy::<N>();
    let rig = case.rig()?;
    let word =
        |kind| rig.kmt.query_word(rig.adapter, kind).map_err(|status| Failure::new(format!("capabilities: {status}")));
    let scheduling = D3DKMT_WDDM_2_7_CAPS::from_bits(word(KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_7_CAPS)?);
    let fences = D3DKMT_WDDM_3_1_CAPS::from_bits(word(KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_3_1_CAPS)?);
    ensure_eq!(scheduling.HwSchEnabled(), enabled.hardware_scheduling, "HwSchEnabled");
    ensure_eq!(fences.NativeGpuFenceSupported(), enabled.native_fence, "NativeGpuFenceSupported");
    // Memory and its paging need no feature.
    let memory = rig.memory(1 << 16, Placement::VramVisible)?;
    rig.view(memory)?.fill(0x5a);
    fences_work(&rig, enabled.native_fence)?;
    queues_work(&rig, enabled)
}

fn fences_work(rig: &Rig, enabled: bool) -> Result<(), Failure> {
    let fence = match (rig.create_fence(1), enabled) {
        (Err(status), false) => return refused(status, &[STATUS_NOT_SUPPORTED], "a native fence"),
        (Ok(_), false) => return Err(Failure::new("a native fence was created although they are off")),
        (created, true) => created.map_err(|status| Failure::new(format!("D3DKMTCreateNativeFence: {status}")))?,
    };
    granted(rig.signal(&[fence.hSyncObject], &[2]), "signal of the processor")?;
    granted(rig.wait(&[fence.hSyncObject], &[2], false), "wait of the processor")?;
    granted(rig.destroy_fence(fence.hSyncObject), "destroying the fence")
}

fn queues_work(rig: &Rig, enabled: FeaturePolicy) -> Result<(), Failure> {
    let context = match (rig.context(NODE_COMPUTE), enabled.hardware_scheduling) {
        (Err(status), false) => return refused(status, &[STATUS_NOT_SUPPORTED], "a hardware context"),
        (Ok(_), false) => return Err(Failure::new("a hardware context was created although scheduling is off")),
        (created, true) => created.map_err(|status| Failure::new(format!("D3DKMTCreateHwContext: {status}")))?,
    };
    rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new())
        .map_err(|status| Failure::new(format!("a queue for kernel-mode submission: {status}")))?;
    if enabled.native_fence && enabled.user_mode_submission {
        let (mut queue, fence) = (rig.queue(NODE_COMPUTE)?, rig.fence(0)?);
        rig.execute(&mut queue, &[fence.signal(7)])?;
        ensure_eq!(fence.value.load(), 7, "value that a user-mode queue signalled");
        return Ok(());
    }
    match rig.hw_queue(context, user_mode_flags()) {
        Ok(_) => Err(Failure::new("a user-mode queue was created although a feature it needs is off")),
        Err(status) => {
            refused(status, &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER], "a user-mode queue without its features")
        }
    }
}
