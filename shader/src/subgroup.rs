//! The state of a subgroup, and structured control flow on it.

use crate::aligned::Registers;
use crate::kernel::Kernel;
use campanile_hw::isa::{Instruction, LANES, Op, Operand};

/// What a frame of the stack of blocks belongs to. The numbers are those of a saved block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FrameKind {
    /// IF or ELSE.
    If = 1,
    /// LOOP.
    Loop = 2,
    /// CALL.
    Call = 3,
}

/// An open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// The instruction that opened it.
    pub kind: FrameKind,
    /// Lanes that go on behind the block.
    pub mask: u32,
    /// Of an IF the lanes that wait for ELSE, of a LOOP those that have not left it.
    pub other: u32,
    /// Of a CALL the instruction behind it.
    pub back: u32,
}

/// The open blocks of a subgroup, and space for as many as the program can nest.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    pub(crate) all: Box<[Frame]>,
    pub(crate) depth: u32,
}

impl Frames {
    fn new(most: u32) -> Self {
        let none = Frame { kind: FrameKind::If, mask: 0, other: 0, back: 0 };
        Self { all: vec![none; most as usize].into(), depth: 0 }
    }

    /// The open blocks, the outermost first.
    pub(crate) fn open(&self) -> &[Frame] {
        self.all.get(..self.depth as usize).unwrap_or(&[])
    }

    fn open_mut(&mut self) -> &mut [Frame] {
        self.all.get_mut(..self.depth as usize).unwrap_or(&mut [])
    }

    /// True if these are the blocks that are open where this instruction is the next one: the IFs and LOOPs around it, and in a function a CALL of it with those that are open there.
    pub(crate) fn are_those_at(&self, next: u32, kernel: &Kernel) -> bool {
        let (mut at, mut frames) = (next, self.open());
        while kernel.code.len() > at as usize {
            let mut inside = at;
            while let Some((opening, instruction)) = kernel.block(inside) {
                let kind = if instruction.op == Op::If { FrameKind::If } else { FrameKind::Loop };
                match frames.split_last() {
                    Some((top, below)) if top.kind == kind => frames = below,
                    _ => return false,
                }
                inside = opening;
            }
            let function = kernel.function_at(at);
            let Some((top, below)) = frames.split_last() else { return function == 0 };
            let call = top.back.wrapping_sub(1);
            let calls = |call: &Instruction| call.op == Op::Call && call.immediate == function as u64;
            if top.kind != FrameKind::Call || !kernel.code.get(call as usize).is_some_and(calls) {
                return false;
            }
            (at, frames) = (call, below);
        }
        false
    }

    /// Opens a block.
    ///
    /// # Errors
    /// [`NoFrame`]: there is no space, because the program does not nest so deep.
    pub(crate) fn push(&mut self, frame: Frame) -> Result<(), NoFrame> {
        *self.all.get_mut(self.depth as usize).ok_or(NoFrame)? = frame;
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) -> Result<Frame, NoFrame> {
        let top = *self.open().last().ok_or(NoFrame)?;
        self.depth -= 1;
        Ok(top)
    }
}

impl PartialEq for Frames {
    fn eq(&self, other: &Self) -> bool {
        self.open() == other.open()
    }
}

impl Eq for Frames {}

/// The frame that an instruction needs is not there, or there is no space for it. A program that is valid has both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoFrame;

/// A subgroup of a running workgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subgroup {
    pub(crate) pc: u32,
    /// Lanes that execute.
    pub(crate) active: u32,
    /// Lanes that have not ended.
    pub(crate) alive: u32,
    /// Waits at a BARRIER.
    pub(crate) waiting: bool,
    pub(crate) frames: Frames,
    pub(crate) predicates: Vec<u32>,
    pub(crate) words: Registers<u32>,
    pub(crate) doubles: Registers<u64>,
    /// Scratch memory, lane after lane.
    pub(crate) scratch: Vec<u8>,
}

/// Numbers of the lanes of a mask, upwards.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}

/// A mask of the first lanes, all of them if there are more than a subgroup has.
fn first_lanes(lanes: u32) -> u32 {
    u32::MAX.checked_shr((LANES as u32).saturating_sub(lanes)).unwrap_or(0)
}

/// Makes all numbers zero. Of nothing it does nothing: a fill of no bytes stores to an address that does not exist with an empty mask, for which some processors take hundreds of cycles.
pub(crate) fn zero<T: Clone + Default>(numbers: &mut [T]) {
    if !numbers.is_empty() {
        numbers.fill(T::default());
    }
}

impl Subgroup {
    /// A subgroup before its first instruction, with as many of `lanes` as it can have. Everything is zero.
    pub(crate) fn new(kernel: &Kernel, lanes: u32) -> Self {
        let header = &kernel.header;
        let alive = first_lanes(lanes);
        Self {
            pc: 0,
            active: alive,
            alive,
            waiting: false,
            frames: Frames::new(kernel.depth),
            predicates: vec![0; usize::from(header.predicates)],
            words: Registers::new(header.words.into()),
            doubles: Registers::new(header.doubles.into()),
            scratch: vec![0; header.scratch as usize * LANES],
        }
    }

    /// Makes of a subgroup that has ended a new one, as [`Subgroup::new`] does, in the same memory.
    pub(crate) fn restart(&mut self, lanes: u32) {
        let alive = first_lanes(lanes);
        (self.pc, self.active, self.alive, self.waiting, self.frames.depth) = (0, alive, alive, false, 0);
        zero(&mut self.predicates);
        zero(self.words.as_flattened_mut());
        zero(self.doubles.as_flattened_mut());
        zero(&mut self.scratch);
    }

    /// The bits of a register of a file in a lane.
    pub(crate) fn read(&self, file: Operand, register: u8, lane: usize) -> u64 {
        let register = usize::from(register);
        match file {
            Operand::Predicate => self.predicates.get(register).map_or(0, |mask| u64::from(mask >> lane & 1)),
            Operand::Word => {
                self.words.get(register).and_then(|word| word.get(lane)).map_or(0, |word| u64::from(*word))
            }
            Operand::Double => self.doubles.get(register).and_then(|double| double.get(lane)).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Sets a register of a file in a lane.
    pub(crate) fn write(&mut self, file: Operand, register: usize, lane: usize, bits: u64) {
        match file {
            Operand::Predicate => {
                if let Some(mask) = self.predicates.get_mut(register) {
                    *mask = *mask & !(1 << lane) | (bits as u32 & 1) << lane;
                }
            }
            Operand::Word => {
                if let Some(word) = self.words.get_mut(register).and_then(|word| word.get_mut(lane)) {
                    *word = bits as u32;
                }
            }
            Operand::Double => {
                if let Some(double) = self.doubles.get_mut(register).and_then(|double| double.get_mut(lane)) {
                    *double = bits;
                }
            }
            _ => {}
        }
    }

    /// The mask of a predicate.
    pub(crate) fn predicate(&self, register: u8) -> u32 {
        self.predicates.get(usize::from(register)).copied().unwrap_or(0)
    }

    fn top(&mut self) -> Result<&mut Frame, NoFrame> {
        self.frames.open_mut().last_mut().ok_or(NoFrame)
    }

    fn push(&mut self, kind: FrameKind, other: u32, back: u32) -> Result<(), NoFrame> {
        self.frames.push(Frame { kind, mask: self.active, other, back })
    }

    /// Takes lanes out of every frame above the innermost one of `kind`, and returns that.
    fn leave_to(&mut self, kind: FrameKind, lanes: u32) -> Result<&mut Frame, NoFrame> {
        let frames = self.frames.open_mut();
        let place = frames.iter().rposition(|frame| frame.kind == kind).ok_or(NoFrame)?;
        let (outer, inner) = frames.split_at_mut(place + 1);
        for frame in inner {
            frame.mask &= !lanes;
            frame.other &= !lanes;
        }
        outer.last_mut().ok_or(NoFrame)
    }

    /// Next instruction after a conditional BREAK or CONTINUE: `target` if all lanes have left, otherwise the following one.
    fn after(&self, target: u32) -> u32 {
        if self.active == 0 { target } else { self.pc + 1 }
    }

    /// Executes an instruction of control flow, and sets `pc` to the next one.
    pub(crate) fn control(&mut self, instruction: &Instruction, kernel: &Kernel) -> Result<(), NoFrame> {
        let (next, target, active) = (self.pc.saturating_add(1), instruction.immediate as u32, self.active);
        self.pc = match instruction.op {
            Op::If => {
                let taken = self.predicate(instruction.a) & active;
                self.push(FrameKind::If, active & !taken, 0)?;
                self.active = taken;
                if taken == 0 { target } else { next }
            }
            Op::Else => {
                self.active = core::mem::take(&mut self.top()?.other);
                if self.active == 0 { target } else { next }
            }
            Op::EndIf => {
                self.active = self.frames.pop()?.mask;
                next
            }
            Op::Loop => {
                self.push(FrameKind::Loop, active, 0)?;
                if active == 0 { target } else { next }
            }
            Op::Break | Op::BreakIf | Op::Continue | Op::ContinueIf => return self.leave_loop(instruction),
            Op::Continuing => {
                self.active = self.top()?.other;
                next
            }
            Op::EndLoop => {
                let frame = *self.top()?;
                if frame.other == 0 {
                    self.frames.pop()?;
                    self.active = frame.mask;
                    next
                } else {
                    self.active = frame.other;
                    target.saturating_add(1)
                }
            }
            Op::Call if active == 0 => next,
            Op::Call => {
                self.push(FrameKind::Call, 0, next)?;
                kernel.functions.get(target as usize).copied().ok_or(NoFrame)?
            }
            Op::Ret => return self.leave_function(next),
            _ => {
                self.end_lanes(active);
                next
            }
        };
        Ok(())
    }

    fn leave_loop(&mut self, instruction: &Instruction) -> Result<(), NoFrame> {
        let conditional = matches!(instruction.op, Op::BreakIf | Op::ContinueIf);
        let leaving = if conditional { self.predicate(instruction.a) & self.active } else { self.active };
        let for_good = matches!(instruction.op, Op::Break | Op::BreakIf);
        let frame = self.leave_to(FrameKind::Loop, leaving)?;
        if for_good {
            frame.other &= !leaving;
        }
        self.active &= !leaving;
        self.pc = if conditional { self.after(instruction.immediate as u32) } else { self.pc + 1 };
        Ok(())
    }

    fn leave_function(&mut self, next: u32) -> Result<(), NoFrame> {
        let top = *self.top()?;
        if top.kind == FrameKind::Call {
            self.frames.pop()?;
            (self.active, self.pc) = (top.mask, top.back);
            return Ok(());
        }
        self.leave_to(FrameKind::Call, self.active)?;
        (self.active, self.pc) = (0, next);
        Ok(())
    }

    /// Ends lanes: no frame brings them back.
    fn end_lanes(&mut self, lanes: u32) {
        for frame in self.frames.open_mut() {
            frame.mask &= !lanes;
            frame.other &= !lanes;
        }
        self.alive &= !lanes;
        self.active &= !lanes;
    }
}
