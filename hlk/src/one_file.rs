//! Command line of the programs of tests that do one thing with one file.

use std::ffi::OsStr;
use std::process::ExitCode;

/// Does `act` with the file that the command line names. A reason why that failed is printed. Exit codes: 0 done, 1 failed, 2 no file is named.
pub(crate) fn main(program: &str, act: impl FnOnce(&OsStr) -> Result<(), String>) -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("{program}: which file?");
        return ExitCode::from(2);
    };
    match act(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("{reason}");
            ExitCode::FAILURE
        }
    }
}
