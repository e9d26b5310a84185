//! Import libraries of the system's DLLs, which a program with a standard library is linked with, without the Windows SDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Libraries that the standard library of the target names, and what our own of that name imports. All that is not here comes from Microsoft's
/// `windows_x86_64_msvc`, which has the functions of every DLL in one library.
const LIBRARIES: [(&str, &str, &[&str]); 5] = [
    ("ntdll", "ntdll.dll", &["NtCreateNamedPipeFile"]),
    // Part of Windows, unlike vcruntime140.dll, and has the same memory functions and exceptions.
    ("ucrtbase", "ucrtbase.dll", &UCRT),
    ("userenv", "userenv.dll", &[]),
    ("ws2_32", "ws2_32.dll", &[]),
    ("dbghelp", "dbghelp.dll", &[]),
];
/// Functions of ucrtbase.dll: what the compiler calls by itself, and the mathematics with which cases compare what the GPU computes.
const UCRT: [&str; 48] = [
    "_CxxThrowException",
    "__CxxFrameHandler3",
    "acos",
    "acosf",
    "asin",
    "asinf",
    "atan",
    "atan2",
    "atan2f",
    "atanf",
    "ceil",
    "ceilf",
    "cos",
    "cosf",
    "cosh",
    "coshf",
    "exp",
    "exp2",
    "exp2f",
    "expf",
    "floor",
    "floorf",
    "fmod",
    "fmodf",
    "log",
    "log1p",
    "log2",
    "log2f",
    "logf",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "pow",
    "powf",
    "rint",
    "rintf",
    "sin",
    "sinf",
    "sinh",
    "sinhf",
    "strlen",
    "tan",
    "tanf",
    "tanh",
    "tanhf",
    "trunc",
    "truncf",
];
/// The library under whose name the one with all functions is given.
const UMBRELLA: &str = "kernel32.lib";
/// The crate that brings it.
const CRATE: &str = "windows_x86_64_msvc";

/// Puts the libraries into `folder`, and returns it.
///
/// # Errors
/// One sentence that says what is missing.
pub(super) fn make(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    fs::copy(umbrella(root)?, folder.join(UMBRELLA)).map_err(failed)?;
    let linker = linker()?;
    for (name, dll, functions) in LIBRARIES {
        let definition = folder.join(name).with_extension("def");
        let text: String = functions.iter().map(|function| format!("    {function}\n")).collect();
        fs::write(&definition, format!("LIBRARY {dll}\nEXPORTS\n{text}")).map_err(failed)?;
        let mut command = Command::new(&linker);
        command.args(["-flavor", "link", "/lib", "/machine:x64"]);
        command.arg(format!("/def:{}", definition.display()));
        command.arg(format!("/out:{}", folder.join(name).with_extension("lib").display()));
        let status = command.status().map_err(|error| format!("{}: {error}", linker.display()))?;
        if !status.success() {
            return Err(format!("rust-lld made no import library of {dll} ({status})"));
        }
    }
    Ok(folder.to_path_buf())
}

/// The library of the crate, among the sources that cargo has fetched.
fn umbrella(root: &Path) -> Result<PathBuf, String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--filter-platform", super::TARGET])
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let package =
        packages.iter().find(|package| package["name"] == CRATE).ok_or("the crate windows_x86_64_msvc is missing")?;
    let manifest = package["manifest_path"].as_str().ok_or("a package without a manifest")?;
    let folder = Path::new(manifest).with_file_name("lib");
    let mut files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten();
    let library = files.find(|file| file.path().extension().is_some_and(|extension| extension == "lib"));
    library.map(|file| file.path()).ok_or_else(|| format!("{} has no library", folder.display()))
}

/// The linker that comes with the compiler.
fn linker() -> Result<PathBuf, String> {
    let output = |arguments: &[&str]| {
        let output =
            Command::new("rustc").args(arguments).output().map_err(|error| format!("rustc does not start: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = output(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not tell its host")?;
    let name = format!("rust-lld{}", std::env::consts::EXE_SUFFIX);
    let path = Path::new(&output(&["--print", "sysroot"])?).join("lib/rustlib").join(host).join("bin").join(name);
    if path.is_file() { Ok(path) } else { Err(format!("the toolchain has no {}", path.display())) }
}
