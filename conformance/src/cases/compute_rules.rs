//! DISPATCH: programs that break a rule of the instruction set which no assembler lets through, made from such as it wrote.

use campanile_hw::isa::{DEPTH_MAX, Instruction, LineEntry, Op, Type};

use super::compute_faults::{bad_program, changed, place};
use super::compute_lab::assembled;
use crate::{Boot, Case, Failure};

cases! { thunks "Compute", needs HardwareScheduling;
    "Compute.UnknownModifierIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A comparison, an atomic operation, a reduction or a system value that does not exist, or not for the type, is a fault with the address of the instruction."
        => modifiers;
    "Compute.UnknownOrderIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "An order that does not exist, or a reserved bit beside scope and order, is a fault with the address of the instruction."
        => orders;
    "Compute.ConstantThatDoesNotFitIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A constant of a word with a bit above the lowest 32, and one of a predicate that is neither 0 nor 1, are faults."
        => constants;
    "Compute.BlocksThatDoNotMatchAreAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "The end of a block of another kind, an ELSE of a LOOP, and a BREAK outside every LOOP are faults with the address of the instruction."
        => blocks;
    "Compute.TooDeepNestingIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A block that is the 65th one open, of whichever kind, is a fault with the address of the instruction that opens it."
        => nesting;
    "Compute.WrongEndOfAFunctionIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "RET in the first function and EXIT as the end of another one are faults with the address of the instruction."
        => ends;
    "Compute.UnorderedFunctionsAreAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A function that begins where the next one does, behind it, or behind the end of the code is a fault of the program as a whole."
        => functions;
    "Compute.UnorderedLinesAreAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A table of source lines that is not in the order of the instructions, or names one that does not exist, is a fault of the program as a whole."
        => lines;
}

/// Bytes of an instruction: its operation, its modifier, scope and order, and the lowest byte of its constant.
const OPERATION: usize = 0;
const MODIFIER: usize = 2;
const ORDER: usize = 3;
const CONSTANT: usize = 8;

/// Bad programs, each by a text, the instruction that is changed, the byte of it, and what that becomes. The fault is at that instruction.
fn each(case: &Case, changes: &[(&str, &str, u64, usize, u8)]) -> Result<(), Failure> {
    for (what, text, instruction, byte, to) in changes {
        let bytes = changed(&assembled(text)?, place(*instruction) + byte, &[*to]);
        bad_program(case, what, &bytes, bytes.len(), Some(*instruction))?;
    }
    Ok(())
}

fn modifiers(case: &Case) -> Result<(), Failure> {
    let compared = "arguments d0\ncmp.i32.eq p0, w0, w1\ncmp.f32.eq p0, w0, w1\nexit";
    let atomic =
        "arguments d0\natomic.i32.add.device.relaxed w0, [d0], w1\natomic.f32.add.device.relaxed w0, [d0], w1\nexit";
    let reduced = "arguments d0\nreduce.i32.add w0, w1\nreduce.f32.add w0, w1\nexit";
    each(
        case,
        &[
            ("no comparison", compared, 1, MODIFIER, 10),
            ("an unsigned comparison of floating point", compared, 2, MODIFIER, 6),
            ("no atomic operation", atomic, 1, MODIFIER, 11),
            ("an atomic exclusive or of floating point", atomic, 2, MODIFIER, 7),
            ("no reduction", reduced, 1, MODIFIER, 9),
            ("a reduction of floating point by AND", reduced, 2, MODIFIER, 6),
            ("no system value", "arguments d0\nsystem.lane_id w0\nexit", 1, MODIFIER, 19),
        ],
    )
}

fn orders(case: &Case) -> Result<(), Failure> {
    let atomic = "arguments d0\natomic.i32.add.device.relaxed w0, [d0], w1\nexit";
    each(
        case,
        &[
            ("order 5", atomic, 1, ORDER, 2 | 5 << 2),
            ("order 7", atomic, 1, ORDER, 2 | 7 << 2),
            ("a reserved bit", atomic, 1, ORDER, 2 | 1 << 5),
            ("an order of an addition", "arguments d0\nadd.i32 w0, w0, w1\nexit", 1, ORDER, 1),
        ],
    )
}

fn constants(case: &Case) -> Result<(), Failure> {
    let moved = "arguments d0\nmov.i32 w0, 1\nmov.b1 p0, 1\nexit";
    each(
        case,
        &[
            ("a word of 33 bits", moved, 1, CONSTANT + 4, 1),
            ("a word of 64 bits", moved, 1, CONSTANT + 7, 0x80),
            ("a predicate of 2", moved, 2, CONSTANT, 2),
        ],
    )
}

fn blocks(case: &Case) -> Result<(), Failure> {
    // 0 mov, 1 if, 2 else, 3 end_if, 4 loop, 5 break_if, 6 end_loop, 7 exit
    let text = "mov.b1 p0, 1\nif p0\nelse\nend_if\nloop\nbreak_if p0\nend_loop\nexit";
    each(
        case,
        &[
            ("an IF that ends as a LOOP", text, 3, OPERATION, Op::EndLoop as u8),
            ("a LOOP that ends as an IF", text, 6, OPERATION, Op::EndIf as u8),
            (
                "a BREAK_IF outside a LOOP",
                "mov.b1 p0, 1\nloop\nbreak_if p0\nend_loop\nexit",
                1,
                OPERATION,
                Op::BreakIf as u8,
            ),
        ],
    )
}

fn nesting(case: &Case) -> Result<(), Failure> {
    let depth = DEPTH_MAX as usize;
    for (around, end) in [("if p0\n", "end_if\n"), ("loop\n", "break\nend_loop\n")] {
        let (opened, closed) = (around.repeat(depth), end.repeat(depth));
        let most = assembled(&format!("mov.b1 p0, 1\n{opened}mov.i32 w0, 1\nmov.i32 w0, 2\n{closed}exit"))?;
        // The two instructions inside of all blocks become one block more.
        let inside = u64::from(DEPTH_MAX) + 1;
        for (what, opens, closes) in [("IF", Op::If, Op::EndIf), ("LOOP", Op::Loop, Op::EndLoop)] {
            let opens = Instruction { immediate: inside + 1, ..Instruction::new(opens, Type::None) };
            let closes = match closes {
                Op::EndLoop => Instruction { immediate: inside, ..Instruction::new(closes, Type::None) },
                _ => Instruction::new(closes, Type::None),
            };
            let bytes = changed(&most, place(inside), &opens.encode());
            let bytes = changed(&bytes, place(inside + 1), &closes.encode());
            bad_program(case, &format!("a {what} inside of 64 {}", around.trim()), &bytes, bytes.len(), Some(inside))?;
        }
    }
    Ok(())
}

fn ends(case: &Case) -> Result<(), Failure> {
    // 0 call, 1 exit; 2 mov, 3 ret
    let text = "call more\nexit\n.function more\nmov.i32 w0, 1\nret";
    each(
        case,
        &[
            ("RET in the first function", text, 1, OPERATION, Op::Ret as u8),
            ("EXIT at the end of another one", text, 3, OPERATION, Op::Exit as u8),
        ],
    )
}

fn functions(case: &Case) -> Result<(), Failure> {
    let whole = assembled("call more\ncall most\nexit\n.function more\nmov.i32 w0, 1\nret\n.function most\nret")?;
    // Function 1 begins at instruction 3, function 2 at 5.
    for (what, function, begins) in [
        ("where the next one does", 1, 5_u32),
        ("behind the next one", 1, 6),
        ("behind the end", 2, 6),
        ("far behind the end", 2, u32::MAX),
    ] {
        let bytes = changed(&whole, 64 + function * 4, &begins.to_le_bytes());
        bad_program(case, &format!("a function that begins {what}"), &bytes, bytes.len(), None)?;
    }
    Ok(())
}

fn lines(case: &Case) -> Result<(), Failure> {
    let whole = assembled(".line 1\nmov.i32 w0, 1\n.line 2\nmov.i32 w0, 2\n.line 3\nexit")?;
    let table = place(3);
    for (what, entry, instruction) in [
        ("twice the same instruction", 1, 0_u32),
        ("an instruction before the last entry's", 2, 0),
        ("an instruction that does not exist", 2, 3),
        ("the greatest number", 2, u32::MAX),
    ] {
        let bytes = changed(&whole, table + entry * LineEntry::SIZE, &instruction.to_le_bytes());
        bad_program(case, &format!("a table of lines with {what}"), &bytes, bytes.len(), None)?;
    }
    Ok(())
}
