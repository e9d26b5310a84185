// The events: the other half of data.rs. Times are nanoseconds since the first event.
const WAIT = 1, OBSERVED = 2, OPEN = 4, LONE = 8;
// Kinds of spans and points: the numbers of trace::code.
const SUBMISSION = 3, RING = 4, RECONNECT = 5, WORK = 6, CPU_WAIT = 7, PAGING = 8, INTERRUPT = 9, DPC = 10, RESET = 11, POWER = 12,
  LOST = 13, OPERATION = 16, RESIDENT = 17, EVICTED = 18, REPORT = 19, CONNECT = 20, DISCONNECT = 21, VIOLATION = 22, LABEL = 23, NAMED = 24;
const NONE = 2 ** 32 - 1;
// What stands for trouble, and is drawn however small the scale.
const TROUBLE = new Set([RESET, LOST, VIOLATION]);

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  // Arithmetic instead of shifts, which have only 32 bits.
  number() {
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte >= 128);
    return value;
  }
  difference() {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
  column(count, make, each) {
    const column = new make(count);
    for (let i = 0; i < count; i++) column[i] = each(i);
    return column;
  }
  // Lanes are counted up, starts follow each other.
  sums(count, make, signed) {
    let last = 0;
    return this.column(count, make, () => (last += signed ? this.difference() : this.number()));
  }
  numbers(count, make) { return this.column(count, make, () => this.number()); }
}

function decode(about, bytes) {
  const reader = new Reader(bytes);
  let n = about.operations;
  const ops = { count: n };
  ops.lane = reader.sums(n, Uint32Array, false);
  ops.flags = reader.numbers(n, Uint8Array);
  ops.start = reader.sums(n, Float64Array, true);
  ops.end = reader.numbers(n, Float64Array);
  for (let i = 0; i < n; i++) ops.end[i] = ops.flags[i] & OPEN ? about.length : ops.start[i] + ops.end[i];
  ops.blocked = reader.column(n, Float64Array, (i) => ops.start[i] + (ops.flags[i] & OBSERVED ? reader.difference() : 0));
  ops.fence = reader.numbers(n, Uint32Array);
  const last = new Float64Array(about.fences.length);
  ops.large = new Map();
  ops.value = reader.column(n, Float64Array, (i) => {
    const raw = reader.number();
    if (raw === 2 ** 54) {
      ops.large.set(i, about.large[ops.large.size]);
      return Infinity;
    }
    return (last[ops.fence[i]] += raw % 2 ? -(raw + 1) / 2 : raw / 2);
  });
  ops.by = reader.column(n, Int32Array, (i) => { const apart = reader.difference(); return apart ? i + apart : -1; });
  n = about.spans;
  const spans = { count: n };
  spans.lane = reader.sums(n, Uint32Array, false);
  spans.kind = reader.numbers(n, Uint8Array);
  spans.start = reader.sums(n, Float64Array, true);
  spans.end = reader.column(n, Float64Array, (i) => spans.start[i] + reader.number());
  spans.amount = reader.numbers(n, Float64Array);
  spans.detail = reader.numbers(n, Float64Array);
  spans.fence = reader.column(n, Int32Array, () => reader.number() - 1);
  n = about.points;
  const points = { count: n };
  points.lane = reader.sums(n, Uint32Array, false);
  points.kind = reader.numbers(n, Uint8Array);
  points.start = reader.sums(n, Float64Array, true);
  points.end = points.start;
  points.amount = reader.numbers(n, Float64Array);
  points.detail = reader.numbers(n, Float64Array);
  if (reader.at !== bytes.length) throw new Error('the events of this page are damaged');
  return { about, ops, spans, points };
}
