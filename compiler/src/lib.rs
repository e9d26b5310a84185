//! Compiles SPIR-V 1.0 to 1.6 compute modules to programs of the Campanile GPU.
//!
//! [`compile`] reads a module, checks what it relies on, puts all functions in their places, makes scalars of vectors and matrices, gives values registers
//! and writes the program. A module that is not valid, or that uses what there is not, is an [`Error`] that says so; no module makes the compiler panic,
//! recurse without bound or take memory without bound.
//!
//! # Resources
//! A program finds its resources through the argument block, whose address is what the ARGUMENTS instruction reads. The block holds the push constants and, for
//! each set, binding and array element, a descriptor of 16 bytes: the GPU virtual address of the buffer as a `u64`, then its size in bytes as a `u64`.
//! [`ArgumentLayout`] says where each lies. With [`Options::robust`] an access to a buffer that does not lie wholly inside of it loads zeros or
//! stores nothing; images always are checked so. The descriptors of images and samplers are addresses of records: see [`record`]. An index into an array of descriptors behind its end means the last one. Addresses of physical storage buffers are used as they are, and
//! faults are the device's to report.
#![forbid(unsafe_code)]

mod allocate;
mod arith;
mod bound;
mod constant;
mod contract;
mod control;
mod convert;
mod copies;
mod dead;
mod dots;
mod encode;
mod error;
mod extended;
mod flatten;
mod fold;
mod grammar;
mod group;
mod image;
mod ir;
mod known;
mod layout;
mod lower;
mod memory;
mod module;
mod nesting;
mod options;
mod parts;
mod promotion;
mod read;
pub mod record;
mod sample;
mod texel;
mod types;
mod unroll;
mod value;
mod zeros;

pub use error::Error;
pub use options::{ArgumentLayout, Binding, Descriptor, Options};

/// The stack on which a module is compiled. Control flow is walked by recursion, as deep as [`ir::NESTING_MAX`] lets it nest, which the stack of the thread
/// that asks need not bear.
const STACK_SIZE: usize = 128 << 20;
/// Most attempts to keep variables in registers whose indices are no constants of the module.
const ATTEMPTS_MAX: usize = 8;

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The program, valid.
    pub program: Vec<u8>,
    /// Lanes of a workgroup in each dimension.
    pub workgroup: [u32; 3],
    /// Layout of the argument block that every dispatch of the program has to provide.
    pub arguments: ArgumentLayout,
}

/// Compiles a module.
///
/// # Errors
/// See [`Error`].
pub fn compile(words: &[u32], options: &Options) -> Result<Compiled, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("compiler".into()).stack_size(STACK_SIZE);
        let running = thread.spawn_scoped(scope, || compile_here(words, options));
        let running = running.map_err(|error| Error::Limit(format!("a thread for the compiler: {error}")))?;
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn compile_here(words: &[u32], options: &Options) -> Result<Compiled, Error> {
    let mut module = module::Module::new(read::read(words)?, &options.entry_point)?;
    let values = layout::declare(&mut module, options)?;
    let workgroup = layout::workgroup(&module, &values)?;
    let arguments = layout::arguments(&module, options)?;
    module.endless = bound::endless(&module);
    let target = Target { module: &module, options, workgroup, arguments: &arguments };
    let mut attempt = promotion::Attempt::first(&module);
    let program = (0..ATTEMPTS_MAX).find_map(|_| {
        let (program, findings, is_wrong) = target.attempt(&attempt);
        if findings.dynamic.is_empty() || is_wrong {
            return Some(program.ok().filter(|_| !is_wrong));
        }
        attempt = core::mem::take(&mut attempt).next(findings);
        None
    });
    let program = match program.flatten() {
        Some(program) => program,
        // What was tried may be too large where the module as it is is not.
        None => target.attempt(&promotion::Attempt::plain(&module)).0?,
    };
    Ok(Compiled { program, workgroup, arguments })
}

/// A module that is read, and what is asked of it.
struct Target<'m> {
    module: &'m module::Module,
    options: &'m Options,
    workgroup: [u32; 3],
    arguments: &'m ArgumentLayout,
}

impl Target<'_> {
    /// Makes the program. With it comes what the attempt found, and whether it took something for known that is not.
    fn attempt(&self, attempt: &promotion::Attempt) -> (Result<Vec<u8>, Error>, promotion::Findings, bool) {
        let mut lower = lower::Lower::new(self.module, self.options, self.arguments, attempt);
        let lowered = self.lower(&mut lower);
        let (findings, is_wrong) = (core::mem::take(&mut lower.findings), lower.ir.held.is_wrong);
        // Only a module that is not valid, such as one that declares a variable in a loop, has loops that write what was taken for constant in them.
        if !findings.dynamic.is_empty() || is_wrong {
            return (Err(Error::Limit("an attempt".into())), findings, is_wrong);
        }
        let program = lowered.and_then(|()| self.program(lower));
        (program, findings, is_wrong)
    }

    fn lower<'m>(&'m self, lower: &mut lower::Lower<'m>) -> Result<(), Error> {
        lower.prologue()?;
        self.module.globals.iter().try_for_each(|inst| lower.global(inst))?;
        lower.entry()
    }

    fn program(&self, mut lower: lower::Lower<'_>) -> Result<Vec<u8>, Error> {
        let (shared, scratch) = (lower.shared, lower.scratch_most);
        let mut nodes = lower.ir.finish();
        zeros::remove_zeros(&mut nodes, &lower.ir.registers);
        dead::remove_overwritten(&mut nodes, &lower.ir.registers);
        let mut code = flatten::flatten(nodes, &mut lower.ir)?;
        copies::remove_copies(&mut code, &lower.ir.registers);
        contract::contract(&mut code, &lower.ir.registers);
        let allocated = allocate::allocate(code, &lower.ir.registers, scratch)?;
        encode::encode(allocated, self.workgroup, shared)
    }
}
