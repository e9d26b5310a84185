//! Priorities of hardware contexts, and the bands that they come to.
//!
//! A context has a priority among all contexts, -7 to 31, and one among those of its process, -7 to 7; both are 0 at first. The
//! first one chooses the band: below 0 idle, 0 normal, 1 to 7 focus, above 7 realtime at that level, which takes a right of the
//! process. Quanta belong to bands.

use core::ops::RangeInclusive;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::adapter::Adapter;
use crate::machine::lock;

use super::VidSch;
use super::hw_context::HwContext;

type Band = DXGK_SCHEDULING_PRIORITY_BAND;

/// Priorities of any process.
const ORDINARY: RangeInclusive<i32> = -7..=7;
/// Priorities in the realtime band.
const REALTIME: RangeInclusive<i32> = 8..=31;
/// Quantum of each band, in 100 ns: 5, 10, 10 and 20 ms.
const QUANTA: [u64; 4] = [50_000, 100_000, 100_000, 200_000];
/// 1 ms, so that work of a lower band is not cut short for every small piece of a higher one; nobody outranks the realtime band.
const GRACE: [u64; 4] = [10_000, 10_000, 10_000, 0];
/// Share of the normal band beside a busy focus band. [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
const NORMAL_PERCENTAGE: u32 = 10;

/// Priorities of a context, each in its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority {
    /// Among all contexts.
    pub(crate) global: i32,
    /// Among those of the process.
    pub(crate) in_process: i32,
}

/// The priority if it is one, for a process with or without the right to the realtime band.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for one that does not exist; STATUS_PRIVILEGE_NOT_HELD for the realtime band without the right.
pub(crate) fn check_global(priority: i32, realtime: bool) -> Result<i32, NTSTATUS> {
    match priority {
        priority if ORDINARY.contains(&priority) => Ok(priority),
        priority if REALTIME.contains(&priority) && realtime => Ok(priority),
        priority if REALTIME.contains(&priority) => Err(STATUS_PRIVILEGE_NOT_HELD),
        _ => Err(STATUS_INVALID_PARAMETER),
    }
}

/// The priority within the process if it is one.
///
/// # Errors
/// STATUS_INVALID_PARAMETER
pub(crate) fn check_in_process(priority: i32) -> Result<i32, NTSTATUS> {
    if ORDINARY.contains(&priority) { Ok(priority) } else { Err(STATUS_INVALID_PARAMETER) }
}

impl Priority {
    fn band(self) -> Band {
        match self.global {
            ..0 => Band::DXGK_SCHEDULING_PRIORITY_BAND_IDLE,
            0 => Band::DXGK_SCHEDULING_PRIORITY_BAND_NORMAL,
            1..=7 => Band::DXGK_SCHEDULING_PRIORITY_BAND_FOCUS,
            8.. => Band::DXGK_SCHEDULING_PRIORITY_BAND_REALTIME,
        }
    }

    fn properties(self) -> DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES {
        let mut args = DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES::zeroed();
        let band = self.band();
        let of_band = |times: [u64; 4]| usize::try_from(band.0).ok().and_then(|band| times.get(band).copied());
        args.priorityBand = band;
        args.realtimeBandPriorityLevel = if REALTIME.contains(&self.global) { self.global } else { 0 };
        args.inProcessPriority = self.in_process;
        args.quantum = of_band(QUANTA).unwrap_or_default();
        args.gracePeriodSamePriority = of_band(GRACE).unwrap_or_default();
        args.gracePeriodLowerPriority = args.gracePeriodSamePriority;
        args
    }
}

impl VidSch {
    /// Tells the driver about priority bands, once an adapter. Times are in 100 ns. [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
    pub(super) fn setup_priority_bands(&self, adapter: &Adapter) -> Result<(), NTSTATUS> {
        let status = *self.bands.get_or_init(|| {
            let mut args = DXGKARG_SETUPPRIORITYBANDS::zeroed();
            args.gracePeriodForBand = GRACE;
            args.processQuantumForBand = QUANTA;
            args.processGracePeriodForBand = GRACE;
            args.targetNormalBandPercentage = NORMAL_PERCENTAGE;
            adapter.miniport.setup_priority_bands(adapter.context().raw(), &args)
        });
        status.ok()
    }
}

impl HwContext {
    /// Its priorities.
    pub(crate) fn priority(&self) -> Priority {
        *lock(&self.priority)
    }

    /// Changes priorities and tells the driver, also when nothing changed. [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a context that is gone; what the driver answered. The priorities are what they were then.
    pub(crate) fn set_priority(&self, change: impl FnOnce(&mut Priority)) -> Result<(), NTSTATUS> {
        let _working = self.adapter().use_node(self.node());
        let gone = lock(&self.teardown);
        if *gone || self.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE);
        }
        let mut wanted = self.priority();
        change(&mut wanted);
        let mut args = wanted.properties();
        args.hContext = self.handles().1.raw();
        let adapter = self.adapter();
        adapter.miniport.set_context_scheduling_properties(adapter.context().raw(), &args).ok()?;
        *lock(&self.priority) = wanted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_a_range_and_the_realtime_band_takes_a_right() {
        for priority in -7..=7 {
            assert_eq!((check_global(priority, false), check_in_process(priority)), (Ok(priority), Ok(priority)));
        }
        for priority in 8..=31 {
            assert_eq!(check_global(priority, false), Err(STATUS_PRIVILEGE_NOT_HELD));
            assert_eq!(check_global(priority, true), Ok(priority));
            assert_eq!(check_in_process(priority), Err(STATUS_INVALID_PARAMETER));
        }
        for priority in [-8, 32, i32::MIN, i32::MAX] {
            assert_eq!(check_global(priority, true), Err(STATUS_INVALID_PARAMETER));
            assert_eq!(check_in_process(priority), Err(STATUS_INVALID_PARAMETER));
        }
    }

    #[test]
    fn the_priority_chooses_band_level_and_quantum() {
        let of = |global| {
            let args = Priority { global, in_process: -3 }.properties();
            (args.priorityBand.0, args.realtimeBandPriorityLevel, args.inProcessPriority, args.quantum)
        };
        assert_eq!([of(-7), of(-1)], [(0, 0, -3, 50_000); 2]);
        assert_eq!(of(0), (1, 0, -3, 100_000));
        assert_eq!([of(1), of(7)], [(2, 0, -3, 100_000); 2]);
        assert_eq!([of(8), of(31)], [(3, 8, -3, 200_000), (3, 31, -3, 200_000)]);
    }
}
