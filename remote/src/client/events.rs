//! Events of the program that the machine sets: when the machine is gone they are set here, so that nobody waits for one for ever.
//!
//! Nothing says when the machine is done with an event, so a duplicate is kept by the number of its handle until the program gives the machine another event by
//! that number: as many as the program has events open at a time.

use core::mem::offset_of;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use nt::user_space::{ThisProcess, UserSpace, is_event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wddm_ddi::kmt::*;
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};

use crate::thunks::Number;

/// Duplicates of events, by the numbers of their handles.
#[derive(Default)]
pub(super) struct Events(Mutex<BTreeMap<RawFd, OwnedFd>>);

/// The word at an offset of a thunk's argument; `None` where the program has no memory.
fn word<const BYTES: usize>(argument: u64, offset: usize) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let address = usize::try_from(argument).ok()?.checked_add(offset)?;
    ThisProcess.read(address, &mut bytes).ok()?;
    Some(bytes)
}

/// The event that the machine is given by a call of a thunk, by the number of its handle.
fn event_of(thunk: u32, argument: u64) -> Option<RawFd> {
    const OLDER: usize = offset_of!(D3DKMT_CREATESYNCHRONIZATIONOBJECT2, Info);
    let at = if thunk == Number::D3DKMTWaitForSynchronizationObjectFromCpu as u32 {
        offset_of!(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, hAsyncEvent)
    } else if thunk == Number::D3DKMTCreateSynchronizationObject2 as u32 {
        let kind = word(argument, OLDER + offset_of!(D3DDDI_SYNCHRONIZATIONOBJECTINFO2, Type))?;
        let notifies = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_CPU_NOTIFICATION.0.to_ne_bytes();
        if kind != notifies {
            return None;
        }
        OLDER + offset_of!(D3DDDI_SYNCHRONIZATIONOBJECTINFO2, u)
    } else {
        return None;
    };
    let handle = word(argument, at).map(u64::from_ne_bytes)?;
    RawFd::try_from(handle).ok().filter(|number| *number != 0)
}

impl Events {
    /// Keeps the event that a call gives the machine, if it gives one. What is no event is the machine's to refuse.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES: the program has no descriptor left.
    pub(super) fn keep(&self, thunk: u32, argument: u64) -> Result<(), NTSTATUS> {
        let Some(number) = event_of(thunk, argument) else { return Ok(()) };
        let this: &dyn UserSpace = &ThisProcess;
        match this.descriptor(number, |descriptor| descriptor) {
            Ok(event) if !is_event(event.as_fd()).unwrap_or(false) => Ok(()),
            Ok(event) => {
                // The one before is closed when the lock is free again.
                let _before = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, event);
                Ok(())
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                Err(STATUS_INSUFFICIENT_RESOURCES)
            }
            Err(_) => Ok(()),
        }
    }

    /// Sets all of them.
    pub(super) fn set(&self) {
        let events = core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for event in events.values() {
            // One that is full is set already, and would keep this thread.
            if is_writable(event).unwrap_or(false) {
                let _ = rustix::io::write(event, &1u64.to_ne_bytes());
            }
        }
    }
}

fn is_writable(event: &OwnedFd) -> io::Result<bool> {
    let mut looked = [PollFd::new(event, PollFlags::OUT)];
    poll(&mut looked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(looked[0].revents().contains(PollFlags::OUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsRawFd;
    use wddm_ddi::Zeroed;

    fn waits_by(event: &OwnedFd) -> D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
        let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hAsyncEvent = core::ptr::without_provenance_mut(event.as_raw_fd() as usize);
        arguments
    }

    fn keep<T>(events: &Events, thunk: Number, arguments: &T) {
        events.keep(thunk as u32, core::ptr::from_ref(arguments).expose_provenance() as u64).expect("a descriptor");
    }

    fn event() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an event")
    }

    fn is_set(event: &OwnedFd) -> bool {
        rustix::io::read(event, &mut [0u8; 8]).is_ok()
    }

    #[test]
    fn events_that_the_machine_was_given_are_set() {
        let (events, waited, notified, other) = (Events::default(), event(), event(), event());
        keep(&events, Number::D3DKMTWaitForSynchronizationObjectFromCpu, &waits_by(&waited));
        let mut create = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
        create.Info.u.CPUNotification = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification {
            Event: core::ptr::without_provenance_mut(notified.as_raw_fd() as usize),
        };
        create.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_FENCE;
        keep(&events, Number::D3DKMTCreateSynchronizationObject2, &create);
        keep(&events, Number::D3DKMTSignalSynchronizationObjectFromCpu, &waits_by(&other));
        events.set();
        assert_eq!([&waited, &notified, &other].map(is_set), [true, false, false]);
        create.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_CPU_NOTIFICATION;
        keep(&events, Number::D3DKMTCreateSynchronizationObject2, &create);
        events.set();
        assert_eq!([&waited, &notified, &other].map(is_set), [false, true, false]);
    }

    #[test]
    fn one_duplicate_is_kept_for_a_number_and_bad_arguments_keep_none() {
        let events = Events::default();
        let first = event();
        for _ in 0..100 {
            keep(&events, Number::D3DKMTWaitForSynchronizationObjectFromCpu, &waits_by(&first));
        }
        let wait = Number::D3DKMTWaitForSynchronizationObjectFromCpu as u32;
        for argument in [0, 8, u64::MAX - 4] {
            assert_eq!(events.keep(wait, argument), Ok(()), "the machine refuses it");
        }
        assert_eq!(events.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_event_is_neither_kept_nor_written() {
        let (events, (reader, writer)) = (Events::default(), io::pipe().expect("a pipe"));
        let writer = OwnedFd::from(writer);
        keep(&events, Number::D3DKMTWaitForSynchronizationObjectFromCpu, &waits_by(&writer));
        assert!(events.0.lock().unwrap().is_empty());
        events.set();
        drop(writer);
        assert_eq!(rustix::io::read(&reader, &mut [0u8; 8]), Ok(0), "the pipe has ended, and nothing is in it");
    }

    #[test]
    fn a_full_event_keeps_nobody() {
        let (events, full) = (Events::default(), eventfd(0, EventfdFlags::CLOEXEC).expect("an event"));
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("written");
        keep(&events, Number::D3DKMTWaitForSynchronizationObjectFromCpu, &waits_by(&full));
        events.set();
        assert!(is_set(&full));
    }
}
