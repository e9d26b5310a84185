//! Interrupt messages, the interrupt lock and deferred procedure calls of one adapter, which linked functions share.
//!
//! Messages may arrive on any thread at any time; they are noted and the adapter's interrupt thread (or
//! [`Interrupts::deliver`]) runs the driver's interrupt routine at device level under the interrupt lock, then its DPC at
//! DISPATCH_LEVEL. Messages of one vector that arrive before delivery are one interrupt, as with MSI.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nt::bugcheck::Bugcheck;
use nt::lock::{Condvar, Innermost, Mutex, MutexGuard, lock};

use crate::kmd_handle::KmdHandle;
use crate::miniport::Miniport;
use crate::rank;
use crate::rescue::{Rescue, Rescues};
use crate::trace::TraceKind;
use nt::bus::{Bus, InterruptSink};
use nt::irql::{DEVICE_LEVEL, Raised};

/// Kinds of DxgkCbNotifyInterrupt that are counted by number.
pub(crate) const NOTIFICATION_KINDS: usize = 21;

/// Messages of a function. A resource list cannot have more.
const VECTORS: u32 = 8;
/// Functions of an adapter.
pub(crate) const FUNCTIONS: usize = (u64::BITS / VECTORS) as usize;

/// Counters of an adapter since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls of the driver's interrupt routine.
    pub interrupts: u64,
    /// Of those, the ones that the driver said were not its own.
    pub unclaimed_interrupts: u64,
    /// Calls of the driver's DPC routine.
    pub dpcs: u64,
    /// DxgkCbNotifyInterrupt calls by DXGK_INTERRUPT_TYPE number.
    pub notifications: [u64; NOTIFICATION_KINDS],
    /// Of those, the ones with EvaluateLegacyMonitoredFences.
    pub legacy_evaluations: u64,
    /// Fences that reports of DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED named.
    pub named_fences: u64,
    /// DxgkCbNotifyDpc calls.
    pub dpc_notifications: u64,
}

/// Interrupt state of an adapter.
#[derive(Default)]
pub(crate) struct Interrupts {
    /// Messages that arrived, a bit each: [`VECTORS`] bits for each function.
    pending: AtomicU64,
    /// Functions whose DPC is queued, a bit each.
    dpc_queued: AtomicU64,
    /// The interrupt routine is connected: StartDevice has returned and StopDevice is not done.
    connected: AtomicBool,
    line: Mutex<(), rank::InterruptLock>,
    /// Token of the thread that holds `line`, 0 for none.
    holder: AtomicU64,
    /// Held by whoever delivers, so that routines never run on two threads.
    delivering: Mutex<(), rank::DeliveringInterrupts>,
    wake: Mutex<Wake>,
    woken: Condvar,
    interrupts: AtomicU64,
    unclaimed: AtomicU64,
    /// Answers FALSE in succession for each message of each function, up to the number that is told.
    unclaimed_messages: Mutex<[[u32; VECTORS as usize]; FUNCTIONS], Innermost>,
    dpcs: AtomicU64,
    notifications: [AtomicU64; NOTIFICATION_KINDS],
    legacy_evaluations: AtomicU64,
    named_fences: AtomicU64,
    dpc_notifications: AtomicU64,
    /// DxgkCbNotifyInterrupt was called and DxgkCbNotifyDpc was not yet.
    unanswered: AtomicBool,
    /// Number of the last call of DxgkCbNotifyInterrupt.
    reports: AtomicU64,
    /// The number of the report that is not answered, and since when.
    overdue: Mutex<Option<(u64, Instant)>, Innermost>,
    /// The last that DxgkCbNotifyInterrupt was told.
    last_report: Mutex<Option<TraceKind>, Innermost>,
    /// A routine that disowned its interrupt was told in the log.
    told_disowned: AtomicBool,
    /// Functions whose interrupt is a line.
    lines: Mutex<Vec<Line>>,
    rescues: Arc<Rescues>,
}

/// The line of a function.
struct Line {
    function: u32,
    bus: Arc<dyn Bus>,
    /// Answers FALSE of the interrupt routine in succession.
    unclaimed: u32,
    /// Answers TRUE since the DPC routine of the function has run.
    claimed: u32,
    unreported: Unreported,
}

/// Answers TRUE for a line in close succession since the last call of DxgkCbNotifyInterrupt, the number of that, and when the last interrupt was.
#[derive(Default)]
struct Unreported {
    count: u32,
    reports: u64,
    last: Option<Instant>,
    /// A line that never ended was told.
    told: bool,
}

impl Unreported {
    /// Counts an answer when the adapter has made so many reports; true for the first one with which the line is taken for one that never ends. A function that interrupts now and
    /// then for reasons of its own, as a clock does, is none.
    fn note_claim(&mut self, claimed: bool, reports: u64, now: Instant) -> bool {
        let last = self.last.replace(now);
        let is_close = last.is_some_and(|last| now.saturating_duration_since(last) < UNREPORTED_GAP);
        let before = if is_close && self.reports == reports { self.count } else { 0 };
        (self.count, self.reports) = (before.saturating_add(claimed.into()), reports);
        self.count == UNREPORTED_MAX && !std::mem::replace(&mut self.told, true)
    }
}

impl Line {
    /// The line is to be unmasked: it is not taken for one that never ends.
    fn is_open(&self) -> bool {
        self.unclaimed < UNCLAIMED_MAX && self.claimed < CLAIMED_MAX && self.unreported.count < UNREPORTED_MAX
    }
}

/// So many interrupts of a line in succession that nobody claims are one that nobody ever ends: it stays masked then. So many messages are told. No page says how many.
const UNCLAIMED_MAX: u32 = 1000;
/// So many interrupts of a line that are claimed before a DPC routine runs are one that is to end there: it stays masked until then. No page says how many.
const CLAIMED_MAX: u32 = 1000;
/// So many interrupts of a line that are claimed in succession without a report of DxgkCbNotifyInterrupt are one that the driver never dismisses: it is masked until the next look for timeouts. No
/// page says how many.
const UNREPORTED_MAX: u32 = 10_000;
/// Interrupts that are further apart are not in succession: a line that is still asserted interrupts again at once.
const UNREPORTED_GAP: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Wake {
    work: bool,
    end: bool,
}

/// The calling thread holds the interrupt lock at device level.
pub(crate) struct AtDeviceLevel<'a> {
    interrupts: &'a Interrupts,
    line: Option<MutexGuard<'a, (), rank::InterruptLock>>,
    _raised: Raised,
}

/// The thread of an adapter's interrupts; joined when dropped.
pub(crate) struct InterruptThread {
    interrupts: Arc<Interrupts>,
    thread: Option<JoinHandle<()>>,
}

/// Receives the messages of a function.
pub(crate) struct Sink {
    pub(crate) interrupts: Weak<Interrupts>,
    /// Which function of the adapter, below [`FUNCTIONS`].
    pub(crate) function: u32,
}

impl InterruptSink for Sink {
    fn message(&self, vector: u16) {
        let Some(interrupts) = self.interrupts.upgrade() else { return };
        let bit = u32::from(vector).checked_add(self.function * VECTORS).filter(|_| u32::from(vector) < VECTORS);
        let Some(bit) = bit.and_then(|bit| 1_u64.checked_shl(bit)) else { return };
        interrupts.pending.fetch_or(bit, Ordering::AcqRel);
        interrupts.wake_thread();
    }
}

fn thread_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static TOKEN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    TOKEN.with(|token| *token)
}

impl Interrupts {
    /// Those of an adapter of the machine whose counts these are.
    pub(crate) fn new(rescues: &Arc<Rescues>) -> Self {
        Self { rescues: Arc::clone(rescues), ..Self::default() }
    }

    /// Raises to device level and takes the interrupt lock; a thread that has it keeps it.
    pub(crate) fn acquire(&self) -> AtDeviceLevel<'_> {
        let raised = Raised::to(DEVICE_LEVEL);
        let line = (!self.is_held_here()).then(|| {
            let line = lock(&self.line);
            self.holder.store(thread_token(), Ordering::Relaxed);
            line
        });
        AtDeviceLevel { interrupts: self, line, _raised: raised }
    }

    /// True if the calling thread holds the interrupt lock.
    pub(crate) fn is_held_here(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == thread_token()
    }

    /// From now on messages reach the driver; those that came earlier are delivered at once.
    pub(crate) fn connect(&self) {
        self.connected.store(true, Ordering::Release);
        self.wake_thread();
    }

    /// From now on no routine of the driver is called; when this returns, none runs.
    pub(crate) fn disconnect(&self) {
        self.connected.store(false, Ordering::Release);
        drop(lock(&self.delivering));
        self.pending.store(0, Ordering::Release);
        self.dpc_queued.store(0, Ordering::Release);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// DxgkCbQueueDpc of a function: false if it was queued already.
    pub(crate) fn queue_dpc(&self, function: u32) -> bool {
        let bit = 1_u64.checked_shl(function).unwrap_or(0);
        let newly = self.dpc_queued.fetch_or(bit, Ordering::AcqRel) & bit == 0;
        if newly {
            self.wake_thread();
        }
        newly
    }

    /// Counts one DxgkCbNotifyInterrupt, which was told `report`.
    pub(crate) fn count_notification(&self, kind: i32, legacy: bool, report: TraceKind) {
        *lock(&self.last_report) = Some(report);
        self.reports.fetch_add(1, Ordering::AcqRel);
        self.unanswered.store(true, Ordering::Release);
        if let Some(counter) = usize::try_from(kind).ok().and_then(|kind| self.notifications.get(kind)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.legacy_evaluations.fetch_add(legacy.into(), Ordering::Relaxed);
    }

    /// Counts the fences that a report names.
    pub(crate) fn count_named_fences(&self, count: u32) {
        self.named_fences.fetch_add(count.into(), Ordering::Relaxed);
    }

    /// Counts one DxgkCbNotifyDpc.
    pub(crate) fn count_dpc_notification(&self) {
        self.unanswered.store(false, Ordering::Release);
        self.dpc_notifications.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            interrupts: read(&self.interrupts),
            unclaimed_interrupts: read(&self.unclaimed),
            dpcs: read(&self.dpcs),
            notifications: std::array::from_fn(|kind| read(&self.notifications[kind])),
            legacy_evaluations: read(&self.legacy_evaluations),
            named_fences: read(&self.named_fences),
            dpc_notifications: read(&self.dpc_notifications),
        }
    }

    /// Runs the driver's routines for whatever is pending; false when nothing was, or another thread is at it. `contexts` are those
    /// of the functions, in order.
    pub(crate) fn deliver(&self, miniport: &Miniport, contexts: &[KmdHandle]) -> bool {
        let Some(_delivering) = self.delivering.try_lock() else { return false };
        self.deliver_pending(miniport, contexts)
    }

    /// As [`Interrupts::deliver`]; when it returns, the driver's routines have run for everything that arrived before, on whichever
    /// thread. Called below device level, never from those routines.
    pub(crate) fn flush(&self, miniport: &Miniport, contexts: &[KmdHandle]) {
        let _delivering = lock(&self.delivering);
        self.deliver_pending(miniport, contexts);
    }

    fn deliver_pending(&self, miniport: &Miniport, contexts: &[KmdHandle]) -> bool {
        let mut any = false;
        while self.is_connected() {
            let pending = self.pending.swap(0, Ordering::AcqRel);
            let dpcs = if pending == 0 { self.dpc_queued.swap(0, Ordering::AcqRel) } else { 0 };
            if pending == 0 && dpcs == 0 {
                break;
            }
            let owed = self.unanswered.load(Ordering::Acquire);
            let answers = self.dpc_notifications.load(Ordering::Acquire);
            for (function, context) in (0u32..).zip(contexts) {
                let messages = pending >> (function * VECTORS) & ((1 << VECTORS) - 1);
                if messages != 0 {
                    let claimed = self.interrupt(miniport, *context, messages);
                    self.end_of_interrupt(miniport, function, messages, claimed);
                }
                if dpcs >> function & 1 != 0 {
                    self.dpcs.fetch_add(1, Ordering::Relaxed);
                    miniport.events().during(*context, || miniport.dpc_routine(context.raw()), |()| TraceKind::Dpc);
                    self.after_dpc(function);
                }
            }
            if dpcs != 0 && owed && self.dpc_notifications.load(Ordering::Acquire) == answers {
                self.check_dpc(miniport);
            }
            any = true;
        }
        any
    }

    /// The interrupt of a function is a line of this bus.
    pub(crate) fn add_line(&self, function: u32, bus: &Arc<dyn Bus>) {
        let mut lines = lock(&self.lines);
        lines.retain(|line| line.function != function);
        lines.push(Line {
            function,
            bus: Arc::clone(bus),
            unclaimed: 0,
            claimed: 0,
            unreported: Unreported::default(),
        });
    }

    /// The interrupt routine has run for these messages of a function, and has claimed some: a line that it asserts still interrupts again.
    fn end_of_interrupt(&self, miniport: &Miniport, function: u32, messages: u64, claimed: u64) {
        // Where the machine has stopped, no routine was asked.
        if miniport.driver().verifier().is_stopped() {
            return;
        }
        let mut lines = lock(&self.lines);
        let Some(line) = lines.iter_mut().find(|line| line.function == function) else {
            drop(lines);
            return self.end_of_messages(miniport, function, messages, claimed);
        };
        let claimed = claimed != 0;
        line.unclaimed = if claimed { 0 } else { line.unclaimed.saturating_add(1) };
        line.claimed = line.claimed.saturating_add(claimed.into());
        let unending = line.unreported.note_claim(claimed, self.reports.load(Ordering::Acquire), Instant::now());
        let (bus, unclaimed, claimed) = (Arc::clone(&line.bus), line.unclaimed, line.claimed);
        let is_open = line.is_open();
        drop(lines);
        if unending {
            self.rescues.add(Rescue::UnendingInterrupt, 1);
            miniport.driver().verifier().log(format!(
                "DxgkDdiInterruptRoutine of driver {} claimed the line-based interrupt of function {function} {UNREPORTED_MAX} times, each within {UNREPORTED_GAP:?} of the one before, \
                 without DxgkCbNotifyInterrupt: the routine is to dismiss the interrupt, and the line is masked from time to time from now on [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]",
                miniport.driver().name()
            ));
        }
        if claimed == CLAIMED_MAX {
            miniport.driver().verifier().log(format!(
                "DxgkDdiInterruptRoutine claimed the line-based interrupt {CLAIMED_MAX} times before a DPC routine ran, and the function asserts it still: it is masked until one has run \
                 [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]"
            ));
        }
        if unclaimed == UNCLAIMED_MAX {
            miniport.driver().verifier().log(format!(
                "DxgkDdiInterruptRoutine answered FALSE for the line-based interrupt {UNCLAIMED_MAX} times in succession, and the function asserts it still: it is masked from now on \
                 [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]"
            ));
        }
        if is_open {
            bus.unmask_line();
        }
    }

    /// The interrupt routine has run for messages of a function. Nothing masks those that nobody claims; the log has the first time that there are so many of one.
    fn end_of_messages(&self, miniport: &Miniport, function: u32, messages: u64, claimed: u64) {
        for message in (0..VECTORS).filter(|message| messages & 1 << message != 0) {
            if self.count_message(function, message, claimed & 1 << message != 0) {
                miniport.driver().verifier().log(format!(
                    "DxgkDdiInterruptRoutine answered FALSE for message {message} of function {function} {UNCLAIMED_MAX} times in succession: the function sends messages for which its \
                     driver finds no cause [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]"
                ));
            }
        }
    }

    /// Counts an answer for a message; true for the one with which there are so many answers FALSE that it is told.
    fn count_message(&self, function: u32, message: u32, claimed: bool) -> bool {
        let mut counts = lock(&self.unclaimed_messages);
        let count = counts.get_mut(function as usize).and_then(|counts| counts.get_mut(message as usize));
        let Some(count) = count.filter(|count| **count < UNCLAIMED_MAX) else { return false };
        *count = if claimed { 0 } else { *count + 1 };
        *count == UNCLAIMED_MAX
    }

    /// The DPC routine has run for a function: a line that is masked until then can be sent again.
    fn after_dpc(&self, function: u32) {
        let mut lines = lock(&self.lines);
        let Some(line) = lines.iter_mut().find(|line| line.function == function) else { return };
        let was_masked = std::mem::take(&mut line.claimed) >= CLAIMED_MAX;
        let (bus, is_open) = (Arc::clone(&line.bus), line.is_open());
        drop(lines);
        if was_masked && is_open {
            bus.unmask_line();
        }
    }

    /// A line that is masked because it seemed never to end is unmasked again: the machine is busy with it for a while only, and a function that had reasons is heard.
    pub(crate) fn unmask_unending(&self) {
        let unending = |line: &&mut Line| line.unreported.count >= UNREPORTED_MAX;
        let mut lines = lock(&self.lines);
        let reset = lines.iter_mut().filter(unending).filter_map(|line| {
            line.unreported.count = 0;
            line.is_open().then(|| Arc::clone(&line.bus))
        });
        let open: Vec<Arc<dyn Bus>> = reset.collect();
        drop(lines);
        open.iter().for_each(|bus| bus.unmask_line());
    }

    /// Delivers what has arrived. When the call returns, no routine of the driver runs, and none will until the next message.
    pub(crate) fn settle(&self, miniport: &Miniport, contexts: &[KmdHandle]) {
        while self.is_connected() {
            if self.deliver(miniport, contexts) {
                continue;
            }
            let delivering = lock(&self.delivering);
            if self.pending.load(Ordering::Acquire) == 0 && self.dpc_queued.load(Ordering::Acquire) == 0 {
                break;
            }
            drop(delivering);
        }
    }

    /// After DPC routines for a report, none of which has called DxgkCbNotifyDpc. [d3dkmddi: DXGKCB_NOTIFY_DPC]
    fn check_dpc(&self, miniport: &Miniport) {
        if self.dpc_queued.load(Ordering::Acquire) == 0 {
            let expected = "DxgkDdiDpcRoutine returned, and expected was DxgkCbNotifyDpc in it: it was called 0 times";
            self.stop(miniport, expected);
        }
    }

    /// What DxgkCbNotifyInterrupt was told last, in words.
    fn last_report(&self) -> String {
        match *lock(&self.last_report) {
            Some(TraceKind::Report { kind, node, value, .. }) => {
                let node = node.map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
                format!(" of interrupt type {kind} about {node}, value {value:#x}")
            }
            _ => String::new(),
        }
    }

    /// Stops the machine because the scheduler does not learn of the last report.
    fn stop(&self, miniport: &Miniport, expected: &str) {
        // A routine that the machine stopped in did not come to it.
        if miniport.driver().verifier().is_stopped() {
            return;
        }
        let told = self.last_report();
        let text = format!("{expected} after DxgkCbNotifyInterrupt{told}; the scheduler would wait for it for ever");
        miniport.driver().verifier().raise(Bugcheck::fatal(text));
    }

    /// A report that no DPC routine has answered for so long, although none is queued or runs: in words, and then forgotten. It was made in a routine of
    /// DxgkCbSynchronizeExecution, since the interrupt routine is checked when it returns. [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT]
    pub(crate) fn take_overdue_report(&self, limit: Duration) -> Option<String> {
        let _delivering = self.delivering.try_lock()?;
        let mut overdue = lock(&self.overdue);
        let number = self.reports.load(Ordering::Acquire);
        if !self.unanswered.load(Ordering::Acquire) || self.dpc_queued.load(Ordering::Acquire) != 0 {
            *overdue = None;
            return None;
        }
        // Only one that is the last for so long: another one begins anew.
        let (_, since) = overdue.filter(|(found, _)| *found == number).unwrap_or((number, Instant::now()));
        *overdue = Some((number, since));
        let late = since.elapsed() >= limit && self.unanswered.swap(false, Ordering::AcqRel);
        drop(overdue);
        late.then(|| self.last_report())
    }

    /// Runs the routine for messages: those that it has claimed.
    fn interrupt(&self, miniport: &Miniport, context: KmdHandle, messages: u64) -> u64 {
        let _line = self.acquire();
        let mut any = 0;
        for message in (0..VECTORS).filter(|message| messages & 1 << message != 0) {
            *lock(&self.last_report) = None;
            self.interrupts.fetch_add(1, Ordering::Relaxed);
            let routine = || miniport.interrupt_routine(context.raw(), message) != 0;
            let kind = |claimed: &bool| TraceKind::Interrupt { message, claimed: *claimed };
            let claimed = miniport.events().during(context, routine, kind);
            // A call that stopped the machine did not come to its end.
            if miniport.driver().verifier().is_stopped() {
                return any;
            }
            any |= u64::from(claimed) << message;
            if !claimed {
                self.unclaimed.fetch_add(1, Ordering::Relaxed);
            }
            // Nobody else reports while the lock is held. [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT]
            let reported = lock(&self.last_report).is_some();
            if reported && !claimed {
                self.disown(miniport, message);
            }
            if reported && self.dpc_queued.load(Ordering::Acquire) == 0 {
                let expected = format!(
                    "DxgkDdiInterruptRoutine for message {message} returned, and expected was DxgkCbQueueDpc in it: no DPC is queued"
                );
                self.stop(miniport, &expected);
            }
        }
        any
    }

    /// The routine answers FALSE and has reported what its adapter interrupts for; the log has the first time. [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]
    fn disown(&self, miniport: &Miniport, message: u32) {
        self.rescues.add(Rescue::DisownedInterrupt, 1);
        if !self.told_disowned.swap(true, Ordering::Relaxed) {
            miniport.driver().verifier().log(format!(
                "DxgkDdiInterruptRoutine for message {message} answered FALSE, and expected was TRUE: it called DxgkCbNotifyInterrupt{}, so that its adapter has interrupted \
                 [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]",
                self.last_report()
            ));
        }
    }

    fn wake_thread(&self) {
        let mut wake = lock(&self.wake);
        wake.work = true;
        self.woken.notify_all();
    }

    /// Starts the thread that delivers.
    pub(crate) fn start_thread(
        self: &Arc<Self>,
        miniport: Arc<Miniport>,
        contexts: Vec<KmdHandle>,
    ) -> std::io::Result<InterruptThread> {
        let interrupts = Arc::clone(self);
        let thread = std::thread::Builder::new().name("dxgkrnl-interrupts".into()).spawn(move || {
            while interrupts.wait_for_work() {
                interrupts.deliver(&miniport, &contexts);
            }
        })?;
        Ok(InterruptThread { interrupts: Arc::clone(self), thread: Some(thread) })
    }

    /// Sleeps until there is something to do; false when the thread is to end.
    fn wait_for_work(&self) -> bool {
        let mut wake = lock(&self.wake);
        while !wake.work && !wake.end {
            wake = self.woken.wait(wake);
        }
        wake.work = false;
        !wake.end
    }
}

impl Drop for AtDeviceLevel<'_> {
    fn drop(&mut self) {
        if self.line.is_some() {
            self.interrupts.holder.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for InterruptThread {
    fn drop(&mut self) {
        lock(&self.interrupts.wake).end = true;
        self.interrupts.woken.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "interrupt_tests.rs"]
mod tests;
