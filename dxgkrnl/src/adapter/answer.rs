// UNSAFETY: reads what a driver wrote into answer buffers.
//! What a driver answers with: its structures, and buffers that tell which of their members it wrote.

use std::mem::{MaybeUninit, offset_of};

use wddm_ddi::km::*;

use crate::ddi_buffer::{DdiBuffer, PATTERN};
use crate::start_error::{OutputSize, StartError};

/// A member of a structure, and the offset at which it begins.
pub(crate) type Member = (&'static str, usize);

/// Structures a driver answers with.
///
/// # Safety
/// Any bytes are a valid value: integers, raw pointers and bit fields only.
pub(crate) unsafe trait Answer: Copy {
    /// The members in their order, each with its structure's name; empty where only the length of what was written is told.
    const MEMBERS: &'static [Member] = &[];
}

macro_rules! answers {
    ($($name:ty),* $(,)?) => {
        $(
            // SAFETY: the structure holds integers and raw pointers only.
            unsafe impl Answer for $name {}
        )*
    };
}

macro_rules! answers_with_members {
    ($($name:ident: $($member:ident $(as $told:literal)?),*;)*) => {
        $(
            // SAFETY: the structure holds integers and raw pointers only.
            unsafe impl Answer for $name {
                const MEMBERS: &'static [Member] =
                    &[$((answers_with_members!(@name $name $member $($told)?), offset_of!($name, $member))),*];
            }
        )*
    };
    (@name $name:ident $member:ident) => { concat!(stringify!($name), ".", stringify!($member)) };
    (@name $name:ident $member:ident $told:literal) => { concat!(stringify!($name), ".", $told) };
}

answers! {
    DXGK_PHYSICAL_MEMORY_CAPS, DXGK_IOMMU_CAPS, DXGK_DISPLAY_DRIVERCAPS_EXTENSION, DXGK_GPUVERSION, DXGK_POWER_RUNTIME_COMPONENT,
    DXGK_FRAMEBUFFERSAVEAREA, DXGK_MEMORYRANGE, DXGK_NODE_PERFDATA, DXGK_ADAPTER_PERFDATA, DXGK_ADAPTER_PERFDATACAPS,
    DXGK_PHYSICAL_MEMORY_RANGE, u32, [u8; 64], [u8; 256],
}

answers_with_members! {
    DXGK_DRIVERCAPS: HighestAcceptableAddress, MaxAllocationListSlotId, ApertureSegmentCommitLimit, MaxPointerWidth, MaxPointerHeight,
        PointerCaps, InterruptMessageNumber, NumberOfSwizzlingRanges, MaxOverlays, u as "GammaRampCaps", PresentationCaps,
        MaxQueuedFlipOnVSync, FlipCaps, SchedulingCaps, MemoryManagementCaps, GpuEngineTopology, WDDMVersion, Reserved, Reserved1,
        PreemptionCaps, SupportNonVGA, SupportSmoothRotation, SupportPerEngineTDR, SupportDirectFlip, SupportMultiPlaneOverlay,
        SupportRuntimePowerManagement, SupportSurpriseRemovalInHibernation, HybridDiscrete, MaxOverlayPlanes, HybridIntegrated,
        InternalGpuVirtualAddressRangeStart, InternalGpuVirtualAddressRangeEnd, SupportSurpriseRemoval,
        SupportMultiPlaneOverlayImmediateFlip, CursorScaledWithMultiPlaneOverlayPlane0, HybridAcpiChainingRequired,
        MaxQueuedMultiPlaneOverlayFlipVSync, MiscCaps, MaxHwQueuedFlips, HwQueuedFlipCaps;
    DXGK_WDDMDEVICECAPS: WDDMVersion;
    DXGK_PHYSICALADAPTERCAPS: NumExecutionNodes, PagingNodeIndex, DxgkPhysicalAdapterHandle, Flags, VPRPagingNode, VirtualCopyNodeIndex;
    DXGK_NATIVE_FENCE_CAPS: MonitoredValueStride, MapToGpuSystemProcess, MinimumAddress, MaximumAddress, Reserved;
    DXGK_USERMODESUBMISSION_CAPS: Flags, DoorbellSizeInBytes, SecondaryDoorbellSizeInBytes, Reserved;
    DXGK_GPUMMUCAPS: Bits as "ReadOnlyMemorySupported", PageTableUpdateMode, VirtualAddressBitCount, LeafPageTableSizeFor64KPagesInBytes,
        PageTableLevelCount, LegacyBehaviors;
    DXGK_PAGE_TABLE_LEVEL_DESC: PageTableIndexBitCount, PageTableSegmentId, PagingProcessPageTableSegmentId, PageTableSizeInBytes,
        PageTableAlignmentInBytes;
}

/// An answer buffer.
pub(super) struct Buffer {
    pub(super) memory: DdiBuffer,
    /// Bytes that the driver has not written can be told.
    patterned: bool,
}

/// The parts of an answer that a driver left out.
pub(super) struct Unwritten {
    /// Bytes up to the last one that was written.
    pub(super) written: usize,
    /// Bytes of the answer.
    pub(super) size: usize,
    /// The first member of which nothing was written, if the structure has names for its members.
    pub(super) member: Option<&'static str>,
    /// The end of the answer is missing, and not only a member in front of others, which may be one that is not for every driver.
    pub(super) is_cut_off: bool,
}

impl Buffer {
    /// One that is filled with a pattern.
    pub(super) fn patterned(len: usize) -> Self {
        Self { memory: DdiBuffer::patterned(len), patterned: true }
    }

    /// One whose answer is zero beforehand.
    pub(super) fn zeroed(len: usize) -> Self {
        Self { memory: DdiBuffer::zeroed(len), patterned: false }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// What the driver left as it was: a member, or the end of the answer, as long as its last member `last` or 8 bytes. `None` if it wrote everything, or if
    /// that cannot be told.
    pub(super) fn unwritten(&self, members: &[Member], last: usize) -> Option<Unwritten> {
        let (bytes, size) = (self.as_bytes(), self.memory.len());
        let untouched = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(|byte| *byte == PATTERN);
        let ends = members.iter().skip(1).map(|(_, offset)| *offset).chain([size]);
        let mut places = members.iter().zip(ends);
        let left = places.find(|((_, start), end)| bytes.get(*start..(*end).min(size)).is_some_and(untouched));
        let member = left.map(|((name, _), _)| *name);
        let written = bytes.iter().rposition(|byte| *byte != PATTERN).map_or(0, |place| place + 1);
        let is_cut_off = size - written >= last.min(8);
        (self.patterned && (member.is_some() || is_cut_off)).then_some(Unwritten { written, size, member, is_cut_off })
    }

    /// An error if the driver left the end of the answer as it was, and that can be told.
    pub(super) fn check_whole(
        &self,
        query: &'static str,
        members: &[Member],
        last: usize,
        output: OutputSize,
    ) -> Result<(), StartError> {
        match self.unwritten(members, last) {
            Some(Unwritten { written, member, is_cut_off: true, .. }) => {
                Err(StartError::ShortAnswer { query, written, output, member })
            }
            _ => Ok(()),
        }
    }

    /// The answer, with zeros where the structure is longer.
    pub(super) fn value<T: Answer>(&self) -> T {
        let mut value = MaybeUninit::<T>::zeroed();
        let bytes = self.as_bytes();
        let len = bytes.len().min(size_of::<T>());
        // SAFETY: the value has space for so many bytes, and the buffer holds them; bytes need no alignment.
        unsafe { value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len) };
        // SAFETY: every byte is initialised, and any bytes are valid.
        unsafe { value.assume_init() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members of a structure stand in their order and begin with its first byte.
    fn is_in_order<T: Answer>() {
        let offsets: Vec<usize> = T::MEMBERS.iter().map(|(_, offset)| *offset).collect();
        assert!(offsets.first() == Some(&0) && offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
        assert!(offsets.last() < Some(&size_of::<T>()));
    }

    #[test]
    fn members_stand_in_their_order() {
        is_in_order::<DXGK_DRIVERCAPS>();
        is_in_order::<DXGK_WDDMDEVICECAPS>();
        is_in_order::<DXGK_PHYSICALADAPTERCAPS>();
        is_in_order::<DXGK_NATIVE_FENCE_CAPS>();
        is_in_order::<DXGK_USERMODESUBMISSION_CAPS>();
        is_in_order::<DXGK_GPUMMUCAPS>();
        is_in_order::<DXGK_PAGE_TABLE_LEVEL_DESC>();
    }

    #[test]
    fn the_first_member_that_was_left_out_is_told_also_in_front_of_others() {
        let members = DXGK_PAGE_TABLE_LEVEL_DESC::MEMBERS;
        let left_out = |places: &[usize]| {
            let mut buffer = Buffer::patterned(20);
            let bytes = buffer.memory.bytes_mut();
            (0..20).filter(|place| !places.contains(&(place / 4))).for_each(|place| bytes[place] = 0);
            buffer.unwritten(members, 20).map(|unwritten| (unwritten.written, unwritten.member))
        };
        assert_eq!(left_out(&[]), None);
        assert_eq!(left_out(&[1, 3]), Some((20, Some("DXGK_PAGE_TABLE_LEVEL_DESC.PageTableSegmentId"))));
        assert_eq!(left_out(&[4]), Some((16, Some("DXGK_PAGE_TABLE_LEVEL_DESC.PageTableAlignmentInBytes"))));
        assert!(Buffer::zeroed(20).unwritten(members, 20).is_none(), "nothing can be told of it");
    }
}
