//! Ends that the socket does not tell of, and programs that may open no more descriptors.

use std::io::Read;
use std::process::{Child, Stdio};

use testbed::programs::{Event, PROGRAMS};

use crate::programs::{clean, program, text};
use crate::served::{Served, until};

/// Starts the program in a mode, and waits for what it says first.
fn started(served: &Served, mode: &str, says: &str) -> Option<Child> {
    let program = program("kmt/tests/c/ends.c")?;
    let mut command = clean(&program);
    command.arg(mode).env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a start");
    let mut said = vec![0; says.len()];
    child.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
    assert_eq!(text(&said), says);
    Some(child)
}

fn left(served: &Served) -> usize {
    served.events().iter().filter(|event| matches!(event, Event::Left { .. })).count()
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("an end").success());
}

/// A child by fork has a copy of the socket, so that nothing is heard at it when its parent becomes another program.
#[test]
fn a_program_that_becomes_another_one_has_ended_although_a_child_has_its_socket() {
    let served = Served::new("inherited", PROGRAMS);
    let before = served.holdings();
    let Some(again) = started(&served, "exec", "served\n") else { return };
    until("what it was has ended", || left(&served) == 1);
    end(again);
    until("what it became has ended, too", || left(&served) == 2);
    let Some(silent) = started(&served, "quiet", "silent\n") else { return };
    until("what became a stranger has ended", || left(&served) == 3);
    assert_eq!(served.holdings(), before);
    end(silent);
    assert!(!served.events().iter().any(|event| matches!(event, Event::Ended { .. })), "{:?}", served.events());
}

/// Memory is shown by a descriptor that is sent, for which a program needs no place among those that it has open.
#[test]
fn a_program_that_may_open_no_more_descriptors_locks_memory_and_goes_on() {
    let served = Served::new("full-table", PROGRAMS);
    let Some(full) = started(&served, "full", "done\n") else { return };
    end(full);
    until("it has ended", || left(&served) == 1);
}
