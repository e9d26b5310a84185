//! What processes of a machine find by a name, or by a handle that every process knows.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::account::{Account, Charge};
use crate::fence::Rights;
use crate::keyed_mutex::KeyedMutex;
use crate::quota::{KnownPlace, KnownQuota};
use crate::refusal::{Failure, refused};
use crate::vidmm::SharedResource;
use crate::vidsch::{OlderSync, OlderSyncHandle, SharedFence};

use super::Machine;

/// Most names, and most handles that every process knows.
const MAX: usize = 1 << 16;

/// A name that a process gives an object.
pub(crate) struct Name<'a> {
    pub(crate) name: Vec<u16>,
    /// The names that the process has given.
    pub(crate) of_process: &'a KnownQuota,
}

/// An object with a name.
enum Named {
    /// A fence, and what its sharer may do with it.
    Fence(Weak<SharedFence>, Rights),
    /// The resource as a kernel handle has it, with which the name goes.
    Resource(Weak<ResourceHandle>),
    /// A mutex, a semaphore or a fence without an address.
    OlderSync(Weak<OlderSyncHandle>),
}

/// A process, which is a `Process` of the module above this one.
pub(crate) type WeakAnyProcess = Weak<dyn Any + Send + Sync>;

/// Object behind a shared NT handle.
#[derive(Clone)]
pub(crate) enum KernelObject {
    /// A fence, and the rights of those that open it by the handle; or why nobody does.
    SharedFence(Arc<SharedFence>, Result<Rights, Failure>),
    OlderSync(Arc<OlderSyncHandle>),
    /// A resource, and the access that the handle grants to it and what is shared with it.
    SharedResource(Arc<ResourceHandle>, u32),
    /// A process, and the rights of the handle's owner.
    Process(WeakAnyProcess, u32),
}

/// A shared resource as kernel handles have it. A name goes with the last of them.
pub(crate) struct ResourceHandle {
    pub(crate) resource: Arc<SharedResource>,
    /// Who shared it may only read it, and so may everybody who opens it by the handle.
    pub(crate) read_only: bool,
    pub(crate) together: Option<Together>,
}

/// What is shared with a resource, so that one handle opens all. [d3dkmthk: D3DKMTShareObjects]
pub(crate) struct Together {
    pub(crate) mutex: Arc<KeyedMutex>,
    pub(crate) sync: SharedSync,
}

/// A synchronization object that is shared.
pub(crate) enum SharedSync {
    /// A fence with an address, and what its sharer may do with it.
    Fence(Arc<SharedFence>, Rights),
    /// One of before monitored fences.
    Older(Arc<OlderSyncHandle>),
}

impl KernelObject {
    /// Charges a process for all that the system keeps while the process has a handle of it.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process has as many such objects as it may have.
    pub(crate) fn charge(&self, process: &Account) -> Result<Vec<Charge>, Failure> {
        let fence = |shared: &SharedFence| shared.upkeep().map(|upkeep| process.charge(&upkeep));
        let older = |object: &OlderSyncHandle| object.0.upkeep().map(|upkeep| process.charge(upkeep));
        let charges: Vec<_> = match self {
            Self::SharedFence(shared, _) => fence(shared).into_iter().collect(),
            Self::OlderSync(object) => older(object).into_iter().collect(),
            Self::SharedResource(shared, _) => {
                let resource = [process.charge(&shared.resource.data.upkeep)].into_iter();
                let mutex = shared.together.iter().map(|Together { mutex, .. }| process.charge(mutex.upkeep()));
                let sync = shared.together.iter().filter_map(|Together { sync, .. }| match sync {
                    SharedSync::Fence(shared, _) => fence(shared),
                    SharedSync::Older(object) => older(object),
                });
                resource.chain(mutex).chain(sync).collect()
            }
            Self::Process(..) => Vec::new(),
        };
        let why = "the process has as many objects that are shared, or descriptors of the machine, as it may have";
        charges.into_iter().collect::<Result<_, _>>().map_err(|status| refused(status, why))
    }
}

impl Named {
    fn is_open(&self) -> bool {
        match self {
            Self::Fence(fence, _) => fence.strong_count() > 0,
            Self::Resource(resource) => resource.strong_count() > 0,
            Self::OlderSync(object) => object.strong_count() > 0,
        }
    }
}

/// Objects by the handle that every process knows, and the number that was given out last.
type Handles<T> = (u32, HashMap<u32, Weak<T>>);

type Globals<T> = Mutex<Handles<T>>;

/// No shared object has the name.
fn nobodys(name: &[u16]) -> Failure {
    let why = format!("the name {:?} is that of no shared object", String::from_utf16_lossy(name));
    refused(STATUS_OBJECT_NAME_NOT_FOUND, why)
}

/// The object with a handle that every process knows.
fn of_global_handle<T>((_, objects): &Handles<T>, handle: u32, kind: &str) -> Result<Arc<T>, Failure> {
    let why = || refused(STATUS_INVALID_PARAMETER, format!("the shared handle {handle:#x} is that of no {kind}"));
    objects.get(&handle).and_then(Weak::upgrade).ok_or_else(why)
}

/// A number that no handle of a process is; free ones come again after very many. The lowest bits tell kinds of objects apart.
///
/// # Errors
/// STATUS_INSUFFICIENT_RESOURCES for one too many.
fn global_handle<T>((last, objects): &mut Handles<T>, kind: u32) -> Result<u32, Failure> {
    objects.retain(|_, object| object.strong_count() > 0);
    if objects.len() >= MAX {
        return Err(refused(STATUS_INSUFFICIENT_RESOURCES, "there are too many handles that every process knows"));
    }
    loop {
        *last = last.wrapping_add(1) & 0x00ff_ffff;
        let handle = 0xc000_0000 | *last << 6 | kind;
        if !objects.contains_key(&handle) {
            return Ok(handle);
        }
    }
}

/// Names, and handles that every process knows.
#[derive(Default)]
pub(super) struct Shared {
    /// As long as a kernel handle of the object is open.
    names: Mutex<HashMap<Vec<u16>, (Named, KnownPlace)>>,
    keyed_mutexes: Globals<KeyedMutex>,
    resources: Globals<SharedResource>,
    older_syncs: Globals<OlderSync>,
    /// Those that have not ended, by number, oldest first.
    processes: Mutex<Vec<(u64, WeakAnyProcess)>>,
}

impl Machine {
    /// A process of the machine can be found by its number from now on, until it ends.
    pub(crate) fn note_process(&self, number: u64, process: WeakAnyProcess) {
        lock(&self.0.shared.processes).push((number, process));
    }

    /// The process of the machine at this address has ended.
    pub(crate) fn forget_process<T>(&self, process: &T) {
        lock(&self.0.shared.processes).retain(|(_, known)| !std::ptr::addr_eq(known.as_ptr(), process));
    }

    /// The process of the machine with a number, the youngest one of several.
    pub(crate) fn process_numbered(&self, number: u64) -> Option<WeakAnyProcess> {
        let processes = lock(&self.0.shared.processes);
        processes.iter().rev().find(|(known, _)| *known == number).map(|(_, process)| Weak::clone(process))
    }

    /// Gives a shared fence a name.
    ///
    /// # Errors
    /// STATUS_OBJECT_NAME_COLLISION for a name that is in use; STATUS_INSUFFICIENT_RESOURCES for one too many of all, or of the process.
    pub(crate) fn name_fence(&self, name: Name<'_>, fence: &Arc<SharedFence>, rights: Rights) -> Result<(), Failure> {
        self.name(name, Named::Fence(Arc::downgrade(fence), rights))
    }

    /// Gives a shared resource a name, for as long as kernel handles hold `resource`.
    ///
    /// # Errors
    /// As [`Machine::name_fence`].
    pub(crate) fn name_resource(&self, name: Name<'_>, resource: &Arc<ResourceHandle>) -> Result<(), Failure> {
        self.name(name, Named::Resource(Arc::downgrade(resource)))
    }

    /// Gives a synchronization object of before monitored fences a name, for as long as kernel handles hold `object`.
    ///
    /// # Errors
    /// As [`Machine::name_fence`].
    pub(crate) fn name_older_sync(&self, name: Name<'_>, object: &Arc<OlderSyncHandle>) -> Result<(), Failure> {
        self.name(name, Named::OlderSync(Arc::downgrade(object)))
    }

    fn name(&self, Name { name, of_process }: Name<'_>, named: Named) -> Result<(), Failure> {
        let mut names = lock(&self.0.shared.names);
        names.retain(|_, (named, _)| named.is_open());
        if names.contains_key(&name) {
            return Err(refused(STATUS_OBJECT_NAME_COLLISION, "another shared object has the name"));
        }
        if names.len() >= MAX {
            return Err(refused(STATUS_INSUFFICIENT_RESOURCES, format!("{MAX} shared objects have names already")));
        }
        let place = of_process.take()?;
        names.insert(name, (named, place));
        Ok(())
    }

    /// A process has ended: of the names that it gave, those of objects that others have stay as far as the machine keeps such names. An object whose name goes is still there for those who have it.
    pub(super) fn keep_names(&self, of_process: &KnownQuota, left: &KnownQuota) {
        let mut names = lock(&self.0.shared.names);
        // Objects that nobody has any more give their places back first.
        names.retain(|_, (named, _)| named.is_open());
        names.retain(|_, (_, place)| !place.is_of(of_process) || left.take().map(|kept| *place = kept).is_ok());
    }

    /// The shared synchronization object with a name.
    ///
    /// # Errors
    /// STATUS_OBJECT_NAME_NOT_FOUND; STATUS_OBJECT_TYPE_MISMATCH for the name of a resource.
    pub(crate) fn sync_named(&self, name: &[u16]) -> Result<SharedSync, Failure> {
        let names = lock(&self.0.shared.names);
        let gone = || nobodys(name);
        match names.get(name).map(|(named, _)| named) {
            Some(Named::Fence(fence, rights)) => Ok(SharedSync::Fence(fence.upgrade().ok_or_else(gone)?, *rights)),
            Some(Named::OlderSync(object)) => Ok(SharedSync::Older(object.upgrade().ok_or_else(gone)?)),
            Some(named) if named.is_open() => {
                Err(refused(STATUS_OBJECT_TYPE_MISMATCH, "the name is that of a resource"))
            }
            _ => Err(gone()),
        }
    }

    /// The shared resource with a name.
    ///
    /// # Errors
    /// STATUS_OBJECT_NAME_NOT_FOUND; STATUS_OBJECT_TYPE_MISMATCH for the name of a fence.
    pub(crate) fn resource_named(&self, name: &[u16]) -> Result<Arc<ResourceHandle>, Failure> {
        let names = lock(&self.0.shared.names);
        match names.get(name).map(|(named, _)| named) {
            Some(Named::Resource(resource)) => resource.upgrade().ok_or_else(|| nobodys(name)),
            Some(named) if named.is_open() => {
                Err(refused(STATUS_OBJECT_TYPE_MISMATCH, "the name is that of a synchronization object"))
            }
            _ => Err(nobodys(name)),
        }
    }

    /// Gives a shared resource a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many.
    pub(crate) fn publish_resource(&self, resource: &Arc<SharedResource>) -> Result<u32, Failure> {
        let mut table = lock(&self.0.shared.resources);
        let handle = global_handle(&mut table, 1)?;
        table.1.insert(handle, Arc::downgrade(resource));
        Ok(handle)
    }

    /// The shared resource with a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without one.
    pub(crate) fn resource(&self, handle: u32) -> Result<Arc<SharedResource>, Failure> {
        of_global_handle(&lock(&self.0.shared.resources), handle, "resource")
    }

    /// Gives a synchronization object a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many.
    pub(crate) fn publish_older_sync(&self, object: &Arc<OlderSync>) -> Result<u32, Failure> {
        let mut table = lock(&self.0.shared.older_syncs);
        let handle = global_handle(&mut table, 3)?;
        table.1.insert(handle, Arc::downgrade(object));
        Ok(handle)
    }

    /// The synchronization object with a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without one.
    pub(crate) fn older_sync(&self, handle: u32) -> Result<Arc<OlderSync>, Failure> {
        of_global_handle(&lock(&self.0.shared.older_syncs), handle, "synchronization object")
    }

    /// A new keyed mutex; one that is not shared by kernel handles gets a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many.
    pub(crate) fn new_keyed_mutex(
        &self,
        key: u64,
        data: Vec<u8>,
        nt_sharing: bool,
    ) -> Result<Arc<KeyedMutex>, Failure> {
        if nt_sharing {
            return Ok(KeyedMutex::new(key, data, 0, true));
        }
        let mut table = lock(&self.0.shared.keyed_mutexes);
        let handle = global_handle(&mut table, 2)?;
        let mutex = KeyedMutex::new(key, data, handle, false);
        table.1.insert(handle, Arc::downgrade(&mutex));
        Ok(mutex)
    }

    /// The keyed mutex with a handle that every process knows.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without one.
    pub(crate) fn keyed_mutex(&self, handle: u32) -> Result<Arc<KeyedMutex>, Failure> {
        of_global_handle(&lock(&self.0.shared.keyed_mutexes), handle, "keyed mutex")
    }
}
