//! What is open of a fence is closed, and the waits that were made through it end.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use nt::lock::lock;
use wddm_ddi::status::STATUS_CANCELLED;
use wddm_ddi::status::*;

use crate::fence::Wait;

use super::native_fence;
use crate::vidsch::objects::fence::{Fence, SyncObject};
use crate::vidsch::objects::process_adapter::ProcessAdapter;

fn release(waiters: &[Weak<Wait>], status: NTSTATUS) {
    for wait in waiters.iter().filter_map(Weak::upgrade) {
        wait.finish(status);
    }
}

impl SyncObject {
    /// Nobody can wait through this instance any more; its waiters are released with `status`. Others still wait.
    pub(in crate::vidsch) fn end(&self, status: NTSTATUS) {
        let waiters = {
            let mut state = lock(&self.state);
            state.ended.get_or_insert(status);
            std::mem::take(&mut state.waiters)
        };
        release(&waiters, status);
        self.fence.remove_over();
    }

    /// Nobody can wait through this instance any more; its waiters still wait.
    fn leave_waiters(&self) {
        let waiters = {
            let mut state = lock(&self.state);
            state.ended.get_or_insert(STATUS_CANCELLED);
            std::mem::take(&mut state.waiters)
        };
        if !self.lingering.add(self.fence.system(), &waiters) {
            release(&waiters, STATUS_CANCELLED);
        }
    }

    /// Closes the fence here, and destroys it if nothing else refers to it; whoever waits through this instance is released
    /// with STATUS_CANCELLED, unless waiters stay: those are when the fence is destroyed, or with their process. Once is enough.
    pub(crate) fn destroy(&self) {
        if self.waiters_stay.load(Ordering::Acquire) {
            self.leave_waiters();
        }
        self.end(STATUS_CANCELLED);
        if let Some(name) = self.name.get() {
            self.fence.sch().names.forget(*name);
        }
        // A thread that finds it closed has waited here for the one who closed it.
        self.fence.close(|| {
            let Some(view) = lock(&self.view).take() else { return false };
            if let Some(local) = self.local {
                native_fence::close(self.fence.sch(), self.fence.adapter(), local);
            }
            drop(view);
            true
        });
    }
}

impl Fence {
    /// The adapter stops: the fence leaves the driver whatever kernel handles there are. They can be closed later.
    pub(in crate::vidsch) fn abandon(&self) {
        for open in self.opened() {
            open.end(STATUS_DEVICE_REMOVED);
            open.destroy();
        }
        // Waits of those who have closed it end, too.
        self.end(STATUS_DEVICE_REMOVED);
        let _opens = lock(&self.opens);
        self.destroy();
    }
}

impl ProcessAdapter {
    /// The process ends: nobody of it waits any more for a fence that it has closed.
    pub(crate) fn end_waits(&self) {
        let waits = {
            let mut state = lock(&self.lingering.0);
            state.ended = true;
            std::mem::take(&mut state.waits)
        };
        for (fence, wait) in waits {
            if let Some(wait) = wait.upgrade() {
                wait.finish(STATUS_CANCELLED);
            }
            if let Some(fence) = self.adapter.vidsch().fences.get(fence.raw()) {
                fence.remove_over();
            }
        }
    }
}
