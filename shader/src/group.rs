//! A running workgroup: what instructions do to registers and memory.

use crate::aligned::Aligned;
use crate::evaluate::{compare, convert, evaluate, reduce, reduction_start, update};
use crate::grid::{Counters, Grid, Place};
use crate::kernel::Kernel;
use crate::memory::{Cause, GlobalMemory};
use crate::subgroup::{Subgroup, lanes, zero};
use campanile_hw::isa::{
    Immediate, Instruction, LANES, MemoryFormat, Op, Operand, Order, Reduction, Scope, SystemValue,
};

/// A workgroup that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Place in the grid.
    pub(crate) id: [u32; 3],
    pub(crate) shared: Aligned<u8>,
    pub(crate) subgroups: Vec<Subgroup>,
    /// The subgroup that runs.
    pub(crate) current: usize,
}

/// Fault of a lane, and the number of the lane.
pub(crate) struct LaneFault<F> {
    pub(crate) cause: Cause<F>,
    pub(crate) lane: usize,
    /// True if the instruction needs the right to write.
    pub(crate) write: bool,
}

/// The state outside the subgroup that an instruction uses: program, grid, counters and memory.
pub(crate) struct Surroundings<'a, M> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) grid: &'a Grid,
    pub(crate) memory: &'a mut M,
    pub(crate) counters: &'a mut Counters,
}

impl<'a, M> Surroundings<'a, M> {
    /// The place of a subgroup of a workgroup.
    pub(crate) fn place(&self, workgroup: [u32; 3], subgroup: usize) -> Place<'a> {
        let subgroup = subgroup as u32;
        Place { workgroup, count: self.grid.size, subgroup, local: self.kernel.local(subgroup) }
    }
}

/// Address space of a load or store.
#[derive(Clone, Copy)]
enum Space {
    Global,
    Shared,
    Scratch,
}

impl Group {
    /// A workgroup before its first instruction.
    pub(crate) fn new(kernel: &Kernel, id: [u32; 3]) -> Self {
        let header = kernel.header;
        let subgroup = |number: u32| Subgroup::new(kernel, header.lanes() - number * LANES as u32);
        Self {
            id,
            shared: Aligned::new(header.shared as usize),
            subgroups: (0..header.subgroups()).map(subgroup).collect(),
            current: 0,
        }
    }

    /// Makes of a workgroup that has ended another one before its first instruction, of the same program.
    pub(crate) fn restart(&mut self, kernel: &Kernel, id: [u32; 3]) {
        self.id = id;
        self.current = 0;
        zero(&mut self.shared);
        for (number, subgroup) in (0..).zip(&mut self.subgroups) {
            subgroup.restart(kernel.header.lanes() - number * LANES as u32);
        }
    }

    /// Chooses the subgroup that runs on when the current one waits or has ended. False if all have ended.
    pub(crate) fn next_subgroup(&mut self) -> bool {
        let runs = |subgroup: &Subgroup| subgroup.alive != 0 && !subgroup.waiting;
        if let Some(next) = self.subgroups.iter().position(runs) {
            self.current = next;
            return true;
        }
        // All that still run have come to a barrier.
        self.subgroups.iter_mut().for_each(|subgroup| subgroup.waiting = false);
        match self.subgroups.iter().position(runs) {
            Some(first) => {
                self.current = first;
                true
            }
            None => false,
        }
    }

    /// Executes an instruction that is not one of control flow in the active lanes of the current subgroup.
    pub(crate) fn execute<M: GlobalMemory>(
        &mut self,
        instruction: &Instruction,
        around: &mut Surroundings<'_, M>,
    ) -> Result<(), LaneFault<M::Fault>> {
        let number = self.current;
        let Some(subgroup) = self.subgroups.get_mut(number) else { return Ok(()) };
        match instruction.op {
            Op::Load | Op::Store => memory(subgroup, &mut self.shared, instruction, Space::Global, around),
            Op::LoadShared | Op::StoreShared => memory(subgroup, &mut self.shared, instruction, Space::Shared, around),
            Op::LoadScratch | Op::StoreScratch => {
                memory(subgroup, &mut self.shared, instruction, Space::Scratch, around)
            }
            Op::Atomic | Op::AtomicShared => atomic(subgroup, &mut self.shared, instruction, around),
            Op::Fence => {
                let (scope, order) = instruction.ordering().unwrap_or((Scope::System, Order::SequentiallyConsistent));
                around.memory.fence(scope, order);
                Ok(())
            }
            Op::System => {
                let place = around.place(self.id, number);
                for lane in lanes(subgroup.active) {
                    let value = instruction.system().map_or(0, |value| system(value, lane, &place, around.kernel));
                    subgroup.write(Operand::Word, usize::from(instruction.dst), lane, u64::from(value));
                }
                Ok(())
            }
            Op::Ballot
            | Op::VoteAll
            | Op::VoteAny
            | Op::Shuffle
            | Op::ShuffleXor
            | Op::BroadcastFirst
            | Op::Reduce
            | Op::ScanInclusive
            | Op::ScanExclusive => {
                across(subgroup, instruction);
                Ok(())
            }
            _ => {
                within(subgroup, instruction, around.grid.arguments);
                Ok(())
            }
        }
    }
}

/// The registers of an instruction, destination first: file, number and count of each.
type Fields = [(Operand, u8, u32); 4];

/// The sources of an instruction in a lane.
fn sources(subgroup: &Subgroup, instruction: &Instruction, fields: &Fields, lane: usize) -> [u64; 3] {
    let [_, (a_file, a, _), (b_file, b, _), (c_file, c, _)] = *fields;
    let b = if instruction.constant { instruction.immediate } else { subgroup.read(b_file, b, lane) };
    [subgroup.read(a_file, a, lane), b, subgroup.read(c_file, c, lane)]
}

/// Executes an operation in which each lane uses its own registers only.
fn within(subgroup: &mut Subgroup, instruction: &Instruction, arguments: u64) {
    let fields = instruction.registers();
    let (file, dst, _) = fields[0];
    let (op, ty) = (instruction.op, instruction.ty);
    for lane in lanes(subgroup.active) {
        let [a, b, c] = sources(subgroup, instruction, &fields, lane);
        let result = match op {
            Op::Arguments => arguments,
            Op::Select if c != 0 => a,
            Op::Select => b,
            Op::Index => a.wrapping_add(b.wrapping_mul(instruction.immediate)),
            Op::Cmp => instruction.comparison().is_some_and(|comparison| compare(comparison, ty, a, b)).into(),
            Op::FromS | Op::FromU | Op::ToS | Op::ToU | Op::Convert => {
                instruction.source().map_or(0, |from| convert(op, ty, from, a))
            }
            _ => evaluate(op, ty, a, b, c),
        };
        subgroup.write(file, usize::from(dst), lane, result);
    }
}

/// What looks at other lanes. All values are read before one is written.
fn across(subgroup: &mut Subgroup, instruction: &Instruction) {
    let active = subgroup.active;
    let fields = instruction.registers();
    let values: [[u64; 3]; LANES] = core::array::from_fn(|lane| sources(subgroup, instruction, &fields, lane));
    let first = |lane: usize| values.get(lane).map_or(0, |[a, ..]| *a);
    let set = lanes(active).filter(|lane| first(*lane) & 1 != 0).fold(0u32, |mask, lane| mask | 1 << lane);
    let of = |lane: usize| if active >> lane & 1 != 0 { first(lane) } else { 0 };
    let reduction = instruction.reduction().unwrap_or(Reduction::Add);
    let ty = instruction.ty;
    let all = |mask: u32| {
        lanes(active & mask).fold(reduction_start(reduction, ty), |sum, lane| reduce(reduction, ty, sum, first(lane)))
    };
    let below = |lane: usize| (1u32 << lane) - 1;
    let whole = if instruction.op == Op::Reduce { all(u32::MAX) } else { 0 };
    let (file, dst, _) = fields[0];
    for lane in lanes(active) {
        let other = values.get(lane).map_or(0, |[_, b, _]| *b as usize);
        let result = match instruction.op {
            Op::Ballot => u64::from(set),
            Op::VoteAll => (set == active).into(),
            Op::VoteAny => (set != 0).into(),
            Op::Shuffle => of(other % LANES),
            Op::ShuffleXor => of((lane ^ other) % LANES),
            Op::BroadcastFirst => of(active.trailing_zeros() as usize % LANES),
            Op::Reduce => whole,
            Op::ScanInclusive => all(below(lane) | 1 << lane),
            _ => all(below(lane)),
        };
        subgroup.write(file, usize::from(dst), lane, result);
    }
}

fn system(value: SystemValue, lane: usize, place: &Place<'_>, kernel: &Kernel) -> u32 {
    let header = &kernel.header;
    let size = [header.workgroup_x, header.workgroup_y, header.workgroup_z];
    let local = place.local.map(|dimension| dimension.get(lane).copied().unwrap_or(0));
    let global = |at: usize| place.workgroup[at].wrapping_mul(size[at]).wrapping_add(local[at]);
    match value {
        SystemValue::LocalIdX => local[0],
        SystemValue::LocalIdY => local[1],
        SystemValue::LocalIdZ => local[2],
        SystemValue::WorkgroupIdX => place.workgroup[0],
        SystemValue::WorkgroupIdY => place.workgroup[1],
        SystemValue::WorkgroupIdZ => place.workgroup[2],
        SystemValue::GlobalIdX => global(0),
        SystemValue::GlobalIdY => global(1),
        SystemValue::GlobalIdZ => global(2),
        SystemValue::WorkgroupSizeX => size[0],
        SystemValue::WorkgroupSizeY => size[1],
        SystemValue::WorkgroupSizeZ => size[2],
        SystemValue::WorkgroupCountX => place.count[0],
        SystemValue::WorkgroupCountY => place.count[1],
        SystemValue::WorkgroupCountZ => place.count[2],
        SystemValue::LocalIndex => place.subgroup * LANES as u32 + lane as u32,
        SystemValue::SubgroupId => place.subgroup,
        SystemValue::SubgroupCount => header.subgroups(),
        SystemValue::LaneId => lane as u32,
    }
}

/// The address of an access in a lane, aligned to `element`.
fn address<F>(
    subgroup: &Subgroup,
    instruction: &Instruction,
    fields: &Fields,
    lane: usize,
    element: u32,
) -> Result<u64, Cause<F>> {
    let (file, a, _) = fields[1];
    debug_assert_eq!(instruction.op.form().immediate, Immediate::Offset);
    let address = subgroup.read(file, a, lane).wrapping_add(instruction.immediate);
    if address & u64::from(element - 1) == 0 { Ok(address) } else { Err(Cause::Misaligned(address)) }
}

/// The `size` bytes at a place of workgroup or scratch memory.
fn piece<F>(bytes: &mut [u8], start: u64, size: usize, outside: fn(u64) -> Cause<F>) -> Result<&mut [u8], Cause<F>> {
    let found = usize::try_from(start).ok().and_then(|start| bytes.get_mut(start..start.checked_add(size)?));
    found.ok_or_else(|| outside(start))
}

fn memory<M: GlobalMemory>(
    subgroup: &mut Subgroup,
    shared: &mut [u8],
    instruction: &Instruction,
    space: Space,
    around: &mut Surroundings<'_, M>,
) -> Result<(), LaneFault<M::Fault>> {
    let format = instruction.memory().unwrap_or(MemoryFormat::W1);
    let store = matches!(instruction.op, Op::Store | Op::StoreShared | Op::StoreScratch);
    let scratch_size = around.kernel.header.scratch as usize;
    let fields = instruction.registers();
    let (size, element) = (format.bytes() as usize, format.element() as usize);
    for lane in lanes(subgroup.active) {
        let mut one = || -> Result<(), Cause<M::Fault>> {
            let address = address(subgroup, instruction, &fields, lane, format.element())?;
            let mut buffer = [0u8; 16];
            let bytes = buffer.get_mut(..size).ok_or(Cause::State)?;
            if store {
                gather(subgroup, &fields, format, lane, bytes);
            }
            let local = match space {
                Space::Global if store => {
                    around.memory.store(address, element, bytes).map_err(Cause::Memory)?;
                    None
                }
                Space::Global => {
                    around.memory.load(address, element, bytes).map_err(Cause::Memory)?;
                    None
                }
                Space::Shared => Some(piece(shared, address, size, Cause::SharedRange)?),
                Space::Scratch => {
                    let own = subgroup.scratch.get_mut(lane * scratch_size..(lane + 1) * scratch_size);
                    Some(piece(own.unwrap_or(&mut []), address, size, Cause::ScratchRange)?)
                }
            };
            match local {
                Some(local) if store => local.copy_from_slice(bytes),
                Some(local) => bytes.copy_from_slice(local),
                None => {}
            }
            if !store {
                scatter(subgroup, &fields, format, lane, bytes);
            }
            Ok(())
        };
        one().map_err(|cause| LaneFault { cause, lane, write: store })?;
        if matches!(space, Space::Global) {
            *(if store { &mut around.counters.stores } else { &mut around.counters.loads }) += 1;
        }
    }
    Ok(())
}

/// The bytes that a store takes from the registers of a lane.
fn gather(subgroup: &Subgroup, fields: &Fields, format: MemoryFormat, lane: usize, bytes: &mut [u8]) {
    let (file, first, _) = fields[3];
    let value = |place: usize| subgroup.read(file, first.wrapping_add(place as u8), lane);
    // Whole words at a time: the processor would wait for bytes that were written one by one.
    match format.element() {
        4 => bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .enumerate()
            .for_each(|(place, to)| *to = (value(place) as u32).to_le_bytes()),
        8 => bytes.as_chunks_mut().0.iter_mut().enumerate().for_each(|(place, to)| *to = value(place).to_le_bytes()),
        _ => bytes.iter_mut().zip(value(0).to_le_bytes()).for_each(|(to, from)| *to = from),
    }
}

/// The bytes of a load to the registers of a lane.
fn scatter(subgroup: &mut Subgroup, fields: &Fields, format: MemoryFormat, lane: usize, bytes: &[u8]) {
    let (file, first, _) = fields[0];
    let mut write = |place: usize, value| subgroup.write(file, usize::from(first) + place, lane, value);
    match (format, bytes) {
        (MemoryFormat::S8, [low, ..]) => write(0, *low as i8 as u64),
        (MemoryFormat::S16, [low, high, ..]) => write(0, i16::from_le_bytes([*low, *high]) as u64),
        (_, [low]) => write(0, u64::from(*low)),
        (_, [low, high]) => write(0, u64::from(u16::from_le_bytes([*low, *high]))),
        _ if format.element() == 8 => {
            bytes.as_chunks().0.iter().enumerate().for_each(|(place, from)| write(place, u64::from_le_bytes(*from)));
        }
        _ => {
            let words = bytes.as_chunks().0.iter().enumerate();
            words.for_each(|(place, from)| write(place, u64::from(u32::from_le_bytes(*from))));
        }
    }
}

fn atomic<M: GlobalMemory>(
    subgroup: &mut Subgroup,
    shared: &mut [u8],
    instruction: &Instruction,
    around: &mut Surroundings<'_, M>,
) -> Result<(), LaneFault<M::Fault>> {
    let Some(operation) = instruction.atomic() else { return Ok(()) };
    let (ty, size) = (instruction.ty, instruction.ty.bits() / 8);
    let fields = instruction.registers();
    let (file, dst, _) = fields[0];
    for lane in lanes(subgroup.active) {
        let [_, b, c] = sources(subgroup, instruction, &fields, lane);
        let mut new = |old| update(operation, ty, old, b, c);
        let mut one = || -> Result<u64, Cause<M::Fault>> {
            let address = address(subgroup, instruction, &fields, lane, size)?;
            if instruction.op == Op::Atomic {
                return around.memory.atomic(address, size as usize, &mut new).map_err(Cause::Memory);
            }
            let place = piece(shared, address, size as usize, Cause::SharedRange)?;
            let mut old = [0u8; 8];
            old.iter_mut().zip(&*place).for_each(|(to, from)| *to = *from);
            let old = u64::from_le_bytes(old);
            if let Some(new) = new(old) {
                place.iter_mut().zip(new.to_le_bytes()).for_each(|(to, from)| *to = from);
            }
            Ok(old)
        };
        let old = one().map_err(|cause| LaneFault { cause, lane, write: true })?;
        around.counters.atomics += 1;
        subgroup.write(file, usize::from(dst), lane, old);
    }
    Ok(())
}
