//! Resets that reach the function as PCI knows them, while it works: through configuration space, not by way of its driver.

mod load;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use campanile_umd::{Adapter, Device, Error, LossReason, Node, Placement, Recoverable, RecoveryOptions};
use dxgkrnl::{TdrOutcome, TdrReason, TdrSettings};
use load::{Ended, Resources, SIZE, wait_forever, work};
use testbed::setup::{BusChoice, System, SystemOptions};

/// Power management control and status, and device control of PCI Express, where the manual says that they are.
const POWER_CONTROL: u16 = 0x44;
const DEVICE_CONTROL: u16 = 0x68;
const FUNCTION_LEVEL_RESET: u32 = 1 << 15;
const D3HOT: u32 = 3;

type Reset = (&'static str, fn(&System));

/// Resets of a function of which its driver is not told.
const RESETS: [Reset; 3] = [
    ("function-level reset", |system| system.bus().config_write(DEVICE_CONTROL, 2, FUNCTION_LEVEL_RESET)),
    ("D3hot", |system| {
        system.bus().config_write(POWER_CONTROL, 2, D3HOT);
        system.bus().config_write(POWER_CONTROL, 2, 0);
    }),
    ("conventional reset", |system| system.gpu().reset()),
];

const BUSES: [BusChoice; 2] = [BusChoice::Direct, BusChoice::Served];

/// Both engines and a waiting thread are at it when `reset` runs; how the workers ended, and the waiter.
fn in_use(system: &mut System, reset: impl FnOnce(&mut System)) -> (Vec<Ended>, Result<(), Error>) {
    let process = dxgkrnl::Process::new(system.machine(), "application");
    let adapter = {
        let _attached = process.attach();
        Adapter::open_luid(dxgkrnl::thunks(), system.luid()).expect("the adapter is there")
    };
    let begun = [const { AtomicBool::new(false) }; 3];
    let ended = std::thread::scope(|scope| {
        let [compute, copy, waits] = &begun;
        let (process, adapter) = (&process, &adapter);
        let workers = [(Node::Compute, compute), (Node::Copy, copy)]
            .map(|(node, done)| scope.spawn(move || work(process, adapter, node, done)));
        let waiter = scope.spawn(|| wait_forever(process, adapter, waits));
        while !begun.iter().all(|begun| begun.load(Ordering::Acquire)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        reset(system);
        let workers = workers.map(|worker| worker.join().expect("the worker does not panic"));
        (workers.to_vec(), waiter.join().expect("the waiter does not panic"))
    });
    {
        let _attached = process.attach();
        drop(adapter);
    }
    process.exit();
    ended
}

/// New work on the adapter writes what it should, on both engines.
fn works(system: &System) {
    let process = dxgkrnl::Process::new(system.machine(), "afterwards");
    {
        let _attached = process.attach();
        let adapter = Adapter::open_luid(dxgkrnl::thunks(), system.luid()).expect("there is an adapter");
        for node in [Node::Compute, Node::Copy] {
            let make =
                |device: &Device| Ok::<_, Error>(Resources { target: device.create_buffer(SIZE, Placement::System)? });
            let mut work = Recoverable::new(&adapter, node, RecoveryOptions::default(), make).expect("it works");
            work.submit(|commands, app| commands.fill(app.target.gpu_address(), SIZE, 0x5a5a_5a5a))
                .expect("it takes work");
            work.wait(None).expect("it does the work");
        }
    }
    process.exit();
}

#[test]
fn a_reset_that_the_bus_announces_is_a_removal_and_the_function_starts_again() {
    for bus in BUSES {
        for (name, reset) in RESETS {
            let options = SystemOptions { bus: Some(bus.clone()), ..SystemOptions::default() };
            let mut system = System::boot(&options).expect("it boots");
            for _ in 0..2 {
                let (workers, waiter) = in_use(&mut system, |system| {
                    reset(system);
                    system.notice_reset(0).expect("the adapter leaves");
                });
                for worker in workers {
                    assert_eq!(worker, (Error::DeviceLost, Some(LossReason::Removed)), "{bus}, {name}");
                }
                assert_eq!(waiter, Err(Error::DeviceLost), "{bus}, {name}");
                assert_eq!(system.machine().bugcheck(), None, "{bus}, {name}");
                system.start().expect("the function starts again");
                works(&system);
            }
            system.shutdown().expect("nothing was left behind");
        }
    }
}

#[test]
fn a_reset_that_nobody_announces_is_a_timeout_of_the_adapter_and_the_function_starts_again() {
    for bus in BUSES {
        for (name, reset) in RESETS {
            let tdr = TdrSettings { delay: Duration::from_millis(200), ..TdrSettings::default() };
            let options = SystemOptions { bus: Some(bus.clone()), tdr, ..SystemOptions::default() };
            let mut system = System::boot(&options).expect("it boots");
            for round in 1..=2 {
                let (workers, waiter) = in_use(&mut system, |system| reset(system));
                for worker in workers {
                    assert_eq!(worker, (Error::DeviceLost, Some(LossReason::Reset)), "{bus}, {name}");
                }
                assert_eq!(waiter, Err(Error::DeviceLost), "{bus}, {name}");
                assert_eq!(system.machine().bugcheck(), None, "{bus}, {name}");
                let reports = || system.machine().tdr_reports(system.luid());
                // Devices are lost before the report is written.
                while reports().len() < round && system.machine().bugcheck().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let reasons: Vec<_> = reports().iter().map(|report| (report.reason, report.outcome)).collect();
                assert_eq!(reasons.len(), round, "{bus}, {name}: {reasons:?}");
                assert_eq!(
                    reasons.last(),
                    Some(&(TdrReason::FunctionReset, TdrOutcome::AdapterReset)),
                    "{bus}, {name}"
                );
                works(&system);
            }
            system.shutdown().expect("nothing was left behind");
        }
    }
}
