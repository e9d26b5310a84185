//! Writes of registers that are overwritten before they are read, such as the zeros that a variable begins with.
//!
//! A pass over the tree from its end to its beginning knows at each place which registers may be read before they are written.

use std::collections::{HashMap, HashSet};

use campanile_hw::isa::Op as I;

use crate::flatten::results;
use crate::ir::{Label, Node, Register, V};

/// Most words of sets of registers that the pass handles; a larger tree stays as it is.
const WORK_MAX: usize = 1 << 26;
/// Loops in one another that are looked through for what they read. In deeper ones everything may be read.
const LOOPS_MAX: u32 = 64;

/// A set of registers.
#[derive(Clone, Default)]
struct Set(Vec<u64>);

impl Set {
    fn add(&mut self, bit: u32) {
        if let Some(word) = self.0.get_mut(bit as usize / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    fn remove(&mut self, bit: u32) {
        if let Some(word) = self.0.get_mut(bit as usize / 64) {
            *word &= !(1 << (bit % 64));
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.0.get(bit as usize / 64).is_none_or(|word| word & 1 << (bit % 64) != 0)
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }
}

/// Where a jump goes: a label, and whether it continues its loop.
type Jump = (Label, bool);

struct Walk {
    /// Numbers in sets, by register.
    bits: HashMap<V, u32>,
    /// Registers that may be read where jumps go.
    ends: HashMap<Jump, Set>,
    all: Set,
    loops: u32,
}

/// Removes writes of registers that are written at more than one place where nobody reads what is written.
pub(crate) fn remove_overwritten(nodes: &mut Vec<Node>, registers: &[Register]) {
    let variables = registers.iter().zip(0..).filter(|(entry, _)| entry.mutable && entry.group.1 == 1);
    let bits: HashMap<V, u32> = variables.zip(0..).map(|((_, register), bit)| (register, bit)).collect();
    let words = bits.len().div_ceil(64);
    if count(nodes).saturating_mul(words) > WORK_MAX {
        return;
    }
    let mut walk = Walk { bits, ends: HashMap::new(), all: Set(vec![u64::MAX; words]), loops: 0 };
    walk.block(nodes, &mut Set(vec![0; words]));
}

fn count(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| 1 + node.children().into_iter().map(|inner| count(inner)).sum::<usize>()).sum()
}

impl Walk {
    /// Removes from nodes what is not in the set of what may be read behind them, and makes it the set of what may be read before them.
    fn block(&mut self, nodes: &mut Vec<Node>, live: &mut Set) {
        let mut kept = Vec::with_capacity(nodes.len());
        for mut node in core::mem::take(nodes).into_iter().rev() {
            if self.node(&mut node, live) {
                kept.push(node);
            }
        }
        kept.reverse();
        *nodes = kept;
    }

    /// The same for a node; false if it is to be removed.
    fn node(&mut self, node: &mut Node, live: &mut Set) -> bool {
        match node {
            Node::Inst(inst) => {
                let dst = inst.dst.and_then(|dst| self.bits.get(&dst)).copied();
                if dst.is_some_and(|dst| !live.has(dst)) && inst.is_removable() {
                    return false;
                }
                if inst.op == I::Exit {
                    live.0.fill(0);
                }
                results(inst).filter_map(|dst| self.bits.get(&dst)).for_each(|bit| live.remove(*bit));
                inst.sources().filter_map(|source| self.bits.get(&source)).for_each(|bit| live.add(*bit));
            }
            Node::If { cond, then, otherwise } => {
                let mut other = live.clone();
                self.block(then, live);
                self.block(otherwise, &mut other);
                live.add_all(&other);
                self.bits.get(cond).into_iter().for_each(|bit| live.add(*bit));
            }
            Node::Block { label, body } => {
                self.ends.insert((*label, false), live.clone());
                self.block(body, live);
                self.ends.remove(&(*label, false));
            }
            Node::Break(label) => *live = self.at((*label, false)),
            Node::Continue(label) => *live = self.at((*label, true)),
            Node::Loop { label, body, continuing } => {
                self.ends.insert((*label, false), live.clone());
                let mut again = self.read_in(*label, body, continuing);
                again.add_all(live);
                self.loops += 1;
                self.block(continuing, &mut again);
                self.ends.insert((*label, true), again.clone());
                self.block(body, &mut again);
                self.loops -= 1;
                *live = again;
            }
        }
        true
    }

    fn at(&self, jump: Jump) -> Set {
        self.ends.get(&jump).unwrap_or(&self.all).clone()
    }

    /// What may be read from the beginning of a loop on, in it or where it is left for.
    fn read_in(&self, label: Label, body: &[Node], continuing: &[Node]) -> Set {
        if self.loops >= LOOPS_MAX {
            return self.all.clone();
        }
        let mut read = Set(vec![0; self.all.0.len()]);
        let mut jumps = HashSet::new();
        self.collect(body, &mut read, &mut jumps);
        self.collect(continuing, &mut read, &mut jumps);
        jumps.remove(&(label, true));
        jumps.into_iter().filter_map(|jump| self.ends.get(&jump)).for_each(|end| read.add_all(end));
        read
    }

    fn collect(&self, nodes: &[Node], read: &mut Set, jumps: &mut HashSet<Jump>) {
        for node in nodes {
            match node {
                Node::Inst(inst) => {
                    inst.sources().filter_map(|source| self.bits.get(&source)).for_each(|bit| read.add(*bit));
                }
                Node::If { cond, .. } => self.bits.get(cond).into_iter().for_each(|bit| read.add(*bit)),
                Node::Break(label) => drop(jumps.insert((*label, false))),
                Node::Continue(label) => drop(jumps.insert((*label, true))),
                _ => {}
            }
            node.children().into_iter().for_each(|inner| self.collect(inner, read, jumps));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Class, Inst, Src};
    use campanile_hw::isa::Type as T;

    fn set(to: V, constant: u64) -> Node {
        Node::Inst(Inst { dst: Some(to), b: Some(Src::Const(constant)), ..Inst::new(I::Mov, T::I32) })
    }

    fn read(from: V) -> Node {
        Node::Inst(Inst { a: Some(from), c: Some(from), ..Inst::new(I::StoreScratch, T::None) })
    }

    fn left(mut nodes: Vec<Node>) -> String {
        let alone =
            |number| Register { class: Class::Word, mutable: true, settled: false, group: (number, 1), sources: None };
        remove_overwritten(&mut nodes, &(0..4).map(alone).collect::<Vec<_>>());
        format!("{nodes:?}")
    }

    fn stays(nodes: Vec<Node>) {
        assert_eq!(left(nodes.clone()), format!("{nodes:?}"));
    }

    #[test]
    fn a_write_before_another_one_goes_and_one_before_a_read_stays() {
        assert_eq!(left(vec![set(0, 1), set(0, 2), read(0), set(0, 3)]), format!("{:?}", [set(0, 2), read(0)]));
    }

    #[test]
    fn a_write_stays_that_one_of_two_ways_reads() {
        let branch = |then| Node::If { cond: 3, then, otherwise: vec![set(0, 2)] };
        stays(vec![set(0, 1), branch(vec![]), read(0)]);
        let both = branch(vec![set(0, 3)]);
        assert_eq!(left(vec![set(0, 1), both.clone(), read(0)]), format!("{:?}", [both, read(0)]));
    }

    #[test]
    fn a_write_stays_that_the_next_turn_or_a_jump_brings_to_a_read() {
        let turns = |body| Node::Loop { label: 1, body, continuing: vec![] };
        let leave = || Node::If { cond: 3, then: vec![Node::Break(1)], otherwise: vec![] };
        stays(vec![set(0, 1), turns(vec![read(0), leave(), set(0, 2)])]);
        stays(vec![turns(vec![set(0, 1), leave(), set(0, 2)]), read(0)]);
        let body = vec![set(0, 2), read(0), leave()];
        assert_eq!(left(vec![set(0, 1), turns(body.clone())]), format!("{:?}", [turns(body)]));
    }
}
