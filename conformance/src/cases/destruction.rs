//! Destruction of allocations that queued work may use.

use campanile_hw::private::Placement;
use wddm_ddi::kmt::D3DDDICB_DESTROYALLOCATION2FLAGS;
use wddm_ddi::status::*;

use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Memory";
    "Destruction.ReservedFlagsAreRefused" on Boot::Shared, "d3dkmtdestroyallocation2":
        "A call with an undefined flag is refused and destroys nothing."
        => reserved_flags;
}

fn reserved_flags(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(4096, Placement::System)?;
    let known =
        D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true).with_SynchronousDestroy(true).into_bits();
    for bit in (0..32).map(|bit| 1u32 << bit).filter(|bit| known & bit == 0) {
        let status = rig.destroy_allocation_with(memory.handle, D3DDDICB_DESTROYALLOCATION2FLAGS::from_bits(bit));
        refused(status, &[STATUS_INVALID_PARAMETER], &format!("flags {bit:#x}"))?;
    }
    granted(rig.destroy_allocation(memory.handle), "destroy without flags")
}
