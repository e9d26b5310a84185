//! The started device: mappings, rings, and everything that exists between StartDevice and StopDevice.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use campanile_hw::pci;
use campanile_hw::queue::Location;
use campanile_hw::registers::{self, Command, Control, NODE_COMPUTE, NODES};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_INSUFFICIENT_RESOURCES;
use wddm_ddi::types::*;

use crate::caps::{Claims, Hardware};
use crate::cmp::{Cmp, refused_command};
use crate::dispatches::Dispatches;
use crate::doorbells::{Doorbells, Scheduler};
use crate::dxgk::{ContiguousMemory, Dxgk};
use crate::events::{EVENT_ENTRIES, EVENT_RING_SIZE, EventRing};
use crate::feature::{self, Offers};
use crate::fence_index::FenceIndex;
use crate::irql::{Device, Passive, UpToDispatch};
use crate::lock::{PushLock, SpinLock};
use crate::mmio::{Mapping, Registers};
use crate::node::numbers::{FreeNumbers, QueueMap};
use crate::node::packet::Node;
use crate::node::priority::Bands;
use crate::node::ring::{NODE_RING_SIZE, Ring};
use crate::nt;
use crate::pool::{PoolBox, PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused, refused_with};
use crate::root_word::root_of;
use crate::scheduling_log::SchedulingLog;
use crate::trace::Trace;
use crate::vram::aperture::Aperture;
use crate::vram::host_aperture::HostAperture;
use crate::vram::segments::Layout;

/// What StartDevice took, in the order it was taken; given back in reverse.
#[derive(Clone, Copy)]
struct Mappings {
    registers: Mapping,
    doorbells: Mapping,
    /// The driver's part of VRAM.
    vram: Mapping,
}

/// A started device.
pub(crate) struct Gpu {
    pub(crate) dxgk: PoolBox<Dxgk>,
    pub(crate) hardware: Hardware,
    pub(crate) claims: Claims,
    pub(crate) layout: Layout,
    /// Bus address of the VRAM window.
    pub(crate) window: u64,
    pub(crate) registers: Registers,
    pub(crate) cmp: Cmp,
    pub(crate) nodes: PoolVec<Node>,
    /// Numbers of hardware queues. Innermost push lock.
    pub(crate) numbers: PushLock<FreeNumbers>,
    pub(crate) queues: QueueMap,
    pub(crate) doorbells: Doorbells,
    pub(crate) fences: FenceIndex,
    /// Guards the scheduler's table of fences: taken while it is changed and while a process gets its page table, before the spin locks of
    /// fences.
    pub(crate) fence_map: PushLock<()>,
    pub(crate) events: EventRing,
    pub(crate) aperture: Aperture,
    pub(crate) host_aperture: HostAperture,
    /// Taken by the DPC while it works on queues.
    pub(crate) dpc: SpinLock<()>,
    /// Root of the address space that the memory manager works in: for packets without a context.
    system_root: AtomicU64,
    mappings: Mappings,
    /// True while the mappings and the event ring are there: from start to stop.
    started: AtomicBool,
    /// True while RUN is set, so that the device takes commands and sends events.
    running: AtomicBool,
    /// State saved when the device leaves D0, and restored on its return.
    sleep: Sleep,
    /// Where dispatches stood at the last timeout, for debuggers.
    pub(crate) dispatches: Dispatches,
    /// True if the kernel had a buffer built that signals a monitored fence, so that a completed packet may have written one.
    monitored_signals: AtomicBool,
    /// True while a kernel-mode hardware queue has submissions that wait for a free ring entry.
    waiting: AtomicBool,
    /// F-state of each node, as the operating system asked for it last.
    pub(crate) fstates: [AtomicU32; NODES as usize],
    /// What the hardware is told about priority bands, also after a reset.
    bands: SpinLock<Bands>,
    /// The scheduling logs of the nodes, also for after a reset. Taken before the scheduler's lock.
    scheduling_logs: SpinLock<[Option<SchedulingLog>; NODES as usize]>,
}

/// State that the driver saves on the way to D3 and restores on the way to D0.
#[derive(Default)]
struct Sleep {
    /// True if RUN was set.
    ran: AtomicBool,
    /// The GPU's clock and the processor's performance counter at one moment, while the device is not in D0.
    gpu_clock: AtomicU64,
    cpu_clock: AtomicU64,
}

/// A memory resource: (start, length).
type Range = (PHYSICAL_ADDRESS, u64);

/// Ranges of BAR 0, 2 and 4: the memory resources, which come in the order of the BARs.
fn memory_ranges(list: &CM_RESOURCE_LIST) -> Option<[Range; 3]> {
    let mut ranges = list.PartialDescriptors.iter().take(list.PartialCount as usize).filter_map(|descriptor| {
        let unit = match (descriptor.Type, descriptor.Flags) {
            (CM_PARTIAL_RESOURCE_DESCRIPTOR::MEMORY, _) => 1,
            (CM_PARTIAL_RESOURCE_DESCRIPTOR::MEMORY_LARGE, flags)
                if flags & CM_PARTIAL_RESOURCE_DESCRIPTOR::FLAG_MEMORY_LARGE_40 != 0 =>
            {
                256
            }
            _ => return None,
        };
        // SAFETY: the type says that this arm holds a memory range.
        let range = unsafe { descriptor.u.Memory };
        Some((range.Start, u64::from(range.Length) * unit))
    });
    Some([ranges.next()?, ranges.next()?, ranges.next()?])
}

fn map_bar(
    irql: &Passive,
    dxgk: &Dxgk,
    range: Range,
    len: u64,
    cache: MEMORY_CACHING_TYPE,
) -> Result<Mapping, Refused> {
    if len == 0 || len > range.1 {
        return Err(refused(Reason::WrongHardware));
    }
    let len = u32::try_from(len).map_err(|_| refused_with(Reason::WrongHardware, STATUS_INSUFFICIENT_RESOURCES))?;
    dxgk.map(irql, range.0, len, cache)
}

impl Gpu {
    /// A preemption or suspension is requested of a node. Outside D0 nothing is touched.
    pub(crate) fn note_stop_requested(&self, node: &Node) {
        if self.cmp.is_powered() {
            node.last_look().note_stop_requested(&self.registers, node.ordinal());
        }
    }

    /// True for a node that is idle or makes progress. A node that has not answered a preemption or suspension counts as busy, even if its
    /// queue waits for a fence. False on a function that is gone, was reset, or is not in D0.
    pub(crate) fn makes_progress(&self, irql: &Passive, node: &Node, stop_requested: bool) -> bool {
        self.cmp.is_powered()
            && self.registers.is_present()
            && !self.cmp.was_reset(irql)
            && node.last_look().has_progressed(&self.registers, node.ordinal(), stop_requested)
    }

    /// Maps the device, learns what it is and what of it may be used, and takes all memory. The device itself is not touched.
    /// `learned` gets the hardware's properties and returns the features to offer. It runs before the operating system is asked which of them are
    /// enabled, because the operating system then queries the driver's support for each.
    ///
    /// # Errors
    /// STATUS_DEVICE_DOES_NOT_EXIST for hardware that this driver was not written for; STATUS_NO_MEMORY.
    pub(crate) fn new(
        irql: &Passive,
        table: &DXGKRNL_INTERFACE,
        trace: Trace,
        learned: impl Fn(&Hardware) -> Offers,
    ) -> Result<PoolBox<Self>, Refused> {
        let dxgk = PoolBox::new(Dxgk::new(table, trace)?, Tag::DEVICE)?;
        let info = dxgk.device_information(irql)?;
        // SAFETY: NULL or the resource list, which lives during StartDevice.
        let list = unsafe { info.TranslatedResourceList.as_ref() }.ok_or(refused(Reason::WrongHardware))?;
        let [bar0, bar2, bar4] = memory_ranges(list).ok_or(refused(Reason::WrongHardware))?;
        let registers = map_bar(irql, &dxgk, bar0, pci::REGISTERS_SIZE, MEMORY_CACHING_TYPE::MmNonCached)?;
        let mut undo = Undo { irql, dxgk: Some(dxgk), mappings: [Some(registers), None, None], events: None };
        let parts = undo.describe(registers, bar2, bar4, learned)?;
        undo.finish(parts, bar4.0)
    }

    /// Notes an event. Any level.
    pub(crate) fn note(&self, component: Component, event: &Event) {
        self.dxgk.trace.note(component, event);
    }

    /// Resets the device, programs its tables and sets RUN.
    ///
    /// # Errors
    /// STATUS_UNSUCCESSFUL when the device does not start.
    pub(crate) fn start(&self, irql: &Passive) -> Result<(), Refused> {
        self.cmp.set_run(false);
        self.registers.write32(registers::CONTROL, Control::new().with_reset(true).into_bits());
        self.registers.settle_control().ok_or(refused(Reason::DeviceDead))?;
        self.run(irql)
    }

    /// Programs the tables and sets RUN, then maps the queues of the nodes. Used at start, and after a reset.
    pub(crate) fn run(&self, irql: &Passive) -> Result<(), Refused> {
        // Nothing is reported while RUN is clear, so the ring may be cleared without the interrupt being connected yet.
        // SAFETY: `running` is false, so neither the interrupt routine nor a synchronised routine uses the ring.
        let device = unsafe { Device::assume() };
        self.events.reset(&device);
        self.host_aperture.restore(irql);
        // A reset by configuration space, and D3, have cleared it.
        if self.hardware.caps.atomics64() {
            crate::pci::enable_atomics(irql, &self.dxgk);
        }
        let registers = &self.registers;
        registers.write64(registers::QUEUE_TABLE_BASE, 0);
        registers.write32(registers::QUEUE_TABLE_COUNT, self.layout.queues);
        registers.write64(registers::EVENT_RING_BASE, self.events.address);
        registers.write32(registers::EVENT_RING_ENTRIES, EVENT_ENTRIES);
        self.write_paging_root();
        // The interrupt routine finds everything in place from the first message on.
        self.running.store(true, Ordering::Release);
        registers.write32(registers::CONTROL, Control::new().with_run(true).into_bits());
        if !registers.settle_control().is_some_and(|control| control.run()) || !registers.is_present() {
            self.running.store(false, Ordering::Release);
            return Err(refused(Reason::DeviceDead));
        }
        self.cmp.set_run(true);
        for node in self.nodes.iter() {
            node.map(irql, &self.cmp).map_err(|_| refused(Reason::DeviceDead))?;
        }
        self.restore_fstates(irql);
        let bands = *self.bands.lock(irql);
        if bands != Bands::unset() {
            self.program_bands(irql, bands);
        }
        self.restore_scheduling_logs(irql);
        Ok(())
    }

    /// Sets up priority bands, also for after a reset.
    pub(crate) fn set_bands(&self, irql: &impl UpToDispatch, bands: Bands) {
        *self.bands.lock(irql) = bands;
        if self.is_running() {
            self.program_bands(irql, bands);
        }
    }

    /// Tells the hardware about priority bands.
    fn program_bands(&self, irql: &impl UpToDispatch, bands: Bands) {
        // Refused only by a device that is lost; it is programmed again when it runs again.
        for arguments in bands.arguments() {
            let _ = self.cmp.run(irql, Command::SetBandTimes, &arguments);
        }
        let _ = self.cmp.run(irql, Command::SetBandShare, &[bands.share.into()]);
    }

    /// Gives a node a scheduling log in place of the one that it has, now and after a reset.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node that there is not; the node keeps its log when the command is refused.
    pub(crate) fn set_scheduling_log(
        &self,
        irql: &impl UpToDispatch,
        node: u32,
        log: SchedulingLog,
    ) -> Result<(), Refused> {
        let mut logs = self.scheduling_logs.lock(irql);
        let (logs, irql) = logs.parts();
        let place = logs.get_mut(node as usize).ok_or(refused(Reason::NoSuchNode))?;
        if self.is_running() {
            self.cmp.run(irql, Command::SetSchedulingLog, &log.arguments(node)).map_err(refused_command)?;
        }
        *place = Some(log);
        Ok(())
    }

    /// After a reset the nodes write no log until they are told where.
    fn restore_scheduling_logs(&self, irql: &impl UpToDispatch) {
        let mut logs = self.scheduling_logs.lock(irql);
        let (logs, irql) = logs.parts();
        for (node, log) in (0u32..).zip(logs) {
            if let Some(log) = log {
                // Refused only by a device that is lost, or by one without a paging process, which needs none.
                let _ = self.cmp.run(irql, Command::SetSchedulingLog, &log.arguments(node));
            }
        }
    }

    /// The F-state that a node, which there is, is to be in, now and after a reset.
    pub(crate) fn set_fstate(&self, irql: &impl UpToDispatch, node: u32, fstate: u32) {
        if let Some(place) = self.fstates.get(node as usize) {
            place.store(fstate, Ordering::Release);
            self.program_fstate(irql, node, fstate);
        }
    }

    /// The F-state that a node is to be in; `None` for a node that there is not.
    pub(crate) fn fstate(&self, node: u32) -> Option<u32> {
        self.fstates.get(node as usize).map(|fstate| fstate.load(Ordering::Acquire))
    }

    /// Programs the F-state. A device that does not run gets it when it runs again; a lost one is left alone.
    fn program_fstate(&self, irql: &impl UpToDispatch, node: u32, fstate: u32) {
        if self.is_running() {
            let _ = self.cmp.run(irql, Command::SetNodePower, &[u64::from(node), u64::from(fstate)]);
        }
    }

    /// After a reset every node is in F0; those that were asked into F1 go back there.
    fn restore_fstates(&self, irql: &impl UpToDispatch) {
        for (node, fstate) in (0u32..).zip(&self.fstates) {
            let fstate = fstate.load(Ordering::Acquire);
            if fstate != 0 {
                self.program_fstate(irql, node, fstate);
            }
        }
    }

    /// Stops the scheduler: nothing of it moves when this returns. Any level; waits for the device only, and not for ever.
    pub(crate) fn halt(&self) {
        self.running.store(false, Ordering::Release);
        self.cmp.set_run(false);
        // In D3 the device moves nothing, and its registers do not answer.
        if self.is_powered() {
            self.registers.write32(registers::CONTROL, Control::new().with_reset(true).into_bits());
            // One that does not come to an end, or is gone, cannot be helped.
            let _ = self.registers.settle_control();
        }
    }

    /// The function was removed by surprise: from now on nothing of it is touched. What is left to be given back is memory.
    pub(crate) fn lose(&self) {
        self.running.store(false, Ordering::Release);
        self.registers.lose();
        self.cmp.lose();
        self.host_aperture.registers.lose();
    }

    /// Undoes start and creation: masks the device, waits for interrupt routine and DPC, then gives everything back. Harmless
    /// when repeated.
    pub(crate) fn stop(&self, irql: &Passive) {
        if !self.started.swap(false, Ordering::AcqRel) {
            return;
        }
        self.note(Component::Adapter, &Event::Stopped {});
        self.halt();
        // A routine that ran at device level has returned when this ran. Without an interrupt there was none.
        let _ = self.dxgk.synchronize(irql, |_| ());
        self.wait_for_dpc(irql);
        if let Some(memory) = self.events.take_memory(irql) {
            self.dxgk.free_contiguous(irql, memory);
        }
        for mapping in [self.mappings.vram, self.mappings.doorbells, self.mappings.registers] {
            self.dxgk.unmap(irql, mapping);
        }
    }

    /// The parts of the GPU with which a doorbell is connected and disconnected.
    pub(crate) fn scheduler(&self) -> Scheduler<'_> {
        Scheduler { dxgk: &self.dxgk, cmp: &self.cmp, running: &self.running }
    }

    /// Returns when a DPC that was running has ended.
    pub(crate) fn wait_for_dpc(&self, irql: &impl UpToDispatch) {
        drop(self.dpc.lock(irql));
    }

    /// True between start and stop.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// True while the device takes commands and sends events.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// True while the device is in D0, as far as the operating system has said. Otherwise none of its registers may be touched.
    pub(crate) fn is_powered(&self) -> bool {
        self.cmp.is_powered()
    }

    /// Stops the device before it leaves D0: `drain` reports the events that are left, and the clocks are read. All queues are unmapped by then.
    pub(crate) fn sleep(&self, irql: &Passive, drain: impl Fn(&Device)) {
        self.sleep.ran.store(self.is_running(), Ordering::Release);
        self.cmp.set_run(false);
        if self.is_running() {
            self.registers.write32(registers::CONTROL, Control::new().into_bits());
            // Events that the device raised until it stopped are in the ring then.
            let _ = self.registers.settle_control();
            // Without an interrupt there is nothing to report.
            let _ = self.dxgk.synchronize(irql, |device| {
                drain(device);
                self.running.store(false, Ordering::Release);
            });
        }
        self.running.store(false, Ordering::Release);
        let [gpu, cpu] = self.clocks();
        self.sleep.cpu_clock.store(cpu, Ordering::Release);
        self.sleep.gpu_clock.store(gpu, Ordering::Release);
        self.cmp.set_powered(irql, false);
    }

    /// Starts the device in D0 again, where it has lost its state. True if it runs as it did before.
    pub(crate) fn wake(&self, irql: &Passive) -> bool {
        let [gpu, _] = self.clocks();
        self.cmp.set_powered(irql, true);
        self.registers.write64(registers::CLOCK_SET, gpu);
        self.sleep.ran.load(Ordering::Acquire) && self.run(irql).is_ok()
    }

    /// The GPU's clock and the processor's performance counter, read back to back. While the device is not in D0 its clock is what
    /// it will be set to.
    pub(crate) fn clocks(&self) -> [u64; 2] {
        if self.is_powered() {
            let gpu = self.registers.read64(registers::TIMESTAMP);
            return [gpu, nt::performance_counter().0];
        }
        let (cpu, frequency) = nt::performance_counter();
        let passed = cpu.saturating_sub(self.sleep.cpu_clock.load(Ordering::Acquire));
        let ticks = u128::from(passed) * u128::from(self.hardware.clock_hz) / u128::from(frequency.max(1));
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        [self.sleep.gpu_clock.load(Ordering::Acquire).saturating_add(ticks), cpu]
    }

    /// Says that a kernel-built buffer will write a monitored fence.
    pub(crate) fn note_monitored_signal(&self) {
        self.monitored_signals.store(true, Ordering::Release);
    }

    /// True if a completed packet may have written a monitored fence.
    pub(crate) fn builds_monitored_signals(&self) -> bool {
        self.monitored_signals.load(Ordering::Acquire)
    }

    /// Notes that a queue has submissions that wait for a free ring entry.
    pub(crate) fn note_waiting(&self) {
        self.waiting.store(true, Ordering::Release);
    }

    /// Takes the note of [`Gpu::note_waiting`]. True if there was one since the last call.
    pub(crate) fn take_waiting(&self) -> bool {
        self.waiting.swap(false, Ordering::AcqRel)
    }

    /// Root of the memory manager's own address space, once it was set.
    pub(crate) fn system_root(&self) -> Option<Location> {
        root_of(&self.system_root)
    }

    pub(crate) fn set_system_root(&self, root: Location) {
        self.system_root.store(root.into_bits(), Ordering::Release);
        self.write_paging_root();
    }

    /// True if the scheduler reaches fences through the paging process.
    pub(crate) fn maps_fences(&self) -> bool {
        self.claims.native_fence && self.hardware.caps.system_process_fences()
    }

    /// Tells the scheduler where the paging process is, if that is known.
    fn write_paging_root(&self) {
        if let Some(root) = self.system_root().filter(|_| self.is_powered()) {
            self.registers.write64(registers::PAGING_ROOT, root.into_bits());
        }
    }
}

/// The resources that a device has while it is being created; dropping it gives them back.
struct Undo<'a> {
    irql: &'a Passive,
    dxgk: Option<PoolBox<Dxgk>>,
    mappings: [Option<Mapping>; 3],
    events: Option<ContiguousMemory>,
}

/// The device without its ownership of mappings.
struct Parts {
    hardware: Hardware,
    claims: Claims,
    layout: Layout,
    mappings: Mappings,
    nodes: PoolVec<Node>,
    doorbells: Doorbells,
}

impl Undo<'_> {
    /// Maps what else there is.
    fn describe(
        &mut self,
        register_bar: Mapping,
        bar2: Range,
        bar4: Range,
        learned: impl Fn(&Hardware) -> Offers,
    ) -> Result<Parts, Refused> {
        let [_, doorbell_place, vram_place] = &mut self.mappings;
        let dxgk = self.dxgk.as_deref().ok_or(refused(Reason::SystemService))?;
        let hardware = Hardware::read(&Registers::new(register_bar)).ok_or(refused(Reason::WrongHardware))?;
        let offers = learned(&hardware);
        let layout =
            Layout::new(&hardware).ok_or(refused_with(Reason::WrongHardware, STATUS_INSUFFICIENT_RESOURCES))?;
        let pages = if hardware.caps.global_doorbell() { 1 } else { hardware.doorbells };
        let doorbell_size = u64::from(pages.max(1)) * campanile_hw::doorbell::DOORBELL_PAGE_SIZE;
        let doorbells = map_bar(self.irql, dxgk, bar2, doorbell_size, MEMORY_CACHING_TYPE::MmNonCached)?;
        *doorbell_place = Some(doorbells);
        let vram = map_bar(self.irql, dxgk, bar4, layout.reserved, MEMORY_CACHING_TYPE::MmNonCached)?;
        *vram_place = Some(vram);
        let mut nodes = PoolVec::new(Tag::QUEUE);
        for ordinal in 0..NODES {
            let offset = layout.rings + u64::from(ordinal) * NODE_RING_SIZE;
            let memory = vram
                .part(offset, NODE_RING_SIZE)
                .ok_or(refused_with(Reason::WrongHardware, STATUS_INSUFFICIENT_RESOURCES))?;
            let ring = Ring::new(memory, Location::new().with_address(offset))
                .ok_or(refused_with(Reason::WrongHardware, STATUS_INSUFFICIENT_RESOURCES))?;
            let save_area = layout.save_area().filter(|_| ordinal == NODE_COMPUTE);
            nodes.push(Node::new(ordinal, ring.with_save_area(save_area)))?;
        }
        Ok(Parts {
            hardware,
            claims: Claims::new(&hardware, feature::enabled(self.irql, dxgk, offers)),
            layout,
            mappings: Mappings { registers: register_bar, doorbells, vram },
            nodes,
            doorbells: Doorbells::new(doorbells, hardware.doorbells, hardware.caps.global_doorbell())?,
        })
    }

    /// Allocates what the device still needs and puts it together.
    fn finish(mut self, parts: Parts, window: PHYSICAL_ADDRESS) -> Result<PoolBox<Gpu>, Refused> {
        let dxgk = self.dxgk.as_deref().ok_or(refused(Reason::SystemService))?;
        self.events = Some(dxgk.allocate_contiguous(self.irql, EVENT_RING_SIZE as usize, parts.layout.caching())?);
        let numbers = PushLock::new(FreeNumbers::new(parts.layout.queues)?);
        let queues = QueueMap::new(parts.layout.queues)?;
        let fences = FenceIndex::new()?;
        let aperture = Aperture::new()?;
        let shown = parts.layout.host_aperture.map_or(0, |(_, pages)| pages);
        let host_aperture = HostAperture::new(Registers::new(parts.mappings.registers), shown)?;
        let mut place = PoolBox::<MaybeUninit<Gpu>>::uninit(Tag::DEVICE)?;
        let (Some(dxgk), Some(events)) = (self.dxgk.take(), self.events.take()) else {
            return Err(refused(Reason::SystemService));
        };
        self.mappings = [None; 3];
        place.write(Gpu {
            dxgk,
            hardware: parts.hardware,
            claims: parts.claims,
            layout: parts.layout,
            window: window.QuadPart.cast_unsigned(),
            registers: Registers::new(parts.mappings.registers),
            cmp: Cmp::new(Registers::new(parts.mappings.registers), parts.mappings.vram, parts.layout.record),
            nodes: parts.nodes,
            numbers,
            queues,
            doorbells: parts.doorbells,
            fences,
            fence_map: PushLock::new(()),
            events: EventRing::new(events),
            aperture,
            host_aperture,
            dpc: SpinLock::new(()),
            system_root: AtomicU64::new(0),
            mappings: parts.mappings,
            started: AtomicBool::new(true),
            running: AtomicBool::new(false),
            sleep: Sleep::default(),
            dispatches: Dispatches::new(),
            monitored_signals: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            fstates: [const { AtomicU32::new(0) }; NODES as usize],
            bands: SpinLock::new(Bands::unset()),
            scheduling_logs: SpinLock::new([None; NODES as usize]),
        });
        // SAFETY: written just now.
        Ok(unsafe { place.assume_init() })
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let Some(dxgk) = self.dxgk.as_deref() else { return };
        if let Some(events) = self.events.take() {
            dxgk.free_contiguous(self.irql, events);
        }
        for mapping in self.mappings.iter_mut().rev().filter_map(Option::take) {
            dxgk.unmap(self.irql, mapping);
        }
    }
}
