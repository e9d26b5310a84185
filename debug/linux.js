"use strict";

// Runs the commands of campanile.js on a memory image that `campanile run --driver pe --memory-image FILE` wrote: what WinDbg gives a
// script, as far as that script uses it.
//
//   node debug/linux.js FILE [COMMAND ...]
//
// Without a command it lists them. Exit codes: 0, 1 when a command fails, 2 for wrong arguments or a file that is no memory image.

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const VERSION = 1;
const SIZES = { u8: 1, i8: 1, bool: 1, u16: 2, i16: 2, u32: 4, i32: 4, char: 4, f32: 4, u64: 8, i64: 8, f64: 8 };

/// A 64-bit number, as the debugger hands it to scripts.
class Int64 {
    constructor(bits) {
        this.bits = BigInt.asUintN(64, BigInt(bits));
    }

    asNumber() {
        if (this.bits > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error(`0x${this.bits.toString(16)} does not fit into a number`);
        return Number(this.bits);
    }

    add(other) { return new Int64(this.bits + big(other)); }
    subtract(other) { return new Int64(this.bits - big(other)); }
    bitwiseAnd(other) { return new Int64(this.bits & big(other)); }
    bitwiseShiftRight(count) { return new Int64(this.bits >> big(count)); }
    compareTo(other) { return this.bits < big(other) ? -1 : this.bits > big(other) ? 1 : 0; }
    toString(radix) { return radix === 16 ? `0x${this.bits.toString(16)}` : this.bits.toString(radix); }
}

function big(value) {
    return value instanceof Int64 ? value.bits : BigInt.asUintN(64, BigInt(value));
}

/// The memory of an image.
class Memory {
    constructor(ranges) {
        this.ranges = ranges.map((range) => {
            const bytes = Buffer.alloc(range.size);
            bytes.write(range.bytes, "hex");
            return { start: BigInt(range.address), end: BigInt(range.address) + BigInt(range.size), bytes };
        });
    }

    read(address, size) {
        const at = this.ranges.find((range) => address >= range.start && address + BigInt(size) <= range.end);
        if (!at) throw new Error(`unable to read ${size} bytes of memory at 0x${address.toString(16)}`);
        const offset = Number(address - at.start);
        return at.bytes.subarray(offset, offset + size);
    }

    number(address, type) {
        const bytes = this.read(address, SIZES[type]);
        switch (type) {
            case "bool": case "u8": return bytes.readUInt8();
            case "i8": return bytes.readInt8();
            case "u16": return bytes.readUInt16LE();
            case "i16": return bytes.readInt16LE();
            case "u32": case "char": return bytes.readUInt32LE();
            case "i32": return bytes.readInt32LE();
            case "f32": return bytes.readFloatLE();
            case "f64": return bytes.readDoubleLE();
            default: return new Int64(bytes.readBigUInt64LE());
        }
    }
}

/// The debugger's side of a script.
class Debugger {
    constructor(image) {
        this.image = image;
        this.memory = new Memory(image.ranges);
        this.text = "";
    }

    size(type) {
        const array = /^\[(\d+)\]/.exec(type);
        if (array) return Number(array[1]) * this.size(type.substring(array[0].length));
        if (type.startsWith("*")) return 8;
        if (type in SIZES) return SIZES[type];
        const known = this.image.types[type];
        if (!known) throw new Error(`the symbols have no type ${type}`);
        return known.kind === "enum" ? SIZES[known.number] : known.size;
    }

    /// The object of a type at an address: a number, or what has the fields of a record, the items of an array or the target of a
    /// pointer.
    object(address, type) {
        if (type in SIZES) return this.memory.number(address, type);
        const known = this.image.types[type];
        if (known && known.kind === "enum") return this.memory.number(address, known.number);
        const debug = this;
        const base = { targetSize: this.size(type), targetLocation: { address: new Int64(address) } };
        const array = /^\[(\d+)\]/.exec(type);
        if (array) {
            const item = type.substring(array[0].length);
            return new Proxy(base, {
                get(target, name) {
                    if (typeof name === "string" && /^\d+$/.test(name)) {
                        if (Number(name) >= Number(array[1])) throw new Error(`no item ${name} in an array of ${array[1]}`);
                        return debug.object(address + BigInt(name) * BigInt(debug.size(item)), item);
                    }
                    return target[name];
                },
            });
        }
        if (type.startsWith("*")) {
            const value = this.memory.number(address, "u64");
            base.address = value;
            base.dereference = () => debug.object(value.bits, type.substring(1));
            return new Proxy(base, {
                get: (target, name) => (name in target || typeof name === "symbol" ? target[name] : base.dereference()[name]),
            });
        }
        if (!known) throw new Error(`the symbols have no type ${type}`);
        return new Proxy(base, {
            get(target, name) {
                const field = known.fields.find((field) => field.name === name);
                if (field) return debug.object(address + BigInt(field.offset), field.type);
                if (name in target || typeof name === "symbol" || name === "asNumber") return target[name];
                if (name in known.constants) return known.constants[name];
                throw new Error(`${type} has no field ${name}`);
            },
        });
    }

    host() {
        const module = (name) => {
            if (name !== this.image.module.name) throw new Error(`no module ${name} in this image`);
        };
        const host = {
            apiVersionSupport: class {},
            functionAlias: class {
                constructor(run, name) {
                    Object.assign(this, { run, name });
                }
            },
            Int64,
            diagnostics: { debugLog: (text) => { this.text += text; } },
            memory: {
                readMemoryValues: (address, count, size) => Array.from({ length: count }, (_, index) =>
                    this.memory.number(big(address) + BigInt(index * size), `u${8 * size}`)),
            },
            getModuleSymbolAddress: (name, symbol) => {
                module(name);
                const known = this.image.symbols[symbol];
                if (!known) throw new Error(`no symbol ${name}!${symbol}`);
                return new Int64(known.address);
            },
            createTypedObject: (address, name, type) => {
                module(name);
                return this.object(big(address), type);
            },
        };
        return host;
    }

    /// The commands of a script by name.
    load(file) {
        const context = vm.createContext({ host: this.host() });
        vm.runInContext(fs.readFileSync(file, "utf8"), context, { filename: file });
        const parts = vm.runInContext("initializeScript()", context);
        return new Map(parts.filter((part) => part.name).map((part) => [`!${part.name}`, part.run]));
    }
}

function fail(text) {
    process.stderr.write(`linux.js: ${text}\n`);
    process.exit(2);
}

function main([file, ...commands]) {
    if (!file) fail("name a memory image; `campanile run --driver pe --memory-image FILE` writes one");
    let debug;
    try {
        const image = JSON.parse(fs.readFileSync(file, "utf8"));
        if (image.version !== VERSION) throw new Error(`a memory image of version ${VERSION} is expected`);
        debug = new Debugger(image);
    } catch (error) {
        fail(`${file}: ${error.message}`);
    }
    const known = debug.load(path.join(__dirname, "campanile.js"));
    if (commands.length === 0) {
        process.stdout.write([...known.keys()].map((name) => `${name}\n`).join(""));
    }
    for (const command of commands) {
        const run = known.get(command);
        if (!run) fail(`no command ${command}; there are ${[...known.keys()].join(", ")}`);
        try {
            run();
        } catch (error) {
            process.stdout.write(debug.text);
            process.stderr.write(`linux.js: ${command}: ${error.message}\n`);
            process.exit(1);
        }
        process.stdout.write(debug.text);
        debug.text = "";
    }
}

main(process.argv.slice(2));
