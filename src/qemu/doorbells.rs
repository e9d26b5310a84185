//! P7: what a doorbell costs in a guest, and how soon the GPU answers, beside the same with a doorbell that is trapped.
//!
//! The guest has two GPUs that differ in nothing but that: the doorbells of the first are mapped into it, those of the second go by messages of
//! QEMU's. Both are measured in turn by one process.

use serde::{Deserialize, Serialize};

use super::conversation::Seen;
use super::image::Luggage;
use super::images;
use super::process;
use super::protocol::{Event, Step, placeholder};
use super::session::{self, Ended, Setting};
use crate::clock::{Clock, Latencies, now};
use crate::print::print;
use crate::probe::DoorbellProbe;
use crate::table;
use campanile_conformance::Failure;
use testbed::exit::{EXIT_MACHINE, EXIT_OK};
use testbed::setup::{AdapterOptions, System, SystemOptions};

/// Rounds, in each of which both GPUs are measured.
const ROUNDS: usize = 5;
/// Doorbell stores that are timed together, of which the counter's own cost is a small part.
const BATCH: u32 = 64;
/// Samples of a round: batches of stores, responses, interrupts.
const SAMPLES: [usize; 3] = [50, 400, 100];
/// What is measured, in the order of [`SAMPLES`].
const WHAT: [&str; 3] = [
    "doorbell store",
    "doorbell store, then the queue's progress seen in memory",
    "doorbell store, then interrupt message, interrupt routine, DPC and the waiter's event",
];
/// Aims for the mapped doorbell, in nanoseconds, and how many times as long a trapped store takes.
const STORE: f64 = 60.0;
const RESPONSE: f64 = 500.0;
const TIMES: f64 = 100.0;

/// One measurement as the guest tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figures {
    /// Index in [`WHAT`].
    what: usize,
    /// Index of the GPU: 0 has mapped doorbells.
    gpu: usize,
    samples: u64,
    p50: f64,
    p99: f64,
}

/// Measures, in the guest, and prints a line of JSON for each figure.
pub(super) fn measure() -> u8 {
    let options = SystemOptions { others: vec![AdapterOptions::default()], ..SystemOptions::default() };
    let system = match System::boot(&options) {
        Ok(system) => system,
        Err(error) => {
            testbed::complain!("campanile: {error}");
            return error.exit_code();
        }
    };
    let process = dxgkrnl::Process::new(system.machine(), "doorbells");
    let measured = {
        let _attached = process.attach();
        rounds(&system)
    };
    process.exit();
    match measured {
        Ok(figures) => {
            for figure in figures {
                print(&serde_json::to_string(&figure).unwrap_or_default());
            }
        }
        Err(failure) => {
            testbed::complain!("campanile: {failure}");
            return EXIT_MACHINE;
        }
    }
    match system.shutdown() {
        Ok(()) => EXIT_OK,
        Err(error) => {
            testbed::complain!("campanile: {error}");
            EXIT_MACHINE
        }
    }
}

fn rounds(system: &System) -> Result<Vec<Figures>, Failure> {
    let mut probes =
        system.adapters().iter().map(|part| DoorbellProbe::new(part.luid())).collect::<Result<Vec<_>, _>>()?;
    let mut found = vec![[(); WHAT.len()].map(|()| Latencies::new()); probes.len()];
    for round in 0..=ROUNDS {
        for (probe, found) in probes.iter_mut().zip(&mut found) {
            let mut all = [(); WHAT.len()].map(|()| Latencies::new());
            one_round(probe, if round == 0 { &mut all } else { found })?;
        }
    }
    let figures = |(gpu, all): (usize, &[Latencies; WHAT.len()])| {
        let of = |(what, found): (usize, &Latencies)| {
            let (p50, p99) = (found.percentile(50.0), found.percentile(99.0));
            Figures { what, gpu, samples: found.len(), p50, p99 }
        };
        all.iter().enumerate().map(of).collect::<Vec<_>>()
    };
    Ok(found.iter().enumerate().flat_map(figures).collect())
}

/// The first round warms everything up, and its figures are dropped.
fn one_round(probe: &mut DoorbellProbe, found: &mut [Latencies; WHAT.len()]) -> Result<(), Failure> {
    let clock = Clock::get();
    let [stores, responses, interrupts] = found;
    for _ in 0..SAMPLES[0] {
        let started = now();
        for _ in 0..BATCH {
            probe.store();
        }
        stores.record(clock.nanoseconds(started, now()) / f64::from(BATCH));
    }
    for _ in 0..SAMPLES[1] {
        let (started, ended) = probe.response()?;
        responses.record(clock.nanoseconds(started, ended));
    }
    for _ in 0..SAMPLES[2] {
        let (started, ended) = probe.interrupt()?;
        interrupts.record(clock.nanoseconds(started, ended));
    }
    Ok(())
}

/// Starts a guest with both GPUs, and makes a table of what it measures.
///
/// # Errors
/// The guest could not be started, ended badly, or did not measure everything.
pub(super) fn bench(setting: &mut Setting) -> Result<String, String> {
    let first = setting.gpus.first().cloned().ok_or("there is no GPU")?;
    setting.gpus = vec![first.clone(), session::Served { trapped_doorbells: true, ..first }];
    let luggage: Luggage = images::images()?;
    let mut arguments = vec!["doorbells".to_owned()];
    arguments.extend(images::on_bus(&[placeholder(0), placeholder(1)]));
    let step = Step { name: "P7".to_owned(), arguments };
    let mut figures = Vec::new();
    let mut trouble = Vec::new();
    let mut observe = |seen: Seen<'_>| match seen {
        Seen::Event(Event::Line { error: false, text, .. }) => figures.extend(serde_json::from_str::<Figures>(text)),
        Seen::Event(Event::Line { error: true, text, .. }) => trouble.push(text.clone()),
        _ => {}
    };
    let ended = session::run(setting, &luggage, &mut observe, &mut |guest| guest.run(&step))?;
    if let Ended::Stopped(signal) = ended {
        return Err(format!("stopped by {}", process::name(signal)));
    }
    if let Ended::Badly(reason) = ended {
        return Err(reason);
    }
    to_table(&figures).ok_or_else(|| format!("the guest did not measure everything: {}", trouble.join("; ")))
}

/// `None` if a figure is missing.
fn to_table(figures: &[Figures]) -> Option<String> {
    let find = |what: usize, gpu: usize| figures.iter().find(|found| (found.what, found.gpu) == (what, gpu));
    let mut rows = Vec::new();
    for (index, what) in WHAT.iter().enumerate() {
        let (mapped, trapped) = (find(index, 0)?, find(index, 1)?);
        let ratio = trapped.p50 / mapped.p50.max(f64::MIN_POSITIVE);
        let cells = [mapped.p50, mapped.p99, trapped.p50, trapped.p99].map(|value| format!("{value:.1}"));
        let mut row = vec![(*what).to_owned()];
        row.extend(cells);
        row.push(format!("{ratio:.1}"));
        rows.push(row);
    }
    let head = ["P7 in a guest of QEMU, ns", "mapped p50", "p99", "trapped p50", "p99", "times"];
    let aims = aims(find(0, 0)?, find(1, 0)?, find(0, 1)?);
    Some(format!("{}\n\n{aims}", table::render(&head, &rows)))
}

fn aims(store: &Figures, response: &Figures, trapped: &Figures) -> String {
    let line = |what: String, met: bool| format!("{}  {what}", if met { "met " } else { "MISSED" });
    [
        line(format!("mapped store <= {STORE} ns p50"), store.p50 <= STORE),
        line(format!("response <= {RESPONSE} ns p50"), response.p50 <= RESPONSE),
        line(format!("trapped store >= {TIMES} times the mapped one"), trapped.p50 >= TIMES * store.p50),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(gpu: usize, p50: [f64; 3]) -> Vec<Figures> {
        let of = |(what, p50)| Figures { what, gpu, samples: 1, p50, p99: p50 };
        p50.into_iter().enumerate().map(of).collect()
    }

    #[test]
    fn aims_are_judged_by_the_medians() {
        let good = [figures(0, [2.0, 450.0, 50_000.0]), figures(1, [40_000.0, 41_000.0, 90_000.0])].concat();
        let text = to_table(&good).unwrap();
        assert!(text.contains("20000.0") && !text.contains("MISSED"), "{text}");
        let bad = [figures(0, [61.0, 501.0, 1.0]), figures(1, [6_000.0, 1.0, 1.0])].concat();
        assert_eq!(to_table(&bad).unwrap().matches("MISSED").count(), 3);
    }

    #[test]
    fn a_figure_that_is_missing_makes_no_table() {
        assert_eq!(to_table(&figures(0, [1.0; 3])), None);
    }
}
