//! Saves a dispatch to bytes and restores it: the format of a save area, whose records are [`campanile_hw::isa::SavedDispatch`] and those around it.

use crate::dispatch::Dispatch;
use crate::grid::{Counters, Grid};
use crate::group::Group;
use crate::kernel::Kernel;
use crate::subgroup::{Frame, FrameKind, NoFrame, Subgroup};
use campanile_hw::isa::{
    DEPTH_MAX, GRID_MAX, LANES, SAVE_MAGIC, SAVE_VERSION, SavedBlock, SavedDispatch, SavedSubgroup, SavedWorkgroup,
};

/// The bytes are no state of a dispatch of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSave;

struct Writer(Vec<u8>);

impl Writer {
    fn words(&mut self, words: &[u32]) {
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn doubles(&mut self, doubles: &[u64]) {
        self.0.extend(doubles.iter().flat_map(|double| double.to_le_bytes()));
    }

    fn subgroup(&mut self, subgroup: &Subgroup) {
        let head = SavedSubgroup {
            instruction: subgroup.pc,
            active: subgroup.active,
            alive: subgroup.alive,
            waiting: subgroup.waiting.into(),
            blocks: subgroup.frames.depth,
        };
        self.0.extend(head.to_bytes());
        for frame in subgroup.frames.open() {
            let Frame { kind, mask, other, back } = *frame;
            let block = SavedBlock { kind: kind as u32, mask, other, back };
            self.0.extend(block.to_bytes());
        }
        let rest = (DEPTH_MAX as usize).saturating_sub(subgroup.frames.depth as usize);
        self.0.resize(self.0.len() + rest * SavedBlock::SIZE, 0);
        self.words(&subgroup.predicates);
        if !subgroup.predicates.len().is_multiple_of(2) {
            self.words(&[0]);
        }
        subgroup.words.iter().for_each(|register| self.words(register));
        subgroup.doubles.iter().for_each(|register| self.doubles(register));
        self.0.extend(&subgroup.scratch);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Result<u32, BadSave> {
        let (word, rest) = self.0.split_first_chunk().ok_or(BadSave)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn double(&mut self) -> Result<u64, BadSave> {
        let (double, rest) = self.0.split_first_chunk().ok_or(BadSave)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*double))
    }

    /// The bytes of a record.
    fn record<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], BadSave> {
        let (record, rest) = self.0.split_first_chunk().ok_or(BadSave)?;
        self.0 = rest;
        Ok(*record)
    }

    fn bytes(&mut self, out: &mut [u8]) -> Result<(), BadSave> {
        let (bytes, rest) = self.0.split_at_checked(out.len()).ok_or(BadSave)?;
        self.0 = rest;
        out.copy_from_slice(bytes);
        Ok(())
    }

    /// Reads a subgroup into one before its first instruction.
    fn subgroup(&mut self, kernel: &Kernel, subgroup: &mut Subgroup) -> Result<(), BadSave> {
        let head = SavedSubgroup::from_bytes(&self.record()?);
        let run = |lanes: u32| lanes & !head.alive == 0;
        if head.blocks > DEPTH_MAX || head.alive & !subgroup.alive != 0 || !run(head.active) || head.waiting > 1 {
            return Err(BadSave);
        }
        (subgroup.pc, subgroup.active, subgroup.alive) = (head.instruction, head.active, head.alive);
        subgroup.waiting = head.waiting != 0;
        for place in 0..DEPTH_MAX {
            let SavedBlock { kind, mask, other, back } = SavedBlock::from_bytes(&self.record()?);
            if place >= head.blocks {
                continue;
            }
            let kind = match kind {
                1 => FrameKind::If,
                2 => FrameKind::Loop,
                3 => FrameKind::Call,
                _ => return Err(BadSave),
            };
            if !run(mask | other) {
                return Err(BadSave);
            }
            subgroup.frames.push(Frame { kind, mask, other, back }).map_err(|NoFrame| BadSave)?;
        }
        let frames = &subgroup.frames;
        // Behind the outermost block go on all lanes that have not ended; one that does not would never come to an EXIT.
        let lanes = frames.open().first().map_or(head.active, |outermost| outermost.mask);
        if head.alive != 0 && (lanes != head.alive || !frames.are_those_at(head.instruction, kernel)) {
            return Err(BadSave);
        }
        for predicate in &mut subgroup.predicates {
            *predicate = self.word()?;
        }
        if !subgroup.predicates.len().is_multiple_of(2) {
            self.word()?;
        }
        for word in subgroup.words.as_flattened_mut() {
            *word = self.word()?;
        }
        for double in subgroup.doubles.as_flattened_mut() {
            *double = self.double()?;
        }
        self.bytes(&mut subgroup.scratch)
    }
}

/// No dispatch counts so far.
const COUNT_MAX: u64 = 1 << 62;

/// Counts in the head of a state.
fn counters(head: &SavedDispatch) -> Result<Counters, BadSave> {
    let SavedDispatch { instructions, lanes, loads, stores, atomics, .. } = *head;
    // From here on they are added to.
    let counted = [instructions, lanes, loads, stores, atomics].iter().all(|count| *count < COUNT_MAX);
    let known = (head.magic, head.version, head.subgroup) == (SAVE_MAGIC, SAVE_VERSION, LANES as u32);
    if counted && known { Ok(Counters { instructions, lanes, loads, stores, atomics }) } else { Err(BadSave) }
}

/// Counts of a dispatch that cannot go on, and the time in the head of its state.
///
/// # Errors
/// [`BadSave`]: the bytes are not those of a dispatch.
pub fn saved_counters(bytes: &[u8]) -> Result<(Counters, u64), BadSave> {
    let head = SavedDispatch::from_bytes(&Reader(bytes).record()?);
    Ok((counters(&head)?, head.begun))
}

impl Dispatch {
    /// The dispatch of a program as bytes, at most [`campanile_hw::isa::ProgramHeader::save_size`] of them. Read back with the same program it runs on as if it had not been stopped. `begun` is the time that
    /// goes into the head.
    pub fn save(&self, kernel: &Kernel, begun: u64) -> Vec<u8> {
        let [grid_x, grid_y, grid_z] = self.grid.size;
        let Counters { instructions, lanes, loads, stores, atomics } = self.counters;
        let head = SavedDispatch {
            magic: SAVE_MAGIC,
            version: SAVE_VERSION,
            grid_x,
            grid_y,
            grid_z,
            subgroup: LANES as u32,
            arguments: self.grid.arguments,
            done: self.done,
            instructions,
            lanes,
            loads,
            stores,
            atomics,
            current: self.group.as_ref().map_or(0, |group| group.current as u32),
            workgroup: self.group.is_some().into(),
            begun,
            program: kernel.digest,
        };
        let mut out = Writer(head.to_bytes().to_vec());
        if let Some(group) = &self.group {
            let [x, y, z] = group.id;
            out.0.extend(SavedWorkgroup { x, y, z }.to_bytes());
            out.0.extend_from_slice(&group.shared);
            group.subgroups.iter().for_each(|subgroup| out.subgroup(subgroup));
        }
        out.0
    }

    /// Reads a dispatch back, and the time in its head. The bytes are not trusted: those of a place that the program does not have, or with other blocks open than the program has there, are refused.
    ///
    /// # Errors
    /// [`BadSave`]: the bytes are not those of a dispatch of this program.
    pub fn restore(kernel: &Kernel, bytes: &[u8]) -> Result<(Self, u64), BadSave> {
        let mut bytes = Reader(bytes);
        let head = SavedDispatch::from_bytes(&bytes.record()?);
        let counters = counters(&head)?;
        if head.program != kernel.digest || head.workgroup > 1 {
            return Err(BadSave);
        }
        let size = [head.grid_x, head.grid_y, head.grid_z];
        let grid = Grid { size, arguments: head.arguments };
        if size.iter().any(|size| *size > GRID_MAX) || head.done > grid.groups() {
            return Err(BadSave);
        }
        let mut dispatch = Self { grid, done: head.done, group: None, counters };
        if head.workgroup == 0 {
            return Ok((dispatch, head.begun));
        }
        let SavedWorkgroup { x, y, z } = SavedWorkgroup::from_bytes(&bytes.record()?);
        if head.done == grid.groups() || grid.place(head.done) != [x, y, z] {
            return Err(BadSave);
        }
        let mut group = Group::new(kernel, [x, y, z]);
        group.current = head.current as usize;
        if group.current >= group.subgroups.len() {
            return Err(BadSave);
        }
        bytes.bytes(&mut group.shared)?;
        group.subgroups.iter_mut().try_for_each(|subgroup| bytes.subgroup(kernel, subgroup))?;
        dispatch.group = Some(group);
        Ok((dispatch, head.begun))
    }
}
