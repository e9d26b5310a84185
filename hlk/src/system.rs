//! The thunks of this system, and the adapter of this driver among those that they list.

use std::fmt;

use wddm_ddi::types::LUID;

use crate::exit::{EXIT_NO_ADAPTER, EXIT_SYSTEM};

pub(crate) use os::find;

/// An adapter of this driver.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) luid: LUID,
    /// Version of the interface that its driver speaks.
    pub(crate) version: u32,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LUID { HighPart: high, LowPart: low } = self.luid;
        write!(f, "the installed one, interface {:#x}, adapter {high:x}:{low:08x}", self.version)
    }
}

/// Why no case can run.
#[derive(Debug)]
#[allow(dead_code)] // each system lacks something else
pub(crate) enum Missing {
    /// This is no Windows.
    Windows,
    /// Thunks, by name.
    Thunks(Vec<&'static str>),
    /// The system does not list compute-only adapters.
    Listing,
    /// So many adapters were listed, and none is ours.
    Adapter(usize),
    /// The listing failed.
    Refused(wddm_ddi::types::NTSTATUS),
}

impl Missing {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Windows | Self::Thunks(_) => EXIT_SYSTEM,
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
            Self::Windows => f.write_str("this program runs on Windows; `campanile hlk` runs the same cases here"),
            Self::Thunks(names) => write!(
                f,
                "gdi32.dll and ntdll.dll of this system do not export {}; Windows 11 24H2 is the first that has all thunks",
                names.join(", ")
            ),
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
    use super::{Found, Missing};

    pub(crate) fn find() -> Result<Found, Missing> {
        Err(Missing::Windows)
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::{CStr, CString, c_char, c_void};

    use campanile_conformance::kmt::Kmt;
    use campanile_hw::private::{AdapterData, MAGIC};
    use wddm_ddi::Zeroed;
    use wddm_ddi::kmt::*;
    use wddm_ddi::types::*;

    use super::{Found, Missing};

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn LoadLibraryExW(name: *const u16, file: *mut c_void, flags: u32) -> *mut c_void;
        fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    /// Only the folder of the system's own DLLs is searched. [libloaderapi: LOAD_LIBRARY_SEARCH_SYSTEM32]
    const SYSTEM32: u32 = 0x800;

    /// The address of an export, null if there is none.
    fn export(module: &str, name: &CStr) -> *mut c_void {
        let module: Vec<u16> = format!("{module}.dll\0").encode_utf16().collect();
        // SAFETY: a terminated name; the system's DLLs stay loaded.
        let module = unsafe { LoadLibraryExW(module.as_ptr(), std::ptr::null_mut(), SYSTEM32) };
        if module.is_null() {
            return module;
        }
        // SAFETY: a loaded module and a terminated name.
        unsafe { GetProcAddress(module, name.as_ptr()) }
    }

    /// A table of thunks.
    trait Table: Sized {
        /// Fills it; all names that are missing otherwise.
        fn load() -> Result<Self, Vec<&'static str>>;
    }

    macro_rules! load {
        ($(
            $(#[doc = $about:literal])*
            $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
        )*) => { $(
            impl Table for $table {
                fn load() -> Result<Self, Vec<&'static str>> {
                    let find = |module: &str, name: &'static str| {
                        let terminated = CString::new(name).unwrap_or_default();
                        export(module, &terminated)
                    };
                    let all = [$($( (stringify!($name), find($module, stringify!($name))) ),*),*];
                    let missing: Vec<&str> =
                        all.iter().filter(|(_, address)| address.is_null()).map(|(name, _)| *name).collect();
                    if !missing.is_empty() {
                        return Err(missing);
                    }
                    let mut addresses = all.into_iter().map(|(_, address)| address);
                    Ok(Self { $($(
                        $name: {
                            let address = addresses.next().ok_or_else(Vec::new)?;
                            // SAFETY: not null, and what the system exports under this name has this type.
                            unsafe {
                                std::mem::transmute::<*mut c_void, unsafe extern "win64" fn($($ty),+) -> NTSTATUS>(address)
                            }
                        },
                    )*)* })
                }
            }
        )* };
    }

    wddm_ddi::for_each_thunk!(load);

    /// Takes the thunks of this system for the cases, and finds the first adapter of this driver.
    pub(crate) fn find() -> Result<Found, Missing> {
        let (thunks, further) = match (Thunks::load(), FurtherThunks::load()) {
            (Ok(thunks), Ok(further)) => (thunks, further),
            (thunks, further) => {
                let missing = [thunks.err(), further.err()].into_iter().flatten().flatten().collect::<Vec<_>>();
                let listing = missing.contains(&"D3DKMTEnumAdapters3");
                return Err(if listing { Missing::Listing } else { Missing::Thunks(missing) });
            }
        };
        campanile_conformance::provide(Box::leak(Box::new(thunks)), Box::leak(Box::new(further)));
        first()
    }

    fn first() -> Result<Found, Missing> {
        let kmt = Kmt::new();
        let infos = list(kmt).map_err(Missing::Refused)?;
        let mut found = None;
        for info in &infos {
            let mut bytes = [0; AdapterData::SIZE];
            let answered = kmt.query(info.hAdapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE, &mut bytes);
            let data = AdapterData::from_bytes(&bytes);
            if answered.is_success() && data.magic == MAGIC && found.is_none() {
                found = Some(Found { luid: info.AdapterLuid, version: data.version });
            }
            // A handle that the system refuses to close costs nothing that matters here.
            let _ = kmt.close_adapter(info.hAdapter);
        }
        found.ok_or(Missing::Adapter(infos.len()))
    }

    /// All adapters, compute-only ones included, each with a handle.
    fn list(kmt: Kmt) -> Result<Vec<D3DKMT_ADAPTERINFO>, NTSTATUS> {
        let mut arguments = D3DKMT_ENUMADAPTERS3 {
            Filter: D3DKMT_ENUMADAPTERS_FILTER::new().with_IncludeComputeOnly(true),
            NumAdapters: 0,
            pAdapters: std::ptr::null_mut(),
        };
        kmt.call(kmt.table().D3DKMTEnumAdapters3, &mut arguments).ok()?;
        // Some spare room, because adapters may arrive between the two calls.
        let mut infos = vec![D3DKMT_ADAPTERINFO::zeroed(); arguments.NumAdapters.min(256) as usize + 4];
        arguments.NumAdapters = infos.len() as u32;
        arguments.pAdapters = infos.as_mut_ptr();
        kmt.call(kmt.table().D3DKMTEnumAdapters3, &mut arguments).ok()?;
        infos.truncate(arguments.NumAdapters as usize);
        Ok(infos)
    }
}
