//! A program that keeps what others have made which have ended.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testbed::programs::{Event, PROGRAMS};

use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, until};

/// Each of the others makes few enough for its own share, which is 48 descriptors at least.
const EACH: u64 = 16;

/// The share of descriptors that docs/machine.md promises to each of so many programs.
fn share(programs: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives across the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    (limit.rlim_cur.saturating_sub(768) / programs).saturating_sub(24).clamp(48, 1024)
}

#[test]
fn a_program_that_keeps_what_others_made_which_have_ended_has_no_more_than_its_share() {
    let (Some(keeps), Some(program)) = (program("kmt/tests/c/keeps.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("keeps", PROGRAMS);
    let before = served.holdings();
    let share = share(PROGRAMS as u64);
    let others = share / EACH + 2;
    let mut command = clean(&keeps);
    command.args([others.to_string(), EACH.to_string()]).env("CAMPANILE_MACHINE", &served.socket);
    let mut keeping = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a start");
    let mut said = String::new();
    BufReader::new(keeping.stdout.take().expect("piped")).read_line(&mut said).expect("a line");
    assert_eq!(said, format!("kept {share}, refused {}\n", others * EACH - share));
    let output = clean(&program).arg("20").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "20 submissions by doorbell, 0 notified, every byte verified\n");
    drop(keeping.stdin.take());
    assert!(keeping.wait().expect("an end").success());
    let left = |event: &&Event| matches!(event, Event::Left { .. });
    let all = others as usize + 2;
    until("all have left", || served.events().iter().filter(left).count() == all);
    assert_eq!(served.holdings(), before);
}
