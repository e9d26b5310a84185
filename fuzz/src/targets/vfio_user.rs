//! A server of the vfio-user protocol, given the messages of a client, against a model of what it keeps for one.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use campanile_vfio_user::message::{Header, Reader, Writer, command, dma, header_flag, irq, irq_flag, region_flag};
use rustix::io::Errno;

use crate::input::Input;

/// The function that is served and the client, which the server's own tests use, too.
#[allow(dead_code)] // they do more with them
#[path = "../../../vfio-user/tests/server/peer.rs"]
mod peer;

use peer::{BAR0, BAR2, Raw, Seen, Served, VECTORS, eventfd, sealed, serving, unsealed};

/// Messages of an input, at most.
const MESSAGES: usize = 64;
/// Descriptors of a message that the client says it sends at most.
const FDS: usize = 16;
/// Bytes of the memory behind a sealed and an unsealed descriptor.
const MEMORY: [u64; 2] = [0x4000, 0x1000];

/// A descriptor that comes with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fd {
    /// Memory that nobody can make smaller.
    Sealed,
    /// Memory that the server can seal.
    Unsealed,
    Eventfd,
    Pipe,
}

impl Fd {
    fn pick(input: &mut Input<'_>) -> Self {
        input.pick(&[Self::Sealed, Self::Unsealed, Self::Eventfd, Self::Pipe])
    }

    fn open(self) -> OwnedFd {
        match self {
            Self::Sealed => sealed(MEMORY[0]).into(),
            Self::Unsealed => unsealed(MEMORY[1]).into(),
            Self::Eventfd => eventfd(0),
            Self::Pipe => std::io::pipe().expect("a pipe").1.into(),
        }
    }
}

/// The answer that the model foresees: the body, or the numbers of the rules that the message breaks, of which the server names one.
type Foreseen = Result<Vec<u8>, Vec<Errno>>;

/// The answer where it is the body unless one of the rules is broken.
fn unless(rules: impl IntoIterator<Item = (bool, Errno)>, body: Vec<u8>) -> Foreseen {
    let broken: Vec<Errno> = rules.into_iter().filter(|(broken, _)| *broken).map(|(_, number)| number).collect();
    if broken.is_empty() { Ok(body) } else { Err(broken) }
}

fn short() -> Foreseen {
    Err(vec![Errno::INVAL])
}

/// What the server keeps for its client, by the protocol.
#[derive(Default)]
struct Model {
    /// Length by address, and whether there is memory, which may then be written or not.
    maps: BTreeMap<u64, (u64, Option<bool>)>,
    triggers: [bool; VECTORS as usize],
    writes: Vec<(u32, u64, Vec<u8>)>,
    resets: u32,
}

impl Model {
    fn answer(&mut self, number: u16, body: &[u8], fds: &[Fd]) -> Foreseen {
        let takes_none = !matches!(number, command::DMA_MAP | command::DEVICE_SET_IRQS);
        if fds.len() > FDS || !fds.is_empty() && takes_none {
            return short();
        }
        let mut fields = Reader::new(body);
        match number {
            command::DMA_MAP => self.map(&mut fields, fds),
            command::DMA_UNMAP => self.unmap(&mut fields),
            command::DEVICE_GET_INFO => Ok(Writer::default().u32(16).u32(3).u32(10).u32(5).done()),
            command::DEVICE_GET_REGION_INFO => region_info(&mut fields),
            command::DEVICE_GET_IRQ_INFO => irq_info(&mut fields),
            command::DEVICE_SET_IRQS => self.set_irqs(&mut fields, fds),
            command::REGION_READ | command::REGION_WRITE => self.transfer(number, &mut fields),
            command::DEVICE_RESET => {
                self.resets += 1;
                Ok(Vec::new())
            }
            command::VERSION => short(),
            _ => Err(vec![Errno::OPNOTSUPP]),
        }
    }

    fn map(&mut self, fields: &mut Reader<'_>, fds: &[Fd]) -> Foreseen {
        let (Some(_), Some(flags), Some(offset), Some(address), Some(len)) =
            (fields.u32(), fields.u32(), fields.u64(), fields.u64(), fields.u64())
        else {
            return short();
        };
        let (start, end) = (u128::from(address), u128::from(address) + u128::from(len));
        let overlaps =
            |(at, (len, _)): (&u64, &(u64, _))| u128::from(*at) < end && start < u128::from(*at) + u128::from(*len);
        let memory = fds.first().map(|fd| match fd {
            Fd::Sealed => MEMORY[0],
            Fd::Unsealed => MEMORY[1],
            Fd::Eventfd | Fd::Pipe => 0,
        });
        let outside = |size: u64| u128::from(offset) + u128::from(len) > u128::from(size);
        let rules = [
            (flags != dma::READ && flags != dma::READ | dma::WRITE, Errno::INVAL),
            (len == 0 || address % 4096 != 0 || len % 4096 != 0 || end > u128::from(u64::MAX), Errno::INVAL),
            (self.maps.iter().any(overlaps), Errno::EXIST),
            (fds.len() > 1, Errno::INVAL),
            (memory == Some(0), Errno::PERM),
            (memory.is_some_and(|size| size > 0 && outside(size)), Errno::INVAL),
        ];
        unless(rules, Vec::new()).inspect(|_| {
            self.maps.insert(address, (len, memory.map(|_| flags & dma::WRITE != 0)));
        })
    }

    fn unmap(&mut self, fields: &mut Reader<'_>) -> Foreseen {
        let (Some(_), Some(flags), Some(address), Some(len)) = (fields.u32(), fields.u32(), fields.u64(), fields.u64())
        else {
            return short();
        };
        if flags & dma::DIRTY_BITMAP != 0 {
            return Err(vec![Errno::OPNOTSUPP]);
        }
        let all = flags == dma::ALL && (address, len) == (0, 0);
        let (start, end) = (u128::from(address), u128::from(address) + u128::from(len));
        let inside = |at: u64, len: u64| all || u128::from(at) >= start && u128::from(at) + u128::from(len) <= end;
        // No range is cut, by an empty one neither.
        let cut = |at: u64, len: u64| {
            let (first, behind) = (u128::from(at), u128::from(at) + u128::from(len));
            !all && [start, end].iter().any(|edge| first < *edge && *edge < behind)
        };
        let rules = [
            (flags != 0 && !all, Errno::INVAL),
            (end > 1 << 64, Errno::INVAL),
            (self.maps.iter().any(|(at, (len, _))| cut(*at, *len)), Errno::INVAL),
        ];
        let total = self.maps.iter().filter(|(at, (len, _))| inside(**at, *len)).map(|(_, (len, _))| len);
        let total = total.fold(0_u64, |total, len| total.saturating_add(*len));
        unless(rules, Writer::default().u32(24).u32(flags).u64(address).u64(total).done())
            .inspect(|_| self.maps.retain(|at, (len, _)| !inside(*at, *len)))
    }

    fn set_irqs(&mut self, fields: &mut Reader<'_>, fds: &[Fd]) -> Foreseen {
        let (Some(_), Some(flags), Some(index), Some(start), Some(count)) =
            (fields.u32(), fields.u32(), fields.u32(), fields.u32(), fields.u32())
        else {
            return short();
        };
        let Some(all) = vectors(index) else { return short() };
        let none = flags & irq_flag::DATA == irq_flag::DATA_NONE && (start, count) == (0, 0) && fds.is_empty();
        let each = flags & irq_flag::DATA == irq_flag::DATA_EVENTFD && (fds.is_empty() || fds.len() == count as usize);
        let rules = [
            (u64::from(start) + u64::from(count) > u64::from(all), Errno::INVAL),
            (flags & !irq_flag::DATA != irq_flag::TRIGGER, Errno::INVAL),
            (!none && !each, Errno::INVAL),
            (fds.iter().any(|fd| *fd != Fd::Eventfd), Errno::INVAL),
        ];
        let answer = unless(rules, Vec::new());
        if answer.is_ok() && index == irq::MSIX {
            let vectors = if none { 0..usize::from(VECTORS) } else { start as usize..(start + count) as usize };
            self.triggers[vectors].fill(!fds.is_empty());
        }
        answer
    }

    fn transfer(&mut self, number: u16, fields: &mut Reader<'_>) -> Foreseen {
        let (Some(offset), Some(region), Some(count)) = (fields.u64(), fields.u32(), fields.u32()) else {
            return short();
        };
        let Some(size) = size(region) else { return short() };
        if u128::from(offset) + u128::from(count) > u128::from(size) {
            return short();
        }
        let mut answer = Writer::default();
        answer.u64(offset).u32(region).u32(count);
        if number == command::REGION_READ {
            let bytes = vec![region as u8 + 1; count as usize];
            return unless([(region == 0 && count > 8, Errno::INVAL)], answer.bytes(&bytes).done());
        }
        let bytes = fields.rest().to_vec();
        let rules = [(bytes.len() != count as usize, Errno::INVAL), (region == 9, Errno::INVAL)];
        unless(rules, answer.done()).inspect(|_| self.writes.push((region, offset, bytes)))
    }

    /// The function was told what the model has, and nothing else.
    fn check(&self, seen: &Mutex<Seen>) {
        let seen = seen.lock().expect("no panic");
        let mut maps = seen.maps.clone();
        maps.sort_unstable();
        let memory = self.maps.iter().filter_map(|(at, (len, writable))| Some((*at, *len, (*writable)?)));
        assert_eq!(maps, memory.collect::<Vec<_>>(), "ranges with memory");
        assert_eq!(seen.triggers.each_ref().map(Option::is_some), self.triggers, "vectors with an eventfd");
        assert_eq!(seen.writes, self.writes, "writes");
        assert_eq!(seen.resets, self.resets, "resets");
    }
}

/// Bytes of a region, `None` where there is none.
fn size(region: u32) -> Option<u64> {
    match region {
        0 => Some(BAR0),
        2 => Some(BAR2),
        7 => Some(4096),
        9 => Some(8),
        1..10 => Some(0),
        _ => None,
    }
}

/// Vectors of an interrupt, `None` where there is none.
fn vectors(interrupt: u32) -> Option<u32> {
    match interrupt {
        irq::MSIX => Some(VECTORS.into()),
        irq::ERROR | irq::REQUEST => Some(1),
        0..irq::COUNT => Some(0),
        _ => None,
    }
}

fn region_info(fields: &mut Reader<'_>) -> Foreseen {
    let (Some(capacity), Some(_), Some(region)) = (fields.u32(), fields.u32(), fields.u32()) else { return short() };
    let Some(size) = size(region) else { return short() };
    let (mut flags, mut needed, mut caps) = (0, 32, Vec::new());
    if size > 0 {
        flags |= region_flag::READ | if region == 9 { 0 } else { region_flag::WRITE };
    }
    if region == 2 {
        flags |= region_flag::MMAP | region_flag::CAPS;
        let mut out = Writer::default();
        out.u16(1).u16(1).u32(0).u32(2).u32(0).u64(0).u64(0x1000).u64(0x2000).u64(0x2000);
        caps = out.done();
        needed += caps.len() as u32;
    }
    let mut out = Writer::default();
    out.u32(needed).u32(flags).u32(region).u32(if region == 2 { 32 } else { 0 }).u64(size).u64(0);
    if capacity >= needed {
        out.bytes(&caps);
    }
    Ok(out.done())
}

fn irq_info(fields: &mut Reader<'_>) -> Foreseen {
    let (Some(_), Some(_), Some(index)) = (fields.u32(), fields.u32(), fields.u32()) else { return short() };
    let Some(count) = vectors(index) else { return short() };
    let flags = if count == 0 { 0 } else { irq_flag::EVENTFD | irq_flag::NORESIZE };
    Ok(Writer::default().u32(16).u32(flags).u32(index).u32(count).done())
}

/// An address or a length: whole pages most of the time.
fn pages(input: &mut Input<'_>) -> u64 {
    match input.u8() {
        pages @ 0..240 => u64::from(pages) << 12,
        at @ 240..244 => u64::MAX - (u64::from(at - 240) << 12) - 0xfff,
        _ => input.u64(),
    }
}

fn small(input: &mut Input<'_>) -> u32 {
    match input.u8() {
        255 => input.u64() as u32,
        254 => u32::from(input.u16()),
        small => u32::from(small % 64),
    }
}

/// The body of a command, as the input has its fields, and now and then cut off.
fn body(number: u16, input: &mut Input<'_>) -> Vec<u8> {
    let mut out = Writer::default();
    match number {
        command::DMA_MAP => {
            out.u32(32).u32(small(input)).u64(pages(input)).u64(pages(input)).u64(pages(input));
        }
        command::DMA_UNMAP => {
            out.u32(24).u32(small(input)).u64(pages(input)).u64(pages(input));
        }
        command::DEVICE_SET_IRQS => {
            out.u32(20).u32(small(input)).u32(small(input)).u32(small(input)).u32(small(input));
        }
        command::REGION_READ | command::REGION_WRITE => {
            let (offset, region, count) =
                (u64::from(small(input)) * 64 + u64::from(input.u8()), small(input), small(input));
            out.u64(offset).u32(region).u32(count);
            if number == command::REGION_WRITE {
                let bytes = count.min(256) as usize + usize::from(input.u8() == 77);
                out.bytes(&vec![input.u8(); bytes]);
            }
        }
        _ => {
            out.u32(small(input)).u32(small(input)).u32(small(input)).u32(small(input));
        }
    }
    let mut body = out.done();
    if let cut @ 224.. = input.u8() {
        body.truncate(body.len().saturating_sub(usize::from(cut - 223)));
    }
    body
}

/// Each message is answered as a model of ranges, vectors and regions foresees, with the body or a broken rule's number; the function is told what the model has and
/// ends with its client.
pub(crate) fn vfio_user(data: &[u8]) {
    let mut input = Input::new(data);
    let mut served = serving();
    let (mut raw, mut model) = (served.raw(), Model::default());
    raw.hello();
    for _ in 0..MESSAGES {
        if input.is_empty() {
            break;
        }
        if !exchange(&mut input, &mut raw, &mut model) {
            return end(raw, served, &model, true);
        }
        model.check(&served.seen);
    }
    end(raw, served, &model, false);
}

/// One message of the client. False if it is one that ends the connection.
fn exchange(input: &mut Input<'_>, raw: &mut Raw, model: &mut Model) -> bool {
    let number = u16::from(input.u8() % 15);
    let flags = match input.u8() {
        200..230 => header_flag::NO_REPLY,
        255 => u32::from(input.u8()),
        _ => 0,
    };
    let fds: Vec<Fd> = match input.u8() {
        many @ 250.. => (0..many - 235).map(|_| Fd::Eventfd).collect(),
        few => (0..few % 8 / 2).map(|_| Fd::pick(input)).collect(),
    };
    let body = body(number, input);
    let opened: Vec<OwnedFd> = fds.iter().map(|fd| fd.open()).collect();
    let opened: Vec<_> = opened.iter().map(|fd| fd.as_fd()).collect();
    raw.send(&Header { id: 7, command: number, flags, ..Header::default() }.before(&body), &opened);
    if flags & header_flag::TYPE != 0 {
        return false;
    }
    let foreseen = model.answer(number, &body, &fds);
    if flags & header_flag::NO_REPLY != 0 {
        // The answer to the next message says that the server is done with this one.
        let (error, _) = raw.ask(command::DEVICE_GET_INFO, &[], &[]).expect("an answer");
        assert_eq!(error, 0, "DEVICE_GET_INFO");
        return true;
    }
    let (header, answer) = raw.receive().expect("an answer");
    assert!(header.is_reply() && header.id == 7 && header.command == number, "{header:?}");
    let failed = header.flags & header_flag::ERROR != 0;
    match foreseen {
        Ok(body) => assert!(!failed && header.error == 0 && answer == body, "{header:?} {answer:x?}, not {body:x?}"),
        Err(numbers) => {
            let named = numbers.iter().any(|number| number.raw_os_error().unsigned_abs() == header.error);
            assert!(failed && named && answer.is_empty(), "{header:?} {answer:x?}, not one of {numbers:?}");
        }
    }
    true
}

/// The client leaves, or sent what ends the connection; the function goes then.
fn end(raw: Raw, served: Served, model: &Model, ended: bool) {
    let mut raw = raw;
    if ended {
        assert!(raw.receive().is_none(), "an answer to what is no command");
    }
    drop(raw);
    let seen: Arc<Mutex<Seen>> = Arc::clone(&served.seen);
    let (_, events) = served.join();
    assert!(seen.lock().expect("no panic").dropped, "the function outlives its client");
    let left = events.last().expect("an event");
    assert_eq!(left == "Left(None)", !ended, "the end of the connection: {left}");
    model.check(&seen);
}
