//! Loads and stores of compiled programs do what those of interpreted ones do, whatever their addresses and lanes are.

#[allow(dead_code)] // other tests do more with it
mod guest;

use campanile_hw::isa::Program;
use campanile_isa::assemble;
use campanile_jit::Compiled;
use campanile_shader::{Cause, Dispatch, Kernel, Outcome};
use guest::{BASE, Guest, PAGE};

fn kernel(text: &str) -> Kernel {
    Kernel::new(&Program::validate(&assemble(text).expect("legal")).expect("valid"))
}

/// Runs a program in both executors, and compares all that they leave.
fn compare(text: &str, block: u64) -> Outcome<guest::Forbidden> {
    let kernel = kernel(text);
    let (mut expected, mut whole) = (Guest::new(), Dispatch::new([1, 1, 1], block));
    let end = whole.run(&kernel, &mut expected, &mut { 100_000 });
    for vectors in guest::vectors() {
        let compiled = Compiled::with(&kernel, vectors).expect("compiled");
        let (mut memory, mut dispatch) = (Guest::new(), Dispatch::new([1, 1, 1], block));
        let outcome = dispatch.run_with(&kernel, &compiled, &mut memory, &mut { 100_000 });
        assert_eq!(outcome, end, "{vectors:?}\n{text}");
        assert!(memory.contents() == expected.contents(), "memory differs, {vectors:?}\n{text}");
        assert!(dispatch == whole, "state differs, {vectors:?}\n{text}");
    }
    end
}

/// Formats with the registers and bytes of each.
const FORMATS: [(&str, &str, u32); 10] = [
    ("u8", "w", 1),
    ("s8", "w", 1),
    ("u16", "w", 2),
    ("s16", "w", 2),
    ("w1", "w", 4),
    ("w2", "w", 8),
    ("w3", "w", 12),
    ("w4", "w", 16),
    ("d1", "d", 8),
    ("d2", "d", 16),
];
/// Active lanes: all, some, those at the ends, one, none.
const MASKS: [u32; 5] = [u32::MAX, 0x0f31_8a5c, 0x8000_0001, 0x0000_0400, 0];

/// A program in which the lanes of a mask load from addresses `stride` bytes apart and store to others.
fn program(load: &str, store: &str, (format, file, mask): (&str, &str, u32), stride: u32) -> String {
    let first = if file == "w" { "w4" } else { "d4" };
    format!(
        ".workgroup 32, 1, 1\n.shared 8192\n.scratch 64\narguments d0\nsystem.lane_id w0\nmul.i32 w1, w0, {stride}\nindex d1, d0, w0, {stride}
        mov.i32 w2, {mask}\nshr_u.i32 w2, w2, w0\nand.i32 w2, w2, 1\ncmp.i32.eq p0, w2, 1
        add.i32 w3, w0, 77\nstore_shared.w1 [w1], w3\nand.i32 w9, w1, 31
        if p0\n{load}.{format} {first}, {from}\n{store}.{store_format} {to}, {first}\nend_if
        load_shared.w1 w3, [w1]\nexit",
        from = address(load),
        to = address(store),
        store_format = format.replace('s', "u"),
    )
}

fn address(operation: &str) -> &'static str {
    match operation {
        "load" => "[d1 + 16]",
        "store" => "[d1 + 32]",
        "load_scratch" | "store_scratch" => "[w9 + 16]",
        _ => "[w1 + 16]",
    }
}

#[test]
fn accesses_of_every_format_order_and_mask_mean_the_same() {
    for (format, file, size) in FORMATS {
        for stride in [0, size.next_multiple_of(8), 128] {
            for mask in MASKS {
                for (load, store) in
                    [("load", "store"), ("load_shared", "store_shared"), ("load_scratch", "store_scratch")]
                {
                    let end = compare(&program(load, store, (format, file, mask), stride), BASE);
                    assert_eq!(end, Outcome::Done, "{load} {format} {stride} {mask:#x}");
                }
            }
        }
    }
}

#[test]
fn words_that_follow_one_another_without_a_gap_mean_the_same() {
    for mask in MASKS {
        for (load, store) in [("load", "store"), ("load_shared", "store_shared")] {
            for block in [BASE, BASE + PAGE - 64, BASE + PAGE - 100] {
                assert_eq!(compare(&program(load, store, ("w1", "w", mask), 4), block), Outcome::Done);
            }
        }
    }
}

#[test]
fn an_access_faults_at_the_first_lane_that_may_not_make_it_and_changes_nothing() {
    // From the 17th lane on the store goes to a page that may only be read.
    for (format, file, stride) in [("w1", "w", 64), ("d1", "d", 64), ("w1", "w", 8), ("w2", "w", 8)] {
        let block = BASE + 2 * PAGE - 16 * u64::from(stride) - 32;
        let end = compare(&program("load", "store", (format, file, u32::MAX), stride), block);
        let Outcome::Fault(fault) = end else { panic!("{end:?}") };
        assert!(matches!(fault.cause, Cause::Memory(_)) && fault.lane == 16, "{fault:?}");
    }
    let outside = program("load_shared", "store_shared", ("w1", "w", u32::MAX), 256);
    let Outcome::Fault(fault) = compare(&outside.replace(".shared 8192", ".shared 7944"), BASE) else { panic!() };
    assert!(matches!(fault.cause, Cause::SharedRange(_)), "{fault:?}");
    let Outcome::Fault(fault) = compare(&program("load", "store", ("w1", "w", 0xff00), 8), BASE + 2) else { panic!() };
    assert!(matches!(fault.cause, Cause::Misaligned(_)) && fault.lane == 8, "{fault:?}");
}

/// A program whose lanes go over two pages, `stride` bytes apart, several times: loads and stores alternate, lanes that take other pages than before, and a part of the lanes.
fn again(stride: u32, then: &str) -> String {
    format!(
        ".workgroup 32, 1, 1\narguments d0\nsystem.lane_id w0\nindex d1, d0, w0, {stride}\nxor.i32 w1, w0, 31\nindex d2, d0, w1, {stride}
        load.w1 w2, [d1]\nload.w1 w3, [d1 + 4]\nstore.w1 [d1 + 8], w2\nstore.w1 [d1 + 12], w3\nload.w1 w4, [d1 + 8]\nload.w1 w5, [d2 + 4]
        store.w1 [d2 + 16], w5\nload.w2 w6, [d1 + 16]\ncmp.i32.gt_u p0, w0, 11\nif p0\nload.w1 w8, [d1 + 12]\nstore.w1 [d2 + 20], w8\nload.w1 w9, [d2 + 20]\nend_if
        load.w1 w10, [d1 + 24]\n{then}\nstore.w1 [d1 + 28], w10\nexit"
    )
}

#[test]
fn lanes_that_use_the_pages_of_their_last_access_again_mean_the_same() {
    for stride in [136, 160, 192, 216] {
        assert_eq!(compare(&again(stride, ""), BASE), Outcome::Done);
        assert_eq!(compare(&again(stride, ""), BASE + 64), Outcome::Done);
    }
    // The pages of a load are not those of a store: the last ones may only be read. And an address may be misaligned, or leave the pages.
    for (then, block) in [
        ("store.w1 [d1 + 8], w10", BASE + 2 * PAGE - 16 * 160),
        ("load.w1 w10, [d1 + 26]", BASE),
        ("add.i64 d1, d1, 2\nload.w1 w10, [d1]", BASE),
        ("index d1, d0, w0, 1024\nload.w1 w10, [d1]", BASE),
    ] {
        let Outcome::Fault(_) = compare(&again(160, then), block) else { panic!("{then}") };
    }
}

#[test]
fn an_access_of_a_single_lane_that_may_not_be_made_means_the_same() {
    // Addresses whose low half is zero, that are misaligned, in no page, and in one that may only be read.
    for address in [0xffff_0000_0000_0000, BASE + 2, BASE + 3 * PAGE, BASE + 2 * PAGE] {
        for (access, lane) in [("load.w1 w4, [d1]", 10), ("store.w1 [d1], w4", 3)] {
            let text = format!(
                ".workgroup 32, 1, 1\nsystem.lane_id w0\nmov.i64 d1, {address}\ncmp.i32.eq p0, w0, {lane}\nif p0\n{access}\nend_if\nexit"
            );
            let end = compare(&text, BASE);
            let reads = address == BASE + 2 * PAGE && access.starts_with("load");
            match end {
                Outcome::Done => assert!(reads, "{text}"),
                Outcome::Fault(fault) => assert_eq!((fault.lane, reads), (lane, false), "{text}"),
                Outcome::Paused => panic!("{text}"),
            }
        }
    }
}
