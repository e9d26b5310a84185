//! Products and the sums that they go into, rounded once: SPIR-V lets an implementation contract them where NoContraction does not decorate either.

use campanile_hw::isa::Op as I;

use crate::copies::{count_uses, is_boundary};
use crate::flatten::results;
use crate::ir::{Inst, Register, Src, V};

/// The writes of a register so far.
#[derive(Clone, Copy, Default)]
struct Write {
    /// The number of the last instruction that writes it, from 1 on; 0 if none does yet.
    at: usize,
    /// Instructions that write it so far.
    count: u32,
}

/// Puts a product that nothing but a sum behind it in straight code reads into the sum, as one FMA. The operands of the product are read later than before, so nothing in between may write them.
pub(crate) fn contract(code: &mut Vec<Inst>, registers: &[Register]) {
    let uses = count_uses(code, registers.len());
    let alone = |register: V| registers.get(register as usize).is_some_and(|entry| entry.group.1 == 1);
    let mut writes = vec![Write::default(); registers.len()];
    for written in code.iter().flat_map(results) {
        if let Some(write) = writes.get_mut(written as usize) {
            write.count += 1;
        }
    }
    let mut gone = vec![false; code.len()];
    let mut start = 0;
    for at in 0..code.len() {
        let Some(inst) = code.get(at).copied() else { continue };
        if is_boundary(inst.op) {
            start = at;
        }
        if let (I::Add, true, Some(a), Some(Src::Reg(b))) = (inst.op, inst.contracts, inst.a, inst.b) {
            let found = [(b, a), (a, b)].into_iter().find_map(|(product, other)| {
                let once = alone(product) && uses.get(product as usize) == Some(&1);
                let write =
                    writes.get(product as usize).filter(|write| once && write.count == 1 && write.at > start)?;
                let of = code.get(write.at - 1)?;
                let (I::Mul, true, Some(x), Some(Src::Reg(y))) = (of.op, of.contracts, of.a, of.b) else { return None };
                let is_kept = |source: V| writes.get(source as usize).is_some_and(|last| last.at < write.at);
                (of.ty == inst.ty && is_kept(x) && is_kept(y)).then_some((write.at - 1, [x, y, other]))
            });
            if let Some((product, [x, y, other])) = found
                && let (Some(sum), Some(gone)) = (code.get_mut(at), gone.get_mut(product))
            {
                *sum = Inst { op: I::Fma, a: Some(x), b: Some(Src::Reg(y)), c: Some(other), ..inst };
                *gone = true;
            }
        }
        for written in results(&inst) {
            if let Some(write) = writes.get_mut(written as usize) {
                write.at = at + 1;
            }
        }
    }
    let mut gone = gone.into_iter();
    code.retain(|_| !gone.next().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Class;
    use campanile_hw::isa::Type as T;

    fn with(op: I, to: V, a: V, b: V) -> Inst {
        Inst { dst: Some(to), a: Some(a), b: Some(Src::Reg(b)), contracts: true, ..Inst::new(op, T::F32) }
    }

    fn mul(to: V, a: V, b: V) -> Inst {
        with(I::Mul, to, a, b)
    }

    fn add(to: V, a: V, b: V) -> Inst {
        with(I::Add, to, a, b)
    }

    fn fma(to: V, a: V, b: V, c: V) -> Inst {
        Inst { c: Some(c), ..with(I::Fma, to, a, b) }
    }

    fn contracted(mut code: Vec<Inst>) -> Vec<Inst> {
        let alone =
            |number| Register { class: Class::Word, mutable: true, settled: false, group: (number, 1), sources: None };
        contract(&mut code, &(0..10).map(alone).collect::<Vec<_>>());
        code
    }

    fn stays(code: Vec<Inst>) {
        assert_eq!(contracted(code.clone()), code);
    }

    #[test]
    fn a_product_on_either_side_of_a_sum_goes_into_it() {
        assert_eq!(contracted(vec![mul(4, 0, 1), add(3, 3, 4)]), [fma(3, 0, 1, 3)]);
        assert_eq!(contracted(vec![mul(4, 0, 1), add(3, 4, 2)]), [fma(3, 0, 1, 2)]);
    }

    #[test]
    fn of_two_products_one_goes_into_their_sum() {
        assert_eq!(contracted(vec![mul(4, 0, 1), mul(5, 2, 3), add(6, 4, 5)]), [mul(4, 0, 1), fma(6, 2, 3, 4)]);
    }

    #[test]
    fn a_sum_of_products_becomes_a_chain() {
        let code = vec![mul(5, 0, 1), mul(6, 2, 3), add(7, 5, 6), mul(8, 0, 3), add(9, 7, 8)];
        assert_eq!(contracted(code), [mul(5, 0, 1), fma(7, 2, 3, 5), fma(9, 0, 3, 7)]);
    }

    #[test]
    fn a_product_that_others_read_too_stays() {
        stays(vec![mul(4, 0, 1), add(3, 2, 4), add(5, 0, 4)]);
        stays(vec![mul(4, 0, 1), add(3, 4, 4)]);
    }

    #[test]
    fn what_may_not_be_contracted_stays() {
        let exact = |inst: Inst| Inst { contracts: false, ..inst };
        stays(vec![exact(mul(4, 0, 1)), add(3, 2, 4)]);
        stays(vec![mul(4, 0, 1), exact(add(3, 2, 4))]);
    }

    #[test]
    fn a_product_whose_operands_change_before_the_sum_stays() {
        stays(vec![mul(4, 0, 1), add(0, 2, 2), add(3, 2, 4)]);
        stays(vec![mul(4, 0, 1), with(I::Sub, 1, 2, 2), add(3, 2, 4)]);
        // The register of a product that is written twice may hold either.
        stays(vec![with(I::Sub, 4, 2, 2), mul(4, 0, 1), add(3, 2, 4)]);
        stays(vec![mul(4, 4, 1), add(3, 2, 5)]);
    }

    #[test]
    fn a_product_of_another_block_stays() {
        for op in [I::Loop, I::EndIf, I::Else, I::EndLoop] {
            stays(vec![mul(4, 0, 1), Inst::new(op, T::None), add(3, 2, 4)]);
        }
    }

    #[test]
    fn the_sum_and_product_of_a_constant_stay() {
        let constant = |inst: Inst| Inst { b: Some(Src::Const(5)), ..inst };
        stays(vec![constant(mul(4, 0, 0)), add(3, 2, 4)]);
        stays(vec![mul(4, 0, 1), constant(add(3, 4, 4))]);
    }
}
