//! The driver's trace: rings of its last events and counters of its refusals, for a debugger, the report of a timeout, and ETW sessions.
//!
//! Each adapter has a ring of the last events of each component, the driver has one of its own, and everything that the driver refuses or
//! ignores is counted by its reason. `CAMPANILE_DEBUG_ROOT` leads a debugger to all of it. Nothing here waits, allocates or touches the
//! device, so that events are noted at any level.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use campanile_hw::trace::reason::Reason;
use campanile_hw::trace::ring::{Moment, Read, TraceRing};
use wddm_ddi::nt::IOCTL_VIDEO_DDI_FUNC_REGISTER;

use crate::etw::Provider;
use crate::nt;
use crate::pool::{OutOfMemory, PoolBox, Tag};

/// Entries of a ring of an adapter.
pub(crate) const ENTRIES: usize = 256;
/// Entries of the ring of the driver.
const DRIVER_ENTRIES: usize = 64;

/// Number of refusals for each [`Reason`], indexed by its number.
pub(crate) type Counts = [AtomicU64; Reason::COUNT];

/// The trace of an adapter. A debugger finds it behind `Adapter`.
#[repr(C)]
pub(crate) struct AdapterTrace {
    /// By component, without [`Component::Driver`].
    pub(crate) rings: [TraceRing<ENTRIES>; Component::OF_ADAPTER],
    /// By reason: calls refused.
    pub(crate) refused: Counts,
    /// By reason: what could not be refused and was ignored.
    pub(crate) passed_over: Counts,
    /// The ETW provider of the adapter, with the sessions that want its events.
    pub(crate) provider: Provider,
}

/// The trace of the driver: what concerns no adapter.
#[repr(C)]
pub(crate) struct DriverTrace {
    pub(crate) ring: TraceRing<DRIVER_ENTRIES>,
    pub(crate) refused: Counts,
}

/// The control request by which the graphics kernel handed out its registration function; 0 where the driver did not ask it.
pub(crate) static REGISTRATION: AtomicU32 = AtomicU32::new(0);

pub(crate) static DRIVER: DriverTrace =
    DriverTrace { ring: TraceRing::new(Component::Driver), refused: [const { AtomicU64::new(0) }; Reason::COUNT] };

/// Time, IRQL and processor of an event that is being noted.
fn moment() -> Moment {
    Moment {
        time: nt::performance_counter().0,
        irql: nt::current_irql().unwrap_or(0),
        processor: nt::processor_number(),
    }
}

fn count(counts: &Counts, reason: Reason) {
    if let Some(counter) = counts.get(reason as usize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads counters.
pub(crate) fn read(counts: &Counts) -> [u64; Reason::COUNT] {
    counts.each_ref().map(|counter| counter.load(Ordering::Relaxed))
}

/// The trace of an adapter, for its device, which lives no longer.
#[derive(Clone, Copy)]
pub(crate) struct Trace(NonNull<AdapterTrace>);

// SAFETY: the trace is shared by everything of its adapter, and all of it is atomic.
unsafe impl Send for Trace {}
// SAFETY: as for Send.
unsafe impl Sync for Trace {}

impl Trace {
    /// # Safety
    /// The trace must live as long as this and its copies.
    pub(crate) unsafe fn new(trace: &AdapterTrace) -> Self {
        Self(NonNull::from(trace))
    }
}

impl Deref for Trace {
    type Target = AdapterTrace;

    fn deref(&self) -> &AdapterTrace {
        // SAFETY: it lives, as was promised to `new`.
        unsafe { self.0.as_ref() }
    }
}

impl AdapterTrace {
    /// Empty rings of the adapter with this handle.
    pub(crate) fn new() -> Result<PoolBox<Self>, OutOfMemory> {
        let memory = PoolBox::uninit(Tag::TRACE)?;
        // SAFETY: pool comes zeroed, and all of this is numbers, for which zero is a value.
        let mut trace: PoolBox<Self> = unsafe { memory.assume_init() };
        let frequency = nt::performance_counter().1;
        for (ring, component) in trace.rings.iter_mut().zip(Component::ALL.into_iter().skip(1)) {
            ring.describe(component, frequency, 0);
        }
        Ok(trace)
    }

    /// Names the adapter in its rings.
    pub(crate) fn set_adapter(&self, adapter: u64) {
        for ring in &self.rings {
            ring.header.adapter.store(adapter, Ordering::Relaxed);
        }
    }

    /// Notes an event. Any level.
    pub(crate) fn note(&self, component: Component, event: &Event) {
        let place = (component as usize).wrapping_sub(1);
        let Some(ring) = self.rings.get(place) else { return };
        let (moment, arguments, id) = (moment(), event.arguments(), event.id() as u16);
        let number = ring.record(moment, id, arguments);
        let adapter = ring.header.adapter.load(Ordering::Relaxed);
        self.provider.tell(component, adapter, event, &Read { number, moment, event: id, arguments });
    }

    /// Tells sessions and debuggers by which request the driver was registered, which nobody could hear in DriverEntry. A driver that is linked into
    /// another program is not registered and tells nothing.
    pub(crate) fn note_registration(&self) {
        let request = REGISTRATION.load(Ordering::Relaxed);
        let text = match request {
            IOCTL_VIDEO_DDI_FUNC_REGISTER => c"campanile: registered by control request 0x23003F, of Windows 7\n",
            0 if cfg!(feature = "wdk") => {
                c"campanile: registered by DxgkInitialize of the kit, which does not tell by which control request\n"
            }
            0 => return,
            _ => c"campanile: registered by control request 0x230047, of Windows 8 and later\n",
        };
        self.note(Component::Adapter, &Event::RegisteredBy { request });
        nt::print(text);
    }

    /// Notes and counts a refused call.
    pub(crate) fn refused(&self, component: Component, reason: Reason, event: &Event) {
        count(&self.refused, reason);
        self.note(component, event);
    }

    /// Notes and counts an event or value that the driver ignores.
    pub(crate) fn passed_over(&self, component: Component, reason: Reason, object: u64) {
        count(&self.passed_over, reason);
        self.note(component, &Event::PassedOver { object, reason: reason as u16 });
    }
}

/// Notes an event of the driver. Any level.
pub(crate) fn note(event: &Event) {
    DRIVER.ring.record(moment(), event.id() as u16, event.arguments());
}

/// Notes and counts a refused call that names no adapter.
pub(crate) fn refused(reason: Reason, event: &Event) {
    count(&DRIVER.refused, reason);
    note(event);
}

/// Says how long a tick of the driver's ring is.
pub(crate) fn begin() {
    DRIVER.ring.header.frequency.store(nt::performance_counter().1, Ordering::Relaxed);
}
