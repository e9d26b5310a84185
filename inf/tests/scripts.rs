//! The PowerShell scripts of the package: they are PowerShell, change nothing under `-WhatIf`, and name what the package holds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use campanile_inf::package::{IMAGES, MANIFEST, SCRIPTS, hardware_ids, names};
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
const CHANGES: [&str; 8] = [
    "Import-Certificate",
    // Of certificates, and of values of the registry.
    "Remove-Item",
    "Remove-ItemProperty",
    "New-Item -Path $drivers",
    "New-ItemProperty",
    "pnputil.exe /add-driver",
    "pnputil.exe /delete-driver",
    "pnputil.exe /restart-device",
];

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
    let mut changes = BTreeSet::new();
    for script in SCRIPTS {
        let text = read(script);
        let found: Vec<&str> = CHANGES.into_iter().filter(|change| text.contains(change)).collect();
        assert_eq!(unasked(&text), Vec::<String>::new(), "{script}");
        let asks = text.contains("[CmdletBinding(SupportsShouldProcess");
        assert!(found.is_empty() || asks, "{script} knows no -WhatIf");
        changes.extend(found);
    }
    assert_eq!(changes, CHANGES.into(), "a change that no script makes");
    // The control: without the question the same command is found.
    let text =
        read("install.ps1").replace("if ($PSCmdlet.ShouldProcess($inf, 'pnputil /add-driver /install'))", "if ($true)");
    assert_eq!(unasked(&text).len(), 1);
}

/// Where the Vulkan loader looks for drivers that no display adapter names. [Vulkan-Loader: LoaderDriverInterface, driver discovery on Windows]
const VULKAN_DRIVERS: &str = r"HKLM:\SOFTWARE\Khronos\Vulkan\Drivers";

#[test]
fn the_scripts_name_the_device_and_files_of_the_package() {
    let [_, id] = hardware_ids();
    assert!(read("verify.ps1").contains(&format!("$hardwareId = '{id}'")));
    for (script, names) in [
        ("install.ps1", &["campanile.inf", "*.cer", "26100", "testsigning", VULKAN_DRIVERS, MANIFEST][..]),
        ("uninstall.ps1", &["campanile.inf", "*.cer", VULKAN_DRIVERS, MANIFEST]),
        (
            "verify.ps1",
            &[
                IMAGES[0],
                IMAGES[1],
                IMAGES[2],
                "campanile.cat",
                "campanile.inf",
                "campanile_kmd",
                "hlk.exe",
                VULKAN_DRIVERS,
                MANIFEST,
            ],
        ),
    ] {
        for name in names {
            assert!(read(script).contains(name), "{script} does not name {name}");
        }
    }
}

/// Files that verify.ps1 looks for in its folder, each by its name.
fn beside(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || "._".contains(c)));
    words
        .filter(|word| [".sys", ".dll", ".cat", ".inf"].iter().any(|end| word.ends_with(end)) || *word == "hlk.exe")
        .collect()
}

#[test]
fn each_file_that_verify_looks_for_is_in_the_package() {
    // A dot of a pattern is escaped.
    let text = read("verify.ps1").replace("\\.", ".");
    let files = beside(&text);
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        assert!(names().contains(file), "{file} is not in the package");
    }
    let joined = text.matches("Join-Path $PSScriptRoot ").count();
    let known = ["'hlk.exe'", "'campanile_kmd.sys'", "$image"];
    assert_eq!(joined, known.map(|name| text.matches(&format!("Join-Path $PSScriptRoot {name}")).count()).iter().sum());
}

#[test]
fn verify_records_the_provider_of_the_driver_with_all_its_keywords() {
    use campanile_hw::trace::{Component, KEYWORD_REFUSAL, KEYWORD_WORK, PROVIDER_GUID};
    let (a, b, c, d) = PROVIDER_GUID;
    let tail: String = d.iter().map(|byte| format!("{byte:02x}")).collect();
    let guid = format!("{{{a:08x}-{b:04x}-{c:04x}-{}-{}}}", &tail[..4], &tail[4..]);
    let components = Component::ALL.into_iter().skip(1).fold(0, |bits, component| bits | component.keyword());
    let text = read("verify.ps1");
    assert!(text.contains(&format!("$provider = '{guid}'")), "{guid}");
    // The only other one is the graphics kernel's.
    let guids: Vec<&str> = text.split('\'').filter(|part| part.starts_with('{') && part.len() == 38).collect();
    assert_eq!(guids, [guid.as_str(), "{802ec45a-1e99-4b83-9920-87c98277ba9d}"]);
    assert!(text.contains(&format!("$keywords = '{:#x}'", components | KEYWORD_REFUSAL | KEYWORD_WORK)));
}

/// Steps of verify.ps1: each is one that may break off while the others are made.
#[test]
fn each_step_of_verify_goes_through_the_function_that_survives_it() {
    let text = read("verify.ps1");
    let steps = text.lines().filter_map(|line| line.trim().strip_prefix("Invoke-Step '")?.split('\'').next());
    let steps: Vec<&str> = steps.collect();
    for step in ["signatures of this package", "device", "setupapi.dev.log", "adapter, features and nodes"] {
        assert!(steps.contains(&step), "{step}: {steps:?}");
    }
    assert!(steps.iter().any(|step| step.contains("trace of the driver")), "{steps:?}");
    // Every claim has four parts, the last of which says what to do.
    let tree = parse(&text);
    let mut all = Vec::new();
    nodes(tree.root_node(), &mut all);
    let claims =
        all.iter().filter(|node| node.kind() == "command" && text[node.byte_range()].starts_with("Test-Claim "));
    let mut count = 0;
    for claim in claims {
        let elements = (0..claim.named_child_count() as u32).filter_map(|at| claim.named_child(at));
        let parts: usize = elements
            .filter(|node| node.kind() == "command_elements")
            .map(|node| {
                (0..node.named_child_count() as u32)
                    .filter(|at| node.named_child(*at).is_some_and(|child| child.kind() != "command_argument_sep"))
                    .count()
            })
            .sum();
        assert_eq!(parts, 4, "line {}: {}", claim.start_position().row + 1, &text[claim.byte_range()]);
        count += 1;
    }
    assert!(count >= 15, "{count} claims");
}

/// The trace of a restart has an event by which control request the driver was registered, and the report tells it, whichever of the two it is and
/// however the number is written.
#[test]
fn verify_tells_by_which_control_request_the_driver_was_registered() {
    let text = read("verify.ps1");
    assert!(campanile_hw::trace::event::EVENTS.iter().any(|event| event.name == "RegisteredBy"));
    assert!(text.contains("-match 'RegisteredBy'") && text.contains("'registered-by.txt'"));
    // The driver asks with the newer request first and with the older one if the system refuses it.
    for (request, system) in [(0x23_0047, "of Windows 8 and later"), (0x23_003f, "of Windows 7")] {
        let line =
            format!("if ($registered -match '0x{request:X}|{request}') {{ $answered = '0x{request:X}, {system}' }}");
        assert!(text.contains(&line), "{line}");
    }
}

/// The kit's DxgkInitialize does not tell its control request, and the driver says so with the number 0.
#[test]
fn verify_knows_a_driver_that_the_kit_registered() {
    let text = read("verify.ps1");
    assert!(text.contains(r#"if ($registered -match 'Name="request">\s*(0x0+|0)\s*<')"#));
    let event =
        campanile_hw::trace::event::EVENTS.iter().find(|event| event.name == "RegisteredBy").expect("the event");
    assert!(event.fields.iter().any(|field| field.name == "request"));
}

/// One run says what happened: a device that did not start is restarted with the trace, which needs rights, and nothing else is.
#[test]
fn verify_restarts_a_device_that_did_not_start_without_being_asked() {
    let text = read("verify.ps1");
    let (before, rest) =
        text.split_once("-in 10, 31, 37, 43 -and -not $Restart -and -not $Quick) {").expect("the condition");
    assert!(before.ends_with("if ($script:problem "));
    let (consequence, _) = rest.split_once("if ($Quick)").expect("the cases");
    assert!(consequence.contains("if ($elevated) {") && consequence.contains("$Restart = $true"));
    assert!(consequence.contains("else { Write-Unmade"));
    let device = before.find("Invoke-Step 'device' { Test-Device").expect("the first look at the device");
    assert!(before.find("$script:problem = $code").is_some_and(|at| at < device));
}

/// A restart may mend or break what was found before it, and what Windows was started with is not what it will be started with.
#[test]
fn verify_looks_again_behind_a_restart_and_at_the_start_that_windows_had() {
    let text = read("verify.ps1");
    let steps: Vec<&str> = text.lines().filter(|line| line.contains("Invoke-Step '")).collect();
    for (function, of) in [("Test-Device", "device"), ("Test-Adapter", "adapter")] {
        let calls = text.matches(&format!("{function} '")).count();
        assert_eq!(calls, 2, "{function} is called before and behind a restart");
        assert_eq!(steps.iter().filter(|step| step.contains(&format!("Invoke-Step '{of}"))).count(), 2, "{steps:?}");
    }
    let restarted = text.split_once("if ($Restart -and -not $Quick) {").expect("what a restart leads to").1;
    assert!(
        restarted.contains("Test-Device 'device-restarted.txt'")
            && restarted.contains("Test-Adapter 'adapter-restarted'")
    );
    assert!(text.contains("SystemStartOptions") && text.contains("-match 'TESTSIGNING'"));
}

/// Every status with which verify.ps1 ends is one that its help lists.
#[test]
fn the_help_of_verify_lists_its_parameters_and_exit_codes() {
    let text = read("verify.ps1");
    let (help, rest) = text.split_once("#>").expect("the help ends");
    for (line, about) in
        [("exit 1", "1 something does not"), ("exit 2", "2 the command line"), ("exit 3", "3 nothing failed")]
    {
        assert!(rest.contains(line) && help.contains(about), "{line}");
    }
    for parameter in ["Report", "Quick", "Restart"] {
        assert!(
            help.contains(&format!(".PARAMETER {parameter}")) && rest.contains(&format!("] ${parameter}")),
            "{parameter}"
        );
    }
    assert!(rest.contains("'-h', '--help', '/?'"));
}

/// Windows PowerShell 5.1 takes a script without a mark for text of the system's own code page, and lacks what came later.
#[test]
fn the_scripts_are_for_windows_powershell() {
    for script in SCRIPTS {
        let text = read(script);
        assert!(text.is_ascii(), "{script} has a letter that is not ASCII");
        for later in ["??", "&&", "||", "?.", "-Parallel", "ConvertFrom-Json -AsHashtable"] {
            assert!(!text.contains(later), "{script} has {later}");
        }
    }
}

/// Commands of Windows PowerShell 5.1 and of its modules for certificates, drivers and events that the scripts call.
const CMDLETS: [&str; 37] = [
    "Add-Content",
    "Compress-Archive",
    "ForEach-Object",
    "Format-List",
    "Format-Table",
    "Get-AuthenticodeSignature",
    "Get-ChildItem",
    "Get-CimInstance",
    "Get-Content",
    "Get-Date",
    "Get-Help",
    "Get-Item",
    "Get-ItemProperty",
    "Get-ItemPropertyValue",
    "Get-PnpDevice",
    "Get-PnpDeviceProperty",
    "Get-WinEvent",
    "Get-WindowsDriver",
    "Import-Certificate",
    "Join-Path",
    "New-Item",
    "New-ItemProperty",
    "New-Object",
    "Out-Null",
    "Out-String",
    "Remove-Item",
    "Remove-ItemProperty",
    "Select-Object",
    "Set-Content",
    "Set-StrictMode",
    "Sort-Object",
    "Split-Path",
    "Start-Sleep",
    "Test-Path",
    "Where-Object",
    "Write-Output",
    "Write-Warning",
];
/// Programs of Windows that they start.
const PROGRAMS: [&str; 4] = ["bcdedit.exe", "logman.exe", "pnputil.exe", "tracerpt.exe"];
/// Variables that PowerShell has.
const AUTOMATIC: [&str; 11] = [
    "_",
    "ErrorActionPreference",
    "false",
    "LASTEXITCODE",
    "null",
    "PSCmdlet",
    "PSCommandPath",
    "PSScriptRoot",
    "PSVersionTable",
    "true",
    "WhatIfPreference",
];

/// Texts of all nodes of a kind.
fn texts<'a>(text: &'a str, tree: &Tree, kind: &str) -> Vec<&'a str> {
    let mut all = Vec::new();
    nodes(tree.root_node(), &mut all);
    all.into_iter().filter(|node| node.kind() == kind).map(|node| &text[node.byte_range()]).collect()
}

/// Commands and variables of a script that neither PowerShell nor the script has.
fn strangers(text: &str) -> Vec<&str> {
    let tree = parse(text);
    let functions: BTreeSet<&str> = texts(text, &tree, "function_name").into_iter().collect();
    let commands = texts(text, &tree, "command_name")
        .into_iter()
        .filter(|command| !CMDLETS.contains(command) && !PROGRAMS.contains(command) && !functions.contains(command));
    let variables = texts(text, &tree, "variable").into_iter().filter(|variable| {
        let name = variable.trim_start_matches('$').trim_matches(['{', '}']);
        let name = name.strip_prefix("script:").unwrap_or(name);
        let has = |before: &str, after: &str| text.contains(&format!("{before}{name}{after}"));
        let assigned = [" = ", " += ", "++", " in "].iter().any(|after| has("$", after) || has("$script:", after));
        let environment = ["env:USERPROFILE", "env:windir"].contains(&name);
        !(assigned || environment || has("] $", "") || AUTOMATIC.contains(&name))
    });
    commands.chain(variables).collect()
}

/// A command or a variable that does not exist shows only when its line is reached, which here nobody can do.
#[test]
fn every_command_and_every_variable_exists() {
    for script in SCRIPTS {
        assert_eq!(strangers(&read(script)), Vec::<&str>::new(), "{script}");
    }
    let all = SCRIPTS.map(read).concat();
    let unused: Vec<&&str> = CMDLETS.iter().chain(&PROGRAMS).filter(|known| !all.contains(**known)).collect();
    assert!(unused.is_empty(), "{unused:?} are called by no script");
    // The control: a letter too few in either is found.
    let text = read("verify.ps1");
    let broken =
        text.replace("Write-Unmade 'the trace'", "Write-Unmad 'the trace'").replace("stop $session", "stop $sessio");
    assert_eq!(strangers(&broken), ["Write-Unmad", "$sessio"]);
}
