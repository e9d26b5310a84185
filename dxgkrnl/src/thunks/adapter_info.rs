//! What D3DKMTQueryAdapterInfo tells of an adapter: capabilities, memory, place on the bus, and what setup wrote for its driver.
//!
//! A buffer that is too small for the structure of a question is STATUS_BUFFER_TOO_SMALL, a physical adapter that there is not
//! STATUS_INVALID_PARAMETER, and a value that the registry does not have STATUS_OBJECT_NAME_NOT_FOUND. Questions about displays, and those that this adapter
//! has no answer to, are STATUS_NOT_SUPPORTED. [d3dkmthk: KMTQUERYADAPTERINFOTYPE]

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{GUID, LARGE_INTEGER};

use super::adapter_answer::link;
use super::adapter_answer::{answer, answer_word, read};
use super::adapter_answer::{engine, wide};
use super::adapter_perf;
use super::adapter_registry::{query_registry, registry_info};
use crate::adapter::Adapter;
use crate::config::Installation;
use crate::refusal::{Failure, refused};
use crate::vidmm::Group;

/// `INTERFACE_TYPE` PCIBus. [wdm: INTERFACE_TYPE]
const PCI_BUS: u32 = 5;
const FALSE: u32 = 0;

pub(super) fn query(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    match args.Type {
        Kind::KMTQAITYPE_GETSEGMENTSIZE => answer(args, &segment_sizes(adapter, None)),
        Kind::KMTQAITYPE_GETSEGMENTGROUPSIZE => segment_groups(adapter, args),
        Kind::KMTQAITYPE_ADAPTERGUID | Kind::KMTQAITYPE_ADAPTERGUID_RENDER => answer(args, &adapter.guid()),
        Kind::KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID => {
            let text = guid_text(&adapter.guid());
            answer(args, &D3DKMT_QUERY_ADAPTER_UNIQUE_GUID { AdapterUniqueGUID: wide(&text) })
        }
        Kind::KMTQAITYPE_ADAPTERADDRESS | Kind::KMTQAITYPE_ADAPTERADDRESS_RENDER => address(adapter, args),
        Kind::KMTQAITYPE_PHYSICALADAPTERDEVICEIDS => device_ids(adapter, args),
        Kind::KMTQAITYPE_QUERY_GPUMMU_CAPS => gpummu_caps(adapter, args),
        Kind::KMTQUITYPE_GPUVERSION => gpu_version(adapter, args),
        Kind::KMTQAITYPE_VIRTUALADDRESSINFO => {
            let supported = adapter.caps().driver.MemoryManagementCaps.Bits.VirtualAddressingSupported();
            let flags = D3DKMT_VIRTUALADDRESSFLAGS::new().with_VirtualAddressSupported(supported);
            answer(args, &D3DKMT_VIRTUALADDRESSINFO { VirtualAddressFlags: flags })
        }
        // An adapter whose driver is being replaced is stopped.
        Kind::KMTQAITYPE_CHECKDRIVERUPDATESTATUS | Kind::KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER => {
            answer_word(args, FALSE)
        }
        Kind::KMTQAITYPE_XBOX => answer_word(args, FALSE),
        _ => versioned(adapter, args),
    }
}

/// Capabilities by the version of WDDM that they came with.
fn versioned(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let caps = adapter.caps();
    let (driver, memory) = (&caps.driver, &caps.driver.MemoryManagementCaps.Bits);
    match args.Type {
        Kind::KMTQAITYPE_WDDM_1_2_CAPS | Kind::KMTQAITYPE_WDDM_1_2_CAPS_RENDER => {
            // The other bits of these capabilities are about displays, which this adapter does not have.
            let bits = D3DKMT_WDDM_1_2_CAPS_Bits::new()
                .with_SupportPerEngineTDR(driver.SupportPerEngineTDR != 0)
                .with_SupportKernelModeCommandBuffer(driver.PresentationCaps.SupportKernelModeCommandBuffer())
                .with_SupportSurpriseRemovalInHibernation(driver.SupportSurpriseRemovalInHibernation != 0);
            answer(args, &D3DKMT_WDDM_1_2_CAPS { PreemptionCaps: driver.PreemptionCaps, Bits: bits })
        }
        Kind::KMTQAITYPE_WDDM_1_3_CAPS | Kind::KMTQAITYPE_WDDM_1_3_CAPS_RENDER => {
            let bits = D3DKMT_WDDM_1_3_CAPS::new()
                .with_IsHybridIntegratedGPU(driver.HybridIntegrated != 0)
                .with_IsHybridDiscreteGPU(driver.HybridDiscrete != 0)
                .with_SupportCrossAdapterResource(memory.CrossAdapterResource());
            answer(args, &bits)
        }
        Kind::KMTQAITYPE_WDDM_2_0_CAPS => {
            let bits = D3DKMT_WDDM_2_0_CAPS::new()
                .with_Support64BitAtomics(!driver.SchedulingCaps.No64BitAtomics())
                .with_GpuMmuSupported(memory.GpuMmuSupported())
                .with_IoMmuSupported(memory.IoMmuSupported())
                .with_SupportContextlessPresent(driver.MiscCaps.SupportContextlessPresent())
                .with_SupportSurpriseRemoval(driver.SupportSurpriseRemoval != 0);
            answer(args, &bits)
        }
        Kind::KMTQAITYPE_WDDM_2_9_CAPS => {
            let supported = caps.nodes.iter().any(|node| node.context_scheduling);
            let state = if supported { DXGK_FEATURE_SUPPORT_STABLE } else { DXGK_FEATURE_SUPPORT_ALWAYS_OFF };
            let enabled = caps.features.hardware_scheduling;
            answer(args, &D3DKMT_WDDM_2_9_CAPS::new().with_HwSchSupportState(state).with_HwSchEnabled(enabled))
        }
        Kind::KMTQAITYPE_WDDM_3_0_CAPS => {
            answer(args, &D3DKMT_WDDM_3_0_CAPS::new().with_DisplayableSupported(driver.MiscCaps.DisplayableSupport()))
        }
        Kind::KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT => {
            use D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER as Tier;
            let tier = match (memory.CrossAdapterResource(), memory.CrossAdapterResourceTexture()) {
                (_, true) => Tier::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_TEXTURE,
                (true, false) => Tier::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_COPY,
                (false, false) => Tier::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_NONE,
            };
            answer(args, &D3DKMT_CROSSADAPTERRESOURCE_SUPPORT { SupportTier: tier })
        }
        _ => installed(adapter, args),
    }
}

/// Answers what the registry keys of the driver hold, which setup has written: names, versions and values.
fn installed(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    use KMTQUERYADAPTERINFOTYPE as Kind;
    let installation = &adapter.installation;
    match args.Type {
        Kind::KMTQAITYPE_UMDRIVERNAME => {
            let mut info: D3DKMT_UMDFILENAMEINFO = read(args)?;
            if !(0..KMTUMDVERSION::NUM_KMTUMDVERSIONS.0).contains(&info.Version.0) {
                let why = format!("Version is {}, which is none of KMTUMDVERSION", info.Version.0);
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            info.UmdFileName = wide(&user_mode_driver(installation, info.Version.0.unsigned_abs())?);
            answer(args, &info)
        }
        Kind::KMTQAITYPE_KMD_DRIVER_VERSION => version(adapter, args),
        // One package has one version.
        Kind::KMTQAITYPE_UMD_DRIVER_VERSION => {
            user_mode_driver(installation, 0)?;
            version(adapter, args)
        }
        Kind::KMTQAITYPE_DRIVER_DESCRIPTION | Kind::KMTQAITYPE_DRIVER_DESCRIPTION_RENDER => {
            let text = installation.software.text("DriverDesc").ok_or_else(|| without("DriverDesc"))?;
            answer(args, &D3DKMT_DRIVER_DESCRIPTION { DriverDescription: wide(&text) })
        }
        Kind::KMTQAITYPE_ADAPTERREGISTRYINFO | Kind::KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER => {
            answer(args, &registry_info(installation))
        }
        Kind::KMTQAITYPE_QUERYREGISTRY => query_registry(adapter, args),
        _ => adapter_perf::query(adapter, args),
    }
}

/// The software key lacks what setup would have written.
fn without(value: &str) -> Failure {
    refused(STATUS_OBJECT_NAME_NOT_FOUND, format!("the software key of the driver has no {value}"))
}

fn user_mode_driver(installation: &Installation, place: u32) -> Result<String, Failure> {
    let name = installation.user_mode_driver(place as usize);
    name.ok_or_else(|| without(&format!("UserModeDriverName {place}")))
}

fn version(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let version = adapter.installation.driver_version();
    let version = version.ok_or_else(|| without("DriverVersion of four numbers"))?;
    answer(args, &D3DKMT_KMD_DRIVER_VERSION { DriverVersion: LARGE_INTEGER { QuadPart: version.cast_signed() } })
}

/// Sizes of the segments of a physical adapter, or of all. Of the machine's memory half is for adapters.
fn segment_sizes(adapter: &Adapter, engine: Option<u32>) -> D3DKMT_SEGMENTSIZEINFO {
    D3DKMT_SEGMENTSIZEINFO {
        DedicatedVideoMemorySize: memory(adapter, engine, |_| true),
        DedicatedSystemMemorySize: 0,
        SharedSystemMemorySize: adapter.machine.ram().size() / 2,
    }
}

/// Bytes of the memory segments of a physical adapter, or of all, whose group is wanted.
fn memory(adapter: &Adapter, engine: Option<u32>, wanted: impl Fn(Option<Group>) -> bool) -> u64 {
    let segments = adapter.caps().segments.iter().filter(|segment| !segment.flags.Aperture());
    let here = segments.filter(|segment| engine.is_none_or(|engine| segment.engine == engine));
    here.filter(|segment| wanted(Group::of_segment(segment.flags)))
        .fold(0, |sum: u64, segment| sum.saturating_add(segment.size))
}

fn segment_groups(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let mut info: D3DKMT_SEGMENTGROUPSIZEINFO = read(args)?;
    let engine = Some(engine(adapter, info.PhysicalAdapterIndex)?);
    info.LegacyInfo = segment_sizes(adapter, engine);
    info.LocalMemory = memory(adapter, engine, |group| group == Some(Group::Local));
    let beyond = memory(adapter, engine, |group| group == Some(Group::NonLocal));
    info.NonLocalMemory = info.LegacyInfo.SharedSystemMemorySize.saturating_add(beyond);
    info.NonBudgetMemory = memory(adapter, engine, |group| group.is_none());
    answer(args, &info)
}

/// The place of the function that leads.
fn address(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let location = adapter.links().first().ok_or(STATUS_DEVICE_REMOVED)?.location;
    let address = D3DKMT_ADAPTERADDRESS {
        BusNumber: location.bus,
        DeviceNumber: location.device.into(),
        FunctionNumber: location.function.into(),
    };
    answer(args, &address)
}

fn device_ids(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let mut info: D3DKMT_QUERY_DEVICE_IDS = read(args)?;
    let function = &link(adapter, info.PhysicalAdapterIndex)?.function;
    info.DeviceIds = D3DKMT_DEVICE_IDS {
        VendorID: function.vendor.into(),
        DeviceID: function.device.into(),
        SubVendorID: function.subsystem & 0xffff,
        SubSystemID: function.subsystem >> 16,
        RevisionID: function.revision.into(),
        BusType: PCI_BUS,
    };
    answer(args, &info)
}

fn gpummu_caps(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let mut info: D3DKMT_QUERY_GPUMMU_CAPS = read(args)?;
    engine(adapter, info.PhysicalAdapterIndex)?;
    let caps = &adapter.caps().gpummu;
    info.Caps = D3DKMT_GPUMMU_CAPS {
        Flags: D3DKMT_GPUMMU_CAPS_Flags::new()
            .with_ReadOnlyMemorySupported(caps.Bits.ReadOnlyMemorySupported())
            .with_NoExecuteMemorySupported(caps.Bits.NoExecuteMemorySupported())
            .with_CacheCoherentMemorySupported(caps.Bits.CacheCoherentMemorySupported()),
        VirtualAddressBitCount: caps.VirtualAddressBitCount,
    };
    answer(args, &info)
}

/// A driver need not have texts.
fn gpu_version(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    let index = engine(adapter, read::<D3DKMT_GPUVERSION>(args)?.PhysicalAdapterIndex)?;
    let version = adapter.caps().versions.get(index as usize).and_then(Option::as_ref);
    let why = "the driver answered no DxgkDdiQueryAdapterInfo(GPUVERSION) when the adapter started";
    answer(args, &D3DKMT_GPUVERSION::new(index, version.ok_or_else(|| refused(STATUS_NOT_SUPPORTED, why))?))
}

fn guid_text(guid: &GUID) -> String {
    let GUID { Data1, Data2, Data3, Data4: [a, b, c, d, e, f, g, h] } = guid;
    format!("{{{Data1:08X}-{Data2:04X}-{Data3:04X}-{a:02X}{b:02X}-{c:02X}{d:02X}{e:02X}{f:02X}{g:02X}{h:02X}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_nul_also_where_they_are_cut_off() {
        assert_eq!(wide::<4>("ab"), [97, 98, 0, 0]);
        assert_eq!(wide::<4>("abcdef"), [97, 98, 99, 0]);
    }

    #[test]
    fn a_guid_is_written_in_braces() {
        let guid = GUID { Data1: 0x1234_abcd, Data2: 0x5678, Data3: 0x9, Data4: [1, 2, 3, 4, 5, 6, 7, 0xff] };
        assert_eq!(guid_text(&guid), "{1234ABCD-5678-0009-0102-0304050607FF}");
    }
}
