//! The conformance cases as named tests.

use campanile::hlk::{self, Status};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = hlk::cases().map(|case| {
        Trial::test(case.name, move || {
            let report = hlk::run(case);
            let reason = report.reason.unwrap_or_default();
            match report.status {
                Status::Passed => Ok(()),
                Status::Failed => Err(Failed::from(format!("{reason}\nrequirement: {}", case.requirement))),
                // The runner knows no other way to say it; a case that cannot run here must not look like one that passed.
                Status::Skipped => Err(Failed::from(format!("not applicable: {reason}"))),
            }
        })
        .with_kind(case.area)
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if let Err(error) = hlk::release_shared() {
        eprintln!("the shared system: {error}");
        std::process::exit(1);
    }
    conclusion.exit();
}
