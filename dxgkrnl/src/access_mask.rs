//! Generic rights of an access mask, and the specific ones that they stand for with objects of one type. [winnt: ACCESS_MASK; wdm: GENERIC_MAPPING]

/// Least standard right: an object may be read. [winnt: STANDARD_RIGHTS_READ]
pub(crate) const STANDARD_RIGHTS_READ: u32 = 0x0002_0000;
const GENERIC_READ: u32 = 0x8000_0000;
const GENERIC_WRITE: u32 = 0x4000_0000;
const GENERIC_EXECUTE: u32 = 0x2000_0000;
const GENERIC_ALL: u32 = 0x1000_0000;
/// Every right that the caller may have, which is all of them: whoever has the object is of the same user. [winnt: MAXIMUM_ALLOWED]
const MAXIMUM_ALLOWED: u32 = 0x0200_0000;

/// What the generic rights stand for with one type of objects. [wdm: GENERIC_MAPPING]
pub(crate) struct GenericMapping {
    pub(crate) read: u32,
    pub(crate) write: u32,
    pub(crate) execute: u32,
    pub(crate) all: u32,
}

impl GenericMapping {
    /// The specific and standard rights that are asked for. [wdm: RtlMapGenericMask]
    pub(crate) fn map(&self, desired: u32) -> u32 {
        let stands_for = [
            (GENERIC_READ, self.read),
            (GENERIC_WRITE, self.write),
            (GENERIC_EXECUTE, self.execute),
            (GENERIC_ALL | MAXIMUM_ALLOWED, self.all),
        ];
        let generic = stands_for.iter().fold(0, |all, (asked, _)| all | asked);
        let mapped = stands_for.iter().filter(|(asked, _)| desired & asked != 0);
        mapped.fold(desired & !generic, |rights, (_, given)| rights | given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_rights_are_replaced_and_others_stay() {
        let mapping = GenericMapping { read: 1, write: 2, execute: 4, all: 0x1f };
        for (desired, expected) in [
            (0, 0),
            (0x0002_0008, 0x0002_0008),
            (GENERIC_READ, 1),
            (GENERIC_WRITE | GENERIC_EXECUTE | 0x100, 0x106),
            (GENERIC_ALL, 0x1f),
            (MAXIMUM_ALLOWED, 0x1f),
        ] {
            assert_eq!(mapping.map(desired), expected, "{desired:#x}");
        }
    }
}
