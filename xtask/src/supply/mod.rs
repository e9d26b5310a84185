//! Where the crates come from, under which licence, and what is in the package: `cargo xtask deny`, and the bill of materials.

mod audit;
pub(crate) mod bill;
mod graph;
mod rules;

use std::path::Path;
use std::process::Command;

/// The version of cargo-deny that is installed where there is none.
const CARGO_DENY: &str = "0.20.2";

/// Holds the crates against `deny.toml` and the list of unsafe code, then has cargo-deny do its part, which knows the advisories. It is installed into
/// `target/cargo-deny` if need be.
///
/// # Errors
/// What does not hold; that the advisories could not be looked at, among it.
pub(crate) fn deny(root: &Path) -> Result<(), String> {
    let findings = findings(root)?;
    if !findings.is_empty() {
        return Err(findings.join("\n"));
    }
    println!("licences, duplicates, sources and the list of unsafe code hold");
    let tools = root.join("target").join("cargo-deny");
    let program = tools.join("bin").join("cargo-deny");
    if !program.exists() {
        println!("installing cargo-deny {CARGO_DENY}, which takes minutes");
        let mut install = cargo();
        install.args(["install", "--locked", "--version", CARGO_DENY, "cargo-deny", "--root"]).arg(&tools);
        run(install.current_dir(root)).map_err(|error| format!("cargo-deny was not installed: {error}"))?;
    }
    let check = |what: &[&str]| run(Command::new(&program).current_dir(root).args(["check"]).args(what));
    check(&["licenses", "bans", "sources"]).map_err(|error| format!("cargo-deny: {error}"))?;
    check(&["advisories"]).map_err(|error| {
        format!(
            "ADVISORIES NOT HELD: {error}. Either a crate has an advisory, which is named above, or the advisory database could not be fetched, and then nobody \
             has looked whether one has"
        )
    })
}

/// Findings of the checks that need no other program.
fn findings(root: &Path) -> Result<Vec<String>, String> {
    let every = graph::Graph::read(root, None)?;
    let deny = rules::Deny::read(&root.join("deny.toml"))?;
    let mut findings = deny.findings(&every);
    findings.extend(audit::findings(root, &every)?);
    Ok(findings)
}

fn cargo() -> Command {
    Command::new(env!("CARGO"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_duplicates_sources_and_the_list_of_unsafe_code_hold() {
        assert_eq!(findings(&crate::root()), Ok(Vec::new()));
    }
}
