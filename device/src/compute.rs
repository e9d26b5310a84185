//! DISPATCH: a program is fetched through the page tables of its process, checked, and run in slices.
//!
//! While a queue has the node, the progress of its dispatch is kept in it between two slices; when it leaves the node in a dispatch, that goes to its save area, and comes back from there.
//! A slice runs under the lock of the node, as any other, so a TLB invalidation is complete before the next slice executes an instruction.

use crate::compiling::Compiling;
use crate::context::Context;
use crate::memory::{Access, Span};
use crate::mmu::{Fault, Intent, Tlb};
use crate::programs::{Fetched, Programs};
use crate::save_area::SaveArea;
use crate::transfer::{Progress, SLICE_BYTES};
use crate::translations::Translations;
use crate::variant::Preemption;
use campanile_hw::event::FaultKind;
use campanile_hw::isa::{
    DispatchPosition, GRID_MAX, INSTRUCTION_SIZE, Instruction, LANES, NO_INSTRUCTION, Order, Program, SavedDispatch,
    Scope,
};
use campanile_hw::packet::{self, DISPATCH_DONE, DISPATCH_FAULTED, DispatchReport};
use campanile_hw::queue::Location;
use campanile_jit::{Compiled, Paged, Pages};
use campanile_shader::{
    BadSave, Cause, Code, Counters, Dispatch, GlobalMemory, Kernel, NoCode, Outcome, ShaderFault, saved_counters,
};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Instructions of subgroups that one slice interprets: so long a command may have to wait for the node.
const SLICE_INSTRUCTIONS: u64 = 256;
/// The same for a program that is compiled, whose instructions take a fraction of the time.
const SLICE_COMPILED: u64 = 2048;
/// Instructions of subgroups after which a program is worth compiling.
const COMPILED_AFTER: u64 = 4096;
/// Instructions of the longest program that is compiled. That takes up to a tenth of a millisecond for each, where the host has vectors of 512 bits a tenth of that.
const COMPILED_MOST: usize = 2048;
/// Compiled code, beside which an interpreted instruction counts as those that take as long.
struct InSlices<'a>(&'a Compiled);

impl<M: Paged> Code<M> for InSlices<'_> {
    fn length(&self, instruction: u32) -> u32 {
        Code::<M>::length(self.0, instruction)
    }

    fn interpreted(&self) -> u64 {
        SLICE_COMPILED / SLICE_INSTRUCTIONS
    }

    fn run(&self, state: campanile_shader::State<'_>, memory: &mut M) {
        self.0.run(state, memory);
    }
}

/// A dispatch that has begun.
#[derive(Debug)]
pub(crate) struct Running {
    program: Arc<Fetched>,
    /// GPU virtual address of the program.
    address: u64,
    /// GPU virtual address of the report, 0 for none, in the space with this root.
    report: u64,
    root: Location,
    dispatch: Dispatch,
    begun: u64,
}

impl Running {
    /// True if no workgroup is in progress.
    pub(crate) fn is_between_workgroups(&self) -> bool {
        self.dispatch.is_between_workgroups()
    }

    /// Writes the state of the dispatch to a save area.
    ///
    /// # Errors
    /// The area is too small or cannot be reached.
    pub(crate) fn save(&self, area: &SaveArea, memory: &Access<'_>) -> Result<(), Fault> {
        area.write(memory, &self.dispatch.save(&self.program.code.kernel, self.begun))
    }

    /// The place at which the dispatch stands, between two instructions.
    pub(crate) fn position(&self) -> DispatchPosition {
        let plain = DispatchPosition {
            program: self.address,
            done: self.dispatch.workgroups_done(),
            instructions: self.dispatch.counters().instructions,
            begun: self.begun,
            ..DispatchPosition::ZERO
        };
        let Some(at) = self.dispatch.position() else { return plain };
        let [workgroup_x, workgroup_y, workgroup_z] = at.workgroup;
        let code = self.program.code.kernel.code().get(at.instruction as usize).map_or([0; 16], Instruction::encode);
        let [code_low, code_high] = code.as_chunks().0.first_chunk().copied().unwrap_or_default();
        DispatchPosition {
            workgroup: 1,
            workgroup_x,
            workgroup_y,
            workgroup_z,
            subgroup: at.subgroup,
            instruction: at.instruction,
            line: self.program.line(at.instruction),
            active: at.active,
            alive: at.alive,
            code_low: u64::from_le_bytes(code_low),
            code_high: u64::from_le_bytes(code_high),
            ..plain
        }
    }
}

/// State that a queue keeps for the DISPATCH at which its command buffer has arrived.
pub(crate) struct State<'a> {
    /// The dispatch while the queue has the node.
    pub(crate) running: &'a mut Option<Box<Running>>,
    /// The workgroups that have ended and one more, 0 before the dispatch has begun; and what is left of the slice.
    pub(crate) progress: Progress<'a>,
    pub(crate) save_area: SaveArea,
    /// True if the queue is to leave the node as soon as it can.
    pub(crate) leaves: bool,
}

/// Executor and end of one slice of a dispatch.
#[derive(Clone, Copy, Debug)]
struct Manner<'a> {
    /// What compiles programs that run long, if anything does.
    compiling: Option<&'a Compiling>,
    /// True if the slice ends at the end of a workgroup.
    ends_with_workgroup: bool,
}

/// Runs a dispatch of a program for what is left of a slice, in bytes that it would move in that time, and takes its part of them.
fn run<'a, 'b>(
    program: &Fetched,
    dispatch: &mut Dispatch,
    lanes: &mut Lanes<'a, 'b>,
    manner: Manner<'_>,
    progress: &mut Progress<'_>,
) -> Outcome<Fault> {
    // An instruction of a slice that has so many counts as so many bytes.
    let mut run = |code: &dyn Code<Lanes<'a, 'b>>, slice: u64| {
        let bytes = SLICE_BYTES / slice;
        let most = (*progress.bytes / bytes).max(1);
        let mut budget = most;
        let outcome = match manner.ends_with_workgroup {
            true => dispatch.run_workgroup(&program.code.kernel, code, lanes, &mut budget),
            false => dispatch.run_with(&program.code.kernel, code, lanes, &mut budget),
        };
        let executed = most - budget;
        progress.take(executed * bytes);
        (outcome, executed)
    };
    let long = program.code.kernel.code().len() <= COMPILED_MOST
        && program.interpreted.load(Ordering::Relaxed) >= COMPILED_AFTER;
    if let Some(compiling) = manner.compiling.filter(|_| long) {
        if let Some(code) = program.code.get() {
            return run(&InSlices(code), SLICE_COMPILED).0;
        }
        compiling.ask(&program.code);
    }
    let (outcome, executed) = run(&NoCode, SLICE_INSTRUCTIONS);
    program.interpreted.fetch_add(executed, Ordering::Relaxed);
    outcome
}

/// The memory that an access of a lane resolved to, from its address on.
#[derive(Clone, Copy)]
struct Near<'b> {
    start: u64,
    run: u64,
    span: Option<Span<'b>>,
    write: bool,
}

/// Memory as the lanes of a dispatch reach it.
struct Lanes<'a, 'b> {
    tlb: &'a mut Tlb,
    known: &'a mut Translations,
    memory: &'b Access<'b>,
    root: Location,
    /// The memory of the last access; the next lane's is often behind it. It stays valid because no translation is invalidated within a slice.
    near: Option<Near<'b>>,
}

impl<'b> Lanes<'_, 'b> {
    /// The memory at an address, up to the end of its page; `None` reads as zero and drops writes, for so many bytes.
    fn reach(&mut self, va: u64, intent: Intent) -> Result<(Option<Span<'b>>, u64), Fault> {
        if let Some(Near { start, run, span, write }) = self.near
            && va.wrapping_sub(start) < run
            && (intent == Intent::Read || write && intent == Intent::Write)
        {
            let offset = va.wrapping_sub(start);
            return Ok((span.and_then(|span| span.after(offset)), run - offset));
        }
        let translation = self.tlb.translate(self.memory, self.root, va, intent)?;
        let (span, run) = match translation.location {
            None => (None, translation.run),
            Some(location) => {
                let span = self.memory.resolve(location, translation.run, intent == Intent::Write);
                let span = span.ok_or(Fault::nowhere(location, intent))?;
                if intent != Intent::Execute {
                    self.known.insert(va, location, self.memory, intent == Intent::Write);
                }
                (Some(span), span.len())
            }
        };
        if intent != Intent::Execute {
            self.near = Some(Near { start: va, run, span, write: intent == Intent::Write });
        }
        Ok((span, run))
    }

    /// The memory of all elements of an access, if it is there and contiguous: one look instead of one for each element.
    fn reach_whole(&mut self, va: u64, len: usize, intent: Intent) -> Result<Option<Span<'b>>, Fault> {
        let (span, run) = self.reach(va, intent)?;
        Ok(span.filter(|span| run.min(span.len()) >= len as u64))
    }

    /// Reads bytes of any length, for instance of a program.
    fn read(&mut self, va: u64, out: &mut [u8], intent: Intent) -> Result<(), Fault> {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = va + done as u64;
            let (span, run) = self.reach(at, intent)?;
            let count = rest.len().min(usize::try_from(run).unwrap_or(usize::MAX));
            let part = rest.get_mut(..count).unwrap_or(&mut []);
            match span {
                None => part.fill(0),
                Some(span) if span.read(part) == count => {}
                Some(_) => return Err(Fault::plain(FaultKind::BadPhysical, at)),
            }
            done += count.max(1);
        }
        Ok(())
    }
}

/// The address of an element; it does not wrap around the end of the address space.
fn element_address(address: u64, element: usize, number: usize) -> u64 {
    address.wrapping_add((element * number) as u64)
}

impl GlobalMemory for Lanes<'_, '_> {
    type Fault = Fault;

    fn load(&mut self, address: u64, element: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        let whole = self.reach_whole(address, bytes.len(), Intent::Read)?;
        for (number, piece) in bytes.chunks_mut(element.max(1)).enumerate() {
            let at = element_address(address, element, number);
            let span = match whole {
                Some(span) => span.after((element * number) as u64),
                None => self.reach(at, Intent::Read)?.0,
            };
            let value = match span {
                None => 0,
                Some(span) => span.load_value(element).ok_or(Fault::plain(FaultKind::BadPhysical, at))?,
            };
            match <&mut [u8; 4]>::try_from(&mut *piece) {
                Ok(word) => *word = (value as u32).to_le_bytes(),
                Err(_) => piece.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from),
            }
        }
        Ok(())
    }

    fn store(&mut self, address: u64, element: usize, bytes: &[u8]) -> Result<(), Fault> {
        let whole = self.reach_whole(address, bytes.len(), Intent::Write)?;
        for (number, piece) in bytes.chunks(element.max(1)).enumerate() {
            let at = element_address(address, element, number);
            let value = match <[u8; 4]>::try_from(piece) {
                Ok(word) => u64::from(u32::from_le_bytes(word)),
                Err(_) => piece.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
            };
            let span = match whole {
                Some(span) => span.after((element * number) as u64),
                None => self.reach(at, Intent::Write)?.0,
            };
            if let Some(span) = span {
                let nowhere = Fault { write: true, ..Fault::plain(FaultKind::BadPhysical, at) };
                span.store_value(element, value).ok_or(nowhere)?;
            }
        }
        Ok(())
    }

    fn atomic(&mut self, address: u64, size: usize, update: &mut dyn FnMut(u64) -> Option<u64>) -> Result<u64, Fault> {
        match self.reach(address, Intent::Write)?.0 {
            None => Ok(0),
            Some(span) => {
                let nowhere = Fault { write: true, ..Fault::plain(FaultKind::BadPhysical, address) };
                span.change_value(size, update).ok_or(nowhere)
            }
        }
    }

    fn fence(&mut self, _: Scope, order: Order) {
        match order {
            Order::Relaxed => {}
            Order::Acquire => fence(Ordering::Acquire),
            Order::Release => fence(Ordering::Release),
            Order::AcquireRelease => fence(Ordering::AcqRel),
            Order::SequentiallyConsistent => fence(Ordering::SeqCst),
        }
    }
}

impl Paged for Lanes<'_, '_> {
    fn pages(&self) -> &Pages {
        self.known.pages()
    }

    fn touch(&mut self, address: u64, write: bool) -> bool {
        let intent = if write { Intent::Write } else { Intent::Read };
        let translation = self.tlb.translate(self.memory, self.root, address, intent);
        let location = translation.ok().and_then(|translation| translation.location);
        if let Some(location) = location {
            self.known.insert(address, location, self.memory, write);
        }
        location.is_some()
    }
}

/// Fetches and checks a program.
fn fetch(programs: &mut Programs, lanes: &mut Lanes<'_, '_>, packet: &packet::Dispatch) -> Result<Arc<Fetched>, Fault> {
    let mut bytes = std::mem::take(&mut programs.spare);
    bytes.resize(packet.program_size as usize, 0);
    lanes.read(packet.program, &mut bytes, Intent::Execute)?;
    if let Some(known) = programs.find(&bytes) {
        programs.spare = bytes;
        return Ok(known);
    }
    let kernel = Program::validate(&bytes).map(|program| Kernel::new(&program)).map_err(|bad| {
        let functions = bytes.get(12..16).and_then(|raw| raw.first_chunk()).map_or(0, |raw| u32::from_le_bytes(*raw));
        let code = 64 + (u64::from(functions) * 4).next_multiple_of(INSTRUCTION_SIZE as u64);
        let offset = match bad.instruction {
            NO_INSTRUCTION => 0,
            instruction => code + u64::from(instruction) * INSTRUCTION_SIZE as u64,
        };
        Fault { rule: bad.rule as u8, ..Fault::plain(FaultKind::BadProgram, packet.program + offset) }
    })?;
    let fetched = Arc::new(Fetched::new(bytes, kernel));
    programs.remember(fetched.clone());
    Ok(fetched)
}

/// The grid of a dispatch, from the packet or from memory.
fn grid(lanes: &mut Lanes<'_, '_>, packet: &packet::Dispatch) -> Result<[u32; 3], Fault> {
    if packet.indirect == 0 {
        return Ok(packet.grid());
    }
    let mut bytes = [0; 12];
    lanes.load(packet.indirect, 4, &mut bytes)?;
    let mut grid = [0; 3];
    for (size, raw) in grid.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *size = u32::from_le_bytes(*raw);
    }
    let legal = grid.iter().all(|size| *size <= GRID_MAX);
    if legal { Ok(grid) } else { Err(Fault::plain(FaultKind::BadGrid, packet.indirect)) }
}

/// A dispatch before its first workgroup, or where it left the node.
fn begin(
    programs: &mut Programs,
    lanes: &mut Lanes<'_, '_>,
    packet: &packet::Dispatch,
    (state, context): (&State<'_>, &Context<'_>),
) -> Result<Running, Fault> {
    let program = fetch(programs, lanes, packet)?;
    let needed = match context.features.preemption {
        Preemption::Instruction => program.save_size,
        Preemption::Workgroup => SavedDispatch::SIZE as u32,
        Preemption::Dispatch | Preemption::Buffer => 0,
    };
    state.save_area.holds(needed)?;
    let (dispatch, begun) = match *state.progress.partial {
        0 => {
            // Where nobody reads it beside times that were read before, it need not be exact.
            let begun = if packet.report == 0 { context.clock.mark() } else { context.clock.now() };
            (Dispatch::new(grid(lanes, packet)?, packet.arguments), begun)
        }
        _ => resume(&program.code.kernel, lanes.memory, packet, &state.save_area)?,
    };
    Ok(Running { program, address: packet.program, report: packet.report, root: lanes.root, dispatch, begun })
}

/// A dispatch as its save area has it. The bytes need not be those that were written: they are checked whole before an instruction runs.
fn resume(
    kernel: &Kernel,
    memory: &Access<'_>,
    packet: &packet::Dispatch,
    area: &SaveArea,
) -> Result<(Dispatch, u64), Fault> {
    let bytes = area.read(memory, kernel.header().save_size())?;
    let (dispatch, begun) = Dispatch::restore(kernel, &bytes).map_err(|BadSave| area.fault(Intent::Read))?;
    let (size, arguments) = dispatch.parameters();
    let same = arguments == packet.arguments && (packet.indirect != 0 || size == packet.grid());
    if same { Ok((dispatch, begun)) } else { Err(area.fault(Intent::Read)) }
}

/// The fault of a queue for a program's fault.
fn fault_of(fault: &ShaderFault<Fault>) -> Fault {
    let of_access = |kind, address| Fault { write: fault.write, ..Fault::plain(kind, address) };
    match fault.cause {
        Cause::Memory(fault) => fault,
        Cause::Misaligned(address) => of_access(FaultKind::Misaligned, address),
        Cause::SharedRange(place) => of_access(FaultKind::WorkgroupMemory, place),
        Cause::ScratchRange(place) => of_access(FaultKind::ScratchMemory, place),
        Cause::State => Fault::plain(FaultKind::BadProgram, 0),
    }
}

/// Goes on with a DISPATCH for one slice, or begins it. True when it is done. The slice ends with the workgroup in progress if the queue is to leave the node.
pub(crate) fn dispatch(
    (tlb, known): (&mut Tlb, &mut Translations),
    programs: &mut Programs,
    root: Location,
    packet: &packet::Dispatch,
    mut state: State<'_>,
    context: &Context<'_>,
) -> Result<bool, Fault> {
    known.renew(tlb, context.memory, root);
    let mut lanes = Lanes { tlb, known, memory: context.memory, root, near: None };
    let mut fresh = None;
    let current = match state.running.as_deref_mut() {
        Some(running) => running,
        None => {
            let begun = begin(programs, &mut lanes, packet, (&state, context));
            let begun = begun.inspect_err(|fault| {
                let before = (*state.progress.partial != 0).then_some(&state.save_area);
                lanes.report_fault(packet.report, || not_run(fault, before, context));
            })?;
            state.progress.take(packet.program_size.into());
            fresh.insert(begun)
        }
    };
    let Running { program, dispatch, .. } = &mut *current;
    let ends_with_workgroup = state.leaves && context.features.preemption == Preemption::Workgroup;
    let compiling = (!context.features.interpreter).then_some(context.compiling);
    let manner = Manner { compiling, ends_with_workgroup };
    let outcome = run(program, dispatch, &mut lanes, manner, &mut state.progress);
    if state.leaves || outcome == Outcome::Paused {
        // The slice ends here, and that of a queue that is to leave the node behind its dispatch.
        state.progress.take(u64::MAX);
    }
    let ended = match outcome {
        Outcome::Paused => {
            *state.progress.partial = current.dispatch.workgroups_done() + 1;
            if let Some(running) = fresh {
                *state.running = Some(Box::new(running));
            }
            return Ok(false);
        }
        Outcome::Done => {
            let done = || DispatchReport { state: DISPATCH_DONE, ..report(current, context) };
            lanes.report(packet.report, done).map(|()| true)
        }
        Outcome::Fault(place) => {
            let fault = fault_of(&place);
            let [workgroup_x, workgroup_y, workgroup_z] = place.workgroup;
            let faulted = || DispatchReport {
                state: DISPATCH_FAULTED,
                fault: fault.kind as u16,
                write: fault.write.into(),
                instruction: place.instruction,
                line: current.program.line(place.instruction),
                lane: place.lane,
                workgroup_x,
                workgroup_y,
                workgroup_z,
                address: fault.address,
                ..report(current, context)
            };
            lanes.report_fault(packet.report, faulted);
            Err(fault)
        }
    };
    *state.running = None;
    ended
}

/// The engine is reset, and with it a dispatch ends: its report says at which lane. The report is dropped if it cannot be written.
pub(crate) fn report_reset((tlb, known): (&mut Tlb, &mut Translations), running: &Running, context: &Context<'_>) {
    known.renew(tlb, context.memory, running.root);
    let mut lanes = Lanes { tlb, known, memory: context.memory, root: running.root, near: None };
    let at = running.position();
    let next = at.active.trailing_zeros() % LANES as u32;
    let ended = || DispatchReport {
        state: DISPATCH_FAULTED,
        fault: FaultKind::Reset as u16,
        instruction: at.instruction,
        line: at.line,
        lane: at.subgroup * LANES as u32 + next,
        workgroup_x: at.workgroup_x,
        workgroup_y: at.workgroup_y,
        workgroup_z: at.workgroup_z,
        ..report(running, context)
    };
    lanes.report_fault(running.report, ended);
}

fn report(running: &Running, context: &Context<'_>) -> DispatchReport {
    counted(running.dispatch.counters(), running.begun, context)
}

fn counted(counters: &Counters, begun: u64, context: &Context<'_>) -> DispatchReport {
    let Counters { instructions, lanes, loads, stores, atomics } = *counters;
    let ended = context.clock.now();
    DispatchReport { instructions, lanes, loads, stores, atomics, begun, ended, ..DispatchReport::ZERO }
}

/// The report of a dispatch whose program or grid is not valid, so that no lane was started; or that has left its node and cannot go on, for which the area that it left its state in counts, if it still does.
fn not_run(fault: &Fault, area: Option<&SaveArea>, context: &Context<'_>) -> DispatchReport {
    let saved = area.and_then(|area| area.read(context.memory, SavedDispatch::SIZE as u32).ok());
    let known = saved.and_then(|head| saved_counters(&head).ok());
    let (counters, begun) = known.unwrap_or_else(|| (Counters::default(), context.clock.now()));
    DispatchReport {
        state: DISPATCH_FAULTED,
        fault: fault.kind as u16,
        write: fault.write.into(),
        address: fault.address,
        ..counted(&counters, begun, context)
    }
}

impl Lanes<'_, '_> {
    /// Writes the report of a fault. If the report cannot be written it is dropped, because the queue has faulted anyway.
    fn report_fault(&mut self, to: u64, report: impl FnOnce() -> DispatchReport) {
        let _ = self.report(to, report);
    }

    /// Writes a report, its first word last, if it is wanted: at 0 there is none.
    fn report(&mut self, to: u64, report: impl FnOnce() -> DispatchReport) -> Result<(), Fault> {
        if to == 0 {
            return Ok(());
        }
        let bytes = report().to_bytes();
        let (first, rest) = bytes.split_at(8);
        self.store(to + 8, 8, rest)?;
        fence(Ordering::Release);
        self.store(to, 8, first)
    }
}
