//! The images with bytes changed at random, given to the loader that runs them here: each is loaded or refused by name.

use dxgkrnl::{Image, ImageKind};

use crate::image::{IMAGES, built, parse};

/// Changes of each image. Half of them fall on the headers and the tables, where every byte means something.
const CHANGES: u64 = 1_000;

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

/// Loads an image, with every import found, and counts the imports. No code of it runs.
fn imports_asked_for(bytes: &[u8], kind: ImageKind) -> (bool, usize) {
    let asked = std::cell::Cell::new(0);
    let outcome = Image::load("image", bytes, kind, &|_, _| {
        asked.set(asked.get() + 1);
        Some(1)
    });
    if let Err(error) = &outcome {
        assert!(!error.to_string().is_empty());
    }
    (outcome.is_ok(), asked.get())
}

/// Places in the file that the loader reads: the headers, and the tables of imports, exports, relocations, debug information.
fn places(bytes: &[u8]) -> Vec<usize> {
    let file = parse(bytes);
    let mut places: Vec<usize> = (0..0x400).collect();
    for directory in file.data_directories().iter() {
        let (rva, size) = directory.address_range();
        if let Some((offset, left)) = file.section_table().pe_file_range_at(rva) {
            places.extend(offset as usize..(offset + size.min(left)) as usize);
        }
    }
    places
}

#[test]
fn the_images_themselves_load() {
    for (image, kind) in IMAGES.iter().zip([ImageKind::Driver, ImageKind::Dll]) {
        let (loaded, asked) = imports_asked_for(&built(image.file), kind);
        assert!(loaded && asked > 10, "{}: {asked} imports", image.file);
    }
}

#[test]
fn changed_images_are_loaded_or_refused_and_never_more() {
    for (image, kind) in IMAGES.iter().zip([ImageKind::Driver, ImageKind::Dll]) {
        let original = built(image.file);
        let places = places(&original);
        let mut bytes = original.clone();
        let mut refused = 0;
        for seed in 0..CHANGES {
            let mut random = Random(seed);
            let changed: Vec<usize> = (0..1 + random.below(6))
                .map(|_| {
                    if random.below(2) == 0 { places[random.below(places.len())] } else { random.below(original.len()) }
                })
                .collect();
            for place in &changed {
                bytes[*place] = random.below(256) as u8;
            }
            let (loaded, asked) = imports_asked_for(&bytes, kind);
            assert!(asked <= bytes.len() / 8, "{} seed {seed}: {asked} imports", image.file);
            refused += u64::from(!loaded);
            for place in changed {
                bytes[place] = original[place];
            }
        }
        assert!((CHANGES / 50..CHANGES).contains(&refused), "{}: {refused} of {CHANGES} refused", image.file);
    }
}

#[test]
fn images_that_were_cut_off_are_refused() {
    for (image, kind) in IMAGES.iter().zip([ImageKind::Driver, ImageKind::Dll]) {
        let bytes = built(image.file);
        for len in (0..0x400).chain((0x400..bytes.len()).step_by(997)) {
            assert!(!imports_asked_for(&bytes[..len], kind).0, "{} cut to {len} bytes", image.file);
        }
    }
}
