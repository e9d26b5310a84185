//! Native fences: created once, opened in each process, signalled and monitored by the processor.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::fence::{self, Barrier, FenceWord};
use campanile_hw::private::{FenceData, MAGIC};
use campanile_hw::registers::Command;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::HANDLE;

use crate::adapter::slots;
use crate::adapter::{Adapter, Process};
use crate::fence::object::{Addresses, FenceOpening, Mapped, NativeFence, OpenFence};
use crate::fence::system;
use crate::fence_index::Entry;
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::irql::{Device, Dispatch, Passive};
use crate::lock::SpinLock;
use crate::mmio;
use crate::pool::{PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused};

/// Value of a fence that satisfies every wait from now on.
const ALWAYS: u64 = u64::MAX;

/// Bytes of [`FenceData`] that its fields take.
const FENCE_DATA_FIELDS: usize = 8;

/// The private data, if they are this driver's. What others pass stays theirs.
fn data_of(bytes: &[u8; FenceData::SIZE]) -> Option<FenceData> {
    Some(FenceData::from_bytes(bytes)).filter(|data| data.magic == MAGIC)
}

/// DxgkDdiCreateNativeFence.
///
/// # Errors
/// STATUS_NOT_SUPPORTED if native fences, or those of the type, are not claimed, and for those of one GPU where several are linked; STATUS_INVALID_PARAMETER without the addresses in the
/// paging process that the capabilities ask for.
pub(crate) fn create(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &mut DXGKARG_CREATENATIVEFENCE,
) -> Result<(), Refused> {
    let claimed = match args.Type {
        D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT => gpu.claims.native_fence,
        D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU => {
            gpu.claims.intra_gpu_fences && adapter.engines().count() == 1
        }
        _ => false,
    };
    if !claimed {
        return Err(refused(Reason::NotOffered));
    }
    let system = match gpu.maps_fences() {
        true => {
            let addresses = Addresses::new(args.CurrentValueSystemProcessGpuVa, args.MonitoredValueSystemProcessGpuVa);
            Some(addresses.ok_or(refused(Reason::Address))?)
        }
        false => None,
    };
    let fence = NativeFence {
        dxgk: args.hGlobalNativeFence.addr(),
        purpose: data_of(&args.pPrivateDriverData).map_or(0, |data| data.purpose),
        always_signaled: AtomicBool::new(false),
        system,
        places: SpinLock::new(PoolVec::new(Tag::FENCE)),
    };
    let dxgk = fence.dxgk as u64;
    let handle = adapter.objects.insert(irql, adapter.handle(), fence)?;
    gpu.note(Component::Fence, &Event::FenceCreated { fence: handle.into_bits(), system: dxgk });
    args.hGlobalNativeFence = handle.raw();
    Ok(())
}

/// DxgkDdiOpenNativeFence.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for addresses that are not aligned or outside the address space; STATUS_INSUFFICIENT_RESOURCES if the table of
/// fences cannot grow.
pub(crate) fn open(irql: &Passive, adapter: &Adapter, args: &mut DXGKARG_OPENNATIVEFENCE) -> Result<(), Refused> {
    let fence_handle = Handle::of(args.hGlobalNativeFence);
    let fence = adapter.objects.get::<NativeFence>(fence_handle)?;
    let (device, _) = adapter.process_of(args.hDevice)?;
    let at = Addresses::new(args.CurrentValueGpuVa, args.MonitoredValueGpuVa).ok_or(refused(Reason::Address))?;
    let Addresses { current, monitored } = at;
    let open = OpenFence { fence: fence_handle, process: device.process, at, mapped: Mapped::default() };
    let handle = adapter.objects.insert(irql, adapter.handle(), open)?;
    let entry = Entry { process: device.process.into_bits(), current, monitored, open: handle, dxgk: fence.dxgk };
    let place = FenceOpening { open: handle, process: device.process, current };
    let added = fence.places.lock(irql).push(place).map_err(Refused::from);
    if let Err(status) = added {
        drop(adapter.objects.remove::<OpenFence>(irql, handle));
        return Err(status);
    }
    let open = adapter.objects.get::<OpenFence>(handle)?;
    // Whichever engine signals it reports it.
    let known = adapter.engines().try_for_each(|gpu| {
        gpu.fences.insert(irql, &gpu.dxgk, entry)?;
        system::opened(irql, adapter, gpu, fence, open)
    });
    if let Err(status) = known {
        close(irql, adapter, handle)?;
        return Err(status);
    }
    let process = device.process.into_bits();
    adapter.trace.note(Component::Fence, &Event::FenceOpened { open: handle.into_bits(), process, current });
    if let Some(data) = data_of(&args.pPrivateDriverData) {
        let answer = FenceData { purpose: fence.purpose, ..data }.to_bytes();
        // What lies behind the fields stays as user mode wrote it.
        let places = args.pPrivateDriverData.iter_mut().zip(answer);
        places.take(FENCE_DATA_FIELDS).for_each(|(place, byte)| *place = byte);
    }
    args.hLocalNativeFence = handle.raw();
    Ok(())
}

/// DxgkDdiCloseNativeFence, also when devices were stopped meanwhile.
///
/// # Errors
/// STATUS_INVALID_HANDLE
pub(crate) fn close(irql: &Passive, adapter: &Adapter, handle: Handle) -> Result<(), Refused> {
    let open = adapter.objects.get::<OpenFence>(handle)?;
    let mut forgotten = None;
    let mut forget = || {
        let fence = adapter.objects.get::<NativeFence>(open.fence);
        *forgotten.get_or_insert_with(|| fence.is_ok_and(|fence| fence.forget(irql, handle, open)))
    };
    for gpu in adapter.engines().filter(|gpu| gpu.is_running()) {
        gpu.fences.remove(irql, &gpu.dxgk, open.process, open.at.current, handle);
        system::closing(irql, gpu, open, &mut forget);
    }
    forget();
    adapter.objects.remove::<OpenFence>(irql, handle).map(drop)?;
    adapter.trace.note(Component::Fence, &Event::FenceClosed { open: handle.into_bits() });
    Ok(())
}

/// DxgkDdiDestroyNativeFence.
///
/// # Errors
/// STATUS_INVALID_HANDLE
pub(crate) fn destroy(irql: &Passive, adapter: &Adapter, handle: Handle) -> Result<(), Refused> {
    let fence = adapter.objects.get::<NativeFence>(handle)?;
    // Closed everywhere by now. Were it not, an interrupt could report a fence that does not exist any more.
    loop {
        let place = fence.places.lock(irql).swap_remove(0);
        let Some(FenceOpening { open, .. }) = place else { break };
        adapter.trace.passed_over(Component::Fence, Reason::FenceStillOpen, open.into_bits());
        // Refused for one that is being closed right now.
        let _ = close(irql, adapter, open);
    }
    adapter.objects.remove::<NativeFence>(irql, handle).map(drop)?;
    adapter.trace.note(Component::Fence, &Event::FenceDestroyed { fence: handle.into_bits() });
    Ok(())
}

impl NativeFence {
    /// Takes an open instance off the list; whether its process has the fence open at this address once more.
    fn forget(&self, irql: &Passive, handle: Handle, open: &OpenFence) -> bool {
        let mut places = self.places.lock(irql);
        if let Some(index) = places.iter().position(|place| place.open == handle) {
            places.swap_remove(index);
        }
        places.iter().any(|place| place.process == open.process && place.current == open.at.current)
    }

    /// Makes the hardware look at the queues that wait for this fence, in every process.
    fn announce(&self, irql: &Dispatch, adapter: &Adapter, gpu: &Gpu) {
        if let Some((system, root)) = self.system.zip(gpu.system_root()) {
            if gpu.cmp.run(irql, Command::FenceChanged, &[root.into_bits(), system.current]).is_err() {
                let _ = gpu.cmp.run(irql, Command::RescanWaits, &[]);
            }
            return;
        }
        let mut places = self.places.lock(irql);
        let (places, irql) = places.parts();
        for (index, place) in places.iter().enumerate() {
            let seen = |earlier: &FenceOpening| earlier.process == place.process && earlier.current == place.current;
            if places.iter().take(index).any(seen) {
                continue;
            }
            // A process without a page table has no queue that could wait.
            let process = adapter.objects.get::<Process>(place.process).ok();
            let Some(process) = process else { continue };
            let found = || Some([process.root(gpu.dxgk.engine())?.into_bits(), place.current]);
            if gpu.cmp.run_looked_up(irql, Command::FenceChanged, found).is_err() {
                // The address may be unmapped by now. Looking at every waiting queue covers whatever is left.
                let _ = gpu.cmp.run(irql, Command::RescanWaits, &[]);
            }
        }
    }
}

/// A fence value at a kernel address that is valid during one call.
struct Word(NonNull<AtomicU64>);

impl Word {
    fn at(address: *mut core::ffi::c_void) -> Option<Self> {
        NonNull::new(address.cast::<AtomicU64>()).filter(|word| word.is_aligned()).map(Self)
    }
}

impl FenceWord for Word {
    fn load(&self) -> u64 {
        // SAFETY: aligned, and mapped by the operating system for the length of the call.
        unsafe { self.0.as_ref() }.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        // SAFETY: as for load; the kernel mapping is writable.
        unsafe { self.0.as_ref() }.store(value, Ordering::Release);
    }
}

struct Full;

impl Barrier for Full {
    fn full(&self) {
        mmio::full_barrier();
    }
}

/// Arrays of one of the update DDIs: (fence, value, address of the value).
fn updates(
    count: u32,
    fences: *mut HANDLE,
    values: *mut u64,
    addresses: *mut *mut core::ffi::c_void,
) -> impl Iterator<Item = (Handle, u64, *mut core::ffi::c_void)> {
    let present = !fences.is_null() && !values.is_null() && !addresses.is_null();
    let count = if present { count as usize } else { 0 };
    (0..count).map(move |index| {
        // SAFETY: each array has `count` elements for the length of the call.
        let fence = unsafe { *fences.wrapping_add(index) };
        // SAFETY: as above.
        let value = unsafe { *values.wrapping_add(index) };
        // SAFETY: as above.
        let address = unsafe { *addresses.wrapping_add(index) };
        (Handle::of(fence), value, address)
    })
}

/// DxgkDdiUpdateMonitoredValues. Cannot fail: what does not name a fence is ignored and counted.
///
/// The device reads the monitored value after it wrote the current one with a full barrier in between; here it is the other way
/// round. So a current value that is read after this returned was either written by a device that saw the new monitored value, or
/// is the one that the caller reads.
pub(crate) fn update_monitored(_irql: &Device, args: &DXGKARG_UPDATEMONITOREDVALUES) {
    let arrays = updates(args.NumFences, args.NativeFenceArray, args.UpdatedValueArray, args.MonitoredValueKernelCpuVa);
    for (fence_handle, value, address) in arrays {
        let Ok((adapter, _fence)) = slots::object::<NativeFence>(fence_handle.raw()) else { continue };
        let Some(monitored) = Word::at(address) else {
            adapter.trace.passed_over(Component::Fence, Reason::FenceAddress, fence_handle.into_bits());
            continue;
        };
        // The current value is sampled by the caller; here only the write and the barrier count.
        fence::monitor(&monitored, &monitored, &Full, value);
        adapter.trace.note(Component::Fence, &Event::MonitoredValue { fence: fence_handle.into_bits(), value });
    }
}

/// DxgkDdiUpdateCurrentValuesFromCpu. Cannot fail: what does not name a fence is ignored and counted.
pub(crate) fn update_current(irql: &Dispatch, args: &DXGKARG_UPDATECURRENTVALUESFROMCPU) {
    let arrays = updates(args.NumFences, args.NativeFenceArray, args.UpdatedValueArray, args.CurrentValueKernelCpuVa);
    for (fence_handle, value, address) in arrays {
        let Ok((adapter, fence)) = slots::object::<NativeFence>(fence_handle.raw()) else { continue };
        if args.Flags.AlwaysSignaled() {
            fence.always_signaled.store(true, Ordering::Release);
        }
        let always = fence.always_signaled.load(Ordering::Acquire);
        if !args.Flags.NotificationOnly() || always {
            let Some(current) = Word::at(address) else {
                adapter.trace.passed_over(Component::Fence, Reason::FenceAddress, fence_handle.into_bits());
                continue;
            };
            Full.full();
            current.store(if always { ALWAYS } else { value });
        }
        Full.full();
        adapter.trace.note(Component::Fence, &Event::CurrentValue { fence: fence_handle.into_bits(), value });
        for gpu in adapter.engines().filter(|gpu| gpu.is_running()) {
            fence.announce(irql, adapter, gpu);
        }
    }
}
