//! `cargo xtask mutants --generated`: what the crates' own tests, and of driver and GPU the conformance cases, notice of the changes that cargo-mutants thinks of.
//!
//! cargo-mutants would build the tests anew for each of some two thousand changes. It lists them here, and all are compiled in one build, as the
//! catalogue is; what that cannot do is built on its own.

mod build;
mod list;
mod run;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use super::copy::Sources;
use super::functions::{Body, around, bodies, operation};
use super::{EXIT_ALIVE, EXIT_OK, Options, Shard, Verdict, at_once};
use build::Together;
use list::{Alive, Generated};
use run::{Cases, Ended, Tests};

/// Least share of the changes of a group that tests have to notice, in percent.
const GOAL: usize = 95;

/// The end of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "kebab-case")]
enum Fate {
    Caught,
    /// The tests let it live, and a case does not.
    CaughtBy {
        case: String,
    },
    TimedOut,
    Survived,
    /// The tests let it live, and the cases say one thing and then another, or nothing.
    Undecided {
        why: String,
    },
    /// It does not compile.
    Unviable,
}

/// A line of `--json`: one change and its end.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    group: &'a str,
    #[serde(flatten)]
    fate: &'a Fate,
}

impl Told<'_> {
    fn line(&self) -> String {
        // Texts and a variant's name, which are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A change, and where it is.
struct Candidate {
    mutant: Generated,
    place: Range<usize>,
    /// What is compiled as it is and changed: the body of the function. There cannot be two bodies of one that returns a type without a name, such as an iterator with its closures; of
    /// that it is the operation. None if neither can be chosen at run time.
    body: Option<Body>,
}

impl Candidate {
    fn new(sources: &Sources, mutant: Generated) -> Result<Self, String> {
        let text = sources.text(&mutant.file)?;
        let place = mutant.place(&text).ok_or_else(|| format!("{} is nowhere", mutant.name))?;
        let bodies = bodies(&text);
        // The value of a whole function replaces what its braces hold.
        let mut body = bodies.iter().find(|body| body.range == place).cloned().or_else(|| around(&bodies, &place));
        if mutant.returns_hidden_type() {
            body = body.zip(operation(&text, &place)).map(|(body, range)| Body { range, ..body });
        }
        Ok(Self { mutant, place, body })
    }

    /// It has to be built on its own.
    fn stands_alone(&self) -> bool {
        self.body.is_none()
    }

    /// It may be looked at by the compiler alone, where nothing is chosen.
    fn may_be_constant(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.constant)
    }
}

pub(super) fn judge(root: &Path, options: &Options) -> Result<u8, String> {
    let alive = list::alive(root)?;
    let Shard { number, of } = options.shard.unwrap_or(Shard { number: 1, of: 1 });
    let sources = Sources::of(root)?;
    let all = list::generated(root)?;
    let stale = list::stale(&alive, &all);
    if !stale.is_empty() {
        return Err(format!("tests/generated_mutants.toml lists what is no more:\n{}", stale.join("\n")));
    }
    let chosen = select(all, options.filter.as_deref().unwrap_or_default()).into_iter().skip(number - 1).step_by(of);
    let candidates = chosen.map(|mutant| Candidate::new(&sources, mutant)).collect::<Result<Vec<_>, _>>()?;
    if options.list {
        candidates.iter().for_each(|candidate| println!("{}", candidate.mutant.name));
        println!("{} mutants", candidates.len());
        return Ok(EXIT_OK);
    }
    let fates = fates(&sources, &candidates, options)?;
    let (table, code) = report(&candidates, &fates, &alive);
    if options.json {
        eprintln!("{table}")
    } else {
        println!("{table}")
    }
    Ok(code)
}

/// The changes that a filter picks, in the order of its parts. The name of a group means the group, which is more than a part of the names of its files.
fn select(all: Vec<Generated>, filter: &str) -> Vec<Generated> {
    let is_group = |wanted: &str| all.iter().any(|mutant| mutant.group() == wanted);
    let wanted: Vec<(&str, bool)> = filter.split(',').map(|wanted| (wanted, is_group(wanted))).collect();
    let part = |mutant: &Generated| {
        let is_of = |(wanted, is_group): &(&str, bool)| {
            if *is_group { mutant.group() == *wanted } else { mutant.name.contains(wanted) }
        };
        wanted.iter().position(is_of)
    };
    let mut chosen: Vec<(usize, Generated)> =
        all.iter().filter_map(|mutant| Some((part(mutant)?, mutant.clone()))).collect();
    chosen.sort_by_key(|(part, _)| *part);
    chosen.into_iter().map(|(_, mutant)| mutant).collect()
}

/// The end of each change, in their order.
fn fates(sources: &Sources, candidates: &[Candidate], options: &Options) -> Result<Vec<Fate>, String> {
    eprintln!("building the tests with {} mutants", candidates.len());
    let Together { mut tests, cases, unviable, alone } = build::together(sources, candidates)?;
    tests.baseline()?;
    if let Some(cases) = &cases {
        cases.baseline()?;
    }
    let done = AtomicUsize::new(0);
    let numbers: Vec<usize> = (0..candidates.len()).collect();
    let tell = |number: usize, fate: Fate| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let mutant = &candidates[number].mutant;
        eprintln!("{done}/{} {fate:?}: {}", candidates.len(), mutant.name);
        if options.json {
            // One line as soon as it is known: what a run has found outlives it.
            println!("{}", Told { name: &mutant.name, group: mutant.group(), fate: &fate }.line());
        }
        fate
    };
    let fates = at_once(options.jobs, &numbers, |&number| {
        if unviable.contains(&number) {
            return Ok(Some(tell(number, Fate::Unviable)));
        }
        if alone.contains(&number) {
            return Ok(None);
        }
        // 0 is the program as it is.
        let fate = fate(&tests, cases.as_ref(), number + 1, &candidates[number])?;
        Ok((fate != Fate::Survived || !candidates[number].may_be_constant()).then(|| tell(number, fate)))
    });
    let rest = |(number, decided): (usize, Result<Option<Fate>, String>)| match decided? {
        Some(fate) => Ok(fate),
        None => {
            let candidate = &candidates[number];
            let fate = match build::alone(sources, candidate)? {
                Some((tests, cases)) => fate(&tests, cases.as_ref(), 0, candidate)?,
                None => Fate::Unviable,
            };
            Ok(tell(number, fate))
        }
    };
    fates.into_iter().enumerate().map(rest).collect()
}

/// The end of a change: what the tests say, and where they let it live the cases, if it is one that they judge.
fn fate(tests: &Tests, cases: Option<&Cases>, choice: usize, candidate: &Candidate) -> Result<Fate, String> {
    let mutant = &candidate.mutant;
    match (tests.run(choice, &mutant.test_packages())?, cases) {
        (Ended::Failed, _) => Ok(Fate::Caught),
        (Ended::TimedOut, _) => Ok(Fate::TimedOut),
        (Ended::Passed, Some(cases)) if mutant.is_judged_by_cases() => Ok(cases.verdict(choice)?.into()),
        (Ended::Passed, _) => Ok(Fate::Survived),
    }
}

impl From<Verdict> for Fate {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Killed { case, .. } => Self::CaughtBy { case },
            Verdict::Crashed { after, .. } => Self::CaughtBy { case: format!("what follows {after}") },
            Verdict::Survived { .. } => Self::Survived,
            Verdict::Unsteady { .. } | Verdict::Stuck | Verdict::Broken { .. } => {
                Self::Undecided { why: verdict.line() }
            }
        }
    }
}

/// A table of how many of each group were noticed, and the exit code.
fn report(candidates: &[Candidate], fates: &[Fate], alive: &[Alive]) -> (String, u8) {
    let mut groups: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut left: Vec<u32> = alive.iter().map(|alive| alive.times).collect();
    let mut unexpected = 0;
    for (Candidate { mutant, .. }, fate) in candidates.iter().zip(fates) {
        let counts = groups.entry(mutant.group()).or_default();
        match fate {
            Fate::Unviable => {}
            Fate::Caught => counts.caught += 1,
            Fate::CaughtBy { .. } => counts.by_cases += 1,
            Fate::Undecided { .. } => counts.undecided += 1,
            Fate::TimedOut => counts.timed_out += 1,
            Fate::Survived => {
                let reason = alive.iter().zip(&mut left).find(|(alive, left)| alive.is_of(mutant) && **left > 0);
                match reason {
                    Some((Alive { equivalent: true, .. }, left)) => {
                        (*left, counts.equivalent) = (*left - 1, counts.equivalent + 1)
                    }
                    Some((_, left)) => (*left, counts.survived) = (*left - 1, counts.survived + 1),
                    None => {
                        counts.survived += 1;
                        unexpected += 1;
                        eprintln!("survived, and the list does not say why: {}", mutant.name);
                    }
                }
            }
        }
    }
    let head =
        "| group | viable | by tests | by cases | timeout | survived | undecided | equivalent | share |".to_owned();
    let rows = groups.iter().map(|(group, counts)| counts.row(group));
    let table: Vec<String> = [head, format!("| {} |", ["---"; 9].join(" | "))].into_iter().chain(rows).collect();
    let below = groups.values().any(|counts| counts.share() < GOAL * 10);
    (table.join("\n"), if below || unexpected != 0 { EXIT_ALIVE } else { EXIT_OK })
}

/// Numbers of the viable changes of a group, by their end.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    caught: usize,
    by_cases: usize,
    timed_out: usize,
    survived: usize,
    undecided: usize,
    equivalent: usize,
}

impl Counts {
    /// Those that change what the program does.
    fn viable(self) -> usize {
        self.noticed() + self.survived + self.undecided
    }

    fn noticed(self) -> usize {
        self.caught + self.by_cases + self.timed_out
    }

    /// The part of the decided ones that tests or cases noticed, in thousandths.
    fn share(self) -> usize {
        (self.noticed() * 1000).checked_div(self.noticed() + self.survived).unwrap_or(1000)
    }

    fn row(self, group: &str) -> String {
        let Self { caught, by_cases, timed_out, survived, undecided, equivalent } = self;
        let (viable, share) = (self.viable(), self.share());
        format!(
            "| {group} | {viable} | {caught} | {by_cases} | {timed_out} | {survived} | {undecided} | {equivalent} | {}.{} % |",
            share / 10,
            share % 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_in_one_line_with_its_group_and_its_end() {
        let line = |fate: Fate| Told { name: "driver/src/a.rs:1:1: b", group: "driver", fate: &fate }.line();
        let named = r#"{"name":"driver/src/a.rs:1:1: b","group":"driver","fate":"#;
        assert_eq!(line(Fate::TimedOut), format!(r#"{named}"timed-out"}}"#));
        assert_eq!(line(Fate::CaughtBy { case: "Gpu.A".into() }), format!(r#"{named}"caught-by","case":"Gpu.A"}}"#));
    }

    #[test]
    fn the_share_is_of_what_changes_something() {
        let counts = Counts { caught: 11, by_cases: 6, timed_out: 2, survived: 1, undecided: 3, equivalent: 5 };
        assert_eq!((counts.viable(), counts.share()), (23, 950));
        assert_eq!(counts.row("hw"), "| hw | 23 | 11 | 6 | 2 | 1 | 3 | 5 | 95.0 % |");
        assert_eq!(Counts::default().share(), 1000);
    }
}
