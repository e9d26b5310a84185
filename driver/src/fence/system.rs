//! Fences that the scheduler reaches through the paging process.
//!
//! Such a variant looks up what user mode names in a table: root and address of the current value in the process, to the addresses that the
//! operating system gave for the paging process. A fence is in the table for each process that has it open, from when the process has a
//! page table; it leaves the table before the last of these is closed.

use core::sync::atomic::Ordering;

use campanile_hw::queue::Location;
use campanile_hw::registers::{Command, CommandStatus};
use campanile_hw::trace::Component;

use crate::adapter::{Adapter, Process};
use crate::cmp::CommandError;
use crate::fence::object::{Addresses, NativeFence, OpenFence};
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::irql::Passive;
use crate::refusal::{Reason, Refused, refused};
use crate::root_word::bits_of;

/// True if a command for the table failed because the scheduler does not run. The table is written anew when it runs again.
fn is_stopped(error: CommandError) -> bool {
    use CommandError::{Lost, PoweredDown, Refused, Reset};
    matches!(error, Lost | Reset | PoweredDown | Refused(CommandStatus::NotRunning))
}

/// Tells the scheduler of a fence in a process with this root, unless it knows.
fn tell(irql: &Passive, gpu: &Gpu, root: Location, open: &OpenFence, system: Addresses) -> Result<(), Refused> {
    let bits = root.into_bits();
    if open.mapped.0.load(Ordering::Relaxed) == bits {
        return Ok(());
    }
    if gpu.system_root().is_none() {
        return Err(refused(Reason::NoPagingRoot));
    }
    let args = [bits, open.at.current, open.at.monitored, system.current, system.monitored];
    match gpu.cmp.run(irql, Command::MapFence, &args) {
        Ok(()) => {}
        // The same fence, opened here on another device.
        Err(CommandError::Refused(CommandStatus::BadState)) => {}
        Err(error) if is_stopped(error) => return Ok(()),
        Err(CommandError::Refused(CommandStatus::TableFull)) => return Err(refused(Reason::SchedulerFull)),
        Err(_) => return Err(refused(Reason::CommandRefused)),
    }
    open.mapped.0.store(bits, Ordering::Relaxed);
    Ok(())
}

/// A fence was opened.
///
/// # Errors
/// STATUS_INSUFFICIENT_RESOURCES if the scheduler cannot map another fence.
pub(crate) fn opened(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    fence: &NativeFence,
    open: &OpenFence,
) -> Result<(), Refused> {
    let Some(system) = fence.system else { return Ok(()) };
    let _table = gpu.fence_map.lock(irql);
    let process = adapter.objects.get::<Process>(open.process).ok();
    let root = process.and_then(|process| process.root(gpu.dxgk.engine()));
    root.map_or(Ok(()), |root| tell(irql, gpu, root, open, system))
}

/// A fence is being closed: `forget` takes it off the fence's list, and says whether the process has it open once more.
pub(crate) fn closing(irql: &Passive, gpu: &Gpu, open: &OpenFence, forget: impl FnOnce() -> bool) {
    let _table = gpu.fence_map.lock(irql);
    let open_again = forget();
    let root = open.mapped.0.swap(0, Ordering::Relaxed);
    if root != 0 && !open_again && gpu.is_running() {
        // Not known any more to a scheduler that was reset meanwhile.
        let _ = gpu.cmp.run(irql, Command::UnmapFence, &[root, open.at.current]);
    }
}

/// A process has a page table, or another one than before, or none: the scheduler learns its fences, or forgets them.
pub(crate) fn set_process_root(irql: &Passive, adapter: &Adapter, gpu: &Gpu, handle: Handle, root: Option<Location>) {
    let Ok(process) = adapter.objects.get::<Process>(handle) else { return };
    let Some(place) = process.roots.get(gpu.dxgk.engine() as usize) else { return };
    let bits = bits_of(root);
    if !gpu.maps_fences() {
        place.store(bits, Ordering::Release);
        return;
    }
    let _table = gpu.fence_map.lock(irql);
    if place.swap(bits, Ordering::AcqRel) == bits {
        return;
    }
    for_open(irql, adapter, |open, system| {
        if open.process != handle {
            return;
        }
        let old = open.mapped.0.swap(0, Ordering::Relaxed);
        if old != 0 {
            // Refused for one that another open instance withdrew.
            let _ = gpu.cmp.run(irql, Command::UnmapFence, &[old, open.at.current]);
        }
        if root.is_some_and(|root| tell(irql, gpu, root, open, system).is_err()) {
            adapter.trace.passed_over(Component::Fence, Reason::FenceAddress, open.at.current);
        }
    });
}

/// The scheduler was reset and runs again: it learns every fence that is still open.
pub(crate) fn restore(irql: &Passive, adapter: &Adapter, gpu: &Gpu) {
    if !gpu.maps_fences() {
        return;
    }
    let _table = gpu.fence_map.lock(irql);
    for_open(irql, adapter, |open, system| {
        open.mapped.0.store(0, Ordering::Relaxed);
        let process = adapter.objects.get::<Process>(open.process).ok();
        if let Some(root) = process.and_then(|process| process.root(gpu.dxgk.engine()))
            && tell(irql, gpu, root, open, system).is_err()
        {
            adapter.trace.passed_over(Component::Fence, Reason::FenceAddress, open.at.current);
        }
    });
}

/// Calls `body` for every open fence that the scheduler reaches through the paging process. Allocates nothing.
fn for_open(irql: &Passive, adapter: &Adapter, mut body: impl FnMut(&OpenFence, Addresses)) {
    let mut place = 0;
    while let Some((next, handle)) = adapter.objects.next::<OpenFence>(irql, adapter.handle(), place) {
        place = next;
        let Ok(open) = adapter.objects.get::<OpenFence>(handle) else { continue };
        if let Some(system) = adapter.objects.get::<NativeFence>(open.fence).ok().and_then(|fence| fence.system) {
            body(open, system);
        }
    }
}
