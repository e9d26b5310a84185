//! Sync files. Microsoft's pages reserve their thunks for the system; these cases hold what the graphics kernel of WSL does, whose source is public.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use campanile_hw::registers::NODE_COPY;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::fence_cross_adapter::{rigs, two_native};
use crate::event::Event;
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, WRONG_KIND};
use crate::rig::{RawFence, Rig, shared_flags, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "SyncFile", behind "a sync file is a descriptor of Linux";
    "SyncFile.IsReadyAtItsValue" on Boot::Shared, "d3dkmtcreatesyncfile":
        "A sync file can be read once its fence has reached the value, at once if it has before, and for good; copies of the descriptor are the same file."
        => ready;
    "SyncFile.ContextsWaitForIt" on Boot::Fresh, "d3dkmtwaitsyncfile":
        "Work that a context of another process is given behind a wait for a sync file runs when the fence has reached the value, and nothing is left of the wait; a file that is ready holds nothing."
        => waits;
    "SyncFile.OpensItsFence" on Boot::Fresh, "d3dkmtopensyncobjectfromsyncfile":
        "Another process opens the fence of a sync file, gets its addresses and the value that the file stands for, and signals it; a file keeps a shared fence alive that its creator has destroyed."
        => opens;
    "SyncFile.EndsWithAPrivateFence" on Boot::Shared, "d3dkmtcreatesyncfile":
        "The file of a fence that is not shared is ready when the fence is destroyed, and is neither waited for nor opened."
        => private;
    "SyncFile.BadRequestsAreRefused" needs NativeFence on Boot::With(two_native), "d3dkmtcreatesyncfile":
        "Native fences, progress fences, fences and contexts of another adapter, fences that may not be waited for, and descriptors of anything else are refused, and leave no handle."
        => refusals;
    "SyncFile.ClosedFilesAreForgotten" on Boot::Shared, "d3dkmtcreatesyncfile":
        "A process makes and closes any number of sync files one after the other."
        => many;
}

/// A descriptor of a sync file.
struct File(OwnedFd);

impl File {
    fn is_ready(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, and a timeout of zero.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLIN != 0
    }

    fn wait(&self) -> Result<(), Failure> {
        wait_until("the sync file", || self.is_ready())
    }

    fn number(&self) -> u64 {
        self.0.as_raw_fd() as u64
    }
}

fn create(rig: &Rig, fence: D3DKMT_HANDLE, value: u64) -> Result<File, NTSTATUS> {
    let mut arguments = D3DKMT_CREATESYNCFILE::zeroed();
    (arguments.hDevice, arguments.hMonitoredFence, arguments.FenceValue) = (rig.device, fence, value);
    rig.kmt.call(rig.kmt.further().D3DKMTCreateSyncFile, &mut arguments).ok()?;
    // SAFETY: the thunk has just opened the descriptor, which belongs to nobody else.
    Ok(File(unsafe { OwnedFd::from_raw_fd(arguments.hSyncFile as i32) }))
}

fn created(rig: &Rig, fence: &RawFence, value: u64) -> Result<File, Failure> {
    create(rig, fence.handle, value).map_err(|status| Failure::new(format!("D3DKMTCreateSyncFile: {status}")))
}

fn wait(rig: &Rig, context: D3DKMT_HANDLE, file: u64) -> NTSTATUS {
    let mut arguments = D3DKMT_WAITSYNCFILE { hSyncFile: file, hContext: context, Reserved: 0 };
    rig.kmt.call(rig.kmt.further().D3DKMTWaitSyncFile, &mut arguments)
}

fn open(rig: &Rig, file: u64) -> Result<D3DKMT_OPENSYNCOBJECTFROMSYNCFILE, NTSTATUS> {
    let mut arguments = D3DKMT_OPENSYNCOBJECTFROMSYNCFILE::zeroed();
    (arguments.hSyncFile, arguments.hDevice) = (file, rig.device);
    rig.kmt.call(rig.kmt.further().D3DKMTOpenSyncObjectFromSyncFile, &mut arguments).ok()?;
    Ok(arguments)
}

fn unshared(rig: &Rig) -> Result<RawFence, Failure> {
    rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
}

fn ready(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for fence in [rig.monitored_fence(0, shared_flags())?, unshared(&rig)?] {
        let (file, later) = (created(&rig, &fence, 2)?, created(&rig, &fence, 3)?);
        let copy = File(file.0.try_clone()?);
        ensure!(!file.is_ready(), "a file is ready before its fence was signalled");
        granted(rig.signal(&[fence.handle], &[1]), "a signal of too little")?;
        ensure!(!file.is_ready(), "a file is ready at a value below its own");
        granted(rig.signal(&[fence.handle], &[2]), "the signal")?;
        file.wait()?;
        ensure!(copy.is_ready() && !later.is_ready(), "a copy is ready with the file, a file of a later value is not");
        granted(rig.rewind(&fence, 0), "the value goes back")?;
        ensure!(file.is_ready(), "a file that was ready is so for good");
        ensure!(created(&rig, &fence, 0)?.is_ready(), "a file of a value that was reached before is ready at once");
        drop(file);
        ensure!(copy.is_ready(), "a copy is ready when the first descriptor is closed");
    }
    Ok(())
}

fn waits(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.monitored_fence(0, shared_flags())?;
    let file = created(&rig, &fence, 5)?;
    let number = file.number();
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let mut queue = other.packet_queue(NODE_COPY)?;
        granted(wait(&other, queue.context, number), "D3DKMTWaitSyncFile")?;
        let value = other.packet_submit(&mut queue, &[])?;
        case.on_thread(|| granted(rig.signal(&[fence.handle], &[4]), "a signal of too little"))?;
        ensure!(queue.progress.value.load() < value, "work ran before the sync file was ready");
        case.on_thread(|| granted(rig.signal(&[fence.handle], &[5]), "the signal"))?;
        other.packet_wait(&queue, value)?;
        granted(wait(&other, queue.context, number), "a wait for a file that is ready")?;
        other.packet_execute(&mut queue, &[])
    })?;
    // In this process the number of handles can be watched.
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let later = created(&rig, &fence, 6)?;
    let handles = case.process.handle_count();
    granted(wait(&rig, queue.context, later.number()), "D3DKMTWaitSyncFile")?;
    let value = rig.packet_submit(&mut queue, &[])?;
    granted(rig.signal(&[fence.handle], &[6]), "the signal")?;
    rig.packet_wait(&queue, value)?;
    wait_until("the end of the wait's own handle", || case.process.handle_count() == handles)
}

fn opens(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.monitored_fence(3, shared_flags())?;
    let file = created(&rig, &fence, 8)?;
    granted(rig.destroy_fence(fence.handle), "destroying the creator's handle")?;
    let number = file.number();
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let opened = open(&other, number).map_err(|status| Failure::new(format!("opening: {status}")))?;
        ensure_eq!(opened.FenceValue, 8, "the value that the file stands for");
        ensure!(opened.FenceValueGPUVirtualAddress != 0, "the fence has no address for the GPU");
        let address = opened.FenceValueCPUVirtualAddress.cast::<u64>();
        // SAFETY: the address of the value in this process, which is mapped as long as the fence is open.
        ensure_eq!(unsafe { address.read_volatile() }, 3, "the value as the other process reads it");
        ensure!(!file.is_ready(), "a file is ready although its fence has not reached the value");
        granted(other.signal(&[opened.hSyncObject], &[8]), "the signal of the other process")?;
        file.wait()
    })
}

fn private(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fence, queue) = (unshared(&rig)?, rig.packet_queue(NODE_COPY)?);
    let file = created(&rig, &fence, 1)?;
    refused(wait(&rig, queue.context, file.number()), BAD_ARGUMENT, "a wait for the file of a private fence")?;
    let Err(status) = open(&rig, file.number()) else { return Err(Failure::new("a private fence was opened")) };
    refused(status, BAD_ARGUMENT, "opening a private fence")?;
    ensure!(!file.is_ready(), "the file is ready before its fence is destroyed");
    granted(rig.destroy_fence(fence.handle), "destroying the fence")?;
    file.wait()
}

fn is_refused(created: Result<File, NTSTATUS>, allowed: &[NTSTATUS], what: &str) -> Result<(), Failure> {
    refused(created.err().unwrap_or(STATUS_SUCCESS), allowed, what)
}

fn refusals(case: &mut Case<'_>) -> Result<(), Failure> {
    let [rig, second] = rigs(case)?;
    let (fence, foreign) = (rig.monitored_fence(0, shared_flags())?, second.monitored_fence(0, shared_flags())?);
    let (queue, elsewhere) = (rig.packet_queue(NODE_COPY)?, second.packet_queue(NODE_COPY)?);
    let (native, silent) = (rig.fence(0)?, rig.monitored_fence(0, shared_flags().with_NoWait(true))?);
    let file = created(&rig, &fence, 1)?;
    let before = case.process.handle_count();
    is_refused(create(&rig, native.handle, 1), BAD_ARGUMENT, "a native fence")?;
    is_refused(create(&rig, foreign.handle, 1), BAD_ARGUMENT, "a fence of another adapter")?;
    is_refused(create(&rig, silent.handle, 1), &[STATUS_ACCESS_DENIED], "a fence that may not be waited for")?;
    is_refused(create(&rig, rig.device, 1), WRONG_KIND, "a device for a fence")?;
    is_refused(create(&rig, 0, 1), BAD_HANDLE, "no fence")?;
    refused(wait(&second, elsewhere.context, file.number()), BAD_ARGUMENT, "a context of another adapter")?;
    refused(wait(&rig, fence.handle, file.number()), WRONG_KIND, "a fence for a context")?;
    let mut reserved = D3DKMT_WAITSYNCFILE { hSyncFile: file.number(), hContext: queue.context, Reserved: 1 };
    let waits = rig.kmt.further().D3DKMTWaitSyncFile;
    refused(rig.kmt.call(waits, &mut reserved), BAD_ARGUMENT, "a reserved field")?;
    let Err(status) = open(&second, file.number()) else {
        return Err(Failure::new("another adapter opened the fence"));
    };
    refused(status, BAD_ARGUMENT, "opening on another adapter")?;
    let (event, (socket, _end)) = (Event::new()?, std::os::unix::net::UnixStream::pair()?);
    let wrong = [event.number() as u64, socket.as_raw_fd() as u64, u64::from(u32::MAX), u64::MAX, 0x7fff_fff0];
    for number in wrong {
        refused(wait(&rig, queue.context, number), WRONG_KIND, "a descriptor that is no sync file")?;
        let Err(status) = open(&rig, number) else { return Err(Failure::new("a fence of no sync file was opened")) };
        refused(status, WRONG_KIND, "opening a descriptor that is no sync file")?;
    }
    ensure_eq!(case.process.handle_count(), before, "handles after refusals");
    granted(rig.signal(&[fence.handle], &[1]), "a signal")?;
    file.wait()
}

fn many(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.monitored_fence(0, shared_flags())?;
    for round in 0..3000 {
        created(&rig, &fence, 1 + round)?;
    }
    Ok(())
}
