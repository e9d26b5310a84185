//! Native fences shared through the user-mode driver.

use std::sync::Arc;
use std::time::Duration;

use super::fence_cross_adapter::two_native;
use crate::rig::{KernelHandle, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure};
use testbed::user::{self, Access, Adapter, Buffer, Device, Fence, Node, Placement, Queue, QueueOptions};

cases! { inside "SharedFence", behind "it is several processes at a time, through the user-mode driver";
    "SharedFence.DriverLetsQueuesOfTwoProcessesAlternate" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "Through the user-mode driver, the GPU runs the work of one process when the GPU signals a shared fence for the other, and the reverse."
        holds [NativeFence 38]
        => two_processes;
    "SharedFence.DriverSharesBetweenDevicesOfOneProcess" needs NativeFence on Boot::Shared, "native-gpu-fence-objects":
        "Through the user-mode driver, devices of one process have one value of a shared fence, and queues of both wait and signal."
        holds [NativeFence 35]
        => two_devices;
    "SharedFence.DriverRefusesSignalsOfWaiters" needs NativeFence on Boot::Shared, "d3dkmtopennativefencefromnthandle":
        "A fence opened to be waited for is refused signals by name, on the CPU and in a recording; a handle without the right makes the system refuse."
        holds [NativeFence 42]
        => waiters;
    "SharedFence.DriverClosesItsHandles" needs NativeFence on Boot::Shared, "d3dkmtshareobjects":
        "A handle that the user-mode driver made keeps the fence until it is dropped; only fences that were created to be shared have one."
        holds [NativeFence 41]
        => handles;
    "CrossAdapterFence.DriverLetsTwoAdaptersAlternate" on Boot::With(two_native), "native-gpu-fence-objects":
        "Through the user-mode driver, queues and processors of two adapters wait for and signal one fence, whichever adapter made it, and whoever has it open goes on when the other closes it."
        holds [NativeFence 77]
        => across_adapters;
    "CrossAdapterFence.DriverKeepsOtherFencesOnTheirAdapter" on Boot::With(two_native), "native-gpu-fence-objects":
        "The user-mode driver refuses by name a fence that was opened on another adapter, one that is not for several adapters, and signals through an opening that may only wait."
        holds [NativeFence 77]
        => across_adapters_rules;
}

/// Time limit of each wait for something that must happen, long enough for a busy machine.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));

/// A device with a queue and a word that the queue writes.
struct Side {
    device: Device,
    queue: Queue,
    word: Buffer,
}

impl Side {
    fn open(adapter: &Adapter, node: Node) -> Result<Self, Failure> {
        let device = Device::new(adapter)?;
        let queue = Queue::new(&device, node, QueueOptions::default())?;
        let word = device.create_buffer(4096, Placement::System)?;
        Ok(Self { device, queue, word })
    }

    /// Queues a write of `number` between a wait and a signal.
    fn turn(&mut self, fence: &Fence, after: u64, number: u32) -> Result<u64, Failure> {
        let address = self.word.gpu_address();
        Ok(self.queue.submit(|commands| {
            commands.wait(fence, after)?;
            commands.fill(address, 4, number)?;
            commands.signal(fence, after + 1)
        })?)
    }

    /// Records a signal of the fence and submits it. An error if the user-mode driver refuses to record it.
    fn signal_in_recording(&mut self, fence: &Fence) -> user::Result<u64> {
        self.queue.submit(|commands| commands.signal(fence, 1))
    }

    /// The number that was written last.
    fn number(&self) -> Result<u32, Failure> {
        let mut bytes = [0; 4];
        self.word.map()?.read(0, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
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

const WAIT_ONLY: &str = "opened to be waited for only";

fn two_processes(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 40;
    let mut mine = Side::open(&case.adapter()?, Node::Compute)?;
    let fence = Fence::new_shared(&mine.device, 0)?;
    let handle = fence.share(Access::Full)?;
    let other = dxgkrnl::Process::new(case.system.machine(), "beside");
    let theirs = case.process.duplicate_handle(handle.raw(), &other).map(|handle| KernelHandle(handle.addr()));
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    let (luid, process) = (case.system.luid(), Arc::clone(&case.process));
    let outcome = on_thread(&other, || {
        let mut side = Side::open(&Adapter::open_luid(luid)?, Node::Copy)?;
        let opened = Fence::open(&side.device, theirs.raw(), Access::Full)?;
        // All is queued here before the first turn of the other, which lets everything run.
        for turn in 0..TURNS {
            side.turn(&opened, 2 * turn + 1, turn as u32 + 1)?;
        }
        ensure_eq!((opened.value(), side.queue.progress()?), (0, 0), "value and progress before the other's turn");
        on_thread(&process, || {
            for turn in 0..TURNS {
                mine.turn(&fence, 2 * turn, turn as u32 + 1)?;
            }
            Ok(())
        })?;
        opened.wait(2 * TURNS, TIMEOUT)?;
        ensure_eq!(side.number()?, TURNS as u32, "what the last turn of the other process wrote");
        Ok(())
    });
    other.exit();
    outcome?;
    ensure_eq!((fence.value(), mine.number()?), (2 * TURNS, TURNS as u32), "value and number after all turns");
    mine.turn(&fence, 2 * TURNS, 7)?;
    Ok(fence.wait(2 * TURNS + 1, TIMEOUT)?)
}

fn two_devices(case: &mut Case<'_>) -> Result<(), Failure> {
    let adapter = case.adapter()?;
    let (mut first, mut second) = (Side::open(&adapter, Node::Compute)?, Side::open(&adapter, Node::Copy)?);
    let fence = Fence::new_shared(&first.device, 10)?;
    let opened = Fence::open(&second.device, fence.share(Access::Full)?.raw(), Access::Full)?;
    ensure_eq!(opened.value(), 10, "value that the second device reads");
    second.turn(&opened, 11, 2)?;
    first.turn(&fence, 12, 3)?;
    ensure_eq!((first.queue.progress()?, second.queue.progress()?), (0, 0), "progress before the signal");
    first.device.check()?;
    opened.signal(11)?;
    fence.wait(13, TIMEOUT)?;
    opened.wait(13, TIMEOUT)?;
    ensure_eq!((first.number()?, second.number()?), (3, 2), "what the devices wrote");
    // The one that is left goes on.
    drop(fence);
    second.turn(&opened, 13, 4)?;
    Ok(opened.wait(14, TIMEOUT)?)
}

fn waiters(case: &mut Case<'_>) -> Result<(), Failure> {
    let adapter = case.adapter()?;
    let mut side = Side::open(&adapter, Node::Compute)?;
    let fence = Fence::new_shared(&side.device, 0)?;
    let handle = fence.share(Access::Wait)?;
    let waiter = Fence::open(&side.device, handle.raw(), Access::Wait)?;
    refused_with(waiter.signal(1), WAIT_ONLY, "a signal of the CPU")?;
    refused_with(side.signal_in_recording(&waiter), WAIT_ONLY, "a signal in a recording")?;
    refused_with(waiter.share(Access::Full), WAIT_ONLY, "sharing with more access")?;
    ensure_eq!((fence.value(), side.queue.last_submitted()?), (0, 0), "value and submissions after the refusals");
    // An opening for more than the handle grants has the system's refusal.
    let greedy = Fence::open(&side.device, handle.raw(), Access::Full)?;
    refused_with(greedy.signal(1), "STATUS_ACCESS_DENIED", "a signal that the handle does not grant")?;
    ensure_eq!(fence.value(), 0, "value after the system refused");
    let progress = side.queue.submit(|commands| commands.wait(&waiter, 5))?;
    fence.signal(5)?;
    waiter.wait(5, TIMEOUT)?;
    greedy.wait(5, TIMEOUT)?;
    wait_until("the GPU's wait", || side.queue.progress().is_ok_and(|now| now >= progress))?;
    Ok(side.device.check()?)
}

fn handles(case: &mut Case<'_>) -> Result<(), Failure> {
    let device = case.device()?;
    let before = case.process.kernel_handle_count();
    refused_with(Fence::new(&device, 0)?.share(Access::Full), "not created to be shared", "sharing a private fence")?;
    let fence = Fence::new_shared(&device, 31)?;
    let (full, wait) = (fence.share(Access::Full)?, fence.share(Access::Wait)?);
    ensure_eq!(case.process.kernel_handle_count(), before + 2, "kernel handles of a fence shared twice");
    drop((fence, wait));
    let again = Fence::open(&device, full.raw(), Access::Full)?;
    ensure_eq!(again.value(), 31, "value of a fence that only its handle kept");
    let stale = KernelHandle(full.raw().addr());
    drop(full);
    ensure_eq!(case.process.kernel_handle_count(), before, "kernel handles after the drop");
    for handle in [stale, KernelHandle(0), KernelHandle(3), KernelHandle(usize::MAX)] {
        refused_with(
            Fence::open(&device, handle.raw(), Access::Full),
            "STATUS_INVALID_HANDLE",
            "opening by no handle",
        )?;
    }
    Ok(again.signal(32)?)
}

/// A side on each of two adapters.
fn two_adapters(case: &Case<'_>) -> Result<[Side; 2], Failure> {
    let [first, second] = case.system.adapters() else {
        return Err(Failure::new("the case needs a system with two adapters"));
    };
    let open = |luid| Side::open(&Adapter::open_luid(luid)?, Node::Compute);
    Ok([open(first.luid())?, open(second.luid())?])
}

fn across_adapters(case: &mut Case<'_>) -> Result<(), Failure> {
    const TURNS: u64 = 30;
    for creator in [0, 1] {
        let mut sides = two_adapters(case)?;
        let made = Fence::new_cross_adapter(&sides[creator].device, 0)?;
        let handle = made.share(Access::Full)?;
        let opened = Fence::open(&sides[1 - creator].device, handle.raw(), Access::Full)?;
        drop(handle);
        let fences = if creator == 0 { [&made, &opened] } else { [&opened, &made] };
        for turn in 0..TURNS {
            sides[1].turn(fences[1], 2 * turn + 1, turn as u32 + 1)?;
        }
        for turn in 0..TURNS {
            sides[0].turn(fences[0], 2 * turn, turn as u32 + 1)?;
        }
        for fence in fences {
            fence.wait(2 * TURNS, TIMEOUT)?;
        }
        ensure_eq!((made.value(), opened.value()), (2 * TURNS, 2 * TURNS), "values that both adapters read");
        ensure_eq!((sides[0].number()?, sides[1].number()?), (TURNS as u32, TURNS as u32), "what the last turns wrote");
        // By the processor of one side for the GPU of the other, in both directions.
        for (signals, waits) in [(0, 1), (1, 0)] {
            let value = made.value() + 1;
            sides[waits].turn(fences[waits], value, 7)?;
            fences[signals].signal(value)?;
            fences[signals].wait(value + 1, TIMEOUT)?;
        }
        // The one that made it goes first.
        drop(made);
        let [_, mut left] = if creator == 0 {
            sides
        } else {
            let [a, b] = sides;
            [b, a]
        };
        let last = opened.value();
        left.turn(&opened, last, 9)?;
        opened.wait(last + 1, TIMEOUT)?;
    }
    Ok(())
}

fn across_adapters_rules(case: &mut Case<'_>) -> Result<(), Failure> {
    let [mut first, second] = two_adapters(case)?;
    let crossing = Fence::new_cross_adapter(&second.device, 3)?;
    let foreign = first.queue.submit(|commands| commands.signal(&crossing, 4));
    refused_with(foreign, "another adapter", "a signal of the other adapter's instance")?;
    let foreign = first.queue.submit(|commands| commands.wait(&crossing, 3));
    refused_with(foreign, "another adapter", "a wait for the other adapter's instance")?;
    let shared = Fence::new_shared(&second.device, 3)?;
    let alone = Fence::open(&first.device, shared.share(Access::Full)?.raw(), Access::Full);
    refused_with(alone, "STATUS_INVALID_PARAMETER", "a fence of one adapter on another")?;
    let waiter = Fence::open(&first.device, crossing.share(Access::Wait)?.raw(), Access::Wait)?;
    refused_with(waiter.signal(4), WAIT_ONLY, "a signal of the processor by an opening that may only wait")?;
    refused_with(
        first.signal_in_recording(&waiter),
        WAIT_ONLY,
        "a signal in a recording by an opening that may only wait",
    )?;
    ensure_eq!((crossing.value(), waiter.value()), (3, 3), "values after the refusals");
    Ok(first.device.check()?)
}
