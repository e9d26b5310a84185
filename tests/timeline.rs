//! The timeline's page as a browser shows it, asked through its own way in for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A directory of its own for one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("timeline-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn campanile(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_campanile")).args(arguments).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Loads the page, runs `script` in it with the page's `api`, and returns what it returns.
fn ask(scratch: &Scratch, page: &Path, script: &str) -> Value {
    let question = format!(
        "<script>window.campanile.ready.then((api) => {{ {script} }}).catch((error) => ({{ error: String(error.stack) }}))
        .then((answer) => {{ document.body.innerHTML = ''; document.body.dataset.answer = encodeURIComponent(JSON.stringify(answer)); }});</script>"
    );
    let asking = scratch.path("asking.html");
    fs::write(&asking, fs::read_to_string(page).unwrap() + &question).unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1400,900",
            "--force-device-scale-factor=1",
        ])
        .arg(format!("--user-data-dir={}", scratch.path("profile").display()))
        .args(["--timeout=60000", "--virtual-time-budget=30000", "--dump-dom"])
        .arg(format!("file://{}", asking.display()))
        .output()
        .expect("chromium is installed: `cargo xtask test` does that, and by hand it is `apt-get install chromium`");
    let dom = String::from_utf8_lossy(&output.stdout);
    let answer = dom.split("data-answer=\"").nth(1).and_then(|rest| rest.split('"').next());
    let answer = answer.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&output.stderr)));
    let answer: Value = serde_json::from_str(&decoded(answer)).expect("the answer is JSON");
    assert!(answer.get("error").is_none(), "{answer}");
    answer
}

/// Undoes encodeURIComponent.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits: String = rest.by_ref().take(2).map(char::from).collect();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn synthetic(scratch: &Scratch, count: &str) -> PathBuf {
    let page = scratch.path("page.html");
    campanile(&["timeline", "--synthetic", count, "--out", page.to_str().unwrap()]);
    page
}

/// Looks at the first wait that blocked its queue: colours of both boxes, its card, the gap it explains, then zooms and moves.
const LOOK: &str = r"
    const { model, view, input } = api, { ops } = model;
    const wait = ops.by.findIndex((by) => by >= 0), by = ops.by[wait];
    const edge = (ops.end[wait] - ops.start[by]) * 0.1;
    const drawn = api.show(Math.min(ops.start[by], ops.start[wait]) - edge, Math.max(ops.end[wait], ops.end[by]) + edge);
    const colour = (i) => { const row = model.rows[model.opRow[i]]; return api.pixel(view.x(ops.end[i]) - 5, view.y(row) + 3); };
    const colours = [colour(by), colour(wait)];
    const place = api.at(wait);
    const hit = api.hover(place.x, place.y);
    const card = document.getElementById('card').innerText;
    const lane = model.lanes[ops.lane[wait]], row = lane.rows.find((row) => row.kind === 'span');
    const hole = gap(view, row, (ops.blocked[wait] + ops.end[wait]) / 2);
    const before = [view.t0, view.t1];
    input.zoom(0.5);
    const zoomed = [view.t0, view.t1];
    input.pan(0.25);
    const moved = [view.t0, view.t1];
    input.keep(wait);
    window.dispatchEvent(new KeyboardEvent('keydown', { key: 'r' }));
    const partner = view.kept;
    window.dispatchEvent(new KeyboardEvent('keydown', { key: 'f' }));
    return {
        operations: ops.count, lanes: model.about.lanes.length, drawn, colours, hit: hit && hit.i, wait, by, card,
        explained: hole.wait, signaller: model.lanes[ops.lane[by]].name, before, zoomed, moved, partner, all: [view.t0, view.t1],
        length: model.about.length, facts: document.getElementById('facts').innerText,
        legend: document.getElementById('legend').innerText, external: performance.getEntriesByType('resource').length,
    };
";

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn a_thousand_events_are_drawn_explained_and_moved_through() {
    let scratch = Scratch::new("thousand");
    let answer = ask(&scratch, &synthetic(&scratch, "1000"), LOOK);
    assert_eq!(answer["lanes"], 9, "three queues and a thread of two processes, and the machine's: {answer}");
    assert_eq!(answer["external"], 0, "the page asked for something outside");
    assert!(
        answer["facts"].as_str().unwrap().contains("1\u{202f}000 events")
            || answer["facts"].as_str().unwrap().contains("1 000 events")
    );
    assert_eq!(answer["colours"][0], serde_json::json!([0xc2, 0x18, 0x5b, 255]), "signals are dark pink");
    assert_eq!(answer["colours"][1], serde_json::json!([0xf7, 0xb5, 0xcf, 255]), "waits are light pink");
    assert!(answer["drawn"]["arrows"].as_u64() >= Some(1));
    assert_eq!(answer["hit"], answer["wait"]);
    let card = answer["card"].as_str().unwrap();
    assert!(card.contains("Blocked on 0x") && card.contains(answer["signaller"].as_str().unwrap()), "{card}");
    assert!(answer["explained"].as_i64() >= Some(0), "the gap names the wait that made it");
    let [before, zoomed, moved] = ["before", "zoomed", "moved"].map(|name| numbers(&answer[name]));
    assert!(((zoomed[1] - zoomed[0]) / (before[1] - before[0]) - 0.5).abs() < 1e-6);
    assert!(moved[0] > zoomed[0] && ((moved[1] - moved[0]) - (zoomed[1] - zoomed[0])).abs() < 1e-3);
    assert_eq!(answer["partner"], answer["by"], "R leads from a wait to its signal");
    let all = numbers(&answer["all"]);
    assert!(all[0] <= 0.0 && all[1] >= answer["length"].as_f64().unwrap(), "F shows everything");
    for word in ["signal", "wait", "blocked", "interrupt", "DPC"] {
        assert!(answer["legend"].as_str().unwrap().contains(word), "{word}");
    }
}

/// What the pointer finds on boxes, marks and gaps, and what the card says of each.
const CARDS: &str = r"
    const { model, view, input } = api, { ops, spans, points } = model;
    view.fit(); view.draw();
    const text = () => document.getElementById('card').innerText;
    const say = (x, y) => { api.hover(x, y); return text(); };
    const first = (kind) => points.kind.indexOf(kind);
    const at = (set, i, kind) => {
        const row = model.rows.find((row) => row.set === set && row.kind !== 'engine' && row.items.includes(i));
        const half = Math.max((set.end[i] - set.start[i]) * 0.7, 200);
        api.show(set.start[i] - half, set.end[i] + half);
        view.scroll = Math.max(0, row.y - 200); view.clamp(); view.draw();
        return say(view.x((set.start[i] + set.end[i]) / 2), view.y(row) + row.height / 2);
    };
    const signal = model.released.keys().next().value;
    const lane = model.lanes.find((lane) => lane.name === 'copy down');
    const idle = lane.rows.find((row) => row.kind === 'span');
    const middle = (idle.set.end[idle.items[3]] + idle.set.start[idle.items[4]]) / 2;
    const hole = () => { view.fit(); api.show(middle - 50000, middle + 50000); view.scroll = 0; view.scroll = Math.max(0, idle.y - 200); view.clamp(); view.draw(); return say(view.x(middle), view.y(idle) + 8); };
    const cards = {
        signal: at(ops, signal), work: at(spans, spans.kind.indexOf(WORK)), cpu: at(spans, spans.kind.indexOf(CPU_WAIT)),
        interrupt: at(spans, spans.kind.indexOf(INTERRUPT)), dpc: at(spans, spans.kind.indexOf(DPC)),
        report: at(points, first(REPORT)), submission: at(points, first(SUBMISSION)), reconnect: at(points, first(RECONNECT)), gap: hole(),
    };
    const engine = model.rows.find((row) => row.kind === 'engine' && row.lane.node === 0);
    const waits = model.lanes.find((lane) => lane.name === 'transform').rows.find((row) => row.kind === 'wait').items;
    const busy = (t) => engine.lane.rows.some((row) => row.items.some((i) => row.set.start[i] <= t && row.set.end[i] >= t));
    const held = [...waits].find((i) => ops.by[i] >= 0 && ops.end[i] > ops.blocked[i] && !busy((ops.blocked[i] + ops.end[i]) / 2));
    const still = (ops.blocked[held] + ops.end[held]) / 2;
    api.show(still - 20000, still + 20000); view.scroll = 0; view.draw();
    cards.engine = say(view.x(still), view.y(engine) + 8);
    const nothing = say(3, 300), hidden = document.getElementById('card').hidden;
    return { cards, nothing: hidden };
";

#[test]
fn the_card_tells_handles_values_and_durations_of_whatever_is_under_the_pointer() {
    let scratch = Scratch::new("cards");
    let answer = ask(&scratch, &synthetic(&scratch, "3000"), CARDS);
    for (card, words) in [
        ("signal", ["Signal of the GPU", "0x40000800 = ", "queued for", "Released a wait of transform"].as_slice()),
        ("work", &["Submission", "queue", "engine", "node 1 copy", "took"]),
        ("cpu", &["The CPU waits", "0x40000880 ≥", "took"]),
        ("interrupt", &["Interrupt 0", "took", "600 ns"]),
        ("dpc", &["DPC", "took", "900 ns"]),
        ("report", &["NATIVE_FENCE_SIGNALED", "node", "fences"]),
        ("submission", &["Submission", "number"]),
        ("reconnect", &["Doorbell reconnected", "submission"]),
        ("engine", &["Gap of", "transform was blocked on 0x40000800 ≥", "by copy up 0x40000040, render.exe"]),
        ("gap", &["Gap of", "Blocked on 0x40000840 ≥", "by transform 0x40000080, render.exe", "of it"]),
    ] {
        let text = answer["cards"][card].as_str().unwrap();
        for word in words {
            assert!(text.contains(word), "{card}: no `{word}` in: {text}");
        }
    }
    assert_eq!(answer["nothing"], true, "the card goes when there is nothing under the pointer");
}

/// Wheel, drag, marked stretch, keys, buttons, the strip with the whole trace, light and dark.
const HANDS: &str = r"
    const { model, view, input } = api, canvas = document.getElementById('lanes'), map = document.getElementById('map');
    const range = () => { view.draw(); return [view.t0, view.t1]; };
    const key = (key) => window.dispatchEvent(new KeyboardEvent('keydown', { key }));
    canvas.setPointerCapture = map.setPointerCapture = () => {};
    const box = canvas.getBoundingClientRect();
    const point = (type, x, y, more) => canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, ...more }));
    const drag = (from, to, more) => { point('pointerdown', from, 300, more); point('pointermove', to, 300, more); point('pointerup', to, 300, more); };
    const seen = {};
    view.fit(); seen.all = range();
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -400, clientX: box.left + 800, clientY: box.top + 300, cancelable: true })); seen.wheel = range();
    drag(900, 700); seen.drag = range();
    drag(600, 800, { shiftKey: true }); seen.mark = range();
    key('ArrowRight'); seen.right = range(); key('a'); seen.left = range();
    key('w'); seen.closer = range(); key('-'); seen.further = range();
    key('Home'); seen.home = range(); key('End'); seen.end = range();
    document.getElementById('fit').click(); seen.fit = range();
    document.getElementById('in').click(); seen.in = range();
    const strip = map.getBoundingClientRect();
    map.dispatchEvent(new PointerEvent('pointerdown', { clientX: strip.left + strip.width / 4, clientY: strip.top + 9, buttons: 1, pointerId: 1 })); seen.strip = range();
    key('f'); view.scroll = 0; key('ArrowDown'); const scrolled = view.scroll; key('PageUp');
    const wait = model.ops.by.findIndex((by) => by >= 0);
    input.keep(wait); key('n'); const next = view.kept; key('p'); const back = view.kept;
    key('Enter'); seen.kept = range();
    key('Escape'); const gone = view.kept;
    const light = api.pixel(3, RULER + 3), signal = view.ink_.signal;
    key('t'); view.draw(); const dark = api.pixel(3, RULER + 3), theme = document.documentElement.dataset.theme;
    key('t'); const again = document.documentElement.dataset.theme;
    key('?'); const help = document.getElementById('help').open; document.getElementById('help').close();
    return { seen, scrolled, wait, next, back, gone, light, dark, theme, again, help, box: [model.ops.start[wait], model.ops.end[wait]], focusable: canvas.tabIndex };
";

#[test]
fn wheel_pointer_keys_and_buttons_move_through_the_trace_in_light_and_dark() {
    let scratch = Scratch::new("hands");
    let answer = ask(&scratch, &synthetic(&scratch, "2000"), HANDS);
    let seen = |name: &str| {
        let range = numbers(&answer["seen"][name]);
        (range[0], range[1], range[1] - range[0])
    };
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + a.abs());
    let (all, wheel, drag, mark) = (seen("all"), seen("wheel"), seen("drag"), seen("mark"));
    assert!(
        wheel.2 < all.2 * 0.7 && wheel.0 > all.0 && wheel.1 < all.1,
        "the wheel zooms around the pointer: {answer}"
    );
    assert!(near(drag.2, wheel.2) && drag.0 > wheel.0, "dragging to the left moves on: {answer}");
    assert!(mark.2 < drag.2 * 0.25 && mark.0 > drag.0 && mark.1 < drag.1, "a marked stretch is zoomed to: {answer}");
    let (right, left, closer, further) = (seen("right"), seen("left"), seen("closer"), seen("further"));
    assert!(right.0 > mark.0 && near(left.0, mark.0) && closer.2 < left.2 && near(further.2, left.2), "{answer}");
    let (home, end, fit, inside, strip) = (seen("home"), seen("end"), seen("fit"), seen("in"), seen("strip"));
    assert!(home.0.abs() < 1.0 && end.0 > home.0 && near(end.2, home.2), "{answer}");
    assert!(near(fit.2, all.2) && inside.2 < fit.2 && near(strip.2, inside.2) && strip.0 < inside.0, "{answer}");
    assert!(answer["scrolled"].as_f64() > Some(0.0), "the lanes scroll");
    assert_eq!(answer["next"].as_i64(), answer["wait"].as_i64().map(|wait| wait + 1));
    assert_eq!((&answer["back"], answer["gone"].as_i64()), (&answer["wait"], Some(-1)));
    let (kept, shown) = (seen("kept"), numbers(&answer["box"]));
    assert!(kept.0 <= shown[0] && kept.1 >= shown[1] && kept.2 < 3.0 * (shown[1] - shown[0]), "Enter zooms: {answer}");
    let sum = |name: &str| numbers(&answer[name])[..3].iter().sum::<f64>();
    assert!(sum("light") > 600.0 && sum("dark") < 200.0, "{answer}");
    assert_eq!((&answer["theme"], &answer["again"]), (&"dark".into(), &"light".into()));
    assert_eq!((&answer["help"], &answer["focusable"]), (&true.into(), &0.into()));
}

/// Boxes of one row never lie over each other, and every lane has its name where its rows are.
const NAMES: &str = r"
    const { model, view } = api;
    let over = 0, outside = 0, full = 0;
    for (const row of model.rows) {
        if (row.kind === 'marks') continue;
        const crowded = row.lane.rows.filter((other) => other.kind === row.kind).length >= 6;
        for (let k = 1; k < row.items.length; k++) {
            if (!crowded && row.set.start[row.items[k]] < row.set.end[row.items[k - 1]]) over++;
        }
        full += crowded;
        if (row.y < row.lane.y || row.y + row.height > row.lane.y + row.lane.height) outside++;
    }
    const tops = model.groups.flatMap((group) => [group.y, ...group.lanes.map((lane) => lane.y)]);
    view.ink.font = '600 12px ' + view.family;
    const wide = model.groups.flatMap((group) => group.lanes).filter((lane) => view.ink.measureText(lane.name).width > GUTTER - 70).length;
    return { over, outside, full, ordered: tops.every((top, at) => !at || top > tops[at - 1]), wide };
";

#[test]
fn nothing_overlaps_and_names_fit() {
    let scratch = Scratch::new("names");
    let answer = ask(&scratch, &synthetic(&scratch, "5000"), NAMES);
    assert_eq!(answer, serde_json::json!({ "over": 0, "outside": 0, "full": 0, "ordered": true, "wide": 0 }));
}

/// A machine whose log of signals is far too small for what a queue signals: the trace and the page say so.
#[test]
fn events_that_an_overrun_log_lost_are_flagged_on_the_page() {
    use campanile::trace::{Collector, EventKind, Lane, LaneKind, Recording, perfetto};
    use testbed::setup::{System, SystemOptions};
    use testbed::user::{Adapter, Device, Fence, Node, Queue, QueueOptions};
    let system = System::boot(&SystemOptions::default()).unwrap();
    let process = dxgkrnl::Process::new(system.machine(), "overrun");
    let recording = Recording::start();
    let collector = Collector::start(system.machine(), system.luid(), &recording).unwrap();
    // Undoes what the collector did first.
    system.machine().trace_fences(system.luid(), Some(4)).unwrap();
    {
        let _attached = process.attach();
        let device = Device::new(&Adapter::open_luid(system.luid()).unwrap()).unwrap();
        let mut queue = Queue::new(&device, Node::Compute, QueueOptions::default()).unwrap();
        let fence = Fence::new(&device, 0).unwrap();
        let owner = recording.process(1, "overrun");
        let lane =
            Lane { process: owner, kind: LaneKind::Queue { node: 0 }, name: "small".into(), handle: queue.handle() };
        let lane = recording.lane(lane);
        collector.follow(process.id(), queue.handle(), lane.lane());
        queue.set_tracer(Box::new(lane)).unwrap();
        let mut last = 0;
        for first in (1..=400_u64).step_by(40) {
            let values = first..first + 40;
            last =
                queue.submit(|commands| values.clone().try_for_each(|value| commands.signal(&fence, value))).unwrap();
        }
        queue.wait_progress(last).unwrap();
    }
    process.exit();
    collector.finish();
    let trace = recording.finish();
    system.shutdown().unwrap();
    let executed = trace.events.iter().filter(|event| matches!(event.kind, EventKind::FenceSignalExecuted(_))).count();
    let lost: u64 =
        trace.events.iter().map(|event| if let EventKind::EventsLost { count } = event.kind { count } else { 0 }).sum();
    // Each of the ten submissions logs its progress, too, which is no event of the trace.
    assert!(lost > 0 && (400..=410).contains(&(executed as u64 + lost)), "{executed} executed, {lost} lost");
    let scratch = Scratch::new("overrun");
    let (file, page) = (scratch.path("lost.pftrace"), scratch.path("page.html"));
    fs::write(&file, perfetto::write(&trace)).unwrap();
    campanile(&["timeline", file.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    let answer = ask(
        &scratch,
        &page,
        r"const { model, view } = api, { points } = model, i = points.kind.indexOf(LOST);
          const row = model.rows.find((row) => row.set === points && row.items.includes(i));
          api.show(points.start[i] - 1000, points.start[i] + 1000);
          api.hover(view.x(points.start[i]), view.y(row) + 6);
          return { legend: document.getElementById('legend').innerText, card: document.getElementById('card').innerText };",
    );
    assert!(answer["legend"].as_str().unwrap().contains("events lost"), "{answer}");
    let card = answer["card"].as_str().unwrap();
    assert!(card.contains("Events lost") && card.contains("overrun") && card.contains("small"), "{card}");
}

#[test]
fn ten_events_and_none_are_shown_too() {
    for count in ["0", "10"] {
        let scratch = Scratch::new(count);
        let answer = ask(
            &scratch,
            &synthetic(&scratch, count),
            "return { drawn: api.view.drawn, facts: document.getElementById('facts').innerText };",
        );
        assert!(answer["facts"].as_str().unwrap().starts_with(&format!("{count} events")), "{answer}");
    }
}

#[test]
fn a_million_events_cost_the_pixels_they_cover() {
    let scratch = Scratch::new("million");
    let page = synthetic(&scratch, "1000000");
    assert!(fs::metadata(&page).unwrap().len() < 10_000_000);
    let answer = ask(
        &scratch,
        &page,
        "const { view, model } = api; view.fit(); view.draw(); const all = view.drawn;
         const middle = model.about.length / 2;
         return { all, part: api.show(middle, middle + 4000000), rows: model.rows.length, operations: model.ops.count };",
    );
    assert!(answer["operations"].as_u64() > Some(200_000), "{answer}");
    let rows = answer["rows"].as_u64().unwrap();
    for view in ["all", "part"] {
        let boxes = answer[view]["boxes"].as_u64().unwrap();
        assert!(boxes > rows && boxes <= rows * 1400, "{answer}");
    }
}

#[test]
fn a_traced_run_becomes_a_page() {
    let scratch = Scratch::new("run");
    let (trace, page) = (scratch.path("out.pftrace"), scratch.path("page.html"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    campanile(&["run", "--driver", "linked", "--trace", trace.to_str().unwrap(), file.to_str().unwrap()]);
    let read = campanile::trace::perfetto::read(&fs::read(&trace).unwrap()).unwrap();
    let operations = campanile::trace::operation::operations(&read);
    assert!(operations.len() >= 5, "a chunk has three signals and two waits: {operations:?}");
    assert!(
        operations.iter().all(|operation| operation.queued.is_some() && operation.done.is_some()),
        "{operations:?}"
    );
    assert_eq!(operations.len(), 5, "one chunk");
    let count = |name: &str| read.events.iter().filter(|event| event.kind.name() == name).count();
    assert_eq!((count("events lost"), count("log violation")), (0, 0), "nothing is lost in an ordinary run");
    assert_eq!((count("submission"), count("work")), (3, 3), "the work of each submission follows from the logs");
    for name in ["interrupt", "DPC", "report", "doorbell connected", "doorbell disconnected", "made resident"] {
        assert!(count(name) > 0, "no {name}");
    }
    for name in ["paging packet", "paging operation", "CPU wait", "doorbell ring"] {
        assert!(count(name) > 0, "no {name}");
    }
    campanile(&["timeline", trace.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    let answer = ask(&scratch, &page, "return { lanes: api.model.lanes.map((lane) => lane.name) };");
    for lane in ["copy up", "encipher", "copy down", "main thread", "interrupts and DPCs", "memory manager"] {
        assert!(answer["lanes"].as_array().unwrap().contains(&lane.into()), "{answer}");
    }
}
