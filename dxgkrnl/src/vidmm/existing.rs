//! Allocations whose memory is the program's own.
//!
//! The machine's memory is in files, and that of a program lies elsewhere. So what a program gives moves: its contents are copied into memory of the
//! machine, which is then what the program's addresses show. Nobody who uses the addresses sees a difference, for stores wait meanwhile. From then on program
//! and GPU see the same bytes, in system memory and in no segment, as long as the allocation exists; afterwards the program has memory of its own there again.
//! [d3dkmddi: DXGK_ALLOCATIONINFOFLAGS_WDDM2_0, ExistingSysMem]

use std::io;
use std::os::unix::fs::FileExt;

use nt::lock::lock;
use nt::page::PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::DdiBuffer;
use crate::refusal::{Failure, refused};
use crate::vidmm::allocation::Allocation;
use crate::vidmm::location::Location;
use crate::vidmm::manager::VidMm;
use crate::vidmm::request::MemoryRequest;
use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::user_mapping::UserMapping;
use nt::user_space::UserSpace;

/// Bytes that are copied at once.
const PIECE: u64 = 64 << 10;
/// Most private data that a driver may want for a standard allocation, in bytes.
const PRIVATE_MAX: u32 = 1 << 16;

/// Private data of a standard allocation and of its resource, as the driver wants to see them.
pub(crate) type StandardData = (Vec<u8>, Vec<u8>);

fn status_of(error: &io::Error) -> NTSTATUS {
    match error.raw_os_error() {
        Some(libc::EFAULT) => STATUS_INVALID_PARAMETER,
        Some(libc::EOPNOTSUPP) => STATUS_NOT_SUPPORTED,
        _ => STATUS_NO_MEMORY,
    }
}

/// Copies what a program has from `address` on, as much as there is memory for.
fn copy(user: &dyn UserSpace, address: usize, memory: &SystemMemory) -> io::Result<()> {
    let mut piece = vec![0; PIECE as usize];
    for (first, pages) in memory.chunks() {
        for start in (0..pages.len()).step_by(PIECE as usize) {
            let bytes = &mut piece[..PIECE.min(pages.len() - start) as usize];
            user.read(address + (first * PAGE_SIZE + start) as usize, bytes)?;
            pages.file()?.write_all_at(bytes, pages.address() + start)?;
        }
    }
    Ok(())
}

/// Addresses at which a program has memory, and which show `memory` instead, with the bytes that were there.
fn moved(allocation: &Allocation, address: usize, memory: &SystemMemory) -> Result<UserMapping, NTSTATUS> {
    let user = allocation.kept().user();
    // All of it has one owner, and lies in the file of that.
    let (_, pages) = memory.chunks().next().ok_or(STATUS_INVALID_PARAMETER)?;
    let mapping = pages.file().and_then(|file| UserMapping::of_program(user, address, allocation.size(), file));
    let mapping = mapping.map_err(|error| status_of(&error))?;
    let _frozen = mapping.freeze().map_err(|error| status_of(&error))?;
    let copied = copy(&**user, address, memory).map_err(|error| status_of(&error));
    if let Err(status) = copied.and_then(|()| mapping.show_memory(memory)) {
        // Without it the next store ends the program, which is what the host does when it has no memory.
        let _ = mapping.allow_stores();
        return Err(status);
    }
    Ok(mapping)
}

impl VidMm {
    /// Puts the memory that a program has at `address` behind an allocation that was created for that ([`Backing`](crate::vidmm::Backing)) and that nothing has used.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER unless the program may read and write whole pages there; STATUS_NOT_SUPPORTED if others see them, or they belong to the
    /// system; STATUS_NO_MEMORY; STATUS_INVALID_HANDLE if the allocation is gone, because its process has ended. The program has there what it had.
    pub(crate) fn adopt_memory(&self, allocation: &Allocation, address: usize) -> Result<(), NTSTATUS> {
        let adopted = self.adopt(allocation, address);
        self.report_freed();
        adopted
    }

    fn adopt(&self, allocation: &Allocation, address: usize) -> Result<(), NTSTATUS> {
        let memory = {
            let _running = self.enter()?;
            let mut memory = lock(&self.memory);
            let pages = allocation.size() / PAGE_SIZE;
            memory.take_system(allocation, pages, &mut MemoryRequest::waiting())?.ok_or(STATUS_NO_MEMORY)?
        };
        // With nothing locked: a program may have there what nobody reads in time, such as a file of a server that does not answer.
        let mapping = moved(allocation, address, &memory)?;
        let _running = self.enter()?;
        let mut manager = lock(&self.memory);
        let Some(state) = manager.allocations.get_mut(&allocation.id()).filter(|state| !state.destroyed) else {
            drop(manager);
            return Err(STATUS_INVALID_HANDLE);
        };
        state.place = Location::System(memory);
        manager.see_at(allocation, mapping);
        Ok(())
    }

    /// What the driver wants to see when a standard allocation of `size` bytes is created. As the graphics kernel of WSL does, it is asked for a texture that
    /// adapters share, which is linear and in system memory. [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA; d3dkmdt: D3DKMDT_GDISURFACEDATA]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for more bytes than such a surface has; STATUS_NOT_SUPPORTED for private data of more than 64 KiB; what the driver answers.
    pub(crate) fn standard_data(&self, size: u64) -> Result<StandardData, Failure> {
        let _running = self.enter()?;
        let mut surface = D3DKMDT_GDISURFACEDATA::zeroed();
        let why = || format!("ExistingHeapData.Size is {size:#x}, and expected is less than 0x100000000");
        surface.Width = u32::try_from(size).map_err(|_| refused(STATUS_INVALID_PARAMETER, why()))?;
        surface.Height = 1;
        surface.Format = D3DDDIFORMAT::D3DDDIFMT_UNKNOWN;
        surface.Type = D3DKMDT_GDISURFACETYPE::D3DKMDT_GDISURFACE_TEXTURE_CROSSADAPTER;
        let mut args = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA::zeroed();
        args.StandardAllocationType = D3DKMDT_STANDARDALLOCATION_TYPE::D3DKMDT_STANDARDALLOCATION_GDISURFACE;
        args.u = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA_Union { pCreateGdiSurfaceData: &raw mut surface };
        let (miniport, adapter) = (&self.driver.miniport, self.driver.context.raw());
        miniport.get_standard_allocation_driver_data(adapter, &mut args).ok()?;
        let sizes = [args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize];
        if sizes.iter().any(|size| *size > PRIVATE_MAX) {
            let why = format!(
                "DxgkDdiGetStandardAllocationDriverData answered AllocationPrivateDriverDataSize {:#x} and ResourcePrivateDriverDataSize {:#x}, and \
                 at most {PRIVATE_MAX:#x} are possible here [d3dkmddi: DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA]",
                sizes[0], sizes[1]
            );
            return Err(refused(STATUS_NOT_SUPPORTED, why));
        }
        let [mut allocation, mut resource] = sizes.map(|size| DdiBuffer::zeroed(size as usize));
        (args.pAllocationPrivateDriverData, args.pResourcePrivateDriverData) =
            (allocation.address(), resource.address());
        let status = miniport.get_standard_allocation_driver_data(adapter, &mut args);
        for (data, field) in [(&allocation, "pAllocationPrivateDriverData"), (&resource, "pResourcePrivateDriverData")]
        {
            data.check(&self.driver.verifier, "DxgkDdiGetStandardAllocationDriverData", field);
        }
        status.ok()?;
        Ok((allocation.bytes().to_vec(), resource.bytes().to_vec()))
    }
}
