//! Lines of things that are linked through the table in which they live.

/// Index of nothing.
const NOBODY: u32 = u32::MAX;

/// The neighbours of something that stands in a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    before: u32,
    after: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self { before: NOBODY, after: NOBODY }
    }
}

/// What can stand in one line at a time.
pub(super) trait Linked {
    /// Its link; `None` for an empty place of the table.
    fn link(&mut self) -> Option<&mut Link>;
}

/// A line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The first one, or [`NOBODY`].
    pub(super) head: u32,
    tail: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { head: NOBODY, tail: NOBODY }
    }
}

fn link<T: Linked>(table: &mut [T], at: u32) -> Option<&mut Link> {
    table.get_mut(at as usize)?.link()
}

impl Line {
    /// Nobody stands here.
    pub(super) fn is_empty(&self) -> bool {
        self.head == NOBODY
    }

    /// `at` stands here and nobody else.
    pub(super) fn holds_only(&self, at: u32) -> bool {
        self.head == at && self.tail == at
    }

    /// Puts `at`, which stands in no line, first or last.
    pub(super) fn insert<T: Linked>(&mut self, table: &mut [T], at: u32, first: bool) {
        let (before, after) = if first { (NOBODY, self.head) } else { (self.tail, NOBODY) };
        let Some(own) = link(table, at) else { return };
        *own = Link { before, after };
        self.join(table, before, at);
        self.join(table, at, after);
    }

    /// Takes `at` out, which stands here.
    pub(super) fn remove<T: Linked>(&mut self, table: &mut [T], at: u32) {
        let Some(own) = link(table, at) else { return };
        let Link { before, after } = std::mem::take(own);
        self.join(table, before, after);
    }

    /// Makes two neighbours; [`NOBODY`] stands for the ends of the line.
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
