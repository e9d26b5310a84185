//! Where the standard library of the images comes from: precompiled from the toolchain, or built from its sources.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::TARGET;
use crate::setup;

/// Crates of the standard library that an image without start-up code uses.
pub(super) const CRATES: &str = "-Zbuild-std=core,alloc,compiler_builtins";
/// Debian releases that carry newer compilers than the stable ones.
const SUITES: [&str; 2] = ["trixie-backports", "sid"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A standard library of the images' target.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StandardLibrary {
    /// Precompiled, in the toolchain; `added` if rustup just installed it.
    Precompiled { added: bool },
    /// Built together with the images from this `library` folder.
    Sources(PathBuf),
}

impl fmt::Display for StandardLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Precompiled { added: false } => f.write_str("precompiled, part of the toolchain"),
            Self::Precompiled { added: true } => f.write_str("precompiled, installed by rustup just now"),
            Self::Sources(folder) => write!(f, "built from the sources in {}", folder.display()),
        }
    }
}

impl StandardLibrary {
    /// The toolchain's own, else what rustup installs, else the sources of exactly this compiler. `from_source` goes to the last at
    /// once.
    pub(super) fn find(root: &Path, from_source: bool) -> Result<Self, String> {
        if !from_source {
            if is_precompiled()? {
                return Ok(Self::Precompiled { added: false });
            }
            println!("installing the standard library of {TARGET} with rustup");
            let rustup = Command::new("rustup").current_dir(root).args(["target", "add", TARGET]).status();
            if rustup.is_ok_and(|status| status.success()) && is_precompiled()? {
                return Ok(Self::Precompiled { added: true });
            }
            println!("rustup could not; looking for the sources of the standard library");
        }
        let version = release(&output("rustc", &["-vV"])?)?;
        let sysroot = output("rustc", &["--print", "sysroot"])?;
        sources(root, &version, Path::new(sysroot.trim())).map(Self::Sources)
    }

    /// Makes cargo use it, with these crates if they are built from sources, and build in the folder that is returned.
    pub(super) fn choose(&self, root: &Path, command: &mut Command, crates: &str) -> PathBuf {
        let target = root.join("target");
        let Self::Sources(library) = self else { return target };
        // Building the standard library is not a stable feature; neither is saying where its sources are.
        command.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", library).arg(crates);
        // Cargo remembers by folder what the compiler can do, which is more with unstable features.
        let target = target.join("from-source");
        command.arg("--target-dir").arg(&target);
        target
    }
}

fn is_precompiled() -> Result<bool, String> {
    let folder = PathBuf::from(output("rustc", &["--print", "target-libdir", "--target", TARGET])?.trim());
    let is_core = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libcore-");
    Ok(folder.read_dir().is_ok_and(|mut files| files.any(|file| file.is_ok_and(is_core))))
}

/// Standard output of a program that succeeds.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{program} does not start: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`{program} {}` failed ({})", arguments.join(" "), output.status))
    }
}

/// The version number in the output of `rustc -vV`.
fn release(text: &str) -> Result<String, String> {
    let line = text.lines().find_map(|line| line.strip_prefix("release: "));
    line.map(|version| version.trim().to_owned()).ok_or_else(|| "rustc does not tell its version".into())
}

/// The `library` folder of exactly this version.
fn sources(root: &Path, version: &str, sysroot: &Path) -> Result<PathBuf, String> {
    let downloads = root.join("target").join(format!("rust-src-{version}"));
    let debian = format!("usr/src/rustc-{version}/library");
    let places = [sysroot.join("lib/rustlib/src/rust/library"), Path::new("/").join(&debian), downloads.join(&debian)];
    if let Some(found) = places.iter().find(|place| is_library(place)) {
        return Ok(found.clone());
    }
    println!("downloading the sources of the standard library {version} (package rust-src)");
    if let Err(reason) = download(&downloads, version) {
        return Err(format!("{}: {reason}", missing(version, &other_versions(Path::new("/usr/src")))));
    }
    places.into_iter().find(|place| is_library(place)).ok_or_else(|| missing(version, &[]))
}

fn is_library(folder: &Path) -> bool {
    ["core", "alloc", "compiler-builtins"].iter().all(|part| folder.join(part).join("Cargo.toml").is_file())
}

/// Versions of the sources that Debian's package put in `folder`.
fn other_versions(folder: &Path) -> Vec<String> {
    let names = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut versions: Vec<String> =
        names.filter_map(|name| name.to_string_lossy().strip_prefix("rustc-").map(str::to_owned)).collect();
    versions.sort();
    versions
}

fn missing(version: &str, others: &[String]) -> String {
    let others = if others.is_empty() {
        String::new()
    } else {
        format!(" (sources of {} are there, the compiler is {version})", others.join(", "))
    };
    format!(
        "the standard library of {TARGET} is missing{others}; run `rustup target add {TARGET}`, or install the package rust-src \
         of exactly {version}"
    )
}

/// Unpacks Debian's package rust-src of this version into `folder`, without installing anything.
fn download(folder: &Path, version: &str) -> Result<(), String> {
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part)).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    // The mirror that this machine uses anyway.
    let targets = output("apt-get", &["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])?;
    let mirror = targets.lines().find(|line| !line.contains("security")).ok_or("apt knows no mirror")?;
    let list = folder.join("sources.list");
    let mut reason = String::from("no Debian release has it");
    for suite in SUITES {
        let line = format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(&list, line).map_err(|error| format!("{}: {error}", list.display()))?;
        match download_from(folder, &list, version) {
            Ok(()) => return Ok(()),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

fn download_from(folder: &Path, list: &Path, version: &str) -> Result<(), String> {
    let options = [
        format!("-oDir::Etc::sourcelist={}", list.display()),
        "-oDir::Etc::sourceparts=-".into(),
        format!("-oDir::State::lists={}", folder.join("lists").display()),
        format!("-oDir::Cache={}", folder.join("cache").display()),
        // The download runs as this user, which the sandbox of apt would not let write here.
        "-oAPT::Sandbox::User=".into(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    run(folder, "apt-get", &[&options[..], &["-qq", "update"]].concat())?;
    let table = output("apt-cache", &[&options[..], &["madison", "rust-src"]].concat())?;
    let package = package_version(&table, version).ok_or("the package rust-src of this version is not there")?;
    run(folder, "apt-get", &[&options[..], &["-qq", "download", &format!("rust-src={package}")]].concat())?;
    setup::extract(folder, folder)
}

/// The newest packaging of `version` in the output of `apt-cache madison`.
fn package_version(table: &str, version: &str) -> Option<String> {
    let packaged = table.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
    let mut fitting = packaged.filter(|found| found.split(['+', '-', '~']).next() == Some(version));
    fitting.next().map(str::to_owned)
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program} does not start: {error}"))?;
    // Its messages name mirrors, which say nothing about what to do.
    if output.status.success() { Ok(()) } else { Err(format!("{program} failed ({})", output.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_compiler_is_the_number_alone() {
        let text =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(release(text).as_deref(), Ok("1.95.0"));
        assert!(release("binary: rustc\n").is_err());
    }

    #[test]
    fn only_packages_of_exactly_this_version_fit() {
        let table = " rust-src | 1.95.0+dfsg1-2~bpo13+1 | mirror trixie-backports/main amd64 Packages\n \
                     rust-src | 1.95.01+dfsg1-1 | mirror sid/main amd64 Packages\n \
                     rust-src | 1.63.0+dfsg1-2 | mirror bookworm/main amd64 Packages\n";
        assert_eq!(package_version(table, "1.95.0").as_deref(), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(package_version(table, "1.63.0").as_deref(), Some("1.63.0+dfsg1-2"));
        assert_eq!(package_version(table, "1.96.0"), None);
        assert_eq!(package_version("", "1.95.0"), None);
    }

    #[test]
    fn sources_of_another_version_are_named_and_not_taken() {
        let message = missing("1.95.0", &["1.63.0".into(), "1.85.0".into()]);
        assert!(message.contains("sources of 1.63.0, 1.85.0 are there, the compiler is 1.95.0"), "{message}");
        assert!(message.contains("rust-src of exactly 1.95.0"), "{message}");
        assert_eq!(missing("1.95.0", &[]).lines().count(), 1);
    }

    #[test]
    fn sources_are_taken_from_the_toolchain_when_they_are_there() {
        let root = std::env::temp_dir().join(format!("xtask-sources-{}", std::process::id()));
        let library = root.join("sysroot/lib/rustlib/src/rust/library");
        for part in ["core", "alloc", "compiler-builtins"] {
            fs::create_dir_all(library.join(part)).unwrap();
            fs::write(library.join(part).join("Cargo.toml"), "").unwrap();
        }
        let found = sources(&root, "0.0.0", &root.join("sysroot"));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Ok(library));
    }

    #[test]
    fn each_way_says_its_name() {
        assert!(StandardLibrary::Precompiled { added: true }.to_string().contains("rustup"));
        assert!(StandardLibrary::Sources("a/library".into()).to_string().contains("a/library"));
    }
}
