//! Building the Windows images here: `campanile_kmd.sys`, `campanile_umd.dll` and `hlk.exe` with their PDBs, without a Windows kit, and the
//! images that only tests load.

mod again;
mod imports;
mod standard;
#[cfg(test)]
mod wdk;

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

const IMAGES: [Image; 4] = [
    Image { package: "campanile_kmd", file: "campanile_kmd.sys" },
    Image { package: "campanile_umd", file: "campanile_umd.dll" },
    Image { package: "faulty", file: "test/faulty.sys" },
    Image { package: "standin", file: "test/standin.sys" },
];

/// The conformance cases for the installed driver, what tests ask about the package's INF, and how they start services.
const PROGRAMS: [(&str, &str); 3] =
    [("hlk", "hlk.exe"), ("openinf", "test/openinf.exe"), ("services", "test/services.exe")];

/// Builds the images into `target/pe` and returns that folder. With `from_source` the standard library is built too, even if the
/// toolchain has it.
///
/// # Errors
/// One sentence that says what is missing and how to get it.
pub(crate) fn build(root: &Path, from_source: bool) -> Result<PathBuf, String> {
    let library = StandardLibrary::find(root, from_source)?;
    println!("standard library of {TARGET}: {library}");
    let out = root.join("target").join("pe");
    for (name, file) in PROGRAMS {
        program(root, &library, name, &out.join(file))?;
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

/// Builds a program, which has a standard library, and so needs import libraries and start-up code. Its file lies below `target/pe`, too.
fn program(root: &Path, library: &StandardLibrary, name: &str, file: &Path) -> Result<(), String> {
    let imports = imports::make(root, &root.join("target").join("import-libraries"))?;
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["rustc", "--quiet", "--bin", name, "--profile", "program", "--target", TARGET])
        .args(["--package", "campanile-hlk", "--features", "start"])
        .args(["--config", &format!("target.{TARGET}.linker=\"rust-lld\"")]);
    let target = library.choose(root, &mut command, &format!("{CRATES},std,panic_unwind"));
    command.arg("--").arg(format!("-Clink-arg=/LIBPATH:{}", imports.display()));
    let status = command.status().map_err(|error| format!("cargo does not start: {error}"))?;
    if !status.success() {
        return Err(format!("{name}.exe was not built"));
    }
    let built = target.join(TARGET).join("program").join(name).with_extension("exe");
    deliver(&built, file)?;
    println!("{}", file.display());
    Ok(())
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
