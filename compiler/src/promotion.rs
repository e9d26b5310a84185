//! Which variables are tried to be kept in registers although an index into them is no constant of the module, and which loops are unrolled for that.
//!
//! An index may become constant only when calls are in their places, with constant arguments, and when loops that count are unrolled. So the module is
//! lowered for as long as something is found that an attempt took for granted and is not so: first without unrolled loops; then with those unrolled that
//! count what such an index is made of; at last with variables in memory whose indices are not constant even so.

use std::collections::{HashMap, HashSet};

use crate::module::Module;

/// Choices with which a module is lowered once.
#[derive(Clone, Default)]
pub(crate) struct Attempt {
    /// Variables that lie in memory.
    pub(crate) in_memory: HashSet<u32>,
    /// Variables that lie in registers if there are enough registers, and if all indices into them are found to be constant.
    pub(crate) tentative: HashSet<u32>,
    /// Header blocks of the loops that are to be unrolled, each with the variables that it is unrolled for.
    pub(crate) unrolled: HashMap<u32, HashSet<u32>>,
    /// True if only what the module itself says is constant.
    pub(crate) is_plain: bool,
}

/// Reasons for which an attempt fails; without `dynamic` its program is used.
#[derive(Default)]
pub(crate) struct Findings {
    /// Tentative variables with an index that is not constant, and the loops that count what it is made of.
    pub(crate) dynamic: Vec<(u32, Vec<u32>)>,
    /// Loops that are not unrolled although they were to be.
    pub(crate) failed: HashSet<u32>,
}

impl Attempt {
    /// The first attempt, with as much in registers as can be.
    pub(crate) fn first(module: &Module) -> Self {
        let in_memory = module.in_memory(false);
        let tentative = module.in_memory(true).difference(&in_memory).copied().collect();
        Self { in_memory, tentative, ..Self::default() }
    }

    /// The one that takes nothing for granted.
    pub(crate) fn plain(module: &Module) -> Self {
        Self { in_memory: module.in_memory(true), is_plain: true, ..Self::default() }
    }

    /// The next attempt after one that found variables with indices that are not constant.
    pub(crate) fn next(mut self, findings: Findings) -> Self {
        let mut more = false;
        for (variable, header) in
            findings.dynamic.iter().flat_map(|(id, loops)| loops.iter().map(move |one| (*id, *one)))
        {
            if !findings.failed.contains(&header) {
                more |= self.unrolled.entry(header).or_default().insert(variable);
            }
        }
        if more {
            return self;
        }
        for (variable, _) in findings.dynamic {
            self.tentative.remove(&variable);
            self.in_memory.insert(variable);
        }
        for variables in self.unrolled.values_mut() {
            variables.retain(|variable| self.tentative.contains(variable));
        }
        self.unrolled.retain(|_, variables| !variables.is_empty());
        self
    }
}
