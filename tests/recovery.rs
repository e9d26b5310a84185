//! Recovery after a device is lost, as an application would write it, on the whole stack.

use std::sync::Arc;
use std::time::Duration;

use campanile_device::{FaultRule, HangAt};
use campanile_umd::{
    Adapter, Buffer, Device, Error, Fence, LossReason, Node, Placement, Queue, QueueOptions, Recoverable,
    RecoveryOptions, SubmissionModel, Unfinished,
};
use dxgkrnl::{Clock, Process, TdrSettings};
use testbed::setup::{System, SystemOptions};

const SIZE: u64 = 4096;
/// An address that nothing is mapped to.
const NOWHERE: u64 = 0x7abc_def0_0000;

struct World {
    system: System,
    process: Arc<Process>,
}

/// Resources that the application makes anew on each device.
struct Resources {
    target: Buffer,
    fence: Fence,
}

fn make(device: &Device) -> Result<Resources, Error> {
    Ok(Resources { target: device.create_buffer(SIZE, Placement::System)?, fence: Fence::new(device, 0)? })
}

impl World {
    fn new(options: SystemOptions) -> Self {
        let system = System::boot(&options).unwrap();
        let process = Process::new(system.machine(), "recovery");
        Self { system, process }
    }

    fn by_hand() -> Self {
        Self::new(SystemOptions { clock: Clock::manual(), ..SystemOptions::default() })
    }

    fn run(self, work: impl FnOnce(&Self, &Adapter)) {
        {
            let _attached = self.process.attach();
            let adapter = Adapter::open_luid(dxgkrnl::thunks(), self.system.luid()).unwrap();
            work(&self, &adapter);
        }
        self.process.exit();
        self.system.shutdown().unwrap();
    }

    /// The next packet of the compute engine hangs, and its watchdog says so at once.
    fn hang_next(&self) {
        let rule = FaultRule::Hang { node: 0, queue: None, at: HangAt::After(0), reported: true };
        self.system.gpu().faults().inject(rule);
    }
}

/// The first byte of the target of `work`, seen by the CPU.
fn first_byte(work: &Recoverable<Resources>) -> u8 {
    let mut byte = [0];
    let mapping = work.resources().target.map().unwrap();
    mapping.read(0, &mut byte).unwrap();
    byte[0]
}

#[test]
fn work_that_hung_is_replayed_on_a_new_device_and_what_was_done_is_not() {
    let world = World::by_hand();
    world.run(|world, adapter| {
        let mut work = Recoverable::new(adapter, Node::Compute, RecoveryOptions::default(), make).unwrap();
        work.submit(|commands, app| commands.fill(app.target.gpu_address(), SIZE, 1)).unwrap();
        work.wait(None).unwrap();
        world.hang_next();
        work.submit(|commands, app| commands.fill(app.target.gpu_address(), SIZE, 0x0202_0202)).unwrap();
        work.submit_once(|commands, app| commands.signal(&app.fence, 9)).unwrap();
        work.submit(|commands, app| commands.signal(&app.fence, 3)).unwrap();
        assert_eq!(work.wait(None), Err(Error::DeviceLost));
        assert_eq!(work.device().loss(), Ok(Some(LossReason::Hung)));
        let recovered = work.recover().unwrap();
        assert_eq!(
            (recovered.reason, recovered.replayed, recovered.given_up, recovered.model),
            (Some(LossReason::Hung), 2, 1, SubmissionModel::User)
        );
        work.wait(None).unwrap();
        assert_eq!((first_byte(&work), work.resources().fence.value(), work.recoveries()), (2, 3, 1));
        assert_eq!(work.device().loss(), Ok(None));
    });
}

#[test]
fn a_fault_is_named_and_after_so_many_losses_work_goes_through_the_kernel() {
    World::new(SystemOptions::default()).run(|_, adapter| {
        let options = RecoveryOptions { kernel_after: 2, ..RecoveryOptions::default() };
        let mut work = Recoverable::new(adapter, Node::Copy, options, make).unwrap();
        for model in [SubmissionModel::User, SubmissionModel::Kernel, SubmissionModel::Kernel] {
            // Work that must not be done again is given up with the device that it cost.
            let _ = work.submit_once(|commands, _| commands.fill(NOWHERE, SIZE, 0));
            assert_eq!(work.wait(None), Err(Error::DeviceLost));
            let recovered = work.recover().unwrap();
            assert_eq!((recovered.reason, recovered.model), (Some(LossReason::Fault), model));
            work.submit(|commands, app| commands.fill(app.target.gpu_address(), SIZE, 5)).unwrap();
            work.wait(None).unwrap();
            assert_eq!(first_byte(&work), 5);
        }
    });
}

#[test]
fn a_reset_of_the_adapter_is_named_and_recovered_from_by_those_it_took_along() {
    let world = World::by_hand();
    world.run(|world, adapter| {
        let mut innocent = Recoverable::new(adapter, Node::Copy, RecoveryOptions::default(), make).unwrap();
        let mut guilty = Recoverable::new(adapter, Node::Compute, RecoveryOptions::default(), make).unwrap();
        innocent.submit(|commands, app| commands.signal(&app.fence, 1)).unwrap();
        innocent.wait(None).unwrap();
        world.system.gpu().faults().inject(FaultRule::ResetFails { node: 0 });
        world.hang_next();
        guilty.submit(|commands, app| commands.signal(&app.fence, 1)).unwrap();
        assert_eq!(guilty.wait(None), Err(Error::DeviceLost));
        while innocent.device().loss() == Ok(None) {
            std::thread::yield_now();
        }
        assert_eq!(innocent.device().loss(), Ok(Some(LossReason::Reset)));
        for work in [&mut innocent, &mut guilty] {
            work.recover().unwrap();
            work.submit(|commands, app| commands.signal(&app.fence, 7)).unwrap();
            work.wait(None).unwrap();
            assert_eq!(work.resources().fence.value(), 7);
        }
        let reports = world.system.machine().tdr_reports(world.system.luid());
        assert_eq!(reports.last().and_then(|report| report.reason.number()), Some(9));
    });
}

#[test]
fn records_are_bounded_and_kept_until_their_work_is_seen_done() {
    World::by_hand().run(|world, adapter| {
        let options = RecoveryOptions { records: 3, ..RecoveryOptions::default() };
        let mut work = Recoverable::new(adapter, Node::Compute, options, make).unwrap();
        let gate = Fence::new(work.device(), 0).unwrap();
        let waits = gate.clone();
        work.submit_once(|commands, _| commands.wait(&waits, 1)).unwrap();
        for _ in 0..2 {
            work.submit(|commands, app| commands.signal(&app.fence, 1)).unwrap();
        }
        assert_eq!(work.submit(|commands, _| commands.nop()), Err(Error::RecordsFull));
        // A look of the system at blocked work costs it nothing.
        (0..3).for_each(|_| world.system.machine().advance(TdrSettings::default().delay));
        gate.signal(1).unwrap();
        work.wait(None).unwrap();
        work.submit(|commands, _| commands.nop()).unwrap();
        work.wait(Some(Duration::from_secs(20))).unwrap();
        let none = Recoverable::new(adapter, Node::Compute, RecoveryOptions { records: 0, ..options }, make);
        assert!(matches!(none, Err(Error::BadArgument(_))));
    });
}

#[test]
fn a_queue_moves_to_another_device_and_says_what_was_not_seen_done() {
    let world = World::by_hand();
    world.run(|world, adapter| {
        let device = Device::new(adapter).unwrap();
        let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default()).unwrap();
        let done = queue.submit(|commands| commands.nop()).unwrap();
        queue.wait_progress(done).unwrap();
        world.hang_next();
        for _ in 0..4 {
            queue.submit(|commands| commands.nop()).unwrap();
        }
        assert_eq!(queue.wait_progress(done + 4), Err(Error::DeviceLost));
        let fresh = device.replacement().unwrap();
        let unfinished = queue.recover(&fresh, Some(SubmissionModel::Kernel)).unwrap();
        assert_eq!(unfinished, Unfinished { first: done + 1, count: 4 });
        let value = queue.submit(|commands| commands.nop()).unwrap();
        queue.wait_progress(value).unwrap();
        assert_eq!((queue.model(), queue.seen()), (SubmissionModel::Kernel, value));
    });
}
