//! Programs whose main thread has ended.

use crate::programs::{clean, program, text};
use crate::served::Served;
use testbed::programs::PROGRAMS;

/// As POSIX lets a process live on, and any thread may call at any time: on a machine of its own and on one that is served.
#[test]
fn a_program_whose_main_thread_has_ended_goes_on() {
    let Some(leader) = program("kmt/tests/c/leader.c") else { return };
    let served = Served::new("leader", PROGRAMS);
    for arguments in [&[][..], &["first"]] {
        for socket in [None, Some(&served.socket)] {
            let mut command = clean(&leader);
            command.args(arguments).envs(socket.map(|path| ("CAMPANILE_MACHINE", path)));
            let output = command.output().expect("a start");
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert_eq!((&*out, &*err), ("went on\n", ""), "{arguments:?}, {socket:?}: {}", output.status);
        }
    }
}
