//! `cargo xtask pe` where something is missing: one sentence that says what to install. The machine is made of stand-ins, which are the
//! only programs in PATH.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A compiler that nobody has, with no standard library but the one of this machine's own target.
const RUSTC: &str = "case \"$*\" in
  -vV) echo 'rustc 9.9.9'; echo 'release: 9.9.9';;
  '--print sysroot') echo /nowhere;;
  *target-libdir*) echo /nowhere/lib;;
esac";

/// A folder of programs. Gone when the test is.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str, programs: &[(&str, &str)]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("missing-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (program, script) in programs {
            let path = folder.join(program);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    fn build(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("pe").args(arguments).env("PATH", &self.0).output().expect("the task starts")
    }

    /// The sentence with which the task fails.
    fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.build(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors.trim_end().to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const WANTED: &str = "xtask: the standard library of x86_64-pc-windows-msvc is missing; run `rustup target add \
                      x86_64-pc-windows-msvc`, or install the package rust-src of exactly 9.9.9: ";

#[test]
fn without_a_compiler_it_says_that_there_is_none() {
    let complaint = Machine::new("rustc", &[]).complaint(&[]);
    assert!(complaint.starts_with("xtask: rustc does not start: "), "{complaint}");
}

#[test]
fn without_rustup_and_apt_it_says_what_to_install() {
    let complaint = Machine::new("all", &[("rustc", RUSTC)]).complaint(&[]);
    let reason = complaint.strip_prefix(WANTED).unwrap_or_else(|| panic!("{complaint}"));
    assert!(reason.starts_with("apt-get does not start: "), "{reason}");
}

#[test]
fn a_rustup_that_fails_and_one_that_only_says_that_it_did_lead_to_the_sources() {
    for (name, rustup) in [("fails", "exit 1"), ("lies", "exit 0")] {
        let machine = Machine::new(name, &[("rustc", RUSTC), ("rustup", rustup), ("apt-get", "exit 1")]);
        let complaint = machine.complaint(&[]);
        assert!(complaint.starts_with(WANTED), "{complaint}");
        assert!(complaint.contains("apt-get indextargets"), "{complaint}");
    }
}

#[test]
fn sources_of_another_version_are_not_taken() {
    let apt = "case \"$*\" in indextargets*) echo http://mirror.invalid/debian/;; esac";
    let cache = "echo ' rust-src | 1.95.0+dfsg1-2 | mirror sid/main amd64 Packages'";
    let machine = Machine::new("version", &[("rustc", RUSTC), ("apt-get", apt), ("apt-cache", cache)]);
    for arguments in [&[][..], &["--from-source"]] {
        let complaint = machine.complaint(arguments);
        assert_eq!(complaint.strip_prefix(WANTED), Some("the package rust-src of this version is not there"));
    }
}
