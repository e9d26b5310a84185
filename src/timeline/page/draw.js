// Drawing. A stretch of a row costs what its pixels cost, not what its items cost.
const ARROWS_MAX = 300, ARROW_WAIT = 7;

class View {
  constructor(model, canvas, map) {
    Object.assign(this, { model, canvas, map, t0: 0, t1: 1, scroll: 0, width: 0, height: 0, kept: -1, hover: null, mark: null });
    this.ink = canvas.getContext('2d');
    this.mapInk = map.getContext('2d');
    this.drawn = { boxes: 0, arrows: 0, milliseconds: 0 };
    this.colours();
    this.resize();
    this.fit();
  }
  colours() {
    const style = getComputedStyle(document.documentElement);
    const names = ['page', 'panel', 'text', 'soft', 'line', 'grid', 'signal', 'signal-text', 'wait', 'wait-text', 'wait-edge',
      'block', 'cpu', 'paging', 'arrow', 'mark', 'alarm', 'view', 'interrupt', 'dpc'];
    this.ink_ = Object.fromEntries(names.map((name) => [name, style.getPropertyValue('--' + name).trim()]));
    this.dark = document.documentElement.dataset.theme === 'dark';
    this.family = getComputedStyle(document.body).fontFamily;
    this.hatch = this.pattern();
    this.mapDirty = true;
  }
  pattern() {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 8;
    const ink = tile.getContext('2d');
    ink.strokeStyle = this.ink_.block;
    ink.lineWidth = 1.6;
    for (const x of [-8, 0, 8]) { ink.beginPath(); ink.moveTo(x, 8); ink.lineTo(x + 8, 0); ink.stroke(); }
    return this.ink.createPattern(tile, 'repeat');
  }
  resize() {
    this.ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.map]) {
      canvas.width = Math.round(canvas.clientWidth * this.ratio);
      canvas.height = Math.round(canvas.clientHeight * this.ratio);
    }
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.mapDirty = true;
    this.clamp();
  }
  get length() { return Math.max(this.model.about.length, 10); }
  x(t) { return GUTTER + (t - this.t0) / (this.t1 - this.t0) * (this.width - GUTTER); }
  t(x) { return this.t0 + (x - GUTTER) / (this.width - GUTTER) * (this.t1 - this.t0); }
  y(row) { return row.y - this.scroll + RULER; }
  fit() { const edge = this.length * 0.015; this.show(-edge, this.length + edge); }
  show(t0, t1) {
    const longest = this.length * 1.2;
    const size = Math.min(Math.max(t1 - t0, 20), longest);
    const start = Math.min(Math.max((t0 + t1 - size) / 2, -this.length * 0.1), this.length * 1.1 - size);
    this.t0 = size >= longest ? -this.length * 0.1 : start;
    this.t1 = this.t0 + size;
    this.dirty();
  }
  clamp() { this.scroll = Math.max(0, Math.min(this.scroll, this.model.height + RULER + 12 - this.height)); }
  dirty() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.draw());
  }
  draw() {
    this.waiting = false;
    const began = performance.now();
    const { ink, width, height, ink_: c } = this;
    this.boxes = 0;
    this.arrows = [];
    ink.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    ink.fillStyle = c.page;
    ink.fillRect(0, 0, width, height);
    this.grid();
    ink.save();
    ink.beginPath();
    ink.rect(GUTTER, RULER, width - GUTTER, height - RULER);
    ink.clip();
    for (const row of this.model.rows) {
      const y = this.y(row);
      if (y + row.height > RULER && y < height) this.row(row, y);
    }
    const arrows = this.drawArrows();
    if (this.mark) {
      ink.fillStyle = c.view + '33';
      ink.fillRect(Math.min(...this.mark), RULER, Math.abs(this.mark[1] - this.mark[0]), height);
    }
    ink.restore();
    this.gutter();
    this.ruler();
    this.overview();
    this.drawn = { boxes: this.boxes, arrows, milliseconds: performance.now() - began };
  }
  // The step of the ruler, a round number that leaves space for its text.
  step() {
    const least = (this.t1 - this.t0) / (this.width - GUTTER) * 110;
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) || power * 10;
  }
  grid() {
    const { ink, ink_: c, width } = this, step = this.step();
    for (const group of this.model.groups) {
      for (const lane of group.lanes) {
        const y = Math.round(this.y(lane) + lane.height) - 0.5;
        ink.fillStyle = c.grid;
        ink.fillRect(0, y, width, 1);
      }
    }
    ink.fillStyle = c.grid;
    for (let t = Math.ceil(this.t0 / step) * step; t < this.t1; t += step) {
      ink.fillRect(Math.round(this.x(t)), RULER, 1, Math.min(this.height, this.model.height - this.scroll + RULER) - RULER);
    }
  }
  ruler() {
    const { ink, ink_: c, width } = this, step = this.step();
    ink.fillStyle = c.panel;
    ink.fillRect(0, 0, width, RULER);
    ink.fillStyle = c.line;
    ink.fillRect(0, RULER - 1, width, 1);
    ink.textBaseline = 'middle';
    ink.font = `11.5px ${this.family}`;
    for (let t = Math.ceil(this.t0 / step) * step; t < this.t1; t += step) {
      const x = Math.round(this.x(t));
      if (x < GUTTER) continue;
      ink.fillStyle = c.soft;
      ink.fillRect(x, RULER - 7, 1, 6);
      ink.fillText(Math.abs(t) < step / 2 ? '0' : time(t, Math.max(0, Math.ceil(Math.log10(scaleOf(t) / step) - 1e-9))), x + 4, RULER / 2);
    }
    ink.fillStyle = c.panel;
    ink.fillRect(0, 0, GUTTER, RULER - 1);
    ink.fillStyle = c.soft;
    ink.fillText(`showing ${time(this.t1 - this.t0)}`, 12, RULER / 2);
  }
  gutter() {
    const { ink, ink_: c } = this;
    ink.save();
    ink.beginPath();
    ink.rect(0, RULER, this.width, this.height - RULER);
    ink.clip();
    ink.fillStyle = c.page;
    ink.fillRect(0, RULER, GUTTER, this.height);
    ink.textBaseline = 'middle';
    for (const group of this.model.groups) {
      const y = this.y(group);
      ink.fillStyle = c.panel;
      ink.fillRect(0, y, this.width, TITLE);
      ink.fillStyle = c.text;
      ink.font = `600 12.5px ${this.family}`;
      ink.fillText(group.title, 12, y + TITLE / 2);
      const after = 20 + ink.measureText(group.title).width;
      ink.font = `11.5px ${this.family}`;
      ink.fillStyle = c.soft;
      if (group.sub) ink.fillText(group.sub, after, y + TITLE / 2);
      for (const lane of group.lanes) this.label(lane);
    }
    ink.fillStyle = c.line;
    ink.fillRect(GUTTER - 1, RULER, 1, this.height);
    ink.restore();
  }
  label(lane) {
    const { ink, ink_: c } = this, y = this.y(lane);
    if (y > this.height || y + lane.height < RULER) return;
    if (lane.kind === 'queue') {
      ink.fillStyle = this.queueColour(lane);
      ink.fillRect(0, y + PAD, 4, lane.height - 2 * PAD);
    }
    ink.fillStyle = c.text;
    ink.font = `600 12px ${this.family}`;
    ink.fillText(lane.name, 12, y + PAD + 8, GUTTER - 70);
    ink.fillStyle = c.soft;
    ink.font = `11px ${this.family}`;
    ink.fillText(lane.sub, 12, y + PAD + 24, GUTTER - 70);
    ink.font = `10.5px ${this.family}`;
    ink.textAlign = 'right';
    for (const row of lane.rows) if (row.label) ink.fillText(row.label, GUTTER - 8, this.y(row) + row.height / 2);
    ink.textAlign = 'left';
  }
  queueColour(lane) { return this.dark ? `hsl(${lane.hue} 45% 58%)` : `hsl(${lane.hue} 48% 46%)`; }
  colour(row, i) {
    const { ink_: c, model } = this;
    if (row.kind === 'signal') return c.signal;
    if (row.kind === 'wait') return c.wait;
    const kind = model.spans.kind[i];
    if (kind === WORK) return this.queueColour(model.lanes[model.spans.lane[i]]);
    return { [LABEL]: c.mark, [CPU_WAIT]: c.cpu, [INTERRUPT]: c.interrupt, [DPC]: c.dpc }[kind] || c.paging;
  }
  row(row, y) {
    if (row.kind === 'marks') return this.marks(row, y);
    if (row.kind === 'span' && row.lane.kind === 'queue') this.gaps(row, y);
    const { set, items, start, reach, work } = row, n = items.length;
    const nanoseconds = (this.t1 - this.t0) / (this.width - GUTTER);
    let k = above(reach, this.t0);
    let run = null;
    const flush = () => {
      if (!run) return;
      this.ink.globalAlpha = run.alpha;
      this.ink.fillStyle = run.colour;
      this.ink.fillRect(run.x, y, run.size, row.height);
      this.boxes++;
      run = null;
    };
    while (k < n && start[k] < this.t1) {
      const i = items[k];
      if (set.end[i] - set.start[i] >= 2 * nanoseconds || set.flags && set.flags[i] & OPEN) {
        flush();
        this.ink.globalAlpha = 1;
        this.box(row, i, y);
        k++;
        continue;
      }
      // Everything that starts in this pixel becomes one column, as dark as the pixel is covered.
      const x = Math.floor(this.x(start[k]));
      const edge = this.t(x + 1);
      let next = Math.max(above(start, edge, k), k + 1);
      const last = items[next - 1];
      if (next - 1 > k && set.end[last] - set.start[last] >= 2 * nanoseconds) next--;
      const alpha = Math.ceil(Math.min(1, 0.3 + 0.7 * (work[next] - work[k]) / nanoseconds) * 4) / 4;
      const colour = this.colour(row, i);
      if (run && run.x + run.size === x && run.alpha === alpha && run.colour === colour) run.size++;
      else { flush(); run = { x, size: 1, alpha, colour }; }
      k = next;
    }
    flush();
    this.ink.globalAlpha = 1;
  }
  box(row, i, y) {
    const { ink, ink_: c, model } = this, { set } = row;
    const from = Math.max(this.x(set.start[i]), GUTTER - 4), to = Math.min(this.x(set.end[i]), this.width + 4);
    const wide = to - from, high = row.height;
    ink.fillStyle = this.colour(row, i);
    const open = set.flags && set.flags[i] & OPEN;
    if (open) ink.globalAlpha = 0.55;
    ink.fillRect(from, y, Math.max(wide - (wide > 4 ? 0.6 : 0), 1), high);
    ink.globalAlpha = 1;
    this.boxes++;
    if (row.kind === 'wait') {
      if (wide > 4) { ink.strokeStyle = c['wait-edge']; ink.lineWidth = 1; ink.strokeRect(from + 0.5, y + 0.5, wide - 1.6, high - 1); }
      if (wide > ARROW_WAIT && model.ops.by[i] >= 0) this.arrows.push(i);
    }
    const kept = set === model.ops ? this.kept === i : false;
    const over = this.hover && this.hover.set === set && this.hover.i === i;
    if (kept || over) { ink.strokeStyle = kept ? c.view : c.text; ink.lineWidth = kept ? 2 : 1.2; ink.strokeRect(from, y, wide, high); }
    if (wide > 34) {
      ink.fillStyle = this.textColour(row, i, open);
      this.text(this.title(row, i), from + 5, y + high / 2 + 0.5, wide - 10);
    }
  }
  // Readable on the box: light on dark ones and the other way round; boxes without an end are pale.
  textColour(row, i, open) {
    const { ink_: c, model } = this;
    if (open) return c.text;
    if (row.kind === 'wait') return c['wait-text'];
    if (row.kind === 'signal') return c['signal-text'];
    if (this.dark) return c.page;
    const kind = model.spans.kind[i], { hue } = model.lanes[model.spans.lane[i]];
    return kind === CPU_WAIT || kind === WORK && hue > 40 && hue < 190 ? '#10180c' : '#fff';
  }
  // The longest beginning that fits.
  text(text, x, y, width) {
    const { ink } = this;
    ink.font = `11px ${this.family}`;
    ink.textBaseline = 'middle';
    if (ink.measureText(text).width > width) {
      const fits = Math.floor(width / (ink.measureText(text).width / text.length)) - 1;
      if (fits < 3) return;
      text = text.slice(0, fits) + '…';
    }
    ink.fillText(text, x, y);
  }
  title(row, i) {
    const { ops, spans, lanes } = this.model;
    if (row.set === ops) return `${fenceName(this.model, ops.fence[i])} ${row.kind === 'wait' ? '≥' : '='} ${value(ops, i)}`;
    if (spans.kind[i] !== WORK) return spanName(this.model, i);
    return row.kind === 'engine' ? `${lanes[spans.lane[i]].name} ${spans.amount[i]}` : `submission ${spans.amount[i]}`;
  }
  // Behind the GPU's work: where a wait blocked the queue.
  gaps(row, y) {
    const { ink, ink_: c, model } = this;
    for (const waits of row.lane.rows) {
      if (waits.kind !== 'wait') continue;
      const least = (this.t1 - this.t0) / (this.width - GUTTER) * 2;
      let k = above(waits.reach, this.t0);
      for (let left = 4 * this.width; k < waits.items.length && waits.start[k] < this.t1 && left > 0; left--) {
        const i = waits.items[k];
        const from = this.x(Math.max(model.ops.blocked[i], this.t0)), to = this.x(Math.min(model.ops.end[i], this.t1));
        if (model.ops.by[i] >= 0 && to - from >= 2) {
          ink.fillStyle = this.hatch;
          ink.fillRect(from, y + 1, to - from, row.height - 2);
          // The text ends where work begins, which is drawn over it.
          const work = above(row.start, Math.max(model.ops.blocked[i], this.t0));
          const edge = work < row.start.length ? Math.min(to, this.x(row.start[work])) : to;
          if (edge - from > 110) {
            ink.fillStyle = c.page;
            ink.globalAlpha = 0.72;
            ink.fillRect(from + 2, y + 3, edge - from - 4, row.height - 6);
            ink.globalAlpha = 1;
            ink.fillStyle = c.soft;
            this.text(`blocked on ${fenceName(model, model.ops.fence[i])} by ${model.lanes[model.ops.lane[model.ops.by[i]]].name}`,
              from + 6, y + row.height / 2 + 0.5, edge - from - 12);
          }
        }
        // Items too small to show are passed over a pixel at a time.
        k = model.ops.end[i] - model.ops.start[i] < least ? Math.max(k + 1, above(waits.start, model.ops.start[i] + least / 2, k) - 1) : k + 1;
      }
    }
  }
  marks(row, y) {
    const { model } = this, { points } = model, n = row.items.length;
    let k = above(row.reach, this.t0 - (this.t1 - this.t0) / this.width * 4), last = -9;
    while (k < n && row.start[k] < this.t1) {
      const i = row.items[k], kind = points.kind[i], x = Math.round(this.x(row.start[k]));
      this.ink.fillStyle = this.ink.strokeStyle = this.markColour(kind);
      if (x - last >= 5 || TROUBLE.has(kind) || kind === RECONNECT) {
        this.mark_(kind, x, y, row.height);
        last = x;
      } else this.ink.fillRect(x, y + Math.floor(row.height / 2), 1, Math.ceil(row.height / 2) - 1);
      this.boxes++;
      // One mark a pixel, unless one that stands for trouble follows close by.
      const edge = this.t(Math.floor(this.x(row.start[k])) + 1), next = Math.max(above(row.start, edge, k), k + 1);
      let j = k + 1;
      while (j < Math.min(next, k + 12) && !TROUBLE.has(points.kind[row.items[j]])) j++;
      k = j < next && TROUBLE.has(points.kind[row.items[j]]) && !TROUBLE.has(kind) ? j : next;
    }
  }
  markColour(kind) {
    const { ink_: c } = this;
    if (TROUBLE.has(kind) || kind === RECONNECT) return c.alarm;
    if (kind === REPORT) return c.interrupt;
    if (kind === RESIDENT || kind === EVICTED) return c.paging;
    return kind === POWER ? c.cpu : c.mark;
  }
  // Shapes, so that nobody depends on colours: tick, triangles, discs, ring, square, diamond, cross.
  mark_(kind, x, y, high) {
    const { ink } = this, middle = y + high / 2;
    ink.beginPath();
    if (kind === SUBMISSION) ink.rect(x, y + 1, 1.5, high - 2);
    else if (kind === RING) { ink.moveTo(x - 3.5, y + high - 1); ink.lineTo(x + 4.5, y + high - 1); ink.lineTo(x + 0.5, y + 4); }
    else if (kind === RECONNECT) ink.arc(x, middle, 4.2, 0, 7);
    else if (kind === CONNECT) ink.arc(x, middle, 3.4, 0, 7);
    else if (kind === DISCONNECT) { ink.arc(x, middle, 3, 0, 7); ink.lineWidth = 1.6; return ink.stroke(); }
    else if (kind === RESIDENT) ink.rect(x - 2.5, middle - 2.5, 5, 5);
    else if (kind === EVICTED) { ink.rect(x - 2.5, middle - 2.5, 5, 5); ink.lineWidth = 1.4; return ink.stroke(); }
    else if (kind === POWER) { ink.moveTo(x, y + 1); ink.lineTo(x + 4.5, middle); ink.lineTo(x, y + high - 1); ink.lineTo(x - 4.5, middle); }
    else if (TROUBLE.has(kind)) { ink.moveTo(x, y); ink.lineTo(x + 6, y + high - 1); ink.lineTo(x - 6, y + high - 1); }
    else { ink.moveTo(x - 4, y + 2); ink.lineTo(x + 4, y + 2); ink.lineTo(x, y + high - 2); }
    ink.fill();
  }
  drawArrows() {
    const { ink, ink_: c, model } = this, { ops, rows, opRow, released } = model;
    let list = this.arrows;
    if (list.length > ARROWS_MAX) {
      list.sort((a, b) => ops.end[b] - ops.blocked[b] - ops.end[a] + ops.blocked[a]);
      list = list.slice(0, ARROWS_MAX);
    }
    const chosen = new Set();
    for (const i of [this.kept, this.hover && this.hover.set === ops ? this.hover.i : -1]) {
      if (i < 0) continue;
      if (ops.by[i] >= 0) chosen.add(i);
      for (const wait of (released.get(i) || []).slice(0, ARROWS_MAX)) chosen.add(wait);
    }
    const all = [...list.filter((i) => !chosen.has(i)), ...chosen];
    ink.lineJoin = 'round';
    for (const i of all) {
      const by = ops.by[i], from = rows[opRow[by]], to = rows[opRow[i]];
      const x0 = this.x(ops.end[by]), x1 = Math.max(this.x(ops.end[i]), x0 + 1);
      const y0 = this.y(from) + from.height / 2, down = to.y > from.y;
      const y1 = this.y(to) + (down ? -1 : to.height + 1), strong = chosen.has(i);
      ink.globalAlpha = strong ? 1 : 0.5;
      ink.strokeStyle = ink.fillStyle = strong ? c.view : c.arrow;
      ink.lineWidth = strong ? 2 : 1.1;
      const bend = Math.min(60, 14 + Math.abs(y1 - y0) / 6), lean = down ? -1 : 1;
      ink.beginPath();
      ink.moveTo(x0, y0);
      ink.bezierCurveTo(x0 + bend, y0, x1 + bend * 0.3, y1 + lean * bend, x1, y1 + lean * 5);
      ink.stroke();
      ink.beginPath();
      ink.moveTo(x1, y1);
      ink.lineTo(x1 - 3.5, y1 + lean * 7);
      ink.lineTo(x1 + 3.5, y1 + lean * 7);
      ink.fill();
    }
    ink.globalAlpha = 1;
    return all.length;
  }
  // The whole trace in one strip, and where the view is in it.
  overview() {
    const { mapInk: ink, ink_: c, map, model } = this, width = map.clientWidth, height = map.clientHeight;
    if (this.mapDirty) {
      this.mapPicture = document.createElement('canvas');
      this.mapPicture.width = map.width;
      this.mapPicture.height = map.height;
      const paint = this.mapPicture.getContext('2d');
      paint.fillStyle = c.panel;
      paint.fillRect(0, 0, map.width, map.height);
      const rows = model.rows.filter((row) => row.kind !== 'marks' && row.kind !== 'engine');
      const high = map.height / Math.max(rows.length, 1);
      rows.forEach((row, at) => {
        const colour = row.items.length ? this.colour(row, row.items[0]) : c.grid;
        paint.fillStyle = colour;
        for (let x = 0; x < map.width; x++) {
          const from = x / map.width * this.length, to = (x + 1) / map.width * this.length;
          const first = above(row.reach, from), past = above(row.start, to, first);
          if (past <= first) continue;
          const covered = Math.min(row.work[past] - row.work[first], to - from) / (to - from);
          paint.globalAlpha = Math.min(0.85, 0.15 + 0.7 * covered);
          paint.fillRect(x, at * high, 1, Math.max(high - 0.5, 0.5));
        }
      });
      this.mapDirty = false;
    }
    ink.setTransform(1, 0, 0, 1, 0, 0);
    ink.drawImage(this.mapPicture, 0, 0);
    ink.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const x0 = Math.max(0, this.t0 / this.length * width), x1 = Math.min(width, this.t1 / this.length * width);
    ink.fillStyle = this.dark ? 'rgb(0 0 0 / .55)' : 'rgb(255 255 255 / .62)';
    ink.fillRect(0, 0, x0, height);
    ink.fillRect(x1, 0, width - x1, height);
    ink.strokeStyle = c.view;
    ink.lineWidth = 2;
    ink.strokeRect(x0 + 1, 1, Math.max(x1 - x0 - 2, 2), height - 2);
  }
}

// The handle, behind the name if the program gave one; `fenceText` is for the page's HTML.
function fenceName(model, fence) {
  if (fence < 0) return 'a fence';
  const [, handle, name] = model.about.fences[fence];
  return name ? `${name} (${hex(handle)})` : hex(handle);
}
function fenceText(model, fence) { return safe(fenceName(model, fence)); }
function value(ops, i) { return ops.large.get(i) || ops.value[i]; }
