//! What two threads may do to one object at once: a scene with one object of every kind, and a table of calls.

use std::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::offer;
use crate::Failure;
use crate::rig::{Memory, RawQueue, Rig, map_operation, user_mode_flags};

/// Objects of a scene, as bits.
type Objects = u32;

const DEVICE: Objects = 1 << 0;
const PAGING_QUEUE: Objects = 1 << 1;
/// A hardware context without queues.
const CONTEXT: Objects = 1 << 2;
/// A queue without a doorbell.
const QUEUE: Objects = 1 << 3;
/// A doorbell, and so its queue and its context.
const DOORBELL: Objects = 1 << 4;
const KERNEL_QUEUE: Objects = 1 << 5;
const PACKETS: Objects = 1 << 6;
const ALLOCATION: Objects = 1 << 7;
/// A range of GPU virtual addresses.
const ADDRESS: Objects = 1 << 8;
const NATIVE: Objects = 1 << 9;
const MONITORED: Objects = 1 << 10;
const SHARED: Objects = 1 << 11;

/// Submissions that a scene has commands for.
const SUBMISSIONS: u64 = 16;
/// Bytes of commands of each.
const COMMANDS: u64 = 64;
/// Bytes of the allocation.
const BYTES: u64 = 64 << 10;

/// Objects of several kinds, on a device of their own. A handle that is not needed is 0.
pub struct Scene {
    rig: Rig,
    context: D3DKMT_HANDLE,
    queue: D3DKMT_HANDLE,
    rings: Option<[Memory; 2]>,
    rung: Option<RawQueue>,
    kernel_queue: D3DKMT_HANDLE,
    packets: D3DKMT_HANDLE,
    /// Address of commands.
    commands: u64,
    submitted: AtomicU64,
    memory: D3DKMT_HANDLE,
    reserved: u64,
    native: D3DKMT_HANDLE,
    monitored: D3DKMT_HANDLE,
    shared: D3DKMT_HANDLE,
}

/// A call that two threads may make at once. It looks at no memory of an object, which may be gone.
pub struct Operation {
    /// The thunk, and what it is about where that is not clear.
    pub name: &'static str,
    needs: Objects,
    taken: Objects,
    blocks: bool,
    run: fn(&Scene) -> NTSTATUS,
}

impl Operation {
    const fn uses(name: &'static str, needs: Objects, run: fn(&Scene) -> NTSTATUS) -> Self {
        Self { name, needs: needs | DEVICE, taken: 0, blocks: false, run }
    }

    const fn takes(name: &'static str, taken: Objects, run: fn(&Scene) -> NTSTATUS) -> Self {
        Self { name, needs: taken | DEVICE, taken, blocks: false, run }
    }

    /// As [`Operation::uses`], for one that comes back when the fences are signalled or gone.
    const fn waits(name: &'static str, needs: Objects, run: fn(&Scene) -> NTSTATUS) -> Self {
        Self { name, needs: needs | DEVICE, taken: 0, blocks: true, run }
    }

    /// True if both use a common object.
    pub fn meets(&self, other: &Self) -> bool {
        self.needs & other.needs != 0
    }

    /// True if both use a common object beside their device, or one of them destroys that.
    pub fn meets_closely(&self, other: &Self) -> bool {
        self.needs & other.needs & !DEVICE != 0 || (self.taken | other.taken) & DEVICE != 0
    }

    /// True if it destroys an object.
    pub fn destroys(&self) -> bool {
        self.taken != 0
    }

    /// True if it destroys an object that the other operation needs.
    pub fn takes_from(&self, other: &Self) -> bool {
        self.taken & other.needs != 0
    }

    /// Makes the call.
    pub fn run(&self, scene: &Scene) -> NTSTATUS {
        (self.run)(scene)
    }

    /// True if it may not come back before [`Scene::let_go`].
    pub fn blocks(&self) -> bool {
        self.blocks
    }
}

/// Every operation.
pub const OPERATIONS: &[Operation] = &[
    Operation::uses("CreatePagingQueue", 0, create_paging_queue),
    Operation::takes("DestroyPagingQueue", PAGING_QUEUE, destroy_paging_queue),
    Operation::uses("CreateAllocation2", 0, |scene| status(scene.rig.create(4096, Placement::System))),
    Operation::takes("DestroyAllocation2", ALLOCATION, |scene| scene.rig.destroy_allocation(scene.memory)),
    Operation::uses("MakeResident", PAGING_QUEUE | ALLOCATION, make_resident),
    Operation::uses("Evict", ALLOCATION, |scene| scene.rig.evict(scene.memory)),
    Operation::uses("OfferAllocations", ALLOCATION, |scene| {
        offer::offer_with(&scene.rig, &[scene.memory], offer::HIGH, D3DKMT_OFFER_FLAGS::new())
    }),
    Operation::uses("ReclaimAllocations2", PAGING_QUEUE | ALLOCATION, reclaim),
    Operation::uses("MapGpuVirtualAddress", PAGING_QUEUE | ALLOCATION, map),
    Operation::takes("FreeGpuVirtualAddress", ADDRESS, |scene| scene.rig.free(scene.reserved, BYTES)),
    Operation::uses("UpdateGpuVirtualAddress", ADDRESS | ALLOCATION | CONTEXT | MONITORED, update),
    Operation::uses("Lock2", ALLOCATION, |scene| status(scene.rig.lock(scene.memory))),
    Operation::uses("Unlock2", ALLOCATION, |scene| scene.rig.unlock(scene.memory)),
    Operation::uses("CreateHwContext", 0, |scene| status(scene.rig.context(NODE_COPY))),
    Operation::takes("DestroyHwContext", CONTEXT, destroy_context),
    Operation::uses("SetContextSchedulingPriority", CONTEXT, |scene| scene.rig.set_priority(scene.context, -1)),
    Operation::uses("CreateHwQueue", CONTEXT, |scene| {
        status(scene.rig.hw_queue(scene.context, D3DDDI_CREATEHWQUEUEFLAGS::new()))
    }),
    Operation::takes("DestroyHwQueue", QUEUE, |scene| destroy_queue(scene, scene.queue)),
    Operation::uses("CreateDoorbell", QUEUE, |scene| create_doorbell(scene, scene.queue, false)),
    Operation::uses("CreateDoorbell for another ring", DOORBELL, |scene| {
        create_doorbell(scene, scene.rung_queue(), true)
    }),
    Operation::uses("ConnectDoorbell", DOORBELL, |scene| {
        scene.rung.as_ref().map_or(STATUS_UNSUCCESSFUL, |queue| scene.rig.connect(queue.doorbell))
    }),
    Operation::uses("NotifyWorkSubmission", DOORBELL, |scene| {
        scene.rung.as_ref().map_or(STATUS_UNSUCCESSFUL, |queue| scene.rig.notify(queue.doorbell))
    }),
    Operation::takes("DestroyDoorbell", DOORBELL, destroy_doorbell),
    Operation::uses("DestroyHwQueue with a doorbell", DOORBELL, |scene| destroy_queue(scene, scene.rung_queue())),
    Operation::uses("SubmitCommandToHwQueue", KERNEL_QUEUE, submit_to_queue),
    Operation::uses("SubmitWaitForSyncObjectsToHwQueue", KERNEL_QUEUE | NATIVE, |scene| {
        scene.rig.queue_wait(scene.kernel_queue, &[(scene.native, 0)])
    }),
    Operation::uses("SubmitSignalSyncObjectsToHwQueue", KERNEL_QUEUE | MONITORED, |scene| {
        let signals = [(scene.monitored, 1)];
        scene.rig.queue_signal(&[scene.kernel_queue], &signals, D3DDDICB_SIGNALFLAGS::new())
    }),
    Operation::takes("DestroyHwQueue of the kernel", KERNEL_QUEUE, |scene| destroy_queue(scene, scene.kernel_queue)),
    Operation::uses("CreateContextVirtual", 0, |scene| status(scene.rig.packet_context(NODE_COMPUTE))),
    Operation::uses("SubmitCommand", PACKETS, |scene| {
        scene.rig.submit_buffer(scene.packets, scene.commands + SUBMISSIONS * COMMANDS, 8)
    }),
    Operation::uses("SetContextSchedulingPriority of packets", PACKETS, |scene| {
        scene.rig.set_priority(scene.packets, -1)
    }),
    Operation::takes("DestroyContext", PACKETS, |scene| scene.rig.destroy_packet_context(scene.packets)),
    Operation::uses("CreateNativeFence", 0, |scene| status(scene.rig.create_fence(0))),
    Operation::uses("CreateSynchronizationObject2", 0, |scene| {
        status(scene.rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new()))
    }),
    Operation::uses("SignalSynchronizationObjectFromCpu", NATIVE | MONITORED | SHARED, Scene::let_go),
    Operation::waits("WaitForSynchronizationObjectFromCpu", NATIVE | MONITORED | SHARED, |scene| {
        scene.rig.wait(&scene.fences(), &vec![1; scene.fences().len()], true)
    }),
    Operation::uses("OpenNativeFenceFromNtHandle", SHARED, share_and_open),
    Operation::takes("DestroySynchronizationObject, native", NATIVE, |scene| scene.rig.destroy_fence(scene.native)),
    Operation::takes("DestroySynchronizationObject, monitored", MONITORED, |scene| {
        scene.rig.destroy_fence(scene.monitored)
    }),
    Operation::takes("DestroySynchronizationObject, shared", SHARED, |scene| scene.rig.destroy_fence(scene.shared)),
    Operation::uses("GetDeviceState", 0, |scene| status(scene.rig.kmt.execution_state(scene.rig.device))),
    Operation::takes("DestroyDevice", DEVICE, |scene| scene.rig.destroy()),
];

/// A success, or any failure.
fn status<T, E>(answer: Result<T, E>) -> NTSTATUS {
    if answer.is_ok() { STATUS_SUCCESS } else { STATUS_UNSUCCESSFUL }
}

impl Scene {
    /// A scene on a device of its own, with the objects that these operations need.
    ///
    /// # Errors
    /// The system refuses one of them.
    pub fn new(rig: Rig, operations: [&Operation; 2]) -> Result<Self, Failure> {
        let needs = operations.iter().fold(0, |needs, operation| needs | operation.needs);
        let has = |objects: Objects| needs & objects != 0;
        let made = |what: &'static str| move |status: NTSTATUS| Failure::new(format!("{what}: {status}"));
        let mut scene = Self::empty(rig);
        let rig = &scene.rig;
        if has(CONTEXT) {
            scene.context = rig.context(NODE_COMPUTE).map_err(made("a context"))?;
        }
        if has(QUEUE) {
            let context = rig.context(NODE_COMPUTE).map_err(made("the context of a queue"))?;
            scene.queue = rig.hw_queue(context, user_mode_flags()).map_err(made("a queue"))?.hHwQueue;
        }
        if has(DOORBELL) {
            scene.rung = Some(rig.queue(NODE_COPY)?);
        }
        if has(QUEUE | DOORBELL) {
            let ring = || rig.memory(4096, Placement::SystemUncached);
            scene.rings = Some([ring()?, ring()?]);
        }
        if has(KERNEL_QUEUE) {
            let context = rig.context(NODE_COMPUTE).map_err(made("the context of a queue of the kernel"))?;
            let flags = D3DDDI_CREATEHWQUEUEFLAGS::new();
            scene.kernel_queue = rig.hw_queue(context, flags).map_err(made("a queue of the kernel"))?.hHwQueue;
        }
        if has(PACKETS) {
            scene.packets = rig.packet_context(NODE_COMPUTE).map_err(made("a context of packets"))?;
        }
        if has(KERNEL_QUEUE | PACKETS) {
            scene.commands = commands(rig)?;
        }
        if has(ALLOCATION) {
            scene.memory = rig.memory(BYTES, Placement::Vram)?.handle;
        }
        if has(ADDRESS) {
            scene.reserved = rig.reserve(BYTES, true)?;
        }
        if has(NATIVE) {
            scene.native = rig.fence(0)?.handle;
        }
        if has(MONITORED) {
            scene.monitored = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?.handle;
        }
        if has(SHARED) {
            scene.shared = rig.shared_fence(0)?.handle;
        }
        Ok(scene)
    }

    fn empty(rig: Rig) -> Self {
        Self {
            rig,
            context: 0,
            queue: 0,
            rings: None,
            rung: None,
            kernel_queue: 0,
            packets: 0,
            commands: 0,
            submitted: AtomicU64::new(0),
            memory: 0,
            reserved: 0,
            native: 0,
            monitored: 0,
            shared: 0,
        }
    }

    fn fences(&self) -> Vec<D3DKMT_HANDLE> {
        [self.native, self.monitored, self.shared].into_iter().filter(|fence| *fence != 0).collect()
    }

    fn rung_queue(&self) -> D3DKMT_HANDLE {
        self.rung.as_ref().map_or(0, |queue| queue.queue)
    }

    /// Signals what is left of the fences, so that whoever waits for them comes back.
    pub fn let_go(&self) -> NTSTATUS {
        let signal = |answer: NTSTATUS, fence| match self.rig.signal(&[fence], &[1]) {
            STATUS_SUCCESS => answer,
            status => status,
        };
        self.fences().into_iter().fold(STATUS_SUCCESS, signal)
    }

    /// Destroys the device with what is left on it.
    pub fn end(&self) -> NTSTATUS {
        self.rig.destroy()
    }
}

/// Memory with a command buffer for each submission of a queue, and one for packets; its address.
fn commands(rig: &Rig) -> Result<u64, Failure> {
    let memory = rig.memory(4096, Placement::System)?;
    let view = rig.view(memory)?;
    for number in 0..SUBMISSIONS {
        let done = Packet::Progress(packet::Progress { handle: 0, value: number + 1 });
        view.write(number * COMMANDS, &done.encode()[..done.size()]);
    }
    let nop = Packet::Nop(packet::Nop {});
    view.write(SUBMISSIONS * COMMANDS, &nop.encode()[..nop.size()]);
    Ok(memory.address)
}

fn create_paging_queue(scene: &Scene) -> NTSTATUS {
    let mut arguments = D3DKMT_CREATEPAGINGQUEUE::zeroed();
    arguments.hDevice = scene.rig.device;
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTCreatePagingQueue, &mut arguments)
}

fn destroy_paging_queue(scene: &Scene) -> NTSTATUS {
    let mut arguments = D3DDDI_DESTROYPAGINGQUEUE::zeroed();
    arguments.hPagingQueue = scene.rig.paging_queue;
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTDestroyPagingQueue, &mut arguments)
}

fn make_resident(scene: &Scene) -> NTSTATUS {
    let mut handle = scene.memory;
    let mut arguments = D3DDDI_MAKERESIDENT::zeroed();
    arguments.hPagingQueue = scene.rig.paging_queue;
    (arguments.NumAllocations, arguments.AllocationList) = (1, &raw mut handle);
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTMakeResident, &mut arguments)
}

fn reclaim(scene: &Scene) -> NTSTATUS {
    let (mut handle, mut result) = (scene.memory, 0);
    let mut arguments = D3DKMT_RECLAIMALLOCATIONS2::zeroed();
    arguments.hPagingQueue = scene.rig.paging_queue;
    (arguments.NumAllocations, arguments.HandleList) = (1, &raw mut handle);
    arguments.u = D3DKMT_RECLAIMALLOCATIONS2_Union { pDiscarded: &raw mut result };
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTReclaimAllocations2, &mut arguments)
}

fn map(scene: &Scene) -> NTSTATUS {
    let mut request = scene.rig.map_request(scene.memory, BYTES);
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTMapGpuVirtualAddress, &mut request)
}

fn update(scene: &Scene) -> NTSTATUS {
    let operations = [map_operation((scene.reserved, BYTES), scene.memory, 0, 0)];
    scene.rig.update(&scene.rig.update_request(scene.context, (scene.monitored, 0), &operations))
}

fn destroy_context(scene: &Scene) -> NTSTATUS {
    let mut arguments = D3DKMT_DESTROYHWCONTEXT { hHwContext: scene.context };
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTDestroyHwContext, &mut arguments)
}

fn destroy_queue(scene: &Scene, queue: D3DKMT_HANDLE) -> NTSTATUS {
    scene.rig.destroy_hw_queue(queue)
}

fn create_doorbell(scene: &Scene, queue: D3DKMT_HANDLE, resize: bool) -> NTSTATUS {
    let flags = D3DKMT_CREATE_DOORBELL_FLAGS::new().with_ResizeRingBufferOperation(resize);
    let Some([ring, control]) = scene.rings else { return STATUS_UNSUCCESSFUL };
    status(scene.rig.doorbell_with_flags(queue, ring, control, flags))
}

fn destroy_doorbell(scene: &Scene) -> NTSTATUS {
    let Some(queue) = &scene.rung else { return STATUS_UNSUCCESSFUL };
    let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell.handle };
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments)
}

fn submit_to_queue(scene: &Scene) -> NTSTATUS {
    let number = scene.submitted.fetch_add(1, Ordering::Relaxed) % SUBMISSIONS;
    let mut arguments = D3DKMT_SUBMITCOMMANDTOHWQUEUE::zeroed();
    (arguments.hHwQueue, arguments.HwQueueProgressFenceId) = (scene.kernel_queue, number + 1);
    arguments.CommandBuffer = scene.commands + number * COMMANDS;
    arguments.CommandLength = Packet::Progress(packet::Progress { handle: 0, value: 0 }).size() as u32;
    scene.rig.kmt.call(scene.rig.kmt.table().D3DKMTSubmitCommandToHwQueue, &mut arguments)
}

fn share_and_open(scene: &Scene) -> NTSTATUS {
    let Ok(shared) = scene.rig.share(&[scene.shared]) else { return STATUS_UNSUCCESSFUL };
    let opened = scene.rig.try_open(shared);
    let closed = shared.close();
    if opened.is_ok() { closed } else { STATUS_UNSUCCESSFUL }
}
