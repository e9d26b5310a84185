//! Files and outputs of every kind that a user may name: results that cannot be written are failures, and files without an end are refused or announced.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const EXIT_INPUT: i32 = 2;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

/// A device on which nothing can be written.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("the host has /dev/full")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(folder).expect("the folder of temporary files can be made");
    folder.join(format!("{name}-{}", std::process::id()))
}

/// A named pipe, removed at the end.
struct Pipe(PathBuf);

impl Pipe {
    fn new(name: &str) -> Self {
        let path = scratch(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo starts");
        assert!(made.success());
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("the path is UTF-8")
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Commands that print a result.
const RESULTS: [&[&str]; 8] = [
    &["--version"],
    &["--help"],
    &["top", "--help"],
    &["run", "--no-progress", "--json", "Cargo.toml"],
    &["run", "--no-progress", "Cargo.toml"],
    &["hlk", "--list", "--json"],
    &["hlk", "--filter", "Capabilities.", "--json"],
    &["hlk", "--filter", "Capabilities.", "--json-lines"],
];

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    for arguments in RESULTS {
        let output = command(arguments).stdout(full()).output().expect("the command starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(EXIT_INPUT), "{arguments:?}: {said}");
        assert_eq!(said.matches("standard output: No space left on device").count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn a_standard_error_that_cannot_be_written_changes_no_exit_code() {
    let failing =
        |arguments: &[&str]| command(arguments).stderr(full()).output().expect("the command starts").status.code();
    assert_eq!(failing(&["run", "--no-progress", "Cargo.toml"]), Some(0));
    assert_eq!(failing(&["run", "no-such-file"]), Some(EXIT_INPUT));
    assert_eq!(failing(&["timeline", "no-such-file", "--out", "no-such-folder/page.html"]), Some(EXIT_INPUT));
    assert_eq!(failing(&["debug", "decode", "no-such-file"]), Some(EXIT_INPUT));
    assert_eq!(failing(&["hlk", "--filter", "NoSuchCase"]), Some(EXIT_INPUT));
    for arguments in RESULTS {
        let status = command(arguments).stdout(full()).stderr(full()).status().expect("the command starts");
        assert_eq!(status.code(), Some(EXIT_INPUT), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_goes_away_has_seen_what_it_wanted() {
    let mut child = command(&["hlk", "--list"]).stdout(Stdio::piped()).spawn().expect("the command starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("the command ends").code(), Some(0));
}

#[test]
fn what_is_no_file_is_refused_as_a_trace_and_as_debug_data() {
    let pipe = Pipe::new("no-trace");
    let sparse = scratch("sparse-trace");
    File::create(&sparse).and_then(|file| file.set_len(1 << 40)).expect("a sparse file can be made");
    let sparse_name = sparse.to_str().expect("the path is UTF-8");
    let files = [
        ("/dev/zero", "is a device, not a file"),
        (pipe.name(), "is a pipe, not a file"),
        (sparse_name, "the most that it may have"),
        ("/", "is a directory, not a file"),
    ];
    for (file, reason) in files {
        for arguments in [&["timeline", file, "--out", "unused.html"][..], &["debug", "decode", file]] {
            let output = run(arguments);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(EXIT_INPUT), "{arguments:?}: {said}");
            assert!(said.contains(file) && said.contains(reason), "{arguments:?}: {said}");
        }
    }
    std::fs::remove_file(sparse).expect("the sparse file is there");
}

#[test]
fn an_empty_trace_is_said_to_be_empty() {
    let path = scratch("empty-trace");
    File::create(&path).expect("an empty file can be made");
    let output = run(&["timeline", path.to_str().expect("the path is UTF-8"), "--out", "unused.html"]);
    std::fs::remove_file(path).expect("the empty file is there");
    assert_eq!(output.status.code(), Some(EXIT_INPUT));
    assert!(text(&output.stderr).contains("is empty"), "{}", text(&output.stderr));
}

#[test]
fn a_pipe_is_streamed_and_the_user_is_told_what_is_waited_for() {
    let pipe = Pipe::new("input");
    let mut child = command(&["run", "--no-progress", pipe.name()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut writer = OpenOptions::new().write(true).open(&pipe.0).expect("the command opens the pipe");
    writer.write_all(b"some bytes").expect("the command reads the pipe");
    drop(writer);
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it is text");
    child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("it is text");
    assert_eq!(child.wait().expect("the command ends").code(), Some(0), "{err}");
    assert!(err.contains("is a pipe; waiting for a program that writes to it"), "{err}");
    assert!(out.contains("every byte verified"), "{out}");
}

#[test]
fn an_image_of_linux_is_called_by_its_name() {
    let output = run(&["--driver", "/bin/sh", "run", "Cargo.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(EXIT_INPUT), "{said}");
    assert!(said.contains("it is an ELF file, as Linux has them"), "{said}");
}
