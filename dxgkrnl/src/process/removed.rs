//! Why a thunk answers STATUS_DEVICE_REMOVED: the log tells a process each reason once, for it holds of all that the process asks for from then on.

use nt::lock::lock;

use super::{Object, Process};

impl Process {
    /// Notes in the log that the thunk `name` answers STATUS_DEVICE_REMOVED, and why.
    pub(crate) fn tell_removed(&self, name: &str) {
        let verifier = self.machine().verifier();
        let why = match verifier.bugcheck() {
            Some(bugcheck) => format!("the machine has stopped: {bugcheck}"),
            None => match self.lost_objects() {
                lost if lost.is_empty() => return,
                lost => lost.join("; "),
            },
        };
        let is_told = std::mem::replace(&mut *lock(&self.told_removed), why.clone()) == why;
        if !is_told {
            let status = wddm_ddi::status::STATUS_DEVICE_REMOVED;
            verifier.log(format!("{name} fails with {status}: {why}"));
        }
    }

    /// Adapters of the process that have ended and devices of others that are in error, each with its reason, and each reason once: not more than a line has space for.
    fn lost_objects(&self) -> Vec<String> {
        const REASONS_MAX: usize = 4;
        let mut reasons: Vec<String> = Vec::new();
        let of_adapter = |adapter: &crate::port::Port| {
            let why = adapter.why_ended()?;
            Some(format!(
                "the adapter with LUID {:08x}:{:08x} has ended: {why}",
                adapter.luid.HighPart, adapter.luid.LowPart
            ))
        };
        lock(&self.handles).newest_first(|object, _| {
            if reasons.len() == REASONS_MAX {
                return false;
            }
            let reason = match object {
                Object::Adapter(open) => of_adapter(&open.adapter),
                Object::Device(device) => of_adapter(&device.adapter).or_else(|| {
                    let error = device.error()?;
                    Some(format!("device {:#x} is in error: {error}", device.handle()))
                }),
                _ => None,
            };
            reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
            false
        });
        reasons
    }
}
