//! The tables of the programming manual, printed from `campanile-hw` into `docs/hardware.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::event::{Event, EventKind, FaultInfo, FaultKind};
use campanile_hw::isa::{
    AtomicOperation, BadInstruction, Comparison, DispatchPosition, FORMS, Form, LineEntry, MemoryFormat, ModifierKind,
    Operand, Order, OrderWord, ProgramHeader, ProgramRule, Reduction, SavedBlock, SavedDispatch, SavedSubgroup,
    SavedWorkgroup, Scope, SystemValue, Type, Word,
};
use campanile_hw::log::{LogEntry, LogHeader, LogKind, LogOperation, LogPosition, LogTarget};
use campanile_hw::packet::{BadPacket, DispatchReport, Header, PACKETS};
use campanile_hw::page_table::{Pte, ROOT_LEVEL, directory_bits, leaf_bits};
use campanile_hw::pci;
use campanile_hw::private::{AdapterData, AllocationData, DoorbellAnswer, DoorbellData, FenceData, HwQueueData};
use campanile_hw::queue::{
    Location, QueueDescriptor, QueueFlags, QueueRank, QueueState, QueueStateFlags, RingEntry, RingFlags,
};
use campanile_hw::registers::{Access, Caps, Command, CommandStatus, Control, REGISTERS};
use campanile_hw::scheduling_log::{ContextState, SchedulingLogEntry, SchedulingLogHeader};
use campanile_hw::{BitField, Field};

use crate::publish::publish;

/// Brings the manual's tables up to date, or with `check` fails when they are not.
pub(crate) fn manual(root: &Path, check: bool) -> Result<(), String> {
    let path = path(root);
    let old = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    publish(&path, &refreshed(&old)?, check)
}

/// Documents that tests print: of which package, by which test program.
const PRINTED: [(&str, &str, &str); 3] = [
    ("docs/ddi-table.md", "campanile_kmd", "ddi_table"),
    ("docs/bug-checks.md", "dxgkrnl", "bug_checks"),
    ("A document docs/conformance-*.md, or the list hlk/src/inside_table.rs,", "campanile", "conformance"),
];

/// Writes the documents that are tables of a crate's own, or with `check` fails when one is stale. Tests print them, so that
/// this program does not need crates that compile.
pub(crate) fn printed_by_tests(root: &Path, check: bool) -> Result<(), String> {
    PRINTED.iter().try_for_each(|(document, package, test)| printed(root, document, package, test, check))
}

fn printed(root: &Path, document: &str, package: &str, test: &str, check: bool) -> Result<(), String> {
    let mut command = std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let name = "the_document_says_what_the_table_says";
    command.current_dir(root).args(["test", "--quiet", "-p", package, "--test", test, name]);
    if !check {
        command.env("CAMPANILE_WRITE_DOCS", "1");
    }
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!("{document} is stale, or {package} does not compile:\n{}", String::from_utf8_lossy(&text)))
}

fn path(root: &Path) -> PathBuf {
    root.join("docs/hardware.md")
}

const OPEN: &str = "<!-- table: ";
const CLOSE: &str = "<!-- end -->";

/// The manual with fresh tables between its marks.
fn refreshed(text: &str) -> Result<String, String> {
    let tables = tables();
    let mut missing: BTreeSet<&str> = tables.iter().map(|(name, _)| *name).collect();
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        let after = &rest[start + OPEN.len()..];
        let (name, body) = after.split_once(" -->").ok_or("a table mark does not end")?;
        let end = body.find(CLOSE).ok_or_else(|| format!("the table {name} does not end"))?;
        let (_, table) = tables.iter().find(|(known, _)| *known == name).ok_or_else(|| format!("no table {name}"))?;
        missing.remove(name);
        let _ = write!(out, "{}{OPEN}{name} -->\n{table}{CLOSE}", &rest[..start]);
        rest = &body[end + CLOSE.len()..];
    }
    if !missing.is_empty() {
        return Err(format!("the manual has no place for {missing:?}"));
    }
    out.push_str(rest);
    Ok(out)
}

fn tables() -> Vec<(&'static str, String)> {
    let mut tables = vec![
        ("pci", function()),
        ("registers", registers()),
        ("caps", word(Caps::FIELDS)),
        ("control", word(Control::FIELDS)),
        ("location", word(Location::FIELDS)),
        ("pte", entry()),
        ("queue-descriptor", record(QueueDescriptor::FIELDS, QueueDescriptor::SIZE)),
        ("queue-flags", word(QueueFlags::FIELDS)),
        ("queue-rank", word(QueueRank::FIELDS)),
        ("queue-state", record(QueueState::FIELDS, QueueState::SIZE)),
        ("queue-state-flags", word(QueueStateFlags::FIELDS)),
        ("ring-entry", record(RingEntry::FIELDS, RingEntry::SIZE)),
        ("ring-flags", word(RingFlags::FIELDS)),
        ("doorbell", word(DoorbellValue::FIELDS)),
        ("packet-header", word(Header::FIELDS)),
        ("packets", packets()),
        ("bad-packet", numbers("rule", BadPacket::ALL)),
        ("commands", numbers("command", Command::ALL)),
        ("statuses", numbers("status", CommandStatus::ALL)),
        ("refusals", refusals()),
        ("log-target", word(LogTarget::FIELDS)),
        ("log-header", record(LogHeader::FIELDS, LogHeader::SIZE)),
        ("log-position", word(LogPosition::FIELDS)),
        ("log-entry", record(LogEntry::FIELDS, LogEntry::SIZE)),
        ("log-kinds", numbers("kind", LogKind::ALL)),
        ("log-operations", numbers("operation", LogOperation::ALL)),
        ("scheduling-log-header", record(SchedulingLogHeader::FIELDS, SchedulingLogHeader::SIZE)),
        ("scheduling-log-entry", record(SchedulingLogEntry::FIELDS, SchedulingLogEntry::SIZE)),
        ("context-states", numbers("state", ContextState::ALL)),
        ("event", record(Event::FIELDS, Event::SIZE)),
        ("event-kinds", numbers("kind", EventKind::ALL)),
        ("fault-info", word(FaultInfo::FIELDS)),
        ("fault-kinds", numbers("kind", FaultKind::ALL)),
        ("adapter-data", record(AdapterData::FIELDS, AdapterData::SIZE)),
        ("allocation-data", record(AllocationData::FIELDS, AllocationData::SIZE)),
        ("hw-queue-data", record(HwQueueData::FIELDS, HwQueueData::SIZE)),
        ("fence-data", record(FenceData::FIELDS, FenceData::SIZE)),
        ("doorbell-data", record(DoorbellData::FIELDS, DoorbellData::SIZE)),
        ("doorbell-answer", record(DoorbellAnswer::FIELDS, DoorbellAnswer::SIZE)),
    ];
    tables.extend(isa());
    tables
}

/// The tables of the instruction set.
fn isa() -> Vec<(&'static str, String)> {
    vec![
        ("dispatch-report", record(DispatchReport::FIELDS, DispatchReport::SIZE)),
        ("dispatch-position", record(DispatchPosition::FIELDS, DispatchPosition::SIZE)),
        ("saved-dispatch", record(SavedDispatch::FIELDS, SavedDispatch::SIZE)),
        ("saved-workgroup", record(SavedWorkgroup::FIELDS, SavedWorkgroup::SIZE)),
        ("saved-subgroup", record(SavedSubgroup::FIELDS, SavedSubgroup::SIZE)),
        ("saved-block", record(SavedBlock::FIELDS, SavedBlock::SIZE)),
        ("program-header", record(ProgramHeader::FIELDS, ProgramHeader::SIZE)),
        ("line-entry", record(LineEntry::FIELDS, LineEntry::SIZE)),
        ("program-rules", numbers("rule", ProgramRule::ALL)),
        ("instruction", word(Word::FIELDS)),
        ("instruction-rules", numbers("rule", BadInstruction::ALL)),
        ("operations", operations()),
        ("types", numbers("type", Type::ALL)),
        ("comparisons", numbers("comparison", Comparison::ALL)),
        ("memory-formats", numbers("format", MemoryFormat::ALL)),
        ("atomic-operations", numbers("operation", AtomicOperation::ALL)),
        ("reductions", numbers("reduction", Reduction::ALL)),
        ("system-values", numbers("value", SystemValue::ALL)),
        ("order-word", word(OrderWord::FIELDS)),
        ("scopes", numbers("scope", Scope::ALL)),
        ("orders", numbers("order", Order::ALL)),
    ]
}

fn operations() -> String {
    let mut out = String::from(
        "| number | operation | types | modifier | operands | constant half | meaning |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for form in FORMS {
        let fits = |number: u8| Type::from_number(number).is_some_and(|ty| ty != Type::None && form.types.contains(ty));
        let types: Vec<&str> =
            Type::ALL.iter().filter(|(number, ..)| fits(*number)).map(|(_, name, _)| *name).collect();
        let order = if form.ordered { "scope and order" } else { "" };
        let modifier = if form.modifier == ModifierKind::None { String::new() } else { format!("{:?}", form.modifier) };
        let modifiers: Vec<&str> = [modifier.as_str(), order].into_iter().filter(|text| !text.is_empty()).collect();
        let _ = writeln!(
            out,
            "| {:#04x} | {} | {} | {} | {} | {:?} | {} |",
            form.op as u8,
            form.name,
            types.join(", "),
            modifiers.join(", "),
            operands(form),
            form.immediate,
            cell(form.doc)
        );
    }
    out
}

/// The operands that an operation has, by field.
fn operands(form: &Form) -> String {
    let fields = ["dst", "a", "b", "c"].into_iter().zip(form.operands);
    let used = fields.filter(|(_, operand)| *operand != Operand::None);
    used.map(|(field, operand)| format!("{field}: {operand:?}")).collect::<Vec<_>>().join(", ")
}

/// Documentation as text of a table cell.
fn cell(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

fn function() -> String {
    let mut out = String::from("| property | value |\n| --- | --- |\n");
    for (name, value) in [
        (
            "vendor, device",
            format!("{:#06x}, {:#06x} (placeholders, not assigned by the PCI-SIG)", pci::VENDOR_ID, pci::DEVICE_ID),
        ),
        (
            "subsystem vendor, subsystem",
            format!(
                "{:#06x}, {:#06x}; {:#06x} on a linked board",
                pci::SUBSYSTEM_VENDOR_ID,
                pci::SUBSYSTEM_ID,
                pci::SUBSYSTEM_ID_LINKED
            ),
        ),
        ("revision", format!("{:#04x}", pci::REVISION_ID)),
        ("class code", format!("{:#08x} (processing accelerator)", pci::CLASS_CODE)),
        ("registers", format!("BAR{}, 64-bit, not prefetchable, {:#x} bytes", pci::BAR_REGISTERS, pci::REGISTERS_SIZE)),
        ("doorbell pages", format!("BAR{}, 64-bit, not prefetchable, 4 KiB each", pci::BAR_DOORBELLS)),
        ("VRAM window", format!("BAR{}, 64-bit, prefetchable", pci::BAR_VRAM)),
        (
            "MSI-X",
            format!(
                "{} vector; table at {:#x}, pending bits at {:#x} of BAR{}; vector {} announces events",
                pci::MSIX_VECTORS,
                pci::MSIX_TABLE_OFFSET,
                pci::MSIX_PBA_OFFSET,
                pci::BAR_REGISTERS,
                pci::VECTOR_EVENTS
            ),
        ),
    ] {
        let _ = writeln!(out, "| {name} | {value} |");
    }
    out
}

fn registers() -> String {
    let mut out = String::from("| offset | bytes | name | access | meaning |\n| --- | --- | --- | --- | --- |\n");
    for register in REGISTERS {
        let access = match register.access {
            Access::ReadOnly => "R",
            Access::ReadWrite => "RW",
            Access::Command => "W",
        };
        let (offset, width) = (register.offset, register.width);
        let _ = writeln!(out, "| {offset:#05x} | {width} | {} | {access} | {} |", register.name, cell(register.doc));
    }
    out
}

fn word(fields: &[BitField]) -> String {
    let mut out = String::from("| bits | name | meaning |\n| --- | --- | --- |\n");
    let mut first = 0;
    for field in fields {
        let last = first + field.width - 1;
        let bits = if first == last { format!("{first}") } else { format!("{last}:{first}") };
        let doc = if field.name == "ignored" { "Ignored; free for software.".into() } else { cell(field.doc) };
        let _ = writeln!(out, "| {bits} | {} | {doc} |", field.name.to_uppercase());
        first = last + 1;
    }
    out
}

/// Fields of a page-table entry, and in which kinds of entry each means something.
fn entry() -> String {
    let kinds = [
        ("directory", directory_bits(ROOT_LEVEL)),
        ("directory at level 1", directory_bits(1)),
        ("leaf at level 0", leaf_bits(0)),
        ("leaf above", leaf_bits(1)),
    ];
    let mut out = String::from("| bits | name | valid in | meaning |\n| --- | --- | --- | --- |\n");
    let mut first = 0;
    for (row, field) in word(Pte::FIELDS).lines().skip(2).zip(Pte::FIELDS) {
        let mut valid: Vec<&str> =
            kinds.iter().filter(|(_, bits)| bits >> first & 1 != 0).map(|(kind, _)| *kind).collect();
        if valid.contains(&"directory") {
            valid.retain(|kind| *kind != "directory at level 1");
        }
        let valid = if valid.is_empty() { "none".to_owned() } else { valid.join(", ") };
        let cells: Vec<&str> = row.trim_matches('|').splitn(3, '|').map(str::trim).collect();
        if let [bits, name, meaning] = cells.as_slice() {
            let _ = writeln!(out, "| {bits} | {name} | {valid} | {meaning} |");
        }
        first += field.width;
    }
    out
}

fn record(fields: &[Field], size: usize) -> String {
    let mut out = String::from("| offset | bytes | name | meaning |\n| --- | --- | --- | --- |\n");
    for field in fields {
        let _ = writeln!(out, "| {:#04x} | {} | {} | {} |", field.offset, field.size, field.name, cell(field.doc));
    }
    let _ = writeln!(out, "\n{size} bytes in all; what the table does not name is zero.");
    out
}

fn numbers<N: std::fmt::Display>(what: &str, all: &[(N, &str, &str)]) -> String {
    let mut out = format!("| number | {what} | meaning |\n| --- | --- | --- |\n");
    for (number, name, doc) in all {
        let _ = writeln!(out, "| {number} | {name} | {} |", cell(doc));
    }
    out
}

/// The statuses with which each command may be refused.
fn refusals() -> String {
    let name = |status: &CommandStatus| CommandStatus::ALL.iter().find(|(number, ..)| *number == *status as u32);
    let mut out = String::from("| command | refused with |\n| --- | --- |\n");
    for (number, command, _) in Command::ALL {
        let refusals = Command::from_number(*number).map_or(&[][..], Command::refusals);
        let names: Vec<&str> = refusals.iter().filter_map(name).map(|(_, name, _)| *name).collect();
        let _ = writeln!(out, "| {command} | {} |", if names.is_empty() { "never".into() } else { names.join(", ") });
    }
    out
}

fn packets() -> String {
    let mut out = String::new();
    for format in PACKETS {
        let name = format.name.to_uppercase();
        let _ =
            writeln!(out, "**{name}** (opcode {:#04x}, {} bytes). {}\n", format.opcode, format.size, cell(format.doc));
        if !format.fields.is_empty() {
            out.push_str("| offset | bytes | name | meaning |\n| --- | --- | --- | --- |\n");
            for field in format.fields {
                let (offset, size) = (field.offset, field.size);
                let _ = writeln!(out, "| {offset:#04x} | {size} | {} | {} |", field.name, cell(field.doc));
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_is_fresh() {
        manual(&crate::root(), true).expect("run `cargo xtask docs`");
    }

    #[test]
    fn a_changed_table_is_found_and_mended() {
        let text = std::fs::read_to_string(path(&crate::root())).expect("the manual");
        let stale = text.replacen("| 0x040 | 4 | CONTROL |", "| 0x044 | 4 | CONTROL |", 1);
        assert_ne!(stale, text);
        assert_eq!(refreshed(&stale).expect("the marks are well formed"), text);
    }

    #[test]
    fn a_mark_that_is_gone_or_unknown_is_found() {
        let text = std::fs::read_to_string(path(&crate::root())).expect("the manual");
        assert!(refreshed(&text.replace("table: pte -->", "table: ptes -->")).is_err());
        assert!(refreshed("# No tables\n").is_err());
        assert!(refreshed("<!-- table: pte -->\n").is_err());
    }
}
