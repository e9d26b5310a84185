//! Nothing is lost in any execution; something is in an execution of every model with a part of the protocol left out.

use campanile_models::{Fault, Part, exhaustive::check};
use std::fmt::Arguments;
use std::io::Write;
use std::panic::catch_unwind;

const ASLEEP: &str = "sleeps at";
const BACK: &str = "the value went back";
const HELD: &str = "the queue that waits for";
const LOST: &str = "that ran";
const ABSENT: &str = "a counted entry is not there";
const UNSEEN: &str = "and the log ends at";

/// Says how much was checked, also when a test harness swallows what passing tests print.
fn say(text: Arguments<'_>) {
    writeln!(std::io::stderr(), "{text}").expect("there is somebody to tell");
}

fn passes(part: Part) {
    let executions = check(part, Fault::None);
    say(format_args!("{part:?}: {executions} executions, all there are"));
}

/// The model fails, and the failure says `symptom`.
fn fails(part: Part, fault: Fault, symptom: &str) {
    let panic = catch_unwind(|| check(part, fault)).expect_err("the model passes without a part of the protocol");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    say(format_args!("{part:?} without {fault:?}: {}", text.replace('\n', ",")));
    assert!(text.contains(symptom), "it failed, but for another reason: {text}");
}

#[test]
fn no_execution_of_two_engines_and_a_cpu_loses_a_wake() {
    passes(Part::Race);
}

#[test]
fn no_execution_of_a_signal_takes_back_what_was_signalled_for_good() {
    passes(Part::ForGood);
}

#[test]
fn without_one_step_for_look_and_write_a_fence_signalled_for_good_goes_back() {
    fails(Part::ForGood, Fault::OneStep, BACK);
}

#[test]
fn no_execution_of_an_engine_and_a_waiting_queue_loses_a_wake() {
    passes(Part::WaitList);
}

#[test]
fn no_execution_of_a_submission_and_a_disconnection_loses_the_submission() {
    passes(Part::Doorbell);
}

#[test]
fn no_execution_of_a_submission_of_another_process_and_a_disconnection_loses_the_submission() {
    passes(Part::DoorbellElsewhere);
}

#[test]
fn a_submission_is_lost_if_nobody_waits_until_the_other_process_has_turned_the_page() {
    fails(Part::DoorbellElsewhere, Fault::PageAnswer, LOST);
}

#[test]
fn without_the_barrier_of_the_signaller_a_cpu_sleeps_on() {
    fails(Part::Race, Fault::SignalBarrier, ASLEEP);
}

#[test]
fn without_the_barrier_of_the_waiter_a_cpu_sleeps_on() {
    fails(Part::Race, Fault::MonitorBarrier, ASLEEP);
}

#[test]
fn without_the_second_sample_a_cpu_sleeps_on() {
    fails(Part::Race, Fault::Resample, ASLEEP);
}

#[test]
fn without_a_barrier_on_either_side_a_queue_is_held_for_good() {
    fails(Part::WaitList, Fault::SignalBarrier, HELD);
    fails(Part::WaitList, Fault::EnterBarrier, HELD);
}

#[test]
fn without_the_second_look_a_queue_is_held_for_good() {
    fails(Part::WaitList, Fault::SecondLook, HELD);
}

#[test]
fn a_write_pointer_that_is_stored_plainly_is_missed() {
    fails(Part::Doorbell, Fault::SubmitBarrier, LOST);
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
fn a_last_look_at_the_doorbell_misses_a_store_that_is_under_way() {
    fails(Part::Doorbell, Fault::LookAtDoorbellOnly, LOST);
}

#[test]
fn without_a_last_look_a_submission_is_lost() {
    fails(Part::Doorbell, Fault::LastLook, LOST);
}

#[test]
fn no_execution_of_two_submissions_on_a_global_doorbell_loses_one() {
    passes(Part::GlobalDoorbell);
}

#[test]
fn a_write_pointer_that_is_stored_plainly_is_missed_when_its_ring_is_hidden() {
    fails(Part::GlobalDoorbell, Fault::SubmitBarrier, LOST);
}

#[test]
fn without_the_barrier_of_the_device_a_hidden_ring_is_missed() {
    fails(Part::GlobalDoorbell, Fault::TakeBarrier, LOST);
}

#[test]
fn without_the_sweep_a_hidden_ring_is_missed() {
    fails(Part::GlobalDoorbell, Fault::Sweep, LOST);
}

#[test]
fn no_execution_of_a_logging_engine_and_an_interrupted_reader_hides_an_entry() {
    passes(Part::Log);
}

#[test]
fn no_execution_on_hardware_that_delays_entries_hides_one_from_a_reader_with_a_barrier() {
    passes(Part::DelayedLog);
}

#[test]
fn a_position_before_its_entry_counts_what_is_not_there() {
    fails(Part::Log, Fault::LogIndexLast, ABSENT);
}

#[test]
fn without_the_barrier_behind_the_position_an_interrupted_reader_does_not_see_the_entry() {
    fails(Part::Log, Fault::LogBarrier, UNSEEN);
}

#[test]
fn an_interrupt_before_the_entry_finds_none() {
    fails(Part::Log, Fault::LogInterruptLast, UNSEEN);
}

#[test]
fn an_entry_before_the_value_tells_of_what_did_not_happen() {
    fails(Part::Log, Fault::LogValueFirst, "is there and the value is");
}

#[test]
fn without_the_readers_barrier_delayed_entries_are_not_there() {
    fails(Part::DelayedLog, Fault::LogFlush, ABSENT);
}
