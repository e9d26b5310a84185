//! Starting, listing and opening the adapter.

use crate::cases::adapter::opened;
use dxgkrnl::RegistryValue;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::{D3DKMT_ADAPTERREGISTRYINFO, KMTQUERYADAPTERINFOTYPE};
use wddm_ddi::status::*;

use crate::kmt::{BAD_HANDLE, Kmt};
use crate::simulated::Case;
use crate::{Boot, Failure, granted, refused};

cases! { inside "Adapter", behind "it reads the log of the start, or is a thread or process that no program on Windows can be";
    "Adapter.StartsInTheObservedOrder" on Boot::Fresh, "start_device":
        "At start the system calls AddDevice, then StartDevice, then asks for capabilities, and only then creates its own process, devices and contexts."
        => starts_in_order;
    "Adapter.MemoryQuestionsComeBeforeStart" on Boot::Fresh, "queryadapterinfotype":
        "The driver answers the questions about physical memory and the IOMMU before StartDevice, without its interface to the system."
        => memory_questions_before_start;
    "Adapter.HandleOfAnotherProcessIsRefused" on Boot::Shared, "d3dkmtcloseadapter":
        "An adapter handle means nothing in a process that did not open it."
        => foreign_handle;
    "Adapter.ThreadWithoutProcessIsRefused" on Boot::Shared, "d3dkmtopenadapterfromluid":
        "A thread that belongs to no process of the machine is refused with access denied by the thunks."
        => thread_without_process;
    "Adapter.HardwareInformationOfTheDriverIsTold" on Boot::Fresh, "registering-hardware-information":
        "What a driver writes to its software key about the hardware is what the system tells of the adapter from then on."
        => hardware_information;
}

/// Index of the first entry of the start log that names `ddi`.
fn position(log: &[String], ddi: &str) -> Result<usize, Failure> {
    log.iter()
        .position(|line| line.contains(ddi))
        .ok_or_else(|| Failure::new(format!("{ddi} was never called at start; the calls were {log:?}")))
}

fn starts_in_order(case: &mut Case<'_>) -> Result<(), Failure> {
    let log = case.system.machine().start_log(case.system.luid());
    let order = ["AddDevice", "StartDevice", "DRIVERCAPS", "GetNodeMetadata", "CreateProcess", "CreateDevice"];
    for pair in order.windows(2) {
        let (first, second) = (position(&log, pair[0])?, position(&log, pair[1])?);
        ensure!(first < second, "{} came at {first}, {} at {second}", pair[0], pair[1]);
    }
    let (devices, contexts) = (position(&log, "CreateDevice")?, position(&log, "CreateContext")?);
    ensure!(devices < contexts, "a context was created before a device");
    let (contexts, root) = (position(&log, "CreateContext")?, position(&log, "SetRootPageTable")?);
    ensure!(contexts < root, "a root page table was set before a context existed");
    position(&log, "BuildPagingBuffer").map(drop)
}

fn memory_questions_before_start(case: &mut Case<'_>) -> Result<(), Failure> {
    let log = case.system.machine().start_log(case.system.luid());
    let start = position(&log, "StartDevice")?;
    for question in ["PHYSICAL_MEMORY_CAPS", "IOMMU_CAPS"] {
        let asked = position(&log, question)?;
        ensure!(asked < start, "{question} was asked at {asked}, after StartDevice at {start}");
    }
    Ok(())
}

fn hardware_information(case: &mut Case<'_>) -> Result<(), Failure> {
    let registry = case.system.machine().registry();
    let path =
        "Registry\\Machine\\System\\CurrentControlSet\\Control\\Class\\{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}\\0000";
    let missing = |status| Failure::new(format!("{path}: {status}"));
    let key = registry.open(path).map_err(missing)?;
    let written = RegistryValue::Text("7.1".to_owned());
    key.set("HardwareInformation.BiosString", written).map_err(missing)?;
    let mut info = D3DKMT_ADAPTERREGISTRYINFO::zeroed();
    let adapter = opened(case)?;
    let status = case.kmt().ask(adapter, KMTQUERYADAPTERINFOTYPE::KMTQAITYPE_ADAPTERREGISTRYINFO, &mut info);
    granted(status, "the question")?;
    let expected: Vec<u16> = "7.1".encode_utf16().chain([0]).collect();
    ensure_eq!(info.BiosString.get(..4), Some(expected.as_slice()), "BiosString");
    Ok(())
}

fn foreign_handle(case: &mut Case<'_>) -> Result<(), Failure> {
    let mine = opened(case)?;
    case.in_other_process(|_| refused(Kmt::new().close_adapter(mine), BAD_HANDLE, "closing a foreign handle"))?;
    granted(case.kmt().close_adapter(mine), "closing in its own process")
}

fn thread_without_process(case: &mut Case<'_>) -> Result<(), Failure> {
    let luid = case.system.luid();
    let status = std::thread::spawn(move || Kmt::new().open_adapter(luid)).join();
    match status {
        Ok(Err(status)) => refused(status, &[STATUS_ACCESS_DENIED], "opening without a process"),
        Ok(Ok(handle)) => Err(Failure::new(format!("opening without a process gave handle {handle:#x}"))),
        Err(_) => Err(Failure::new("opening without a process panicked")),
    }
}
