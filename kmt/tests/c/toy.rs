//! The driver in C of `examples/miniport-c`, built, and its function, served. For the tests of this crate and of the program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The function, served until it is dropped.
pub(crate) struct Function {
    server: Child,
    socket: PathBuf,
}

impl Function {
    /// Serves what `example` describes at a socket in `folder`.
    ///
    /// # Errors
    /// The program that this machine lacks.
    pub(crate) fn start(example: &Path, folder: &Path) -> Result<Self, String> {
        let socket = folder.join("toy.sock");
        let script = example.join("toy_function.py");
        let server = Command::new("python3").arg(script).arg(&socket).stdout(Stdio::piped()).spawn();
        let Ok(mut server) = server else { return Err("no python3: the driver in C was not run".to_owned()) };
        let mut line = String::new();
        let output = server.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("the server tells that it serves");
        assert!(line.starts_with("serving at"), "{line}");
        Ok(Self { server, socket })
    }

    /// The value of `--bus` and CAMPANILE_BUS.
    pub(crate) fn bus(&self) -> String {
        format!("vfio-user={}", self.socket.display())
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Builds the driver of `example` into `folder`, for this version of the interface.
///
/// # Errors
/// The compiler that is missing on this machine.
pub(crate) fn build(example: &Path, folder: &Path, compiler: &str, version: &str) -> Result<PathBuf, String> {
    let (tools, package): (&[&str], _) = match compiler {
        "clang" => (&["clang", "lld-link", "llvm-dlltool"], "clang, lld and llvm"),
        _ => (&["x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-dlltool"], "gcc-mingw-w64-x86-64"),
    };
    let output = Command::new("sh").arg(example.join("build.sh")).arg(folder).arg(compiler).arg(version).output();
    let output = output.expect("a shell");
    if !output.status.success() {
        let is_absent = |tool: &&&str| Command::new(tool).arg("--version").output().is_err();
        if let Some(tool) = tools.iter().find(is_absent) {
            return Err(format!("no {tool}: the driver in C was not built; install {package}"));
        }
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.is_empty(), "{compiler}: {told}");
    Ok(folder.join("toy.sys"))
}
