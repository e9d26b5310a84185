//! A process of the guest that keeps the GPU busy until its GPU is reset, removed or put to sleep, or the process is killed.

use std::io;
use std::thread;
use std::time::Duration;

use campanile_hw::registers::CONTROL;
use clap::ValueEnum;
use dxgkrnl::bus::Bus;
use dxgkrnl::{TdrLevel, TdrSettings};

use super::images;
use super::protocol::{Step, placeholder};
use crate::print::print;
use crate::probe::DoorbellProbe;
use campanile_conformance::Failure;
use testbed::exit::{EXIT_MACHINE, EXIT_OK};
use testbed::setup::{System, SystemOptions, capability, reset_functions};

/// Queues whose doorbells are rung in turn; one more waits for what never comes.
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
/// The interval at which a function is looked at that will not answer soon.
const LOOK: Duration = Duration::from_millis(2);
/// Value of every read of a function that does not answer.
const NOBODY: u64 = u32::MAX as u64;

/// Action that the process takes on its own GPU when work is under way.
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
    /// Works until the adapter is removed in order, and ends.
    Removed,
    /// Works until the adapter is gone by surprise, and ends.
    Surprised,
}

impl Then {
    fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Flr => "flr",
            Self::VfioReset => "vfio-reset",
            Self::Sleep => "sleep",
            Self::Gone => "gone",
            Self::Removed => "removed",
            Self::Surprised => "surprised",
        }
    }

    /// Something else has to happen first, under load.
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Nothing | Self::Gone | Self::Removed | Self::Surprised)
    }

    /// The step of a guest that does it to one of its GPUs.
    pub(super) fn step(self, gpu: usize) -> Step {
        let mut arguments: Vec<String> = ["load", "--then", self.word()].map(str::to_owned).into();
        arguments.extend(images::on_bus(&[placeholder(gpu)]));
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
            testbed::complain!("campanile: {error}");
            return error.exit_code();
        }
    };
    if matches!(then, Then::Removed | Then::Surprised) {
        return removed(system, then);
    }
    let process = dxgkrnl::Process::new(system.machine(), "load");
    let _attached = process.attach();
    let failure = match work(&system, then) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    testbed::complain!("campanile: {failure}");
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
    // Nothing blocks a process that still rings, whatever has become of the function.
    let ring = || working.iter().for_each(DoorbellProbe::store);
    happen(&**system.bus(), then, &ring)?;
    print(HAPPENED);
    loop {
        thread::park();
    }
}

/// Works until the adapter is removed beneath it, looks at what that has left, and takes the machine down.
fn removed(mut system: System, then: Then) -> u8 {
    let process = dxgkrnl::Process::new(system.machine(), "load");
    let lost = {
        let _attached = process.attach();
        until_lost(&mut system, then)
    };
    process.exit();
    let ended = system.shutdown();
    if let Err(failure) = lost {
        testbed::complain!("campanile: {failure}");
        return EXIT_MACHINE;
    }
    match ended {
        Ok(()) => {
            print(HAPPENED);
            EXIT_OK
        }
        Err(error) => {
            testbed::complain!("campanile: {error}");
            error.exit_code()
        }
    }
}

fn until_lost(system: &mut System, then: Then) -> Result<(), Failure> {
    let luid = system.luid();
    let probes = (0..=QUEUES).map(|_| DoorbellProbe::new(luid));
    let mut probes = probes.collect::<Result<Vec<_>, _>>()?;
    let (waiting, working) = probes.split_first_mut().ok_or_else(|| Failure::new("no queue"))?;
    waiting.block()?;
    system.machine().start_ddi_log(luid);
    for rounds in 1.. {
        // A wait that was accepted ends, whatever becomes of the adapter; the next one is refused then.
        if working.iter_mut().try_for_each(|probe| probe.interrupt().map(drop)).is_err() {
            break;
        }
        if rounds == ROUNDS {
            print(UNDER_LOAD);
        }
    }
    // Nothing blocks a process that still rings.
    working.iter().for_each(DoorbellProbe::store);
    // What is refused may be ahead of the end of the removal, which this waits for.
    system.remove().map_err(|error| Failure::new(error.to_string()))?;
    for probe in &probes {
        probe.is_lost(luid)?;
    }
    let log = system.machine().take_driver_ddi_log(system.driver());
    let position = |name: &str| log.iter().position(|called| called == name);
    let (told, stopped) = (position("DxgkDdiNotifySurpriseRemoval"), position("DxgkDdiStopDevice"));
    match (then, told, stopped) {
        (Then::Surprised, Some(told), Some(stopped)) if told < stopped => Ok(()),
        (Then::Removed, None, Some(_)) => Ok(()),
        _ if position("DxgkDdiRemoveDevice").is_none() => Err(Failure::new("the driver has not removed its device")),
        _ => {
            Err(Failure::new(format!("the driver was told of a surprise at call {told:?}, and stopped at {stopped:?}")))
        }
    }
}

fn happen(bus: &dyn Bus, then: Then, ring: &dyn Fn()) -> Result<(), Failure> {
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
        Then::Nothing | Then::Removed | Then::Surprised => {}
        // A machine whose card is pulled out is not told of it in time.
        Then::Gone => {
            while control() != NOBODY {
                thread::sleep(LOOK);
            }
            ring();
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
            // Real systems disconnect doorbells first. Who rings all the same stores to a page that Linux has taken away.
            ring();
            expect(control(), NOBODY, "in D3hot, after doorbells were rung")?;
            bus.config_write(at, 2, D0);
        }
    }
    expect(control(), 0, "afterwards")
}
