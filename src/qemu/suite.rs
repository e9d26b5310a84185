//! The main job and conformance cases in a guest: the steps that it runs, and the outcomes from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::conversation::{Guest, Seen};
use super::faults::{self, FAULTS, Fault};
use super::function::{self, Expected};
use super::image::Luggage;
use super::images::{images, on_bus};
use super::lspci;
use super::plug;
use super::protocol::{Event, Step, placeholder};
use super::report::Report;
use super::session::{self, Ended, Setting};
use super::tools;
use super::wgpu;
use crate::print::print;
use campanile_conformance::report::{CaseLine, Status};
use testbed::device::GpuHeld;
use testbed::setup::DriverLimit;

/// Cases that run in a guest when none are named: what the driver does at the bus.
pub(super) const CORE: [&str; 9] = [
    "WDDM32.Adapter.",
    "WDDM32.NativeFence.",
    "WDDM32.FenceInterrupts.",
    "WDDM32.Fault.",
    "Submission.LargeCopiesAreWhole",
    "Lifecycle.AdapterStopsAndStartsAgain",
    "Power.DeviceSleepFollowsThePage",
    "Power.WorkQueuedBeforeD3CompletesAfterIt",
    "Power.EverythingCanEndInD3",
];
const MAIN_JOB: &str = "MainJob";

/// What a guest is to do, and which cases it is to tell of.
#[derive(Debug)]
pub(super) struct Suite {
    steps: Vec<Step>,
    /// Names of faults that happen afterwards.
    faults: Vec<&'static Fault>,
    luggage: Luggage,
    /// Cases by step.
    wanted: BTreeMap<String, Wanted>,
}

/// Cases that a step tells of.
#[derive(Clone, Debug, Default)]
struct Wanted {
    names: BTreeSet<String>,
    /// Cases are also run after faults; then this goes before their area.
    after: Option<&'static str>,
}

impl Suite {
    /// Main job, and the cases and faults of these filters, or of [`CORE`] and all faults.
    ///
    /// # Errors
    /// A filter takes nothing, or the Windows images are missing.
    pub(super) fn new(filters: &[String]) -> Result<Self, String> {
        DriverLimit::selected()?;
        let all = [CORE.as_slice(), &[wgpu::NAME, "Qemu.Faults."]].concat();
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let asked = !filters.is_empty();
        let filters = if filters.is_empty() { &all } else { filters };
        let mut suite = Self { steps: Vec::new(), faults: Vec::new(), luggage: images()?, wanted: BTreeMap::new() };
        let files = suite.luggage.iter().map(|(_, name)| name.clone()).filter(|name| !name.ends_with(".pdb"));
        let mut main_job: Vec<String> = ["run", "--no-progress"].map(str::to_owned).into_iter().chain(files).collect();
        main_job.extend(on_bus(&[placeholder(0)]));
        suite.steps.push(Step { name: MAIN_JOB.to_owned(), arguments: main_job });
        for filter in filters {
            let text = filter.to_lowercase();
            let taken: Vec<_> = FAULTS.iter().filter(|fault| fault.name.to_lowercase().contains(&text)).collect();
            let names = names_of(filter);
            let is_wgpu = wgpu::NAME.to_lowercase().contains(&text);
            if is_wgpu {
                suite.add_wgpu(asked)?;
            }
            if names.is_empty() && taken.is_empty() && !is_wgpu {
                return Err(format!("no case matches `{filter}`; `campanile hlk --list` shows all"));
            }
            suite.faults.extend(taken);
            if !names.is_empty() {
                let step = cases(format!("cases of {filter}"), filter, 0);
                suite.wanted.insert(step.name.clone(), Wanted { names, after: None });
                suite.steps.push(step);
            }
        }
        for fault in &suite.faults {
            let Some((filter, step)) = fault.again.zip(again(fault)) else { continue };
            suite.wanted.insert(step.name, Wanted { names: names_of(filter), after: Some(fault.name) });
        }
        Ok(suite)
    }

    /// Has wgpu run in the guest. Where its files are missing it is left out, and said to be, unless somebody asked for it, or CI runs this.
    fn add_wgpu(&mut self, asked: bool) -> Result<(), String> {
        match wgpu::step() {
            Ok((step, files)) => {
                self.steps.push(step);
                self.luggage.extend(files);
                Ok(())
            }
            Err(reason) if asked || std::env::var_os("CI").is_some() => Err(reason),
            Err(reason) => {
                testbed::complain!("campanile qemu: NOT RUN: {reason}");
                Ok(())
            }
        }
    }

    /// The command line of QEMU, with file names that stand for those of a run.
    pub(super) fn show(setting: &Setting) -> String {
        session::line(setting, Path::new("/tmp/campanile-qemu")).to_shell(&setting.qemu)
    }

    /// Runs it and prints every outcome as it comes.
    ///
    /// # Errors
    /// The guest could not be started.
    pub(super) fn run(self, setting: &mut Setting) -> Result<(Report, Ended), String> {
        let Self { steps, faults, luggage, wanted } = self;
        if faults.iter().any(|fault| fault.gpu == plug::SPARE) {
            setting.spare = plug::spare(setting);
        }
        let expected = session::expected(setting)?;
        let mut listener = Listener { expected, wanted, report: Report::default(), functions: 0, boots: 0 };
        let mut scenario = |guest: &mut Guest<'_>| {
            // What the function holds before anybody has used it.
            let clean = if faults.is_empty() { GpuHeld::default() } else { guest.held(0)? };
            steps.iter().try_for_each(|step| guest.run(step))?;
            faults::happen(guest, &faults, &clean, &again)
        };
        let ended = session::run(setting, &luggage, &mut |seen| listener.see(seen), &mut scenario)?;
        listener.finish(&ended, &faults);
        Ok((listener.report, ended))
    }
}

fn names_of(filter: &str) -> BTreeSet<String> {
    let text = filter.to_lowercase();
    campanile_conformance::registry::cases()
        .filter(|case| case.matches(&text))
        .map(|case| case.name.to_owned())
        .collect()
}

/// The step that runs the cases of a filter on a GPU.
fn cases(name: String, filter: &str, gpu: usize) -> Step {
    let mut arguments: Vec<String> = ["hlk", "--json-lines", "--filter", filter].map(str::to_owned).into();
    arguments.extend(on_bus(&[placeholder(gpu)]));
    Step { name, arguments }
}

/// The step after a fault, if there is still a GPU.
fn again(fault: &Fault) -> Option<Step> {
    fault.again.map(|filter| cases(format!("cases after {}", fault.name), filter, fault.gpu))
}

/// Makes outcomes of events.
struct Listener {
    expected: Vec<Expected>,
    /// Cases that are still to be told of, by step.
    wanted: BTreeMap<String, Wanted>,
    report: Report,
    /// GPUs that the guest has found since it was started.
    functions: usize,
    /// Number of boots of the guest.
    boots: usize,
}

impl Listener {
    fn add(&mut self, entry: CaseLine) {
        print(&entry.line());
        self.report.entries.push(entry);
    }

    fn see(&mut self, seen: Seen<'_>) {
        match seen {
            Seen::Event(event) => self.event(event),
            Seen::Outcome(outcome) => self.add(outcome),
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Up { kernel } => {
                print(&format!("the guest runs Linux {kernel}"));
                (self.functions, self.boots) = (0, self.boots + 1);
            }
            Event::Function(found) => {
                print(&format!("the guest has found {}", found.name));
                let Some(expected) = self.expected.get(self.functions) else { return };
                self.functions += 1;
                let mut checks = function::checks(found, expected);
                checks.extend(lspci::checks(tools::lspci(&tools::folder()), found, expected));
                let area = if self.boots > 1 { "After a restart, Qemu.Function" } else { "Qemu.Function" };
                for (name, outcome) in checks {
                    self.add(CaseLine::of(area, &format!("Qemu.Function.{name}"), outcome));
                }
            }
            Event::Started { step } => print(&format!("== {step}")),
            Event::Line { step, error: false, text } if self.wanted.contains_key(step) => self.case(step, text),
            Event::Line { text, .. } => print(&format!("      {text}")),
            Event::Ended { step, code, signal } => self.ended(step, *code, *signal),
            Event::Ready | Event::Wrote { .. } | Event::Slot { .. } | Event::Trouble { .. } | Event::Done => {}
        }
    }

    fn case(&mut self, step: &str, text: &str) {
        let Ok(line) = serde_json::from_str::<CaseLine>(text) else { return print(text) };
        let Some(wanted) = self.wanted.get_mut(step) else { return };
        wanted.names.remove(&line.name);
        let area = wanted.after.map_or_else(|| line.area.clone(), |fault| format!("After {fault}"));
        self.add(CaseLine { area, ..line });
    }

    /// Cases that did not come to an end have failed; one line says of all of them why.
    fn never_told(&mut self, names: &BTreeSet<String>, reason: &str) {
        let entry = |name: &String| CaseLine::of("Qemu.Guest", name, Err(reason.to_owned()));
        self.report.entries.extend(names.iter().map(entry));
        if let Some(first) = names.first() {
            print(&format!("FAIL  {first} and {} others\n      {reason}", names.len() - 1));
        }
    }

    fn ended(&mut self, step: &str, code: Option<i32>, signal: Option<i32>) {
        let how = match (code, signal) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => Err(format!("it ended with exit code {code}")),
            (None, signal) => Err(format!("it was ended by signal {}", signal.unwrap_or(0))),
        };
        let Some(missing) = self.wanted.remove(step) else {
            // Loads are killed or end with the machine; what became of it is told by the fault.
            return match step {
                MAIN_JOB => self.add(CaseLine::of("Qemu.Guest", &format!("Qemu.Guest.{step}"), how)),
                wgpu::NAME => self.add(CaseLine::of("Qemu.Guest", step, how)),
                _ => {}
            };
        };
        let why = how.as_ref().err().map(|why| format!(", {why}")).unwrap_or_default();
        self.never_told(&missing.names, &format!("{step} never told of it{why}"));
        // Failed cases have been told of, and have their own exit code.
        let told = self.report.entries.iter().any(|entry| entry.status == Status::Failed);
        if let (Err(reason), false) = (how, told) {
            self.add(CaseLine::of("Qemu.Guest", step, Err(reason)));
        }
    }

    /// Steps that never ended, GPUs that were never found, and a guest that ended badly are failures.
    fn finish(&mut self, ended: &Ended, faults: &[&'static Fault]) {
        if let Ended::Badly(reason) = ended {
            self.add(CaseLine::of("Qemu.Guest", "Qemu.Guest.EndsWhenItIsDone", Err(reason.clone())));
        }
        if self.functions < self.expected.len() {
            let (found, expected) = (self.functions, self.expected.len());
            let reason = format!("it has found {found} of {expected} GPUs");
            self.add(CaseLine::of("Qemu.Function", "Qemu.Function.IsFound", Err(reason)));
        }
        let happened = |fault: &&&Fault| self.report.entries.iter().all(|entry| entry.name != fault.name);
        let missed: Vec<_> = faults.iter().filter(happened).map(|fault| faults::missed(fault)).collect();
        missed.into_iter().for_each(|entry| self.add(entry));
        for (step, missing) in std::mem::take(&mut self.wanted) {
            self.never_told(&missing.names, &format!("{step} never told of it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> Listener {
        let names = ["a", "b"].map(str::to_owned).into_iter().collect();
        let wanted = [("cases of x".to_owned(), Wanted { names, after: None })].into_iter().collect();
        Listener { expected: Vec::new(), wanted, report: Report::default(), functions: 0, boots: 0 }
    }

    fn line(name: &str, status: &str) -> Event {
        let text = format!(r#"{{"name":"{name}","area":"x","status":"{status}","ms":3,"reason":null}}"#);
        Event::Line { step: "cases of x".to_owned(), error: false, text }
    }

    fn end(code: Option<i32>, signal: Option<i32>) -> Event {
        Event::Ended { step: "cases of x".to_owned(), code, signal }
    }

    #[test]
    fn cases_that_are_told_of_count_as_they_ended() {
        let mut listener = listener();
        for event in [line("a", "passed"), line("b", "skipped"), end(Some(0), None)] {
            listener.event(&event);
        }
        listener.finish(&Ended::Done, &[]);
        assert_eq!(listener.report.summary(), "guest: 1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn cases_that_are_not_told_of_have_failed() {
        let mut after_crash = listener();
        after_crash.event(&line("a", "passed"));
        after_crash.event(&end(None, Some(11)));
        after_crash.finish(&Ended::Done, &[]);
        let failed = after_crash.report.entries.iter().find(|entry| entry.name == "b").unwrap();
        assert_eq!(failed.reason.as_deref(), Some("cases of x never told of it, it was ended by signal 11"));
        let mut silent = listener();
        silent.finish(&Ended::Done, &[]);
        assert_eq!(silent.report.count(Status::Failed), 2);
    }

    #[test]
    fn a_guest_that_ends_badly_or_finds_no_gpu_has_failed() {
        let mut listener = listener();
        listener.expected.push(Expected { bars: [None; 6] });
        listener.finish(&Ended::Badly("it died".to_owned()), &[&FAULTS[0]]);
        let names: Vec<_> = listener.report.entries.iter().map(|entry| entry.name.as_str()).collect();
        let expected = ["Qemu.Guest.EndsWhenItIsDone", "Qemu.Function.IsFound", FAULTS[0].name, "a", "b"];
        assert_eq!(names, expected);
    }

    #[test]
    fn exit_codes_and_signals_of_the_main_job_are_told() {
        let mut listener = listener();
        listener.event(&Event::Ended { step: MAIN_JOB.to_owned(), code: Some(1), signal: None });
        let [entry] = listener.report.entries.as_slice() else { panic!("one entry") };
        assert_eq!((entry.name.as_str(), entry.status), ("Qemu.Guest.MainJob", Status::Failed));
    }

    #[test]
    fn the_core_has_cases_for_each_of_its_words() {
        for text in CORE.into_iter().chain(FAULTS.iter().filter_map(|fault| fault.again)) {
            assert!(campanile_conformance::registry::cases().any(|case| case.matches(&text.to_lowercase())), "{text}");
        }
    }
}
