//! Loading drivers: DriverEntry, registration of the DDI table, and the account of what a driver still owns at unload.

pub(crate) mod entry;
mod exports;
mod image;
mod memory;
pub(crate) mod symbols;

use std::fmt;
use std::sync::Arc;

use wddm_ddi::km::{DRIVER_INITIALIZATION_DATA, DXGKDDI_INTERFACE_VERSION_WDDM3_2, SLOT_NAMES};
use wddm_ddi::nt::NtImports;
use wddm_ddi::status::{
    NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_IMAGE_FORMAT, STATUS_INVALID_PARAMETER, STATUS_REVISION_MISMATCH,
};
use wddm_ddi::types::PDRIVER_INITIALIZE;

use crate::etw::Etw;
use crate::ram::Ram;
use crate::verifier::pool::Pool;
use crate::verifier::{Bugcheck, Place, SpecialPool, Verifier};

pub(crate) use exports::service_at;
pub use image::{Image, ImageError, ImageKind, PdbIdentity, Resolver};
pub use memory::{DriverMemory, MemoryRange};

/// A loaded driver of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DriverId(pub(crate) usize);

/// Where a driver comes from.
pub enum DriverImage {
    /// A driver linked into this process.
    Linked {
        /// Name of its service, for messages.
        name: String,
        /// Gives the driver the kernel services; called before every load.
        bind: fn(&'static NtImports),
        /// Its DriverEntry.
        entry: PDRIVER_INITIALIZE,
    },
    /// A driver image (`.sys`).
    Pe {
        /// Name of its service, for messages.
        name: String,
        /// The file.
        bytes: Vec<u8>,
        /// The PDB that belongs to it, to name functions and lines when it faults.
        symbols: Option<Vec<u8>>,
    },
}

impl DriverImage {
    /// Name of the service.
    pub fn name(&self) -> &str {
        match self {
            Self::Linked { name, .. } | Self::Pe { name, .. } => name,
        }
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
    /// `Version` of the table is not the one of WDDM 3.2.
    Version(u32),
    /// A slot of the base block is NULL.
    MissingSlot(&'static str),
    /// A slot that must be NULL is filled.
    ForbiddenSlot(&'static str),
    /// The machine stopped while the driver was loading, or before.
    Stopped(Option<Bugcheck>),
}

impl LoadError {
    /// What DriverEntry returned, or would have been told by DxgkInitialize.
    pub fn status(&self) -> NTSTATUS {
        match self {
            Self::Entry(status) => *status,
            Self::Image(_) => STATUS_INVALID_IMAGE_FORMAT,
            Self::NotRegistered | Self::WrongDriverObject => STATUS_INVALID_PARAMETER,
            Self::Version(_) | Self::MissingSlot(_) | Self::ForbiddenSlot(_) => STATUS_REVISION_MISMATCH,
            Self::Stopped(_) => STATUS_DEVICE_REMOVED,
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
            Self::Version(version) => write!(
                f,
                "interface version 0x{version:x} in the DDI table, expected 0x{DXGKDDI_INTERFACE_VERSION_WDDM3_2:x} (WDDM 3.2)"
            ),
            Self::MissingSlot(slot) => write!(f, "{slot} is NULL; every slot of the base block must be filled"),
            Self::ForbiddenSlot(slot) => write!(f, "{slot} must be NULL"),
            Self::Stopped(Some(bugcheck)) => write!(f, "the machine stopped: {bugcheck}"),
            Self::Stopped(None) => f.write_str("the machine has stopped"),
        }
    }
}

impl std::error::Error for LoadError {}

/// What the kernel services keep about one driver.
pub(crate) struct Driver {
    name: String,
    verifier: Arc<Verifier>,
    ram: Option<Arc<Ram>>,
    pool: Pool,
    etw: Etw,
    /// The image it runs from, unless it is linked. Mapped as long as anything may call into it.
    image: Option<LoadedImage>,
}

/// An image and what is needed to talk about addresses in it.
pub(crate) struct LoadedImage {
    pub(crate) image: Image,
    pub(crate) symbols: Option<symbols::Symbols>,
}

impl LoadedImage {
    /// What an address in the image is.
    pub(crate) fn place(&self, address: usize) -> Option<Place> {
        let rva = self.image.rva_of(address)?;
        let source = self.symbols.as_ref().and_then(|symbols| symbols.describe(rva)).unwrap_or_default();
        let symbols::Source { function, file, line } = source;
        Some(Place { module: self.image.name().to_owned(), rva, function, file, line })
    }
}

impl Driver {
    /// A driver whose pool may grow to the size of physical memory.
    fn new(name: String, host: &Host<'_>, image: Option<LoadedImage>) -> Arc<Self> {
        let (verifier, ram) = (Arc::clone(host.verifier), Arc::clone(host.ram));
        let pool = Pool::new(ram.size(), host.special_pool);
        Arc::new(Self { name, verifier, ram: Some(ram), pool, etw: Etw::default(), image })
    }

    /// The image it runs from, unless it is linked into the process.
    pub(crate) fn image(&self) -> Option<&LoadedImage> {
        self.image.as_ref()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    pub(crate) fn ram(&self) -> Option<&Arc<Ram>> {
        self.ram.as_ref()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What it has to do with event tracing.
    pub(crate) fn etw(&self) -> &Etw {
        &self.etw
    }

    /// A driver of no machine.
    #[cfg(test)]
    pub(crate) fn for_tests(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            verifier: Arc::default(),
            ram: None,
            pool: Pool::new(1 << 20, SpecialPool::Off),
            etw: Etw::default(),
            image: None,
        })
    }

    /// The driver is gone: whatever pool it still has is a leak.
    pub(crate) fn check_unloaded(&self) {
        if let Err(bugcheck) = self.pool.settle() {
            self.verifier.raise(bugcheck);
        }
        let providers = self.etw.registered();
        if providers != 0 {
            // A session that ends would call back into an image that is not there any more.
            self.verifier.raise(Bugcheck::new(
                Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
                [0x62, 0, 0, providers as u64],
                format!("driver {} was unloaded with {providers} ETW provider(s) registered", self.name),
            ));
        }
        let outstanding = self.pool.outstanding();
        if outstanding.is_empty() {
            return;
        }
        let blocks = outstanding.values().map(|(_, blocks)| blocks).sum();
        let tags = outstanding
            .iter()
            .map(|(tag, (bytes, blocks))| {
                format!("'{}' {bytes} bytes in {blocks} blocks", crate::verifier::pool::tag_name(*tag))
            })
            .collect::<Vec<_>>()
            .join(", ");
        self.verifier.raise(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x62, 0, 0, blocks],
            format!("driver {} was unloaded without freeing its pool: {tags}", self.name),
        ));
    }
}

/// Slots from AddDevice to ControlEtwLogging, which every miniport fills.
const BASE_BLOCK: usize = 16;

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

/// Whether the slot with this name is filled; false for unknown names.
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

/// What DxgkInitialize checks of a table.
pub(crate) fn check_table(table: &DRIVER_INITIALIZATION_DATA) -> Result<(), LoadError> {
    if table.Version != DXGKDDI_INTERFACE_VERSION_WDDM3_2 {
        return Err(LoadError::Version(table.Version));
    }
    if let Some(missing) = SLOT_NAMES.iter().take(BASE_BLOCK).find(|name| !is_filled(table, name)) {
        return Err(LoadError::MissingSlot(missing));
    }
    match RETIRED.into_iter().find(|name| is_filled(table, name)) {
        Some(filled) => Err(LoadError::ForbiddenSlot(filled)),
        None => Ok(()),
    }
}

/// The machine that a driver is loaded into.
pub(crate) struct Host<'a> {
    pub(crate) verifier: &'a Arc<Verifier>,
    pub(crate) ram: &'a Arc<Ram>,
    pub(crate) special_pool: SpecialPool,
}

/// Loads the image of a driver, if it has one, and runs its DriverEntry.
pub(crate) fn load(
    image: DriverImage,
    host: &Host<'_>,
) -> Result<(Arc<Driver>, Box<DRIVER_INITIALIZATION_DATA>), LoadError> {
    // A linked driver too passes pointers that must not end the process.
    crate::fault::handler::install().map_err(|_| LoadError::Image(ImageError::OutOfMemory))?;
    let (name, loaded, entry) = match image {
        DriverImage::Linked { name, bind, entry } => {
            bind(&crate::kernel_services::IMPORTS);
            (name, None, entry)
        }
        DriverImage::Pe { name, bytes, symbols } => {
            let image = Image::load(&name, &bytes, ImageKind::Driver, &exports::resolve).map_err(LoadError::Image)?;
            let entry =
                image.entry().ok_or(LoadError::Image(ImageError::BadHeader("a driver needs an entry point")))?;
            // SAFETY: the entry point of a driver image is a DRIVER_INITIALIZE; whether the code keeps to it is for the
            // fault handler to see.
            let entry = unsafe { std::mem::transmute::<usize, PDRIVER_INITIALIZE>(entry) };
            let symbols = symbols.and_then(|pdb| symbols::Symbols::new(pdb, image.pdb()));
            (name, Some(LoadedImage { image, symbols }), entry)
        }
    };
    let driver = Driver::new(name, host, loaded);
    let table = entry::load(&driver, entry)?;
    Ok((driver, table))
}
