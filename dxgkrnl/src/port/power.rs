//! Power components of an adapter: their F-states, who keeps them working, and the order of a transition.
//!
//! A component leaves F1 as soon as somebody uses it ([`PowerComponents::use_node`]), and enters it only when asked
//! ([`PowerComponents::enter_f1_if_idle`]) and nobody does. Transitions of one component follow each other; between
//! DxgkDdiSetPowerComponentFState and DxgkCbCompleteFStateTransition it is in neither state.
//! [gpu-power-management-of-idle-and-active-power]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nt::lock::{Condvar, Mutex, MutexGuard, lock};
use wddm_ddi::km::*;
use wddm_ddi::nt::APC_LEVEL;
use wddm_ddi::status::*;

use super::Port;
use crate::rank;
use crate::start_error::StartError;
use nt::bugcheck::Bugcheck;
use nt::irql;

/// How long a driver may take to complete a transition. [tdr-registry-keys: TdrDelay]
const TRANSITION_LIMIT: Duration = Duration::from_secs(2);
/// The working state.
const F0: u32 = 0;
/// The state of an engine without work.
const F1: u32 = 1;
/// Most components of an adapter; more make no sense on any hardware.
pub(crate) const COMPONENTS_MAX: u32 = 256;

/// A power component as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerComponentState {
    /// Node of an engine component.
    pub node: Option<u32>,
    /// F1 of this component means that the device may leave D0.
    pub is_d3_transition: bool,
    /// F-state; 0 works.
    pub fstate: u32,
    /// Times it was put into a low state.
    pub left_f0: u64,
    /// Times it was brought back to F0.
    pub wakes: u64,
}

/// The F-state of a power component, and how often it is needed in F0.
#[derive(Default)]
struct Uses {
    fstate: u32,
    /// Of the system.
    system: u32,
    /// DxgkCbSetPowerComponentActive without DxgkCbSetPowerComponentIdle.
    driver: u32,
    /// The engine asked to rest and was used at that moment; an engine asks once for each time it is idle.
    asked: bool,
}

impl Uses {
    fn is_unused(&self) -> bool {
        self.system == 0 && self.driver == 0
    }
}

thread_local! {
    /// The component of which the calling thread is inside DxgkDdiSetPowerComponentFState, as the driver names it.
    static INSIDE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The calling thread is inside DxgkDdiSetPowerComponentFState until this is dropped.
struct Inside {
    before: Option<u32>,
}

impl Inside {
    fn of(component: u32) -> Self {
        Self { before: INSIDE.replace(Some(component)) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Progress of a power transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transition {
    #[default]
    None,
    /// The driver was or is being asked.
    Asked,
    /// The driver has said that it is done.
    Completed,
}

/// A power component as the driver declared it.
pub(crate) struct Component {
    /// The node of an engine.
    pub(crate) node: Option<u32>,
    /// The identifier of a memory segment.
    segment: Option<u32>,
    kind: DXGK_POWER_COMPONENT_TYPE,
    /// F1 means that the device may leave D0, which is inferred from the name of the type; its page says no more. [d3dkmddi: DXGK_POWER_COMPONENT_TYPE]
    is_d3_transition: bool,
    states: u32,
    driver_completes: bool,
    /// Held over a transition: whoever needs the component meanwhile waits.
    uses: Mutex<Uses, rank::PowerComponent>,
    transition: Mutex<Transition>,
    completed: Condvar,
    left_f0: AtomicU64,
    wakes: AtomicU64,
}

/// The components that the driver declared; none on an adapter that does not manage power at run time.
#[derive(Default)]
pub(crate) struct PowerComponents {
    /// Those of every engine, one engine after the other.
    list: OnceLock<Vec<Component>>,
    /// Components of one engine.
    of_engine: OnceLock<u32>,
    /// Engine and node of those that were idle before there was a scheduler to tell. Device level takes it.
    early: Mutex<BTreeSet<(u32, u32)>>,
}

/// Somebody uses a node, which works until this is dropped.
#[must_use = "the node may enter F1 when this is dropped"]
pub(crate) struct NodeUse<'a>(Option<(&'a Port, &'a Component)>);

impl Drop for NodeUse<'_> {
    fn drop(&mut self) {
        let Some((adapter, component)) = self.0 else { return };
        let mut uses = lock(&component.uses);
        uses.system -= 1;
        let enters = uses.is_unused() && core::mem::take(&mut uses.asked);
        drop(uses);
        if enters {
            component.ask_again(adapter);
        }
    }
}

/// The rules for the F-states of a component, F0 first: what F0 has, and that a deeper state uses less power and takes longer to leave. States
/// whose power nobody measured are left out of the comparison. [d3dkmddi: DXGK_POWER_RUNTIME_STATE]
fn check_states(states: &[DXGK_POWER_RUNTIME_STATE]) -> Result<(), String> {
    let Some(f0) = states.first() else { return Ok(()) };
    let zero = [("TransitionLatency", f0.TransitionLatency), ("ResidencyRequirement", f0.ResidencyRequirement)];
    if let Some((member, value)) = zero.into_iter().find(|(_, value)| *value != 0) {
        return Err(format!("F0 has {value} as {member}, which must be 0"));
    }
    if f0.NominalPower == 0 {
        return Err("F0 has 0 as NominalPower, which must not be 0".to_owned());
    }
    let (mut latency, mut power) = (None, None);
    for (fstate, state) in states.iter().enumerate() {
        if latency.is_some_and(|above| state.TransitionLatency <= above) {
            return Err(format!("TransitionLatency of F{fstate} is not larger than that of the state above it"));
        }
        latency = Some(state.TransitionLatency);
        if state.NominalPower == DXGK_FSTATE_UNKNOWN_POWER {
            continue;
        }
        if power.is_some_and(|above| state.NominalPower >= above) {
            return Err(format!("NominalPower of F{fstate} is not smaller than that of a state above it"));
        }
        power = Some(state.NominalPower);
    }
    Ok(())
}

/// What components of a physical adapter may stand for: so many nodes, and so many memory segments, which are numbered from 1.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) nodes: u32,
    pub(crate) segments: u32,
}

/// The node of an engine or the segment of memory that a component stands for. [d3dkmddi: DXGK_POWER_COMPONENT_MAPPING]
///
/// # Errors
/// There is none of this number.
fn check_mapping(mapping: &DXGK_POWER_COMPONENT_MAPPING, parts: Parts) -> Result<(Option<u32>, Option<u32>), String> {
    match mapping.ComponentType {
        DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_ENGINE => {
            // SAFETY: both arms are a number.
            let node = unsafe { mapping.u.EngineDesc }.NodeIndex;
            if node < parts.nodes {
                return Ok((Some(node), None));
            }
            let nodes = parts.nodes;
            Err(format!("ComponentMapping.EngineDesc.NodeIndex {node} does not exist: there are {nodes} nodes"))
        }
        DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_MEMORY => {
            // SAFETY: both arms are a number.
            let segment = unsafe { mapping.u.MemoryDesc }.SegmentID;
            if (1..=parts.segments).contains(&segment) {
                return Ok((None, Some(segment)));
            }
            let last = parts.segments;
            Err(format!(
                "ComponentMapping.MemoryDesc.SegmentID {segment} does not exist: there are the segments 1 to {last}"
            ))
        }
        _ => Ok((None, None)),
    }
}

/// The rules for one component of an adapter with these parts.
pub(crate) fn check_component(
    index: u32,
    count: u32,
    info: &DXGK_POWER_RUNTIME_COMPONENT,
    parts: Parts,
) -> Result<Component, StartError> {
    let broken = |rule: String| Err(StartError::PowerComponent { index, rule });
    let states = info.StateCount;
    if !(1..=info.States.len() as u32).contains(&states) {
        return broken(format!("{states} F-states; 1 to {} are allowed", info.States.len()));
    }
    if let Err(rule) = check_states(info.States.get(..states as usize).unwrap_or_default()) {
        return broken(rule);
    }
    if !(0..DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_MAX.0).contains(&info.ComponentMapping.ComponentType.0) {
        return broken(format!("type {} does not exist", info.ComponentMapping.ComponentType.0));
    }
    let Some(providers) = info.Providers.get(..info.ProviderCount as usize) else {
        return broken(format!("ProviderCount is {}, and Providers has {}", info.ProviderCount, info.Providers.len()));
    };
    if let Some(provider) = providers.iter().find(|provider| **provider >= count || **provider == index) {
        return broken(format!(
            "Providers has {provider}, which is not another of the {count} components of the adapter"
        ));
    }
    if !info.ComponentName.contains(&0) {
        return broken(format!("no zero ends the {} bytes of ComponentName", info.ComponentName.len()));
    }
    const FLAGS: DXGK_POWER_COMPONENT_FLAGS = DXGK_POWER_COMPONENT_FLAGS::new()
        .with_DriverCompletesFStateTransition(true)
        .with_TransitionTo_F0_OnDx(true)
        .with_NoDebounce(true)
        .with_ActiveInD3(true);
    let reserved = info.Flags.into_bits() & !FLAGS.into_bits();
    if reserved != 0 {
        return broken(format!("Flags has the reserved bits {reserved:#x}"));
    }
    let is_d3_transition =
        info.ComponentMapping.ComponentType == DXGK_POWER_COMPONENT_TYPE::DXGK_POWER_COMPONENT_D3_TRANSITION;
    // The rule of this system, as no page says what the states of this type are.
    if is_d3_transition && states != 2 {
        return broken(format!("{states} F-states of a D3 transition, which has F0 and F1"));
    }
    let (node, segment) =
        check_mapping(&info.ComponentMapping, parts).map_err(|rule| StartError::PowerComponent { index, rule })?;
    Ok(Component {
        node,
        segment,
        kind: info.ComponentMapping.ComponentType,
        is_d3_transition,
        states,
        driver_completes: info.Flags.DriverCompletesFStateTransition(),
        uses: Mutex::default(),
        transition: Mutex::default(),
        completed: Condvar::new(),
        left_f0: AtomicU64::new(0),
        wakes: AtomicU64::new(0),
    })
}

impl PowerComponents {
    /// The driver declared these, the same number for each engine.
    pub(crate) fn declare(&self, of_engine: u32, list: Vec<Component>) {
        let _ = self.of_engine.set(of_engine);
        let _ = self.list.set(list);
    }

    /// True if the driver declared none.
    pub(crate) fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    fn list(&self) -> &[Component] {
        self.list.get().map_or(&[], Vec::as_slice)
    }

    /// The component that the driver names, and its place in the list.
    fn named(&self, name: u32) -> Option<(u32, &Component)> {
        let of_engine = *self.of_engine.get()?;
        let place = (name >> 16).checked_mul(of_engine)?.checked_add(name & 0xffff)?;
        Some((place, self.list().get(place as usize).filter(|_| name & 0xffff < of_engine)?))
    }

    /// The type of the component that the driver names; None if it has declared none by this name.
    pub(crate) fn kind_of(&self, name: u32) -> Option<DXGK_POWER_COMPONENT_TYPE> {
        self.named(name).map(|(_, component)| component.kind)
    }

    /// How the driver names the component at a place of the list: the engine in the upper half. [d3dkmthk: PDXGK_FSTATE_NOTIFICATION]
    fn name_of(&self, place: u32) -> u32 {
        let of_engine = self.of_engine.get().copied().unwrap_or(1).max(1);
        ((place / of_engine) << 16) | (place % of_engine)
    }

    fn of_node(&self, node: u32) -> Option<(u32, &Component)> {
        (0..).zip(self.list()).find(|(_, component)| component.node == Some(node))
    }

    /// An engine changed its state while the adapter is still being started. A hang is found later, by work that does not end.
    pub(crate) fn note_early(&self, (node, engine): (u32, u32), state: DXGK_ENGINE_STATE) {
        let named = node < u64::BITS && engine < u64::BITS;
        if state == DXGK_ENGINE_STATE::DXGK_ENGINE_STATE_TRANSITION_TO_F1 && named {
            lock(&self.early).insert((engine, node));
        }
    }

    /// Node and engine of those that said early that they are idle.
    pub(crate) fn take_early(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        std::mem::take(&mut *lock(&self.early)).into_iter().map(|(engine, node)| (node, engine))
    }

    /// Every component as it is now.
    pub(crate) fn states(&self) -> Vec<PowerComponentState> {
        let state = |component: &Component| PowerComponentState {
            node: component.node,
            is_d3_transition: component.is_d3_transition,
            fstate: lock(&component.uses).fstate,
            left_f0: component.left_f0.load(Ordering::Relaxed),
            wakes: component.wakes.load(Ordering::Relaxed),
        };
        self.list().iter().map(state).collect()
    }

    /// True if the component of `node` is in F0 and has a lower state.
    pub(crate) fn is_in_f0(&self, node: u32) -> bool {
        self.of_node(node).is_some_and(|(_, component)| component.states > F1 && lock(&component.uses).fstate == F0)
    }

    /// True if the component of `node` is in a low state.
    pub(crate) fn is_below_f0(&self, node: u32) -> bool {
        self.of_node(node).is_some_and(|(_, component)| lock(&component.uses).fstate != F0)
    }

    /// The components whose F1 means that the device may leave D0, with their places: one for each engine.
    fn d3_transitions(&self) -> impl Iterator<Item = (u32, &Component)> {
        (0..).zip(self.list()).filter(|(_, component)| component.is_d3_transition)
    }

    /// True if the device may leave D0 at run time: the driver declared a D3 transition for each of its functions, of which there are `functions`.
    pub(crate) fn allows_d3(&self, functions: usize) -> bool {
        functions != 0 && self.d3_transitions().count() == functions
    }

    /// Brings every D3 transition to F1 before the device leaves D0 at run time, or to F0 when it is back.
    pub(crate) fn set_d3_transition(&self, adapter: &Port, leaves: bool) {
        for (place, component) in self.d3_transitions() {
            component.bring(adapter, place, &mut lock(&component.uses), if leaves { F1 } else { F0 });
        }
    }

    /// True if somebody needs a component at the moment, which needs the device.
    pub(crate) fn is_used(&self) -> bool {
        self.list().iter().any(|component| !lock(&component.uses).is_unused())
    }

    /// Keeps the component of `node` in F0, bringing it there if it is not. Not for callers at device level.
    pub(crate) fn use_node<'a>(&'a self, adapter: &'a Port, node: u32) -> NodeUse<'a> {
        let Some((index, component)) = self.of_node(node) else { return NodeUse(None) };
        let mut uses = lock(&component.uses);
        uses.system += 1;
        component.bring(adapter, index, &mut uses, F0);
        NodeUse(Some((adapter, component)))
    }

    /// Puts the component of `node` into F1 if it has that state, nobody uses it and `is_idle` says that nothing is under way; asked
    /// while nobody can begin to use it. False if it stays as it is.
    pub(crate) fn enter_f1_if_idle(&self, adapter: &Port, node: u32, is_idle: impl FnOnce() -> bool) -> bool {
        let Some((index, component)) = self.of_node(node).filter(|(_, component)| component.states > F1) else {
            return false;
        };
        let mut uses = lock(&component.uses);
        uses.asked = uses.fstate == F0 && !uses.is_unused();
        let enters = uses.fstate == F0 && uses.is_unused() && is_idle();
        if enters {
            component.bring(adapter, index, &mut uses, F1);
        }
        enters
    }

    /// DxgkCbSetPowerComponentActive: the driver needs the component. A thread that calls it during a transition of the component waits for the end of that.
    /// [d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE]
    ///
    /// # Errors
    /// The bugcheck that the driver earned by calling it where it could not wait: from inside DxgkDdiSetPowerComponentFState, whose page forbids it until
    /// that has returned, or above PASSIVE_LEVEL, the level of its page, during a transition of the component.
    pub(crate) fn driver_uses(&self, adapter: &Port, index: u32) -> Result<NTSTATUS, Bugcheck> {
        let Some((place, component)) = self.named(index) else { return Ok(STATUS_INVALID_PARAMETER) };
        if let Some(outer) = INSIDE.get() {
            return Err(Bugcheck::fatal(format!(
                "DxgkCbSetPowerComponentActive({index}) inside DxgkDdiSetPowerComponentFState of component {outer}: it may be called once that has returned, for it may wait for the end of a transition \
                 [d3dkmddi: DXGKDDISETPOWERCOMPONENTFSTATE]"
            )));
        }
        let mut uses = component.uses_at_level(index)?;
        uses.driver += 1;
        component.bring(adapter, place, &mut uses, F0);
        Ok(STATUS_SUCCESS)
    }

    /// DxgkCbSetPowerComponentIdle: the driver does not need it any more. [d3dkmddi: DXGKCB_SETPOWERCOMPONENTIDLE]
    ///
    /// # Errors
    /// The bugcheck that the driver earned by giving back what it did not take.
    pub(crate) fn driver_releases(&self, adapter: &Port, index: u32) -> Result<NTSTATUS, Bugcheck> {
        let Some((_, component)) = self.named(index) else { return Ok(STATUS_INVALID_PARAMETER) };
        let mut uses = lock(&component.uses);
        uses.driver = uses.driver.checked_sub(1).ok_or_else(|| {
            Bugcheck::fatal(format!("DxgkCbSetPowerComponentIdle({index}) without DxgkCbSetPowerComponentActive"))
        })?;
        let enters = uses.is_unused() && core::mem::take(&mut uses.asked);
        drop(uses);
        if enters {
            component.ask_again(adapter);
        }
        Ok(STATUS_SUCCESS)
    }

    /// DxgkCbCompleteFStateTransition. [d3dkmddi: DXGKCB_COMPLETEFSTATETRANSITION]
    ///
    /// # Errors
    /// The bugcheck that the driver earned by completing what was not asked for, or twice, or what is not its to complete.
    pub(crate) fn complete(&self, index: u32) -> Result<(), Bugcheck> {
        let broken = |rule: &str| Err(Bugcheck::fatal(format!("DxgkCbCompleteFStateTransition({index}): {rule}")));
        let Some((_, component)) = self.named(index) else { return broken("no such component was declared") };
        if !component.driver_completes {
            return broken("the component was declared without DriverCompletesFStateTransition");
        }
        let mut transition = lock(&component.transition);
        match *transition {
            Transition::None => broken("no transition of the component is under way"),
            Transition::Completed => broken("the transition was completed already"),
            Transition::Asked => {
                *transition = Transition::Completed;
                component.completed.notify_all();
                Ok(())
            }
        }
    }
}

impl Component {
    /// The uses of the component, which are locked during its transitions.
    ///
    /// # Errors
    /// The bugcheck of a driver whose call would wait for the end of a transition above APC_LEVEL.
    fn uses_at_level(&self, index: u32) -> Result<MutexGuard<'_, Uses, rank::PowerComponent>, Bugcheck> {
        let level = irql::current();
        if level <= APC_LEVEL {
            return Ok(lock(&self.uses));
        }
        loop {
            if *lock(&self.transition) != Transition::None {
                return Err(Bugcheck::fatal(format!(
                    "DxgkCbSetPowerComponentActive({index}) at IRQL {level} during a transition of the component, for whose end it waits: PASSIVE_LEVEL is required \
                     [d3dkmddi: DXGKCB_SETPOWERCOMPONENTACTIVE]"
                )));
            }
            // Another call has it for a moment, or begins a transition.
            if let Some(uses) = self.uses.try_lock() {
                return Ok(uses);
            }
            std::thread::yield_now();
        }
    }

    /// Both stand for the same engine, for the same memory segment, or for the transition to D3 of the same device.
    pub(crate) fn is_twin_of(&self, other: &Self) -> bool {
        self.node.is_some() && self.node == other.node
            || self.segment.is_some() && self.segment == other.segment
            || self.is_d3_transition && other.is_d3_transition
    }

    /// The engine asked to rest while it was used, and is not used any more.
    fn ask_again(&self, adapter: &Port) {
        if let Some(node) = self.node {
            adapter.tell_idle(node);
        }
    }

    /// Brings the component to `fstate`, unless it is there. [d3dkmddi: DXGKDDISETPOWERCOMPONENTFSTATE]
    fn bring(&self, adapter: &Port, index: u32, uses: &mut MutexGuard<'_, Uses, rank::PowerComponent>, fstate: u32) {
        if uses.fstate == fstate {
            return;
        }
        *lock(&self.transition) = Transition::Asked;
        let named = adapter.power.name_of(index);
        let status = {
            let _inside = Inside::of(named);
            adapter.miniport.set_power_component_fstate(adapter.context().raw(), named, fstate).status()
        };
        let verifier = adapter.machine.verifier();
        if !status.is_success() && !verifier.is_stopped() {
            verifier.raise(Bugcheck::fatal(format!(
                "DxgkDdiSetPowerComponentFState({index}, F{fstate}) may not fail, it answered {status}"
            )));
        }
        if self.driver_completes && !self.wait_completed(adapter) && !verifier.is_stopped() {
            verifier.raise(Bugcheck::fatal(format!(
                "the transition of component {index} to F{fstate} was not completed within {} s: DxgkDdiSetPowerComponentFState was called, the component was declared with \
                 DriverCompletesFStateTransition, and expected was DxgkCbCompleteFStateTransition [d3dkmddi: DXGKCB_COMPLETEFSTATETRANSITION]",
                TRANSITION_LIMIT.as_secs()
            )));
        }
        *lock(&self.transition) = Transition::None;
        uses.fstate = fstate;
        let counter = if fstate == F0 { &self.wakes } else { &self.left_f0 };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn wait_completed(&self, adapter: &Port) -> bool {
        let limit = Instant::now() + TRANSITION_LIMIT;
        let mut transition = lock(&self.transition);
        while *transition != Transition::Completed {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() || adapter.machine.verifier().is_stopped() {
                return false;
            }
            if adapter.machine.config().interrupt_thread {
                let nap = left.min(Duration::from_millis(200));
                let waited = self.completed.wait_timeout(transition, nap);
                transition = waited;
            } else {
                drop(transition);
                if !adapter.relax() {
                    std::thread::yield_now();
                }
                transition = lock(&self.transition);
            }
        }
        true
    }
}
