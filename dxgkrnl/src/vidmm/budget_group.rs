//! Groups of memory segments that have a budget, and what processes reserved of them or want.

use std::collections::BTreeMap;

use wddm_ddi::km::DXGK_SEGMENTFLAGS;
use wddm_ddi::kmt::D3DKMT_MEMORY_SEGMENT_GROUP;
use wddm_ddi::status::*;

use crate::refusal::{Failure, refused};
use crate::vidmm::ids::SpaceId;

/// What a budget is about. [d3dkmthk: D3DKMT_MEMORY_SEGMENT_GROUP]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Memory of the device.
    Local,
    /// Memory of the machine.
    NonLocal,
}

impl Group {
    /// The group with this number.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for any other number.
    pub(crate) fn new(group: D3DKMT_MEMORY_SEGMENT_GROUP) -> Result<Self, Failure> {
        match group {
            D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL => Ok(Self::Local),
            D3DKMT_MEMORY_SEGMENT_GROUP::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL => Ok(Self::NonLocal),
            D3DKMT_MEMORY_SEGMENT_GROUP(other) => {
                let why = format!("MemorySegmentGroup is {other}, which is none of D3DKMT_MEMORY_SEGMENT_GROUP");
                Err(refused(STATUS_INVALID_PARAMETER, why))
            }
        }
    }

    /// The group that a memory segment counts for; none for one that is not for applications. [d3dkmddi: DXGK_SEGMENTFLAGS]
    pub(crate) fn of_segment(flags: DXGK_SEGMENTFLAGS) -> Option<Self> {
        let group = if flags.NonLocalBudgetGroup() { Self::NonLocal } else { Self::Local };
        flags.ApplicationTarget().then_some(group)
    }
}

/// What processes have reserved, and what they want and could not get.
#[derive(Default)]
pub(crate) struct Demands {
    pub(super) reserved: BTreeMap<(SpaceId, Group), u64>,
    pub(super) wanted: BTreeMap<(SpaceId, Group), u64>,
}

impl Demands {
    /// A process has got what it wanted, or wants it no more.
    pub(crate) fn satisfy(&mut self, process: SpaceId) {
        self.wanted.retain(|(other, _), _| *other != process);
    }

    /// A process is gone.
    pub(crate) fn forget(&mut self, process: SpaceId) {
        self.satisfy(process);
        self.reserved.retain(|(other, _), _| *other != process);
    }
}
