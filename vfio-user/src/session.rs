//! One client, from its first message to its last.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::SealFlags;
use rustix::io::Errno;

use crate::channel::{Channel, Message, Received};
use crate::event::{Event, Observer};
use crate::hello::{self, Limits};
use crate::message::{
    HEADER_SIZE, Header, MAX_MAPS, MAX_TRANSFER, Reader, Writer, command, device_flag, dma, header_flag, irq, irq_flag,
    region_flag,
};
use crate::trigger::Trigger;
use crate::wait::{Waiter, Woken};

/// Time that a client has for its first message; it keeps others out meanwhile.
const HELLO: Duration = Duration::from_secs(5);
/// Refusals of one client that are told; a client makes as many as it likes.
const NOTES: usize = 16;
/// Bytes of a system page, the unit in which a client maps memory for DMA.
const SYSTEM_PAGE_SIZE: u64 = 4096;
/// File system of huge pages, of which there may be none when one is touched. [statfs(2)]
const HUGETLBFS: i64 = 0x9584_58f6;

/// A region of a function.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Bytes; 0 for a region that is not there.
    pub size: u64,
    /// Writes have an effect.
    pub writable: bool,
    /// Memory that a client may map; `None` if each access is to be a message.
    pub mapped: Option<MappedRegion>,
}

/// Memory of a region.
#[derive(Clone, Debug)]
pub struct MappedRegion {
    /// The file whose bytes from 0 are the region's.
    pub file: Arc<File>,
    /// Areas of the region that can be mapped, as offset and length.
    pub areas: Vec<(u64, u64)>,
}

/// A PCI function as its server sees it. It is made for one client and dropped when that leaves.
pub trait Function {
    /// The regions by number, at least [`crate::message::region::PRIVATE`] of them.
    fn regions(&self) -> Vec<Region>;

    /// Message interrupts.
    fn vectors(&self) -> u16;

    /// By which of a function's interrupts they are sent: [`crate::message::irq::MSIX`] or [`crate::message::irq::MSI`].
    fn messages(&self) -> u32 {
        irq::MSIX
    }

    /// Reads bytes that lie in a region; false if it cannot be read like that.
    fn read(&self, region: u32, offset: u64, bytes: &mut [u8]) -> bool;

    /// Writes bytes that lie in a region; false if it cannot be written like that. What it causes is done when it returns.
    fn write(&self, region: u32, offset: u64, bytes: &[u8]) -> bool;

    /// Makes memory visible at a bus address, all in whole pages; the file cannot be made shorter by anyone.
    ///
    /// # Errors
    /// What the function says; nothing is mapped then.
    fn map(&self, address: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()>;

    /// Takes a range of [`Function::map`] away; when it returns, no access to it is under way.
    fn unmap(&self, address: u64, len: u64);

    /// Sends the messages of `vector` to a trigger from now on; `None` keeps them pending.
    fn set_trigger(&self, vector: u16, trigger: Option<Arc<Trigger>>);

    /// Conventional reset. Memory and triggers stay.
    fn reset(&self);
}

/// The reason why memory of a client is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The client could make it shorter while the function uses it.
    CanShrink,
    /// The pages are huge pages, of which one may be missing when it is used.
    HugePages,
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CanShrink => {
                "its owner can make it shorter at any time; back guest memory by a sealed memfd, in QEMU \
                 `memory-backend-memfd` with `share=on`"
            }
            Self::HugePages => "it consists of huge pages, which may be missing when they are used",
        })
    }
}

/// Checks that memory of a peer stays where it is, sealing it if nobody has.
///
/// # Errors
/// It may vanish while somebody uses it.
pub fn check_memory(fd: BorrowedFd<'_>) -> Result<(), MemoryError> {
    let sealed = || rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if !sealed() {
        // Refused for what is no memfd, or was made unsealable.
        let _ = rustix::fs::fcntl_add_seals(fd, SealFlags::SHRINK);
        if !sealed() {
            return Err(MemoryError::CanShrink);
        }
    }
    match rustix::fs::fstatfs(fd) {
        Ok(system) if system.f_type != HUGETLBFS => Ok(()),
        _ => Err(MemoryError::HugePages),
    }
}

/// The reason why a session ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client has closed its end.
    Left,
    /// The server was stopped.
    Stopped,
    /// The connection cannot go on.
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A command is refused: number for the client, reason for whoever runs the server.
struct Refusal(Errno, String);

fn invalid(why: &str) -> Refusal {
    Refusal(Errno::INVAL, why.to_owned())
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        let number = match error.kind() {
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::AlreadyExists => Errno::EXIST,
            io::ErrorKind::QuotaExceeded => Errno::NOSPC,
            _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
        };
        Self(number, error.to_string())
    }
}

/// Answer to a command: bytes behind the header, and a descriptor with them.
#[derive(Default)]
struct Answer {
    body: Vec<u8>,
    file: Option<Arc<File>>,
}

impl From<Vec<u8>> for Answer {
    fn from(body: Vec<u8>) -> Self {
        Self { body, file: None }
    }
}

/// A range of bus addresses that the client has given.
struct Map {
    len: u64,
    /// It came with memory; otherwise the function cannot reach it.
    memory: bool,
}

/// Makes the function that a client gets.
pub(crate) type Make<'a> = &'a mut dyn FnMut() -> io::Result<Box<dyn Function>>;

/// A client that has introduced itself.
struct Session<'a> {
    function: Box<dyn Function>,
    regions: Vec<Region>,
    limits: Limits,
    maps: BTreeMap<u64, Map>,
    notes: usize,
    observe: Observer<'a>,
}

/// Serves a client until it leaves, the server stops, or the connection breaks.
pub(crate) fn run(mut channel: Channel, waiter: &Waiter<'_>, make: Make<'_>, observe: Observer<'_>) -> End {
    let mut session = match greet(&mut channel, waiter, make, observe) {
        Ok(session) => session,
        Err(end) => return end,
    };
    observe(&Event::Connected);
    loop {
        let message = match next(&mut channel, waiter, None) {
            Ok(message) => message,
            Err(end) => return end,
        };
        if !message.header.is_command() {
            return End::Broken(io::Error::new(io::ErrorKind::InvalidData, "a reply without a request"));
        }
        let header = message.header;
        let outcome = session.carry_out(message);
        if let Err(Refusal(_, why)) = &outcome {
            session.note(header.command, why);
        }
        if header.flags & header_flag::NO_REPLY == 0
            && let Err(end) = reply(&channel, waiter, header, outcome)
        {
            return end;
        }
    }
}

/// The next whole message.
fn next(channel: &mut Channel, waiter: &Waiter<'_>, until: Option<Instant>) -> Result<Message, End> {
    loop {
        match waiter.wait(channel.stream(), PollFlags::IN, until)? {
            Woken::Ready => {}
            Woken::Stopped => return Err(End::Stopped),
            Woken::TimedOut => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client has sent no VERSION within five seconds",
                )
                .into());
            }
        }
        match channel.receive()? {
            Received::Message(message) => return Ok(message),
            Received::Nothing => {}
            Received::Closed => return Err(End::Left),
        }
    }
}

fn reply(channel: &Channel, waiter: &Waiter<'_>, to: Header, outcome: Result<Answer, Refusal>) -> Result<(), End> {
    let mut header = Header { flags: header_flag::REPLY, size: 0, error: 0, ..to };
    let answer = outcome.unwrap_or_else(|Refusal(number, _)| {
        header.flags |= header_flag::ERROR;
        header.error = number.raw_os_error().unsigned_abs();
        Answer::default()
    });
    let fds: Vec<BorrowedFd<'_>> = answer.file.iter().map(|file| file.as_fd()).collect();
    let mut stopped = false;
    let mut wait = || match waiter.wait(channel.stream(), PollFlags::OUT, None)? {
        Woken::Ready => Ok(()),
        Woken::Stopped | Woken::TimedOut => {
            stopped = true;
            Err(io::ErrorKind::Interrupted.into())
        }
    };
    match channel.send(&header.before(&answer.body), &fds, &mut wait) {
        Ok(()) => Ok(()),
        Err(_) if stopped => Err(End::Stopped),
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Err(End::Left)
        }
        Err(error) => Err(error.into()),
    }
}

/// The introduction. A function is made only for a client that does it right.
fn greet<'a>(
    channel: &mut Channel,
    waiter: &Waiter<'_>,
    make: Make<'_>,
    observe: Observer<'a>,
) -> Result<Session<'a>, End> {
    let message = next(channel, waiter, Some(Instant::now() + HELLO))?;
    let header = message.header;
    let broken = |why: String| End::Broken(io::Error::new(io::ErrorKind::InvalidData, why));
    if header.command != command::VERSION || !header.is_command() {
        return Err(broken(format!("the client has sent command {} before VERSION", header.command)));
    }
    let limits = match hello::parse(&message.body) {
        Ok(limits) => limits,
        Err(error) => {
            let refusal = Refusal(Errno::INVAL, String::new());
            reply(channel, waiter, header, Err(refusal))?;
            return Err(broken(format!("introduction refused: {error:?}")));
        }
    };
    let function = match make() {
        Ok(function) => function,
        Err(error) => {
            observe(&Event::NoFunction(io::Error::new(error.kind(), error.to_string())));
            reply(channel, waiter, header, Err(error.into()))?;
            return Err(End::Left);
        }
    };
    let mut body = hello::body(limits.minor);
    if body.len() > message.body.len() {
        // There are clients that have space for no more than they sent.
        body.truncate(4);
    }
    reply(channel, waiter, header, Ok(body.into()))?;
    let regions = function.regions();
    Ok(Session { function, regions, limits, maps: BTreeMap::new(), notes: 0, observe })
}

impl Session<'_> {
    fn note(&mut self, command: u16, why: &str) {
        self.notes += 1;
        match self.notes.cmp(&NOTES) {
            std::cmp::Ordering::Greater => {}
            order => {
                (self.observe)(&Event::Note(format!("command {command} refused: {why}")));
                if order.is_eq() {
                    (self.observe)(&Event::NotesEnd);
                }
            }
        }
    }

    fn carry_out(&mut self, message: Message) -> Result<Answer, Refusal> {
        let Message { header, body, fds, too_many_fds } = message;
        if too_many_fds || fds.len() > self.limits.fds.max(1) {
            return Err(invalid("more descriptors than agreed"));
        }
        if !fds.is_empty() && !matches!(header.command, command::DMA_MAP | command::DEVICE_SET_IRQS) {
            return Err(invalid("descriptors with a command that takes none"));
        }
        let mut fields = Reader::new(&body);
        let answer = match header.command {
            command::DMA_MAP => self.map(&mut fields, fds)?,
            command::DMA_UNMAP => self.unmap(&mut fields)?,
            command::DEVICE_GET_INFO => self.info(),
            command::DEVICE_GET_REGION_INFO => self.region_info(&mut fields)?,
            command::DEVICE_GET_IRQ_INFO => self.irq_info(&mut fields)?,
            command::DEVICE_SET_IRQS => self.set_irqs(&mut fields, fds)?,
            command::REGION_READ => self.read(&mut fields)?,
            command::REGION_WRITE => self.write(&mut fields)?,
            command::DEVICE_RESET => {
                self.function.reset();
                Some(Answer::default())
            }
            command::VERSION => return Err(invalid("VERSION was sent a second time")),
            other => return Err(Refusal(Errno::OPNOTSUPP, format!("command {other} is not supported"))),
        };
        answer.ok_or_else(|| invalid("the message is too short"))
    }

    /// Ranges are kept whole and apart, so that one is always taken away as it was given.
    fn map(&mut self, fields: &mut Reader<'_>, fds: Vec<OwnedFd>) -> Result<Option<Answer>, Refusal> {
        let (Some(_), Some(flags), Some(offset), Some(address), Some(len)) =
            (fields.u32(), fields.u32(), fields.u64(), fields.u64(), fields.u64())
        else {
            return Ok(None);
        };
        if flags & dma::READ == 0 || flags & !(dma::READ | dma::WRITE) != 0 {
            return Err(invalid("memory is mapped to read, or to read and write"));
        }
        let end = address.checked_add(len).filter(|_| len != 0 && (address | len).is_multiple_of(SYSTEM_PAGE_SIZE));
        let Some(end) = end else { return Err(invalid("memory is mapped in whole pages below 2^64")) };
        let before = self.maps.range(..end).next_back();
        if before.is_some_and(|(start, map)| start.saturating_add(map.len) > address) {
            return Err(Refusal(Errno::EXIST, format!("{address:#x} to {end:#x} overlaps a mapped range")));
        }
        if self.maps.len() >= MAX_MAPS {
            return Err(Refusal(Errno::NOSPC, "too many ranges".to_owned()));
        }
        let mut fds = fds.into_iter();
        let memory = fds.next();
        if fds.next().is_some() {
            return Err(invalid("more than one descriptor for a range"));
        }
        if let Some(fd) = &memory {
            let why = |error| Refusal(Errno::PERM, format!("memory at {address:#x} is not taken: {error}"));
            check_memory(fd.as_fd()).map_err(why)?;
            let file = File::from(fd.try_clone()?);
            self.function.map(address, &file, offset, len, flags & dma::WRITE != 0)?;
        }
        self.maps.insert(address, Map { len, memory: memory.is_some() });
        Ok(Some(Answer::default()))
    }

    fn unmap(&mut self, fields: &mut Reader<'_>) -> Result<Option<Answer>, Refusal> {
        let (Some(_), Some(flags), Some(address), Some(len)) = (fields.u32(), fields.u32(), fields.u64(), fields.u64())
        else {
            return Ok(None);
        };
        if flags & dma::DIRTY_BITMAP != 0 {
            return Err(Refusal(Errno::OPNOTSUPP, "dirty pages are not tracked".to_owned()));
        }
        let (start, end) = match flags {
            dma::ALL if address == 0 && len == 0 => (0, u64::MAX),
            // The last page below 2^64 has no end that is an address; nothing can be mapped there.
            0 if len > 0 && address.wrapping_add(len) == 0 => (address, u64::MAX),
            0 => (address, address.checked_add(len).ok_or_else(|| invalid("the range ends beyond 2^64"))?),
            _ => return Err(invalid("unknown flags")),
        };
        let cut = |at: u64| {
            let before = self.maps.range(..at).next_back();
            before.is_some_and(|(first, map)| first.saturating_add(map.len) > at)
        };
        if cut(start) || cut(end) {
            return Err(invalid("a range is taken away whole"));
        }
        let gone: Vec<u64> = self.maps.range(start..end).map(|(start, _)| *start).collect();
        let mut total = 0_u64;
        for start in gone {
            let Some(map) = self.maps.remove(&start) else { continue };
            total = total.saturating_add(map.len);
            if map.memory {
                self.function.unmap(start, map.len);
            }
        }
        let mut out = Writer::default();
        Ok(Some(out.u32(24).u32(flags).u64(address).u64(total).done().into()))
    }

    fn info(&self) -> Option<Answer> {
        let regions = u32::try_from(self.regions.len()).ok()?;
        let mut out = Writer::default();
        out.u32(16).u32(device_flag::RESET | device_flag::PCI).u32(regions).u32(irq::COUNT);
        Some(out.done().into())
    }

    fn region(&self, index: u32) -> Result<&Region, Refusal> {
        let region = usize::try_from(index).ok().and_then(|index| self.regions.get(index));
        region.ok_or_else(|| invalid("no such region"))
    }

    fn region_info(&self, fields: &mut Reader<'_>) -> Result<Option<Answer>, Refusal> {
        let (Some(capacity), Some(_), Some(index)) = (fields.u32(), fields.u32(), fields.u32()) else {
            return Ok(None);
        };
        let region = self.region(index)?;
        let mut flags = 0;
        if region.size > 0 {
            flags = region_flag::READ | if region.writable { region_flag::WRITE } else { 0 };
        }
        let mut caps = Writer::default();
        let mut needed = region_flag::SIZE;
        if let Some(mapped) = region.mapped.as_ref().filter(|mapped| !mapped.areas.is_empty()) {
            flags |= region_flag::MMAP | region_flag::CAPS;
            let count = u32::try_from(mapped.areas.len()).map_err(|_| invalid("too many areas"))?;
            caps.u16(region_flag::CAP_SPARSE_MMAP).u16(1).u32(0).u32(count).u32(0);
            for (offset, len) in &mapped.areas {
                caps.u64(*offset).u64(*len);
            }
            needed += 16 + 16 * count;
        }
        // A client with too little space asks again. QEMU gives up if the place of what it has no space for is not told.
        let whole = capacity >= needed;
        let at = if flags & region_flag::CAPS != 0 { region_flag::SIZE } else { 0 };
        let mut out = Writer::default();
        out.u32(needed).u32(flags).u32(index).u32(at).u64(region.size).u64(0);
        if whole {
            out.bytes(&caps.done());
        }
        let file = region.mapped.as_ref().filter(|_| whole && at != 0).map(|mapped| Arc::clone(&mapped.file));
        Ok(Some(Answer { body: out.done(), file }))
    }

    fn irq_count(&self, index: u32) -> Result<u32, Refusal> {
        match index {
            irq::MSI | irq::MSIX if index == self.function.messages() => Ok(u32::from(self.function.vectors())),
            irq::ERROR | irq::REQUEST => Ok(1),
            0..irq::COUNT => Ok(0),
            _ => Err(invalid("no such interrupt")),
        }
    }

    fn irq_info(&self, fields: &mut Reader<'_>) -> Result<Option<Answer>, Refusal> {
        let (Some(_), Some(_), Some(index)) = (fields.u32(), fields.u32(), fields.u32()) else { return Ok(None) };
        let count = self.irq_count(index)?;
        let flags = if count == 0 { 0 } else { irq_flag::EVENTFD | irq_flag::NORESIZE };
        Ok(Some(Writer::default().u32(16).u32(flags).u32(index).u32(count).done().into()))
    }

    fn set_irqs(&self, fields: &mut Reader<'_>, fds: Vec<OwnedFd>) -> Result<Option<Answer>, Refusal> {
        let (Some(_), Some(flags), Some(index), Some(start), Some(count)) =
            (fields.u32(), fields.u32(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok(None);
        };
        let all = self.irq_count(index)?;
        let end = start.checked_add(count).filter(|end| *end <= all);
        let Some(end) = end else {
            return Err(invalid(&format!(
                "vectors {start} to {} of interrupt {index}, which has {all}",
                u64::from(start) + u64::from(count)
            )));
        };
        if flags & irq_flag::ACTION != irq_flag::TRIGGER || flags & !(irq_flag::ACTION | irq_flag::DATA) != 0 {
            return Err(invalid("vectors are only triggered"));
        }
        let vectors = match (flags & irq_flag::DATA, count) {
            (irq_flag::DATA_NONE, 0) if fds.is_empty() && start == 0 => 0..all,
            (irq_flag::DATA_EVENTFD, _) if fds.is_empty() || fds.len() == count as usize => start..end,
            _ => return Err(invalid("vectors take an eventfd each, or no descriptor at all, which takes theirs away")),
        };
        let triggers = fds.into_iter().map(Trigger::new).collect::<io::Result<Vec<_>>>()?;
        let mut triggers = triggers.into_iter().map(Arc::new);
        for vector in vectors.filter(|_| index == self.function.messages()) {
            if let Ok(vector) = u16::try_from(vector) {
                self.function.set_trigger(vector, triggers.next());
            }
        }
        Ok(Some(Answer::default()))
    }

    /// Fields of a transfer: region and offset of `count` bytes that lie in it.
    fn transfer(&self, fields: &mut Reader<'_>) -> Result<Option<(u32, u64, usize)>, Refusal> {
        let (Some(offset), Some(index), Some(count)) = (fields.u64(), fields.u32(), fields.u32()) else {
            return Ok(None);
        };
        let size = self.region(index)?.size;
        if offset.checked_add(count.into()).is_none_or(|end| end > size) {
            return Err(invalid(&format!("{count} bytes at {offset:#x} leave region {index}")));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > self.limits.transfer.min(MAX_TRANSFER) {
            return Err(invalid("more bytes than agreed"));
        }
        Ok(Some((index, offset, count)))
    }

    fn read(&self, fields: &mut Reader<'_>) -> Result<Option<Answer>, Refusal> {
        let Some((region, offset, count)) = self.transfer(fields)? else { return Ok(None) };
        let mut bytes = vec![0; count];
        if !self.function.read(region, offset, &mut bytes) {
            return Err(invalid(&format!("region {region} is not read by {count} bytes at {offset:#x}")));
        }
        let mut out = Writer::with_capacity(HEADER_SIZE + count);
        Ok(Some(out.u64(offset).u32(region).u32(count as u32).bytes(&bytes).done().into()))
    }

    fn write(&self, fields: &mut Reader<'_>) -> Result<Option<Answer>, Refusal> {
        let Some((region, offset, count)) = self.transfer(fields)? else { return Ok(None) };
        let bytes = fields.rest();
        if bytes.len() != count {
            return Err(invalid("the bytes do not fit their count"));
        }
        if !self.region(region)?.writable || !self.function.write(region, offset, bytes) {
            return Err(invalid(&format!("region {region} is not written by {count} bytes at {offset:#x}")));
        }
        Ok(Some(Writer::default().u64(offset).u32(region).u32(count as u32).done().into()))
    }
}
