//! Memory of test programs, for the tests of every crate that runs them; each includes this file.

use campanile_hw::isa::{Order, Scope};
use campanile_shader::GlobalMemory;

/// First address of the tests' memory.
pub(crate) const BASE: u64 = 0x1_0000;

/// Memory from [`BASE`] on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flat(pub(crate) Vec<u8>);

/// An address outside of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outside(pub(crate) u64);

impl Flat {
    fn at(&mut self, address: u64, len: usize) -> Result<&mut [u8], Outside> {
        let start = address.checked_sub(BASE).ok_or(Outside(address))? as usize;
        self.0.get_mut(start..start.saturating_add(len)).ok_or(Outside(address))
    }
}

impl GlobalMemory for Flat {
    type Fault = Outside;

    fn load(&mut self, address: u64, element: usize, bytes: &mut [u8]) -> Result<(), Outside> {
        assert!(address.is_multiple_of(element as u64));
        bytes.copy_from_slice(self.at(address, bytes.len())?);
        Ok(())
    }

    fn store(&mut self, address: u64, element: usize, bytes: &[u8]) -> Result<(), Outside> {
        assert!(address.is_multiple_of(element as u64));
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn atomic(
        &mut self,
        address: u64,
        size: usize,
        update: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, Outside> {
        let place = self.at(address, size)?;
        let mut old = [0; 8];
        old[..size].copy_from_slice(place);
        let old = u64::from_le_bytes(old);
        if let Some(new) = update(old) {
            place.copy_from_slice(&new.to_le_bytes()[..size]);
        }
        Ok(old)
    }

    fn fence(&mut self, _: Scope, _: Order) {}
}
