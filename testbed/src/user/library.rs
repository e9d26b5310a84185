//! The user-mode driver's DLL in this process: loading its image, and its functions.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use campanile_umd::c_api::*;
use dxgkrnl::{Image, ImageError, ImageKind};

use super::windows;
use crate::driver::{DriverChoice, with_pdb};
use crate::image_file::{self, Unreadable};

/// File name of the DLL, in the folder of the kernel-mode driver that it belongs to.
pub const FILE: &str = "campanile_umd.dll";
/// File name of that driver. One of another name may come without a DLL.
const DRIVER: &str = "campanile_kmd.sys";

/// What the DLL tells of a queue's events; the calling convention is that of the DLL.
pub(super) type Tracer = Option<unsafe extern "win64" fn(*mut c_void, *const CQueueEvent)>;

/// Declares the functions. Types written as `A => B` are A here and B in the source.
macro_rules! functions {
    ($(fn $name:ident($($argument:ty $(=> $source:ty)?),*) -> $result:ty;)*) => {
        /// The functions of `campanile.h` as the DLL exports them.
        #[allow(dead_code)] // whole, also where nothing here needs a function
        pub struct Functions {
            $(pub(super) $name: unsafe extern "win64" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Names of all functions.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Finds the functions in an image; all names that are missing otherwise.
            fn find(image: &Image) -> Result<Self, Vec<&'static str>> {
                let missing: Vec<&str> =
                    Self::NAMES.iter().copied().filter(|name| image.export(name).is_none()).collect();
                if !missing.is_empty() {
                    return Err(missing);
                }
                Ok(Self {
                    $($name: {
                        let address = image.export(stringify!($name)).ok_or_else(Vec::new)?;
                        // SAFETY: the image exports a function of this name, whose type the header fixes.
                        unsafe { std::mem::transmute::<usize, unsafe extern "win64" fn($($argument),*) -> $result>(address) }
                    },)*
                })
            }
        }

        // The types are those of the source that the header is made from.
        const _: () = {
            $(let _: unsafe extern "C" fn($(functions!(@ $argument $(=> $source)?)),*) -> $result = campanile_umd::c_api::$name;)*
        };
    };
    (@ $here:ty) => { $here };
    (@ $here:ty => $source:ty) => { $source };
}

functions! {
    fn campanile_status_text(i32) -> *const c_char;
    fn campanile_thunks() -> *const c_void;
    fn campanile_adapter_open(*const c_void, *mut AdapterHandle) -> i32;
    fn campanile_adapter_open_luid(*const c_void, u32, i32, *mut AdapterHandle) -> i32;
    fn campanile_adapter_close(AdapterHandle) -> i32;
    fn campanile_device_create(AdapterHandle, *mut DeviceHandle) -> i32;
    fn campanile_device_destroy(DeviceHandle) -> i32;
    fn campanile_device_check(DeviceHandle) -> i32;
    fn campanile_device_loss(DeviceHandle, *mut i32) -> i32;
    fn campanile_device_replace(DeviceHandle, *mut DeviceHandle) -> i32;
    fn campanile_buffer_create(DeviceHandle, u64, i32, *mut BufferHandle) -> i32;
    fn campanile_buffer_destroy(BufferHandle) -> i32;
    fn campanile_buffer_gpu_address(BufferHandle, *mut u64) -> i32;
    fn campanile_buffer_map(BufferHandle, *mut *mut c_void) -> i32;
    fn campanile_buffer_offer(BufferHandle, i32) -> i32;
    fn campanile_buffer_reclaim(BufferHandle, *mut i32) -> i32;
    fn campanile_buffer_synchronize(BufferHandle, u64, u64) -> i32;
    fn campanile_buffer_unmap(BufferHandle) -> i32;
    fn campanile_dynamic_create(DeviceHandle, u64, i32, u32, *mut DynamicHandle) -> i32;
    fn campanile_dynamic_destroy(DynamicHandle) -> i32;
    fn campanile_dynamic_map(DynamicHandle, i32, i32, *mut ContentsHandle, *mut *mut c_void, *mut u64) -> i32;
    fn campanile_contents_use_until(ContentsHandle, FenceHandle, u64) -> i32;
    fn campanile_contents_synchronize(ContentsHandle, u64, u64) -> i32;
    fn campanile_contents_unmap(ContentsHandle) -> i32;
    fn campanile_adapter_clock(AdapterHandle, *mut u64) -> i32;
    fn campanile_program_create(DeviceHandle, *const c_void, u64, *mut ProgramHandle) -> i32;
    fn campanile_program_destroy(ProgramHandle) -> i32;
    fn campanile_program_address(ProgramHandle, *mut u64) -> i32;
    fn campanile_program_save_bytes(ProgramHandle, *mut u32) -> i32;
    fn campanile_fence_create(DeviceHandle, u64, *mut FenceHandle) -> i32;
    fn campanile_fence_create_shared(DeviceHandle, u64, *mut FenceHandle) -> i32;
    fn campanile_fence_create_cross_adapter(DeviceHandle, u64, *mut FenceHandle) -> i32;
    fn campanile_fence_create_with(DeviceHandle, *const CFenceOptions, *mut FenceHandle) -> i32;
    fn campanile_fence_kind(FenceHandle, *mut i32) -> i32;
    fn campanile_fence_share(FenceHandle, i32, *mut *mut c_void) -> i32;
    fn campanile_fence_open(DeviceHandle, *mut c_void, i32, *mut FenceHandle) -> i32;
    fn campanile_handle_close(DeviceHandle, *mut c_void) -> i32;
    fn campanile_fence_destroy(FenceHandle) -> i32;
    fn campanile_fence_value(FenceHandle, *mut u64) -> i32;
    fn campanile_fence_mapping(FenceHandle, *mut *const u64) -> i32;
    fn campanile_fence_object(FenceHandle, *mut u32) -> i32;
    fn campanile_fence_wait(FenceHandle, u64, u64) -> i32;
    fn campanile_fence_signal(FenceHandle, u64) -> i32;
    fn campanile_queue_create(DeviceHandle, i32, *const CQueueOptions, *mut QueueHandle) -> i32;
    fn campanile_queue_destroy(QueueHandle) -> i32;
    fn campanile_begin(QueueHandle) -> i32;
    fn campanile_try_begin(QueueHandle) -> i32;
    fn campanile_cancel(QueueHandle) -> i32;
    fn campanile_submit(QueueHandle, *mut u64) -> i32;
    fn campanile_submit_commands(QueueHandle, *const CCommand, u32, *mut u64) -> i32;
    fn campanile_record_copy(QueueHandle, u64, u64, u64) -> i32;
    fn campanile_record_copy_rows(QueueHandle, *const CCopyRows) -> i32;
    fn campanile_record_fill(QueueHandle, u64, u64, u32) -> i32;
    fn campanile_record_signal(QueueHandle, FenceHandle, u64) -> i32;
    fn campanile_record_wait(QueueHandle, FenceHandle, u64) -> i32;
    fn campanile_record_timestamp(QueueHandle, u64) -> i32;
    fn campanile_record_dispatch(QueueHandle, *const CDispatch) -> i32;
    fn campanile_record_nop(QueueHandle) -> i32;
    fn campanile_queue_progress(QueueHandle, *mut u64) -> i32;
    fn campanile_queue_last_submitted(QueueHandle, *mut u64) -> i32;
    fn campanile_queue_wait(QueueHandle, u64, u64) -> i32;
    fn campanile_queue_model(QueueHandle, *mut i32) -> i32;
    fn campanile_queue_model_reason(QueueHandle, *mut c_char, u64, *mut u64) -> i32;
    fn campanile_queue_enqueue_wait(QueueHandle, FenceHandle, u64) -> i32;
    fn campanile_queue_enqueue_signal(QueueHandle, FenceHandle, u64) -> i32;
    fn campanile_queue_stats(QueueHandle, *mut CQueueStats) -> i32;
    fn campanile_queue_resize(QueueHandle, u32) -> i32;
    fn campanile_queue_recover(QueueHandle, DeviceHandle, i32, *mut u64, *mut u64) -> i32;
    fn campanile_queue_set_tracer(QueueHandle, Tracer => TracerFunction, *mut c_void) -> i32;
    fn campanile_queue_object(QueueHandle, *mut u32) -> i32;
}

/// The reason why the DLL could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The file could not be read; path and reason.
    Unreadable(PathBuf, Unreadable),
    /// The file is no image that can be loaded here.
    Image(PathBuf, ImageError),
    /// Functions of `campanile.h` that the image does not export.
    MissingExports(PathBuf, Vec<&'static str>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Image(path, error) => write!(f, "{}: {error}", path.display()),
            Self::MissingExports(path, names) => {
                write!(
                    f,
                    "{}: no export {}; it is another DLL or another version of it",
                    path.display(),
                    names.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// A DLL in this process.
pub struct Library {
    path: PathBuf,
    functions: Functions,
    /// Mapped as long as the functions may be called.
    image: Image,
}

impl Library {
    /// Loads `bytes`, read from `path`. Code of the image runs only when its functions are called.
    ///
    /// # Errors
    /// Why this is no user-mode driver.
    pub fn load(path: &Path, bytes: &[u8]) -> Result<Self, Refusal> {
        let image = Image::load(FILE, bytes, ImageKind::Dll, &windows::resolve)
            .map_err(|error| Refusal::Image(path.to_owned(), error))?;
        let functions = Functions::find(&image).map_err(|names| Refusal::MissingExports(path.to_owned(), names))?;
        Ok(Self { path: path.to_owned(), functions, image })
    }

    /// Reads and loads the DLL at `path`.
    ///
    /// # Errors
    /// Why it could not be read, or is no user-mode driver.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        match image_file::read(path, Image::FILE_MAX) {
            Ok(bytes) => Self::load(path, &bytes),
            Err(error) => Err(Refusal::Unreadable(path.to_owned(), error)),
        }
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Functions that the DLL exports.
    pub(super) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The DLL's text for a status.
    pub(super) fn text(&'static self, status: i32) -> &'static str {
        // SAFETY: takes any number.
        let text = unsafe { (self.functions.campanile_status_text)(status) };
        if text.is_null() {
            return "no explanation";
        }
        // SAFETY: a terminated text in the image, which stays.
        let text: &'static CStr = unsafe { CStr::from_ptr(text) };
        text.to_str().unwrap_or("an explanation that is not UTF-8")
    }
}

/// The DLL that belongs to the selected kernel-mode driver, `None` for the user-mode driver linked into this program. Loaded once
/// and never unloaded.
///
/// # Errors
/// The DLL is not there or cannot be loaded.
pub fn selected() -> Result<Option<&'static Library>, &'static Refusal> {
    static SELECTED: OnceLock<Result<Option<Library>, Refusal>> = OnceLock::new();
    let outcome = SELECTED.get_or_init(|| match beside(DriverChoice::selected()) {
        None => Ok(None),
        Some(path) => Library::open(&path).map(Some),
    });
    outcome.as_ref().map(Option::as_ref)
}

/// The user-mode driver that [`selected`] gives, in words: `linked`, or path and PDB of the DLL.
pub fn selected_identity() -> String {
    match selected() {
        Ok(None) => DriverChoice::Linked.to_string(),
        Ok(Some(library)) => with_pdb(library.path(), library.image.pdb()),
        Err(refusal) => refusal.to_string(),
    }
}

/// Path of the DLL that belongs to a kernel-mode driver, if it must or does have one.
fn beside(driver: &DriverChoice) -> Option<PathBuf> {
    let DriverChoice::Image(driver) = driver else { return None };
    let path = driver.with_file_name(FILE);
    let ours = driver.file_name().is_some_and(|name| name == DRIVER);
    (ours || path.is_file()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_of_ours_needs_its_dll_and_a_strangers_does_not() {
        assert_eq!(beside(&DriverChoice::Linked), None);
        let ours = DriverChoice::Image("nowhere/campanile_kmd.sys".into());
        assert_eq!(beside(&ours), Some("nowhere/campanile_umd.dll".into()));
        assert_eq!(beside(&DriverChoice::Image("nowhere/other.sys".into())), None);
    }

    #[test]
    fn a_stranger_with_a_dll_beside_it_brings_that() {
        let folder = std::env::temp_dir().join(format!("campanile-library-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (driver, dll) = (folder.join("other.sys"), folder.join(FILE));
        let without = beside(&DriverChoice::Image(driver.clone()));
        std::fs::write(&dll, "").unwrap();
        let with = beside(&DriverChoice::Image(driver));
        let outcome = Library::open(&dll).err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((without, with), (None, Some(dll.clone())));
        assert!(matches!(outcome, Some(Refusal::Image(path, ImageError::NotAnImage(_))) if path == dll));
    }

    #[test]
    fn a_dll_that_cannot_be_read_is_refused_with_its_path() {
        let text = |path: &str| Library::open(Path::new(path)).err().map(|refusal| refusal.to_string()).unwrap();
        assert!(text("nowhere/campanile_umd.dll").starts_with("nowhere/campanile_umd.dll: No such file"));
        assert_eq!(text("/dev/zero"), "/dev/zero: is a device, not a file");
    }

    #[test]
    fn what_is_no_image_is_refused_with_its_path() {
        let refusal = Library::load(Path::new("some.dll"), b"MZ").err().map(|refusal| refusal.to_string());
        assert!(refusal.is_some_and(|text| text.starts_with("some.dll: ")));
    }

    /// The DLL that `cargo xtask pe` builds.
    fn dll() -> Vec<u8> {
        let path = crate::driver::shipped(FILE);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", path.display()))
    }

    /// Why the DLL is refused with `text` in it replaced by `by`, of the same length.
    fn refusal_with(text: &[u8], by: &[u8]) -> Refusal {
        let mut bytes = dll();
        let at = bytes.windows(text.len()).position(|window| window == text).expect("the text is in the file");
        bytes[at..at + by.len()].copy_from_slice(by);
        Library::load(Path::new("some.dll"), &bytes).err().expect("the DLL is not whole")
    }

    #[test]
    fn the_dll_loads_and_explains_its_own_statuses() {
        let library: &'static Library = Box::leak(Box::new(Library::load(Path::new("some.dll"), &dll()).unwrap()));
        let timeout = library.text(Status::Timeout as i32);
        assert!(!timeout.is_empty() && timeout != library.text(Status::RingFull as i32), "{timeout}");
        assert!(library.image.exports().eq({
            let mut names = Functions::NAMES.to_vec();
            names.sort_unstable();
            names
        }));
    }

    #[test]
    fn an_export_that_is_missing_is_named() {
        let refusal = refusal_with(b"campanile_submit\0", b"campanile_zubmit");
        assert_eq!(refusal, Refusal::MissingExports("some.dll".into(), vec!["campanile_submit"]));
        let text = refusal.to_string();
        assert!(text.starts_with("some.dll: no export campanile_submit;"), "{text}");
    }

    #[test]
    fn an_import_that_nothing_provides_is_named() {
        let refusal = refusal_with(b"GetProcAddress\0", b"GetProcAddresz");
        assert_eq!(refusal.to_string(), "some.dll: unresolved imports: kernel32.dll!GetProcAddresz");
        let refusal = refusal_with(b"kernel32.dll\0", b"ucrtbase.dll");
        assert!(refusal.to_string().contains("ucrtbase.dll!HeapAlloc"), "{refusal}");
    }

    #[test]
    fn a_dll_for_another_machine_and_a_kernel_mode_driver_are_refused() {
        let refusal = refusal_with(b"PE\0\0\x64\x86", b"PE\0\0\x64\xaa");
        assert_eq!(refusal, Refusal::Image("some.dll".into(), ImageError::WrongMachine(0xaa64)));
        let driver = std::fs::read(crate::driver::shipped(DRIVER)).unwrap();
        let refusal = Library::load(Path::new("some.dll"), &driver).err().unwrap();
        assert_eq!(refusal.to_string(), "some.dll: not a DLL (subsystem 1)");
    }
}
