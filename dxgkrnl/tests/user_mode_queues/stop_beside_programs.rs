//! An adapter stops while programs use it that take their time: they are asked for their addresses beside each other. Their answers have one limit together, which is this system's rule.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::minimal::Mutant;
use crate::user_mode::DRIVER;
use crate::user_mode::app::elsewhere::{Before, Elsewhere};
use crate::user_mode::app::*;
use dxgkrnl::{MachineConfig, Process, Share};
use nt::user_space::UserSpace;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

const PROGRAMS: usize = 3;
/// What all of them together wait for each other, if they are asked one after the other.
const LIMIT: Duration = Duration::from_secs(20);

/// Those who are asked at the moment.
#[derive(Default)]
struct Round {
    /// Programs that have been asked since the test began to look.
    asked: usize,
    looks: bool,
    /// One of them was asked, and the others not while it took its time.
    alone: bool,
}

/// A program that answers the first time when all others have been asked, too.
struct Together {
    round: Arc<(Mutex<Round>, Condvar)>,
    was_asked: AtomicBool,
}

impl Before for Together {
    fn ask(&self) {
        let (round, changed) = &*self.round;
        let mut now = round.lock().unwrap();
        if !now.looks || self.was_asked.swap(true, Ordering::SeqCst) {
            return;
        }
        now.asked += 1;
        changed.notify_all();
        let waits = |now: &mut Round| now.asked < PROGRAMS && !now.alone;
        let (mut now, _) = changed.wait_timeout_while(now, LIMIT, waits).unwrap();
        now.alone |= now.asked < PROGRAMS;
        changed.notify_all();
    }
}

unsafe extern "win64" fn takes_note(_: *mut c_void, _: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Programs with a queue each, on an adapter that ends by `end`, all of which are asked before one of them answers.
fn all_are_asked_before_one_answers(end: impl FnOnce(&Bench)) {
    let table = |table: &mut DRIVER_INITIALIZATION_DATA| {
        (DRIVER.table)(table);
        table.DxgkDdiNotifySurpriseRemoval = Some(takes_note);
    };
    let caps = |caps: &mut DXGK_DRIVERCAPS| {
        (DRIVER.caps)(caps);
        caps.SupportSurpriseRemoval = 1;
    };
    let bench = bench_with(Mutant { table, caps, ..DRIVER }, MachineConfig::default());
    let round = Arc::<(Mutex<Round>, Condvar)>::default();
    let apps: Vec<App> = (0..PROGRAMS as u32)
        .map(|number| {
            let user = Elsewhere::new(Together { round: Arc::clone(&round), was_asked: AtomicBool::new(false) });
            App::of(
                Process::elsewhere(
                    &bench.machine,
                    "slow",
                    70 + number,
                    user as Arc<dyn UserSpace>,
                    0,
                    Share::default(),
                ),
                &bench,
            )
        })
        .collect();
    let queues: Vec<Queue> = apps.iter().map(|app| app.queue(&bench)).collect();
    round.0.lock().unwrap().looks = true;
    end(&bench);
    {
        let mut round = round.0.lock().unwrap();
        assert_eq!((round.asked, round.alone), (PROGRAMS, false));
        round.looks = false;
    }
    assert!(queues.iter().all(|queue| queue.status() == ABORT));
    apps.iter().for_each(|app| app.process.exit());
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn programs_are_asked_beside_each_other_when_the_adapter_is_removed() {
    all_are_asked_before_one_answers(|bench| bench.machine.remove(bench.luid).unwrap());
}

#[test]
fn programs_are_asked_beside_each_other_when_the_adapter_is_pulled_out() {
    all_are_asked_before_one_answers(|bench| bench.machine.surprise_remove(bench.luid).unwrap());
}
