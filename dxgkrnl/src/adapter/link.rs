//! Chains of linked functions: what their drivers have to say alike, and which of them leads. [dispmprt: DXGKDDI_LINK_DEVICE]

use wddm_ddi::km::{
    DXGK_GPUMMUCAPS, DXGK_GPUVERSION, DXGK_PAGE_TABLE_LEVEL_DESC, DXGK_QUERYSEGMENTOUT4, LINKED_DEVICE,
};
use wddm_ddi::types::HANDLE;

use super::object::Adapter;
use crate::caps::{NodeCaps, Segment};
use crate::interrupt::FUNCTIONS;
use crate::port::Link;
use crate::start_error::StartError;
use crate::table_shape::Shape;

/// The capabilities that one physical adapter reported for itself.
pub(super) struct EngineCaps {
    pub(super) nodes: Vec<NodeCaps>,
    pub(super) segments: Vec<Segment>,
    pub(super) gpummu: DXGK_GPUMMUCAPS,
    pub(super) levels: Vec<DXGK_PAGE_TABLE_LEVEL_DESC>,
    /// Index bits of the levels, which have passed the rules for page tables.
    pub(super) shape: Shape,
    /// GPUVERSION, of a driver that answers it.
    pub(super) version: Option<DXGK_GPUVERSION>,
    /// Header of QUERYSEGMENT4.
    pub(super) out: DXGK_QUERYSEGMENTOUT4,
}

/// Whether what the drivers of devices of one chain said makes a chain, whole and with one that leads. The answer is its place.
///
/// # Errors
/// [`StartError::LinkIncomplete`], [`StartError::Linked`].
pub(crate) fn check_chain(answers: &[LINKED_DEVICE]) -> Result<usize, StartError> {
    let broken = |reason: &str| Err(StartError::Linked(reason.to_owned()));
    let Some(first) = answers.first() else { return broken("a chain without devices") };
    let expected = first.NumberOfLinksInChain;
    if answers.iter().any(|answer| answer.NumberOfLinksInChain != expected) {
        return broken("devices of one chain tell different numbers of links");
    }
    if expected as usize > FUNCTIONS {
        return Err(StartError::Linked(format!("a chain of {expected} devices; {FUNCTIONS} are possible")));
    }
    let found = answers.len() as u32;
    if found > expected {
        return Err(StartError::Linked(format!("{found} devices of a chain of {expected}")));
    }
    if found < expected {
        return Err(StartError::LinkIncomplete { chain: first.ChainUid, found, expected });
    }
    let mut leads = answers.iter().enumerate().filter(|(_, answer)| answer.LeadLink != 0);
    match (leads.next(), leads.next()) {
        (Some((place, _)), None) => Ok(place),
        (None, _) => broken("no device of the chain leads"),
        (Some(_), Some(_)) => broken("more than one device of the chain leads"),
    }
}

/// Linked adapters must have addresses of the same size, and nodes of the same number and type: the number is compared where each
/// physical adapter tells it ([`rules::check_physical_adapter`](super::rules::check_physical_adapter)). This system also wants their page
/// tables and segments described alike. [tdr-changes-in-windows-8: engines; linked-display-adapter: GpuMmu support]
pub(super) fn check_alike(parts: &[EngineCaps]) -> Result<(), StartError> {
    let Some((first, others)) = parts.split_first() else { return Ok(()) };
    let refuse = |what: &str| Err(StartError::Linked(format!("{what} of the physical adapters differ")));
    for other in others {
        let types = |part: &EngineCaps| part.nodes.iter().map(|node| node.metadata.EngineType).collect::<Vec<_>>();
        if types(other) != types(first) {
            return refuse("the nodes");
        }
        if other.gpummu.VirtualAddressBitCount != first.gpummu.VirtualAddressBitCount {
            return refuse("the VirtualAddressBitCounts");
        }
        if !other.levels.iter().map(shape).eq(first.levels.iter().map(shape)) {
            return refuse("the page-table levels");
        }
        let kinds =
            |part: &EngineCaps| part.segments.iter().map(|segment| segment.flags.into_bits()).collect::<Vec<_>>();
        if kinds(other) != kinds(first) {
            return refuse("the segments");
        }
    }
    Ok(())
}

fn shape(level: &DXGK_PAGE_TABLE_LEVEL_DESC) -> [u32; 5] {
    [
        level.PageTableIndexBitCount,
        level.PageTableSegmentId,
        level.PagingProcessPageTableSegmentId,
        level.PageTableSizeInBytes,
        level.PageTableAlignmentInBytes,
    ]
}

impl Adapter {
    /// The handles that PHYSICALADAPTERCAPS tells are those of the functions, each once: they say which of them is which engine.
    pub(super) fn check_handles(&self, handles: &[HANDLE]) -> Result<(), StartError> {
        if self.links().len() == 1 {
            return Ok(());
        }
        let known = |link: &Link| handles.iter().filter(|handle| **handle == link.handle()).count() == 1;
        if self.links().iter().all(known) {
            return Ok(());
        }
        let reason = "DxgkPhysicalAdapterHandle is not the DeviceHandle of each linked device, one at a time";
        Err(StartError::PhysicalAdapterCaps(reason.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use wddm_ddi::Zeroed;
    use wddm_ddi::km::{DXGK_ENGINE_TYPE, DXGK_NODEMETADATA, DXGK_PHYSICALADAPTERCAPS};

    use super::super::rules::check_physical_adapter;
    use super::*;
    use crate::caps::NodeCaps;

    fn part(types: &[DXGK_ENGINE_TYPE]) -> EngineCaps {
        let node = |kind: &DXGK_ENGINE_TYPE| {
            let metadata = DXGK_NODEMETADATA { EngineType: *kind, ..Zeroed::zeroed() };
            NodeCaps { user_mode_submission: true, context_scheduling: true, test_commands: false, metadata }
        };
        let (nodes, segments, levels) = (types.iter().map(node).collect(), Vec::new(), vec![Zeroed::zeroed(); 4]);
        let shape = Shape::new(vec![9; 4]).unwrap();
        EngineCaps { nodes, segments, gpummu: Zeroed::zeroed(), levels, shape, version: None, out: Zeroed::zeroed() }
    }

    #[test]
    fn linked_adapters_are_alike_in_nodes_addresses_and_page_tables() {
        use DXGK_ENGINE_TYPE as Type;
        let types = [Type::DXGK_ENGINE_TYPE_3D, Type::DXGK_ENGINE_TYPE_COPY];
        let refused = |[second, third]: [EngineCaps; 2]| match check_alike(&[part(&types), second, third]) {
            Err(StartError::Linked(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(refused([part(&types), part(&types[..1])]).contains("nodes"), "fewer");
        assert!(refused([part(&types), part(&[types[1], types[0]])]).contains("nodes"), "in another order");
        let (mut bits, mut levels) = (part(&types), part(&types));
        bits.gpummu.VirtualAddressBitCount = 48;
        levels.levels[2].PageTableIndexBitCount = 9;
        assert!(refused([part(&types), bits]).contains("VirtualAddressBitCounts"));
        assert!(refused([levels, part(&types)]).contains("page-table levels"));
        assert_eq!(check_alike(&[part(&types), part(&types)]), Ok(()));
    }

    #[test]
    fn each_physical_adapter_tells_the_number_of_nodes_that_the_adapter_has() {
        let caps = |nodes| {
            let mut caps = DXGK_PHYSICALADAPTERCAPS { NumExecutionNodes: nodes, ..Zeroed::zeroed() };
            caps.Flags.set_GpuMmuSupported(true);
            caps
        };
        assert_eq!(check_physical_adapter(&caps(3), 3), Ok(()));
        for nodes in [2, 4] {
            let refused = check_physical_adapter(&caps(nodes), 3);
            assert!(matches!(refused, Err(StartError::PhysicalAdapterCaps(_))), "{nodes} nodes: {refused:?}");
        }
    }

    fn device(links: u32, leads: bool) -> LINKED_DEVICE {
        LINKED_DEVICE { ChainUid: 7, NumberOfLinksInChain: links, LeadLink: u8::from(leads) }
    }

    #[test]
    fn a_chain_is_whole_and_one_of_it_leads() {
        let refused = |answers: &[LINKED_DEVICE]| match check_chain(answers) {
            Err(StartError::Linked(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(check_chain(&[device(2, false), device(2, true)]), Ok(1));
        assert_eq!(
            check_chain(&[device(2, true)]),
            Err(StartError::LinkIncomplete { chain: 7, found: 1, expected: 2 })
        );
        assert!(refused(&[device(2, false); 2]).contains("no device"));
        assert!(refused(&[device(2, true); 2]).contains("more than one"));
        assert!(refused(&[device(2, true), device(3, false)]).contains("different"));
        assert!(refused(&[device(2, true), device(2, false), device(2, false)]).contains("3 devices"));
        assert!(refused(&[device(9, true)]).contains("9 devices"));
    }
}
