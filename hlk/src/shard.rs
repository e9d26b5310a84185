//! A run that several machines share, and how their reports become one again.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::report::Report;

/// One part of a run: part `index` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// Number of the part, from 1 on.
    pub index: usize,
    /// Number of parts of the whole run.
    pub of: usize,
}

impl Shard {
    /// True for the positions of the whole run that this part runs. Neighbours go to different parts, so that a slow area is shared too.
    pub fn takes(self, position: usize) -> bool {
        position % self.of == self.index - 1
    }
}

impl Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err(format!("`{text}` is not a part such as 1/4: the first of four")),
        }
    }
}

/// Puts the reports of all parts of one run together; `name` of each, such as its file, stands in errors.
///
/// # Errors
/// A sentence, if a report is no part of a run, a part is missing or there twice, or the parts are not of one run: different
/// drivers, seed, cases or options.
pub fn merge<D: PartialEq + Display>(parts: Vec<(String, Report<D>)>) -> Result<Report<D>, String> {
    let mut numbered = Vec::with_capacity(parts.len());
    for (name, report) in parts {
        let shard =
            report.run.shard.ok_or_else(|| format!("{name} is the report of a whole run, not of a part (--shard)"))?;
        numbered.push((shard, name, report));
    }
    numbered.sort_by_key(|(shard, ..)| *shard);
    let mut rest = numbered.into_iter();
    let (first, first_name, mut merged) = rest.next().ok_or("there is no report to put together")?;
    let mut expected = 1;
    check(first, first.of, expected, &first_name)?;
    for (shard, name, report) in rest {
        expected += 1;
        check(shard, first.of, expected, &name)?;
        let same = report.drivers == merged.drivers && report.run.is_of_one_run_with(&merged.run);
        if !same {
            return Err(format!(
                "{first_name} and {name} are not of one run: they differ in drivers, seed, filter or options"
            ));
        }
        for case in report.cases {
            merged.add(case);
        }
    }
    if expected != first.of {
        return Err(format!("part {} of {} is missing", expected + 1, first.of));
    }
    merged.run.shard = None;
    Ok(merged)
}

/// The next report must be of the next part.
fn check(shard: Shard, of: usize, expected: usize, name: &str) -> Result<(), String> {
    if shard.of != of {
        return Err(format!("{name} is part {shard}, others are of {of} parts"));
    }
    if shard.index < expected {
        return Err(format!("part {shard} is there twice, the second time in {name}"));
    }
    if shard.index > expected {
        return Err(format!("part {expected} of {of} is missing"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CaseReport, RunInfo, Status};

    fn part(text: &str, names: &[&'static str]) -> (String, Report<&'static str>) {
        let shard = Some(text.parse().unwrap());
        let mut report = Report::new("linked", RunInfo { shard, ..RunInfo::default() });
        for &name in names {
            let status = if name.ends_with('x') { Status::Failed } else { Status::Passed };
            report.add(CaseReport::named(name, "area", "page", status));
        }
        (format!("{}.json", text.replace('/', "-of-")), report)
    }

    #[test]
    fn every_position_is_of_exactly_one_part() {
        for of in 1..=5 {
            for position in 0..40 {
                let takers = (1..=of).filter(|&index| Shard { index, of }.takes(position)).count();
                assert_eq!(takers, 1, "position {position} of {of} parts");
            }
        }
    }

    #[test]
    fn a_part_is_written_as_number_and_count() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        for text in ["", "1", "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn all_parts_together_are_the_run_in_whichever_order_they_come() {
        let merged = merge(vec![part("2/2", &["b", "dx"]), part("1/2", &["a", "c"])]).unwrap();
        assert_eq!((merged.total, merged.passed, merged.failed), (4, 3, 1));
        assert_eq!(merged.run.shard, None);
        let names: Vec<_> = merged.cases.iter().map(|case| case.name.as_ref()).collect();
        assert_eq!(names, ["a", "c", "b", "dx"]);
    }

    #[test]
    fn what_is_missing_double_or_of_another_run_is_named() {
        let merged = |parts| merge(parts).unwrap_err();
        assert!(merged(vec![part("1/3", &[]), part("3/3", &[])]).contains("part 2 of 3 is missing"));
        assert!(merged(vec![part("1/2", &[])]).contains("part 2 of 2 is missing"));
        assert!(merged(vec![part("1/2", &[]), part("1/2", &[])]).contains("part 1/2 is there twice"));
        assert!(merged(vec![part("1/2", &[]), part("2/3", &[])]).contains("2-of-3.json is part 2/3"));
        let mut whole = part("1/1", &[]);
        whole.1.run.shard = None;
        assert!(merged(vec![whole]).contains("whole run"));
        let mut other = part("2/2", &[]);
        other.1.run.seed += 1;
        assert!(merged(vec![part("1/2", &[]), other]).contains("not of one run"));
        assert!(merge(Vec::<(String, Report<&str>)>::new()).is_err());
    }
}
