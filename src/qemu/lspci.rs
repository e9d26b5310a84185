//! Compares what `lspci -vv` prints for the function that a guest has found with the expected text, line by line.
//!
//! lspci reads what Linux tells of PCI functions in files. Here it is given such files with what the guest has told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::function::{Check, Expected};
use super::protocol::Found;

/// What it should say. `{bar0}` and the like stand for the sizes of BARs; addresses are told by nobody but the guest's firmware.
const EXPECTED: &str = include_str!("lspci.txt");

/// Registers of the function, and bits of a byte in each; nobody may change one without being noticed.
const NOTICED: [(u16, u8); 24] = [
    // Vendor, device, command, status, revision, class, subsystem.
    (0x00, 0x01),
    (0x02, 0x01),
    (0x04, 0x04),
    (0x06, 0x20),
    (0x08, 0x02),
    (0x0b, 0x01),
    (0x2c, 0x01),
    (0x2e, 0x02),
    // Power management: version, PME from D0, state, kept state in D3hot.
    (0x42, 0x01),
    (0x43, 0x08),
    (0x44, 0x03),
    (0x44, 0x08),
    // MSI-X: count, enable, table, pending bits.
    (0x4a, 0x01),
    (0x4b, 0x80),
    (0x4d, 0x10),
    (0x51, 0x10),
    // Express: type, payload, function-level reset, control, link, timeouts, target speed.
    (0x62, 0x10),
    (0x64, 0x02),
    (0x67, 0x10),
    (0x69, 0x08),
    (0x6c, 0x01),
    (0x72, 0x01),
    (0x84, 0x01),
    (0x90, 0x01),
];

/// Output of lspci for a function.
///
/// # Errors
/// It does not start, or does not find the function.
fn show(lspci: &Path, found: &Found) -> Result<String, String> {
    let folder = Folder::new(found)?;
    let output = Command::new(lspci)
        .args(["-A", "linux-sysfs", "-O"])
        .arg(format!("sysfs.path={}", folder.0.display()))
        .args(["-n", "-vv"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} does not start: {error}", lspci.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() && !text.trim().is_empty() {
        return Ok(text);
    }
    Err(format!("lspci shows nothing: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The files in which Linux tells of a PCI function, removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(found: &Found) -> Result<Self, String> {
        let folder = Self(std::env::temp_dir().join(format!("campanile-lspci-{}", std::process::id())));
        let device = folder.0.join("devices").join(&found.name);
        let bytes = (0..found.config.len()).step_by(2);
        let byte = |at: usize| found.config.get(at..at + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok());
        let config: Vec<u8> = bytes.map_while(byte).collect();
        let number = |at: usize| config.get(at).copied().unwrap_or(0xff);
        let word = |at: usize| format!("0x{:02x}{:02x}\n", number(at + 1), number(at));
        let range = |(start, end, flags): &(u64, u64, u64)| format!("{start:#018x} {end:#018x} {flags:#018x}\n");
        let class = format!("0x{:02x}{:02x}{:02x}\n", number(11), number(10), number(9));
        let texts = [
            ("resource", found.resources.iter().map(range).collect()),
            ("vendor", word(0)),
            ("device", word(2)),
            ("class", class),
            ("irq", "0\n".to_owned()),
        ];
        let written = fs::create_dir_all(&device).and_then(|()| fs::write(device.join("config"), &config));
        let written =
            texts.iter().fold(written, |done, (name, text)| done.and_then(|()| fs::write(device.join(name), text)));
        written.map_err(|error| format!("{}: {error}", device.display()))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A number of bytes as lspci words it.
fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, letter)| format!("{}{letter}", bytes / unit))
}

/// Expected output of lspci for a function.
fn wanted(expected: &Expected) -> String {
    let fill = |text: String, (bar, bytes): (usize, &Option<u64>)| {
        text.replace(&format!("{{bar{bar}}}"), &size(bytes.unwrap_or(0)))
    };
    expected.bars.iter().enumerate().fold(EXPECTED.to_owned(), fill)
}

/// A line without the address of a BAR.
fn plain(line: &str) -> String {
    const PLACE: &str = "Memory at ";
    match line.split_once(PLACE) {
        Some((before, rest)) => {
            let behind = rest.split_once(' ').map_or("", |(_, behind)| behind);
            format!("{}{PLACE}ADDRESS {behind}", before)
        }
        None => line.to_owned(),
    }
}

/// Holds what lspci says against what it should say.
fn compare(said: &str, wanted: &str) -> Result<(), String> {
    let (mut said, mut wanted) = (said.trim_end().lines(), wanted.trim_end().lines());
    let mut different = Vec::new();
    for number in 1.. {
        let (found, expected) = match (said.next(), wanted.next()) {
            (None, None) => break,
            pair => (plain(pair.0.unwrap_or("nothing")), plain(pair.1.unwrap_or("nothing"))),
        };
        if found.trim() != expected.trim() {
            different.push(format!("line {number} is `{}`, `{}` expected", found.trim(), expected.trim()));
        }
    }
    if different.is_empty() { Ok(()) } else { Err(different.join("; ")) }
}

/// The statements about a function, with an lspci that may be missing.
pub(super) fn checks(lspci: Result<PathBuf, String>, found: &Found, expected: &Expected) -> Vec<Check> {
    let said = lspci.and_then(|lspci| Ok((show(&lspci, found)?, lspci)));
    let (said, lspci) = match said {
        Ok(said) => said,
        Err(reason) => return vec![("IsShownByLspciAsExpected", Err(reason))],
    };
    vec![
        ("IsShownByLspciAsExpected", compare(&said, &wanted(expected))),
        ("IsShownByLspciOtherwiseWhenARegisterIsAnother", notices(&lspci, found, &said)),
    ]
}

/// True if each changed register is another line, and in the end the same function is shown as before.
fn notices(lspci: &Path, found: &Found, said: &str) -> Result<(), String> {
    for (at, bits) in NOTICED {
        let place = 2 * usize::from(at);
        let mut changed = found.clone();
        let byte = found.config.get(place..place + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok());
        let byte = byte.ok_or_else(|| format!("its configuration space has no byte {at:#x}"))?;
        changed.config.replace_range(place..place + 2, &format!("{:02x}", byte ^ bits));
        if compare(&show(lspci, &changed)?, said).is_ok() {
            return Err(format!("bits {bits:#04x} at {at:#04x} may change unnoticed"));
        }
    }
    compare(&show(lspci, found)?, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_differ_and_nothing_else() {
        let said = "01:00.0 1200\n\tRegion 0: Memory at fe840000 (64-bit) [size=64K]\n\n";
        let other = "01:00.0 1200\n\tRegion 0: Memory at 10000000 (64-bit) [size=64K]\n";
        assert_eq!(compare(said, other), Ok(()));
        let smaller = other.replace("64K", "32K");
        let text = compare(said, &smaller).unwrap_err();
        assert!(text.starts_with("line 2 is `Region 0: Memory at ADDRESS (64-bit) [size=64K]`"), "{text}");
        assert!(compare(said, "01:00.0 1200\n").unwrap_err().contains("`nothing` expected"));
        assert!(compare("", other).unwrap_err().contains("line 1 is `nothing`"));
    }

    #[test]
    fn sizes_are_worded_as_lspci_does() {
        assert_eq!([64 << 10, 256 << 20, 3 << 30, 100].map(size), ["64K", "256M", "3G", "100"]);
        let expected = Expected { bars: [Some(64 << 10), None, Some(256 << 10), None, Some(16 << 30), None] };
        let text = wanted(&expected);
        assert!(text.contains("[size=256K]") && text.contains("[size=16G]") && !text.contains('{'), "{text}");
    }

    #[test]
    fn an_lspci_that_is_missing_or_shows_nothing_is_a_failure() {
        let expected = Expected { bars: [None; 6] };
        let found = Found { name: "0000:01:00.0".to_owned(), config: "00".repeat(64), ..Found::default() };
        for (lspci, words) in [
            (Err("no network".to_owned()), "no network"),
            (Ok("/nonexistent/lspci".into()), "does not start"),
            (Ok("/bin/true".into()), "shows nothing"),
        ] {
            let checks = checks(lspci, &found, &expected);
            assert!(checks[0].1.as_ref().unwrap_err().contains(words), "{checks:?}");
        }
    }
}
