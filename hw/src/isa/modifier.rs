//! Types of instructions, and the modifiers that refine an operation.

numbers! {
    /// Type of an instruction: which file its operands lie in, and how they are read.
    pub enum Type: u8 {
        /// The operation has no type, or fixes the files of its operands itself.
        None = 0,
        /// One bit, in a predicate.
        B1 = 1,
        /// 32-bit integer, in a word.
        I32 = 2,
        /// 64-bit integer, in a double.
        I64 = 3,
        /// IEEE 754 binary16, in the low half of a word. A result has zeros in the high half, except what MOV, SELECT, BROADCAST_FIRST, SHUFFLE and SHUFFLE_XOR move, which are all 32 bits.
        F16 = 4,
        /// IEEE 754 binary32, in a word.
        F32 = 5,
        /// IEEE 754 binary64, in a double.
        F64 = 6,
    }
}

impl Type {
    /// True for the three floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Bits that a value has; 0 without a type.
    pub const fn bits(self) -> u32 {
        match self {
            Self::None => 0,
            Self::B1 => 1,
            Self::F16 => 16,
            Self::I32 | Self::F32 => 32,
            Self::I64 | Self::F64 => 64,
        }
    }
}

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// The set of these types.
    pub const fn of(types: &[Type]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < types.len() {
            bits |= 1 << types[index] as u8;
            index += 1;
        }
        // An operation without a list of types has the type `None`.
        Self(if bits == 0 { 1 } else { bits })
    }

    /// True if the type is in the set.
    pub const fn contains(self, ty: Type) -> bool {
        self.0 >> ty as u8 & 1 != 0
    }
}

numbers! {
    /// What CMP compares for. A comparison with a NaN is false, that for Ne true.
    pub enum Comparison: u8 {
        /// Equal.
        Eq = 0,
        /// Not equal.
        Ne = 1,
        /// Less, signed.
        Lt = 2,
        /// Less or equal, signed.
        Le = 3,
        /// Greater, signed.
        Gt = 4,
        /// Greater or equal, signed.
        Ge = 5,
        /// Less, unsigned; integers only, as those below.
        LtU = 6,
        /// Less or equal, unsigned.
        LeU = 7,
        /// Greater, unsigned.
        GtU = 8,
        /// Greater or equal, unsigned.
        GeU = 9,
    }
}

impl Comparison {
    /// True if values of this type can be compared so.
    pub const fn fits(self, ty: Type) -> bool {
        !(ty.is_float() && self as u8 >= Self::LtU as u8)
    }
}

numbers! {
    /// What a load or store moves. Each element has to be aligned to its own size.
    pub enum MemoryFormat: u8 {
        /// 8 bits; a load fills a word with zeros, a store takes the low bits of a word.
        U8 = 0,
        /// 8 bits; a load extends the sign.
        S8 = 1,
        /// 16 bits; a load fills a word with zeros.
        U16 = 2,
        /// 16 bits; a load extends the sign.
        S16 = 3,
        /// A word.
        W1 = 4,
        /// Two words in consecutive registers.
        W2 = 5,
        /// Three words in consecutive registers.
        W3 = 6,
        /// Four words in consecutive registers.
        W4 = 7,
        /// A double.
        D1 = 8,
        /// Two doubles in consecutive registers.
        D2 = 9,
    }
}

impl MemoryFormat {
    /// Registers that it fills, consecutive ones.
    pub const fn registers(self) -> u32 {
        match self {
            Self::W2 | Self::D2 => 2,
            Self::W3 => 3,
            Self::W4 => 4,
            _ => 1,
        }
    }

    /// Bytes of one element.
    pub const fn element(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 => 2,
            Self::W1 | Self::W2 | Self::W3 | Self::W4 => 4,
            Self::D1 | Self::D2 => 8,
        }
    }

    /// Bytes in all.
    pub const fn bytes(self) -> u32 {
        self.element() * self.registers()
    }

    /// True if the registers are doubles.
    pub const fn is_double(self) -> bool {
        matches!(self, Self::D1 | Self::D2)
    }
}

numbers! {
    /// What an atomic operation stores; the destination receives the value that was there before.
    pub enum AtomicOperation: u8 {
        /// The sum; the only one for floating point beside Exchange and Load.
        Add = 0,
        /// The smaller one, signed.
        MinS = 1,
        /// The greater one, signed.
        MaxS = 2,
        /// The smaller one, unsigned.
        MinU = 3,
        /// The greater one, unsigned.
        MaxU = 4,
        /// Bitwise and.
        And = 5,
        /// Bitwise or.
        Or = 6,
        /// Bitwise exclusive or.
        Xor = 7,
        /// The operand.
        Exchange = 8,
        /// The operand, if the value there equals the comparand in `c`; bits are compared. Integers only.
        CompareExchange = 9,
        /// Nothing: an atomic load. The operand is not looked at.
        Load = 10,
    }
}

impl AtomicOperation {
    /// True if values of this type can be combined so.
    pub const fn fits(self, ty: Type) -> bool {
        !ty.is_float() || matches!(self, Self::Add | Self::Exchange | Self::Load)
    }
}

numbers! {
    /// How a reduction or scan combines the values of the active lanes, in the order of the lanes.
    pub enum Reduction: u8 {
        /// The sum, from 0; for floating point from -0.
        Add = 0,
        /// The product, from 1.
        Mul = 1,
        /// The smallest, signed or floating point, from the greatest value of the type or +infinity.
        Min = 2,
        /// The greatest, signed or floating point, from the smallest value of the type or -infinity.
        Max = 3,
        /// The smallest, unsigned; integers only, as those below.
        MinU = 4,
        /// The greatest, unsigned.
        MaxU = 5,
        /// Bitwise and.
        And = 6,
        /// Bitwise or.
        Or = 7,
        /// Bitwise exclusive or.
        Xor = 8,
    }
}

impl Reduction {
    /// True if values of this type can be combined so.
    pub const fn fits(self, ty: Type) -> bool {
        !ty.is_float() || self as u8 <= Self::Max as u8
    }
}

numbers! {
    /// Value that SYSTEM reads.
    pub enum SystemValue: u8 {
        /// Place of the lane in its workgroup, first dimension.
        LocalIdX = 0,
        /// Second dimension.
        LocalIdY = 1,
        /// Third dimension.
        LocalIdZ = 2,
        /// Place of the workgroup in the grid, first dimension.
        WorkgroupIdX = 3,
        /// Second dimension.
        WorkgroupIdY = 4,
        /// Third dimension.
        WorkgroupIdZ = 5,
        /// Place of the lane in the grid: place of the workgroup times its size plus place of the lane, modulo 2^32; first dimension.
        GlobalIdX = 6,
        /// Second dimension.
        GlobalIdY = 7,
        /// Third dimension.
        GlobalIdZ = 8,
        /// Lanes of a workgroup in the first dimension.
        WorkgroupSizeX = 9,
        /// Second dimension.
        WorkgroupSizeY = 10,
        /// Third dimension.
        WorkgroupSizeZ = 11,
        /// Workgroups of the grid in the first dimension.
        WorkgroupCountX = 12,
        /// Second dimension.
        WorkgroupCountY = 13,
        /// Third dimension.
        WorkgroupCountZ = 14,
        /// Number of the lane in its workgroup, the first dimension counting fastest.
        LocalIndex = 15,
        /// Number of the subgroup in its workgroup: LocalIndex divided by the lanes of a subgroup.
        SubgroupId = 16,
        /// Subgroups of the workgroup.
        SubgroupCount = 17,
        /// Number of the lane in its subgroup.
        LaneId = 18,
    }
}

numbers! {
    /// Observers for which an operation is ordered.
    pub enum Scope: u8 {
        /// The lanes of the subgroup.
        Subgroup = 0,
        /// The lanes of the workgroup.
        Workgroup = 1,
        /// Everything that runs on this function.
        Device = 2,
        /// The host's processors and other functions too.
        System = 3,
    }
}

numbers! {
    /// What an atomic operation, a FENCE or a BARRIER orders.
    pub enum Order: u8 {
        /// Nothing but the location itself.
        Relaxed = 0,
        /// Later accesses stay behind the operation.
        Acquire = 1,
        /// Earlier accesses stay before the operation.
        Release = 2,
        /// Both.
        AcquireRelease = 3,
        /// Both, in one order of all such operations.
        SequentiallyConsistent = 4,
    }
}

word! {
    /// Scope and order of a memory operation.
    pub struct OrderWord: u8 {
        /// A `Scope` number.
        2 scope_number: u8,
        /// An `Order` number.
        3 order_number: u8,
        reserved 3 as u8,
    }
}

impl OrderWord {
    /// The word of a scope and an order.
    pub const fn of(scope: Scope, order: Order) -> Self {
        Self::new().with_scope_number(scope as u8).with_order_number(order as u8)
    }

    /// Scope and order, if the word is legal.
    pub const fn parts(self) -> Option<(Scope, Order)> {
        if self.into_bits() >> 5 != 0 {
            return None;
        }
        match (Scope::from_number(self.scope_number()), Order::from_number(self.order_number())) {
            (Some(scope), Some(order)) => Some((scope, order)),
            _ => None,
        }
    }
}
