//! What comes with a driver package: images and INF files.

use std::cell::Cell;

use campanile_inf::inf::{Inf, tokens};
use nt::image::{Image, ImageKind};

/// An image is loaded or refused by a named error, asks for no more imports than fit into its bytes, and an export lies inside of the image.
pub(crate) fn pe(data: &[u8]) {
    // A mapping for every input would be all that is measured.
    if declared_size(data).is_some_and(|size| size > 16 << 20) {
        return;
    }
    let identity = Image::pdb_of(data);
    for kind in [ImageKind::Driver, ImageKind::Dll] {
        let asked = Cell::new(0usize);
        let outcome = Image::load("image", data, kind, &|_, _| {
            asked.set(asked.get() + 1);
            Some(1)
        });
        assert!(asked.get() <= data.len() / 8, "{} imports of an image of {} bytes", asked.get(), data.len());
        match outcome {
            Ok(image) => {
                assert_eq!(
                    image.pdb(),
                    identity.as_ref(),
                    "the PDB that the loaded image names is the one in the file"
                );
                for name in image.exports() {
                    let address = image.export(name).expect("an export that is listed is found");
                    assert!(image.rva_of(address).is_some(), "the export {name} lies outside of the image");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty(), "{error:?} has no text"),
        }
    }
}

/// SizeOfImage of a PE32+ image.
fn declared_size(data: &[u8]) -> Option<u32> {
    let at = |offset: usize| Some(u32::from_le_bytes(*data.get(offset..)?.first_chunk::<4>()?));
    let headers = usize::try_from(at(0x3c)?).ok()?;
    at(headers.checked_add(0x50)?)
}

/// Text is read or refused by one sentence; sections that were read are found by their names, whatever the case of letters; a string without percent signs stays as it is.
pub(crate) fn inf(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let inf = match Inf::parse(text) {
        Ok(inf) => inf,
        Err(sentence) => {
            assert!(!sentence.is_empty(), "a refusal says why");
            return;
        }
    };
    for section in &inf.sections {
        assert!(inf.section(&section.name.to_uppercase()).is_some() || !section.name.is_ascii(), "{}", section.name);
        for line in &section.lines {
            for field in &line.fields {
                let expanded = inf.expand(field);
                assert!(!tokens(field).is_empty() || expanded == *field, "{field} became {expanded}");
                // One replacement for each token of the text, each at most as long as the file: what a string says is not expanded again.
                assert!(
                    expanded.len() <= field.len().saturating_add(field.len().saturating_mul(text.len())),
                    "{field} grew"
                );
            }
        }
    }
}
