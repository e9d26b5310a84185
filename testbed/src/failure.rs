//! Conversions of errors to failures of a conformance case.

use campanile_conformance::Failure;

use crate::setup::SetupError;
use crate::user;

impl From<user::Error> for Failure {
    fn from(error: user::Error) -> Self {
        Self::Unmet(format!("user-mode driver: {error}"))
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        Self::Unmet(error.to_string())
    }
}
