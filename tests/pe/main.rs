//! The Windows images, read back from their files: `cargo xtask pe` builds them into `target/pe`.
//!
//! What a Windows loader, a verifier and a debugger look at is held here: machine, subsystem, characteristics, sections,
//! imports, exports, relocations, checksum, the PDB that belongs to the image, how deep the stack frames are and which
//! instructions the driver uses. Each reading has a negative control: the same image with a few bytes changed must fail in
//! exactly that point.

mod altered;
mod code;
mod driver;
mod fuzz;
mod image;
mod older;
mod opinions;
mod program;
mod second_sources;
mod unwind;
mod wine;

use image::{IMAGES, built, faults, header_names, imports, parse};

#[test]
fn each_image_is_what_it_is_to_be_in_every_point() {
    for image in IMAGES {
        assert_eq!(faults(image, &built(image.file), &built(image.pdb)), Vec::<String>::new(), "{}", image.file);
    }
}

#[test]
fn the_driver_imports_from_the_kernel_alone() {
    let bytes = built(image::DRIVER.file);
    assert_eq!(imports(&parse(&bytes)).keys().collect::<Vec<_>>(), ["ntoskrnl.exe"]);
}

#[test]
fn this_program_knows_every_function_of_the_header_and_no_other() {
    let known = testbed::user::Functions::NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(header_names("umd/include/campanile.h", "campanile_", '('), known);
    let thunks = wddm_ddi::kmt::Thunks::NAMES;
    let listed = header_names("umd/include/campanile.h", "D3DKMT", '\n');
    assert_eq!(listed.len(), thunks.iter().filter(|name| name.starts_with("D3DKMT")).count());
    assert!(listed.iter().all(|name| thunks.contains(&name.as_str())), "{listed:?}");
}
