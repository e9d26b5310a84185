//! Putting the page together.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::data::{self, Picture};
use super::thin;
use crate::trace::Trace;

/// No page is larger.
pub const PAGE_BYTES_MAX: usize = 9_500_000;

const FRAME: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// In the order in which they use each other.
const SCRIPTS: [&str; 6] = [
    include_str!("page/decode.js"),
    include_str!("page/layout.js"),
    include_str!("page/draw.js"),
    include_str!("page/hover.js"),
    include_str!("page/input.js"),
    include_str!("page/main.js"),
];

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The HTML text.
    pub html: String,
    /// Boxes and marks that were left out to keep it small.
    pub left_out: u64,
}

/// Draws a trace called `name`.
pub fn render(trace: &Trace, name: &str) -> Page {
    let mut picture = Picture::new(trace);
    let mut left_out = 0;
    loop {
        let html = assemble(trace, &picture, name, left_out);
        if html.len() <= PAGE_BYTES_MAX || picture.len() == 0 {
            return Page { html, left_out };
        }
        let share = PAGE_BYTES_MAX as f64 / html.len() as f64 * 0.95;
        left_out += thin::thin(&mut picture, share);
    }
}

fn assemble(trace: &Trace, picture: &Picture, name: &str, left_out: u64) -> String {
    let (mut description, columns) = data::encode(trace, picture);
    description["name"] = name.into();
    description["leftOut"] = left_out.into();
    // Nothing in a name may end the element that holds it.
    let description = description.to_string().replace('<', "\\u003c");
    let parts = [
        ("{{title}}", escape(name)),
        ("{{style}}", STYLE.to_owned()),
        ("{{script}}", SCRIPTS.concat()),
        ("{{description}}", description),
        ("{{columns}}", base64(&deflate(&columns))),
    ];
    let mut html = String::new();
    let mut rest = FRAME;
    // One pass over the frame, so that nothing in a part is taken for a place.
    while let Some((at, (place, part))) =
        parts.iter().filter_map(|entry| Some((rest.find(entry.0)?, entry))).min_by_key(|(at, _)| *at)
    {
        html.push_str(&rest[..at]);
        html.push_str(part);
        rest = &rest[at + place.len()..];
    }
    html.push_str(rest);
    html
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail; if it did, the page would say that it holds no events.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= group.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Lane, LaneKind, synthetic};

    #[test]
    fn bytes_become_base64() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_page_needs_nothing_from_outside() {
        let html = render(&synthetic(100), "test").html;
        for word in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!html.contains(word), "{word}");
        }
        for place in ["{{title}}", "{{style}}", "{{script}}", "{{description}}", "{{columns}}"] {
            assert!(!html.contains(place), "{place} was left open");
        }
    }

    #[test]
    fn no_name_can_leave_its_place_in_the_page() {
        let mut trace = synthetic(10);
        let process = trace.add_process(9, "</script><b>{{columns}}");
        trace.add_lane(Lane { process, kind: LaneKind::Cpu, name: "<!--</script>".into(), handle: 0 });
        let html = render(&trace, "</title><b>").html;
        assert!(!html.contains("</script><b>") && !html.contains("<!--</script>") && !html.contains("</title><b>"));
    }

    #[test]
    fn a_trace_of_any_size_makes_a_small_page() {
        let page = render(&synthetic(1_500_000), "large");
        assert!(page.html.len() <= PAGE_BYTES_MAX, "{}", page.html.len());
        assert!(page.html.len() > PAGE_BYTES_MAX / 3, "most of the size is used");
    }
}
