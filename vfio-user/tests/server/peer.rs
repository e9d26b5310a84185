//! A function that watches what its server does, and a client that says anything.

use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use campanile_vfio_user::message::{HEADER_SIZE, Header};
use campanile_vfio_user::{Event, Function, MappedRegion, Region, Stopper, Trigger, serve};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

pub(crate) const BAR0: u64 = 0x1000;
pub(crate) const BAR2: u64 = 0x4000;
pub(crate) const VECTORS: u16 = 4;

/// Calls that a function received.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) maps: Vec<(u64, u64, bool)>,
    pub(crate) writes: Vec<(u32, u64, Vec<u8>)>,
    pub(crate) triggers: [Option<Arc<Trigger>>; VECTORS as usize],
    pub(crate) resets: u32,
    pub(crate) dropped: bool,
}

pub(crate) struct Watching {
    pub(crate) seen: Arc<Mutex<Seen>>,
    memory: Arc<File>,
}

/// A sealed file as devices and monitors use it.
pub(crate) fn sealed(size: u64) -> File {
    let file = unsealed(size);
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    file
}

/// A file that may be sealed.
pub(crate) fn unsealed(size: u64) -> File {
    let file = File::from(memfd_create("peer", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(size).unwrap();
    file
}

impl Watching {
    pub(crate) fn new(seen: Arc<Mutex<Seen>>) -> Self {
        Self { seen, memory: Arc::new(sealed(BAR2)) }
    }

    fn size(region: u32) -> u64 {
        match region {
            0 => BAR0,
            2 => BAR2,
            7 => 4096,
            9 => 8,
            _ => 0,
        }
    }
}

impl Function for Watching {
    fn regions(&self) -> Vec<Region> {
        let region = |index| Region { size: Self::size(index), writable: index != 9, mapped: None };
        let mut regions: Vec<_> = (0..10).map(region).collect();
        regions[2].mapped =
            Some(MappedRegion { file: self.memory.clone(), areas: vec![(0, 0x1000), (0x2000, 0x2000)] });
        regions
    }
    fn vectors(&self) -> u16 {
        VECTORS
    }
    fn read(&self, region: u32, offset: u64, bytes: &mut [u8]) -> bool {
        assert!(offset + bytes.len() as u64 <= Self::size(region), "read of region {region} outside");
        bytes.fill(region as u8 + 1);
        region != 0 || bytes.len() <= 8
    }
    fn write(&self, region: u32, offset: u64, bytes: &[u8]) -> bool {
        assert!(offset + bytes.len() as u64 <= Self::size(region), "write of region {region} outside");
        assert_ne!(region, 9, "a region that cannot be written");
        self.seen.lock().unwrap().writes.push((region, offset, bytes.to_vec()));
        true
    }
    fn map(&self, address: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        assert!(len > 0 && (address | len).is_multiple_of(4096) && address.checked_add(len).is_some());
        let seals = rustix::fs::fcntl_get_seals(file).unwrap();
        assert!(seals.contains(SealFlags::SHRINK), "memory that can shrink");
        if offset.checked_add(len).is_none_or(|end| end > file.metadata().unwrap().len()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut seen = self.seen.lock().unwrap();
        assert!(seen.maps.iter().all(|(start, size, _)| start + size <= address || *start >= address + len), "overlap");
        seen.maps.push((address, len, writable));
        Ok(())
    }
    fn unmap(&self, address: u64, len: u64) {
        let mut seen = self.seen.lock().unwrap();
        let known = seen.maps.iter().position(|(start, size, _)| (*start, *size) == (address, len));
        seen.maps.remove(known.expect("a range as it was mapped"));
    }
    fn set_trigger(&self, vector: u16, trigger: Option<Arc<Trigger>>) {
        self.seen.lock().unwrap().triggers[usize::from(vector)] = trigger;
    }
    fn reset(&self) {
        self.seen.lock().unwrap().resets += 1;
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.seen.lock().unwrap().dropped = true;
    }
}

/// A server with one client to come, at the other end of the stream.
pub(crate) struct Served {
    pub(crate) stream: Option<UnixStream>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) events: Arc<Mutex<Vec<String>>>,
    pub(crate) stop: Stopper,
    pub(crate) thread: JoinHandle<()>,
}

pub(crate) fn serving() -> Served {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (seen, events, stop) =
        (Arc::<Mutex<Seen>>::default(), Arc::<Mutex<Vec<String>>>::default(), Stopper::new().unwrap());
    let (watched, told, stopped) = (Arc::clone(&seen), Arc::clone(&events), stop.clone());
    let thread = std::thread::spawn(move || {
        let mut make = || Ok(Box::new(Watching::new(watched.clone())) as Box<dyn Function>);
        serve(theirs, &stopped, &mut make, &|event: &Event| told.lock().unwrap().push(format!("{event:?}")));
    });
    Served { stream: Some(ours), seen, events, stop, thread }
}

impl Served {
    /// A client that says what it wants.
    pub(crate) fn raw(&mut self) -> Raw {
        let stream = self.stream.take().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw { stream, next: 0 }
    }

    /// Waits for the server's end, which the client's or `stop` causes.
    pub(crate) fn join(self) -> (Arc<Mutex<Seen>>, Vec<String>) {
        self.thread.join().expect("the server does not panic");
        let events = self.events.lock().unwrap().clone();
        (self.seen, events)
    }
}

/// A client without manners.
pub(crate) struct Raw {
    pub(crate) stream: UnixStream,
    next: u16,
}

impl Raw {
    /// Sends bytes with descriptors; false if the server has gone.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let mut done = 0;
        while done < bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if done == 0 && !fds.is_empty() {
                assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
            }
            match sendmsg(&self.stream, &[IoSlice::new(&bytes[done..])], &mut control, SendFlags::NOSIGNAL) {
                Ok(count) => done += count,
                Err(_) => return false,
            }
        }
        true
    }

    /// The next message of the server; `None` if it has closed.
    pub(crate) fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).ok()?;
        let header = Header::parse(header);
        let mut body = vec![0; header.size as usize - HEADER_SIZE];
        self.stream.read_exact(&mut body).ok()?;
        Some((header, body))
    }

    /// Sends a command and returns the error number and body of its reply.
    pub(crate) fn ask(&mut self, command: u16, body: &[u8], fds: &[&dyn AsFd]) -> Option<(u32, Vec<u8>)> {
        self.next += 1;
        let id = self.next;
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.send(&Header { id, command, ..Header::default() }.before(body), &fds);
        let (header, body) = self.receive()?;
        assert!(header.is_reply() && header.id == id && header.command == command);
        assert_eq!(header.error != 0, header.flags & 1 << 5 != 0);
        Some((header.error, body))
    }

    /// Introduces itself.
    pub(crate) fn hello(&mut self) {
        let text = br#"{"capabilities":{"max_msg_fds":16,"padding":"so that the answer is not longer than the question, whatever the server says of itself"}}"#;
        let (error, body) = self.ask(1, &[&[0, 0, 0, 0][..], text, &[0]].concat(), &[]).expect("an answer");
        assert_eq!((error, &body[..4]), (0, &[0; 4][..]));
    }
}

/// An eventfd.
pub(crate) fn eventfd(value: u32) -> OwnedFd {
    rustix::event::eventfd(value, rustix::event::EventfdFlags::NONBLOCK).unwrap()
}
