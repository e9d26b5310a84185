"use strict";

// Commands for WinDbg that show what the kernel-mode driver campanile_kmd knows: in a live session or in a dump, by the types and
// statics of its PDB. They only read memory, never the device.
//
//   .scriptload campanile.js
//   !campanile.adapter     adapters: the device, what was negotiated, engines, how many objects there are, what was refused
//   !campanile.queues      hardware queues: whose, how far, suspended or faulted, connected or not
//   !campanile.dispatches  programs that were in progress at the last timeout: program counter, lanes, line of the source
//   !campanile.fences      native fences and where they are open
//   !campanile.doorbells   doorbell pages and who has them
//   !campanile.trace       what the driver did last, oldest first
//   !campanile.why         what keeps work from going on, as far as the driver knows
//
// Written for the JavaScript of the debugger: no syntax younger than ECMAScript 2015. Nobody has run it in WinDbg yet; on Linux
// `node debug/linux.js IMAGE '!campanile.queues'` runs it on memory images of the same driver.

/// If the debugger does not take aliases with a dot, set this to "_".
const SEPARATOR = ".";

const MODULE = "campanile_kmd";
const OWN = "campanile_kmd::";

/// As in driver/src/handle.rs.
const KINDS = [
    null, "adapter", "process", "device", "context", "hardware context", "hardware queue", "doorbell", "fence", "open fence",
    "allocation", "open allocation",
];
const KIND = { process: 2, device: 3, context: 4, hwContext: 5, hwQueue: 6, doorbell: 7, fence: 8, openFence: 9 };
const TYPES = {
    2: "adapter::Process", 3: "adapter::UserDevice", 4: "queue::context::Context", 5: "queue::context::HwContext",
    6: "queue::hw_queue::HwQueue", 7: "queue::doorbell::Doorbell", 8: "fence::object::NativeFence", 9: "fence::object::OpenFence",
};
/// Fields of an event whose kind is not a plain number: bytes, and how they are shown.
const FIELD = {
    u64: 8, hex64: 8, u32: 4, hex32: 4, status: 4, u16: 2, reason: 2, ddi: 2, u8: 1,
};
/// Events that `!campanile.trace` shows.
const TRACED = 100;
const ADAPTERS = 1024;
const CHUNKS = 1024;
const CHUNK = 1024;

// BEGIN: written by `cargo xtask docs` from hw/src/trace
const COMPONENTS = [
    "driver",
    "adapter",
    "queue",
    "fence",
    "interrupt",
    "memory",
    "reset",
];
const REASONS = [
    "NullPointer",
    "StaleHandle",
    "NotStarted",
    "NotRunning",
    "NoMemory",
    "TableFull",
    "SystemService",
    "WrongHardware",
    "DeviceDead",
    "CommandRefused",
    "SchedulerFull",
    "NoSuchNode",
    "BufferTooSmall",
    "NotServed",
    "NotOffered",
    "PrivateData",
    "Size",
    "Placement",
    "Address",
    "FenceAddress",
    "NoPagingRoot",
    "FenceStillOpen",
    "ProgressFence",
    "UserSubmission",
    "QueueKind",
    "DoorbellExists",
    "DoorbellStale",
    "Ring",
    "NoRing",
    "QueueLost",
    "LogBuffer",
    "ContextFlags",
    "Priority",
    "PowerState",
    "AperturePage",
    "RootPageTable",
    "Packet",
    "TestCommand",
    "PagingOperation",
    "PagingBufferFull",
    "DeviceEvent",
    "EventsLost",
    "EngineStuck",
    "NoDisplay",
    "PeerMemory",
    "ContextRuns",
    "RingAddress",
];
const DDIS = [
    "DxgkDdiAddDevice",
    "DxgkDdiStartDevice",
    "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice",
    "DxgkDdiDispatchIoRequest",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiQueryDeviceDescriptor",
    "DxgkDdiSetPowerState",
    "DxgkDdiNotifyAcpiEvent",
    "DxgkDdiResetDevice",
    "DxgkDdiUnload",
    "DxgkDdiQueryInterface",
    "DxgkDdiControlEtwLogging",
    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiCreateDevice",
    "DxgkDdiCreateAllocation",
    "DxgkDdiDestroyAllocation",
    "DxgkDdiDescribeAllocation",
    "DxgkDdiGetStandardAllocationDriverData",
    "DxgkDdiAcquireSwizzlingRange",
    "DxgkDdiReleaseSwizzlingRange",
    "DxgkDdiPatch",
    "DxgkDdiSubmitCommand",
    "DxgkDdiPreemptCommand",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiSetPalette",
    "DxgkDdiSetPointerPosition",
    "DxgkDdiSetPointerShape",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout",
    "DxgkDdiEscape",
    "DxgkDdiCollectDbgInfo",
    "DxgkDdiQueryCurrentFence",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiRecommendFunctionalVidPn",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiSetVidPnSourceAddress",
    "DxgkDdiSetVidPnSourceVisibility",
    "DxgkDdiCommitVidPn",
    "DxgkDdiUpdateActiveVidPnPresentPath",
    "DxgkDdiRecommendMonitorModes",
    "DxgkDdiRecommendVidPnTopology",
    "DxgkDdiGetScanLine",
    "DxgkDdiStopCapture",
    "DxgkDdiControlInterrupt",
    "DxgkDdiCreateOverlay",
    "DxgkDdiDestroyDevice",
    "DxgkDdiOpenAllocation",
    "DxgkDdiCloseAllocation",
    "DxgkDdiRender",
    "DxgkDdiPresent",
    "DxgkDdiUpdateOverlay",
    "DxgkDdiFlipOverlay",
    "DxgkDdiDestroyOverlay",
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiLinkDevice",
    "DxgkDdiSetDisplayPrivateDriverFormat",
    "DxgkDdiDescribePageTable",
    "DxgkDdiUpdatePageTable",
    "DxgkDdiUpdatePageDirectory",
    "DxgkDdiMovePageDirectory",
    "DxgkDdiSubmitRender",
    "DxgkDdiCreateAllocation2",
    "DxgkDdiRenderKm",
    "Reserved",
    "DxgkDdiQueryVidPnHWCapability",
    "DxgkDdiSetPowerComponentFState",
    "DxgkDdiQueryDependentEngineGroup",
    "DxgkDdiQueryEngineStatus",
    "DxgkDdiResetEngine",
    "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
    "DxgkDdiSystemDisplayEnable",
    "DxgkDdiSystemDisplayWrite",
    "DxgkDdiCancelCommand",
    "DxgkDdiGetChildContainerId",
    "DxgkDdiPowerRuntimeControlRequest",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay",
    "DxgkDdiNotifySurpriseRemoval",
    "DxgkDdiGetNodeMetadata",
    "DxgkDdiSetPowerPState",
    "DxgkDdiControlInterrupt2",
    "DxgkDdiCheckMultiPlaneOverlaySupport",
    "DxgkDdiCalibrateGpuClock",
    "DxgkDdiFormatHistoryBuffer",
    "DxgkDdiRenderGdi",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiSetRootPageTable",
    "DxgkDdiGetRootPageTableSize",
    "DxgkDdiMapCpuHostAperture",
    "DxgkDdiUnmapCpuHostAperture",
    "DxgkDdiCheckMultiPlaneOverlaySupport2",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2",
    "Reserved1",
    "Reserved2",
    "DxgkDdiPowerRuntimeSetDeviceHandle",
    "DxgkDdiSetStablePowerState",
    "DxgkDdiSetVideoProtectedRegion",
    "DxgkDdiCheckMultiPlaneOverlaySupport3",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3",
    "DxgkDdiPostMultiPlaneOverlayPresent",
    "DxgkDdiValidateUpdateAllocationProperty",
    "DxgkDdiControlModeBehavior",
    "DxgkDdiUpdateMonitorLinkInfo",
    "DxgkDdiCreateHwContext",
    "DxgkDdiDestroyHwContext",
    "DxgkDdiCreateHwQueue",
    "DxgkDdiDestroyHwQueue",
    "DxgkDdiSubmitCommandToHwQueue",
    "DxgkDdiSwitchToHwContextList",
    "DxgkDdiResetHwEngine",
    "DxgkDdiCreatePeriodicFrameNotification",
    "DxgkDdiDestroyPeriodicFrameNotification",
    "DxgkDdiSetTimingsFromVidPn",
    "DxgkDdiSetTargetGamma",
    "DxgkDdiSetTargetContentType",
    "DxgkDdiSetTargetAnalogCopyProtection",
    "DxgkDdiSetTargetAdjustedColorimetry",
    "DxgkDdiDisplayDetectControl",
    "DxgkDdiQueryConnectionChange",
    "DxgkDdiExchangePreStartInfo",
    "DxgkDdiGetMultiPlaneOverlayCaps",
    "DxgkDdiGetPostCompositionCaps",
    "DxgkDdiUpdateHwContextState",
    "DxgkDdiCreateProtectedSession",
    "DxgkDdiDestroyProtectedSession",
    "DxgkDdiSetSchedulingLogBuffer",
    "DxgkDdiSetupPriorityBands",
    "DxgkDdiNotifyFocusPresent",
    "DxgkDdiSetContextSchedulingProperties",
    "DxgkDdiSuspendContext",
    "DxgkDdiResumeContext",
    "DxgkDdiSetVirtualMachineData",
    "DxgkDdiBeginExclusiveAccess",
    "DxgkDdiEndExclusiveAccess",
    "DxgkDdiQueryDiagnosticTypesSupport",
    "DxgkDdiControlDiagnosticReporting",
    "DxgkDdiResumeHwEngine",
    "DxgkDdiSignalMonitoredFence",
    "DxgkDdiPresentToHwQueue",
    "DxgkDdiValidateSubmitCommand",
    "DxgkDdiSetTargetAdjustedColorimetry2",
    "DxgkDdiSetTrackedWorkloadPowerLevel",
    "DxgkDdiSaveMemoryForHotUpdate",
    "DxgkDdiRestoreMemoryForHotUpdate",
    "DxgkDdiCollectDiagnosticInfo",
    "Reserved3",
    "DxgkDdiControlInterrupt3",
    "DxgkDdiSetFlipQueueLogBuffer",
    "DxgkDdiUpdateFlipQueueLog",
    "DxgkDdiCancelQueuedFlips",
    "DxgkDdiSetInterruptTargetPresentId",
    "DxgkDdiSetAllocationBackingStore",
    "DxgkDdiCreateCpuEvent",
    "DxgkDdiDestroyCpuEvent",
    "DxgkDdiCancelFlips",
    "DxgkDdiCreateNativeFence",
    "DxgkDdiDestroyNativeFence",
    "DxgkDdiUpdateMonitoredValues",
    "DxgkDdiUpdateCurrentValuesFromCpu",
    "DxgkDdiCreateDoorbell",
    "DxgkDdiConnectDoorbell",
    "DxgkDdiDisconnectDoorbell",
    "DxgkDdiDestroyDoorbell",
    "DxgkDdiNotifyWorkSubmission",
    "Reserved4",
    "DxgkDdiCreateMemoryBasis",
    "DxgkDdiDestroyMemoryBasis",
    "DxgkDdiStartDirtyTracking",
    "DxgkDdiStopDirtyTracking",
    "DxgkDdiQueryDirtyBitData",
    "DxgkDdiPrepareLiveMigration",
    "DxgkDdiSaveImmutableMigrationData",
    "DxgkDdiSaveMutableMigrationData",
    "DxgkDdiEndLiveMigration",
    "DxgkDdiRestoreImmutableMigrationData",
    "DxgkDdiRestoreMutableMigrationData",
    "DxgkDdiWriteVirtualizedInterrupt",
    "DxgkDdiSetVirtualGpuResources2",
    "DxgkDdiSetVirtualFunctionPauseState",
    "DxgkDdiOpenNativeFence",
    "DxgkDdiCloseNativeFence",
    "DxgkDdiSetNativeFenceLogBuffer",
    "DxgkDdiUpdateNativeFenceLogs",
    "DxgkDdiCollectDbgInfo2",
    "DxgkDdiNotifyContextPriorityChange",
    "DxgkDdiResetDisplayEngine",
    "DxgkDdiQueryFeatureSupport",
    "DxgkDdiQueryFeatureInterface",
    "DxgkDdiBuildTestCommandBuffer",
];
const EVENTS = {
    1: { name: "Refused", fields: [["object", "hex64"], ["status", "status"], ["reason", "reason"], ["ddi", "ddi"]] },
    2: { name: "PassedOver", fields: [["object", "hex64"], ["reason", "reason"]] },
    8: { name: "Loaded", fields: [["interface", "hex32"]] },
    9: { name: "Unloaded", fields: [] },
    10: { name: "AdapterAdded", fields: [["adapter", "hex64"]] },
    11: { name: "AdapterRemoved", fields: [["adapter", "hex64"]] },
    12: { name: "LoggingSwitched", fields: [["flags", "hex32"], ["enabled", "u8"], ["level", "u8"]] },
    13: { name: "RegistrationAnswered", fields: [["request", "hex32"]] },
    16: { name: "Started", fields: [["vram", "u64"], ["caps", "hex64"], ["doorbells", "u32"], ["queues", "u32"]] },
    17: { name: "Stopped", fields: [] },
    18: { name: "PowerState", fields: [["state", "u32"]] },
    19: { name: "PowerStateReached", fields: [["state", "u32"], ["running", "u8"]] },
    20: { name: "ComponentState", fields: [["component", "u32"], ["state", "u32"]] },
    21: { name: "SurpriseRemoved", fields: [] },
    22: { name: "Halted", fields: [] },
    23: { name: "RegisteredBy", fields: [["request", "hex32"]] },
    32: { name: "ContextCreated", fields: [["context", "hex64"], ["process", "hex64"], ["node", "u32"]] },
    33: { name: "HwContextCreated", fields: [["context", "hex64"], ["process", "hex64"], ["node", "u32"]] },
    34: { name: "ContextDestroyed", fields: [["context", "hex64"]] },
    35: { name: "QueueCreated", fields: [["queue", "hex64"], ["context", "hex64"], ["number", "u32"], ["node", "u16"], ["user", "u8"]] },
    36: { name: "QueueDestroyed", fields: [["queue", "hex64"], ["number", "u32"]] },
    37: { name: "QueueMapped", fields: [["number", "u32"], ["node", "u32"]] },
    38: { name: "QueueUnmapped", fields: [["number", "u32"], ["node", "u32"]] },
    39: { name: "DoorbellCreated", fields: [["doorbell", "hex64"], ["ring", "hex64"], ["number", "u32"], ["entries", "u32"]] },
    40: { name: "DoorbellDestroyed", fields: [["doorbell", "hex64"]] },
    41: { name: "DoorbellConnected", fields: [["doorbell", "hex64"], ["number", "u32"], ["page", "u32"]] },
    42: { name: "DoorbellDisconnected", fields: [["doorbell", "hex64"], ["number", "u32"], ["page", "u32"]] },
    43: { name: "DoorbellVictim", fields: [["doorbell", "hex64"], ["number", "u32"], ["page", "u32"]] },
    44: { name: "WorkNotified", fields: [["number", "u32"]] },
    45: { name: "QueueSubmitted", fields: [["fence", "u64"], ["commands", "hex64"], ["number", "u32"], ["size", "u32"]] },
    46: { name: "PacketSubmitted", fields: [["commands", "hex64"], ["fence", "u32"], ["size", "u32"], ["node", "u32"]] },
    47: { name: "PreemptionRequested", fields: [["fence", "u32"], ["node", "u32"]] },
    48: { name: "ContextSuspended", fields: [["context", "hex64"], ["fence", "u64"]] },
    49: { name: "ContextResumed", fields: [["context", "hex64"]] },
    64: { name: "FenceCreated", fields: [["fence", "hex64"], ["system", "hex64"]] },
    65: { name: "FenceDestroyed", fields: [["fence", "hex64"]] },
    66: { name: "FenceOpened", fields: [["open", "hex64"], ["process", "hex64"], ["current", "hex64"]] },
    67: { name: "FenceClosed", fields: [["open", "hex64"]] },
    68: { name: "MonitoredValue", fields: [["fence", "hex64"], ["value", "u64"]] },
    69: { name: "CurrentValue", fields: [["fence", "hex64"], ["value", "u64"]] },
    70: { name: "LogSet", fields: [["buffer", "hex64"], ["number", "u32"], ["entries", "u32"], ["kind", "u8"]] },
    80: { name: "DeviceEvent", fields: [["data0", "hex64"], ["data1", "hex64"], ["queue", "u32"], ["kind", "u16"], ["node", "u8"]] },
    81: { name: "EventsCollapsed", fields: [] },
    82: { name: "PacketCompleted", fields: [["fence", "u32"], ["node", "u32"]] },
    83: { name: "FencesSignaled", fields: [["node", "u32"], ["fences", "u32"]] },
    84: { name: "MonitoredFenceSignaled", fields: [["node", "u32"]] },
    85: { name: "Fault", fields: [["address", "hex64"], ["info", "hex64"], ["fence", "u64"]] },
    86: { name: "Preempted", fields: [["node", "u32"], ["fence", "u32"]] },
    87: { name: "Dpc", fields: [] },
    96: { name: "ProcessCreated", fields: [["process", "hex64"], ["system", "hex64"]] },
    97: { name: "ProcessDestroyed", fields: [["process", "hex64"]] },
    98: { name: "AllocationCreated", fields: [["allocation", "hex64"], ["size", "u64"], ["placement", "u32"]] },
    99: { name: "AllocationDestroyed", fields: [["allocation", "hex64"]] },
    100: { name: "AllocationOpened", fields: [["open", "hex64"], ["size", "u64"]] },
    101: { name: "AllocationClosed", fields: [["open", "hex64"]] },
    102: { name: "Paging", fields: [["operation", "u32"], ["bytes", "u32"], ["more", "u8"]] },
    103: { name: "RootPageTableSet", fields: [["context", "hex64"], ["location", "hex64"]] },
    112: { name: "EngineQueried", fields: [["node", "u32"], ["responsive", "u8"]] },
    113: { name: "EngineReset", fields: [["node", "u32"], ["aborted", "u32"]] },
    114: { name: "HwEngineReset", fields: [["node", "u32"], ["queue", "u32"]] },
    115: { name: "HwEngineResumed", fields: [["node", "u32"]] },
    116: { name: "AdapterReset", fields: [] },
    117: { name: "AdapterRestarted", fields: [] },
    118: { name: "InformationCollected", fields: [["code", "hex32"], ["bytes", "u32"]] },
};
// END

// --- Values ------------------------------------------------------------------------------------------------------------------

function print(line) {
    host.diagnostics.debugLog(line + "\n");
}

/// A number that fits into 53 bits, whatever the debugger made of it.
function number(value) {
    return typeof value === "number" ? value : typeof value === "boolean" ? Number(value) : value.asNumber();
}

function hex(value) {
    const text = value.toString(16);
    return text.substring(0, 2) === "0x" ? text : "0x" + text;
}

function isZero(value) {
    return hex(value) === "0x0" || /^0x0+$/.test(hex(value));
}

function same(one, other) {
    const bare = (value) => hex(value).replace(/`/g, "").replace(/^0x0*/, "0x");
    return bare(one) === bare(other);
}

function typed(address, name) {
    return host.createTypedObject(address, MODULE, OWN + name);
}

/// What an AtomicU32, AtomicU64 or AtomicBool holds.
function atomic(cell) {
    return cell.v.value;
}

function flag(cell) {
    return number(atomic(cell)) !== 0;
}

/// The content of an Option, or null.
function some(option) {
    return isZero(option.tag) ? null : option.variant1.value.__0;
}

/// What a lock guards.
function inside(lock) {
    return lock.data.value;
}

/// The items of a PoolVec, each given as `read` gives the item at an address.
function items(vector, size, read) {
    const list = [];
    const count = number(vector.len);
    const first = vector.items.pointer.address;
    for (let index = 0; index < count; index++) {
        list.push(read(first.add(index * size)));
    }
    return list;
}

// --- Handles and objects -------------------------------------------------------------------------------------------------------

/// The fields of a handle of the driver.
function handleOf(bits) {
    return {
        bits: bits,
        kind: number(bits.bitwiseAnd(0xf)),
        slot: number(bits.bitwiseShiftRight(4).bitwiseAnd(0xfffff)),
        generation: number(bits.bitwiseShiftRight(24).bitwiseAnd(0xffffff)),
    };
}

/// The bits of a Handle as an object of the debugger.
function bitsOf(handle) {
    return handle.__0;
}

function showHandle(bits) {
    const handle = handleOf(bits);
    const kind = KINDS[handle.kind];
    return isZero(bits) ? "none" : (kind ? kind + " " : "") + "#" + handle.slot;
}

/// All adapters, each with its object.
function adapters() {
    const found = [];
    const base = host.getModuleSymbolAddress(MODULE, OWN + "adapter::slots::ADAPTER_SLOTS");
    const size = number(typed(base, "adapter::slots::AdapterSlot").targetSize);
    for (let index = 0; index < ADAPTERS; index++) {
        const slot = typed(base.add(index * size), "adapter::slots::AdapterSlot");
        const address = slot.adapter.p.value.address;
        if ((number(atomic(slot.state)) & 1) !== 0 && !isZero(address)) {
            found.push({ index: index, address: address, object: typed(address, "adapter::Adapter") });
        }
    }
    return found;
}

/// The started device of an adapter, or null.
function gpuOf(adapter) {
    const address = adapter.object.gpu.p.value.address;
    return isZero(address) ? null : typed(address, "gpu::Gpu");
}

/// Calls `each` with slot number, kind and address of every object of an adapter.
function eachObject(adapter, each) {
    const chunks = adapter.object.objects.chunks.items.pointer.address;
    for (let chunk = 0; chunk < CHUNKS; chunk++) {
        const first = host.memory.readMemoryValues(chunks.add(8 * chunk), 1, 8)[0];
        if (isZero(first)) {
            break;
        }
        const size = number(typed(first, "handle::Slot").targetSize);
        for (let index = 0; index < CHUNK; index++) {
            const slot = typed(first.add(index * size), "handle::Slot");
            const kind = number(atomic(slot.state).bitwiseAnd(0xff));
            if (kind !== 0) {
                each(chunk * CHUNK + index, kind, slot.object.p.value.address);
            }
        }
    }
}

/// The objects of one kind: slot number and object.
function objects(adapter, kind) {
    const list = [];
    eachObject(adapter, function (slot, found, address) {
        if (found === kind) {
            list.push({ slot: slot, address: address, object: typed(address, TYPES[kind]) });
        }
    });
    return list;
}

function nodesOf(gpu) {
    const size = number(typed(gpu.nodes.items.pointer.address, "node::packet::Node").targetSize);
    return items(gpu.nodes, size, (address) => typed(address, "node::packet::Node"));
}

/// The connections of an adapter's doorbell pages; null for a page that is free.
function connectionsOf(gpu) {
    const connections = inside(gpu.doorbells.pages).connections;
    const name = "enum2$<core::option::Option<" + OWN + "doorbells::Connection> >";
    if (number(connections.len) === 0) {
        return [];
    }
    const at = (address) => host.createTypedObject(address, MODULE, name);
    const size = number(at(connections.items.pointer.address).targetSize);
    return items(connections, size, (address) => some(at(address)));
}

// --- What there is to say ------------------------------------------------------------------------------------------------------

/// What is known of a hardware queue.
function queueOf(adapter, entry) {
    const queue = entry.object;
    const state = inside(queue.state);
    const saved = number(state.saved.tag);
    const fault = some(inside(queue.unreported_fault));
    const doorbell = atomic(queue.doorbell);
    const gpu = gpuOf(adapter);
    let page = null;
    (gpu ? connectionsOf(gpu) : []).forEach(function (connection, index) {
        if (connection && same(bitsOf(connection.doorbell), doorbell)) {
            page = index;
        }
    });
    const contexts = objects(adapter, KIND.hwContext);
    const context = contexts.filter((context) => context.slot === handleOf(bitsOf(queue.context)).slot)[0];
    return {
        slot: entry.slot,
        number: number(queue.number),
        node: number(queue.node),
        user: number(queue.user) !== 0,
        test: number(queue.test) !== 0,
        dxgk: queue.dxgk,
        process: bitsOf(queue.process),
        progress: queue.progress.current,
        mapped: number(state.mapped) !== 0,
        lost: saved === 2,
        saved: saved === 1,
        ring: some(state.user),
        written: state.written,
        waiting: number(atomic(queue.waiting)),
        suspending: !isZero(atomic(queue.suspending)),
        suspended: context ? flag(context.object.properties.suspended) : false,
        fault: fault,
        doorbell: doorbell,
        page: page,
        global: gpu ? number(gpu.doorbells.global) !== 0 : false,
    };
}

function queueState(queue) {
    const words = [];
    if (queue.lost) words.push("lost in D3");
    else if (queue.saved) words.push("saved for D0");
    else if (!queue.mapped) words.push("not on the hardware");
    if (queue.suspending) words.push("suspension unanswered");
    if (queue.suspended) words.push("context suspended");
    if (queue.fault) words.push("faulted, not reported yet");
    if (queue.waiting !== 0) words.push(queue.waiting + " submissions wait for a free ring entry");
    return words.length === 0 ? "runs" : words.join(", ");
}

function doorbellState(queue) {
    if (!queue.user) return "written by the kernel";
    if (isZero(queue.doorbell)) return "no doorbell";
    if (queue.global) return "the doorbell of all queues";
    return queue.page === null ? "doorbell disconnected" : "doorbell page " + queue.page;
}

function showAdapter() {
    const found = adapters();
    if (found.length === 0) print("no adapter");
    found.forEach(function (adapter) {
        const gpu = gpuOf(adapter);
        print("adapter " + adapter.index + " at " + hex(adapter.address) + ": " + adapterState(gpu));
        if (gpu) {
            const hardware = gpu.hardware;
            print("  VRAM " + hex(hardware.vram_size) + ", window " + hex(hardware.vram_window) + ", doorbell pages " +
                number(hardware.doorbells) + ", queues at most " + number(hardware.queue_limit));
            const claims = gpu.claims;
            const names = ["context_scheduling", "native_fence", "user_mode_submission", "test_commands",
                "optimised_fence_interrupt", "local_monitored_values", "intra_gpu_fences"];
            print("  claimed: " + (names.filter((name) => number(claims[name]) !== 0).join(", ") || "nothing"));
            nodesOf(gpu).forEach(function (node) {
                print("  engine " + number(node.ordinal) + ": packet " + number(atomic(node.last_completed)) + " of " +
                    number(atomic(node.last_submitted)) + " complete" + (flag(node.muted) ? ", silent until it is resumed" : ""));
            });
        }
        const trace = traceOf(adapter);
        print("  refused: " + (counted(trace.refused) || "nothing") + "; passed over: " + (counted(trace.passed_over) || "nothing"));
        const counts = {};
        eachObject(adapter, function (slot, kind) {
            counts[kind] = (counts[kind] || 0) + 1;
        });
        print("  objects: " + (Object.keys(counts).map((kind) => counts[kind] + " " + KINDS[kind]).join(", ") || "none"));
    });
}

function adapterState(gpu) {
    if (!gpu) return "not started";
    if (!flag(gpu.started)) return "stopped";
    return flag(gpu.running) ? "runs" : "not in D0, or being reset";
}

function showQueues() {
    adapters().forEach(function (adapter) {
        const list = objects(adapter, KIND.hwQueue);
        print("adapter " + adapter.index + ": " + list.length + " hardware queues");
        list.forEach(function (entry) {
            const queue = queueOf(adapter, entry);
            print("  queue " + queue.number + " on node " + queue.node + (queue.user ? ", user mode" : ", kernel mode") +
                (queue.test ? ", for tests" : "") + ": " + queueState(queue) + "; " + doorbellState(queue));
            print("    system handle " + hex(queue.dxgk) + ", " + showHandle(queue.process) + ", progress fence at " +
                hex(queue.progress) + (queue.ring ? ", ring at " + hex(queue.ring.ring) + " of " + number(queue.ring.entries) +
                " entries, control page at " + hex(queue.ring.control) : ", " + hex(queue.written) + " entries written"));
        });
    });
}

/// The halves of a word.
function pair(word) {
    return [number(word.bitwiseAnd(0xffffffff)), number(word.bitwiseShiftRight(32))];
}

/// What the last timeout found of each engine's dispatches; the words are those of Section::Dispatches in hw/src/debug.rs.
function showDispatches() {
    adapters().forEach(function (adapter) {
        const gpu = gpuOf(adapter);
        const count = gpu ? number(atomic(gpu.dispatches.count)) : 0;
        print("adapter " + adapter.index + ": " + count + " dispatches in progress at the last timeout");
        for (let at = 0; at < count; at++) {
            const kept = gpu.dispatches.words[at];
            const word = (index) => atomic(kept[index]);
            const queue = pair(word(1));
            const place = pair(word(4));
            const lanes = pair(word(5));
            print("  queue " + queue[0] + " on node " + (queue[1] & 0xff) + ((queue[1] & 0x100) !== 0 ? ", in its save area" : ", on its node") +
                ": program at " + hex(word(6)) + ", " + number(word(9)) + " workgroups done, " + number(word(10)) + " instructions");
            if ((queue[1] & 0x200) !== 0) {
                const xy = pair(word(2));
                const z = pair(word(3));
                print("    workgroup (" + xy[0] + ", " + xy[1] + ", " + z[0] + "), subgroup " + z[1] + ", instruction " + place[0] +
                    (place[1] !== 0 ? ", line " + place[1] : "") + ", lanes " + hex(lanes[0]) + " of " + hex(lanes[1]) + ", code " +
                    hex(word(7)) + " " + hex(word(8)));
            }
        }
    });
}

function showFences() {
    adapters().forEach(function (adapter) {
        const fences = objects(adapter, KIND.fence);
        const open = objects(adapter, KIND.openFence);
        print("adapter " + adapter.index + ": " + fences.length + " native fences");
        fences.forEach(function (entry) {
            const fence = entry.object;
            print("  fence #" + entry.slot + ": system handle " + hex(fence.dxgk) +
                (flag(fence.always_signaled) ? ", signalled for good: its device is in error" : ""));
            open.filter((place) => handleOf(bitsOf(place.object.fence)).slot === entry.slot).forEach(function (place) {
                print("    open in " + showHandle(bitsOf(place.object.process)) + ": current value at " +
                    hex(place.object.at.current) + ", monitored value at " + hex(place.object.at.monitored));
            });
        });
    });
}

function showDoorbells() {
    adapters().forEach(function (adapter) {
        const gpu = gpuOf(adapter);
        if (!gpu) return;
        if (number(gpu.doorbells.global) !== 0) {
            print("adapter " + adapter.index + ": one doorbell for all queues");
            return;
        }
        const pages = connectionsOf(gpu);
        const busy = pages.filter((connection) => connection !== null);
        print("adapter " + adapter.index + ": " + busy.length + " of " + pages.length + " doorbell pages lent, " +
            objects(adapter, KIND.doorbell).length + " doorbells");
        pages.forEach(function (connection, page) {
            if (connection) {
                print("  page " + page + ": queue " + number(connection.queue_number) + ", " +
                    showHandle(bitsOf(connection.doorbell)) + ", connected as number " + number(connection.stamp));
            }
        });
    });
}

/// One line for each thing that keeps work from going on.
function reasons() {
    const lines = [];
    adapters().forEach(function (adapter) {
        const say = (text) => lines.push("adapter " + adapter.index + ": " + text);
        const gpu = gpuOf(adapter);
        if (!gpu || !flag(gpu.running)) {
            say("the device " + (gpu ? adapterState(gpu) : "is not started") + ": nothing runs, and work that is queued stays queued");
        }
        (gpu ? nodesOf(gpu) : []).forEach(function (node) {
            const ordinal = number(node.ordinal);
            const done = number(atomic(node.last_completed));
            const asked = number(atomic(node.last_submitted));
            if (flag(node.muted)) say("engine " + ordinal + " is being reset: its reports are dropped until it is resumed");
            if (done !== asked) say("engine " + ordinal + " has not completed packet " + ((done + 1) >>> 0) + " of " + asked);
            if (number(atomic(gpu.fstates[ordinal])) !== 0) say("engine " + ordinal + " is in F1: its doorbells are not polled");
        });
        objects(adapter, KIND.hwQueue).forEach(function (entry) {
            const queue = queueOf(adapter, entry);
            const name = "queue " + queue.number + " on node " + queue.node;
            const state = queueState(queue);
            if (state !== "runs") say(name + ": " + state);
            if (queue.user && !queue.global && queue.page === null) {
                say(name + ": " + doorbellState(queue) + "; user mode rings in vain until it connects again");
            }
        });
        objects(adapter, KIND.fence).forEach(function (entry) {
            if (flag(entry.object.always_signaled)) say("fence #" + entry.slot + " satisfies every wait: its device is in error");
        });
    });
    return lines;
}

function showWhy() {
    const lines = reasons();
    lines.forEach(print);
    if (lines.length === 0) {
        print("the driver knows of nothing that holds work up; a queue may still wait for a fence: see !campanile" + SEPARATOR + "queues");
    }
}

// --- The trace -----------------------------------------------------------------------------------------------------------------

function traceOf(adapter) {
    return typed(adapter.object.trace.value.pointer.address, "trace::AdapterTrace");
}

/// Counters by reason that are not 0.
function counted(counters) {
    return REASONS.map((name, reason) => [name, number(atomic(counters[reason]))]).filter((pair) => pair[1] !== 0)
        .map((pair) => pair[0] + " " + pair[1]).join(", ");
}

/// The complete events of a ring, as far as they are still in it.
function eventsOf(ring) {
    const header = ring.header;
    const capacity = number(header.capacity);
    const words = number(header.entry_size) / 8;
    const written = number(atomic(header.written));
    const frequency = number(atomic(header.frequency));
    const all = host.memory.readMemoryValues(ring.entries[0].sequence.targetLocation.address, capacity * words, 8);
    const events = [];
    for (let event = Math.max(0, written - capacity); event < written; event++) {
        const at = (event % capacity) * words;
        // Anything else is an event that was being written, or the one that it replaces.
        if (same(all[at], 2 * (event + 1))) {
            const about = all[at + 2];
            events.push({
                component: number(header.component),
                number: event,
                time: all[at + 1],
                frequency: frequency,
                kind: number(about.bitwiseAnd(0xffff)),
                irql: number(about.bitwiseShiftRight(16).bitwiseAnd(0xff)),
                processor: number(about.bitwiseShiftRight(32)),
                words: [all[at + 3], all[at + 4], all[at + 5]],
            });
        }
    }
    return events;
}

/// The fields of an event, as text.
function fieldsOf(event, kind) {
    let at = 0;
    return kind.fields.map(function (field) {
        const size = FIELD[field[1]];
        let value = event.words[at >> 3].bitwiseShiftRight(8 * (at & 7));
        at += size;
        if (size < 8) value = value.bitwiseAnd(size === 4 ? 0xffffffff : size === 2 ? 0xffff : 0xff);
        return field[0] + " " + show(value, field[1]);
    }).join(", ");
}

function show(value, kind) {
    if (kind === "reason") return REASONS[number(value)] || "#" + number(value);
    if (kind === "ddi") return DDIS[number(value)] || "#" + number(value);
    return kind === "hex64" || kind === "hex32" || kind === "status" ? hex(value) : value.toString(10);
}

function showTrace() {
    adapters().forEach(function (adapter) {
        const trace = traceOf(adapter);
        let events = [];
        let dropped = 0;
        for (let ring = 0; ring < COMPONENTS.length - 1; ring++) {
            events = events.concat(eventsOf(trace.rings[ring]));
            dropped += number(atomic(trace.rings[ring].header.dropped));
        }
        events.sort((one, other) => one.time.compareTo(other.time) || one.component - other.component || one.number - other.number);
        const shown = events.slice(-TRACED);
        print("adapter " + adapter.index + ": the last " + shown.length + " of " + events.length + " events in its rings" +
            (dropped === 0 ? "" : ", " + dropped + " lost") + "; microseconds before the last");
        shown.forEach(function (event) {
            const last = shown[shown.length - 1];
            const before = number(last.time.subtract(event.time)) * 1e6 / event.frequency;
            const kind = EVENTS[event.kind] || { name: "event " + event.kind, fields: [] };
            print("  " + before.toFixed(1) + " " + COMPONENTS[event.component] + " #" + event.number + " " + kind.name +
                (kind.fields.length === 0 ? "" : ": " + fieldsOf(event, kind)) + " (level " + event.irql + ", processor " +
                event.processor + ")");
        });
    });
}

function initializeScript() {
    const alias = (run, name) => new host.functionAlias(run, "campanile" + SEPARATOR + name);
    return [
        new host.apiVersionSupport(1, 3),
        alias(showAdapter, "adapter"),
        alias(showQueues, "queues"),
        alias(showDispatches, "dispatches"),
        alias(showFences, "fences"),
        alias(showDoorbells, "doorbells"),
        alias(showTrace, "trace"),
        alias(showWhy, "why"),
    ];
}
