//! Lists that several threads change: S-lists, and doubly linked lists under a spin lock.
//!
//! S-lists have the layout of x64, and are changed under one lock, which no other code takes. [wdm: SLIST_HEADER, LIST_ENTRY]

use super::call::good;
use super::memory::{field, try_get, try_put};
use super::spin;
use crate::driver::Export;
use crate::driver_call::on_host_stack;
use crate::fault::Fault;
use crate::lock::{Mutex, lock};

pub(super) const EXPORTS: &[Export] = &[
    ("ExpInterlockedPushEntrySList", || push as *const () as usize),
    ("ExpInterlockedPopEntrySList", || pop as *const () as usize),
    ("ExpInterlockedFlushSList", || flush as *const () as usize),
    ("ExQueryDepthSList", || depth as *const () as usize),
    ("InitializeSListHead", || initialize as *const () as usize),
    ("ExInterlockedInsertHeadList", || insert_head as *const () as usize),
    ("ExInterlockedInsertTailList", || insert_tail as *const () as usize),
    ("ExInterlockedRemoveHeadList", || remove_head as *const () as usize),
    ("ExInterlockedPushEntryList", || push_single as *const () as usize),
    ("ExInterlockedPopEntryList", || pop_single as *const () as usize),
];

/// An entry of either kind of list, as an address.
type Entry = *mut [usize; 2];

static SLISTS: Mutex<()> = Mutex::new(());

fn changed<R>(service: &'static str, change: impl FnOnce() -> Result<R, Fault>) -> R {
    let result = on_host_stack(|| {
        let _slists = lock(&SLISTS);
        change()
    });
    good(service, result)
}

/// Depth in the low 16 bits of the first word, and a sequence above; the first entry in the second word, whose low four bits are flags.
fn set_head(list: Entry, first: usize, more: u64) -> Result<(), Fault> {
    let [before, _]: [u64; 2] = try_get(list.cast())?;
    let depth = (before & 0xffff).wrapping_add(more) & 0xffff;
    let sequence = (before & !0xffff).wrapping_add(0x1_0000);
    try_put(list.cast(), [sequence | depth, first as u64 | 1])
}

fn first(list: Entry) -> Result<usize, Fault> {
    let [_, next] = try_get(list)?;
    Ok(next & !0xf)
}

pub(super) extern "win64" fn push(list: Entry, entry: Entry) -> Entry {
    changed("ExInterlockedPushEntrySList", || {
        let before = first(list)?;
        try_put(entry.cast(), before)?;
        set_head(list, entry.expose_provenance(), 1)?;
        Ok(std::ptr::with_exposed_provenance_mut(before))
    })
}

pub(super) extern "win64" fn pop(list: Entry) -> Entry {
    changed("ExInterlockedPopEntrySList", || {
        let entry: Entry = std::ptr::with_exposed_provenance_mut(first(list)?);
        if !entry.is_null() {
            set_head(list, try_get(entry.cast())?, u64::MAX)?;
        }
        Ok(entry)
    })
}

extern "win64" fn flush(list: Entry) -> Entry {
    changed("ExInterlockedFlushSList", || {
        let entry = first(list)?;
        let depth: u16 = try_get(list.cast())?;
        set_head(list, 0, u64::from(depth).wrapping_neg())?;
        Ok(std::ptr::with_exposed_provenance_mut(entry))
    })
}

extern "win64" fn depth(list: Entry) -> u16 {
    super::memory::get("ExQueryDepthSList", list.cast())
}

extern "win64" fn initialize(list: Entry) {
    super::memory::put("InitializeSListHead", list, [0; 2]);
}

/// Changes a doubly linked list while the thread has its spin lock, at whatever level.
fn locked<R>(service: &'static str, lock: *mut usize, change: impl FnOnce() -> Result<R, Fault>) -> R {
    spin::acquire(service, lock);
    let result = change();
    spin::release(service, lock);
    good(service, result)
}

fn link(before: Entry, entry: Entry, after: Entry) -> Result<(), Fault> {
    try_put(entry.cast(), [after, before])?;
    try_put(before.cast(), entry)?;
    try_put(field(after.cast(), 8), entry)
}

fn neighbour(entry: Entry, ahead: bool) -> Result<Entry, Fault> {
    try_get(field(entry.cast(), if ahead { 0 } else { 8 }))
}

/// The entry that was there, or NULL if the list was empty.
fn unless_empty(entry: Entry, list: Entry) -> Entry {
    if entry == list { std::ptr::null_mut() } else { entry }
}

extern "win64" fn insert_head(list: Entry, entry: Entry, lock: *mut usize) -> Entry {
    locked("ExInterlockedInsertHeadList", lock, || {
        let first = neighbour(list, true)?;
        link(list, entry, first)?;
        Ok(unless_empty(first, list))
    })
}

extern "win64" fn insert_tail(list: Entry, entry: Entry, lock: *mut usize) -> Entry {
    locked("ExInterlockedInsertTailList", lock, || {
        let last = neighbour(list, false)?;
        link(last, entry, list)?;
        Ok(unless_empty(last, list))
    })
}

extern "win64" fn remove_head(list: Entry, lock: *mut usize) -> Entry {
    locked("ExInterlockedRemoveHeadList", lock, || {
        let first = neighbour(list, true)?;
        if first != list {
            let second = neighbour(first, true)?;
            try_put(list.cast(), second)?;
            try_put(field(second.cast(), 8), list)?;
        }
        Ok(unless_empty(first, list))
    })
}

/// An entry of a list whose entries know the next one only. [wdm: SINGLE_LIST_ENTRY]
type Single = *mut usize;

/// The first entry before. [wdm: ExInterlockedPushEntryList]
extern "win64" fn push_single(list: Single, entry: Single, lock: *mut usize) -> Single {
    locked("ExInterlockedPushEntryList", lock, || {
        let before = try_get(list)?;
        try_put(entry, before)?;
        try_put(list, entry.expose_provenance())?;
        Ok(std::ptr::with_exposed_provenance_mut(before))
    })
}

/// The entry that was first, or NULL. [wdm: ExInterlockedPopEntryList]
extern "win64" fn pop_single(list: Single, lock: *mut usize) -> Single {
    locked("ExInterlockedPopEntryList", lock, || {
        let entry: Single = std::ptr::with_exposed_provenance_mut(try_get(list)?);
        if !entry.is_null() {
            try_put(list, try_get(entry)?)?;
        }
        Ok(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(16))]
    struct Node([usize; 2]);

    fn node() -> Entry {
        Box::into_raw(Box::new(Node([0; 2]))).cast()
    }

    #[test]
    fn singly_linked_lists_are_stacks_under_their_spin_lock() {
        let [list, lock, a, b] = [(); 4].map(|()| Box::into_raw(Box::new(0_usize)));
        let none = std::ptr::null_mut();
        assert_eq!((push_single(list, a, lock), push_single(list, b, lock)), (none, a));
        assert_eq!([(); 3].map(|()| pop_single(list, lock)), [b, a, none]);
        assert_eq!(super::super::memory::get::<usize>("a test", lock), 0, "the lock is free");
    }

    #[test]
    fn s_lists_are_stacks_with_a_depth() {
        let (list, a, b) = (node(), node(), node());
        initialize(list);
        assert!(pop(list).is_null());
        assert!(push(list, a).is_null());
        assert_eq!((push(list, b), depth(list)), (a, 2));
        assert_eq!((pop(list), depth(list)), (b, 1));
        push(list, b);
        assert_eq!((flush(list), depth(list)), (b, 0));
        assert!(pop(list).is_null());
    }

    #[test]
    fn linked_lists_keep_their_order() {
        let (list, a, b, mut lock) = (node(), node(), node(), 0_usize);
        super::super::memory::put("a test", list.cast(), [list, list]);
        let lock = &raw mut lock;
        assert!(remove_head(list, lock).is_null());
        assert!(insert_tail(list, a, lock).is_null());
        assert_eq!(insert_tail(list, b, lock), a);
        assert_eq!(remove_head(list, lock), a);
        assert_eq!(insert_head(list, a, lock), b);
        assert_eq!([remove_head(list, lock), remove_head(list, lock)], [a, b]);
        assert!(remove_head(list, lock).is_null());
    }
}
