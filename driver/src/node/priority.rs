//! Translates priority bands, levels, priorities, quanta and grace periods of the operating system to those of the hardware.

use core::ops::RangeInclusive;

use campanile_hw::queue::QueueRank;
use wddm_ddi::km::*;

use crate::refusal::{Reason, Refused, refused};

/// Priority bands: idle, normal, focus, realtime, as in the rank of a queue.
const BANDS: usize = 4;
const BAND_NORMAL: u8 = 1;
const BAND_REALTIME: u8 = 3;
/// Levels within the realtime band, and priorities within a process. [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
const REALTIME_LEVELS: RangeInclusive<i32> = 0..=31;
const IN_PROCESS: RangeInclusive<i32> = -7..=7;
/// The hardware counts packets where the operating system counts time: so many units of 100 ns are one packet.
const PACKET_TIME: u64 = 1000;
/// Largest share of the normal band. [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
const LARGEST_PERCENTAGE: u32 = 50;

/// The time slice, in packets, for a quantum in units of time: at least one packet. A quantum of 0 gives 0, which stands for the hardware's
/// own time slice.
fn time_slice(time: u64) -> u32 {
    if time == 0 { 0 } else { whole(time).max(1) }
}

/// A grace period in packets, never longer than the time.
fn whole(time: u64) -> u32 {
    u32::try_from(time / PACKET_TIME).unwrap_or(u32::MAX)
}

/// The rank that the hardware gives the queues of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    pub(crate) rank: QueueRank,
    /// In packets, 0 for the hardware's own.
    pub(crate) quantum: u32,
    /// In packets, before a queue of the same process and rank is preempted.
    pub(crate) grace_same: u32,
    /// In packets, before a queue of the same process and a lower rank is preempted.
    pub(crate) grace_lower: u32,
}

impl Priority {
    /// The one of a new context, and of the nodes' own queues: the normal band.
    pub(crate) const fn normal() -> Self {
        Self { rank: QueueRank::new().with_band(BAND_NORMAL), quantum: 0, grace_same: 0, grace_lower: 0 }
    }

    /// What the operating system asks for. The level counts in the realtime band only.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a band that does not exist, or a level or priority out of its range.
    pub(crate) fn of(args: &DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES) -> Result<Self, Refused> {
        let in_range = |range: RangeInclusive<i32>, value: i32| {
            i8::try_from(value).ok().filter(|_| range.contains(&value)).ok_or(refused(Reason::Priority))
        };
        let band = u8::try_from(args.priorityBand.0).ok().filter(|band| *band <= BAND_REALTIME);
        let band = band.ok_or(refused(Reason::Priority))?;
        let level = match band {
            BAND_REALTIME => in_range(REALTIME_LEVELS, args.realtimeBandPriorityLevel)?.unsigned_abs(),
            _ => 0,
        };
        let in_process = in_range(IN_PROCESS, args.inProcessPriority)?;
        Ok(Self {
            rank: QueueRank::new().with_band(band).with_level(level).with_in_process(in_process),
            quantum: time_slice(args.quantum),
            grace_same: whole(args.gracePeriodSamePriority),
            grace_lower: whole(args.gracePeriodLowerPriority),
        })
    }

    /// Arguments of SetQueuePriority.
    pub(crate) fn arguments(self, queue: u32) -> [u64; 5] {
        let rank = self.rank.into_bits();
        [queue.into(), rank.into(), self.quantum.into(), self.grace_same.into(), self.grace_lower.into()]
    }
}

/// Times of a band in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BandTimes {
    process_quantum: u32,
    grace: u32,
    process_grace: u32,
}

/// Scheduling parameters of the priority bands, as the registers take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Percentage of the normal band beside a busy focus band.
    pub(crate) share: u32,
    times: [BandTimes; BANDS],
}

impl Bands {
    /// The values that the registers have after a reset.
    pub(crate) const fn unset() -> Self {
        Self { share: 0, times: [BandTimes { process_quantum: 0, grace: 0, process_grace: 0 }; BANDS] }
    }

    /// What the operating system asks for. No band is lower than the idle one, so its grace for those is ignored.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a percentage above 50.
    pub(crate) fn of(args: &DXGKARG_SETUPPRIORITYBANDS) -> Result<Self, Refused> {
        if args.targetNormalBandPercentage > LARGEST_PERCENTAGE {
            return Err(refused(Reason::Priority));
        }
        let mut bands = Self { share: args.targetNormalBandPercentage, ..Self::unset() };
        let times = args.processQuantumForBand.into_iter().zip(args.gracePeriodForBand);
        for (band, ((quantum, grace), process_grace)) in
            bands.times.iter_mut().zip(times.zip(args.processGracePeriodForBand))
        {
            let (process_quantum, grace, process_grace) = (time_slice(quantum), whole(grace), whole(process_grace));
            *band = BandTimes { process_quantum, grace, process_grace };
        }
        if let Some(idle) = bands.times.first_mut() {
            idle.grace = 0;
        }
        Ok(bands)
    }

    /// Arguments of SetBandTimes for each band.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = [u64; 4]> {
        (0..)
            .zip(self.times)
            .map(|(band, times)| [band, times.process_quantum.into(), times.grace.into(), times.process_grace.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::Zeroed;

    #[test]
    fn turns_are_at_least_a_packet_and_graces_never_longer_than_said() {
        let asked = [0, 1, 999, 1000, 1999, 200_000, u64::MAX];
        assert_eq!(asked.map(time_slice), [0, 1, 1, 1, 1, 200, u32::MAX]);
        assert_eq!(asked.map(whole), [0, 0, 0, 1, 1, 200, u32::MAX]);
    }

    #[test]
    fn times_of_bands_stay_with_their_band_and_the_idle_one_outranks_nobody() {
        let mut args = DXGKARG_SETUPPRIORITYBANDS::zeroed();
        args.gracePeriodForBand = [1000, 2000, 3000, 4000];
        args.processQuantumForBand = [5000, 6000, 7000, 8000];
        args.processGracePeriodForBand = [9000, 10_000, 11_000, 12_000];
        args.targetNormalBandPercentage = 50;
        let bands = Bands::of(&args).unwrap();
        let told: Vec<_> = bands.arguments().collect();
        assert_eq!(told, [[0, 5, 0, 9], [1, 6, 2, 10], [2, 7, 3, 11], [3, 8, 4, 12]]);
        assert_eq!(bands.share, 50);
        args.targetNormalBandPercentage = 51;
        assert_eq!(Bands::of(&args), Err(refused(Reason::Priority)));
    }
}
