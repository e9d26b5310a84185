//! Values of many fences at once.

use crate::cases::fence_batches::{signal_of_many, wait_for_many};
use campanile_hw::registers::NODE_COMPUTE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::D3DDDI_NATIVEFENCE_TYPE;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};
use testbed::setup::SystemOptions;

cases! { inside "FenceBatches", behind "it chooses what the system enables";
    "FenceBatches.KernelAddressesAreNotKept" needs UserModeSubmission on Boot::With(short_lived_addresses), "dxgkarg_updatemonitoredvalues":
        "Waits and signals work when the kernel takes the addresses of fence values away from the driver after each call."
        holds [NativeFence 51]
        => addresses_not_kept;
    "FenceBatches.TypesWithoutStorageAreRefused" needs NativeFence on Boot::With(SystemOptions::default), "d3dddi_nativefence_type":
        "A fence type whose storage the system does not support is refused as not supported, and the device works on."
        holds [NativeFence 21]
        => types_refused;
}

fn short_lived_addresses() -> SystemOptions {
    SystemOptions { short_lived_addresses: true, ..SystemOptions::default() }
}

fn addresses_not_kept(case: &mut Case<'_>) -> Result<(), Failure> {
    signal_of_many(case)?;
    wait_for_many(case)?;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    for value in 1..=200 {
        rig.submit(&mut queue, &[fence.signal(value)])?;
        granted(rig.wait(&[fence.handle], &[value], false), "wait for the GPU")?;
    }
    Ok(())
}

fn types_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
    arguments.hDevice = rig.device;
    arguments.Info.EngineAffinity = 1;
    arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU;
    let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateNativeFence, &mut arguments);
    refused(status, &[STATUS_NOT_SUPPORTED], "a fence of type INTRA_GPU")?;
    rig.fence(0).map(drop)
}
