//! Faults: the guilty device alone pays.

use campanile_hw::packet::{self, Header, Packet};
use campanile_hw::private::Placement;
use campanile_hw::queue::RingEntry;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::{D3DDDI_DOORBELLSTATUS, DXGK_PAGE_FAULT_FLAGS};
use wddm_ddi::kmt::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::{DEVICE_LOST, Kmt};
use crate::rig::{RawQueue, Rig, copy, fill, wait_until};
use crate::{Boot, Case, Failure, refused};

cases! { thunks "Fault", needs HardwareScheduling;
    "Fault.PageFaultNamesTheAddress" needs UserModeSubmission on Boot::Shared, "access-to-non-resident-allocation":
        "A read of an unmapped GPU address puts the device in error as a page fault, and the device's state names the address."
        => page_fault_names_address;
    "Fault.WriteToReadOnlyMappingFaults" needs UserModeSubmission on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A mapping without the write right can be read by the GPU, and a write through it faults without changing a byte."
        => write_to_read_only;
    "Fault.FreedAddressFaults" needs UserModeSubmission on Boot::Shared, "gpu-virtual-memory":
        "A GPU address faults once it is freed, although it worked before."
        => freed_address;
    "Fault.BadPacketsHaveNoEffect" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A packet that breaks a rule of the hardware puts its device in error and has no effect; what came before it is complete."
        holds [UserModeSubmission 65]
        => bad_packets;
    "Fault.BadRingEntriesStopTheirQueue" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Ring entries with impossible addresses, sizes or privileged flags put their device in error."
        holds [UserModeSubmission 65]
        => bad_ring_entries;
    "Fault.BadWritePointerStopsItsQueue" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A write pointer that jumps past the ring or backwards puts its device in error instead of running stale entries."
        holds [UserModeSubmission 66]
        => bad_write_pointer;
    "Fault.DoorbellOfLostDeviceAborts" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "When a device is lost, the status of its doorbells becomes disconnected-abort and connecting is refused."
        holds [UserModeSubmission 16, UserModeSubmission 26]
        => doorbell_aborts;
    "Fault.WaitersOfLostDeviceAreReleased" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "A CPU that waits for work of a device is released with an error when that device is lost."
        holds [NativeFence 10]
        => waiters_are_released;
}

/// An address that nothing is mapped to.
pub const NOWHERE: u64 = 0x7abc_def0_0000;

const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;

const PAGE_FAULT: D3DKMT_DEVICEEXECUTION_STATE =
    D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;

/// Waits until a device is in error; its state.
pub fn wait_for_error(kmt: Kmt, device: D3DKMT_HANDLE) -> Result<D3DKMT_DEVICEEXECUTION_STATE, Failure> {
    wait_until("the device's error", || kmt.execution_state(device).is_ok_and(|state| state != ACTIVE))?;
    kmt.execution_state(device)
}

/// As [`wait_for_error`], after a write pointer that cannot be was rung.
pub(super) fn ring_for_error(rig: &Rig, queue: &RawQueue, write_pointer: u64) -> Result<(), Failure> {
    let in_error = || rig.kmt.execution_state(rig.device).is_ok_and(|state| state != ACTIVE);
    rig.ring_until(queue, write_pointer, "the device's error", in_error)
}

/// A second device of the process, which must not notice anything.
pub struct Bystander {
    pub rig: Rig,
    pub queue: RawQueue,
}

impl Bystander {
    pub fn new(rig: &Rig) -> Result<Self, Failure> {
        let rig = Rig::on_adapter(rig.kmt, rig.adapter)?;
        let queue = rig.queue(NODE_COMPUTE)?;
        Ok(Self { rig, queue })
    }

    pub fn works(&mut self) -> Result<(), Failure> {
        self.rig.execute(&mut self.queue, &[])?;
        ensure_eq!(self.rig.kmt.execution_state(self.rig.device)?, ACTIVE, "state of an innocent device");
        Ok(())
    }
}

fn page_fault_names_address(case: &Case) -> Result<(), Failure> {
    for (offset, write) in [(0, false), (4096 * 5, true), (123 << 21, false)] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COPY)?;
        let memory = rig.memory(4096, Placement::System)?;
        ensure_eq!(rig.kmt.execution_state(rig.device)?, ACTIVE, "state before the fault");
        let address = NOWHERE + offset;
        let guilty = if write { copy(address, memory.address, 64) } else { copy(memory.address, address, 64) };
        rig.submit_doomed(&mut queue, &[guilty])?;
        ensure_eq!(wait_for_error(rig.kmt, rig.device)?, PAGE_FAULT, "state after the fault");
        let state = rig.kmt.page_fault_state(rig.device)?;
        ensure_eq!(state.FaultedVirtualAddress & !0xfff, address, "faulted address");
        let flag = DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_WRITE.0;
        ensure_eq!(state.PageFaultFlags.0 & flag != 0, write, "fault of a write");
        queue.stands_at(0, "the fault")?;
    }
    Ok(())
}

fn write_to_read_only(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COPY)?;
    let memory = rig.memory(4096, Placement::System)?;
    let view = rig.view(memory)?;
    view.fill(0x5a);
    let mut request = rig.map_request(memory.handle, 4096);
    request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
    let read_only = rig.map(request)?;
    let target = rig.memory(4096, Placement::System)?;
    let target_view = rig.view(target)?;
    rig.execute(&mut queue, &[copy(target.address, read_only, 4096)])?;
    ensure!(target_view.read(0, 4096).iter().all(|byte| *byte == 0x5a), "the mapping could not be read");
    rig.submit_doomed(&mut queue, &[fill(read_only, 4096, 0)])?;
    wait_for_error(rig.kmt, rig.device)?;
    ensure!(view.read(0, 4096).iter().all(|byte| *byte == 0x5a), "a write through the mapping changed bytes");
    Ok(())
}

fn freed_address(case: &Case) -> Result<(), Failure> {
    for placement in [Placement::System, Placement::Vram] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COPY)?;
        let memory = rig.memory(1 << 20, placement)?;
        rig.execute(&mut queue, &[fill(memory.address, 1 << 20, 1)])?;
        let status = rig.free(memory.address, 1 << 20);
        ensure!(status.is_success(), "freeing the address failed with {status}");
        rig.submit_doomed(&mut queue, &[fill(memory.address, 4, 2)])?;
        ensure_eq!(wait_for_error(rig.kmt, rig.device)?, PAGE_FAULT, "state after using the freed address");
    }
    Ok(())
}

/// Bytes of a packet with one 64-bit word changed.
fn patched(packet: Packet, word: usize, value: u64) -> Vec<u8> {
    let mut bytes = packet.encode()[..packet.size()].to_vec();
    bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
    bytes
}

const FORGET_ALL: packet::InvalidateTlb = packet::InvalidateTlb { root: 0, start: 0, end: 0 };

fn bad_packets(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    let header = |opcode, length| Header::new().with_opcode(opcode).with_length(length).into_bits();
    let nop = Packet::Nop(packet::Nop {});
    for (what, bytes) in [
        ("opcode 0", patched(nop, 0, header(0, 1))),
        ("opcode 0xff", patched(nop, 0, header(0xff, 1))),
        ("length 0", patched(nop, 0, header(packet::Nop::OPCODE, 0))),
        ("a wrong length", patched(nop, 0, header(packet::Nop::OPCODE, 2))),
        ("a reserved bit", patched(nop, 0, header(packet::Nop::OPCODE, 1) | 1 << 20)),
        ("a fence handle where none belongs", patched(nop, 0, header(packet::Nop::OPCODE, 1) | 1 << 40)),
        ("a misaligned fill", patched(fill(0, 4, 0), 1, 2)),
        ("an endless fill", patched(fill(0, 4, 0), 2, !3)),
        ("a fill of nothing", patched(fill(0, 4, 0), 2, 0)),
        ("a copy beyond the address space", patched(copy(0, 0, 4), 1, u64::MAX - 3)),
        (
            "words for a place in VRAM",
            patched(Packet::WritePhysical(packet::WritePhysical::of(8 << 20, &[7], 1)), 2, 7),
        ),
        ("an order to forget translations", patched(Packet::InvalidateTlb(FORGET_ALL), 2, 0)),
        ("a packet cut short", copy(0, 0, 4).encode()[..16].to_vec()),
    ] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        let memory = rig.memory(4096, Placement::System)?;
        let view = rig.view(memory)?;
        view.fill(0);
        let before = fill(memory.address, 2048, u32::MAX);
        let after = fill(memory.address + 2048, 2048, u32::MAX);
        let mut commands = before.encode()[..before.size()].to_vec();
        commands.extend_from_slice(&bytes);
        if !what.contains("cut short") {
            commands.extend_from_slice(&after.encode()[..after.size()]);
        }
        queue.append_bytes(&commands)?;
        rig.ring_doomed(&queue)?;
        wait_for_error(rig.kmt, rig.device).map_err(|failure| Failure::new(format!("{what}: {failure}")))?;
        let seen = view.read(0, 4096);
        ensure!(seen[..2048].iter().all(|byte| *byte == 0xff), "{what}: the packet before it is not complete");
        ensure!(seen[2048..].iter().all(|byte| *byte == 0), "{what}: the packet after it was executed");
        bystander.works()?;
    }
    Ok(())
}

fn bad_ring_entries(case: &Case) -> Result<(), Failure> {
    const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    let good = RingEntry { commands: 0, size: 16, flags: 0, tag: 0, root: 0 };
    let nop = Packet::Nop(packet::Nop {});
    let nop = nop.encode()[..nop.size()].to_vec();
    for (what, change) in [
        ("an unmapped command buffer", (|entry| entry.commands = NOWHERE) as fn(&mut RingEntry)),
        ("a misaligned command buffer", |entry| entry.commands += 8),
        ("a command buffer beyond the address space", |entry| entry.commands = !15),
        ("a misaligned size", |entry| entry.size = 17),
        ("a size above the limit", |entry| entry.size = !15),
        ("the privileged flag for an event", |entry| entry.flags = 1),
        ("the privileged flag for its own root", |entry| entry.flags = 2),
        ("the privileged flag for a progress fence", |entry| entry.flags = 4),
        ("the privileged flag for packets", |entry| entry.flags = 8),
        ("a reserved flag", |entry| entry.flags = 1 << 31),
    ] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        let mut entry = RingEntry { commands: queue.commands.address, ..good };
        change(&mut entry);
        // Commands that are right, wherever they begin: nothing but the entry is wrong.
        let offset = entry.commands.wrapping_sub(queue.commands.address);
        if offset < PAGE {
            queue.commands_view.write(offset, &nop);
        }
        queue.append_entry(entry);
        rig.ring_doomed(&queue)?;
        wait_for_error(rig.kmt, rig.device).map_err(|failure| Failure::new(format!("{what}: {failure}")))?;
        queue.stands_at(0, what)?;
        bystander.works()?;
    }
    Ok(())
}

fn bad_write_pointer(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    for pointer in [u64::from(crate::rig::RING_ENTRIES) + 4, 1 << 40, u64::MAX, 1] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        for _ in 0..3 {
            rig.execute(&mut queue, &[])?;
        }
        queue.set_write_pointer(pointer);
        ring_for_error(&rig, &queue, pointer)
            .map_err(|failure| Failure::new(format!("write pointer {pointer:#x}: {failure}")))?;
        queue.stands_at(3, &format!("write pointer {pointer:#x}"))?;
        bystander.works()?;
    }
    Ok(())
}

fn doorbell_aborts(case: &Case) -> Result<(), Failure> {
    const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;
    let rig = case.rig()?;
    let (mut guilty, mut idle) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    rig.execute(&mut idle, &[])?;
    rig.submit_doomed(&mut guilty, &[fill(NOWHERE, 4096, 0)])?;
    wait_until("the abort of the guilty queue's doorbell", || guilty.doorbell.state() == ABORT)?;
    wait_until("the abort of the device's other doorbell", || idle.doorbell.state() == ABORT)?;
    refused(rig.connect(guilty.doorbell), DEVICE_LOST, "connecting a doorbell of a lost device")?;
    ensure_eq!(guilty.doorbell.state(), ABORT, "status after the refused connection");
    idle.doorbell.page.store(77);
    Ok(())
}

fn waiters_are_released(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
    let progress = rig.submit(&mut queue, &[gate.wait(1), fill(NOWHERE, 4096, 0), fence.signal(1)])?;
    for (what, handle, value) in [("fence", fence.handle, 1), ("progress fence", queue.progress_fence, progress)] {
        let status = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _attached = case.enter();
                rig.wait(&[handle], &[value], false)
            });
            // The first round finds the waiter asleep when the device is lost, the second comes after that.
            std::thread::sleep(std::time::Duration::from_millis(5));
            let opened = rig.signal(&[gate.handle], &[1]);
            (opened, waiter.join())
        });
        match status.1 {
            Ok(status) => refused(status, DEVICE_LOST, &format!("the wait for the {what}"))?,
            Err(_) => return Err(Failure::new("the waiter panicked")),
        }
    }
    Ok(())
}
