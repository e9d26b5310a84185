"use strict";

// Commands for WinDbg that show what the kernel-mode driver campanile_kmd knows: in a live session or in a dump, by the types and
// statics of its PDB. They only read memory, never the device.
//
//   .scriptload campanile.js
//   !campanile.adapter     adapters: the device, what was negotiated, engines, how many objects there are, what was refused
//   !campanile.queues      hardware queues: whose, how far, suspended or faulted, connected or not
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
    2: "adapter::Process", 3: "queue::context::UserDevice", 4: "queue::context::Context", 5: "queue::context::HwContext",
    6: "queue::hw_queue::HwQueue", 7: "queue::doorbell::Doorbell", 8: "fence::native::NativeFence", 9: "fence::native::OpenFence",
};
const ADAPTERS = 1024;
const CHUNKS = 1024;
const CHUNK = 1024;

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
    const base = host.getModuleSymbolAddress(MODULE, OWN + "handle::ADAPTER_SLOTS");
    const size = number(typed(base, "handle::AdapterSlot").targetSize);
    for (let index = 0; index < ADAPTERS; index++) {
        const slot = typed(base.add(index * size), "handle::AdapterSlot");
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
    const size = number(typed(gpu.nodes.items.pointer.address, "queue::packet::Node").targetSize);
    return items(gpu.nodes, size, (address) => typed(address, "queue::packet::Node"));
}

/// The connections of an adapter's doorbell pages; null for a page that is free.
function connectionsOf(gpu) {
    const connections = inside(gpu.doorbells.pages).connections;
    const name = "enum2$<core::option::Option<" + OWN + "queue::doorbell::Connection> >";
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
    const kept = number(state.kept.tag);
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
        lost: kept === 2,
        saved: kept === 1,
        ring: some(state.user),
        written: state.written,
        waiting: number(atomic(queue.waiting)),
        suspending: !isZero(atomic(queue.suspending)),
        suspended: context ? flag(context.object.suspended) : false,
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
    if (queue.waiting !== 0) words.push(queue.waiting + " submissions wait for room");
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
            print("  queue " + queue.number + " on engine " + queue.node + (queue.user ? ", user mode" : ", kernel mode") +
                (queue.test ? ", for tests" : "") + ": " + queueState(queue) + "; " + doorbellState(queue));
            print("    system handle " + hex(queue.dxgk) + ", " + showHandle(queue.process) + ", progress fence at " +
                hex(queue.progress) + (queue.ring ? ", ring at " + hex(queue.ring.ring) + " of " + number(queue.ring.entries) +
                " entries, control page at " + hex(queue.ring.control) : ", " + hex(queue.written) + " entries written"));
        });
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
            const name = "queue " + queue.number + " on engine " + queue.node;
            const state = queueState(queue);
            if (state !== "runs") say(name + ": " + state);
            if (queue.user && !queue.global && queue.page === null) {
                say(name + ": " + doorbellState(queue) + "; user mode rings in vain until it connects again");
            }
        });
        objects(adapter, KIND.fence).forEach(function (entry) {
            if (flag(entry.object.always_signaled)) say("fence #" + entry.slot + " holds nobody: its device is in error");
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

function initializeScript() {
    const alias = (run, name) => new host.functionAlias(run, "campanile" + SEPARATOR + name);
    return [
        new host.apiVersionSupport(1, 3),
        alias(showAdapter, "adapter"),
        alias(showQueues, "queues"),
        alias(showFences, "fences"),
        alias(showDoorbells, "doorbells"),
        alias(showWhy, "why"),
    ];
}
