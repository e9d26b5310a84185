//! What fails is named. A thunk that refuses says in the log which field and which rule it refuses for, in every module of thunks; of what a driver
//! leaves out or answers wrongly the DDI, what was expected and what was seen are told.

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
#[path = "../minimal/mod.rs"]
mod minimal;
#[allow(dead_code)]
#[path = "../packet_engine/mod.rs"]
mod packet_engine;

mod addresses;
mod callbacks;
mod escapes;
mod failures;
mod gone;
mod memory;
mod paging;
mod processes;
mod questions;
mod refusals;
mod starts;
mod timeouts;

use dxgkrnl::{Process, thunks};
use minimal::queue::call;
use minimal::{Bench, SOUND};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID, NTSTATUS};

/// Objects that the requests are about.
#[derive(Clone, Copy)]
struct Given {
    luid: LUID,
    adapter: D3DKMT_HANDLE,
    device: D3DKMT_HANDLE,
    context: D3DKMT_HANDLE,
    paging_queue: D3DKMT_HANDLE,
    /// An allocation of 4 KiB.
    allocation: D3DKMT_HANDLE,
    /// A monitored fence that may not be waited for.
    fence: D3DKMT_HANDLE,
}

impl Given {
    fn new(luid: LUID) -> Self {
        let args = D3DKMT_OPENADAPTERFROMLUID { AdapterLuid: luid, hAdapter: 0 };
        let adapter = call(thunks().D3DKMTOpenAdapterFromLuid, args).unwrap().hAdapter;
        let mut args = D3DKMT_CREATEDEVICE::zeroed();
        args.u.hAdapter = adapter;
        let device = call(thunks().D3DKMTCreateDevice, args).unwrap().hDevice;
        let args = D3DKMT_CREATECONTEXTVIRTUAL { hDevice: device, EngineAffinity: 1, ..Zeroed::zeroed() };
        let context = call(thunks().D3DKMTCreateContextVirtual, args).unwrap().hContext;
        let args = D3DKMT_CREATEPAGINGQUEUE { hDevice: device, ..Zeroed::zeroed() };
        let paging_queue = call(thunks().D3DKMTCreatePagingQueue, args).unwrap().hPagingQueue;
        let mut info = D3DDDI_ALLOCATIONINFO2::zeroed();
        let mut args = D3DKMT_CREATEALLOCATION { hDevice: device, NumAllocations: 1, ..Zeroed::zeroed() };
        args.u1.pAllocationInfo2 = &raw mut info;
        call(thunks().D3DKMTCreateAllocation2, args).unwrap();
        let allocation = info.hAllocation;
        let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: device, ..Zeroed::zeroed() };
        args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
        args.Info.Flags.set_NoWait(true);
        let fence = call(thunks().D3DKMTCreateSynchronizationObject2, args).unwrap().hSyncObject;
        Self { luid, adapter, device, context, paging_queue, allocation, fence }
    }
}

/// A request with something wrong, the status, and what the log says of it.
type Refused = (fn(Given) -> Option<NTSTATUS>, NTSTATUS, &'static [&'static str]);

/// Each request fails with its status, and one line of the log says why.
fn each_is_named(table: &[Refused]) {
    let bench = Bench::new(SOUND).unwrap();
    let luid = bench.start().unwrap();
    let process = Process::new(&bench.machine, "user");
    let attached = process.attach();
    let given = Given::new(luid);
    let mut silent = Vec::new();
    for (request, status, parts) in table {
        let before = bench.machine.debug_log().len();
        let answered = request(given);
        let log = bench.machine.debug_log().split_off(before);
        if answered != Some(*status) || log.len() != 1 || !parts.iter().all(|part| log[0].contains(part)) {
            silent.push((parts, answered, log));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
    drop(attached);
    process.exit();
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn thunks_of_shared_objects_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&refusals::OF_SHARING);
}

#[test]
fn thunks_of_devices_and_contexts_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&refusals::OF_DEVICES);
    each_is_named(&refusals::OF_CONTEXTS);
}

#[test]
fn thunks_of_work_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&refusals::OF_WORK);
}

#[test]
fn thunks_that_list_and_open_adapters_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&questions::OF_ADAPTERS);
}

#[test]
fn questions_about_an_adapter_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&questions::OF_INFORMATION);
}

#[test]
fn questions_about_the_figures_of_hardware_name_the_field_or_what_the_driver_answered() {
    each_is_named(&questions::OF_FIGURES);
}

#[test]
fn questions_about_the_registry_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&questions::OF_REGISTRY);
}

#[test]
fn thunks_of_budgets_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&memory::OF_BUDGETS);
}

#[test]
fn thunks_of_residency_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&memory::OF_RESIDENCY);
}

#[test]
fn thunks_of_memory_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&memory::OF_MEMORY);
}

#[test]
fn thunks_of_addresses_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&addresses::OF_MAPPINGS);
    each_is_named(&addresses::OF_REGIONS);
}

#[test]
fn thunks_of_allocations_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&memory::OF_ALLOCATIONS);
}

#[test]
fn thunks_of_monitored_fences_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&memory::OF_FENCES);
}

#[test]
fn thunks_of_processes_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&processes::OF_PROCESSES);
}

#[test]
fn names_of_objects_name_field_and_rule_of_what_is_refused() {
    each_is_named(&processes::OF_NAMES);
}

#[test]
fn thunks_of_descriptors_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&processes::OF_DESCRIPTORS);
}

#[test]
fn thunks_of_sync_files_name_field_and_rule_of_what_they_refuse() {
    each_is_named(&processes::OF_SYNC_FILES);
}
