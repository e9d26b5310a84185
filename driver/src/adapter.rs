//! An adapter between AddDevice and RemoveDevice, and the processes that use it.

pub(crate) mod slots;

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use campanile_hw::queue::Location;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_INVALID_DEVICE_STATE;
use wddm_ddi::types::HANDLE;

use crate::caps::Hardware;
use crate::feature::Offers;
use crate::gpu::Gpu;
use crate::handle::{Handle, Kind, Object, ObjectTable};
use crate::irql::Passive;
use crate::link::{ENGINES, Link};
use crate::paging_report::Printed;
use crate::pool::{PoolBox, PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused, refused_with};
use crate::registry;
use crate::root_word::root_of;
use crate::trace::{self, AdapterTrace, Trace};

/// A process that uses the adapter.
pub(crate) struct Process {
    /// Handle of the operating system.
    pub(crate) dxgk: usize,
    /// Bits of the location of the root page table on each GPU, 0 before it was set.
    pub(crate) roots: [AtomicU64; ENGINES],
}

impl Process {
    /// A process without page tables.
    pub(crate) fn new(dxgk: HANDLE) -> Self {
        Self { dxgk: dxgk.addr(), roots: [const { AtomicU64::new(0) }; ENGINES] }
    }

    /// Root page table on a GPU, once it was set.
    pub(crate) fn root(&self, engine: u32) -> Option<Location> {
        self.roots.get(engine as usize).and_then(root_of)
    }
}

impl Object for Process {
    const KIND: Kind = Kind::Process;
}

/// A device of a process (DxgkDdiCreateDevice).
pub(crate) struct UserDevice {
    pub(crate) process: Handle,
}

impl Object for UserDevice {
    const KIND: Kind = Kind::Device;
}

/// An adapter.
pub(crate) struct Adapter {
    handle: AtomicU64,
    pub(crate) objects: ObjectTable,
    /// The started device; it stays allocated after a stop, until the next start or the removal, because threads at a raised level may
    /// still look at it.
    gpu: AtomicPtr<Gpu>,
    /// Bits of [`Offers`]; until the hardware is known, every feature that the driver implements.
    offers: AtomicU32,
    /// True if the software key of the device withholds hardware scheduling.
    withholds_hardware_scheduling: bool,
    /// The events and refusals that a debugger finds. Freed after the device.
    pub(crate) trace: PoolBox<AdapterTrace>,
    /// The kinds of paging operations that were printed because one could not be carried out.
    pub(crate) printed_paging: Printed,
    /// Bits of [`Link`].
    link: AtomicU64,
    /// Devices of the other functions of the board, by engine but for the first, between start and stop of the adapter that leads.
    others: [AtomicPtr<Gpu>; ENGINES - 1],
    /// The adapter that leads this one, in that time.
    lead: AtomicPtr<Adapter>,
}

impl Adapter {
    /// DxgkDdiAddDevice: an adapter without hardware. Its handle is the MiniportDeviceContext.
    ///
    /// # Safety
    /// `device` is the physical device object that it is added for.
    pub(crate) unsafe fn add(irql: &Passive, device: *mut c_void) -> Result<Handle, Refused> {
        // SAFETY: the caller vouches for the device.
        let withholds_hardware_scheduling = unsafe { registry::withholds_hardware_scheduling(irql, device) };
        let adapter = Self {
            handle: AtomicU64::new(0),
            objects: ObjectTable::new()?,
            gpu: AtomicPtr::new(core::ptr::null_mut()),
            offers: AtomicU32::new(Offers::before_start(!withholds_hardware_scheduling).into_bits()),
            withholds_hardware_scheduling,
            trace: AdapterTrace::new()?,
            printed_paging: Printed::new(),
            link: AtomicU64::new(Link::ALONE.into_bits()),
            others: [const { AtomicPtr::new(core::ptr::null_mut()) }; ENGINES - 1],
            lead: AtomicPtr::new(core::ptr::null_mut()),
        };
        let adapter = PoolBox::new(adapter, Tag::ADAPTER)?.into_raw();
        match slots::publish_adapter(adapter) {
            Ok(handle) => {
                // SAFETY: published just now; its handle is not known elsewhere yet, so it is not removed.
                let adapter = unsafe { adapter.as_ref() };
                adapter.handle.store(handle.into_bits(), Ordering::Release);
                adapter.trace.set_adapter(handle.into_bits());
                // SAFETY: the trace is a block of pool that is freed after the registration has ended, in `remove`.
                unsafe { adapter.trace.provider.register(irql) };
                adapter.trace.note_registration();
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

    /// Withdraws the handle, when nothing of the adapter runs any more. Handles of its objects name nothing then.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE
    pub(crate) fn withdraw(raw: HANDLE) -> Result<PoolBox<Self>, Refused> {
        if let Some(lead) = slots::adapter(raw)?.lead() {
            lead.leave();
        }
        let adapter = slots::withdraw_adapter(Handle::of(raw)).ok_or(refused(Reason::StaleHandle))?;
        // SAFETY: the handle is withdrawn and no other DDI of this adapter runs, so this is the only reference.
        Ok(unsafe { PoolBox::from_raw(adapter, Tag::ADAPTER) })
    }

    /// Frees the device and ends the trace; the last step of removing an adapter whose handle was withdrawn.
    pub(crate) fn end(&self, irql: &Passive) {
        self.replace_gpu(irql, None);
        self.trace.provider.unregister(irql);
        trace::note(&Event::AdapterRemoved { adapter: self.handle().into_bits() });
    }

    /// The adapter's own handle, from which those of its objects are made.
    pub(crate) fn handle(&self) -> Handle {
        Handle::from_bits(self.handle.load(Ordering::Acquire))
    }

    /// The device of this function, started or stopped again.
    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        // SAFETY: NULL, or a device that is freed only where nothing else of the adapter runs.
        unsafe { self.gpu.load(Ordering::Acquire).as_ref() }
    }

    /// The device of this function if it was started.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED
    pub(crate) fn started(&self) -> Result<&Gpu, Refused> {
        self.gpu().filter(|gpu| gpu.is_started()).ok_or(refused(Reason::NotStarted))
    }

    /// The device that is an engine of this adapter, started or stopped again.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if there is no such engine; STATUS_DEVICE_REMOVED before start.
    pub(crate) fn engine(&self, ordinal: u32) -> Result<&Gpu, Refused> {
        let Some(place) = (ordinal as usize).checked_sub(1) else {
            return self.gpu().ok_or(refused(Reason::NotStarted));
        };
        let other = self.others.get(place).ok_or(refused(Reason::NoSuchNode))?;
        // SAFETY: NULL, or a device of another adapter, which withdraws it here before it is freed.
        unsafe { other.load(Ordering::Acquire).as_ref() }.ok_or(refused(Reason::NoSuchNode))
    }

    /// As [`Adapter::engine`], if it was started.
    ///
    /// # Errors
    /// As there; STATUS_DEVICE_REMOVED when it was stopped.
    pub(crate) fn started_engine(&self, ordinal: u32) -> Result<&Gpu, Refused> {
        let gpu = self.engine(ordinal)?;
        if gpu.is_started() { Ok(gpu) } else { Err(refused(Reason::NotStarted)) }
    }

    /// The engines that there are, in order.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &Gpu> {
        (0..ENGINES as u32).map_while(|ordinal| self.engine(ordinal).ok())
    }

    /// The engine that an affinity mask selects. On an adapter with one engine a mask of 0 selects it too.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER unless one bit is set, of an engine that there is.
    pub(crate) fn engine_of_affinity(&self, affinity: u32) -> Result<u32, Refused> {
        let count = self.engines().count().max(1) as u32;
        let engine = affinity.trailing_zeros();
        match affinity {
            0 if count == 1 => Ok(0),
            _ if affinity.is_power_of_two() && engine < count => Ok(engine),
            _ => Err(refused(Reason::NoSuchNode)),
        }
    }

    /// The adapter that DDIs name, and that has all objects: this one, or the one that leads it.
    pub(crate) fn owner(&self) -> &Self {
        self.lead().unwrap_or(self)
    }

    fn lead(&self) -> Option<&Self> {
        // SAFETY: NULL, or an adapter that clears this before it is freed.
        unsafe { self.lead.load(Ordering::Acquire).as_ref() }
    }

    /// The position of this function on its board.
    pub(crate) fn link(&self) -> Link {
        Link::from_bits(self.link.load(Ordering::Acquire))
    }

    /// Stores the position that DxgkDdiLinkDevice was answered with.
    pub(crate) fn set_link(&self, link: Link) {
        self.link.store(link.into_bits(), Ordering::Release);
    }

    /// Makes the other functions of a linked adapter its engines, if they are started. A function that is not started is no engine.
    fn join(&self) {
        let own = self.link();
        for adapter in slots::adapters().filter(|_| own.leads() && own.count > 1) {
            let link = adapter.link();
            let place = (link.position as usize).checked_sub(1).and_then(|place| self.others.get(place));
            let Some(place) = place.filter(|_| link.chain == own.chain && link.count == own.count) else { continue };
            let Some(gpu) = adapter.gpu().filter(|gpu| gpu.is_running()) else { continue };
            gpu.dxgk.set_engine(link.position);
            adapter.lead.store(core::ptr::from_ref(self).cast_mut(), Ordering::Release);
            place.store(core::ptr::from_ref(gpu).cast_mut(), Ordering::Release);
        }
    }

    /// Undoes [`Adapter::join`].
    fn leave(&self) {
        for adapter in slots::adapters().filter(|adapter| core::ptr::eq(adapter.lead.load(Ordering::Acquire), self)) {
            adapter.lead.store(core::ptr::null_mut(), Ordering::Release);
            if let Some(gpu) = adapter.gpu() {
                gpu.dxgk.set_engine(0);
            }
        }
        self.others.iter().for_each(|other| other.store(core::ptr::null_mut(), Ordering::Release));
    }

    /// The features that driver and hardware support.
    pub(crate) fn offers(&self) -> Offers {
        Offers::from_bits(self.offers.load(Ordering::Acquire))
    }

    /// DxgkDdiStartDevice. The function of a board that leads is started when the others are.
    ///
    /// # Errors
    /// As [`Gpu::new`] and [`Gpu::start`]; STATUS_INVALID_DEVICE_STATE for an engine of an adapter that is started.
    pub(crate) fn start(&self, irql: &Passive, table: &DXGKRNL_INTERFACE) -> Result<(), Refused> {
        if self.lead().is_some() {
            return Err(refused_with(Reason::NotServed, STATUS_INVALID_DEVICE_STATE));
        }
        // SAFETY: the device is freed before the adapter and its trace.
        let trace = unsafe { Trace::new(&self.trace) };
        self.trace.provider.set_log(table.DxgkCbLogEtwEvent);
        let gpu = Gpu::new(irql, table, trace, |hardware| self.store_offers(hardware))?;
        self.replace_gpu(irql, Some(gpu));
        let Some(gpu) = self.gpu() else { return Err(refused(Reason::NotStarted)) };
        let started = gpu.start(irql);
        match started {
            Ok(()) => {
                gpu.note(
                    Component::Adapter,
                    &Event::Started {
                        vram: gpu.layout.usable_vram(),
                        caps: gpu.hardware.caps.into_bits().into(),
                        doorbells: gpu.hardware.doorbells,
                        queues: gpu.layout.queues,
                    },
                );
                self.join();
            }
            Err(_) => gpu.stop(irql),
        }
        started
    }

    /// Stores the features that can be offered, for all functions of the board: their hardware is the same, features belong to the adapter, and
    /// the software key of any function can withhold hardware scheduling.
    fn store_offers(&self, hardware: &Hardware) -> Offers {
        let link = self.link();
        let is_of_board =
            |adapter: &&Self| core::ptr::eq(*adapter, self) || link.count > 1 && adapter.link().chain == link.chain;
        let withheld = slots::adapters().filter(is_of_board).any(|adapter| adapter.withholds_hardware_scheduling);
        let offers = Offers {
            hardware_scheduling: !withheld,
            native_fences: hardware.native_fences(),
            doorbells: hardware.doorbells != 0,
        };
        for adapter in slots::adapters().filter(is_of_board) {
            adapter.offers.store(offers.into_bits(), Ordering::Release);
        }
        offers
    }

    /// Stops the device, which no queue uses any more; harmless when repeated.
    pub(crate) fn stop(&self, irql: &Passive) {
        if let Some(gpu) = self.gpu() {
            gpu.stop(irql);
            self.leave();
        }
    }

    fn replace_gpu(&self, irql: &Passive, gpu: Option<PoolBox<Gpu>>) {
        let new = gpu.map_or(core::ptr::null_mut(), |gpu| gpu.into_raw().as_ptr());
        if let Some(old) = NonNull::new(self.gpu.swap(new, Ordering::AcqRel)) {
            // SAFETY: came from into_raw of such a box; start and removal run alone.
            let old = unsafe { PoolBox::from_raw(old, Tag::DEVICE) };
            old.stop(irql);
        }
    }

    /// A device that user mode created, and its process.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE
    pub(crate) fn process_of(&self, device: HANDLE) -> Result<(&UserDevice, &Process), Refused> {
        let device = self.objects.get::<UserDevice>(Handle::of(device))?;
        Ok((device, self.objects.get::<Process>(device.process)?))
    }

    /// Every handle of one kind.
    pub(crate) fn all<T: Object>(&self, irql: &Passive) -> Result<PoolVec<Handle>, Refused> {
        Ok(self.objects.all::<T>(irql, self.handle())?)
    }
}
