//! Native fences by the handles of system and driver.

use campanile_hw::event::EventKind;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, handle};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.ReportsNameTheSystemsHandles" on Boot::Shared, "native-gpu-fence-objects":
        "A report of signalled fences names each of them once, by the handle that the system gave, and none that was destroyed; such a handle is refused."
        holds [NativeFence 45, NativeFence 46]
        => fences_are_reported_by_the_handles_the_system_gave_them;
    "Miniport.FencesOutliveTheAdapter" on Boot::Shared, "native-gpu-fence-objects":
        "A fence that is closed and destroyed after its adapter was removed gives its memory back."
        holds [NativeFence 40]
        => fences_outlive_the_adapter_without_harm;
    "Miniport.ValuesAreWrittenWhereTheSystemSays" on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "DxgkDdiUpdateMonitoredValues at device level and DxgkDdiUpdateCurrentValuesFromCpu at DISPATCH_LEVEL write the values where the system says, unless only a notification is asked for; a fence that is signalled for good keeps its last value."
        => monitored_and_current_values_are_written_where_the_system_says;
}

fn fences_are_reported_by_the_handles_the_system_gave_them(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 1);
    let (_, _) = rig.user_queue(context, 1);
    let (first, first_open) = rig.fence(0xf1, 0x8000);
    rig.fence(0xf2, 0x8008);
    for address in [0x8000, 0x8008, 0x8000] {
        rig.system.event(EventKind::FenceSignaled, 1, 3, [address, 1]);
    }
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::Native { node: 1, fences: vec![0xf1, 0xf2] }]);
    // Once closed, a late event does not name it.
    ensure_eq!((rig.close(first_open), rig.destroy(first)), (STATUS_SUCCESS, STATUS_SUCCESS));
    rig.system.event(EventKind::FenceSignaled, 1, 3, [0x8000, 2]);
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::Native { node: 1, fences: vec![] }]);
    ensure_eq!((rig.close(first_open), rig.destroy(first)), (STATUS_INVALID_HANDLE, STATUS_INVALID_HANDLE));
    Ok(())
}

fn fences_outlive_the_adapter_without_harm(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = allocations(case);
    let mut rig = Rig::new(case, ALL, 4);
    let (global, local) = rig.fence(0xf1, 0x8000);
    rig.system.remove();
    ensure_eq!((rig.close(local), rig.destroy(global)), (STATUS_SUCCESS, STATUS_SUCCESS));
    ensure_eq!(allocations(case), before);
    Ok(())
}

fn monitored_and_current_values_are_written_where_the_system_says(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let (global, _) = rig.fence(0xf1, 0x8000);
    let (mut value, mut storage, mut fence) = (41u64, 0u64, global);
    let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
    let mut args = DXGKARG_UPDATEMONITOREDVALUES::zeroed();
    args.NumFences = 1;
    args.NativeFenceArray = &raw mut fence;
    args.UpdatedValueArray = &raw mut value;
    args.MonitoredValueKernelCpuVa = &raw mut address;
    let update = || ddi!(rig.system, DxgkDdiUpdateMonitoredValues, &raw const args);
    ensure_eq!(level(5, update), STATUS_SUCCESS);
    // SAFETY: a local that the driver wrote through a pointer.
    ensure_eq!(unsafe { (&raw const storage).read_volatile() }, 41);

    let write = |flags: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS, mut value: u64, mut fence: HANDLE| {
        let mut storage = 7u64;
        let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
        let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
        args.NumFences = 1;
        args.Flags = flags;
        args.NativeFenceArray = &raw mut fence;
        args.UpdatedValueArray = &raw mut value;
        args.CurrentValueKernelCpuVa = &raw mut address;
        let update = || ddi!(rig.system, DxgkDdiUpdateCurrentValuesFromCpu, &raw const args);
        assert_eq!(level(2, update), STATUS_SUCCESS);
        // SAFETY: a local that the driver wrote through a pointer.
        unsafe { (&raw const storage).read_volatile() }
    };
    let flags = DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new();
    ensure_eq!(write(flags, 42, global), 42);
    ensure_eq!(write(flags.with_NotificationOnly(true), 43, global), 7);
    ensure_eq!(write(flags, 44, handle(0x1234)), 7, "a handle that names nothing changes nothing");
    ensure_eq!(write(flags.with_AlwaysSignaled(true), 0, global), u64::MAX);
    ensure_eq!(write(flags, 45, global), u64::MAX, "and stays so");
    Ok(())
}
