//! The queue of page-table updates of a context: what the paging context that belongs to it is for.
//!
//! Updates of one context are made in the order in which they were asked for. Each waits for a value of a fence first, which the work of the
//! context signals, and then has the fence get the next value, which later work waits for: so an application puts a change of
//! mappings between what it submits. The thread that submits makes the updates that have nothing to wait for; the others are made by a thread of
//! their own, because eviction for page tables may wait for work that the worker of the scheduler moves on. [d3dkmthk: D3DKMTUpdateGpuVirtualAddress]

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::fence::Wait;

use super::fences::batch;
use super::objects::sync_object::is_met;
use super::objects::update_queue::{QUEUED_MAX, Request, UpdateQueue};

impl UpdateQueue {
    /// Waits until no more is queued than may be when another request comes.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a context that is gone; why the device is lost.
    pub(crate) fn wait_for_space(&self) -> Result<(), NTSTATUS> {
        let space = Wait::of_thread(1);
        {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(STATUS_INVALID_HANDLE);
            }
            if state.queued <= QUEUED_MAX {
                return Ok(());
            }
            state.held.add_waiter(&space);
        }
        let lost = || self.device.check().err();
        let status = space.block(None, |nap| lost().or_else(|| self.sch().pause(nap)));
        lock(&self.state).held.remove_waiter(&space);
        status.ok()
    }

    /// Adds a request, and makes those that have nothing to wait for. False, and nothing is added, if too much is queued by now.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a context that is gone; why the fence is ended.
    pub(crate) fn submit(&self, request: Request) -> Result<bool, NTSTATUS> {
        request.fence.check()?;
        {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(STATUS_INVALID_HANDLE);
            }
            if state.queued > QUEUED_MAX {
                return Ok(false);
            }
            let changes = request.update.len();
            state.held.push(request)?;
            state.queued += changes;
        }
        self.advance();
        Ok(true)
    }

    /// Makes requests up to the first that must wait.
    fn advance(&self) {
        while let Some(request) = self.next() {
            let made = self.device.adapter.vidmm().update_gpu_address(
                &self.device.process.space,
                self.engine,
                &request.update,
            );
            if made.is_ok() {
                // Fails when the fence was closed meanwhile; nobody is left who could see its value here.
                let _ = batch::signal(&[(request.fence, request.value + 1)], true);
            }
            let mut state = lock(&self.state);
            state.busy = false;
            state.queued -= request.update.len();
            state.release_waiters();
            drop(state);
            if made == Err(STATUS_NO_MEMORY) {
                // Work behind it would find other mappings than it was made for.
                self.sch().starve_device(&self.device);
            }
        }
    }

    /// The request that is to be made now, by the caller.
    fn next(&self) -> Option<Request> {
        let mut state = lock(&self.state);
        if state.closed || self.device.error().is_some() {
            state.drop_held();
            return None;
        }
        if state.busy {
            return None;
        }
        let waited = state.held.end_wait()?;
        let first = state.held.first()?;
        let condition = [(Arc::clone(&first.fence), first.value)];
        if !waited && !first.at_once && !is_met(&condition, false) {
            let (sch, this) = (Arc::downgrade(self.sch()), Weak::clone(&self.this));
            state.held.wait_for(condition.to_vec(), move || {
                if let Some(sch) = sch.upgrade() {
                    sch.updates.add(Weak::clone(&this));
                }
            });
            return None;
        }
        state.busy = true;
        state.held.pop()
    }

    /// The context is about to go, its work is done: makes the requests whose waits that has ended, and drops the others.
    pub(super) fn close(&self) {
        self.advance();
        let wait = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.drop_held();
            state.held.take_hold()
        };
        if let Some(wait) = wait {
            wait.cancel();
        }
    }
}

/// The thread that makes requests that had to wait.
pub(super) fn run(receive: &Receiver<Weak<UpdateQueue>>) {
    while let Ok(queue) = receive.recv() {
        let Some(queue) = queue.upgrade() else { continue };
        let machine = &queue.device.adapter.machine;
        let _powered = machine.gate().enter(machine);
        queue.advance();
    }
}
