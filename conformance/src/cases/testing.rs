//! Kernel-mode testing: command buffers that the driver builds for whoever does not know its packets.

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODE_PAGING};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::fault::{Bystander, wait_for_error};
use crate::kmt::{BAD_ARGUMENT, BAD_HANDLE, DEVICE_LOST, WRONG_KIND, Word};
use crate::rig::{Memory, RawFence, Rig, View, user_mode_flags};
use crate::{Boot, Case, Failure, granted, refused};

cases! { thunks "Kernel-mode testing";
    "Testing.EveryNodeRunsWhatTheDriverBuilt" needs NativeFence on Boot::Shared, "kernel-mode-testing-of-wddm-features":
        "Copies and fills that the driver builds for a test context, which has no private data, run on every node."
        => every_node;
    "Testing.HardwareQueuesRunWhatTheDriverBuilt" needs HardwareScheduling, NativeFence on Boot::Shared, "kernel-mode-testing-of-wddm-features":
        "Copies and fills that the driver builds for a test queue run on every node with hardware queues, and raise its progress fence."
        => hardware_queues;
    "Testing.LongCommandsFitTheBuffer" on Boot::Shared, "dxgkddi_buildtestcommandbuffer":
        "The longest copy and the longest fill that a test command can ask for fit into the largest test command buffer."
        => longest;
    "Testing.SizesAreAnsweredTogether" on Boot::Shared, "dxgkddi_buildtestcommandbuffer":
        "A buffer that is NULL or too small is answered with STATUS_BUFFER_OVERFLOW and the sizes of both; nothing is written then."
        => sizes;
    "Testing.LimitsAreChecked" on Boot::Shared, "kernel-mode-testing-of-wddm-features":
        "A test command buffer has at most 4 KiB, its private data at most 1 KiB; more is refused."
        => limits;
    "Testing.CommandsAreChecked" on Boot::Shared, "dxgkarg_buildtestcommandbuffer":
        "Commands of no known operation, of no whole words and outside the address space are refused by name."
        => commands;
    "Testing.OnlyTestContextsAndQueues" needs UserModeSubmission on Boot::Shared, "kernel-mode-testing-of-wddm-features":
        "Test command buffers are for contexts and queues that were created for tests, which take no private data; others are refused."
        => only_tests;
    "Testing.ChangedBufferCostsItsDevice" needs UserModeSubmission on Boot::Shared, "kernel-mode-testing-of-wddm-features":
        "A test command buffer passes through user mode; one that was changed there costs its device and nobody else."
        => changed;
}

const BYTES: u64 = 4096;

const PATTERN: u32 = 0x5eed_cafe;

pub fn fill(destination: u64, bytes: u32) -> D3DDDI_TESTCOMMANDBUFFER {
    let mut command = D3DDDI_TESTCOMMANDBUFFER::zeroed();
    command.Operation = D3DDDI_TESTCOMMANDBUFFEROP::D3DDDI_TESTCOMMANDBUFFEROP_FILL;
    command.u.Fill = D3DDDI_TESTCOMMANDBUFFER_FILL { DstAddress: destination, NumBytes: bytes, Pattern: PATTERN };
    command
}

fn copy(destination: u64, source: u64, bytes: u32) -> D3DDDI_TESTCOMMANDBUFFER {
    let mut command = D3DDDI_TESTCOMMANDBUFFER::zeroed();
    command.Operation = D3DDDI_TESTCOMMANDBUFFEROP::D3DDDI_TESTCOMMANDBUFFEROP_COPY;
    let ends = D3DDDI_TESTCOMMANDBUFFER_COPY { SrcAddress: source, DstAddress: destination, NumBytes: bytes };
    command.u.Copy = ends;
    command
}

/// A request to build a buffer, to be changed by the case.
pub fn request(rig: &Rig, context: D3DKMT_HANDLE, hardware: bool, command: D3DDDI_TESTCOMMANDBUFFER) -> Request {
    let mut request = Request::zeroed();
    request.EscapeType = D3DDDI_DRIVERESCAPETYPE::D3DDDI_DRIVERESCAPETYPE_BUILDTESTCOMMANDBUFFER;
    (request.hDevice, request.hContext, request.Command) = (rig.device, context, command);
    request.Flags = D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS::new().with_HardwareQueue(hardware);
    request
}

type Request = D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER;

pub fn escape(rig: &Rig, request: &mut Request) -> NTSTATUS {
    escape_at(rig, (&raw mut *request).expose_provenance())
}

/// As [`escape`], with a request at any address.
pub fn escape_at(rig: &Rig, request: usize) -> NTSTATUS {
    let mut arguments = D3DKMT_ESCAPE::zeroed();
    (arguments.hAdapter, arguments.hDevice) = (rig.adapter, rig.device);
    arguments.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_DRIVERPRIVATE;
    arguments.Flags = D3DDDI_ESCAPEFLAGS::new().with_DriverKnownEscape(true);
    arguments.pPrivateDriverData = std::ptr::with_exposed_provenance_mut(request);
    arguments.PrivateDriverDataSize = size_of::<Request>() as u32;
    rig.kmt.call_read_only(rig.kmt.further().D3DKMTEscape, &arguments)
}

/// The buffer that the driver builds: it says how long it will be, and is.
fn build(rig: &Rig, mut request: Request) -> Result<Vec<u8>, Failure> {
    let status = escape(rig, &mut request);
    ensure_eq!(status, STATUS_BUFFER_OVERFLOW, "the question for the size");
    let mut bytes = vec![0u8; request.DmaBufferSize as usize];
    ensure!(!bytes.is_empty(), "a command without commands");
    let mut private = vec![0u8; request.DmaBufferPrivateDataSize as usize];
    request.pDmaBuffer = bytes.as_mut_ptr().cast();
    request.pDmaBufferPrivateData = private.as_mut_ptr().cast();
    granted(escape(rig, &mut request), "building a test command buffer")?;
    ensure_eq!(request.DmaBufferSize as usize, bytes.len(), "bytes written");
    Ok(bytes)
}

/// A context of packets for tests.
pub fn test_context(rig: &Rig, node: u32, private: &mut [u8]) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let mut arguments = D3DKMT_CREATECONTEXTVIRTUAL::zeroed();
    (arguments.hDevice, arguments.NodeOrdinal, arguments.EngineAffinity) = (rig.device, node, 1);
    arguments.Flags = D3DDDI_CREATECONTEXTFLAGS::new().with_TestContext(true);
    (arguments.pPrivateDriverData, arguments.PrivateDriverDataSize) =
        (private.as_mut_ptr().cast(), private.len() as u32);
    rig.kmt.call(rig.kmt.table().D3DKMTCreateContextVirtual, &mut arguments).ok()?;
    Ok(arguments.hContext)
}

pub fn named<T>(result: Result<T, NTSTATUS>, what: &str) -> Result<T, Failure> {
    result.map_err(|status| Failure::new(format!("{what}: {status}")))
}

pub fn test_queue_flags() -> D3DDDI_CREATEHWQUEUEFLAGS {
    D3DDDI_CREATEHWQUEUEFLAGS::new().with_TestQueue(true)
}

/// Memory to work on, and memory for commands.
struct Plot {
    memory: Memory,
    view: View,
    commands: Memory,
    commands_view: View,
}

impl Plot {
    fn new(rig: &Rig) -> Result<Self, Failure> {
        let memory = rig.memory(BYTES, Placement::SystemUncached)?;
        let commands = rig.memory(u64::from(D3DDDI_MAXTESTBUFFERSIZE), Placement::SystemUncached)?;
        Ok(Self { memory, view: rig.view(memory)?, commands, commands_view: rig.view(commands)? })
    }

    fn word(&self, offset: u64) -> u32 {
        self.view.read(offset, 4).first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// A fill of the first words, then a copy of them to the middle, each built for the context, one after the other in command memory. Where each
    /// lies and how long it is.
    fn write(&self, rig: &Rig, context: D3DKMT_HANDLE, hardware: bool) -> Result<Vec<(u64, u32)>, Failure> {
        let mut at = 0;
        let mut buffers = Vec::new();
        for command in [fill(self.memory.address, 256), copy(self.memory.address + 2048, self.memory.address, 256)] {
            let bytes = build(rig, request(rig, context, hardware, command))?;
            self.commands_view.write(at, &bytes);
            buffers.push((self.commands.address + at, bytes.len() as u32));
            at += (bytes.len() as u64).next_multiple_of(64);
        }
        Ok(buffers)
    }

    fn check(&self, what: &str) -> Result<(), Failure> {
        for offset in (0..256).chain(2048..2304).step_by(4) {
            ensure_eq!(self.word(offset), PATTERN, "{what}: the word at {offset}");
        }
        for offset in [256, 2044, 2304] {
            ensure_eq!(self.word(offset), 0, "{what}: the word beside at {offset}");
        }
        Ok(())
    }
}

/// Waits until what was submitted to a context of packets is done.
fn drain(rig: &Rig, context: D3DKMT_HANDLE, fence: &RawFence, value: u64) -> Result<(), Failure> {
    granted(rig.context_signal(context, &[(fence.handle, value)]), "a signal behind the packets")?;
    granted(rig.wait(&[fence.handle], &[value], false), "the wait for the packets")
}

fn every_node(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        let (plot, fence) = (Plot::new(&rig)?, rig.fence(0)?);
        let context = named(test_context(&rig, node, &mut []), "a test context")?;
        for (address, size) in plot.write(&rig, context, false)? {
            granted(rig.submit_buffer(context, address, size), "D3DKMTSubmitCommand")?;
        }
        drain(&rig, context, &fence, 1)?;
        plot.check(&format!("node {node}"))?;
        granted(rig.destroy_packet_context(context), "D3DKMTDestroyContext")?;
    }
    Ok(())
}

fn hardware_queues(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    for node in [NODE_COMPUTE, NODE_COPY] {
        for native in [false, true] {
            let plot = Plot::new(&rig)?;
            let context = named(rig.context(node), "D3DKMTCreateHwContext")?;
            let flags = test_queue_flags().with_NativeProgressFence(native);
            let created = named(rig.hw_queue(context, flags), "D3DKMTCreateHwQueue")?;
            let progress = Word::new(created.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?;
            for (value, (address, size)) in (1..).zip(plot.write(&rig, created.hHwQueue, true)?) {
                let mut arguments = D3DKMT_SUBMITCOMMANDTOHWQUEUE::zeroed();
                (arguments.hHwQueue, arguments.HwQueueProgressFenceId) = (created.hHwQueue, value);
                (arguments.CommandBuffer, arguments.CommandLength) = (address, size);
                let status = rig.kmt.call(rig.kmt.table().D3DKMTSubmitCommandToHwQueue, &mut arguments);
                granted(status, "D3DKMTSubmitCommandToHwQueue")?;
            }
            granted(rig.wait(&[created.hHwQueueProgressFence], &[2], false), "the wait for the progress fence")?;
            ensure_eq!(progress.load(), 2, "the progress fence");
            plot.check(&format!("node {node}, native progress fence: {native}"))?;
        }
    }
    Ok(())
}

fn longest(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = named(test_context(&rig, NODE_COMPUTE, &mut []), "a test context")?;
    let most = u32::MAX - 3;
    for command in [copy(1 << 40, 1 << 41, most), fill(1 << 40, most)] {
        let bytes = build(&rig, request(&rig, context, false, command))?;
        ensure!(bytes.len() <= D3DDDI_MAXTESTBUFFERSIZE as usize, "{} bytes of commands", bytes.len());
    }
    Ok(())
}

fn sizes(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(BYTES, Placement::SystemUncached)?;
    let context = named(test_context(&rig, NODE_COMPUTE, &mut []), "a test context")?;
    let mut asked = request(&rig, context, false, fill(memory.address, 64));
    ensure_eq!(escape(&rig, &mut asked), STATUS_BUFFER_OVERFLOW, "NULL buffers");
    let (needed, private) = (asked.DmaBufferSize, asked.DmaBufferPrivateDataSize);
    let mut bytes = [0xabu8; D3DDDI_MAXTESTBUFFERSIZE as usize];
    for size in [0, 1, needed - 1] {
        asked.pDmaBuffer = bytes.as_mut_ptr().cast();
        (asked.DmaBufferSize, asked.DmaBufferPrivateDataSize) = (size, 0);
        ensure_eq!(escape(&rig, &mut asked), STATUS_BUFFER_OVERFLOW, "a buffer of {size} bytes");
        ensure_eq!((asked.DmaBufferSize, asked.DmaBufferPrivateDataSize), (needed, private), "the sizes needed");
        ensure!(bytes.iter().all(|byte| *byte == 0xab), "a buffer that is too small was written to");
    }
    let mut data = [0u8; D3DDDI_MAXTESTBUFFERPRIVATEDRIVERDATASIZE as usize];
    asked.pDmaBufferPrivateData = data.as_mut_ptr().cast();
    (asked.DmaBufferSize, asked.DmaBufferPrivateDataSize) = (bytes.len() as u32, data.len() as u32);
    granted(escape(&rig, &mut asked), "buffers as large as they may be")?;
    ensure_eq!((asked.DmaBufferSize, asked.DmaBufferPrivateDataSize), (needed, private), "the sizes written");
    let rest = bytes.get(needed as usize..).unwrap_or_default();
    ensure!(rest.iter().all(|byte| *byte == 0xab), "bytes behind the commands were written");
    Ok(())
}

fn limits(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let memory = rig.memory(BYTES, Placement::SystemUncached)?;
    let context = named(test_context(&rig, NODE_COMPUTE, &mut []), "a test context")?;
    let mut bytes = [0u8; 2 * D3DDDI_MAXTESTBUFFERSIZE as usize];
    let mut attempt = |commands: u32, private: u32| {
        let mut asked = request(&rig, context, false, fill(memory.address, 64));
        (asked.pDmaBuffer, asked.pDmaBufferPrivateData) = (bytes.as_mut_ptr().cast(), bytes.as_mut_ptr().cast());
        (asked.DmaBufferSize, asked.DmaBufferPrivateDataSize) = (commands, private);
        escape(&rig, &mut asked)
    };
    granted(attempt(4096, 1024), "buffers at their limits")?;
    for (commands, private) in [(4097, 1024), (4096, 1025), (u32::MAX, 0), (4096, u32::MAX)] {
        refused(attempt(commands, private), BAD_ARGUMENT, &format!("buffers of {commands} and {private} bytes"))?;
    }
    Ok(())
}

fn commands(case: &Case) -> Result<(), Failure> {
    use D3DDDI_TESTCOMMANDBUFFEROP as Op;
    let rig = case.rig()?;
    let context = named(test_context(&rig, NODE_COMPUTE, &mut []), "a test context")?;
    let good = fill(1 << 40, 64);
    let operation = |operation| D3DDDI_TESTCOMMANDBUFFER { Operation: operation, ..good };
    for (what, command) in [
        ("no operation", operation(Op::D3DDDI_TESTCOMMANDBUFFEROP_INVALID)),
        ("an operation beyond the last", operation(Op::D3DDDI_TESTCOMMANDBUFFEROP_MAX)),
        ("an operation below zero", operation(Op(-1))),
        ("a fill of nothing", fill(1 << 40, 0)),
        ("a fill of half a word", fill(1 << 40, 66)),
        ("a fill beside a word", fill((1 << 40) + 2, 64)),
        ("a fill beyond the address space", fill((1 << 48) - 32, 64)),
        ("a fill that wraps", fill(u64::MAX - 31, 64)),
        ("a copy of nothing", copy(1 << 40, 1 << 41, 0)),
        ("a copy of half a word", copy(1 << 40, 1 << 41, 62)),
        ("a copy from beyond the address space", copy(1 << 40, 1 << 60, 64)),
        ("a long copy that leaves the address space", copy((1 << 48) - (1 << 30), 0, 3 << 30)),
    ] {
        refused(escape(&rig, &mut request(&rig, context, false, command)), BAD_ARGUMENT, what)?;
    }
    for op in [Op::D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_LOOP, Op::D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_PREEMPTABLE_LOOP] {
        let status = escape(&rig, &mut request(&rig, context, false, operation(op)));
        refused(status, &[STATUS_NOT_SUPPORTED], "a loop, which the hardware does not have")?;
    }
    build(&rig, request(&rig, context, false, good)).map(drop)
}

fn only_tests(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let private = test_context(&rig, NODE_COMPUTE, &mut [1, 2, 3]).err().unwrap_or(STATUS_SUCCESS);
    refused(private, BAD_ARGUMENT, "a test context with private data")?;
    let context = named(rig.context(NODE_COMPUTE), "D3DKMTCreateHwContext")?;
    let both = rig.hw_queue(context, user_mode_flags().with_TestQueue(true)).err().unwrap_or(STATUS_SUCCESS);
    refused(both, BAD_ARGUMENT, "a test queue for user-mode submission")?;

    let ordinary = named(rig.packet_context(NODE_COMPUTE), "a context")?;
    let queue = named(rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new()), "a queue")?.hHwQueue;
    let test = named(test_context(&rig, NODE_COMPUTE, &mut []), "a test context")?;
    let command = fill(1 << 40, 64);
    let ask = |context, hardware| escape(&rig, &mut request(&rig, context, hardware, command));
    refused(ask(ordinary, false), BAD_ARGUMENT, "a context that is not for tests")?;
    refused(ask(queue, true), BAD_ARGUMENT, "a queue that is not for tests")?;
    refused(ask(test, true), WRONG_KIND, "a context in the place of a queue")?;
    refused(ask(rig.device, false), WRONG_KIND, "a device in the place of a context")?;
    refused(ask(0xdead, false), BAD_HANDLE, "the handle of nothing")?;
    let other = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let foreign = escape(&other, &mut request(&other, test, false, command));
    refused(foreign, BAD_ARGUMENT, "a context of another device")?;
    granted(rig.destroy_packet_context(test), "D3DKMTDestroyContext")?;
    refused(ask(test, false), BAD_HANDLE, "a context that is gone")
}

fn changed(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut bystander = Bystander::new(&rig)?;
    let doomed = Rig::on_adapter(rig.kmt, rig.adapter)?;
    let plot = Plot::new(&doomed)?;
    let context = named(test_context(&doomed, NODE_COMPUTE, &mut []), "a test context")?;
    let buffers = plot.write(&doomed, context, false)?;
    plot.commands_view.write(0, &[0xff; 16]);
    for (address, size) in buffers {
        // The second one may come when the first has cost the device already.
        let status = doomed.submit_buffer(context, address, size);
        ensure!(status.is_success() || DEVICE_LOST.contains(&status), "D3DKMTSubmitCommand: {status}");
    }
    wait_for_error(doomed.kmt, doomed.device)?;
    ensure_eq!(plot.word(0), 0, "what the changed buffer wrote");
    bystander.works()
}
