//! What the documents say of the package, checked against it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use campanile_inf::package::names;

/// Documents that lead somebody to the package that `cargo xtask package` makes.
const DOCUMENTS: [&str; 3] = ["README.md", "docs/windows.md", "docs/windows-build.md"];
/// Extensions of the files of a package.
const ENDS: [&str; 8] = [".cer", ".inf", ".cat", ".sys", ".dll", ".pdb", ".ps1", ".exe"];
/// Files of that kind that are not of the package: Windows' own, one of LLVM, one that stands for any driver, and the certificate of a package that is made with
/// a kit.
const OTHERS: [&str; 7] =
    ["WDRLocalTestCert.cer", "gdi32.dll", "hal.dll", "libclang.dll", "ntdll.dll", "ntoskrnl.exe", "other.sys"];

/// Names of such files in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
    let words = words.map(|word| word.trim_matches('.'));
    words.filter(|word| ENDS.iter().any(|end| word.ends_with(end))).map(str::to_owned).collect()
}

#[test]
fn the_documents_name_the_files_that_the_package_holds() {
    let mut seen = BTreeSet::new();
    for document in DOCUMENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
        let text = fs::read_to_string(path).expect("the document is there");
        for name in named(&text).into_iter().filter(|name| !OTHERS.contains(&name.as_str())) {
            assert!(names().contains(&name), "{document} names {name}, which is not in the package: {:?}", names());
            seen.insert(name);
        }
    }
    for name in ["campanile_test.cer", "campanile.inf", "install.ps1", "verify.ps1"] {
        assert!(seen.contains(name), "no document leads to {name}");
    }
}

#[test]
fn names_are_found_in_sentences_and_commands() {
    let text = "`certutil -addstore Root campanile.cer`, or .\\verify.ps1. See docs/windows.md and lib.so.";
    assert_eq!(named(text), ["campanile.cer", "verify.ps1"].map(str::to_owned).into());
}
