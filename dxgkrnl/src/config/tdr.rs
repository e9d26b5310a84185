//! Settings of timeout detection and recovery, by their names in the registry. [tdr-registry-keys]

use std::fmt;
use std::time::Duration;

/// What happens when an engine does not answer. [tdr-registry-keys: TdrLevel]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrLevel {
    /// Nothing is looked for.
    Off,
    /// Bug check on timeout.
    BugCheck,
    /// Recover to VGA, which is not implemented: bug check.
    RecoverVga,
    /// Recover on timeout.
    Recover,
}

/// What a debugger is good for. [tdr-registry-keys: TdrDebugMode]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrDebugMode {
    /// Break before recovery; with no debugger attached, as here, recovery goes on.
    Break,
    /// A timeout is noted and nothing is done.
    Ignore,
    /// Recover without a break.
    Recover,
    /// Recover always, even where a condition of recovery is not met, as by more timeouts than TdrLimitCount.
    Always,
}

/// The settings of a machine, as they are when it boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TdrSettings {
    /// TdrLevel.
    pub level: TdrLevel,
    /// TdrDelay: how long an engine may take to be preempted.
    pub delay: Duration,
    /// TdrDdiDelay: how long a thread may stay in the driver while the adapter is to be reset.
    pub ddi_delay: Duration,
    /// TdrLimitTime: the stretch of time in which timeouts are counted.
    pub limit_time: Duration,
    /// TdrLimitCount: how many timeouts of the adapter that stretch may have.
    pub limit_count: u32,
    /// TdrDebugMode.
    pub debug_mode: TdrDebugMode,
    /// TdrTestMode: programs may force timeouts with D3DKMTEscape. [d3dkmthk: D3DKMT_ESCAPE, D3DKMT_ESCAPE_TDRDBGCTRL]
    pub test_mode: bool,
}

impl Default for TdrSettings {
    fn default() -> Self {
        Self {
            level: TdrLevel::Recover,
            delay: Duration::from_secs(2),
            ddi_delay: Duration::from_secs(5),
            limit_time: Duration::from_secs(60),
            limit_count: 5,
            debug_mode: TdrDebugMode::Recover,
            test_mode: false,
        }
    }
}

/// A setting that does not exist, or a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TdrSettingError {
    /// No setting has this name.
    UnknownName(String),
    /// The setting cannot have this value.
    BadValue {
        /// Name of the setting.
        name: &'static str,
        /// The value.
        value: u32,
    },
}

impl fmt::Display for TdrSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName(name) => write!(f, "there is no setting `{name}`; known are {}", NAMES.join(", ")),
            Self::BadValue { name, value } => write!(f, "{name} cannot be {value}"),
        }
    }
}

impl std::error::Error for TdrSettingError {}

/// Names of the settings.
const NAMES: [&str; 7] =
    ["TdrLevel", "TdrDelay", "TdrDdiDelay", "TdrLimitTime", "TdrLimitCount", "TdrDebugMode", "TdrTestMode"];

/// Seconds that delays may have.
const SECONDS_MAX: u32 = 900;

impl TdrSettings {
    /// Sets what the registry calls `name`, in any case, to the DWORD `value`; times are in seconds.
    ///
    /// # Errors
    /// See [`TdrSettingError`]; nothing changed then.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), TdrSettingError> {
        let known = NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name));
        let name = known.ok_or_else(|| TdrSettingError::UnknownName(name.to_owned()))?;
        let bad = TdrSettingError::BadValue { name, value };
        let seconds = || match value {
            1..=SECONDS_MAX => Ok(Duration::from_secs(value.into())),
            _ => Err(bad.clone()),
        };
        match name {
            "TdrLevel" => {
                let levels = [TdrLevel::Off, TdrLevel::BugCheck, TdrLevel::RecoverVga, TdrLevel::Recover];
                self.level = levels.get(value as usize).copied().ok_or(bad)?;
            }
            "TdrDelay" => self.delay = seconds()?,
            "TdrDdiDelay" => self.ddi_delay = seconds()?,
            // The time over which is counted is no delay and may be long.
            "TdrLimitTime" => self.limit_time = Duration::from_secs(value.into()),
            "TdrLimitCount" => self.limit_count = value,
            "TdrTestMode" => self.test_mode = [false, true].get(value as usize).copied().ok_or(bad)?,
            _ => {
                let modes = [TdrDebugMode::Break, TdrDebugMode::Ignore, TdrDebugMode::Recover, TdrDebugMode::Always];
                self.debug_mode = modes.get(value as usize).copied().ok_or(bad)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_windows() {
        let mut settings =
            TdrSettings { delay: Duration::ZERO, limit_count: 0, test_mode: true, ..TdrSettings::default() };
        let defaults = [3, 2, 5, 60, 5, 2, 0];
        for (name, value) in NAMES.into_iter().zip(defaults) {
            assert_eq!(settings.set(name, value), Ok(()), "{name}");
        }
        assert_eq!(settings, TdrSettings::default());
    }

    #[test]
    fn names_are_those_of_the_registry_and_bad_values_change_nothing() {
        let mut settings = TdrSettings::default();
        assert_eq!(settings.set("TDRDELAY", 10), Ok(()));
        let before = settings;
        for (name, value) in
            [("TdrLevel", 4), ("TdrDelay", 0), ("TdrDdiDelay", 901), ("TdrDebugMode", u32::MAX), ("TdrTestMode", 2)]
        {
            assert_eq!(settings.set(name, value), Err(TdrSettingError::BadValue { name, value }));
        }
        let unknown = settings.set("TdrDodPresentDelay", 1).unwrap_err();
        assert!(unknown.to_string().contains("TdrLimitCount"), "{unknown}");
        assert_eq!(settings, before);
    }
}
