//! The client against servers that lie: each question ends with an answer that makes sense or with an error, within its time.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use campanile_vfio_user::Client;
use campanile_vfio_user::message::{HEADER_SIZE, Header, MAX_FDS, MAX_MESSAGE, command, header_flag, region_flag};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::peer::{sealed, unsealed};

/// Longer than any answer here takes.
const TIMEOUT: Duration = Duration::from_secs(60);
const HELLO: &[u8] = b"\0\0\x01\0{}\0";

/// A server's wrong answer to one request.
#[derive(Clone, Debug)]
enum Lie {
    /// A reply with this body and so many descriptors.
    Reply(Vec<u8>, usize),
    /// A header of its own, changed in some bits, and a body.
    Header { id: u16, command: u16, size: u32, flags: u32, error: u32, body: Vec<u8> },
    /// The end.
    Close,
}

fn question(stream: &mut UnixStream) -> Option<Header> {
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header).ok()?;
    let header = Header::parse(header);
    let mut body = vec![0; (header.size as usize).checked_sub(HEADER_SIZE)?];
    stream.read_exact(&mut body).ok()?;
    Some(header)
}

fn reply(to: Header, body: &[u8]) -> Vec<u8> {
    Header { flags: header_flag::REPLY, ..to }.before(body)
}

fn send(stream: &UnixStream, bytes: &[u8], files: &[File]) {
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
    // The client may have given up already.
    let _ = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}

/// Greets as it should, then lies, and goes on reading until the client leaves.
fn serve(mut stream: UnixStream, lies: Vec<Lie>) {
    let Some(hello) = question(&mut stream) else { return };
    send(&stream, &reply(hello, HELLO), &[]);
    for lie in lies {
        let Some(asked) = question(&mut stream) else { return };
        match lie {
            Lie::Reply(body, files) => {
                let files: Vec<_> = (0..files).map(|_| unsealed(4096)).collect();
                send(&stream, &reply(asked, &body), &files);
            }
            Lie::Header { id, command, size, flags, error, body } => {
                let mut bytes = reply(asked, &body);
                for (at, bits) in [(0, u32::from(id) | u32::from(command) << 16), (4, size), (8, flags), (12, error)] {
                    bytes[at..at + 4].iter_mut().zip(bits.to_le_bytes()).for_each(|(byte, bits)| *byte ^= bits);
                }
                send(&stream, &bytes, &[]);
                // The client may wait for the rest of it.
                return;
            }
            Lie::Close => return,
        }
    }
    let _ = stream.read_to_end(&mut Vec::new());
}

fn against<T>(lies: Vec<Lie>, ask: impl FnOnce(&Client) -> T) -> T {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || serve(theirs, lies));
    let client = Client::with_time_limit(ours, TIMEOUT).unwrap();
    let outcome = ask(&client);
    drop(client);
    thread.join().unwrap();
    outcome
}

/// The body of an answer about a region.
fn region(flags: u32, at: u32, size: u64, offset: u64, areas: &[(u64, u64)]) -> Vec<u8> {
    let mut body = [4096, flags, 2, at].map(u32::to_le_bytes).concat();
    body.extend([size, offset].iter().flat_map(|word| word.to_le_bytes()));
    body.extend(u32::from(region_flag::CAP_SPARSE_MMAP).to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    body.extend((areas.len() as u32).to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    body.extend(areas.iter().flat_map(|(offset, len)| [*offset, *len]).flat_map(u64::to_le_bytes));
    body
}

#[test]
fn areas_lie_in_their_region_and_numbers_do_not_wrap() {
    let caps = region_flag::CAPS | region_flag::MMAP;
    for (what, body) in [
        ("an area beyond the region", region(caps, 32, 0x1000, 0, &[(0, 0x2000)])),
        ("an area that wraps", region(caps, 32, u64::MAX, 0, &[(u64::MAX, 2)])),
        ("capabilities behind the message", region(caps, 4096, 0x1000, 0, &[])),
        ("capabilities at the end of the numbers", region(caps, u32::MAX, 0x1000, 0, &[])),
        ("too short", vec![0; 31]),
        ("nothing", Vec::new()),
    ] {
        let error = against(vec![Lie::Reply(body, 1)], |client| client.region(2).map(drop).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{what}: {error}");
    }
    // A descriptor that nothing was said about is not kept, and none is believed to be there that did not come.
    for (flags, files) in [(0, 3), (region_flag::MMAP, 0)] {
        let body = region(flags, 0, 0x1000, 0, &[]);
        let info = against(vec![Lie::Reply(body, files)], |client| client.region(2)).unwrap();
        assert!(info.file.is_none());
    }
}

#[test]
fn who_answers_another_question_or_too_much_is_given_up() {
    let header = |id, command, size, flags| Lie::Header { id, command, size, flags, error: 0, body: Vec::new() };
    for lie in [
        header(1, 0, 0, 0),
        header(0, command::DEVICE_RESET, 0, 0),
        // Smaller than a header, and larger than any message.
        header(0, 0, 16, 0),
        header(0, 0, u32::try_from(MAX_MESSAGE).unwrap() << 1, 0),
        // A command in place of an answer.
        header(0, 0, 0, header_flag::REPLY),
        Lie::Reply(vec![0; 16], MAX_FDS + 1),
    ] {
        let text = format!("{lie:?}");
        against(vec![lie, Lie::Close], |client| {
            assert!(client.regions().is_err(), "{text}");
            assert!(client.is_gone(), "{text}");
            assert_eq!(client.regions().unwrap_err().kind(), ErrorKind::NotConnected, "{text}");
        });
    }
    // A read has as many bytes as were asked for.
    for bytes in [0, 16, 20, 23, 25, 4000] {
        let outcome = against(vec![Lie::Reply(vec![0; bytes], 0)], |client| client.read(0, 0, &mut [0; 8]));
        assert_eq!(outcome.is_ok(), bytes == 24, "{bytes} bytes");
    }
}

#[test]
fn a_server_that_says_nothing_or_goes_on_for_ever_is_given_up_in_time() {
    for trickle in [false, true] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let hello = question(&mut theirs).unwrap();
            send(&theirs, &reply(hello, HELLO), &[]);
            let asked = question(&mut theirs).unwrap();
            // A byte now and then does not keep the client waiting for the next one.
            for byte in reply(asked, &[0; 4096]).into_iter().cycle().take(if trickle { usize::MAX } else { 0 }) {
                if theirs.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = theirs.read_to_end(&mut Vec::new());
        });
        // Long enough for the introduction on a busy machine.
        let client = Client::with_time_limit(ours, Duration::from_secs(3)).unwrap();
        let started = Instant::now();
        let error = client.regions().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(started.elapsed() >= Duration::from_secs(3) && client.is_gone());
        drop(client);
        thread.join().unwrap();
    }
}

#[test]
fn what_is_posted_is_done_before_what_is_asked() {
    let mut served = crate::peer::serving();
    let client = Client::new(served.stream.take().unwrap()).unwrap();
    for value in 0..200_u8 {
        client.post(0, u64::from(value), &[value]).unwrap();
    }
    client.read(0, 0, &mut [0]).unwrap();
    let writes: Vec<_> = served.seen.lock().unwrap().writes.clone();
    assert!(
        writes.len() == 200 && (0..).zip(&writes).all(|(value, write)| *write == (0, u64::from(value), vec![value]))
    );
    // One that is refused is not told, and does no harm.
    client.post(0, u64::MAX, &[0]).unwrap();
    assert_eq!(client.regions().unwrap(), 10);
    drop(client);
    served.join();
}

#[test]
fn memory_of_a_server_stays_as_long_as_it_was() {
    let file = unsealed(8192);
    campanile_vfio_user::check_memory(file.as_fd()).unwrap();
    assert!(file.set_len(4096).is_err(), "it was sealed when it was looked at");
    let plain = File::open("/proc/self/exe").unwrap();
    assert!(campanile_vfio_user::check_memory(plain.as_fd()).is_err());
    campanile_vfio_user::check_memory(sealed(4096).as_fd()).unwrap();
}
