//! Programs in C on a machine that another process serves: this one.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use dxgkrnl::Holdings;
use testbed::programs::{Event, MachineServer, Observer, PROGRAMS, Pids, Stop};
use testbed::setup::{System, SystemOptions};

use std::os::unix::process::ExitStatusExt;

use remote::thunks::DECLARATIONS;
use remote::wire::{Refusal, VERSION};
use testbed::programs::Fault;

use crate::compiler::Program;
use crate::programs::{clean, program, text};

/// A machine at a socket.
pub(crate) struct Served {
    pub(crate) system: System,
    pub(crate) socket: PathBuf,
    stop: Stop,
    serving: Option<JoinHandle<std::io::Result<usize>>>,
    events: Arc<Mutex<Vec<Event>>>,
    pids: Pids,
}

impl Served {
    /// One for so many programs at a time.
    pub(crate) fn new(name: &str, programs: usize) -> Self {
        Self::with(name, programs, &SystemOptions::default())
    }

    pub(crate) fn with(name: &str, programs: usize, options: &SystemOptions) -> Self {
        let system = System::boot(options).expect("a machine");
        let socket = std::env::temp_dir().join(format!("campanile-{name}-{}.sock", std::process::id()));
        let stop = Stop::new().expect("a descriptor");
        let server = MachineServer::bind(&socket, programs, stop.clone()).expect("a socket");
        let (machine, events) = (system.machine().clone(), Arc::new(Mutex::new(Vec::new())));
        let pids = server.pids();
        let noted = Arc::clone(&events);
        let observer: Observer = Arc::new(move |event: &Event| noted.lock().unwrap().push(event.clone()));
        let serving = std::thread::spawn(move || server.serve(&machine, &observer));
        Self { system, socket, stop, serving: Some(serving), events, pids }
    }

    pub(crate) fn stop(&mut self) {
        self.stop.stop();
        if let Some(serving) = self.serving.take() {
            let left = serving.join().expect("no panic").expect("it could wait");
            assert!(left == 0 || std::thread::panicking(), "calls that do not end: {left}");
        }
    }

    /// What the adapter, its driver and the machine hold.
    pub(crate) fn holdings(&self) -> Holdings {
        self.system.machine().holdings(self.system.luid()).expect("an adapter")
    }

    /// Command buffers that the GPU has run to their end.
    pub(crate) fn retired(&self) -> u64 {
        self.system.counters().retired
    }

    /// Stores to doorbells that the GPU has seen.
    pub(crate) fn doorbells(&self) -> u64 {
        self.system.counters().doorbells
    }

    /// True if engines have run work of a program that has a queue for more.
    pub(crate) fn is_at_work(&self, pid: u32) -> bool {
        let told = self.system.machine().overview(self.system.luid()).expect("an adapter");
        told.processes.iter().any(|process| {
            let has_run = process.running.iter().any(|time| !time.is_zero());
            has_run && process.user_mode_queues > 0 && self.pids.of(process.id) == Some(pid as i32)
        })
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        assert_eq!(self.system.machine().bugcheck(), None);
    }
}

/// A number that an environment variable gives for a long run, see docs/machine.md; `usually` where it is not set.
fn asked(variable: &str, usually: u64) -> u64 {
    let named = std::env::var(variable).ok();
    named.map_or(usually, |text| text.parse().unwrap_or_else(|_| panic!("{variable}: {text} is no number")))
}

pub(crate) const SUBMISSIONS: &str = "examples/c/user_mode_submission.c";

#[test]
fn programs_of_other_processes_submit_by_doorbell_to_one_machine_at_once() {
    let Some(program) = program(SUBMISSIONS) else { return };
    let mut served = Served::new("many", PROGRAMS);
    let start = || {
        let mut command = clean(&program);
        command.arg("200").env("CAMPANILE_MACHINE", &served.socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let children: Vec<Child> = (0..4).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
        assert_eq!(out, "200 submissions by doorbell, 0 notified, every byte verified\n");
    }
    served.stop();
    let events = served.events();
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Connected { .. })), 4, "{events:?}");
    assert_eq!(count(|event| matches!(event, Event::Left { .. })), 4, "{events:?}");
}

#[test]
fn a_sync_file_and_a_kernel_handle_are_sent_to_another_process_which_signals_their_fences() {
    let Some(program) = program("kmt/tests/c/descriptors.c") else { return };
    let served = Served::new("descriptors", PROGRAMS);
    let output = clean(&program).env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
    assert_eq!(out, "a sync file and a kernel handle went to another process, which signalled their fences\n");
}

/// Who opens an object that another process has shared may do with it what it has asked for, and nothing that the other one may not.
#[test]
fn objects_that_another_process_has_named_or_sent_are_opened_with_rights() {
    let Some(program) = program("kmt/tests/c/rights.c") else { return };
    let served = Served::new("rights", PROGRAMS);
    let output = clean(&program).env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
    assert_eq!(out, "another process had the rights that it asked for, and none that were not shared\n");
}

/// Starts a program that passes something on to a process that it forks, kills it anywhere on the way there, and looks at what is left.
fn killed_while_it_passes_on(file: &str) {
    const KILLS: u32 = 40;
    let Some(program) = program(file) else { return };
    let served = Served::new(&file.replace(['/', '.'], "-"), PROGRAMS);
    let start = || {
        let mut command = clean(&program);
        command.env("CAMPANILE_MACHINE", &served.socket).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("a start")
    };
    let began = std::time::Instant::now();
    assert!(start().wait().expect("an end").success(), "{file}");
    let took = began.elapsed();
    let count = |is: fn(&Event) -> bool| served.events().iter().filter(|event| is(event)).count();
    let all_have_left = || {
        let came = count(|event| matches!(event, Event::Connected { .. }));
        count(|event| matches!(event, Event::Left { .. } | Event::Ended { .. })) == came
    };
    // What is left of a program is freed after it has ended.
    until("both have left", || all_have_left() && served.holdings().allocations == 0);
    let before = served.holdings();
    for part in 1..=KILLS {
        let mut owner = start();
        std::thread::sleep(took * part / KILLS);
        owner.kill().expect("it is not waited for yet");
        owner.wait().expect("an end");
    }
    until("all have left", all_have_left);
    nothing_is_left(&served, before);
    assert!(start().wait().expect("an end").success(), "{file}");
}

/// Waits until there is what there was before.
fn nothing_is_left(served: &Served, before: Holdings) {
    let began = std::time::Instant::now();
    while served.holdings() != before && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(served.holdings(), before, "what is left");
}

/// Fences, by a sync file and by a kernel handle.
#[test]
fn programs_that_are_killed_while_they_pass_fences_on_leave_nothing() {
    killed_while_it_passes_on("kmt/tests/c/descriptors.c");
}

#[test]
fn programs_that_are_killed_while_they_pass_resources_on_leave_nothing() {
    killed_while_it_passes_on("kmt/tests/c/resource.c");
}

#[test]
fn a_program_whose_signals_interrupt_whatever_waits_is_served_and_serves_itself() {
    let Some(program) = program("kmt/tests/c/interrupted.c") else { return };
    let served = Served::new("interrupted", PROGRAMS);
    for socket in [None, Some(&served.socket)] {
        let mut command = clean(&program);
        let output = command.arg("500").envs(socket.map(|path| ("CAMPANILE_MACHINE", path))).output().expect("a start");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(out, "500 submissions by doorbell, 0 notified, every byte verified\n", "{}: {err}", output.status);
    }
}

#[test]
fn a_program_asks_about_another_one_by_the_number_that_the_host_gave_it() {
    let Some(program) = program("kmt/tests/c/beside.c") else { return };
    let served = Served::new("beside", PROGRAMS);
    let output = clean(&program).env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
    assert_eq!(out, "a program was asked about by another one, until it had ended\n");
}

/// As many programs at a time as a machine serves, all of them from their start to their end, again and again. The GPU has run each submission once and
/// no other, and what is left is what there was before.
#[test]
fn sixty_four_programs_at_a_time_run_each_submission_once_and_leave_nothing() {
    const EACH: u64 = 100;
    let Some(program) = program(SUBMISSIONS) else { return };
    let served = Served::new("crowd", PROGRAMS);
    let start = || {
        let mut command = clean(&program);
        command.arg(EACH.to_string()).env("CAMPANILE_MACHINE", &served.socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let run = |count: usize| {
        let before = served.retired();
        for child in (0..count).map(|_| start()).collect::<Vec<Child>>() {
            let output = child.wait_with_output().expect("an end");
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
            assert_eq!(out, format!("{EACH} submissions by doorbell, 0 notified, every byte verified\n"));
        }
        served.retired() - before
    };
    let left = |count: usize| {
        let all = || served.events().iter().filter(|event| matches!(event, Event::Left { .. })).count();
        until(&format!("{count} programs have left"), || all() >= count);
    };
    // The first one has the machine prepare what it keeps.
    run(1);
    left(1);
    let (before, of_one) = (served.holdings(), run(1));
    assert!(of_one >= EACH, "{of_one}");
    let (mut rounds, began) = (0, std::time::Instant::now());
    let seconds = asked("CAMPANILE_STRESS_SECONDS", 0);
    while rounds == 0 || began.elapsed().as_secs() < seconds {
        rounds += 1;
        assert_eq!(run(PROGRAMS), PROGRAMS as u64 * of_one, "round {rounds}: command buffers that the GPU has run");
        left(2 + rounds * PROGRAMS);
        assert_eq!(served.holdings(), before, "round {rounds}");
    }
    println!("{rounds} rounds of {PROGRAMS} programs, {} submissions", rounds as u64 * PROGRAMS as u64 * EACH);
}

/// True in a process of its own for a test that counts what its process has: the descriptors and threads of other tests are not among them. Elsewhere the test is run in such a
/// process.
pub(crate) fn is_alone(test: &str) -> bool {
    const ALONE: &str = "CAMPANILE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("a test has a path");
    let mut command = Command::new(program);
    let output = command.args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().expect("the test starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    print!("{out}");
    false
}

/// Descriptors and threads of this process.
fn of_host() -> [usize; 2] {
    ["/proc/self/fd", "/proc/self/task"].map(|folder| std::fs::read_dir(folder).expect("a folder").count())
}

/// Names of the threads of this process, as the host has them: their first 15 bytes.
pub(crate) fn threads() -> Vec<String> {
    let folder = std::fs::read_dir("/proc/self/task").expect("a folder");
    // One that ends meanwhile has no name any more.
    folder.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()).collect()
}

/// Waits until something holds, which must not take for ever.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed().as_secs() < 60, "never: {what}; threads {:?}", threads());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Number of programs by what they did when they were killed.
#[derive(Debug, Default)]
struct Killed {
    unconnected: u64,
    connected: u64,
    /// Of those, the ones whose work an engine had begun, with more to come.
    at_work: u64,
}

impl Killed {
    fn count(&mut self, served: &Served, pid: u32) {
        let came = |event: &Event| matches!(event, Event::Connected { pid: other, .. } if *other == pid as i32);
        let is_connected = served.events().iter().any(came);
        self.connected += u64::from(is_connected);
        self.unconnected += u64::from(!is_connected);
        self.at_work += u64::from(served.is_at_work(pid));
    }
}

#[test]
fn programs_that_are_killed_anywhere_leave_nothing_and_disturb_nobody() {
    if !is_alone("served::programs_that_are_killed_anywhere_leave_nothing_and_disturb_nobody") {
        return;
    }
    let Some(program) = program(SUBMISSIONS) else { return };
    let mut served = Served::new("killed", PROGRAMS);
    let start = |submissions: &str| {
        let mut command = clean(&program);
        command.arg(submissions).env("CAMPANILE_MACHINE", &served.socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
    };
    let kills = asked("CAMPANILE_KILLS", 40);
    // The first one has the machine prepare what it keeps.
    assert!(start("1").wait_with_output().expect("an end").status.success());
    until("the first one ends", || matches!(served.events().last(), Some(Event::Left { .. })));
    // The machine tells of the end on a thread of the program's, which ends, with its descriptors, after that; and the host counts a thread a while longer than the machine does.
    until("its threads end", || !threads().iter().any(|name| name.starts_with("program")));
    let idle = of_host();
    let before = served.holdings();
    // One is at work beside all of those that are killed: the next one begins when one is done.
    const EACH: &str = "500";
    let undisturbed = |bystander: Child| {
        let output = bystander.wait_with_output().expect("an end");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
        assert_eq!(out, format!("{EACH} submissions by doorbell, 0 notified, every byte verified\n"));
    };
    let mut bystander = start(EACH);
    let (mut seed, mut killed) = (24301u64, Killed::default());
    for number in 0..kills {
        if bystander.try_wait().expect("a status").is_some() {
            undisturbed(std::mem::replace(&mut bystander, start(EACH)));
        }
        let mut victim = start("1000000");
        // Half of them anywhere between their start and their first submissions, the others in the middle of their work.
        if number % 2 == 1 {
            until("it works", || served.is_at_work(victim.id()));
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(std::time::Duration::from_micros(seed >> 48));
        killed.count(&served, victim.id());
        victim.kill().expect("it runs");
        let status = victim.wait().expect("an end");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "it went on until it was killed");
    }
    assert!(killed.at_work >= kills / 2, "{killed:?}");
    undisturbed(bystander);
    let count = |is: fn(&Event) -> bool| served.events().iter().filter(|event| is(event)).count();
    let came = || count(|event| matches!(event, Event::Connected { .. }));
    until("all have left", || count(|event| matches!(event, Event::Left { .. } | Event::Ended { .. })) == came());
    assert_eq!(served.holdings(), before, "what is left of {kills} programs that were killed");
    until("the machine has the descriptors and threads that it had", || of_host() == idle);
    println!("{killed:?}");
    served.stop();
    let events = served.events();
    let (came, left): (Vec<_>, Vec<_>) = events.iter().partition(|event| matches!(event, Event::Connected { .. }));
    assert_eq!(came.len(), left.len(), "{events:?}");
    assert!(left.iter().all(|event| matches!(event, Event::Left { .. })), "{events:?}");
}

/// The program that breaks a rule of the wire, which it is told with the declarations and the version that both ends share.
fn misbehaving(program: &Program, mode: &str, served: &Served) -> Command {
    let mut command = clean(program);
    command.args([mode, &DECLARATIONS.to_string(), &VERSION.to_string()]).env("CAMPANILE_MACHINE", &served.socket);
    command
}

#[test]
fn a_program_that_breaks_the_rules_is_killed_with_the_reason_and_nobody_else_is() {
    let (Some(misbehave), Some(program)) = (program("kmt/tests/c/misbehave.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("broken", PROGRAMS);
    for (mode, why) in [
        ("half", Fault::Malformed),
        ("kind", Fault::Malformed),
        ("answer", Fault::Malformed),
        ("unused", Fault::Malformed),
        ("argument", Fault::Malformed),
        ("close", Fault::Closed),
        ("mark", Fault::Closed),
    ] {
        let mut command = misbehaving(&misbehave, mode, &served);
        let status = command.status().expect("a start");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{mode}: {status}");
        let ended = |event: &Event| matches!(event, Event::Ended { why: told, .. } if *told == why);
        until(&format!("the machine says why, {mode}"), || served.events().last().is_some_and(ended));
    }
    let output = clean(&program).arg("20").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "20 submissions by doorbell, 0 notified, every byte verified\n");
}

/// A machine needs none: what would be closed there may take as long as it likes. Before Linux 6.16 the host passes it on, and the program is one that breaks the rules.
#[test]
fn a_program_can_send_a_machine_no_descriptor() {
    let Some(misbehave) = program("kmt/tests/c/misbehave.c") else { return };
    let served = Served::new("descriptor", PROGRAMS);
    let mut command = misbehaving(&misbehave, "descriptor", &served);
    let output = command.output().expect("a start");
    if output.status.success() {
        assert_eq!(text(&output.stdout), "refused by the host\n");
        until("it has ended", || matches!(served.events().last(), Some(Event::Left { .. })));
    } else {
        assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", output.status);
        let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Malformed, .. });
        until("the machine says why", || served.events().iter().any(ended));
    }
}

/// What a program is sent to map it can keep, and use as its user may: the files stay as long as they are, so that nobody faults who has them mapped, and go on being writable.
#[test]
fn files_of_memory_that_a_program_keeps_can_neither_be_cut_off_nor_closed_to_others() {
    let (Some(hostile), Some(program)) = (program("kmt/tests/c/hostile.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("hostile", PROGRAMS);
    let mut command = clean(&hostile);
    command.env("CAMPANILE_MACHINE", &served.socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeping = command.spawn().expect("a start");
    let mut said = [0; 8];
    keeping.stdout.as_mut().expect("piped").read_exact(&mut said).expect("a line");
    assert_eq!(text(&said), "3 files\n", "system memory to write, system memory to read, memory of the GPU");
    let output = clean(&program).arg("50").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "50 submissions by doorbell, 0 notified, every byte verified\n");
    drop(keeping.stdin.take());
    assert!(keeping.wait().expect("an end").success());
    let left = |event: &Event| matches!(event, Event::Left { .. });
    until("both have left", || served.events().iter().filter(|event| left(event)).count() == 2);
}

#[test]
fn a_program_that_gives_the_machine_the_same_addresses_twice_is_killed() {
    let Some(hostile) = program("kmt/tests/c/hostile.c") else { return };
    let served = Served::new("lies", PROGRAMS);
    let mut command = clean(&hostile);
    let status = command.arg("lie").env("CAMPANILE_MACHINE", &served.socket).status().expect("a start");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Lied, .. });
    until("the machine says why", || served.events().iter().any(ended));
}

/// Thousands of calls whose answers nobody takes: the machine makes no more of them than it may at a time, ends the program when it has taken nothing for a while, and serves
/// others meanwhile.
#[test]
fn a_program_that_floods_the_machine_is_ended_and_others_are_served_meanwhile() {
    let (Some(misbehave), Some(program)) = (program("kmt/tests/c/misbehave.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("flood", PROGRAMS);
    let mut command = misbehaving(&misbehave, "flood", &served);
    let mut flooding = command.spawn().expect("a start");
    let mut jobs = 0;
    let status = loop {
        let output = clean(&program).arg("50").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
        assert_eq!(text(&output.stdout), "50 submissions by doorbell, 0 notified, every byte verified\n");
        jobs += 1;
        if let Some(status) = flooding.try_wait().expect("a child") {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    assert!(jobs > 1, "another program was served while one flooded the machine");
    let ended = |event: &Event| matches!(event, Event::Ended { why: Fault::Silent, .. });
    until("the machine says why", || served.events().iter().any(ended));
}

#[test]
fn who_is_not_served_is_told_why() {
    let (Some(misbehave), Some(program)) = (program("kmt/tests/c/misbehave.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("version", PROGRAMS);
    let mut command = misbehaving(&misbehave, "version", &served);
    let output = command.output().expect("a start");
    assert_eq!(text(&output.stdout), format!("17 {}\n", Refusal::Version as u64));
    for (count, mode) in (1..).zip(["rude", "silent"]) {
        let mut command = misbehaving(&misbehave, mode, &served);
        let output = command.output().expect("a start");
        assert_eq!(text(&output.stdout), format!("17 {}\n", Refusal::NoHello as u64), "{mode}");
        // The machine notes it right after it has told the program.
        let refused = |event: &&Event| matches!(event, Event::Refused { why: Refusal::NoHello, .. });
        until(&format!("the machine tells of the refusal, {mode}"), || {
            served.events().iter().filter(refused).count() >= count
        });
    }
    let full = Served::new("full", 0);
    let output = clean(&program).arg("1").env("CAMPANILE_MACHINE", &full.socket).output().expect("a start");
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.contains(Refusal::Full.text()), "{told}");
    let nowhere = std::env::temp_dir().join("campanile-no-machine.sock");
    let output = clean(&program).arg("1").env("CAMPANILE_MACHINE", &nowhere).output().expect("a start");
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.contains("no machine at") && told.contains("campanile machine"), "{told}");
}

/// A process can say nothing as often as it likes, and be one program.
#[test]
fn a_process_takes_one_place_and_those_who_say_nothing_take_none() {
    let (Some(misbehave), Some(program)) = (program("kmt/tests/c/misbehave.c"), program(SUBMISSIONS)) else { return };
    let served = Served::new("places", 2);
    let command = |mode: &str| {
        let mut command = misbehaving(&misbehave, mode, &served);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    let twice = command("twice").output().expect("a start");
    assert_eq!(text(&twice.stdout), format!("17 {}\n", Refusal::Twice as u64));
    let mut crowd = command("crowd").spawn().expect("a start");
    let mut connected = [0; 10];
    crowd.stdout.as_mut().expect("piped").read_exact(&mut connected).expect("a line");
    let output = clean(&program).arg("20").env("CAMPANILE_MACHINE", &served.socket).output().expect("a start");
    assert_eq!(text(&output.stdout), "20 submissions by doorbell, 0 notified, every byte verified\n");
    drop(crowd.stdin.take());
    assert!(crowd.wait().expect("an end").success());
}

#[test]
fn a_program_that_becomes_another_one_is_served_again() {
    let Some(misbehave) = program("kmt/tests/c/misbehave.c") else { return };
    let served = Served::new("exec", PROGRAMS);
    let mut command = misbehaving(&misbehave, "exec2", &served);
    assert_eq!(text(&command.output().expect("a start").stdout), "16 0\n");
    let came = || served.events().iter().filter(|event| matches!(event, Event::Connected { .. })).count();
    // The machine welcomes a program before it tells of it.
    until("the third program is told of", || came() >= 3);
    assert_eq!(came(), 3, "{:?}", served.events());
}

/// One makes a buffer and a fence and names them, the other finds them; each is started before the other once.
#[test]
fn two_programs_share_a_buffer_and_a_fence_by_name() {
    const ROUNDS: &str = "500";
    let Some(program) = program("examples/c/two_programs.c") else { return };
    let mut served = Served::new("names", PROGRAMS);
    for order in [["give", "take"], ["take", "give"]] {
        let start = |part: &str| {
            let mut command = clean(&program);
            command.args([part, ROUNDS]).env("CAMPANILE_MACHINE", &served.socket);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start")
        };
        for (part, child) in order.map(|part| (part, start(part))) {
            let output = child.wait_with_output().expect("an end");
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success() && err.is_empty(), "{part}: {}: {out}{err}", output.status);
            let said = match part {
                "give" => format!("gave {ROUNDS} numbers, and every answer was right\n"),
                _ => format!("took {ROUNDS} numbers in their order\n"),
            };
            assert_eq!(out, said);
        }
    }
    served.stop();
    let left = served.events().iter().filter(|event| matches!(event, Event::Left { .. })).count();
    assert_eq!(left, 4, "{:?}", served.events());
}

#[test]
fn a_program_goes_on_with_the_next_machine_and_what_it_had_is_refused() {
    let Some(program) = program("kmt/tests/c/again.c") else { return };
    let mut first = Served::new("again", PROGRAMS);
    let mut command = clean(&program);
    // As a path that is not absolute.
    let (folder, name) = (first.socket.parent().expect("a folder"), first.socket.file_name().expect("a name"));
    command.current_dir(folder).env("CAMPANILE_MACHINE", name).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("a line");
    first.stop();
    drop(first);
    child.stdin.take().expect("piped").write_all(b"\n").expect("it waits");
    let second = Served::new("again", PROGRAMS);
    let output = child.wait_with_output().expect("an end");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out == "went on\n", "{}: {out}{err}", output.status);
    assert!(matches!(second.events().as_slice(), [Event::Connected { .. }, ..]), "{:?}", second.events());
}
