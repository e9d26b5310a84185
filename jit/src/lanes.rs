//! Four lanes of registers as values of the code generator.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::types::{I8X16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{ConstantData, Endianness, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;

/// A word of four lanes, or a double of four lanes as two halves.
#[derive(Clone, Copy)]
pub(crate) enum Lanes {
    Words(Value),
    Doubles([Value; 2]),
}

/// Registers in memory: neither traps, nor aligned to a vector.
pub(crate) fn registers() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// The same bits as a scalar or vector of another type of the same size.
pub(crate) fn cast(b: &mut FunctionBuilder<'_>, ty: Type, value: Value) -> Value {
    if b.func.dfg.value_type(value) == ty {
        return value;
    }
    b.ins().bitcast(ty, MemFlagsData::new().with_endianness(Endianness::Little), value)
}

/// A vector with the same number in each element.
pub(crate) fn splat(b: &mut FunctionBuilder<'_>, ty: Type, bits: u64) -> Value {
    let scalar = if ty == I32X4 { I32 } else { I64 };
    let number = if ty == I32X4 { i64::from(bits as i32) } else { bits as i64 };
    let number = b.ins().iconst(scalar, Imm64::new(number & mask(scalar)));
    b.ins().splat(ty, number)
}

/// Bits that a constant of the type may have.
fn mask(ty: Type) -> i64 {
    if ty == I32 { 0xffff_ffff } else { -1 }
}

/// A value of four words.
pub(crate) fn words(b: &mut FunctionBuilder<'_>, words: [u32; 4]) -> Value {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let constant = b.func.dfg.constants.insert(ConstantData::from(bytes));
    b.ins().vconst(I32X4, constant)
}

/// Four of the eight words of two vectors, as words, by their numbers.
pub(crate) fn shuffle_words(b: &mut FunctionBuilder<'_>, low: Value, high: Value, order: [u8; 4]) -> Value {
    let (low, high) = (cast(b, I8X16, low), cast(b, I8X16, high));
    let bytes: Vec<u8> = order.iter().flat_map(|word| word * 4..word * 4 + 4).collect();
    let order = b.func.dfg.immediates.push(ConstantData::from(bytes));
    let shuffled = b.ins().shuffle(low, high, order);
    cast(b, I32X4, shuffled)
}

/// The low halves of doubles as words.
pub(crate) fn narrow(b: &mut FunctionBuilder<'_>, [low, high]: [Value; 2]) -> Value {
    shuffle_words(b, low, high, [0, 2, 4, 6])
}

/// Words as doubles, with zeros above.
pub(crate) fn widen_unsigned(b: &mut FunctionBuilder<'_>, word: Value) -> [Value; 2] {
    [b.ins().uwiden_low(word), b.ins().uwiden_high(word)]
}

/// Words as doubles, with the sign above. A mask of words becomes one of doubles.
pub(crate) fn widen_signed(b: &mut FunctionBuilder<'_>, word: Value) -> [Value; 2] {
    [b.ins().swiden_low(word), b.ins().swiden_high(word)]
}

/// In each element all ones if one of the bits that `bits` has there is set in the number.
pub(crate) fn mask_of_bits(b: &mut FunctionBuilder<'_>, number: Value) -> Value {
    let bits = words(b, [1, 2, 4, 8]);
    let all = b.ins().splat(I32X4, number);
    let own = b.ins().band(all, bits);
    b.ins().icmp(IntCC::Equal, own, bits)
}

impl Lanes {
    /// The vectors: one of words, two of doubles.
    pub(crate) fn vectors(self) -> Vec<Value> {
        match self {
            Self::Words(word) => vec![word],
            Self::Doubles(halves) => halves.to_vec(),
        }
    }

    /// Words if it is one vector.
    pub(crate) fn from_vectors(vectors: &[Value]) -> Self {
        match *vectors {
            [low, high] => Self::Doubles([low, high]),
            [word, ..] => Self::Words(word),
            [] => unreachable!("a register has one vector or two"),
        }
    }

    /// The result of an operation on the vectors of registers, one after the other.
    pub(crate) fn each(
        b: &mut FunctionBuilder<'_>,
        sources: &[Self],
        operation: &mut dyn FnMut(&mut FunctionBuilder<'_>, &[Value]) -> Value,
    ) -> Self {
        let sources: Vec<Vec<Value>> = sources.iter().map(|source| source.vectors()).collect();
        let count = sources.first().map_or(0, Vec::len);
        let results: Vec<Value> = (0..count)
            .map(|place| {
                let vectors: Vec<Value> = sources.iter().filter_map(|vectors| vectors.get(place).copied()).collect();
                operation(b, &vectors)
            })
            .collect();
        Self::from_vectors(&results)
    }

    /// The scalars of the four lanes.
    pub(crate) fn scalars(self, b: &mut FunctionBuilder<'_>) -> [Value; 4] {
        match self {
            Self::Words(word) => [0, 1, 2, 3].map(|lane| b.ins().extractlane(word, lane)),
            Self::Doubles([low, high]) => {
                [(low, 0), (low, 1), (high, 0), (high, 1)].map(|(half, lane)| b.ins().extractlane(half, lane))
            }
        }
    }

    /// A register from the scalars of four lanes: words of `I32`, doubles of `I64`.
    pub(crate) fn from_scalars(b: &mut FunctionBuilder<'_>, lanes: [Value; 4]) -> Self {
        let double = b.func.dfg.value_type(lanes[0]) == I64;
        let ty = if double { I64X2 } else { I32X4 };
        let mut vector = |lanes: &[Value]| {
            let mut all = b.ins().splat(ty, lanes[0]);
            for (place, lane) in (1..).zip(lanes.get(1..).unwrap_or(&[])) {
                all = b.ins().insertlane(all, *lane, place);
            }
            all
        };
        if double {
            let (low, high) = lanes.split_at(2);
            Self::Doubles([vector(low), vector(high)])
        } else {
            Self::Words(vector(&lanes))
        }
    }

    /// The result of an operation on the scalars of each lane.
    pub(crate) fn each_lane(
        b: &mut FunctionBuilder<'_>,
        sources: &[Self],
        operation: &mut dyn FnMut(&mut FunctionBuilder<'_>, &[Value]) -> Value,
    ) -> Self {
        let sources: Vec<[Value; 4]> = sources.iter().map(|source| source.scalars(b)).collect();
        let lanes = [0, 1, 2, 3].map(|lane| {
            let own: Vec<Value> = sources.iter().map(|scalars: &[Value; 4]| scalars[lane]).collect();
            operation(b, &own)
        });
        Self::from_scalars(b, lanes)
    }
}
