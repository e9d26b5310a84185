// What lies under the pointer, and what to say about it.
function find(view, x, y) {
  const { model } = view;
  if (x < GUTTER || y < RULER) return null;
  const row = model.rows.find((row) => y >= view.y(row) && y < view.y(row) + row.height + 1);
  if (!row) return null;
  const pixel = (view.t1 - view.t0) / (view.width - GUTTER), t = view.t(x), near = row.kind === 'marks' ? 5 : 1;
  const past = above(row.start, t + near * pixel);
  let best = -1, gap = near * pixel, here = 0;
  for (let k = past - 1; k >= 0 && k > past - 64; k--) {
    const i = row.items[k], apart = Math.max(row.set.start[i] - t, t - row.set.end[i], 0);
    if (apart <= gap && (best < 0 || apart < gap)) { best = i; gap = apart; }
    if (row.start[k] > t - pixel && row.start[k] <= t + pixel) here++;
    if (row.reach[k] < t - near * pixel) break;
  }
  if (best >= 0) return { row, set: row.set, i: best, here };
  return row.kind === 'span' || row.kind === 'engine' ? { row, set: null, i: -1, t } : null;
}

function rowsOf(list) {
  return `<table>${list.filter(Boolean).map(([name, text]) => `<tr><td>${name}</td><td>${text}</td></tr>`).join('')}</table>`;
}
function safe(text) { return String(text).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`); }
function head(colour, text) { return `<b><i style="background:${colour}"></i>${safe(text)}</b>`; }
function laneText(model, lane) {
  const process = model.about.processes[lane.process];
  return `${safe(lane.name)}${lane.handle ? ' ' + hex(lane.handle) : ''}, ${safe(process.name)}`;
}

function card(view, hit) {
  if (!hit.set) return gapCard(view, hit);
  const { ops, spans } = view.model;
  const more = hit.here > 2 ? `<p>${hit.here >= 62 ? 'Dozens more' : `${hit.here - 1} more`} within a pixel: zoom in to tell them apart.</p>` : '';
  return (hit.set === ops ? opCard(view, hit.i) : hit.set === spans ? spanCard(view, hit) : pointCard(view, hit.i)) + more;
}

function opCard(view, i) {
  const { model } = view, { ops } = model, wait = ops.flags[i] & WAIT, open = ops.flags[i] & OPEN, lone = ops.flags[i] & LONE;
  const fence = fenceText(model, ops.fence[i]), lane = model.lanes[ops.lane[i]];
  const list = [
    ['fence', `${fence} ${wait ? '≥' : '='} ${value(ops, i)}`],
    ['queue', laneText(model, lane)],
    ['queued', lone ? 'not traced' : moment(ops.start[i])],
    wait && ops.flags[i] & OBSERVED ? ['reached by the GPU', moment(ops.blocked[i])] : null,
    [wait ? 'unblocked' : 'executed', open ? 'not in this trace' : moment(ops.end[i])],
    lone || open ? null : ['queued for', time(ops.end[i] - ops.start[i])],
  ];
  let why = '';
  if (wait && ops.by[i] >= 0) {
    const by = ops.by[i], held = ops.end[i] - ops.blocked[i];
    list.push(['blocked', time(held)]);
    why = `<p>Blocked on ${fence} by ${laneText(model, model.lanes[ops.lane[by]])}, which signalled ${value(ops, by)} at ${moment(ops.end[by])}; released ${time(ops.end[i] - ops.end[by])} later.</p>`;
  } else if (wait && !open) {
    why = '<p>Blocked nothing, as far as this trace shows: the value was there when the GPU came.</p>';
  }
  const released = model.released.get(i);
  if (released) {
    const names = [...new Set(released.map((wait) => model.lanes[ops.lane[wait]].name))].slice(0, 4).map(safe).join(', ');
    why = `<p>Released ${released.length === 1 ? 'a wait' : count(released.length) + ' waits'} of ${names}.</p>`;
  }
  return head(wait ? view.ink_.wait : view.ink_.signal, wait ? 'Wait of the GPU' : 'Signal of the GPU') + rowsOf(list) + why;
}

// What a span is, in a few words.
function spanName(model, i) {
  const { spans, about } = model, amount = spans.amount[i], detail = spans.detail[i];
  switch (spans.kind[i]) {
    case WORK: return `submission ${amount}`;
    case CPU_WAIT: return `waits for ${fenceName(model, spans.fence[i])} ≥ ${amount}`;
    case INTERRUPT: return `interrupt ${amount}`;
    case DPC: return 'DPC';
    case LABEL: return about.names[amount];
    case PAGING: return `packet ${detail}`;
    default: return about.pagingOperations[detail] || `paging operation ${detail}`;
  }
}

function capital(text) { return text[0].toUpperCase() + text.slice(1); }

function spanCard(view, { row, i }) {
  const { model } = view, { spans } = model, lane = model.lanes[spans.lane[i]], kind = spans.kind[i];
  const bytes = (kind === PAGING || kind === OPERATION) && spans.amount[i] ? ['bytes', count(spans.amount[i])] : null;
  const named = kind === LABEL ? spanName(model, i) : capital(spanName(model, i));
  return head(view.colour(row, i), kind === CPU_WAIT ? 'The CPU waits' : named) + rowsOf([
    kind === CPU_WAIT ? ['fence', `${fenceText(model, spans.fence[i])} ≥ ${spans.amount[i]}`] : null,
    bytes,
    [lane.kind === 'queue' ? 'queue' : 'lane', laneText(model, lane)],
    lane.kind === 'queue' ? ['engine', `node ${lane.node} ${NODES[lane.node] || ''}`] : null,
    ['from', moment(spans.start[i])], ['to', moment(spans.end[i])], ['took', time(spans.end[i] - spans.start[i])],
  ]);
}

const STATUS = { 2: 'RETRY', 3: 'ABORT' };

// Name of a point, and what there is to say about it.
function pointFacts(model, i) {
  const { points, about } = model, amount = points.amount[i], detail = points.detail[i];
  const node = (number) => (number === NONE ? null : ['node', `${number} ${NODES[number] || ''}`]);
  switch (points.kind[i]) {
    case SUBMISSION: return ['Submission', ['number', amount]];
    case RING: return ['Doorbell rung', ['submission', amount]];
    case RECONNECT: return ['Doorbell reconnected by the submitter', ['submission', amount]];
    case CONNECT: return ['Doorbell connected', null];
    case DISCONNECT: return ['Doorbell taken away', ['status', STATUS[amount] || amount]];
    case REPORT: {
      const kind = Math.floor(detail / 2 ** 32), number = detail % 2 ** 32;
      return [about.reports[kind] || `Report ${kind}`, node(number), amount ? [kind === 19 ? 'fences' : 'fence id or value', amount] : null];
    }
    case RESIDENT: return ['Made resident', ['bytes', count(amount)]];
    case EVICTED: return ['Evicted', ['bytes', count(amount)]];
    case NAMED: return ['Named by the program', ['name', safe(about.names[amount])]];
    case RESET: return [detail === NONE ? 'Reset of the adapter' : 'Reset of an engine', node(detail)];
    case POWER: return ['Power state', ['state', detail === NONE ? `D${amount - 1}` : `F${amount}`], detail === NONE ? null : ['component', detail]];
    case LOST: return ['Events lost', ['how many', amount || 'unknown']];
    default: return ['A log breaks its rules', ['entries', amount]];
  }
}

function pointCard(view, i) {
  const { model } = view, { points } = model, [name, ...facts] = pointFacts(model, i);
  const why = points.kind[i] === LOST ? '<p>The log was overrun before it was read. What is missing lies before this moment.</p>' : '';
  return head(view.markColour(points.kind[i]), name)
    + rowsOf([['at', moment(points.start[i])], ...facts, ['lane', laneText(model, model.lanes[points.lane[i]])]]) + why;
}

// Why nothing ran: the wait that blocked the queue longest in the gap, if there was one.
function gap(view, row, t) {
  const { ops } = view.model, past = above(row.start, t);
  const from = past ? row.reach[past - 1] : 0, to = past < row.start.length ? row.start[past] : view.length;
  let best = -1, most = 0;
  for (const waits of row.lane.rows) {
    if (waits.kind !== 'wait') continue;
    for (let k = above(waits.reach, from), left = 2000; k < waits.items.length && waits.start[k] < to && left > 0; k++, left--) {
      const i = waits.items[k];
      if (ops.by[i] < 0 && !(ops.flags[i] & OPEN)) continue;
      const held = Math.min(ops.end[i], to) - Math.max(ops.blocked[i], from);
      if (held > most) { most = held; best = i; }
    }
  }
  return { from, to, wait: best, held: most };
}

function blockedOn(model, wait) {
  const { ops } = model, by = ops.by[wait];
  const who = by >= 0 ? `by ${laneText(model, model.lanes[ops.lane[by]])}` : 'which nobody signalled in this trace';
  return `locked on ${fenceText(model, ops.fence[wait])} ≥ ${value(ops, wait)} ${who}`;
}

// Why an engine stood still: what each of its queues was blocked on at that moment.
function engineGap(view, row, t) {
  const { model } = view, said = [];
  for (const lane of model.lanes) {
    const own = lane.node === row.lane.node && lane.rows.find((row) => row.kind === 'span');
    const there = own ? gap(view, own, t) : null;
    if (there && there.wait >= 0 && model.ops.blocked[there.wait] <= t && model.ops.end[there.wait] >= t) {
      said.push(`${safe(lane.name)} was b${blockedOn(model, there.wait)}`);
    }
  }
  return said.length ? said.slice(0, 6).join('; ') + '.' : 'No queue of this engine had work that could run.';
}

function gapCard(view, { row, t }) {
  const { model } = view, { from, to, wait, held } = gap(view, row, t);
  let why = row.kind === 'engine' ? engineGap(view, row, t) : 'Idle: no wait blocked the queue, so nothing was submitted.';
  if (wait >= 0) why = `B${blockedOn(model, wait)}, for ${time(held)} of it.`;
  return head(view.ink_.block, `Gap of ${time(to - from)}`) + rowsOf([['from', moment(from)], ['to', moment(to)]]) + `<p>${why}</p>`;
}
