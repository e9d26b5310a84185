//! Monitored fences through the user-mode driver: what it writes into command buffers, and what it has the kernel do between them.

use std::sync::Arc;
use std::time::Duration;

use crate::rig::{KernelHandle, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure};
use dxgkrnl::Clock;

use testbed::setup::SystemOptions;
use testbed::user::{
    self, Access, Adapter, Buffer, Device, Fence, FenceKind, FenceOptions, Node, Placement, Queue, QueueOptions,
    Sharing, SubmissionModel,
};

cases! { inside "MonitoredFence", behind "it goes through the user-mode driver";
    "MonitoredFence.DriverFlushesBeforeItWaits" needs HardwareScheduling on Boot::Shared, "context-monitoring":
        "The user-mode driver hands over what was recorded before a wait, then the wait, then the rest, which is not scheduled until the wait is satisfied; the call returns at once."
        holds [NativeFence 78, ContextMonitoring 14, ContextMonitoring 16]
        => flushes;
    "MonitoredFence.DriverSignalsInCommandBuffers" needs HardwareScheduling on Boot::With(by_hand), "context-monitoring":
        "A signal that the user-mode driver writes into a command buffer wakes the processors and queues that wait for it when the buffer is done, though nobody else tells the kernel."
        holds [NativeFence 78, ContextMonitoring 11, ContextMonitoring 13]
        => signals;
    "MonitoredFence.DriverQueuesAlternate" needs HardwareScheduling on Boot::With(by_hand), "context-monitoring":
        "Through the user-mode driver, queues of hardware and a context of packets wait for each other's signals in command buffers, in order."
        holds [NativeFence 78, ContextMonitoring 1]
        => turns;
    "MonitoredFence.DriverQueuesSoftwareSignals" needs HardwareScheduling on Boot::Shared, "context-monitoring":
        "A signal of software that the user-mode driver queues comes after the work submitted before it, and a wait of software blocks what comes after it."
        holds [NativeFence 78, ContextMonitoring 10]
        => software;
    "MonitoredFence.DriverKeepsThemOffUserModeQueues" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "The user-mode driver refuses monitored fences by name in a queue with user-mode submission, which goes on."
        holds [NativeFence 78, NativeFence 79]
        => user_mode_queue;
    "MonitoredFence.DriverLimitsAccess" needs HardwareScheduling, NativeFence on Boot::Shared, "context-monitoring":
        "The user-mode driver creates fences that are only waited for or only signalled, and refuses the rest by name before anything is submitted."
        holds [NativeFence 78, ContextMonitoring 2]
        => limits;
    "MonitoredFence.DriverTakesThemWithoutNativeFences" on Boot::With(without_native), "context-monitoring":
        "Where native fences are not enabled, a fence of the user-mode driver is a monitored one, and orders kernel-mode queues, contexts of packets and processors."
        holds [NativeFence 78, ContextMonitoring 1]
        => chosen;
    "MonitoredFence.DriverTakesThemWithoutHardwareScheduling" on Boot::With(packets_only), "context-monitoring":
        "With hardware scheduling and native fences off, the user-mode driver works by packets that wait for and signal monitored fences."
        holds [NativeFence 78, ContextMonitoring 1]
        => chosen;
    "MonitoredFence.DriverPassesTheWrap" on Boot::With(with_32_bits), "context-monitoring":
        "On a GPU that writes 32 bits at once the user-mode driver has fences, whose values go through multiples of 2^32 for processors, kernel-mode queues and contexts of packets."
        holds [NativeFence 78, ContextMonitoring 8]
        => chosen;
    "MonitoredFence.DriverRefusesValuesOutOfReach" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "On such a GPU the user-mode driver refuses by name waits and signals further than UINT_MAX/2 from the last value, those in command buffers too, which the kernel does not see."
        holds [NativeFence 78, ContextMonitoring 9]
        => out_of_reach;
    "MonitoredFence.DriverSharesBetweenProcesses" needs HardwareScheduling on Boot::Shared, "context-monitoring":
        "Through the user-mode driver, two processes alternate by a monitored fence that they share."
        holds [NativeFence 78, ContextMonitoring 3]
        => two_processes;
    "MonitoredFence.DriverSharesWhatPassesTheWrap" needs HardwareScheduling on Boot::With(with_32_bits), "context-monitoring":
        "Two processes share a fence of a GPU that writes 32 bits at once, and alternate through a multiple of 2^32."
        holds [NativeFence 78, ContextMonitoring 8]
        => two_processes;
}

/// Time limit of each wait for something that must happen, long enough for a busy machine.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));
const WRAP: u64 = 1 << 32;
const REACH: u64 = u32::MAX as u64 / 2;

fn with_32_bits() -> SystemOptions {
    with_gpu(|gpu| gpu.atomics64 = false)
}

fn without_native() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.features.native_fence = false;
    options.features.user_mode_submission = false;
    options
}

fn packets_only() -> SystemOptions {
    let mut options = without_native();
    options.features.hardware_scheduling = false;
    options
}

/// A machine whose time stands still: nobody looks at a fence because time has passed.
fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..SystemOptions::default() }
}

fn monitored(device: &Device, initial: u64) -> Result<Fence, Failure> {
    let options = FenceOptions { initial, kind: Some(FenceKind::Monitored), ..FenceOptions::default() };
    let fence = Fence::with_options(device, options)?;
    ensure_eq!((fence.kind()?, fence.value()), (FenceKind::Monitored, initial), "kind and value of a new fence");
    Ok(fence)
}

/// A queue with words that it writes.
struct Side {
    queue: Queue,
    words: Buffer,
}

impl Side {
    fn open(device: &Device, node: Node, model: SubmissionModel) -> Result<Self, Failure> {
        let queue = Queue::new(device, node, QueueOptions { model: Some(model), ..QueueOptions::default() })?;
        Ok(Self { queue, words: device.create_buffer(4096, Placement::System)? })
    }

    fn words<const N: usize>(&self) -> Result<[u32; N], Failure> {
        let mut bytes = vec![0; 4 * N];
        self.words.map()?.read(0, &mut bytes)?;
        let mut words = [0; N];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        }
        Ok(words)
    }

    /// Queues a write of `number` between a wait and a signal.
    fn turn(&mut self, fence: &Fence, after: u64, number: u32) -> Result<u64, Failure> {
        let address = self.words.gpu_address();
        Ok(self.queue.submit(|commands| {
            commands.wait(fence, after)?;
            commands.fill(address, 4, number)?;
            commands.signal(fence, after + 1)
        })?)
    }
}

/// Ends the case unless the driver refused with `words`.
fn refused_with<T>(outcome: user::Result<T>, words: &str, what: &str) -> Result<(), Failure> {
    match outcome {
        Ok(_) => Err(Failure::new(format!("{what} was not refused"))),
        Err(error) if error.to_string().contains(words) => Ok(()),
        Err(error) => Err(Failure::new(format!("{what}: {error}; a refusal that says `{words}` expected"))),
    }
}

/// Models in which the kernel is handed every command buffer.
const BY_KERNEL: [SubmissionModel; 2] = [SubmissionModel::Kernel, SubmissionModel::Packet];

fn flushes(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    for model in BY_KERNEL {
        let mut side = Side::open(&device, Node::Compute, model)?;
        let (gate, fence) = (monitored(&device, 0)?, monitored(&device, 0)?);
        let address = side.words.gpu_address();
        let last = side.queue.submit(|commands| {
            commands.fill(address, 4, 1)?;
            commands.wait(&gate, 1)?;
            commands.fill(address + 4, 4, 2)?;
            commands.wait(&gate, 2)?;
            commands.fill(address + 8, 4, 3)?;
            commands.signal(&fence, 1)
        })?;
        // What comes before the first wait runs by itself.
        for (signal, words) in [(0, [1, 0, 0]), (1, [1, 2, 0]), (2, [1, 2, 3])] {
            if signal != 0 {
                gate.signal(signal)?;
            }
            side.queue.wait_progress_for(last - 2 + signal, TIMEOUT)?;
            ensure_eq!(side.words()?, words, "{model:?}: words when the gate has {signal}");
            ensure!(signal == 2 || fence.value() == 0, "{model:?}: work behind a wait ran");
        }
        fence.wait(1, TIMEOUT)?;
        ensure_eq!(last, 3, "progress value of three command buffers");
    }
    Ok(())
}

fn signals(case: &mut Case<'_>) -> Result<(), Failure> {
    let (device, process) = (case.device()?, Arc::clone(&case.process));
    for model in BY_KERNEL {
        let (mut side, fence, gate) =
            (Side::open(&device, Node::Copy, model)?, monitored(&device, 0)?, monitored(&device, 0)?);
        for value in 1..=20 {
            side.queue.enqueue_wait(&gate, value)?;
            side.queue.submit(|commands| commands.signal(&fence, value))?;
            std::thread::scope(|scope| {
                let limits = [None, TIMEOUT];
                let waiters = limits.map(|limit| {
                    let (fence, process) = (&fence, &process);
                    scope.spawn(move || on_thread(process, || Ok(fence.wait(value, limit)?)))
                });
                ensure_eq!(fence.value(), value - 1, "value before the gate opens");
                gate.signal(value)?;
                waiters
                    .into_iter()
                    .try_for_each(|waiter| waiter.join().unwrap_or_else(|_| Err(Failure::new("the waiter panicked"))))
            })?;
        }
    }
    Ok(())
}

fn turns(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 60;
    let device = case.device()?;
    let fence = monitored(&device, 0)?;
    let mut sides = [
        Side::open(&device, Node::Compute, SubmissionModel::Kernel)?,
        Side::open(&device, Node::Copy, SubmissionModel::Kernel)?,
        Side::open(&device, Node::Compute, SubmissionModel::Packet)?,
    ];
    for turn in 0..TURNS {
        for (place, side) in (0..).zip(&mut sides) {
            side.turn(&fence, 3 * turn + place, turn as u32 + 1)?;
        }
    }
    fence.wait(3 * TURNS, TIMEOUT)?;
    for side in &sides {
        ensure_eq!(side.words()?, [TURNS as u32], "what the last turn wrote");
    }
    ensure_eq!(fence.value(), 3 * TURNS, "value after all turns");
    Ok(())
}

fn software(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    for model in BY_KERNEL {
        let mut side = Side::open(&device, Node::Compute, model)?;
        let (gate, native) = (monitored(&device, 0)?, Fence::new(&device, 0)?);
        let address = side.words.gpu_address();
        for (round, fence) in (1..).zip([monitored(&device, 0)?, native]) {
            side.queue.enqueue_wait(&gate, round)?;
            let value = side.queue.submit(|commands| commands.fill(address, 4, round as u32))?;
            side.queue.enqueue_signal(&fence, 7)?;
            ensure_eq!((fence.value(), side.words()?), (0, [round as u32 - 1]), "{model:?}: before the gate opens");
            gate.signal(round)?;
            fence.wait(7, TIMEOUT)?;
            ensure_eq!(side.words()?, [round as u32], "{model:?}: the word when the signal comes");
            side.queue.wait_progress_for(value, TIMEOUT)?;
        }
    }
    Ok(())
}

fn user_mode_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORDS: &str = "uses native fences only";
    let device = case.device()?;
    let mut side = Side::open(&device, Node::Compute, SubmissionModel::User)?;
    let (fence, native) = (monitored(&device, 0)?, Fence::new(&device, 0)?);
    ensure_eq!(native.kind()?, FenceKind::Native, "the kind of a fence that nobody chose");
    refused_with(side.queue.submit(|commands| commands.signal(&fence, 1)), WORDS, "a signal")?;
    refused_with(side.queue.submit(|commands| commands.wait(&fence, 0)), WORDS, "a wait")?;
    refused_with(side.queue.enqueue_signal(&fence, 1), WORDS, "a signal of software")?;
    refused_with(side.queue.enqueue_wait(&native, 0), WORDS, "a wait of software")?;
    side.turn(&native, 0, 5)?;
    native.wait(1, TIMEOUT)?;
    ensure_eq!((side.words()?, fence.value(), side.queue.last_submitted()?), ([5], 0, 1), "word, value, submissions");
    Ok(())
}

fn limits(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    for kind in [FenceKind::Monitored, FenceKind::Native] {
        let limited = |access| {
            let options = FenceOptions { initial: 3, kind: Some(kind), access, ..FenceOptions::default() };
            Fence::with_options(&device, options)
        };
        let (waiter, signaller) = (limited(Access::Wait)?, limited(Access::Signal)?);
        let mut side = Side::open(&device, Node::Copy, SubmissionModel::Kernel)?;
        let (wait_only, signal_only) = ("opened to be waited for only", "opened to be signalled only");
        refused_with(waiter.signal(4), wait_only, "a signal of the processor")?;
        refused_with(side.queue.submit(|commands| commands.signal(&waiter, 4)), wait_only, "a signal")?;
        refused_with(side.queue.enqueue_signal(&waiter, 4), wait_only, "a signal of software")?;
        refused_with(signaller.wait(3, TIMEOUT), signal_only, "a wait of the processor")?;
        refused_with(side.queue.submit(|commands| commands.wait(&signaller, 3)), signal_only, "a wait")?;
        refused_with(side.queue.enqueue_wait(&signaller, 3), signal_only, "a wait of software")?;
        ensure_eq!((waiter.value(), signaller.value()), (3, 3), "values after refusals");
        waiter.wait(3, TIMEOUT)?;
        signaller.signal(4)?;
        side.queue.submit(|commands| {
            commands.wait(&waiter, 3)?;
            commands.signal(&signaller, 5)
        })?;
        wait_until("the signal of the GPU", || signaller.value() == 5)?;
    }
    Ok(())
}

/// Models that the system has for queues of these fences.
fn models(device: &Device) -> Result<Vec<SubmissionModel>, Failure> {
    let automatic = Queue::new(device, Node::Compute, QueueOptions::default())?.model()?;
    ensure!(automatic != SubmissionModel::User, "a queue submits from user mode without native fences");
    let mut models = vec![SubmissionModel::Packet];
    if automatic == SubmissionModel::Kernel {
        models.push(SubmissionModel::Kernel);
    }
    Ok(models)
}

fn chosen(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 40;
    let device = case.device()?;
    for model in models(&device)? {
        let mut sides = [Side::open(&device, Node::Compute, model)?, Side::open(&device, Node::Copy, model)?];
        // Somewhere in the middle every half of the value changes.
        for first in [0, 3 * WRAP - TURNS] {
            let fence = Fence::new(&device, first)?;
            ensure_eq!((fence.kind()?, fence.value()), (FenceKind::Monitored, first), "kind and value of a new fence");
            for turn in 0..TURNS {
                for (place, side) in (0..).zip(&mut sides) {
                    side.turn(&fence, first + 2 * turn + place, turn as u32)?;
                }
                if turn % 8 == 0 {
                    fence.wait(first + 2 * turn + 1, None)?;
                }
            }
            fence.wait(first + 2 * TURNS, TIMEOUT)?;
            ensure_eq!(fence.value(), first + 2 * TURNS, "{model:?}: value after all turns");
            fence.signal(first + 2 * TURNS + 1)?;
            ensure_eq!(fence.value(), first + 2 * TURNS + 1, "{model:?}: value that the processor signalled");
            for side in &mut sides {
                side.queue.wait_progress_for(side.queue.last_submitted()?, TIMEOUT)?;
                ensure_eq!(side.words()?, [TURNS as u32 - 1], "{model:?}: what the last turn wrote");
            }
        }
    }
    let native = FenceOptions { kind: Some(FenceKind::Native), ..FenceOptions::default() };
    refused_with(Fence::with_options(&device, native), "native fences are not enabled", "a native fence")
}

fn out_of_reach(case: &mut Case<'_>) -> Result<(), Failure> {
    const WORDS: &str = "UINT_MAX / 2";
    let device = case.device()?;
    let last = 5 * WRAP + 7;
    let fence = Fence::new(&device, last)?;
    let mut side = Side::open(&device, Node::Compute, SubmissionModel::Kernel)?;
    for far in [last + REACH + 1, last + WRAP, u64::MAX] {
        refused_with(fence.wait(far, TIMEOUT), WORDS, "a wait of the processor")?;
        refused_with(fence.signal(far), WORDS, "a signal of the processor")?;
        refused_with(side.queue.submit(|commands| commands.signal(&fence, far)), WORDS, "a signal")?;
        refused_with(side.queue.submit(|commands| commands.wait(&fence, far)), WORDS, "a wait")?;
        refused_with(side.queue.enqueue_signal(&fence, far), WORDS, "a signal of software")?;
        refused_with(side.queue.enqueue_wait(&fence, far), WORDS, "a wait of software")?;
    }
    ensure_eq!((fence.value(), side.queue.last_submitted()?), (last, 0), "value and submissions after refusals");
    fence.wait(0, TIMEOUT)?;
    let mut value = last;
    for _ in 0..5 {
        value += REACH;
        side.queue.submit(|commands| {
            commands.wait(&fence, 0)?;
            commands.signal(&fence, value)
        })?;
        fence.wait(value, TIMEOUT)?;
        ensure_eq!(fence.value(), value, "the furthest value that a signal may have");
    }
    Ok(())
}

fn two_processes(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 40;
    let first = 2 * WRAP - TURNS;
    let device = case.device()?;
    let options = FenceOptions {
        initial: first,
        kind: Some(FenceKind::Monitored),
        sharing: Sharing::Adapter,
        ..FenceOptions::default()
    };
    let fence = Fence::with_options(&device, options)?;
    let mut mine = Side::open(&device, Node::Compute, SubmissionModel::Kernel)?;
    let handle = fence.share(Access::Full)?;
    let other = dxgkrnl::Process::new(case.system.machine(), "beside");
    let theirs = case.process.duplicate_handle(handle.raw(), &other).map(|handle| KernelHandle(handle.addr()));
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    let (luid, process) = (case.system.luid(), Arc::clone(&case.process));
    let outcome = on_thread(&other, || {
        let device = Device::new(&Adapter::open_luid(luid)?)?;
        let mut side = Side::open(&device, Node::Copy, SubmissionModel::Packet)?;
        let opened = Fence::open(&device, theirs.raw(), Access::Full)?;
        ensure_eq!((opened.kind()?, opened.value()), (FenceKind::Monitored, first), "kind and value of the opening");
        for turn in 0..TURNS {
            side.turn(&opened, first + 2 * turn + 1, turn as u32 + 1)?;
        }
        on_thread(&process, || (0..TURNS).try_for_each(|turn| mine.turn(&fence, first + 2 * turn, 1).map(|_| ())))?;
        opened.wait(first + 2 * TURNS, TIMEOUT)?;
        ensure_eq!(side.words()?, [TURNS as u32], "what the last turn of the other process wrote");
        Ok(())
    });
    other.exit();
    outcome?;
    ensure_eq!(fence.value(), first + 2 * TURNS, "value after all turns");
    Ok(())
}
