//! Trim notifications: user mode is asked to take something off its residency lists.
//!
//! The function that user mode registered for a device runs on a thread of its own in its process, never inside a thunk or a lock, so it may
//! call thunks itself. What was not told yet when there is more to tell is told in one call, with the latest number of bytes.
//! [d3dkmthk: D3DKMTRegisterTrimNotification, D3DKMT_TRIMNOTIFICATION]

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::LUID;

use crate::device::Device;
use crate::machine::{Machine, lock};
use crate::process::Process;
use crate::vidmm::VidMm;
use crate::vidmm::memory::SpaceId;

/// The function of user mode.
pub(crate) type Callback = unsafe extern "win64" fn(*mut D3DKMT_TRIMNOTIFICATION);

/// What is to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Notice {
    flags: D3DDDI_TRIMRESIDENCYSET_FLAGS,
    bytes: u64,
}

impl Notice {
    /// Both in one; of the number of bytes the later one counts.
    fn merge(self, later: Self) -> Self {
        let bytes = if later.flags.TrimToBudget() { later.bytes } else { self.bytes };
        let periodic = self.flags.PeriodicTrim() || later.flags.PeriodicTrim();
        let restart = self.flags.RestartPeriodicTrim() || later.flags.RestartPeriodicTrim();
        // The two exclude each other: who starts anew has nothing to compare with.
        let flags = D3DDDI_TRIMRESIDENCYSET_FLAGS::new()
            .with_PeriodicTrim(periodic && !restart)
            .with_RestartPeriodicTrim(restart)
            .with_TrimToBudget(self.flags.TrimToBudget() || later.flags.TrimToBudget());
        Self { flags, bytes }
    }
}

#[derive(Default)]
struct Mailbox {
    next: Option<Notice>,
    ended: bool,
}

/// A function that was registered for a device.
pub(crate) struct TrimRegistration {
    process: SpaceId,
    callback: Callback,
    /// Lock order: a leaf.
    mailbox: Mutex<Mailbox>,
    changed: Condvar,
    /// Lock order: a leaf.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl TrimRegistration {
    /// Registers `callback` for `device` and starts its thread, which runs in `process`.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when the host has no thread left.
    pub(crate) fn new(
        process: &Arc<Process>,
        device: &Device,
        callback: Callback,
        context: *mut c_void,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let registration = Arc::new(Self {
            process: device.process.space.id(),
            callback,
            mailbox: Mutex::default(),
            changed: Condvar::new(),
            thread: Mutex::default(),
        });
        let (of_thread, process, context) =
            (Arc::clone(&registration), Arc::downgrade(process), context.expose_provenance());
        let thread = std::thread::Builder::new()
            .name("trim".to_owned())
            .spawn(move || of_thread.run(&process, context))
            .map_err(|_| STATUS_NO_MEMORY)?;
        *lock(&registration.thread) = Some(thread);
        let vidmm = device.adapter.vidmm();
        let mut trims = lock(&vidmm.trims);
        trims.retain(|known| known.strong_count() > 0);
        trims.push(Arc::downgrade(&registration));
        Ok(registration)
    }

    /// Whether it is a registration of this function.
    pub(crate) fn is_of(&self, callback: Callback) -> bool {
        std::ptr::fn_addr_eq(self.callback, callback)
    }

    fn tell(&self, notice: Notice) {
        let mut mailbox = lock(&self.mailbox);
        mailbox.next = Some(mailbox.next.map_or(notice, |earlier| earlier.merge(notice)));
        drop(mailbox);
        self.changed.notify_all();
    }

    /// Nothing is told any more, and the function is not running when the call returns; unless it is the one that calls.
    pub(crate) fn end(&self) {
        lock(&self.mailbox).ended = true;
        self.changed.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // The function cannot unwind out of its thread.
            let _ = thread.join();
        }
    }

    fn next(&self) -> Option<Notice> {
        let mut mailbox = lock(&self.mailbox);
        loop {
            if mailbox.ended {
                return None;
            }
            if let Some(notice) = mailbox.next.take() {
                return Some(notice);
            }
            mailbox = self.changed.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, process: &Weak<Process>, context: usize) {
        while let Some(notice) = self.next() {
            let Some(process) = process.upgrade() else { return };
            let _attached = process.attach();
            let context = std::ptr::with_exposed_provenance_mut(context);
            let mut notification =
                D3DKMT_TRIMNOTIFICATION { Context: context, Flags: notice.flags, NumBytesToTrim: notice.bytes };
            // SAFETY: user mode registered the function for such calls and keeps it until it has unregistered it.
            unsafe { (self.callback)(&raw mut notification) };
        }
    }
}

impl VidMm {
    fn registrations(&self) -> Vec<Arc<TrimRegistration>> {
        lock(&self.trims).iter().filter_map(Weak::upgrade).collect()
    }

    /// Asks processes to give back so many bytes each. Called without the memory lock.
    pub(crate) fn ask_to_trim(&self, trims: &[(SpaceId, u64)]) {
        if trims.is_empty() {
            return;
        }
        let flags = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_TrimToBudget(true);
        for registration in self.registrations() {
            if let Some((_, bytes)) = trims.iter().find(|(process, _)| *process == registration.process) {
                registration.tell(Notice { flags, bytes: *bytes });
            }
        }
    }

    /// Asks every device to give back what it has not used since it was asked last; devices that slept meanwhile only learn that a new
    /// period begins.
    fn trim_periodically(&self) {
        let slept = std::mem::take(&mut lock(&self.memory).slept);
        let flags = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_PeriodicTrim(!slept).with_RestartPeriodicTrim(slept);
        for registration in self.registrations() {
            registration.tell(Notice { flags, bytes: 0 });
        }
    }
}

impl Machine {
    /// A period of the memory manager of an adapter ends: devices that registered for it are asked to give back what they have not used
    /// since the last one. False without such an adapter.
    pub fn trim_periodically(&self, luid: LUID) -> bool {
        let adapter = self.adapter(luid).filter(|adapter| adapter.scheduler().is_some());
        adapter.is_some_and(|adapter| {
            adapter.vidmm().trim_periodically();
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIODIC: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_PeriodicTrim(true);
    const RESTART: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_RestartPeriodicTrim(true);
    const BUDGET: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_TrimToBudget(true);

    #[test]
    fn what_was_not_told_yet_is_told_at_once_and_a_restart_is_never_a_trim() {
        let (periodic, restart) = (Notice { flags: PERIODIC, bytes: 0 }, Notice { flags: RESTART, bytes: 0 });
        let budget = |bytes| Notice { flags: BUDGET, bytes };
        assert_eq!(budget(5).merge(budget(3)), budget(3));
        let both = Notice { flags: PERIODIC.with_TrimToBudget(true), bytes: 5 };
        assert_eq!((budget(5).merge(periodic), periodic.merge(budget(5))), (both, both));
        for merged in [periodic.merge(restart), restart.merge(periodic)] {
            assert_eq!(merged, restart);
        }
    }
}
