//! The programs that a node has fetched, checked and perhaps compiled.

use crate::compiling::HostCode;
use campanile_hw::isa::{Program, program_digest};
use campanile_shader::Kernel;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most programs in a node's cache. A network has a few hundred, and one that is not there is interpreted until it is compiled again.
const PROGRAMS: usize = 512;
/// Most bytes of all programs in a node's cache, of which each takes some ten times as much memory once it is compiled.
const PROGRAM_BYTES: usize = 4 << 20;

/// A program as it was fetched.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) bytes: Vec<u8>,
    /// The program, and its code once it was worth compiling.
    pub(crate) code: Arc<HostCode>,
    /// Bytes that the state of a dispatch of it takes in a save area.
    pub(crate) save_size: u32,
    /// Instructions of subgroups that were interpreted so far.
    pub(crate) interpreted: AtomicU64,
}

impl Fetched {
    /// A program that these bytes are, which is not compiled.
    pub(crate) fn new(bytes: Vec<u8>, kernel: Kernel) -> Self {
        let save_size = kernel.header().save_size();
        Self { bytes, code: Arc::new(HostCode::new(kernel)), save_size, interpreted: AtomicU64::new(0) }
    }

    /// The line of the source that an instruction comes from, 0 for none.
    pub(crate) fn line(&self, instruction: u32) -> u32 {
        Program::validate(&self.bytes).ok().and_then(|program| program.line(instruction)).unwrap_or(0)
    }
}

/// The programs that a node fetched last, the latest first, each with a digest of its bytes: the next dispatch often has one of them.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    recent: VecDeque<(u64, Arc<Fetched>)>,
    /// Bytes of all of them.
    bytes: usize,
    /// Memory for the program that is fetched next.
    pub(crate) spare: Vec<u8>,
}

impl Programs {
    /// The program with these bytes, if it is in the cache. The one that was used last is found by its bytes alone.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<Arc<Fetched>> {
        if let Some((_, last)) = self.recent.front().filter(|(_, last)| last.bytes == bytes) {
            return Some(last.clone());
        }
        let digest = program_digest(bytes);
        let place = self.recent.iter().position(|(known, program)| *known == digest && program.bytes == bytes)?;
        let found = self.recent.remove(place)?;
        let program = found.1.clone();
        self.recent.push_front(found);
        Some(program)
    }

    /// Adds a program, and takes out those that were not used for the longest time if that makes too many.
    pub(crate) fn remember(&mut self, program: Arc<Fetched>) {
        self.bytes += program.bytes.len();
        self.recent.push_front((program.code.kernel.digest(), program));
        while self.recent.len() > PROGRAMS || self.bytes > PROGRAM_BYTES && self.recent.len() > 1 {
            let Some((_, last)) = self.recent.pop_back() else { return };
            self.bytes -= last.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that differs from those of other numbers, with so many instructions.
    fn fetched(number: u32, instructions: usize) -> Arc<Fetched> {
        let text = format!("{}exit", format!("mov.i32 w0, {number}\n").repeat(instructions));
        let bytes = campanile_isa::assemble(&text).unwrap();
        let kernel = Kernel::new(&Program::validate(&bytes).unwrap());
        Arc::new(Fetched::new(bytes, kernel))
    }

    #[test]
    fn as_many_programs_are_kept_as_a_network_has_and_the_oldest_go_first() {
        let mut programs = Programs::default();
        let all: Vec<_> = (0..PROGRAMS as u32 + 1).map(|number| fetched(number, 1)).collect();
        all.iter().take(PROGRAMS).for_each(|program| programs.remember(program.clone()));
        let first = programs.find(&all[0].bytes).expect("the first is kept");
        assert!(Arc::ptr_eq(&first, &all[0]));
        programs.remember(all[PROGRAMS].clone());
        assert!(programs.find(&all[1].bytes).is_none(), "the one that was not used for the longest time");
        assert!(all.iter().skip(2).all(|program| programs.find(&program.bytes).is_some()));
        assert!(programs.find(&all[0].bytes).is_some());
    }

    #[test]
    fn long_programs_are_kept_up_to_a_number_of_bytes() {
        let mut programs = Programs::default();
        let all: Vec<_> = (0..6).map(|number| fetched(number, 60_000)).collect();
        all.iter().for_each(|program| programs.remember(program.clone()));
        let kept = programs.recent.iter().map(|(_, program)| program.bytes.len()).sum::<usize>();
        assert_eq!(kept, programs.bytes);
        assert!(kept <= PROGRAM_BYTES && kept + all[0].bytes.len() > PROGRAM_BYTES);
        assert!(programs.find(&all[5].bytes).is_some() && programs.find(&all[0].bytes).is_none());
    }
}
