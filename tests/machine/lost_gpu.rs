//! A machine whose GPU is another process, which dies.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::served::{Machine, README};

/// The process of the GPU: the only child of the machine.
fn gpu(machine: &Machine) -> i32 {
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{}/task", machine.pid())).expect("threads");
    let children: String = threads.map(|thread| of_thread(thread.expect("a thread"))).collect();
    children.trim().parse().unwrap_or_else(|_| panic!("one child: {children}"))
}

fn faults(machine: &Machine) -> Value {
    let mut answer: Value = serde_json::from_str(&machine.printed(&["ctl", "faults", "--json"])).expect("JSON");
    answer["faults"].take()
}

fn inject(machine: &Machine, fault: &str) {
    machine.printed(&["ctl", "fault", fault]);
}

#[test]
fn the_faults_of_a_gpu_whose_process_died_are_gone_with_it() {
    let machine = Machine::serve("gpu-gone", &["--quiet", "--bus", "vfio-user-process"]);
    inject(&machine, "hang:node=0,after=1000000");
    inject(&machine, "lost-interrupt");
    // SAFETY: a signal to a process that the machine has not waited for.
    assert_eq!(unsafe { libc::kill(gpu(&machine), libc::SIGKILL) }, 0, "it runs");
    // At once, and until the machine knows that the adapter is gone.
    machine.until("the list is empty", |machine| {
        let output = machine.tool(&["ctl", "faults", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || output.status.code() == Some(2) && said.contains("plug-in"), "{said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        answer["faults"] == json!([])
    });
    for order in [&["ctl", "withdraw", "0"][..], &["ctl", "fault", "hang"]] {
        let refused = machine.tool(order);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && !said.contains("the machine has gone"), "{said}");
    }
    machine.printed(&["ctl", "plug-in"]);
    assert_eq!(faults(&machine), json!([]), "the new GPU has none");
    inject(&machine, "lost-interrupt");
    let listed = json!([{ "number": 2, "fault": "lost-interrupt", "fired": 0 }]);
    assert_eq!(faults(&machine), listed, "no number is given twice");
    machine.printed(&["ctl", "withdraw", "2"]);
    assert_eq!(machine.job(Path::new(README)).status().expect("a start").code(), Some(0));
    let (code, said) = machine.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
