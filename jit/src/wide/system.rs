//! System values in vectors.

use super::bytes::{RAX, RDI, Source};
use super::opcodes;
use super::plain::Plain;
use crate::context::Context;
use crate::files::WORD;
use campanile_hw::isa::{LANES, Op, SystemValue};
use std::mem::offset_of;

impl Plain<'_> {
    /// The words of a system value.
    pub(super) fn system(&mut self, value: SystemValue, to: u8) {
        let (header, [free, ..]) = (self.header, self.free());
        let number = value as usize;
        match value {
            SystemValue::LocalIdX | SystemValue::LocalIdY | SystemValue::LocalIdZ => self.local(number, to),
            SystemValue::WorkgroupIdX | SystemValue::WorkgroupIdY | SystemValue::WorkgroupIdZ => {
                let dimension = number - SystemValue::WorkgroupIdX as usize;
                self.field(to, offset_of!(Context, workgroup) + dimension * 4);
            }
            SystemValue::GlobalIdX | SystemValue::GlobalIdY | SystemValue::GlobalIdZ => {
                let dimension = number - SystemValue::GlobalIdX as usize;
                let size = [header.workgroup_x, header.workgroup_y, header.workgroup_z].get(dimension).copied();
                self.local(dimension, to);
                self.field(free, offset_of!(Context, workgroup) + dimension * 4);
                let size = self.number(false, size.unwrap_or(0).into());
                self.emit(opcodes::MULTIPLY, [free, free], size);
                self.emit(opcodes::add(false), [to, to], Source::Register(free));
            }
            SystemValue::WorkgroupSizeX => self.same(to, header.workgroup_x),
            SystemValue::WorkgroupSizeY => self.same(to, header.workgroup_y),
            SystemValue::WorkgroupSizeZ => self.same(to, header.workgroup_z),
            SystemValue::WorkgroupCountX | SystemValue::WorkgroupCountY | SystemValue::WorkgroupCountZ => {
                let dimension = number - SystemValue::WorkgroupCountX as usize;
                self.field(to, offset_of!(Context, count) + dimension * 4);
            }
            SystemValue::SubgroupId => self.field(to, offset_of!(Context, subgroup)),
            SystemValue::SubgroupCount => self.same(to, header.subgroups()),
            SystemValue::LaneId => self.lanes(to),
            SystemValue::LocalIndex => {
                self.lanes(to);
                self.field(free, offset_of!(Context, subgroup));
                self.shift(Op::Shl, false, [free, free], LANES.trailing_zeros() as u8);
                self.emit(opcodes::add(false), [to, to], Source::Register(free));
            }
        }
    }

    /// A number in all lanes.
    fn same(&mut self, to: u8, number: u32) {
        let number = self.code().constant(&number.to_le_bytes());
        self.emit(opcodes::SPREAD, [to, 0], Source::Constant(number));
    }

    /// A word of the context in all lanes.
    fn field(&mut self, to: u8, offset: usize) {
        self.emit(opcodes::SPREAD, [to, 0], Source::Element(RDI, offset as i32));
    }

    /// Numbers of the lanes in their subgroup.
    fn lanes(&mut self, to: u8) {
        let count = self.form().lanes() as u32;
        let first = self.registers.group as u32 * count;
        let bytes: Vec<u8> = (first..first + count).flat_map(u32::to_le_bytes).collect();
        let lanes = self.code().constant(&bytes);
        self.emit(opcodes::LOAD, [to, 0], Source::Constant(lanes));
    }

    fn local(&mut self, dimension: usize, to: u8) {
        let before = self.registers.group * self.form().bytes() as i32;
        self.code().load(true, RAX, RDI, offset_of!(Context, local) as i32);
        self.emit(opcodes::LOAD, [to, 0], Source::At(RAX, dimension as i32 * WORD + before));
    }
}
