// UNSAFETY: handles that the loader looks into are pointers.
//! Handles: numbers of places in tables, and, where the loader looks into them, pointers.
//!
//! A handle of a table names a place and the generation of what is in it, so that one which is stale or was never given names nothing and does no harm.

use core::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};

use ash::vk;

use crate::app::App;
use crate::failure::Answer;
use crate::names;
use crate::private_data;

/// Something that the application knows by a handle which is not dispatchable.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    /// Type of the handle.
    type Handle: vk::Handle;

    /// The table of all of them in the process.
    fn table() -> &'static Table<Self>;

    /// Gives the object a handle.
    fn register(self) -> Self::Handle {
        vk::Handle::from_raw(Self::table().insert(Arc::new(self)))
    }

    /// The object of a handle; `None` for a handle that is null or stale.
    fn of(handle: Self::Handle) -> Option<Arc<Self>> {
        Self::table().get(vk::Handle::as_raw(handle))
    }

    /// As [`Object::of`], for what a command cannot do without.
    fn needed(handle: Self::Handle) -> Answer<Arc<Self>> {
        Self::of(handle).ok_or(vk::Result::ERROR_UNKNOWN)
    }

    /// All objects of the type in the process.
    fn all() -> Vec<Arc<Self>> {
        Self::table().all()
    }

    /// Takes the handle away; the object ends when nothing else has it.
    fn release(handle: Self::Handle) -> Option<Arc<Self>> {
        let handle = vk::Handle::as_raw(handle);
        private_data::forget((<Self::Handle as vk::Handle>::TYPE, handle));
        names::forget((<Self::Handle as vk::Handle>::TYPE, handle));
        Self::table().remove(handle)
    }
}

/// Gives types their tables.
macro_rules! objects {
    ($($object:ty => $handle:ty),+ $(,)?) => { $(
        impl $crate::handle::Object for $object {
            type Handle = $handle;

            fn table() -> &'static $crate::handle::Table<Self> {
                static TABLE: $crate::handle::Table<$object> = $crate::handle::Table::new();
                &TABLE
            }
        }
    )+ };
}

pub(crate) use objects;

/// The objects of a type.
pub(crate) struct Table<T> {
    places: RwLock<Places<T>>,
}

struct Places<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

/// Place and generation of a handle, which is not 0 for any of them.
fn parts(handle: u64) -> Option<(usize, u32)> {
    let place = (handle as u32).checked_sub(1)?;
    Some((place as usize, (handle >> 32) as u32))
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { places: RwLock::new(Places { places: Vec::new(), free: Vec::new() }) }
    }

    fn insert(&self, object: Arc<T>) -> u64 {
        let mut table = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let index = table.free.pop().unwrap_or(table.places.len() as u32);
        match table.places.get_mut(index as usize) {
            Some(place) => place.object = Some(object),
            None => table.places.push(Place { generation: 1, object: Some(object) }),
        }
        let generation = table.places.get(index as usize).map_or(0, |place| place.generation);
        u64::from(generation) << 32 | u64::from(index + 1)
    }

    fn get(&self, handle: u64) -> Option<Arc<T>> {
        let (index, generation) = parts(handle)?;
        let table = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let place = table.places.get(index)?;
        if place.generation == generation { place.object.clone() } else { None }
    }

    fn all(&self) -> Vec<Arc<T>> {
        let table = self.places.read().unwrap_or_else(PoisonError::into_inner);
        table.places.iter().filter_map(|place| place.object.clone()).collect()
    }

    fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let (index, generation) = parts(handle)?;
        let mut table = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let place = table.places.get_mut(index).filter(|place| place.generation == generation)?;
        let object = place.object.take()?;
        place.generation = place.generation.wrapping_add(1);
        table.free.push(index as u32);
        Some(object)
    }
}

/// What the first word of a dispatchable object is until the loader writes its own. [loader: ICD_LOADER_MAGIC]
const LOADER_MAGIC: usize = 0x01cd_c0de;

/// An object that the loader looks into: its first word is the loader's.
#[repr(C)]
pub(crate) struct Dispatchable<T> {
    loader: usize,
    /// Says that this is such an object, and of what type.
    kind: vk::ObjectType,
    object: T,
}

/// A type whose handles are dispatchable.
pub(crate) trait Dispatched {
    /// Type of the handle.
    type Handle: vk::Handle + Copy;
}

/// A dispatchable object with its handle, which is good until this is dropped.
pub(crate) struct Owned<T: Dispatched> {
    pointer: *mut Dispatchable<T>,
    owns: PhantomData<T>,
}

// SAFETY: owns the object, as a box would.
unsafe impl<T: Dispatched + Send> Send for Owned<T> {}
// SAFETY: gives shared references to the object only, as a box would.
unsafe impl<T: Dispatched + Sync> Sync for Owned<T> {}

impl<T: Dispatched> Owned<T> {
    pub(crate) fn new(object: T) -> Self {
        let kind = <T::Handle as vk::Handle>::TYPE;
        let boxed = Box::new(Dispatchable { loader: LOADER_MAGIC, kind, object });
        Self { pointer: Box::into_raw(boxed), owns: PhantomData }
    }

    pub(crate) fn handle(&self) -> T::Handle {
        vk::Handle::from_raw(self.pointer as usize as u64)
    }

    /// Leaves the object to its handle.
    pub(crate) fn into_handle(self) -> T::Handle {
        let handle = self.handle();
        core::mem::forget(self);
        handle
    }
}

impl<T: Dispatched> Drop for Owned<T> {
    fn drop(&mut self) {
        private_data::forget((<T::Handle as vk::Handle>::TYPE, self.pointer as usize as u64));
        names::forget((<T::Handle as vk::Handle>::TYPE, self.pointer as usize as u64));
        // SAFETY: the pointer came from a box, and this owns it.
        drop(unsafe { Box::from_raw(self.pointer) });
    }
}

impl<'c> App<'c> {
    /// The object of a dispatchable handle.
    pub(crate) fn object<T: Dispatched>(self, handle: T::Handle) -> Answer<&'c T> {
        let pointer = vk::Handle::as_raw(handle) as usize as *const Dispatchable<T>;
        let found = self.need(pointer)?;
        // Both are fields of every dispatchable object, at the same place.
        if found.kind != <T::Handle as vk::Handle>::TYPE {
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        Ok(&found.object)
    }

    /// Takes an object back that was left to its handle; `None` for null.
    pub(crate) fn take<T: Dispatched>(self, handle: T::Handle) -> Option<Owned<T>> {
        self.object::<T>(handle).ok()?;
        let pointer = vk::Handle::as_raw(handle) as usize as *mut Dispatchable<T>;
        Some(Owned { pointer, owns: PhantomData })
    }
}
