//! Queues that the hardware schedules and the kernel writes: what is in their ring, and in which order.

use campanile_hw::event::EventKind;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, VA};
use super::system::{ALL, ddi, level};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.KernelQueuesKeepTheirOrder" on Boot::Shared, "d3dkmtsubmitcommandtohwqueue":
        "Submissions of one queue that are more than its ring takes reach the hardware in their order as entries become free, also those that are handed over between the interrupt and its DPC."
        => submissions_that_wait_for_the_ring_keep_their_order;
    "Miniport.NullRenderingIsEmpty" on Boot::Shared, "d3dkmtsubmitcommandtohwqueue":
        "A submission with NullRendering reaches the hardware as a buffer of no bytes with its progress value, and one without it with its size."
        => null_rendering_reaches_the_hardware_as_an_empty_buffer;
}

/// The number of the first queue behind those of the nodes.
const QUEUE: u32 = 3;
/// Entries of the ring: as many submissions as fit before the hardware has read one.
const ENTRIES: u64 = 128;

fn queue(rig: &Rig) -> HANDLE {
    let context = rig.hw_context(0x4000, 0);
    rig.fence(0xf1, 0x8000);
    let (status, queue) = rig.hw_queue(context, 0x6000, 0x8000, false);
    assert_eq!(status, STATUS_SUCCESS);
    queue
}

fn submit(rig: &Rig, queue: HANDLE, fence: u64, null: bool) {
    let mut args = DXGKARG_SUBMITCOMMANDTOHWQUEUE::zeroed();
    (args.hHwQueue, args.HwQueueProgressFenceId) = (queue, fence);
    (args.DmaBufferVirtualAddress, args.DmaBufferSize) = (VA, 16);
    args.Flags.set_NullRendering(null);
    let submit = || ddi!(rig.system, DxgkDdiSubmitCommandToHwQueue, rig.system.adapter, &raw const args);
    assert_eq!(level(2, submit), STATUS_SUCCESS);
}

fn submissions_that_wait_for_the_ring_keep_their_order(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let queue = queue(&rig);
    let ring = rig.system.kernel_ring(QUEUE);
    let mut next = 0..;
    let mut hand_over = |count: usize| next.by_ref().take(count).for_each(|fence| submit(&rig, queue, fence, false));
    hand_over(2 * ENTRIES as usize);
    ensure_eq!(ring.written(), ENTRIES, "no more than fits");
    let mut checked = 0;
    for read in [40, 41, ENTRIES, 2 * ENTRIES, 2 * ENTRIES + 1] {
        ring.read(read);
        rig.system.event(EventKind::Retired, 0, QUEUE, [0, 0]);
        rig.system.interrupt_routine();
        hand_over(usize::from(read < ENTRIES));
        rig.system.run_dpc();
        let handed = 2 * ENTRIES + 2;
        ensure_eq!(ring.written(), handed.min(read + ENTRIES), "entries written when {read} were read");
        for number in checked.max(read)..ring.written() {
            ensure_eq!(ring.entry(number % ENTRIES).1, number, "progress value of entry {number}");
        }
        checked = ring.written();
    }
    ensure_eq!(checked, 2 * ENTRIES + 2);
    Ok(())
}

fn null_rendering_reaches_the_hardware_as_an_empty_buffer(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let queue = queue(&rig);
    let ring = rig.system.kernel_ring(QUEUE);
    for (slot, null) in [(0, false), (1, true), (2, false)] {
        submit(&rig, queue, 7 + slot, null);
        ensure_eq!(ring.entry(slot), (if null { 0 } else { 16 }, 7 + slot), "NullRendering {null}");
    }
    Ok(())
}
