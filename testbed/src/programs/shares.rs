//! Shares of programs in descriptors and hardware queues, of which all programs of a machine have so many together.

use std::fmt;

use dxgkrnl::{DESCRIPTORS_LEFT, Share};
use rustix::process::{Resource, getrlimit};

/// Descriptors that are no program's: of the machine with its GPUs, of those who connect, of those who look on, and of what programs have left that have ended.
const OF_MACHINE: usize = 512 + DESCRIPTORS_LEFT;
/// Descriptors of each program beside those that its share counts: its connection, its process, its memory, and the files in which it is shown memory.
const OF_PROGRAM: usize = 24;
/// The smallest share: a host that allows fewer descriptors than that needs serves fewer programs.
const DESCRIPTORS_MIN: usize = 48;
/// Hardware queues that one of several programs may have on an adapter: half of what this project's GPU takes. Drivers do not say how many they take.
const HARDWARE_QUEUES: usize = 8192;

/// Descriptors that the host lets this process open.
fn allowed() -> usize {
    // No limit is no number.
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The host allows fewer descriptors than a machine promises its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewDescriptors {
    programs: usize,
    allowed: usize,
}

impl TooFewDescriptors {
    /// Looks whether this process can give so many programs their shares.
    pub fn check(programs: usize) -> Option<Self> {
        Self::of(programs, allowed())
    }

    fn of(programs: usize, allowed: usize) -> Option<Self> {
        (allowed < needed(programs)).then_some(Self { programs, allowed })
    }
}

impl fmt::Display for TooFewDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, allowed } = *self;
        write!(f, "the host allows it {allowed} descriptors, and {programs} programs need {}: ", needed(programs))?;
        f.write_str("some may be refused what their shares promise; start it after `ulimit -n` with a higher limit, ")?;
        match allowed.saturating_sub(OF_MACHINE) / (OF_PROGRAM + DESCRIPTORS_MIN) {
            0 => write!(f, "{} at least", needed(1)),
            fewer => write!(f, "or with --programs {fewer}"),
        }
    }
}

/// Descriptors with which so many programs have the smallest share.
fn needed(programs: usize) -> usize {
    programs.saturating_mul(OF_PROGRAM + DESCRIPTORS_MIN).saturating_add(OF_MACHINE)
}

/// The share of each of so many programs.
pub(super) fn of(programs: usize) -> Share {
    Share {
        descriptors: descriptors_of(programs, allowed()),
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
            [(64, 20_000, 276), (64, 1 << 20, 16_348), (1, 20_000, 19_208), (64, 1024, 48), (0, 0, 48)]
        {
            assert_eq!(descriptors_of(programs, all), each, "{programs} of {all}");
            assert!(each == 48 || programs * (each + OF_PROGRAM) + OF_MACHINE <= all);
        }
    }

    #[test]
    fn a_host_that_allows_too_few_descriptors_is_complained_of_with_what_to_do() {
        let text = |programs, allowed| TooFewDescriptors::of(programs, allowed).map(|few| few.to_string());
        assert_eq!(
            [(64, 5376), (1, 840), (1, usize::MAX)].map(|(programs, allowed)| text(programs, allowed)),
            [const { None }; 3]
        );
        let few = text(64, 5375).unwrap();
        assert!(few.contains("5375 descriptors, and 64 programs need 5376") && few.ends_with("--programs 63"), "{few}");
        let few = text(1, 839).unwrap();
        assert!(few.contains("`ulimit -n`") && few.ends_with("840 at least"), "{few}");
    }

    #[test]
    fn one_of_several_programs_cannot_have_all_hardware_queues() {
        assert_eq!([1, 2, 64].map(|programs| of(programs).hardware_queues), [usize::MAX, 8192, 8192]);
    }
}
