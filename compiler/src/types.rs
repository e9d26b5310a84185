//! Types of a module, and where their parts lie.

use std::collections::HashMap;

use campanile_hw::isa::{MemoryFormat, Type as IsaType};
use rspirv::spirv::{Decoration, Dim, ImageFormat, Op, StorageClass};

use crate::error::{Result, limit, malformed, unsupported, unsupported_form};
use crate::ir::Class;
use crate::read::Inst;

/// Most scalars of a value.
pub(crate) const SCALARS_MAX: u32 = 4096;
/// Most scalars of all types together.
const FLAT_MAX: usize = 1 << 20;
/// Deepest nesting of types: 255 structures and what is in them. [SPIR-V: Universal Limits]
const DEPTH_MAX: u32 = 260;

/// Type of one scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
}

impl Scalar {
    /// The type of instructions on it. Integers of 8 and 16 bits lie in words whose other bits are zero.
    pub(crate) const fn isa(self) -> IsaType {
        match self {
            Self::Bool => IsaType::B1,
            Self::I8 | Self::I16 | Self::I32 => IsaType::I32,
            Self::I64 => IsaType::I64,
            Self::F16 => IsaType::F16,
            Self::F32 => IsaType::F32,
            Self::F64 => IsaType::F64,
        }
    }

    pub(crate) const fn class(self) -> Class {
        Class::of(self.isa())
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bytes() * 8
    }

    /// Bytes in memory; a Boolean is stored as a word.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            Self::I8 => 1,
            Self::I16 | Self::F16 => 2,
            Self::Bool | Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    pub(crate) const fn format(self) -> MemoryFormat {
        match self {
            Self::I8 => MemoryFormat::U8,
            Self::I16 | Self::F16 => MemoryFormat::U16,
            Self::Bool | Self::I32 | Self::F32 => MemoryFormat::W1,
            Self::I64 | Self::F64 => MemoryFormat::D1,
        }
    }
}

/// A type.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Void,
    Scalar(Scalar),
    Vector {
        of: u32,
        count: u32,
    },
    Matrix {
        of: u32,
        count: u32,
    },
    Array {
        of: u32,
        count: u32,
    },
    RuntimeArray {
        of: u32,
    },
    Struct {
        members: Vec<u32>,
    },
    Pointer {
        class: StorageClass,
        to: u32,
    },
    Function,
    Image(ImageType),
    Sampler,
    /// An image with a sampler.
    SampledImage {
        image: u32,
    },
    /// One of which no value can be made here.
    Other(Op),
}

/// Type of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageType {
    /// Type of the components.
    pub(crate) sampled: Scalar,
    pub(crate) dim: Dim,
    pub(crate) arrayed: bool,
    pub(crate) format: ImageFormat,
}

impl ImageType {
    /// Coordinates without the layer.
    pub(crate) const fn dimensions(&self) -> usize {
        match self.dim {
            Dim::Dim1D | Dim::DimBuffer => 1,
            Dim::Dim2D => 2,
            _ => 3,
        }
    }
}

/// Layout of matrices inside a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatrixLayout {
    pub(crate) stride: u32,
    pub(crate) row_major: bool,
}

/// All types, with their decorations.
#[derive(Default)]
pub(crate) struct Types {
    types: HashMap<u32, Type>,
    depth: HashMap<u32, u32>,
    flat: HashMap<u32, Vec<Scalar>>,
    flat_total: usize,
    natural: HashMap<u32, (u32, u32)>,
    decorations: HashMap<(u32, u32), Vec<Vec<u32>>>,
}

/// Member number of a decoration of an id itself.
const WHOLE: u32 = u32::MAX;

impl Types {
    /// Reads a decoration.
    pub(crate) fn decorate(&mut self, inst: &Inst) -> Result<()> {
        let (member, rest) = match inst.op {
            Op::MemberDecorate => (inst.arg(1)?, 2),
            Op::Decorate | Op::DecorateId => (WHOLE, 1),
            _ => return Ok(()),
        };
        let target = inst.arg(0)?;
        let words = inst.args.get(rest..).unwrap_or_default().to_vec();
        self.decorations.entry((target, member)).or_default().push(words);
        Ok(())
    }

    fn find(&self, id: u32, member: u32, decoration: Decoration) -> Option<&[u32]> {
        let all = self.decorations.get(&(id, member))?;
        all.iter().find(|words| words.first() == Some(&(decoration as u32))).map(Vec::as_slice)
    }

    /// True if an id itself has a decoration.
    pub(crate) fn has(&self, id: u32, decoration: Decoration) -> bool {
        self.find(id, WHOLE, decoration).is_some()
    }

    /// The first operand of a decoration of an id.
    pub(crate) fn decoration(&self, id: u32, decoration: Decoration) -> Option<u32> {
        self.find(id, WHOLE, decoration)?.get(1).copied()
    }

    /// Every id with its operand of a decoration.
    pub(crate) fn decorated(&self, decoration: Decoration) -> Vec<(u32, u32)> {
        let ids = self.decorations.keys().filter(|(_, member)| *member == WHOLE).map(|(id, _)| *id);
        ids.filter_map(|id| Some((id, self.decoration(id, decoration)?))).collect()
    }

    fn member(&self, id: u32, member: u32, decoration: Decoration) -> Option<u32> {
        self.find(id, member, decoration)?.get(1).copied()
    }

    /// Stride and order of the matrices in a member of a struct.
    pub(crate) fn matrix(&self, id: u32, member: u32) -> MatrixLayout {
        MatrixLayout {
            stride: self.member(id, member, Decoration::MatrixStride).unwrap_or(0),
            row_major: self.find(id, member, Decoration::RowMajor).is_some(),
        }
    }

    /// A type that is there.
    pub(crate) fn get(&self, id: u32) -> Result<&Type> {
        self.types.get(&id).ok_or_else(|| malformed(format!("%{id} is not a type")))
    }

    /// The scalar that a type is.
    pub(crate) fn scalar(&self, id: u32) -> Result<Scalar> {
        match self.get(id)? {
            Type::Scalar(scalar) => Ok(*scalar),
            Type::Vector { of, .. } => self.scalar(*of),
            Type::Pointer { class: StorageClass::PhysicalStorageBuffer, .. } => Ok(Scalar::I64),
            _ => Err(malformed(format!("%{id} is neither a scalar nor a vector"))),
        }
    }

    /// Components of a vector, 1 for a scalar.
    pub(crate) fn components(&self, id: u32) -> Result<u32> {
        Ok(match self.get(id)? {
            Type::Vector { count, .. } => *count,
            _ => 1,
        })
    }

    /// The scalars of a value of a type, in order.
    pub(crate) fn scalars(&self, id: u32) -> Result<&[Scalar]> {
        self.get(id)?;
        self.flat.get(&id).map(Vec::as_slice).ok_or_else(|| match self.types.get(&id) {
            Some(Type::Other(op)) => unsupported(*op),
            Some(Type::Pointer { .. }) => {
                crate::Error::Unsupported("a pointer as a value (capability VariablePointers)".into())
            }
            Some(Type::RuntimeArray { .. } | Type::Void | Type::Function) => malformed(format!("%{id} has no values")),
            _ => limit(format!("a value of more than {SCALARS_MAX} scalars")),
        })
    }

    /// Number of scalars of a type.
    pub(crate) fn count(&self, id: u32) -> Result<u32> {
        self.scalars(id).map(|scalars| scalars.len() as u32)
    }

    /// Type and number of the parts of a composite; a part's number is checked.
    pub(crate) fn part(&self, id: u32, index: u32) -> Result<u32> {
        let (of, count) = match self.get(id)? {
            Type::Vector { of, count } | Type::Matrix { of, count } | Type::Array { of, count } => (*of, *count),
            Type::RuntimeArray { of } => (*of, u32::MAX),
            Type::Struct { members } => {
                let member = members.get(index as usize).copied();
                return member.ok_or_else(|| malformed(format!("%{id} has no member {index}")));
            }
            _ => return Err(malformed(format!("%{id} is not a composite"))),
        };
        if index < count { Ok(of) } else { Err(malformed(format!("%{id} has no part {index}"))) }
    }

    /// Scalars of a composite before a part.
    pub(crate) fn before(&self, id: u32, index: u32) -> Result<u32> {
        match self.get(id)? {
            Type::Struct { members } => {
                let members = members.iter().take(index as usize);
                members.map(|member| self.count(*member)).sum()
            }
            _ => Ok(self.count(self.part(id, index)?)?.saturating_mul(index)),
        }
    }

    /// Reads the declaration of a type. `length` gives the value of a constant.
    pub(crate) fn declare(&mut self, inst: &Inst, length: impl Fn(u32) -> Option<u64>) -> Result<()> {
        if matches!(inst.op, Op::TypeForwardPointer) {
            return Ok(());
        }
        let parts = self.parts(inst)?;
        let below = parts.iter().map(|part| self.depth.get(part).copied().unwrap_or(0)).max().unwrap_or(0);
        if below >= DEPTH_MAX {
            return Err(limit(format!("types nested deeper than {DEPTH_MAX}")));
        }
        for part in &parts {
            self.get(*part)?;
        }
        let ty = self.read(inst, length)?;
        let flat = self.flatten(&ty).filter(|flat| self.flat_total + flat.len() <= FLAT_MAX);
        let natural = self.natural_of(&ty);
        if self.types.insert(inst.id, ty).is_some() {
            return Err(malformed(format!("%{} is declared twice", inst.id)));
        }
        self.depth.insert(inst.id, below + 1);
        if let Some(flat) = flat {
            self.flat_total += flat.len();
            self.flat.insert(inst.id, flat);
        }
        if let Some(natural) = natural {
            self.natural.insert(inst.id, natural);
        }
        Ok(())
    }

    /// Ids of the types that a type is made of.
    fn parts(&self, inst: &Inst) -> Result<Vec<u32>> {
        Ok(match inst.op {
            Op::TypeVector
            | Op::TypeMatrix
            | Op::TypeArray
            | Op::TypeRuntimeArray
            | Op::TypeImage
            | Op::TypeSampledImage => vec![inst.arg(0)?],
            Op::TypeStruct => {
                let forward = |id: &u32| self.types.contains_key(id);
                inst.args.iter().copied().filter(forward).collect()
            }
            _ => Vec::new(),
        })
    }

    fn read(&self, inst: &Inst, length: impl Fn(u32) -> Option<u64>) -> Result<Type> {
        let refuse = |form: String| unsupported_form(inst.op, form);
        Ok(match inst.op {
            Op::TypeVoid => Type::Void,
            Op::TypeBool => Type::Scalar(Scalar::Bool),
            Op::TypeInt => Type::Scalar(match inst.arg(0)? {
                8 => Scalar::I8,
                16 => Scalar::I16,
                32 => Scalar::I32,
                64 => Scalar::I64,
                other => return Err(refuse(format!("of {other} bits"))),
            }),
            Op::TypeFloat if inst.args.len() > 1 => return Err(refuse("with an encoding".into())),
            Op::TypeFloat => Type::Scalar(match inst.arg(0)? {
                16 => Scalar::F16,
                32 => Scalar::F32,
                64 => Scalar::F64,
                other => return Err(refuse(format!("of {other} bits"))),
            }),
            Op::TypeVector => match (self.get(inst.arg(0)?)?, inst.arg(1)?) {
                (Type::Scalar(_), count @ (2..=4 | 8 | 16)) => Type::Vector { of: inst.arg(0)?, count },
                _ => return Err(malformed("a vector of no scalars, or of a count that there is not")),
            },
            Op::TypeMatrix => match (self.get(inst.arg(0)?)?, inst.arg(1)?) {
                (Type::Vector { .. }, count @ 2..=4) => Type::Matrix { of: inst.arg(0)?, count },
                _ => return Err(malformed("a matrix of no vectors, or of a count that there is not")),
            },
            Op::TypeArray => {
                let count = length(inst.arg(1)?).and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0);
                let count = count.ok_or_else(|| malformed("the length of an array is no positive constant"))?;
                Type::Array { of: inst.arg(0)?, count }
            }
            Op::TypeRuntimeArray => Type::RuntimeArray { of: inst.arg(0)? },
            Op::TypeStruct => Type::Struct { members: inst.args.clone() },
            Op::TypePointer => {
                let class = StorageClass::from_u32(inst.arg(0)?).ok_or_else(|| malformed("no such storage class"))?;
                Type::Pointer { class, to: inst.arg(1)? }
            }
            Op::TypeFunction => Type::Function,
            Op::TypeImage => self.image(inst)?,
            Op::TypeSampler => Type::Sampler,
            Op::TypeSampledImage => match self.get(inst.arg(0)?)? {
                Type::Image(_) => Type::SampledImage { image: inst.arg(0)? },
                _ => Type::Other(inst.op),
            },
            op => Type::Other(op),
        })
    }

    /// An image; one with several samples, or of a kind that there is not, is refused where it is used.
    fn image(&self, inst: &Inst) -> Result<Type> {
        let dim = Dim::from_u32(inst.arg(1)?).ok_or_else(|| malformed("no such dimension of an image"))?;
        let known = matches!(dim, Dim::Dim1D | Dim::Dim2D | Dim::Dim3D | Dim::DimCube | Dim::DimBuffer);
        let format = ImageFormat::from_u32(inst.arg(6)?).ok_or_else(|| malformed("no such format of an image"))?;
        let sampled = match self.get(inst.arg(0)?)? {
            Type::Scalar(scalar @ (Scalar::F32 | Scalar::I32)) => *scalar,
            _ => return Ok(Type::Other(inst.op)),
        };
        if !known || inst.arg(4)? != 0 {
            return Ok(Type::Other(inst.op));
        }
        Ok(Type::Image(ImageType { sampled, dim, arrayed: inst.arg(3)? != 0, format }))
    }

    /// The image that a type is or has.
    pub(crate) fn image_of(&self, id: u32) -> Result<ImageType> {
        match self.get(id)? {
            Type::Image(image) => Ok(*image),
            Type::SampledImage { image } => self.image_of(*image),
            Type::Other(op) => Err(unsupported(*op)),
            _ => Err(malformed(format!("%{id} is not an image"))),
        }
    }

    /// The scalars of a type, none if it has no values or too many.
    fn flatten(&self, ty: &Type) -> Option<Vec<Scalar>> {
        let of = |id: &u32| self.flat.get(id);
        let flat = match ty {
            Type::Scalar(scalar) => vec![*scalar],
            Type::Pointer { class: StorageClass::PhysicalStorageBuffer, .. } => vec![Scalar::I64],
            Type::Vector { of: part, count } | Type::Matrix { of: part, count } | Type::Array { of: part, count } => {
                let part = of(part)?;
                if part.len() as u64 * u64::from(*count) > u64::from(SCALARS_MAX) {
                    return None;
                }
                part.repeat(*count as usize)
            }
            Type::Struct { members } => {
                let mut all = Vec::new();
                for member in members {
                    all.extend_from_slice(of(member)?);
                    if all.len() > SCALARS_MAX as usize {
                        return None;
                    }
                }
                all
            }
            _ => return None,
        };
        Some(flat)
    }

    /// Alignment and size in memory that has no layout of the module's own.
    pub(crate) fn natural(&self, id: u32) -> Result<(u32, u32)> {
        match (self.natural.get(&id), self.get(id)?) {
            (Some(natural), _) => Ok(*natural),
            (None, Type::Other(op)) => Err(unsupported(*op)),
            (None, _) => Err(malformed(format!("%{id} has no size, or one of more than 4 GiB"))),
        }
    }

    fn natural_of(&self, ty: &Type) -> Option<(u32, u32)> {
        let of = |id: &u32| self.natural.get(id).copied();
        Some(match ty {
            Type::Scalar(scalar) => (scalar.bytes(), scalar.bytes()),
            Type::Pointer { .. } => (8, 8),
            Type::Vector { of: part, count } | Type::Matrix { of: part, count } | Type::Array { of: part, count } => {
                let (align, size) = of(part)?;
                (align, size.checked_mul(*count)?)
            }
            Type::Struct { members } => {
                let (mut align, mut end) = (1, 0u32);
                for member in members {
                    let (own, size) = of(member)?;
                    align = align.max(own);
                    end = end.checked_next_multiple_of(own)?.checked_add(size)?;
                }
                (align, end.checked_next_multiple_of(align)?)
            }
            _ => return None,
        })
    }

    /// Offset of a member of a struct.
    pub(crate) fn offset(&self, id: u32, index: u32, explicit: bool) -> Result<u32> {
        if explicit {
            let offset = self.member(id, index, Decoration::Offset);
            return offset.ok_or_else(|| malformed(format!("member {index} of %{id} has no Offset")));
        }
        let Type::Struct { members } = self.get(id)? else { return Ok(0) };
        let mut end = 0u32;
        for (number, member) in members.iter().enumerate() {
            let (align, size) = self.natural(*member)?;
            let start = end.next_multiple_of(align);
            if number == index as usize {
                return Ok(start);
            }
            end = start.saturating_add(size);
        }
        Err(malformed(format!("%{id} has no member {index}")))
    }

    /// Distance of the elements of an array.
    pub(crate) fn stride(&self, id: u32, explicit: bool) -> Result<u32> {
        match self.decoration(id, Decoration::ArrayStride) {
            Some(stride) if explicit => Ok(stride),
            _ if explicit => Err(malformed(format!("%{id} has no ArrayStride"))),
            _ => self.natural(self.part(id, 0)?).map(|(_, size)| size),
        }
    }
}
