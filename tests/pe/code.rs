//! What the instructions of a function say, read with a disassembler.

use std::collections::BTreeSet;

use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// The instructions of one function.
pub(crate) struct Function(Vec<Instruction>);

/// Effect of a function on its stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// Bytes that the prologue takes.
    pub(crate) bytes: u32,
    /// Some instruction takes an amount that is only known at run time.
    pub(crate) dynamic: bool,
}

/// Target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To an address of the image.
    Code(u32),
    /// Through a slot at a fixed address of the image.
    Slot(u32),
    /// Through a register or computed memory.
    Unknown,
}

impl Function {
    /// Decodes `bytes`, which lie at `rva`.
    pub(crate) fn new(bytes: &[u8], rva: u32) -> Self {
        Self(Decoder::with_ip(64, bytes, u64::from(rva), DecoderOptions::NONE).into_iter().collect())
    }

    /// How far the prologue moves the stack pointer down, and whether anything else does.
    pub(crate) fn stack(&self) -> Stack {
        let mut stack = Stack { bytes: 0, dynamic: false };
        let mut in_prologue = true;
        let mut probed = None;
        for instruction in &self.0 {
            let immediate = matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
            let to_rsp = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
            match instruction.mnemonic() {
                Mnemonic::Push if in_prologue => stack.bytes += 8,
                Mnemonic::Sub if to_rsp && immediate && in_prologue => stack.bytes += instruction.immediate(1) as u32,
                // A frame of a page or more: the amount is loaded before the stack is probed, and subtracted after.
                Mnemonic::Sub if to_rsp && in_prologue && instruction.op1_register() == Register::RAX => match probed {
                    Some(bytes) => stack.bytes += bytes,
                    None => stack.dynamic = true,
                },
                Mnemonic::Sub | Mnemonic::And if to_rsp => stack.dynamic = true,
                Mnemonic::Push => stack.dynamic = true,
                Mnemonic::Mov if instruction.op0_register() == Register::EAX && is_immediate32(instruction) => {
                    probed = Some(instruction.immediate32());
                }
                _ => {}
            }
            let sets_up = matches!(
                instruction.mnemonic(),
                Mnemonic::Push | Mnemonic::Sub | Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Movaps | Mnemonic::Movups
            );
            let probes = instruction.mnemonic() == Mnemonic::Call && probed.is_some();
            in_prologue &= sets_up || probes;
        }
        stack
    }

    /// Instructions that have no place in a driver: floating-point arithmetic and conversions, x87, MMX and AVX, privileged
    /// instructions, and traps that the function's own paths lead to.
    pub(crate) fn surprises(&self) -> Vec<String> {
        let targets: BTreeSet<u64> = self.0.iter().filter_map(branch_target).collect();
        let mut found = Vec::new();
        // A trap behind a call that does not return keeps the return address inside the function; it is never run.
        let mut ended = false;
        for instruction in &self.0 {
            let trap = matches!(instruction.code(), Code::Int3 | Code::Ud2 | Code::Int1 | Code::Int_imm8);
            let reached = !ended || targets.contains(&instruction.ip());
            if instruction.is_invalid() || is_floating(instruction) || instruction.is_privileged() || (trap && reached)
            {
                found.push(format!("RVA 0x{:x}: {:?}", instruction.ip(), instruction.mnemonic()));
            }
            let leaves = matches!(
                instruction.flow_control(),
                FlowControl::Call
                    | FlowControl::IndirectCall
                    | FlowControl::Return
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
            );
            ended = leaves || (trap && ended);
        }
        found
    }

    /// Where its calls go, and the jumps that leave it (`end` is one past its last byte).
    pub(crate) fn calls(&self, rva: u32, end: u32) -> Vec<Target> {
        let inside = u64::from(rva)..u64::from(end);
        let target = |instruction: &Instruction| match instruction.flow_control() {
            FlowControl::Call => Some(Target::Code(instruction.near_branch_target() as u32)),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                (!inside.contains(&target)).then_some(Target::Code(target as u32))
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                Some(Target::Slot(instruction.ip_rel_memory_address() as u32))
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch => Some(Target::Unknown),
            _ => None,
        };
        self.0.iter().filter_map(target).collect()
    }
}

fn is_immediate32(instruction: &Instruction) -> bool {
    instruction.op1_kind() == OpKind::Immediate32
}

fn branch_target(instruction: &Instruction) -> Option<u64> {
    let branch =
        matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
    branch.then(|| instruction.near_branch_target())
}

/// Arithmetic and conversions; SSE moves and bit operations are how memory is copied and cleared, and leave no state behind.
fn is_floating(instruction: &Instruction) -> bool {
    use CpuidFeature as Feature;
    let features = instruction.cpuid_features();
    let has = |wanted: &[CpuidFeature]| features.iter().any(|feature| wanted.contains(feature));
    if has(&[Feature::FPU, Feature::MMX, Feature::AVX, Feature::AVX2, Feature::AVX512F, Feature::FMA]) {
        return true;
    }
    let name = format!("{:?}", instruction.mnemonic());
    let harmless = ["Mov", "Shufp", "Unpck", "Xorp", "Andp", "Andnp", "Orp", "P"];
    let suffixed = ["ss", "sd", "ps", "pd"].iter().any(|suffix| name.ends_with(suffix));
    let arithmetic = (suffixed || name.starts_with("Cvt")) && !harmless.iter().any(|prefix| name.starts_with(prefix));
    let control = matches!(instruction.mnemonic(), Mnemonic::Ldmxcsr | Mnemonic::Stmxcsr);
    control || (arithmetic && has(&[Feature::SSE, Feature::SSE2, Feature::SSE3, Feature::SSE4_1]))
}

#[cfg(test)]
fn surprises(bytes: &[u8]) -> usize {
    Function::new(bytes, 0x1000).surprises().len()
}

#[test]
fn prologues_of_every_kind_are_measured() {
    let stack = |bytes: &[u8]| Function::new(bytes, 0x1000).stack();
    // push rbp; push rsi; sub rsp, 0x28; lea rbp, [rsp+0x20]; ret
    let small = [0x55, 0x56, 0x48, 0x83, 0xec, 0x28, 0x48, 0x8d, 0x6c, 0x24, 0x20, 0xc3];
    assert_eq!(stack(&small), Stack { bytes: 0x38, dynamic: false });
    // sub rsp, 0x1000; ret
    assert_eq!(stack(&[0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0xc3]).bytes, 0x1000);
    // mov eax, 0x2000; call; sub rsp, rax; ret
    let probed = [0xb8, 0, 0x20, 0, 0, 0xe8, 0, 0, 0, 0, 0x48, 0x29, 0xc4, 0xc3];
    assert_eq!(stack(&probed), Stack { bytes: 0x2000, dynamic: false });
}

#[test]
fn stack_that_is_taken_at_run_time_is_seen() {
    let dynamic = |bytes: &[u8]| Function::new(bytes, 0x1000).stack().dynamic;
    // test eax, eax; sub rsp, rcx / and rsp, -64 / push rax, each behind the prologue
    assert!(dynamic(&[0x85, 0xc0, 0x48, 0x29, 0xcc, 0xc3]));
    assert!(dynamic(&[0x85, 0xc0, 0x48, 0x83, 0xe4, 0xc0, 0xc3]));
    assert!(dynamic(&[0x85, 0xc0, 0x50, 0xc3]));
    assert!(dynamic(&[0x48, 0x29, 0xcc, 0xc3]), "an amount nobody loaded");
    assert!(!dynamic(&[0x50, 0x58, 0xc3]));
}

#[test]
fn floating_point_in_any_form_is_a_surprise() {
    let ret = 0xc3;
    assert_eq!(surprises(&[0xf2, 0x0f, 0x58, 0xc1, ret]), 1, "addsd");
    assert_eq!(surprises(&[0xf2, 0x48, 0x0f, 0x2a, 0xc0, ret]), 1, "cvtsi2sd");
    assert_eq!(surprises(&[0x0f, 0x5b, 0xc0, ret]), 1, "cvtdq2ps");
    assert_eq!(surprises(&[0x66, 0x0f, 0x2f, 0xc1, ret]), 1, "comisd");
    assert_eq!(surprises(&[0xd9, 0xe8, ret]), 1, "fld1");
    assert_eq!(surprises(&[0xc5, 0xfc, 0x58, 0xc1, ret]), 1, "vaddps");
    assert_eq!(surprises(&[0x0f, 0xae, 0x10, ret]), 1, "ldmxcsr");
}

#[test]
fn moving_and_clearing_memory_by_sse_is_none() {
    // xorps xmm0, xmm0; movups [rcx], xmm0; movdqa xmm0, xmm1; pshufd xmm0, xmm1, 0; ret
    let code = [0x0f, 0x57, 0xc0, 0x0f, 0x11, 0x01, 0x66, 0x0f, 0x6f, 0xc1, 0x66, 0x0f, 0x70, 0xc1, 0, 0xc3];
    assert_eq!(surprises(&code), 0);
}

#[test]
fn privileged_instructions_are_a_surprise() {
    assert_eq!(surprises(&[0xfa, 0xc3]), 1, "cli");
    assert_eq!(surprises(&[0xf4, 0xc3]), 1, "hlt");
    assert_eq!(surprises(&[0x44, 0x0f, 0x20, 0xc0, 0xc3]), 1, "mov rax, cr8");
    assert_eq!(surprises(&[0x0f, 0x30, 0xc3]), 1, "wrmsr");
}

#[test]
fn a_trap_is_a_surprise_unless_it_is_filling_behind_the_end_of_a_path() {
    assert_eq!(surprises(&[0x90, 0xcc, 0xc3]), 1, "nop; int3");
    assert_eq!(surprises(&[0xe8, 0, 0, 0, 0, 0xcc]), 0, "call of a function that does not return; int3");
    assert_eq!(surprises(&[0xe8, 0, 0, 0, 0, 0x0f, 0x0b, 0xcc, 0xcc]), 0, "more filling");
    assert_eq!(surprises(&[0x74, 0x01, 0xc3, 0x0f, 0x0b]), 1, "je to a ud2 behind the ret");
    assert_eq!(surprises(&[0xcd, 0x29, 0xc3]), 1, "int 29h");
}

#[test]
fn calls_are_told_apart_by_what_is_known_of_their_target() {
    let calls = |bytes: &[u8]| Function::new(bytes, 0x1000).calls(0x1000, 0x1000 + bytes.len() as u32);
    assert_eq!(calls(&[0xe8, 0xfb, 0x0f, 0, 0, 0xc3]), [Target::Code(0x2000)]);
    assert_eq!(calls(&[0xff, 0x15, 0xfa, 0x0f, 0, 0, 0xc3]), [Target::Slot(0x2000)]);
    assert_eq!(calls(&[0xff, 0x50, 0x20, 0xc3]), [Target::Unknown], "call [rax+0x20]");
    assert_eq!(calls(&[0xff, 0xd0, 0xc3]), [Target::Unknown], "call rax");
    assert_eq!(calls(&[0xeb, 0xfe, 0x74, 0xfc, 0xc3]), [], "jumps inside");
    assert_eq!(calls(&[0xe9, 0xfb, 0x0f, 0, 0]), [Target::Code(0x2000)], "a tail call");
}
