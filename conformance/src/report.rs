//! What the cases found, as lines for people and as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::claim::Claim;
use crate::junit::Outcome;
use crate::need::Needs;
use crate::seed;
use crate::shard::Shard;
pub use crate::status::Status;

/// Description of a case, whoever runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// Name that reads as a specification.
    pub name: &'static str,
    /// Area it belongs to.
    pub area: &'static str,
    /// Page that states the requirement.
    pub page: &'static str,
    /// The requirement.
    pub requirement: &'static str,
    /// Properties that the adapter must have for the case to run there.
    #[serde(serialize_with = "listed", skip_serializing_if = "is_without_needs")]
    pub needs: Needs,
    /// Sentences of the specification pages that it holds.
    #[serde(skip_serializing_if = "<[Claim]>::is_empty")]
    pub holds: &'static [Claim],
}

/// As one list.
fn listed<S: Serializer>(needs: &Needs, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(needs.iter().copied().flatten())
}

fn is_without_needs(needs: &Needs) -> bool {
    needs.iter().copied().flatten().next().is_none()
}

impl About {
    /// True if name, area or page contains `wanted`, which is in lower case.
    pub fn matches(&self, wanted: &str) -> bool {
        [self.name, self.area, self.page].iter().any(|text| text.to_lowercase().contains(wanted))
    }
}

/// One case's outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseReport {
    /// Name.
    pub name: Cow<'static, str>,
    /// Area.
    pub area: Cow<'static, str>,
    /// Page cited.
    pub page: Cow<'static, str>,
    /// Passed, failed or skipped.
    pub status: Status,
    /// Milliseconds it took, with boot and shutdown.
    pub ms: u64,
    /// The reason why it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Queues, fences and doorbells of the adapter when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What the system made good although a driver or a device should have reported it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rescues: BTreeMap<Cow<'static, str>, u64>,
    /// The machine that the case ran on: GPU, driver, bus, seed and faults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub machine: BTreeMap<Cow<'static, str>, Value>,
    /// The number of calls of each DDI while the case ran.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<Cow<'static, str>, u64>,
    /// The command that runs it alone, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

/// One case's outcome as a line of JSON, for programs that follow a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseLine {
    /// Name.
    pub name: String,
    /// Area.
    pub area: String,
    /// Passed, failed or skipped.
    pub status: Status,
    /// Milliseconds it took, with boot and shutdown.
    pub ms: u64,
    /// The reason why it did not pass.
    pub reason: Option<String>,
}

impl CaseLine {
    /// The outcome of something that took no time worth telling.
    pub fn of(area: &str, name: &str, outcome: Result<(), String>) -> Self {
        let status = if outcome.is_ok() { Status::Passed } else { Status::Failed };
        Self { name: name.to_owned(), area: area.to_owned(), status, ms: 0, reason: outcome.err() }
    }

    /// The outcome for a build server.
    pub fn outcome(&self) -> Outcome<'_> {
        let Self { name, area, status, ms, reason } = self;
        Outcome { suite: area, name, status: *status, ms: *ms, reason: reason.as_deref() }
    }

    /// One line for people, and more when there is a reason.
    pub fn line(&self) -> String {
        let Self { name, status, ms, reason, .. } = self;
        let reason = reason.iter().map(|reason| format!("\n      {reason}"));
        status.word().to_owned() + &format!("  {name}  ({ms} ms)") + &reason.collect::<String>()
    }
}

/// Why a case fails on a system that made something good: a waiter that relies on the driver would have waited in vain.
pub fn made_good<'r>(rescues: impl IntoIterator<Item = (&'r str, u64)>) -> Option<String> {
    let rescues = rescues.into_iter().map(|(rescue, count)| format!("{rescue} {count} times"));
    let rescues: Vec<String> = rescues.collect();
    (!rescues.is_empty())
        .then(|| format!("the system made good what the driver left out or did wrong: {}", rescues.join(", ")))
}

/// Counts of a machine that another process serves, from while a case ran as a program of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of times that the system made something good, by the name of the rescue.
    pub rescues: BTreeMap<Cow<'static, str>, u64>,
    /// The number of calls of each DDI.
    pub calls: BTreeMap<Cow<'static, str>, u64>,
    /// The machine: GPU, driver, bus and faults.
    pub machine: BTreeMap<Cow<'static, str>, Value>,
}

const OF_ALL: &str = "Device.Graphics.WDDM32.Lifecycle.NothingIsMadeGoodBesideOthers";
const OF_SHARED: &str = "Device.Graphics.WDDM32.Lifecycle.SharedSystemLeavesNothingBehind";

impl CaseReport {
    /// The outcome without what only a whole report has.
    fn brief(&self) -> CaseLine {
        let Self { name, area, status, ms, reason, .. } = self.clone();
        CaseLine { name: name.into_owned(), area: area.into_owned(), status, ms, reason }
    }

    /// The outcome as a line of JSON, see [`CaseLine`].
    pub fn json_line(&self) -> String {
        serde_json::to_string(&self.brief()).expect("a line holds only strings and numbers")
    }

    /// The report of a case that took `took`, with the reason if it did not pass.
    pub fn new(case: &About, status: Status, took: Duration, reason: Option<String>) -> Self {
        let ms = took.as_millis() as u64;
        Self { ms, reason, ..Self::named(case.name, case.area, case.page, status) }
    }

    /// The outcome of something that took no time worth telling.
    pub fn named(name: &'static str, area: &'static str, page: &'static str, status: Status) -> Self {
        let (name, area, page) = (name.into(), area.into(), page.into());
        let (rescues, machine, calls) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { name, area, page, status, ms: 0, reason: None, state: None, rescues, machine, calls, replay: None }
    }

    /// The outcome with what the machine counted, or why it did not tell. A case over thunks alone announces no rescue, so each fails it; and so does a
    /// machine that does not tell.
    #[must_use]
    pub fn counted(self, counts: Result<Counts, String>) -> Self {
        let (counts, wrong) = match counts {
            Ok(counts) => {
                let wrong = made_good(counts.rescues.iter().map(|(rescue, count)| (rescue.as_ref(), *count)));
                (counts, wrong)
            }
            Err(error) => (Counts::default(), Some(format!("the machine does not tell what it made good: {error}"))),
        };
        let Counts { rescues, calls, machine } = counts;
        let counted = Self { rescues, calls, machine, ..self };
        match wrong {
            Some(reason) if counted.status == Status::Passed => {
                Self { status: Status::Failed, reason: Some(reason), ..counted }
            }
            _ => counted,
        }
    }

    /// What a machine counted while several cases ran on it at a time, as if it were a case: nobody knows of which of them it is. It has failed if the machine made something good, or does
    /// not tell.
    pub fn of_all(counts: Result<Counts, String>) -> Self {
        Self::named(OF_ALL, "Lifecycle", "add_device", Status::Passed).counted(counts)
    }

    /// The failure to take the shared system down, as if it were a case.
    pub fn of_shared(error: String) -> Self {
        Self { reason: Some(error), ..Self::named(OF_SHARED, "Lifecycle", "add_device", Status::Failed) }
    }

    /// True for what [`CaseReport::of_shared`] made.
    pub(crate) fn is_of_shared(&self) -> bool {
        self.name == OF_SHARED && self.status == Status::Failed
    }

    /// The outcome for a build server.
    pub fn outcome(&self) -> Outcome<'_> {
        let Self { name, area, status, ms, reason, .. } = self;
        Outcome { suite: area, name, status: *status, ms: *ms, reason: reason.as_deref() }
    }

    /// One line, and more when there is a reason: what the adapter looked like, and how to run the case again.
    pub fn line(&self) -> String {
        let mut line = self.brief().line();
        for text in self.state.iter().flat_map(|state| state.lines()) {
            line.push_str("\n      | ");
            line.push_str(text);
        }
        if let Some(replay) = &self.replay {
            line.push_str("\n      again: ");
            line.push_str(replay);
        }
        line
    }
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

/// Which cases a run has, and how they run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Seed of the random cases.
    pub seed: u64,
    /// Text that picked the cases, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Options of the command line that say on which machine the cases ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Number of times that each case ran.
    pub rounds: u32,
    /// Number of machines of the matrix or of the profiles that the cases ran on.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub machines: usize,
    /// The machines were those of the profiles.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profiles: bool,
    /// The part of the run that this is, if several machines shared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

impl Default for RunInfo {
    /// Every case once, with the seed of this process.
    fn default() -> Self {
        Self {
            seed: seed::get(),
            filter: None,
            options: Vec::new(),
            rounds: 1,
            machines: 1,
            profiles: false,
            shard: None,
        }
    }
}

impl RunInfo {
    /// True if both are parts of one run.
    pub fn is_of_one_run_with(&self, other: &Self) -> bool {
        Self { shard: None, ..self.clone() } == Self { shard: None, ..other.clone() }
    }
}

/// All outcomes, of drivers `D`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report<D> {
    /// Drivers that the cases ran on.
    #[serde(flatten)]
    pub drivers: D,
    /// Which cases, and how.
    #[serde(flatten)]
    pub run: RunInfo,
    /// Number of times that a thread waited at a lock because the run was to have such delays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delays: Option<u64>,
    /// Cases run.
    pub total: usize,
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
    /// Each of them in order.
    pub cases: Vec<CaseReport>,
}

impl<D> Report<D> {
    /// No outcome yet.
    pub fn new(drivers: D, run: RunInfo) -> Self {
        let (total, passed, failed, skipped) = (0, 0, 0, 0);
        Self { drivers, run, lock_delays: None, total, passed, failed, skipped, cases: Vec::new() }
    }

    /// Adds an outcome.
    pub fn add(&mut self, case: CaseReport) {
        self.total += 1;
        match case.status {
            Status::Passed => self.passed += 1,
            Status::Failed => self.failed += 1,
            Status::Skipped => self.skipped += 1,
        }
        self.cases.push(case);
    }
}

impl<D: Serialize + Display> Report<D> {
    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds only strings and numbers")
    }

    /// What the cases ran on, and as the last line the sum.
    pub fn summary(&self) -> String {
        let Self { drivers, run: RunInfo { seed, shard, .. }, lock_delays, passed, failed, skipped, .. } = self;
        let shard = shard.map_or_else(String::new, |shard| format!("part: {shard}\n"));
        let delays = lock_delays.map_or_else(String::new, |count| format!("lock delays: {count}\n"));
        format!("{drivers}\nseed: {seed}\n{shard}{delays}{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// The cases as JSON, without running them.
pub fn list_json(cases: &[About]) -> String {
    serde_json::to_string_pretty(cases).expect("a list holds only strings")
}

/// The cases as text, without running them.
pub fn list_text(cases: &[About]) -> String {
    let mut lines = Vec::with_capacity(cases.len() * 2);
    let mut area = "";
    for case in cases {
        if case.area != area {
            area = case.area;
            lines.push(area.to_owned());
        }
        lines.push(format!("  {}  [{}]\n      {}", case.name, case.page, case.requirement));
        let holds: Vec<String> = case.holds.iter().map(Claim::to_string).collect();
        lines.extend((!holds.is_empty()).then(|| format!("      holds: {}", holds.join(", "))));
        lines.extend(case.needs.iter().copied().flatten().map(|need| format!("      needs: {need}")));
    }
    lines.push(format!("{} cases", cases.len()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Driver {
        driver: &'static str,
    }

    impl Display for Driver {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "driver: {}", self.driver)
        }
    }

    fn report() -> Report<Driver> {
        Report::new(Driver { driver: "linked" }, RunInfo::default())
    }

    fn case(status: Status) -> CaseReport {
        CaseReport { ms: 1, ..CaseReport::named("a", "b", "c", status) }
    }

    #[test]
    fn a_rescue_of_a_served_machine_fails_a_case_that_passed_and_so_does_a_machine_that_does_not_tell() {
        let rescues = BTreeMap::from([("unreported-signal".into(), 3)]);
        let counts = || Counts { rescues: rescues.clone(), ..Counts::default() };
        let healed = case(Status::Passed).counted(Ok(counts()));
        assert_eq!((healed.status, &healed.rescues), (Status::Failed, &rescues));
        assert!(healed.reason.is_some_and(|reason| reason.contains("unreported-signal 3 times")));
        assert_eq!(case(Status::Passed).counted(Ok(Counts::default())).status, Status::Passed);
        assert_eq!(case(Status::Skipped).counted(Ok(counts())).status, Status::Skipped);
        assert_eq!(case(Status::Passed).counted(Err("it is gone".into())).status, Status::Failed);
    }

    #[test]
    fn counts_add_up() {
        let mut report = report();
        for status in [Status::Passed, Status::Passed, Status::Failed, Status::Skipped] {
            report.add(case(status));
        }
        assert_eq!((report.total, report.passed, report.failed, report.skipped), (4, 2, 1, 1));
        assert_eq!(report.summary(), "driver: linked\nseed: 24301\n2 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_failure_says_what_it_looked_like_and_how_to_run_it_again() {
        let mut failed = case(Status::Failed);
        failed.reason = Some("no".into());
        failed.state = Some("node 0\n  context".into());
        failed.replay = Some("campanile hlk --filter a".into());
        let expected =
            "FAIL  a  (1 ms)\n      no\n      | node 0\n      |   context\n      again: campanile hlk --filter a";
        assert_eq!(failed.line(), expected);
        let value: Value = serde_json::to_value(&failed).unwrap();
        assert_eq!((&value["reason"], &value["state"]), (&"no".into(), &"node 0\n  context".into()));
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let mut report = report();
        report.add(case(Status::Passed));
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(keys(&value), ["cases", "driver", "failed", "passed", "rounds", "seed", "skipped", "total"]);
        assert_eq!(keys(&value["cases"][0]), ["area", "ms", "name", "page", "status"]);
        assert_eq!(value["cases"][0]["status"], "passed");
    }
}
