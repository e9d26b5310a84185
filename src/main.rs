//! The command `campanile`.

use std::process::ExitCode;

fn main() -> ExitCode {
    campanile::cli::main()
}
