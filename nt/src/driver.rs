//! A loaded driver: the resources that the kernel tracks for it, and the check for leaks when it is unloaded.

mod left_behind;
mod page_lists;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};

use wddm_ddi::nt::NtImports;

use crate::bugcheck::CodeLocation;
use crate::calls::{Places, UnderWay};
use crate::contiguous::Contiguous;
use crate::deferred::Deferred;
use crate::etw::Etw;
use crate::image::Image;
use crate::image::symbols::{Source, Symbols};
use crate::lock::{Innermost, Mutex, lock};
use crate::lookaside::LookasideLists;
use crate::objects::DriverObject;
use crate::pool::{Pool, SpecialPool};
use crate::ram::{Pages, Ram};
use crate::registry::{OpenKeys, RegistryKey};
use crate::resource::Resources;
use crate::unwind::Frames;
use crate::verifier::{Listener, Verifier};

pub use page_lists::PageLists;

/// An export of the kernel: its name, and its address.
pub type Export = (&'static str, fn() -> usize);

/// A device that drivers open by its name and send control requests to.
pub struct ControlDevice {
    /// Name of the driver in the object manager's namespace.
    pub name: &'static str,
    /// The registry key of the service that it belongs to.
    pub service: &'static str,
    /// Answers an internal control request with a code: the address that is written to the output buffer.
    pub control: fn(code: u32) -> Option<usize>,
}

/// Kernel functions that drivers may call.
pub struct Services {
    /// Functions that linked drivers get in a table.
    pub imports: Option<&'static NtImports>,
    /// Functions of the table that images do not import by their names.
    pub not_exported: &'static [&'static str],
    /// Functions that only images import, by families.
    pub exports: &'static [&'static [Export]],
    /// The device that drivers register with.
    pub device: Option<&'static ControlDevice>,
}

impl Services {
    /// Nothing.
    pub const NONE: Self = Self { imports: None, not_exported: &[], exports: &[], device: None };

    /// Functions that only images import.
    fn exported(&self) -> impl Iterator<Item = &'static Export> {
        self.exports.iter().copied().flatten()
    }

    /// Address of an export of the kernel.
    pub fn export(&self, name: &str) -> Option<usize> {
        let imports = self.imports.filter(|_| !self.not_exported.contains(&name));
        let service = imports.and_then(|imports| imports.address_of(name));
        service.or_else(|| self.exported().find(|(export, _)| *export == name).map(|(_, address)| address()))
    }

    /// Name of the service whose code begins at this address.
    pub fn name_of(&self, address: usize) -> Option<&'static str> {
        let export = || self.exported().find(|(_, export)| export() == address).map(|(name, _)| *name);
        self.imports.and_then(|imports| imports.name_of(address)).or_else(export)
    }
}

/// The machine that a driver is loaded into.
pub struct Host<'a> {
    /// The verifier of the machine.
    pub verifier: &'a Arc<Verifier>,
    /// Physical memory of the machine.
    pub ram: &'a Arc<Ram>,
    /// Placement of pool blocks: in the heap, or on pages of their own.
    pub special_pool: SpecialPool,
    /// The root of its registry.
    pub registry: &'a RegistryKey,
    /// Kernel functions that its drivers may call.
    pub services: &'static Services,
}

/// Bytes at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes, each as it was at some time while they were read.
    pub bytes: Vec<u8>,
}

/// Image and pool of a driver at one time. What goes on meanwhile may be half in it, as in a live debugging session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverMemory {
    /// Name of the driver's service.
    pub name: String,
    /// Address and size of its image; `None` for a linked driver, whose image is the whole process.
    pub image: Option<(u64, u64)>,
    /// The image and every block of pool, by address.
    pub ranges: Vec<MemoryRange>,
}

/// A call by which a driver maps or unmaps memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCall {
    /// The service or callback.
    pub service: &'static str,
    /// An address inside the instruction of the driver that called it, 0 if that is not known.
    pub from: usize,
}

/// Memory of a device that a driver has mapped, or has unmapped, at addresses that nothing else has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoMapping {
    /// First address.
    pub start: usize,
    /// Bytes.
    pub len: u64,
    /// Physical address.
    pub physical: u64,
    /// True if it is mapped no more.
    pub ended: bool,
    /// The call that has mapped it, or that has unmapped it.
    pub by: MapCall,
}

/// Memory of a device by its physical addresses.
pub trait IoSpace: Send + Sync {
    /// Where the kernel has a range mapped; `None` if it is not wholly the device's.
    fn map(&self, address: u64, len: u64, by: MapCall) -> Option<usize>;
    /// Ends a mapping; false if there is none at this address.
    ///
    /// # Errors
    /// The host has not taken the addresses back: what is mapped there can still be accessed.
    fn unmap(&self, address: usize, by: MapCall) -> io::Result<bool>;
    /// The mapping that was at an address before it was unmapped, or beside whose pages the address lies.
    fn mapping_near(&self, address: usize) -> Option<IoMapping>;
}

/// The state that the kernel services keep of one driver.
pub struct Driver {
    name: Arc<str>,
    services: &'static Services,
    verifier: Arc<Verifier>,
    ram: Option<Arc<Ram>>,
    pool: Pool,
    etw: Etw,
    registry: RegistryKey,
    keys: OpenKeys,
    deferred: Arc<Deferred>,
    resources: Resources,
    lookaside_lists: LookasideLists,
    page_lists: PageLists,
    /// Memory of its devices.
    io_spaces: Mutex<Vec<Weak<dyn IoSpace>>, Innermost>,
    contiguous: Contiguous,
    /// Pages of MmAllocatePagesForMdlEx that it has not freed, by address, and an address inside the instruction that asked for them.
    listed_pages: Mutex<BTreeMap<usize, (Pages, usize)>>,
    bug_checks: Mutex<BugChecks, Innermost>,
    /// The image it runs from, unless it is linked. Mapped as long as anything may call into it.
    image: Option<Arc<LoadedImage>>,
    /// Its places, for the watchdog.
    places: Option<Places>,
    object: DriverObject,
}

/// A routine that is called when the machine stops, and what it is called with.
#[derive(Clone, Copy, Debug)]
pub struct BugCheckCallback {
    /// Address of its KBUGCHECK_CALLBACK_RECORD.
    pub record: usize,
    pub routine: usize,
    pub buffer: usize,
    pub length: u32,
}

/// The bug check callbacks of a driver, and what calls them.
#[derive(Default)]
struct BugChecks {
    callbacks: Vec<BugCheckCallback>,
    listener: Option<Arc<Listener>>,
}

/// An image and what is needed to talk about addresses in it.
pub struct LoadedImage {
    /// The image.
    pub image: Image,
    /// Its symbols, if they are known.
    pub symbols: Option<Symbols>,
}

impl LoadedImage {
    /// Function, file and line of an address in the image; `None` if the address is outside.
    pub fn place(&self, address: usize) -> Option<CodeLocation> {
        let rva = self.image.rva_of(address)?;
        let source = self.symbols.as_ref().and_then(|symbols| symbols.describe(rva)).unwrap_or_default();
        Some(self.location(rva, source))
    }

    /// As [`LoadedImage::place`] of the first of these frames, with callers: those that it was compiled into, and those of the other frames, so that there are as
    /// many places as frames at most.
    pub fn place_of(&self, frames: Frames) -> Option<CodeLocation> {
        let of = |address: usize| {
            let rva = self.image.rva_of(address)?;
            let mut sources = self.symbols.as_ref().map_or_else(Vec::new, |symbols| symbols.describe_inlined(rva));
            if sources.is_empty() {
                sources.push(Source::default());
            }
            Some(sources.into_iter().map(move |source| self.location(rva, source)))
        };
        let mut places = frames.into_iter().map_while(of).flatten().take(frames.len());
        let innermost = places.next()?;
        Some(CodeLocation { callers: places.collect(), ..innermost })
    }

    fn location(&self, rva: u32, source: Source) -> CodeLocation {
        let Source { function, file, line } = source;
        CodeLocation { module: self.image.name().to_owned(), rva, function, file, line, callers: Vec::new() }
    }
}

impl Driver {
    /// A driver whose pool may grow to the size of physical memory.
    pub fn new(name: &str, host: &Host<'_>, image: Option<LoadedImage>) -> Arc<Self> {
        let (verifier, ram) = (Arc::clone(host.verifier), Arc::clone(host.ram));
        let pool = Pool::new(ram.size(), host.special_pool);
        let services = host.services;
        let place =
            image.as_ref().map(|LoadedImage { image, .. }| [image.base(), image.size(), image.entry().unwrap_or(0)]);
        let image = image.map(Arc::new);
        let (etw, keys, deferred, contiguous, listed_pages) = Default::default();
        Arc::new(Self {
            name: name.into(),
            services,
            verifier,
            ram: Some(ram),
            pool,
            etw,
            registry: host.registry.clone(),
            keys,
            deferred,
            resources: Resources::default(),
            lookaside_lists: LookasideLists::default(),
            page_lists: PageLists::default(),
            io_spaces: Mutex::default(),
            contiguous,
            listed_pages,
            bug_checks: Mutex::default(),
            places: image.clone().map(|image| -> Places { Arc::new(move |address| image.place_of([address, 0, 0])) }),
            image,
            object: DriverObject::new(name, place.unwrap_or_default()),
        })
    }

    /// Address of its driver object.
    pub fn object(&self) -> usize {
        self.object.address()
    }

    /// Address of its name in its driver object, a UNICODE_STRING. [wdm: DRIVER_OBJECT]
    pub fn name_address(&self) -> u64 {
        const DRIVER_NAME: usize = 0x38;
        (self.object() + DRIVER_NAME) as u64
    }

    /// DriverUnload of its driver object, 0 for none. [wdm: DRIVER_UNLOAD]
    pub fn unload_routine(&self) -> usize {
        self.object.unload_routine()
    }

    /// Stores DriverUnload into its driver object.
    pub fn set_unload_routine(&self, routine: usize) {
        self.object.set_unload_routine(routine);
    }

    /// The services that it may call.
    pub fn services(&self) -> &'static Services {
        self.services
    }

    /// The calling thread is about to call its function `name`.
    pub fn enter_call(&self, name: &'static str) -> UnderWay<'_> {
        self.verifier.calls().enter(&self.name, self.places.clone(), name)
    }

    /// The image it runs from, unless it is linked into the process.
    pub fn image(&self) -> Option<&LoadedImage> {
        self.image.as_deref()
    }

    /// True for an address in its image.
    pub fn is_own(&self, address: usize) -> bool {
        self.image().is_some_and(|loaded| loaded.image.rva_of(address).is_some())
    }

    /// Function, file and line of an address in its image; `None` if the address is outside.
    pub fn place(&self, address: usize) -> Option<CodeLocation> {
        self.image()?.place(address)
    }

    /// As [`LoadedImage::place_of`].
    pub fn place_of(&self, frames: Frames) -> Option<CodeLocation> {
        self.image()?.place_of(frames)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    pub fn ram(&self) -> Option<&Arc<Ram>> {
        self.ram.as_ref()
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Event tracing of the driver: its providers and events.
    pub fn etw(&self) -> &Etw {
        &self.etw
    }

    /// The root of the machine's registry.
    pub fn registry(&self) -> &RegistryKey {
        &self.registry
    }

    /// The keys of the registry that it has open.
    pub fn keys(&self) -> &OpenKeys {
        &self.keys
    }

    /// Work of the driver outside its calls: timers, DPCs, work items and threads.
    pub fn deferred(&self) -> &Arc<Deferred> {
        &self.deferred
    }

    /// Memory of a device that it may map by physical address from now on, as long as the device is there.
    pub fn add_io_space(&self, space: Weak<dyn IoSpace>) {
        let mut spaces = self.io_spaces.lock();
        spaces.retain(|space| space.strong_count() != 0);
        spaces.push(space);
    }

    /// The memory of its devices.
    pub fn io_spaces(&self) -> Vec<Arc<dyn IoSpace>> {
        self.io_spaces.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The memory of its devices that was at an address before it was unmapped, or is mapped beside it.
    pub fn mapping_near(&self, address: usize) -> Option<IoMapping> {
        self.io_spaces().iter().find_map(|space| space.mapping_near(address))
    }

    /// The executive resources that it has initialised.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The lookaside lists that it has initialised.
    pub fn lookaside_lists(&self) -> &LookasideLists {
        &self.lookaside_lists
    }

    /// The memory descriptor lists that it has made.
    pub fn page_lists(&self) -> &PageLists {
        &self.page_lists
    }

    /// Contiguous memory that the driver has, and has freed.
    pub fn contiguous(&self) -> &Contiguous {
        &self.contiguous
    }

    /// The physical address of a byte that devices reach: of its contiguous memory, or of the machine's memory as the kernel sees it.
    pub fn physical_address(&self, address: usize) -> Option<u64> {
        self.contiguous.physical_address(address).or_else(|| self.ram()?.physical_address(address))
    }

    /// Blocks of pages of lists that it has not freed, and the instruction that asked for the first of them.
    pub(crate) fn listed_blocks(&self) -> (usize, usize) {
        let listed = lock(&self.listed_pages);
        (listed.len(), listed.values().next().map_or(0, |(_, from)| *from))
    }

    /// Keeps pages of a list for it, which an instruction has asked for; the address of the memory.
    pub(crate) fn keep_listed(&self, pages: Pages, from: usize) -> usize {
        let address = pages.kernel_address().as_ptr().expose_provenance();
        lock(&self.listed_pages).insert(address, (pages, from));
        address
    }

    /// Gives pages of a list back; false if it has none at the address.
    pub(crate) fn release_listed(&self, address: usize) -> bool {
        lock(&self.listed_pages).remove(&address).is_some()
    }

    /// One more bug check callback; true if the driver listens for bug checks already.
    pub fn add_bug_check_callback(&self, callback: BugCheckCallback) -> bool {
        let mut bug_checks = self.bug_checks.lock();
        bug_checks.callbacks.push(callback);
        bug_checks.listener.is_some()
    }

    /// False if no callback is registered with this record.
    pub fn remove_bug_check_callback(&self, record: usize) -> bool {
        let callbacks = &mut self.bug_checks.lock().callbacks;
        let place = callbacks.iter().position(|callback| callback.record == record);
        place.map(|place| callbacks.remove(place)).is_some()
    }

    /// The bug check callbacks that are registered.
    pub fn bug_check_callbacks(&self) -> Vec<BugCheckCallback> {
        self.bug_checks.lock().callbacks.clone()
    }

    /// Has `listener` called when the machine stops while the driver is loaded.
    pub fn listen_for_bug_checks(&self, listener: Arc<Listener>) {
        self.verifier.listen(&listener);
        self.bug_checks.lock().listener = Some(listener);
    }

    /// A driver of no machine.
    pub fn for_tests(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            services: &Services::NONE,
            verifier: Arc::default(),
            ram: None,
            pool: Pool::new(1 << 20, SpecialPool::Off),
            etw: Etw::default(),
            registry: RegistryKey::default(),
            keys: OpenKeys::default(),
            deferred: Arc::default(),
            resources: Resources::default(),
            lookaside_lists: LookasideLists::default(),
            page_lists: PageLists::default(),
            io_spaces: Mutex::default(),
            contiguous: Contiguous::default(),
            listed_pages: Mutex::default(),
            bug_checks: Mutex::default(),
            image: None,
            places: None,
            object: DriverObject::new("", [0; 3]),
        })
    }

    /// The image and the pool of the driver.
    ///
    /// # Errors
    /// The process' own memory cannot be opened.
    pub fn memory(&self) -> io::Result<DriverMemory> {
        // Read by the kernel, which answers for memory that is freed meanwhile instead of faulting.
        let memory = File::open("/proc/thread-self/mem")?;
        let image = self.image().map(|loaded| (loaded.image.base() as u64, loaded.image.size() as u64));
        let pool = self.pool().blocks().into_iter().map(|(address, size)| (address as u64, size as u64));
        let read = |(address, size): (u64, u64)| {
            let mut bytes = vec![0; usize::try_from(size).ok()?];
            memory.read_exact_at(&mut bytes, address).ok()?;
            Some(MemoryRange { address, bytes })
        };
        let mut ranges: Vec<MemoryRange> = image.into_iter().chain(pool).filter_map(read).collect();
        ranges.sort_by_key(|range| range.address);
        Ok(DriverMemory { name: self.name().to_owned(), image, ranges })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.deferred.lock().ended = true;
        self.deferred.notify();
    }
}
