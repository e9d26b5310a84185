//! What a client may ask of a server, and what it may not.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, mpsc};

use crate::peer::{BAR0, BAR2, Seen, VECTORS, Watching, eventfd, sealed, serving, unsealed};
use campanile_vfio_user::message::{Header, MAX_MESSAGE, Reader, Writer, command};
use campanile_vfio_user::{BindError, Client, Event, Function, Server, Stopper};

const EPERM: u32 = 1;
const EEXIST: u32 = 17;
const EINVAL: u32 = 22;
const EOPNOTSUPP: u32 = 95;

fn number(error: &std::io::Error) -> u32 {
    error.raw_os_error().map_or(0, i32::unsigned_abs)
}

fn map_body(flags: u32, offset: u64, address: u64, len: u64) -> Vec<u8> {
    Writer::default().u32(32).u32(flags).u64(offset).u64(address).u64(len).done()
}

fn irq_body(flags: u32, index: u32, start: u32, count: u32) -> Vec<u8> {
    Writer::default().u32(20).u32(flags).u32(index).u32(start).u32(count).done()
}

#[test]
fn a_refusal_of_triggers_names_index_start_count_and_what_the_server_has() {
    let mut served = serving();
    let client = Client::new(served.stream.take().unwrap()).unwrap();
    let trigger = eventfd(0);
    let error = client.set_triggers(VECTORS.into(), &[trigger.as_fd()]).unwrap_err().to_string();
    let asked = format!("refuses DEVICE_SET_IRQS of index 2 (MSI-X) with start {VECTORS}, count 1 and flags 0x24");
    let has = format!("(os error {EINVAL}); DEVICE_GET_IRQ_INFO of the index answers count {VECTORS}");
    assert!(error.contains(&asked) && error.ends_with(&has), "{error}");
    let error = client.set_line_trigger(Some(trigger.as_fd())).unwrap_err().to_string();
    assert!(error.contains("DEVICE_GET_IRQ_INFO of index 0 (INTx) answers count 0, and expected is 1"), "{error}");
}

#[test]
fn a_client_learns_what_the_function_has() {
    let mut served = serving();
    let client = Client::new(served.stream.take().unwrap()).unwrap();
    assert_eq!(client.regions().unwrap(), 10);
    assert_eq!(
        (0..6).map(|index| client.vectors(index).map_err(|e| number(&e))).collect::<Vec<_>>(),
        [Ok(0), Ok(0), Ok(VECTORS.into()), Ok(1), Ok(1), Err(EINVAL)]
    );
    let bar0 = client.region(0).unwrap();
    assert_eq!((bar0.size, bar0.file.is_none(), bar0.areas.len()), (BAR0, true, 0));
    let bar2 = client.region(2).unwrap();
    assert_eq!((bar2.size, bar2.areas), (BAR2, vec![(0, 0x1000), (0x2000, 0x2000)]));
    assert_eq!(bar2.file.unwrap().0.metadata().unwrap().len(), BAR2);
    assert_eq!(client.region(1).unwrap().size, 0);
    assert_eq!(number(&client.region(10).unwrap_err()), EINVAL);
    let mut word = [0; 8];
    client.read(0, BAR0 - 8, &mut word).unwrap();
    assert_eq!(word, [1; 8]);
    client.write(7, 4, &[6, 0]).unwrap();
    client.reset().unwrap();
    drop(client);
    let (seen, events) = served.join();
    let seen = seen.lock().unwrap();
    assert_eq!((seen.resets, seen.writes.as_slice(), seen.dropped), (1, &[(7, 4, vec![6, 0])][..], true));
    assert_eq!(
        events,
        [
            "Connected",
            "Note(\"command 7 refused: no such interrupt\")",
            "Note(\"command 5 refused: no such region\")",
            "Left(None)"
        ]
    );
}

#[test]
fn a_file_comes_only_with_the_whole_answer() {
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    // A short answer says where the rest would be, and how long the whole is.
    for (capacity, size) in [(32, 32), (79, 32), (80, 80)] {
        let question = Writer::default().u32(capacity).u32(0).u32(2).u32(0).u64(0).u64(0).done();
        let (error, body) = raw.ask(command::DEVICE_GET_REGION_INFO, &question, &[]).unwrap();
        let mut fields = Reader::new(&body);
        assert_eq!(
            (error, body.len(), fields.u32(), fields.u64().is_some(), fields.u32()),
            (0, size, Some(80), true, Some(32))
        );
    }
    drop(raw);
    served.join();
}

#[test]
fn nothing_goes_before_the_introduction_and_none_is_made_twice() {
    let mut served = serving();
    let mut raw = served.raw();
    assert_eq!(raw.ask(command::DEVICE_GET_INFO, &[0; 16], &[]), None);
    let (seen, events) = served.join();
    assert!(!seen.lock().unwrap().dropped, "no function is made for such a client");
    assert!(events[0].contains("before VERSION"), "{events:?}");
    for (hello, answer) in [(&b"\0\0\0\0{"[..], EINVAL), (b"\x01\0\0\0{}\0", EINVAL), (b"\0\0\0", EINVAL)] {
        let mut served = serving();
        let mut raw = served.raw();
        assert_eq!(raw.ask(command::VERSION, hello, &[]).map(|(error, _)| error), Some(answer));
        assert_eq!(raw.receive(), None);
        served.join();
    }
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    assert_eq!(raw.ask(command::VERSION, b"\0\0\0\0{}\0", &[]).unwrap().0, EINVAL);
    drop(raw);
    served.join();
}

#[test]
fn an_answer_is_never_longer_than_the_introduction() {
    let mut served = serving();
    let mut raw = served.raw();
    assert_eq!(raw.ask(command::VERSION, b"\0\0\0\0{}\0", &[]), Some((0, vec![0; 4])));
    drop(raw);
    served.join();
}

#[test]
fn memory_is_taken_in_pieces_and_given_back_whole() {
    let mut served = serving();
    let client = Client::new(served.stream.take().unwrap()).unwrap();
    let file = sealed(0x10_0000);
    client.map(0, Some(&file), 0, 0xa_0000, true).unwrap();
    client.map(0xa_0000, None, 0, 0x2_0000, true).unwrap();
    client.map(0xc_0000, Some(&file), 0xc_0000, 0x4_0000, false).unwrap();
    client.map(0xffff_ffff_ffff_0000, None, 0, 0x1000, true).unwrap();
    let mapped = || served.seen.lock().unwrap().maps.clone();
    assert_eq!(mapped(), [(0, 0xa_0000, true), (0xc_0000, 0x4_0000, false)], "what has no memory is not mapped");
    for (address, len, error) in [
        (0x9_f000, 0x1000, EEXIST),
        (0xa_1000, 0x1000, EEXIST),
        (0, 0x100_0000, EEXIST),
        (0x800, 0x1000, EINVAL),
        (0x20_0000, 0, EINVAL),
        (0x20_0000, 0x800, EINVAL),
        (u64::MAX - 0xfff, 0x2000, EINVAL),
        (0x20_0000, 0x20_0000, EINVAL),
    ] {
        let refused = client.map(address, Some(&file), 0, len, true).unwrap_err();
        assert_eq!(number(&refused), error, "{address:#x} {len:#x}");
    }
    assert_eq!(number(&client.map(0x20_0000, Some(&file), u64::MAX - 0xfff, 0x1000, true).unwrap_err()), EINVAL);
    for (address, len) in [(0, 0x1000), (0x1000, 0x9_f000), (0xa_0000, 0x1_0000), (0xc_1000, 0x10_0000)] {
        assert_eq!(number(&client.unmap(address, len).unwrap_err()), EINVAL, "{address:#x} {len:#x}");
    }
    assert_eq!(mapped().len(), 2);
    client.unmap(0, 0xc_0000).unwrap();
    assert_eq!(mapped(), [(0xc_0000, 0x4_0000, false)]);
    client.unmap(0x5000_0000, 0x1000).unwrap();
    client.map(0, Some(&file), 0, 0x1000, true).unwrap();
    drop(client);
    served.join();
}

#[test]
fn all_memory_is_given_back_at_once_and_other_flags_are_refused() {
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    let file = sealed(0x10_0000);
    for page in 0..4 {
        assert_eq!(raw.ask(command::DMA_MAP, &map_body(3, 0, page << 13, 0x1000), &[&file]).unwrap().0, 0);
    }
    for flags in [0, 2, 7, u32::MAX] {
        assert_eq!(raw.ask(command::DMA_MAP, &map_body(flags, 0, 1 << 20, 0x1000), &[&file]).unwrap().0, EINVAL);
    }
    assert_eq!(raw.ask(command::DMA_MAP, &map_body(3, 0, 1 << 20, 0x1000), &[&file, &file]).unwrap().0, EINVAL);
    let mut unmap = |flags: u32, address: u64, len: u64| {
        let body = Writer::default().u32(24).u32(flags).u64(address).u64(len).done();
        raw.ask(command::DMA_UNMAP, &body, &[]).unwrap()
    };
    assert_eq!((unmap(1, 0, 0).0, unmap(2, 0, 1).0, unmap(4, 0, 0).0), (EOPNOTSUPP, EINVAL, EINVAL));
    assert_eq!(served.seen.lock().unwrap().maps.len(), 4);
    let (error, body) = unmap(2, 0, 0);
    assert_eq!((error, body.get(16..24)), (0, Some(&0x4000_u64.to_le_bytes()[..])));
    assert!(served.seen.lock().unwrap().maps.is_empty());
    drop(raw);
    served.join();
}

#[test]
fn memory_that_can_shrink_is_sealed_or_not_taken() {
    let mut served = serving();
    let client = Client::new(served.stream.take().unwrap()).unwrap();
    let sealable = unsealed(0x2000);
    client.map(0, Some(&sealable), 0, 0x2000, true).unwrap();
    assert!(sealable.set_len(0).is_err(), "the server has sealed it");
    let plain = File::from(rustix::fs::memfd_create("plain", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    plain.set_len(0x2000).unwrap();
    let disk = File::open("/proc/self/exe").unwrap();
    let device = File::open("/dev/zero").unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let pipe = File::from(OwnedFd::from(pipe));
    for file in [&plain, &disk, &device, &pipe] {
        assert_eq!(number(&client.map(0x10_0000, Some(file), 0, 0x1000, false).unwrap_err()), EPERM);
    }
    drop(client);
    let (_, events) = served.join();
    assert!(events[1].contains("memory-backend-memfd"), "{events:?}");
}

#[test]
fn triggers_are_eventfds_and_never_hold_the_function_up() {
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    let (a, b) = (eventfd(0), eventfd(0));
    let set = command::DEVICE_SET_IRQS;
    assert_eq!(raw.ask(set, &irq_body(4 | 32, 2, 1, 2), &[&a, &b]).unwrap().0, 0);
    let trigger = |vector: usize| served.seen.lock().unwrap().triggers[vector].clone();
    assert!(trigger(0).is_none() && trigger(3).is_none());
    trigger(2).unwrap().signal();
    let mut count = [0; 8];
    rustix::io::read(&b, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
    // A counter at its end would block a writer, once the client has taken the flag away that forbids it.
    rustix::io::write(&a, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    rustix::fs::fcntl_setfl(&a, rustix::fs::OFlags::empty()).unwrap();
    trigger(1).unwrap().signal();
    // No fds: pending again.
    assert_eq!(raw.ask(set, &irq_body(4 | 32, 2, 1, 1), &[]).unwrap().0, 0);
    assert!(trigger(1).is_none() && trigger(2).is_some());
    let (pipe, writer) = std::io::pipe().unwrap();
    let (pipe, writer) = (OwnedFd::from(pipe), OwnedFd::from(writer));
    for fd in [&pipe, &writer] {
        assert_eq!(raw.ask(set, &irq_body(4 | 32, 2, 0, 1), &[fd]).unwrap().0, EINVAL);
    }
    for (flags, index, start, count) in [
        (4 | 32, 2, 4, 1),
        (4 | 32, 2, u32::MAX, 2),
        (4 | 32, 2, 0, 2),
        (4 | 32, 0, 0, 1),
        (4 | 32, 5, 0, 1),
        (4 | 8, 2, 0, 1),
        (4 | 16, 2, 0, 1),
        (4, 2, 0, 1),
        (2 | 32, 2, 0, 1),
        (4 | 32 | 64, 2, 0, 1),
    ] {
        let answer = raw.ask(set, &irq_body(flags, index, start, count), &[&a]).unwrap().0;
        assert_eq!(answer, EINVAL, "{flags} {index} {start} {count}");
    }
    assert_eq!(raw.ask(set, &irq_body(4 | 32, 3, 0, 1), &[&a]).unwrap().0, 0, "error reports are taken");
    assert_eq!(raw.ask(set, &irq_body(1 | 32, 2, 0, 0), &[]).unwrap().0, 0);
    assert!((0..4).all(|vector| trigger(vector).is_none()));
    drop(raw);
    served.join();
}

#[test]
fn transfers_stay_in_their_region_and_within_what_was_agreed() {
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    let body = |offset: u64, region: u32, count: u32| Writer::default().u64(offset).u32(region).u32(count).done();
    for (offset, region, count, error) in [
        (0, 0, 8, 0),
        (BAR0 - 8, 0, 8, 0),
        (BAR0 - 4, 0, 8, EINVAL),
        (BAR0, 0, 1, EINVAL),
        (u64::MAX, 0, 8, EINVAL),
        (0, 0, u32::MAX, EINVAL),
        (0, 0, 16, EINVAL),
        (0, 1, 1, EINVAL),
        (0, 10, 1, EINVAL),
        (0, u32::MAX, 1, EINVAL),
        (0, 2, 0x4000, 0),
        (0, 9, 8, 0),
    ] {
        let (answer, reply) = raw.ask(command::REGION_READ, &body(offset, region, count), &[]).unwrap();
        assert_eq!(
            (answer, reply.len()),
            (error, if error == 0 { 16 + count as usize } else { 0 }),
            "{offset:#x} {region}"
        );
    }
    let write = |offset, region, count: u32, bytes: usize| [body(offset, region, count), vec![7; bytes]].concat();
    for (message, error) in [
        (write(0, 0, 4, 4), 0),
        (write(0, 0, 4, 3), EINVAL),
        (write(0, 0, 4, 5), EINVAL),
        (write(BAR0 - 2, 0, 4, 4), EINVAL),
        (write(0, 9, 8, 8), EINVAL),
        (vec![0; 15], EINVAL),
        (Vec::new(), EINVAL),
    ] {
        assert_eq!(raw.ask(command::REGION_WRITE, &message, &[]).unwrap().0, error);
    }
    assert_eq!(served.seen.lock().unwrap().writes.len(), 1);
    for unknown in [0, 6, 11, 12, 14, 15, 16, u16::MAX] {
        assert_eq!(raw.ask(unknown, &[0; 64], &[]).unwrap().0, EOPNOTSUPP, "{unknown}");
    }
    // A write that wants no answer gets none.
    let quiet = Header { id: 900, command: command::REGION_WRITE, flags: 1 << 4, ..Header::default() };
    assert!(raw.send(&quiet.before(&write(0, 0, 4, 4)), &[]));
    assert_eq!(raw.ask(command::REGION_READ, &body(0, 0, 4), &[]).unwrap().0, 0);
    assert_eq!(served.seen.lock().unwrap().writes.len(), 2);
    drop(raw);
    served.join();
}

#[test]
fn descriptors_beyond_the_agreement_are_refused_and_closed() {
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    let file = sealed(0x1000);
    let many: Vec<&dyn AsFd> = (0..40).map(|_| &file as &dyn AsFd).collect();
    assert_eq!(raw.ask(command::DMA_MAP, &map_body(3, 0, 0, 0x1000), &many).unwrap().0, EINVAL);
    assert_eq!(raw.ask(command::DEVICE_RESET, &[], &[&file]).unwrap().0, EINVAL);
    assert_eq!(raw.ask(command::DMA_MAP, &map_body(3, 0, 0, 0x1000), &[&file]).unwrap().0, 0);
    drop(raw);
    served.join();
}

#[test]
fn a_client_out_of_step_is_dropped() {
    for size in [0, 15, MAX_MESSAGE as u32 + 1, u32::MAX] {
        let mut served = serving();
        let mut raw = served.raw();
        raw.hello();
        let mut bytes = Header { command: command::DEVICE_GET_INFO, ..Header::default() }.before(&[0; 16]);
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        raw.send(&bytes, &[]);
        while raw.receive().is_some() {}
        let (seen, events) = served.join();
        assert!(seen.lock().unwrap().dropped && events.last().unwrap().starts_with("Left(Some"), "{events:?}");
    }
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    raw.send(&Header { command: command::DEVICE_RESET, flags: 1, ..Header::default() }.before(&[]), &[]);
    assert_eq!(raw.receive(), None, "a reply to nothing");
    served.join();
}

#[test]
fn refusals_are_told_a_few_times() {
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    for _ in 0..1000 {
        assert_eq!(raw.ask(77, &[], &[]).unwrap().0, EOPNOTSUPP);
    }
    drop(raw);
    let (_, events) = served.join();
    assert_eq!(events.len(), 1 + 16 + 1 + 1);
    assert_eq!(events[17], "NotesEnd");
}

#[test]
fn a_server_can_be_stopped_whatever_its_client_does() {
    // Half a message.
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    raw.send(&Header { command: command::REGION_READ, ..Header::default() }.before(&[0; 16])[..20], &[]);
    served.stop.stop();
    served.join();
    // Nothing at all.
    let served = serving();
    served.stop.stop();
    served.join();
    // Questions without end, and no answer read.
    let mut served = serving();
    let mut raw = served.raw();
    raw.hello();
    raw.stream.set_nonblocking(true).unwrap();
    let body = Writer::default().u64(0).u32(2).u32(BAR2 as u32).done();
    let question = Header { command: command::REGION_READ, ..Header::default() }.before(&body);
    while raw.stream.write_all(&question).is_ok() {}
    served.stop.stop();
    served.join();
}

struct Listening {
    path: std::path::PathBuf,
    stop: Stopper,
    events: mpsc::Receiver<String>,
    seen: Arc<Mutex<Vec<Arc<Mutex<Seen>>>>>,
    thread: std::thread::JoinHandle<()>,
}

fn listening(name: &str) -> Listening {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let stop = Stopper::new().unwrap();
    let server = Server::bind(&path, stop.clone()).unwrap();
    let (sender, events) = mpsc::channel();
    let sender = Mutex::new(sender);
    let seen: Arc<Mutex<Vec<Arc<Mutex<Seen>>>>> = Arc::default();
    let functions = seen.clone();
    let thread = std::thread::spawn(move || {
        let mut make = || {
            let seen = Arc::<Mutex<Seen>>::default();
            functions.lock().unwrap().push(seen.clone());
            Ok(Box::new(Watching::new(seen)) as Box<dyn Function>)
        };
        server.run(&mut make, &|event: &Event| sender.lock().unwrap().send(format!("{event:?}")).unwrap()).unwrap();
    });
    Listening { path, stop, events, seen, thread }
}

#[test]
fn one_client_is_served_after_the_other_and_never_two() {
    let server = listening("turns");
    for turn in 0..20 {
        let client = Client::connect(&server.path).unwrap();
        assert_eq!(server.events.recv().unwrap(), "Connected");
        let second = Client::connect(&server.path).unwrap_err();
        assert!(second.to_string().contains("one client at a time"), "{second}");
        assert_eq!(server.events.recv().unwrap(), "Refused");
        client.map(0, Some(&sealed(0x1000)), 0, 0x1000, true).unwrap();
        drop(client);
        // The next one need not wait for the server to notice.
        let next = Client::connect(&server.path).unwrap();
        assert_eq!(server.events.recv().unwrap(), "Left(None)");
        assert_eq!(server.events.recv().unwrap(), "Connected");
        assert!(server.seen.lock().unwrap()[2 * turn].lock().unwrap().dropped, "nothing of the first is left");
        next.map(0, Some(&sealed(0x1000)), 0, 0x1000, true).unwrap();
        drop(next);
        assert_eq!(server.events.recv().unwrap(), "Left(None)");
    }
    server.stop.stop();
    server.thread.join().unwrap();
    assert!(!server.path.exists(), "the socket is removed");
}

#[test]
fn a_client_without_manners_leaves_the_server_to_the_next() {
    let server = listening("manners");
    for bytes in [&[0xff; 64][..], &[0; 16], &[1]] {
        let mut stream = UnixStream::connect(&server.path).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream);
        assert!(server.events.recv().unwrap().starts_with("Left"));
    }
    let client = Client::connect(&server.path).unwrap();
    assert_eq!(client.regions().unwrap(), 10);
    server.stop.stop();
    server.thread.join().unwrap();
    assert!(client.regions().is_err() && client.is_gone());
    assert!(client.regions().is_err(), "and stays gone");
}

#[test]
fn a_socket_is_not_taken_from_anybody() {
    let server = listening("taken");
    let bind = |path: &std::path::Path| Server::bind(path, Stopper::new().unwrap()).map(drop);
    assert!(matches!(bind(&server.path), Err(BindError::InUse(_))));
    server.stop.stop();
    server.thread.join().unwrap();
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = directory.join(format!("file-{}", std::process::id()));
    std::fs::write(&file, "mine").unwrap();
    assert!(matches!(bind(&file), Err(BindError::NotASocket(_))));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(bind(&directory.join("x".repeat(120))), Err(BindError::TooLong(_))));
    let nowhere = bind(&directory.join("nowhere/socket")).unwrap_err().to_string();
    assert!(nowhere.contains("nowhere/socket") && nowhere.contains("No such file"), "{nowhere}");
    // What a server that was killed left behind is replaced.
    let stale = directory.join(format!("stale-{}", std::process::id()));
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    bind(&stale).unwrap();
    assert!(!stale.exists());
}
