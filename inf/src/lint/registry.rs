//! Registry values and the score.

use super::structure::installs;
use super::{Findings, Rule};
use crate::inf::{Inf, Line};

/// FLG_ADDREG_TYPE_MULTI_SZ, REG_DWORD, and a key alone.
const MULTI_SZ: &str = "0x00010000";
const DWORD: &str = "0x00010001";
/// Runtimes that may ask for a user-mode driver: Direct3D 9, 10, 11 and 12.
const RUNTIMES: usize = 4;
/// What developers switch on their machines and no package may.
const DEVELOPERS: [&str; 4] = ["hwschmode", "features\\", "allowexperimental", "tdr"];

pub(super) fn check(inf: &Inf, findings: &mut Findings) {
    values(inf, findings);
    for install in installs(inf) {
        score(inf, &install, findings);
        let own = added(inf, &install);
        user_mode_driver(&own, findings);
        interrupts(&added(inf, &format!("{install}.HW")), findings);
    }
}

/// The registry lines that a section adds.
fn added<'a>(inf: &'a Inf, section: &str) -> Vec<&'a Line> {
    let names =
        inf.section(section).into_iter().flat_map(|section| section.with("AddReg")).flat_map(|line| &line.fields);
    names.filter_map(|name| inf.section(name)).flat_map(|section| &section.lines).collect()
}

fn values(inf: &Inf, findings: &mut Findings) {
    let names = inf.sections.iter().flat_map(|section| section.with("AddReg")).flat_map(|line| &line.fields);
    for line in names.filter_map(|name| inf.section(name)).flat_map(|section| &section.lines) {
        let text = format!("{} is outside the device's own keys", line.field(0));
        findings.unless(line.field(0).eq_ignore_ascii_case("HKR"), Rule::Registry, line.number, text);
        let whole = line.fields.join(",").to_lowercase();
        for word in DEVELOPERS.iter().filter(|word| whole.contains(*word)) {
            findings.add(Rule::Registry, line.number, format!("{word} is a developer's switch"));
        }
    }
}

fn score(inf: &Inf, install: &str, findings: &mut Findings) {
    let Some(section) = inf.section(install) else { return };
    let value = section.value("FeatureScore");
    let right = value.len() == 2 && u8::from_str_radix(value, 16).is_ok();
    findings.unless(right, Rule::FeatureScore, section.number, format!("FeatureScore {value:?} is not a byte like FF"));
}

fn user_mode_driver(lines: &[&Line], findings: &mut Findings) {
    let value = |name: &str| lines.iter().find(|line| line.field(2).eq_ignore_ascii_case(name));
    let mut stem = None;
    match value("UserModeDriverName") {
        None => findings.add(Rule::UserModeDriver, 0, "UserModeDriverName is missing"),
        Some(line) => {
            let names = line.fields.get(4..).unwrap_or_default();
            let file = line.field(4).strip_prefix("%13%\\").and_then(|name| name.strip_suffix(".dll"));
            let same = names.len() == RUNTIMES && names.iter().all(|name| name == line.field(4));
            let text = "UserModeDriverName is not the DLL in the driver store for each of the four runtimes";
            findings.unless(
                same && file.is_some() && line.field(3) == MULTI_SZ,
                Rule::UserModeDriver,
                line.number,
                text,
            );
            stem = file;
        }
    }
    match value("InstalledDisplayDrivers") {
        None => findings.add(Rule::UserModeDriver, 0, "InstalledDisplayDrivers is missing"),
        Some(line) => {
            let names = line.fields.get(4..).unwrap_or_default();
            let right = names.len() == RUNTIMES && names.iter().all(|name| stem == Some(name.as_str()));
            let text = "InstalledDisplayDrivers is not the DLL without its extension for each of the four runtimes";
            findings.unless(right && line.field(3) == MULTI_SZ, Rule::UserModeDriver, line.number, text);
        }
    }
}

fn interrupts(lines: &[&Line], findings: &mut Findings) {
    let key = "Interrupt Management\\MessageSignaledInterruptProperties";
    let asked = lines.iter().any(|line| {
        line.field(1) == key && line.field(2) == "MSISupported" && line.field(3) == DWORD && line.field(4) == "1"
    });
    findings.unless(asked, Rule::Interrupts, 0, "MSISupported is not set below the device's hardware key");
}
