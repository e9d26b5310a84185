//! Structured control flow: blocks, merges, phis and calls, all functions in their places.

use std::collections::{BTreeMap, HashMap, HashSet};

use campanile_hw::isa::{Comparison, Op as I, Type as T};
use rspirv::spirv::Op;

use crate::error::{Error, Result, limit, malformed, unsupported};
use crate::ir::{Class, Inst as Ir, Label, Node, Src, V};
use crate::known::Scope;
use crate::lower::{Around, Lower};
use crate::module::Function;
use crate::read::Inst;
use crate::types::Scalar;

/// The form that a branch gets when its target is not the block that is placed next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit {
    Break(Label),
    Continue(Label),
    /// The case of a switch that comes later: sets its predicate and leaves the own case.
    Case(V, Label),
}

/// A function as it is put in place.
pub(crate) struct Frame<'m> {
    pub(crate) function: &'m Function,
    /// Registers of the result, and the block to leave on return; none in the entry point, whose lanes end.
    result: Option<(Vec<V>, Label)>,
    pub(crate) targets: Vec<(u32, Exit)>,
    pub(crate) visited: HashSet<u32>,
    pub(crate) reached: HashSet<u32>,
}

impl Frame<'_> {
    /// The blocks of a loop.
    pub(crate) fn blocks_of(&self, header: u32, exit: u32) -> HashSet<u32> {
        let ends = self.targets.iter().map(|target| target.0).chain([exit]).collect();
        self.function.inside(header, &ends)
    }
}

/// Most targets of a switch. [SPIR-V: Universal Limits]
const CASES_MAX: usize = 16_383;
/// Most cases of a switch that others fall into, each of which has a predicate for as long as the switch lasts.
const ENTERED_MAX: usize = 512;
/// Deepest nesting of calls.
const CALLS_MAX: usize = 256;

impl<'m> Lower<'m> {
    /// Puts the entry point in its place.
    pub(crate) fn entry(&mut self) -> Result<()> {
        let module = self.module;
        let missing = || malformed("the entry point is not a function");
        let function = module.functions.get(&module.entry).ok_or_else(missing)?;
        self.calls.push(module.entry);
        self.body(function, None)
    }

    fn body(&mut self, function: &'m Function, result: Option<(Vec<V>, Label)>) -> Result<()> {
        let ids = function.blocks.values().flatten().filter(|inst| inst.op == Op::Phi).map(|inst| inst.id);
        for id in ids {
            self.phis.remove(&id);
        }
        let (targets, visited, reached) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut frame = Frame { function, result, targets, visited, reached };
        self.walk(&mut frame, function.first, None)
    }

    /// OpFunctionCall.
    pub(crate) fn call(&mut self, inst: &Inst) -> Result<()> {
        let callee = inst.arg(0)?;
        let module = self.module;
        let function =
            module.functions.get(&callee).ok_or_else(|| malformed(format!("%{callee} is not a function")))?;
        if self.calls.contains(&callee) {
            return Err(Error::Unsupported("OpFunctionCall of a function that is running (recursion)".into()));
        }
        if self.calls.len() >= CALLS_MAX {
            return Err(limit(format!("calls nested deeper than {CALLS_MAX}")));
        }
        for (index, (parameter, ty)) in function.parameters.iter().enumerate() {
            self.ids.insert(*parameter, *ty);
            let value = self.value(inst.arg(index + 1)?)?.clone();
            self.values.insert(*parameter, value);
        }
        let scalars = self.result_scalars(function.result)?;
        let registers: Vec<V> = scalars.iter().map(|scalar| self.ir.variable(scalar.class())).collect();
        let label = self.ir.label();
        self.calls.push(callee);
        let (line, scratch, tentative) = (self.ir.line, self.scratch, self.tentative);
        self.ir.open_block(label)?;
        self.body(function, Some((registers.clone(), label)))?;
        // Variables of the function end with it: the next call has their memory.
        (self.ir.line, self.scratch, self.tentative) = (line, scratch, tentative);
        self.calls.pop();
        self.ir.close_block(label)?;
        self.set_registers(inst.id, &registers);
        Ok(())
    }

    /// Puts blocks in place from one on, until control leaves them or comes to `end`.
    pub(crate) fn walk(&mut self, frame: &mut Frame<'m>, start: u32, end: Option<u32>) -> Result<()> {
        let mut block = start;
        loop {
            let function = frame.function;
            let instructions =
                function.blocks.get(&block).ok_or_else(|| malformed(format!("%{block} is not a block")))?;
            if !frame.visited.insert(block) {
                return Err(malformed(format!("the control flow around %{block} is not structured")));
            }
            let (last, rest) = instructions.split_last().ok_or_else(|| malformed("an empty block"))?;
            let merge = rest.last().filter(|inst| matches!(inst.op, Op::LoopMerge | Op::SelectionMerge));
            let next = match merge {
                Some(merge) if merge.op == Op::LoopMerge => self.looping(frame, block, merge)?,
                _ => {
                    self.straight(block, rest)?;
                    self.terminate(frame, block, last, merge, end)?
                }
            };
            match next {
                Some(next) => match self.leave(frame, next, end)? {
                    Some(next) => block = next,
                    None => return Ok(()),
                },
                None => return Ok(()),
            }
        }
    }

    /// The instructions of a block but the last.
    pub(crate) fn straight(&mut self, block: u32, instructions: &[Inst]) -> Result<()> {
        self.count_work(instructions.len())?;
        for inst in instructions {
            match inst.op {
                Op::Phi => {
                    self.ids.insert(inst.id, inst.ty);
                    let registers = self.phi(inst)?;
                    self.set_registers(inst.id, &registers);
                }
                Op::SelectionMerge | Op::LoopMerge => {}
                Op::Line => self.ir.line = inst.arg(1)?,
                Op::NoLine => self.ir.line = 0,
                _ => self.instruction(inst).map_err(|error| at(error, block))?,
            }
        }
        Ok(())
    }

    /// The registers of a phi.
    fn phi(&mut self, inst: &Inst) -> Result<Vec<V>> {
        if let Some(registers) = self.phis.get(&inst.id) {
            return Ok(registers.clone());
        }
        let scalars = self.types.scalars(inst.ty)?.to_vec();
        let registers: Vec<V> = scalars.iter().map(|scalar| self.ir.variable(scalar.class())).collect();
        self.phis.insert(inst.id, registers.clone());
        Ok(registers)
    }

    /// Gives the phis of a block the values that they have when control comes from another.
    fn edge(&mut self, frame: &mut Frame<'m>, from: u32, to: u32) -> Result<()> {
        frame.reached.insert(to);
        let function = frame.function;
        let instructions = function.blocks.get(&to).ok_or_else(|| malformed(format!("%{to} is not a block")))?;
        let phis: Vec<&Inst> = instructions
            .iter()
            .filter(|inst| !matches!(inst.op, Op::Line | Op::NoLine))
            .take_while(|inst| inst.op == Op::Phi)
            .collect();
        let mut copies = Vec::new();
        for phi in &phis {
            let pair = phi.args.chunks_exact(2).find(|pair| pair.get(1) == Some(&from)).and_then(|pair| pair.first());
            let value = pair.ok_or_else(|| malformed(format!("OpPhi %{} has no value for %{from}", phi.id)))?;
            let registers = self.phi(phi)?;
            let scalars = self.types.scalars(phi.ty)?.to_vec();
            let data = self.data(*value)?;
            for ((register, scalar), source) in registers.iter().zip(&scalars).zip(data.iter()) {
                copies.push((*register, scalar.class(), *source));
            }
        }
        let targets: HashSet<V> = copies.iter().map(|copy| copy.0).collect();
        // A phi that reads another phi of the block reads the value from before.
        for (to, class, source) in &mut copies {
            if let Src::Reg(register) = *source
                && register != *to
                && targets.contains(&register)
            {
                *source = self.ir.read(*class, register)?;
            }
        }
        copies.into_iter().try_for_each(|(register, class, source)| {
            self.ir.add_source(register, source);
            self.ir.copy(register, class, source)
        })
    }

    fn exit(frame: &Frame<'m>, to: u32) -> Option<Exit> {
        frame.targets.iter().rev().find(|target| target.0 == to).map(|target| target.1)
    }

    /// A branch: the block to go on with, if it is neither the end nor somewhere outside.
    fn goto(&mut self, frame: &mut Frame<'m>, from: u32, to: u32, end: Option<u32>) -> Result<Option<u32>> {
        self.edge(frame, from, to)?;
        self.leave(frame, to, end)
    }

    /// Goes to a block whose phis have their values.
    fn leave(&mut self, frame: &Frame<'m>, to: u32, end: Option<u32>) -> Result<Option<u32>> {
        if Some(to) == end {
            return Ok(None);
        }
        match Self::exit(frame, to) {
            None => return Ok(Some(to)),
            Some(Exit::Break(label)) => self.ir.push(Node::Break(label))?,
            Some(Exit::Continue(label)) => self.ir.push(Node::Continue(label))?,
            Some(Exit::Case(predicate, label)) => {
                self.ir.copy(predicate, Class::Predicate, Src::Const(1))?;
                self.ir.push(Node::Break(label))?;
            }
        }
        Ok(None)
    }

    /// One side of a conditional branch, as the nodes of a block, and what is known at its end.
    fn arm(&mut self, frame: &mut Frame<'m>, from: u32, to: u32, end: Option<u32>) -> Result<(Vec<Node>, Scope)> {
        self.ir.open()?;
        if let Some(next) = self.goto(frame, from, to, end)? {
            self.walk(frame, next, end)?;
        }
        Ok(self.ir.close_arm())
    }

    pub(crate) fn terminate(
        &mut self,
        frame: &mut Frame<'m>,
        block: u32,
        last: &Inst,
        merge: Option<&Inst>,
        end: Option<u32>,
    ) -> Result<Option<u32>> {
        match last.op {
            Op::Branch => self.goto(frame, block, last.arg(0)?, end),
            Op::BranchConditional => {
                let cond = self.single(last.arg(0)?)?;
                let (yes, no) = (last.arg(1)?, last.arg(2)?);
                match merge.map(|merge| merge.arg(0)).transpose()? {
                    Some(merge) if Self::exit(frame, merge).is_none() => {
                        self.selection(frame, block, (cond, yes, no), merge)
                    }
                    _ => self.branch(frame, block, (cond, yes, no), end),
                }
            }
            Op::Switch => {
                let merge = merge.ok_or_else(|| malformed("OpSwitch without OpSelectionMerge"))?;
                self.switch(frame, block, last, merge.arg(0)?)
            }
            Op::Return | Op::ReturnValue => {
                let data = if last.op == Op::ReturnValue { self.data(last.arg(0)?)? } else { Vec::new() };
                match frame.result.clone() {
                    None => self.ir.emit(Ir::new(I::Exit, T::None))?,
                    Some((registers, label)) => {
                        for (register, source) in registers.iter().zip(data) {
                            let class = self.ir.class(*register);
                            self.ir.add_source(*register, source);
                            self.ir.copy(*register, class, source)?;
                        }
                        self.ir.push(Node::Break(label))?;
                    }
                }
                Ok(None)
            }
            Op::Unreachable | Op::Kill | Op::TerminateInvocation => {
                self.ir.emit(Ir::new(I::Exit, T::None))?;
                Ok(None)
            }
            op => Err(unsupported(op)),
        }
    }

    /// A conditional branch with a merge block.
    fn selection(
        &mut self,
        frame: &mut Frame<'m>,
        block: u32,
        (cond, yes, no): (Src, u32, u32),
        merge: u32,
    ) -> Result<Option<u32>> {
        let label = self.ir.label();
        frame.targets.push((merge, Exit::Break(label)));
        self.ir.open_block(label)?;
        match cond {
            Src::Const(bits) => {
                let taken = if bits != 0 { yes } else { no };
                if let Some(next) = self.goto(frame, block, taken, Some(merge))? {
                    self.walk(frame, next, Some(merge))?;
                }
            }
            Src::Reg(cond) => {
                let then = self.arm(frame, block, yes, Some(merge))?;
                let otherwise = self.arm(frame, block, no, Some(merge))?;
                self.ir.branch(cond, then, otherwise)?;
            }
        }
        self.ir.close_block(label)?;
        frame.targets.pop();
        Ok(frame.reached.contains(&merge).then_some(merge))
    }

    /// A conditional branch without a merge block: one side leaves, or both come to the same end.
    fn branch(
        &mut self,
        frame: &mut Frame<'m>,
        block: u32,
        (cond, yes, no): (Src, u32, u32),
        end: Option<u32>,
    ) -> Result<Option<u32>> {
        if yes == no {
            return self.goto(frame, block, yes, end);
        }
        let cond = match cond {
            Src::Const(bits) => return self.goto(frame, block, if bits != 0 { yes } else { no }, end),
            Src::Reg(cond) => cond,
        };
        let leaves = |frame: &Frame<'m>, to: u32| Some(to) != end && Self::exit(frame, to).is_some();
        if leaves(frame, yes) {
            let then = self.arm(frame, block, yes, end)?;
            self.ir.branch(cond, then, Default::default())?;
            return self.goto(frame, block, no, end);
        }
        if leaves(frame, no) {
            let inverse = self.ir.not(Src::Reg(cond))?;
            let cond = self.ir.reg(T::B1, inverse)?;
            let then = self.arm(frame, block, no, end)?;
            self.ir.branch(cond, then, Default::default())?;
            return self.goto(frame, block, yes, end);
        }
        let then = self.arm(frame, block, yes, end)?;
        let otherwise = self.arm(frame, block, no, end)?;
        self.ir.branch(cond, then, otherwise)?;
        Ok(None)
    }

    /// A loop, from its header on.
    fn looping(&mut self, frame: &mut Frame<'m>, header: u32, merge: &Inst) -> Result<Option<u32>> {
        if let Some(next) = self.unrolled(frame, header, merge)? {
            return Ok(next);
        }
        let (exit, next) = (merge.arg(0)?, merge.arg(1)?);
        let function = frame.function;
        let writes = self.written(function, &frame.blocks_of(header, exit));
        writes.iter().for_each(|register| self.ir.held.set(*register, None));
        self.around.push(Around { header, writes, first: self.ir.registers.len() as V });
        let instructions = function.blocks.get(&header).map(Vec::as_slice).unwrap_or_default();
        let (last, rest) = instructions.split_last().ok_or_else(|| malformed("an empty block"))?;
        let label = self.ir.label();
        let depth = frame.targets.len();
        frame.targets.push((exit, Exit::Break(label)));
        frame.targets.push((next, Exit::Continue(label)));
        self.ir.held.open_block(label);
        self.ir.open()?;
        self.straight(header, rest)?;
        let reached = frame.reached.remove(&next);
        if let Some(inner) = self.terminate(frame, header, last, None, Some(next))? {
            self.walk(frame, inner, Some(next))?;
        }
        let body = self.ir.close_turn();
        frame.targets.truncate(depth + 1);
        self.ir.open()?;
        if next != header && frame.reached.contains(&next) {
            self.walk(frame, next, Some(header))?;
        }
        let continuing = self.ir.close_turn();
        if reached {
            frame.reached.insert(next);
        }
        frame.targets.truncate(depth);
        let scope = self.ir.held.close_block(label);
        self.ir.held.after_some(&scope, true);
        self.around.pop();
        self.ir.push(Node::Loop { label, body, continuing })?;
        Ok(frame.reached.contains(&exit).then_some(exit))
    }

    /// Targets of a switch other than its merge block, in an order in which none falls through to one before it, each with its literals; the
    /// default has none.
    fn cases(&self, frame: &Frame<'m>, inst: &Inst, merge: u32) -> Result<Vec<(u32, Vec<u64>)>> {
        let default = inst.arg(1)?;
        let mut cases: Vec<(u32, Vec<u64>)> = Vec::new();
        let mut place = HashMap::new();
        for (literal, target) in inst.cases() {
            let index = *place.entry(target).or_insert_with(|| {
                cases.push((target, Vec::new()));
                cases.len() - 1
            });
            if let Some(case) = cases.get_mut(index) {
                case.1.push(literal);
            }
        }
        if default != merge && !place.contains_key(&default) {
            let behind = frame.function.reaches(default, merge, &place);
            let at = behind.into_iter().min().unwrap_or(cases.len());
            cases.insert(at, (default, Vec::new()));
        }
        Ok(cases)
    }

    /// OpSwitch.
    fn switch(&mut self, frame: &mut Frame<'m>, block: u32, inst: &Inst, merge: u32) -> Result<Option<u32>> {
        let selector = self.single(inst.arg(0)?)?;
        let scalar = self.ids.get(&inst.arg(0)?).map(|ty| self.types.scalar(*ty)).transpose()?;
        let scalar = scalar.ok_or_else(|| malformed("OpSwitch of something without a type"))?;
        let default = inst.arg(1)?;
        let cases = self.cases(frame, inst, merge)?;
        if cases.len() > CASES_MAX {
            return Err(limit(format!("OpSwitch with more than {CASES_MAX} cases")));
        }
        let whole = self.ir.label();
        let depth = frame.targets.len();
        frame.targets.push((merge, Exit::Break(whole)));
        let mut entered = self.fallen_into(frame, &cases, merge);
        entered.insert(default);
        entered.remove(&merge);
        // The phis of all targets have their values from here first; a lane that comes from one case to another overwrites them.
        if default == merge {
            self.edge(frame, block, merge)?;
        }
        for (target, _) in &cases {
            self.edge(frame, block, *target)?;
        }
        let mut predicates = self.predicates(&cases, &entered, default, (scalar, selector))?;
        self.ir.open_block(whole)?;
        for (target, literals) in &cases {
            if *target == merge {
                continue;
            }
            let own = self.ir.label();
            let cond = match predicates.remove(target) {
                Some(predicate) => predicate,
                None => {
                    let matched = self.matched((scalar, selector), literals)?;
                    self.ir.reg(T::B1, matched)?
                }
            };
            for (later, predicate) in &predicates {
                frame.targets.push((*later, Exit::Case(*predicate, own)));
            }
            self.ir.open_block(own)?;
            self.walk(frame, *target, Some(merge))?;
            let (then, scope) = self.ir.close_block_arm(own);
            frame.targets.truncate(depth + 1);
            self.ir.held.after_either(scope, Scope::default());
            self.ir.push(Node::Block { label: own, body: vec![Node::If { cond, then, otherwise: Vec::new() }] })?;
        }
        frame.targets.truncate(depth);
        self.ir.close_block(whole)?;
        Ok(frame.reached.contains(&merge).then_some(merge))
    }

    /// Those cases of a switch that control comes to from another one.
    fn fallen_into(&self, frame: &Frame<'m>, cases: &[(u32, Vec<u64>)], merge: u32) -> HashSet<u32> {
        let places: HashMap<u32, usize> = cases.iter().enumerate().map(|(place, case)| (case.0, place)).collect();
        let ends: HashSet<u32> = frame.targets.iter().map(|target| target.0).collect();
        // What one case consists of is no part of another: each block is looked at once.
        let (mut seen, mut entered) = (HashSet::new(), HashSet::new());
        for (target, _) in cases.iter().filter(|case| case.0 != merge) {
            for place in frame.function.falls_through(*target, &ends, &places, &mut seen) {
                entered.extend(cases.get(place).map(|case| case.0));
            }
        }
        entered
    }

    /// Predicates, as registers of their own, of the cases of a switch that cannot be compared where they begin: those that another one falls into, and the
    /// default.
    fn predicates(
        &mut self,
        cases: &[(u32, Vec<u64>)],
        entered: &HashSet<u32>,
        default: u32,
        selector: (Scalar, Src),
    ) -> Result<BTreeMap<u32, V>> {
        let mut predicates = BTreeMap::new();
        // Comparisons are not kept for the cases: thousands of predicates would have to be.
        self.ir.open()?;
        for (target, literals) in cases.iter().filter(|case| entered.contains(&case.0)) {
            if predicates.len() >= ENTERED_MAX {
                return Err(limit(format!("OpSwitch with more than {ENTERED_MAX} cases that others fall into")));
            }
            let predicate = self.ir.variable(Class::Predicate);
            let mut own = self.matched(selector, literals)?;
            if *target == default {
                let all: Vec<u64> = cases.iter().flat_map(|case| &case.1).copied().collect();
                let some = self.matched(selector, &all)?;
                let none = self.ir.not(some)?;
                own = self.ir.op2(I::Or, T::B1, own, none)?;
            }
            self.ir.copy(predicate, Class::Predicate, own)?;
            predicates.insert(*target, predicate);
        }
        let body = self.ir.close();
        let label = self.ir.label();
        self.ir.push(Node::Block { label, body })?;
        Ok(predicates)
    }

    /// The predicate that is set where a selector equals one of the literals; the constant 0 without literals.
    fn matched(&mut self, (scalar, selector): (Scalar, Src), literals: &[u64]) -> Result<Src> {
        let mut matched = Src::Const(0);
        for literal in literals {
            let literal = Src::Const(literal & (u64::MAX >> (64 - scalar.bits())));
            let equal = self.ir.cmp(Comparison::Eq, scalar.isa(), selector, literal)?;
            matched = self.ir.op2(I::Or, T::B1, matched, equal)?;
        }
        Ok(matched)
    }
}

impl Function {
    /// Places of those cases that control can come to from a block without leaving a switch.
    fn reaches(&self, start: u32, merge: u32, places: &HashMap<u32, usize>) -> Vec<usize> {
        self.falls_through(start, &HashSet::from([merge]), places, &mut HashSet::new())
    }

    /// Places of those cases that control can come to from a block without coming to an end before, and without the case that the block itself is.
    fn falls_through(
        &self,
        start: u32,
        ends: &HashSet<u32>,
        places: &HashMap<u32, usize>,
        seen: &mut HashSet<u32>,
    ) -> Vec<usize> {
        let (mut open, mut found) = (vec![start], Vec::new());
        while let Some(block) = open.pop() {
            if ends.contains(&block) {
                continue;
            }
            if block != start
                && let Some(place) = places.get(&block)
            {
                found.push(*place);
                continue;
            }
            if !seen.insert(block) {
                continue;
            }
            let last = self.blocks.get(&block).and_then(|block| block.last());
            let Some(last) = last else { continue };
            match last.op {
                Op::Branch => open.extend(last.args.first()),
                Op::BranchConditional => open.extend(last.args.iter().skip(1).take(2)),
                Op::Switch => open.extend(last.args.get(1).copied().into_iter().chain(last.cases().map(|case| case.1))),
                _ => {}
            }
        }
        found
    }
}

/// A malformed instruction's block, for whoever looks for it.
fn at(error: Error, block: u32) -> Error {
    match error {
        Error::Malformed(what) => Error::Malformed(format!("{what}, in the block %{block}")),
        other => other,
    }
}
