//! Refusals: every call that is not served says why.
//!
//! Each DDI knows a few statuses only ([`Ddi::answers`]). `entry::answer` is the one way from a refusal to what a DDI answers: it is noted in the trace of the
//! adapter, with the status that was answered and the reason behind it, and counted by its reason.

use campanile_hw::trace::Component;
pub(crate) use campanile_hw::trace::reason::Reason;
use wddm_ddi::status::*;

use crate::pool::OutOfMemory;

/// A call that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Refused {
    pub(crate) status: NTSTATUS,
    pub(crate) reason: Reason,
}

/// A refusal with the status that its reason calls for.
pub(crate) const fn refused(reason: Reason) -> Refused {
    let status = match reason {
        Reason::StaleHandle => STATUS_INVALID_HANDLE,
        Reason::NotStarted | Reason::NotRunning | Reason::QueueLost => STATUS_DEVICE_REMOVED,
        Reason::NoMemory => STATUS_NO_MEMORY,
        Reason::TableFull | Reason::SchedulerFull => STATUS_INSUFFICIENT_RESOURCES,
        Reason::SystemService | Reason::DeviceDead | Reason::EngineStuck => STATUS_UNSUCCESSFUL,
        Reason::WrongHardware => STATUS_DEVICE_DOES_NOT_EXIST,
        Reason::BufferTooSmall => STATUS_BUFFER_TOO_SMALL,
        Reason::NotServed | Reason::NotOffered => STATUS_NOT_SUPPORTED,
        Reason::ContextFlags => STATUS_GRAPHICS_DRIVER_MISMATCH,
        Reason::PagingBufferFull => STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER,
        _ => STATUS_INVALID_PARAMETER,
    };
    Refused { status, reason }
}

/// A refusal with a status of its own.
pub(crate) const fn refused_with(reason: Reason, status: NTSTATUS) -> Refused {
    Refused { status, reason }
}

impl Refused {
    /// A service of the operating system failed.
    pub(crate) const fn by_system(status: NTSTATUS) -> Self {
        refused_with(Reason::SystemService, status)
    }
}

impl From<OutOfMemory> for Refused {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        refused(Reason::NoMemory)
    }
}

macro_rules! ddis {
    ($( $number:literal $name:ident $component:ident, )*) => {
        /// An entry point: its place in DRIVER_INITIALIZATION_DATA, and behind those the functions of interfaces.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Ddi {
            $( $name = $number, )*
        }

        impl Ddi {
            #[cfg(test)]
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, stringify!($name))),*];

            /// The component to which it belongs.
            pub(crate) const fn component(self) -> Component {
                match self {
                    $( Self::$name => Component::$component, )*
                }
            }
        }
    };
}

ddis! {
    0 AddDevice Adapter,
    1 StartDevice Adapter,
    2 StopDevice Adapter,
    3 RemoveDevice Adapter,
    4 DispatchIoRequest Adapter,
    7 QueryChildRelations Adapter,
    8 QueryChildStatus Adapter,
    9 QueryDeviceDescriptor Adapter,
    14 QueryInterface Adapter,
    16 QueryAdapterInfo Adapter,
    17 CreateDevice Memory,
    18 CreateAllocation Memory,
    19 DestroyAllocation Memory,
    20 DescribeAllocation Memory,
    21 GetStandardAllocationDriverData Memory,
    25 SubmitCommand Queue,
    26 PreemptCommand Queue,
    27 BuildPagingBuffer Memory,
    31 ResetFromTimeout Reset,
    32 RestartFromTimeout Reset,
    34 CollectDbgInfo Reset,
    49 DestroyDevice Memory,
    50 OpenAllocation Memory,
    51 CloseAllocation Memory,
    57 CreateContext Queue,
    58 DestroyContext Queue,
    59 LinkDevice Adapter,
    70 SetPowerComponentFState Adapter,
    71 QueryDependentEngineGroup Reset,
    72 QueryEngineStatus Reset,
    73 ResetEngine Reset,
    79 PowerRuntimeControlRequest Adapter,
    81 NotifySurpriseRemoval Adapter,
    82 GetNodeMetadata Adapter,
    86 CalibrateGpuClock Adapter,
    87 FormatHistoryBuffer Queue,
    89 SubmitCommandVirtual Queue,
    90 SetRootPageTable Memory,
    92 MapCpuHostAperture Memory,
    93 UnmapCpuHostAperture Memory,
    95 CreateProcess Memory,
    96 DestroyProcess Memory,
    101 SetStablePowerState Adapter,
    109 CreateHwContext Queue,
    110 DestroyHwContext Queue,
    111 CreateHwQueue Queue,
    112 DestroyHwQueue Queue,
    113 SubmitCommandToHwQueue Queue,
    114 SwitchToHwContextList Queue,
    115 ResetHwEngine Reset,
    128 UpdateHwContextState Queue,
    131 SetSchedulingLogBuffer Queue,
    132 SetupPriorityBands Queue,
    134 SetContextSchedulingProperties Queue,
    135 SuspendContext Queue,
    136 ResumeContext Queue,
    137 SetVirtualMachineData Adapter,
    142 ResumeHwEngine Reset,
    143 SignalMonitoredFence Fence,
    144 PresentToHwQueue Queue,
    161 CreateNativeFence Fence,
    162 DestroyNativeFence Fence,
    165 CreateDoorbell Queue,
    166 ConnectDoorbell Queue,
    167 DisconnectDoorbell Queue,
    168 DestroyDoorbell Queue,
    169 NotifyWorkSubmission Queue,
    185 OpenNativeFence Fence,
    186 CloseNativeFence Fence,
    187 SetNativeFenceLogBuffer Fence,
    188 UpdateNativeFenceLogs Fence,
    192 QueryFeatureSupport Adapter,
    193 QueryFeatureInterface Adapter,
    194 BuildTestCommandBuffer Queue,
}

impl Ddi {
    /// The failure as this DDI may answer it.
    pub(crate) const fn answers(self, status: NTSTATUS) -> NTSTATUS {
        match self {
            Self::CreateAllocation if status.0 != STATUS_NO_MEMORY.0 => STATUS_INVALID_PARAMETER,
            Self::CreateContext if status.0 != STATUS_NO_MEMORY.0 => STATUS_GRAPHICS_DRIVER_MISMATCH,
            // Not one of its three results: none of them means that the operation can never be carried out, and the memory manager stops
            // the machine with bug check 0x10E (0xB), which names this one, where each of the three would lose content or go on for ever.
            Self::BuildPagingBuffer if status.0 != STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER.0 => {
                STATUS_INVALID_PARAMETER
            }
            // After this result the operating system counts the fence as completed in its order.
            Self::SubmitCommandVirtual => STATUS_INVALID_PARAMETER,
            Self::CollectDbgInfo => STATUS_UNSUCCESSFUL,
            _ => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::km::SLOT_NAMES;

    #[test]
    fn entry_points_are_numbered_as_the_table_has_them() {
        for (ddi, name) in Ddi::ALL {
            if let Some(slot) = SLOT_NAMES.get(*ddi as usize) {
                assert_eq!(slot.strip_prefix("DxgkDdi"), Some(*name));
            }
        }
    }

    #[test]
    fn only_statuses_that_a_ddi_knows_leave_it() {
        let of = |ddi: Ddi, reason| ddi.answers(refused(reason).status);
        assert_eq!(of(Ddi::CreateAllocation, Reason::NoMemory), STATUS_NO_MEMORY);
        assert_eq!(of(Ddi::CreateAllocation, Reason::NotStarted), STATUS_INVALID_PARAMETER);
        assert_eq!(of(Ddi::CreateContext, Reason::StaleHandle), STATUS_GRAPHICS_DRIVER_MISMATCH);
        assert_eq!(of(Ddi::BuildPagingBuffer, Reason::PagingBufferFull), STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
        assert_eq!(of(Ddi::BuildPagingBuffer, Reason::PagingOperation), STATUS_INVALID_PARAMETER);
        assert_eq!(of(Ddi::BuildPagingBuffer, Reason::StaleHandle), STATUS_INVALID_PARAMETER);
        assert_eq!(of(Ddi::CollectDbgInfo, Reason::NullPointer), STATUS_UNSUCCESSFUL);
        assert_eq!(of(Ddi::CreateHwQueue, Reason::NotRunning), STATUS_DEVICE_REMOVED);
    }
}
