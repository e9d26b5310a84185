//! The one check of a program, before its first instruction runs. It allocates nothing and looks at each instruction once.

use super::instruction::Instruction;
use super::operation::{Op, Operand};
use super::program::{
    BadProgram, Layout, LineEntry, NO_INSTRUCTION, PROGRAM_MAGIC, PROGRAM_VERSION, Program, ProgramHeader, ProgramRule,
    piece,
};
use super::{
    CODE_MAX, DEPTH_MAX, FUNCTIONS_MAX, INSTRUCTION_SIZE, LINES_MAX, REGISTERS_MAX, SCRATCH_MAX, SHARED_MAX,
    WORKGROUP_MAX,
};

const fn bad(rule: ProgramRule) -> BadProgram {
    BadProgram { rule, instruction: NO_INSTRUCTION }
}

/// An open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    If,
    Else,
    Loop,
    Continuing,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    kind: Kind,
    /// The IF, ELSE or LOOP that opened it.
    start: u32,
    /// The instruction that has to close it: the target of the IF, ELSE or LOOP.
    target: u32,
    /// The target that BREAK_IF and CONTINUE_IF directly in the block named: all name its end.
    leave: Option<u32>,
}

/// The blocks that are open at an instruction, and how deep everything that was seen can nest.
struct Nesting {
    blocks: [Block; DEPTH_MAX as usize],
    open: usize,
    deepest: u32,
}

impl Nesting {
    fn new() -> Self {
        let none = Block { kind: Kind::If, start: 0, target: 0, leave: None };
        Self { blocks: [none; DEPTH_MAX as usize], open: 0, deepest: 0 }
    }

    fn push(&mut self, block: Block) -> Result<(), ProgramRule> {
        *self.blocks.get_mut(self.open).ok_or(ProgramRule::Depth)? = block;
        self.open += 1;
        self.deepest = self.deepest.max(self.open as u32);
        Ok(())
    }

    fn top(&mut self) -> Result<&mut Block, ProgramRule> {
        self.open.checked_sub(1).and_then(|top| self.blocks.get_mut(top)).ok_or(ProgramRule::Nesting)
    }

    /// The part of the innermost loop that the instruction is in.
    fn in_loop(&self) -> Option<Kind> {
        let open = self.blocks.get(..self.open)?;
        open.iter().rev().map(|block| block.kind).find(|kind| matches!(kind, Kind::Loop | Kind::Continuing))
    }

    /// Closes the current block, or its first part, at instruction `at`. What left it early named this place.
    fn leave(&mut self, at: u32) -> Result<Block, ProgramRule> {
        let top = self.top()?;
        if top.leave.take().is_some_and(|leave| leave != at) {
            return Err(ProgramRule::Target);
        }
        Ok(*top)
    }
}

fn target(expected: u32, found: u32) -> Result<(), ProgramRule> {
    if expected == found { Ok(()) } else { Err(ProgramRule::Target) }
}

/// Follows one instruction of structured control flow.
fn control(nesting: &mut Nesting, at: u32, instruction: &Instruction) -> Result<(), ProgramRule> {
    let named = instruction.immediate as u32;
    match instruction.op {
        Op::If => nesting.push(Block { kind: Kind::If, start: at, target: named, leave: None }),
        Op::Loop => nesting.push(Block { kind: Kind::Loop, start: at, target: named, leave: None }),
        Op::Else => {
            let block = nesting.leave(at)?;
            if block.kind != Kind::If {
                return Err(ProgramRule::Nesting);
            }
            target(at, block.target)?;
            *nesting.top()? = Block { kind: Kind::Else, start: at, target: named, leave: None };
            Ok(())
        }
        Op::EndIf => {
            let block = nesting.leave(at)?;
            if !matches!(block.kind, Kind::If | Kind::Else) {
                return Err(ProgramRule::Nesting);
            }
            nesting.open -= 1;
            target(at, block.target)
        }
        Op::Continuing => {
            let block = nesting.leave(at)?;
            if block.kind != Kind::Loop {
                return Err(ProgramRule::Nesting);
            }
            nesting.top()?.kind = Kind::Continuing;
            Ok(())
        }
        Op::EndLoop => {
            let block = nesting.leave(at)?;
            if !matches!(block.kind, Kind::Loop | Kind::Continuing) {
                return Err(ProgramRule::Nesting);
            }
            nesting.open -= 1;
            target(at, block.target)?;
            target(block.start, named)
        }
        Op::Break | Op::BreakIf | Op::Continue | Op::ContinueIf => leaves(nesting, instruction.op, named),
        _ => Ok(()),
    }
}

/// BREAK, CONTINUE and their conditional forms.
fn leaves(nesting: &mut Nesting, op: Op, named: u32) -> Result<(), ProgramRule> {
    let part = nesting.in_loop().ok_or(ProgramRule::Nesting)?;
    if matches!(op, Op::Continue | Op::ContinueIf) && part == Kind::Continuing {
        return Err(ProgramRule::Nesting);
    }
    if matches!(op, Op::BreakIf | Op::ContinueIf) {
        let block = nesting.top()?;
        target(*block.leave.get_or_insert(named), named)?;
    }
    Ok(())
}

const fn ends_block(op: Op) -> bool {
    matches!(op, Op::Exit | Op::Ret | Op::Break | Op::Continue)
}

impl<'a> Program<'a> {
    /// Checks a program whole: sizes and limits, every instruction, registers, nesting, targets and calls.
    ///
    /// # Errors
    /// The first rule that it breaks, with the instruction that breaks it.
    pub fn validate(bytes: &'a [u8]) -> Result<Self, BadProgram> {
        let raw: [u8; ProgramHeader::SIZE] = piece(bytes, 0).ok_or(bad(ProgramRule::Length))?;
        let header = ProgramHeader::from_bytes(&raw);
        if header.magic != PROGRAM_MAGIC || header.version != PROGRAM_VERSION {
            return Err(bad(ProgramRule::Magic));
        }
        if !ProgramHeader::unnamed_are_zero(&raw) {
            return Err(bad(ProgramRule::Header));
        }
        let layout = header.layout().map_err(bad)?;
        if layout.size != bytes.len() {
            return Err(bad(ProgramRule::Length));
        }
        let gap = bytes.get(layout.functions + header.functions as usize * 4..layout.code).unwrap_or(&[1]);
        if gap.iter().any(|byte| *byte != 0) {
            return Err(bad(ProgramRule::Header));
        }
        let mut program = Self { bytes, header, layout, depth: 0 };
        program.check_lines()?;
        program.depth = program.check_functions()?;
        Ok(program)
    }

    fn check_lines(&self) -> Result<(), BadProgram> {
        let mut next = 0;
        for entry in (0..self.header.lines).map_while(|number| self.line_entry(number)) {
            if entry.instruction < next || entry.instruction >= self.header.code {
                return Err(bad(ProgramRule::Lines));
            }
            next = entry.instruction + 1;
        }
        Ok(())
    }

    /// Checks all functions, those that are called before those that call them, and returns the depth of function 0.
    fn check_functions(&self) -> Result<u32, BadProgram> {
        let mut depths = [0u32; FUNCTIONS_MAX as usize];
        let mut end = self.header.code;
        for number in (0..self.header.functions).rev() {
            let start = self.function(number).unwrap_or(end);
            if start >= end || (number == 0 && start != 0) {
                return Err(bad(ProgramRule::Functions));
            }
            let depth = self.check_function(number, start, end, &depths)?;
            if let Some(place) = depths.get_mut(number as usize) {
                *place = depth;
            }
            end = start;
        }
        Ok(depths[0])
    }

    /// Checks one function and returns how deep it can nest.
    fn check_function(&self, number: u32, start: u32, end: u32, depths: &[u32]) -> Result<u32, BadProgram> {
        let mut nesting = Nesting::new();
        // True behind an instruction that ends its block.
        let mut over = false;
        for at in start..end {
            let here = |rule| BadProgram { rule, instruction: at };
            let instruction = self.decode(at)?;
            self.check_registers(&instruction).map_err(here)?;
            let merges = matches!(instruction.op, Op::Else | Op::EndIf | Op::Continuing | Op::EndLoop);
            if (over && !merges) || (instruction.op == Op::Ret && number == 0) {
                return Err(here(ProgramRule::End));
            }
            over = ends_block(instruction.op);
            if instruction.op == Op::Call {
                let called = u32::try_from(instruction.immediate).unwrap_or(u32::MAX);
                if called <= number || called >= self.header.functions {
                    return Err(here(ProgramRule::Call));
                }
                let below = depths.get(called as usize).copied().unwrap_or(DEPTH_MAX);
                nesting.deepest = nesting.deepest.max(nesting.open as u32 + 1 + below);
            }
            control(&mut nesting, at, &instruction).map_err(here)?;
            if nesting.deepest > DEPTH_MAX {
                return Err(here(ProgramRule::Depth));
            }
        }
        let last = BadProgram { rule: ProgramRule::End, instruction: end - 1 };
        if nesting.open != 0 {
            return Err(BadProgram { rule: ProgramRule::Nesting, ..last });
        }
        let ending = if number == 0 { Op::Exit } else { Op::Ret };
        if self.decode(end - 1)?.op == ending { Ok(nesting.deepest) } else { Err(last) }
    }

    fn decode(&self, at: u32) -> Result<Instruction, BadProgram> {
        let missing = BadProgram { rule: ProgramRule::Length, instruction: at };
        let bytes = piece(self.bytes, self.layout.code + at as usize * INSTRUCTION_SIZE).ok_or(missing)?;
        Instruction::decode(&bytes).map_err(|bad| BadProgram { rule: bad.into(), instruction: at })
    }

    fn check_registers(&self, instruction: &Instruction) -> Result<(), ProgramRule> {
        let header = &self.header;
        for (file, first, count) in instruction.registers() {
            let announced = match file {
                Operand::Predicate => header.predicates,
                Operand::Word => header.words,
                Operand::Double => header.doubles,
                _ => continue,
            };
            if u32::from(first) + count > u32::from(announced) {
                return Err(ProgramRule::Register);
            }
        }
        Ok(())
    }
}

impl ProgramHeader {
    /// Byte ranges of the parts of a program with this header.
    ///
    /// # Errors
    /// The rule that the sizes in the header break.
    pub fn layout(&self) -> Result<Layout, ProgramRule> {
        let registers = [self.words, self.doubles, self.predicates].iter().all(|count| *count <= REGISTERS_MAX);
        let memory = self.shared <= SHARED_MAX
            && self.scratch <= SCRATCH_MAX
            && self.shared.is_multiple_of(8)
            && self.scratch.is_multiple_of(8);
        let sizes = (1..=CODE_MAX).contains(&self.code) && self.lines <= LINES_MAX;
        if !(registers && memory && sizes && self.functions <= FUNCTIONS_MAX) {
            return Err(ProgramRule::Limit);
        }
        if self.functions == 0 {
            return Err(ProgramRule::Functions);
        }
        if !(1..=WORKGROUP_MAX).contains(&self.lanes()) {
            return Err(ProgramRule::Workgroup);
        }
        let functions = Self::SIZE;
        let code = functions + (self.functions as usize * 4).next_multiple_of(INSTRUCTION_SIZE);
        let lines = code + self.code as usize * INSTRUCTION_SIZE;
        Ok(Layout { functions, code, lines, size: lines + self.lines as usize * LineEntry::SIZE })
    }
}
