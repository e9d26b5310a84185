//! What DxgkDdiCollectDbgInfo of our driver wrote, as somebody sends it in.

use campanile_hw::debug::{HEADER_WORDS, MAGIC, Section};
use testbed::debug::{BadDebugInformation, DebugInformation};

/// A section: its number, and its items.
type Items<'a> = (u16, Vec<&'a [u64]>);

/// The words by the layout alone: each section with its items.
fn sections(words: &[u64]) -> Result<Vec<Items<'_>>, BadDebugInformation> {
    let (mut sections, mut at) = (Vec::new(), HEADER_WORDS);
    while at < words.len() {
        let (number, item, items) = (words[at] as u16, (words[at] >> 16) as u16, words[at] >> 32);
        let bad = BadDebugInformation::Section(at);
        let left = (words.len() - at - 1) as u64;
        // At most 48 bits.
        if u64::from(item) * items > left || item == 0 && items != 0 {
            return Err(bad);
        }
        let body = &words[at + 1..][..usize::from(item) * items as usize];
        let list: Vec<&[u64]> = if item == 0 { Vec::new() } else { body.chunks(usize::from(item)).collect() };
        if least(number).is_some_and(|least| list.iter().any(|item| item.len() < least)) {
            return Err(bad);
        }
        at += 1 + body.len();
        sections.push((number, list));
    }
    Ok(sections)
}

/// Words that an item of a section has at least; `None` for sections that are passed over.
fn least(number: u16) -> Option<usize> {
    let known = [
        Section::Device,
        Section::Nodes,
        Section::Reasons,
        Section::Rings,
        Section::Queues,
        Section::Doorbells,
        Section::Fences,
        Section::OpenFences,
        Section::Dispatches,
        Section::Events,
    ];
    // The number of a component is added to that of its events.
    let number = if (0x100..0x200).contains(&number) { Section::Events as u16 } else { number };
    known.into_iter().find(|section| *section as u16 == number).map(Section::words)
}

/// The words, without those behind the number of words that they say to be.
fn words(bytes: &[u8]) -> Result<Vec<u64>, BadDebugInformation> {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let truncated = BadDebugInformation::Truncated(bytes.len());
    match words[..] {
        [] => Err(truncated),
        [magic, ..] if magic != MAGIC => Err(BadDebugInformation::Magic(magic)),
        [_, count, ..] if (HEADER_WORDS as u64..=words.len() as u64).contains(&count) => {
            Ok(words[..count as usize].to_vec())
        }
        _ => Err(truncated),
    }
}

/// Debug data are refused by the error that a plain reading of their layout finds, or have the items that it finds, with their handles; they are printed the same way each time.
pub(crate) fn debug_data(data: &[u8]) {
    let decoded = DebugInformation::decode(data);
    let words = words(data);
    let sections = words.as_deref().map_err(|error| *error).and_then(sections);
    let (information, sections) = match (decoded, sections) {
        (Ok(information), Ok(sections)) => (information, sections),
        (Err(error), Err(plain)) => {
            assert_eq!(error, plain);
            assert!(!error.to_string().is_empty(), "{error:?} has no text");
            return;
        }
        (decoded, plain) => panic!("{decoded:?}, but by the layout {plain:?}"),
    };
    let items = |section: Section| {
        sections.iter().filter(move |(number, _)| *number == section as u16).flat_map(|(_, items)| items)
    };
    assert_eq!(information.nodes.len(), items(Section::Nodes).count(), "nodes");
    assert_eq!(information.dispatches.len(), items(Section::Dispatches).count(), "dispatches");
    assert_eq!(information.reasons.len(), items(Section::Reasons).count(), "reasons");
    assert_eq!(information.device.is_some(), items(Section::Device).next().is_some(), "device");
    assert!(
        information.queues.iter().map(|queue| queue.handle).eq(items(Section::Queues).map(|item| item[0])),
        "queues"
    );
    assert!(
        information.doorbells.iter().map(|bell| bell.handle).eq(items(Section::Doorbells).map(|item| item[0])),
        "doorbells"
    );
    assert!(
        information.fences.iter().map(|fence| fence.handle).eq(items(Section::Fences).map(|item| item[0])),
        "fences"
    );
    assert_eq!(information.to_string(), DebugInformation::decode(data).expect("decoded before").to_string());
}
