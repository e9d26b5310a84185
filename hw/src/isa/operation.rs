//! The table of operations.

use super::modifier::{Type, Types};

/// Meaning of an operand field of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Nothing; the field is zero.
    None,
    /// A register of the instruction's type.
    Same,
    /// A register of the instruction's type, or a constant of it; field `b` only.
    SameOrConstant,
    /// A predicate.
    Predicate,
    /// A word.
    Word,
    /// A word, or a constant of 32 bits; field `b` only.
    WordOrConstant,
    /// A double.
    Double,
    /// A register of the type that the modifier names.
    Source,
    /// Registers as the memory format of the modifier says.
    Data,
}

/// Meaning of the modifier field of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifierKind {
    /// Nothing; the field is zero.
    None,
    /// A `Comparison` number.
    Comparison,
    /// A `Type` number: the integer type that is converted from.
    IntegerSource,
    /// A `Type` number: the floating-point type that is converted from.
    FloatSource,
    /// A `MemoryFormat` number.
    Memory,
    /// An `AtomicOperation` number.
    Atomic,
    /// A `Reduction` number.
    Reduction,
    /// A `SystemValue` number.
    System,
}

/// Meaning of the constant half of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Immediate {
    /// The constant operand if the instruction has one, otherwise zero.
    Operand,
    /// A signed 32-bit number, extended to 64 bits, that is added to the address.
    Offset,
    /// An unsigned 32-bit number that the index is multiplied by.
    Stride,
    /// Number of an instruction of the same function.
    Target,
    /// Number of a function.
    Function,
}

/// One row of the table of operations.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The operation.
    pub op: Op,
    /// Name of the operation, written as its variant of [`Op`].
    pub name: &'static str,
    /// Types that it may have.
    pub types: Types,
    /// Type of the modifier.
    pub modifier: ModifierKind,
    /// True if it has scope and order.
    pub ordered: bool,
    /// Destination, then the sources `a`, `b` and `c`.
    pub operands: [Operand; 4],
    /// Type of the constant half.
    pub immediate: Immediate,
    /// Meaning.
    pub doc: &'static str,
}

/// An operand in the short form of the table.
macro_rules! operand {
    (-) => {
        Operand::None
    };
    (t) => {
        Operand::Same
    };
    (tk) => {
        Operand::SameOrConstant
    };
    (p) => {
        Operand::Predicate
    };
    (w) => {
        Operand::Word
    };
    (wk) => {
        Operand::WordOrConstant
    };
    (d) => {
        Operand::Double
    };
    (s) => {
        Operand::Source
    };
    (m) => {
        Operand::Data
    };
}

macro_rules! operations {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident = $number:literal [$($ty:ident)*] ($dst:tt $a:tt $b:tt $c:tt) $modifier:ident $immediate:ident $($ordered:ident)?;
    )*) => {
        /// Number of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op { $( $(#[doc = $doc])* $name = $number, )* }

        /// Every operation, by number.
        pub const FORMS: &[Form] = &[$( Form {
            op: Op::$name,
            name: stringify!($name),
            types: Types::of(&[$(Type::$ty),*]),
            modifier: ModifierKind::$modifier,
            ordered: false $(|| { stringify!($ordered); true })?,
            operands: [operand!($dst), operand!($a), operand!($b), operand!($c)],
            immediate: Immediate::$immediate,
            doc: concat!($($doc),*),
        }, )*];

        impl Op {
            /// The operation with this number.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $( $number => Some(Self::$name), )*
                    _ => None,
                }
            }
        }
    };
}

// Operands: `t` a register of the type, `tk` that or a constant, `p` predicate, `w` word, `wk` word or constant, `d` double, `s` a register of the
// source type, `m` registers of the memory format.
operations! {
    /// Ends the active lanes. The last instruction of function 0; elsewhere the last of a block.
    Exit = 0x01 [] (- - - -) None Operand;
    /// Continues with the lanes whose predicate `a` is set, the others wait for ELSE or END_IF. Target: the ELSE or END_IF.
    If = 0x02 [] (- p - -) None Target;
    /// Continues with the lanes that waited since IF. Target: the END_IF.
    Else = 0x03 [] (- - - -) None Target;
    /// Continues with the lanes that came to IF and have not left the block.
    EndIf = 0x04 [] (- - - -) None Operand;
    /// Begins a loop. Target: the END_LOOP.
    Loop = 0x05 [] (- - - -) None Target;
    /// The active lanes leave the innermost loop. The last instruction of a block.
    Break = 0x06 [] (- - - -) None Operand;
    /// The lanes whose predicate `a` is set leave the innermost loop. Target: the ELSE, END_IF, CONTINUING or END_LOOP that ends the block of this instruction.
    BreakIf = 0x07 [] (- p - -) None Target;
    /// The active lanes wait for the CONTINUING of the innermost loop, or its END_LOOP if it has none. The last instruction of a block; not behind CONTINUING.
    Continue = 0x08 [] (- - - -) None Operand;
    /// The lanes whose predicate `a` is set wait as with CONTINUE. Target: as of BREAK_IF.
    ContinueIf = 0x09 [] (- p - -) None Target;
    /// Continues with all lanes that have not left the loop. At most one in a loop, directly in it.
    Continuing = 0x0a [] (- - - -) None Operand;
    /// The lanes that have not left the loop go to the instruction behind LOOP; without any, all that came to LOOP and still run go on here. Target: the LOOP.
    EndLoop = 0x0b [] (- - - -) None Target;
    /// Runs a function with a greater number. Registers are shared by all functions.
    Call = 0x0c [] (- - - -) None Function;
    /// The active lanes go back to behind the CALL. The last instruction of every function but function 0, and elsewhere the last of a block.
    Ret = 0x0d [] (- - - -) None Operand;
    /// The subgroup waits until every subgroup of the workgroup that still runs has come to a BARRIER, then orders memory.
    Barrier = 0x0e [] (- - - -) None Operand ordered;
    /// Orders memory.
    Fence = 0x0f [] (- - - -) None Operand ordered;

    /// Copies `b`.
    Mov = 0x10 [B1 I32 I64 F16 F32 F64] (t - tk -) None Operand;
    /// `a` where the predicate `c` is set, otherwise `b`.
    Select = 0x11 [B1 I32 I64 F16 F32 F64] (t t tk p) None Operand;
    /// Compares `a` with `b`.
    Cmp = 0x12 [I32 I64 F16 F32 F64] (p t tk -) Comparison Operand;
    /// Reads a number that the lane has by its place.
    System = 0x13 [] (w - - -) System Operand;
    /// Address of the argument block.
    Arguments = 0x14 [] (d - - -) None Operand;
    /// `a + b * stride`, with `b` unsigned: the address of an element.
    Index = 0x15 [] (d d w -) None Stride;
    /// `a` as the low half and `b` as the high half.
    Pack = 0x16 [] (d w w -) None Operand;

    /// The sum, modulo 2^n for integers.
    Add = 0x20 [I32 I64 F16 F32 F64] (t t tk -) None Operand;
    /// The difference `a - b`.
    Sub = 0x21 [I32 I64 F16 F32 F64] (t t tk -) None Operand;
    /// The product, modulo 2^n for integers.
    Mul = 0x22 [I32 I64 F16 F32 F64] (t t tk -) None Operand;
    /// The high half of the product of signed integers.
    MulHighS = 0x23 [I32 I64] (t t tk -) None Operand;
    /// The high half of the product of unsigned integers.
    MulHighU = 0x24 [I32 I64] (t t tk -) None Operand;
    /// The quotient `a / b` of floating-point numbers.
    Div = 0x25 [F16 F32 F64] (t t tk -) None Operand;
    /// The quotient of signed integers, towards zero. By 0: all ones. The smallest number by -1: the smallest number.
    DivS = 0x26 [I32 I64] (t t tk -) None Operand;
    /// The quotient of unsigned integers. By 0: all ones.
    DivU = 0x27 [I32 I64] (t t tk -) None Operand;
    /// The remainder of DIV_S, with the sign of `a`. By 0: `a`. The smallest number by -1: 0.
    RemS = 0x28 [I32 I64] (t t tk -) None Operand;
    /// The remainder of DIV_U. By 0: `a`.
    RemU = 0x29 [I32 I64] (t t tk -) None Operand;
    /// `a * b + c`, rounded once.
    Fma = 0x2a [F16 F32 F64] (t t t t) None Operand;
    /// `-a`.
    Neg = 0x2b [I32 I64 F16 F32 F64] (t t - -) None Operand;
    /// The absolute value; that of the smallest integer is itself.
    Abs = 0x2c [I32 I64 F16 F32 F64] (t t - -) None Operand;
    /// The smaller one of signed integers or floating-point numbers; of a NaN and a number the number; -0 is less than +0.
    Min = 0x2d [I32 I64 F16 F32 F64] (t t tk -) None Operand;
    /// The greater one, as MIN.
    Max = 0x2e [I32 I64 F16 F32 F64] (t t tk -) None Operand;
    /// The smaller one of unsigned integers.
    MinU = 0x2f [I32 I64] (t t tk -) None Operand;
    /// The greater one of unsigned integers.
    MaxU = 0x30 [I32 I64] (t t tk -) None Operand;

    /// Bitwise and.
    And = 0x38 [B1 I32 I64] (t t tk -) None Operand;
    /// Bitwise or.
    Or = 0x39 [B1 I32 I64] (t t tk -) None Operand;
    /// Bitwise exclusive or.
    Xor = 0x3a [B1 I32 I64] (t t tk -) None Operand;
    /// Bitwise not.
    Not = 0x3b [B1 I32 I64] (t t - -) None Operand;
    /// Shifts left, by `b` modulo the bits of the type, as the other shifts.
    Shl = 0x3c [I32 I64] (t t wk -) None Operand;
    /// Shifts right and fills with zeros.
    ShrU = 0x3d [I32 I64] (t t wk -) None Operand;
    /// Shifts right and fills with the sign.
    ShrS = 0x3e [I32 I64] (t t wk -) None Operand;
    /// Rotates left.
    Rotl = 0x3f [I32 I64] (t t wk -) None Operand;
    /// Number of bits that are set.
    CountOnes = 0x40 [I32 I64] (t t - -) None Operand;
    /// Number of zeros above the highest bit that is set; of 0 the bits of the type.
    LeadingZeros = 0x41 [I32 I64] (t t - -) None Operand;
    /// Number of zeros below the lowest bit that is set; of 0 the bits of the type.
    TrailingZeros = 0x42 [I32 I64] (t t - -) None Operand;
    /// The bits in reverse order.
    ReverseBits = 0x43 [I32 I64] (t t - -) None Operand;

    /// The low 8 bits, sign extended.
    Sext8 = 0x48 [I32 I64] (t t - -) None Operand;
    /// The low 16 bits, sign extended.
    Sext16 = 0x49 [I32 I64] (t t - -) None Operand;
    /// A word as a double, sign extended.
    WidenS = 0x4a [] (d w - -) None Operand;
    /// A word as a double, zero extended.
    WidenU = 0x4b [] (d w - -) None Operand;
    /// The low half of a double.
    Narrow = 0x4c [] (w d - -) None Operand;
    /// A signed integer as floating point, rounded to nearest even.
    FromS = 0x4d [F16 F32 F64] (t s - -) IntegerSource Operand;
    /// An unsigned integer as floating point, rounded to nearest even.
    FromU = 0x4e [F16 F32 F64] (t s - -) IntegerSource Operand;
    /// Floating point as a signed integer, rounded towards zero; what does not fit becomes the nearest that does, a NaN 0.
    ToS = 0x4f [I32 I64] (t s - -) FloatSource Operand;
    /// Floating point as an unsigned integer, as TO_S.
    ToU = 0x50 [I32 I64] (t s - -) FloatSource Operand;
    /// Floating point as another floating-point type, rounded to nearest even.
    Convert = 0x51 [F16 F32 F64] (t s - -) FloatSource Operand;

    /// The next integer below or equal.
    Floor = 0x58 [F16 F32 F64] (t t - -) None Operand;
    /// The next integer above or equal.
    Ceil = 0x59 [F16 F32 F64] (t t - -) None Operand;
    /// The next integer towards zero.
    Trunc = 0x5a [F16 F32 F64] (t t - -) None Operand;
    /// The nearest integer, of two the even one.
    RoundEven = 0x5b [F16 F32 F64] (t t - -) None Operand;
    /// The square root, correctly rounded.
    Sqrt = 0x5c [F16 F32 F64] (t t - -) None Operand;

    /// 2 to the power `a`.
    Exp2 = 0x60 [F16 F32 F64] (t t - -) None Operand;
    /// The logarithm to base 2.
    Log2 = 0x61 [F16 F32 F64] (t t - -) None Operand;
    /// e to the power `a`.
    Exp = 0x62 [F16 F32 F64] (t t - -) None Operand;
    /// The natural logarithm.
    Log = 0x63 [F16 F32 F64] (t t - -) None Operand;
    /// `a` to the power `b`.
    Pow = 0x64 [F16 F32 F64] (t t tk -) None Operand;
    /// The sine of an angle in radians.
    Sin = 0x65 [F16 F32 F64] (t t - -) None Operand;
    /// The cosine.
    Cos = 0x66 [F16 F32 F64] (t t - -) None Operand;
    /// The tangent.
    Tan = 0x67 [F16 F32 F64] (t t - -) None Operand;
    /// The angle whose sine is `a`.
    Asin = 0x68 [F16 F32 F64] (t t - -) None Operand;
    /// The angle whose cosine is `a`.
    Acos = 0x69 [F16 F32 F64] (t t - -) None Operand;
    /// The angle whose tangent is `a`.
    Atan = 0x6a [F16 F32 F64] (t t - -) None Operand;
    /// The angle of the point with ordinate `a` and abscissa `b`.
    Atan2 = 0x6b [F16 F32 F64] (t t tk -) None Operand;
    /// The hyperbolic sine.
    Sinh = 0x6c [F16 F32 F64] (t t - -) None Operand;
    /// The hyperbolic cosine.
    Cosh = 0x6d [F16 F32 F64] (t t - -) None Operand;
    /// The hyperbolic tangent.
    Tanh = 0x6e [F16 F32 F64] (t t - -) None Operand;
    /// The inverse hyperbolic sine.
    Asinh = 0x6f [F16 F32 F64] (t t - -) None Operand;
    /// The inverse hyperbolic cosine.
    Acosh = 0x70 [F16 F32 F64] (t t - -) None Operand;
    /// The inverse hyperbolic tangent.
    Atanh = 0x71 [F16 F32 F64] (t t - -) None Operand;
    /// The remainder of `a / b` with the quotient rounded towards zero, exact.
    Rem = 0x72 [F16 F32 F64] (t t tk -) None Operand;

    /// Loads from the GPU virtual address `a + offset`.
    Load = 0x80 [] (m d - -) Memory Offset;
    /// Stores `c` to the GPU virtual address `a + offset`.
    Store = 0x81 [] (- d - m) Memory Offset;
    /// Loads from byte `a + offset` of workgroup memory.
    LoadShared = 0x82 [] (m w - -) Memory Offset;
    /// Stores `c` to byte `a + offset` of workgroup memory.
    StoreShared = 0x83 [] (- w - m) Memory Offset;
    /// Loads from byte `a + offset` of the lane's scratch memory.
    LoadScratch = 0x84 [] (m w - -) Memory Offset;
    /// Stores `c` to byte `a + offset` of the lane's scratch memory.
    StoreScratch = 0x85 [] (- w - m) Memory Offset;
    /// Combines the value at the GPU virtual address `a + offset` with `b`, as one step; lanes one after the other, from lane 0 upwards.
    Atomic = 0x86 [I32 I64 F32 F64] (t d t t) Atomic Offset ordered;
    /// The same at byte `a + offset` of workgroup memory.
    AtomicShared = 0x87 [I32 I64 F32 F64] (t w t t) Atomic Offset ordered;

    /// Bit n is set if lane n is active and its predicate `a` is set.
    Ballot = 0x90 [] (w p - -) None Operand;
    /// Set if the predicate `a` is set in every active lane.
    VoteAll = 0x91 [] (p p - -) None Operand;
    /// Set if the predicate `a` is set in some active lane.
    VoteAny = 0x92 [] (p p - -) None Operand;
    /// `a` of the lane with number `b` modulo the lanes of a subgroup; 0 if that lane is not active.
    Shuffle = 0x93 [B1 I32 I64 F16 F32 F64] (t t wk -) None Operand;
    /// `a` of the lane whose number is the own one exclusive-or `b`, as SHUFFLE.
    ShuffleXor = 0x94 [B1 I32 I64 F16 F32 F64] (t t wk -) None Operand;
    /// `a` of the active lane with the smallest number.
    BroadcastFirst = 0x95 [B1 I32 I64 F16 F32 F64] (t t - -) None Operand;
    /// `a` of all active lanes, combined.
    Reduce = 0x96 [I32 I64 F16 F32 F64] (t t - -) Reduction Operand;
    /// `a` of the active lanes up to and including the own one, combined.
    ScanInclusive = 0x97 [I32 I64 F16 F32 F64] (t t - -) Reduction Operand;
    /// `a` of the active lanes before the own one, combined.
    ScanExclusive = 0x98 [I32 I64 F16 F32 F64] (t t - -) Reduction Operand;
}

/// Row of each number, 255 for none.
const ROWS: [u8; 256] = {
    let mut rows = [u8::MAX; 256];
    let mut index = 0;
    while index < FORMS.len() {
        rows[FORMS[index].op as usize] = index as u8;
        index += 1;
    }
    rows
};

impl Op {
    /// The operation's row of the table.
    pub const fn form(self) -> &'static Form {
        &FORMS[ROWS[self as usize] as usize]
    }
}
