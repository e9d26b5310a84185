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

/// Words that begin a comment of one line which is a fragment however long it is.
const OPENINGS_OF_ONE_LINE: [&str; 7] = ["Whether", "What", "Who", "Where", "Why", "How", "Its"];

/// True if `line` is a documentation comment of one sentence that begins with such a word and has no second clause behind a comma.
fn is_long_fragment(line: &str) -> bool {
    let line = line.trim();
    let Some(comment) = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! ")) else { return false };
    let sentence = comment.strip_suffix('.').unwrap_or(comment);
    let opens =
        OPENINGS_OF_ONE_LINE.iter().any(|word| comment.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ')));
    opens && !sentence.contains(['.', ',', ':', ';'])
}

/// The lines of a text that are fragments, by their number from 1. A comment of several lines is none for its first line's sake, unless that is short.
fn fragments(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let continues = |at: usize| {
        let comment = |line: &&str| line.trim().starts_with("///") || line.trim().starts_with("//!");
        lines.get(at).is_some_and(|line| comment(line) && !matches!(line.trim(), "///" | "//!"))
    };
    let alone = |at: usize| !continues(at + 1) && at.checked_sub(1).is_none_or(|before| !continues(before));
    let numbered =
        lines.iter().enumerate().filter(|(at, line)| is_fragment(line) || is_long_fragment(line) && alone(*at));
    numbered.map(|(at, line)| (at + 1, line.trim())).collect()
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
    let found = |(name, text): (String, String)| -> Vec<String> {
        fragments(&text).iter().map(|(at, line)| format!("{name}:{at}: {line}")).collect()
    };
    let wrong: Vec<String> = texts(&crate::root(), &["rs"]).into_iter().flat_map(found).collect();
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
    let long = "/// What a queue keeps of its submissions when its doorbell is disconnected.";
    assert_eq!(fragments(&format!("{long}\nfn f() {{}}")), [(1, long)]);
    assert!(fragments(&format!("{long}\n/// A second sentence.")).is_empty());
    assert!(fragments("/// Where pages changed their size, the GPU forgets all translations of them.").is_empty());
    assert_eq!(fragments("//! How long files and functions are.\n\nuse std::fs;").len(), 1);
}

#[test]
fn words_are_found_as_whole_words_only() {
    assert!(has_word("a process at rest.", "at rest"));
    assert!(!has_word("that restores it", "at rest"));
    assert!(!has_word("the mailbox", "mail"));
    assert!(has_word("mail", "mail"));
}
