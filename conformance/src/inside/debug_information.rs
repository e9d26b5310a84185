//! What the driver tells of itself: its rings and counters in debug information, and the same as ETW events.

use std::collections::BTreeMap;

use campanile_hw::registers::{Caps, NODE_COMPUTE, NODES};
use campanile_hw::trace::entry::{TraceEntry, from_words};
use campanile_hw::trace::event::EventInfo;
use campanile_hw::trace::{Component, KEYWORD_REFUSAL, PROVIDER, PROVIDER_GUID};
use dxgkrnl::{EtwEvent, EtwSession, RegistrationRequests, TraceLoggingEvent};
use wddm_ddi::nt::{IOCTL_VIDEO_DDI_FUNC_REGISTER, IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8};
use wddm_ddi::status::STATUS_INVALID_PARAMETER;
use wddm_ddi::types::GUID;

use crate::rig::{RawQueue, Rig};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::debug::{DebugEvent, DebugInformation};
use testbed::setup::{DriverChoice, System, SystemOptions};

cases! { inside "Inside";
    "Inside.RefusalIsNamedAndCounted" on Boot::Fresh, "dxgkddi_collectdbginfo":
        "A call that the driver refuses is counted by its reason, once, and is an event with the DDI, the status answered and the reason, all of which debug information tells."
        => refusal_is_counted;
    "Inside.InformationHasTheTree" needs UserModeSubmission on Boot::Fresh, "dxgkddi_collectdbginfo":
        "Debug information has device, nodes, queues, doorbells with their pages, fences with their addresses, and the last events of every component; what does not fit is left out and said so."
        => information_has_the_tree;
    "Inside.EtwHasTheEventsOfTheRings" needs UserModeSubmission on Boot::Fresh, "etwwritetransfer":
        "While a session wants them, the driver's events are written with the names, numbers and fields that they have in its rings, in the format TraceLogging, by a provider whose identifier follows from its name."
        => etw_has_the_rings;
    "Inside.EtwKeepsToLevelAndKeywords" needs UserModeSubmission on Boot::Fresh, "etwwritetransfer":
        "Events above the level of a session, or without one of its keywords, are not written, and none once it has ended."
        => etw_keeps_to_the_session;
    "Inside.LoggingIsSwitchedByItsDdi" needs UserModeSubmission on Boot::Fresh, "dxgkddi_control_etw_logging":
        "DxgkDdiControlEtwLogging switches whether the driver logs its events up to a level with the graphics kernel."
        => logging_is_switched;
    "Inside.NewerRegistrationRequestGoesFirst" on Boot::Fresh, "dxgkinitialize":
        "A driver image asks the graphics kernel for its registration function with the control request of Windows 8 and later, and traces that it was answered; that it goes first is the practice of open filter drivers, for no page names it. As an adapter is added it tells again, as an event and to the debugger, because nobody listens to a driver that loads."
        => newer_request_goes_first;
    "Inside.OlderRegistrationRequestIsTheSecond" on Boot::With(windows_7_registration), "dxgkinitialize":
        "Where the graphics kernel does not know the control request of Windows 8, a driver image asks with that of Windows 7, registers, and traces which one was answered."
        => older_request_is_the_second;
}

/// Bug-check code of an engine that timed out.
const TIMEOUT: u32 = 0x141;

fn provider() -> GUID {
    let (a, b, c, d) = PROVIDER_GUID;
    GUID { Data1: a, Data2: b, Data3: c, Data4: d }
}

fn information(system: &System, bytes: usize) -> Result<DebugInformation, Failure> {
    let collected = system.machine().collect_debug_information(system.luid(), TIMEOUT, bytes);
    let collected = collected.map_err(|error| Failure::new(format!("nothing was collected: {error}")))?;
    DebugInformation::decode(&collected).map_err(|error| Failure::new(error.to_string()))
}

fn session(system: &System, session: Option<EtwSession>) -> Result<(), Failure> {
    let set = system.machine().set_etw_session(system.driver(), provider(), session);
    set.map_err(|error| Failure::new(error.to_string()))
}

fn events(system: &System) -> Result<Vec<EtwEvent>, Failure> {
    let taken = system.machine().take_etw_events(system.driver());
    let (events, lost) = taken.map_err(|error| Failure::new(error.to_string()))?;
    ensure_eq!(lost, 0, "events that were lost");
    Ok(events)
}

fn last<'a>(information: &'a DebugInformation, component: Component, name: &str) -> Result<&'a DebugEvent, Failure> {
    let ring = information.ring(component);
    let event = ring.and_then(|ring| ring.events.iter().rev().find(|event| event.event == name));
    event.ok_or_else(|| Failure::new(format!("no event {name} of {}:\n{information}", component.name())))
}

fn field<'a>(event: &'a DebugEvent, name: &str) -> Option<(u64, &'a str)> {
    let field = event.fields.iter().find(|field| field.name == name)?;
    Some((field.value, field.text.as_str()))
}

fn refusal_is_counted(case: &mut Case<'_>) -> Result<(), Failure> {
    const ALL: usize = 64 << 10;
    let rig = case.rig()?;
    let refused = |information: &DebugInformation| {
        information.reasons.iter().find(|reason| reason.reason == "PrivateData").map_or(0, |reason| reason.refused)
    };
    let before = refused(&information(case.system, ALL)?);
    ensure_eq!(
        rig.create_raw(&mut [0; 4]).err(),
        Some(STATUS_INVALID_PARAMETER),
        "answer to four bytes of private data"
    );
    let after = information(case.system, ALL)?;
    ensure_eq!(refused(&after), before + 1, "calls refused for their private data");
    let event = last(&after, Component::Memory, "Refused")?;
    let told = ["ddi", "reason", "status"].map(|name| field(event, name).map_or("", |(_, text)| text));
    let status = STATUS_INVALID_PARAMETER.to_string();
    ensure_eq!(told, ["DxgkDdiCreateAllocation", "PrivateData", &status], "DDI, reason and status of the event");
    Ok(())
}

fn information_has_the_tree(case: &mut Case<'_>) -> Result<(), Failure> {
    case.needs_kept_doorbells(1)?;
    let rig = case.rig()?;
    let queue = rig.queue(NODE_COMPUTE)?;
    granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
    let whole = information(case.system, 64 << 10)?;
    ensure_eq!((whole.reason, whole.running, whole.powered, whole.cut), (TIMEOUT, true, true, false), "state");
    let nodes = (NODES * case.system.engines()) as usize;
    ensure_eq!((whole.nodes.len(), whole.rings.len()), (nodes, Component::ALL.len()), "nodes and rings");
    ensure!(whole.device.is_some(), "{whole}");
    let event = last(&whole, Component::Queue, "DoorbellConnected")?;
    let told = ["doorbell", "number", "page"].map(|name| field(event, name).map(|(value, _)| value));
    let connected = whole.doorbells.iter().find(|doorbell| Some(doorbell.handle) == told[0]);
    let connected = connected.ok_or_else(|| Failure::new(format!("the connected doorbell is missing:\n{whole}")))?;
    // One doorbell for all queues is lent to nobody.
    let shared = whole.device.as_ref().is_some_and(|device| Caps::from_bits(device.caps as u32).global_doorbell());
    ensure_eq!(connected.page.is_none(), shared, "doorbells without a page of their own");
    let owner = whole.queues.iter().find(|queue| queue.handle == connected.queue);
    let owner = owner.ok_or_else(|| Failure::new(format!("the doorbell's queue is missing:\n{whole}")))?;
    ensure_eq!((owner.node, owner.user_mode, owner.doorbell), (NODE_COMPUTE, true, connected.handle), "the queue");
    let progress = whole.fences.iter().flat_map(|fence| &fence.open).find(|open| open.current == owner.progress);
    ensure!(progress.is_some(), "the queue's progress fence is missing:\n{whole}");
    ensure_eq!(
        [told[1], told[2]],
        [Some(owner.number.into()), Some(connected.page.unwrap_or(0))],
        "the last connection"
    );
    for bytes in [40, 100, 1000, 4000] {
        let part = information(case.system, bytes)?;
        ensure!(part.cut && part.reason == TIMEOUT, "{bytes} bytes hold everything:\n{part}");
    }
    Ok(())
}

/// Something that every component but the last has to do with.
fn work(rig: &Rig) -> Result<RawQueue, Failure> {
    let mut queue = rig.queue(NODE_COMPUTE)?;
    granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
    rig.execute(&mut queue, &[])?;
    ensure_eq!(
        rig.create_raw(&mut [0; 4]).err(),
        Some(STATUS_INVALID_PARAMETER),
        "answer to four bytes of private data"
    );
    Ok(queue)
}

fn component_of(event: &EtwEvent) -> Option<Component> {
    Component::ALL.into_iter().find(|component| component.keyword() & event.descriptor.Keyword != 0)
}

/// The events of a session by adapter, component and number. GPUs that are linked number their events each for itself.
fn by_number(events: &[EtwEvent]) -> Result<BTreeMap<(u64, u8, u64), TraceLoggingEvent>, Failure> {
    let mut all = BTreeMap::new();
    for event in events {
        let told = event.trace_logging().map_err(|error| Failure::new(format!("{error}: {event:?}")))?;
        ensure_eq!((told.provider.as_str(), event.provider), (PROVIDER, provider()), "provider");
        let component = component_of(event).ok_or_else(|| Failure::new(format!("an event of nobody: {event:?}")))?;
        let number = |name: &str| told.number(name).ok_or_else(|| Failure::new(format!("an event without {name}")));
        ensure!(
            all.insert((number("adapter")?, component as u8, number("sequence")?), told).is_none(),
            "two events have one number"
        );
    }
    Ok(all)
}

fn etw_has_the_rings(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let providers = case.system.machine().etw_providers(case.system.driver());
    let providers = providers.map_err(|error| Failure::new(error.to_string()))?;
    let traits = [&29_u16.to_le_bytes()[..], PROVIDER.as_bytes(), &[0]].concat();
    // One for each GPU, which has rings of its own.
    let expected = vec![(provider(), traits); case.system.engines() as usize];
    ensure_eq!(providers, expected, "providers");
    session(case.system, Some(EtwSession { level: 0, keywords: 0 }))?;
    work(&rig)?;
    session(case.system, None)?;
    let written = by_number(&events(case.system)?)?;
    let information = information(case.system, 64 << 10)?;
    let mut same = BTreeMap::new();
    for component in Component::ALL.into_iter().skip(1) {
        for event in information.ring(component).iter().flat_map(|ring| &ring.events) {
            let Some(told) = written.get(&(information.adapter, component as u8, event.number)) else { continue };
            let fields: Vec<_> = event.fields.iter().map(|field| (field.name, Some(field.value))).collect();
            let told_fields: Vec<_> =
                told.fields.iter().skip(3).map(|field| (field.name.as_str(), told.number(&field.name))).collect();
            ensure_eq!((told.name.as_str(), told_fields), (event.event.as_str(), fields), "the same event");
            ensure_eq!(told.number("irql"), Some(event.irql.into()), "its level");
            *same.entry(event.event.as_str()).or_insert(0) += 1;
        }
    }
    for name in ["QueueCreated", "DoorbellCreated", "DoorbellConnected", "FenceCreated", "AllocationCreated", "Refused"]
    {
        ensure!(same.contains_key(name), "{name} is not in both of rings and ETW: {same:?}");
    }
    Ok(())
}

fn etw_keeps_to_the_session(case: &mut Case<'_>) -> Result<(), Failure> {
    const WARNING: u8 = 3;
    let rig = case.rig()?;
    let of = |wanted| {
        session(case.system, Some(wanted))?;
        work(&rig)?;
        session(case.system, None)?;
        events(case.system)
    };
    let warnings = of(EtwSession { level: WARNING, keywords: 0 })?;
    ensure!(!warnings.is_empty() && warnings.iter().all(|event| event.descriptor.Level <= WARNING), "{warnings:?}");
    let fences = of(EtwSession { level: 5, keywords: Component::Fence.keyword() })?;
    ensure!(
        !fences.is_empty() && fences.iter().all(|event| component_of(event) == Some(Component::Fence)),
        "{fences:?}"
    );
    let refusals = of(EtwSession { level: 0, keywords: KEYWORD_REFUSAL })?;
    let names: Vec<_> =
        refusals.iter().filter_map(|event| event.trace_logging().ok()).map(|event| event.name).collect();
    ensure_eq!(names, ["Refused"], "events of what was refused");
    work(&rig)?;
    ensure!(events(case.system)?.is_empty(), "events that nobody wants");
    Ok(())
}

fn windows_7_registration() -> SystemOptions {
    SystemOptions { registration: RegistrationRequests::Windows7, ..SystemOptions::default() }
}

/// The traced requests that were answered are `expected` for a driver image, which also tells them when the adapter is added anew; a linked driver is handed the
/// function and asks nobody.
fn answered(case: &mut Case<'_>, expected: u32) -> Result<(), Failure> {
    const BYTES: usize = 1 << 20;
    let information = information(case.system, BYTES)?;
    let answered: Vec<u64> = information
        .ring(Component::Driver)
        .into_iter()
        .flat_map(|ring| &ring.events)
        .filter(|event| event.event == "RegistrationAnswered")
        .flat_map(|event| event.fields.iter().map(|field| field.value))
        .collect();
    let expected = match DriverChoice::selected() {
        DriverChoice::Linked => Vec::new(),
        _ => vec![u64::from(expected)],
    };
    ensure_eq!(answered, expected, "requests that were answered");
    session(case.system, Some(EtwSession { level: 0, keywords: 0 }))?;
    let lines = |system: &System| {
        let log = system.machine().debug_log();
        log.iter().filter(|line| line.contains("campanile: registered by control request")).count()
    };
    let before = lines(case.system);
    case.system.remove()?;
    case.system.start()?;
    session(case.system, None)?;
    let mut told = Vec::new();
    for event in events(case.system)? {
        let event = event.trace_logging().map_err(|error| Failure::new(format!("{error}: {event:?}")))?;
        told.extend(event.number("request").filter(|_| event.name == "RegisteredBy"));
    }
    let expected = expected.repeat(case.system.engines() as usize);
    ensure_eq!(lines(case.system) - before, expected.len(), "lines for a debugger");
    ensure_eq!(told, expected, "requests that sessions are told");
    Ok(())
}

fn newer_request_goes_first(case: &mut Case<'_>) -> Result<(), Failure> {
    answered(case, IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8)
}

fn older_request_is_the_second(case: &mut Case<'_>) -> Result<(), Failure> {
    answered(case, IOCTL_VIDEO_DDI_FUNC_REGISTER)
}

fn logging_is_switched(case: &mut Case<'_>) -> Result<(), Failure> {
    const INFORMATION: u8 = 4;
    let rig = case.rig()?;
    let switch = |on| {
        let switched = case.system.machine().control_etw_logging(case.system.driver(), on, INFORMATION);
        switched.map_err(|error| Failure::new(error.to_string()))
    };
    work(&rig)?;
    ensure!(events(case.system)?.is_empty(), "events were logged before anybody asked");
    switch(true)?;
    work(&rig)?;
    switch(false)?;
    let logged = events(case.system)?;
    let mut names = Vec::new();
    for event in &logged {
        let [(0, bytes)] = &event.parts[..] else { return Err(Failure::new(format!("{event:?}"))) };
        ensure!(event.logged && event.provider == provider() && bytes.len() == TraceEntry::SIZE, "{event:?}");
        let mut words = [0; TraceEntry::WORDS];
        words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        let read = from_words(&words).ok_or_else(|| Failure::new(format!("an incomplete entry: {event:?}")))?;
        let info = EventInfo::of(read.event).ok_or_else(|| Failure::new(format!("an unknown event: {event:?}")))?;
        ensure!(info.level as u8 <= INFORMATION && info.id == u16::from(event.descriptor.Opcode), "{info:?}");
        names.push(info.name);
    }
    for name in ["QueueCreated", "DoorbellConnected", "Refused"] {
        ensure!(names.contains(&name), "{name} was not logged: {names:?}");
    }
    work(&rig)?;
    ensure!(events(case.system)?.is_empty(), "events were logged after they were switched off");
    Ok(())
}
