//! The rules of an INF that installs a compute-only WDDM driver as an isolated package of Windows 11.
//!
//! They are the published ones that matter here and that need no Windows to be checked. InfVerif, which only runs there, knows more.

mod files;
mod registry;
mod structure;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::inf::Inf;

/// The conformance cases for the installed driver, which verify.ps1 runs; no part of what is installed.
pub const PROGRAM: &str = "hlk.exe";
/// The bill of materials of the package, which lies beside the images.
pub const BILL: &str = "campanile.cdx.json";

/// The package that an INF is checked against.
#[derive(Clone, Debug)]
pub struct Package {
    /// Names of all files in the package's folder.
    pub files: BTreeSet<String>,
    /// File version of each image, from its version resource.
    pub versions: BTreeMap<String, [u16; 4]>,
    /// Exported names of each image, by file name.
    pub exports: BTreeMap<String, BTreeSet<String>>,
    /// Hardware ids of the device, the longest first.
    pub hardware_ids: Vec<String>,
}

/// A rule, by the name that a report gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// `[Version]` says `$Windows NT$`, names provider and catalog, and locks the files of the package. [MS: INF Version section]
    Version,
    /// Class and ClassGuid are those of compute accelerators. [MS: system-defined device setup classes]
    Class,
    /// DriverVer is `mm/dd/yyyy,w.x.y.z` with a day that exists. [MS: INF DriverVer directive]
    DriverVer,
    /// DriverVer's version is the file version of every image; another one fails the device after a restart.
    FileVersion,
    /// A section that something names exists.
    MissingSection,
    /// A section that nothing names does nothing.
    UnusedSection,
    /// A section stands once.
    RepeatedSection,
    /// A text between percent signs is a folder's number or is defined once, and what is defined is used.
    Strings,
    /// Models are decorated with architecture, system version and build, as files in the driver store need. [MS: INF Manufacturer section]
    Decoration,
    /// The models list the device's hardware ids, the longest of a device first.
    HardwareId,
    /// SourceDisksFiles, CopyFiles and the images are the same files, on a disk that is described.
    Files,
    /// The package's folder holds what the INF names, the INF, the catalog, symbols, scripts, the conformance cases and a public certificate, and nothing else.
    Folder,
    /// Everything stays in the driver store. [MS: using a universal INF file]
    DriverStore,
    /// The service is a kernel driver, started on demand, the function driver of its device. [MS: WDDM, setting the start type value]
    Service,
    /// FeatureScore is one byte in hexadecimal digits. [MS: INF FeatureScore directive]
    FeatureScore,
    /// A DLL that is registered for a runtime of Direct3D exports what that runtime calls; a compute-only adapter may have none. [MS: loading a user-mode display
    /// driver, initializing communication with the Direct3D DDIs, MCDM implementation guidelines]
    UserModeDriver,
    /// Message-signalled interrupts are asked for; the function has no others.
    Interrupts,
    /// Registry values go below the device's own keys, and never switch scheduling or features that developers switch.
    Registry,
    /// No hyphen in the name of a file, a section or a service: packaging derives one from the other.
    Hyphen,
    /// The file is plain ASCII, which no tool reads differently.
    Ascii,
}

impl Rule {
    pub const ALL: [Self; 20] = [
        Self::Version,
        Self::Class,
        Self::DriverVer,
        Self::FileVersion,
        Self::MissingSection,
        Self::UnusedSection,
        Self::RepeatedSection,
        Self::Strings,
        Self::Decoration,
        Self::HardwareId,
        Self::Files,
        Self::Folder,
        Self::DriverStore,
        Self::Service,
        Self::FeatureScore,
        Self::UserModeDriver,
        Self::Interrupts,
        Self::Registry,
        Self::Hyphen,
        Self::Ascii,
    ];
}

/// A rule that is broken, and where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub rule: Rule,
    /// Line of the INF, from 1; 0 for the file as a whole.
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{:?}: {}", self.rule, self.text),
            line => write!(f, "line {line}: {:?}: {}", self.rule, self.text),
        }
    }
}

/// Violations in the order of the rules.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, rule: Rule, line: usize, text: impl Into<String>) {
        self.0.push(Finding { rule, line, text: text.into() });
    }

    fn unless(&mut self, holds: bool, rule: Rule, line: usize, text: impl Into<String>) {
        if !holds {
            self.add(rule, line, text);
        }
    }
}

/// Everything in which `text` breaks a rule; nothing for a good INF.
///
/// # Errors
/// One sentence, if the text cannot be read as an INF at all.
pub fn lint(text: &str, package: &Package) -> Result<Vec<Finding>, String> {
    let inf = Inf::parse(text)?;
    let mut findings = Findings::default();
    if let Some(index) = text.lines().position(|line| !line.is_ascii()) {
        findings.add(Rule::Ascii, index + 1, "a letter that is not ASCII");
    }
    structure::check(&inf, package, &mut findings);
    files::check(&inf, package, &mut findings);
    registry::check(&inf, package, &mut findings);
    findings.0.sort();
    Ok(findings.0)
}

#[cfg(test)]
mod tests;
