//! Page faults of hardware queues of which the driver knows the process only. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA]

use std::ffi::c_void;
use std::sync::{Mutex, OnceLock};

use crate::minimal::bus::REPORT;
use crate::minimal::{Mutant, driver};
use crate::user_mode::DRIVER;
use crate::user_mode::app::*;
use dxgkrnl::bus::Bus;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;
use wddm_ddi::types::{BOOLEAN, HANDLE, NTSTATUS};

/// The system's handle and the driver's of each process, in the order of their creation.
static PROCESSES: Mutex<Vec<[usize; 2]>> = Mutex::new(Vec::new());
/// The handle of the process that the next interrupt reports a fault of.
static FAULTED: Mutex<Option<usize>> = Mutex::new(None);
/// The interrupt routine for everything else.
static REPORTS: OnceLock<PDXGKDDI_INTERRUPT_ROUTINE> = OnceLock::new();

unsafe extern "win64" fn create_process(context: HANDLE, args: *mut DXGKARG_CREATEPROCESS) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    let status = unsafe { driver::create_process(context, args) };
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    PROCESSES.lock().unwrap().push([args.hDxgkProcess.addr(), args.hKmdProcess.addr()]);
    status
}

unsafe extern "win64" fn interrupt_routine(context: *mut c_void, message: u32) -> BOOLEAN {
    if let Some(process) = FAULTED.lock().unwrap().take() {
        let adapter = driver::adapter(context);
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED;
        data.u.HwQueuePageFaulted.FaultedVirtualAddress = 0xdead_0000;
        data.u.HwQueuePageFaulted.u.FaultedProcessHandle = std::ptr::without_provenance_mut(process);
        data.u.HwQueuePageFaulted.PageFaultFlags = DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID;
        // SAFETY: handle and data are good.
        unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
        // SAFETY: the handle is good.
        unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle) };
    }
    // SAFETY: the arguments are the system's.
    unsafe { REPORTS.get().unwrap()(context, message) }
}

fn table(table: &mut DRIVER_INITIALIZATION_DATA) {
    (DRIVER.table)(table);
    table.DxgkDdiCreateProcess = Some(create_process);
    let reports = table.DxgkDdiInterruptRoutine.replace(interrupt_routine);
    REPORTS.get_or_init(|| reports.unwrap());
}

#[test]
fn a_fault_names_its_process_by_the_handle_of_the_system_or_of_the_driver() {
    for kind in 0..2 {
        let bench = bench_of(Mutant { table, ..DRIVER });
        let other = App::new(&bench);
        let bystander = other.queue(&bench);
        let app = App::new(&bench);
        let _queue = app.queue(&bench);
        *FAULTED.lock().unwrap() = Some(PROCESSES.lock().unwrap().last().unwrap()[kind]);
        bench.bus.register_write(0, REPORT, 4, 0);
        let lost = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT;
        eventually("the device is lost", || bench.machine.bugcheck().is_some() || app.state() == lost);
        assert_eq!(bench.machine.bugcheck(), None);
        assert_eq!(other.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
        app.process.exit();
        other.close_queue(&bystander);
        bench.end();
    }
}
