//! Building every test once, and learning from cargo which executables came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// One test executable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) executable: PathBuf,
    /// Folder of the package, where cargo runs tests.
    pub(super) folder: PathBuf,
}

/// Result of a build.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) suites: Vec<Suite>,
    /// Programs that are no tests, by name.
    pub(super) programs: BTreeMap<String, PathBuf>,
    /// Targets that do not compile.
    pub(super) broken: BTreeSet<String>,
    /// Cargo says that everything was built.
    pub(super) finished: bool,
}

/// Runs a cargo command with `--message-format=json`, showing the compiler's messages as they come.
///
/// # Errors
/// A sentence if cargo does not start.
pub(super) fn build(mut command: Command) -> Result<Built, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cargo does not start: {error}"))?;
    let stdout = child.stdout.take().ok_or("cargo has no output")?;
    let mut built = Built::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            built.message(&message);
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    built.finished &= status.success();
    built.suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(built)
}

impl Built {
    fn message(&mut self, message: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let folder = Path::new(message["manifest_path"].as_str().unwrap_or_default()).parent().map(Path::to_path_buf);
        let target = &message["target"];
        let name = || {
            let package = package_name(message["package_id"].as_str().unwrap_or_default());
            match text(&target["kind"][0]).as_str() {
                "lib" | "rlib" | "cdylib" | "staticlib" | "proc-macro" => format!("{package}: unit tests"),
                kind => format!("{package}: {kind} {}", text(&target["name"])),
            }
        };
        match message["reason"].as_str() {
            Some("compiler-message") => {
                eprint!("{}", text(&message["message"]["rendered"]));
                if message["message"]["level"] == "error" {
                    self.broken.insert(name());
                }
            }
            Some("compiler-artifact") => {
                let is_test = message["profile"]["test"] == true;
                match (message["executable"].as_str(), &folder) {
                    (Some(executable), Some(folder)) if is_test => {
                        let suite = Suite { name: name(), executable: executable.into(), folder: folder.clone() };
                        self.suites.push(suite);
                    }
                    (Some(executable), _) if target["kind"][0] == "bin" => {
                        self.programs.insert(text(&target["name"]), executable.into());
                    }
                    _ => {}
                }
            }
            Some("build-finished") => self.finished = message["success"] == true,
            _ => {}
        }
    }
}

/// The name in `path+file:///house/hw#campanile-hw@0.1.0`, or in `path+file:///house/dxgkrnl#0.1.0`.
fn package_name(id: &str) -> &str {
    let (path, rest) = id.rsplit_once('#').unwrap_or(("", id));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn test_executables_are_suites_and_others_programs() {
        let mut built = Built::default();
        let artifact = |test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact", "package_id": "path+file:///house/hw#0.1.0", "manifest_path": "/house/hw/Cargo.toml", "executable": executable,
                "target": { "kind": ["test"], "name": "ring" }, "profile": { "test": test },
            })
        };
        built.message(&artifact(true, json!("/house/target/ring-1")));
        built.message(&artifact(false, json!("/house/target/ring")));
        built.message(&json!({
            "reason": "compiler-artifact", "package_id": "path+file:///house#house@0.1.0", "manifest_path": "/house/Cargo.toml", "executable": "/house/target/house",
            "target": { "kind": ["bin"], "name": "house" }, "profile": { "test": false },
        }));
        built.message(&artifact(true, Value::Null));
        let suite = Suite {
            name: "hw: test ring".into(),
            executable: "/house/target/ring-1".into(),
            folder: "/house/hw".into(),
        };
        assert_eq!(built.suites, [suite]);
        assert_eq!(built.programs, BTreeMap::from([("house".into(), "/house/target/house".into())]));
    }

    #[test]
    fn an_error_names_the_target_that_does_not_compile() {
        let mut built = Built::default();
        for level in ["warning", "error", "error"] {
            built.message(&json!({
                "reason": "compiler-message", "package_id": "path+file:///house/driver#campanile_kmd@0.1.0", "manifest_path": "/house/driver/Cargo.toml",
                "target": { "kind": ["lib"], "name": "campanile_kmd" }, "message": { "level": level, "rendered": "" },
            }));
        }
        built.message(&json!({ "reason": "build-finished", "success": false }));
        assert_eq!(built.broken.iter().collect::<Vec<_>>(), ["campanile_kmd: unit tests"]);
        assert!(!built.finished);
    }
}
