//! P6: whether queues that do nothing cost those that work anything.

use std::sync::Arc;

use campanile_umd::RING_ENTRIES_MIN;
use dxgkrnl::Process;

use super::error::BenchError;
use super::row::{Effort, Measurement, Row};
use super::worker::Worker;
use crate::clock::Latencies;
use testbed::setup::{System, SystemOptions};
use testbed::user::{Adapter, Device, Error, Node, Queue, QueueOptions};

/// Mappings of the host process that are left for everything else.
const SPARE_MAPPINGS: usize = 2_000;
/// File in which Linux has the largest number of mappings of a process.
const MAPPINGS_MAX: &str = "/proc/sys/vm/max_map_count";

/// One idle queue.
pub(super) const ONE: Row = Row {
    id: "P6",
    what: "submit, then fence value seen, beside 1 idle queue",
    prepare: |s, e| crowd(s, e, 1, 1),
    ..ROW
};
/// A hundred, of ten processes.
pub(super) const HUNDRED: Row = Row {
    id: "P6-100",
    what: "the same beside 100 idle queues of 10 processes",
    prepare: |s, e| crowd(s, e, 10, 10),
    ..ROW
};
/// A thousand, of one process.
pub(super) const THOUSAND: Row = Row {
    id: "P6-1000",
    what: "the same beside 1000 idle queues of one process",
    prepare: |s, e| crowd(s, e, 1, 1_000),
    ..ROW
};
/// Ten thousand, of a hundred processes.
pub(super) const TEN_THOUSAND: Row = Row {
    id: "P6-10000",
    what: "the same beside 10000 idle queues of 100 processes",
    prepare: |s, e| crowd(s, e, 100, 100),
    ..ROW
};

/// Parts that all rows of P6 have in common.
const ROW: Row = Row {
    id: "P6",
    what: "",
    unit: "ns",
    peers: &["the same on a machine without other queues"],
    aim: "<= 1.1 times the time without other queues",
    met: |_, ratio| ratio.p50 <= 1.1,
    further: &[],
    prepare: |_, _| unreachable!("each row has its own"),
};

struct Crowd {
    crowded: Worker,
    _members: Vec<Member>,
    lonely: Lonely,
    samples: usize,
    shortfall: Option<String>,
}

/// A process with queues that have run something once.
struct Member {
    queues: Vec<Queue>,
    process: Arc<Process>,
}

/// Mappings that this process has, and how many the host allows.
struct Mappings {
    held: usize,
    most: usize,
}

/// A second machine, whose only queue is the one with work. Fields are dropped in order.
struct Lonely {
    worker: Option<Worker>,
    process: Arc<Process>,
    _system: System,
}

impl Mappings {
    fn read() -> Result<Self, BenchError> {
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(BenchError::Host)?;
        let most = std::fs::read_to_string(MAPPINGS_MAX).map_err(BenchError::Host)?;
        let most = most.trim().parse().map_err(|_| BenchError::Host(std::io::ErrorKind::InvalidData.into()))?;
        Ok(Self { held: maps.lines().count(), most })
    }
}

/// How many of `wanted` processes there can be, the first of which took the mappings from `before` on to `held`.
fn affordable(wanted: usize, before: usize, now: &Mappings) -> usize {
    let each = now.held.saturating_sub(before).max(1);
    let capacity = now.most.saturating_sub(now.held).saturating_sub(SPARE_MAPPINGS);
    wanted.min(1 + capacity / each)
}

impl Member {
    fn new(system: &System, queues: usize) -> Result<Self, Error> {
        let process = Process::new(system.machine(), "campanile bench, idle");
        let mut member = Self { queues: Vec::with_capacity(queues), process: Arc::clone(&process) };
        let _attached = process.attach();
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        // They run no programs.
        let small = QueueOptions {
            ring_entries: RING_ENTRIES_MIN,
            command_bytes: 4096,
            save_bytes: 4096,
            ..QueueOptions::default()
        };
        for index in 0..queues {
            let node = if index.is_multiple_of(2) { Node::Compute } else { Node::Copy };
            let mut queue = Queue::new(&device, node, small)?;
            let value = queue.submit(|commands| commands.nop())?;
            queue.wait_progress(value)?;
            member.queues.push(queue);
        }
        Ok(member)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        {
            let _attached = self.process.attach();
            self.queues.clear();
        }
        self.process.exit();
    }
}

/// A machine with `processes` processes of `queues` idle queues each, or with as many processes as the host has mappings for.
fn crowd(system: &System, effort: Effort, processes: usize, queues: usize) -> Result<Box<dyn Measurement>, BenchError> {
    let device = Device::new(&Adapter::open_luid(system.luid())?)?;
    let (crowded, lonely) = (Worker::new(&device)?, Lonely::new()?);
    let before = Mappings::read()?.held;
    let mut members = vec![Member::new(system, queues)?];
    let now = Mappings::read()?;
    let fit = affordable(processes, before, &now);
    let shortfall = (fit < processes).then(|| {
        format!(
            "ONLY {} IDLE QUEUES OF {fit} PROCESSES: a process takes {} mappings and this host allows {} in all ({MAPPINGS_MAX})",
            fit * queues,
            now.held.saturating_sub(before),
            now.most
        )
    });
    if let Some(shortfall) = &shortfall {
        testbed::complain!("campanile: {shortfall}");
    }
    for _ in 1..fit {
        members.push(Member::new(system, queues)?);
    }
    Ok(Box::new(Crowd { crowded, _members: members, lonely, samples: effort.samples, shortfall }))
}

impl Lonely {
    fn new() -> Result<Self, BenchError> {
        let system = System::boot(&SystemOptions::default())?;
        let process = Process::new(system.machine(), "campanile bench, alone");
        let worker = {
            let _attached = process.attach();
            Worker::new(&Device::new(&Adapter::open_luid(system.luid())?)?)?
        };
        Ok(Self { worker: Some(worker), process, _system: system })
    }

    fn measure(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        let _attached = self.process.attach();
        self.worker.as_mut().map_or_else(|| Ok(Latencies::new()), |worker| worker.round_trips(samples))
    }
}

impl Drop for Lonely {
    fn drop(&mut self) {
        {
            let _attached = self.process.attach();
            self.worker = None;
        }
        self.process.exit();
    }
}

impl Measurement for Crowd {
    fn shortfall(&self) -> Option<String> {
        self.shortfall.clone()
    }

    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.crowded.round_trips(self.samples)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.lonely.measure(self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_processes_as_mappings_allow_and_always_the_first() {
        let now = |held, most| Mappings { held, most };
        assert_eq!(affordable(100, 1_000, &now(1_600, 1_600 + SPARE_MAPPINGS + 99 * 600)), 100);
        assert_eq!(affordable(100, 1_000, &now(1_600, 1_600 + SPARE_MAPPINGS + 98 * 600 + 599)), 99);
        assert_eq!(affordable(100, 1_000, &now(1_600, 1_700)), 1);
        assert_eq!(affordable(1, 1_000, &now(1_600, 1_000_000)), 1);
        assert_eq!(affordable(10, 1_600, &now(1_600, 1_000_000)), 10, "a process without mappings");
    }

    #[test]
    fn the_host_says_how_many_mappings_there_are() {
        let mappings = Mappings::read().unwrap();
        assert!(mappings.held > 10 && mappings.most > mappings.held);
    }
}
