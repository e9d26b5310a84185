//! What a machine tells of its adapters: the scheduler's state, logs of fences, traces, reports of recoveries, residency.

use std::sync::{Arc, Weak};

use nt::lock::lock;
use wddm_ddi::km::{DXGK_GPUCLOCKDATA, DXGK_GPUCLOCKDATA_FLAGS};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};
use wddm_ddi::types::LUID;

use super::{Machine, PnpError};
use crate::interrupt::Counters;
use crate::kmd_handle::KmdHandle;
use crate::miniport::DDIS;
use crate::port::PowerComponentState;
use crate::registered::RegisteredDriver;
use crate::registration::DriverId;
use crate::rescue::Rescue;
use crate::tdr_report::TdrReport;
use crate::trace::{Noted, TRACE_EVENTS_MAX, TraceEvent, TraceLog};
use crate::vidmm::ResidencyCounts;
use crate::vidsch::{FenceReports, GpuClock, Holdings, QueueFenceLog, RenderAdapter, SchedulingLogCounts, Tree};

/// The adapters of a machine, as what may outlive it by mistake.
pub struct Remains(Vec<Weak<RenderAdapter>>);

impl Remains {
    /// Number of adapters that something still refers to. 0 once the machine, its processes and their objects are gone.
    pub fn count(&self) -> usize {
        self.0.iter().filter(|adapter| adapter.strong_count() != 0).count()
    }
}

impl Machine {
    /// Lines of the drivers' DbgPrintEx and of the system, oldest first; the last few thousand are kept.
    pub fn debug_log(&self) -> Vec<String> {
        self.0.verifier.log_lines()
    }

    /// Lines of the debug log behind the first `position` ones, as far as they are kept, and the position for the next time.
    pub fn debug_log_since(&self, position: u64) -> (Vec<String>, u64) {
        self.0.verifier.log_lines_since(position)
    }

    /// Takes the counts of what the system made good since the last call although a driver or a device should have reported it. What shows already is in them: the
    /// thread that made it good is waited for.
    pub fn take_rescues(&self) -> Vec<(Rescue, u64)> {
        for adapter in self.adapters() {
            if let Some(scheduler) = adapter.scheduler() {
                scheduler.recovery().finish_counting();
            }
        }
        self.0.rescues.take()
    }

    /// Calls into drivers that have not returned for a second, and functions of drivers that took a second or longer, each in words: what a machine that stands still may wait for.
    pub fn slow_calls(&self) -> Vec<String> {
        self.0.verifier.calls().slow()
    }

    /// Work on an adapter that stands still, in words: since when, by which DDI the driver got it, and what is expected of the driver.
    pub fn standing_work(&self, luid: LUID) -> Vec<String> {
        let adapter = self.adapter(luid);
        let scheduler = adapter.as_ref().and_then(|adapter| adapter.scheduler());
        scheduler.map_or_else(Vec::new, |scheduler| scheduler.recovery().standing())
    }

    /// Takes how often each DDI was called since the last call, by its name; those that were not called are left out.
    pub fn take_ddi_calls(&self) -> Vec<(&'static str, u64)> {
        self.0.ddi_calls.take(DDIS)
    }

    /// The adapters that are started now, to find out later whether they are gone.
    pub fn remains(&self) -> Remains {
        Remains(self.adapters().iter().map(|adapter| Arc::downgrade(adapter.render())).collect())
    }

    /// What happened on an adapter since it was started. `None` if it is not started.
    pub fn counters(&self, luid: LUID) -> Option<Counters> {
        Some(self.adapter(luid)?.interrupts().counters())
    }

    /// The DDIs called while an adapter was started, in order. Empty if it is not started.
    pub fn start_log(&self, luid: LUID) -> Vec<String> {
        self.adapter(luid).map_or_else(Vec::new, |adapter| adapter.start_log().to_vec())
    }

    /// Watches from now on that no DDI about an object meets the end of that object, and lets such calls take longer.
    pub fn watch_lifetimes(&self, luid: LUID) {
        if let Some(adapter) = self.adapter(luid) {
            adapter.miniport.lifetimes().watch();
        }
    }

    /// Ends [`Machine::watch_lifetimes`]; the first calls that met the end of their object, by name.
    pub fn take_lifetime_breaches(&self, luid: LUID) -> Vec<String> {
        self.adapter(luid).map_or_else(Vec::new, |adapter| adapter.miniport.lifetimes().take())
    }

    /// Notes the DDIs that an adapter's driver is called with from now on, for all adapters of the driver.
    pub fn start_ddi_log(&self, luid: LUID) {
        if let Some(adapter) = self.adapter(luid) {
            adapter.miniport.start_trace();
        }
    }

    /// Ends [`Machine::start_ddi_log`] and returns the names in the order of the calls.
    pub fn take_ddi_log(&self, luid: LUID) -> Vec<String> {
        self.adapter(luid).map_or_else(Vec::new, |adapter| adapter.miniport.take_trace())
    }

    /// As [`Machine::take_ddi_log`], of a driver whose adapters may be gone.
    pub fn take_driver_ddi_log(&self, driver: DriverId) -> Vec<String> {
        let pnp = lock(&self.0.pnp);
        let loaded = pnp.drivers.get(driver.0).and_then(Option::as_ref);
        loaded.map_or_else(Vec::new, |loaded| loaded.miniport.take_trace())
    }

    /// A loaded driver, to call its DDIs directly.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn registered(&self, driver: DriverId) -> Result<RegisteredDriver, PnpError> {
        Ok(RegisteredDriver::new(self.miniport(driver)?, Arc::clone(&self.0.ram)))
    }

    /// What an adapter holds; `None` if there is none. Destroyed allocations that no queue uses any more are freed first, for the system does that with
    /// the next request for memory only.
    pub fn holdings(&self, luid: LUID) -> Option<Holdings> {
        let adapter = self.adapter(luid)?;
        let scheduler = adapter.scheduler()?;
        let memory_manager = adapter.memory_manager()?;
        memory_manager.collect();
        let (allocations, mappings) = memory_manager.held();
        let ram = adapter.machine.ram();
        let pool_blocks = adapter.miniport.driver().pool().outstanding().values().map(|(_, blocks)| blocks).sum();
        let memory = ram.size() - ram.free_bytes();
        Some(Holdings { allocations, mappings, pool_blocks, memory, ..scheduler.holdings() })
    }

    /// Queues, fences and doorbells of an adapter as they are now; `None` if there is no such adapter.
    pub fn inspect(&self, luid: LUID) -> Option<Tree> {
        let adapter = self.adapter(luid)?;
        adapter.scheduler().map(|scheduler| scheduler.inspect(adapter.caps()))
    }

    /// Preemptions of packets that were asked for on a node, and packets handed over again after one, so far; `None` if there is no such
    /// node.
    pub fn preemptions(&self, luid: LUID, node: u32) -> Option<(u32, u64)> {
        self.adapter(luid)?.scheduler()?.preemptions(node)
    }

    /// What the driver answers to DxgkDdiQueryEngineStatus of a node: whether it makes progress. `None` if there is no such node, it does not
    /// say, or the device is not awake.
    pub fn engine_responds(&self, luid: LUID, node: u32) -> Option<bool> {
        let adapter = self.adapter(luid)?;
        let _awake = adapter.machine.gate().enter_awake()?;
        adapter.scheduler()?.engine_responds(node)
    }

    /// How often a queue of an adapter was asked what it has queued, for memory that is freed when that is done and for engines that
    /// may enter F1; 0 if there is no such adapter.
    pub fn queue_looks(&self, luid: LUID) -> u64 {
        self.adapter(luid).map_or(0, |adapter| adapter.scheduler().map_or(0, |scheduler| scheduler.queue_looks()))
    }

    /// Progress, and the last queued value that user mode wrote, of each queue for user-mode submission of an adapter. The progress is read first,
    /// so that it is the larger one only where user mode was late.
    pub fn queued_work(&self, luid: LUID) -> Vec<(u64, u64)> {
        let adapter = self.adapter(luid);
        let scheduler = adapter.as_ref().and_then(|adapter| adapter.scheduler());
        scheduler.map_or_else(Vec::new, |scheduler| scheduler.queued_work())
    }

    /// Power components of an adapter as they are now, in the order in which the driver declared them; none if there is no such
    /// adapter.
    pub fn power_components(&self, luid: LUID) -> Vec<PowerComponentState> {
        self.adapter(luid).map_or_else(Vec::new, |adapter| adapter.power().states())
    }

    /// How interrupts of native fences that name queues were answered so far; `None` without such an adapter. All zero on an
    /// adapter whose interrupts name fences.
    pub fn fence_reports(&self, luid: LUID) -> Option<FenceReports> {
        Some(self.adapter(luid)?.scheduler()?.fence_reports())
    }

    /// What the user-mode queues of an adapter have logged since the last call, oldest queue of each device first; `None`
    /// without such an adapter. Without [`Machine::trace_fences`] only the latest 256 entries of a log are kept, and what
    /// a queue logged is gone with it.
    pub fn fence_log(&self, luid: LUID) -> Option<Vec<QueueFenceLog>> {
        Some(self.adapter(luid)?.scheduler()?.fence_log())
    }

    /// What [`Machine::fence_log`] would find if the driver were not asked to complete the logs first. Changes nothing: the
    /// entries are there for the next call. Shows whether DxgkDdiUpdateNativeFenceLogs is needed.
    pub fn fence_log_without_barrier(&self, luid: LUID) -> Option<Vec<QueueFenceLog>> {
        Some(self.adapter(luid)?.scheduler()?.fence_log_without_barrier())
    }

    /// Gives every user-mode queue of an adapter, those to come included, logs of `entries`, so that a tracer that calls
    /// [`Machine::fence_log`] now and then loses none; `None` ends that. Running queues get new buffers while they run.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for no entries, more than 65536, or an adapter that is not there; STATUS_NO_MEMORY; what
    /// the driver answered. Some queues then keep the logs they had.
    pub fn trace_fences(&self, luid: LUID, entries: Option<u32>) -> Result<(), NTSTATUS> {
        let adapter = self.adapter(luid).ok_or(STATUS_INVALID_PARAMETER)?;
        adapter.scheduler().ok_or(STATUS_INVALID_PARAMETER)?.trace_fences(entries).map_err(|failure| failure.status())
    }

    /// True if user-mode queues that are made from now on have fence logs. They have, unless somebody wants to know what
    /// logging costs; queues that exist stay as they are.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for an adapter that is not there.
    pub fn log_fences(&self, luid: LUID, on: bool) -> Result<(), NTSTATUS> {
        let adapter = self.adapter(luid).ok_or(STATUS_INVALID_PARAMETER)?;
        adapter.scheduler().ok_or(STATUS_INVALID_PARAMETER)?.log_fences(on);
        Ok(())
    }

    /// Reads the clocks of a node and of the CPU together; `None` without such an adapter, or if the driver fails.
    pub fn gpu_clock(&self, luid: LUID, node: u32) -> Option<GpuClock> {
        let adapter = self.adapter(luid).filter(|adapter| (node as usize) < adapter.caps().nodes.len())?;
        let mut data = DXGK_GPUCLOCKDATA {
            GpuFrequency: 0,
            GpuClockCounter: 0,
            CpuClockCounter: 0,
            Flags: DXGK_GPUCLOCKDATA_FLAGS::new(),
        };
        let (node, engine) = adapter.caps().ordinals(node);
        let status = adapter.miniport.calibrate_gpu_clock(adapter.context().raw(), node, engine, &mut data);
        let clock = GpuClock { gpu_frequency: data.GpuFrequency, gpu: data.GpuClockCounter, cpu: data.CpuClockCounter };
        (status.is_success() && clock.gpu_frequency != 0).then_some(clock)
    }

    /// What was read of the scheduling log of a node; `None` without such a node, or if it has none.
    pub fn scheduling_log(&self, luid: LUID, node: u32) -> Option<SchedulingLogCounts> {
        self.adapter(luid)?.scheduler()?.scheduling_log(node)
    }

    /// From now on the scheduling logs of an adapter interrupt no more, and may lose entries: for programs that count interrupts. False without such an adapter.
    pub fn quiet_scheduling_logs(&self, luid: LUID) -> bool {
        let adapter = self.adapter(luid).filter(|adapter| adapter.scheduler().is_some());
        adapter.map(|adapter| adapter.vidsch().quiet_scheduling_logs()).is_some()
    }

    /// What recoveries of an adapter did, oldest first; the last few hundred are kept.
    pub fn tdr_reports(&self, luid: LUID) -> Vec<TdrReport> {
        let adapter = self.adapter(luid);
        let scheduler = adapter.as_ref().and_then(|adapter| adapter.scheduler());
        scheduler.map_or_else(Vec::new, |scheduler| scheduler.recovery().reports())
    }

    /// A period of the memory manager of an adapter ends: devices that registered for it are asked to give back what they have not used
    /// since the last one. False without such an adapter.
    pub fn trim_periodically(&self, luid: LUID) -> bool {
        let adapter = self.adapter(luid).filter(|adapter| adapter.scheduler().is_some());
        adapter.map(|adapter| adapter.vidmm().trim_periodically()).is_some()
    }

    /// What became of allocations of an adapter so far; `None` without such an adapter.
    pub fn residency(&self, luid: LUID) -> Option<ResidencyCounts> {
        let adapter = self.adapter(luid)?;
        // The scheduler comes after the memory manager.
        adapter.scheduler()?;
        Some(adapter.vidmm().residency())
    }

    /// Traces the driver of an adapter from now on, keeping the latest `capacity` events; `None` ends that and drops what
    /// was not fetched. Adapters of one driver share a trace.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a capacity of 0 or above [`TRACE_EVENTS_MAX`], or an adapter that is not there;
    /// STATUS_NO_MEMORY. The trace is then as it was.
    pub fn trace(&self, luid: LUID, capacity: Option<u32>) -> Result<(), NTSTATUS> {
        if capacity.is_some_and(|capacity| capacity == 0 || capacity > TRACE_EVENTS_MAX) {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let adapter = self.adapter(luid).ok_or(STATUS_INVALID_PARAMETER)?;
        adapter.miniport.events().set(capacity.unwrap_or(0) as usize)
    }

    /// What was traced of an adapter's driver since the last call; `None` without such an adapter.
    pub fn take_trace(&self, luid: LUID) -> Option<TraceLog> {
        let adapter = self.adapter(luid)?;
        let (noted, lost) = adapter.miniport.events().take();
        let adapters = self.adapters();
        let functions = adapters.iter().flat_map(|adapter| adapter.links().iter().zip(std::iter::repeat(adapter.luid)));
        let known: Vec<(KmdHandle, LUID)> = functions.map(|(link, luid)| (link.context, luid)).collect();
        let named = |context| known.iter().find(|(known, _)| *known == context).map(|(_, luid)| *luid);
        let events = noted.into_iter().map(|Noted { began, took, adapter, kind }| TraceEvent {
            began,
            took,
            adapter: named(adapter),
            kind,
        });
        Some(TraceLog { events: events.collect(), lost })
    }
}
