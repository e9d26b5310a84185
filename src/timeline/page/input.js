// Pointer, wheel and keys.
function listen(view, cardElement) {
  const { canvas, map, model } = view, help = document.getElementById('help');
  let drag = null, pointer = { x: GUTTER + 200, y: 100 };

  function showCard(hit, x, y) {
    cardElement.hidden = !hit;
    if (!hit) return;
    cardElement.innerHTML = card(view, hit);
    const box = cardElement.getBoundingClientRect();
    cardElement.style.left = `${Math.max(4, Math.min(x + 16, innerWidth - box.width - 8))}px`;
    cardElement.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
  }
  function hover(x, y) {
    const hit = find(view, x, y), box = canvas.getBoundingClientRect();
    const before = view.hover;
    view.hover = hit;
    showCard(hit, x + box.left, y + box.top);
    canvas.style.cursor = hit && hit.set ? 'pointer' : 'default';
    if (before !== hit) view.dirty();
    return hit;
  }
  function zoom(factor, x = pointer.x) {
    const t = view.t(Math.max(x, GUTTER));
    view.show(t - (t - view.t0) * factor, t + (view.t1 - t) * factor);
  }
  function pan(part) { const by = (view.t1 - view.t0) * part; view.show(view.t0 + by, view.t1 + by); }
  function scroll(by) { view.scroll += by; view.clamp(); view.dirty(); }
  function keep(i) {
    view.kept = i;
    if (i >= 0) {
      const { start, end } = model.ops, row = model.rows[model.opRow[i]];
      if (end[i] < view.t0 || start[i] > view.t1) { const half = (view.t1 - view.t0) / 2; view.show(end[i] - half, end[i] + half); }
      if (view.y(row) < RULER || view.y(row) + row.height > view.height) { view.scroll = row.y - view.height / 2; view.clamp(); }
      const box = canvas.getBoundingClientRect();
      showCard({ row, set: model.ops, i, here: 0 }, Math.min(Math.max(view.x(end[i]), GUTTER), view.width) + box.left, view.y(row) + box.top);
    } else cardElement.hidden = true;
    view.dirty();
  }
  function toKept() {
    if (view.kept < 0) return;
    const { start, end } = model.ops, edge = Math.max((end[view.kept] - start[view.kept]) * 0.4, 50);
    view.show(start[view.kept] - edge, end[view.kept] + edge);
  }
  function step(by) {
    if (view.kept < 0) return;
    const next = view.kept + by;
    if (next >= 0 && next < model.ops.count && model.ops.lane[next] === model.ops.lane[view.kept]) keep(next);
  }
  function partner() {
    if (view.kept < 0) return;
    const by = model.ops.by[view.kept], waits = model.released.get(view.kept);
    if (by >= 0) keep(by); else if (waits) keep(waits[0]);
  }
  function theme() {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
    view.colours();
    legend(view);
    view.dirty();
  }

  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const lines = event.deltaMode ? 30 : 1;
    if (event.shiftKey || event.offsetX < GUTTER) scroll((event.deltaY || event.deltaX) * lines);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX * lines / view.width);
    else zoom(1.0016 ** (event.deltaY * lines), event.offsetX);
  }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.offsetX, y: event.offsetY, t0: view.t0, t1: view.t1, scroll: view.scroll, mark: event.shiftKey, far: false };
  });
  canvas.addEventListener('pointermove', (event) => {
    pointer = { x: event.offsetX, y: event.offsetY };
    if (!drag) return hover(event.offsetX, event.offsetY);
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    drag.far ||= Math.abs(dx) + Math.abs(dy) > 4;
    if (!drag.far) return;
    cardElement.hidden = true;
    if (drag.mark) { view.mark = [drag.x, event.offsetX]; return view.dirty(); }
    canvas.style.cursor = 'grabbing';
    const by = dx / (view.width - GUTTER) * (drag.t1 - drag.t0);
    view.scroll = drag.scroll - dy;
    view.clamp();
    view.show(drag.t0 - by, drag.t1 - by);
  });
  canvas.addEventListener('pointerup', (event) => {
    if (drag && !drag.far) { const hit = hover(event.offsetX, event.offsetY); keep(hit && hit.set === model.ops ? hit.i : -1); }
    if (view.mark) { const [a, b] = view.mark.map((x) => view.t(x)); view.mark = null; view.show(Math.min(a, b), Math.max(a, b)); }
    drag = null;
    canvas.style.cursor = 'default';
  });
  canvas.addEventListener('pointerleave', () => { if (!drag) { view.hover = null; if (view.kept < 0) cardElement.hidden = true; view.dirty(); } });
  canvas.addEventListener('dblclick', toKept);
  const seek = (event) => {
    if (!(event.buttons & 1)) return;
    const t = event.offsetX / map.clientWidth * view.length, half = (view.t1 - view.t0) / 2;
    view.show(t - half, t + half);
  };
  map.addEventListener('pointerdown', (event) => { map.setPointerCapture(event.pointerId); seek(event); });
  map.addEventListener('pointermove', seek);
  window.addEventListener('resize', () => { view.resize(); view.dirty(); });
  const keys = {
    w: () => zoom(0.7), '+': () => zoom(0.7), '=': () => zoom(0.7), s: () => zoom(1 / 0.7), '-': () => zoom(1 / 0.7),
    a: () => pan(-0.2), ArrowLeft: () => pan(-0.2), d: () => pan(0.2), ArrowRight: () => pan(0.2),
    ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60), PageUp: () => scroll(-view.height / 2), PageDown: () => scroll(view.height / 2),
    f: () => view.fit(), 0: () => view.fit(), Home: () => view.show(0, view.t1 - view.t0),
    End: () => view.show(view.length - view.t1 + view.t0, view.length),
    n: () => step(1), p: () => step(-1), r: partner, Enter: toKept, t: theme, Escape: () => keep(-1),
    '?': () => (help.open ? help.close() : help.showModal()),
  };
  window.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target.tagName === 'BUTTON' && event.key === 'Enter') return;
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const press = { fit: () => view.fit(), in: () => zoom(0.6, (GUTTER + view.width) / 2), out: () => zoom(1 / 0.6, (GUTTER + view.width) / 2), theme, ask: keys['?'] };
  for (const [id, act] of Object.entries(press)) document.getElementById(id).addEventListener('click', act);
  return { hover, keep, zoom, pan };
}
