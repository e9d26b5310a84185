//! `icd.exe DLL`: asks a Vulkan driver what the Vulkan loader asks first, and prints the answers, a line each. For tests of the package, where there is a
//! Windows or a Wine.

use std::process::ExitCode;

mod one_file;
#[cfg(all(windows, feature = "start"))]
mod start;

fn main() -> ExitCode {
    one_file::main("icd", os::ask)
}

#[cfg(not(windows))]
mod os {
    pub(crate) fn ask(_: &std::ffi::OsStr) -> Result<(), String> {
        Err("only Windows loads DLLs".to_owned())
    }
}

#[cfg(windows)]
mod os {
    use std::ffi::{CStr, OsStr, c_char, c_void};
    use std::mem::transmute;
    use std::os::windows::ffi::OsStrExt;
    use std::ptr::null;

    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn LoadLibraryW(file: *const u16) -> *mut c_void;
        fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *const c_void;
    }

    /// A non-dispatchable answer of `vk_icdGetInstanceProcAddr`. [vk_icd.h: PFN_vk_icdGetInstanceProcAddr]
    type GetInstanceProcAddr = unsafe extern "system" fn(*mut c_void, *const c_char) -> *const c_void;
    type Negotiate = unsafe extern "system" fn(*mut u32) -> i32;
    type EnumerateVersion = unsafe extern "system" fn(*mut u32) -> i32;
    type CreateInstance = unsafe extern "system" fn(*const InstanceInfo, *const c_void, *mut *mut c_void) -> i32;
    type EnumerateDevices = unsafe extern "system" fn(*mut c_void, *mut u32, *mut *mut c_void) -> i32;
    type DestroyInstance = unsafe extern "system" fn(*mut c_void, *const c_void);

    /// An instance without layers and extensions. [vulkan: VkInstanceCreateInfo]
    #[repr(C)]
    struct InstanceInfo {
        /// VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO.
        kind: u32,
        next: *const c_void,
        flags: u32,
        application: *const c_void,
        layer_count: u32,
        layers: *const c_void,
        extension_count: u32,
        extensions: *const c_void,
    }

    /// The interface's version, Vulkan's version, and how many physical devices there are.
    pub(crate) fn ask(path: &OsStr) -> Result<(), String> {
        let path: Vec<u16> = path.encode_wide().chain([0]).collect();
        // SAFETY: a terminated path.
        let module = unsafe { LoadLibraryW(path.as_ptr()) };
        if module.is_null() {
            return Err(format!("LoadLibrary: {}", std::io::Error::last_os_error()));
        }
        let export = |name: &CStr| {
            // SAFETY: a module that stays loaded, and a terminated name.
            let address = unsafe { GetProcAddress(module, name.as_ptr()) };
            if address.is_null() { Err(format!("{name:?} is not exported")) } else { Ok(address) }
        };
        let negotiate = export(c"vk_icdNegotiateLoaderICDInterfaceVersion")?;
        // SAFETY: the interface's function of this name has this type.
        let negotiate = unsafe { transmute::<*const c_void, Negotiate>(negotiate) };
        let mut version = u32::MAX;
        // SAFETY: a number of this frame.
        succeeded("vk_icdNegotiateLoaderICDInterfaceVersion", unsafe { negotiate(&raw mut version) })?;
        println!("interface {version}");
        let get = export(c"vk_icdGetInstanceProcAddr")?;
        // SAFETY: the interface's function of this name has this type.
        let get = unsafe { transmute::<*const c_void, GetInstanceProcAddr>(get) };
        instance(get)
    }

    /// Asks by Vulkan's own functions.
    fn instance(get: GetInstanceProcAddr) -> Result<(), String> {
        let find = |instance: *mut c_void, name: &CStr| {
            // SAFETY: null or an instance of the driver, and a terminated name.
            let address = unsafe { get(instance, name.as_ptr()) };
            if address.is_null() { Err(format!("{name:?} is not there")) } else { Ok(address) }
        };
        let enumerate = find(std::ptr::null_mut(), c"vkEnumerateInstanceVersion")?;
        // SAFETY: Vulkan's function of this name has this type.
        let enumerate = unsafe { transmute::<*const c_void, EnumerateVersion>(enumerate) };
        let mut version = 0;
        // SAFETY: a number of this frame.
        succeeded("vkEnumerateInstanceVersion", unsafe { enumerate(&raw mut version) })?;
        println!("Vulkan {}.{}.{}", version >> 22, version >> 12 & 0x3FF, version & 0xFFF);
        let create = find(std::ptr::null_mut(), c"vkCreateInstance")?;
        // SAFETY: as above.
        let create = unsafe { transmute::<*const c_void, CreateInstance>(create) };
        let info = InstanceInfo {
            kind: 1,
            next: null(),
            flags: 0,
            application: null(),
            layer_count: 0,
            layers: null(),
            extension_count: 0,
            extensions: null(),
        };
        let mut instance = std::ptr::null_mut();
        // SAFETY: a complete structure, and a place for the handle.
        succeeded("vkCreateInstance", unsafe { create(&raw const info, null(), &raw mut instance) })?;
        let devices = find(instance, c"vkEnumeratePhysicalDevices")?;
        // SAFETY: as above.
        let devices = unsafe { transmute::<*const c_void, EnumerateDevices>(devices) };
        let mut count = 0;
        // SAFETY: the instance, and a place for the number alone.
        succeeded("vkEnumeratePhysicalDevices", unsafe { devices(instance, &raw mut count, std::ptr::null_mut()) })?;
        println!("physical devices {count}");
        let destroy = find(instance, c"vkDestroyInstance")?;
        // SAFETY: as above.
        let destroy = unsafe { transmute::<*const c_void, DestroyInstance>(destroy) };
        // SAFETY: the instance is not used any more.
        unsafe { destroy(instance, null()) };
        Ok(())
    }

    fn succeeded(name: &str, result: i32) -> Result<(), String> {
        if result == 0 { Ok(()) } else { Err(format!("{name}: VkResult {result}")) }
    }
}
