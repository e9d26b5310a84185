//! The reports of the parts of a run become one again.

use std::fmt::Display;

use crate::report::Report;
use crate::shard::Shard;

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
        merged.lock_delays = merged.lock_delays.zip(report.lock_delays).map(|(some, more)| some + more);
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
    use crate::report::{CaseReport, RunInfo};
    use crate::status::Status;

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
