//! Owners of physical memory: who sees the same pages has them in one file, and nobody else's are in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use super::files::{Mapping, new_file, new_sealed_file, punch};
use super::{Pages, Ram, State, whole_pages};
use crate::page::PAGE_SIZE;
use crate::range::RangeAllocator;

/// Bytes in which a process gets memory: few enough that memory suffices for a thousand processes, and enough that the kernel's mapping, which has a part for
/// each piece, stays below the 65,530 parts that Linux allows.
const EXTENT: u64 = 64 << 10;

/// Whoever has memory that user mode sees: a process, or an object that several processes may open. It is gone with its last pages.
pub struct Owner {
    ram: Arc<Ram>,
    id: u64,
    /// `None` in memory of one file.
    own: Option<Arc<OwnFile>>,
    only_reads: bool,
    /// Memory is taken in multiples of so many bytes.
    extent: u64,
}

struct OwnFile {
    file: Arc<File>,
    /// The only way in which the file of an owner can be written that only reads.
    writer: Option<Mapping>,
}

/// Memory of one owner.
struct Owned {
    own: Arc<OwnFile>,
    /// Parts of its extents that hold no pages.
    free: RangeAllocator,
    /// Ranges that show its file: address and length.
    extents: BTreeMap<u64, u64>,
}

/// The owners that have files of their own.
#[derive(Default)]
pub(super) struct Owners {
    owned: BTreeMap<u64, Owned>,
    next: u64,
    /// The machine is about to end: files keep what their owners give back.
    kept: bool,
    /// The machine is at its end, and leaves the files to those who have them.
    left: bool,
}

impl Owner {
    /// A process, which writes its memory.
    ///
    /// # Errors
    /// The host has no file left.
    pub fn process(ram: &Arc<Ram>) -> io::Result<Arc<Self>> {
        Self::new(ram, false, EXTENT)
    }

    /// The memory of a process that it reads and may not write.
    ///
    /// # Errors
    /// As [`Owner::process`].
    pub fn reading_process(ram: &Arc<Ram>) -> io::Result<Arc<Self>> {
        Self::new(ram, true, EXTENT)
    }

    /// An object that several processes see, with as much memory as it needs.
    ///
    /// # Errors
    /// As [`Owner::process`].
    pub fn shared(ram: &Arc<Ram>) -> io::Result<Arc<Self>> {
        Self::new(ram, false, PAGE_SIZE)
    }

    /// An object that several processes read and may not write.
    ///
    /// # Errors
    /// As [`Owner::process`].
    pub fn shared_to_read(ram: &Arc<Ram>) -> io::Result<Arc<Self>> {
        Self::new(ram, true, PAGE_SIZE)
    }

    fn new(ram: &Arc<Ram>, only_reads: bool, extent: u64) -> io::Result<Arc<Self>> {
        let own = match ram.in_one_file {
            true => None,
            false => Some(Arc::new(OwnFile::new(ram.size(), only_reads)?)),
        };
        let mut state = ram.state.lock();
        state.owners.next += 1;
        let id = state.owners.next;
        if let Some(own) = &own {
            let own = Arc::clone(own);
            let owned = Owned { own, free: RangeAllocator::new(0, 0), extents: BTreeMap::new() };
            state.owners.owned.insert(id, owned);
        }
        drop(state);
        Ok(Arc::new(Self { ram: Arc::clone(ram), id, own, only_reads, extent }))
    }

    /// As [`Ram::allocate`], for this owner.
    pub fn allocate(self: &Arc<Self>, len: u64, align: u64) -> Option<Pages> {
        let (len, align) = (whole_pages(len)?, align.max(PAGE_SIZE));
        let mut state = self.ram.state.lock();
        let address = match &self.own {
            None => state.take_free(&self.ram, &[(len, align)])?.0,
            Some(own) => self.take(&mut state, own, len, align)?,
        };
        state.used += len;
        Some(Pages { ram: Arc::clone(&self.ram), owner: Some(Arc::clone(self)), address, len })
    }

    /// Takes memory of what the owner has, or of a new extent.
    fn take(&self, state: &mut State, own: &OwnFile, len: u64, align: u64) -> Option<u64> {
        if let Some(address) = state.owners.of(self.id)?.free.allocate(len, align) {
            return Some(address);
        }
        // Where memory is short, the extent is what is asked for.
        let whole = (len.checked_next_multiple_of(self.extent)?, align.max(self.extent));
        let (address, size) = state.take_free(&self.ram, &[whole, (len, align)])?;
        if own.show(&self.ram, address, size).is_err() {
            state.free.release(address, size);
            return None;
        }
        let owned = state.owners.of(self.id)?;
        owned.extents.insert(address, size);
        if size > len {
            owned.free.release(address + len, size - len);
        }
        Some(address)
    }

    /// Pages of the owner are gone.
    pub(super) fn release(&self, state: &mut State, address: u64, len: u64) {
        match state.owners.of(self.id) {
            Some(owned) => owned.free.release(address, len),
            None => state.free.release(address, len),
        }
    }

    /// The file that its memory lies in, at the offset of the physical address.
    pub(super) fn file(&self) -> &Arc<File> {
        self.own.as_ref().map_or(&self.ram.kernel, |own| &own.file)
    }

    pub(super) fn only_reads(&self) -> bool {
        self.only_reads
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.ram.state.lock();
        let State { free, owners, .. } = &mut *state;
        if let Some(mut owned) = owners.owned.remove(&self.id) {
            owned.give_back_unused(&self.ram, free, owners.kept);
        }
    }
}

impl OwnFile {
    fn new(size: u64, only_reads: bool) -> io::Result<Self> {
        if only_reads {
            let (file, writer) = new_sealed_file(size)?;
            return Ok(Self { file: Arc::new(file), writer: Some(writer) });
        }
        Ok(Self { file: Arc::new(new_file(c"campanile-ram", size)?), writer: None })
    }

    /// Has free memory show the file.
    fn show(&self, ram: &Ram, address: u64, len: u64) -> io::Result<()> {
        punch(&ram.kernel, address, len);
        match &self.writer {
            None => ram.mapping.replace(address, len, &self.file),
            Some(writer) => ram.mapping.replace_by(address, len, writer),
        }
    }

    /// Has memory that the owner gives back show the kernel's file. The contents of a sealed file stay until the file is gone.
    fn hide(&self, ram: &Ram, address: u64, len: u64, kept: bool) -> io::Result<()> {
        ram.mapping.replace(address, len, &ram.kernel)?;
        if !kept {
            punch(&self.file, address, len);
        }
        Ok(())
    }
}

impl Owned {
    /// Gives extents without pages back. One that cannot be hidden stays.
    fn give_back_unused(&mut self, ram: &Ram, to: &mut RangeAllocator, kept: bool) {
        let Self { own, free, extents } = self;
        extents.retain(|&address, &mut len| {
            let unused = free.allocate_at(address, len);
            let gone = unused && own.hide(ram, address, len, kept).is_ok();
            if gone {
                to.release(address, len);
            } else if unused {
                free.release(address, len);
            }
            !gone
        });
    }
}

impl Owners {
    fn of(&mut self, id: u64) -> Option<&mut Owned> {
        self.owned.get_mut(&id)
    }

    /// Has every owner give back what it does not use.
    pub(super) fn give_back_unused(&mut self, ram: &Ram, to: &mut RangeAllocator) {
        let Self { owned, kept, .. } = self;
        owned.values_mut().for_each(|owned| owned.give_back_unused(ram, to, *kept));
    }

    /// From now on the files of all of them keep what is given back.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// From now on the files of all of them stay as they are, as far as the machine goes. Those that are read come first: they say what is there in the others.
    pub(super) fn leave(&mut self, ram: &Ram) {
        self.keep();
        if std::mem::replace(&mut self.left, true) {
            return;
        }
        for only_reads in [true, false] {
            for Owned { own, extents, .. } in
                self.owned.values().filter(|owned| owned.own.writer.is_some() == only_reads)
            {
                for (&address, &len) in extents {
                    // Where the host refuses, the machine's stores are seen.
                    let _ = ram.mapping.detach(address, len, &own.file);
                }
            }
        }
    }
}
