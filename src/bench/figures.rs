//! Figures of measurements and of rounds, and ratios that are taken within a round.

use serde::Serialize;

use crate::clock::Latencies;

/// Quantiles of one measurement. The tenth percentile is what a machine that does other things too disturbs least: a sample is only ever
/// made longer by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Figures {
    /// Of a round's samples.
    pub fn of(latencies: &Latencies) -> Self {
        let [p10, p50, p99] = [10.0, 50.0, 99.0].map(|percent| latencies.percentile(percent));
        Self { p10, p50, p99 }
    }

    /// Medians over rounds.
    pub(super) fn over(rounds: impl Iterator<Item = Self> + Clone) -> Self {
        let over = |quantile: fn(Self) -> f64| median(rounds.clone().map(quantile));
        Self { p10: over(|it| it.p10), p50: over(|it| it.p50), p99: over(|it| it.p99) }
    }
}

/// Figures of one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Our side.
    pub ours: Figures,
    /// The peers in the row's order, `None` for those that the host lacks.
    pub peers: Vec<Option<Figures>>,
}

/// Our figures over a peer's, taken within each round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ratio {
    /// Median over the rounds of the quotient of 10th percentiles.
    pub p10: f64,
    /// Median over the rounds of the quotient of medians.
    pub p50: f64,
    /// Smallest quotient of medians of a round.
    pub low: f64,
    /// Largest quotient of medians of a round.
    pub high: f64,
    /// Where the median of `p50` lies with a probability of 95 %, whatever rounds are distributed like; of fewer than six rounds all that was seen.
    pub interval: [f64; 2],
}

impl Ratio {
    /// Over the rounds in which the peer was measured; `None` if there are none.
    pub(super) fn over(rounds: &[Round], peer: usize) -> Option<Self> {
        let of = |quantile: fn(Figures) -> f64| -> Vec<f64> {
            let pairs = rounds.iter().filter_map(|round| Some((round.ours, (*round.peers.get(peer)?)?)));
            pairs.map(|(ours, peer)| quotient(quantile(ours), quantile(peer))).collect()
        };
        let mut ratios = of(|figures| figures.p50);
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (*ratios.first()?, *ratios.last()?);
        let beyond = beyond_interval(ratios.len());
        let interval = [*ratios.get(beyond)?, *ratios.iter().nth_back(beyond)?];
        let p10 = median(of(|figures| figures.p10).into_iter());
        Some(Self { p10, p50: median(ratios.into_iter()), low, high, interval })
    }

    /// Of a row whose first peer the host lacks: meets no aim.
    pub(super) const UNKNOWN: Self =
        Self { p10: f64::MAX, p50: f64::MAX, low: f64::MAX, high: f64::MAX, interval: [f64::MAX; 2] };

    /// Columns of the table.
    pub(super) fn cells(&self) -> [String; 2] {
        // The largest number's digits would fill a screen.
        if *self == Self::UNKNOWN {
            return ["none".to_owned(), "none".to_owned()];
        }
        [format!("{:.3} ({:.3} to {:.3})", self.p50, self.low, self.high), format!("{:.3}", self.p10)]
    }
}

/// A quotient that stays finite, because JSON has no infinity.
fn quotient(ours: f64, peer: f64) -> f64 {
    if peer > 0.0 { ours / peer } else { f64::from(ours > 0.0) * f64::MAX }
}

/// How many of the smallest, and of the largest, of `count` values lie outside of the interval that has their median with a probability of 95 %: each value
/// is below the median with a probability of one half, so that the number below it is binomially distributed.
fn beyond_interval(count: usize) -> usize {
    let mut beyond = 0;
    // The probabilities that exactly `beyond` values are below the median, and that so many or fewer are.
    let mut exactly = 0.5_f64.powf(count as f64);
    let mut at_most = exactly;
    while beyond < count / 2 {
        exactly *= (count - beyond) as f64 / (beyond + 1) as f64;
        at_most += exactly;
        if 2.0 * at_most > 0.05 {
            break;
        }
        beyond += 1;
    }
    beyond
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn figures(p50: f64) -> Figures {
        Figures { p10: p50 / 2.0, p50, p99: p50 * 2.0 }
    }

    pub(in crate::bench) fn rounds() -> Vec<Round> {
        [(10.0, 100.0), (20.0, 100.0), (90.0, 300.0)]
            .map(|(ours, peer)| Round {
                ours: figures(ours),
                peers: vec![Some(figures(peer)), Some(figures(1.0)), Some(figures(200.0))],
            })
            .to_vec()
    }

    /// Rounds on a host that lacks some peers.
    pub(in crate::bench) fn without(absent: &[usize]) -> Vec<Round> {
        let mut rounds = rounds();
        for round in &mut rounds {
            absent.iter().for_each(|&peer| round.peers[peer] = None);
        }
        rounds
    }

    #[test]
    fn the_interval_of_a_median_leaves_out_what_binomial_chance_allows() {
        // Tables of the sign test at 5 %: ranks 1 and 6 of 6 values, 2 and 9 of 10, 6 and 16 of 21, 40 and 61 of 100.
        for (count, beyond) in [(1, 0), (2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (21, 5), (100, 39)] {
            assert_eq!(beyond_interval(count), beyond, "{count} values");
        }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let ratio = Ratio::over(&rounds(), 0).unwrap();
        assert!((ratio.p50 - 0.2).abs() < 1e-9);
        assert!((ratio.low - 0.1).abs() < 1e-9);
        assert!((ratio.high - 0.3).abs() < 1e-9);
        assert_eq!(Ratio::over(&without(&[1]), 1), None);
        assert_eq!(Ratio::over(&rounds(), 3), None);
    }

    #[test]
    fn a_peer_of_zero_does_not_make_json_invalid() {
        assert_eq!(quotient(0.0, 0.0), 0.0);
        assert!(quotient(1.0, 0.0).is_finite());
    }
}
