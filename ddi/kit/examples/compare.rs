//! Compares `wddm-ddi` with the headers of a kit, on any machine: `compare FOLDER…`, the folders being those of a kit's
//! `Include/VERSION` that a driver's compiler searches, `km/crt`, `km` and `shared`.

use std::path::PathBuf;
use std::process::ExitCode;

use wddm_ddi_kit::{Declared, Headers, INCLUDES, compare};

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let definitions = ["_WIN64", "_AMD64_", "AMD64", "_KERNEL_MODE"].map(|name| (name.to_owned(), None)).to_vec();
    let arguments = vec!["--warn-=no-everything".to_owned()];
    let declared = Declared::measure()?;
    let headers = Headers { folders, definitions, arguments };
    let read = headers.read(INCLUDES, &declared).map_err(|error| error.to_string())?;
    let agreement = compare(&read.bindings, &declared).map_err(|failure| failure.to_string())?;
    Ok(format!("kit {}: {} agree; {} headers read", agreement.kit.name, agreement.counts, read.files.len()))
}
