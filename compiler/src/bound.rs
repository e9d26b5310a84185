//! The bounds of loops that naga writes: each loop counts its iterations down from 2^64 - 1 in two words, and ends at zero.
//!
//! No program runs that long: what is read from the variable is taken for what it begins with. Only a variable that is used in this way alone counts.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::Op;

use crate::module::{Function, Module};
use crate::read::Inst;

/// The variables of a module that count iterations down and end at zero.
pub(crate) fn endless(module: &Module) -> HashSet<u32> {
    let globals: HashMap<u32, &Inst> = module.globals.iter().map(|inst| (inst.id, inst)).collect();
    let mut all = HashSet::new();
    for function in module.functions.values() {
        let found = candidates(function, &globals);
        if !found.is_empty() {
            let uses = Uses::new(function, globals.clone());
            all.extend(found.into_iter().filter(|id| uses.counts_down(*id)));
        }
    }
    all
}

/// Variables that begin with two words of ones.
fn candidates(function: &Function, globals: &HashMap<u32, &Inst>) -> Vec<u32> {
    let instructions = function.blocks.get(&function.first).into_iter().flatten();
    let variables = instructions.filter(|inst| inst.op == Op::Variable);
    let begins_with_ones = |inst: &&Inst| inst.args.get(1).is_some_and(|id| is_pair_of(*id, u32::MAX, globals));
    variables.filter(begins_with_ones).map(|inst| inst.id).collect()
}

/// True if an id is the constant of two words that are the same number.
fn is_pair_of(id: u32, number: u32, all: &HashMap<u32, &Inst>) -> bool {
    let pair = all.get(&id).filter(|inst| inst.op == Op::ConstantComposite && inst.args.len() == 2);
    pair.is_some_and(|inst| inst.args.iter().all(|part| is_word(*part, number, all)))
}

fn is_word(id: u32, number: u32, all: &HashMap<u32, &Inst>) -> bool {
    all.get(&id).is_some_and(|inst| inst.op == Op::Constant && inst.args == [number])
}

/// Definitions and uses of the ids of a function.
struct Uses<'m> {
    definitions: HashMap<u32, &'m Inst>,
    /// By id, the instructions that name it.
    uses: HashMap<u32, Vec<&'m Inst>>,
}

impl<'m> Uses<'m> {
    fn new(function: &'m Function, mut definitions: HashMap<u32, &'m Inst>) -> Self {
        let mut uses: HashMap<u32, Vec<&Inst>> = HashMap::new();
        for inst in function.blocks.values().flatten() {
            definitions.insert(inst.id, inst);
            // A literal that looks like an id makes for one use too many, which is none that is looked for.
            inst.args.iter().for_each(|id| uses.entry(*id).or_default().push(inst));
        }
        Self { definitions, uses }
    }

    fn args(&self, id: u32, op: Op) -> Option<&[u32]> {
        self.definitions.get(&id).filter(|inst| inst.op == op).map(|inst| inst.args.as_slice())
    }

    /// True if a variable is loaded once, compared with zero, and counted down by one.
    fn counts_down(&self, variable: u32) -> bool {
        let uses = self.uses.get(&variable).map(Vec::as_slice).unwrap_or_default();
        let [one, other] = uses else { return false };
        let (load, store) = if one.op == Op::Load { (one, other) } else { (other, one) };
        if load.op != Op::Load || store.op != Op::Store || store.args.first() != Some(&variable) {
            return false;
        }
        let less = store.args.get(1).copied().unwrap_or(0);
        let is_less = self
            .args(less, Op::ISub)
            .is_some_and(|args| matches!(args, [from, by] if *from == load.id && self.is_borrow(*by, load.id)));
        let all = self.uses.get(&load.id).map(Vec::as_slice).unwrap_or_default();
        let is_plain = |inst: &&Inst| match inst.op {
            Op::ISub => inst.id == less,
            Op::IEqual => inst.args.iter().any(|id| is_pair_of(*id, 0, &self.definitions)),
            Op::CompositeExtract => self.is_used_once(inst.id),
            _ => false,
        };
        is_less && self.is_used_once(less) && all.iter().all(is_plain)
    }

    /// True if a pair is one in the lower word, the second one, and in the higher one where the lower word is zero.
    fn is_borrow(&self, pair: u32, count: u32) -> bool {
        let Some([high, low]) = self.args(pair, Op::CompositeConstruct) else { return false };
        let Some([is_zero, one, zero]) = self.args(*high, Op::Select) else { return false };
        let Some([lower, nothing]) = self.args(*is_zero, Op::IEqual) else { return false };
        let words = is_word(*low, 1, &self.definitions)
            && is_word(*one, 1, &self.definitions)
            && is_word(*zero, 0, &self.definitions)
            && is_word(*nothing, 0, &self.definitions);
        let own = [pair, *high, *is_zero, *lower].into_iter().all(|id| self.is_used_once(id));
        words && own && self.args(*lower, Op::CompositeExtract) == Some(&[count, 1])
    }

    fn is_used_once(&self, id: u32) -> bool {
        self.uses.get(&id).is_some_and(|uses| uses.len() == 1)
    }
}
