//! Where the fence logs of a queue are, as user mode is told.

use campanile_hw::log::bytes_of;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use crate::{Boot, Case, Failure, refused};

cases! { thunks "FenceLog", needs HardwareScheduling;
    "FenceLog.DetailTellsSizesAndAddresses" needs UserModeSubmission on Boot::Shared, "native-gpu-fence-objects":
        "User mode, which picks the entries, is told how many there are in both logs of its queue and at which GPU addresses they lie; no two logs overlap, and a queue that the kernel submits to has none."
        holds [NativeFence 58]
        => detail;
    "FenceLog.BadQuestionsAreRefused" needs UserModeSubmission on Boot::Shared, "d3dkmt_getnativefencelogdetail":
        "A handle that is no queue, and reserved fields that are not zero, are refused."
        holds [NativeFence 58]
        => bad_questions;
}

fn detail(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let told = |status: NTSTATUS| Failure::new(format!("D3DKMTGetNativeFenceLogDetail: {status}"));
    let mut logs = Vec::new();
    for node in [NODE_COMPUTE, NODE_COPY] {
        let queue = rig.queue(node)?;
        let found = rig.fence_logs(queue.queue).map_err(told)?;
        logs.push((found.WaitLogGpuBaseAddress, found.WaitLogNumberOfEntries));
        logs.push((found.SignalLogGpuBaseAddress, found.SignalLogNumberOfEntries));
    }
    for (address, entries) in &logs {
        ensure!(
            *entries != 0 && *address != 0 && address.is_multiple_of(8),
            "a log of {entries} entries at {address:#x}"
        );
    }
    logs.sort_unstable();
    let apart = logs.windows(2).all(|pair| pair[0].0 + bytes_of(pair[0].1) <= pair[1].0);
    ensure!(apart, "logs overlap: {logs:x?}");
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    let kernel = rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new());
    let kernel = kernel.map_err(|status| Failure::new(format!("kernel-mode queue: {status}")))?;
    let found = rig.fence_logs(kernel.hHwQueue).map_err(told)?;
    ensure_eq!((found.WaitLogGpuBaseAddress, found.SignalLogGpuBaseAddress), (0, 0), "logs of a kernel-mode queue");
    ensure_eq!((found.WaitLogNumberOfEntries, found.SignalLogNumberOfEntries), (0, 0), "their entries");
    Ok(())
}

fn bad_questions(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let queue = rig.queue(NODE_COMPUTE)?;
    for handle in [0, queue.context, queue.progress_fence, rig.device, u32::MAX] {
        let status = rig.fence_logs(handle).err().unwrap_or(STATUS_SUCCESS);
        refused(status, &[STATUS_INVALID_HANDLE], "logs of what is no queue")?;
    }
    let ask = |change: fn(&mut D3DKMT_GETNATIVEFENCELOGDETAIL)| {
        let mut arguments = D3DKMT_GETNATIVEFENCELOGDETAIL::zeroed();
        arguments.hHwQueue = queue.queue;
        change(&mut arguments);
        rig.kmt.call(rig.kmt.table().D3DKMTGetNativeFenceLogDetail, &mut arguments)
    };
    let flags = ask(|arguments| arguments.Flags = D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS::from_bits(1));
    refused(flags, &[STATUS_INVALID_PARAMETER], "a reserved flag")?;
    refused(ask(|arguments| arguments.Reserved[63] = 1), &[STATUS_INVALID_PARAMETER], "a reserved byte")
}
