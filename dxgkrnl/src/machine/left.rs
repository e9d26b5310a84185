//! What processes leave that end, and nobody else has.

use super::Machine;
use crate::account::Quotas;
use crate::quota::Share;

/// Descriptors that a machine holds, at most, for objects that processes have left which have ended, and which nobody has but by a descriptor.
pub const DESCRIPTORS_LEFT: usize = 256;

/// Counts of what a machine keeps of this, whoever has left it.
pub(super) struct Left(Quotas);

impl Default for Left {
    fn default() -> Self {
        Self(Quotas::of(Share { descriptors: DESCRIPTORS_LEFT, hardware_queues: 0 }))
    }
}

impl Machine {
    /// A process has ended. What it made, and others have, is theirs; names, and what nobody has but by a descriptor, stay as far as the machine keeps such.
    pub(crate) fn keep_what_is_left_by(&self, process: &Quotas) {
        let Left(left) = &self.0.left;
        self.keep_described(process, left);
        self.keep_names(&process.names, &left.names);
    }
}
