//! The tree as a list of instructions, with the structured control flow that the instruction set has: LOOP is the only block that can be left, and
//! only the innermost.

use std::collections::{HashMap, HashSet};

use campanile_hw::isa::{Op as I, Type as T};

use crate::error::Result;
use crate::ir::{Builder, Class, Inst, Label, Node, Src, V};

/// Removes instructions whose results nobody reads, and what stands behind the end of a block.
pub(crate) fn clean(nodes: &mut Vec<Node>, registers: usize) {
    let mut uses = vec![0u32; registers];
    count(nodes, &mut uses);
    for _ in 0..8 {
        if !sweep(nodes, &mut uses) {
            break;
        }
    }
}

fn count(nodes: &[Node], uses: &mut [u32]) {
    let mut add = |register: V| {
        if let Some(entry) = uses.get_mut(register as usize) {
            *entry += 1;
        }
    };
    for node in nodes {
        match node {
            Node::Inst(inst) => inst.sources().for_each(&mut add),
            Node::If { cond, .. } => add(*cond),
            _ => {}
        }
    }
    for node in nodes {
        for inner in children(node) {
            count(inner, uses);
        }
    }
}

fn children(node: &Node) -> Vec<&Vec<Node>> {
    match node {
        Node::If { then, otherwise, .. } => vec![then, otherwise],
        Node::Loop { body, continuing, .. } => vec![body, continuing],
        Node::Block { body, .. } => vec![body],
        _ => Vec::new(),
    }
}

/// Removes dead nodes from the end to the beginning; true if there was one.
fn sweep(nodes: &mut Vec<Node>, uses: &mut [u32]) -> bool {
    let mut changed = false;
    let over = nodes.iter().position(is_end).map_or(nodes.len(), |at| at + 1);
    nodes.truncate(over);
    for node in nodes.iter_mut().rev() {
        match node {
            Node::If { then, otherwise, .. } => {
                changed |= sweep(otherwise, uses);
                changed |= sweep(then, uses);
            }
            Node::Loop { body, continuing, .. } => {
                changed |= sweep(continuing, uses);
                changed |= sweep(body, uses);
            }
            Node::Block { body, .. } => changed |= sweep(body, uses),
            _ => {}
        }
        let dead = match node {
            Node::Inst(inst) => inst.is_removable() && results(inst).all(|dst| uses.get(dst as usize) == Some(&0)),
            Node::If { then, otherwise, .. } => then.is_empty() && otherwise.is_empty(),
            Node::Block { body, .. } => body.is_empty(),
            _ => false,
        };
        if dead {
            changed = true;
            let gone = core::mem::replace(node, Node::Block { label: 0, body: Vec::new() });
            let sources: Vec<V> = match gone {
                Node::Inst(inst) => inst.sources().collect(),
                Node::If { cond, .. } => vec![cond],
                _ => Vec::new(),
            };
            for source in sources {
                if let Some(entry) = uses.get_mut(source as usize) {
                    *entry = entry.saturating_sub(1);
                }
            }
        }
    }
    nodes.retain(|node| !matches!(node, Node::Block { body, .. } if body.is_empty()));
    changed
}

/// Registers that an instruction writes.
pub(crate) fn results(inst: &Inst) -> impl Iterator<Item = V> + use<> {
    let count = match inst.op {
        I::Load | I::LoadShared | I::LoadScratch => {
            campanile_hw::isa::MemoryFormat::from_number(inst.modifier).map_or(1, |format| format.registers())
        }
        _ => 1,
    };
    inst.dst.into_iter().flat_map(move |dst| dst..dst + count)
}

const fn is_end(node: &Node) -> bool {
    match node {
        Node::Break(_) | Node::Continue(_) => true,
        Node::Inst(inst) => matches!(inst.op, I::Exit),
        _ => false,
    }
}

/// Removes jumps to where control goes anyway. `tails` are the labels of blocks that end where these nodes end.
pub(crate) fn straighten(nodes: &mut Vec<Node>, tails: &[(Label, bool)]) {
    let last = nodes.len().saturating_sub(1);
    for (index, node) in nodes.iter_mut().enumerate() {
        let outer = if index == last { tails } else { &[] };
        match node {
            Node::If { then, otherwise, .. } => {
                straighten(then, outer);
                straighten(otherwise, outer);
            }
            Node::Loop { label, body, continuing } => {
                straighten(body, &[(*label, true)]);
                straighten(continuing, &[]);
            }
            Node::Block { label, body } => {
                let mut inner = outer.to_vec();
                inner.push((*label, false));
                straighten(body, &inner);
            }
            _ => {}
        }
    }
    let gone = match nodes.last() {
        Some(Node::Break(label)) => tails.contains(&(*label, false)),
        Some(Node::Continue(label)) => tails.contains(&(*label, true)),
        _ => false,
    };
    if gone {
        nodes.pop();
    }
}

/// Jumps that leave blocks and loops.
#[derive(Default)]
struct Leaves {
    /// Labels that something breaks out of.
    broken: HashSet<Label>,
    /// Labels and kinds of jumps out of inner loops; true for a CONTINUE.
    far: HashSet<(Label, bool)>,
    /// Jumps that leave a loop for one further out.
    through: HashMap<Label, Vec<(Label, bool)>>,
}

impl Leaves {
    fn find_broken(&mut self, nodes: &[Node]) {
        for node in nodes {
            if let Node::Break(label) = node {
                self.broken.insert(*label);
            }
            for inner in children(node) {
                self.find_broken(inner);
            }
        }
    }

    fn find_far(&mut self, nodes: &[Node], open: &mut Vec<Label>) {
        for node in nodes {
            let own = match node {
                Node::Break(label) => {
                    self.jump(open, *label, false);
                    continue;
                }
                Node::Continue(label) => {
                    self.jump(open, *label, true);
                    continue;
                }
                Node::Loop { label, .. } => Some(*label),
                Node::Block { label, .. } if self.broken.contains(label) => Some(*label),
                _ => None,
            };
            open.extend(own);
            for inner in children(node) {
                self.find_far(inner, open);
            }
            if own.is_some() {
                open.pop();
            }
        }
    }

    fn jump(&mut self, open: &[Label], label: Label, continues: bool) {
        for crossed in open.iter().rev().take_while(|other| **other != label) {
            self.far.insert((label, continues));
            let through = self.through.entry(*crossed).or_default();
            if !through.contains(&(label, continues)) {
                through.push((label, continues));
            }
        }
    }
}

/// Writes the list.
struct Flattener<'b> {
    out: Vec<Inst>,
    leaves: Leaves,
    flags: HashMap<(Label, bool), V>,
    open: Vec<Label>,
    ir: &'b mut Builder,
}

/// The tree as a list. Targets are left for the encoder.
pub(crate) fn flatten(mut nodes: Vec<Node>, ir: &mut Builder) -> Result<Vec<Inst>> {
    straighten(&mut nodes, &[]);
    clean(&mut nodes, ir.registers.len());
    let mut leaves = Leaves::default();
    leaves.find_broken(&nodes);
    leaves.find_far(&nodes, &mut Vec::new());
    let mut flattener = Flattener { out: Vec::new(), leaves, flags: HashMap::new(), open: Vec::new(), ir };
    flattener.nodes(&nodes);
    if flattener.out.last().is_none_or(|inst| inst.op != I::Exit) {
        flattener.push(I::Exit, None);
    }
    Ok(flattener.out)
}

impl Flattener<'_> {
    fn push(&mut self, op: I, a: Option<V>) {
        let line = self.out.last().map_or(0, |inst| inst.line);
        self.out.push(Inst { a, line, ..Inst::new(op, T::None) });
    }

    fn set(&mut self, flag: V, bit: u64) {
        self.push(I::Mov, None);
        if let Some(inst) = self.out.last_mut() {
            *inst = Inst { ty: T::B1, dst: Some(flag), b: Some(Src::Const(bit)), ..*inst };
        }
    }

    /// Clears the predicate that says that a jump out of inner loops is under way.
    fn clear(&mut self, label: Label, continues: bool) {
        if self.leaves.far.contains(&(label, continues)) {
            let flag = self.ir.variable(Class::Predicate);
            self.flags.insert((label, continues), flag);
            self.set(flag, 0);
        }
    }

    /// Goes on with the jumps that have left a loop for one further out.
    fn pass_on(&mut self, left: Label) {
        for (label, continues) in self.leaves.through.get(&left).cloned().unwrap_or_default() {
            let here = self.open.last() == Some(&label);
            let op = if here && continues { I::ContinueIf } else { I::BreakIf };
            let flag = self.flags.get(&(label, continues)).copied();
            self.push(op, flag);
        }
    }

    fn jump(&mut self, label: Label, continues: bool, condition: Option<V>) {
        let near = self.open.last() == Some(&label);
        let op = match (near && continues, condition.is_some()) {
            (true, true) => I::ContinueIf,
            (true, false) => I::Continue,
            (false, true) => I::BreakIf,
            (false, false) => I::Break,
        };
        if !near && let Some(flag) = self.flags.get(&(label, continues)).copied() {
            self.set(flag, 1);
        }
        self.push(op, condition);
    }

    fn is_near(&self, label: Label) -> bool {
        self.open.last() == Some(&label)
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Inst(inst) if inst.op == I::Mov && inst.b.is_none() => self.out.push(*inst),
                Node::Inst(inst) => self.out.push(*inst),
                Node::Break(label) => self.jump(*label, false, None),
                Node::Continue(label) => self.jump(*label, true, None),
                Node::If { cond, then, otherwise } => self.conditional(*cond, then, otherwise),
                Node::Loop { label, body, continuing } => {
                    self.clear(*label, false);
                    self.push(I::Loop, None);
                    self.open.push(*label);
                    self.clear(*label, true);
                    self.nodes(body);
                    self.push(I::Continuing, None);
                    self.nodes(continuing);
                    self.push(I::EndLoop, None);
                    self.open.pop();
                    self.pass_on(*label);
                }
                Node::Block { label, body } if self.leaves.broken.contains(label) => {
                    self.clear(*label, false);
                    self.push(I::Loop, None);
                    self.open.push(*label);
                    self.nodes(body);
                    if !self.out.last().is_some_and(|inst| matches!(inst.op, I::Break | I::Exit | I::Continue)) {
                        self.push(I::Break, None);
                    }
                    self.push(I::EndLoop, None);
                    self.open.pop();
                    self.pass_on(*label);
                }
                Node::Block { body, .. } => self.nodes(body),
            }
        }
    }

    fn conditional(&mut self, cond: V, then: &[Node], otherwise: &[Node]) {
        match (then, otherwise) {
            ([Node::Break(label)], []) if self.is_near(*label) => return self.jump(*label, false, Some(cond)),
            ([Node::Continue(label)], []) if self.is_near(*label) => return self.jump(*label, true, Some(cond)),
            ([], []) => return,
            ([], _) => {
                let inverse = self.ir.register(Class::Predicate);
                self.push(I::Not, Some(cond));
                if let Some(inst) = self.out.last_mut() {
                    *inst = Inst { ty: T::B1, dst: Some(inverse), ..*inst };
                }
                self.push(I::If, Some(inverse));
                self.nodes(otherwise);
            }
            _ => {
                self.push(I::If, Some(cond));
                self.nodes(then);
                if !otherwise.is_empty() {
                    self.push(I::Else, None);
                    self.nodes(otherwise);
                }
            }
        }
        self.push(I::EndIf, None);
    }
}
