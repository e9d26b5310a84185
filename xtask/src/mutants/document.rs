//! The tables of `docs/mutation.md`, printed from the catalogue.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::catalogue::{self, Mutant};
use crate::publish::publish;

const OPEN: &str = "<!-- generated -->\n";
const CLOSE: &str = "<!-- end -->";

/// Brings the tables up to date, or with `check` fails when they are not.
pub(crate) fn document(root: &Path, check: bool) -> Result<(), String> {
    let path = root.join("docs/mutation.md");
    let old = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let marks = old.find(OPEN).zip(old.find(CLOSE)).filter(|(open, close)| open < close);
    let (open, close) = marks.ok_or("docs/mutation.md has no place for its tables")?;
    let tables = tables(&catalogue::read(root)?);
    publish(&path, &format!("{}{tables}{}", &old[..open + OPEN.len()], &old[close..]), check)
}

fn tables(mutants: &[Mutant]) -> String {
    let mut out = String::new();
    let (alive, killed): (Vec<&Mutant>, Vec<&Mutant>) = mutants.iter().partition(|mutant| mutant.survives.is_some());
    let _ = writeln!(out, "{} mutants: {} killed, {} alive.\n", mutants.len(), killed.len(), alive.len());
    let _ = writeln!(out, "## Alive\n\n| mutant | sentence | why no case notices |\n| --- | --- | --- |");
    for mutant in alive {
        let reason = mutant.survives.as_deref().unwrap_or_default();
        let _ = writeln!(out, "| `{}` | {} | {} |", mutant.id, cell(&mutant.breaks), cell(reason));
    }
    let mut pages: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in killed {
        pages.entry(&mutant.page).or_default().push(mutant);
    }
    let _ = writeln!(out, "\n## Killed");
    for (page, mutants) in pages {
        let _ = writeln!(out, "\n### {page}\n\n| mutant | sentence | noticed by |\n| --- | --- | --- |");
        for mutant in mutants {
            let cases: Vec<String> = mutant.cases.iter().map(|case| format!("`{case}`")).collect();
            let options =
                if mutant.options.is_empty() { String::new() } else { format!(" with `{}`", mutant.options.join(" ")) };
            let _ = writeln!(out, "| `{}` | {} | {}{options} |", mutant.id, cell(&mutant.breaks), cases.join(", "));
        }
    }
    out
}

/// Text of a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_says_what_the_catalogue_says() {
        super::document(&crate::root(), true).unwrap();
    }
}
