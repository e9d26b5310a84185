// UNSAFETY: memory that a device may change at any time, and a descriptor that another crate's type is to own.
//! The bus `vfio`: a real PCI function, bound to vfio-pci, behind an IOMMU.
//!
//! Every BAR is mapped, the registers too, so that the driver's loads and stores reach the function as they would on Windows. Configuration space goes
//! through vfio, which keeps the addresses of BARs and the MSI-X structures to itself. System memory is mapped for DMA at the addresses that the
//! machine gives it, by VFIO_IOMMU_MAP_DMA (type 1), which needs an IOMMU.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dxgkrnl::Ram;
use dxgkrnl::bus::{Bar, Bus, InterruptSink};
use vfio_ioctls::{VfioContainer, VfioDevice};
use vmm_sys_util::eventfd::EventFd;

use super::listener::{Listener, new_eventfd};
use super::memory_file::file_of;
use super::msix::config;

/// Index of configuration space among the regions of a function. [linux/vfio.h: VFIO_PCI_CONFIG_REGION_INDEX]
const CONFIG: u32 = 7;
/// Indices among its interrupts. [linux/vfio.h: VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_REQ_IRQ_INDEX]
const MSI: u32 = 1;
const MSIX: u32 = 2;
const REQUEST: u32 = 4;
/// A huge page. Memory that is made of such pages takes a mapping of the IOMMU each, and one for every page otherwise.
const HUGE: usize = 2 << 20;

/// [`Bus`] of a function that is bound to vfio-pci.
pub struct VfioBus {
    function: Arc<Opened>,
    /// Counts requests to give the function back.
    request: OwnedFd,
    interrupts: Mutex<Option<Listener>>,
    memory: Mutex<Option<Mapping>>,
}

/// A function as long as the process lives: opening one takes a reset, and closing one would wait for every mapping of its BARs.
struct Opened {
    name: String,
    container: Arc<VfioContainer>,
    device: VfioDevice,
    /// The device's descriptor, for mappings of BARs.
    file: Arc<File>,
    /// One machine at a time.
    taken: AtomicBool,
}

static OPENED: Mutex<BTreeMap<PathBuf, Arc<Opened>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file in this process, from a multiple of [`HUGE`] on.
struct Mapping {
    reserved: NonNull<u8>,
    reserved_len: usize,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, and nobody accesses it here.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &File, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let reserved_len = len.checked_add(HUGE).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice replaces nothing.
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), reserved_len, libc::PROT_NONE, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reserved = NonNull::new(reserved.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let gap = reserved.as_ptr().align_offset(HUGE);
        // SAFETY: the reservation is HUGE bytes longer than what is needed, and the gap is shorter than that.
        let base = unsafe { reserved.add(gap) };
        let mapping = Self { reserved, reserved_len, base, len };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: replaces a part of the reservation, which nobody else knows.
        let mapped = unsafe { libc::mmap(base.as_ptr().cast(), len, protection, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping just made; advice changes no contents, and a refusal only makes the IOMMU's tables larger.
        unsafe { libc::madvise(mapped, len, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the reservation, of which nothing is used any more.
        unsafe { libc::munmap(self.reserved.as_ptr().cast(), self.reserved_len) };
    }
}

/// The name of a function with its domain, which is 0 where it is not told: `01:00.0` is `0000:01:00.0`.
pub(super) fn full_name(name: &str) -> Option<String> {
    let hex = |text: &str, len: usize| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = name.split(':').collect();
    let (domain, bus, rest) = match parts.as_slice() {
        [bus, rest] => ("0000", *bus, *rest),
        [domain, bus, rest] => (*domain, *bus, *rest),
        _ => return None,
    };
    let (device, function) = rest.split_once('.')?;
    let fits = hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1);
    fits.then(|| format!("{domain}:{bus}:{device}.{function}").to_lowercase())
}

impl Opened {
    fn new(name: &str, path: &Path) -> io::Result<Self> {
        if !path.exists() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such PCI function"));
        }
        if !path.join("iommu_group").exists() {
            return Err(io::Error::other("it has no IOMMU group; the machine needs an IOMMU that is switched on"));
        }
        let driver = path.join("driver").read_link().ok().and_then(|driver| Some(driver.file_name()?.to_owned()));
        if driver.as_deref() != Some("vfio-pci".as_ref()) {
            let driver = driver.map_or_else(|| "no driver".into(), |driver| driver.to_string_lossy().into_owned());
            return Err(io::Error::other(format!("it is bound to {driver}, not to vfio-pci")));
        }
        let container = Arc::new(VfioContainer::new(None).map_err(io::Error::other)?);
        let operations = Arc::clone(&container);
        let device = VfioDevice::new(path, operations, true).map_err(io::Error::other)?;
        // SAFETY: the device owns its descriptor and lives until the end of this function.
        let descriptor = unsafe { BorrowedFd::borrow_raw(device.as_raw_fd()) };
        let file = Arc::new(File::from(descriptor.try_clone_to_owned()?));
        Ok(Self { name: format!("vfio={name}"), container, device, file, taken: AtomicBool::new(false) })
    }

    fn read(&self, region: u32, offset: u64, size: u8) -> u64 {
        // What cannot be read, of a function that sleeps or is gone, is all ones.
        let mut bytes = [0xff; 8];
        if let Some(bytes) = bytes.get_mut(..usize::from(size)) {
            self.device.region_read(region, bytes, offset);
        }
        let unread = 8_usize.saturating_sub(size.into()) * 8;
        u64::from_le_bytes(bytes).checked_shl(unread as u32).map_or(u64::MAX, |value| value >> unread)
    }

    fn write(&self, region: u32, offset: u64, size: u8, value: u64) {
        let bytes = value.to_le_bytes();
        self.device.region_write(region, bytes.get(..usize::from(size)).unwrap_or(&bytes), offset);
    }

    /// By which of its interrupts the function sends messages.
    fn messages(&self) -> u32 {
        let has_msix = self.device.get_irq_info(MSIX).is_some_and(|vectors| vectors.count > 0);
        if has_msix { MSIX } else { MSI }
    }

    /// Asks for the class code. Linux keeps the identity of a function that was pulled out, and would tell it.
    fn is_there(&self) -> bool {
        self.read(CONFIG, config::CLASS.into(), 4) != u64::from(u32::MAX)
    }
}

impl VfioBus {
    /// The function of this name, such as `0000:01:00.0`, as after a function-level reset.
    ///
    /// # Errors
    /// There is no such function, it is not bound to vfio-pci or has no IOMMU, or a machine of this process or another one uses it.
    pub fn open(name: &str) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "a PCI function is named like 0000:01:00.0");
        let name = full_name(name).ok_or_else(bad)?;
        let path = Path::new("/sys/bus/pci/devices").join(&name);
        let mut opened = lock(&OPENED);
        let function = match opened.get(&path) {
            Some(function) => Arc::clone(function),
            None => {
                let function = Arc::new(Opened::new(&name, &path)?);
                opened.insert(path, Arc::clone(&function));
                function
            }
        };
        if function.taken.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another machine of this process uses it"));
        }
        let request = new_eventfd()?;
        let wanted = trigger(&request)?;
        function.device.enable_irq(REQUEST, vec![&wanted]).map_err(io::Error::other)?;
        function.device.reset();
        Ok(Self { function, request, interrupts: Mutex::default(), memory: Mutex::default() })
    }

    /// An eventfd that is signalled when Linux wants the function back: it is unplugged, in order or by surprise. Linux waits until nobody has it open.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn request(&self) -> io::Result<OwnedFd> {
        self.request.try_clone()
    }
}

/// Resets every function that this process has opened, also while a machine uses it. [linux/vfio.h: VFIO_DEVICE_RESET]
pub fn reset_functions() {
    lock(&OPENED).values().for_each(|function| function.device.reset());
}

impl Drop for VfioBus {
    fn drop(&mut self) {
        self.disconnect_interrupts();
        // Nothing is under way when the memory goes, which is what a reset is for. Linux would wait a minute for one of a function that was pulled out.
        if self.function.is_there() {
            self.function.device.reset();
        }
        if let Some(mapping) = lock(&self.memory).take() {
            let _ = self.function.container.vfio_dma_unmap(0, mapping.len);
        }
        self.function.taken.store(false, Ordering::Release);
        // Nobody opens again what is wanted back.
        if rustix::io::read(&self.request, &mut [0; 8]) == Ok(8) {
            lock(&OPENED).retain(|_, opened| !Arc::ptr_eq(opened, &self.function));
        }
    }
}

impl Bus for VfioBus {
    fn name(&self) -> String {
        self.function.name.clone()
    }

    fn config_read(&self, offset: u16, size: u8) -> u32 {
        let value = self.function.read(CONFIG, offset.into(), size.min(4)) as u32;
        if offset < config::COMMAND && !self.function.is_there() { u32::MAX } else { value }
    }

    fn config_write(&self, offset: u16, size: u8, value: u32) {
        self.function.write(CONFIG, offset.into(), size.min(4), value.into());
    }

    fn bar(&self, index: u8) -> Option<Bar> {
        let device = &self.function.device;
        let size = (index < 6).then(|| device.get_region_size(index.into())).filter(|size| *size > 0)?;
        let word = self.config_read(config::BAR0 + 4 * u16::from(index), 4);
        let prefetchable = word & config::BAR_PREFETCHABLE != 0;
        let offset = device.get_region_offset(index.into());
        Some(Bar::Mapped { file: Arc::clone(&self.function.file), offset, size, prefetchable })
    }

    /// In halves: Linux carries accesses of 8 bytes out only since version 6.12.
    fn register_read(&self, bar: u8, offset: u64, size: u8) -> u64 {
        match size {
            8 => {
                let high = |value: u64| value << 32;
                self.function.read(bar.into(), offset, 4) | high(self.function.read(bar.into(), offset + 4, 4))
            }
            _ => self.function.read(bar.into(), offset, size),
        }
    }

    fn register_write(&self, bar: u8, offset: u64, size: u8, value: u64) {
        match size {
            8 => {
                self.function.write(bar.into(), offset, 4, value & u64::from(u32::MAX));
                self.function.write(bar.into(), offset + 4, 4, value >> 32);
            }
            _ => self.function.write(bar.into(), offset, size, value),
        }
    }

    /// Linux fills the table and enables MSI-X, or MSI where there is no other; a message is a signal of the vector's eventfd.
    fn connect_interrupts(&self, vectors: u16, sink: Arc<dyn InterruptSink>) -> io::Result<()> {
        let eventfds = (0..vectors).map(|_| new_eventfd()).collect::<io::Result<Vec<_>>>()?;
        let triggers = eventfds.iter().map(trigger).collect::<io::Result<Vec<_>>>()?;
        let messages = self.function.messages();
        self.function.device.enable_irq(messages, triggers.iter().collect()).map_err(io::Error::other)?;
        let listener = Listener::start(eventfds, sink)?;
        *lock(&self.interrupts) = Some(listener);
        Ok(())
    }

    fn disconnect_interrupts(&self) {
        // Waits for a message under way.
        let Some(listener) = lock(&self.interrupts).take() else { return };
        let _ = self.function.device.disable_irq(self.function.messages());
        drop(listener);
    }

    fn settle_messages(&self) {
        if let Some(listener) = &*lock(&self.interrupts) {
            listener.settle();
        }
    }

    fn map_memory(&self, memory: &Arc<Ram>) -> io::Result<()> {
        let mapping = Mapping::new(file_of(memory)?, memory.size())?;
        let container = &self.function.container;
        // SAFETY: no reference to the mapping exists, and it stays until vfio_dma_unmap has taken the range away.
        let mapped = unsafe { container.vfio_dma_map(0, mapping.len, mapping.base.as_ptr()) };
        mapped.map_err(io::Error::other)?;
        *lock(&self.memory) = Some(mapping);
        Ok(())
    }

    fn unmap_memory(&self, _: &Ram) {
        let Some(mapping) = lock(&self.memory).take() else { return };
        if let Err(error) = self.function.container.vfio_dma_unmap(0, mapping.len) {
            crate::complain!("campanile: {}: memory cannot be taken away: {error}", self.function.name);
            // The function may still reach it.
            std::mem::forget(mapping);
        }
    }
}

/// A second descriptor of an eventfd, as vfio-ioctls takes it.
fn trigger(eventfd: &OwnedFd) -> io::Result<EventFd> {
    let descriptor = eventfd.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor is new, and nobody else owns it.
    Ok(unsafe { EventFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_a_domain_and_other_words_are_none() {
        assert_eq!(full_name("01:00.0").as_deref(), Some("0000:01:00.0"));
        assert_eq!(full_name("000A:fF:1f.7").as_deref(), Some("000a:ff:1f.7"));
        for text in ["", "1:0.0", "01:00", "01:00.00", "0:01:00.0", "../1:00.0", "01:00.0/..", "é1:00.0", "a:b:c:d"] {
            assert_eq!(full_name(text), None, "{text}");
        }
    }

    #[test]
    fn a_function_that_is_not_there_is_named_as_such() {
        let error = VfioBus::open("ffff:ff:1f.7").map(drop).unwrap_err();
        assert!(error.to_string().contains("no such PCI function"), "{error}");
        assert!(VfioBus::open("gpu").map(drop).unwrap_err().to_string().contains("named like"));
    }

    #[test]
    fn mappings_for_dma_start_at_huge_pages_and_show_the_file() {
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).map(File::from).unwrap();
        file.set_len(3 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7], 0).unwrap();
        let mapping = Mapping::new(&file, 2 << 20).unwrap();
        assert_eq!(mapping.base.as_ptr().addr() % HUGE, 0);
        // SAFETY: the mapping is readable, and its file is as long.
        assert_eq!(unsafe { mapping.base.as_ptr().read_volatile() }, 7);
    }
}
