//! Commands and buffers of queues, counted for statistics.

use super::objects::device::Device;
use super::objects::request_queue::SyncCommand;
use super::objects::running::Leaving;
use super::scheduler::VidSch;

impl VidSch {
    /// A command of a device, if it is one of software, is submitted to a queue on a node, or `completed`.
    pub(super) fn count_command(&self, device: &Device, node: u32, command: Option<SyncCommand>, completed: bool) {
        if let (Some(command), Some(node)) = (command, self.nodes.get(node as usize)) {
            node.state().running.count(&device.process, command, completed);
        }
    }

    /// So many command buffers of a device were handed over to a hardware queue on a node, or leave the hardware.
    pub(super) fn count_buffers(&self, device: &Device, node: u32, buffers: usize, leaving: Option<Leaving>) {
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        if let (Some(node), true) = (self.nodes.get(node as usize), buffers != 0) {
            node.state().running.count_buffers(&device.process, buffers, leaving);
        }
    }
}
