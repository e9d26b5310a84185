//! `cargo xtask mutants`: whether the conformance cases notice when a sentence of a page no longer holds, and with `--generated` whether unit tests, and for the
//! kernel-mode driver and the GPU cases behind them, notice the changes of cargo-mutants.

mod catalogue;
mod copy;
mod document;
mod functions;
mod generated;
mod run;
mod schemata;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use catalogue::Mutant;
use copy::Sources;
pub(crate) use document::document;
use run::{Ended, Order};

/// Everything ended as the catalogue says.
const EXIT_OK: u8 = 0;
/// A mutant is alive that should not be, or the reverse.
const EXIT_ALIVE: u8 = 1;
/// Nothing can be said: catalogue, build, or cases that fail without a mutant.
const EXIT_INPUT: u8 = 2;

#[derive(Args)]
pub(crate) struct Options {
    /// Takes only the mutants whose id, file or page contains this; with `--generated` a group, or what is in the name, or several of these after commas
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Takes only every N-th mutant, from the K-th on
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Takes only the mutants that live and of which nobody knows why: those whose reason begins with `Open`
    #[arg(long)]
    open: bool,
    /// Takes the changes that cargo-mutants thinks of instead of the catalogue. The crates' own tests judge them first; those of driver and device that live then, also
    /// areas of the conformance cases
    #[arg(long, conflicts_with_all = ["open", "widen", "no_baseline"])]
    generated: bool,
    /// Lists the mutants and builds nothing
    #[arg(long)]
    list: bool,
    /// Prints the results, or the list, as JSON; with `--generated` one line for each change as soon as its end is known
    #[arg(long)]
    json: bool,
    /// Runs every case there is on a mutant that its own cases let live
    #[arg(long)]
    widen: bool,
    /// Mutants that run at a time, each in a process of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Does not first run the cases without a mutant
    #[arg(long)]
    no_baseline: bool,
}

/// A part of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(format!("{text} is not K/N with K from 1 to N")),
        }
    }
}

/// Verdict on a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
enum Verdict {
    /// A case failed, and failed again.
    Killed { case: String, reason: String },
    /// The process ended in a case, and did again.
    Crashed { after: String, status: String },
    /// A case failed once and passed when it was asked again.
    Unsteady { case: String, reason: String },
    /// Every case passed; how often what is changed ran.
    Survived { reached: u64 },
    /// No case ended, which says nothing about any of them.
    Stuck,
    /// Its program does not compile, or no case could run.
    Broken { reason: String },
}

impl Verdict {
    fn is_killed(&self) -> bool {
        matches!(self, Self::Killed { .. } | Self::Crashed { .. })
    }

    fn line(&self) -> String {
        let brief = |reason: &str| reason.lines().next().unwrap_or_default().chars().take(120).collect::<String>();
        match self {
            Self::Killed { case, reason } => format!("killed by {case}: {}", brief(reason)),
            Self::Crashed { after, status } => format!("killed, {status} after {after}"),
            Self::Unsteady { case, reason } => format!("UNSTEADY, {case} failed once: {}", brief(reason)),
            Self::Survived { reached: 0 } => "SURVIVED, and never ran".to_owned(),
            Self::Survived { reached } => format!("SURVIVED, ran {reached} times"),
            Self::Stuck => "STUCK".to_owned(),
            Self::Broken { reason } => format!("BROKEN: {}", brief(reason)),
        }
    }
}

/// A mutant and what became of it.
#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    mutant: &'a Mutant,
    #[serde(flatten)]
    verdict: Verdict,
    ms: u64,
}

impl Outcome<'_> {
    /// True if the catalogue expects this verdict.
    fn is_expected(&self) -> bool {
        self.verdict.is_killed() == self.mutant.survives.is_none()
    }
}

/// Runs the command and returns the exit code.
pub(crate) fn mutants(root: &Path, options: &Options) -> u8 {
    let judged = if options.generated { generated::judge(root, options) } else { judge(root, options) };
    match judged {
        Ok(code) => code,
        Err(message) => {
            eprintln!("xtask: {message}");
            EXIT_INPUT
        }
    }
}

fn judge(root: &Path, options: &Options) -> Result<u8, String> {
    let all = catalogue::read(root)?;
    let mistakes = catalogue::mistakes(root, &all);
    if !mistakes.is_empty() {
        return Err(mistakes.join("\n"));
    }
    let selected = select(&all, options);
    if selected.is_empty() {
        return Err(format!("no mutant matches; there are {}", all.len()));
    }
    if options.list {
        list(&selected, options.json)?;
        return Ok(EXIT_OK);
    }
    let sources = Sources::of(root)?;
    let mut alone = BTreeSet::new();
    for (number, mutant) in &selected {
        if schemata::stands_alone(&sources.text(&mutant.file)?, mutant)? {
            alone.insert(*number);
        }
    }
    eprintln!("building {} mutants in one program, {} on their own", all.len() - alone.len(), alone.len());
    // All of the catalogue, so that a part of it needs no build of its own.
    let mut together = Vec::new();
    for (number, mutant) in numbered(&all) {
        if !schemata::stands_alone(&sources.text(&mutant.file)?, mutant)? {
            together.push((number, mutant));
        }
    }
    let program = sources.with_all(&together)?;
    if !options.no_baseline {
        baseline(&program, &selected)?;
    }
    let (alone, together): (Vec<_>, Vec<_>) = selected.into_iter().partition(|(number, _)| alone.contains(number));
    let progress = Progress { done: AtomicUsize::new(0), of: alone.len() + together.len() };
    let mut outcomes = at_once(options.jobs, &together, |(number, mutant)| {
        progress.tell(mutant, || verdict(&program, *number, mutant, options.widen))
    });
    for (_, mutant) in &alone {
        outcomes.push(progress.tell(mutant, || match sources.with_one(mutant) {
            Ok(program) => verdict(&program, 0, mutant, options.widen),
            Err(reason) => Verdict::Broken { reason },
        }));
    }
    report(&outcomes, options.json)
}

/// Number of mutants that are done, of all.
struct Progress {
    done: AtomicUsize,
    of: usize,
}

impl Progress {
    /// Finds out what becomes of a mutant, and says it.
    fn tell<'a>(&self, mutant: &'a Mutant, judge: impl FnOnce() -> Verdict) -> Outcome<'a> {
        let start = Instant::now();
        let verdict = judge();
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        eprintln!("{done}/{} {}: {}", self.of, mutant.id, verdict.line());
        Outcome { mutant, verdict, ms: start.elapsed().as_millis() as u64 }
    }
}

/// Does `work` for all of `items`, for `jobs` at a time, and returns what came of each in their order.
fn at_once<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The mutants with their numbers, which are the same in every part of the catalogue.
fn numbered(all: &[Mutant]) -> impl Iterator<Item = (u32, &Mutant)> {
    (1..).zip(all)
}

fn select<'a>(all: &'a [Mutant], options: &Options) -> Vec<(u32, &'a Mutant)> {
    let wanted = options.filter.as_deref().unwrap_or_default().to_lowercase();
    let wanted = |mutant: &Mutant| mutant.matches(&wanted) && (!options.open || mutant.is_open());
    let matching = numbered(all).filter(|(_, mutant)| wanted(mutant));
    let Shard { number, of } = options.shard.unwrap_or(Shard { number: 1, of: 1 });
    matching.skip(number - 1).step_by(of).collect()
}

fn list(selected: &[(u32, &Mutant)], json: bool) -> Result<(), String> {
    if json {
        let mutants: Vec<&Mutant> = selected.iter().map(|(_, mutant)| *mutant).collect();
        println!("{}", serde_json::to_string_pretty(&mutants).map_err(|error| error.to_string())?);
        return Ok(());
    }
    for (_, mutant) in selected {
        println!("{}  [{}]\n    {}", mutant.id, mutant.page, mutant.breaks);
    }
    println!("{} mutants", selected.len());
    Ok(())
}

/// Runs every case that is to notice something, without a mutant.
///
/// # Errors
/// One fails: what it says about mutants means nothing.
fn baseline(program: &Path, selected: &[(u32, &Mutant)]) -> Result<(), String> {
    let mut wanted: BTreeMap<(&[String], &str), u32> = BTreeMap::new();
    for (_, mutant) in selected {
        for case in &mutant.cases {
            let repeat = wanted.entry((&mutant.options, case)).or_default();
            *repeat = (*repeat).max(mutant.repeat);
        }
    }
    eprintln!("running {} cases and areas without a mutant", wanted.len());
    for ((options, filter), repeat) in wanted {
        let order = Order { program, number: 0, filter, options, repeat };
        match run::run(&order) {
            Ended::Passed { passed: 1.., .. } => {}
            Ended::Passed { .. } => return Err(format!("without a mutant, {filter} is skipped {}", options.join(" "))),
            other => return Err(format!("without a mutant, {filter} {}: {other:?}", options.join(" "))),
        }
    }
    Ok(())
}

/// Runs the cases of a mutant until one notices it.
fn verdict(program: &Path, number: u32, mutant: &Mutant, widen: bool) -> Verdict {
    let order =
        |filter: &str| run::run(&Order { program, number, filter, options: &mutant.options, repeat: mutant.repeat });
    let everything = widen.then_some("");
    verdict_of(mutant.cases.iter().map(String::as_str).chain(everything), order)
}

/// What the cases say that `filters` pick, each of which `order` runs.
fn verdict_of<'a>(filters: impl Iterator<Item = &'a str>, order: impl Fn(&str) -> Ended) -> Verdict {
    let mut most = 0;
    let mut unsteady = None;
    for filter in filters {
        match order(filter) {
            Ended::Passed { reached, .. } => most = most.max(reached),
            // Alone, where that is enough; some need what the cases before them left behind.
            Ended::Failed { case, reason } => match again(&order, &case, filter) {
                None => unsteady = Some(Verdict::Unsteady { case, reason }),
                Some(case) => return Verdict::Killed { case, reason },
            },
            Ended::Crashed { status, after } => match order(filter) {
                Ended::Passed { .. } => unsteady = Some(Verdict::Unsteady { case: after, reason: status }),
                _ => return Verdict::Crashed { after, status },
            },
            Ended::Stuck => return Verdict::Stuck,
            Ended::Refused { reason } => return Verdict::Broken { reason },
        }
    }
    unsteady.unwrap_or(Verdict::Survived { reached: most })
}

/// What fails again after `case` did: the case alone, or the same case behind the others that `filter` picks.
fn again(order: impl Fn(&str) -> Ended, case: &str, filter: &str) -> Option<String> {
    if !matches!(order(case), Ended::Passed { .. }) {
        return Some(case.to_owned());
    }
    match order(filter) {
        Ended::Failed { case: second, .. } if second == case => Some(format!("{case} behind those of \"{filter}\"")),
        _ => None,
    }
}

fn report(outcomes: &[Outcome], json: bool) -> Result<u8, String> {
    let killed = outcomes.iter().filter(|outcome| outcome.verdict.is_killed()).count();
    let unexpected: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.is_expected()).collect();
    if json {
        println!("{}", serde_json::to_string_pretty(outcomes).map_err(|error| error.to_string())?);
    }
    for outcome in &unexpected {
        let said = if outcome.mutant.survives.is_some() {
            "the catalogue says that it survives"
        } else {
            outcome.mutant.breaks.as_str()
        };
        eprintln!("{}: {} ({said})", outcome.mutant.id, outcome.verdict.line());
    }
    let explained = outcomes.iter().filter(|outcome| outcome.is_expected() && !outcome.verdict.is_killed()).count();
    let summary = format!(
        "{} mutants: {killed} killed, {explained} alive for a reason, {} not as the catalogue says",
        outcomes.len(),
        unexpected.len()
    );
    if json {
        eprintln!("{summary}")
    } else {
        println!("{summary}")
    }
    Ok(if unexpected.is_empty() { EXIT_OK } else { EXIT_ALIVE })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Options {
        const ALL: Self = Self {
            filter: None,
            shard: None,
            open: false,
            generated: false,
            list: false,
            json: false,
            widen: false,
            jobs: 1,
            no_baseline: false,
        };
    }

    #[test]
    fn results_are_in_the_order_of_the_items_however_many_are_worked_on() {
        let items: Vec<u32> = (0..100).collect();
        for jobs in [1, 3] {
            assert_eq!(at_once(jobs, &items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shards_are_parts_of_a_whole() {
        assert_eq!("2/3".parse(), Ok(Shard { number: 2, of: 3 }));
        for wrong in ["0/3", "4/3", "1", "1/0", "a/b", "1/"] {
            assert!(Shard::from_str(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_open_ones_are_alive_and_not_all_that_are() {
        let all = catalogue::read(&crate::root()).unwrap();
        let open = select(&all, &Options { open: true, ..Options::ALL });
        assert!(open.iter().all(|(_, mutant)| mutant.survives.is_some()));
        assert!(open.len() < all.iter().filter(|mutant| mutant.survives.is_some()).count());
    }

    #[test]
    fn shards_have_every_mutant_once() {
        let all = catalogue::read(&crate::root()).unwrap();
        let part = |number| {
            let shard = Some(Shard { number, of: 3 });
            let options = Options { shard, ..Options::ALL };
            select(&all, &options).into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        let mut numbers = [part(1), part(2), part(3)].concat();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=all.len() as u32));
    }
}
