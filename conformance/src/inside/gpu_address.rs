//! GPU virtual addresses.

use crate::cases::gpu_address::SIZE;
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;

use crate::rig::{Rig, copy, fill};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "GpuAddress", needs HardwareScheduling, behind "it is several processes at a time";
    "GpuAddress.ProcessesDoNotSeeEachOther" needs UserModeSubmission on Boot::Shared, "gpu-virtual-memory":
        "The same GPU address in two processes names different memory; neither process can reach the other's."
        => processes_do_not_see;
}

fn processes_do_not_see(case: &mut Case<'_>) -> Result<(), Failure> {
    const BASE: u64 = 0x123_4560_0000;
    let mapped = |rig: &Rig, byte: u8| -> Result<_, Failure> {
        let handle = rig.create(SIZE, Placement::System).map_err(|status| Failure::new(format!("create: {status}")))?;
        rig.make_resident(handle)?;
        let mut request = rig.map_request(handle, SIZE);
        request.BaseAddress = BASE;
        let address = rig.map(request)?;
        let view = rig.view(crate::rig::Memory { handle, address, size: SIZE })?;
        view.fill(byte);
        Ok(view)
    };
    let rig = case.rig()?;
    let mine = mapped(&rig, 0x11)?;
    let seen_there = case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let theirs = mapped(&other, 0x22)?;
        let seen = other.memory(SIZE, Placement::System)?;
        let view = other.view(seen)?;
        let mut queue = other.queue(NODE_COPY)?;
        other.execute(&mut queue, &[copy(seen.address, BASE, SIZE as u32), fill(BASE, SIZE, 0x3333_3333)])?;
        ensure!(theirs.read(0, SIZE).iter().all(|byte| *byte == 0x33), "the other process wrote somewhere else");
        Ok(view.read(0, SIZE))
    })?;
    ensure!(seen_there.iter().all(|byte| *byte == 0x22), "the other process read foreign bytes");
    ensure!(mine.read(0, SIZE).iter().all(|byte| *byte == 0x11), "the other process changed this one's memory");
    Ok(())
}
