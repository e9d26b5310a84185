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
