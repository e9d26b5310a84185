//! The copy of the sources in which mutants live, `target/mutants/tree`, and the program built from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::catalogue::Mutant;
use super::schemata::{self, CHOOSER, MAIN, MODULE};

/// The sources as they are, and where their copies are kept.
pub(super) struct Sources {
    root: PathBuf,
    files: Vec<String>,
}

/// The result of building tests.
pub(super) struct Built {
    /// The copy that was built.
    pub(super) tree: PathBuf,
    pub(super) compiles: bool,
    /// cargo's messages as lines of JSON, the compiler's errors among them.
    pub(super) messages: Vec<u8>,
    /// cargo's standard error.
    pub(super) errors: Vec<u8>,
}

impl Sources {
    /// The files under version control, and new ones that are not ignored.
    pub(super) fn of(root: &Path) -> Result<Self, String> {
        let list = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
        let output = Command::new("git").args(list).current_dir(root).output();
        let output = output.map_err(|error| format!("git does not start: {error}"))?;
        let names = String::from_utf8(output.stdout).map_err(|_| "names of files are not UTF-8".to_owned())?;
        let files: Vec<String> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if !output.status.success() || files.is_empty() {
            return Err(format!("{} is no git repository", root.display()));
        }
        Ok(Self { root: root.to_path_buf(), files })
    }

    fn folder(&self) -> PathBuf {
        self.root.join("target/mutants")
    }

    /// The text of a file.
    pub(super) fn text(&self, file: &str) -> Result<String, String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The program with all of `mutants`, each under its number.
    pub(super) fn with_all(&self, mutants: &[(u32, &Mutant)]) -> Result<PathBuf, String> {
        let mut changed = BTreeMap::new();
        let mut of_files: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
        for (number, mutant) in mutants {
            of_files.entry(&mutant.file).or_default().push((*number, mutant));
        }
        for (file, mutants) in of_files {
            let package = file.split('/').next().unwrap_or_default();
            changed.insert(file.to_owned(), schemata::rewrite(&self.text(file)?, package, &mutants)?);
        }
        let (library, module) = MODULE;
        let text = changed.remove(library).map_or_else(|| self.text(library), Ok)?;
        changed.insert(library.to_owned(), text + "\npub mod mutant;\n");
        changed.insert(module.to_owned(), CHOOSER.to_owned());
        changed.insert(MAIN.to_owned(), schemata::main_program());
        self.build(&changed, "all")
    }

    /// The program with one mutant and no choice.
    pub(super) fn with_one(&self, mutant: &Mutant) -> Result<PathBuf, String> {
        let text = self.text(&mutant.file)?;
        let place = mutant.place(&text)?;
        let text = [&text[..place.start], &mutant.replace, &text[place.end..]].concat();
        self.build(&BTreeMap::from([(mutant.file.clone(), text)]), "one")
    }

    /// The copy.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder().join("tree")
    }

    /// Builds the tests of `packages` with some files `changed`. `unstable` is the crate that may use what is not stable.
    pub(super) fn tests(
        &self,
        changed: &BTreeMap<String, String>,
        packages: &BTreeSet<String>,
        unstable: &str,
    ) -> Result<Built, String> {
        let tree = self.tree();
        self.copy(changed, &tree).map_err(|error| format!("{}: {error}", tree.display()))?;
        let mut command = self.cargo("tests");
        command.env("RUSTC_BOOTSTRAP", unstable);
        command.args(["test", "--no-run", "--message-format=json", "--lib", "--tests"]);
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
        Ok(Built { tree, compiles: output.status.success(), messages: output.stdout, errors: output.stderr })
    }

    /// The command `campanile` of the sources that [`Self::tests`] built last, which has the same mutants.
    ///
    /// # Errors
    /// It does not compile.
    pub(super) fn command_of_tests(&self, unstable: &str) -> Result<PathBuf, String> {
        let mut command = self.cargo("tests");
        command.env("RUSTC_BOOTSTRAP", unstable);
        command.args(["build", "--quiet", "--package", "campanile", "--bin", "campanile"]);
        let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("campanile does not compile: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(self.folder().join("tests/debug/campanile"))
    }

    /// cargo in the copy, with a target folder of its own.
    fn cargo(&self, target: &str) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.tree()).env("CARGO_TARGET_DIR", self.folder().join(target));
        // Functions that nothing calls any more are no news here, and nobody looks at places in mutants with a debugger.
        command.env("RUSTFLAGS", "--cap-lints=allow").args(["--config", "profile.dev.debug=false"]);
        command
    }

    /// Copies the sources with some files `changed`, builds, and returns where the program is kept under `name`.
    fn build(&self, changed: &BTreeMap<String, String>, name: &str) -> Result<PathBuf, String> {
        let tree = self.tree();
        self.copy(changed, &tree).map_err(|error| format!("{}: {error}", tree.display()))?;
        let mut command = self.cargo("build");
        command.args(["build", "--quiet", "--package", "campanile", "--bin", "campanile"]);
        let status =
            command.stdout(Stdio::null()).status().map_err(|error| format!("cargo does not start: {error}"))?;
        if !status.success() {
            return Err(format!("the mutants do not compile; their sources are in {}", tree.display()));
        }
        let program = self.folder().join(name);
        let built = self.folder().join("build/debug/campanile");
        // One that still runs cannot be written, but removed.
        let _ = fs::remove_file(&program);
        fs::copy(&built, &program).map_err(|error| format!("{}: {error}", built.display()))?;
        Ok(program)
    }

    /// Brings `tree` up to date, touching only what differs: cargo goes by times.
    fn copy(&self, changed: &BTreeMap<String, String>, tree: &Path) -> std::io::Result<()> {
        let mut kept: BTreeSet<PathBuf> = BTreeSet::new();
        let originals = self.files.iter().filter(|file| !changed.contains_key(*file));
        for file in originals {
            let path = tree.join(file);
            // A file that git knows may be gone, or be a link to nothing.
            let Ok(bytes) = fs::read(self.root.join(file)) else { continue };
            write_if_new(&path, &bytes)?;
            kept.insert(path);
        }
        for (file, text) in changed {
            let path = tree.join(file);
            write_if_new(&path, text.as_bytes())?;
            kept.insert(path);
        }
        remove_others(tree, &kept)
    }
}

fn write_if_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Removes files that are not `kept`, with which cargo would find targets that there are no more.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) && path.file_name().is_none_or(|name| name != "Cargo.lock") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
