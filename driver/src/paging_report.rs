//! Prints a paging operation that cannot be carried out, with its fields, for whoever debugs the machine.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use wddm_ddi::km::*;

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

/// Bytes of a line with its terminator: the longest operation has six fields.
const LINE: usize = 384;

/// A line of text with a terminator; what does not fit is left out.
struct ReportLine {
    bytes: [u8; LINE],
    used: usize,
}

impl ReportLine {
    fn push(&mut self, text: &[u8]) {
        let room = self.bytes.get_mut(self.used..LINE - 1).unwrap_or_default();
        for (place, byte) in room.iter_mut().zip(text) {
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

    fn push_field(&mut self, name: &str, value: u64) {
        self.push(b" ");
        self.push(name.as_bytes());
        self.push(b"=");
        self.push_hex(value);
    }
}

/// Prints the operation, unless one of its kind was printed.
pub(crate) fn print(printed: &Printed, args: &DXGKARG_BUILDPAGINGBUFFER) {
    if !printed.is_first(args.Operation) {
        return;
    }
    let mut line = ReportLine { bytes: [0; LINE], used: 0 };
    line.push(b"campanile: DxgkDdiBuildPagingBuffer cannot carry out DXGK_BUILDPAGINGBUFFER_OPERATION ");
    line.push_hex(u64::from(args.Operation.0.cast_unsigned()));
    line.push(b":");
    push_fields(&mut line, args);
    line.push(b"\n");
    if let Ok(line) = CStr::from_bytes_until_nul(&line.bytes) {
        nt::print_error(line);
    }
}

fn push_fields(line: &mut ReportLine, args: &DXGKARG_BUILDPAGINGBUFFER) {
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    macro_rules! fields {
        ($arm:ident: $($field:ident),*) => {{
            // SAFETY: Operation selects the arm that the operating system filled; every arm is plain data.
            let arm = unsafe { &args.u.$arm };
            $( line.push_field(stringify!($field), arm.$field as u64); )*
        }};
    }
    match args.Operation {
        Op::DXGK_OPERATION_UPDATE_PAGE_TABLE => {
            fields!(UpdatePageTable: PageTableLevel, StartIndex, NumPageTableEntries, FirstPteVirtualAddress);
            // SAFETY: as above.
            let update = unsafe { &args.u.UpdatePageTable };
            line.push_field("Flags", update.Flags.into_bits().into());
            line.push_field("UpdateMode", u64::from(update.UpdateMode.0.cast_unsigned()));
        }
        Op::DXGK_OPERATION_FLUSH_TLB => {
            fields!(FlushTlb: StartVirtualAddress, EndVirtualAddress);
            // SAFETY: as above.
            let root = unsafe { &args.u.FlushTlb.RootPageTableAddress };
            line.push_field("RootPageTableAddress.SegmentId", root.SegmentId.into());
            line.push_field("RootPageTableAddress.SegmentOffset", root.SegmentOffset);
        }
        Op::DXGK_OPERATION_VIRTUAL_TRANSFER => {
            fields!(TransferVirtual: SourceVirtualAddress, DestinationVirtualAddress, TransferSizeInBytes)
        }
        Op::DXGK_OPERATION_VIRTUAL_FILL => {
            fields!(FillVirtual: DestinationVirtualAddress, FillSizeInBytes, FillPattern)
        }
        Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => fields!(CopyPageTableEntries: NumRanges),
        Op::DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION => {
            fields!(UpdateContextAllocation: ContextAllocation, ContextAllocationSize, DriverPrivateDataSize)
        }
        Op::DXGK_OPERATION_SIGNAL_MONITORED_FENCE => {
            fields!(SignalMonitoredFence: MonitoredFenceGpuVa, MonitoredFenceValue)
        }
        Op::DXGK_OPERATION_MAP_APERTURE_SEGMENT => {
            fields!(MapApertureSegment: SegmentId, OffsetInPages, NumberOfPages, MdlOffset)
        }
        Op::DXGK_OPERATION_UNMAP_APERTURE_SEGMENT => {
            fields!(UnmapApertureSegment: SegmentId, OffsetInPages, NumberOfPages)
        }
        // What the adapter never claimed is not carried out whatever its fields are.
        _ => line.push(b" the adapter claims no such operation"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::Zeroed;

    fn text(line: &ReportLine) -> &str {
        std::str::from_utf8(&line.bytes[..line.used]).unwrap()
    }

    #[test]
    fn an_operation_is_printed_with_its_fields() {
        let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        args.Operation = DXGK_BUILDPAGINGBUFFER_OPERATION::DXGK_OPERATION_VIRTUAL_FILL;
        let mut fill = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL::zeroed();
        (fill.DestinationVirtualAddress, fill.FillSizeInBytes) = (0x3001, u64::MAX);
        args.u = DXGKARG_BUILDPAGINGBUFFER_Union { FillVirtual: fill };
        let mut line = ReportLine { bytes: [0; LINE], used: 0 };
        push_fields(&mut line, &args);
        let expected = " DestinationVirtualAddress=0x3001 FillSizeInBytes=0xffffffffffffffff FillPattern=0x0";
        assert_eq!(text(&line), expected);
    }

    #[test]
    fn the_longest_line_has_room_and_a_longer_one_is_cut() {
        let mut line = ReportLine { bytes: [0; LINE], used: 0 };
        for _ in 0..LINE {
            line.push(b"ab");
        }
        assert_eq!((line.used, line.bytes[LINE - 1]), (LINE - 1, 0));
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
