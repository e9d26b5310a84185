//! The conformance cases as named tests, on every variant of the GPU that changes what user mode sees.

use campanile::hlk::{self, CaseInfo, Status};
use campanile::setup::VariantOptions;
use libtest_mimic::{Arguments, Failed, Trial};

/// Variants, and how the names of their tests end.
const VARIANTS: [(&str, &str); 3] = [
    ("default", ""),
    ("global-doorbell", " with one doorbell for all queues"),
    ("optimised-fence-interrupt", " with interrupts that name queues"),
];

fn check(case: &'static CaseInfo, variant: &str) -> Result<(), Failed> {
    let VariantOptions(variant) = variant.parse()?;
    let report = hlk::run(case, &variant);
    let reason = report.reason.unwrap_or_default();
    match report.status {
        Status::Passed => Ok(()),
        Status::Failed => Err(Failed::from(format!("{reason}\nrequirement: {}", case.requirement))),
        // The runner knows no other way to say it; a case that cannot run here must not look like one that passed.
        Status::Skipped => Err(Failed::from(format!("not applicable: {reason}"))),
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (variant, ending) in VARIANTS {
        // A case that brings its own GPU runs once.
        let cases = hlk::cases().filter(|case| ending.is_empty() || case.boot.takes_any_variant());
        trials.extend(cases.map(|case| {
            Trial::test(format!("{}{ending}", case.name), move || check(case, variant)).with_kind(case.area)
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Err(error) = hlk::release_shared() {
        eprintln!("the shared system: {error}");
        std::process::exit(1);
    }
    conclusion.exit();
}
