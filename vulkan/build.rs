//! Arguments of the linker for `libcampanile_vulkan.so`: its name in programs that link it, and that `dlclose` does not unload it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // Threads of the machine run in it until the process ends; the loader's `dlclose` leaves it where it is.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcampanile_vulkan.so");
    }
}
