//! The driver's table of entry points and the description of its slots, both made from the list in [`slots`](crate::slots).

use wddm_ddi::Zeroed;
use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;

use crate::caps::INTERFACE_VERSION;
use crate::entry::{caps, doorbell, fence, memory, pnp, power, queue, reset};
use crate::slots::slots;

/// State of a slot of the driver's function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The driver has an entry point.
    Implemented,
    /// The slot is NULL.
    Disabled,
}

/// One slot of `DRIVER_INITIALIZATION_DATA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Member of the structure.
    pub name: &'static str,
    /// Implemented, or NULL.
    pub class: Class,
    /// Why.
    pub reason: &'static str,
}

/// The class of a slot with these functions.
const fn class(functions: &[&str]) -> Class {
    if functions.is_empty() { Class::Disabled } else { Class::Implemented }
}

macro_rules! describe {
    ($( $slot:ident $(as $name:ident in $component:ident)? $(by $function:path)? = $reason:literal; )*) => {
        /// Every slot in table order.
        pub static SLOTS: [Slot; 192] = [$( Slot {
            name: stringify!($slot),
            class: class(&[$( stringify!($function) )?]),
            reason: $reason,
        }, )*];

        /// The table of this driver.
        pub(crate) fn table() -> DRIVER_INITIALIZATION_DATA {
            let mut data = DRIVER_INITIALIZATION_DATA::zeroed();
            data.Version = INTERFACE_VERSION;
            $( $( data.$slot = Some($function); )? )*
            data
        }
    };
}

slots!(describe);

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::km::SLOT_NAMES;

    #[test]
    fn slots_are_named_as_the_structure_names_them() {
        assert_eq!(SLOTS.map(|slot| slot.name), SLOT_NAMES);
        assert!(SLOTS.iter().all(|slot| !slot.reason.is_empty()));
    }

    #[test]
    fn the_table_fills_exactly_the_slots_classed_as_implemented() {
        const WORDS: usize = size_of::<DRIVER_INITIALIZATION_DATA>() / size_of::<usize>();
        const { assert!(WORDS == SLOTS.len() + 1) };
        let data = table();
        assert_eq!(data.Version, 0x11007);
        // SAFETY: the structure is a version padded to a word and 192 optional functions, all words of which are initialised: it is
        // made from zeroed memory.
        let words = unsafe { &*core::ptr::from_ref(&data).cast::<[usize; WORDS]>() };
        for (slot, word) in SLOTS.iter().zip(words.iter().skip(1)) {
            assert_eq!(*word != 0, slot.class == Class::Implemented, "{}", slot.name);
        }
    }

    #[test]
    fn everything_that_the_compute_model_requires_is_filled() {
        let required = [
            "AddDevice StartDevice StopDevice RemoveDevice Unload QueryInterface InterruptRoutine DpcRoutine",
            "QueryChildRelations QueryChildStatus QueryDeviceDescriptor SetPowerState ResetDevice QueryAdapterInfo",
            "CreateDevice DestroyDevice CreateContext DestroyContext CreateAllocation DestroyAllocation OpenAllocation",
            "CloseAllocation DescribeAllocation GetStandardAllocationDriverData BuildPagingBuffer PreemptCommand",
            "ResetFromTimeout RestartFromTimeout QueryDependentEngineGroup QueryEngineStatus ResetEngine CollectDbgInfo",
            "GetNodeMetadata CalibrateGpuClock FormatHistoryBuffer SetStablePowerState SetVirtualMachineData",
            "CreateProcess DestroyProcess GetRootPageTableSize SetRootPageTable SubmitCommandVirtual CreateHwContext",
            "DestroyHwContext CreateHwQueue DestroyHwQueue SubmitCommandToHwQueue SwitchToHwContextList",
            "UpdateHwContextState ResetHwEngine ResumeHwEngine SuspendContext ResumeContext SetupPriorityBands",
            "SetContextSchedulingProperties SetSchedulingLogBuffer SignalMonitoredFence CreateNativeFence",
            "DestroyNativeFence OpenNativeFence CloseNativeFence UpdateMonitoredValues UpdateCurrentValuesFromCpu",
            "SetNativeFenceLogBuffer UpdateNativeFenceLogs CreateDoorbell ConnectDoorbell DisconnectDoorbell",
            "DestroyDoorbell NotifyWorkSubmission ControlEtwLogging PresentToHwQueue DispatchIoRequest",
            "SetPowerComponentFState PowerRuntimeControlRequest NotifySurpriseRemoval",
        ];
        for name in required.iter().flat_map(|line| line.split(' ')) {
            let slot = SLOTS.iter().find(|slot| slot.name.strip_prefix("DxgkDdi") == Some(name));
            assert_eq!(slot.map(|slot| slot.class), Some(Class::Implemented), "{name}");
        }
    }
}
