//! Building the Windows images here: `campanile_kmd.sys`, `campanile_umd.dll`, `campanile_vulkan.dll` and `hlk.exe` with their PDBs, without a Windows
//! kit, and the images that only tests load.

mod again;
mod imports;
mod standard;
#[cfg(test)]
mod wdk;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use campanile_inf::package::BILL;
use campanile_inf::stamp::stamp;

pub(crate) use again::again;

use crate::supply::bill;
use standard::{CRATES, StandardLibrary};

/// Target of the images.
const TARGET: &str = "x86_64-pc-windows-msvc";

/// One image: package, and the file that Windows wants, below `target/pe`.
struct Image {
    package: &'static str,
    file: &'static str,
}

const IMAGES: [Image; 5] = [
    Image { package: "campanile_kmd", file: "campanile_kmd.sys" },
    Image { package: "campanile_umd", file: "campanile_umd.dll" },
    Image { package: "bcryptprimitives", file: "test/bcryptprimitives.dll" },
    Image { package: "faulty", file: "test/faulty.sys" },
    Image { package: "standin", file: "test/standin.sys" },
];

/// An image with a standard library: package, what cargo builds of it, the file that cargo makes, and the one that Windows wants, below `target/pe`.
struct Program {
    package: &'static str,
    target: &'static [&'static str],
    built: &'static str,
    file: &'static str,
}

impl Program {
    /// A program of the conformance cases.
    const fn hlk(target: &'static [&'static str], built: &'static str, file: &'static str) -> Self {
        Self { package: "campanile-hlk", target, built, file }
    }
}

/// The conformance cases for the installed driver, what tests ask about the package's INF, how they start services, and the Vulkan driver.
const PROGRAMS: [Program; 5] = [
    Program::hlk(&["--bin", "hlk"], "hlk.exe", "hlk.exe"),
    Program::hlk(&["--bin", "openinf"], "openinf.exe", "test/openinf.exe"),
    Program::hlk(&["--bin", "icd"], "icd.exe", "test/icd.exe"),
    Program::hlk(&["--bin", "services"], "services.exe", "test/services.exe"),
    Program {
        package: "campanile_vulkan",
        target: &["--lib", "--crate-type", "cdylib"],
        built: "campanile_vulkan.dll",
        file: "campanile_vulkan.dll",
    },
];

/// Builds the images into `target/pe` and returns that folder. With `from_source` the standard library is built too, even if the
/// toolchain has it.
///
/// # Errors
/// One sentence that says what is missing and how to get it.
pub(crate) fn build(root: &Path, from_source: bool) -> Result<PathBuf, String> {
    let library = StandardLibrary::find(root, from_source)?;
    println!("standard library of {TARGET}: {library}");
    let out = root.join("target").join("pe");
    for program in &PROGRAMS {
        let target = out.join(program.file);
        deliver(&build_program(root, program, &library)?, &target)?;
        println!("{}", target.display());
    }
    for image in &IMAGES {
        let built = compile(root, image, &library)?.join(TARGET).join("pe").join(image.package);
        let target = out.join(image.file);
        deliver(&built.with_extension("dll"), &target)?;
        println!("{}", target.display());
    }
    bill::write(root, TARGET, &out.join(BILL))?;
    Ok(out)
}

/// Builds an image; the folder that cargo built in.
fn compile(root: &Path, image: &Image, library: &StandardLibrary) -> Result<PathBuf, String> {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--profile", "pe", "--target", TARGET])
        .args(["--package", image.package])
        .args(["--config", &format!("target.{TARGET}.linker=\"rust-lld\"")]);
    let target = library.choose(root, &mut command, CRATES);
    let status = command.status().map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() { Ok(target) } else { Err(format!("{} was not built", image.file)) }
}

/// Builds an image with a standard library, which needs import libraries and what a C run-time library gives; the file that cargo made.
fn build_program(root: &Path, program: &Program, library: &StandardLibrary) -> Result<PathBuf, String> {
    let imports = imports::make(root, &root.join("target").join("import-libraries"))?;
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["rustc", "--quiet", "--profile", "program", "--target", TARGET])
        .args(program.target)
        .args(["--package", program.package, "--features", "start"])
        .args(["--config", &format!("target.{TARGET}.linker=\"rust-lld\"")])
        .args(["--config", &format!("target.{TARGET}.rustflags=[\"--remap-path-prefix={}=/cargo\"]", cargo_home()?)]);
    let target = library.choose(root, &mut command, &format!("{CRATES},std,panic_unwind"));
    command.arg("--").arg(format!("-Clink-arg=/LIBPATH:{}", imports.display()));
    let status = command.status().map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() {
        Ok(target.join(TARGET).join("program").join(program.built))
    } else {
        Err(format!("{} was not built", program.built))
    }
}

/// Where cargo keeps the sources of other people's crates, whose panics name their files: an image does not tell whose folder that was.
fn cargo_home() -> Result<String, String> {
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")));
    home.map_err(|_| "neither CARGO_HOME nor HOME is set".to_owned())
}

/// Copies an image and its PDB, named by what the image holds instead of by where it was built.
fn deliver(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error| format!("{} -> {}: {error}", from.display(), to.display());
    let (pdb, named) = (from.with_extension("pdb"), to.with_extension("pdb"));
    let (mut image, mut symbols) = (fs::read(from).map_err(failed)?, fs::read(pdb).map_err(failed)?);
    stamp(&mut image, &mut symbols).map_err(|error| format!("{}: {error}", from.display()))?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // A copy has the permissions of the file, too.
    fs::copy(from, to).map_err(failed)?;
    fs::write(to, image).and_then(|()| fs::write(named, symbols)).map_err(failed)
}
