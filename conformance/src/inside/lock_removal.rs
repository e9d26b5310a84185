//! Lock2 and an adapter that goes: what a process had locked it may go on using.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::pci::BAR_VRAM;
use campanile_hw::private::Placement;

use super::shared_resource::{close, create, failed, opened, shared};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE};
use crate::rig::{Memory, Rig, View, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;
use wddm_ddi::status::STATUS_SUCCESS;

cases! { inside "Memory", behind "it pulls the GPU out";
    "Lock2.AddressesOutliveAnAdapterThatIsPulledOut" on Boot::With(aperture), "allocation-usage-tracking":
        "What was locked of an adapter that is pulled out can be read and written: system memory holds what it held, memory of the device zeros, and nothing reaches the device."
        holds [AllocationUsage 22]
        => pulled_out;
    "Lock2.AddressesOutliveAnAdapterThatStops" on Boot::With(not_coherent), "allocation-usage-tracking":
        "What was locked of an adapter that is stopped can be read and written, with what the processor's cache held."
        holds [AllocationUsage 22]
        => stopped;
    "Lock2.SharedAddressesOutliveAnAdapterThatStops" on Boot::Fresh, "d3dkmtlock2":
        "What two devices of different openings had locked of a shared allocation can be read and written after the adapter is stopped, by one while the other has given it back; each gives back its own locks."
        holds [AllocationUsage 22]
        => shared_stopped;
    "Lock2.AddressesOutliveAnAdapterThatSleeps" on Boot::With(aperture), "allocation-usage-tracking":
        "What was locked of an adapter that is pulled out in D3 holds what it held while the device slept."
        holds [AllocationUsage 22]
        => asleep;
    "Lock2.StoresDuringRemovalAreKept" on Boot::With(aperture), "allocation-usage-tracking":
        "A process that stores to locked system memory while the adapter is pulled out loses no store."
        holds [AllocationUsage 22]
        => stores;
}

const SIZE: u64 = 64 << 10;
/// Where the CPU sees the device: in the window, and through the host aperture, which is all there is once the window is full.
const PLACEMENTS: [Placement; 3] = [Placement::System, Placement::VramVisible, Placement::VramLockable];

fn aperture() -> SystemOptions {
    let mut options = SystemOptions::default();
    (options.variant.vram_size, options.variant.vram_window) = (64 << 20, 32 << 20);
    options.variant.host_aperture = 2 << 20;
    options
}

fn not_coherent() -> SystemOptions {
    with_gpu(|gpu| gpu.non_coherent = true)
}

/// Allocations of each placement, locked `times` times, full of a byte each.
fn locked(rig: &Rig, times: u32) -> Result<Vec<(Memory, View)>, Failure> {
    let lock = |(byte, placement): (u8, Placement)| {
        let memory = rig.memory(SIZE, placement)?;
        let view = rig.view(memory)?;
        for _ in 1..times {
            ensure_eq!(rig.view(memory)?.start(), view.start(), "address of another lock");
        }
        view.fill(byte);
        Ok((memory, view))
    };
    (1..).zip(PLACEMENTS).map(lock).collect()
}

/// Every byte is `expected`, can be overwritten, and is then what was written.
fn is_usable(view: View, expected: u8, what: &str) -> Result<(), Failure> {
    let wrong = view.read(0, SIZE).into_iter().find(|byte| *byte != expected);
    ensure!(wrong.is_none(), "{what} holds {wrong:?} instead of {expected}");
    view.fill(0x5a);
    ensure!(view.read(0, SIZE).iter().all(|byte| *byte == 0x5a), "{what} does not hold what was stored to it");
    Ok(())
}

fn pulled_out(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let views = locked(&rig, 2)?;
    let gpu = case.system.gpu().clone();
    case.system.pull_out(0)?;
    case.system.notice_removal(0)?;
    for ((_, view), expected) in views.iter().zip([1, 0, 0]) {
        is_usable(*view, expected, &format!("memory that is expected to hold {expected}"))?;
    }
    let mut bytes = vec![0; 64 << 20];
    let read = gpu.read_bar(BAR_VRAM, 0, &mut bytes);
    read.map_err(|error| Failure::new(format!("VRAM cannot be read: {error}")))?;
    let reached = bytes.chunks(4096).position(|page| page.iter().all(|byte| *byte == 0x5a));
    ensure!(reached.is_none(), "page {reached:?} of the device holds what was stored after it was pulled out");
    let [(system, view), (window, _), (_, last)] = views[..] else { return Err(Failure::new("three allocations")) };
    // Each lock is given back once, and the address is there until the last of them.
    granted(rig.unlock(system.handle), "the first unlock")?;
    is_usable(view, 0x5a, "memory that is locked once more")?;
    granted(rig.unlock(system.handle), "the second unlock")?;
    refused(rig.unlock(system.handle), BAD_ARGUMENT, "a third unlock")?;
    granted(rig.destroy_allocation(window.handle), "destroying what is locked")?;
    refused(rig.unlock(window.handle), BAD_HANDLE, "unlocking what was destroyed")?;
    is_usable(last, 0x5a, "memory that nobody gave back")?;
    granted(rig.destroy(), "destroying the device")
}

fn stopped(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let views = locked(&rig, 1)?;
    case.system.remove_adapter(0)?;
    for ((_, view), expected) in views.iter().zip([1, 0, 0]) {
        is_usable(*view, expected, &format!("memory that is expected to hold {expected}"))?;
    }
    granted(rig.destroy(), "destroying the device")?;
    case.system.start()?;
    let rig = case.rig()?;
    locked(&rig, 1).map(drop)
}

fn shared_stopped(case: &mut Case<'_>) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let created = create(&rig, shared()).map_err(failed("D3DKMTCreateAllocation2"))?;
    let open = opened(&other, created.global)?;
    let [mine, theirs] = [created.open.allocations[0], open.allocations[0]];
    let view = |rig: &Rig, handle| rig.view(Memory { handle, address: 0, size: SIZE });
    let (first, second, again) = (view(&rig, mine)?, view(&other, theirs)?, view(&other, theirs)?);
    ensure_eq!((second.start(), again.start()), (first.start(), first.start()), "address of the others");
    first.fill(7);
    case.system.remove_adapter(0)?;
    is_usable(second, 7, "shared memory")?;
    granted(rig.unlock(mine), "the only unlock of one")?;
    refused(rig.unlock(mine), BAD_ARGUMENT, "one unlock too many")?;
    is_usable(first, 0x5a, "shared memory that the other device has locked")?;
    granted(other.unlock(theirs), "the first unlock of the other")?;
    granted(close(&rig, &created.open), "destroying what only another device has locked")?;
    is_usable(first, 0x5a, "shared memory that the other device has locked once more")?;
    granted(close(&other, &open), "destroying what is locked")?;
    refused(other.unlock(theirs), BAD_HANDLE, "unlocking what was destroyed")?;
    granted(other.destroy().ok().and(rig.destroy().ok()).err().unwrap_or(STATUS_SUCCESS), "destroying the devices")
}

fn asleep(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let views = locked(&rig, 1)?;
    let slept = case.system.machine().power_down(case.system.luid());
    slept.map_err(|error| Failure::new(format!("the device was not powered down: {error}")))?;
    case.system.pull_out(0)?;
    case.system.notice_removal(0)?;
    for ((_, view), expected) in views.iter().zip([1, 2, 3]) {
        is_usable(*view, expected, &format!("memory that is expected to hold {expected}"))?;
    }
    granted(rig.destroy(), "destroying the device")
}

fn stores(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let rig = case.rig()?;
    let views = locked(&rig, 1)?;
    let [(_, system), (_, window), (_, behind)] = views[..] else { return Err(Failure::new("three allocations")) };
    let (process, end, stores) = (Arc::clone(&case.process), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let storing = scope.spawn(|| {
            on_thread(&process, || {
                for count in 1.. {
                    let place = count % (SIZE / 8) * 8;
                    system.store(place, count);
                    [window, behind].iter().for_each(|view| view.store(place, count));
                    ensure_eq!(system.read(place, 8), count.to_le_bytes(), "what was just stored");
                    stores.store(count, Ordering::Release);
                    if end.load(Ordering::Acquire) {
                        break;
                    }
                }
                Ok(())
            })
        });
        let begun = wait_until("the first round of stores", || stores.load(Ordering::Acquire) > SIZE / 8);
        let removed = case.system.pull_out(0).and_then(|()| case.system.notice_removal(0));
        end.store(true, Ordering::Release);
        let stored = storing.join().map_err(|_| Failure::new("the thread that stores panicked"))?;
        begun?;
        removed?;
        stored
    })?;
    let count = stores.load(Ordering::Acquire);
    for value in (1..=count).rev().take((SIZE / 8) as usize) {
        ensure_eq!(system.read(value % (SIZE / 8) * 8, 8), value.to_le_bytes(), "a store of the last round");
    }
    granted(rig.destroy(), "destroying the device")
}
