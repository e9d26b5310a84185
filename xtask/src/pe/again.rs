//! Checks whether the images are the same bytes when they are built in another folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use campanile_inf::package::IMAGES;

use super::standard::StandardLibrary;

/// Copies the sources into `target/again/sources`, builds the package's images there, and compares them with those of [`super::build`].
///
/// # Errors
/// The first image that is not the same, and how many bytes of it differ.
pub(crate) fn again(root: &Path) -> Result<(), String> {
    let tree = root.join("target").join("again").join("sources");
    copy(root, &tree)?;
    let library = StandardLibrary::find(root, false)?;
    for image in super::IMAGES.iter().filter(|image| IMAGES.contains(&image.file)) {
        let built = super::compile(&tree, image, &library)?.join(super::TARGET).join("pe").join(image.package);
        let delivered = tree.join("target").join("pe").join(image.file);
        super::deliver(&built.with_extension("dll"), &delivered)?;
        let first = root.join("target").join("pe").join(image.file);
        let [one, other] =
            [&first, &delivered].map(|path| fs::read(path).map_err(|error| format!("{}: {error}", path.display())));
        let (one, other) = (one?, other?);
        let differing =
            one.iter().zip(&other).filter(|(one, other)| one != other).count() + one.len().abs_diff(other.len());
        if differing > 0 {
            return Err(format!("{} and {} differ in {differing} bytes", first.display(), delivered.display()));
        }
        println!("{}: the same {} bytes", image.file, one.len());
    }
    Ok(())
}

/// Makes `tree` hold the files under version control and new ones that are not ignored, and no other sources. A file that has not changed keeps its time, so
/// that it is not compiled again.
fn copy(root: &Path, tree: &Path) -> Result<(), String> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
    let output = Command::new("git").args(list).current_dir(root).output();
    let output = output.map_err(|error| format!("git does not start: {error}"))?;
    let names = String::from_utf8(output.stdout).map_err(|_| "names of files are not UTF-8".to_owned())?;
    if !output.status.success() {
        return Err(format!("{} is no git repository", root.display()));
    }
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        let failed = |error| format!("{} -> {}: {error}", from.display(), to.display());
        // A file that was deleted and is still under version control.
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&to, bytes).map_err(failed)?;
    }
    Ok(())
}
