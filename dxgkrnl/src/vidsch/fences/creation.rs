//! Fences are created and opened: native ones, monitored ones, and those of several adapters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::account::Upkeep;
use crate::fence::Rights;
use crate::refusal::Failure;
use crate::vidmm::Protection;

use super::native_fence;
use crate::vidsch::objects::device::Device;
use crate::vidsch::objects::fence::{CrossAdapter, Fence, SyncObject};
use crate::vidsch::objects::fence_options::{FenceOptions, PrivateData};
use crate::vidsch::objects::storage::{self, FenceKind, Home, View};
use crate::vidsch::scheduler::VidSch;

impl VidSch {
    /// Creates a native fence and opens it in the process of `device`. The driver's words for the user-mode driver replace
    /// `private`.
    ///
    /// # Errors
    /// STATUS_NOT_SUPPORTED without native fences, or those between engines; STATUS_DRIVER_INTERNAL_ERROR if what the driver says about
    /// their storage breaks a rule; no memory; what the driver answered.
    pub(crate) fn create_native_fence(
        &self,
        device: &Arc<Device>,
        options: FenceOptions,
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let adapter = &device.adapter;
        if !adapter.has_native_fences() {
            return Err(STATUS_NOT_SUPPORTED.into());
        }
        if options.intra_gpu && !adapter.policy().intra_gpu_fences {
            return Err(STATUS_NOT_SUPPORTED.into());
        }
        if options.cross_adapter {
            return CrossAdapter::new(device, options)?.open(device, true, options.rights, private);
        }
        let _running = self.enter()?;
        let kind = options.native_kind();
        let (home, view) = self.home(device, kind, options)?;
        let system = self.fences.reserve();
        let mut words = *private;
        let global = match native_fence::create(adapter, kind, &home, system, &mut words) {
            Ok(global) => global,
            Err(status) => {
                drop(view);
                home.release();
                return Err(status);
            }
        };
        let fence = Fence::new(adapter, system, Some(global), kind, home, options, None);
        let opened = self.open_in(&fence, device, Some(view), (options.rights, options.of_queue), &mut words);
        let opened = opened.inspect_err(|_| fence.abandon())?;
        *private = words;
        Ok(opened)
    }

    /// Opens a fence of one adapter, of whatever process, in that of `device`, with these rights. The driver's words replace
    /// `private`.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a fence of another adapter; STATUS_INVALID_HANDLE for one that is destroyed; no memory;
    /// what the driver answered.
    pub(crate) fn open_fence(
        &self,
        device: &Arc<Device>,
        fence: &Arc<Fence>,
        rights: Rights,
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let _running = self.enter()?;
        if !Arc::ptr_eq(fence.adapter(), &device.adapter) {
            return Err(STATUS_INVALID_PARAMETER.into());
        }
        let mut words = *private;
        let opened = self.open_in(fence, device, None, (rights, false), &mut words)?;
        *private = words;
        Ok(opened)
    }

    /// Creates a fence that the driver knows only by its addresses: for user mode, for paging queues, and for queues without
    /// native progress fence.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create_monitored_fence(
        &self,
        device: &Arc<Device>,
        options: FenceOptions,
    ) -> Result<Arc<SyncObject>, Failure> {
        if options.cross_adapter {
            return CrossAdapter::new(device, options)?.open(device, false, options.rights, &mut [0; 64]);
        }
        let _running = self.enter()?;
        let kind = options.monitored_kind();
        let (home, view) = self.home(device, kind, options)?;
        let fence = Fence::new(&device.adapter, self.fences.reserve(), None, kind, home, options, None);
        let opened = self.open_in(&fence, device, Some(view), (options.rights, options.of_queue), &mut [0; 64]);
        opened.inspect_err(|_| fence.abandon())
    }

    fn home(&self, device: &Device, kind: FenceKind, options: FenceOptions) -> Result<(Home, Arc<View>), Failure> {
        let storage = self.storage(&device.process);
        if options.shareable { storage.take_alone(kind, options.initial) } else { storage.take(kind, options.initial) }
    }

    fn open_in(
        &self,
        fence: &Arc<Fence>,
        device: &Arc<Device>,
        view: Option<Arc<View>>,
        (rights, of_queue): (Rights, bool),
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let protection = if rights.signal { Protection::ReadWrite } else { Protection::ReadOnly };
        let protection = rights.gpu.then_some(protection);
        let process = Arc::as_ptr(&device.process).addr();
        let storage = self.storage(&device.process);
        fence.open(
            (process, protection),
            // The page is writable through the creator's handle only if that handle may signal.
            |frames| {
                view.filter(|view| view.protection() == protection).map_or_else(|| storage.view(frames, protection), Ok)
            },
            |view| {
                let local = match fence.global() {
                    Some(global) => {
                        let addresses = view.gpu_addresses(fence.offset());
                        let (local, words) = native_fence::open(fence.adapter(), device, addresses, global, *private)?;
                        *private = words;
                        Some(local)
                    }
                    None => None,
                };
                Ok(SyncObject::new(fence, device, local, view, rights, of_queue))
            },
        )
    }
}

impl CrossAdapter {
    /// A fence with these options, on no adapter yet, with its value in memory of the machine of `device`.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if its process has as many fences that may be shared as it may; STATUS_NO_MEMORY.
    pub(crate) fn new(device: &Device, options: FenceOptions) -> Result<Arc<Self>, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let upkeep = Arc::new(Upkeep::of_fence());
        let _before_there_is_a_file = device.process.shared.charge(&upkeep)?;
        Ok(Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            upkeep,
            current: storage::new_current(&device.adapter, options.initial)?,
            options: FenceOptions { shareable: true, ..options },
            making: Mutex::new(()),
            signalling: Mutex::new(()),
            members: Mutex::default(),
            told: AtomicU64::new(options.initial),
        }))
    }

    /// Opens the fence for `device`; on an adapter that has no member of the kind yet it gets one. The driver's words
    /// replace `private`.
    ///
    /// # Errors
    /// STATUS_NOT_SUPPORTED on an adapter whose GPU writes half of the value; STATUS_DEVICE_REMOVED once the adapter is being stopped; no
    /// memory; what the driver answered.
    pub(crate) fn open(
        self: &Arc<Self>,
        device: &Arc<Device>,
        native: bool,
        rights: Rights,
        private: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        // GPUs that wait by themselves, and the processes of other adapters, read the value whole.
        if !device.adapter.has_64_bit_fences() {
            return Err(STATUS_NOT_SUPPORTED.into());
        }
        let sch = device.adapter.vidsch();
        let _running = sch.enter()?;
        let _making = lock(&self.making);
        let mut words = *private;
        let here = |fence: &Arc<Fence>| Arc::ptr_eq(fence.adapter(), &device.adapter) && fence.is_native() == native;
        let known = self.members().into_iter().find(here);
        let opened = known.map(|fence| (sch.open_in(&fence, device, None, (rights, false), &mut words), fence));
        let opened = match opened {
            // Its last instance was closed in the same moment.
            Some((Err(_), fence)) if fence.is_destroyed() => self.make(device, native, rights, &mut words),
            Some((opened, _)) => opened,
            None => self.make(device, native, rights, &mut words),
        }?;
        *private = words;
        Ok(opened)
    }

    /// Creates the member of a kind on the adapter of `device`, and opens it there.
    fn make(
        self: &Arc<Self>,
        device: &Arc<Device>,
        native: bool,
        rights: Rights,
        words: &mut PrivateData,
    ) -> Result<Arc<SyncObject>, Failure> {
        let (adapter, sch) = (&device.adapter, device.adapter.vidsch());
        let kind = if native { FenceKind::Default } else { self.options.monitored_kind() };
        let (home, view) =
            sch.storage(&device.process).take_on(kind, (Arc::clone(&self.current), Arc::clone(&self.upkeep)))?;
        let system = sch.fences.reserve();
        let global = match native.then(|| native_fence::create(adapter, kind, &home, system, words)).transpose() {
            Ok(global) => global,
            Err(status) => {
                drop(view);
                home.release();
                return Err(status);
            }
        };
        let fence = Fence::new(adapter, system, global, kind, home, self.options, Some(self));
        // MonitoredValue gets its value for life before any process can use it.
        fence.evaluate();
        lock(&self.members).push(Arc::downgrade(&fence));
        sch.open_in(&fence, device, Some(view), (rights, false), words).inspect_err(|_| fence.abandon())
    }
}
