//! What the kernel-mode driver remembers of itself: rings of typed events and counted refusals, in a layout that a debugger, a report
//! of a timeout and ETW share.
//!
//! One ring ([`ring`]) for each [`Component`]; one table of events ([`event`]), from which their encoding in a ring, their ETW metadata
//! and their documentation follow; one list of reasons ([`reason`]) for everything that the driver refuses or passes over.

pub mod entry;
pub mod etw;
pub mod event;
pub mod reason;
pub mod ring;

/// What the ring stands on; the model checkers put their own in place of it.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU64, fence};
}

/// Name of the ETW provider.
pub const PROVIDER: &str = "Campanile.KernelModeDriver";

/// ETW identifier of the provider, in the order of the structure GUID: what TraceLogging derives from [`PROVIDER`].
pub const PROVIDER_GUID: (u32, u16, u16, [u8; 8]) =
    (0xe62c_1597, 0xf203, 0x56cd, [0x0f, 0xb9, 0x4e, 0x81, 0x06, 0x73, 0x2d, 0x97]);

/// A part of the driver that has a ring of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Component {
    /// The driver itself, whatever its adapters: loading, adding and removing adapters, calls that name no adapter.
    Driver,
    /// Start, stop, power and features of an adapter.
    Adapter,
    /// Contexts, queues, doorbells and submissions.
    Queue,
    /// Native fences and their logs.
    Fence,
    /// Interrupts, what the device reported by them, and what the operating system was told.
    Interrupt,
    /// Processes, allocations, paging and page tables.
    Memory,
    /// Timeouts: engines and the adapter reset and started again.
    Reset,
}

impl Component {
    /// Every component, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Driver, Self::Adapter, Self::Queue, Self::Fence, Self::Interrupt, Self::Memory, Self::Reset];

    /// Those of which every adapter has a ring: all but [`Component::Driver`].
    pub const OF_ADAPTER: usize = Self::ALL.len() - 1;

    /// The component with a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Name of the component in reports and in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Adapter => "adapter",
            Self::Queue => "queue",
            Self::Fence => "fence",
            Self::Interrupt => "interrupt",
            Self::Memory => "memory",
            Self::Reset => "reset",
        }
    }

    /// The ETW keyword of its events, one bit each.
    pub const fn keyword(self) -> u64 {
        1 << self as u8
    }
}

/// ETW keyword of refusals, beside that of their component.
pub const KEYWORD_REFUSAL: u64 = 1 << 16;

/// ETW keyword of what happens with every submission or interrupt, beside that of the component.
pub const KEYWORD_WORK: u64 = 1 << 17;

/// How severe an event is; the numbers are those of ETW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something was lost.
    Error = 2,
    /// Something was refused, or is not as it should be.
    Warning = 3,
    /// Something exists, changed or is gone.
    Information = 4,
    /// Something happened that happens all the time.
    Verbose = 5,
}

impl Level {
    /// Name of the level in reports and in the manual.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Verbose => "verbose",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_of_the_provider_follows_from_its_name() {
        let (a, b, c, d) = PROVIDER_GUID;
        assert_eq!(tracelogging::Guid::from_name(PROVIDER), tracelogging::Guid::from_fields(a, b, c, d));
    }

    #[test]
    fn components_have_their_numbers_names_and_keywords() {
        for (number, component) in (0u8..).zip(Component::ALL) {
            assert_eq!((component as u8, Component::from_number(number)), (number, Some(component)));
            assert_eq!(component.keyword(), 1 << number);
            assert_eq!(component.keyword() & (KEYWORD_REFUSAL | KEYWORD_WORK), 0);
        }
        assert_eq!(Component::from_number(Component::ALL.len() as u8), None);
        assert!(KEYWORD_REFUSAL.is_power_of_two() && KEYWORD_WORK.is_power_of_two() && KEYWORD_REFUSAL != KEYWORD_WORK);
        let names = Component::ALL.map(Component::name);
        assert_eq!(names, ["driver", "adapter", "queue", "fence", "interrupt", "memory", "reset"]);
        let levels = [Level::Error, Level::Warning, Level::Information, Level::Verbose].map(Level::name);
        assert_eq!(levels, ["error", "warning", "information", "verbose"]);
    }
}
