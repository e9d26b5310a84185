//! Rescues: events that the system made good although a driver or a device should have reported them.
//!
//! A machine that is used should outlast a lost interrupt; a test should not pass because of that. So each such place counts what it
//! did, by name, and whoever tests a driver looks at the counts.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// One kind of thing that was made good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rescue {
    /// A fence had a value that somebody waited for, and no interrupt told so for a second; the watchdog woke the waiter.
    UnreportedSignal,
    /// A fence of several adapters was signalled on one of them, and no interrupt told so for a second; the watchdog told the others.
    UnreportedCrossAdapterSignal,
    /// A context had left its engine, and its suspension was not reported within TdrDelay and a second of the host's time; a second suspension told
    /// so.
    UnreportedSuspension,
    /// A packet stood on the hardware for TdrDelay, and the preemption by which the watchdog looks at such a packet told that it was done already.
    UnreportedCompletion,
    /// A packet was the oldest on its node for TdrDelay and was taken off without having been begun, by a driver whose PreemptionCaps say that it cannot stop a packet
    /// that runs; it was handed over again.
    LostPacket,
    /// A queue stood still for TdrDelay and a second of the host's time, and went on as soon as the watchdog had its context suspended and resumed: the engine had missed what
    /// the queue waited for.
    MissedWakeUp,
    /// DxgkDdiStopDevice left mappings of DxgkCbMapMemory or MmMapIoSpace, or handles of DxgkCbAcquireHandleData behind; the system took them back. [dispmprt: DXGKDDI_STOP_DEVICE]
    LeftBehind,
    /// DxgkDdiStopDevice or DxgkDdiRemoveDevice answered an error; the system went on as if the device had stopped, or was removed.
    /// [dispmprt: DXGKDDI_STOP_DEVICE, DXGKDDI_REMOVE_DEVICE]
    FailedStop,
    /// A report of DxgkCbNotifyInterrupt outside the interrupt routine was followed by no DPC for a second; the watchdog did what DxgkCbNotifyDpc does. [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT]
    UnansweredReport,
    /// A packet was the oldest on its node for TdrDelay and was not preempted within TdrDelay, and DxgkDdiResetEngine called nothing aborted; it was handed over again.
    /// Or a hardware context did not leave its engine within TdrDelay, and no context was invalidated when DxgkDdiResetHwEngine returned; it was resumed.
    /// [d3dkmddi: DXGKARG_RESETENGINE, DXGKDDI_RESETHWENGINE]
    FruitlessReset,
    /// DxgkDdiInterruptRoutine has called DxgkCbNotifyInterrupt and answered FALSE, which is that its adapter has not interrupted. [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]
    DisownedInterrupt,
    /// A packet was the oldest on its node for TdrDelay and was taken off unfinished, by a driver whose PreemptionCaps do not tell whether it was long or lost; it was handed
    /// over again.
    RepeatedPacket,
    /// DxgkDdiSuspendContext answered STATUS_SUCCESS, that the context was suspended already, though its suspension had not been asked for since it was created or resumed;
    /// it counted as off its engine. [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
    EarlySuspension,
    /// A submission of DxgkDdiSubmitCommandToHwQueue was unfinished for TdrLimitCount times TdrDelay although its context left the engine whenever that was asked and the engine cannot stop what
    /// it has begun, while its node did other work: it is lost, or a fault of it was not reported.
    LostSubmission,
    /// DxgkDdiBuildPagingBuffer answered STATUS_SUCCESS for an operation that a GPU has to carry out, and put no command into the buffer.
    UnbuiltOperation,
    /// The fence of a paging queue had a value beyond every one that the driver was asked to write; whoever waits for it goes on before the work is done.
    /// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE]
    OvershotFence,
    /// A callback DxgkCb* had an argument that its page rules out, such as NULL for a place that it fills or for a routine that it calls; it answered an error, and did nothing.
    /// Or it was called above the level of its page, where that made no difference; it did what it was asked for.
    MisusedCallback,
    /// DxgkDdiInterruptRoutine claimed a line-based interrupt again and again without a report, and the function asserted it still; the system has masked it.
    /// [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]
    UnendingInterrupt,
    /// DxgkDdiUpdateCurrentValuesFromCpu answered success, and the value of a native fence is as it was before. It is no bug check: a program's own commands reach the value, too.
    /// [d3dkmddi: DXGKDDI_UPDATECURRENTVALUESFROMCPU]
    UnwrittenValue,
    /// DriverEntry or a DDI answered a status that NT_SUCCESS is true of, and that is not STATUS_SUCCESS, which is the only success of its page; it counted as that.
    OtherSuccess,
}

impl Rescue {
    /// Every kind.
    pub const ALL: [Self; 20] = [
        Self::UnreportedSignal,
        Self::UnreportedCrossAdapterSignal,
        Self::UnreportedSuspension,
        Self::UnreportedCompletion,
        Self::LostPacket,
        Self::MissedWakeUp,
        Self::LeftBehind,
        Self::FailedStop,
        Self::UnansweredReport,
        Self::FruitlessReset,
        Self::DisownedInterrupt,
        Self::RepeatedPacket,
        Self::EarlySuspension,
        Self::LostSubmission,
        Self::UnbuiltOperation,
        Self::OvershotFence,
        Self::MisusedCallback,
        Self::UnendingInterrupt,
        Self::UnwrittenValue,
        Self::OtherSuccess,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnreportedSignal => "unreported-signal",
            Self::UnreportedCrossAdapterSignal => "unreported-cross-adapter-signal",
            Self::UnreportedSuspension => "unreported-suspension",
            Self::UnreportedCompletion => "unreported-completion",
            Self::LostPacket => "lost-packet",
            Self::MissedWakeUp => "missed-wake-up",
            Self::LeftBehind => "left-behind",
            Self::FailedStop => "failed-stop",
            Self::UnansweredReport => "unanswered-report",
            Self::FruitlessReset => "fruitless-reset",
            Self::DisownedInterrupt => "disowned-interrupt",
            Self::RepeatedPacket => "repeated-packet",
            Self::EarlySuspension => "early-suspension",
            Self::LostSubmission => "lost-submission",
            Self::UnbuiltOperation => "unbuilt-operation",
            Self::OvershotFence => "overshot-fence",
            Self::MisusedCallback => "misused-callback",
            Self::UnendingInterrupt => "unending-interrupt",
            Self::UnwrittenValue => "unwritten-value",
            Self::OtherSuccess => "other-success",
        }
    }
}

impl fmt::Display for Rescue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of times that each kind happened on one machine.
#[derive(Debug, Default)]
pub(crate) struct Rescues([AtomicU64; Rescue::ALL.len()]);

impl Rescues {
    pub(crate) fn add(&self, rescue: Rescue, count: u64) {
        if let Some(counter) = self.0.get(rescue as usize) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Takes the counts that are not 0, and begins anew.
    pub(crate) fn take(&self) -> Vec<(Rescue, u64)> {
        let counts =
            Rescue::ALL.into_iter().zip(&self.0).map(|(rescue, count)| (rescue, count.swap(0, Ordering::Relaxed)));
        counts.filter(|(_, count)| *count != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_kind_and_taken_once() {
        for (place, rescue) in Rescue::ALL.into_iter().enumerate() {
            assert_eq!(rescue as usize, place, "{rescue}");
        }
        let rescues = Rescues::default();
        rescues.add(Rescue::UnreportedSignal, 2);
        rescues.add(Rescue::UnreportedSignal, 1);
        assert_eq!(rescues.take(), [(Rescue::UnreportedSignal, 3)]);
        assert_eq!(rescues.take(), []);
    }
}
