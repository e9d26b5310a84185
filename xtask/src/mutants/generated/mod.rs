//! `cargo xtask mutants --generated`: what the crates' own tests notice of the changes that cargo-mutants thinks of.
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

use super::copy::Sources;
use super::functions::{Body, around, bodies};
use super::{EXIT_ALIVE, EXIT_OK, Options, Shard, at_once};
use build::Together;
use list::{Alive, Generated};
use run::{Ended, Tests};

/// Least share of the changes of a group that tests have to notice, in percent.
const GOAL: usize = 95;

/// The end of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Caught,
    TimedOut,
    Survived,
    /// It does not compile.
    Unviable,
}

/// A change, and where it is.
struct Candidate {
    mutant: Generated,
    place: Range<usize>,
    body: Option<Body>,
}

impl Candidate {
    fn new(sources: &Sources, mutant: Generated) -> Result<Self, String> {
        let text = sources.text(&mutant.file)?;
        let place = mutant.place(&text).ok_or_else(|| format!("{} is nowhere", mutant.name))?;
        let bodies = bodies(&text);
        // The value of a whole function replaces what its braces hold.
        let body = bodies.iter().find(|body| body.range == place).cloned().or_else(|| around(&bodies, &place));
        Ok(Self { mutant, place, body })
    }

    /// It changes no function, or one of which there cannot be two: a closure and an iterator have a type of their own.
    fn stands_alone(&self) -> bool {
        self.body.is_none() || self.mutant.returns_hidden_type()
    }

    /// It may be looked at by the compiler alone, where nothing is chosen.
    fn may_be_constant(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.constant)
    }
}

pub(super) fn judge(root: &Path, options: &Options) -> Result<u8, String> {
    let alive = list::alive(root)?;
    let wanted = options.filter.as_deref().unwrap_or_default();
    let Shard { number, of } = options.shard.unwrap_or(Shard { number: 1, of: 1 });
    let sources = Sources::of(root)?;
    let mut all = list::generated(root)?;
    // The name of a group means the group, which is more than a part of the names of its files.
    let is_group = all.iter().any(|mutant| mutant.group() == wanted);
    all.retain(|mutant| if is_group { mutant.group() == wanted } else { mutant.name.contains(wanted) });
    let chosen = all.into_iter().skip(number - 1).step_by(of);
    let candidates = chosen.map(|mutant| Candidate::new(&sources, mutant)).collect::<Result<Vec<_>, _>>()?;
    if options.list {
        candidates.iter().for_each(|candidate| println!("{}", candidate.mutant.name));
        println!("{} mutants", candidates.len());
        return Ok(EXIT_OK);
    }
    let fates = fates(&sources, &candidates, options.jobs)?;
    report(&candidates, &fates, &alive)
}

/// The end of each change, in their order.
fn fates(sources: &Sources, candidates: &[Candidate], jobs: usize) -> Result<Vec<Fate>, String> {
    eprintln!("building the tests with {} mutants", candidates.len());
    let Together { mut tests, unviable, alone } = build::together(sources, candidates)?;
    tests.baseline()?;
    let done = AtomicUsize::new(0);
    let numbers: Vec<usize> = (0..candidates.len()).collect();
    let tell = |number: usize, fate: Fate| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        eprintln!("{done}/{} {fate:?}: {}", candidates.len(), candidates[number].mutant.name);
        fate
    };
    let fates = at_once(jobs, &numbers, |&number| {
        if unviable.contains(&number) {
            return Some(tell(number, Fate::Unviable));
        }
        if alone.contains(&number) {
            return None;
        }
        let fate = fate(&tests, number, &candidates[number]);
        (fate != Fate::Survived || !candidates[number].may_be_constant()).then(|| tell(number, fate))
    });
    let rest = |(number, fate): (usize, Option<Fate>)| match fate {
        Some(fate) => Ok(fate),
        None => {
            let candidate = &candidates[number];
            let fate = match build::alone(sources, candidate)? {
                Some(tests) => fate_of(&tests, 0, candidate),
                None => Fate::Unviable,
            };
            Ok(tell(number, fate))
        }
    };
    fates.into_iter().enumerate().map(rest).collect()
}

fn fate(tests: &Tests, number: usize, candidate: &Candidate) -> Fate {
    // 0 is the program as it is.
    fate_of(tests, number + 1, candidate)
}

fn fate_of(tests: &Tests, choice: usize, candidate: &Candidate) -> Fate {
    match tests.run(choice, &candidate.mutant.test_packages()) {
        Ended::Passed => Fate::Survived,
        Ended::Failed => Fate::Caught,
        Ended::TimedOut => Fate::TimedOut,
    }
}

/// Prints how many of each group were noticed, and returns the exit code.
fn report(candidates: &[Candidate], fates: &[Fate], alive: &[Alive]) -> Result<u8, String> {
    let mut groups: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut left: Vec<u32> = alive.iter().map(|alive| alive.times).collect();
    let mut unexpected = 0;
    for (Candidate { mutant, .. }, fate) in candidates.iter().zip(fates) {
        let counts = groups.entry(mutant.group()).or_default();
        match fate {
            Fate::Unviable => {}
            Fate::Caught => counts.caught += 1,
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
    println!(
        "| group | viable | caught | timeout | survived | equivalent | share |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    groups.iter().for_each(|(group, counts)| println!("{}", counts.row(group)));
    let below = groups.values().any(|counts| counts.share() < GOAL * 10);
    Ok(if below || unexpected != 0 { EXIT_ALIVE } else { EXIT_OK })
}

/// Numbers of the viable changes of a group, by their end.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    caught: usize,
    timed_out: usize,
    survived: usize,
    equivalent: usize,
}

impl Counts {
    /// Those that change what the program does.
    fn viable(self) -> usize {
        self.caught + self.timed_out + self.survived
    }

    /// The part of them that tests noticed, in thousandths.
    fn share(self) -> usize {
        ((self.caught + self.timed_out) * 1000).checked_div(self.viable()).unwrap_or(1000)
    }

    fn row(self, group: &str) -> String {
        let Self { caught, timed_out, survived, equivalent } = self;
        let (viable, share) = (self.viable(), self.share());
        format!(
            "| {group} | {viable} | {caught} | {timed_out} | {survived} | {equivalent} | {}.{} % |",
            share / 10,
            share % 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_what_changes_something() {
        let counts = Counts { caught: 17, timed_out: 2, survived: 1, equivalent: 5 };
        assert_eq!((counts.viable(), counts.share()), (20, 950));
        assert_eq!(counts.row("hw"), "| hw | 20 | 17 | 2 | 1 | 5 | 95.0 % |");
        assert_eq!(Counts::default().share(), 1000);
    }
}
