//! Compiles programs of the compute engine to code of the host's processor.
//!
//! A program becomes one function. What it consists of are *segments*: some plain instructions, in which every lane uses its own registers only, and a load, a store, an atomic operation, a
//! vote, a ballot, a broadcast or an instruction of control flow behind them. A segment is executed whole or not at all, so a budget is checked once for each, at every back edge and call too.
//! Barriers, other exchange between lanes, atomic sums of floating point, transcendental functions and binary16 stay with the interpreter, to which the function returns, with the state of the
//! subgroup as the interpreter would have it; so does an
//! access that the [`Pages`] do not have, which the interpreter then makes through the page tables, or faults at. So a program that is stopped, saved and restored is in the same state
//! whichever executor ran it, and a fault is the same one.
//!
//! Plain instructions are executed for four lanes at a time, or for as many as fit into the wider vectors that the processor has ([`Vectors`]); registers are loaded at their first use and stored at the end of the segment, lanes that are not active keeping their values. A NaN
//! becomes the canonical one there, or where its bits are used. The vectors of 512 bits keep the words of an innermost loop over its turns, if all of them fit. Loads and stores move all lanes at once if their addresses follow one another.
//!
//! What generated code can reach: the registers and frames that it is given, by numbers that were checked when the program was validated (the depth of frames, which a restored state also has a part in, is
//! checked where it is used); workgroup and scratch memory, by addresses that are compared with their sizes; and whole pages that [`Pages`] has, by addresses whose page number is compared.
//!
//! UNSAFETY: one call of generated code, the memory that holds it, and the promise about pages.

mod across;
mod atomic;
mod block;
mod context;
mod control;
mod convert;
mod emitter;
mod files;
mod float;
mod integer;
mod lanes;
mod masks;
mod memory;
mod pages;
mod program;
mod segment;
mod system;
mod wide;

use campanile_hw::isa::{Instruction, LANES, Op};
use campanile_shader::{Code, GlobalMemory, Kernel, State};
use context::{Context, OfLanes};
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module};
use pages::PAGE;
pub use pages::Pages;
use program::{Entries, program};
use std::mem::{ManuallyDrop, MaybeUninit};
use wide::{Form, Wide};

/// Memory some of whose pages compiled code reaches by itself.
pub trait Paged: GlobalMemory {
    /// The translations at this moment. An access through them is the one that [`GlobalMemory`] would make.
    fn pages(&self) -> &Pages;

    /// Adds the page of an address to the translations, for writing too if `write` is set. False if it may not be accessed so, which the interpreter then finds out.
    fn touch(&mut self, address: u64, write: bool) -> bool;
}

/// The addresses of an instruction's access.
#[derive(Clone, Copy)]
struct Address {
    /// Register of the addresses, and what is added to them.
    register: u8,
    offset: u64,
    write: bool,
}

impl Address {
    fn of(instruction: &Instruction) -> Option<Self> {
        let write = match instruction.op {
            Op::Load => false,
            Op::Store | Op::Atomic => true,
            _ => return None,
        };
        Some(Self { register: instruction.registers()[1].1, offset: instruction.immediate, write })
    }

    /// Adds the pages of the addresses of all active lanes to the translations. False if not a single one is there.
    fn touch<M: Paged>(self, doubles: &[[u64; LANES]], active: u32, memory: &mut M) -> bool {
        let Some(addresses) = doubles.get(usize::from(self.register)) else { return false };
        let (mut last, mut found) = (None, false);
        for address in addresses.iter().enumerate().filter(|(lane, _)| active >> lane & 1 != 0).map(|(_, at)| at) {
            let address = address.wrapping_add(self.offset);
            if last.replace(address / PAGE) != Some(address / PAGE) {
                found |= memory.touch(address, self.write);
            }
        }
        found
    }
}

/// Code of a program.
type Function = unsafe extern "sysv64" fn(*mut Context);

/// The program could not be compiled; it can be interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCompiled(String);

impl std::fmt::Display for NotCompiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "program not compiled: {}", self.0)
    }
}

impl std::error::Error for NotCompiled {}

fn failed(error: impl std::fmt::Debug) -> NotCompiled {
    NotCompiled(format!("{error:?}"))
}

/// A program as code of the host.
pub struct Compiled {
    function: Function,
    entries: Entries,
    words: usize,
    doubles: usize,
    predicates: usize,
    shared: usize,
    scratch: usize,
    depth: usize,
    /// Of each instruction its access to memory by address, if it makes one.
    accesses: Vec<Option<Address>>,
    /// Functions with wider vectors, which live as long as the module; null if there are none.
    wide: *const u8,
    module: ManuallyDrop<JITModule>,
}

/// The vectors that compiled code uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// Those of the code generator, of 128 bits.
    Narrow,
    /// Vectors of 256 bits (AVX2).
    Avx2,
    /// Vectors of 512 bits (AVX-512).
    Avx512,
}

impl Vectors {
    /// All of them, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Narrow, Self::Avx2, Self::Avx512];

    /// True if the processor has the instructions.
    pub fn is_there(self) -> bool {
        self.form().is_none_or(Form::is_there)
    }

    /// The widest that the processor has.
    pub fn widest() -> Self {
        Self::ALL.into_iter().rfind(|vectors| vectors.is_there()).unwrap_or(Self::Narrow)
    }

    fn form(self) -> Option<Form> {
        match self {
            Self::Narrow => None,
            Self::Avx2 => Some(Form::Avx2),
            Self::Avx512 => Some(Form::Avx512),
        }
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("segments", &self.segments().count()).finish_non_exhaustive()
    }
}

// SAFETY: the module is not changed after its code was made; code and tables are only read, and generated code touches what it is given alone.
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
    // The verifier checks this crate, not the program, and takes a third of the time.
    flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).map_err(failed)?;
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

/// Adds code as a function.
fn define(module: &mut JITModule, code: &[u8]) -> Result<FuncId, NotCompiled> {
    let signature = Signature::new(CallConv::SystemV);
    let id = module.declare_anonymous_function(&signature).map_err(failed)?;
    module.define_function_bytes(id, 64, code, &[]).map_err(failed)?;
    Ok(id)
}

impl Compiled {
    /// Compiles a program for the widest vectors that the processor has.
    ///
    /// # Errors
    /// [`NotCompiled`]: the processor lacks SSE 4.2, or the host gives no memory for code.
    pub fn new(kernel: &Kernel) -> Result<Self, NotCompiled> {
        Self::with(kernel, Vectors::widest())
    }

    /// Compiles a program for these vectors.
    ///
    /// # Errors
    /// As [`Compiled::new`]; and the processor has no such vectors.
    pub fn with(kernel: &Kernel, vectors: Vectors) -> Result<Self, NotCompiled> {
        if !vectors.is_there() {
            return Err(NotCompiled(format!("the processor has no vectors {vectors:?}")));
        }
        let isa = host()?;
        let mut module = JITModule::new(JITBuilder::with_isa(isa, cranelift_module::default_libcall_names()));
        let mut context = module.make_context();
        context.func.signature = Signature::new(CallConv::SystemV);
        context.func.signature.params.push(AbiParam::new(types::I64));
        let mut builder = FunctionBuilderContext::new();
        let wide = vectors.form().map(Wide::new);
        let (entries, wide) = program(module.isa(), &mut context.func, &mut builder, (kernel, has_fma(), wide));
        let id = module.declare_anonymous_function(&context.func.signature).map_err(failed)?;
        module.define_function(id, &mut context).map_err(failed)?;
        let wide = wide.map(Wide::finish).transpose().map_err(NotCompiled)?.filter(|code| !code.is_empty());
        let wide = wide.map(|code| define(&mut module, &code)).transpose()?;
        module.finalize_definitions().map_err(failed)?;
        let address = module.get_finalized_function(id);
        let wide = wide.map_or(std::ptr::null(), |id| module.get_finalized_function(id));
        // SAFETY: the address is that of a function of this signature and calling convention, which was made just now.
        let function = unsafe { std::mem::transmute::<*const u8, Function>(address) };
        let header = kernel.header();
        Ok(Self {
            function,
            entries,
            words: header.words.into(),
            doubles: header.doubles.into(),
            predicates: header.predicates.into(),
            shared: header.shared as usize,
            scratch: header.scratch as usize * LANES,
            depth: kernel.depth() as usize,
            accesses: kernel.code().iter().map(Address::of).collect(),
            wide,
            module: ManuallyDrop::new(module),
        })
    }

    /// First instruction and length of each segment.
    pub fn segments(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.entries.lengths.iter().copied()).filter(|(_, length)| *length != 0)
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

const _: () = assert!(LANES == 32, "a segment takes a subgroup as eight times four lanes");

impl<M: Paged> Code<M> for Compiled {
    fn length(&self, instruction: u32) -> u32 {
        self.entries.lengths.get(instruction as usize).copied().unwrap_or(0)
    }

    fn run(&self, state: State<'_>, memory: &mut M) {
        // A kernel's registers and memory are as many as its header says; those of another kernel would not do.
        assert!(
            state.words.len() >= self.words
                && state.doubles.len() >= self.doubles
                && state.predicates.len() >= self.predicates
                && state.shared.len() >= self.shared
                && state.scratch.len() >= self.scratch
                && state.frames.len() >= self.depth
                && *state.depth as usize <= self.depth,
            "state of another program"
        );
        let mut context = Context {
            words: state.words.as_flattened_mut().as_mut_ptr(),
            doubles: state.doubles.as_flattened_mut().as_mut_ptr(),
            predicates: state.predicates.as_mut_ptr(),
            shared: state.shared.as_mut_ptr(),
            scratch: state.scratch.as_mut_ptr(),
            frames: state.frames.as_mut_ptr(),
            pages: memory.pages().first(),
            entries: self.entries.numbers.as_ptr(),
            wide: self.wide,
            arguments: state.arguments,
            local: state.place.local.as_flattened().as_ptr(),
            budget: *state.budget,
            loads: 0,
            stores: 0,
            atomics: 0,
            pc: *state.pc,
            active: *state.active,
            depth: *state.depth,
            workgroup: state.place.workgroup,
            count: state.place.count,
            subgroup: state.place.subgroup,
            last: 0,
            last_pages: OfLanes([const { MaybeUninit::uninit() }; LANES]),
            last_places: OfLanes([const { MaybeUninit::uninit() }; LANES]),
            places: OfLanes([const { MaybeUninit::uninit() }; LANES]),
        };
        let mut before = None;
        loop {
            // SAFETY: the code was made for registers, frames and memory of these sizes, which the slices have, and for this table of entries; it keeps the depth of frames within them,
            // writes only kinds of frames that exist, and reaches memory of the process otherwise only in pages of which `Pages::insert` was promised that this is right.
            unsafe { (self.function)(&raw mut context) };
            // An access that lacked a page is made again, once, when the page is there; the translations stay where they are.
            let here = Some((context.pc, context.budget));
            let access = self.accesses.get(context.pc as usize).copied().flatten();
            let again = access.filter(|_| before != here && context.budget != 0);
            if !again.is_some_and(|access| access.touch(state.doubles, context.active, memory)) {
                break;
            }
            before = here;
            context.pages = memory.pages().first();
            context.last = 0;
            context.doubles = state.doubles.as_flattened_mut().as_mut_ptr();
        }
        (*state.pc, *state.active, *state.depth) = (context.pc, context.active, context.depth);
        *state.budget = context.budget;
        state.counters.loads += context.loads;
        state.counters.stores += context.stores;
        state.counters.atomics += context.atomics;
    }
}
