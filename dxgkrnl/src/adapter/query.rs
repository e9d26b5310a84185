// UNSAFETY: reads what a driver wrote into answer buffers.
//! DxgkDdiQueryAdapterInfo: the questions of start.
//!
//! Answers are zero beforehand. No page says so, but drivers that run on Windows count on it: those of Microsoft's render-only and compute-only samples
//! set members of DXGK_DRIVERCAPS and leave all others as they are. Since none is promised them, the special pool fills answers with a pattern instead, and names what a driver
//! left out. What it wrote too much is seen in either case.

use std::marker::PhantomData;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_NOT_SUPPORTED};

use super::answer::{Answer, Buffer, Unwritten};
use super::mcdm::Unanswered;
use super::object::Adapter;
use super::versions;
use crate::caps::Segment;
use crate::ddi_buffer::{DdiBuffer, Lent, PATTERN};
use crate::refusal::{Failure, refused};
use crate::start_error::{OutputSize, StartError};
use nt::pool::SpecialPool;

/// A query without a place for its answer; with an empty `input` there is none.
fn question(kind: DXGK_QUERYADAPTERINFOTYPE, input: &mut [u32]) -> DXGKARG_QUERYADAPTERINFO {
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = kind;
    if !input.is_empty() {
        args.pInputData = input.as_mut_ptr().cast();
        args.InputDataSize = size_of_val(input) as u32;
    }
    args
}

/// An array that the driver fills through a pointer in its answer.
pub(super) struct Array<T> {
    buffer: Buffer,
    count: usize,
    element: PhantomData<T>,
}

impl<T: Answer> Array<T> {
    pub(super) fn new(count: usize) -> Self {
        Self { buffer: Buffer::zeroed(count * size_of::<T>()), count, element: PhantomData }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut T {
        self.buffer.memory.address().cast()
    }

    fn elements(&self) -> Vec<T> {
        let first = self.buffer.as_bytes().as_ptr().cast::<T>();
        // SAFETY: the buffer has space for all of them, and any bytes are valid.
        let read = |index| unsafe { first.wrapping_add(index).read_unaligned() };
        (0..self.count).map(read).collect()
    }
}

/// The bytes between the descriptors of an array whose elements are `stride` apart.
fn gaps(array: &mut [u8], stride: usize) -> impl Iterator<Item = &mut [u8]> {
    array.chunks_exact_mut(stride).filter_map(|element| element.get_mut(size_of::<DXGK_SEGMENTDESCRIPTOR4>()..))
}

impl Adapter {
    /// A buffer for an answer.
    fn buffer(&self, len: usize) -> Buffer {
        if self.machine.config().special_pool == SpecialPool::Off {
            Buffer::zeroed(len)
        } else {
            Buffer::patterned(len)
        }
    }

    /// Bytes of the answer to a question, which is `newest` bytes long in the newest version of the interface.
    pub(super) fn output_size(&self, kind: DXGK_QUERYADAPTERINFOTYPE, newest: usize) -> OutputSize {
        let InterfaceVersion { version, name, .. } = self.miniport.version();
        OutputSize { offered: versions::answer_size(kind, newest, *version), version: name, newest }
    }

    /// A question that must be answered was not; its answer is a `T`.
    pub(super) fn refused<T>(
        &self,
        (kind, query): (DXGK_QUERYADAPTERINFOTYPE, &'static str),
        status: NTSTATUS,
    ) -> StartError {
        StartError::Query { query, status, output: self.output_size(kind, size_of::<T>()) }
    }

    /// An error for a question that the driver's version of the interface does not have: the driver is not asked.
    fn check_version(&self, kind: DXGK_QUERYADAPTERINFOTYPE) -> Result<(), NTSTATUS> {
        if versions::has_query(kind, self.miniport.version().version) { Ok(()) } else { Err(STATUS_NOT_SUPPORTED) }
    }

    /// Asks with a prepared output buffer.
    fn ask(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        input: &mut [u32],
        output: &mut Buffer,
    ) -> Result<(), NTSTATUS> {
        self.check_version(kind)?;
        let mut args = question(kind, input);
        args.pOutputData = output.memory.address();
        args.OutputDataSize = output.memory.len() as u32;
        self.miniport.trace_detail(name.to_owned());
        let status = self.miniport.query_adapter_info(self.context().raw(), &args).status();
        self.check_guard(&output.memory, name, "pOutputData");
        status.ok()
    }

    /// Stops the machine if the driver wrote past a buffer of a question.
    fn check_guard(&self, buffer: &DdiBuffer, name: &'static str, field: &str) {
        buffer.check(self.machine.verifier(), &format!("DxgkDdiQueryAdapterInfo({name})"), field);
    }

    /// One answer, or the driver's refusal.
    pub(super) fn query<T: Answer>(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        input: &mut [u32],
    ) -> Result<T, NTSTATUS> {
        let mut output = self.buffer(self.output_size(kind, size_of::<T>()).offered);
        self.ask(kind, name, input, &mut output)?;
        Ok(output.value())
    }

    /// True if the driver answers a query that it should refuse.
    pub(super) fn answers(&self, query: &Unanswered) -> bool {
        let mut input = vec![0; query.input / 4];
        let mut output = Buffer::zeroed(query.output);
        self.ask(query.kind, query.name, &mut input, &mut output).is_ok()
    }

    /// One answer that must not be refused.
    pub(super) fn require<T: Answer>(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        input: &mut [u32],
    ) -> Result<T, StartError> {
        match self.query_whole(kind, name, input)? {
            Ok(answer) => Ok(answer),
            Err(status) => Err(self.refused::<T>((kind, name), status)),
        }
    }

    /// One answer of which the driver must have written everything if that can be told, or its refusal.
    pub(super) fn query_whole<T: Answer>(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        input: &mut [u32],
    ) -> Result<Result<T, NTSTATUS>, StartError> {
        let size = self.output_size(kind, size_of::<T>());
        let mut output = self.buffer(size.offered);
        if let Err(status) = self.ask(kind, name, input, &mut output) {
            return Ok(Err(status));
        }
        output.check_whole(name, T::MEMBERS, size.offered, size)?;
        Ok(Ok(output.value()))
    }

    /// Says of an answer that breaks a rule what the driver left out of it, which counted as zero: it is asked again, with a buffer that tells.
    pub(super) fn judged<T: Answer, R>(
        &self,
        (kind, name): (DXGK_QUERYADAPTERINFOTYPE, &'static str),
        input: &mut [u32],
        rules: Result<R, StartError>,
    ) -> Result<R, StartError> {
        rules.map_err(|broken| {
            let mut output = Buffer::patterned(self.output_size(kind, size_of::<T>()).offered);
            let asked = self.ask(kind, name, input, &mut output);
            match asked.ok().and_then(|()| output.unwritten(T::MEMBERS, output.memory.len())) {
                Some(Unwritten { written, size, member: Some(member), .. }) => {
                    StartError::PartOfAnswer { broken: Box::new(broken), query: name, written, size, member }
                }
                _ => broken,
            }
        })
    }

    /// One number for each of `count` nodes.
    pub(super) fn require_array(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        count: usize,
    ) -> Result<Vec<u32>, StartError> {
        let size = self.output_size(kind, count * 4);
        let mut output = self.buffer(size.offered);
        let asked = self.ask(kind, name, &mut [], &mut output);
        asked.map_err(|status| StartError::Query { query: name, status, output: size })?;
        output.check_whole(name, &[], 4, size)?;
        Ok(output
            .as_bytes()
            .chunks_exact(4)
            .take(count)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    /// Figures of the hardware, asked anew each time, on behalf of user mode: those of a node, named as in DxgkDdiGetNodeMetadata, or of a physical
    /// adapter. That the node is named so is this system's rule.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED once the adapter has stopped, STATUS_NOT_SUPPORTED if the driver does not report them or leaves some of them out.
    pub(crate) fn figures<T: Answer>(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        index: u32,
    ) -> Result<T, Failure> {
        let _running = self.vidmm().enter()?;
        let why = match self.query_whole(kind, name, &mut [index]) {
            Ok(Ok(answer)) => return Ok(answer),
            _ if self.machine.verifier().is_stopped() => return Err(STATUS_DEVICE_REMOVED.into()),
            Ok(Err(_)) if self.check_version(kind).is_err() => {
                format!("a driver of {} is not asked {name}", self.miniport.version().name)
            }
            Ok(Err(status)) => format!("DxgkDdiQueryAdapterInfo({name}) answered {status}"),
            Err(short) => short.to_string(),
        };
        Err(refused(STATUS_NOT_SUPPORTED, why))
    }

    /// Page tables of a physical adapter, leaf first.
    pub(super) fn query_page_tables(
        &self,
        engine: u32,
    ) -> Result<(DXGK_GPUMMUCAPS, Vec<DXGK_PAGE_TABLE_LEVEL_DESC>), StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let caps: DXGK_GPUMMUCAPS = self.require(Kind::DXGKQAITYPE_GPUMMUCAPS, "GPUMMUCAPS", &mut [engine])?;
        let count = caps.PageTableLevelCount;
        if !(2..=6).contains(&count) {
            return Err(StartError::PageTables(format!("PageTableLevelCount is {count}; 2 to 6 are possible")));
        }
        let levels = (0..count)
            .map(|level| {
                self.require(Kind::DXGKQAITYPE_PAGETABLELEVELDESC, "PAGETABLELEVELDESC", &mut [level | engine << 16])
            })
            .collect::<Result<_, _>>()?;
        Ok((caps, levels))
    }

    /// The root page table is resizable where there are two levels: its descriptor has the size that it may begin with, and the driver tells the size for a
    /// number of entries. The page says with how many levels the driver is asked, not when. Root page tables do not grow here, so that it is asked once, for
    /// the whole address space, and `root` describes that. [d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE, DXGK_PAGE_TABLE_LEVEL_DESC]
    ///
    /// # Errors
    /// For an answer that no root page table has.
    pub(super) fn size_root_page_table(
        &self,
        engine: u32,
        caps: &DXGK_GPUMMUCAPS,
        (leaf, root): (&DXGK_PAGE_TABLE_LEVEL_DESC, &mut DXGK_PAGE_TABLE_LEVEL_DESC),
        segments: &[Segment],
    ) -> Result<(), StartError> {
        let leaf_bits = leaf.PageTableIndexBitCount;
        let Some(bits) = caps.VirtualAddressBitCount.checked_sub(12).and_then(|bits| bits.checked_sub(leaf_bits))
        else {
            return Ok(());
        };
        // Where this does not hold, the rules for page tables name what is wrong.
        if bits < root.PageTableIndexBitCount || bits > 31 {
            return Ok(());
        }
        let wanted = 1_u32 << bits;
        let mut args = DXGKARG_GETROOTPAGETABLESIZE { NumberOfPte: wanted, PhysicalAdapterIndex: engine };
        let size = self.miniport.get_root_page_table_size(self.context().raw(), &mut args);
        let segment = segments.iter().find(|segment| segment.id == root.PageTableSegmentId);
        let page = if segment.is_some_and(|segment| segment.flags.Use64KBPages()) { 0x1_0000 } else { 0x1000 };
        let given = args.NumberOfPte;
        match u32::try_from(size) {
            Ok(bytes) if size != 0 && size.is_multiple_of(page) && given >= wanted && size >= given as usize => {
                (root.PageTableIndexBitCount, root.PageTableSizeInBytes) = (bits, bytes);
                Ok(())
            }
            _ => Err(StartError::RootPageTableSize { wanted, given, size, page }),
        }
    }

    /// QUERYSEGMENT4: first the number of segments, then their descriptors, placed further apart than their size.
    pub(super) fn query_segments(
        &self,
        engine: u32,
    ) -> Result<(DXGK_QUERYSEGMENTOUT4, Vec<DXGK_SEGMENTDESCRIPTOR4>), StartError> {
        const NAME: &str = "QUERYSEGMENT4";
        const STRIDE: usize = size_of::<DXGK_SEGMENTDESCRIPTOR4>() + 16;
        let kind = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_QUERYSEGMENT4;
        let refused = |status| self.refused::<DXGK_QUERYSEGMENTOUT4>((kind, NAME), status);
        let mut out = DXGK_QUERYSEGMENTOUT4::zeroed();
        out.SegmentDescriptorStride = STRIDE;
        self.ask_segments(engine, &mut out).map_err(refused)?;
        let count = out.NbSegment;
        if !(1..=31).contains(&count) {
            return Err(StartError::SegmentCount(count));
        }
        let mut descriptors = self.buffer(STRIDE * count as usize);
        gaps(descriptors.memory.bytes_mut(), STRIDE).for_each(|gap| gap.fill(PATTERN));
        let mut out = DXGK_QUERYSEGMENTOUT4::zeroed();
        out.NbSegment = count;
        out.SegmentDescriptorStride = STRIDE;
        out.pSegmentDescriptor = descriptors.memory.address().cast();
        let asked = self.ask_segments(engine, &mut out);
        self.check_guard(&descriptors.memory, NAME, "pSegmentDescriptor");
        asked.map_err(refused)?;
        if out.NbSegment != count {
            return Err(StartError::SegmentCounts { first: count, second: out.NbSegment });
        }
        // Whoever makes the array zeros before it is filled, or part of it, breaks no rule.
        let is_touched = |gap: &mut [u8]| gap.iter().any(|byte| ![PATTERN, 0].contains(byte));
        if let Some(place) = gaps(descriptors.memory.bytes_mut(), STRIDE).position(is_touched) {
            let reason = format!(
                "the bytes behind its descriptor are written; descriptors are SegmentDescriptorStride ({STRIDE:#x}) bytes apart, not {:#x} \
                 [d3dkmddi: DXGK_QUERYSEGMENTOUT4]",
                size_of::<DXGK_SEGMENTDESCRIPTOR4>()
            );
            return Err(StartError::Segment { id: place as u32 + 1, reason });
        }
        let segments = (0..count as usize)
            .map(|index| {
                let descriptor = descriptors.as_bytes().as_ptr().wrapping_byte_add(index * STRIDE);
                // SAFETY: `count` descriptors at this distance fit the buffer, and any bytes are valid for them.
                unsafe { descriptor.cast::<DXGK_SEGMENTDESCRIPTOR4>().read_unaligned() }
            })
            .collect();
        Ok((out, segments))
    }

    fn ask_segments(&self, engine: u32, out: &mut DXGK_QUERYSEGMENTOUT4) -> Result<(), NTSTATUS> {
        self.ask_in_place(DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_QUERYSEGMENT4, "QUERYSEGMENT4", &mut [engine], out)
    }

    /// Asks with a structure that goes both ways; with an empty `input` there is none.
    fn ask_in_place<T: Copy>(
        &self,
        kind: DXGK_QUERYADAPTERINFOTYPE,
        name: &'static str,
        input: &mut [u32],
        mut out: &mut T,
    ) -> Result<(), NTSTATUS> {
        self.check_version(kind)?;
        let mut args = question(kind, input);
        let mut lent = Lent::new(&mut out);
        args.pOutputData = lent.pass().cast();
        args.OutputDataSize = size_of::<T>() as u32;
        self.miniport.trace_detail(name.to_owned());
        let status = self.miniport.query_adapter_info(self.context().raw(), &args).status();
        lent.end(self.machine.verifier(), &format!("DxgkDdiQueryAdapterInfo({name})"), "pOutputData");
        status.ok()
    }

    /// Asks with a structure that goes both ways and names `array`, and reads that.
    ///
    /// # Errors
    /// [`StartError::Query`]
    pub(super) fn require_elements<T: Answer, A: Copy>(
        &self,
        (kind, name): (DXGK_QUERYADAPTERINFOTYPE, &'static str),
        input: &mut [u32],
        out: &mut A,
        array: &Array<T>,
    ) -> Result<Vec<T>, StartError> {
        let asked = self.ask_in_place(kind, name, input, out);
        self.check_guard(&array.buffer.memory, name, "the array that its answer names");
        asked.map_err(|status| self.refused::<A>((kind, name), status))?;
        Ok(array.elements())
    }
}
