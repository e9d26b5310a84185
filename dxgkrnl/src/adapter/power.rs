//! Reading the driver's power components when an adapter starts.

use wddm_ddi::km::*;
use wddm_ddi::types::GUID;

use super::object::Adapter;
use crate::port::{COMPONENTS_MAX, Component, Parts, check_component};
use crate::start_error::StartError;

impl Adapter {
    /// Asks for the components and checks them; on an adapter that manages no power at run time none is used. The driver of a compute-only adapter must answer
    /// their number, and describe as many, in any case. [mcdm-implementation-guidelines]
    pub(super) fn query_power_components(&self, caps: &DXGK_DRIVERCAPS, parts: &[Parts]) -> Result<(), StartError> {
        use DXGK_QUERYADAPTERINFOTYPE as Kind;
        let compute_only = caps.MiscCaps.ComputeOnly();
        let query = "NUMPOWERCOMPONENTS";
        let count = match self.query_whole::<u32>(Kind::DXGKQAITYPE_NUMPOWERCOMPONENTS, query, &mut [])? {
            Ok(count) => count,
            Err(status) if compute_only => {
                return Err(self.refused::<u32>((Kind::DXGKQAITYPE_NUMPOWERCOMPONENTS, query), status));
            }
            Err(_) => 0,
        };
        let managed = caps.SupportRuntimePowerManagement != 0;
        if count == 0 || !managed && !compute_only {
            return Ok(());
        }
        if count > COMPONENTS_MAX {
            let rule = format!("{count} components; {COMPONENTS_MAX} are allowed");
            return Err(StartError::PowerComponent { index: count, rule });
        }
        let mut list: Vec<Component> = Vec::new();
        for (engine, parts) in (0..).zip(parts) {
            let mut identities: Vec<GUID> = Vec::new();
            for index in 0..count {
                let kind = Kind::DXGKQAITYPE_POWERCOMPONENTINFO;
                let mut named = [index | engine << 16];
                let info: DXGK_POWER_RUNTIME_COMPONENT = self.require(kind, "POWERCOMPONENTINFO", &mut named)?;
                let mut component = check_component(index, count, &info, *parts)?;
                component.node = component.node.map(|node| engine * parts.nodes + node);
                let mut of_engine = list.iter().skip((engine * count) as usize);
                let twin = of_engine.any(|other| component.is_twin_of(other));
                if twin || identities.contains(&info.ComponentGuid) {
                    let rule = "another component has the same engine or memory segment, is a D3 transition as well or has the same GUID"
                        .to_owned();
                    return Err(StartError::PowerComponent { index, rule });
                }
                identities.push(info.ComponentGuid);
                list.push(component);
            }
        }
        if managed {
            self.power().declare(count, list);
            self.power_control(&GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START);
        }
        Ok(())
    }

    /// Says that power callbacks may be called from now on, or not any more. A driver that is not compute-only may leave the DDI out, and any may leave the
    /// request unanswered. [d3dkmddi: DXGKDDIPOWERRUNTIMECONTROLREQUEST]
    pub(super) fn power_control(&self, code: &GUID) {
        if self.power().is_empty() || self.miniport.table().DxgkDdiPowerRuntimeControlRequest.is_none() {
            return;
        }
        let (none, mut returned) = (std::ptr::null_mut(), 0);
        let _ =
            self.miniport.power_runtime_control_request(self.context().raw(), code, none, 0, none, 0, &mut returned);
    }
}
