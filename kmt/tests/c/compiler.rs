//! The C compiler of the host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The folder of this executable, where cargo has put the library.
pub(crate) fn library() -> PathBuf {
    let folder = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned())).expect("a folder");
    assert!(folder.join("libcampanile_kmt.so").is_file(), "{}: no libcampanile_kmt.so", folder.display());
    folder
}

/// A language, as the compiler calls it, and an edition of it.
#[derive(Debug)]
pub(crate) struct Language(&'static str, &'static str);

impl Language {
    pub(crate) const C11: Self = Self("c", "-std=c11");
    pub(crate) const GNU11: Self = Self("c", "-std=gnu11");
    pub(crate) const CPP17: Self = Self("c++", "-std=c++17");
}

/// A compiler, or what is missing.
fn compiler() -> Option<String> {
    let name = env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&name).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some(name);
    }
    absent(&format!("no C compiler ({name}): programs in C were neither compiled nor run; install one or set CC"));
    None
}

/// Says that something was not proved. Where everything must be, that is a failure.
pub(crate) fn absent(told: &str) {
    assert!(env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"), "{told}");
    eprintln!("{told}");
}

/// A program in a file of its own, which goes with it.
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Compiles a program, and returns it, or what the compiler says against it. `None` without a compiler.
pub(crate) fn compile(name: &str, language: &Language, text: &str) -> Option<Result<Program, String>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stem = format!("{name}-{}-{number}", std::process::id());
    let source = Program(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}.source")));
    fs::write(source.path(), text).expect("writable");
    compile_file(&stem, language, source.path(), &[])
}

/// As [`compile`], for a file, with further arguments.
pub(crate) fn compile_file(
    stem: &str,
    Language(language, standard): &Language,
    source: &Path,
    arguments: &[String],
) -> Option<Result<Program, String>> {
    let compiler = compiler()?;
    let program = Program(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}.out")));
    let mut command = Command::new(compiler);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-missing-field-initializers", "-g", standard, "-I"])
        .arg(include());
    command.args(["-x", language]).arg(source).args(["-x", "none", "-o"]).arg(program.path()).args(arguments);
    let output = command.output().expect("the compiler runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if lacks_cpp(language, &told) {
        return None;
    }
    Some(if output.status.success() { Ok(program) } else { Err(told) })
}

/// Folders, arguments and strictness of a compilation by [`examine`].
pub(crate) struct Unit<'a> {
    /// Folders of headers, before those of the compiler.
    pub(crate) folders: &'a [PathBuf],
    pub(crate) arguments: &'a [&'a str],
    /// True if a warning is an error. Pragmas that only Microsoft's compiler knows are none otherwise.
    pub(crate) strict: bool,
}

/// Compiles a text without linking it, and returns what the compiler says, as an error if it refuses. `None` without a compiler.
pub(crate) fn examine(
    name: &str,
    Language(language, standard): &Language,
    text: &str,
    unit: &Unit<'_>,
) -> Option<Result<String, String>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let compiler = compiler()?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Program(folder.join(format!("{name}-examined-{}-{number}", std::process::id())));
    fs::write(source.path(), text).expect("writable");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Wno-missing-field-initializers", "-fsyntax-only", standard]);
    command.arg(if unit.strict { "-Werror" } else { "-Wno-unknown-pragmas" }).args(unit.arguments);
    command.arg("-I").arg(include());
    for folder in unit.folders {
        command.arg("-I").arg(folder);
    }
    let output = command.args(["-x", language]).arg(source.path()).output().expect("the compiler runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if lacks_cpp(language, &told) {
        return None;
    }
    Some(if output.status.success() { Ok(told) } else { Err(told) })
}

/// A C compiler may come without its C++ half.
fn lacks_cpp(language: &str, told: &str) -> bool {
    let lacks = language == "c++" && (told.contains("cc1plus") || told.contains("not recognized"));
    if lacks {
        absent("the C compiler has no C++ half: nothing was compiled as C++; install g++");
    }
    lacks
}

/// Compiles a program and runs it.
pub(crate) fn passes(name: &str, language: &Language, text: &str) {
    match compile(name, language, text) {
        None => {}
        Some(Err(told)) => panic!("{}", told.get(..4000).unwrap_or(&told)),
        Some(Ok(program)) => {
            let output = program.command().output().expect("the program starts");
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}
