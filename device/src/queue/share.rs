//! The share of the normal band beside a busy focus band.
//!
//! While both have runnable queues, every packet of the focus band adds to what the normal band is owed, and every packet of the
//! normal band takes from it. Once it is owed [`LEAST_DUE`] packets, the normal band goes before the focus band until it is owed nothing.
//! While only one of the two bands has runnable queues nothing is owed: a share cannot be saved up.

/// The two bands that share a node.
pub(super) const BAND_NORMAL: usize = 1;
pub(super) const BAND_FOCUS: usize = 2;
/// Largest share, in percent.
const PERCENT_MAX: u32 = 50;
/// Packets that the normal band is owed before it goes first.
const LEAST_DUE: i64 = 16;

/// Share of the normal band, and how much of it is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    percent: i64,
    /// What the normal band is owed, in hundredths of a packet. Less than 0 when the normal band ran for longer, in a grace period.
    owed: i64,
    /// True while the normal band goes first.
    due: bool,
}

impl Share {
    /// A share of so many percent; `None` above 50.
    pub(crate) fn new(percent: u32) -> Option<Self> {
        (percent <= PERCENT_MAX).then(|| Self { percent: percent.into(), ..Self::default() })
    }

    /// True while the normal band goes before the focus band. All other bands go by their number.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// What a packet of the normal band takes from the debt, in hundredths of a packet.
    fn price(&self) -> i64 {
        100 - self.percent
    }

    /// Packets that a queue of `band` may run before the next choice.
    pub(super) fn limit(&self, band: usize) -> u32 {
        if band != BAND_NORMAL || !self.due {
            return u32::MAX;
        }
        u32::try_from(self.owed / self.price()).unwrap_or(u32::MAX).max(1)
    }

    /// Accounts for `packets` that a queue of `band` ran. `normal_waited` and `focus_waited` are true if queues of those bands
    /// waited meanwhile.
    pub(super) fn charge(&mut self, band: usize, packets: u32, normal_waited: bool, focus_waited: bool) {
        let packets = i64::from(packets);
        match band {
            BAND_FOCUS if normal_waited => self.owed = self.owed.saturating_add(packets * self.percent),
            BAND_NORMAL if focus_waited => self.owed = self.owed.saturating_sub(packets * self.price()),
            BAND_FOCUS | BAND_NORMAL => self.owed = 0,
            _ => return,
        }
        let least = if self.due { 1 } else { LEAST_DUE };
        self.due = self.owed >= least * self.price();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that each band gets of many, always in slices of `slice`.
    fn contest(percent: u32, slice: u32) -> (u64, u64) {
        let (mut share, mut normal, mut focus) = (Share::new(percent).expect("legal"), 0, 0);
        for _ in 0..20_000 {
            let band = if share.is_due() { BAND_NORMAL } else { BAND_FOCUS };
            let packets = slice.min(share.limit(band));
            // The normal band never stops where it should.
            let packets = if band == BAND_NORMAL { packets + 5 } else { packets };
            share.charge(band, packets, band == BAND_FOCUS, band == BAND_NORMAL);
            *(if band == BAND_NORMAL { &mut normal } else { &mut focus }) += u64::from(packets);
        }
        (normal, focus)
    }

    #[test]
    fn the_normal_band_gets_its_percentage_whatever_the_slices() {
        assert_eq!(contest(0, 64).0, 0);
        for percent in [1, 10, 33, 50] {
            for slice in [1, 7, 64] {
                let (normal, focus) = contest(percent, slice);
                let expected = (normal + focus) * u64::from(percent) / 100;
                assert!(
                    normal.abs_diff(expected) <= 64,
                    "{percent} % in slices of {slice}: {normal} of {}",
                    normal + focus
                );
            }
        }
        assert!(Share::new(51).is_none());
    }

    #[test]
    fn nothing_is_owed_without_the_other() {
        let mut share = Share::new(50).expect("legal");
        share.charge(BAND_FOCUS, 64, true, false);
        assert!(share.is_due());
        share.charge(3, 64, true, true);
        assert!(share.due, "the realtime band settles nothing");
        share.charge(BAND_FOCUS, 64, false, true);
        assert!(!share.due && share.owed == 0);
    }
}
