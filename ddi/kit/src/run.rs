//! Running bindgen over the headers of a kit.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bindgen::callbacks::ParseCallbacks;

use crate::bindings::Bindings;
use crate::declared::Declared;
use crate::header::{PROBE, guids, probes};

/// Input of bindgen besides the text of the header.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// Folders with headers, as `Include/10.0.26100.0/km`.
    pub folders: Vec<PathBuf>,
    /// Macros that the compiler would define.
    pub definitions: Vec<(String, Option<String>)>,
    /// More arguments for clang.
    pub arguments: Vec<String>,
}

/// Result of a run of bindgen.
#[derive(Debug)]
pub struct Read {
    /// One side of the comparison.
    pub bindings: Bindings,
    /// Headers that were read, for a build script to watch.
    pub files: Vec<PathBuf>,
}

/// The reason why there are no bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// libclang, which bindgen reads C with, cannot be loaded: what the loader said.
    NoLibclang(String),
    /// clang does not accept the headers: its messages.
    Headers(String),
    /// bindgen's output is not as expected.
    Output(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibclang(_) if cfg!(windows) => f.write_str(
                "libclang.dll was not found: install LLVM 21 with `winget install -i LLVM.LLVM --version 21.1.2` and let it add \
                 itself to PATH, or set LIBCLANG_PATH to the folder that holds the file",
            ),
            Self::NoLibclang(_) => f.write_str(
                "libclang was not found: install it with `apt-get install libclang1` (Debian, Ubuntu), `dnf install clang-libs` \
                 (Fedora) or `pip install libclang`, the latter with LIBCLANG_PATH set to the folder that holds libclang.so",
            ),
            Self::Headers(messages) => write!(f, "clang does not accept the headers:\n{}", messages.trim_end()),
            Self::Output(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}

/// Sees that bindgen will find libclang.
///
/// # Errors
/// [`Error::NoLibclang`].
pub fn require_libclang() -> Result<(), Error> {
    if clang_sys::is_loaded() {
        return Ok(());
    }
    clang_sys::load().map_err(Error::NoLibclang)
}

impl Headers {
    /// Has bindgen read `text`, with what `declared` names and [`probes`] behind it, for the Windows target whatever the host.
    ///
    /// # Errors
    /// [`Error`]; its text says what to do.
    pub fn read(&self, text: &str, declared: &Declared) -> Result<Read, Error> {
        require_libclang()?;
        let text = format!("{text}\n{}", probes(declared));
        let files = Arc::new(Mutex::new(Vec::new()));
        let mut builder = bindgen::Builder::default()
            .header_contents("wddm-ddi-kit.h", &text)
            .clang_args(self.clang_arguments())
            // Nothing of the host may be found.
            .detect_include_paths(false)
            .prepend_enum_name(false)
            .derive_debug(false)
            .default_non_copy_union_style(bindgen::NonCopyUnionStyle::ManuallyDrop)
            .generate_comments(false)
            .ignore_functions()
            .formatter(bindgen::Formatter::None)
            .allowlist_var(format!("{PROBE}.*"))
            .allowlist_type("_?DPFLTR_TYPE")
            .parse_callbacks(Box::new(Included(Arc::clone(&files))));
        for pattern in patterns(declared) {
            builder = builder.allowlist_type(pattern);
        }
        let output = builder.generate().map_err(|error| match error {
            bindgen::BindgenError::ClangDiagnostic(messages) => Error::Headers(messages),
            other => Error::Output(other.to_string()),
        })?;
        let files = std::mem::take(&mut *files.lock().unwrap_or_else(PoisonError::into_inner));
        let mut bindings = Bindings::parse(&output.to_string()).map_err(Error::Output)?;
        bindings.add_guids(guids(&text));
        for file in &files {
            // Headers are not always UTF-8; the definitions of GUIDs are.
            let bytes = fs::read(file).map_err(|error| Error::Output(format!("{}: {error}", file.display())))?;
            bindings.add_guids(guids(&String::from_utf8_lossy(&bytes)));
        }
        Ok(Read { bindings, files })
    }

    fn clang_arguments(&self) -> Vec<String> {
        let fixed =
            ["--target=x86_64-pc-windows-msvc", "-fms-compatibility", "-fms-extensions", "-fno-builtin", "-nostdinc"];
        let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
        all.extend(self.folders.iter().map(|folder| format!("--include-directory={}", folder.display())));
        all.extend(self.definitions.iter().map(|(name, value)| match value {
            Some(value) => format!("--define-macro={name}={value}"),
            None => format!("--define-macro={name}"),
        }));
        all.extend(self.arguments.iter().cloned());
        all
    }
}

/// Beginnings that most names of the interface have; matching hundreds of names one by one takes bindgen long.
const FAMILIES: [&str; 2] = ["D3D", "DXGK"];

/// Patterns for every type that is compared.
fn patterns(declared: &Declared) -> Vec<String> {
    let measured = &declared.measured;
    let records = measured.records.iter().map(|record| record.name);
    let enumerations = measured.enumerations.iter().map(|enumeration| enumeration.name);
    let typedefs = measured.typedefs.iter().map(|(name, _)| *name);
    let base = declared.base.iter().map(|base| base.name);
    let all = records.chain(enumerations).chain(typedefs).chain(base);
    let others = all.filter(|name| !FAMILIES.iter().any(|family| name.starts_with(family)));
    others.map(|name| format!("_?{name}")).chain(FAMILIES.iter().map(|family| format!("_?{family}.*"))).collect()
}

/// Remembers which headers were read.
#[derive(Debug)]
struct Included(Arc<Mutex<Vec<PathBuf>>>);

impl ParseCallbacks for Included {
    fn include_file(&self, name: &str) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = PathBuf::from(name);
        if !files.contains(&name) {
            files.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_libclang_is_one_sentence_that_says_what_to_install() {
        let text = Error::NoLibclang("couldn't find any valid shared libraries".into()).to_string();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("libclang") && text.contains("install") && text.contains("LIBCLANG_PATH"), "{text}");
    }
}
