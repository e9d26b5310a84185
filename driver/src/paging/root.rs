//! Root page tables: which one a context and its process use on each GPU, and what happens when a root is evicted.
//!
//! A root that leaves memory is announced as any other table (DXGK_UPDATEPAGETABLEFLAGS::NotifyEviction): from then on nothing here, and
//! nothing in the hardware, names its address, where other memory may be. DxgkDdiSetRootPageTable then tells each context of the process
//! where the root is, before it runs again, which is refused for a context that runs.

use campanile_hw::queue::Location;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::DXGKARG_SETROOTPAGETABLE;

use super::root_location;
use crate::adapter::{Adapter, Process};
use crate::fence::system;
use crate::gpu::Gpu;
use crate::handle::{Handle, Object};
use crate::irql::Passive;
use crate::queue::context::{Context, HwContext};
use crate::refusal::{Reason, Refused, refused};

/// DxgkDdiSetRootPageTable: the address space of a context, and with it of its process, which has one on each engine of an adapter.
///
/// # Errors
/// STATUS_INVALID_HANDLE; STATUS_INVALID_PARAMETER for a table that is in no segment, or another one for a context that runs. Nothing is
/// changed then.
pub(crate) fn set(irql: &Passive, adapter: &Adapter, args: &DXGKARG_SETROOTPAGETABLE) -> Result<(), Refused> {
    let handle = Handle::of(args.hContext);
    let packets = adapter.objects.get::<Context>(handle);
    let engine = match packets {
        Ok(context) => context.engine(),
        Err(_) => adapter.objects.get::<HwContext>(handle)?.engine(),
    };
    let gpu = adapter.started_engine(engine)?;
    let root = root_location(gpu, &args.Address).ok_or(refused(Reason::RootPageTable))?;
    let process = match packets {
        Ok(context) => {
            unless(context.root() != Some(root) && context.runs(irql, gpu, handle))?;
            context.set_root(Some(root));
            if context.system {
                gpu.set_system_root(root);
            }
            context.process
        }
        Err(_) => {
            let context = adapter.objects.get::<HwContext>(handle)?;
            unless(context.properties.root() != Some(root) && context.runs(irql, adapter))?;
            context.set_root(irql, adapter, gpu, Some(root));
            context.properties.process
        }
    };
    note(gpu, handle, Some(root));
    system::set_process_root(irql, adapter, gpu, process, Some(root));
    Ok(())
}

/// The root page table of a process leaves memory: no context of it has an address space on this GPU.
///
/// The operating system suspends the contexts of the process first. The memory of the table is about to be something else's, so a context
/// that runs nevertheless is counted and detached as well: the hardware loses a queue that it will not stop. A handle that is no process
/// is counted and changes nothing.
pub(crate) fn forget(irql: &Passive, adapter: &Adapter, gpu: &Gpu, process: Handle) {
    if let Err(Refused { reason, .. }) = adapter.objects.get::<Process>(process) {
        return adapter.trace.passed_over(Component::Memory, reason, process.into_bits());
    }
    let mut runs = false;
    each::<HwContext>(irql, adapter, gpu, |_, context| {
        runs |= context.properties.process == process && context.runs(irql, adapter)
    });
    each::<Context>(irql, adapter, gpu, |handle, context| {
        runs |= context.process == process && context.runs(irql, gpu, handle)
    });
    if runs {
        adapter.trace.passed_over(Component::Memory, Reason::ContextRuns, process.into_bits());
    }
    // First, so that a fence of the process that changes meanwhile is looked up nowhere.
    system::set_process_root(irql, adapter, gpu, process, None);
    each::<HwContext>(irql, adapter, gpu, |handle, context| {
        if context.properties.process == process {
            context.set_root(irql, adapter, gpu, None);
            note(gpu, handle, None);
        }
    });
    each::<Context>(irql, adapter, gpu, |handle, context| {
        if context.process == process {
            context.set_root(None);
            note(gpu, handle, None);
        }
    });
}

/// Calls `body` for every object of this type on this engine.
fn each<T: Object>(irql: &Passive, adapter: &Adapter, gpu: &Gpu, mut body: impl FnMut(Handle, &T)) {
    let mut place = 0;
    while let Some((next, handle)) = adapter.objects.next::<T>(irql, adapter.handle(), place) {
        place = next;
        if let Some(object) =
            adapter.objects.get::<T>(handle).ok().filter(|object| object.engine() == gpu.dxgk.engine())
        {
            body(handle, object);
        }
    }
}

fn unless(runs: bool) -> Result<(), Refused> {
    if runs { Err(refused(Reason::ContextRuns)) } else { Ok(()) }
}

fn note(gpu: &Gpu, context: Handle, root: Option<Location>) {
    let location = root.map_or(0, Location::into_bits);
    gpu.note(Component::Memory, &Event::RootPageTableSet { context: context.into_bits(), location });
}
