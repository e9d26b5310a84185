//! Instructions of SPIR-V as instructions over virtual registers: globals, composites, pointers, and where everything else is done.

use std::collections::{HashMap, HashSet};

use campanile_hw::isa::{Comparison, MemoryFormat, Op as I, Type as T};
use rspirv::spirv::{BuiltIn, Decoration, MemoryAccess, Op, StorageClass};

use crate::constant::constant;
use crate::error::{Error, Result, limit, malformed, unsupported_form};
use crate::ir::{Builder, Class, Inst as Ir, Src, V};
use crate::module::{Module, storage_class};
use crate::options::{ArgumentLayout, Options};
use crate::promotion::{Attempt, Findings};
use crate::read::Inst;
use crate::types::{Scalar, Type, Types};
use crate::value::{Place, Pointer, Value};

/// Most scalars of a variable in registers.
const PROMOTED_MAX: u32 = 64;
/// Most scalars that variables have in registers at once whose indices are constant only after calls are put in place and loops are unrolled: half of a file,
/// so that values have the other half.
const TENTATIVE_MAX: u32 = 128;

/// Bytes of the accesses that are compared with an address which is computed at the beginning of the program: those of scalars, and of vectors of two and of four.
const WIDTHS: [u64; 3] = [4, 8, 16];

/// A variable in registers.
pub(crate) struct Variable {
    id: u32,
    registers: Vec<(V, Class)>,
    /// True if it lies in memory should an index turn out not to be constant.
    is_tentative: bool,
}

/// A loop around the instruction that is lowered, which is not unrolled.
pub(crate) struct Around {
    pub(crate) header: u32,
    /// Registers that it may write, of those that were there before.
    pub(crate) writes: HashSet<V>,
    /// The first register that was not.
    pub(crate) first: V,
}

/// A module on its way into the tree.
pub(crate) struct Lower<'m> {
    pub(crate) module: &'m Module,
    pub(crate) types: &'m Types,
    pub(crate) options: &'m Options,
    pub(crate) layout: &'m ArgumentLayout,
    pub(crate) ir: Builder,
    pub(crate) values: HashMap<u32, Value>,
    /// Types of ids.
    pub(crate) ids: HashMap<u32, u32>,
    pub(crate) phis: HashMap<u32, Vec<V>>,
    pub(crate) calls: Vec<u32>,
    /// Address and size of the descriptors that were loaded at the beginning.
    pub(crate) descriptors: HashMap<(V, u64), (V, V)>,
    /// Place of the first workgroup, where that is not 0.
    pub(crate) workgroup_base: Option<V>,
    variables: Vec<Variable>,
    pub(crate) attempt: &'m Attempt,
    pub(crate) findings: Findings,
    /// Loops around the place that is lowered, the innermost last.
    pub(crate) around: Vec<Around>,
    /// Scalars of variables in registers for as long as their indices are found to be constant.
    pub(crate) tentative: u32,
    /// Loops to be unrolled around the place that is lowered, the work that went into such, and the nodes of those that are.
    pub(crate) turning: u32,
    pub(crate) work: usize,
    pub(crate) unrolled_nodes: usize,
    /// Variables of the module in registers.
    pub(crate) private: Vec<usize>,
    pub(crate) shared: u32,
    /// Bytes of scratch memory that variables have at this place.
    pub(crate) scratch: u32,
    /// The most that they have anywhere.
    pub(crate) scratch_most: u32,
}

impl<'m> Lower<'m> {
    pub(crate) fn new(
        module: &'m Module,
        options: &'m Options,
        layout: &'m ArgumentLayout,
        attempt: &'m Attempt,
    ) -> Self {
        let mut ir = Builder::new();
        ir.held.is_off = attempt.is_plain;
        Self {
            module,
            types: &module.types,
            options,
            layout,
            ir,
            values: HashMap::new(),
            ids: HashMap::new(),
            phis: HashMap::new(),
            calls: Vec::new(),
            descriptors: HashMap::new(),
            workgroup_base: None,
            variables: Vec::new(),
            attempt,
            findings: Findings::default(),
            around: Vec::new(),
            tentative: 0,
            turning: 0,
            work: 0,
            unrolled_nodes: 0,
            private: Vec::new(),
            shared: 0,
            scratch: 0,
            scratch_most: 0,
        }
    }

    /// Loads the place of the first workgroup and the descriptors of bindings that are no arrays, once.
    pub(crate) fn prologue(&mut self) -> Result<()> {
        if let Some(offset) = self.options.workgroup_base {
            let arguments = self.arguments()?;
            self.workgroup_base = Some(self.fetch(arguments, u64::from(offset), MemoryFormat::W3)?);
        }
        let layout = self.layout;
        for descriptor in layout.descriptors.iter().filter(|descriptor| descriptor.count == 1) {
            let arguments = self.arguments()?;
            let pointer = self.descriptor(descriptor.offset, 1, Src::Const(0), 0)?;
            if let Place::Buffer { base: Src::Reg(base), size: Src::Reg(size), .. } = pointer.place {
                self.descriptors.insert((arguments, u64::from(descriptor.offset)), (base, size));
                // Accesses in whatever block find these, and what none of them uses goes again.
                for bytes in WIDTHS.into_iter().filter(|_| self.options.robust) {
                    self.last(Src::Reg(base), Src::Reg(size), bytes)?;
                }
            }
        }
        Ok(())
    }

    /// The value of an id; an error if the id has none here.
    pub(crate) fn value(&self, id: u32) -> Result<&Value> {
        self.values.get(&id).ok_or_else(|| malformed(format!("%{id} has no value here")))
    }

    /// The scalars of an id.
    pub(crate) fn data(&mut self, id: u32) -> Result<Vec<Src>> {
        match self.value(id)? {
            Value::Data(data) => Ok(data.clone()),
            Value::Pointer(pointer) => {
                let pointer = pointer.clone();
                Ok(vec![self.address(&pointer)?])
            }
            Value::Opaque(_) => Err(malformed(format!("%{id} is an image or a sampler"))),
        }
    }

    /// The one scalar of an id.
    pub(crate) fn single(&mut self, id: u32) -> Result<Src> {
        self.data(id)?.first().copied().ok_or_else(|| malformed(format!("%{id} is empty")))
    }

    /// The pointer that an id is.
    pub(crate) fn pointer(&mut self, id: u32) -> Result<Pointer> {
        if let Value::Pointer(pointer) = self.value(id)? {
            return Ok(pointer.clone());
        }
        let ty = self.ids.get(&id).copied().ok_or_else(|| malformed(format!("%{id} has no type")))?;
        match self.types.get(ty)? {
            Type::Pointer { class: StorageClass::PhysicalStorageBuffer, to } => {
                let to = *to;
                Ok(Pointer::new(Place::Address(self.single(id)?, 0), to, true))
            }
            _ => Err(malformed(format!("%{id} is not a pointer"))),
        }
    }

    /// The constant integer that an id is.
    pub(crate) fn constant(&self, id: u32) -> Result<u64> {
        match self.values.get(&id) {
            Some(Value::Data(data)) => data.first().and_then(|src| src.constant()),
            _ => None,
        }
        .ok_or_else(|| malformed(format!("%{id} is not a constant")))
    }

    /// Scalars of a result; none of void.
    pub(crate) fn result_scalars(&self, ty: u32) -> Result<Vec<Scalar>> {
        match self.types.get(ty)? {
            Type::Void => Ok(Vec::new()),
            _ => self.types.scalars(ty).map(<[Scalar]>::to_vec),
        }
    }

    pub(crate) fn set(&mut self, inst: &Inst, data: Vec<Src>) -> Result<()> {
        if data.len() as u32 != self.types.count(inst.ty)? {
            return Err(malformed(format!(
                "Op{:?} %{} has a result of another type than its operands",
                inst.op, inst.id
            )));
        }
        self.count_work(data.len())?;
        self.values.insert(inst.id, Value::Data(data));
        Ok(())
    }

    /// Registers as a value that is read here.
    pub(crate) fn set_registers(&mut self, id: u32, registers: &[V]) {
        let read = |register: &V| {
            self.ir.settle(*register);
            self.ir.held(*register)
        };
        let data = registers.iter().map(read).collect();
        self.values.insert(id, Value::Data(data));
    }

    pub(crate) fn variable_register(&self, variable: usize, index: u32) -> Result<(V, Class)> {
        let variable = self.variables.get(variable).and_then(|variable| variable.registers.get(index as usize));
        variable.copied().ok_or_else(|| malformed("an access behind a variable"))
    }

    /// All registers of a variable.
    pub(crate) fn variable_registers(&self, variable: usize) -> impl Iterator<Item = V> {
        self.variables.get(variable).into_iter().flat_map(|variable| &variable.registers).map(|register| register.0)
    }

    /// True if a variable lies in registers only for as long as all indices into it are found to be constant.
    pub(crate) fn is_tentative(&self, variable: usize) -> bool {
        self.variables.get(variable).is_some_and(|variable| variable.is_tentative)
    }

    /// Notes an index into a variable in registers that is not constant, and which loops may make it so when they are unrolled.
    pub(crate) fn found_dynamic(&mut self, variable: usize, index: Src) {
        let loops = self.counting(index);
        let id = self.variables.get(variable).map(|variable| variable.id);
        self.findings.dynamic.extend(id.map(|id| (id, loops)));
    }

    /// A constant, type or variable of the module.
    pub(crate) fn global(&mut self, inst: &Inst) -> Result<()> {
        if inst.ty != 0 {
            self.ids.insert(inst.id, inst.ty);
        }
        match inst.op {
            Op::Variable => self.global_variable(inst),
            Op::SpecConstantOp => {
                let inner = inst.specialized()?;
                self.instruction(&inner)
            }
            Op::ExtInst => self.instruction(inst),
            _ => constant(self.types, self.options, inst, &mut self.values),
        }
    }

    fn global_variable(&mut self, inst: &Inst) -> Result<()> {
        let class = storage_class(inst.arg(0)?)?;
        let Type::Pointer { to, .. } = *self.types.get(inst.ty)? else {
            return Err(malformed(format!("the variable %{} is not a pointer", inst.id)));
        };
        let pointer = match class {
            StorageClass::StorageBuffer | StorageClass::Uniform | StorageClass::UniformConstant => {
                let place = self.layout.descriptors.iter().find(|descriptor| descriptor.variable == inst.id);
                // A variable that nothing uses has no place.
                let Some(descriptor) = place else { return Ok(()) };
                let (offset, count) = (descriptor.offset, descriptor.count);
                match self.types.get(to)? {
                    Type::Array { .. } | Type::RuntimeArray { .. } => {
                        Pointer::new(Place::Descriptors { offset, count }, to, true)
                    }
                    _ => self.descriptor(offset, 1, Src::Const(0), to)?,
                }
            }
            StorageClass::PushConstant => {
                let arguments = Src::Reg(self.arguments()?);
                let offset = i64::from(self.layout.push_constants.start);
                Pointer::new(Place::Address(arguments, offset), to, true)
            }
            StorageClass::Workgroup => {
                let (align, size) = self.types.natural(to)?;
                let start = self.shared.next_multiple_of(align.max(4));
                self.shared = start.checked_add(size).ok_or_else(|| limit("workgroup memory"))?;
                Pointer::new(Place::Shared(Src::Const(0), start), to, false)
            }
            StorageClass::Private => {
                let known = self.variables.len();
                self.private.push(known);
                return self.local_variable(inst);
            }
            StorageClass::Input => {
                match self.types.decoration(inst.id, Decoration::BuiltIn).and_then(BuiltIn::from_u32) {
                    Some(which) => Pointer::new(Place::BuiltIn(which, None), to, false),
                    None => return Err(unsupported_form(Op::Variable, "as an input that is not a built-in")),
                }
            }
            other => return Err(unsupported_form(Op::Variable, format!("of the storage class {other:?}"))),
        };
        self.values.insert(inst.id, Value::Pointer(pointer));
        if class == StorageClass::Workgroup && inst.args.len() > 1 {
            // Workgroup memory is zero when a workgroup starts, and OpConstantNull is the only initializer that there may be.
            return Ok(());
        }
        Ok(())
    }

    /// A Function or Private variable.
    fn local_variable(&mut self, inst: &Inst) -> Result<()> {
        let Type::Pointer { to, .. } = *self.types.get(inst.ty)? else {
            return Err(malformed(format!("the variable %{} is not a pointer", inst.id)));
        };
        let is_tentative = self.attempt.tentative.contains(&inst.id);
        let in_memory = if is_tentative {
            let most = PROMOTED_MAX.min(TENTATIVE_MAX.saturating_sub(self.tentative));
            self.types.count(to).map_or(true, |count| count > most)
        } else {
            self.attempt.in_memory.contains(&inst.id) || self.types.count(to)? > PROMOTED_MAX
        };
        let place = if in_memory {
            let (align, size) = self.types.natural(to)?;
            let start = self.scratch.next_multiple_of(align.max(4));
            self.scratch = start.checked_add(size).ok_or_else(|| limit("4 GiB of private memory of a lane"))?;
            self.scratch_most = self.scratch_most.max(self.scratch);
            Place::Scratch(Src::Const(0), start)
        } else {
            let scalars = self.types.scalars(to)?.to_vec();
            let registers = scalars.iter().map(|scalar| (self.ir.variable(scalar.class()), scalar.class())).collect();
            if is_tentative {
                self.tentative += scalars.len() as u32;
            }
            self.variables.push(Variable { id: inst.id, registers, is_tentative });
            Place::Registers { first: 0, variable: self.variables.len() - 1 }
        };
        let pointer = Pointer::new(place, to, false);
        self.values.insert(inst.id, Value::Pointer(pointer.clone()));
        match inst.args.get(1) {
            Some(initializer) => {
                let data = self.data(*initializer)?;
                self.store(&pointer, &data)
            }
            None => self.undefined(&pointer.place),
        }
    }

    /// Says that the registers of a variable hold nothing yet.
    fn undefined(&mut self, place: &Place) -> Result<()> {
        if let Place::Registers { variable, .. } = place {
            let registers = self.variables.get(*variable).map(|variable| variable.registers.clone());
            for (register, class) in registers.unwrap_or_default() {
                self.ir.emit(Ir { dst: Some(register), ..Ir::new(I::Mov, class.ty()) })?;
            }
        }
        Ok(())
    }

    /// An instruction of a function, or one that OpSpecConstantOp evaluates.
    pub(crate) fn instruction(&mut self, inst: &Inst) -> Result<()> {
        if inst.ty != 0 {
            self.ids.insert(inst.id, inst.ty);
        }
        match inst.op {
            Op::Load | Op::Store if self.module.endless.contains(&inst.arg(0)?) => self.endless(inst),
            Op::Nop | Op::Name | Op::AssumeTrueKHR => Ok(()),
            Op::Undef => {
                let count = self.types.count(inst.ty)? as usize;
                self.set(inst, vec![Src::Const(0); count])
            }
            Op::FunctionCall => self.call(inst),
            Op::Variable => self.local_variable(inst),
            Op::Load => {
                check_access(inst, 1)?;
                let pointer = self.pointer(inst.arg(0)?)?;
                if let Some(opaque) = self.opaque(&pointer)? {
                    self.values.insert(inst.id, Value::Opaque(opaque));
                    return Ok(());
                }
                let data = self.load(&pointer)?;
                self.set(inst, data)
            }
            Op::Store => {
                check_access(inst, 2)?;
                let pointer = self.pointer(inst.arg(0)?)?;
                let data = self.data(inst.arg(1)?)?;
                self.store(&pointer, &data)
            }
            Op::CopyMemory => {
                let (to, from) = (self.pointer(inst.arg(0)?)?, self.pointer(inst.arg(1)?)?);
                let data = self.load(&from)?;
                self.store(&to, &data)
            }
            Op::AccessChain | Op::InBoundsAccessChain => self.access_chain(inst, 1),
            Op::PtrAccessChain | Op::InBoundsPtrAccessChain => self.access_chain(inst, 2),
            Op::ArrayLength => {
                let pointer = self.pointer(inst.arg(0)?)?;
                let length = self.array_length(&pointer, inst.arg(1)?)?;
                self.set(inst, vec![length])
            }
            Op::CopyObject | Op::CopyLogical | Op::ExpectKHR => {
                let value = self.value(inst.arg(0)?)?.clone();
                self.values.insert(inst.id, value);
                Ok(())
            }
            Op::ConvertPtrToU => {
                let pointer = self.pointer(inst.arg(0)?)?;
                let address = self.address(&pointer)?;
                self.set(inst, vec![address])
            }
            Op::ConvertUToPtr => {
                let address = self.single(inst.arg(0)?)?;
                self.set(inst, vec![address])
            }
            Op::ControlBarrier | Op::MemoryBarrier => self.barrier(inst),
            op if format!("{op:?}").contains("Image") => self.image_instruction(inst),
            _ => self.composite(inst),
        }
    }

    /// A load from or store to a count of iterations that never ends: it is what it was at the beginning.
    fn endless(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::Load => self.set(inst, vec![Src::Const(u64::from(u32::MAX)); 2]),
            _ => Ok(()),
        }
    }

    fn access_chain(&mut self, inst: &Inst, first: usize) -> Result<()> {
        let mut pointer = self.pointer(inst.arg(0)?)?;
        if first == 2 {
            let base = self.ids.get(&inst.arg(0)?).copied().unwrap_or(0);
            let stride = self.types.decoration(base, Decoration::ArrayStride);
            let stride = match stride {
                Some(stride) => stride,
                None => self.types.natural(pointer.ty)?.1,
            };
            let index = self.index_of(inst.arg(1)?)?;
            pointer = self.step_element(&pointer, index, stride)?;
        }
        for index in inst.args.get(first..).unwrap_or_default() {
            let index = self.index_of(*index)?;
            pointer = self.step(&pointer, index)?;
        }
        self.values.insert(inst.id, Value::Pointer(pointer));
        Ok(())
    }

    /// An index as a word.
    fn index_of(&mut self, id: u32) -> Result<Src> {
        let index = self.single(id)?;
        match self.ids.get(&id).map(|ty| self.types.scalar(*ty)).transpose()? {
            Some(Scalar::I64) => self.ir.op1(I::Narrow, T::I64, index),
            Some(Scalar::I8 | Scalar::I16 | Scalar::I32) => Ok(index),
            _ => Err(malformed(format!("%{id} is not an index"))),
        }
    }

    /// Scalars of a composite before the part that literal indices name, and the part's type.
    fn find(&self, mut ty: u32, indices: &[u32]) -> Result<(usize, u32)> {
        let mut at = 0;
        for index in indices {
            let part = self.types.part(ty, *index)?;
            at += self.types.before(ty, *index)?;
            ty = part;
        }
        Ok((at as usize, ty))
    }

    pub(crate) fn type_of(&self, id: u32) -> Result<u32> {
        self.ids.get(&id).copied().ok_or_else(|| malformed(format!("%{id} has no type")))
    }

    /// Composites, and their parts by literal numbers.
    fn composite(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::CompositeConstruct => {
                let mut all = Vec::new();
                for part in &inst.args {
                    all.extend(self.data(*part)?);
                }
                self.set(inst, all)
            }
            Op::CompositeExtract => {
                let (at, ty) = self.find(self.type_of(inst.arg(0)?)?, inst.args.get(1..).unwrap_or_default())?;
                let count = self.types.count(ty)? as usize;
                let data = self.data(inst.arg(0)?)?;
                self.set(inst, data.get(at..at + count).unwrap_or_default().to_vec())
            }
            Op::CompositeInsert => {
                let (at, ty) = self.find(self.type_of(inst.arg(1)?)?, inst.args.get(2..).unwrap_or_default())?;
                let mut data = self.data(inst.arg(1)?)?;
                let part = self.data(inst.arg(0)?)?;
                let count = self.types.count(ty)? as usize;
                for (to, from) in data.iter_mut().skip(at).take(count).zip(part) {
                    *to = from;
                }
                self.set(inst, data)
            }
            _ => self.vector(inst),
        }
    }

    /// What picks components; what does not is arithmetic.
    fn vector(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::VectorShuffle => {
                let mut all = self.data(inst.arg(0)?)?;
                all.extend(self.data(inst.arg(1)?)?);
                let pick = |index: &u32| match *index {
                    u32::MAX => Ok(Src::Const(0)),
                    index => all
                        .get(index as usize)
                        .copied()
                        .ok_or_else(|| malformed("OpVectorShuffle of no such component")),
                };
                let picked = inst.args.get(2..).unwrap_or_default().iter().map(pick).collect::<Result<_>>()?;
                self.set(inst, picked)
            }
            Op::VectorExtractDynamic => {
                let data = self.data(inst.arg(0)?)?;
                let index = self.index_of(inst.arg(1)?)?;
                let ty = self.types.scalar(inst.ty)?.isa();
                let value = self.pick(ty, &data, index)?;
                self.set(inst, vec![value])
            }
            Op::VectorInsertDynamic => {
                let mut data = self.data(inst.arg(0)?)?;
                let part = self.single(inst.arg(1)?)?;
                let index = self.index_of(inst.arg(2)?)?;
                let ty = self.types.scalar(inst.ty)?.isa();
                for (number, old) in data.iter_mut().enumerate() {
                    let here = self.ir.cmp(Comparison::Eq, T::I32, index, Src::Const(number as u64))?;
                    *old = self.ir.select(ty, here, part, *old)?;
                }
                self.set(inst, data)
            }
            Op::Select => {
                let conditions = self.data(inst.arg(0)?)?;
                let (a, b) = (self.data(inst.arg(1)?)?, self.data(inst.arg(2)?)?);
                let scalars = self.types.scalars(inst.ty)?.to_vec();
                let mut all = Vec::new();
                for (index, ((scalar, a), b)) in scalars.iter().zip(a).zip(b).enumerate() {
                    let condition = conditions.get(if conditions.len() == 1 { 0 } else { index });
                    let condition = condition.copied().ok_or_else(|| malformed("OpSelect with too few conditions"))?;
                    all.push(self.ir.select(scalar.isa(), condition, a, b)?);
                }
                self.set(inst, all)
            }
            _ => self.arithmetic(inst),
        }
    }
}

fn check_access(inst: &Inst, at: usize) -> Result<()> {
    // Volatile, Aligned, Nontemporal and the operands of the Vulkan memory model ask for nothing that is not so anyway: memory is coherent and accesses
    // of one lane are in order.
    match inst.args.get(at).map(|bits| MemoryAccess::from_bits(*bits)) {
        Some(None) => Err(malformed("no such memory operand")),
        _ => Ok(()),
    }
}

/// The refusal of a form.
pub(crate) fn refuse(op: Op, form: &str) -> Error {
    unsupported_form(op, form)
}
