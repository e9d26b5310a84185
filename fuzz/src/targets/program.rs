//! What the GPU executes: packets, programs, and what programs are made from.

use campanile_compiler::{Options, compile};
use campanile_hw::isa::Program;
use campanile_hw::packet::Packet;
use campanile_isa::{assemble, disassemble};

/// A packet is decoded or refused; decoding moves on by its length, which is inside of the bytes, and encoding gives the same bytes.
pub(crate) fn packets(data: &[u8]) {
    let mut rest = data;
    while let Ok(packet) = Packet::decode(rest) {
        let size = packet.size();
        let (bytes, behind) = rest.split_at_checked(size).expect("a packet that was decoded lies inside of the bytes");
        assert!(size >= 16 && size.is_multiple_of(16), "{packet:?} has {size} bytes");
        assert_eq!(packet.encode().get(..size), Some(bytes), "{packet:?} is encoded as it was read");
        rest = behind;
    }
}

/// A program is valid or refused by a rule; a valid one is printed as text that assembles to a valid program with the same code.
pub(crate) fn programs(data: &[u8]) {
    let Ok(program) = Program::validate(data) else { return };
    let text = disassemble(&program);
    let again =
        assemble(&text).unwrap_or_else(|error| panic!("what was disassembled is not assembled: {error}\n{text}"));
    let other =
        Program::validate(&again).unwrap_or_else(|error| panic!("what was assembled is not valid: {error:?}\n{text}"));
    assert_eq!(program.header().code, other.header().code, "{text}");
    for at in 0..program.header().code {
        assert_eq!(program.instruction(at), other.instruction(at), "instruction {at} of\n{text}");
    }
    // An entry of the table of source lines that changes nothing does not come back, by the disassembler's own words.
    let code =
        |text: &str| text.lines().filter(|line| !line.starts_with(".line")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(code(&disassemble(&other)), code(&text), "the text of the text");
}

/// Text is assembled to a valid program or refused by an error that says why.
pub(crate) fn assembly(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match assemble(text) {
        Ok(bytes) => {
            assert!(Program::validate(&bytes).is_ok(), "assembled and not valid:\n{text}");
            programs(&bytes);
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{error:?} has no text"),
    }
}

/// A module is compiled to a valid program, the same one each time, or refused by an error that says why.
pub(crate) fn spirv(data: &[u8]) {
    let words: Vec<u32> = data.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    match compile(&words, &Options::default()) {
        Ok(compiled) => {
            assert!(Program::validate(&compiled.program).is_ok(), "compiled and not valid");
            assert_eq!(
                compile(&words, &Options::default()).ok(),
                Some(compiled),
                "the same module gives the same program"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{error:?} has no text"),
    }
}
