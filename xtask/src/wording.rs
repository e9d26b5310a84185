//! Comments and words that a reader who does not know the project cannot understand: `xtask/wording.toml` has the words, and what to write instead.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::hygiene::files;

/// Contents of `xtask/wording.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wording {
    word: Vec<Word>,
    /// Files whose comments are still to be reworded. The list only shrinks: a file without such comments has to leave it.
    #[serde(default)]
    left: Vec<String>,
}

/// A word that is not used.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    /// The word or words in lower case.
    word: String,
    /// The field's term for it, which the message of the test names.
    instead: String,
    /// Files in which the word has another meaning.
    #[serde(default)]
    except: Vec<Exception>,
}

/// A file in which a word is right.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    file: String,
    #[serde(rename = "why")]
    _why: String,
}

/// Words that begin a comment which may be a fragment.
const OPENINGS: [&str; 5] = ["Whether", "What", "Who", "Where", "How"];
/// Longest remainder, in characters without the full stop, of a comment that counts as a fragment.
const FRAGMENT_MAX: usize = 38;

/// True if `line` is a comment such as `/// What it is.`: an opening word, and at most [`FRAGMENT_MAX`] characters behind it.
fn is_fragment(line: &str) -> bool {
    let Some((_, comment)) = line.split_once("//") else { return false };
    let comment = comment.strip_prefix('/').unwrap_or(comment);
    let comment = comment.strip_prefix(' ').unwrap_or(comment);
    OPENINGS.iter().filter_map(|opening| comment.strip_prefix(opening)?.strip_prefix(' ')).any(|rest| {
        let rest = rest.strip_suffix('.').unwrap_or(rest);
        !rest.contains('.') && rest.chars().count() <= FRAGMENT_MAX
    })
}

/// True if `line`, in lower case, has `word` as whole words.
fn has_word(line: &str, word: &str) -> bool {
    let apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    line.match_indices(word)
        .any(|(at, _)| apart(line[..at].chars().next_back()) && apart(line[at + word.len()..].chars().next()))
}

fn wording(root: &Path) -> Wording {
    let text = fs::read_to_string(root.join("xtask/wording.toml")).expect("the words can be read");
    toml::from_str(&text).expect("the words are TOML")
}

/// Files whose name ends so, by their path from the root, with their text. This module and its words are left out.
fn texts(root: &Path, extensions: &[&str]) -> Vec<(String, String)> {
    let own = ["xtask/wording.toml", "xtask/src/wording.rs"];
    let named = files(root).into_iter().filter_map(|path| {
        let name = path.strip_prefix(root).ok()?.to_string_lossy().replace('\\', "/");
        let known = path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known));
        (known && !own.contains(&name.as_str())).then(|| Some((name, fs::read_to_string(&path).ok()?)))?
    });
    named.collect()
}

#[test]
fn comments_say_what_holds() {
    let root = crate::root();
    let left = wording(&root).left;
    let mut wrong = Vec::new();
    for (name, text) in texts(&root, &["rs"]) {
        let fragments = text.lines().enumerate().filter(|(_, line)| is_fragment(line));
        let found: Vec<_> = fragments.map(|(at, line)| format!("{name}:{}: {}", at + 1, line.trim())).collect();
        match left.contains(&name) {
            true if found.is_empty() => wrong.push(format!("{name} is done: take it off `left` in xtask/wording.toml")),
            true => {}
            false => wrong.extend(found),
        }
    }
    assert!(wrong.is_empty(), "say what holds (unit, meaning of 0 and None, who relies on it):\n{}", wrong.join("\n"));
}

#[test]
fn words_are_those_of_the_field() {
    let root = crate::root();
    let words = wording(&root).word;
    let mut wrong = Vec::new();
    for (name, text) in texts(&root, &["rs", "md", "toml"]) {
        for (at, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            let here = |word: &&Word| !word.except.iter().any(|exception| exception.file == name);
            let found = words.iter().filter(here).filter(|word| has_word(&line, &word.word));
            wrong.extend(found.map(|word| format!("{name}:{}: `{}`: say {}", at + 1, word.word, word.instead)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn fragments_are_told_from_sentences() {
    assert!(is_fragment("    /// What it is for."));
    assert!(is_fragment("// Whether it does"));
    assert!(!is_fragment("/// True while the process is suspended."));
    assert!(!is_fragment("/// What a queue keeps of its submissions when its doorbell is disconnected."));
    assert!(!is_fragment("/// What follows is DXGK_SEGMENTFLAGS. It holds nothing else."));
    assert!(!is_fragment("let what = \"What it is.\";"));
}

#[test]
fn words_are_found_as_whole_words_only() {
    assert!(has_word("a process at rest.", "at rest"));
    assert!(!has_word("that restores it", "at rest"));
    assert!(!has_word("the mailbox", "mail"));
    assert!(has_word("mail", "mail"));
}
