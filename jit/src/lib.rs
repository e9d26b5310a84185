//! Compiles programs of the compute engine to code of the host's processor.
//!
//! What is compiled are *blocks*: runs of instructions in each of which every lane uses its own registers only. Everything else, memory, control flow, exchange between
//! lanes, transcendental functions and binary16, stays with the interpreter, which hands over at the first instruction of a block and takes the registers back behind it. So a program that is
//! stopped, saved and restored is in the same state whichever executor ran it, and neither knows the other.
//!
//! A block takes four lanes at a time through all of its instructions; registers are loaded at their first use and stored at the end of the block, lanes that are not active
//! keeping their values. Generated code reads and writes the registers that it is given and nothing else; the numbers of the registers are checked against the header of the program when it
//! is validated, and against the slices again before a block runs.
//!
//! UNSAFETY: one call of generated code, and the memory that holds it.

mod block;
mod convert;
mod emit;
mod float;
mod integer;
mod lanes;

use campanile_hw::isa::LANES;
use campanile_shader::{Blocks, Kernel, Registers};
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::Module;
use std::mem::ManuallyDrop;

/// Code of a block: words, doubles and predicates by address, lanes that execute, address of the argument block.
type Code = unsafe extern "sysv64" fn(*mut u32, *mut u64, *mut u32, u32, u64);

/// The program could not be compiled; it can be interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompiled(String);

impl std::fmt::Display for NotCompiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "program not compiled: {}", self.0)
    }
}

impl std::error::Error for NotCompiled {}

fn failed(error: impl std::fmt::Display) -> NotCompiled {
    NotCompiled(error.to_string())
}

/// A compiled block.
#[derive(Clone, Copy)]
struct Block {
    length: u32,
    code: Code,
}

/// The blocks of a program as code of the host.
pub struct Compiled {
    /// The block that begins at an instruction, for every instruction.
    blocks: Vec<Option<Block>>,
    words: usize,
    doubles: usize,
    predicates: usize,
    module: ManuallyDrop<JITModule>,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("blocks", &self.blocks().count()).finish_non_exhaustive()
    }
}

// SAFETY: the module is not changed after its code was made; code and tables are only read, and generated code touches its arguments alone.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

/// The host as the code generator sees it.
fn host() -> Result<OwnedTargetIsa, NotCompiled> {
    if !(is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("ssse3")) {
        return Err(NotCompiled("the processor has no SSE 4.2".into()));
    }
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").map_err(failed)?;
    // The code calls nothing and is not unwound through.
    flags.set("unwind_info", "false").map_err(failed)?;
    let mut target = cranelift_codegen::isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(failed)?;
    for feature in ["sse3", "ssse3", "sse41", "sse42"] {
        target.enable(&format!("has_{feature}")).map_err(failed)?;
    }
    for (feature, has) in [
        ("has_popcnt", is_x86_feature_detected!("popcnt")),
        ("has_lzcnt", is_x86_feature_detected!("lzcnt")),
        ("has_bmi1", is_x86_feature_detected!("bmi1")),
        ("has_avx", is_x86_feature_detected!("avx")),
        ("has_avx2", is_x86_feature_detected!("avx2")),
        ("has_fma", has_fma()),
    ] {
        if has {
            target.enable(feature).map_err(failed)?;
        }
    }
    target.finish(settings::Flags::new(flags)).map_err(failed)
}

/// True if the processor multiplies and adds with one rounding; otherwise the interpreter does it.
fn has_fma() -> bool {
    is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx")
}

impl Compiled {
    /// Compiles the blocks of a program.
    ///
    /// # Errors
    /// [`NotCompiled`]: the processor lacks SSE 4.2, or the host gives no memory for code.
    pub fn new(kernel: &Kernel) -> Result<Self, NotCompiled> {
        let isa = host()?;
        let mut module = JITModule::new(JITBuilder::with_isa(isa, cranelift_module::default_libcall_names()));
        let mut context = module.make_context();
        let mut builder = FunctionBuilderContext::new();
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.extend([types::I64, types::I64, types::I64, types::I32, types::I64].map(AbiParam::new));
        let mut functions = Vec::new();
        for block in block::find(kernel.code(), has_fma()) {
            context.func.signature = signature.clone();
            let code = kernel.code().get(block.clone()).unwrap_or(&[]);
            emit::block(module.isa(), &mut context.func, &mut builder, code);
            let id = module.declare_anonymous_function(&signature).map_err(failed)?;
            module.define_function(id, &mut context).map_err(failed)?;
            module.clear_context(&mut context);
            functions.push((block, id));
        }
        module.finalize_definitions().map_err(failed)?;
        let mut blocks = vec![None; kernel.code().len()];
        for (block, id) in functions {
            let address = module.get_finalized_function(id);
            // SAFETY: the address is that of a function of this signature and calling convention, which was made just now.
            let code = unsafe { std::mem::transmute::<*const u8, Code>(address) };
            if let Some(entry) = blocks.get_mut(block.start) {
                *entry = Some(Block { length: block.len() as u32, code });
            }
        }
        let header = kernel.header();
        let (words, doubles, predicates) =
            (usize::from(header.words), usize::from(header.doubles), usize::from(header.predicates));
        Ok(Self { blocks, words, doubles, predicates, module: ManuallyDrop::new(module) })
    }

    /// First instruction and length of each block.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.blocks).filter_map(|(start, block)| block.map(|block| (start, block.length)))
    }

    fn block(&self, instruction: u32) -> Option<Block> {
        self.blocks.get(instruction as usize).copied().flatten()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        // SAFETY: the functions are reached through this value only, which nobody borrows any more.
        unsafe { module.free_memory() };
    }
}

impl Blocks for Compiled {
    fn length(&self, instruction: u32) -> u32 {
        self.block(instruction).map_or(0, |block| block.length)
    }

    fn run(&self, instruction: u32, registers: Registers<'_>) {
        let Registers { words, doubles, predicates, active, arguments } = registers;
        let Some(block) = self.block(instruction) else { return };
        // A kernel's registers are as many as its header says; those of another kernel would not do.
        assert!(
            words.len() >= self.words && doubles.len() >= self.doubles && predicates.len() >= self.predicates,
            "registers of another program"
        );
        let (words, doubles) = (words.as_flattened_mut().as_mut_ptr(), doubles.as_flattened_mut().as_mut_ptr());
        const { assert!(LANES == 32, "a block takes a subgroup as eight times four lanes") };
        // SAFETY: the code was made for this many registers, which the slices have, and reads and writes nothing else.
        unsafe { (block.code)(words, doubles, predicates.as_mut_ptr(), active, arguments) };
    }
}
