//! Answers of D3DKMTQueryAdapterInfo that come from the registry keys of the adapter's driver.

use core::mem::offset_of;

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::KMTQUERYADAPTERINFOTYPE as Kind;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

use super::adapter_info::get;
use super::caps::adapter;
use crate::kmt::BAD_ARGUMENT;
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "AdapterRegistry";
    "AdapterRegistry.HardwareInformationIsTold" on Boot::Shared, "d3dkmt_adapterregistryinfo":
        "The texts about the hardware are the HardwareInformation values of the software key, for rendering too."
        => hardware_information;
    "AdapterRegistry.DriverVersionIsThatOfTheSoftwareKey" on Boot::Shared, "d3dkmt_kmd_driver_version":
        "The version of the kernel-mode driver is the DriverVersion of the software key."
        => driver_version;
    "AdapterRegistry.DescriptionIsThatOfTheSoftwareKey" on Boot::Shared, "d3dkmt_driver_description":
        "The description of the driver is the DriverDesc of the software key, for rendering too."
        => description;
    "AdapterRegistry.ServiceKeyIsRead" on Boot::Shared, "d3dddi_queryregistry_type":
        "A number of the service key is read: display miniports are started on demand."
        => service_key;
    "AdapterRegistry.ValueWithoutSpaceTellsItsSize" on Boot::Shared, "d3dddi_queryregistry_info":
        "A value that does not fit the buffer succeeds with the status of an overflow and its size alone; a buffer of that size gets it."
        => with_a_short_buffer;
    "AdapterRegistry.FailedQuestionChangesNothing" on Boot::Shared, "d3dddi_queryregistry_info":
        "A question for an absent value, a value of another type, an unknown key or a physical adapter beyond the last fails and leaves everything but Status as it was."
        => failed_question;
    "AdapterRegistry.UserModeDriverNameIsAbsent" on Boot::Shared, "d3dkmt_umdfilenameinfo":
        "An adapter for which no user-mode driver of Direct3D is installed tells no name and no version of one, and a runtime that there is not is refused."
        => no_user_mode_driver;
}

/// REG_SZ and REG_DWORD. [winnt: REG_SZ]
const TEXT: u32 = 1;
const NUMBER: u32 = 4;

/// A question with space for 512 bytes of value behind the structure.
#[repr(C)]
struct Question {
    info: D3DDDI_QUERYREGISTRY_INFO,
    buffer: [u8; 512],
}

impl Question {
    fn new(key: D3DDDI_QUERYREGISTRY_TYPE, name: &str, kind: u32) -> Self {
        let mut info = D3DDDI_QUERYREGISTRY_INFO::zeroed();
        (info.QueryType, info.ValueType) = (key, kind);
        for (to, unit) in info.ValueName.iter_mut().zip(name.encode_utf16()) {
            *to = unit;
        }
        Self { info, buffer: [0; 512] }
    }

    /// The value, of the size that was told.
    fn value(&self) -> Vec<u8> {
        let start = std::ptr::from_ref(self).cast::<u8>().wrapping_add(offset_of!(D3DDDI_QUERYREGISTRY_INFO, u));
        let size = (self.info.OutputValueSize as usize).min(self.buffer.len());
        // SAFETY: the union is the last member of the structure at the start of the question, and the space follows it; together they are longer
        // than `size`, and every byte of both is initialised.
        let value = unsafe { std::slice::from_raw_parts(start, size) };
        value.to_vec()
    }
}

const ADAPTER_KEY: D3DDDI_QUERYREGISTRY_TYPE = D3DDDI_QUERYREGISTRY_TYPE::D3DDDI_QUERYREGISTRY_ADAPTERKEY;
const SERVICE_KEY: D3DDDI_QUERYREGISTRY_TYPE = D3DDDI_QUERYREGISTRY_TYPE::D3DDDI_QUERYREGISTRY_SERVICEKEY;
const SUCCESS: D3DDDI_QUERYREGISTRY_STATUS = D3DDDI_QUERYREGISTRY_STATUS::D3DDDI_QUERYREGISTRY_STATUS_SUCCESS;
const OVERFLOW: D3DDDI_QUERYREGISTRY_STATUS = D3DDDI_QUERYREGISTRY_STATUS::D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW;

fn ask(case: &Case, question: &mut Question) -> Result<NTSTATUS, Failure> {
    Ok(case.kmt().ask(adapter(case)?, Kind::KMTQAITYPE_QUERYREGISTRY, question))
}

/// A text of the software key.
fn software_text(case: &Case, name: &str) -> Result<String, Failure> {
    let mut question = Question::new(ADAPTER_KEY, name, TEXT);
    granted(ask(case, &mut question)?, name)?;
    ensure_eq!(question.info.Status, SUCCESS, "status of {name}");
    let bytes = question.value();
    ensure!(bytes.ends_with(&[0, 0]), "{name} does not end with a NUL");
    let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    Ok(text(&units))
}

fn text(units: &[u16]) -> String {
    String::from_utf16_lossy(units.split(|unit| *unit == 0).next().unwrap_or_default())
}

fn hardware_information(case: &Case) -> Result<(), Failure> {
    let info: D3DKMT_ADAPTERREGISTRYINFO = get(case, Kind::KMTQAITYPE_ADAPTERREGISTRYINFO)?;
    let adapter = software_text(case, "HardwareInformation.AdapterString")?;
    ensure!(!adapter.is_empty(), "the adapter has no name");
    ensure_eq!(text(&info.AdapterString), adapter, "AdapterString");
    ensure_eq!(text(&info.ChipType), software_text(case, "HardwareInformation.ChipType")?, "ChipType");
    ensure_eq!((text(&info.BiosString), text(&info.DacType)), (String::new(), String::new()), "BiosString and DacType");
    let render: D3DKMT_ADAPTERREGISTRYINFO = get(case, Kind::KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER)?;
    ensure_eq!(render.AdapterString, info.AdapterString, "AdapterString for rendering");
    Ok(())
}

fn driver_version(case: &Case) -> Result<(), Failure> {
    let version: D3DKMT_KMD_DRIVER_VERSION = get(case, Kind::KMTQAITYPE_KMD_DRIVER_VERSION)?;
    let bits = version.DriverVersion.QuadPart.cast_unsigned();
    let numbers = [48, 32, 16, 0].map(|shift| (bits >> shift & 0xffff).to_string());
    ensure_eq!(numbers.join("."), software_text(case, "DriverVersion")?, "the version");
    Ok(())
}

fn description(case: &Case) -> Result<(), Failure> {
    let expected = software_text(case, "DriverDesc")?;
    for kind in [Kind::KMTQAITYPE_DRIVER_DESCRIPTION, Kind::KMTQAITYPE_DRIVER_DESCRIPTION_RENDER] {
        let answer: D3DKMT_DRIVER_DESCRIPTION = get(case, kind)?;
        ensure_eq!(text(&answer.DriverDescription), expected.clone(), "description by query {}", kind.0);
    }
    Ok(())
}

fn service_key(case: &Case) -> Result<(), Failure> {
    let mut question = Question::new(SERVICE_KEY, "Start", NUMBER);
    granted(ask(case, &mut question)?, "Start of the service")?;
    ensure_eq!((question.info.Status, question.value()), (SUCCESS, vec![3, 0, 0, 0]), "Start");
    Ok(())
}

fn with_a_short_buffer(case: &Case) -> Result<(), Failure> {
    let mut question = Question::new(ADAPTER_KEY, "driverdesc", TEXT);
    // The structure alone has eight bytes of value.
    let status = case.kmt().ask(adapter(case)?, Kind::KMTQAITYPE_QUERYREGISTRY, &mut question.info);
    granted(status, "a question without space for the value")?;
    ensure_eq!(question.info.Status, OVERFLOW, "status without space");
    let size = question.info.OutputValueSize;
    ensure!(size > 8 && question.value().iter().all(|byte| *byte == 0), "{size} bytes are told, and some are written");
    granted(ask(case, &mut question)?, "the same question with space")?;
    ensure_eq!((question.info.Status, question.info.OutputValueSize), (SUCCESS, size), "status and size with space");
    ensure!(question.value().iter().any(|byte| *byte != 0), "no value with space");
    Ok(())
}

fn failed_question(case: &Case) -> Result<(), Failure> {
    let absent = [STATUS_OBJECT_NAME_NOT_FOUND, STATUS_INVALID_PARAMETER];
    let other_type = [STATUS_OBJECT_TYPE_MISMATCH, STATUS_INVALID_PARAMETER];
    let unknown = D3DDDI_QUERYREGISTRY_TYPE::D3DDDI_QUERYREGISTRY_MAX;
    let beyond = {
        let mut question = Question::new(ADAPTER_KEY, "DriverDesc", TEXT);
        question.info.PhysicalAdapterIndex = 64;
        question
    };
    let endless = Question::new(ADAPTER_KEY, &"x".repeat(260), TEXT);
    let flags = {
        let mut question = Question::new(ADAPTER_KEY, "DriverDesc", TEXT);
        question.info.QueryFlags = D3DDDI_QUERYREGISTRY_FLAGS::from_bits(1 << 31);
        question
    };
    for (mut question, allowed, what) in [
        (Question::new(ADAPTER_KEY, "NoSuchValue", TEXT), &absent[..], "an absent value"),
        (Question::new(SERVICE_KEY, "DriverDesc", TEXT), &absent, "a value of the other key"),
        (Question::new(ADAPTER_KEY, "DriverDesc", NUMBER), &other_type, "a value of another type"),
        (Question::new(unknown, "DriverDesc", TEXT), BAD_ARGUMENT, "an unknown key"),
        (beyond, BAD_ARGUMENT, "physical adapter 64"),
        (endless, &absent, "a name without its NUL"),
        (flags, BAD_ARGUMENT, "an unknown flag"),
    ] {
        question.info.OutputValueSize = 0x5a5a;
        question.buffer = [0xa5; 512];
        refused(ask(case, &mut question)?, allowed, what)?;
        ensure_eq!(question.info.OutputValueSize, 0x5a5a, "size after {what}");
        ensure!(question.buffer.iter().all(|byte| *byte == 0xa5), "{what} wrote a value");
    }
    Ok(())
}

fn no_user_mode_driver(case: &Case) -> Result<(), Failure> {
    let allowed = [STATUS_OBJECT_NAME_NOT_FOUND, STATUS_NOT_FOUND, STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER];
    for version in [KMTUMDVERSION::KMTUMDVERSION_DX9, KMTUMDVERSION::KMTUMDVERSION_DX12] {
        let mut info = D3DKMT_UMDFILENAMEINFO { Version: version, ..Zeroed::zeroed() };
        let status = case.kmt().ask(adapter(case)?, Kind::KMTQAITYPE_UMDRIVERNAME, &mut info);
        refused(status, &allowed, &format!("the name of user-mode driver {}", version.0))?;
    }
    for version in [-1, 6, i32::MAX] {
        let mut info = D3DKMT_UMDFILENAMEINFO { Version: KMTUMDVERSION(version), ..Zeroed::zeroed() };
        let status = case.kmt().ask(adapter(case)?, Kind::KMTQAITYPE_UMDRIVERNAME, &mut info);
        refused(status, BAD_ARGUMENT, &format!("the name of user-mode driver {version}"))?;
    }
    let mut version = D3DKMT_KMD_DRIVER_VERSION::zeroed();
    let status = case.kmt().ask(adapter(case)?, Kind::KMTQAITYPE_UMD_DRIVER_VERSION, &mut version);
    refused(status, &allowed, "the version of a user-mode driver")
}
