//! Faults of the GPU by text.

use std::fmt;
use std::str::FromStr;

use campanile_device::{FaultId, FaultRule, HangAt, Often};
use campanile_hw::registers::{NODE_COMPUTE, NODES};

use super::FaultsHandle;

/// A fault, parsed from text such as `hang:engine=1,after=100`, or `lost-interrupts=1%` for one that comes by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultOption {
    /// The fault.
    pub rule: FaultRule,
    /// Frequency of the fault.
    pub often: Often,
    text: String,
}

/// Faults that come by chance, each time that one could.
const BY_CHANCE: [(&str, FaultRule); 6] = [
    ("lost-interrupts", FaultRule::LostInterrupt),
    ("late-interrupts", FaultRule::LateInterrupt { steps: LATE }),
    ("doubled-interrupts", FaultRule::DoubledInterrupt),
    ("reordered-interrupts", FaultRule::ReorderedInterrupt),
    ("lost-log-entries", FaultRule::LostLogEntry),
    ("missed-rings", FaultRule::MissedRing),
];

/// Steps of the GPU by which `late-interrupts` are late.
const LATE: u64 = 1000;

/// Percents, with up to four decimals, in millionths.
fn chance(text: &str) -> Result<u32, String> {
    let percents = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percents {
        Some(percents) if percents > 0.0 && percents <= 100.0 => Ok((percents * 10_000.0).round() as u32),
        _ => Err(format!("`{text}` is not a chance such as 1% or 0.05%")),
    }
}

impl FaultOption {
    /// Lets it go wrong with a GPU from now on. What comes by chance is drawn from `seed`.
    pub fn arm(&self, faults: FaultsHandle<'_>, seed: u64) -> FaultId {
        let often = match self.often {
            Often::Chance { millionths, .. } => Often::Chance { millionths, seed },
            times => times,
        };
        faults.inject_often(self.rule, often)
    }
}

impl fmt::Display for FaultOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kinds that [`FaultOption`] understands.
const KINDS: &str = "hang, stuck-suspend, lost-interrupt, late-interrupt, reset-fails, connect-fails, reset-held, reset-takes-along, reset-loses-memory, \
                     completion-races-reset, register, and by chance lost-interrupts=P%, late-interrupts=P%, doubled-interrupts=P%, \
                     reordered-interrupts=P%, lost-log-entries=P%, missed-rings=P%";

/// The settings behind the colon.
struct Settings<'a> {
    kind: &'a str,
    pairs: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Settings<'a> {
    fn new(text: &'a str) -> Self {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let words = rest.split(',').map(str::trim).filter(|word| !word.is_empty());
        let pair =
            |word: &'a str| word.split_once('=').map_or((word, None), |(key, value)| (key.trim(), Some(value.trim())));
        Self { kind: kind.trim(), pairs: words.map(pair).collect() }
    }

    /// Takes a number out, decimal or with 0x.
    fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(place) = self.pairs.iter().position(|(name, _)| *name == key) else { return Ok(None) };
        let (_, value) = self.pairs.remove(place);
        let value = value.ok_or_else(|| format!("`{key}` needs a value"))?;
        let parsed = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        parsed.map(Some).map_err(|_| format!("`{value}` is not a number for `{key}`"))
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        let Some(place) = self.pairs.iter().position(|(name, _)| *name == key) else { return Ok(false) };
        let (_, value) = self.pairs.remove(place);
        if value.is_none() { Ok(true) } else { Err(format!("`{key}` takes no value")) }
    }

    fn needed(&mut self, key: &str) -> Result<u64, String> {
        let kind = self.kind;
        self.number(key)?.ok_or_else(|| format!("`{kind}` needs a number, as in `{kind}:{key}=1`"))
    }

    fn engine(&mut self) -> Result<u32, String> {
        let number = self.number("engine")?.unwrap_or(u64::from(NODE_COMPUTE));
        let node = u32::try_from(number).ok().filter(|node| *node < NODES);
        node.ok_or_else(|| format!("there is no engine {number}; there are 0 to {}", NODES - 1))
    }
}

impl FromStr for FaultOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((kind, value)) = text.split_once('=')
            && let Some((_, rule)) = BY_CHANCE.iter().find(|(name, _)| *name == kind.trim())
        {
            let often = Often::Chance { millionths: chance(value.trim())?, seed: 0 };
            return Ok(Self { rule: *rule, often, text: text.to_owned() });
        }
        let mut settings = Settings::new(text);
        let times = settings.number("times")?.unwrap_or(1);
        if times == 0 {
            return Err("`times=0` would never strike; name a number from 1 on".to_owned());
        }
        let rule = match settings.kind {
            "hang" => {
                let (node, reported) = (settings.engine()?, settings.flag("reported")?);
                let at = match (settings.number("after")?, settings.number("signal")?) {
                    (Some(_), Some(_)) => return Err("`after` and `signal` exclude each other".to_owned()),
                    (_, Some(value)) => HangAt::Signal(value),
                    (after, None) => HangAt::After(after.unwrap_or(0)),
                };
                FaultRule::Hang { node, queue: None, at, reported }
            }
            "stuck-suspend" => FaultRule::StuckSuspend { node: settings.engine()? },
            "lost-interrupt" => FaultRule::LostInterrupt,
            "late-interrupt" => FaultRule::LateInterrupt { steps: settings.needed("steps")? },
            "reset-fails" => FaultRule::ResetFails { node: settings.engine()? },
            "connect-fails" => FaultRule::ConnectFails { node: settings.engine()? },
            "reset-held" => FaultRule::ResetHeld { node: settings.engine()?, milliseconds: settings.needed("ms")? },
            "reset-takes-along" => FaultRule::ResetTakesAlong { node: settings.engine()? },
            "reset-loses-memory" => FaultRule::ResetLosesMemory,
            "completion-races-reset" => FaultRule::CompletionRacesReset { node: settings.engine()? },
            "register" => FaultRule::Register { offset: settings.needed("offset")?, value: settings.needed("value")? },
            kind => return Err(format!("unknown fault `{kind}`; known are {KINDS}")),
        };
        match settings.pairs.first() {
            Some((key, _)) => {
                Err(format!("`{}` takes no `{key}`; `campanile run --help` lists what each fault takes", settings.kind))
            }
            None => Ok(Self { rule, often: Often::Times(times), text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_with_their_settings() {
        let rule = |text: &str| text.parse::<FaultOption>().map(|fault| (fault.rule, fault.often));
        let hang = |node, at, reported| FaultRule::Hang { node, queue: None, at, reported };
        assert_eq!(rule("hang"), Ok((hang(0, HangAt::After(0), false), Often::Times(1))));
        assert_eq!(rule("hang:engine=1, after=0x10,reported"), Ok((hang(1, HangAt::After(16), true), Often::Times(1))));
        assert_eq!(rule("hang:signal=7,times=3"), Ok((hang(0, HangAt::Signal(7), false), Often::Times(3))));
        assert_eq!(rule("lost-interrupt:times=2"), Ok((FaultRule::LostInterrupt, Often::Times(2))));
        assert_eq!(rule("reset-loses-memory"), Ok((FaultRule::ResetLosesMemory, Often::Times(1))));
        assert_eq!(rule("connect-fails:engine=1"), Ok((FaultRule::ConnectFails { node: 1 }, Often::Times(1))));
        assert_eq!(rule("reset-held:ms=9"), Ok((FaultRule::ResetHeld { node: 0, milliseconds: 9 }, Often::Times(1))));
        assert_eq!(
            rule("register:offset=0x10,value=1"),
            Ok((FaultRule::Register { offset: 16, value: 1 }, Often::Times(1)))
        );
        assert_eq!("hang:after=3".parse::<FaultOption>().unwrap().to_string(), "hang:after=3");
    }

    #[test]
    fn a_fault_by_chance_has_percents() {
        for (text, millionths) in
            [("lost-interrupts=1%", 10_000), ("late-interrupts=0.05%", 500), ("doubled-interrupts=100%", 1_000_000)]
        {
            let fault: FaultOption = text.parse().unwrap();
            assert!(matches!(fault.often, Often::Chance { millionths: found, .. } if found == millionths), "{text}");
        }
    }

    #[test]
    fn mistakes_are_refused_by_name() {
        for (text, part) in [
            ("", "unknown fault"),
            ("explode", "known are hang"),
            ("hang:engine=3", "no engine 3"),
            ("hang:after=x", "`x` is not a number for `after`"),
            ("hang:after", "`after` needs a value"),
            ("hang:reported=1", "takes no value"),
            ("hang:after=1,signal=2", "exclude each other"),
            ("hang:speed=1", "`hang` takes no `speed`"),
            ("late-interrupt", "needs a number, as in `late-interrupt:steps=1`"),
            ("reset-fails:times=0", "from 1 on"),
            ("lost-interrupts=1", "not a chance"),
            ("lost-interrupts=0%", "not a chance"),
            ("late-interrupts=101%", "not a chance"),
        ] {
            let error = text.parse::<FaultOption>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
