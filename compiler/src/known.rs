//! What variables and other registers that are written at more than one place hold where the program is being built: constants that are known there.
//!
//! Each nested block has a scope with what was written in it; what is not written there is what it was outside.

use std::collections::HashMap;

/// Most registers of which a scope keeps what was written; with more it forgets everything.
const WRITES_MAX: usize = 512;
/// Scopes that are looked through, the innermost ones.
const SCOPES_MAX: usize = 64;

/// The writes of a scope so far, in no order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Registers that were written, with the constants that they hold at the end if those are known.
    writes: HashMap<u32, Option<u64>>,
    /// True if registers that are not among these may hold anything.
    is_forgotten: bool,
    /// True if control does not come to the end.
    is_over: bool,
}

impl Scope {
    fn forget(&mut self) {
        self.writes.clear();
        self.is_forgotten = true;
    }

    fn set(&mut self, register: u32, constant: Option<u64>) {
        if self.writes.len() >= WRITES_MAX && !self.writes.contains_key(&register) {
            self.forget();
        }
        self.writes.insert(register, constant);
    }

    /// What follows this scope, and what is written after it.
    fn then(&mut self, later: &Self) {
        if later.is_forgotten {
            self.forget();
        }
        later.writes.iter().for_each(|(register, constant)| self.set(*register, *constant));
    }

    /// Constants that are known where control comes from the end of one of two scopes.
    fn or(self, other: Self) -> Self {
        match (self.is_over, other.is_over) {
            (true, _) => return other,
            (_, true) => return self,
            _ => {}
        }
        let mut both = Self { is_forgotten: self.is_forgotten || other.is_forgotten, ..Self::default() };
        for register in self.writes.keys().chain(other.writes.keys()) {
            let one = self.writes.get(register).copied().flatten();
            both.set(*register, one.filter(|one| other.writes.get(register) == Some(&Some(*one))));
        }
        both
    }
}

/// A block that jumps name.
struct Block {
    /// The number of its scope.
    depth: usize,
    /// Writes from its beginning to each jump to its end, joined; none if there was no jump.
    jumps: Option<Scope>,
}

/// The scopes that are open.
pub(crate) struct Known {
    scopes: Vec<Scope>,
    blocks: HashMap<u32, Block>,
    /// True if nothing is to be known.
    pub(crate) is_off: bool,
    /// True if something was taken for known that a loop writes.
    pub(crate) is_wrong: bool,
}

impl Known {
    pub(crate) fn new() -> Self {
        Self { scopes: vec![Scope::default()], blocks: HashMap::new(), is_off: false, is_wrong: false }
    }

    pub(crate) fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// Closes scopes without a trace.
    pub(crate) fn truncate(&mut self, depth: usize) {
        self.scopes.truncate(depth);
        self.blocks.retain(|_, block| block.depth < depth);
    }

    pub(crate) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    /// Opens the scope of a block or loop that jumps name.
    pub(crate) fn open_block(&mut self, label: u32) {
        self.blocks.insert(label, Block { depth: self.scopes.len(), jumps: None });
        self.open();
    }

    pub(crate) fn close(&mut self) -> Scope {
        self.scopes.pop().unwrap_or_default()
    }

    /// Closes the scope of a block: what is known behind it.
    pub(crate) fn close_block(&mut self, label: u32) -> Scope {
        let end = self.close();
        match self.blocks.remove(&label).and_then(|block| block.jumps) {
            Some(jumps) => end.or(jumps),
            None => end,
        }
    }

    fn top(&mut self) -> Option<&mut Scope> {
        self.scopes.last_mut()
    }

    /// Says what a register holds from here on.
    pub(crate) fn set(&mut self, register: u32, constant: Option<u64>) {
        if let Some(top) = self.top() {
            top.set(register, constant);
        }
    }

    /// The constant that a register holds here, if it is known.
    pub(crate) fn get(&self, register: u32) -> Option<u64> {
        if self.is_off {
            return None;
        }
        for scope in self.scopes.iter().rev().take(SCOPES_MAX) {
            match scope.writes.get(&register) {
                Some(constant) => return *constant,
                None if scope.is_forgotten => return None,
                None => {}
            }
        }
        None
    }

    /// Goes on behind a scope that was run through.
    pub(crate) fn after(&mut self, scope: &Scope) {
        if let Some(top) = self.top() {
            top.then(scope);
            top.is_over |= scope.is_over;
        }
    }

    /// Goes on behind two scopes of which one was run through.
    pub(crate) fn after_either(&mut self, one: Scope, other: Scope) {
        self.after(&one.or(other));
    }

    /// Goes on behind a scope that may have been run through any number of times. In a loop all that it writes must have been forgotten before.
    pub(crate) fn after_some(&mut self, scope: &Scope, is_loop: bool) {
        if is_loop && scope.writes.keys().any(|register| self.get(*register).is_some()) {
            self.is_wrong = true;
        }
        if let Some(top) = self.top() {
            if scope.is_forgotten {
                top.forget();
            }
            scope.writes.keys().for_each(|register| top.set(*register, None));
        }
    }

    /// A jump to the end of a block, or to the part of a loop that runs between two iterations.
    pub(crate) fn jump(&mut self, label: u32) {
        if let Some(block) = self.blocks.get_mut(&label) {
            let mut here = Scope::default();
            let between = self.scopes.get(block.depth..).unwrap_or_default();
            if between.len() > SCOPES_MAX {
                here.forget();
            } else {
                between.iter().for_each(|scope| here.then(scope));
            }
            block.jumps = Some(match block.jumps.take() {
                Some(jumps) => jumps.or(here),
                None => here,
            });
        }
        self.end();
    }

    /// True if something jumps to the end of a block that is open.
    pub(crate) fn has_jumps(&self, label: u32) -> bool {
        self.blocks.get(&label).is_some_and(|block| block.jumps.is_some())
    }

    /// Control ends here.
    pub(crate) fn end(&mut self) {
        if let Some(top) = self.top() {
            top.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_ways_agree_on_is_known_behind_them() {
        let mut known = Known::new();
        known.set(1, Some(5));
        let mut arm = |value: u64| {
            known.open();
            known.set(1, Some(7));
            known.set(2, Some(value));
            known.close()
        };
        let (one, other) = (arm(8), arm(9));
        known.after_either(one, other);
        assert_eq!((known.get(1), known.get(2)), (Some(7), None));
    }

    #[test]
    fn a_way_that_leaves_says_nothing_about_what_comes_next_and_all_about_where_it_goes() {
        let mut known = Known::new();
        known.set(1, Some(5));
        known.set(2, Some(3));
        known.open_block(10);
        known.open();
        known.set(1, Some(6));
        known.jump(10);
        let arm = known.close();
        known.after_either(arm, Scope::default());
        assert_eq!((known.get(1), known.get(2)), (Some(5), Some(3)));
        known.set(2, Some(4));
        let block = known.close_block(10);
        known.after(&block);
        assert_eq!((known.get(1), known.get(2)), (None, None));
    }

    #[test]
    fn what_a_loop_writes_is_forgotten_and_what_was_not_is_found() {
        let mut known = Known::new();
        known.set(1, Some(5));
        known.set(2, None);
        known.open();
        known.set(2, Some(1));
        let body = known.close();
        known.after_some(&body, true);
        assert_eq!((known.get(1), known.get(2), known.is_wrong), (Some(5), None, false));
        known.open();
        known.set(1, Some(6));
        let body = known.close();
        known.after_some(&body, true);
        assert!(known.is_wrong);
    }

    #[test]
    fn too_many_registers_are_forgotten() {
        let mut known = Known::new();
        known.set(0, Some(1));
        known.open();
        (1..2000).for_each(|register| known.set(register, Some(1)));
        assert_eq!((known.get(0), known.get(1), known.get(1999)), (None, None, Some(1)));
    }
}
