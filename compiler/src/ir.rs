//! What lies between SPIR-V and the instruction set: instructions over virtual registers, in a tree of structured control flow.

use std::collections::HashMap;

use campanile_hw::isa::{Comparison, Op, OrderWord, Type};

use crate::error::{Result, limit};
use crate::fold;
use crate::known::{Known, Scope};

/// A virtual register.
pub(crate) type V = u32;
/// Names a LOOP or a block that can be left.
pub(crate) type Label = u32;

/// Most instructions that are made of a module, before dead ones go.
pub(crate) const NODES_MAX: usize = 1 << 18;
/// Deepest nesting of the tree. A selection takes two levels, and SPIR-V allows 1023 of them in one another.
pub(crate) const NESTING_MAX: usize = 3072;
/// Scopes in which the register of an equal instruction is looked for, the innermost ones.
const SCOPES_MAX: usize = 64;

/// A file of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Predicate,
    Word,
    Double,
}

impl Class {
    pub(crate) const fn of(ty: Type) -> Self {
        match ty {
            Type::B1 | Type::None => Self::Predicate,
            Type::I32 | Type::F16 | Type::F32 => Self::Word,
            Type::I64 | Type::F64 => Self::Double,
        }
    }

    /// The type with which registers of the file are copied.
    pub(crate) const fn ty(self) -> Type {
        match self {
            Self::Predicate => Type::B1,
            Self::Word => Type::I32,
            Self::Double => Type::I64,
        }
    }
}

/// A scalar: a register, or a constant's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Src {
    Reg(V),
    Const(u64),
}

impl Src {
    pub(crate) const fn constant(self) -> Option<u64> {
        match self {
            Self::Const(bits) => Some(bits),
            Self::Reg(_) => None,
        }
    }
}

/// An instruction over virtual registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) ty: Type,
    pub(crate) modifier: u8,
    pub(crate) order: u8,
    pub(crate) dst: Option<V>,
    pub(crate) a: Option<V>,
    pub(crate) b: Option<Src>,
    pub(crate) c: Option<V>,
    pub(crate) immediate: u64,
    /// True for a product or sum of floating-point numbers that may be part of an operation that rounds once.
    pub(crate) contracts: bool,
    pub(crate) line: u32,
}

/// What an instruction does, as a key: everything but its result and line.
type Key = (u8, u8, u8, Option<V>, Option<Src>, Option<V>, u64, bool);

impl Inst {
    const fn key(&self) -> Key {
        (self.op as u8, self.ty as u8, self.modifier, self.a, self.b, self.c, self.immediate, self.contracts)
    }

    pub(crate) const fn new(op: Op, ty: Type) -> Self {
        Self {
            op,
            ty,
            modifier: 0,
            order: 0,
            dst: None,
            a: None,
            b: None,
            c: None,
            immediate: 0,
            contracts: false,
            line: 0,
        }
    }

    /// Virtual registers that it reads.
    pub(crate) fn sources(&self) -> impl Iterator<Item = V> + use<> {
        let b = match self.b {
            Some(Src::Reg(register)) => Some(register),
            _ => None,
        };
        [self.a, b, self.c].into_iter().flatten()
    }

    /// True if it does nothing but compute its result from its sources, alike in each lane, so that it may be left out or shared.
    pub(crate) fn is_pure(&self) -> bool {
        let number = self.op as u8;
        (0x10..0x80).contains(&number)
    }

    /// True if it may be left out when nobody reads its result.
    pub(crate) fn is_removable(&self) -> bool {
        self.is_pure()
            || matches!(self.op, Op::Load | Op::LoadShared | Op::LoadScratch)
            || (0x90..0xa0).contains(&(self.op as u8))
    }
}

/// A piece of a program.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Inst(Inst),
    If { cond: V, then: Vec<Node>, otherwise: Vec<Node> },
    Loop { label: Label, body: Vec<Node>, continuing: Vec<Node> },
    Block { label: Label, body: Vec<Node> },
    Break(Label),
    Continue(Label),
}

impl Node {
    /// The nodes in it.
    pub(crate) fn children(&self) -> Vec<&Vec<Self>> {
        match self {
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::Loop { body, continuing, .. } => vec![body, continuing],
            Self::Block { body, .. } => vec![body],
            _ => Vec::new(),
        }
    }
}

/// Properties of a virtual register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) class: Class,
    /// True if it is written at more than one place.
    pub(crate) mutable: bool,
    /// True if it is written no more after it was first read.
    pub(crate) settled: bool,
    /// First register and length of the group of consecutive registers that it belongs to.
    pub(crate) group: (V, u32),
    /// For the result of a pure instruction that was written once, the registers that it was computed from.
    pub(crate) sources: Option<[Option<V>; 3]>,
}

/// A place of the tree to come back to.
pub(crate) struct Checkpoint {
    open: usize,
    length: usize,
    nodes: usize,
    scopes: usize,
}

/// Builds the tree.
pub(crate) struct Builder {
    open: Vec<Vec<Node>>,
    known: Vec<HashMap<Key, V>>,
    pub(crate) registers: Vec<Register>,
    labels: Label,
    nodes: usize,
    /// The number of nodes that there may be.
    ceiling: usize,
    pub(crate) line: u32,
    /// Constants that registers hold at the place where nodes are appended.
    pub(crate) held: Known,
    /// Results of shifts by a constant: which, of what and by how many bits.
    shifts: HashMap<V, (Op, V, u64)>,
    /// True while the instructions that are appended may round once together, see [`Inst::contracts`].
    pub(crate) contracts: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let (open, known) = (vec![Vec::new()], vec![HashMap::new()]);
        let (registers, labels, nodes, ceiling, line) = (Vec::new(), 0, 0, NODES_MAX, 0);
        let (held, shifts, contracts) = (Known::new(), HashMap::new(), false);
        Self { open, known, registers, labels, nodes, ceiling, line, held, shifts, contracts }
    }

    /// The number of nodes.
    pub(crate) const fn nodes(&self) -> usize {
        self.nodes
    }

    /// Bounds the number of nodes; returns the bound before.
    pub(crate) fn limit(&mut self, ceiling: usize) -> usize {
        core::mem::replace(&mut self.ceiling, ceiling)
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let length = self.open.last().map_or(0, Vec::len);
        Checkpoint { open: self.open.len(), length, nodes: self.nodes, scopes: self.held.depth() }
    }

    /// Takes back all nodes since a place; blocks that were open there are open still.
    pub(crate) fn return_to(&mut self, place: &Checkpoint) {
        self.open.truncate(place.open);
        self.known.truncate(place.open);
        self.held.truncate(place.scopes);
        if let Some(block) = self.open.last_mut() {
            block.truncate(place.length);
        }
        self.nodes = place.nodes;
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels
    }

    /// Consecutive virtual registers, which are allocated next to each other.
    pub(crate) fn group(&mut self, class: Class, count: u32) -> V {
        let first = self.registers.len() as V;
        for _ in 0..count {
            self.registers.push(Register {
                class,
                mutable: false,
                settled: false,
                group: (first, count),
                sources: None,
            });
        }
        first
    }

    pub(crate) fn register(&mut self, class: Class) -> V {
        self.group(class, 1)
    }

    /// A register that is written at more than one place.
    pub(crate) fn variable(&mut self, class: Class) -> V {
        let register = self.register(class);
        self.set_mutable(register);
        register
    }

    pub(crate) fn set_mutable(&mut self, register: V) {
        if let Some(entry) = self.registers.get_mut(register as usize) {
            entry.mutable = true;
        }
    }

    /// The file of a register.
    pub(crate) fn class(&self, register: V) -> Class {
        self.registers.get(register as usize).map_or(Class::Word, |entry| entry.class)
    }

    /// Says that nothing after this point of the program writes the register, but what runs through this point again.
    pub(crate) fn settle(&mut self, register: V) {
        if let Some(entry) = self.registers.get_mut(register as usize) {
            entry.settled = true;
        }
    }

    fn is_mutable(&self, register: V) -> bool {
        self.registers.get(register as usize).is_none_or(|entry| entry.mutable && !entry.settled)
    }

    pub(crate) fn push(&mut self, node: Node) -> Result<()> {
        self.nodes += 1;
        if self.nodes > self.ceiling {
            return Err(limit(format!("more than {} instructions with all functions in place", self.ceiling)));
        }
        match &node {
            Node::Break(label) | Node::Continue(label) => self.held.jump(*label),
            Node::Inst(Inst { op: Op::Exit, .. }) => self.held.end(),
            _ => {}
        }
        if let Some(block) = self.open.last_mut() {
            block.push(node);
        }
        Ok(())
    }

    /// Begins the nodes of a nested block.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.open.len() > NESTING_MAX {
            return Err(limit(format!("control flow and calls nested deeper than {NESTING_MAX} levels")));
        }
        self.open.push(Vec::new());
        self.known.push(HashMap::new());
        self.held.open();
        Ok(())
    }

    /// Ends a nested block that may run or not.
    pub(crate) fn close(&mut self) -> Vec<Node> {
        let (nodes, scope) = self.close_arm();
        self.held.after_some(&scope, false);
        nodes
    }

    /// Ends a nested block, for what is known behind it to be joined with what is known elsewhere.
    pub(crate) fn close_arm(&mut self) -> (Vec<Node>, Scope) {
        self.known.pop();
        (self.open.pop().unwrap_or_default(), self.held.close())
    }

    /// Ends a part of a loop that may run any number of times.
    pub(crate) fn close_turn(&mut self) -> Vec<Node> {
        let (nodes, scope) = self.close_arm();
        self.held.after_some(&scope, true);
        nodes
    }

    /// Begins a block that jumps name.
    pub(crate) fn open_block(&mut self, label: Label) -> Result<()> {
        self.open()?;
        self.held.close();
        self.held.open_block(label);
        Ok(())
    }

    /// Ends a block that jumps name, without a decision about what is known behind it.
    pub(crate) fn close_block_arm(&mut self, label: Label) -> (Vec<Node>, Scope) {
        self.known.pop();
        (self.open.pop().unwrap_or_default(), self.held.close_block(label))
    }

    /// Ends a block that jumps name, and puts it in its place.
    pub(crate) fn close_block(&mut self, label: Label) -> Result<()> {
        let (body, scope) = self.close_block_arm(label);
        self.held.after(&scope);
        self.push(Node::Block { label, body })
    }

    /// Nodes of which either the first or the second run.
    pub(crate) fn branch(&mut self, cond: V, then: (Vec<Node>, Scope), otherwise: (Vec<Node>, Scope)) -> Result<()> {
        self.held.after_either(then.1, otherwise.1);
        self.push(Node::If { cond, then: then.0, otherwise: otherwise.0 })
    }

    /// Appends an instruction with effects, or one that defines a register that is already there.
    pub(crate) fn emit(&mut self, inst: Inst) -> Result<()> {
        let line = self.line;
        if let Some(dst) = inst.dst.filter(|dst| self.registers.get(*dst as usize).is_some_and(|entry| entry.mutable)) {
            self.held.set(dst, None);
        }
        self.push(Node::Inst(Inst { line, ..inst }))
    }

    /// Appends an instruction whose result is a new register of the class, or finds the register of an equal one.
    pub(crate) fn define(&mut self, inst: Inst, class: Class) -> Result<V> {
        let shared = inst.is_pure() && !inst.sources().any(|source| self.is_mutable(source));
        if shared && let Some(known) = self.known.iter().rev().take(SCOPES_MAX).find_map(|scope| scope.get(&inst.key()))
        {
            return Ok(*known);
        }
        let dst = self.register(class);
        if inst.is_pure() {
            self.note_sources(dst, &inst);
        }
        self.emit(Inst { dst: Some(dst), ..inst })?;
        if shared && let Some(scope) = self.known.last_mut() {
            scope.insert(inst.key(), dst);
        }
        if shared && let (Op::Shl | Op::ShrU, Some(a), Some(Src::Const(by))) = (inst.op, inst.a, inst.b) {
            self.shifts.insert(dst, (inst.op, a, by));
        }
        Ok(dst)
    }

    /// The scalar in a register.
    pub(crate) fn reg(&mut self, ty: Type, src: Src) -> Result<V> {
        match src {
            Src::Reg(register) => Ok(register),
            Src::Const(bits) => {
                let class = Class::of(ty);
                self.define(Inst { b: Some(Src::Const(bits)), ..Inst::new(Op::Mov, class.ty()) }, class)
            }
        }
    }

    /// Copies into a register.
    pub(crate) fn copy(&mut self, to: V, class: Class, from: Src) -> Result<()> {
        if from == Src::Reg(to) {
            return Ok(());
        }
        self.emit(Inst { dst: Some(to), b: Some(from), ..Inst::new(Op::Mov, class.ty()) })?;
        self.held.set(to, from.constant());
        Ok(())
    }

    fn note_sources(&mut self, register: V, inst: &Inst) {
        let mut sources = inst.sources();
        if let Some(entry) = self.registers.get_mut(register as usize) {
            entry.sources = Some(core::array::from_fn(|_| sources.next()));
        }
    }

    /// Says that a register written at several places has a value of another one, for whoever looks for what values are made of.
    pub(crate) fn add_source(&mut self, register: V, source: Src) {
        if let (Some(entry), Src::Reg(source)) = (self.registers.get_mut(register as usize), source)
            && let Some(free) = entry.sources.get_or_insert_default().iter_mut().find(|source| source.is_none())
        {
            *free = Some(source);
        }
    }

    /// What a register is: itself, or the constant that it holds.
    pub(crate) fn held(&self, register: V) -> Src {
        self.held.get(register).map_or(Src::Reg(register), Src::Const)
    }

    /// The value of a mutable register as it is now, which may be a constant that is known.
    pub(crate) fn value(&mut self, class: Class, from: V) -> Result<Src> {
        match self.held(from) {
            Src::Reg(from) => self.read(class, from),
            constant => Ok(constant),
        }
    }

    /// The value of a mutable register as it is now.
    pub(crate) fn read(&mut self, class: Class, from: V) -> Result<Src> {
        let to = self.register(class);
        let inst = Inst { dst: Some(to), b: Some(Src::Reg(from)), ..Inst::new(Op::Mov, class.ty()) };
        self.note_sources(to, &inst);
        self.emit(inst)?;
        Ok(Src::Reg(to))
    }

    /// An operation on one operand.
    pub(crate) fn op1(&mut self, op: Op, ty: Type, a: Src) -> Result<Src> {
        if let Some(bits) = a.constant().and_then(|a| fold::unary(op, ty, a)) {
            return Ok(Src::Const(bits));
        }
        let source = match op {
            Op::WidenS | Op::WidenU => Type::I32,
            Op::Narrow => Type::I64,
            _ => ty,
        };
        let a = Some(self.reg(source, a)?);
        let class = match op {
            Op::WidenS | Op::WidenU => Class::Double,
            Op::Narrow => Class::Word,
            _ => Class::of(ty),
        };
        let ty = if matches!(op, Op::WidenS | Op::WidenU | Op::Narrow) { Type::None } else { ty };
        self.define(Inst { a, ..Inst::new(op, ty) }, class).map(Src::Reg)
    }

    /// A conversion from a type.
    pub(crate) fn convert(&mut self, op: Op, ty: Type, from: Type, a: Src) -> Result<Src> {
        let a = Some(self.reg(from, a)?);
        self.define(Inst { a, modifier: from as u8, ..Inst::new(op, ty) }, Class::of(ty)).map(Src::Reg)
    }

    /// An operation on two operands.
    pub(crate) fn op2(&mut self, op: Op, ty: Type, mut a: Src, mut b: Src) -> Result<Src> {
        if let (Some(a), Some(b)) = (a.constant(), b.constant())
            && let Some(bits) = fold::binary(op, ty, a, b)
        {
            return Ok(Src::Const(bits));
        }
        if a.constant().is_some() && fold::commutes(op) {
            (a, b) = (b, a);
        }
        if let Some(same) = b.constant().and_then(|b| with_constant(op, ty, a, b)) {
            return Ok(same);
        }
        if let Some((a, by)) = self.rotation(op, ty, a, b) {
            let inst = Inst { a: Some(a), b: Some(Src::Const(by)), ..Inst::new(Op::Rotl, ty) };
            return self.define(inst, Class::of(ty)).map(Src::Reg);
        }
        let a = Some(self.reg(ty, a)?);
        let contracts = self.contracts && ty.is_float() && matches!(op, Op::Add | Op::Mul);
        self.define(Inst { a, b: Some(b), contracts, ..Inst::new(op, ty) }, Class::of(ty)).map(Src::Reg)
    }

    /// What is rotated to the left and by how many bits, where an operation puts the two shifts of a rotation together.
    fn rotation(&self, op: Op, ty: Type, a: Src, b: Src) -> Option<(V, u64)> {
        let (Op::Or | Op::Xor | Op::Add, Src::Reg(a), Src::Reg(b)) = (op, a, b) else { return None };
        let (one, other) = (self.shifts.get(&a)?, self.shifts.get(&b)?);
        let (left, right) = if one.0 == Op::Shl { (one, other) } else { (other, one) };
        let fits = (left.0, right.0) == (Op::Shl, Op::ShrU) && left.1 == right.1;
        (fits && left.2 != 0 && right.2 != 0 && left.2.checked_add(right.2) == Some(u64::from(ty.bits())))
            .then_some((left.1, left.2))
    }

    /// `a * b + c`, rounded once.
    pub(crate) fn fma(&mut self, ty: Type, a: Src, b: Src, c: Src) -> Result<Src> {
        let a = Some(self.reg(ty, a)?);
        let b = Some(Src::Reg(self.reg(ty, b)?));
        let c = Some(self.reg(ty, c)?);
        self.define(Inst { a, b, c, ..Inst::new(Op::Fma, ty) }, Class::of(ty)).map(Src::Reg)
    }

    /// `a` where the predicate is set, otherwise `b`.
    pub(crate) fn select(&mut self, ty: Type, condition: Src, a: Src, b: Src) -> Result<Src> {
        if a == b {
            return Ok(a);
        }
        match condition {
            Src::Const(bits) => Ok(if bits != 0 { a } else { b }),
            Src::Reg(condition) => {
                let a = Some(self.reg(ty, a)?);
                let inst = Inst { a, b: Some(b), c: Some(condition), ..Inst::new(Op::Select, ty) };
                self.define(inst, Class::of(ty)).map(Src::Reg)
            }
        }
    }

    /// A comparison.
    pub(crate) fn cmp(&mut self, comparison: Comparison, ty: Type, a: Src, b: Src) -> Result<Src> {
        if let (Some(a), Some(b)) = (a.constant(), b.constant())
            && let Some(set) = fold::compare(comparison, ty, a, b)
        {
            return Ok(Src::Const(u64::from(set)));
        }
        let a = Some(self.reg(ty, a)?);
        let inst = Inst { a, b: Some(b), modifier: comparison as u8, ..Inst::new(Op::Cmp, ty) };
        self.define(inst, Class::Predicate).map(Src::Reg)
    }

    /// Not, of a predicate.
    pub(crate) fn not(&mut self, a: Src) -> Result<Src> {
        self.op1(Op::Not, Type::B1, a)
    }

    /// Runs nodes where a predicate is set.
    pub(crate) fn when(&mut self, condition: Src, inner: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        match condition {
            Src::Const(0) => Ok(()),
            Src::Const(_) => inner(self),
            Src::Reg(cond) => {
                self.open()?;
                inner(self)?;
                let then = self.close();
                self.push(Node::If { cond, then, otherwise: Vec::new() })
            }
        }
    }

    /// All nodes.
    pub(crate) fn finish(&mut self) -> Vec<Node> {
        self.close()
    }

    /// An instruction with an order.
    pub(crate) const fn ordered(op: Op, order: OrderWord) -> Inst {
        Inst { order: order.into_bits(), ..Inst::new(op, Type::None) }
    }
}

/// The result of an operation with the constant `b` on its right if no instruction is needed for it: `a` itself, or 0. `None` if the instruction is needed.
fn with_constant(op: Op, ty: Type, a: Src, b: u64) -> Option<Src> {
    if ty.is_float() {
        return None;
    }
    let same = match op {
        Op::Add | Op::Sub | Op::Or | Op::Xor | Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl => b == 0,
        Op::Mul | Op::DivU | Op::DivS => b == 1,
        Op::And => b == fold::mask(ty),
        _ => false,
    };
    if same {
        return Some(a);
    }
    (matches!(op, Op::Mul | Op::And) && b == 0).then_some(Src::Const(0))
}
