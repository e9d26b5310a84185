//! What the driver sets in the function's configuration space; everything else there is the bus driver's.

use core::ops::ControlFlow;

use crate::dxgk::Dxgk;
use crate::irql::Passive;

/// Offset of the first capability's place.
const CAPABILITIES: u32 = 0x34;
/// Identifier of the PCI Express capability.
const EXPRESS: u8 = 0x10;
/// Device control 2 in it.
const DEVICE_CONTROL_2: u32 = 0x28;
/// AtomicOp Requester Enable.
const ATOMICS_ENABLE: u8 = 1 << 6;
/// Capabilities that fit behind the header of 64 bytes.
const MOST: u32 = 48;

/// Lets the device send atomic requests, with which it signals fences in system memory in one step. A bus on which that is not possible has
/// the bit read as zero; the device then takes two steps.
pub(crate) fn enable_atomics(irql: &Passive, dxgk: &Dxgk) {
    let Some(express) = find_express(|offset| dxgk.read_config(irql, offset)) else { return };
    let at = express + DEVICE_CONTROL_2;
    if let Some(control) = dxgk.read_config(irql, at).filter(|control| control & ATOMICS_ENABLE == 0) {
        dxgk.write_config(irql, at, control | ATOMICS_ENABLE);
    }
}

/// The place of the PCI Express capability in a list that may be anything.
fn find_express(read: impl Fn(u32) -> Option<u8>) -> Option<u32> {
    let first = u32::from(read(CAPABILITIES)? & !3);
    let found = (0..MOST).try_fold(first, |at, _| match at {
        ..0x40 => ControlFlow::Break(None),
        at if read(at) == Some(EXPRESS) => ControlFlow::Break(Some(at)),
        at => match read(at + 1) {
            Some(next) => ControlFlow::Continue(u32::from(next & !3)),
            None => ControlFlow::Break(None),
        },
    });
    found.break_value().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_capabilities_that_goes_wrong_leads_nowhere() {
        let mut space = [0_u8; 256];
        let find = |space: &[u8; 256]| find_express(|at| space.get(at as usize).copied());
        assert_eq!(find(&space), None);
        (space[0x34], space[0x40], space[0x41]) = (0x40, 1, 0x60);
        (space[0x60], space[0x61]) = (EXPRESS, 0);
        assert_eq!(find(&space), Some(0x60));
        (space[0x60], space[0x61]) = (5, 0x40);
        assert_eq!(find(&space), None, "a circle");
        space[0x61] = 0xfc;
        assert_eq!(find(&space), None, "the end of the space");
        space[0x41] = 0x10;
        assert_eq!(find(&space), None, "inside the header");
        assert_eq!(find_express(|_| None), None);
    }
}
