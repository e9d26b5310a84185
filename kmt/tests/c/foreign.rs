//! The driver in C of `examples/miniport-c`, built by both compilers of Windows images and used by its test, with its function in another process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use crate::compiler::{absent, root};
use crate::programs::{clean, program, text};

fn example(file: &str) -> PathBuf {
    root().join("examples/miniport-c").join(file)
}

/// The function, served until it is dropped.
struct Function {
    server: Child,
    socket: PathBuf,
}

impl Function {
    fn start(folder: &Path) -> Option<Self> {
        let socket = folder.join("toy.sock");
        let server =
            Command::new("python3").arg(example("toy_function.py")).arg(&socket).stdout(Stdio::piped()).spawn();
        let Ok(mut server) = server else {
            absent("no python3: the driver in C was not run");
            return None;
        };
        let mut line = String::new();
        let output = server.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("the server tells that it serves");
        assert!(line.starts_with("serving at"), "{line}");
        Some(Self { server, socket })
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Builds the driver; `None` without the compiler.
fn build(folder: &Path, compiler: &str) -> Option<PathBuf> {
    let (tools, package): (&[&str], _) = match compiler {
        "clang" => (&["clang", "lld-link", "llvm-dlltool"], "clang, lld and llvm"),
        _ => (&["x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-dlltool"], "gcc-mingw-w64-x86-64"),
    };
    let starts = |tool: &&str| Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    for tool in tools {
        match starts(tool) {
            Ok(mut child) => drop(child.wait()),
            Err(_) => {
                absent(&format!("no {tool}: the driver in C was not built; install {package}"));
                return None;
            }
        }
    }
    let output = Command::new("sh").arg(example("build.sh")).arg(folder).arg(compiler).output().expect("a shell");
    let told = text(&output.stderr) + &text(&output.stdout);
    assert!(output.status.success() && told.is_empty(), "{compiler}: {told}");
    Some(folder.join("toy.sys"))
}

#[test]
fn a_driver_in_c_of_either_compiler_computes_on_its_own_function_and_survives_a_hang() {
    let mut program = program("examples/miniport-c/toy_test.c");
    let Some(program) = program.take() else { return };
    for compiler in ["clang", "mingw"] {
        let folder = env::temp_dir().join(format!("campanile-toy-{}-{compiler}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (Some(driver), Some(function)) = (build(&folder, compiler), Function::start(&folder)) else { continue };
        let output = clean(&program)
            .env("CAMPANILE_DRIVER", &driver)
            .env("CAMPANILE_BUS", format!("vfio-user={}", function.socket.display()))
            .output()
            .expect("a start");
        drop(function);
        fs::remove_dir_all(&folder).expect("the folder can be removed");
        let told = text(&output.stderr);
        assert!(output.status.success(), "{compiler}: {}: {told}", output.status);
        let packets = "20 packets, every word as it should be\n";
        let expected = format!("{packets}the packet that hung was ended: execution state 3\n{packets}");
        assert_eq!(text(&output.stdout), expected, "{compiler}: {told}");
    }
}
