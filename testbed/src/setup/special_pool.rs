//! The option `--special-pool`: the kind of pool that drivers of this process get.

use std::fmt;

use dxgkrnl::verifier::SpecialPool;

use super::choice::Choice;

/// A kind of pool to give to drivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolChoice(pub SpecialPool);

/// Environment variable that names the pool when the command line does not: `off`, `end` or `start`.
pub const POOL_VARIABLE: &str = "CAMPANILE_SPECIAL_POOL";

static CHOICE: Choice<PoolChoice> = Choice::new(POOL_VARIABLE);

impl std::str::FromStr for PoolChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self(SpecialPool::Off)),
            "end" => Ok(Self(SpecialPool::VerifyEnd)),
            "start" => Ok(Self(SpecialPool::VerifyStart)),
            other => Err(format!("special pool is `off`, `end` or `start`, not `{other}`")),
        }
    }
}

impl fmt::Display for PoolChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            SpecialPool::Off => "off",
            SpecialPool::VerifyEnd => "end",
            SpecialPool::VerifyStart => "start",
        })
    }
}

impl PoolChoice {
    /// Makes this the pool of every machine that this process boots; the first choice counts.
    pub fn select(self) {
        CHOICE.select(self);
    }

    /// The selected pool, else what the environment names, else ordinary pool.
    ///
    /// # Errors
    /// The environment names none that there is.
    pub fn selected() -> Result<Self, String> {
        CHOICE.selected().map(Option::unwrap_or_default)
    }

    /// [`PoolChoice::selected`] for reports of machines that have booted, which a wrong choice prevents.
    pub fn name() -> String {
        Self::selected().unwrap_or_default().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_is_read_as_it_is_written_and_others_are_refused_by_name() {
        for mode in [SpecialPool::Off, SpecialPool::VerifyEnd, SpecialPool::VerifyStart] {
            assert_eq!(PoolChoice(mode).to_string().parse(), Ok(PoolChoice(mode)));
        }
        assert!("both".parse::<PoolChoice>().unwrap_err().contains("both"));
    }
}
