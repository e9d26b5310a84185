//! Headers that others have written for these thunks, with the base types of `campanile_windows.h` and with those that programs for WSL have.

use std::env;
use std::path::{Path, PathBuf};

use crate::compiler::{Language, Unit, absent, examine, root};
use crate::header::{facts, source};
use crate::thunks;

/// The headers that declare the base types of Windows, such as UINT and HANDLE.
#[derive(Clone, Copy, Debug)]
enum Base {
    /// `campanile_windows.h` alone.
    Ours,
    /// `wsl/winadapter.h`, and `campanile_windows.h` for what it lacks.
    Wsl,
}

impl Base {
    const ALL: [Self; 2] = [Self::Ours, Self::Wsl];

    fn includes(self) -> &'static str {
        match self {
            Self::Ours => "#include <campanile_windows.h>\n",
            Self::Wsl => "#include <wsl/winadapter.h>\n#include <campanile_windows.h>\n",
        }
    }
}

/// A folder of a Debian package that `cargo xtask test` unpacks.
fn unpacked(folder: &str) -> Option<PathBuf> {
    let path = root().join("target/headers").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    absent(&format!("target/headers/{folder} is not there: `cargo xtask test` fetches it"));
    None
}

fn stand_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/kit")
}

/// Compiles `text` behind the base types, in both languages and with both origins of the base types; `theirs` is the folder of the header that it
/// includes. Fails at an error and at a warning; with `own_warnings` only at those that name a file of ours.
fn compiles_everywhere(name: &str, theirs: Option<&Path>, text: &str, own_warnings: bool) {
    for base in Base::ALL {
        let mut folders = Vec::new();
        if matches!(base, Base::Wsl) {
            let Some(wsl) = unpacked("directx-headers-dev/usr/include") else { continue };
            folders.extend([wsl.clone(), wsl.join("wsl/stubs")]);
        }
        folders.extend(theirs.map(Path::to_path_buf));
        for language in [&Language::C11, &Language::CPP17] {
            // WCHAR of winadapter.h is wchar_t.
            let unit = Unit { folders: &folders, arguments: &["-fshort-wchar"], strict: !own_warnings };
            let text = format!("{}{text}", base.includes());
            let Some(told) = examine(name, language, &text, &unit) else { continue };
            let told = told.unwrap_or_else(|told| panic!("{name}, {base:?}, {language:?}: {}", start(&told)));
            let ours = told.lines().any(|line| line.contains("kmt/include/") && !line.starts_with("In file included"));
            assert!(!ours, "{name}, {base:?}, {language:?}: {}", start(&told));
        }
    }
}

fn start(told: &str) -> &str {
    told.get(..4000).unwrap_or(told)
}

/// Every word of the list, by kind.
fn words() -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = include_str!("kit/words.txt").lines().filter_map(|line| line.strip_prefix("# ")?.split_once(": "));
    lines.map(|(kind, words)| (kind, words.split_whitespace().collect())).collect()
}

#[test]
fn the_stand_in_uses_every_word_that_the_kit_s_header_does_not_define() {
    let header = std::fs::read_to_string(stand_in().join("d3dkmthk.h")).expect("readable");
    let comment = header.find("*/").expect("a comment");
    let used: Vec<&str> = header[comment..].split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').collect();
    let words = words();
    let kinds = ["headers", "types", "macros", "SAL"];
    for kind in kinds {
        let (_, words) = words.iter().find(|(name, _)| *name == kind).unwrap_or_else(|| panic!("no {kind}"));
        let stems = words.iter().map(|word| word.split(['(', '.']).next().unwrap_or(word));
        let missing: Vec<_> = stems.filter(|stem| !used.contains(stem)).collect();
        assert!(missing.is_empty(), "{kind}: {missing:?}");
    }
    assert!(words.iter().map(|(_, words)| words.len()).sum::<usize>() > 90);
}

/// The sizes that the base types have on Windows, and values of macros that go into structures.
const STAND_IN_PROGRAM: &str = "
#include <d3dkmthk.h>
#include <campanile_kmt.h>
C_ASSERT(MAX_PATH == 260 && sizeof(LARGE_INTEGER) == 8 && sizeof(ULARGE_INTEGER) == 8 && sizeof(PHYSICAL_ADDRESS) == 8);
C_ASSERT(sizeof(LUID) == 8 && sizeof(GUID) == 16 && sizeof(RECT) == 16 && sizeof(RECTL) == 16 && sizeof(POINT) == 8 && sizeof(PALETTEENTRY) == 4);
C_ASSERT(sizeof(OBJECT_ATTRIBUTES) == 48 && sizeof(DEVICE_POWER_STATE) == 4 && PowerDeviceD3 == 4);
C_ASSERT(sizeof(BOOL) == 4 && sizeof(BOOLEAN) == 1 && sizeof(CHAR) == 1 && sizeof(FLOAT) == 4 && sizeof(SIZE_T) == 8);
C_ASSERT(STAND_IN_PRIVATE == 0x23040b && STAND_IN_READ == 0x22440c && STAND_IN_ACCESS == 0x1f0003);
C_ASSERT(STAND_IN_UNKNOWN == 0xffffffffffffffffull && STAND_IN_NONE == 0xffffffffu);
C_ASSERT(PASSIVE_LEVEL == 0 && APC_LEVEL == 1 && DISPATCH_LEVEL == 2);
static STAND_IN_FIELDS fields;
int main(void)
{
    UINT sum = 0;
    fields.Status = (NTSTATUS)0xc00000bb;
    return NT_SUCCESS(fields.Status) || sum != 0;
}
";

#[test]
fn a_header_with_every_word_of_the_kit_s_compiles_without_a_warning() {
    compiles_everywhere("stand-in", Some(&stand_in()), STAND_IN_PROGRAM, false);
}

#[test]
fn guids_have_their_values_where_the_program_asks_for_them() {
    let text = format!("#define INITGUID\n{STAND_IN_PROGRAM}");
    let unit = Unit { folders: &[stand_in()], arguments: &[], strict: true };
    for language in [&Language::C11, &Language::CPP17] {
        let text = text.replace("#include <d3dkmthk.h>", "#include <campanile_windows.h>\n#include <d3dkmthk.h>");
        let text = text.replace("sum != 0", "sum != 0 || STAND_IN_GUID.Data1 != 0x99c5ceff");
        if let Some(told) = examine("guids", language, &text, &unit) {
            told.unwrap_or_else(|told| panic!("{language:?}: {}", start(&told)));
        }
    }
}

#[test]
fn the_types_of_the_thunks_have_their_layout_with_either_base() {
    compiles_everywhere(
        "thunks",
        None,
        &thunks::layout_program(&source(), &facts()).replace("_Static_assert(", "CAMPANILE_ASSERT("),
        false,
    );
}

#[test]
fn a_word_that_no_base_type_declares_is_seen() {
    let unit = Unit { folders: &[stand_in()], arguments: &[], strict: true };
    let text = "#define CAMPANILE_NO_BASE_TYPES\n#include <campanile_windows.h>\n#include <d3dkmthk.h>\nint main(void) { return 0; }\n";
    assert!(examine("no-base-types", &Language::C11, text, &unit).is_none_or(|told| told.is_err()));
}

#[test]
fn the_header_of_wine_compiles_without_a_warning() {
    let Some(wine) = unpacked("libwine-dev/usr/include/wine/wine/windows") else { return };
    let text = "#include <ddk/d3dkmthk.h>\nint main(void) { D3DKMT_CLOSEADAPTER close = { 1 }; return close.hAdapter != 1; }\n";
    compiles_everywhere("wine", Some(&wine), text, false);
}

/// A program over the kit's header that uses a thunk of every file of it.
const KIT_PROGRAM: &str = "
#include <d3dkmthk.h>
#include <campanile_kmt.h>
C_ASSERT(sizeof(D3DKMT_CREATEALLOCATION) == 72 && sizeof(D3DKMT_QUERYADAPTERINFO) == 24 && sizeof(D3DKMT_OPENADAPTERFROMLUID) == 12);
C_ASSERT(sizeof(D3DKMT_ADAPTERREGISTRYINFO) == 2080);
int main(void) { D3DKMT_CLOSEADAPTER close = { 1 }; return close.hAdapter != 1; }
";

/// Names the folder of the kit's shared headers, where it is installed.
const KIT_VARIABLE: &str = "CAMPANILE_SDK_INCLUDE";

#[test]
fn the_header_of_the_kit_compiles_without_a_warning_of_ours_where_it_is_installed() {
    let Some(kit) = env::var_os(KIT_VARIABLE).filter(|kit| !kit.is_empty()) else {
        // Nobody may pass that header on, so no machine is failed for the lack of it.
        eprintln!("{KIT_VARIABLE} is not set: the kit's own d3dkmthk.h was not compiled");
        return;
    };
    let kit = PathBuf::from(kit);
    assert!(kit.join("d3dkmthk.h").is_file(), "{KIT_VARIABLE}: {} has no d3dkmthk.h", kit.display());
    compiles_everywhere("kit", Some(&kit), KIT_PROGRAM, true);
    let examples = std::fs::read_dir(root().join("examples/c")).expect("the examples are there").flatten();
    for path in examples.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "c")) {
        let text = std::fs::read_to_string(&path).expect("readable");
        let text = format!("#define _GNU_SOURCE\n#include <campanile_windows.h>\n#include <d3dkmthk.h>\n{text}");
        let unit = Unit { folders: std::slice::from_ref(&kit), arguments: &[], strict: false };
        if let Some(told) = examine("example", &Language::C11, &text, &unit) {
            told.unwrap_or_else(|told| panic!("{}: {}", path.display(), start(&told)));
        }
    }
}
