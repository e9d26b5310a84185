//! Extensions that change how a device is created: global priorities, calibrated timestamps.

use std::ffi::CStr;

use ash::vk;

use crate::kit::Bench;

impl Bench {
    /// A second device with a queue of the first family, and these extensions.
    fn device_with(
        &self,
        extensions: &[&CStr],
        queues: vk::DeviceQueueCreateInfo<'_>,
        features: Option<&mut vk::PhysicalDeviceGlobalPriorityQueryFeaturesKHR<'_>>,
    ) -> Result<ash::Device, vk::Result> {
        let (names, queues) = (extensions.iter().map(|name| name.as_ptr()).collect::<Vec<_>>(), [queues]);
        let info = vk::DeviceCreateInfo::default().enabled_extension_names(&names).queue_create_infos(&queues);
        let info = match features {
            Some(features) => info.push_next(features),
            None => info,
        };
        // SAFETY: the physical device is of the instance.
        unsafe { self.instance.create_device(self.physical, &info, None) }
    }
}

/// Submits nothing to the first queue of a device, waits for it, and destroys the device.
fn use_once(device: &ash::Device) {
    // SAFETY: objects of this device, which nobody uses afterwards.
    unsafe {
        let queue = device.get_device_queue(0, 0);
        let fence = device.create_fence(&vk::FenceCreateInfo::default(), None).expect("a fence");
        device.queue_submit(queue, &[vk::SubmitInfo::default()], fence).expect("submitted");
        device.wait_for_fences(&[fence], true, u64::MAX).expect("done");
        device.destroy_fence(fence, None);
        device.destroy_device(None);
    }
}

#[test]
fn a_global_priority_that_the_process_may_not_have_is_not_permitted() {
    use vk::QueueGlobalPriorityKHR as Priority;
    let bench = Bench::new();
    let create = |extensions: &[&CStr], priority| {
        let mut named = vk::DeviceQueueGlobalPriorityCreateInfoKHR::default().global_priority(priority);
        let queues = vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0]).push_next(&mut named);
        let mut features = vk::PhysicalDeviceGlobalPriorityQueryFeaturesKHR::default().global_priority_query(true);
        bench.device_with(extensions, queues, Some(&mut features))
    };
    let older = [vk::EXT_GLOBAL_PRIORITY_NAME, vk::EXT_GLOBAL_PRIORITY_QUERY_NAME];
    for extensions in [&[vk::KHR_GLOBAL_PRIORITY_NAME][..], &older] {
        for permitted in [Priority::LOW, Priority::MEDIUM] {
            use_once(&create(extensions, permitted).expect("a device"));
        }
        // The focus band and the realtime band take a right that no ordinary process has.
        for refused in [Priority::HIGH, Priority::REALTIME] {
            let outcome = create(extensions, refused).map(|device| use_once(&device));
            assert_eq!(outcome, Err(vk::Result::ERROR_NOT_PERMITTED_KHR), "{refused:?}");
        }
    }
}

#[test]
fn families_tell_their_global_priorities_in_ascending_order() {
    let bench = Bench::new();
    let mut priorities = [vk::QueueFamilyGlobalPriorityPropertiesKHR::default(); 2];
    let mut families: Vec<_> =
        priorities.iter_mut().map(|priorities| vk::QueueFamilyProperties2::default().push_next(priorities)).collect();
    // SAFETY: the physical device is of the instance, and there are two families.
    unsafe { bench.instance.get_physical_device_queue_family_properties2(bench.physical, &mut families) };
    for family in priorities {
        let told: Vec<_> =
            family.priorities.iter().take(family.priority_count as usize).map(|one| one.as_raw()).collect();
        assert_eq!(told, [128, 256, 512, 1024]);
    }
}

#[test]
fn clocks_of_device_and_processor_agree_within_their_deviation() {
    use vk::TimeDomainKHR as Domain;
    let bench = Bench::new();
    let domains = ash::khr::calibrated_timestamps::Instance::new(&crate::kit::entry(), &bench.instance);
    // SAFETY: the physical device is of the instance.
    let domains = unsafe { domains.get_physical_device_calibrateable_time_domains(bench.physical) }.expect("domains");
    assert_eq!(domains, [Domain::DEVICE, Domain::CLOCK_MONOTONIC, Domain::CLOCK_MONOTONIC_RAW]);
    let queues = vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0]);
    let device = bench.device_with(&[vk::KHR_CALIBRATED_TIMESTAMPS_NAME], queues, None).expect("a device");
    let clocks = ash::khr::calibrated_timestamps::Device::new(&bench.instance, &device);
    let read = |domains: &[Domain]| {
        let infos: Vec<_> =
            domains.iter().map(|domain| vk::CalibratedTimestampInfoKHR::default().time_domain(*domain)).collect();
        // SAFETY: the domains are those of the physical device.
        unsafe { clocks.get_calibrated_timestamps(&infos) }.expect("timestamps")
    };
    // Of several readings the closest, for a thread may be interrupted in any of them.
    let closest = || (0..50).map(|_| read(&domains)).min_by_key(|(_, deviation)| *deviation).expect("readings");
    let (first, first_deviation) = closest();
    let written = timestamp(&device);
    let (second, second_deviation) = closest();
    assert!(
        first[0] <= written && written <= second[0],
        "a queue writes the same clock: {first:?} {written} {second:?}"
    );
    // SAFETY: the physical device is of the instance.
    let period = unsafe { bench.instance.get_physical_device_properties(bench.physical) }.limits.timestamp_period;
    let passed = |clock: usize| second[clock] - first[clock];
    let of_device = (passed(0) as f64 * f64::from(period)) as u64;
    for clock in [1, 2] {
        // Clocks of the system run at rates of their own; by how much is known to one part in 1024.
        let allowed = first_deviation + second_deviation + passed(clock) / 1024;
        assert!(of_device.abs_diff(passed(clock)) <= allowed, "{first:?} {second:?}, {allowed} allowed");
    }
    let (one, _) = read(&[Domain::CLOCK_MONOTONIC]);
    assert!(one[0] >= second[1], "the same clock in every question");
    // SAFETY: nothing of the device is in use.
    unsafe { device.destroy_device(None) };
}

/// The timestamp that the first queue of a device writes.
fn timestamp(device: &ash::Device) -> u64 {
    // SAFETY: objects of this device, in this order, destroyed when they are not in use.
    unsafe {
        let pool = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(1);
        let pool = device.create_query_pool(&pool, None).expect("a pool");
        let commands = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).expect("a pool");
        let info = vk::CommandBufferAllocateInfo::default().command_pool(commands).command_buffer_count(1);
        let buffers = device.allocate_command_buffers(&info).expect("a buffer");
        device.begin_command_buffer(buffers[0], &vk::CommandBufferBeginInfo::default()).expect("begun");
        device.cmd_reset_query_pool(buffers[0], pool, 0, 1);
        device.cmd_write_timestamp(buffers[0], vk::PipelineStageFlags::ALL_COMMANDS, pool, 0);
        device.end_command_buffer(buffers[0]).expect("recorded");
        let batch = vk::SubmitInfo::default().command_buffers(&buffers);
        device.queue_submit(device.get_device_queue(0, 0), &[batch], vk::Fence::null()).expect("submitted");
        device.device_wait_idle().expect("idle");
        let mut written = [0u64];
        device.get_query_pool_results(pool, 0, &mut written, vk::QueryResultFlags::TYPE_64).expect("results");
        device.destroy_command_pool(commands, None);
        device.destroy_query_pool(pool, None);
        written[0]
    }
}
