//! The claim maps: what each sentence of a specification page is held by, printed from the sentences and from the cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use campanile_conformance::CaseInfo;
use campanile_conformance::registry::cases;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{exists, root};

/// Pages, and the maps that are printed of them.
const MAPS: [(&str, &str); 5] = [
    ("native-gpu-fence-objects", "conformance-native-fence.md"),
    ("user-mode-work-submission", "conformance-user-mode-submission.md"),
    ("tdr-changes-in-windows-8", "conformance-tdr.md"),
    ("allocation-usage-tracking", "conformance-allocation-usage.md"),
    ("context-monitoring", "conformance-context-monitoring.md"),
];

/// The sentences of a page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    title: String,
    /// Text in front of the first chapter.
    about: String,
    chapter: Vec<Chapter>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chapter {
    title: String,
    /// What stands before the sentences, or instead of them.
    text: Option<String>,
    /// Who says the sentences, if it is not the page.
    says: Option<String>,
    #[serde(default)]
    claim: Vec<Sentence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sentence {
    /// By which cases name it; it stays when others come and go.
    number: u16,
    says: String,
    /// Tests that hold it, as `file::function`, beside the cases or instead of them.
    #[serde(default)]
    tests: Vec<String>,
    remark: Option<String>,
    /// The reason why no case holds it.
    no_case: Option<String>,
    /// The reason why every mutant that breaks it lives.
    mutants_live: Option<String>,
}

#[derive(Deserialize)]
struct Mutant {
    page: String,
    breaks: String,
    survives: Option<String>,
}

#[derive(Deserialize)]
struct Catalogue {
    mutant: Vec<Mutant>,
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page(name: &str) -> Page {
    read(&root().join(format!("tests/claims/{name}.toml")))
}

fn sentences(page: &Page) -> impl Iterator<Item = &Sentence> {
    page.chapter.iter().flat_map(|chapter| &chapter.claim)
}

fn mutants() -> Vec<Mutant> {
    let folder = std::fs::read_dir(root().join("tests/mutants")).expect("readable");
    let mut paths: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.iter().flat_map(|path| read::<Catalogue>(path).mutant).collect()
}

/// The cases that hold each sentence of a page.
fn holders(page: &str) -> BTreeMap<u16, Vec<&'static str>> {
    let mut holders: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for case in cases() {
        for (_, number) in case.holds.iter().map(|claim| claim.place()).filter(|(other, _)| *other == page) {
            holders.entry(number).or_default().push(case.short_name());
        }
    }
    holders
}

/// The map of a page.
fn map(name: &str, mutants: &[Mutant]) -> String {
    let page = page(name);
    let holders = holders(name);
    let mut out = format!("# {}\n\n{}", page.title, page.about);
    for chapter in &page.chapter {
        let _ = write!(out, "\n## {}\n\n", chapter.title);
        let text = chapter.text.as_deref().unwrap_or_default();
        out.push_str(text);
        if chapter.claim.is_empty() {
            continue;
        }
        let says = chapter.says.as_deref().unwrap_or("the page says");
        let apart = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{apart}| | {says} | held by | mutants |\n| --- | --- | --- | --- |");
        for sentence in &chapter.claim {
            let names = holders.get(&sentence.number).into_iter().flatten().copied();
            let names = names.chain(sentence.tests.iter().map(String::as_str)).map(|name| format!("`{name}`"));
            let no_case = sentence.no_case.as_ref().map(|reason| format!("no case: {reason}"));
            let held: Vec<String> = names.chain(sentence.remark.clone()).chain(no_case).collect();
            let why = sentence.mutants_live.iter().map(|reason| format!(": {reason}"));
            let fate = fate(name, &sentence.says, mutants) + &why.collect::<String>();
            let _ = writeln!(out, "| {} | {} | {} | {fate} |", sentence.number, sentence.says, held.join(", "));
        }
    }
    out
}

/// The number of mutants that break a sentence and are killed, and of those that live.
fn killed_and_alive(page: &str, says: &str, mutants: &[Mutant]) -> (usize, usize) {
    let of_sentence = |mutant: &&Mutant| mutant.page == page && says.contains(mutant.breaks.trim_end_matches('.'));
    let (alive, killed): (Vec<_>, Vec<_>) =
        mutants.iter().filter(of_sentence).partition(|mutant| mutant.survives.is_some());
    (killed.len(), alive.len())
}

/// The fate of the mutants that break a sentence.
fn fate(page: &str, says: &str, mutants: &[Mutant]) -> String {
    let (killed, alive) = killed_and_alive(page, says, mutants);
    let killed = (killed != 0).then(|| format!("{killed} killed"));
    let alive = (alive != 0).then(|| format!("**{alive} alive**"));
    killed.into_iter().chain(alive).collect::<Vec<_>>().join(", ")
}

/// `cargo xtask docs` has it write the maps.
#[test]
fn the_document_says_what_the_table_says() {
    let mutants = mutants();
    for (page, file) in MAPS {
        let path = root().join("docs").join(file);
        let fresh = map(page, &mutants);
        if std::env::var_os("CAMPANILE_WRITE_DOCS").is_some() {
            std::fs::write(&path, fresh).expect("the document can be written");
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == fresh, "docs/{file} is stale: run `cargo xtask docs`");
    }
}

/// Sentences of a page whose mutants all live without a reason, or that have a reason although they do not.
fn live_mistakes(name: &str, page: &Page, mutants: &[Mutant]) -> Vec<String> {
    let mut mistakes = Vec::new();
    for Sentence { number, says, mutants_live, .. } in sentences(page) {
        let all_live = matches!(killed_and_alive(name, says, mutants), (0, 1..));
        match mutants_live {
            None if all_live => mistakes.push(format!("{number}, {says} All its mutants live, and nothing says why.")),
            Some(_) if !all_live => mistakes.push(format!("{number}, {says} A reason says why all its mutants live.")),
            Some(why) if !why.ends_with('.') => mistakes.push(format!("{number}, {says} The reason is no sentence.")),
            _ => (),
        }
    }
    mistakes
}

#[test]
fn a_sentence_whose_mutants_all_live_says_why() {
    let mutants = mutants();
    for (name, _) in MAPS {
        let mistakes = live_mistakes(name, &page(name), &mutants);
        assert!(mistakes.is_empty(), "{name}:\n{}", mistakes.join("\n"));
    }
}

/// Everything that is wrong with the sentences of a page and with those who hold them.
fn mistakes(page: &Page, holders: &BTreeMap<u16, Vec<&str>>) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut numbers = BTreeSet::new();
    for Sentence { number, says, tests, no_case, .. } in sentences(page) {
        let mut wrong = |what: &str| mistakes.push(format!("{number}, {says} {what}"));
        if !numbers.insert(*number) {
            wrong("The number is there twice.");
        }
        match (holders.contains_key(number), no_case) {
            (false, None) => wrong("No case holds it, and nothing says why."),
            (true, Some(_)) => wrong("A case holds it, and a reason says why none does."),
            (false, Some(_)) if tests.is_empty() => wrong("Nothing holds it."),
            (false, Some(reason)) if !reason.ends_with('.') => wrong("The reason why no case holds it is no sentence."),
            _ => (),
        }
        for test in tests.iter().filter(|test| !exists(test)) {
            wrong(&format!("There is no test {test}."));
        }
    }
    for (number, cases) in holders.iter().filter(|(number, _)| !numbers.contains(number)) {
        mistakes.push(format!("{number}: no such sentence, and held by {cases:?}"));
    }
    mistakes
}

#[test]
fn every_sentence_has_cases_or_a_reason_and_every_case_has_its_sentences() {
    for (name, _) in MAPS {
        let mistakes = mistakes(&page(name), &holders(name));
        assert!(mistakes.is_empty(), "{name}:\n{}", mistakes.join("\n"));
    }
}

#[test]
fn every_case_of_a_page_holds_a_sentence_of_it() {
    let holds_none = |case: &&CaseInfo| {
        let of_page = MAPS.iter().any(|(page, _)| *page == case.page);
        let places: Vec<_> = case.holds.iter().map(|claim| claim.place().0).collect();
        let of_area = case.area == "TDR" || case.area.contains("Fence");
        of_page && !places.contains(&case.page) || of_area && places.is_empty()
    };
    let missing: Vec<&str> = cases().filter(holds_none).map(CaseInfo::short_name).collect();
    assert!(missing.is_empty(), "cases without a sentence (`holds`): {missing:#?}");
}

#[test]
fn every_page_has_most_of_its_sentences() {
    for ((name, _), least) in MAPS.iter().zip([75, 70, 55, 30, 20]) {
        let count = sentences(&page(name)).count();
        assert!(count >= least, "{name} has only {count} sentences");
    }
}

#[test]
fn sentences_that_nothing_holds_and_holders_of_nothing_are_found() {
    let text = "title = 'A'\nabout = ''\n[[chapter]]\ntitle = 'B'\n[[chapter.claim]]\nnumber = 1\nsays = 'One.'\n\
                [[chapter.claim]]\nnumber = 2\nsays = 'Two.'\nno_case = 'It is silent.'\ntests = ['no/such/file.rs::a_test']\n\
                [[chapter.claim]]\nnumber = 2\nsays = 'Two again.'\nno_case = 'It is silent.'\n";
    let page: Page = toml::from_str(text).expect("a page");
    let found = mistakes(&page, &BTreeMap::from([(3, vec!["A.Case"])]));
    let parts = ["No case holds it", "There is no test", "there twice", "Nothing holds it", "no such sentence"];
    assert_eq!(found.len(), parts.len(), "{found:?}");
    assert!(parts.iter().all(|part| found.iter().any(|mistake| mistake.contains(part))), "{found:?}");
    let found = mistakes(&page, &BTreeMap::from([(1, vec!["A.Case"]), (2, vec!["A.Case"])]));
    assert_eq!(found.iter().filter(|mistake| mistake.contains("a reason says why none does")).count(), 2);
}

#[test]
fn mutants_are_counted_by_the_sentence_that_they_break() {
    let mutant = |breaks: &str, survives: bool| Mutant {
        page: "context-monitoring".into(),
        breaks: breaks.into(),
        survives: survives.then(|| "It does.".into()),
    };
    let mutants = [mutant("A value grows.", false), mutant("A value grows.", true), mutant("It shrinks.", true)];
    assert_eq!(fate("context-monitoring", "A value grows. That is our rule.", &mutants), "1 killed, **1 alive**");
    assert_eq!(fate("context-monitoring", "It shrinks.", &mutants), "**1 alive**");
    assert_eq!(fate("native-gpu-fence-objects", "It shrinks.", &mutants), "");
    let text = "title = 'A'\nabout = ''\n[[chapter]]\ntitle = 'B'\n[[chapter.claim]]\nnumber = 1\nsays = 'A value grows.'\n\
                mutants_live = 'They do not.'\n[[chapter.claim]]\nnumber = 2\nsays = 'It shrinks.'\n";
    let page: Page = toml::from_str(text).expect("a page");
    let found = live_mistakes("context-monitoring", &page, &mutants);
    let parts = ["A reason says why all its mutants live", "All its mutants live, and nothing says why"];
    assert_eq!(found.len(), parts.len(), "{found:?}");
    assert!(found.iter().zip(parts).all(|(mistake, part)| mistake.contains(part)), "{found:?}");
}
