//! Images: their texels as memory, and what may be asked of them.

use campanile_hw::isa::{MemoryFormat, Op as I, Type as T};
use rspirv::spirv::{Dim, ImageOperands, Op};

use crate::error::{Result, malformed, unsupported, unsupported_form};
use crate::ir::{Inst as Ir, Src, V};
use crate::lower::Lower;
use crate::read::Inst;
use crate::record::{image, texel_of};
use crate::texel::{Format, word};
use crate::types::{ImageType, Scalar, Type};
use crate::value::{Opaque, Place, Pointer, Value};

/// Operands of an instruction on an image, as ids.
#[derive(Default)]
pub(crate) struct Operands {
    pub(crate) lod: Option<u32>,
    pub(crate) gradients: Option<(u32, u32)>,
    pub(crate) offset: Option<u32>,
    /// An array of an offset for each of the texels that are gathered.
    pub(crate) offsets: Option<u32>,
}

impl Lower<'_> {
    /// The image or sampler that a pointer points to, if it points to one.
    pub(crate) fn opaque(&mut self, pointer: &Pointer) -> Result<Option<Opaque>> {
        if !matches!(self.types.get(pointer.ty)?, Type::Image(_) | Type::Sampler | Type::SampledImage { .. }) {
            return Ok(None);
        }
        let Place::Buffer { base, size, .. } = pointer.place else {
            return Err(malformed("an image or a sampler that is in no descriptor"));
        };
        let (image, sampler) = (self.ir.reg(T::I64, base)?, self.ir.reg(T::I64, size)?);
        Ok(Some(Opaque { image, sampler, ty: pointer.ty }))
    }

    /// The image or sampler that an id is.
    pub(crate) fn opaque_of(&self, id: u32) -> Result<Opaque> {
        match self.value(id)? {
            Value::Opaque(opaque) => Ok(*opaque),
            _ => Err(malformed(format!("%{id} is neither an image nor a sampler"))),
        }
    }

    /// An instruction on images.
    pub(crate) fn image_instruction(&mut self, inst: &Inst) -> Result<()> {
        match inst.op {
            Op::SampledImage => {
                let (image, sampler) = (self.opaque_of(inst.arg(0)?)?, self.opaque_of(inst.arg(1)?)?);
                self.values.insert(inst.id, Value::Opaque(Opaque { sampler: sampler.sampler, ..image }));
                Ok(())
            }
            Op::Image => {
                let opaque = self.opaque_of(inst.arg(0)?)?;
                self.values.insert(inst.id, Value::Opaque(opaque));
                Ok(())
            }
            Op::ImageRead | Op::ImageFetch => self.image_read(inst),
            Op::ImageWrite => self.image_write(inst),
            Op::ImageTexelPointer => self.texel_pointer(inst),
            Op::ImageQuerySize | Op::ImageQuerySizeLod => self.image_size(inst),
            Op::ImageQueryLevels => {
                let image = self.opaque_of(inst.arg(0)?)?.image;
                let levels = self.fetch(image, image::LEVELS, MemoryFormat::W1)?;
                self.set(inst, vec![Src::Reg(levels)])
            }
            _ => self.sampled(inst),
        }
    }

    /// The operands from one on, of which the first says which there are.
    pub(crate) fn image_operands(&self, inst: &Inst, at: usize) -> Result<Operands> {
        let Some(mask) = inst.args.get(at) else { return Ok(Operands::default()) };
        let mask = ImageOperands::from_bits(*mask).ok_or_else(|| malformed("no such operand of an image"))?;
        let (mut operands, mut next) = (Operands::default(), at + 1);
        let mut take = || {
            next += 1;
            inst.arg(next - 1)
        };
        // In the order of their bits, in which they follow one another.
        for bit in mask.iter() {
            match bit {
                ImageOperands::LOD => operands.lod = Some(take()?),
                ImageOperands::GRAD => operands.gradients = Some((take()?, take()?)),
                ImageOperands::CONST_OFFSET | ImageOperands::OFFSET => operands.offset = Some(take()?),
                ImageOperands::CONST_OFFSETS => operands.offsets = Some(take()?),
                // Texels are coherent, and components have the sign of their type.
                ImageOperands::MAKE_TEXEL_AVAILABLE | ImageOperands::MAKE_TEXEL_VISIBLE => drop(take()?),
                ImageOperands::NON_PRIVATE_TEXEL
                | ImageOperands::VOLATILE_TEXEL
                | ImageOperands::SIGN_EXTEND
                | ImageOperands::ZERO_EXTEND
                | ImageOperands::NONTEMPORAL => {}
                _ => return Err(unsupported_form(inst.op, "with an operand such as Bias, Sample or MinLod")),
            }
        }
        Ok(operands)
    }

    /// The place of a texel from whole coordinates: layers are the third one.
    fn place(&mut self, ty: &ImageType, id: u32, offset: Option<u32>) -> Result<[Src; 3]> {
        if self.types.scalar(self.type_of(id)?)? != Scalar::I32 {
            return Err(unsupported_form(Op::ImageRead, "with coordinates that are not integers of 32 bits"));
        }
        let data = self.data(id)?;
        let mut place = [Src::Const(0); 3];
        let dimensions = ty.dimensions();
        for (to, from) in place.iter_mut().zip(&data).take(dimensions) {
            *to = *from;
        }
        // The layer of a cube is counted in its third coordinate already.
        if ty.arrayed && ty.dim != Dim::DimCube {
            let [_, _, layer] = &mut place;
            *layer = *data.get(dimensions).ok_or_else(|| malformed("a coordinate lacks its layer"))?;
        }
        if let Some(offset) = offset {
            for (to, by) in place.iter_mut().zip(self.data(offset)?).take(dimensions) {
                *to = self.ir.op2(I::Add, T::I32, *to, by)?;
            }
        }
        Ok(place)
    }

    fn image_read(&mut self, inst: &Inst) -> Result<()> {
        let opaque = self.opaque_of(inst.arg(0)?)?;
        let ty = self.types.image_of(opaque.ty)?;
        let operands = self.image_operands(inst, 2)?;
        let place = self.place(&ty, inst.arg(1)?, operands.offset)?;
        let level = operands.lod.map_or(Ok(Src::Const(0)), |lod| self.single(lod))?;
        let known = texel_of(ty.format).filter(|_| inst.op == Op::ImageRead);
        let format = match known {
            Some(texel) => Format::known(&texel),
            None => self.format(opaque.image)?,
        };
        let level = self.level(opaque.image, level)?;
        let (address, inside) = self.texel(&level, format.size_log2, place)?;
        let words = self.load_texel(address, inside, format.size_log2)?;
        let all = self.decode(&format, words, ty.sampled)?;
        let count = self.types.count(inst.ty)? as usize;
        self.set(inst, all.into_iter().take(count).collect())
    }

    fn image_write(&mut self, inst: &Inst) -> Result<()> {
        let opaque = self.opaque_of(inst.arg(0)?)?;
        let ty = self.types.image_of(opaque.ty)?;
        let operands = self.image_operands(inst, 3)?;
        let place = self.place(&ty, inst.arg(1)?, operands.offset)?;
        let Some(texel) = texel_of(ty.format) else {
            return self.write_by_record(opaque.image, place, inst.arg(2)?, ty.sampled);
        };
        let values = self.data(inst.arg(2)?)?;
        let words = self.encode(&texel, &values)?;
        let level = self.level(opaque.image, Src::Const(0))?;
        let (address, inside) = self.texel(&level, word(texel.size_log2()), place)?;
        let format = match texel.bytes {
            1 => MemoryFormat::U8,
            2 => MemoryFormat::U16,
            _ => MemoryFormat::W1,
        };
        self.guarded(inside, |lower| {
            for (index, value) in (0u64..).zip(&words) {
                let value = Some(lower.ir.reg(T::I32, *value)?);
                let inst = Ir { a: Some(address), c: value, immediate: index * 4, ..Ir::new(I::Store, T::None) };
                lower.ir.emit(Ir { modifier: format as u8, ..inst })?;
            }
            Ok(())
        })
    }

    /// A store whose format is the one in the record of the image.
    fn write_by_record(&mut self, image: V, place: [Src; 3], values: u32, scalar: Scalar) -> Result<()> {
        let values = self.data(values)?;
        let format = self.format(image)?;
        let level = self.level(image, Src::Const(0))?;
        let (address, inside) = self.texel(&level, format.size_log2, place)?;
        self.guarded(inside, |lower| {
            let words = lower.encode_any(&format, &values, scalar)?;
            lower.store_texel(address, format.size_log2, words)
        })
    }

    /// A pointer to a texel for atomic operations: a buffer of one word, of none where there is no such texel.
    fn texel_pointer(&mut self, inst: &Inst) -> Result<()> {
        let pointer = self.pointer(inst.arg(0)?)?;
        let opaque = self.opaque(&pointer)?.ok_or_else(|| malformed("OpImageTexelPointer to no image"))?;
        let ty = self.types.image_of(opaque.ty)?;
        let Type::Pointer { to, .. } = *self.types.get(inst.ty)? else {
            return Err(malformed(format!("%{} is not a pointer", inst.id)));
        };
        let bytes = self.types.scalar(to)?.bytes();
        if texel_of(ty.format).is_none_or(|texel| texel.bytes != bytes) {
            return Err(unsupported(inst.op));
        }
        let place = self.place(&ty, inst.arg(1)?, None)?;
        let level = self.level(opaque.image, Src::Const(0))?;
        let (address, inside) = self.texel(&level, word(bytes.trailing_zeros()), place)?;
        let size = self.ir.select(T::I64, inside, Src::Const(u64::from(bytes)), Src::Const(0))?;
        let base = Src::Reg(address);
        let place = Place::Buffer { base, size, address: base, constant: 0, reach: 0 };
        self.values.insert(inst.id, Value::Pointer(Pointer::new(place, to, true)));
        Ok(())
    }

    /// The extent of a level, with the number of layers.
    fn image_size(&mut self, inst: &Inst) -> Result<()> {
        let opaque = self.opaque_of(inst.arg(0)?)?;
        let ty = self.types.image_of(opaque.ty)?;
        let level = if inst.op == Op::ImageQuerySizeLod { self.single(inst.arg(1)?)? } else { Src::Const(0) };
        let [x, y, z] = self.level(opaque.image, level)?.extent;
        let mut size = match ty.dim {
            Dim::Dim1D | Dim::DimBuffer => vec![x],
            Dim::Dim3D => vec![x, y, z],
            _ => vec![x, y],
        };
        if ty.arrayed {
            let faces = if ty.dim == Dim::DimCube { 6 } else { 1 };
            size.push(self.ir.op2(I::DivU, T::I32, z, word(faces))?);
        }
        self.set(inst, size)
    }
}
