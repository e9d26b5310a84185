//! Dispatches in progress: where a program stood when a timeout was found.

use std::fmt;

use serde::Serialize;

use super::{high, low};

/// A dispatch in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DebugDispatch {
    /// The driver's handle of its hardware queue, 0 for packets of the node.
    pub queue: u64,
    /// Number of the queue on the hardware.
    pub number: u32,
    /// Node that executes the queue.
    pub node: u32,
    /// True if its state is in the save area, so that another queue has or had the node.
    pub saved: bool,
    /// Place in the grid of the workgroup in progress; none between two of them, and then nothing of what is about it holds.
    pub workgroup: Option<[u32; 3]>,
    /// Number in the workgroup of the subgroup that runs.
    pub subgroup: u32,
    /// Its program counter: number of the next instruction.
    pub instruction: u32,
    /// Line of the source of that instruction, 0 if the program does not say.
    pub line: u32,
    /// The instruction as the disassembler writes it.
    pub text: String,
    /// Lanes of the subgroup that execute, a bit each.
    pub active: u32,
    /// Lanes of the subgroup that have not ended.
    pub alive: u32,
    /// GPU virtual address of the program.
    pub program: u64,
    /// Workgroups that have ended.
    pub done: u64,
    /// Instructions of subgroups so far.
    pub instructions: u64,
    /// GPU clock when it began.
    pub begun: u64,
}

impl DebugDispatch {
    pub(super) fn of(words: &[u64; 12]) -> Self {
        let [queue, about, xy, z, place, lanes, program, code_low, code_high, done, instructions, begun] = *words;
        let mut code = [0; 16];
        for (half, word) in code.as_chunks_mut().0.iter_mut().zip([code_low, code_high]) {
            *half = word.to_le_bytes();
        }
        Self {
            queue,
            number: low(about),
            node: high(about) & 0xff,
            saved: about >> 40 & 1 != 0,
            workgroup: (about >> 41 & 1 != 0).then_some([low(xy), high(xy), low(z)]),
            subgroup: high(z),
            instruction: low(place),
            line: high(place),
            text: campanile_isa::disassemble_instruction(&code).unwrap_or_else(|| "no instruction".to_owned()),
            active: low(lanes),
            alive: high(lanes),
            program,
            done,
            instructions,
            begun,
        }
    }
}

impl fmt::Display for DebugDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, node, program, done, instructions, .. } = self;
        let place = if self.saved { "in its save area" } else { "on its node" };
        write!(
            f,
            "dispatch of queue {number} on node {node}, {place}: program at {program:#x}, {done} workgroups done"
        )?;
        write!(f, ", {instructions} instructions")?;
        let Some([x, y, z]) = self.workgroup else { return write!(f, ", between two workgroups") };
        let line = if self.line == 0 { String::new() } else { format!(", line {}", self.line) };
        let Self { subgroup, instruction, text, active, alive, .. } = self;
        write!(f, "; workgroup ({x}, {y}, {z}), subgroup {subgroup}, instruction {instruction}{line}: {text}")?;
        write!(f, "; lanes {active:#010x} of {alive:#010x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [u64; 12] =
        [0x86, 8 | 3 << 41, 1 | 2 << 32, 3 | 4 << 32, 5 | 6 << 32, 0xf0 | 0xff << 32, 0x10_0000, 0, 0, 7, 99, 1000];

    #[test]
    fn it_says_where_the_program_stands() {
        let program = campanile_isa::assemble(".line 6\nadd.i32 w1, w2, w3\nexit").expect("a program");
        let code = &program[64 + 16..];
        let word = |at: usize| u64::from_le_bytes(code[at..at + 8].try_into().expect("eight bytes"));
        let mut words = WORDS;
        (words[7], words[8]) = (word(0), word(8));
        let dispatch = DebugDispatch::of(&words);
        assert_eq!((dispatch.number, dispatch.node, dispatch.workgroup), (8, 0, Some([1, 2, 3])));
        let text = dispatch.to_string();
        assert!(text.contains("subgroup 4, instruction 5, line 6: add.i32 w1, w2, w3; lanes 0x000000f0"), "{text}");
    }

    #[test]
    fn without_a_workgroup_nothing_is_made_up() {
        let mut words = WORDS;
        words[1] = 8;
        let dispatch = DebugDispatch::of(&words);
        assert_eq!((dispatch.workgroup, dispatch.saved), (None, false));
        assert!(dispatch.to_string().ends_with("99 instructions, between two workgroups"), "{dispatch}");
    }
}
