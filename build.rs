//! Build script of the two Windows images, `campanile_kmd.sys` and `campanile_umd.dll`: how they are linked, and with the feature
//! `wdk`, whether the installed Windows Driver Kit agrees with `wddm-ddi`.
//!
//! Elsewhere the crates are ordinary libraries and there is nothing to do.

use std::env;

mod linking;

use linking::{EVERY_IMAGE, Kind};

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    // Set for kits whose headers are known to differ from those that wddm-ddi is written for.
    println!("cargo::rustc-check-cfg=cfg(wdk_28000)");
    let windows = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "windows");
    let msvc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "msvc");
    if !(windows && msvc) {
        if cfg!(feature = "wdk") {
            println!("cargo::warning=the feature wdk does nothing for targets other than x86_64-pc-windows-msvc");
        }
        return;
    }
    if env::var("CARGO_PKG_NAME").is_ok_and(|name| name == "campanile_umd")
        && env::var_os("CARGO_FEATURE_DLL").is_none()
    {
        // A part of another image.
        return;
    }
    let (name, file, kind, arguments) = match env::var("CARGO_PKG_NAME").as_deref() {
        Ok("campanile_kmd") => ("campanile_kmd", "campanile_kmd.sys", Kind::DisplayDriver, DRIVER),
        Ok("campanile_umd") => ("campanile_umd", "campanile_umd.dll", Kind::Dll, DLL),
        other => panic!("build.rs serves campanile_kmd and campanile_umd, not {other:?}"),
    };
    for argument in arguments.iter().chain(EVERY_IMAGE).chain(&["/NODEFAULTLIB"]) {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    let version = linking::version(file, kind).map(|path| println!("cargo::rustc-cdylib-link-arg={path}"));
    if let Err(reason) = version.and_then(|()| kit::configure(name)) {
        for line in reason.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

/// A native-subsystem image whose INIT section goes away after DriverEntry.
const DRIVER: &[&str] = &[
    "/DRIVER",
    "/SUBSYSTEM:NATIVE,10.00",
    "/OSVERSION:10.0",
    "/ENTRY:DriverEntry",
    "/SECTION:INIT,ERD",
    "/PDBALTPATH:campanile_kmd.pdb",
];

/// A DLL without start-up code: nothing in it needs initialisation.
const DLL: &[&str] = &["/SUBSYSTEM:WINDOWS,10.00", "/NOENTRY", "/PDBALTPATH:campanile_umd.pdb"];

/// Without a kit: the linker is the toolchain's own, whose warnings are known.
#[cfg(not(feature = "wdk"))]
mod kit {
    pub(crate) fn configure(_: &str) -> Result<(), String> {
        println!("cargo::rustc-cdylib-link-arg=/WX");
        Ok(())
    }
}

/// With the feature, but on a host that windows-drivers-rs does not support.
#[cfg(all(feature = "wdk", not(windows)))]
mod kit {
    pub(crate) fn configure(name: &str) -> Result<(), String> {
        Err(format!(
            "the feature wdk of {name} needs a Windows host with the Windows Driver Kit; `cargo xtask pe` builds without it"
        ))
    }
}

/// With an installed kit, which `wdk-build` finds: its headers are compared, its libraries linked.
#[cfg(all(feature = "wdk", windows))]
mod kit {
    use wddm_ddi_kit::{Headers, script};
    use wdk_build::{Config, detect_wdk_build_number};

    /// Environment variables that decide where the kit and libclang are found. Cargo runs this script again when one of them changes.
    const VARIABLES: [&str; 5] =
        ["WDKContentRoot", "MicrosoftKitRoot", "WDKKitVersion", "Version_Number", "LIBCLANG_PATH"];

    pub(crate) fn configure(name: &str) -> Result<(), String> {
        for variable in VARIABLES {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        let wanted = |error: &dyn std::fmt::Display| {
            format!("no usable Windows Driver Kit: {error}; docs/windows-build.md says what to install")
        };
        // Where there is no kit, this fails with a message and the next call panics.
        let build = detect_wdk_build_number().map_err(|error| wanted(&error))?;
        let config = Config::from_env_auto().map_err(|error| wanted(&error))?;
        let headers = Headers {
            folders: config.include_paths().map_err(|error| wanted(&error))?.collect(),
            definitions: config.preprocessor_definitions().collect(),
            arguments: Config::wdk_bindgen_compiler_flags().collect(),
        };
        let lines =
            script(&headers).map_err(|reason| format!("{reason}\n(compared with the headers of kit {build})"))?;
        for line in lines {
            println!("{line}");
        }
        if name == "campanile_kmd" {
            config.configure_binary_build().map_err(|error| error.to_string())?;
            // DxgkInitialize, which wdk-build does not know of. Not bundled, so that the crate is still a library of its own.
            println!("cargo::rustc-link-lib=static:-bundle=displib");
        }
        Ok(())
    }
}
