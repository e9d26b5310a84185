//! What is known of a module before its instructions are looked at: types, sizes, and what it expects in the argument block.

use std::collections::{HashMap, HashSet};

use campanile_hw::isa::WORKGROUP_MAX;
use rspirv::spirv::{BuiltIn, Decoration, ExecutionMode, Op, StorageClass};

use crate::constant::{binary, constant};
use crate::error::{Result, limit, malformed, unsupported, unsupported_form};
use crate::fold;
use crate::ir::Src;
use crate::module::{Module, storage_class};
use crate::options::{ArgumentLayout, Descriptor, Options};
use crate::types::{Type, Types};
use crate::value::Value;

/// Most descriptors of a program.
const DESCRIPTORS_MAX: u32 = 1 << 16;

/// Reads types and constants, which need each other.
pub(crate) fn declare(module: &mut Module, options: &Options) -> Result<HashMap<u32, Value>> {
    let mut values: HashMap<u32, Value> = HashMap::new();
    let mut types = core::mem::take(&mut module.types);
    let mut total = 0usize;
    let globals = core::mem::take(&mut module.globals);
    let mut rest = Vec::new();
    for inst in globals {
        let known = |values: &HashMap<u32, Value>, id: u32| match values.get(&id) {
            Some(Value::Data(data)) => data.first().and_then(|src| src.constant()),
            _ => None,
        };
        match inst.op {
            op if format!("{op:?}").starts_with("Type") => {
                types.declare(&inst, |id| known(&values, id))?;
                continue;
            }
            Op::Variable | Op::ExtInst => {}
            Op::SpecConstantOp => {
                let inner = inst.specialized()?;
                let operands = (
                    inner.args.first().and_then(|id| known(&values, *id)),
                    inner.args.get(1).and_then(|id| known(&values, *id)),
                );
                // What is not an operation on integers is done where the others are; only lengths of arrays need this.
                if let (Some((op, _)), (Some(a), Some(b)), Ok(scalar)) =
                    (binary(inner.op), operands, types.scalar(inst.ty))
                    && let Some(bits) = fold::binary(op, scalar.isa(), a, b)
                {
                    values.insert(inst.id, Value::Data(vec![Src::Const(bits)]));
                }
            }
            _ => {
                if inst.ty != 0
                    && let Ok(count) = types.count(inst.ty)
                {
                    total += count as usize;
                }
                if total > 1 << 20 {
                    return Err(limit("constants of more than a million scalars"));
                }
                constant(&types, options, &inst, &mut values)?;
            }
        }
        rest.push(inst);
    }
    module.types = types;
    module.globals = rest;
    Ok(values)
}

/// Lanes of a workgroup: the WorkgroupSize constant, or an execution mode.
pub(crate) fn workgroup(module: &Module, values: &HashMap<u32, Value>) -> Result<[u32; 3]> {
    let mut size = [1u32; 3];
    let number = |id: u32| match values.get(&id) {
        Some(Value::Data(data)) => data.first().and_then(|src| src.constant()).map(|bits| bits as u32),
        _ => None,
    };
    for mode in &module.modes {
        let literal = mode.arg(1)? == ExecutionMode::LocalSize as u32;
        if literal || mode.arg(1)? == ExecutionMode::LocalSizeId as u32 {
            for (dimension, place) in size.iter_mut().enumerate() {
                let word = mode.arg(dimension + 2)?;
                *place = if literal { Some(word) } else { number(word) }
                    .ok_or_else(|| malformed("LocalSizeId is not constant"))?;
            }
        }
    }
    for (id, which) in module.types.decorated(Decoration::BuiltIn) {
        if let (true, Some(Value::Data(data))) = (which == BuiltIn::WorkgroupSize as u32, values.get(&id)) {
            for (place, source) in size.iter_mut().zip(data) {
                *place = source.constant().ok_or_else(|| malformed("WorkgroupSize is not constant"))? as u32;
            }
        }
    }
    let lanes = size.iter().fold(1u32, |lanes, dimension| lanes.saturating_mul(*dimension));
    if lanes == 0 || lanes > WORKGROUP_MAX {
        return Err(limit(format!("a workgroup of {size:?} lanes, 1 to {WORKGROUP_MAX} are possible")));
    }
    Ok(size)
}

/// Ids that the functions of a module name.
fn used(module: &Module) -> HashSet<u32> {
    let all = module.functions.values().flat_map(|function| function.blocks.values().flatten());
    all.flat_map(|inst| inst.args.iter().copied()).collect()
}

/// Refuses what is neither an image nor a sampler nor an array of them.
fn check_opaque(types: &Types, mut ty: u32) -> Result<()> {
    while let Type::Array { of, .. } | Type::RuntimeArray { of } = types.get(ty)? {
        ty = *of;
    }
    match types.get(ty)? {
        Type::Image(_) | Type::Sampler | Type::SampledImage { .. } => Ok(()),
        Type::Other(op) => Err(unsupported(*op)),
        _ => Err(unsupported_form(Op::Variable, "of the storage class UniformConstant")),
    }
}

/// Lays the argument block out.
pub(crate) fn arguments(module: &Module, options: &Options) -> Result<ArgumentLayout> {
    let used = used(module);
    let start = options.push_constant_offset;
    let mut layout = ArgumentLayout { size: start, push_constants: start..start, descriptors: Vec::new() };
    let types = &module.types;
    let mut pending = Vec::new();
    for inst in module.globals.iter().filter(|inst| inst.op == Op::Variable && used.contains(&inst.id)) {
        let Type::Pointer { to, .. } = *types.get(inst.ty)? else { continue };
        match storage_class(inst.arg(0)?)? {
            StorageClass::PushConstant => {
                let end = start.checked_add(extent(types, to)?).ok_or_else(|| limit("push constants"))?;
                layout.push_constants.end = layout.push_constants.end.max(end);
            }
            class @ (StorageClass::StorageBuffer | StorageClass::Uniform | StorageClass::UniformConstant) => {
                if class == StorageClass::UniformConstant {
                    check_opaque(types, to)?;
                }
                let set = types.decoration(inst.id, Decoration::DescriptorSet).unwrap_or(0);
                let binding = types.decoration(inst.id, Decoration::Binding).unwrap_or(0);
                let count = match types.get(to)? {
                    Type::Array { count, .. } => *count,
                    _ => 1,
                };
                pending.push(Descriptor { set, binding, offset: 0, count, variable: inst.id });
            }
            _ => {}
        }
    }
    if layout.push_constants.end > 1 << 16 {
        return Err(limit("push constants of more than 64 KiB"));
    }
    pending.sort_by_key(|descriptor| (descriptor.set, descriptor.binding));
    let named = options
        .bindings
        .iter()
        .map(|binding| binding.offset.saturating_add(binding.count.saturating_mul(16)))
        .max()
        .unwrap_or(0);
    let mut next =
        layout.push_constants.end.max(named).checked_next_multiple_of(16).ok_or_else(|| limit("descriptors"))?;
    let mut placed: HashMap<(u32, u32), (u32, u32)> = options
        .bindings
        .iter()
        .map(|binding| ((binding.set, binding.binding), (binding.offset, binding.count)))
        .collect();
    for mut descriptor in pending {
        let key = (descriptor.set, descriptor.binding);
        let (offset, count) = *placed.entry(key).or_insert_with(|| {
            let place = (next, descriptor.count);
            next = next.saturating_add(descriptor.count.saturating_mul(16));
            place
        });
        if next > DESCRIPTORS_MAX * 16 || offset > DESCRIPTORS_MAX * 16 || count == 0 || !offset.is_multiple_of(8) {
            return Err(limit("descriptors"));
        }
        (descriptor.offset, descriptor.count) = (offset, count);
        layout.descriptors.push(descriptor);
    }
    layout.size = next;
    Ok(layout)
}

/// Bytes of a block that the module lays out.
fn extent(types: &Types, ty: u32) -> Result<u32> {
    let too_large = || limit("a block of more than 4 GiB");
    Ok(match types.get(ty)? {
        Type::Struct { members } => {
            // The member that begins last ends last: members do not overlap.
            let mut last = None;
            for (index, member) in (0u32..).zip(members) {
                last = last.max(Some((types.offset(ty, index, true)?, index, *member)));
            }
            let Some((offset, index, member)) = last else { return Ok(0) };
            let matrix = types.matrix(ty, index);
            let size = if matrix.stride != 0 { matrix.stride.saturating_mul(16) } else { extent(types, member)? };
            offset.checked_add(size).ok_or_else(too_large)?
        }
        Type::Array { count, .. } => types.stride(ty, true)?.checked_mul(*count).ok_or_else(too_large)?,
        _ => types.natural(ty)?.1,
    })
}
