//! Links one fuzz target with libFuzzer. `cargo xtask fuzz` builds and runs it; CAMPANILE_FUZZ_TARGET names the target.

#![no_main]

use std::sync::LazyLock;

use campanile_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("CAMPANILE_FUZZ_TARGET").unwrap_or_default();
    campanile_fuzz::target(&name).unwrap_or_else(|| {
        eprintln!("CAMPANILE_FUZZ_TARGET names no target: {name:?}");
        std::process::exit(2)
    })
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
