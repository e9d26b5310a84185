//! One program on a machine: what it sends, until it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgkrnl::{Machine, Process, Share};
use nt::user_space::{UserSpace, act_for};
use remote::channel::{Channel, Received};
use remote::thunks::{self, Tables};
use remote::wire::{Call, FromMachine, FromProgram, Hello};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use wddm_ddi::status::{
    NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INTERNAL_ERROR, STATUS_PROCEDURE_NOT_FOUND,
};

use super::event::{Event, Fault, Observer};
use super::limits::{ANSWER_LIMIT, LOOK};
use super::pids::Pids;
use super::refusal::refuse;
use super::seats::Seat;
use super::stop::Stop;
use super::user_space::{Reached, RemoteProgram, Unreachable};
use super::workers::{GivenUp, Workers};

/// How often the machine looks whether a program has become another one, of which the socket tells nothing while a child by fork has it.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const LOOK_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: LOOK_INTERVAL.subsec_nanos() as _ };
/// The same while answers of the program are waited for.
const ANSWER_LOOK_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos() as _ };
/// What a look counts at most of a limit that finds something there: an answer may lie behind it, and a program that sends without end and does not answer is late all the same.
const BUSY_LOOK: Duration = Duration::from_millis(1);

/// The time that the calls of a program that is gone may take to end: that of a recovery of the adapter, and more.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks whether the machine is to stop, while calls are waited for.
const END_STEP: Duration = Duration::from_millis(100);

/// The next thing that a program does.
enum Next {
    Message(FromProgram),
    Malformed,
    /// It has ended, or closed its connection.
    End,
    /// The machine is about to stop.
    Stop,
}

/// A program that is served.
pub(super) struct Program {
    channel: Arc<Channel>,
    remote: Arc<RemoteProgram>,
    answers: Answers,
    calls: Arc<Workers<Call>>,
    /// Ends its process, for which it waits until all calls have left the system.
    ending: Arc<Workers<()>>,
}

/// False for what has no shape of its own: control characters, and those that change the direction of what follows.
fn is_shown(unit: char) -> bool {
    matches!(unit, '"' | '\'' | '\\') || unit.escape_debug().eq([unit])
}

/// The name of a program: what can be printed of the one that it sent.
fn printed(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let text: String = text.chars().take_while(|unit| *unit != '\0').filter(|unit| is_shown(*unit)).collect();
    if text.is_empty() { "a program without a name".to_owned() } else { text }
}

/// The machine that serves a program, and those who are told of it.
pub(super) struct Server<'a> {
    pub(super) machine: &'a Machine,
    pub(super) share: Share,
    pub(super) stop: &'a Stop,
    pub(super) observer: &'a Observer,
    pub(super) pids: &'a Pids,
}

impl Program {
    /// Serves a program that has said hello, until it ends or the machine is about to stop.
    pub(super) fn run(server: Server<'_>, pid: Pid, hello: &Hello, seat: &Seat, reached: Reached) {
        let Server { machine, share, stop, observer, pids } = server;
        let (number, channel) = (pid.as_raw_nonzero().get(), Arc::clone(seat.channel()));
        let remote = match RemoteProgram::new(Arc::clone(&channel), pid, hello, reached) {
            Ok(remote) => Arc::new(remote),
            Err(Unreachable { why, copies }) => {
                if copies > 0 {
                    observer(&Event::GivenUp { name: printed(&hello.name), pid: number, copies, calls: 0 });
                }
                // Nobody is left who could be told if the program has ended.
                return why.into_iter().for_each(|why| refuse(&channel, pid, why, observer));
            }
        };
        if channel.send(&FromMachine::Welcome.to_words(), None).is_err() {
            return;
        }
        let name = printed(&hello.name);
        observer(&Event::Connected { name: name.clone(), pid: number });
        let process = Process::elsewhere(
            machine,
            &name,
            number.cast_unsigned(),
            Arc::clone(&remote) as Arc<dyn UserSpace>,
            hello.earlier,
            share,
        );
        pids.lock().insert(process.id(), number);
        let (caller, ends) = (Arc::clone(&process), Arc::clone(&process));
        let answers = Answers { remote: Arc::clone(&remote), stop: stop.clone() };
        let of_calls = answers.clone();
        let calls = Workers::new("program's call", Box::new(move |call| make(&caller, &of_calls, call)));
        let ending = Workers::new("program's end", Box::new(move |()| ends.terminate()));
        let program = Self { channel, remote, answers, calls, ending };
        program.serve(seat, machine, stop);
        seat.leave(stop);
        let calls = program.end(&process, stop, seat.calls_given_up());
        pids.lock().remove(&process.id());
        let copies = program.remote.copies_given_up();
        if copies + calls > 0 {
            observer(&Event::GivenUp { name: name.clone(), pid: number, copies, calls });
        }
        observer(&match program.remote.fault() {
            Some((why, end)) => Event::Ended { name, pid: number, why, end },
            None => Event::Left { name, pid: number },
        });
    }

    /// Ends its process on the machine, and its calls with it. What has not ended in time is given up: it has its thread and what it uses of the process, of which nothing is given to others before
    /// it ends, so the place is free all the same. The answer is how many threads that are.
    fn end(&self, process: &Process, stop: &Stop, given_up: &GivenUp) -> usize {
        // Without a thread for it this one has to wait.
        if !self.ending.add(()) {
            process.terminate();
        }
        self.ending.let_go();
        self.calls.let_go();
        let left = |limit| self.ending.left_after(limit) + self.calls.left_after(limit);
        if is_over_in_time(stop, left) {
            return 0;
        }
        self.ending.give_up(given_up) + self.calls.give_up(given_up)
    }

    /// Returns when the program has no memory of the machine any more, or the machine is about to stop.
    fn serve(&self, seat: &Seat, machine: &Machine, stop: &Stop) {
        let mut looked = Instant::now();
        loop {
            match self.next(seat, &mut looked, stop) {
                Next::Message(FromProgram::Call(call)) if thunks::are_arguments(call.thunk, &call.arguments) => {
                    let id = call.id;
                    if !self.calls.add(call) {
                        self.answers.tell(id, STATUS_INSUFFICIENT_RESOURCES);
                    }
                }
                Next::Message(FromProgram::Done { operation, result }) if self.remote.answer(operation, result) => {}
                Next::Message(_) | Next::Malformed => return self.remote.kill(Fault::Malformed),
                Next::End => return self.remote.wait_for_end(),
                Next::Stop => {
                    // What a request that is under way has moved stays where the program shows it still.
                    if stop.is_set() {
                        machine.keep_memory();
                    }
                    return self.remote.leave();
                }
            }
        }
    }

    /// Waits until something happens. While answers are waited for, their limits are counted here: a wait counts that began with nothing there.
    fn wait(&self, fds: &mut [PollFd<'_>]) -> Result<usize, Errno> {
        if !self.remote.is_waited_for() {
            return poll(fds, Some(&LOOK_TIMEOUT));
        }
        let there = poll(fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        self.remote.look(BUSY_LOOK);
        if there != Ok(0) {
            return there;
        }
        let waited = poll(fds, Some(&ANSWER_LOOK_TIMEOUT));
        self.remote.look(LOOK);
        waited
    }

    /// What it does next; `looked` is when its address space was looked for last.
    fn next(&self, seat: &Seat, looked: &mut Instant, stop: &Stop) -> Next {
        let process = self.remote.process();
        loop {
            if looked.elapsed() >= LOOK_INTERVAL {
                *looked = Instant::now();
                if seat.is_left() {
                    return Next::End;
                }
            }
            let mut fds = [
                PollFd::new(&*self.channel, PollFlags::IN),
                PollFd::new(&process, PollFlags::IN),
                PollFd::new(stop.descriptor(), PollFlags::IN),
            ];
            match self.wait(&mut fds) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => return Next::Stop,
            }
            if !fds[2].revents().is_empty() {
                return Next::Stop;
            }
            // What it sent before it ended does not matter any more.
            if !fds[1].revents().is_empty() {
                return Next::End;
            }
            return match self.channel.receive() {
                Ok(Received::Message(words, None)) => {
                    FromProgram::from_words(&words).map_or(Next::Malformed, Next::Message)
                }
                Ok(Received::Message(_, Some(_)) | Received::WithoutDescriptor(_) | Received::Malformed) => {
                    Next::Malformed
                }
                Ok(Received::Closed) => Next::End,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => Next::End,
            };
        }
    }
}

/// True if nothing is left in time: within [`END_LIMIT`], and within [`ANSWER_LIMIT`] once the machine is to stop. `left` waits so long at most, and answers how much is left.
fn is_over_in_time(stop: &Stop, left: impl Fn(Duration) -> usize) -> bool {
    let until = Instant::now() + END_LIMIT;
    let mut stopped = None;
    while left(END_STEP) > 0 {
        if stopped.is_none() && stop.is_set() {
            stopped = Some(Instant::now() + ANSWER_LIMIT);
        }
        if Instant::now() >= stopped.unwrap_or(until).min(until) {
            return false;
        }
    }
    true
}

/// Makes a call, and tells what it came to.
fn make(process: &Arc<Process>, answers: &Answers, call: Call) {
    let tables = Tables { thunks: dxgkrnl::thunks(), further: dxgkrnl::further_thunks() };
    let mut answer = Answer { answers, id: call.id, status: STATUS_INTERNAL_ERROR };
    let status = {
        let _attached = process.attach();
        act_for(call.caller, || thunks::call(&tables, call.thunk, &call.arguments))
    };
    answer.status = status.unwrap_or(STATUS_PROCEDURE_NOT_FOUND);
}

/// The program whose calls are answered, and what says that they come to nothing.
#[derive(Clone)]
struct Answers {
    remote: Arc<RemoteProgram>,
    stop: Stop,
}

impl Answers {
    /// Tells what a call came to. If the machine stops meanwhile, that is what it came to: what the end of its process made of the call is nothing that a program of Windows would see, and
    /// the memory of all programs stays as it was when the last one had left the machine.
    fn tell(&self, id: u64, status: NTSTATUS) {
        let status = if self.stop.is_set() || self.remote.is_gone() { STATUS_DEVICE_REMOVED } else { status };
        if let Err(error) = self.remote.send(&FromMachine::Returned { id, status }, None) {
            self.remote.send_failed(&error);
        }
    }
}

/// The answer to a call, which is sent when this is dropped: a caller of one that has panicked gets one, too.
struct Answer<'a> {
    answers: &'a Answers,
    id: u64,
    status: NTSTATUS,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.answers.tell(self.id, self.status);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_name_of_a_program_changes_nothing_around_it() {
        assert_eq!(printed("a \u{202e}b\u{2066}c\u{200b}\x1b[1m\n\0d".as_bytes()), "a bc[1m");
        assert_eq!(printed("\"k\u{f6}nnen\", 'ja' \\".as_bytes()), "\"k\u{f6}nnen\", 'ja' \\");
        assert_eq!(printed(b"\x07\0"), "a program without a name");
    }

    #[test]
    fn a_call_that_does_not_end_is_given_up_when_the_machine_is_to_stop_and_one_that_ends_is_waited_for() {
        let stop = Stop::new().unwrap();
        let looks = Cell::new(0);
        let ends = |_| {
            looks.set(looks.get() + 1);
            usize::from(looks.get() < 3)
        };
        assert!(is_over_in_time(&stop, ends));
        assert_eq!(looks.get(), 3);
        stop.stop();
        let never = |limit| {
            std::thread::sleep(limit);
            1
        };
        assert!(!is_over_in_time(&stop, never));
    }
}
