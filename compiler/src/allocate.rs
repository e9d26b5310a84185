//! Registers for virtual registers: linear scan over the list of instructions, with scratch memory for what does not fit.
//!
//! A lane is a thread of its own here: what other lanes do while it waits in a block writes none of its registers. So a register is taken from its first
//! mention to its last, and to the end of a loop if its value has to be there when the loop starts again.

use std::collections::HashMap;

use campanile_hw::isa::{Comparison, MemoryFormat, Op as I, Type as T};

use crate::error::{Result, limit};
use crate::flatten::results;
use crate::ir::{Class, Inst, Register, Src, V};

/// Registers of a file.
const FILE: usize = 256;
/// Registers of each file that are kept for values on their way from and to scratch memory, if there are any.
const TEMPORARY: usize = 4;

/// A group of registers and where it is alive, in half steps: sources are read at the even ones, results are written at the odd ones.
#[derive(Clone, Copy, Debug)]
struct Interval {
    first: V,
    count: u32,
    class: Class,
    start: usize,
    end: usize,
}

/// Register or scratch offset of each value.
#[derive(Default)]
struct Places {
    registers: HashMap<V, u8>,
    /// Offsets in scratch memory.
    spilled: HashMap<V, u32>,
    used: [usize; 3],
    scratch: u32,
}

/// The program with real registers.
pub(crate) struct Allocated {
    pub(crate) code: Vec<Inst>,
    /// Registers that it uses: predicates, words, doubles.
    pub(crate) used: [usize; 3],
    pub(crate) scratch: u32,
}

const fn file(class: Class) -> usize {
    match class {
        Class::Predicate => 0,
        Class::Word => 1,
        Class::Double => 2,
    }
}

/// Blocks of the list: for each instruction the innermost block around it.
struct Blocks {
    /// Start, end, block around it, whether it is a whole loop.
    blocks: Vec<(usize, usize, usize, bool)>,
    of: Vec<usize>,
}

impl Blocks {
    fn new(code: &[Inst]) -> Self {
        let mut blocks = vec![(0, code.len(), 0, false)];
        let mut of = Vec::with_capacity(code.len());
        let mut open = vec![0];
        for (at, inst) in code.iter().enumerate() {
            let top = |open: &[usize]| open.last().copied().unwrap_or(0);
            let close = |open: &mut Vec<usize>, blocks: &mut Vec<(usize, usize, usize, bool)>| {
                if let Some(block) = open.pop().and_then(|block| blocks.get_mut(block)) {
                    block.1 = at;
                }
            };
            if matches!(inst.op, I::Else | I::EndIf | I::Continuing | I::EndLoop) {
                close(&mut open, &mut blocks);
            }
            if inst.op == I::EndLoop {
                close(&mut open, &mut blocks);
            }
            of.push(top(&open));
            if inst.op == I::Loop {
                blocks.push((at, code.len(), top(&open), true));
                open.push(blocks.len() - 1);
            }
            if matches!(inst.op, I::If | I::Else | I::Loop | I::Continuing) {
                blocks.push((at, code.len(), top(&open), false));
                open.push(blocks.len() - 1);
            }
        }
        Self { blocks, of }
    }

    fn around(&self, at: usize) -> usize {
        self.of.get(at).copied().unwrap_or(0)
    }

    /// The outermost loop around an instruction that `inside` does not contain.
    fn outermost(&self, at: usize, inside: Option<usize>) -> Option<(usize, usize)> {
        let mut found = None;
        let mut block = self.around(at);
        while block != 0 {
            let (start, end, parent, is_loop) = self.blocks.get(block).copied()?;
            if is_loop && inside.is_none_or(|other| other < start || other > end) {
                found = Some((start, end));
            }
            block = parent;
        }
        found
    }

    fn contains(&self, block: usize, at: usize) -> bool {
        self.blocks.get(block).is_some_and(|(start, end, _, _)| (*start..=*end).contains(&at))
    }
}

fn intervals(code: &[Inst], registers: &[Register]) -> Vec<Interval> {
    let blocks = Blocks::new(code);
    let mut mentions: HashMap<V, Vec<usize>> = HashMap::new();
    let group = |register: V| registers.get(register as usize).map_or(register, |entry| entry.group.0);
    for (at, inst) in code.iter().enumerate() {
        for source in inst.sources() {
            mentions.entry(group(source)).or_default().push(at * 2);
        }
        // Results of what works lane by lane may take the registers of its sources.
        let written = at * 2 + usize::from(inst.is_pure());
        for dst in results(inst) {
            mentions.entry(group(dst)).or_default().push(written);
        }
    }
    let mut all = Vec::new();
    for (first, places) in mentions {
        let Some(register) = registers.get(first as usize) else { continue };
        let start = places.iter().copied().min().unwrap_or(0);
        let end = places.iter().copied().max().unwrap_or(0);
        let mut interval = Interval { first, count: register.group.1, class: register.class, start, end };
        let home = blocks.around(start / 2);
        let dominates = places.iter().all(|place| blocks.contains(home, place / 2));
        for place in places {
            let inside = dominates.then_some(start / 2);
            if let Some((from, to)) = blocks.outermost(place / 2, inside) {
                interval.end = interval.end.max(to * 2 + 1);
                if !dominates {
                    interval.start = interval.start.min(from * 2);
                }
            }
        }
        all.push(interval);
    }
    all.sort_by_key(|interval| (interval.start, interval.first));
    all
}

/// Registers that a copy would best share.
fn hints(code: &[Inst]) -> HashMap<V, V> {
    let copies = code.iter().filter(|inst| inst.op == I::Mov);
    copies
        .filter_map(|inst| match (inst.dst, inst.b) {
            (Some(dst), Some(Src::Reg(source))) => Some((dst, source)),
            _ => None,
        })
        .collect()
}

fn scan(intervals: &[Interval], hints: &HashMap<V, V>, available: usize, places: &mut Places) -> Result<bool> {
    let mut taken = [[false; FILE]; 3];
    let mut active: Vec<Interval> = Vec::new();
    let mut spills = false;
    for interval in intervals {
        active.retain(|other| {
            let alive = other.end >= interval.start;
            if !alive {
                mark(&mut taken, other, places, false);
            }
            alive
        });
        let hint = hints.get(&interval.first).and_then(|source| places.registers.get(source)).copied();
        loop {
            let free =
                taken.get(file(interval.class)).and_then(|taken| find(taken, interval.count as usize, available, hint));
            if let Some(first) = free {
                for index in 0..interval.count {
                    places.registers.insert(interval.first + index, (first + index as usize) as u8);
                }
                let used = places.used.get_mut(file(interval.class));
                used.into_iter().for_each(|used| *used = (*used).max(first + interval.count as usize));
                mark(&mut taken, interval, places, true);
                active.push(*interval);
                break;
            }
            spills = true;
            let candidate =
                active.iter().enumerate().filter(|(_, other)| other.class == interval.class && other.count == 1);
            let victim = candidate.max_by_key(|(_, other)| other.end).map(|(index, other)| (index, *other));
            match victim {
                Some((index, other)) if other.end > interval.end || interval.count > 1 => {
                    active.swap_remove(index);
                    mark(&mut taken, &other, places, false);
                    places.registers.remove(&other.first);
                    places.spill(&other);
                }
                _ if interval.count == 1 => {
                    places.spill(interval);
                    break;
                }
                _ => return Err(limit("registers for values that have to lie next to each other")),
            }
        }
    }
    Ok(spills)
}

fn mark(taken: &mut [[bool; FILE]; 3], interval: &Interval, places: &Places, set: bool) {
    let Some(first) = places.registers.get(&interval.first) else { return };
    let first = usize::from(*first);
    if let Some(range) =
        taken.get_mut(file(interval.class)).and_then(|file| file.get_mut(first..first + interval.count as usize))
    {
        range.fill(set);
    }
}

fn find(taken: &[bool], count: usize, available: usize, hint: Option<u8>) -> Option<usize> {
    let fits = |first: usize| {
        first + count <= available && taken.get(first..first + count).is_some_and(|range| !range.contains(&true))
    };
    if let Some(hint) = hint.map(usize::from).filter(|hint| fits(*hint)) {
        return Some(hint);
    }
    (0..available).find(|first| fits(*first))
}

impl Places {
    fn spill(&mut self, interval: &Interval) {
        let size = if interval.class == Class::Double { 8 } else { 4 };
        let offset = self.scratch.next_multiple_of(size);
        self.scratch = offset + size;
        self.spilled.insert(interval.first, offset);
    }
}

/// Gives every virtual register of a program a register or a place in scratch memory behind `scratch` bytes that are in use.
pub(crate) fn allocate(code: Vec<Inst>, registers: &[Register], scratch: u32) -> Result<Allocated> {
    let intervals = intervals(&code, registers);
    let hints = hints(&code);
    let mut places = Places { scratch, ..Places::default() };
    if scan(&intervals, &hints, FILE, &mut places)? {
        places = Places { scratch, ..Places::default() };
        scan(&intervals, &hints, FILE - TEMPORARY - 1, &mut places)?;
        places.used = [FILE; 3];
    }
    let mut rewriter = Rewriter { places: &places, registers, out: Vec::with_capacity(code.len()) };
    if !places.spilled.is_empty() {
        let zero = Inst { dst: Some(ZERO), b: Some(Src::Const(0)), ..Inst::new(I::Mov, T::I32) };
        rewriter.out.push(zero);
    }
    for inst in code {
        rewriter.inst(inst)?;
    }
    Ok(Allocated { code: rewriter.out, used: places.used, scratch: places.scratch })
}

/// The word that is zero, where there is scratch memory for registers.
const ZERO: V = (FILE - 1) as V;

struct Rewriter<'p> {
    places: &'p Places,
    registers: &'p [Register],
    out: Vec<Inst>,
}

impl Rewriter<'_> {
    fn class(&self, register: V) -> Class {
        self.registers.get(register as usize).map_or(Class::Word, |entry| entry.class)
    }

    fn temporary(index: usize) -> V {
        (FILE - 1 - TEMPORARY + index) as V
    }

    /// The real register of a source, loaded before.
    fn source(&mut self, register: V, index: usize, line: u32) -> V {
        if let Some(place) = self.places.registers.get(&register) {
            return V::from(*place);
        }
        let Some(offset) = self.places.spilled.get(&register).copied() else { return 0 };
        let class = self.class(register);
        let format = if class == Class::Double { MemoryFormat::D1 } else { MemoryFormat::W1 };
        let to = Self::temporary(index);
        let load = Inst {
            dst: Some(to),
            a: Some(ZERO),
            modifier: format as u8,
            immediate: u64::from(offset),
            line,
            ..Inst::new(I::LoadScratch, T::None)
        };
        self.out.push(load);
        if class == Class::Predicate {
            self.out.push(Inst {
                dst: Some(to),
                a: Some(to),
                b: Some(Src::Const(0)),
                modifier: Comparison::Ne as u8,
                line,
                ..Inst::new(I::Cmp, T::I32)
            });
        }
        to
    }

    fn inst(&mut self, inst: Inst) -> Result<()> {
        if inst.op == I::Mov && inst.b.is_none() {
            return Ok(());
        }
        let mut real = inst;
        real.a = inst.a.map(|register| self.source(register, 0, inst.line));
        real.b = inst.b.map(|source| match source {
            Src::Reg(register) => Src::Reg(self.source(register, 1, inst.line)),
            constant => constant,
        });
        real.c = inst.c.map(|register| self.source(register, 2, inst.line));
        let spilled = inst.dst.and_then(|dst| self.places.spilled.get(&dst).copied());
        real.dst = inst.dst.map(|dst| match self.places.registers.get(&dst) {
            Some(place) => V::from(*place),
            None => Self::temporary(3),
        });
        if real.op == I::Mov && real.b == real.dst.map(Src::Reg) {
            return Ok(());
        }
        self.out.push(real);
        let (Some(offset), Some(dst)) = (spilled, inst.dst) else { return Ok(()) };
        let class = self.class(dst);
        let from = Self::temporary(3);
        if class == Class::Predicate {
            let one = Self::temporary(2);
            self.out.push(Inst {
                dst: Some(one),
                b: Some(Src::Const(1)),
                line: inst.line,
                ..Inst::new(I::Mov, T::I32)
            });
            self.out.push(Inst {
                dst: Some(from),
                a: Some(one),
                b: Some(Src::Const(0)),
                c: Some(from),
                line: inst.line,
                ..Inst::new(I::Select, T::I32)
            });
        }
        let format = if class == Class::Double { MemoryFormat::D1 } else { MemoryFormat::W1 };
        self.out.push(Inst {
            a: Some(ZERO),
            c: Some(from),
            modifier: format as u8,
            immediate: u64::from(offset),
            line: inst.line,
            ..Inst::new(I::StoreScratch, T::None)
        });
        Ok(())
    }
}
