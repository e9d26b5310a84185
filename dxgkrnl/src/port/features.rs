// UNSAFETY: calls through the feature interface that a driver handed out.
//! Negotiation of features: what the system allows, the driver supports, and the dependencies permit.
//!
//! A decision is made when somebody first asks, be it the driver in StartDevice or the system afterwards; the system then asks
//! the driver through DXGKDDI_FEATURE_INTERFACE and keeps the answer.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::OnceLock;

use nt::lock::{Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::DXGK_FEATURE_SUPPORT_STABLE;
use wddm_ddi::types::*;

use super::Port;
use crate::caps::EnabledFeatures;
use crate::config::FeaturePolicy;
use crate::ddi_buffer::Lent;
use crate::kmd_handle::KmdHandle;
use crate::start_error::StartError;

/// The one version of every feature here.
const FEATURE_VERSION: DXGK_FEATURE_VERSION = 1;
/// The highest feature number of each category that the system has heard of.
const LAST_DRIVER_FEATURE: i32 = 46;
const LAST_OS_FEATURE: i32 = 0x1000_0006;

/// The outcome for one feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureDecision {
    pub(crate) enabled: bool,
    pub(crate) known: bool,
    pub(crate) supported_by_driver: bool,
    pub(crate) supported_on_current_config: bool,
}

/// The functions of the driver's DXGKDDI_FEATURE_INTERFACE that are used.
#[derive(Clone, Copy)]
struct DriverInterface {
    context: KmdHandle,
    dereference: unsafe extern "win64" fn(*mut c_void),
    query_support: PDXGKDDI_QUERYFEATURESUPPORT,
    query_interface: PDXGKDDI_QUERYFEATUREINTERFACE,
}

impl DriverInterface {
    /// # Errors
    /// The member that is not what a driver fills in. [dispmprt: DXGKDDI_QUERY_INTERFACE, DXGKDDI_FEATURE_INTERFACE]
    fn of(filled: &DXGKDDI_FEATURE_INTERFACE) -> Result<Self, String> {
        let header = [
            ("Size", filled.Size, size_of::<DXGKDDI_FEATURE_INTERFACE>() as u16),
            ("Version", filled.Version, DXGKDDI_FEATURE_INTERFACE_VERSION_1),
        ];
        if let Some((member, found, asked)) = header.into_iter().find(|(_, found, asked)| found != asked) {
            return Err(format!("{member} is {found}, and {asked} was asked for"));
        }
        let null = |member: &str| format!("{member} is NULL");
        filled.InterfaceReference.ok_or_else(|| null("InterfaceReference"))?;
        Ok(Self {
            context: KmdHandle::new(filled.Context),
            dereference: filled.InterfaceDereference.ok_or_else(|| null("InterfaceDereference"))?,
            query_support: filled.QueryFeatureSupport.ok_or_else(|| null("QueryFeatureSupport"))?,
            query_interface: filled.QueryFeatureInterface.ok_or_else(|| null("QueryFeatureInterface"))?,
        })
    }
}

/// A driver has a feature that cannot be off: the last state there is. [d3dkmdt: DXGK_FEATURE_SUPPORT_ALWAYS_ON]
pub(crate) const DXGK_FEATURE_SUPPORT_ALWAYS_ON: u32 = 3;

/// Features negotiated so far.
#[derive(Default)]
pub(crate) struct Features {
    interface: OnceLock<Option<DriverInterface>>,
    /// The broken rule of the interface that the driver handed out; empty for a sound one or none.
    broken: OnceLock<String>,
    decisions: Mutex<BTreeMap<i32, FeatureDecision>>,
    /// DriverSupportState of DxgkCbQueryFeatureSupport by feature number.
    legacy: Mutex<BTreeMap<i32, u32>>,
    test_commands: OnceLock<Option<PDXGKDDI_BUILDTESTCOMMANDBUFFER>>,
}

/// A feature on the part of the system: whether it is allowed, and what it takes.
struct SystemSide {
    allowed: bool,
    /// The first version of the interface with all of its functions.
    since: u32,
    /// The features it builds on.
    dependencies: &'static [DXGK_FEATURE_ID],
}

/// The system's part of a decision; `None` for features it never enables. Native fences are opened and logged by functions that came with WDDM 3.2, which is also what
/// the pages about the feature name. [native-gpu-fence-objects; user-mode-work-submission; kernel-mode-testing-of-wddm-features; d3dkmdt: D3DKMT_WDDM_2_7_CAPS]
fn system_side(policy: &FeaturePolicy, id: DXGK_FEATURE_ID) -> Option<SystemSide> {
    use DXGK_FEATURE_ID as Id;
    let (allowed, since, dependencies): (_, _, &[Id]) = match id {
        Id::DXGK_FEATURE_HWSCH => (policy.hardware_scheduling, DXGKDDI_INTERFACE_VERSION_WDDM2_7, &[]),
        Id::DXGK_FEATURE_NATIVE_FENCE => (policy.native_fence, DXGKDDI_INTERFACE_VERSION_WDDM3_2, &[]),
        Id::DXGK_FEATURE_KERNEL_MODE_TESTING => (policy.kernel_mode_testing, DXGKDDI_INTERFACE_VERSION_WDDM3_2, &[]),
        Id::DXGK_FEATURE_USER_MODE_SUBMISSION => (
            policy.user_mode_submission,
            DXGKDDI_INTERFACE_VERSION_WDDM3_2,
            &[Id::DXGK_FEATURE_HWSCH, Id::DXGK_FEATURE_NATIVE_FENCE],
        ),
        _ => return None,
    };
    Some(SystemSide { allowed, since, dependencies })
}

/// Functions that hardware scheduling cannot do without: a driver that has no way to offer it has them, or does not.
fn has_hardware_scheduling(table: &DRIVER_INITIALIZATION_DATA) -> bool {
    table.DxgkDdiCreateHwContext.is_some()
        && table.DxgkDdiCreateHwQueue.is_some()
        && table.DxgkDdiSubmitCommandToHwQueue.is_some()
}

fn is_known(id: DXGK_FEATURE_ID) -> bool {
    (0..=LAST_DRIVER_FEATURE).contains(&id.0) || (0x1000_0000..=LAST_OS_FEATURE).contains(&id.0)
}

impl Port {
    /// True if a feature is enabled, negotiating it if that has not happened.
    pub(crate) fn feature(&self, id: DXGK_FEATURE_ID) -> FeatureDecision {
        if let Some(decision) = lock(&self.features.decisions).get(&id.0) {
            return *decision;
        }
        // No lock is held while the driver is asked: it may ask back.
        let decision = self.decide(id);
        *lock(&self.features.decisions).entry(id.0).or_insert(decision)
    }

    /// All features that this system knows how to use.
    pub(crate) fn negotiate(&self) -> EnabledFeatures {
        let hardware_scheduling = self.feature(DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH).enabled;
        if !hardware_scheduling {
            self.explain_packets();
        }
        EnabledFeatures {
            hardware_scheduling,
            native_fence: self.feature(DXGK_FEATURE_ID::DXGK_FEATURE_NATIVE_FENCE).enabled,
            user_mode_submission: self.feature(DXGK_FEATURE_ID::DXGK_FEATURE_USER_MODE_SUBMISSION).enabled,
            kernel_mode_testing: self.feature(DXGK_FEATURE_ID::DXGK_FEATURE_KERNEL_MODE_TESTING).enabled,
        }
    }

    /// The log says why a driver with the functions of hardware queues has none of them.
    fn explain_packets(&self) {
        let allowed = system_side(self.policy(), DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH).is_some_and(|side| side.allowed);
        if !allowed || !has_hardware_scheduling(self.miniport.table()) {
            return;
        }
        let offered = lock(&self.features.legacy).get(&DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH.0).copied();
        let why = match (self.feature_interface(), offered) {
            (Some(_), _) => "QueryFeatureSupport of the driver's DXGKDDI_FEATURE_INTERFACE does not say that it is supported".to_owned(),
            (None, Some(state)) => format!(
                "the driver called DxgkCbQueryFeatureSupport with DriverSupportState {state}, and only {DXGK_FEATURE_SUPPORT_STABLE} and {DXGK_FEATURE_SUPPORT_ALWAYS_ON} offer it"
            ),
            (None, None) => "from WDDM 2.9 on a driver offers it by DxgkCbQueryFeatureSupport, or by DXGKDDI_FEATURE_INTERFACE from WDDM 3.2 on, and this one has not".to_owned(),
        };
        self.machine.verifier().log(format!(
            "DXGK_FEATURE_HWSCH is not enabled, although the driver has the functions of hardware queues: {why} [d3dkmddi: DXGKARGCB_QUERYFEATURESUPPORT]"
        ));
    }

    /// DxgkCbQueryFeatureSupport: the older way for a driver to offer a feature. It decides only for drivers without a feature
    /// interface, and native fences need that interface.
    pub(crate) fn offer_feature(&self, id: DXGK_FEATURE_ID, support: u32) -> bool {
        lock(&self.features.legacy).insert(id.0, support);
        if self.feature_interface().is_none() {
            lock(&self.features.decisions).remove(&id.0);
        }
        self.feature(id).enabled
    }

    fn decide(&self, id: DXGK_FEATURE_ID) -> FeatureDecision {
        let Some(system) = system_side(self.policy(), id) else {
            return FeatureDecision { known: is_known(id), ..FeatureDecision::default() };
        };
        let version = self.miniport.version().version;
        if version < system.since {
            return FeatureDecision { known: true, ..FeatureDecision::default() };
        }
        let (supported_by_driver, supported_on_current_config) = match self.feature_interface() {
            Some(interface) => self.ask_driver(&interface, id),
            // Such a driver can only ask whether the feature is enabled. [d3dkmddi: DXGKCB_ISFEATUREENABLED]
            None if version < DXGKDDI_INTERFACE_VERSION_WDDM2_9 => {
                let has = has_hardware_scheduling(self.miniport.table());
                (has, has)
            }
            None => {
                let support = lock(&self.features.legacy).get(&id.0).copied().unwrap_or(0);
                let offered = id == DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH && support >= DXGK_FEATURE_SUPPORT_STABLE;
                (offered, offered)
            }
        };
        let enabled = system.allowed
            && supported_by_driver
            && supported_on_current_config
            && system.dependencies.iter().all(|dependency| self.feature(*dependency).enabled);
        FeatureDecision { enabled, known: true, supported_by_driver, supported_on_current_config }
    }

    /// Asks the driver for one feature; (by driver, on this configuration).
    fn ask_driver(&self, interface: &DriverInterface, id: DXGK_FEATURE_ID) -> (bool, bool) {
        let query = interface.query_support;
        let mut args = DXGKARG_QUERYFEATURESUPPORT::zeroed();
        args.FeatureId = id;
        args.AllowExperimental = 1;
        let status = self.miniport.call_interface("QueryFeatureSupport", || {
            // SAFETY: the driver handed out this function under this prototype; the arguments live across the call.
            unsafe { query(self.context().raw(), &raw mut args) }
        });
        if !status.is_success() || args.SupportedByDriver == 0 {
            return (false, false);
        }
        let versions = args.MinSupportedVersion..=args.MaxSupportedVersion;
        if args.MinSupportedVersion == 0 || versions.is_empty() {
            self.machine.verifier().log(format!(
                "QueryFeatureSupport({}) answered MinSupportedVersion {} and MaxSupportedVersion {}, which is no range from 1 on",
                id.0, args.MinSupportedVersion, args.MaxSupportedVersion
            ));
            return (false, false);
        }
        (versions.contains(&FEATURE_VERSION), args.SupportedOnCurrentConfig != 0)
    }

    /// The driver's feature interface, asked for once.
    fn feature_interface(&self) -> Option<DriverInterface> {
        if let Some(interface) = self.features.interface.get() {
            return *interface;
        }
        let interface = self.query_feature_interface();
        *self.features.interface.get_or_init(|| interface)
    }

    fn query_feature_interface(&self) -> Option<DriverInterface> {
        // The interface came with WDDM 3.2. [d3dkmddi: DXGKDDI_FEATURE_INTERFACE]
        if self.miniport.version().version < DXGKDDI_INTERFACE_VERSION_WDDM3_2 {
            return None;
        }
        let guid = GUID_WDDM_INTERFACE_FEATURE;
        let mut interface = DXGKDDI_FEATURE_INTERFACE::zeroed();
        let mut query = QUERY_INTERFACE::zeroed();
        query.InterfaceType = &raw const guid;
        query.Size = size_of::<DXGKDDI_FEATURE_INTERFACE>() as u16;
        query.Version = DXGKDDI_FEATURE_INTERFACE_VERSION_1;
        let mut place = &mut interface;
        let mut lent = Lent::new(&mut place);
        query.Interface = lent.pass().cast();
        query.DeviceUid = DISPLAY_ADAPTER_HW_ID;
        let status = self.miniport.query_interface(self.context().raw(), &mut query);
        lent.end(self.machine.verifier(), "DxgkDdiQueryInterface", "Interface");
        if !status.is_success() {
            return None;
        }
        DriverInterface::of(&interface).map_err(|broken| self.features.broken.set(broken)).ok()
    }

    /// # Errors
    /// What the driver has handed out as DXGKDDI_FEATURE_INTERFACE is none; no feature was asked for by it.
    pub(crate) fn check_feature_interface(&self) -> Result<(), StartError> {
        self.features.broken.get().map_or(Ok(()), |broken| Err(StartError::FeatureInterface(broken.clone())))
    }

    /// The driver's function that builds test command buffers, where kernel-mode testing is enabled. Asked for once.
    /// [d3dkmddi: DXGKDDI_KERNELMODETESTINGINTERFACE]
    pub(crate) fn test_command_builder(&self) -> Option<PDXGKDDI_BUILDTESTCOMMANDBUFFER> {
        let id = DXGK_FEATURE_ID::DXGK_FEATURE_KERNEL_MODE_TESTING;
        if !self.feature(id).enabled {
            return None;
        }
        if let Some(builder) = self.features.test_commands.get() {
            return *builder;
        }
        let interface = self.feature_interface()?;
        let query = interface.query_interface;
        let mut table = DXGKDDI_KERNELMODETESTINGINTERFACE::zeroed();
        let mut args = DXGKARG_QUERYFEATUREINTERFACE::zeroed();
        (args.FeatureId, args.Version) = (id, FEATURE_VERSION);
        args.InterfaceSize = size_of::<DXGKDDI_KERNELMODETESTINGINTERFACE>() as u16;
        let (mut args_place, mut table_place) = (&mut args, &mut table);
        let mut lent_table = Lent::new(&mut table_place);
        args_place.Interface = lent_table.pass().cast();
        let mut lent = Lent::new(&mut args_place);
        let status = self.miniport.call_interface("QueryFeatureInterface", || {
            // SAFETY: the driver handed out this function under this prototype; arguments and table live across the call.
            unsafe { query(self.context().raw(), lent.pass()) }
        });
        lent.end(self.machine.verifier(), "QueryFeatureInterface", "args");
        lent_table.end(self.machine.verifier(), "QueryFeatureInterface", "Interface");
        let builder = table.pfnBuildTestCommandBuffer.filter(|_| status.is_success());
        if builder.is_none() {
            self.machine
                .verifier()
                .log(format!("QueryFeatureInterface of kernel-mode testing answered {status} or no function"));
        }
        *self.features.test_commands.get_or_init(|| builder)
    }

    /// Gives the driver's feature interface back before the driver is stopped.
    pub(crate) fn release_features(&self) {
        let Some(Some(DriverInterface { context, dereference, .. })) = self.features.interface.get() else { return };
        self.miniport.call_interface("InterfaceDereference", || {
            // SAFETY: the driver handed out this function for this context.
            unsafe { dereference(context.raw()) }
        });
    }
}
