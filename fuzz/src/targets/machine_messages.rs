//! Messages between a program and the machine that serves it, over the socket that carries them.
//!
//! What the server does with a program that has said hello is not here: it ends one that misbehaves by killing its process, which would be this one.

use std::os::fd::{AsFd, BorrowedFd};

use remote::channel::{Channel, Received};
use remote::wire::{FromMachine, FromProgram, Refusal, WORDS, Words};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};

use crate::input::Input;

/// Datagrams of an input, at most.
const DATAGRAMS: usize = 64;
/// Bytes of a message.
const BYTES: usize = WORDS * 8;

/// Kind of an operation's message behind 32, and its words: how many it has, which two of them are a range that is not empty, and which is a flag.
const OPERATIONS: [(usize, bool, Option<usize>); 14] = [
    (1, false, None),
    (4, true, Some(3)),
    (2, true, None),
    (2, true, None),
    (1, false, None),
    (2, true, None),
    (3, true, Some(2)),
    (2, true, None),
    (2, true, None),
    (2, true, None),
    (5, false, None),
    (0, false, None),
    (2, true, None),
    (4, true, None),
];

/// The words behind the first `used` ones are 0.
fn ends(words: &[u64], used: usize) -> bool {
    words[used..].iter().all(|word| *word == 0)
}

/// The words are a message of a program: HELLO, CALL or DONE.
fn is_of_program(words: &Words) -> bool {
    match words[0] {
        1 => ends(words, 11),
        2 => ends(words, 9) && words[2] <= u64::from(u32::MAX),
        // An error has no result.
        3 => ends(words, 4) && words[2] <= i32::MAX as u64 && (words[2] == 0 || words[3] == 0),
        _ => false,
    }
}

/// The words are a message of a machine: WELCOME, REFUSED, RETURNED or an operation.
fn is_of_machine(words: &Words) -> bool {
    match words[0] {
        16 => ends(words, 1),
        17 => ends(words, 2) && (1..=12).contains(&words[1]),
        18 => ends(words, 3) && words[2] <= u64::from(u32::MAX),
        kind @ 32.. => {
            let operation = usize::try_from(kind - 32).ok().and_then(|kind| OPERATIONS.get(kind));
            operation.is_some_and(|(used, is_range, flag)| {
                let own = &words[2..7];
                ends(words, 2 + used) && (!is_range || own[0] < own[1]) && flag.is_none_or(|flag| own[flag] <= 1)
            })
        }
        _ => false,
    }
}

/// Words that begin with a kind that there is, most of the time.
fn words(input: &mut Input<'_>) -> Words {
    let mut words = [0; WORDS];
    words[0] = u64::from(input.u8() % 48);
    for _ in 0..input.u8() % 12 {
        let (at, value) = (usize::from(input.u8()) % WORDS, input.u8());
        words[at] = match value {
            0..128 => u64::from(value),
            128..192 => u64::from(value) << 12,
            192..200 => [u64::MAX, 1 << 32, u64::from(u32::MAX), 1 << 31, (1 << 31) - 1, 1 << 63, 2, 8]
                [usize::from(value - 192)],
            _ => input.u64(),
        };
    }
    words
}

/// The words are a message of one end, of the other, or of none, as the protocol says; a message has these words again.
fn decode(words: &Words) {
    match FromProgram::from_words(words) {
        Ok(message) => {
            assert!(is_of_program(words), "{words:x?} are no message of a program: {message:?}");
            assert_eq!(message.to_words(), *words, "{message:?}");
        }
        Err(_) => assert!(!is_of_program(words), "{words:x?} are a message of a program"),
    }
    match FromMachine::from_words(words) {
        Ok(message) => {
            assert!(is_of_machine(words), "{words:x?} are no message of a machine: {message:?}");
            assert_eq!(message.to_words(), *words, "{message:?}");
            if let FromMachine::Refused(why) = message {
                assert_ne!(why.text(), Refusal::text(if why == Refusal::Full { Refusal::User } else { Refusal::Full }));
            }
        }
        Err(_) => assert!(!is_of_machine(words), "{words:x?} are a message of a machine"),
    }
}

/// A datagram arrives as a message if it has the size of one and at most one descriptor, as malformed otherwise, and as the end where it is empty; its words are decoded as the protocol says.
pub(crate) fn machine_messages(data: &[u8]) {
    let mut input = Input::new(data);
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (program, machine) = pair.expect("two sockets");
    let machine = Channel::new(machine);
    for _ in 0..DATAGRAMS {
        if input.is_empty() {
            break;
        }
        let words = words(&mut input);
        decode(&words);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let len @ 200.. = input.u8() {
            bytes.resize(usize::from(len - 200) * 4, 0);
        }
        let descriptors = usize::from(input.u8() / 64);
        let sent: Vec<BorrowedFd<'_>> = (0..descriptors).map(|_| program.as_fd()).collect();
        send(&program, &bytes, &sent);
        match machine.receive().expect("a datagram") {
            Received::Message(came, descriptor) => {
                assert!(bytes.len() == BYTES && descriptors <= 1, "{} bytes, {descriptors} descriptors", bytes.len());
                assert_eq!((came, descriptor.is_some()), (words, descriptors == 1));
            }
            Received::WithoutDescriptor(_) => panic!("this process may open more descriptors"),
            Received::Malformed => assert!(bytes.len() != BYTES || descriptors > 1, "a message is malformed"),
            Received::Closed => assert!(bytes.is_empty() && descriptors == 0, "{} bytes are the end", bytes.len()),
        }
    }
    drop(program);
    assert!(matches!(machine.receive(), Ok(Received::Closed)), "the end of the program");
}

fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)), "space for descriptors");
    }
    let sent = sendmsg(socket, &[std::io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(bytes.len()), "a datagram is sent whole");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_a_message_of_a_machine_and_there_are_no_others() {
        for number in 0..64 {
            let mut words = [0; WORDS];
            words[..2].copy_from_slice(&[17, number]);
            decode(&words);
        }
    }
}
