//! Text and bytes of programs: what is assembled is disassembled, and mistakes are named with their place.

#[path = "../../hw/tests/kit/drawn.rs"]
mod drawn;

use campanile_hw::isa::{Instruction, Op, Program, ProgramHeader, ProgramRule, Type};
use campanile_isa::{LinkError, Source, assemble, disassemble, link};
use proptest::prelude::*;

const SAMPLE: &str = "\
.workgroup 64, 1, 1
.registers 4, 2, 1
.shared 1024

.function main
.line 12
    arguments d0
    load.d1 d1, [d0 + 8]
    system.global_id_x w0
    index d1, d1, w0, 4
    cmp.i32.lt_u p0, w0, 100
    if p0
        loop
            load.w1 w1, [d1 - 16]
            break_if p0
        continuing
            mul.f32 w1, w1, 0.5
        end_loop
    else
.line 20
        store.w1 [d1], w1
        call function1
    end_if
    barrier.workgroup.acquire_release
    exit

.function function1
    atomic.i32.compare_exchange.device.relaxed w1, [d1], w2, w3
    atomic_shared.f32.add.workgroup.acquire w1, [w0 + 4], w2
    mov.f64 d0, 0x7ff8000000000000
    shuffle_xor.f16 w1, w2, 16
    mov.b1 p0, 1
    to_u.i64.f16 d0, w3
    ret
";

#[test]
fn text_comes_back_from_the_bytes_it_was_assembled_to() {
    let bytes = assemble(SAMPLE).expect("legal");
    let program = Program::validate(&bytes).expect("valid");
    assert_eq!(disassemble(&program), SAMPLE);
    assert_eq!((program.line(3), program.line(14)), (Some(12), Some(20)));
}

#[test]
fn a_mistake_is_named_with_line_column_and_what_was_expected() {
    let table = [
        ("exi", 1, 1, "expected an operation"),
        ("  add.i32 w0, w1", 1, 17, "expected a register w0 to w255 or a constant of the type, found nothing"),
        ("add.i32 w0, d1, 1\nexit", 1, 13, "expected a register w0 to w255, found `d1`"),
        ("add.b1 p0, p1, 1", 1, 5, "expected the type of `add`: i32, i64, f16, f32, f64, found `b1`"),
        ("cmp.f32.lt_u p0, w0, w1", 1, 9, "expected the modifier of `cmp`: eq, ne, lt, le, gt, ge"),
        ("add w0, w1, w2", 1, 1, "expected the type of `add`"),
        ("exit.f32", 1, 6, "expected nothing more behind the operation"),
        ("exit w0", 1, 6, "expected the end of the line"),
        ("mov.i32 w0, 4294967296", 1, 13, "expected a register w0 to w255 or a constant"),
        ("mov.i32 w256, 1", 1, 9, "expected a register w0 to w255"),
        ("load.w1 w0, [d0 + 2147483648]", 1, 13, "the offset does not fit"),
        ("load.w1 w0, d0", 1, 13, "expected an address such as [d0 + 16]"),
        ("exit\nexit", 2, 1, "rule End"),
        ("\nif p0\nexit", 2, 1, "does not match the block"),
        (".function a\ncall b\nexit", 2, 6, "expected the name of a function, found `b`"),
        (".function a\ncall a\nexit", 2, 1, "rule Call"),
        (".function a\n.function a", 2, 11, "is there already"),
        (".groups 1", 1, 1, "expected `.workgroup`"),
        (".workgroup 1, 1", 1, 12, "expected three numbers"),
        ("", 1, 1, "has no instruction"),
        ("; nothing", 1, 1, "has no instruction"),
        ("exit\n.shared 12", 2, 1, "rule Limit"),
        ("exit\n.scratch 5000", 2, 1, "rule Limit"),
        (".shared 8\n.scratch 5000\nexit", 2, 1, "rule Limit"),
        ("load.w4 w254, [d0]\nexit", 1, 9, "the registers w254 to w257 are meant, and w255 is the last"),
        ("store.d2 [d0], d255\nexit", 1, 16, "the registers d255 to d256 are meant"),
        (".shared 32\n.function main\nexit\n .function b\n.function c\nret", 4, 12, "rule Functions"),
        ("loop\nif p0\nend_loop\nend_if\nexit", 3, 1, "does not match the block"),
        ("shl.i32 w0, w1, -1", 1, 17, "or a constant from 0 to 4294967295, found `-1`"),
        ("mov.f32 w0, inf", 1, 13, "expected a register w0 to w255 or a constant"),
        ("mov.f16 w0, 65520", 1, 13, "expected a register w0 to w255 or a constant"),
        ("\n .workgroup 1024, 2, 1\nexit", 2, 2, "rule Workgroup"),
        (".shared 16\n.shared 32\nexit", 2, 1, "`.shared` is there already"),
        ("mov.i32 w0, 0x+1", 1, 13, "expected a register w0 to w255 or a constant"),
        ("mov.f32 w0, 0x+3f800000", 1, 13, "expected a register w0 to w255 or a constant"),
        ("load.w1 w0, [d0 + 0x+4]", 1, 13, "expected an address"),
    ];
    for (text, line, column, message) in table {
        let error = assemble(text).expect_err(text);
        assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn what_is_nested_too_deep_is_named_where_it_is() {
    let function = |depth: usize| format!("{}{}", "if p0\n".repeat(depth), "end_if\n".repeat(depth));
    let main = |depth| format!("{}exit", function(depth));
    assert!(assemble(&main(64)).is_ok());
    let error = assemble(&main(65)).expect_err("65 blocks");
    assert_eq!((error.line, error.column), (65, 1), "{error}");
    assert!(error.message.contains("rule Depth"), "{error}");
    let calls =
        |depth| format!(".function main\nmov.b1 p0, 1\ncall inner\nexit\n.function inner\n{}ret", function(depth));
    assert!(assemble(&calls(63)).is_ok());
    let error = assemble(&calls(64)).expect_err("a call and 64 blocks");
    assert_eq!((error.line, error.column), (3, 1), "{error}");
    assert!(error.message.contains("rule Depth"), "{error}");
}

#[test]
fn too_much_code_is_named_where_it_begins_to_be_too_much() {
    let error =
        assemble(&format!(".scratch 8\n{}exit", "mov.i32 w0, 1\n".repeat(65537))).expect_err("65538 instructions");
    assert_eq!((error.line, error.column), (65538, 1), "{error}");
}

#[test]
fn a_mark_of_the_byte_order_is_no_text() {
    assert_eq!(assemble("\u{feff}exit"), assemble("exit"));
    assert_eq!(assemble("\u{feff}exi").expect_err("no operation").column, 1);
}

#[test]
fn a_link_that_breaks_a_rule_is_refused() {
    let source = |op| Source { instruction: Instruction::new(op, Type::None), line: 0 };
    let header = ProgramHeader::new();
    assert_eq!(link(&header, &[vec![source(Op::EndIf)]]), Err(LinkError::Nesting { function: 0, instruction: 0 }));
    match link(&header, &[vec![source(Op::Ret)]]) {
        Err(LinkError::Program(bad)) => assert_eq!(bad.rule, ProgramRule::End),
        other => panic!("{other:?}"),
    }
}

/// An instruction without control flow, with registers and offsets of every size.
fn plain(row: usize, numbers: [u8; 8], immediate: u64) -> Option<Instruction> {
    drawn::instruction(row, numbers, immediate, 0x7f, |offset| i64::from(offset as i32) as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_instruction_survives_as_text(drawn in prop::collection::vec((any::<usize>(), any::<[u8; 8]>(), any::<u64>()), 1..200)) {
        let instructions = drawn.into_iter().filter_map(|(row, numbers, immediate)| plain(row, numbers, immediate));
        let mut code: Vec<Source> = instructions.map(|instruction| Source { instruction, line: 0 }).collect();
        code.push(Source { instruction: Instruction::new(Op::Exit, Type::None), line: 0 });
        let bytes = link(&ProgramHeader::new(), &[code]).expect("legal");
        let text = disassemble(&Program::validate(&bytes).expect("valid"));
        prop_assert_eq!(assemble(&text), Ok(bytes), "{}", text);
    }

    #[test]
    fn any_text_is_refused_or_valid(text in "[a-z0-9_.,\\[\\]+; \n-]{0,200}") {
        if let Ok(bytes) = assemble(&text) {
            prop_assert!(Program::validate(&bytes).is_ok());
        }
    }
}
