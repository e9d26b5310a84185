//! The thunks of this system, and the adapter of this driver among those that they list.

use std::fmt;

use campanile_conformance::kmt::Kmt;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use crate::exit::{EXIT_INPUT, EXIT_NO_ADAPTER, EXIT_SYSTEM};

pub(crate) use os::find;
#[cfg(unix)]
pub(crate) use os::{find_at, has_adapter};

/// An adapter of this driver.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) luid: LUID,
    /// Version of the interface that its driver speaks.
    pub(crate) version: u32,
    /// Thunks that this system lacks; the cases that call one of them are skipped.
    pub(crate) missing: Vec<&'static str>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LUID { HighPart: high, LowPart: low } = self.luid;
        write!(f, "the installed one, interface {:#x}, adapter {high:x}:{low:08x}", self.version)?;
        match &*self.missing {
            [] => Ok(()),
            missing => write!(f, "; this Windows does not export {}", missing.join(", ")),
        }
    }
}

/// The reason why no case can run.
#[derive(Debug)]
#[allow(dead_code)] // each system lacks something else
pub(crate) enum Missing {
    /// This is no Windows, and no machine is named.
    Windows,
    /// The machine that is named cannot be used.
    Machine(String),
    /// The system does not list compute-only adapters.
    Listing,
    /// So many adapters were listed, and none is ours.
    Adapter(usize),
    /// The listing failed.
    Refused(NTSTATUS),
}

impl Missing {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Windows => EXIT_SYSTEM,
            Self::Machine(_) => EXIT_INPUT,
            Self::Listing | Self::Adapter(_) | Self::Refused(_) => EXIT_NO_ADAPTER,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use campanile_hw::pci::{DEVICE_ID, VENDOR_ID};
        let what_to_do = format_args!(
            "the driver of PCI\\VEN_{VENDOR_ID:04X}&DEV_{DEVICE_ID:04X} has to be installed and started first, as docs/windows.md says"
        );
        match self {
            Self::Windows => f.write_str(
                "this program runs on Windows, or with CAMPANILE_MACHINE on a machine of `campanile machine`; `campanile hlk` runs the same cases here",
            ),
            Self::Machine(why) => f.write_str(why),
            Self::Listing => write!(
                f,
                "no adapter: gdi32.dll of this system has no D3DKMTEnumAdapters3, without which no compute-only adapter is listed; {what_to_do} on Windows 11 24H2 or later"
            ),
            Self::Adapter(others) => write!(
                f,
                "no adapter: D3DKMTEnumAdapters3 with the compute-only filter lists {others}, none of them with this driver; {what_to_do}"
            ),
            Self::Refused(status) => {
                write!(
                    f,
                    "no adapter: D3DKMTEnumAdapters3 with the compute-only filter failed with {status}; {what_to_do}"
                )
            }
        }
    }
}

#[cfg(not(windows))]
mod os {
    use std::path::Path;

    use super::{Found, Missing, first};

    /// Takes the thunks of the machine that CAMPANILE_MACHINE names.
    pub(crate) fn find() -> Result<Found, Missing> {
        find_at(&remote::client::named().ok_or(Missing::Windows)?)
    }

    /// True if the machine whose thunks were taken is there, with an adapter of this driver.
    pub(crate) fn has_adapter() -> bool {
        first(Vec::new()).is_ok()
    }

    /// Takes the thunks of the machine that is served at a socket for the cases, and finds the first adapter of this driver.
    pub(crate) fn find_at(machine: &Path) -> Result<Found, Missing> {
        remote::client::connect(machine, "hlk").map_err(|error| Missing::Machine(error.to_string()))?;
        campanile_conformance::provide(remote::sending::thunks(), remote::sending::further_thunks());
        first(Vec::new()).map_err(|_| {
            let machine = machine.display();
            Missing::Machine(format!(
                "the machine at {machine} has no adapter of this driver; `campanile ctl plug-in --machine {machine}` plugs one in where it was pulled out"
            ))
        })
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::CStr;

    use wddm_ddi::kmt::*;

    use super::{Found, Missing, first};
    use crate::run::Skipped;

    /// Takes the thunks of this system for the cases, and finds the first adapter of this driver.
    pub(crate) fn find() -> Result<Found, Missing> {
        let mut missing = Vec::new();
        let mut find = |module: &CStr, name: &'static CStr| {
            let address = system_export(module, name);
            if address.is_null() {
                missing.push(name.to_str().unwrap_or_default());
            }
            address
        };
        // SAFETY: what Windows exports under these names has the types that its headers declare, which are those of the table, and stays.
        let thunks = unsafe { Thunks::look_up::<Skipped>(&mut find) };
        // SAFETY: as above.
        let further = unsafe { FurtherThunks::look_up::<Skipped>(&mut find) };
        // The first of what finding an adapter takes; a system that has it has the others, which are older.
        if missing.contains(&"D3DKMTEnumAdapters3") {
            return Err(Missing::Listing);
        }
        campanile_conformance::provide(Box::leak(Box::new(thunks)), Box::leak(Box::new(further)));
        first(missing)
    }
}

fn first(missing: Vec<&'static str>) -> Result<Found, Missing> {
    let kmt = Kmt::new();
    let infos = list(kmt).map_err(Missing::Refused)?;
    let mut found = None;
    for info in &infos {
        if let Ok(Some(data)) = kmt.driver_data(info.hAdapter)
            && found.is_none()
        {
            found = Some((info.AdapterLuid, data.version));
        }
        // A handle that the system refuses to close costs nothing that matters here.
        let _ = kmt.close_adapter(info.hAdapter);
    }
    let (luid, version) = found.ok_or(Missing::Adapter(infos.len()))?;
    Ok(Found { luid, version, missing })
}

/// All adapters, compute-only ones included, each with a handle.
fn list(kmt: Kmt) -> Result<Vec<D3DKMT_ADAPTERINFO>, NTSTATUS> {
    let mut arguments = D3DKMT_ENUMADAPTERS3 {
        Filter: D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true),
        NumAdapters: 0,
        pAdapters: std::ptr::null_mut(),
    };
    kmt.call(kmt.table().D3DKMTEnumAdapters3, &mut arguments).ok()?;
    // Some spare capacity, because adapters may arrive between the two calls.
    let mut infos = vec![D3DKMT_ADAPTERINFO::zeroed(); arguments.NumAdapters.min(256) as usize + 4];
    arguments.NumAdapters = infos.len() as u32;
    arguments.pAdapters = infos.as_mut_ptr();
    kmt.call(kmt.table().D3DKMTEnumAdapters3, &mut arguments).ok()?;
    infos.truncate(arguments.NumAdapters as usize);
    Ok(infos)
}
