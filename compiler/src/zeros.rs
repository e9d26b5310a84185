//! Zeros that are stored to workgroup memory before anything else is: they are there already, because workgroup memory is zero when a workgroup starts.
//!
//! WGSL asks for such memory, so its compilers write one store for each element, which one lane executes. What another lane stores meanwhile, without a barrier in between, may stay or not: that
//! is a data race, in the memory models of Vulkan and WGSL. Lanes may order their stores by atomic operations and fences of whatever memory too, so nothing behind the first of those is left out.

use std::collections::HashSet;

use campanile_hw::isa::{MemoryFormat, Op as I};

use crate::ir::{Node, Register, Src, V};

struct Walk<'r> {
    registers: &'r [Register],
    /// Registers that are zero for good.
    zeros: HashSet<V>,
    /// True if something else may have been stored.
    over: bool,
}

/// Removes stores of zeros, from the start of a program to its first loop, to the first access that may put something else into workgroup memory, or to the first that may show that another lane has.
pub(crate) fn remove_zeros(nodes: &mut Vec<Node>, registers: &[Register]) {
    Walk { registers, zeros: HashSet::new(), over: false }.block(nodes);
}

impl Walk<'_> {
    fn block(&mut self, nodes: &mut Vec<Node>) {
        nodes.retain_mut(|node| self.over || !self.is_needless(node));
    }

    /// True if a node stores zeros where zeros are.
    fn is_needless(&mut self, node: &mut Node) -> bool {
        match node {
            Node::Inst(inst) if inst.op == I::StoreShared => {
                let count = MemoryFormat::from_number(inst.modifier).map_or(1, MemoryFormat::registers);
                let is_zero = inst.c.is_some_and(|data| (data..data + count).all(|data| self.zeros.contains(&data)));
                self.over = !is_zero;
                return is_zero;
            }
            Node::Inst(inst) => {
                self.over = matches!(inst.op, I::Atomic | I::AtomicShared | I::Fence);
                let once = |dst: &V| self.registers.get(*dst as usize).is_some_and(|entry| !entry.mutable);
                let zero = inst.op == I::Mov && inst.b == Some(Src::Const(0));
                self.zeros.extend(inst.dst.filter(|dst| zero && once(dst)));
            }
            Node::If { then, otherwise, .. } => {
                self.block(then);
                self.block(otherwise);
            }
            Node::Block { body, .. } => self.block(body),
            Node::Loop { .. } => self.over = true,
            Node::Break(_) | Node::Continue(_) => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Class, Inst};
    use campanile_hw::isa::Type as T;

    fn set(to: V, constant: u64) -> Node {
        Node::Inst(Inst { dst: Some(to), b: Some(Src::Const(constant)), ..Inst::new(I::Mov, T::I32) })
    }

    fn store(data: V) -> Node {
        store_as(MemoryFormat::W1, data)
    }

    fn store_as(format: MemoryFormat, data: V) -> Node {
        let inst = Inst { a: Some(0), c: Some(data), modifier: format as u8, ..Inst::new(I::StoreShared, T::None) };
        Node::Inst(inst)
    }

    fn branch(then: Vec<Node>, otherwise: Vec<Node>) -> Node {
        Node::If { cond: 9, then, otherwise }
    }

    fn left(mut nodes: Vec<Node>) -> String {
        // Register 8 is a variable.
        let register = |number| Register {
            class: Class::Word,
            mutable: number == 8,
            settled: false,
            group: (number, 1),
            sources: None,
        };
        remove_zeros(&mut nodes, &(0..10).map(register).collect::<Vec<_>>());
        format!("{nodes:?}")
    }

    fn stays(nodes: Vec<Node>) {
        assert_eq!(left(nodes.clone()), format!("{nodes:?}"));
    }

    #[test]
    fn zeros_at_the_start_go() {
        let code = vec![set(1, 0), branch(vec![store(1), store(1)], vec![store(1)])];
        assert_eq!(left(code), format!("{:?}", [set(1, 0), branch(vec![], vec![])]));
        let rows = vec![set(1, 0), set(2, 0), store_as(MemoryFormat::W2, 1)];
        assert_eq!(left(rows), format!("{:?}", [set(1, 0), set(2, 0)]));
    }

    #[test]
    fn what_is_no_zero_stays_and_what_comes_behind_it() {
        stays(vec![set(1, 0), set(2, 5), store(2), store(1)]);
        stays(vec![set(1, 0), set(2, 5), store_as(MemoryFormat::W2, 1), store(1)]);
        stays(vec![set(1, 0), branch(vec![store(3)], vec![store(1)]), store(1)]);
        stays(vec![set(8, 0), store(8)]);
    }

    #[test]
    fn zeros_behind_an_atomic_operation_or_a_fence_or_in_a_loop_stay() {
        for op in [I::AtomicShared, I::Atomic, I::Fence] {
            let ordered = Node::Inst(Inst { a: Some(0), dst: Some(4), ..Inst::new(op, T::I32) });
            stays(vec![set(1, 0), ordered, store(1)]);
        }
        let turns = Node::Loop { label: 1, body: vec![store(1), store(3)], continuing: vec![store(1)] };
        stays(vec![set(1, 0), turns, store(1)]);
    }
}
