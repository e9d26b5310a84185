//! The screen of `campanile top`, on terminals whose other end a test has.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::served::{Machine, campanile, ends};

/// A terminal whose other end this process has, and none of its other children.
fn terminal() -> (File, OwnedFd) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&screen).expect("it is ours");
    unlockpt(&screen).expect("it is ours");
    let path = ptsname(&screen, Vec::new()).expect("a name");
    let keys = open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("its other end");
    let screen = File::from(screen);
    has_size(&screen, 100, 30);
    (screen, keys)
}

fn has_size(screen: &File, columns: u16, lines: u16) {
    let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(screen, size).expect("it may have any size");
}

/// `campanile top` of a machine, on a terminal.
fn top(machine: &Machine, terminal: OwnedFd) -> Child {
    let mut command = campanile();
    command.args(["top", "--machine"]).arg(&machine.socket).env("TERM", "xterm");
    command.stdin(terminal.try_clone().expect("a descriptor")).stdout(terminal).stderr(Stdio::piped());
    command.spawn().expect("a start")
}

/// Waits until a terminal shows something.
fn until_shown(screen: &mut File) {
    let mut shown = Vec::new();
    while !shown.windows(4).any(|part| part == b"ends") {
        let mut bytes = [0; 256];
        let read = screen.read(&mut bytes).expect("a terminal");
        shown.extend_from_slice(&bytes[..read]);
    }
}

/// The machine is stopped as by a debugger, and takes questions that it does not answer.
#[test]
fn top_is_left_by_a_key_while_the_machine_does_not_answer() {
    let machine = Machine::serve("silent-top", &["--quiet"]);
    machine.suspend();
    for key in [b"q", b"\x03"] {
        let (mut screen, keys) = terminal();
        let mut top = top(&machine, keys);
        until_shown(&mut screen);
        screen.write_all(key).expect("a terminal");
        // Until the last who has the terminal has closed it.
        std::io::copy(&mut screen, &mut std::io::sink()).expect_err("the terminal is gone");
        assert_eq!(top.wait().expect("an end").code(), Some(0), "{key:?}");
    }
}

/// Nobody sends a signal: the terminal is not that of its session.
#[test]
fn top_ends_when_its_terminal_is_closed() {
    let machine = Machine::serve("closed-top", &["--quiet"]);
    let (mut screen, keys) = terminal();
    let mut top = top(&machine, keys);
    until_shown(&mut screen);
    drop(screen);
    let code = ends(&mut top);
    let output = top.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(code == Some(2) && said.contains("the terminal cannot be used"), "{said}");
}

/// Nobody could have memory for all of it.
#[test]
fn a_screen_that_is_too_large_to_draw_is_refused() {
    let machine = Machine::serve("large-top", &["--quiet"]);
    for from_the_start in [true, false] {
        let (mut screen, keys) = terminal();
        let mut top = if from_the_start {
            has_size(&screen, 20_000, 20_000);
            top(&machine, keys)
        } else {
            let top = top(&machine, keys);
            until_shown(&mut screen);
            has_size(&screen, 20_000, 20_000);
            top
        };
        let mut shown = Vec::new();
        // Until the last who has the terminal has closed it.
        screen.read_to_end(&mut shown).expect_err("the terminal is gone");
        let code = ends(&mut top);
        let output = top.wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(code == Some(2) && said.contains("20000 columns and 20000 lines, too many"), "{said}");
        let shows = |text: &[u8]| shown.windows(text.len()).any(|part| part == text);
        assert_eq!((shows(b"\x1b[?1049h"), shows(b"\x1b[?1049l")), (false, !from_the_start), "it is as it was");
    }
}
