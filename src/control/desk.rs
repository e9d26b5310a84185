//! The machine's end of its control connections.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use campanile_conformance::report::Counts;
use campanile_conformance::simulated::describe;
use campanile_device::FaultId;
use dxgkrnl::{EngineSleepError, Machine, PnpError, SystemSleep};
use testbed::programs::{Pids, PrivateListener, Stop};
use testbed::sandbox;
use testbed::setup::{FaultOption, MachineOptions, System};
use wddm_ddi::types::LUID;

use super::askers::{ASKERS_MAX, Askers, Place};
use super::question::{Answer, FaultState, Look, LookAt, PowerState, Question};
use super::recorder::{GONE, Recorder};

/// Longest line of a question, in bytes.
const LINE_MAX: u64 = 4096;
/// The time that an asker may take to take an answer, beside a second for each [`BYTES_A_SECOND`] of it.
const TAKE_LIMIT: Duration = Duration::from_secs(5);
const BYTES_A_SECOND: usize = 1 << 20;
/// Bytes that are sent at a time: the host waits for room once for them.
const CHUNK: usize = 1 << 14;

/// Faults that are in a GPU at most, of those that askers have injected.
const FAULTS_MAX: usize = 1024;

/// Faults that were injected into the GPU that is there, by their numbers.
#[derive(Default)]
struct Injected {
    faults: BTreeMap<usize, (String, FaultId)>,
    /// The number of the next one: none is given twice.
    next: usize,
}

/// Answers questions about a machine.
pub struct Desk {
    system: RwLock<System>,
    pids: Pids,
    began: Instant,
    faults: Mutex<Injected>,
    recorder: Recorder,
    options: MachineOptions,
}

impl Desk {
    /// For a system that was booted with `options`, until `stop` is set. With a window the machine is traced from now on, see `campanile machine --record`.
    ///
    /// # Errors
    /// A text for people: the adapter cannot be traced.
    pub fn new(
        system: System,
        options: MachineOptions,
        pids: Pids,
        window: Option<Duration>,
        stop: Stop,
    ) -> Result<Self, String> {
        let recorder = Recorder::new(system.machine(), system.luid(), window, stop)?;
        Ok(Self {
            system: RwLock::new(system),
            pids,
            began: Instant::now(),
            faults: Mutex::default(),
            recorder,
            options,
        })
    }

    fn system(&self) -> RwLockReadGuard<'_, System> {
        self.system.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, System> {
        self.system.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> Look {
        let system = self.system();
        let machine = system.machine();
        let told = system.adapters().iter().filter_map(|adapter| machine.overview(adapter.luid()));
        Look {
            time_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            bugcheck: machine.bugcheck().map(|bugcheck| bugcheck.to_string()),
            sandbox: sandbox::state().map(|state| state.to_string()),
            adapters: told.map(|told| LookAt::new(&told, &self.pids)).collect(),
        }
    }

    fn tree(&self) -> Result<String, String> {
        let system = self.system();
        let adapters = system.adapters().iter();
        let trees = adapters.filter_map(|adapter| system.machine().inspect(adapter.luid()));
        let text: String = trees.map(|tree| tree.to_string()).collect();
        if text.is_empty() { Err(GONE.to_owned()) } else { Ok(text) }
    }

    fn inject(&self, text: &str, seed: u64) -> Result<Answer, String> {
        let fault: FaultOption = text.parse()?;
        let system = self.system();
        let mut injected = self.injected(&system);
        if injected.faults.len() >= FAULTS_MAX {
            return Err(format!("{FAULTS_MAX} faults are there; `campanile ctl withdraw` takes one away"));
        }
        if is_gone(&system) {
            return Err(GONE.to_owned());
        }
        let gpu = system.faulty_gpu().map_err(|error| error.to_string())?;
        let id = fault.try_arm(gpu.faults(), seed).map_err(silent)?;
        let number = injected.next;
        injected.faults.insert(number, (text.to_owned(), id));
        injected.next += 1;
        listed(&system, &injected)
    }

    /// The faults of the GPU that is there: one that is gone, whoever has pulled it out, has taken its faults along.
    fn injected(&self, system: &System) -> MutexGuard<'_, Injected> {
        let mut injected = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if is_gone(system) {
            injected.faults.clear();
        }
        injected
    }

    fn faults(&self) -> Result<Answer, String> {
        let system = self.system();
        let injected = self.injected(&system);
        listed(&system, &injected)
    }

    /// What the machine is: with the faults of its start and those that were injected.
    fn described(&self) -> Counts {
        let mut told = describe(&self.options.system(), &self.options);
        let system = self.system();
        let injected = self.injected(&system);
        let injected = injected.faults.values().map(|(text, _)| text.clone());
        let faults: Vec<String> = self.options.faults.iter().map(ToString::to_string).chain(injected).collect();
        told.insert("faults".into(), faults.into());
        told.extend(self.recorder.window.map(|window| ("record".into(), window.as_secs().into())));
        Counts { machine: told, ..Counts::default() }
    }

    /// What the machine counted since this was asked last, and what it is.
    fn take_counts(&self) -> Counts {
        let ((machine, _), mut told) = (self.adapter(), self.described().machine);
        let calls: BTreeMap<_, _> =
            machine.take_ddi_calls().into_iter().map(|(ddi, count)| (ddi.into(), count)).collect();
        told.extend(calls.get("DxgkDdiInterruptRoutine").map(|count| ("interrupts".into(), (*count).into())));
        let rescues = machine.take_rescues().into_iter().map(|(rescue, count)| (rescue.name().into(), count));
        Counts { rescues: rescues.collect(), calls, machine: told }
    }

    fn withdraw(&self, number: usize) -> Result<Answer, String> {
        let system = self.system();
        let mut injected = self.injected(&system);
        let unknown = || format!("no fault has the number {number}; `campanile ctl faults` lists them");
        let (_, id) = injected.faults.get(&number).ok_or_else(unknown)?;
        system.gpu().faults().try_withdraw(*id).map_err(silent)?;
        injected.faults.remove(&number);
        listed(&system, &injected)
    }

    fn power(&self, state: PowerState) -> Result<Answer, String> {
        let (machine, luid) = self.adapter();
        let done = match state {
            PowerState::D0 | PowerState::D3 if machine.overview(luid).is_none() => return Err(GONE.to_owned()),
            PowerState::D0 => machine.power_up(luid),
            PowerState::D3 => machine.power_down(luid),
            PowerState::Standby => machine.sleep(SystemSleep::Standby),
            PowerState::Hibernate => machine.sleep(SystemSleep::Hibernate),
        };
        // A program that waits for its work asks for nothing more.
        machine.wake_for_work();
        done.map(|()| Answer::Done).map_err(|error| not_powered(&error))
    }

    fn sleep_engine(&self, node: u32, physical_adapter: u32) -> Result<Answer, String> {
        let (machine, luid) = self.adapter();
        if machine.overview(luid).is_none() {
            return Err(GONE.to_owned());
        }
        let done = machine.sleep_engine(luid, node, physical_adapter);
        done.map(|()| Answer::Done).map_err(|error| match error {
            EngineSleepError::NoSuchEngine => format!("{error}; `campanile ctl look` lists those that it has"),
            _ => error.to_string(),
        })
    }

    /// The machine, and its first adapter, or the one that was.
    fn adapter(&self) -> (Machine, LUID) {
        let system = self.system();
        (system.machine().clone(), system.luid())
    }

    fn pull_out(&self) -> Result<Answer, String> {
        let mut system = self.change();
        if is_gone(&system) {
            return Err(GONE.to_owned());
        }
        let gone = system.pull_out(0).and_then(|()| system.notice_removal(0));
        gone.map(|()| Answer::Done).map_err(|error| error.to_string())
    }

    fn plug_in(&self) -> Result<Answer, String> {
        let mut system = self.change();
        let machine = system.machine();
        if system.adapters().iter().all(|adapter| machine.overview(adapter.luid()).is_some()) {
            return Err("nothing was pulled out; `campanile ctl pull-out` does that".to_owned());
        }
        // Those of a GPU that is gone, before there is another one that they could be taken for.
        drop(self.injected(&system));
        system.start().map_err(|error| error.to_string())?;
        self.recorder.follow(system.machine(), system.luid())?;
        Ok(Answer::Done)
    }

    /// The answer, and the bytes that follow it.
    fn answer(&self, question: Question) -> Result<(Answer, Vec<u8>), String> {
        let answer = match question {
            Question::Look => Answer::Look(self.look()),
            Question::Tree => Answer::Text(self.tree()?),
            Question::Log => Answer::Text(self.adapter().0.debug_log().join("\n")),
            Question::Inject { fault, seed } => self.inject(&fault, seed)?,
            Question::Faults => self.faults()?,
            Question::TakeCounts => Answer::Counts(self.take_counts()),
            Question::Describe => Answer::Counts(self.described()),
            Question::Withdraw { number } => self.withdraw(number)?,
            Question::Power { state } => self.power(state)?,
            Question::SleepEngine { node, physical_adapter } => self.sleep_engine(node, physical_adapter)?,
            Question::PullOut => self.pull_out()?,
            Question::PlugIn => self.plug_in()?,
            Question::Record { seconds } => {
                let (machine, luid) = self.adapter();
                let trace = self.recorder.record(&machine, luid, seconds)?;
                return Ok((Answer::Trace { bytes: trace.len() as u64 }, trace));
            }
        };
        Ok((answer, Vec::new()))
    }

    /// The answer to one line, with the bytes that follow it.
    fn answer_line(&self, line: &[u8]) -> io::Result<Vec<u8>> {
        let asked = serde_json::from_slice(line).map_err(|error| format!("this is no question: {error}"));
        let (answer, bytes) = match asked.and_then(|question| self.answer(question)) {
            Ok(answered) => answered,
            Err(why) => (Answer::Refused(why), Vec::new()),
        };
        let mut said = serde_json::to_vec(&answer)?;
        said.push(b'\n');
        said.extend(bytes);
        Ok(said)
    }

    /// Answers until the asker has gone.
    fn converse(&self, stream: &UnixStream, place: &Place<'_>) -> io::Result<()> {
        let mut lines = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            if (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            // One that takes its time to read is silent, and gives its place up when somebody else wants it.
            let said = place.answering(|| self.answer_line(&line))?;
            send_within(stream, &said, TAKE_LIMIT + Duration::from_secs((said.len() / BYTES_A_SECOND) as u64))?;
            // What is no whole line has no end that could be found.
            if !line.ends_with(b"\n") {
                return Ok(());
            }
        }
    }
}

/// True while the first adapter is not there.
fn is_gone(system: &System) -> bool {
    system.machine().overview(system.luid()).is_none()
}

/// The reason why a fault could not be asked about: the process of the GPU is gone, and the machine is about to notice it.
fn silent(error: io::Error) -> String {
    format!(
        "the process of the GPU does not answer: {error}; `campanile ctl plug-in` plugs another one in once its adapter is gone"
    )
}

/// The faults, and how often each has struck.
fn listed(system: &System, injected: &Injected) -> Result<Answer, String> {
    let state = |(number, (fault, id)): (&usize, &(String, FaultId))| {
        let fired = system.gpu().faults().try_fired(*id).map_err(silent)?;
        Ok(FaultState { number: *number, fault: fault.clone(), fired })
    };
    injected.faults.iter().map(state).collect::<Result<_, _>>().map(Answer::Faults)
}

/// Sends all of some bytes.
///
/// # Errors
/// The other end is gone, or has not taken them all in time: [`io::ErrorKind::TimedOut`] or [`io::ErrorKind::WouldBlock`].
fn send_within(mut stream: &UnixStream, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
    let until = Instant::now() + limit;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        let (chunk, _) = bytes.split_at(bytes.len().min(CHUNK));
        match stream.write(chunk) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Why an adapter did not change its power state, and what to do.
fn not_powered(error: &PnpError) -> String {
    match error {
        PnpError::Busy => format!(
            "{error}, and an adapter leaves D0 only while nobody uses it: let the programs finish or pause, see `campanile ctl look`, and ask again; \
             it enters D3 by itself when it has been idle for the time of `campanile machine --idle-time`"
        ),
        _ => error.to_string(),
    }
}

/// Listens for askers beside the machine that serves programs at `machine`.
///
/// # Errors
/// Somebody listens at the path, something else is there, or it cannot be made.
pub fn listen(machine: &Path) -> Result<PrivateListener, testbed::programs::BindError> {
    PrivateListener::bind(&super::path_of(machine))
}

/// Answers everybody who asks, each on a thread of its own, until `stop` is set. Those who are connected then are not answered any more.
///
/// # Errors
/// The host cannot wait.
pub fn serve(desk: &Desk, listener: &PrivateListener, stop: &Stop) -> io::Result<()> {
    let askers = Askers::default();
    let outcome = std::thread::scope(|scope| {
        let outcome = loop {
            let stream = match listener.next(stop) {
                Ok(Some(stream)) => UnixStream::from(stream),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            // The mode of the socket says so, too, while nobody changes it.
            if !remote::channel::peer(&stream).is_ok_and(|peer| peer.is_of_this_user) {
                refuse(&stream, "it belongs to another user");
                continue;
            }
            let Some(place) = askers.admit(&stream) else {
                refuse(&stream, &format!("it answers {ASKERS_MAX} others at the moment; ask again"));
                continue;
            };
            let Ok(told) = stream.try_clone() else { continue };
            let converse = move || {
                // An asker who does not take the answer has gone.
                let _ = desk.converse(&stream, &place);
            };
            if std::thread::Builder::new().name("asker".to_owned()).spawn_scoped(scope, converse).is_err() {
                refuse(&told, "the host gives the machine no more threads; ask again");
            }
        };
        askers.close();
        outcome
    });
    desk.recorder.stop();
    outcome
}

/// Tells somebody who has just connected why it is not answered.
fn refuse(mut stream: &UnixStream, why: &str) {
    let mut line = serde_json::to_vec(&Answer::Refused(why.to_owned())).unwrap_or_default();
    line.push(b'\n');
    // One that has gone needs no reason. The first line that is sent fits the socket.
    let _ = stream.write_all(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_is_in_use_is_no_dead_end() {
        let told = not_powered(&PnpError::Busy);
        assert!(told.contains("ctl look") && told.contains("ask again") && told.contains("--idle-time"), "{told}");
    }

    /// Something is taken all the time, and never all of it.
    #[test]
    fn an_answer_that_is_taken_slowly_is_given_up() {
        let (machine, asker) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || send_within(&machine, &vec![0; 256 << 20], Duration::from_millis(300)));
            let mut few = [0; 64];
            while (&asker).read(&mut few).unwrap() > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let kind = sent.join().unwrap().unwrap_err().kind();
            assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind:?}");
        });
    }
}
