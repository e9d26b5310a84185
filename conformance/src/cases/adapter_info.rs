//! What the adapter answers to D3DKMTQueryAdapterInfo besides its features: memory, place, identity and capabilities of every version.

use campanile_hw::pci::{DEVICE_ID, REVISION_ID, SUBSYSTEM_VENDOR_ID, VENDOR_ID};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::KMTQUERYADAPTERINFOTYPE as Kind;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::GUID;

use super::caps::{adapter, scheduling};
use crate::kmt::BAD_ARGUMENT;
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "AdapterInformation";
    "AdapterInformation.SegmentSizesAgree" on Boot::Shared, "d3dkmt_segmentgroupsizeinfo":
        "The sizes of memory by group are those of memory by segment, and no budget is larger."
        => segment_sizes;
    "AdapterInformation.RenderAddressIsTheAddress" on Boot::Shared, "d3dkmt_adapteraddress":
        "An adapter that only computes has one place on the bus, whichever of its two addresses is asked for."
        => addresses;
    "AdapterInformation.DeviceIdsAreThoseOfTheFunction" on Boot::Shared, "d3dkmt_query_device_ids":
        "The identifiers of a physical adapter are those in the configuration space of its function; one beyond the last physical adapter is refused."
        => device_ids;
    "AdapterInformation.GuidAndItsTextAgree" on Boot::Shared, "d3dkmt_query_adapter_unique_guid":
        "The GUID of the adapter is the same for rendering, and its text is the GUID in braces."
        => guids;
    "AdapterInformation.GpuMmuCapsAreThoseOfThePageTables" on Boot::Shared, "d3dkmt_query_gpummu_caps":
        "The GPU's page tables have read-only pages and the width of addresses that the driver told; a physical adapter beyond the last is refused."
        => gpummu;
    "AdapterInformation.GpuVersionIsTheDriversText" on Boot::Shared, "d3dkmt_gpuversion":
        "The texts about the GPU are those of its driver; a physical adapter beyond the last is refused."
        => gpu_version;
    "AdapterInformation.CapabilitiesOfEveryVersionAgree" on Boot::Shared, "kmtqueryadapterinfotype":
        "Capabilities that came with different versions of WDDM say the same: virtual addresses, hardware scheduling, reset of single engines, cross-adapter resources."
        => versions;
    "AdapterInformation.NothingOfDisplaysIsClaimed" on Boot::Shared, "mcdm-implementation-guidelines":
        "A compute-only adapter claims no display capability of any version."
        => nothing_of_displays;
    "AdapterInformation.DisplayQuestionsAreNotSupported" on Boot::Shared, "kmtqueryadapterinfotype":
        "Questions about displays, and numbers that are no question, are not supported and write nothing."
        => display_questions;
    "AdapterInformation.EveryQuestionIsAnsweredAsDocumented" on Boot::Shared, "kmtqueryadapterinfotype":
        "Every question that the kit declares is answered, or refused with the status that the table of questions names, and what is refused writes nothing. Which ones are refused is this system's rule where the pages are silent."
        => every_question;
    "AdapterInformation.ShortBufferIsRefusedAndLongOneKept" on Boot::Shared, "d3dkmtqueryadapterinfo":
        "An answer that is longer than the buffer is refused and writes nothing; a longer buffer is written no further than the answer goes."
        => buffers;
}

pub fn get<T: Zeroed>(case: &Case, kind: Kind) -> Result<T, Failure> {
    let mut answer = T::zeroed();
    granted(case.kmt().ask(adapter(case)?, kind, &mut answer), &format!("query {}", kind.0))?;
    Ok(answer)
}

/// Refused for every physical adapter that there is not.
fn beyond_is_refused<T: Zeroed>(case: &Case, kind: Kind, question: impl Fn(&mut T, u32)) -> Result<(), Failure> {
    let count = case.kmt().query_word(adapter(case)?, Kind::KMTQAITYPE_PHYSICALADAPTERCOUNT);
    let count =
        count.map_err(|status| Failure::new(format!("the number of physical adapters failed with {status}")))?;
    for index in [count, count + 1, u32::MAX] {
        let mut data = T::zeroed();
        question(&mut data, index);
        let status = case.kmt().ask(adapter(case)?, kind, &mut data);
        refused(status, BAD_ARGUMENT, &format!("query {} of physical adapter {index}", kind.0))?;
    }
    Ok(())
}

fn text(units: &[u16]) -> String {
    String::from_utf16_lossy(units.split(|unit| *unit == 0).next().unwrap_or_default())
}

fn segment_sizes(case: &Case) -> Result<(), Failure> {
    let sizes: D3DKMT_SEGMENTSIZEINFO = get(case, Kind::KMTQAITYPE_GETSEGMENTSIZE)?;
    let groups: D3DKMT_SEGMENTGROUPSIZEINFO = get(case, Kind::KMTQAITYPE_GETSEGMENTGROUPSIZE)?;
    let legacy = groups.LegacyInfo;
    ensure!(legacy.DedicatedVideoMemorySize > 0, "the GPU has memory, and {legacy:?} is told");
    ensure!(legacy.DedicatedVideoMemorySize <= sizes.DedicatedVideoMemorySize, "{legacy:?} of {sizes:?}");
    ensure_eq!(legacy.SharedSystemMemorySize, sizes.SharedSystemMemorySize, "shared memory");
    ensure_eq!(
        groups.LocalMemory + groups.NonBudgetMemory,
        legacy.DedicatedVideoMemorySize,
        "local memory with what has no budget"
    );
    for (group, size) in [
        (D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL, groups.LocalMemory),
        (D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL, groups.NonLocalMemory),
    ] {
        let mut info = D3DKMT_QUERYVIDEOMEMORYINFO::zeroed();
        (info.hAdapter, info.MemorySegmentGroup) = (adapter(case)?, group);
        granted(
            case.kmt().call(case.kmt().table().D3DKMTQueryVideoMemoryInfo, &mut info),
            "D3DKMTQueryVideoMemoryInfo",
        )?;
        ensure!(info.Budget > 0, "group {group:?} has no budget");
        ensure!(info.Budget <= sizes.DedicatedVideoMemorySize.max(size), "budget {} of {size} bytes", info.Budget);
    }
    beyond_is_refused(case, Kind::KMTQAITYPE_GETSEGMENTGROUPSIZE, |data: &mut D3DKMT_SEGMENTGROUPSIZEINFO, index| {
        data.PhysicalAdapterIndex = index;
    })
}

fn addresses(case: &Case) -> Result<(), Failure> {
    let address: D3DKMT_ADAPTERADDRESS = get(case, Kind::KMTQAITYPE_ADAPTERADDRESS)?;
    let render: D3DKMT_ADAPTERADDRESS = get(case, Kind::KMTQAITYPE_ADAPTERADDRESS_RENDER)?;
    ensure_eq!(address, render, "address for rendering");
    ensure!(address.DeviceNumber < 32 && address.FunctionNumber < 8, "{address:?} is no place on a PCI bus");
    Ok(())
}

fn device_ids(case: &Case) -> Result<(), Failure> {
    let ids = get::<D3DKMT_QUERY_DEVICE_IDS>(case, Kind::KMTQAITYPE_PHYSICALADAPTERDEVICEIDS)?.DeviceIds;
    let named = (ids.VendorID, ids.DeviceID, ids.SubVendorID, ids.RevisionID);
    let expected = (VENDOR_ID.into(), DEVICE_ID.into(), SUBSYSTEM_VENDOR_ID.into(), REVISION_ID.into());
    ensure_eq!(named, expected, "vendor, device, vendor of the subsystem and revision");
    ensure_eq!(ids.BusType, 5, "BusType, an INTERFACE_TYPE");
    beyond_is_refused(case, Kind::KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, |data: &mut D3DKMT_QUERY_DEVICE_IDS, index| {
        data.PhysicalAdapterIndex = index;
    })
}

fn guids(case: &Case) -> Result<(), Failure> {
    let guid: GUID = get(case, Kind::KMTQAITYPE_ADAPTERGUID)?;
    ensure_eq!(get::<GUID>(case, Kind::KMTQAITYPE_ADAPTERGUID_RENDER)?, guid, "the GUID for rendering");
    ensure!(guid != GUID::zeroed(), "the GUID is zero");
    let answer: D3DKMT_QUERY_ADAPTER_UNIQUE_GUID = get(case, Kind::KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID)?;
    let [a, b, c, d, e, f, g, h] = guid.Data4;
    let expected = format!(
        "{{{:08x}-{:04x}-{:04x}-{a:02x}{b:02x}-{c:02x}{d:02x}{e:02x}{f:02x}{g:02x}{h:02x}}}",
        guid.Data1, guid.Data2, guid.Data3
    );
    ensure_eq!(text(&answer.AdapterUniqueGUID).to_lowercase(), expected, "the GUID as text");
    Ok(())
}

fn gpummu(case: &Case) -> Result<(), Failure> {
    let caps = get::<D3DKMT_QUERY_GPUMMU_CAPS>(case, Kind::KMTQAITYPE_QUERY_GPUMMU_CAPS)?.Caps;
    ensure!(caps.Flags.ReadOnlyMemorySupported(), "read-only pages are denied: {:?}", caps.Flags);
    ensure!(caps.Flags.NoExecuteMemorySupported(), "pages without execution are denied: {:?}", caps.Flags);
    ensure!((32..=57).contains(&caps.VirtualAddressBitCount), "{} bits of address", caps.VirtualAddressBitCount);
    beyond_is_refused(case, Kind::KMTQAITYPE_QUERY_GPUMMU_CAPS, |data: &mut D3DKMT_QUERY_GPUMMU_CAPS, index| {
        data.PhysicalAdapterIndex = index;
    })
}

fn gpu_version(case: &Case) -> Result<(), Failure> {
    let version: D3DKMT_GPUVERSION = get(case, Kind::KMTQUITYPE_GPUVERSION)?;
    ensure_eq!(text(&version.GpuArchitecture), "Campanile", "the architecture");
    ensure!(!text(&version.BiosVersion).is_empty(), "no version");
    beyond_is_refused(case, Kind::KMTQUITYPE_GPUVERSION, |data: &mut D3DKMT_GPUVERSION, index| {
        data.PhysicalAdapterIndex = index;
    })
}

fn versions(case: &Case) -> Result<(), Failure> {
    let old: D3DKMT_WDDM_1_2_CAPS = get(case, Kind::KMTQAITYPE_WDDM_1_2_CAPS)?;
    ensure!(old.Bits.SupportPerEngineTDR(), "single engines cannot be reset: {:?}", old.Bits);
    let memory: D3DKMT_WDDM_2_0_CAPS = get(case, Kind::KMTQAITYPE_WDDM_2_0_CAPS)?;
    let addresses: D3DKMT_VIRTUALADDRESSINFO = get(case, Kind::KMTQAITYPE_VIRTUALADDRESSINFO)?;
    ensure!(memory.GpuMmuSupported() && !memory.IoMmuSupported(), "page tables: {memory:?}");
    ensure!(addresses.VirtualAddressFlags.VirtualAddressSupported(), "no virtual addresses beside {memory:?}");
    let (told, caps) = (scheduling(case)?, get::<D3DKMT_WDDM_2_9_CAPS>(case, Kind::KMTQAITYPE_WDDM_2_9_CAPS)?);
    ensure_eq!(caps.HwSchEnabled(), told.HwSchEnabled(), "hardware scheduling in 2.9 and 2.7");
    let supported = caps.HwSchSupportState() != DXGK_FEATURE_SUPPORT_ALWAYS_OFF;
    ensure_eq!(supported, told.HwSchSupported(), "support of hardware scheduling in 2.9 and 2.7");
    let shared: D3DKMT_WDDM_1_3_CAPS = get(case, Kind::KMTQAITYPE_WDDM_1_3_CAPS)?;
    let tier: D3DKMT_CROSSADAPTERRESOURCE_SUPPORT = get(case, Kind::KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT)?;
    let none = D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER::D3DKMT_CROSSADAPTERRESOURCE_SUPPORT_TIER_NONE;
    ensure_eq!(
        shared.SupportCrossAdapterResource(),
        tier.SupportTier != none,
        "cross-adapter resources in 1.3 and by tier"
    );
    let render: D3DKMT_WDDM_1_2_CAPS = get(case, Kind::KMTQAITYPE_WDDM_1_2_CAPS_RENDER)?;
    ensure_eq!(render.Bits, old.Bits, "capabilities of 1.2 for rendering");
    ensure_eq!(get::<D3DKMT_WDDM_1_3_CAPS>(case, Kind::KMTQAITYPE_WDDM_1_3_CAPS_RENDER)?, shared, "those of 1.3");
    for kind in [
        Kind::KMTQAITYPE_CHECKDRIVERUPDATESTATUS,
        Kind::KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER,
        Kind::KMTQAITYPE_XBOX,
    ] {
        ensure_eq!(case.kmt().query_word(adapter(case)?, kind), Ok(0), "query {}", kind.0);
    }
    Ok(())
}

fn nothing_of_displays(case: &Case) -> Result<(), Failure> {
    let old = get::<D3DKMT_WDDM_1_2_CAPS>(case, Kind::KMTQAITYPE_WDDM_1_2_CAPS)?.Bits;
    let claims = old.SupportNonVGA() || old.SupportSmoothRotation() || old.SupportGammaRamp();
    ensure!(!claims && !old.SupportHWCursor() && !old.SupportHWVSync(), "1.2 claims {old:?}");
    let later: D3DKMT_WDDM_1_3_CAPS = get(case, Kind::KMTQAITYPE_WDDM_1_3_CAPS)?;
    ensure!(!later.SupportMiracast() && !later.SupportVirtualModes(), "1.3 claims {later:?}");
    ensure!(
        !get::<D3DKMT_WDDM_2_0_CAPS>(case, Kind::KMTQAITYPE_WDDM_2_0_CAPS)?.FlipOverwriteSupported(),
        "2.0 claims flips"
    );
    let last: D3DKMT_WDDM_3_0_CAPS = get(case, Kind::KMTQAITYPE_WDDM_3_0_CAPS)?;
    ensure_eq!(last.into_bits(), 0, "capabilities of 3.0");
    Ok(())
}

fn display_questions(case: &Case) -> Result<(), Failure> {
    for kind in [
        Kind::KMTQAITYPE_FLIPQUEUEINFO,
        Kind::KMTQAITYPE_CURRENTDISPLAYMODE,
        Kind::KMTQAITYPE_MODELIST,
        Kind::KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT,
        Kind::KMTQAITYPE_DIRECTFLIP_SUPPORT,
        Kind::KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT,
        Kind::KMTQAITYPE_PANELFITTER_SUPPORT,
        Kind::KMTQAITYPE_SCANOUT_CAPS,
        Kind::KMTQAITYPE_DISPLAY_CAPS,
        Kind(-1),
        Kind(14),
        Kind(0x1000),
    ] {
        let mut data = [0xa5; 4096];
        let status = case.kmt().query(adapter(case)?, kind, &mut data);
        let allowed = [STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER];
        refused(status, &allowed, &format!("query {} of an adapter without displays", kind.0))?;
        ensure!(data.iter().all(|byte| *byte == 0xa5), "query {} wrote something", kind.0);
    }
    Ok(())
}

/// The table of questions: name, number and answer of each.
fn questions() -> impl Iterator<Item = (&'static str, i32, &'static str)> {
    let rows = include_str!("../../../docs/adapter-questions.md").lines().filter(|line| line.starts_with("| KMT"));
    rows.filter_map(|row| {
        let mut cells = row.split('|').skip(1).map(str::trim);
        Some((cells.next()?, cells.next()?.parse().ok()?, cells.next()?))
    })
}

fn every_question(case: &Case) -> Result<(), Failure> {
    let adapter = adapter(case)?;
    for (name, number, answer) in questions() {
        let mut data = vec![0; 16 << 10];
        let status = case.kmt().query(adapter, Kind(number), &mut data);
        match answer {
            "answered" => granted(status, name)?,
            "asked" => ensure!(status != STATUS_NOT_SUPPORTED, "{name} is not supported"),
            "STATUS_NOT_SUPPORTED" => {
                refused(status, &[STATUS_NOT_SUPPORTED], name)?;
                ensure!(data.iter().all(|byte| *byte == 0), "{name} wrote something");
            }
            other => return Err(Failure::new(format!("{name}: the table says {other}"))),
        }
    }
    Ok(())
}

fn buffers(case: &Case) -> Result<(), Failure> {
    for (kind, size) in [
        (Kind::KMTQAITYPE_GETSEGMENTSIZE, size_of::<D3DKMT_SEGMENTSIZEINFO>()),
        (Kind::KMTQAITYPE_GETSEGMENTGROUPSIZE, size_of::<D3DKMT_SEGMENTGROUPSIZEINFO>()),
        (Kind::KMTQAITYPE_ADAPTERGUID, size_of::<GUID>()),
        (Kind::KMTQAITYPE_ADAPTERADDRESS, size_of::<D3DKMT_ADAPTERADDRESS>()),
        (Kind::KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, size_of::<D3DKMT_QUERY_DEVICE_IDS>()),
        (Kind::KMTQAITYPE_QUERY_GPUMMU_CAPS, size_of::<D3DKMT_QUERY_GPUMMU_CAPS>()),
        (Kind::KMTQUITYPE_GPUVERSION, size_of::<D3DKMT_GPUVERSION>()),
        (Kind::KMTQAITYPE_WDDM_1_2_CAPS, size_of::<D3DKMT_WDDM_1_2_CAPS>()),
        (Kind::KMTQAITYPE_WDDM_2_0_CAPS, size_of::<D3DKMT_WDDM_2_0_CAPS>()),
        (Kind::KMTQAITYPE_WDDM_2_9_CAPS, size_of::<D3DKMT_WDDM_2_9_CAPS>()),
        (Kind::KMTQAITYPE_KMD_DRIVER_VERSION, size_of::<D3DKMT_KMD_DRIVER_VERSION>()),
        (Kind::KMTQAITYPE_DRIVER_DESCRIPTION, size_of::<D3DKMT_DRIVER_DESCRIPTION>()),
        (Kind::KMTQAITYPE_ADAPTERREGISTRYINFO, size_of::<D3DKMT_ADAPTERREGISTRYINFO>()),
        (Kind::KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID, size_of::<D3DKMT_QUERY_ADAPTER_UNIQUE_GUID>()),
    ] {
        // Every question is about physical adapter 0.
        let mut short = vec![0; size + 16];
        let status = case.kmt().query(adapter(case)?, kind, &mut short[..size - 1]);
        let allowed = [STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_PARAMETER];
        refused(status, &allowed, &format!("query {} into {} bytes", kind.0, size - 1))?;
        ensure!(short.iter().all(|byte| *byte == 0), "query {} wrote though it was refused", kind.0);
        let mut long = [vec![0; size], vec![0xa5; 64]].concat();
        granted(case.kmt().query(adapter(case)?, kind, &mut long), &format!("query {} into more space", kind.0))?;
        ensure!(long[size..].iter().all(|byte| *byte == 0xa5), "query {} wrote past its answer", kind.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_questions_has_every_one_that_is_declared() {
        let declared = include_str!("../../../ddi/src/kmt/adapter.rs").lines().filter_map(|line| {
            let (name, number) = line.trim().strip_prefix("pub const ")?.split_once(": Self = Self(")?;
            Some((name, number.strip_suffix(");")?.parse().ok()?)).filter(|(name, _)| name.starts_with("KMTQ"))
        });
        let mut declared: Vec<(&str, i32)> = declared.collect();
        declared.sort_by_key(|(_, number)| *number);
        let table: Vec<_> = questions().map(|(name, number, _)| (name, number)).collect();
        assert!(table.len() > 60, "{} rows", table.len());
        assert_eq!(table, declared);
    }
}
