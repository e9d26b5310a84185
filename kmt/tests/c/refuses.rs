//! Programs that do not let go of memory of the machine.

use std::os::unix::process::ExitStatusExt;
use std::process::Child;

use testbed::programs::{Event, Fault, PROGRAMS};

use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, until};
use crate::stopped::{fill, hold, small};

/// By malice, by a limit, or because they have as many mappings as the host allows.
#[test]
fn a_program_whose_host_refuses_to_take_its_doorbell_back_is_killed_with_the_reason_and_nobody_else_is() {
    let (Some(refuses), Some(program)) = (program("kmt/tests/c/refuses.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("refuses", PROGRAMS);
    let before = served.holdings();
    for (way, error) in
        [("seal", libc::EPERM), ("filter", libc::EPERM), ("limit", libc::ENOMEM), ("full", libc::ENOMEM)]
    {
        let mut command = clean(&refuses);
        let output = command.args(["5", way]).env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        if out.ends_with("not sealed\n") {
            eprintln!("{way} was not tried: this host seals no memory (mseal, from Linux 6.10 on)");
            continue;
        }
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{way}: {}: {out}{err}", output.status);
        let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Refused(code), .. } if *code == error);
        until("the machine says why", || served.events().last().is_some_and(ended));
        until("nothing is left of it", || served.holdings() == before);
    }
    let output = clean(&program).arg("20").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "20 submissions by doorbell, 0 notified, every byte verified\n");
}

/// It has memory of the GPU locked, which somebody else needs the place of, or which leaves the GPU in D3.
#[test]
fn a_program_that_refuses_to_wait_while_its_memory_moves_is_killed_and_keeps_nobody_out_and_no_adapter_from_d3() {
    let Some(holds) = program("kmt/tests/c/holds.c") else { return };
    let served = small("no-move");
    let before = served.holdings();
    let is_killed = |mut holder: Child, count: usize| {
        assert_eq!(holder.wait().expect("an end").signal(), Some(libc::SIGKILL));
        let refused = |event: &&Event| matches!(event, Event::Ended { why: Fault::Refused(libc::EPERM), .. });
        until("the machine says why", || served.events().iter().filter(refused).count() == count);
        until("nothing is left of it", || served.holdings() == before);
    };
    let holder = hold(&holds, &served, &["filter"]);
    let (machine, luid) = (served.system.machine(), served.system.luid());
    machine.power_down(luid).expect("D3");
    machine.power_up(luid).expect("D0");
    is_killed(holder, 1);
    let holder = hold(&holds, &served, &["filter"]);
    assert!(fill(&holds, &served).wait().expect("an end").success());
    is_killed(holder, 2);
}

/// The program is the machine, which cannot go on without it.
#[test]
fn a_machine_whose_own_program_seals_a_doorbell_stops_and_does_not_blame_the_driver() {
    let Some(refuses) = program("kmt/tests/c/refuses.c") else { return };
    let output = clean(&refuses).args(["5", "seal"]).output().expect("a start");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    if out.ends_with("not sealed\n") {
        eprintln!("this was not tried: the host seals no memory (mseal, from Linux 6.10 on)");
        return;
    }
    assert!(err.contains("no fault of the driver"), "{}: {out}{err}", output.status);
}
