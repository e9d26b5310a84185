//! The guest's first file system: this program with its libraries, the Windows images, modules and the job.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::Archive;
use super::protocol::{JOB, Job, PROGRAM};
use super::tools::Kernel;

/// Files that go along, with their names in the guest.
pub(super) type Luggage = Vec<(PathBuf, String)>;

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The name of an absolute path in an archive.
fn inside(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn add(archive: &mut Archive, name: &str, from: &Path, program: bool) -> Result<(), String> {
    let contents = read(from)?;
    let name = inside(name);
    if let Some((folder, _)) = name.rsplit_once('/') {
        archive.folders(folder);
    }
    if program {
        archive.program(name, &contents);
    } else {
        archive.file(name, &contents);
    }
    Ok(())
}

/// Builds the file system for a job. The modules of the job are filled in.
///
/// # Errors
/// A file cannot be read.
pub(super) fn build(kernel: &Kernel, mut job: Job, luggage: &Luggage) -> Result<Vec<u8>, String> {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.device("dev/console", 5, 1);
    let program = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    add(&mut archive, PROGRAM, &program, true)?;
    for library in libraries(&program)? {
        add(&mut archive, &library, Path::new(&library), true)?;
    }
    for module in &kernel.modules {
        let name = module.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = format!("/modules/{name}");
        add(&mut archive, &name, module, false)?;
        job.modules.push(name);
    }
    for (from, name) in luggage {
        let is_program = fs::metadata(from).is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
        add(&mut archive, name, from, is_program)?;
    }
    let job = serde_json::to_vec(&job).map_err(|error| error.to_string())?;
    archive.file(inside(JOB), &job);
    Ok(archive.finish())
}

/// The loader and the libraries of a program, as its own loader finds them.
fn libraries(program: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("ldd").arg(program).output().map_err(|error| format!("ldd does not start: {error}"))?;
    let libraries = parse_libraries(&String::from_utf8_lossy(&output.stdout));
    if output.status.success() && libraries.is_empty() {
        return Err(format!("ldd names no libraries of {}", program.display()));
    }
    // A program without any is a static one, for which ldd fails.
    Ok(libraries)
}

/// Paths in the output of ldd: `libc.so.6 => /lib/libc.so.6 (0x…)`, and `/lib64/ld.so (0x…)` for the loader.
fn parse_libraries(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let line = line.split_once("=>").map_or(line, |(_, path)| path);
        line.split_whitespace().next().filter(|word| word.starts_with('/')).map(str::to_owned)
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_loader_are_found() {
        let text = "\tlinux-vdso.so.1 (0x00007f1fcc624000)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f1fcc512000)\n\
                    \tlibodd.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f1fcc626000)\n";
        assert_eq!(parse_libraries(text), ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(parse_libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let kernel = Kernel { image: "/nonexistent".into(), modules: vec!["/nonexistent/vfio.ko".into()] };
        assert!(build(&kernel, Job::default(), &Vec::new()).unwrap_err().contains("/nonexistent/vfio.ko"));
    }
}
