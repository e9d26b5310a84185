//! The option `--tdr`: values below Control\GraphicsDrivers of the machines of this process.

use std::fmt;
use std::str::FromStr;

use dxgkrnl::TdrSettings;

use super::choice::Choice;

/// Values of timeout detection and recovery by their names in the registry, such as `TdrDelay=60,TdrTestMode=1`. [tdr-registry-keys]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TdrChoice(Vec<(String, u32)>);

/// Environment variable that names the values when the command line does not.
pub const TDR_VARIABLE: &str = "CAMPANILE_TDR";

static CHOICE: Choice<TdrChoice> = Choice::new(TDR_VARIABLE);

impl FromStr for TdrChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = |setting: &str| {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let value = value.trim().parse().map_err(|_| {
                format!("a setting of timeouts is a name and a number, such as TdrDelay=60, not `{setting}`")
            })?;
            TdrSettings::default().set(name.trim(), value).map_err(|error| error.to_string())?;
            Ok((name.trim().to_owned(), value))
        };
        text.split(',').map(value).collect::<Result<_, String>>().map(Self)
    }
}

impl fmt::Display for TdrChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&settings.join(","))
    }
}

impl TdrChoice {
    /// True if every value is the system's own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes these the values of every machine that this process boots, instead of those that the machine's options have by these names; the first choice counts.
    pub fn select(self) {
        CHOICE.select(self);
    }

    /// The selected values, else those that the environment names, else none.
    ///
    /// # Errors
    /// The environment variable has a name or a value that there is not; the message says which.
    pub fn selected() -> Result<Self, String> {
        CHOICE.selected().map(Option::unwrap_or_default)
    }

    /// These settings with the chosen values.
    ///
    /// # Errors
    /// A name or a value that there is not.
    pub(super) fn over(&self, mut settings: TdrSettings) -> Result<TdrSettings, String> {
        for (name, value) in &self.0 {
            settings.set(name, *value).map_err(|error| error.to_string())?;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn values_replace_those_of_the_registry_and_leave_the_others() {
        let choice: TdrChoice = "TdrDelay=60, tdrtestmode=1".parse().unwrap();
        let expected = TdrSettings { delay: Duration::from_mins(1), test_mode: true, ..TdrSettings::default() };
        assert_eq!(choice.over(TdrSettings::default()), Ok(expected));
        assert_eq!(TdrChoice::default().over(expected), Ok(expected));
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }

    #[test]
    fn what_is_no_setting_is_refused_by_its_name() {
        for (text, named) in [
            ("", "``"),
            ("TdrDelay", "`TdrDelay`"),
            ("TdrDelay=soon", "`TdrDelay=soon`"),
            ("TdrDelay=60,", "``"),
            ("TdrDelay=0", "TdrDelay"),
            ("TdrWait=1", "TdrWait"),
        ] {
            let error = text.parse::<TdrChoice>().unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
