//! Programs in C, run on the machine of the library.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testbed::programs::PROGRAMS;
use testbed::setup::{LIMIT_VARIABLE, TDR_VARIABLE};

use crate::compiler::{Language, Program, compile_file, library, root};
use crate::served::Served;

/// A program of a file of the repository, linked with the library as users link it.
pub(crate) fn program(file: &str) -> Option<Program> {
    let path = root().join(file);
    let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let folder = library();
    let folder = folder.display();
    let api = format!("-I{}", root().join("umd/include").display());
    let arguments = [
        api,
        format!("-L{folder}"),
        "-lcampanile_kmt".to_owned(),
        format!("-Wl,-rpath,{folder}"),
        "-pthread".to_owned(),
    ];
    let stem =
        format!("{stem}-{}-{}", std::process::id(), std::thread::current().name().unwrap_or("").replace(':', "_"));
    let compiled = compile_file(&stem, &Language::GNU11, &path, &arguments)?;
    Some(compiled.unwrap_or_else(|told| panic!("{file}: {told}")))
}

/// A command without what the environment of the test says about machines.
pub(crate) fn clean(program: &Program) -> Command {
    let mut command = program.command();
    for variable in [
        "CAMPANILE_DRIVER",
        "CAMPANILE_BUS",
        "CAMPANILE_DEVICE_VARIANT",
        "CAMPANILE_SPECIAL_POOL",
        LIMIT_VARIABLE,
        TDR_VARIABLE,
    ] {
        command.env_remove(variable);
    }
    // Cargo names the folder in which a library of an earlier build may lie.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fine(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{}: {out}{err}", output.status);
    out
}

#[test]
fn a_program_of_the_gpu_runs_from_c_through_the_user_mode_driver() {
    let Some(program) = program("examples/c/squares.c") else { return };
    let text_of = |file: &str| fs::read_to_string(root().join(file)).expect("the example");
    let code = campanile_isa::assemble(&text_of("examples/c/squares.txt")).expect("its program");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("squares.bin");
    fs::write(&place, &code).expect("it can be written");
    for variant in ["default", "preemption=workgroup", "preemption=dispatch", "preemption=buffer,interpreter"] {
        let output = clean(&program).env("CAMPANILE_DEVICE_VARIANT", variant).arg(&place).output().expect("it runs");
        assert_eq!(fine(&output), "640 lanes, every square verified\n", "{variant}");
    }
    // A program that breaks a rule is refused by name.
    fs::write(&place, &code[..code.len() - 16]).expect("it can be written");
    let output = clean(&program).arg(&place).output().expect("it runs");
    let errors = text(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.starts_with("program: "), "{errors}");
}

#[test]
fn submission_from_c_follows_the_page_on_every_kind_of_gpu_bus_and_driver() {
    let Some(program) = program("examples/c/user_mode_submission.c") else { return };
    let pe = root().join("target/pe/campanile_kmd.sys");
    assert!(pe.is_file(), "{}: not there; run `cargo xtask pe` first", pe.display());
    let by_doorbell = "20 submissions by doorbell, 0 notified, every byte verified\n";
    for (settings, expected) in [
        (&[][..], by_doorbell),
        (&[("CAMPANILE_DRIVER", pe.to_str().unwrap())], by_doorbell),
        (&[("CAMPANILE_BUS", "vfio-user")], by_doorbell),
        (&[("CAMPANILE_DEVICE_VARIANT", "global-doorbell")], by_doorbell),
        (&[("CAMPANILE_DEVICE_VARIANT", "non-coherent,doorbells=1")], by_doorbell),
        (
            &[("CAMPANILE_DEVICE_VARIANT", "no-native-fence")],
            "20 submissions by the kernel, 0 notified, every byte verified\n",
        ),
    ] {
        let output = clean(&program).arg("20").envs(settings.iter().copied()).output().expect("a start");
        assert_eq!(fine(&output), expected, "{settings:?}");
    }
}

#[test]
fn a_program_alone_finds_itself_by_its_number_and_nobody_else() {
    let Some(program) = program("kmt/tests/c/beside.c") else { return };
    let told = fine(&clean(&program).arg("alone").output().expect("a start"));
    assert_eq!(told, "a program found itself by its number, and nobody else\n");
}

#[test]
fn adapters_are_listed_from_c() {
    let Some(program) = program("examples/c/adapters.c") else { return };
    let told = fine(&clean(&program).output().expect("a start"));
    assert!(told.contains("native fences: yes") && told.contains("node 2: user-mode submission no"), "{told}");
    let output = clean(&program).env("CAMPANILE_DEVICE_VARIANT", "no-native-fence").output().expect("a start");
    assert!(fine(&output).contains("native fences: no"));
}

#[test]
fn thunks_about_displays_answer_as_for_an_adapter_without() {
    let mut text = String::from("#include <campanile_windows.h>\n#include <stdio.h>\nstatic uint64_t any[1024];\n");
    let mut calls = String::from("    wrong += D3DKMTCheckExclusiveOwnership() != 0;\n");
    text.push_str("EXTERN_C BOOLEAN D3DKMTCheckExclusiveOwnership(VOID);\n");
    for (name, status) in campanile_kmt::display::NAMES {
        let _ = writeln!(text, "EXTERN_C NTSTATUS {name}(const void *);");
        for argument in ["any", "0"] {
            let _ = writeln!(calls, "    wrong += {name}({argument}) != (NTSTATUS)0x{:08x};", status.0);
        }
    }
    let _ = writeln!(
        text,
        "int main(void)\n{{\n    int wrong = 0;\n{calls}    printf(\"%d wrong\\n\", wrong);\n    return 0;\n}}"
    );
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("display-{}.c", std::process::id()));
    fs::write(&source, text).expect("writable");
    let program = program(&source.to_string_lossy());
    fs::remove_file(&source).expect("it was written");
    let Some(program) = program else { return };
    assert_eq!(fine(&clean(&program).output().expect("a start")), "0 wrong\n");
    assert!(campanile_kmt::display::NAMES.len() > 50);
}

#[test]
fn settings_that_are_none_are_told_once_and_every_call_is_refused() {
    let Some(program) = program("examples/c/adapters.c") else { return };
    for (variable, value, part) in [
        ("CAMPANILE_DEVICE_VARIANT", "speed=9", "CAMPANILE_DEVICE_VARIANT: unknown key `speed`"),
        ("CAMPANILE_BUS", "isa", "CAMPANILE_BUS: `isa` names no bus"),
        ("CAMPANILE_BUS", "vfio-user=/nowhere/gpu", "/nowhere/gpu: No such file"),
        ("CAMPANILE_DRIVER", "nowhere.sys", "nowhere.sys: No such file"),
        ("CAMPANILE_SPECIAL_POOL", "both", "special pool is"),
        (TDR_VARIABLE, "TdrDelay=0", "CAMPANILE_TDR: "),
        (LIMIT_VARIABLE, "never", "a number of seconds from 1 on, not `never`"),
    ] {
        let output = clean(&program).env(variable, value).output().expect("a start");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{value}: {told}");
        assert_eq!(told.matches("campanile_kmt: ").count(), 1, "{told}");
        assert!(told.contains(part) && told.contains("D3DKMTEnumAdapters3: status 0xc000000d"), "{told}");
    }
}

#[test]
fn a_call_into_the_driver_that_loops_is_named_and_the_program_goes_on() {
    let Some(program) = program("examples/c/adapters.c") else { return };
    let image = root().join("target/pe/test/faulty.sys");
    let folder = std::env::temp_dir().join(format!("campanile-kmt-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    // The image makes the mistake that its service is named after.
    let driver = folder.join("loop-in-start.sys");
    fs::copy(&image, &driver)
        .unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", image.display()));
    let settings = [("CAMPANILE_DRIVER", driver.to_str().expect("a path of text")), (LIMIT_VARIABLE, "2")];
    let output = clean(&program).envs(settings).output().expect("a start");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("DxgkDdiStartDevice of driver loop-in-start has not returned for 2.0 s"), "{told}");
    assert!(told.contains("D3DKMTEnumAdapters3: status 0xc000000e"), "{told}");
}

const LIFE: &str = "kmt/tests/c/life.c";

/// Runs a part of `life.c`.
fn life(part: &str) -> Option<Output> {
    let program = program(LIFE)?;
    Some(clean(&program).arg(part).output().expect("a start"))
}

#[test]
fn threads_that_call_first_together_find_one_machine() {
    let Some(output) = life("threads") else { return };
    assert_eq!(fine(&output), "8 threads, 1 adapter\n");
}

#[test]
fn a_child_of_fork_is_refused_by_name_and_one_before_the_first_call_is_not() {
    let Some(output) = life("fork") else { return };
    let told = text(&output.stderr);
    assert!(output.status.success(), "{}: {told}", output.status);
    assert_eq!(text(&output.stdout), "child before: 00000000\nchild after: c0000022\nparent: 00000000\n");
    assert_eq!(
        told.matches("campanile_kmt: the machine stays with the process that called first").count(),
        1,
        "{told}"
    );
}

/// The threads and the connection of a machine are of one process, and end with it, although the other one has the memory that they are in.
#[test]
fn a_child_that_has_the_memory_of_its_parent_is_refused_by_name_and_the_parent_is_not() {
    let Some(program) = program(LIFE) else { return };
    let served = Served::new("vfork", PROGRAMS);
    for part in ["vfork", "clone", "grandchild"] {
        for socket in [None, Some(&served.socket)] {
            let mut command = clean(&program);
            command.arg(part).envs(socket.map(|path| ("CAMPANILE_MACHINE", path)));
            let output = command.output().expect("a start");
            let (out, told) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{part}, {socket:?}: {}: {out}{told}", output.status);
            assert_eq!(out, "child: c0000022, parent: 00000000, again: 00000000\n", "{part}, {socket:?}: {told}");
            let why = "campanile_kmt: this process has the memory of another one (vfork, or clone with CLONE_VM)";
            assert_eq!(told.matches(why).count(), 1, "{told}");
        }
    }
}

#[test]
fn a_process_ends_with_its_own_code_whatever_it_leaves_behind() {
    let Some(output) = life("exit") else { return };
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(7), String::new()));
    // Both handlers ran, and the machine was there for them.
    assert_eq!(text(&output.stdout), "later handler: 00000000\nearlier handler: 00000000\n");
}

#[test]
fn signals_of_the_process_go_to_its_own_threads() {
    let Some(output) = life("signals") else { return };
    assert_eq!(fine(&output), "100 of 100 signals on the main thread\n");
}

#[test]
fn a_library_that_was_closed_stays() {
    let Some(program) = program(LIFE) else { return };
    let library = library().join("libcampanile_kmt.so");
    let output = clean(&program).arg("dlclose").arg(library).output().expect("a start");
    assert_eq!(fine(&output), "opened, called, closed, called: 00000000\n");
}

#[test]
fn every_thunk_is_exported_and_the_manual_names_the_variables() {
    let bytes = fs::read(library().join("libcampanile_kmt.so")).expect("readable");
    let names = [wddm_ddi::kmt::Thunks::NAMES, wddm_ddi::kmt::FurtherThunks::NAMES].concat();
    assert!(names.len() > 50);
    for name in names {
        let entry: Vec<u8> = [b"\0", name.as_bytes(), b"\0"].concat();
        assert!(bytes.windows(entry.len()).any(|window| window == entry), "{name} is no symbol");
    }
    // Every name that Microsoft's header declares is there, and each is either served or refused.
    let listed = include_str!("kit/thunks.txt").lines().filter(|line| !line.starts_with('#'));
    let listed: Vec<String> = listed.map(|name| format!("D3DKMT{name}")).collect();
    assert!(listed.len() >= 188, "{} names", listed.len());
    let served = [wddm_ddi::kmt::Thunks::NAMES, wddm_ddi::kmt::FurtherThunks::NAMES].concat();
    let refused: Vec<&str> = campanile_kmt::display::NAMES.iter().map(|(name, _)| *name).collect();
    for name in &listed {
        let entry: Vec<u8> = [b"\0", name.as_bytes(), b"\0"].concat();
        assert!(bytes.windows(entry.len()).any(|window| window == entry), "{name} is no symbol");
        let name = name.as_str();
        assert!(served.contains(&name) != refused.contains(&name) || name == "D3DKMTCheckExclusiveOwnership", "{name}");
    }
    for name in served.iter().chain(&refused).filter(|name| name.starts_with("D3DKMT")) {
        assert!(listed.iter().any(|listed| listed == name), "{name} is in no header");
    }
    let manual = fs::read_to_string(Path::new(&root()).join("docs/programs-in-c.md")).expect("readable");
    for variable in [
        "CAMPANILE_DRIVER",
        "CAMPANILE_BUS",
        campanile_kmt::machine::VARIANT_VARIABLE,
        "CAMPANILE_SPECIAL_POOL",
        LIMIT_VARIABLE,
        TDR_VARIABLE,
    ] {
        assert!(manual.contains(variable), "{variable}");
    }
}
