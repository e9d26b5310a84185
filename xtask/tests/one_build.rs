//! The program is compiled once, for its users and for its tests: no crate of it has more features when dependencies of tests are there. So the suites of the
//! release build prove that the program compiles alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Crates and their features, a line each.
fn resolved(edges: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args(["tree", "--package", "campanile", "--edges", edges]);
    command.args(["--prefix", "none", "--no-dedupe", "--format", "{p} {f}"]);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn tests_ask_for_no_feature_of_a_crate_that_the_program_does_not_ask_for() {
    let (program, with_tests) = (resolved("normal,build"), resolved("normal,build,dev"));
    assert!(program.len() > 100 && with_tests.len() > program.len(), "{} and {}", program.len(), with_tests.len());
    let differing: Vec<_> = program.difference(&with_tests).collect();
    assert!(
        differing.is_empty(),
        "with the dependencies of tests these have other features, and are compiled twice; ask for the same in Cargo.toml's workspace.dependencies: {differing:#?}"
    );
}
