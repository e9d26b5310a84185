//! The driver's events for its two consumers: sessions of Event Tracing for Windows, and the graphics kernel's own trace.
//!
//! Each adapter registers the provider, so that nothing of it outlives the adapter. While a session wants its events, each one that is
//! noted in a ring is written in the format TraceLogging with the same fields ([`campanile_hw::trace::etw`]). While the graphics kernel has
//! logging switched on (DxgkDdiControlEtwLogging), it also gets the ring's entry through DxgkCbLogEtwEvent, under the provider's GUID
//! and with the event's number as the type.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use campanile_hw::trace::entry::{ARGUMENTS, Read, to_words};
use campanile_hw::trace::etw::{METADATA, PREFIX_SIZE, PROVIDER_METADATA};
use campanile_hw::trace::event::{EVENTS, Event, EventInfo, payload_size};
use campanile_hw::trace::{Component, Level, PROVIDER_GUID};
use wddm_ddi::km::DXGKCB_LOG_ETW_EVENT;
use wddm_ddi::nt::*;
use wddm_ddi::types::GUID;

use crate::irql::Passive;
use crate::nt;

static PROVIDER: GUID =
    GUID { Data1: PROVIDER_GUID.0, Data2: PROVIDER_GUID.1, Data3: PROVIDER_GUID.2, Data4: PROVIDER_GUID.3 };

/// No consumer wants events.
const OFF: u32 = 0;

/// Highest level that the graphics kernel's trace wants; [`OFF`] if it wants nothing. One switch for all adapters, as the DDI has it.
static LOGGING: AtomicU32 = AtomicU32::new(OFF);

/// DxgkDdiControlEtwLogging.
pub(crate) fn control(enable: bool, level: u8) {
    LOGGING.store(if enable { highest(level) } else { OFF }, Ordering::Relaxed);
}

/// Level 0 stands for all.
fn highest(level: u8) -> u32 {
    if level == 0 { u32::MAX } else { level.into() }
}

/// The registration of an adapter as an ETW provider, and which consumers want its events.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Provider {
    /// Handle of the registration, 0 for none.
    handle: AtomicU64,
    /// Highest level that some session wants; [`OFF`] if there is none.
    level: AtomicU32,
    /// Of an event's keywords one must be among these, and these all among the event's.
    any: AtomicU64,
    all: AtomicU64,
    /// Address of DxgkCbLogEtwEvent, 0 before the start.
    log: AtomicUsize,
}

unsafe extern "win64" fn changed(
    _source: *const GUID,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    _filter: *mut c_void,
    context: *mut c_void,
) {
    // SAFETY: the context is the provider of `register`, which lives until the registration has ended.
    let Some(provider) = (unsafe { context.cast::<Provider>().as_ref() }) else { return };
    match code {
        EVENT_CONTROL_CODE_ENABLE_PROVIDER => {
            provider.any.store(if any == 0 { u64::MAX } else { any }, Ordering::Relaxed);
            provider.all.store(all, Ordering::Relaxed);
            provider.level.store(highest(level), Ordering::Relaxed);
        }
        EVENT_CONTROL_CODE_DISABLE_PROVIDER => provider.level.store(OFF, Ordering::Relaxed),
        _ => {}
    }
}

impl Provider {
    /// Registers the provider. Without it the driver works all the same.
    ///
    /// # Safety
    /// The provider must stay where it is until [`Provider::unregister`].
    pub(crate) unsafe fn register(&self, _irql: &Passive) {
        let Some(imports) = nt::imports() else { return };
        let context = core::ptr::from_ref(self).cast_mut().cast();
        let mut handle = 0;
        // SAFETY: PASSIVE_LEVEL; the identifier is a constant, and the context stays until the registration ends.
        let status = unsafe { (imports.EtwRegister)(&raw const PROVIDER, Some(changed), context, &raw mut handle) };
        if !status.is_success() {
            return;
        }
        let traits = PROVIDER_METADATA.bytes();
        // SAFETY: the registration is the one just made, the bytes are a static. Without the name events still name the provider.
        let _ = unsafe {
            (imports.EtwSetInformation)(handle, EVENT_PROVIDER_SET_TRAITS, traits.as_ptr().cast(), traits.len() as u32)
        };
        self.handle.store(handle, Ordering::Release);
    }

    /// Ends the registration; the provider hears nothing any more when this returns.
    pub(crate) fn unregister(&self, _irql: &Passive) {
        let handle = self.handle.swap(0, Ordering::AcqRel);
        if let Some(imports) = nt::imports().filter(|_| handle != 0) {
            // SAFETY: PASSIVE_LEVEL, and the registration was not ended before. It cannot fail then.
            let _ = unsafe { (imports.EtwUnregister)(handle) };
        }
        self.level.store(OFF, Ordering::Relaxed);
    }

    /// The callback by which the graphics kernel takes events; it stays as long as the graphics kernel.
    pub(crate) fn set_log(&self, callback: Option<DXGKCB_LOG_ETW_EVENT>) {
        self.log.store(callback.map_or(0, |callback| callback as usize), Ordering::Release);
    }

    fn wants(&self, level: Level, keyword: u64) -> bool {
        let all = self.all.load(Ordering::Relaxed);
        level as u32 <= self.level.load(Ordering::Relaxed)
            && keyword & self.any.load(Ordering::Relaxed) != 0
            && keyword & all == all
    }

    /// Tells of an event that was noted as `read` in the ring of `component`. Any level.
    pub(crate) fn tell(&self, component: Component, adapter: u64, event: &Event, read: &Read) {
        let index = event.index();
        let Some(info) = EVENTS.get(index) else { return };
        let keyword = info.keyword(component);
        if self.wants(info.level, keyword) {
            self.write(info, index, keyword, adapter, read);
        }
        if info.level as u32 <= LOGGING.load(Ordering::Relaxed) {
            self.log(read);
        }
    }

    fn write(&self, info: &EventInfo, index: usize, keyword: u64, adapter: u64, read: &Read) {
        let (Some(imports), Some(metadata)) = (nt::imports(), METADATA.get(index)) else { return };
        let descriptor = EVENT_DESCRIPTOR {
            Id: 0,
            Version: 0,
            Channel: WINEVENT_CHANNEL_TRACELOGGING,
            Level: info.level as u8,
            Opcode: 0,
            Task: 0,
            Keyword: keyword,
        };
        let mut prefix = [0; PREFIX_SIZE];
        let values = adapter.to_le_bytes().into_iter().chain(read.number.to_le_bytes()).chain([read.moment.irql]);
        prefix.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        let mut payload = [0; 8 * ARGUMENTS];
        let bytes = read.arguments.into_iter().flat_map(u64::to_le_bytes);
        payload.iter_mut().zip(bytes).for_each(|(to, value)| *to = value);
        let fields = payload.get(..payload_size(info.fields)).unwrap_or_default();
        let parts = [
            part(PROVIDER_METADATA.bytes(), EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA),
            part(metadata.bytes(), EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA),
            part(&prefix, EVENT_DATA_DESCRIPTOR_TYPE_NONE),
            part(fields, EVENT_DATA_DESCRIPTOR_TYPE_NONE),
        ];
        let handle = self.handle.load(Ordering::Acquire);
        // SAFETY: any level, since nothing of the data is paged: statics in nonpaged sections, and this stack. A full session loses the
        // event and counts it.
        let _ = unsafe {
            (imports.EtwWriteTransfer)(
                handle,
                &raw const descriptor,
                core::ptr::null(),
                core::ptr::null(),
                parts.len() as u32,
                parts.as_ptr(),
            )
        };
    }

    fn log(&self, read: &Read) {
        let address = self.log.load(Ordering::Acquire);
        if address == 0 {
            return;
        }
        // SAFETY: `set_log` stored such a function.
        let callback = unsafe { core::mem::transmute::<usize, DXGKCB_LOG_ETW_EVENT>(address) };
        let mut entry = to_words(read);
        // SAFETY: any level for so few bytes, which are on this stack.
        unsafe {
            callback(&raw const PROVIDER, read.event as u8, size_of_val(&entry) as u16, entry.as_mut_ptr().cast())
        };
    }
}

fn part(bytes: &[u8], kind: u32) -> EVENT_DATA_DESCRIPTOR {
    EVENT_DATA_DESCRIPTOR { Ptr: bytes.as_ptr().addr() as u64, Size: bytes.len() as u32, Type: kind }
}
