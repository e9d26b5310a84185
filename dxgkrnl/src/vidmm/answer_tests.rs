//! Answers of DxgkDdiCreateAllocation that the memory manager accepts, and those that it refuses.

use super::*;
use crate::caps::Segment;
use crate::vidmm::memory::PRIORITY_NORMAL;
use nt::ram::Ram;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;

/// Segment 1 aperture, 2 memory that the CPU sees, 3 memory that it does not.
fn segments() -> Segments {
    let segment = |id, aperture, cpu_address| Segment {
        id,
        size: 16 << 20,
        flags: DXGK_SEGMENTFLAGS::new().with_Aperture(aperture),
        cpu_address,
        ..Segment::default()
    };
    let list = [segment(1, true, None), segment(2, false, Some(1 << 40)), segment(3, false, None)];
    Segments::new(Ram::new(1 << 20).unwrap(), &list)
}

fn good() -> DXGK_ALLOCATIONINFO {
    let mut info = DXGK_ALLOCATIONINFO::zeroed();
    info.hAllocation = core::ptr::without_provenance_mut(0x1234);
    info.Size = 5000;
    info.SupportedWriteSegmentSet = 0b111;
    info.EvictionSegmentSet = 0b1;
    info.AllocationPriority = PRIORITY_NORMAL;
    info
}

fn broken(change: impl FnOnce(&mut DXGK_ALLOCATIONINFO)) -> &'static str {
    let mut info = good();
    change(&mut info);
    check(&info, &segments(), false, Backing::New).expect_err("the answer breaks a rule")
}

#[test]
fn sizes_are_whole_pages_and_open_segments_are_used_local_memory_first() {
    let answer = check(&good(), &segments(), false, Backing::New).unwrap();
    assert_eq!((answer.size, answer.alignment, answer.cpu_access), (8192, 4096, CpuAccess::None));
    assert_eq!(answer.placements[..4], [2, 3, 1, 0]);
    let mut info = good();
    info.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(3).with_SegmentId1(1);
    assert_eq!(check(&info, &segments(), false, Backing::New).unwrap().placements[..4], [3, 1, 2, 0]);
}

#[test]
fn each_rule_for_the_answer_is_enforced_by_name() {
    assert!(broken(|info| info.hAllocation = core::ptr::null_mut()).contains("hAllocation"));
    assert!(broken(|info| info.Size = 0).contains("Size"));
    assert!(broken(|info| info.Size = usize::MAX).contains("Size"));
    assert!(broken(|info| info.Size = 1 << 40).contains("Size"));
    assert!(broken(|info| info.SupportedWriteSegmentSet = 0).contains("SupportedWriteSegmentSet"));
    assert!(broken(|info| info.SupportedWriteSegmentSet = 0b1001).contains("SupportedWriteSegmentSet"));
    assert!(broken(|info| info.EvictionSegmentSet = 0b10).contains("EvictionSegmentSet"));
    for alignment in [12288, 3, 100] {
        assert!(broken(|info| info.u.Alignment = alignment).contains("Alignment"), "{alignment}");
    }
    let mut small = good();
    small.u.Alignment = 256;
    assert_eq!(check(&small, &segments(), false, Backing::New).unwrap().alignment, 4096);
    let flags = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new;
    let wrong = [
        (DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::from_bits(1 << 12), "a reserved bit in FlagsWddm2"),
        (DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::from_bits(1 << 31), "a reserved bit in FlagsWddm2"),
        (flags().with_Overlay(true), "Overlay or Capture"),
        (flags().with_Capture(true), "Overlay or Capture"),
        (flags().with_Protected(true).with_PermanentSysMem(true), "Protected with PermanentSysMem"),
        (flags().with_Cached(true), "Cached without CpuVisible"),
        (flags().with_PermanentSysMem(true), "PermanentSysMem without CpuVisible"),
    ];
    for (flags, rule) in wrong {
        assert!(broken(|info| info.u3.FlagsWddm2 = flags).contains(rule), "{rule}");
    }
    assert!(broken(|info| info.AllocationPriority = 0).contains("AllocationPriority"));
    assert!(
        broken(|info| {
            info.SupportedWriteSegmentSet = 0b1;
            info.PreferredSegment = D3DDDI_SEGMENTPREFERENCE::new().with_SegmentId0(2);
        })
        .contains("PreferredSegment")
    );
    let flags = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new();
    assert!(
        broken(|info| {
            info.SupportedWriteSegmentSet = 0b110;
            info.u3.FlagsWddm2 = flags.with_CpuVisible(true);
        })
        .contains("CpuVisible")
    );
    assert!(
        broken(|info| {
            info.SupportedWriteSegmentSet = 0b010;
            info.u3.FlagsWddm2 = flags.with_CpuVisible(true).with_Cached(true);
        })
        .contains("Cached")
    );
    let mut info = good();
    info.u3.FlagsWddm2 = flags.with_MapApertureCpuVisible(true);
    assert!(check(&info, &segments(), false, Backing::New).unwrap_err().contains("MapAperture2Supported"));
    assert!(check(&info, &segments(), true, Backing::New).is_ok());
}

/// No operation tells a driver of residency or has it map an aperture segment. [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0]
#[test]
fn flags_that_ask_for_operations_which_are_never_sent_are_refused_by_name() {
    let flags = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new;
    let physically = flags().with_AccessedPhysically(true);
    for (flags, rule) in [
        (physically, "FlagsWddm2.AccessedPhysically is 1"),
        (physically.with_ExplicitResidencyNotification(true), "FlagsWddm2.AccessedPhysically is 1"),
        (
            flags().with_ExplicitResidencyNotification(true),
            "ExplicitResidencyNotification is 1 without AccessedPhysically",
        ),
    ] {
        assert!(broken(|info| info.u3.FlagsWddm2 = flags).contains(rule), "{rule}");
    }
}

#[test]
fn memory_of_a_program_is_taken_as_the_driver_says_and_through_apertures_alone() {
    let flags = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new().with_ExistingSysMem(true);
    let with = |flags, backing| {
        let mut info = good();
        info.u3.FlagsWddm2 = flags;
        check(&info, &segments(), false, backing)
    };
    let none = DXGK_ALLOCATIONINFOFLAGS_WDDM2_0::new();
    for (flags, backing) in [(flags, Backing::Program), (flags, Backing::Heap(8192)), (none, Backing::Heap(8192))] {
        assert_eq!(with(flags, backing).unwrap().placements[..2], [1, 0], "{backing:?}");
    }
    for (flags, backing, rule) in [
        (flags, Backing::New, "gave no memory"),
        (none, Backing::Program, "no ExistingSysMem"),
        (none, Backing::Heap(4096), "Size"),
        (none.with_ExistingKernelSysMem(true), Backing::New, "ExistingKernelSysMem"),
        (flags.with_Protected(true), Backing::Program, "Protected"),
        (flags.with_PermanentSysMem(true), Backing::Program, "PermanentSysMem"),
    ] {
        let broken = with(flags, backing).unwrap_err();
        assert!(broken.contains(rule), "{broken}");
    }
    let mut info = good();
    info.SupportedWriteSegmentSet = 0b110;
    assert!(check(&info, &segments(), false, Backing::Heap(8192)).unwrap_err().contains("no aperture"));
}
