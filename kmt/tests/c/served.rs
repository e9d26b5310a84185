//! Programs in C on a machine that another process serves: this one.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use testbed::programs::{Event, MachineServer, Observer, PROGRAMS, Stop};
use testbed::setup::{System, SystemOptions};

use crate::programs::{clean, program, text};

/// A machine at a socket.
struct Served {
    system: System,
    socket: PathBuf,
    stop: Stop,
    serving: Option<JoinHandle<std::io::Result<()>>>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Served {
    fn new(name: &str, programs: usize) -> Self {
        let system = System::boot(&SystemOptions::default()).expect("a machine");
        let socket = std::env::temp_dir().join(format!("campanile-{name}-{}.sock", std::process::id()));
        let stop = Stop::new().expect("a descriptor");
        let server = MachineServer::bind(&socket, programs, stop.clone()).expect("a socket");
        let (machine, events) = (system.machine().clone(), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&events);
        let observer: Observer = Arc::new(move |event: &Event| noted.lock().unwrap().push(event.clone()));
        let serving = std::thread::spawn(move || server.serve(&machine, &observer));
        Self { system, socket, stop, serving: Some(serving), events }
    }

    fn stop(&mut self) {
        self.stop.stop();
        if let Some(serving) = self.serving.take() {
            serving.join().expect("no panic").expect("it could wait");
        }
    }

    fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        assert_eq!(self.system.machine().bugcheck(), None);
    }
}

const SUBMISSIONS: &str = "examples/c/user_mode_submission.c";

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
