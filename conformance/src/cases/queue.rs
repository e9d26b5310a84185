//! Hardware contexts and queues.

use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODE_PAGING, NODES};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{BAD_HANDLE, WRONG_KIND, Word};
use crate::rig::{Rig, fill, user_mode_flags, wait_until};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "HardwareQueue";
    "HardwareQueue.EveryUserNodeRunsQueues" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Each node whose metadata allows user-mode submission runs a queue that was created for it."
        holds [UserModeSubmission 3]
        => every_user_node;
    "HardwareQueue.NodeBeyondTheLastIsRefused" needs HardwareScheduling on Boot::Shared, "d3dkmtcreatehwcontext":
        "A hardware context on a node that the adapter does not have is an invalid parameter."
        => node_beyond_last;
    "HardwareQueue.PagingNodeTakesNoUserModeQueue" on Boot::Shared, "user-mode-work-submission":
        "A user-mode submission queue is refused on a node whose metadata does not allow it."
        holds [UserModeSubmission 3, UserModeSubmission 8]
        => paging_node;
    "HardwareQueue.KernelModeSubmissionKeepsWorking" needs HardwareScheduling on Boot::Shared, "user-mode-work-submission":
        "A queue created without the flag takes command buffers through the kernel and completes them by its progress fence."
        holds [UserModeSubmission 1]
        => kernel_mode_submission;
    "HardwareQueue.UserModeQueueRefusesKernelSubmission" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A queue created for user-mode submission cannot be used by the kernel-mode submission thunk."
        holds [UserModeSubmission 11]
        => user_queue_refuses_kernel;
    "HardwareQueue.KernelModeQueueRefusesDoorbells" needs HardwareScheduling on Boot::Shared, "user-mode-work-submission":
        "A doorbell cannot be created for a queue that was not created for user-mode submission."
        holds [UserModeSubmission 11]
        => kernel_queue_refuses_doorbell;
    "HardwareQueue.BothKindsRunAtOnce" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A queue of user mode and one that the kernel submits to work on one engine at the same time, each waiting for the other's fence in turn."
        holds [UserModeSubmission 1]
        => both_kinds;
    "HardwareQueue.ProgressFenceIsReadOnlyForUserMode" needs UserModeSubmission on Boot::Shared, "d3dkmtcreatehwqueue":
        "The CPU mapping of a queue's progress fence can be read and not written by user mode."
        => progress_is_read_only;
    "HardwareQueue.StaleAndForeignHandlesAreRefused" needs UserModeSubmission on Boot::Shared, "d3dkmtcreatehwqueue":
        "Destroyed contexts and queues, and handles of other kinds, are refused by every thunk that takes a queue."
        => wrong_handles;
    "HardwareQueue.ContextWithQueuesCannotGo" needs UserModeSubmission on Boot::Shared, "d3dkmtdestroyhwcontext":
        "A context is not destroyed under a queue that lives on it: either it is refused or the queue's handle goes with it."
        => context_with_queue;
}

pub fn text(what: &'static str) -> impl Fn(NTSTATUS) -> Failure {
    move |status| Failure::new(format!("{what} failed with {status}"))
}

fn every_user_node(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let mut queue = rig.queue(node)?;
        let memory = rig.memory(4096, Placement::System)?;
        let view = rig.view(memory)?;
        view.fill(0);
        rig.execute(&mut queue, &[fill(memory.address, 4096, u32::MAX)])?;
        ensure!(view.read(0, 4096).iter().all(|byte| *byte == 0xff), "node {node} did not do its work");
    }
    Ok(())
}

fn node_beyond_last(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODES, NODES + 1, 64, u32::MAX] {
        match rig.context(node) {
            Ok(_) => return Err(Failure::new(format!("a context on node {node} was created"))),
            Err(status) => refused(status, &[STATUS_INVALID_PARAMETER], "a context on no node")?,
        }
    }
    Ok(())
}

fn paging_node(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let allowed = &[STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED];
    match rig.context(NODE_PAGING).and_then(|context| rig.hw_queue(context, user_mode_flags())) {
        Ok(_) => Err(Failure::new("a user-mode queue on the paging node was created")),
        Err(status) => refused(status, allowed, "a user-mode queue on the paging node"),
    }
}

/// Submits through the kernel.
pub fn kernel_submit(rig: &Rig, queue: D3DKMT_HANDLE, commands: u64, length: u32, value: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_SUBMITCOMMANDTOHWQUEUE::zeroed();
    arguments.hHwQueue = queue;
    arguments.HwQueueProgressFenceId = value;
    arguments.CommandBuffer = commands;
    arguments.CommandLength = length;
    rig.kmt.call(rig.kmt.table().D3DKMTSubmitCommandToHwQueue, &mut arguments)
}

fn kernel_mode_submission(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(text("context"))?;
    let created = rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new()).map_err(text("queue"))?;
    let progress = Word::new(created.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?;
    let commands = rig.memory(4096, Placement::System)?;
    let commands_view = rig.view(commands)?;
    let target = rig.memory(4096, Placement::System)?;
    let target_view = rig.view(target)?;
    for value in 1..=64_u64 {
        target_view.fill(0);
        let pattern = value as u32 * 0x0101_0101;
        let mut bytes = Vec::new();
        for packet in [fill(target.address, 4096, pattern), Packet::Progress(packet::Progress { handle: 0, value })] {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        commands_view.write(0, &bytes);
        let status = kernel_submit(&rig, created.hHwQueue, commands.address, bytes.len() as u32, value);
        granted(status, "D3DKMTSubmitCommandToHwQueue")?;
        wait_until("the queue's progress", || progress.load() >= value)?;
        let expected = pattern.to_le_bytes();
        let right = target_view.read(0, 4096).chunks(4).all(|word| word == expected);
        ensure!(right, "submission {value} did not write {pattern:#x}");
    }
    Ok(())
}

fn both_kinds(case: &Case) -> Result<(), Failure> {
    const ROUNDS: u64 = 60;
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let mut user = rig.queue(node)?;
        let context = rig.context(node).map_err(text("context"))?;
        let created = rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new()).map_err(text("queue"))?;
        let progress = Word::new(created.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?;
        let commands = rig.memory(4096 * 2, Placement::System)?;
        let view = rig.view(commands)?;
        let (ping, pong) = (rig.fence(0)?, rig.fence(0)?);
        for value in 1..=ROUNDS {
            rig.submit(&mut user, &[pong.wait(value - 1), ping.signal(value)])?;
            let mut bytes = Vec::new();
            for packet in
                [ping.wait(value), pong.signal(value), Packet::Progress(packet::Progress { handle: 0, value })]
            {
                bytes.extend_from_slice(&packet.encode()[..packet.size()]);
            }
            let at = (value % ROUNDS) * 128;
            view.write(at, &bytes);
            let status = kernel_submit(&rig, created.hHwQueue, commands.address + at, bytes.len() as u32, value);
            granted(status, "D3DKMTSubmitCommandToHwQueue")?;
        }
        wait_until("both queues", || user.progress.load() == ROUNDS && progress.load() == ROUNDS)?;
        ensure_eq!((ping.value.load(), pong.value.load()), (ROUNDS, ROUNDS), "fences of node {node}");
    }
    Ok(())
}

fn user_queue_refuses_kernel(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let status = kernel_submit(&rig, queue.queue, queue.commands.address, 16, 1);
    let allowed = &[STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_INVALID_DEVICE_REQUEST];
    refused(status, allowed, "kernel-mode submission to a user-mode queue")?;
    rig.execute(&mut queue, &[])
}

fn kernel_queue_refuses_doorbell(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(text("context"))?;
    let created = rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new()).map_err(text("queue"))?;
    let (ring, control) = (rig.memory(4096, Placement::System)?, rig.memory(4096, Placement::System)?);
    let allowed = &[STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_INVALID_DEVICE_REQUEST];
    match rig.doorbell(created.hHwQueue, ring, control) {
        Ok(_) => Err(Failure::new("a doorbell for a kernel-mode queue was created")),
        Err(status) => refused(status, allowed, "a doorbell for a kernel-mode queue"),
    }
}

fn progress_is_read_only(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    ensure!(!queue.progress.is_writable()?, "user mode can write the progress fence");
    ensure_eq!(queue.progress.load(), 1, "progress after the attempt to write it");
    Ok(())
}

fn destroy_context(rig: &Rig, context: D3DKMT_HANDLE) -> NTSTATUS {
    rig.kmt.call(rig.kmt.table().D3DKMTDestroyHwContext, &mut D3DKMT_DESTROYHWCONTEXT { hHwContext: context })
}

fn wrong_handles(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(text("context"))?;
    let created = rig.hw_queue(context, user_mode_flags()).map_err(text("queue"))?;
    refused(rig.destroy_hw_queue(context), WRONG_KIND, "destroying a context as a queue")?;
    refused(destroy_context(&rig, created.hHwQueue), WRONG_KIND, "destroying a queue as a context")?;
    granted(rig.destroy_hw_queue(created.hHwQueue), "destroying the queue")?;
    refused(rig.destroy_hw_queue(created.hHwQueue), BAD_HANDLE, "destroying the queue again")?;
    granted(destroy_context(&rig, context), "destroying the context")?;
    refused(destroy_context(&rig, context), BAD_HANDLE, "destroying the context again")?;
    match rig.hw_queue(context, user_mode_flags()) {
        Ok(_) => return Err(Failure::new("a queue on a destroyed context was created")),
        Err(status) => refused(status, BAD_HANDLE, "a queue on a destroyed context")?,
    }
    let (ring, control) = (rig.memory(4096, Placement::System)?, rig.memory(4096, Placement::System)?);
    match rig.doorbell(created.hHwQueue, ring, control) {
        Ok(_) => Err(Failure::new("a doorbell for a destroyed queue was created")),
        Err(status) => refused(status, BAD_HANDLE, "a doorbell for a destroyed queue"),
    }
}

fn context_with_queue(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    let status = destroy_context(&rig, queue.context);
    if status.is_success() {
        return refused(rig.destroy_hw_queue(queue.queue), BAD_HANDLE, "the queue of a destroyed context");
    }
    // Refused: then everything still works.
    rig.execute(&mut queue, &[])
}
