//! Figures of rows: medians over rounds, ratios within rounds.

use serde::Serialize;

use super::{PeerAim, Round, Row};
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
    fn over(rounds: impl Iterator<Item = Self> + Clone) -> Self {
        let over = |quantile: fn(Self) -> f64| median(rounds.clone().map(quantile));
        Self { p10: over(|it| it.p10), p50: over(|it| it.p50), p99: over(|it| it.p99) }
    }
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
    const UNKNOWN: Self = Self { p10: f64::MAX, p50: f64::MAX, low: f64::MAX, high: f64::MAX, interval: [f64::MAX; 2] };

    /// Columns of the table.
    fn cells(&self) -> [String; 2] {
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

/// One row's figures.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// Short identifier.
    pub id: &'static str,
    /// Description of the measured operation.
    pub what: &'static str,
    /// Our figures.
    pub ours: OurReport,
    /// The peers' figures, in the same unit.
    pub peers: Vec<PeerReport>,
    /// Ours over the first peer's.
    pub ratio: Ratio,
    /// The aim in words.
    pub aim: &'static str,
    /// True if the figures meet the aim.
    pub met: bool,
    /// What the host did not allow of what the row says; its aim counts as not met then.
    pub shortfall: Option<String>,
}

/// Our figures with their unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OurReport {
    /// Median over rounds of the 10th percentile.
    pub p10: f64,
    /// Median over rounds of the median.
    pub p50: f64,
    /// Median over rounds of the 99th percentile.
    pub p99: f64,
    /// Unit.
    pub unit: &'static str,
}

/// A peer's figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PeerReport {
    /// Description of the peer, such as `futex wake`.
    pub name: &'static str,
    /// True if the host has it; if not, its figures are 0.
    pub present: bool,
    /// Median over rounds of the 10th percentile.
    pub p10: f64,
    /// Median over rounds of the median.
    pub p50: f64,
    /// Median over rounds of the 99th percentile.
    pub p99: f64,
    /// The aim against this very peer, if the row has one.
    pub aim: Option<AimReport>,
}

/// An aim against one peer, and what came of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AimReport {
    /// The aim in words.
    pub aim: &'static str,
    /// Ours over the peer's; `None` without the peer.
    pub ratio: Option<Ratio>,
    /// True if the ratio meets it; `None` without the peer, which leaves nothing to judge.
    pub met: Option<bool>,
}

impl RowReport {
    /// Sums a row's rounds up. With a `shortfall` they say nothing about the row's aim.
    pub fn new(row: &Row, rounds: &[Round], shortfall: Option<String>) -> Self {
        let ours = Figures::over(rounds.iter().map(|round| round.ours));
        let ratio = Ratio::over(rounds, 0).unwrap_or(Ratio::UNKNOWN);
        let peer = |(index, name): (usize, &&'static str)| {
            let measured = rounds.iter().filter_map(|round| round.peers.get(index).copied().flatten());
            let present = measured.clone().next().is_some();
            let figures = Figures::over(measured);
            let judged = |aim: &PeerAim| {
                let ratio = Ratio::over(rounds, index);
                AimReport { aim: aim.aim, ratio, met: ratio.as_ref().map(aim.met) }
            };
            let aim = row.further.iter().find(|aim| aim.peer == index).map(judged);
            PeerReport { name, present, p10: figures.p10, p50: figures.p50, p99: figures.p99, aim }
        };
        Self {
            id: row.id,
            what: row.what,
            ours: OurReport { p10: ours.p10, p50: ours.p50, p99: ours.p99, unit: row.unit },
            peers: row.peers.iter().enumerate().map(peer).collect(),
            ratio,
            aim: row.aim,
            met: shortfall.is_none() && (row.met)(&ours, &ratio),
            shortfall,
        }
    }

    /// Its lines in the table of the report: the row itself, one for each peer, and the verdict on its aim.
    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        let number = |value: f64| if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let line = |name: String, [p10, p50, p99]: [f64; 3], ratio: Option<Ratio>| {
            let mut line = vec![name, number(p10), number(p50), number(p99), self.ours.unit.to_owned()];
            line.extend(ratio.iter().flat_map(Ratio::cells));
            line
        };
        let name = format!("{}  {}", self.id, self.what);
        let mut lines = vec![line(name, [self.ours.p10, self.ours.p50, self.ours.p99], Some(self.ratio))];
        for peer in &self.peers {
            let name = format!("    beside: {}", peer.name);
            lines.push(if peer.present {
                line(name, [peer.p10, peer.p50, peer.p99], peer.aim.and_then(|aim| aim.ratio))
            } else {
                vec![format!("{name}: ABSENT ON THIS HOST")]
            });
        }
        let verdict = |met: bool| if met { "met" } else { "NOT MET" };
        lines.extend(self.shortfall.iter().map(|shortfall| vec![format!("    {shortfall}")]));
        let judged = if self.shortfall.is_some() { "NOT JUDGED on this host" } else { verdict(self.met) };
        lines.push(vec![format!("    aim: {}: {judged}", self.aim)]);
        for aim in self.peers.iter().filter_map(|peer| peer.aim) {
            lines.push(vec![format!(
                "    aim: {}: {}",
                aim.aim,
                aim.met.map_or("NOT JUDGED, its peer is absent", verdict)
            )]);
        }
        lines
    }
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
