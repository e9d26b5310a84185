//! Logical devices and their queues.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ash::vk;
use campanile_compiler::record::{IMAGE_RECORD, SAMPLER_RECORD};
use campanile_hw::packet::DispatchReport;
use campanile_isa::assemble;
use campanile_umd::{Program, Queue as HardwareQueue, QueueOptions, SAVE_BYTES_MAX};

use crate::backlog::Backlog;
use crate::failure::{Answer, result, tell};
use crate::handle::{Dispatched, Owned};
use crate::labels::Labels;
use crate::physical::{FAMILIES, MemoryKind, PhysicalDevice};
use crate::records::Records;

/// A device, with the queues that it was created with.
pub(crate) struct Device {
    /// Queues by family.
    families: Vec<Vec<Owned<Queue>>>,
    umd: campanile_umd::Device,
    images: Arc<Records>,
    samplers: Arc<Records>,
    reports: Arc<Records>,
    labels: Arc<Labels>,
    /// The program that copies results of queries, once there are queries.
    copies: OnceLock<Program>,
    kinds: Vec<MemoryKind>,
    extensions: Vec<&'static str>,
}

/// Queues that a device is to have of a family.
#[derive(Clone, Debug)]
pub(crate) struct QueuesWanted {
    pub(crate) family: u32,
    /// For each queue the priority of its context among all contexts.
    pub(crate) priorities: Vec<i32>,
}

/// A hardware queue.
pub(crate) struct Queue {
    hardware: Arc<Mutex<HardwareQueue>>,
    labels: Arc<Labels>,
    backlog: Arc<Backlog>,
}

impl Dispatched for Device {
    type Handle = vk::Device;
}

impl Dispatched for Queue {
    type Handle = vk::Queue;
}

impl Device {
    /// Creates a device with these queues.
    ///
    /// # Errors
    /// VK_ERROR_INITIALIZATION_FAILED for a family or a number that there is not; VK_ERROR_NOT_PERMITTED_KHR for a priority that the process may not
    /// have; what else the operating system refuses.
    pub(crate) fn new(physical: &PhysicalDevice, wanted: &[QueuesWanted]) -> Answer<Self> {
        let umd = campanile_umd::Device::new(physical.adapter()).map_err(result)?;
        let labels = Arc::new(Labels::new(&umd));
        let mut families: Vec<Vec<Owned<Queue>>> = FAMILIES.iter().map(|_| Vec::new()).collect();
        for QueuesWanted { family, priorities } in wanted {
            let place = *family as usize;
            let (Some(family), Some(queues)) = (FAMILIES.get(place), families.get_mut(place)) else {
                return Err(vk::Result::ERROR_INITIALIZATION_FAILED);
            };
            if priorities.len() > family.properties().queue_count as usize {
                return Err(vk::Result::ERROR_INITIALIZATION_FAILED);
            }
            // A pipeline may be used on any queue, so that the state of each fits into the save area of all.
            let options = QueueOptions { save_bytes: SAVE_BYTES_MAX, ..QueueOptions::default() };
            for priority in priorities {
                let options = QueueOptions { priority: *priority, ..options };
                let queue = HardwareQueue::new(&umd, family.node, options).map_err(result)?;
                let (hardware, labels) = (Arc::new(Mutex::new(queue)), Arc::clone(&labels));
                queues.push(Owned::new(Queue { hardware, labels, backlog: Arc::default() }));
            }
        }
        let (images, samplers) = (Records::new(&umd, IMAGE_RECORD), Records::new(&umd, SAMPLER_RECORD));
        let reports = Records::new(&umd, DispatchReport::SIZE);
        let (kinds, copies) = (physical.kinds().to_vec(), OnceLock::new());
        Ok(Self { families, umd, images, samplers, reports, labels, copies, kinds, extensions: Vec::new() })
    }

    /// The device, with these extensions enabled.
    pub(crate) fn with_extensions(self, extensions: Vec<&'static str>) -> Self {
        Self { extensions, ..self }
    }

    /// The extensions that are enabled.
    pub(crate) fn extensions(&self) -> &[&'static str] {
        &self.extensions
    }

    /// The program that copies results of queries, which is assembled when it is asked for first.
    ///
    /// # Errors
    /// The error of the operating system, as [`result`] translates it.
    pub(crate) fn copies(&self) -> Answer<Program> {
        if let Some(program) = self.copies.get() {
            return Ok(program.clone());
        }
        let assembled = assemble(include_str!("query.asm")).map_err(|error| {
            tell(&error);
            vk::Result::ERROR_UNKNOWN
        })?;
        let program = self.umd.create_program(&assembled).map_err(result)?;
        Ok(self.copies.get_or_init(|| program).clone())
    }

    /// Memory for records of views.
    pub(crate) fn images(&self) -> &Arc<Records> {
        &self.images
    }

    /// Memory for reports of dispatches.
    pub(crate) fn reports(&self) -> &Arc<Records> {
        &self.reports
    }

    /// Labels of its queues and command buffers.
    pub(crate) fn labels(&self) -> &Arc<Labels> {
        &self.labels
    }

    /// Memory for records of samplers.
    pub(crate) fn samplers(&self) -> &Arc<Records> {
        &self.samplers
    }

    /// The device of the user-mode driver.
    pub(crate) fn umd(&self) -> &campanile_umd::Device {
        &self.umd
    }

    /// A memory type.
    pub(crate) fn kind(&self, index: u32) -> Answer<MemoryKind> {
        self.kinds.get(index as usize).copied().ok_or(vk::Result::ERROR_UNKNOWN)
    }

    /// The bits of all memory types.
    pub(crate) fn kind_bits(&self) -> u32 {
        (1 << self.kinds.len()) - 1
    }

    /// A queue that the device was created with.
    pub(crate) fn queue(&self, family: u32, index: u32) -> Option<vk::Queue> {
        Some(self.families.get(family as usize)?.get(index as usize)?.handle())
    }

    /// Waits until all queues are idle.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn wait_idle(&self, app: crate::app::App<'_>) -> Answer<()> {
        for queue in self.families.iter().flatten() {
            app.object::<Queue>(queue.handle())?.wait_idle()?;
        }
        Ok(())
    }
}

impl Queue {
    /// The hardware queue. Vulkan has the application keep other threads away from a queue, so that nobody waits here but for submissions that are kept.
    pub(crate) fn hardware(&self) -> MutexGuard<'_, HardwareQueue> {
        self.hardware.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The labels of its device.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Submissions for which the ring has no free entry.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// What the thread needs that writes them to the ring; the hardware queue lives until it is done.
    pub(crate) fn shared(&self) -> (Arc<Backlog>, Arc<Mutex<HardwareQueue>>) {
        (Arc::clone(&self.backlog), Arc::clone(&self.hardware))
    }

    /// Waits until all that was submitted is done.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn wait_idle(&self) -> Answer<()> {
        self.backlog.wait()?;
        let queue = self.hardware();
        queue.wait_progress(queue.last_submitted()).map_err(result)
    }
}
