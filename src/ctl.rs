//! `campanile ctl`: interferes with a machine that is served, and prints its state.

use std::path::{Path, PathBuf};

use testbed::exit::EXIT_OK;

use crate::control::{self, Answer, Connection, ControlError, FaultState, Look, PowerState, Question, WAITED_TITLES};
use crate::print::print;
use crate::table::{grouped, render};

/// An order to a machine.
#[derive(Clone, Debug)]
pub enum Order {
    /// Print adapters, engines, memory and processes.
    Look,
    /// Print nodes, contexts, queues, doorbells and fences.
    Tree,
    /// Print what driver and system have logged.
    Log,
    /// Inject a fault; draws begin with the seed.
    Fault { fault: String, seed: u64 },
    /// Print the faults that were injected.
    Faults,
    /// Take a fault away.
    Withdraw { number: usize },
    /// Change the power state.
    Power { state: PowerState },
    /// Send an engine to F1.
    SleepEngine { node: u32, physical_adapter: u32 },
    /// Pull the first adapter out.
    PullOut,
    /// Plug another one in.
    PlugIn,
}

/// Options of `campanile ctl`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The machine; that of CAMPANILE_MACHINE if none is named.
    pub machine: Option<PathBuf>,
    /// The order.
    pub order: Order,
    /// Print the answer as JSON.
    pub json: bool,
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let asked = control::machine_path(options.machine.clone()).map_err(ControlError::Refused);
    match asked.and_then(|machine| ask(&machine, &question(&options.order))) {
        Ok(answer) if options.json => print(&serde_json::to_string_pretty(&answer).unwrap_or_default()),
        Ok(answer) => print(&text(&answer)),
        Err(error) => {
            testbed::complain!("campanile ctl: {error}");
            return error.exit_code();
        }
    }
    EXIT_OK
}

fn question(order: &Order) -> Question {
    match order {
        Order::Look => Question::Look,
        Order::Tree => Question::Tree,
        Order::Log => Question::Log,
        Order::Fault { fault, seed } => Question::Inject { fault: fault.clone(), seed: *seed },
        Order::Faults => Question::Faults,
        Order::Withdraw { number } => Question::Withdraw { number: *number },
        Order::Power { state } => Question::Power { state: *state },
        Order::SleepEngine { node, physical_adapter } => {
            Question::SleepEngine { node: *node, physical_adapter: *physical_adapter }
        }
        Order::PullOut => Question::PullOut,
        Order::PlugIn => Question::PlugIn,
    }
}

fn ask(machine: &Path, question: &Question) -> Result<Answer, ControlError> {
    Connection::open(machine)?.ask(question)
}

fn text(answer: &Answer) -> String {
    match answer {
        Answer::Look(look) => tables(look),
        Answer::Text(text) => text.trim_end().to_owned(),
        Answer::Faults(faults) => fault_table(faults),
        Answer::Done | Answer::Trace { .. } | Answer::Counts(_) => "done".to_owned(),
        Answer::Refused(why) => why.clone(),
    }
}

fn fault_table(faults: &[FaultState]) -> String {
    if faults.is_empty() {
        return "no faults".to_owned();
    }
    let row = |fault: &FaultState| vec![fault.fault.clone(), fault.number.to_string(), grouped(fault.fired)];
    render(&["fault", "number", "struck"], &faults.iter().map(row).collect::<Vec<_>>())
}

/// An amount of memory as people read it.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = amount as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 100.0 && value.fract() != 0.0);
    UNITS.get(unit).map_or_else(String::new, |unit| format!("{value:.digits$} {unit}"))
}

/// A node by its number, and the physical adapter where there are several.
pub(crate) fn place(number: u32, physical_adapter: u32, linked: bool) -> String {
    if linked { format!("{physical_adapter}.{number}") } else { number.to_string() }
}

/// Titles of a table of memory segments.
pub(crate) const SEGMENT_TITLES: [&str; 4] = ["segment", "kind", "size", "resident"];

/// The kind of a memory segment, as tables and screens name it.
pub(crate) fn segment_kind(aperture: bool) -> &'static str {
    if aperture { "aperture" } else { "memory" }
}

fn tables(look: &Look) -> String {
    let mut parts = Vec::new();
    if let Some(bugcheck) = &look.bugcheck {
        parts.push(format!("the machine has stopped: {bugcheck}"));
    }
    for adapter in &look.adapters {
        let linked = adapter.engines.iter().any(|engine| engine.physical_adapter != 0);
        let power = if adapter.powered_down { "D3" } else { "D0" };
        parts.push(format!(
            "adapter {:#x} in {power}: {} interrupts, {} waits for fences, {} engine resets, {} adapter resets",
            adapter.luid,
            grouped(adapter.interrupts),
            adapter.fence_waits(),
            adapter.engine_resets,
            adapter.adapter_resets,
        ));
        let engine = |engine: &control::Engine| {
            let fstate = engine.fstate.map_or_else(|| "-".to_owned(), |state| format!("F{state}"));
            let ms = grouped(engine.running_ns / 1_000_000);
            let place = place(engine.node, engine.physical_adapter, linked);
            vec![place, fstate, ms, grouped(engine.packets.into())]
        };
        let engines: Vec<_> = adapter.engines.iter().map(engine).collect();
        parts.push(render(&["node", "state", "running ms", "packets by thunk"], &engines));
        let segment = |segment: &control::Segment| {
            let place = place(segment.segment, segment.physical_adapter, linked);
            let kind = segment_kind(segment.aperture).to_owned();
            vec![place, kind, bytes(segment.bytes), bytes(segment.resident_bytes)]
        };
        let segments: Vec<_> = adapter.segments.iter().map(segment).collect();
        parts.push(render(&SEGMENT_TITLES, &segments));
        let processes: Vec<_> = adapter.processes.iter().map(process).collect();
        parts.push(match processes.is_empty() {
            true => "no process uses it".to_owned(),
            false => render(
                &["process", "pid", "running ms", "resident", "contexts", "queues", "doorbells", "fences"],
                &processes,
            ),
        });
        if !adapter.waited_fences.is_empty() {
            parts.push(render(&WAITED_TITLES, &adapter.waited_rows()));
        }
    }
    if look.adapters.is_empty() && look.bugcheck.is_none() {
        parts.push("the machine has no adapter any more".to_owned());
    }
    parts.push(
        look.sandbox.clone().unwrap_or_else(|| "no sandbox: the machine was started with --no-sandbox".to_owned()),
    );
    parts.join("\n\n")
}

fn process(process: &control::Process) -> Vec<String> {
    vec![
        process.name.clone(),
        process.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        grouped(process.running_ns.iter().sum::<u64>() / 1_000_000),
        bytes(process.memory_bytes.iter().sum()),
        process.contexts.to_string(),
        process.queues.to_string(),
        process.connected_doorbells.to_string(),
        process.fences.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_have_the_unit_that_fits() {
        let texts = [0, 1024, 1536, 200 << 10, 3 << 29, 5 << 40].map(bytes);
        assert_eq!(texts, ["0 KiB", "1 KiB", "1.5 KiB", "200 KiB", "1.5 GiB", "5 TiB"]);
    }

    #[test]
    fn a_machine_without_adapter_and_one_that_has_stopped_say_so() {
        let look = |bugcheck: Option<&str>| Look {
            time_ns: 0,
            bugcheck: bugcheck.map(str::to_owned),
            sandbox: None,
            adapters: vec![],
        };
        let begins = |look: &Look, text: &str| assert!(tables(look).starts_with(text), "{}", tables(look));
        begins(&look(None), "the machine has no adapter any more\n\nno sandbox");
        begins(&look(Some("0x119")), "the machine has stopped: 0x119\n\nno sandbox");
    }
}
