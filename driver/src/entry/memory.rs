//! Processes, devices, allocations, paging.

use campanile_hw::page_table::TABLE_SIZE;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::*;

use super::answer::answer;
use super::call::{arguments, inputs, on_adapter, on_gpu, on_object, take_object};
use crate::adapter::Process;

use crate::adapter::UserDevice;
use crate::adapter::slots::object;
use crate::handle::Handle;
use crate::irql::Passive;
use crate::memory::allocation;
use crate::paging::{self, root};
use crate::refusal::Ddi;

pub(crate) unsafe extern "win64" fn create_process(adapter: HANDLE, args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS {
    on_adapter(Ddi::CreateProcess, adapter, |irql, adapter| {
        let args = arguments(args)?;
        let process = Process::new(args.hDxgkProcess);
        let handle = adapter.objects.insert(irql, adapter.handle(), process)?;
        let system = args.hDxgkProcess.addr() as u64;
        adapter.trace.note(Component::Memory, &Event::ProcessCreated { process: handle.into_bits(), system });
        args.hKmdProcess = handle.raw();
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn destroy_process(_adapter: HANDLE, process: HANDLE) -> NTSTATUS {
    take_object::<Process>(Ddi::DestroyProcess, process)
}

pub(crate) unsafe extern "win64" fn create_device(adapter: HANDLE, args: *mut DXGKARG_CREATEDEVICE) -> NTSTATUS {
    on_gpu(Ddi::CreateDevice, adapter, |irql, adapter, _| {
        let args = arguments(args)?;
        let process = Handle::of(args.hKmdProcess);
        adapter.objects.get::<Process>(process)?;
        args.hDevice = adapter.objects.insert(irql, adapter.handle(), UserDevice { process })?.raw();
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn destroy_device(device: HANDLE) -> NTSTATUS {
    take_object::<UserDevice>(Ddi::DestroyDevice, device)
}

pub(crate) unsafe extern "win64" fn create_allocation(
    adapter: HANDLE,
    args: *mut DXGKARG_CREATEALLOCATION,
) -> NTSTATUS {
    on_gpu(Ddi::CreateAllocation, adapter, |irql, adapter, _| allocation::create(irql, adapter, arguments(args)?))
}

pub(crate) unsafe extern "win64" fn destroy_allocation(
    adapter: HANDLE,
    args: *const DXGKARG_DESTROYALLOCATION,
) -> NTSTATUS {
    on_adapter(Ddi::DestroyAllocation, adapter, |irql, adapter| allocation::destroy(irql, adapter, inputs(args)?))
}

pub(crate) unsafe extern "win64" fn describe_allocation(
    adapter: HANDLE,
    args: *mut DXGKARG_DESCRIBEALLOCATION,
) -> NTSTATUS {
    on_adapter(Ddi::DescribeAllocation, adapter, |_, adapter| {
        let args = arguments(args)?;
        allocation::size_of_handle(adapter, args.hAllocation)?;
        allocation::describe_for_display(args);
        Ok(())
    })
}

pub(crate) unsafe extern "win64" fn get_standard_allocation_driver_data(
    adapter: HANDLE,
    args: *mut DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
) -> NTSTATUS {
    on_gpu(Ddi::GetStandardAllocationDriverData, adapter, |_, adapter, gpu| {
        allocation::standard(adapter, gpu, arguments(args)?)
    })
}

pub(crate) unsafe extern "win64" fn open_allocation(device: HANDLE, args: *const DXGKARG_OPENALLOCATION) -> NTSTATUS {
    on_object::<UserDevice>(Ddi::OpenAllocation, device, |irql, adapter, gpu, _| {
        allocation::open(irql, adapter, gpu, inputs(args)?)
    })
}

pub(crate) unsafe extern "win64" fn close_allocation(device: HANDLE, args: *const DXGKARG_CLOSEALLOCATION) -> NTSTATUS {
    // SAFETY: documented for PASSIVE_LEVEL.
    let irql = unsafe { Passive::assume() };
    let closed = object::<UserDevice>(device).and_then(|(adapter, _)| allocation::close(&irql, adapter, inputs(args)?));
    answer(Ddi::CloseAllocation, device, closed)
}

pub(crate) unsafe extern "win64" fn build_paging_buffer(
    adapter: HANDLE,
    args: *mut DXGKARG_BUILDPAGINGBUFFER,
) -> NTSTATUS {
    on_adapter(Ddi::BuildPagingBuffer, adapter, |irql, adapter| paging::build(irql, adapter, arguments(args)?))
}

pub(crate) unsafe extern "win64" fn set_root_page_table(adapter: HANDLE, args: *const DXGKARG_SETROOTPAGETABLE) {
    let status = on_gpu(Ddi::SetRootPageTable, adapter, |irql, adapter, _| root::set(irql, adapter, inputs(args)?));
    // The DDI has no result. A context whose root was not set refuses its submissions.
    let _ = status;
}

/// With more than two levels tables have a fixed size, so the operating system does not ask; the answer is right all the same.
pub(crate) unsafe extern "win64" fn get_root_page_table_size(
    _adapter: HANDLE,
    _args: *mut DXGKARG_GETROOTPAGETABLESIZE,
) -> usize {
    TABLE_SIZE as usize
}

pub(crate) unsafe extern "win64" fn map_cpu_host_aperture(
    adapter: HANDLE,
    args: *const DXGKARG_MAPCPUHOSTAPERTURE,
) -> NTSTATUS {
    on_gpu(Ddi::MapCpuHostAperture, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let gpu = adapter.started_engine(args.PhysicalAdapterIndex.into())?;
        gpu.host_aperture.map(irql, &gpu.layout, gpu.is_running(), args)
    })
}

pub(crate) unsafe extern "win64" fn unmap_cpu_host_aperture(
    adapter: HANDLE,
    args: *const DXGKARG_UNMAPCPUHOSTAPERTURE,
) -> NTSTATUS {
    on_gpu(Ddi::UnmapCpuHostAperture, adapter, |irql, adapter, _| {
        let args = inputs(args)?;
        let gpu = adapter.started_engine(args.PhysicalAdapterIndex.into())?;
        gpu.host_aperture.unmap(irql, gpu.is_running(), args)
    })
}

/// A process of a virtual machine is served as any other, so that nothing is kept of what the machine is.
pub(crate) unsafe extern "win64" fn set_virtual_machine_data(
    adapter: HANDLE,
    args: *const DXGKARG_SETVIRTUALMACHINEDATA,
) -> NTSTATUS {
    on_adapter(Ddi::SetVirtualMachineData, adapter, |_, adapter| {
        let args = inputs(args)?;
        adapter.objects.get::<Process>(Handle::of(args.hKmdVmWorkerProcess))?;
        Ok(())
    })
}
