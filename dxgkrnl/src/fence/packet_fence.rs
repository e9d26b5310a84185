//! 32-bit submission fence ids of one node.
//!
//! Ids count up and wrap; two ids are compared by their distance, which is right as long as fewer than 2^31 packets are
//! under way.

/// True if `id` comes after `other` in submission order.
pub(crate) fn is_after(id: u32, other: u32) -> bool {
    (id.wrapping_sub(other) as i32) > 0
}

/// Reports of the driver with fence ids that are impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidFence {
    pub(crate) reported: u32,
    pub(crate) last_completed: u32,
    pub(crate) last_submitted: u32,
}

/// The ids of a node. All ids up to the last completed one are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketFences {
    last_submitted: u32,
    last_completed: u32,
    abandoned: bool,
}

impl PacketFences {
    /// A node on which `last` and everything before it is complete.
    pub(crate) fn starting_after(last: u32) -> Self {
        Self { last_submitted: last, last_completed: last, abandoned: false }
    }

    /// Takes the id for a packet that is about to be submitted.
    pub(crate) fn submit(&mut self) -> u32 {
        self.last_submitted = self.last_submitted.wrapping_add(1);
        if self.abandoned {
            self.last_completed = self.last_submitted;
        }
        self.last_submitted
    }

    /// The node is gone: every packet counts as complete, also those to come. What they would have done is lost with the device, and
    /// what they held can be given back.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
        self.last_completed = self.last_submitted;
    }

    /// True if nothing runs packets any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// True if packet `id` is complete.
    pub(crate) fn is_complete(&self, id: u32) -> bool {
        !is_after(id, self.last_completed)
    }

    /// All packets up to `id` are complete, says the driver.
    ///
    /// # Errors
    /// The id was complete before, or was never submitted.
    pub(crate) fn complete(&mut self, id: u32) -> Result<(), InvalidFence> {
        // A report may have been under way when the device vanished.
        if self.abandoned {
            return Ok(());
        }
        if is_after(id, self.last_completed) && !is_after(id, self.last_submitted) {
            self.last_completed = id;
            Ok(())
        } else {
            Err(self.invalid(id))
        }
    }

    /// The node starts over: every packet counts as complete. Those to come run.
    pub(crate) fn start_over(&mut self) {
        self.last_completed = self.last_submitted;
    }

    /// Description of a reported fence id that no submission can have at this moment.
    pub(crate) fn invalid(&self, id: u32) -> InvalidFence {
        InvalidFence { reported: id, last_completed: self.last_completed, last_submitted: self.last_submitted }
    }

    /// Id of the last packet submitted.
    pub(crate) fn last_submitted(&self) -> u32 {
        self.last_submitted
    }

    /// Id of the last packet complete.
    pub(crate) fn last_completed(&self) -> u32 {
        self.last_completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_across_the_wrap() {
        for (id, other, after) in [
            (1, 0, true),
            (0, 0, false),
            (0, 1, false),
            (0, u32::MAX, true),
            (u32::MAX, 0, false),
            (5, u32::MAX - 5, true),
            (0x7fff_ffff, 0, true),
            (0x8000_0001, 0, false),
        ] {
            assert_eq!(is_after(id, other), after, "{id:#x} after {other:#x}");
        }
    }

    #[test]
    fn one_report_completes_everything_before_it_and_ids_survive_the_wrap() {
        let mut fences = PacketFences::starting_after(u32::MAX - 3);
        let ids: Vec<u32> = (0..8).map(|_| fences.submit()).collect();
        assert_eq!(ids, [u32::MAX - 2, u32::MAX - 1, u32::MAX, 0, 1, 2, 3, 4]);
        assert_eq!(fences.complete(0), Ok(()));
        assert!(ids[..4].iter().all(|id| fences.is_complete(*id)));
        assert!(ids[4..].iter().all(|id| !fences.is_complete(*id)));
        assert_eq!(fences.complete(4), Ok(()));
        assert_eq!((fences.last_completed(), fences.last_submitted()), (4, 4));
    }

    #[test]
    fn repeated_lower_and_unknown_ids_are_invalid_and_change_nothing() {
        let mut fences = PacketFences::starting_after(10);
        let (_, second) = (fences.submit(), fences.submit());
        assert_eq!(fences.complete(11), Ok(()));
        for id in [11, 10, 0, second + 1, u32::MAX] {
            let before = fences;
            assert_eq!(
                fences.complete(id),
                Err(InvalidFence { reported: id, last_completed: 11, last_submitted: second })
            );
            assert_eq!(fences, before);
        }
    }
}
