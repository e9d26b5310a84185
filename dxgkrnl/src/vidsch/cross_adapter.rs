//! Fences that several adapters share.
//!
//! All of them use one CurrentValue in system memory. On each adapter the fence has a *member*: a native fence with a
//! MonitoredValue of its own where the adapter has native fences, a monitored fence elsewhere or where one is asked for.
//! GPUs cannot tell each other of a signal, so the processor does: MonitoredValue is 0 for life, every signal interrupts, and
//! whoever learns of one on its adapter tells the other members, whose GPU then looks at its waiting queues and whose
//! waiters are woken. [native-gpu-fence-objects: cross-adapter native fences]
//!
//! Members are told one after the other, with the locks of one member at a time and none of the adapter that signalled; so two
//! adapters that signal each other never wait for each other. Only [`Signalling`] spans members.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, MutexGuard, lock};
use wddm_ddi::status::*;

use crate::quota::FilePlace;
use crate::rank;
use crate::refusal::Failure;
use crate::vidmm::FencePage;
use crate::vidsch::Device;

use super::fence::Fence;
use super::native_fence::{self, FenceOptions, PrivateData};
use super::storage::{self, FenceKind};
use super::sync_object::SyncObject;
use crate::fence::Rights;

/// MonitoredValue of a member: every signal interrupts.
pub(super) const MONITORED: u64 = 0;

/// State that the members of a cross-adapter fence share.
pub(crate) struct CrossAdapter {
    /// Order in which several are locked.
    number: u64,
    current: Arc<FencePage>,
    _file: FilePlace,
    /// Properties of the members.
    options: FenceOptions,
    /// Held while the fence is opened on an adapter, so that it has one member of a kind there.
    making: Mutex<(), rank::MakingCrossAdapterFence>,
    /// Held while the processor signals. Several are locked by `number`.
    signalling: Mutex<(), rank::CrossAdapterSignal>,
    members: Mutex<Vec<Weak<Fence>>>,
    /// The value that the members were last told of.
    told: AtomicU64,
}

impl CrossAdapter {
    /// A fence with these options, on no adapter yet, with its value in memory of the machine of `device`.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if its process has as many fences that may be shared as it may; STATUS_NO_MEMORY.
    pub(crate) fn new(device: &Device, options: FenceOptions) -> Result<Arc<Self>, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            _file: device.process.files.take()?,
            current: storage::new_current(&device.adapter, options.initial)?,
            options: FenceOptions { shareable: true, ..options },
            making: Mutex::new(()),
            signalling: Mutex::new(()),
            members: Mutex::default(),
            told: AtomicU64::new(options.initial),
        }))
    }

    /// The fence on each adapter that has it.
    pub(super) fn members(&self) -> Vec<Arc<Fence>> {
        lock(&self.members).iter().filter_map(Weak::upgrade).collect()
    }

    /// The member is gone.
    pub(super) fn remove(&self, member: &Fence) {
        lock(&self.members).retain(|other| !core::ptr::eq(other.as_ptr(), member) && other.strong_count() > 0);
    }

    /// The value that the members were last told of, if that is not `current`.
    pub(super) fn behind(&self, current: u64) -> Option<u64> {
        Some(self.told.load(Ordering::Acquire)).filter(|told| *told != current)
    }

    /// Tells every member that the value may have been written.
    pub(super) fn tell(&self) {
        for member in self.members() {
            self.told.store(member.current(), Ordering::Release);
            member.written_elsewhere();
        }
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
        let (home, view) = sch.storage(&device.process).take_on(kind, Arc::clone(&self.current))?;
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

/// These fences were, or may have been, signalled on their adapter: those that other adapters share are told of it there.
///
/// Called without a lock of a fence, at any level below device level.
pub(super) fn propagate<'a>(fences: impl IntoIterator<Item = &'a Arc<Fence>>) {
    for fence in fences {
        let Some(shared) = fence.cross_adapter() else { continue };
        shared.told.store(fence.current(), Ordering::Release);
        for member in shared.members() {
            if !Arc::ptr_eq(&member, fence) {
                member.written_elsewhere();
            }
        }
    }
}

/// The processor signals these fences: no other processor signals one of them on any adapter until this is dropped, so that
/// a value that was compared does not change by another one.
pub(super) struct Signalling<'a> {
    _held: Vec<MutexGuard<'a, (), rank::CrossAdapterSignal>>,
}

impl<'a> Signalling<'a> {
    pub(super) fn new(fences: impl Iterator<Item = &'a Arc<Fence>>) -> Self {
        let shared = fences.filter_map(|fence| fence.cross_adapter());
        let ordered: BTreeMap<u64, &Arc<CrossAdapter>> = shared.map(|shared| (shared.number, shared)).collect();
        Self { _held: ordered.into_iter().map(|(number, shared)| shared.signalling.lock_in_order(number)).collect() }
    }
}
