//! An operating system in memory: enough of the thunks for the user-mode driver, stricter than the real one.
//!
//! Each thread has its own. It logs every call, fails the one it is told to, hands out scripted doorbell statuses, complains
//! about wrong handles and wrong order of destruction, and runs submitted commands when somebody waits.
#![allow(dead_code)] // every test file takes its part

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    ffi::c_void,
    ptr::NonNull,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use campanile_hw::{
    private::{AdapterData, AllocationData, DoorbellData, MAGIC, Placement},
    registers::{Caps, INTERFACE_VERSION},
};
use wddm_ddi::{kmt::*, status::*, types::*};

mod gpu;
mod kernel_queue;
mod resource;
mod table;

pub(crate) use table::THUNKS;

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::new(Fake::new());
}

/// Uses this thread's operating system.
pub(crate) fn os<R>(f: impl FnOnce(&mut Fake) -> R) -> R {
    FAKE.with_borrow_mut(f)
}

/// Words of a page.
const WORDS: usize = 512;

/// Page-aligned zeroed memory.
pub(crate) struct Pages {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(4096);
        // SAFETY: a fresh anonymous mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: NonNull::new(start.cast()).expect("not at zero"), bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    /// The 64-bit word at byte `offset`.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.bytes);
        // SAFETY: inside the mapping, aligned; mapped while `self` lives.
        let word = unsafe { self.start.add(offset / 8) };
        // SAFETY: as above.
        unsafe { word.as_ref() }
    }

    pub(crate) fn get(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::SeqCst);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our mapping, used by nobody after this.
        unsafe { libc::munmap(self.address(), self.bytes) };
    }
}

pub(crate) struct Allocation {
    /// Shared by all that have the allocation open.
    pub(crate) memory: Rc<Pages>,
    pub(crate) data: AllocationData,
    pub(crate) resident: u32,
    pub(crate) address: u64,
    pub(crate) protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    pub(crate) locks: u32,
    pub(crate) offered: bool,
    /// Has kernel handles.
    pub(crate) shared: bool,
}

pub(crate) struct HwQueue {
    pub(crate) context: u32,
    pub(crate) user: bool,
    pub(crate) native: bool,
    pub(crate) fence: u32,
    pub(crate) progress: Pages,
}

pub(crate) struct Doorbell {
    pub(crate) queue: u32,
    pub(crate) ring: u32,
    pub(crate) control: u32,
    pub(crate) doorbell: Pages,
    pub(crate) status: Pages,
    pub(crate) last_queued: Pages,
    /// Entries that the GPU has run.
    pub(crate) read: u64,
    /// Offset in the entry's command buffer where a WAIT stands.
    pub(crate) at: u32,
}

/// A fence of either kind.
#[derive(Clone)]
pub(crate) struct AnyFence {
    /// False for a monitored fence.
    pub(crate) native: bool,
    /// Shared by all that have the fence open.
    pub(crate) current: Rc<Pages>,
    /// The value when the operating system looked last.
    pub(crate) whole: Rc<Cell<u64>>,
    pub(crate) address: u64,
    /// Has kernel handles.
    pub(crate) shared: bool,
    pub(crate) may_signal: bool,
    pub(crate) may_wait: bool,
    /// Keeps its value when the device is lost.
    pub(crate) keeps_value: bool,
    /// The number in the private data of its creation.
    pub(crate) purpose: u32,
}

pub(crate) enum Object {
    Adapter,
    Device,
    PagingQueue {
        fence: u32,
        value: Pages,
    },
    Allocation(Allocation),
    Context,
    PacketContext,
    HwQueue(HwQueue),
    Doorbell(Doorbell),
    Fence(AnyFence),
    /// A kernel handle of a fence.
    Kernel(AnyFence),
    /// A kernel handle of a resource.
    KernelResource {
        memory: Rc<Pages>,
        data: AllocationData,
    },
}

/// A wait by event that is not satisfied yet: duplicate of the descriptor, object, value.
struct Armed(i32, u32, u64);

type Hook = Box<dyn FnMut(&mut Fake, &'static str)>;

pub(crate) struct Fake {
    pub(crate) objects: BTreeMap<u32, Object>,
    /// Thunks called, in order.
    pub(crate) calls: Vec<&'static str>,
    /// Broken rules; a test ends with none.
    pub(crate) violations: Vec<String>,
    /// Bytes of the save areas that hardware queues asked for.
    pub(crate) save_sizes: Vec<u32>,
    /// Fail this call, counted from 1 since the test began, with this status.
    pub(crate) fail: Option<(usize, NTSTATUS)>,
    /// Fail every call of this thunk.
    pub(crate) fail_names: Vec<(&'static str, NTSTATUS)>,
    /// Number of a queue with a doorbell that the kernel-mode driver returns in its private data.
    pub(crate) queue_number: Option<u32>,
    /// Nodes that contexts were made on, in order.
    pub(crate) nodes: Vec<u32>,
    /// Priorities that contexts were given, in order.
    pub(crate) priorities: Vec<i32>,
    /// Statuses that the next connections leave; CONNECTED when used up.
    pub(crate) connect: VecDeque<u64>,
    /// True if D3DKMTGetDeviceState reports the device as lost.
    pub(crate) lost: bool,
    /// Paging requests are pending and done when waited for.
    pub(crate) pending: bool,
    /// Waits run the GPU.
    pub(crate) gpu: bool,
    /// Priorities of offers, in order.
    pub(crate) offers: Vec<D3DKMT_OFFER_PRIORITY>,
    /// Result that D3DKMTReclaimAllocations2 reports for offered memory.
    pub(crate) reclaims: D3DDDI_RECLAIM_RESULT,
    pub(crate) adapter: AdapterData,
    /// KMTQAITYPE_WDDM_3_1_CAPS.NativeGpuFenceSupported.
    pub(crate) native: bool,
    /// KMTQAITYPE_WDDM_2_7_CAPS.HwSchEnabled; `None` for an operating system that does not know the question.
    pub(crate) hardware_scheduling: Option<bool>,
    /// Called at every thunk, before it does anything.
    pub(crate) hook: Option<Hook>,
    armed: Vec<Armed>,
    /// Submissions of queues and contexts that are not done.
    kernel_queues: BTreeMap<u32, VecDeque<kernel_queue::Item>>,
    next: u32,
    /// GPU address of the next mapping.
    pub(crate) next_address: u64,
    paging_value: u64,
}

pub(crate) const LUID_OURS: LUID = LUID { LowPart: 7, HighPart: 1 };
/// Another of our adapters, which the listing does not show.
pub(crate) const LUID_TWIN: LUID = LUID { LowPart: 9, HighPart: 0 };
pub(crate) const LUID_OTHER: LUID = LUID { LowPart: 8, HighPart: 0 };
pub(crate) const CONNECTED: u64 = 0;
pub(crate) const NOTIFY: u64 = 1;
pub(crate) const RETRY: u64 = 2;
pub(crate) const ABORT: u64 = 3;

impl Fake {
    pub(crate) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            calls: Vec::new(),
            violations: Vec::new(),
            save_sizes: Vec::new(),
            fail: None,
            fail_names: Vec::new(),
            queue_number: None,
            nodes: Vec::new(),
            priorities: Vec::new(),
            connect: VecDeque::new(),
            lost: false,
            pending: false,
            gpu: true,
            offers: Vec::new(),
            reclaims: D3DDDI_RECLAIM_RESULT::D3DDDI_RECLAIM_RESULT_OK,
            adapter: AdapterData {
                magic: MAGIC,
                version: INTERFACE_VERSION,
                caps: Caps::new().with_native_fence(true).with_atomics64(true).into_bits(),
                doorbells: 4,
                clock_hz: 1_000_000_000,
                vram: 256 << 20,
                features: 3,
            },
            native: true,
            hardware_scheduling: Some(true),
            hook: None,
            armed: Vec::new(),
            kernel_queues: BTreeMap::new(),
            next: 0x4000_0000,
            next_address: 0x10_0000,
            paging_value: 0,
        }
    }

    /// Calls of one thunk so far.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.calls.iter().filter(|call| **call == name).count()
    }

    /// The only doorbell, or the latest.
    pub(crate) fn doorbell(&self) -> &Doorbell {
        let last = self.objects.values().rev().find_map(|object| match object {
            Object::Doorbell(doorbell) => Some(doorbell),
            _ => None,
        });
        last.expect("a doorbell")
    }

    /// The only hardware queue, or the latest.
    pub(crate) fn hw_queue(&self) -> &HwQueue {
        let last = self.objects.values().rev().find_map(|object| match object {
            Object::HwQueue(queue) => Some(queue),
            _ => None,
        });
        last.expect("a queue")
    }

    pub(crate) fn allocation(&self, handle: u32) -> &Allocation {
        match self.objects.get(&handle) {
            Some(Object::Allocation(allocation)) => allocation,
            _ => panic!("no allocation {handle:#x}"),
        }
    }

    /// Memory behind a GPU address: allocation or fence, and the offset in it.
    pub(crate) fn translate(&self, address: u64) -> Option<(&Pages, usize)> {
        self.objects.values().find_map(|object| {
            let (base, memory) = match object {
                Object::Allocation(allocation) => (allocation.address, &*allocation.memory),
                Object::Fence(fence) => (fence.address, &*fence.current),
                _ => return None,
            };
            let offset = address.checked_sub(base)?;
            (base != 0 && offset < memory.bytes() as u64).then_some((memory, offset as usize))
        })
    }

    /// Every allocation, queue and so on is gone, and nobody broke a rule.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{:?}", self.violations);
        let left: Vec<_> = self.objects.iter().map(|(handle, object)| (handle, object.name())).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Entry of every thunk.
    fn enter(&mut self, name: &'static str) -> Result<(), NTSTATUS> {
        self.calls.push(name);
        if let Some(mut hook) = self.hook.take() {
            hook(self, name);
            self.hook = Some(hook);
        }
        if let Some((at, status)) = self.fail
            && at == self.calls.len()
        {
            return Err(status);
        }
        match self.fail_names.iter().find(|(failing, _)| *failing == name) {
            Some((_, status)) => Err(*status),
            None => Ok(()),
        }
    }

    fn insert(&mut self, object: Object) -> u32 {
        self.next += 0x40;
        self.objects.insert(self.next, object);
        self.next
    }

    fn violation(&mut self, text: String) -> NTSTATUS {
        self.violations.push(text);
        STATUS_INVALID_PARAMETER
    }

    /// Removes an object of the right kind.
    fn remove(&mut self, handle: u32, kind: &str) -> NTSTATUS {
        match self.objects.remove(&handle) {
            Some(object) if object.name() == kind => STATUS_SUCCESS,
            Some(object) => self.violation(format!("{} destroyed as {kind}", object.name())),
            None => self.violation(format!("unknown {kind} {handle:#x} destroyed")),
        }
    }

    fn any(&self, test: impl Fn(&Object) -> bool) -> bool {
        self.objects.values().any(test)
    }

    /// Reserves GPU addresses with a hole after them.
    fn reserve(&mut self, bytes: u64) -> u64 {
        let address = self.next_address;
        self.next_address += bytes.next_multiple_of(0x1_0000) + 0x1_0000;
        address
    }

    /// A paging request: its status and fence value.
    fn page(&mut self) -> (NTSTATUS, u64) {
        self.paging_value += 1;
        let (now, value) = (!self.pending, self.paging_value);
        for object in self.objects.values() {
            if let Object::PagingQueue { value: word, .. } = object
                && now
            {
                word.set(0, value);
            }
        }
        if now { (STATUS_SUCCESS, 0) } else { (STATUS_PENDING, value) }
    }

    /// Current value of a fence of any kind.
    fn value(&self, handle: u32) -> Option<u64> {
        self.objects.iter().find_map(|(own, object)| match object {
            Object::Fence(fence) if *own == handle => Some(fence.current.get(0)),
            Object::HwQueue(queue) if queue.fence == handle => Some(queue.progress.get(0)),
            Object::PagingQueue { fence, value } if *fence == handle => Some(value.get(0)),
            _ => None,
        })
    }

    fn wait(&mut self, handle: u32, value: u64, event: HANDLE) -> NTSTATUS {
        if matches!(self.objects.get(&handle), Some(Object::Fence(fence)) if !fence.may_wait) {
            return self.violation(format!("a wait for fence {handle:#x}, which may not be waited for"));
        }
        self.look();
        let Some(mut now) = self.value(handle) else {
            return self.violation(format!("wait for unknown fence {handle:#x}"));
        };
        // A thread that waits for a paging fence finds it signalled.
        for object in self.objects.values() {
            if let Object::PagingQueue { fence, value: word } = object
                && *fence == handle
                && now < value
            {
                word.set(0, value);
                now = value;
            }
        }
        if now < value && self.gpu {
            self.run();
            now = self.value(handle).unwrap_or(0);
        }
        let satisfied = now >= value || self.lost;
        if event.is_null() {
            // Nobody else could satisfy it: a real wait would hang here.
            return if satisfied { STATUS_SUCCESS } else { STATUS_TIMEOUT };
        }
        // SAFETY: takes no pointers.
        let descriptor = unsafe { libc::dup(event.addr() as i32) };
        assert!(descriptor >= 0, "the event is an eventfd");
        let armed = Armed(descriptor, handle, value);
        if satisfied {
            armed.set()
        } else {
            self.armed.push(armed)
        }
        STATUS_SUCCESS
    }

    /// Sets the events of waits that are satisfied now.
    fn wake(&mut self) {
        self.look();
        self.advance();
        let armed = std::mem::take(&mut self.armed);
        for wait in armed {
            if self.value(wait.1).is_some_and(|now| now >= wait.2) { wait.set() } else { self.armed.push(wait) }
        }
    }
}

impl Armed {
    fn set(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of this frame.
        let written = unsafe { libc::write(self.0, (&raw const one).cast(), 8) };
        assert_eq!(written, 8);
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // SAFETY: our duplicate.
        unsafe { libc::close(self.0) };
    }
}

impl Object {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Adapter => "adapter",
            Self::Device => "device",
            Self::PagingQueue { .. } => "paging queue",
            Self::Allocation(_) => "allocation",
            Self::Context => "context",
            Self::PacketContext => "context of packets",
            Self::HwQueue(_) => "queue",
            Self::Doorbell(_) => "doorbell",
            Self::Fence(_) => "fence",
            Self::Kernel(_) | Self::KernelResource { .. } => "kernel handle",
        }
    }
}
