//! The values in the headers for drivers in C, `kmt/include/km`, against a second source: what Microsoft's windows-sys declares under the same names.
//! `km_values/exceptions.json` has each value that windows-sys lacks or has otherwise, with the reason and where else it was looked up, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ddi_layout::windows_sys;

const HEADERS: [&str; 4] = [
    include_str!("../../kmt/include/km/campanile_inline.h"),
    include_str!("../../kmt/include/km/campanile_services.h"),
    include_str!("../../kmt/include/km/campanile_values.h"),
    include_str!("../../kmt/include/km/ntddk.h"),
];
const EXCEPTIONS: &str = include_str!("km_values/exceptions.json");

/// A number as C and Rust write it, with casts, parentheses and suffixes.
fn number(text: &str) -> Option<i128> {
    let mut text = text.trim();
    while let Some(inner) = text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        text = inner.trim();
    }
    if let Some((kind, value)) = text.strip_prefix('(').and_then(|cast| cast.split_once(')'))
        && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        text = value.trim();
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    let suffixes = ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];
    let digits = suffixes.iter().find_map(|suffix| digits.strip_suffix(suffix)).unwrap_or(digits);
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']).replace('_', "");
    let value = i128::from_str_radix(&digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

/// Text without the comments of C.
fn without_comments(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        left.push_str(before);
        left.push(' ');
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    left + rest
}

/// Macros without arguments and members of enumerations of a header: those with a number, and the names of those without.
fn of_header(text: &str) -> (BTreeMap<String, i128>, BTreeSet<String>) {
    let text = without_comments(text);
    let (mut values, mut others) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        let Some(definition) = line.trim_start().strip_prefix("#define ") else { continue };
        let Some((name, value)) = definition.trim().split_once(char::is_whitespace) else { continue };
        if !name.contains('(') {
            match number(value) {
                Some(value) => drop(values.insert(name.to_owned(), value)),
                None => drop(others.insert(name.to_owned())),
            }
        }
    }
    for part in text.split("enum ").skip(1) {
        let Some((_, members)) = part.split_once('{') else { continue };
        let members = members.split_once('}').map_or("", |(members, _)| members);
        let mut next = 0;
        for member in members.split(',').map(str::trim).filter(|member| !member.is_empty()) {
            let (name, value) = match member.split_once('=') {
                Some((name, value)) => (name.trim(), number(value).expect("members have numbers")),
                None => (member, next),
            };
            next = value + 1;
            values.insert(name.to_owned(), value);
        }
    }
    (values, others)
}

/// Adds the constants of the Rust sources below a folder.
fn of_windows_sys(folder: &Path, values: &mut BTreeMap<String, BTreeSet<i128>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            of_windows_sys(&path, values);
            continue;
        }
        for line in fs::read_to_string(&path).expect("a source").lines() {
            let constant = line.trim().strip_prefix("pub const ").and_then(|constant| constant.split_once(':'));
            let Some((name, rest)) = constant else { continue };
            if let Some(value) = rest.split_once('=').and_then(|(_, value)| number(value.trim_end_matches(';'))) {
                values.entry(name.to_owned()).or_default().insert(value);
            }
        }
    }
}

/// Numbers that are the same as 32 or 64 bits, of which one may be read as signed.
fn is_same(one: i128, other: i128) -> bool {
    let bits = |value: i128, width: u32| value.rem_euclid(1 << width);
    one == other || (one < 0 || other < 0) && (bits(one, 32) == bits(other, 32) || bits(one, 64) == bits(other, 64))
}

/// By name the value here, and that of windows-sys if it has one.
type Listed = BTreeMap<String, (i128, Option<i128>)>;

/// What is listed with a reason, and the macros that are no numbers.
fn listed() -> (Listed, BTreeSet<String>) {
    let exceptions: serde_json::Value = serde_json::from_str(EXCEPTIONS).expect("the list is JSON");
    let mut values = BTreeMap::new();
    for group in exceptions["values"].as_array().expect("groups") {
        assert!(group["reason"].as_str().is_some_and(|reason| reason.len() > 20), "{group}");
        for (name, value) in group["values"].as_object().expect("values by name") {
            let number = |key: &str| value[key].as_i64().map(i128::from);
            let before = values.insert(name.clone(), (number("here").expect("a value"), number("there")));
            assert!(before.is_none(), "{name} is listed twice");
        }
    }
    let no_numbers = exceptions["no_numbers"].as_object().expect("names with reasons");
    (values, no_numbers.keys().cloned().collect())
}

#[test]
fn values_of_the_headers_for_drivers_are_those_of_windows_sys_or_listed_with_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = windows_sys::folder(&root).expect("windows-sys is a dependency of these tests");
    let mut theirs = BTreeMap::new();
    of_windows_sys(&folder.join("Windows"), &mut theirs);
    assert!(theirs.len() > 50_000, "{} constants of windows-sys", theirs.len());
    let (mut ours, mut no_numbers) = (BTreeMap::new(), BTreeSet::new());
    for header in HEADERS {
        let (values, others) = of_header(header);
        ours.extend(values);
        no_numbers.extend(others);
    }
    let (listed, listed_without) = listed();
    let mut same = 0;
    let mut wrong = Vec::new();
    for (name, value) in &ours {
        let there = theirs.get(name);
        let agrees = there.is_some_and(|there| there.iter().any(|there| is_same(*value, *there)));
        match (listed.get(name), agrees) {
            (None, true) => same += 1,
            (Some(_), true) => wrong.push(format!("{name} is listed, and windows-sys has the same {value:#x}")),
            (None, false) => wrong.push(format!("{name} is {value:#x} here, {there:?} in windows-sys, and not listed")),
            (Some((here, known)), false) => {
                let holds = here == value && known.map_or(there.is_none(), |known| there == Some(&[known].into()));
                if !holds {
                    wrong.push(format!("{name} is {value:#x} here, {there:?} in windows-sys, listed otherwise"));
                }
            }
        }
    }
    wrong.extend(listed.keys().filter(|name| !ours.contains_key(*name)).map(|name| format!("{name} is listed only")));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(no_numbers, listed_without, "macros that are no numbers");
    assert!(same >= 140, "{same} values were compared");
}

#[test]
fn numbers_are_read_as_c_and_rust_write_them() {
    for (text, value) in [
        ("0x40ull", 0x40),
        ("((NTSTATUS)0xC0000001L)", 0xc000_0001),
        ("(-1)", -1),
        ("4096i32", 4096),
        ("-1073741823i32", -1_073_741_823),
        ("0x1_0000u32", 0x1_0000),
    ] {
        assert_eq!(number(text), Some(value), "{text}");
    }
    assert_eq!((number("one"), number("__attribute__((weak))")), (None, None));
    assert!(is_same(0xc000_0001, -1_073_741_823) && !is_same(1, 0x1_0000_0001));
    let (values, others) =
        of_header("#define A 2 /* #define B 3 */\n#define C(x) x\n#define D A\nenum e { F, G = 7, H };");
    assert_eq!(values, [("A", 2), ("F", 0), ("G", 7), ("H", 8)].map(|(name, value)| (name.to_owned(), value)).into());
    assert_eq!(others, ["D".to_owned()].into());
}
