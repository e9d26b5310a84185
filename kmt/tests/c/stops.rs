//! Machines that stop beside programs that come, and beside one that does nothing any more.

use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use remote::channel::{Channel, Received};
use remote::thunks::DECLARATIONS;
use remote::wire::{FromMachine, FromProgram, Hello, Refusal, VERSION};
use testbed::programs::{End, Event, Fault, MachineServer, Observer, PROGRAMS, Stop};
use testbed::setup::{System, SystemOptions};

use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, until};
use crate::stopped::hold;

/// Time in which a machine has to have stopped, on a host that has other work.
const LIMIT: Duration = Duration::from_secs(60);

/// They have connected and said hello, and the machine has not looked yet when it is told to stop.
#[test]
fn who_connects_in_the_last_moment_of_a_machine_is_told_that_it_is_stopping() {
    const WAITING: usize = 32;
    let system = System::boot(&SystemOptions::default()).expect("a machine");
    let socket = std::env::temp_dir().join(format!("campanile-last-moment-{}.sock", std::process::id()));
    let stop = Stop::new().expect("a descriptor");
    let server = MachineServer::bind(&socket, PROGRAMS, stop.clone()).expect("a socket");
    let hello =
        Hello { version: VERSION, declarations: DECLARATIONS, mark_address: 0, mark: 0, name: [0; 40], earlier: 0 };
    let connect = |_| {
        let channel = Channel::connect(&socket).expect("it listens");
        channel.send(&FromProgram::Hello(hello).to_words(), None).expect("it takes a message");
        channel
    };
    let waiting: Vec<_> = (0..WAITING).map(connect).collect();
    stop.stop();
    let events = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&events);
    let observer: Observer = Arc::new(move |event: &Event| noted.lock().unwrap().push(event.clone()));
    assert_eq!(server.serve(system.machine(), &observer).expect("it could wait"), 0);
    for channel in &waiting {
        let Ok(Received::Message(words, None)) = channel.receive() else { panic!("no answer") };
        assert_eq!(FromMachine::from_words(&words), Ok(FromMachine::Refused(Refusal::Stopping)));
        assert!(matches!(channel.receive(), Ok(Received::Closed)));
    }
    let refused = |event: &&Event| matches!(event, Event::Refused { why: Refusal::Stopping, .. });
    assert_eq!(events.lock().unwrap().iter().filter(refused).count(), WAITING);
    let late = Channel::connect(&socket).map(drop).expect_err("nobody listens any more");
    assert_eq!(late.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// Each of them is served, refused, or too late, and says which.
#[test]
fn programs_that_come_while_a_machine_stops_end_and_say_why() {
    let Some(program) = program(SUBMISSIONS) else { return };
    let mut served = Served::new("last-programs", PROGRAMS);
    let start = |_| {
        let mut command = clean(&program);
        command.arg("100000000").env("CAMPANILE_MACHINE", &served.socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let mut children: Vec<Child> = (0..4).map(start).collect();
    until("one is served", || !served.events().is_empty());
    children.extend((0..20).map(start));
    served.stop();
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let told = text(&output.stderr);
        let why = ["0xc00002b6", Refusal::Stopping.text(), "no machine at"];
        assert!(!output.status.success() && why.iter().any(|why| told.contains(why)), "{}: {told}", output.status);
    }
}

/// Threads of a child.
fn threads_of(child: &Child) -> Vec<libc::pid_t> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("it is there");
    tasks.map(|task| task.unwrap().file_name().to_string_lossy().parse().unwrap()).collect()
}

/// The status of a thread that this one traces, when it has changed.
fn wait_for(thread: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the place for the status lives across the call.
    assert_eq!(unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) }, thread);
    status
}

/// Stops a child as a debugger does, all of its threads, which do nothing then until they are let go on. The answer is the threads, whose ends are this one's to take.
fn trace(child: &Child) -> Vec<libc::pid_t> {
    let none = std::ptr::null_mut::<libc::c_void>();
    let threads = threads_of(child);
    for thread in &threads {
        // SAFETY: neither request has an address that is used.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, *thread, none, none) }, 0, "a child may be traced");
        // SAFETY: as above.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, *thread, none, none) }, 0);
        let status = wait_for(*thread);
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
    }
    threads
}

/// Takes the ends of the threads of a child that has been killed, which is at an end with the last.
fn end(child: Child, threads: &[libc::pid_t]) {
    let leader = child.id() as libc::pid_t;
    threads.iter().filter(|thread| **thread != leader).for_each(|thread| assert_eq!(wait_for(*thread), libc::SIGKILL));
    assert_eq!(wait_for(leader), libc::SIGKILL);
}

/// The machine needs an answer of one, which is killed although its threads stay until the debugger has seen their ends, and none of the other.
#[test]
fn a_machine_stops_in_time_beside_programs_that_are_traced_and_stopped() {
    let Some(holds) = program("kmt/tests/c/holds.c") else { return };
    let mut served = Served::new("traced", PROGRAMS);
    let killed = hold(&holds, &served, &[]);
    let threads = trace(&killed);
    assert!(threads.len() > 1, "one hears the machine");
    let (machine, luid) = (served.system.machine().clone(), served.system.luid());
    machine.power_down(luid).expect("D3");
    let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Silent, end: End::Killed, .. });
    until("the machine says why", || served.events().iter().any(ended));
    machine.power_up(luid).expect("D0");
    let mut traced = hold(&holds, &served, &[]);
    let threads_of_traced = trace(&traced);
    let (tell, told) = mpsc::channel();
    let stopping = std::thread::spawn(move || {
        served.stop();
        tell.send(()).expect("somebody listens");
        served
    });
    told.recv_timeout(LIMIT).expect("the machine stops in time");
    let served = stopping.join().expect("no panic");
    let left = |event: &&Event| matches!(event, Event::Left { .. });
    assert_eq!(served.events().iter().filter(left).count(), 1, "{:?}", served.events());
    end(killed, &threads);
    traced.kill().expect("it is there still");
    end(traced, &threads_of_traced);
}
