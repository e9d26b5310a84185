//! Messages between a program and a machine: twelve 64-bit words each, with at most one descriptor.
//!
//! The first word is the kind. Words that a kind does not use are 0. A message that is none is an error of its sender.

use std::ops::Range;

use nt::user_space::ARGUMENT_WORDS;
use wddm_ddi::status::NTSTATUS;

/// Version of the messages; both ends have the same one.
pub const VERSION: u64 = 7;
/// Words of a message.
pub const WORDS: usize = 12;
/// Arguments of a thunk, at most.
pub const ARGUMENTS: usize = 5;
/// Bytes of a program's name, at most; the rest is cut off.
pub const NAME_BYTES: usize = 40;

/// A message as it is sent.
pub type Words = [u64; WORDS];

/// A call of a thunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The program's number for the call, which the answer bears.
    pub id: u64,
    /// The thunk: its place among all.
    pub thunk: u32,
    /// On behalf of whom: see [`nt::user_space::acting_for`].
    pub caller: u64,
    /// The thunk's arguments, the missing ones 0.
    pub arguments: [u64; ARGUMENTS],
}

/// First message of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub version: u64,
    /// What both ends must have declared alike: [`crate::thunks::DECLARATIONS`].
    pub declarations: u64,
    /// Address of a word of the program's memory that holds [`Hello::mark`] as long as the program is the one that said hello.
    pub mark_address: u64,
    /// A random number.
    pub mark: u64,
    /// Name of the program, filled up with zeros.
    pub name: [u8; NAME_BYTES],
    /// Machines to which it was connected before: their handles are to be refused.
    pub earlier: u64,
}

/// Messages of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromProgram {
    Hello(Hello),
    Call(Call),
    /// An operation is done: its result, or the number of the host's error.
    Done {
        operation: u64,
        result: Result<u64, i32>,
    },
}

/// The reason why a machine does not serve a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Refusal {
    /// The messages are of another version.
    Version = 1,
    /// The thunks are declared differently: the two are of different releases.
    Declarations = 2,
    /// The machine may not read and write the program's memory.
    Memory = 3,
    /// As many programs as the machine serves are connected.
    Full = 4,
    /// The program belongs to another user.
    User = 5,
    /// It connected and sent something else than a Hello, or nothing.
    NoHello = 6,
    /// The process is connected already.
    Twice = 7,
    /// The host gives the machine no more threads.
    Threads = 8,
    /// The host gives the machine no more descriptors.
    Descriptors = 9,
    /// The machine is about to end.
    Stopping = 10,
    /// The process has no number where the machine is.
    Namespace = 11,
    /// More connections come at a time than the machine hears.
    Crowded = 12,
}

impl Refusal {
    const ALL: [Self; 12] = [
        Self::Version,
        Self::Declarations,
        Self::Memory,
        Self::Full,
        Self::User,
        Self::NoHello,
        Self::Twice,
        Self::Threads,
        Self::Descriptors,
        Self::Stopping,
        Self::Namespace,
        Self::Crowded,
    ];

    /// The reason, and what to do.
    pub fn text(self) -> &'static str {
        match self {
            Self::Version => {
                "it speaks another version of the messages: use library and `campanile machine` of one release"
            }
            Self::Declarations => "it declares other thunks: use library and `campanile machine` of one release",
            Self::Memory => {
                "it may not reach this program's memory: allow ptrace between processes of one user (kernel.yama.ptrace_scope at most 1, and no seccomp filter against process_vm_readv)"
            }
            Self::Full => "it serves as many programs as it may: see `campanile machine --programs`",
            Self::User => "it belongs to another user",
            Self::NoHello => "it did not say hello, with which a program of libcampanile_kmt.so begins",
            Self::Twice => "it is connected already, and a process has one connection",
            Self::Threads => {
                "the host gives the machine no more threads: end other programs, and processes that answer for memory of programs that have ended, or raise its limit (ulimit -u)"
            }
            Self::Descriptors => {
                "the host gives the machine no more descriptors: end other programs of it, or start it with a higher limit (ulimit -Hn) or for fewer programs (--programs)"
            }
            Self::Stopping => "it is stopping: start another one with `campanile machine --socket PATH`",
            Self::Crowded => "too many connections come to it at once: try again",
            Self::Namespace => {
                "this process has no number in its PID namespace, as one outside of the machine's container: start the machine in this PID namespace or in one that this one is below"
            }
        }
    }
}

/// What a program's end does in the program for the machine. Ranges are of whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Reserve {
        len: u64,
    },
    /// With the descriptor of what is to be shown.
    Show {
        range: Range<u64>,
        offset: u64,
        writable: bool,
    },
    Hide {
        range: Range<u64>,
    },
    Freeze {
        range: Range<u64>,
    },
    Thaw {
        start: u64,
    },
    AllowStores {
        range: Range<u64>,
    },
    Detach {
        range: Range<u64>,
        writable: bool,
    },
    Blank {
        range: Range<u64>,
    },
    AnswerForFunction {
        range: Range<u64>,
    },
    Release {
        range: Range<u64>,
    },
    Call {
        function: u64,
        argument: [u64; ARGUMENT_WORDS],
        caller: u64,
    },
    /// With a descriptor, which is the program's from then on; the answer is its number there.
    Give,
    Adopt {
        range: Range<u64>,
    },
    GiveBack {
        range: Range<u64>,
        device: u64,
        inode: u64,
    },
}

/// Messages of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromMachine {
    Welcome,
    Refused(Refusal),
    /// A thunk has returned.
    Returned {
        id: u64,
        status: NTSTATUS,
    },
    /// Something is to be done, and answered with [`FromProgram::Done`].
    Operate {
        number: u64,
        operation: Operation,
    },
}

/// A message that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

const HELLO: u64 = 1;
const CALL: u64 = 2;
const DONE: u64 = 3;
const WELCOME: u64 = 16;
const REFUSED: u64 = 17;
const RETURNED: u64 = 18;
const OPERATE: u64 = 32;

fn filled(words: &[u64]) -> Words {
    let mut message = [0; WORDS];
    message.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
    message
}

fn range(start: u64, end: u64) -> Result<Range<u64>, Malformed> {
    if start < end { Ok(start..end) } else { Err(Malformed) }
}

fn flag(word: u64) -> Result<bool, Malformed> {
    match word {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

impl FromProgram {
    /// The message as it is sent.
    pub fn to_words(self) -> Words {
        match self {
            Self::Hello(hello) => {
                let mut words = filled(&[HELLO, hello.version, hello.declarations, hello.mark_address, hello.mark]);
                let (name, _) = hello.name.as_chunks();
                let earlier = hello.earlier.to_le_bytes();
                let rest = name.iter().chain([&earlier]);
                words.iter_mut().skip(5).zip(rest).for_each(|(to, from)| *to = u64::from_le_bytes(*from));
                words
            }
            Self::Call(Call { id, thunk, caller, arguments: [a, b, c, d, e] }) => {
                filled(&[CALL, id, thunk.into(), caller, a, b, c, d, e])
            }
            Self::Done { operation, result } => match result {
                Ok(value) => filled(&[DONE, operation, 0, value]),
                Err(error) => filled(&[DONE, operation, error.unsigned_abs().max(1).into(), 0]),
            },
        }
    }

    /// The message that came.
    ///
    /// # Errors
    /// It is none, or a word that its kind does not use is not 0.
    pub fn from_words(words: &Words) -> Result<Self, Malformed> {
        let message = Self::of(words)?;
        if message.to_words() == *words { Ok(message) } else { Err(Malformed) }
    }

    fn of(words: &Words) -> Result<Self, Malformed> {
        let [kind, a, b, c, d, e, f, g, h, i, earlier, _] = *words;
        match kind {
            HELLO => {
                let mut name = [0; NAME_BYTES];
                let (chunks, _) = name.as_chunks_mut();
                chunks.iter_mut().zip([e, f, g, h, i]).for_each(|(to, from)| *to = from.to_le_bytes());
                Ok(Self::Hello(Hello { version: a, declarations: b, mark_address: c, mark: d, name, earlier }))
            }
            CALL => {
                let thunk = u32::try_from(b).map_err(|_| Malformed)?;
                Ok(Self::Call(Call { id: a, thunk, caller: c, arguments: [d, e, f, g, h] }))
            }
            DONE => {
                let error = i32::try_from(b).map_err(|_| Malformed)?;
                Ok(Self::Done { operation: a, result: if error == 0 { Ok(c) } else { Err(error) } })
            }
            _ => Err(Malformed),
        }
    }
}

/// Version of a Hello, whatever else is in it; `None` if it is something else.
pub fn version(words: &Words) -> Option<u64> {
    let [kind, version, ..] = *words;
    (kind == HELLO).then_some(version)
}

impl Operation {
    /// Kind, then the words of its own.
    fn to_words(&self) -> (u64, [u64; 5]) {
        match self {
            Self::Reserve { len } => (0, [*len, 0, 0, 0, 0]),
            Self::Show { range, offset, writable } => (1, [range.start, range.end, *offset, (*writable).into(), 0]),
            Self::Hide { range } => (2, [range.start, range.end, 0, 0, 0]),
            Self::Freeze { range } => (3, [range.start, range.end, 0, 0, 0]),
            Self::Thaw { start } => (4, [*start, 0, 0, 0, 0]),
            Self::AllowStores { range } => (5, [range.start, range.end, 0, 0, 0]),
            Self::Detach { range, writable } => (6, [range.start, range.end, (*writable).into(), 0, 0]),
            Self::Blank { range } => (7, [range.start, range.end, 0, 0, 0]),
            Self::AnswerForFunction { range } => (8, [range.start, range.end, 0, 0, 0]),
            Self::Release { range } => (9, [range.start, range.end, 0, 0, 0]),
            Self::Call { function, argument: [a, b, c], caller } => (10, [*function, *a, *b, *c, *caller]),
            Self::Give => (11, [0; 5]),
            Self::Adopt { range } => (12, [range.start, range.end, 0, 0, 0]),
            Self::GiveBack { range, device, inode } => (13, [range.start, range.end, *device, *inode, 0]),
        }
    }

    fn from_words(kind: u64, [a, b, c, d, e]: [u64; 5]) -> Result<Self, Malformed> {
        Ok(match kind {
            0 => Self::Reserve { len: a },
            1 => Self::Show { range: range(a, b)?, offset: c, writable: flag(d)? },
            2 => Self::Hide { range: range(a, b)? },
            3 => Self::Freeze { range: range(a, b)? },
            4 => Self::Thaw { start: a },
            5 => Self::AllowStores { range: range(a, b)? },
            6 => Self::Detach { range: range(a, b)?, writable: flag(c)? },
            7 => Self::Blank { range: range(a, b)? },
            8 => Self::AnswerForFunction { range: range(a, b)? },
            9 => Self::Release { range: range(a, b)? },
            10 => Self::Call { function: a, argument: [b, c, d], caller: e },
            11 => Self::Give,
            12 => Self::Adopt { range: range(a, b)? },
            13 => Self::GiveBack { range: range(a, b)?, device: c, inode: d },
            _ => return Err(Malformed),
        })
    }
}

impl FromMachine {
    /// The message as it is sent.
    pub fn to_words(&self) -> Words {
        match self {
            Self::Welcome => filled(&[WELCOME]),
            Self::Refused(why) => filled(&[REFUSED, *why as u64]),
            Self::Returned { id, status } => filled(&[RETURNED, *id, u64::from(status.0.cast_unsigned())]),
            Self::Operate { number, operation } => {
                let (kind, [a, b, c, d, e]) = operation.to_words();
                filled(&[OPERATE + kind, *number, a, b, c, d, e])
            }
        }
    }

    /// The message that came.
    ///
    /// # Errors
    /// It is none, or a word that its kind does not use is not 0.
    pub fn from_words(words: &Words) -> Result<Self, Malformed> {
        let message = Self::of(words)?;
        if message.to_words() == *words { Ok(message) } else { Err(Malformed) }
    }

    fn of(words: &Words) -> Result<Self, Malformed> {
        let [kind, a, b, c, d, e, f, ..] = *words;
        match kind {
            WELCOME => Ok(Self::Welcome),
            REFUSED => {
                let why = Refusal::ALL.into_iter().find(|known| *known as u64 == a);
                why.map(Self::Refused).ok_or(Malformed)
            }
            RETURNED => {
                let status = u32::try_from(b).map_err(|_| Malformed)?;
                Ok(Self::Returned { id: a, status: NTSTATUS(status.cast_signed()) })
            }
            OPERATE.. => {
                let operation = Operation::from_words(kind - OPERATE, [b, c, d, e, f])?;
                Ok(Self::Operate { number: a, operation })
            }
            _ => Err(Malformed),
        }
    }
}

/// A program's name as it is sent.
pub fn name_bytes(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_program_sends_arrives_as_it_was() {
        let hello =
            Hello { version: 1, declarations: 2, mark_address: 3, mark: 4, name: name_bytes("a program"), earlier: 5 };
        let call = Call { id: 7, thunk: 8, caller: 9, arguments: [1, 2, 3, 4, 5] };
        let done = |result| FromProgram::Done { operation: 3, result };
        for message in [FromProgram::Hello(hello), FromProgram::Call(call), done(Ok(5)), done(Err(libc::ENOMEM))] {
            assert_eq!(FromProgram::from_words(&message.to_words()), Ok(message));
        }
    }

    #[test]
    fn what_a_machine_sends_arrives_as_it_was() {
        let range = 4096..8192;
        let operations = [
            Operation::Reserve { len: 4096 },
            Operation::Show { range: range.clone(), offset: 12288, writable: true },
            Operation::Hide { range: range.clone() },
            Operation::Freeze { range: range.clone() },
            Operation::Thaw { start: 4096 },
            Operation::AllowStores { range: range.clone() },
            Operation::Detach { range: range.clone(), writable: false },
            Operation::Blank { range: range.clone() },
            Operation::AnswerForFunction { range: range.clone() },
            Operation::Release { range: range.clone() },
            Operation::Adopt { range: range.clone() },
            Operation::GiveBack { range, device: 6, inode: 7 },
            Operation::Call { function: 1, argument: [2, 3, 4], caller: 5 },
            Operation::Give,
        ];
        let operations = operations.map(|operation| FromMachine::Operate { number: 9, operation });
        let refusals = Refusal::ALL.map(FromMachine::Refused);
        let others = [FromMachine::Welcome, FromMachine::Returned { id: 1, status: NTSTATUS(-5) }];
        for message in operations.into_iter().chain(refusals).chain(others) {
            assert_eq!(FromMachine::from_words(&message.to_words()), Ok(message));
        }
    }

    #[test]
    fn a_word_that_a_kind_does_not_use_is_0() {
        let call = FromProgram::Call(Call { id: 7, thunk: 8, caller: 9, arguments: [1, 2, 3, 4, 5] }).to_words();
        let done = FromProgram::Done { operation: 3, result: Err(libc::ENOMEM) }.to_words();
        for (message, unused) in [(call, 9), (call, 11), (done, 3), (done, 4), (done, 11)] {
            let mut words = message;
            words[unused] = 1;
            assert!(FromProgram::from_words(&message).is_ok());
            assert_eq!(FromProgram::from_words(&words), Err(Malformed), "{message:?} with a word {unused}");
        }
        let welcome = FromMachine::Welcome.to_words();
        let give = FromMachine::Operate { number: 1, operation: Operation::Give }.to_words();
        for (message, unused) in [(welcome, 1), (give, 2), (give, 11)] {
            let mut words = message;
            words[unused] = 1;
            assert!(FromMachine::from_words(&message).is_ok());
            assert_eq!(FromMachine::from_words(&words), Err(Malformed), "{message:?} with a word {unused}");
        }
    }

    /// The table of kinds in the document has what is sent, by number and name.
    #[test]
    fn the_document_has_every_kind_of_message() {
        let document = include_str!("../../docs/machine.md");
        let rows: Vec<(u64, &str)> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
            .filter_map(|(kind, rest)| Some((kind.parse().ok()?, rest.split(" | ").next()?)))
            .collect();
        let name = |words: &Words| {
            let shown = match (FromProgram::of(words), FromMachine::of(words)) {
                (Ok(message), _) => format!("{message:?}"),
                (_, Ok(FromMachine::Operate { operation, .. })) => format!("{operation:?}"),
                (_, Ok(message)) => format!("{message:?}"),
                _ => return None,
            };
            shown.split([' ', '(']).next().map(str::to_owned)
        };
        // Words that every kind takes for a range, a flag, a reason.
        let sent = (0..256).filter_map(|kind| {
            let words = |third| filled(&[kind, 1, 1, third, 1, 1]);
            Some((kind, name(&words(2)).or_else(|| name(&words(1)))?))
        });
        let sent: Vec<_> = sent.collect();
        let told: Vec<_> = rows.into_iter().map(|(kind, name)| (kind, name.to_owned())).collect();
        assert_eq!(told, sent);
    }

    proptest! {
        /// Whatever comes is a message or none; what is one is sent as it came, in every word. So are the messages that differ from one in a single word.
        #[test]
        fn any_words_are_a_message_or_none(kind in 0u64..64, small in prop::array::uniform11(0u64..3), place in 1..WORDS, any in any::<u64>()) {
            let mut words = [kind; WORDS];
            words[1..].copy_from_slice(&small);
            words[place] = any;
            if let Ok(message) = FromProgram::from_words(&words) {
                prop_assert_eq!(message.to_words(), words);
            }
            if let Ok(message) = FromMachine::from_words(&words) {
                prop_assert_eq!(message.to_words(), words);
            }
        }
    }
}
