// UNSAFETY: commands have raw arguments, and are told by address.
//! The commands of Vulkan: each one makes references of its pointers and objects of its handles, and hands them to a function of `entry`.

mod clock;
mod command;
mod debug;
mod descriptor;
mod device;
mod drawing;
mod global;
mod image;
mod memory;
mod pipeline;
mod queue;
mod sync;

pub(crate) use global::get_instance_proc_addr;

use core::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Returned, tell};

/// A command without its type.
pub(crate) type Address = unsafe extern "system" fn();

/// Runs a command; a panic, which is a fault of the driver, stays inside.
#[inline(always)]
fn guard<R: Returned>(command: impl FnOnce() -> R) -> R::Out {
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(outcome) => outcome.out(),
        Err(_) => {
            tell(&"a command ended in a panic, see above");
            R::panicked()
        }
    }
}

/// Declares commands with the types that they have in Vulkan, and `find`, which knows them by name. `$app` is the application's promise in each.
macro_rules! commands {
    ($app:ident; $($name:ident: $pfn:ident($($argument:ident: $ty:ty),* $(,)?) $(-> $out:ty)? = $body:expr;)*) => {
        $(
            #[allow(non_snake_case, unused_variables)]
            unsafe extern "system" fn $name($($argument: $ty),*) $(-> $out)? {
                let scope = $crate::app::Scope;
                // SAFETY: the caller of a command of Vulkan promises its valid usage.
                let $app = unsafe { $crate::app::App::promised(&scope) };
                let outcome = $crate::entry::guard(|| $body);
                $crate::failure::Listed::listed(outcome, const { $crate::failure::tells_loss(stringify!($name)) })
            }
            const _: vk::$pfn = $name;
        )*

        /// The command of this name.
        pub(in crate::entry) fn find(name: &str) -> Option<$crate::entry::Address> {
            $(
                if name == stringify!($name) {
                    let address = $name as *const ();
                    // SAFETY: a function pointer without its type, which its caller gives back.
                    return Some(unsafe { core::mem::transmute::<*const (), $crate::entry::Address>(address) });
                }
            )*
            None
        }
    };
}

use commands;

/// Commands by which class they are, for what may be asked of an instance and of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Those that need no instance.
    Global,
    /// Those whose first argument is an instance or a physical device.
    Instance,
    /// Those whose first argument is a physical device.
    Physical,
    /// The others.
    Device,
}

fn find_exactly(name: &str) -> Option<(Class, Address)> {
    let of = |class: Class, found: Option<Address>| found.map(|address| (class, address));
    of(Class::Global, global::globals::find(name))
        .or_else(|| of(Class::Instance, global::find(name)))
        .or_else(|| of(Class::Physical, device::physical_commands::find(name)))
        .or_else(|| of(Class::Physical, clock::physical_commands::find(name)))
        .or_else(|| of(Class::Instance, debug::instance_commands::find(name)))
        .or_else(|| of(Class::Device, clock::find(name)))
        .or_else(|| of(Class::Device, debug::find(name)))
        .or_else(|| of(Class::Device, device::find(name)))
        .or_else(|| of(Class::Device, memory::find(name)))
        .or_else(|| of(Class::Device, image::find(name)))
        .or_else(|| of(Class::Device, descriptor::find(name)))
        .or_else(|| of(Class::Device, pipeline::find(name)))
        .or_else(|| of(Class::Device, command::find(name)))
        .or_else(|| of(Class::Device, drawing::find(name)))
        .or_else(|| of(Class::Device, queue::find(name)))
        .or_else(|| of(Class::Device, sync::find(name)))
}

/// The command of a name. One that became part of Vulkan, or of an extension of Khronos' own, has the name of its extension, too.
pub(crate) fn find(name: &CStr) -> Option<(Class, Address)> {
    let name = name.to_str().ok()?;
    let core = || name.strip_suffix("KHR").or_else(|| name.strip_suffix("EXT"));
    let promoted = || Some(format!("{}KHR", name.strip_suffix("EXT")?));
    find_exactly(name).or_else(|| find_exactly(core()?)).or_else(|| find_exactly(&promoted()?))
}
