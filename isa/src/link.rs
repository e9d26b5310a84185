//! Puts functions together to a program.

use campanile_hw::isa::{BadProgram, Instruction, LineEntry, Op, Operand, Program, ProgramHeader};

/// One instruction and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The instruction. What its target is, [`link`] finds out.
    pub instruction: Instruction,
    /// Line of the source, 0 for none.
    pub line: u32,
}

/// The instructions of one function.
pub type Function = Vec<Source>;

/// The reason why functions are no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// Blocks are not nested at this instruction of this function.
    Nesting {
        /// Function.
        function: usize,
        /// Instruction of the function.
        instruction: usize,
    },
    /// The program breaks a rule.
    Program(BadProgram),
}

/// Sets the targets of structured control flow in a function whose first instruction has the number `first`.
fn set_targets(function: &mut [Source], first: u32) -> Result<(), usize> {
    // The instructions that wait for the place where their block ends, of each open block.
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    for at in 0..function.len() {
        let here = u64::from(first) + at as u64;
        match function[at].instruction.op {
            Op::If | Op::Loop => open.push((at, vec![at])),
            Op::BreakIf | Op::ContinueIf => open.last_mut().ok_or(at)?.1.push(at),
            Op::Else | Op::EndIf => {
                let (start, waiting) = open.pop().ok_or(at)?;
                if !matches!(function[start].instruction.op, Op::If | Op::Else) {
                    return Err(at);
                }
                waiting.iter().for_each(|place| function[*place].instruction.immediate = here);
                if function[at].instruction.op == Op::Else {
                    open.push((at, vec![at]));
                }
            }
            Op::Continuing => {
                let (start, waiting) = open.last_mut().ok_or(at)?;
                let leaving = waiting.split_off(1);
                if function[*start].instruction.op != Op::Loop {
                    return Err(at);
                }
                leaving.iter().for_each(|place| function[*place].instruction.immediate = here);
            }
            Op::EndLoop => {
                let (start, waiting) = open.pop().ok_or(at)?;
                if function[start].instruction.op != Op::Loop {
                    return Err(at);
                }
                waiting.iter().for_each(|place| function[*place].instruction.immediate = here);
                function[at].instruction.immediate = u64::from(first) + start as u64;
            }
            _ => {}
        }
    }
    open.pop().map_or(Ok(()), |(start, _)| Err(start))
}

/// Counts of registers of the three files that the instructions use: words, doubles, predicates.
fn registers(functions: &[Function]) -> [u16; 3] {
    let mut counts = [0u16; 3];
    for (file, first, count) in functions.iter().flatten().flat_map(|source| source.instruction.registers()) {
        let place = match file {
            Operand::Word => 0,
            Operand::Double => 1,
            Operand::Predicate => 2,
            _ => continue,
        };
        counts[place] = counts[place].max(u16::from(first) + count as u16);
    }
    counts
}

/// Puts functions together to the bytes of a program: finds the targets of structured control flow, counts code, functions and lines, and raises the registers of
/// `header` to what is used. The first function is where the program starts; a CALL names a function by its place.
///
/// # Errors
/// [`LinkError`]: the program is valid if there is none.
pub fn link(header: &ProgramHeader, functions: &[Function]) -> Result<Vec<u8>, LinkError> {
    let mut header = *header;
    let [words, doubles, predicates] = registers(functions);
    header.words = header.words.max(words);
    header.doubles = header.doubles.max(doubles);
    header.predicates = header.predicates.max(predicates);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    header.functions = count(functions.len());
    header.code = count(functions.iter().map(Vec::len).sum());

    let (mut table, mut code, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    let (mut first, mut line) = (0u32, 0);
    for (number, function) in functions.iter().enumerate() {
        table.extend(first.to_le_bytes());
        let mut function = function.clone();
        set_targets(&mut function, first)
            .map_err(|instruction| LinkError::Nesting { function: number, instruction })?;
        for source in &function {
            code.extend(source.instruction.encode());
            if source.line != line {
                line = source.line;
                lines.push(LineEntry { instruction: first, line });
            }
            first = first.saturating_add(1);
        }
    }
    header.lines = count(lines.len());
    table.resize(table.len().next_multiple_of(16), 0);
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(table);
    bytes.extend(code);
    bytes.extend(lines.iter().flat_map(LineEntry::to_bytes));
    Program::validate(&bytes).map_err(LinkError::Program)?;
    Ok(bytes)
}
