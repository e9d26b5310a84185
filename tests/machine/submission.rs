//! Submissions to a machine that another process serves: stores to memory that both map, of which the host hears nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use campanile_umd::{Adapter, Device, Node, Queue, QueueOptions};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};

use crate::served::Machine;

const TEST: &str = "submission::submissions_and_looks_at_their_fences_take_no_system_call_and_no_message";
/// Set where the test is a program of the machine, to the socket.
const SOCKET: &str = "CAMPANILE_TEST_SUBMITS";
/// Set where such a program calls a thunk in the end, which the host must notice.
const CALLS: &str = "CAMPANILE_TEST_CALLS";

/// Many times as many as the ring has entries.
const SUBMISSIONS: u64 = 20_000;

/// True if every other thread sleeps in a system call, and one of them in `recvmsg`: the library's, which has gone back to wait for messages after the last answer.
fn others_sleep() -> std::io::Result<bool> {
    // SAFETY: has no preconditions.
    let this = unsafe { libc::gettid() }.to_string();
    let mut receives = false;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let thread = thread?;
        if thread.file_name().to_str() == Some(&this) {
            continue;
        }
        // `running`, or the number of the call in front of its arguments.
        let call = std::fs::read_to_string(thread.path().join("syscall"))?;
        let Some(number) = call.split(' ').next().and_then(|number| number.parse::<i64>().ok()) else {
            return Ok(false);
        };
        receives |= number == libc::SYS_recvmsg;
    }
    Ok(receives)
}

/// From here on the host kills this process as soon as one of its threads makes a system call other than to end the process. A thread that sleeps in one goes on sleeping.
fn forbid_calls() {
    while !others_sleep().expect("the host tells of this process's threads") {
        std::thread::yield_now();
    }
    let ending = BTreeMap::from([(libc::SYS_exit_group, Vec::new())]);
    let filter = SeccompFilter::new(ending, SeccompAction::KillProcess, SeccompAction::Allow, TargetArch::x86_64);
    let filter: BpfProgram = filter.expect("rules").try_into().expect("a filter");
    apply_filter_all_threads(&filter).expect("the host takes the filter");
}

/// The program: submits, and looks at the progress fence until each submission is done. Nothing that it says would arrive, so its exit code says that it came to its end.
fn submit(socket: &OsStr) -> ! {
    remote::client::connect(Path::new(socket), "submission").expect("a machine");
    let adapter = Adapter::open(remote::sending::thunks()).expect("an adapter");
    let device = Device::new(&adapter).expect("a device");
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).expect("a queue");
    // The first one connects the doorbell.
    let first = queue.submit(|commands| commands.nop()).expect("a submission");
    queue.wait_progress(first).expect("it is done");
    let calls = std::env::var_os(CALLS).is_some();
    forbid_calls();
    let done = (0..SUBMISSIONS).all(|_| {
        let Ok(value) = queue.submit(|commands| commands.nop()) else { return false };
        while queue.progress() < value {
            std::hint::spin_loop();
        }
        true
    });
    if calls {
        let _ = Device::new(&adapter);
    }
    // SAFETY: ends the process, in which nothing has to be put in order.
    unsafe { libc::_exit(if done { 0 } else { 1 }) }
}

#[test]
fn submissions_and_looks_at_their_fences_take_no_system_call_and_no_message() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        submit(&socket);
    }
    let machine = Machine::serve("no-calls", &["--quiet"]);
    let program = || {
        let mut program = Command::new(std::env::current_exe().expect("a test has a path"));
        program.args([TEST, "--exact", "--nocapture"]).env(SOCKET, &machine.socket);
        program
    };
    let run = |mut program: Command| -> ExitStatus { program.output().expect("it starts").status };
    let ended = run(program());
    assert_eq!((ended.code(), ended.signal()), (Some(0), None), "SIGSYS is {}: a call of the host", libc::SIGSYS);
    // The host would have noticed a thunk.
    let mut asks = program();
    asks.env(CALLS, "1");
    assert_eq!(run(asks).signal(), Some(libc::SIGSYS));
    let (code, said) = machine.stop();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}
