//! Shaders from source to results: glslangValidator or naga makes the module, spirv-val accepts it, both executors run the program and leave the same bytes.

#[path = "../../../shader/tests/kit/flat.rs"]
mod flat;

use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use campanile_compiler::{Compiled, Options, compile};
use campanile_hw::isa::Program;
use campanile_jit::{Paged, Pages};
use campanile_shader::{Dispatch, Kernel, Outcome};
pub(crate) use flat::BASE;
use flat::Flat;

/// None of its pages is reached by compiled code itself, which leaves every access to it to the interpreter.
impl Paged for Flat {
    fn pages(&self) -> &Pages {
        static NONE: LazyLock<Pages> = LazyLock::new(Pages::default);
        &NONE
    }

    fn touch(&mut self, _: u64, _: bool) -> bool {
        false
    }
}

static FILES: AtomicU32 = AtomicU32::new(0);

fn run_tool(tool: &str, package: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(tool).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{tool} is missing: install {package} ({error})"));
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
    )
}

/// A file of its own for each call.
fn file(extension: &str) -> String {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    format!("{}/{}-{number}.{extension}", env!("CARGO_TARGET_TMPDIR"), std::process::id())
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// Panics unless spirv-val accepts a module.
pub(crate) fn validate(module: &[u32]) {
    let path = file("spv");
    let bytes: Vec<u8> = module.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(&path, bytes).expect("written");
    let (accepted, text) =
        run_tool("spirv-val", "spirv-tools", &["--target-env", "vulkan1.3", "--scalar-block-layout", &path]);
    assert!(accepted, "spirv-val: {text}");
    std::fs::remove_file(path).expect("removed");
}

/// The module of a GLSL compute shader.
pub(crate) fn glsl(source: &str) -> Vec<u32> {
    let (from, to) = (file("comp"), file("spv"));
    std::fs::write(&from, format!("#version 460\n{source}")).expect("written");
    let (made, text) =
        run_tool("glslangValidator", "glslang-tools", &["-g", "-V", "--target-env", "vulkan1.3", "-o", &to, &from]);
    assert!(made, "{text}\n{source}");
    let module = words(&std::fs::read(&to).expect("read"));
    [from, to].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    validate(&module);
    module
}

/// The module of an assembly text.
pub(crate) fn assemble(text: &str) -> Vec<u32> {
    let (from, to) = (file("spvasm"), file("spv"));
    std::fs::write(&from, text).expect("written");
    let (made, said) = run_tool("spirv-as", "spirv-tools", &["--target-env", "vulkan1.3", "-o", &to, &from]);
    assert!(made, "{said}\n{text}");
    let module = words(&std::fs::read(&to).expect("read"));
    [from, to].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    validate(&module);
    module
}

/// A module as an optimizer leaves it: calls in their places, and values with phis instead of variables.
pub(crate) fn in_ssa_form(module: &[u32]) -> Vec<u32> {
    let (from, to) = (file("spv"), file("spv"));
    let bytes: Vec<u8> = module.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(&from, bytes).expect("written");
    let passes = ["--inline-entry-points-exhaustive", "--ssa-rewrite", "--eliminate-dead-code-aggressive"];
    let arguments = [&passes[..], &["--target-env=vulkan1.3", "-o", &to, &from]].concat();
    let (made, said) = run_tool("spirv-opt", "spirv-tools", &arguments);
    assert!(made, "{said}");
    let module = words(&std::fs::read(&to).expect("read"));
    [from, to].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    validate(&module);
    module
}

/// The module of the one entry point of a WGSL shader.
pub(crate) fn wgsl(source: &str) -> Vec<u32> {
    let module =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let (flags, capabilities) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    let info = naga::valid::Validator::new(flags, capabilities).validate(&module).expect("valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    let module = naga::back::spv::write_vec(&module, &info, &options, None).expect("written");
    validate(&module);
    module
}

/// Compiles a module, with its listing where that fails.
pub(crate) fn program(module: &[u32], options: &Options) -> Compiled {
    compile(module, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a module on buffers that are bound to set 0 in order, and returns them as they are then.
pub(crate) fn run(module: &[u32], grid: [u32; 3], push: &[u8], buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    run_with(module, &Options::default(), grid, push, buffers)
}

/// Address of each buffer, and the memory that holds them.
fn place(compiled: &Compiled, push: &[u8], buffers: &[Vec<u8>]) -> (Vec<u64>, Flat) {
    let mut memory = vec![0; compiled.arguments.size as usize];
    let start = compiled.arguments.push_constants.start as usize;
    memory.resize(memory.len().max(start + push.len()), 0);
    memory[start..start + push.len()].copy_from_slice(push);
    let mut addresses = Vec::new();
    for buffer in buffers {
        memory.resize(memory.len().next_multiple_of(256), 0xaa);
        addresses.push(BASE + memory.len() as u64);
        memory.extend_from_slice(buffer);
    }
    for descriptor in &compiled.arguments.descriptors {
        let at = descriptor.offset as usize;
        for element in 0..descriptor.count as usize {
            let number = descriptor.binding as usize + element;
            let at = at + element * 16;
            memory[at..at + 8].copy_from_slice(&addresses[number].to_le_bytes());
            memory[at + 8..at + 16].copy_from_slice(&(buffers[number].len() as u64).to_le_bytes());
        }
    }
    (addresses, Flat(memory))
}

/// [`run`] with options.
pub(crate) fn run_with(
    module: &[u32],
    options: &Options,
    grid: [u32; 3],
    push: &[u8],
    buffers: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let compiled = program(module, options);
    let (addresses, memory) = place(&compiled, push, buffers);
    taken(&addresses, buffers, &run_in(&compiled, grid, memory.0))
}

/// [`run`] by the interpreter alone, for programs that are too long to be compiled for the host in each test.
pub(crate) fn interpret(module: &[u32], grid: [u32; 3], buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let compiled = program(module, &Options::default());
    let (addresses, mut memory) = place(&compiled, &[], buffers);
    let valid = Program::validate(&compiled.program).expect("valid");
    let outcome = Dispatch::new(grid, BASE).run(&Kernel::new(&valid), &mut memory, &mut 200_000_000);
    assert_eq!(outcome, Outcome::Done, "{}", campanile_isa::disassemble(&valid));
    taken(&addresses, buffers, &memory.0)
}

/// The bytes of each buffer in memory that begins at [`BASE`], by the addresses of the buffers.
fn taken(addresses: &[u64], buffers: &[Vec<u8>], memory: &[u8]) -> Vec<Vec<u8>> {
    let bytes = |(address, buffer): (&u64, &Vec<u8>)| {
        let start = (address - BASE) as usize;
        memory[start..start + buffer.len()].to_vec()
    };
    addresses.iter().zip(buffers).map(bytes).collect()
}

/// Runs a program in memory that begins at [`BASE`] with the argument block, and returns the memory as it is then.
pub(crate) fn run_in(compiled: &Compiled, grid: [u32; 3], memory: Vec<u8>) -> Vec<u8> {
    let mut memory = Flat(memory);
    let valid = Program::validate(&compiled.program).expect("valid");
    let kernel = Kernel::new(&valid);
    let mut again = Flat(memory.0.clone());
    let outcome = Dispatch::new(grid, BASE).run(&kernel, &mut memory, &mut 200_000_000);
    assert_eq!(outcome, Outcome::Done, "{}", campanile_isa::disassemble(&valid));
    let code = campanile_jit::Compiled::new(&kernel).expect("compiled for the host");
    let outcome = Dispatch::new(grid, BASE).run_with(&kernel, &code, &mut again, &mut 200_000_000);
    assert!(
        outcome == Outcome::Done && again.0 == memory.0,
        "the executors differ: {}",
        campanile_isa::disassemble(&valid)
    );
    memory.0
}

/// Values as bytes.
fn bytes<const N: usize, T: Copy>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| to(*value)).collect()
}

pub(crate) fn u32s(values: &[u32]) -> Vec<u8> {
    bytes(values, u32::to_le_bytes)
}

pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    bytes(values, f32::to_le_bytes)
}

pub(crate) fn as_u32(bytes: &[u8]) -> Vec<u32> {
    words(bytes)
}

pub(crate) fn as_f32(bytes: &[u8]) -> Vec<f32> {
    words(bytes).into_iter().map(f32::from_bits).collect()
}
