//! How processes end, in the documented order, and recovery after a device is lost.

use campanile_hw::packet::Packet;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

use crate::rig::{fill, wait_until};
use crate::{Boot, Case, Failure};

cases! { thunks "Exit", needs HardwareScheduling;
    "Exit.AbortIsSeenBeforeWaitersAreReleased" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "When a device is lost, whoever is released from a wait for it finds its doorbells at disconnected-abort."
        holds [UserModeSubmission 42]
        => abort_before_release;
}

const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;

/// An address that nothing is mapped to.
const NOWHERE: u64 = 0x7abc_def0_0000;

fn abort_before_release(case: &Case) -> Result<(), Failure> {
    for _ in 0..10 {
        let rig = case.rig()?;
        let (mut guilty, mut other) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
        rig.execute(&mut other, &[])?;
        let gate = rig.fence(0)?;
        let doomed: Vec<Packet> = vec![gate.wait(1), fill(NOWHERE, 4096, 0)];
        let value = rig.submit(&mut guilty, &doomed)?;
        let seen = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _attached = case.enter();
                let status = rig.wait(&[guilty.progress_fence], &[value], false);
                (status, guilty.doorbell.state(), other.doorbell.state())
            });
            let opened = rig.signal(&[gate.handle], &[1]);
            waiter.join().map(|seen| (opened, seen))
        });
        let Ok((_, (status, first, second))) = seen else { return Err(Failure::new("the waiter panicked")) };
        ensure!(!status.is_success(), "the wait for a lost device answered {status:?}");
        // A wait that began after the loss is refused by the device's error alone.
        wait_until("abort", || other.doorbell.state() == ABORT)?;
        ensure_eq!((first, second), (ABORT, ABORT), "status of the doorbells when the waiter was released");
    }
    Ok(())
}
