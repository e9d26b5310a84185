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
mod constant;
mod control;
mod convert;
mod copies;
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
mod layout;
mod lower;
mod memory;
mod module;
mod nesting;
mod options;
mod parts;
mod read;
pub mod record;
mod sample;
mod texel;
mod types;
mod value;

pub use error::Error;
pub use options::{ArgumentLayout, Binding, Descriptor, Options};

/// The stack on which a module is compiled. Control flow is walked by recursion, as deep as [`ir::NESTING_MAX`] lets it nest, which the stack of the thread
/// that asks need not bear.
const STACK_SIZE: usize = 128 << 20;

/// A compiled module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The program, valid.
    pub program: Vec<u8>,
    /// Lanes of a workgroup in each dimension.
    pub workgroup: [u32; 3],
    /// What the program expects in the argument block.
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
    let mut lower = lower::Lower::new(&module, &module.types, options, &arguments);
    lower.prologue()?;
    for inst in &module.globals {
        lower.global(inst)?;
    }
    lower.entry()?;
    let (shared, scratch) = (lower.shared, lower.scratch_most);
    let nodes = lower.ir.finish();
    let mut code = flatten::flatten(nodes, &mut lower.ir)?;
    copies::remove_copies(&mut code, &lower.ir.registers);
    let allocated = allocate::allocate(code, &lower.ir.registers, scratch)?;
    let program = encode::encode(allocated, workgroup, shared)?;
    Ok(Compiled { program, workgroup, arguments })
}
