//! DxgkDdiQueryAdapterInfo: capabilities, segments, and the private data of the user-mode driver.

use core::ptr::NonNull;

use campanile_hw::private::{AdapterData, MAGIC};
use campanile_hw::registers::{INTERFACE_VERSION, NODE_PAGING, NODES};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_INVALID_PARAMETER;
use wddm_ddi::types::*;

use super::answer::answer;
use super::call::{arguments, inputs, on_gpu};
use crate::adapter::Adapter;
use crate::adapter::slots;
use crate::caps;
use crate::gpu::Gpu;
use crate::refusal::{Ddi, Reason, Refused, refused, refused_with};

/// Bits of [`AdapterData::features`].
const FEATURE_NATIVE_FENCE: u32 = 1 << 0;
const FEATURE_USER_MODE_SUBMISSION: u32 = 1 << 1;

/// An output buffer: as long as the caller said, which may be less than the structure of this kit.
struct Output {
    data: *mut u8,
    len: usize,
}

impl Output {
    fn new(args: &DXGKARG_QUERYADAPTERINFO) -> Result<Self, Refused> {
        if args.pOutputData.is_null() && args.OutputDataSize != 0 {
            return Err(refused(Reason::NullPointer));
        }
        Ok(Self { data: args.pOutputData.cast(), len: args.OutputDataSize as usize })
    }

    /// Zeroes the buffer and writes the part of `value` that fits.
    fn write<T: Copy>(&self, value: T) {
        self.zero();
        let len = self.len.min(size_of::<T>());
        if len != 0 {
            // SAFETY: `len` bytes are inside both the value and the caller's buffer, which do not overlap.
            unsafe { core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), self.data, len) };
        }
    }

    fn zero(&self) {
        if self.len != 0 {
            // SAFETY: the caller's buffer has `len` bytes.
            unsafe { self.data.write_bytes(0, self.len) };
        }
    }

    /// The buffer as a structure of the operating system that is read too.
    fn in_place<T: Zeroed>(&self) -> Result<NonNull<T>, Refused> {
        NonNull::new(self.data.cast::<T>())
            .filter(|place| self.len >= size_of::<T>() && place.is_aligned())
            .ok_or(refused_with(Reason::BufferTooSmall, STATUS_INVALID_PARAMETER))
    }
}

/// Reads the input structure.
fn input<T: Zeroed + Copy>(args: &DXGKARG_QUERYADAPTERINFO) -> Result<T, Refused> {
    let data = NonNull::new(args.pInputData.cast::<T>()).ok_or(refused(Reason::NullPointer))?;
    if (args.InputDataSize as usize) < size_of::<T>() {
        return Err(refused_with(Reason::BufferTooSmall, STATUS_INVALID_PARAMETER));
    }
    // SAFETY: InputDataSize bytes can be read, which hold the structure; it need not be aligned.
    Ok(unsafe { data.read_unaligned() })
}

pub(crate) unsafe extern "win64" fn query_adapter_info(
    adapter: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    let query = || {
        let args = inputs(args)?;
        query(slots::adapter(adapter)?, args, &Output::new(args)?)
    };
    answer(Ddi::QueryAdapterInfo, adapter, query())
}

/// Checks that there is such an engine. Before a device was started there is only the first.
fn known(adapter: &Adapter, index: u32) -> Result<(), Refused> {
    if index == 0 { Ok(()) } else { adapter.engine(index).map(drop) }
}

fn query(adapter: &Adapter, args: &DXGKARG_QUERYADAPTERINFO, out: &Output) -> Result<(), Refused> {
    use DXGK_QUERYADAPTERINFOTYPE as Q;
    match args.Type {
        // Asked before the device is started: neither needs it.
        Q::DXGKQAITYPE_PHYSICAL_MEMORY_CAPS => {
            out.write(DXGK_PHYSICAL_MEMORY_CAPS { HighestVisibleAddress: LARGE_INTEGER { QuadPart: -1 } });
        }
        // No isolation, no remapping, no reserved ranges, no dirty bits, nothing that is 64 bits only.
        Q::DXGKQAITYPE_IOMMU_CAPS
        | Q::DXGKQAITYPE_HARDWARERESERVEDRANGES2
        | Q::DXGKQAITYPE_DIRTYBITTRACKINGCAPS
        | Q::DXGKQAITYPE_64BITONLYCAPS => out.zero(),
        Q::DXGKQAITYPE_NUMPOWERCOMPONENTS => out.write(caps::POWER_COMPONENTS),
        Q::DXGKQAITYPE_POWERCOMPONENTINFO => {
            let index = input::<DXGK_POWER_COMPONENT_INDEX>(args)?;
            known(adapter, index.PhysicalAdapterIndex.into())?;
            let component = caps::power_component(index.PhysicalAdapterComponentIndex.into());
            out.write(component.ok_or(refused(Reason::PowerState))?);
        }
        Q::DXGKQAITYPE_WDDMDEVICECAPS => out.write(DXGK_WDDMDEVICECAPS { WDDMVersion: caps::WDDM_VERSION }),
        Q::DXGKQAITYPE_HISTORYBUFFERPRECISION => history_precision(out),
        Q::DXGKQAITYPE_PAGETABLELEVELDESC => {
            let level = input::<DXGK_QUERYPAGETABLELEVELDESCIN>(args)?;
            known(adapter, level.PhysicalAdapterIndex.into())?;
            out.write(
                caps::page_table_level(level.LevelIndex.into())
                    .ok_or(refused_with(Reason::NotOffered, STATUS_INVALID_PARAMETER))?,
            );
        }
        Q::DXGKQAITYPE_GPUVERSION => {
            out.write(DXGK_GPUVERSION { BiosVersion: caps::wide("1.0"), GpuArchitecture: caps::wide("Campanile") })
        }
        Q::DXGKQAITYPE_UMDRIVERPRIVATE
        | Q::DXGKQAITYPE_DRIVERCAPS
        | Q::DXGKQAITYPE_GPUMMUCAPS
        | Q::DXGKQAITYPE_QUERYSEGMENT4
        | Q::DXGKQAITYPE_PHYSICALADAPTERCAPS
        | Q::DXGKQAITYPE_NATIVE_FENCE_CAPS
        | Q::DXGKQAITYPE_USERMODESUBMISSION_CAPS
        | Q::DXGKQAITYPE_NODEPERFDATA
        | Q::DXGKQAITYPE_ADAPTERPERFDATA
        | Q::DXGKQAITYPE_ADAPTERPERFDATA_CAPS => {
            return query_device(
                adapter,
                adapter.gpu().ok_or(refused_with(Reason::NotStarted, STATUS_INVALID_PARAMETER))?,
                args,
                out,
            );
        }
        _ => return Err(refused(Reason::NotServed)),
    }
    Ok(())
}

/// Answers the queries of DxgkDdiQueryAdapterInfo that need a started device, as their answer depends on it or on enabled features.
fn query_device(adapter: &Adapter, gpu: &Gpu, args: &DXGKARG_QUERYADAPTERINFO, out: &Output) -> Result<(), Refused> {
    use DXGK_QUERYADAPTERINFOTYPE as Q;
    match args.Type {
        Q::DXGKQAITYPE_UMDRIVERPRIVATE => return adapter_data(gpu, out),
        Q::DXGKQAITYPE_DRIVERCAPS => out.write(caps::driver_caps(&gpu.hardware, gpu.claims)),
        Q::DXGKQAITYPE_GPUMMUCAPS => {
            let gpu = adapter.engine(input::<DXGK_QUERYGPUMMUCAPSIN>(args)?.PhysicalAdapterIndex)?;
            out.write(caps::gpu_mmu_caps(&gpu.hardware));
        }
        Q::DXGKQAITYPE_QUERYSEGMENT4 => return segments(adapter, args, out),
        Q::DXGKQAITYPE_PHYSICALADAPTERCAPS => {
            let gpu = adapter.engine(input::<DXGK_QUERYPHYSICALADAPTERCAPSIN>(args)?.PhysicalAdapterIndex)?;
            let mut caps = DXGK_PHYSICALADAPTERCAPS::zeroed();
            caps.NumExecutionNodes = NODES as u16;
            caps.PagingNodeIndex = NODE_PAGING as u16;
            caps.DxgkPhysicalAdapterHandle = gpu.dxgk.device_handle();
            caps.Flags = DXGK_PHYSICALADAPTERFLAGS::new().with_GpuMmuSupported(true);
            out.write(caps);
        }
        Q::DXGKQAITYPE_NATIVE_FENCE_CAPS if gpu.claims.native_fence => {
            out.write(caps::native_fence_caps(&gpu.hardware))
        }
        Q::DXGKQAITYPE_USERMODESUBMISSION_CAPS if gpu.claims.user_mode_submission => {
            out.write(caps::user_mode_submission_caps());
        }
        Q::DXGKQAITYPE_NODEPERFDATA | Q::DXGKQAITYPE_ADAPTERPERFDATA | Q::DXGKQAITYPE_ADAPTERPERFDATA_CAPS => {
            return figures(adapter, args, out);
        }
        _ => return Err(refused(Reason::NotOffered)),
    }
    Ok(())
}

/// Figures of the hardware, from what the driver knows: no register is read, and a device that sleeps goes on sleeping. A node is named as in
/// DxgkDdiGetNodeMetadata, with the physical adapter in the upper half; no page says how.
fn figures(adapter: &Adapter, args: &DXGKARG_QUERYADAPTERINFO, out: &Output) -> Result<(), Refused> {
    use DXGK_QUERYADAPTERINFOTYPE as Q;
    let index: u32 = input(args)?;
    if args.Type == Q::DXGKQAITYPE_NODEPERFDATA {
        let gpu = adapter.engine(index >> 16)?;
        let fstate = gpu.fstate(index & 0xffff).ok_or(refused_with(Reason::NoSuchNode, STATUS_INVALID_PARAMETER))?;
        out.write(caps::node_figures(&gpu.hardware, gpu.is_powered(), fstate));
        return Ok(());
    }
    let gpu = adapter.engine(index)?;
    match args.Type {
        Q::DXGKQAITYPE_ADAPTERPERFDATA => out.write(caps::adapter_figures(gpu.is_powered())),
        // No fan, no sensor, and no limit of bandwidth but the host's.
        _ => out.write(DXGK_ADAPTER_PERFDATACAPS::zeroed()),
    }
    Ok(())
}

/// 64 bits for every element of the caller's array, one a node.
fn history_precision(out: &Output) {
    out.zero();
    let size = size_of::<DXGKARG_HISTORYBUFFERPRECISION>();
    for index in 0..out.len / size {
        let element = out.data.wrapping_add(index * size).cast::<DXGKARG_HISTORYBUFFERPRECISION>();
        // SAFETY: `index` is below the number of whole elements of the buffer; they need not be aligned.
        unsafe { element.write_unaligned(DXGKARG_HISTORYBUFFERPRECISION { PrecisionBits: 64 }) };
    }
}

/// The answer to the user-mode driver, whose buffer may have any length.
fn adapter_data(gpu: &Gpu, out: &Output) -> Result<(), Refused> {
    if out.len < AdapterData::SIZE {
        return Err(refused_with(Reason::BufferTooSmall, STATUS_INVALID_PARAMETER));
    }
    let mut features = 0;
    if gpu.claims.native_fence {
        features |= FEATURE_NATIVE_FENCE;
    }
    if gpu.claims.user_mode_submission {
        features |= FEATURE_USER_MODE_SUBMISSION;
    }
    let data = AdapterData {
        magic: MAGIC,
        version: INTERFACE_VERSION,
        caps: gpu.hardware.caps.into_bits(),
        doorbells: gpu.hardware.doorbells,
        clock_hz: gpu.hardware.clock_hz,
        vram: gpu.layout.usable_vram(),
        features,
    };
    out.zero();
    // SAFETY: the buffer is long enough; bytes need no alignment.
    unsafe { out.data.cast::<[u8; AdapterData::SIZE]>().write(data.to_bytes()) };
    Ok(())
}

/// QUERYSEGMENT4: without an array the count, with one the descriptors, at the caller's distance.
fn segments(adapter: &Adapter, args: &DXGKARG_QUERYADAPTERINFO, out: &Output) -> Result<(), Refused> {
    let index = match args.InputDataSize {
        0 => 0,
        _ => input::<DXGK_QUERYSEGMENTIN4>(args)?.PhysicalAdapterIndex,
    };
    let gpu = adapter.engine(index)?;
    let mut place = out.in_place::<DXGK_QUERYSEGMENTOUT4>()?;
    // SAFETY: checked for size and alignment; nobody else uses it during the call.
    let header = unsafe { place.as_mut() };
    let Some(descriptors) = NonNull::new(header.pSegmentDescriptor) else {
        header.NbSegment = gpu.layout.segments();
        return Ok(());
    };
    let stride = header.SegmentDescriptorStride;
    let count = gpu.layout.segments();
    // The count of the first call may come back or be zero again; a smaller one means a smaller array.
    if stride < size_of::<DXGK_SEGMENTDESCRIPTOR4>() || (1..count).contains(&header.NbSegment) {
        return Err(refused_with(Reason::BufferTooSmall, STATUS_INVALID_PARAMETER));
    }
    gpu.layout.fill_header(header);
    for segment in 1..=count {
        let descriptor = gpu
            .layout
            .descriptor(segment, gpu.window)
            .ok_or(refused_with(Reason::NotOffered, STATUS_INVALID_PARAMETER))?;
        // SAFETY: the array has as many elements at this distance as the first call said.
        let element = unsafe { descriptors.add((segment - 1) as usize * stride) };
        // SAFETY: as above; the stride may leave elements unaligned.
        unsafe { element.cast::<DXGK_SEGMENTDESCRIPTOR4>().write_unaligned(descriptor) };
    }
    Ok(())
}

pub(crate) unsafe extern "win64" fn get_node_metadata(
    adapter: HANDLE,
    node_and_adapter: u32,
    metadata: *mut DXGK_NODEMETADATA,
) -> NTSTATUS {
    on_gpu(Ddi::GetNodeMetadata, adapter, |_, adapter, _| {
        let gpu = adapter.engine(node_and_adapter >> 16)?;
        let answer = caps::node_metadata(node_and_adapter & 0xffff, gpu.claims).ok_or(refused(Reason::NoSuchNode))?;
        *arguments(metadata)? = answer;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_zeroed_and_never_exceeded() {
        let mut memory = [0xaau8; 32];
        let out = |memory: &mut [u8], len| Output { data: memory.as_mut_ptr(), len };
        out(&mut memory, 6).write(DXGK_PHYSICAL_MEMORY_CAPS { HighestVisibleAddress: LARGE_INTEGER { QuadPart: -1 } });
        assert_eq!(memory[..8], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xaa, 0xaa]);
        out(&mut memory, 16).write(7u32);
        assert_eq!(memory[..4], [7, 0, 0, 0]);
        assert!(memory[4..16].iter().all(|byte| *byte == 0) && memory[16..].iter().all(|byte| *byte == 0xaa));
        out(&mut memory, 0).write(9u32);
        assert_eq!(memory[0], 7);
    }

    #[test]
    fn every_whole_element_of_the_precision_array_says_64_bits() {
        let mut memory = [0u32; 4];
        history_precision(&Output { data: memory.as_mut_ptr().cast(), len: 14 });
        assert_eq!(memory, [64, 64, 64, 0]);
    }

    #[test]
    fn inputs_that_are_too_short_are_refused() {
        let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
        let mut index = 5u32;
        assert!(input::<DXGK_QUERYGPUMMUCAPSIN>(&args).is_err());
        args.pInputData = (&raw mut index).cast();
        args.InputDataSize = 3;
        assert!(input::<DXGK_QUERYGPUMMUCAPSIN>(&args).is_err());
        args.InputDataSize = 4;
        assert_eq!(input::<DXGK_QUERYGPUMMUCAPSIN>(&args).unwrap().PhysicalAdapterIndex, 5);
    }
}
