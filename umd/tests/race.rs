//! A doorbell that is taken away while it is rung: no submission is lost.
//!
//! The other thread plays whoever disconnects: it stores RETRY, then looks at the write pointer a last time. If the submitter
//! then believes that the doorbell was still connected, that look must have covered its submission.

mod fake;

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use campanile_umd::*;
use fake::*;

const SUBMISSIONS: u64 = 200_000;

#[test]
fn a_submission_is_seen_by_the_last_look_or_sees_the_disconnection() {
    let device = Device::new(&Adapter::open(&THUNKS).unwrap()).unwrap();
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).unwrap();
    let (status, control, progress) = os(|fake| {
        let doorbell = fake.doorbell();
        let control = fake.allocation(doorbell.control).memory.word(0);
        (Word::of(doorbell.status.word(0)), Word::of(control), Word::of(fake.hw_queue().progress.word(0)))
    });
    let (looked, looks, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = 1u32;
            while !stop.load(Ordering::Relaxed) {
                if status.get().load(Ordering::SeqCst) != CONNECTED {
                    spin_loop();
                    continue;
                }
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                for _ in 0..random >> 26 {
                    spin_loop();
                }
                status.get().swap(RETRY, Ordering::SeqCst);
                looked.store(control.get().load(Ordering::SeqCst), Ordering::SeqCst);
                looks.fetch_add(1, Ordering::SeqCst);
            }
        });
        let _stop = StopOnDrop(&stop);
        for number in 1..=SUBMISSIONS {
            assert_eq!(queue.submit(|commands| commands.nop()), Ok(number));
            if status.get().load(Ordering::SeqCst) == RETRY {
                // Disconnected after we had seen CONNECTED: nobody will ring again, so the last look must cover us.
                let disconnections = queue.stats().doorbell_reconnects + 1;
                while looks.load(Ordering::SeqCst) < disconnections {
                    spin_loop();
                }
                let covered = looked.load(Ordering::SeqCst);
                assert!(covered >= number, "submission {number} is lost: the last look saw {covered}");
            }
            progress.get().store(number, Ordering::SeqCst);
        }
    });
    assert_eq!(queue.stats().submissions, SUBMISSIONS);
    assert!(queue.stats().doorbell_reconnects > 0);
}

/// Ends the other thread, also when an assertion fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A word of the fake, for another thread.
#[derive(Clone, Copy)]
struct Word(*const AtomicU64);

// SAFETY: an atomic of a mapping that lives until the end of the test.
unsafe impl Send for Word {}
// SAFETY: as for Send.
unsafe impl Sync for Word {}

impl Word {
    fn of(word: &AtomicU64) -> Self {
        Self(word)
    }

    fn get(&self) -> &AtomicU64 {
        // SAFETY: the mapping lives until the end of the test.
        unsafe { &*self.0 }
    }
}
