//! A dispatch: a grid of workgroups, run one after the other, within budgets of instructions.

use crate::code::{Code, NoCode, State};
use crate::grid::{Counters, Grid};
use crate::group::{Group, LaneFault, Surroundings};
use crate::kernel::Kernel;
use crate::memory::{Cause, GlobalMemory, ShaderFault};
use crate::subgroup::Subgroup;
use campanile_hw::isa::{LANES, Op, Order, Scope};

/// Reason why a run returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<F> {
    /// All workgroups have ended.
    Done,
    /// The budget is spent, or the run ended at the end of a workgroup as was asked.
    Paused,
    /// The program did what it may not. It does not run on.
    Fault(ShaderFault<F>),
}

/// The place of a dispatch between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Place of the workgroup in the grid.
    pub workgroup: [u32; 3],
    /// Number in its workgroup of the subgroup that runs.
    pub subgroup: u32,
    /// Index of the instruction that the subgroup executes next.
    pub instruction: u32,
    /// Lanes of it that execute, a bit each.
    pub active: u32,
    /// Lanes of it that have not ended.
    pub alive: u32,
}

/// A dispatch that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub(crate) grid: Grid,
    /// Workgroups that have ended.
    pub(crate) done: u64,
    pub(crate) group: Option<Group>,
    pub(crate) counters: Counters,
}

impl Dispatch {
    /// A dispatch of `size` workgroups in three dimensions, each at most `GRID_MAX`; none at all if one is 0.
    pub fn new(size: [u32; 3], arguments: u64) -> Self {
        let size = size.map(|size| size.min(campanile_hw::isa::GRID_MAX));
        Self { grid: Grid { size, arguments }, done: 0, group: None, counters: Counters::default() }
    }

    /// Counts of the work so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Workgroups that have ended.
    pub fn workgroups_done(&self) -> u64 {
        self.done
    }

    /// Workgroups of the grid, and the address that ARGUMENTS gives.
    pub fn parameters(&self) -> ([u32; 3], u64) {
        (self.grid.size, self.grid.arguments)
    }

    /// Where the subgroup that runs stands, for debuggers; none between two workgroups.
    pub fn position(&self) -> Option<Position> {
        let group = self.group.as_ref()?;
        let subgroup = group.subgroups.get(group.current)?;
        Some(Position {
            workgroup: group.id,
            subgroup: group.current as u32,
            instruction: subgroup.pc,
            active: subgroup.active,
            alive: subgroup.alive,
        })
    }

    /// Runs until everything is done, `budget` instructions are spent, or the program faults. `budget` is what is left then.
    pub fn run<M: GlobalMemory>(&mut self, kernel: &Kernel, memory: &mut M, budget: &mut u64) -> Outcome<M::Fault> {
        self.run_with(kernel, &NoCode, memory, budget)
    }

    /// As [`Dispatch::run`], with code for stretches of the program. A run also ends before a stretch that is longer than what is left of its budget, unless it has done nothing yet.
    pub fn run_with<M: GlobalMemory>(
        &mut self,
        kernel: &Kernel,
        code: &dyn Code<M>,
        memory: &mut M,
        budget: &mut u64,
    ) -> Outcome<M::Fault> {
        self.run_on(kernel, code, memory, budget, false)
    }

    /// As [`Dispatch::run_with`], but the run also ends at the end of a workgroup.
    pub fn run_workgroup<M: GlobalMemory>(
        &mut self,
        kernel: &Kernel,
        code: &dyn Code<M>,
        memory: &mut M,
        budget: &mut u64,
    ) -> Outcome<M::Fault> {
        self.run_on(kernel, code, memory, budget, true)
    }

    /// True if no workgroup is in progress.
    pub fn is_between_workgroups(&self) -> bool {
        self.group.is_none()
    }

    fn run_on<M: GlobalMemory>(
        &mut self,
        kernel: &Kernel,
        code: &dyn Code<M>,
        memory: &mut M,
        budget: &mut u64,
        one: bool,
    ) -> Outcome<M::Fault> {
        let whole = *budget;
        while self.done < self.grid.groups() {
            if *budget == 0 {
                return Outcome::Paused;
            }
            if self.group.is_none() {
                self.next_group(kernel, budget);
            }
            match self.run_group(kernel, code, memory, whole, budget) {
                Ok(true) => {
                    self.done += 1;
                    let more = self.done < self.grid.groups();
                    if more && !one && *budget != 0 {
                        self.next_group(kernel, budget);
                        continue;
                    }
                    self.group = None;
                    if more && one {
                        return Outcome::Paused;
                    }
                }
                Ok(false) => return Outcome::Paused,
                Err(fault) => return Outcome::Fault(fault),
            }
        }
        Outcome::Done
    }

    /// Begins the next workgroup, in the memory of the one that has just ended if there is one.
    fn next_group(&mut self, kernel: &Kernel, budget: &mut u64) {
        *budget = budget.saturating_sub(kernel.beginning);
        self.counters.lanes += u64::from(kernel.header.lanes());
        let place = self.grid.place(self.done);
        match &mut self.group {
            Some(ended) => ended.restart(kernel, place),
            None => self.group = Some(Group::new(kernel, place)),
        }
    }

    /// True when the workgroup has ended.
    fn run_group<M: GlobalMemory>(
        &mut self,
        kernel: &Kernel,
        code: &dyn Code<M>,
        memory: &mut M,
        whole: u64,
        budget: &mut u64,
    ) -> Result<bool, ShaderFault<M::Fault>> {
        let Some(group) = self.group.as_mut() else { return Ok(true) };
        let mut around = Surroundings { kernel, grid: &self.grid, memory, counters: &mut self.counters };
        loop {
            let runs =
                group.subgroups.get(group.current).is_some_and(|subgroup| subgroup.alive != 0 && !subgroup.waiting);
            if !runs && !group.next_subgroup() {
                return Ok(true);
            }
            if *budget == 0 {
                return Ok(false);
            }
            let length = group.subgroups.get(group.current).map_or(0, |subgroup| code.length(subgroup.pc));
            let length = u64::from(length);
            if length > *budget && *budget < whole {
                return Ok(false);
            }
            // What the code leaves at once needs the interpreter.
            if (1..=*budget).contains(&length) && run_code(group, code, &mut around, budget) {
                continue;
            }
            *budget = budget.saturating_sub(code.interpreted());
            around.counters.instructions += 1;
            step(group, &mut around)?;
        }
    }
}

/// Runs the code of the stretch at which the current subgroup stands, and what follows. False if it has not executed an instruction.
fn run_code<M>(group: &mut Group, code: &dyn Code<M>, around: &mut Surroundings<'_, M>, budget: &mut u64) -> bool {
    let before = *budget;
    let place = around.place(group.id, group.current);
    let Some(subgroup) = group.subgroups.get_mut(group.current) else { return false };
    let Subgroup { pc, active, frames, words, doubles, predicates, scratch, .. } = subgroup;
    let state = State {
        pc,
        active,
        frames: &mut frames.all,
        depth: &mut frames.depth,
        words,
        doubles,
        predicates,
        shared: &mut group.shared,
        scratch,
        arguments: around.grid.arguments,
        place,
        budget,
        counters: around.counters,
    };
    code.run(state, around.memory);
    let executed = before.saturating_sub(*budget);
    around.counters.instructions += executed;
    executed != 0
}

/// Executes one instruction of the current subgroup.
fn step<M: GlobalMemory>(group: &mut Group, around: &mut Surroundings<'_, M>) -> Result<(), ShaderFault<M::Fault>> {
    let (current, workgroup) = (group.current, group.id);
    let fault = |cause, instruction, lane: usize| ShaderFault {
        cause,
        write: false,
        instruction,
        workgroup,
        lane: (current * LANES + lane) as u32,
    };
    let nowhere = fault(Cause::State, 0, 0);
    let subgroup = group.subgroups.get_mut(current).ok_or(nowhere)?;
    let pc = subgroup.pc;
    let first = subgroup.active.trailing_zeros() as usize % LANES;
    let lost = fault(Cause::State, pc, first);
    let instruction = around.kernel.code.get(pc as usize).ok_or(lost)?;
    match instruction.op {
        Op::Exit
        | Op::If
        | Op::Else
        | Op::EndIf
        | Op::Loop
        | Op::Break
        | Op::BreakIf
        | Op::Continue
        | Op::ContinueIf
        | Op::Continuing
        | Op::EndLoop
        | Op::Call
        | Op::Ret => subgroup.control(instruction, around.kernel).map_err(|_| lost),
        Op::Barrier => {
            subgroup.pc += 1;
            if subgroup.active != 0 {
                subgroup.waiting = true;
                let (scope, order) = instruction.ordering().unwrap_or((Scope::Workgroup, Order::AcquireRelease));
                around.memory.fence(scope, order);
            }
            Ok(())
        }
        _ => {
            if subgroup.active != 0 {
                group
                    .execute(instruction, around)
                    .map_err(|LaneFault { cause, lane, write }| ShaderFault { write, ..fault(cause, pc, lane) })?;
            }
            if let Some(subgroup) = group.subgroups.get_mut(current) {
                subgroup.pc += 1;
            }
            Ok(())
        }
    }
}
