//! Linker options of the C library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Threads of the machine run in it until the process ends: `dlclose` leaves it where it is.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcampanile_kmt.so");
}
