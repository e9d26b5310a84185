//! Reading an INF: sections, lines, fields, and the texts that `%name%` stands for.

use std::collections::BTreeMap;

/// One line of a section: `key = field, field, …`, or fields alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InfLine {
    /// Number in the file, from 1.
    pub number: usize,
    /// What stands before the first `=` outside quotes; `None` where there is none.
    pub key: Option<String>,
    pub fields: Vec<String>,
}

impl InfLine {
    /// Field `index`, or nothing at all.
    #[must_use]
    pub fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", String::as_str)
    }

    #[must_use]
    pub fn is(&self, key: &str) -> bool {
        self.key.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(key))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// As it is written; sections are found by name without regard to case.
    pub name: String,
    /// Number of its heading in the file, from 1.
    pub number: usize,
    pub lines: Vec<InfLine>,
}

impl Section {
    /// Lines with that key.
    pub fn with<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a InfLine> + use<'a> {
        let key = key.to_owned();
        self.lines.iter().filter(move |line| line.is(&key))
    }

    /// First field of the only line with that key; nothing if there is none.
    #[must_use]
    pub fn value(&self, key: &str) -> &str {
        self.with(key).next().map_or("", |line| line.field(0))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inf {
    pub sections: Vec<Section>,
    strings: BTreeMap<String, String>,
}

impl Inf {
    /// Reads the text of a file. Continued lines (`\` at the end) are joined, comments (`;` outside quotes) dropped.
    ///
    /// # Errors
    /// One sentence that names the line: a heading or a quotation that does not end, or a line before the first section.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut sections: Vec<Section> = Vec::new();
        let mut lines = text.strip_prefix('\u{FEFF}').unwrap_or(text).lines().enumerate();
        while let Some((index, first)) = lines.next() {
            let number = index + 1;
            let mut line = without_comment(first).trim().to_owned();
            while let Some(start) = line.strip_suffix('\\') {
                let next = lines.next().ok_or_else(|| format!("line {number}: continued, but it is the last"))?.1;
                line = format!("{}{}", start.trim_end(), without_comment(next).trim());
            }
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let name = rest.strip_suffix(']').filter(|name| !name.trim().is_empty() && !name.contains(['[', ']']));
                let name = name.ok_or_else(|| format!("line {number}: the heading {line} does not end with ]"))?;
                sections.push(Section { name: name.trim().to_owned(), number, lines: Vec::new() });
                continue;
            }
            let section = sections.last_mut().ok_or_else(|| format!("line {number}: before the first section"))?;
            section.lines.push(entry(number, &line)?);
        }
        let mut inf = Self { sections, strings: BTreeMap::new() };
        let strings = inf.section("Strings").map(|section| section.lines.as_slice()).unwrap_or_default();
        let pairs =
            strings.iter().filter_map(|line| Some((line.key.as_ref()?.to_lowercase(), line.field(0).to_owned())));
        inf.strings = pairs.collect();
        Ok(inf)
    }

    /// The section of that name, whatever the case of its letters.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name.eq_ignore_ascii_case(name))
    }

    /// `text` with every `%name%` replaced that `[Strings]` defines; numbers of folders stay. What a string says is not expanded again, so that strings which
    /// name each other do not grow without bound.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        let (mut expanded, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once('%') {
            let Some((name, after)) = behind.split_once('%') else { break };
            expanded.push_str(before);
            match self.strings.get(&name.to_lowercase()).filter(|_| !name.is_empty()) {
                Some(value) => expanded.push_str(value),
                None => expanded.extend(["%", name, "%"]),
            }
            rest = after;
        }
        expanded.push_str(rest);
        expanded
    }
}

/// The names between percent signs; `%%` is a sign of its own.
#[must_use]
pub fn tokens(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('%').collect();
    // A sign without its second opens nothing.
    let complete = parts.len() - 1 + parts.len() % 2;
    parts
        .iter()
        .take(complete)
        .skip(1)
        .step_by(2)
        .filter(|name| !name.is_empty())
        .map(|name| (*name).to_owned())
        .collect()
}

fn without_comment(line: &str) -> &str {
    position(line, &[';']).and_then(|at| line.get(..at)).unwrap_or(line)
}

fn entry(number: usize, line: &str) -> Result<InfLine, String> {
    if line.matches('"').count() % 2 == 1 {
        return Err(format!("line {number}: a quotation does not end"));
    }
    let plain = |text: &str| text.trim().replace('"', "");
    let (key, rest) = match position(line, &['=', ',']) {
        Some(at) if line.get(at..).is_some_and(|rest| rest.starts_with('=')) => line.split_at(at),
        _ => ("", line),
    };
    let (key, mut rest) = match rest.strip_prefix('=') {
        Some(rest) => (Some(plain(key)), rest),
        None => (None, rest),
    };
    let mut fields = Vec::new();
    while let Some((field, next)) = position(rest, &[',']).and_then(|at| rest.split_at_checked(at)) {
        fields.push(plain(field));
        rest = next.strip_prefix(',').unwrap_or(next);
    }
    fields.push(plain(rest));
    Ok(InfLine { number, key, fields })
}

/// Byte position of the first of `letters` outside quotes; `None` if there is none.
fn position(text: &str, letters: &[char]) -> Option<usize> {
    let mut quoted = false;
    let mut found = text.char_indices().filter(|&(_, letter)| {
        quoted ^= letter == '"';
        !quoted && letters.contains(&letter)
    });
    found.next().map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> (Option<String>, Vec<String>) {
        let line = entry(1, line).unwrap();
        (line.key, line.fields)
    }

    #[test]
    fn a_line_is_a_key_and_fields_or_fields_alone() {
        let texts = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>();
        assert_eq!(fields("A = b, c"), (Some("A".into()), texts(&["b", "c"])));
        assert_eq!(fields("HKR,, \"x, y = z\", 0x1"), (None, texts(&["HKR", "", "x, y = z", "0x1"])));
        assert_eq!(fields("DriverVer ="), (Some("DriverVer".into()), texts(&[""])));
        assert_eq!(fields("a.sys"), (None, texts(&["a.sys"])));
    }

    #[test]
    fn comments_continuations_and_headings_are_read_as_setup_reads_them() {
        let inf = Inf::parse("; head\n[One]\nkey = \"a;b\", \\\n  c ; tail\n\n[two]\nx\n[Strings]\nName = \"Thing\"\n")
            .unwrap();
        let one = inf.section("ONE").unwrap();
        assert_eq!((one.lines.len(), one.lines[0].number), (1, 3));
        assert_eq!(one.lines[0].fields, ["a;b", "c"]);
        assert_eq!(inf.expand("%name% in %13%"), "Thing in %13%");
        assert_eq!(tokens("%a%x%b%%c"), ["a", "b"]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_line() {
        for (text, line) in
            [("x = 1\n", 1), ("[A]\n[B\n", 2), ("[A]\nx = \"open\n", 2), ("[A]\nx = 1, \\", 2), ("[]\n", 1)]
        {
            let refused = Inf::parse(text).unwrap_err();
            assert!(refused.starts_with(&format!("line {line}:")), "{text:?}: {refused}");
        }
    }
}
