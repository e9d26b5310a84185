//! Checks for text and files that the repository must not contain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files under version control, and new ones that are not ignored.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "this is no git repository");
    let names = String::from_utf8(output.stdout).expect("names of files are UTF-8");
    names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name)).collect()
}

/// Sources with their text; files that vanished in the meantime are left out.
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    files(root)
        .into_iter()
        .filter(rust)
        .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
        .collect()
}

/// True if `line` names an absolute path below one of the folders where people and build machines work.
fn names_a_machine(line: &str) -> bool {
    ["work", "root", "farm", "opt"].iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '}')))
        })
    })
}

#[test]
fn nothing_is_left_to_do_and_no_test_is_ignored() {
    // Written so that this file does not contain what it looks for.
    let forbidden = [concat!("to", "do!("), concat!("un", "implemented!("), concat!("#[", "ignore")];
    for (path, text) in sources(&crate::root()) {
        for (number, line) in text.lines().enumerate() {
            let found = forbidden.iter().find(|word| line.contains(*word));
            assert!(found.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn no_certificate_and_no_key_is_under_version_control() {
    // Written so that this file does not contain what it looks for.
    let opening = concat!("-----", "BEGIN");
    for path in files(&crate::root()) {
        let kind = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        assert!(!["cer", "crt", "key", "pem", "pfx", "p12"].contains(&kind.as_str()), "{}", path.display());
        let text = fs::read(&path).unwrap_or_default();
        assert!(!text.windows(opening.len()).any(|bytes| bytes == opening.as_bytes()), "{}", path.display());
    }
}

#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    for path in files(&crate::root()) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            assert!(!names_a_machine(line), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn machine_paths_are_told_from_others() {
    for folder in ["work", "root"] {
        assert!(names_a_machine(&format!("see /{folder}/file")));
        assert!(names_a_machine(&format!("\"/{folder}/file\"")));
        assert!(!names_a_machine(&format!("docs/{folder}/file")));
        assert!(!names_a_machine(&format!("./{folder}/file")));
    }
}
