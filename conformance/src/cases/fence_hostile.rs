//! Native fences against user mode that does not keep to the rules.

use campanile_hw::packet::{self, Packet};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_NATIVEFENCE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{Rig, copy, wait_until};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "NativeFenceRules";
    "NativeFenceRules.CurrentValueIsReadOnlyForUserMode" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "User mode reads the current value on the CPU, and a write there faults and changes nothing."
        holds [NativeFence 12]
        => current_is_read_only;
    "NativeFenceRules.MonitoredValueIsReadOnlyForTheGpu" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "The GPU reads the monitored value and cannot write it: a packet that tries faults its queue."
        holds [NativeFence 14]
        => monitored_is_read_only;
    "NativeFenceRules.MonitoredValueIsMaximumWithoutWaiters" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Without CPU waiters the monitored value is the greatest 64-bit number, with one it is the waited value minus one."
        holds [NativeFence 15]
        => monitored_value_rule;
    "NativeFenceRules.FencesDoNotOverlap" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "Each fence of a process has its own 8-aligned current and monitored values, however many are packed on a page."
        holds [NativeFence 19]
        => fences_do_not_overlap;
    "NativeFenceRules.ValuesOfPackedFencesAreIndependent" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Signalling one of many packed fences changes no other."
        holds [NativeFence 19]
        => packed_fences_are_independent;
    "NativeFenceRules.DestroyedHandleIsRefused" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "A destroyed fence is refused by wait, signal and a second destruction."
        holds [NativeFence 18]
        => destroyed_handle;
    "NativeFenceRules.HandlesOfOtherKindsAreRefused" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Waits and signals on a device, a queue or nothing at all are refused and leave good fences in the same call unchanged."
        holds [NativeFence 18]
        => other_kinds;
    "NativeFenceRules.UnknownTypeIsRefused" on Boot::Shared, "native-gpu-fence-objects":
        "Creating a fence of an unknown type, or with reserved bits set, is an invalid parameter."
        holds [NativeFence 21]
        => unknown_type;
    "NativeFenceRules.EmptyAndHugeWaitsAreRefused" needs NativeFence on Boot::Shared, "d3dkmtwaitforsynchronizationobjectfromcpu":
        "A wait for no fences, or for more than anyone could list, is refused."
        holds [NativeFence 2]
        => empty_and_huge_waits;
    "NativeFenceRules.DestroyReleasesItsWaiter" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "A CPU that waits for a fence is released when the fence is destroyed or its device goes; it does not wait for ever."
        holds [NativeFence 37]
        => destroy_releases_waiter;
}

fn current_is_read_only(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(77)?;
    ensure!(!fence.value.is_writable()?, "user mode can write the current value");
    ensure_eq!(fence.value.load(), 77, "value after the attempt");
    Ok(())
}

fn monitored_is_read_only(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let forged =
        Packet::Signal(packet::Signal { handle: fence.handle, current: fence.monitored, monitored: 0, value: 0 });
    rig.submit_doomed(&mut queue, &[forged])?;
    let state = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    wait_until("the fault of the queue", || rig.kmt.execution_state(rig.device).is_ok_and(|now| now != state))?;
    queue.stands_at(0, "the write to the monitored value")?;
    let witness = Rig::on_adapter(rig.kmt, rig.adapter)?;
    ensure_eq!(monitored(&witness, fence.monitored)?, u64::MAX, "monitored value after the attempt");
    Ok(())
}

/// Reads a monitored value through the GPU.
fn monitored(rig: &Rig, address: u64) -> Result<u64, Failure> {
    let mut queue = rig.queue(NODE_COPY)?;
    let target = rig.memory(4096, campanile_hw::private::Placement::System)?;
    let view = rig.view(target)?;
    rig.execute(&mut queue, &[copy(target.address, address, 8)])?;
    let bytes = view.read(0, 8);
    Ok(bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)))
}

fn monitored_value_rule(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    let (first, second) = (Event::new()?, Event::new()?);
    ensure_eq!(monitored(&rig, fence.monitored)?, u64::MAX, "without waiters");
    granted(rig.wait_with_event(&[fence.handle], &[90], false, Some(first.number())), "wait for 90")?;
    ensure_eq!(monitored(&rig, fence.monitored)?, 89, "with a waiter for 90");
    granted(rig.wait_with_event(&[fence.handle], &[40], false, Some(second.number())), "wait for 40")?;
    ensure_eq!(monitored(&rig, fence.monitored)?, 39, "with waiters for 90 and 40");
    granted(rig.signal(&[fence.handle], &[40]), "signal of 40")?;
    ensure_eq!(monitored(&rig, fence.monitored)?, 89, "with a waiter for 90 again");
    granted(rig.signal(&[fence.handle], &[100]), "signal of 100")?;
    ensure_eq!(monitored(&rig, fence.monitored)?, u64::MAX, "without waiters again");
    Ok(())
}

fn fences_do_not_overlap(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut addresses = Vec::new();
    for _ in 0..600 {
        let fence = rig.fence(0)?;
        for address in [fence.current, fence.monitored] {
            ensure!(address != 0 && address % 8 == 0, "a value lies at {address:#x}");
            addresses.push(address);
        }
    }
    addresses.sort_unstable();
    let closest = addresses.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or_default();
    ensure!(closest >= 8, "two values lie {closest} bytes apart");
    Ok(())
}

fn packed_fences_are_independent(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fences = (0..64).map(|index| rig.fence(index)).collect::<Result<Vec<_>, _>>()?;
    for (index, fence) in fences.iter().enumerate() {
        rig.execute(&mut queue, &[fence.signal(1_000 + index as u64)])?;
        for (other, fence) in fences.iter().enumerate() {
            let expected = if other <= index { 1_000 + other as u64 } else { other as u64 };
            ensure_eq!(fence.value.load(), expected, "fence {other} after signalling fence {index}");
        }
    }
    Ok(())
}

fn destroyed_handle(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    granted(rig.destroy_fence(fence.handle), "destroying the fence")?;
    refused(rig.destroy_fence(fence.handle), BAD_HANDLE, "destroying it again")?;
    refused(rig.signal(&[fence.handle], &[1]), BAD_HANDLE, "signalling a destroyed fence")?;
    refused(rig.wait(&[fence.handle], &[0], false), BAD_HANDLE, "waiting for a destroyed fence")
}

fn other_kinds(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let good = rig.fence(0)?;
    let queue = rig.queue(NODE_COMPUTE)?;
    let wrong: [(&str, D3DKMT_HANDLE); 4] =
        [("no handle", 0), ("a device", rig.device), ("a queue", queue.queue), ("an adapter", rig.adapter)];
    for (what, handle) in wrong {
        refused(rig.signal(&[good.handle, handle], &[1, 1]), WRONG_KIND, what)?;
        refused(rig.wait(&[good.handle, handle], &[0, 0], false), WRONG_KIND, what)?;
        ensure_eq!(good.value.load(), 0, "value of the good fence after a refused signal with {what}");
    }
    refused(rig.destroy_fence(rig.device), WRONG_KIND, "destroying a device as a fence")
}

fn unknown_type(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for kind in [2, -1, i32::MAX] {
        let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
        arguments.hDevice = rig.device;
        arguments.Info.EngineAffinity = 1;
        arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE(kind);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut arguments);
        refused(status, &[STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED], &format!("a fence of type {kind}"))?;
    }
    let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
    arguments.hDevice = rig.device;
    arguments.Info.EngineAffinity = 1;
    arguments.Flags = D3DKMT_CREATENATIVEFENCE_FLAGS::from_bits(1);
    let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut arguments);
    refused(status, BAD_ARGUMENT, "a fence with a reserved flag")
}

fn empty_and_huge_waits(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    refused(rig.wait(&[], &[], false), BAD_ARGUMENT, "a wait for nothing")?;
    let (mut handle, mut value) = (fence.handle, 0);
    for count in [u32::MAX, 1 << 31] {
        let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hDevice = rig.device;
        arguments.ObjectCount = count;
        arguments.ObjectHandleArray = &mut handle;
        arguments.FenceValueArray = &mut value;
        let status = rig.kmt.call(rig.kmt.table().D3DKMTWaitForSynchronizationObjectFromCpu, &mut arguments);
        refused(status, &[STATUS_INVALID_PARAMETER, STATUS_ACCESS_VIOLATION], "a wait for too many fences")?;
    }
    granted(rig.wait(&[fence.handle], &[0], false), "a wait for one fence")
}

fn destroy_releases_waiter(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _attached = case.enter();
            let _ = sender.send(rig.wait(&[fence.handle], &[1], false));
        });
        std::thread::sleep(std::time::Duration::from_millis(5));
        granted(rig.destroy_fence(fence.handle), "destroying the fence under its waiter")?;
        let time_limit = std::time::Duration::from_secs(20);
        match receiver.recv_timeout(time_limit) {
            // What it is released with depends on which thread was first.
            Ok(_) => Ok(()),
            Err(_) => {
                // Lets the scope end.
                let _ = rig.destroy();
                Err(Failure::new("the waiter still waits for the destroyed fence"))
            }
        }
    })
}
