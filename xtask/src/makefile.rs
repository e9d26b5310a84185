//! What `Makefile.toml` promises: tasks that exist, commands that exist, and no Windows tool where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use clap::CommandFactory;
use toml::{Table, Value};

/// Programs of the Windows kits.
const KIT_TOOLS: [&str; 6] = ["stampinf", "infverif", "inf2cat", "makecert", "certmgr", "signtool"];

/// Words that only make sense on Windows, besides the tools.
const WINDOWS_WORDS: [&str; 4] = ["powershell", "cmd", "copy", "xcopy"];

struct Makefile {
    tasks: BTreeMap<String, Table>,
    env: Table,
    text: String,
}

fn makefile() -> Makefile {
    let text = fs::read_to_string(crate::root().join("Makefile.toml")).expect("the file is there");
    let mut table: Table = text.parse().expect("the file is TOML");
    let tasks = table.remove("tasks").expect("there are tasks");
    let tasks = tasks.as_table().expect("tasks are a table").iter();
    let tasks = tasks.map(|(name, task)| (name.clone(), task.as_table().expect("a task is a table").clone())).collect();
    let env = table.remove("env").and_then(|env| env.as_table().cloned()).unwrap_or_default();
    Makefile { tasks, env, text }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(values)) => values.iter().map(|value| value.as_str().expect("a text").to_owned()).collect(),
        Some(other) => panic!("neither a text nor a list: {other:?}"),
    }
}

/// Every task that a task leads to.
fn leads_to(task: &Table) -> Vec<String> {
    let keys = ["dependencies", "alias", "windows_alias", "linux_alias", "mac_alias", "run_task", "extend"];
    keys.iter().flat_map(|key| strings(task.get(*key))).collect()
}

/// The command line of a task, if it has one.
fn command(task: &Table) -> Option<Vec<String>> {
    let program = task.get("command")?.as_str().expect("a command is a text").to_owned();
    Some([vec![program], strings(task.get("args"))].concat())
}

/// Systems on which a task runs.
fn platforms(task: &Table) -> Vec<String> {
    strings(task.get("condition").and_then(|condition| condition.get("platforms")))
}

/// All words of a task's command or script, lines of comment left out.
fn words(task: &Table) -> BTreeSet<String> {
    let script = strings(task.get("script")).join("\n");
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned);
    let texts = lines.chain(command(task).into_iter().flatten());
    let split = |text: String| {
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_lowercase);
        words.collect::<Vec<_>>()
    };
    texts.flat_map(split).collect()
}

/// The value after an option.
fn option<'a>(line: &'a [String], name: &str) -> Option<&'a str> {
    line.iter().position(|word| word == name).and_then(|at| line.get(at + 1)).map(String::as_str)
}

#[test]
fn every_task_that_is_named_exists_and_does_something() {
    let Makefile { tasks, .. } = makefile();
    for (name, task) in &tasks {
        for other in leads_to(task) {
            assert!(tasks.contains_key(&other), "{name} leads to {other}, which does not exist");
        }
        let acts = task.contains_key("command") || task.contains_key("script") || !leads_to(task).is_empty();
        assert!(acts, "{name} does nothing");
        assert!(name == "default" || !platforms(task).is_empty(), "{name} does not say where it runs");
        assert!(task.get("description").is_some_and(Value::is_str), "{name} does not say what it does");
    }
}

#[test]
fn no_task_leads_to_itself() {
    let Makefile { tasks, .. } = makefile();
    for start in tasks.keys() {
        let (mut next, mut seen) = (leads_to(&tasks[start]), BTreeSet::new());
        while let Some(name) = next.pop() {
            assert_ne!(&name, start, "{start} leads to itself");
            if seen.insert(name.clone()) {
                next.extend(leads_to(&tasks[&name]));
            }
        }
    }
}

#[test]
fn every_xtask_package_feature_and_profile_that_is_named_exists() {
    let known = crate::Arguments::command();
    let known: BTreeSet<&str> = known.get_subcommands().map(clap::Command::get_name).collect();
    let workspace: Table = read("Cargo.toml").parse().expect("the manifest is TOML");
    let mut xtasks = 0;
    for (name, task) in &makefile().tasks {
        let Some(line) = command(task).filter(|line| line[0] == "cargo") else { continue };
        if line[1] == "xtask" {
            xtasks += 1;
            assert!(known.contains(line[2].as_str()), "{name} calls `cargo xtask {}`, which does not exist", line[2]);
            continue;
        }
        if let Some(profile) = option(&line, "--profile") {
            assert!(workspace["profile"].get(profile).is_some(), "{name} names the profile {profile}");
        }
        let package = option(&line, "--package").expect("a build names its package");
        let folder = workspace["workspace"]["dependencies"][package]["path"].as_str().expect("the package is ours");
        let manifest: Table = read(&format!("{folder}/Cargo.toml")).parse().expect("the manifest is TOML");
        if let Some(feature) = option(&line, "--features") {
            assert!(manifest["features"].get(feature).is_some(), "{name} asks {package} for the feature {feature}");
        }
    }
    assert!(xtasks >= 2, "the Linux tasks call xtasks");
}

#[test]
fn tasks_of_linux_need_nothing_of_windows_and_the_other_way_round() {
    let Makefile { tasks, .. } = makefile();
    let linux = |name: &String| platforms(&tasks[name]).iter().any(|platform| platform == "linux");
    for (name, task) in tasks.iter().filter(|(name, _)| *name != "default") {
        let platforms = platforms(task);
        assert_eq!(platforms.len(), 1, "{name} runs on {platforms:?}");
        assert!(matches!(platforms[0].as_str(), "linux" | "windows"), "{name} runs on {platforms:?}");
        for other in leads_to(task) {
            assert_eq!(linux(&other), linux(name), "{name} leads to {other} on another system");
        }
        let words = words(task);
        let foreign = KIT_TOOLS.iter().chain(&WINDOWS_WORDS).find(|word| words.contains(**word));
        assert!(!linux(name) || foreign.is_none(), "{name} runs on Linux and uses {foreign:?}");
        assert!(linux(name) || !words.contains("xtask"), "{name} runs on Windows, where the xtasks do not");
    }
    let default = &tasks["default"];
    assert!(linux(&strings(default.get("linux_alias"))[0]) && !linux(&strings(default.get("windows_alias"))[0]));
}

#[test]
fn every_tool_of_the_kit_is_looked_for_before_it_is_used() {
    let Makefile { tasks, .. } = makefile();
    let looked_for = words(&tasks["kit-tools"]);
    for (name, task) in &tasks {
        for tool in KIT_TOOLS.iter().filter(|tool| words(task).contains(**tool)) {
            assert!(looked_for.contains(*tool), "{name} uses {tool}, which kit-tools does not look for");
            let (mut next, mut found) = (vec![name.clone()], false);
            while let Some(task) = next.pop() {
                found |= task == "kit-tools";
                next.extend(leads_to(&tasks[&task]));
            }
            assert!(found, "{name} uses {tool} without depending on kit-tools");
        }
    }
}

#[test]
fn the_package_has_what_the_inf_copies_and_the_symbols() {
    let Makefile { tasks, env, text } = makefile();
    let collect = strings(tasks["collect"].get("script")).join("\n");
    let inf = read("inf/campanile.inx");
    let section = |name: &str| -> Vec<String> {
        let (_, rest) = inf.split_once(&format!("[{name}]\n")).unwrap_or_else(|| panic!("no section {name}"));
        let lines = rest.lines().take_while(|line| !line.starts_with('['));
        lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';')).map(str::to_owned).collect()
    };
    let copied = section("Campanile.Files");
    assert_eq!(copied, ["campanile_kmd.sys", "campanile_umd.dll", "campanile_vulkan.dll", "campanile_vulkan.json"]);
    let listed: Vec<String> = section("SourceDisksFiles").iter().map(|line| line.replace(" = 1", "")).collect();
    assert_eq!(listed, copied);
    let pdbs = ["campanile_kmd.pdb", "campanile_umd.pdb", "campanile_vulkan.pdb"];
    let besides = pdbs.into_iter().chain(["campanile.inf", campanile_inf::package::PROGRAM]);
    for file in copied.iter().map(String::as_str).chain(besides).chain(campanile_inf::package::SCRIPTS) {
        assert!(collect.contains(&format!("${{PACKAGE}}/{file}")), "the package lacks {file}");
    }
    assert!(collect.contains("cp inf/campanile.inx "));
    assert!(inf.contains("CatalogFile = campanile.cat") && text.contains("\"campanile.cat\""));

    use campanile_hw::pci::{DEVICE_ID, REVISION_ID, SUBSYSTEM_ID, SUBSYSTEM_VENDOR_ID, VENDOR_ID};
    let short = format!(r"PCI\VEN_{VENDOR_ID:04X}&DEV_{DEVICE_ID:04X}");
    let long = format!("{short}&SUBSYS_{SUBSYSTEM_ID:04X}{SUBSYSTEM_VENDOR_ID:04X}&REV_{REVISION_ID:02X}");
    let names: Vec<String> = section("Models.NT$ARCH$.10.0...26100")
        .iter()
        .filter_map(|line| Some(line.rsplit_once(", ")?.1.into()))
        .collect();
    assert_eq!(names, [long, short]);

    let workspace: Table = read("Cargo.toml").parse().expect("the manifest is TOML");
    let version = workspace["workspace"]["package"]["version"].as_str().expect("the workspace has a version");
    let driver = campanile_inf::resource::driver_version(version).expect("it makes a driver version");
    assert_eq!(env["DRIVER_VERSION"].as_str(), Some(driver.map(|field| field.to_string()).join(".").as_str()));
}

fn read(path: &str) -> String {
    fs::read_to_string(crate::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
