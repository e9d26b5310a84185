//! Shares of programs in descriptors and hardware queues, of which all programs of a machine have so many together.

use dxgkrnl::Share;
use rustix::process::{Resource, getrlimit};

/// Descriptors that are no program's: of the machine with its GPUs, of those who connect, and of those who look on.
const OF_MACHINE: usize = 512;
/// Descriptors of each program beside those that its share counts: its connection, its process, its memory, and the files in which it is shown memory.
const OF_PROGRAM: usize = 24;
/// The smallest share: a host that allows fewer descriptors than that needs serves fewer programs.
const DESCRIPTORS_MIN: usize = 48;
/// Hardware queues that one of several programs may have on an adapter: half of what this project's GPU takes. Drivers do not say how many they take.
const HARDWARE_QUEUES: usize = 8192;

/// The share of each of so many programs.
pub(super) fn of(programs: usize) -> Share {
    // No limit is no number.
    let descriptors = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    Share {
        descriptors: descriptors_of(programs, descriptors),
        hardware_queues: if programs > 1 { HARDWARE_QUEUES } else { usize::MAX },
    }
}

fn descriptors_of(programs: usize, all: usize) -> usize {
    let each = all.saturating_sub(OF_MACHINE) / programs.max(1);
    each.saturating_sub(OF_PROGRAM).max(DESCRIPTORS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_leave_the_machine_what_it_needs() {
        for (programs, all, each) in
            [(64, 20_000, 280), (64, 1 << 20, 16_352), (1, 20_000, 19_464), (64, 1024, 48), (0, 0, 48)]
        {
            assert_eq!(descriptors_of(programs, all), each, "{programs} of {all}");
            assert!(each == 48 || programs * (each + OF_PROGRAM) + OF_MACHINE <= all);
        }
    }

    #[test]
    fn one_of_several_programs_cannot_have_all_hardware_queues() {
        assert_eq!([1, 2, 64].map(|programs| of(programs).hardware_queues), [usize::MAX, 8192, 8192]);
    }
}
