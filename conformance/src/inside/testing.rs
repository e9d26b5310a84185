//! Kernel-mode testing: command buffers that the driver builds for whoever does not know its packets.

use crate::cases::testing::{escape, fill, named, request, test_context, test_queue_flags};
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::status::*;

use crate::simulated::Case;
use crate::{Boot, Failure, refused};
use testbed::setup::SystemOptions;

cases! { inside "Kernel-mode testing", behind "it chooses what hardware and system enable";
    "Testing.OffWhereTheFeatureIsOff" needs HardwareScheduling on Boot::With(without_testing), "kernel-mode-testing-of-wddm-features":
        "Where kernel-mode testing is not enabled there are no test contexts, no test queues and no test command buffers."
        => off;
}

fn without_testing() -> SystemOptions {
    let mut options = SystemOptions::default();
    options.features.kernel_mode_testing = false;
    options
}

fn off(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = test_context(&rig, NODE_COMPUTE, &mut []).err().unwrap_or(STATUS_SUCCESS);
    refused(context, &[STATUS_NOT_SUPPORTED], "a test context")?;
    let hardware = named(rig.context(NODE_COMPUTE), "D3DKMTCreateHwContext")?;
    let queue = rig.hw_queue(hardware, test_queue_flags()).err().unwrap_or(STATUS_SUCCESS);
    refused(queue, &[STATUS_NOT_SUPPORTED], "a test queue")?;
    let ordinary = named(rig.packet_context(NODE_COMPUTE), "a context")?;
    let status = escape(&rig, &mut request(&rig, ordinary, false, fill(1 << 40, 64)));
    refused(status, &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER], "a test command buffer")
}
