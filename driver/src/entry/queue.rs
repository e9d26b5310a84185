//! Contexts, queues and submission.

use core::ffi::c_void;

use campanile_hw::queue::{COMMANDS_SIZE_MAX, Location};
use campanile_hw::registers::NODE_PAGING;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::status::STATUS_SUCCESS;
use wddm_ddi::types::*;

use super::answer::answer;
use super::call::{arguments, at_dispatch, inputs, on_gpu, on_object, take_object};
use crate::adapter::UserDevice;
use crate::adapter::slots;
use crate::adapter::{Adapter, Process};
use crate::gpu::Gpu;
use crate::handle::{Handle, Object};
use crate::interrupt;
use crate::irql::{Device, Passive, UpToDispatch};
use crate::node::flight::Packet;
use crate::node::priority::Bands;
use crate::queue::context::{self, Context, HwContext};
use crate::queue::creation;
use crate::queue::hw_queue::{self, HwQueue};
use crate::queue::suspend::Purpose;
use crate::refusal::{Ddi, Reason, Refused, refused};
use crate::scheduling_log::SchedulingLog;

pub(crate) unsafe extern "win64" fn create_context(device: HANDLE, args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS {
    on_object::<UserDevice>(Ddi::CreateContext, device, |irql, adapter, _, device| {
        let args = arguments(args)?;
        let context = Context::new(adapter, device, args)?;
        let (process, node) = (context.process.into_bits(), context.node);
        let handle = adapter.objects.insert(irql, adapter.handle(), context)?;
        args.hContext = handle.raw();
        adapter.trace.note(Component::Queue, &Event::ContextCreated { context: handle.into_bits(), process, node });
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn destroy_context(context: HANDLE) -> NTSTATUS {
    take_object::<Context>(Ddi::DestroyContext, context)
}

/// What a submission names: context, or node if there is none.
struct Target<'a> {
    gpu: &'a Gpu,
    node: u32,
    root: Option<Location>,
    process: Handle,
    dxgk_process: usize,
    context: Option<(Handle, &'a Context)>,
}

fn target(adapter: &Adapter, context: HANDLE, node: u32, engine: u32) -> Result<Target<'_>, Refused> {
    if context.is_null() {
        let gpu = adapter.started_engine(engine)?;
        let root = gpu.system_root();
        return Ok(Target { gpu, node, root, process: Handle::new(), dxgk_process: 0, context: None });
    }
    let handle = Handle::of(context);
    let context = adapter.objects.get::<Context>(handle)?;
    let process = adapter.objects.get::<Process>(context.process);
    Ok(Target {
        gpu: adapter.started_engine(context.engine())?,
        node: context.node,
        root: context.root(),
        process: context.process,
        dxgk_process: process.map_or(0, |process| process.dxgk),
        context: Some((handle, context)),
    })
}

fn submit(irql: &impl UpToDispatch, target: &Target<'_>, packet: Packet) -> Result<(), Refused> {
    let gpu = target.gpu;
    let node = gpu.nodes.get(target.node as usize).ok_or(refused(Reason::NoSuchNode))?;
    let Packet { commands, fence, size, .. } = packet;
    gpu.note(Component::Queue, &Event::PacketSubmitted { commands, fence, size, node: target.node });
    node.submit(irql, &gpu.dxgk, &gpu.cmp, packet)
}

/// The DDI has two results. After STATUS_INVALID_PARAMETER the operating system counts the fence as completed in its order, so an empty
/// packet takes its place.
pub(crate) unsafe extern "win64" fn submit_command_virtual(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    at_dispatch(Ddi::SubmitCommandVirtual, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let target = target(adapter, args.hContext, args.NodeOrdinal, args.EngineOrdinal)?;
        let empty = args.Flags.NullRendering() || args.Flags.ContextSwitch();
        let size = if empty { 0 } else { args.DmaBufferSize };
        let well_formed = args.DmaBufferVirtualAddress % 16 == 0
            && size % 16 == 0
            && size <= COMMANDS_SIZE_MAX
            && args.EngineOrdinal == target.gpu.dxgk.engine();
        let root = target.root.filter(|_| well_formed);
        let (handle, context) = target.context.unzip();
        let buffer = args.DmaBufferVirtualAddress;
        let executed = context.map_or(0, |context| context.take_executed(buffer, args.Flags.Resubmission())).min(size);
        let packet = Packet {
            commands: if root.is_some() { buffer.wrapping_add(executed.into()) } else { 0 },
            size: if root.is_some() { size - executed } else { 0 },
            root: root.unwrap_or_default(),
            fence: args.SubmissionFenceId,
            silent: root.is_none(),
            // A buffer that the system submits to a context of its own on this node was written by DxgkDdiBuildPagingBuffer.
            paging: target.node == NODE_PAGING && context.is_some_and(|context| context.system),
            process: target.process.into_bits(),
            dxgk_process: target.dxgk_process,
            context: handle.map_or(0, Handle::into_bits),
            executed,
        };
        submit(irql, &target, packet)?;
        if root.is_none() {
            return Err(refused(Reason::Packet));
        }
        Ok(())
    })
}

/// May not fail: what the ring cannot express faults when the hardware reads it.
pub(crate) unsafe extern "win64" fn submit_command(adapter: HANDLE, args: *const DXGKARG_SUBMITCOMMAND) -> NTSTATUS {
    at_dispatch(Ddi::SubmitCommand, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        // SAFETY: both arms of the union are a handle; drivers with contexts get the context's.
        let context = unsafe { args.u.hContext };
        let target = target(adapter, context, args.NodeOrdinal, args.EngineOrdinal)?;
        let empty = args.Flags.NullRendering() || args.Flags.ContextSwitch();
        let size = args.DmaBufferSubmissionEndOffset.saturating_sub(args.DmaBufferSubmissionStartOffset);
        let packet = Packet {
            commands: args.DmaBufferVirtualAddress.wrapping_add(args.DmaBufferSubmissionStartOffset.into()),
            size: if empty { 0 } else { size },
            root: target.root.unwrap_or_default(),
            fence: args.SubmissionFenceId,
            silent: false,
            paging: false,
            process: target.process.into_bits(),
            dxgk_process: target.dxgk_process,
            context: 0,
            executed: 0,
        };
        submit(irql, &target, packet)
    })
}

pub(crate) unsafe extern "win64" fn preempt_command(adapter: HANDLE, args: *const DXGKARG_PREEMPTCOMMAND) -> NTSTATUS {
    at_dispatch(Ddi::PreemptCommand, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let gpu = adapter.started_engine(args.EngineOrdinal)?;
        let node = gpu.nodes.get(args.NodeOrdinal as usize).ok_or(refused(Reason::NoSuchNode))?;
        let (fence, node_number) = (args.PreemptionFenceId, args.NodeOrdinal);
        gpu.note(Component::Queue, &Event::PreemptionRequested { fence, node: node_number });
        let drain = |device: &Device| interrupt::drain(device, adapter, gpu);
        gpu.note_stop_requested(node);
        node.preempt(irql, &gpu.dxgk, &gpu.cmp, args.PreemptionFenceId, drain, |(context, preempted)| {
            interrupt::keep(adapter, context, preempted)
        })
    })
}

pub(crate) unsafe extern "win64" fn create_hw_context(device: HANDLE, args: *mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS {
    on_object::<UserDevice>(Ddi::CreateHwContext, device, |irql, adapter, _, device| {
        let args = arguments(args)?;
        let context = HwContext::new(adapter, device, args)?;
        let (process, node) = (context.properties.process.into_bits(), context.properties.node);
        let handle = adapter.objects.insert(irql, adapter.handle(), context)?;
        args.hHwContext = handle.raw();
        adapter.trace.note(Component::Queue, &Event::HwContextCreated { context: handle.into_bits(), process, node });
        Ok(())
    })
}

/// Its queues are gone by then; one that is left goes with it.
pub(crate) unsafe extern "win64" fn destroy_hw_context(context: HANDLE) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let (adapter, object) = match slots::object::<HwContext>(context) {
        Ok(found) => found,
        Err(refused) => return answer(Ddi::DestroyHwContext, context, Err(refused)),
    };
    if let Ok(gpu) = adapter.engine(object.engine()) {
        loop {
            let queue = object.queues.lock(&irql).first().copied();
            let Some(queue) = queue else { break };
            if creation::destroy(&irql, adapter, gpu, queue, interrupt::drain).is_err() {
                break;
            }
        }
    }
    take_object::<HwContext>(Ddi::DestroyHwContext, context)
}

pub(crate) unsafe extern "win64" fn create_hw_queue(context: HANDLE, args: *mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS {
    on_object::<HwContext>(Ddi::CreateHwQueue, context, |irql, adapter, gpu, _| {
        let args = arguments(args)?;
        args.hHwQueue = creation::create(irql, adapter, gpu, Handle::of(context), args)?.raw();
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn destroy_hw_queue(queue: HANDLE) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let destroy = || {
        let (adapter, object) = slots::object::<HwQueue>(queue)?;
        let gpu = adapter.engine(object.engine())?;
        creation::destroy(&irql, adapter, gpu, Handle::of(queue), interrupt::drain)
    };
    answer(Ddi::DestroyHwQueue, queue, destroy())
}

pub(crate) unsafe extern "win64" fn submit_command_to_hw_queue(
    adapter: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE,
) -> NTSTATUS {
    at_dispatch(Ddi::SubmitCommandToHwQueue, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let queue = adapter.objects.get::<HwQueue>(Handle::of(args.hHwQueue))?;
        let context = adapter.objects.get::<HwContext>(queue.context)?;
        let gpu = adapter.started_engine(queue.engine)?;
        hw_queue::submit(irql, gpu, &context.properties, queue, args)
    })
}

/// Nothing is presented on an adapter whose capabilities have no presentation.
pub(crate) unsafe extern "win64" fn present_to_hw_queue(queue: HANDLE, _present: *mut c_void) -> NTSTATUS {
    on_object::<HwQueue>(Ddi::PresentToHwQueue, queue, |_, _, _, _| Err::<(), _>(refused(Reason::NotServed)))
}

pub(crate) unsafe extern "win64" fn switch_to_hw_context_list(
    adapter: HANDLE,
    args: *const DXGKARG_SWITCHTOHWCONTEXTLIST,
) -> NTSTATUS {
    on_gpu(Ddi::SwitchToHwContextList, adapter, |irql, adapter, _| context::switch_list(irql, adapter, inputs(args)?))
}

pub(crate) unsafe extern "win64" fn update_hw_context_state(
    adapter: HANDLE,
    args: *const DXGKARG_UPDATEHWCONTEXTSTATE,
) -> NTSTATUS {
    on_gpu(Ddi::UpdateHwContextState, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let context = adapter.objects.get::<HwContext>(Handle::of(args.hHwContext))?;
        let gpu = adapter.started_engine(context.engine())?;
        context.update_state(irql, adapter, gpu, args, interrupt::drain)
    })
}

/// When this returns, nothing is written to the log that the node had before.
pub(crate) unsafe extern "win64" fn set_scheduling_log_buffer(
    adapter: HANDLE,
    args: *const DXGKARG_SETSCHEDULINGLOGBUFFER,
) -> NTSTATUS {
    on_gpu(Ddi::SetSchedulingLogBuffer, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let gpu = adapter.started_engine(args.EngineOrdinal)?;
        gpu.set_scheduling_log(irql, args.NodeOrdinal, SchedulingLog::read(args)?)
    })
}

pub(crate) unsafe extern "win64" fn setup_priority_bands(
    adapter: HANDLE,
    args: *const DXGKARG_SETUPPRIORITYBANDS,
) -> NTSTATUS {
    on_gpu(Ddi::SetupPriorityBands, adapter, |irql, adapter, _| {
        let bands = Bands::of(inputs(args)?)?;
        adapter.engines().for_each(|gpu| gpu.set_bands(irql, bands));
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn set_context_scheduling_properties(
    adapter: HANDLE,
    args: *const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES,
) -> NTSTATUS {
    on_gpu(Ddi::SetContextSchedulingProperties, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let context = adapter.objects.get::<HwContext>(Handle::of(args.hContext))?;
        let gpu = adapter.started_engine(context.engine())?;
        context.set_properties(irql, adapter, gpu, args)
    })
}

pub(crate) unsafe extern "win64" fn suspend_context(adapter: HANDLE, args: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    let mut done = STATUS_SUCCESS;
    let status = on_gpu(Ddi::SuspendContext, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let context = adapter.objects.get::<HwContext>(Handle::of(args.hContext))?;
        let gpu = adapter.started_engine(context.engine())?;
        let (handle, fence) = (Handle::of(args.hContext).into_bits(), args.contextSuspendFence);
        gpu.note(Component::Queue, &Event::ContextSuspended { context: handle, fence });
        done = context.suspend(irql, adapter, gpu, (args.contextSuspendFence, Purpose::Suspend), interrupt::drain)?;
        Ok(())
    });
    if status.is_success() { done } else { status }
}

pub(crate) unsafe extern "win64" fn resume_context(adapter: HANDLE, args: *const DXGKARG_RESUMECONTEXT) -> NTSTATUS {
    on_gpu(Ddi::ResumeContext, adapter, |irql, adapter, _| {
        let handle = Handle::of(inputs(args)?.hContext);
        let context = adapter.objects.get::<HwContext>(handle)?;
        let gpu = adapter.started_engine(context.engine())?;
        gpu.note(Component::Queue, &Event::ContextResumed { context: handle.into_bits() });
        context.resume(irql, adapter, gpu);
        Ok(())
    })
}
