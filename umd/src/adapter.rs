//! Finding the GPU and asking what the operating system enabled on it.

use alloc::{sync::Arc, vec::Vec};
use core::{
    ffi::c_void,
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
};

use campanile_hw::{
    private::{AdapterData, MAGIC, Placement},
    registers::{Caps, INTERFACE_VERSION, NODE_COMPUTE},
};
use wddm_ddi::{
    Zeroed,
    kmt::*,
    status::*,
    types::{D3DKMT_HANDLE, LUID},
};

use crate::{
    error::{Error, Result},
    thunks::{Thunks, call, invoke},
};

/// More adapters than any machine has; bounds what one enumeration may ask us to allocate.
const ADAPTERS_MAX: u32 = 256;
/// Feature bit of [`AdapterData`]: native fences.
const FEATURE_NATIVE_FENCE: u32 = 1 << 0;
/// Feature bit of [`AdapterData`]: user-mode submission.
const FEATURE_USER_MODE_SUBMISSION: u32 = 1 << 1;

/// A group of memory segments. [d3dkmthk: D3DKMT_MEMORY_SEGMENT_GROUP]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryGroup {
    /// VRAM.
    Vram,
    /// System memory.
    System,
}

/// Bytes of a group of memory segments, for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoMemory {
    /// Bytes that the process may keep resident.
    pub budget: u64,
    /// Bytes that it keeps resident.
    pub usage: u64,
}

/// The clocks of GPU and processor at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Ticks of the GPU clock, which TIMESTAMP packets write.
    pub gpu: u64,
    /// Ticks of it in a second.
    pub gpu_hz: u64,
    /// Value of the processor's performance counter. [d3dkmdt: DXGK_GPUCLOCKDATA]
    pub processor: u64,
}

/// An opened Campanile GPU. Clones share the handle, which is closed with the last of them.
#[derive(Clone)]
pub struct Adapter {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Handle,
    luid: LUID,
    data: AdapterData,
    hardware_scheduling: bool,
    native_fences: bool,
    teardown: Teardown,
}

/// The number of objects that the operating system refused to destroy. A drop cannot return the error, so it is counted here.
#[derive(Default)]
struct Teardown {
    count: AtomicU32,
    last: AtomicI32,
}

/// An adapter handle, which is closed on drop.
struct Handle {
    thunks: &'static Thunks,
    handle: D3DKMT_HANDLE,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.handle != 0 {
            // The adapter ends here, so no count is left to report this; an adapter handle that the system refuses to close has no GPU
            // resources.
            let _ = call!(self.thunks, D3DKMTCloseAdapter, &mut D3DKMT_CLOSEADAPTER { hAdapter: self.handle });
        }
    }
}

impl Adapter {
    /// Opens the first adapter whose kernel-mode driver is ours, compute-only adapters included.
    ///
    /// # Errors
    /// [`Error::NoAdapter`] if there is none, [`Error::Version`] if the only ones speak another version, [`Error::Status`] if
    /// the enumeration fails. [d3dkmthk: D3DKMTEnumAdapters3]
    pub fn open(thunks: &'static Thunks) -> Result<Self> {
        let mut outcome = Error::NoAdapter;
        for (_closes, luid) in enumerate(thunks)? {
            match Self::open_luid(thunks, luid) {
                Ok(adapter) => return Ok(adapter),
                Err(error @ Error::Version(_)) => outcome = error,
                // An adapter of another driver, or one that is going away.
                Err(_) => {}
            }
        }
        Err(outcome)
    }

    /// Opens the adapter with this LUID.
    ///
    /// # Errors
    /// [`Error::NoAdapter`] if its driver is not ours, [`Error::Version`], or [`Error::Status`]. [d3dkmthk: D3DKMTOpenAdapterFromLuid]
    pub fn open_luid(thunks: &'static Thunks, luid: LUID) -> Result<Self> {
        let mut open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        invoke!(thunks, D3DKMTOpenAdapterFromLuid, &mut open)?;
        if open.hAdapter == 0 {
            return Err(Error::BadAnswer("D3DKMTOpenAdapterFromLuid gave no handle"));
        }
        let handle = Handle { thunks, handle: open.hAdapter };
        let data = driver_data(&handle)?;
        let hardware_scheduling = os_schedules_in_hardware(&handle)?;
        let native_fences = data.features & FEATURE_NATIVE_FENCE != 0 && os_has_native_fences(&handle)?;
        let teardown = Teardown::default();
        Ok(Self { inner: Arc::new(Inner { handle, luid, data, hardware_scheduling, native_fences, teardown }) })
    }

    /// Locally unique identifier of the adapter.
    pub fn luid(&self) -> LUID {
        self.inner.luid
    }

    /// Capabilities of the hardware: its CAPS register.
    pub fn caps(&self) -> Caps {
        Caps::from_bits(self.inner.data.caps)
    }

    /// True if the GPU's accesses to system memory are coherent with the CPU's caches. See
    /// [`Mapping::synchronize`](crate::Mapping::synchronize).
    pub fn is_coherent(&self) -> bool {
        !self.caps().non_coherent()
    }

    /// The placement of rings and command memory: system memory that needs no cache maintenance for the GPU to see the CPU's stores.
    pub(crate) fn shared_placement(&self) -> Placement {
        if self.is_coherent() { Placement::System } else { Placement::SystemUncached }
    }

    /// Bytes of VRAM that allocations can use.
    pub fn vram(&self) -> u64 {
        self.inner.data.vram
    }

    /// Memory of a group that this process may keep resident, and keeps.
    ///
    /// # Errors
    /// [`Error::Status`]. [d3dkmthk: D3DKMTQueryVideoMemoryInfo]
    pub fn video_memory(&self, group: MemoryGroup) -> Result<VideoMemory> {
        let mut args = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
        args.hAdapter = self.handle();
        args.MemorySegmentGroup = match group {
            MemoryGroup::Vram => D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL,
            MemoryGroup::System => D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL,
        };
        invoke!(self.thunks(), D3DKMTQueryVideoMemoryInfo, &mut args)?;
        Ok(VideoMemory { budget: args.Budget, usage: args.CurrentUsage })
    }

    /// Number of the hardware's doorbells. If there are more queues, the ones that submitted last have them.
    pub fn doorbells(&self) -> u32 {
        self.inner.data.doorbells
    }

    /// Frequency of the GPU clock that TIMESTAMP packets write, in hertz.
    pub fn clock_hz(&self) -> u64 {
        self.inner.data.clock_hz
    }

    /// Reads the clocks of GPU and processor back to back. All nodes have one clock.
    ///
    /// # Errors
    /// [`Error::Status`]; [`Error::MissingThunk`] of a Windows that cannot. [d3dkmthk: D3DKMTQueryClockCalibration]
    pub fn clocks(&self) -> Result<Clocks> {
        let mut args = D3DKMT_QUERYCLOCKCALIBRATION::zeroed();
        (args.hAdapter, args.NodeOrdinal) = (self.handle(), NODE_COMPUTE);
        invoke!(self.thunks(), D3DKMTQueryClockCalibration, &mut args)?;
        let data = args.ClockData;
        Ok(Clocks { gpu: data.GpuClockCounter, gpu_hz: data.GpuFrequency, processor: data.CpuClockCounter })
    }

    /// True if the GPU schedules hardware queues of this adapter, without which every submission is a packet of the operating system's.
    /// [d3dkmdt: D3DKMT_WDDM_2_7_CAPS]
    pub fn hardware_scheduling(&self) -> bool {
        self.inner.hardware_scheduling
    }

    /// True if driver and operating system have agreed on native fences. [d3dkmdt: D3DKMT_WDDM_3_1_CAPS]
    pub fn native_fences(&self) -> bool {
        self.inner.native_fences
    }

    /// True if driver and operating system have agreed on user-mode submission, which needs hardware scheduling and native fences.
    pub fn user_mode_submission(&self) -> bool {
        self.hardware_scheduling()
            && self.native_fences()
            && self.inner.data.features & FEATURE_USER_MODE_SUBMISSION != 0
    }

    /// The feature without which user-mode submission is not enabled; `None` if it is, as far as can be known without a queue.
    pub(crate) fn missing_for_user_mode_submission(&self) -> Option<&'static str> {
        let granted = |feature| self.inner.data.features & feature != 0;
        if !self.hardware_scheduling() {
            Some("hardware scheduling is not enabled (HwSchEnabled in D3DKMT_WDDM_2_7_CAPS)")
        } else if !granted(FEATURE_NATIVE_FENCE) {
            Some("the driver was not granted native fences (DXGK_FEATURE_NATIVE_FENCE)")
        } else if !self.native_fences() {
            Some("the operating system does not report native fences (NativeGpuFenceSupported in D3DKMT_WDDM_3_1_CAPS)")
        } else if !self.user_mode_submission() {
            Some("the driver was not granted user-mode submission (DXGK_FEATURE_USER_MODE_SUBMISSION)")
        } else {
            None
        }
    }

    /// Number of objects that the operating system has refused to destroy since the adapter was opened.
    pub fn teardown_failures(&self) -> u32 {
        self.inner.teardown.count.load(Ordering::Relaxed)
    }

    /// Status of the latest of [`Adapter::teardown_failures`].
    pub fn last_teardown_failure(&self) -> Option<NTSTATUS> {
        (self.teardown_failures() != 0).then(|| NTSTATUS(self.inner.teardown.last.load(Ordering::Relaxed)))
    }

    pub(crate) fn thunks(&self) -> &'static Thunks {
        self.inner.handle.thunks
    }

    pub(crate) fn handle(&self) -> D3DKMT_HANDLE {
        self.inner.handle.handle
    }

    /// Counts a failure of the thunk that destroyed an object; `status` is what it returned.
    pub(crate) fn count_teardown(&self, status: NTSTATUS) {
        if let Err(status) = status.ok() {
            self.inner.teardown.last.store(status.0, Ordering::Relaxed);
            self.inner.teardown.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// All adapters with their LUIDs. The listing opens a handle of each, which is closed when the pair is dropped.
fn enumerate(thunks: &'static Thunks) -> Result<Vec<(Handle, LUID)>> {
    let mut list = D3DKMT_ENUMADAPTERS3 {
        Filter: D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true),
        NumAdapters: 0,
        pAdapters: core::ptr::null_mut(),
    };
    invoke!(thunks, D3DKMTEnumAdapters3, &mut list)?;
    if list.NumAdapters == 0 {
        return Ok(Vec::new());
    }
    // A few elements more, because adapters may arrive between the two calls.
    let capacity = list.NumAdapters.saturating_add(4).min(ADAPTERS_MAX);
    let mut adapters = alloc::vec![D3DKMT_ADAPTERINFO::zeroed(); capacity as usize];
    list.NumAdapters = capacity;
    list.pAdapters = adapters.as_mut_ptr();
    invoke!(thunks, D3DKMTEnumAdapters3, &mut list)?;
    adapters.truncate(list.NumAdapters as usize);
    Ok(adapters.iter().map(|info| (Handle { thunks, handle: info.hAdapter }, info.AdapterLuid)).collect())
}

/// What our kernel-mode driver says about the adapter. [d3dkmthk: KMTQUERYADAPTERINFOTYPE]
fn driver_data(adapter: &Handle) -> Result<AdapterData> {
    let mut bytes = [0u8; AdapterData::SIZE];
    match query(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE, &mut bytes) {
        Ok(()) => {}
        // A driver without private data, or with another size of it: not ours.
        Err(Error::Status(STATUS_INVALID_PARAMETER | STATUS_NOT_SUPPORTED | STATUS_BUFFER_TOO_SMALL, _)) => {
            return Err(Error::NoAdapter);
        }
        Err(error) => return Err(error),
    }
    let data = AdapterData::from_bytes(&bytes);
    if data.magic != MAGIC {
        return Err(Error::NoAdapter);
    }
    if data.version != INTERFACE_VERSION {
        return Err(Error::Version(data.version));
    }
    Ok(data)
}

/// True if the operating system lets user mode create native fences here.
fn os_has_native_fences(adapter: &Handle) -> Result<bool> {
    let caps = version_caps(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_3_1_CAPS)?;
    Ok(caps.is_some_and(|bits| D3DKMT_WDDM_3_1_CAPS::from_bits(bits).NativeGpuFenceSupported()))
}

/// True if the operating system lets the GPU schedule hardware queues here. What D3DKMTCreateHwContext answers where it does not is in no page.
fn os_schedules_in_hardware(adapter: &Handle) -> Result<bool> {
    let caps = version_caps(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_WDDM_2_7_CAPS)?;
    Ok(caps.is_some_and(|bits| D3DKMT_WDDM_2_7_CAPS::from_bits(bits).HwSchEnabled()))
}

/// The capabilities that came with a version of WDDM; `None` from an operating system that does not know the query.
fn version_caps(adapter: &Handle, kind: KMTQUERYADAPTERINFOTYPE) -> Result<Option<u32>> {
    let mut caps = [0u8; 4];
    match query(adapter, kind, &mut caps) {
        Ok(()) => Ok(Some(u32::from_le_bytes(caps))),
        Err(Error::Status(STATUS_INVALID_PARAMETER | STATUS_NOT_SUPPORTED, _)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn query<const N: usize>(adapter: &Handle, kind: KMTQUERYADAPTERINFOTYPE, answer: &mut [u8; N]) -> Result<()> {
    // Some answers are read as whole words on the other side.
    #[repr(align(8))]
    struct Aligned<const N: usize>([u8; N]);
    let mut aligned = Aligned([0; N]);
    let mut args = D3DKMT_QUERYADAPTERINFO {
        hAdapter: adapter.handle,
        Type: kind,
        pPrivateDriverData: aligned.0.as_mut_ptr().cast::<c_void>(),
        PrivateDriverDataSize: N as u32,
    };
    invoke!(adapter.thunks, D3DKMTQueryAdapterInfo, &mut args)?;
    *answer = aligned.0;
    Ok(())
}
