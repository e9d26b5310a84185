//! Timestamps of several clocks at one moment.

use ash::vk;

use super::declaration::commands;
use crate::app::App;
use crate::clock::{DOMAINS, sample};
use crate::device::Device;
use crate::failure::Answer;

/// Commands whose first argument is a physical device.
pub(super) mod physical_commands {
    use super::*;

    commands! { app;
        vkGetPhysicalDeviceCalibrateableTimeDomainsKHR: PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsKHR(
            device: vk::PhysicalDevice, count: *mut u32, domains: *mut vk::TimeDomainKHR) -> vk::Result
            = app.list(count, domains, &DOMAINS, |app, to, domain| app.put(to, *domain));
    }
}

commands! { app;
    vkGetCalibratedTimestampsKHR: PFN_vkGetCalibratedTimestampsKHR(device: vk::Device, count: u32,
        infos: *const vk::CalibratedTimestampInfoKHR<'_>, timestamps: *mut u64, deviation: *mut u64) -> vk::Result
        = calibrated(app, device, app.slice(infos, count), timestamps, deviation);
}

fn calibrated(
    app: App<'_>,
    device: vk::Device,
    infos: &[vk::CalibratedTimestampInfoKHR<'_>],
    timestamps: *mut u64,
    deviation: *mut u64,
) -> Answer<()> {
    let device = app.object::<Device>(device)?;
    let domains: Vec<_> = infos.iter().map(|info| info.time_domain).collect();
    let sample = sample(device.umd().adapter(), &domains)?;
    for (index, value) in sample.values.into_iter().enumerate() {
        app.put_at(timestamps, index, value);
    }
    app.put(deviation, sample.deviation);
    Ok(())
}
