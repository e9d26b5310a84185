// UNSAFETY: raw arguments of callbacks.
//! Resources of the device: information, mappings, configuration space.

use std::ffi::c_void;

use wddm_ddi::Zeroed;
use wddm_ddi::km::{DOCKING_STATE, DXGK_DEVICE_INFO};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::call::{Level, answer, check_range, invalid, on_link, refused};
use crate::adapter::Adapter;
use crate::port::Link;
use nt::bugcheck::Bugcheck;
use nt::driver::MapCall;
use nt::driver_call::{bad_pointer, calling_instruction};
use nt::fault::{Access, Fault, guarded};

/// This machine has no ACPI namespace, and so no method of any device. Its arguments are not looked at. [dispmprt: DXGKCB_EVAL_ACPI_METHOD]
pub(super) unsafe extern "win64" fn eval_acpi_method(
    handle: HANDLE,
    _device_uid: u32,
    _input: *mut c_void,
    _input_size: u32,
    _output: *mut c_void,
    _output_size: u32,
) -> NTSTATUS {
    on_link("DxgkCbEvalAcpiMethod", Level::Passive, handle, |_, _, _| Ok(STATUS_NOT_SUPPORTED))
}

/// Bytes of configuration space of a PCI Express function.
const CONFIG_SPACE: u32 = 4096;

pub(super) unsafe extern "win64" fn get_device_information(handle: HANDLE, info: *mut DXGK_DEVICE_INFO) -> NTSTATUS {
    const NAME: &str = "DxgkCbGetDeviceInformation";
    on_link(NAME, Level::Passive, handle, |adapter, _, link| {
        let memory = adapter.machine.ram().size() as i64;
        let mut answered = DXGK_DEVICE_INFO::zeroed();
        answered.MiniportDeviceContext = link.context.raw();
        answered.PhysicalDeviceObject = link.device_object();
        answered.DeviceRegistryPath = link.registry_path();
        answered.TranslatedResourceList = link.resource_list().cast_mut();
        answered.SystemMemorySize = LARGE_INTEGER { QuadPart: memory };
        answered.HighestPhysicalAddress = LARGE_INTEGER { QuadPart: memory - 1 };
        answered.DockingState = DOCKING_STATE::DockStateUnsupported;
        // SAFETY: the driver passes NULL or a place for the structure.
        let told = unsafe { answer(NAME, info, answered) }?;
        let why = format!("DeviceInfo is {info:p}, and expected is the address of a DXGK_DEVICE_INFO, a multiple of 8");
        Ok(if told { STATUS_SUCCESS } else { invalid(NAME, adapter, why) })
    })
}

pub(super) unsafe extern "win64" fn map_memory(
    handle: HANDLE,
    address: PHYSICAL_ADDRESS,
    length: u32,
    in_io_space: BOOLEAN,
    to_user_mode: BOOLEAN,
    _cache: MEMORY_CACHING_TYPE,
    virtual_address: *mut *mut c_void,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbMapMemory";
    let by = MapCall { service: NAME, from: calling_instruction() };
    on_link(NAME, Level::Passive, handle, |adapter, _, link| {
        let wrong = match (in_io_space, virtual_address.is_null()) {
            (0, false) => None,
            (0, true) => Some("VirtualAddress is NULL, and expected is a place for the address"),
            _ => Some("InIoSpace is TRUE, and expected is FALSE: the BARs of the device are memory"),
        };
        if let Some(why) = wrong {
            return Ok(invalid(NAME, adapter, format!("{why} [dispmprt: DXGKCB_MAP_MEMORY]")));
        }
        // A page allows it: it is no mistake of the driver's that this system has none.
        if to_user_mode != 0 {
            adapter.machine.verifier().log(format!(
                "{NAME} answers {STATUS_NOT_SUPPORTED}: MapToUserMode is TRUE, which this system does not provide [dispmprt: DXGKCB_MAP_MEMORY]"
            ));
            return Ok(STATUS_NOT_SUPPORTED);
        }
        let (start, len) = (address.QuadPart as u64, u64::from(length));
        let mapped = match link.resources.map(start, len, by) {
            Ok(mapped) => mapped,
            Err(STATUS_INVALID_PARAMETER) => {
                let why = link.resources.why_not_mapped(start, len);
                return Ok(invalid(NAME, adapter, format!("{why} [dispmprt: DXGKCB_MAP_MEMORY]")));
            }
            Err(status) => return Ok(status),
        };
        // SAFETY: the driver passes a place for the address.
        let told = unsafe { answer(NAME, virtual_address, std::ptr::with_exposed_provenance_mut(mapped)) };
        if !matches!(told, Ok(true)) {
            unmap(NAME, link, mapped, by)?;
        }
        let unaligned = format!("VirtualAddress is {virtual_address:p}, and expected is a multiple of 8");
        Ok(if told? { STATUS_SUCCESS } else { invalid(NAME, adapter, unaligned) })
    })
}

pub(super) unsafe extern "win64" fn unmap_memory(handle: HANDLE, virtual_address: *mut c_void) -> NTSTATUS {
    const NAME: &str = "DxgkCbUnmapMemory";
    let by = MapCall { service: NAME, from: calling_instruction() };
    on_link(NAME, Level::Passive, handle, |adapter, _, link| {
        if unmap(NAME, link, virtual_address.addr(), by)? {
            return Ok(STATUS_SUCCESS);
        }
        let why = format!(
            "VirtualAddress {virtual_address:p} is no address that DxgkCbMapMemory has answered for this device, or the mapping is unmapped already \
             [dispmprt: DXGKCB_UNMAP_MEMORY]"
        );
        Ok(invalid(NAME, adapter, why))
    })
}

/// Ends a mapping; false if there is none at this address. A host that does not take the addresses back stops the machine: a use of them would not be found.
fn unmap(name: &str, link: &Link, address: usize, by: MapCall) -> Result<bool, Bugcheck> {
    link.resources.unmap(address, by).map_err(|error| {
        let reason = format!("{name} of {address:#x}: the host has not taken its addresses back ({error})");
        Bugcheck::fatal_of(address, reason)
    })
}

/// Spaces of DxgkCbReadDeviceSpace besides DXGK_WHICHSPACE_CONFIG. [dispmprt: DXGKCB_READ_DEVICE_SPACE]
const DXGK_WHICHSPACE_ROM: u32 = 0x5269_6350;
const DXGK_WHICHSPACE_MCH: u32 = 0x8000_0000;
const DXGK_WHICHSPACE_BRIDGE: u32 = 0x8000_0001;

/// Pieces of a transfer of configuration space: (offset, bytes, position in the buffer).
type Pieces = Vec<(u16, u8, usize)>;

/// Checks a transfer of configuration space and cuts it into naturally aligned pieces.
///
/// # Errors
/// The argument that the page rules out, in words.
fn pieces(buffer: *mut c_void, offset: u32, length: u32) -> Result<Pieces, String> {
    if buffer.is_null() {
        return Err("Buffer is NULL, and expected is the address of a buffer".to_owned());
    }
    let end = offset.checked_add(length).filter(|end| *end <= CONFIG_SPACE);
    let Some(end) = end else {
        return Err(format!(
            "Offset {offset:#x} and Length {length:#x} reach past the end of configuration space, which has {CONFIG_SPACE} bytes"
        ));
    };
    let mut pieces = Vec::new();
    let mut at = offset;
    while at < end {
        let size = [4, 2, 1].into_iter().find(|size| at.is_multiple_of(*size) && at + size <= end).unwrap_or(1);
        pieces.push((at as u16, size as u8, (at - offset) as usize));
        at += size;
    }
    Ok(pieces)
}

/// What a transfer of another space than configuration space is answered with, and of which the log has the reason. None for configuration space.
/// [dispmprt: DXGKCB_READ_DEVICE_SPACE, DXGKCB_WRITE_DEVICE_SPACE]
fn other_space(name: &str, adapter: &Adapter, data_type: u32) -> Option<NTSTATUS> {
    let space = match data_type {
        DXGK_WHICHSPACE_CONFIG => return None,
        DXGK_WHICHSPACE_ROM => "DXGK_WHICHSPACE_ROM, and this system does not read expansion ROMs",
        DXGK_WHICHSPACE_MCH => "DXGK_WHICHSPACE_MCH, and this machine has no memory controller hub on a bus",
        DXGK_WHICHSPACE_BRIDGE => {
            "DXGK_WHICHSPACE_BRIDGE, and this system does not reach the configuration space of a root port"
        }
        other => {
            let why = format!(
                "DataType is {other:#x}, and expected is DXGK_WHICHSPACE_CONFIG, _ROM, _MCH or _BRIDGE [dispmprt: DXGKCB_READ_DEVICE_SPACE]"
            );
            return Some(invalid(name, adapter, why));
        }
    };
    Some(refused(name, adapter, STATUS_UNSUCCESSFUL, format!("DataType is {space}")))
}

/// The driver's buffer, piece by piece, and the count of what was done.
fn transfer(
    name: &'static str,
    pieces: Pieces,
    length: u32,
    done: *mut u32,
    mut piece: impl FnMut(u16, u8, usize) -> Result<(), Fault>,
) -> Result<NTSTATUS, Bugcheck> {
    for (offset, size, position) in pieces {
        piece(offset, size, position).map_err(|fault| bad_pointer(name, fault))?;
    }
    // SAFETY: the driver passes NULL or a place for the count.
    unsafe { answer(name, done, length) }?;
    Ok(STATUS_SUCCESS)
}

pub(super) unsafe extern "win64" fn read_device_space(
    handle: HANDLE,
    data_type: u32,
    buffer: *mut c_void,
    offset: u32,
    length: u32,
    read: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbReadDeviceSpace";
    on_link(NAME, Level::Passive, handle, |adapter, _, link| {
        if let Some(status) = other_space(NAME, adapter, data_type) {
            return Ok(status);
        }
        let pieces = match pieces(buffer, offset, length) {
            Ok(pieces) => pieces,
            Err(why) => return Ok(invalid(NAME, adapter, format!("{why} [dispmprt: DXGKCB_READ_DEVICE_SPACE]"))),
        };
        check_range(NAME, buffer.addr(), length as usize, Access::Write)?;
        transfer(NAME, pieces, length, read, |offset, size, position| {
            let value = link.function.bus.config_read(offset, size).to_le_bytes();
            let value = value.get(..usize::from(size)).unwrap_or_default();
            // SAFETY: the driver's buffer has `length` bytes, which the pieces do not exceed.
            unsafe { guarded::write_bytes(buffer.cast::<u8>().wrapping_add(position), value) }
        })
    })
}

pub(super) unsafe extern "win64" fn write_device_space(
    handle: HANDLE,
    data_type: u32,
    buffer: *mut c_void,
    offset: u32,
    length: u32,
    written: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbWriteDeviceSpace";
    on_link(NAME, Level::Passive, handle, |adapter, _, link| {
        if let Some(status) = other_space(NAME, adapter, data_type) {
            return Ok(status);
        }
        let pieces = match pieces(buffer, offset, length) {
            Ok(pieces) => pieces,
            Err(why) => return Ok(invalid(NAME, adapter, format!("{why} [dispmprt: DXGKCB_WRITE_DEVICE_SPACE]"))),
        };
        check_range(NAME, buffer.addr(), length as usize, Access::Read)?;
        // Nothing is written to the device from a buffer that ends too soon.
        guarded::probe(buffer.cast(), length as usize).map_err(|fault| bad_pointer(NAME, fault))?;
        transfer(NAME, pieces, length, written, |offset, size, position| {
            let mut value = [0; 4];
            let piece = value.get_mut(..usize::from(size)).unwrap_or_default();
            guarded::read_bytes(buffer.cast::<u8>().wrapping_add(position), piece)?;
            link.function.bus.config_write(offset, size, u32::from_le_bytes(value));
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_cut_into_aligned_pieces_and_bounded() {
        let buffer = core::ptr::without_provenance_mut(8);
        assert_eq!(pieces(buffer, 1, 8), Ok(vec![(1, 1, 0), (2, 2, 1), (4, 4, 3), (8, 1, 7)]));
        assert_eq!(pieces(buffer, 0, 4096).map(|pieces| pieces.len()), Ok(1024));
        assert!(pieces(buffer, 1, 4096).is_err());
        assert!(pieces(buffer, u32::MAX, 2).is_err());
        assert!(pieces(std::ptr::null_mut(), 0, 4).is_err());
    }
}
