//! Where functions are plugged in, and which features the system enables there.

use std::sync::Arc;

use nt::lock::lock;

use nt::bus::Bus;
use nt::device_object::{DeviceObject, Location};
use nt::pci::{Function, PciError};
use nt::verifier::Witness;

use super::{Device, DeviceId, FeaturePolicy, Machine, Pnp, PnpError};

/// What the server of a function did against its protocol, as the end of a sentence.
fn server_fault(bus: &Arc<dyn Bus>) -> String {
    bus.fault().map_or_else(String::new, |fault| format!(": {fault}"))
}

impl Machine {
    /// Plugs a function in, as function 0 of a device of its own, and enumerates it. What enumeration found wrong is told when the device
    /// is started.
    pub fn plug_in(&self, bus: Arc<dyn Bus>) -> DeviceId {
        let mut pnp = lock(&self.0.pnp);
        let device = pnp.devices.iter().map(|node| node.location.device + 1).max().unwrap_or(0);
        let location = Location { bus: pnp.bus, device, function: 0 };
        self.plug_in_at(&mut pnp, bus, location)
    }

    /// As [`Machine::plug_in`], as the next function of a device that is plugged in.
    ///
    /// # Errors
    /// [`PnpError::NoSuchAdapter`] if nothing was plugged in by this name.
    pub fn plug_in_beside(&self, bus: Arc<dyn Bus>, other: DeviceId) -> Result<DeviceId, PnpError> {
        let mut pnp = lock(&self.0.pnp);
        let device = pnp.devices.get(other.0).ok_or(PnpError::NoSuchAdapter)?.location.device;
        let functions = pnp.devices.iter().filter(|node| node.location.device == device);
        let function = functions.map(|node| node.location.function + 1).max().unwrap_or(0);
        let location = Location { bus: pnp.bus, device, function };
        Ok(self.plug_in_at(&mut pnp, bus, location))
    }

    /// As [`Machine::plug_in`], in the place of a function that was pulled out.
    ///
    /// # Errors
    /// [`PnpError::NoSuchAdapter`] if nothing was plugged in by this name; [`PnpError::InUse`] if it still belongs to a driver.
    pub fn plug_in_again(&self, bus: Arc<dyn Bus>, gone: DeviceId) -> Result<DeviceId, PnpError> {
        let mut pnp = lock(&self.0.pnp);
        let node = pnp.devices.get_mut(gone.0).ok_or(PnpError::NoSuchAdapter)?;
        if node.started.is_some() || node.stack.is_some() {
            return Err(PnpError::InUse);
        }
        node.function = Err(PciError::Absent);
        let location = node.location;
        Ok(self.plug_in_at(&mut pnp, bus, location))
    }

    fn plug_in_at(&self, pnp: &mut Pnp, bus: Arc<dyn Bus>, location: Location) -> DeviceId {
        let name = bus.name();
        let function = Function::enumerate(Arc::clone(&bus), &mut pnp.addresses).map(Arc::new);
        self.0.verifier.log(match &function {
            Ok(function) => format!("plugged in {name}: {function}"),
            Err(error) => format!("plugged in {name}: {error}{}", server_fault(&bus)),
        });
        let witness = function.as_ref().ok().map(|function| {
            let function = Arc::downgrade(function);
            let witness: Arc<Witness> = Arc::new(move || {
                let bus = &function.upgrade().filter(|function| function.bus.is_gone())?.bus;
                let page = "[dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]";
                let fault = server_fault(bus);
                Some(format!(
                    "{} does not answer any more, as after its function was pulled out {page}{fault}",
                    bus.name()
                ))
            });
            self.0.verifier.hear(&witness);
            witness
        });
        let object = DeviceObject::new(location, function.as_ref().ok());
        let features = self.0.config.features;
        let (stack, started, last) = (None, None, None);
        pnp.devices.push(Device { object, location, function, witness, features, stack, started, last });
        DeviceId(pnp.devices.len() - 1)
    }

    /// Sets which features the system is willing to enable on one device, from its next start on; otherwise they are those of
    /// [`MachineConfig::features`](super::MachineConfig::features).
    ///
    /// # Errors
    /// [`PnpError::NoSuchAdapter`] if nothing was plugged in by this name.
    pub fn set_features(&self, device: DeviceId, features: FeaturePolicy) -> Result<(), PnpError> {
        let mut pnp = lock(&self.0.pnp);
        let node = pnp.devices.get_mut(device.0).ok_or(PnpError::NoSuchAdapter)?;
        node.features = features;
        Ok(())
    }
}
