//! A report beside an earlier one: which ratios are worse than the rounds of either run explain.
//!
//! Ratios alone are compared. A time belongs to the machine and the hour that it was measured in, and no stored one is a measure for another run; of a ratio
//! both sides were measured alternately in the same run.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::figures::Ratio;
use super::row_report::RowReport;
use testbed::image_file;

/// Most bytes of an earlier report: a hundred times what one has.
const REPORT_MAX: usize = 8 << 20;

/// What two runs of one program may differ by, whatever their rounds say: each has memory of its own at places of its own, and whatever else the machine
/// does, it does not do in both alike.
const MARGIN: f64 = 1.1;

/// An earlier report, as far as it is compared.
#[derive(Clone, Debug, Deserialize)]
pub struct Earlier {
    /// The file, as the user named it.
    #[serde(skip)]
    path: PathBuf,
    driver: String,
    rows: Vec<EarlierRow>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierRow {
    id: String,
    ratio: EarlierRatio,
    peers: Vec<EarlierPeer>,
    shortfall: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierPeer {
    name: String,
    present: bool,
    aim: Option<EarlierAim>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierAim {
    ratio: Option<EarlierRatio>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct EarlierRatio {
    p50: f64,
    interval: [f64; 2],
}

impl Earlier {
    /// Reads a report of `campanile bench --json`.
    ///
    /// # Errors
    /// A sentence with the path: the file cannot be read, is no such report, or is of a program that did not tell the interval of its ratios.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let bytes = image_file::read(path, REPORT_MAX).map_err(|error| named(&error))?;
        let parsed = |error| named(&format!("no report of `campanile bench --json` of this version: {error}"));
        let read: Self = serde_json::from_slice(&bytes).map_err(parsed)?;
        let earlier = Self { path: path.to_owned(), ..read };
        let unsound = earlier.ratios().find(|(_, ratio)| !ratio.is_sound()).map(|(id, _)| id.to_owned());
        unsound.map_or(Ok(earlier), |id| {
            Err(named(&format!("the ratio of row {id} lies outside of its interval, or is no number")))
        })
    }

    fn ratios(&self) -> impl Iterator<Item = (&str, EarlierRatio)> {
        self.rows.iter().flat_map(|row| {
            let aims = row.peers.iter().filter_map(|peer| peer.aim.as_ref()?.ratio);
            [row.ratio].into_iter().chain(aims).map(|ratio| (row.id.as_str(), ratio))
        })
    }
}

impl EarlierRatio {
    fn is_sound(self) -> bool {
        let [low, high] = self.interval;
        low >= 0.0 && low <= self.p50 && self.p50 <= high && high.is_finite()
    }
}

/// A difference between two ratios, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All of the interval is above what two runs may differ by.
    Slower,
    /// All of it is below.
    Faster,
    /// Neither: the runs do not tell them apart.
    Same,
}

/// A ratio of both reports.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The row.
    pub id: &'static str,
    /// The peer that our figures are divided by.
    pub peer: &'static str,
    /// The ratio of the earlier report.
    pub before: f64,
    /// That of this one.
    pub now: f64,
    /// This one over the earlier.
    pub factor: f64,
    /// What the factor is at least and at most, by the 95 % intervals of both ratios.
    pub interval: [f64; 2],
    /// By the interval, with a margin for what two runs differ by.
    pub verdict: Verdict,
}

impl Change {
    fn new(id: &'static str, peer: &'static str, before: EarlierRatio, now: &Ratio) -> Option<Self> {
        let factor = |now: f64, before: f64| (before > 0.0).then(|| now / before).filter(|factor| factor.is_finite());
        let interval = [factor(now.interval[0], before.interval[1])?, factor(now.interval[1], before.interval[0])?];
        let verdict = match interval {
            [low, _] if low > MARGIN => Verdict::Slower,
            [_, high] if high < 1.0 / MARGIN => Verdict::Faster,
            _ => Verdict::Same,
        };
        Some(Self {
            id,
            peer,
            before: before.p50,
            now: now.p50,
            factor: factor(now.p50, before.p50)?,
            interval,
            verdict,
        })
    }
}

/// Every ratio that two reports have in common, and the rows that they do not.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The earlier report.
    pub with: String,
    /// The kernel-mode driver of its run, which may be another than this run's.
    pub driver: String,
    /// Ratios that both reports have.
    pub changes: Vec<Change>,
    /// Rows of this report that cannot be compared, and why.
    pub left_out: Vec<String>,
}

impl Comparison {
    /// Compares the rows of a run with an earlier report.
    pub fn new(earlier: &Earlier, rows: &[RowReport]) -> Self {
        let (mut changes, mut left_out) = (Vec::new(), Vec::new());
        for row in rows {
            match of_row(row, earlier) {
                Ok(of_row) => changes.extend(of_row),
                Err(why) => left_out.push(format!("{}: {why}", row.id)),
            }
        }
        Self { with: earlier.path.display().to_string(), driver: earlier.driver.clone(), changes, left_out }
    }

    /// True if a ratio is worse than noise explains.
    pub fn is_slower(&self) -> bool {
        self.changes.iter().any(|change| change.verdict == Verdict::Slower)
    }
}

/// The ratios of a row, or why there are none.
fn of_row(row: &RowReport, earlier: &Earlier) -> Result<Vec<Change>, &'static str> {
    let before = earlier.rows.iter().find(|before| before.id == row.id).ok_or("the earlier report has no such row")?;
    if row.shortfall.is_some() || before.shortfall.is_some() {
        return Err("the host did not allow all of it in one of the runs");
    }
    let mut changes = Vec::new();
    for (index, peer) in row.peers.iter().enumerate().filter(|(_, peer)| peer.present) {
        let Some(other) = before.peers.iter().find(|other| other.name == peer.name && other.present) else { continue };
        let ratios = match index {
            0 => Some((before.ratio, row.ratio)),
            _ => other.aim.as_ref().and_then(|aim| aim.ratio).zip(peer.aim.and_then(|aim| aim.ratio)),
        };
        changes.extend(ratios.and_then(|(before, now)| Change::new(row.id, peer.name, before, &now)));
    }
    if changes.is_empty() { Err("no peer was measured in both runs") } else { Ok(changes) }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "against {} (driver: {}), ratio to the peer, and the factor between both runs:",
            self.with, self.driver
        )?;
        for change in &self.changes {
            let Change { id, peer, before, now, factor, interval: [low, high], verdict } = change;
            let verdict = match verdict {
                Verdict::Slower => "SLOWER",
                Verdict::Faster => "faster",
                Verdict::Same => "no difference beyond noise",
            };
            writeln!(
                f,
                "  {id}  {before:.3} -> {now:.3}, {factor:.2} times ({low:.2} to {high:.2}): {verdict}  [{peer}]"
            )?;
        }
        for row in &self.left_out {
            writeln!(f, "  {row}; not compared")?;
        }
        let count = |verdict| self.changes.iter().filter(|change| change.verdict == verdict).count();
        let [slower, faster, same] = [Verdict::Slower, Verdict::Faster, Verdict::Same].map(count);
        write!(
            f,
            "{slower} slower, {faster} faster, {same} without a difference beyond noise, {} not compared",
            self.left_out.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Figures, Round};
    use super::super::report::Report;
    use super::super::row::{PeerAim, Row};
    use super::*;
    use testbed::setup::Drivers;

    const ROW: Row = Row {
        id: "X1",
        what: "work",
        unit: "ns",
        peers: &["first", "second"],
        aim: "half of the first",
        met: |_, ratio| ratio.p50 <= 0.5,
        further: &[PeerAim { peer: 1, aim: "less than the second", met: |ratio| ratio.p50 < 1.0 }],
        prepare: |_, _| unreachable!("nothing is measured"),
    };

    fn rounds(ours: impl Fn(u32) -> f64) -> Vec<Round> {
        let figures = |p50| Figures { p10: p50, p50, p99: p50 };
        let round =
            |number| Round { ours: figures(ours(number)), peers: vec![Some(figures(100.0)), Some(figures(50.0))] };
        (0..21).map(round).collect()
    }

    fn report(rounds: &[Round], shortfall: Option<String>) -> Report {
        let rows = vec![RowReport::new(&ROW, rounds, shortfall)];
        Report { drivers: Drivers::default(), without: String::new(), rows, comparison: None }
    }

    fn earlier(report: &Report) -> Earlier {
        serde_json::from_str(&report.to_json()).expect("a report is read back")
    }

    fn compared(before: impl Fn(u32) -> f64, now: impl Fn(u32) -> f64) -> Comparison {
        let before = earlier(&report(&rounds(before), None));
        Comparison::new(&before, &report(&rounds(now), None).rows)
    }

    #[test]
    fn what_takes_longer_in_every_round_is_slower_against_each_peer_with_an_aim() {
        let comparison = compared(|round| 20.0 + f64::from(round % 3), |round| 30.0 + f64::from(round % 3));
        assert!(comparison.is_slower());
        let told: Vec<_> = comparison.changes.iter().map(|change| (change.peer, change.verdict)).collect();
        assert_eq!(told, [("first", Verdict::Slower), ("second", Verdict::Slower)]);
        let change = &comparison.changes[0];
        assert_eq!((change.before, change.now), (0.21, 0.31));
        assert!(change.interval[0] > 1.3 && change.interval[0] <= change.factor && change.factor <= change.interval[1]);
        let text = comparison.to_string();
        assert!(
            text.contains("0.210 -> 0.310")
                && text.contains("SLOWER")
                && text.ends_with("2 slower, 0 faster, 0 without a difference beyond noise, 0 not compared"),
            "{text}"
        );
    }

    #[test]
    fn a_difference_that_rounds_have_among_themselves_is_noise() {
        let comparison = compared(|round| 20.0 + f64::from(round), |round| 23.0 + f64::from(round));
        assert!(!comparison.is_slower());
        assert!(comparison.changes.iter().all(|change| change.verdict == Verdict::Same), "{comparison}");
        // Few rounds that were disturbed change nothing: the interval is that of the median.
        let comparison = compared(|_| 20.0, |round| if round < 4 { 900.0 } else { 20.0 });
        assert!(!comparison.is_slower(), "{comparison}");
    }

    #[test]
    fn what_takes_less_time_is_faster_and_a_tenth_is_neither() {
        assert!(compared(|_| 20.0, |_| 10.0).changes.iter().all(|change| change.verdict == Verdict::Faster));
        assert!(compared(|_| 20.0, |_| 21.9).changes.iter().all(|change| change.verdict == Verdict::Same));
        assert!(compared(|_| 20.0, |_| 22.1).is_slower());
    }

    #[test]
    fn a_row_that_is_not_in_both_reports_is_left_out_by_name() {
        let now = report(&rounds(|_| 20.0), None);
        let old = |change: fn(&mut Earlier)| {
            let mut old = earlier(&now);
            change(&mut old);
            Comparison::new(&old, &now.rows)
        };
        for comparison in [
            old(|old| old.rows.clear()),
            old(|old| old.rows[0].peers.iter_mut().for_each(|peer| peer.present = false)),
            old(|old| old.rows[0].shortfall = Some("ONLY 3 OF 5 QUEUES".to_owned())),
        ] {
            assert!(comparison.changes.is_empty() && !comparison.is_slower());
            assert!(comparison.left_out.len() == 1 && comparison.left_out[0].starts_with("X1: "), "{comparison}");
            assert!(comparison.to_string().ends_with("1 not compared"));
        }
    }

    #[test]
    fn a_file_that_is_no_report_is_refused_by_name() {
        let path = std::env::temp_dir().join(format!("campanile-compare-{}.json", std::process::id()));
        let text = report(&rounds(|_| 20.0), None).to_json();
        let refusal = |text: &str| {
            std::fs::write(&path, text).expect("it can be written");
            Earlier::read(&path).map(drop)
        };
        let outcomes = [
            refusal("no JSON"),
            refusal("{\"rows\": []}"),
            refusal(&text.replace("\"p50\": 0.2,", "\"p50\": 0.9,")),
            refusal(&text.replace("\"interval\"", "\"other\"")),
        ];
        let good = refusal(&text);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(good, Ok(()));
        for outcome in outcomes {
            let error = outcome.expect_err("it is no report");
            assert!(error.starts_with(&*path.display().to_string()), "{error}");
        }
        assert!(Earlier::read(Path::new("/dev/zero")).is_err_and(|error| error.contains("is a device")));
    }
}
