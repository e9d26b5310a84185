//! Looking on at a machine that is served, and interfering with it: `campanile top`, `ctl` and `timeline --live`.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use campanile::control::{Answer, path_of};
use serde_json::Value;

use crate::served::{Machine, README, campanile, scratch};

/// A file of zeros, which takes no disk space.
fn zeros(name: &str, len: u64) -> PathBuf {
    let path = scratch(name);
    File::create(&path).and_then(|file| file.set_len(len)).expect("a file");
    path
}

#[test]
fn a_program_is_seen_by_its_number_and_name_with_what_it_uses_and_is_gone_afterwards() {
    let machine = Machine::serve("seen", &["--quiet"]);
    assert_eq!(machine.look()["adapters"][0]["processes"], serde_json::json!([]));
    let file = zeros("seen-file", 1 << 30);
    let mut job = machine.job(&file).spawn().expect("a start");
    let pid = job.id();
    machine.until("the program works with three queues", |machine| {
        let look = machine.look();
        let process = &look["adapters"][0]["processes"][0];
        process["pid"] == pid
            && process["name"] == "campanile run"
            && process["user_mode_queues"] == 3
            && process["fences"].as_u64() > Some(0)
            && process["memory_bytes"][0].as_u64() > Some(1 << 20)
            && process["running_ns"][0].as_u64() > Some(0)
    });
    let top = machine.printed(&["top", "--count", "2", "--interval", "0.05"]);
    assert!(top.contains("campanile run") && top.contains(&pid.to_string()), "{top}");
    job.kill().expect("it runs");
    job.wait().expect("an end");
    machine.until("the process ends with the program", |machine| {
        machine.look()["adapters"][0]["processes"] == serde_json::json!([])
    });
    let running = machine.look()["adapters"][0]["engines"][0]["running_ns"].as_u64();
    assert!(running > Some(0), "what it has run counts on: {running:?}");
    std::fs::remove_file(file).expect("it is there");
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

#[test]
fn cases_on_a_served_machine_show_what_it_is_and_fail_on_what_it_makes_good() {
    let machine = Machine::serve("rescues", &["--quiet", "--device-variant", "doorbells=3"]);
    let run = || {
        let output = machine.tool(&["hlk", "--json", "--filter", "NativeFence.EventIsSetWhenTheValueComes"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), report["cases"][0].clone())
    };
    let (code, sound) = run();
    assert_eq!((code, &sound["status"], &sound["rescues"]), (Some(0), &"passed".into(), &Value::Null), "{sound}");
    assert_eq!(sound["machine"]["variant"]["doorbells"], 3, "{sound}");
    assert!(sound["calls"]["DxgkDdiCreateNativeFence"].as_u64() > Some(0), "{sound}");
    assert!(sound["machine"]["interrupts"].as_u64() > Some(0), "{sound}");
    machine.printed(&["ctl", "fault", "lost-interrupts=5%"]);
    let (code, healed) = run();
    assert_eq!((code, &healed["status"]), (Some(1), &"failed".into()), "{healed}");
    assert!(healed["rescues"]["unreported-signal"].as_u64() > Some(0), "{healed}");
    assert_eq!(healed["machine"]["faults"][0], "lost-interrupts=5%", "{healed}");
}

/// Each is a program of the machine. What the machine makes good cannot be told to be of one of them, and fails the run.
#[test]
fn conformance_cases_run_beside_each_other_on_one_machine() {
    let machine = Machine::serve("hlk-jobs", &["--quiet"]);
    let run = || {
        let words =
            ["hlk", "--json", "--filter", "NativeFence.EventIsSetWhenTheValueComes", "--repeat", "12", "--jobs", "4"];
        let output = machine.tool(&words);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), report)
    };
    let (code, sound) = run();
    assert_eq!((code, &sound["passed"], &sound["failed"]), (Some(0), &12.into(), &0.into()), "{sound}");
    machine.printed(&["ctl", "fault", "lost-interrupts=50%"]);
    let (code, healed) = run();
    assert_eq!((code, &healed["passed"], &healed["failed"]), (Some(1), &12.into(), &1.into()), "{healed}");
    let told = healed["cases"].as_array().and_then(|cases| cases.last()).expect("outcomes");
    assert!(told["rescues"]["unreported-signal"].as_u64() > Some(0), "{told}");
}

/// Other programs have allocations and work of their own meanwhile.
#[test]
fn cases_of_statistics_hold_beside_each_other() {
    let machine = Machine::serve("statistics", &["--quiet"]);
    let about_memory =
        |case: &&Value| case["name"].as_str().is_some_and(|name| name.ends_with("MemoryFollowsResidency"));
    for _ in 0..3 {
        // No case beside itself: one makes three fifths of VRAM resident, and two of it would ask for more than there is.
        let output = machine.tool(&["hlk", "--json", "--filter", "Statistics.", "--jobs", "6"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let cases = report["cases"].as_array().expect("outcomes");
        let failed: Vec<_> = cases.iter().filter(|case| case["status"] == "failed").collect();
        assert!(failed.is_empty() && output.status.code() == Some(0), "{failed:?}");
        assert_eq!(cases.iter().filter(about_memory).filter(|case| case["status"] == "passed").count(), 1);
    }
}

#[test]
fn top_prints_a_line_of_json_for_each_look_with_rates_from_the_second_on() {
    let machine = Machine::serve("top", &["--quiet"]);
    let printed = machine.printed(&["top", "--json", "--count", "3", "--interval", "0.02"]);
    let looks: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(looks.len(), 3);
    assert!(looks[0]["adapters"][0]["engines"][0]["busy"].is_null());
    for look in &looks[1..] {
        let busy = look["adapters"][0]["engines"][0]["busy"].as_f64().expect("a rate");
        assert!((0.0..=1.0).contains(&busy), "{busy}");
    }
}

#[test]
fn an_injected_fault_strikes_whoever_works_and_is_taken_away_by_its_number() {
    let machine = Machine::serve("fault", &["--quiet"]);
    assert_eq!(machine.printed(&["ctl", "faults"]), "no faults\n");
    let listed = machine.printed(&["ctl", "fault", "hang:node=0,after=1"]);
    assert!(listed.contains("hang:node=0,after=1       0       0"), "{listed}");
    assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(3), "its device is lost");
    let faults: Value = serde_json::from_str(&machine.printed(&["ctl", "faults", "--json"])).expect("JSON");
    assert_eq!(faults["faults"][0]["fired"], 1);
    assert_eq!(machine.look()["adapters"][0]["engine_resets"], 1);
    assert!(machine.printed(&["ctl", "log"]).contains("engine was reset"), "the log has the recovery");
    assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(0), "the engine works again");
    assert_eq!(machine.printed(&["ctl", "withdraw", "0"]), "no faults\n");
    let again = machine.tool(&["ctl", "withdraw", "0"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("no fault has the number 0"));
    let unknown = machine.tool(&["ctl", "fault", "no-such-fault"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no-such-fault"));
}

/// More timeouts of the adapter than TdrLimitCount are a bug check: see the case Tdr.LimitCountEndsInABugCheck.
#[test]
fn a_machine_that_a_bug_check_stops_serves_nobody_any_more_and_exits_with_3() {
    let mut machine = Machine::serve("bugcheck", &["--quiet"]);
    let file = zeros("bugcheck-file", 1 << 30);
    for timeouts in 0..6 {
        assert_eq!(machine.look()["adapters"][0]["adapter_resets"], timeouts);
        machine.printed(&["ctl", "fault", "reset-fails:node=0"]);
        machine.printed(&["ctl", "fault", "hang:node=0,after=1,reported"]);
        assert_eq!(machine.job(&file).status().expect("a start").code(), Some(3), "its device is lost");
    }
    machine.ends();
    std::fs::remove_file(file).expect("it is there");
    let (code, said) = machine.stop();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("the machine stopped with a bug check: VIDEO_TDR_FAILURE 0x116"), "{said}");
}

#[test]
fn an_adapter_is_sent_to_d3_by_order_and_wakes_for_the_next_work() {
    let machine = Machine::serve("power", &["--quiet"]);
    for state in ["d3", "standby", "hibernate"] {
        assert_eq!(machine.printed(&["ctl", "power", state]), "done\n");
        assert_eq!(machine.look()["adapters"][0]["powered_down"], true, "{state}");
        assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(0), "{state}");
        assert_eq!(machine.look()["adapters"][0]["powered_down"], false, "{state}");
    }
    machine.printed(&["ctl", "power", "d3"]);
    machine.printed(&["ctl", "power", "d0"]);
    assert_eq!(machine.look()["adapters"][0]["powered_down"], false);
}

/// An engine that hangs has work; one that has none goes to F1, and works again when there is some.
#[test]
fn an_idle_engine_is_sent_to_f1_by_order_and_a_busy_one_is_not() {
    let machine = Machine::serve("engine", &["--quiet"]);
    let fstate = |machine: &Machine| machine.look()["adapters"][0]["engines"][0]["fstate"].as_u64();
    assert_eq!(machine.printed(&["ctl", "sleep-engine", "0"]), "done\n");
    assert_eq!(fstate(&machine), Some(1));
    assert_eq!(machine.printed(&["ctl", "sleep-engine", "0"]), "done\n", "it is there");
    assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(0), "it wakes for work");
    let refused = |machine: &Machine, node: &str, why: &str| {
        let output = machine.tool(&["ctl", "sleep-engine", node]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    };
    refused(&machine, "77", "no such engine; `campanile ctl look` lists those that it has");
    machine.printed(&["ctl", "fault", "hang:node=0,after=1"]);
    let mut job = machine.job(Path::new(README)).spawn().expect("a start");
    machine.until("the engine hangs", |machine| {
        let faults: Value = serde_json::from_str(&machine.printed(&["ctl", "faults", "--json"])).expect("JSON");
        faults["faults"][0]["fired"] == 1
    });
    refused(&machine, "0", "the engine has work to do");
    assert_eq!(fstate(&machine), Some(0));
    // A thread that waits for the work that hangs waits for a fence, which is told with its value and the one that is awaited.
    let waited = machine.look()["adapters"][0]["waited_fences"][0].clone();
    assert!(waited["awaited"].as_u64() > waited["current"].as_u64() && waited["waits"].as_u64() > Some(0), "{waited}");
    assert!(machine.printed(&["ctl", "look"]).contains("awaited"));
    assert_eq!(job.wait().expect("an end").code(), Some(3), "its device is lost");
    machine.printed(&["ctl", "power", "d3"]);
    refused(&machine, "0", "the adapter is in D3");
}

#[test]
fn an_adapter_that_is_pulled_out_is_gone_until_another_one_is_plugged_in() {
    let machine = Machine::serve("pulled", &["--quiet"]);
    assert_eq!(machine.printed(&["ctl", "pull-out"]), "done\n");
    assert_eq!(machine.look()["adapters"], serde_json::json!([]));
    assert!(machine.printed(&["ctl", "look"]).starts_with("the machine has no adapter any more\n"));
    assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(3));
    assert!(machine.printed(&["top", "--count", "1"]).starts_with("the machine has no adapter any more\n"));
    let ran = machine.tool(&["run", "--no-progress", README]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(3) && said.contains("has no adapter any more, and its GPU"), "{said}");
    let page = scratch("pulled.html");
    let live = ["timeline", "--live", "--out", page.to_str().expect("text")];
    for order in [
        &["ctl", "pull-out"][..],
        &["ctl", "tree"],
        &["ctl", "power", "d3"],
        &["ctl", "sleep-engine", "0"],
        &["ctl", "fault", "hang"],
        &live,
    ] {
        let refused = machine.tool(order);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            refused.status.code() == Some(2) && said.contains("`campanile ctl plug-in` plugs one in"),
            "{order:?}: {said}"
        );
    }
    let cases = machine.tool(&["hlk", "--filter", "NativeFence"]);
    let said = String::from_utf8_lossy(&cases.stderr);
    assert!(cases.status.code() == Some(2) && said.contains("`campanile ctl plug-in --machine"), "{said}");
    assert_eq!(machine.printed(&["ctl", "plug-in"]), "done\n");
    assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(0));
    assert!(machine.printed(&["ctl", "tree"]).contains("node 0: packets submitted"));
    let nothing = machine.tool(&["ctl", "plug-in"]);
    assert_eq!(nothing.status.code(), Some(2), "nothing was pulled out");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing was pulled out"));
    assert_eq!(machine.look()["adapters"].as_array().map(Vec::len), Some(1));
    machine.printed(&["ctl", "pull-out"]);
    assert_eq!(machine.stop(), (Some(0), String::new()), "a machine without adapter stops in order");
}

#[test]
fn a_timeline_of_the_last_seconds_has_what_programs_did() {
    for arguments in [&["--quiet", "--record", "2"] as &[&str], &["--quiet"]] {
        let machine = Machine::serve("timeline", arguments);
        let file = zeros("timeline-file", 1 << 30);
        let mut job = machine.job(&file).spawn().expect("a start");
        machine.until("the program has worked for a while", |machine| {
            machine.look()["adapters"][0]["processes"][0]["running_ns"][1].as_u64() > Some(20_000_000)
        });
        let (page, trace) = (scratch("live.html"), scratch("live.pftrace"));
        let paths = [page.to_str().expect("text"), trace.to_str().expect("text")];
        let drawn = ["timeline", "--live", "--seconds", "1", "--out", paths[0], "--save", paths[1]];
        assert!(machine.printed(&drawn).contains(" events"));
        job.kill().expect("it runs");
        job.wait().expect("an end");
        let kept = campanile::trace::perfetto::read(&std::fs::read(&trace).expect("a file")).expect("a trace");
        let signals = kept
            .events
            .iter()
            .filter(|event| matches!(event.kind, campanile::trace::EventKind::FenceSignalExecuted(_)));
        assert!(signals.count() > 0, "{arguments:?}: signals of the GPU");
        let named: Vec<_> = kept.processes.iter().map(|process| process.name.as_str()).collect();
        assert!(named.iter().any(|name| name.starts_with("campanile run (0x")), "{arguments:?}: {named:?}");
        let again = campanile().args(["timeline", paths[1], "--out", paths[0]]).output().expect("a start");
        assert!(again.status.success(), "a trace that was saved is drawn again");
        for path in [&page, &trace, &file] {
            std::fs::remove_file(path).expect("it is there");
        }
        assert_eq!(machine.stop(), (Some(0), String::new()));
    }
}

/// Also if nobody has asked for anything since it was plugged in.
#[test]
fn what_is_recorded_all_the_time_is_of_the_adapter_that_was_plugged_in_last() {
    let machine = Machine::serve("record-next", &["--quiet", "--record", "60"]);
    machine.printed(&["ctl", "pull-out"]);
    machine.printed(&["ctl", "plug-in"]);
    assert!(machine.job(Path::new(README)).status().expect("a start").success());
    let (page, trace) = (scratch("next.html"), scratch("next.pftrace"));
    let paths = [page.to_str().expect("text"), trace.to_str().expect("text")];
    machine.printed(&["timeline", "--live", "--seconds", "60", "--out", paths[0], "--save", paths[1]]);
    let kept = campanile::trace::perfetto::read(&std::fs::read(&trace).expect("a file")).expect("a trace");
    let is_signal = |kind: &_| matches!(kind, campanile::trace::EventKind::FenceSignalExecuted(_));
    assert!(kept.events.iter().any(|event| is_signal(&event.kind)), "signals of the GPU");
    for path in [&page, &trace] {
        std::fs::remove_file(path).expect("it is there");
    }
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

/// Its locks are the program's own from the moment at which the adapter is gone, while their addresses are still being left to it.
#[test]
fn what_was_locked_on_an_adapter_that_is_pulled_out_can_be_unlocked() {
    let machine = Machine::serve("unlocks", &["--quiet"]);
    let file = zeros("unlocks-file", 1 << 30);
    for _ in 0..5 {
        let mut job = machine.job(&file).spawn().expect("a start");
        machine.until("the program works", |machine| {
            machine.look()["adapters"][0]["processes"][0]["running_ns"][1].as_u64() > Some(1_000_000)
        });
        machine.printed(&["ctl", "pull-out"]);
        assert_eq!(job.wait().expect("an end").code(), Some(3), "its device is lost");
        let log = machine.printed(&["ctl", "log"]);
        assert!(!log.contains("D3DKMTUnlock2 fails"), "{log}");
        machine.printed(&["ctl", "plug-in"]);
    }
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

/// Whoever asks takes nothing away.
#[test]
fn a_trace_that_was_told_is_kept_for_the_next_who_asks() {
    let machine = Machine::serve("told", &["--quiet", "--record", "60"]);
    assert!(machine.job(Path::new(README)).status().expect("a start").success());
    let (page, trace) = (scratch("told.html"), scratch("told.pftrace"));
    let paths = [page.to_str().expect("text"), trace.to_str().expect("text")];
    let submissions = || {
        let drawn = ["timeline", "--live", "--seconds", "60", "--out", paths[0], "--save", paths[1]];
        machine.printed(&drawn);
        let kept = campanile::trace::perfetto::read(&std::fs::read(&trace).expect("a file")).expect("a trace");
        let named: Vec<_> = kept.processes.iter().map(|process| process.name.as_str()).collect();
        assert!(named.iter().any(|name| name.starts_with("campanile run (0x")), "a program that has ended: {named:?}");
        let is_signal = |kind: &_| matches!(kind, campanile::trace::EventKind::FenceSignalExecuted(_));
        kept.events.iter().filter(|event| is_signal(&event.kind)).count()
    };
    let first = submissions();
    assert!(first > 0, "signals of the GPU");
    assert_eq!((submissions(), submissions()), (first, first));
    for path in [&page, &trace] {
        std::fs::remove_file(path).expect("it is there");
    }
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

#[test]
fn a_recording_that_is_under_way_does_not_hold_up_the_end_of_a_machine() {
    let machine = Machine::serve("blocked", &["--quiet"]);
    let ask = |seconds: u32| {
        let asker = UnixStream::connect(path_of(&machine.socket)).expect("a connection");
        writeln!(&asker, "{{\"record\":{{\"seconds\":{seconds}}}}}").expect("it is taken");
        asker
    };
    let recordings = RefCell::new(Vec::new());
    machine.until("a trace of a minute is under way, so that nobody else gets one", |_| {
        // One that comes while another second is recorded is refused.
        recordings.borrow_mut().push(ask(60));
        let mut answer = String::new();
        BufReader::new(ask(1)).read_line(&mut answer).expect("an answer");
        answer.contains("somebody else records")
    });
    let (socket, control) = (machine.socket.clone(), path_of(&machine.socket));
    assert_eq!(
        machine.stop(),
        (Some(0), String::new()),
        "in order, and without a call or a question that does not end"
    );
    assert!(!socket.exists() && !control.exists());
    drop(recordings);
}

/// The thread has another user, and the mode of the socket has been changed to let it connect.
#[test]
fn an_asker_of_another_user_is_refused() {
    const NOBODY: libc::uid_t = 65534;
    let machine = Machine::serve("user", &["--quiet"]);
    let control = path_of(&machine.socket);
    std::fs::set_permissions(&control, std::fs::Permissions::from_mode(0o666)).expect("it is ours");
    let asked = std::thread::spawn(move || {
        // Of this thread alone: the function of the C library changes the user of the process.
        // SAFETY: takes no addresses.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) } == 0;
        let asker = changed.then(|| UnixStream::connect(control).ok()).flatten()?;
        let mut answer = String::new();
        let _ = (&asker).write_all(b"\"look\"\n");
        BufReader::new(&asker).read_line(&mut answer).ok().map(|_| answer)
    });
    match asked.join().expect("no panic") {
        Some(answer) => assert!(answer.contains("it belongs to another user"), "{answer}"),
        None => eprintln!(
            "another user was not tried: a thread takes one only with CAP_SETUID, and has to reach the socket"
        ),
    }
    machine.printed(&["ctl", "look"]);
}

#[test]
fn without_a_machine_each_tool_says_how_to_start_one() {
    for tool in [&["ctl", "look"] as &[&str], &["top", "--count", "1"], &["timeline", "--live"]] {
        let unnamed = campanile().args(tool).output().expect("a start");
        let said = String::from_utf8_lossy(&unnamed.stderr);
        assert_eq!(unnamed.status.code(), Some(2), "{tool:?}: {said}");
        assert!(said.contains("campanile machine --socket PATH"), "{said}");
        let absent = campanile().args(tool).args(["--machine", "/nowhere/at.sock"]).output().expect("a start");
        let said = String::from_utf8_lossy(&absent.stderr);
        assert_eq!(absent.status.code(), Some(2), "{tool:?}: {said}");
        assert!(said.contains("campanile machine --socket /nowhere/at.sock"), "{said}");
    }
}

/// Stands in for a machine that ends while it is asked: it takes each question and closes the connection.
#[test]
fn tools_that_lose_their_machine_end_with_another_code_than_those_that_find_none_or_are_refused() {
    let socket = std::env::temp_dir().join(format!("campanile-lost-{}.sock", std::process::id()));
    let listener = UnixListener::bind(path_of(&socket)).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut question = String::new();
            let _ = BufReader::new(stream.expect("a connection")).read_line(&mut question);
        }
    });
    for tool in
        [&["ctl", "look"] as &[&str], &["ctl", "power", "d3"], &["top", "--count", "1"], &["timeline", "--live"]]
    {
        let lost = campanile().args(tool).arg("--machine").arg(&socket).output().expect("a start");
        let said = String::from_utf8_lossy(&lost.stderr);
        assert!(lost.status.code() == Some(3) && said.contains("the machine has gone meanwhile"), "{tool:?}: {said}");
    }
    std::fs::remove_file(path_of(&socket)).expect("the socket");
}

#[test]
fn askers_that_ask_nonsense_or_too_much_are_refused_and_others_are_answered() {
    let machine = Machine::serve("hostile", &["--quiet"]);
    let path = path_of(&machine.socket);
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only this user may connect");
    let ask = |stream: &UnixStream, question: &[u8]| {
        let mut to = stream;
        // A connection that the machine has closed cannot be written.
        let _ = to.write_all(question);
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map(|_| line)
    };
    let connect = || UnixStream::connect(&path).expect("a connection");
    for nonsense in ["{}\n", "\"no-question\"\n", "{\"withdraw\":{\"number\":-1}}\n", "\u{0}\n", "[[[[\n"] {
        let answer: Answer =
            serde_json::from_str(&ask(&connect(), nonsense.as_bytes()).expect("an answer")).expect("JSON");
        assert!(matches!(answer, Answer::Refused(_)), "{nonsense}: {answer:?}");
    }
    let wrong = ["{\"record\":{\"seconds\":0}}\n", "{\"record\":{\"seconds\":4000000000}}\n"];
    for wrong in wrong {
        let answer = ask(&connect(), wrong.as_bytes()).expect("an answer");
        assert!(answer.contains("1 to 60 seconds"), "{answer}");
    }
    // A line without an end is given up.
    let long = connect();
    let answer = ask(&long, &[b'x'; 100_000]).expect("an answer");
    assert!(answer.contains("this is no question"), "{answer}");
    let mut rest = Vec::new();
    // The rest may be met by a reset, since what was sent was not read.
    let _ = (&long).read_to_end(&mut rest);
    assert!(rest.is_empty());
    let silent: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    let is_closed = |stream: &&UnixStream| {
        stream.set_nonblocking(true).expect("a mode");
        let mut from: &UnixStream = stream;
        matches!(from.read(&mut [0]), Ok(0))
    };
    // The machine takes them one after the other.
    machine.until("of more than sixteen the most silent ones are closed", |_| {
        silent.iter().filter(is_closed).count() >= 24
    });
    // Those who ask are not locked out by those who say nothing.
    for _ in 0..20 {
        machine.printed(&["ctl", "look"]);
    }
    drop(silent);
    let _open = connect();
    assert_eq!(machine.stop(), (Some(0), String::new()), "an asker who is connected does not block the machine");
}

/// As many askers as there may be have asked a lot, and take no answer: whoever comes has the place of one of them.
#[test]
fn askers_that_do_not_take_their_answers_keep_nobody_out() {
    const ASKERS: usize = 16;
    let machine = Machine::serve("slow", &["--quiet"]);
    let slow: Vec<UnixStream> = (0..ASKERS)
        .map(|_| {
            let asker = UnixStream::connect(path_of(&machine.socket)).expect("a connection");
            (&asker).write_all("\"look\"\n".repeat(4000).as_bytes()).expect("they are taken");
            asker
        })
        .collect();
    let waiting = || -> Vec<u64> {
        slow.iter().map(|asker| rustix::io::ioctl_fionread(asker).expect("a count of bytes")).collect()
    };
    let before = RefCell::new(waiting());
    machine.until("each has been sent what the host takes for it", |_| {
        let now = waiting();
        // A tool that has just gone may have had the place of one of them.
        let many = now.iter().filter(|bytes| **bytes > 10_000).count() >= ASKERS - 1;
        before.replace(now.clone()) == now && many
    });
    machine.printed(&["ctl", "look"]);
    drop(slow);
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

#[test]
fn a_machine_says_what_its_process_has_given_up_and_keeps_everything_if_it_is_told_to() {
    let given_up = Machine::serve("sandbox", &["--quiet"]);
    let text = given_up.look()["sandbox"].as_str().expect("a sentence").to_owned();
    assert!(
        text.starts_with("sandbox: no new privileges") && text.contains("system calls refused by seccomp"),
        "{text}"
    );
    assert!(given_up.printed(&["ctl", "look"]).ends_with(&format!("{text}\n")));
    // It reads the arguments of programs, and ends tidily.
    assert_eq!(given_up.job(Path::new(README)).status().expect("a start").code(), Some(0));
    assert_eq!(given_up.stop(), (Some(0), String::new()));
    let kept = Machine::serve("no-sandbox", &["--quiet", "--no-sandbox"]);
    assert!(kept.look()["sandbox"].is_null());
    assert!(kept.printed(&["ctl", "look"]).ends_with("no sandbox: the machine was started with --no-sandbox\n"));
}
