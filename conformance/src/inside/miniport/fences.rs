//! Native fences by the handles of system and driver.

use campanile_hw::event::EventKind;
use campanile_hw::queue::Location;
use campanile_hw::registers::{self, Command, CommandStatus};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, handle, process};
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
    "Miniport.SharedFenceIsAnnouncedInEveryProcess" on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "When the processor signals a fence, the hardware looks at the queues of each process that has it open, by the address that it has there."
        holds [NativeFence 38, NativeFence 50]
        => a_shared_fence_is_announced_in_every_process;
    "Miniport.UnknownAddressHasEveryWaitLookedAt" on Boot::Shared, "dxgkddiupdatecurrentvaluesfromcpu":
        "When the hardware does not find the address of a fence that the processor signals, it is told to look at every queue that waits. This is a rule of the GPU's manual."
        => an_address_that_is_gone_has_every_waiting_queue_looked_at;
    "Miniport.UnclaimedFenceTypesAreRefused" on Boot::Shared, "native-gpu-fence-objects":
        "Native fences of one GPU are created where the system says that it can place them, and refused elsewhere as those of a type that there is not."
        holds [NativeFence 21, NativeFence 32]
        => fences_of_a_type_that_is_not_claimed_are_refused;
    "Miniport.FencesAreFoundAmongMany" on Boot::Shared, "native-gpu-fence-objects":
        "Of many fences that are open each is named when it is signalled, also when others were closed since, and none that another process has at the same address."
        holds [NativeFence 45]
        => each_of_many_fences_is_named_and_none_of_another_process;
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
    // A packet signals fences of its own process; before there was one, nobody knows whose they are.
    let packets = rig.context(1);
    for fences in [vec![], vec![0xf2]] {
        rig.system.event(EventKind::FenceSignaled, 1, 1, [0x8008, 3]);
        rig.system.interrupt();
        ensure_eq!(reports(), [Report::Native { node: 1, fences }], "a signal of a packet");
        ensure_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    }
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
    missing_arrays_change_nothing(&rig, global)?;
    ensure_eq!(write(flags.with_AlwaysSignaled(true), 0, global), u64::MAX);
    ensure_eq!(write(flags, 45, global), u64::MAX, "and stays so");
    Ok(())
}

/// Of three arrays that go together, one that is NULL stands for arrays without elements.
fn missing_arrays_change_nothing(rig: &Rig, mut fence: HANDLE) -> Result<(), Failure> {
    let (mut value, mut storage) = (42u64, 7u64);
    let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
    for missing in 0..3 {
        let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
        args.NumFences = 1;
        args.NativeFenceArray = if missing == 0 { std::ptr::null_mut() } else { &raw mut fence };
        args.UpdatedValueArray = if missing == 1 { std::ptr::null_mut() } else { &raw mut value };
        args.CurrentValueKernelCpuVa = if missing == 2 { std::ptr::null_mut() } else { &raw mut address };
        let update = || ddi!(rig.system, DxgkDdiUpdateCurrentValuesFromCpu, &raw const args);
        ensure_eq!(level(2, update), STATUS_SUCCESS, "array {missing} is missing");
    }
    // SAFETY: a local that the driver could write through a pointer.
    ensure_eq!(unsafe { (&raw const storage).read_volatile() }, 7, "the value");
    Ok(())
}

/// Has the driver told that the processor signals a fence.
fn signal_from_cpu(rig: &Rig, mut fence: HANDLE) {
    let (mut value, mut storage) = (1u64, 0u64);
    let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
    let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
    (args.NumFences, args.NativeFenceArray) = (1, &raw mut fence);
    (args.UpdatedValueArray, args.CurrentValueKernelCpuVa) = (&raw mut value, &raw mut address);
    assert_eq!(level(2, || ddi!(rig.system, DxgkDdiUpdateCurrentValuesFromCpu, &raw const args)), STATUS_SUCCESS);
}

/// The last command, with its first arguments.
fn told(rig: &Rig) -> [u64; 3] {
    let command = rig.system.get(registers::CMP_COMMAND) & u64::from(u32::MAX);
    [command, rig.system.get(registers::CMP_ARG0), rig.system.get(registers::CMP_ARG1)]
}

fn a_shared_fence_is_announced_in_every_process(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let (_, other) = process(&rig.system, 0x9001);
    let system = |address: u64| Location::new().with_address(address).with_system(true).into_bits();
    for (device, dxgk, root) in [(rig.device, 0x4000, 0x10_0000), (other, 0x4001, 0x20_0000)] {
        let context = rig.hw_context_of(device, dxgk, 0);
        rig.root_at(context, 0, root);
    }
    // Whichever place is told last, the other one is told too: fences are open in both orders, at one address in both processes, and twice in one.
    for (dxgk, places) in (0xf1..).zip([
        [(rig.device, 0x8000), (other, 0xa000)],
        [(other, 0xb000), (rig.device, 0x9000)],
        [(rig.device, 0xc000), (other, 0xc000)],
        [(other, 0xd000), (rig.device, 0xd000)],
        [(other, 0xe000), (other, 0xf000)],
    ]) {
        let root = |device| if device == rig.device { system(0x10_0000) } else { system(0x20_0000) };
        let [first, second] = places.map(|(device, at)| [Command::FenceChanged as u64, root(device), at]);
        let global = rig.create(dxgk);
        let local = rig.open(places[0].0, global, places[0].1);
        signal_from_cpu(&rig, global);
        ensure_eq!(told(&rig), first, "open in one place");
        rig.open(places[1].0, global, places[1].1);
        signal_from_cpu(&rig, global);
        ensure_eq!(told(&rig), second, "open in both, the last command");
        ensure_eq!(rig.close(local), STATUS_SUCCESS);
        signal_from_cpu(&rig, global);
        ensure_eq!(told(&rig), second, "closed in the first");
    }
    Ok(())
}

fn an_address_that_is_gone_has_every_waiting_queue_looked_at(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    rig.hw_context(0x4000, 0);
    let (global, _) = rig.fence(0xf1, 0x8000);
    signal_from_cpu(&rig, global);
    ensure_eq!((told(&rig)[0], told(&rig)[2]), (Command::FenceChanged as u64, 0x8000));
    rig.system.set(registers::CMP_COMMAND, u64::from(CommandStatus::PageFault as u32) << 32);
    signal_from_cpu(&rig, global);
    ensure_eq!(told(&rig)[0], Command::RescanWaits as u64, "the last command");
    rig.system.set(registers::CMP_COMMAND, 0);
    Ok(())
}

fn fences_of_a_type_that_is_not_claimed_are_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    use D3DDDI_NATIVEFENCE_TYPE as Type;
    for intra_gpu in [false, true] {
        let rig = Rig::new(case, Features { intra_gpu, ..ALL }, 4);
        let answer = |claimed| if claimed { STATUS_SUCCESS } else { STATUS_NOT_SUPPORTED };
        for (kind, claimed) in [
            (Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT, true),
            (Type::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU, intra_gpu),
            (D3DDDI_NATIVEFENCE_TYPE(7), false),
        ] {
            let mut args = DXGKARG_CREATENATIVEFENCE::zeroed();
            (args.hGlobalNativeFence, args.Type) = (handle(0xf1), kind);
            let status = ddi!(rig.system, DxgkDdiCreateNativeFence, rig.system.adapter, &raw mut args);
            ensure_eq!(status, answer(claimed), "{kind:?} where fences of one GPU can be placed: {intra_gpu}");
            if claimed {
                ensure_eq!(rig.destroy(args.hGlobalNativeFence), STATUS_SUCCESS);
            }
        }
    }
    Ok(())
}

fn each_of_many_fences_is_named_and_none_of_another_process(case: &mut Case<'_>) -> Result<(), Failure> {
    /// As many as the driver's index takes at its first size, with the progress fences, so that searches are as long as they get.
    const FENCES: u64 = 44;
    /// So many that the index has to grow.
    const MANY: u64 = 300;
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 1);
    rig.user_queue(context, 1);
    let (_, other) = process(&rig.system, 0x9001);
    let mut random = fastrand::Rng::with_seed(crate::seed::of(1));
    for (round, fences) in [FENCES; 16].into_iter().chain([MANY]).enumerate() {
        // Distinct addresses without an order, half of them in each process.
        let mut pages: Vec<u64> = (0..fences).map(|number| number << 16 | random.u64(0..1 << 10) << 4).collect();
        random.shuffle(&mut pages);
        let fences: Vec<_> = (0xf00..)
            .zip(&pages)
            .map(|(dxgk, page)| {
                let device = if dxgk % 2 == 0 { rig.device } else { other };
                let (global, at) = (rig.create(dxgk), 0x1_0000_0000 + page);
                (dxgk, global, rig.open(device, global, at), at)
            })
            .collect();
        // Every fourth is closed, of both processes.
        for (_, global, local, _) in fences.iter().filter(|(dxgk, ..)| dxgk / 2 % 2 == 0) {
            ensure_eq!((rig.close(*local), rig.destroy(*global)), (STATUS_SUCCESS, STATUS_SUCCESS));
        }
        for (dxgk, _, _, at) in &fences {
            rig.system.event(EventKind::FenceSignaled, 1, 3, [*at, 1]);
            rig.system.interrupt();
            let named = if dxgk % 2 == 0 && dxgk / 2 % 2 == 1 { vec![*dxgk] } else { vec![] };
            ensure_eq!(
                reports(),
                [Report::Native { node: 1, fences: named }],
                "round {round}, fence {dxgk:#x} at {at:#x}"
            );
        }
        for (_, global, local, _) in fences.iter().filter(|(dxgk, ..)| dxgk / 2 % 2 == 1) {
            ensure_eq!((rig.close(*local), rig.destroy(*global)), (STATUS_SUCCESS, STATUS_SUCCESS));
        }
    }
    Ok(())
}
