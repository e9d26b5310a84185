//! One instruction: its 16 bytes, and its decoded form.

use super::INSTRUCTION_SIZE;
use super::modifier::{
    AtomicOperation, Comparison, MemoryFormat, Order, OrderWord, Reduction, Scope, SystemValue, Type,
};
use super::operation::{Immediate, ModifierKind, Op, Operand};

word! {
    /// The low half of an instruction. The high half is the constant.
    pub struct Word: u64 {
        /// An `Op` number.
        8 op: u8,
        /// A `Type` number.
        4 ty: u8,
        /// The operand `b` is the constant; its field is zero.
        1 constant: bool,
        /// Reserved, zero.
        3 zero: u8,
        /// The modifier, by the operation.
        8 modifier: u8,
        /// Scope and order, an `OrderWord`, where the operation has them.
        8 order: u8,
        /// Destination.
        8 dst: u8,
        /// First source.
        8 a: u8,
        /// Second source.
        8 b: u8,
        /// Third source.
        8 c: u8,
    }
}

numbers! {
    /// Which rule an instruction breaks.
    pub enum BadInstruction: u8 {
        /// No such operation.
        Operation = 1,
        /// A reserved bit or a field that the operation does not use is not zero.
        Reserved = 2,
        /// The operation does not exist for the type, or the type does not exist.
        Type = 3,
        /// The modifier does not exist, or not for the type.
        Modifier = 4,
        /// Scope or order do not exist.
        Order = 5,
        /// The constant does not fit.
        Constant = 6,
    }
}

/// A decoded instruction that obeys every rule that it can obey by itself. What depends on the program around it is checked by
/// [`Program::validate`](super::Program::validate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// The type.
    pub ty: Type,
    /// The modifier, a number of the kind that the operation's row says.
    pub modifier: u8,
    /// Scope and order, zero where the operation has none.
    pub order: OrderWord,
    /// Destination.
    pub dst: u8,
    /// First source.
    pub a: u8,
    /// Second source.
    pub b: u8,
    /// Third source.
    pub c: u8,
    /// True if the second source is `immediate`.
    pub constant: bool,
    /// The constant half.
    pub immediate: u64,
}

impl Instruction {
    /// An instruction whose other fields are zero.
    pub const fn new(op: Op, ty: Type) -> Self {
        let order = OrderWord::new();
        Self { op, ty, modifier: 0, order, dst: 0, a: 0, b: 0, c: 0, constant: false, immediate: 0 }
    }

    /// Reads an instruction.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn decode(bytes: &[u8; INSTRUCTION_SIZE]) -> Result<Self, BadInstruction> {
        let whole = u128::from_le_bytes(*bytes);
        let (word, immediate) = (Word::from_bits(whole as u64), (whole >> 64) as u64);
        let op = Op::from_number(word.op()).ok_or(BadInstruction::Operation)?;
        let ty = Type::from_number(word.ty()).ok_or(BadInstruction::Type)?;
        if word.zero() != 0 {
            return Err(BadInstruction::Reserved);
        }
        let instruction = Self {
            op,
            ty,
            modifier: word.modifier(),
            order: OrderWord::from_bits(word.order()),
            dst: word.dst(),
            a: word.a(),
            b: word.b(),
            c: word.c(),
            constant: word.constant(),
            immediate,
        };
        instruction.check()?;
        Ok(instruction)
    }

    /// The bytes of the instruction. Reading them back gives the instruction if [`Instruction::check`] accepts it.
    pub fn encode(&self) -> [u8; INSTRUCTION_SIZE] {
        let word = Word::new()
            .with_op(self.op as u8)
            .with_ty(self.ty as u8)
            .with_constant(self.constant)
            .with_modifier(self.modifier)
            .with_order(self.order.into_bits())
            .with_dst(self.dst)
            .with_a(self.a)
            .with_b(self.b)
            .with_c(self.c);
        (u128::from(word.into_bits()) | u128::from(self.immediate) << 64).to_le_bytes()
    }

    /// Checks what the instruction can be checked for by itself.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self) -> Result<(), BadInstruction> {
        let form = self.op.form();
        if !form.types.contains(self.ty) {
            return Err(BadInstruction::Type);
        }
        self.check_modifier(form.modifier)?;
        if form.ordered {
            self.order.parts().ok_or(BadInstruction::Order)?;
        } else if self.order.into_bits() != 0 {
            return Err(BadInstruction::Reserved);
        }
        let fields = [self.dst, self.a, self.b, self.c];
        let used = self.operands();
        if fields.iter().zip(used).any(|(field, operand)| operand == Operand::None && *field != 0) {
            return Err(BadInstruction::Reserved);
        }
        if self.constant && !matches!(form.operands[2], Operand::SameOrConstant | Operand::WordOrConstant) {
            return Err(BadInstruction::Reserved);
        }
        self.check_immediate(form.immediate)
    }

    /// The operands that the instruction has: those of the operation's row, but for a constant and what an atomic operation does not look at.
    pub fn operands(&self) -> [Operand; 4] {
        let mut operands = self.op.form().operands;
        if self.constant {
            operands[2] = Operand::None;
        }
        if let Some(atomic) = self.atomic() {
            if atomic == AtomicOperation::Load {
                operands[2] = Operand::None;
            }
            if atomic != AtomicOperation::CompareExchange {
                operands[3] = Operand::None;
            }
        }
        operands
    }

    fn check_modifier(&self, kind: ModifierKind) -> Result<(), BadInstruction> {
        let fits = match kind {
            ModifierKind::None => return if self.modifier == 0 { Ok(()) } else { Err(BadInstruction::Reserved) },
            ModifierKind::Comparison => self.comparison().is_some_and(|comparison| comparison.fits(self.ty)),
            ModifierKind::IntegerSource => matches!(self.source(), Some(Type::I32 | Type::I64)),
            ModifierKind::FloatSource => self.source().is_some_and(|source| source.is_float() && (source != self.ty)),
            ModifierKind::Memory => self.memory().is_some(),
            ModifierKind::Atomic => self.atomic().is_some_and(|atomic| atomic.fits(self.ty)),
            ModifierKind::Reduction => self.reduction().is_some_and(|reduction| reduction.fits(self.ty)),
            ModifierKind::System => self.system().is_some(),
        };
        if fits { Ok(()) } else { Err(BadInstruction::Modifier) }
    }

    fn check_immediate(&self, kind: Immediate) -> Result<(), BadInstruction> {
        let value = self.immediate;
        let bits = match kind {
            Immediate::Operand if !self.constant => 0,
            Immediate::Operand if self.op.form().operands[2] == Operand::WordOrConstant => 32,
            Immediate::Operand => self.ty.bits(),
            Immediate::Offset if value as i64 == i64::from(value as i32) => return Ok(()),
            Immediate::Offset => return Err(BadInstruction::Constant),
            Immediate::Stride | Immediate::Target | Immediate::Function => 32,
        };
        let rest = value.checked_shr(bits).unwrap_or(0);
        if rest == 0 { Ok(()) } else { Err(BadInstruction::Constant) }
    }

    fn modifier_if(&self, kind: ModifierKind) -> Option<u8> {
        (self.op.form().modifier == kind).then_some(self.modifier)
    }

    /// Relation that CMP tests; `None` for other operations.
    pub fn comparison(&self) -> Option<Comparison> {
        self.modifier_if(ModifierKind::Comparison).and_then(Comparison::from_number)
    }

    /// The type that a conversion converts from.
    pub fn source(&self) -> Option<Type> {
        let kind = self.op.form().modifier;
        matches!(kind, ModifierKind::IntegerSource | ModifierKind::FloatSource)
            .then_some(self.modifier)
            .and_then(Type::from_number)
    }

    /// Format of a load or store; `None` for other operations.
    pub fn memory(&self) -> Option<MemoryFormat> {
        self.modifier_if(ModifierKind::Memory).and_then(MemoryFormat::from_number)
    }

    /// Operation of an atomic access; `None` for other operations.
    pub fn atomic(&self) -> Option<AtomicOperation> {
        self.modifier_if(ModifierKind::Atomic).and_then(AtomicOperation::from_number)
    }

    /// Operator of a reduction or scan; `None` for other operations.
    pub fn reduction(&self) -> Option<Reduction> {
        self.modifier_if(ModifierKind::Reduction).and_then(Reduction::from_number)
    }

    /// Value that SYSTEM reads; `None` for other operations.
    pub fn system(&self) -> Option<SystemValue> {
        self.modifier_if(ModifierKind::System).and_then(SystemValue::from_number)
    }

    /// Scope and order, where the operation has them.
    pub fn ordering(&self) -> Option<(Scope, Order)> {
        if self.op.form().ordered { self.order.parts() } else { None }
    }

    /// File and number of each register that the instruction reads or writes: the operand, its first register, how many follow each other.
    pub fn registers(&self) -> [(Operand, u8, u32); 4] {
        let operands = self.operands();
        let fields = [self.dst, self.a, self.b, self.c];
        core::array::from_fn(|index| {
            let operand = self.file(operands[index]);
            let count =
                if operands[index] == Operand::Data { self.memory().map_or(1, MemoryFormat::registers) } else { 1 };
            (operand, fields[index], count)
        })
    }

    /// The file of an operand: `Predicate`, `Word`, `Double` or `None`.
    fn file(&self, operand: Operand) -> Operand {
        let by_type = |ty: Type| match ty {
            Type::None => Operand::None,
            Type::B1 => Operand::Predicate,
            Type::I32 | Type::F16 | Type::F32 => Operand::Word,
            Type::I64 | Type::F64 => Operand::Double,
        };
        match operand {
            Operand::None | Operand::Predicate | Operand::Word | Operand::Double => operand,
            Operand::WordOrConstant => Operand::Word,
            Operand::Same | Operand::SameOrConstant => by_type(self.ty),
            Operand::Source => self.source().map_or(Operand::None, by_type),
            Operand::Data if self.memory().is_some_and(MemoryFormat::is_double) => Operand::Double,
            Operand::Data => Operand::Word,
        }
    }
}
