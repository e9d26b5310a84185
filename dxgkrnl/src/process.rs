//! Processes: who calls a thunk, and what its handles mean.
//!
//! The thunks take no process argument; a thread says which process it belongs to by [`Process::attach`].

mod devices;
mod kernel_handles;
mod removed;
mod suspension;
mod user_mode;

pub use suspension::Suspensions;
pub(crate) use user_mode::WeakProcess;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nt::lock::{Innermost, Mutex, lock};
use nt::user_space::{ThisProcess, UserSpace, Waiting};
use wddm_ddi::kmt::D3DKMT_SCHEDULINGPRIORITYCLASS;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::account::Quotas;
use crate::adapter::Adapter;
use crate::handles::HandleTable;
use crate::keyed_mutex::OpenKeyedMutex;
use crate::machine::{Machine, Name, WeakAnyProcess, WeakMachine};
use crate::paging_queue::PagingQueue;
use crate::platform::Platform;
use crate::quota::Share;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::rundown::{Inside, Rundown, Used};
use crate::vidmm::{Allocation, BudgetRegistration, Kept, Resource, TrimRegistration, VidMm};
use crate::vidsch::priority::SchedulingClass;
use crate::vidsch::{Device, Doorbell, HwContext, HwQueue, OpenOlderSync, PacketContext, ProcessAdapter, SyncObject};

static IDS: AtomicU64 = AtomicU64::new(0x1000);

thread_local! {
    static CURRENT: RefCell<Vec<Arc<Process>>> = const { RefCell::new(Vec::new()) };
}

/// A user-mode process: a handle table and an address space on each adapter it uses.
pub struct Process {
    id: u64,
    number: u64,
    name: String,
    machine: Platform,
    owner: WeakMachine,
    /// Never held across a DDI, a wait or the destruction of an object.
    handles: Mutex<HandleTable<Object>, rank::Handles>,
    /// Kernel (NT) handles.
    kernel_handles: Mutex<kernel_handles::KernelHandles, rank::KernelHandles>,
    /// Held while the process is created on an adapter.
    adapters: Mutex<Vec<Arc<ProcessAdapter>>, rank::ProcessAdapters>,
    /// Threads in thunks; closed once the process exits.
    inside: Rundown,
    /// The user-mode side of the process.
    user: Arc<dyn UserSpace>,
    quotas: Quotas,
    /// May have its work go before that of others.
    increases_priority: AtomicBool,
    class: Arc<SchedulingClass>,
    /// Held while the priorities of contexts follow the class.
    changing_class: Mutex<(), rank::PriorityClass>,
    /// The last reason for STATUS_DEVICE_REMOVED that the log has of this process.
    told_removed: Mutex<String, Innermost>,
}

/// A handle of an adapter.
pub(crate) struct AdapterOpen {
    /// The adapter; it may have stopped since.
    pub(crate) adapter: Arc<Adapter>,
}

/// Object behind a D3DKMT handle.
#[derive(Clone)]
pub(crate) enum Object {
    Adapter(Arc<AdapterOpen>),
    Device(Arc<Device>),
    PagingQueue(Arc<PagingQueue>),
    Allocation(Arc<Allocation>, Arc<VidMm>),
    Resource(Arc<Resource>),
    PacketContext(Arc<PacketContext>),
    HwContext(Arc<HwContext>),
    HwQueue(Arc<HwQueue>),
    Doorbell(Arc<Doorbell>),
    Sync(Arc<SyncObject>),
    OlderSync(Arc<OpenOlderSync>),
    KeyedMutex(Arc<OpenKeyedMutex>),
    Trim(Arc<TrimRegistration>),
    BudgetChange(Arc<BudgetRegistration>),
}

/// The calling thread runs in a process until this is dropped. Attachments nest, the last one counts.
#[must_use = "the thread leaves the process when this is dropped"]
pub struct Attached {
    /// Belongs to the thread that attached.
    _thread: PhantomData<*const ()>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let left = CURRENT.with_borrow_mut(|stack| stack.pop());
        drop(left);
    }
}

/// No object of this kind has the handle.
fn unknown(handle: D3DKMT_HANDLE, kind: &str) -> Failure {
    refused(STATUS_INVALID_HANDLE, format!("{handle:#x} is the handle of no {kind} of the process"))
}

/// No object of the kind that a thunk destroys has the handle.
fn not_wanted(handle: D3DKMT_HANDLE) -> Failure {
    refused(
        STATUS_INVALID_HANDLE,
        format!("{handle:#x} is the handle of no object of the process that the thunk is for"),
    )
}

macro_rules! getters {
    ($($get:ident = $variant:ident($ty:ty), $kind:literal;)*) => {
        impl Process {
            $(
                /// The object behind a handle of this kind.
                ///
                /// # Errors
                /// STATUS_INVALID_HANDLE for a handle that is stale, unknown or of another kind.
                pub(crate) fn $get(&self, handle: D3DKMT_HANDLE) -> Result<Arc<$ty>, Failure> {
                    match lock(&self.handles).get(handle) {
                        Some(Object::$variant(object, ..)) => Ok(Arc::clone(object)),
                        _ => Err(unknown(handle, $kind)),
                    }
                }
            )*
        }
    };
}

// What bears its destruction by its own locks, or is about to be destroyed.
getters! {
    find_hw_context = HwContext(HwContext), "hardware context";
    find_hw_queue = HwQueue(HwQueue), "hardware queue";
    find_packet_context = PacketContext(PacketContext), "context";
    get_adapter = Adapter(AdapterOpen), "adapter";
    get_allocation = Allocation(Allocation), "allocation";
    get_resource = Resource(Resource), "resource";
    get_doorbell = Doorbell(Doorbell), "doorbell";
    get_sync = Sync(SyncObject), "synchronization object";
    get_older_sync = OlderSync(OpenOlderSync), "synchronization object of the older functions";
    get_keyed_mutex = KeyedMutex(OpenKeyedMutex), "keyed mutex";
}

macro_rules! used_getters {
    ($($get:ident = $variant:ident($ty:ty), $kind:literal;)*) => {
        impl Process {
            $(
                /// The object behind a handle of this kind, which is not destroyed before the answer is dropped. The caller is inside the
                /// power gate, and does not enter it again.
                ///
                /// # Errors
                /// STATUS_INVALID_HANDLE for a handle that is stale, unknown or of another kind, and while the object is destroyed;
                /// STATUS_DEVICE_REMOVED for one that ended with its device.
                pub(crate) fn $get(&self, handle: D3DKMT_HANDLE) -> Result<Used<$ty>, Failure> {
                    match lock(&self.handles).get(handle) {
                        Some(Object::$variant(object)) => Used::new(object),
                        _ => Err(unknown(handle, $kind)),
                    }
                }
            )*
        }
    };
}

used_getters! {
    get_device = Device(Device), "device";
    get_paging_queue = PagingQueue(PagingQueue), "paging queue";
    get_packet_context = PacketContext(PacketContext), "context";
    get_hw_context = HwContext(HwContext), "hardware context";
    get_hw_queue = HwQueue(HwQueue), "hardware queue";
}

/// An object that is out of the table, to be destroyed by the owner of this value. Its device stays until then.
pub(crate) struct Taken {
    pub(crate) object: Object,
    _device: Option<Used<Device>>,
}

impl Taken {
    /// Destroys it.
    pub(crate) fn destroy(self) {
        self.object.destroy();
    }
}

impl Process {
    /// A new process of a machine, with nothing open, whose user-mode side is this program. It ends by [`Process::exit`] or with its last owner.
    pub fn new(machine: &Machine, name: &str) -> Arc<Self> {
        Self::here((machine, name), None)
    }

    /// As [`Process::new`], for the one process that this program is: others find it by the number that the host gave it.
    pub fn of_program(machine: &Machine, name: &str) -> Arc<Self> {
        Self::here((machine, name), Some(std::process::id()))
    }

    fn here(named: (&Machine, &str), number: Option<u32>) -> Arc<Self> {
        let handles = (HandleTable::new(), HandleTable::new());
        Self::with_handles(named, number, Arc::new(ThisProcess), handles, Share::default())
    }

    /// As [`Process::new`], with a user-mode side somewhere else: the program to which the host gave a number, and which has been a process of `earlier` machines before. The handles that it had there are refused.
    pub fn elsewhere(
        machine: &Machine,
        name: &str,
        number: u32,
        user: Arc<dyn UserSpace>,
        earlier: u64,
        share: Share,
    ) -> Arc<Self> {
        let handles = (HandleTable::of_part(earlier), HandleTable::of_part(earlier));
        user.wait_by(Arc::clone(machine.downgrade().gate()) as Arc<dyn Waiting>);
        Self::with_handles((machine, name), Some(number), user, handles, share)
    }

    fn with_handles(
        (machine, name): (&Machine, &str),
        number: Option<u32>,
        user: Arc<dyn UserSpace>,
        (handles, kernel_handles): (HandleTable<Object>, kernel_handles::KernelHandles),
        share: Share,
    ) -> Arc<Self> {
        let id = IDS.fetch_add(4, Ordering::Relaxed);
        let process = Arc::new(Self {
            id,
            number: number.map_or(id, u64::from),
            name: name.to_owned(),
            machine: machine.downgrade(),
            owner: machine.weak(),
            handles: Mutex::new(handles),
            kernel_handles: Mutex::new(kernel_handles),
            adapters: Mutex::new(Vec::new()),
            inside: Rundown::default(),
            increases_priority: AtomicBool::new(false),
            class: Arc::default(),
            changing_class: Mutex::new(()),
            told_removed: Mutex::new(String::new()),
            user,
            quotas: Quotas::of(share),
        });
        let known: WeakAnyProcess = Arc::<Self>::downgrade(&process);
        machine.note_process(process.number, known);
        process
    }

    /// Gives the process the right to increase the priority of its work, SeIncreaseBasePriorityPrivilege: to the focus and the realtime band of every engine, and to the classes above normal.
    pub fn grant_increase_priority(&self) {
        self.increases_priority.store(true, Ordering::Release);
    }

    /// True if the process has the right to increase the priority of its work.
    pub(crate) fn may_increase_priority(&self) -> bool {
        self.increases_priority.load(Ordering::Acquire)
    }

    /// The scheduling priority class of its contexts.
    pub(crate) fn class(&self) -> D3DKMT_SCHEDULINGPRIORITYCLASS {
        self.class.get()
    }

    /// Changes how its contexts stand among those of others, with whatever they have under way.
    ///
    /// # Errors
    /// What a driver answered; the class is what it was then.
    pub(crate) fn set_class(&self, class: D3DKMT_SCHEDULINGPRIORITYCLASS) -> Result<(), Failure> {
        let _changing = lock(&self.changing_class);
        let before = self.class.set(class);
        let told = self.follow_class();
        if told.is_err() {
            self.class.set(before);
            // A driver that refused once more has been told what it knows.
            let _ = self.follow_class();
        }
        told
    }

    fn follow_class(&self) -> Result<(), Failure> {
        let contexts = lock(&self.handles)
            .newest_first(|object, _| matches!(object, Object::HwContext(_) | Object::PacketContext(_)));
        let mut first = Ok(());
        for handle in contexts {
            let object = lock(&self.handles).get(handle).cloned();
            let followed = match object {
                Some(Object::HwContext(context)) => context.follow_class_if_alive(),
                Some(Object::PacketContext(context)) => {
                    context.follow_class();
                    Ok(())
                }
                _ => Ok(()),
            };
            first = first.and(followed);
        }
        first
    }

    /// Counts of the host's resources that the system has taken for it.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// A name that the process gives an object.
    pub(crate) fn named(&self, name: Vec<u16>) -> Name<'_> {
        Name { name, of_process: &self.quotas.names }
    }

    /// Process identifier, unique in this host process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The number by which others find it: that of the host for a program, its identifier for another process. [ntddk: NtOpenProcess]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name it was created with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The machine it runs on.
    pub(crate) fn machine(&self) -> &Platform {
        &self.machine
    }

    /// Its machine, unless that is gone.
    pub(crate) fn whole_machine(&self) -> Option<Machine> {
        self.owner.upgrade()
    }

    /// Makes this the process of the calling thread.
    pub fn attach(self: &Arc<Self>) -> Attached {
        CURRENT.with_borrow_mut(|stack| stack.push(Arc::clone(self)));
        Attached { _thread: PhantomData }
    }

    /// The process of the calling thread.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(|stack| stack.last().cloned())
    }

    /// Number of handles that are open.
    pub fn handle_count(&self) -> usize {
        lock(&self.handles).len()
    }

    /// Gives an object that belongs to no device a handle.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES when the table is full, STATUS_ACCESS_DENIED when the process has exited; the object was not kept.
    pub(crate) fn insert(&self, object: Object) -> Result<D3DKMT_HANDLE, Failure> {
        let mut handles = lock(&self.handles);
        self.check_alive()?;
        handles.insert(object, 0).ok_or(STATUS_INSUFFICIENT_RESOURCES.into())
    }

    /// Gives an object of `device` a handle; it is destroyed with the device at the latest.
    ///
    /// # Errors
    /// As [`Process::insert`]; STATUS_INVALID_HANDLE if the device is being destroyed.
    pub(crate) fn insert_on(&self, device: &Device, object: Object) -> Result<D3DKMT_HANDLE, Failure> {
        let owner = device.handle();
        let mut handles = lock(&self.handles);
        self.check_alive()?;
        if !matches!(handles.get(owner), Some(Object::Device(open)) if std::ptr::eq(&raw const **open, device)) {
            return Err(STATUS_INVALID_HANDLE.into());
        }
        handles.insert(object, owner).ok_or(STATUS_INSUFFICIENT_RESOURCES.into())
    }

    /// Called with the handle table locked: what is inserted before [`Process::exit`] looks at the table is ended by it.
    fn check_alive(&self) -> Result<(), Failure> {
        if self.has_exited() { Err(STATUS_ACCESS_DENIED.into()) } else { Ok(()) }
    }

    /// Takes an object out of the table; its handle is stale from now on.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a handle that is stale or unknown.
    pub(crate) fn remove(&self, handle: D3DKMT_HANDLE) -> Result<Object, Failure> {
        self.remove_if(handle, |_| true)
    }

    /// As [`Process::remove`], only if `wanted` accepts the object (its kind, for example).
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for a handle that is stale, unknown or not wanted.
    pub(crate) fn remove_if(
        &self,
        handle: D3DKMT_HANDLE,
        wanted: impl FnOnce(&Object) -> bool,
    ) -> Result<Object, Failure> {
        let mut handles = lock(&self.handles);
        match handles.get(handle) {
            Some(object) if wanted(object) => handles.remove(handle).ok_or_else(|| not_wanted(handle)),
            _ => Err(not_wanted(handle)),
        }
    }

    /// Takes all these objects, each named once, out of the table, or none of them.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if a handle is stale or unknown.
    pub(crate) fn remove_all(&self, objects: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
        let mut handles = lock(&self.handles);
        if objects.iter().any(|handle| handles.get(*handle).is_none()) {
            return Err(STATUS_INVALID_HANDLE.into());
        }
        let taken: Vec<_> = objects.iter().filter_map(|handle| handles.remove(*handle)).collect();
        drop(handles);
        drop(taken);
        Ok(())
    }

    /// As [`Process::remove_if`], for an object that is destroyed by itself: its device is used until that is done.
    ///
    /// # Errors
    /// As [`Process::remove_if`]; STATUS_INVALID_HANDLE also while the device is destroyed, and the object with it.
    pub(crate) fn take_if(
        &self,
        handle: D3DKMT_HANDLE,
        wanted: impl FnOnce(&Object) -> bool,
    ) -> Result<Taken, Failure> {
        let mut handles = lock(&self.handles);
        let device = match handles.owner(handle).ok_or_else(|| not_wanted(handle))? {
            0 => None,
            owner => match handles.get(owner) {
                Some(Object::Device(device)) => Some(Used::new(device)?),
                _ => return Err(STATUS_INVALID_HANDLE.into()),
            },
        };
        match handles.get(handle) {
            Some(object) if wanted(object) => {
                let object = handles.remove(handle).ok_or_else(|| not_wanted(handle))?;
                Ok(Taken { object, _device: device })
            }
            _ => Err(not_wanted(handle)),
        }
    }

    /// The objects of a device, newest first.
    pub(crate) fn objects_of(&self, device: D3DKMT_HANDLE) -> Vec<D3DKMT_HANDLE> {
        lock(&self.handles).newest_first(|_, owner| owner == device && device != 0)
    }

    /// True if the process has used an adapter before, and the driver knows it.
    pub(crate) fn is_on(&self, adapter: &Arc<Adapter>) -> bool {
        lock(&self.adapters).iter().any(|known| Arc::ptr_eq(&known.adapter, adapter.render()))
    }

    /// This process on each adapter that it has used.
    pub(crate) fn known_adapters(&self) -> Vec<Arc<ProcessAdapter>> {
        lock(&self.adapters).clone()
    }

    /// This process on an adapter, created on the driver at first use.
    ///
    /// # Errors
    /// What the driver answered, or no memory for the page tables; STATUS_DEVICE_REMOVED for an adapter that stopped.
    pub(crate) fn on_adapter(&self, adapter: &Arc<Adapter>) -> Result<Arc<ProcessAdapter>, Failure> {
        let mut adapters = lock(&self.adapters);
        self.check_alive()?;
        if let Some(known) = adapters.iter().find(|known| Arc::ptr_eq(&known.adapter, adapter.render())) {
            return Ok(Arc::clone(known));
        }
        if !adapter.is_running() {
            return Err(STATUS_DEVICE_REMOVED.into());
        }
        let (kmd_process, space) = adapter.vidmm().create_process(self.id, &self.name)?;
        let new = Arc::new(ProcessAdapter {
            adapter: Arc::clone(adapter.render()),
            kmd_process,
            space,
            id: self.id,
            name: self.name.clone(),
            class: Arc::clone(&self.class),
            kept: Arc::new(Kept::new(Arc::clone(&self.user))),
            shared: self.quotas.shared.clone(),
            contexts: self.quotas.hardware(),
            queues: self.quotas.hardware(),
            lingering: Arc::default(),
        });
        adapter.vidsch().note_process(&new);
        adapters.push(Arc::clone(&new));
        Ok(new)
    }

    /// Ends the process: the work of its devices runs out, then devices with everything on them, address spaces, and every other
    /// handle are destroyed. Threads that are still attached get STATUS_ACCESS_DENIED from then on, and those in a thunk leave it before
    /// the process is gone.
    pub fn exit(&self) {
        self.end(|device| device.adapter.vidsch().close_device_of_exit(device));
    }

    /// Ends the process at once: its devices are in error, and no work of theirs is waited for. Everything else as
    /// [`Process::exit`].
    pub fn terminate(&self) {
        self.end(|device| device.adapter.vidsch().abandon_device(device));
    }

    fn end(&self, close: impl Fn(&Arc<Device>)) {
        if !self.inside.close() {
            return;
        }
        if let Some(machine) = self.whole_machine() {
            machine.forget_process(self);
        }
        let powered = self.machine.gate().enter(&self.machine);
        let devices = lock(&self.handles).newest_first(|object, _| matches!(object, Object::Device(_)));
        for handle in devices {
            // Somebody else may have destroyed it meanwhile.
            let _ = self.end_device(handle, &close);
        }
        let rest = lock(&self.handles).newest_first(|_, _| true);
        for handle in rest {
            if let Ok(object) = self.remove(handle) {
                object.destroy();
            }
        }
        self.close_all_kernel();
        for known in self.known_adapters() {
            known.end_waits();
        }
        // A thread that waits for power inside a thunk gets it now, so that it can leave.
        drop(powered);
        self.inside.wait();
        let _powered = self.machine.gate().enter(&self.machine);
        let adapters = std::mem::take(&mut *lock(&self.adapters));
        for known in adapters.into_iter().rev() {
            known.adapter.vidmm().wait_until_asked_nothing(Some(&known.kept));
            known.adapter.vidmm().destroy_process(known.kmd_process, &known.space);
        }
        if let Some(machine) = self.whole_machine() {
            machine.keep_what_is_left_by(&self.quotas);
            machine.end_debug_names(self.id, &self.name);
        }
    }

    /// True once [`Process::exit`] has begun.
    pub(crate) fn has_exited(&self) -> bool {
        self.inside.is_closed()
    }

    /// Threads that are in a thunk at the moment.
    pub fn threads_in_thunks(&self) -> usize {
        self.inside.users()
    }

    /// The calling thread is in a thunk until the answer is dropped; `None` once the process exits.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        self.inside.enter()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.exit();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.id, self.name)
    }
}

impl Object {
    /// Ends the object after its handle is gone. Devices are destroyed by [`Process::destroy_device`].
    pub(crate) fn destroy(self) {
        match self {
            Self::Adapter(_) | Self::Device(_) | Self::Resource(_) => {}
            Self::PagingQueue(queue) => queue.destroy(),
            Self::Allocation(allocation, vidmm) => vidmm.destroy_allocation(&allocation, None),
            Self::PacketContext(context) => context.destroy(),
            Self::HwContext(context) => context.destroy(),
            Self::HwQueue(queue) => queue.destroy(),
            Self::Doorbell(doorbell) => doorbell.destroy(),
            Self::Sync(sync) => sync.destroy(),
            Self::OlderSync(object) => object.destroy(),
            Self::KeyedMutex(mutex) => mutex.destroy(),
            Self::Trim(registration) => registration.end(),
            Self::BudgetChange(registration) => registration.end(),
        }
    }
}
