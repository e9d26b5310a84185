// UNSAFETY: commands have raw arguments, and are told by address.
//! Declares commands of Vulkan: each one is a function with the type that it has there, runs where no panic leaves it, and is found by its name among those that were declared with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Returned, tell};

/// A command without its type.
pub(crate) type Address = unsafe extern "system" fn();

/// Runs a command; a panic, which is a fault of the driver, stays inside.
#[inline(always)]
pub(super) fn guard<R: Returned>(command: impl FnOnce() -> R) -> R::Out {
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
                let outcome = $crate::entry::declaration::guard(|| $body);
                $crate::failure::Listed::listed(outcome, const { $crate::failure::tells_loss(stringify!($name)) })
            }
            const _: vk::$pfn = $name;
        )*

        /// The command of this name.
        pub(in crate::entry) fn find(name: &str) -> Option<$crate::entry::declaration::Address> {
            $(
                if name == stringify!($name) {
                    let address = $name as *const ();
                    // SAFETY: a function pointer without its type, which its caller gives back.
                    let address = unsafe {
                        core::mem::transmute::<*const (), $crate::entry::declaration::Address>(address)
                    };
                    return Some(address);
                }
            )*
            None
        }
    };
}

pub(super) use commands;
