//! Pointers, loads and stores.

use campanile_hw::isa::{Comparison, MemoryFormat, Op as I, SystemValue, Type as T};
use rspirv::spirv::BuiltIn;

use crate::error::{Error, Result, limit, malformed};
use crate::ir::{Class, Inst, Src, V};
use crate::lower::Lower;
use crate::types::{Scalar, Type};
use crate::value::{Place, Pointer};

/// No buffer has so many bytes.
const BEYOND: u64 = 1 << 33;
/// Strides of indices that are used as they are, in all: 2^32 times that is 2^62, which leaves as much again for the addresses of buffers and for steps of [`BEYOND`], of which no module has 2^28.
const REACH_MAX: u32 = 1 << 30;

impl Lower<'_> {
    fn advance(&mut self, place: &Place, index: Src, stride: u32) -> Result<Place> {
        let too_far = || limit("an offset of more than 4 GiB");
        let near = |constant: u32| {
            let step = index.constant().map(|index| index.saturating_mul(u64::from(stride)));
            step.map(|step| u32::try_from(step).ok().and_then(|step| constant.checked_add(step)).ok_or_else(too_far))
        };
        Ok(match place {
            Place::Scratch(offset, constant) | Place::Shared(offset, constant) => {
                let (offset, constant) = match near(*constant) {
                    Some(constant) => (*offset, constant?),
                    None => {
                        let step = self.ir.op2(I::Mul, T::I32, index, Src::Const(u64::from(stride)))?;
                        (self.ir.op2(I::Add, T::I32, step, *offset)?, *constant)
                    }
                };
                if matches!(place, Place::Shared(..)) {
                    Place::Shared(offset, constant)
                } else {
                    Place::Scratch(offset, constant)
                }
            }
            Place::Buffer { base, size, address, constant, reach } => {
                let (base, size, constant, reach) = (*base, *size, *constant, *reach);
                match index.constant() {
                    Some(index) => {
                        let step = index.min(u64::from(u32::MAX)).saturating_mul(stride.into()).min(BEYOND);
                        if constant + step <= u64::from(u32::MAX) {
                            Place::Buffer { base, size, address: *address, constant: constant + step, reach }
                        } else {
                            let address = self.ir.op2(I::Add, T::I64, *address, Src::Const(step))?;
                            Place::Buffer { base, size, address, constant, reach }
                        }
                    }
                    None => {
                        let (index, reach) = self.below_wrap(index, stride, reach)?;
                        let address = self.index(*address, index, stride)?;
                        Place::Buffer { base, size, address, constant, reach }
                    }
                }
            }
            Place::Address(address, constant) => match index.constant() {
                Some(index) => {
                    let step = (index as u32 as i32 as i64).wrapping_mul(i64::from(stride));
                    let constant = constant + step;
                    i32::try_from(constant).map_err(|_| too_far())?;
                    Place::Address(*address, constant)
                }
                None => {
                    // Indices are signed here: an address may lie behind the element that is meant.
                    let index = self.ir.op1(I::WidenS, T::I32, index)?;
                    let step = self.ir.op2(I::Mul, T::I64, index, Src::Const(u64::from(stride)))?;
                    Place::Address(self.ir.op2(I::Add, T::I64, *address, step)?, *constant)
                }
            },
            Place::Registers { .. } | Place::Descriptors { .. } | Place::BuiltIn(..) => {
                return Err(malformed("an index into something that is not in memory"));
            }
        })
    }

    pub(crate) fn index(&mut self, base: Src, index: Src, stride: u32) -> Result<Src> {
        let a = Some(self.ir.reg(T::I64, base)?);
        let b = Some(Src::Reg(self.ir.reg(T::I32, index)?));
        let inst = Inst { a, b, immediate: u64::from(stride), ..Inst::new(I::Index, T::None) };
        self.ir.define(inst, Class::Double).map(Src::Reg)
    }

    /// An index whose step is less than all addresses, and the strides of indices that are used as they are, in all. Where those could lead beyond all addresses together, and round to the first
    /// ones, an index leads at most to the first element that no buffer can have.
    fn below_wrap(&mut self, index: Src, stride: u32, reach: u32) -> Result<(Src, u32)> {
        let further = reach.saturating_add(stride);
        if further <= REACH_MAX {
            return Ok((index, further));
        }
        let beyond = u64::from(u32::MAX / stride.max(2)) + 1;
        Ok((self.ir.op2(I::MinU, T::I32, index, Src::Const(beyond))?, reach))
    }

    /// Moves a pointer from array element to array element, as OpPtrAccessChain does.
    pub(crate) fn step_element(&mut self, pointer: &Pointer, index: Src, stride: u32) -> Result<Pointer> {
        Ok(Pointer { place: self.advance(&pointer.place, index, stride)?, ..pointer.clone() })
    }

    /// A pointer to a part of what a pointer points to.
    pub(crate) fn step(&mut self, pointer: &Pointer, index: Src) -> Result<Pointer> {
        if let Place::Descriptors { offset, count } = pointer.place
            && let Type::Array { of, .. } | Type::RuntimeArray { of } = self.types.get(pointer.ty)?
        {
            let of = *of;
            return self.descriptor(offset, count, index, of);
        }
        let (ty, explicit) = (pointer.ty, pointer.explicit);
        let known = index.constant().map(|index| u32::try_from(index).unwrap_or(u32::MAX));
        let of = match known {
            Some(known)
                if !matches!(
                    self.types.get(ty)?,
                    Type::Array { .. } | Type::RuntimeArray { .. } | Type::Vector { .. }
                ) =>
            {
                self.types.part(ty, known)?
            }
            _ => self.types.part(ty, 0)?,
        };
        let mut next = Pointer { ty: of, ..pointer.clone() };
        if let Place::BuiltIn(which, None) = pointer.place {
            next.place = Place::BuiltIn(which, Some(index));
            return Ok(next);
        }
        if let Place::Registers { first, variable } = pointer.place {
            let inside = known.filter(|known| self.types.part(ty, *known).is_ok());
            if inside.is_none() && self.is_tentative(variable) {
                self.found_dynamic(variable, index);
                next.place = Place::Scratch(Src::Const(0), 0);
                return Ok(next);
            }
            let known = known.ok_or_else(|| malformed("an index into registers that is not constant"))?;
            self.types.part(ty, known)?;
            next.place = Place::Registers { first: first + self.types.before(ty, known)?, variable };
            return Ok(next);
        }
        let (scale, index) = match self.types.get(ty)? {
            Type::Struct { .. } => {
                let member = known.ok_or_else(|| malformed("the number of a member is not constant"))?;
                next.matrix = self.types.matrix(ty, member);
                (1, Src::Const(u64::from(self.types.offset(ty, member, explicit)?)))
            }
            Type::Array { .. } | Type::RuntimeArray { .. } => (self.types.stride(ty, explicit)?, index),
            Type::Matrix { .. } if explicit && pointer.matrix.row_major => {
                next.apart = pointer.matrix.stride;
                (self.types.scalar(of)?.bytes(), index)
            }
            Type::Matrix { .. } if explicit => (pointer.matrix.stride, index),
            Type::Matrix { .. } => (self.types.natural(of)?.1, index),
            _ if pointer.apart != 0 => (pointer.apart, index),
            _ => (self.types.scalar(of)?.bytes(), index),
        };
        next.place = self.advance(&pointer.place, index, scale)?;
        Ok(next)
    }

    /// The buffer of a descriptor.
    pub(crate) fn descriptor(&mut self, offset: u32, count: u32, index: Src, ty: u32) -> Result<Pointer> {
        let arguments = self.arguments()?;
        let (place, offset) = match index.constant() {
            Some(index) => {
                let index = index.min(u64::from(count.saturating_sub(1)));
                (arguments, u64::from(offset) + index * 16)
            }
            None => {
                let index = self.ir.op2(I::MinU, T::I32, index, Src::Const(u64::from(count.saturating_sub(1))))?;
                (
                    self.index(Src::Reg(arguments), index, 16).and_then(|src| self.ir.reg(T::I64, src))?,
                    u64::from(offset),
                )
            }
        };
        let key = (place, offset);
        let (base, size) = match self.descriptors.get(&key) {
            Some(known) => *known,
            None => {
                let first = self.fetch(place, offset, MemoryFormat::D2)?;
                (first, first + 1)
            }
        };
        let (base, size) = (Src::Reg(base), Src::Reg(size));
        let place = Place::Buffer { base, size, address: base, constant: 0, reach: 0 };
        Ok(Pointer::new(place, ty, true))
    }

    /// Loads what lies at an offset from an address; returns the first register.
    pub(crate) fn fetch(&mut self, address: V, offset: u64, format: MemoryFormat) -> Result<V> {
        let class = if format.is_double() { Class::Double } else { Class::Word };
        let first = self.ir.group(class, format.registers());
        let inst = Inst {
            dst: Some(first),
            a: Some(address),
            immediate: offset,
            modifier: format as u8,
            ..Inst::new(I::Load, T::None)
        };
        self.ir.emit(inst)?;
        Ok(first)
    }

    /// The address of the argument block.
    pub(crate) fn arguments(&mut self) -> Result<V> {
        self.ir.define(Inst::new(I::Arguments, T::None), Class::Double)
    }

    /// The address that a pointer is.
    pub(crate) fn address(&mut self, pointer: &Pointer) -> Result<Src> {
        match pointer.place {
            Place::Address(address, constant) => self.ir.op2(I::Add, T::I64, address, Src::Const(constant as u64)),
            _ => Err(Error::Unsupported("a logical pointer as a value (capability VariablePointers)".into())),
        }
    }

    /// The scalars that a pointer points to.
    pub(crate) fn load(&mut self, pointer: &Pointer) -> Result<Vec<Src>> {
        if let Place::BuiltIn(which, component) = pointer.place {
            let all = self.built_in(which)?;
            let Some(component) = component else { return Ok(all) };
            return self.pick(T::I32, &all, component).map(|one| vec![one]);
        }
        if let Place::Registers { first, variable } = pointer.place {
            let mut all = Vec::new();
            for index in 0..self.types.count(pointer.ty)? {
                let (register, class) = self.variable_register(variable, first + index)?;
                all.push(self.ir.value(class, register)?);
            }
            return Ok(all);
        }
        self.types.scalars(pointer.ty)?;
        let mut all = Vec::new();
        match self.types.get(pointer.ty)?.clone() {
            Type::Vector { count, .. } if pointer.apart == 0 => {
                let scalar = self.types.scalar(pointer.ty)?;
                all = self.load_run(&pointer.place, scalar, count)?;
            }
            Type::Scalar(scalar) => all = self.load_run(&pointer.place, scalar, 1)?,
            Type::Pointer { .. } => all = self.load_run(&pointer.place, Scalar::I64, 1)?,
            ty => {
                for index in 0..parts(&ty) {
                    let part = self.step(pointer, Src::Const(u64::from(index)))?;
                    all.extend(self.load(&part)?);
                }
            }
        }
        Ok(all)
    }

    /// Stores scalars to where a pointer points.
    pub(crate) fn store(&mut self, pointer: &Pointer, values: &[Src]) -> Result<()> {
        let count = self.types.count(pointer.ty)? as usize;
        let values = values.get(..count).ok_or_else(|| malformed("a store of a value of another type"))?;
        if let Place::Registers { first, variable } = pointer.place {
            for (index, value) in values.iter().enumerate() {
                let (register, class) = self.variable_register(variable, first + index as u32)?;
                self.ir.copy(register, class, *value)?;
            }
            return Ok(());
        }
        match self.types.get(pointer.ty)?.clone() {
            Type::Vector { .. } if pointer.apart == 0 => {
                let scalar = self.types.scalar(pointer.ty)?;
                self.store_run(&pointer.place, scalar, values)
            }
            Type::Scalar(scalar) => self.store_run(&pointer.place, scalar, values),
            Type::Pointer { .. } => self.store_run(&pointer.place, Scalar::I64, values),
            ty => {
                let mut at = 0;
                for index in 0..parts(&ty) {
                    let part = self.step(pointer, Src::Const(u64::from(index)))?;
                    let count = self.types.count(part.ty)? as usize;
                    self.store(&part, values.get(at..at + count).unwrap_or_default())?;
                    at += count;
                }
                Ok(())
            }
        }
    }

    /// An instruction on memory without its data: operation by the kind of memory, address and offset; and the predicate under which it may run.
    pub(crate) fn access(&mut self, place: &Place, ops: [I; 3], bytes: u64) -> Result<(Inst, Src)> {
        let always = Src::Const(1);
        Ok(match place {
            Place::Scratch(offset, constant) | Place::Shared(offset, constant) => {
                let op = if matches!(place, Place::Shared(..)) { ops[1] } else { ops[2] };
                let constant = i32::try_from(*constant).map_err(|_| limit("an offset of more than 2 GiB"))?;
                let a = Some(self.ir.reg(T::I32, *offset)?);
                (Inst { a, immediate: constant as u64, ..Inst::new(op, T::None) }, always)
            }
            Place::Address(address, constant) => {
                let a = Some(self.ir.reg(T::I64, *address)?);
                (Inst { a, immediate: *constant as u64, ..Inst::new(ops[0], T::None) }, always)
            }
            Place::Buffer { base, size, address, constant, .. } => {
                let inside = if self.options.robust {
                    self.is_inside((*base, *size), *address, constant + bytes)?
                } else {
                    always
                };
                let (mut address, mut constant) = (*address, *constant);
                if constant > i32::MAX as u64 {
                    address = self.ir.op2(I::Add, T::I64, address, Src::Const(constant))?;
                    constant = 0;
                }
                let a = Some(self.ir.reg(T::I64, address)?);
                (Inst { a, immediate: constant, ..Inst::new(ops[0], T::None) }, inside)
            }
            Place::Registers { .. } | Place::Descriptors { .. } | Place::BuiltIn(..) => {
                return Err(malformed("an access to something that is not in memory"));
            }
        })
    }

    /// True if so many bytes from an address on lie in a buffer, of which this is the address and the size. Indices have 32 bits and only go up, so that the address is not below the buffer.
    fn is_inside(&mut self, (base, size): (Src, Src), address: Src, bytes: u64) -> Result<Src> {
        if address == base {
            return self.ir.cmp(Comparison::GeU, T::I64, size, Src::Const(bytes));
        }
        let last = self.last(base, size, bytes)?;
        self.ir.cmp(Comparison::Le, T::I64, address, last)
    }

    /// The last address from which on a buffer has so many bytes, as a signed number: where it has not so many at all it is less than the address of the buffer, and than zero where that is zero.
    pub(crate) fn last(&mut self, base: Src, size: Src, bytes: u64) -> Result<Src> {
        let end = self.ir.op2(I::Add, T::I64, base, size)?;
        self.ir.op2(I::Sub, T::I64, end, Src::Const(bytes))
    }

    /// Loads scalars that follow one another.
    fn load_run(&mut self, place: &Place, scalar: Scalar, count: u32) -> Result<Vec<Src>> {
        let ops = [I::Load, I::LoadShared, I::LoadScratch];
        let bytes = u64::from(scalar.bytes() * count);
        let (inst, inside) = self.access(place, ops, bytes)?;
        let class = if scalar == Scalar::Bool { Class::Word } else { scalar.class() };
        let mut results = Vec::new();
        let mut loads = Vec::new();
        for (first, format) in runs(scalar, count) {
            let group = self.ir.group(class, format.registers());
            let immediate = (inst.immediate as i64 + i64::from(first * scalar.bytes())) as u64;
            loads.push(Inst { dst: Some(group), modifier: format as u8, immediate, ..inst });
            results.extend((0..format.registers()).map(|index| group + index));
        }
        match inside {
            Src::Const(1) => {}
            _ => {
                for register in &results {
                    self.ir.set_mutable(*register);
                    self.ir.copy(*register, class, Src::Const(0))?;
                }
            }
        }
        self.ir.when(inside, |ir| loads.into_iter().try_for_each(|load| ir.emit(load)))?;
        let mut all = Vec::new();
        for register in results {
            // From here on the register keeps its value: nothing writes it again before it is loaded anew.
            self.ir.settle(register);
            let value = Src::Reg(register);
            all.push(match scalar {
                Scalar::Bool => self.ir.cmp(Comparison::Ne, T::I32, value, Src::Const(0))?,
                _ => value,
            });
        }
        Ok(all)
    }

    fn store_run(&mut self, place: &Place, scalar: Scalar, values: &[Src]) -> Result<()> {
        let ops = [I::Store, I::StoreShared, I::StoreScratch];
        let bytes = u64::from(scalar.bytes()) * values.len() as u64;
        let mut registers = Vec::new();
        for value in values {
            let value = match scalar {
                Scalar::Bool => self.ir.select(T::I32, *value, Src::Const(1), Src::Const(0))?,
                _ => *value,
            };
            let ty = if scalar == Scalar::Bool { T::I32 } else { scalar.isa() };
            registers.push(self.ir.reg(ty, value)?);
        }
        let (inst, inside) = self.access(place, ops, bytes)?;
        self.ir.when(inside, |ir| {
            for (index, register) in registers.iter().enumerate() {
                let immediate = (inst.immediate as i64 + (index as i64) * i64::from(scalar.bytes())) as u64;
                ir.emit(Inst { c: Some(*register), modifier: scalar.format() as u8, immediate, ..inst })?;
            }
            Ok(())
        })
    }

    /// Number of elements of the runtime array that is the last member of what a pointer points to.
    pub(crate) fn array_length(&mut self, pointer: &Pointer, member: u32) -> Result<Src> {
        let offset = self.types.offset(pointer.ty, member, true)?;
        let stride = self.types.stride(self.types.part(pointer.ty, member)?, true)?;
        let Place::Buffer { size, .. } = pointer.place else {
            return Err(malformed("OpArrayLength of something that is not a buffer"));
        };
        let offset = Src::Const(u64::from(offset));
        let size = self.ir.op2(I::MaxU, T::I64, size, offset)?;
        let bytes = self.ir.op2(I::Sub, T::I64, size, offset)?;
        let count = self.ir.op2(I::DivU, T::I64, bytes, Src::Const(u64::from(stride.max(1))))?;
        self.ir.op1(I::Narrow, T::I64, count)
    }

    /// The component that an index names.
    pub(crate) fn pick(&mut self, ty: T, all: &[Src], index: Src) -> Result<Src> {
        let mut value = all.first().copied().ok_or_else(|| malformed("an empty vector"))?;
        for (number, other) in all.iter().enumerate().skip(1) {
            let here = self.ir.cmp(Comparison::Eq, T::I32, index, Src::Const(number as u64))?;
            value = self.ir.select(ty, here, *other, value)?;
        }
        Ok(value)
    }

    fn system(&mut self, value: SystemValue) -> Result<Src> {
        let inst = Inst { modifier: value as u8, ..Inst::new(I::System, T::None) };
        self.ir.define(inst, Class::Word).map(Src::Reg)
    }

    /// The value of a built-in variable.
    fn built_in(&mut self, which: BuiltIn) -> Result<Vec<Src>> {
        use SystemValue as S;
        let values: &[S] = match which {
            BuiltIn::GlobalInvocationId => &[S::GlobalIdX, S::GlobalIdY, S::GlobalIdZ],
            BuiltIn::LocalInvocationId => &[S::LocalIdX, S::LocalIdY, S::LocalIdZ],
            BuiltIn::WorkgroupId => &[S::WorkgroupIdX, S::WorkgroupIdY, S::WorkgroupIdZ],
            BuiltIn::NumWorkgroups => &[S::WorkgroupCountX, S::WorkgroupCountY, S::WorkgroupCountZ],
            BuiltIn::WorkgroupSize => &[S::WorkgroupSizeX, S::WorkgroupSizeY, S::WorkgroupSizeZ],
            BuiltIn::LocalInvocationIndex => &[S::LocalIndex],
            BuiltIn::SubgroupId => &[S::SubgroupId],
            BuiltIn::NumSubgroups => &[S::SubgroupCount],
            BuiltIn::SubgroupLocalInvocationId => &[S::LaneId],
            BuiltIn::SubgroupSize => return Ok(vec![Src::Const(32)]),
            BuiltIn::DeviceIndex => return Ok(vec![Src::Const(0)]),
            BuiltIn::SubgroupEqMask
            | BuiltIn::SubgroupGeMask
            | BuiltIn::SubgroupGtMask
            | BuiltIn::SubgroupLeMask
            | BuiltIn::SubgroupLtMask => return self.lane_mask(which),
            other => return Err(Error::Unsupported(format!("the built-in {other:?}"))),
        };
        let sizes = match (which, self.workgroup_base) {
            (BuiltIn::WorkgroupId, Some(base)) => Some((base, None)),
            (BuiltIn::GlobalInvocationId, Some(base)) => {
                Some((base, Some([S::WorkgroupSizeX, S::WorkgroupSizeY, S::WorkgroupSizeZ])))
            }
            _ => None,
        };
        let mut all = values.iter().map(|value| self.system(*value)).collect::<Result<Vec<_>>>()?;
        let Some((base, sizes)) = sizes else { return Ok(all) };
        for (dimension, place) in all.iter_mut().enumerate() {
            let mut first = Src::Reg(base + dimension as u32);
            if let Some(size) = sizes.and_then(|sizes| sizes.get(dimension).copied()) {
                let size = self.system(size)?;
                first = self.ir.op2(I::Mul, T::I32, first, size)?;
            }
            *place = self.ir.op2(I::Add, T::I32, *place, first)?;
        }
        Ok(all)
    }

    /// Masks of lanes equal to the own one, behind or before it.
    fn lane_mask(&mut self, which: BuiltIn) -> Result<Vec<Src>> {
        let lane = self.system(SystemValue::LaneId)?;
        let own = self.ir.op2(I::Shl, T::I32, Src::Const(1), lane)?;
        let below = self.ir.op2(I::Sub, T::I32, own, Src::Const(1))?;
        let mask = match which {
            BuiltIn::SubgroupEqMask => own,
            BuiltIn::SubgroupLtMask => below,
            BuiltIn::SubgroupLeMask => self.ir.op2(I::Or, T::I32, below, own)?,
            BuiltIn::SubgroupGeMask => self.ir.op1(I::Not, T::I32, below)?,
            _ => {
                let up_to = self.ir.op2(I::Or, T::I32, below, own)?;
                self.ir.op1(I::Not, T::I32, up_to)?
            }
        };
        Ok(vec![mask, Src::Const(0), Src::Const(0), Src::Const(0)])
    }

    /// The number of the lane in its subgroup.
    pub(crate) fn lane(&mut self) -> Result<Src> {
        self.system(SystemValue::LaneId)
    }
}

fn parts(ty: &Type) -> u32 {
    match ty {
        Type::Vector { count, .. } | Type::Matrix { count, .. } | Type::Array { count, .. } => *count,
        Type::Struct { members } => members.len() as u32,
        _ => 0,
    }
}

/// Divides scalars that follow one another into what one instruction moves: number of the first, and format.
fn runs(scalar: Scalar, count: u32) -> Vec<(u32, MemoryFormat)> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < count {
        let format = match (scalar.format(), count - at) {
            (MemoryFormat::W1, 2) => MemoryFormat::W2,
            (MemoryFormat::W1, 3) => MemoryFormat::W3,
            (MemoryFormat::W1, rest) if rest >= 4 => MemoryFormat::W4,
            (MemoryFormat::D1, rest) if rest >= 2 => MemoryFormat::D2,
            (single, _) => single,
        };
        all.push((at, format));
        at += format.registers();
    }
    all
}
