//! PE images loaded into this process: the part of a kernel's image loader that a driver or DLL can see.
//!
//! An image is untrusted input: every offset is checked before it is followed, and a broken image gets a named refusal with
//! nothing left behind. Work and memory are bounded by the size of the file, see `Allowance`, which itself is bounded.

mod allowance;
mod error;
pub mod symbols;

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, Import, PeFile64};

use crate::page::PAGE_SIZE;

use allowance::Allowance;
pub use error::{ImageError, ImageKind};

/// Largest image accepted, in bytes of address space.
const SPACE_MAX: u32 = 64 << 20;
const PAGE: u32 = PAGE_SIZE as u32;
/// Unresolved imports that are named; of more, only their number is told.
const NAMED_MAX: usize = 32;

/// Finds the address of an imported function: (module, name).
pub type Resolver<'a> = dyn Fn(&str, &str) -> Option<usize> + 'a;

/// A loaded image; unmapped when dropped.
pub struct Image {
    name: String,
    base: NonNull<u8>,
    size: u32,
    entry: Option<u32>,
    exports: BTreeMap<String, u32>,
    pdb: Option<PdbIdentity>,
    /// Offset of the table of functions and their unwind data, and the number of its entries.
    functions: (u32, u32),
}

/// A function of an image, or a part of one, by offsets in the image. [learn: RUNTIME_FUNCTION]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeFunction {
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// Relative address of the unwind data of the function.
    pub(crate) unwind: u32,
}

impl RuntimeFunction {
    /// Bytes of an entry of the table.
    const SIZE: u32 = 12;

    pub(crate) fn from_words(bytes: [u8; Self::SIZE as usize]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let [begin, end, unwind] = [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes);
        Self { begin, end, unwind }
    }
}

/// Which PDB belongs to an image, as its debug directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdbIdentity {
    /// File name given to the linker.
    pub file: String,
    /// GUID in its order of bytes.
    pub guid: [u8; 16],
    /// Number of times that the PDB was written after it was made.
    pub age: u32,
}

/// GUID and age in hexadecimal digits, as symbol servers name folders.
impl fmt::Display for PdbIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i, rest @ ..] = self.guid;
        let (first, second, third) =
            (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, g]), u16::from_le_bytes([h, i]));
        write!(f, "{first:08X}{second:04X}{third:04X}{:016X}{:X}", u64::from_be_bytes(rest), self.age)
    }
}

// SAFETY: the mapping belongs to the object and is only handed out as addresses.
unsafe impl Send for Image {}
// SAFETY: as for Send; nothing is changed after loading.
unsafe impl Sync for Image {}

struct Section {
    rva: u32,
    size: u32,
    characteristics: u32,
}

impl Image {
    /// Largest file accepted, in bytes. Callers read no more than one byte beyond it.
    pub const FILE_MAX: usize = 64 << 20;

    /// The PDB that belongs to the image in `bytes`, `None` if it names none or is no image.
    pub fn pdb_of(bytes: &[u8]) -> Option<PdbIdentity> {
        parse(bytes).ok().as_ref().and_then(pdb)
    }

    /// Loads `bytes` as an image of `kind`, its imports found by `resolve`. No code of the image runs.
    ///
    /// # Errors
    /// An [`ImageError`] that names the first thing wrong.
    pub fn load(name: &str, bytes: &[u8], kind: ImageKind, resolve: &Resolver<'_>) -> Result<Self, ImageError> {
        let file = parse(bytes)?;
        let size = check_headers(&file, kind)?;
        let sections = check_sections(&file, bytes, size)?;
        let mut allowance = Allowance::of(bytes);
        for (index, what) in [
            (pe::IMAGE_DIRECTORY_ENTRY_TLS, "thread-local storage"),
            (pe::IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, "delay-loaded imports"),
        ] {
            if file.data_directories().get(index).is_some_and(|directory| directory.virtual_address.get(LE) != 0) {
                return Err(ImageError::Unsupported(what));
            }
        }
        let optional = file.nt_headers().optional_header();
        let entry = match optional.address_of_entry_point() {
            0 => None,
            rva => Some(rva),
        };
        if let Some(rva) = entry
            && !sections.iter().any(|section| section.is_executable() && section.contains(rva))
        {
            return Err(ImageError::BadHeader("the entry point is not in executable code"));
        }
        let image = Self {
            name: name.to_owned(),
            base: reserve(size)?,
            size,
            entry,
            exports: exports(&file, size, &mut allowance)?,
            pdb: pdb(&file),
            functions: functions(&file, size)?,
        };
        image.copy(&file, bytes)?;
        image.relocate(&file, optional.image_base())?;
        image.bind(&file, resolve, &mut allowance)?;
        image.protect(&sections)?;
        Ok(image)
    }

    /// File name given at load.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of the first byte.
    pub fn base(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// Bytes of address space.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Address of the entry point, if the image has one.
    pub fn entry(&self) -> Option<usize> {
        self.entry.map(|rva| self.base() + rva as usize)
    }

    /// Address of an export.
    pub fn export(&self, name: &str) -> Option<usize> {
        self.exports.get(name).map(|rva| self.base() + *rva as usize)
    }

    /// Names of all exports.
    pub fn exports(&self) -> impl Iterator<Item = &str> {
        self.exports.keys().map(String::as_str)
    }

    /// The PDB that belongs to it.
    pub fn pdb(&self) -> Option<&PdbIdentity> {
        self.pdb.as_ref()
    }

    /// Offset in the image of an address, if it lies inside.
    pub fn rva_of(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.base())?;
        u32::try_from(offset).ok().filter(|rva| *rva < self.size)
    }

    /// Bytes of the image, if they all lie inside.
    pub(crate) fn read_at<const N: usize>(&self, rva: u32) -> Option<[u8; N]> {
        if u64::from(rva) + N as u64 > u64::from(self.size) {
            return None;
        }
        // SAFETY: the range was just checked to lie inside the mapping.
        let source = unsafe { self.base.as_ptr().add(rva as usize) };
        // SAFETY: so many bytes are mapped there, all of which may be read; alignment is not assumed.
        Some(unsafe { source.cast::<[u8; N]>().read_unaligned() })
    }

    /// True if the image says how its functions are unwound.
    pub(crate) fn has_functions(&self) -> bool {
        self.functions.1 != 0
    }

    /// The function that an offset lies in.
    pub(crate) fn runtime_function(&self, rva: u32) -> Option<RuntimeFunction> {
        let (table, entries) = self.functions;
        let at = |index: u32| Some(RuntimeFunction::from_words(self.read_at(table + index * RuntimeFunction::SIZE)?));
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low + (high - low) / 2;
            let function = at(middle)?;
            if rva < function.begin {
                high = middle;
            } else if rva >= function.end {
                low = middle + 1;
            } else {
                return Some(function);
            }
        }
        None
    }

    fn write(&self, rva: u32, bytes: &[u8]) -> Result<(), ImageError> {
        let end = u64::from(rva) + bytes.len() as u64;
        if end > u64::from(self.size) {
            return Err(ImageError::BadHeader("data outside the image"));
        }
        // SAFETY: the range was just checked to lie inside the mapping, which is still private and writable.
        let target = unsafe { self.base.as_ptr().add(rva as usize) };
        // SAFETY: source and target do not overlap and both have `bytes.len()` bytes.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn read_u64(&self, rva: u32) -> Option<u64> {
        self.read_at(rva).map(u64::from_le_bytes)
    }

    fn copy(&self, file: &PeFile64<'_>, bytes: &[u8]) -> Result<(), ImageError> {
        let headers = file.nt_headers().optional_header().size_of_headers() as usize;
        self.write(0, bytes.get(..headers).ok_or(ImageError::BadHeader("SizeOfHeaders beyond the file"))?)?;
        for section in file.section_table().iter() {
            let (offset, size) = section.pe_file_range();
            let data = bytes.get(offset as usize..offset as usize + size as usize);
            self.write(section.virtual_address.get(LE), data.unwrap_or(&[]))?;
        }
        Ok(())
    }

    fn relocate(&self, file: &PeFile64<'_>, preferred: u64) -> Result<(), ImageError> {
        let delta = (self.base() as u64).wrapping_sub(preferred);
        let Some(mut blocks) = file.data_directories().relocation_blocks(file.data(), &file.section_table())? else {
            // Code that finds everything by its distance needs none. The linker says whether there were some. [pe-format: IMAGE_FILE_RELOCS_STRIPPED]
            let stripped =
                file.nt_headers().file_header().characteristics.get(LE).0 & pe::IMAGE_FILE_RELOCS_STRIPPED.0 != 0;
            const STRIPPED: &str =
                "its relocations were stripped (IMAGE_FILE_RELOCS_STRIPPED), so it runs at one address only";
            return if stripped { Err(ImageError::BadHeader(STRIPPED)) } else { Ok(()) };
        };
        while let Some(block) = blocks.next()? {
            for relocation in block {
                let rva = relocation.virtual_address;
                match relocation.typ {
                    pe::IMAGE_REL_BASED_ABSOLUTE => {}
                    pe::IMAGE_REL_BASED_DIR64 => {
                        let value = self.read_u64(rva).ok_or(ImageError::BadRelocation { rva })?;
                        self.write(rva, &value.wrapping_add(delta).to_le_bytes())?;
                    }
                    _ => return Err(ImageError::BadRelocation { rva }),
                }
            }
        }
        Ok(())
    }

    fn bind(&self, file: &PeFile64<'_>, resolve: &Resolver<'_>, allowance: &mut Allowance) -> Result<(), ImageError> {
        let Some(table) = file.import_table()? else { return Ok(()) };
        let (mut first, mut all) = (Vec::new(), 0);
        let mut descriptors = table.descriptors()?;
        while let Some(descriptor) = descriptors.next()? {
            allowance.take(size_of::<pe::ImageImportDescriptor>())?;
            let module = allowance.name(table.name(descriptor.name.get(LE))?)?;
            let names = match descriptor.original_first_thunk.get(LE) {
                0 => descriptor.first_thunk.get(LE),
                rva => rva,
            };
            let mut thunks = table.thunks(names)?;
            let mut slot = descriptor.first_thunk.get(LE);
            while let Some(thunk) = thunks.next::<pe::ImageNtHeaders64>()? {
                allowance.take(size_of::<u64>())?;
                match table.import::<pe::ImageNtHeaders64>(thunk)? {
                    Import::Ordinal(ordinal) => return Err(ImageError::ImportByOrdinal { module, ordinal }),
                    Import::Name(_, name) => {
                        let name = allowance.name(name)?;
                        match resolve(&module, &name) {
                            Some(address) => self.write(slot, &(address as u64).to_le_bytes())?,
                            None => {
                                all += 1;
                                if first.len() < NAMED_MAX {
                                    first.push(format!("{module}!{name}"));
                                }
                            }
                        }
                    }
                }
                slot = slot.checked_add(8).ok_or(ImageError::BadHeader("import table"))?;
            }
        }
        if all == 0 { Ok(()) } else { Err(ImageError::UnresolvedImports { first, all }) }
    }

    fn protect(&self, sections: &[Section]) -> Result<(), ImageError> {
        self.protect_range(0, self.size, libc::PROT_READ)?;
        for section in sections {
            let mut protection = libc::PROT_READ;
            if section.characteristics & pe::IMAGE_SCN_MEM_WRITE.0 != 0 {
                protection |= libc::PROT_WRITE;
            }
            if section.is_executable() {
                protection |= libc::PROT_EXEC;
            }
            self.protect_range(section.rva, section.size, protection)?;
        }
        Ok(())
    }

    fn protect_range(&self, rva: u32, size: u32, protection: i32) -> Result<(), ImageError> {
        // SAFETY: section ranges were checked to lie inside the image.
        let start = unsafe { self.base.as_ptr().add(rva as usize) };
        // SAFETY: the range belongs to this image's own mapping.
        let result = unsafe { libc::mprotect(start.cast(), size as usize, protection) };
        if result == 0 { Ok(()) } else { Err(ImageError::OutOfMemory) }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size; the owner of an image keeps it while its code may run.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size as usize) };
    }
}

impl Section {
    fn is_executable(&self) -> bool {
        self.characteristics & pe::IMAGE_SCN_MEM_EXECUTE.0 != 0
    }

    fn contains(&self, rva: u32) -> bool {
        rva >= self.rva && rva - self.rva < self.size
    }
}

fn parse(bytes: &[u8]) -> Result<PeFile64<'_>, ImageError> {
    if bytes.len() > Image::FILE_MAX {
        return Err(ImageError::TooLarge(bytes.len()));
    }
    match object::FileKind::parse(bytes) {
        Ok(object::FileKind::Pe64) => {}
        Ok(object::FileKind::Pe32) => return Err(ImageError::Not64Bit),
        Ok(other) => return Err(ImageError::NotAnImage(format!("the file is {other:?}"))),
        Err(error) => {
            return Err(ImageError::NotAnImage(kind_of(bytes).map_or_else(|| error.to_string(), str::to_owned)));
        }
    }
    Ok(PeFile64::parse(bytes)?)
}

/// What a file that is often named by mistake is, by its first bytes.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [] => Some("the file is empty"),
        [0x7f, b'E', b'L', b'F', ..] => Some("it is an ELF file, as Linux has them"),
        [b'M', b'S', b'C', b'F', ..] => Some("it is a cabinet; unpack the image that is in it"),
        [b'P', b'K', 3, 4, ..] => Some("it is a zip archive; unpack the image that is in it"),
        [b'M', b'i', b'c', b'r', ..] => Some("it is a PDB; name the image that it belongs to"),
        _ => None,
    }
}

/// Checks the headers and returns the size of the image.
fn check_headers(file: &PeFile64<'_>, kind: ImageKind) -> Result<u32, ImageError> {
    let header = file.nt_headers().file_header();
    let machine = header.machine.get(LE);
    if machine != pe::IMAGE_FILE_MACHINE_AMD64 {
        return Err(ImageError::WrongMachine(machine.0));
    }
    let characteristics = header.characteristics.get(LE).0;
    let optional = file.nt_headers().optional_header();
    let subsystem = optional.subsystem();
    let fits = match kind {
        ImageKind::Driver => subsystem == pe::IMAGE_SUBSYSTEM_NATIVE,
        ImageKind::Dll => characteristics & pe::IMAGE_FILE_DLL.0 != 0 && subsystem != pe::IMAGE_SUBSYSTEM_NATIVE,
    };
    if !fits {
        return Err(ImageError::WrongKind { wanted: kind, subsystem: subsystem.0 });
    }
    if characteristics & pe::IMAGE_FILE_EXECUTABLE_IMAGE.0 == 0 {
        return Err(ImageError::BadHeader("not linked (IMAGE_FILE_EXECUTABLE_IMAGE is clear)"));
    }
    if optional.section_alignment() != PAGE {
        return Err(ImageError::BadHeader("section alignment is not 4096"));
    }
    let size = optional.size_of_image();
    if size == 0 || size > SPACE_MAX || size % PAGE != 0 {
        return Err(ImageError::BadHeader("SizeOfImage"));
    }
    if optional.size_of_headers() > size {
        return Err(ImageError::BadHeader("SizeOfHeaders"));
    }
    Ok(size)
}

fn check_sections(file: &PeFile64<'_>, bytes: &[u8], image_size: u32) -> Result<Vec<Section>, ImageError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut free_from = file.nt_headers().optional_header().size_of_headers();
    for header in file.section_table().iter() {
        let refuse = |problem| {
            Err(ImageError::BadSection { name: String::from_utf8_lossy(header.raw_name()).into_owned(), problem })
        };
        let (rva, size) = (header.virtual_address.get(LE), header.virtual_size.get(LE));
        let Some(end) = rva.checked_add(size).and_then(|end| end.checked_next_multiple_of(PAGE)) else {
            return refuse("wraps around");
        };
        if size == 0 || rva % PAGE != 0 || end > image_size {
            return refuse("outside the image");
        }
        if rva < free_from {
            return refuse("overlaps what lies before it");
        }
        // Data is padded in the file, beyond what the image shows of it; the padding must be there too.
        let (offset, raw) = (header.pointer_to_raw_data.get(LE), header.size_of_raw_data.get(LE));
        if header.pe_file_range().1 > end - rva || u64::from(offset) + u64::from(raw) > bytes.len() as u64 {
            return refuse("its data lies outside the file, which may have been cut off");
        }
        let characteristics = header.characteristics.get(LE).0;
        if characteristics & pe::IMAGE_SCN_MEM_WRITE.0 != 0 && characteristics & pe::IMAGE_SCN_MEM_EXECUTE.0 != 0 {
            return refuse("writable and executable");
        }
        free_from = end;
        sections.push(Section { rva, size: end - rva, characteristics });
    }
    if sections.is_empty() {
        return Err(ImageError::BadHeader("no sections"));
    }
    Ok(sections)
}

fn exports(
    file: &PeFile64<'_>,
    image_size: u32,
    allowance: &mut Allowance,
) -> Result<BTreeMap<String, u32>, ImageError> {
    let mut names = BTreeMap::new();
    let Some(table) = file.export_table()? else { return Ok(names) };
    for (pointer, index) in table.name_iter() {
        // An entry of the table of names and one of the table of ordinals.
        allowance.take(size_of::<u32>() + size_of::<u16>())?;
        let name = allowance.name(table.name_from_pointer(pointer)?)?;
        let rva = table.address_by_index(index)?;
        // What another module is to provide is no function of this image.
        if !table.is_forward(rva) && rva < image_size {
            names.insert(name, rva);
        }
    }
    Ok(names)
}

/// Where the table of functions is. It is sorted by their beginnings; in one that is not, some are not found.
fn functions(file: &PeFile64<'_>, image_size: u32) -> Result<(u32, u32), ImageError> {
    let directory = file.data_directories().get(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION);
    let (rva, size) = directory.map_or((0, 0), |directory| (directory.virtual_address.get(LE), directory.size.get(LE)));
    if u64::from(rva) + u64::from(size) > u64::from(image_size) {
        return Err(ImageError::BadHeader("the exception directory lies outside the image"));
    }
    Ok((rva, size / RuntimeFunction::SIZE))
}

fn pdb(file: &PeFile64<'_>) -> Option<PdbIdentity> {
    // Debug information that cannot be read is no reason to refuse an image.
    let info = object::Object::pdb_info(file).ok().flatten()?;
    Some(PdbIdentity { file: String::from_utf8_lossy(info.path()).into_owned(), guid: info.guid(), age: info.age() })
}

fn reserve(size: u32) -> Result<NonNull<u8>, ImageError> {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        Err(ImageError::OutOfMemory)
    } else {
        NonNull::new(base.cast()).ok_or(ImageError::OutOfMemory)
    }
}
