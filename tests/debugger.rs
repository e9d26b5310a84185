//! The WinDbg script and the visualizers, on memory of the driver's Windows image that runs here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use campanile::memory_image::MemoryImage;
use campanile_device::Variant;
use campanile_umd::{Adapter, Device, Fence, Node, Queue, QueueOptions, SubmissionModel};
use dxgkrnl::DriverMemory;
use serde_json::Value;
use testbed::setup::{DriverChoice, System, SystemOptions, shipped};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A file that is gone with the value.
struct Image(PathBuf);

impl Image {
    fn of(system: &System) -> Self {
        let memory = system.driver_memory().expect("a process may read its own memory");
        let image = Self::empty();
        MemoryImage::new(&memory).expect("the PDB lies beside the driver").write(&image.0).expect("it can be written");
        image
    }

    fn empty() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("campanile-image-{}-{}.json", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.0).expect("it was written")).expect("it is JSON")
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut image = self.json();
        change(&mut image);
        std::fs::write(&self.0, image.to_string()).expect("it can be written");
    }

    /// Output of a command that succeeds.
    fn command(&self, command: &str) -> String {
        let (code, text, errors) = self.run(&[command]);
        assert_eq!((code, errors.as_str()), (0, ""), "{command}: {text}");
        text
    }

    /// Exit code, output and errors.
    fn run(&self, commands: &[&str]) -> (i32, String, String) {
        let output = Command::new("node")
            .arg(Path::new(ROOT).join("debug/linux.js"))
            .arg(&self.0)
            .args(commands)
            .output()
            .expect("node is installed: `cargo xtask test` does that, and by hand it is `apt-get install nodejs`");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().expect("it ends by itself"), text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A file that stays behind lies where temporary files lie.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A machine with the driver's image and two doorbell pages.
fn boot() -> System {
    DriverChoice::Image(shipped("campanile_kmd.sys")).select();
    let variant = Variant { doorbells: 2, ..Variant::default() };
    System::boot(&SystemOptions { variant, ..SystemOptions::default() }).expect("`cargo xtask pe` builds the driver")
}

/// A device on the system's adapter, in a process of its own.
fn with_device(system: &System, work: impl FnOnce(&Device)) {
    let process = dxgkrnl::Process::new(system.machine(), "application");
    {
        let _attached = process.attach();
        let adapter = Adapter::open_luid(dxgkrnl::thunks(), system.luid()).expect("the adapter is there");
        work(&Device::new(&adapter).expect("a device"));
    }
    process.exit();
}

/// A user-mode queue that has done something, so that its doorbell was connected.
fn queue(device: &Device, ring_entries: u32) -> Queue {
    let options = QueueOptions { ring_entries, model: Some(SubmissionModel::User), ..QueueOptions::default() };
    let mut queue = Queue::new(device, Node::Copy, options).expect("a queue");
    let value = queue.submit(|commands| commands.nop()).expect("it takes work");
    queue.wait_progress(value).expect("the work is done");
    queue
}

fn line<'a>(text: &'a str, part: &str) -> &'a str {
    let mut lines = text.lines().filter(|line| line.contains(part));
    let (Some(line), None) = (lines.next(), lines.next()) else { panic!("one line with {part:?} in:\n{text}") };
    line
}

/// The number in `queue N on node`.
fn queue_number(line: &str) -> u32 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "queue").expect("a queue");
    words[at + 1].trim_end_matches(',').parse().expect("its number")
}

#[test]
fn the_commands_show_queues_doorbells_and_fences_as_they_are() {
    let system = boot();
    with_device(&system, |device| {
        let queues = [128, 256, 512].map(|entries| queue(device, entries));
        let fence = Fence::new(device, 7).expect("a fence");
        let image = Image::of(&system);

        let adapter = image.command("!campanile.adapter");
        assert!(line(&adapter, "adapter 0 at").ends_with(": runs"), "{adapter}");
        assert!(adapter.contains("doorbell pages 2,") && adapter.contains("user_mode_submission"), "{adapter}");
        assert!(adapter.contains("3 hardware queue, 3 doorbell, 4 fence, 4 open fence"), "{adapter}");

        let shown = image.command("!campanile.queues");
        assert!(shown.starts_with("adapter 0: 3 hardware queues\n"), "{shown}");
        for entries in [128, 256, 512] {
            assert!(shown.contains(&format!(" of {entries} entries")), "{shown}");
        }
        // Of three queues and two pages, the one that came first has none.
        let without = line(&shown, "doorbell disconnected");
        assert!(without.contains("node 1, user mode: runs;"), "{shown}");
        assert_eq!(shown.matches("doorbell page ").count(), 2, "{shown}");

        let doorbells = image.command("!campanile.doorbells");
        assert!(doorbells.contains("2 of 2 doorbell pages lent, 3 doorbells"), "{doorbells}");
        assert!(!doorbells.contains(&format!("queue {},", queue_number(without))), "{doorbells}");

        let fences = image.command("!campanile.fences");
        assert!(fences.starts_with("adapter 0: 4 native fences\n"), "{fences}");
        line(&fences, &format!("current value at {:#x}, ", fence.gpu_address()));

        let trace = image.command("!campanile.trace");
        let opened = line(&trace, &format!("current {:#x}", fence.gpu_address()));
        assert!(opened.contains(" fence #") && opened.contains("FenceOpened: open 0x"), "{opened}");
        let ages: Vec<f64> =
            trace.lines().skip(1).map(|line| line.trim().split(' ').next().unwrap().parse().expect("an age")).collect();
        assert!(ages.len() == 100 && ages.is_sorted_by(|a, b| a >= b) && ages.last() == Some(&0.0), "{trace}");

        let why = image.command("!campanile.why");
        assert_eq!(why.lines().count(), 1, "{why}");
        assert_eq!(queue_number(&why), queue_number(without));
        assert!(why.contains("rings in vain until it connects again"), "{why}");
        drop(queues);
    });
    let image = Image::of(&system);
    assert_eq!(image.command("!campanile.queues"), "adapter 0: 0 hardware queues\n");
    assert!(image.command("!campanile.why").starts_with("the driver knows of nothing"));
    system.shutdown().expect("nothing is left");
}

#[test]
fn a_refused_call_is_in_the_trace_with_its_reason_and_counted() {
    let system = boot();
    let image = Image::of(&system);
    let shown = image.command("!campanile.adapter");
    let counted = line(&shown, "refused:").trim().to_owned();
    let trace = image.command("!campanile.trace");
    let refusals: Vec<&str> = trace.lines().filter(|line| line.contains(" Refused: ")).collect();
    for (reason, count) in refusals.iter().map(|line| {
        let reason = line.split("reason ").nth(1).expect("a reason").split(',').next().expect("a word");
        (reason, refusals.iter().filter(|other| other.contains(&format!("reason {reason},"))).count())
    }) {
        assert!(counted.contains(&format!("{reason} {count}")), "{reason} {count} in {counted}");
    }
    // The operating-system side asks for features that the driver has not.
    assert!(refusals.iter().any(|line| line.contains("ddi DxgkDdiQuery")), "{trace}");
    system.shutdown().expect("nothing is left");
}

#[test]
fn why_names_sleep_saved_queues_and_an_adapter_that_is_gone() {
    let mut system = boot();
    with_device(&system, |device| {
        let _queue = queue(device, 128);
        system.machine().power_down(system.luid()).expect("an idle adapter sleeps");
        let why = Image::of(&system).command("!campanile.why");
        assert!(why.contains("the device not in D0, or being reset: nothing runs"), "{why}");
        assert!(why.contains("saved for D0") && why.contains("context suspended"), "{why}");
        system.machine().power_up(system.luid()).expect("it wakes");
        let why = Image::of(&system).command("!campanile.why");
        assert!(!why.contains("saved for D0") && !why.contains("D0, or"), "{why}");
    });
    system.stop().expect("nobody uses it");
    assert!(Image::of(&system).command("!campanile.adapter").contains(": stopped\n"));
    system.remove().expect("it is stopped");
    assert_eq!(Image::of(&system).command("!campanile.adapter"), "no adapter\n");
    system.shutdown().expect("nothing is left");
}

#[test]
fn what_cannot_be_read_is_said_and_nothing_is_made_up() {
    let system = boot();
    let image = Image::of(&system);
    let commands = image.run(&[]);
    assert_eq!((commands.0, commands.1.lines().next()), (0, Some("!campanile.adapter")));
    let (code, _, errors) = image.run(&["!campanile.colour"]);
    assert!(code == 2 && errors.contains("no command !campanile.colour; there are !campanile.adapter"), "{errors}");

    // Without pool there is no adapter to read.
    image.change(|image| {
        let base = image["module"]["base"].clone();
        let ranges = image["ranges"].as_array_mut().expect("ranges");
        ranges.retain(|range| range["address"] == base);
    });
    let (code, _, errors) = image.run(&["!campanile.adapter"]);
    assert!(code == 1 && errors.contains("!campanile.adapter: unable to read"), "{errors}");
    // A type that is not in the symbols.
    image.change(|image| {
        drop(image["types"].as_object_mut().expect("types").remove("campanile_kmd::adapter::slots::AdapterSlot"))
    });
    let (code, _, errors) = image.run(&["!campanile.adapter"]);
    assert!(code == 1 && errors.contains("no type campanile_kmd::adapter::slots::AdapterSlot"), "{errors}");
    image.change(|image| image["version"] = 99.into());
    assert_eq!(image.run(&["!campanile.adapter"]).0, 2);
    std::fs::write(&image.0, "no JSON").expect("it can be written");
    assert_eq!(image.run(&["!campanile.adapter"]).0, 2);
    drop(image);
    assert_eq!(Image::empty().run(&["!campanile.adapter"]).0, 2);

    let linked = DriverMemory { name: "linked".to_owned(), image: None, ranges: Vec::new() };
    assert_eq!(MemoryImage::new(&linked).expect_err("it has no symbols"), "the driver has no image");
    system.shutdown().expect("nothing is left");
}

/// The script engine of the debugger is older than node's.
#[test]
fn the_script_uses_no_syntax_that_the_debugger_may_not_know() {
    let script = std::fs::read_to_string(Path::new(ROOT).join("debug/campanile.js")).expect("the script");
    for young in
        ["?.", "??", "**", "...", "async ", "await ", "BigInt", "import ", "require(", ".at(", ".flat", ".includes("]
    {
        assert!(!script.contains(young), "{young}");
    }
    let digits_n = |word: &str| word.strip_suffix('n').is_some_and(|digits| digits.parse::<u64>().is_ok());
    let words = || script.split(|c: char| !c.is_ascii_alphanumeric());
    assert!(!words().any(digits_n), "a BigInt");
}

/// A type of the visualizers, with the expressions in it.
#[derive(Debug, Default)]
struct Visualizer {
    name: String,
    expressions: Vec<String>,
}

fn visualizers() -> Vec<Visualizer> {
    let file = std::fs::read_to_string(Path::new(ROOT).join("debug/campanile.natvis")).expect("the file");
    let document = roxmltree::Document::parse(&file).expect("well-formed XML");
    let types = document.descendants().filter(|node| node.has_tag_name("Type"));
    types.map(|of| Visualizer { name: attribute(of, "Name").to_owned(), expressions: expressions(of) }).collect()
}

/// The value of an attribute, or nothing.
fn attribute<'a>(node: roxmltree::Node<'a, '_>, name: &str) -> &'a str {
    node.attribute(name).unwrap_or_default()
}

/// Expressions that the debugger evaluates to show a value of the type `of`.
fn expressions(of: roxmltree::Node<'_, '_>) -> Vec<String> {
    let mut list = Vec::new();
    for node in of.descendants().filter(roxmltree::Node::is_element) {
        let condition = node.attribute("Condition").map(|condition| format!("{{{condition}}}"));
        list.extend(braced(&condition.unwrap_or_default()));
        let text = node.text().unwrap_or_default();
        match node.tag_name().name() {
            "DisplayString" => list.extend(braced(text)),
            "Item" | "ExpandedItem" | "Size" | "ValuePointer" => list.push(text.trim().to_owned()),
            _ => {}
        }
    }
    list
}

/// The texts between braces.
fn braced(text: &str) -> Vec<String> {
    let inside = |part: &str| part.split_once('}').map(|(inside, _)| inside.to_owned());
    text.split('{').skip(1).filter_map(inside).collect()
}

/// True if the type has every member that the expression names.
fn resolves(types: &Value, name: &str, expression: &str) -> bool {
    let path =
        expression.split(',').next().unwrap_or_default().split([' ', '&', '=', '!', '>']).next().unwrap_or_default();
    let mut ty = name.to_owned();
    for member in path.split('.') {
        let Some(fields) = types[&ty]["fields"].as_array() else { return false };
        let Some(field) = fields.iter().find(|field| field["name"] == *member) else { return false };
        ty = field["type"].as_str().unwrap_or_default().to_owned();
    }
    true
}

#[test]
fn the_visualizers_name_types_and_members_of_the_driver() {
    let system = boot();
    let types = Image::of(&system).json()["types"].clone();
    let known: Vec<&String> = types.as_object().expect("types").keys().collect();
    let list = visualizers();
    assert!(list.len() >= 10, "{list:?}");
    for visualizer in &list {
        let matches = |name: &&&String| match visualizer.name.split_once('*') {
            Some((before, after)) => name.starts_with(before) && name.ends_with(after.trim_start()),
            None => **name == &visualizer.name,
        };
        let named: Vec<_> = known.iter().filter(matches).collect();
        assert!(!named.is_empty(), "no type {}", visualizer.name);
        assert!(!visualizer.expressions.is_empty(), "{} shows nothing", visualizer.name);
        for (name, expression) in named.iter().flat_map(|name| visualizer.expressions.iter().map(move |e| (name, e))) {
            assert!(resolves(&types, name, expression), "{name} has no {expression}");
        }
    }
    assert!(!resolves(&types, "campanile_kmd::adapter::Adapter", "objects.nothing"));
    system.shutdown().expect("nothing is left");
}
