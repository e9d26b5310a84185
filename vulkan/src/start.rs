//! The entry point of `campanile_vulkan.dll` where it is linked without the Windows SDK.

use core::ffi::c_void;

// Brings thread-local storage and what the compiler expects of a C run-time library.
use campanile_crt as _;

/// Called by Windows when the DLL comes and goes, and for threads that do: nothing is initialised here, and the loader serves thread-local storage itself.
///
/// [DllMain entry point]
// SAFETY: no other function of the image has this name, which the linker looks for.
#[unsafe(no_mangle)]
extern "system" fn _DllMainCRTStartup(_instance: *mut c_void, _reason: u32, _reserved: *mut c_void) -> i32 {
    1
}
