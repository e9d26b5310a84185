//! Which instructions are compiled, and the segments that they form.

use campanile_hw::isa::{AtomicOperation, Instruction, MemoryFormat, Op, Type};
use campanile_shader::Kernel;
use std::collections::BTreeMap;

/// Most instructions of a segment: so long the node cannot be given to another queue.
pub(crate) const LONGEST: usize = 128;

/// Kinds of instructions by the code that they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every lane uses its own registers only, and it cannot fault.
    Plain,
    /// A load or store.
    Memory,
    /// An atomic operation.
    Atomic,
    /// It looks at the lanes of the subgroup as a mask, or at one of them.
    Across,
    /// It changes which lanes are active, or where the subgroup goes on.
    Control,
    /// Not at all: by the interpreter.
    Interpreted,
}

/// True for an instruction that only uses the lane's own registers, cannot fault, and is compiled.
fn is_plain(instruction: &Instruction, has_fma: bool) -> bool {
    let float = matches!(instruction.ty, Type::F32 | Type::F64);
    let integer = matches!(instruction.ty, Type::I32 | Type::I64);
    match instruction.op {
        Op::System => instruction.system().is_some(),
        Op::Arguments | Op::Index | Op::Pack | Op::WidenS | Op::WidenU | Op::Narrow => true,
        Op::Mov | Op::Select => instruction.ty != Type::F16,
        Op::Cmp | Op::Add | Op::Sub | Op::Mul | Op::Neg | Op::Abs | Op::Min | Op::Max => integer || float,
        Op::Div | Op::Floor | Op::Ceil | Op::Trunc | Op::RoundEven | Op::Sqrt => float,
        Op::Fma => float && has_fma,
        Op::MulHighS | Op::MulHighU | Op::DivS | Op::DivU | Op::RemS | Op::RemU | Op::MinU | Op::MaxU => integer,
        Op::And | Op::Or | Op::Xor | Op::Not => integer || instruction.ty == Type::B1,
        Op::Shl | Op::ShrU | Op::ShrS | Op::Rotl => integer,
        Op::CountOnes | Op::LeadingZeros | Op::TrailingZeros | Op::ReverseBits => integer,
        Op::Sext8 | Op::Sext16 => integer,
        Op::FromS | Op::FromU => float,
        Op::ToS | Op::ToU => integer && instruction.source() != Some(Type::F16),
        Op::Convert => float && instruction.source() != Some(Type::F16),
        _ => false,
    }
}

/// True for an operation whose sources and result are predicates or constants.
pub(crate) fn is_of_masks(instruction: &Instruction) -> bool {
    instruction.ty == Type::B1 && matches!(instruction.op, Op::Mov | Op::And | Op::Or | Op::Xor | Op::Not)
}

/// The kind of an instruction.
pub(crate) fn kind(instruction: &Instruction, has_fma: bool) -> Kind {
    match instruction.op {
        Op::Load | Op::Store | Op::LoadShared | Op::StoreShared | Op::LoadScratch | Op::StoreScratch => Kind::Memory,
        Op::If | Op::Else | Op::EndIf | Op::Loop | Op::Break | Op::BreakIf | Op::Continue | Op::ContinueIf => {
            Kind::Control
        }
        Op::Continuing | Op::EndLoop | Op::Call | Op::Ret => Kind::Control,
        Op::Ballot | Op::VoteAll | Op::VoteAny => Kind::Across,
        // A predicate would have to be spread.
        Op::BroadcastFirst if instruction.ty != Type::B1 => Kind::Across,
        Op::Atomic | Op::AtomicShared => match instruction.atomic() {
            Some(AtomicOperation::Add) if instruction.ty.is_float() => Kind::Interpreted,
            _ => Kind::Atomic,
        },
        _ if is_plain(instruction, has_fma) => Kind::Plain,
        _ => Kind::Interpreted,
    }
}

/// A stretch of instructions that is executed whole: plain ones, and one of another kind behind them that ends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u32,
    /// Plain instructions.
    pub(crate) plain: u32,
    /// The one behind them.
    pub(crate) tail: Option<Kind>,
}

impl Segment {
    /// Instructions in all.
    pub(crate) fn length(&self) -> u32 {
        self.plain + u32::from(self.tail.is_some())
    }
}

/// True at the instructions to which another than the one before leads.
fn labels(kernel: &Kernel) -> Vec<bool> {
    let mut labels = vec![false; kernel.code().len()];
    let mut mark = |at: u64| {
        if let Some(label) = usize::try_from(at).ok().and_then(|at| labels.get_mut(at)) {
            *label = true;
        }
    };
    kernel.functions().iter().for_each(|start| mark(u64::from(*start)));
    for instruction in kernel.code() {
        match instruction.op {
            Op::If | Op::Else | Op::Loop | Op::BreakIf | Op::ContinueIf => mark(instruction.immediate),
            Op::EndLoop => mark(instruction.immediate.saturating_add(1)),
            _ => {}
        }
    }
    labels
}

/// The segments of a program, by their first instruction.
pub(crate) fn segments(kernel: &Kernel, has_fma: bool) -> BTreeMap<u32, Segment> {
    let (code, labels) = (kernel.code(), labels(kernel));
    let label = |at: usize| labels.get(at).copied().unwrap_or(true);
    let kind_at = |at: usize| code.get(at).map(|instruction| kind(instruction, has_fma));
    let mut segments = BTreeMap::new();
    let mut start = 0;
    while start < code.len() {
        let mut end = start;
        while end - start < LONGEST && kind_at(end) == Some(Kind::Plain) && (end == start || !label(end)) {
            end += 1;
        }
        let tail = kind_at(end).filter(|kind| !matches!(kind, Kind::Plain | Kind::Interpreted));
        let tail = tail.filter(|_| (end == start || !label(end)) && end - start < LONGEST);
        let segment = Segment { start: start as u32, plain: (end - start) as u32, tail };
        if segment.length() != 0 {
            segments.insert(segment.start, segment);
        }
        start += segment.length().max(1) as usize;
    }
    segments
}

/// For each BREAK and CONTINUE, conditional or not, how many blocks are open in its loop.
pub(crate) fn open_in_loop(code: &[Instruction]) -> Vec<u32> {
    let mut open: Vec<u32> = Vec::new();
    let count = |instruction: &Instruction| {
        match instruction.op {
            Op::If => match open.last_mut() {
                Some(inside) => *inside += 1,
                None => return 0,
            },
            Op::EndIf => {
                if let Some(inside) = open.last_mut() {
                    *inside = inside.saturating_sub(1);
                }
            }
            Op::Loop => open.push(0),
            Op::EndLoop => {
                open.pop();
            }
            _ => {}
        }
        open.last().copied().unwrap_or(0)
    };
    code.iter().map(count).collect()
}

/// Bytes that the accesses of one lane and of a whole subgroup cover.
pub(crate) fn extent(format: MemoryFormat) -> (u64, u64) {
    let bytes = u64::from(format.bytes());
    (bytes, bytes * campanile_hw::isa::LANES as u64)
}
