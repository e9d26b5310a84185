//! Files: which there are, where they come from, where they go.

use std::collections::BTreeSet;

use super::structure::installs;
use super::{BILL, Findings, PROGRAM, Package, Rule};
use crate::inf::{Inf, InfLine};

/// The driver store.
const DRIVER_STORE: &str = "13";
/// Endings and names of files that a package's folder may contain although the INF does not install them.
const BESIDES: [&str; 7] = [".inf", ".cat", ".pdb", ".ps1", ".cer", PROGRAM, BILL];

pub(super) fn check(inf: &Inf, package: &Package, findings: &mut Findings) {
    let installed = sources(inf, package, findings);
    folder(inf, package, &installed, findings);
    destinations(inf, findings);
    services(inf, &installed, findings);
}

fn lines<'a>(inf: &'a Inf, section: &str) -> &'a [InfLine] {
    inf.section(section).map(|section| section.lines.as_slice()).unwrap_or_default()
}

/// Holds the three lists of files together; the files that are copied.
fn sources(inf: &Inf, package: &Package, findings: &mut Findings) -> BTreeSet<String> {
    let disks: BTreeSet<&str> = lines(inf, "SourceDisksNames").iter().filter_map(|line| line.key.as_deref()).collect();
    let mut sources = BTreeSet::new();
    for line in lines(inf, "SourceDisksFiles") {
        let name = line.key.clone().unwrap_or_default();
        let text = format!("{name} is on disk {}, which is not described", line.field(0));
        findings.unless(disks.contains(line.field(0)), Rule::Files, line.number, text);
        sources.insert(name);
    }
    let mut copied = BTreeSet::new();
    let sections = inf.sections.iter().flat_map(|section| section.with("CopyFiles")).flat_map(|line| &line.fields);
    for section in sections.filter_map(|name| inf.section(name)) {
        for line in &section.lines {
            copied.insert(line.field(0).to_owned());
            let text = format!("{} is copied but is not in [SourceDisksFiles]", line.field(0));
            findings.unless(sources.contains(line.field(0)), Rule::Files, line.number, text);
        }
    }
    for name in sources.difference(&copied) {
        findings.add(Rule::Files, 0, format!("{name} is in [SourceDisksFiles] but is not copied"));
    }
    for name in package.versions.keys().filter(|name| !copied.contains(*name)) {
        findings.add(Rule::Files, 0, format!("{name} is built but is not copied"));
    }
    copied
}

fn folder(inf: &Inf, package: &Package, installed: &BTreeSet<String>, findings: &mut Findings) {
    for name in installed.difference(&package.files) {
        findings.add(Rule::Folder, 0, format!("{name} is not in the package"));
    }
    let catalog = inf.section("Version").map(|section| section.value("CatalogFile")).unwrap_or_default();
    for name in package.files.difference(installed) {
        let belongs = BESIDES.iter().any(|end| name.ends_with(end)) && (!name.ends_with(".cat") || name == catalog);
        findings.unless(belongs, Rule::Folder, 0, format!("{name} does not belong into the package"));
    }
    let infs = package.files.iter().filter(|name| name.ends_with(".inf")).count();
    findings.unless(infs == 1, Rule::Folder, 0, format!("{infs} INF files"));
    findings.unless(
        package.files.contains(catalog),
        Rule::Folder,
        0,
        format!("the catalog {catalog} is not in the package"),
    );
}

fn destinations(inf: &Inf, findings: &mut Findings) {
    let folders = lines(inf, "DestinationDirs");
    let default = folders.iter().any(|line| line.is("DefaultDestDir"));
    findings.unless(default, Rule::DriverStore, 0, "DefaultDestDir is missing");
    for line in folders {
        let store = line.fields == [DRIVER_STORE];
        findings.unless(store, Rule::DriverStore, line.number, "the folder is not the driver store, 13");
    }
    for line in
        inf.sections.iter().filter(|section| !section.name.eq_ignore_ascii_case("Strings")).flat_map(|s| &s.lines)
    {
        for token in line.fields.iter().flat_map(|field| crate::inf::tokens(field)) {
            let elsewhere = token.parse::<u16>().is_ok() && token != DRIVER_STORE;
            findings.unless(!elsewhere, Rule::DriverStore, line.number, format!("%{token}% is not the driver store"));
        }
    }
}

fn services(inf: &Inf, installed: &BTreeSet<String>, findings: &mut Findings) {
    for install in installs(inf) {
        let services = lines(inf, &format!("{install}.Services"));
        let [line] = services else {
            findings.add(Rule::Service, 0, format!("[{install}.Services] has not one line"));
            continue;
        };
        // SPSVCINST_ASSOCSERVICE: the service drives the device.
        let flags = number(line.field(1)).is_some_and(|flags| flags & 2 != 0);
        findings.unless(line.is("AddService") && flags, Rule::Service, line.number, "is not the device's own service");
        let Some(service) = inf.section(line.field(2)) else { continue };
        for (key, value) in [("ServiceType", 1), ("StartType", 3), ("ErrorControl", 0)] {
            let right = number(service.value(key)) == Some(value);
            findings.unless(right, Rule::Service, service.number, format!("{key} is not {value}"));
        }
        let binary = service.value("ServiceBinary");
        let name = binary.strip_prefix("%13%\\").unwrap_or_default();
        let text = format!("ServiceBinary {binary} is no copied file in the driver store");
        findings.unless(installed.contains(name) && name.ends_with(".sys"), Rule::Service, service.number, text);
        let own = name.strip_suffix(".sys") == Some(line.field(0));
        findings.unless(own, Rule::Service, line.number, "the service is not called as its file");
    }
}

/// A number in decimal or, after `0x`, hexadecimal digits.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
