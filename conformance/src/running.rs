//! The adapter and the process of a running case that calls thunks only.

use std::any::Any;
use std::sync::Arc;

use wddm_ddi::types::LUID;

use crate::Failure;
use crate::kmt::Kmt;
use crate::rig::Rig;

/// Makes the calling thread one of the case's process for as long as the answer lives.
type Enter = Arc<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// A running case over the thunks: the adapter that it is about, and the process in which it runs.
#[derive(Clone)]
pub struct Case {
    luid: LUID,
    enter: Enter,
}

impl Case {
    /// A case about an adapter; `enter` makes a thread one of its process, where a program's threads are not that anyway.
    pub fn new(luid: LUID, enter: Enter) -> Self {
        Self { luid, enter }
    }

    /// The adapter.
    pub fn luid(&self) -> LUID {
        self.luid
    }

    /// The thunks.
    pub fn kmt(&self) -> Kmt {
        Kmt::new()
    }

    /// A new device with nothing between it and the case.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn rig(&self) -> Result<Rig, Failure> {
        Rig::open(self.luid)
    }

    /// Makes the calling thread one of the case's process until the answer is dropped.
    #[must_use]
    pub fn enter(&self) -> Box<dyn Any> {
        (self.enter)()
    }

    /// Runs `work` on another thread of the process and waits for it.
    ///
    /// # Errors
    /// Those of `work`, and its panic.
    pub fn on_thread<T: Send>(&self, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _entered = self.enter();
                work()
            });
            thread.join().unwrap_or_else(|_| Err(Failure::new("the other thread panicked")))
        })
    }
}
