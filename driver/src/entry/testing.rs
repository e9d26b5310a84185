//! Kernel-mode testing: command buffers for tests that know nothing of this hardware's packets.

use campanile_hw::packet::{self, COPY_MAX, Copy, Fill, Packet};
use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_BUFFER_OVERFLOW};
use wddm_ddi::types::HANDLE;

use super::call::{arguments, on_gpu};
use crate::adapter::Adapter;
use crate::handle::Handle;
use crate::queue::context::Context;
use crate::queue::hw_queue::HwQueue;
use crate::refusal::{Ddi, Reason, Refused, refused, refused_with};

/// Packets of the longest command, a copy of nearly 4 GiB.
const PACKETS_MAX: usize = (u32::MAX as u64).div_ceil(COPY_MAX) as usize;

// Every command fits into the buffer that a test may have.
const _: () = assert!(PACKETS_MAX * packet::MAX_SIZE <= D3DDDI_MAXTESTBUFFERSIZE as usize);

/// The driver's table of the feature.
pub(crate) const INTERFACE: DXGKDDI_KERNELMODETESTINGINTERFACE =
    DXGKDDI_KERNELMODETESTINGINTERFACE { pfnBuildTestCommandBuffer: Some(build_test_command_buffer) };

/// Instructions of a test command, a packet at a time.
struct Instructions {
    command: D3DDDI_TESTCOMMANDBUFFER,
    /// Bytes that the packets before moved.
    done: u32,
}

impl Instructions {
    /// Checks the command: its operation, sizes of whole words, and ranges that the packets can express.
    ///
    /// # Errors
    /// STATUS_NOT_SUPPORTED for a loop, of which this hardware has none; STATUS_INVALID_PARAMETER for everything else.
    fn new(command: D3DDDI_TESTCOMMANDBUFFER) -> Result<Self, Refused> {
        use D3DDDI_TESTCOMMANDBUFFEROP as Op;
        let bytes = match command.Operation {
            Op::D3DDDI_TESTCOMMANDBUFFEROP_COPY => {
                // SAFETY: the operation names the arm; every bit pattern of it is a value.
                unsafe { command.u.Copy.NumBytes }
            }
            Op::D3DDDI_TESTCOMMANDBUFFEROP_FILL => {
                // SAFETY: as above.
                unsafe { command.u.Fill.NumBytes }
            }
            Op::D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_LOOP | Op::D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_PREEMPTABLE_LOOP => {
                return Err(refused(Reason::NotServed));
            }
            _ => return Err(refused(Reason::TestCommand)),
        };
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(refused(Reason::TestCommand));
        }
        let mut instructions = Self { command, done: 0 };
        let legal = instructions.by_ref().all(|packet| packet.validate().is_ok());
        if legal { Ok(Self { done: 0, ..instructions }) } else { Err(refused(Reason::TestCommand)) }
    }
}

impl Iterator for Instructions {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        if self.command.Operation == D3DDDI_TESTCOMMANDBUFFEROP::D3DDDI_TESTCOMMANDBUFFEROP_COPY {
            // SAFETY: the operation names the arm.
            let copy = unsafe { self.command.u.Copy };
            let bytes = copy.NumBytes.checked_sub(self.done)?.min(COPY_MAX as u32);
            let packet = Copy {
                source: copy.SrcAddress.wrapping_add(self.done.into()),
                destination: copy.DstAddress.wrapping_add(self.done.into()),
                row_bytes: bytes,
                rows: 1,
                source_pitch: 0,
                destination_pitch: 0,
            };
            self.done += bytes;
            return (bytes != 0).then_some(Packet::Copy(packet));
        }
        // SAFETY: of the two operations that `new` lets through it is the other one.
        let fill = unsafe { self.command.u.Fill };
        let left = fill.NumBytes.checked_sub(self.done).filter(|left| *left != 0)?;
        self.done = fill.NumBytes;
        Some(Packet::Fill(Fill { destination: fill.DstAddress, size: left.into(), pattern: fill.Pattern }))
    }
}

/// The context or queue is this adapter's; commands are the same for all of them, and need no private data.
fn check_target(adapter: &Adapter, args: &DXGKARG_BUILDTESTCOMMANDBUFFER) -> Result<(), Refused> {
    let handle = Handle::of(args.hContext);
    match args.Flags.HardwareQueue() {
        true => adapter.objects.get::<HwQueue>(handle).map(drop),
        false => adapter.objects.get::<Context>(handle).map(drop),
    }
}

/// Errors: STATUS_BUFFER_OVERFLOW with the size of the buffer if it is NULL or too small; STATUS_NOT_SUPPORTED for a loop;
/// STATUS_INVALID_PARAMETER for a handle of anything else, and for a command that the packets cannot express. Nothing is written then.
/// [d3dkmddi: DXGKDDI_BUILDTESTCOMMANDBUFFER]
unsafe extern "win64" fn build_test_command_buffer(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDTESTCOMMANDBUFFER,
) -> NTSTATUS {
    on_gpu(Ddi::BuildTestCommandBuffer, adapter, |_, adapter, _| {
        let args = arguments(args)?;
        let packets = check_target(adapter, args).and_then(|()| Instructions::new(args.Command));
        let packets = packets?;
        let needed: usize = Instructions { done: 0, ..packets }.map(|packet| packet.size()).sum();
        let (given, needed) = (args.DmaBufferSize, needed as u32);
        (args.DmaBufferSize, args.DmaBufferPrivateDataSize) = (needed, 0);
        if args.pDmaBuffer.is_null() || given < needed {
            return Err(refused_with(Reason::BufferTooSmall, STATUS_BUFFER_OVERFLOW));
        }
        let mut to = args.pDmaBuffer.cast::<u8>();
        for packet in packets {
            let size = packet.size();
            // SAFETY: the buffer holds as many bytes as its size says, which is at least those of all packets; it is the operating system's
            // and overlaps nothing here.
            unsafe { core::ptr::copy_nonoverlapping(packet.encode().as_ptr(), to, size) };
            // SAFETY: at most the end of the same buffer.
            to = unsafe { to.add(size) };
        }
        Ok(())
    })
}
