//! Loops that are written once for each of their iterations, for the sake of indices that are constant then.

use std::collections::HashSet;

use rspirv::spirv::Op;

use crate::control::{Exit, Frame};
use crate::error::{Result, limit, malformed};
use crate::ir::{Src, V};
use crate::lower::Lower;
use crate::module::Function;
use crate::read::Inst;
use crate::value::{Place, Value};

/// Most iterations of a loop that is unrolled.
const TURNS_MAX: usize = 128;
/// Most nodes of a loop that is unrolled, with the loops in it.
const NODES_MAX: usize = 4096;
/// Most nodes of all loops that are unrolled.
const ALL_MAX: usize = 1 << 14;
/// Most instructions and scalars of the module that are lowered for loops that are to be unrolled, whether they are then or not.
const WORK_MAX: usize = 1 << 17;
/// Registers that are looked at for what an index is made of.
const SOURCES_MAX: usize = 256;

impl<'m> Lower<'m> {
    /// The loops that count what an index is made of, and nothing else that is not constant; none if there is something else.
    pub(crate) fn counting(&self, index: Src) -> Vec<u32> {
        let (mut open, mut seen, mut loops) = (Vec::new(), HashSet::new(), Vec::new());
        if let Src::Reg(register) = index {
            open.push(register);
        }
        while let Some(register) = open.pop() {
            if !seen.insert(register) {
                continue;
            }
            let Some(entry) = self.ir.registers.get(register as usize).filter(|_| seen.len() <= SOURCES_MAX) else {
                return Vec::new();
            };
            let written = self.around.iter().rev().find(|around| around.writes.contains(&register));
            // Variables of functions that are called in a loop are new in each iteration.
            let own = || {
                let variable = entry.mutable && !entry.settled;
                self.around.last().filter(|around| variable && register >= around.first)
            };
            match (written, entry.sources) {
                (Some(around), _) => loops.push(around.header),
                (None, Some(sources)) => open.extend(sources.into_iter().flatten()),
                (None, None) => match own() {
                    Some(around) => loops.push(around.header),
                    None => return Vec::new(),
                },
            }
        }
        loops
    }

    /// Registers of variables and phis that a loop may write.
    pub(crate) fn written(&self, function: &Function, blocks: &HashSet<u32>) -> HashSet<V> {
        let mut writes = HashSet::new();
        for inst in blocks.iter().filter_map(|block| function.blocks.get(block)).flatten() {
            let mentioned = match inst.op {
                Op::Load | Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject => &[],
                Op::Phi => {
                    writes.extend(self.phis.get(&inst.id).into_iter().flatten());
                    continue;
                }
                Op::FunctionCall => {
                    writes.extend(self.private.iter().flat_map(|variable| self.variable_registers(*variable)));
                    inst.args.as_slice()
                }
                _ => inst.args.as_slice(),
            };
            for id in mentioned {
                if let Some(variable) = self.variable_behind(*id) {
                    writes.extend(self.variable_registers(variable));
                }
            }
        }
        writes
    }

    /// The variable in registers that a pointer points into.
    fn variable_behind(&self, mut id: u32) -> Option<usize> {
        // Pointers are made one from the other without a circle, as each is defined before it is used; a module in which that is not so ends here.
        for _ in 0..=self.module.bases.len() {
            match self.module.bases.get(&id) {
                Some(base) => id = *base,
                None => break,
            }
        }
        match self.values.get(&id) {
            Some(Value::Pointer(pointer)) => match pointer.place {
                Place::Registers { variable, .. } => Some(variable),
                _ => None,
            },
            _ => None,
        }
    }

    /// A loop as its iterations one after the other; nothing if it is not to be unrolled, or if that would be too much.
    pub(crate) fn unrolled(&mut self, frame: &mut Frame<'m>, header: u32, merge: &Inst) -> Result<Option<Option<u32>>> {
        if !self.attempt.unrolled.contains_key(&header) || self.findings.failed.contains(&header) {
            return Ok(None);
        }
        let blocks = frame.blocks_of(header, merge.arg(0)?);
        let place = self.ir.checkpoint();
        let (visited, reached, targets) = (frame.visited.clone(), frame.reached.clone(), frame.targets.len());
        let (line, scratch, tentative) = (self.ir.line, self.scratch, self.tentative);
        let (calls, around, dynamic) = (self.calls.len(), self.around.len(), self.findings.dynamic.len());
        let phis = self.take_phis(frame.function, &blocks);
        self.phis.extend(phis.clone());
        let before = self.ir.nodes();
        let most = (before + NODES_MAX).min(before + ALL_MAX.saturating_sub(self.unrolled_nodes));
        let ceiling = self.ir.limit(0);
        self.ir.limit(ceiling.min(most));
        self.turning += 1;
        let done = self.turns(frame, header, merge, &blocks);
        self.turning -= 1;
        self.ir.limit(ceiling);
        if let Ok(next) = done {
            self.unrolled_nodes += self.ir.nodes() - before;
            return Ok(Some(next));
        }
        // What is wrong with the module, if anything is, is found again with the loop as it is.
        self.findings.failed.insert(header);
        self.findings.dynamic.truncate(dynamic);
        self.ir.return_to(&place);
        (frame.visited, frame.reached) = (visited, reached);
        frame.targets.truncate(targets);
        (self.ir.line, self.scratch, self.tentative) = (line, scratch, tentative);
        self.calls.truncate(calls);
        self.around.truncate(around);
        self.take_phis(frame.function, &blocks);
        self.phis.extend(phis);
        Ok(None)
    }

    /// Takes the registers of the phis in blocks.
    fn take_phis(&mut self, function: &Function, blocks: &HashSet<u32>) -> Vec<(u32, Vec<V>)> {
        let phis = blocks.iter().filter_map(|block| function.blocks.get(block)).flatten();
        let phis = phis.filter(|inst| inst.op == Op::Phi).map(|inst| inst.id);
        phis.filter_map(|id| Some((id, self.phis.remove(&id)?))).collect()
    }

    /// All iterations of a loop; an error if they do not end.
    fn turns(
        &mut self,
        frame: &mut Frame<'m>,
        header: u32,
        merge: &Inst,
        blocks: &HashSet<u32>,
    ) -> Result<Option<u32>> {
        let exit = merge.arg(0)?;
        let whole = self.ir.label();
        let depth = frame.targets.len();
        let before = (frame.visited.clone(), frame.reached.clone());
        let (mut visited, mut reached) = before.clone();
        frame.targets.push((exit, Exit::Break(whole)));
        self.ir.open_block(whole)?;
        let mut turns = 0;
        let leaves_early = loop {
            (frame.visited, frame.reached) = before.clone();
            let leaves_early = self.ir.held.has_jumps(whole);
            let again = self.turn(frame, header, merge, blocks)?;
            visited.extend(frame.visited.iter().copied());
            reached.extend(frame.reached.iter().copied());
            if !again {
                break leaves_early;
            }
            turns += 1;
            if turns >= TURNS_MAX {
                return Err(limit(format!("more than {TURNS_MAX} turns of a loop to be unrolled")));
            }
        };
        // What is used behind the loop are the values of the last iteration: no other may be left then.
        if leaves_early && frame.function.is_used_outside(blocks, exit) {
            return Err(limit("values of a loop to be unrolled that are used behind it"));
        }
        (frame.visited, frame.reached) = (visited, reached);
        frame.targets.truncate(depth);
        self.ir.close_block(whole)?;
        Ok(frame.reached.contains(&exit).then_some(exit))
    }

    /// One iteration of a loop; true if there may be another one.
    fn turn(&mut self, frame: &mut Frame<'m>, header: u32, merge: &Inst, blocks: &HashSet<u32>) -> Result<bool> {
        let next = merge.arg(1)?;
        let function = frame.function;
        let instructions = function.blocks.get(&header).map(Vec::as_slice).unwrap_or_default();
        let (last, rest) = instructions.split_last().ok_or_else(|| malformed("an empty block"))?;
        let own = self.ir.label();
        let depth = frame.targets.len();
        frame.visited.insert(header);
        frame.reached.remove(&header);
        frame.reached.remove(&next);
        frame.targets.push((next, Exit::Break(own)));
        self.ir.open_block(own)?;
        self.straight(header, rest)?;
        // The values for the next iteration come into registers of their own.
        self.take_phis(function, blocks);
        if let Some(inner) = self.terminate(frame, header, last, None, Some(next))? {
            self.walk(frame, inner, Some(next))?;
        }
        frame.targets.truncate(depth);
        self.ir.close_block(own)?;
        if next != header && frame.reached.contains(&next) {
            self.walk(frame, next, Some(header))?;
        }
        Ok(frame.reached.contains(&header))
    }

    /// Counts work, which is bounded in loops that are to be unrolled.
    pub(crate) fn count_work(&mut self, amount: usize) -> Result<()> {
        if self.turning == 0 {
            return Ok(());
        }
        self.work = self.work.saturating_add(amount);
        if self.work > WORK_MAX { Err(limit("work on loops to be unrolled")) } else { Ok(()) }
    }
}

impl Function {
    /// The blocks that control comes to from one on before it comes to an end.
    pub(crate) fn inside(&self, header: u32, ends: &HashSet<u32>) -> HashSet<u32> {
        let (mut open, mut all) = (vec![header], HashSet::new());
        while let Some(block) = open.pop() {
            if ends.contains(&block) || !all.insert(block) {
                continue;
            }
            let Some(last) = self.blocks.get(&block).and_then(|block| block.last()) else { continue };
            match last.op {
                Op::Branch => open.extend(last.args.first()),
                Op::BranchConditional => open.extend(last.args.iter().skip(1).take(2)),
                Op::Switch => open.extend(last.args.get(1).copied().into_iter().chain(last.cases().map(|case| case.1))),
                _ => {}
            }
        }
        all
    }

    /// True if something outside of blocks may use a value that is defined in them, but for phis where they are left for.
    fn is_used_outside(&self, blocks: &HashSet<u32>, exit: u32) -> bool {
        let inside = blocks.iter().filter_map(|block| self.blocks.get(block)).flatten();
        let defined: HashSet<u32> = inside.map(|inst| inst.id).filter(|id| *id != 0).collect();
        let outside = self.blocks.iter().filter(|(block, _)| !blocks.contains(block));
        outside
            .flat_map(|(block, all)| all.iter().filter(move |inst| inst.op != Op::Phi || *block != exit))
            .any(|inst| inst.args.iter().any(|id| defined.contains(id)))
    }
}
