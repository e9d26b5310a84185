//! Work that does not end, for a guest to which something happens meanwhile.

use std::io;
use std::thread;
use std::time::Duration;

use campanile_hw::registers::CONTROL;
use clap::ValueEnum;
use dxgkrnl::bus::Bus;
use dxgkrnl::{TdrLevel, TdrSettings};

use super::protocol::{Step, placeholder};
use super::suite;
use crate::cli::{EXIT_MACHINE, exit_code, print};
use crate::hlk::{DoorbellProbe, Failure};
use crate::setup::{System, SystemOptions, capability, reset_functions};

/// Queues whose doorbells are rung in turns; one more waits for what never comes.
const QUEUES: usize = 4;
/// Rounds after which work is under way for certain.
const ROUNDS: usize = 25;
/// Said when it is.
pub(super) const UNDER_LOAD: &str = "under load";
/// Said when what was to happen has happened.
pub(super) const HAPPENED: &str = "it has happened";

/// Power management and Express, as capabilities; control words in them. [PCIe base specification, 7.5.2 and 7.5.3]
const POWER: u32 = 0x01;
const POWER_CONTROL: u16 = 4;
const D0: u32 = 0;
const D3HOT: u32 = 3;
const EXPRESS: u32 = 0x10;
const DEVICE_CONTROL: u16 = 8;
const FUNCTION_LEVEL_RESET: u32 = 1 << 15;
/// How often a function is looked at that will not answer soon.
const LOOK: Duration = Duration::from_millis(2);
/// What is read of a function that does not answer.
const NOBODY: u64 = u32::MAX as u64;

/// What the process does to its own GPU when work is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// Nothing: it goes on for ever.
    #[default]
    Nothing,
    /// A function-level reset by a write to configuration space.
    Flr,
    /// VFIO_DEVICE_RESET.
    VfioReset,
    /// D3hot and back.
    Sleep,
    /// Waits until the function does not answer any more.
    Gone,
}

impl Then {
    fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Flr => "flr",
            Self::VfioReset => "vfio-reset",
            Self::Sleep => "sleep",
            Self::Gone => "gone",
        }
    }

    /// The step of a guest that does it.
    pub(super) fn step(self) -> Step {
        let mut arguments: Vec<String> = ["load", "--then", self.word()].map(str::to_owned).into();
        arguments.extend(suite::on_bus(&[placeholder(0)]));
        Step { name: format!("load ({})", self.word()), arguments }
    }
}

/// Runs until it is killed, or something fails.
pub fn command(then: Then) -> u8 {
    // Nobody is to notice what happens and make up for it.
    let tdr = TdrSettings { level: TdrLevel::Off, ..TdrSettings::default() };
    let system = match System::boot(&SystemOptions { tdr, ..SystemOptions::default() }) {
        Ok(system) => system,
        Err(error) => {
            eprintln!("campanile: {error}");
            return exit_code(&error);
        }
    };
    let process = system.machine().create_process("load");
    let _attached = process.attach();
    let failure = match work(&system, then) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    eprintln!("campanile: {failure}");
    // What is left of the machine cannot be taken down in order.
    std::process::exit(EXIT_MACHINE.into())
}

fn work(system: &System, then: Then) -> Result<std::convert::Infallible, Failure> {
    let probes = (0..=QUEUES).map(|_| DoorbellProbe::new(system.luid()));
    let mut probes = probes.collect::<Result<Vec<_>, _>>()?;
    let (waiting, working) = probes.split_first_mut().ok_or_else(|| Failure::new("no queue"))?;
    waiting.block()?;
    let mut rounds = 0;
    loop {
        for probe in &mut *working {
            probe.response()?;
            probe.interrupt()?;
        }
        rounds += 1;
        if rounds == ROUNDS {
            print(UNDER_LOAD);
            if then != Then::Nothing {
                break;
            }
        }
    }
    // Something is on its way when it happens.
    working.iter_mut().try_for_each(DoorbellProbe::begin)?;
    happen(&**system.bus(), then)?;
    if then == Then::Gone {
        // Nothing holds up who still rings.
        working.iter().for_each(|probe| probe.store());
    }
    print(HAPPENED);
    loop {
        thread::park();
    }
}

fn happen(bus: &dyn Bus, then: Then) -> Result<(), Failure> {
    let control = || bus.register_read(0, CONTROL, 4);
    let find = |id| capability(bus, id).map_err(|error: io::Error| Failure::new(error.to_string()));
    let expect = |found: u64, expected: u64, when: &str| match found == expected {
        true => Ok(()),
        false => Err(Failure::new(format!("CONTROL reads {found:#x} {when}, {expected:#x} expected"))),
    };
    if then != Then::Gone {
        expect(control(), 1, "under load")?;
    }
    match then {
        Then::Nothing => {}
        // A machine whose card is pulled out is not told of it in time.
        Then::Gone => {
            while control() != NOBODY {
                thread::sleep(LOOK);
            }
            return Ok(());
        }
        Then::VfioReset => reset_functions(),
        Then::Flr => {
            let at = find(EXPRESS)? + DEVICE_CONTROL;
            bus.config_write(at, 2, bus.config_read(at, 2) | FUNCTION_LEVEL_RESET);
        }
        Then::Sleep => {
            let at = find(POWER)? + POWER_CONTROL;
            bus.config_write(at, 2, D3HOT);
            expect(control(), NOBODY, "in D3hot")?;
            bus.config_write(at, 2, D0);
        }
    }
    expect(control(), 0, "afterwards")
}
