//! The table of layout facts and the file that measures the declarations.

use std::fs;
use std::path::Path;

use ddi_layout::{Facts, Source, arguments, declared, generate, windows_sys};

use crate::publish::publish;

/// Writes the table of facts from the full one at `from`, and the generated file after it.
pub(crate) fn reduce(root: &Path, from: &Path) -> Result<(), String> {
    let text = fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let full = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", from.display()))?;
    let source = Source::read(&root.join("ddi/src"))?;
    let facts = Facts::reduce(&full, &source)?;
    publish(&root.join("ddi/tests/ddi-layout.json"), &facts.to_text(), false)?;
    generate(root, false)
}

/// Writes the generated file from the sources and the committed table.
pub(crate) fn generate(root: &Path, check: bool) -> Result<(), String> {
    let table = root.join("ddi/tests/ddi-layout.json");
    let text = fs::read_to_string(&table).map_err(|error| format!("{}: {error}", table.display()))?;
    let facts = Facts::from_text(&text)?;
    let source = Source::read(&root.join("ddi/src"))?;
    publish(&root.join("ddi/tests/layout/generated.rs"), &generate::generate(&source, &facts), check)?;
    let theirs = windows_sys::generate(&windows_sys::folder(root)?, &facts)?;
    publish(&root.join("ddi/tests/windows_sys/generated.rs"), &theirs, check)?;
    let members = arguments::generate(&source, PARAMETERS)?;
    publish(&root.join("conformance/src/inside/bad_pointers/structures.rs"), &members, check)?;
    publish(&root.join("remote/src/declared/types.rs"), &declared::generate(&source, PARAMETERS)?, check)
}

macro_rules! parameters {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => {
        /// Types of the parameters of all thunks.
        const PARAMETERS: &[&str] = &[$($($($(stringify!($ty)),+),*),*),*];
    };
}

wddm_ddi::for_each_thunk!(parameters);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_files_are_what_the_declarations_say() {
        generate(&crate::root(), true).expect("run `cargo xtask ddi-layout`");
    }
}
