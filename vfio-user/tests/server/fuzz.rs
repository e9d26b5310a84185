//! Messages at random: nothing panics, leaves a region, or is left behind.

use std::os::fd::{AsFd, OwnedFd};

use campanile_vfio_user::message::{HEADER_SIZE, Header};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::peer::{Raw, Served, eventfd, sealed, serving, unsealed};

/// One action of a random client.
#[derive(Clone, Debug)]
enum Step {
    /// A message: command, flags, words of its body, bytes behind them, kinds of descriptors.
    Message(u16, u32, Vec<u64>, Vec<u8>, Vec<u8>),
    /// The same with another size in its header.
    Lie(u16, u32, Vec<u8>),
    /// Bytes.
    Noise(Vec<u8>),
}

/// Numbers at the edges of what the server checks.
fn word() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        16,
        32,
        36,
        0x1000,
        0x2000,
        0x3000,
        0x4000,
        0x1_0000,
        u64::MAX,
        u64::MAX - 0xfff,
        1 << 52,
        u64::from(u32::MAX),
        // Two 32-bit fields each: sizes and flags, vectors and counts, regions and counts.
        32 | 3 << 32,
        24,
        24 | 2 << 32,
        20 | 36 << 32,
        20 | 33 << 32,
        2 | 1 << 32,
        2 << 32,
        2 | 0x1000 << 32,
        7 | 4 << 32,
        4 << 32,
        9 | 8 << 32,
    ];
    prop_oneof![8 => prop::sample::select(edges.to_vec()), 1 => any::<u64>()]
}

fn step() -> impl Strategy<Value = Step> {
    let command = prop_oneof![9 => 1..14_u16, 1 => any::<u16>()];
    let flags = prop_oneof![9 => Just(0_u32), 1 => Just(1 << 4), 1 => any::<u32>()];
    let fds = prop_oneof![3 => vec(0..5_u8, 0..3), 1 => vec(0..5_u8, 0..20)];
    prop_oneof![
        20 => (command, flags, vec(word(), 0..6), vec(any::<u8>(), 0..12), fds)
            .prop_map(|(command, flags, words, tail, fds)| Step::Message(command, flags, words, tail, fds)),
        1 => (1..14_u16, any::<u32>(), vec(any::<u8>(), 0..64)).prop_map(|(command, size, body)| Step::Lie(command, size, body)),
        1 => vec(any::<u8>(), 1..64).prop_map(Step::Noise),
    ]
}

fn descriptor(kind: u8) -> OwnedFd {
    match kind {
        0 | 1 => sealed(0x4000).into(),
        2 => eventfd(0),
        3 => unsealed(0x1000).into(),
        _ => std::io::pipe().expect("a pipe").1.into(),
    }
}

fn play(served: &mut Served, steps: Vec<Step>, hello: bool) -> Raw {
    let mut raw = served.raw();
    if hello {
        raw.hello();
    }
    let mut reader = raw.stream.try_clone().expect("a second handle");
    let drain = std::thread::spawn(move || _ = std::io::copy(&mut reader, &mut std::io::sink()));
    for step in steps {
        let sent = match step {
            Step::Message(command, flags, words, tail, kinds) => {
                let fds: Vec<OwnedFd> = kinds.into_iter().map(descriptor).collect();
                let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
                let body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).chain(tail).collect();
                raw.send(&Header { id: 1, command, flags, ..Header::default() }.before(&body), &fds)
            }
            Step::Lie(command, size, body) => {
                let mut bytes = Header { command, ..Header::default() }.before(&body);
                bytes[4..8].copy_from_slice(&size.to_le_bytes());
                raw.send(&bytes, &[])
            }
            Step::Noise(bytes) => raw.send(&bytes, &[]),
        };
        if !sent {
            break;
        }
    }
    let _ = raw.stream.shutdown(std::net::Shutdown::Write);
    drain.join().expect("read to the end");
    raw
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_message_panics_or_leaves_anything_behind(steps in vec(step(), 1..60), hello in prop::bool::weighted(0.95)) {
        let mut served = serving();
        let raw = play(&mut served, steps, hello);
        let (seen, events) = served.join();
        drop(raw);
        let connected = events.iter().any(|event| event == "Connected");
        prop_assert_eq!(seen.lock().unwrap().dropped, connected, "a function ends with its client");
        prop_assert!(events.last().is_some_and(|last| last.starts_with("Left")));
        prop_assert!(events.len() <= 19, "few lines of any client");
    }

    /// The other end believes its server no more than the server believes it.
    #[test]
    fn no_answer_panics_a_client(answers in vec((any::<u32>(), vec(any::<u8>(), 0..80), prop::bool::ANY), 1..8)) {
        use campanile_vfio_user::Client;
        use std::io::{Read, Write};
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let server = std::thread::spawn(move || {
            let mut greeted = false;
            for (mut flags, mut body, honest) in answers {
                let mut header = [0; HEADER_SIZE];
                if theirs.read_exact(&mut header).is_err() {
                    return;
                }
                let asked = Header::parse(header);
                let mut rest = vec![0; asked.size as usize - HEADER_SIZE];
                if theirs.read_exact(&mut rest).is_err() {
                    return;
                }
                if honest || !greeted {
                    flags = 1;
                }
                if !greeted {
                    body = rest;
                }
                greeted = true;
                let id = if honest { asked.id } else { asked.id ^ (flags as u16 & 1) };
                let _ = theirs.write_all(&Header { id, command: asked.command, flags, ..Header::default() }.before(&body));
            }
        });
        if let Ok(client) = Client::new(ours) {
            let _ = client.regions();
            if let Ok(region) = client.region(4) {
                prop_assert!(region.areas.iter().all(|(start, len)| start + len <= region.size));
            }
            let mut word = [0; 4];
            let _ = client.read(0, 0, &mut word);
            let _ = client.vectors(2);
            let _ = client.unmap(0, 4096);
        }
        server.join().expect("no panic");
    }
}
