//! The cases that look behind the thunks, which do not run here.

use campanile_conformance::About;

/// A case that only the simulated machine can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    pub name: &'static str,
    pub area: &'static str,
    pub page: &'static str,
    pub requirement: &'static str,
    /// True if the case boots a machine with options of its own.
    pub brings_machine: bool,
    /// What the cases of its table do behind the thunks; empty where the table does not say.
    pub reason: &'static str,
}

impl Inside {
    /// Description of the case for lists and reports.
    pub fn about(&self) -> About {
        let &Self { name, area, page, requirement, .. } = self;
        // What they need and hold does not matter where none of them runs.
        About { name, area, page, requirement, needs: [&[], &[], &[]], holds: &[] }
    }

    /// The reason why it does not run here.
    pub fn why(&self) -> String {
        let reason = if self.reason.is_empty() { "it looks behind the thunks" } else { self.reason };
        let machine = if self.brings_machine { ", on a machine of its own kind" } else { "" };
        format!("only on the simulated machine: {reason}{machine}")
    }
}
