//! Figures of rows: medians over rounds, ratios within rounds.

use serde::Serialize;

use super::{Round, Row};
use crate::clock::Latencies;
use crate::setup::Drivers;
use crate::table::render;

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

/// Our figures over the first peer's, taken within each round.
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
}

impl Ratio {
    fn over(rounds: &[Round]) -> Self {
        let of = |quantile: fn(Figures) -> f64| -> Vec<f64> {
            let peers = rounds.iter().filter_map(|round| Some((round.ours, *round.peers.first()?)));
            peers.map(|(ours, peer)| quotient(quantile(ours), quantile(peer))).collect()
        };
        let ratios = of(|figures| figures.p50);
        Self {
            p10: median(of(|figures| figures.p10).into_iter()),
            p50: median(ratios.iter().copied()),
            low: ratios.iter().copied().reduce(f64::min).unwrap_or_default(),
            high: ratios.iter().copied().reduce(f64::max).unwrap_or_default(),
        }
    }
}

/// A quotient that stays finite, because JSON has no infinity.
fn quotient(ours: f64, peer: f64) -> f64 {
    if peer > 0.0 { ours / peer } else { f64::from(ours > 0.0) * f64::MAX }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was measured.
    #[serde(flatten)]
    pub drivers: Drivers,
    /// In the order measured.
    pub rows: Vec<RowReport>,
}

/// One row's figures.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// Short identifier.
    pub id: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// Our figures.
    pub ours: OurReport,
    /// The peers' figures, in the same unit.
    pub peers: Vec<PeerReport>,
    /// Ours over the first peer's.
    pub ratio: Ratio,
    /// What is aimed at.
    pub aim: &'static str,
    /// Whether the figures meet it.
    pub met: bool,
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
    /// What it is.
    pub name: &'static str,
    /// Median over rounds of the 10th percentile.
    pub p10: f64,
    /// Median over rounds of the median.
    pub p50: f64,
    /// Median over rounds of the 99th percentile.
    pub p99: f64,
}

impl RowReport {
    /// Sums a row's rounds up.
    pub fn new(row: &Row, rounds: &[Round]) -> Self {
        let ours = Figures::over(rounds.iter().map(|round| round.ours));
        let ratio = Ratio::over(rounds);
        let peer = |(index, name): (usize, &&'static str)| {
            let figures = Figures::over(rounds.iter().filter_map(|round| round.peers.get(index).copied()));
            PeerReport { name, p10: figures.p10, p50: figures.p50, p99: figures.p99 }
        };
        Self {
            id: row.id,
            what: row.what,
            ours: OurReport { p10: ours.p10, p50: ours.p50, p99: ours.p99, unit: row.unit },
            peers: row.peers.iter().enumerate().map(peer).collect(),
            ratio,
            aim: row.aim,
            met: (row.met)(&ours, &ratio),
        }
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let number = |value: f64| if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let mut lines = vec![vec![
            format!("{}  {}", self.id, self.what),
            number(self.ours.p10),
            number(self.ours.p50),
            number(self.ours.p99),
            self.ours.unit.to_owned(),
            format!("{:.3} ({:.3} to {:.3})", self.ratio.p50, self.ratio.low, self.ratio.high),
            format!("{:.3}", self.ratio.p10),
        ]];
        for peer in &self.peers {
            // Nothing that was measured takes no time at all.
            if peer.p50 == 0.0 && peer.p99 == 0.0 {
                lines.push(vec![format!("    beside: {}: ABSENT ON THIS HOST", peer.name)]);
                continue;
            }
            lines.push(vec![
                format!("    beside: {}", peer.name),
                number(peer.p10),
                number(peer.p50),
                number(peer.p99),
                self.ours.unit.to_owned(),
                String::new(),
            ]);
        }
        let verdict = if self.met { "met" } else { "NOT MET" };
        lines.push(vec![format!("    aim: {}: {verdict}", self.aim)]);
        lines
    }
}

impl Report {
    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds only strings and finite numbers")
    }

    /// The report as text.
    pub fn to_table(&self) -> String {
        let lines: Vec<Vec<String>> = self.rows.iter().flat_map(RowReport::lines).collect();
        let table = render(&["", "p10", "p50", "p99", "unit", "ratio to the first peer", "of p10"], &lines);
        format!("{table}\n\n{}", self.drivers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p50: f64) -> Figures {
        Figures { p10: p50 / 2.0, p50, p99: p50 * 2.0 }
    }

    fn rounds() -> Vec<Round> {
        [(10.0, 100.0), (20.0, 100.0), (90.0, 300.0)]
            .map(|(ours, peer)| Round { ours: figures(ours), peers: vec![figures(peer), figures(1.0)] })
            .to_vec()
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let ratio = Ratio::over(&rounds());
        assert!((ratio.p50 - 0.2).abs() < 1e-9);
        assert!((ratio.low - 0.1).abs() < 1e-9);
        assert!((ratio.high - 0.3).abs() < 1e-9);
    }

    #[test]
    fn the_ratio_of_low_quantiles_is_theirs_and_not_that_of_the_medians() {
        let round = |low: f64, disturbed: f64| Round {
            ours: Figures { p10: low, p50: disturbed, p99: disturbed },
            peers: vec![Figures { p10: 10.0, p50: 10.0, p99: 10.0 }],
        };
        let rounds = [round(5.0, 400.0), round(5.0, 5.0), round(6.0, 900.0)];
        let ratio = Ratio::over(&rounds);
        assert_eq!((ratio.p10, ratio.p50), (0.5, 40.0));
        let row = RowReport::new(super::super::ROWS[0], &rounds);
        assert_eq!((row.ours.p10, row.ours.p50, row.peers[0].p10), (5.0, 400.0, 10.0));
        let table = Report { drivers: Drivers::default(), rows: vec![row] }.to_table();
        assert!(table.contains("of p10") && table.contains("0.500"), "{table}");
    }

    #[test]
    fn a_peer_of_zero_does_not_make_json_invalid() {
        assert_eq!(quotient(0.0, 0.0), 0.0);
        assert!(quotient(1.0, 0.0).is_finite());
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let row = super::super::ROWS[0];
        let report = Report { drivers: Drivers::default(), rows: vec![RowReport::new(row, &rounds())] };
        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(keys(&value), ["driver", "rows", "special_pool", "user_mode_driver"]);
        let row = &value["rows"][0];
        assert_eq!(keys(row), ["aim", "id", "met", "ours", "peers", "ratio", "what"]);
        assert_eq!(keys(&row["ours"]), ["p10", "p50", "p99", "unit"]);
        assert_eq!(keys(&row["peers"][0]), ["name", "p10", "p50", "p99"]);
        assert_eq!(keys(&row["ratio"]), ["high", "low", "p10", "p50"]);
    }
}
