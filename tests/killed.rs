//! The GPU and its user in two processes, one of which is killed in the middle of the work.

mod load;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use campanile_umd::{Adapter, Device, Error, LossReason, Node, Recoverable, RecoveryOptions};
use load::{SIZE, make, wait_forever, work};
use testbed::setup::{BusChoice, System, SystemOptions};

/// `campanile device` with one GPU, killed when dropped.
struct Server {
    process: Child,
    log: BufReader<ChildStderr>,
}

impl Server {
    /// Serves at `socket`, where an older server may have been killed.
    fn start(socket: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_campanile"))
            .args(["device", "--socket"])
            .arg(socket)
            .args(["--device-variant", "vram=64M"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let log = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut server = Self { process, log };
        assert!(server.line().contains("listening"));
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.log.read_line(&mut line).expect("a line");
        line
    }

    /// SIGKILL, which leaves it no time for anything.
    fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A place for a socket, gone with the value.
struct Socket(PathBuf);

impl Socket {
    fn new(name: &str) -> Self {
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_server_that_is_killed_under_load_is_a_card_that_was_pulled_out() {
    let socket = Socket::new("killed-server");
    let mut server = Server::start(&socket.0);
    let bus = Some(BusChoice::Sockets(vec![socket.0.clone()]));
    let mut system = System::boot(&SystemOptions { bus, ..SystemOptions::default() }).expect("it boots");
    let process = dxgkrnl::Process::new(system.machine(), "application");
    {
        let _attached = process.attach();
        let adapter = Adapter::open_luid(dxgkrnl::thunks(), system.luid()).expect("the adapter is there");
        let begun = [const { AtomicBool::new(false) }; 3];
        let [compute, copy, waits] = &begun;
        std::thread::scope(|scope| {
            let (process, adapter) = (&process, &adapter);
            let workers = [(Node::Compute, compute), (Node::Copy, copy)]
                .map(|(node, done)| scope.spawn(move || work(process, adapter, node, done)));
            let waiter = scope.spawn(|| wait_forever(process, adapter, waits));
            while !begun.iter().all(|begun| begun.load(Ordering::Acquire)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            server.kill();
            for worker in workers {
                let ended = worker.join().expect("the worker does not panic");
                assert_eq!(ended, (Error::DeviceLost, Some(LossReason::Removed)));
            }
            assert_eq!(waiter.join().expect("the waiter does not panic"), Err(Error::DeviceLost));
        });
        assert!(Device::new(&adapter).is_err(), "the adapter has left");
    }
    assert_eq!(system.machine().bugcheck(), None);

    // A GPU in the same place is a new adapter.
    let _other = Server::start(&socket.0);
    system.start().expect("what is served there now is plugged in");
    {
        let _attached = process.attach();
        let adapter = Adapter::open_luid(dxgkrnl::thunks(), system.luid()).expect("there is an adapter again");
        let mut work = Recoverable::new(&adapter, Node::Compute, RecoveryOptions::default(), make).expect("it works");
        work.submit(|commands, app| commands.fill(app.target.gpu_address(), SIZE, 9)).expect("it takes work");
        work.wait(None).expect("it does the work");
    }
    process.exit();
    system.shutdown().expect("nothing was left behind");
}

#[test]
fn a_client_that_is_killed_at_any_time_leaves_the_next_one_a_new_gpu() {
    let socket = Socket::new("killed-client");
    let mut server = Server::start(&socket.0);
    let bus = format!("vfio-user={}", socket.0.display());
    // Long enough for every moment below: the executable some times over.
    let long = [env!("CARGO_BIN_EXE_campanile"); 16];
    for delay in [0, 20, 80, 200, 400] {
        let mut client = Command::new(env!("CARGO_BIN_EXE_campanile"))
            .args(["run", "--no-progress", "--bus", &bus])
            .args(long)
            .stdout(Stdio::null())
            .spawn()
            .expect("the command starts");
        assert!(server.line().contains("a client has connected"));
        std::thread::sleep(Duration::from_millis(delay));
        client.kill().expect("it runs");
        assert_eq!(client.wait().expect("it ends").signal(), Some(9), "it was killed at its work");
        assert!(server.line().contains("left"));
    }
    let output = Command::new(env!("CARGO_BIN_EXE_campanile")).args(["run", "--bus", &bus, "Cargo.lock"]).output();
    let output = output.expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("every byte verified"), "{text}");
}
