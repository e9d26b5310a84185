//! The command `campanile debug`: prints what the kernel-mode driver told for a report of a timeout.

use std::path::Path;

use testbed::debug::DebugInformation;
use testbed::exit::{EXIT_INPUT, EXIT_OK};
use testbed::image_file;

use crate::print::print;

/// Most bytes of such a file; a driver is given a buffer of some kilobytes.
const BYTES_MAX: usize = 64 << 20;

/// Reads a file, prints what it says, in words or as data, and returns the exit code.
pub fn decode_file(path: &Path, json: bool) -> u8 {
    let decoded = image_file::read(path, BYTES_MAX)
        .map_err(|error| error.to_string())
        .and_then(|bytes| DebugInformation::decode(&bytes).map_err(|error| error.to_string()))
        .and_then(|information| match json {
            true => serde_json::to_string_pretty(&information).map_err(|error| error.to_string()),
            false => Ok(information.to_string()),
        });
    match decoded {
        Ok(text) => {
            print(text.trim_end());
            EXIT_OK
        }
        Err(error) => {
            testbed::complain!("campanile: {}: {error}", path.display());
            EXIT_INPUT
        }
    }
}
