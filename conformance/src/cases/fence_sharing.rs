//! Native fences that processes share.

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::{FenceData, MAGIC};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::kmt::{BAD_HANDLE, WRONG_KIND};
use crate::rig::{KernelHandle, RawFence, Rig, shared_flags, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "SharedFence";
    "SharedFence.LiesAloneOnItsPages" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "The values of a fence that may be shared lie on pages that no other fence uses."
        holds [NativeFence 20]
        => alone_on_pages;
    "SharedFence.KernelHandleKeepsTheFence" needs NativeFence on Boot::Shared, "d3dkmtshareobjects":
        "A kernel handle keeps a fence, with its value, while no process has it open."
        holds [NativeFence 41]
        => kernel_handle_keeps;
    "SharedFence.PrivateFenceHasNoKernelHandle" needs NativeFence on Boot::Shared, "d3dkmtshareobjects":
        "Only a fence that was created to be shared by kernel handles gets one, and two fences together do not."
        holds [NativeFence 41]
        => private_has_none;
    "SharedFence.BadAddressFaultsOnlyItsQueue" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A wait or signal at a misaligned or unmapped address puts its own device in error and harms nobody else."
        holds [NativeFence 18]
        => bad_addresses;
    "SharedFence.PrivateDataComesBack" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "The driver has no private data of fences: what user mode passes at creation and at opening comes back as it was, also from a call that is refused."
        holds [NativeFence 43]
        => private_data;
    "SharedFence.ValuesDoNotGoBackUnasked" needs NativeFence on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromcpu":
        "A signal of the processor with a smaller value is refused and changes nothing."
        holds [NativeFence 4, NativeFence 8]
        => no_way_back;
}

pub fn shared(case: &Case, initial: u64) -> Result<(Rig, RawFence, KernelHandle), Failure> {
    let rig = case.rig()?;
    let fence = rig.shared_fence(initial)?;
    let handle = rig.share(&[fence.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    Ok((rig, fence, handle))
}

fn alone_on_pages(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut pages = Vec::new();
    let mut others = Vec::new();
    for _ in 0..20 {
        let (alone, packed) = (rig.shared_fence(0)?, rig.fence(0)?);
        pages.extend([alone.current >> 12, alone.monitored >> 12]);
        others.extend([packed.current >> 12, packed.monitored >> 12]);
    }
    ensure!(others.iter().all(|page| !pages.contains(page)), "a private fence lies on the page of a shared one");
    pages.sort_unstable();
    pages.dedup();
    ensure_eq!(pages.len(), 40, "pages of twenty shared fences");
    Ok(())
}

fn kernel_handle_keeps(case: &Case) -> Result<(), Failure> {
    let (rig, mine, handle) = shared(case, 31)?;
    granted(rig.destroy_fence(mine.handle), "destroying the only instance")?;
    let again = rig.open_fence(handle)?;
    ensure_eq!(again.value.load(), 31, "value after nobody had it open");
    granted(rig.destroy_fence(again.handle), "destroying it again")?;
    granted(handle.close(), "closing the kernel handle")?;
    match rig.try_open(handle) {
        Ok(_) => Err(Failure::new("a closed kernel handle opens a fence")),
        Err(status) => refused(status, BAD_HANDLE, "opening by a closed handle"),
    }
}

pub fn is_lost(rig: &Rig) -> bool {
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    rig.kmt.execution_state(rig.device).is_ok_and(|now| now != active)
}

fn private_has_none(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (private, open) = (rig.fence(0)?, rig.shared_fence(0)?);
    let share = |objects: &[u32], what: &str| match rig.share(objects) {
        Ok(_) => Err(Failure::new(format!("{what} has a kernel handle"))),
        Err(status) => refused(status, WRONG_KIND, what),
    };
    share(&[private.handle], "a private fence")?;
    share(&[rig.device], "a device")?;
    share(&[], "nothing")?;
    share(&[open.handle, open.handle], "two objects")?;
    let half = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new();
    for flags in [half.with_Shared(true), half.with_NtSecuritySharing(true)] {
        match rig.create_flagged(0, flags) {
            Ok(_) => return Err(Failure::new(format!("a fence was created with {flags:?}"))),
            Err(status) => refused(status, &[STATUS_INVALID_PARAMETER], "half of the flags")?,
        }
    }
    match rig.create_flagged(0, shared_flags().with_Unused(true)) {
        Ok(_) => Err(Failure::new("a fence was created with a flag that is unused")),
        Err(status) => refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED], "an unused flag"),
    }
}

fn bad_addresses(case: &Case) -> Result<(), Failure> {
    const NOWHERE: u64 = 0x7000_0000_0000;
    let witness = case.rig()?;
    let mut working = witness.queue(NODE_COMPUTE)?;
    let shared = witness.shared_fence(0)?;
    let wait = |current| Packet::Wait(packet::Wait { handle: 0, current, value: 1 });
    let signal = |current, monitored| Packet::Signal(packet::Signal { handle: 0, current, monitored, value: 1 });
    for (round, (what, make)) in [
        (
            "a wait at a misaligned address",
            &(|fence: &RawFence| wait(fence.current + 4)) as &dyn Fn(&RawFence) -> Packet,
        ),
        ("a wait at an unmapped address", &|_| wait(NOWHERE)),
        ("a wait at the end of the address space", &|_| wait(!7)),
        ("a signal at a misaligned address", &|fence| signal(fence.current + 1, fence.monitored)),
        ("a signal at an unmapped address", &|fence| signal(NOWHERE, fence.monitored)),
        ("a signal with a misaligned monitored value", &|fence| signal(fence.current, fence.monitored + 2)),
        ("a signal with an unmapped monitored value", &|fence| signal(fence.current, NOWHERE)),
    ]
    .into_iter()
    .enumerate()
    {
        let rig = case.rig()?;
        let fence = rig.fence(0)?;
        let mut queue = rig.queue(NODE_COPY)?;
        rig.submit_doomed(&mut queue, &[make(&fence)])?;
        wait_until(what, || is_lost(&rig))?;
        queue.stands_at(0, what)?;
        let value = round as u64 + 1;
        witness.execute(&mut working, &[shared.signal(value)])?;
        ensure_eq!(shared.value.load(), value, "value of a fence of another device after {what}");
    }
    Ok(())
}

fn private_data(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let bytes = |step: u8| std::array::from_fn(|index| (index as u8).wrapping_mul(step).wrapping_add(step));
    let mut create = D3DKMT_CREATENATIVEFENCE::zeroed();
    (create.hDevice, create.Info.EngineAffinity, create.Info.Flags) = (rig.device, 1, shared_flags());
    create.PrivateDriverData = bytes(3);
    granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut create), "D3DKMTCreateNativeFence")?;
    ensure!(create.PrivateDriverData == bytes(3), "private data of the creation came back as something else");
    let handle = rig.share(&[create.hSyncObject]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let mut open = D3DKMT_OPENNATIVEFENCEFROMNTHANDLE::zeroed();
    (open.hNtHandle, open.hDevice, open.EngineAffinity) = (handle.raw(), rig.device, 1);
    open.PrivateDriverData = bytes(5);
    let thunk = rig.kmt.table().D3DKMTOpenNativeFenceFromNtHandle;
    granted(rig.kmt.call(thunk, &mut open), "D3DKMTOpenNativeFenceFromNtHandle")?;
    ensure!(open.PrivateDriverData == bytes(5), "private data of the opening came back as something else");
    purpose(&rig)?;
    granted(handle.close(), "closing the kernel handle")?;
    open.PrivateDriverData = bytes(7);
    refused(rig.kmt.call(thunk, &mut open), BAD_HANDLE, "opening by a closed handle")?;
    ensure!(open.PrivateDriverData == bytes(7), "a refused opening changed the private data");
    Ok(())
}

/// The number of the creation is told to an opening that asks for it in the driver's own form.
fn purpose(rig: &Rig) -> Result<(), Failure> {
    let data = |purpose| FenceData { magic: MAGIC, purpose }.to_bytes();
    for (given, told) in [(data(9), 9), (data(0), 0), ([1; 64], 0)] {
        let mut create = D3DKMT_CREATENATIVEFENCE::zeroed();
        (create.hDevice, create.Info.EngineAffinity, create.Info.Flags) = (rig.device, 1, shared_flags());
        create.PrivateDriverData = given;
        granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut create), "D3DKMTCreateNativeFence")?;
        let handle = rig.share(&[create.hSyncObject]);
        let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
        let mut open = D3DKMT_OPENNATIVEFENCEFROMNTHANDLE::zeroed();
        (open.hNtHandle, open.hDevice, open.EngineAffinity) = (handle.raw(), rig.device, 1);
        open.PrivateDriverData = data(1234);
        let thunk = rig.kmt.table().D3DKMTOpenNativeFenceFromNtHandle;
        granted(rig.kmt.call(thunk, &mut open), "D3DKMTOpenNativeFenceFromNtHandle")?;
        ensure!(open.PrivateDriverData == data(told), "an opening was told another purpose than {told}");
    }
    Ok(())
}

fn no_way_back(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(10)?;
    for value in [0, 1, 9] {
        refused(rig.signal(&[fence.handle], &[value]), &[STATUS_INVALID_PARAMETER], "a signal with a smaller value")?;
        ensure_eq!(fence.value.load(), 10, "value after the refusal");
    }
    granted(rig.signal(&[fence.handle], &[10]), "a signal with the same value")
}
