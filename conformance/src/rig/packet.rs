//! Contexts that are scheduled packet by packet.

use campanile_hw::packet::Packet;
use campanile_hw::private::Placement;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use super::{Memory, RawFence, Rig, View, wait_until};
use crate::{Failure, granted};

/// Command memory of one submission.
const COMMANDS_SIZE: u64 = 1024;
/// Submissions that command memory has space for.
const SLOTS: u64 = 64;

/// A context of packets with a fence that its last packet of each submission signals.
pub struct PacketQueue {
    pub context: D3DKMT_HANDLE,
    pub progress: RawFence,
    commands: Memory,
    view: View,
    pub submitted: u64,
}

impl Rig {
    /// Creates a context of packets.
    pub fn packet_context(&self, node: u32) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
        (arguments.hDevice, arguments.NodeOrdinal, arguments.EngineAffinity) = (self.device, node, self.affinity());
        self.kmt.call(self.kmt.table().D3DKMTCreateContextVirtual, &mut arguments).ok()?;
        Ok(arguments.hContext)
    }

    /// A context of packets on `node` with what submission needs.
    pub fn packet_queue(&self, node: u32) -> Result<PacketQueue, Failure> {
        let context = self.packet_context(node);
        let context = context.map_err(|status| Failure::new(format!("D3DKMTCreateContextVirtual: {status}")))?;
        let commands = self.memory(SLOTS * COMMANDS_SIZE, Placement::SystemUncached)?;
        Ok(PacketQueue {
            context,
            progress: self.progress_fence()?,
            commands,
            view: self.view(commands)?,
            submitted: 0,
        })
    }

    /// Destroys a context of packets; what the thunk returned.
    pub fn destroy_packet_context(&self, context: D3DKMT_HANDLE) -> NTSTATUS {
        let mut arguments = D3DKMT_DESTROYCONTEXT { hContext: context };
        self.kmt.call(self.kmt.table().D3DKMTDestroyContext, &mut arguments)
    }

    /// Submits a buffer at an address; what the thunk returned.
    pub fn submit_buffer(&self, context: D3DKMT_HANDLE, address: u64, size: u32) -> NTSTATUS {
        let mut arguments = D3DKMT_SUBMITCOMMAND::zeroed();
        (arguments.Commands, arguments.CommandLength) = (address, size);
        arguments.BroadcastContextCount = 1;
        arguments.BroadcastContext[0] = context;
        self.kmt.call(self.kmt.table().D3DKMTSubmitCommand, &mut arguments)
    }

    /// Submits packets; the value of the progress fence that marks their end.
    pub fn packet_submit(&self, queue: &mut PacketQueue, packets: &[Packet]) -> Result<u64, Failure> {
        let value = queue.submitted + 1;
        let mut bytes = Vec::new();
        for packet in packets.iter().chain([&queue.progress.signal(value)]) {
            bytes.extend_from_slice(&packet.encode()[..packet.size()]);
        }
        ensure!(bytes.len() as u64 <= COMMANDS_SIZE, "the case's command buffer is too long");
        wait_until("space for commands", || queue.progress.value.load() + SLOTS > queue.submitted)?;
        let offset = queue.submitted % SLOTS * COMMANDS_SIZE;
        queue.view.write(offset, &bytes);
        let status = self.submit_buffer(queue.context, queue.commands.address + offset, bytes.len() as u32);
        granted(status, "D3DKMTSubmitCommand")?;
        queue.submitted = value;
        Ok(value)
    }

    /// Waits on the CPU for a value of the context's progress fence.
    pub fn packet_wait(&self, queue: &PacketQueue, value: u64) -> Result<(), Failure> {
        granted(self.wait(&[queue.progress.handle], &[value], false), "the wait for packets")
    }

    /// Submits packets and waits for them.
    pub fn packet_execute(&self, queue: &mut PacketQueue, packets: &[Packet]) -> Result<(), Failure> {
        let value = self.packet_submit(queue, packets)?;
        self.packet_wait(queue, value)
    }
}
