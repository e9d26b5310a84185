//! The reports of the parts of a run become one again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;

use crate::report::{CaseReport, Report, RunInfo, Status};
use crate::shard::Shard;

/// Puts the reports of all parts of one run together, with the cases in the order of a whole run; `name` of each, such as its file, stands in errors.
/// `whole_run` names the cases of such a run in their order.
///
/// # Errors
/// A sentence, if a report is no part of a run or does not add up, a part or one of its cases is missing or there twice, or the parts are not of one run:
/// different drivers, seed, cases or options.
pub fn merge<D: PartialEq + Display>(
    parts: Vec<(String, Report<D>)>,
    whole_run: impl Fn(&RunInfo) -> Vec<&'static str>,
) -> Result<Report<D>, String> {
    let mut numbered = Vec::with_capacity(parts.len());
    for (name, report) in parts {
        let shard =
            report.run.shard.ok_or_else(|| format!("{name} is the report of a whole run, not of a part (--shard)"))?;
        numbered.push((shard, name, report));
    }
    numbered.sort_by_key(|(shard, ..)| *shard);
    let (first, first_name, head) = numbered.first().ok_or("there is no report to put together")?;
    let (of, whole) = (first.of, whole_run(&head.run));
    for (expected, (shard, name, report)) in (1..).zip(&numbered) {
        check(*shard, of, expected, name)?;
        if report.drivers != head.drivers || !report.run.is_of_one_run_with(&head.run) {
            return Err(format!(
                "{first_name} and {name} are not of one run: they differ in drivers, seed, filter or options"
            ));
        }
        recount(report).map_err(|wrong| format!("{name} {wrong}"))?;
    }
    if numbered.len() != of {
        return Err(format!("part {} of {of} is missing", numbered.len() + 1));
    }
    let (mut merged, mut placed) = (None, Vec::new());
    for (shard, name, mut report) in numbered {
        let cases = std::mem::take(&mut report.cases);
        placed.extend(in_place(shard, &whole, cases).map_err(|wrong| format!("{name} {wrong}"))?);
        let delays = report.lock_delays;
        let together: &mut Report<D> = merged.get_or_insert(Report { lock_delays: delays.map(|_| 0), ..report });
        together.lock_delays = together.lock_delays.zip(delays).map(|(some, more)| some + more);
    }
    let Report { drivers, run, lock_delays, .. } = merged.ok_or("there is no report to put together")?;
    let mut merged = Report { lock_delays, ..Report::new(drivers, RunInfo { shard: None, ..run }) };
    placed.sort_by_key(|(position, _)| *position);
    placed.into_iter().for_each(|(_, case)| merged.add(case));
    Ok(merged)
}

/// The sums of a report must be those of its cases.
fn recount<D>(report: &Report<D>) -> Result<(), String> {
    let count = |status| report.cases.iter().filter(|case| case.status == status).count();
    let counted = (report.cases.len(), count(Status::Passed), count(Status::Failed), count(Status::Skipped));
    let said = (report.total, report.passed, report.failed, report.skipped);
    if counted == said {
        return Ok(());
    }
    let words = |(total, passed, failed, skipped)| {
        format!("{total} cases, {passed} passed, {failed} failed, {skipped} skipped")
    };
    Err(format!("does not add up: it says {}, and has {}", words(said), words(counted)))
}

/// The cases of a part with their positions in the whole run; it must have exactly those that the part takes.
fn in_place(shard: Shard, whole: &[&'static str], cases: Vec<CaseReport>) -> Result<Vec<(usize, CaseReport)>, String> {
    let mut wanted: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
    for (position, name) in whole.iter().enumerate().filter(|(position, _)| shard.takes(*position)) {
        wanted.entry(name).or_default().push_back(position);
    }
    let mut placed = Vec::with_capacity(cases.len());
    for case in cases {
        let position = wanted.get_mut(case.name.as_ref()).and_then(VecDeque::pop_front);
        // What a shared machine left behind is no case of the registry.
        let position = position.or_else(|| case.is_of_shared().then_some(whole.len()));
        let position = position.ok_or_else(|| {
            format!("has the case {}, which part {shard} of the run has not, or not so often", case.name)
        })?;
        placed.push((position, case));
    }
    match wanted.iter().find(|(_, positions)| !positions.is_empty()) {
        Some((name, _)) => Err(format!("is without an outcome of the case {name}, which part {shard} of the run has")),
        None => Ok(placed),
    }
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

    /// Puts parts of a run of these cases together.
    fn merge_of(
        parts: Vec<(String, Report<&'static str>)>,
        whole: &[&'static str],
    ) -> Result<Report<&'static str>, String> {
        merge(parts, |_| whole.to_vec())
    }

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
        let parts = vec![part("2/2", &["b", "dx"]), part("1/2", &["c", "a"])];
        let merged = merge_of(parts, &["a", "b", "c", "dx"]).unwrap();
        assert_eq!((merged.total, merged.passed, merged.failed), (4, 3, 1));
        assert_eq!(merged.run.shard, None);
        let names: Vec<_> = merged.cases.iter().map(|case| case.name.as_ref()).collect();
        assert_eq!(names, ["a", "b", "c", "dx"], "the order of a whole run");
    }

    #[test]
    fn what_is_missing_double_or_of_another_run_is_named() {
        let merged = |parts| merge_of(parts, &[]).unwrap_err();
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
        assert!(merge_of(Vec::new(), &[]).is_err());
    }

    #[test]
    fn parts_that_were_changed_are_refused_the_first_as_well() {
        let whole = ["a", "b", "c", "d"];
        let parts = || vec![part("1/2", &["a", "c"]), part("2/2", &["b", "d"])];
        assert!(merge_of(parts(), &whole).is_ok());
        for changed in 0..2 {
            let wrong = |change: fn(&mut Report<&'static str>)| {
                let mut parts = parts();
                change(&mut parts[changed].1);
                merge_of(parts, &whole).unwrap_err()
            };
            assert!(wrong(|report| report.cases[1].status = Status::Failed).contains("does not add up"));
            assert!(wrong(|report| drop(report.cases.pop())).contains("does not add up"));
            assert!(wrong(|report| report.passed += 1).contains("does not add up"));
            let removed = wrong(|report| {
                report.cases.pop();
                (report.total, report.passed) = (1, 1);
            });
            assert!(removed.contains("without an outcome"), "{removed}");
            assert!(wrong(|report| report.cases[0].name = "e".into()).contains("has the case e"));
            let twice = wrong(|report| report.cases[0].name = report.cases[1].name.clone());
            assert!(twice.contains("not so often"), "{twice}");
        }
        let mut shared = parts();
        shared[0].1.add(CaseReport::of_shared("left".to_owned()));
        let merged = merge_of(shared, &whole).unwrap();
        assert_eq!((merged.total, merged.failed), (5, 1), "what a shared machine left behind stays");
    }
}
