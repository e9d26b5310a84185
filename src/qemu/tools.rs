//! What a guest is started with: QEMU with vfio-user-pci, and a Linux kernel with vfio. Where the machine has none, Debian's packages are unpacked.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::process::Running;

/// Unpacks packages of Debian into a folder, without installing anything.
const FETCH: &str = include_str!("fetch.sh");
/// The modules that a guest loads, in this order, and whether every kernel has them.
const MODULES: [(&str, bool); 6] = [
    ("irqbypass", false),
    ("vfio", true),
    ("vfio_virqfd", false),
    ("vfio_iommu_type1", true),
    ("vfio-pci-core", true),
    ("vfio-pci", true),
];
/// Deepest nesting of folders in which modules of a kernel are searched for.
const DEEPEST: usize = 8;

/// A kernel for guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// The kernel itself.
    pub(super) image: PathBuf,
    /// Modules in the order to load them in.
    pub(super) modules: Vec<PathBuf>,
}

/// Where programs and kernels are kept that were unpacked: `target/qemu` of the repository, or a folder of that name beside the others of a user.
pub(super) fn folder() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    if repository.is_dir() {
        return repository.join("target").join("qemu");
    }
    std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from).join(".cache").join("campanile-qemu")
}

/// True if this program is a QEMU that can plug in functions of vfio-user servers.
fn is_usable(program: &Path) -> bool {
    // A QEMU that does not know the device ends with success too.
    let output = Command::new(program).args(["-device", "vfio-user-pci,help"]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("socket="))
}

/// QEMU: the one that is named, else the machine's own, else Debian's, unpacked into `folder`.
///
/// # Errors
/// The one that is named cannot do what is needed, or there is none and it cannot be fetched; says what to do.
pub(super) fn qemu(named: Option<&Path>, folder: &Path) -> Result<PathBuf, String> {
    const NEEDED: &str = "is no QEMU with vfio-user-pci, which has it from version 10.1 on";
    if let Some(named) = named {
        let refuse = || format!("{} {NEEDED}", named.display());
        return is_usable(named).then(|| named.to_owned()).ok_or_else(refuse);
    }
    let unpacked = folder.join("qemu").join("qemu-system-x86_64");
    if is_usable(Path::new("qemu-system-x86_64")) {
        return Ok("qemu-system-x86_64".into());
    }
    if !unpacked.is_file() {
        fetch(folder, "qemu").map_err(|reason| {
            format!("this machine has no QEMU with vfio-user-pci, and none could be fetched: {reason}. Name one with `--qemu`")
        })?;
    }
    if is_usable(&unpacked) {
        Ok(unpacked)
    } else {
        Err(format!("{} {NEEDED}; remove its folder to fetch it again", unpacked.display()))
    }
}

/// A kernel: `image` with the modules below `modules`, else Debian's cloud kernel, unpacked into `folder`.
///
/// # Errors
/// A module is missing, or the kernel cannot be fetched.
pub(super) fn kernel(named: Option<(&Path, &Path)>, folder: &Path) -> Result<Kernel, String> {
    if let Some((image, modules)) = named {
        return Ok(Kernel { image: image.to_owned(), modules: find_modules(modules)? });
    }
    let unpacked = folder.join("kernel").join("root");
    if !unpacked.is_dir() {
        fetch(folder, "kernel").map_err(|reason| {
            format!("no kernel for the guest could be fetched: {reason}. Name one with `--kernel` and `--modules`")
        })?;
    }
    let boot = unpacked.join("boot");
    let files = fs::read_dir(&boot).map_err(|error| format!("{}: {error}", boot.display()))?.flatten();
    let is_kernel =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"));
    let image =
        files.map(|entry| entry.path()).find(is_kernel).ok_or_else(|| format!("{} has no kernel", boot.display()))?;
    let modules = [unpacked.join("lib/modules"), unpacked.join("usr/lib/modules")];
    let modules = modules.iter().find(|folder| folder.is_dir()).ok_or("the kernel has no modules")?;
    Ok(Kernel { image, modules: find_modules(modules)? })
}

/// The modules of [`MODULES`] below a folder.
fn find_modules(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    list(folder, DEEPEST, &mut files);
    let plain = |name: &str| name.replace('-', "_");
    let mut found = Vec::new();
    for (module, everywhere) in MODULES {
        let is_it = |path: &&PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.split_once(".ko").is_some_and(|(stem, _)| plain(stem) == plain(module))
        };
        match files.iter().find(is_it) {
            Some(path) => found.push(path.clone()),
            None if everywhere => {
                return Err(format!("{} has no module {module}, with which guests reach the GPU", folder.display()));
            }
            None => {}
        }
    }
    Ok(found)
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Links lead to sources, which have no modules.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => list(&entry.path(), depth - 1, files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

/// UEFI firmware: the one that is named, else the machine's own, else Debian's. With `only_look`, nothing is fetched.
///
/// # Errors
/// It cannot be fetched; says what to do.
pub(super) fn firmware(named: Option<&Path>, folder: &Path, only_look: bool) -> Result<PathBuf, String> {
    if let Some(named) = named {
        let missing = || format!("{} is no file; it should be UEFI firmware such as OVMF_CODE_4M.fd", named.display());
        return (only_look || named.is_file()).then(|| named.to_owned()).ok_or_else(missing);
    }
    const FILE: &str = "usr/share/OVMF/OVMF_CODE_4M.fd";
    let unpacked = folder.join("firmware").join("root").join(FILE);
    let own = Path::new("/").join(FILE);
    if own.is_file() {
        return Ok(own);
    }
    if !unpacked.is_file() && !only_look {
        fetch(folder, "firmware")
            .map_err(|reason| format!("no UEFI firmware could be fetched: {reason}. Name one with `--firmware`"))?;
    }
    Ok(unpacked)
}

/// lspci, of the version whose words are known here: Debian's, unpacked into `folder`.
///
/// # Errors
/// It cannot be fetched; says why.
pub(super) fn lspci(folder: &Path) -> Result<PathBuf, String> {
    let unpacked = folder.join("lspci").join("lspci");
    if !unpacked.is_file() {
        fetch(folder, "lspci").map_err(|reason| format!("lspci could not be fetched: {reason}"))?;
    }
    Ok(unpacked)
}

/// Runs the script that unpacks `what`.
fn fetch(folder: &Path, what: &str) -> Result<(), String> {
    println!("fetching {what} from Debian's mirror into {}", folder.display());
    let mut command = Command::new("bash");
    command.args(["-s", "--"]).arg(folder).arg(what).stdin(Stdio::piped()).stderr(Stdio::piped());
    // The script ends with this process, also when this process is killed.
    let mut script = Running::start(&mut command).map_err(|error| format!("bash does not start: {error}"))?;
    if let Some(mut input) = script.child().stdin.take() {
        input.write_all(FETCH.as_bytes()).map_err(|error| error.to_string())?;
    }
    let mut told = Vec::new();
    if let Some(mut errors) = script.child().stderr.take() {
        errors.read_to_end(&mut told).map_err(|error| error.to_string())?;
    }
    if script.child().wait().map_err(|error| error.to_string())?.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&told);
    let last = told.lines().last().unwrap_or("the script told no reason");
    Err(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("campanile-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn modules_are_found_in_order_whatever_they_are_packed_with() {
        let folder = empty_folder("modules");
        let deep = folder.join("6.1/kernel/drivers/vfio/pci");
        fs::create_dir_all(&deep).unwrap();
        for name in ["vfio-pci.ko.xz", "vfio_pci_core.ko", "vfio.ko", "vfio_iommu_type1.ko.zst", "vfio-mdev.ko"] {
            fs::write(deep.join(name), "").unwrap();
        }
        let found = find_modules(&folder).unwrap();
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["vfio.ko", "vfio_iommu_type1.ko.zst", "vfio_pci_core.ko", "vfio-pci.ko.xz"]);
        fs::remove_file(deep.join("vfio.ko")).unwrap();
        assert!(find_modules(&folder).unwrap_err().contains("no module vfio,"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_that_is_no_fitting_qemu_is_refused_by_name() {
        let error = qemu(Some(Path::new("/bin/true")), Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/bin/true") && error.contains("10.1"), "{error}");
    }

    #[test]
    fn the_script_names_what_it_lacks() {
        let folder = empty_folder("fetch");
        let error = fetch(&folder, "windows").unwrap_err();
        assert_eq!(error, "windows is neither qemu, kernel, firmware, lspci nor wine");
        fs::remove_dir_all(&folder).unwrap();
    }
}
