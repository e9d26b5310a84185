// UNSAFETY: follows stack pointers of driver images.
//! Unwind codes: what the prologue of a function did, undone.

use super::context::{Context, RSP};
use crate::fault::guarded;
use crate::image::{Image, RuntimeFunction};

/// A frame that was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The function that has it.
    pub(crate) function: RuntimeFunction,
    /// Where its fixed part begins, by which its handlers find its variables.
    pub(crate) establisher: u64,
    /// Its handler, unless it is in its prologue.
    pub(crate) handler: Option<Handler>,
}

/// The handler of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handler {
    /// Offset of its code in the image.
    pub(crate) rva: u32,
    /// Offset of what the compiler tells it.
    pub(crate) data: u32,
    /// It wants to hear of exceptions, to be asked for a way on.
    pub(crate) of_exceptions: bool,
    /// It wants to hear when the frame is unwound.
    pub(crate) of_unwinding: bool,
}

/// The head of unwind data and its codes.
struct Info {
    flags: u8,
    prologue: u8,
    frame_register: usize,
    frame_offset: u64,
    codes: Vec<[u8; 2]>,
    /// Offset of what follows the codes.
    behind: u32,
}

const EXCEPTION_HANDLER: u8 = 1;
const UNWIND_HANDLER: u8 = 2;
const CHAINED: u8 = 4;
/// Parts of a function whose unwind data name one another, at most.
const CHAIN_MAX: usize = 32;

impl Info {
    fn read(image: &Image, rva: u32) -> Option<Self> {
        let [head, prologue, count, frame] = image.read_at(rva)?;
        let (version, flags) = (head & 7, head >> 3);
        if !matches!(version, 1 | 2) {
            return None;
        }
        let first = rva.checked_add(4)?;
        let codes = (0..u32::from(count)).map(|index| image.read_at(first.checked_add(2 * index)?));
        let codes = codes.collect::<Option<Vec<[u8; 2]>>>()?;
        // The number of codes is even in memory.
        let behind = first.checked_add(2 * u32::from(count.next_multiple_of(2)))?;
        let (frame_register, frame_offset) = (usize::from(frame & 15), u64::from(frame >> 4) * 16);
        Some(Self { flags, prologue, frame_register, frame_offset, codes, behind })
    }

    /// The code at an index: offset of the instruction behind it, operation, its information; and how many entries it has.
    fn code(&self, index: usize) -> Option<(u8, u8, u8, usize)> {
        let [offset, operation] = *self.codes.get(index)?;
        let (operation, info) = (operation & 15, operation >> 4);
        let entries = match operation {
            1 => 2 + usize::from(info != 0),
            4 | 6 | 8 => 2,
            5 | 9 => 3,
            _ => 1,
        };
        Some((offset, operation, info, entries))
    }

    /// The number in the entries behind a code: 16 bits of one, or 32 of two.
    fn operand(&self, index: usize, wide: bool) -> Option<u64> {
        let half = |index: usize| self.codes.get(index).map(|bytes| u64::from(u16::from_le_bytes(*bytes)));
        Some(half(index + 1)? | if wide { half(index + 2)? << 16 } else { 0 })
    }

    /// The frame register is set at this offset in the function.
    fn has_frame(&self, offset: u32) -> bool {
        let set = |index: &usize| self.code(*index).is_some_and(|(_, operation, ..)| operation == 3);
        let mut index = 0;
        while let Some((at, .., entries)) = self.code(index) {
            if set(&index) {
                return offset >= u32::from(at);
            }
            index += entries;
        }
        false
    }

    /// Undoes what the prologue has done up to `offset`. True if the frame is one of the processor's, with an address to return to and a stack pointer.
    fn undo(&self, offset: u32, base: u64, context: &mut Context) -> Option<bool> {
        let mut index = 0;
        while index < self.codes.len() {
            let (at, operation, info, entries) = self.code(index)?;
            let register = usize::from(info);
            if offset >= u32::from(at) {
                let stack = context.general[RSP];
                match operation {
                    0 => {
                        *context.general.get_mut(register)? = word(stack)?;
                        context.general[RSP] = stack.wrapping_add(8);
                    }
                    1 => {
                        let size = self.operand(index, info != 0)? * if info == 0 { 8 } else { 1 };
                        context.general[RSP] = stack.wrapping_add(size);
                    }
                    2 => context.general[RSP] = stack.wrapping_add(8 * u64::from(info) + 8),
                    3 => {
                        let frame = *context.general.get(self.frame_register)?;
                        context.general[RSP] = frame.wrapping_sub(self.frame_offset);
                    }
                    4 | 5 => {
                        let wide = operation == 5;
                        let place = self.operand(index, wide)? * if wide { 1 } else { 8 };
                        *context.general.get_mut(register)? = word(base.wrapping_add(place))?;
                    }
                    6 => {}
                    8 | 9 => {
                        let wide = operation == 9;
                        let place = base.wrapping_add(self.operand(index, wide)? * if wide { 1 } else { 16 });
                        *context.vector.get_mut(register)? = [word(place)?, word(place.wrapping_add(8))?];
                    }
                    10 => {
                        let frame = stack.wrapping_add(8 * u64::from(info));
                        context.instruction = word(frame)?;
                        context.general[RSP] = word(frame.wrapping_add(24))?;
                        return Some(true);
                    }
                    _ => return None,
                }
            }
            index += entries;
        }
        Some(false)
    }
}

/// A word of the stack.
fn word(address: u64) -> Option<u64> {
    let address = usize::try_from(address).ok()?;
    // SAFETY: any bytes are a number.
    unsafe { guarded::read(std::ptr::with_exposed_provenance::<u64>(address)) }.ok()
}

/// Replaces the registers of a frame by those of its caller. `Ok(None)` for a function without unwind data, which has changed nothing but the stack
/// pointer by its call.
///
/// # Errors
/// The instruction lies outside the image, or the unwind data cannot be followed.
pub(crate) fn unwind(image: &Image, context: &mut Context) -> Result<Option<Frame>, ()> {
    let rva = usize::try_from(context.instruction).ok().and_then(|address| image.rva_of(address)).ok_or(())?;
    let Some(function) = image.runtime_function(rva) else {
        returns(context).ok_or(())?;
        return Ok(None);
    };
    unwind_function(image, function, rva, context).map(Some).ok_or(())
}

/// Carries out the return of a frame of which nothing is left but the address to return to.
fn returns(context: &mut Context) -> Option<()> {
    let stack = context.general[RSP];
    context.instruction = word(stack)?;
    context.general[RSP] = stack.wrapping_add(8);
    Some(())
}

fn unwind_function(image: &Image, function: RuntimeFunction, rva: u32, context: &mut Context) -> Option<Frame> {
    let info = Info::read(image, function.unwind)?;
    let offset = rva - function.begin;
    let base = match info.frame_register {
        0 => context.general[RSP],
        _ if !info.has_frame(offset) => context.general[RSP],
        register => context.general.get(register)?.wrapping_sub(info.frame_offset),
    };
    let in_body = offset >= u32::from(info.prologue);
    let wants = info.flags & (EXCEPTION_HANDLER | UNWIND_HANDLER);
    let handler = if in_body && wants != 0 && info.flags & CHAINED == 0 {
        let handler = u32::from_le_bytes(image.read_at(info.behind)?);
        let (of_exceptions, of_unwinding) = (wants & EXCEPTION_HANDLER != 0, wants & UNWIND_HANDLER != 0);
        Some(Handler { rva: handler, data: info.behind.checked_add(4)?, of_exceptions, of_unwinding })
    } else {
        None
    };
    let mut of_processor = info.undo(offset, base, context)?;
    let mut part = info;
    for _ in 0..CHAIN_MAX {
        if part.flags & CHAINED == 0 {
            if !of_processor {
                returns(context)?;
            }
            return Some(Frame { function, establisher: base, handler });
        }
        // The prologue of what it is a part of has been run through.
        let primary = RuntimeFunction::from_words(image.read_at(part.behind)?);
        part = Info::read(image, primary.unwind)?;
        of_processor |= part.undo(u32::MAX, base, context)?;
    }
    None
}
