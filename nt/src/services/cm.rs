//! Ranges of addresses in resource descriptors, also of more than 4 GiB. [wdm: CM_PARTIAL_RESOURCE_DESCRIPTOR]

use std::ffi::c_void;

use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL};

use super::memory::{field, get, put, put_if};
use crate::driver::Export;

pub(super) const EXPORTS: &[Export] = &[
    ("RtlCmDecodeMemIoResource", || rtl_cm_decode_mem_io_resource as *const () as usize),
    ("RtlCmEncodeMemIoResource", || rtl_cm_encode_mem_io_resource as *const () as usize),
];

/// Types of resources. [wdm: CmResourceTypePort and its kin]
const PORT: u8 = 1;
const MEMORY: u8 = 3;
const MEMORY_LARGE: u8 = 7;
/// Offsets of the structure, which is packed to 32 bits.
const FLAGS: usize = 2;
const START: usize = 4;
const LENGTH: usize = 12;
/// Flags of large memory, and how far its length is shifted. [wdm: CM_RESOURCE_MEMORY_LARGE_40 and its kin]
const LARGE: [(u16, u32); 3] = [(0x200, 8), (0x400, 16), (0x800, 32)];
const LARGE_FLAGS: u16 = 0xe00;

/// Length of the range; its start goes where the driver wants it.
extern "win64" fn rtl_cm_decode_mem_io_resource(descriptor: *mut c_void, start: *mut u64) -> u64 {
    const NAME: &str = "RtlCmDecodeMemIoResource";
    let kind: u8 = get(NAME, descriptor.cast());
    let [low, high]: [u32; 2] = get(NAME, field(descriptor, START));
    put_if(NAME, start, u64::from(high) << 32 | u64::from(low));
    let (flags, length) = (get::<u16>(NAME, field(descriptor, FLAGS)), get::<u32>(NAME, field(descriptor, LENGTH)));
    let large = LARGE.iter().find(|(flag, _)| kind == MEMORY_LARGE && flags & flag != 0);
    u64::from(length) << large.map_or(0, |(_, shift)| *shift)
}

/// Memory of 4 GiB and more is large memory, whichever of the two types is given.
extern "win64" fn rtl_cm_encode_mem_io_resource(
    descriptor: *mut c_void,
    kind: u8,
    length: u64,
    start: u64,
) -> NTSTATUS {
    const NAME: &str = "RtlCmEncodeMemIoResource";
    if ![PORT, MEMORY, MEMORY_LARGE].contains(&kind) {
        return STATUS_INVALID_PARAMETER;
    }
    let fits = |(_, shift): &&(u16, u32)| length >> shift <= u64::from(u32::MAX) && length.trailing_zeros() >= *shift;
    let (kind, flag, shift) = match (u32::try_from(length), kind, LARGE.iter().find(fits)) {
        (Ok(_), PORT, _) => (PORT, 0, 0),
        (Ok(_), ..) => (MEMORY, 0, 0),
        (Err(_), MEMORY | MEMORY_LARGE, Some((flag, shift))) => (MEMORY_LARGE, *flag, *shift),
        _ => return STATUS_UNSUCCESSFUL,
    };
    let flags: u16 = get(NAME, field(descriptor, FLAGS));
    put(NAME, descriptor.cast(), kind);
    put(NAME, field(descriptor, FLAGS), flags & !LARGE_FLAGS | flag);
    put(NAME, field(descriptor, START), [start as u32, (start >> 32) as u32]);
    put(NAME, field(descriptor, LENGTH), (length >> shift) as u32);
    STATUS_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    #[test]
    fn what_can_be_said_in_a_descriptor_is_read_as_it_was_written() {
        let driver = Driver::for_tests("resources");
        driver_call::run(&driver, "a function", || {
            const CACHED: u16 = 0x80;
            for (kind, length, expected) in [
                (PORT, 8, Some((PORT, 0))),
                (MEMORY, 0xffff_ffff, Some((MEMORY, 0))),
                (MEMORY_LARGE, 0x1000, Some((MEMORY, 0))),
                (MEMORY, 1 << 32, Some((MEMORY_LARGE, 0x200))),
                (MEMORY_LARGE, 0x1234_5678_0000, Some((MEMORY_LARGE, 0x400))),
                (MEMORY_LARGE, 0xffff_0001_0000_0000, Some((MEMORY_LARGE, 0x800))),
                (MEMORY_LARGE, (1 << 32) + 1, None),
                (PORT, 1 << 32, None),
            ] {
                let mut descriptor = [0_u32; 5];
                descriptor[0] = u32::from(CACHED | 0x800) << 16;
                let at: *mut c_void = descriptor.as_mut_ptr().cast();
                let status = rtl_cm_encode_mem_io_resource(at, kind, length, 0x12_3456_7000);
                let Some((kind, flag)) = expected else {
                    assert_eq!((status, descriptor[1..].iter().sum::<u32>()), (STATUS_UNSUCCESSFUL, 0), "{length:#x}");
                    continue;
                };
                assert_eq!(status, STATUS_SUCCESS);
                assert_eq!(descriptor[0], u32::from(CACHED | flag) << 16 | u32::from(kind), "{length:#x}");
                let mut start = 0;
                assert_eq!(rtl_cm_decode_mem_io_resource(at, &raw mut start), length);
                assert_eq!(start, 0x12_3456_7000);
                assert_eq!(rtl_cm_decode_mem_io_resource(at, std::ptr::null_mut()), length);
            }
            let mut descriptor = [0_u32; 5];
            let at = descriptor.as_mut_ptr().cast();
            assert_eq!(rtl_cm_encode_mem_io_resource(at, 2, 1, 1), STATUS_INVALID_PARAMETER);
        })
        .0
        .unwrap();
        assert_eq!(driver.verifier().bugcheck(), None);
    }
}
