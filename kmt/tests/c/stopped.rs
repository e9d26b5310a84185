//! Programs that are stopped while the machine needs something of them.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use testbed::programs::{Event, Fault, PROGRAMS};
use testbed::setup::{SystemOptions, VariantOptions};

use crate::compiler::Program;
use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, threads, until};

/// The only doorbell of the GPU is that of a program that is stopped and cannot give it up: it is killed, and the next one has the doorbell.
#[test]
fn a_program_that_is_stopped_with_what_another_needs_is_killed() {
    let Some(program) = program(SUBMISSIONS) else { return };
    let one: VariantOptions = "doorbells=1".parse().expect("a variant");
    let options = SystemOptions { variant: one.in_use().0, ..SystemOptions::default() };
    let served = Served::with("stopped", PROGRAMS, &options);
    let start = |submissions: &str| {
        let mut command = clean(&program);
        command.arg(submissions).env("CAMPANILE_MACHINE", &served.socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let mut stopped = start("1000000");
    until("it works", || served.is_at_work(stopped.id()));
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(stopped.id() as i32, libc::SIGSTOP) }, 0);
    let output = start("50").wait_with_output().expect("an end");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(out, "50 submissions by doorbell, 0 notified, every byte verified\n", "{err}");
    assert_eq!(stopped.wait().expect("an end").signal(), Some(libc::SIGKILL));
    let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Silent, .. });
    until("the machine says why", || served.events().iter().any(ended));
}

/// A program that has memory of the GPU locked, which is not wanted resident.
pub(crate) fn hold(holds: &Program, served: &Served, arguments: &[&str]) -> Child {
    let mut command = clean(holds);
    command.args(arguments).env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a start");
    let mut said = [0; 5];
    child.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
    assert_eq!(text(&said), "held\n");
    child
}

/// A program that takes all memory of the GPU that it can get.
pub(crate) fn fill(holds: &Program, served: &Served) -> Child {
    let mut command = clean(holds);
    command.arg("fill").env("CAMPANILE_MACHINE", &served.socket).stdout(Stdio::piped()).spawn().expect("a start")
}

/// A machine whose GPU has little memory.
pub(crate) fn small(name: &str) -> Served {
    let small: VariantOptions = "vram=64M".parse().expect("a variant");
    let options = SystemOptions { variant: small.in_use().0, ..SystemOptions::default() };
    Served::with(name, PROGRAMS, &options)
}

/// Memory that a program has locked moves for another one: nothing of it is lost. A program that is stopped then is waited for by the one that needs its place, and by nobody else.
#[test]
fn a_program_that_is_stopped_with_locked_memory_holds_up_the_one_that_needs_it_and_nobody_else() {
    let (Some(holds), Some(program)) = (program("kmt/tests/c/holds.c"), program(SUBMISSIONS)) else { return };
    let served = small("holds");
    let fill = || fill(&holds, &served);
    let evicted =
        |served: &Served| served.system.machine().residency(served.system.luid()).expect("an adapter").evicted;
    let said = |child: Child| text(&child.wait_with_output().expect("an end").stdout);
    let holder = hold(&holds, &served, &[]);
    let moved = evicted(&served);
    assert_eq!(said(fill()), "filled\n");
    assert!(evicted(&served) > moved, "its memory has moved");
    assert_eq!(said(holder), "kept\n");
    let left = |event: &Event| matches!(event, Event::Left { .. });
    until("both have left", || served.events().iter().filter(|event| left(event)).count() == 2);
    let before = served.holdings();
    let mut holder = hold(&holds, &served, &[]);
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(holder.id() as i32, libc::SIGSTOP) }, 0);
    let mut filling = fill();
    until("the program is asked to wait with its stores", || threads().iter().any(|name| name == "vidmm-asks\n"));
    let mut jobs = 0;
    while filling.try_wait().expect("a child").is_none() {
        let output = clean(&program).arg("5").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
        assert_eq!(text(&output.stdout), "5 submissions by doorbell, 0 notified, every byte verified\n");
        jobs += 1;
    }
    assert!(jobs > 1, "another program was served while one did not answer");
    assert_eq!(said(filling), "filled\n");
    assert_eq!(holder.wait().expect("an end").signal(), Some(libc::SIGKILL));
    let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Silent, .. });
    until("the machine says why", || served.events().iter().any(ended));
    until("nothing is left of it", || served.holdings() == before);
}

/// The adapter enters D3 and leaves it while two programs are stopped that have memory of the GPU locked: it waits for both at once and no longer than for one answer, and others go on.
#[test]
fn programs_that_are_stopped_with_locked_memory_are_killed_when_the_adapter_enters_d3() {
    let (Some(holds), Some(program)) = (program("kmt/tests/c/holds.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("d3", PROGRAMS);
    let before = served.holdings();
    let holders: Vec<Child> = (0..2).map(|_| hold(&holds, &served, &[])).collect();
    for holder in &holders {
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(holder.id() as i32, libc::SIGSTOP) }, 0);
    }
    let (machine, luid) = (served.system.machine(), served.system.luid());
    machine.power_down(luid).expect("D3");
    for mut holder in holders {
        assert_eq!(holder.wait().expect("an end").signal(), Some(libc::SIGKILL));
    }
    let ended = |event: &&Event| matches!(event, Event::Ended { why: Fault::Silent, .. });
    until("the machine says why", || served.events().iter().filter(ended).count() == 2);
    machine.power_up(luid).expect("D0");
    let output = clean(&program).arg("5").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "5 submissions by doorbell, 0 notified, every byte verified\n");
    until("nothing is left of them", || served.holdings() == before);
}

/// Sends a signal to a child that was not waited for yet.
fn signal(child: &Child, signal: i32) {
    // SAFETY: takes numbers.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Two programs take the only doorbell of the GPU from each other, and each is stopped anywhere in its calls and in the answers that the machine waits for, and goes on in time.
#[test]
fn programs_that_are_stopped_anywhere_and_go_on_lose_nothing() {
    const STOPS: u64 = 60;
    let Some(program) = program(SUBMISSIONS) else { return };
    let one: VariantOptions = "doorbells=1".parse().expect("a variant");
    let options = SystemOptions { variant: one.in_use().0, ..SystemOptions::default() };
    let served = Served::with("goes-on", PROGRAMS, &options);
    let before = served.holdings();
    let start = || {
        let mut command = clean(&program);
        command.arg("6000").env("CAMPANILE_MACHINE", &served.socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let mut children = [start(), start()];
    until("both work", || children.iter().all(|child| served.is_at_work(child.id())));
    let (mut seed, mut stops) = (24301u64, 0);
    while stops < STOPS && children.iter_mut().all(|child| child.try_wait().expect("a child").is_none()) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let child = &children[(seed >> 60) as usize % 2];
        std::thread::sleep(std::time::Duration::from_micros(seed >> 50));
        signal(child, libc::SIGSTOP);
        std::thread::sleep(std::time::Duration::from_micros((seed >> 47) & 0xffff));
        signal(child, libc::SIGCONT);
        stops += 1;
    }
    assert!(stops > 0, "none was stopped at work");
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(out, "6000 submissions by doorbell, 0 notified, every byte verified\n", "{}: {err}", output.status);
    }
    until("nothing is left of them", || served.holdings() == before);
}
