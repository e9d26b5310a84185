//! Random sequences of submissions of every size, with the GPU anywhere behind: nothing is lost, overwritten or run twice.
//!
//! The fake GPU checks every ring entry and packet it meets, so commands that were overwritten before they ran show at once.

mod fake;

use campanile_umd::*;
use fake::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Submit that many packets, waiting if need be.
    Submit(u32),
    /// Submit that many packets if there is space.
    Try(u32),
    /// Record that many packets, then give up.
    Cancel(u32),
    /// The GPU runs that many submissions.
    Run(usize),
    /// The doorbell is taken away.
    Disconnect,
    /// Wait for the last submission.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..130).prop_map(Step::Submit),
        4 => (0u32..130).prop_map(Step::Try),
        1 => (0u32..130).prop_map(Step::Cancel),
        4 => (1usize..6).prop_map(Step::Run),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Settle),
    ]
}

/// Fills one word for each packet, all with the submission's number.
fn record(commands: &mut Recorder<'_>, target: u64, packets: u32, tag: u32) -> Result<()> {
    (0..packets).try_for_each(|at| commands.fill(target + u64::from(at) * 4, 4, tag))
}

fn play(kernel: bool, steps: &[Step]) -> std::result::Result<(), TestCaseError> {
    os(|fake| *fake = Fake::new());
    let device = Device::new(&Adapter::open(&THUNKS).expect("adapter")).expect("device");
    let target = device.create_buffer(4096, Placement::System).expect("buffer");
    let view = target.map().expect("mapping");
    let model = kernel.then_some(SubmissionModel::Kernel);
    let options = QueueOptions { ring_entries: 128, command_bytes: 4096, model, ..QueueOptions::default() };
    let mut queue = Queue::new(&device, Node::Compute, options).expect("queue");
    let mut expected = [0u32; 130];
    let mut submitted = 0;
    for step in steps {
        let tag = submitted + 1;
        let outcome = match *step {
            Step::Submit(packets) => {
                queue.submit(|to| record(to, target.gpu_address(), packets, tag)).map(|value| (value, packets))
            }
            Step::Try(packets) => {
                queue.try_submit(|to| record(to, target.gpu_address(), packets, tag)).map(|value| (value, packets))
            }
            Step::Cancel(packets) => queue
                .submit(|to| record(to, target.gpu_address(), packets, u32::MAX).and(Err(Error::Timeout)))
                .map(|value| (value, 0)),
            Step::Run(most) => {
                os(|fake| fake.run_step(most));
                continue;
            }
            Step::Disconnect => {
                if !kernel {
                    os(|fake| fake.doorbell().status.set(0, RETRY));
                }
                continue;
            }
            Step::Settle => {
                queue.wait_progress(u64::from(submitted)).expect("waits");
                continue;
            }
        };
        match (step, outcome) {
            (_, Ok((value, packets))) => {
                submitted += 1;
                prop_assert_eq!(value, u64::from(submitted));
                expected[..packets as usize].fill(tag);
            }
            (Step::Try(_), Err(Error::CommandMemoryFull | Error::RingFull))
            | (Step::Cancel(_), Err(Error::Timeout)) => {}
            // 128 packets of 32 bytes are the whole of command memory, and PROGRESS comes on top.
            (Step::Submit(packets) | Step::Try(packets) | Step::Cancel(packets), Err(Error::CommandsTooLarge)) => {
                prop_assert!(*packets > 127);
            }
            (step, Err(error)) => prop_assert!(false, "{step:?}: {error}"),
        }
    }
    queue.wait_progress(u64::from(submitted)).expect("waits");
    for (at, tag) in expected.iter().enumerate() {
        let mut word = [0; 4];
        view.read(at * 4, &mut word).expect("in range");
        prop_assert_eq!(u32::from_le_bytes(word), *tag, "word {}", at);
    }
    prop_assert_eq!(queue.stats().submissions, u64::from(submitted));
    drop((view, target, queue, device));
    os(|fake| fake.assert_clean());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn user_mode_submission_runs_everything_once_and_in_order(steps in prop::collection::vec(step(), 0..150)) {
        play(false, &steps)?;
    }

    #[test]
    fn kernel_submission_runs_everything_once_and_in_order(steps in prop::collection::vec(step(), 0..150)) {
        play(true, &steps)?;
    }
}

#[test]
fn a_recording_that_moved_to_the_start_does_not_wait_for_its_own_gap() {
    use Step::{Run, Submit, Try};
    play(false, &[Try(94), Try(8), Run(1), Try(25), Submit(3), Submit(70), Submit(100)]).expect("runs");
}
