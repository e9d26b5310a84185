//! The report of one row: medians over its rounds, ratios within them, and whether they meet its aims.

use serde::Serialize;

use super::figures::{Figures, Ratio, Round};
use super::row::{PeerAim, Row};

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
