//! Functions of somebody else that have no message interrupts, as changes of the driver in C and of its function.

use super::told_by_run;

/// The driver tells of its interrupt resource.
const TELLS: (&str, &str) = (
    "        if (resource->Type != CmResourceTypeMemory)\n            continue;\n",
    "        if (resource->Type == CmResourceTypeInterrupt)\n            \
     DbgPrintEx(DPFLTR_VIDEO_ID, DPFLTR_ERROR_LEVEL, \"interrupt resource: flags %x, share %x, level %x\\n\", resource->Flags, \
     resource->ShareDisposition, resource->u.Interrupt.Level);\n        \
     if (resource->Type != CmResourceTypeMemory)\n            continue;\n",
);

/// A function with a line, which is masked by what it sends.
pub(crate) const WITH_LINE: &[(&str, &str)] = &[
    TELLS,
    ("        self.config[0x34] = 0x40\n", "        self.config[0x3D] = 1\n        self.masked = False\n"),
    (
        "        if self.trigger is not None:\n            os.write(self.trigger, struct.pack(\"<Q\", 1))\n",
        "        self.assert_line()\n\n    def assert_line(self):\n        if self.trigger is not None and self.reports and not self.masked:\n            \
         self.masked = True\n            os.write(self.trigger, struct.pack(\"<Q\", 1))\n",
    ),
    ("int(index == MSI)", "int(index == 0)"),
    (
        "        if command == SET_IRQS:\n",
        "        if command == SET_IRQS and struct.unpack_from(\"<I\", body, 4)[0] & 16:\n            self.masked = False\n            \
         self.assert_line()\n            return b\"\", []\n        if command == SET_IRQS:\n",
    ),
];

/// An interrupt routine that claims what the function asserts and leaves that to the DPC routine.
pub(crate) const LATE: [(&str, &str); 2] = [
    (
        "static VOID dpc_routine(PVOID context)\n{\n    struct adapter *adapter = context;\n",
        "static BOOLEAN interrupt_late(PVOID context, ULONG message)\n{\n    struct adapter *adapter = context;\n    UNREFERENCED_PARAMETER(message);\n    \
         if (adapter->stopped)\n        return FALSE;\n    adapter->interface.DxgkCbQueueDpc(adapter->handle);\n    return TRUE;\n}\n\n\
         static BOOLEAN reads_reports(PVOID context)\n{\n    return interrupt_routine(context, 0);\n}\n\n\
         static VOID dpc_routine(PVOID context)\n{\n    struct adapter *adapter = context;\n    BOOLEAN any;\n    \
         adapter->interface.DxgkCbSynchronizeExecution(adapter->handle, reads_reports, context, 0, &any);\n",
    ),
    ("    data.DxgkDdiInterruptRoutine = interrupt_routine;\n", "    data.DxgkDdiInterruptRoutine = interrupt_late;\n"),
];

/// A function that never interrupts.
pub(crate) const WITHOUT_INTERRUPT: &[(&str, &str)] =
    &[TELLS, ("        self.config[0x34] = 0x40\n", ""), ("int(index == MSI)", "0")];

/// The one with messages.
pub(crate) const WITH_MESSAGES: &[(&str, &str)] = &[TELLS];

/// Functions whose configuration space contradicts itself, that keep no bit, or that do not answer, as [`super::mistakes::REFUSED`].
pub(crate) const UNUSABLE: &[(&str, &str, &str, &[&str])] = &[
    (
        "identity-of-nothing",
        "self.config, 0, TOY_VENDOR, TOY_DEVICE,",
        "self.config, 0, 0xFFFF, 0xFFFF,",
        &["no function answers configuration reads"],
    ),
    (
        "no-bus-master",
        "{0x04: 0x0406,",
        "{0x04: 0x0402,",
        &["the Command register at 0x04", "reads 0x0402 after 0x0406 was written: Bus Master Enable (bit 2)"],
    ),
    (
        "no-memory-space",
        "{0x04: 0x0406,",
        "{0x04: 0x0404,",
        &["reads 0x0404 after 0x0406 was written: Memory Space Enable (bit 1)"],
    ),
    (
        "no-messages-served",
        "int(index == MSI)",
        "0",
        &[
            "Message Control of MSI at 0x42 of configuration space reads 0x0080, which is 1 message interrupts",
            "and what serves the function has 0 (DEVICE_GET_IRQ_INFO)",
        ],
    ),
    (
        "triggers-refused",
        "        if command == SET_IRQS:\n",
        "        if command == SET_IRQS and struct.unpack_from(\"<I\", body, 16)[0]:\n            raise OSError(22, \"refused\")\n        \
         if command == SET_IRQS:\n",
        &[
            "1 message interrupts: the server refuses DEVICE_SET_IRQS of index 1 (MSI) with start 0, count 1 and flags 0x24, and expected is a success",
            "DEVICE_GET_IRQ_INFO of the index answers count 1",
        ],
    ),
    (
        "messages-not-enabled",
        "0x40: 0x10000,",
        "0x40: 0,",
        &[
            "Message Control of MSI at 0x42 of configuration space reads 0x0080 after 0x0081 was written: MSI Enable (bit 0)",
        ],
    ),
    (
        "table-in-no-bar",
        "struct.pack_into(\"<BBH\", self.config, 0x40, 5, 0, 0x80)",
        "struct.pack_into(\"<HHII\", self.config, 0x40, 0x11, 0, 0x1005, 0)",
        &[
            "the register at 0x44 of configuration space reads 0x00001005, so that the MSI-X table",
            "BAR5, which is no memory BAR of the function",
        ],
    ),
    (
        "table-beyond-its-bar",
        "struct.pack_into(\"<BBH\", self.config, 0x40, 5, 0, 0x80)",
        "struct.pack_into(\"<HHII\", self.config, 0x40, 0x11, 0, 0xFFFFF0, 0)",
        &["lies at 0xfffff0 of BAR0, which has 0x", "it must lie in a memory BAR of the function as a whole"],
    ),
    (
        "read-unanswered",
        "    def register_read(self, offset):\n",
        "    def register_read(self, offset):\n        if offset == TOY_ID:\n            __import__(\"time\").sleep(1000)\n",
        &[
            "DxgkDdiStartDevice of driver toy has not returned for 2.0 s, at IRQL 0: it waits for the function, which has not answered the read of 4 bytes at 0x0 of BAR0 for ",
            " in toy+0x",
            ", from read_register(",
            "toy.c:",
        ],
    ),
];

#[test]
fn a_function_with_a_pin_for_which_its_server_has_no_line_is_told_when_it_is_plugged_in() {
    let pin = ("        self.config[0x34] = 0x40\n", "        self.config[0x3D] = 1\n");
    let Some((code, told)) = told_by_run("without-line", &[pin, ("int(index == MSI)", "0")]) else { return };
    let plugged = "Interrupt Pin at 0x3d of configuration space reads 1 (INTA#), for which what serves the function has no line: expected is count 1 in the answer to DEVICE_GET_IRQ_INFO";
    assert!(told.contains(plugged), "{told}");
    assert_eq!(code, Some(0), "it starts and stops: {told}");
}

/// An answer that breaks the protocol ends the connection; what was asked and seen is told, not only that reads are all ones.
#[test]
fn an_answer_of_a_server_that_breaks_the_protocol_is_told_with_what_was_asked_and_seen() {
    let answers = "struct.pack(\"<HHIII\", number, command,";
    let another = "struct.pack(\"<HHIII\", number + (command == READ), command,";
    let length = ".to_bytes(8, \"little\")[:count], []";
    let shorter = ".to_bytes(8, \"little\")[:count - 1], []";
    for (name, old, new, parts) in [
        (
            "another-message-id",
            answers,
            another,
            [
                "REGION_READ of 2 bytes at offset 0x0 of region 7: ",
                "a reply with message ID ",
                "expected is a reply with message ID ",
            ],
        ),
        (
            "short-reply",
            length,
            shorter,
            ["REGION_READ of 4 bytes at offset 0x", " of region 0: ", "3 bytes of data, and expected are 4"],
        ),
    ] {
        let Some((code, told)) = told_by_run(name, &[(old, new)]) else { return };
        assert!(code.is_some_and(|code| code != 0), "{name}: {told}");
        for part in parts {
            assert!(told.contains(part), "{name}: {part:?} is not in {told}");
        }
    }
}
