//! Programs and machines in different PID namespaces of the host, where a process has another number, or none.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use testbed::programs::{Event, MachineServer, PROGRAMS, Stop};

use crate::programs::{clean, program, text};
use crate::served::{SUBMISSIONS, Served, until};

/// Set for the test that is the machine, to the rest of the name of its socket.
const INSIDE: &str = "CAMPANILE_TEST_NAMESPACE";

/// Begins the line that such a machine prints.
const SAYS: &str = "machine: ";

/// A command that runs another one in a PID namespace of its own; `None` where the host gives this user none.
fn apart(options: &[&str]) -> Option<Command> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]).args(options);
        command
    };
    if unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        return Some(unshare());
    }
    eprintln!(
        "PID NAMESPACES WERE NOT TRIED: this host lets this user make none (unshare --user --pid {})",
        options.join(" ")
    );
    None
}

/// Runs the calling test in a namespace of its own, where it is a machine until its input ends; and what the machine says.
fn machine_apart(test: &str, options: &[&str]) -> Option<(Child, String)> {
    let mut command = apart(options)?;
    command.arg(std::env::current_exe().expect("a test has a path")).args([test, "--exact", "--nocapture"]);
    let machine = command.env(INSIDE, format!("apart-{}", std::process::id()));
    let mut machine = machine.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a start");
    let lines = BufReader::new(machine.stdout.as_mut().expect("piped")).lines().map_while(Result::ok);
    let said = lines.filter_map(|line| Some(line.split_once(SAYS)?.1.to_owned())).next();
    Some((machine, said.expect("a line")))
}

/// True if this test is the machine of [`machine_apart`], which it has been then.
fn was_machine() -> bool {
    let Ok(name) = std::env::var(INSIDE) else { return false };
    let socket = std::env::temp_dir().join(format!("campanile-{name}.sock"));
    match MachineServer::bind(&socket, PROGRAMS, Stop::new().expect("a descriptor")) {
        Err(refused) => println!("{SAYS}{refused}"),
        Ok(bound) => {
            drop(bound);
            let served = Served::new(&name, PROGRAMS);
            println!("{SAYS}{}", served.socket.display());
            std::io::stdout().flush().expect("somebody reads");
            std::io::stdin().read_to_end(&mut Vec::new()).expect("an end");
        }
    }
    true
}

/// As in a container that has the socket and not the PID namespace of the host.
#[test]
fn a_program_in_a_namespace_below_that_of_the_machine_is_served() {
    let Some(program) = program(SUBMISSIONS) else { return };
    let Some(mut command) = apart(&[]) else { return };
    let served = Served::new("below", PROGRAMS);
    command.arg(program.path()).arg("20").env("CAMPANILE_MACHINE", &served.socket);
    let output = command.output().expect("a start");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((&*out, &*err), ("20 submissions by doorbell, 0 notified, every byte verified\n", ""));
    until("it has left", || matches!(served.events().last(), Some(Event::Left { .. })));
}

#[test]
fn a_program_that_has_no_number_in_the_namespace_of_the_machine_is_told_what_to_do() {
    if was_machine() {
        return;
    }
    let test = "namespaces::a_program_that_has_no_number_in_the_namespace_of_the_machine_is_told_what_to_do";
    let Some(program) = program(SUBMISSIONS) else { return };
    let Some((mut machine, socket)) = machine_apart(test, &["--mount-proc"]) else { return };
    let output = clean(&program).arg("1").env("CAMPANILE_MACHINE", &socket).output().expect("a start");
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.contains("PID namespace"), "{}: {told}", output.status);
    drop(machine.stdin.take());
    assert!(machine.wait().expect("an end").success());
}

/// It would look for its programs among the processes of others.
#[test]
fn a_machine_whose_proc_is_of_another_namespace_says_so_instead_of_serving() {
    if was_machine() {
        return;
    }
    let test = "namespaces::a_machine_whose_proc_is_of_another_namespace_says_so_instead_of_serving";
    let Some((mut machine, why)) = machine_apart(test, &[]) else { return };
    drop(machine.stdin.take());
    assert!(why.contains("/proc") && why.contains("PID namespace"), "{why}");
    assert!(machine.wait().expect("an end").success());
}
