//! Names of objects for traces. The thunk is this project's own; docs/machine.md says what it does.

use campanile_hw::private::Placement;
use dxgkrnl::DebugName;
use wddm_ddi::status::*;

use super::shared_resource::failed;
use crate::rig::Rig;
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "DebugName", needs UserModeSubmission, behind "names are for the traces of a machine";
    "DebugName.IsKeptForTraces" on Boot::Fresh, "docs/machine.md":
        "Hardware queues, fences and allocations have names, and so do numbered parts of them; a name replaces the one before, an empty one takes it away, and of the names of a process the 4096 latest are kept."
        => kept;
    "DebugName.BadNamesAreRefused" on Boot::Shared, "docs/machine.md":
        "A handle of anything else, a name that is too long, and bytes that are no UTF-8 are refused by name, and the names stay what they were."
        => refusals;
}

fn name(rig: &Rig, object: u32, part: u32, text: &[u8]) -> NTSTATUS {
    // SAFETY: the thunk checks its pointers; the text lives across the call.
    unsafe { (rig.kmt.further().CampanileSetDebugName)(object, part, text.as_ptr().cast(), text.len() as u32) }
}

/// Part and text of the names of an object of the case's process.
fn names(case: &Case<'_>, object: u32) -> Vec<(u32, String)> {
    let all = case.system.machine().debug_names().into_iter();
    let is_it = |name: &DebugName| (name.process, name.object) == (case.process.id(), object);
    all.filter(is_it).map(|name| (name.part, name.text.to_string())).collect()
}

fn kept(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    let memory = rig.create(4096, Placement::System).map_err(failed("memory"))?;
    for (object, part, text) in [
        (fence.handle, 0, "first"),
        (memory, 3, "a part"),
        (fence.handle, 0, "second"),
        (memory, 4, "another part"),
        (memory, 3, ""),
    ] {
        granted(name(&rig, object, part, text.as_bytes()), text)?;
    }
    let expected = vec![(0, "second".to_owned())];
    ensure!(names(case, fence.handle) == expected, "the names of a fence: {:?}", names(case, fence.handle));
    let expected = vec![(4, "another part".to_owned())];
    ensure!(names(case, memory) == expected, "the names of memory: {:?}", names(case, memory));
    for part in 1..=4096 {
        granted(name(&rig, memory, part, b"one of many"), "one of many names")?;
    }
    let (of_fence, of_memory) = (names(case, fence.handle).len(), names(case, memory).len());
    ensure!(
        (of_fence, of_memory) == (0, 4096),
        "{of_fence} and {of_memory} names are kept, which are to be 0 and 4096"
    );
    Ok(())
}

fn refusals(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = rig.fence(0)?;
    granted(name(&rig, fence.handle, 0, "ä".repeat(64).as_bytes()), "a name of 128 bytes")?;
    refused(name(&rig, fence.handle, 0, &[b'n'; 129]), &[STATUS_OBJECT_NAME_INVALID], "a name of 129 bytes")?;
    refused(name(&rig, fence.handle, 0, &[b'n', 0xff]), &[STATUS_INVALID_PARAMETER], "a name that is no UTF-8")?;
    for handle in [0, rig.device, u32::MAX] {
        refused(name(&rig, handle, 0, b"name"), &[STATUS_INVALID_HANDLE], "a name for something else")?;
    }
    // SAFETY: the thunk checks its pointers.
    let nowhere = unsafe { (rig.kmt.further().CampanileSetDebugName)(fence.handle, 0, std::ptr::null(), 4) };
    refused(nowhere, &[STATUS_INVALID_PARAMETER], "a name at NULL")?;
    ensure!(names(case, fence.handle) == vec![(0, "ä".repeat(64))], "the name is not what it was");
    Ok(())
}
