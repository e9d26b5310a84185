//! Which memory a program of a served machine can reach with the descriptors that it gets.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use testbed::programs::PROGRAMS;

use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, until};

/// Windows maps single pages. Here a program gets descriptors of files, and may map all of each.
#[test]
fn files_of_memory_show_a_program_nothing_of_others_and_of_the_kernel_and_take_nothing_for_them() {
    let (Some(hostile), Some(program)) = (program("kmt/tests/c/hostile.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("isolation", PROGRAMS);
    let start = |what: &str| {
        let mut command = clean(&hostile);
        command.arg(what).env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("a start")
    };
    let hear = |from: &mut Child, expected: &str| {
        let mut said = vec![0; expected.len()];
        from.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
        assert_eq!(text(&said), expected);
    };
    let tell = |to: &mut Child| to.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
    let mut looking = start("look");
    hear(&mut looking, "3 files\n");
    // It has the memory that the other one has freed, if the machine gives that to anybody.
    let mut victim = start("victim");
    hear(&mut victim, "ready\n");
    tell(&mut looking);
    hear(&mut looking, "done\n");
    tell(&mut victim);
    assert!(victim.wait().expect("an end").success());
    let output = clean(&program).arg("50").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "50 submissions by doorbell, 0 notified, every byte verified\n");
    drop(looking.stdin.take());
    assert!(looking.wait().expect("an end").success());
}

/// A doorbell is a page of the GPU. A program maps all of the files in which it has had one, and stores wherever another program has its own.
#[test]
fn doorbells_of_others_cannot_be_rung_and_stores_to_ones_own_harm_nobody() {
    const SUBMITTED: &str = "2000 submissions by doorbell, 0 notified, every byte verified\n";
    let (Some(ring), Some(program)) = (program("kmt/tests/c/ring.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("ring", PROGRAMS);
    let start = |program, submissions: &str| {
        let mut command = clean(program);
        command.arg(submissions).env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("a start")
    };
    let hear = |from: &mut Child, expected: &str| {
        let mut said = vec![0; expected.len()];
        from.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
        assert_eq!(text(&said), expected);
    };
    let alone = start(&program, "2000").wait_with_output().expect("an end");
    assert_eq!(text(&alone.stdout), SUBMITTED);
    let of_one = served.retired();
    let mut ringing = start(&ring, "20");
    hear(&mut ringing, "20 submissions by doorbell, 0 notified, every byte verified\nrung\n");
    let mut ring_all = || {
        ringing.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
        hear(&mut ringing, "rung\n");
    };
    let (doorbells, retired) = (served.doorbells(), served.retired());
    (0..10).for_each(|_| ring_all());
    assert!(served.doorbells() - doorbells <= 10, "it rings no doorbell but its own");
    assert_eq!(served.retired(), retired, "and has no work");
    let mut victim = start(&program, "2000");
    until("another program works", || served.is_at_work(victim.id()));
    ring_all();
    while victim.try_wait().expect("a child").is_none() {
        ring_all();
    }
    let output = victim.wait_with_output().expect("an end");
    assert_eq!(text(&output.stdout), SUBMITTED);
    assert_eq!(served.retired() - retired, of_one, "each submission of the other program ran once");
    drop(ringing.stdin.take());
    assert!(ringing.wait().expect("an end").success());
}

/// The files of the machine's memory that a process has mapped: their names and numbers.
fn files_of_memory(pid: u32) -> BTreeSet<(String, String)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let fields = maps.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let files = fields.filter_map(|fields| Some(((*fields.get(5)?).to_owned(), (*fields.get(4)?).to_owned())));
    files.filter(|(name, _)| name.contains("memfd:campanile")).collect()
}

/// Each has rings and values in system memory, its doorbell, and a buffer in VRAM.
#[test]
fn programs_at_work_have_no_file_of_memory_in_common() {
    let Some(program) = program(SUBMISSIONS) else { return };
    let served = Served::new("files", PROGRAMS);
    let start = || {
        let mut command = clean(&program);
        command.arg("1000000").env("CAMPANILE_MACHINE", &served.socket).stdout(Stdio::null());
        command.spawn().expect("a start")
    };
    let mut children = [start(), start()];
    let pids = children.each_ref().map(Child::id);
    until("both work", || pids.iter().all(|pid| served.is_at_work(*pid)));
    let [one, other] = pids.map(files_of_memory);
    for child in &mut children {
        child.kill().expect("it runs");
        child.wait().expect("an end");
    }
    for files in [&one, &other] {
        let named = |name: &str| files.iter().filter(|(path, _)| path.contains(name)).count();
        assert!(named("campanile-ram") == 2 && named("campanile-bar") >= 1, "{files:?}");
    }
    assert!(one.is_disjoint(&other), "{one:?} {other:?}");
}
