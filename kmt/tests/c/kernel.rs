//! The DDIs as C declares them, for drivers.

use std::fmt::Write as _;

use ddi_layout::source::Declared;
use ddi_layout::{Facts, Source, header};
use wddm_ddi::km::{GROWN_MEMBERS, INTERFACE_VERSIONS};
use wddm_ddi::status;
use wddm_ddi::types::{
    PCI_USE_CLASS_SUBCLASS, PCI_USE_LOCAL_BUS, PCI_USE_LOCAL_DEVICE, PCI_USE_PROGIF, PCI_USE_REVISION,
    PCI_USE_SUBSYSTEM_IDS, PCI_USE_VENDEV_IDS,
};

const ABOUT: &str = "\
/*
 * The DDIs of WDDM 2.0 to 3.2: what a miniport in C is compiled against where there is no WDK.
 *
 * Names, layouts and values are those of Microsoft's dispmprt.h and d3dkmddi.h (kit 10.0.26100) for x64. Entry points and callbacks that a render or
 * compute driver has no use for are plain pointers.
 *
 * DXGKDDI_INTERFACE_VERSION is the version that a driver is compiled for, as with the kit: the tables of functions and the answers of the driver have the members of
 * that version. Without it, it is that of WDDM 3.2.
 *
 * Generated from the Rust sources; do not edit.
 */
#ifndef CAMPANILE_DDI_H
#define CAMPANILE_DDI_H

#include \"ntddk.h\"

#ifdef __cplusplus
extern \"C\" {
#endif

typedef UINT D3DKMT_HANDLE;
typedef UINT64 D3DGPU_VIRTUAL_ADDRESS;
typedef UINT64 D3DGPU_SIZE_T;
typedef SIZE_T D3DKMT_SIZE_T;
typedef UINT D3DDDI_VIDEO_PRESENT_SOURCE_ID;
typedef USHORT DXGK_FEATURE_VERSION;
typedef SIZE_T DXGK_PAGE_NUMBER;

#define DISPLAY_ADAPTER_HW_ID 0xFFFFFFFF

";

const END: &str = "\
/* In displib.lib of the WDK; examples/miniport-c/displib.c has one without. */
NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath,
                        DRIVER_INITIALIZATION_DATA *DriverInitializationData);

#ifdef __cplusplus
}
#endif

#endif /* CAMPANILE_DDI_H */
";

const VERSION: &str = "
/* Versions that sources compare with, and that no driver can be built for here. */
#define DXGKDDI_INTERFACE_VERSION_VISTA 0x1052
#define DXGKDDI_INTERFACE_VERSION_VISTA_SP1 0x1053
#define DXGKDDI_INTERFACE_VERSION_WIN7 0x2005
#define DXGKDDI_INTERFACE_VERSION_WIN8 0x300e
#define DXGKDDI_INTERFACE_VERSION_WDDM1_3 0x4002
#define DXGKDDI_INTERFACE_VERSION_WDDM1_3_PATH_INDEPENDENT_ROTATION 0x4003

#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM3_2
#endif

";

macro_rules! named {
    ($($name:ident),*) => { [$((stringify!($name), $name)),*] };
}

/// Values of wdm.h for a callback of the graphics kernel, which the table of the kit's headers lacks. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
const OF_PRESENCE: [(&str, u32); 7] = named![
    PCI_USE_SUBSYSTEM_IDS,
    PCI_USE_REVISION,
    PCI_USE_VENDEV_IDS,
    PCI_USE_CLASS_SUBCLASS,
    PCI_USE_PROGIF,
    PCI_USE_LOCAL_BUS,
    PCI_USE_LOCAL_DEVICE
];

fn wanted(declared: &Declared) -> bool {
    declared.file.starts_with("km/")
}

/// The declarations alone.
pub(crate) fn declarations(source: &Source, facts: &Facts) -> String {
    let mut facts = facts.clone();
    facts.since.extend(GROWN_MEMBERS.iter().map(|member| {
        let version = INTERFACE_VERSIONS.iter().find(|version| version.version == member.since).expect("a version");
        let model = version.name.replace(' ', "").replace('.', "_");
        (format!("{}.{}", member.owner, member.name), model)
    }));
    header::declarations(source, &facts, &wanted).expect("C has every type")
}

/// The definition of a GUID from its usual spelling.
fn guid(name: &str, text: &str) -> String {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let part = |from: usize, to: usize| format!("0x{}", &digits[from..to]);
    let bytes: Vec<String> = (16..32).step_by(2).map(|at| part(at, at + 2)).collect();
    format!("DEFINE_GUID({name}, {}, {}, {}, {});", part(0, 8), part(8, 12), part(12, 16), bytes.join(", "))
}

pub(crate) fn header(source: &Source, facts: &Facts) -> String {
    let mut text = String::from(ABOUT);
    for (code, name) in status::NAMES {
        let _ = writeln!(text, "#ifndef {name}\n#define {name} ((NTSTATUS)0x{:08x})\n#endif", code.0);
    }
    text.push('\n');
    for (name, value) in &facts.constants {
        let _ = writeln!(text, "#define {name} 0x{value:x}");
    }
    text.push_str("\n/* Flags of PCI_DEVICE_PRESENCE_PARAMETERS. */\n");
    for (name, value) in OF_PRESENCE {
        let _ = writeln!(text, "#define {name} 0x{value:x}");
    }
    text.push_str(VERSION);
    for (name, value) in &facts.guids {
        let _ = writeln!(text, "{}", guid(name, value));
    }
    text.push('\n');
    text.push_str(&declarations(source, facts));
    text.push_str(END);
    text
}
