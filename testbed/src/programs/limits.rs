//! How long the machine waits for a program, and the looks that such a time is counted in.

use std::time::Duration;

/// How long a program may take to do what the machine asks of it, such as mapping an address, to take what the machine sends, and to let a page of its memory be read or written.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Time between two looks of a thread that waits for a program. Limits of programs are counted in looks, each as so much at most: a host with more work than processors has the
/// threads of the machine wait as it has the program's, and the time in which the machine could not have seen an answer is not the program's.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The looks of a limit.
pub(super) const fn looks_of(limit: Duration) -> u32 {
    limit.as_millis().div_ceil(LOOK.as_millis()) as u32
}
