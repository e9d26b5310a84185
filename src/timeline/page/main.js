// Start, and a way in for tests.
function legend(view) {
  const c = view.ink_, { ops, points, spans } = view.model;
  const point = (...kinds) => kinds.some((kind) => points.kind.includes(kind)), span = (kind) => spans.kind.includes(kind);
  const waits = ops.flags.reduce((sum, flag) => sum + (flag & WAIT), 0);
  const up = 'clip-path:polygon(50% 0, 100% 100%, 0 100%)', down = 'clip-path:polygon(0 0, 100% 0, 50% 100%)';
  const list = [
    [`background:${c.signal}`, `signal, queued to executed (${count(ops.count - waits)})`],
    [`background:${c.wait};border:1px solid ${c['wait-edge']}`, `wait, queued to unblocked (${count(waits)})`],
    span(WORK) && [`background:hsl(210 46% 50%)`, 'work on the GPU, in its queue’s colour'],
    waits && [`background:repeating-linear-gradient(135deg, ${c.block} 0 2px, transparent 2px 5px)`, 'queue blocked on a fence'],
    ops.by.some((by) => by >= 0) && [`background:${c.arrow};height:2px`, 'signal releases wait'],
    span(CPU_WAIT) && [`background:${c.cpu}`, 'the CPU waits'],
    (span(PAGING) || span(OPERATION)) && [`background:${c.paging}`, 'paging'],
    span(INTERRUPT) && [`background:${c.interrupt}`, 'interrupt'],
    span(LABEL) && [`background:${c.mark}`, 'label, or command buffer, that the program named'],
    span(DPC) && [`background:${c.dpc}`, 'DPC'],
    point(REPORT) && [`background:${c.interrupt};width:8px;${down}`, 'report of the driver'],
    point(SUBMISSION) && [`background:${c.mark};width:2px`, 'submission'],
    point(RING) && [`background:${c.mark};width:8px;${up}`, 'doorbell rung'],
    point(CONNECT) && [`background:${c.mark};width:8px;height:8px;border-radius:8px`, 'doorbell connected'],
    point(DISCONNECT) && [`border:2px solid ${c.mark};width:8px;height:8px;border-radius:8px`, 'doorbell taken away'],
    point(RECONNECT) && [`background:${c.alarm};width:9px;height:9px;border-radius:9px`, 'doorbell reconnected'],
    point(RESIDENT, EVICTED) && [`background:${c.paging};width:7px;height:7px`, 'made resident, evicted'],
    point(POWER) && [`background:${c.cpu};width:9px;clip-path:polygon(50% 0, 100% 50%, 50% 100%, 0 50%)`, 'power state'],
    point(...TROUBLE) && [`background:${c.alarm};width:10px;${up}`, 'reset, events lost, broken log'],
  ];
  document.getElementById('legend').innerHTML = list.filter(Boolean)
    .map(([style, text]) => `<span role="listitem"><i style="${style}"></i>${text}</span>`).join('');
}

async function start() {
  const about = JSON.parse(document.getElementById('description').textContent);
  const bytes = await inflate(document.getElementById('columns').textContent);
  const model = layout(decode(about, bytes));
  const out = about.leftOut ? `, ${count(about.leftOut)} boxes too small to see left out` : '';
  document.getElementById('facts').textContent =
    `${count(about.events)} events in ${time(about.length)}, ${about.lanes.length} lanes${out}`;
  if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.dataset.theme = 'dark';
  const view = new View(model, document.getElementById('lanes'), document.getElementById('map'));
  legend(view);
  const input = listen(view, document.getElementById('card'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => document.getElementById('theme').click());
  view.draw();
  return {
    model, view, input,
    show(t0, t1) { view.show(t0, t1); view.draw(); return view.drawn; },
    hover(x, y) { const hit = input.hover(x, y); view.draw(); return hit; },
    at(i) { const row = model.rows[model.opRow[i]]; return { x: view.x((model.ops.start[i] + model.ops.end[i]) / 2), y: view.y(row) + row.height / 2 }; },
    pixel(x, y) { return [...view.ink.getImageData(Math.round(x * view.ratio), Math.round(y * view.ratio), 1, 1).data]; },
  };
}

window.campanile = { ready: start() };
window.campanile.ready.then((api) => Object.assign(window.campanile, api), (error) => {
  document.getElementById('facts').textContent = `This page cannot be shown: ${error.message}`;
});
