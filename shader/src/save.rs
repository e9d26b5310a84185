//! Saves a dispatch to bytes and restores it: the format of a context-save area.
//!
//! Little-endian. A header of 96 bytes, filled up with zeros: magic and version (u32 each), workgroups of the grid (3 u32), the lanes of a subgroup (u32), address of the arguments, workgroups
//! done, the five counters (u64 each), subgroup that runs (u32), and whether a workgroup has begun (u32). If one has: its place in the grid (3 u32), a u32 of zero, workgroup memory,
//! and for each subgroup the next instruction, active lanes, lanes that have not ended, whether it waits at a barrier, and the number of open blocks (u32 each, and one of zero); 64
//! blocks (kind, mask, other mask, return, u32 each), of which those that are not open are zero; predicates (u32 each, filled up to 8 bytes), words and doubles, register by register with all lanes of
//! each; and scratch memory, lane after lane.

use crate::dispatch::Dispatch;
use crate::grid::{Counters, Grid};
use crate::group::Group;
use crate::kernel::Kernel;
use crate::subgroup::{Frame, FrameKind, Subgroup};
use campanile_hw::isa::{DEPTH_MAX, GRID_MAX, LANES, ProgramHeader};

/// First word of a saved dispatch: "CSAV".
pub const SAVE_MAGIC: u32 = u32::from_le_bytes(*b"CSAV");
const VERSION: u32 = 1;
const HEADER: usize = 96;
const FRAME: usize = 16;

/// The bytes are no state of a dispatch of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSave;

/// The most bytes that a saved dispatch of a program with this header has.
pub fn save_size(header: &ProgramHeader) -> usize {
    let predicates = (usize::from(header.predicates) * 4).next_multiple_of(8);
    let registers = (usize::from(header.words) * 4 + usize::from(header.doubles) * 8 + header.scratch as usize) * LANES;
    let subgroup = 24 + DEPTH_MAX as usize * FRAME + predicates + registers;
    HEADER + 16 + header.shared as usize + header.subgroups() as usize * subgroup
}

struct Writer(Vec<u8>);

impl Writer {
    fn words(&mut self, words: &[u32]) {
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn doubles(&mut self, doubles: &[u64]) {
        self.0.extend(doubles.iter().flat_map(|double| double.to_le_bytes()));
    }

    fn subgroup(&mut self, subgroup: &Subgroup) {
        let open = subgroup.frames.len() as u32;
        self.words(&[subgroup.pc, subgroup.active, subgroup.alive, subgroup.waiting.into(), open, 0]);
        for frame in &subgroup.frames {
            let kind = match frame.kind {
                FrameKind::If => 1,
                FrameKind::Loop => 2,
                FrameKind::Call => 3,
            };
            self.words(&[kind, frame.mask, frame.other, frame.back]);
        }
        let rest = (DEPTH_MAX as usize).saturating_sub(subgroup.frames.len());
        self.0.resize(self.0.len() + rest * FRAME, 0);
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

    fn bytes(&mut self, out: &mut [u8]) -> Result<(), BadSave> {
        let (bytes, rest) = self.0.split_at_checked(out.len()).ok_or(BadSave)?;
        self.0 = rest;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn subgroup(&mut self, subgroup: &mut Subgroup) -> Result<(), BadSave> {
        let legal = subgroup.alive;
        subgroup.pc = self.word()?;
        subgroup.active = self.word()? & legal;
        subgroup.alive = self.word()? & legal;
        subgroup.waiting = self.word()? != 0;
        let open = self.word()? as usize;
        self.word()?;
        if open > DEPTH_MAX as usize {
            return Err(BadSave);
        }
        for place in 0..DEPTH_MAX as usize {
            let [kind, mask, other, back] = [self.word()?, self.word()?, self.word()?, self.word()?];
            if place >= open {
                continue;
            }
            let kind = match kind {
                1 => FrameKind::If,
                2 => FrameKind::Loop,
                3 => FrameKind::Call,
                _ => return Err(BadSave),
            };
            subgroup.frames.push(Frame { kind, mask: mask & legal, other: other & legal, back });
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

impl Dispatch {
    /// The dispatch as bytes, at most [`save_size`] of them. Read back with the same program it runs on as if it had not been stopped.
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.words(&[SAVE_MAGIC, VERSION]);
        out.words(&self.grid.size);
        out.words(&[LANES as u32]);
        let Counters { instructions, lanes, loads, stores, atomics } = self.counters;
        out.doubles(&[self.grid.arguments, self.done, instructions, lanes, loads, stores, atomics]);
        let current = self.group.as_ref().map_or(0, |group| group.current as u32);
        out.words(&[current, self.group.is_some().into()]);
        out.0.resize(HEADER, 0);
        if let Some(group) = &self.group {
            out.words(&group.id);
            out.words(&[0]);
            out.0.extend(&group.shared);
            group.subgroups.iter().for_each(|subgroup| out.subgroup(subgroup));
        }
        out.0
    }

    /// Reads a dispatch back. The bytes are not trusted: whatever they are, the dispatch stays within the program and within its own registers and workgroup memory.
    ///
    /// # Errors
    /// [`BadSave`]: the bytes are not those of a dispatch of this program.
    pub fn restore(kernel: &Kernel, bytes: &[u8]) -> Result<Self, BadSave> {
        let (head, body) = bytes.split_at_checked(HEADER).ok_or(BadSave)?;
        let mut head = Reader(head);
        if (head.word()?, head.word()?) != (SAVE_MAGIC, VERSION) {
            return Err(BadSave);
        }
        let size = [head.word()?, head.word()?, head.word()?];
        if size.iter().any(|size| *size > GRID_MAX) || head.word()? != LANES as u32 {
            return Err(BadSave);
        }
        let (arguments, done) = (head.double()?, head.double()?);
        let counters = Counters {
            instructions: head.double()?,
            lanes: head.double()?,
            loads: head.double()?,
            stores: head.double()?,
            atomics: head.double()?,
        };
        let (current, begun) = (head.word()? as usize, head.word()? != 0);
        let grid = Grid { size, arguments };
        let mut dispatch = Self { grid, done, group: None, counters };
        if !begun {
            return Ok(dispatch);
        }
        let mut body = Reader(body);
        let id = [body.word()?, body.word()?, body.word()?];
        body.word()?;
        let mut group = Group::new(kernel, id);
        if current >= group.subgroups.len() || done >= grid.groups() {
            return Err(BadSave);
        }
        group.current = current;
        body.bytes(&mut group.shared)?;
        group.subgroups.iter_mut().try_for_each(|subgroup| body.subgroup(subgroup))?;
        dispatch.group = Some(group);
        Ok(dispatch)
    }
}
