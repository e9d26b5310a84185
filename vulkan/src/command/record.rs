//! Recording of commands. They run in order, each complete and visible before the next one begins, so that barriers have nothing to do.

use std::sync::Arc;

use ash::vk;
use campanile_umd::{Device, Dispatch};

use super::arguments::Arguments;
use super::bound::{Bound, Late};
use super::{Command, Commands, Recorded};
use crate::descriptor::{self, DescriptorSet, Write};
use crate::failure::Answer;
use crate::layout::{PipelineLayout, SetLayout};
use crate::memory::{Buffer, Range};
use crate::physical::{PUSH_CONSTANTS_MAX, SETS_MAX};
use crate::pipeline::Pipeline;
use crate::query::{AVAILABILITY, COPIES, Form, QUERY, QueryPool};
use crate::sync::Point;

/// The recorded commands of a buffer, and what is bound.
pub(crate) struct Recording {
    commands: Commands,
    /// The commands once recording has ended, shared with submissions of the buffer.
    ended: Arc<Commands>,
    pipeline: Option<Arc<Pipeline>>,
    push: [u8; PUSH_CONSTANTS_MAX as usize],
    sets: Vec<Bound>,
    /// The latest dispatch and the workgroup that it begins with, while the next one has the same program and arguments.
    latest: Option<(Dispatch, [u32; 3])>,
    arguments: Arguments,
    /// Sets in argument blocks that may be updated until the buffer is submitted.
    late: Vec<Late>,
    /// The first error, which vkEndCommandBuffer returns.
    failed: Recorded,
}

impl Recording {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            commands: Commands::default(),
            ended: Arc::default(),
            pipeline: None,
            push: [0; PUSH_CONSTANTS_MAX as usize],
            sets: Vec::new(),
            latest: None,
            arguments: Arguments::new(device),
            late: Vec::new(),
            failed: Ok(()),
        }
    }

    /// Forgets everything; `trim` gives the memory back as well.
    pub(crate) fn reset(&mut self, trim: bool) {
        // The memory of commands that no submission has is used again.
        if let Some(ended) = Arc::get_mut(&mut self.ended) {
            self.commands = core::mem::take(ended);
        } else {
            self.ended = Arc::default();
        }
        self.commands.clear();
        self.pipeline = None;
        self.sets.clear();
        self.latest = None;
        self.late.clear();
        self.failed = Ok(());
        if trim {
            self.commands = Commands::default();
            self.arguments.trim();
        } else {
            self.arguments.reset();
        }
    }

    /// Ends recording.
    ///
    /// # Errors
    /// The first error of a command since recording began.
    pub(crate) fn end(&mut self) -> Recorded {
        self.ended = Arc::new(core::mem::take(&mut self.commands));
        self.failed
    }

    /// Appends a command.
    pub(super) fn push(&mut self, command: Command) {
        self.commands.list.push(command);
    }

    /// Keeps bytes for commands; returns their GPU virtual address.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Result<u64, vk::Result> {
        Ok(self.arguments.write(bytes)?.address())
    }

    /// The commands in order, for a submission; none before recording has ended. Argument blocks get the descriptors as they are now of sets that may be updated after they were bound.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn submitted(&mut self) -> Answer<Arc<Commands>> {
        self.late.iter().try_for_each(Late::refresh)?;
        Ok(Arc::clone(&self.ended))
    }

    /// Keeps the first error of a command, which has no result of its own.
    pub(crate) fn note(&mut self, outcome: Recorded) {
        if self.failed.is_ok() {
            self.failed = outcome;
        }
    }

    pub(crate) fn bind_pipeline(&mut self, pipeline: Arc<Pipeline>) {
        self.commands.programs.push(pipeline.program.clone());
        self.pipeline = Some(pipeline);
        self.latest = None;
    }

    fn set(&mut self, index: u32) -> Option<&mut Bound> {
        if index >= SETS_MAX {
            return None;
        }
        let index = index as usize;
        if self.sets.len() <= index {
            self.sets.resize_with(index + 1, Bound::default);
        }
        self.latest = None;
        self.sets.get_mut(index)
    }

    /// Binds sets from `first` on; `offsets` are those of dynamic descriptors, set by set.
    pub(crate) fn bind_sets(&mut self, first: u32, sets: &[Arc<DescriptorSet>], mut offsets: &[u32]) {
        for (index, set) in (first..).zip(sets) {
            let Some(place) = self.set(index) else { return };
            let taken = place.bind(set, offsets);
            offsets = offsets.get(taken..).unwrap_or_default();
        }
    }

    /// Writes descriptors of a set that has no object.
    pub(crate) fn push_set(&mut self, index: u32, layout: &SetLayout, writes: &[Write]) {
        let Some(place) = self.set(index) else { return };
        let descriptors = place.pushed(layout);
        writes.iter().for_each(|write| descriptor::write(layout, descriptors, write));
    }

    /// Changes push constants.
    pub(crate) fn push_constants(&mut self, offset: u32, bytes: &[u8]) {
        let places = self.push.iter_mut().skip(offset as usize);
        places.zip(bytes).for_each(|(place, byte)| *place = *byte);
        self.latest = None;
    }

    /// A new argument block with what is bound, and, if there is one, the workgroup that dispatches begin with.
    fn argument_block(&mut self, layout: &PipelineLayout, base: Option<[u32; 3]>) -> Answer<u64> {
        let base_bytes = base.map_or(0, |_| size_of::<[u32; 3]>());
        let block = self.arguments.place(layout.size as usize + base_bytes)?;
        let mut bytes = vec![0u8; layout.size as usize];
        bytes.iter_mut().zip(&self.push).take(layout.push as usize).for_each(|(to, byte)| *to = *byte);
        for (place, set) in layout.places().iter().zip(&self.sets) {
            let (count, set) = (place.bytes() as usize, set.bytes(block.address() + u64::from(place.offset)));
            bytes.iter_mut().skip(place.offset as usize).take(count).zip(set).for_each(|(to, byte)| *to = byte);
        }
        bytes.extend(base.iter().flatten().flat_map(|first| first.to_le_bytes()));
        block.write(0, &bytes)?;
        let sets = layout.places().iter().zip(&self.sets);
        self.late.extend(sets.filter_map(|(place, set)| set.late(&block, place)));
        Ok(block.address())
    }

    /// A dispatch of the pipeline that is bound, with arguments for the workgroup that it begins with, and without numbers of workgroups.
    #[inline]
    fn prepare(&mut self, base: [u32; 3]) -> Answer<Dispatch> {
        if let Some((dispatch, first)) = &self.latest
            && *first == base
        {
            return Ok(*dispatch);
        }
        self.prepare_anew(base)
    }

    #[cold]
    fn prepare_anew(&mut self, base: [u32; 3]) -> Answer<Dispatch> {
        let pipeline = self.pipeline.clone().ok_or(vk::Result::ERROR_UNKNOWN)?;
        if base != [0; 3] && !pipeline.has_base {
            return Err(vk::Result::ERROR_UNKNOWN);
        }
        let arguments = self.argument_block(&pipeline.layout, pipeline.has_base.then_some(base))?;
        let dispatch = Dispatch { report: pipeline.report.address(), ..pipeline.program.dispatch([0; 3], arguments) };
        self.latest = Some((dispatch, base));
        Ok(dispatch)
    }

    /// A dispatch whose workgroups are counted from `base` on.
    ///
    /// # Errors
    /// VK_ERROR_UNKNOWN for a base that is not 0 and a pipeline that was created without VK_PIPELINE_CREATE_DISPATCH_BASE_BIT.
    #[inline]
    pub(crate) fn dispatch(&mut self, base: [u32; 3], groups: [u32; 3]) -> Recorded {
        let [grid_x, grid_y, grid_z] = groups;
        let dispatch = Dispatch { grid_x, grid_y, grid_z, ..self.prepare(base)? };
        self.push(Command::Dispatch(dispatch));
        Ok(())
    }

    /// A dispatch whose numbers of workgroups lie in a buffer, and are read when the dispatch begins.
    pub(crate) fn dispatch_indirect(&mut self, buffer: &Buffer, offset: u64) -> Recorded {
        let indirect = buffer.address().saturating_add(offset);
        let dispatch = Dispatch { indirect, ..self.prepare([0; 3])? };
        self.push(Command::Dispatch(dispatch));
        Ok(())
    }

    pub(crate) fn copy(&mut self, from: Range, to: Range) {
        let size = from.size.min(to.size);
        if size != 0 {
            self.push(Command::Copy { to: to.address, from: from.address, size });
        }
    }

    /// Fills a range, in whole words.
    pub(crate) fn fill(&mut self, to: Range, pattern: u32) {
        let size = to.size & !3;
        if size != 0 {
            self.push(Command::Fill { to: to.address, size, pattern });
        }
    }

    /// Writes data that is part of the command buffer.
    pub(crate) fn update(&mut self, to: Range, bytes: &[u8]) -> Recorded {
        let address = self.keep(bytes)?;
        self.copy(Range { address, size: bytes.len() as u64 }, to);
        Ok(())
    }

    /// Appends the commands of a secondary command buffer, whose memory outlives this recording.
    pub(crate) fn append(&mut self, secondary: &Self) {
        self.commands.list.extend_from_slice(&secondary.ended.list);
        self.commands.programs.extend_from_slice(&secondary.ended.programs);
        self.late.extend_from_slice(&secondary.late);
    }

    pub(crate) fn signal(&mut self, point: Point) {
        self.push(Command::Signal(point));
    }

    pub(crate) fn wait(&mut self, point: Point) {
        self.push(Command::Wait(point));
    }

    pub(crate) fn reset_queries(&mut self, pool: &QueryPool, first: u32, count: u32) {
        let (address, count) = pool.at(first, count);
        self.fill(Range { address, size: u64::from(count) * QUERY }, 0);
    }

    pub(crate) fn timestamp(&mut self, pool: &QueryPool, query: u32) {
        let (address, count) = pool.at(query, 1);
        if count != 0 {
            self.push(Command::Timestamp { to: address });
            self.fill(Range { address: address + AVAILABILITY, size: 4 }, 1);
        }
    }

    /// Copies results of queries as far as they fit. Those that are not there are waited for if the flags say so, and left out otherwise.
    pub(crate) fn copy_queries(
        &mut self,
        pool: &QueryPool,
        queries: (u32, u32),
        to: Range,
        stride: u64,
        form: Form,
    ) -> Recorded {
        let (from, count) = pool.at(queries.0, queries.1);
        let behind = to
            .size
            .checked_sub(form.size())
            .map_or(0, |capacity| capacity.checked_div(stride).map_or(1, |more| more.saturating_add(1)));
        let count = behind.min(count.into()) as u32;
        if count == 0 {
            return Ok(());
        }
        let words = [from, to.address, stride, u64::from(form.bits()) << 32 | u64::from(count)];
        let arguments = self.arguments.write(words.map(u64::to_le_bytes).as_flattened())?.address();
        let dispatch = pool.copy.dispatch([count.div_ceil(COPIES), 1, 1], arguments);
        self.commands.programs.push(pool.copy.clone());
        self.push(Command::Dispatch(dispatch));
        Ok(())
    }
}
