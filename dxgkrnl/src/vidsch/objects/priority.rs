//! Priorities of contexts and classes of processes, and the bands that they come to.
//!
//! A context has a priority among all contexts, -7 to 31, and one among those of its process, -7 to 7; both are 0 at first. The
//! first one chooses the band: below 0 idle, 0 normal, 1 to 7 focus, above 7 realtime at that level. The class of the process moves
//! the bands of its contexts, but for those that are realtime by themselves: idle puts them all into the idle band, below normal one band
//! down, above normal one band up to the focus band at most, high into the focus band, and realtime into the lowest levels of the realtime
//! band, 0 to 7. Focus and realtime band take a right of the process. Quanta belong to bands.

use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicI32, Ordering};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DKMT_SCHEDULINGPRIORITYCLASS;
use wddm_ddi::status::*;

use crate::refusal::Failure;

type Band = DXGK_SCHEDULING_PRIORITY_BAND;

pub(in crate::vidsch) type Class = D3DKMT_SCHEDULINGPRIORITYCLASS;

/// Priorities outside the realtime band.
const ORDINARY: RangeInclusive<i32> = -7..=7;

/// Priorities in the realtime band.
const REALTIME: RangeInclusive<i32> = 8..=31;

/// Quantum of each band, in 100 ns: 5, 10, 10 and 20 ms.
pub(in crate::vidsch) const QUANTA: [u64; 4] = [50_000, 100_000, 100_000, 200_000];

/// 1 ms, so that work of a lower band is not cut short for every small piece of a higher one; nobody outranks the realtime band.
pub(in crate::vidsch) const GRACE: [u64; 4] = [10_000, 10_000, 10_000, 0];

/// Share of the normal band beside a busy focus band. [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
pub(in crate::vidsch) const NORMAL_PERCENTAGE: u32 = 10;

/// Priorities of a context, each in its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority {
    /// Among all contexts.
    pub(crate) global: i32,
    /// Among those of the process.
    pub(crate) in_process: i32,
}

/// The priority if it is one, for a process with or without the right to increase it, which the focus band takes only where the
/// hardware schedules.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for one that does not exist; STATUS_PRIVILEGE_NOT_HELD for a band that takes the right, without it.
/// [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
pub(crate) fn check_global(priority: i32, right: bool, hardware: bool) -> Result<i32, Failure> {
    let free = if hardware { 0 } else { *ORDINARY.end() };
    match priority {
        priority if !ORDINARY.contains(&priority) && !REALTIME.contains(&priority) => {
            Err(STATUS_INVALID_PARAMETER.into())
        }
        priority if priority > free && !right => Err(STATUS_PRIVILEGE_NOT_HELD.into()),
        priority => Ok(priority),
    }
}

/// The priority within the process if it is one.
///
/// # Errors
/// STATUS_INVALID_PARAMETER
pub(crate) fn check_in_process(priority: i32) -> Result<i32, Failure> {
    if ORDINARY.contains(&priority) { Ok(priority) } else { Err(STATUS_INVALID_PARAMETER.into()) }
}

/// The class if it is one, for a process with or without the right to increase it.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for one that does not exist; STATUS_PRIVILEGE_NOT_HELD for one above normal without the right.
pub(crate) fn check_class(class: Class, right: bool) -> Result<Class, Failure> {
    match class.0 {
        0..=2 => Ok(class),
        3..=5 if right => Ok(class),
        3..=5 => Err(STATUS_PRIVILEGE_NOT_HELD.into()),
        _ => Err(STATUS_INVALID_PARAMETER.into()),
    }
}

/// The class of a process, which its contexts look at.
#[derive(Debug)]
pub(crate) struct SchedulingClass(AtomicI32);

impl Default for SchedulingClass {
    fn default() -> Self {
        Self(AtomicI32::new(Class::D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL.0))
    }
}

impl SchedulingClass {
    pub(crate) fn get(&self) -> Class {
        D3DKMT_SCHEDULINGPRIORITYCLASS(self.0.load(Ordering::Acquire))
    }

    /// The class before.
    pub(crate) fn set(&self, class: Class) -> Class {
        D3DKMT_SCHEDULINGPRIORITYCLASS(self.0.swap(class.0, Ordering::AcqRel))
    }
}

impl Priority {
    /// The band in a process of this class, and the level in the realtime band, 0 in others.
    fn place(self, class: Class) -> (Band, i32) {
        const BY_NUMBER: [Band; 3] = [
            Band::DXGK_SCHEDULING_PRIORITY_BAND_IDLE,
            Band::DXGK_SCHEDULING_PRIORITY_BAND_NORMAL,
            Band::DXGK_SCHEDULING_PRIORITY_BAND_FOCUS,
        ];
        if REALTIME.contains(&self.global) {
            return (Band::DXGK_SCHEDULING_PRIORITY_BAND_REALTIME, self.global);
        }
        let own: usize = match self.global {
            ..0 => 0,
            0 => 1,
            1.. => 2,
        };
        let number = match class {
            Class::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE => 0,
            Class::D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL => own.saturating_sub(1),
            Class::D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL => (own + 1).min(2),
            Class::D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH => 2,
            Class::D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME => {
                return (Band::DXGK_SCHEDULING_PRIORITY_BAND_REALTIME, self.global.max(0));
            }
            _ => own,
        };
        (BY_NUMBER.get(number).copied().unwrap_or(Band::DXGK_SCHEDULING_PRIORITY_BAND_NORMAL), 0)
    }

    /// One number for what the scheduler of packets compares: bands first, then levels or priorities in them.
    pub(in crate::vidsch) fn among_all(self, class: Class) -> i32 {
        const BAND: i32 = 64;
        let (band, level) = self.place(class);
        let within = if band == Band::DXGK_SCHEDULING_PRIORITY_BAND_REALTIME { level } else { self.global };
        band.0 * BAND + within
    }

    pub(in crate::vidsch) fn properties(self, class: Class) -> DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES {
        let mut args = DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES::zeroed();
        let (band, level) = self.place(class);
        let of_band = |times: [u64; 4]| usize::try_from(band.0).ok().and_then(|band| times.get(band).copied());
        args.priorityBand = band;
        args.realtimeBandPriorityLevel = level;
        args.inProcessPriority = self.in_process;
        args.quantum = of_band(QUANTA).unwrap_or_default();
        args.gracePeriodSamePriority = of_band(GRACE).unwrap_or_default();
        // Whoever has a higher priority waits for less.
        args.gracePeriodLowerPriority = args.gracePeriodSamePriority / 2;
        args
    }
}

/// Priority and class of a context that the driver was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct Told {
    pub(in crate::vidsch) priority: Priority,
    pub(in crate::vidsch) class: Class,
}

impl Default for Told {
    fn default() -> Self {
        Self { priority: Priority::default(), class: Class::D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL }
    }
}

/// Priority of a packet context relative to the other contexts of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct PacketPriority {
    pub(in crate::vidsch) among_all: i32,
    /// Names the process while it lives.
    pub(in crate::vidsch) process: usize,
    pub(in crate::vidsch) in_process: i32,
}

impl PacketPriority {
    /// Its packets run before those of the other one. Priorities within a process mean nothing to others.
    pub(in crate::vidsch) fn outranks(self, other: Self) -> bool {
        self.among_all > other.among_all || self.shares_slice(other) && self.in_process > other.in_process
    }

    /// Of one process and of the same priority among all.
    pub(in crate::vidsch) fn shares_slice(self, other: Self) -> bool {
        self.process == other.process && self.among_all == other.among_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_a_range_and_high_bands_take_a_right() {
        for priority in -7..=7 {
            assert_eq!(check_in_process(priority), Ok(priority));
            assert_eq!(check_global(priority, true, true), Ok(priority));
            assert_eq!(check_global(priority, false, false), Ok(priority));
            let without = if priority > 0 { Err(STATUS_PRIVILEGE_NOT_HELD.into()) } else { Ok(priority) };
            assert_eq!(check_global(priority, false, true), without);
        }
        for (priority, hardware) in (8..=31).flat_map(|priority| [(priority, false), (priority, true)]) {
            assert_eq!(check_global(priority, false, hardware), Err(STATUS_PRIVILEGE_NOT_HELD.into()));
            assert_eq!(check_global(priority, true, hardware), Ok(priority));
            assert_eq!(check_in_process(priority), Err(STATUS_INVALID_PARAMETER.into()));
        }
        for priority in [-8, 32, i32::MIN, i32::MAX] {
            assert_eq!(check_global(priority, true, true), Err(STATUS_INVALID_PARAMETER.into()));
            assert_eq!(check_in_process(priority), Err(STATUS_INVALID_PARAMETER.into()));
        }
        for class in -1..=6 {
            let checked = |right| check_class(D3DKMT_SCHEDULINGPRIORITYCLASS(class), right).map(|class| class.0);
            let (with, without) = match class {
                0..=2 => (Ok(class), Ok(class)),
                3..=5 => (Ok(class), Err(STATUS_PRIVILEGE_NOT_HELD.into())),
                _ => (Err(STATUS_INVALID_PARAMETER.into()), Err(STATUS_INVALID_PARAMETER.into())),
            };
            assert_eq!((checked(true), checked(false)), (with, without));
        }
    }

    #[test]
    fn the_priority_chooses_band_level_and_times() {
        let of = |global| {
            let args = Priority { global, in_process: -3 }.properties(SchedulingClass::default().get());
            assert_eq!(args.inProcessPriority, -3);
            let graces = (args.gracePeriodSamePriority, args.gracePeriodLowerPriority);
            (args.priorityBand.0, args.realtimeBandPriorityLevel, args.quantum, graces)
        };
        assert_eq!([of(-7), of(-1)], [(0, 0, 50_000, (10_000, 5_000)); 2]);
        assert_eq!(of(0), (1, 0, 100_000, (10_000, 5_000)));
        assert_eq!([of(1), of(7)], [(2, 0, 100_000, (10_000, 5_000)); 2]);
        assert_eq!([of(8), of(31)], [(3, 8, 200_000, (0, 0)), (3, 31, 200_000, (0, 0))]);
    }

    #[test]
    fn the_class_of_the_process_moves_bands() {
        for (class, expected) in [
            (0, [(0, 0), (0, 0), (0, 0), (3, 9)]),
            (1, [(0, 0), (0, 0), (1, 0), (3, 9)]),
            (2, [(0, 0), (1, 0), (2, 0), (3, 9)]),
            (3, [(1, 0), (2, 0), (2, 0), (3, 9)]),
            (4, [(2, 0), (2, 0), (2, 0), (3, 9)]),
            (5, [(3, 0), (3, 0), (3, 5), (3, 9)]),
        ] {
            let class = D3DKMT_SCHEDULINGPRIORITYCLASS(class);
            let place = |global| {
                let (band, level) = Priority { global, in_process: 0 }.place(class);
                (band.0, level)
            };
            assert_eq!([-5, 0, 5, 9].map(place), expected, "{class:?}");
        }
    }

    #[test]
    fn packets_are_compared_by_band_first() {
        let of = |global, class| Priority { global, in_process: 0 }.among_all(D3DKMT_SCHEDULINGPRIORITYCLASS(class));
        let order = [of(-7, 2), of(-1, 2), of(0, 2), of(1, 2), of(7, 2), of(0, 5), of(7, 5), of(8, 0), of(31, 2)];
        assert!(order.is_sorted() && order[0] != order[1] && order[4] < order[5] && order[6] < order[7]);
        assert!(of(7, 0) < of(0, 2) && of(-7, 4) > of(0, 2));
    }
}
