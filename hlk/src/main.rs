//! `hlk.exe`: the conformance cases on the installed driver.

use std::process::ExitCode;

#[cfg(all(windows, feature = "start"))]
mod start;

fn main() -> ExitCode {
    ExitCode::from(campanile_hlk::command::main())
}
