//! The scheduler as the memory manager knows it.

use std::sync::Arc;

use wddm_ddi::status::NTSTATUS;

use crate::kmd_handle::KmdHandle;
use crate::refusal::Failure;
use crate::scheduler_class::InClass;
use crate::vidmm::{AddressSpace, Kept, MemoryOwner, PagingContext, Running, Scheduler, SuspendOutcome};

use super::keep_running::KeptRunning;
use super::objects::device::Device;
use super::objects::packet::SystemContext;
use super::scheduler::VidSch;

impl Scheduler for VidSch {
    fn scheduler_class(&self, ddi: &'static str) -> InClass<'_> {
        self.scheduler_class(ddi)
    }

    fn create_paging_context(
        &self,
        device: KmdHandle,
        node: u32,
        space: &AddressSpace,
    ) -> Result<Arc<dyn PagingContext>, Failure> {
        Ok(self.create_system_context(device, node, space)?)
    }

    fn by_rank(&self, spaces: Vec<Arc<AddressSpace>>) -> Vec<Arc<AddressSpace>> {
        self.by_rank(spaces)
    }

    fn suspend(&self, space: &Arc<AddressSpace>, note: &mut dyn FnMut()) -> SuspendOutcome {
        self.suspend(space, note)
    }

    fn suspend_idle(&self, space: &Arc<AddressSpace>, note: &mut dyn FnMut()) -> bool {
        self.suspend_idle(space, note)
    }

    fn while_suspended(&self, space: &Arc<AddressSpace>, act: &mut dyn FnMut(bool)) -> SuspendOutcome {
        self.while_suspended(space, act)
    }

    fn may_wait(&self) -> bool {
        self.may_wait()
    }
}

impl PagingContext for SystemContext {
    fn kmd(&self) -> KmdHandle {
        self.kmd()
    }

    fn submit(self: Arc<Self>, address: u64, size: u32, private: &[u8]) -> Result<u32, NTSTATUS> {
        self.scheduler().submit_paging(&self, address, size, private)
    }

    fn is_complete(&self, fence: u32) -> bool {
        self.scheduler().is_packet_complete(self.node(), fence)
    }

    fn wait(&self, fence: u32) -> Result<(), NTSTATUS> {
        self.scheduler().wait_packet(self.node(), fence)
    }

    fn destroy(&self) {
        self.destroy();
    }
}

impl Running for KeptRunning<'_> {}

impl MemoryOwner for Device {
    fn id(&self) -> u64 {
        self.id
    }

    fn kmd(&self) -> KmdHandle {
        self.kmd
    }

    fn space(&self) -> &Arc<AddressSpace> {
        &self.process.space
    }

    fn kept(&self) -> &Arc<Kept> {
        &self.process.kept
    }

    fn check(&self) -> Result<(), NTSTATUS> {
        self.check()
    }

    fn is_lost(&self) -> bool {
        self.error().is_some()
    }

    fn keep_running(&self, suspends: bool) -> Result<Box<dyn Running + '_>, NTSTATUS> {
        let scheduler = self.adapter.vidsch();
        let running =
            if suspends { scheduler.keep_running(self) } else { scheduler.keep_running_without_suspending(self) };
        Ok(Box::new(running?))
    }
}
