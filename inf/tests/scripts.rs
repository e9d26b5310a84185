//! The PowerShell scripts of the package: they are PowerShell, change nothing under `-WhatIf`, and name what the package holds.

use std::fs;
use std::path::Path;

use campanile_inf::package::{SCRIPTS, hardware_ids};
use tree_sitter::{Node, Parser, Tree};

fn read(script: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(script)).expect("the script is there")
}

fn parse(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).expect("the grammar fits the parser");
    parser.parse(text, None).expect("no time limit is set")
}

/// Every node of the tree.
fn nodes<'a>(node: Node<'a>, found: &mut Vec<Node<'a>>) {
    found.push(node);
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        nodes(child, found);
    }
}

fn faults(text: &str) -> Vec<String> {
    let tree = parse(text);
    let mut all = Vec::new();
    nodes(tree.root_node(), &mut all);
    let broken = all.into_iter().filter(|node| node.is_error() || node.is_missing());
    broken.map(|node| format!("line {}: {}", node.start_position().row + 1, node.kind())).collect()
}

#[test]
fn each_script_is_powershell() {
    for script in SCRIPTS {
        assert_eq!(faults(&read(script)), Vec::<String>::new(), "{script}");
    }
    // The control: the same script with a brace too few is not.
    let text = read("install.ps1");
    let at = text.rfind('}').expect("it has blocks");
    assert_ne!(faults(&text[..at]), Vec::<String>::new());
}

/// Commands that change the machine.
const CHANGES: [&str; 4] =
    ["Import-Certificate", "Remove-Item", "pnputil.exe /add-driver", "pnputil.exe /delete-driver"];

/// Commands of `text` that change the machine although nobody asked whether they should: those outside a block that `ShouldProcess` opens.
fn unasked(text: &str) -> Vec<String> {
    let tree = parse(text);
    let mut all = Vec::new();
    nodes(tree.root_node(), &mut all);
    let source = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default().to_owned();
    let commands = all.into_iter().filter(|node| node.kind() == "command");
    let changing = commands.filter(|node| CHANGES.iter().any(|change| source(*node).contains(change)));
    let asked = |mut node: Node<'_>| {
        while let Some(parent) = node.parent() {
            if parent.kind() == "if_statement"
                && source(parent).lines().next().is_some_and(|first| first.contains("ShouldProcess"))
            {
                return true;
            }
            node = parent;
        }
        false
    };
    changing.filter(|node| !asked(*node)).map(source).collect()
}

#[test]
fn nothing_is_changed_that_whatif_does_not_prevent() {
    let mut changes = 0;
    for script in SCRIPTS {
        let text = read(script);
        let found = CHANGES.iter().filter(|change| text.contains(*change)).count();
        changes += found;
        assert_eq!(unasked(&text), Vec::<String>::new(), "{script}");
        if found > 0 {
            assert!(text.contains("[CmdletBinding(SupportsShouldProcess"), "{script} knows no -WhatIf");
        }
    }
    assert_eq!(changes, CHANGES.len(), "a change that no script makes");
    // The control: without the question the same command is found.
    let text =
        read("install.ps1").replace("if ($PSCmdlet.ShouldProcess($inf, 'pnputil /add-driver /install'))", "if ($true)");
    assert_eq!(unasked(&text).len(), 1);
}

#[test]
fn the_scripts_name_the_device_and_files_of_the_package() {
    let [_, id] = hardware_ids();
    assert!(read("verify.ps1").contains(&format!("'{id}*'")));
    for (script, names) in [
        ("install.ps1", &["campanile.inf", "*.cer", "26100", "testsigning"][..]),
        ("uninstall.ps1", &["campanile.inf", "*.cer"]),
        ("verify.ps1", &["campanile_kmd.sys", "campanile_umd.dll", "campanile_kmd"]),
    ] {
        for name in names {
            assert!(read(script).contains(name), "{script} does not name {name}");
        }
    }
}
