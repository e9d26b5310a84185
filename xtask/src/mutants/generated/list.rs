//! The changes that cargo-mutants thinks of, and the list of those that no test notices, `tests/generated_mutants.toml`.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// Where a change is: lines and columns from 1, the end not included.
#[derive(Clone, Debug, Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

#[derive(Clone, Debug, Deserialize)]
struct Function {
    return_type: String,
}

/// One change, as `cargo mutants --list --json` has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Generated {
    /// File, place, and the change in words.
    pub(super) name: String,
    pub(super) file: String,
    package: String,
    function: Option<Function>,
    span: Span,
    pub(super) replacement: String,
}

impl Generated {
    /// Range of what is replaced in the text of its file.
    pub(super) fn place(&self, text: &str) -> Option<Range<usize>> {
        let at = |position: Position| {
            let start = text.split_inclusive('\n').take(position.line.checked_sub(1)?).map(str::len).sum::<usize>();
            let line = text.get(start..)?;
            let column = line.char_indices().nth(position.column.checked_sub(1)?).map_or(line.len(), |(at, _)| at);
            Some(start + column)
        };
        Some(at(self.span.start)?..at(self.span.end)?)
    }

    /// True if the function that it is in returns a type without a name.
    pub(super) fn returns_hidden_type(&self) -> bool {
        self.function.as_ref().is_some_and(|function| function.return_type.contains("impl "))
    }

    /// The change in words, without its place.
    fn change(&self) -> &str {
        self.name.splitn(4, ':').nth(3).unwrap_or(&self.name).trim()
    }

    /// Files that are counted together.
    pub(super) fn group(&self) -> &str {
        if self.file.starts_with(ISA) { "hw/src/isa" } else { self.file.split('/').next().unwrap_or_default() }
    }

    /// True if conformance cases judge what the package's own tests let live: what driver and GPU do is done between DDIs and registers.
    pub(super) fn is_judged_by_cases(&self) -> bool {
        ["device", "driver"].contains(&self.group())
    }

    /// Packages whose tests are to notice: its own, and for the instruction set those that read and run programs.
    pub(super) fn test_packages(&self) -> Vec<&str> {
        let of_isa: &[&str] = if self.file.starts_with(ISA) { &["campanile-isa", "campanile-shader"] } else { &[] };
        [self.package.as_str()].into_iter().chain(of_isa.iter().copied()).collect()
    }
}

const ISA: &str = "hw/src/isa/";

/// All changes of the files that `.cargo/mutants.toml` names. Installs cargo-mutants where it is missing.
pub(super) fn generated(root: &Path) -> Result<Vec<Generated>, String> {
    let cargo = |args: &[&str]| {
        let output = Command::new("cargo").args(args).current_dir(root).output();
        output.map_err(|error| format!("cargo does not start: {error}"))
    };
    if !cargo(&["mutants", "--version"])?.status.success() {
        eprintln!("installing cargo-mutants");
        let installed = cargo(&["install", "cargo-mutants", "--version", "27.1.0", "--locked"])?;
        if !installed.status.success() {
            return Err(format!("cargo-mutants: {}", String::from_utf8_lossy(&installed.stderr)));
        }
    }
    let output = cargo(&["mutants", "--workspace", "--list", "--json"])?;
    if !output.status.success() {
        return Err(format!("cargo mutants: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo mutants --list: {error}"))
}

/// A change that no test notices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alive {
    file: String,
    /// As cargo-mutants says it, without the place.
    change: String,
    /// Number of such changes in the function.
    #[serde(default = "once")]
    pub(super) times: u32,
    /// True if the changed code behaves as before.
    #[serde(default)]
    pub(super) equivalent: bool,
    /// The reason why no test notices.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers"))]
    reason: String,
}

fn once() -> u32 {
    1
}

impl Alive {
    pub(super) fn is_of(&self, mutant: &Generated) -> bool {
        self.file == mutant.file && self.change == mutant.change()
    }
}

/// The entries of the list that are of no change, or of fewer than they say. `all` are the changes of all files.
pub(super) fn stale(list: &[Alive], all: &[Generated]) -> Vec<String> {
    let number = |alive: &Alive| all.iter().filter(|mutant| alive.is_of(mutant)).count();
    let fewer = list.iter().filter(|alive| number(alive) < alive.times as usize);
    fewer
        .map(|alive| {
            format!("{}: {}: listed {} times, there are {}", alive.file, alive.change, alive.times, number(alive))
        })
        .collect()
}

/// The list.
pub(super) fn alive(root: &Path) -> Result<Vec<Alive>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        alive: Vec<Alive>,
    }
    let path = root.join("tests/generated_mutants.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: File = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(file.alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_name_functions_that_exist_and_give_a_reason() {
        let root = crate::root();
        for alive in alive(&root).unwrap() {
            let Alive { file, change, reason, times, .. } = &alive;
            // Such as `replace + with - in Type::function`, or `replace <impl Trait for Type>::function -> u32 with 0`.
            let whole = || change.strip_prefix("replace ")?.split(" -> ").next()?.split(" with ").next();
            let function = change.split(" in ").nth(1).or_else(whole).unwrap_or_default();
            let text = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let name = function.rsplit("::").next().unwrap_or(function);
            let exists = text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"));
            assert!(exists, "{file} has no function {function}");
            assert!(reason.ends_with('.') && *times > 0, "{file}: {change}");
        }
    }

    fn mutant(line: usize, column: usize, end: usize) -> Generated {
        Generated {
            name: format!("a.rs:{line}:{column}: replace x with y in f"),
            file: "hw/src/isa/a.rs".into(),
            package: "p".into(),
            function: None,
            span: Span { start: Position { line, column }, end: Position { line, column: end } },
            replacement: String::new(),
        }
    }

    #[test]
    fn entries_that_outlived_their_change_are_named() {
        let all = [mutant(1, 1, 2), mutant(2, 1, 2)];
        let entry = |change: &str, times| Alive {
            file: "hw/src/isa/a.rs".into(),
            change: change.into(),
            times,
            equivalent: true,
            reason: "Why.".into(),
        };
        let list =
            [entry("replace x with y in f", 2), entry("replace x with y in f", 3), entry("replace x with z in f", 1)];
        let named = stale(&list, &all);
        assert_eq!(named.len(), 2, "{named:?}");
        assert!(named[0].contains("listed 3 times, there are 2") && named[1].contains("x with z"), "{named:?}");
        assert_eq!(stale(&[Alive { file: "hw/src/b.rs".into(), ..entry("replace x with y in f", 1) }], &all).len(), 1);
    }

    #[test]
    fn places_are_found_by_line_and_column() {
        let text = "one\n·two three\n";
        assert_eq!(mutant(2, 2, 5).place(text).map(|place| &text[place]), Some("two"));
        assert_eq!(mutant(1, 1, 4).place(text).map(|place| &text[place]), Some("one"));
        assert_eq!(mutant(2, 2, 5).change(), "replace x with y in f");
        assert_eq!(mutant(2, 2, 5).group(), "hw/src/isa");
    }
}
