//! The hot path: making one submission visible to the GPU without the kernel.
//!
//! Why no submission is ever lost, though the operating system may take the doorbell away at any moment:
//!
//! - We store the write pointer, then load the status word. The operating system disconnects in three steps: it stores DISCONNECTED_RETRY,
//!   turns the doorbell page away, and then lets the scheduler look at the write pointer a last time (command DisconnectDoorbell).
//! - Each side writes one word and then reads the other's. If both had a full barrier in between, at least one must see the
//!   other's write: either our load shows RETRY, and we reconnect, which looks at the write pointer again; or our load came
//!   before RETRY was stored, then our write pointer was visible even earlier, and the last look sees it.
//! - x86 keeps stores in order and loads in order, but lets a load overtake an earlier store to another address, so a plain
//!   store of the write pointer is not enough: it could still wait in the store buffer while the status is read. Turning the
//!   page interrupts this processor on most machines and thereby orders the two, but processors that invalidate each other's
//!   translations without an interrupt give no such promise. The write pointer is therefore stored by an exchange, which is
//!   store and full barrier in one instruction.
//! - The barrier stands before the doorbell store and not after it: it then drains ordinary memory only and need not wait for
//!   a store to the device to leave the processor. The doorbell store may thus complete after the status was read. That is
//!   harmless: by then the write pointer, which is all that the doorbell announces, has long been visible, and a store that
//!   misses the real page lands on the page that replaced it.

use core::sync::atomic::Ordering;

use campanile_hw::{
    doorbell::DoorbellValue,
    queue::{CONTROL_WRITE_POINTER, RING_ENTRY_SIZE, RingEntry, RingGeometry},
};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;

// By way of the parent: the models check this file with shared memory of their own.
use super::{
    buffer::Mapping,
    error::{Error, Result},
    shared::{SharedRange, SharedWord, fence},
};

/// Words of a ring entry.
const ENTRY_WORDS: usize = RingEntry::SIZE / 8;

/// What the status word of a doorbell says. [d3dukmdt: D3DDDI_DOORBELLSTATUS]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Connected,
    ConnectedNotify,
    Retry,
    Abort,
    Unknown(u64),
}

impl Status {
    fn from_word(word: u64) -> Self {
        match i32::try_from(word).map(D3DDDI_DOORBELLSTATUS) {
            Ok(D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED) => Self::Connected,
            Ok(D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD) => Self::ConnectedNotify,
            Ok(D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY) => Self::Retry,
            Ok(D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT) => Self::Abort,
            _ => Self::Unknown(word),
        }
    }
}

/// The words of a queue's doorbell object. [d3dkmthk: D3DKMT_CREATE_DOORBELL]
#[derive(Clone, Copy)]
pub(crate) struct DoorbellWords {
    /// The doorbell, or the page that stands in for it while it is disconnected.
    pub(crate) doorbell: SharedWord,
    /// A [`Status`], read-only for us.
    pub(crate) status: SharedWord,
    /// The last progress value queued, by which the operating system knows of pending work.
    pub(crate) last_queued: SharedWord,
    /// What a doorbell that all queues share must be told; 0 for one that is the queue's own.
    pub(crate) queue: u16,
}

/// A ring of user-mode submission as the hot path sees it. Its mappings are owned by the queue.
pub(crate) struct UserRing {
    geometry: RingGeometry,
    entries: SharedRange,
    write_pointer: SharedWord,
    words: DoorbellWords,
    /// The part of the doorbell's value that names the queue.
    queue: u64,
}

impl UserRing {
    /// A ring in `ring` with its control page in `control`; both must outlive it. Write pointer and entries start as zero.
    pub(crate) fn new(ring: &Mapping, control: &Mapping, words: DoorbellWords) -> Result<Self> {
        const BAD: Error = Error::BadAnswer("the ring or its control page is mapped too small");
        let geometry = RingGeometry::of_bytes(ring.len() as u64).ok_or(BAD)?;
        if (control.len() as u64) < CONTROL_WRITE_POINTER + 8 {
            return Err(BAD);
        }
        // SAFETY: the caller keeps the mapping.
        let entries = unsafe { ring.words() };
        let write_pointer = control.as_ptr().wrapping_add(CONTROL_WRITE_POINTER as usize);
        // SAFETY: eight bytes inside the control mapping, which the caller keeps.
        let write_pointer = unsafe { SharedWord::new(write_pointer.cast()) }.ok_or(BAD)?;
        write_pointer.store(0, Ordering::Relaxed);
        let queue = DoorbellValue::new().with_queue(words.queue).into_bits();
        let ring = Self { geometry, entries, write_pointer, words, queue };
        for pointer in 0..u64::from(geometry.entries()) {
            ring.write_entry(pointer, [0; ENTRY_WORDS]);
        }
        Ok(ring)
    }

    /// Steps 3 to 6 of a submission: makes commands visible whose last packet sets the progress value, and says how the
    /// doorbell stands. `submission` counts from 1.
    #[inline(always)]
    pub(crate) fn publish(&self, submission: u64, commands: u64, size: u32, progress: u64) -> u64 {
        // 3. The operating system learns the value before the work exists for the GPU. In the other order it could find the
        //    queue with nothing pending while the GPU works on it, and power the engine down or miss a hang.
        self.words.last_queued.store(progress, Ordering::Relaxed);
        fence(Ordering::Release);
        // 4. The ring entry, into a slot whose last user is done. The GPU does not look at it before the write pointer covers it.
        let entry = RingEntry { commands, size, flags: 0, tag: 0, root: 0 };
        self.write_entry(submission - 1, as_words(&entry));
        //    The write pointer publishes it with everything above; why by a store with a full barrier is told at the top.
        self.write_pointer.store_and_fence(submission);
        // 5. The doorbell: one store, no trap.
        // 6. The status after it: it says if the doorbell was connected.
        self.ring_doorbell(submission)
    }

    /// Rings the doorbell for everything up to `submission` and returns the status word after that.
    #[inline(always)]
    pub(crate) fn ring_doorbell(&self, submission: u64) -> u64 {
        let value = DoorbellValue::of_write_pointer(submission).into_bits() | self.queue;
        self.words.doorbell.store(value, Ordering::Release);
        self.words.status.load(Ordering::SeqCst)
    }

    /// The status word now.
    pub(crate) fn status(&self) -> Status {
        Status::from_word(self.words.status.load(Ordering::SeqCst))
    }

    /// Decodes a doorbell's status word.
    pub(crate) fn read_status(word: u64) -> Status {
        Status::from_word(word)
    }

    #[inline(always)]
    fn write_entry(&self, pointer: u64, words: [u64; ENTRY_WORDS]) {
        // SAFETY: the geometry was made from the range's size, so every slot lies in it.
        unsafe { self.entries.write(self.geometry.slot(pointer) as usize, words) };
    }
}

const _: () = assert!(RING_ENTRY_SIZE as usize == ENTRY_WORDS * 8);

#[inline(always)]
fn as_words(entry: &RingEntry) -> [u64; ENTRY_WORDS] {
    let bytes = entry.to_bytes();
    let mut words = [0; ENTRY_WORDS];
    for (word, raw) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*raw);
    }
    words
}
