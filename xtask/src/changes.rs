//! The map of CONTRIBUTING.md: where a change goes, by files that exist.

use std::path::Path;

/// Most files that a change touches by hand; a row with more says why.
const FILES_MAX: usize = 5;

/// The paths that a text names between backticks: what has a slash in it and no space.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|path| path.contains('/') && !path.contains(' '))
}

/// The folder of a path whose name stands for any, in capitals: `cases/AREA.rs`.
fn without_placeholder(path: &str) -> &str {
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    match path.rsplit_once('/') {
        Some((folder, name)) if !name.is_empty() && stem(name).chars().all(|c| c.is_ascii_uppercase()) => folder,
        _ => path,
    }
}

/// True if `path` is a file or folder of the repository, or the end of the path of one of `files`.
fn exists(root: &Path, files: &[String], path: &str) -> bool {
    let path = without_placeholder(path);
    root.join(path).exists() || files.iter().any(|file| file.ends_with(&format!("/{path}")))
}

#[test]
fn every_file_that_the_map_names_exists() {
    let root = crate::root();
    let files: Vec<String> = crate::hygiene::files(&root)
        .iter()
        .filter_map(|path| Some(path.strip_prefix(&root).ok()?.to_string_lossy().into_owned()))
        .collect();
    let text = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read");
    let missing: Vec<&str> = paths(&text).filter(|path| !exists(&root, &files, path)).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md names what does not exist: {missing:?}");
}

#[test]
fn a_change_touches_few_files_or_the_map_says_why() {
    let text = std::fs::read_to_string(crate::root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| a")).collect();
    assert!(rows.len() >= 20, "the map has {} rows", rows.len());
    for row in rows {
        // A file in parentheses belongs to the one before: it is touched in its place, or generated.
        let mut depth = 0_i32;
        let outside: String = row
            .chars()
            .filter(|c| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth == 0
            })
            .collect();
        let count = paths(&outside).count();
        assert!(count <= FILES_MAX || row.contains("because"), "{count} files and no reason: {row}");
    }
}

#[test]
fn placeholders_stand_for_a_file_of_their_folder() {
    assert_eq!(without_placeholder("conformance/src/cases/AREA.rs"), "conformance/src/cases");
    assert_eq!(without_placeholder("device/src/gpu.rs"), "device/src/gpu.rs");
    assert_eq!(without_placeholder("docs/"), "docs/");
    assert_eq!(paths("a `x/y.rs` b `cargo xtask docs` c `z`").collect::<Vec<_>>(), ["x/y.rs"]);
}
