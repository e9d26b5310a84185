//! Constants, specialized, and the operations that they may be made with.

use std::collections::HashMap;

use campanile_hw::isa::Op as I;
use rspirv::spirv::{Decoration, Op, StorageClass};

use crate::error::{Result, malformed, unsupported};
use crate::ir::Src;
use crate::options::Options;
use crate::read::Inst;
use crate::types::{Type, Types};
use crate::value::Value;

/// How operands are read before an operation: as they are, or with the sign of a narrow integer extended.
type Plain = (I, bool);

/// Operations of SPIR-V that are one operation of the GPU; true if its integers are signed.
pub(crate) const fn binary(op: Op) -> Option<Plain> {
    Some(match op {
        Op::IAdd => (I::Add, false),
        Op::ISub => (I::Sub, false),
        Op::IMul => (I::Mul, false),
        Op::UDiv => (I::DivU, false),
        Op::SDiv => (I::DivS, true),
        Op::UMod => (I::RemU, false),
        Op::SRem => (I::RemS, true),
        Op::FAdd => (I::Add, false),
        Op::FSub => (I::Sub, false),
        Op::FMul => (I::Mul, false),
        Op::FDiv => (I::Div, false),
        Op::FRem => (I::Rem, false),
        Op::BitwiseAnd | Op::LogicalAnd => (I::And, false),
        Op::BitwiseOr | Op::LogicalOr => (I::Or, false),
        Op::BitwiseXor | Op::LogicalNotEqual => (I::Xor, false),
        _ => return None,
    })
}

/// Reads a constant.
pub(crate) fn constant(types: &Types, options: &Options, inst: &Inst, values: &mut HashMap<u32, Value>) -> Result<()> {
    let specialized =
        types.decoration(inst.id, Decoration::SpecId).and_then(|id| options.specialization.get(&id)).copied();
    let data = match inst.op {
        Op::ConstantTrue | Op::ConstantFalse => vec![Src::Const(u64::from(inst.op == Op::ConstantTrue))],
        Op::SpecConstantTrue | Op::SpecConstantFalse => {
            let set = specialized.map_or(inst.op == Op::SpecConstantTrue, |bits| bits != 0);
            vec![Src::Const(u64::from(set))]
        }
        Op::Constant | Op::SpecConstant => {
            let scalar = types.scalar(inst.ty)?;
            let own = u64::from(inst.arg(0)?) | u64::from(inst.args.get(1).copied().unwrap_or(0)) << 32;
            let bits = if inst.op == Op::SpecConstant { specialized.unwrap_or(own) } else { own };
            vec![Src::Const(bits & (u64::MAX >> (64 - scalar.bits())))]
        }
        Op::ConstantComposite | Op::SpecConstantComposite => {
            let mut all = Vec::new();
            for part in &inst.args {
                match values.get(part) {
                    Some(Value::Data(data)) => all.extend_from_slice(data),
                    _ => return Err(malformed(format!("%{part} is not a constant"))),
                }
                if all.len() > types.count(inst.ty)? as usize {
                    return Err(malformed(format!("%{} has too many parts", inst.id)));
                }
            }
            all
        }
        Op::ConstantNull | Op::Undef => match types.get(inst.ty)? {
            Type::Pointer { class, .. } if *class != StorageClass::PhysicalStorageBuffer => return Ok(()),
            _ => vec![Src::Const(0); types.count(inst.ty)? as usize],
        },
        op => return Err(unsupported(op)),
    };
    if data.len() as u32 != types.count(inst.ty)? {
        return Err(malformed(format!("the constant %{} has another type than its parts", inst.id)));
    }
    values.insert(inst.id, Value::Data(data));
    Ok(())
}
