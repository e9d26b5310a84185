//! What the command line selects for every machine that this process boots, and an environment variable where it does not.

use std::str::FromStr;
use std::sync::OnceLock;

/// An option that the environment variable stands in for. The first choice counts.
pub(super) struct Choice<T> {
    variable: &'static str,
    made: OnceLock<Option<T>>,
}

impl<T: Clone + FromStr<Err = String>> Choice<T> {
    /// Nothing is selected yet.
    pub(super) const fn new(variable: &'static str) -> Self {
        Self { variable, made: OnceLock::new() }
    }

    /// For the command line.
    pub(super) fn select(&self, choice: T) {
        let _ = self.made.set(Some(choice));
    }

    /// What is selected, else what the environment says, if anything.
    ///
    /// # Errors
    /// The variable says what is no choice; the message names both.
    pub(super) fn selected(&self) -> Result<Option<T>, String> {
        if let Some(choice) = self.made.get() {
            return Ok(choice.clone());
        }
        let choice = match std::env::var(self.variable) {
            Ok(text) => Some(text.parse().map_err(|error| format!("{}: {error}", self.variable))?),
            Err(_) => None,
        };
        Ok(self.made.get_or_init(|| choice).clone())
    }
}
