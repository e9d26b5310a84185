//! Rescues: work of the driver that the machine made good until it was taken down.

use dxgkrnl::Rescue;

use super::error::{ADVICE_RULE, SetupError};

/// Beginning of the lines of the log that tell what a stop has left.
const STOP_LEFT: &str = "StopDevice left ";

/// Looks at the rescues of a machine that nobody has looked at before. Its `log` tells what was left behind.
///
/// # Errors
/// One was not announced: a waiter that relies on the driver would have waited in vain.
pub(super) fn check(rescues: &[(Rescue, u64)], announced: &[Rescue], log: &[String]) -> Result<(), SetupError> {
    let silent = || rescues.iter().filter(|(rescue, _)| !announced.contains(rescue));
    // What a driver leaves behind is told by its answer already, if that was an error.
    let first = silent().find(|(rescue, _)| *rescue == Rescue::FailedStop).or_else(|| silent().next());
    first.map_or(Ok(()), |(rescue, count)| Err(error_of(*rescue, *count, log)))
}

fn error_of(rescue: Rescue, count: u64, log: &[String]) -> SetupError {
    match rescue {
        Rescue::FailedStop => {
            let cause = "DxgkDdiStopDevice answered an error, which the log has [dispmprt: DXGKDDI_STOP_DEVICE]";
            SetupError::new("The driver did not stop its device", cause, ADVICE_RULE)
        }
        Rescue::LeftBehind => {
            let told: Vec<&str> = log.iter().map(String::as_str).filter(|line| line.starts_with(STOP_LEFT)).collect();
            let told = told.join("; ");
            let cause = format!("{count} mappings or handles are left: {told} [dispmprt: DXGKDDI_STOP_DEVICE]");
            SetupError::new("The driver left something behind", cause, "")
        }
        other => {
            let cause = format!("{other} {count} times");
            SetupError::new("The machine made good what the driver left out or did wrong", cause, ADVICE_RULE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_was_not_announced_fails_the_end_of_the_machine() {
        for rescue in Rescue::ALL {
            let counted = [(rescue, 3)];
            assert!(check(&counted, &[], &[]).is_err(), "{rescue}");
            assert!(check(&counted, &[rescue], &[]).is_ok(), "{rescue}");
        }
        let silent = check(&[(Rescue::MissedWakeUp, 2), (Rescue::LostPacket, 1)], &[Rescue::LostPacket], &[]);
        let silent = silent.unwrap_err();
        assert!(silent.to_string().contains("missed-wake-up 2 times"), "{silent}");
        let line = "StopDevice left 3 mappings of MmMapIoSpace behind";
        let left = check(&[(Rescue::LeftBehind, 3)], &[], &["another line".to_owned(), line.to_owned()]).unwrap_err();
        assert!(left.to_string().contains(line) && !left.to_string().contains("another"), "{left}");
    }
}
