//! The values of fences, as the driver is told of them: one DDI call for those of several fences. [native-gpu-fence-objects:
//! instructing the driver to update batches of values]

use std::ffi::c_void;

use nt::bugcheck::Bugcheck;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_SUCCESS;
use wddm_ddi::types::HANDLE;

use crate::rescue::Rescue;
use crate::vidsch::objects::call_mapping::CallMapping;
use crate::vidsch::objects::fence::Fence;
use crate::vidsch::objects::storage::{Word, WordAddress};
use crate::vidsch::report::subcode;
use crate::vidsch::scheduler::VidSch;

/// The arrays of an update, and the kernel addresses, which are good for the call.
struct Arrays<'a> {
    handles: Vec<HANDLE>,
    values: Vec<u64>,
    addresses: Vec<*mut c_void>,
    _mappings: Vec<CallMapping<'a>>,
}

impl<'a> Arrays<'a> {
    fn new(updates: &[(&'a Fence, u64)], word: impl for<'f> Fn(&'f Fence) -> &'f Word) -> Self {
        let mappings: Vec<_> = updates.iter().map(|(fence, _)| fence.sch().map_for_call(word(fence))).collect();
        Self {
            handles: updates
                .iter()
                .map(|(fence, _)| fence.global().map_or(std::ptr::null_mut(), |g| g.raw()))
                .collect(),
            values: updates.iter().map(|(_, value)| *value).collect(),
            addresses: mappings.iter().map(|mapping| mapping.address().cast()).collect(),
            _mappings: mappings,
        }
    }
}

/// What a function that answered success has left at one place of [`Arrays`]. The names are those of the function, of the member that points to the values, and of the page.
/// [d3dkmddi: DXGKDDI_UPDATEMONITOREDVALUES, DXGKDDI_UPDATECURRENTVALUESFROMCPU]
fn unwritten([ddi, member, page]: [&str; 3], place: usize, found: u64, value: u64) -> String {
    format!(
        "{ddi} answered {STATUS_SUCCESS}, and {member}[{place}] points to {found:#x}: expected is {value:#x}, which is UpdatedValueArray[{place}] [d3dkmddi: {page}]"
    )
}

/// Tells the driver new MonitoredValues of native fences of one adapter, in one call at device level. Nothing happens to
/// monitored fences, which have none. The caller has the waits of the fences locked.
pub(in crate::vidsch) fn write_monitored(updates: &[(&Fence, u64)]) {
    let native: Vec<_> = updates.iter().copied().filter(|(fence, _)| fence.is_native()).collect();
    let Some((first, _)) = native.first() else { return };
    let adapter = first.adapter();
    let mut arrays = Arrays::new(&native, Fence::monitored_word);
    let mut args = DXGKARG_UPDATEMONITOREDVALUES::zeroed();
    args.NativeFenceArray = arrays.handles.as_mut_ptr();
    args.UpdatedValueArray = arrays.values.as_mut_ptr();
    args.MonitoredValueKernelCpuVa = arrays.addresses.as_mut_ptr();
    args.NumFences = native.len() as u32;
    let status = adapter.at_device_level(|| adapter.miniport.update_monitored_values(&args)).status();
    first.sch().must_succeed(status, || {
        Bugcheck::scheduler(
            subcode::UPDATE_MONITORED_FAILED,
            status.0 as u32 as u64,
            0,
            0,
            format!("DxgkDdiUpdateMonitoredValues failed with {status}"),
        )
    });
    // Only the driver writes those in memory of the machine, and whoever tells it to has the waits of the fence locked. Local memory may be moved, lost or written back meanwhile.
    let found = |fence: &Fence, value| if fence.is_local().1 { value } else { fence.monitored_word().load() };
    let words = native.iter().map(|(fence, value)| (found(fence, *value), *value));
    let left = words.enumerate().find(|(_, (found, value))| found != value);
    let sch = first.sch();
    if let Some((place, (found, value))) = left
        && sch.is_judged()
    {
        let names = ["DxgkDdiUpdateMonitoredValues", "MonitoredValueKernelCpuVa", "DXGKDDI_UPDATEMONITOREDVALUES"];
        sch.broken(unwritten(names, place, found, value));
    }
}

/// GPU waits on `fence` fall through from now on.
pub(in crate::vidsch) fn write_always_signaled(fence: &Fence) {
    let flags = DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new().with_AlwaysSignaled(true);
    if fence.is_native() {
        write_current(&[(fence, u64::MAX)], flags);
    } else {
        fence.write_current(u64::MAX);
    }
}

/// Tells the driver that the CurrentValue of a native fence was written by somebody else. Nothing happens to a monitored fence,
/// for which no GPU waits.
pub(in crate::vidsch) fn notify(fence: &Fence) {
    if fence.is_native() {
        let flags = DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new().with_NotificationOnly(true);
        write_current(&[(fence, fence.current())], flags);
    }
}

/// Has the driver write CurrentValues of native fences of one adapter, in one call.
pub(in crate::vidsch) fn write_current(updates: &[(&Fence, u64)], flags: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS) {
    let Some((first, _)) = updates.first() else { return };
    let adapter = first.adapter();
    let mut arrays = Arrays::new(updates, Fence::current_word);
    let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
    args.NativeFenceArray = arrays.handles.as_mut_ptr();
    args.UpdatedValueArray = arrays.values.as_mut_ptr();
    args.CurrentValueKernelCpuVa = arrays.addresses.as_mut_ptr();
    args.NumFences = updates.len() as u32;
    args.Flags = flags;
    // With flags the driver has nothing to write, and nothing is looked at.
    let is_to_write = flags.into_bits() == 0;
    let before: Vec<u64> =
        updates.iter().filter(|_| is_to_write).map(|(fence, _)| fence.current_word().load()).collect();
    let status = adapter.miniport.update_current_values_from_cpu(&args).status();
    first.sch().must_succeed(status, || {
        Bugcheck::scheduler(
            subcode::UPDATE_CURRENT_FAILED,
            status.0 as u32 as u64,
            0,
            0,
            format!("DxgkDdiUpdateCurrentValuesFromCpu failed with {status}"),
        )
    });
    // The GPU may have signalled another value since; one that is as it was has been written by nobody, or by commands of the program, for which nobody stops the machine.
    let words =
        updates.iter().zip(before).map(|((fence, value), before)| (fence.current_word().load(), before, *value));
    let left = words.enumerate().find(|(_, (found, before, value))| found == before && found != value);
    let sch = first.sch();
    if let Some((place, (found, _, value))) = left
        && sch.is_judged()
    {
        let names =
            ["DxgkDdiUpdateCurrentValuesFromCpu", "CurrentValueKernelCpuVa", "DXGKDDI_UPDATECURRENTVALUESFROMCPU"];
        let told = unwritten(names, place, found, value);
        sch.found(
            Rescue::UnwrittenValue,
            format!("{told}; the driver has not written it, or the program's own commands have"),
        );
    }
}

impl VidSch {
    /// A kernel address of `word` for one DDI call, during which the word stays where it is.
    pub(in crate::vidsch) fn map_for_call<'a>(&'a self, word: &'a Word) -> CallMapping<'a> {
        let permanent = |place: WordAddress<'a>| CallMapping { address: place.address(), from: None, _place: place };
        let Some((mappings, adapter)) = self.call_mappings.as_ref().zip(self.adapter().ok()) else {
            return permanent(word.place());
        };
        mappings.map_for_call(&adapter, word.place()).unwrap_or_else(permanent)
    }
}
