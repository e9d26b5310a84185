//! Kernel handles as file descriptors. The thunks are this project's own; docs/machine.md says what they do.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use campanile_hw::registers::NODE_COPY;
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS;
use wddm_ddi::status::*;

use super::shared_resource::{create, failed, shared};
use crate::cases::fence_rights::{ALL, READ, WAIT};
use crate::event::Event;
use crate::kmt::{BAD_HANDLE, WRONG_KIND};
use crate::rig::{KernelHandle, Rig};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "KernelDescriptor", needs NativeFence, behind "a kernel handle becomes a descriptor of Linux";
    "KernelDescriptor.HandsObjectsOver" on Boot::Fresh, "docs/machine.md":
        "Another process gets a kernel handle of a fence by its descriptor, with the rights of the handle that it was made of, and opens and signals the fence; the descriptor keeps the fence when its creator has closed the handle and destroyed the fence."
        => hands_over;
    "KernelDescriptor.ClosedOnesAreForgotten" on Boot::Fresh, "docs/machine.md":
        "An object ends when the last descriptor of it is closed, and a process makes and closes any number of descriptors one after the other; of the objects of one process 1024 have descriptors at a time."
        => forgotten;
    "KernelDescriptor.BadRequestsAreRefused" on Boot::Shared, "docs/machine.md":
        "A handle that is closed or of another kind, and descriptors of anything else, are refused by name and leave no handle and no descriptor."
        => refusals;
}

fn export(rig: &Rig, handle: KernelHandle) -> Result<OwnedFd, NTSTATUS> {
    let mut number = u32::MAX;
    // SAFETY: the thunk checks its pointers, which live across the call.
    let status = unsafe { (rig.kmt.further().CampanileExportNtHandle)(handle.raw(), &raw mut number) };
    status.ok()?;
    // SAFETY: the thunk has just opened the descriptor, which belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

fn import(rig: &Rig, number: u32) -> Result<KernelHandle, NTSTATUS> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: the thunk checks its pointers, which live across the call.
    let status = unsafe { (rig.kmt.further().CampanileImportNtHandle)(number, &raw mut handle) };
    status.ok().map(|()| KernelHandle(handle.addr()))
}

fn number(descriptor: &OwnedFd) -> u32 {
    descriptor.as_raw_fd().cast_unsigned()
}

fn hands_over(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.shared_fence(3)?;
    let handles = [ALL, READ | WAIT].map(|access| rig.share_with(&[fence.handle], access));
    let [all, wait_only] = handles;
    let (all, wait_only) = (all.map_err(failed("sharing"))?, wait_only.map_err(failed("sharing to wait"))?);
    let descriptor = export(&rig, all).map_err(failed("CampanileExportNtHandle"))?;
    let weak = export(&rig, wait_only).map_err(failed("CampanileExportNtHandle"))?;
    let copy = descriptor.try_clone()?;
    drop(descriptor);
    granted(all.close(), "closing the handle")?;
    granted(wait_only.close(), "closing the handle that waits")?;
    granted(rig.destroy_fence(fence.handle), "destroying the fence")?;
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let handle = import(&other, number(&copy)).map_err(failed("CampanileImportNtHandle"))?;
        let twice = import(&other, number(&copy)).map_err(failed("importing twice"))?;
        ensure!(handle != twice, "each import is a handle of its own");
        let waits = import(&other, number(&weak)).map_err(failed("importing the weak one"))?;
        let opened = other.open_fence(handle)?;
        ensure_eq!(opened.value.load(), 3, "the value as the other process reads it");
        let weak =
            other.open_flagged(waits, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new()).map_err(failed("opening to wait"))?;
        refused(other.signal(&[weak.handle], &[9]), &[STATUS_ACCESS_DENIED], "a signal by the handle that only waits")?;
        granted(other.signal(&[opened.handle], &[7]), "the signal")?;
        ensure_eq!(weak.value.load(), 7, "both handles are of one fence");
        Ok(())
    })
}

/// Resources of the machine that are shared.
fn shared_objects(case: &Case<'_>) -> Result<String, Failure> {
    let holdings = case.system.machine().holdings(case.luid());
    Ok(format!("{holdings:?}"))
}

fn forgotten(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let before = shared_objects(case)?;
    let flags = shared().with_NtSecuritySharing(true);
    let created = create(&rig, flags).map_err(failed("a shared resource"))?;
    let handle = rig.share(&[created.open.resource]).map_err(failed("sharing"))?;
    for _ in 0..3000 {
        drop(export(&rig, handle).map_err(failed("CampanileExportNtHandle"))?);
    }
    let mut open = Vec::new();
    let refused_at = loop {
        match export(&rig, handle) {
            Ok(descriptor) => open.push(descriptor),
            Err(status) => break status,
        }
        ensure!(open.len() <= 1024, "the 1025th object of a process has a descriptor");
    };
    ensure_eq!((open.len(), refused_at), (1024, STATUS_INSUFFICIENT_RESOURCES), "descriptors of one process");
    let last = open.pop();
    drop(open);
    granted(handle.close(), "closing the kernel handle")?;
    granted(super::shared_resource::close(&rig, &created.open), "destroying the resource")?;
    let descriptor = last.ok_or_else(|| Failure::new("no descriptor"))?;
    let again = import(&rig, number(&descriptor)).map_err(failed("the object lives by its descriptor"))?;
    granted(again.close(), "closing it")?;
    drop(descriptor);
    // The next descriptor, or the end of a process, lets closed ones go.
    case.in_other_process(|_| Ok(()))?;
    ensure_eq!(shared_objects(case)?, before, "what the machine holds after all descriptors are closed");
    Ok(())
}

fn refusals(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fence, queue) = (rig.shared_fence(0)?, rig.packet_queue(NODE_COPY)?);
    let handle = rig.share(&[fence.handle]).map_err(failed("sharing"))?;
    let descriptor = export(&rig, handle).map_err(failed("CampanileExportNtHandle"))?;
    let handles = case.process.kernel_handle_count();
    for wrong in [0, 2, 0x1234_5678, usize::MAX & !3, queue.context as usize] {
        let Err(status) = export(&rig, KernelHandle(wrong)) else {
            return Err(Failure::new(format!("{wrong:#x} was exported")));
        };
        refused(status, BAD_HANDLE, "a handle of nothing")?;
    }
    let (event, (socket, _end)) = (Event::new()?, std::os::unix::net::UnixStream::pair()?);
    let wrong = [event.number() as u32, socket.as_raw_fd().cast_unsigned(), u32::MAX, 0x7fff_fff0];
    for number in wrong {
        let Err(status) = import(&rig, number) else { return Err(Failure::new(format!("{number} was imported"))) };
        refused(status, WRONG_KIND, "a descriptor of anything else")?;
    }
    granted(handle.close(), "closing the handle")?;
    let Err(status) = export(&rig, handle) else { return Err(Failure::new("a closed handle was exported")) };
    refused(status, BAD_HANDLE, "a closed handle")?;
    let again = import(&rig, number(&descriptor)).map_err(failed("the descriptor outlives the handle"))?;
    ensure_eq!(case.process.kernel_handle_count(), handles, "kernel handles");
    granted(again.close(), "closing the new handle")
}
