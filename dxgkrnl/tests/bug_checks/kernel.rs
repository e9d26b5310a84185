//! Bug checks of the kernel itself and of its verifier, which a driver earns by the services that it calls, by its faults, and by what it leaves behind. Their tests are
//! those of the crate `nt`, beside each rule.

use std::fmt::Write as _;
use std::path::Path;

/// Code, its name, and for each violation the parameters in order, in our own words, and the mistake.
type Kernel = (u32, &'static str, &'static [([&'static str; 4], &'static str)]);

/// [debugger: bug check code reference]
const KERNEL: &[Kernel] = &[
    (
        0x1,
        "APC_INDEX_MISMATCH",
        &[(
            [
                "0",
                "0",
                "how often kernel APCs were enabled more than disabled, in 16 bits with a sign: 0xffff for one critical region that was not left",
                "0",
            ],
            "KeEnterCriticalRegion and KeLeaveCriticalRegion are not in pairs, or a function of the driver returns with a mutex that it has acquired",
        )],
    ),
    (
        0xa,
        "IRQL_NOT_LESS_OR_EQUAL",
        &[
            (["address, or 0", "IRQL", "0 or 1", "0"], "a service is called above the level that its page allows"),
            (
                ["address", "IRQL", "0 read, 1 write, 8 execute", "instruction"],
                "a service follows a bad pointer of the driver at DISPATCH_LEVEL or above",
            ),
        ],
    ),
    (
        0xc,
        "MAXIMUM_WAIT_OBJECTS_EXCEEDED",
        &[(["0", "0", "0", "0"], "KeWaitForMultipleObjects for more objects than there are wait blocks")],
    ),
    (0xf, "SPIN_LOCK_ALREADY_OWNED", &[(["spin lock", "0", "0", "0"], "a thread acquires a spin lock that it holds")]),
    (
        0x10,
        "SPIN_LOCK_NOT_OWNED",
        &[(["spin lock", "0", "0", "0"], "a thread releases a spin lock that it does not hold")],
    ),
    (
        0x18,
        "REFERENCE_BY_POINTER",
        &[(
            ["0", "EX_RUNDOWN_REF", "0", "0"],
            "run-down protection is released more often than acquired, or initialised anew without having been run down",
        )],
    ),
    (
        0x19,
        "BAD_POOL_HEADER",
        &[
            (["0xF", "address written", "0", "0"], "freed pool was written"),
            (["0x20", "address written", "block", "0"], "written before the start of a block of pool"),
            (["0x21", "block", "bytes of the block", "value"], "written behind the end of a block of pool"),
        ],
    ),
    (
        0x1e,
        "KMODE_EXCEPTION_NOT_HANDLED",
        &[(
            ["exception code", "instruction", "its parameter 0", "its parameter 1"],
            "an exception of the driver, or one that a service raises, is handled by nobody",
        )],
    ),
    (
        0x49,
        "TARGET_MDL_TOO_SMALL",
        &[(["0", "0", "0", "0"], "IoBuildPartialMdl into a list that is too small for the pages of the part")],
    ),
    (
        0x50,
        "PAGE_FAULT_IN_NONPAGED_AREA",
        &[(
            ["address", "0 read, 1 write, 8 execute", "instruction", "0"],
            "memory that is not there, or device memory that is not mapped",
        )],
    ),
    (
        0x76,
        "PROCESS_HAS_LOCKED_PAGES",
        &[(
            ["0x0", "process", "pages", "0"],
            "IoFreeMdl of a list whose pages are locked, which nobody can unlock any more",
        )],
    ),
    (
        0x7f,
        "UNEXPECTED_KERNEL_MODE_TRAP",
        &[(["0x8", "address", "instruction", "0"], "the kernel stack of 24 KiB overflows")],
    ),
    (0x93, "INVALID_KERNEL_HANDLE", &[(["handle", "1", "0", "0"], "a handle that is not open")]),
    (
        0xbe,
        "ATTEMPTED_WRITE_TO_READONLY_MEMORY",
        &[(["address", "0", "0", "0"], "memory that may only be read is written")],
    ),
    (
        0xc1,
        "SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION",
        &[
            (["block", "address written", "0", "0x23"], "with special pool: written before the start of a block"),
            (["block", "address written", "0", "0x24"], "with special pool: written behind the end of a block"),
        ],
    ),
    (
        0xc2,
        "BAD_POOL_CALLER",
        &[
            (["0xA", "block", "its tag", "the other tag"], "a block is freed with another tag than its own"),
            (["0x46", "address", "0", "0"], "MmFreeContiguousMemory of what is no such memory"),
            (["0x9B", "pool type", "bytes", "0"], "a block is asked for without a tag"),
        ],
    ),
    (
        0xc4,
        "DRIVER_VERIFIER_DETECTED_VIOLATION",
        &[
            (["0x0", "IRQL", "flags", "bytes"], "zero bytes of pool are asked for"),
            (["0x1", "IRQL", "flags", "bytes"], "paged pool is asked for above APC_LEVEL"),
            (["0x2", "IRQL", "flags", "bytes"], "pool is asked for above DISPATCH_LEVEL"),
            (["0x10", "address", "0", "0"], "what is freed is no block of pool of this driver"),
            (["0x12", "IRQL", "0", "block"], "pool is freed above DISPATCH_LEVEL"),
            (["0x13", "0", "block", "0"], "a block of pool is freed twice"),
            (["0x30", "IRQL", "IRQL asked for", "0"], "KeRaiseIrql to a lower level"),
            (["0x31", "IRQL", "IRQL asked for", "0"], "KeLowerIrql, or the release of a spin lock, to a higher level"),
            (["0x32", "IRQL", "spin lock", "0"], "KeReleaseSpinLock at another level than DISPATCH_LEVEL"),
            (["0x33", "IRQL", "fast mutex", "0"], "a fast mutex is acquired above APC_LEVEL"),
            (["0x34", "IRQL", "fast mutex", "0"], "a fast mutex is released at another level than APC_LEVEL"),
            (
                ["0x37", "IRQL", "0", "resource"],
                "an executive resource is acquired while normal kernel APCs are enabled",
            ),
            (["0x38", "IRQL", "0", "resource"], "the same, released"),
            (["0x3D", "IRQL", "0", "resource"], "an executive resource that is not aligned to 8 bytes"),
            (["0x40", "IRQL", "spin lock", "0"], "KeAcquireSpinLockAtDpcLevel, or a form of it, below DISPATCH_LEVEL"),
            (["0x41", "IRQL", "spin lock", "0"], "KeReleaseSpinLockFromDpcLevel below DISPATCH_LEVEL"),
            (["0x42", "IRQL", "spin lock", "0"], "KeAcquireSpinLock above DISPATCH_LEVEL"),
            (
                ["0x62", "name of the driver", "0", "how many"],
                "the driver is unloaded with pool, contiguous memory or handles that it has not given back; the place is where one of the blocks was asked for",
            ),
            (["0x70", "IRQL", "list", "access mode"], "MmProbeAndLockPages above DISPATCH_LEVEL"),
            (["0x78", "IRQL", "list", "0"], "MmUnlockPages above DISPATCH_LEVEL"),
            (
                ["0x7C", "list", "MdlFlags", "0"],
                "MmUnlockPages, or MmFreePagesFromMdl, of a list whose pages are not locked",
            ),
            (
                ["0x7E", "IRQL", "DISPATCH_LEVEL", "0"],
                "MmAllocatePagesForMdlEx or MmFreePagesFromMdl above DISPATCH_LEVEL",
            ),
            (
                ["0xB0", "list", "MdlFlags", "the flag that is wrong"],
                "MmProbeAndLockPages of a list whose pages are locked",
            ),
            (
                ["0xB3", "list", "MdlFlags", "the flags of which one is missing"],
                "MmMapLockedPages of a list whose pages are not locked",
            ),
            (["0xB8", "list", "MdlFlags", "0"], "IoFreeMdl, or MmFreePagesFromMdl, of a list whose pages are mapped"),
            (["0xCA", "lookaside list", "0", "0"], "a lookaside list is initialised again"),
            (["0xCB", "lookaside list", "0", "0"], "a lookaside list is deleted that is not initialised"),
            (
                ["0xCC", "lookaside list", "block", "bytes of the block"],
                "pool is freed that contains a lookaside list which is not deleted",
            ),
            (
                ["0xCD", "lookaside list", "bytes asked for", "least bytes"],
                "a lookaside list of blocks that are too small",
            ),
            (["0xD0", "resource", "0", "0"], "an executive resource is initialised again"),
            (["0xD1", "resource", "0", "0"], "an executive resource is deleted that is not initialised"),
            (
                ["0xD2", "resource", "block", "bytes of the block"],
                "pool is freed that contains an executive resource which is not deleted",
            ),
            (["0xDD", "0", "start of the image", "0"], "the driver is unloaded without EtwUnregister"),
            (["0xEA", "IRQL", "0", "push lock"], "a push lock is acquired while normal kernel APCs are enabled"),
            (["0x1000", "resource or fast mutex", "0", "0"], "a thread waits for what it has itself"),
            (
                ["0x1002", "object", "0", "0"],
                "an event, semaphore, mutex, timer, DPC, fast mutex or executive resource is used that was never initialised, or a spin lock that lies in pool which was freed; the page says it of resources that are acquired, and of the others it is ours",
            ),
            (["0x100B", "resource", "0", "0"], "an executive resource is deleted that a thread has"),
        ],
    ),
    (
        0xc7,
        "TIMER_OR_DPC_INVALID",
        &[
            (
                ["0x0", "timer", "start of the block or image", "its end"],
                "pool is freed, or the driver is unloaded, with a timer that is set",
            ),
            (["0x1", "DPC", "start of the block or image", "its end"], "the same with a DPC in the queue"),
        ],
    ),
    (
        0xc8,
        "IRQL_UNEXPECTED_VALUE",
        &[(
            ["IRQL << 16, expected IRQL << 8", "0", "0", "0"],
            "an entry point returns at another level than it was called at",
        )],
    ),
    (
        0xcc,
        "PAGE_FAULT_IN_FREED_SPECIAL_POOL",
        &[(
            ["address", "0 read, 1 write", "instruction", "0"],
            "with special pool: a service is given a pointer to a freed block",
        )],
    ),
    (
        0xcd,
        "PAGE_FAULT_BEYOND_END_OF_ALLOCATION",
        &[(
            ["address", "0 read, 1 write", "instruction", "0"],
            "with special pool: a service is given a pointer behind the end of a block",
        )],
    ),
    (
        0xce,
        "DRIVER_UNLOADED_WITHOUT_CANCELLING_PENDING_OPERATIONS",
        &[
            (
                ["routine", "0", "routine", "0"],
                "the driver is unloaded while a system thread or a work item of it runs; the place is that of its routine",
            ),
            (
                ["object", "0", "0", "0"],
                "the driver is unloaded with a lookaside list or an executive resource that is not deleted; the place is where it was initialised",
            ),
            (
                ["record", "0", "routine", "0"],
                "the driver is unloaded with a bug check callback; the place is that of its routine",
            ),
        ],
    ),
    (
        0xd1,
        "DRIVER_IRQL_NOT_LESS_OR_EQUAL",
        &[
            (
                ["address", "IRQL", "0 read, 1 write, 8 execute", "instruction"],
                "the driver accesses memory that is not there at DISPATCH_LEVEL or above",
            ),
            (["0", "IRQL", "0", "0"], "a callback is called at a level that its page does not allow"),
        ],
    ),
    (
        0xd5,
        "DRIVER_PAGE_FAULT_IN_FREED_SPECIAL_POOL",
        &[(["address", "0 read, 1 write", "instruction", "0"], "with special pool: the driver accesses a freed block")],
    ),
    (
        0xd6,
        "DRIVER_PAGE_FAULT_BEYOND_END_OF_ALLOCATION",
        &[(
            ["address", "0 read, 1 write", "instruction", "0"],
            "with special pool: the driver accesses memory behind the end of a block",
        )],
    ),
    (
        0xda,
        "SYSTEM_PTE_MISUSE",
        &[
            (
                ["0x3", "list", "address of the mapping", "address given"],
                "MmUnmapLockedPages of another address than that of the mapping",
            ),
            (["0x6", "list", "address given", "pages"], "MmUnmapLockedPages of a list that is not mapped"),
        ],
    ),
    (
        0xe3,
        "RESOURCE_NOT_OWNED",
        &[(["resource", "thread", "0", "0"], "a thread releases an executive resource that it does not have")],
    ),
    (
        0xe4,
        "WORKER_INVALID",
        &[
            (["0x0", "work item", "block", "its end"], "pool is freed that contains a work item in the queue"),
            (["0x1", "work item", "queue", "0"], "a work item in the queue is queued again"),
            (["0x2", "work item", "routine", "0"], "IoFreeWorkItem of a work item in the queue"),
        ],
    ),
    (
        0xfc,
        "ATTEMPTED_EXECUTE_OF_NOEXECUTE_MEMORY",
        &[(["address", "0", "0", "0"], "memory is executed that holds no code")],
    ),
    (
        0x113,
        "VIDEO_DXGKRNL_FATAL_ERROR",
        &[
            (
                ["0", "0", "0", "0"],
                "a rule of a DDI or of a service is broken that has no documented bug check, as by DxgkDdiBuildPagingBuffer with STATUS_SUCCESS for page-table entries that it has not written: the text names the function, the value and the rule",
            ),
            (
                ["push lock", "0", "0", "0"],
                "a push lock is acquired by the thread that holds it, or released by another one",
            ),
        ],
    ),
    (
        0x116,
        "VIDEO_TDR_FAILURE",
        &[(
            ["number of the recovery, or 0", "0", "status", "0"],
            "a recovery fails, or there were more than TdrLimitCount within TdrLimitTime; a packet is lost more often than that, a suspension is granted early more often than that to a queue that stands still, or a submission of a hardware queue is lost (docs/porting.md)",
        )],
    ),
    (
        0x139,
        "KERNEL_SECURITY_CHECK_FAILURE",
        &[(
            ["code of the fast fail, 3 for a corrupt LIST_ENTRY", "0", "0", "0"],
            "the driver executes RtlFailFast or __fastfail (INT 29h), as the list functions of wdm.h do when neighbours do not point at each other, and the checks of /GS; no handler is asked, at any IRQL",
        )],
    ),
    (
        0x1e4,
        "VIDEO_DXGKRNL_SYSMM_FATAL_ERROR",
        &[
            (["0x1", "handle", "0", "0"], "DxgkCbFreeContiguousMemory of what is not memory of the adapter"),
            (["0x6", "objects", "0", "0"], "DxgkDdiStopDevice leaves memory of DxgkCbAllocateContiguousMemory"),
        ],
    ),
];

/// The part of the page that these are.
pub(crate) fn document() -> String {
    let mut out = "\n# Bug checks of the kernel and of its verifier\n\n\
         What the services of `nt` and the callbacks of the port check, for every driver: the rules are those of their pages and of Driver Verifier, and the parameters those that \
         are\ndocumented for the bug check where they mean something here. The text behind the parameters names the service, the entry point of the driver, the value and \
         the rule; the place is\nthe instruction of the driver that called, or for what is left behind the one that began it.\n"
        .to_owned();
    for (code, name, rows) in KERNEL {
        let _ = write!(
            out,
            "\n## 0x{code:X} {name}\n\n| parameter 1 | parameter 2 | parameter 3 | parameter 4 | mistake |\n| --- | --- | --- | --- | --- |\n"
        );
        for ([first, second, third, fourth], mistake) in *rows {
            let _ = writeln!(out, "| {first} | {second} | {third} | {fourth} | {mistake} |");
        }
    }
    out
}

/// Every file of Rust in a folder and below.
fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// Names and codes of the constants of `Bugcheck`.
fn constants(text: &str) -> Vec<(&str, u32)> {
    let parse = |line: &str| u32::from_str_radix(line.trim_start_matches("0x").trim_end_matches(';'), 16).ok();
    let (_, codes) = text.split_once("\ncodes! {\n").expect("the codes");
    let (codes, _) = codes.split_once("\n}\n").expect("their end");
    let lines = codes.lines().filter_map(|line| line.trim().split_once(" = "));
    lines.filter_map(|(name, code)| Some((name, parse(code)?))).collect()
}

#[test]
fn every_bug_check_that_the_code_raises_is_in_the_page_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("nt/src/bugcheck.rs")).expect("the codes");
    let codes = constants(&text);
    assert!(codes.len() > 30, "{} constants", codes.len());
    let mut all = Vec::new();
    ["nt/src", "dxgkrnl/src"].iter().for_each(|folder| sources(&root.join(folder), &mut all));
    let page = crate::document();
    for (name, code) in &codes {
        assert!(page.contains(&format!("## 0x{code:X} {name}\n")), "0x{code:X} {name} is not in docs/bug-checks.md");
        let used = all
            .iter()
            .any(|text| text.contains(&format!("Bugcheck::{name}")) || text.contains(&format!("Self::{name}")));
        assert!(used, "{name} is raised nowhere");
    }
    // A code has a name: a literal would escape this test.
    for text in &all {
        for call in text.split("Bugcheck::new(").skip(1) {
            let first = call.trim_start().split([',', ')']).next().unwrap_or_default();
            let known = first.starts_with("Bugcheck::")
                || first.chars().all(|c| c.is_ascii_lowercase() || c == '_')
                || first.starts_with("Self::");
            assert!(known, "Bugcheck::new({first}, …");
        }
    }
    let documented = KERNEL
        .iter()
        .map(|(code, name, _)| (*name, *code))
        .chain(crate::documented::DOCUMENTED.iter().map(|(code, name, _)| (*name, *code)));
    documented.for_each(|row| assert!(codes.contains(&row), "{row:?} is no code of Bugcheck"));
}
