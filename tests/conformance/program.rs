//! The list of the cases that `hlk.exe` does not run, printed from the registry.

use campanile_conformance::registry::cases;
use campanile_conformance::{CaseInfo, Run};

use crate::root;

fn table() -> String {
    let mut text = "//! The cases that look behind the thunks, as `campanile hlk` has them. `cargo xtask docs` writes this file.\n\n\
                    use crate::inside::Inside;\n\n/// All of them.\n#[rustfmt::skip]\npub const INSIDE: &[Inside] = &[\n"
        .to_owned();
    for case in cases().filter(|case| matches!(case.run, Run::Inside(_))) {
        let &CaseInfo { name, area, page, requirement, behind, boot, .. } = case;
        let brings_machine = !boot.takes_any_machine();
        text += &format!(
            "    Inside {{ name: {name:?}, area: {area:?}, page: {page:?}, brings_machine: {brings_machine}, reason: {behind:?}, \
             requirement: {requirement:?} }},\n"
        );
    }
    text + "];\n"
}

/// `cargo xtask docs` has it write the list.
#[test]
fn the_document_says_what_the_table_says() {
    let (path, fresh) = (root().join("hlk/src/inside_table.rs"), table());
    if std::env::var_os("CAMPANILE_WRITE_DOCS").is_some() {
        return std::fs::write(&path, fresh).expect("the list can be written");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == fresh, "hlk/src/inside_table.rs is stale: run `cargo xtask docs`");
}
