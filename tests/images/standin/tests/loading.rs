//! The kernel driver's image loaded by a loader that is not ours: as a service under Wine 10, whose kernel relocates it, resolves its imports, calls DriverEntry
//! and unloads it.
//!
//! The graphics kernel is a stand-in (tests/images/standin): it answers the registration requests, keeps what it was called with, and takes over unloading. No
//! adapter starts. `cargo xtask test` unpacks Wine into `target/wine` and builds the images; docs/windows.md says what this proves, and what not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use campanile_hw::trace::entry::{TraceEntry, from_words};
use campanile_hw::trace::event::Event;
use campanile_hw::trace::ring::{MAGIC, TraceHeader};
use campanile_kmd::{Class, SLOTS};
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile64};
use object::read::{Export, ExportTarget};
use object::{Object, ObjectSection, SectionKind};
use wddm_ddi::km::DXGKDDI_INTERFACE_VERSION_WDDM3_2;
use wddm_ddi::nt::{IOCTL_VIDEO_DDI_FUNC_REGISTER, IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8};

const DRIVER: &str = "campanile_kmd.sys";

/// Imports of the driver that Windows' kernel has and Wine 10's has not, and what that means here.
const LACKING: [(&str, &str); 7] = [
    ("EtwRegister", "an adapter registers its provider, and none is added here"),
    ("EtwSetInformation", "as EtwRegister"),
    ("EtwWriteTransfer", "as EtwRegister"),
    ("ExAcquirePushLockExclusiveEx", "taken for the first time when an adapter is added"),
    ("ExReleasePushLockExclusiveEx", "as ExAcquirePushLockExclusiveEx"),
    ("KeGetCurrentIrql", "every event that is traced asks for it; supplied, as Wine has one level alone"),
    ("KeQueryPerformanceCounter", "Wine has it in hal.dll, where Windows had it before; supplied from there"),
];

/// Imports that the tests replace before DriverEntry, and why.
const SUPPLIED: [(&str, &str); 3] = [
    ("IoGetDeviceObjectPointer", "Wine's names a device of nobody, without looking for the name"),
    ("KeGetCurrentIrql", "lacking"),
    ("KeQueryPerformanceCounter", "lacking"),
];

/// A kernel service, and the image that it starts.
const SUPPLY: [&str; 2] = ["KernelSupply", "supply.sys"];
const GRAPHICS: [&str; 2] = ["DXGKrnl", "standin.sys"];
const SERVICE: [&str; 2] = ["campanile_kmd", DRIVER];

/// [winsvc: SERVICE_STOPPED, SERVICE_RUNNING]
const STOPPED: u64 = 1;
const RUNNING: u64 = 4;

/// One at a time: all find their images in the same folder.
static WINE: Mutex<()> = Mutex::new(());

/// The folder into which `cargo xtask` builds images and unpacks Wine.
fn target() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../target")
}

fn built(name: &str) -> Vec<u8> {
    let path = target().join("pe").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask pe` first", path.display()))
}

/// Wine, with the images where its drive Z has the folder `images`.
struct Wine {
    program: PathBuf,
    images: PathBuf,
    _one: MutexGuard<'static, ()>,
}

/// What a run of services.exe said.
struct Said(String);

impl Wine {
    fn new() -> Self {
        let one = WINE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = target().join("wine");
        let (program, images) = (folder.join("wine"), folder.join("root/images"));
        assert!(program.is_file(), "Wine 10 is missing: run `bash src/qemu/fetch.sh target wine` in the repository");
        fs::create_dir_all(&images).unwrap();
        for (file, name) in [
            (DRIVER, DRIVER),
            ("campanile_umd.dll", "campanile_umd.dll"),
            ("test/services.exe", "services.exe"),
            ("test/standin.sys", GRAPHICS[1]),
            // An image is loaded once, and these are two roles of it.
            ("test/standin.sys", SUPPLY[1]),
        ] {
            fs::write(images.join(name), built(file)).unwrap();
        }
        Self { program, images, _one: one }
    }

    /// Runs services.exe with these verbs. What it started ends with it, and the services that it created are gone.
    fn run(&self, verbs: &[&str]) -> Said {
        let output = Command::new(&self.program).arg(r"Z:\images\services.exe").args(verbs).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).replace('\r', "");
        assert!(output.status.success(), "{}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
        Said(text(&output.stdout))
    }

    /// The copy of the driver's image that the verb `image` made.
    fn memory(&self) -> Vec<u8> {
        fs::read(self.images.join("memory")).unwrap()
    }
}

/// Verbs that create a service.
fn create([name, file]: [&str; 2]) -> [String; 3] {
    // As the kernel writes the path of a file with a drive.
    ["create".into(), name.into(), format!(r"\??\Z:\images\{file}")]
}

/// Runs the verbs with these services, the supply running.
fn with(wine: &Wine, services: &[[&str; 2]], verbs: &[&str]) -> Said {
    let mut all: Vec<String> = create(SUPPLY).into();
    all.extend(services.iter().copied().flat_map(create));
    let verbs: Vec<&str> =
        all.iter().map(String::as_str).chain(["start", SUPPLY[0]]).chain(verbs.iter().copied()).collect();
    let said = wine.run(&verbs);
    assert_eq!(said.error("start KernelSupply"), 0);
    said
}

/// The value of a key, in decimal or hexadecimal.
fn number(line: &str, key: &str) -> u64 {
    let value = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let value = value.unwrap_or_else(|| panic!("no {key} in {line:?}"));
    let hexadecimal = value.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    hexadecimal.unwrap_or_else(|| value.parse()).unwrap_or_else(|error| panic!("{key} in {line:?}: {error}"))
}

impl Said {
    /// The rest of each line that begins with these words.
    fn all<'a>(&'a self, words: &str) -> Vec<&'a str> {
        self.0.lines().filter_map(|line| line.strip_prefix(words)?.strip_prefix(' ')).collect()
    }

    /// The rest of the only line that begins with them.
    fn one(&self, words: &str) -> &str {
        let [line] = self.all(words)[..] else { panic!("not one line {words:?} in {}", self.0) };
        line
    }

    /// The error of the only line that begins with them.
    fn error(&self, words: &str) -> u64 {
        number(self.one(words), "error")
    }

    /// Registration requests that arrived, and whether each was answered.
    fn asked(&self) -> Vec<(u32, bool)> {
        let asked = |line: &&str| (number(line, "code") as u32, line.contains("answered=true"));
        self.all("asked").iter().map(asked).collect()
    }
}

fn parse(bytes: &[u8]) -> PeFile64<'_> {
    PeFile64::parse(bytes).unwrap()
}

fn word(bytes: &[u8], at: u64) -> u64 {
    let at = at as usize;
    u64::from_le_bytes(bytes.get(at..at + 8).expect("within the image")[..].try_into().unwrap())
}

/// The image as its sections lie in memory, before anything is relocated.
fn laid_out(file: &PeFile64<'_>) -> Vec<u8> {
    let mut memory = vec![0; file.nt_headers().optional_header().size_of_image() as usize];
    for section in file.sections() {
        let (start, data) = ((section.address() - file.relative_address_base()) as usize, section.data().unwrap());
        memory[start..start + data.len()].copy_from_slice(data);
    }
    memory
}

/// Places of the addresses that a loader has to change.
fn relocations(file: &PeFile64<'_>) -> Vec<u64> {
    let mut blocks = file.data_directories().relocation_blocks(file.data(), &file.section_table()).unwrap().unwrap();
    let mut found = Vec::new();
    while let Some(block) = blocks.next().unwrap() {
        found.extend(block.filter(|entry| entry.typ == pe::IMAGE_REL_BASED_DIR64).map(|entry| entry.virtual_address));
    }
    found.into_iter().map(u64::from).collect()
}

/// Events of the trace that concerns no adapter, in a copy of the image from memory.
fn events(file: &PeFile64<'_>, memory: &[u8], base: u64) -> Vec<(u16, [u64; 3])> {
    let named = |export: &Export<'_>| export.name().name() == Some(b"CAMPANILE_DEBUG_ROOT");
    let root = file.exports().unwrap().map(Result::unwrap).find(named).unwrap();
    let ExportTarget::Address { address } = root.target() else { panic!("not in this image") };
    let root = address - file.relative_address_base();
    assert_eq!(memory[root as usize..][..8], *b"CPROOT01");
    // The place of the trace is an address: behind magic, size, number of adapters, and the address of these.
    let ring = word(memory, root + 24) - base;
    assert_eq!(memory[ring as usize..][..8], MAGIC);
    let written = word(memory, ring + std::mem::offset_of!(TraceHeader, written) as u64);
    let entry = |number| {
        let place = ring + (size_of::<TraceHeader>() + number as usize * TraceEntry::SIZE) as u64;
        let words = std::array::from_fn(|index| word(memory, place + 8 * index as u64));
        from_words(&words).map(|read| (read.event, read.arguments))
    };
    (0..written).filter_map(entry).collect()
}

/// The driver's events when a request was answered and registration succeeded.
fn registered_by(request: u32) -> Vec<(u16, [u64; 3])> {
    let events =
        [Event::RegistrationAnswered { request }, Event::Loaded { interface: DXGKDDI_INTERFACE_VERSION_WDDM3_2 }];
    events.iter().map(|event| (event.id() as u16, event.arguments())).collect()
}

/// Verbs that start the driver, take a copy of its image and unload it.
const LIFE: [&str; 14] = [
    "start",
    "campanile_kmd",
    "query",
    "campanile_kmd",
    "log",
    "KernelSupply",
    "image",
    r"Z:\images\memory",
    "stop",
    "campanile_kmd",
    "log",
    "DXGKrnl",
    "stop",
    "DXGKrnl",
];

/// What was said of the driver's life, and its image in memory. One run serves the tests that look at it.
struct Life {
    said: Said,
    memory: Vec<u8>,
}

fn life() -> &'static Life {
    static LIVED: OnceLock<Life> = OnceLock::new();
    LIVED.get_or_init(|| {
        let wine = Wine::new();
        let said = with(&wine, &[GRAPHICS, SERVICE], &[&["start", "DXGKrnl"][..], &LIFE].concat());
        for verb in
            ["start DXGKrnl", "start campanile_kmd", "query campanile_kmd", "stop campanile_kmd", "stop DXGKrnl"]
        {
            assert_eq!(said.error(verb), 0, "{verb}");
        }
        Life { memory: wine.memory(), said }
    })
}

#[test]
fn every_address_of_the_image_is_moved_to_where_it_was_loaded() {
    let Life { said, memory } = life();
    let (bytes, standin) = (built(DRIVER), built("test/standin.sys"));
    let file = parse(&bytes);
    let preferred = file.relative_address_base();
    // The supply was loaded first, where this image would like to be.
    assert_eq!(parse(&standin).relative_address_base(), preferred);
    let registered = said.one("registered");
    let base = number(registered, "base");
    assert_ne!(base, preferred);
    assert_eq!(base, number(said.one("loaded"), "base"));
    assert_eq!(number(registered, "size"), u64::from(file.nt_headers().optional_header().size_of_image()));

    let before = laid_out(&file);
    assert_eq!(memory.len(), before.len());
    let places = relocations(&file);
    let moved = |place: &u64| word(memory, *place) == word(&before, *place).wrapping_add(base.wrapping_sub(preferred));
    let wrong: Vec<u64> = places.iter().copied().filter(|place| !moved(place)).collect();
    assert!(wrong.is_empty() && places.len() > 100, "{wrong:x?} of {} places", places.len());
    // Code has no addresses, so it is as it is in the file.
    let text = file.section_by_name(".text").unwrap();
    let start = (text.address() - preferred) as usize;
    assert_eq!(memory[start..][..text.data().unwrap().len()], *text.data().unwrap());
}

#[test]
fn every_import_is_the_kernel_s_or_one_that_wine_is_known_to_lack() {
    let Life { said, .. } = life();
    let bytes = built(DRIVER);
    let file = parse(&bytes);
    let imports = file.imports().unwrap().map(|import| import.unwrap().name().into_name().expect("imported by name"));
    let names = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect::<BTreeSet<_>>();
    let expected = names(&mut imports.map(|name| std::str::from_utf8(name).unwrap()));
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for line in said.all("import") {
        let [name, who, supplied] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        all.insert(name.to_owned());
        for group in [who, supplied] {
            found.entry(group).or_default().insert(name.to_owned());
        }
    }
    assert_eq!(all, expected);
    let lacking = names(&mut LACKING.iter().map(|(name, _)| *name));
    assert_eq!(found["nobody"], lacking);
    assert_eq!(found["kernel"], expected.difference(&lacking).cloned().collect());
    assert_eq!(found["supplied=true"], names(&mut SUPPLIED.iter().map(|(name, _)| *name)));
    assert!(LACKING.iter().chain(&SUPPLIED).all(|(_, reason)| !reason.is_empty()));
}

#[test]
fn registration_arrives_with_version_and_table_and_unloading_calls_the_driver() {
    let Life { said, memory } = life();
    assert_eq!(said.asked(), [(IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, true)]);
    let registered = said.one("registered");
    assert_eq!(number(registered, "version"), u64::from(DXGKDDI_INTERFACE_VERSION_WDDM3_2));
    assert!(registered.ends_with(r"\Services\campanile_kmd"), "{registered}");
    let query = said.one("query campanile_kmd");
    assert_eq!((number(query, "state"), number(query, "kind")), (RUNNING, 1));

    let bytes = built(DRIVER);
    let file = parse(&bytes);
    let slots: Vec<(&str, u64)> =
        said.all("slot").iter().map(|line| line.split_once(' ').unwrap()).map(offset).collect();
    let implemented = SLOTS.iter().filter(|slot| slot.class == Class::Implemented).map(|slot| slot.name);
    assert_eq!(slots.iter().map(|(name, _)| *name).collect::<Vec<_>>(), implemented.collect::<Vec<_>>());
    for (name, offset) in slots {
        let at = offset + file.relative_address_base();
        let section =
            file.sections().find(|section| (section.address()..section.address() + section.size()).contains(&at));
        let section = section.unwrap_or_else(|| panic!("{name} is {offset:#x}"));
        assert_eq!(section.kind(), SectionKind::Text, "{name}");
        // INIT is gone after DriverEntry.
        assert_ne!(section.name(), Ok("INIT"), "{name}");
    }
    let base = number(registered, "base");
    assert_eq!(events(&file, memory, base), registered_by(IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8));

    // The graphics kernel unloads a miniport, which has no DriverUnload of its own.
    assert_eq!(said.one("own-unload"), "false");
    assert_eq!(said.one("unloaded"), format!("base={base:#x} called=true"));
    assert_eq!(number(said.one("stop campanile_kmd"), "state"), STOPPED);
}

/// A slot's offset in the image.
fn offset<'a>((name, value): (&'a str, &str)) -> (&'a str, u64) {
    (name, u64::from_str_radix(value.trim_start_matches("0x"), 16).unwrap())
}

#[test]
fn a_graphics_kernel_that_knows_the_older_request_alone_is_asked_with_it() {
    let wine = Wine::new();
    let said = with(&wine, &[GRAPHICS, SERVICE], &[&["start", "DXGKrnl", "answer", "2"][..], &LIFE].concat());
    assert_eq!(said.asked(), [(IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, false), (IOCTL_VIDEO_DDI_FUNC_REGISTER, true)]);
    assert_eq!(said.error("start campanile_kmd"), 0);
    let bytes = built(DRIVER);
    let base = number(said.one("registered"), "base");
    assert_eq!(events(&parse(&bytes), &wine.memory(), base), registered_by(IOCTL_VIDEO_DDI_FUNC_REGISTER));
    assert_eq!(said.one("unloaded"), format!("base={base:#x} called=true"));
}

/// Verbs that start the driver and ask what became of it.
const ATTEMPT: [&str; 4] = ["start", "campanile_kmd", "query", "campanile_kmd"];

/// The driver did not start, for this reason. [winerror.h] for the status of DriverEntry. [ntdll: RtlNtStatusToDosError]
fn refused(said: &Said, error: u64) {
    assert_eq!(said.error("start campanile_kmd"), error);
    assert_eq!(number(said.one("query campanile_kmd"), "state"), STOPPED);
    assert_eq!((said.all("registered").len(), said.all("unloaded").len()), (0, 0));
}

#[test]
fn a_graphics_kernel_that_knows_neither_request_keeps_the_driver_from_starting() {
    let verbs = [&["start", "DXGKrnl", "answer", "0"][..], &ATTEMPT, &["log", "DxgKrnl", "stop", "DXGKrnl"]].concat();
    let said = with(&Wine::new(), &[GRAPHICS, SERVICE], &verbs);
    assert_eq!(
        said.asked(),
        [(IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, false), (IOCTL_VIDEO_DDI_FUNC_REGISTER, false)]
    );
    // ERROR_INVALID_FUNCTION, for STATUS_INVALID_DEVICE_REQUEST.
    refused(&said, 1);
    assert_eq!(said.error("stop DXGKrnl"), 0);
}

#[test]
fn without_a_graphics_kernel_the_driver_does_not_start() {
    let said = with(&Wine::new(), &[SERVICE], &[&ATTEMPT[..], &["log", "KernelSupply"]].concat());
    // ERROR_FILE_NOT_FOUND, for STATUS_OBJECT_NAME_NOT_FOUND.
    refused(&said, 2);
    assert_eq!(said.one("looked-for"), "DxgKrnl found=false");
}

#[test]
fn the_driver_itself_loads_a_graphics_kernel_that_is_not_running() {
    let said = with(&Wine::new(), &[GRAPHICS, SERVICE], &LIFE[..LIFE.len() - 2]);
    assert_eq!((said.error("start campanile_kmd"), said.error("stop campanile_kmd")), (0, 0));
    assert_eq!(said.asked(), [(IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, true)]);
    assert!(said.one("unloaded").ends_with("called=true"));
}

#[test]
fn a_driver_that_was_unloaded_starts_again() {
    let again = ["start", "campanile_kmd", "stop", "campanile_kmd"];
    let verbs = [&["start", "DXGKrnl"][..], &again, &again, &["log", "DxgKrnl"]].concat();
    let said = with(&Wine::new(), &[GRAPHICS, SERVICE], &verbs);
    let errors = |verb| said.all(verb).iter().map(|line| number(line, "error")).collect::<Vec<_>>();
    assert_eq!((errors("start campanile_kmd"), errors("stop campanile_kmd")), (vec![0, 0], vec![0, 0]));
    assert_eq!((said.all("registered").len(), said.all("unloaded").len()), (2, 2));
}

#[test]
fn the_user_mode_driver_is_loaded_and_says_that_a_system_without_adapters_has_none() {
    let wine = Wine::new();
    let said = wine.run(&["library", r"Z:\images\campanile_umd.dll"]);
    let opened = said.one("library");
    assert_eq!(number(opened, "error"), 0);
    assert_ne!(number(opened, "base"), parse(&built("campanile_umd.dll")).relative_address_base());
    // CAMPANILE_STATUS_BAD_POINTER without a table of thunks, and CAMPANILE_STATUS_NO_ADAPTER with one that lists none.
    assert_eq!((number(opened, "without"), number(opened, "empty"), number(opened, "handle")), (1, 5, 0));
    assert_ne!(number(opened, "listed"), 0);
    let absent = wine.run(&["library", r"Z:\images\absent.dll"]);
    // ERROR_MOD_NOT_FOUND
    assert_eq!(absent.error("library"), 126);
}
