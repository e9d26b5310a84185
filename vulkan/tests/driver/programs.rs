//! Programs that nobody here wrote, unmodified, through the system's loader; and the driver's own tests under Khronos' validation layer.
//!
//! `cargo xtask test` puts them into `target/vulkan-programs`. Where one is missing, its test says so, and fails in CI.

use std::ffi::OsStr;
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
pub(crate) fn manifest() -> PathBuf {
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

/// Environment variable of a process that runs one test alone.
const ALONE: &str = "CAMPANILE_VULKAN_TEST_ALONE";

/// True in a process that runs this test alone, on a machine of its own with this GPU; otherwise runs the test in such a process, which it must pass.
pub(crate) fn is_alone(test: &str, variant: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args([test, "--exact"]).env(ALONE, "1");
    for variable in ["CAMPANILE_MACHINE", "CAMPANILE_BUS", "CAMPANILE_DRIVER"] {
        command.env_remove(variable);
    }
    let text = run(command.env("CAMPANILE_DEVICE_VARIANT", variant));
    assert!(text.contains("1 passed"), "{text}");
    false
}

/// Runs a program with the driver as the only one; returns what it printed, both streams.
pub(crate) fn run(command: &mut Command) -> String {
    run_with(command, &[])
}

/// As [`run`], with the drivers of these manifests beside this one.
fn run_with(command: &mut Command, others: &[&Path]) -> String {
    let all = std::env::join_paths([manifest().as_path()].iter().chain(others)).expect("paths without colons");
    let output = command.env("VK_DRIVER_FILES", &all).env("VK_ICD_FILENAMES", &all).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}, and said:\n{text}", output.status);
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
/// in CI. The first alone where CAMPANILE_QUICK is set, as `cargo xtask test --quick` does and says.
fn machines() -> Vec<(&'static str, String)> {
    let mut all = vec![("CAMPANILE_BUS", "direct".to_owned())];
    if std::env::var_os("CAMPANILE_QUICK").is_some() {
        return all;
    }
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

/// The manifest of lavapipe, in Debian's package mesa-vulkan-drivers, if it is installed.
fn lavapipe() -> Option<&'static Path> {
    let path = Path::new("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json");
    if path.is_file() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "lavapipe is missing: install mesa-vulkan-drivers");
    println!("NOT COMPARED WITH LAVAPIPE: install mesa-vulkan-drivers");
    None
}

#[test]
fn forty_kernels_in_wgpu_are_those_of_numpy_and_of_lavapipe_on_every_kind_of_machine() {
    let lavapipe = lavapipe();
    let wanted = match lavapipe {
        Some(_) => "kernels: 40 of 40 as NumPy, 40 of 40 as lavapipe",
        None => "kernels: 40 of 40 as NumPy",
    };
    for (name, value) in machines() {
        let Some(mut kernels) = python("kernels.py") else { return };
        let text = run_with(kernels.env(name, &value), lavapipe.as_slice());
        assert!(text.lines().any(|line| line == wanted), "{value}: {text}");
    }
}

/// The program on the wgpu crate, which the workspace builds; `None` if it has not.
fn crate_of_wgpu() -> Option<Command> {
    let program = built().join("../wgpu_kernels");
    if !program.is_file() {
        assert!(std::env::var_os("CI").is_none(), "{} is not built", program.display());
        println!("NOT TESTED: {} is not built; `cargo build -p campanile-wgpu-kernels` builds it", program.display());
        return None;
    }
    let mut command = Command::new(program);
    command.env("CAMPANILE_VULKAN_GRAPHICS_BIT", "1");
    Some(command)
}

#[test]
fn kernels_in_the_wgpu_crate_are_those_of_the_processor_on_every_kind_of_machine() {
    for (name, value) in machines() {
        let Some(mut kernels) = crate_of_wgpu() else { return };
        let text = run(kernels.env(name, &value));
        assert!(text.lines().any(|line| line == "kernels: 13 of 13"), "{value}: {text}");
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

/// Environment variable that has [`an_endless_kernel_lets_the_program_beside_it_work_on_every_kind_of_machine`] serve a machine at this socket.
const SERVER: &str = "CAMPANILE_VULKAN_TEST_SERVER";

/// A process that does not end by itself, and is ended with this.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("an end");
    }
}

impl Endless {
    /// Starts a program, and returns when it has printed this line.
    fn start(command: &mut Command, line: &str) -> Self {
        let mut started = Self(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let mut said = BufReader::new(started.0.stdout.take().expect("piped")).lines();
        assert!(said.any(|said| said.is_ok_and(|said| said == line)), "it did not say: {line}");
        started
    }
}

/// Serves a machine at a socket, as the environment says, and does not end.
fn serve(socket: &OsStr) {
    let server = MachineServer::bind(Path::new(socket), 8, Stop::new().expect("a descriptor")).expect("served");
    // wgpu takes 192 MiB for its first buffers, and the memory of a kernel that runs stays where it is.
    let options = MachineOptions { variant: "vram=1G".parse().expect("a variant"), ..MachineOptions::default() };
    let system = System::boot(&options.in_use().system()).expect("a machine");
    println!("\nserved");
    let observer: Observer = Arc::new(|_| ());
    server.serve(system.machine(), &observer).expect("served");
}

#[test]
fn an_endless_kernel_lets_the_program_beside_it_work_on_every_kind_of_machine() {
    if let Some(socket) = std::env::var_os(SERVER) {
        return serve(&socket);
    }
    for (number, (name, value)) in machines().into_iter().enumerate() {
        let (Some(mut endless), Some(mut kernels)) = (python("kernels.py"), python("kernels.py")) else { return };
        let socket = std::env::temp_dir().join(format!("campanile-vulkan-test-{}-{number}", std::process::id()));
        let mut server = Command::new(std::env::current_exe().expect("a path"));
        server
            .args(["programs::an_endless_kernel_lets_the_program_beside_it_work_on_every_kind_of_machine", "--exact"]);
        server.arg("--nocapture").env(SERVER, &socket).env(name, &value);
        let _server = Endless::start(&mut server, "served");
        endless.arg("endless").env("CAMPANILE_MACHINE", &socket).stderr(Stdio::null());
        endless.env("VK_DRIVER_FILES", manifest()).env("VK_ICD_FILENAMES", manifest());
        let mut endless = Endless::start(&mut endless, "endless: submitted");
        let text = run(kernels.env("CAMPANILE_MACHINE", &socket));
        assert!(text.lines().any(|line| line == "kernels: 40 of 40 as NumPy"), "{value}: {text}");
        assert!(endless.0.try_wait().expect("a child").is_none(), "{value}: it has ended");
        std::fs::remove_file(&socket).expect("removed");
    }
}

#[test]
fn vulkaninfo_says_what_the_driver_is_on_every_kind_of_machine() {
    let Some(program) = fetched("vulkan-tools/usr/bin/vulkaninfo") else { return };
    for (name, value) in machines() {
        let text = run(Command::new(&program).arg("--summary").env(name, &value));
        for line in ["deviceName         = Campanile compute GPU", "conformanceVersion = 0.0.0.0", "VIRTUAL_GPU"] {
            assert!(text.contains(line), "{value}: {line} is missing in {text}");
        }
        assert_eq!(text.matches("GPU0:").count(), 1, "{value}");
        let whole = run(Command::new(&program).env(name, &value));
        assert!(whole.contains("QUEUE_COMPUTE") && !whole.contains("QUEUE_GRAPHICS"), "{value}: {whole}");
    }
}

#[test]
fn a_matrix_product_in_wgpu_is_the_one_of_numpy_on_every_kind_of_machine() {
    for (name, value) in machines() {
        let Some(mut product) = python("matrix.py") else { return };
        let text = run(product.env(name, &value));
        assert!(text.lines().any(|line| line == "Campanile compute GPU: equal"), "{value}: {text}");
    }
}

/// Runs tests of this program under the validation layer; returns what they printed, and the lines of it that are the layer's.
fn validated(arguments: &[&str], layers: &Path) -> (String, Vec<String>) {
    let mut tests = Command::new(std::env::current_exe().expect("a path"));
    tests.args(arguments).arg("--nocapture").env(LOADER_VARIABLE, "1");
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

/// Tests that do not run under the validation layer, or of which it has something to say; and why.
const LEFT_OUT: [(&str, &str); 11] = [
    ("programs::", "They start programs, which the layer sees by themselves, and these tests again."),
    (
        "creation::samplers_that_the_layout_names",
        "On purpose: of samplers that the layout names it pushes a pointer that leads nowhere, which the layer follows.",
    ),
    (
        "interface::a_shader_that",
        "On purpose: its layout lacks a binding, and its module says what the device has not.",
    ),
    (
        "interface::drawing_is_refused_by_name",
        "On purpose: what it asks for is not filled in, for it is refused by its name.",
    ),
    ("interface::memory_that_the_processor_does_not_see", "On purpose: it maps memory that cannot be mapped."),
    ("interface::memory_that_there_is_not", "On purpose: it asks for more than its heap has."),
    ("interface::stale_handles_do_no_harm", "On purpose: it uses handles of objects that are destroyed."),
    ("strangers::descriptors_of_other_things", "On purpose: it imports descriptors of kinds that are not imported."),
    ("strangers::memory_and_semaphores_that_were_not_made", "On purpose: it exports what was not made for it."),
    ("devices_have_the_commands_of_names", "The layer has VK_EXT_debug_utils itself, and answers for its commands."),
    (
        "not_copied_without_availability",
        "UNASSIGNED-CoreValidation-DrawState-InvalidQuery, \"query may return no data\": no rule of Vulkan's, which has it write nothing.",
    ),
];

#[test]
fn the_validation_layer_has_nothing_to_say_about_programs() {
    let Some(layers) = fetched("vulkan-validationlayers/usr/share/vulkan/explicit_layer.d") else { return };
    let all = [
        ("kernels.py", python("kernels.py")),
        ("matrix.py", python("matrix.py")),
        ("networks.py", python("networks.py")),
        ("the wgpu crate", crate_of_wgpu()),
        ("vulkaninfo", fetched("vulkan-tools/usr/bin/vulkaninfo").map(Command::new)),
    ];
    for (name, program) in all {
        let Some(mut program) = program else { continue };
        let (_, said) = under_layer(&mut program, &layers);
        assert!(said.is_empty(), "{name}: {said:#?}");
    }
}

#[test]
fn the_validation_layer_has_nothing_to_say_about_these_tests() {
    let Some(layers) = fetched("vulkan-validationlayers/usr/share/vulkan/explicit_layer.d") else { return };
    let left_out: Vec<_> = LEFT_OUT.iter().flat_map(|(test, _)| ["--skip", test]).collect();
    let (text, said) = validated(&left_out, &layers);
    assert!(text.contains(" passed; 0 failed") && said.is_empty(), "{said:#?}");
    // It is there, and would have said something.
    let (_, said) = validated(&["interface::a_shader_that"], &layers);
    assert!(!said.is_empty());
}
