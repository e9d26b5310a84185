//! Building the Windows images here: `campanile_kmd.sys` and `campanile_umd.dll` with their PDBs, without a Windows kit.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Target of the images.
const TARGET: &str = "x86_64-pc-windows-msvc";

/// One image: package, file that cargo writes, file that Windows wants.
struct Image {
    package: &'static str,
    shipped: &'static str,
}

const IMAGES: [Image; 2] = [
    Image { package: "campanile_kmd", shipped: "campanile_kmd.sys" },
    Image { package: "campanile_umd", shipped: "campanile_umd.dll" },
];

/// Builds both images into `target/pe` and returns that folder.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    ensure_target(root)?;
    let out = root.join("target").join("pe");
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    for image in &IMAGES {
        compile(root, image)?;
        let built = root.join("target").join(TARGET).join("pe");
        copy(&built.join(format!("{}.dll", image.package)), &out.join(image.shipped))?;
        let pdb = format!("{}.pdb", image.package);
        copy(&built.join(&pdb), &out.join(&pdb))?;
        println!("{}", out.join(image.shipped).display());
    }
    Ok(out)
}

fn compile(root: &Path, image: &Image) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--profile", "pe", "--target", TARGET])
        .args(["--package", image.package])
        .args(["--config", &format!("target.{TARGET}.linker=\"rust-lld\"")])
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{} was not built", image.shipped)) }
}

/// Sees that the standard library of the target is there, installing it by rustup if need be.
fn ensure_target(root: &Path) -> Result<(), String> {
    if has_target()? {
        return Ok(());
    }
    eprintln!("installing the standard library of {TARGET} with rustup");
    let status = Command::new("rustup").current_dir(root).args(["target", "add", TARGET]).status();
    match status {
        Ok(status) if status.success() && has_target()? => Ok(()),
        Ok(status) => Err(format!("`rustup target add {TARGET}` failed ({status}); run it by hand and try again")),
        Err(error) => Err(format!("the standard library of {TARGET} is missing and rustup does not start: {error}")),
    }
}

fn has_target() -> Result<bool, String> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .map_err(|error| format!("rustc does not start: {error}"))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(folder.read_dir().is_ok_and(|mut files| files.next().is_some()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{} -> {}: {error}", from.display(), to.display()))
}
