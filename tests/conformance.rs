//! The list of what holds each statement of a page names cases and tests that exist, and leaves no case out.

use std::collections::HashSet;
use std::path::Path;

use campanile::hlk;

const PREFIX: &str = "Device.Graphics.WDDM32.";

/// What stands between backticks in tables.
fn names(document: &str) -> Vec<&str> {
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn native_fences_every_named_case_exists_and_every_case_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/conformance-native-fence.md")).expect("readable");
    let cases: HashSet<&str> = hlk::cases().filter_map(|case| case.name.strip_prefix(PREFIX)).collect();
    let (mut named, mut wrong) = (HashSet::new(), Vec::new());
    for name in names(&document) {
        let known = if let Some((file, function)) = name.split_once("::") {
            std::fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains(&format!("fn {function}(")))
        } else if let Some(area) = name.strip_suffix('*') {
            let of_area: Vec<&str> = cases.iter().copied().filter(|case| case.starts_with(area)).collect();
            named.extend(of_area.iter().copied());
            !of_area.is_empty()
        } else {
            named.insert(name);
            cases.contains(name)
        };
        if !known {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "named and not there: {wrong:#?}");
    let of_fences = |case: &&hlk::CaseInfo| case.area.contains("Fence") || case.page == "native-gpu-fence-objects";
    let missing: Vec<&str> = hlk::cases()
        .filter(of_fences)
        .filter_map(|case| case.name.strip_prefix(PREFIX))
        .filter(|case| !named.contains(case))
        .collect();
    assert!(missing.is_empty(), "cases that docs/conformance-native-fence.md does not name: {missing:#?}");
    assert!(named.len() > 80);
}
