//! Paging queues: the order of residency requests of a device, and the fence that counts them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::vidmm::address_space::{Frames, Protection};
use crate::vidmm::allocation::Allocation;
use crate::vidmm::eviction::{Attempt, Next};
use crate::vidmm::ids::SpaceId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::Memory;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::residency_queue::{QueueFence, ResidencyQueue};
use crate::vidmm::scheduler::{IdlePoint, MemoryOwner};
use crate::vidmm::search::EvictionSearch;
use crate::vidmm::user_mapping::LockedBy;
use nt::bugcheck::Bugcheck;
use nt::page::PAGE_SIZE;

/// Parameter 1 of VIDEO_MEMORY_MANAGEMENT_INTERNAL: a command of the system failed. [debugger: 0x10e]
const SYSTEM_COMMAND_FAILED: u64 = 0x17;
/// The time that a device that has nothing to give back waits for processes that are above their budgets.
const TRIM_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a residency request failed, and by how many bytes the process should shrink.
pub(crate) type Shortage = (NTSTATUS, u64);
/// The same, and which processes should give back how many bytes.
type Refusal = (NTSTATUS, u64, Vec<(SpaceId, u64)>);

impl Memory {
    /// As [`Memory::list_all`]. What is on the residency list of the process already frees nothing for more of it.
    fn make_all_resident(
        &mut self,
        queue: &ResidencyQueue,
        list: &[Arc<Allocation>],
        request: &mut MemoryRequest,
    ) -> Result<u64, Refusal> {
        request.keeps = list.first().map(|allocation| allocation.owner());
        let made = self.list_all(queue, list, request);
        if made.is_ok() {
            list.iter().filter_map(|allocation| allocation.sharing()).for_each(|(sharing, user)| sharing.list(user));
        }
        made
    }

    /// Makes allocations resident, all or none; the answer as for [`VidMm::make_resident`], with the processes that should give back memory, and how much.
    fn list_all(
        &mut self,
        queue: &ResidencyQueue,
        list: &[Arc<Allocation>],
        request: &mut MemoryRequest,
    ) -> Result<u64, Refusal> {
        let before = self.paging.submitted();
        for (done, allocation) in list.iter().enumerate() {
            if let Err(status) = self.make_resident(allocation.id(), request) {
                for other in list.iter().take(done) {
                    self.undo_resident(other.id());
                }
                return Err(match status {
                    STATUS_NO_MEMORY => {
                        let (missing, trims) = self.note_shortage(list, allocation.id());
                        (status, missing, trims)
                    }
                    status => (status, 0, Vec::new()),
                });
            }
        }
        if let Some(allocation) = list.first() {
            self.demands.satisfy(allocation.owner());
            // What a suspended process needs comes back where there is memory for it; else when it is resumed.
            match self.bring_back_space(allocation.owner(), request) {
                Ok(()) | Err(STATUS_NO_MEMORY) => {}
                Err(status) => return Err((status, 0, Vec::new())),
            }
        }
        self.completion_of(queue, list, before).map_err(|status| (status, 0, Vec::new()))
    }

    /// The value of a queue's fence at which a request on these allocations is done that began when `before` packets had been submitted; 0
    /// if it already is. Work of an earlier request on the same allocations counts as well: a value that is handed out stands for all of it.
    ///
    /// # Errors
    /// The fence cannot be signalled.
    pub(crate) fn completion_of(
        &mut self,
        queue: &ResidencyQueue,
        list: &[Arc<Allocation>],
        before: u64,
    ) -> Result<u64, NTSTATUS> {
        let new = self.paging.submitted() != before || self.paging.has_open_work();
        if !new && !list.iter().any(|allocation| self.is_busy(allocation.id())) {
            return Ok(0);
        }
        // Values of a queue come in order, so its own engine writes all of them; what others still do for this one comes first.
        for allocation in list {
            let busy = self.allocations.get(&allocation.id()).and_then(|state| state.busy);
            if let Some(packet) = busy.filter(|packet| packet.engine != queue.engine) {
                self.wait_for(packet)?;
            }
        }
        let value = self.signal(queue)?;
        // A request for the same of them before that waits for their entries too.
        let last = self.paging.last().filter(|_| self.segments.table_work.is_some());
        for allocation in list {
            if let Some(state) = self.allocations.get_mut(&allocation.id()) {
                state.busy = last.or(state.busy);
            }
        }
        Ok(value)
    }

    /// The value of a queue's fence at which the page tables are written that a request changes which began when `before` packets had
    /// been submitted; 0 if they are.
    ///
    /// # Errors
    /// The fence cannot be signalled.
    pub(crate) fn completion_of_entries(&mut self, queue: &ResidencyQueue, before: u64) -> Result<u64, NTSTATUS> {
        if self.segments.table_work.is_none() || (self.paging.submitted() == before && !self.paging.has_open_work()) {
            return Ok(0);
        }
        self.signal(queue)
    }

    /// The next value of a queue's fence, which it has behind everything that was asked of the paging nodes so far. A driver whose version has no operation that writes
    /// a fence is waited for instead, and the answer is 0: all of it is done.
    fn signal(&mut self, queue: &ResidencyQueue) -> Result<u64, NTSTATUS> {
        if !self.driver.signals_fences() {
            self.submit()?;
            self.paging.last().map_or(Ok(()), |packet| self.wait_for(packet))?;
            return Ok(0);
        }
        let mut values = lock(&queue.values);
        queue.note_overshot(&self.driver, &mut values);
        let value = values.last + 1;
        self.signal_fence(queue.engine, queue.page + queue.offset, value)?;
        // Its command may run, also if this cannot be submitted now.
        values.last = value;
        self.submit()?;
        values.note(self.paging.last(), queue.fence.current());
        Ok(value)
    }

    /// The bug check that a driver earns whose commands left out the value of a fence that somebody waits for; only the second look at it counts.
    fn unwritten(&self, queue: &ResidencyQueue) -> Option<Bugcheck> {
        let mut values = lock(&queue.values);
        let (owed, current) = (values.owed.as_mut()?, queue.fence.current());
        let node = self.paging.node()?;
        if owed.value <= current || owed.packet.is_some_and(|packet| !node.is_complete(packet)) {
            return None;
        }
        if !owed.late {
            owed.late = true;
            return None;
        }
        let behind = match owed.packet {
            Some(packet) => {
                format!(
                    "packet {:#x} of the paging node, behind whose commands it belongs, is complete: its commands lack the store, or the GPU was not given the packet \
                     (DxgkDdiSubmitCommandVirtual)",
                    packet.fence
                )
            }
            None => "the driver has put no command into a paging buffer".to_owned(),
        };
        let reason = format!(
            "a fence that somebody waits for was never written: DxgkDdiBuildPagingBuffer was asked for \
             DXGK_OPERATION_SIGNAL_MONITORED_FENCE on engine {}, MonitoredFenceValue {:#x} at MonitoredFenceGpuVa {:#x}, and {behind}; \
             expected is {:#x}, and the fence has {current:#x}",
            queue.engine,
            owed.value,
            queue.page + queue.offset,
            owed.value
        );
        Some(Bugcheck::memory(SYSTEM_COMMAND_FAILED, owed.value, current, queue.engine.into(), reason))
    }
}

impl VidMm {
    /// A queue of `device` on an engine whose requests are counted by `counter`, a fence in system memory at this bus address.
    ///
    /// # Errors
    /// No free range of addresses in the paging process; STATUS_DEVICE_NOT_READY on an adapter that is not started.
    pub(crate) fn create_residency_queue(
        &self,
        device: Arc<dyn MemoryOwner>,
        engine: u32,
        fence: u64,
        counter: Arc<dyn QueueFence>,
    ) -> Result<Arc<ResidencyQueue>, NTSTATUS> {
        let system_space = self.system_space()?;
        let frames = Frames { segment: 0, first: fence / PAGE_SIZE, pages: 1 };
        let page = self.map_frames(&system_space, frames, (0, 0), Protection::ReadWrite)?;
        let queue = Arc::new(ResidencyQueue {
            device,
            engine,
            system_space,
            page,
            offset: fence % PAGE_SIZE,
            fence: counter,
            values: Mutex::default(),
        });
        let mut queues = lock(&self.paging_queues);
        queues.retain(|queue| queue.strong_count() != 0);
        queues.push(Arc::downgrade(&queue));
        drop(queues);
        Ok(queue)
    }

    /// Ends a queue once everything asked of it is done. The fence does not tell: that of a lost device has its last value already, while the paging node is
    /// still about to write it through the page that is unmapped here.
    pub(crate) fn end_residency_queue(&self, queue: &ResidencyQueue) {
        let packet = lock(&queue.values).packet;
        // An error says that the node runs nothing any more, and then the fence says nothing of what it has run.
        if packet.is_some_and(|packet| lock(&self.memory).wait_for(packet).is_ok()) {
            queue.note_overshot(&self.driver, &mut lock(&queue.values));
        }
        self.unmap(&queue.system_space, queue.page);
    }

    fn paging_queues(&self) -> Vec<Arc<ResidencyQueue>> {
        lock(&self.paging_queues).iter().filter_map(Weak::upgrade).collect()
    }

    /// Looks for fences of paging queues that somebody waits for and that nobody will write any more. The machine stops at one. While somebody
    /// works on memory, nothing is found.
    pub(crate) fn look_for_unwritten_fences(&self) {
        let awaited: Vec<_> = self.paging_queues().into_iter().filter(|queue| queue.fence.is_awaited()).collect();
        if awaited.is_empty() {
            return;
        }
        let Some(memory) = self.memory.try_lock() else { return };
        let found = awaited.iter().find_map(|queue| memory.unwritten(queue));
        drop(memory);
        if let Some(bugcheck) = found {
            self.driver.verifier.raise(bugcheck);
        }
    }

    /// Every packet counts as complete without having run: nobody owes a value any more.
    pub(super) fn forget_unwritten_fences(&self) {
        self.paging_queues().iter().for_each(|queue| lock(&queue.values).owed = None);
    }

    /// How much a process whose residency list does not come back has to give up before it may have more; others hear of it.
    fn say_what_is_missing(&self, status: NTSTATUS, list: &[Arc<Allocation>]) -> u64 {
        let Some(first) = list.first().filter(|_| status == STATUS_NO_MEMORY) else { return 0 };
        let (missing, trims) = lock(&self.memory).note_shortage(list, first.id());
        self.ask_to_trim(&trims);
        missing.max(first.size())
    }

    /// Makes allocations resident, all or none. The answer is the value of the queue's fence at which they are, 0 if they already are.
    /// Where memory is short, processes above their budgets are asked to give memory back. A device that `cannot_trim` waits for those that
    /// hear it, and then has others suspended until there is enough.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY with what should be given back first, to a device that `cannot_trim` only when its residency list would not fit
    /// with everybody else away; what stopped the work otherwise.
    pub(crate) fn make_resident(
        &self,
        queue: &ResidencyQueue,
        list: &[Arc<Allocation>],
        cannot_trim: bool,
    ) -> Result<u64, Shortage> {
        let deadline = Instant::now() + TRIM_TIMEOUT;
        let owner = list.first().map(|allocation| allocation.owner());
        let (mut told, mut search, mut working) = (BTreeMap::new(), EvictionSearch::default(), None);
        loop {
            if search.is_queued_behind() && self.may_wait_for_memory() && !queue.device.is_lost() {
                self.pause_for_memory();
                continue;
            }
            let mut memory = lock(&self.memory);
            // The residency list is in memory as a whole, or not at all.
            if working.is_none() && owner.is_some_and(|owner| memory.is_list_away(owner)) {
                drop(memory);
                search.leave_queue();
                let back = queue.device.keep_running(cannot_trim);
                working = Some(back.map_err(|status| (status, self.say_what_is_missing(status, list)))?);
                continue;
            }
            let Attempt { result: made, candidates, idle_soon, ask } =
                memory.attempt(owner, &search, |memory, request| memory.make_all_resident(queue, list, request));
            let fits = made.is_err() && owner.is_some_and(|owner| memory.could_hold(owner, list));
            drop(memory);
            self.report_freed();
            if self.has_asked(&mut search, ask, &*queue.device) {
                continue;
            }
            let (status, missing, trims) = match made {
                Ok(value) => return Ok(self.when_shown(list, value)),
                Err((status, missing, trims)) => (status, missing, trims),
            };
            let candidates = candidates.filter(|_| status == STATUS_NO_MEMORY).unwrap_or_default();
            if self.suspend_idle(&candidates) {
                continue;
            }
            // A process that gives memory back meanwhile is not asked again for what is left of it.
            let is_news = |(process, bytes): &(SpaceId, u64)| told.get(process).is_none_or(|before| before < bytes);
            let news: Vec<(SpaceId, u64)> = trims.into_iter().filter(is_news).collect();
            let heard = self.ask_to_trim(&news);
            told.extend(news.into_iter().filter(|(process, _)| heard.contains(process)));
            if idle_soon && !cannot_trim && search.may_wait_for_idle_queues() && self.may_wait_for_memory() {
                self.pause_for_memory();
                continue;
            }
            if !cannot_trim
                || status != STATUS_NO_MEMORY
                || !fits
                || !self.may_wait_for_memory()
                || queue.device.is_lost()
            {
                return Err((status, missing));
            }
            // Released, so that this process can be suspended for others while it waits.
            working = None;
            if !told.is_empty() && Instant::now() < deadline {
                self.pause_for_memory();
                continue;
            }
            match self.suspend_others(&mut search, &candidates) {
                Next::Again => {}
                Next::Wait => self.pause_for_memory(),
                // It would fit, and no process is left to be suspended: what others hold is just coming or going.
                Next::GiveUp if search.may_wait_for_idle_queues() => self.pause_for_memory(),
                Next::GiveUp => return Err((status, missing)),
            }
        }
    }

    /// Takes allocations off the residency list, all or none. The answer is by how many bytes their process is over its budget still.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if one of them is not on it (as often as it is named).
    pub(crate) fn evict_allocations(&self, list: &[Arc<Allocation>], idle: &IdlePoint) -> Result<u64, NTSTATUS> {
        let mut memory = lock(&self.memory);
        for allocation in list {
            let named = list.iter().filter(|other| other.id() == allocation.id()).count();
            let listed = memory.allocations.get(&allocation.id()).map_or(0, |state| state.listed as usize);
            let by_others = allocation.sharing().is_some_and(|(sharing, user)| !sharing.is_listed(user, named));
            if listed < named || by_others {
                return Err(STATUS_INVALID_PARAMETER);
            }
        }
        for allocation in list {
            let Some((sharing, user)) = allocation.sharing() else {
                memory.leave_list(allocation.id(), idle)?;
                continue;
            };
            sharing.unlist(user, idle);
            let all = sharing.idle_point(None);
            memory.leave_list(allocation.id(), all.as_ref().unwrap_or(idle))?;
        }
        let left = list.first().map_or(0, |allocation| memory.over_budget(allocation.owner()));
        drop(memory);
        self.tell_budgets();
        Ok(left)
    }

    /// True if the bytes of an allocation are in system memory and nothing moves them there, so that the processor reaches them without
    /// the device.
    pub(crate) fn is_in_system_memory(&self, allocation: &Allocation) -> bool {
        lock(&self.memory).is_in_system_memory(allocation.id())
    }

    /// D3DKMTUnlock2 and D3DKMTUnlock: ends a lock of an allocation for each time that it is named, or none. [d3dkmthk: D3DKMTUnlock]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if one is not locked as often.
    pub(crate) fn unlock_allocations(&self, list: &[Arc<Allocation>]) -> Result<(), NTSTATUS> {
        let mut times: HashMap<LockedBy, u32> = HashMap::new();
        list.iter().for_each(|allocation| *times.entry(allocation.locked_by()).or_default() += 1);
        let wanted = |allocation: &Allocation| times.get(&allocation.locked_by()).copied().unwrap_or(0);
        let Ok(_running) = self.enter() else {
            // The adapter has stopped and left the addresses to the process.
            if list.iter().any(|allocation| allocation.kept().locks(allocation.locked_by()) < wanted(allocation)) {
                return Err(STATUS_INVALID_PARAMETER);
            }
            return list.iter().try_for_each(|allocation| allocation.kept().unlock(allocation.locked_by()));
        };
        let mut memory = lock(&self.memory);
        if list.iter().any(|allocation| memory.locks(allocation) < wanted(allocation)) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let unlocked = list.iter().try_for_each(|allocation| match allocation.sharing() {
            Some((sharing, user)) if !sharing.unlock(user) => Err(STATUS_INVALID_PARAMETER),
            _ => memory.unlock(allocation.id(), allocation.kept()),
        });
        drop((memory, _running));
        self.give_addresses_back(list.first().map(|allocation| allocation.kept()));
        unlocked
    }

    /// D3DKMTInvalidateCache. [d3dkmthk: D3DKMTInvalidateCache]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a range that leaves the allocation.
    pub(crate) fn invalidate_cache(&self, allocation: &Allocation, offset: u64, len: u64) -> Result<(), NTSTATUS> {
        lock(&self.memory).invalidate_cache(allocation.id(), offset, len)
    }
}
