//! The distance in bytes at which values of fences lie on the pages that they share.

use campanile_hw::registers::{FENCE_STRIDE, NODE_COMPUTE};

use super::fence_interrupts::Event;
use crate::rig::RawFence;
use crate::simulated::{Case, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "FenceStorage", needs HardwareScheduling, behind "it chooses what the driver asks for, and reads it from the hardware";
    "FenceStorage.ValuesAreApartAsTheDriverSays" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "Values of fences that cannot be shared lie on common pages, current and monitored ones at the distance that the driver asks for, and no signal touches a neighbour."
        holds [NativeFence 19, NativeFence 21]
        => apart;
    "FenceStorage.ValuesAre24BytesApart" needs UserModeSubmission on Boot::With(apart_24), "native-gpu-fence-objects":
        "The same for a driver that asks for a distance that does not divide a page."
        holds [NativeFence 19, NativeFence 21]
        => apart;
    "FenceStorage.ValuesHavePagesOfTheirOwn" needs UserModeSubmission on Boot::With(apart_4096), "native-gpu-fence-objects":
        "The same for a driver that asks for the largest distance, a page."
        holds [NativeFence 19, NativeFence 21]
        => apart;
}

fn apart_24() -> SystemOptions {
    with_gpu(|gpu| gpu.fence_stride = 24)
}

fn apart_4096() -> SystemOptions {
    with_gpu(|gpu| gpu.fence_stride = 4096)
}

fn apart(case: &mut Case<'_>) -> Result<(), Failure> {
    const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
    const FENCES: usize = 64;
    // Where the hardware does not care, the system takes a cache line.
    let stride = match case.system.register(FENCE_STRIDE, 4) {
        0 => 64,
        stride => stride,
    };
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fences = (0..FENCES).map(|_| rig.fence(0)).collect::<Result<Vec<_>, _>>()?;
    for (what, address) in
        [("current", (|fence| fence.current) as fn(&RawFence) -> u64), ("monitored", |fence| fence.monitored)]
    {
        let mut places: Vec<u64> = fences.iter().map(address).collect();
        places.sort_unstable();
        ensure!(places.iter().all(|place| (place % PAGE).is_multiple_of(stride)), "{what} values at {places:x?}");
        let same_page: Vec<_> = places.windows(2).filter(|pair| pair[0] / PAGE == pair[1] / PAGE).collect();
        let least = same_page.iter().map(|pair| pair[1] - pair[0]).min();
        let expected = (PAGE / stride > 1).then_some(stride);
        ensure_eq!(least, expected, "least distance of {what} values on one page");
    }
    // Up and down, so that whoever wrote into a neighbour before or behind is found.
    for (round, order) in (1..).zip([fences.iter().collect::<Vec<_>>(), fences.iter().rev().collect()]) {
        for (number, fence) in (0..).zip(&order) {
            let value = round << 40 | number << 16 | 0xffff;
            let woken = Event::new()?;
            granted(rig.wait_with_event(&[fence.handle], &[value], false, Some(woken.number())), "a wait")?;
            rig.execute(&mut queue, &[fence.signal(value - 1)])?;
            ensure!(!woken.is_set()?, "a value below the awaited one woke the waiter of fence {number}");
            rig.execute(&mut queue, &[fence.signal(value)])?;
            woken.wait()?;
        }
        for (number, fence) in (0..).zip(&order) {
            ensure_eq!(fence.value.load(), round << 40 | number << 16 | 0xffff, "value of fence {number}");
        }
    }
    Ok(())
}
