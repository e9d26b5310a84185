//! The commands `campanile asm` and `campanile disasm`: programs of the compute engine as text and as bytes.

use std::path::Path;

use campanile_hw::isa::{NO_INSTRUCTION, Program, ProgramRule};
use testbed::exit::{EXIT_INPUT, EXIT_OK};
use testbed::image_file;

use crate::print::print;

/// Most bytes of a program, as text or as bytes.
const FILE_MAX: usize = 16 << 20;

fn refused(path: &Path, error: impl std::fmt::Display) -> u8 {
    testbed::complain!("campanile: {}: {error}", path.display());
    EXIT_INPUT
}

/// Assembles a file into another one, and returns the exit code.
pub fn assemble_file(path: &Path, out: &Path) -> u8 {
    let text = match image_file::read(path, FILE_MAX) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return refused(path, error),
    };
    let bytes = match campanile_isa::assemble(&text) {
        Ok(bytes) => bytes,
        Err(error) => {
            testbed::complain!("campanile: {}:{error}", path.display());
            return EXIT_INPUT;
        }
    };
    match std::fs::write(out, bytes) {
        Ok(()) => EXIT_OK,
        Err(error) => refused(out, error),
    }
}

/// Prints a program as text, and returns the exit code.
pub fn disassemble_file(path: &Path) -> u8 {
    let bytes = match image_file::read(path, FILE_MAX) {
        Ok(bytes) => bytes,
        Err(error) => return refused(path, error),
    };
    match Program::validate(&bytes) {
        Ok(program) => {
            print(campanile_isa::disassemble(&program).trim_end());
            EXIT_OK
        }
        Err(bad) => {
            let doc = ProgramRule::ALL.iter().find(|(number, ..)| *number == bad.rule as u8);
            let doc = doc.map_or("", |(_, _, doc)| doc.trim());
            match bad.instruction {
                NO_INSTRUCTION => refused(path, format_args!("no valid program, rule {:?}: {doc}", bad.rule)),
                at => refused(path, format_args!("instruction {at} breaks the rule {:?}: {doc}", bad.rule)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_goes_to_a_file_and_a_mistake_leaves_none() {
        let folder = std::env::temp_dir().join(format!("campanile-asm-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (text, out) = (folder.join("a.asm"), folder.join("a.bin"));
        std::fs::write(&text, "mov.i32 w0, 5\nexit 1\n").expect("written");
        assert_eq!((assemble_file(&text, &out), out.exists()), (EXIT_INPUT, false));
        std::fs::write(&text, "mov.i32 w0, 5\nexit\n").expect("written");
        assert_eq!((assemble_file(&text, &out), disassemble_file(&out)), (EXIT_OK, EXIT_OK));
        assert_eq!(disassemble_file(&text), EXIT_INPUT, "text is no program");
        assert_eq!(assemble_file(&folder.join("none"), &out), EXIT_INPUT);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
