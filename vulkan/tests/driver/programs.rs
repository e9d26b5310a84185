//! Programs that nobody here wrote, unmodified, through the system's loader; and the driver's own tests under Khronos' validation layer.
//!
//! `cargo xtask test` puts them into `target/vulkan-programs`. Where one is missing, its test says so, and fails in CI.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use testbed::programs::{MachineServer, Observer, Stop};
use testbed::setup::{MachineOptions, System};

use crate::kit::LOADER_VARIABLE;

/// The folder of this test program, where cargo puts the driver's library, too.
pub(crate) fn built() -> PathBuf {
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
pub(crate) fn run(command: &mut Command) -> String {
    command.env("VK_DRIVER_FILES", manifest()).env("VK_ICD_FILENAMES", manifest());
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// A script of these tests, for the Python in which wgpu and ncnn are installed; `None` if it is not there.
fn python(script: &str) -> Option<Command> {
    let python = fetched("python/bin/python").filter(|_| fetched("python/installed.txt").is_some())?;
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver").join(script));
    command.env("CAMPANILE_VULKAN_GRAPHICS_BIT", "1");
    Some(command)
}

/// Variables that put a program on each kind of machine: one of its own, one whose GPU is in another process, and one with the driver's Windows image. What is not built is left out, but
/// in CI.
fn machines() -> Vec<(&'static str, String)> {
    let mut all = vec![("CAMPANILE_BUS", "direct".to_owned())];
    let folder = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(path);
    let built = [
        ("CAMPANILE_BUS", "vfio-user-process=", built().join("../campanile")),
        ("CAMPANILE_DRIVER", "", folder("pe/campanile_kmd.sys")),
    ];
    for (name, kind, path) in built {
        if path.is_file() {
            all.push((name, format!("{kind}{}", path.display())));
        } else {
            assert!(std::env::var_os("CI").is_none(), "{} is not built", path.display());
            println!("NOT TESTED: {} is not built; `cargo xtask test` builds it", path.display());
        }
    }
    all
}

#[test]
fn forty_kernels_in_wgpu_are_those_of_numpy_on_every_kind_of_machine() {
    for (name, value) in machines() {
        let Some(mut kernels) = python("kernels.py") else { return };
        let text = run(kernels.env(name, &value));
        assert!(text.lines().any(|line| line == "kernels: 40 of 40"), "{value}: {text}");
    }
}

#[test]
fn thirty_networks_in_ncnn_are_those_of_its_path_on_the_processor_on_every_kind_of_machine() {
    for (name, value) in machines() {
        let Some(mut networks) = python("networks.py") else { return };
        let text = run(networks.env(name, &value));
        assert!(text.lines().any(|line| line == "networks: 30 of 30"), "{value}: {text}");
        assert!(!text.contains("campanile_vulkan:"), "{value}: the driver had to refuse something: {text}");
    }
}

/// A program that does not end by itself, and the server of its machine; both are ended with this.
struct Endless {
    program: Child,
    server: Stop,
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.program.kill().expect("killed");
        self.program.wait().expect("an end");
        self.server.stop();
    }
}

#[test]
fn an_endless_kernel_lets_the_program_beside_it_work() {
    let (Some(mut endless), Some(mut kernels)) = (python("kernels.py"), python("kernels.py")) else { return };
    let socket = std::env::temp_dir().join(format!("campanile-vulkan-test-{}", std::process::id()));
    let stop = Stop::new().expect("a descriptor");
    let server = MachineServer::bind(&socket, 8, stop.clone()).expect("served");
    // wgpu takes 192 MiB for its first buffers, and the memory of a kernel that runs stays where it is.
    let options = MachineOptions { variant: "vram=1G".parse().expect("a variant"), ..MachineOptions::default() };
    let system = System::boot(&options.in_use().system()).expect("a machine");
    let observer: Observer = Arc::new(|_| ());
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(system.machine(), &observer).expect("served"));
        endless.arg("endless").env("CAMPANILE_MACHINE", &socket).stdout(Stdio::piped()).stderr(Stdio::null());
        endless.env("VK_DRIVER_FILES", manifest()).env("VK_ICD_FILENAMES", manifest());
        let mut endless = Endless { program: endless.spawn().expect("it starts"), server: stop.clone() };
        let mut said = BufReader::new(endless.program.stdout.take().expect("piped")).lines();
        assert!(said.any(|line| line.is_ok_and(|line| line == "endless: submitted")));
        let text = run(kernels.env("CAMPANILE_MACHINE", &socket));
        assert!(text.lines().any(|line| line == "kernels: 40 of 40"), "{text}");
        assert!(endless.program.try_wait().expect("a child").is_none(), "it has ended");
    });
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
    let Some(mut product) = python("matrix.py") else { return };
    let text = run(&mut product);
    assert!(text.lines().any(|line| line == "Campanile compute GPU: equal"), "{text}");
}

/// Runs tests of this program under the validation layer; returns what they printed, and the lines of it that are the layer's.
fn validated(filters: &[&str], layers: &Path) -> (String, Vec<String>) {
    let mut tests = Command::new(std::env::current_exe().expect("a path"));
    tests.args(filters).arg("--nocapture").env(LOADER_VARIABLE, "1");
    under_layer(&mut tests, layers)
}

/// Runs a program under the validation layer; returns what it printed, and the lines of it that are the layer's.
fn under_layer(program: &mut Command, layers: &Path) -> (String, Vec<String>) {
    let libraries = layers.join("../../../lib/x86_64-linux-gnu");
    program.env("LD_LIBRARY_PATH", libraries);
    program.env("VK_LAYER_PATH", layers).env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
    let text = run(program);
    let said = |line: &&str| line.contains("VUID") || line.contains("UNASSIGNED");
    let said = text.lines().filter(said).map(str::to_owned).collect();
    (text, said)
}

#[test]
fn the_validation_layer_has_nothing_to_say() {
    let Some(layers) = fetched("vulkan-validationlayers/usr/share/vulkan/explicit_layer.d") else { return };
    if let Some(mut networks) = python("networks.py") {
        let said = under_layer(&mut networks, &layers);
        assert!(said.1.is_empty(), "{:#?}", said.1);
    }
    let (text, said) = validated(
        &[
            "compute::",
            "images::",
            "transfer::",
            "order::",
            "extensions::",
            "external::",
            "inline::",
            "debug::names",
            "shaders::",
        ],
        &layers,
    );
    assert!(text.contains(" passed; 0 failed") && said.is_empty(), "{said:#?}");
    // It is there, and would have said something.
    let (_, said) = validated(&["interface::a_shader_that"], &layers);
    assert!(!said.is_empty());
}
