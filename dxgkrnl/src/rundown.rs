//! Run-down protection: what a handle stands for is not destroyed under a thread that uses it.
//!
//! The pages do not let a DDI be called on an object that the driver was told the end of; the table in docs/threading.md says which calls the
//! rule excludes. Whoever is about to call a DDI on an object uses it by a [`Used`]; whoever destroys it closes its [`Rundown`], which refuses
//! new users, releases the threads that wait for something that will not come any more, and waits until no thread is inside before the driver is told.
//!
//! A device is used by everything that is created on it or destroyed on its own, a context by whoever makes a queue, and so on down: an
//! object is destroyed after everything below it. So a thread that uses an object needs not use what is above it.
//!
//! [`Rundown::wait`] is called with no lock held that a user takes.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use nt::lock::{Condvar, Mutex, lock};
use wddm_ddi::status::*;

use crate::rank;
use crate::refusal::Failure;

thread_local! {
    /// Run-downs of the objects that this thread uses at the moment.
    static INSIDE: RefCell<Vec<*const Rundown>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Default)]
struct State {
    users: usize,
    closed: bool,
}

/// Number of threads that use an object, and whether it may still be used.
#[derive(Debug, Default)]
pub(crate) struct Rundown {
    state: Mutex<State, rank::Rundown>,
    empty: Condvar,
}

impl Rundown {
    /// Somebody more is inside, until the answer is dropped; `None` once it is closed.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        self.count_in().then_some(Inside(self))
    }

    fn count_in(&self) -> bool {
        let mut state = lock(&self.state);
        state.users += usize::from(!state.closed);
        !state.closed
    }

    fn count_out(&self) {
        let mut state = lock(&self.state);
        state.users = state.users.saturating_sub(1);
        if state.users == 0 && state.closed {
            self.empty.notify_all();
        }
    }

    /// Refuses new users; false if that was so already.
    pub(crate) fn close(&self) -> bool {
        self.close_if(|| true)
    }

    /// As [`Rundown::close`] if `may`; false if it may not, or was closed already. Nobody enters between the question and the answer.
    pub(crate) fn close_if(&self, may: impl FnOnce() -> bool) -> bool {
        let mut state = lock(&self.state);
        let closes = !state.closed && may();
        state.closed |= closes;
        closes
    }

    /// Admits users again: what it was closed for does not happen. Nobody waits for those inside meanwhile.
    pub(crate) fn reopen(&self) {
        lock(&self.state).closed = false;
    }

    /// The number of threads that use the object at the moment.
    pub(crate) fn users(&self) -> usize {
        lock(&self.state).users
    }

    /// True once new users are refused.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Waits until nobody is inside. It is closed, and the caller is not inside.
    pub(crate) fn wait(&self) {
        debug_assert!(!INSIDE.with_borrow(|inside| inside.contains(&std::ptr::from_ref(self))), "waits for itself");
        let mut state = lock(&self.state);
        debug_assert!(state.closed);
        while state.users != 0 {
            state = self.empty.wait(state);
        }
    }
}

/// Somebody is inside a [`Rundown`] until this is dropped.
pub(crate) struct Inside<'a>(&'a Rundown);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.count_out();
    }
}

/// True if the calling thread uses an object, so that its destruction waits for the thread.
pub(crate) fn is_inside() -> bool {
    INSIDE.with_borrow(|inside| !inside.is_empty())
}

/// An object that is destroyed in order.
pub(crate) trait Destroyed {
    /// Counts the threads that use the object, and refuses new ones once it is being destroyed.
    fn rundown(&self) -> &Rundown;

    /// True if it ended with its device or adapter, while its handle is still there.
    fn is_of_lost_device(&self) -> bool;
}

/// An object that is not destroyed before this is dropped.
pub(crate) struct Used<T: Destroyed> {
    object: Arc<T>,
    /// A thread is inside, not an object.
    _thread: PhantomData<*const ()>,
}

impl<T: Destroyed> Used<T> {
    /// Uses an object.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for one whose destruction has begun; STATUS_DEVICE_REMOVED for one that ended with its device.
    pub(crate) fn new(object: &Arc<T>) -> Result<Self, Failure> {
        if !object.rundown().count_in() {
            return Err(if object.is_of_lost_device() {
                STATUS_DEVICE_REMOVED.into()
            } else {
                STATUS_INVALID_HANDLE.into()
            });
        }
        INSIDE.with_borrow_mut(|inside| inside.push(object.rundown()));
        Ok(Self { object: Arc::clone(object), _thread: PhantomData })
    }

    /// Lets go of it: for what bears its destruction, such as a wait that this ends.
    pub(crate) fn let_go(self) -> Arc<T> {
        Arc::clone(&self.object)
    }
}

impl<T: Destroyed> Deref for Used<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.object
    }
}

impl<T: Destroyed> Drop for Used<T> {
    fn drop(&mut self) {
        let left: *const Rundown = self.object.rundown();
        self.object.rundown().count_out();
        INSIDE.with_borrow_mut(|inside| {
            let place = inside.iter().rposition(|other| *other == left);
            place.map(|place| inside.swap_remove(place))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[derive(Default)]
    struct Object(Rundown);

    impl Destroyed for Object {
        fn rundown(&self) -> &Rundown {
            &self.0
        }

        fn is_of_lost_device(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_closed_object_is_refused_and_closed_once() {
        let object = Arc::new(Object::default());
        assert!(!object.0.close_if(|| false));
        let used = Used::new(&object).unwrap();
        assert!(is_inside());
        assert!(object.0.close());
        assert!(!object.0.close());
        assert!(object.0.is_closed());
        assert_eq!(Used::new(&object).err(), Some(STATUS_INVALID_HANDLE.into()));
        drop(used);
        assert!(!is_inside());
        object.0.wait();
    }

    #[test]
    fn who_destroys_waits_for_who_is_inside() {
        let object = Arc::new(Object::default());
        let left = AtomicBool::new(false);
        let used = Used::new(&object).unwrap();
        object.0.close();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                object.0.wait();
                left.load(Ordering::SeqCst)
            });
            // However late the waiter comes, or however early: it returns after this.
            std::thread::sleep(Duration::from_millis(5));
            left.store(true, Ordering::SeqCst);
            drop(used);
            assert!(waiter.join().unwrap());
        });
    }
}
