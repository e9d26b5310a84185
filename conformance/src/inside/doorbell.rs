//! Doorbells: their life, their states, and what they hold on to.

use crate::cases::doorbell::{CONNECTED, RETRY};
use campanile_hw::queue::CONTROL_READ_POINTER;
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::Clock;

use crate::kmt::Word;

use crate::rig::{RawQueue, Rig};
use crate::simulated::{Case, on_thread, one_doorbell};
use crate::{Boot, Failure, granted};
use testbed::setup::SystemOptions;

cases! { inside "Doorbell", needs UserModeSubmission, behind "it counts what the GPU heard, or chooses how many doorbells there are";
    "Doorbell.VictimIsToldToRetry" on Boot::With(one_doorbell), "user-mode-work-submission":
        "When a second queue takes the only physical doorbell, the first one's status becomes disconnected-retry, and reconnecting brings it back."
        holds [UserModeSubmission 16]
        => victim_retries;
    "Doorbell.VictimWithoutHardwareRingsNobody" on Boot::With(one_doorbell), "user-mode-work-submission":
        "A store through a doorbell that lost its hardware goes to a dummy page and never reaches the queue that has the hardware now."
        holds [UserModeSubmission 25, UserModeSubmission 63]
        => victim_rings_nobody;
    "Doorbell.PageTellsNothingOfItsLastOwner" on Boot::With(one_doorbell), "user-mode-work-submission":
        "A process that is given a physical doorbell finds nothing in its page of what the process before it has stored there; the page is silent, and that processes cannot read each other is Windows' rule."
        holds [UserModeSubmission 60]
        => page_tells_nothing;
    "Doorbell.RingStaysWhereItIs" on Boot::With(one_doorbell), "user-mode-work-submission":
        "Ring and ring control keep their CPU address and what is in them whatever happens to the doorbell's connection, also when user mode asks for their eviction."
        holds [UserModeSubmission 23]
        => ring_stays;
    "Doorbell.NotifyReachesTheDriver" on Boot::With(by_hand), "user-mode-work-submission":
        "Telling the driver of new work makes the hardware look at the queue even when the doorbell was never rung."
        holds [UserModeSubmission 15]
        => notify_reaches_driver;
}

/// A machine on which nobody looks for hangs, and so at rings, unless the case has time go on.
fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..SystemOptions::default() }
}

fn victim_retries(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut first, mut second) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut first, &[])?;
    ensure_eq!(first.doorbell.state(), CONNECTED, "status of the first queue's doorbell");
    for round in 2..20 {
        rig.execute(&mut second, &[])?;
        ensure_eq!(first.doorbell.state(), RETRY, "status of the victim in round {round}");
        ensure_eq!(second.doorbell.state(), CONNECTED, "status of the other in round {round}");
        rig.execute(&mut first, &[])?;
        ensure_eq!(second.doorbell.state(), RETRY, "status of the other when it is the victim");
    }
    Ok(())
}

fn victim_rings_nobody(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut first, mut second) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    rig.execute(&mut first, &[])?;
    // Twice: the first time the work may be found by connecting, and its ring be seen only later.
    rig.execute(&mut second, &[])?;
    rig.execute(&mut second, &[])?;
    let looks = || case.system.gpu().activity().doorbell_reads;
    // Two looks at the only physical doorbell, the second one of which began after the call did.
    let looked = || {
        let before = looks();
        crate::rig::wait_until("a look at the doorbell", || looks() >= before + 2)
    };
    looked()?;
    let before = case.system.counters();
    for value in [1, 2, 5, 1 << 40, u64::MAX] {
        first.doorbell.page.store(value);
        looked()?;
    }
    ensure_eq!(case.system.counters().since(&before).doorbells, 0, "rings that were seen");
    rig.execute(&mut second, &[])?;
    rig.execute(&mut first, &[])
}

/// The words of a doorbell's page behind the one that rings.
fn words(queue: &RawQueue) -> Result<Vec<Word>, Failure> {
    let first = queue.doorbell.page.address();
    (1..512).map(|index| Word::new(first.wrapping_add(index).cast(), "a word of the doorbell's page")).collect()
}

fn page_tells_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    const SECRET: u64 = 0x7365_6372_6574_2121;
    let rig = case.rig()?;
    let mut first = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut first, &[])?;
    for word in words(&first)? {
        word.store(SECRET);
        ensure_eq!(word.load(), SECRET, "what the owner itself reads");
    }
    let other = dxgkrnl::Process::new(case.system.machine(), "other");
    let outcome = on_thread(&other, || {
        let rig = Rig::open(case.system.luid())?;
        let mut second = rig.queue(NODE_COMPUTE)?;
        rig.execute(&mut second, &[])?;
        ensure_eq!(first.doorbell.state(), RETRY, "status of the doorbell that was the victim");
        let told = words(&second)?.into_iter().filter(|word| word.load() != 0).count();
        ensure_eq!(told, 0, "words that tell something");
        Ok(())
    });
    other.exit();
    outcome
}

fn ring_stays(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (mut queue, mut thief) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
    for round in 1..=10 {
        rig.execute(&mut queue, &[])?;
        let look = |queue: &RawQueue| (queue.ring_view.read(0, 1024), queue.control_view.read(0, 128));
        // The progress value comes before the read pointer, which is the GPU's last word on an entry.
        let is_read = || queue.control_view.read(CONTROL_READ_POINTER, 8) == queue.written().to_le_bytes();
        crate::rig::wait_until("the read pointer of what is done", is_read)?;
        let before = look(&queue);
        rig.execute(&mut thief, &[])?;
        ensure_eq!(queue.doorbell.state(), RETRY, "status without hardware");
        ensure!(look(&queue) == before, "the disconnection of round {round} changed the ring or its control page");
        // Written while disconnected; found by the next connection.
        queue.append(&[])?;
        let (ring, control) = look(&queue);
        if round == 5 {
            // Granted or not, the doorbell's reference keeps them.
            let _ = (rig.evict(queue.ring.handle), rig.evict(queue.control.handle));
            // Whatever is freed by an eviction is soon somebody else's.
            rig.execute(&mut thief, &[])?;
        }
        ensure!(
            ring.iter().any(|byte| *byte != 0) && look(&queue) == (ring, control),
            "the ring shows something else in round {round}"
        );
        rig.ring(&queue)?;
        crate::rig::wait_until("work written without a doorbell", || queue.progress.load() == 2 * round)?;
    }
    Ok(())
}

fn notify_reaches_driver(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    rig.execute(&mut queue, &[])?;
    let value = queue.append(&[])?;
    granted(rig.notify(queue.doorbell), "D3DKMTNotifyWorkSubmission")?;
    crate::rig::wait_until("work that the driver was told of", || queue.progress.load() == value)
}
