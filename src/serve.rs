//! `campanile device`: serves the GPU as a PCI function to other processes.

use std::io;
use std::path::{Path, PathBuf};

use campanile_device::{Gpu, Variant};
use campanile_vfio_user::{Event, Function, Server, Stopper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use testbed::device::{GpuFunction, Messages};
use testbed::exit::{EXIT_INPUT, EXIT_MACHINE, EXIT_OK};
use testbed::lines;
use testbed::sandbox::{self, Role};

/// Options of `campanile device`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sockets to listen on, one for each GPU.
    pub sockets: Vec<PathBuf>,
    /// The GPUs.
    pub variant: Variant,
    /// Kind of interrupt messages: MSI-X or MSI.
    pub interrupts: Messages,
    /// Say nothing but what goes wrong.
    pub quiet: bool,
    /// Give up what a GPU does not need.
    pub sandbox: bool,
}

/// Lines, each with the socket that it is about.
struct Log {
    quiet: bool,
}

impl Log {
    fn say(&self, socket: &Path, text: &str) {
        testbed::complain!("campanile device: {}: {text}", socket.display());
    }

    fn tell(&self, socket: &Path, event: &Event) {
        let text = match event {
            Event::Connected => "a client has connected; it has a GPU of its own, as after power-on".to_owned(),
            Event::Left(None) => "the client has left; its GPU is gone with all that it held".to_owned(),
            Event::Left(Some(error)) => format!("a client was dropped: {error}"),
            Event::Refused => "a second client was refused; one is served at a time".to_owned(),
            Event::NoFunction(error) => format!("no GPU could be made for a client: {error}"),
            Event::Note(text) => text.clone(),
            Event::NotesEnd => "further requests of this client that are refused are not told".to_owned(),
        };
        let trouble = matches!(event, Event::Left(Some(_)) | Event::NoFunction(_));
        if trouble || !self.quiet {
            self.say(socket, &text);
        }
    }
}

/// Serves until a signal ends it, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let code = run(options);
    lines::finish();
    code
}

fn run(options: &Options) -> u8 {
    // A variant that cannot be built is found before anybody connects.
    if let Err(error) = Gpu::new(&options.variant) {
        testbed::complain!(
            "campanile: The GPU could not be built: {error}. Try a smaller one, such as `--device-variant vram=64M`"
        );
        return EXIT_MACHINE;
    }
    let prepared = Stopper::new().and_then(|stop| Ok((stop, Signals::new([SIGINT, SIGTERM, SIGHUP])?)));
    let (stop, mut signals) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            testbed::complain!("campanile: signals cannot be waited for: {error}");
            return EXIT_MACHINE;
        }
    };
    let servers: Result<Vec<Server>, _> = options.sockets.iter().map(|path| Server::bind(path, stop.clone())).collect();
    let servers = match servers {
        Ok(servers) => servers,
        Err(error) => {
            testbed::complain!(
                "campanile: {error}. Name another socket with `--socket`, in a directory that you may write"
            );
            return EXIT_INPUT;
        }
    };
    if !begin(options) {
        return EXIT_MACHINE;
    }
    let log = Log { quiet: options.quiet };
    let ended = signals.handle();
    let failed = std::thread::scope(|scope| {
        let serving: Vec<_> = servers
            .iter()
            .map(|server| {
                let (log, stop, ended) = (&log, &stop, ended.clone());
                scope.spawn(move || {
                    let outcome = serve(server, options, log);
                    // One that cannot go on ends them all; otherwise nobody would see that it is gone.
                    stop.stop();
                    ended.close();
                    outcome.inspect_err(|error| log.say(server.path(), &format!("cannot be served any more: {error}")))
                })
            })
            .collect();
        if signals.forever().next().is_some() && !options.quiet {
            testbed::complain!("campanile device: stopping");
        }
        stop.stop();
        let fine: Vec<bool> = serving.into_iter().map(|thread| matches!(thread.join(), Ok(Ok(())))).collect();
        fine.contains(&false)
    });
    if failed { EXIT_MACHINE } else { EXIT_OK }
}

/// Gives up what a GPU does not need, and has lines written by a thread from then on. False if the host has no thread for it.
fn begin(options: &Options) -> bool {
    if options.sandbox {
        let folders = options.sockets.iter().filter_map(|path| path.parent()).map(Path::to_path_buf).collect();
        let state = sandbox::enter(&Role::Gpu { folders });
        if !state.is_whole() {
            testbed::complain!("campanile device: {state}");
        }
    }
    if let Err(error) = lines::write_by_thread() {
        testbed::complain!("campanile: the host gives it no threads: {error}");
        return false;
    }
    true
}

fn serve(server: &Server, options: &Options, log: &Log) -> io::Result<()> {
    let socket = server.path();
    if !log.quiet {
        let Variant { vram_size, vram_window, .. } = &options.variant;
        let given_up = sandbox::state().map_or_else(|| "no sandbox".to_owned(), ToString::to_string);
        let (vram, window) = (vram_size >> 20, vram_window >> 20);
        log.say(socket, &format!("listening; VRAM {vram} MiB, BAR4 {window} MiB; {given_up}"));
    }
    let mut make = || {
        let function = GpuFunction::new(&options.variant, true)?.with_messages(options.interrupts);
        Ok(Box::new(function) as Box<dyn Function>)
    };
    server.run(&mut make, &|event| log.tell(socket, event))
}
