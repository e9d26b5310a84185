//! The test programs with all mutants in them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Candidate;
use super::run::{Cases, Program, Tests};
use crate::mutants::copy::Sources;
use crate::mutants::schemata::{CHOICE, MODULE};

/// Marks the beginning of a function's variant.
const ARM: &str = "/* mutant */ => {";
/// Marks the choice between variants.
const MATCH: &str = "/* mutants */ {";
/// How often what does not compile is taken out before another build: the compiler finds wrong types first, then wrong borrows.
const ATTEMPTS: usize = 12;

/// The module that chooses. What the compiler runs is always as it is.
fn chooser() -> String {
    format!(
        "//! The mutant that this process runs.

extern crate std;

use core::sync::atomic::{{AtomicU32, Ordering}};

static ACTIVE: AtomicU32 = AtomicU32::new(u32::MAX);

/// The mutant that was chosen; 0 for none.
#[inline]
pub const fn active() -> u32 {{
    const fn in_the_compiler() -> u32 {{
        0
    }}
    fn at_run_time() -> u32 {{
        match ACTIVE.load(Ordering::Relaxed) {{
            u32::MAX => {{
                let chosen = std::env::var(\"{CHOICE}\").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
                ACTIVE.store(chosen, Ordering::Relaxed);
                chosen
            }}
            chosen => chosen,
        }}
    }}
    core::intrinsics::const_eval_select((), in_the_compiler, at_run_time)
}}
"
    )
}

/// The attributes with which [`chooser`] compiles, and the crate that needs them.
const FEATURES: &str = "#![feature(core_intrinsics, const_eval_select)]\n#![allow(internal_features)]\n";
const CRATE: &str = "campanile_hw";

/// The tests with every mutant that can be chosen when they start.
pub(super) struct Together {
    pub(super) tests: Tests,
    /// The conformance cases, if a mutant is of a crate that they judge.
    pub(super) cases: Option<Cases>,
    /// By number.
    pub(super) unviable: BTreeSet<usize>,
    pub(super) alone: BTreeSet<usize>,
}

pub(super) fn together(sources: &Sources, candidates: &[Candidate]) -> Result<Together, String> {
    let mut alone: BTreeSet<usize> =
        (0..candidates.len()).filter(|number| candidates[*number].stands_alone()).collect();
    let mut unviable = BTreeSet::new();
    for _ in 0..ATTEMPTS {
        let taken = |number: &usize| !alone.contains(number) && !unviable.contains(number);
        let changed = changed(sources, candidates.iter().enumerate().filter(|(number, _)| taken(number)))?;
        let built = sources.tests(&changed, &packages(candidates), CRATE)?;
        let messages = parse(&built.messages);
        if built.compiles {
            let cases = cases(sources, candidates.iter())?;
            return Ok(Together { tests: programs(&built.tree, &messages), cases, unviable, alone });
        }
        let errors: Vec<&Diagnostic> = messages.iter().filter_map(Message::error).collect();
        let before = unviable.len() + alone.len();
        for place in errors.iter().flat_map(|error| &error.spans).filter(|place| place.is_primary) {
            let Some(text) = changed.get(&place.file_name) else { continue };
            match arm(text, place.line_start) {
                Some(Arm::Of(number)) => drop(unviable.insert(number - 1)),
                Some(Arm::Original(numbers)) => alone.extend(numbers.iter().map(|number| number - 1)),
                None => {}
            }
        }
        eprintln!("{} errors, {} mutants do not compile", errors.len(), unviable.len());
        if unviable.len() + alone.len() == before {
            return Err(String::from_utf8_lossy(&built.errors).into_owned());
        }
    }
    Err(format!(
        "there is always one more mutant that does not compile; the sources are in {}",
        sources.tree().display()
    ))
}

/// The program with the conformance cases for what was built last, if a mutant is of a crate that they judge.
fn cases<'a>(sources: &Sources, mut candidates: impl Iterator<Item = &'a Candidate>) -> Result<Option<Cases>, String> {
    let judged = candidates.any(|candidate| candidate.mutant.is_judged_by_cases());
    judged.then(|| sources.command_of_tests(CRATE).map(Cases)).transpose()
}

/// The files that hold the choice and these mutants.
fn changed<'a>(
    sources: &Sources,
    candidates: impl Iterator<Item = (usize, &'a Candidate)>,
) -> Result<BTreeMap<String, String>, String> {
    let mut of_files: BTreeMap<&str, Vec<(usize, &Candidate)>> = BTreeMap::new();
    for (number, candidate) in candidates {
        of_files.entry(&candidate.mutant.file).or_default().push((number, candidate));
    }
    let mut changed = BTreeMap::new();
    for (file, candidates) in of_files {
        changed.insert(file.to_owned(), rewrite(&sources.text(file)?, file, &candidates));
    }
    let (library, module) = MODULE;
    let text = changed.remove(library).map_or_else(|| sources.text(library), Ok)?;
    changed.insert(library.to_owned(), with_features(&text) + "\n#[doc(hidden)]\npub mod mutant;\n");
    changed.insert(module.to_owned(), chooser());
    Ok(changed)
}

/// The tests and cases with one change and no choice; `None` if it does not compile.
pub(super) fn alone(sources: &Sources, candidate: &Candidate) -> Result<Option<(Tests, Option<Cases>)>, String> {
    let Candidate { mutant, place, .. } = candidate;
    let text = sources.text(&mutant.file)?;
    let text = [&text[..place.start], &mutant.replacement, &text[place.end..]].concat();
    let changed = BTreeMap::from([(mutant.file.clone(), text)]);
    let packages = mutant.test_packages().into_iter().map(str::to_owned).collect();
    let built = sources.tests(&changed, &packages, CRATE)?;
    let messages = parse(&built.messages);
    if !built.compiles && messages.iter().all(|message| message.error().is_none()) {
        // A full disk, say: that is no word about the change.
        return Err(String::from_utf8_lossy(&built.errors).into_owned());
    }
    if !built.compiles {
        return Ok(None);
    }
    Ok(Some((programs(&built.tree, &messages), cases(sources, [candidate].into_iter())?)))
}

fn packages(candidates: &[Candidate]) -> BTreeSet<String> {
    candidates.iter().flat_map(|candidate| candidate.mutant.test_packages()).map(str::to_owned).collect()
}

/// The text of a crate with [`FEATURES`], which stand behind its comment and among its attributes.
fn with_features(text: &str) -> String {
    let at = text.find("#![").unwrap_or(0);
    [&text[..at], FEATURES, &text[at..]].concat()
}

/// The text of a file with each function as it is and as each mutant has it.
fn rewrite(text: &str, file: &str, mutants: &[(usize, &Candidate)]) -> String {
    let chooser = if file.starts_with("hw/") { "crate::mutant" } else { "::campanile_hw::mutant" };
    let mut groups: BTreeMap<(usize, usize), Vec<(usize, &Candidate)>> = BTreeMap::new();
    let ranges: Vec<Range<usize>> =
        mutants.iter().filter_map(|(_, candidate)| Some(candidate.body.as_ref()?.range.clone())).collect();
    for (number, candidate) in mutants {
        let Some(body) = &candidate.body else { continue };
        // What lies in a function that another mutant changes is compiled with that one.
        let around = ranges.iter().filter(|outer| outer.start <= body.range.start && body.range.end <= outer.end);
        let outer = around.max_by_key(|outer| outer.len()).unwrap_or(&body.range);
        groups.entry((outer.start, outer.end)).or_default().push((*number, candidate));
    }
    let mut out = String::new();
    let mut rest = 0;
    for ((start, end), group) in groups {
        let range = start..end;
        out.push_str(&text[rest..start]);
        // An operation may be the first operand of another, where braces alone would be a statement.
        let (open, close) = if text[range.clone()].starts_with('{') { ("", "") } else { ("(", ")") };
        out.push_str(&format!("{open}{{ match {chooser}::active() {MATCH}\n"));
        for (number, Candidate { mutant, place, .. }) in group {
            let (before, after) = (&text[range.start..place.start], &text[place.end..range.end]);
            out.push_str(&format!("{} {ARM} {before}{}{after} }}\n", number + 1, mutant.replacement));
        }
        out.push_str(&format!("_ {ARM} {} }} }} }}{close}", &text[range.clone()]));
        rest = end;
    }
    out + &text[rest..]
}

/// Whose variant of a function a line is in.
#[derive(Debug, PartialEq, Eq)]
enum Arm {
    Of(usize),
    /// The function as it is; the mutants that change it.
    Original(Vec<usize>),
}

fn arm(text: &str, line: usize) -> Option<Arm> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let head = |line: &str| line.split_once(ARM).map(|(number, _)| number.trim().to_owned());
    let first = lines.iter().rev().find_map(|line| head(line))?;
    if let Ok(number) = first.parse() {
        return Some(Arm::Of(number));
    }
    let of_function = lines.iter().rev().take_while(|line| !line.ends_with(MATCH));
    Some(Arm::Original(of_function.filter_map(|line| head(line)?.parse().ok()).collect()))
}

/// A line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    spans: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

impl Message {
    /// An error that is somewhere; the last one only counts the others.
    fn error(&self) -> Option<&Diagnostic> {
        self.message.as_ref().filter(|message| message.level.starts_with("error") && !message.spans.is_empty())
    }
}

fn parse(output: &[u8]) -> Vec<Message> {
    output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn programs(tree: &Path, messages: &[Message]) -> Tests {
    let programs = messages.iter().filter_map(|message| {
        let folder = message.manifest_path.as_ref()?.parent()?.to_path_buf();
        let package = package(&folder)?;
        Some(Program { package, folder, path: tree.join(message.executable.as_ref()?) })
    });
    Tests(programs.collect())
}

/// Name of the package whose manifest is in `folder`.
fn package(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let manifest: toml::Table = toml::from_str(&text).ok()?;
    Some(manifest.get("package")?.get("name")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn a() { match active() /* mutants */ {
1 /* mutant */ => { one }
2 /* mutant */ => {
two }
_ /* mutant */ => {
three } } }
fn b() { match active() /* mutants */ {
7 /* mutant */ => { four }
_ /* mutant */ => { five } } }";

    #[test]
    fn a_line_is_in_the_variant_that_begins_last_before_it() {
        for (line, expected) in [
            (1, None),
            (2, Some(Arm::Of(1))),
            (4, Some(Arm::Of(2))),
            (6, Some(Arm::Original(vec![2, 1]))),
            (8, Some(Arm::Of(7))),
            (9, Some(Arm::Original(vec![7]))),
        ] {
            assert_eq!(arm(TEXT, line), expected, "line {line}");
        }
    }

    #[test]
    fn features_stand_among_the_attributes() {
        let text = with_features("//! What it is.\n#![no_std]\nmod a;\n");
        assert_eq!(text, format!("//! What it is.\n{FEATURES}#![no_std]\nmod a;\n"));
    }
}
