//! Allocations: the private data of the user-mode driver chooses the memory, and the driver describes it to the operating system.

use core::ptr::NonNull;

use campanile_hw::page_table::{PAGE_4K, PAGE_64K};
use campanile_hw::private::{AllocationData, MAGIC, Placement};
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_INVALID_PARAMETER;
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::caps::Claims;
use crate::gpu::Gpu;
use crate::handle::{Handle, Kind, Object};
use crate::irql::Passive;
use crate::lock::SpinLock;
use crate::memory::mappings::Mappings;
use crate::refusal::{Reason, Refused, refused, refused_with};
use crate::vram::segments::{APERTURE, Layout, VRAM, VRAM_HIDDEN};

/// Largest allocation in system memory.
const SYSTEM_LARGEST: u64 = 1 << 40;

/// D3DDDI_ALLOCATIONPRIORITY_NORMAL; zero is not a priority. [d3dukmdt: D3DDDI_ALLOCATIONPRIORITY_NORMAL]
const PRIORITY_NORMAL: u32 = 0x7800_0000;

/// An allocation of the adapter.
pub(crate) struct Allocation {
    size: u64,
    /// Nothing is taken after it.
    mappings: SpinLock<Mappings>,
}

impl Allocation {
    fn new(size: u64) -> Self {
        Self { size, mappings: SpinLock::new(Mappings::new()) }
    }
}

impl Object for Allocation {
    const KIND: Kind = Kind::Allocation;
}

/// An allocation as a device opened it.
pub(crate) struct OpenAllocation {
    size: u64,
}

impl Object for OpenAllocation {
    const KIND: Kind = Kind::OpenAllocation;
}

/// Private data that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    placement: Placement,
    /// The engine in whose VRAM the allocation is placed.
    engine: u32,
    /// A multiple of the page size, above 0.
    size: u64,
}

/// Reads private data, which user mode wrote.
fn request(data: *mut core::ffi::c_void, size: u32) -> Result<Request, Refused> {
    if size as usize != AllocationData::SIZE {
        return Err(refused(Reason::PrivateData));
    }
    let data = NonNull::new(data.cast::<[u8; AllocationData::SIZE]>()).ok_or(refused(Reason::NullPointer))?;
    // SAFETY: the operating system captured that many bytes; bytes need no alignment.
    let data = AllocationData::from_bytes(&unsafe { data.read() });
    let placement = Placement::from_number(data.placement).ok_or(refused(Reason::Placement))?;
    let size = data.size.checked_next_multiple_of(PAGE_4K).filter(|size| *size != 0 && *size <= SYSTEM_LARGEST);
    match size {
        Some(size) if data.magic == MAGIC && data.reserved == 0 => {
            Ok(Request { placement, engine: data.adapter, size })
        }
        _ => Err(refused(Reason::PrivateData)),
    }
}

fn set_of(segment: u32) -> u32 {
    1 << (segment - 1)
}

/// Fills what the operating system wants to know of an allocation.
///
/// # Errors
/// STATUS_INVALID_PARAMETER if it fits into no segment of its placement.
fn describe(request: Request, layout: &Layout, info: &mut DXGK_ALLOCATIONINFO) -> Result<(), Refused> {
    let hidden = matches!(request.placement, Placement::Vram | Placement::VramLockable);
    let (set, preferred) = match request.placement {
        Placement::System | Placement::SystemUncached => {
            (set_of(APERTURE), D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(APERTURE as u8))
        }
        Placement::VramLockable if layout.segments() == VRAM_HIDDEN => (
            layout.vram_set(true) | set_of(APERTURE),
            D3DDDI_SEGMENTPREFERENCE::new()
                .with_SegmentId0(VRAM_HIDDEN as u8)
                .with_SegmentId1(VRAM as u8)
                .with_SegmentId2(APERTURE as u8),
        ),
        Placement::VramLockable => (
            layout.vram_set(false) | set_of(APERTURE),
            D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(VRAM as u8).with_SegmentId1(APERTURE as u8),
        ),
        Placement::Vram if layout.segments() == VRAM_HIDDEN => (
            layout.vram_set(true),
            D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(VRAM_HIDDEN as u8).with_SegmentId1(VRAM as u8),
        ),
        Placement::VramVisible | Placement::Vram => {
            (layout.vram_set(false), D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(VRAM as u8))
        }
    };
    let system = matches!(request.placement, Placement::System | Placement::SystemUncached);
    if !system && request.size > layout.largest_vram(hidden) {
        return Err(refused(Reason::Placement));
    }
    // [d3dkmddi: DXGK_SEGMENTFLAGS::Use64KBPages]
    let medium = set & set_of(VRAM_HIDDEN) != 0 && layout.in_medium_pages(VRAM_HIDDEN);
    info.u.Alignment = if medium { PAGE_64K } else { PAGE_4K } as u32;
    info.Size = usize::try_from(request.size).map_err(|_| refused(Reason::Size))?;
    info.PitchAlignedSize = 0;
    info.HintedBank = DXGK_SEGMENTBANKPREFERENCE::new();
    info.PreferredSegment = preferred;
    info.u1.SupportedReadSegmentSet = set;
    info.SupportedWriteSegmentSet = set;
    // Evicted to pages of system memory directly.
    info.EvictionSegmentSet = 0;
    info.u2.PhysicalAdapterIndex = request.engine;
    info.u3.FlagsWddm2 = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new()
        .with_CpuVisible(request.placement != Placement::Vram)
        .with_Cached(request.placement == Placement::System);
    info.pAllocationUsageHint = core::ptr::null_mut();
    info.AllocationPriority = PRIORITY_NORMAL;
    info.Flags2 = DXGK_ALLOCATIONINFOFLAGS2::new();
    Ok(())
}

/// Element `index` of an array that the operating system passed.
///
/// # Safety
/// `array` must be NULL or have more than `index` elements, that are not used elsewhere during the call.
unsafe fn element<'a, T>(array: *mut T, index: u32) -> Result<&'a mut T, Refused> {
    let array = NonNull::new(array).ok_or(refused(Reason::NullPointer))?;
    // SAFETY: the caller says that the element exists.
    let mut element = unsafe { array.add(index as usize) };
    // SAFETY: as above, and it is not used elsewhere.
    Ok(unsafe { element.as_mut() })
}

/// DxgkDdiCreateAllocation: all or none of the allocations.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for private data that is none, or names an engine that there is not; STATUS_NO_MEMORY.
pub(crate) fn create(irql: &Passive, adapter: &Adapter, args: &mut DXGKARG_CREATEALLOCATION) -> Result<(), Refused> {
    for index in 0..args.NumAllocations {
        // SAFETY: the array has NumAllocations elements.
        let info = unsafe { element(args.pAllocationInfo, index) }?;
        if let Err(status) = create_one(irql, adapter, info) {
            undo(irql, adapter, args, index);
            return Err(status);
        }
    }
    Ok(())
}

fn create_one(irql: &Passive, adapter: &Adapter, info: &mut DXGK_ALLOCATIONINFO) -> Result<(), Refused> {
    let request = request(info.pPrivateDriverData, info.PrivateDriverDataSize)?;
    describe(request, &adapter.started_engine(request.engine)?.layout, info)?;
    let handle = adapter.objects.insert(irql, adapter.handle(), Allocation::new(request.size))?;
    info.hAllocation = handle.raw();
    adapter.trace.note(
        Component::Memory,
        &Event::AllocationCreated {
            allocation: handle.into_bits(),
            size: request.size,
            placement: request.placement as u32,
        },
    );
    Ok(())
}

fn undo(irql: &Passive, adapter: &Adapter, args: &mut DXGKARG_CREATEALLOCATION, count: u32) {
    for index in 0..count {
        // SAFETY: the array has more than `count` elements.
        if let Ok(info) = unsafe { element(args.pAllocationInfo, index) } {
            drop(adapter.objects.remove::<Allocation>(irql, Handle::of(info.hAllocation)));
            info.hAllocation = core::ptr::null_mut();
        }
    }
}

/// DxgkDdiDestroyAllocation. Every allocation of the list that exists is destroyed.
///
/// # Errors
/// STATUS_INVALID_HANDLE if one does not.
pub(crate) fn destroy(irql: &Passive, adapter: &Adapter, args: &DXGKARG_DESTROYALLOCATION) -> Result<(), Refused> {
    let mut result = Ok(());
    for index in 0..args.NumAllocations {
        // SAFETY: the list has NumAllocations elements.
        let handle = Handle::of(*unsafe { element(args.pAllocationList, index) }?);
        match adapter.objects.remove::<Allocation>(irql, handle) {
            Ok(_) => {
                let event = Event::AllocationDestroyed { allocation: handle.into_bits() };
                adapter.trace.note(Component::Memory, &event);
            }
            Err(refused) => result = Err(refused),
        }
    }
    result
}

/// DxgkDdiOpenAllocation: all or none.
///
/// # Errors
/// STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY
pub(crate) fn open(irql: &Passive, adapter: &Adapter, gpu: &Gpu, args: &DXGKARG_OPENALLOCATION) -> Result<(), Refused> {
    for index in 0..args.NumAllocations {
        // SAFETY: the array has NumAllocations elements.
        let info = unsafe { element(args.pOpenAllocation, index) }?;
        if let Err(status) = open_one(irql, adapter, gpu, info) {
            for earlier in 0..index {
                // SAFETY: the array has more than `index` elements.
                if let Ok(info) = unsafe { element(args.pOpenAllocation, earlier) } {
                    let handle = Handle::of(info.hDeviceSpecificAllocation);
                    drop(adapter.objects.remove::<OpenAllocation>(irql, handle));
                    info.hDeviceSpecificAllocation = core::ptr::null_mut();
                }
            }
            return Err(status);
        }
    }
    Ok(())
}

fn open_one(irql: &Passive, adapter: &Adapter, gpu: &Gpu, info: &mut DXGK_OPENALLOCATIONINFO) -> Result<(), Refused> {
    let handle = Handle::of(gpu.dxgk.allocation_handle(irql, info.hAllocation));
    let size = match adapter.objects.get::<Allocation>(handle) {
        Ok(allocation) => allocation.size,
        // The system does not tell while an allocation is being opened: its private data says the same.
        Err(_) => request(info.pPrivateDriverData, info.PrivateDriverDataSize)?.size,
    };
    let handle = adapter.objects.insert(irql, adapter.handle(), OpenAllocation { size })?;
    info.hDeviceSpecificAllocation = handle.raw();
    adapter.trace.note(Component::Memory, &Event::AllocationOpened { open: handle.into_bits(), size });
    Ok(())
}

/// DxgkDdiCloseAllocation. Every allocation of the list that is open is closed.
///
/// # Errors
/// STATUS_INVALID_HANDLE if one is not.
pub(crate) fn close(irql: &Passive, adapter: &Adapter, args: &DXGKARG_CLOSEALLOCATION) -> Result<(), Refused> {
    let mut result = Ok(());
    for index in 0..args.NumAllocations {
        // SAFETY: the list has NumAllocations elements.
        let handle = Handle::of(*unsafe { element(args.pOpenHandleList, index) }?);
        match adapter.objects.remove::<OpenAllocation>(irql, handle) {
            Ok(_) => adapter.trace.note(Component::Memory, &Event::AllocationClosed { open: handle.into_bits() }),
            Err(refused) => result = Err(refused),
        }
    }
    result
}

/// Size of an allocation by either of its handles.
pub(crate) fn size_of_handle(adapter: &Adapter, raw: HANDLE) -> Result<u64, Refused> {
    let handle = Handle::of(raw);
    let created = adapter.objects.get::<Allocation>(handle).map(|allocation| allocation.size);
    let opened = || adapter.objects.get::<OpenAllocation>(handle).map(|allocation| allocation.size);
    created.or_else(|_| opened()).map_err(|_| refused(Reason::StaleHandle))
}

/// Notes that an allocation is mapped in a process so that its first byte is at `address`. A handle that names no allocation is ignored.
pub(crate) fn note_mapping(irql: &Passive, adapter: &Adapter, raw: HANDLE, process: Handle, address: u64) {
    if let Ok(allocation) = adapter.objects.get::<Allocation>(Handle::of(raw)) {
        allocation.mappings.lock(irql).note(process, address);
    }
}

/// False if the allocation is known not to begin at `address` of a process, see [`Mappings::may_begin_at`]. Nothing is known of allocations as devices
/// have opened them.
pub(crate) fn may_begin_at(irql: &Passive, adapter: &Adapter, raw: HANDLE, process: Handle, address: u64) -> bool {
    let allocation = adapter.objects.get::<Allocation>(Handle::of(raw));
    allocation.map_or(true, |allocation| allocation.mappings.lock(irql).may_begin_at(process, address))
}

/// DxgkDdiDescribeAllocation: nothing here has a width or a format.
pub(crate) fn describe_for_display(args: &mut DXGKARG_DESCRIBEALLOCATION) {
    args.Width = 0;
    args.Height = 0;
    args.Format = D3DDDIFORMAT::D3DDDIFMT_UNKNOWN;
    args.MultisampleMethod = D3DDDI_MULTISAMPLINGMETHOD::zeroed();
    args.RefreshRate = D3DDDI_RATIONAL::zeroed();
    args.PrivateDriverFormatAttribute = 0;
}

/// Which segments the values of native fences may lie in, and the preferred one: (set, segment).
///
/// In VRAM it is the part that the processor sees, which writes monitored values and, when a device is lost, current ones. A monitored
/// value that does not fit there is as good in system memory; values between engines stay local.
fn fence_segments(
    claims: Claims,
    layout: &Layout,
    value: DXGKARG_FENCESTORAGEVALUETYPE,
    kind: D3DDDI_NATIVEFENCE_TYPE,
) -> Result<(u32, u32), Refused> {
    use D3DDDI_NATIVEFENCE_TYPE as Type;
    use DXGKARG_FENCESTORAGEVALUETYPE as Value;
    let (system, local) = (set_of(APERTURE), layout.vram_set(false));
    match (kind, value) {
        (_, value)
            if value != Value::D3DKARG_FENCESTORAGETYPE_CURRENTVALUE
                && value != Value::D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE =>
        {
            Err(refused_with(Reason::NotOffered, STATUS_INVALID_PARAMETER))
        }
        (Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT, Value::D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE)
            if claims.local_monitored_values =>
        {
            Ok((local | system, VRAM))
        }
        (Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT, _) => Ok((system, APERTURE)),
        (Type::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU, _) if claims.intra_gpu_fences => Ok((local, VRAM)),
        _ => Err(refused(Reason::NotOffered)),
    }
}

/// What the system is to hand over when it creates a surface that adapters share: that it lies in system memory, which is linear for every engine. It is asked
/// for the size first, with NULL for the data. [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]
fn surface(args: &mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA) -> Result<(), Refused> {
    // SAFETY: the type selects this arm.
    let surface = unsafe { args.u.pCreateGdiSurfaceData };
    // SAFETY: the operating system passes the structure for the length of the call.
    let surface = unsafe { surface.as_mut() }.ok_or(refused(Reason::NullPointer))?;
    let bytes = surface.Format == D3DDDIFORMAT::D3DDDIFMT_UNKNOWN && surface.Height == 1;
    if surface.Type != D3DKMDT_GDISURFACETYPE::D3DKMDT_GDISURFACE_TEXTURE_CROSSADAPTER || !bytes || surface.Width == 0 {
        return Err(refused(Reason::NotServed));
    }
    surface.Pitch = surface.Width;
    let data = AllocationData {
        magic: MAGIC,
        placement: Placement::System as u32,
        size: surface.Width.into(),
        adapter: args.PhysicalAdapterIndex,
        reserved: 0,
    };
    args.ResourcePrivateDriverDataSize = 0;
    if let Some(place) = NonNull::new(args.pAllocationPrivateDriverData.cast::<[u8; AllocationData::SIZE]>()) {
        if (args.AllocationPrivateDriverDataSize as usize) < AllocationData::SIZE {
            return Err(refused(Reason::PrivateData));
        }
        // SAFETY: the operating system has that many bytes there, as was just checked; bytes need no alignment.
        unsafe { place.write(data.to_bytes()) };
    }
    args.AllocationPrivateDriverDataSize = AllocationData::SIZE as u32;
    Ok(())
}

/// DxgkDdiGetStandardAllocationDriverData: where values of fences lie. The private data of such storage is not looked at and none is
/// asked for. Of surfaces there are those without a format that adapters share, behind which the system puts memory of programs.
///
/// # Errors
/// STATUS_NOT_SUPPORTED for another type of allocation, surface or fence; STATUS_INVALID_PARAMETER for a value that fences do not have, or
/// another physical adapter.
pub(crate) fn standard(
    adapter: &Adapter,
    gpu: &Gpu,
    args: &mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> Result<(), Refused> {
    if args.StandardAllocationType == D3DKMDT_STANDARDALLOCATION_TYPE::D3DKMDT_STANDARDALLOCATION_GDISURFACE {
        return surface(args);
    }
    if args.StandardAllocationType != D3DKMDT_STANDARDALLOCATION_TYPE::D3DKMDT_STANDARDALLOCATION_FENCESTORAGE {
        return Err(refused(Reason::NotServed));
    }
    // SAFETY: the type selects this arm.
    let storage = unsafe { args.u.pCreateFenceStorageData };
    // SAFETY: the operating system passes the structure for the length of the call.
    let storage = unsafe { storage.as_mut() }.ok_or(refused(Reason::NullPointer))?;
    adapter.engine(storage.PhysicalAdapterIndex)?;
    let claims = Claims { local_monitored_values: false, intra_gpu_fences: false, ..gpu.claims };
    // What lies in the VRAM of one GPU is not for others.
    let claims = if adapter.engines().count() > 1 { claims } else { gpu.claims };
    let (value, kind) = (storage.FenceStorageValueType, storage.FenceStorageType);
    let (set, preferred) = fence_segments(claims, &gpu.layout, value, kind)?;
    storage.AllocationInfo.SupportedWriteSegmentSet = set;
    storage.AllocationInfo.EvictionSegmentSet = set_of(APERTURE);
    storage.AllocationInfo.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(preferred as u8);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::Hardware;

    fn data(placement: u32, size: u64) -> AllocationData {
        AllocationData { magic: MAGIC, placement, size, adapter: 0, reserved: 0 }
    }

    fn parse(data: AllocationData) -> Result<Request, Refused> {
        let mut bytes = data.to_bytes();
        request(bytes.as_mut_ptr().cast(), AllocationData::SIZE as u32)
    }

    fn layout(window: u64) -> Layout {
        Layout::new(&Hardware::for_tests(64 << 20, window)).unwrap()
    }

    #[test]
    fn private_data_is_checked_whole() {
        assert_eq!(parse(data(1, 1)), Ok(Request { placement: Placement::VramVisible, engine: 0, size: PAGE_4K }));
        assert_eq!(parse(data(0, PAGE_4K + 1)).map(|request| request.size), Ok(2 * PAGE_4K));
        for bad in [
            data(5, 1),
            data(0, 0),
            data(0, u64::MAX),
            data(0, SYSTEM_LARGEST + 1),
            AllocationData { magic: 0, ..data(0, 1) },
            AllocationData { reserved: 1, ..data(0, 1) },
        ] {
            assert_eq!(parse(bad).map_err(|refused| refused.status), Err(STATUS_INVALID_PARAMETER), "{bad:?}");
        }
        let mut bytes = data(0, 1).to_bytes();
        assert!(request(bytes.as_mut_ptr().cast(), 31).is_err());
        assert!(request(core::ptr::null_mut(), 32).is_err());
    }

    #[test]
    fn placements_choose_segments_and_visibility() {
        for (window, placement, set, preferred, visible, cached) in [
            (64 << 20, Placement::System, 0b001, [1, 0], true, true),
            (64 << 20, Placement::SystemUncached, 0b001, [1, 0], true, false),
            (64 << 20, Placement::VramVisible, 0b010, [2, 0], true, false),
            (64 << 20, Placement::Vram, 0b010, [2, 0], false, false),
            (16 << 20, Placement::VramVisible, 0b010, [2, 0], true, false),
            (16 << 20, Placement::Vram, 0b110, [3, 2], false, false),
            (64 << 20, Placement::VramLockable, 0b011, [2, 1], true, false),
            (16 << 20, Placement::VramLockable, 0b111, [3, 2], true, false),
        ] {
            let mut info = DXGK_ALLOCATIONINFO::zeroed();
            assert_eq!(describe(Request { placement, engine: 1, size: PAGE_4K }, &layout(window), &mut info), Ok(()));
            assert_eq!(info.SupportedWriteSegmentSet, set, "{placement:?}");
            assert_eq!([info.PreferredSegment.SegmentId0(), info.PreferredSegment.SegmentId1()], preferred);
            // SAFETY: `describe` wrote this arm.
            let flags = unsafe { info.u3.FlagsWddm2 };
            assert_eq!((flags.CpuVisible(), flags.Cached()), (visible, cached));
            assert_eq!(info.AllocationPriority, PRIORITY_NORMAL);
        }
    }

    #[test]
    fn an_allocation_larger_than_its_segments_is_refused() {
        let mut info = DXGK_ALLOCATIONINFO::zeroed();
        let vram = Request { placement: Placement::Vram, engine: 0, size: 64 << 20 };
        assert_eq!(describe(vram, &layout(64 << 20), &mut info), Err(refused(Reason::Placement)));
        let system = Request { placement: Placement::System, engine: 0, size: 1 << 32 };
        assert_eq!(describe(system, &layout(64 << 20), &mut info), Ok(()));
    }

    #[test]
    fn fence_values_lie_in_memory_that_the_processor_reaches_and_locally_only_as_claimed() {
        use D3DDDI_NATIVEFENCE_TYPE as Type;
        use DXGKARG_FENCESTORAGEVALUETYPE as Value;
        let (current, monitored) =
            (Value::D3DKARG_FENCESTORAGETYPE_CURRENTVALUE, Value::D3DKARG_FENCESTORAGETYPE_MONITOREDVALUE);
        let (default, intra) = (Type::D3DDDI_NATIVEFENCE_TYPE_DEFAULT, Type::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU);
        let claims = |local_monitored_values, intra_gpu_fences| Claims {
            native_fence: true,
            local_monitored_values,
            intra_gpu_fences,
            ..Claims::default()
        };
        // The hidden part of VRAM is never in the set.
        for window in [64 << 20, 16 << 20] {
            let ask = |claims, kind, value| fence_segments(claims, &layout(window), value, kind);
            for bits in 0..4 {
                let (local, between) = (bits & 1 != 0, bits & 2 != 0);
                let claims = claims(local, between);
                assert_eq!(ask(claims, default, current), Ok((0b001, APERTURE)));
                let wanted = if local { (0b011, VRAM) } else { (0b001, APERTURE) };
                assert_eq!(ask(claims, default, monitored), Ok(wanted));
                for value in [current, monitored] {
                    let wanted = if between { Ok((0b010, VRAM)) } else { Err(refused(Reason::NotOffered)) };
                    assert_eq!(ask(claims, intra, value), wanted);
                }
                assert_eq!(
                    ask(claims, default, Value(2)),
                    Err(refused_with(Reason::NotOffered, STATUS_INVALID_PARAMETER))
                );
                assert_eq!(ask(claims, Type(2), current), Err(refused(Reason::NotOffered)));
            }
        }
    }
}
