//! Without a driver of Vulkan the program says so, and does not take another one.

use std::process::Command;

#[test]
fn without_a_driver_nothing_is_computed() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wgpu_kernels"));
    let output = program.env("VK_DRIVER_FILES", "/nowhere").env("VK_ICD_FILENAMES", "/nowhere").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("there is no adapter, or 0"), "{told}");
    assert!(output.stdout.is_empty());
}
