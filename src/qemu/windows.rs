//! A guest with a disk of its own, such as Windows: the GPU beside the display that it boots with, a kernel debugger, and the driver package
//! as a drive that cannot be written.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::machine::{CommandLine, Machine, escaped};

/// What such a guest has beside processor, memory and GPUs.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// Image of the guest's disk.
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

/// What the first bytes of a disk say of its format; plain bytes begin with anything else.
fn found_format(start: &[u8]) -> &'static str {
    match start {
        [b'Q', b'F', b'I', 0xfb, ..] => "qcow2",
        [b'v', b'h', b'd', b'x', b'f', b'i', b'l', b'e', ..] => "vhdx",
        _ => "raw",
    }
}

/// True if a disk can be what its name says, and a disc what it has to be. A disk of one format that is written as another is destroyed.
///
/// # Errors
/// Says which file is not what it should be, and what to do.
pub(super) fn check(disk: &Path, iso: Option<&Path>) -> Result<(), String> {
    let start = |file: &Path, advice: &str, at: u64| {
        if !file.is_file() {
            return Err(format!("{} is no file; {advice}", file.display()));
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(file).and_then(|mut opened| {
            opened.seek(SeekFrom::Start(at))?;
            opened.take(8).read_to_end(&mut bytes)
        });
        read.map(|_| bytes).map_err(|error| format!("{}: {error}", file.display()))
    };
    let bytes = start(disk, "`truncate -s 80G FILE` makes an empty disk", 0)?;
    let name = disk.display();
    if bytes.is_empty() {
        return Err(format!("{name} is empty; `truncate -s 80G {name}` makes it an empty disk of 80 GiB"));
    }
    let (named, found) = (format(disk), found_format(&bytes));
    if named != found {
        return Err(format!(
            "{name} is {found} by its contents, and {named} by its name; rename it, or make it with `qemu-img create -f {named}`"
        ));
    }
    // The volume descriptor of a disc, which those with UDF have too. [ECMA-119, 8.1]
    if let Some(iso) = iso
        && start(iso, "name the disc image to install from", 0x8001)?.get(..5) != Some(b"CD001")
    {
        return Err(format!("{} is no image of a disc", iso.display()));
    }
    Ok(())
}

/// The command line.
///
/// # Errors
/// The debugger's address is none.
pub(super) fn line(machine: &Machine<'_>, disk: &Disk) -> Result<CommandLine, String> {
    let bad = || format!("`{}` is no address of a debugger such as 127.0.0.1:5510", disk.debugger);
    let (host, port) = disk.debugger.rsplit_once(':').ok_or_else(bad)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    if port.parse::<u16>().is_err() || host.is_empty() || !host.chars().all(is_host) {
        return Err(bad());
    }
    let mut line = machine.line();
    // Windows takes the battery-backed clock for local time, where QEMU keeps UTC unless told otherwise.
    line.option("-rtc", "base=localtime");
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

/// File with the UEFI variables of a disk: the disk's name with `.uefi` behind it.
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
    fn files_that_are_not_what_they_are_called_are_named_before_anything_starts() {
        let folder = std::env::temp_dir().join(format!("campanile-disks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).unwrap();
            folder.join(name)
        };
        let refused = |disk: &Path, iso: Option<&Path>| check(disk, iso).unwrap_err();
        assert!(refused(&folder.join("none"), None).contains("truncate -s 80G"));
        assert!(refused(&file("a.img", b""), None).contains("is empty"));
        assert!(refused(&file("a.qcow2", &[0; 512]), None).contains("raw by its contents, and qcow2 by its name"));
        assert!(refused(&file("b.img", b"QFI\xfb1234"), None).contains("qcow2 by its contents, and raw by its name"));
        let fine = [file("c.qcow2", b"QFI\xfb1234"), file("d.vhdx", b"vhdxfile"), file("e.img", &[0; 512])];
        assert!(fine.iter().all(|disk| check(disk, None) == Ok(())));
        assert!(refused(&fine[2], Some(&folder.join("none"))).contains("disc image to install from"));
        assert!(refused(&fine[2], Some(&file("bad.iso", &[0; 64]))).contains("no image of a disc"));
        let disc = [vec![0; 0x8001], b"CD001\x01".to_vec()].concat();
        assert_eq!(check(&fine[2], Some(&file("good.iso", &disc))), Ok(()));
        fs::remove_dir_all(&folder).unwrap();
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
    fn the_clock_of_the_guest_is_local_time_as_windows_reads_it() {
        let words = words(&disk()).unwrap();
        assert!(words.windows(2).any(|pair| pair == ["-rtc", "base=localtime"]), "{words:?}");
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
