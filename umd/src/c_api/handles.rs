//! Handles of the C API: a slot number and the slot's generation, so that a stale or invented handle is refused.
//!
//! Slots live in chunks that are never freed. A slot's state word says whether it is live, how often it was reused and who is using it now:
//! any number of shared users, or a single one. No call waits here; one that finds the object in use is refused with a status that says so.

use alloc::boxed::Box;
use core::{
    cell::UnsafeCell,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

use super::{CBuffer, CQueue, Fault, Status};
use crate::{Adapter, Device, DynamicBuffer, DynamicMapping, Fence, Program};

const CHUNK_SLOTS: usize = 256;
const CHUNKS: usize = 1024;

/// State bits: generation in the upper half, then one bit for a live object, then the users.
const LIVE: u64 = 1 << 31;
const USERS: u64 = LIVE - 1;
/// All user bits: used alone.
const ALONE: u64 = USERS;
const GENERATION_SHIFT: u32 = 32;

/// Object behind a handle.
pub(super) enum Object {
    Adapter(Adapter),
    Device(Device),
    Buffer(CBuffer),
    Fence(Fence),
    Queue(Box<CQueue>),
    Dynamic(DynamicBuffer),
    Contents(DynamicMapping),
    Program(Program),
}

/// The types in [`Object`].
pub(super) trait Kind {
    fn of(object: &Object) -> Option<&Self>;
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
}

macro_rules! kinds {
    ($($kind:ty => $variant:ident,)*) => {$(
        impl Kind for $kind {
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$variant(it) => Some(it),
                    _ => None,
                }
            }

            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$variant(it) => Some(it),
                    _ => None,
                }
            }
        }
    )*};
}

kinds! {
    Adapter => Adapter,
    Device => Device,
    CBuffer => Buffer,
    Fence => Fence,
    CQueue => Queue,
    DynamicBuffer => Dynamic,
    DynamicMapping => Contents,
    Program => Program,
}

struct Slot {
    state: AtomicU64,
    object: UnsafeCell<Option<Object>>,
}

// SAFETY: the object is reached only by users that the state word admitted: many that share it, or one alone. Its types are
// Send, and those shared by several threads (adapter, device, fence, program, dynamic buffer and its contents, and a buffer read for its address)
// are Sync.
unsafe impl Sync for Slot {}

type Chunk = [Slot; CHUNK_SLOTS];

static TABLE: [AtomicPtr<Chunk>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
/// Number of the slot with which the search for a free one starts; a wrong one only costs time.
static HINT: AtomicU32 = AtomicU32::new(0);

/// Uses the object behind `id` together with others.
pub(super) fn with<K: Kind, R>(id: u64, f: impl FnOnce(&K) -> Result<R, Fault>) -> Result<R, Fault> {
    let slot = find(id)?;
    let _use = Use::shared(slot, id)?;
    // SAFETY: admitted as a shared user until `_use` is dropped, so the object does not change.
    let object = unsafe { &*slot.object.get() };
    f(object.as_ref().and_then(K::of).ok_or(Status::BadHandle)?)
}

/// Uses the object behind `id` alone.
pub(super) fn with_mut<K: Kind, R>(id: u64, f: impl FnOnce(&mut K) -> Result<R, Fault>) -> Result<R, Fault> {
    let slot = find(id)?;
    let _use = Use::alone(slot, id)?;
    // SAFETY: admitted alone until `_use` is dropped.
    let object = unsafe { &mut *slot.object.get() };
    f(object.as_mut().and_then(K::of_mut).ok_or(Status::BadHandle)?)
}

/// Ends the handle and drops its object.
pub(super) fn remove<K: Kind>(id: u64) -> Result<(), Fault> {
    let slot = find(id)?;
    let user = Use::alone(slot, id)?;
    // SAFETY: admitted alone until `user` is dropped or the slot is freed.
    let object = unsafe { &mut *slot.object.get() };
    if object.as_ref().and_then(K::of).is_none() {
        return Err(Status::BadHandle.into());
    }
    let object = object.take();
    core::mem::forget(user);
    let next = (id >> GENERATION_SHIFT).wrapping_add(1) << GENERATION_SHIFT;
    slot.state.store(next, Ordering::Release);
    drop(object);
    Ok(())
}

/// Gives an object a handle.
pub(super) fn insert(object: Object) -> Result<u64, Fault> {
    let start = HINT.load(Ordering::Relaxed) as usize;
    for step in 0..CHUNKS * CHUNK_SLOTS {
        let index = (start + step) % (CHUNKS * CHUNK_SLOTS);
        let Some(slot) = slot_or_new(index) else { break };
        let state = slot.state.load(Ordering::Relaxed);
        if state & (LIVE | USERS) != 0 {
            continue;
        }
        if slot.state.compare_exchange(state, state | ALONE, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        // SAFETY: claimed alone by the exchange above.
        unsafe { *slot.object.get() = Some(object) };
        slot.state.store(state | LIVE, Ordering::Release);
        HINT.store(index as u32 + 1, Ordering::Relaxed);
        // Slots count from 1, so that zero is never a handle.
        return Ok(state | (index as u64 + 1));
    }
    Err(Status::TooManyHandles.into())
}

fn find(id: u64) -> Result<&'static Slot, Fault> {
    let index = (id as u32 as usize).checked_sub(1).ok_or(Status::BadHandle)?;
    let chunk = TABLE.get(index / CHUNK_SLOTS).ok_or(Status::BadHandle)?.load(Ordering::Acquire);
    // SAFETY: a chunk that was entered into the table is never freed.
    let chunk = unsafe { chunk.as_ref() }.ok_or(Status::BadHandle)?;
    Ok(chunk.get(index % CHUNK_SLOTS).ok_or(Status::BadHandle)?)
}

fn slot_or_new(index: usize) -> Option<&'static Slot> {
    let entry = TABLE.get(index / CHUNK_SLOTS)?;
    let mut chunk = entry.load(Ordering::Acquire);
    if chunk.is_null() {
        let slot = |_| Slot { state: AtomicU64::new(0), object: UnsafeCell::new(None) };
        // Made in place: a chunk is larger than a stack frame may be.
        let slots: Box<[Slot]> = (0..CHUNK_SLOTS).map(slot).collect();
        let fresh: *mut Chunk = Box::into_raw(slots.try_into().ok()?);
        match entry.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => chunk = fresh,
            Err(earlier) => {
                // SAFETY: ours, and not published.
                drop(unsafe { Box::from_raw(fresh) });
                chunk = earlier;
            }
        }
    }
    // SAFETY: a chunk that was entered into the table is never freed.
    unsafe { chunk.as_ref() }?.get(index % CHUNK_SLOTS)
}

/// Admission to a slot's object.
struct Use {
    slot: &'static Slot,
    alone: bool,
}

impl Use {
    fn shared(slot: &'static Slot, id: u64) -> Result<Self, Fault> {
        Self::admit(slot, id, |users| if users < ALONE - 1 { Some(users + 1) } else { None })?;
        Ok(Self { slot, alone: false })
    }

    fn alone(slot: &'static Slot, id: u64) -> Result<Self, Fault> {
        Self::admit(slot, id, |users| if users == 0 { Some(ALONE) } else { None })?;
        Ok(Self { slot, alone: true })
    }

    /// Replaces the count of users by what `change` makes of it, if the slot has the object that `id` was given for.
    fn admit(slot: &Slot, id: u64, change: impl Fn(u64) -> Option<u64>) -> Result<(), Fault> {
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if state & LIVE == 0 || state >> GENERATION_SHIFT != id >> GENERATION_SHIFT {
                return Err(Status::BadHandle.into());
            }
            let users = change(state & USERS).ok_or(Status::Busy)?;
            let next = state & !USERS | users;
            match slot.state.compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if self.alone {
            // No other thread changes the word of a slot that is used alone, so a plain store is enough.
            let state = self.slot.state.load(Ordering::Relaxed);
            self.slot.state.store(state & !USERS, Ordering::Release);
        } else {
            self.slot.state.fetch_sub(1, Ordering::Release);
        }
    }
}
