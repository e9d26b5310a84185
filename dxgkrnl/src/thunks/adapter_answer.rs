//! Answers to questions about an adapter: reading and writing memory of the caller.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

use super::user;
use crate::adapter::Adapter;
use crate::port::Link;
use crate::refusal::{Failure, refused};

/// Writes an answer of fixed size.
pub(super) fn answer<T: Copy + Zeroed>(args: &D3DKMT_QUERYADAPTERINFO, value: &T) -> Result<NTSTATUS, Failure> {
    check_size::<T>(args)?;
    user::write(args.pPrivateDriverData.cast(), value)?;
    Ok(STATUS_SUCCESS)
}

pub(super) fn answer_word(args: &D3DKMT_QUERYADAPTERINFO, value: u32) -> Result<NTSTATUS, Failure> {
    check_size::<u32>(args)?;
    user::write_array(args.pPrivateDriverData.cast(), &[value])?;
    Ok(STATUS_SUCCESS)
}

/// A question that stands where its answer goes.
pub(super) fn read<T: Copy + Zeroed>(args: &D3DKMT_QUERYADAPTERINFO) -> Result<T, Failure> {
    check_size::<T>(args)?;
    user::read(args.pPrivateDriverData.cast_const().cast())
}

/// # Errors
/// STATUS_BUFFER_TOO_SMALL if the buffer of a question has no space for this.
fn check_size<T>(args: &D3DKMT_QUERYADAPTERINFO) -> Result<(), Failure> {
    let (given, needed) = (args.PrivateDriverDataSize, size_of::<T>());
    let why = || format!("PrivateDriverDataSize is {given}, and expected is at least {needed}");
    if given as usize >= needed { Ok(()) } else { Err(refused(STATUS_BUFFER_TOO_SMALL, why())) }
}

/// The number of a physical adapter that there is.
pub(super) fn engine(adapter: &Adapter, index: u32) -> Result<u32, Failure> {
    let engines = adapter.caps().engines;
    let why = || format!("PhysicalAdapterIndex is {index}, and the adapter has {engines}");
    if index < engines { Ok(index) } else { Err(refused(STATUS_INVALID_PARAMETER, why())) }
}

/// Text in UTF-16 with a NUL at its end, cut off where the field is too short.
pub(super) fn wide<const N: usize>(text: &str) -> [u16; N] {
    let mut units = [0; N];
    for (to, unit) in units.iter_mut().take(N.saturating_sub(1)).zip(text.encode_utf16()) {
        *to = unit;
    }
    units
}

/// Enumerator, identifiers and place of a physical adapter, as the paths of its registry key and of its device interface have them.
pub(super) fn instance_path(adapter: &Adapter, engine: u32) -> Result<String, Failure> {
    let link = link(adapter, engine)?;
    let (function, place) = (&link.function, link.location);
    Ok(format!(
        "PCI\\VEN_{:04X}&DEV_{:04X}&SUBSYS_{:08X}&REV_{:02X}\\0&{:02X}{:02X}",
        function.vendor,
        function.device,
        function.subsystem,
        function.revision,
        place.bus,
        u32::from(place.device) << 3 | u32::from(place.function)
    ))
}

/// The function that a physical adapter is.
pub(super) fn link(adapter: &Adapter, index: u32) -> Result<&Link, Failure> {
    let index = engine(adapter, index)?;
    Ok(adapter.links().get(index as usize).ok_or(STATUS_INTERNAL_ERROR)?)
}

/// The number of a node of a physical adapter among all of the adapter.
pub(super) fn node_at(adapter: &Adapter, ordinal: u32, engine: u32) -> Result<u32, Failure> {
    let why = || format!("NodeOrdinal {ordinal} of PhysicalAdapterIndex {engine} is no node of the adapter");
    adapter.caps().node_at(ordinal, engine).ok_or_else(|| refused(STATUS_INVALID_PARAMETER, why()))
}
