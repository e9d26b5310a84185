//! Allocations and how the CPU reaches them.

use crate::cases::memory::SIZE;
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;

use crate::kmt::WRONG_KIND;
use crate::rig::{Rig, fill};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "Memory", behind "it is several processes at a time";
    "Memory.NewVramShowsNothingOld" needs UserModeSubmission on Boot::With(small_vram), "gpu-virtual-memory":
        "A new allocation in VRAM reads as zero even where another allocation lay before."
        => new_vram_is_zero;
    "Memory.AllocationOfAnotherProcessIsRefused" on Boot::Shared, "d3dkmtlock2":
        "An allocation's handle means nothing in another process."
        => foreign_allocation;
}

fn small_vram() -> testbed::setup::SystemOptions {
    let mut options = testbed::setup::SystemOptions::default();
    options.variant.vram_size = 32 << 20;
    options.variant.vram_window = 32 << 20;
    options
}

fn new_vram_is_zero(case: &mut Case<'_>) -> Result<(), Failure> {
    const BIG: u64 = 8 << 20;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    for round in 0..6 {
        let memory = rig.memory(BIG, Placement::VramVisible)?;
        let view = rig.view(memory)?;
        let old = view.read(0, BIG).iter().position(|byte| *byte != 0);
        ensure!(old.is_none(), "round {round}: byte {old:?} of a new allocation is not zero");
        rig.execute(&mut queue, &[fill(memory.address, BIG, 0xdead_beef)])?;
        granted(rig.unlock(memory.handle), "unlock")?;
        granted(rig.free(memory.address, BIG), "free of the GPU address")?;
        granted(rig.destroy_allocation(memory.handle), "destroy")?;
    }
    Ok(())
}

fn foreign_allocation(case: &mut Case<'_>) -> Result<(), Failure> {
    let mine = case.rig()?.memory(SIZE, Placement::System)?;
    case.in_other_process(|system| {
        let rig = Rig::open(system.luid())?;
        match rig.lock(mine.handle) {
            Ok(_) => Err(Failure::new("another process locked the allocation")),
            Err(status) => refused(status, WRONG_KIND, "locking a foreign allocation"),
        }
    })
}
