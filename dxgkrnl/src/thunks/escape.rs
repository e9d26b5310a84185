// UNSAFETY: calls a function that the driver handed out for an interface.
//! Escapes: those that only a driver understands, which it gets by DxgkDdiEscape, the one that the system knows, which has the driver build a command buffer for tests,
//! and those to timeout detection and recovery.

use std::sync::Arc;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::adapter::Adapter;
use crate::ddi_buffer::{DdiBuffer, Lent, LentBytes};
use crate::kmd_handle::KmdHandle;
use crate::process::Process;
use crate::refusal::{DriverAnswer, Failure, refused};
use crate::rundown::Used;
use crate::vidsch::{Device, HwContext, HwQueue, PacketContext, RenderAdapter};

use super::call::enter_read_only;
use super::power::where_needed;
use super::{tdr_control, user};

/// Most private data of an escape, in bytes.
const ESCAPE_MAX: u32 = 1 << 20;

/// Device, node and queue or context of a test command buffer.
struct Target {
    device: Arc<Device>,
    node: u32,
    kmd: KmdHandle,
    _used: Kind,
}

/// Object that is kept from being destroyed until the call is answered.
enum Kind {
    Queue { _used: Used<HwQueue> },
    Context { _used: Used<PacketContext> },
}

/// The context or queue behind a handle; one that was not created for tests has none.
fn target(process: &Process, handle: D3DKMT_HANDLE, hardware: bool) -> Result<Target, Failure> {
    let (device, node, kmd, test, used) = if hardware {
        let queue = process.get_hw_queue(handle)?;
        let context = queue.context();
        let (device, node) = (Arc::clone(context.device()), context.node());
        (device, node, queue.handles().1, queue.flags().TestQueue(), Kind::Queue { _used: queue })
    } else {
        let context = process.get_packet_context(handle)?;
        let (device, node) = (Arc::clone(context.device()), context.node());
        (device, node, context.handles().1, context.flags().TestContext(), Kind::Context { _used: context })
    };
    let why = || format!("hContext {handle:#x} was created without the flag for tests, TestContext or TestQueue");
    if test { Ok(Target { device, node, kmd, _used: used }) } else { Err(refused(STATUS_INVALID_PARAMETER, why())) }
}

/// A buffer of user mode as the driver sees it: memory of the kernel, or nothing where user mode gave nothing.
struct KernelBuffer {
    bytes: DdiBuffer,
    most: u32,
}

impl KernelBuffer {
    fn new(given: *const core::ffi::c_void, size: u32, most: u32) -> Result<Self, Failure> {
        if size > most {
            let why =
                format!("DmaBufferSize or DmaBufferPrivateDataSize is {size:#x} bytes, and at most are {most:#x}");
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let size = if given.is_null() { 0 } else { size };
        Ok(Self { bytes: DdiBuffer::zeroed(size as usize), most })
    }

    fn size(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// The first `size` bytes.
    fn written(&self, size: u32) -> &[u8] {
        self.bytes.bytes().get(..size as usize).unwrap_or_default()
    }

    fn address(&mut self) -> *mut core::ffi::c_void {
        self.bytes.address()
    }
}

/// Has the driver build the buffer. Its answer, and whether both sizes are possible ones with that answer.
fn build(
    adapter: &RenderAdapter,
    mut args: &mut DXGKARG_BUILDTESTCOMMANDBUFFER,
    [commands, private]: [&KernelBuffer; 2],
) -> Result<DriverAnswer, Failure> {
    const NAME: &str = "BuildTestCommandBuffer";
    let function = adapter.test_command_builder().ok_or_else(|| {
        let why = "QueryFeatureInterface of DXGK_FEATURE_KERNEL_MODE_TESTING gave no pfnBuildTestCommandBuffer";
        refused(STATUS_NOT_SUPPORTED, why)
    })?;
    let mut lent = Lent::new(&mut args);
    let answer = adapter.miniport.call_interface(NAME, || {
        // SAFETY: the driver handed out this function for this adapter; the buffers live across the call and are as large as the sizes say.
        unsafe { function(adapter.context().raw(), lent.pass()) }
    });
    let verifier = adapter.machine.verifier();
    lent.end(verifier, NAME, "args");
    for (buffer, field) in [(commands, "pDmaBuffer"), (private, "pDmaBufferPrivateData")] {
        buffer.bytes.check(verifier, NAME, field);
    }
    let sizes = [(args.DmaBufferSize, commands), (args.DmaBufferPrivateDataSize, private)];
    let sound = match answer.status() {
        STATUS_BUFFER_OVERFLOW => {
            sizes.iter().all(|(needed, buffer)| *needed <= buffer.most)
                && sizes.iter().any(|(needed, buffer)| *needed > buffer.size())
        }
        status if status.is_success() => sizes.iter().all(|(written, buffer)| *written <= buffer.size()),
        _ => true,
    };
    if !sound {
        let rule = "expected are sizes that fit, or with STATUS_BUFFER_OVERFLOW larger ones up to the limits";
        let (size, private) = (args.DmaBufferSize, args.DmaBufferPrivateDataSize);
        let why = format!("{answer} with DmaBufferSize {size} and DmaBufferPrivateDataSize {private}, and {rule}");
        return Err(refused(STATUS_DRIVER_INTERNAL_ERROR, why));
    }
    Ok(answer)
}

fn build_test_command_buffer(process: &Process, data: *mut core::ffi::c_void) -> Result<NTSTATUS, Failure> {
    let data = data.cast::<D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER>();
    let mut asked = user::read(data)?;
    if asked.Flags.into_bits() > 1 {
        return Err(refused(STATUS_INVALID_PARAMETER, "Flags of the test command buffer has more than HardwareQueue"));
    }
    let device = process.get_device(asked.hDevice)?;
    device.check()?;
    let target = target(process, asked.hContext, asked.Flags.HardwareQueue())?;
    if !Arc::ptr_eq(&device, &target.device) {
        return Err(refused(STATUS_INVALID_PARAMETER, "hContext is of another device than hDevice"));
    }
    let adapter = &device.adapter;
    let node = adapter.caps().nodes.get(target.node as usize).ok_or(STATUS_INVALID_PARAMETER)?;
    if !node.test_commands {
        let node = target.node;
        let why = format!("DxgkDdiGetNodeMetadata answered for node {node} that it builds no test command buffers");
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    let mut commands = KernelBuffer::new(asked.pDmaBuffer, asked.DmaBufferSize, D3DDDI_MAXTESTBUFFERSIZE)?;
    let most = D3DDDI_MAXTESTBUFFERPRIVATEDRIVERDATASIZE;
    let mut private = KernelBuffer::new(asked.pDmaBufferPrivateData, asked.DmaBufferPrivateDataSize, most)?;
    let mut args = DXGKARG_BUILDTESTCOMMANDBUFFER::zeroed();
    (args.hContext, args.Command, args.Flags) = (target.kmd.raw(), asked.Command, asked.Flags);
    (args.pDmaBuffer, args.DmaBufferSize) = (commands.address(), commands.size());
    (args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) = (private.address(), private.size());
    let _running = adapter.vidsch().enter()?;
    let answer = build(adapter, &mut args, [&commands, &private])?;
    let status = answer.status();
    if status != STATUS_BUFFER_OVERFLOW {
        answer.ok()?;
    }
    if status.is_success() {
        user::write_array(asked.pDmaBuffer.cast(), commands.written(args.DmaBufferSize))?;
        user::write_array(asked.pDmaBufferPrivateData.cast(), private.written(args.DmaBufferPrivateDataSize))?;
    }
    (asked.DmaBufferSize, asked.DmaBufferPrivateDataSize) = (args.DmaBufferSize, args.DmaBufferPrivateDataSize);
    user::write(data, &asked)?;
    Ok(status)
}

/// The driver's handles of what an escape is about; a context is kept from being destroyed until the call is answered.
struct About {
    device: KmdHandle,
    context: KmdHandle,
    process: KmdHandle,
    _used: Option<UsedContext>,
}

/// A context of either kind.
enum UsedContext {
    Packets { _used: Used<PacketContext> },
    Hardware { _used: Used<HwContext> },
}

/// Looks the handles of an escape up. A process without a device on the adapter has no handle of the driver's. [d3dkmddi: DXGKARG_ESCAPE]
fn about(process: &Process, adapter: &Adapter, args: &D3DKMT_ESCAPE) -> Result<(About, Option<Used<Device>>), Failure> {
    let render = adapter.render();
    let known = process.known_adapters().into_iter().find(|known| Arc::ptr_eq(&known.adapter, render));
    let of_process = known.map_or(KmdHandle::NULL, |known| known.kmd_process);
    let mut about = About { device: KmdHandle::NULL, context: KmdHandle::NULL, process: of_process, _used: None };
    if args.hDevice == 0 {
        let why = "hContext is set without hDevice, which is to be the device of the context";
        return if args.hContext == 0 { Ok((about, None)) } else { Err(refused(STATUS_INVALID_PARAMETER, why)) };
    }
    let device = process.get_device(args.hDevice)?;
    if !Arc::ptr_eq(&device.adapter, render) {
        return Err(refused(STATUS_INVALID_PARAMETER, "hDevice is of another adapter than hAdapter"));
    }
    about.device = device.kmd;
    if args.hContext != 0 {
        let (owner, kmd, used) = match process.get_packet_context(args.hContext) {
            Ok(context) => {
                let (owner, kmd) = (context.device().id(), context.handles().1);
                (owner, kmd, UsedContext::Packets { _used: context })
            }
            Err(_) => {
                let context = process.get_hw_context(args.hContext)?;
                let (owner, kmd) = (context.device().id(), context.handles().1);
                (owner, kmd, UsedContext::Hardware { _used: context })
            }
        };
        if owner != device.id() {
            return Err(refused(STATUS_INVALID_PARAMETER, "hContext is of another device than hDevice"));
        }
        (about.context, about._used) = (kmd, Some(used));
    }
    Ok((about, Some(device)))
}

/// Hands private data to the driver, and what it wrote back to user mode. [d3dkmddi: DXGKDDI_ESCAPE]
fn escape_to_driver(process: &Process, adapter: &Adapter, args: &D3DKMT_ESCAPE) -> Result<NTSTATUS, Failure> {
    let flags = args.Flags;
    if flags.with_NoAdapterSynchronization(false).into_bits() != 0 {
        let why = format!(
            "Flags is {:#x}: only NoAdapterSynchronization is passed to DxgkDdiEscape, DriverKnownEscape stands alone, and HardwareAccess needs the second level of \
             synchronization, which is not supported [d3dukmdt: D3DDDI_ESCAPEFLAGS]",
            flags.into_bits()
        );
        return Err(refused(STATUS_NOT_SUPPORTED, why));
    }
    let size = args.PrivateDriverDataSize;
    if size > ESCAPE_MAX {
        let why =
            format!("PrivateDriverDataSize is {size:#x}, and at most {ESCAPE_MAX:#x} bytes are passed to a driver");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    if adapter.miniport.table().DxgkDdiEscape.is_none() {
        return Err(DriverAnswer::absent("DxgkDdiEscape").into());
    }
    let (about, _device) = about(process, adapter, args)?;
    let data: *mut u8 = args.pPrivateDriverData.cast();
    let mut private = if size == 0 { Vec::new() } else { user::read_array(data.cast_const(), size)? };
    let _running = adapter.vidsch().enter()?;
    let mut lent = LentBytes::new(&mut private);
    let mut escape = DXGKARG_ESCAPE::zeroed();
    (escape.hDevice, escape.hContext, escape.hKmdProcessHandle) =
        (about.device.raw(), about.context.raw(), about.process.raw());
    escape.Flags = flags;
    (escape.pPrivateDriverData, escape.PrivateDriverDataSize) = lent.place();
    let answer = adapter.miniport.escape(adapter.context().raw(), &escape);
    lent.end(adapter.machine.verifier(), "DxgkDdiEscape", "pPrivateDriverData");
    answer.ok()?;
    if size != 0 {
        user::write_array(data, &private)?;
    }
    Ok(answer.status())
}

/// Escapes that the system knows of the driver (`DriverKnownEscape`): a test command buffer.
fn known_escape(process: &Process, args: &D3DKMT_ESCAPE) -> Result<NTSTATUS, Failure> {
    let size = args.PrivateDriverDataSize as usize;
    let too_small = || refused(STATUS_INVALID_PARAMETER, format!("PrivateDriverDataSize is {size}, too few bytes"));
    if size < size_of::<D3DDDI_DRIVERESCAPETYPE>() {
        return Err(too_small());
    }
    match user::read(args.pPrivateDriverData.cast::<D3DDDI_DRIVERESCAPETYPE>())? {
        D3DDDI_DRIVERESCAPETYPE::D3DDDI_DRIVERESCAPETYPE_BUILDTESTCOMMANDBUFFER => {
            if size < size_of::<D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER>() {
                return Err(too_small());
            }
            build_test_command_buffer(process, args.pPrivateDriverData)
        }
        other => Err(refused(STATUS_NOT_SUPPORTED, format!("the escape type is {}, which is none here", other.0))),
    }
}

/// Escapes of user mode to a driver. With `DriverKnownEscape` a test command buffer for a context or queue that was created for tests, where kernel-mode testing is on:
/// STATUS_BUFFER_OVERFLOW with both sizes where a buffer is NULL or too small. Without it the driver's DxgkDdiEscape gets the private data, and user mode gets back what that
/// has written, unless it answered an error. D3DKMT_ESCAPE_TDRDBGCTRL forces a timeout, which is recovered from when this returns, or sets TdrDebugMode, where TdrTestMode is 1.
///
/// Errors: STATUS_INVALID_HANDLE; STATUS_INVALID_PARAMETER for sizes above the limits, unknown flags, a context that is not for tests or of another device, and commands that
/// the driver refuses; STATUS_NOT_SUPPORTED for escapes of other types or flags, where the driver has no DxgkDdiEscape, and where the feature is off or the node builds none;
/// what DxgkDdiEscape answered. [d3dkmthk: D3DKMTEscape]
///
/// # Safety
/// Callable with any arguments: pointers are checked.
#[allow(non_snake_case)]
pub unsafe extern "win64" fn D3DKMTEscape(args: *const D3DKMT_ESCAPE) -> NTSTATUS {
    enter_read_only("D3DKMTEscape", args, |process, args| {
        let adapter = process.get_adapter(args.hAdapter)?;
        match args.Type {
            D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_DRIVERPRIVATE => {}
            D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_TDRDBGCTRL => return tdr_control::control(&adapter.adapter, args),
            D3DKMT_ESCAPETYPE(other) => {
                let rule = "of the types of escapes there are D3DKMT_ESCAPE_DRIVERPRIVATE and D3DKMT_ESCAPE_TDRDBGCTRL";
                return Err(refused(STATUS_NOT_SUPPORTED, format!("Type is {other}: {rule}")));
            }
        }
        let _powered = where_needed(process, || true);
        if args.Flags == D3DDDI_ESCAPEFLAGS::new().with_DriverKnownEscape(true) {
            return known_escape(process, args);
        }
        escape_to_driver(process, &adapter.adapter, args)
    })
}
