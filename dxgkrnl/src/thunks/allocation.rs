//! Thunks that create and destroy allocations, in both forms.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nt::page::PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::allocation_handles::{PRIVATE_MAX, forget, register};
use super::call::{enter, enter_read_only};
use super::memory::{LIST_MAX, allocations, has_duplicates, read_handles};
use super::{allocation_handles, power, user};
use crate::account::Upkeep;
use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::vidmm::{Allocation, AllocationRequest, Backing, Resource, ResourceData, VidMm};
use crate::vidsch::Device;

/// The time that a synchronous destruction waits for queues that still use the allocation.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(2);

/// ExistingSection is refused: there are no section objects here, and the GPU reaches the machine's memory only, in which no file lies.
fn check_create_arguments(args: &D3DKMT_CREATEALLOCATION) -> Result<(), Failure> {
    let flags = args.Flags;
    let hints = D3DKMT_CREATEALLOCATIONFLAGS::new()
        .with_CreateResource(true)
        .with_CreateShared(true)
        .with_NtSecuritySharing(true)
        .with_NonSecure(true)
        .with_ReadOnly(true)
        .with_CreateWriteCombined(true)
        .with_CreateCached(true)
        .with_ExistingSysMem(true)
        .with_StandardAllocation(true)
        .with_Zeroed(true)
        .with_AllowNotZeroed(true)
        .with_NoKmdAccess(true)
        .with_NoImplicitSynchronization(true)
        .into_bits();
    let elsewhere = D3DKMT_CREATEALLOCATIONFLAGS::new()
        .with_CreateProtected(true)
        .with_RestrictSharedAccess(true)
        .with_SwapChainBackBuffer(true)
        .with_CrossAdapter(true)
        .with_OpenCrossAdapter(true)
        .with_PartialSharedCreation(true)
        .with_WriteWatch(true)
        .with_ExistingSection(true)
        .with_PhysicallyContiguous(true)
        .with_SharedDisplayable(true)
        .into_bits();
    let bits = flags.into_bits();
    // A standard allocation is memory that exists, the other types being the system's.
    let of_nothing = flags.StandardAllocation() && !flags.ExistingSysMem();
    let both_cachings = flags.CreateWriteCombined() && flags.CreateCached();
    // Resources are shared, by handles of one kind.
    let unshared =
        flags.CreateShared() && !flags.CreateResource() || flags.NtSecuritySharing() && !flags.CreateShared();
    if bits & !(hints | elsewhere) != 0 || both_cachings || unshared || of_nothing || args.hGlobalShare != 0 {
        let why = format!(
            "Flags {bits:#x} or hGlobalShare {:#x}: unknown flags, two kinds of caching, sharing without a resource, or StandardAllocation without ExistingSysMem",
            args.hGlobalShare
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    if bits & elsewhere != 0 || args.hResource != 0 {
        let why =
            format!("Flags has {:#x}, or hResource is {:#x}: neither is supported", bits & elsewhere, args.hResource);
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    if args.NumAllocations == 0 || args.NumAllocations > LIST_MAX || args.PrivateDriverDataSize > PRIVATE_MAX {
        let (count, size) = (args.NumAllocations, args.PrivateDriverDataSize);
        let why = format!(
            "NumAllocations is {count}, and expected are 1 to {LIST_MAX}, or PrivateDriverDataSize {size:#x} is more than {PRIVATE_MAX:#x}"
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    Ok(())
}

/// The description of an allocation, in either form.
trait Form: Copy + Zeroed {
    /// Memory that exists already.
    fn existing(&self) -> *mut c_void;
    fn private(&self) -> (*mut c_void, u32);
    /// Priority that overrides the driver's.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for flags that are unknown, or about displays.
    fn priority(&self) -> Result<Option<u32>, Failure>;
    fn set_handle(&mut self, handle: D3DKMT_HANDLE);
}

impl Form for D3DDDI_ALLOCATIONINFO {
    fn existing(&self) -> *mut c_void {
        self.pSystemMem
    }

    fn private(&self) -> (*mut c_void, u32) {
        (self.pPrivateDriverData, self.PrivateDriverDataSize)
    }

    fn priority(&self) -> Result<Option<u32>, Failure> {
        let displays =
            || refused(STATUS_INVALID_PARAMETER, "Flags of an allocation is not 0, and the adapter has no display");
        if self.Flags.into_bits() == 0 { Ok(None) } else { Err(displays()) }
    }

    fn set_handle(&mut self, handle: D3DKMT_HANDLE) {
        self.hAllocation = handle;
    }
}

impl Form for D3DDDI_ALLOCATIONINFO2 {
    fn existing(&self) -> *mut c_void {
        // SAFETY: both arms of the union are pointers.
        unsafe { self.u.pSystemMem }
    }

    fn private(&self) -> (*mut c_void, u32) {
        (self.pPrivateDriverData, self.PrivateDriverDataSize)
    }

    fn priority(&self) -> Result<Option<u32>, Failure> {
        if self.Flags.with_OverridePriority(false).into_bits() != 0 {
            return Err(refused(STATUS_INVALID_PARAMETER, "Flags of an allocation has more than OverridePriority"));
        }
        // SAFETY: both arms of the union are numbers, and the whole union was read.
        let priority = unsafe { self.u1.Priority };
        match (self.Flags.OverridePriority(), priority) {
            (false, _) => Ok(None),
            (true, 0) => Err(refused(STATUS_INVALID_PARAMETER, "Flags.OverridePriority is set, and Priority is 0")),
            (true, priority) => Ok(Some(priority)),
        }
    }

    fn set_handle(&mut self, handle: D3DKMT_HANDLE) {
        (self.hAllocation, self.GpuVirtualAddress) = (handle, 0);
    }
}

/// Private data of allocations, copied in, and where it came from.
struct Described<F> {
    infos: Vec<F>,
    at: *mut F,
    data: Vec<Vec<u8>>,
    before: Vec<Vec<u8>>,
    priorities: Vec<Option<u32>>,
    described_by_driver: bool,
}

impl<F: Form> Described<F> {
    fn read(at: *mut F, count: u32, flags: D3DKMT_CREATEALLOCATIONFLAGS) -> Result<Self, Failure> {
        let (mut infos, mut data, mut priorities) = (Vec::new(), Vec::new(), Vec::new());
        for place in 0..count as usize {
            let info: F = user::read(at.wrapping_add(place))?;
            let (private, size) = info.private();
            if size > PRIVATE_MAX || info.existing().is_null() == flags.ExistingSysMem() {
                let why = format!(
                    "pAllocationInfo[{place}]: PrivateDriverDataSize {size:#x} is more than {PRIVATE_MAX:#x}, or pSystemMem is not there exactly with Flags.ExistingSysMem"
                );
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            priorities.push(info.priority()?);
            // A standard allocation is described by the driver.
            let size = if flags.StandardAllocation() { 0 } else { size };
            data.push(user::read_array(private.cast_const().cast(), size)?);
            infos.push(info);
        }
        Ok(Self { infos, at, before: data.clone(), data, priorities, described_by_driver: false })
    }

    /// Addresses of memory that exists, of all allocations or of none.
    fn existing(&self) -> impl Iterator<Item = usize> {
        self.infos.iter().map(Form::existing).filter(|at| !at.is_null()).map(<*mut c_void>::addr)
    }

    /// Gives the allocations the priorities that override the driver's.
    fn set_priorities(&self, vidmm: &VidMm, made: &[Arc<Allocation>]) {
        for (allocation, priority) in made.iter().zip(&self.priorities) {
            priority.iter().for_each(|priority| vidmm.set_priority(allocation, *priority));
        }
    }

    /// The driver has described the allocations itself: nothing of that is user mode's.
    fn is_described_by(&mut self, data: Vec<u8>) {
        self.data = vec![data];
        self.described_by_driver = true;
    }

    /// Gives user mode its handles, and what the driver wrote into the private data.
    fn give_back(&mut self, handles: &[D3DKMT_HANDLE]) -> Result<(), Failure> {
        for (place, (info, handle)) in self.infos.iter_mut().zip(handles).enumerate() {
            info.set_handle(*handle);
            user::write(self.at.wrapping_add(place), info)?;
        }
        for (info, (data, before)) in self.infos.iter().zip(self.data.iter().zip(&self.before)) {
            if data != before && !self.described_by_driver {
                user::write_array(info.private().0.cast(), data)?;
            }
        }
        Ok(())
    }
}

/// [d3dkmthk: D3DKMTCreateAllocation2]
pub(super) unsafe extern "win64" fn create_allocation2(args: *mut D3DKMT_CREATEALLOCATION) -> NTSTATUS {
    enter("D3DKMTCreateAllocation2", args, |process, args| {
        // SAFETY: both arms of the union are pointers; this thunk takes the second form.
        let at = unsafe { args.u1.pAllocationInfo2 };
        create(process, args, at)
    })
}

/// As [`create_allocation2`], with descriptions of the older form. [d3dkmthk: D3DKMTCreateAllocation]
pub(super) unsafe extern "win64" fn create_allocation(args: *mut D3DKMT_CREATEALLOCATION) -> NTSTATUS {
    enter("D3DKMTCreateAllocation", args, |process, args| {
        // SAFETY: both arms of the union are pointers; this thunk takes the first form.
        let at = unsafe { args.u1.pAllocationInfo };
        create(process, args, at)
    })
}

/// Private data of the resource, and where they came from; NULL for the driver's own.
struct Whole {
    data: Vec<u8>,
    before: Vec<u8>,
    at: *mut u8,
}

impl Whole {
    fn read(args: &D3DKMT_CREATEALLOCATION) -> Result<Self, Failure> {
        // SAFETY: both arms of the union are pointers; a standard allocation has no private data, and none is read.
        let at: *mut u8 = unsafe { args.u.pPrivateDriverData }.cast();
        let data: Vec<u8> = user::read_array(at.cast_const(), args.PrivateDriverDataSize)?;
        Ok(Self { before: data.clone(), data, at })
    }

    fn of_driver(data: Vec<u8>) -> Self {
        Self { before: Vec::new(), data, at: core::ptr::null_mut() }
    }

    /// Gives user mode what the driver wrote into its data.
    fn give_back(&self) -> Result<(), Failure> {
        if self.at.is_null() || self.data == self.before { Ok(()) } else { user::write_array(self.at, &self.data) }
    }
}

/// What of the arguments says where the memory comes from. [d3dkmthk: D3DKMT_CREATESTANDARDALLOCATION]
///
/// # Errors
/// STATUS_INVALID_PARAMETER unless a standard allocation is a single one, of whole pages and without private data of the resource; STATUS_NOT_SUPPORTED for the internal
/// backing store, about which no page says more than its name.
fn read_backing(args: &D3DKMT_CREATEALLOCATION) -> Result<Backing, Failure> {
    use D3DKMT_STANDARDALLOCATIONTYPE as Type;
    if !args.Flags.StandardAllocation() {
        return Ok(if args.Flags.ExistingSysMem() { Backing::Program } else { Backing::New });
    }
    if args.NumAllocations != 1 || args.PrivateDriverDataSize != 0 {
        let why = "NumAllocations is not 1 or PrivateDriverDataSize not 0 for a standard allocation";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    // SAFETY: both arms of the union are pointers; with StandardAllocation it is a description.
    let standard: D3DKMT_CREATESTANDARDALLOCATION = user::read(unsafe { args.u.pStandardAllocation })?;
    let size = standard.ExistingHeapData.Size as u64;
    let flags = standard.Flags.into_bits();
    let (status, why) = match standard.Type {
        _ if flags != 0 => {
            (STATUS_INVALID_PARAMETER, format!("Flags of pStandardAllocation is {flags:#x}, and expected is 0"))
        }
        Type::D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP if size != 0 && size.is_multiple_of(PAGE_SIZE) => {
            return Ok(Backing::Heap(size));
        }
        Type::D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP => {
            (STATUS_INVALID_PARAMETER, format!("ExistingHeapData.Size is {size:#x}, and expected are whole pages"))
        }
        Type(kind) => {
            let known = standard.Type == Type::D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE;
            let status = if known { STATUS_NOT_SUPPORTED } else { STATUS_INVALID_PARAMETER };
            (status, format!("Type of pStandardAllocation is {kind}, and expected is EXISTINGHEAP"))
        }
    };
    Err(refused(status, why))
}

fn create<F: Form>(process: &Process, args: &mut D3DKMT_CREATEALLOCATION, at: *mut F) -> Result<NTSTATUS, Failure> {
    // Allocations have no memory before they are resident or locked.
    let inside = power::where_needed(process, || false);
    let device = process.get_device(args.hDevice)?;
    device.check()?;
    check_create_arguments(args)?;
    let backing = read_backing(args)?;
    let mut described = Described::read(at, args.NumAllocations, args.Flags)?;
    let mut whole = Whole::read(args)?;
    let (shared, runtime) = (args.Flags.CreateShared(), allocation_handles::read_runtime_data(args)?);
    let vidmm = device.adapter.vidmm();
    if let Backing::Heap(size) = backing {
        let (allocation, resource) = vidmm.standard_data(size)?;
        described.is_described_by(allocation);
        whole = Whole::of_driver(resource);
    }
    let kept = described.data.iter().chain([&whole.data, &runtime]).map(Vec::len).sum();
    let upkeep = shared.then(|| Upkeep::of_resource(described.data.len(), kept));
    let charged = upkeep.map(|upkeep| Ok((process.quotas().shared.charge(&upkeep)?, upkeep)));
    let charged = charged.transpose().map_err(|status: NTSTATUS| Failure::from(status))?;
    let request = AllocationRequest {
        allocations: &mut described.data,
        private: &mut whole.data,
        resource: args.Flags.CreateResource(),
        read_only: args.Flags.ReadOnly(),
        shared,
        backing,
    };
    let (made, resource) = vidmm.create_allocations(&**device, request)?;
    let opened = charged.map(|(charge, upkeep)| {
        let (allocations, nt_sharing) = (described.data.clone(), args.Flags.NtSecuritySharing());
        let data = ResourceData { allocations, private: whole.data.clone(), runtime, nt_sharing, upkeep };
        Resource::opened(&**device, vidmm.share(&made, data), charge)
    });
    let resource = opened.clone().or(resource);
    described.set_priorities(vidmm, &made);
    let adopted = described.existing().zip(&made).try_for_each(|(at, allocation)| vidmm.adopt_memory(allocation, at));
    let adopted = adopted.map_err(Failure::from);
    let registered =
        adopted.and_then(|()| register(process, &device, &made, resource)).and_then(|(handles, resource)| {
            let given = described.give_back(&handles).and_then(|()| whole.give_back());
            let published = given.and_then(|()| allocation_handles::publish(process, opened.as_deref()));
            let global = published.inspect_err(|_| forget(process, &handles, resource))?;
            Ok((resource, global))
        });
    match registered {
        Ok((resource, global)) => {
            (args.hResource, args.hGlobalShare) = (resource, global);
            Ok(STATUS_SUCCESS)
        }
        Err(failure) => {
            // What was destroyed earlier goes along, and may be in page tables. Whoever destroys the device meanwhile destroys these too.
            let device = device.let_go();
            drop(inside);
            let _powered = power::where_needed(process, || true);
            for allocation in &made {
                device.adapter.vidmm().destroy_allocation(allocation, None);
            }
            Err(failure)
        }
    }
}

/// Destroys a resource with its allocations, or a list of allocations; all or none. What a doorbell uses is refused.
/// [d3dkmthk: D3DKMTDestroyAllocation2]
pub(super) unsafe extern "win64" fn destroy_allocation2(args: *mut D3DKMT_DESTROYALLOCATION2) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyAllocation2", args, destroy)
}

/// As [`destroy_allocation2`] without flags. [d3dkmthk: D3DKMTDestroyAllocation]
pub(super) unsafe extern "win64" fn destroy_allocation(args: *mut D3DKMT_DESTROYALLOCATION) -> NTSTATUS {
    enter_read_only("D3DKMTDestroyAllocation", args, |process, args| {
        let second = D3DKMT_DESTROYALLOCATION2 {
            hDevice: args.hDevice,
            hResource: args.hResource,
            phAllocationList: args.phAllocationList,
            AllocationCount: args.AllocationCount,
            Flags: D3DDDICB_DESTROYALLOCATION2FLAGS::new(),
        };
        destroy(process, &second)
    })
}

fn destroy(process: &Arc<Process>, args: &D3DKMT_DESTROYALLOCATION2) -> Result<NTSTATUS, Failure> {
    let device = process.get_device(args.hDevice)?;
    let known =
        D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true).with_SynchronousDestroy(true).into_bits();
    if args.Flags.into_bits() & !known != 0 {
        let why = "Flags has more than AssumeNotInUse and SynchronousDestroy";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let handles = if args.hResource == 0 {
        read_handles(args.phAllocationList, args.AllocationCount)?
    } else {
        let resource = process.get_resource(args.hResource)?;
        if args.AllocationCount != 0 || resource.device() != device.id() {
            let why = "AllocationCount is not 0 beside hResource, or the resource is of another device";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        // Members that were destroyed one by one have stale handles by now.
        resource.members().into_iter().filter(|handle| process.get_allocation(*handle).is_ok()).collect()
    };
    let list = allocations(process, &device, &handles)?;
    if has_duplicates(&handles) {
        return Err(refused(STATUS_INVALID_PARAMETER, "phAllocationList names an allocation twice"));
    }
    if list.iter().any(|allocation| device.adapter.vidmm().is_referenced(allocation)) {
        let why = "a doorbell uses an allocation as its ring or ring control";
        return Err(refused(STATUS_GRAPHICS_ALLOCATION_BUSY, why));
    }
    let idle = (!args.Flags.AssumeNotInUse()).then(|| device.idle_point());
    // Of several threads that destroy an object the one that takes its handle does.
    let list = match args.hResource {
        0 => process.remove_all(&handles).map(|()| list)?,
        resource => {
            process.remove(resource)?;
            let taken = handles.iter().zip(list).filter(|(handle, _)| process.remove(**handle).is_ok());
            taken.map(|(_, allocation)| allocation).collect()
        }
    };
    for allocation in &list {
        device.adapter.vidmm().destroy_allocation(allocation, idle.clone());
    }
    if args.Flags.SynchronousDestroy() {
        return wait_until_gone(&device, &list);
    }
    Ok(STATUS_SUCCESS)
}

fn wait_until_gone(device: &Device, list: &[Arc<Allocation>]) -> Result<NTSTATUS, Failure> {
    let deadline = Instant::now() + DESTROY_TIMEOUT;
    let vidmm = device.adapter.vidmm();
    while list.iter().any(|allocation| vidmm.still_exists(allocation)) {
        if Instant::now() > deadline || device.error().is_some() {
            // The handles are gone either way; the memory follows when the queues let go.
            return Ok(STATUS_TIMEOUT);
        }
        if !device.adapter.relax() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    // Whoever asks next finds the memory free, which it is once the page tables do not lead to it any more.
    vidmm.finish_paging();
    Ok(STATUS_SUCCESS)
}
