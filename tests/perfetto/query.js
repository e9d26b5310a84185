// Loads a trace into Perfetto's own trace processor, as its page does, and answers queries: node query.js ENGINE TRACE QUERY…
// Prints a JSON array with an array of rows for each query; fails with what the trace processor says.
'use strict';
process.on('uncaughtException', (error) => { process.stderr.write(String(error.stack).slice(-1500)); process.exit(1); });
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [engine, trace, ...queries] = process.argv.slice(2);

// Of the protocol (protos/perfetto/trace_processor/trace_processor.proto) what this needs.
const APPEND = 1, FINALIZE = 2, QUERY = 3;

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 127n);
    if (rest < 128n) return Buffer.from([...bytes, low]);
    bytes.push(low | 128);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

// The fields of a message: [number, value], a BigInt for varints and a Buffer for everything else.
function* fields(buffer) {
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buffer.length) {
    const key = Number(read());
    const kind = key & 7;
    if (kind === 0) { yield [key >> 3, read()]; continue; }
    const length = kind === 2 ? Number(read()) : kind === 1 ? 8 : 4;
    yield [key >> 3, buffer.subarray(at, at += length)];
  }
}
function* varints(buffer) {
  for (let at = 0; at < buffer.length;) {
    let value = 0n, shift = 0n, byte;
    do { byte = buffer[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte >= 128);
    yield value;
  }
}

// Cells of a batch: null, number, string.
function cells(batch) {
  const kinds = [], integers = [], floats = [], strings = [];
  for (const [field, value] of fields(batch)) {
    if (field === 1) kinds.push(...varints(value));
    if (field === 2) integers.push(...varints(value));
    if (field === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (field === 5) strings.push(...value.toString().split('\0').slice(0, -1));
  }
  return kinds.map((kind) => {
    switch (kind) {
      case 1n: return null;
      case 2n: return Number(BigInt.asIntN(64, integers.shift()));
      case 3n: return floats.shift();
      case 4n: return strings.shift();
      default: throw new Error(`a cell of kind ${kind}`);
    }
  });
}

// The worker's world: a port, and the module found beside the script.
const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
const replies = [];
const folder = path.dirname(engine);
const quiet = { ...console, log: () => {}, warn: () => {} };
const world = {
  console: quiet, TypeError, performance, TextDecoder, TextEncoder, WebAssembly, URL, Uint8Array, setTimeout, crypto,
  location: { href: 'https://localhost/engine_bundle.js' },
  WorkerGlobalScope: Object,
  // Only ever for the module, and not in the background.
  XMLHttpRequest: class {
    open(method, url) { this.url = url; }
    send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, path.basename(this.url)))).buffer; }
  },
};

async function rpc(kind, argument) {
  const message = Buffer.concat([number(2, kind), argument]);
  const before = replies.length;
  port.onmessage({ data: new Uint8Array(bytes(1, message)) });
  const answers = replies.slice(before).flatMap((stream) => [...fields(stream)].map(([, answer]) => [...fields(answer)]));
  for (const answer of answers) {
    const fatal = answer.find(([field]) => field === 5);
    if (fatal) throw new Error(fatal[1].toString());
  }
  return answers;
}

async function query(sql) {
  let columns = [], all = [];
  for (const answer of await rpc(QUERY, bytes(103, bytes(1, Buffer.from(sql))))) {
    for (const [, result] of answer.filter(([field]) => field === 203)) {
      for (const [field, value] of fields(result)) {
        if (field === 1) columns.push(value.toString());
        if (field === 2) throw new Error(`${sql}: ${value}`);
        if (field === 3) all.push(...cells(value));
      }
    }
  }
  const rows = [];
  for (let at = 0; at < all.length; at += columns.length) rows.push(all.slice(at, at + columns.length));
  return rows;
}

(async () => {
  world.self = world;
  vm.runInNewContext(fs.readFileSync(engine, 'utf8'), world, { filename: engine });
  world.onmessage({ data: port });
  // The module is there when everything that it put off is done.
  await new Promise((done) => setTimeout(done));
  await rpc(APPEND, bytes(101, fs.readFileSync(trace)));
  await rpc(FINALIZE, Buffer.alloc(0));
  const answers = [];
  for (const sql of queries) answers.push(await query(sql));
  process.stdout.write(JSON.stringify(answers));
})().catch((error) => { console.error(error.message); process.exit(1); });
