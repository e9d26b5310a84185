//! What programs call their objects: names of queues and fences, moments at which memory was named, and labels of what a queue ran.
//!
//! A label begins and ends with signals of a fence that has names for its parts: the number of a part begins its label, and 0 ends the label that began last.

use std::collections::{BTreeMap, HashMap, HashSet};

use dxgkrnl::{DebugName, DebugNameOf};

use super::{EventKind, FenceValue, HostClock, Lane, LaneKind, Recording};

/// When a label of a lane begins, with the index of its text; or when the one that began last ends.
struct Mark {
    time: u64,
    begins: Option<u32>,
}

/// The names that programs have given, on their way into a recording.
pub(super) struct Naming<'a> {
    recording: &'a Recording,
    /// Index of each program among the trace's processes.
    programs: HashMap<u64, u32>,
    /// Names of programs.
    known: HashMap<u64, &'a str>,
    queues: HashMap<(u64, u32), &'a str>,
    /// Indices of the texts of labels, by process, fence and part.
    labels: HashMap<(u64, u32, u64), u32>,
    /// Fences of labels by process.
    fences: HashSet<(u64, u32)>,
    marks: BTreeMap<u32, Vec<Mark>>,
}

impl<'a> Naming<'a> {
    /// Adds the names of fences to the recording, and of memory as moments.
    pub(super) fn new(
        recording: &'a Recording,
        host: HostClock,
        names: &'a [DebugName],
        programs: &'a [(u64, String)],
    ) -> Self {
        let mut naming = Self {
            recording,
            programs: HashMap::new(),
            known: programs.iter().map(|(process, name)| (*process, &**name)).collect(),
            queues: HashMap::new(),
            labels: HashMap::new(),
            fences: HashSet::new(),
            marks: BTreeMap::new(),
        };
        let mut lanes = HashMap::new();
        for name in names {
            let process = name.process;
            let program = naming.add_program(process);
            match name.of {
                DebugNameOf::Queue => drop(naming.queues.insert((process, name.object), &*name.text)),
                DebugNameOf::Fence if name.part != 0 => {
                    naming.labels.insert((process, name.object, name.part.into()), recording.name(&name.text));
                    naming.fences.insert((process, name.object));
                }
                DebugNameOf::Fence => recording.fence(program, name.object, &name.text),
                DebugNameOf::Memory => {
                    let lane = || Lane { process: program, kind: LaneKind::Machine, name: "names".into(), handle: 0 };
                    let lane = *lanes.entry(program).or_insert_with(|| recording.lane(lane()).lane());
                    let kind = EventKind::Named { name: recording.name(&name.text) };
                    recording.again(lane).at(host.of(name.given), kind);
                }
            }
        }
        naming
    }

    /// The name of a program, with its number on the machine.
    pub(super) fn program_name(&self, process: u64) -> String {
        match self.known.get(&process) {
            Some(name) => format!("{name} ({process:#x})"),
            None => format!("process {process:#x}"),
        }
    }

    /// Index of a program among the trace's processes.
    fn add_program(&mut self, process: u64) -> u32 {
        let name = self.program_name(process);
        *self.programs.entry(process).or_insert_with(|| self.recording.process(process as u32, &name))
    }

    /// Index of a program among the trace's processes, if it has a name or has named anything.
    pub(super) fn program(&mut self, process: u64) -> Option<u32> {
        let is_known = self.known.contains_key(&process) || self.programs.contains_key(&process);
        is_known.then(|| self.add_program(process))
    }

    /// The name of a queue.
    pub(super) fn queue(&self, process: u64, handle: u32) -> Option<&'a str> {
        self.queues.get(&(process, handle)).copied()
    }

    /// Takes the signal with which a label begins or ends; false for any other one.
    pub(super) fn take(&mut self, process: u64, lane: u32, time: u64, target: FenceValue) -> bool {
        let begins = self.labels.get(&(process, target.fence, target.value)).copied();
        let ends = target.value == 0 && self.fences.contains(&(process, target.fence));
        if begins.is_some() || ends {
            self.marks.entry(lane).or_default().push(Mark { time, begins });
        }
        begins.is_some() || ends
    }

    /// Adds the labels. One that has not ended by `now` ends there; an end without a beginning is one of a label that began before the trace, and is left out.
    pub(super) fn finish(self, now: u64) {
        for (lane, mut marks) in self.marks {
            let mut recorder = self.recording.again(lane);
            let mut open: Vec<(u64, u32)> = Vec::new();
            let mut label = |(time, name): (u64, u32), end: u64| {
                recorder.at(time, EventKind::Label { name, duration: end.saturating_sub(time) });
            };
            marks.sort_by_key(|mark| mark.time);
            for Mark { time, begins } in marks {
                match begins {
                    Some(name) => open.push((time, name)),
                    None => drop(open.pop().map(|begun| label(begun, time))),
                }
            }
            open.into_iter().for_each(|begun| label(begun, now));
        }
    }
}
