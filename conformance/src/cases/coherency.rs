//! I/O coherency: who sees whose stores to system memory, on adapters that snoop the CPU's caches and on those that do not.

use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::kmt::BAD_ARGUMENT;
use crate::rig::{Memory, Rig, copy, fill};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Memory";
    "IoCoherency.IsTheDefault" needs IoCoherency, UserModeSubmission on Boot::Shared, "allocation-usage-tracking":
        "On an adapter with I/O coherency the CPU and the GPU see each other's stores to cached memory without further calls, and InvalidateCache is granted and changes nothing."
        holds [AllocationUsage 28]
        => coherent;
    "IoCoherency.BadRangesAreRefused" on Boot::Shared, "d3dkmtinvalidatecache":
        "A range that leaves the allocation, a foreign handle or the handle of another kind is refused."
        => bad_ranges;
}

pub const SIZE: u64 = 64 << 10;

pub fn invalidate(rig: &Rig, memory: D3DKMT_HANDLE, offset: u64, length: u64) -> NTSTATUS {
    rig.invalidate_cache(memory, offset, length)
}

/// Contents of the memory as the GPU reads them, by a copy to uncached system memory.
pub fn gpu_reads(rig: &Rig, memory: Memory) -> Result<Vec<u8>, Failure> {
    let mut queue = rig.queue(NODE_COPY)?;
    let target = rig.memory(memory.size, Placement::SystemUncached)?;
    rig.execute(&mut queue, &[copy(target.address, memory.address, memory.size as u32)])?;
    Ok(rig.view(target)?.read(0, memory.size))
}

pub fn gpu_writes(rig: &Rig, memory: Memory, pattern: u32) -> Result<(), Failure> {
    let mut queue = rig.queue(NODE_COPY)?;
    rig.execute(&mut queue, &[fill(memory.address, memory.size, pattern)])
}

pub fn all(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|seen| *seen == byte)
}

fn coherent(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(memory)?;
    view.fill(7);
    ensure!(all(&gpu_reads(&rig, memory)?, 7), "the GPU does not see the CPU's stores");
    gpu_writes(&rig, memory, 0x0909_0909)?;
    ensure!(all(&view.read(0, SIZE), 9), "the CPU does not see the GPU's stores");
    view.write(5, b"kept");
    granted(invalidate(&rig, memory.handle, 0, SIZE), "InvalidateCache")?;
    ensure_eq!(view.read(5, 4), b"kept", "bytes after InvalidateCache");
    Ok(())
}

fn bad_ranges(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(SIZE, Placement::System)?;
    rig.view(memory)?;
    for (offset, length) in [(SIZE, 1), (0, SIZE + 1), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let status = invalidate(&rig, memory.handle, offset, length);
        refused(status, BAD_ARGUMENT, &format!("{length:#x} bytes from {offset:#x}"))?;
    }
    granted(invalidate(&rig, memory.handle, SIZE, 0), "no bytes at the end")?;
    for (what, handle) in [("the device", rig.device), ("no handle", 0), ("an invented handle", u32::MAX)] {
        let status = invalidate(&rig, handle, 0, 1);
        ensure!(!status.is_success(), "{what} was taken for an allocation");
    }
    Ok(())
}
