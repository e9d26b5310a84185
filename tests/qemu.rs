//! `campanile qemu` that is ended, or whose QEMU or server ends: no process is left, and the user is told. QEMU is a script here; the real one
//! is run by `cargo xtask test`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A folder, removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    /// With a QEMU that does `script`, and what else a guest takes.
    fn new(name: &str, script: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("campanile-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let scratch = Self(folder);
        let modules = ["vfio.ko", "vfio_iommu_type1.ko", "vfio-pci-core.ko", "vfio-pci.ko"];
        for file in ["disk.img", "OVMF_CODE.fd", "OVMF_VARS.fd"].into_iter().chain(modules) {
            fs::write(scratch.path(file), [0]).unwrap();
        }
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *vfio-user-pci,help*) echo socket=; exit 0;; esac\ncd '{}'\necho \"$*\" > line\necho $$ > started\n\
             mv started pid\n{script}\n",
            scratch.0.display()
        );
        fs::write(scratch.path("qemu"), text).unwrap();
        fs::set_permissions(scratch.path("qemu"), fs::Permissions::from_mode(0o755)).unwrap();
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The pid of QEMU, which has started.
    fn qemu(&self) -> Pid {
        until("QEMU has started", || self.path("pid").is_file());
        Pid::from_raw(fs::read_to_string(self.path("pid")).unwrap().trim().parse().unwrap()).unwrap()
    }

    /// `campanile qemu` with these arguments.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
        command.args(["qemu", "--accelerator", "tcg", "--device-variant", "vram=64M", "--qemu"]).arg(self.path("qemu"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A guest from its disk.
    fn start_disk(&self) -> Child {
        let [disk, firmware] = ["disk.img", "OVMF_CODE.fd"].map(|name| self.path(name).display().to_string());
        self.start(&["--disk", &disk, "--firmware", &firmware])
    }

    /// The Linux guest, which needs the Windows images.
    fn start_linux(&self) -> Child {
        let image = testbed::setup::shipped("campanile_kmd.sys");
        assert!(image.is_file(), "{} is missing; run `cargo xtask pe` first", image.display());
        self.start(&["--kernel", "/bin/true", "--modules", &self.0.display().to_string(), "--filter", "NativeFence"])
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits for what must happen, a minute at most.
fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("not within a minute: {what}");
}

/// A process that nobody has waited for yet is none any more.
fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// The folder of a run.
fn folder(campanile: u32) -> PathBuf {
    std::env::temp_dir().join(format!("campanile-qemu-{campanile}"))
}

fn end(child: Child) -> (Output, String) {
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

/// A guest that is up and takes no orders.
const IDLE: &str =
    r#"echo '{"event":"up","kernel":"0"}'; echo '{"event":"ready"}'; touch up; while :; do sleep 0.05; done"#;
/// A guest from a disk that ends in order when it is asked to.
const ORDERLY: &str = "trap 'touch flushed; exit 0' TERM INT HUP; touch up; while :; do sleep 0.05; done";

#[test]
fn a_killed_command_takes_qemu_along() {
    for disk in [false, true] {
        let scratch = Scratch::new(&format!("killed-{disk}"), IDLE);
        let mut child = if disk { scratch.start_disk() } else { scratch.start_linux() };
        let qemu = scratch.qemu();
        assert!(is_running(qemu));
        child.kill().unwrap();
        until("QEMU is gone", || !is_running(qemu));
        let _ = fs::remove_dir_all(folder(child.id()));
        end(child);
    }
}

#[test]
fn a_signal_ends_the_linux_guest_with_the_command_and_says_so() {
    for (signal, name, code) in
        [(Signal::INT, "SIGINT", 130), (Signal::TERM, "SIGTERM", 143), (Signal::HUP, "SIGHUP", 129)]
    {
        let scratch = Scratch::new(&format!("signal-{name}"), IDLE);
        let child = scratch.start_linux();
        let (qemu, folder) = (scratch.qemu(), folder(child.id()));
        assert!(folder.is_dir());
        kill_process(Pid::from_child(&child), signal).unwrap();
        let (output, told) = end(child);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(&format!("stopped by {name}, and the guest with it")), "{told}");
        assert!(!is_running(qemu) && !folder.exists(), "something is left");
    }
}

#[test]
fn a_signal_lets_a_guest_from_a_disk_end_in_order() {
    let scratch = Scratch::new("disk-signal", ORDERLY);
    let child = scratch.start_disk();
    let (qemu, folder) = (scratch.qemu(), folder(child.id()));
    until("QEMU can be asked", || scratch.path("up").is_file());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let (output, told) = end(child);
    assert_eq!(output.status.code(), Some(143), "{told}");
    assert!(scratch.path("flushed").is_file(), "QEMU was killed, not asked");
    assert!(!is_running(qemu) && !folder.exists(), "something is left");
}

#[test]
fn a_qemu_that_is_killed_is_told_of() {
    for (disk, code, words) in [(false, 1, "the guest ended"), (true, 3, "QEMU ended badly")] {
        let scratch = Scratch::new(&format!("qemu-killed-{disk}"), IDLE);
        let child = if disk { scratch.start_disk() } else { scratch.start_linux() };
        let (qemu, folder) = (scratch.qemu(), folder(child.id()));
        until("QEMU runs", || scratch.path("up").is_file());
        kill_process(qemu, Signal::KILL).unwrap();
        let (output, told) = end(child);
        let told = told + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(words) && told.contains("signal: 9"), "{told}");
        let _ = fs::remove_dir_all(folder);
    }
}

/// Path of the socket on which the GPU is served to the QEMU of this folder.
fn socket(scratch: &Path) -> PathBuf {
    let line = fs::read_to_string(scratch.join("line")).unwrap();
    let (_, rest) = line.split_once(r#""path":""#).expect("QEMU is told of a socket");
    rest.split_once('"').unwrap().0.into()
}

#[test]
fn a_server_that_drops_qemu_ends_the_guest_at_once() {
    for (disk, code) in [(false, 1), (true, 3)] {
        let scratch = Scratch::new(&format!("server-{disk}"), if disk { ORDERLY } else { IDLE });
        let child = if disk { scratch.start_disk() } else { scratch.start_linux() };
        let (qemu, folder) = (scratch.qemu(), folder(child.id()));
        until("QEMU runs", || scratch.path("up").is_file());
        let mut client = UnixStream::connect(socket(&scratch.0)).unwrap();
        client.write_all(&[0xff; 16]).unwrap();
        let (output, told) = end(child);
        let told = told + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains("QEMU was dropped by the server of its GPU"), "{told}");
        assert!(!is_running(qemu), "QEMU is left");
        let _ = fs::remove_dir_all(folder);
    }
}
