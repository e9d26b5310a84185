//! The report of a bench: its rows, as a table and as JSON.

use serde::Serialize;

use super::compare::Comparison;
use super::row_report::RowReport;
use crate::table::render;
use testbed::setup::Drivers;

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Drivers of the run.
    #[serde(flatten)]
    pub drivers: Drivers,
    /// Features that the operating-system side did not enable, separated by commas; empty if it enabled all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub without: String,
    /// In the order measured.
    pub rows: Vec<RowReport>,
    /// Beside an earlier report, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

impl Report {
    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds only strings and finite numbers")
    }

    /// The report as text.
    pub fn to_table(&self) -> String {
        let lines: Vec<Vec<String>> = self.rows.iter().flat_map(RowReport::lines).collect();
        let table = render(&["", "p10", "p50", "p99", "unit", "ratio to the first, or to this peer", "of p10"], &lines);
        let compared = self.comparison.iter().map(|comparison| format!("\n\n{comparison}"));
        let without = match self.without.as_str() {
            "" => String::new(),
            names => format!(
                "\nwithout: {names}, so that a submission is a call of the system wherever these rows say otherwise"
            ),
        };
        format!("{table}\n\n{}{without}{}", self.drivers, compared.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::{rounds, without};
    use super::super::figures::{Figures, Ratio, Round};
    use super::super::row::{PeerAim, Row};
    use super::super::rows::ROWS;
    use super::*;

    const ROW: Row = Row {
        id: "X1",
        what: "work",
        unit: "ns",
        peers: &["first", "second", "third"],
        aim: "half of the first",
        met: |_, ratio| ratio.p50 <= 0.5,
        further: &[PeerAim { peer: 2, aim: "an eighth of the third", met: |ratio| ratio.p50 <= 0.125 }],
        prepare: |_, _| unreachable!("nothing is measured"),
    };

    fn report(row: &Row, rounds: &[Round]) -> Report {
        Report {
            drivers: Drivers::default(),
            without: String::new(),
            rows: vec![RowReport::new(row, rounds, None)],
            comparison: None,
        }
    }

    #[test]
    fn a_further_aim_is_judged_by_its_own_peer() {
        let report = report(&ROW, &rounds());
        let row = &report.rows[0];
        assert!(row.met);
        assert!(row.peers.iter().all(|peer| peer.present));
        assert!(row.peers[0].aim.is_none() && row.peers[1].aim.is_none());
        let aim = row.peers[2].aim.unwrap();
        // 0.05, 0.1 and 0.45.
        assert!((aim.ratio.unwrap().p50 - 0.1).abs() < 1e-9);
        assert_eq!(aim.met, Some(true));
        assert!(report.to_table().contains("aim: an eighth of the third: met"));

        let strict = Row { further: &[PeerAim { peer: 2, aim: "a tenth", met: |ratio| ratio.p50 < 0.1 }], ..ROW };
        let report = self::report(&strict, &rounds());
        assert_eq!((report.rows[0].met, report.rows[0].peers[2].aim.unwrap().met), (true, Some(false)));
        assert!(report.to_table().contains("aim: a tenth: NOT MET"));
    }

    #[test]
    fn an_absent_peer_is_said_and_its_aim_is_not_judged() {
        let report = report(&ROW, &without(&[2]));
        let table = report.to_table();
        assert!(table.contains("beside: third: ABSENT ON THIS HOST"), "{table}");
        assert!(table.contains("aim: half of the first: met"), "{table}");
        assert!(table.contains("aim: an eighth of the third: NOT JUDGED, its peer is absent"), "{table}");

        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let row = &value["rows"][0];
        assert_eq!((&row["met"], &row["peers"][0]["present"]), (&true.into(), &true.into()));
        let third = &row["peers"][2];
        assert_eq!(third["present"], false);
        assert_eq!(third["aim"]["aim"], "an eighth of the third");
        assert!(third["aim"]["met"].is_null() && third["aim"]["ratio"].is_null());
    }

    #[test]
    fn a_row_that_the_host_did_not_allow_in_full_meets_no_aim_and_says_so() {
        let row = RowReport::new(&ROW, &rounds(), Some("ONLY 3 OF 5 QUEUES".to_owned()));
        assert!(!row.met);
        let report = Report { drivers: Drivers::default(), without: String::new(), rows: vec![row], comparison: None };
        let table = report.to_table();
        assert!(table.contains("ONLY 3 OF 5 QUEUES") && table.contains("half of the first: NOT JUDGED"), "{table}");
        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(value["rows"][0]["shortfall"], "ONLY 3 OF 5 QUEUES");
    }

    #[test]
    fn without_its_first_peer_a_row_meets_no_aim() {
        let report = report(&ROW, &without(&[0]));
        assert!(!report.rows[0].met);
        let value: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert!(value["rows"][0]["ratio"]["p50"].is_number());
        assert!(report.to_table().len() < 1000);
    }

    #[test]
    fn a_peer_that_takes_no_time_is_present() {
        let mut rounds = rounds();
        rounds.iter_mut().for_each(|round| round.peers[1] = Some(Figures::default()));
        assert!(report(&ROW, &rounds).rows[0].peers[1].present);
    }

    #[test]
    fn the_ratio_of_low_quantiles_is_theirs_and_not_that_of_the_medians() {
        let round = |low: f64, disturbed: f64| Round {
            ours: Figures { p10: low, p50: disturbed, p99: disturbed },
            peers: vec![Some(Figures { p10: 10.0, p50: 10.0, p99: 10.0 })],
        };
        let rounds = [round(5.0, 400.0), round(5.0, 5.0), round(6.0, 900.0)];
        let ratio = Ratio::over(&rounds, 0).unwrap();
        assert_eq!((ratio.p10, ratio.p50), (0.5, 40.0));
        let row = RowReport::new(ROWS[0], &rounds, None);
        assert_eq!((row.ours.p10, row.ours.p50, row.peers[0].p10), (5.0, 400.0, 10.0));
        let table = Report { drivers: Drivers::default(), without: String::new(), rows: vec![row], comparison: None }
            .to_table();
        assert!(table.contains("of p10") && table.contains("0.500"), "{table}");
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let value: serde_json::Value = serde_json::from_str(&report(&ROW, &rounds()).to_json()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(keys(&value), ["driver", "rows", "special_pool", "user_mode_driver"]);
        let row = &value["rows"][0];
        assert_eq!(keys(row), ["aim", "id", "met", "ours", "peers", "ratio", "shortfall", "what"]);
        assert_eq!(keys(&row["ours"]), ["p10", "p50", "p99", "unit"]);
        assert_eq!(keys(&row["peers"][0]), ["aim", "name", "p10", "p50", "p99", "present"]);
        assert!(row["peers"][0]["aim"].is_null());
        assert_eq!(keys(&row["peers"][2]["aim"]), ["aim", "met", "ratio"]);
        assert_eq!(keys(&row["ratio"]), ["high", "interval", "low", "p10", "p50"]);
    }
}
