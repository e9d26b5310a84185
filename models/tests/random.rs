//! Nothing is lost in very many schedules; something is in one of them with a part of the protocol left out.

use campanile_models::{Fault, Part, random::check};
use std::fmt::Arguments;
use std::io::Write;
use std::panic::catch_unwind;

/// How many schedules a debug build runs: `many` as a release build, `some` a tenth of these.
const SCHEDULES_VARIABLE: &str = "CAMPANILE_SCHEDULES";

/// The number that the schedules of a release build are divided by.
fn divisor() -> usize {
    match std::env::var(SCHEDULES_VARIABLE).as_deref() {
        Ok("many") => 1,
        Ok("some") => 10,
        _ if cfg!(debug_assertions) => 500,
        _ => 1,
    }
}

/// Schedules of a model. One of doorbells is twenty times as long as one of fences, and gets a tenth of them.
fn schedules_of(part: Part) -> usize {
    let many = match part {
        Part::Doorbell | Part::DoorbellElsewhere | Part::GlobalDoorbell => 100_000,
        Part::Log | Part::DelayedLog => 200_000,
        Part::Race | Part::ForGood | Part::WaitList => 1_000_000,
    };
    many / divisor()
}

/// Schedules among which a control must fail.
const CONTROL: usize = 20_000;

const ASLEEP: &str = "sleeps at";
const BACK: &str = "the value went back";
const HELD: &str = "the queue that waits for";
const LOST: &str = "that ran";
const ABSENT: &str = "a counted entry is not there";
const RESTLESS: &str = "finds no rest";
const UNSEEN: &str = "and the log ends at";

/// Says how much was checked, also when a test harness swallows what passing tests print.
fn say(text: Arguments<'_>) {
    writeln!(std::io::stderr(), "{text}").expect("there is somebody to tell");
}

fn passes(part: Part) {
    let wanted = schedules_of(part);
    let schedules = check(part, Fault::None, wanted);
    assert_eq!(schedules, wanted);
    say(format_args!("{part:?}: {schedules} schedules"));
    if divisor() > 1 {
        let many = wanted * divisor();
        say(format_args!(
            "{part:?}: ONLY {wanted} OF {many} SCHEDULES; a release build without {SCHEDULES_VARIABLE} runs all of them, and so does {SCHEDULES_VARIABLE}=many"
        ));
    }
}

/// The model fails, and the failure says `symptom`.
fn fails(part: Part, fault: Fault, symptom: &str) {
    let panic =
        catch_unwind(|| check(part, fault, CONTROL)).expect_err("the model passes without a part of the protocol");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    say(format_args!("{part:?} without {fault:?}: {}", text.replace('\n', ",")));
    assert!(text.contains(symptom), "it failed, but for another reason: {text}");
}

#[test]
fn no_schedule_of_three_engines_and_three_cpus_loses_a_wake() {
    passes(Part::Race);
}

#[test]
fn no_schedule_of_signals_takes_back_what_was_signalled_for_good() {
    passes(Part::ForGood);
}

#[test]
fn without_one_step_for_look_and_write_a_fence_signalled_for_good_goes_back() {
    fails(Part::ForGood, Fault::OneStep, BACK);
}

#[test]
fn no_schedule_of_signals_rescans_and_three_waiting_queues_loses_a_wake() {
    passes(Part::WaitList);
}

#[test]
fn no_schedule_of_two_queues_with_one_doorbell_loses_or_repeats_a_submission() {
    passes(Part::Doorbell);
}

#[test]
fn no_schedule_of_two_queues_of_another_process_with_one_doorbell_loses_or_repeats_a_submission() {
    passes(Part::DoorbellElsewhere);
}

#[test]
fn a_submission_is_lost_if_nobody_waits_until_the_other_process_has_turned_the_page() {
    fails(Part::DoorbellElsewhere, Fault::PageAnswer, LOST);
}

#[test]
fn without_the_second_sample_a_cpu_sleeps_on() {
    fails(Part::Race, Fault::Resample, ASLEEP);
}

#[test]
fn without_the_second_look_a_queue_is_held_for_good() {
    fails(Part::WaitList, Fault::SecondLook, HELD);
}

#[test]
fn a_submission_is_lost_if_retry_comes_after_the_last_look() {
    fails(Part::Doorbell, Fault::LateRetry, LOST);
}

#[test]
fn a_submission_is_lost_if_retry_comes_after_hiding_and_the_last_look_is_at_the_doorbell() {
    fails(Part::Doorbell, Fault::RetryAfterHiding, LOST);
}

#[test]
fn without_a_last_look_a_submission_is_lost() {
    fails(Part::Doorbell, Fault::LastLook, LOST);
}

#[test]
fn when_nobody_looks_after_a_connection_a_submission_is_lost() {
    fails(Part::Doorbell, Fault::LookAfterConnection, LOST);
}

#[test]
fn no_schedule_of_three_queues_and_a_forger_on_a_global_doorbell_loses_or_repeats_a_submission() {
    passes(Part::GlobalDoorbell);
}

#[test]
fn a_store_that_hides_another_loses_a_submission_unless_all_queues_are_looked_at() {
    fails(Part::GlobalDoorbell, Fault::Sweep, LOST);
}

#[test]
fn without_a_last_look_a_queue_taken_off_a_global_doorbell_loses_a_submission() {
    fails(Part::GlobalDoorbell, Fault::LastLook, LOST);
    fails(Part::GlobalDoorbell, Fault::LateRetry, LOST);
}

#[test]
fn when_nobody_looks_after_a_connection_to_a_global_doorbell_a_submission_is_lost() {
    fails(Part::GlobalDoorbell, Fault::LookAfterConnection, LOST);
}

#[test]
fn a_value_that_stays_on_a_global_doorbell_keeps_the_device_busy_for_good() {
    fails(Part::GlobalDoorbell, Fault::Take, RESTLESS);
}

#[test]
fn a_device_that_trusts_a_global_doorbell_faults_the_queue_that_a_forger_names() {
    fails(Part::GlobalDoorbell, Fault::Distrust, "the write pointer went back");
}

#[test]
fn no_schedule_of_two_logging_queues_and_an_interrupted_reader_hides_or_tears_an_entry() {
    passes(Part::Log);
}

#[test]
fn no_schedule_on_hardware_that_delays_entries_hides_one_from_a_reader_with_a_barrier() {
    passes(Part::DelayedLog);
}

#[test]
fn a_position_before_its_entry_counts_what_is_not_there() {
    fails(Part::Log, Fault::LogIndexLast, ABSENT);
}

#[test]
fn an_interrupt_before_the_entry_finds_none() {
    fails(Part::Log, Fault::LogInterruptLast, UNSEEN);
}

#[test]
fn without_the_readers_barrier_delayed_entries_are_not_there() {
    fails(Part::DelayedLog, Fault::LogFlush, ABSENT);
}
