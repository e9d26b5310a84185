//! Tests of memory as the function reaches it.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

const PAGES: u64 = 16;

pub(super) fn memory() -> (Memory, File) {
    let vram = shared_file(c"vram", SYSTEM_PAGE_SIZE).expect("a file");
    let memory = Memory::new(HostMapping::new(&vram, 0, SYSTEM_PAGE_SIZE, true).expect("a mapping"));
    memory.enable(true);
    (memory, shared_file(c"ram", PAGES * SYSTEM_PAGE_SIZE).expect("a file"))
}

pub(super) fn at(page: u64) -> Location {
    Location::new().with_address(page * SYSTEM_PAGE_SIZE).with_system(true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The model says for every page of bus addresses which page of the file it shows.
    #[test]
    fn ranges_agree_with_a_page_by_page_model(
        steps in proptest::collection::vec((any::<bool>(), 0..24u64, 0..PAGES, 1..6u64), 1..40),
    ) {
        let (memory, file) = memory();
        for page in 0..PAGES {
            file.write_all_at(&page.to_le_bytes(), page * SYSTEM_PAGE_SIZE).expect("write");
        }
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for (map, start, offset, len) in steps {
            if map {
                let free = (start..start + len).all(|page| !model.contains_key(&page));
                let inside = offset + len <= PAGES;
                let result = memory.map(start * SYSTEM_PAGE_SIZE, &file, offset * SYSTEM_PAGE_SIZE, len * SYSTEM_PAGE_SIZE, true);
                prop_assert_eq!(result.is_ok(), free && inside);
                if result.is_ok() {
                    model.extend((0..len).map(|page| (start + page, offset + page)));
                }
            } else {
                memory.unmap(start * SYSTEM_PAGE_SIZE, len * SYSTEM_PAGE_SIZE);
                model.retain(|page, _| !(start..start + len).contains(page));
            }
            let access = memory.access();
            for page in 0..32 {
                let shown = access.resolve(at(page), 8, true).and_then(|span| span.load(0));
                prop_assert_eq!(shown, model.get(&page).copied());
            }
        }
    }
}

#[test]
fn one_file_is_mapped_once_and_neighbours_become_one_range() {
    let (memory, file) = memory();
    for page in 0..PAGES {
        memory.map(page * SYSTEM_PAGE_SIZE, &file, page * SYSTEM_PAGE_SIZE, SYSTEM_PAGE_SIZE, true).expect("mapped");
    }
    let access = memory.access();
    assert_eq!((access.system.ranges.len(), access.system.files.len()), (1, 1));
    assert_eq!(access.resolve(at(0), u64::MAX, true).map(Span::len), Some(PAGES * SYSTEM_PAGE_SIZE));
    drop(access);
    memory.unmap(0, PAGES * SYSTEM_PAGE_SIZE);
    memory.map(0, &file, 0, SYSTEM_PAGE_SIZE, false).expect("mapped");
    assert!(memory.access().resolve(at(0), 8, true).is_none(), "read-only");
    assert_eq!(memory.access().resolve(at(0), 8, false).and_then(|span| span.load(0)), Some(0));
}

#[test]
fn on_a_host_that_caches_everything_only_who_snoops_sees_what_the_host_does() {
    for cached in [false, true] {
        let (memory, file) = memory();
        let memory = memory.on_host(cached);
        memory.map(0, &file, 0, SYSTEM_PAGE_SIZE, true).expect("mapped");
        let access = memory.access();
        let word = |location: Location| access.resolve(location, 8, true).expect("mapped");
        let (snooped, past) = (word(at(0)), word(at(0).unsnooped()));
        assert!(snooped.store(0, 7));
        assert_eq!(past.load(0), Some(if cached { 0 } else { 7 }));
        assert!(past.store(0, 9));
        assert_eq!((snooped.load(0), past.load(0)), (Some(if cached { 7 } else { 9 }), Some(9)));
    }
}

#[test]
fn files_are_bounded_and_their_places_are_free_again_when_unmapped() {
    let (memory, _) = memory();
    let map = |page: u64| {
        memory.map(
            page * SYSTEM_PAGE_SIZE,
            &shared_file(c"ram", SYSTEM_PAGE_SIZE).expect("a file"),
            0,
            SYSTEM_PAGE_SIZE,
            true,
        )
    };
    for page in 0..FILES_MAX as u64 {
        map(page).expect("mapped");
    }
    let next = FILES_MAX as u64;
    assert_eq!(map(next).expect_err("full").kind(), io::ErrorKind::QuotaExceeded);
    memory.unmap(0, SYSTEM_PAGE_SIZE);
    map(next).expect("mapped");
}

#[test]
fn every_way_of_moving_bytes_moves_the_same() {
    let (memory, file) = memory();
    memory.map(0, &file, 0, 4 * SYSTEM_PAGE_SIZE, true).expect("mapped");
    let input: Vec<u8> = (0..4 * SYSTEM_PAGE_SIZE).map(|index| (index * 7 + index / 251) as u8).collect();
    for (from, to, len) in [(0, 0, 1), (1, 2, 63), (3, 3, 64), (5, 1, 65), (0, 64, 4096), (7, 9, 4999), (2, 0, 130)] {
        for streams in [false, true] {
            file.write_all_at(&input, 0).expect("write");
            let access = memory.access();
            let whole = |page| access.resolve(at(page), 2 * SYSTEM_PAGE_SIZE, true);
            let (source, target) =
                (whole(0).and_then(|span| span.after(from)), whole(2).and_then(|span| span.after(to)));
            let (source, target) = source.zip(target).expect("spans");
            let moved = if streams { target.stream_from(source, len) } else { target.copy_from(source, len) };
            streamed();
            assert_eq!(moved, len);
            let mut expected = input.clone();
            let (start, end) = ((2 * SYSTEM_PAGE_SIZE + to) as usize, (2 * SYSTEM_PAGE_SIZE + to + len) as usize);
            expected[start..end].copy_from_slice(&input[from as usize..(from + len) as usize]);
            let mut found = vec![0; input.len()];
            assert_eq!(
                access.resolve(at(0), 4 * SYSTEM_PAGE_SIZE, false).map(|span| span.read(&mut found)),
                Some(found.len())
            );
            assert!(found == expected, "{len} bytes from {from} to {to}, streams: {streams}");
            let mut part = vec![0; len as usize];
            assert_eq!(target.read(&mut part), part.len());
            assert_eq!(part, expected[start..end], "read at {to}");
        }
    }
}

#[test]
fn words_lie_inside_their_span_and_are_aligned() {
    let (memory, _) = memory();
    let access = memory.access();
    let span = access.resolve(Location::new(), 32, true).expect("VRAM");
    assert_eq!(
        [(0, 4), (8, 3), (32, 0)].map(|(at, count)| span.words(at, count).map(<[_]>::len)),
        [Some(4), Some(3), Some(0)]
    );
    for (at, count) in [(0, 5), (8, 4), (4, 1), (33, 0), (u64::MAX, 0), (0, usize::MAX)] {
        assert!(span.words(at, count).is_none(), "{count} words at {at}");
    }
    let [_, three @ ..] = span.words(0, 4).and_then(<[_]>::first_chunk::<4>).expect("four words");
    store_all(three, [5, 6, 7]);
    assert_eq!([0, 8, 16, 24].map(|at| span.load(at)), [Some(0), Some(5), Some(6), Some(7)]);
    assert_eq!((span.fill(0x0403_0201, 7), span.load(0), span.load(8)), (4, Some(0x0403_0201), Some(5)));
}

#[test]
fn every_way_of_filling_bytes_fills_the_same() {
    let (memory, file) = memory();
    memory.map(0, &file, 0, SYSTEM_PAGE_SIZE, true).expect("mapped");
    for (at, len) in [(0, 64), (0, 3), (4, 4), (60, 72), (64, 4000), (1, 200), (62, 1030), (4, 63), (100, 3900)] {
        for streams in [false, true] {
            file.write_all_at(&[0x55; SYSTEM_PAGE_SIZE as usize], 0).expect("write");
            let access = memory.access();
            let page =
                access.resolve(Location::from_bits(0).with_system(true), SYSTEM_PAGE_SIZE, true).expect("mapped");
            let span = page.after(at).expect("inside");
            let word = 0x0403_0201;
            let filled = if streams { span.stream_fill(word, len) } else { span.fill(word, len) };
            streamed();
            assert_eq!(filled, len & !3);
            let mut bytes = [0; SYSTEM_PAGE_SIZE as usize];
            assert_eq!(page.read(&mut bytes), bytes.len());
            let (before, rest) = bytes.split_at(at as usize);
            let (inside, after) = rest.split_at(filled as usize);
            assert!(before.iter().chain(after).all(|byte| *byte == 0x55), "{len} at {at}, streams: {streams}");
            assert!(inside.chunks(4).all(|chunk| chunk == [1, 2, 3, 4]), "{len} at {at}, streams: {streams}");
        }
    }
    let access = memory.access();
    let reader = access.resolve(Location::from_bits(0).with_system(true), SYSTEM_PAGE_SIZE, false).expect("mapped");
    assert_eq!((reader.stream_fill(1, 128), reader.fill(1, 128)), (0, 0));
}

#[test]
fn spans_check_bounds_alignment_and_permission() {
    let (memory, _) = memory();
    let access = memory.access();
    let span = access.resolve(Location::new(), 16, true).expect("VRAM");
    assert!(span.store(8, 7) && span.load(8) == Some(7));
    for offset in [1, 4, 9, 15, 16, u64::MAX, u64::MAX - 7] {
        assert_eq!(span.load(offset), None, "{offset}");
        assert!(!span.store(offset, 1) && !span.store_low(offset | 1, 1), "{offset}");
    }
    assert!(span.after(16).is_none() && span.after(u64::MAX).is_none());
    let reader = access.resolve(Location::new(), 16, false).expect("VRAM");
    assert!(!reader.store(0, 1) && !reader.store_low(0, 1));
    assert_eq!((reader.fill(1, 16), reader.zero(16), reader.copy_from(span, 16)), (0, 0, 0));
    assert_eq!(reader.stream_from(span, 16), 0);
    let mut bytes = [0; 32];
    assert_eq!(span.read(&mut bytes), 16);
    assert!(access.resolve(Location::new().with_address(SYSTEM_PAGE_SIZE), 1, false).is_none());
}
