//! Refusals: every call that is not served says why.
//!
//! Each DDI knows a few statuses only ([`Ddi::answers`]). `entry::answer` is the one way from a refusal to what a DDI answers: it is noted in the trace of the
//! adapter, with the status that was answered and the reason behind it, and counted by its reason.

use campanile_hw::trace::Component;
pub(crate) use campanile_hw::trace::reason::Reason;
use wddm_ddi::status::*;

use crate::pool::OutOfMemory;
use crate::slots::slots;

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

/// Places of the slots in DRIVER_INITIALIZATION_DATA, and the entry points among them that can refuse a call.
macro_rules! number {
    ($( $slot:ident $(as $name:ident in $component:ident)? $(by $function:path)? = $reason:literal; )*) => {
        /// Place of each slot.
        #[allow(dead_code, clippy::enum_variant_names)] // most are only counted
        #[repr(u16)]
        enum Place {
            $( $slot, )*
            /// Functions of the feature interface, which are not in the structure, are numbered on from here.
            Functions,
        }

        /// An entry point: its place in DRIVER_INITIALIZATION_DATA, and behind those the functions of interfaces.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Ddi {
            $( $( $name = Place::$slot as u16, )? )*
            QueryFeatureSupport = Place::Functions as u16,
            QueryFeatureInterface = Place::Functions as u16 + 1,
            BuildTestCommandBuffer = Place::Functions as u16 + 2,
        }

        impl Ddi {
            /// The component to which it belongs.
            pub(crate) const fn component(self) -> Component {
                match self {
                    $( $( Self::$name => Component::$component, )? )*
                    Self::QueryFeatureSupport | Self::QueryFeatureInterface => Component::Adapter,
                    Self::BuildTestCommandBuffer => Component::Queue,
                }
            }
        }
    };
}

slots!(number);

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
            // The only failure that its page has.
            Self::SetPowerComponentFState => STATUS_INVALID_PARAMETER,
            _ => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(of(Ddi::SubmitCommandVirtual, Reason::NotStarted), STATUS_INVALID_PARAMETER);
        assert_eq!(of(Ddi::SetPowerComponentFState, Reason::NotStarted), STATUS_INVALID_PARAMETER);
        assert_eq!(of(Ddi::ConnectDoorbell, Reason::NotRunning), STATUS_DEVICE_REMOVED);
    }
}
