//! The tree as a list of instructions, with the structured control flow that the instruction set has: LOOP is the only block that can be left, and
//! only the innermost.
//!
//! The stack of masks on which IF and LOOP put theirs is [`DEPTH_MAX`] deep. Selections that do not fit on it have their masks in predicates instead: what
//! stands in them is written behind one another, each piece in an IF of its own with the predicate of its selection, and whoever leaves a block clears the
//! predicates of all selections in it. Loops are always on the stack.

use std::collections::{HashMap, HashSet};

use campanile_hw::isa::{DEPTH_MAX, Op as I, Type as T};

use crate::error::{Result, limit};
use crate::ir::{Builder, Class, Inst, Label, NODES_MAX, Node, Src, V};
use crate::nesting::{Nesting, Place};

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
        for inner in node.children() {
            count(inner, uses);
        }
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
    /// The same as a set.
    known: HashSet<(Label, Label, bool)>,
}

impl Leaves {
    fn find_broken(&mut self, nodes: &[Node]) {
        for node in nodes {
            if let Node::Break(label) = node {
                self.broken.insert(*label);
            }
            for inner in node.children() {
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
            for inner in node.children() {
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
            if !self.known.insert((*crossed, label, continues)) {
                // A jump before this one went on from here.
                return;
            }
            self.through.entry(*crossed).or_default().push((label, continues));
        }
    }
}

/// A LOOP or block around the instruction that is written next, which jumps can name.
#[derive(Clone, Copy)]
struct Open {
    label: Label,
    /// For a block whose mask is a predicate: the number of that. Otherwise it is a LOOP.
    mask: Option<usize>,
}

/// Writes the list.
struct Flattener<'b> {
    out: Vec<Inst>,
    leaves: Leaves,
    nesting: Nesting,
    flags: HashMap<(Label, bool), V>,
    open: Vec<Open>,
    /// Predicates of the selections that are open and not on the stack of masks.
    masks: Vec<V>,
    /// Entries of the stack of masks.
    depth: u32,
    ir: &'b mut Builder,
}

/// The tree as a list. Targets are left for the encoder.
pub(crate) fn flatten(mut nodes: Vec<Node>, ir: &mut Builder) -> Result<Vec<Inst>> {
    straighten(&mut nodes, &[]);
    clean(&mut nodes, ir.registers.len());
    let mut leaves = Leaves::default();
    leaves.find_broken(&nodes);
    leaves.find_far(&nodes, &mut Vec::new());
    let nesting = Nesting::of(&nodes, &leaves.broken);
    let (flags, open, masks) = (HashMap::new(), Vec::new(), Vec::new());
    let mut flattener = Flattener { out: Vec::new(), leaves, nesting, flags, open, masks, depth: 0, ir };
    flattener.nodes(&nodes)?;
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

    /// Writes a predicate.
    fn predicate(&mut self, op: I, to: V, a: Option<V>, b: Option<Src>) {
        self.push(op, a);
        if let Some(inst) = self.out.last_mut() {
            *inst = Inst { ty: T::B1, dst: Some(to), b, ..*inst };
        }
    }

    fn set(&mut self, flag: V, bit: u64) {
        self.predicate(I::Mov, flag, None, Some(Src::Const(bit)));
    }

    /// Begins a block that has its mask on the stack.
    fn enter(&mut self, op: I, a: Option<V>) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            return Err(limit(format!("loops and what stands in them nested deeper than {DEPTH_MAX}")));
        }
        self.depth += 1;
        self.push(op, a);
        Ok(())
    }

    fn end(&mut self, op: I) {
        self.depth -= 1;
        self.push(op, None);
    }

    /// Clears the predicate that says that a jump out of inner loops is under way.
    fn clear(&mut self, label: Label, continues: bool) {
        if self.leaves.far.contains(&(label, continues)) {
            let flag = self.ir.variable(Class::Predicate);
            self.flags.insert((label, continues), flag);
            self.set(flag, 0);
        }
    }

    /// True if a jump to a label leaves a LOOP for it, or the LOOP that it names.
    fn leaves_loop(&self, label: Label) -> bool {
        let inner = self.open.iter().rev().take_while(|open| open.label != label).any(|open| open.mask.is_none());
        inner || self.open.iter().any(|open| open.label == label && open.mask.is_none())
    }

    /// True if a label is that of the innermost LOOP.
    fn is_near(&self, label: Label) -> bool {
        self.open.iter().rev().find(|open| open.mask.is_none()).is_some_and(|open| open.label == label)
    }

    /// Goes on with the jumps that have left a loop for one further out.
    fn pass_on(&mut self, left: Label) {
        for (label, continues) in self.leaves.through.get(&left).cloned().unwrap_or_default() {
            if self.leaves_loop(label) {
                let op = if continues && self.is_near(label) { I::ContinueIf } else { I::BreakIf };
                let flag = self.flags.get(&(label, continues)).copied();
                self.push(op, flag);
            }
        }
    }

    fn jump(&mut self, label: Label, continues: bool, condition: Option<V>) {
        let left = self.open.iter().find(|open| open.label == label).and_then(|open| open.mask);
        for mask in left.and_then(|first| self.masks.get(first..)).unwrap_or_default().to_vec() {
            self.set(mask, 0);
        }
        if !self.leaves_loop(label) {
            return;
        }
        let near = self.is_near(label);
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

    fn nodes(&mut self, nodes: &[Node]) -> Result<()> {
        nodes.iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        if self.out.len() > NODES_MAX {
            return Err(limit(format!("more than {NODES_MAX} instructions with the masks of deep selections")));
        }
        let Place { height, .. } = self.nesting.place(node);
        let fits = self.depth + height <= DEPTH_MAX;
        match node {
            Node::Inst(inst) => self.out.push(*inst),
            Node::Break(label) => self.jump(*label, false, None),
            Node::Continue(label) => self.jump(*label, true, None),
            Node::Loop { label, body, continuing } => {
                self.clear(*label, false);
                self.enter(I::Loop, None)?;
                self.open.push(Open { label: *label, mask: None });
                self.clear(*label, true);
                self.nodes(body)?;
                self.push(I::Continuing, None);
                self.nodes(continuing)?;
                self.end(I::EndLoop);
                self.open.pop();
                self.pass_on(*label);
            }
            Node::Block { label, body } if !self.leaves.broken.contains(label) => self.nodes(body)?,
            Node::If { .. } | Node::Block { .. } if !fits => self.masked(node, None)?,
            Node::If { cond, then, otherwise } => self.conditional(*cond, then, otherwise)?,
            Node::Block { label, body } => {
                self.clear(*label, false);
                self.enter(I::Loop, None)?;
                self.open.push(Open { label: *label, mask: None });
                self.nodes(body)?;
                if !self.out.last().is_some_and(|inst| matches!(inst.op, I::Break | I::Exit | I::Continue)) {
                    self.push(I::Break, None);
                }
                self.end(I::EndLoop);
                self.open.pop();
                self.pass_on(*label);
            }
        }
        Ok(())
    }

    /// A selection or block whose mask is a predicate, inside of one with such a mask or of none.
    fn masked(&mut self, node: &Node, outer: Option<V>) -> Result<()> {
        match node {
            Node::If { cond, then, otherwise } => {
                let yes = self.ir.variable(Class::Predicate);
                let no = (!otherwise.is_empty()).then(|| self.ir.variable(Class::Predicate));
                match outer {
                    None => self.predicate(I::Mov, yes, None, Some(Src::Reg(*cond))),
                    Some(outer) => self.predicate(I::And, yes, Some(outer), Some(Src::Reg(*cond))),
                }
                if let Some(no) = no {
                    match outer {
                        None => self.predicate(I::Not, no, Some(yes), None),
                        Some(outer) => self.predicate(I::Xor, no, Some(outer), Some(Src::Reg(yes))),
                    }
                }
                self.under(yes, then)?;
                no.map_or(Ok(()), |no| self.under(no, otherwise))
            }
            Node::Block { label, body } => {
                self.clear(*label, false);
                let own = self.ir.variable(Class::Predicate);
                self.predicate(I::Mov, own, None, Some(outer.map_or(Src::Const(1), Src::Reg)));
                self.open.push(Open { label: *label, mask: Some(self.masks.len()) });
                self.under(own, body)?;
                self.open.pop();
                Ok(())
            }
            _ => self.node(node),
        }
    }

    /// Nodes under a predicate as their mask: as many as go into one IF, and what does not fit into it behind.
    fn under(&mut self, mask: V, nodes: &[Node]) -> Result<()> {
        self.masks.push(mask);
        let mut inside = false;
        for node in nodes {
            let guarded = match node {
                Node::If { .. } | Node::Block { .. } => self.fits_under(node),
                _ => true,
            };
            if guarded && !inside {
                self.enter(I::If, Some(mask))?;
            }
            if inside && !guarded {
                self.end(I::EndIf);
            }
            inside = guarded;
            if guarded {
                self.node(node)?;
            } else {
                self.masked(node, Some(mask))?;
            }
            // What left the loop may have cleared the mask.
            if matches!(node, Node::Loop { .. }) {
                self.end(I::EndIf);
                inside = false;
            }
        }
        if inside {
            self.end(I::EndIf);
        }
        self.masks.pop();
        Ok(())
    }

    /// True if a selection fits on the stack of masks inside of one more IF, and nothing in it clears a mask that is a predicate.
    fn fits_under(&self, node: &Node) -> bool {
        let Place { height, outermost } = self.nesting.place(node);
        let masked = self.open.iter().rposition(|open| open.mask.is_some());
        let leaves =
            masked.and_then(|at| self.open.get(at)).is_some_and(|open| outermost <= self.nesting.level(open.label));
        self.depth + 1 + height <= DEPTH_MAX && !leaves
    }

    fn conditional(&mut self, cond: V, then: &[Node], otherwise: &[Node]) -> Result<()> {
        match (then, otherwise) {
            ([Node::Break(label)], []) if self.is_near(*label) => {
                self.jump(*label, false, Some(cond));
                return Ok(());
            }
            ([Node::Continue(label)], []) if self.is_near(*label) => {
                self.jump(*label, true, Some(cond));
                return Ok(());
            }
            ([], []) => return Ok(()),
            ([], _) => {
                let inverse = self.ir.register(Class::Predicate);
                self.predicate(I::Not, inverse, Some(cond), None);
                return self.conditional(inverse, otherwise, &[]);
            }
            _ => {
                self.enter(I::If, Some(cond))?;
                self.nodes(then)?;
                if !otherwise.is_empty() {
                    self.push(I::Else, None);
                    self.nodes(otherwise)?;
                }
            }
        }
        self.end(I::EndIf);
        Ok(())
    }
}
