//! Commands that must cost their device, for the driver of any GPU.

use std::time::{Duration, Instant};

use super::any_driver_lab::{Lab, SIZE, lab};
use crate::opaque::Values;
use crate::rig::wait_until;
use crate::{Case, Failure, granted};

/// Time limit of the report of an error behind the end of the commands that it is of.
const REPORT_LIMIT: Duration = Duration::from_secs(2);

/// The report of commands that reach an address without memory.
pub(super) const PAGE_FAULT: &str = "DXGK_INTERRUPT_DMA_PAGE_FAULTED";

/// Runs commands that must cost the device, `by` a report or a recovery, beside another device that must not notice. They are made when everything else is
/// there; `then` is held before the device in error is destroyed.
pub(super) fn costs_its_device(
    (lab, other, by): (&Lab, &Lab, &str),
    commands: impl FnOnce() -> Result<Vec<u8>, Failure>,
    then: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    other.work()?;
    let mut worker = lab.worker()?;
    let commands = commands()?;
    lab.hand_over(&mut worker, &commands)?;
    lab.signal_unless_lost(&mut worker);
    let mut completed = None;
    wait_until(&format!("an error of the device by {by}"), || {
        if lab.is_active().is_ok_and(|active| !active) {
            return true;
        }
        if worker.is_done() {
            completed.get_or_insert_with(Instant::now);
        }
        completed.is_some_and(|since| since.elapsed() > REPORT_LIMIT)
    })?;
    if lab.is_active()? {
        let text = format!("commands that must cost their device were reported as complete, and expected was {by}");
        return Err(Failure::new(then().err().map_or_else(|| text.clone(), |failure| format!("{text}; {failure}"))));
    }
    ensure!(other.is_active()?, "the other device is in error too, as by a reset of the whole adapter");
    other.work()?;
    then()?;
    granted(lab.rig.destroy(), "destroying the device in error")?;
    other.work()
}

pub(super) fn fault(case: &Case) -> Result<(), Failure> {
    let (lab, other) = (lab(case)?, lab(case)?);
    let memory = lab.memory(SIZE, false)?;
    let commands = || {
        granted(lab.rig.free(memory.address, SIZE), "freeing the addresses")?;
        Ok(lab.opaque.fill(Values { size: SIZE, target: memory.address, pattern: 1, ..Values::default() }))
    };
    costs_its_device((&lab, &other, PAGE_FAULT), commands, || Ok(()))
}

pub(super) fn hang(case: &Case) -> Result<(), Failure> {
    let (lab, other) = (lab(case)?, lab(case)?);
    let by = "DxgkDdiResetEngine or DxgkDdiResetHwEngine";
    costs_its_device((&lab, &other, by), || lab.hang(), || Ok(()))
}
