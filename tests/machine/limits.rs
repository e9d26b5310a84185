//! Limits of the host that a machine cannot do with.

use super::served::Machine;

/// 72 for each program, and 768 for the machine: docs/machine.md has what they are for.
#[test]
fn a_machine_that_may_open_too_few_descriptors_for_its_programs_says_so_and_what_to_do() {
    let machine = Machine::serve_with_descriptors(1024, "few-descriptors", &["--quiet"]);
    let (code, said) = machine.stop();
    assert_eq!(code, Some(0), "{said}");
    for part in ["the host allows it 1024 descriptors, and 64 programs need 5376", "`ulimit -n`", "--programs 3\n"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let machine = Machine::serve_with_descriptors(1024, "enough-descriptors", &["--quiet", "--programs", "3"]);
    assert_eq!(machine.stop(), (Some(0), String::new()));
}
