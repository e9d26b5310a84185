//! The end of an adapter, a device and a driver: stop, removal, surprise removal and unloading.

use std::sync::Arc;

use nt::lock::lock;
use nt::pci::PciError;
use wddm_ddi::types::LUID;

use super::{Device, DriverId, Machine, Pnp, PnpError};

impl Machine {
    /// The machine is about to end: what programs of other processes may show stays in their files, also what a move has left that they are not asked for any more. Nothing that a program asks
    /// for may be answered any more but with the end.
    pub fn keep_memory(&self) {
        self.0.ram.keep_for_owners();
        self.adapters().iter().flat_map(|adapter| adapter.links()).for_each(|link| link.resources.keep_for_owners());
    }

    /// The machine is at its end, its memory is [kept](Machine::keep_memory), and no program is asked for anything any more: their memory stays as it is, whatever becomes of adapters and processes
    /// from now on. Where one file has memory of several programs, it is not left.
    pub fn leave_memory(&self) {
        self.0.ram.leave_to_owners();
    }

    /// Stops an adapter: everything on it ends, then StopDevice. The device can be started again.
    ///
    /// # Errors
    /// The adapter is not started, or the machine stopped.
    pub fn stop(&self, luid: LUID) -> Result<(), PnpError> {
        let mut pnp = lock(&self.0.pnp);
        if !self.stop_nodes(&mut pnp.devices, luid) {
            return Err(PnpError::NoSuchAdapter);
        }
        self.check_stopped()
    }

    /// Removes an adapter's devices: stop if it is started, then RemoveDevice.
    ///
    /// # Errors
    /// No device has this adapter, or the machine stopped.
    pub fn remove(&self, luid: LUID) -> Result<(), PnpError> {
        let mut pnp = lock(&self.0.pnp);
        self.stop_nodes(&mut pnp.devices, luid);
        let mut any = false;
        for node in pnp.devices.iter_mut().filter(|node| node.last == Some(luid)) {
            any = true;
            node.remove();
        }
        if !any {
            return Err(PnpError::NoSuchAdapter);
        }
        self.check_stopped()
    }

    /// Plug and play has found that a function of an adapter was pulled out: the driver is told, all work ends as lost without
    /// waiting for the function, then the adapter is stopped and its devices removed. What was pulled out never comes back; what is
    /// plugged in later is another device. Functions that it was linked with stay in their slots.
    ///
    /// # Errors
    /// The adapter is not started, or the machine stopped.
    pub fn surprise_remove(&self, luid: LUID) -> Result<(), PnpError> {
        let adapter = self.adapter(luid).ok_or(PnpError::NoSuchAdapter)?;
        let _limit = adapter.joint_limit();
        // Before anything is waited for: a thread that blocks plug and play may be waiting for the function.
        adapter.surprise_remove();
        let gone = adapter.pulled_out();
        gone.iter().filter_map(|link| link.function.fault()).for_each(|told| self.0.verifier.log(told));
        let mut pnp = lock(&self.0.pnp);
        for node in pnp.devices.iter_mut().filter(|node| node.last == Some(luid)) {
            let of_node = |link: &&crate::port::Link| {
                node.function.as_ref().is_ok_and(|function| Arc::ptr_eq(function, &link.function))
            };
            if gone.iter().any(of_node) {
                node.function = Err(PciError::Absent);
            }
        }
        drop(pnp);
        let removed = self.remove(luid);
        // What stops the machine from now on is not the function's.
        let mut pnp = lock(&self.0.pnp);
        let absent = |node: &&mut Device| matches!(node.function, Err(PciError::Absent));
        pnp.devices.iter_mut().filter(absent).for_each(|node| node.witness = None);
        removed
    }

    /// Unloads a driver that no device belongs to. Pool that it still has is a bugcheck.
    ///
    /// # Errors
    /// The driver is not loaded, in use, or has no DriverUnload in its driver object any more; or the machine stopped.
    pub fn unload(&self, driver: DriverId) -> Result<(), PnpError> {
        let mut pnp = lock(&self.0.pnp);
        let Pnp { devices, drivers, .. } = &mut *pnp;
        let slot = drivers.get_mut(driver.0).ok_or(PnpError::NoSuchDriver)?;
        let loaded = slot.as_ref().ok_or(PnpError::NoSuchDriver)?;
        let used =
            |node: &Device| node.stack.as_ref().is_some_and(|stack| Arc::ptr_eq(&stack.miniport, &loaded.miniport));
        if devices.iter().any(used) {
            return Err(PnpError::InUse);
        }
        self.check_stopped()?;
        loaded.unload()?;
        if let Some(loaded) = slot.take() {
            loaded.miniport.driver().check_unloaded();
        }
        self.check_stopped()
    }

    /// Stops an adapter; false if no device belongs to it.
    pub(super) fn stop_nodes(&self, devices: &mut [Device], luid: LUID) -> bool {
        let mut any = false;
        for node in devices.iter_mut().filter(|node| node.started == Some(luid)) {
            (node.started, any) = (None, true);
        }
        let mut adapters = self.0.adapters.write();
        let position = adapters.iter().position(|adapter| adapter.luid == luid);
        let adapter = position.map(|position| adapters.remove(position));
        drop(adapters);
        if let Some(adapter) = adapter {
            adapter.stop();
        }
        any
    }

    pub(super) fn check_stopped(&self) -> Result<(), PnpError> {
        match self.0.verifier.bugcheck() {
            Some(bugcheck) => Err(PnpError::Stopped(Box::new(bugcheck))),
            None => Ok(()),
        }
    }
}
