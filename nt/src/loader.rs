//! Loading drivers: the image, and DriverEntry.

use std::sync::Arc;

use wddm_ddi::nt::NtImports;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::{PDRIVER_INITIALIZE, UNICODE_STRING};

use crate::bus::inline;
use crate::driver::{Driver, Host, LoadedImage};
use crate::driver_call;
use crate::image::symbols::Symbols;
use crate::image::{Image, ImageError, ImageKind};
use crate::services::INLINE;

/// Modules that drivers import from: the kernel, and what was a module of its own before Windows 10 and hands all on to the kernel since then.
const KERNEL: [&str; 2] = ["ntoskrnl.exe", "hal.dll"];

/// Source of a driver.
pub enum DriverImage {
    /// A driver linked into this process.
    Linked {
        /// Name of its service, for messages.
        name: String,
        /// Gives the driver the kernel services; called before every load.
        bind: fn(&'static NtImports),
        /// DriverEntry of the image.
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

/// Loads the image of a driver, if it has one; the driver and its DriverEntry.
///
/// # Errors
/// The image is refused, or the host refuses the signal handlers.
pub fn load(image: DriverImage, host: &Host<'_>) -> Result<(Arc<Driver>, PDRIVER_INITIALIZE), ImageError> {
    // A linked driver too passes pointers that must not end the process.
    driver_call::prepare().map_err(|_| ImageError::OutOfMemory)?;
    let (name, loaded, entry) = match image {
        DriverImage::Linked { name, bind, entry } => {
            host.services.imports.into_iter().for_each(bind);
            (name, None, entry)
        }
        DriverImage::Pe { name, bytes, symbols } => {
            let export = |module: &str, name: &str| {
                KERNEL
                    .iter()
                    .any(|kernel| module.eq_ignore_ascii_case(kernel))
                    .then(|| host.services.export(name))
                    .flatten()
            };
            inline::serve_with(INLINE);
            let image = Image::load(&name, &bytes, ImageKind::Driver, &export)?;
            let entry = image.entry().ok_or(ImageError::BadHeader("a driver needs an entry point"))?;
            // SAFETY: the entry point of a driver image is a DRIVER_INITIALIZE; whether the code keeps to it is for the
            // fault handler to see.
            let entry = unsafe { std::mem::transmute::<usize, PDRIVER_INITIALIZE>(entry) };
            let symbols = symbols.and_then(|pdb| Symbols::new(pdb, image.pdb()));
            (name, Some(LoadedImage { image, symbols }), entry)
        }
    };
    Ok((Driver::new(&name, host, loaded), entry))
}

/// Runs DriverEntry; `None` if it did not return.
pub fn run_entry(driver: &Arc<Driver>, entry: PDRIVER_INITIALIZE) -> Option<NTSTATUS> {
    const NAME: &str = "DriverEntry";
    let path = format!("\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\{}", driver.name());
    let mut path = path.encode_utf16().take(0x7fff).collect::<Vec<u16>>();
    let bytes = u16::try_from(path.len() * 2).unwrap_or(u16::MAX - 1);
    let mut path = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: path.as_mut_ptr() };
    let (status, leftovers) = driver_call::run(driver, NAME, || {
        // SAFETY: the image names this function as its DriverEntry; both arguments live across the call.
        unsafe { entry(core::ptr::with_exposed_provenance_mut(driver.object()), &raw mut path) }
    });
    leftovers.check(NAME, driver.verifier());
    status
}
