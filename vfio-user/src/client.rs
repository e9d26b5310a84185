//! The other end: asks, and waits for the answer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::channel::{Channel, Message, Received};
use crate::hello::{self, Limits};
use crate::message::{Header, MAX_TRANSFER, Reader, Writer, command, dma, header_flag, irq, irq_flag, region_flag};

/// How long an answer may take on a busy machine. A server that takes longer is given up.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Areas of a region that are believed.
const MAX_AREAS: u32 = 1024;

/// The server's answer to DEVICE_GET_REGION_INFO.
#[derive(Debug, Default)]
pub struct RegionInfo {
    /// Bytes; 0 for a region that is not there.
    pub size: u64,
    /// Memory of the region, and where it starts in the file.
    pub file: Option<(File, u64)>,
    /// Areas that can be mapped, as offset and length.
    pub areas: Vec<(u64, u64)>,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    link: Mutex<Link>,
    /// A second descriptor of the socket, to wait for its end.
    watch: UnixStream,
    limits: Limits,
    /// Longest time that an answer is waited for.
    time_limit: Duration,
    gone: AtomicBool,
    /// The answer for which the connection was given up.
    invalid: OnceLock<String>,
}

#[derive(Debug)]
struct Link {
    channel: Channel,
    next: u16,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's answer is not valid: {what}"))
}

fn closed() -> io::Error {
    let what = "the server has closed the connection; it serves one client at a time";
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

/// Waits for a socket until `until`.
fn wait(stream: &UnixStream, events: PollFlags, until: Instant) -> io::Result<()> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(stream.as_fd(), events)], Some(&left)) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer")),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Link {
    /// Sends a command and returns its number.
    fn send(&mut self, command: Header, body: &[u8], fds: &[BorrowedFd<'_>], until: Instant) -> io::Result<u16> {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        let header = Header { id, ..command };
        let Self { channel, .. } = self;
        let mut writable = || wait(channel.stream(), PollFlags::OUT, until);
        channel.send(&header.before(body), fds, &mut writable).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => closed(),
            _ => error,
        })?;
        Ok(id)
    }

    /// Sends a command and returns the reply to it.
    fn ask(&mut self, number: u16, body: &[u8], fds: &[BorrowedFd<'_>], time_limit: Duration) -> io::Result<Message> {
        let until = Instant::now() + time_limit;
        let id = self.send(Header { command: number, ..Header::default() }, body, fds, until)?;
        let Self { channel, .. } = self;
        let message = loop {
            match channel.receive()? {
                Received::Message(message) => break message,
                Received::Nothing => wait(channel.stream(), PollFlags::IN, until)?,
                Received::Closed => return Err(closed()),
            }
        };
        if !message.header.is_reply() || message.header.id != id || message.header.command != number {
            let Header { id: seen, command, .. } = message.header;
            let kind = if message.header.is_reply() { "a reply" } else { "no reply" };
            return Err(broken(&format!(
                "{kind} with message ID {seen} to command {command}, and expected is a reply with message ID {id} to command {number}"
            )));
        }
        if message.too_many_fds {
            return Err(broken("it comes with more descriptors than a message may have"));
        }
        Ok(message)
    }
}

impl Client {
    /// Connects to the server at a path.
    ///
    /// # Errors
    /// Nobody listens there, the server refuses the connection, or it speaks another protocol.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::new(UnixStream::connect(path)?)
    }

    /// Introduces itself to the server at the other end.
    ///
    /// # Errors
    /// The server refuses the connection, or it speaks another protocol.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        Self::with_time_limit(stream, TIMEOUT)
    }

    /// As [`Client::new`], with a server that is given up when an answer takes longer than `time_limit`.
    ///
    /// # Errors
    /// As for [`Client::new`].
    pub fn with_time_limit(stream: UnixStream, time_limit: Duration) -> io::Result<Self> {
        let watch = stream.try_clone()?;
        let mut link = Link { channel: Channel::new(stream), next: 1 };
        let reply = link.ask(command::VERSION, &hello::first(), &[], time_limit)?;
        if reply.header.flags & header_flag::ERROR != 0 {
            return Err(io::Error::from_raw_os_error(reply.header.error.cast_signed()));
        }
        let limits = hello::parse(&reply.body).map_err(|error| broken(&format!("{error:?}")))?;
        Ok(Self {
            link: Mutex::new(link),
            watch,
            limits,
            time_limit,
            gone: AtomicBool::new(false),
            invalid: OnceLock::new(),
        })
    }

    /// True if the server is gone. It never comes back.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// What the server has answered against the protocol, if the connection was given up for that.
    pub fn invalid_answer(&self) -> Option<&str> {
        self.invalid.get().map(String::as_str)
    }

    /// Gives the connection up for an answer that is not valid, and keeps the reason with what was asked; the caller has the error.
    fn give_up(&self, asked: &str, error: &io::Error) {
        if error.kind() == io::ErrorKind::InvalidData {
            let _ = self.invalid.set(format!("{asked}: {error}"));
        }
        self.close();
    }

    /// The socket, readable at its end when the server is gone.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Gives the connection up, so that every question fails from now on.
    pub fn close(&self) {
        self.gone.store(true, Ordering::Release);
        let _ = self.watch.shutdown(std::net::Shutdown::Both);
    }

    fn ask(&self, number: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_gone() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        // A connection on which a question has failed is out of step.
        let asked = link.ask(number, body, fds, self.time_limit);
        let reply = asked.inspect_err(|error| self.give_up(&command_of(number, body), error))?;
        if reply.header.flags & header_flag::ERROR != 0 {
            return Err(io::Error::from_raw_os_error(reply.header.error.cast_signed()));
        }
        Ok((reply.body, reply.fds))
    }

    /// Number of regions.
    ///
    /// # Errors
    /// The server refuses or is gone.
    pub fn regions(&self) -> io::Result<u32> {
        let (body, _) =
            self.ask(command::DEVICE_GET_INFO, Writer::default().u32(16).u32(0).u64(0).done().as_slice(), &[])?;
        let mut fields = Reader::new(&body);
        let regions = fields.u64().and_then(|_| fields.u32());
        regions.ok_or_else(|| broken("too short"))
    }

    /// Asks the server about a region by DEVICE_GET_REGION_INFO.
    ///
    /// # Errors
    /// There is no such region, the server is gone, or what it says contradicts itself.
    pub fn region(&self, index: u32) -> io::Result<RegionInfo> {
        let capacity = region_flag::SIZE + 16 + 16 * MAX_AREAS;
        let question = Writer::default().u32(capacity).u32(0).u32(index).u32(0).u64(0).u64(0).done();
        let (body, fds) = self.ask(command::DEVICE_GET_REGION_INFO, &question, &[])?;
        parse_region(&body, fds).ok_or_else(|| broken("a region that contradicts itself"))
    }

    /// Number of vectors of an interrupt.
    ///
    /// # Errors
    /// There is no such interrupt, or the server is gone.
    pub fn vectors(&self, index: u32) -> io::Result<u32> {
        let question = Writer::default().u32(16).u32(0).u32(index).u32(0).done();
        let (body, _) = self.ask(command::DEVICE_GET_IRQ_INFO, &question, &[])?;
        let mut fields = Reader::new(&body);
        let count = fields.u64().and_then(|_| fields.u32()).and_then(|_| fields.u32());
        count.ok_or_else(|| broken("too short"))
    }

    /// Reads bytes of a region.
    ///
    /// # Errors
    /// The server refuses or is gone.
    pub fn read(&self, region: u32, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = offset;
        for part in bytes.chunks_mut(self.limits.transfer.clamp(1, MAX_TRANSFER)) {
            let question = Writer::default().u64(at).u32(region).u32(part.len() as u32).done();
            let (body, _) = self.ask(command::REGION_READ, &question, &[])?;
            let Some(read) = body.get(16..).filter(|read| read.len() == part.len()) else {
                let seen = body.len().saturating_sub(16);
                let error = broken(&format!("{seen} bytes of data, and expected are {}", part.len()));
                self.give_up(&command_of(command::REGION_READ, &question), &error);
                return Err(error);
            };
            part.copy_from_slice(read);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes bytes of a region; done when it returns.
    ///
    /// # Errors
    /// The server refuses or is gone.
    pub fn write(&self, region: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = offset;
        for part in bytes.chunks(self.limits.transfer.clamp(1, MAX_TRANSFER)) {
            let question = Writer::default().u64(at).u32(region).u32(part.len() as u32).bytes(part).done();
            self.ask(command::REGION_WRITE, &question, &[])?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes bytes of a region without waiting, as a posted write of PCI Express: done before anything that is asked later, and a refusal is not
    /// told. At most 8 bytes.
    ///
    /// # Errors
    /// The server is gone.
    pub fn post(&self, region: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let part = bytes.get(..8).unwrap_or(bytes);
        let question = Writer::default().u64(offset).u32(region).u32(part.len() as u32).bytes(part).done();
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_gone() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let header = Header { command: command::REGION_WRITE, flags: header_flag::NO_REPLY, ..Header::default() };
        link.send(header, &question, &[], Instant::now() + self.time_limit).inspect_err(|_| self.close()).map(drop)
    }

    /// Lets the function reach `len` bytes of `file` from `offset` at a bus address; without a file, it is only told that something is there.
    ///
    /// # Errors
    /// The server does not take the range, or is gone.
    pub fn map(&self, address: u64, file: Option<&File>, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        let flags = dma::READ | if writable { dma::WRITE } else { 0 };
        let question = Writer::default().u32(32).u32(flags).u64(offset).u64(address).u64(len).done();
        let fds: Vec<BorrowedFd<'_>> = file.iter().map(|file| file.as_fd()).collect();
        self.ask(command::DMA_MAP, &question, &fds).map(drop)
    }

    /// Takes ranges of [`Client::map`] away; when it returns, no access to them is under way.
    ///
    /// # Errors
    /// A range would be cut, or the server is gone.
    pub fn unmap(&self, address: u64, len: u64) -> io::Result<()> {
        let question = Writer::default().u32(24).u32(0).u64(address).u64(len).done();
        self.ask(command::DMA_UNMAP, &question, &[]).map(drop)
    }

    /// Has the messages from `start` signal these eventfds, MSI-X vectors where the function has such.
    ///
    /// # Errors
    /// There are fewer vectors, or the server is gone.
    pub fn set_triggers(&self, start: u32, eventfds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (mut start, index) = (start, self.messages()?);
        for part in eventfds.chunks(self.limits.fds.max(1)) {
            self.set_irqs(irq_flag::DATA_EVENTFD | irq_flag::TRIGGER, index, (start, part.len() as u32), part)?;
            start += part.len() as u32;
        }
        Ok(())
    }

    /// Keeps all messages pending; no eventfd is signalled after it returns.
    ///
    /// # Errors
    /// The server is gone.
    pub fn clear_triggers(&self) -> io::Result<()> {
        self.set_irqs(irq_flag::DATA_NONE | irq_flag::TRIGGER, self.messages()?, (0, 0), &[])
    }

    /// True if the server has a line-based interrupt (INTx).
    pub fn has_line(&self) -> bool {
        self.vectors(irq::INTX).is_ok_and(|lines| lines != 0)
    }

    /// Has the line-based interrupt signal an eventfd, which masks it until [`Client::unmask_line`]; without one it stays pending.
    ///
    /// # Errors
    /// The function has no line, or the server is gone.
    pub fn set_line_trigger(&self, eventfd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let Some(eventfd) = eventfd else {
            return self.set_irqs(irq_flag::DATA_NONE | irq_flag::TRIGGER, irq::INTX, (0, 0), &[]);
        };
        if self.vectors(irq::INTX)? == 0 {
            let told = "the server has no line-based interrupt: DEVICE_GET_IRQ_INFO of index 0 (INTx) answers count 0, and expected is 1";
            return Err(io::Error::other(told));
        }
        self.set_irqs(irq_flag::DATA_EVENTFD | irq_flag::TRIGGER, irq::INTX, (0, 1), &[eventfd])
    }

    /// Unmasks the line-based interrupt: one that is asserted still signals its eventfd again.
    ///
    /// # Errors
    /// The server refuses or is gone.
    pub fn unmask_line(&self) -> io::Result<()> {
        self.set_irqs(irq_flag::DATA_NONE | irq_flag::UNMASK, irq::INTX, (0, 1), &[])
    }

    /// Index of the messages of the function.
    fn messages(&self) -> io::Result<u32> {
        Ok(if self.vectors(irq::MSIX)? > 0 { irq::MSIX } else { irq::MSI })
    }

    fn set_irqs(&self, flags: u32, index: u32, (start, count): (u32, u32), fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let question = Writer::default().u32(20).u32(flags).u32(index).u32(start).u32(count).done();
        self.ask(command::DEVICE_SET_IRQS, &question, fds).map(drop).map_err(|error| {
            if self.is_gone() {
                return error;
            }
            let name = ["INTx", "MSI", "MSI-X"].get(index as usize).unwrap_or(&"no interrupt of the function");
            let served = self.vectors(index).map_or_else(|error| error.to_string(), |served| format!("count {served}"));
            let told = format!(
                "the server refuses DEVICE_SET_IRQS of index {index} ({name}) with start {start}, count {count} and flags {flags:#x}, and expected is a success: {error}; \
                 DEVICE_GET_IRQ_INFO of the index answers {served}"
            );
            io::Error::new(error.kind(), told)
        })
    }

    /// Resets the function.
    ///
    /// # Errors
    /// The server is gone.
    pub fn reset(&self) -> io::Result<()> {
        self.ask(command::DEVICE_RESET, &[], &[]).map(drop)
    }
}

/// A command in words; of an access to a region with its region, offset and number of bytes.
fn command_of(number: u16, body: &[u8]) -> String {
    let mut fields = Reader::new(body);
    let mut access = || Some((fields.u64()?, fields.u32()?, fields.u32()?));
    match (number, access()) {
        (command::REGION_READ, Some((offset, region, count))) => {
            format!("REGION_READ of {count} bytes at offset {offset:#x} of region {region}")
        }
        (command::REGION_WRITE, Some((offset, region, count))) => {
            format!("REGION_WRITE of {count} bytes at offset {offset:#x} of region {region}")
        }
        _ => format!("command {number}"),
    }
}

/// Reads an answer about a region; `None` if it makes no sense.
fn parse_region(body: &[u8], fds: Vec<OwnedFd>) -> Option<RegionInfo> {
    let mut fields = Reader::new(body);
    let (_, flags, _, at) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let (size, offset) = (fields.u64()?, fields.u64()?);
    let mut areas = Vec::new();
    if flags & region_flag::CAPS != 0 && at != 0 {
        let mut caps = Reader::new(body.get(usize::try_from(at).ok()?..)?);
        let (id, _, _, count, _) = (caps.u16()?, caps.u16()?, caps.u32()?, caps.u32()?, caps.u32()?);
        if id != region_flag::CAP_SPARSE_MMAP || count > MAX_AREAS {
            return None;
        }
        for _ in 0..count {
            let area = (caps.u64()?, caps.u64()?);
            if area.0.checked_add(area.1)? > size {
                return None;
            }
            areas.push(area);
        }
    }
    let file = fds.into_iter().next().filter(|_| flags & region_flag::MMAP != 0).map(|fd| (File::from(fd), offset));
    if file.is_some() && areas.is_empty() {
        areas.push((0, size));
    }
    Some(RegionInfo { size, file, areas })
}
