//! Limits of the host that a machine meets: lines that nobody reads, short files, and few descriptors.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;

use remote::channel::{Channel, Received};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::served::{Machine, campanile, scratch};

/// More than standard error has place for: the machine serves on, and ends when it is to, beside lines that were not read. Those that are lost are told of.
#[test]
fn a_machine_serves_and_ends_although_nobody_reads_what_it_says() {
    const REFUSED: usize = 1500;
    let mut machine = Machine::serve("unread", &["--quiet"]);
    // SAFETY: sets the size of a pipe.
    let size = unsafe { libc::fcntl(machine.said().as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    assert_eq!(size, 4096, "{}", io::Error::last_os_error());
    for number in 0..REFUSED {
        let rude = Channel::connect(&machine.socket).expect("it listens");
        // No hello, and a machine that has no place for lines says so to nobody.
        rude.send(&[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None).expect("it is there");
        assert!(matches!(rude.receive(), Ok(Received::Message(words, None)) if words[0] == 17), "{number}");
    }
    machine.terminate();
    machine.ends();
    let (code, said) = machine.stop();
    assert_eq!(code, Some(0));
    assert!(said.lines().count() < REFUSED && said.contains("is not served"), "{said}");
}

/// It says why, as for other limits, and leaves no socket.
#[test]
fn a_machine_that_may_have_no_long_files_names_the_limit() {
    const MIB: Option<u64> = Some(1 << 20);
    let socket = scratch("short");
    let mut command = campanile();
    command.args(["machine", "--socket"]).arg(&socket);
    let limit = || Ok(setrlimit(Resource::Fsize, Rlimit { current: MIB, maximum: MIB })?);
    // SAFETY: between fork and exec it makes one call of the host, and takes no memory.
    unsafe { command.pre_exec(limit) };
    let output = command.output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{}: {said}", output.status);
    assert!(said.contains("`ulimit -f`"), "{said}");
    assert!(File::open(&socket).is_err_and(|error| error.kind() == io::ErrorKind::NotFound), "no socket stays");
}

/// The host's addresses of sockets have 108 bytes with the zero at the end, and `.control` stands behind the path.
#[test]
fn a_path_that_is_too_long_is_refused_with_the_limit_and_the_longest_one_is_served() {
    let folder = std::env::temp_dir().join(format!("campanile-long-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let socket = |bytes: usize| folder.join("s".repeat(bytes - folder.as_os_str().len() - 1));
    for bytes in [101, 100] {
        let refused = campanile().args(["machine", "--socket"]).arg(socket(bytes)).output().expect("a start");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{bytes}: {said}");
        assert!(said.contains("99 bytes"), "{bytes}: {said}");
    }
    let machine = Machine::serve_at(&socket(99), &["--quiet"]);
    assert_eq!(machine.stop(), (Some(0), String::new()));
    std::fs::remove_dir(folder).expect("nothing is left in it");
}

/// 72 for each program, and 768 for the machine: docs/machine.md has what they are for.
#[test]
fn a_machine_that_may_open_too_few_descriptors_for_its_programs_says_so_and_what_to_do() {
    let machine = Machine::serve_with_descriptors(1024, "few-descriptors", &["--quiet"]);
    let (code, said) = machine.stop();
    assert_eq!(code, Some(0), "{said}");
    for part in ["the host allows it 1024 descriptors, and 64 programs need 5376", "`ulimit -n`", "--programs 3\n"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let machine = Machine::serve_with_descriptors(1024, "enough-descriptors", &["--quiet", "--programs", "3"]);
    assert_eq!(machine.stop(), (Some(0), String::new()));
}
