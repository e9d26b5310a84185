//! The command `vulkan`, which runs a program with the driver for Vulkan.

use std::fs;
use std::process::{Command, Output};

use super::{Scratch, campanile, text};

/// The command `vulkan` with a program, and a manifest that is only looked for.
fn with_driver(scratch: &Scratch, arguments: &[&str]) -> Output {
    let manifest = scratch.file("icd.json", 2);
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.args(["vulkan", "--manifest", &manifest]).args(arguments).env_remove("CAMPANILE_MACHINE");
    command.output().expect("the command starts")
}

#[test]
fn a_vulkan_program_gets_the_variables_and_its_exit_code_is_the_command_s() {
    let scratch = Scratch::new("vulkan");
    let shown = "echo $VK_DRIVER_FILES $VK_ICD_FILENAMES $CAMPANILE_DRIVER $CAMPANILE_DEVICE_VARIANT \
        $CAMPANILE_VULKAN_GRAPHICS_BIT $CAMPANILE_MACHINE $CAMPANILE_DRIVER_LIMIT $CAMPANILE_TDR; exit 7";
    let output = with_driver(
        &scratch,
        &[
            "--graphics-bit",
            "--device-variant",
            "doorbells=4",
            "--driver-limit",
            "9",
            "--tdr",
            "TdrDelay=60",
            "--",
            "sh",
            "-c",
            shown,
        ],
    );
    let manifest = fs::canonicalize(scratch.0.join("icd.json")).unwrap();
    let manifest = manifest.display();
    assert_eq!(text(&output.stdout), format!("{manifest} {manifest} linked doorbells=4 1 9 TdrDelay=60\n"));
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let output = with_driver(&scratch, &["--machine", "/there", "sh", "-c", "echo $CAMPANILE_MACHINE --json"]);
    assert_eq!((text(&output.stdout), output.status.code()), ("/there --json\n".to_owned(), Some(0)));
}

#[test]
fn a_vulkan_program_that_is_not_there_is_named_and_so_is_a_manifest() {
    let scratch = Scratch::new("vulkan-refused");
    let told = |arguments: &[&str]| {
        let output = with_driver(&scratch, arguments);
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = told(&["--", "no-such-program-here"]);
    assert!(code == Some(2) && said.contains("no-such-program-here does not start"), "{said}");
    for wrong in [
        &[][..],
        &["--device-variant", "wings=2", "true"],
        &["--trace", "t", "--machine", "m", "true"],
        &["--driver", "pe", "--machine", "m", "true"],
    ] {
        let (code, said) = told(wrong);
        assert!(code == Some(2) && !said.is_empty(), "{wrong:?}: {said}");
    }
    let output = campanile(&["vulkan", "--manifest", "/no/such/icd.json", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("/no/such/icd.json") && said.contains("cargo xtask vulkan"), "{said}");
    let help = campanile(&["vulkan", "--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("VK_DRIVER_FILES"));
}

#[test]
fn the_trace_of_a_vulkan_program_is_of_a_machine_of_its_own() {
    let scratch = Scratch::new("vulkan-trace");
    let trace = scratch.0.join("out.pftrace").display().to_string();
    let output = with_driver(&scratch, &["--trace", &trace, "sh", "-c", "test -S $CAMPANILE_MACHINE && kill -KILL $$"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{}", text(&output.stderr));
    let page = scratch.0.join("page.html").display().to_string();
    let drawn = campanile(&["timeline", &trace, "--out", &page]);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let nowhere = scratch.0.join("no/such/folder").display().to_string();
    assert_eq!(with_driver(&scratch, &["--trace", &nowhere, "true"]).status.code(), Some(2));
}
