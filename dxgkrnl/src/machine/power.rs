//! Power of adapters and of the machine: D0 and D3, and sleep.

use std::fmt;
use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::types::LUID;

use super::{Machine, PnpError, SystemSleep};
use crate::adapter::{Adapter, NotAsleep, PowerAction};

/// The reason why an engine was not sent to F1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineSleepError {
    /// There is no such adapter that is started, or no such engine of it.
    NoSuchEngine,
    /// The driver has declared no power component with a state below F0 for it.
    NoLowState,
    /// The adapter is in D3.
    Asleep,
    /// Work is under way, or came meanwhile.
    Busy,
}

impl fmt::Display for EngineSleepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchEngine => "the adapter has no such engine",
            Self::NoLowState => "the driver has declared no state below F0 for the engine",
            Self::Asleep => "the adapter is in D3",
            Self::Busy => "the engine has work to do",
        })
    }
}

impl std::error::Error for EngineSleepError {}

impl Machine {
    /// Sends an engine that has nothing to do to F1, as the power manager does with a component that was idle for long: its doorbells are disconnected, and the
    /// next submission brings it back to F0. One that is there stays there. The node is one of a physical adapter, which is 0 unless adapters are linked.
    ///
    /// # Errors
    /// See [`EngineSleepError`]; the engine stays as it is.
    pub fn sleep_engine(&self, luid: LUID, node: u32, physical_adapter: u32) -> Result<(), EngineSleepError> {
        let adapter = self.adapter(luid).ok_or(EngineSleepError::NoSuchEngine)?;
        let node = adapter.caps().node_at(node, physical_adapter).ok_or(EngineSleepError::NoSuchEngine)?;
        let _awake = self.0.gate.enter_awake().ok_or(EngineSleepError::Asleep)?;
        if adapter.power().is_below_f0(node) {
            return Ok(());
        }
        if !adapter.power().is_in_f0(node) {
            return Err(EngineSleepError::NoLowState);
        }
        let scheduler = adapter.scheduler().ok_or(EngineSleepError::NoSuchEngine)?;
        // A look first: the doorbells of an engine that has work stay connected.
        let enters_f1 = scheduler.trace_of_idle(Some(node)).is_some() && scheduler.engine_idle(node);
        if enters_f1 { Ok(()) } else { Err(EngineSleepError::Busy) }
    }

    /// Puts an adapter into D3, as the power manager does with a device that is not needed: contexts are suspended, doorbells
    /// disconnected, then the driver powers it down. Whatever user mode asks of it next wakes it. The adapter keeps registers and
    /// memory.
    ///
    /// # Errors
    /// The adapter is not started, work did not leave its engine, or the machine stopped.
    pub fn power_down(&self, luid: LUID) -> Result<(), PnpError> {
        let _pnp = lock(&self.0.pnp);
        let adapter = self.adapter(luid).ok_or(PnpError::NoSuchAdapter)?;
        self.put_to_sleep(&[adapter], PowerAction::None)
    }

    /// Brings an adapter back to D0, as the power manager does with a device that will be needed.
    ///
    /// # Errors
    /// The adapter is not started, or the machine stopped.
    pub fn power_up(&self, luid: LUID) -> Result<(), PnpError> {
        let _pnp = lock(&self.0.pnp);
        self.adapter(luid).ok_or(PnpError::NoSuchAdapter)?.wake(|| ());
        self.check_stopped()
    }

    /// Puts every adapter into D3 because the machine goes to sleep. Those that are there already learn of that too: their memory was
    /// kept for a device that still has power. [`Machine::wake_for_work`] is what happens when the machine is back.
    ///
    /// # Errors
    /// As [`Machine::power_down`]; adapters that were in D0 may be in D3 then.
    pub fn sleep(&self, state: SystemSleep) -> Result<(), PnpError> {
        let _pnp = lock(&self.0.pnp);
        let adapters = self.adapters();
        adapters.iter().for_each(|adapter| adapter.wake(|| ()));
        let action = match state {
            SystemSleep::Standby => PowerAction::Sleep,
            SystemSleep::Hibernate => PowerAction::Hibernate,
        };
        self.put_to_sleep(&adapters, action)
    }

    /// The machine is back from sleep: adapters that have work left are brought back to D0. The others stay in D3 until somebody needs them.
    pub fn wake_for_work(&self) {
        let _pnp = lock(&self.0.pnp);
        self.adapters().iter().for_each(|adapter| adapter.wake_for_work());
    }

    fn put_to_sleep(&self, adapters: &[Arc<Adapter>], action: PowerAction) -> Result<(), PnpError> {
        let _closed = self.0.gate.close().ok_or(PnpError::Busy)?;
        for adapter in adapters {
            let slept = adapter.sleep(action);
            self.check_stopped()?;
            slept.map_err(|reason| match reason {
                NotAsleep::Busy => PnpError::Busy,
                NotAsleep::NoMemory => PnpError::NoMemory,
            })?;
        }
        Ok(())
    }

    /// True if the adapter is in D3; false if there is no such adapter.
    pub fn is_powered_down(&self, luid: LUID) -> bool {
        self.adapter(luid).is_some_and(|adapter| adapter.is_asleep())
    }

    /// How often an adapter went from D0 to D3, and back.
    pub fn power_transitions(&self, luid: LUID) -> (u64, u64) {
        self.adapter(luid).map_or((0, 0), |adapter| adapter.power_transitions())
    }
}
