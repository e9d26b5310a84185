//! Threads that work, or wait, until their device is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use campanile_umd::{Adapter, Buffer, Device, Error, Fence, LossReason, Node, Placement, Recoverable, RecoveryOptions};
use dxgkrnl::Process;

/// Bytes that are filled.
pub(crate) const SIZE: u64 = 64 << 10;

/// Error that ended a worker, and the reason of its device's loss.
pub(crate) type Ended = (Error, Option<LossReason>);

/// Resources of the work on a device.
pub(crate) struct Resources {
    pub(crate) target: Buffer,
}

/// The resources on a device.
///
/// # Errors
/// The buffer cannot be created.
pub(crate) fn make(device: &Device) -> Result<Resources, Error> {
    Ok(Resources { target: device.create_buffer(SIZE, Placement::Vram)? })
}

/// A worker of `process` on `adapter` that submits until its device is lost; says when work was done, and how it ended.
pub(crate) fn work(process: &Arc<Process>, adapter: &Adapter, node: Node, done: &AtomicBool) -> Ended {
    let _attached = process.attach();
    let mut work = Recoverable::new(adapter, node, RecoveryOptions::default(), make).expect("the adapter works");
    loop {
        let submitted = work.submit(|commands, app| commands.fill(app.target.gpu_address(), SIZE, 7));
        match submitted.and_then(|_| work.wait(None)) {
            Ok(_) => done.store(true, Ordering::Release),
            Err(error) => return (error, work.device().loss().expect("a lost device says why")),
        }
    }
}

/// A thread that waits for what will never be signalled.
pub(crate) fn wait_forever(process: &Arc<Process>, adapter: &Adapter, ready: &AtomicBool) -> Result<(), Error> {
    let _attached = process.attach();
    let device = Device::new(adapter).expect("the adapter works");
    let fence = Fence::new(&device, 0).expect("the adapter works");
    ready.store(true, Ordering::Release);
    fence.wait(1, None).map(drop)
}
