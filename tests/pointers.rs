//! Bad pointers in thunks of a program that a machine serves: every one of them, as beside a machine of the program's own.

use std::sync::Arc;

use testbed::programs::{Event, MachineServer, Observer, Stop};
use testbed::setup::{System, SystemOptions};

/// The program is this process, and so is the machine, whose objects are counted.
#[test]
fn bad_pointers_and_counts_of_a_served_program_are_answered_as_those_beside_its_own_machine() {
    let system = System::boot(&SystemOptions::default()).expect("a machine");
    let socket = std::env::temp_dir().join(format!("campanile-pointers-{}.sock", std::process::id()));
    let stop = Stop::new().expect("a descriptor");
    // Of few programs each has a share of descriptors that is not less than what a process may have by itself.
    let server = MachineServer::bind(&socket, 4, stop.clone()).expect("a socket");
    let observer: Observer = Arc::new(|event: &Event| println!("{event}"));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(system.machine(), &observer));
        remote::client::connect(&socket, "bad pointers").expect("a machine");
        campanile_conformance::provide(remote::sending::thunks(), remote::sending::further_thunks());
        let answered = campanile_conformance::inside::bad_pointers::over_messages(system.machine(), system.luid());
        stop.stop();
        serving.join().expect("no panic").expect("it could wait");
        answered.unwrap_or_else(|failure| panic!("{failure}"));
    });
    assert_eq!(system.machine().bugcheck(), None);
}
