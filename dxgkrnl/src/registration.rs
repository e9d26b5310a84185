// UNSAFETY: DxgkInitialize has raw arguments, and the slots of a table are read as numbers.
//! Registration of miniport drivers: DriverEntry calls DxgkInitialize with the table of its DDIs, which is checked.
//!
//! A driver image reaches DxgkInitialize through its copy of `displib`, which opens the device of the graphics kernel and asks for the function by an internal
//! control request. A linked driver finds it in the table of kernel services.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use nt::bugcheck::Bugcheck;
use nt::driver::{ControlDevice, Driver, Host, Services};
use nt::driver_call;
use nt::fault::{Fault, guarded};
use nt::image::ImageError;
use nt::loader::{self, DriverImage};
use nt::services::{self as kernel, good};
use wddm_ddi::km::{DRIVER_INITIALIZATION_DATA, INTERFACE_VERSIONS, InterfaceVersion, SLOT_NAMES};
use wddm_ddi::nt::{IOCTL_VIDEO_DDI_FUNC_REGISTER, IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, NtImports};
use wddm_ddi::status::{
    NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_IMAGE_FORMAT,
    STATUS_INVALID_PARAMETER, STATUS_REVISION_MISMATCH, STATUS_SUCCESS,
};
use wddm_ddi::types::{PDRIVER_OBJECT, UNICODE_STRING};

use crate::config::RegistrationRequests;
use crate::rescue::{Rescue, Rescues};

/// A loaded driver of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriverId(pub(crate) usize);

static IMPORTS: NtImports = kernel::imports(dxgk_initialize);

/// The device of a graphics kernel that knows some requests.
const fn device(control: fn(u32) -> Option<usize>) -> ControlDevice {
    ControlDevice {
        name: "\\Device\\DxgKrnl",
        service: "\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl",
        control,
    }
}

static DEVICE: ControlDevice = device(|request| match request {
    IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8 => Some(dxgk_initialize as *const () as usize),
    older => (WINDOWS_7_DEVICE.control)(older),
});
static WINDOWS_7_DEVICE: ControlDevice =
    device(|request| (request == IOCTL_VIDEO_DDI_FUNC_REGISTER).then_some(dxgk_initialize as *const () as usize));

/// DxgkInitialize is no export: drivers reach it through their copy of displib.
static SERVICES: Services = kernel::services(&IMPORTS, &["DxgkInitialize"], &DEVICE);
static WINDOWS_7_SERVICES: Services = kernel::services(&IMPORTS, &["DxgkInitialize"], &WINDOWS_7_DEVICE);

/// The kernel services for drivers that reach the registration function by one of the `known` requests.
pub(crate) fn services(known: RegistrationRequests) -> &'static Services {
    match known {
        RegistrationRequests::All => &SERVICES,
        RegistrationRequests::Windows7 => &WINDOWS_7_SERVICES,
    }
}

/// A driver was not loaded. Device Manager shows code 37 for all of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file is no driver image that can run here.
    Image(ImageError),
    /// DriverEntry failed for its own reasons.
    Entry(NTSTATUS),
    /// DriverEntry succeeded without a call of DxgkInitialize.
    NotRegistered,
    /// DxgkInitialize was called with another driver object, or twice.
    WrongDriverObject,
    /// DxgkInitialize was called with NULL as this parameter.
    NullArgument(&'static str),
    /// `Version` of the table is none of WDDM 2.0 to 3.2.
    Version(u32),
    /// A slot of the base block is NULL.
    MissingSlot(&'static str),
    /// A slot that must be NULL is filled, in a table with this `Version`.
    ForbiddenSlot {
        /// The slot.
        slot: &'static str,
        /// `Version` of the table.
        version: u32,
    },
    /// The machine stopped while the driver was loading, or before.
    Stopped(Option<Bugcheck>),
}

impl LoadError {
    /// What DriverEntry returned, or would have been told by DxgkInitialize.
    pub fn status(&self) -> NTSTATUS {
        match self {
            Self::Entry(status) => *status,
            Self::Image(_) => STATUS_INVALID_IMAGE_FORMAT,
            Self::NotRegistered | Self::WrongDriverObject | Self::NullArgument(_) => STATUS_INVALID_PARAMETER,
            Self::Version(_) | Self::MissingSlot(_) | Self::ForbiddenSlot { .. } => STATUS_REVISION_MISMATCH,
            Self::Stopped(_) => STATUS_DEVICE_REMOVED,
        }
    }
}

impl LoadError {
    /// The section of this project's documents that says what is expected of the driver.
    fn page(&self) -> &'static str {
        match self {
            Self::Image(ImageError::UnresolvedImports { .. } | ImageError::ImportByOrdinal { .. }) => {
                "docs/kernel-services.md"
            }
            Self::Image(_) => "docs/porting.md#your-driver-in-c-with-your-own-function",
            Self::Entry(_) => "docs/porting.md#from-starts-to-passes",
            Self::NotRegistered | Self::WrongDriverObject | Self::NullArgument(_) => {
                "dispmprt: DxgkInitialize; docs/porting.md#what-your-driver-finds"
            }
            Self::Version(_) => "docs/porting.md#what-your-driver-finds",
            Self::MissingSlot(_) | Self::ForbiddenSlot { .. } => {
                "dispmprt: DRIVER_INITIALIZATION_DATA; docs/porting.md#what-a-small-driver-must-carry-out"
            }
            Self::Stopped(_) => "docs/bug-checks.md",
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => write!(f, "the image was refused: {error}"),
            Self::Entry(status) => write!(f, "DriverEntry failed with {status}"),
            Self::NotRegistered => f.write_str("DriverEntry succeeded without calling DxgkInitialize"),
            Self::WrongDriverObject => {
                f.write_str("DxgkInitialize was not called once with the driver object of DriverEntry")
            }
            Self::NullArgument(parameter) => write!(f, "DxgkInitialize was called with NULL as {parameter}"),
            Self::Version(version) => write!(
                f,
                "interface version 0x{version:x} ({}) in the DDI table: drivers of WDDM 2.0 to 3.2 are played here, of the versions of the final kits{}",
                model_of(*version),
                if *version < OLDEST { "; an older one has no GPU virtual addresses" } else { "" }
            ),
            Self::MissingSlot(slot) => write!(f, "{slot} is NULL; every slot of the base block must be filled"),
            Self::ForbiddenSlot { slot, version } => write!(
                f,
                "{slot} must be NULL, and is not in the table, whose Version is 0x{version:x} ({}): a table that is shorter than its Version says is read beyond its end",
                model_of(*version)
            ),
            Self::Stopped(Some(bugcheck)) => write!(f, "the machine stopped: {bugcheck}"),
            Self::Stopped(None) => f.write_str("the machine has stopped"),
        }?;
        write!(f, " [{}]", self.page())
    }
}

impl std::error::Error for LoadError {}

/// The interface version of WDDM 2.0.
const OLDEST: u32 = INTERFACE_VERSIONS[0].version;

/// What a driver passed to DxgkInitialize. Slots that its version of the interface does not have are NULL.
pub(crate) struct Registered {
    pub(crate) table: Box<DRIVER_INITIALIZATION_DATA>,
    pub(crate) version: &'static InterfaceVersion,
}

impl Registered {
    /// The table of a driver of the newest version.
    #[cfg(test)]
    pub(crate) fn newest(table: DRIVER_INITIALIZATION_DATA) -> Self {
        Self { table: Box::new(table), version: &INTERFACE_VERSIONS[INTERFACE_VERSIONS.len() - 1] }
    }
}

/// The driver model of an interface version. [d3dukmdt: DXGKDDI_INTERFACE_VERSION_VISTA and its kin]
fn model_of(version: u32) -> &'static str {
    const FIRST: [(u32, &str); 17] = [
        (0x11008, "later than WDDM 3.2"),
        (0x11000, "WDDM 3.2"),
        (0x10000, "WDDM 3.1"),
        (0xf000, "WDDM 3.0"),
        (0xe000, "WDDM 2.9"),
        (0xd000, "WDDM 2.8"),
        (0xc000, "WDDM 2.7"),
        (0xb000, "WDDM 2.6"),
        (0xa000, "WDDM 2.5"),
        (0x9000, "WDDM 2.4"),
        (0x8000, "WDDM 2.3"),
        (0x7000, "WDDM 2.2"),
        (0x6000, "WDDM 2.1"),
        (0x5000, "WDDM 2.0"),
        (0x3000, "WDDM 1.2 or 1.3"),
        (0x2000, "WDDM 1.1"),
        (0x1052, "WDDM 1.0"),
    ];
    FIRST.iter().find(|(first, _)| version >= *first).map_or("no driver model", |(_, model)| model)
}

/// Slots that every miniport fills: those from AddDevice to ControlEtwLogging, without those that a compute-only driver may or must leave out.
const BASE_BLOCK: [&str; 12] = [
    "DxgkDdiAddDevice",
    "DxgkDdiStartDevice",
    "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiQueryDeviceDescriptor",
    "DxgkDdiSetPowerState",
    "DxgkDdiResetDevice",
    "DxgkDdiUnload",
];

/// Slots that belong to nobody any more.
const RETIRED: [&str; 12] = [
    "DxgkDdiDescribePageTable",
    "DxgkDdiUpdatePageTable",
    "DxgkDdiUpdatePageDirectory",
    "DxgkDdiMovePageDirectory",
    "DxgkDdiSubmitRender",
    "DxgkDdiCreateAllocation2",
    "Reserved",
    "Reserved1",
    "Reserved2",
    "Reserved3",
    "Reserved4",
    "DxgkDdiSetPowerPState",
];

/// True if the slot with this name is filled; false for unknown names.
pub(crate) fn is_filled(table: &DRIVER_INITIALIZATION_DATA, name: &str) -> bool {
    SLOT_NAMES.iter().position(|slot| *slot == name).is_some_and(|index| slot_at(table, index))
}

fn slot_at(table: &DRIVER_INITIALIZATION_DATA, index: usize) -> bool {
    assert!(index < SLOT_NAMES.len());
    let slots = (&raw const *table).cast::<usize>();
    // SAFETY: behind the version (8 bytes with padding) the table is an array of pointer slots, one for each name.
    let slot = unsafe { slots.add(1 + index) };
    // SAFETY: as above; an optional function pointer may be read as a number.
    unsafe { slot.read() != 0 }
}

const _: () = assert!(size_of::<DRIVER_INITIALIZATION_DATA>() == 8 + 8 * SLOT_NAMES.len());

/// Checks of DxgkInitialize: the functions that every driver must have, and the retired slots, which must be NULL.
pub(crate) fn check_table(table: &DRIVER_INITIALIZATION_DATA) -> Result<(), LoadError> {
    if let Some(missing) = BASE_BLOCK.into_iter().find(|name| !is_filled(table, name)) {
        return Err(LoadError::MissingSlot(missing));
    }
    match RETIRED.into_iter().find(|name| is_filled(table, name)) {
        Some(slot) => Err(LoadError::ForbiddenSlot { slot, version: table.Version }),
        None => Ok(()),
    }
}

/// DriverEntry of this thread, as DxgkInitialize sees it.
struct Loading {
    driver_object: usize,
    outcome: Result<Registered, LoadError>,
}

thread_local! {
    static LOADING: RefCell<Option<Loading>> = const { RefCell::new(None) };
}

/// Loads a driver, runs its DriverEntry, and takes the table that it registers.
pub(crate) fn load(
    image: DriverImage,
    host: &Host<'_>,
    rescues: &Rescues,
) -> Result<(Arc<Driver>, Registered), LoadError> {
    let (driver, entry) = loader::load(image, host).map_err(LoadError::Image)?;
    LOADING.set(Some(Loading { driver_object: driver.object(), outcome: Err(LoadError::NotRegistered) }));
    let status = loader::run_entry(&driver, entry);
    let outcome = LOADING.take().map_or(Err(LoadError::NotRegistered), |loading| loading.outcome);
    let verifier = driver.verifier();
    let result = match status {
        _ if verifier.is_stopped() => Err(LoadError::Stopped(verifier.bugcheck())),
        None => Err(LoadError::Stopped(verifier.bugcheck())),
        Some(status) if !status.is_success() => Err(match outcome {
            Ok(_) | Err(LoadError::NotRegistered) => LoadError::Entry(status),
            Err(refused) => refused,
        }),
        Some(STATUS_SUCCESS) => outcome,
        Some(status) => {
            if outcome.is_ok() {
                rescues.add(Rescue::OtherSuccess, 1);
                let page = "docs/porting.md#what-your-driver-finds; dispmprt: DxgkInitialize";
                verifier.log(format!(
                    "DriverEntry answered {status}, and expected was STATUS_SUCCESS, which DxgkInitialize has answered and DriverEntry passes on: the driver counts as loaded [{page}]"
                ));
            }
            outcome
        }
    };
    if result.is_err() {
        driver.check_unloaded();
    }
    Ok((driver, result?))
}

unsafe extern "win64" fn dxgk_initialize(
    driver_object: PDRIVER_OBJECT,
    registry_path: *mut UNICODE_STRING,
    data: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS {
    let null = [("RegistryPath", registry_path.is_null()), ("DriverInitializationData", data.is_null())];
    if let Some((parameter, _)) = null.into_iter().find(|(_, is_null)| *is_null) {
        let read = Err(LoadError::NullArgument(parameter));
        return driver_call::on_host_stack(|| register(driver_object, read)).into();
    }
    let read = good("DxgkInitialize", driver_call::on_host_stack(|| read_table(data)));
    // SAFETY: numbers and an address, which any bytes are.
    let _ = good("DxgkInitialize", unsafe { guarded::read(registry_path) });
    let registered = driver_call::on_host_stack(|| register(driver_object, read));
    if registered.is_ok()
        && let Some(driver) = driver_call::current()
    {
        driver.set_unload_routine(port_routine());
    }
    registered.into()
}

/// The table at an address, as long as the version that it begins with has it; of other versions only that is read.
fn read_table(data: *const DRIVER_INITIALIZATION_DATA) -> Result<Result<Registered, LoadError>, Fault> {
    // SAFETY: a number, which any bytes are.
    let version = unsafe { guarded::read(data.cast::<u32>()) }?;
    let Some(known) = INTERFACE_VERSIONS.iter().find(|known| known.version == version) else {
        return Ok(Err(LoadError::Version(version)));
    };
    let mut bytes = [0; size_of::<DRIVER_INITIALIZATION_DATA>()];
    guarded::read_bytes(data.cast(), &mut bytes[..known.driver_table.min(size_of::<DRIVER_INITIALIZATION_DATA>())])?;
    // SAFETY: a version and addresses, which any bytes are.
    let table = unsafe { bytes.as_ptr().cast::<DRIVER_INITIALIZATION_DATA>().read_unaligned() };
    Ok(Ok(Registered { table: Box::new(table), version: known }))
}

/// DxgkInitialize of the thread's DriverEntry.
fn register(driver_object: PDRIVER_OBJECT, read: Result<Registered, LoadError>) -> Result<(), NTSTATUS> {
    LOADING.with_borrow_mut(|loading| {
        let Some(loading) = loading.as_mut() else { return Err(LoadError::WrongDriverObject.status()) };
        let once = matches!(loading.outcome, Err(LoadError::NotRegistered));
        loading.outcome = if once && driver_object.addr() == loading.driver_object {
            read.and_then(|registered| check_table(&registered.table).map(|()| registered))
        } else {
            Err(LoadError::WrongDriverObject)
        };
        loading.outcome.as_ref().map(|_| ()).map_err(LoadError::status)
    })
}

/// DxgkDdiUnload of the driver that this thread unloads by a routine of the driver's own.
struct Unloading {
    driver_object: usize,
    ddi: Option<Box<dyn FnOnce()>>,
}

thread_local! {
    static UNLOADING: RefCell<Option<Unloading>> = const { RefCell::new(None) };
}

/// What DxgkInitialize stores into DriverUnload of the driver object, which is that of miniport and graphics kernel together: it calls DxgkDdiUnload, once. A driver that
/// has put its own routine in that place afterwards calls this one from there. [wdm: DRIVER_UNLOAD; dispmprt: DXGKDDI_UNLOAD]
unsafe extern "win64" fn driver_unload(driver_object: PDRIVER_OBJECT) {
    driver_call::on_host_stack(|| {
        let ddi = UNLOADING.with_borrow_mut(|unloading| {
            unloading.as_mut().filter(|it| it.driver_object == driver_object.addr()).and_then(|it| it.ddi.take())
        });
        if let Some(ddi) = ddi {
            ddi();
        }
    });
}

/// Address of [`driver_unload`], taken in one place: a function may have several.
#[inline(never)]
fn port_routine() -> usize {
    driver_unload as *const () as usize
}

/// Unloads a driver as the I/O manager does, by the routine in its driver object; `ddi` calls DxgkDdiUnload. That a driver may put a routine of its own into that place,
/// after DxgkInitialize has filled it, no page about display miniports says; what it does to DxgkDdiUnload then is this system's rule.
///
/// # Errors
/// STATUS_INVALID_DEVICE_REQUEST for a driver that has taken the routine away: it stays loaded. [wdm: ZwUnloadDriver]
pub(crate) fn unload(driver: &Arc<Driver>, ddi: impl FnOnce() + 'static) -> Result<(), NTSTATUS> {
    const NAME: &str = "DriverUnload";
    if driver.verifier().is_stopped() {
        return Ok(());
    }
    let routine = driver.unload_routine();
    if routine == 0 {
        return Err(STATUS_INVALID_DEVICE_REQUEST);
    }
    if routine == port_routine() {
        ddi();
        return Ok(());
    }
    UNLOADING.set(Some(Unloading { driver_object: driver.object(), ddi: Some(Box::new(ddi)) }));
    // SAFETY: the driver stored the routine under this prototype; where no code is, the fault handler sees.
    let routine = unsafe { std::mem::transmute::<usize, unsafe extern "win64" fn(PDRIVER_OBJECT)>(routine) };
    let (_, leftovers) = driver_call::run(driver, NAME, || {
        // SAFETY: as above; the driver object lives as long as the driver.
        unsafe { routine(core::ptr::with_exposed_provenance_mut(driver.object())) }
    });
    leftovers.check(NAME, driver.verifier());
    if UNLOADING.take().is_some_and(|unloading| unloading.ddi.is_some()) {
        driver.verifier().log(format!(
            "driver {} was unloaded by a routine of its own, which did not call the one that DxgkInitialize had stored in DriverUnload: DxgkDdiUnload was not called",
            driver.name()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_version_is_named_by_its_driver_model() {
        for (version, model) in [
            (0, "no driver model"),
            (0x1053, "WDDM 1.0"),
            (0x2005, "WDDM 1.1"),
            (0x300e, "WDDM 1.2 or 1.3"),
            (0x4002, "WDDM 1.2 or 1.3"),
            (0x5023, "WDDM 2.0"),
            (0x6011, "WDDM 2.1"),
            (0xc004, "WDDM 2.7"),
            (0xf003, "WDDM 3.0"),
            (0x10004, "WDDM 3.1"),
            (0x11008, "later than WDDM 3.2"),
        ] {
            let told = LoadError::Version(version).to_string();
            assert!(told.starts_with(&format!("interface version 0x{version:x} ({model}) in the DDI table")), "{told}");
        }
    }
}
