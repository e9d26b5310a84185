//! One program with all mutants: every function that one of them changes is there as it is and as each mutant has it, and which of them runs is chosen when the
//! program starts.
//!
//! The module that holds the choice exists in the copy only; no source of the repository knows that there are mutants.

use std::collections::BTreeMap;
use std::ops::Range;

use super::catalogue::Mutant;
use super::functions::{around, bodies};

/// Variable of the environment that chooses: a number from 1; 0 is the program as it is.
pub(super) const CHOICE: &str = "CAMPANILE_MUTANT";
/// What the program says last, before how often it ran what the mutant changes.
pub(super) const REACHED: &str = "changed functions ran: ";

/// Where the choice is kept; the crate on which all others that are changed depend.
pub(super) const MODULE: (&str, &str) = ("hw/src/lib.rs", "hw/src/mutant.rs");
/// File whose `main` chooses the mutant.
pub(super) const MAIN: &str = "src/main.rs";

/// The module with the choice.
pub(super) const CHOOSER: &str = "//! The mutant that this process runs.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static ACTIVE: AtomicU32 = AtomicU32::new(0);
static REACHED: AtomicU64 = AtomicU64::new(0);

/// Chooses a mutant, or none with 0.
pub fn choose(number: u32) {
    ACTIVE.store(number, Ordering::SeqCst);
}

/// The mutant that was chosen.
#[inline]
pub fn active() -> u32 {
    ACTIVE.load(Ordering::Relaxed)
}

/// Counts that a changed function runs.
pub fn reach() {
    REACHED.fetch_add(1, Ordering::Relaxed);
}

/// Number of times that a changed function ran.
pub fn reached() -> u64 {
    REACHED.load(Ordering::Relaxed)
}
";

/// The main program that chooses.
pub(super) fn main_program() -> String {
    format!(
        "//! The command `campanile` with mutants.

use campanile_hw::mutant;

fn main() -> std::process::ExitCode {{
    mutant::choose(std::env::var(\"{CHOICE}\").ok().and_then(|number| number.parse().ok()).unwrap_or(0));
    let code = campanile::cli::main();
    eprintln!(\"{REACHED}{{}}\", mutant::reached());
    code
}}
"
    )
}

/// Whether a mutant needs a program of its own: it changes no function, or one that may run in the compiler.
pub(super) fn stands_alone(text: &str, mutant: &Mutant) -> Result<bool, String> {
    let place = mutant.place(text)?;
    Ok(!mutant.expression && around(&bodies(text), &place).is_none_or(|body| body.constant))
}

/// The text of a file with each of `mutants` in it under its number.
///
/// # Errors
/// The text of a mutant is not there once.
pub(super) fn rewrite(text: &str, package: &str, mutants: &[(u32, &Mutant)]) -> Result<String, String> {
    let bodies = bodies(text);
    let mut changes = Vec::new();
    for (number, mutant) in mutants {
        let place = mutant.place(text)?;
        let body = if mutant.expression { None } else { around(&bodies, &place) };
        changes.push((body.map_or(place.clone(), |body| body.range), place, *number, *mutant));
    }
    let mut groups: BTreeMap<usize, (Range<usize>, Vec<_>)> = BTreeMap::new();
    for (range, ..) in &changes {
        // What lies in a function that another mutant changes is compiled with that one.
        let outer = changes.iter().map(|(outer, ..)| outer);
        let outer =
            outer.filter(|outer| outer.start <= range.start && range.end <= outer.end).max_by_key(|outer| outer.len());
        let outer = outer.unwrap_or(range).clone();
        groups.entry(outer.start).or_insert((outer, Vec::new()));
    }
    for (range, place, number, mutant) in &changes {
        let group = groups.values_mut().find(|(outer, _)| outer.start <= range.start && range.end <= outer.end);
        group
            .ok_or_else(|| format!("{}: its text crosses that of another", mutant.id))?
            .1
            .push((place, number, mutant));
    }
    let chooser = if package == "hw" { "crate::mutant" } else { "::campanile_hw::mutant" };
    let mut out = String::new();
    let mut rest = 0;
    for (range, group) in groups.values() {
        out.push_str(&text[rest..range.start]);
        out.push_str(&format!("{{ match {chooser}::active() {{\n"));
        for (place, number, mutant) in group {
            let (before, after) = (&text[range.start..place.start], &text[place.end..range.end]);
            let changed = &mutant.replace;
            out.push_str(&format!("{number} => {{ {chooser}::reach(); {before}{changed}{after} }}\n"));
        }
        out.push_str(&format!("_ => {{ {} }} }} }}", &text[range.clone()]));
        rest = range.end;
    }
    out.push_str(&text[rest..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(find: &str, replace: &str, expression: bool) -> Mutant {
        Mutant {
            id: format!("device.{find}"),
            file: "device/src/lib.rs".into(),
            find: find.into(),
            replace: replace.into(),
            page: "page".into(),
            breaks: "It holds.".into(),
            cases: Vec::new(),
            options: Vec::new(),
            repeat: 1,
            expression,
            survives: None,
        }
    }

    /// White space as one blank each.
    fn plain(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_function_is_there_once_for_each_mutant_and_as_it_is() {
        let (one, two) = (mutant("1", "3", false), mutant("2", "", false));
        let text = rewrite("fn a() { 1; 2 } fn b() {}", "device", &[(7, &one), (8, &two)]).unwrap();
        let choice = "::campanile_hw::mutant";
        let expected = format!(
            "fn a() {{ match {choice}::active() {{ 7 => {{ {choice}::reach(); {{ 3; 2 }} }} 8 => {{ {choice}::reach(); {{ 1;  }} }} _ => {{ {{ 1; 2 }} }} }} }} fn b() {{}}"
        );
        assert_eq!(plain(&text), plain(&expected));
    }

    #[test]
    fn an_expression_is_chosen_where_it_stands() {
        let text = rewrite("fn a() -> impl I { x.map(1) }", "hw", &[(1, &mutant("1", "2", true))]).unwrap();
        let choice = "crate::mutant";
        let expected = format!(
            "fn a() -> impl I {{ x.map({{ match {choice}::active() {{ 1 => {{ {choice}::reach(); 2 }} _ => {{ 1 }} }} }}) }}"
        );
        assert_eq!(plain(&text), plain(&expected));
    }

    #[test]
    fn functions_within_functions_are_changed_with_the_outer_one() {
        let (inner, outer) = (mutant("1", "3", false), mutant("2", "4", false));
        let text = rewrite("fn a() { fn b() { 1 } 2 }", "hw", &[(1, &inner), (2, &outer)]).unwrap();
        assert_eq!(text.matches("fn a()").count(), 1);
        assert_eq!(
            (text.matches("{ 3 } 2").count(), text.matches("{ 1 } 4").count(), text.matches("{ 1 } 2").count()),
            (1, 1, 1)
        );
    }

    #[test]
    fn constants_stand_alone() {
        let text = "const A: u8 = 1; const fn b() -> u8 { 2 } fn c() -> u8 { 3 }";
        let alone: Vec<bool> = ["1", "2", "3"].map(|find| stands_alone(text, &mutant(find, "", false)).unwrap()).into();
        assert_eq!(alone, [true, true, false]);
    }
}
