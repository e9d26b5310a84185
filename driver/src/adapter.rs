//! An adapter between AddDevice and RemoveDevice, and the processes that use it.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::HANDLE;

use crate::caps::Hardware;
use crate::fence::native::{NativeFence, OpenFence};
use crate::gpu::Gpu;
use crate::handle::{self, Handle, Kind, Object, ObjectTable};
use crate::irql::Passive;
use crate::memory::allocation::{Allocation, OpenAllocation};
use crate::pool::{PoolBox, PoolVec, Tag};
use crate::queue::context::{Context, HwContext, UserDevice};
use crate::queue::doorbell::Doorbell;
use crate::queue::hw_queue::HwQueue;
use crate::refusal::{Reason, Refused, refused};
use crate::trace::{self, AdapterTrace, Trace};

/// A process that uses the adapter.
pub(crate) struct Process {
    /// Handle of the operating system.
    pub(crate) dxgk: usize,
    /// Bits of the location of the root page table, 0 before it was set.
    pub(crate) root: AtomicU64,
}

impl Object for Process {
    const KIND: Kind = Kind::Process;
}

/// What features can be negotiated with this hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) native_fences: bool,
    pub(crate) doorbells: bool,
}

impl Offers {
    fn of(hardware: &Hardware) -> Self {
        Self { native_fences: hardware.native_fences(), doorbells: hardware.doorbells != 0 }
    }

    fn into_bits(self) -> u32 {
        1 | u32::from(self.native_fences) << 1 | u32::from(self.doorbells) << 2
    }

    fn from_bits(bits: u32) -> Option<Self> {
        (bits & 1 != 0).then_some(Self { native_fences: bits & 2 != 0, doorbells: bits & 4 != 0 })
    }
}

/// An adapter.
pub(crate) struct Adapter {
    handle: AtomicU64,
    pub(crate) objects: ObjectTable,
    /// The started device; it stays allocated after a stop, until the next start or the removal, for whoever still looks.
    gpu: AtomicPtr<Gpu>,
    /// Bits of [`Offers`], known before the features are negotiated; 0 until then.
    offers: AtomicU32,
    /// What is remembered of it. Freed after the device.
    pub(crate) trace: PoolBox<AdapterTrace>,
}

impl Adapter {
    /// DxgkDdiAddDevice: an adapter without hardware. Its handle is the MiniportDeviceContext.
    pub(crate) fn add(irql: &Passive) -> Result<Handle, Refused> {
        let adapter = Self {
            handle: AtomicU64::new(0),
            objects: ObjectTable::new()?,
            gpu: AtomicPtr::new(core::ptr::null_mut()),
            offers: AtomicU32::new(0),
            trace: AdapterTrace::new()?,
        };
        let adapter = PoolBox::new(adapter, Tag::ADAPTER)?.into_raw();
        match handle::publish_adapter(adapter) {
            Ok(handle) => {
                // SAFETY: published just now; nobody knows its handle yet, so it is not removed.
                let adapter = unsafe { adapter.as_ref() };
                adapter.handle.store(handle.into_bits(), Ordering::Release);
                adapter.trace.set_adapter(handle.into_bits());
                // SAFETY: the trace is a block of pool that is freed after the registration has ended, in `remove`.
                unsafe { adapter.trace.provider.register(irql) };
                trace::note(&Event::AdapterAdded { adapter: handle.into_bits() });
                Ok(handle)
            }
            Err(status) => {
                // SAFETY: into_raw above, and publishing did not keep it.
                drop(unsafe { PoolBox::from_raw(adapter, Tag::ADAPTER) });
                Err(status)
            }
        }
    }

    /// DxgkDdiRemoveDevice: withdraws the handle, then frees everything that is left. Handles of its objects name nothing then.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE
    pub(crate) fn remove(irql: &Passive, raw: HANDLE) -> Result<(), Refused> {
        let adapter = handle::adapter(raw)?;
        adapter.stop(irql);
        let adapter = handle::withdraw_adapter(Handle::of(raw)).ok_or(refused(Reason::StaleHandle))?;
        // SAFETY: the handle is withdrawn and no other DDI of this adapter runs, so this is the only reference.
        let adapter = unsafe { PoolBox::from_raw(adapter, Tag::ADAPTER) };
        adapter.free_objects(irql);
        adapter.replace_gpu(irql, None);
        adapter.trace.provider.unregister(irql);
        trace::note(&Event::AdapterRemoved { adapter: Handle::of(raw).into_bits() });
        Ok(())
    }

    fn free_objects(&self, irql: &Passive) {
        while let Some(mut queue) = self.objects.remove_any::<HwQueue>(irql) {
            if let (Some(gpu), Some(memory)) = (self.gpu(), queue.take_memory()) {
                gpu.dxgk.free_contiguous(irql, memory);
            }
        }
        while self.objects.remove_any::<Doorbell>(irql).is_some() {}
        while self.objects.remove_any::<OpenFence>(irql).is_some() {}
        while self.objects.remove_any::<NativeFence>(irql).is_some() {}
        while self.objects.remove_any::<HwContext>(irql).is_some() {}
        while self.objects.remove_any::<Context>(irql).is_some() {}
        while self.objects.remove_any::<OpenAllocation>(irql).is_some() {}
        while self.objects.remove_any::<Allocation>(irql).is_some() {}
        while self.objects.remove_any::<UserDevice>(irql).is_some() {}
        while self.objects.remove_any::<Process>(irql).is_some() {}
    }

    /// The adapter's own handle, from which those of its objects are made.
    pub(crate) fn handle(&self) -> Handle {
        Handle::from_bits(self.handle.load(Ordering::Acquire))
    }

    /// The device, started or stopped again.
    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        // SAFETY: NULL, or a device that is freed only where nothing else of the adapter runs.
        unsafe { self.gpu.load(Ordering::Acquire).as_ref() }
    }

    /// The device if it runs.
    pub(crate) fn running_gpu(&self) -> Option<&Gpu> {
        self.gpu().filter(|gpu| gpu.is_running())
    }

    /// The device if it was started.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED
    pub(crate) fn started(&self) -> Result<&Gpu, Refused> {
        self.gpu().filter(|gpu| gpu.is_started()).ok_or(refused(Reason::NotStarted))
    }

    /// What the hardware offers, once it was asked.
    pub(crate) fn offers(&self) -> Option<Offers> {
        Offers::from_bits(self.offers.load(Ordering::Acquire))
    }

    /// DxgkDdiStartDevice.
    pub(crate) fn start(&self, irql: &Passive, table: &DXGKRNL_INTERFACE) -> Result<(), Refused> {
        let learned = |hardware: &Hardware| self.offers.store(Offers::of(hardware).into_bits(), Ordering::Release);
        // SAFETY: the device is freed before the adapter and its trace.
        let trace = unsafe { Trace::new(&self.trace) };
        self.trace.provider.set_log(table.DxgkCbLogEtwEvent);
        let gpu = Gpu::new(irql, table, trace, learned)?;
        self.replace_gpu(irql, Some(gpu));
        let Some(gpu) = self.gpu() else { return Err(refused(Reason::NotStarted)) };
        let started = gpu.start(irql);
        match started {
            Ok(()) => gpu.note(
                Component::Adapter,
                &Event::Started {
                    vram: gpu.layout.usable_vram(),
                    caps: gpu.hardware.caps.into_bits().into(),
                    doorbells: gpu.hardware.doorbells,
                    queues: gpu.layout.queues,
                },
            ),
            Err(_) => gpu.stop(irql),
        }
        started
    }

    /// DxgkDdiStopDevice; also called when something after a successful start failed, and harmless when repeated.
    pub(crate) fn stop(&self, irql: &Passive) {
        let Some(gpu) = self.gpu() else { return };
        // The operating system destroyed every queue by now. One that is left must not keep its ring.
        if let Ok(queues) = self.objects.all::<HwQueue>(irql, self.handle()) {
            for handle in queues.iter() {
                // Listed just now, so it exists.
                let _ = crate::queue::hw_queue::destroy(irql, self, gpu, *handle);
            }
        }
        gpu.stop(irql);
    }

    fn replace_gpu(&self, irql: &Passive, gpu: Option<PoolBox<Gpu>>) {
        let new = gpu.map_or(core::ptr::null_mut(), |gpu| gpu.into_raw().as_ptr());
        if let Some(old) = NonNull::new(self.gpu.swap(new, Ordering::AcqRel)) {
            // SAFETY: came from into_raw of such a box; start and removal run alone.
            let old = unsafe { PoolBox::from_raw(old, Tag::DEVICE) };
            old.stop(irql);
        }
    }

    /// Every handle of one kind.
    pub(crate) fn all<T: Object>(&self, irql: &Passive) -> Result<PoolVec<Handle>, Refused> {
        Ok(self.objects.all::<T>(irql, self.handle())?)
    }
}
