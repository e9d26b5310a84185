//! Memory that GPU and CPU see, with its pages in order or in one that no prefetcher guesses.

use std::ptr::NonNull;

use campanile_hw::private::Placement;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::types::{D3DKMT_HANDLE, LUID};

use super::Rig;
use crate::{Failure, granted};

const PAGE: u64 = campanile_hw::queue::SYSTEM_PAGE_SIZE;

/// System memory that is mapped for the GPU and locked for the CPU, until dropped.
pub struct PagedMemory {
    rig: Rig,
    address: u64,
    pages: NonNull<[u8]>,
}

impl PagedMemory {
    /// Makes `size` bytes, a multiple of 4096, in the process that the thread is attached to. The GPU sees the pages as they lie, or
    /// each at the place that [`PagedMemory::order`] has for it.
    ///
    /// # Errors
    /// The operating-system side refused a step.
    pub fn new(luid: LUID, size: u64, shuffle: bool) -> Result<Self, Failure> {
        let rig = Rig::open(luid)?;
        let allocation = rig
            .create(size, Placement::System)
            .map_err(|status| Failure::new(format!("an allocation of {size} bytes: {status}")))?;
        rig.make_resident(allocation)?;
        let address = match shuffle {
            true => map_shuffled(&rig, allocation, size)?,
            false => rig.map(rig.map_request(allocation, size))?,
        };
        let start = rig.lock(allocation).map_err(|status| Failure::new(format!("D3DKMTLock2: {status}")))?;
        Ok(Self { rig, address, pages: NonNull::slice_from_raw_parts(start, size as usize) })
    }

    /// The pages of shuffled memory of `size` bytes as the GPU sees them one after the other.
    pub fn order(size: u64) -> Vec<u64> {
        shuffled(size / PAGE)
    }

    /// First GPU virtual address.
    pub fn gpu_address(&self) -> u64 {
        self.address
    }

    /// The pages as they lie, for the CPU. They live as long as this does, and the GPU may use them at any time.
    pub fn pages(&self) -> NonNull<[u8]> {
        self.pages
    }
}

fn map_shuffled(rig: &Rig, allocation: D3DKMT_HANDLE, size: u64) -> Result<u64, Failure> {
    let mut reserve = D3DDDI_RESERVEGPUVIRTUALADDRESS::zeroed();
    reserve.u = D3DDDI_RESERVEGPUVIRTUALADDRESS_Union { hAdapter: rig.adapter };
    reserve.Size = size.next_multiple_of(64 << 10);
    granted(rig.kmt.call(rig.kmt.table().D3DKMTReserveGpuVirtualAddress, &mut reserve), "reserving addresses")?;
    for (page, shown) in shuffled(size / PAGE).into_iter().enumerate() {
        let mut request = rig.map_request(allocation, PAGE);
        request.BaseAddress = reserve.VirtualAddress + page as u64 * PAGE;
        request.OffsetInPages = shown;
        rig.map(request)?;
    }
    Ok(reserve.VirtualAddress)
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        // What is left belongs to the process and goes with it.
        let _ = self.rig.destroy();
    }
}

/// The numbers below `count` in a random order, the same every time.
fn shuffled(count: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    fastrand::Rng::with_seed(count).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_there_once_and_hardly_any_behind_its_neighbour() {
        let order = shuffled(1000);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
        assert!(order.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() < 20);
    }
}
