//! Start and stop of the memory manager: the system process, its devices and contexts, and processes of user mode.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::port::Port;
use crate::refusal::Failure;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::driver::Driver;
use crate::vidmm::joint_limit::beside_each_other;
use crate::vidmm::manager::{System, VidMm};
use crate::vidmm::moving::LeftLock;
use crate::vidmm::paging_work::{Paging, PagingFence, PagingNode};
use crate::vidmm::scheduler::{PagingContext, Scheduler};
use crate::vidmm::segment::Segments;
use crate::vidmm::va_space::VaSpace;

/// The time that a kernel thread sleeps between looks at queues of user mode.
const PAUSE: Duration = Duration::from_micros(200);
/// Most characters of a process name that the driver is told.
const NAME_MAX: usize = 260;

/// Identity for the next device, never used again.
pub(crate) fn next_device_id() -> u64 {
    static IDS: AtomicU64 = AtomicU64::new(1);
    IDS.fetch_add(1, Ordering::Relaxed)
}

/// The paging nodes as the scheduler runs them.
struct SchedulerNode {
    port: Arc<Port>,
    /// By engine.
    contexts: Vec<Arc<dyn PagingContext>>,
}

impl SchedulerNode {
    fn context(&self, engine: u32) -> Result<&Arc<dyn PagingContext>, NTSTATUS> {
        self.contexts.get(engine as usize).ok_or(STATUS_INVALID_PARAMETER)
    }
}

impl PagingNode for SchedulerNode {
    fn submit(&self, engine: u32, address: u64, size: u32, private: &mut [u8]) -> Result<u32, NTSTATUS> {
        Arc::clone(self.context(engine)?).submit(address, size, private)
    }

    fn is_complete(&self, packet: PagingFence) -> bool {
        self.context(packet.engine).is_ok_and(|context| context.is_complete(packet.fence))
    }

    fn wait(&self, packet: PagingFence) -> Result<(), NTSTATUS> {
        self.context(packet.engine)?.wait(packet.fence)
    }

    fn pause(&self) {
        // On a machine whose device is driven by whoever waits, sleeping would change nothing.
        if !self.port.relax() {
            std::thread::sleep(PAUSE);
        }
    }
}

impl VidMm {
    /// The memory manager of an adapter, as its capabilities describe it, whose paging work goes through `scheduler`.
    pub(crate) fn new(port: &Arc<Port>, scheduler: Arc<dyn Scheduler>) -> Arc<Self> {
        let caps = port.caps();
        let verifier = port.machine.verifier();
        let driver = Driver {
            miniport: Arc::clone(&port.miniport),
            context: port.context(),
            verifier: Arc::clone(verifier),
            mmu: caps.gpummu,
            levels: caps.levels.clone(),
            shape: caps.shape.clone(),
            engines: caps.engines,
            segments_of_engine: caps.segments.iter().filter(|segment| segment.engine == 0).count() as u32,
            paging_contexts: OnceLock::new(),
            scheduler: OnceLock::from(scheduler),
            map_aperture2: caps.driver.MemoryManagementCaps.Bits.MapAperture2Supported(),
            rescues: Arc::clone(port.machine.rescues()),
        };
        let segments = Segments::new(Arc::clone(port.machine.ram()), &caps.segments);
        let segments = segments.with_large_pages(driver.large_page());
        let paging = Paging::new(caps.paging_buffer_size, caps.paging_buffer_private_data_size);
        let shows = Arc::clone(port);
        let bars = Arc::new(move |address| shows.bar_at_bus_address(address));
        let gives = Arc::clone(port);
        let segments =
            segments.with_owners(Arc::new(move |address, len, owner| gives.give_bar_pages(address, len, owner)));
        let own = (caps.driver.InternalGpuVirtualAddressRangeStart, caps.driver.InternalGpuVirtualAddressRangeEnd);
        Self::of_parts(driver, segments, paging, bars, own)
    }

    /// Creates the system process, its two devices, the paging process with its page tables, and a context on every node.
    ///
    /// # Errors
    /// What the driver answered, or no memory; nothing exists then.
    pub(crate) fn start(self: &Arc<Self>, port: &Arc<Port>) -> Result<(), Failure> {
        let flags = DXGK_CREATEPROCESSFLAGS::new().with_SystemProcess(true);
        let (process, space) = self.create(4, "System", flags)?;
        let mut system = System { process, space, devices: Vec::new(), contexts: Vec::new() };
        let started = self.populate(port, &mut system);
        *lock(&self.system) = Some(system);
        if started.is_err() {
            self.stop();
        }
        started
    }

    fn populate(self: &Arc<Self>, port: &Arc<Port>, system: &mut System) -> Result<(), Failure> {
        for _ in 0..2 {
            let flags = DXGK_CREATEDEVICEFLAGS::new().with_SystemDevice(true);
            system.devices.push(self.create_device(system.process, next_device_id(), flags)?);
        }
        lock(&self.memory).prepare_paging(system.space.id())?;
        let caps = port.caps();
        let scheduler = self.driver.scheduler.get().ok_or(STATUS_INTERNAL_ERROR)?;
        let owner = system.devices.first().copied().ok_or(STATUS_INTERNAL_ERROR)?;
        for node in 0..caps.nodes.len() as u32 {
            let context = scheduler.create_paging_context(owner, node, &system.space)?;
            system.contexts.push(context);
        }
        let contexts = (0..caps.engines).map(|engine| {
            let node = caps.node_at(caps.paging_node, engine).and_then(|node| system.contexts.get(node as usize));
            node.cloned().ok_or(STATUS_INVALID_PARAMETER)
        });
        let contexts = contexts.collect::<Result<Vec<_>, NTSTATUS>>()?;
        let _ = self.driver.paging_contexts.set(contexts.iter().map(|context| context.kmd()).collect());
        let node = SchedulerNode { port: Arc::clone(port), contexts };
        lock(&self.memory).set_paging_node(Arc::new(node));
        Ok(())
    }

    /// Ends everything that start made. Processes have left the adapter before; what one of them left behind is freed and logged.
    pub(crate) fn stop(&self) {
        {
            let mut stopped = self.stopped.write();
            if std::mem::replace(&mut *stopped, true) {
                return;
            }
            // Whoever unlocks from here on finds its locks with its process.
            lock(&self.memory).hand_locks_over();
        }
        let system = lock(&self.system).take();
        self.wait_until_asked_nothing(None);
        let mut memory = lock(&self.memory);
        let finished = loop {
            match memory.wait_oldest() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(status) => break Err(status),
            }
        };
        let left: Vec<_> = memory.allocations.keys().copied().collect();
        let locks: Vec<_> = left.iter().filter_map(|id| memory.take_lock(*id)).collect();
        drop(memory);
        let windows = beside_each_other(locks, LeftLock::processes, LeftLock::leave);
        let mut memory = lock(&self.memory);
        windows.into_iter().flatten().for_each(|window| memory.close_window(window));
        for id in &left {
            // An address space that is gone with its process maps nothing any more.
            let freed = memory.free(*id);
            self.note_failure("freeing an allocation at stop", freed);
        }
        let finished = finished.and(memory.finish_moves());
        memory.abandon_paging();
        drop(memory);
        self.note_failure("paging work at stop", finished);
        if !left.is_empty() {
            self.driver.verifier.log(format!("{} allocations were left when the adapter stopped", left.len()));
        }
        self.report_freed_now();
        if let Some(system) = system {
            for context in system.contexts.iter().rev() {
                context.destroy();
            }
        }
        // Newest first: devices of user mode before those of the system, then processes in the same order.
        let known = std::mem::take(&mut *lock(&self.known));
        for device in known.devices.values().rev() {
            self.destroy_device_on_driver(*device);
        }
        let spaces: Vec<_> = lock(&self.memory).spaces.keys().copied().collect();
        for space in spaces {
            // The first of a process stands for all of it.
            let ended = lock(&self.memory).destroy_space(space);
            self.note_failure("ending an address space", ended);
        }
        for process in known.processes.iter().rev() {
            self.destroy_process_on_driver(*process);
        }
    }

    /// DxgkDdiCreateProcess and an address space for a process of user mode. [d3dkmddi: DXGKARG_CREATEPROCESS]
    ///
    /// # Errors
    /// What the driver answered; no memory for the root page table.
    pub(crate) fn create_process(
        self: &Arc<Self>,
        id: u64,
        name: &str,
    ) -> Result<(KmdHandle, Arc<AddressSpace>), Failure> {
        let _running = self.enter()?;
        self.create(id, name, DXGK_CREATEPROCESSFLAGS::new())
    }

    fn create(
        self: &Arc<Self>,
        id: u64,
        name: &str,
        flags: DXGK_CREATEPROCESSFLAGS,
    ) -> Result<(KmdHandle, Arc<AddressSpace>), Failure> {
        let mut text: Vec<u16> = name.encode_utf16().take(NAME_MAX).chain([0]).collect();
        let mut args = DXGKARG_CREATEPROCESS::zeroed();
        args.hDxgkProcess = KmdHandle::of_process(id).raw();
        args.Flags = flags;
        args.ProcessNameLength = text.len() as u32 - 1;
        args.pProcessName = text.as_mut_ptr();
        self.driver.miniport.create_process(self.driver.context.raw(), &mut args).ok()?;
        let member = ("DXGKARG_CREATEPROCESS", "hKmdProcess");
        let process = KmdHandle::new(args.hKmdProcess);
        let process = process.answered(core::ptr::null_mut(), "DxgkDdiCreateProcess", member)?;
        let made = self.with_eviction(None, |memory, request| {
            let va = VaSpace::new(self.driver.shape.address_bits(), self.driver_range);
            let va = va.with_large_pages(self.driver.large_page());
            memory.create_space(process, flags.SystemProcess(), va, request)
        });
        match made {
            Ok(id) => {
                lock(&self.known).processes.push(process);
                let space = AddressSpace::new(id, self.driver.shape.entries(self.driver.shape.root()));
                lock(&self.known).spaces.insert(id, Arc::downgrade(&space));
                Ok((process, space))
            }
            Err(status) => {
                self.destroy_process_on_driver(process);
                Err(status.into())
            }
        }
    }

    /// Ends a process of [`VidMm::create_process`]. Its devices are gone.
    pub(crate) fn destroy_process(&self, kmd_process: KmdHandle, space: &AddressSpace) {
        // Once the adapter has stopped, nothing of the process is left.
        let Ok(_running) = self.enter() else { return };
        let ended = lock(&self.memory).destroy_space(space.id());
        lock(&self.known).spaces.remove(&space.id());
        self.note_failure("ending an address space", ended);
        self.tell_budgets();
        let known = {
            let mut known = lock(&self.known);
            let place = known.processes.iter().position(|process| *process == kmd_process);
            place.map(|place| known.processes.remove(place))
        };
        if let Some(process) = known {
            self.destroy_process_on_driver(process);
        }
    }

    fn destroy_process_on_driver(&self, process: KmdHandle) {
        self.must_succeed(self.driver.miniport.destroy_process(self.driver.context.raw(), process.raw()));
    }

    /// DxgkDdiCreateDevice for a device of user mode.
    ///
    /// # Errors
    /// What the driver answered; STATUS_DEVICE_REMOVED on a stopped adapter.
    pub(crate) fn create_user_device(&self, process: KmdHandle, id: u64) -> Result<KmdHandle, Failure> {
        let _running = self.enter()?;
        self.create_device(process, id, DXGK_CREATEDEVICEFLAGS::new())
    }

    /// [d3dkmddi: DXGKARG_CREATEDEVICE]
    fn create_device(&self, process: KmdHandle, id: u64, flags: DXGK_CREATEDEVICEFLAGS) -> Result<KmdHandle, Failure> {
        let given = core::ptr::without_provenance_mut(id as usize);
        let mut args = DXGKARG_CREATEDEVICE::zeroed();
        args.hDevice = given;
        args.u = DXGKARG_CREATEDEVICE_Union { Flags: flags };
        args.hKmdProcess = process.raw();
        self.driver.miniport.create_device(self.driver.context.raw(), &mut args).ok()?;
        let member = ("DXGKARG_CREATEDEVICE", "hDevice");
        let device = KmdHandle::new(args.hDevice);
        let device = device.answered(given, "DxgkDdiCreateDevice", member)?;
        lock(&self.known).devices.insert(id, device);
        Ok(device)
    }

    /// Ends a device of user mode with what is left of its memory. Its queues are gone.
    pub(crate) fn destroy_user_device(&self, id: u64) {
        self.release_device(id);
        let Ok(_running) = self.enter() else { return };
        if let Some(device) = { lock(&self.known).devices.remove(&id) } {
            self.destroy_device_on_driver(device);
        }
    }

    fn destroy_device_on_driver(&self, device: KmdHandle) {
        self.must_succeed(self.driver.miniport.destroy_device(device.raw()));
    }
}
