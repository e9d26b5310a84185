//! Outcomes as JUnit's XML, which build servers read.
//!
//! Written here, for the few elements that are needed: the crates that write it keep maps with random seeds, which come from a DLL that not every
//! system has under which `hlk.exe` is tried.

use std::fmt::Write;
use std::path::Path;

use crate::status::Status;

/// One outcome.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// Name of the group of outcomes, such as an area.
    pub suite: &'a str,
    /// Name of the outcome, unique in its group.
    pub name: &'a str,
    /// Passed, failed or skipped.
    pub status: Status,
    /// Milliseconds.
    pub ms: u64,
    /// The reason why it failed or was skipped; `None` for a case that passed.
    pub reason: Option<&'a str>,
}

/// A text as the value of an attribute; what XML cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// Numbers and time of outcomes, as attributes.
fn counts(outcomes: &[&Outcome<'_>]) -> String {
    let of = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    let ms: u64 = outcomes.iter().map(|outcome| outcome.ms).sum();
    let (tests, skipped, failures) = (outcomes.len(), of(Status::Skipped), of(Status::Failed));
    format!("tests=\"{tests}\" skipped=\"{skipped}\" failures=\"{failures}\" errors=\"0\" time=\"{}\"", seconds(ms))
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// The outcomes as XML, by suites in the order in which they first come.
pub fn xml<'a>(title: &str, outcomes: impl IntoIterator<Item = Outcome<'a>>) -> String {
    let outcomes: Vec<Outcome<'a>> = outcomes.into_iter().collect();
    let mut suites: Vec<(&str, Vec<&Outcome<'_>>)> = Vec::new();
    for outcome in &outcomes {
        match suites.iter_mut().find(|(name, _)| *name == outcome.suite) {
            Some((_, cases)) => cases.push(outcome),
            None => suites.push((outcome.suite, vec![outcome])),
        }
    }
    let all: Vec<&Outcome<'_>> = outcomes.iter().collect();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string does not fail.
    let _ = writeln!(xml, "<testsuites name=\"{}\" {}>", escaped(title), counts(&all));
    for (name, cases) in suites {
        let _ = writeln!(xml, "    <testsuite name=\"{}\" {}>", escaped(name), counts(&cases));
        for case in cases {
            let (name, suite, time) = (escaped(case.name), escaped(case.suite), seconds(case.ms));
            let _ = write!(xml, "        <testcase name=\"{name}\" classname=\"{suite}\" time=\"{time}\"");
            let element = match case.status {
                Status::Passed => "",
                Status::Failed => "failure",
                Status::Skipped => "skipped",
            };
            let _ = match (element, case.reason) {
                ("", _) => writeln!(xml, "/>"),
                (element, None) => writeln!(xml, "><{element}/></testcase>"),
                (element, Some(reason)) => writeln!(xml, "><{element} message=\"{}\"/></testcase>", escaped(reason)),
            };
        }
        xml.push_str("    </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Writes [`xml`] to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write<'a>(path: &Path, title: &str, outcomes: impl IntoIterator<Item = Outcome<'a>>) -> Result<(), String> {
    std::fs::write(path, xml(title, outcomes)).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_there_once_with_its_reason() {
        let passed = Outcome { suite: "a", name: "one", status: Status::Passed, ms: 1, reason: None };
        let failed = Outcome { suite: "b", status: Status::Failed, reason: Some("1 < 2 & \"x\""), ..passed };
        let skipped = Outcome { name: "three", status: Status::Skipped, ..passed };
        let xml = xml("all", [passed, failed, skipped]);
        assert_eq!(xml.matches("<testcase ").count(), 3, "{xml}");
        assert_eq!(xml.matches("<testsuite ").count(), 2, "{xml}");
        assert!(xml.contains(r#"tests="3" skipped="1" failures="1" errors="0" time="0.003""#), "{xml}");
        assert!(xml.contains("1 &lt; 2 &amp; &quot;x&quot;"), "{xml}");
    }

    #[test]
    fn a_reason_of_several_lines_stays_one_and_what_xml_cannot_hold_is_left_out() {
        assert_eq!(escaped("a\nb\u{1b}[0m\u{0}\tc"), "a&#10;b[0m&#9;c");
    }
}
