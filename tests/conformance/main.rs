//! The documents that say what holds each statement of a page name cases and tests that exist, and leave no case of the page out.

mod claims;
mod program;

use std::collections::HashSet;
use std::path::Path;

use campanile_conformance::CaseInfo;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names between backticks in the rows of tables.
fn names(document: &str) -> Vec<&str> {
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect()
}

fn cases() -> HashSet<&'static str> {
    campanile_conformance::registry::cases().map(CaseInfo::short_name).collect()
}

/// True if there is a test of the name `file::function`.
fn exists(test: &str) -> bool {
    let Some((file, function)) = test.split_once("::") else { return false };
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    text.contains(&format!("fn {function}("))
}

/// The cases that `name` stands for: a case, `Area.*` for several, none for a test as `file::function`. `None` if there is nothing of that
/// name.
fn find<'a>(name: &'a str, cases: &HashSet<&'static str>) -> Option<Vec<&'a str>> {
    if name.contains("::") {
        return exists(name).then(Vec::new);
    }
    let Some(area) = name.strip_suffix('*') else { return cases.contains(name).then(|| vec![name]) };
    let of_area: Vec<&str> = cases.iter().copied().filter(|case| case.starts_with(area)).collect();
    (!of_area.is_empty()).then_some(of_area)
}

#[test]
fn every_paging_operation_is_named_with_what_holds_it() {
    let declared = std::fs::read_to_string(root().join("ddi/src/km/paging.rs")).expect("readable");
    let document = std::fs::read_to_string(root().join("docs/paging.md")).expect("readable");
    let declared = declared.lines().filter_map(|line| line.trim().strip_prefix("pub const DXGK_OPERATION_"));
    let declared: Vec<&str> = declared.filter_map(|line| line.split(':').next()).collect();
    assert!(declared.len() > 20, "{declared:?}");
    let (cases, mut named) = (cases(), Vec::new());
    for row in document.lines().filter(|line| line.starts_with("| `")) {
        let mut names = names(row).into_iter();
        let operation = names.next().expect("a row begins with its operation");
        assert!(declared.contains(&operation), "{operation} is declared nowhere");
        named.push(operation);
        let holders: Vec<&str> = names.collect();
        assert!(!holders.is_empty(), "nothing holds {operation}");
    }
    let missing: Vec<&&str> = declared.iter().filter(|operation| !named.contains(operation)).collect();
    assert!(missing.is_empty() && named.len() == declared.len(), "not in docs/paging.md once each: {missing:?}");
    let holders = names(&document).into_iter().filter(|name| !declared.contains(name));
    let wrong: Vec<&str> = holders.filter(|name| find(name, &cases).is_none()).collect();
    assert!(wrong.is_empty(), "named and not there: {wrong:#?}");
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    let cases = cases();
    for name in
        ["Doorbell.NoSuchCase", "NoSuchArea.*", "no/such/file.rs::a_test", "tests/conformance/main.rs::no_such_test"]
    {
        assert_eq!(find(name, &cases), None, "{name}");
    }
    assert_eq!(find("tests/conformance/main.rs::a_name_that_does_not_exist_is_found", &cases), Some(Vec::new()));
    assert!(find("Doorbell.*", &cases).is_some_and(|found| found.len() > 10));
    assert_eq!(names("| head | x |\n| --- | --- |\n| asked | `A.B`, `c::d` |\n"), ["A.B", "c::d"]);
}

#[test]
fn every_entry_point_of_the_driver_has_its_level_of_threading() {
    let read = |name: &str| std::fs::read_to_string(root().join("docs").join(name)).expect("readable");
    let (table, threading) = (read("ddi-table.md"), read("threading.md"));
    let is_name = |word: &&str| word.starts_with("DxgkDdi");
    let words = |cell: &str| cell.split([',', ' ']).filter(is_name).map(str::to_owned).collect::<Vec<_>>();
    let implemented = table.lines().filter(|line| line.contains("| implemented |"));
    let mut implemented: Vec<String> = implemented.filter_map(|line| line.split('|').nth(3)).flat_map(words).collect();
    let rows = threading.lines().filter(|line| line.starts_with("| DxgkDdi"));
    let mut named: Vec<String> = rows.filter_map(|line| line.split('|').nth(1)).flat_map(words).collect();
    implemented.sort_unstable();
    named.sort_unstable();
    assert!(implemented.len() > 60, "{implemented:?}");
    assert_eq!(named, implemented, "docs/threading.md against docs/ddi-table.md");
}

/// The slots that have a function in the one list of the driver's slots.
fn implemented() -> Vec<String> {
    let slots = std::fs::read_to_string(root().join("driver/src/slots.rs")).expect("readable");
    let rows = slots.lines().filter_map(|line| line.trim().split_once(" = "));
    let rows = rows.filter(|(slot, _)| slot.starts_with("DxgkDdi") && slot.contains(" by "));
    rows.filter_map(|(slot, _)| slot.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn every_entry_point_of_the_driver_says_what_tells_the_size_of_its_structures() {
    let document = std::fs::read_to_string(root().join("docs/structure-sizes.md")).expect("readable");
    let (cases, mut named) = (cases(), Vec::new());
    for row in document.lines().filter(|line| line.starts_with("| DxgkDdi")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let &[_, entry_points, kind, reason, holders, _] = &cells[..] else { panic!("{row}") };
        named.extend(entry_points.split(", ").map(str::to_owned));
        assert!(["size", "buffer", "grew", "fixed"].contains(&kind), "{row}");
        assert!(!reason.is_empty(), "no reason: {row}");
        let holders: Vec<&str> = holders.split('`').skip(1).step_by(2).collect();
        let is_held = !holders.is_empty() && holders.iter().all(|name| find(name, &cases).is_some());
        let has_size = ["size", "buffer"].contains(&kind);
        assert!(is_held == has_size, "what has a size is held by something that exists: {row}");
    }
    let mut implemented = implemented();
    implemented.sort_unstable();
    named.sort_unstable();
    assert!(implemented.len() > 60, "{implemented:?}");
    assert_eq!(named, implemented, "docs/structure-sizes.md against driver/src/slots.rs");
}
