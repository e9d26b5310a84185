//! Comparison of versions, processors by number, and random numbers.

use std::ffi::c_void;

use wddm_ddi::nt::APC_LEVEL;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_REVISION_MISMATCH, STATUS_SUCCESS};

use super::call::{irql_too_high, require_passive};
use super::memory::{field, get, put};
use super::misc::{processors, rtl_get_version};
use crate::driver::Export;
use crate::driver_call::stop;
use crate::irql;

pub(super) const EXPORTS: &[Export] = &[
    ("RtlVerifyVersionInfo", || rtl_verify_version_info as *const () as usize),
    ("VerSetConditionMask", || ver_set_condition_mask as *const () as usize),
    ("KeGetProcessorIndexFromNumber", || ke_get_processor_index_from_number as *const () as usize),
    ("KeGetProcessorNumberFromIndex", || ke_get_processor_number_from_index as *const () as usize),
    ("KeQueryActiveProcessors", || ke_query_active_processors as *const () as usize),
    ("KeQueryMaximumProcessorCount", || processors_at_most as *const () as usize),
    ("KeQueryActiveGroupCount", || ke_query_group_count as *const () as usize),
    ("KeQueryMaximumGroupCount", || ke_query_group_count as *const () as usize),
    ("KeSetTargetProcessorDpc", || ke_set_target_processor_dpc as *const () as usize),
    ("KeSetTargetProcessorDpcEx", || ke_set_target_processor_dpc_ex as *const () as usize),
    ("RtlRandomEx", || rtl_random_ex as *const () as usize),
];

/// Size of RTL_OSVERSIONINFOEXW.
const SIZE: u32 = 284;
/// Bits of the type mask. The position of a bit is that of its condition in the condition mask. [wdm: RtlVerifyVersionInfo]
const MINOR: u32 = 0;
const MAJOR: u32 = 1;
const BUILD: u32 = 2;
const PLATFORM: u32 = 3;
const SERVICE_PACK_MINOR: u32 = 4;
const SERVICE_PACK_MAJOR: u32 = 5;
const SUITE: u32 = 6;
const PRODUCT_TYPE: u32 = 7;
const BITS_OF_CONDITION: u32 = 3;
/// Offset of the processor in a KDPC. [wdm: KDPC]
const DPC_NUMBER: usize = 2;

/// The condition takes the place of the highest type in the mask. [wdm: VerSetConditionMask]
extern "win64" fn ver_set_condition_mask(mask: u64, kinds: u32, condition: u8) -> u64 {
    match (kinds & 0xff).checked_ilog2() {
        Some(kind) => mask | u64::from(condition & 7) << (kind * BITS_OF_CONDITION),
        None => mask,
    }
}

/// What a condition of the condition mask says of a number of this system and the number that was asked for; none if there is no such condition.
fn holds(condition: u8, system: u32, asked: u32) -> Option<bool> {
    Some(match condition {
        1 => system == asked,
        2 => system > asked,
        3 => system >= asked,
        4 => system < asked,
        5 => system <= asked,
        _ => return None,
    })
}

/// As [`holds`], of sets of product suites: all that were asked for, or one of them.
fn suite_holds(condition: u8, system: u32, asked: u32) -> Option<bool> {
    match condition {
        6 => Some(system & asked == asked),
        7 => Some(asked == 0 || system & asked != 0),
        _ => None,
    }
}

/// The member of RTL_OSVERSIONINFOEXW that a type names.
fn member(service: &'static str, version: *mut c_void, kind: u32) -> u32 {
    match kind {
        MAJOR => get(service, field(version, 4)),
        MINOR => get(service, field(version, 8)),
        BUILD => get(service, field(version, 12)),
        PLATFORM => get(service, field(version, 16)),
        SERVICE_PACK_MAJOR => get::<u16>(service, field(version, 276)).into(),
        SERVICE_PACK_MINOR => get::<u16>(service, field(version, 278)).into(),
        SUITE => get::<u16>(service, field(version, 280)).into(),
        _ => get::<u8>(service, field(version, 282)).into(),
    }
}

/// The version and the service pack are one number of several parts: a part decides only if those before it are equal.
extern "win64" fn rtl_verify_version_info(asked: *mut c_void, kinds: u32, conditions: u64) -> NTSTATUS {
    const NAME: &str = "RtlVerifyVersionInfo";
    require_passive(NAME);
    let mut system = [0_u32; SIZE as usize / 4];
    system[0] = SIZE;
    let system: *mut c_void = system.as_mut_ptr().cast();
    // It always succeeds.
    let _ = rtl_get_version(system);
    let wanted = |kind: &u32| kinds >> kind & 1 != 0;
    let judge = |kind: u32| {
        let condition = (conditions >> (kind * BITS_OF_CONDITION) & 7) as u8;
        let (is, asked) = (member(NAME, system, kind), member(NAME, asked, kind));
        let rule = if kind == SUITE { suite_holds } else { holds };
        rule(condition, is, asked).map(|holds| (holds, is == asked))
    };
    if kinds & 0xff == 0 || conditions == 0 {
        return STATUS_INVALID_PARAMETER;
    }
    let mut matches = true;
    for kind in [PRODUCT_TYPE, SUITE, PLATFORM, BUILD].into_iter().filter(wanted) {
        let Some((holds, _)) = judge(kind) else { return STATUS_INVALID_PARAMETER };
        matches &= holds;
    }
    let (mut decided, mut version) = (false, true);
    for kind in [MAJOR, MINOR, SERVICE_PACK_MAJOR, SERVICE_PACK_MINOR].into_iter().filter(wanted) {
        let Some((holds, equal)) = judge(kind) else { return STATUS_INVALID_PARAMETER };
        if !decided {
            (decided, version) = (!equal, holds);
        }
    }
    if matches && version { STATUS_SUCCESS } else { STATUS_REVISION_MISMATCH }
}

/// INVALID_PROCESSOR_INDEX for a processor that there is not. There is one group, in which a processor has its index as number.
extern "win64" fn ke_get_processor_index_from_number(number: *mut c_void) -> u32 {
    const INVALID_PROCESSOR_INDEX: u32 = u32::MAX;
    const NAME: &str = "KeGetProcessorIndexFromNumber";
    let group: u16 = get(NAME, number.cast());
    let [number, reserved]: [u8; 2] = get(NAME, field(number, 2));
    let exists = group == 0 && reserved == 0 && u32::from(number) < processors();
    if exists { number.into() } else { INVALID_PROCESSOR_INDEX }
}

extern "win64" fn ke_get_processor_number_from_index(index: u32, number: *mut c_void) -> NTSTATUS {
    let Some(index) = u8::try_from(index).ok().filter(|_| index < processors()) else {
        return STATUS_INVALID_PARAMETER;
    };
    put("KeGetProcessorNumberFromIndex", number.cast(), [0, 0, index, 0]);
    STATUS_SUCCESS
}

/// A bit for each processor, which only their number is to be taken from.
extern "win64" fn ke_query_active_processors() -> usize {
    usize::MAX >> usize::BITS.saturating_sub(processors()).min(usize::BITS - 1)
}

/// No processor comes later.
extern "win64" fn processors_at_most() -> u32 {
    processors()
}

/// All processors are of one group.
extern "win64" fn ke_query_group_count() -> u16 {
    1
}

/// Keeps the number, as far as there is such a processor. All DPCs of a driver run on one thread, whatever processor that is on.
extern "win64" fn ke_set_target_processor_dpc(dpc: *mut c_void, number: i8) {
    if u32::try_from(number).is_ok_and(|number| number < processors()) {
        put("KeSetTargetProcessorDpc", field(dpc, DPC_NUMBER), number as u16);
    }
}

/// As [`ke_set_target_processor_dpc`].
extern "win64" fn ke_set_target_processor_dpc_ex(dpc: *mut c_void, number: *mut c_void) -> NTSTATUS {
    match u16::try_from(ke_get_processor_index_from_number(number)) {
        Ok(index) => {
            put("KeSetTargetProcessorDpcEx", field(dpc, DPC_NUMBER), index);
            STATUS_SUCCESS
        }
        Err(_) => STATUS_INVALID_PARAMETER,
    }
}

/// A number from 0 to the greatest LONG less 1, and the seed of the next one. The sequence is not that of Windows, which no page gives.
extern "win64" fn rtl_random_ex(seed: *mut u32) -> u32 {
    const NAME: &str = "RtlRandomEx";
    const MAXLONG: u64 = 0x7fff_ffff;
    if irql::current() > APC_LEVEL {
        stop(irql_too_high(NAME, seed.addr() as u64));
    }
    // A congruential generator that visits every seed, and a mixing of its bits.
    let next = get(NAME, seed).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    put(NAME, seed, next);
    let mixed = (next ^ next >> 16).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    ((u64::from(mixed ^ mixed >> 16) * MAXLONG) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    fn run<T>(function: impl FnOnce() -> T) -> T {
        driver_call::run(&Driver::for_tests("version"), "a function", function).0.unwrap()
    }

    /// The answer for a version `major.minor.build`, with one condition for each of the types in the mask.
    fn verify([major, minor, build]: [u32; 3], kinds: u32, condition: u8) -> NTSTATUS {
        let mut asked = [0_u32; 71];
        asked[..4].copy_from_slice(&[SIZE, major, minor, build]);
        let mask = (0..8).filter(|kind| kinds >> kind & 1 != 0);
        let mask = mask.fold(0, |mask, kind| ver_set_condition_mask(mask, 1 << kind, condition));
        run(|| rtl_verify_version_info(asked.as_mut_ptr().cast(), kinds, mask))
    }

    #[test]
    fn a_condition_takes_three_bits_at_the_place_of_its_type() {
        assert_eq!(ver_set_condition_mask(0, 2, 3), 0x18);
        assert_eq!(ver_set_condition_mask(0x18, 1, 3), 0x1b);
        assert_eq!(ver_set_condition_mask(0, 0x80, 1), 1 << 21);
        assert_eq!(ver_set_condition_mask(5, 0, 1), 5);
    }

    #[test]
    fn a_part_of_the_version_decides_only_if_those_before_it_are_equal() {
        const GREATER_EQUAL: u8 = 3;
        const LESS: u8 = 4;
        assert_eq!(verify([10, 0, 0], 3, GREATER_EQUAL), STATUS_SUCCESS);
        assert_eq!(verify([6, 3, 0], 3, GREATER_EQUAL), STATUS_SUCCESS);
        assert_eq!(verify([10, 1, 0], 3, GREATER_EQUAL), STATUS_REVISION_MISMATCH);
        assert_eq!(verify([11, 0, 0], 3, LESS), STATUS_SUCCESS);
        assert_eq!(verify([10, 0, 26100], 7, 1), STATUS_SUCCESS);
        assert_eq!(verify([10, 0, 22000], 7, 1), STATUS_REVISION_MISMATCH);
    }

    #[test]
    fn a_comparison_without_types_or_conditions_is_refused() {
        assert_eq!(verify([10, 0, 0], 0, 1), STATUS_INVALID_PARAMETER);
        assert_eq!(verify([10, 0, 0], 2, 0), STATUS_INVALID_PARAMETER);
        assert_eq!(verify([10, 0, 0], 2, 6), STATUS_INVALID_PARAMETER);
    }

    #[test]
    fn processors_have_one_group_and_their_index_as_number() {
        run(|| {
            let mut number = [0xff_u8; 4];
            let place: *mut c_void = number.as_mut_ptr().cast();
            let last = processors().min(256) - 1;
            assert_eq!(ke_get_processor_number_from_index(last, place), STATUS_SUCCESS);
            assert_eq!(ke_get_processor_index_from_number(place), last);
            assert_eq!(ke_get_processor_number_from_index(processors(), place), STATUS_INVALID_PARAMETER);
            let mut elsewhere = [1_u8, 0, 0, 0];
            let elsewhere: *mut c_void = elsewhere.as_mut_ptr().cast();
            assert_eq!(ke_get_processor_index_from_number(elsewhere), u32::MAX);
            assert_eq!((ke_query_group_count(), processors_at_most()), (1, processors()));
            assert_eq!(ke_query_active_processors().count_ones(), processors().min(64));
            let mut dpc = [0_u8; 64];
            let dpc_place: *mut c_void = dpc.as_mut_ptr().cast();
            ke_set_target_processor_dpc(dpc_place, -1);
            assert_eq!(dpc, [0; 64], "there is no such processor");
            assert_eq!(ke_set_target_processor_dpc_ex(dpc_place, elsewhere), STATUS_INVALID_PARAMETER);
            assert_eq!(ke_set_target_processor_dpc_ex(dpc_place, place), STATUS_SUCCESS);
            assert_eq!(dpc[2..4], (last as u16).to_le_bytes());
            ke_set_target_processor_dpc(dpc_place, 0);
            assert_eq!(dpc, [0; 64]);
        });
    }

    #[test]
    fn random_numbers_follow_from_the_seed_and_stay_below_the_greatest_long() {
        let draw = |seed: u32| {
            let mut seed = seed;
            run(|| (0..1000).map(|_| rtl_random_ex(&raw mut seed)).collect::<Vec<_>>())
        };
        let numbers = draw(7);
        assert_eq!(numbers, draw(7));
        assert_ne!(numbers, draw(8));
        assert!(numbers.iter().all(|number| *number < 0x7fff_ffff));
        let upper = numbers.iter().filter(|number| **number >= 0x4000_0000).count();
        assert!((400..600).contains(&upper), "{upper} of 1000 in the upper half");
    }
}
