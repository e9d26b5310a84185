//! Loops that are compiled as one function do what interpreted ones do, at whatever budget they are stopped.

#[allow(dead_code)] // other tests do more with it
mod guest;

use campanile_hw::isa::Program;
use campanile_isa::assemble;
use campanile_jit::Compiled;
use campanile_shader::{Dispatch, Kernel, Outcome};
use guest::{BASE, Guest};

fn kernel(text: &str) -> Kernel {
    Kernel::new(&Program::validate(&assemble(text).expect("legal")).expect("valid"))
}

/// A program whose lanes go through a loop, each with the number of its lane in w0 and a number of binary32 from memory in w1, and store words 2 to 5.
fn program(body: &str) -> String {
    let stores: String = (2..6).map(|word| format!("store.w1 [d1 + {}], w{word}\n", 512 + word * 256)).collect();
    format!(
        ".workgroup 40, 1, 1\n.shared 160\narguments d0\nsystem.local_index w0\nindex d1, d0, w0, 4\nload.w1 w1, [d1]\n{body}\n{stores}exit"
    )
}

/// Loops by their shape.
const LOOPS: [&str; 12] = [
    // A count that is the same in all lanes.
    "loop\ncmp.i32.lt_u p0, w2, 5\nnot.b1 p0, p0\nbreak_if p0\nadd.i32 w3, w3, w0\nrotl.i32 w4, w3, 7\nxor.i32 w5, w5, w4
    continuing\nadd.i32 w2, w2, 1\nend_loop",
    // One that differs, with IF and ELSE.
    "loop\ncmp.i32.lt_u p0, w2, w0\nif p0\ncmp.i32.lt_u p1, w3, 50\nadd.i32 w5, w5, 3\nelse\nmov.b1 p1, 0\nend_if\nnot.b1 p0, p1
    break_if p0\nadd.i32 w3, w3, w2\nadd.i32 w2, w2, 1\ncontinuing\nend_loop",
    // BREAK and CONTINUE in blocks in blocks.
    "loop\nadd.i32 w2, w2, 1\nand.i32 w3, w2, 3\ncmp.i32.eq p0, w3, 2\nif p0\ncmp.i32.gt_u p1, w0, 20\nif p1\nadd.i32 w4, w4, 1
    continue\nend_if\nsub.i32 w4, w4, w2\ncontinue_if p0\nelse\ncmp.i32.gt_u p1, w2, w0\nif p1\nmov.i32 w5, w2\nbreak\nend_if\nend_if
    add.i32 w5, w5, 100\ncontinuing\nadd.i32 w4, w4, 7\ncmp.i32.gt_u p1, w2, 9\nend_loop",
    // Numbers that become infinite and no numbers, whose bits are used.
    "mov.i32 w2, 0x7f000000\nloop\nadd.f32 w2, w2, w2\nsub.f32 w3, w2, w2\nmul.f32 w4, w1, w3\nadd.i32 w5, w5, 1\nxor.i32 w1, w1, w4
    cmp.i32.gt_u p0, w5, 6\nbreak_if p0\nmax.f32 w4, w4, w2\nsqrt.f32 w2, w3\nfma.f32 w3, w2, w1, w4\ncontinuing\nend_loop",
    // Bits of a NaN that no arithmetic made stay as they are.
    "mov.i32 w2, 0x7fa01234\nloop\ncmp.i32.gt_u p0, w0, w5\nif p0\nadd.f32 w2, w2, 1.0\nelse\nmov.i32 w3, w2\nend_if\nadd.i32 w5, w5, 8
    cmp.i32.gt_u p1, w5, 60\nbreak_if p1\ncontinuing\nend_loop",
    // Results that are computed aside: for lanes that are not active they are not to be seen.
    "loop\nadd.i32 w2, w2, 1\ncmp.i32.gt_u p0, w2, w0\nbreak_if p0\ncmp.f32.lt p1, w1, 1.0\nselect.i32 w3, w0, w2, p1\nto_s.i32.f32 w4, w1
    min.f32 w1, w1, w3\ntrailing_zeros.i32 w5, w2\nxor.b1 p1, p1, p0\nselect.i32 w5, w5, 9, p1\nsystem.lane_id w6\nadd.i32 w5, w5, w6
    continuing\nend_loop",
    // All lanes leave before its first plain instruction, which no lane executes then.
    "mov.b1 p0, 1\nloop\nbreak_if p0\nadd.i32 w2, w2, 1\ncontinuing\nadd.i32 w3, w3, 1\ncmp.i32.ge_u p1, w3, 9\nbreak_if p1\nend_loop",
    // The same in a block, so that a conditional BREAK comes behind that no lane executes.
    "mov.b1 p0, 1\nloop\nif p0\ncontinue_if p0\nend_if\nbreak_if p1\nadd.i32 w2, w2, 1\ncontinuing\nadd.i32 w3, w3, 1
    cmp.i32.ge_u p2, w3, 9\nbreak_if p2\nend_loop",
    // Loads and stores under conditions that hold for all lanes, for some, and for none; and where words are read that were stored so.
    "loop\nadd.i32 w2, w2, 1\ncmp.i32.le_u p0, w2, 3\nif p0\nload.w1 w3, [d1 + 2048]\nend_if\nadd.i32 w4, w4, w3\nif p0\nstore.w1 [d1 + 2048], w4\nend_if
    shl.i32 w5, w2, 3\ncmp.i32.lt_u p1, w0, w5\nif p1\nload.w1 w5, [d1 + 2048]\nend_if\ncmp.i32.gt_u p0, w2, 5\nbreak_if p0\ncontinuing\nend_loop",
    // Loads under such conditions, and constants where they load nothing.
    "loop\nadd.i32 w2, w2, 1\ncmp.i32.le_u p0, w2, 3\nmov.i32 w3, 9\nif p0\nload.w1 w3, [d1 + 2048]\nend_if\nadd.i32 w4, w4, w3\nshl.i32 w5, w2, 3
    cmp.i32.lt_u p1, w0, w5\nmov.i32 w5, 6\nif p1\nload.w1 w5, [d1 + 1024]\nend_if\nadd.i32 w4, w4, w5\ncmp.i32.gt_u p0, w2, 5\nbreak_if p0
    continuing\nend_loop",
    // A constant that is the address of a load into its own register.
    "shl.i32 w3, w0, 2\nstore_shared.w1 [w3], w0\nbarrier.workgroup.acquire_release\nloop\nadd.i32 w2, w2, 1\ncmp.i32.le_u p0, w2, 3\nmov.i32 w3, 64
    if p0\nload_shared.w1 w3, [w3]\nend_if\nadd.i32 w4, w4, w3\ncmp.i32.gt_u p0, w2, 5\nbreak_if p0\ncontinuing\nend_loop",
    // Loops in a loop.
    "loop\nadd.i32 w2, w2, 1\nmov.i32 w3, 0\nloop\nadd.i32 w3, w3, 1\nadd.i32 w4, w4, w3\ncmp.i32.ge_u p0, w3, w2\nbreak_if p0
    cmp.i32.gt_u p1, w3, w0\nbreak_if p1\ncontinuing\nend_loop\ncmp.i32.gt_u p0, w2, 4\nbreak_if p0\ncontinuing\nend_loop",
];

#[test]
fn a_loop_that_is_stopped_at_every_budget_does_the_same() {
    for body in LOOPS {
        let kernel = kernel(&program(body));
        let (mut expected, mut whole) = (Guest::new(), Dispatch::new([1, 1, 1], BASE));
        assert_eq!(whole.run(&kernel, &mut expected, &mut { 100_000 }), Outcome::Done, "{body}");
        for vectors in guest::vectors() {
            let compiled = Compiled::with(&kernel, vectors).expect("compiled");
            for step in (1..80).chain([100_000]) {
                let (mut memory, mut dispatch) = (Guest::new(), Dispatch::new([1, 1, 1], BASE));
                // Each stop is compared with the interpreter's at the same instruction.
                let (mut of_oracle, mut oracle) = (Guest::new(), Dispatch::new([1, 1, 1], BASE));
                loop {
                    let mut budget = step;
                    let outcome = dispatch.run_with(&kernel, &compiled, &mut memory, &mut budget);
                    oracle.run(&kernel, &mut of_oracle, &mut { step - budget });
                    if outcome != Outcome::Paused {
                        assert_eq!(outcome, Outcome::Done);
                        break;
                    }
                    assert!(dispatch == oracle, "state differs, {vectors:?}, {step}\n{body}\n{dispatch:?}\n{oracle:?}");
                    let saved = dispatch.save(&kernel, 1);
                    dispatch = Dispatch::restore(&kernel, &saved).expect("its own state").0;
                }
                assert!(memory.contents() == expected.contents(), "memory differs, {vectors:?}, {step}\n{body}");
                assert!(dispatch == whole, "state differs, {vectors:?}, {step}\n{body}");
            }
        }
    }
}
