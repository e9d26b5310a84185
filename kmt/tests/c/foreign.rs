//! The driver in C of `examples/miniport-c`, built by both compilers of Windows images and used by its test, with its function in another process.

use std::{env, fs};

use crate::compiler::{absent, root};
use crate::programs::{clean, program, text};
use crate::toy::{Function, build};

#[test]
fn a_driver_in_c_of_either_compiler_computes_on_its_own_function_and_survives_a_hang() {
    let mut program = program("examples/miniport-c/toy_test.c");
    let Some(program) = program.take() else { return };
    for compiler in ["clang", "mingw"] {
        let folder = env::temp_dir().join(format!("campanile-toy-{}-{compiler}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let example = root().join("examples/miniport-c");
        let made = build(&example, &folder, compiler, "WDDM3_2")
            .and_then(|driver| Ok((driver, Function::start(&example, &folder)?)));
        let (driver, function) = match made {
            Ok(made) => made,
            Err(told) => {
                absent(&told);
                continue;
            }
        };
        let output = clean(&program)
            .env("CAMPANILE_DRIVER", &driver)
            .env("CAMPANILE_BUS", function.bus())
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

/// What a driver says and what the system remarks about it is shown to who asks, and who does not is told once how to ask.
#[test]
fn an_error_with_a_driver_of_somebody_else_says_once_how_the_log_is_shown_and_the_log_names_the_reason() {
    let Some(program) = program("examples/miniport-c/toy_test.c") else { return };
    let folder = env::temp_dir().join(format!("campanile-toy-{}-log", std::process::id()));
    let example = folder.join("examples/miniport-c");
    fs::create_dir_all(&example).expect("a folder");
    for entry in fs::read_dir(root().join("examples/miniport-c")).expect("the example") {
        let from = entry.expect("a file").path();
        let text = fs::read_to_string(&from).expect("a source");
        let text = text.replace("wanted.local ? 1 << (SEGMENT_LOCAL - 1)", "wanted.local ? 1 << 5");
        fs::write(example.join(from.file_name().expect("a name")), text).expect("a copy");
    }
    fs::create_dir_all(folder.join("kmt")).expect("a folder");
    std::os::unix::fs::symlink(root().join("kmt/include"), folder.join("kmt/include")).expect("a link");
    let made = build(&example, &folder, "clang", "WDDM3_2").map(|driver| {
        let told = [None, Some("1")].map(|log| {
            let function = Function::start(&example, &folder).expect("python3");
            let mut command = clean(&program);
            command.env("CAMPANILE_DRIVER", &driver).env("CAMPANILE_BUS", function.bus()).env_remove("CAMPANILE_LOG");
            log.into_iter().for_each(|log| _ = command.env("CAMPANILE_LOG", log));
            let output = command.output().expect("a start");
            drop(function);
            fs::remove_file(folder.join("toy.sock")).expect("the socket of a server that was ended");
            assert!(!output.status.success(), "the driver names a segment that does not exist");
            text(&output.stderr)
        });
        let [quiet, loud] = &told;
        let advice: Vec<&str> = quiet.lines().filter(|line| line.contains("CAMPANILE_LOG=1")).collect();
        assert_eq!(advice.len(), 1, "{quiet}");
        let answered = "campanile_kmt: D3DKMTCreateAllocation2 answered STATUS_INVALID_PARAMETER (0xc000000d)";
        assert!(advice[0].starts_with(answered) && !quiet.contains("toy: started"), "{quiet}");
        let reason = "DxgkDdiCreateAllocation broke a rule in pAllocationInfo[0]: SupportedWriteSegmentSet";
        assert!(loud.contains("toy: started") && loud.contains(reason), "{loud}");
        assert!(!loud.contains("CAMPANILE_LOG"), "{loud}");
    });
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    made.unwrap_or_else(|told| absent(&told));
}
