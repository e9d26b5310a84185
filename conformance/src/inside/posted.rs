//! A GPU whose registers are written as on a bus of metal: a store has arrived when a read says so, and a command is done when its status
//! does. That is PCI Express' rule, not one of the pages of WDDM; the pages say what must hold all the same.

use crate::cases::lock::{SIZE, gpu_sees, pattern};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};

use super::power_device::power_down;
use crate::rig::{Rig, copy};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "PostedWrites", needs HardwareScheduling, behind "it chooses the hardware";
    "PostedWrites.QueuesComeAndGo" needs UserModeSubmission on Boot::With(posted), "user-mode-work-submission":
        "Queues are created, run what was rung, and are destroyed with their rings, though every command to the scheduler takes its time; nothing is freed that the GPU still uses."
        holds [UserModeSubmission 61]
        => queues_come_and_go;
    "PostedWrites.PagesOfTheHostApertureAreShownWhenTheLockReturns" needs UserModeSubmission on Boot::With(aperture), "cpu-host-aperture":
        "What a lock maps into the CPU host aperture is there for the processor's first access, and what it unmapped is not, whichever pages were shown before."
        => aperture_is_shown;
    "PostedWrites.DeviceSleepsAndWakes" needs UserModeSubmission on Boot::With(posted), "dxgkddi_setpowerstate":
        "A device that stops and starts when it is told to, and not at once, loses no submission on its way to D3 and back."
        holds [UserModeSubmission 61]
        => sleeps_and_wakes;
    "PostedWrites.AdapterStopsAndStarts" needs UserModeSubmission on Boot::With(posted), "stop_device":
        "StopDevice gives the event ring and the mappings back when the device has stopped, and the device starts anew."
        holds [UserModeSubmission 61]
        => stops_and_starts;
    "NativeFence.DriverLetsTheDeviceSendAtomics" needs UserModeSubmission on Boot::Fresh, "native-gpu-fence-objects":
        "A GPU that signals fences in system memory by atomic requests of PCI Express may send them after StartDevice and behind D3; the page leaves open whose bit that is, and the GPU's manual makes it the driver's."
        holds [NativeFence 13]
        => atomics_are_enabled;
    "NativeFence.DeviceWithoutAtomicsStarts" on Boot::With(narrow), "native-gpu-fence-objects":
        "A GPU without 64-bit atomics, on which the bit that allows them cannot be set, starts and works."
        holds [NativeFence 13]
        => no_atomics_to_enable;
}

/// AtomicOp Requester Enable of device control 2, where the capability list of the function leads.
fn may_send_atomics(system: &System) -> bool {
    let read = |offset: u16| system.gpu().config_read(offset, 1) as u16;
    let mut at = read(0x34);
    while at != 0 && read(at) != 0x10 {
        at = read(at + 1);
    }
    at != 0 && read(at + 0x28) & 1 << 6 != 0
}

fn atomics_are_enabled(case: &mut Case<'_>) -> Result<(), Failure> {
    ensure!(may_send_atomics(case.system), "not after StartDevice");
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    power_down(case.system)?;
    rig.execute(&mut queue, &[])?;
    ensure!(may_send_atomics(case.system), "not behind D3, which clears configuration space");
    Ok(())
}

fn no_atomics_to_enable(case: &mut Case<'_>) -> Result<(), Failure> {
    ensure!(!may_send_atomics(case.system), "a bit that is zero for good was set");
    let rig = case.rig()?;
    rig.paged();
    Ok(())
}

fn narrow() -> SystemOptions {
    with_gpu(|gpu| gpu.atomics64 = false)
}

fn posted() -> SystemOptions {
    with_gpu(|gpu| gpu.posted_writes = true)
}

fn aperture() -> SystemOptions {
    let mut options = posted();
    options.variant.vram_size = 64 << 20;
    options.variant.vram_window = 32 << 20;
    options.variant.host_aperture = 2 * SIZE;
    options
}

/// Whoever writes to the command registers or to CONTROL has read that it was carried out before relying on it.
fn every_end_was_read(case: &Case<'_>) -> Result<(), Failure> {
    ensure_eq!(case.system.gpu().ends_unread(), 0, "commands and changes of CONTROL whose end nobody has read");
    Ok(())
}

fn queues_come_and_go(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for _ in 0..20 {
        let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
        for queue in &mut queues {
            rig.execute(queue, &[])?;
            granted(rig.evict(queue.commands.handle), "evict")?;
            rig.make_resident(queue.commands.handle)?;
            rig.execute(queue, &[])?;
            ensure_eq!(queue.progress.load(), 2, "progress");
        }
        for queue in &queues {
            granted(rig.destroy_queue(queue), "destroying doorbell, queue and context")?;
        }
    }
    every_end_was_read(case)
}

fn aperture_is_shown(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let all = [(); 4].map(|()| rig.memory(SIZE, Placement::VramLockable));
    let mut queue = rig.queue(NODE_COPY)?;
    let [first, second, third, fourth] = all;
    let all = [first?, second?, third?, fourth?];
    for round in 0..12 {
        // Two fit into the aperture, so that each finds pages there that have shown another one's.
        for (index, memory) in (0..).zip(all) {
            let bytes = pattern(round * 4 + index);
            rig.view(memory)?.write(0, &bytes);
            granted(rig.unlock(memory.handle), "unlock")?;
            ensure!(gpu_sees(&rig, memory)? == bytes, "round {round}: the GPU does not see what the CPU wrote");
        }
        for pair in all.windows(2) {
            let [from, to] = pair else { continue };
            rig.execute(&mut queue, &[copy(to.address, from.address, SIZE as u32)])?;
            let seen = rig.view(*to)?.read(0, SIZE);
            granted(rig.unlock(to.handle), "unlock")?;
            ensure!(seen == pattern(round * 4), "round {round}: the CPU does not see what the GPU wrote");
        }
    }
    Ok(())
}

fn sleeps_and_wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queues = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    for round in 1..=8 {
        for queue in &mut queues {
            rig.execute(queue, &[])?;
            ensure_eq!(queue.progress.load(), round, "progress");
        }
        power_down(case.system)?;
    }
    for queue in &mut queues {
        rig.execute(queue, &[])?;
    }
    every_end_was_read(case)
}

fn stops_and_starts(case: &mut Case<'_>) -> Result<(), Failure> {
    for _ in 0..4 {
        let process = dxgkrnl::Process::new(case.system.machine(), "worker");
        let outcome = on_thread(&process, || {
            let rig = Rig::open(case.system.luid())?;
            let mut queue = rig.queue(NODE_COMPUTE)?;
            (0..4).try_for_each(|_| rig.execute(&mut queue, &[]))
        });
        process.exit();
        outcome?;
        case.system.stop()?;
        every_end_was_read(case)?;
        case.system.remove()?;
        case.system.start()?;
    }
    Ok(())
}
