//! Attacks on a machine that is served, by another process of the same user: each has to be refused.

use std::fs::{File, OpenOptions};
use std::io;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::served::Machine;

/// Takes every capability from the calling thread, and from the programs that it starts, whoever their user is: what they may do from then on, they may do because of
/// their user.
fn give_up_capabilities() {
    /// Programs of the superuser have no more rights than others: SECBIT_NOROOT of the host's headers.
    const NO_ROOT: usize = 1;
    /// Version 3 of the interface, and this thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    let nothing = [0u32; 6];
    // Refused to a thread without capabilities, which does not need it.
    // SAFETY: no address is passed.
    unsafe { libc::prctl(libc::PR_SET_SECUREBITS, NO_ROOT, 0usize, 0usize, 0usize) };
    // SAFETY: a header and two sets of the size that this version has, which live on the stack and are read.
    let done = unsafe { libc::syscall(libc::SYS_capset, HEADER.as_ptr(), nothing.as_ptr()) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// Becomes the debugger of a process, on a thread that ends and lets it go on with that.
fn attach(pid: i32) -> bool {
    let (none, options) = (0usize, 0usize);
    // SAFETY: no address is passed; a process that is attached to goes on.
    std::thread::spawn(move || unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, none, options) } == 0)
        .join()
        .expect("no panic")
}

/// Ways to the memory and the descriptors of a process, and whether this thread has them.
fn ways_into(pid: i32) -> [(&'static str, bool); 5] {
    let of = |name: &str| format!("/proc/{pid}/{name}");
    let process = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).expect("it runs");
    [
        ("its memory, to be written", OpenOptions::new().write(true).open(of("mem")).is_ok()),
        ("its addresses", File::open(of("maps")).is_ok()),
        ("a file that it has open", File::open(of("fd/0")).is_ok()),
        ("a copy of a descriptor", pidfd_getfd(&process, 0, PidfdGetfdFlags::empty()).is_ok()),
        ("being its debugger", attach(pid)),
    ]
}

/// Without its sandbox a machine is like any other process, which a debugger may want; that shows that the test can tell.
#[test]
fn no_other_process_of_the_user_reaches_the_memory_and_the_descriptors_of_a_machine() {
    let test = std::thread::spawn(|| {
        give_up_capabilities();
        for (name, arguments, reaches) in
            [("closed", &["--quiet"][..], false), ("open", &["--quiet", "--no-sandbox"], true)]
        {
            let machine = Machine::serve(name, arguments);
            for (way, is_there) in ways_into(machine.pid()) {
                assert_eq!(is_there, reaches, "{way} of a machine with {arguments:?}");
            }
            assert_eq!(machine.stop(), (Some(0), String::new()));
        }
    });
    test.join().expect("what it asserts");
}
