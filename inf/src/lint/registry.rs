//! Registry values and the score.

use std::collections::BTreeSet;

use super::structure::installs;
use super::{Findings, Package, Rule};
use crate::inf::{Inf, InfLine};

/// FLG_ADDREG_TYPE_MULTI_SZ, REG_DWORD, and a key alone.
const MULTI_SZ: &str = "0x00010000";
const DWORD: &str = "0x00010001";
/// The runtimes that UserModeDriverName has entries for, in its order, each with the functions of which it calls one.
const RUNTIMES: [(&str, &[&str]); 4] = [
    ("Direct3D 9", &["OpenAdapter"]),
    ("Direct3D 10", &["OpenAdapter10", "OpenAdapter10_2"]),
    ("Direct3D 11", &["OpenAdapter10_2"]),
    ("Direct3D 12", &["OpenAdapter12"]),
];
/// Parts of names of settings that developers make on their own machines, and that no package may make.
const DEVELOPERS: [&str; 4] = ["hwschmode", "features\\", "allowexperimental", "tdr"];

pub(super) fn check(inf: &Inf, package: &Package, findings: &mut Findings) {
    values(inf, findings);
    for install in installs(inf) {
        score(inf, &install, findings);
        user_mode_driver(&added(inf, &install), package, findings);
        interrupts(&added(inf, &format!("{install}.HW")), findings);
    }
}

/// The registry lines that a section adds.
fn added<'a>(inf: &'a Inf, section: &str) -> Vec<&'a InfLine> {
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

fn user_mode_driver(lines: &[&InfLine], package: &Package, findings: &mut Findings) {
    let value = |name: &str| lines.iter().find(|line| line.field(2).eq_ignore_ascii_case(name));
    let rule = Rule::UserModeDriver;
    let mut stems = BTreeSet::new();
    if let Some(line) = value("UserModeDriverName") {
        let names = line.fields.get(4..).unwrap_or_default();
        let whole = names.len() == RUNTIMES.len() && line.field(3) == MULTI_SZ;
        findings.unless(whole, rule, line.number, "UserModeDriverName is not a list of four, one for each runtime");
        for (name, (runtime, functions)) in names.iter().zip(RUNTIMES) {
            let file = name.strip_prefix("%13%\\").unwrap_or_default();
            let exports = package.exports.get(file);
            let opens = exports.is_some_and(|exports| functions.iter().any(|function| exports.contains(*function)));
            let text = format!("{name} does not export {}, which {runtime} calls", functions.join(" or "));
            findings.unless(opens, rule, line.number, text);
            stems.extend(file.strip_suffix(".dll"));
        }
    }
    if let Some(line) = value("UserModeDriverNameWow") {
        findings.add(rule, line.number, "UserModeDriverNameWow names a 32-bit DLL, and the package has none");
    }
    if let Some(line) = value("InstalledDisplayDrivers") {
        let names = line.fields.get(4..).unwrap_or_default();
        let same = !stems.is_empty() && names.iter().map(String::as_str).collect::<BTreeSet<_>>() == stems;
        let text = "InstalledDisplayDrivers does not name the DLLs of UserModeDriverName, without their extensions";
        findings.unless(same && line.field(3) == MULTI_SZ, rule, line.number, text);
    }
}

fn interrupts(lines: &[&InfLine], findings: &mut Findings) {
    let key = "Interrupt Management\\MessageSignaledInterruptProperties";
    let asked = lines.iter().any(|line| {
        line.field(1) == key && line.field(2) == "MSISupported" && line.field(3) == DWORD && line.field(4) == "1"
    });
    findings.unless(asked, Rule::Interrupts, 0, "MSISupported is not set below the device's hardware key");
}
