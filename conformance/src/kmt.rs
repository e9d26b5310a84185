//! The thunks as a case calls them: any argument structure, the status back.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::private::{AdapterData, MAGIC};
use campanile_hw::registers::Caps;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use crate::{Failure, granted};

/// A thunk.
type Thunk<T> = unsafe extern "win64" fn(*mut T) -> NTSTATUS;
/// A thunk that only reads its arguments.
type ReadOnlyThunk<T> = unsafe extern "win64" fn(*const T) -> NTSTATUS;

/// Statuses for a handle that does not exist, or does not exist in this process.
pub const BAD_HANDLE: &[NTSTATUS] = &[STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER];
/// Statuses for the handle of another kind of object.
pub const WRONG_KIND: &[NTSTATUS] = &[STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_OBJECT_TYPE_MISMATCH];
/// Statuses for an argument that is out of range.
pub const BAD_ARGUMENT: &[NTSTATUS] = &[STATUS_INVALID_PARAMETER];
/// Statuses of requests on a device in error or an adapter that is gone.
pub const DEVICE_LOST: &[NTSTATUS] = &[STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE];

static TABLES: OnceLock<Kmt> = OnceLock::new();

/// Says what all cases of this process speak to; the first call counts.
pub fn provide(thunks: &'static Thunks, further: &'static FurtherThunks) {
    TABLES.get_or_init(|| Kmt { thunks, further });
}

/// The tables of thunks.
#[derive(Clone, Copy)]
pub struct Kmt {
    thunks: &'static Thunks,
    further: &'static FurtherThunks,
}

impl Kmt {
    /// The tables of this process: those that [`provide`] was given, or else those of the simulated machine.
    ///
    /// # Panics
    /// Nobody called [`provide`], and this build has no simulated machine.
    #[allow(clippy::new_without_default)] // nothing is made here
    pub fn new() -> Self {
        *TABLES.get_or_init(Self::simulated)
    }

    #[cfg(feature = "inside")]
    fn simulated() -> Self {
        Self { thunks: dxgkrnl::thunks(), further: dxgkrnl::further_thunks() }
    }

    #[cfg(not(feature = "inside"))]
    fn simulated() -> Self {
        panic!("the tables of thunks are provided first")
    }

    /// The table, to name a thunk for [`Kmt::call`].
    pub fn table(self) -> &'static Thunks {
        self.thunks
    }

    /// The thunks that the user-mode driver does not call.
    pub fn further(self) -> &'static FurtherThunks {
        self.further
    }

    /// Calls a thunk.
    pub fn call<T>(self, thunk: Thunk<T>, arguments: &mut T) -> NTSTATUS {
        // SAFETY: `arguments` is a valid structure of the thunk's type; thunks check every pointer inside it themselves.
        unsafe { thunk(arguments) }
    }

    /// Calls a thunk that only reads its arguments.
    pub fn call_read_only<T>(self, thunk: ReadOnlyThunk<T>, arguments: &T) -> NTSTATUS {
        // SAFETY: `arguments` is a valid structure of the thunk's type; thunks check every pointer inside it themselves.
        unsafe { thunk(arguments) }
    }

    /// Calls a thunk without an argument structure.
    pub fn call_null<T>(self, thunk: Thunk<T>) -> NTSTATUS {
        // SAFETY: thunks refuse the null pointer themselves, which is what the caller is about to find out.
        unsafe { thunk(std::ptr::null_mut()) }
    }

    /// Opens an adapter.
    pub fn open_adapter(self, luid: LUID) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut open = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        self.call(self.thunks.D3DKMTOpenAdapterFromLuid, &mut open).ok()?;
        Ok(open.hAdapter)
    }

    /// Closes an adapter.
    pub fn close_adapter(self, adapter: D3DKMT_HANDLE) -> NTSTATUS {
        self.call(self.thunks.D3DKMTCloseAdapter, &mut D3DKMT_CLOSEADAPTER { hAdapter: adapter })
    }

    /// Asks for adapter information into `answer`.
    pub fn query(self, adapter: D3DKMT_HANDLE, kind: KMTQUERYADAPTERINFOTYPE, answer: &mut [u8]) -> NTSTATUS {
        let mut arguments = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter,
            Type: kind,
            pPrivateDriverData: answer.as_mut_ptr().cast::<c_void>(),
            PrivateDriverDataSize: answer.len() as u32,
        };
        self.call(self.thunks.D3DKMTQueryAdapterInfo, &mut arguments)
    }

    /// Asks with a structure that is question and answer.
    pub fn ask<T>(self, adapter: D3DKMT_HANDLE, kind: KMTQUERYADAPTERINFOTYPE, data: &mut T) -> NTSTATUS {
        let mut arguments = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter,
            Type: kind,
            pPrivateDriverData: std::ptr::from_mut(data).cast::<c_void>(),
            PrivateDriverDataSize: size_of::<T>() as u32,
        };
        self.call(self.thunks.D3DKMTQueryAdapterInfo, &mut arguments)
    }

    /// Asks for a word of capabilities.
    pub fn query_word(self, adapter: D3DKMT_HANDLE, kind: KMTQUERYADAPTERINFOTYPE) -> Result<u32, NTSTATUS> {
        let mut word = [0; 4];
        self.query(adapter, kind, &mut word).ok()?;
        Ok(u32::from_le_bytes(word))
    }

    /// What this project's driver answers to its user-mode driver; `None` for the answer of another driver.
    ///
    /// # Errors
    /// The status of the question.
    pub fn driver_data(self, adapter: D3DKMT_HANDLE) -> Result<Option<AdapterData>, NTSTATUS> {
        let mut bytes = [0; AdapterData::SIZE];
        self.query(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_UMDRIVERPRIVATE, &mut bytes).ok()?;
        Ok(Some(AdapterData::from_bytes(&bytes)).filter(|data| data.magic == MAGIC))
    }

    /// Asks the driver whether the GPU snoops the caches of the processor. Of another driver's GPU only that driver knows: it is taken to snoop.
    pub fn is_coherent(self, adapter: D3DKMT_HANDLE) -> Result<bool, Failure> {
        let data = match self.driver_data(adapter) {
            Ok(data) => data,
            Err(STATUS_NOT_SUPPORTED) => None,
            Err(status) => {
                granted(status, "asking the driver for its private data")?;
                None
            }
        };
        Ok(data.is_none_or(|data| !Caps::from_bits(data.caps).non_coherent()))
    }

    /// Asks a device how it is.
    pub fn execution_state(self, device: D3DKMT_HANDLE) -> Result<D3DKMT_DEVICEEXECUTION_STATE, Failure> {
        let mut arguments = D3DKMT_GETDEVICESTATE::zeroed();
        arguments.hDevice = device;
        arguments.StateType = D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION;
        granted(self.call(self.thunks.D3DKMTGetDeviceState, &mut arguments), "D3DKMTGetDeviceState")?;
        // SAFETY: every arm of the union holds integers, so any bytes are valid.
        Ok(unsafe { arguments.u.ExecutionState })
    }

    /// Asks a device where it faulted.
    pub fn page_fault_state(self, device: D3DKMT_HANDLE) -> Result<D3DKMT_DEVICEPAGEFAULT_STATE, Failure> {
        let mut arguments = D3DKMT_GETDEVICESTATE::zeroed();
        arguments.hDevice = device;
        arguments.StateType = D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_PAGE_FAULT;
        granted(self.call(self.thunks.D3DKMTGetDeviceState, &mut arguments), "D3DKMTGetDeviceState")?;
        // SAFETY: every arm of the union holds integers, so any bytes are valid.
        Ok(unsafe { arguments.u.PageFaultState })
    }
}

/// A 64-bit word shared with kernel or GPU: fence value, doorbell, status.
///
/// Its page belongs to an object of the system; a case looks at the word only while that object lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(NonNull<AtomicU64>);

// SAFETY: a word is an address that is only used for atomic accesses.
unsafe impl Send for Word {}
// SAFETY: as for Send.
unsafe impl Sync for Word {}

impl Word {
    /// The word at an address that a thunk returned.
    pub fn new(address: *mut c_void, what: &str) -> Result<Self, Failure> {
        NonNull::new(address.cast::<AtomicU64>())
            .filter(|word| word.is_aligned())
            .map(Self)
            .ok_or_else(|| Failure::new(format!("{what} is at {address:?}, an aligned address expected")))
    }

    pub fn address(self) -> *mut u64 {
        self.0.as_ptr().cast()
    }

    /// Reads the word with acquire order.
    pub fn load(self) -> u64 {
        // SAFETY: the word is mapped while its object lives, see the type.
        let word = unsafe { self.0.as_ref() };
        word.load(Ordering::Acquire)
    }

    /// Stores a value, for words that user mode may write.
    pub fn store(self, value: u64) {
        // SAFETY: as in `load`.
        let word = unsafe { self.0.as_ref() };
        word.store(value, Ordering::Release);
    }

    /// True if the kernel, acting for this process, may write the word: finds out without a fault.
    ///
    /// # Errors
    /// The system does not say.
    #[cfg(unix)]
    pub fn is_writable(self) -> Result<bool, Failure> {
        use std::os::fd::AsRawFd;
        let zeros = std::fs::File::open("/dev/zero")?;
        // SAFETY: the kernel checks the destination, 8 bytes that belong to nothing of this program.
        let read = unsafe { libc::read(zeros.as_raw_fd(), self.0.as_ptr().cast(), 8) };
        if read == 8 {
            return Ok(true);
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EFAULT) { Ok(false) } else { Err(error.into()) }
    }

    /// True if this process may write the word.
    ///
    /// # Errors
    /// The system does not say.
    #[cfg(windows)]
    pub fn is_writable(self) -> Result<bool, Failure> {
        let mut region = protection::Region::default();
        // SAFETY: a structure of this frame and its size; the address is only looked up.
        let written =
            unsafe { protection::VirtualQuery(self.0.as_ptr().cast(), &raw mut region, size_of_val(&region)) };
        if written == 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(region.is_writable()) }
    }
}

#[cfg(windows)]
mod protection {
    //! Access rights of pages of this process, asked of Windows by VirtualQuery.

    use std::ffi::c_void;

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        pub(super) fn VirtualQuery(address: *const c_void, region: *mut Region, size: usize) -> usize;
    }

    /// [winnt: MEMORY_BASIC_INFORMATION]
    #[derive(Default)]
    #[repr(C)]
    pub(super) struct Region {
        base: usize,
        allocation_base: usize,
        allocation_protect: u32,
        partition: u16,
        size: usize,
        state: u32,
        protect: u32,
        kind: u32,
    }

    impl Region {
        /// True if it is committed and one of PAGE_READWRITE, PAGE_WRITECOPY and the executable kinds of them.
        pub(super) fn is_writable(&self) -> bool {
            const COMMITTED: u32 = 0x1000;
            const WRITABLE: u32 = 0x04 | 0x08 | 0x40 | 0x80;
            self.state == COMMITTED && self.protect & WRITABLE != 0
        }
    }
}
