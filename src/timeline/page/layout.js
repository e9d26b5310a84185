// Where everything stands: lanes of rows, each row a list of items in order of time.
const GUTTER = 226, RULER = 26, ROW = 16, MARKS = 13, WORKS = 20, TITLE = 24, PAD = 6;
const ROWS_MAX = 6;

// First index whose key is above the limit.
function above(keys, limit, from = 0) {
  let low = from, high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (keys[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

class Row {
  constructor(kind, set, label, height) { Object.assign(this, { kind, set, label, height, list: [], y: 0 }); }
  // start, reach (the furthest end so far) and work (time covered so far) make any stretch of the row cheap to draw.
  close() {
    const { set, list } = this, n = list.length;
    this.items = Uint32Array.from(list);
    this.list = null;
    this.start = new Float64Array(n);
    this.reach = new Float64Array(n);
    this.work = new Float64Array(n + 1);
    let reach = -1;
    for (let k = 0; k < n; k++) {
      const i = this.items[k];
      this.start[k] = set.start[i];
      this.reach[k] = reach = Math.max(reach, set.end[i]);
      this.work[k + 1] = this.work[k] + set.end[i] - set.start[i];
    }
  }
}

// Puts items into as few rows as keep them apart, up to ROWS_MAX; what does not fit lies over the others.
class Stack {
  constructor(kind, set, label, height) { Object.assign(this, { kind, set, label, height, rows: [], free: [] }); }
  add(i) {
    const start = this.set.start[i];
    let row = this.free.findIndex((until) => until <= start);
    if (row < 0 && this.rows.length < ROWS_MAX) {
      row = this.rows.length;
      this.rows.push(new Row(this.kind, this.set, row ? '' : this.label, this.height));
    } else if (row < 0) {
      row = this.free.indexOf(Math.min(...this.free));
    }
    this.rows[row].list.push(i);
    this.free[row] = Math.max(this.free[row] || 0, this.set.end[i]);
  }
}

function layout(data) {
  const { about, ops, spans, points } = data;
  const lanes = about.lanes.map((lane, index) => ({
    ...lane, index,
    marks: new Row('marks', points, '', MARKS),
    waits: new Stack('wait', ops, 'waits', ROW), signals: new Stack('signal', ops, 'signals', ROW),
    spans: new Stack('span', spans, lane.kind === 'queue' ? 'GPU' : '', WORKS),
  }));
  const engines = new Map();
  for (let i = 0; i < ops.count; i++) (ops.flags[i] & WAIT ? lanes[ops.lane[i]].waits : lanes[ops.lane[i]].signals).add(i);
  for (let i = 0; i < spans.count; i++) lanes[spans.lane[i]].spans.add(i);
  for (let i = 0; i < points.count; i++) lanes[points.lane[i]].marks.list.push(i);
  // Engines see the work of all their queues in order of time.
  const work = Uint32Array.from({ length: spans.count }, (_, i) => i).filter((i) => spans.kind[i] === WORK);
  work.sort((a, b) => spans.start[a] - spans.start[b]);
  for (const i of work) {
    const node = lanes[spans.lane[i]].node;
    if (node === null) continue;
    if (!engines.has(node)) engines.set(node, new Stack('engine', spans, '', WORKS));
    engines.get(node).add(i);
  }
  const queues = lanes.filter((lane) => lane.kind === 'queue');
  queues.forEach((lane, at) => { lane.hue = Math.round(205 + at * 81) % 205 + 85; });
  const groups = [];
  if (engines.size) {
    const list = [...engines].sort((a, b) => a[0] - b[0]);
    groups.push({
      title: 'GPU engines', lanes: list.map(([node, stack]) => ({
        name: `engine of node ${node}`, sub: NODES[node] || '', kind: 'engine', node, rows: stack.rows,
      })),
    });
  }
  about.processes.forEach((process, index) => {
    const own = lanes.filter((lane) => lane.process === index);
    for (const lane of own) {
      lane.sub = lane.kind === 'queue' ? `queue ${hex(lane.handle)} · node ${lane.node}` : KINDS[lane.kind];
      lane.rows = [...(lane.marks.list.length ? [lane.marks] : []), ...lane.waits.rows, ...lane.signals.rows, ...lane.spans.rows];
    }
    if (own.length) groups.push({ title: process.name, sub: `process ${process.id}`, lanes: own });
  });
  let y = 0;
  const rows = [];
  const rowOf = new Map([[ops, new Uint32Array(ops.count)]]);
  for (const group of groups) {
    group.y = y;
    y += TITLE;
    for (const lane of group.lanes) {
      lane.y = y;
      y += PAD;
      for (const row of lane.rows) {
        Object.assign(row, { y, lane, index: rows.length });
        rows.push(row);
        row.close();
        if (row.set === ops) for (const i of row.items) rowOf.get(ops)[i] = row.index;
        y += row.height + 1;
      }
      y = Math.max(y, lane.y + 38) + PAD;
      lane.height = y - lane.y;
    }
  }
  // Signals know what they released.
  const released = new Map();
  for (let i = 0; i < ops.count; i++) {
    if (ops.by[i] < 0) continue;
    const list = released.get(ops.by[i]);
    if (list) list.push(i); else released.set(ops.by[i], [i]);
  }
  return { ...data, lanes, groups, rows, opRow: rowOf.get(ops), released, height: y };
}

const NODES = { 0: 'compute', 1: 'copy', 2: 'paging' };
const KINDS = { cpu: 'CPU', paging: 'paging queue', machine: 'operating system' };

function hex(number) { return '0x' + number.toString(16); }

function scaleOf(ns) { const size = Math.abs(ns); return size < 1e3 ? 1 : size < 1e6 ? 1e3 : size < 1e9 ? 1e6 : 1e9; }

// A length of time in the unit that suits it.
function time(ns, digits = 3) {
  const scale = scaleOf(ns);
  return `${+(ns / scale).toFixed(scale === 1 ? 0 : Math.min(digits, 9))} ${{ 1: 'ns', 1e3: 'µs', 1e6: 'ms', 1e9: 's' }[scale]}`;
}

// A moment, to the nanosecond.
function moment(ns) { return time(ns, 9); }

function count(number) { return number.toLocaleString('en').replaceAll(',', ' '); }
