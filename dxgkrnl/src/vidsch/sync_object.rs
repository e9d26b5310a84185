//! Fences as the system sees them: a value in shared memory and the CPU waits on it.
//!
//! Two kinds share everything but their end towards the driver. A *native* fence has a MonitoredValue that the driver
//! compares with, so that only signals somebody waits for interrupt. A *monitored* fence has none: its interrupt says
//! that some fence was written, and everyone who waits is looked at.
//!
//! The race between a CPU that starts to wait and a GPU that signals is settled in [`Watch::settle`]: write
//! MonitoredValue (through the driver, at device level), then read CurrentValue again. [native-gpu-fence-objects:
//! synchronization between GPU and CPU]

use std::sync::{Arc, Mutex, MutexGuard};

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DGPU_VIRTUAL_ADDRESS, HANDLE};

use crate::adapter::Adapter;
use crate::device::Device;
use crate::machine::lock;
use crate::miniport::KmdHandle;
use crate::verifier::Bugcheck;

use super::VidSch;
use super::report::subcode;
use super::storage::{GpuAddresses, Slot, Word};
use super::wait::Wait;
use super::watch::{Values, Watch};

/// The driver's handles of a native fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NativeHandles {
    /// The driver's handle of the fence.
    pub(crate) global: KmdHandle,
    /// The driver's handle of the fence in its process.
    pub(crate) local: KmdHandle,
}

struct Waits {
    watch: Watch,
    /// Why nobody can wait any more.
    ended: Option<NTSTATUS>,
    /// Every condition is true for good: the device is lost.
    always_signaled: bool,
    /// The scheduler looks at the fence when a report names none.
    watched: bool,
}

impl Values for SyncObject {
    fn current(&self) -> u64 {
        self.current.load()
    }

    fn write_monitored(&self, value: u64) {
        self.update_monitored(value);
    }
}

/// A fence.
pub(crate) struct SyncObject {
    adapter: Arc<Adapter>,
    /// Identity of the device it was made on.
    device: u64,
    /// Our handle; the driver gets that of a native fence.
    system: KmdHandle,
    native: Option<NativeHandles>,
    /// The fence reports the progress of a queue and goes with it.
    of_queue: bool,
    current: Word,
    monitored: Word,
    user_address: usize,
    gpu: GpuAddresses,
    /// Lock order: below `waits`.
    slot: Mutex<Option<Slot>>,
    /// Lock order: `waits`, then the adapter's interrupt lock, then leaves. Never taken at device level.
    waits: Mutex<Waits>,
    /// Held by whoever destroys the fence, so that a second one returns when it is gone. Lock order: before `waits`.
    teardown: Mutex<()>,
}

impl SyncObject {
    pub(super) fn new(
        device: &Arc<Device>,
        system: KmdHandle,
        slot: Slot,
        native: Option<NativeHandles>,
        of_queue: bool,
    ) -> Arc<Self> {
        let fence = Arc::new(Self {
            adapter: Arc::clone(&device.adapter),
            device: device.id(),
            system,
            native,
            of_queue,
            current: slot.current(),
            monitored: slot.monitored(),
            user_address: slot.user_address(),
            gpu: slot.process_addresses(),
            slot: Mutex::new(Some(slot)),
            waits: Mutex::new(Waits { watch: Watch::new(), ended: None, always_signaled: false, watched: false }),
            teardown: Mutex::new(()),
        });
        fence.sch().fences.publish(system, &fence);
        fence
    }

    /// The adapter.
    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Identity of the device it was made on.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// Whether the driver compares with a MonitoredValue.
    pub(crate) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// Whether it goes with a queue and cannot be destroyed by itself.
    pub(crate) fn is_of_queue(&self) -> bool {
        self.of_queue
    }

    /// CurrentValue.
    pub(crate) fn current(&self) -> u64 {
        self.current.load()
    }

    /// MonitoredValue as the driver was told.
    pub(crate) fn monitored(&self) -> u64 {
        self.lock_waits().watch.monitored()
    }

    /// Conditions that are waited for.
    pub(crate) fn waiters(&self) -> usize {
        self.lock_waits().watch.list.len()
    }

    /// Where user mode reads CurrentValue.
    pub(crate) fn user_address(&self) -> usize {
        self.user_address
    }

    /// Where the GPU reads and writes CurrentValue in the process.
    pub(crate) fn gpu_address(&self) -> D3DGPU_VIRTUAL_ADDRESS {
        self.gpu.current
    }

    /// Where the GPU reads MonitoredValue in the process; 0 for a monitored fence.
    pub(crate) fn monitored_gpu_address(&self) -> D3DGPU_VIRTUAL_ADDRESS {
        if self.native.is_some() { self.gpu.monitored } else { 0 }
    }

    /// Kernel address of CurrentValue.
    pub(crate) fn kernel_address(&self) -> *mut u64 {
        self.current.address()
    }

    fn lock_waits(&self) -> MutexGuard<'_, Waits> {
        lock(&self.waits)
    }

    fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }

    /// Whether the fence has reached `value`.
    pub(crate) fn is_reached(&self, value: u64) -> bool {
        self.current() >= value || self.lock_waits().always_signaled
    }

    /// `wait` has one condition on this fence: that it reaches `value`.
    ///
    /// # Errors
    /// The fence is closed, or its device lost.
    pub(super) fn add_wait(self: &Arc<Self>, value: u64, wait: &Arc<Wait>) -> Result<(), NTSTATUS> {
        let mut waits = self.lock_waits();
        if let Some(status) = waits.ended {
            return Err(status);
        }
        if self.current() >= value {
            wait.satisfy();
            return Ok(());
        }
        if !waits.watched {
            waits.watched = true;
            self.sch().watch(self);
        }
        waits.watch.list.add(value, Arc::clone(wait));
        self.settle(&mut waits);
        Ok(())
    }

    /// `wait` is over; it has no conditions here any more.
    pub(super) fn remove_wait(&self, wait: &Arc<Wait>) {
        let mut waits = self.lock_waits();
        waits.watch.list.remove(wait);
        self.settle(&mut waits);
    }

    /// Forgets waits that another fence ended.
    pub(super) fn remove_over(&self) {
        let mut waits = self.lock_waits();
        waits.watch.list.remove_over();
        self.settle(&mut waits);
    }

    /// CurrentValue may have changed: wakes those whose value is reached.
    pub(super) fn evaluate(&self) {
        let mut waits = self.lock_waits();
        self.settle(&mut waits);
    }

    fn settle(&self, waits: &mut MutexGuard<'_, Waits>) {
        waits.watch.settle(self);
        if waits.watched && waits.watch.list.len() == 0 {
            waits.watched = false;
            self.sch().unwatch(self);
        }
    }

    fn update_monitored(&self, value: u64) {
        let Some(native) = self.native else { return };
        let (mut handle, mut value): (HANDLE, u64) = (native.global.raw(), value);
        let mut address: *mut core::ffi::c_void = self.monitored.address().cast();
        let mut args = DXGKARG_UPDATEMONITOREDVALUES::zeroed();
        args.NativeFenceArray = &raw mut handle;
        args.UpdatedValueArray = &raw mut value;
        args.MonitoredValueKernelCpuVa = &raw mut address;
        args.NumFences = 1;
        let status = self.adapter.at_device_level(|| self.adapter.miniport.update_monitored_values(&args));
        self.sch().must_succeed(status, || {
            Bugcheck::scheduler(
                subcode::UPDATE_MONITORED_FAILED,
                status.0 as u32 as u64,
                0,
                0,
                format!("DxgkDdiUpdateMonitoredValues failed with {status}"),
            )
        });
    }

    /// Writes CurrentValue from the CPU, tells the GPU, and wakes those whose value is reached.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if the value would go back and `rewind` is not set; why the fence is ended.
    pub(crate) fn signal(&self, value: u64, rewind: bool) -> Result<(), NTSTATUS> {
        let mut waits = self.lock_waits();
        if let Some(status) = waits.ended {
            return Err(status);
        }
        if value < self.current() && !rewind {
            return Err(STATUS_INVALID_PARAMETER);
        }
        self.write_current(value, DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new());
        self.settle(&mut waits);
        Ok(())
    }

    fn write_current(&self, value: u64, flags: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS) {
        let Some(native) = self.native else {
            self.current.store(value);
            return;
        };
        let (mut handle, mut value): (HANDLE, u64) = (native.global.raw(), value);
        let mut address: *mut core::ffi::c_void = self.current.address().cast();
        let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
        args.NativeFenceArray = &raw mut handle;
        args.UpdatedValueArray = &raw mut value;
        args.CurrentValueKernelCpuVa = &raw mut address;
        args.NumFences = 1;
        args.Flags = flags;
        let status = self.adapter.miniport.update_current_values_from_cpu(&args);
        self.sch().must_succeed(status, || {
            Bugcheck::scheduler(
                subcode::UPDATE_CURRENT_FAILED,
                status.0 as u32 as u64,
                0,
                0,
                format!("DxgkDdiUpdateCurrentValuesFromCpu failed with {status}"),
            )
        });
    }

    /// Nobody can wait any more; who does is released with `status`.
    pub(super) fn end(&self, status: NTSTATUS) {
        let mut waits = self.lock_waits();
        waits.ended.get_or_insert(status);
        for wait in waits.watch.list.take_all() {
            wait.finish(status);
        }
        self.settle(&mut waits);
    }

    /// The device is lost: GPU waits on the fence fall through from now on.
    pub(super) fn signal_for_good(&self) {
        let mut waits = self.lock_waits();
        if !waits.always_signaled && lock(&self.slot).is_some() {
            waits.always_signaled = true;
            self.write_current(u64::MAX, DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new().with_AlwaysSignaled(true));
        }
    }

    /// Closes and destroys the fence; whoever waits for it is released with STATUS_CANCELLED. Once is enough.
    pub(crate) fn destroy(&self) {
        let _teardown = lock(&self.teardown);
        self.end(STATUS_CANCELLED);
        let taken = {
            // Whoever still writes through the driver's handle holds this lock.
            let _waits = self.lock_waits();
            lock(&self.slot).take()
        };
        let Some(slot) = taken else { return };
        if let Some(native) = self.native {
            super::native_fence::close(self.sch(), &self.adapter, native);
        }
        // A report of the handle from now on is a broken contract.
        self.sch().fences.retire(self.system);
        slot.release();
    }
}
