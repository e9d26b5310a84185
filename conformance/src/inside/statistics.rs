//! Figures of D3DKMTQueryStatistics that are of all processes together, where there is one.

use crate::cases::statistics::{memory_follows, paging_is_the_systems};
use crate::cases::statistics_totals::allocations_are_counted;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Statistics", behind "nobody else uses its adapter";
    "Statistics.MemoryOfAllFollowsThatOfTheOne" on Boot::Fresh, "d3dkmt_querystatistics_segment_information":
        "Bytes committed and resident of a segment grow by an allocation of the only process, those of the process by the same, and both go when it is gone."
        => memory;
    "Statistics.AllocationsOfAllAreThoseOfTheOne" on Boot::Fresh, "d3dkmt_querystatstics_allocations":
        "The adapter counts each allocation, each of its bytes, each lock and each end of the only process once."
        => allocations;
    "Statistics.NodesOfTheSystemHaveNoClientBuffers" on Boot::Fresh, "d3dkmt_querystatistics_node_information":
        "Packets that move memory are paging buffers of the system and no client buffers: a node to which only the system submits has none of these."
        => paging;
}

fn memory(case: &mut Case<'_>) -> Result<(), Failure> {
    memory_follows(case, &case.rig()?, |sums| sums)
}

fn allocations(case: &mut Case<'_>) -> Result<(), Failure> {
    allocations_are_counted(case, &case.rig()?, |counted, own| counted == own)
}

fn paging(case: &mut Case<'_>) -> Result<(), Failure> {
    paging_is_the_systems(case, &case.rig()?, |_| false)
}
