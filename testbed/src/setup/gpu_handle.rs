//! The GPU behind a bus, in this process or in another one: its counters, its steps and injected faults.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use campanile_device::{Activity, FaultId, FaultRule, Gpu, Often};

use crate::device::control::{Answer, Control, Question};

/// A GPU of this process, or of one that this process has started for it.
#[derive(Clone)]
pub struct GpuHandle(GpuLocation);

#[derive(Clone)]
enum GpuLocation {
    Here(Arc<Gpu>),
    There { control: Arc<Control>, bars: [Option<BarMemory>; 6] },
}

/// A BAR of a GPU of another process.
#[derive(Clone)]
pub(super) struct BarMemory {
    /// Bytes.
    pub(super) size: u64,
    /// The memory behind it, from its start; `None` for registers.
    pub(super) file: Option<Arc<File>>,
}

/// Faults of a GPU on demand, as [`campanile_device::Faults`] has them.
#[derive(Clone, Copy)]
pub struct FaultsHandle<'a>(&'a GpuHandle);

impl From<Arc<Gpu>> for GpuHandle {
    fn from(gpu: Arc<Gpu>) -> Self {
        Self(GpuLocation::Here(gpu))
    }
}

impl GpuHandle {
    /// A GPU that is asked over a control connection.
    pub(super) fn there(control: Arc<Control>, bars: [Option<BarMemory>; 6]) -> Self {
        Self(GpuLocation::There { control, bars })
    }

    /// # Errors
    /// The GPU's process is gone.
    fn try_ask(&self, question: &Question) -> io::Result<Answer> {
        match &self.0 {
            GpuLocation::Here(gpu) => Ok(crate::device::control::answer(gpu, question)),
            GpuLocation::There { control, .. } => control.ask(question),
        }
    }

    /// # Panics
    /// The GPU's process is gone.
    fn ask(&self, question: &Question) -> Answer {
        match self.try_ask(question) {
            Ok(answer) => answer,
            Err(error) => panic!("the process of the GPU does not answer {question:?}: {error}"),
        }
    }

    fn number(&self, question: &Question) -> u64 {
        match self.ask(question) {
            Answer::Number(number) => number,
            answer => panic!("the process of the GPU answers {question:?} with {answer:?}"),
        }
    }

    fn order(&self, question: &Question) {
        let _ = self.ask(question);
    }

    /// See [`Gpu::step`]. A GPU whose process is gone makes no step.
    pub fn step(&self) -> bool {
        match &self.0 {
            GpuLocation::Here(gpu) => gpu.step(),
            GpuLocation::There { control, .. } => matches!(control.ask(&Question::Step), Ok(Answer::Number(1))),
        }
    }

    /// See [`Gpu::steps`].
    pub fn steps(&self) -> u64 {
        self.number(&Question::Steps)
    }

    /// See [`Gpu::sleeps_until_register_access`].
    pub fn is_idle(&self) -> bool {
        self.number(&Question::IsResting) != 0
    }

    /// See [`Gpu::activity`].
    pub fn activity(&self) -> Activity {
        match self.ask(&Question::Activity) {
            Answer::Activity(activity) => activity,
            answer => panic!("the process of the GPU tells of its activity {answer:?}"),
        }
    }

    /// See [`Gpu::signals_ever`].
    pub fn signals_ever(&self) -> u64 {
        self.number(&Question::SignalsEver)
    }

    /// See [`Gpu::ends_unread`].
    pub fn ends_unread(&self) -> u64 {
        self.number(&Question::EndsUnread)
    }

    /// See [`Gpu::missed_accesses`].
    pub fn missed_accesses(&self) -> u64 {
        self.number(&Question::MissedAccesses)
    }

    /// See [`Gpu::register_read`].
    pub fn register_read(&self, offset: u64, size: u8) -> u64 {
        self.number(&Question::RegisterRead { offset, size })
    }

    /// See [`Gpu::config_read`].
    pub fn config_read(&self, offset: u16, size: u8) -> u32 {
        self.number(&Question::ConfigRead { offset, size }) as u32
    }

    /// See [`Gpu::pull_out`].
    pub fn pull_out(&self) {
        self.order(&Question::PullOut);
    }

    /// See [`Gpu::power_cycle`].
    pub fn power_cycle(&self) {
        self.order(&Question::PowerCycle);
    }

    /// See [`Gpu::reset`].
    pub fn reset(&self) {
        self.order(&Question::Reset);
    }

    /// See [`Gpu::let_go`].
    pub fn let_go(&self, node: u32) {
        self.order(&Question::LetGo { node });
    }

    /// See [`Gpu::faults`].
    pub fn faults(&self) -> FaultsHandle<'_> {
        FaultsHandle(self)
    }

    /// Bytes of a BAR.
    pub fn bar_size(&self, bar: u8) -> Option<u64> {
        match &self.0 {
            GpuLocation::Here(gpu) => gpu.bar_size(bar),
            GpuLocation::There { bars, .. } => bars.get(usize::from(bar))?.as_ref().map(|bar| bar.size),
        }
    }

    /// See [`Gpu::bar_page`].
    pub fn bar_page(&self, bar: u8, page: u64) -> Option<u64> {
        Some(self.number(&Question::BarPage { bar, page })).filter(|page| *page != u64::MAX)
    }

    /// Copies bytes of a BAR that is memory, as the GPU sees them, also where they are not shown.
    ///
    /// # Errors
    /// There are no such bytes.
    pub fn read_bar(&self, bar: u8, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match &self.0 {
            GpuLocation::Here(gpu) => gpu.read_bar(bar, offset, bytes),
            GpuLocation::There { .. } => {
                self.bar_file(bar).ok_or(io::ErrorKind::Unsupported)?.read_exact_at(bytes, offset)
            }
        }
    }

    /// The memory behind a BAR, if it is memory, also where its end is not shown; without the pages of a BAR that belong to a process.
    pub fn bar_file(&self, bar: u8) -> Option<Arc<File>> {
        match &self.0 {
            GpuLocation::Here(gpu) => gpu.bar_file(bar),
            GpuLocation::There { bars, .. } => bars.get(usize::from(bar))?.as_ref()?.file.clone(),
        }
    }
}

impl FaultsHandle<'_> {
    /// Arms a rule that applies once.
    pub fn inject(&self, rule: FaultRule) -> FaultId {
        self.inject_times(rule, 1)
    }

    /// Arms a rule that applies `times` times.
    pub fn inject_times(&self, rule: FaultRule, times: u64) -> FaultId {
        self.inject_often(rule, Often::Times(times))
    }

    /// Arms a rule that applies so often.
    ///
    /// # Panics
    /// The GPU's process is gone.
    pub fn inject_often(&self, rule: FaultRule, often: Often) -> FaultId {
        self.try_inject(rule, often).expect("the process of the GPU answers")
    }

    /// Arms a rule that applies so often.
    ///
    /// # Errors
    /// The GPU's process is gone.
    pub fn try_inject(&self, rule: FaultRule, often: Often) -> io::Result<FaultId> {
        match self.0.try_ask(&Question::Inject { rule, often })? {
            Answer::Fault(fault) => Ok(fault),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// How often a rule has applied; 0 for one that was removed.
    ///
    /// # Errors
    /// The GPU's process is gone.
    pub fn try_fired(&self, fault: FaultId) -> io::Result<u64> {
        match self.0.try_ask(&Question::Fired(fault))? {
            Answer::Number(number) => Ok(number),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Takes a rule away, and lets a reset begin that it delays.
    ///
    /// # Errors
    /// The GPU's process is gone.
    pub fn try_withdraw(&self, fault: FaultId) -> io::Result<()> {
        self.0.try_ask(&Question::Release(fault))?;
        self.0.try_ask(&Question::Remove(fault)).map(drop)
    }

    /// As [`FaultsHandle::try_fired`].
    ///
    /// # Panics
    /// The GPU's process is gone.
    pub fn fired(&self, fault: FaultId) -> u64 {
        self.try_fired(fault).expect("the process of the GPU answers")
    }

    /// Sum of the times that the armed rules have applied.
    pub fn total_fired(&self) -> u64 {
        self.0.number(&Question::TotalFired)
    }

    /// Takes a rule away, and returns how often it has applied.
    pub fn remove(&self, fault: FaultId) -> u64 {
        self.0.number(&Question::Remove(fault))
    }

    /// Lets a reset begin that [`FaultRule::ResetHeld`] delays, and any later one.
    pub fn release(&self, fault: FaultId) {
        self.0.order(&Question::Release(fault));
    }
}
