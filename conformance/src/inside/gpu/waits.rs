//! Queues that wait for fences: what has them look again, and what their log says.

use campanile_device::Variant;
use campanile_device::testing::{Host, Space, TestQueue, small_variant};
use campanile_hw::log::{LogEntry, LogKind, LogTarget, bytes_of, entry_offset};
use campanile_hw::packet::{Packet, Signal, Wait};
use campanile_hw::queue::Location;
use campanile_hw::registers::{Command, NODE_COMPUTE, NODE_COPY};

use super::VA;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Gpu", behind "it works the GPU itself, without a driver";
    "Gpu.PlainSignalsReleaseQueues" on Boot::Shared, "docs/hardware.md":
        "A SIGNAL without a monitored value has the queues looked at that wait for the word that it writes."
        => a_plain_signal_releases_the_queues_that_wait_for_its_word;
    "Gpu.RescanReleasesEveryQueue" on Boot::Shared, "docs/hardware.md":
        "RescanWaits has every waiting queue looked at, whatever word it waits for, and those whose value is not reached go on waiting."
        => a_rescan_looks_at_every_queue_that_waits;
    "Gpu.StoppedWaitIsForgotten" on Boot::Shared, "native-gpu-fence-objects":
        "A queue that waits and is unmapped or preempted is in no list of waiters any more."
        holds [NativeFence 10]
        => a_wait_that_was_stopped_is_in_no_list;
    "Gpu.LinkedEnginesLookByThemselves" on Boot::Shared, "docs/hardware.md":
        "An engine of a linked adapter looks at the fences in system memory that its queues wait for without being told."
        => an_engine_of_a_linked_adapter_finds_what_another_one_signalled;
    "Gpu.LogSaysWhichWaitsBlockedTheirQueue" on Boot::Shared, "native-gpu-fence-objects":
        "The log entry of a wait that blocked its queue has the time since when, and that of a wait which did not block it has none."
        holds [NativeFence 56]
        => a_wait_that_held_nobody_has_no_begin_in_the_log;
}

fn wait(at: u64, value: u64) -> Packet {
    Packet::Wait(Wait { handle: 7, current: VA + at, value })
}

fn signal(at: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 7, current: VA + at, monitored: 0, value })
}

/// A function with a page of fence values, a queue that waits for them and one that signals.
fn fences(variant: &Variant) -> (Host, Space, Location, [TestQueue; 2]) {
    let mut host = Host::with(variant);
    let space = host.space();
    let page = host.map_new_ram(space, VA, 4096);
    let queues = [(0, NODE_COMPUTE), (1, NODE_COPY)].map(|(number, node)| host.queue(number, space, node));
    (host, space, page, queues)
}

/// The state of a queue that waits, and of one without work.
const WAITS: u64 = 3;
const IDLE: u64 = 0;

fn a_plain_signal_releases_the_queues_that_wait_for_its_word(_: &mut Case<'_>) -> Result<(), Failure> {
    // A fence that has a handle, and a word that is named as none.
    for handle in [7, 0] {
        let (host, _, page, [mut waiter, mut signaller]) = fences(&small_variant());
        let signal = |at, value| Packet::Signal(Signal { handle, current: VA + at, monitored: 0, value });
        host.submit(&mut waiter, &[wait(0, 5), signal(16, 1)]);
        ensure_eq!(host.state(&waiter), WAITS);
        host.submit(&mut signaller, &[signal(0, 4), signal(8, 5)]);
        ensure_eq!(host.state(&waiter), WAITS, "after a smaller value, and a signal of another word");
        host.submit(&mut signaller, &[signal(0, 5)]);
        let word = host.read64(page.with_address(page.address() + 16));
        ensure_eq!((host.state(&waiter), word), (IDLE, 1), "after a signal with handle {handle}");
    }
    Ok(())
}

fn a_rescan_looks_at_every_queue_that_waits(_: &mut Case<'_>) -> Result<(), Failure> {
    let (host, _, page, [mut first, mut second]) = fences(&small_variant());
    host.submit(&mut first, &[wait(0, 5)]);
    host.submit(&mut second, &[wait(8, 5), wait(8, 6)]);
    host.write64(page, 5);
    host.write64(page.with_address(page.address() + 8), 5);
    host.run();
    ensure_eq!((host.state(&first), host.state(&second)), (WAITS, WAITS), "nobody has told the scheduler");
    host.command(Command::RescanWaits, 0, 0, 0);
    host.run();
    ensure_eq!((host.state(&first), host.state(&second)), (IDLE, WAITS));
    ensure_eq!((host.read_pointer(&first), host.gpu.held().waits), (1, 1), "buffers done, and waiters left");
    Ok(())
}

fn a_wait_that_was_stopped_is_in_no_list(_: &mut Case<'_>) -> Result<(), Failure> {
    for command in [Command::UnmapQueue, Command::PreemptQueue, Command::SuspendQueue] {
        let (host, _, _, [mut waiter, mut other]) = fences(&small_variant());
        host.submit(&mut waiter, &[wait(0, 5)]);
        host.submit(&mut other, &[wait(0, 6)]);
        ensure_eq!(host.gpu.held().waits, 2, "queues in lists of waiters");
        host.command(command, waiter.number.into(), 1, 0);
        host.run();
        ensure_eq!(host.gpu.held().waits, 1, "queues in lists of waiters after {command:?} of one");
    }
    Ok(())
}

fn an_engine_of_a_linked_adapter_finds_what_another_one_signalled(_: &mut Case<'_>) -> Result<(), Failure> {
    for linked in [true, false] {
        let (host, _, page, [mut waiter, _]) = fences(&Variant { linked, ..small_variant() });
        host.submit(&mut waiter, &[wait(0, 5)]);
        host.write64(page, 5);
        // A function looks from time to time, not at each step.
        for _ in 0..100_000 {
            host.gpu.step();
        }
        ensure_eq!(host.state(&waiter), if linked { IDLE } else { WAITS }, "linked: {linked}");
    }
    Ok(())
}

fn a_wait_that_held_nobody_has_no_begin_in_the_log(_: &mut Case<'_>) -> Result<(), Failure> {
    const LOG: u64 = VA + (1 << 30);
    const ENTRIES: u32 = 84;
    let (mut host, space, _, [mut waiter, mut signaller]) = fences(&small_variant());
    let log = host.map_new_ram(space, LOG, bytes_of(ENTRIES).next_multiple_of(4096));
    let target = LogTarget::new().with_queue(waiter.number).with_kind(LogKind::Waits as u8);
    host.command(Command::SetFenceLog, target.into_bits(), LOG, ENTRIES.into());
    host.submit(&mut waiter, &[wait(0, 5)]);
    host.submit(&mut signaller, &[signal(0, 5)]);
    host.submit(&mut waiter, &[wait(0, 5), wait(0, 4)]);
    let observed = [0, 1, 2].map(|index| {
        let bytes = host.read(log.with_address(log.address() + entry_offset(index)), LogEntry::SIZE);
        let entry = LogEntry::from_bytes(&bytes.try_into().unwrap_or([0; LogEntry::SIZE]));
        (entry.value, entry.observed != 0)
    });
    ensure_eq!(observed, [(5, true), (5, false), (4, false)], "values, and whether the wait blocked its queue");
    Ok(())
}
