//! The libraries, the allocator and the panic handler that the driver image takes from an installed Windows Driver Kit and from windows-drivers-rs.

use core::ffi::CStr;

use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::types::*;

// Linked for what is in it: the panic handler, which stops the machine with the code "RPNC" and the place of the panic.
use wdk_panic as _;
// The same: the kit's import libraries, and the symbols that compiled code names (`_fltused`, the C++ frame handlers).
use wdk_sys as _;

/// For crates of the kit that format text. The driver's own memory comes from [`crate::pool`], where every request can fail.
#[global_allocator]
static KIT_MEMORY: wdk_alloc::WdkAllocator = wdk_alloc::WdkAllocator;

unsafe extern "win64" {
    /// Of the kit's static library displib.lib, which build.rs names to the linker.
    /// [dispmprt: DxgkInitialize]
    pub(super) fn DxgkInitialize(
        driver: PDRIVER_OBJECT,
        path: *mut UNICODE_STRING,
        table: *mut DRIVER_INITIALIZATION_DATA,
    ) -> NTSTATUS;
}

/// The kit whose headers were compared, which is all that depends on it: layouts and interface version are those of `wddm-ddi`, that is of
/// kit 10.0.26100. It is written to the trace, for a search for differences between this driver and its system.
const BUILT_WITH: &CStr = if cfg!(wdk_28000) {
    c"campanile: interface of kit 10.0.26100, built with kit 10.0.28000, whose doorbell structures are others"
} else {
    c"campanile: interface of kit 10.0.26100, built with it"
};

/// Tells the debugger which kit the image was built with.
#[unsafe(link_section = "INIT")]
pub(super) fn announce() {
    // DriverEntry is called at PASSIVE_LEVEL.
    wdk::paged_code!();
    crate::nt::print(BUILT_WITH);
}
