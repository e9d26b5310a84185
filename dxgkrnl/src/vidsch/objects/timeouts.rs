//! What the scheduler knows of timeouts: the machine's clock, how often engines were reset, and who recovers from one.
//!
//! Recovery stands above the scheduler, in [`tdr`](crate::tdr). The scheduler complains of work that does not leave its engine, and meets recovery as
//! [`Recovery`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nt::clock::Clock;
use nt::lock::{Mutex, lock};
use wddm_ddi::km::*;
use wddm_ddi::types::NTSTATUS;

use crate::config::{TdrDebugMode, TdrLevel, TdrSettings};
use crate::platform::Platform;
use crate::tdr_report::{TdrReason, TdrReport};

use super::device::Device;
use super::hardware::HwContext;
use super::suspects::Suspects;
use crate::vidsch::deadline::{Deadline, Waiter};

/// Nodes that are told apart.
const NODES: usize = 64;

/// Interval at which a wait by a manual clock polls it.
pub(in crate::vidsch) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Host's time after which a queue with work that does nothing waits for something, and a report that did not come is lost.
const LONG_STALL: Duration = Duration::from_secs(1);

/// As [`LONG_STALL`] where a test moves the clock by hand, which it does once it knows how far the engines are.
const STALL_BY_HAND: Duration = Duration::from_millis(250);

/// Finds timeouts and recovers from them: the scheduler complains to it of work that does not leave its engine.
pub(crate) trait Recovery: Send + Sync {
    /// Finds what has timed out by the machine's clock, and recovers from it.
    fn look_for_timeouts(&self);

    /// The scheduler has stopped: nothing is watched any more, and no context is kept for it.
    fn stop(&self);

    /// Resets engines, and the adapter if that fails; then loses the devices that a reset costs. Called with nothing held.
    fn recover(&self, complaints: &[Complaint]);

    /// As [`Recovery::recover`], for a thread that is losing `device`, of which `subject` does not leave the engine of `node`, and whose
    /// other work may be done later.
    fn recover_while_losing(&self, device: &Device, node: u32, subject: Subject);

    /// Resets the adapter, unless it was reset more often than `resets`. Called with nothing held.
    fn reset_adapter(&self, reason: TdrReason, resets: u64);

    /// Recovers from a timeout of the engine of `node`, or of the whole adapter, that a program asks for. Called with nothing held.
    fn force(&self, node: Option<u32>);

    /// Resumes the contexts that the watchdog had suspended and that have left their engines.
    fn resume_suspended(&self);

    /// When this returns, everything is counted that was made good by resuming contexts, and that shows already. The calling thread holds nothing.
    fn finish_counting(&self);

    /// A device was created.
    fn note_device(&self, device: &Arc<Device>);

    /// Fails if the process is refused the adapter.
    ///
    /// # Errors
    /// STATUS_ACCESS_DENIED after too many timeouts. [tdr-changes-in-windows-8, debugger: 0x142]
    fn check_not_blocked(&self, process: &str) -> Result<(), NTSTATUS>;

    /// DxgkCbInvalidateHwContext: the context lost its state in an engine reset. [d3dkmddi: DXGKCB_INVALIDATEHWCONTEXT]
    fn invalidate_hw_context(&self, args: &DXGKARGCB_INVALIDATEHWCONTEXT) -> NTSTATUS;

    /// True if the driver says that the engine of `node` makes progress; `None` if it does not say.
    fn query_engine_status(&self, node: u32) -> Option<bool>;

    /// Work that stands still, in words: since when, by which DDI the driver got it, and what is expected of the driver.
    fn standing(&self) -> Vec<String>;

    /// Reports of the recoveries so far, oldest first; the last few hundred are kept.
    fn reports(&self) -> Vec<TdrReport>;
}

/// Settings, clock and counters of timeout detection and recovery on one adapter.
pub(crate) struct Timeouts {
    settings: TdrSettings,
    /// TdrDebugMode, as programs have set it.
    debug_mode: Mutex<TdrDebugMode>,
    pub(in crate::vidsch) clock: Clock,
    /// Nodes between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, a bit each. Written at device level.
    pub(in crate::vidsch) silent: AtomicU64,
    /// How often the engine of each node was reset, alone or with the adapter. Counted at device level.
    engine_resets: [AtomicU64; NODES],
    /// How often the driver was asked to reset the engine of each node, which may have let contexts go before it answers.
    resets_begun: [AtomicU64; NODES],
    /// How often the adapter was. Counted at device level.
    adapter_resets: AtomicU64,
    /// Packets count as complete: the adapter is being reset.
    abandoning: AtomicBool,
    pub(in crate::vidsch) recovery: Arc<dyn Recovery>,
}

/// Why an engine is to be reset. It is void once the engine was reset for another reason: other work runs there then.
pub(crate) struct Complaint {
    pub(crate) node: u32,
    pub(crate) reason: TdrReason,
    /// Resets of the engine until it was made.
    resets: u64,
    pub(crate) subject: Subject,
    /// The device of the context that it is about was in error already when it was made.
    lost: bool,
}

impl Complaint {
    /// True if it is about a context whose device was in error already when it was made.
    pub(in crate::vidsch) fn is_of_lost_device(&self) -> bool {
        self.lost
    }
}

/// Work without progress that a timeout is about.
#[derive(Clone)]
pub(crate) enum Subject {
    /// Something on the engine.
    Engine,
    /// A hardware context that does not leave it.
    Context(Arc<HwContext>),
    /// Packets.
    Packets(Suspects),
}

impl Timeouts {
    pub(in crate::vidsch) fn new(machine: &Platform, recovery: Arc<dyn Recovery>) -> Self {
        Self {
            settings: machine.config().tdr,
            debug_mode: Mutex::new(machine.config().tdr.debug_mode),
            clock: machine.config().clock.clone(),
            silent: AtomicU64::new(0),
            engine_resets: [const { AtomicU64::new(0) }; NODES],
            resets_begun: [const { AtomicU64::new(0) }; NODES],
            adapter_resets: AtomicU64::new(0),
            abandoning: AtomicBool::new(false),
            recovery,
        }
    }

    /// When what begins to wait now gives up.
    pub(in crate::vidsch) fn limit(&self) -> Duration {
        self.clock.now() + self.settings.delay
    }

    /// Longest sleep of a thread that waits until `limit`, before it has to look at the clock again.
    pub(in crate::vidsch) fn sleep_time(&self, limit: Duration) -> Duration {
        if self.clock.is_manual() { POLL_INTERVAL } else { limit.saturating_sub(self.clock.now()) }
    }

    /// Host's time after which a queue with work that does nothing waits for something, and a report that did not come is lost. The watchdog gives it before it asks a second
    /// time, so that whatever the second question brings was not told by itself.
    pub(crate) fn long_stall(&self) -> Duration {
        if self.clock.is_manual() { STALL_BY_HAND } else { LONG_STALL }
    }

    /// How often one packet may be lost; `None` where nothing is made of timeouts.
    pub(crate) fn limit_of_losses(&self) -> Option<u32> {
        let acts = self.settings.level == TdrLevel::Recover && self.debug_mode() != TdrDebugMode::Ignore;
        acts.then_some(self.settings.limit_count)
    }

    /// TdrDebugMode, as it is now.
    pub(crate) fn debug_mode(&self) -> TdrDebugMode {
        *lock(&self.debug_mode)
    }

    /// Sets TdrDebugMode until the adapter stops.
    pub(crate) fn set_debug_mode(&self, mode: TdrDebugMode) {
        *lock(&self.debug_mode) = mode;
    }

    /// The settings of the machine.
    pub(crate) fn settings(&self) -> &TdrSettings {
        &self.settings
    }

    /// TdrDelay: the time within which an engine has to end or preempt a context's work.
    pub(crate) fn delay(&self) -> Duration {
        self.settings.delay
    }

    /// A wait of TdrDelay that begins now.
    pub(in crate::vidsch) fn deadline(&self, waiter: Waiter) -> Deadline {
        Deadline::new(&self.clock, self.settings.delay, waiter)
    }

    /// The machine's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn engine_resets(&self, node: u32) -> &AtomicU64 {
        &self.engine_resets[node as usize % NODES]
    }

    /// Number of resets of the engine of `node`.
    pub(crate) fn resets_of(&self, node: u32) -> u64 {
        self.engine_resets(node).load(Ordering::Acquire)
    }

    /// A complaint about the engine of `node`, with its state of this moment.
    pub(crate) fn complaint(&self, node: u32, reason: TdrReason) -> Complaint {
        self.complaint_about(node, reason, Subject::Engine)
    }

    /// As [`Tdr::complaint`], of what stands still there.
    pub(crate) fn complaint_about(&self, node: u32, reason: TdrReason, subject: Subject) -> Complaint {
        // In this order: a reset puts devices in error before it is counted, so that one which costs this device from now on is counted later.
        let resets = self.resets_of(node);
        let lost = matches!(&subject, Subject::Context(context) if context.device().error().is_some());
        Complaint { node, reason, resets, subject, lost }
    }

    /// Number of resets of the adapter.
    pub(crate) fn adapter_resets(&self) -> u64 {
        self.adapter_resets.load(Ordering::Acquire)
    }

    /// True if a reset that came between has ended what is complained of.
    pub(crate) fn is_over(&self, complaint: &Complaint) -> bool {
        let was_reset = self.resets_of(complaint.node) != complaint.resets;
        match &complaint.subject {
            // Another reset that came between has lost the device and stopped the context; that recovery takes the context off the engine.
            Subject::Context(context) => {
                context.has_left() || was_reset && !complaint.lost && context.device().error().is_some()
            }
            Subject::Engine | Subject::Packets(_) => was_reset,
        }
    }

    /// How often somebody should look for timeouts; `None` where time is moved by hand, or nobody is to look.
    pub(in crate::vidsch) fn check_interval(&self) -> Option<Duration> {
        let looks = !self.clock.is_manual() && self.settings.level != TdrLevel::Off;
        looks.then(|| self.settings.delay / 4)
    }

    /// True if packets count as complete because the adapter is being reset.
    pub(crate) fn is_abandoning(&self) -> bool {
        self.abandoning.load(Ordering::Acquire)
    }

    /// The driver is about to be asked to reset the engine of `node`.
    pub(crate) fn begin_engine_reset(&self, node: u32) {
        self.resets_begun[node as usize % NODES].fetch_add(1, Ordering::AcqRel);
    }

    /// Number of resets of the engine of `node` that were begun, whether they are over or not.
    pub(crate) fn resets_begun(&self, node: u32) -> u64 {
        self.resets_begun[node as usize % NODES].load(Ordering::Acquire)
    }

    /// The engine of `node` was reset, alone or with the adapter. Called at device level.
    pub(crate) fn note_engine_reset(&self, node: u32) {
        self.engine_resets(node).fetch_add(1, Ordering::AcqRel);
    }

    /// The adapter was reset, and with it every engine. Called at device level.
    pub(crate) fn note_adapter_reset(&self) {
        for resets in self.engine_resets.iter().chain([&self.adapter_resets]) {
            resets.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// From now on the node must say nothing until it is resumed, or may say something again. Called at device level.
    pub(crate) fn set_silent(&self, node: u32, silent: bool) {
        let bit = 1 << (node & 63);
        if silent {
            self.silent.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.silent.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Packets count as complete from now on, or no longer.
    pub(crate) fn set_abandoning(&self, abandoning: bool) {
        self.abandoning.store(abandoning, Ordering::Release);
    }
}
