//! How deep the tree of control flow nests, and how far the jumps in it go.

use std::collections::{HashMap, HashSet};

use crate::ir::{Label, Node};

/// A selection, block or loop in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Entries of the stack of masks that it needs.
    pub(crate) height: u32,
    /// The level of the outermost label that something in it jumps to.
    pub(crate) outermost: u32,
}

impl Place {
    const LEAF: Self = Self { height: 0, outermost: u32::MAX };
}

/// The places of a tree that stays where it is.
pub(crate) struct Nesting {
    /// By the addresses of the nodes, which are names here and nothing else.
    places: HashMap<*const Node, Place>,
    /// For each label the number of labelled blocks and loops around it, 0 for the outermost.
    levels: HashMap<Label, u32>,
}

impl Nesting {
    pub(crate) fn of(nodes: &[Node], broken: &HashSet<Label>) -> Self {
        let mut nesting = Self { places: HashMap::new(), levels: HashMap::new() };
        nesting.find(nodes, 0, broken);
        nesting
    }

    /// The place of a node, by what is in it.
    pub(crate) fn place(&self, node: &Node) -> Place {
        self.places.get(&core::ptr::from_ref(node)).copied().unwrap_or(Place::LEAF)
    }

    pub(crate) fn level(&self, label: Label) -> u32 {
        self.levels.get(&label).copied().unwrap_or(0)
    }

    /// Records the places of nodes and of all in them; returns the greatest height and the outermost label among them.
    fn find(&mut self, nodes: &[Node], level: u32, broken: &HashSet<Label>) -> Place {
        let mut all = Place::LEAF;
        for node in nodes {
            let own = match node {
                Node::Inst(_) => continue,
                Node::Break(label) | Node::Continue(label) => {
                    all.outermost = all.outermost.min(self.level(*label));
                    continue;
                }
                Node::If { .. } => None,
                Node::Loop { label, .. } | Node::Block { label, .. } => Some(*label),
            };
            if let Some(label) = own {
                self.levels.insert(label, level);
            }
            let mut place = Place::LEAF;
            for inner in node.children() {
                let inner = self.find(inner, level + u32::from(own.is_some()), broken);
                place.height = place.height.max(inner.height);
                place.outermost = place.outermost.min(inner.outermost);
            }
            if !matches!(node, Node::Block { label, .. } if !broken.contains(label)) {
                place.height += 1;
            }
            self.places.insert(core::ptr::from_ref(node), place);
            all.height = all.height.max(place.height);
            all.outermost = all.outermost.min(place.outermost);
        }
        all
    }
}
