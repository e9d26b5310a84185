//! A program in another process, and what it is asked for.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nt::page::PAGE_SIZE;
use remote::channel::Received;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

use super::*;

/// A process as a program, and its end of the connection.
fn of(child: &Child) -> (RemoteProgram, Channel) {
    let pid = Pid::from_child(child);
    let (machine, other_end) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let Reached { copies, memory } = Reached::of(pid, GivenUp::default());
    let program = RemoteProgram {
        channel: Arc::new(Channel::new(machine)),
        pid,
        process: Arc::new(pidfd_open(pid, PidfdFlags::empty()).unwrap()),
        memory: memory.unwrap(),
        copies,
        asked: Mutex::default(),
        answered: Condvar::new(),
        waiting: OnceLock::new(),
    };
    (program, Channel::new(other_end))
}

/// Looks at the program as the thread that hears it does, without hearing anything.
fn look(program: &RemoteProgram) {
    while !program.is_gone() {
        thread::sleep(LOOK);
        program.look(LOOK);
    }
}

/// Answers of a third of the limit each: any number of them, unless they have it together.
#[test]
fn answers_that_have_one_limit_together_are_at_an_end_when_it_is() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let (program, other_end) = of(&child);
    let freezes = || program.freeze(0..PAGE_SIZE as usize).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| look(&program));
        scope.spawn(|| {
            for number in 1.. {
                let Ok(Received::Message(..)) = other_end.receive() else { break };
                thread::sleep(ANSWER_LIMIT / 3);
                program.answer(number, Ok(0));
            }
        });
        (0..4).for_each(|_| freezes());
        assert_eq!(program.fault(), None, "each answer was in time");
        program.begin_joint_limit();
        program.begin_joint_limit();
        program.end_joint_limit();
        (0..4).for_each(|_| freezes());
        program.end_joint_limit();
        shutdown(&*program.channel, Shutdown::Both).unwrap();
    });
    assert_eq!(program.fault(), Some((Fault::Silent, End::Killed)));
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// As on a host with more work than processors: the thread that hears the program waits for a processor, and the answer lies in the socket.
#[test]
fn an_answer_is_not_late_that_the_machine_could_not_have_seen() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let (program, other_end) = of(&child);
    thread::scope(|scope| {
        let freezes = scope.spawn(|| program.freeze(0..PAGE_SIZE as usize));
        assert!(matches!(other_end.receive(), Ok(Received::Message(..))), "it is asked");
        thread::sleep(ANSWER_LIMIT + ANSWER_LIMIT / 4);
        program.answer(1, Ok(0));
        freezes.join().unwrap().unwrap();
    });
    assert_eq!(program.fault(), None);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// So is one that keeps the thread that hears it.
#[test]
fn a_program_that_does_not_answer_is_ended_also_where_nobody_looks() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let (program, _other_end) = of(&child);
    program.freeze(0..PAGE_SIZE as usize).unwrap();
    assert_eq!(program.fault(), Some((Fault::Silent, End::Killed)));
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// One that takes a message now and then, and only when the thread that hears it has waited for that, is late as one that the thread had looked at meanwhile.
#[test]
fn a_program_that_has_the_thread_that_hears_it_wait_for_space_is_late_all_the_same() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let (program, other_end) = of(&child);
    // As the machine has it of every connection.
    set_socket_timeout(&*program.channel, Timeout::Send, Some(LOOK)).unwrap();
    let (ask, asked) = mpsc::channel();
    let machine = &program;
    thread::scope(|scope| {
        scope.spawn(move || {
            asked.recv().unwrap();
            let told = FromMachine::Returned { id: 0, status: wddm_ddi::status::STATUS_SUCCESS };
            while machine.channel.send(&told.to_words(), None).is_ok() {}
            // As many turns as are enough for several limits, if each counts as what it has lasted.
            for _ in 0..4 * looks_of(ANSWER_LIMIT) / 8 {
                machine.look(Duration::from_millis(1));
                if machine.is_gone() || machine.send(&told, None).is_err() {
                    break;
                }
            }
            machine.leave();
            shutdown(&*machine.channel, Shutdown::Both).unwrap();
        });
        scope.spawn(|| {
            assert!(matches!(other_end.receive(), Ok(Received::Message(..))), "it is asked");
            ask.send(()).unwrap();
            // The connection is full soon, and has space for one message after each of these pauses.
            while !program.is_gone() {
                thread::sleep(8 * LOOK);
                let _ = other_end.receive();
            }
        });
        let _ = program.freeze(0..PAGE_SIZE as usize);
    });
    assert_eq!(program.fault(), Some((Fault::Silent, End::Killed)));
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// As closing one does that is of a file of somebody who does not answer.
#[test]
fn what_is_done_with_a_descriptor_of_a_program_is_given_up_with_the_program() {
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let (program, _other_end) = of(&child);
    let user: &dyn UserSpace = &program;
    let by = user.descriptor(0, |_| thread::current().id()).expect("it has this one");
    assert_ne!(by, thread::current().id());
    let (answer, answered) = mpsc::channel::<()>();
    let closed = user.descriptor(0, move |descriptor| {
        let _ = answered.recv();
        drop(descriptor);
    });
    assert_eq!(closed.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    assert_eq!(program.fault(), Some((Fault::Withheld, End::Killed)));
    assert_eq!(program.copies_given_up(), 1);
    drop(answer);
    assert_eq!(program.copies.left_after(Duration::from_secs(60)), 0);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// The program has another user than the thread that is to kill it, as one has that has changed its credentials since it connected.
#[test]
fn a_program_that_the_host_lets_nobody_kill_is_served_no_more() {
    const NOBODY: libc::uid_t = 65534;
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let (program, other_end) = of(&child);
    let of_thread = thread::scope(|scope| {
        let kills = || {
            // Of this thread alone: the function of the C library changes the user of the process.
            // SAFETY: takes no addresses.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) } == 0;
            if changed {
                program.kill(Fault::Malformed);
            }
            changed
        };
        scope.spawn(kills).join().unwrap()
    });
    if of_thread {
        assert_eq!(program.fault(), Some((Fault::Malformed, End::NotAllowed)));
        assert_eq!(program.read(0x1000, &mut [0]).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        assert!(program.is_gone() && program.hide(0..PAGE_SIZE as usize).is_ok(), "nothing is asked of it");
        drop(program);
        assert!(matches!(other_end.receive(), Ok(Received::Closed)), "its connection is closed");
        assert!(child.try_wait().unwrap().is_none(), "it lives on");
    } else {
        eprintln!("a program that may not be killed was not tried: a thread takes another user only with CAP_SETUID");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_program_that_is_not_served_for_want_of_descriptors_or_threads_is_told_so() {
    for (error, why) in [
        (libc::EMFILE, Refusal::Descriptors),
        (libc::ENFILE, Refusal::Descriptors),
        (libc::ENOMEM, Refusal::Threads),
        (libc::EACCES, Refusal::Memory),
    ] {
        assert_eq!(refusal(&io::Error::from_raw_os_error(error)), why, "{error}");
    }
}
