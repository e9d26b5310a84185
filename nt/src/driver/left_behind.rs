//! What a driver leaves behind: in memory that it frees, and when it is unloaded. Each finding has the documented bug check, and the place in the driver where
//! what is left was begun. [debugger: 0xc4, 0xc7, 0xce, 0xe4]

use std::ffi::c_void;
use std::fmt::Write as _;
use std::ops::Range;

use super::Driver;
use crate::bugcheck::Bugcheck;
use crate::deferred::{Pending, Routine};
use crate::pool::{Misuse, tag_name};
use crate::unwind::Frames;

/// Values of parameter 1 of DRIVER_VERIFIER_DETECTED_VIOLATION. [debugger: 0xc4]
const POOL_LEFT: u64 = 0x62;
const LOOKASIDE_LIST_IN_FREED_POOL: u64 = 0xcc;
const RESOURCE_IN_FREED_POOL: u64 = 0xd2;
const PROVIDER_LEFT: u64 = 0xdd;
/// Values of parameter 1 of TIMER_OR_DPC_INVALID, and of WORKER_INVALID. [debugger: 0xc7, 0xe4]
const TIMER: u64 = 0;
const DPC: u64 = 1;
const ITEM_IN_FREED_POOL: u64 = 0;
/// Parameter 2 of DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS: the memory would be read. [debugger: 0xce]
const READ: u64 = 0;

impl Driver {
    /// ExFreePoolWithTag, of a block in which nothing is that the kernel will still use.
    pub fn free_pool(&self, block: *mut c_void, tag: u32) -> Result<(), Bugcheck> {
        if let Some(range) = self.pool().block_at(block.addr()) {
            self.check_freed(&range)?;
        }
        self.pool().free_block(block, tag).map_err(|misuse| self.told(misuse))
    }

    /// MmFreeContiguousMemory, which the instruction at `from` calls.
    pub(crate) fn free_contiguous(&self, address: usize, from: usize) -> Result<(), Bugcheck> {
        self.contiguous().release(address, from).map_err(|misuse| match misuse.bugcheck.code {
            // The place is that where the block was freed first.
            Bugcheck::BAD_POOL_CALLER => {
                let since = self.begun(misuse.from[0]);
                Bugcheck { reason: format!("{}{since}", misuse.bugcheck.reason), ..misuse.bugcheck }
            }
            _ => self.told(misuse),
        })
    }

    /// The bug check for a misuse of pool, with the place where the block was asked for.
    fn told(&self, Misuse { mut bugcheck, from }: Misuse) -> Bugcheck {
        if let Some(place) = self.place_of(from) {
            bugcheck.reason = format!("{}; the block was asked for in {place}", bugcheck.reason);
        }
        bugcheck
    }

    /// What was written beside blocks of its pool that are in use, in words; nothing if all are whole.
    pub(crate) fn damage_of_pool(&self) -> Option<String> {
        let bugcheck = self.told(self.pool().check().err()?);
        Some(bugcheck.reason)
    }

    /// Fails with a bug check if the block of pool that is about to be freed contains an object that the kernel still uses.
    fn check_freed(&self, range: &Range<usize>) -> Result<(), Bugcheck> {
        let [start, end, size] = [range.start, range.end, range.len()].map(|number| number as u64);
        let of = |what: &str| format!("pool block {start:#x} of {size} bytes is freed, which contains {what}");
        let violation = |kind, at: usize| {
            let parameters = [kind, at as u64, start, size];
            move |reason| Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason)
        };
        let pending = self.deferred().lock().pending_in(range);
        match pending {
            Some((Pending::Timer(timer), from)) => {
                let reason = of(&format!("timer {timer:#x}, which is set{}", self.begun(from)));
                let parameters = [TIMER, timer as u64, start, end];
                return Err(Bugcheck::new(Bugcheck::TIMER_OR_DPC_INVALID, parameters, reason));
            }
            Some((Pending::Dpc(dpc), from)) => {
                let reason = of(&format!("DPC {dpc:#x}, which is in the queue{}", self.begun(from)));
                return Err(Bugcheck::new(Bugcheck::TIMER_OR_DPC_INVALID, [DPC, dpc as u64, start, end], reason));
            }
            // One of IoAllocateWorkItem is freed by IoFreeWorkItem, which has a rule of its own.
            Some((Pending::WorkItem(item), from)) => {
                let reason = of(&format!("work item {item:#x}, which is in the queue{}", self.begun(from)));
                let parameters = [ITEM_IN_FREED_POOL, item as u64, start, end];
                return Err(Bugcheck::new(Bugcheck::WORKER_INVALID, parameters, reason));
            }
            None => {}
        }
        if let Some((resource, from)) = self.resources().first_in(range) {
            let reason = of(&format!("executive resource {resource:#x}, which is not deleted{}", self.begun(from)));
            return Err(violation(RESOURCE_IN_FREED_POOL, resource)(reason));
        }
        if let Some((list, from)) = self.lookaside_lists().first_in(range) {
            let reason = of(&format!("lookaside list {list:#x}, which is not deleted{}", self.begun(from)));
            return Err(violation(LOOKASIDE_LIST_IN_FREED_POOL, list)(reason));
        }
        Ok(())
    }

    /// Where something was begun, in words; empty if that is not known.
    fn begun(&self, from: usize) -> String {
        self.place(from).map_or_else(String::new, |place| format!(" since {place}"))
    }

    /// Raises a bug check for every resource that the unloaded driver has not released.
    pub fn check_unloaded(&self) {
        self.check_deferred();
        if let Err(misuse) = self.pool().settle() {
            self.verifier().raise(self.told(misuse));
        }
        self.check_objects();
        self.check_counted();
        self.check_pool();
    }

    /// The bug check with its first parameters, of something that was begun at an instruction.
    fn left(&self, code: u32, parameters: [u64; 4], from: usize, what: &str) {
        self.left_from(code, parameters, [from, 0, 0], what);
    }

    /// The same, with the callers.
    fn left_from(&self, code: u32, parameters: [u64; 4], from: Frames, what: &str) {
        let reason = format!("driver {} was unloaded with {what}", self.name());
        self.verifier().raise(Bugcheck::new(code, parameters, reason).at(self.place_of(from)));
    }

    /// The addresses that a bug check names as those that were looked through: of the block of pool that something is in, else of the image.
    fn looked_through(&self, address: usize) -> [u64; 2] {
        let image = || self.image().map(|loaded| loaded.image.base()..loaded.image.base() + loaded.image.size());
        let range = self.pool().block_of(address).or_else(image).unwrap_or_default();
        [range.start as u64, range.end as u64]
    }

    /// Deferred work would run in the unloaded image.
    fn check_deferred(&self) {
        let state = self.deferred().lock();
        let pending = state.pending_in(&(0..usize::MAX));
        let threads = state.threads.len();
        let (routine, handles) = (state.threads.values().next().copied(), state.open_handles());
        let references = state.references();
        drop(state);
        match pending {
            Some((Pending::Timer(timer), from)) => {
                let [start, end] = self.looked_through(timer);
                let what = format!("timer {timer:#x} set, which was done");
                self.left(Bugcheck::TIMER_OR_DPC_INVALID, [TIMER, timer as u64, start, end], from, &what);
            }
            Some((Pending::Dpc(dpc), from)) => {
                let [start, end] = self.looked_through(dpc);
                let what = format!("DPC {dpc:#x} in the queue, where it was put");
                self.left(Bugcheck::TIMER_OR_DPC_INVALID, [DPC, dpc as u64, start, end], from, &what);
            }
            Some((Pending::WorkItem(_), _)) | None => {}
        }
        if let Some(Routine { kind, address }) = routine {
            let what =
                format!("{threads} thread(s) or work item(s) running, of which the first is {kind} with the routine");
            let code = Bugcheck::DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS;
            self.left(code, [address as u64, READ, address as u64, 0], address, &what);
        }
        if handles != 0 {
            self.leaked(handles as u64, 0, &format!("{handles} handle(s) of threads open"));
        }
        if references != 0 {
            // Nothing of the image is used by them: the objects stay, as on Windows, where nobody counts them either.
            let name = self.name();
            let told = format!(
                "driver {name} was unloaded with {references} reference(s) of ObReferenceObjectByHandle to thread objects, which stay: ObDereferenceObject gives one up"
            );
            self.verifier().log(told);
        }
    }

    /// Objects that are in lists of the kernel, which would be followed into memory that is not there any more.
    fn check_objects(&self) {
        let code = Bugcheck::DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS;
        let all = 0..usize::MAX;
        if let Some((list, from)) = self.lookaside_lists().first_in(&all) {
            let count = self.lookaside_lists().count();
            let what = format!("{count} lookaside list(s) not deleted, of which {list:#x} was initialised");
            self.left(code, [list as u64, READ, 0, 0], from, &what);
        }
        if let Some((resource, from)) = self.resources().first_in(&all) {
            let count = self.resources().count();
            let what = format!("{count} executive resource(s) not deleted, of which {resource:#x} was initialised");
            self.left(code, [resource as u64, READ, 0, 0], from, &what);
        }
        let callbacks = self.bug_check_callbacks();
        if let Some(callback) = callbacks.first() {
            let count = callbacks.len();
            let what = format!("{count} bug check callback(s) registered, of which the first has the routine");
            let parameters = [callback.record as u64, READ, callback.routine as u64, 0];
            self.left(code, parameters, callback.routine, &what);
        }
        let providers = self.etw().registered();
        if providers != 0 {
            // A session that ends would call back into an image that is not there any more.
            let base = self.image().map_or(0, |loaded| loaded.image.base() as u64);
            let what = format!("{providers} ETW provider(s) registered");
            let parameters = [PROVIDER_LEFT, 0, base, 0];
            self.left(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, 0, &what);
        }
    }

    /// Memory that devices reach, and handles of the registry.
    fn check_counted(&self) {
        if let Err(misuse) = self.contiguous().check() {
            self.verifier().raise(self.told(misuse));
        }
        let (contiguous, from) = self.contiguous().outstanding();
        if contiguous != 0 {
            let what = format!("{contiguous} block(s) of contiguous memory, of which the first was asked for");
            self.leaked(contiguous as u64, from, &what);
        }
        let (listed, from) = self.listed_blocks();
        if listed != 0 {
            let what = format!("{listed} block(s) of pages of MmAllocatePagesForMdlEx, of which one was asked for");
            self.leaked(listed as u64, from, &what);
        }
        let keys = self.keys().count();
        if let Some((key, from)) = self.keys().first() {
            let name = key.name();
            self.leaked(
                keys as u64,
                from,
                &format!("{keys} key(s) of the registry open, of which '{name}' was opened"),
            );
        }
    }

    fn check_pool(&self) {
        let outstanding = self.pool().outstanding();
        let Some(first) = outstanding.keys().next() else { return };
        let from = self.pool().origin(*first);
        let mut what = "pool that is not freed:".to_owned();
        for (number, (tag, (bytes, blocks))) in outstanding.iter().enumerate() {
            // Of the first tag the bug check has the place.
            let place = if number == 0 { None } else { self.place_of(self.pool().origin(*tag)) };
            let place = place.map_or_else(String::new, |place| format!(", one of them asked for in {place}"));
            let comma = if number == 0 { "" } else { "," };
            // A string takes all that is written to it.
            let _ = write!(what, "{comma} '{}' {bytes} bytes in {blocks} blocks{place}", tag_name(*tag));
        }
        if self.place_of(from).is_some() {
            let _ = write!(what, "; one with tag '{}' was asked for", tag_name(*first));
        }
        let blocks = outstanding.values().map(|(_, blocks)| blocks).sum();
        let parameters = [POOL_LEFT, self.name_address(), 0, blocks];
        self.left_from(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, from, &what);
    }

    /// So many of what is left, of which one was begun at an instruction.
    fn leaked(&self, count: u64, from: usize, what: &str) {
        let parameters = [POOL_LEFT, self.name_address(), 0, count];
        self.left(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, from, what);
    }
}
