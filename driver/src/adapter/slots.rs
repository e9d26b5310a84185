//! The adapters of the driver by their handles, in a static array because several DDIs name no adapter.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use wddm_ddi::types::HANDLE;

use super::Adapter;
use crate::handle::{Handle, Kind, Object};
use crate::refusal::{Reason, Refused, refused};

pub(crate) const ADAPTERS: usize = 1 << 10;
const ADAPTER_GENERATIONS: u32 = (1 << 6) - 1;

#[repr(C)]
pub(crate) struct AdapterSlot {
    /// Bit 0: in use. Above: generation.
    state: AtomicU32,
    adapter: AtomicPtr<Adapter>,
}

pub(crate) static ADAPTER_SLOTS: [AdapterSlot; ADAPTERS] =
    [const { AdapterSlot { state: AtomicU32::new(0), adapter: AtomicPtr::new(core::ptr::null_mut()) } }; ADAPTERS];

/// Where the search for a free adapter slot starts, so that slots are reused as late as possible.
static NEXT_ADAPTER: AtomicU32 = AtomicU32::new(0);

/// Gives `adapter` a handle.
pub(crate) fn publish_adapter(adapter: NonNull<Adapter>) -> Result<Handle, Refused> {
    let start = NEXT_ADAPTER.fetch_add(1, Ordering::Relaxed) as usize;
    for (index, slot) in
        (0..ADAPTERS).map(|step| (start + step) % ADAPTERS).filter_map(|i| Some((i, ADAPTER_SLOTS.get(i)?)))
    {
        let state = slot.state.load(Ordering::Relaxed);
        if state & 1 != 0 {
            continue;
        }
        let taken = state.wrapping_add(3) | 1;
        if slot.state.compare_exchange(state, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            slot.adapter.store(adapter.as_ptr(), Ordering::Release);
            return Ok(Handle::new()
                .with_kind(Kind::Adapter as u8)
                .with_adapter(index as u16 & (ADAPTERS as u16 - 1))
                .with_adapter_generation(((taken >> 1) & ADAPTER_GENERATIONS) as u8));
        }
    }
    Err(refused(Reason::TableFull))
}

/// Withdraws an adapter's handle and returns the adapter; every handle of its objects names nothing from then on.
pub(crate) fn withdraw_adapter(handle: Handle) -> Option<NonNull<Adapter>> {
    let slot = ADAPTER_SLOTS.get(usize::from(handle.adapter()))?;
    slot_adapter(handle)?;
    let adapter = NonNull::new(slot.adapter.swap(core::ptr::null_mut(), Ordering::AcqRel))?;
    slot.state.fetch_and(!1, Ordering::Release);
    Some(adapter)
}

fn slot_adapter(handle: Handle) -> Option<NonNull<Adapter>> {
    let slot = ADAPTER_SLOTS.get(usize::from(handle.adapter()))?;
    let state = slot.state.load(Ordering::Acquire);
    let current = state & 1 != 0 && (state >> 1) & ADAPTER_GENERATIONS == u32::from(handle.adapter_generation());
    if !current {
        return None;
    }
    NonNull::new(slot.adapter.load(Ordering::Acquire))
}

/// Every adapter. For plug and play, which adds and removes none meanwhile.
pub(crate) fn adapters<'a>() -> impl Iterator<Item = &'a Adapter> {
    ADAPTER_SLOTS.iter().filter(|slot| slot.state.load(Ordering::Acquire) & 1 != 0).filter_map(|slot| {
        // SAFETY: NULL, or an adapter that lives until RemoveDevice.
        unsafe { slot.adapter.load(Ordering::Acquire).as_ref() }
    })
}

/// The adapter of any handle.
fn adapter_of<'a>(handle: Handle) -> Result<&'a Adapter, Refused> {
    let adapter = slot_adapter(handle).ok_or(refused(Reason::StaleHandle))?;
    // SAFETY: published adapters live until RemoveDevice, during which no other DDI of the adapter runs.
    Ok(unsafe { adapter.as_ref() })
}

/// The adapter that `raw` (MiniportDeviceContext, hAdapter) names.
pub(crate) fn adapter<'a>(raw: HANDLE) -> Result<&'a Adapter, Refused> {
    let handle = Handle::of(raw);
    if handle.kind() != Kind::Adapter as u8 {
        return Err(refused(Reason::StaleHandle));
    }
    adapter_of(handle)
}

/// The adapter of an object's handle, whether the object exists or not; `None` once the adapter was removed.
pub(crate) fn adapter_of_object<'a>(handle: Handle) -> Option<&'a Adapter> {
    adapter_of(handle).ok()
}

/// The object that `raw` names, and its adapter.
pub(crate) fn object<'a, T: Object>(raw: HANDLE) -> Result<(&'a Adapter, &'a T), Refused> {
    let handle = Handle::of(raw);
    let adapter = adapter_of(handle)?;
    Ok((adapter, adapter.objects.get(handle)?))
}
