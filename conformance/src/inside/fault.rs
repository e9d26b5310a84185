//! Faults: the guilty device alone pays.

pub(super) use crate::cases::fault::wait_for_error;
use crate::cases::fault::{Bystander, NOWHERE};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use crate::rig::{Rig, fill, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure};
use testbed::user::{Device, Error, Fence, LossReason, Node, Queue, QueueOptions};

cases! { inside "Fault", behind "it is several processes at a time, or goes through the user-mode driver";
    "Fault.GuiltyDeviceAlonePays" needs UserModeSubmission on Boot::Shared, "access-to-non-resident-allocation":
        "Other devices of the same process, and other processes, go on while a device is in error."
        => guilty_device_alone;
    "Fault.DriverSaysDeviceLostAndRecovers" on Boot::Shared, "user-mode-work-submission":
        "The user-mode driver reports a lost device as such, and a new device on the same adapter works."
        holds [UserModeSubmission 26]
        => driver_recovers;
}

fn guilty_device_alone(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut bystander = Bystander::new(&rig)?;
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let mut queue = other.queue(NODE_COPY)?;
        for _ in 0..5 {
            let guilty = Rig::open(system.luid())?;
            let mut hand = guilty.queue(NODE_COPY)?;
            guilty.submit_doomed(&mut hand, &[fill(NOWHERE, 4096, 0)])?;
            wait_for_error(guilty.kmt, guilty.device)?;
            other.execute(&mut queue, &[])?;
        }
        Ok(())
    })?;
    bystander.works()?;
    let mut guilty = rig.queue(NODE_COMPUTE)?;
    rig.submit_doomed(&mut guilty, &[fill(NOWHERE, 4096, 0)])?;
    wait_for_error(rig.kmt, rig.device)?;
    for _ in 0..20 {
        bystander.works()?;
    }
    Ok(())
}

fn driver_recovers(case: &mut Case<'_>) -> Result<(), Failure> {
    let adapter = case.adapter()?;
    for _ in 0..3 {
        let device = Device::new(&adapter)?;
        let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default())?;
        let fence = Fence::new(&device, 0)?;
        let done = queue.submit(|commands| commands.signal(&fence, 1))?;
        fence.wait(1, None)?;
        queue.wait_progress(done)?;
        match queue.submit(|commands| commands.fill(NOWHERE, 4096, 0)) {
            // The fault may come before the submission has looked at its doorbell.
            Ok(_) | Err(Error::DeviceLost) => {}
            Err(error) => return Err(error.into()),
        }
        let last = queue.last_submitted()?;
        match queue.wait_progress(last) {
            Err(Error::DeviceLost) => {}
            other => return Err(Failure::new(format!("waiting for the fault ended with {other:?}"))),
        }
        // The doorbell is aborted in the course of losing the device, not before everything else.
        wait_until("the refusal of a submission to the lost device", || {
            queue.try_submit(|commands| commands.nop()) == Err(Error::DeviceLost)
        })?;
        match device.check() {
            Err(Error::DeviceLost) => {}
            other => return Err(Failure::new(format!("checking a lost device ended with {other:?}"))),
        }
        ensure_eq!(device.loss()?, Some(LossReason::Fault), "why the device was lost");
        let next = device.replacement()?;
        let unfinished = queue.recover(&next)?;
        // What was submitted before the doorbell said so counts as well.
        ensure_eq!((unfinished.first, unfinished.count > 0), (last, true), "what was not seen done");
        ensure_eq!(next.loss()?, None, "why the new device was lost");
        let value = queue.submit(|commands| commands.nop())?;
        queue.wait_progress(value)?;
        drop(queue);
        next.check()?;
    }
    Ok(())
}
