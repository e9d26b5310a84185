//! Programs whose memory somebody else has to answer for, who does not.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use testbed::programs::{Event, Fault, PROGRAMS};

use crate::compiler::Program;
use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, is_alone, threads, until};

/// Calls that the program makes, each of which waits for a page.
const CALLS: usize = 16;

/// The program, each of whose calls waits for memory that does not come; `None` if the host lets no kernel wait for a program.
fn wait_for_memory(served: &Served, stuck: &Program, arguments: &[&str]) -> Option<Child> {
    let mut command = clean(stuck);
    command.args(arguments).env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut waiting = command.spawn().expect("a start");
    let mut said = [0; 8];
    waiting.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
    if text(&said).starts_with("refused") {
        assert!(waiting.wait().expect("an end").success());
        eprintln!(
            "calls that never end were not tried: this host has no kernel wait for a program (vm.unprivileged_userfaultfd)"
        );
        return None;
    }
    assert_eq!(text(&said), format!("{CALLS} calls"));
    Some(waiting)
}

fn threads_named(name: &str) -> usize {
    threads().iter().filter(|other| other.trim_end() == name).count()
}

fn is_served(program: &Program, served: &Served) {
    let output = clean(program).arg("50").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "50 submissions by doorbell, 0 notified, every byte verified\n");
}

fn left(served: &Served) -> usize {
    served.events().iter().filter(|event| matches!(event, Event::Left { .. })).count()
}

/// Calls that wait for memory of their program hold nothing that another program needs, and end with it.
#[test]
fn calls_whose_arguments_never_come_hold_nobody_up_and_end_with_their_program() {
    if !is_alone("stuck::calls_whose_arguments_never_come_hold_nobody_up_and_end_with_their_program") {
        return;
    }
    let (Some(stuck), Some(program)) = (program("kmt/tests/c/stuck.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("stuck", PROGRAMS);
    let before = served.holdings();
    let Some(mut waiting) = wait_for_memory(&served, &stuck, &[]) else { return };
    until("each call waits", || threads_named("program's copy") >= CALLS);
    is_served(&program, &served);
    drop(waiting.stdin.take());
    assert!(waiting.wait().expect("an end").success());
    until("both have left", || left(&served) == 2);
    assert_eq!(served.holdings(), before);
}

/// A child of the program, which has the descriptor that answers for its memory, outlives it: the host goes on waiting for the pages, and the machine does not. It says so, the place is free
/// again, and nothing of the program keeps the adapter from D3.
#[test]
fn a_program_that_has_ended_and_whose_memory_another_process_answers_for_keeps_nothing() {
    if !is_alone("stuck::a_program_that_has_ended_and_whose_memory_another_process_answers_for_keeps_nothing") {
        return;
    }
    let (Some(stuck), Some(program)) = (program("kmt/tests/c/stuck.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("dead", 1);
    let before = served.holdings();
    let Some(mut dead) = wait_for_memory(&served, &stuck, &["elsewhere"]) else { return };
    until("each call waits", || threads_named("program's copy") >= CALLS);
    let held_by_the_child = dead.stdin.take();
    dead.kill().expect("it runs");
    assert_eq!(dead.wait().expect("an end").signal(), Some(libc::SIGKILL));
    until("it has left", || left(&served) == 1);
    // A call may have been on its way to the page for which the others wait.
    let given_up = served.events().iter().find_map(|event| match event {
        Event::GivenUp { copies, pid, .. } if *pid == dead.id() as i32 => Some(*copies),
        _ => None,
    });
    let given_up = given_up.expect("the machine says so");
    assert!((1..=CALLS).contains(&given_up), "{given_up}");
    assert_eq!(served.holdings(), before);
    let (machine, luid) = (served.system.machine(), served.system.luid());
    machine.power_down(luid).expect("D3");
    machine.power_up(luid).expect("D0");
    is_served(&program, &served);
    assert!(threads_named("program's copy") >= given_up, "the host waits still");
    drop(held_by_the_child);
    until("the host waits for nothing any more", || threads_named("program's copy") == 0);
}

/// The program itself goes on: it has as long for a page as for any other answer.
#[test]
fn a_program_that_withholds_memory_from_the_machine_is_killed_with_the_reason() {
    let (Some(stuck), Some(program)) = (program("kmt/tests/c/stuck.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("withheld", 2);
    let before = served.holdings();
    let Some(mut waiting) = wait_for_memory(&served, &stuck, &["elsewhere"]) else { return };
    let held_by_the_child = waiting.stdin.take();
    assert_eq!(waiting.wait().expect("an end").signal(), Some(libc::SIGKILL));
    let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Withheld, .. });
    until("the machine says why", || served.events().iter().any(ended));
    assert_eq!(served.holdings(), before);
    served.system.machine().power_down(served.system.luid()).expect("D3");
    is_served(&program, &served);
    drop(held_by_the_child);
}

/// The machine is told to stop while calls wait for pages. Their program is killed for it, the machine stops without them, and a thread for each waits on.
#[test]
fn a_machine_that_stops_gives_up_calls_whose_memory_never_comes() {
    if !is_alone("stuck::a_machine_that_stops_gives_up_calls_whose_memory_never_comes") {
        return;
    }
    let Some(stuck) = program("kmt/tests/c/stuck.c") else { return };
    let mut served = Served::new("stuck-stop", 2);
    let Some(mut waiting) = wait_for_memory(&served, &stuck, &["elsewhere"]) else { return };
    until("each call waits", || threads_named("program's copy") >= CALLS);
    let held_by_the_child = waiting.stdin.take();
    served.stop();
    assert_eq!(waiting.wait().expect("an end").signal(), Some(libc::SIGKILL));
    let events = served.events();
    let withheld = |event: &Event| matches!(event, Event::Ended { why: Fault::Withheld, .. });
    let given_up = |event: &Event| matches!(event, Event::GivenUp { copies, .. } if (1..=CALLS).contains(copies));
    assert!(events.iter().any(withheld) && events.iter().any(given_up), "{events:?}");
    assert!(threads_named("program's copy") >= 1, "the host waits still");
    drop(held_by_the_child);
    until("the host waits for nothing any more", || threads_named("program's copy") == 0);
}
