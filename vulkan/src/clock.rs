// UNSAFETY: the clocks of the system are read into a structure.
//! The clocks of GPU and processor.

use ash::vk;
use campanile_umd::{Adapter, Clocks};

use crate::failure::{Answer, result};

/// Values of several clocks, taken one after another.
pub(crate) struct Sample {
    pub(crate) values: Vec<u64>,
    /// Nanoseconds within which all of them were true.
    pub(crate) deviation: u64,
}

/// Time domains whose timestamps can be calibrated. [Vulkan: vkGetPhysicalDeviceCalibrateableTimeDomainsKHR]
pub(crate) use host::DOMAINS;

/// Reads the clocks of these domains.
///
/// # Errors
/// VK_ERROR_UNKNOWN for a domain that there is not; what the operating system refuses.
pub(crate) fn sample(adapter: &Adapter, domains: &[vk::TimeDomainKHR]) -> Answer<Sample> {
    if !domains.iter().all(|domain| DOMAINS.contains(domain)) {
        return Err(vk::Result::ERROR_UNKNOWN);
    }
    host::sample(|| adapter.clocks().map_err(result), domains)
}

/// Nanoseconds of a tick of the GPU clock, rounded up.
fn tick(clocks: &Clocks) -> u64 {
    1_000_000_000u64.div_ceil(clocks.gpu_hz.max(1))
}

#[cfg(windows)]
mod host {
    use super::*;

    pub(crate) const DOMAINS: [vk::TimeDomainKHR; 2] =
        [vk::TimeDomainKHR::DEVICE, vk::TimeDomainKHR::QUERY_PERFORMANCE_COUNTER];

    /// Both clocks, which the kernel-mode driver reads back to back. Its reading takes less than a unit of the performance counter, 100 ns.
    /// [d3dkmdt: DXGK_GPUCLOCKDATA]
    pub(super) fn sample(read: impl Fn() -> Answer<Clocks>, domains: &[vk::TimeDomainKHR]) -> Answer<Sample> {
        let clocks = read()?;
        let value = |domain: &vk::TimeDomainKHR| match *domain {
            vk::TimeDomainKHR::DEVICE => clocks.gpu,
            _ => clocks.processor,
        };
        Ok(Sample { values: domains.iter().map(value).collect(), deviation: 2 * 100 + tick(&clocks) })
    }
}

#[cfg(not(windows))]
mod host {
    use super::*;

    pub(crate) const DOMAINS: [vk::TimeDomainKHR; 3] =
        [vk::TimeDomainKHR::DEVICE, vk::TimeDomainKHR::CLOCK_MONOTONIC, vk::TimeDomainKHR::CLOCK_MONOTONIC_RAW];

    /// The clocks in the order of the domains. All were true at some time between two readings of a clock around them.
    pub(super) fn sample(read: impl Fn() -> Answer<Clocks>, domains: &[vk::TimeDomainKHR]) -> Answer<Sample> {
        let (before, mut slowest) = (nanoseconds(libc::CLOCK_MONOTONIC_RAW), 1);
        let mut values = Vec::with_capacity(domains.len());
        for domain in domains {
            values.push(match *domain {
                vk::TimeDomainKHR::DEVICE => {
                    let clocks = read()?;
                    slowest = slowest.max(tick(&clocks));
                    clocks.gpu
                }
                vk::TimeDomainKHR::CLOCK_MONOTONIC => nanoseconds(libc::CLOCK_MONOTONIC),
                _ => nanoseconds(libc::CLOCK_MONOTONIC_RAW),
            });
        }
        let deviation = nanoseconds(libc::CLOCK_MONOTONIC_RAW).saturating_sub(before) + slowest;
        Ok(Sample { values, deviation })
    }

    fn nanoseconds(clock: libc::clockid_t) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a structure of this frame. Every Linux has these clocks, so that it is written.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }
}
