//! PE images loaded into this process: the part of a kernel's image loader that a driver or DLL can see.
//!
//! An image is untrusted input: every offset is checked before it is followed, and a broken image gets a named refusal with
//! nothing left behind.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, Import, PeFile64};

/// Largest image accepted, in bytes of address space.
const IMAGE_MAX: u32 = 64 << 20;
const PAGE: u32 = 4096;

/// Which kind of image is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// A kernel driver: native subsystem.
    Driver,
    /// A user-mode DLL: Windows subsystem, DLL characteristic.
    Dll,
}

/// Why an image was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The file is not a PE image, or ends inside a structure.
    NotAnImage(String),
    /// The image is for a 32-bit processor.
    Not64Bit,
    /// The image is for another processor; the PE machine number.
    WrongMachine(u16),
    /// The subsystem or the characteristics do not fit the kind asked for.
    WrongKind { wanted: ImageKind, subsystem: u16 },
    /// A header value is out of range.
    BadHeader(&'static str),
    /// A section lies outside the file or the image, overlaps another, or is writable and executable at once.
    BadSection { name: String, problem: &'static str },
    /// A relocation is of an unknown type or outside the image.
    BadRelocation { rva: u32 },
    /// Imports that nothing here provides, as `module!name`.
    UnresolvedImports(Vec<String>),
    /// An import by ordinal; only names are resolved.
    ImportByOrdinal { module: String, ordinal: u16 },
    /// The image wants thread-local storage or a delay-loaded import, which nothing provides.
    Unsupported(&'static str),
    /// No memory for the image.
    OutOfMemory,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnImage(why) => write!(f, "not a PE image: {why}"),
            Self::Not64Bit => f.write_str("a 32-bit image; build it for x86_64-pc-windows-msvc"),
            Self::WrongMachine(machine) => write!(f, "for another processor (PE machine 0x{machine:04x}, need 0x8664)"),
            Self::WrongKind { wanted: ImageKind::Driver, subsystem } => {
                write!(f, "not a driver: subsystem {subsystem}, need 1 (native)")
            }
            Self::WrongKind { wanted: ImageKind::Dll, subsystem } => write!(f, "not a DLL (subsystem {subsystem})"),
            Self::BadHeader(what) => write!(f, "bad header: {what}"),
            Self::BadSection { name, problem } => write!(f, "section {name}: {problem}"),
            Self::BadRelocation { rva } => write!(f, "bad relocation at RVA 0x{rva:x}"),
            Self::UnresolvedImports(names) => write!(f, "unresolved imports: {}", names.join(", ")),
            Self::ImportByOrdinal { module, ordinal } => write!(f, "import by ordinal: {module}#{ordinal}"),
            Self::Unsupported(what) => write!(f, "the image needs {what}, which is not provided"),
            Self::OutOfMemory => f.write_str("out of memory for the image"),
        }
    }
}

impl std::error::Error for ImageError {}

impl From<object::read::Error> for ImageError {
    fn from(error: object::read::Error) -> Self {
        Self::NotAnImage(error.to_string())
    }
}

/// Finds the address of an imported function: (module, name).
pub type Resolver<'a> = dyn Fn(&str, &str) -> Option<usize> + 'a;

/// A loaded image; unmapped when dropped.
pub struct Image {
    name: String,
    base: NonNull<u8>,
    size: u32,
    entry: Option<u32>,
    exports: BTreeMap<String, u32>,
    /// The PDB's name and GUID with age, as the debug directory has them.
    pdb: Option<(String, [u8; 16], u32)>,
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
    /// Loads `bytes` as an image of `kind`, its imports found by `resolve`. No code of the image runs.
    ///
    /// # Errors
    /// An [`ImageError`] that names the first thing wrong.
    pub fn load(name: &str, bytes: &[u8], kind: ImageKind, resolve: &Resolver<'_>) -> Result<Self, ImageError> {
        let file = parse(bytes)?;
        let size = check_headers(&file, kind)?;
        let sections = check_sections(&file, bytes, size)?;
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
            exports: exports(&file, size)?,
            pdb: file
                .data_directories()
                .get(pe::IMAGE_DIRECTORY_ENTRY_DEBUG)
                .and_then(|_| object::Object::pdb_info(&file).ok().flatten())
                .map(|info| (String::from_utf8_lossy(info.path()).into_owned(), info.guid(), info.age())),
        };
        image.copy(&file, bytes)?;
        image.relocate(&file, optional.image_base())?;
        image.bind(&file, resolve)?;
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

    /// PDB path, GUID and age from the debug directory.
    pub fn pdb(&self) -> Option<(&str, [u8; 16], u32)> {
        self.pdb.as_ref().map(|(path, guid, age)| (path.as_str(), *guid, *age))
    }

    /// Offset in the image of an address, if it lies inside.
    pub fn rva_of(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.base())?;
        u32::try_from(offset).ok().filter(|rva| *rva < self.size)
    }

    fn write(&self, rva: u32, bytes: &[u8]) -> Result<(), ImageError> {
        let end = u64::from(rva) + bytes.len() as u64;
        if end > u64::from(self.size) {
            return Err(ImageError::BadHeader("data outside the image"));
        }
        // SAFETY: the range was just checked to lie inside the mapping, which is still private and writable.
        let target = unsafe { self.base.as_ptr().add(rva as usize) };
        // SAFETY: source and target do not overlap and both hold `bytes.len()` bytes.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn read_u64(&self, rva: u32) -> Option<u64> {
        if u64::from(rva) + 8 > u64::from(self.size) {
            return None;
        }
        // SAFETY: the range was just checked to lie inside the mapping.
        let source = unsafe { self.base.as_ptr().add(rva as usize) };
        // SAFETY: eight bytes are mapped there; alignment is not assumed.
        Some(unsafe { source.cast::<u64>().read_unaligned() })
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
            return Err(ImageError::BadHeader("no relocations"));
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

    fn bind(&self, file: &PeFile64<'_>, resolve: &Resolver<'_>) -> Result<(), ImageError> {
        let Some(table) = file.import_table()? else { return Ok(()) };
        let mut missing = Vec::new();
        let mut descriptors = table.descriptors()?;
        while let Some(descriptor) = descriptors.next()? {
            let module = String::from_utf8_lossy(table.name(descriptor.name.get(LE))?).into_owned();
            let names = match descriptor.original_first_thunk.get(LE) {
                0 => descriptor.first_thunk.get(LE),
                rva => rva,
            };
            let mut thunks = table.thunks(names)?;
            let mut slot = descriptor.first_thunk.get(LE);
            while let Some(thunk) = thunks.next::<pe::ImageNtHeaders64>()? {
                match table.import::<pe::ImageNtHeaders64>(thunk)? {
                    Import::Ordinal(ordinal) => return Err(ImageError::ImportByOrdinal { module, ordinal }),
                    Import::Name(_, name) => {
                        let name = String::from_utf8_lossy(name);
                        match resolve(&module, &name) {
                            Some(address) => self.write(slot, &(address as u64).to_le_bytes())?,
                            None => missing.push(format!("{module}!{name}")),
                        }
                    }
                }
                slot = slot.checked_add(8).ok_or(ImageError::BadHeader("import table"))?;
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(ImageError::UnresolvedImports(missing)) }
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
        // SAFETY: the mapping was made with this address and size; whoever holds an image keeps it while its code may run.
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
    match object::FileKind::parse(bytes) {
        Ok(object::FileKind::Pe64) => {}
        Ok(object::FileKind::Pe32) => return Err(ImageError::Not64Bit),
        Ok(other) => return Err(ImageError::NotAnImage(format!("the file is {other:?}"))),
        Err(error) => return Err(error.into()),
    }
    Ok(PeFile64::parse(bytes)?)
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
    if size == 0 || size > IMAGE_MAX || size % PAGE != 0 {
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
        let (offset, raw) = header.pe_file_range();
        if raw > end - rva || u64::from(offset) + u64::from(raw) > bytes.len() as u64 {
            return refuse("its data lies outside the file");
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

fn exports(file: &PeFile64<'_>, image_size: u32) -> Result<BTreeMap<String, u32>, ImageError> {
    let mut names = BTreeMap::new();
    let Some(table) = file.export_table()? else { return Ok(names) };
    for export in table.exports()? {
        let Some(name) = export.name else { continue };
        if let object::read::pe::ExportTarget::Address(rva) = export.target
            && rva < image_size
        {
            names.insert(String::from_utf8_lossy(name).into_owned(), rva);
        }
    }
    Ok(names)
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
