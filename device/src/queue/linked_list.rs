//! Doubly linked lists of the elements of a table. An element names its neighbours by their places in the table, so that insertion and
//! removal cost the same however long the list is, and allocate nothing. The run list keeps its queues and groups on such lists.

/// The index that stands for no element: beyond an end of a list, and both ends of an empty one.
const NONE: u32 = u32::MAX;

/// The neighbours of an element that is on a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: u32,
    after: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self { before: NONE, after: NONE }
    }
}

/// An element of a table that can be on one list at a time.
pub(super) trait Linked {
    /// The link of the element; `None` for an empty place of the table.
    fn link(&mut self) -> Option<&mut Link>;
}

/// A list: its first and its last element. The others are found through their links.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// The place of the first element, or [`NONE`].
    pub(super) head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

fn link<T: Linked>(table: &mut [T], at: u32) -> Option<&mut Link> {
    table.get_mut(at as usize)?.link()
}

impl List {
    /// True if no element is on the list.
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// True if `at` is the only element of the list.
    pub(super) fn holds_only(&self, at: u32) -> bool {
        self.head == at && self.tail == at
    }

    /// Puts `at`, which is on no list, at the head if `first` and at the tail otherwise.
    pub(super) fn insert<T: Linked>(&mut self, table: &mut [T], at: u32, first: bool) {
        let (before, after) = if first { (NONE, self.head) } else { (self.tail, NONE) };
        let Some(own) = link(table, at) else { return };
        *own = Link { before, after };
        self.join(table, before, at);
        self.join(table, at, after);
    }

    /// Takes out `at`, which is on this list.
    pub(super) fn remove<T: Linked>(&mut self, table: &mut [T], at: u32) {
        let Some(own) = link(table, at) else { return };
        let Link { before, after } = std::mem::take(own);
        self.join(table, before, after);
    }

    /// Makes two elements neighbours; [`NONE`] stands for the ends of the list.
    fn join<T: Linked>(&mut self, table: &mut [T], before: u32, after: u32) {
        match link(table, before) {
            Some(link) => link.after = after,
            None => self.head = after,
        }
        match link(table, after) {
            Some(link) => link.before = before,
            None => self.tail = before,
        }
    }
}
