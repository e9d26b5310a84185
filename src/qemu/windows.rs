//! A guest with a disk of its own, such as Windows: the GPU beside the display that it boots with, a kernel debugger, and the driver package
//! as a drive that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::{Line, Machine, escaped};

/// What such a guest has beside processor, memory and GPUs.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Its disk.
    pub(super) disk: PathBuf,
    /// A disc to install from, from which it boots first.
    pub(super) iso: Option<PathBuf>,
    /// Folder that it sees as a drive.
    pub(super) package: Option<PathBuf>,
    /// UEFI firmware, and the file in which it keeps its variables.
    pub(super) firmware: (PathBuf, PathBuf),
    /// Where a kernel debugger finds its first serial port: address and port.
    pub(super) debugger: String,
    /// Where its screen is shown, as QEMU's option `-display` has it.
    pub(super) display: String,
}

/// The format of a disk, by its name: QEMU's own, or the plain bytes.
fn format(disk: &Path) -> &'static str {
    let extension = disk.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "qcow2" => "qcow2",
        "vhdx" => "vhdx",
        _ => "raw",
    }
}

/// The command line.
///
/// # Errors
/// The debugger's address is none.
pub(super) fn line(machine: &Machine<'_>, disk: &Disk) -> Result<Line, String> {
    let bad = || format!("`{}` is no address of a debugger such as 127.0.0.1:5510", disk.debugger);
    let (host, port) = disk.debugger.rsplit_once(':').ok_or_else(bad)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    if port.parse::<u16>().is_err() || host.is_empty() || !host.chars().all(is_host) {
        return Err(bad());
    }
    let mut line = machine.line();
    let drive = |id: &str, path: &Path, more: &str| format!("if=none,id={id},file={}{more}", escaped(path));
    let (code, variables) = &disk.firmware;
    line.option("-drive", format!("if=pflash,format=raw,readonly=on,file={}", escaped(code)));
    line.option("-drive", format!("if=pflash,format=raw,file={}", escaped(variables)));
    line.option("-drive", drive("disk", &disk.disk, &format!(",format={}", format(&disk.disk))));
    line.option("-device", "nvme,drive=disk,serial=campanile-disk,bootindex=2");
    if let Some(iso) = &disk.iso {
        line.option("-drive", drive("iso", iso, ",media=cdrom,readonly=on"));
        line.option("-device", "ide-cd,drive=iso,bus=ide.0,bootindex=1");
    }
    line.option("-device", "qemu-xhci,id=usb");
    line.option("-device", "usb-kbd,bus=usb.0");
    line.option("-device", "usb-tablet,bus=usb.0");
    if let Some(package) = &disk.package {
        line.option("-drive", format!("if=none,id=package,format=raw,readonly=on,file=fat:{}", escaped(package)));
        line.option("-device", "usb-storage,bus=usb.0,drive=package");
    }
    // The GPU has no display; without this one nobody would see the guest boot.
    line.option("-device", "VGA");
    line.option("-display", disk.display.as_str());
    line.option("-netdev", "user,id=net");
    line.option("-device", "e1000e,netdev=net");
    line.option("-chardev", format!("socket,id=debugger,host={host},port={port},server=on,wait=off"));
    line.option("-serial", "chardev:debugger");
    Ok(line)
}

/// The firmware's variables of a disk, beside it; made from the firmware's template when they are not there.
///
/// # Errors
/// The template cannot be found or copied.
pub(super) fn variables(firmware: &Path, disk: &Path) -> Result<PathBuf, String> {
    let variables = variables_path(disk);
    if variables.is_file() {
        return Ok(variables);
    }
    let name = firmware.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let template = firmware.with_file_name(name.replace("CODE", "VARS"));
    if template == firmware {
        return Err(format!(
            "{} has no CODE in its name, where its template of variables has VARS",
            firmware.display()
        ));
    }
    fs::copy(&template, &variables)
        .map_err(|error| format!("{} -> {}: {error}", template.display(), variables.display()))?;
    Ok(variables)
}

/// Where the firmware's variables of a disk are.
pub(super) fn variables_path(disk: &Path) -> PathBuf {
    let mut name = disk.as_os_str().to_owned();
    name.push(".uefi");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::machine::Accelerator;

    fn disk() -> Disk {
        Disk {
            disk: "win11.qcow2".into(),
            iso: Some("a,b.iso".into()),
            package: Some("/package".into()),
            firmware: ("OVMF_CODE.fd".into(), "win11.qcow2.uefi".into()),
            debugger: "127.0.0.1:5510".into(),
            display: "vnc=127.0.0.1:0".into(),
        }
    }

    fn words(disk: &Disk) -> Result<Vec<String>, String> {
        let sockets = [PathBuf::from("/tmp/gpu0")];
        let machine = Machine {
            accelerator: Accelerator::Tcg,
            memory_mib: 8192,
            processors: 2,
            windows: true,
            sockets: &sockets,
            empty_slot: None,
        };
        Ok(line(&machine, disk)?.0.iter().map(|word| word.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn the_guest_has_gpu_display_disks_debugger_and_package() {
        let words = words(&disk()).unwrap();
        for expected in [
            "if=pflash,format=raw,readonly=on,file=OVMF_CODE.fd",
            "if=pflash,format=raw,file=win11.qcow2.uefi",
            "if=none,id=disk,file=win11.qcow2,format=qcow2",
            "if=none,id=iso,file=a,,b.iso,media=cdrom,readonly=on",
            "if=none,id=package,format=raw,readonly=on,file=fat:/package",
            "VGA",
            "socket,id=debugger,host=127.0.0.1,port=5510,server=on,wait=off",
            "chardev:debugger",
        ] {
            assert!(words.iter().any(|word| word == expected), "{expected}: {words:?}");
        }
        assert!(words.iter().any(|word| word.contains("vfio-user-pci") && word.contains("/tmp/gpu0")), "{words:?}");
    }

    #[test]
    fn what_is_not_given_is_not_there() {
        let words = words(&Disk { iso: None, package: None, disk: "a.img".into(), ..disk() }).unwrap();
        assert!(!words.iter().any(|word| word.contains("cdrom") || word.contains("fat:")), "{words:?}");
        assert!(words.iter().any(|word| word.ends_with("file=a.img,format=raw")), "{words:?}");
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        for address in ["", "5510", ":5510", "127.0.0.1:x", "a,b:5510", "127.0.0.1:70000"] {
            let error = words(&Disk { debugger: address.into(), ..disk() }).unwrap_err();
            assert!(error.contains("debugger"), "{address}: {error}");
        }
    }

    #[test]
    fn variables_are_copied_once_from_beside_the_firmware() {
        let folder = std::env::temp_dir().join(format!("campanile-variables-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (code, disk) = (folder.join("OVMF_CODE_4M.fd"), folder.join("d.img"));
        fs::write(folder.join("OVMF_VARS_4M.fd"), "template").unwrap();
        let path = variables(&code, &disk).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "template");
        fs::write(&path, "changed").unwrap();
        assert_eq!(fs::read_to_string(variables(&code, &disk).unwrap()).unwrap(), "changed");
        assert!(variables(Path::new("firmware.fd"), &folder.join("e.img")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
