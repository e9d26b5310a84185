//! Sampling: level of detail, filters, address modes, comparison, and gathering.

use campanile_hw::isa::{Comparison, MemoryFormat, Op as I, Type as T};
use rspirv::spirv::{Dim, Op};

use crate::error::{Result, malformed, unsupported};
use crate::image::Operands;
use crate::ir::{Class, Node, Src, V};
use crate::lower::Lower;
use crate::read::Inst;
use crate::record::{AddressMode, image, sampler};
use crate::texel::{Format, float, word};
use crate::types::{ImageType, Scalar};
use crate::value::Opaque;

/// Use that an instruction makes of the texels that it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Interpolates them.
    Filter,
    /// Takes a component of four of them.
    Gather,
}

/// One sample: the image, the coordinates, and the use that is made of the texels.
struct Request {
    opaque: Opaque,
    ty: ImageType,
    mode: Use,
    /// Coordinates, from 0 to 1, of the dimensions that the image has.
    coordinates: Vec<Src>,
    /// The layer or face.
    layer: Src,
    offsets: Vec<Src>,
    /// Offsets of each of the texels that are gathered, one texel after the other; they stand for the corners, too.
    of_each: Vec<Src>,
    /// The reference that texels are compared with.
    reference: Option<Src>,
    /// The component that is gathered.
    component: Src,
}

/// The state of a sampler, in registers.
struct Sampler {
    magnify: Src,
    minify: Src,
    between: Src,
    comparison: Src,
    modes: [Src; 3],
    unnormalized: Src,
    bias: Src,
    lod_min: Src,
    lod_max: Src,
    border: [Src; 4],
}

/// The levels that are read: the first one, how much of the next one, and whether their texels are interpolated.
struct Detail {
    level: Src,
    next: Src,
    linear: Src,
}

/// The axis of a cube along which a direction is longest, as predicates.
struct Axis {
    along_z: Src,
    y_above_x: Src,
    /// Predicates that are true for negative components of the direction: x, y, z.
    minus: [Src; 3],
}

impl Lower<'_> {
    /// An instruction that samples.
    pub(crate) fn sampled(&mut self, inst: &Inst) -> Result<()> {
        let (mode, compares) = match inst.op {
            Op::ImageSampleExplicitLod | Op::ImageSampleProjExplicitLod => (Use::Filter, false),
            Op::ImageSampleDrefExplicitLod | Op::ImageSampleProjDrefExplicitLod => (Use::Filter, true),
            Op::ImageGather => (Use::Gather, false),
            Op::ImageDrefGather => (Use::Gather, true),
            op => return Err(unsupported(op)),
        };
        let has_third = compares || mode == Use::Gather;
        let operands = self.image_operands(inst, if has_third { 3 } else { 2 })?;
        let opaque = self.opaque_of(inst.arg(0)?)?;
        let ty = self.types.image_of(opaque.ty)?;
        let third = if has_third { self.single(inst.arg(2)?)? } else { Src::Const(0) };
        let offsets = operands.offset.map_or(Ok(Vec::new()), |offset| self.data(offset))?;
        let of_each = operands.offsets.map_or(Ok(Vec::new()), |offsets| self.data(offsets))?;
        if !of_each.is_empty() && (mode != Use::Gather || ty.dim != Dim::Dim2D || of_each.len() != 8) {
            return Err(malformed(format!("Op{:?} with ConstOffsets", inst.op)));
        }
        let mut request = Request {
            opaque,
            ty,
            mode,
            coordinates: self.data(inst.arg(1)?)?,
            layer: Src::Const(0),
            offsets,
            of_each,
            reference: compares.then_some(third),
            component: if compares { Src::Const(0) } else { third },
        };
        if matches!(inst.op, Op::ImageSampleProjExplicitLod | Op::ImageSampleProjDrefExplicitLod) {
            self.project(&mut request)?;
        }
        let gradients = self.gradients(&request, &operands)?;
        self.place_layer(&mut request)?;
        let sampler = self.sampler(opaque.sampler)?;
        let detail = self.detail(&request, &sampler, &operands, gradients)?;
        let all = self.filter(&request, &sampler, &detail)?;
        let count = self.types.count(inst.ty)? as usize;
        self.set(inst, all.into_iter().take(count).collect())
    }

    fn sampler(&mut self, record: V) -> Result<Sampler> {
        let at = |first: V, index: V| Src::Reg(first + index);
        let filters = self.fetch(record, sampler::FILTERS, MemoryFormat::W4)?;
        let addressing = self.fetch(record, sampler::ADDRESSING, MemoryFormat::W4)?;
        let lod = self.fetch(record, sampler::LOD, MemoryFormat::W3)?;
        let border = self.fetch(record, sampler::BORDER, MemoryFormat::W4)?;
        let mut predicate = |value| self.ir.cmp(Comparison::Ne, T::I32, value, Src::Const(0));
        Ok(Sampler {
            magnify: predicate(at(filters, 0))?,
            minify: predicate(at(filters, 1))?,
            between: predicate(at(filters, 2))?,
            comparison: at(filters, 3),
            modes: [0, 1, 2].map(|index| at(addressing, index)),
            unnormalized: predicate(at(addressing, 3))?,
            bias: at(lod, 0),
            lod_min: at(lod, 1),
            lod_max: at(lod, 2),
            border: [0, 1, 2, 3].map(|index| at(border, index)),
        })
    }

    /// The square of the longer one of two gradients in texels of the first level.
    fn gradients(&mut self, request: &Request, operands: &Operands) -> Result<Option<Src>> {
        let Some((x, y)) = operands.gradients else { return Ok(None) };
        let extent = self.level(request.opaque.image, Src::Const(0))?.extent;
        let mut longest = float(0.0);
        for gradient in [x, y] {
            let mut sum = float(0.0);
            let parts = self.data(gradient)?;
            let parts = if request.ty.dim == Dim::DimCube { self.on_face(request, &parts)? } else { parts };
            for (part, size) in parts.into_iter().zip(extent) {
                let size = self.ir.convert(I::FromU, T::F32, T::I32, size)?;
                let texels = self.ir.op2(I::Mul, T::F32, part, size)?;
                sum = self.ir.fma(T::F32, texels, texels, sum)?;
            }
            longest = self.ir.op2(I::Max, T::F32, sum, longest)?;
        }
        Ok(Some(longest))
    }

    /// Divides the coordinates and the reference by the component behind those that the image has. [Vulkan: Projection Operation]
    fn project(&mut self, request: &mut Request) -> Result<()> {
        let ty = request.ty;
        if ty.arrayed || !matches!(ty.dim, Dim::Dim1D | Dim::Dim2D | Dim::Dim3D) {
            return Err(malformed("a projection onto an array or a cube"));
        }
        let divisor = request.coordinates.get(ty.dimensions()).copied();
        let divisor = divisor.ok_or_else(|| malformed("a coordinate lacks the component that divides the others"))?;
        request.coordinates.truncate(ty.dimensions());
        for value in request.coordinates.iter_mut().chain(&mut request.reference) {
            *value = self.ir.op2(I::Div, T::F32, *value, divisor)?;
        }
        Ok(())
    }

    /// Takes the layer, and the face of a cube, out of the coordinates.
    fn place_layer(&mut self, request: &mut Request) -> Result<()> {
        let ty = request.ty;
        let layer = request.coordinates.get(ty.dimensions()).copied();
        request.coordinates.truncate(ty.dimensions());
        if request.coordinates.len() < ty.dimensions() || (ty.arrayed && layer.is_none()) {
            return Err(malformed("a coordinate lacks a component"));
        }
        let faces = if ty.dim == Dim::DimCube { 6 } else { 1 };
        if let (true, Some(layer)) = (ty.arrayed, layer) {
            let [_, _, layers] = self.level(request.opaque.image, Src::Const(0))?.extent;
            let count = self.ir.op2(I::DivU, T::I32, layers, word(faces))?;
            let last = self.ir.op2(I::Sub, T::I32, count, word(1))?;
            let whole = self.ir.op1(I::RoundEven, T::F32, layer)?;
            let number = self.ir.convert(I::ToU, T::I32, T::F32, whole)?;
            let number = self.ir.op2(I::MinU, T::I32, number, last)?;
            request.layer = self.ir.op2(I::Mul, T::I32, number, word(faces))?;
        }
        if let (Dim::DimCube, [x, y, z]) = (ty.dim, request.coordinates.as_slice()) {
            let (face, coordinates) = self.face([*x, *y, *z])?;
            request.layer = self.ir.op2(I::Add, T::I32, request.layer, face)?;
            request.coordinates = coordinates.to_vec();
        }
        Ok(())
    }

    /// The face of a cube that a direction hits, and where. [Vulkan: Cube Map Face Selection and Transformations]
    fn face(&mut self, direction: [Src; 3]) -> Result<(Src, [Src; 2])> {
        let axis = self.axis(direction)?;
        let [minus_x, minus_y, minus_z] = axis.minus;
        let of_x = self.ir.select(T::I32, minus_x, word(1), word(0))?;
        let of_y = self.ir.select(T::I32, minus_y, word(3), word(2))?;
        let of_z = self.ir.select(T::I32, minus_z, word(5), word(4))?;
        let face = self.ir.select(T::I32, axis.y_above_x, of_y, of_x)?;
        let face = self.ir.select(T::I32, axis.along_z, of_z, face)?;
        let [s, t, along] = self.turned(&axis, direction)?;
        let mut coordinates = [s, t];
        for place in &mut coordinates {
            let ratio = self.ir.op2(I::Div, T::F32, *place, along)?;
            *place = self.ir.fma(T::F32, ratio, float(0.5), float(0.5))?;
        }
        Ok((face, coordinates))
    }

    /// The axis along which a direction is longest.
    fn axis(&mut self, [x, y, z]: [Src; 3]) -> Result<Axis> {
        let mut each = |value| self.ir.op1(I::Abs, T::F32, value);
        let [ax, ay, az] = [each(x)?, each(y)?, each(z)?];
        let mut cmp = |comparison, a, b| self.ir.cmp(comparison, T::F32, a, b);
        let (above_x, above_y) = (cmp(Comparison::Ge, az, ax)?, cmp(Comparison::Ge, az, ay)?);
        let y_above_x = cmp(Comparison::Ge, ay, ax)?;
        let mut negative = |value| cmp(Comparison::Lt, value, float(0.0));
        let minus = [negative(x)?, negative(y)?, negative(z)?];
        Ok(Axis { along_z: self.all(&[above_x, above_y])?, y_above_x, minus })
    }

    /// A vector as the face of an axis has it: along both coordinates, and along the axis.
    fn turned(&mut self, axis: &Axis, [x, y, z]: [Src; 3]) -> Result<[Src; 3]> {
        let mut negative = |value| self.ir.op1(I::Neg, T::F32, value);
        let [nx, ny, nz] = [negative(x)?, negative(y)?, negative(z)?];
        let [minus_x, minus_y, minus_z] = axis.minus;
        let mut pick = |minus, a, b| self.ir.select(T::F32, minus, a, b);
        let of_x = [pick(minus_x, z, nz)?, ny, pick(minus_x, nx, x)?];
        let of_y = [x, pick(minus_y, nz, z)?, pick(minus_y, ny, y)?];
        let of_z = [pick(minus_z, nx, x)?, ny, pick(minus_z, nz, z)?];
        let mut chosen = of_x;
        for ((place, y), z) in chosen.iter_mut().zip(of_y).zip(of_z) {
            let other = pick(axis.y_above_x, y, *place)?;
            *place = pick(axis.along_z, z, other)?;
        }
        Ok(chosen)
    }

    /// A gradient of a direction as one of the coordinates of its face. [Vulkan: Cube Map Derivative Transformation]
    fn on_face(&mut self, request: &Request, gradient: &[Src]) -> Result<Vec<Src>> {
        let ([x, y, z, ..], [dx, dy, dz]) = (request.coordinates.as_slice(), gradient) else {
            return Err(malformed("a direction or its gradient is no vector of three components"));
        };
        let direction = [*x, *y, *z];
        let axis = self.axis(direction)?;
        let [s, t, along] = self.turned(&axis, direction)?;
        let [ds, dt, d_along] = self.turned(&axis, [*dx, *dy, *dz])?;
        let square = self.ir.op2(I::Mul, T::F32, along, along)?;
        let mut all = Vec::new();
        for (place, change) in [(s, ds), (t, dt)] {
            let gained = self.ir.op2(I::Mul, T::F32, along, change)?;
            let lost = self.ir.op2(I::Mul, T::F32, place, d_along)?;
            let difference = self.ir.op2(I::Sub, T::F32, gained, lost)?;
            let ratio = self.ir.op2(I::Div, T::F32, difference, square)?;
            all.push(self.ir.op2(I::Mul, T::F32, ratio, float(0.5))?);
        }
        Ok(all)
    }

    /// The levels that a level of detail stands for. [Vulkan: Level-of-Detail Operation, Image Level(s) Selection]
    fn detail(
        &mut self,
        request: &Request,
        sampler: &Sampler,
        operands: &Operands,
        gradients: Option<Src>,
    ) -> Result<Detail> {
        if request.mode == Use::Gather {
            return Ok(Detail { level: Src::Const(0), next: float(0.0), linear: Src::Const(1) });
        }
        let mut lod = match (operands.lod, gradients) {
            (Some(lod), _) => self.single(lod)?,
            (None, Some(square)) => {
                let twice = self.ir.op1(I::Log2, T::F32, square)?;
                self.ir.op2(I::Mul, T::F32, twice, float(0.5))?
            }
            (None, None) => float(0.0),
        };
        lod = self.ir.op2(I::Add, T::F32, lod, sampler.bias)?;
        lod = self.ir.op2(I::Max, T::F32, lod, sampler.lod_min)?;
        lod = self.ir.op2(I::Min, T::F32, lod, sampler.lod_max)?;
        let minified = self.ir.cmp(Comparison::Gt, T::F32, lod, float(0.0))?;
        let linear = self.ir.select(T::B1, minified, sampler.minify, sampler.magnify)?;
        let levels = Src::Reg(self.fetch(request.opaque.image, image::LEVELS, MemoryFormat::W1)?);
        let last = self.ir.op2(I::Sub, T::I32, levels, word(1))?;
        let last = self.ir.convert(I::FromU, T::F32, T::I32, last)?;
        // The nearest level is ceil(lod + 0.5) - 1.
        let up = self.ir.op2(I::Add, T::F32, lod, float(0.5))?;
        let up = self.ir.op1(I::Ceil, T::F32, up)?;
        let nearest = self.ir.op2(I::Sub, T::F32, up, float(1.0))?;
        let wanted = self.ir.select(T::F32, sampler.between, lod, nearest)?;
        let wanted = self.ir.op2(I::Max, T::F32, wanted, float(0.0))?;
        let wanted = self.ir.op2(I::Min, T::F32, wanted, last)?;
        let level = self.ir.op1(I::Floor, T::F32, wanted)?;
        let next = self.ir.op2(I::Sub, T::F32, wanted, level)?;
        Ok(Detail { level: self.ir.convert(I::ToU, T::I32, T::F32, level)?, next, linear })
    }

    /// Goes over the texels around the coordinates, in a loop of the program: each of two levels, and two in each dimension. Those without weight are not read.
    fn filter(&mut self, request: &Request, sampler: &Sampler, detail: &Detail) -> Result<[Src; 4]> {
        let dimensions = request.coordinates.len() as u32;
        let format = self.format(request.opaque.image)?;
        let results: [V; 4] = core::array::from_fn(|_| self.ir.variable(Class::Word));
        for result in results {
            self.ir.copy(result, Class::Word, Src::Const(0))?;
        }
        let counter = self.ir.variable(Class::Word);
        self.ir.copy(counter, Class::Word, Src::Const(0))?;
        let label = self.ir.label();
        self.ir.open()?;
        let number = self.ir.read(Class::Word, counter)?;
        let levels = if request.mode == Use::Gather { 0 } else { 1 };
        let over = self.ir.cmp(Comparison::GeU, T::I32, number, word(1 << (dimensions + levels)))?;
        self.guarded(over, |lower| lower.ir.push(Node::Break(label)))?;
        self.one_texel(request, sampler, detail, (&format, number), &results)?;
        let body = self.ir.close();
        self.ir.open()?;
        let now = self.ir.read(Class::Word, counter)?;
        let next = self.ir.op2(I::Add, T::I32, now, word(1))?;
        self.ir.copy(counter, Class::Word, next)?;
        let continuing = self.ir.close();
        self.ir.push(Node::Loop { label, body, continuing })?;
        let mut all = [Src::Const(0); 4];
        for (place, result) in all.iter_mut().zip(results) {
            *place = self.ir.read(Class::Word, result)?;
        }
        Ok(all)
    }

    /// Adds one of the texels to the results.
    fn one_texel(
        &mut self,
        request: &Request,
        sampler: &Sampler,
        detail: &Detail,
        (format, number): (&Format, Src),
        results: &[V; 4],
    ) -> Result<()> {
        let dimensions = request.coordinates.len() as u32;
        let second = self.ir.op2(I::ShrU, T::I32, number, word(dimensions))?;
        let mut weight = self.share(second, detail.next)?;
        let next = self.ir.op2(I::Add, T::I32, detail.level, second)?;
        let level = self.level(request.opaque.image, next)?;
        let (mut place, mut inside) = ([Src::Const(0), Src::Const(0), request.layer], Vec::new());
        for (index, coordinate) in request.coordinates.iter().enumerate() {
            let corner = match request.of_each.is_empty() {
                true => self.corner(request.mode, number, index as u32)?,
                false => Src::Const(0),
            };
            let (extent, mode) = (level.extent[index], sampler.modes[index]);
            let (at, fraction) = self.scaled(*coordinate, extent, sampler.unnormalized, detail.linear)?;
            let at = self.ir.op2(I::Add, T::I32, at, corner)?;
            let at = match request.offsets.get(index) {
                Some(offset) => self.ir.op2(I::Add, T::I32, at, *offset)?,
                None => at,
            };
            let at = match request.of_each.get(index..) {
                Some(from) if !from.is_empty() => {
                    let own: Vec<_> = from.iter().step_by(2).copied().collect();
                    let own = self.pick(T::I32, &own, number)?;
                    self.ir.op2(I::Add, T::I32, at, own)?
                }
                _ => at,
            };
            if request.mode == Use::Filter {
                let share = self.share(corner, fraction)?;
                weight = self.ir.op2(I::Mul, T::F32, weight, share)?;
            }
            let at = self.wrapped(at, extent, mode)?;
            inside.push(self.ir.cmp(Comparison::LtU, T::I32, at, extent)?);
            place[index] = at;
        }
        let weighs = self.ir.cmp(Comparison::Ne, T::F32, weight, float(0.0))?;
        let weighs = if request.mode == Use::Gather { Src::Const(1) } else { weighs };
        self.guarded(weighs, |lower| {
            let inside = lower.all(&inside)?;
            let (address, there) = lower.texel(&level, format.size_log2, place)?;
            let words = lower.load_texel(address, there, format.size_log2)?;
            let colour = lower.decode(format, words, request.ty.sampled)?;
            let mut colour = lower.bordered(format, inside, colour, sampler.border)?;
            if let (Some(reference), Some(first)) = (request.reference, colour.first_mut()) {
                *first = lower.compared(reference, *first, sampler.comparison)?;
            }
            lower.add(request, (number, weight), colour, results)
        })
    }

    /// Whether the second one of two texels in a dimension is meant, as 0 or 1. Gathering begins at the lower left one and goes round.
    fn corner(&mut self, mode: Use, number: Src, dimension: u32) -> Result<Src> {
        match (mode, dimension) {
            (Use::Filter, _) => {
                let moved = self.ir.op2(I::ShrU, T::I32, number, word(dimension))?;
                self.ir.op2(I::And, T::I32, moved, word(1))
            }
            (Use::Gather, 0) => {
                let next = self.ir.op2(I::Add, T::I32, number, word(1))?;
                let moved = self.ir.op2(I::ShrU, T::I32, next, word(1))?;
                self.ir.op2(I::And, T::I32, moved, word(1))
            }
            (Use::Gather, _) => {
                let upper = self.ir.op2(I::ShrU, T::I32, number, word(1))?;
                self.ir.op2(I::Xor, T::I32, upper, word(1))
            }
        }
    }

    /// The share of the second one, or of the first one.
    fn share(&mut self, second: Src, fraction: Src) -> Result<Src> {
        let is_second = self.ir.cmp(Comparison::Ne, T::I32, second, Src::Const(0))?;
        let rest = self.ir.reg(T::F32, float(1.0))?;
        let rest = self.ir.op2(I::Sub, T::F32, Src::Reg(rest), fraction)?;
        self.ir.select(T::F32, is_second, fraction, rest)
    }

    /// The first texel that a coordinate stands for, and how far it is on the way to the next one.
    fn scaled(&mut self, coordinate: Src, extent: Src, unnormalized: Src, linear: Src) -> Result<(Src, Src)> {
        let size = self.ir.convert(I::FromU, T::F32, T::I32, extent)?;
        let texels = self.ir.op2(I::Mul, T::F32, coordinate, size)?;
        let texels = self.ir.select(T::F32, unnormalized, coordinate, texels)?;
        let centre = self.ir.select(T::F32, linear, float(0.5), float(0.0))?;
        let at = self.ir.op2(I::Sub, T::F32, texels, centre)?;
        let first = self.ir.op1(I::Floor, T::F32, at)?;
        let fraction = self.ir.op2(I::Sub, T::F32, at, first)?;
        let fraction = self.ir.select(T::F32, linear, fraction, float(0.0))?;
        Ok((self.ir.convert(I::ToS, T::I32, T::F32, first)?, fraction))
    }

    /// A coordinate as an address mode has it. [Vulkan: Wrapping Operation]
    fn wrapped(&mut self, at: Src, size: Src, mode: Src) -> Result<Src> {
        let zero = Src::Const(0);
        let last = self.ir.op2(I::Sub, T::I32, size, word(1))?;
        let negative = self.ir.cmp(Comparison::Lt, T::I32, at, zero)?;
        let repeated = self.wrap_around(at, size)?;
        let twice = self.ir.op2(I::Add, T::I32, size, size)?;
        let there = self.wrap_around(at, twice)?;
        let whole = self.ir.op2(I::Sub, T::I32, twice, word(1))?;
        let back = self.ir.op2(I::Sub, T::I32, whole, there)?;
        let mirrored = self.ir.op2(I::MinU, T::I32, there, back)?;
        let low = self.ir.op2(I::Max, T::I32, at, zero)?;
        let edge = self.ir.op2(I::Min, T::I32, low, last)?;
        // -1 - at, for what is less than 0.
        let other = self.ir.op1(I::Not, T::I32, at)?;
        let once = self.ir.select(T::I32, negative, other, at)?;
        let once = self.ir.op2(I::Min, T::I32, once, last)?;
        let mut chosen = at;
        for (number, value) in [
            (AddressMode::Repeat, repeated),
            (AddressMode::MirroredRepeat, mirrored),
            (AddressMode::ClampToEdge, edge),
            (AddressMode::MirrorClampToEdge, once),
        ] {
            let is = self.ir.cmp(Comparison::Eq, T::I32, mode, word(number as u32))?;
            chosen = self.ir.select(T::I32, is, value, chosen)?;
        }
        Ok(chosen)
    }

    /// The remainder that is not negative.
    fn wrap_around(&mut self, at: Src, size: Src) -> Result<Src> {
        let rest = self.ir.op2(I::RemS, T::I32, at, size)?;
        let more = self.ir.op2(I::Add, T::I32, rest, size)?;
        let negative = self.ir.cmp(Comparison::Lt, T::I32, rest, Src::Const(0))?;
        self.ir.select(T::I32, negative, more, rest)
    }

    /// 1 if a comparison of a reference with a texel is true, otherwise 0.
    fn compared(&mut self, reference: Src, texel: Src, comparison: Src) -> Result<Src> {
        let mut any = Src::Const(0);
        for (bit, how) in [(1, Comparison::Lt), (2, Comparison::Eq), (4, Comparison::Gt)] {
            let masked = self.ir.op2(I::And, T::I32, comparison, word(bit))?;
            let counts = self.ir.cmp(Comparison::Ne, T::I32, masked, Src::Const(0))?;
            let so = self.ir.cmp(how, T::F32, reference, texel)?;
            let both = self.all(&[counts, so])?;
            any = self.ir.op2(I::Or, T::B1, any, both)?;
        }
        self.ir.select(T::F32, any, float(1.0), float(0.0))
    }

    /// Adds a texel to the results: with its weight, as it is where there is no interpolation between integers, or one component in its place.
    fn add(
        &mut self,
        request: &Request,
        (number, weight): (Src, Src),
        colour: [Src; 4],
        results: &[V; 4],
    ) -> Result<()> {
        if request.mode == Use::Gather {
            let value = self.pick(T::I32, &colour, request.component)?;
            for (index, result) in (0..).zip(results) {
                let here = self.ir.cmp(Comparison::Eq, T::I32, number, word(index))?;
                self.guarded(here, |lower| lower.ir.copy(*result, Class::Word, value))?;
            }
            return Ok(());
        }
        for (value, result) in colour.into_iter().zip(results) {
            let sum = if request.ty.sampled == Scalar::I32 {
                value
            } else {
                let before = self.ir.read(Class::Word, *result)?;
                self.ir.fma(T::F32, value, weight, before)?
            };
            self.ir.copy(*result, Class::Word, sum)?;
        }
        Ok(())
    }
}
