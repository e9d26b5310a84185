//! Kernel handles of fences and buffers: how these reach another device, and by duplication another process.

use core::{ffi::c_void, mem::ManuallyDrop, ptr};

use wddm_ddi::{
    kmt::*,
    types::{D3DKMT_HANDLE, HANDLE},
};

use crate::{
    adapter::Adapter,
    device::Device,
    error::{Error, Result},
    thunks::call,
};

/// Access that an opening of a shared fence has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read the value and wait for it, on the CPU and on the GPU.
    Wait,
    /// Signal it too.
    Full,
    /// Read the value and signal it, on the CPU and on the GPU; wait for nothing.
    Signal,
}

/// Rights of a kernel handle. [wdm: ACCESS_MASK; d3dkmthk: D3DKMTShareObjects]
mod mask {
    /// D3DDDI_SYNC_OBJECT_WAIT
    pub(super) const WAIT: u32 = 0x1;
    /// D3DDDI_SYNC_OBJECT_SIGNAL
    pub(super) const SIGNAL: u32 = 0x2;
    pub(super) const STANDARD_RIGHTS_READ: u32 = 0x0002_0000;
    pub(super) const GENERIC_ALL: u32 = 0x1000_0000;
}

impl Access {
    /// The rights that a handle of this access grants.
    fn mask(self) -> u32 {
        match self {
            Self::Wait => mask::STANDARD_RIGHTS_READ | mask::WAIT,
            Self::Full => mask::GENERIC_ALL,
            Self::Signal => mask::STANDARD_RIGHTS_READ | mask::SIGNAL,
        }
    }

    /// The flags of a creation or an opening for this access.
    pub(crate) fn limit(self, flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS) -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
        flags.with_NoSignal(self == Self::Wait).with_NoWait(self == Self::Signal)
    }
}

/// Flags of a fence that has kernel handles.
pub(crate) fn shared_flags() -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true)
}

/// A kernel handle of a fence or a buffer in this process, closed on drop. It keeps the fence with its value, or the bytes, also while no device has them.
///
/// Another process opens the object by a handle of its own, made by `DuplicateHandle` or inherited.
pub struct SharedHandle {
    /// The adapter whose thunks close the handle.
    adapter: Adapter,
    /// Only a number, never followed.
    handle: usize,
}

impl SharedHandle {
    /// Takes over a handle that this process got from elsewhere, to close it.
    ///
    /// # Safety
    /// `handle` is a kernel handle of this process that is not closed elsewhere.
    pub unsafe fn from_raw(device: &Device, handle: HANDLE) -> Self {
        Self { adapter: device.adapter().clone(), handle: handle.addr() }
    }

    /// The handle, for [`Fence::open`](crate::Fence::open) or [`Device::open_buffer`], and for duplication. Good until the drop.
    pub fn raw(&self) -> HANDLE {
        ptr::without_provenance_mut(self.handle)
    }

    /// The handle, which is then the caller's to close.
    pub fn into_raw(self) -> HANDLE {
        // The adapter goes with its last owner as ever; only the handle stays open.
        let mut kept = ManuallyDrop::new(self);
        let raw = kept.raw();
        // SAFETY: initialized, and not used or dropped after this.
        unsafe { ptr::drop_in_place(&mut kept.adapter) };
        raw
    }

    /// Gives `object` a handle.
    pub(crate) fn new(device: &Device, object: D3DKMT_HANDLE, access: Access) -> Result<Self> {
        let attributes = ObjectAttributes::UNNAMED;
        let mut handle: HANDLE = ptr::null_mut();
        let share = device.thunks().D3DKMTShareObjects;
        // SAFETY: one object, attributes without pointers, and a place for the handle, all of this frame.
        let status = unsafe { share(1, &object, (&raw const attributes).cast(), access.mask(), &mut handle) };
        status.ok().map_err(|status| Error::from_status(status, "D3DKMTShareObjects"))?;
        if handle.is_null() {
            return Err(Error::BadAnswer("D3DKMTShareObjects gave no handle"));
        }
        Ok(Self { adapter: device.adapter().clone(), handle: handle.addr() })
    }
}

impl Drop for SharedHandle {
    fn drop(&mut self) {
        self.adapter.count_teardown(call!(self.adapter.thunks(), NtClose, self.raw()));
    }
}

/// Closes a handle that may be any number.
pub(crate) fn close(device: &Device, handle: HANDLE) -> Result<()> {
    let status = call!(device.thunks(), NtClose, handle);
    status.ok().map_err(|status| Error::from_status(status, "NtClose"))
}

/// [wdm: OBJECT_ATTRIBUTES]
#[repr(C)]
struct ObjectAttributes {
    length: u32,
    root_directory: HANDLE,
    object_name: *mut c_void,
    attributes: u32,
    security_descriptor: *mut c_void,
    security_quality_of_service: *mut c_void,
}

impl ObjectAttributes {
    /// No name, not inherited, and the security of the process.
    const UNNAMED: Self = Self {
        length: size_of::<Self>() as u32,
        root_directory: ptr::null_mut(),
        object_name: ptr::null_mut(),
        attributes: 0,
        security_descriptor: ptr::null_mut(),
        security_quality_of_service: ptr::null_mut(),
    };
}

const _: () = assert!(size_of::<ObjectAttributes>() == 48);
