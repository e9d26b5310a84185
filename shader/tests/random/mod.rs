//! Random programs that end. For the tests of every executor.

mod program;

use proptest::prelude::*;

use program::Choice;
pub(crate) use program::{REACH, program};

pub(crate) fn choices() -> impl Strategy<Value = Vec<Choice>> {
    prop::collection::vec((any::<u8>(), any::<usize>(), any::<[u8; 8]>(), any::<u64>()), 1..120)
}
