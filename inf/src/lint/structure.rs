//! Sections, what leads to them, the version, the models.

use std::collections::BTreeSet;

use super::{Findings, Package, Rule};
use crate::inf::{Inf, InfLine, Section, tokens};

const CLASS: (&str, &str) = ("ComputeAccelerator", "{F01A9D53-3FF6-48D2-9F97-C8A7004BE10C}");
/// Windows 11 24H2, the first system with WDDM 3.2.
const DECORATION: &str = "NTamd64.10.0...26100";
/// Sections that Setup looks for by name.
const KNOWN: [&str; 6] =
    ["Version", "Manufacturer", "SourceDisksNames", "SourceDisksFiles", "DestinationDirs", "Strings"];

pub(super) fn check(inf: &Inf, package: &Package, findings: &mut Findings) {
    version(inf, findings);
    driver_version(inf, package, findings);
    sections(inf, findings);
    strings(inf, findings);
    models(inf, package, findings);
    hyphens(inf, findings);
}

/// The sections that the models lead to: one for each device, by the name before its decorations.
pub(super) fn installs(inf: &Inf) -> Vec<String> {
    let models = inf.section("Manufacturer").into_iter().flat_map(model_sections).filter_map(|name| inf.section(&name));
    let mut names: Vec<String> =
        models.flat_map(|section| &section.lines).map(|line| line.field(0).to_owned()).collect();
    names.dedup();
    names
}

/// Names of the models' sections: `name` or `name.decoration` for each decoration.
fn model_sections(manufacturer: &Section) -> Vec<String> {
    let one = |line: &InfLine| match line.fields.split_first() {
        Some((name, [])) => vec![name.clone()],
        Some((name, decorations)) => decorations.iter().map(|decoration| format!("{name}.{decoration}")).collect(),
        None => Vec::new(),
    };
    manufacturer.lines.iter().flat_map(one).collect()
}

fn version(inf: &Inf, findings: &mut Findings) {
    let Some(section) = inf.section("Version") else {
        return findings.add(Rule::Version, 0, "there is no [Version]");
    };
    let at = section.number;
    findings.unless(
        section.value("Signature") == "$Windows NT$",
        Rule::Version,
        at,
        "Signature is not \"$Windows NT$\"",
    );
    findings.unless(!inf.expand(section.value("Provider")).is_empty(), Rule::Version, at, "Provider is missing");
    let catalog = section.value("CatalogFile").to_lowercase();
    findings.unless(catalog.ends_with(".cat"), Rule::Version, at, "CatalogFile names no .cat file");
    findings.unless(section.value("PnpLockdown") == "1", Rule::Version, at, "PnpLockdown is not 1");
    findings.unless(section.value("Class") == CLASS.0, Rule::Class, at, format!("Class is not {}", CLASS.0));
    let guid = section.value("ClassGuid").eq_ignore_ascii_case(CLASS.1);
    findings.unless(guid, Rule::Class, at, format!("ClassGuid is not {}, which is {}'s", CLASS.1, CLASS.0));
}

fn driver_version(inf: &Inf, package: &Package, findings: &mut Findings) {
    let Some(section) = inf.section("Version") else { return };
    let Some(line) = section.with("DriverVer").next() else {
        return findings.add(Rule::DriverVer, section.number, "DriverVer is missing");
    };
    let Some(number) = parse_driver_version(line) else {
        return findings.add(Rule::DriverVer, line.number, "DriverVer is not mm/dd/yyyy,w.x.y.z");
    };
    for (file, version) in &package.versions {
        let text = format!("{file} has the file version {version:?}, DriverVer says {number:?}");
        findings.unless(*version == number, Rule::FileVersion, line.number, text);
    }
}

/// The four numbers, if the day before them exists.
fn parse_driver_version(line: &InfLine) -> Option<[u16; 4]> {
    let [date, version] = line.fields.as_slice() else { return None };
    let parts: Vec<&str> = date.split('/').collect();
    let [month, day, year] = parts.as_slice() else { return None };
    if (month.len(), day.len(), year.len()) != (2, 2, 4) {
        return None;
    }
    let month = time::Month::try_from(month.parse::<u8>().ok()?).ok()?;
    time::Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    let numbers: Vec<u16> = version.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

fn sections(inf: &Inf, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for section in &inf.sections {
        let first = seen.insert(section.name.to_lowercase());
        findings.unless(first, Rule::RepeatedSection, section.number, format!("[{}] stands twice", section.name));
    }
    let named = named(inf);
    for (name, line) in &named {
        let text = format!("[{name}] is named but does not exist");
        findings.unless(inf.section(name).is_some(), Rule::MissingSection, *line, text);
    }
    for section in &inf.sections {
        let used = KNOWN.iter().any(|known| section.name.eq_ignore_ascii_case(known))
            || named.iter().any(|(name, _)| name.eq_ignore_ascii_case(&section.name));
        findings.unless(used, Rule::UnusedSection, section.number, format!("nothing leads to [{}]", section.name));
    }
}

/// Every section that something names, with the line that does. A device's `.HW` section may be left out; its files and its service may not.
fn named(inf: &Inf) -> Vec<(String, usize)> {
    let mut named: Vec<(String, usize)> = KNOWN.iter().map(|name| ((*name).to_owned(), 0)).collect();
    for line in inf.section("Manufacturer").iter().flat_map(|section| &section.lines) {
        let alone = Section { name: String::new(), number: line.number, lines: vec![line.clone()] };
        named.extend(model_sections(&alone).into_iter().map(|name| (name, line.number)));
    }
    for install in installs(inf) {
        let line = inf.section(&install).map_or(0, |section| section.number);
        named.push((install.clone(), line));
        named.push((format!("{install}.Services"), line));
        if inf.section(&format!("{install}.HW")).is_some() {
            named.push((format!("{install}.HW"), line));
        }
    }
    for line in inf.sections.iter().flat_map(|section| &section.lines) {
        let leads: &[String] = match line.key.as_deref().map(str::to_lowercase).as_deref() {
            Some("copyfiles" | "addreg" | "delfiles" | "delreg") => &line.fields,
            Some("addservice") => line.fields.get(2..).unwrap_or_default(),
            _ => &[],
        };
        let sections = leads.iter().filter(|name| !name.is_empty() && !name.starts_with('@'));
        named.extend(sections.map(|name| (name.clone(), line.number)));
    }
    named
}

fn strings(inf: &Inf, findings: &mut Findings) {
    let defined: &[InfLine] = inf.section("Strings").map(|section| section.lines.as_slice()).unwrap_or_default();
    let mut keys = BTreeSet::new();
    for line in defined {
        let key = line.key.clone().unwrap_or_default().to_lowercase();
        findings.unless(
            !key.is_empty() && keys.insert(key),
            Rule::Strings,
            line.number,
            "defined twice, or without a name",
        );
    }
    let mut used = BTreeSet::new();
    let others = inf.sections.iter().filter(|section| !section.name.eq_ignore_ascii_case("Strings"));
    for line in others.flat_map(|section| &section.lines) {
        for token in line.key.iter().chain(&line.fields).flat_map(|text| tokens(text)) {
            // A number is a folder.
            let known = token.parse::<u16>().is_ok() || keys.contains(&token.to_lowercase());
            findings.unless(known, Rule::Strings, line.number, format!("%{token}% is not defined"));
            used.insert(token.to_lowercase());
        }
    }
    for line in defined {
        let name = line.key.clone().unwrap_or_default();
        let text = format!("%{name}% is not used");
        findings.unless(used.contains(&name.to_lowercase()), Rule::Strings, line.number, text);
    }
}

fn models(inf: &Inf, package: &Package, findings: &mut Findings) {
    for line in inf.section("Manufacturer").iter().flat_map(|section| &section.lines) {
        let decorations = line.fields.get(1..).unwrap_or_default();
        let right = !decorations.is_empty() && decorations.iter().all(|decoration| decoration == DECORATION);
        findings.unless(
            right,
            Rule::Decoration,
            line.number,
            format!("the models are not those of {DECORATION} alone"),
        );
    }
    let manufacturer = inf.section("Manufacturer").into_iter().flat_map(model_sections);
    let lines: Vec<&InfLine> =
        manufacturer.filter_map(|name| inf.section(&name)).flat_map(|section| &section.lines).collect();
    let ids: Vec<String> = lines.iter().map(|line| line.field(1).to_uppercase()).collect();
    if ids != package.hardware_ids {
        let line = lines.first().map_or(0, |line| line.number);
        findings.add(Rule::HardwareId, line, format!("lists {ids:?}, the device is {:?}", package.hardware_ids));
    }
}

fn hyphens(inf: &Inf, findings: &mut Findings) {
    for section in &inf.sections {
        let text = format!("[{}] has a hyphen", section.name);
        findings.unless(!section.name.contains('-'), Rule::Hyphen, section.number, text);
    }
    let files = inf.section("SourceDisksFiles").into_iter().flat_map(|section| &section.lines);
    let services = inf.sections.iter().flat_map(|section| section.with("AddService"));
    let names = files.map(|line| (line.key.clone().unwrap_or_default(), line.number));
    for (name, line) in names.chain(services.map(|line| (line.field(0).to_owned(), line.number))) {
        findings.unless(!name.contains('-'), Rule::Hyphen, line, format!("{name} has a hyphen"));
    }
}
