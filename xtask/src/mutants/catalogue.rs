//! The catalogue `tests/mutants/*.toml`, and the rules by which it stays true while the sources change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One change of the sources that breaks a sentence of a page.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    /// Name: the crate, and words for the change.
    pub(super) id: String,
    /// File that is changed, from the root of the repository.
    pub(super) file: String,
    /// Text that is replaced; it is in the file once.
    pub(super) find: String,
    /// Text that replaces it.
    pub(super) replace: String,
    /// Page whose sentence no longer holds, by the name that cases cite.
    pub(super) page: String,
    /// The sentence, in our words. Of a page with a table in `tests/claims/` it is one of the table.
    pub(super) breaks: String,
    /// Cases that notice: texts for `campanile hlk --filter`.
    #[serde(default)]
    pub(super) cases: Vec<String>,
    /// Further options of `campanile hlk`.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// How often the cases run; more than once where it takes luck.
    #[serde(default = "once")]
    pub(super) repeat: u32,
    /// Only the text itself is compiled twice, which is then an expression; otherwise its whole function.
    #[serde(default)]
    pub(super) expression: bool,
    /// The reason why no case notices.
    pub(super) survives: Option<String>,
}

fn once() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutant: Vec<Mutant>,
}

/// Crates that may be changed: what the cases judge, not the judge.
const CRATES: [&str; 4] = ["driver", "umd", "device", "hw"];

impl Mutant {
    /// Range of the mutant's text in the text of its file.
    ///
    /// # Errors
    /// It is not there exactly once.
    pub(super) fn place(&self, text: &str) -> Result<Range<usize>, String> {
        let Self { id, file, find, .. } = self;
        let mut found = text.match_indices(find.as_str());
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at..at + find.len()),
            (None, _) => Err(format!("{id}: its text is not in {file}:\n{find}")),
            (Some(_), Some(_)) => Err(format!("{id}: its text is in {file} more than once:\n{find}")),
        }
    }

    /// True if it lives and nobody knows why.
    pub(super) fn is_open(&self) -> bool {
        self.survives.as_ref().is_some_and(|reason| reason.starts_with("Open"))
    }

    /// True if its id, file or page contains `wanted`, which is in lower case.
    pub(super) fn matches(&self, wanted: &str) -> bool {
        [&self.id, &self.file, &self.page].iter().any(|text| text.to_lowercase().contains(wanted))
    }
}

/// Reads the whole catalogue.
///
/// # Errors
/// A file that is no catalogue.
pub(super) fn read(root: &Path) -> Result<Vec<Mutant>, String> {
    let folder = root.join("tests/mutants");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file: File = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        mutants.extend(file.mutant);
    }
    Ok(mutants)
}

/// Everything that is wrong with `mutants`.
pub(super) fn mistakes(root: &Path, mutants: &[Mutant]) -> Vec<String> {
    let names = names_of_cases(root);
    let mut pages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    let mut mistakes = Vec::new();
    for mutant in mutants {
        let id = &mutant.id;
        let mut wrong = |what: String| mistakes.push(format!("{id}: {what}"));
        if !ids.insert(id) {
            wrong("the id is there twice".into());
        }
        let name = mutant.file.split('/').next().unwrap_or_default();
        if !CRATES.contains(&name) || !mutant.file.contains("/src/") || !id.starts_with(&format!("{name}.")) {
            wrong(format!("the id does not begin with the crate of {}, which is one of {CRATES:?}", mutant.file));
        }
        if mutant.find == mutant.replace {
            wrong("it changes nothing".into());
        }
        if mutant.page.is_empty() || !mutant.breaks.ends_with('.') {
            wrong("it names no page, or no sentence".into());
        }
        let sentences = pages.entry(&mutant.page).or_insert_with(|| sentences(root, &mutant.page));
        if !sentences.is_empty()
            && !sentences.iter().any(|sentence| sentence.contains(mutant.breaks.trim_end_matches('.')))
        {
            wrong(format!("no sentence of the claims of {} is: {}", mutant.page, mutant.breaks));
        }
        for case in &mutant.cases {
            if !names.iter().any(|name| name == case || case.ends_with('.') && name.starts_with(case.as_str())) {
                wrong(format!("there is no case {case}"));
            }
        }
        if mutant.cases.is_empty() == mutant.survives.is_none() {
            wrong("it names cases that notice it, or why none does".into());
        }
        match fs::read_to_string(root.join(&mutant.file)) {
            Ok(text) => mistakes.extend(mutant.place(&text).err()),
            Err(error) => wrong(format!("{}: {error}", mutant.file)),
        }
    }
    mistakes
}

/// The sentences of a page; none of one whose sentences are not written down.
fn sentences(root: &Path, page: &str) -> Vec<String> {
    let text = fs::read_to_string(root.join(format!("tests/claims/{page}.toml"))).unwrap_or_default();
    let page: toml::Table = toml::from_str(&text).unwrap_or_default();
    let list = |value: &toml::Value, key: &str| value.get(key).and_then(toml::Value::as_array).cloned();
    let chapters = list(&toml::Value::Table(page), "chapter").unwrap_or_default();
    let claims = chapters.iter().filter_map(|chapter| list(chapter, "claim")).flatten();
    claims.filter_map(|claim| Some(claim.get("says")?.as_str()?.to_owned())).collect()
}

/// Names of all conformance cases, without the prefix that all have: the tables say `"Area.Name" on …`, or `"Area.Name" needs …`.
fn names_of_cases(root: &Path) -> Vec<String> {
    let mut folders = ["conformance/src/cases", "conformance/src/inside"].map(|folder| root.join(folder)).to_vec();
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).unwrap_or_default();
            let rows = text.lines().filter(|line| line.contains("\" on ") || line.contains("\" needs "));
            names.extend(rows.filter_map(|row| row.split('"').nth(1)).map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_fits_the_sources_the_claim_maps_and_the_cases() {
        let root = crate::root();
        let mutants = read(&root).unwrap();
        let mistakes = mistakes(&root, &mutants);
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    }

    #[test]
    fn the_catalogue_is_large_enough_and_has_every_crate() {
        let mutants = read(&crate::root()).unwrap();
        assert!(mutants.len() >= 150, "{}", mutants.len());
        for name in CRATES {
            assert!(mutants.iter().any(|mutant| mutant.file.starts_with(&format!("{name}/"))), "{name}");
        }
    }

    fn mutant(find: &str) -> Mutant {
        Mutant {
            id: "hw.fence.nothing".into(),
            file: "hw/src/fence.rs".into(),
            find: find.into(),
            replace: String::new(),
            page: "native-gpu-fence-objects".into(),
            breaks: "A CPU signals a value.".into(),
            cases: vec!["NativeFence.CpuSignalIsSeenByCpu".into()],
            options: Vec::new(),
            repeat: 1,
            expression: false,
            survives: None,
        }
    }

    #[test]
    fn a_text_that_is_not_there_once_is_named_with_file_and_id() {
        let text = "a b a";
        assert_eq!(mutant("b").place(text), Ok(2..3));
        for (find, what) in [("a", "more than once"), ("c", "not in")] {
            let error = mutant(find).place(text).unwrap_err();
            assert!(["hw.fence.nothing", "hw/src/fence.rs", what].iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_a_mistake() {
        let root = crate::root();
        let good = mutant("//! ");
        let changed = |change: fn(&mut Mutant)| {
            let mut mutant = Mutant { find: "pub trait Barrier {".into(), ..good.clone() };
            change(&mut mutant);
            mistakes(&root, &[mutant]).len()
        };
        assert_eq!(changed(|_| ()), 0);
        assert_eq!(changed(|mutant| mutant.breaks = "A CPU signals no value.".into()), 1);
        assert_eq!(changed(|mutant| mutant.cases = vec!["NativeFence.CpuSignalIsSeen".into()]), 1);
        assert_eq!(changed(|mutant| mutant.cases = vec!["NativeFence.".into()]), 0);
        assert_eq!(changed(|mutant| mutant.survives = Some("Why.".into())), 1);
        assert_eq!(changed(|mutant| mutant.cases = Vec::new()), 1);
        assert_eq!(changed(|mutant| mutant.file = "dxgkrnl/src/lib.rs".into()), 2);
        assert_eq!(changed(|mutant| mutant.replace.clone_from(&mutant.find)), 1);
        assert_eq!(mistakes(&root, &[good.clone(), good]).len(), 3);
    }
}
