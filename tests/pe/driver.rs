//! The driver's code: how deep its frames are, which instructions it uses, and what its sections call.

use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};
use object::{Object, ObjectSection};

use crate::code::{Function, Target};
use crate::image::{DLL, DRIVER, EXECUTE, IMAGES, MEMORY_FUNCTIONS, built, imports, parse, sections};
use crate::unwind;

/// Largest stack frame in bytes, exclusive: the kernel stack is 24 KiB and the graphics kernel's own frames lie above. The DLL has
/// no code that would touch the pages of a larger one.
const FRAME_LIMIT: u32 = 4096;

/// Functions of the driver with unwind information, decoded.
fn functions<'f>(file: &'f PeFile64<'_>) -> impl Iterator<Item = (unwind::Frame, Function)> + 'f {
    unwind::frames(file).into_iter().map(|frame| {
        let bytes = &unwind::at(file, frame.rva)[..(frame.end - frame.rva) as usize];
        let function = Function::new(bytes, frame.rva);
        (frame, function)
    })
}

/// First and last-but-one RVA of a section.
fn range_of(file: &PeFile64<'_>, name: &str) -> std::ops::Range<u32> {
    let section = file.section_by_name(name).unwrap_or_else(|| panic!("no section {name}"));
    let start = (section.address() - file.relative_address_base()) as u32;
    start..start + section.size() as u32
}

#[test]
fn the_entry_point_goes_away_after_initialisation_and_nothing_else_calls_into_there() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let init = range_of(&file, "INIT");
    assert!(init.contains(&file.nt_headers().optional_header().address_of_entry_point()));
    for (frame, function) in functions(&file).filter(|(frame, _)| !init.contains(&frame.rva)) {
        let into = |target: &Target| matches!(target, Target::Code(rva) if init.contains(rva));
        let calls = function.calls(frame.rva, frame.end);
        assert!(!calls.iter().any(into), "the function at RVA 0x{:x} calls into INIT", frame.rva);
    }
}

#[test]
fn pageable_code_cannot_raise_the_level_it_runs_at() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let page = range_of(&file, "PAGE");
    let imported = imports(&file);
    let memory: Vec<u32> =
        MEMORY_FUNCTIONS.iter().filter_map(|name| imported["ntoskrnl.exe"].get(*name)).copied().collect();
    let mut seen = 0;
    for (frame, function) in functions(&file).filter(|(frame, _)| page.contains(&frame.rva)) {
        seen += 1;
        for target in function.calls(frame.rva, frame.end) {
            let harmless = match target {
                // Other code of the driver comes back at the level it was called at.
                Target::Code(_) => true,
                Target::Slot(slot) => memory.contains(&slot),
                // How the driver calls the kernel: through a table.
                Target::Unknown => false,
            };
            assert!(harmless, "the function at RVA 0x{:x} calls {target:x?}", frame.rva);
        }
    }
    assert!(seen >= 3, "{seen} functions in PAGE");
}

#[test]
fn no_function_has_a_frame_of_a_page_or_more() {
    for (image, functions) in [(&DRIVER, 100), (&DLL, 50)] {
        let bytes = built(image.file);
        let file = parse(&bytes);
        let frames = unwind::frames(&file);
        assert!(frames.len() > functions, "only {} functions have unwind information", frames.len());
        let largest = frames.iter().max_by_key(|frame| frame.bytes).unwrap();
        println!("{}: {} bytes, {} functions", image.file, bytes.len(), frames.len());
        println!("largest frame: {} bytes, function at RVA 0x{:x}", largest.bytes, largest.rva);
        let deep: Vec<_> = frames.iter().filter(|frame| frame.bytes >= FRAME_LIMIT).collect();
        assert!(deep.is_empty(), "{}: frames of {FRAME_LIMIT} bytes or more: {deep:x?}", image.file);
    }
}

#[test]
fn unwind_information_and_code_agree_on_every_frame() {
    for image in IMAGES {
        let bytes = built(image.file);
        for (frame, function) in functions(&parse(&bytes)) {
            let (rva, stack) = (frame.rva, function.stack());
            assert!(
                !stack.dynamic,
                "{}: the function at RVA 0x{rva:x} takes stack by an amount of its own",
                image.file
            );
            let agrees = stack.bytes == frame.bytes || (frame.chained && stack.bytes <= frame.bytes);
            assert!(
                agrees,
                "{}: the function at RVA 0x{rva:x} moves the stack by {}, its unwind information says {}",
                image.file, stack.bytes, frame.bytes
            );
        }
    }
}

/// Code between the functions with unwind information: functions that take no stack, and filling.
fn gaps<'f>(file: &'f PeFile64<'_>) -> Vec<(u32, &'f [u8])> {
    let frames = unwind::frames(file);
    let mut gaps = Vec::new();
    for (name, _) in sections(file).into_iter().filter(|(_, flags)| flags & EXECUTE != 0) {
        let range = range_of(file, &name);
        let mut from = range.start;
        let inside = frames.iter().filter(|frame| range.contains(&frame.rva));
        for (rva, end) in inside.map(|frame| (frame.rva, frame.end)).chain([(range.end, range.end)]) {
            if rva > from {
                let bytes = &unwind::at(file, from)[..(rva - from) as usize];
                // Filling behind the function before.
                let code = bytes.iter().position(|byte| *byte != 0xcc).unwrap_or(bytes.len());
                gaps.push((from + code as u32, &bytes[code..]));
            }
            from = end;
        }
    }
    gaps
}

#[test]
fn code_without_unwind_information_takes_no_stack() {
    for image in IMAGES {
        let bytes = built(image.file);
        for (rva, code) in gaps(&parse(&bytes)) {
            let stack = Function::new(code, rva).stack();
            assert!(stack.bytes == 0 && !stack.dynamic, "{}: code at RVA 0x{rva:x}: {stack:?}", image.file);
        }
    }
}

/// Everything that the image can run, interrupt service routine included: which of it leads where is not asked.
fn surprises(file: &PeFile64<'_>) -> Vec<String> {
    let leaves = gaps(file).into_iter().map(|(rva, code)| Function::new(code, rva));
    functions(file).map(|(_, function)| function).chain(leaves).flat_map(|function| function.surprises()).collect()
}

#[test]
fn the_driver_uses_no_floating_point_and_no_trap_in_its_path() {
    let bytes = built(DRIVER.file);
    let found = surprises(&parse(&bytes));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_surprise_in_a_function_of_either_kind_is_noticed() {
    let bytes = built(DRIVER.file);
    let file = parse(&bytes);
    let leaf =
        gaps(&file).into_iter().find(|(_, code)| code.len() >= 8).expect("a function without unwind information").0;
    let framed = unwind::frames(&file).into_iter().find(|frame| frame.end - frame.rva >= 8).expect("a function").rva;
    // addsd xmm0, xmm1; nop / int3; nop / cli; nop
    for code in [&[0xf2, 0x0f, 0x58, 0xc1, 0x90][..], &[0x90, 0xcc, 0x90], &[0xfa, 0x90]] {
        for rva in [leaf, framed] {
            let at = file.section_table().pe_file_range_at(rva).expect("in a section").0 as usize;
            let mut altered = bytes.clone();
            altered[at..at + code.len()].copy_from_slice(code);
            let found = surprises(&parse(&altered));
            assert!(!found.is_empty(), "{code:x?} at RVA 0x{rva:x}");
        }
    }
}

#[test]
fn a_frame_that_its_unwind_information_hides_is_noticed() {
    let original = built(DRIVER.file);
    let file = parse(&original);
    // A function that begins with `sub rsp, imm8` takes 8 bytes more after the change.
    let begins = |frame: &unwind::Frame| unwind::at(&file, frame.rva).starts_with(&[0x48, 0x83, 0xec]);
    let frame = unwind::frames(&file).into_iter().find(begins).expect("a function that begins so");
    let at = file.section_table().pe_file_range_at(frame.rva).expect("functions are in sections").0 as usize;
    let mut bytes = original.clone();
    bytes[at + 3] += 8;
    let (frame, function) = functions(&parse(&bytes)).find(|(found, _)| found.rva == frame.rva).unwrap();
    assert_eq!(function.stack().bytes, frame.bytes + 8);
}
