//! Packet scheduling: contexts of packets on every node, preemption, waits and signals of the operating system, faults, and the
//! model beside hardware queues and without them.

use campanile_hw::packet::Packet;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODE_PAGING};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS};
use wddm_ddi::types::D3DKMT_HANDLE;

use super::fault::wait_for_error;
use crate::kmt::{BAD_HANDLE, DEVICE_LOST, WRONG_KIND};
use crate::rig::{Memory, PacketQueue, RawFence, Rig, View, copy, fill, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Packet scheduling";
    "Packet.EveryNodeRunsContexts" on Boot::Shared, "dxgkarg_createcontext":
        "Contexts of packets can be created on every node, in any number, and each runs what is submitted to it."
        holds [Tdr 3]
        => every_node;
    "Packet.BothModelsSideBySide" needs UserModeSubmission on Boot::Shared, "dxgkarg_submitcommandvirtual":
        "Contexts of packets and hardware queues of one device run on one node, in the order that native fences between them ask for."
        => side_by_side;
    "Packet.WaitsAndSignalsKeepTheirPlace" needs NativeFence on Boot::Shared, "context-monitoring":
        "Waits and signals of monitored and native fences that are queued to a context take effect between the packets around them."
        holds [ContextMonitoring 10, ContextMonitoring 16]
        => waits_and_signals;
    "Packet.SignalAtSubmissionDoesNotWait" needs NativeFence on Boot::Shared, "d3dkmtsignalsynchronizationobjectfromgpu2":
        "A signal of a context with SignalAtSubmission does not wait for packets before it, while one without does."
        holds [ContextMonitoring 10]
        => signal_at_submission;
    "Packet.NullRenderingRunsNothing" needs NativeFence on Boot::Shared, "d3dkmt_submitcommandflags":
        "A buffer submitted with NullRendering completes in order and does nothing; the same buffer without it does."
        => null_rendering;
    "Packet.BroadcastRunsOnEveryContext" needs NativeFence on Boot::Shared, "d3dkmt_submitcommand":
        "Commands that are submitted to several contexts run on each of them, behind what that one was given before; with a handle of another device or of nothing among them they run on none."
        => broadcast;
    "Packet.HeldContextHoldsNoOther" needs NativeFence on Boot::Shared, "context-monitoring":
        "A context that waits for a fence blocks its own work only, and the call that queued the wait has returned."
        holds [ContextMonitoring 16]
        => held_alone;
    "Packet.HigherPriorityPreemptsAWait" needs NativeFence on Boot::Fresh, "gpu-preemption":
        "A packet that waits in hardware is preempted for a context of higher priority, and goes on afterwards where it stopped."
        => preempted_wait;
    "Packet.EqualContextsRunInTurn" needs NativeFence on Boot::Fresh, "gpu-preemption":
        "A packet that waits in hardware for a packet of an equal context behind it is preempted for it, and no work is done twice."
        => turns;
    "Packet.PagingGoesOnBesideAWait" needs NativeFence on Boot::Fresh, "gpu-preemption":
        "The memory manager's packets get past a packet of user mode that waits in hardware on the paging node."
        => paging_beside_wait;
    "Packet.FaultCostsItsDevice" on Boot::Shared, "dxgkargcb_notify_interrupt_data":
        "A page fault in a packet puts its device in error; packets of other devices on the node go on."
        => fault;
    "Packet.RefusedBufferCostsItsDevice" on Boot::Shared, "dxgkddi_submitcommandvirtual":
        "A buffer that the driver refuses puts its device in error, and those behind it run."
        => refused_buffer;
    "Packet.DestructionWaitsForPackets" on Boot::Shared, "d3dkmtdestroycontext":
        "A context is destroyed when what was submitted to it is done; its handle is stale then."
        => destruction;
    "Packet.BlockedWorkHasALimit" needs NativeFence on Boot::Shared, "d3dkmtsubmitcommand":
        "A context takes no more than a number of submissions, whether the system queues them or the node, and takes more when some are done."
        => limit;
    "Packet.HandlesAreChecked" needs HardwareScheduling, NativeFence on Boot::Shared, "d3dkmtsubmitcommand":
        "Handles of nothing, of other objects and of contexts that are gone are refused by every call about contexts of packets."
        => handles;
}

const BYTES: u64 = 4096;

/// Memory that the CPU sees.
pub struct Plot {
    pub memory: Memory,
    pub view: View,
}

impl Plot {
    pub fn new(rig: &Rig) -> Result<Self, Failure> {
        let memory = rig.memory(BYTES, Placement::SystemUncached)?;
        Ok(Self { memory, view: rig.view(memory)? })
    }

    pub fn word(&self, index: u64) -> u32 {
        let bytes = self.view.read(4 * index, 4);
        bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Writes a word from the GPU.
    pub fn write(&self, index: u64, value: u32) -> Packet {
        fill(self.memory.address + 4 * index, 4, value)
    }

    /// Copies a word on the GPU.
    pub fn copy(&self, to: u64, from: u64) -> Packet {
        copy(self.memory.address + 4 * to, self.memory.address + 4 * from, 4)
    }
}

pub fn prioritise(rig: &Rig, queue: &PacketQueue, priority: i32) -> Result<(), Failure> {
    granted(rig.set_priority(queue.context, priority), "setting a priority")
}

pub fn runs(rig: &Rig, node: u32) -> Result<(), Failure> {
    let plot = Plot::new(rig)?;
    let mut queues = (0..5).map(|_| rig.packet_queue(node)).collect::<Result<Vec<_>, _>>()?;
    for round in 0..3 {
        for (index, queue) in (0u64..).zip(&mut queues) {
            rig.packet_submit(queue, &[plot.write(index, round), plot.copy(index + 10, index)])?;
        }
    }
    for (index, queue) in (0u64..).zip(&queues) {
        rig.packet_wait(queue, 3)?;
        ensure_eq!((plot.word(index), plot.word(index + 10)), (2, 2), "words of context {index} on node {node}");
        granted(rig.destroy_packet_context(queue.context), "D3DKMTDestroyContext")?;
    }
    Ok(())
}

fn every_node(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        runs(&rig, node)?;
    }
    let beyond = rig.packet_context(NODE_PAGING + 1).err().unwrap_or(STATUS_SUCCESS);
    refused(beyond, crate::kmt::BAD_ARGUMENT, "a context on a node that does not exist")
}

fn side_by_side(case: &Case) -> Result<(), Failure> {
    const ROUNDS: u64 = 20;
    let rig = case.rig()?;
    let mut hardware = rig.queue(NODE_COMPUTE)?;
    let mut packets = rig.packet_queue(NODE_COMPUTE)?;
    let (there, back, plot) = (rig.fence(0)?, rig.fence(0)?, Plot::new(&rig)?);
    granted(rig.connect(hardware.doorbell), "D3DKMTConnectDoorbell")?;
    for round in 1..=ROUNDS {
        // The hardware queue writes, the context copies, the hardware queue overwrites.
        let write = plot.write(0, round as u32);
        rig.submit(&mut hardware, &[back.wait(round - 1), write, there.signal(round)])?;
        granted(rig.context_wait(packets.context, &[(there.handle, round)]), "a wait of the context")?;
        rig.packet_submit(&mut packets, &[plot.copy(round, 0), back.signal(round)])?;
    }
    rig.packet_wait(&packets, ROUNDS)?;
    for round in 1..=ROUNDS {
        ensure_eq!(plot.word(round), round as u32, "what the context copied in round {round}");
    }
    Ok(())
}

fn waits_and_signals(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let plot = Plot::new(&rig)?;
    for native in [false, true] {
        let fence = || if native { rig.fence(0) } else { rig.monitored_fence(0, Default::default()) };
        let (gate, done): (RawFence, RawFence) = (fence()?, fence()?);
        let mut queue = rig.packet_queue(NODE_COPY)?;
        plot.view.fill(0);
        rig.packet_submit(&mut queue, &[plot.write(0, 1)])?;
        granted(rig.context_signal(queue.context, &[(done.handle, 1)]), "a signal")?;
        granted(rig.context_wait(queue.context, &[(gate.handle, 5)]), "a wait")?;
        rig.packet_submit(&mut queue, &[plot.copy(2, 1)])?;
        granted(rig.context_signal(queue.context, &[(done.handle, 2)]), "a signal")?;
        granted(rig.wait(&[done.handle], &[1], false), "the wait for what was not blocked")?;
        ensure_eq!((plot.word(0), queue.progress.value.load()), (1, 1), "what ran before the wait");
        // What is behind the wait sees what was written while it was blocked.
        plot.view.write(4, &7u32.to_le_bytes());
        granted(rig.signal(&[gate.handle], &[5]), "the signal of the CPU")?;
        granted(rig.wait(&[done.handle], &[2], false), "the wait for what was blocked")?;
        ensure_eq!((plot.word(2), queue.progress.value.load()), (7, 2), "what ran behind the wait");
    }
    Ok(())
}

fn signal_at_submission(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let monitored = || rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new());
    let (gate, early, late) = (rig.fence(0)?, monitored()?, monitored()?);
    let mut queue = rig.packet_queue(NODE_COMPUTE)?;
    // The GPU itself is blocked, so that a packet that was handed over is not done.
    rig.packet_submit(&mut queue, &[gate.wait(1)])?;
    let at_once = D3DDDICB_SIGNALFLAGS::new().with_SignalAtSubmission(true);
    granted(rig.context_signal2(&[queue.context], &[(early.handle, 1)], at_once), "the signal at submission")?;
    let plain = D3DDDICB_SIGNALFLAGS::new();
    granted(rig.context_signal2(&[queue.context], &[(late.handle, 1)], plain), "the other signal")?;
    granted(rig.wait(&[early.handle], &[1], false), "the wait for the signal at submission")?;
    ensure_eq!((late.value.load(), queue.progress.value.load()), (0, 0), "the other signal, and the packet");
    granted(rig.signal(&[gate.handle], &[1]), "opening the gate")?;
    granted(rig.wait(&[late.handle], &[1], false), "the wait for the other signal")
}

fn broadcast(case: &Case) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let (plot, commands, done) = (Plot::new(&rig)?, Plot::new(&rig)?, rig.fence(0)?);
    let packet = plot.write(0, 7);
    commands.view.write(0, &packet.encode()[..packet.size()]);
    let context =
        |rig: &Rig| rig.packet_context(NODE_COMPUTE).map_err(|status| Failure::new(format!("a context: {status}")));
    let contexts = [context(&rig)?, context(&rig)?, context(&rig)?];
    let gates = [rig.fence(0)?, rig.fence(0)?, rig.fence(0)?];
    for (context, gate) in contexts.iter().zip(&gates) {
        granted(rig.context_wait(*context, &[(gate.handle, 1)]), "a wait")?;
    }
    let submit = |contexts: &[D3DKMT_HANDLE], count: u32| {
        let mut submit = D3DKMT_SUBMITCOMMAND::zeroed();
        (submit.Commands, submit.CommandLength) = (commands.memory.address, packet.size() as u32);
        submit.BroadcastContextCount = count;
        submit.BroadcastContext.iter_mut().zip(contexts).for_each(|(place, context)| *place = *context);
        rig.kmt.call(rig.kmt.table().D3DKMTSubmitCommand, &mut submit)
    };
    granted(submit(&contexts, 3), "one buffer for three contexts")?;
    for (number, (context, gate)) in contexts.iter().zip(&gates).enumerate() {
        plot.view.fill(0);
        granted(rig.context_signal(*context, &[(done.handle, number as u64 + 1)]), "a signal behind it")?;
        ensure_eq!(plot.word(0), 0, "what the buffer writes while context {number} waits");
        granted(rig.signal(&[gate.handle], &[1]), "letting the context go on")?;
        granted(rig.wait(&[done.handle], &[number as u64 + 1], false), "the wait for the buffer")?;
        ensure_eq!(plot.word(0), 7, "what the buffer has written on context {number}");
    }
    plot.view.fill(0);
    let [first, ..] = contexts;
    for wrong in [context(&other)?, rig.device, 0] {
        refused(submit(&[first, wrong], 2), WRONG_KIND, "a buffer for a context that is not the device's")?;
    }
    refused(submit(&contexts, 0), crate::kmt::BAD_ARGUMENT, "a buffer for no context")?;
    refused(submit(&[first; 64], 65), crate::kmt::BAD_ARGUMENT, "a buffer for 65 contexts")?;
    granted(rig.context_signal(first, &[(done.handle, 9)]), "a signal behind them")?;
    granted(rig.wait(&[done.handle], &[9], false), "the wait for it")?;
    ensure_eq!(plot.word(0), 0, "what refused buffers have written");
    Ok(())
}

fn null_rendering(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (plot, commands) = (Plot::new(&rig)?, Plot::new(&rig)?);
    let queue = rig.packet_queue(NODE_COMPUTE)?;
    let done = rig.fence(0)?;
    let packet = plot.write(0, 7);
    let bytes = packet.encode();
    commands.view.write(0, &bytes[..packet.size()]);
    let mut submit = D3DKMT_SUBMITCOMMAND::zeroed();
    (submit.Commands, submit.CommandLength) = (commands.memory.address, packet.size() as u32);
    submit.BroadcastContextCount = 1;
    submit.BroadcastContext[0] = queue.context;
    for (round, null, word) in [(1, true, 0), (2, false, 7)] {
        submit.Flags.set_NullRendering(null);
        granted(rig.kmt.call(rig.kmt.table().D3DKMTSubmitCommand, &mut submit), "D3DKMTSubmitCommand")?;
        granted(rig.context_signal(queue.context, &[(done.handle, round)]), "a signal behind it")?;
        granted(rig.wait(&[done.handle], &[round], false), "the wait for the buffer")?;
        ensure_eq!(plot.word(0), word, "what the buffer writes, with NullRendering {null}");
    }
    // A context of that kind runs nothing at all.
    let mut create = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
    (create.hDevice, create.NodeOrdinal, create.EngineAffinity) = (rig.device, NODE_COMPUTE, rig.affinity());
    create.Flags.set_NullRendering(true);
    granted(rig.kmt.call(rig.kmt.table().D3DKMTCreateContextVirtual, &mut create), "D3DKMTCreateContextVirtual")?;
    plot.view.fill(0);
    granted(rig.submit_buffer(create.hContext, commands.memory.address, packet.size() as u32), "a buffer there")?;
    granted(rig.context_signal(create.hContext, &[(done.handle, 3)]), "a signal behind it")?;
    granted(rig.wait(&[done.handle], &[3], false), "the wait for the buffer")?;
    ensure_eq!(plot.word(0), 0, "what a context for null rendering writes");
    granted(rig.destroy_packet_context(create.hContext), "D3DKMTDestroyContext")
}

fn limit(case: &Case) -> Result<(), Failure> {
    const ENOUGH: u64 = 1 << 20;
    let rig = case.rig()?;
    for on_hardware in [false, true] {
        let (gate, mut queue) = (rig.fence(0)?, rig.packet_queue(NODE_COPY)?);
        if on_hardware {
            rig.packet_submit(&mut queue, &[gate.wait(1)])?;
        } else {
            granted(rig.context_wait(queue.context, &[(gate.handle, 1)]), "a wait")?;
        }
        let empty = || rig.submit_buffer(queue.context, 0, 0);
        let wait = || rig.context_wait(queue.context, &[(gate.handle, 1)]);
        // Where the system queues them, waits cost nobody anything.
        let more = || if on_hardware { empty() } else { wait() };
        let full = (0..ENOUGH).map(|_| more()).find(|status| !status.is_success()).unwrap_or(STATUS_SUCCESS);
        refused(full, &[STATUS_INSUFFICIENT_RESOURCES], "a submission too many")?;
        refused(empty(), &[STATUS_INSUFFICIENT_RESOURCES], "a buffer too many")?;
        granted(rig.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
        wait_until("space in the context", || empty().is_success())?;
        granted(rig.destroy_packet_context(queue.context), "D3DKMTDestroyContext")?;
    }
    Ok(())
}

fn held_alone(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, plot) = (rig.fence(0)?, Plot::new(&rig)?);
    let (mut held, mut free) = (rig.packet_queue(NODE_COMPUTE)?, rig.packet_queue(NODE_COMPUTE)?);
    granted(rig.context_wait(held.context, &[(gate.handle, 1)]), "a wait")?;
    rig.packet_submit(&mut held, &[plot.write(0, 1)])?;
    for _ in 0..20 {
        rig.packet_execute(&mut free, &[plot.write(1, 1)])?;
    }
    ensure_eq!((plot.word(0), held.progress.value.load()), (0, 0), "the context that waits");
    granted(rig.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
    rig.packet_wait(&held, 1)
}

/// A packet that copies word 0 to word 1, waits, and copies word 0 to word 2.
fn two_halves(plot: &Plot, fence: RawFence) -> [Packet; 3] {
    [plot.copy(1, 0), fence.wait(1), plot.copy(2, 0)]
}

/// What [`two_halves`] leaves if each half ran once, the second after word 0 became 8.
fn halves_ran_once(plot: &Plot) -> Result<(), Failure> {
    ensure_eq!((plot.word(1), plot.word(2)), (7, 8), "the halves of the packet, before and behind its wait");
    Ok(())
}

/// Submits two halves and waits until the first one ran.
pub fn begin_halves(rig: &Rig, queue: &mut PacketQueue, plot: &Plot, fence: RawFence) -> Result<(), Failure> {
    plot.view.write(0, &7u32.to_le_bytes());
    rig.packet_submit(queue, &two_halves(plot, fence))?;
    wait_until("the first half of the packet", || plot.word(1) == 7)?;
    plot.view.write(0, &8u32.to_le_bytes());
    Ok(())
}

fn preempted_wait(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, plot) = (rig.fence(0)?, Plot::new(&rig)?);
    let (mut low, mut high) = (rig.packet_queue(NODE_COMPUTE)?, rig.packet_queue(NODE_COMPUTE)?);
    prioritise(&rig, &high, 3)?;
    begin_halves(&rig, &mut low, &plot, gate)?;
    for round in 1..=5 {
        rig.packet_execute(&mut high, &[plot.write(3, round)])?;
    }
    ensure_eq!((plot.word(3), low.progress.value.load()), (5, 0), "the two contexts");
    granted(rig.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
    rig.packet_wait(&low, 1)?;
    halves_ran_once(&plot)
}

fn turns(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, plot) = (rig.fence(0)?, Plot::new(&rig)?);
    let (mut first, mut second) = (rig.packet_queue(NODE_COPY)?, rig.packet_queue(NODE_COPY)?);
    begin_halves(&rig, &mut first, &plot, gate)?;
    rig.packet_submit(&mut second, &[plot.write(3, 1), gate.signal(1)])?;
    rig.packet_wait(&second, 1)?;
    rig.packet_wait(&first, 1)?;
    halves_ran_once(&plot)
}

fn paging_beside_wait(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (gate, plot) = (rig.fence(0)?, Plot::new(&rig)?);
    let mut queue = rig.packet_queue(NODE_PAGING)?;
    begin_halves(&rig, &mut queue, &plot, gate)?;
    for _ in 0..3 {
        let memory = rig.memory(1 << 20, Placement::Vram)?;
        granted(rig.destroy_allocation(memory.handle), "the destruction of an allocation")?;
    }
    ensure_eq!(queue.progress.value.load(), 0, "the packet that waits");
    granted(rig.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
    rig.packet_wait(&queue, 1)?;
    halves_ran_once(&plot)
}

fn fault(case: &Case) -> Result<(), Failure> {
    const NOWHERE: u64 = 0x7abc_def0_0000;
    let (rig, innocent) = (case.rig()?, case.rig()?);
    let plot = Plot::new(&innocent)?;
    let mut others = innocent.packet_queue(NODE_COMPUTE)?;
    let mut queue = rig.packet_queue(NODE_COMPUTE)?;
    rig.packet_submit(&mut queue, &[fill(NOWHERE, 4096, 0)])?;
    for value in 1..=10 {
        innocent.packet_submit(&mut others, &[plot.write(value, 1)])?;
    }
    let state = wait_for_error(rig.kmt, rig.device)?;
    ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT, "state after the fault");
    ensure_eq!(rig.kmt.page_fault_state(rig.device)?.FaultedVirtualAddress & !0xfff, NOWHERE, "faulted address");
    refused(rig.submit_buffer(queue.context, 0, 0), DEVICE_LOST, "a submission to a lost device")?;
    let another = rig.packet_context(NODE_COMPUTE).err().unwrap_or(STATUS_SUCCESS);
    refused(another, DEVICE_LOST, "a context of a lost device")?;
    innocent.packet_wait(&others, 10)?;
    ensure_eq!(
        innocent.kmt.execution_state(innocent.device)?,
        D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE,
        "state of an innocent device"
    );
    granted(rig.destroy_packet_context(queue.context), "D3DKMTDestroyContext on a lost device")
}

fn refused_buffer(case: &Case) -> Result<(), Failure> {
    let (rig, innocent) = (case.rig()?, case.rig()?);
    let plot = Plot::new(&innocent)?;
    let mut others = innocent.packet_queue(NODE_COPY)?;
    for size in [8, 17, u32::MAX] {
        let guilty = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let context = guilty.packet_queue(NODE_COPY)?;
        granted(guilty.submit_buffer(context.context, plot.memory.address, size), "D3DKMTSubmitCommand")?;
        let state = wait_for_error(guilty.kmt, guilty.device)?;
        ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT, "state, size {size}");
        innocent.packet_execute(&mut others, &[plot.write(0, size)])?;
    }
    Ok(())
}

fn destruction(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let plot = Plot::new(&rig)?;
    let mut queue = rig.packet_queue(NODE_COMPUTE)?;
    for value in 1..=30 {
        rig.packet_submit(&mut queue, &[plot.write(value, 1)])?;
    }
    granted(rig.destroy_packet_context(queue.context), "D3DKMTDestroyContext")?;
    ensure_eq!(queue.progress.value.load(), 30, "packets done when the context is destroyed");
    refused(rig.destroy_packet_context(queue.context), BAD_HANDLE, "a second destruction")
}

fn handles(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.packet_queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let hardware = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("a hardware context: {status}")))?;
    let gone = rig.packet_context(NODE_COPY).map_err(|status| Failure::new(format!("a context: {status}")))?;
    granted(rig.destroy_packet_context(gone), "D3DKMTDestroyContext")?;
    let wrong: [(D3DKMT_HANDLE, &str); 5] = [
        (0, "nothing"),
        (gone, "a context that is gone"),
        (fence.handle, "a fence"),
        (rig.device, "a device"),
        (hardware, "a hardware context"),
    ];
    for (handle, what) in wrong {
        refused(rig.submit_buffer(handle, 0, 0), WRONG_KIND, &format!("a submission to {what}"))?;
        refused(rig.destroy_packet_context(handle), WRONG_KIND, &format!("the destruction of {what}"))?;
    }
    refused(rig.context_wait(gone, &[(fence.handle, 1)]), BAD_HANDLE, "a wait of a context that is gone")?;
    refused(rig.context_wait(queue.context, &[(rig.device, 1)]), WRONG_KIND, "a wait for a device")?;
    granted(rig.destroy_packet_context(queue.context), "D3DKMTDestroyContext")
}
