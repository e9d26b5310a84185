//! Programs that nobody here wrote, unmodified, through the system's loader; and the driver's own tests under Khronos' validation layer.
//!
//! `cargo xtask test` puts them into `target/vulkan-programs`. Where one is missing, its test says so, and fails in CI.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::LOADER_VARIABLE;

/// The folder of this test program, where cargo puts the driver's library, too.
fn built() -> PathBuf {
    std::env::current_exe().expect("a path").parent().expect("a folder").to_path_buf()
}

/// A manifest that names the library that these tests were built with.
fn manifest() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("campanile_icd.json");
    let library = built().join("libcampanile_vulkan.so");
    assert!(library.is_file(), "{} is missing", library.display());
    let icd = format!(r#"{{"library_path": "{}", "api_version": "1.3.281"}}"#, library.display());
    // Each writes the same, by a name of its own first, so that nobody reads half of it.
    let fresh = path.with_extension(format!("{:?}", std::thread::current().id()));
    std::fs::write(&fresh, format!(r#"{{"file_format_version": "1.0.1", "ICD": {icd}}}"#)).expect("written");
    std::fs::rename(&fresh, &path).expect("renamed");
    path
}

/// What `cargo xtask test` has put there, if it has.
fn fetched(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/vulkan-programs").join(file);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{file} is missing: `cargo xtask test` fetches it");
    println!("NOT TESTED: {file} IS MISSING; `cargo xtask test` fetches it");
    None
}

/// Runs a program with the driver as the only one; returns what it printed, both streams.
fn run(command: &mut Command) -> String {
    command.env("VK_DRIVER_FILES", manifest()).env("VK_ICD_FILENAMES", manifest());
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

#[test]
fn vulkaninfo_says_what_the_driver_is() {
    let Some(program) = fetched("vulkan-tools/usr/bin/vulkaninfo") else { return };
    let text = run(Command::new(&program).arg("--summary"));
    for line in ["deviceName         = Campanile compute GPU", "conformanceVersion = 0.0.0.0", "VIRTUAL_GPU"] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert_eq!(text.matches("GPU0:").count(), 1);
    let whole = run(&mut Command::new(program));
    assert!(whole.contains("QUEUE_COMPUTE") && !whole.contains("QUEUE_GRAPHICS"), "{whole}");
}

#[test]
fn a_matrix_product_in_wgpu_is_the_one_of_numpy() {
    let Some(python) = fetched("python/bin/python").filter(|_| fetched("python/installed.txt").is_some()) else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver/matrix.py");
    let text = run(Command::new(python).arg(script).env("CAMPANILE_VULKAN_GRAPHICS_BIT", "1"));
    assert!(text.lines().any(|line| line == "Campanile compute GPU: equal"), "{text}");
}

/// Runs tests of this program under the validation layer; returns what they printed, and the lines of it that are the layer's.
fn validated(filters: &[&str], layers: &Path) -> (String, Vec<String>) {
    let libraries = layers.join("../../../lib/x86_64-linux-gnu");
    let mut tests = Command::new(std::env::current_exe().expect("a path"));
    tests.args(filters).arg("--nocapture").env(LOADER_VARIABLE, "1").env("LD_LIBRARY_PATH", libraries);
    tests.env("VK_LAYER_PATH", layers).env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
    let text = run(&mut tests);
    let said = |line: &&str| line.contains("VUID") || line.contains("UNASSIGNED");
    let said = text.lines().filter(said).map(str::to_owned).collect();
    (text, said)
}

#[test]
fn the_validation_layer_has_nothing_to_say() {
    let Some(layers) = fetched("vulkan-validationlayers/usr/share/vulkan/explicit_layer.d") else { return };
    let (text, said) = validated(&["compute::", "images::", "transfer::", "order::"], &layers);
    assert!(text.contains(" passed; 0 failed") && said.is_empty(), "{said:#?}");
    // It is there, and would have said something.
    let (_, said) = validated(&["interface::a_shader_that"], &layers);
    assert!(!said.is_empty());
}
