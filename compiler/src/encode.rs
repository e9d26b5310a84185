//! The bytes of a program.

use campanile_hw::isa::{
    CODE_MAX, Instruction, LineEntry, Op as I, OrderWord, Program, ProgramHeader, SCRATCH_MAX, SHARED_MAX,
};

use crate::allocate::Allocated;
use crate::error::{Error, Result, limit, malformed};
use crate::ir::{Inst, Src};

/// Fills the targets of control flow in.
fn targets(code: &mut [Inst]) -> Result<()> {
    /// An open block: where it began, the IF, ELSE or LOOP; and the jumps to its end.
    struct Open {
        start: usize,
        leaves: Vec<usize>,
    }
    let mut open: Vec<Open> = Vec::new();
    for at in 0..code.len() {
        let op = code.get(at).map_or(I::Exit, |inst| inst.op);
        let mut aim = |place: usize, target: usize| {
            if let Some(inst) = code.get_mut(place) {
                inst.immediate = target as u64;
            }
        };
        let unbalanced = || malformed("control flow that does not nest");
        match op {
            I::If | I::Loop => open.push(Open { start: at, leaves: Vec::new() }),
            I::BreakIf | I::ContinueIf => open.last_mut().ok_or_else(unbalanced)?.leaves.push(at),
            I::Else => {
                let block = open.last_mut().ok_or_else(unbalanced)?;
                block.leaves.drain(..).for_each(|leave| aim(leave, at));
                aim(block.start, at);
                block.start = at;
            }
            I::Continuing => {
                let block = open.last_mut().ok_or_else(unbalanced)?;
                block.leaves.drain(..).for_each(|leave| aim(leave, at));
            }
            I::EndIf | I::EndLoop => {
                let mut block = open.pop().ok_or_else(unbalanced)?;
                block.leaves.drain(..).for_each(|leave| aim(leave, at));
                aim(block.start, at);
                if op == I::EndLoop {
                    aim(at, block.start);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn instruction(inst: &Inst) -> Instruction {
    let number = |register: Option<u32>| register.unwrap_or(0) as u8;
    let (b, constant, immediate) = match inst.b {
        Some(Src::Reg(register)) => (register as u8, false, inst.immediate),
        Some(Src::Const(bits)) => (0, true, bits),
        None => (0, false, inst.immediate),
    };
    Instruction {
        op: inst.op,
        ty: inst.ty,
        modifier: inst.modifier,
        order: OrderWord::from_bits(inst.order),
        dst: number(inst.dst),
        a: number(inst.a),
        b,
        c: number(inst.c),
        constant,
        immediate,
    }
}

/// Writes a program and checks it as the device does.
pub(crate) fn encode(mut allocated: Allocated, workgroup: [u32; 3], shared: u32) -> Result<Vec<u8>> {
    targets(&mut allocated.code)?;
    let code = &allocated.code;
    if code.len() > CODE_MAX as usize {
        return Err(limit(format!("{} instructions, at most {CODE_MAX} are possible", code.len())));
    }
    if shared > SHARED_MAX {
        return Err(limit(format!("{shared} bytes of workgroup memory, at most {SHARED_MAX} are possible")));
    }
    if allocated.scratch > SCRATCH_MAX {
        return Err(limit(format!(
            "{} bytes of private memory of a lane, at most {SCRATCH_MAX} are possible",
            allocated.scratch
        )));
    }
    let mut lines: Vec<LineEntry> = Vec::new();
    for (at, inst) in code.iter().enumerate() {
        if lines.last().map_or(0, |entry| entry.line) != inst.line {
            lines.push(LineEntry { instruction: at as u32, line: inst.line });
        }
    }
    let [predicates, words, doubles] = allocated.used.map(|used| used as u16);
    let [workgroup_x, workgroup_y, workgroup_z] = workgroup;
    let header = ProgramHeader {
        code: code.len() as u32,
        predicates,
        words,
        doubles,
        workgroup_x,
        workgroup_y,
        workgroup_z,
        shared: shared.next_multiple_of(8),
        scratch: allocated.scratch.next_multiple_of(8),
        lines: lines.len() as u32,
        ..ProgramHeader::new()
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(&[0; 16]);
    for inst in code {
        bytes.extend_from_slice(&instruction(inst).encode());
    }
    for entry in &lines {
        bytes.extend_from_slice(&entry.to_bytes());
    }
    if let Err(bad) = Program::validate(&bytes) {
        let inst = code.get(bad.instruction as usize);
        return Err(Error::Malformed(format!(
            "the program made of it breaks the rule {:?} at instruction {}: {inst:?}",
            bad.rule, bad.instruction
        )));
    }
    Ok(bytes)
}
