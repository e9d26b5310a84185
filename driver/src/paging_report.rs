//! Prints a paging operation that cannot be carried out, with its fields, for whoever debugs the machine.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use wddm_ddi::km::*;
use wddm_ddi::types::LARGE_INTEGER;

use crate::nt;

/// The kinds of operations that an adapter has printed.
pub(crate) struct Printed(AtomicU64);

impl Printed {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// True the first time that it is asked about this kind of operation. Numbers that are no operations are one kind.
    fn is_first(&self, operation: DXGK_BUILDPAGINGBUFFER_OPERATION) -> bool {
        let bit = 1 << u32::try_from(operation.0).unwrap_or(u32::MAX).min(u64::BITS - 1);
        self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// Bytes of a line with its end and terminator, which one call of DbgPrintEx passes on. [wdm: DbgPrintEx]
const LINE: usize = 512;
/// The end of a line and the terminator.
const LINE_END: usize = 2;
/// Bytes of a number at most.
const NUMBER: usize = 18;

/// A report: lines of text with terminators, each of which is printed when it is full. Text that is longer than a line is cut.
struct Report<Print: FnMut(&CStr)> {
    bytes: [u8; LINE],
    used: usize,
    print: Print,
}

impl<Print: FnMut(&CStr)> Report<Print> {
    fn new(print: Print) -> Self {
        Self { bytes: [0; LINE], used: 0, print }
    }

    fn push(&mut self, text: &[u8]) {
        let rest = self.bytes.get_mut(self.used..LINE - LINE_END).unwrap_or_default();
        for (place, byte) in rest.iter_mut().zip(text) {
            *place = *byte;
            self.used += 1;
        }
    }

    /// A number in hexadecimal, without leading zeros.
    fn push_hex(&mut self, number: u64) {
        self.push(b"0x");
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let nibble = (number >> (digit * 4)) as u8 & 0xf;
            self.push(&[if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble }]);
        }
    }

    /// A field, which goes on in another line if this one may be too short for it.
    fn push_field(&mut self, name: &str, value: u64) {
        if self.used + 2 + name.len() + NUMBER > LINE - LINE_END {
            self.end_line();
            self.push(b"campanile:");
        }
        self.push(b" ");
        self.push(name.as_bytes());
        self.push(b"=");
        self.push_hex(value);
    }

    /// Prints the line and begins another one.
    fn end_line(&mut self) {
        if let Some(end) = self.bytes.get_mut(self.used) {
            *end = b'\n';
        }
        if let Ok(line) = CStr::from_bytes_until_nul(&self.bytes) {
            (self.print)(line);
        }
        (self.bytes, self.used) = ([0; LINE], 0);
    }
}

/// A field of an operation as a number.
trait Number {
    fn number(&self) -> u64;
}

impl<T> Number for *mut T {
    fn number(&self) -> u64 {
        self.addr() as u64
    }
}

macro_rules! numbers {
    ($field:ident: $($($type:ty),+ => $number:expr;)*) => {
        $($(
            impl Number for $type {
                fn number(&self) -> u64 {
                    let $field = *self;
                    $number
                }
            }
        )+)*
    };
}

numbers! { field:
    u16, u32 => field.into();
    u64 => field;
    usize => field as u64;
    LARGE_INTEGER => field.QuadPart.cast_unsigned();
    DXGK_PAGETABLEUPDATEMODE, DXGK_MEMORY_TRANSFER_DIRECTION => field.0.cast_unsigned().into();
    DXGK_TRANSFERFLAGS, DXGK_MAPAPERTUREFLAGS, DXGK_TRANSFERVIRTUALFLAGS, DXGK_UPDATEPAGETABLEFLAGS, DXGK_ADL_FLAGS,
    DXGK_NOTIFYALLOCFLAGS => field.into_bits().into();
}

/// Prints the operation, unless one of its kind was printed.
pub(crate) fn print(printed: &Printed, args: &DXGKARG_BUILDPAGINGBUFFER) {
    if printed.is_first(args.Operation) {
        report(args, nt::print_error);
    }
}

fn report(args: &DXGKARG_BUILDPAGINGBUFFER, print: impl FnMut(&CStr)) {
    let mut report = Report::new(print);
    report.push(b"campanile: DxgkDdiBuildPagingBuffer cannot carry out DXGK_BUILDPAGINGBUFFER_OPERATION ");
    report.push_hex(u64::from(args.Operation.0.cast_unsigned()));
    report.push(b":");
    if !push_claimed(&mut report, args) && !push_unclaimed(&mut report, args) {
        report.push(b" no operation that can be refused has this number");
    }
    report.end_line();
}

/// Pushes members of the arm of an operation under their names.
macro_rules! fields {
    ($report:ident, $args:ident, $arm:ident: $($first:ident $(. $rest:ident)*),* $(,)?) => {{
        // SAFETY: Operation selects the arm that the operating system filled; every arm is plain data.
        let arm = unsafe { &$args.u.$arm };
        $( $report.push_field(concat!(stringify!($first) $(, ".", stringify!($rest))*), arm.$first$(.$rest)*.number()); )*
        arm
    }};
}

/// The fields of an operation that the adapter claims; false for any other.
fn push_claimed(report: &mut Report<impl FnMut(&CStr)>, args: &DXGKARG_BUILDPAGINGBUFFER) -> bool {
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    match args.Operation {
        Op::DXGK_OPERATION_UPDATE_PAGE_TABLE => {
            let update = fields!(report, args, UpdatePageTable:
                PageTableLevel, hAllocation, pPageTableEntries, StartIndex, NumPageTableEntries, Flags, DriverProtection,
                AllocationOffsetInBytes, hProcess, UpdateMode, pPageTableEntries64KB, FirstPteVirtualAddress);
            push_table(report, update);
        }
        Op::DXGK_OPERATION_FLUSH_TLB => {
            fields!(report, args, FlushTlb:
                RootPageTableAddress.SegmentId, RootPageTableAddress.SegmentOffset, hProcess, StartVirtualAddress,
                EndVirtualAddress);
        }
        Op::DXGK_OPERATION_VIRTUAL_TRANSFER => {
            fields!(report, args, TransferVirtual:
                hAllocation, AllocationOffsetInBytes, TransferSizeInBytes, SourceVirtualAddress, DestinationVirtualAddress,
                SourcePageTable, TransferDirection, Flags, DestinationPageTable);
        }
        Op::DXGK_OPERATION_VIRTUAL_FILL => {
            fields!(report, args, FillVirtual:
                hAllocation, AllocationOffsetInBytes, FillSizeInBytes, FillPattern, DestinationVirtualAddress);
        }
        Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => {
            fields!(report, args, CopyPageTableEntries: NumRanges, pRanges);
        }
        Op::DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION => {
            fields!(report, args, UpdateContextAllocation:
                ContextAllocation, ContextAllocationSize, pDriverPrivateData, DriverPrivateDataSize);
        }
        Op::DXGK_OPERATION_SIGNAL_MONITORED_FENCE => {
            fields!(report, args, SignalMonitoredFence: MonitoredFenceGpuVa, MonitoredFenceValue);
        }
        Op::DXGK_OPERATION_MAP_APERTURE_SEGMENT => {
            fields!(report, args, MapApertureSegment:
                hDevice, hAllocation, SegmentId, OffsetInPages, NumberOfPages, pMdl, Flags, MdlOffset);
        }
        Op::DXGK_OPERATION_UNMAP_APERTURE_SEGMENT => {
            fields!(report, args, UnmapApertureSegment:
                hDevice, hAllocation, SegmentId, OffsetInPages, NumberOfPages, DummyPage);
        }
        _ => return false,
    }
    true
}

/// Where the table of an update is, as the update mode says.
fn push_table(report: &mut Report<impl FnMut(&CStr)>, update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE) {
    match update.UpdateMode {
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL => {
            // SAFETY: the update mode says that the address is a kernel address.
            let table = unsafe { update.PageTableAddress.CpuVirtual };
            report.push_field("PageTableAddress.CpuVirtual", table.number());
        }
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL => {
            // SAFETY: the update mode says that the address is one of the paging process.
            let table = unsafe { update.PageTableAddress.GpuVirtual };
            report.push_field("PageTableAddress.GpuVirtual", table);
        }
        _ => {
            // SAFETY: the largest arm, of numbers only.
            let table = unsafe { update.PageTableAddress.GpuPhysical };
            report.push_field("PageTableAddress.GpuPhysical.SegmentId", table.SegmentId.into());
            report.push_field("PageTableAddress.GpuPhysical.SegmentOffset", table.SegmentOffset);
        }
    }
}

/// The fields of an operation that the adapter does not claim; false if there is no such operation, or none that is ever refused.
fn push_unclaimed(report: &mut Report<impl FnMut(&CStr)>, args: &DXGKARG_BUILDPAGINGBUFFER) -> bool {
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    match args.Operation {
        Op::DXGK_OPERATION_TRANSFER => {
            let transfer = fields!(report, args, Transfer: hAllocation, TransferOffset, TransferSize, Flags, MdlOffset);
            push_places(report, &transfer.Source, &transfer.Destination);
        }
        Op::DXGK_OPERATION_FILL => {
            fields!(report, args, Fill:
                hAllocation, FillSize, FillPattern, Destination.SegmentId, Destination.SegmentAddress);
        }
        Op::DXGK_OPERATION_SPECIAL_LOCK_TRANSFER => {
            let transfer = fields!(report, args, SpecialLockTransfer:
                hAllocation, TransferOffset, TransferSize, Flags, SwizzlingRangeId, SwizzlingRangeData);
            push_places(report, &transfer.Source, &transfer.Destination);
        }
        Op::DXGK_OPERATION_MAP_APERTURE_SEGMENT2 => {
            let map = fields!(report, args, MapApertureSegment2:
                hDevice, hAllocation, SegmentId, OffsetInPages, NumberOfPages, Flags, AdlOffset, CpuVisibleAddress);
            push_adl(report, &map.Adl);
        }
        Op::DXGK_OPERATION_MAP_MMU => {
            let map = fields!(report, args, MmapMmu:
                hAllocation, VirtualAddress, MmuId, SegmentId, AllocationOffsetInPages);
            push_adl(report, &map.Adl);
        }
        Op::DXGK_OPERATION_UNMAP_MMU => {
            fields!(report, args, UnmapMmu: hAllocation, VirtualAddress, MmuId, AllocationOffset, NumberOfPages);
        }
        Op::DXGK_OPERATION_NOTIFY_RESIDENCY2 => {
            let notice = fields!(report, args, NotifyResidency2:
                hAllocation, AllocationOffsetInPages, SizeInPages, SegmentId);
            report.push_field("Resident", notice.Bits1.Resident().into());
            // SAFETY: the larger arm, of numbers only. In system memory its first half is the other arm, the list of pages.
            let place = unsafe { notice.u.PhysicalAddress };
            report.push_field("PhysicalAddress.SegmentId", place.SegmentId.into());
            report.push_field("PhysicalAddress.SegmentOffset", place.SegmentOffset);
            // SAFETY: a pointer that is not followed.
            report.push_field("Mdl", unsafe { notice.u.Mdl }.number());
        }
        Op::DXGK_OPERATION_NOTIFY_ALLOC => {
            fields!(report, args, NotifyAllocation:
                hAllocation, hKmdProcessHandle, Flags, OffsetInBytes, SizeInBytes, GpuVirtualAddressAtOffset);
        }
        _ => return false,
    }
    true
}

/// Where a physical transfer comes from and goes to: a list of pages in system memory, which is segment 0, or else an address of the segment.
fn push_places(
    report: &mut Report<impl FnMut(&CStr)>,
    source: &DXGKARG_BUILDPAGINGBUFFER_Transfer_Source,
    destination: &DXGKARG_BUILDPAGINGBUFFER_Transfer_Destination,
) {
    report.push_field("Source.SegmentId", source.SegmentId.into());
    // SAFETY: both arms are 64 bits of plain data, and a pointer is not followed.
    let address = unsafe { source.u.SegmentAddress }.number();
    report.push_field(if source.SegmentId == 0 { "Source.pMdl" } else { "Source.SegmentAddress" }, address);
    report.push_field("Destination.SegmentId", destination.SegmentId.into());
    // SAFETY: as above.
    let address = unsafe { destination.u.SegmentAddress }.number();
    let name = if destination.SegmentId == 0 { "Destination.pMdl" } else { "Destination.SegmentAddress" };
    report.push_field(name, address);
}

/// An address descriptor list: one run of pages or an array of them.
fn push_adl(report: &mut Report<impl FnMut(&CStr)>, list: &DXGK_ADL) {
    report.push_field("Adl.PageCount", list.PageCount.into());
    report.push_field("Adl.Flags", list.Flags.number());
    // SAFETY: both arms are 64 bits of plain data, and a pointer is not followed.
    let pages = unsafe { list.u.BasePageNumber }.number();
    report.push_field(if list.Flags.Contiguous() { "Adl.BasePageNumber" } else { "Adl.Pages" }, pages);
}

#[cfg(test)]
mod tests {
    use super::*;
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    use wddm_ddi::Zeroed;

    /// Every declaration of the kit, one type a line.
    const KIT: &str = include_str!("../../ddi/tests/ddi-layout.json");
    /// Operations that can be refused or left out, with the type whose members they have, or the arm if that is a part of the whole argument.
    const REFUSED: [(Op, &str); 17] = [
        (Op::DXGK_OPERATION_TRANSFER, "Transfer"),
        (Op::DXGK_OPERATION_FILL, "Fill"),
        (Op::DXGK_OPERATION_MAP_APERTURE_SEGMENT, "MapApertureSegment"),
        (Op::DXGK_OPERATION_UNMAP_APERTURE_SEGMENT, "UnmapApertureSegment"),
        (Op::DXGK_OPERATION_SPECIAL_LOCK_TRANSFER, "SpecialLockTransfer"),
        (Op::DXGK_OPERATION_VIRTUAL_TRANSFER, "DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL"),
        (Op::DXGK_OPERATION_VIRTUAL_FILL, "DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL"),
        (Op::DXGK_OPERATION_UPDATE_PAGE_TABLE, "DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE"),
        (Op::DXGK_OPERATION_FLUSH_TLB, "DXGK_BUILDPAGINGBUFFER_FLUSHTLB"),
        (Op::DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION, "DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION"),
        (Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES, "DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES"),
        (Op::DXGK_OPERATION_SIGNAL_MONITORED_FENCE, "DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE"),
        (Op::DXGK_OPERATION_MAP_APERTURE_SEGMENT2, "MapApertureSegment2"),
        (Op::DXGK_OPERATION_MAP_MMU, "DXGK_BUILDPAGINGBUFFER_MAPMMU"),
        (Op::DXGK_OPERATION_UNMAP_MMU, "DXGK_BUILDPAGINGBUFFER_UNMAPMMU"),
        (Op::DXGK_OPERATION_NOTIFY_RESIDENCY2, "DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY2"),
        (Op::DXGK_OPERATION_NOTIFY_ALLOC, "DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC"),
    ];

    /// Members of a type, or of an arm of the argument, that carry something.
    fn members(of: &str) -> Vec<&'static str> {
        let arm = format!("{of}.");
        let (name, prefix) =
            if of.starts_with("DXGK_") { (of, "") } else { ("DXGKARG_BUILDPAGINGBUFFER", arm.as_str()) };
        let line = KIT.lines().find(|line| line.starts_with(&format!("\"{name}\": "))).expect("the kit has the type");
        let rows = line.split("[\"").skip(1).filter_map(|row| row.split('"').next()?.strip_prefix(prefix));
        rows.filter(|row| !row.contains('.') && !row.starts_with("Reserved") && !row.starts_with("Padding")).collect()
    }

    fn lines(args: &DXGKARG_BUILDPAGINGBUFFER) -> Vec<String> {
        let mut lines = Vec::new();
        report(args, |line| lines.push(line.to_str().unwrap().to_owned()));
        lines
    }

    /// An operation of which every bit is set, which makes the longest report.
    fn longest(operation: Op) -> DXGKARG_BUILDPAGINGBUFFER {
        let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        args.Operation = operation;
        args.u.Reserved = DXGKARG_BUILDPAGINGBUFFER_Reserved { Reserved: [u32::MAX; 64] };
        args
    }

    #[test]
    fn an_operation_is_printed_with_its_fields() {
        let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        args.Operation = Op::DXGK_OPERATION_VIRTUAL_FILL;
        let mut fill = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL::zeroed();
        (fill.DestinationVirtualAddress, fill.FillSizeInBytes) = (0x3001, u64::MAX);
        args.u = DXGKARG_BUILDPAGINGBUFFER_Union { FillVirtual: fill };
        let expected = "campanile: DxgkDdiBuildPagingBuffer cannot carry out DXGK_BUILDPAGINGBUFFER_OPERATION 0x9: \
            hAllocation=0x0 AllocationOffsetInBytes=0x0 FillSizeInBytes=0xffffffffffffffff FillPattern=0x0 \
            DestinationVirtualAddress=0x3001\n";
        assert_eq!(lines(&args), [expected]);
    }

    #[test]
    fn each_operation_that_can_be_refused_is_printed_with_every_field_of_the_kit() {
        for (operation, of) in REFUSED {
            let text = lines(&longest(operation)).concat();
            let members = members(of);
            assert!(members.len() >= 2, "{of}: {members:?}");
            for member in members {
                let printed = [".", "="].iter().any(|end| text.contains(&format!(" {member}{end}")));
                assert!(printed, "{of} without {member}: {text}");
            }
        }
    }

    #[test]
    fn a_report_is_as_many_lines_as_it_needs_and_none_is_cut() {
        let mut longer = 0;
        for (operation, of) in REFUSED {
            let lines = lines(&longest(operation));
            longer += usize::from(lines.len() > 1);
            for line in lines {
                assert!(line.len() < LINE && line.ends_with('\n') && line.starts_with("campanile:"), "{of}: {line}");
                let last = line.trim_end().rsplit(' ').next().unwrap();
                assert!(last.contains("=0x"), "{of} ends in {last}");
            }
        }
        assert!(longer > 0, "no operation is longer than a line");
    }

    #[test]
    fn a_table_is_named_as_the_update_mode_says_and_a_place_as_its_segment() {
        let mut args = longest(Op::DXGK_OPERATION_UPDATE_PAGE_TABLE);
        let mut update = DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::zeroed();
        let place = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 2, Padding: 0, SegmentOffset: 0x7000 };
        update.PageTableAddress = DXGK_PAGETABLEUPDATEADDRESS { GpuPhysical: place };
        for (mode, expected) in [
            (DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL, " PageTableAddress.CpuVirtual=0x2\n"),
            (DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL, " PageTableAddress.GpuVirtual=0x2\n"),
            (
                DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
                " PageTableAddress.GpuPhysical.SegmentId=0x2 PageTableAddress.GpuPhysical.SegmentOffset=0x7000\n",
            ),
        ] {
            update.UpdateMode = mode;
            args.u = DXGKARG_BUILDPAGINGBUFFER_Union { UpdatePageTable: update };
            let text = lines(&args).join("").replace("\ncampanile:", "");
            assert!(text.ends_with(expected), "{text}");
        }
        let mut transfer = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        transfer.u.Transfer.Destination.SegmentId = 2;
        let text = lines(&transfer).concat();
        assert!(text.contains(" Source.pMdl=0x0 Destination.SegmentId=0x2 Destination.SegmentAddress=0x0"), "{text}");
    }

    #[test]
    fn a_number_that_is_no_operation_has_no_fields() {
        for number in [23, -1, i32::MAX] {
            let lines = lines(&longest(DXGK_BUILDPAGINGBUFFER_OPERATION(number)));
            assert!(lines.len() == 1 && !lines[0].contains('='), "{lines:?}");
        }
    }

    #[test]
    fn text_that_is_longer_than_a_line_is_cut() {
        let mut lines = Vec::new();
        let mut report = Report::new(|line| lines.push(line.to_bytes().len()));
        for _ in 0..LINE {
            report.push(b"ab");
        }
        report.end_line();
        assert_eq!(lines, [LINE - 1]);
    }

    #[test]
    fn each_kind_of_operation_is_printed_once() {
        let printed = Printed::new();
        for number in [0, 11, 62, i32::MAX] {
            let first = [(); 2].map(|()| printed.is_first(DXGK_BUILDPAGINGBUFFER_OPERATION(number)));
            assert_eq!(first, [true, false], "{number}");
        }
        assert!(!printed.is_first(DXGK_BUILDPAGINGBUFFER_OPERATION(-1)), "no operation either");
    }
}
