//! Copies between registers that nobody needs: a read of a variable is the variable itself while nothing writes it, and what is computed to be copied into one is computed there.

use std::collections::HashMap;

use campanile_hw::isa::{MemoryFormat, Op as I};

use crate::flatten::results;
use crate::ir::{Inst, Register, Src, V};

/// Instructions between a result and its copy that are looked at.
const NEAR: usize = 64;

/// True at the ends of straight code.
pub(crate) const fn is_boundary(op: I) -> bool {
    (op as u8) < I::Barrier as u8
}

/// The registers of a copy: to, from.
fn copied(inst: &Inst) -> Option<(V, V)> {
    match (inst.op, inst.dst, inst.b) {
        (I::Mov, Some(to), Some(Src::Reg(from))) => Some((to, from)),
        _ => None,
    }
}

/// Removes copies. The list computes the same as before.
pub(crate) fn remove_copies(code: &mut Vec<Inst>, registers: &[Register]) {
    let alone = |register: V| registers.get(register as usize).is_some_and(|entry| entry.group.1 == 1);
    backward(code, registers.len(), &alone);
    forward(code);
    let uses = count_uses(code, registers.len());
    let unused = |to: V| alone(to) && uses.get(to as usize) == Some(&0);
    code.retain(|inst| copied(inst).is_none_or(|(to, _)| !unused(to)));
}

/// The number of instructions that read each register.
pub(crate) fn count_uses(code: &[Inst], registers: usize) -> Vec<u32> {
    let mut uses = vec![0; registers];
    for source in code.iter().flat_map(Inst::sources) {
        if let Some(count) = uses.get_mut(source as usize) {
            *count += 1;
        }
    }
    uses
}

/// Reads the original of a copy where it still has the same value.
fn forward(code: &mut [Inst]) {
    let mut originals: HashMap<V, V> = HashMap::new();
    for inst in code {
        let original = |register: V| originals.get(&register).copied().unwrap_or(register);
        inst.a = inst.a.map(original);
        inst.b = inst.b.map(|source| match source {
            Src::Reg(register) => Src::Reg(original(register)),
            constant => constant,
        });
        // The data of a store may be several registers in a row.
        let stores = matches!(inst.op, I::Store | I::StoreShared | I::StoreScratch);
        let row = stores && MemoryFormat::from_number(inst.modifier).is_none_or(|format| format.registers() > 1);
        inst.c = inst.c.map(|register| if row { register } else { original(register) });
        if is_boundary(inst.op) {
            originals.clear();
            continue;
        }
        for written in results(inst) {
            originals.remove(&written);
            originals.retain(|_, from| *from != written);
        }
        if let Some((to, from)) = copied(inst)
            && to != from
        {
            originals.insert(to, from);
        }
    }
}

/// Computes what is only copied where the copy goes.
fn backward(code: &mut Vec<Inst>, registers: usize, alone: &dyn Fn(V) -> bool) {
    let uses = count_uses(code, registers);
    let mut definitions = vec![0u32; registers];
    for written in code.iter().flat_map(results) {
        if let Some(count) = definitions.get_mut(written as usize) {
            *count += 1;
        }
    }
    let once = |counts: &[u32], register: V| counts.get(register as usize) == Some(&1);
    let mut gone = vec![false; code.len()];
    for at in 0..code.len() {
        let Some((to, from)) = code.get(at).and_then(copied) else { continue };
        if !(alone(from) && once(&uses, from) && once(&definitions, from)) {
            continue;
        }
        let before = at.saturating_sub(NEAR)..at;
        let found = before.rev().filter(|place| gone.get(*place) != Some(&true)).find_map(|place| {
            let inst = code.get(place)?;
            let defines = inst.dst == Some(from) && inst.is_pure();
            let ends = is_boundary(inst.op) || inst.sources().any(|source| source == to);
            let ends = ends || results(inst).any(|written| written == to || written == from);
            (defines || ends).then_some((place, defines))
        });
        if let Some((place, true)) = found
            && let (Some(inst), Some(gone)) = (code.get_mut(place), gone.get_mut(at))
        {
            inst.dst = Some(to);
            *gone = true;
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

    fn copy(to: V, from: V) -> Inst {
        Inst { dst: Some(to), b: Some(Src::Reg(from)), ..Inst::new(I::Mov, T::I32) }
    }

    fn add(to: V, a: V, b: V) -> Inst {
        Inst { dst: Some(to), a: Some(a), b: Some(Src::Reg(b)), ..Inst::new(I::Add, T::I32) }
    }

    fn without_copies(mut code: Vec<Inst>) -> Vec<Inst> {
        let alone =
            |number| Register { class: Class::Word, mutable: true, settled: false, group: (number, 1), sources: None };
        remove_copies(&mut code, &(0..10).map(alone).collect::<Vec<_>>());
        code
    }

    #[test]
    fn a_sum_in_a_variable_is_computed_where_the_variable_is() {
        assert_eq!(without_copies(vec![copy(1, 0), add(2, 1, 3), copy(0, 2)]), [add(0, 0, 3)]);
    }

    #[test]
    fn a_value_that_was_read_before_its_variable_changed_is_kept() {
        let code = vec![copy(1, 0), add(0, 0, 3), add(4, 1, 1), add(5, 0, 4)];
        assert_eq!(without_copies(code.clone()), code);
    }

    #[test]
    fn a_copy_of_a_copy_goes_with_it() {
        assert_eq!(without_copies(vec![add(1, 0, 3), copy(2, 1), copy(0, 2)]), [add(0, 0, 3)]);
    }

    #[test]
    fn a_copy_is_kept_behind_the_end_of_straight_code() {
        let code = vec![copy(1, 0), Inst::new(I::Loop, T::None), add(0, 1, 1), Inst::new(I::EndLoop, T::None)];
        assert_eq!(without_copies(code.clone()), code);
    }

    #[test]
    fn a_result_that_has_other_readers_keeps_its_register() {
        let code = vec![add(2, 1, 3), copy(0, 2), add(0, 0, 4), add(5, 2, 0)];
        assert_eq!(without_copies(code.clone()), vec![add(2, 1, 3), copy(0, 2), add(0, 2, 4), add(5, 2, 0)]);
    }

    #[test]
    fn a_variable_that_is_read_in_between_is_not_written_early() {
        let code = vec![add(2, 1, 3), add(4, 0, 0), copy(0, 2), add(5, 4, 0)];
        assert_eq!(without_copies(code), [add(2, 1, 3), add(4, 0, 0), copy(0, 2), add(5, 4, 2)]);
    }
}
