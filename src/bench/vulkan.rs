//! Another driver stack on the same host to compare with: Mesa's lavapipe, Vulkan on the processor.

use std::fmt;

use ash::vk;

use super::error::BenchError;

/// One queue of lavapipe, an empty command buffer, and a timeline semaphore that every submission signals.
pub(super) struct Lavapipe {
    pub(super) device: ash::Device,
    queue: vk::Queue,
    semaphore: vk::Semaphore,
    pool: vk::CommandPool,
    /// Recorded, and empty unless it was recorded anew.
    pub(super) commands: vk::CommandBuffer,
    /// Last value submitted.
    value: u64,
    /// Destroyed after the device; closes the library then.
    _instance: Instance,
}

/// The reason why there is no lavapipe here.
#[derive(Debug)]
pub(super) enum Absence {
    /// No libvulkan, or one that lacks entry points.
    Loader(ash::LoadingError),
    /// It is there, but refused a call.
    Refused(&'static str, vk::Result),
    /// None of Vulkan's devices is lavapipe with timeline semaphores and a queue.
    NoDevice {
        /// Devices looked at.
        seen: usize,
    },
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loader(error) => write!(f, "libvulkan cannot be opened: {error}"),
            Self::Refused(call, result) => write!(f, "{call} failed: {result:?}"),
            Self::NoDevice { seen } => {
                write!(f, "none of {seen} Vulkan devices is lavapipe; it is in the package mesa-vulkan-drivers")
            }
        }
    }
}

impl std::error::Error for Absence {}

/// Turns the error of a Vulkan call into the reason why there is no peer.
fn refused(call: &'static str) -> impl FnOnce(vk::Result) -> Absence {
    move |result| Absence::Refused(call, result)
}

/// A call of the measurement that failed.
pub(super) fn failed(call: &'static str) -> impl FnOnce(vk::Result) -> BenchError {
    move |result| BenchError::Host(std::io::Error::other(Absence::Refused(call, result)))
}

/// Destroys its instance when dropped.
struct Instance {
    raw: ash::Instance,
    /// The library.
    _entry: ash::Entry,
}

impl Instance {
    fn new(entry: ash::Entry) -> Result<Self, Absence> {
        let application =
            vk::ApplicationInfo::default().application_name(c"campanile bench").api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the description is complete and outlives the call.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(refused("vkCreateInstance"))?;
        Ok(Self { raw, _entry: entry })
    }

    /// The device and the family of its queue.
    fn find(&self) -> Result<(vk::PhysicalDevice, u32), Absence> {
        // SAFETY: the instance lives.
        let devices =
            unsafe { self.raw.enumerate_physical_devices() }.map_err(refused("vkEnumeratePhysicalDevices"))?;
        let found = devices.iter().find_map(|&device| Some((device, self.queue_family(device)?)));
        found.ok_or(Absence::NoDevice { seen: devices.len() })
    }

    /// The family of queues to use, if the device is lavapipe with timeline semaphores. What is no processor is not asked further.
    fn queue_family(&self, device: vk::PhysicalDevice) -> Option<u32> {
        // SAFETY: the device was enumerated by this instance.
        let properties = unsafe { self.raw.get_physical_device_properties(device) };
        if properties.device_type != vk::PhysicalDeviceType::CPU || properties.api_version < vk::API_VERSION_1_2 {
            return None;
        }
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: as above; the device has Vulkan 1.2, which knows the chained structure.
        unsafe { self.raw.get_physical_device_properties2(device, &mut properties) };
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline);
        // SAFETY: as above.
        unsafe { self.raw.get_physical_device_features2(device, &mut features) };
        if driver.driver_id != vk::DriverId::MESA_LLVMPIPE || timeline.timeline_semaphore == vk::FALSE {
            return None;
        }
        // SAFETY: as above.
        let families = unsafe { self.raw.get_physical_device_queue_family_properties(device) };
        let computes = |family: &vk::QueueFamilyProperties| family.queue_flags.contains(vk::QueueFlags::COMPUTE);
        families.iter().position(computes).and_then(|index| u32::try_from(index).ok())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: everything made of the instance is gone.
        unsafe { self.raw.destroy_instance(None) };
    }
}

impl Lavapipe {
    /// Lavapipe where the host has it; says loudly why not otherwise.
    pub(super) fn if_present() -> Option<Self> {
        // SAFETY: the loader of the host is a library without demands on the program that opens it.
        let entry = unsafe { ash::Entry::load() };
        let opened = entry.map_err(Absence::Loader).and_then(Self::open);
        opened.inspect_err(|absence| testbed::complain!("campanile: THE PEER lavapipe IS ABSENT: {absence}")).ok()
    }

    fn open(entry: ash::Entry) -> Result<Self, Absence> {
        let instance = Instance::new(entry)?;
        let (physical, family) = instance.find()?;
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut timeline);
        // SAFETY: the device is of this instance, has the family, and offers the feature.
        let device = unsafe { instance.raw.create_device(physical, &info, None) }.map_err(refused("vkCreateDevice"))?;
        // SAFETY: the device was made with one queue of this family.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let mut this = Self {
            device,
            queue,
            semaphore: vk::Semaphore::null(),
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            value: 0,
            _instance: instance,
        };
        this.prepare(family)?;
        Ok(this)
    }

    fn prepare(&mut self, family: u32) -> Result<(), Absence> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device has timeline semaphores.
        self.semaphore = unsafe { self.device.create_semaphore(&info, None) }.map_err(refused("vkCreateSemaphore"))?;
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device has the family.
        self.pool = unsafe { self.device.create_command_pool(&info, None) }.map_err(refused("vkCreateCommandPool"))?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: the pool is of this device.
        let commands = unsafe { self.device.allocate_command_buffers(&info) };
        self.commands = commands.map_err(refused("vkAllocateCommandBuffers"))?[0];
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // SAFETY: the command buffer is new.
        unsafe { self.device.begin_command_buffer(self.commands, &info) }.map_err(refused("vkBeginCommandBuffer"))?;
        // SAFETY: recording began above.
        unsafe { self.device.end_command_buffer(self.commands) }.map_err(refused("vkEndCommandBuffer"))
    }

    /// Submits the command buffer, which sets the semaphore to the next value.
    pub(super) fn submit(&mut self) -> Result<(), BenchError> {
        let values = [self.value + 1];
        let (commands, semaphores) = ([self.commands], [self.semaphore]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline);
        // SAFETY: everything is of this device; the command buffer allows several submissions at a time, and the value is above all before it.
        let submitted = unsafe { self.device.queue_submit(self.queue, &[info], vk::Fence::null()) };
        submitted.map_err(failed("vkQueueSubmit"))?;
        self.value += 1;
        Ok(())
    }

    /// Reads the semaphore until it has the last value submitted.
    pub(super) fn spin(&self) -> Result<(), BenchError> {
        loop {
            // SAFETY: the semaphore is a timeline of this device.
            let seen = unsafe { self.device.get_semaphore_counter_value(self.semaphore) };
            if seen.map_err(failed("vkGetSemaphoreCounterValue"))? >= self.value {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    /// Waits until the semaphore has the last value submitted.
    pub(super) fn wait(&self) -> Result<(), BenchError> {
        let (semaphores, values) = ([self.semaphore], [self.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is a timeline of this device.
        unsafe { self.device.wait_semaphores(&info, u64::MAX) }.map_err(failed("vkWaitSemaphores"))
    }
}

impl Drop for Lavapipe {
    fn drop(&mut self) {
        // SAFETY: no other thread uses the device. Should it fail, there is nothing left to wait for.
        let _ = unsafe { self.device.device_wait_idle() };
        // SAFETY: nothing is submitted any more; null, where it was never made, is ignored.
        unsafe { self.device.destroy_semaphore(self.semaphore, None) };
        // SAFETY: as above; the command buffer goes with its pool.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
        // SAFETY: everything made of the device is gone.
        unsafe { self.device.destroy_device(None) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_loader_it_is_absent_and_says_why() {
        // SAFETY: there is no such file, so nothing is run.
        let entry = unsafe { ash::Entry::load_from("/nonexistent/libvulkan.so.1") };
        let absence = entry.map_err(Absence::Loader).and_then(Lavapipe::open).err().unwrap();
        assert!(matches!(absence, Absence::Loader(_)));
        assert!(absence.to_string().starts_with("libvulkan cannot be opened: "), "{absence}");
    }

    /// Where the host lacks it, this proves only that the absence has no other effect; the line on standard error says so.
    #[test]
    fn every_submission_sets_the_semaphore_to_the_next_value() {
        let Some(mut lavapipe) = Lavapipe::if_present() else { return };
        for value in 1..=100 {
            lavapipe.submit().unwrap();
            lavapipe.wait().unwrap();
            // SAFETY: the semaphore is a timeline of this device.
            let seen = unsafe { lavapipe.device.get_semaphore_counter_value(lavapipe.semaphore) };
            assert_eq!(seen, Ok(value));
        }
    }

    #[test]
    fn many_submissions_may_be_under_way() {
        let Some(mut lavapipe) = Lavapipe::if_present() else { return };
        for _ in 0..100 {
            lavapipe.submit().unwrap();
        }
        lavapipe.wait().unwrap();
        // SAFETY: the semaphore is a timeline of this device.
        assert_eq!(unsafe { lavapipe.device.get_semaphore_counter_value(lavapipe.semaphore) }, Ok(100));
    }
}
