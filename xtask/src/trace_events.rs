//! What the driver's trace has in it, printed from its table of events: `docs/trace-events.md` and `debug/campanile.wprp`.

use std::fmt::Write as _;
use std::path::Path;

use campanile_hw::trace::event::{EVENTS, EventInfo, FieldInfo};
use campanile_hw::trace::reason::Reason;
use campanile_hw::trace::{Component, KEYWORD_REFUSAL, KEYWORD_WORK, PROVIDER, PROVIDER_GUID, etw};

use wddm_ddi::km::SLOT_NAMES;

use crate::publish::publish;

/// Between these lines of the debugger's script stand its tables.
const TABLES: [&str; 2] = ["// BEGIN: written by `cargo xtask docs` from hw/src/trace\n", "// END\n"];

/// Functions of interfaces, numbered behind the slots.
const INTERFACE_DDIS: [&str; 3] =
    ["DxgkDdiQueryFeatureSupport", "DxgkDdiQueryFeatureInterface", "DxgkDdiBuildTestCommandBuffer"];

/// Brings the files up to date, or with `check` fails when they are not.
pub(crate) fn trace_events(root: &Path, check: bool) -> Result<(), String> {
    publish(&root.join("docs/trace-events.md"), &document(), check)?;
    publish(&root.join("debug/campanile.wprp"), &profile(), check)?;
    let script = root.join("debug/campanile.js");
    let text = std::fs::read_to_string(&script).map_err(|error| format!("{}: {error}", script.display()))?;
    let place = text.split_once(TABLES[0]).and_then(|(before, rest)| Some((before, rest.split_once(TABLES[1])?.1)));
    let (before, behind) = place.ok_or_else(|| format!("{}: no place for tables", script.display()))?;
    publish(&script, &[before, TABLES[0], &tables(), TABLES[1], behind].concat(), check)
}

/// Names of numbers in events, for the debugger's script.
fn tables() -> String {
    let list = |name: &str, names: &mut dyn Iterator<Item = &str>| {
        let quoted: Vec<String> = names.map(|name| format!("    \"{name}\",\n")).collect();
        format!("const {name} = [\n{}];\n", quoted.concat())
    };
    let mut out = list("COMPONENTS", &mut Component::ALL.iter().map(|component| component.name()));
    out += &list("REASONS", &mut Reason::ALL.iter().map(|reason| reason.name()));
    out += &list("DDIS", &mut SLOT_NAMES.into_iter().chain(INTERFACE_DDIS));
    out.push_str("const EVENTS = {\n");
    for event in EVENTS {
        let field = |field: &FieldInfo| format!("[\"{}\", \"{}\"]", field.name, field.kind.name());
        let fields: Vec<String> = event.fields.iter().map(field).collect();
        let _ = writeln!(out, "    {}: {{ name: \"{}\", fields: [{}] }},", event.id, event.name, fields.join(", "));
    }
    out.push_str("};\n");
    out
}

/// The provider's identifier as text.
fn guid() -> String {
    let (a, b, c, d) = PROVIDER_GUID;
    let tail: String = d[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{a:08x}-{b:04x}-{c:04x}-{:02x}{:02x}-{tail}", d[0], d[1])
}

fn fields(fields: &[FieldInfo]) -> String {
    let list: Vec<String> = fields.iter().map(|field| format!("`{}`: {}", field.name, field.kind.name())).collect();
    list.join(", ")
}

/// Names of the keywords besides that of the component.
fn keywords(event: &EventInfo) -> String {
    let named = [(KEYWORD_REFUSAL, "refusal"), (KEYWORD_WORK, "work")];
    let named: Vec<&str> =
        named.into_iter().filter(|(bit, _)| event.keywords & bit != 0).map(|(_, name)| name).collect();
    named.join(", ")
}

fn events(out: &mut String, component: Option<Component>) {
    out.push_str("\n| number | event | level | keywords | fields | when |\n| --- | --- | --- | --- | --- | --- |\n");
    for event in EVENTS.iter().filter(|event| event.component == component) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            event.id,
            event.name,
            event.level.name(),
            keywords(event),
            fields(event.fields),
            event.meaning.trim()
        );
    }
}

fn document() -> String {
    let mut out = format!(
        "# What the driver tells of itself\n\n\
         Written by `cargo xtask docs` from the table of events in `hw/src/trace`. Where rings and counters are: [debugging.md](debugging.md), \
         *Inside the driver*.\n\n\
         ## ETW\n\n\
         The provider is `{PROVIDER}`, `{{{}}}`, which is the identifier that TraceLogging derives from this name. Every adapter registers it; the events \
         describe themselves, so that no manifest is needed. They are those of the rings of adapters, with the same fields behind these: {}. `sequence` is the event's \
         number in the ring of its component, `adapter` the driver's handle.\n\n\
         ```bat\n\
         wpr -start debug\\campanile.wprp!Campanile.Verbose -filemode\n\
         wpr -stop campanile.etl\n\
         tracerpt campanile.etl -o campanile.xml\n\
         ```\n\n\
         `debug/campanile.wprp` has the profile `Campanile.Verbose` with everything, and `Campanile.Light` without what happens with every submission and interrupt. While the graphics \
         kernel has switched logging on (DxgkDdiControlEtwLogging), it also gets each event up to its level by DxgkCbLogEtwEvent: the identifier of the provider, \
         the event's number as the type, and the 48 bytes of the ring's entry. *Nobody has recorded a trace on Windows yet; what is said here was run against the \
         operating-system side of this repository.*\n\n\
         | keyword | bit | events |\n| --- | --- | --- |\n",
        guid(),
        fields(etw::PREFIX)
    );
    for component in Component::ALL.into_iter().skip(1) {
        let _ = writeln!(out, "| {} | {:#x} | all of this component |", component.name(), component.keyword());
    }
    let _ = writeln!(out, "| refusal | {KEYWORD_REFUSAL:#x} | what was refused or passed over |");
    let _ = writeln!(out, "| work | {KEYWORD_WORK:#x} | what happens with every submission or interrupt |");
    out.push_str(
        "\n## Events\n\nLevels are those of ETW: error 2, warning 3, information 4, verbose 5. A `ddi` is the number of a slot of \
         DRIVER_INITIALIZATION_DATA, 0 being DxgkDdiAddDevice; 192 and above are functions of interfaces: QueryFeatureSupport, QueryFeatureInterface, \
         BuildTestCommandBuffer. Queues, nodes and pages are numbers; everything else that ends in 64 bits is a handle or an address.\n\n### Any component\n",
    );
    events(&mut out, None);
    for component in Component::ALL {
        let _ = writeln!(out, "\n### {}", component.name());
        events(&mut out, Some(component));
    }
    out.push_str("\n## Reasons\n\n| number | reason | meaning |\n| --- | --- | --- |\n");
    for reason in Reason::ALL {
        let _ = writeln!(out, "| {} | {} | {} |", *reason as u16, reason.name(), reason.meaning().trim());
    }
    out
}

/// The profile of Windows Performance Recorder.
fn profile() -> String {
    let all = Component::ALL.into_iter().skip(1).fold(KEYWORD_REFUSAL, |bits, component| bits | component.keyword());
    let guid = guid();
    let provider = |id: &str, level: u8, keywords: u64| {
        format!(
            "    <EventProvider Id=\"{id}\" Name=\"{guid}\" Level=\"{level}\" NonPagedMemory=\"true\">\n      <Keywords>\n        \
             <Keyword Value=\"{keywords:#x}\"/>\n      </Keywords>\n    </EventProvider>\n"
        )
    };
    let use_of = |name: &str, provider: &str, detail: &str, what: &str| {
        format!(
            "    <Profile Id=\"{name}.{detail}.File\" Name=\"{name}\" Description=\"{what}\" LoggingMode=\"File\" DetailLevel=\"{detail}\">\n      <Collectors>\n        \
             <EventCollectorId Value=\"Collector\">\n          <EventProviders>\n            <EventProviderId Value=\"{provider}\"/>\n          \
             </EventProviders>\n        </EventCollectorId>\n      </Collectors>\n    </Profile>\n"
        )
    };
    let memory = |detail: &str, name: &str, what: &str| {
        format!(
            "    <Profile Id=\"{name}.{detail}.Memory\" Name=\"{name}\" Base=\"{name}.{detail}.File\" Description=\"{what}\" LoggingMode=\"Memory\" DetailLevel=\"{detail}\"/>\n"
        )
    };
    let (everything, light) =
        ("Campanile driver, all events", "Campanile driver, without every submission and interrupt");
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!-- Written by `cargo xtask docs`: the events of docs/trace-events.md. -->\n\
         <WindowsPerformanceRecorder Version=\"1.0\" Author=\"Campanile\">\n  <Profiles>\n    \
         <EventCollector Id=\"Collector\" Name=\"Campanile\">\n      <BufferSize Value=\"256\"/>\n      <Buffers Value=\"64\"/>\n    </EventCollector>\n{}{}{}{}{}{}  </Profiles>\n\
         </WindowsPerformanceRecorder>\n",
        provider("Everything", 5, all | KEYWORD_WORK),
        provider("Light", 4, all),
        use_of("Campanile", "Everything", "Verbose", everything),
        use_of("Campanile", "Light", "Light", light),
        memory("Verbose", "Campanile", everything),
        memory("Light", "Campanile", light),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_and_profile_are_fresh() {
        trace_events(&crate::root(), true).expect("run `cargo xtask docs`");
    }

    #[test]
    fn the_profile_has_the_provider_and_no_keyword_that_no_event_has() {
        let profile = profile();
        assert_eq!(profile.matches(&guid()).count(), 2);
        let bits = EVENTS.iter().fold(0, |bits, event| {
            let components =
                Component::ALL.into_iter().filter(|component| event.component.is_none_or(|c| c == *component));
            components.fold(bits, |bits, component| bits | event.keyword(component))
        });
        let written: Vec<u64> = profile
            .split("Keyword Value=\"0x")
            .skip(1)
            .map(|rest| u64::from_str_radix(rest.split('"').next().unwrap(), 16).unwrap())
            .collect();
        assert_eq!(written, [bits & !1, bits & !1 & !KEYWORD_WORK]);
    }
}
