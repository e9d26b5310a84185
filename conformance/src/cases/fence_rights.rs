//! What one opening of a native fence may do: flags of creation and opening, access of kernel handles.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::kmt::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags, D3DKMT_DEVICEEXECUTION_STATE};
use wddm_ddi::status::*;

use crate::rig::{KernelHandle, RawFence, Rig, fill, shared_flags, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "FenceRights";
    "FenceRights.FlagsOfOtherObjectsAreRefused" needs NativeFence on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "Every other flag of synchronization objects, and every contradiction, is refused by name when a native fence is created."
        holds [NativeFence 42]
        => other_flags;
    "FenceRights.OpenersNeverGainARight" needs UserModeSubmission on Boot::Shared, "d3dkmtopennativefencefromnthandle":
        "Flags of an opening give rights up; sharing again what was opened without a right does not bring it back."
        holds [NativeFence 42]
        => never_gain;
    "FenceRights.ValueIsKeptWhenTheDeviceIsLost" needs UserModeSubmission on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A fence with NoSignalMaxValueOnTdr keeps its value when its device is lost, while one without becomes all ones."
        holds [NativeFence 42, NativeFence 52]
        => value_kept;
}

/// STANDARD_RIGHTS_READ, with which a fence can be opened at all.
pub const READ: u32 = 0x0002_0000;

/// D3DDDI_SYNC_OBJECT_WAIT
pub const WAIT: u32 = 0x1;

/// GENERIC_ALL
pub const ALL: u32 = 0x1000_0000;

pub fn text(what: &'static str) -> impl Fn(NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what}: {status}"))
}

/// A shared fence, and a handle with `access` in the process of `other`.
pub fn shared(case: &Case, access: u32) -> Result<(Rig, RawFence, KernelHandle), Failure> {
    let rig = case.rig()?;
    let fence = rig.shared_fence(0)?;
    let handle = rig.share_with(&[fence.handle], access).map_err(text("D3DKMTShareObjects"))?;
    Ok((rig, fence, handle))
}

/// Ends the case unless exactly these rights are there: `fence` is `rig`'s, `signal` signals it with every right.
pub fn check_rights(
    rig: &Rig,
    fence: &RawFence,
    (may_wait, may_signal): (bool, bool),
    signal: impl Fn(u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let start = fence.value.load();
    let check = |allowed: bool, status: NTSTATUS, what: &str| match allowed {
        true => granted(status, what),
        false => refused(status, &[STATUS_ACCESS_DENIED], what),
    };
    let event = Event::new()?;
    let asked = rig.wait_with_event(&[fence.handle], &[start + 1], false, Some(event.number()));
    check(may_wait, asked, "a wait of the processor")?;
    check(may_wait, rig.wait(&[fence.handle], &[start], false), "a wait for a value that is there")?;
    check(may_signal, rig.signal(&[fence.handle], &[start]), "a signal of the processor")?;
    signal(start + 1)?;
    if may_wait {
        event.wait()?;
    }
    ensure_eq!(fence.value.load(), start + 1, "value that is read");
    // The GPU waits by reading, which is the least of rights.
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[fence.wait(start + 1)])?;
    if may_signal {
        rig.execute(&mut queue, &[fence.signal(start + 2)])?;
        ensure_eq!(fence.value.load(), start + 2, "value after a signal of the GPU");
        return Ok(());
    }
    rig.submit_doomed(&mut queue, &[fence.signal(start + 2)])?;
    wait_until("the fault of the signal", || is_lost(rig))?;
    ensure_eq!(fence.value.load(), start + 1, "value after a signal of the GPU that is not allowed");
    Ok(())
}

fn is_lost(rig: &Rig) -> bool {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active)
}

pub fn opened(rig: &Rig, handle: KernelHandle, flags: Flags) -> Result<RawFence, Failure> {
    rig.open_flagged(handle, flags).map_err(text("opening the fence"))
}

fn other_flags(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let none = Flags::new();
    for (what, flags, expected) in [
        ("NoSignal and NoWait", none.with_NoSignal(true).with_NoWait(true), STATUS_INVALID_PARAMETER),
        ("Shared without a kernel handle", none.with_Shared(true), STATUS_INVALID_PARAMETER),
        ("a kernel handle of what is not shared", none.with_NtSecuritySharing(true), STATUS_INVALID_PARAMETER),
        ("SignalByKmd", none.with_SignalByKmd(true), STATUS_INVALID_PARAMETER),
        ("TopOfPipeline, of monitored fences only", none.with_TopOfPipeline(true), STATUS_INVALID_PARAMETER),
        ("NoGPUAccess", none.with_NoGPUAccess(true), STATUS_NOT_SUPPORTED),
        ("Unused", none.with_Unused(true), STATUS_NOT_SUPPORTED),
        ("a reserved bit", Flags::from_bits(1 << 11), STATUS_INVALID_PARAMETER),
        ("the last bit", Flags::from_bits(1 << 31), STATUS_INVALID_PARAMETER),
    ] {
        match rig.create_flagged(0, flags) {
            Ok(_) => return Err(Failure::new(format!("a fence was created with {what}"))),
            Err(status) => refused(status, &[expected], what)?,
        }
    }
    let (_, _, handle) = shared(case, ALL)?;
    for flags in [shared_flags().with_NoSignal(true).with_NoWait(true), shared_flags().with_TopOfPipeline(true)] {
        match rig.open_flagged(handle, flags) {
            Ok(_) => return Err(Failure::new(format!("a fence was opened with {flags:?}"))),
            Err(status) => refused(status, &[STATUS_INVALID_PARAMETER], "an opening with flags that make no sense")?,
        }
    }
    Ok(())
}

fn never_gain(case: &Case) -> Result<(), Failure> {
    let (rig, fence, handle) = shared(case, READ | WAIT)?;
    let limited = opened(&rig, handle, shared_flags())?;
    let again = rig.share_with(&[limited.handle], ALL).map_err(text("sharing what was opened"))?;
    let signal = |value| granted(rig.signal(&[fence.handle], &[value]), "the signal of the creator");
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let regained = opened(&other, again, shared_flags())?;
    check_rights(&other, &regained, (true, false), signal)?;
    // The flag takes what the handle grants, on whichever device.
    let full = rig.share_with(&[fence.handle], ALL).map_err(text("sharing the fence"))?;
    let third = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let given_up = opened(&third, full, shared_flags().with_NoSignal(true))?;
    check_rights(&third, &given_up, (true, false), signal)?;
    granted(rig.signal(&[fence.handle], &[9]), "the creator's own right")
}

fn value_kept(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let kept = rig.create_flagged(3, Flags::new().with_NoSignalMaxValueOnTdr(true)).map_err(text("the fence"))?;
    let kept = RawFence::new(kept.hSyncObject, &kept.Info.NativeFenceMapping)?;
    let plain = rig.fence(3)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.submit_doomed(&mut queue, &[fill(0x7000_0000_0000, 4, 0)])?;
    wait_until("the signal for good", || plain.value.load() == u64::MAX)?;
    ensure_eq!(kept.value.load(), 3, "value of the fence that keeps it");
    Ok(())
}
