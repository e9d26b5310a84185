//! A module sorted into its sections.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::{ExecutionModel, Op, StorageClass};

use crate::error::{Error, Result, malformed};
use crate::read::Inst;
use crate::types::Types;

/// A set of extended instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Glsl,
    /// Says nothing that the program does.
    NonSemantic,
    Other,
}

/// A function.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) result: u32,
    /// Id and type of each.
    pub(crate) parameters: Vec<(u32, u32)>,
    /// The block that it begins with.
    pub(crate) first: u32,
    pub(crate) blocks: HashMap<u32, Vec<Inst>>,
}

/// A module.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) types: Types,
    pub(crate) sets: HashMap<u32, Set>,
    pub(crate) globals: Vec<Inst>,
    pub(crate) functions: HashMap<u32, Function>,
    pub(crate) entry: u32,
    /// Operands of the execution modes of the entry point: mode, then operands.
    pub(crate) modes: Vec<Inst>,
    /// For each pointer to a part of something the pointer that it was made from.
    pub(crate) bases: HashMap<u32, u32>,
    /// Variables that count iterations down from 2^64, so that they are never seen to have come to zero.
    pub(crate) endless: HashSet<u32>,
}

impl Module {
    /// Sorts instructions.
    ///
    /// # Errors
    /// No such entry point, or instructions where they cannot be.
    pub(crate) fn new(instructions: Vec<Inst>, entry_point: &str) -> Result<Self> {
        let mut module = Self::default();
        let mut function: Option<(u32, Function)> = None;
        let mut block: Option<(u32, Vec<Inst>)> = None;
        let mut modes = Vec::new();
        for inst in instructions {
            if matches!(inst.op, Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject) {
                module.bases.insert(inst.id, inst.arg(0)?);
            }
            match inst.op {
                Op::Function => {
                    let fresh = Function { result: inst.ty, ..Function::default() };
                    if function.replace((inst.id, fresh)).is_some() {
                        return Err(malformed("a function in a function"));
                    }
                }
                Op::FunctionEnd => {
                    let (id, whole) = function
                        .take()
                        .filter(|_| block.is_none())
                        .ok_or_else(|| malformed("an end of no function"))?;
                    module.functions.insert(id, whole);
                }
                _ => match &mut function {
                    None => module.global(inst, entry_point, &mut modes)?,
                    Some((_, function)) => in_function(function, &mut block, inst)?,
                },
            }
        }
        if function.is_some() {
            return Err(malformed("a function has no end"));
        }
        if module.entry == 0 {
            return Err(Error::EntryPoint(entry_point.into()));
        }
        modes.retain(|mode: &Inst| mode.args.first() == Some(&module.entry));
        module.modes = modes;
        Ok(module)
    }

    fn global(&mut self, inst: Inst, entry_point: &str, modes: &mut Vec<Inst>) -> Result<()> {
        match inst.op {
            Op::EntryPoint => {
                if inst.arg(0)? == ExecutionModel::GLCompute as u32 && inst.string(2).0 == entry_point {
                    self.entry = inst.arg(1)?;
                }
            }
            Op::ExtInstImport => {
                let name = inst.string(0).0;
                let set = if name == "GLSL.std.450" {
                    Set::Glsl
                } else if name.starts_with("NonSemantic.") {
                    Set::NonSemantic
                } else {
                    Set::Other
                };
                self.sets.insert(inst.id, set);
            }
            Op::ExecutionMode | Op::ExecutionModeId => modes.push(inst),
            Op::Decorate | Op::MemberDecorate | Op::DecorateId => self.types.decorate(&inst)?,
            Op::Capability
            | Op::Extension
            | Op::MemoryModel
            | Op::Source
            | Op::SourceExtension
            | Op::SourceContinued
            | Op::String
            | Op::Name
            | Op::MemberName
            | Op::ModuleProcessed
            | Op::DecorateString
            | Op::MemberDecorateString
            | Op::Line
            | Op::NoLine
            | Op::Nop => {}
            _ => self.globals.push(inst),
        }
        Ok(())
    }

    /// Variables that have to lie in memory: pointers to them are chosen at run time, or, for `indexed`, an index into them is no constant of the module.
    pub(crate) fn in_memory(&self, indexed: bool) -> HashSet<u32> {
        let constant: HashSet<u32> = self
            .globals
            .iter()
            .filter(|inst| !matches!(inst.op, Op::Variable | Op::Undef) && inst.id != 0)
            .map(|inst| inst.id)
            .collect();
        let constant = indexed.then_some(constant);
        let mut marked = Vec::new();
        let mut roots: HashMap<u32, Vec<u32>> = HashMap::new();
        for inst in self.functions.values().flat_map(|function| function.blocks.values().flatten()) {
            self.trace(inst, constant.as_ref(), &mut marked, &mut roots);
        }
        let mut all = HashSet::new();
        while let Some(id) = marked.pop() {
            if all.insert(id) {
                marked.extend(roots.get(&id).into_iter().flatten());
            }
        }
        all
    }

    fn trace(
        &self,
        inst: &Inst,
        constant: Option<&HashSet<u32>>,
        marked: &mut Vec<u32>,
        roots: &mut HashMap<u32, Vec<u32>>,
    ) {
        let args = &inst.args;
        let first = args.first().copied().unwrap_or(0);
        match inst.op {
            Op::AccessChain | Op::InBoundsAccessChain => {
                roots.entry(inst.id).or_default().push(first);
                if constant.is_some_and(|constant| args.iter().skip(1).any(|index| !constant.contains(index))) {
                    marked.push(first);
                }
            }
            Op::PtrAccessChain | Op::InBoundsPtrAccessChain => marked.push(first),
            Op::CopyObject => roots.entry(inst.id).or_default().push(first),
            Op::Select => marked.extend(args.iter().skip(1)),
            Op::Phi => marked.extend(args.iter().step_by(2)),
            Op::FunctionCall => {
                let parameters = self.functions.get(&first).map(|function| function.parameters.as_slice());
                for ((parameter, _), argument) in parameters.unwrap_or_default().iter().zip(args.iter().skip(1)) {
                    roots.entry(*parameter).or_default().push(*argument);
                }
            }
            op if format!("{op:?}").starts_with("Atomic") => marked.push(first),
            _ => {}
        }
    }
}

const fn ends(op: Op) -> bool {
    matches!(
        op,
        Op::Branch
            | Op::BranchConditional
            | Op::Switch
            | Op::Return
            | Op::ReturnValue
            | Op::Kill
            | Op::Unreachable
            | Op::TerminateInvocation
    )
}

fn in_function(function: &mut Function, block: &mut Option<(u32, Vec<Inst>)>, inst: Inst) -> Result<()> {
    match (inst.op, &mut *block) {
        (Op::FunctionParameter, None) => function.parameters.push((inst.id, inst.ty)),
        (Op::Label, None) => {
            if function.first == 0 {
                function.first = inst.id;
            }
            *block = Some((inst.id, Vec::new()));
        }
        (Op::Line | Op::NoLine, None) => {}
        (_, Some((_, instructions))) => {
            let over = ends(inst.op);
            instructions.push(inst);
            if over
                && let Some((label, instructions)) = block.take()
                && function.blocks.insert(label, instructions).is_some()
            {
                return Err(malformed(format!("%{label} is a label twice")));
            }
        }
        (op, None) => return Err(malformed(format!("Op{op:?} outside of a block"))),
    }
    Ok(())
}

/// The storage class of a variable or pointer.
pub(crate) fn storage_class(number: u32) -> Result<StorageClass> {
    StorageClass::from_u32(number).ok_or_else(|| malformed(format!("there is no storage class {number}")))
}
