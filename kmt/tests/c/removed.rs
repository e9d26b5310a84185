//! The end of a machine as its programs see it: calls, memory and fences.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use testbed::programs::PROGRAMS;
use testbed::setup::{AdapterOptions, SystemOptions};

use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, until};

/// Anywhere in the work of four programs: none takes work for done that was not.
#[test]
fn a_machine_that_stops_is_a_device_that_was_removed() {
    let Some(program) = program(SUBMISSIONS) else { return };
    for _ in 0..8 {
        let mut served = Served::new("stops", PROGRAMS);
        let start = |_| {
            let mut command = clean(&program);
            command.arg("100000000").env("CAMPANILE_MACHINE", &served.socket);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
        };
        let children: Vec<Child> = (0..4).map(start).collect();
        until("all work", || children.iter().all(|child| served.is_at_work(child.id())));
        served.stop();
        for child in children {
            let output = child.wait_with_output().expect("an end");
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(!output.status.success() && err.contains("0xc00002b6"), "{}: {out}{err}", output.status);
        }
    }
}

/// Also when the adapter and the machine are gone.
#[test]
fn memory_stays_as_it_was_when_the_machine_has_stopped() {
    let Some(locked) = program("kmt/tests/c/locked.c") else { return };
    let mut served = Served::new("locked", PROGRAMS);
    let mut command = clean(&locked);
    command.env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a start");
    let mut said = [0; 6];
    child.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
    assert_eq!(text(&said), "waits\n");
    served.stop();
    drop(served);
    child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(text(&output.stdout), "0xc00002b6, 65536 65536 65536 bytes, fence 3\n");
}

/// Its program has its devices removed, and whoever comes next finds the other adapter.
#[test]
fn one_of_two_adapters_that_is_pulled_out_takes_its_programs_alone() {
    let Some(program) = program(SUBMISSIONS) else { return };
    let options = SystemOptions { others: vec![AdapterOptions::default()], ..SystemOptions::default() };
    let mut served = Served::with("two", PROGRAMS, &options);
    let start = |socket: &Path, submissions: &str| {
        let mut command = clean(&program);
        command.arg(submissions).env("CAMPANILE_MACHINE", socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let works = start(&served.socket, "100000000");
    until("it works", || served.is_at_work(works.id()));
    served.system.pull_out(0).expect("it is there");
    served.system.notice_removal(0).expect("it has gone");
    let output = works.wait_with_output().expect("an end");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success() && err.contains("0xc00002b6"), "{}: {out}{err}", output.status);
    let output = start(&served.socket, "50").wait_with_output().expect("an end");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(out, "50 submissions by doorbell, 0 notified, every byte verified\n", "{err}");
}
