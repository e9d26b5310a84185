//! Why a request fails. What refuses it answers with a [`Failure`], which its callers hand on up to the thunk, whose log has it.

use core::fmt;

use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_NOT_SUPPORTED};

/// What a function of a driver answered, with the function's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct DriverAnswer {
    ddi: &'static str,
    answer: Answer,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The function returned this status.
    Status(NTSTATUS),
    /// The slot of the DDI is NULL.
    Absent,
    /// The machine has stopped: the function was not called, or has not returned.
    Stopped,
}

impl DriverAnswer {
    /// The function was called.
    pub(crate) fn of(ddi: &'static str, status: NTSTATUS) -> Self {
        Self { ddi, answer: Answer::Status(status) }
    }

    /// The driver lacks the function.
    pub(crate) fn absent(ddi: &'static str) -> Self {
        Self { ddi, answer: Answer::Absent }
    }

    /// The machine has stopped before the function was called, or before it returned.
    pub(crate) fn stopped(ddi: &'static str) -> Self {
        Self { ddi, answer: Answer::Stopped }
    }

    /// The function.
    pub(crate) fn ddi(self) -> &'static str {
        self.ddi
    }

    /// The status that whoever called the function is given.
    pub(crate) fn status(self) -> NTSTATUS {
        match self.answer {
            Answer::Status(status) => status,
            Answer::Absent => STATUS_NOT_SUPPORTED,
            Answer::Stopped => STATUS_DEVICE_REMOVED,
        }
    }

    pub(crate) fn is_success(self) -> bool {
        self.status().is_success()
    }

    /// The text of the bug check for a function that may not fail.
    pub(crate) fn may_not_fail(self) -> String {
        match self.answer {
            Answer::Status(status) => format!("{} may not fail, it answered {status}", self.ddi),
            Answer::Absent | Answer::Stopped => format!("{} may not fail: {self}", self.ddi),
        }
    }

    /// # Errors
    /// The answer, if it is an error.
    pub(crate) fn ok(self) -> Result<(), Failure> {
        if self.is_success() { Ok(()) } else { Err(self.into()) }
    }
}

impl fmt::Display for DriverAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.answer {
            Answer::Status(status) => write!(f, "{} answered {status}", self.ddi),
            Answer::Absent => write!(f, "{} is NULL in the table of the driver", self.ddi),
            Answer::Stopped => write!(f, "{} gave no answer, for the machine has stopped", self.ddi),
        }
    }
}

/// A request fails: the status that the program is given, and what the log says of it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: NTSTATUS,
    why: Why,
}

#[derive(Clone, Debug)]
enum Why {
    /// The status says it all.
    Status,
    /// A driver answered so.
    Driver(DriverAnswer),
    /// Field and rule in words.
    Rule(Box<str>),
}

impl Failure {
    /// The status of the thunk.
    pub(crate) fn status(&self) -> NTSTATUS {
        self.status
    }

    /// The answer of a driver that it comes from.
    pub(crate) fn answer(&self) -> Option<DriverAnswer> {
        match self.why {
            Why::Driver(answer) => Some(answer),
            Why::Status | Why::Rule(_) => None,
        }
    }

    /// The reason that the log gives besides the status; `None` if the status says it all.
    pub(crate) fn why(&self) -> Option<String> {
        match &self.why {
            Why::Status => None,
            Why::Driver(answer) => Some(answer.to_string()),
            Why::Rule(rule) => Some(rule.to_string()),
        }
    }
}

/// Failures are the same if a program sees no difference: by their status.
impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Eq for Failure {}

impl From<NTSTATUS> for Failure {
    fn from(status: NTSTATUS) -> Self {
        Self { status, why: Why::Status }
    }
}

impl From<DriverAnswer> for Failure {
    fn from(answer: DriverAnswer) -> Self {
        let why = if answer.answer == Answer::Stopped { Why::Status } else { Why::Driver(answer) };
        Self { status: answer.status(), why }
    }
}

/// A request fails with this status for a field and a rule.
pub(crate) fn refused(status: NTSTATUS, why: impl Into<String>) -> Failure {
    Failure { status, why: Why::Rule(why.into().into_boxed_str()) }
}
