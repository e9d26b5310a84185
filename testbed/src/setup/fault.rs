//! The option `--fault`: a fault that the GPU is to have, by text.

use std::fmt;
use std::io;
use std::str::FromStr;

use campanile_device::{FaultId, FaultRule, HangAt, Often};
use campanile_hw::registers::{NODE_COMPUTE, NODES};

use super::gpu_handle::FaultsHandle;

/// A fault, parsed from text such as `hang:node=1,after=100`, or `lost-interrupts=1%` for one that comes by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultOption {
    /// The fault.
    pub rule: FaultRule,
    /// Frequency of the fault.
    pub often: Often,
    text: String,
}

/// Faults that take a chance in percent: each time that one could strike, it is drawn whether it does.
const BY_CHANCE: [(&str, FaultRule); 7] = [
    ("lost-interrupts", FaultRule::LostInterrupt),
    ("late-interrupts", FaultRule::LateInterrupt { steps: LATE }),
    ("doubled-interrupts", FaultRule::DoubledInterrupt),
    ("reordered-interrupts", FaultRule::ReorderedInterrupt),
    ("lost-log-entries", FaultRule::LostLogEntry),
    ("missed-rings", FaultRule::MissedRing),
    ("lost-suspensions", FaultRule::LostSuspension),
];

/// Steps of the GPU by which `late-interrupts` are late.
const LATE: u64 = 1000;

/// Percents, with up to four decimals, in millionths.
pub(super) fn chance(text: &str) -> Result<u32, String> {
    let percents = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percents {
        Some(percents) if percents > 0.0 && percents <= 100.0 => Ok((percents * 10_000.0).round() as u32),
        _ => Err(format!("`{text}` is not a chance; name a percentage above 0 and up to 100, such as 1% or 0.05%")),
    }
}

impl FaultOption {
    /// Injects the fault into a GPU. `seed` seeds the draws of a fault that comes by chance.
    ///
    /// # Panics
    /// The GPU's process is gone.
    pub fn arm(&self, faults: FaultsHandle<'_>, seed: u64) -> FaultId {
        self.try_arm(faults, seed).expect("the process of the GPU answers")
    }

    /// As [`FaultOption::arm`].
    ///
    /// # Errors
    /// The GPU's process is gone.
    pub fn try_arm(&self, faults: FaultsHandle<'_>, seed: u64) -> io::Result<FaultId> {
        let often = match self.often {
            Often::Chance { millionths, .. } => Often::Chance { millionths, seed },
            times => times,
        };
        faults.try_inject(self.rule, often)
    }
}

impl fmt::Display for FaultOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Kinds of faults with settings: the name, and what `--help` says of it.
const KINDS: [(&str, &str); 12] = [
    (
        "hang",
        "the node hangs in a packet until it is reset: node=N, after=PACKETS or signal=VALUE; with `reported` its watchdog reports that at once",
    ),
    ("stuck-suspend", "a suspension or preemption is never answered: node=N"),
    ("lost-interrupt", "an interrupt message is not sent"),
    ("lost-suspension", "a queue that was asked to stop has stopped, and neither an event nor an interrupt says so"),
    ("late-interrupt", "an interrupt message is sent steps=N steps of the GPU later"),
    ("reset-fails", "the reset of a node is refused: node=N"),
    ("connect-fails", "a doorbell cannot be connected: node=N"),
    ("reset-held", "the reset of a node begins ms=N milliseconds later: node=N"),
    ("reset-takes-along", "the reset of a node also loses its other queues that have work: node=N"),
    ("reset-loses-memory", "a reset of the whole GPU loses the contents of VRAM"),
    ("completion-races-reset", "a hang ends, and its packet completes, right before the reset of the node: node=N"),
    ("register", "the register at offset=N reads as value=N"),
];

/// The names of all faults, for error messages.
fn known() -> String {
    let kinds = KINDS.iter().map(|(name, _)| (*name).to_owned());
    kinds.chain(BY_CHANCE.iter().map(|(name, _)| format!("{name}=P%"))).collect::<Vec<_>>().join(", ")
}

/// The help of an option that takes a fault: what it does, then every kind of fault with its settings.
pub fn help(does: &str) -> String {
    let kinds: Vec<_> = KINDS.iter().map(|(name, text)| format!("  {name:<22}  {text}")).collect();
    let by_chance: Vec<_> = BY_CHANCE.iter().map(|(name, _)| format!("{name}=P%")).collect();
    format!(
        "{does}\n\n\
         FAULT is a kind with settings, such as hang:node=1,after=100. Nodes are 0 (compute, the default), 1 (copy) and 2 (paging). Every kind takes \
         times=N, the number of times that it strikes, once by default:\n{}\n\
         With a chance of P percent for each event, drawn from the seed of the run: {}",
        kinds.join("\n"),
        by_chance.join(", ")
    )
}

/// The settings of a fault, which follow the colon.
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

    /// Takes out the number of a setting, decimal or hexadecimal with 0x; `None` if the setting is not given.
    fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(place) = self.pairs.iter().position(|(name, _)| *name == key) else { return Ok(None) };
        let (_, value) = self.pairs.remove(place);
        let value = value.ok_or_else(|| format!("`{key}` needs a value, as in `{}:{key}=1`", self.kind))?;
        let parsed = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        parsed.map(Some).map_err(|_| {
            format!(
                "`{value}` is not a number for `{key}`; name a decimal one, or a hexadecimal one with 0x, below 2^64"
            )
        })
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        let Some(place) = self.pairs.iter().position(|(name, _)| *name == key) else { return Ok(false) };
        let (_, value) = self.pairs.remove(place);
        match value {
            None => Ok(true),
            Some(value) => Err(format!("`{key}` takes no value; leave out `={value}`")),
        }
    }

    fn needed(&mut self, key: &str) -> Result<u64, String> {
        let kind = self.kind;
        self.number(key)?.ok_or_else(|| format!("`{kind}` needs a number, as in `{kind}:{key}=1`"))
    }

    fn node(&mut self) -> Result<u32, String> {
        let number = self.number("node")?.unwrap_or(u64::from(NODE_COMPUTE));
        let node = u32::try_from(number).ok().filter(|node| *node < NODES);
        node.ok_or_else(|| format!("there is no node {number}; name one of 0 (compute), 1 (copy) and 2 (paging)"))
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
            return Err("with `times=0` the fault would never strike; name a number from 1 on".to_owned());
        }
        let rule = match settings.kind {
            "hang" => {
                let (node, reported) = (settings.node()?, settings.flag("reported")?);
                let at = match (settings.number("after")?, settings.number("signal")?) {
                    (Some(_), Some(_)) => {
                        return Err("`after` and `signal` exclude each other: both say at which packet the node hangs"
                            .to_owned());
                    }
                    (_, Some(value)) => HangAt::Signal(value),
                    (after, None) => HangAt::After(after.unwrap_or(0)),
                };
                FaultRule::Hang { node, queue: None, at, reported }
            }
            "stuck-suspend" => FaultRule::StuckSuspend { node: settings.node()? },
            "lost-interrupt" => FaultRule::LostInterrupt,
            "lost-suspension" => FaultRule::LostSuspension,
            "late-interrupt" => FaultRule::LateInterrupt { steps: settings.needed("steps")? },
            "reset-fails" => FaultRule::ResetFails { node: settings.node()? },
            "connect-fails" => FaultRule::ConnectFails { node: settings.node()? },
            "reset-held" => FaultRule::ResetHeld { node: settings.node()?, milliseconds: settings.needed("ms")? },
            "reset-takes-along" => FaultRule::ResetTakesAlong { node: settings.node()? },
            "reset-loses-memory" => FaultRule::ResetLosesMemory,
            "completion-races-reset" => FaultRule::CompletionRacesReset { node: settings.node()? },
            "register" => FaultRule::Register { offset: settings.needed("offset")?, value: settings.needed("value")? },
            kind => return Err(format!("unknown fault `{kind}`; known are {}", known())),
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
        assert_eq!(rule("hang:node=1, after=0x10,reported"), Ok((hang(1, HangAt::After(16), true), Often::Times(1))));
        assert_eq!(rule("hang:signal=7,times=3"), Ok((hang(0, HangAt::Signal(7), false), Often::Times(3))));
        assert_eq!(rule("lost-interrupt:times=2"), Ok((FaultRule::LostInterrupt, Often::Times(2))));
        assert_eq!(rule("reset-loses-memory"), Ok((FaultRule::ResetLosesMemory, Often::Times(1))));
        assert_eq!(rule("connect-fails:node=1"), Ok((FaultRule::ConnectFails { node: 1 }, Often::Times(1))));
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
    fn each_kind_of_the_help_is_read() {
        for (kind, text) in KINDS {
            let refusal = kind.parse::<FaultOption>().err().unwrap_or_default();
            assert!(!refusal.contains("unknown"), "{kind}: {refusal}");
            for setting in ["node", "after", "signal", "ms", "steps", "offset", "value"]
                .iter()
                .filter(|key| text.contains(&format!("{key}=")))
            {
                let refusal = format!("{kind}:{setting}=1").parse::<FaultOption>().err().unwrap_or_default();
                assert!(!refusal.contains("takes no"), "{kind}: {refusal}");
            }
        }
    }

    #[test]
    fn mistakes_are_refused_by_name() {
        for (text, part) in [
            ("", "unknown fault"),
            ("explode", "known are hang"),
            ("hang:node=3", "no node 3"),
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
