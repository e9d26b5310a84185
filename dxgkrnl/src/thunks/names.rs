//! Names of shared objects, and what is opened by them.

use std::ffi::c_void;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use crate::fence::Rights;
use crate::machine::{KernelObject, SharedSync};
use crate::refusal::{Failure, refused};

use super::call::enter;
use super::user;

/// Words of an OBJECT_ATTRIBUTES structure. [wdm: OBJECT_ATTRIBUTES]
const ATTRIBUTES_WORDS: u32 = 6;
/// Longest name, in bytes.
const NAME_MAX: u32 = 1024;

/// Where the ObjectName of an OBJECT_ATTRIBUTES lies in user mode, 0 without one.
fn text_of_attributes(attributes: *const c_void) -> Result<u64, Failure> {
    let words = user::read_array(attributes.cast::<u64>(), ATTRIBUTES_WORDS)?;
    let &[length, root, name, ..] = words.as_slice() else { return Err(STATUS_INVALID_PARAMETER.into()) };
    if length as u32 != ATTRIBUTES_WORDS * 8 || root != 0 {
        let (length, expected) = (length as u32, ATTRIBUTES_WORDS * 8);
        let why = format!(
            "Length of the OBJECT_ATTRIBUTES is {length}, and expected is {expected}, or RootDirectory is not NULL"
        );
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    Ok(name)
}

/// Refuses an OBJECT_ATTRIBUTES of user mode with a name.
///
/// # Errors
/// STATUS_INVALID_PARAMETER_MIX for one with a name; otherwise as [`of_attributes`].
pub(super) fn check_nameless(attributes: *const c_void) -> Result<(), Failure> {
    let why =
        || refused(STATUS_INVALID_PARAMETER_MIX, "ObjectName of the OBJECT_ATTRIBUTES is not NULL beside ClientId");
    if text_of_attributes(attributes)? == 0 { Ok(()) } else { Err(why()) }
}

/// The name in an OBJECT_ATTRIBUTES of user mode; `None` without one. Names are compared unit by unit: folders of names, their letter case and
/// RootDirectory are the object manager's, which this system has none of.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for another length of the structure, and for a RootDirectory; STATUS_OBJECT_NAME_INVALID for a name that is empty, cut
/// inside a unit or too long; STATUS_ACCESS_VIOLATION.
pub(super) fn of_attributes(attributes: *const c_void) -> Result<Option<Vec<u16>>, Failure> {
    let name = text_of_attributes(attributes)?;
    if name == 0 {
        return Ok(None);
    }
    let text = user::read_array(std::ptr::with_exposed_provenance::<u64>(name as usize), 2)?;
    let &[lengths, buffer] = text.as_slice() else { return Err(STATUS_INVALID_PARAMETER.into()) };
    let bytes = lengths as u32 & 0xffff;
    if bytes == 0 || !bytes.is_multiple_of(2) || bytes > NAME_MAX {
        let why = format!("ObjectName has {bytes} bytes, and expected is an even number of 2 to {NAME_MAX}");
        return Err(refused(STATUS_OBJECT_NAME_INVALID, why));
    }
    let bytes = user::read_array(std::ptr::with_exposed_provenance::<u8>(buffer as usize), bytes)?;
    let unit = |pair: &[u8]| match *pair {
        [low, high] => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    Ok(Some(bytes.chunks_exact(2).map(unit).collect()))
}

fn name(attributes: *mut c_void) -> Result<Vec<u16>, Failure> {
    let nameless = || refused(STATUS_INVALID_PARAMETER, "pObjAttrib is NULL or has no ObjectName");
    if attributes.is_null() {
        return Err(nameless());
    }
    of_attributes(attributes)?.ok_or_else(nameless)
}

/// Opens the shared synchronization object with a name: a kernel handle, of a fence with an address with the access that is asked for and that the sharer had.
/// Errors: STATUS_OBJECT_NAME_NOT_FOUND; STATUS_OBJECT_TYPE_MISMATCH for the name of a resource. [d3dkmthk: D3DKMTOpenSyncObjectNtHandleFromName]
pub(super) unsafe extern "win64" fn open_sync_object_nt_handle_from_name(
    args: *mut D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME,
) -> NTSTATUS {
    enter("D3DKMTOpenSyncObjectNtHandleFromName", args, |process, args| {
        let name = name(args.pObjAttrib.cast())?;
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let object = match machine.sync_named(&name)? {
            SharedSync::Fence(fence, rights) => {
                let granted = Rights::of_access(args.dwDesiredAccess).map(|granted| granted.and(rights));
                KernelObject::SharedFence(fence, granted)
            }
            SharedSync::Older(object) => KernelObject::OlderSync(object),
        };
        args.hNtHandle = process.insert_kernel(object)?;
        Ok(STATUS_SUCCESS)
    })
}

/// Opens the shared resource with a name: a kernel handle with the access that is asked for.
/// Errors: STATUS_OBJECT_NAME_NOT_FOUND; STATUS_OBJECT_TYPE_MISMATCH for the name of a fence. [d3dkmthk: D3DKMTOpenNtHandleFromName]
pub(super) unsafe extern "win64" fn open_nt_handle_from_name(args: *mut D3DKMT_OPENNTHANDLEFROMNAME) -> NTSTATUS {
    enter("D3DKMTOpenNtHandleFromName", args, |process, args| {
        let name = name(args.pObjAttrib.cast())?;
        let machine = process.whole_machine().ok_or(STATUS_DEVICE_REMOVED)?;
        let object = KernelObject::SharedResource(machine.resource_named(&name)?, args.dwDesiredAccess);
        args.hNtHandle = process.insert_kernel(object.clone())?;
        Ok(STATUS_SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thunks::user::tests::attached;

    #[test]
    fn attributes_have_their_length_and_perhaps_a_name() {
        let _attached = attached();
        let units: Vec<u16> = "fence".encode_utf16().collect();
        let text = [10u64 | 10 << 16, units.as_ptr().expose_provenance() as u64];
        let name = text.as_ptr().expose_provenance() as u64;
        let of = |words: [u64; 6]| of_attributes(words.as_ptr().cast());
        assert_eq!(of([48, 0, 0, 0, 0, 0]), Ok(None));
        assert_eq!(of([48, 0, name, 0, 0, 0]), Ok(Some(units.clone())));
        assert_eq!(of([40, 0, 0, 0, 0, 0]), Err(STATUS_INVALID_PARAMETER.into()));
        assert_eq!(of([48, 1, name, 0, 0, 0]), Err(STATUS_INVALID_PARAMETER.into()));
        assert_eq!(of([48, 0, 8, 0, 0, 0]), Err(STATUS_ACCESS_VIOLATION.into()));
        let odd = [3u64, text[1]];
        assert_eq!(
            of([48, 0, odd.as_ptr().expose_provenance() as u64, 0, 0, 0]),
            Err(STATUS_OBJECT_NAME_INVALID.into())
        );
    }
}
