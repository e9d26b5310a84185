//! SYSTEM: places of lanes, workgroups and subgroups, and their numbers.

use crate::context::Context;
use crate::files::{Files, WORD};
use crate::lanes::{registers, splat, words};
use campanile_hw::isa::{LANES, ProgramHeader, SystemValue};
use cranelift_codegen::ir::types::{I32, I32X4};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use std::mem::offset_of;

/// Four lanes, for what they are asked about.
pub(crate) struct Lanes<'a> {
    pub(crate) files: &'a Files,
    pub(crate) header: &'a ProgramHeader,
    /// Number of the first of the lanes, and bytes of a word of the lanes before it.
    pub(crate) lane: Value,
    pub(crate) offset: Value,
}

impl Lanes<'_> {
    /// The words of a system value.
    pub(crate) fn value(&self, b: &mut FunctionBuilder<'_>, value: SystemValue) -> Value {
        match value {
            SystemValue::LocalIdX => self.local(b, 0),
            SystemValue::LocalIdY => self.local(b, 1),
            SystemValue::LocalIdZ => self.local(b, 2),
            SystemValue::WorkgroupIdX => self.workgroup(b, 0),
            SystemValue::WorkgroupIdY => self.workgroup(b, 1),
            SystemValue::WorkgroupIdZ => self.workgroup(b, 2),
            SystemValue::GlobalIdX => self.global(b, 0),
            SystemValue::GlobalIdY => self.global(b, 1),
            SystemValue::GlobalIdZ => self.global(b, 2),
            SystemValue::WorkgroupSizeX => splat(b, I32X4, u64::from(self.header.workgroup_x)),
            SystemValue::WorkgroupSizeY => splat(b, I32X4, u64::from(self.header.workgroup_y)),
            SystemValue::WorkgroupSizeZ => splat(b, I32X4, u64::from(self.header.workgroup_z)),
            SystemValue::WorkgroupCountX => self.field(b, offset_of!(Context, count)),
            SystemValue::WorkgroupCountY => self.field(b, offset_of!(Context, count) + 4),
            SystemValue::WorkgroupCountZ => self.field(b, offset_of!(Context, count) + 8),
            SystemValue::SubgroupId => self.field(b, offset_of!(Context, subgroup)),
            SystemValue::SubgroupCount => splat(b, I32X4, u64::from(self.header.subgroups())),
            SystemValue::LaneId => self.lanes(b),
            SystemValue::LocalIndex => {
                let subgroup = self.field(b, offset_of!(Context, subgroup));
                let first = b.ins().ishl_imm_s(subgroup, i64::from(LANES.trailing_zeros()));
                let lanes = self.lanes(b);
                b.ins().iadd(first, lanes)
            }
        }
    }

    /// A word of the context, in all lanes.
    fn field(&self, b: &mut FunctionBuilder<'_>, offset: usize) -> Value {
        let word = b.ins().load(I32, registers(), self.files.context, offset as i32);
        b.ins().splat(I32X4, word)
    }

    /// Numbers of the lanes in their subgroup.
    fn lanes(&self, b: &mut FunctionBuilder<'_>) -> Value {
        let first = b.ins().splat(I32X4, self.lane);
        let each = words(b, [0, 1, 2, 3]);
        b.ins().iadd(first, each)
    }

    fn local(&self, b: &mut FunctionBuilder<'_>, dimension: i32) -> Value {
        let place = b.ins().iadd(self.files.local, self.offset);
        b.ins().load(I32X4, registers(), place, dimension * WORD)
    }

    fn workgroup(&self, b: &mut FunctionBuilder<'_>, dimension: i32) -> Value {
        self.field(b, offset_of!(Context, workgroup) + dimension as usize * 4)
    }

    fn global(&self, b: &mut FunctionBuilder<'_>, dimension: i32) -> Value {
        let size = [self.header.workgroup_x, self.header.workgroup_y, self.header.workgroup_z];
        let size = size.get(dimension as usize).copied().unwrap_or(0);
        let word = offset_of!(Context, workgroup) + dimension as usize * 4;
        let word = b.ins().load(I32, registers(), self.files.context, word as i32);
        let first = b.ins().imul_imm_s(word, i64::from(size));
        let first = b.ins().splat(I32X4, first);
        let local = self.local(b, dimension);
        b.ins().iadd(first, local)
    }
}
