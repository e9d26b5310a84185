//! Lock2: how the CPU reaches an allocation, by what it was declared as and by where it is.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::kmt::BAD_ARGUMENT;
use crate::rig::{Memory, Rig, copy};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Memory";
    "Lock2.ReservedFlagsAreRefused" on Boot::Shared, "allocation-usage-tracking":
        "Lock2 has no flags: a call with any bit set is refused and locks nothing."
        holds [AllocationUsage 10, AllocationUsage 23]
        => reserved_flags;
    "Lock2.AllocationThatIsNotForTheCpuIsLockedInSystemMemory" needs UserModeSubmission on Boot::Fresh, "allocation-usage-tracking":
        "An allocation that is not CPU-accessible can be locked while it is not resident, and is not committed to a memory segment until the lock has ended."
        holds [AllocationUsage 19, AllocationUsage 20]
        => not_for_the_cpu;
}

pub const SIZE: u64 = 64 << 10;

fn reserved_flags(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    for bit in 0..32 {
        let mut arguments = D3DKMT_LOCK2::zeroed();
        arguments.hDevice = rig.device;
        arguments.hAllocation = memory.handle;
        arguments.Flags = D3DDDICB_LOCK2FLAGS::from_bits(1 << bit);
        let status = rig.kmt.call(rig.kmt.table().D3DKMTLock2, &mut arguments);
        refused(status, BAD_ARGUMENT, &format!("Lock2 with flag bit {bit}"))?;
    }
    refused(rig.unlock(memory.handle), BAD_ARGUMENT, "unlocking what was never locked")
}

/// Contents of the memory as the GPU reads them, by a copy to system memory.
pub fn gpu_sees(rig: &Rig, memory: Memory) -> Result<Vec<u8>, Failure> {
    let mut queue = rig.queue(NODE_COPY)?;
    let target = rig.memory(memory.size, Placement::System)?;
    rig.execute(&mut queue, &[copy(target.address, memory.address, memory.size as u32)])?;
    Ok(rig.view(target)?.read(0, memory.size))
}

pub fn pattern(seed: u64) -> Vec<u8> {
    (0..SIZE).map(|index| (index * 11 + index / 256 + seed) as u8).collect()
}

fn not_for_the_cpu(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::Vram)?;
    let refused_when_resident = rig.lock(memory.handle).err().unwrap_or(STATUS_SUCCESS);
    refused(refused_when_resident, &[STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE], "a lock while it is resident")?;
    granted(rig.evict(memory.handle), "evict")?;
    let bytes = pattern(1);
    rig.view(memory)?.write(0, &bytes);
    ensure!(rig.make_resident(memory.handle).is_err(), "it was made resident in a memory segment while it was locked");
    granted(rig.unlock(memory.handle), "unlock")?;
    rig.make_resident(memory.handle)?;
    ensure!(gpu_sees(&rig, memory)? == bytes, "the GPU does not see what the CPU wrote");
    Ok(())
}
