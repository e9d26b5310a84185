//! Compiling programs for the host's processor, which takes milliseconds, outside of the locks of the nodes: until a program is compiled it is interpreted.
//!
//! Under a [`Runner`](crate::Runner) a thread of its own compiles, and ends when nothing is left. A function that is stepped by hand compiles at the end of the step in which a program was found worth
//! it, so that the same steps do the same work every time.

use crate::lock::lock;
use campanile_jit::Compiled;
use campanile_shader::Kernel;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Most programs that wait to be compiled.
const WAITING_MOST: usize = 8;

/// A program, and its code for the host once there is some.
#[derive(Debug)]
pub(crate) struct HostCode {
    pub(crate) kernel: Kernel,
    /// `None` if the host cannot run it.
    compiled: OnceLock<Option<Compiled>>,
    /// True once it waits to be compiled, or was.
    asked: AtomicBool,
}

impl HostCode {
    /// A program that is not compiled.
    pub(crate) fn new(kernel: Kernel) -> Self {
        Self { kernel, compiled: OnceLock::new(), asked: AtomicBool::new(false) }
    }

    /// The code, if it was compiled.
    pub(crate) fn get(&self) -> Option<&Compiled> {
        self.compiled.get()?.as_ref()
    }
}

/// Programs on their way.
#[derive(Debug, Default)]
struct Waiting {
    programs: VecDeque<Arc<HostCode>>,
    /// True while a thread compiles.
    thread: bool,
}

/// The programs that a function has to compile.
#[derive(Debug, Default)]
pub(crate) struct Compiling {
    waiting: Mutex<Waiting>,
    /// True if a program was asked for since the last look.
    asked: AtomicBool,
    /// True if a thread of its own compiles.
    apart: AtomicBool,
}

impl Compiling {
    /// Asks for the code of a program. While too many programs wait nothing happens, and the next slice asks again.
    pub(crate) fn ask(&self, program: &Arc<HostCode>) {
        if program.asked.load(Ordering::Relaxed) {
            return;
        }
        let mut waiting = lock(&self.waiting);
        if waiting.programs.len() < WAITING_MOST && !program.asked.swap(true, Ordering::Relaxed) {
            waiting.programs.push_back(program.clone());
            self.asked.store(true, Ordering::Release);
        }
    }

    /// Says whether a thread of its own compiles.
    pub(crate) fn set_apart(&self, apart: bool) {
        self.apart.store(apart, Ordering::Release);
    }

    /// Compiles what was asked for, or has a thread do it. Called without the lock of a node.
    pub(crate) fn look(self: &Arc<Self>) {
        if !self.asked.load(Ordering::Acquire) || !self.asked.swap(false, Ordering::AcqRel) {
            return;
        }
        if !self.apart.load(Ordering::Acquire) {
            return self.compile();
        }
        if std::mem::replace(&mut lock(&self.waiting).thread, true) {
            return;
        }
        let this = self.clone();
        let thread = std::thread::Builder::new().name("campanile-compiler".into());
        if thread.spawn(move || this.compile()).is_err() {
            self.compile();
        }
    }

    /// Compiles until nothing is left.
    fn compile(&self) {
        loop {
            let mut waiting = lock(&self.waiting);
            let Some(program) = waiting.programs.pop_front() else {
                waiting.thread = false;
                return;
            };
            drop(waiting);
            program.compiled.get_or_init(|| Compiled::new(&program.kernel).ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::isa::Program;

    fn program() -> Arc<HostCode> {
        let bytes = campanile_isa::assemble("add.i32 w0, w0, 1\nexit").unwrap();
        Arc::new(HostCode::new(Kernel::new(&Program::validate(&bytes).unwrap())))
    }

    #[test]
    fn what_was_asked_for_is_compiled_at_the_next_look_and_not_before() {
        let (compiling, program) = (Arc::new(Compiling::default()), program());
        compiling.ask(&program);
        assert!(program.get().is_none());
        compiling.look();
        assert!(program.get().is_some());
    }

    #[test]
    fn a_thread_of_its_own_compiles_all_that_waits_and_ends() {
        let compiling = Arc::new(Compiling::default());
        compiling.set_apart(true);
        let programs: Vec<_> = (0..3).map(|_| program()).collect();
        for program in &programs {
            compiling.ask(program);
            compiling.look();
        }
        while programs.iter().any(|program| program.get().is_none()) || lock(&compiling.waiting).thread {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_does_not_fit_is_compiled_when_it_is_asked_for_again() {
        let compiling = Arc::new(Compiling::default());
        let programs: Vec<_> = (0..=WAITING_MOST).map(|_| program()).collect();
        programs.iter().for_each(|program| compiling.ask(program));
        compiling.look();
        let compiled = || programs.iter().filter(|program| program.get().is_some()).count();
        assert_eq!(compiled(), WAITING_MOST);
        programs.iter().for_each(|program| compiling.ask(program));
        compiling.look();
        assert_eq!(compiled(), WAITING_MOST + 1);
    }
}
