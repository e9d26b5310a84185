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

/// Looks at the first wait that was held up: colours of both boxes, its card, the gap it explains, then zooms and moves.
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
         return { all, part: api.show(middle, middle + 400000), rows: model.rows.length, operations: model.ops.count };",
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
    campanile(&["timeline", trace.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    let answer = ask(&scratch, &page, "return { lanes: api.model.lanes.map((lane) => lane.name) };");
    for lane in ["copy up", "transpose", "copy down", "main thread", "interrupts and DPCs"] {
        assert!(answer["lanes"].as_array().unwrap().contains(&lane.into()), "{answer}");
    }
}
