//! DISPATCH: programs, grids and accesses that are against the rules are named faults, and their owner alone pays.
//!
//! The operating system tells a fault of the GPU as the state of the device, with address and general error code. [d3dkmthk: D3DKMT_DEVICEPAGEFAULT_STATE] Which
//! rule was broken, where and by which lane is said by the report of the dispatch, which is the hardware's own.

use campanile_hw::event::FaultKind;
use campanile_hw::isa::{INSTRUCTION_SIZE, ProgramHeader};
use campanile_hw::packet::{self, DISPATCH_FAULTED, DispatchReport, Packet};
use campanile_hw::private::Placement;
use campanile_hw::registers::NODE_COPY;
use wddm_ddi::km::DXGK_PAGE_FAULT_FLAGS;
use wddm_ddi::kmt::*;

use super::compute_dispatch::UNTIL_TOLD;
use super::compute_lab::{Lab, assembled};
use super::fault::{NOWHERE, wait_for_error};
use crate::rig::{fill, wait_until};
use crate::{Boot, Case, Failure};

cases! { thunks "Compute", needs HardwareScheduling;
    "Compute.TruncatedProgramIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A program that is shorter or longer than its header says, by an instruction or by a byte of it, is a fault with its address; no lane runs."
        => truncated;
    "Compute.ProgramOfAnotherKindIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "What has not the magic number, the version or the zeros of a program is none."
        => bad_magic;
    "Compute.WildBranchIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A target that is not the end of its block - outside the program, into a block, into another function, backwards - is a fault with the address of the instruction, before anything runs."
        => wild_branch;
    "Compute.RecursionIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A call of the own function, of one that calls it, or of one that does not exist is a fault with the address of the call."
        => recursion;
    "Compute.WrongInstructionIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A register that the header does not announce, an operation or type that does not exist and a reserved bit are faults with the address of the instruction."
        => wrong_instruction;
    "Compute.TooLargeWorkgroupIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A workgroup of no or of too many lanes, or with too much workgroup or scratch memory, is a fault, also where the product of its sizes overflows."
        => workgroup_too_large;
    "Compute.TooLargeGridIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A grid of more than 65535 workgroups in a dimension is a bad packet, and a bad grid where it comes from memory."
        => grid_too_large;
    "Compute.BadDispatchPacketIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Misaligned addresses, addresses beyond the space, impossible sizes and two grids at once make a dispatch a bad packet; so does the copy node."
        => bad_packet;
    "Compute.ProgramOnAnUnmappedPageIsAFault" needs UserModeSubmission on Boot::Shared, "access-to-non-resident-allocation":
        "A program, or the end of one, at an address that nothing is mapped to is a page fault with that address; so are the numbers of a grid."
        => unmapped_program;
    "Compute.ProgramOnAPageWithoutExecutionIsAFault" needs UserModeSubmission on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A program at a mapping without the right to execute, or whose end reaches into one, is a page fault with the address of the first byte that may not be executed, though the GPU may read and write there; the same bytes run from a mapping with the right."
        => not_executable;
    "Compute.WildAccessNamesTheLane" needs UserModeSubmission on Boot::Shared, "access-to-non-resident-allocation":
        "A load, store or atomic operation of one lane at an unmapped address is a page fault with the exact address and kind; the report names instruction, source line, lane and workgroup."
        => wild_access;
    "Compute.StoreToReadOnlyPageFaults" needs UserModeSubmission on Boot::Shared, "d3dkmtmapgpuvirtualaddress":
        "A program loads from a mapping without the write right; its store and its atomic operation there are faults with the exact address and change no byte."
        => read_only;
    "Compute.MisalignedAccessIsAFault" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "An atomic operation, load or store at an address that is not a multiple of its element is a fault and changes no byte."
        => misaligned;
    "Compute.WorkgroupMemoryHasBounds" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Loads, stores and atomic operations that leave workgroup memory are faults, by one element, by a negative offset or by an address that wraps."
        => workgroup_memory;
    "Compute.ScratchMemoryHasBounds" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Loads and stores that leave the scratch memory of their lane are faults, also where the scratch memory of the next lane would be."
        => scratch_memory;
    "Compute.UnmappingUnderAProgramIsSafe" needs UserModeSubmission on Boot::Shared, "gpu-virtual-memory":
        "When the address that a running program writes to is freed, the program faults there, and the memory is not changed any more."
        => unmapped_under_it;
    "Compute.ReportThatCannotBeWrittenFaults" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "A dispatch whose report lies at an unmapped address faults at that address when it ends; what its lanes stored is there."
        => unmapped_report;
}

const PAGE_FAULT: D3DKMT_DEVICEEXECUTION_STATE =
    D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
/// Words of the data that packets before and behind the dispatch fill.
const BEFORE: u64 = 20_000;
const BEHIND: u64 = 20_001;

/// What the operating system has to say of a fault: the address, if it is one of the process, and whether an access was a write.
struct Told {
    kind: FaultKind,
    address: u64,
    write: bool,
}

impl Told {
    fn of(kind: FaultKind, address: u64) -> Self {
        Self { kind, address, write: false }
    }

    /// Checks what the operating system says. `GeneralErrorCode` is 0 for a page fault and 1 for an invalid instruction. [d3dkmdt: DXGK_GENERAL_ERROR_CODE]
    fn check(&self, lab: &Lab) -> Result<(), Failure> {
        let state = lab.rig.kmt.page_fault_state(lab.rig.device)?;
        let translation = matches!(self.kind, FaultKind::PageFault | FaultKind::ReadOnly | FaultKind::NoExecute);
        let code = u32::from(!translation);
        let write = state.PageFaultFlags.0 & DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_WRITE.0 != 0;
        let told = (state.FaultErrorCode.GeneralErrorCode(), state.FaultedVirtualAddress, write);
        ensure_eq!(told, (code, self.address, self.write), "error code, address, write of the device's state");
        Ok(())
    }
}

/// The device of a dispatch that has to fault, and an innocent one beside it.
struct Trial {
    lab: Lab,
    innocent: Lab,
}

const STORE_ONE: &str = "arguments d0\nmov.i32 w0, 1\nstore.w1 [d0], w0\nexit";

impl Trial {
    fn new(case: &Case) -> Result<Self, Failure> {
        let lab = Lab::new(case)?;
        let innocent = Lab::on(crate::rig::Rig::on_adapter(lab.rig.kmt, lab.rig.adapter)?)?;
        Ok(Self { lab, innocent })
    }

    /// Submits the dispatch between two packets and waits for its fault: what is before it is done, what is behind it is not, the operating system tells
    /// of it, and the innocent device computes.
    fn judge(&mut self, dispatch: packet::Dispatch, told: &Told) -> Result<DispatchReport, Failure> {
        let lab = &mut self.lab;
        let (before, behind) = (fill(lab.address(BEFORE), 4, 1), fill(lab.address(BEHIND), 4, 1));
        lab.rig.submit_doomed(&mut lab.queue, &[before, Packet::Dispatch(dispatch), behind])?;
        ensure_eq!(wait_for_error(lab.rig.kmt, lab.rig.device)?, PAGE_FAULT, "state of the device");
        told.check(lab)?;
        ensure_eq!((lab.word(BEFORE), lab.word(BEHIND)), (1, 0), "what packets before and behind the dispatch wrote");
        lab.queue.stands_at(0, "the fault")?;
        self.innocent.set_word(0, 0);
        self.innocent.run(STORE_ONE, [1, 1, 1])?;
        ensure_eq!(self.innocent.word(0), 1, "what a dispatch of another device stored");
        self.lab.report()
    }

    /// As [`Trial::judge`]; the report names the fault.
    fn judge_reported(&mut self, dispatch: packet::Dispatch, told: &Told) -> Result<DispatchReport, Failure> {
        let report = self.judge(dispatch, told)?;
        let fault = u8::try_from(report.fault).ok().and_then(FaultKind::from_number);
        ensure_eq!((report.state, fault), (DISPATCH_FAULTED, Some(told.kind)), "state and fault of the report");
        Ok(report)
    }
}

/// The fault of a program, with its bytes changed: at which instruction, `None` if it is the program as a whole.
pub(super) fn bad_program(
    case: &Case,
    what: &str,
    bytes: &[u8],
    size: usize,
    instruction: Option<u64>,
) -> Result<(), Failure> {
    let judged = || {
        let mut trial = Trial::new(case)?;
        let dispatch = packet::Dispatch { program_size: size as u32, ..trial.lab.load_bytes(bytes, [1, 1, 1]) };
        // The table of functions, filled up to 16 bytes, is between header and code: no program here has more than four.
        let offset = instruction.map_or(0, |number| place(number) as u64);
        let told = Told::of(FaultKind::BadProgram, dispatch.program + offset);
        let report = trial.judge_reported(dispatch, &told)?;
        ensure_eq!((report.lanes, report.address), (0, told.address), "lanes that ran, address in the report");
        ensure_eq!(trial.lab.word(0), 0, "what the program would have stored");
        Ok(())
    };
    judged().map_err(|failure: Failure| Failure::new(format!("{what}: {failure}")))
}

/// Offset of an instruction in a program of up to four functions.
pub(super) fn place(instruction: u64) -> usize {
    ProgramHeader::SIZE + 16 + instruction as usize * INSTRUCTION_SIZE
}

/// Bytes of a program with some of them changed.
pub(super) fn changed(program: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
    let mut bytes = program.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

fn truncated(case: &Case) -> Result<(), Failure> {
    let whole = assembled(STORE_ONE)?;
    for size in [ProgramHeader::SIZE, ProgramHeader::SIZE + 16, whole.len() - 16, whole.len() - 1] {
        bad_program(case, &format!("{size} of {} bytes", whole.len()), &whole, size, None)?;
    }
    bad_program(case, "a byte too many", &whole, whole.len() + 1, None)?;
    for code in [0_u32, 3, 5, 1 << 16, u32::MAX] {
        let bytes = changed(&whole, 8, &code.to_le_bytes());
        bad_program(case, &format!("a header of {code} instructions"), &bytes, bytes.len(), None)?;
    }
    Ok(())
}

fn bad_magic(case: &Case) -> Result<(), Failure> {
    let whole = assembled(STORE_ONE)?;
    for (what, at, to) in [
        ("another magic number", 0, 0x5550_4748_u32),
        ("version 0", 4, 0),
        ("version 2", 4, 2),
        ("a reserved byte of the header", 0x30, 1),
        ("a byte behind the table of functions", 0x44, 1),
        ("a first function that does not begin at 0", 0x40, 1),
        ("no function", 0x0c, 0),
    ] {
        let bytes = changed(&whole, at, &to.to_le_bytes());
        bad_program(case, what, &bytes, bytes.len(), None)?;
    }
    bad_program(case, "nothing but zeros", &[0; 128], 128, None)
}

fn wild_branch(case: &Case) -> Result<(), Failure> {
    // 0 arguments, 1 mov, 2 cmp, 3 if, 4 store, 5 end_if, 6 loop, 7 break_if, 8 end_loop, 9 exit; 10 ret
    let whole = assembled(
        "arguments d0\nmov.i32 w0, 1\ncmp.i32.eq p0, w0, 1\nif p0\nstore.w1 [d0], w0\nend_if\nloop\nbreak_if p0\nend_loop\nexit
        .function more\nret",
    )?;
    for (what, instruction, target, found_at) in [
        ("IF beyond the program", 3, u64::from(u32::MAX), 5),
        ("IF into its own block", 3, 4, 5),
        ("IF backwards", 3, 0, 5),
        ("IF into another function", 3, 10, 5),
        ("LOOP beyond its end", 6, 9, 8),
        ("BREAK_IF to behind the loop", 7, 9, 8),
        ("END_LOOP to another place", 8, 0, 8),
        ("a target of more than 32 bits", 3, 1 << 32 | 5, 3),
    ] {
        let bytes = changed(&whole, place(instruction) + 8, &u64::to_le_bytes(target));
        bad_program(case, what, &bytes, bytes.len(), Some(found_at))?;
    }
    Ok(())
}

fn recursion(case: &Case) -> Result<(), Failure> {
    // 0 call one, 1 exit; 2 call two, 3 ret; 4 nothing, 5 ret
    let whole =
        assembled(".function main\ncall one\nexit\n.function one\ncall two\nret\n.function two\nmov.i32 w0, 1\nret")?;
    for (what, instruction, function) in [
        ("a function that calls itself", 2, 1_u64),
        ("a function that calls its caller", 2, 0),
        ("the first function that calls itself", 0, 0),
        ("a function that does not exist", 2, 3),
        ("the greatest number of a function", 0, u64::from(u32::MAX)),
    ] {
        let bytes = changed(&whole, place(instruction) + 8, &function.to_le_bytes());
        bad_program(case, what, &bytes, bytes.len(), Some(instruction))?;
    }
    Ok(())
}

fn wrong_instruction(case: &Case) -> Result<(), Failure> {
    let whole = assembled(STORE_ONE)?;
    for (what, instruction, byte, to) in [
        ("a destination that was not announced", 1, 4, 1_u8),
        ("the last register", 1, 4, 255),
        ("an address in a double that was not announced", 2, 5, 1),
        ("a source that was not announced", 2, 7, 9),
        ("no operation", 1, 0, 0),
        ("an unknown operation", 1, 0, 0xff),
        ("an unknown type", 1, 1, 0x1f),
        ("a reserved bit", 1, 1, 0x92),
        ("an unknown format of memory", 2, 2, 10),
        ("a field that the operation does not use", 0, 6, 1),
        ("no EXIT", 3, 0, 0x0d),
    ] {
        let bytes = changed(&whole, place(instruction) + byte, &[to]);
        bad_program(case, what, &bytes, bytes.len(), Some(instruction))?;
    }
    Ok(())
}

fn workgroup_too_large(case: &Case) -> Result<(), Failure> {
    let whole = assembled(STORE_ONE)?;
    for (x, y, z) in [(1025_u32, 1, 1), (1024, 2, 1), (0, 1, 1), (1 << 16, 1 << 16, 1), (u32::MAX, u32::MAX, u32::MAX)]
    {
        let sizes: Vec<u8> = [x, y, z].iter().flat_map(|size| size.to_le_bytes()).collect();
        let bytes = changed(&whole, 0x18, &sizes);
        bad_program(case, &format!("a workgroup of {x} x {y} x {z}"), &bytes, bytes.len(), None)?;
    }
    for (what, at, size) in [
        ("too much workgroup memory", 0x24, (64 << 10) + 8_u32),
        ("workgroup memory that is no multiple of 8", 0x24, 12),
        ("too much scratch memory", 0x28, 4104),
    ] {
        let bytes = changed(&whole, at, &size.to_le_bytes());
        bad_program(case, what, &bytes, bytes.len(), None)?;
    }
    Ok(())
}

fn grid_too_large(case: &Case) -> Result<(), Failure> {
    for grid in [[65536, 1, 1], [1, 65536, 1], [0, 0, u32::MAX]] {
        let mut trial = Trial::new(case)?;
        let (dispatch, first) = (trial.lab.load(STORE_ONE, grid)?, fill(trial.lab.data.address, 4, 0).size() as u64);
        trial.judge(dispatch, &Told::of(FaultKind::BadPacket, trial.lab.queue.commands.address + first))?;
        ensure_eq!((trial.lab.word(0), trial.lab.report()?.state), (0, 0), "what {grid:?} stored and reported");

        let mut trial = Trial::new(case)?;
        let lab = &trial.lab;
        (0u64..).zip(grid).for_each(|(index, size)| lab.set_word(1000 + index, size));
        let numbers = lab.address(1000);
        let dispatch = packet::Dispatch { indirect: numbers, ..lab.load(STORE_ONE, [0; 3])? };
        let report = trial.judge_reported(dispatch, &Told::of(FaultKind::BadGrid, 0))?;
        ensure_eq!((report.lanes, report.address), (0, numbers), "lanes that ran, address in the report");
        ensure_eq!(trial.lab.word(0), 0, "what a grid of {grid:?} in memory stored");
    }
    Ok(())
}

fn bad_packet(case: &Case) -> Result<(), Failure> {
    type Change = fn(&mut packet::Dispatch);
    let changes: [(&str, Change); 8] = [
        ("a misaligned program", |dispatch| dispatch.program += 8),
        ("a program beyond the address space", |dispatch| dispatch.program = 1 << 63),
        ("a program that ends beyond the address space", |dispatch| dispatch.program = (1 << 48) - 64),
        ("a program shorter than a header", |dispatch| dispatch.program_size = 63),
        ("an endless program", |dispatch| dispatch.program_size = u32::MAX),
        ("a misaligned grid", |dispatch| (dispatch.indirect, dispatch.grid_x) = (dispatch.arguments + 2, 0)),
        ("a misaligned report", |dispatch| dispatch.report += 4),
        ("two grids", |dispatch| (dispatch.indirect, dispatch.grid_y) = (dispatch.arguments, 0)),
    ];
    for (what, change) in changes {
        let mut trial = Trial::new(case)?;
        let (mut dispatch, first) = (trial.lab.load(STORE_ONE, [1, 0, 0])?, fill(trial.lab.data.address, 4, 0));
        (dispatch.grid_y, dispatch.grid_z) = if what.contains("misaligned grid") { (0, 0) } else { (1, 0) };
        change(&mut dispatch);
        let told = Told::of(FaultKind::BadPacket, trial.lab.queue.commands.address + first.size() as u64);
        trial.judge(dispatch, &told).map_err(|failure| Failure::new(format!("{what}: {failure}")))?;
    }
    let mut trial = Trial::new(case)?;
    trial.lab.queue = trial.lab.rig.queue(NODE_COPY)?;
    let (dispatch, first) = (trial.lab.load(STORE_ONE, [1, 1, 1])?, fill(trial.lab.data.address, 4, 0).size() as u64);
    trial.judge(dispatch, &Told::of(FaultKind::BadPacket, trial.lab.queue.commands.address + first))?;
    ensure_eq!(trial.lab.word(0), 0, "what a dispatch on the copy node stored");
    Ok(())
}

/// Bytes of a program that lie on another page than the others: the header and some instructions.
const ON_THE_FIRST_PAGE: usize = 96;

fn unmapped_program(case: &Case) -> Result<(), Failure> {
    let mut trial = Trial::new(case)?;
    let dispatch = packet::Dispatch { program: NOWHERE, ..trial.lab.load(STORE_ONE, [1, 1, 1])? };
    let report = trial.judge_reported(dispatch, &Told::of(FaultKind::PageFault, NOWHERE))?;
    ensure_eq!((report.lanes, report.address), (0, NOWHERE), "lanes that ran, address in the report");

    // The header and some instructions are on a mapped page, and nothing is mapped behind it.
    let mut trial = Trial::new(case)?;
    let lab = &trial.lab;
    let memory = lab.rig.memory(4096, Placement::SystemUncached)?;
    let mut request = lab.rig.map_request(memory.handle, 4096);
    request.BaseAddress = NOWHERE;
    request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new().with_Execute(true);
    let page = lab.rig.map(request)?;
    let bytes = assembled(STORE_ONE)?;
    lab.rig.view(memory)?.write(4096 - ON_THE_FIRST_PAGE as u64, &bytes[..ON_THE_FIRST_PAGE]);
    let program = page + 4096 - ON_THE_FIRST_PAGE as u64;
    let dispatch = packet::Dispatch { program, ..lab.load_bytes(&bytes, [1, 1, 1]) };
    trial.judge_reported(dispatch, &Told::of(FaultKind::PageFault, page + 4096))?;
    ensure_eq!(trial.lab.word(0), 0, "what the program would have stored");

    let mut trial = Trial::new(case)?;
    let numbers = NOWHERE + 0x10_0040;
    let dispatch = packet::Dispatch { indirect: numbers, ..trial.lab.load(STORE_ONE, [0; 3])? };
    trial.judge_reported(dispatch, &Told::of(FaultKind::PageFault, numbers))?;
    Ok(())
}

/// Two pages with a program across their border, mapped with these protections; the address of the second one.
fn across_pages(
    lab: &Lab,
    bytes: &[u8],
    protections: [D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE; 2],
) -> Result<u64, Failure> {
    let memory = lab.rig.memory(2 * 4096, Placement::SystemUncached)?;
    lab.rig.view(memory)?.write(4096 - ON_THE_FIRST_PAGE as u64, bytes);
    let base = lab.rig.reserve(64 << 10, false)?;
    for (page, protection) in (0..).zip(protections) {
        let mut request = lab.rig.map_request(memory.handle, 4096);
        request.BaseAddress = base + page * 4096;
        request.OffsetInPages = page;
        request.Protection = protection;
        lab.rig.map(request)?;
    }
    Ok(base + 4096)
}

fn not_executable(case: &Case) -> Result<(), Failure> {
    let read = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
    let (write, execute) = (read.with_Write(true), read.with_Execute(true));
    let bytes = assembled(STORE_ONE)?;
    let allowed = [execute, execute.with_Write(true)];
    let mut lab = Lab::new(case)?;
    let program = across_pages(&lab, &bytes, allowed)? - ON_THE_FIRST_PAGE as u64;
    let dispatch = packet::Dispatch { program, ..lab.load_bytes(&bytes, [1, 1, 1]) };
    lab.execute(dispatch)?;
    ensure_eq!(lab.word(0), 1, "what the program stored from pages that may be executed");
    for (protections, behind) in [([write, execute], false), ([read, execute], false), ([execute, write], true)] {
        let mut trial = Trial::new(case)?;
        let second = across_pages(&trial.lab, &bytes, protections)?;
        let program = second - ON_THE_FIRST_PAGE as u64;
        let dispatch = packet::Dispatch { program, ..trial.lab.load_bytes(&bytes, [1, 1, 1]) };
        let told = Told::of(FaultKind::NoExecute, if behind { second } else { program });
        let report = trial.judge_reported(dispatch, &told)?;
        ensure_eq!((report.lanes, report.address), (0, told.address), "lanes that ran, address in the report");
        ensure_eq!(trial.lab.word(0), 0, "what the program would have stored");
    }
    Ok(())
}

/// Lane 37 of workgroup (2, 1, 0) accesses the address in the first double of the data.
const ONE_LANE: &str = ".workgroup 64, 1, 1
    arguments d0
    load.d1 d1, [d0]
    mov.i32 w5, 7
    system.workgroup_id_x w0\nsystem.workgroup_id_y w1\nsystem.local_index w2
    mul.i32 w1, w1, 16\nadd.i32 w0, w0, w1\nmul.i32 w0, w0, 64\nadd.i32 w0, w0, w2
    cmp.i32.eq p0, w0, 1189
    if p0
        .line 4711
        ACCESS
        .line 4712
        store.w1 [d0 + 8], w5
    end_if
    exit";

/// The report of the fault of an access of [`ONE_LANE`].
fn access(trial: &mut Trial, access: &str, address: u64, told: &Told) -> Result<DispatchReport, Failure> {
    trial.lab.set_double(0, address);
    let dispatch = trial.lab.load(&ONE_LANE.replace("ACCESS", access), [3, 2, 1])?;
    let report =
        trial.judge_reported(dispatch, told).map_err(|failure| Failure::new(format!("{access}: {failure}")))?;
    let place = [report.workgroup_x, report.workgroup_y, report.workgroup_z];
    ensure_eq!((place, report.lane), ([2, 1, 0], 37), "workgroup and lane of {access}");
    ensure_eq!((report.instruction, report.line), (12, 4711), "instruction and line of {access}");
    ensure_eq!(trial.lab.word(2), 0, "what the lane stored behind {access}");
    Ok(report)
}

fn wild_access(case: &Case) -> Result<(), Failure> {
    for (text, register, address, write) in [
        ("load.w1 w6, [d1]", NOWHERE + 0x123_4564, NOWHERE + 0x123_4564, false),
        ("load.w4 w6, [d1]", NOWHERE + 0xffc, NOWHERE + 0xffc, false),
        ("store.d1 [d1 - 8], d1", NOWHERE + 0x1_0000, NOWHERE + 0xfff8, true),
        ("store.u8 [d1], w5", NOWHERE + 0x7ff, NOWHERE + 0x7ff, true),
        ("atomic.i64.add.device.relaxed d2, [d1 + 16], d1", NOWHERE + 0x20, NOWHERE + 0x30, true),
    ] {
        let mut trial = Trial::new(case)?;
        let told = Told { write, ..Told::of(FaultKind::PageFault, address) };
        let report = access(&mut trial, text, register, &told)?;
        ensure_eq!(report.address, address, "address in the report of {text}");
    }
    Ok(())
}

fn read_only(case: &Case) -> Result<(), Failure> {
    for text in ["store.w1 [d1], w5", "atomic.i32.add.device.relaxed w6, [d1], w5"] {
        let mut trial = Trial::new(case)?;
        let memory = trial.lab.rig.memory(4096, Placement::SystemUncached)?;
        let view = trial.lab.rig.view(memory)?;
        view.fill(0x5a);
        let mut request = trial.lab.rig.map_request(memory.handle, 4096);
        request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
        let address = trial.lab.rig.map(request)? + 128;
        let told = Told { write: true, ..Told::of(FaultKind::ReadOnly, address) };
        let report = access(&mut trial, text, address, &told)?;
        ensure_eq!(report.address, address, "address in the report");
        ensure!(view.read(0, 4096).iter().all(|byte| *byte == 0x5a), "{text} changed bytes");
    }
    let mut lab = Lab::new(case)?;
    let memory = lab.rig.memory(4096, Placement::SystemUncached)?;
    lab.rig.view(memory)?.fill(0x5a);
    let mut request = lab.rig.map_request(memory.handle, 4096);
    request.Protection = D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE::new();
    lab.set_double(0, lab.rig.map(request)?);
    lab.run("arguments d0\nload.d1 d1, [d0]\nload.w1 w0, [d1]\nstore.w1 [d0 + 8], w0\nexit", [1, 1, 1])?;
    ensure_eq!(lab.word(2), 0x5a5a_5a5a, "what a program loaded from the mapping");
    Ok(())
}

fn misaligned(case: &Case) -> Result<(), Failure> {
    for (text, offset) in [
        ("atomic.i32.add.device.relaxed w6, [d1], w5", 1),
        ("atomic.i64.exchange.device.relaxed d2, [d1], d0", 4),
        ("store.w1 [d1], w5", 2),
        ("store.d2 [d1], d0", 12),
        ("load.u16 w6, [d1]", 3),
    ] {
        let mut trial = Trial::new(case)?;
        let address = trial.lab.address(100) + offset;
        let report = access(&mut trial, text, address, &Told::of(FaultKind::Misaligned, 0))?;
        ensure_eq!(report.address, address, "address in the report of {text}");
        ensure_eq!(trial.lab.words(100, 16), [0; 16], "words around the address of {text}");
    }
    Ok(())
}

/// Accesses that leave 64 bytes of memory of lane or workgroup, and the byte at which they do.
fn leave(case: &Case, directive: &str, kind: FaultKind, accesses: &[(&str, u64)]) -> Result<(), Failure> {
    for (text, byte) in accesses {
        let mut trial = Trial::new(case)?;
        let program =
            format!("{directive} 64\narguments d0\nmov.i32 w5, 7\nmov.i32 w6, 60\n{text}\nstore.w1 [d0], w5\nexit");
        let dispatch = trial.lab.load(&format!(".workgroup 33, 1, 1\n{program}"), [2, 1, 1])?;
        let judged = trial.judge_reported(dispatch, &Told::of(kind, 0));
        let report = judged.map_err(|failure| Failure::new(format!("{text}: {failure}")))?;
        ensure_eq!(
            (report.address, report.instruction, report.lane),
            (*byte, 3, 0),
            "address, instruction, lane of {text}"
        );
        ensure_eq!(trial.lab.word(0), 0, "what the program stored behind {text}");
    }
    Ok(())
}

fn workgroup_memory(case: &Case) -> Result<(), Failure> {
    leave(
        case,
        ".shared",
        FaultKind::WorkgroupMemory,
        &[
            ("store_shared.w1 [w6 + 4], w5", 64),
            ("load_shared.w2 w7, [w6]", 60),
            ("load_shared.u8 w7, [w6 + 2147483587]", 0x7fff_ffff),
            ("store_shared.w1 [w6 - 64], w5", u64::MAX - 3),
            ("atomic_shared.i32.add.workgroup.relaxed w7, [w6 + 4], w5", 64),
            ("atomic_shared.i64.load.workgroup.relaxed d1, [w6 + 4]", 64),
        ],
    )
}

fn scratch_memory(case: &Case) -> Result<(), Failure> {
    leave(
        case,
        ".scratch",
        FaultKind::ScratchMemory,
        &[
            ("store_scratch.w1 [w6 + 4], w5", 64),
            ("load_scratch.w4 w7, [w6 - 8]", 52),
            ("store_scratch.u8 [w6 - 61], w5", u64::MAX),
            ("load_scratch.w1 w7, [w6 + 1073741824]", (1 << 30) + 60),
        ],
    )
}

fn unmapped_under_it(case: &Case) -> Result<(), Failure> {
    let mut trial = Trial::new(case)?;
    let lab = &mut trial.lab;
    let memory = lab.rig.memory(4096, Placement::SystemUncached)?;
    let view = lab.rig.view(memory)?;
    view.fill(0);
    let turns = || view.read(0, 4).first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let dispatch = packet::Dispatch { arguments: memory.address, ..lab.load(UNTIL_TOLD, [1, 1, 1])? };
    lab.rig.submit(&mut lab.queue, &[Packet::Dispatch(dispatch)])?;
    wait_until("iterations of the program", || turns() > 100)?;
    let status = lab.rig.free(memory.address, 4096);
    ensure!(status.is_success(), "freeing the address failed with {status}");
    ensure_eq!(wait_for_error(lab.rig.kmt, lab.rig.device)?, PAGE_FAULT, "state of the device");
    let last = turns();
    let (report, state) = (lab.report()?, lab.rig.kmt.page_fault_state(lab.rig.device)?);
    // The loop has an addition at the address, and a load behind it.
    ensure!([0, 4].contains(&report.address.wrapping_sub(memory.address)), "the fault is at {:#x}", report.address);
    ensure_eq!(state.FaultedVirtualAddress, report.address, "address of the device's state");
    ensure_eq!((report.state, report.fault), (DISPATCH_FAULTED, FaultKind::PageFault as u16), "report");
    trial.innocent.run(STORE_ONE, [1, 1, 1])?;
    ensure_eq!((turns(), trial.innocent.word(0)), (last, 1), "turns after the fault, what another device stored");
    Ok(())
}

fn unmapped_report(case: &Case) -> Result<(), Failure> {
    let mut trial = Trial::new(case)?;
    let dispatch = packet::Dispatch { report: NOWHERE, ..trial.lab.load(STORE_ONE, [1, 1, 1])? };
    let told = Told { write: true, ..Told::of(FaultKind::PageFault, NOWHERE + 8) };
    trial.judge(dispatch, &told)?;
    ensure_eq!(trial.lab.word(0), 1, "what the program stored before its report");
    Ok(())
}
