//! What the workflows in `.github/workflows` promise: commands, tasks and files that exist, and nothing that actionlint finds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use toml::Table;

const WORKFLOWS: [&str; 2] = [".github/workflows/linux.yml", ".github/workflows/windows.yml"];

fn read(path: &str) -> String {
    fs::read_to_string(crate::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What actionlint finds in a file; `None` without actionlint, which in CI is a failure.
fn findings(file: &str) -> Option<String> {
    let root = crate::root();
    let folder = root.join("target/actionlint");
    let fetched = crate::setup::actionlint(&root);
    if let Err(missing) = fetched {
        crate::setup::not_checked(&missing);
        return None;
    }
    let mut node = Command::new("node");
    // Once is too little to compile the whole of actionlint with every optimisation.
    node.current_dir(&root).arg("--liftoff-only").arg("tests/actionlint/check.cjs").arg(folder).arg(file);
    let output = node.output().expect("node starts");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "actionlint did not read {file}: {text}");
    assert_eq!(output.status.code() == Some(1), !text.is_empty(), "{text}");
    Some(text)
}

#[test]
fn actionlint_finds_nothing_in_the_workflows() {
    // One after the other in one test: the first downloads actionlint.
    for file in WORKFLOWS {
        let Some(found) = findings(file) else { return };
        assert_eq!(found, "", "{file}");
    }
    // The control: a runner and a key that do not exist.
    let text = read(WORKFLOWS[1]).replace("windows-2025", "windows-1995").replace("        run: |", "        runs: |");
    let path = Path::new(&std::env::temp_dir()).join(format!("campanile-workflow-{}.yml", std::process::id()));
    fs::write(&path, text).expect("the folder for temporary files can be written");
    let found = findings(&path.to_string_lossy()).expect("actionlint is there");
    fs::remove_file(&path).expect("the file is ours");
    assert!(found.contains("windows-1995") && found.contains("\"runs\""), "{found}");
}

#[test]
fn the_first_line_of_each_workflow_says_that_nobody_has_run_it() {
    let folder = fs::read_dir(crate::root().join(".github/workflows")).expect("there are workflows");
    let files: BTreeSet<String> =
        folder.map(|entry| format!(".github/workflows/{}", entry.unwrap().file_name().to_string_lossy())).collect();
    assert_eq!(files, WORKFLOWS.map(str::to_owned).into());
    for file in WORKFLOWS {
        assert!(read(file).starts_with("# Not yet run by anyone: "), "{file}");
    }
}

#[test]
fn the_workflow_of_linux_runs_the_test_command_of_the_readme() {
    let readme = read("README.md");
    let (_, after) = readme.split_once("```sh\ncargo xtask test\n```").expect("the README has a command for all tests");
    assert!(after.trim_start().starts_with("runs every test"));
    assert!(read(WORKFLOWS[0]).contains("        run: cargo xtask test\n"));
}

#[test]
fn the_workflow_of_windows_names_tasks_files_and_functions_that_exist() {
    let makefile: Table = read("Makefile.toml").parse().expect("the file is TOML");
    let workflow = read(WORKFLOWS[1]);
    let tasks: Vec<&str> =
        workflow.split("cargo make ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(tasks, ["package", "verify"]);
    for task in tasks {
        assert!(makefile["tasks"].get(task).is_some(), "there is no task {task}");
    }
    let certificate = format!("{}.cer", makefile["env"]["CERTIFICATE_NAME"].as_str().expect("it has a name"));
    let package = campanile_inf::package::names();
    let files: Vec<&str> = workflow
        .split("target\\package\\")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || "._".contains(c))).next())
        .collect();
    for file in &files {
        assert!(package.contains(*file) || *file == certificate, "{file} is not in the package");
    }
    for file in [certificate.as_str(), "campanile.inf", "campanile_umd.dll", "hlk.exe", "verify.ps1"] {
        assert!(files.contains(&file), "the workflow does nothing with {file}");
    }
    let header = read("umd/include/campanile.h");
    assert!(workflow.contains("'campanile_adapter_open'") && header.contains("campanile_adapter_open("));
    // The version of Rust is the oldest that the workspace takes.
    let manifest: Table = read("Cargo.toml").parse().expect("the manifest is TOML");
    let rust = manifest["workspace"]["package"]["rust-version"].as_str().expect("it has a version");
    assert!(workflow.contains(&format!("rustup toolchain install {rust} ")), "{rust}");
    assert!(read(WORKFLOWS[0]).contains(&format!("image: rust:{rust}-")), "{rust}");
}
