//! D3DKMTQueryAdapterInfo about the registry: KMTQAITYPE_ADAPTERREGISTRYINFO and KMTQAITYPE_QUERYREGISTRY.

use core::mem::offset_of;

use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::adapter_answer::{engine, read, wide};
use super::user;
use crate::adapter::Adapter;
use crate::config::{Installation, RegistryValue};
use crate::refusal::{Failure, refused};

/// The texts about the hardware; those that nobody wrote are empty. [registering-hardware-information]
pub(super) fn registry_info(installation: &Installation) -> D3DKMT_ADAPTERREGISTRYINFO {
    let text =
        |name: &str| wide(installation.software.text(&format!("HardwareInformation.{name}")).as_deref().unwrap_or(""));
    D3DKMT_ADAPTERREGISTRYINFO {
        AdapterString: text("AdapterString"),
        BiosString: text("BiosString"),
        DacType: text("DacType"),
        ChipType: text("ChipType"),
    }
}

/// A value of a key of the adapter's driver. One that does not fit is told by `Status` and `OutputValueSize` alone. A question that fails
/// changes nothing but `Status`.
///
/// Errors: STATUS_BUFFER_TOO_SMALL below the size of the structure; STATUS_INVALID_PARAMETER for a type, a flag or a physical adapter that there is
/// not, and a name without its NUL; STATUS_OBJECT_NAME_NOT_FOUND for a value that the key does not have, also for the paths of a driver store,
/// which this machine has not; STATUS_OBJECT_TYPE_MISMATCH for one of another type. [d3dukmdt: D3DDDI_QUERYREGISTRY_INFO]
pub(super) fn query_registry(adapter: &Adapter, args: &D3DKMT_QUERYADAPTERINFO) -> Result<NTSTATUS, Failure> {
    use D3DDDI_QUERYREGISTRY_STATUS as Status;
    const VALUE: usize = offset_of!(D3DDDI_QUERYREGISTRY_INFO, u);
    let mut info: D3DDDI_QUERYREGISTRY_INFO = read(args)?;
    let whole = args.pPrivateDriverData.cast::<D3DDDI_QUERYREGISTRY_INFO>();
    let bytes = match find(adapter, &info) {
        Ok(value) => value.bytes(),
        Err(status) => {
            info.Status = Status::D3DDDI_QUERYREGISTRY_STATUS_FAIL;
            user::write(whole, &info)?;
            return Err(status);
        }
    };
    info.OutputValueSize = u32::try_from(bytes.len()).map_err(|_| STATUS_INTERNAL_ERROR)?;
    if (args.PrivateDriverDataSize as usize).saturating_sub(VALUE) < bytes.len() {
        info.Status = Status::D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW;
        user::write(whole, &info)?;
        return Ok(STATUS_SUCCESS);
    }
    info.Status = Status::D3DDDI_QUERYREGISTRY_STATUS_SUCCESS;
    user::write(whole, &info)?;
    user::write_array(whole.cast::<u8>().wrapping_add(VALUE), &bytes)?;
    Ok(STATUS_SUCCESS)
}

fn find(adapter: &Adapter, info: &D3DDDI_QUERYREGISTRY_INFO) -> Result<RegistryValue, Failure> {
    use D3DDDI_QUERYREGISTRY_TYPE as Type;
    let known = D3DDDI_QUERYREGISTRY_FLAGS::new().with_TranslatePath(true).with_MutableValue(true);
    let flags = info.QueryFlags.into_bits();
    let invalid = |why: String| Err(refused(STATUS_INVALID_PARAMETER, why));
    let absent = |why: String| refused(STATUS_OBJECT_NAME_NOT_FOUND, why);
    if flags & !known.into_bits() != 0 {
        return invalid(format!("QueryFlags is {flags:#x}, and known are TranslatePath and MutableValue"));
    }
    engine(adapter, info.PhysicalAdapterIndex)?;
    let key = match info.QueryType {
        Type::D3DDDI_QUERYREGISTRY_SERVICEKEY => &adapter.installation.service,
        Type::D3DDDI_QUERYREGISTRY_ADAPTERKEY => &adapter.installation.software,
        Type::D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH | Type::D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH => {
            return match info.ValueType {
                0 => Err(absent("there is no driver store on this machine".into())),
                other => invalid(format!("ValueType is {other}, and expected is 0 for a path")),
            };
        }
        Type(other) => return invalid(format!("QueryType is {other}, which is none of D3DDDI_QUERYREGISTRY_TYPE")),
    };
    let Some(end) = info.ValueName.iter().position(|unit| *unit == 0) else {
        return invalid(format!("ValueName has no NUL within {} characters", info.ValueName.len()));
    };
    let name = String::from_utf16_lossy(info.ValueName.get(..end).unwrap_or_default());
    let value = key.get(&name).ok_or_else(|| absent(format!("the key has no value {name}")))?;
    if value.kind() != info.ValueType {
        let why = format!("ValueType is {}, and the value {name} is of type {}", info.ValueType, value.kind());
        return Err(refused(STATUS_OBJECT_TYPE_MISMATCH, why));
    }
    Ok(value)
}
