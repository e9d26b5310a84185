//! The image loader against images that are broken, on purpose or not: every refusal by a named image, then many at random.
//!
//! However an image is made, loading it ends, and takes work and memory in proportion to the file.

#[path = "hostile/minimal.rs"]
mod minimal;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;

use dxgkrnl::{Image, ImageError, ImageKind};
use minimal::{Minimal, NATIVE, WINDOWS, WRITE, at, rva};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread allocates.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is the system's, which keeps the promises.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Cost of loading an image.
#[derive(Debug, Default)]
struct Cost {
    /// Bytes allocated.
    bytes: usize,
    /// Imports asked for.
    imports: usize,
}

fn load(bytes: &[u8], kind: ImageKind) -> (Result<Image, ImageError>, Cost) {
    let imports = Cell::new(0);
    let before = ALLOCATED.get();
    let outcome = Image::load("image", bytes, kind, &|module, name| {
        imports.set(imports.get() + 1);
        (module == "module.sys" && name == "function").then_some(0x1234_5678)
    });
    let bytes = ALLOCATED.get().wrapping_sub(before);
    (outcome, Cost { bytes, imports: imports.get() })
}

fn refusal(bytes: &[u8], kind: ImageKind) -> ImageError {
    let (outcome, cost) = load(bytes, kind);
    assert!(cost.bytes <= limit(bytes), "{cost:?} for {} bytes", bytes.len());
    outcome.err().expect("the image is broken")
}

/// Memory that a load may take: names as texts in a map, messages.
fn limit(bytes: &[u8]) -> usize {
    bytes.len() * 64 + (64 << 10)
}

/// The driver with a change.
fn driver(change: impl FnOnce(&mut Minimal)) -> Vec<u8> {
    let mut image = Minimal::new();
    change(&mut image);
    image.0
}

fn section(name: &str, problem: &'static str) -> ImageError {
    ImageError::BadSection { name: name.into(), problem }
}

#[test]
fn the_image_that_all_others_are_made_from_loads() {
    for (image, kind) in [(Minimal::new(), ImageKind::Driver), (Minimal::dll(), ImageKind::Dll)] {
        let (outcome, cost) = load(&image.0, kind);
        let image = outcome.expect("nothing is wrong with it");
        assert_eq!(image.entry(), Some(image.base() + 0x1000));
        assert_eq!(image.export("exported"), image.entry());
        assert_eq!(image.pdb().map(ToString::to_string).as_deref(), Some("111111111111111111111111111111111"));
        assert_eq!(cost.imports, 1);
        let word = |offset: usize| {
            let address = std::ptr::with_exposed_provenance::<u64>(image.base() + rva(offset) as usize);
            // SAFETY: the image is loaded, and its sections can be read.
            unsafe { address.read_unaligned() }
        };
        assert_eq!(word(at::POINTER) as usize, image.base() + 0x1000, "relocated");
        assert_eq!(word(at::SLOT), 0x1234_5678, "bound");
    }
}

#[test]
fn an_image_that_needs_no_relocations_loads_at_any_address() {
    let (outcome, _) = load(&driver(|i| i.u32(at::DIRECTORIES + 5 * 8, 0)), ImageKind::Driver);
    let image = outcome.expect("nothing is wrong with it");
    assert_eq!(image.entry(), Some(image.base() + 0x1000));
}

#[test]
fn what_is_no_image_is_refused() {
    let cut = |len: usize| Minimal::new().0[..len].to_vec();
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("text", b"this is a text, not a driver; it is long enough to hold a header of some kind".to_vec()),
        ("zeros", vec![0; 4096]),
        ("an ELF file", std::fs::read(std::env::current_exe().unwrap()).unwrap()[..4096].to_vec()),
        ("half a DOS header", cut(0x20)),
        ("an end before the PE header", cut(at::PE)),
        ("an end in the optional header", cut(at::SUBSYSTEM)),
        ("an end in the table of sections", cut(at::TABLE + 50)),
        ("a PE header behind the end", driver(|image| image.u32(0x3c, 0x7fff_fff0))),
    ] {
        let error = refusal(&bytes, ImageKind::Driver);
        assert!(matches!(error, ImageError::NotAnImage(_)), "{what}: {error:?}");
        assert!(error.to_string().starts_with("not a PE image: "), "{what}: {error}");
    }
}

#[test]
fn headers_out_of_range_are_refused_by_name() {
    let header = |what| ImageError::BadHeader(what);
    for (bytes, expected) in [
        (driver(|i| i.u16(at::CHARACTERISTICS, 0x2020)), "not linked (IMAGE_FILE_EXECUTABLE_IMAGE is clear)"),
        (driver(|i| i.u32(at::SECTION_ALIGNMENT, 0x2000)), "section alignment is not 4096"),
        (driver(|i| i.u32(at::IMAGE_SIZE, 0)), "SizeOfImage"),
        (driver(|i| i.u32(at::IMAGE_SIZE, 0x4001)), "SizeOfImage"),
        (driver(|i| i.u32(at::IMAGE_SIZE, (64 << 20) + 0x1000)), "SizeOfImage"),
        (driver(|i| i.u32(at::IMAGE_SIZE, 0xffff_f000)), "SizeOfImage"),
        (driver(|i| i.u32(at::HEADERS_SIZE, 0x5000)), "SizeOfHeaders"),
        (driver(|i| i.u32(at::HEADERS_SIZE, 0x1000)), "SizeOfHeaders beyond the file"),
        (driver(|i| i.u32(at::ENTRY, rva(at::RDATA))), "the entry point is not in executable code"),
        (driver(|i| i.u32(at::ENTRY, 0xffff_ffff)), "the entry point is not in executable code"),
        (driver(|i| i.u16(at::SECTIONS, 0)), "no sections"),
        (
            driver(|i| {
                i.u32(at::DIRECTORIES + 5 * 8, 0);
                i.u16(at::CHARACTERISTICS, 0x0023);
            }),
            "its relocations were stripped (IMAGE_FILE_RELOCS_STRIPPED), so it runs at one address only",
        ),
        (driver(|i| i.u32(at::RDATA + 16, 0x4000)), "data outside the image"),
        (driver(|i| i.u32(at::RDATA + 16, 0xffff_fffc)), "data outside the image"),
    ] {
        let error = refusal(&bytes, ImageKind::Driver);
        // Without sections the entry point is in none, which may be seen first.
        let either = [header(expected), header("the entry point is not in executable code")];
        assert!(either.contains(&error), "{expected}: {error:?}");
    }
}

#[test]
fn sections_that_do_not_fit_are_refused_by_name() {
    let header = |index: usize, field: usize| at::TABLE + index * 40 + field;
    for (bytes, expected) in [
        (driver(|i| i.u32(header(2, 12), 0xffff_f000)), section(".reloc", "wraps around")),
        (driver(|i| i.u32(header(2, 8), 0x2000)), section(".reloc", "outside the image")),
        (driver(|i| i.u32(header(2, 8), 0)), section(".reloc", "outside the image")),
        (driver(|i| i.u32(header(1, 12), 0x2100)), section(".rdata", "outside the image")),
        (driver(|i| i.u32(header(1, 12), 0x1000)), section(".rdata", "overlaps what lies before it")),
        (driver(|i| i.u32(header(0, 12), 0)), section(".text", "overlaps what lies before it")),
        (driver(|i| i.u32(header(1, 36), WRITE | 0x6000_0000)), section(".rdata", "writable and executable")),
        (
            driver(|i| i.u32(header(2, 20), 0x700)),
            section(".reloc", "its data lies outside the file, which may have been cut off"),
        ),
        (
            driver(|i| i.u32(header(2, 20), 0xffff_ff00)),
            section(".reloc", "its data lies outside the file, which may have been cut off"),
        ),
    ] {
        assert_eq!(refusal(&bytes, ImageKind::Driver), expected);
    }
}

#[test]
fn an_image_that_was_cut_off_is_refused_wherever_that_was() {
    let whole = Minimal::new().0;
    for len in 0..whole.len() {
        let error = refusal(&whole[..len], ImageKind::Driver);
        let named = matches!(error, ImageError::NotAnImage(_) | ImageError::BadSection { .. });
        assert!(named, "cut to {len} bytes: {error:?}");
    }
}

#[test]
fn relocations_of_another_kind_or_outside_are_refused_by_address() {
    let pointer = rva(at::POINTER);
    let other = driver(|i| i.u16(at::RELOC + 8, 0x3000 | (pointer & 0xfff) as u16));
    assert_eq!(refusal(&other, ImageKind::Driver), ImageError::BadRelocation { rva: pointer });
    for page in [0x4000, 0x8000_0000, 0xffff_f000] {
        let outside = driver(|i| i.u32(at::RELOC, page));
        assert_eq!(refusal(&outside, ImageKind::Driver), ImageError::BadRelocation { rva: page + (pointer & 0xfff) });
    }
    let last = driver(|i| {
        i.u32(at::RELOC, 0x3000);
        i.u16(at::RELOC + 8, 0xaffc);
    });
    assert_eq!(refusal(&last, ImageKind::Driver), ImageError::BadRelocation { rva: 0x3ffc }, "half of it outside");
    for size in [0, 4, 8, 0xffff_fff0] {
        let broken = driver(|i| i.u32(at::RELOC + 4, size));
        assert!(matches!(refusal(&broken, ImageKind::Driver), ImageError::NotAnImage(_)), "a block of {size} bytes");
    }
}

#[test]
fn imports_that_nobody_has_are_named() {
    let unresolved = |name: &str| ImageError::UnresolvedImports { first: vec![name.into()], all: 1 };
    let bytes = driver(|i| i.bytes(at::NAME + 2, b"fumction"));
    assert_eq!(refusal(&bytes, ImageKind::Driver), unresolved("module.sys!fumction"));
    let bytes = driver(|i| i.bytes(at::MODULE, b"nodule.sys"));
    let error = refusal(&bytes, ImageKind::Driver);
    assert_eq!(error.to_string(), "unresolved imports: nodule.sys!function");
    let bytes = driver(|i| i.bytes(at::NAME + 2, b"\x1b[2Jgone"));
    let text = refusal(&bytes, ImageKind::Driver).to_string();
    assert!(!text.contains('\x1b'), "a name cannot command the terminal: {text:?}");
    let bytes = driver(|i| i.bytes(at::LOOKUP, &(1_u64 << 63 | 7).to_le_bytes()));
    assert_eq!(
        refusal(&bytes, ImageKind::Driver),
        ImageError::ImportByOrdinal { module: "module.sys".into(), ordinal: 7 }
    );
}

#[test]
fn of_many_unresolved_imports_some_are_named_and_the_rest_counted() {
    let mut image = Minimal::new();
    let more = image.grow(0x1000);
    for index in 0..100 {
        image.u32(more + index * 8, rva(at::NAME));
    }
    // The names fit only if the file is large enough for all of them.
    image.u32(at::RDATA, 0x2200);
    image.u32(at::RDATA + 16, 0x2200);
    image.bytes(at::NAME + 2, b"other\0");
    image.bytes(at::MODULE, b"m\0");
    let error = refusal(&image.0, ImageKind::Driver);
    let ImageError::UnresolvedImports { first, all } = &error else { panic!("{error:?}") };
    assert_eq!((first.len(), *all), (32, 100));
    assert!(error.to_string().ends_with(" and 68 more"), "{error}");
}

#[test]
fn tables_whose_names_overlap_are_refused_before_they_cost_anything() {
    const ENTRIES: usize = 30_000;
    const NAME: usize = 100_000;
    let mut image = Minimal::new();
    let more = image.grow(0x40_0000);
    let name = more + 0x20_0000;
    image.bytes(name, &[b'n'; NAME]);
    let far = 0x2200 + 0x20_0000;
    // Imports: each of many entries is the same long name.
    let mut imports = image.clone();
    for index in 0..ENTRIES {
        imports.u32(more + index * 8, far);
    }
    imports.u32(at::RDATA, 0x2200);
    let overlap = ImageError::BadHeader("tables larger than the file");
    let (outcome, cost) = load(&imports.0, ImageKind::Driver);
    assert_eq!(outcome.err(), Some(overlap.clone()));
    assert!(cost.imports <= imports.0.len() / NAME, "{cost:?}");
    assert!(cost.bytes <= limit(&imports.0), "{cost:?}");
    // Exports the same way.
    let mut exports = image;
    exports.u32(at::EXPORTS + 24, ENTRIES as u32);
    exports.u32(at::EXPORTS + 32, 0x2200);
    exports.u32(at::EXPORTS + 36, 0x2200 + 0x10_0000);
    exports.directory(0, at::EXPORTS, 0x40_0000);
    for index in 0..ENTRIES {
        exports.u32(more + index * 4, far);
    }
    assert_eq!(refusal(&exports.0, ImageKind::Driver), overlap);
    // Descriptors that all use one table.
    let mut descriptors = Minimal::new();
    let more = descriptors.grow(0x10_0000);
    descriptors.directory(1, at::RDATA, 0x10_0000);
    descriptors.u32(at::DIRECTORIES + 8, 0x2200);
    for index in 0..20_000 {
        for (field, value) in [(0, 0x2200 + 0x8_0000), (12, rva(at::MODULE)), (16, 0x2200 + 0x8_0000)] {
            descriptors.u32(more + index * 20 + field, value);
        }
    }
    for index in 0..10_000 {
        descriptors.u32(more + 0x8_0000 + index * 8, rva(at::NAME));
    }
    let (outcome, cost) = load(&descriptors.0, ImageKind::Driver);
    assert_eq!(outcome.err(), Some(overlap));
    assert!(cost.imports <= descriptors.0.len() / 8, "{cost:?}");
}

#[test]
fn an_image_that_is_too_large_is_refused_by_its_size() {
    let error = refusal(&vec![0; Image::FILE_MAX + 1], ImageKind::Driver);
    assert_eq!(error, ImageError::TooLarge(Image::FILE_MAX + 1));
    assert_eq!(error.to_string(), "67108865 bytes, more than the 64 MiB that an image may have");
    let mut padded = Minimal::new().0;
    padded.resize(Image::FILE_MAX, 0);
    assert!(load(&padded, ImageKind::Driver).0.is_ok(), "what is behind the sections does not matter");
}

/// The test runs itself in a process that has no address space to spare.
#[test]
fn without_address_space_an_image_is_refused() {
    const CHILD: &str = "IMAGE_LOADER_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let own = std::env::current_exe().unwrap();
        let arguments = ["--exact", "without_address_space_an_image_is_refused", "--test-threads=1"];
        let output = std::process::Command::new(own).args(arguments).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let bytes = driver(|image| image.u32(at::IMAGE_SIZE, 64 << 20));
    assert!(load(&bytes, ImageKind::Driver).0.is_ok(), "64 MiB are allowed");
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = pages * 4096 + (16 << 20);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: a limit of this frame; the process is one for this test alone.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    assert_eq!(load(&bytes, ImageKind::Driver).0.err(), Some(ImageError::OutOfMemory));
}

/// Name of a refusal. A new one does not compile here until it is listed, and the test below fails until something reaches it.
fn variant(error: &ImageError) -> &'static str {
    match error {
        ImageError::TooLarge(_) => "TooLarge",
        ImageError::NotAnImage(_) => "NotAnImage",
        ImageError::Not64Bit => "Not64Bit",
        ImageError::WrongMachine(_) => "WrongMachine",
        ImageError::WrongKind { .. } => "WrongKind",
        ImageError::BadHeader(_) => "BadHeader",
        ImageError::BadSection { .. } => "BadSection",
        ImageError::BadRelocation { .. } => "BadRelocation",
        ImageError::UnresolvedImports { .. } => "UnresolvedImports",
        ImageError::ImportByOrdinal { .. } => "ImportByOrdinal",
        ImageError::Unsupported(_) => "Unsupported",
        // Only a process without address space meets it, see above.
        ImageError::OutOfMemory => "OutOfMemory",
    }
}

#[test]
fn every_refusal_has_an_image_that_earns_it() {
    let images = [
        (vec![0; Image::FILE_MAX + 1], ImageKind::Driver, "TooLarge"),
        (b"MZ".to_vec(), ImageKind::Driver, "NotAnImage"),
        (driver(|i| i.u16(at::MAGIC, 0x10b)), ImageKind::Driver, "Not64Bit"),
        (driver(|i| i.u16(at::MACHINE, 0xaa64)), ImageKind::Driver, "WrongMachine"),
        (driver(|i| i.u16(at::MACHINE, 0x14c)), ImageKind::Driver, "WrongMachine"),
        (driver(|i| i.u16(at::SUBSYSTEM, WINDOWS)), ImageKind::Driver, "WrongKind"),
        (driver(|i| i.u16(at::SUBSYSTEM, NATIVE)), ImageKind::Dll, "WrongKind"),
        (
            driver(|i| {
                i.u16(at::SUBSYSTEM, WINDOWS);
                i.u16(at::CHARACTERISTICS, 0x22);
            }),
            ImageKind::Dll,
            "WrongKind",
        ),
        (driver(|i| i.u32(at::IMAGE_SIZE, 1)), ImageKind::Driver, "BadHeader"),
        (driver(|i| i.u32(at::TABLE + 36, 0xe000_0000)), ImageKind::Driver, "BadSection"),
        (driver(|i| i.u32(at::RELOC, 0x4000)), ImageKind::Driver, "BadRelocation"),
        (driver(|i| i.bytes(at::NAME + 2, b"F")), ImageKind::Driver, "UnresolvedImports"),
        (driver(|i| i.bytes(at::LOOKUP + 7, &[0x80])), ImageKind::Driver, "ImportByOrdinal"),
        (driver(|i| i.directory(9, at::RDATA, 40)), ImageKind::Driver, "Unsupported"),
        (driver(|i| i.directory(13, at::RDATA, 40)), ImageKind::Driver, "Unsupported"),
    ];
    let mut reached = BTreeSet::from(["OutOfMemory"]);
    for (bytes, kind, expected) in images {
        let error = refusal(&bytes, kind);
        assert_eq!(variant(&error), expected, "{error}");
        reached.insert(expected);
    }
    assert_eq!(reached.len(), 12, "as many as there are: {reached:?}");
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }
}

/// Loads an image of which nothing is known but that it is not trusted.
fn endure(bytes: &[u8], what: &str) -> bool {
    let mut loaded = false;
    for kind in [ImageKind::Driver, ImageKind::Dll] {
        let (outcome, cost) = load(bytes, kind);
        assert!(cost.bytes <= limit(bytes) && cost.imports <= bytes.len() / 8, "{what}: {cost:?}");
        if let Err(error) = &outcome {
            assert!(!error.to_string().chars().any(char::is_control), "{what}: {error:?}");
        }
        loaded |= outcome.is_ok();
    }
    loaded
}

#[test]
fn whatever_bytes_are_changed_the_loader_endures_it() {
    let original = Minimal::new().0;
    let (mut loaded, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let mut bytes = original.clone();
        for _ in 0..1 + random.below(4) {
            // The headers and the tables, where every byte means something.
            let place = if random.below(2) == 0 {
                at::PE + random.below(at::TABLE + 120 - at::PE)
            } else {
                at::RDATA + random.below(0x220)
            };
            bytes[place] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => bytes[place] ^ 1 << random.below(8),
                _ => random.below(256) as u8,
            };
        }
        if endure(&bytes, &format!("seed {seed}")) { loaded += 1 } else { refused += 1 }
    }
    assert!(loaded > 1_000 && refused > 1_000, "{loaded} loaded, {refused} refused: the changes say too little");
}

#[test]
fn random_bytes_behind_the_signatures_are_endured() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let mut bytes: Vec<u8> = (0..random.below(4096)).map(|_| random.below(256) as u8).collect();
        if bytes.len() >= at::TABLE {
            // As far as the optional header it is an image, or else every one is refused at the first look.
            let whole = Minimal::new().0;
            let until = [0, at::MAGIC, at::DIRECTORIES, at::TABLE][random.below(4)];
            bytes[..until].copy_from_slice(&whole[..until]);
        }
        endure(&bytes, &format!("seed {seed}"));
    }
}
